// SPDX-License-Identifier: Apache-2.0
//
// The health stream: every message is the whole list. It is sent when something changes and every
// few seconds besides, because kubelet forgets what it has not heard of for half a minute.
#include <stdlib.h>

#include "driver/sdk/sdk.h"

#include "base/banned.h"

#define HEALTH_EVERY_NS    (10 * CLOCK_NS_PER_SEC)
#define HEALTH_TIMEOUT_SEC 30

struct stream {
    struct list_node node;
    struct grpc_call *call;
};

static void health_encode_devices(struct dray_driver *d, struct proto_writer *w)
{
    struct plugin_health_response r = {0};
    cleanup_arena struct arena arena = {0};
    int64_t now = exec_wall_ns(d->runtime->exec) / CLOCK_NS_PER_SEC;
    map_foreach(&d->health, i) {
        const struct sdk_health *h = map_value(&d->health, i);
        const struct plugin_device_health one = {.device = {str_z(h->pool), str_z(h->device)},
                                                 .health =
                                                     (int64_t)h->health, // the protocol's numbers
                                                 .last_updated_time_sec = now,
                                                 .health_check_timeout_sec = HEALTH_TIMEOUT_SEC,
                                                 .message = str_z(h->message)};
        vec_push_arena(&arena, &r.devices, one);
    }
    plugin_encode(&plugin_health_response_message, &r, w);
}

static void health_send_all(struct dray_driver *d)
{
    if (list_empty(&d->streams))
        return;
    struct proto_writer w = {0};
    health_encode_devices(d, &w);
    list_foreach(&d->streams, n)
        (void)grpc_send(list_entry(n, struct stream, node)->call, proto_written(&w));
    proto_writer_done(&w);
}

static void health_on_tick(void *arg)
{
    struct dray_driver *d = arg;
    health_send_all(d);
    exec_timer_start(d->runtime->exec, &d->health_timer, HEALTH_EVERY_NS);
}

static void stream_closed(void *arg)
{
    struct stream *s = arg;
    list_remove(&s->node);
    free(s);
}

static void health_watch_resources(void *arg, struct grpc_call *call)
{
    struct dray_driver *d = arg;
    struct stream *s = xcalloc(1, sizeof(*s));
    s->call = call;
    call->closed = stream_closed;
    call->arg = s;
    list_push_back(&d->streams, &s->node);
    struct proto_writer w = {0};
    health_encode_devices(d, &w);
    (void)grpc_send(call, proto_written(&w));
    proto_writer_done(&w);
}

void sdk_health_open(struct dray_driver *d)
{
    grpc_server_handle(d->server, STR(PLUGIN_HEALTH_V1), health_watch_resources, d);
    grpc_server_handle(d->server, STR(PLUGIN_HEALTH_ALPHA), health_watch_resources, d);
    d->health_timer = (struct exec_timer){.fn = health_on_tick, .arg = d};
    exec_timer_start(d->runtime->exec, &d->health_timer, HEALTH_EVERY_NS);
}

static void health_done(struct sdk_health *h)
{
    free(h->pool);
    free(h->device);
    free(h->message);
}

void sdk_health_close(struct dray_driver *d)
{
    exec_timer_stop(d->runtime->exec, &d->health_timer);
    list_foreach(&d->streams, n) {
        struct stream *s = list_entry(n, struct stream, node);
        list_remove(n);
        grpc_finish(s->call, GRPC_UNAVAILABLE, STR("the driver stops"));
        free(s);
    }
    map_foreach(&d->health, i) {
        free((void *)(uintptr_t)map_key(&d->health, i).p);
        health_done(map_value(&d->health, i));
    }
    map_done(&d->health);
    d->health = (struct sdk_healths){0};
}

struct health_job {
    struct dray_driver *driver;
    char *key;
    struct sdk_health health;
};

static void set_on_loop(void *arg)
{
    struct health_job *job = arg;
    struct dray_driver *d = job->driver;
    bool new = false;
    struct sdk_health *h = map_put_new(&d->health, str_z(job->key), &new);
    if (new)
        job->key = NULL; // the map's now
    else
        health_done(h);
    *h = job->health;
    free(job->key);
    free(job);
    health_send_all(d);
}

static char *health_copy_text(const char *text)
{
    return xstrndup(text ? text : "", text ? strlen(text) : 0);
}

void dray_health(struct dray_driver *d, const char *pool, const char *device,
                 enum dray_health health, const char *message)
{
    struct health_job *job = xcalloc(1, sizeof(*job));
    struct sbuf key = {0};
    pool = pool ? pool : d->o.node;
    sbuf_addf(&key, "%s/%s", pool ? pool : "", device);
    job->driver = d;
    job->key = sbuf_take(&key);
    job->health = (struct sdk_health){.pool = health_copy_text(pool),
                                      .device = health_copy_text(device),
                                      .message = health_copy_text(message),
                                      .health = health};
    exec_post(d->runtime->exec, set_on_loop, job);
}

// SPDX-License-Identifier: Apache-2.0
#include "sched/event.h"

#include "base/map.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// Events that are remembered; the oldest is forgotten first.
#define REMEMBERED 4096

// The same event is written again at most this often.
#define REPEAT_NS (60 * CLOCK_NS_PER_SEC)

// All events together: this many at once, then so many a second. Who is left out is told of by its
// condition all the same.
#define BURST   500
#define PER_SEC 50

struct record {
    struct str key; // uid and reason; owned
    struct str namespace, name;
    int64_t first_ns; // wall
    int64_t written_ns;
    int32_t count;
    bool created;
};

struct events {
    struct client *client;
    struct str component;
    struct record_map MAP(struct record *) by_key;
    struct record_ring VEC(struct record *) ring; // in order of first use
    size_t next;                                  // to be replaced
    int64_t tokens_ns;                            // saved up
    int64_t last_ns;
    const struct api_kind *kind;
};

struct events *events_new(struct client *client, struct str component)
{
    struct events *e = xcalloc(1, sizeof(*e));
    e->client = client;
    e->component = str_make(xstrndup(component.p, component.n), component.n);
    e->kind = api_kind_find(STR("v1"), STR("Event"));
    e->tokens_ns = CLOCK_NS_PER_SEC / PER_SEC * BURST;
    e->last_ns = exec_now_ns(client->exec);
    return e;
}

static void record_free(struct record *r)
{
    free((void *)(uintptr_t)r->key.p);
    free((void *)(uintptr_t)r->namespace.p);
    free((void *)(uintptr_t)r->name.p);
    free(r);
}

void events_free(struct events *e)
{
    if (!e)
        return;
    vec_foreach(&e->ring, r)
        record_free(*r);
    vec_done(&e->ring);
    map_done(&e->by_key);
    free((void *)(uintptr_t)e->component.p);
    free(e);
}

static bool may_write(struct events *e)
{
    const int64_t price = CLOCK_NS_PER_SEC / PER_SEC;
    int64_t now = exec_now_ns(e->client->exec);
    e->tokens_ns += now - e->last_ns;
    e->last_ns = now;
    if (e->tokens_ns > price * BURST)
        e->tokens_ns = price * BURST;
    if (e->tokens_ns < price)
        return false;
    e->tokens_ns -= price;
    return true;
}

static void written(void *arg, const struct client_answer *answer)
{
    (void)arg; // nobody waits for an event
    (void)answer;
}

static struct api_time time_at(int64_t wall_ns)
{
    struct api_time t = {moment_from_ns(wall_ns), true};
    t.at.nsec = 0;
    return t;
}

static void create(struct events *e, struct record *r, const struct client_object *about,
                   const char *type, const char *reason, struct str message)
{
    int64_t wall = exec_wall_ns(e->client->exec);
    struct api_event event = {
        .metadata = {.namespace = r->namespace, .name = r->name},
        .involved_object = {.kind = about->object.kind->kind,
                            .namespace = about->meta->namespace,
                            .name = about->meta->name,
                            .uid = about->meta->uid,
                            .api_version = about->object.kind->api_version,
                            .resource_version = about->meta->resource_version},
        .reason = str_z(reason),
        .message = str_upto(message, 1024),
        .source = {.component = e->component},
        .first_timestamp = time_at(wall),
        .last_timestamp = time_at(wall),
        .count = 1,
        .type = str_z(type),
        .reporting_component = e->component,
    };
    struct api_object o = {e->kind, &event};
    client_create(e->client, &o, NULL, written, NULL);
    r->first_ns = wall;
}

static void update(struct events *e, const struct record *r, struct str message)
{
    cleanup_sbuf struct sbuf body = {0};
    sbuf_addf(&body, "{\"count\":%d,\"lastTimestamp\":\"", r->count);
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(e->client->exec)), &body);
    sbuf_addz(&body, "\",\"message\":");
    sbuf_add_json_str(&body, str_upto(message, 1024), false);
    sbuf_addc(&body, '}');
    struct client_key key = {e->kind, r->namespace, r->name};
    client_patch(e->client, &key, CLIENT_PATCH_MERGE, sbuf_str(&body), NULL, written, NULL);
}

static struct record *remember(struct events *e, struct str key, const struct client_object *about)
{
    struct record *r = xcalloc(1, sizeof(*r));
    struct str ns = about->meta->namespace.n ? about->meta->namespace : STR("default");
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "%.*s.%016llx", STR_ARG(str_upto(about->meta->name, 236)),
              (unsigned long long)rng_u64(e->client->exec->rng));
    r->key = str_make(xstrndup(key.p, key.n), key.n);
    r->namespace = str_make(xstrndup(ns.p, ns.n), ns.n);
    r->name = str_make(xstrndup(name.p, name.n), name.n);
    if (e->ring.n < REMEMBERED) {
        vec_push(&e->ring, r);
    } else {
        struct record *old = e->ring.p[e->next];
        (void)map_del(&e->by_key, old->key);
        record_free(old);
        e->ring.p[e->next] = r;
        e->next = (e->next + 1) % REMEMBERED;
    }
    *map_put(&e->by_key, r->key) = r;
    return r;
}

void events_record(struct events *e, const struct client_object *about, const char *type,
                   const char *reason, struct str message)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s %s", STR_ARG(about->meta->uid), reason);
    struct record **known = map_get(&e->by_key, sbuf_str(&key));
    struct record *r = known ? *known : remember(e, sbuf_str(&key), about);
    int64_t now = exec_now_ns(e->client->exec);
    r->count++;
    if (r->created && now - r->written_ns < REPEAT_NS)
        return;
    if (!may_write(e))
        return;
    if (r->created)
        update(e, r, message);
    else
        create(e, r, about, type, reason, message);
    r->created = true;
    r->written_ns = now;
}

// SPDX-License-Identifier: Apache-2.0
//
// A kubelet's end of the plugin protocol, for tests: registers a plugin and calls it.
//
//     plugin_call [--beta] SOCKET info|health
//     plugin_call [--beta] SOCKET prepare|unprepare NAMESPACE/NAME/UID...
//     plugin_call [--beta] SOCKET bench ROUNDS NAMESPACE/NAME/UID   nanoseconds of each prepare
//
// SOCKET is the registration socket. Prints one line of JSON for each answer; exit 1 when a call fails.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json_writer.h"
#include "driver/plugin_api.h"
#include "net/grpc.h"

#include "base/banned.h"

struct peer {
    struct loop *loop;
    struct grpc_client *client;
    const char *verb;
    char **claims;
    int claims_len;
    int64_t rounds;
    int64_t began_ns;
    char endpoint[256];
    bool beta;
    bool preparing;
    int status;
};

static void stop(struct peer *p, int status)
{
    p->status = status;
    loop_stop(p->loop);
}

static void member(struct json_writer *w, const char *key, struct str value)
{
    json_write_key(w, str_z(key));
    json_write_str(w, value);
}

static void texts(struct json_writer *w, const char *key, const struct plugin_strs *list)
{
    json_write_key(w, str_z(key));
    json_write_array_begin(w);
    vec_foreach(list, s)
        json_write_str(w, *s);
    json_write_array_end(w);
}

// --- Showing answers -----------------------------------------------------------------------------

static int show_prepared(struct str bytes, struct arena *a)
{
    struct plugin_prepare_response r = {0};
    int status = plugin_decode(&plugin_prepare_response_message, bytes, &r, a, NULL) != 0;
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    vec_foreach(&r.claims, c) {
        json_write_key(&w, c->uid);
        json_write_object_begin(&w);
        member(&w, "error", c->claim.error);
        status |= c->claim.error.n > 0;
        json_write_key(&w, STR("devices"));
        json_write_array_begin(&w);
        vec_foreach(&c->claim.devices, d) {
            json_write_object_begin(&w);
            texts(&w, "requests", &d->request_names);
            member(&w, "pool", d->pool_name);
            member(&w, "device", d->device_name);
            texts(&w, "cdi", &d->cdi_device_ids);
            if (d->has_share_id)
                member(&w, "share", d->share_id);
            json_write_object_end(&w);
        }
        json_write_array_end(&w);
        json_write_object_end(&w);
    }
    json_write_object_end(&w);
    puts(out.p);
    return status;
}

static int show_unprepared(struct str bytes, struct arena *a)
{
    struct plugin_unprepare_response r = {0};
    int status = plugin_decode(&plugin_unprepare_response_message, bytes, &r, a, NULL) != 0;
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    vec_foreach(&r.claims, c) {
        json_write_key(&w, c->uid);
        json_write_object_begin(&w);
        member(&w, "error", c->claim.error);
        json_write_object_end(&w);
        status |= c->claim.error.n > 0;
    }
    json_write_object_end(&w);
    puts(out.p);
    return status;
}

static void health(void *arg, struct str bytes)
{
    cleanup_arena struct arena a = {0};
    struct plugin_health_response r = {0};
    (void)arg;
    if (plugin_decode(&plugin_health_response_message, bytes, &r, &a, NULL) != 0)
        return;
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_object_begin(&w);
    vec_foreach(&r.devices, d) {
        json_write_key(&w, d->device.device_name);
        json_write_i64(&w, d->health);
    }
    json_write_object_end(&w);
    puts(out.p);
    (void)fflush(stdout);
}

// --- Calls ---------------------------------------------------------------------------------------

static void call(struct peer *p, const char *method);

static void answered(void *arg, const struct grpc_result *r)
{
    struct peer *p = arg;
    cleanup_arena struct arena a = {0};
    if (r->status != GRPC_OK) {
        (void)fprintf(stderr, "%s: %.*s\n", grpc_status_name(r->status), STR_ARG(r->message));
        stop(p, 1);
        return;
    }
    if (strcmp(p->verb, "bench") == 0) {
        struct plugin_prepare_response prepared = {0};
        if (p->preparing && (plugin_decode(&plugin_prepare_response_message, r->response, &prepared,
                                           &a, NULL) != 0 ||
                             prepared.claims.n == 0 || prepared.claims.p[0].claim.error.n)) {
            (void)fprintf(stderr, "prepare failed\n");
            stop(p, 1);
            return;
        }
        if (p->preparing)
            printf("%lld\n", (long long)(exec_now_ns(loop_exec(p->loop)) - p->began_ns));
        else
            p->rounds--;
        p->preparing = !p->preparing;
        if (p->rounds == 0)
            stop(p, 0);
        else
            call(p, p->preparing ? "NodePrepareResources" : "NodeUnprepareResources");
        return;
    }
    bool prepare = strcmp(p->verb, "prepare") == 0;
    stop(p, prepare ? show_prepared(r->response, &a) : show_unprepared(r->response, &a));
}

static void call(struct peer *p, const char *method)
{
    cleanup_arena struct arena a = {0};
    struct plugin_claims claims = {0};
    for (int i = 0; i < p->claims_len; i++) {
        struct plugin_claim c;
        struct str rest;
        str_cut(str_z(p->claims[i]), '/', &c.namespace, &rest);
        str_cut(rest, '/', &c.name, &c.uid);
        vec_push_arena(&a, &claims.claims, c);
    }
    struct proto_writer w = {0};
    plugin_encode(&plugin_claims_message, &claims, &w);
    struct str name = arena_strf(&a, "%s%s", p->beta ? PLUGIN_DRA_V1BETA1 : PLUGIN_DRA_V1, method);
    const struct grpc_request q = {.method = name,
                                   .message = proto_written(&w),
                                   .timeout_ns = 45 * CLOCK_NS_PER_SEC,
                                   .wait_for_ready = true,
                                   .done = answered,
                                   .arg = p};
    p->began_ns = exec_now_ns(loop_exec(p->loop));
    (void)grpc_client_call(p->client, &q);
    proto_writer_done(&w);
}

static void watch_health(struct peer *p)
{
    const struct grpc_request q = {.method =
                                       p->beta ? STR(PLUGIN_HEALTH_ALPHA) : STR(PLUGIN_HEALTH_V1),
                                   .message = STR(""),
                                   .wait_for_ready = true,
                                   .received = health,
                                   .done = answered,
                                   .arg = p};
    (void)grpc_client_call(p->client, &q);
}

// --- Registration --------------------------------------------------------------------------------

static struct grpc_client *dial(struct peer *p, const char *path)
{
    const struct grpc_client_options o = {.loop = p->loop,
                                          .path = path,
                                          .backoff_min_ns = 20 * CLOCK_NS_PER_MS,
                                          .backoff_max_ns = 100 * CLOCK_NS_PER_MS};
    return grpc_client_new(&o);
}

static void registered(void *arg, const struct grpc_result *r)
{
    struct peer *p = arg;
    if (r->status != GRPC_OK || strcmp(p->verb, "info") == 0) {
        stop(p, r->status != GRPC_OK);
        return;
    }
    grpc_client_free(p->client);
    p->client = dial(p, p->endpoint);
    p->preparing = strcmp(p->verb, "unprepare") != 0;
    if (strcmp(p->verb, "health") == 0)
        watch_health(p);
    else
        call(p, p->preparing ? "NodePrepareResources" : "NodeUnprepareResources");
}

static void informed(void *arg, const struct grpc_result *r)
{
    struct peer *p = arg;
    cleanup_arena struct arena a = {0};
    struct plugin_info info = {0};
    if (r->status != GRPC_OK ||
        plugin_decode(&plugin_info_message, r->response, &info, &a, NULL) != 0) {
        (void)fprintf(stderr, "GetInfo: %.*s\n", STR_ARG(r->message));
        stop(p, 1);
        return;
    }
    (void)snprintf(p->endpoint, sizeof(p->endpoint), "%.*s", STR_ARG(info.endpoint));
    if (strcmp(p->verb, "info") == 0) {
        cleanup_sbuf struct sbuf out = {0};
        struct json_writer w = {.out = &out};
        json_write_object_begin(&w);
        member(&w, "type", info.type);
        member(&w, "name", info.name);
        member(&w, "endpoint", info.endpoint);
        texts(&w, "versions", &info.supported_versions);
        json_write_object_end(&w);
        puts(out.p);
    }
    const struct plugin_registration_status yes = {.plugin_registered = true};
    struct proto_writer w = {0};
    plugin_encode(&plugin_registration_status_message, &yes, &w);
    const struct grpc_request q = {.method = STR(PLUGIN_NOTIFY),
                                   .message = proto_written(&w),
                                   .timeout_ns = 5 * CLOCK_NS_PER_SEC,
                                   .done = registered,
                                   .arg = p};
    (void)grpc_client_call(p->client, &q);
    proto_writer_done(&w);
}

int main(int argc, char **argv)
{
    struct peer p = {0};
    struct err err;
    int at = 1;
    if (argc > at && strcmp(argv[at], "--beta") == 0) {
        p.beta = true;
        at++;
    }
    if (argc < at + 2 || loop_new(&p.loop, &err) != 0)
        return 2;
    const char *socket = argv[at];
    p.verb = argv[at + 1];
    at += 2;
    if (strcmp(p.verb, "bench") == 0 &&
        (argc <= at || str_to_i64(str_z(argv[at++]), &p.rounds) != 0))
        return 2;
    p.claims = argv + at;
    p.claims_len = argc - at;
    p.client = dial(&p, socket);
    const struct grpc_request q = {.method = STR(PLUGIN_GET_INFO),
                                   .message = STR(""),
                                   .timeout_ns = 10 * CLOCK_NS_PER_SEC,
                                   .wait_for_ready = true,
                                   .done = informed,
                                   .arg = &p};
    (void)grpc_client_call(p.client, &q);
    loop_run(p.loop);
    grpc_client_free(p.client);
    loop_free(p.loop);
    return p.status;
}

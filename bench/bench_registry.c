// SPDX-License-Identifier: Apache-2.0
//
// Writes through the registry, on a store in memory: a typical ResourceClaim, from the text of the
// request to the answer.
#include <assert.h>
#include <stdlib.h>

#include "api/cel_check.h"
#include "base/exec.h"
#include "bench.h"
#include "inproc/local.h"
#include "registry/registry.h"

#include "base/banned.h"

#define SPEC                                                                                       \
    "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\",\"exactly\":{\"deviceClassName\":"     \
    "\"gpu.example.com\",\"allocationMode\":\"ExactCount\",\"count\":1,\"selectors\":[{\"cel\":"   \
    "{\"expression\":\"device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= "  \
    "0 && device.attributes['gpu.example.com'].model == 'a100'\"}}]}}],\"config\":[{\"requests\":" \
    "[\"gpu\"],\"opaque\":{\"driver\":\"gpu.example.com\",\"parameters\":{\"apiVersion\":"         \
    "\"gpu.example.com/"                                                                           \
    "v1\",\"kind\":\"GpuConfig\",\"sharing\":{\"strategy\":\"TimeSlicing\"}}}}]}}"

#define STATUS                                                                                 \
    "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":"   \
    "\"gpu.example.com\",\"pool\":\"node-1\",\"device\":\"gpu-0\"}]},\"nodeSelector\":{"       \
    "\"nodeSelectorTerms\":[{\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\"," \
    "\"values\":[\"node-1\"]}]}]}},\"reservedFor\":[{\"resource\":\"pods\",\"name\":\"p\","    \
    "\"uid\":\"u-%d\"}]}"

struct state {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct store *store;
    struct features features;
    struct api_cel_engine *cel;
    struct registry *registry;
    const struct api_kind *kind;
    struct arena arena;
    struct sbuf text;
    int next;
    int answers;
    struct client *client;
    struct client_watch *watch;
    int seen; // events of the client's watch
};

static void answered(void *arg, const struct registry_answer *answer)
{
    struct state *s = arg;
    if (answer->code < 0) {
        (void)fprintf(stderr, "refused: %.*s\n", STR_ARG(answer->status->message));
        exit(1);
    }
    s->answers++;
}

static void decode(struct state *s, struct api_object *ret)
{
    const struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_strict strict = {0};
    struct err err = {0};
    int rc = json_parse(sbuf_str(&s->text), &options, &doc, &err);
    if (rc == 0)
        rc = api_decode(&doc, doc.root, &s->arena, &strict, ret, &err);
    assert(rc == 0);
    json_strict_done(&strict);
}

static void finish(struct state *s)
{
    while (exec_sim_step(s->sim)) {}
    arena_reset(&s->arena);
}

static void write_text(struct state *s, const char *meta, int number, bool status)
{
    sbuf_clear(&s->text);
    sbuf_addf(&s->text,
              "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\",\"metadata\":{"
              "\"name\":\"claim-%d\",\"namespace\":\"default\",\"labels\":{\"app\":\"train\","
              "\"step\":\"%s\"},\"annotations\":{\"resource.kubernetes.io/pod-claim-name\":\"gpu\"}"
              "}," SPEC,
              number, meta);
    if (status)
        sbuf_addf(&s->text, "," STATUS, s->next);
    sbuf_addc(&s->text, '}');
}

static void create(struct state *s)
{
    struct api_object body;
    const struct registry_request request = {.kind = s->kind, .namespace = STR("default")};
    write_text(s, "0", s->next++, false);
    decode(s, &body);
    registry_create(s->registry, &request, &body, &s->arena, answered, s);
    finish(s);
}

static void update(struct state *s, bool status)
{
    struct api_object body;
    const struct registry_request request = {.kind = s->kind,
                                             .namespace = STR("default"),
                                             .name = STR("claim-0"),
                                             .subresource = status ? STR("status") : STR("")};
    char step[16];
    (void)snprintf(step, sizeof(step), "%d", s->next++);
    write_text(s, step, 0, status);
    decode(s, &body);
    registry_update(s->registry, &request, &body, &s->arena, answered, s);
    finish(s);
}

static void create_and_delete(struct state *s)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "claim-%d", s->next);
    create(s);
    const struct registry_request request = {
        .kind = s->kind, .namespace = STR("default"), .name = sbuf_str(&name)};
    registry_delete(s->registry, &request, NULL, &s->arena, answered, s);
    finish(s);
}

static void on_event(void *arg, const struct client_event *e)
{
    struct state *s = arg;
    s->seen += e->object != NULL;
}

// create_watched is a creation that a client in the same process sees, as the scheduler does.
static void create_watched(struct state *s)
{
    static const struct client_list_options everything;
    if (!s->watch) {
        s->watch = client_watch(s->client, s->kind, &everything, 0, on_event, s);
        finish(s);
    }
    int seen = s->seen;
    create(s);
    assert(s->seen == seen + 1);
    (void)seen;
}

static void decode_only(struct state *s)
{
    struct api_object body;
    write_text(s, "0", s->next, false);
    decode(s, &body);
    bench_keep(body.value);
    arena_reset(&s->arena);
}

static void measure(struct state *s)
{
    BENCH("claim text to typed", decode_only(s));
    BENCH("create a claim", create(s));
    BENCH("update a claim", update(s, false));
    BENCH("update a claim's status", update(s, true));
    BENCH("create and delete a claim", create_and_delete(s));
    BENCH("create a claim that is watched", create_watched(s));
}

static void count(struct state *s)
{
    COUNT("create a claim", 20, create(s));
    COUNT("update a claim", 20, update(s, false));
    COUNT("update a claim's status", 20, update(s, true));
    COUNT("create and delete a claim", 20, create_and_delete(s));
    create_watched(s);
    COUNT("create a claim that is watched", 20, create_watched(s));
}

int main(int argc, char **argv)
{
    struct state s = {.kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"))};
    struct err err = {0};
    clock_fake_init(&s.clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&s.rng, 1);
    s.sim = exec_sim_new(&s.clock, &s.rng.rng);
    features_init(&s.features, FEATURES_MINOR);
    s.cel = api_cel_engine_new();
    const struct store_options so = {.exec = exec_sim_exec(s.sim), .commit_on_exec = true};
    const struct registry_options ro = {
        .exec = exec_sim_exec(s.sim), .features = &s.features, .cel = api_cel_engine_rules(s.cel)};
    struct registry_options with_store = ro;
    if (store_open(&so, &s.store, &err) < 0)
        return 1;
    with_store.store = s.store;
    if (registry_new(&with_store, &s.registry, &err) < 0)
        return 1;
    finish(&s);
    create(&s);
    static const struct registry_user user = {.name = STR_INIT("bench")};
    s.client = local_client_new(s.registry, exec_sim_exec(s.sim), &user);
    if (bench_counting(argc, argv))
        count(&s);
    else
        measure(&s);
    if (s.watch)
        client_watch_stop(s.client, s.watch);
    client_free(s.client);
    finish(&s);
    registry_free(s.registry);
    store_close(s.store);
    api_cel_engine_free(s.cel);
    exec_sim_free(s.sim);
    arena_done(&s.arena);
    sbuf_done(&s.text);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Pods of a node on a registry in memory, a machine in memory and a fake clock. The agent can die and be
// started again; registry and machine go on.
#ifndef UNIT_PODS_WORLD_H
#define UNIT_PODS_WORLD_H

#include <ftw.h>
#include <unistd.h>

#include "inproc/local.h"
#include "os/fault.h"
#include "pods_kit.h"
#include "registry_world.h"

struct pods_world {
    struct world *w;
    struct client *inner;
    struct cut_client client;
    struct fake_machine machine;
    struct fake_runtime runtime;
    struct fake_net net;
    struct event_recorder *events;
    struct pods *pods;
    struct typed_object *node;
    char dir[64];
    struct fault_hook hook;
    int steps, crash_at; // crash_at < 0: never
    bool dead;
    int64_t backoff_max_ns;
    int disk_full;                            // how often a pull found no space
    struct eviction_facts facts;              // what the node has left
    int64_t images_free;                      // bytes that the next removal of images frees
    const struct eviction_config *thresholds; // NULL: the default ones
    int reclaims, pressures;
    bool holds_work; // as a thread that is slow: the next work waits in held
    struct {
        exec_fn work, after;
        void *job;
    } held;
};

static inline const struct typed_object *pods_world_node(void *arg)
{
    return ((struct pods_world *)arg)->node;
}

// A dead process changes no file either.
static inline int pods_world_step(void *arg, const char *what)
{
    struct pods_world *p = arg;
    (void)what;
    if (p->steps++ == p->crash_at)
        p->dead = p->client.cut = p->runtime.cut = true;
    return p->dead ? -EIO : 0;
}

static inline void pods_world_disk_full(void *arg)
{
    ((struct pods_world *)arg)->disk_full++;
}

static inline void pods_world_observe(void *arg, const struct eviction_places *at,
                                      struct eviction_facts *ret)
{
    struct pods_world *p = arg;
    assert_string_equal(at->node, p->dir);
    assert_string_equal(at->images, "/images");
    *ret = p->facts;
}

static inline void pods_world_reclaim(void *arg, exec_fn done, void *done_arg)
{
    struct pods_world *p = arg;
    p->reclaims++;
    p->facts.of[EVICTION_NODE_DISK].available += p->images_free;
    p->images_free = 0;
    exec_post(exec_sim_exec(p->w->sim), done, done_arg);
}

static inline void pods_world_work(void *arg, exec_fn work, exec_fn after, void *job)
{
    struct pods_world *p = arg;
    if (p->holds_work && !p->held.work) {
        p->held.work = work;
        p->held.after = after;
        p->held.job = job;
        return;
    }
    work(job);
    after(job);
}

static inline void pods_world_pressure(void *arg)
{
    ((struct pods_world *)arg)->pressures++;
}

// pods_world_node_is sets the Node that pods are admitted to.
static inline void pods_world_node_is(struct pods_world *p, const char *json)
{
    struct err err = {0};
    struct json_doc doc = {0};
    struct typed_object *o = typed_object_new();
    assert_int_equal(json_parse(str_z(json), NULL, &doc, &err), 0);
    assert_int_equal(api_decode(&doc, doc.root, &o->arena, NULL, &o->object, &err), 0);
    o->meta = api_object_meta(&o->object);
    json_doc_done(&doc);
    typed_object_unref(p->node);
    p->node = o;
}

static inline void pods_world_boot(struct pods_world *p)
{
    struct exec *exec = exec_sim_exec(p->w->sim);
    p->dead = false;
    cut_client_init(&p->client, p->inner);
    fake_runtime_init(&p->runtime, &p->machine, exec);
    fake_net_init(&p->net, exec);
    const struct event_recorder_options eo = {
        .client = p->inner, .component = STR("kubelet"), .host = STR("n1")};
    p->events = events_recorder_new(&eo);
    const struct pods_options o = {.exec = exec,
                                   .client = &p->client.client,
                                   .events = p->events,
                                   .runtime = &p->runtime.runtime,
                                   .net = &p->net.net,
                                   .node = STR("n1"),
                                   .data_dir = p->dir,
                                   .log_dir = p->dir,
                                   .host_ips = STR("192.0.2.1"),
                                   .api_host = STR("192.0.2.100"),
                                   .api_port = STR("6443"),
                                   .features = &p->w->features,
                                   .may_mount = false,
                                   .times = {.backoff_max_ns = p->backoff_max_ns},
                                   .eviction = {.config = p->thresholds,
                                                .observe = pods_world_observe,
                                                .images = "/images",
                                                .reclaim = pods_world_reclaim,
                                                .changed = pods_world_pressure,
                                                .arg = p},
                                   .node_object = pods_world_node,
                                   .disk_full = pods_world_disk_full,
                                   .work = pods_world_work,
                                   .arg = p};
    p->hook = (struct fault_hook){pods_world_step, p};
    fault_hook_set(&p->hook);
    p->pods = pods_new(&o);
    pods_start(p->pods);
}

// pods_world_kill ends the agent as kill -9 does.
static inline void pods_world_kill(struct pods_world *p)
{
    fault_hook_set(NULL);
    p->client.cut = p->runtime.cut = true;
    pods_free(p->pods);
    p->pods = NULL;
    fake_runtime_done(&p->runtime);
    cut_client_done(&p->client);
    events_recorder_free(p->events);
    world_run(p->w);
}

static inline void pods_world_start(struct pods_world *p)
{
    const struct registry_user user = {.name = STR("system:node:n1")};
    p->w = world_new_without(STR("ServiceAccount")); // nobody gives out tokens here
    p->crash_at = -1;
    // In memory where that is possible: tests that kill the agent sync thousands of times.
    (void)snprintf(p->dir, sizeof(p->dir), "%s/dray-pods-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(p->dir));
    p->machine.clock = &p->w->clock;
    p->machine.images = "busybox:1";
    p->inner = local_client_new(p->w->registry, exec_sim_exec(p->w->sim), &user);
    pods_world_node_is(p,
                       "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"n1\","
                       "\"labels\":{\"zone\":\"a\"}},\"status\":{\"allocatable\":{\"cpu\":\"4\","
                       "\"memory\":\"8Gi\",\"pods\":\"110\"},\"capacity\":{\"memory\":\"8Gi\"}}}");
    pods_world_boot(p);
    world_run(p->w);
}

static inline int pods_world_rm(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static inline void pods_world_end(struct pods_world *p)
{
    pods_world_kill(p);
    client_free(p->inner);
    typed_object_unref(p->node);
    world_free(p->w);
    fake_machine_done(&p->machine);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    (void)nftw(p->dir, pods_world_rm, 16, FTW_DEPTH | FTW_PHYS);
}

#define TEST_WITH_PODS(name)                     \
    static void name##_in(struct pods_world *p); \
    static void name(void **state)               \
    {                                            \
        (void)state;                             \
        struct pods_world p = {0};               \
        pods_world_start(&p);                    \
        name##_in(&p);                           \
        pods_world_end(&p);                      \
    }                                            \
    static void name##_in(struct pods_world *p)

// pods_world_field is a field of a pod as the API has it now.
static inline const char *pods_world_field(struct pods_world *p, const char *pod, const char *path)
{
    (void)do_get(p->w, POD(pod));
    return reply_field(p->w, path);
}

#define assert_pod(p, pod, path, want) \
    assert_string_equal(pods_world_field((p), (pod), (path)), (want))

// pods_world_events is all events as "reason|message\n".
static inline const char *pods_world_events(struct pods_world *p)
{
    struct err err = {0};
    struct sbuf all = {0};
    struct store_walk walk = {.kind = api_kind_find(STR("v1"), STR("Event")),
                              .one_namespace = true,
                              .namespace = STR("default")};
    assert_int_equal(store_walk_start(p->w->store, &walk, &err), 0);
    for (const struct object *o; (o = store_walk_next(p->w->store, &walk));) {
        struct json_doc doc = {0};
        assert_int_equal(json_parse(o->json, NULL, &doc, &err), 0);
        sbuf_addf(&all, "%.*s|%.*s\n", STR_ARG(json_str(json_get(doc.root, STR("reason")))),
                  STR_ARG(json_str(json_get(doc.root, STR("message")))));
        json_doc_done(&doc);
    }
    store_walk_done(&walk);
    const char *text = arena_str(&p->w->arena, sbuf_str(&all)).p;
    sbuf_done(&all);
    return text;
}

static inline void pods_world_expect_event(struct pods_world *p, const char *line)
{
    const char *all = pods_world_events(p);
    if (!strstr(all, line))
        fail_msg("no event '%s' among\n%s", line, all);
}

#define ON_NODE "\"nodeName\":\"n1\""
#define RUNNING(name, more) \
    "{\"name\":\"" name "\",\"image\":\"busybox:1\",\"command\":[\"run\"]" more "}"
#define PODS_JSON(name, spec) \
    "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{" ON_NODE "," spec "}}"

#endif

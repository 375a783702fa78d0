// SPDX-License-Identifier: Apache-2.0
//
// A cluster for fuzzers: a registry on a store, every controller and the scheduler, on one simulated
// exec. A line of the input is one event:
//
//   {…}            create the object, or replace the one of its name
//   W base bytes   the same with one of the fuzzer's own objects; each pair of bytes replaces one of
//                  its numbers (place, value), each pair with the high bit set one of its texts
//   P byte         set the phase of all pods, as nodes would
//   T byte         let seconds pass
//   D              delete the newest object
//   R              stop everything and start it again
//
// The law: whatever the registry accepts, every component can process, within bounds of steps and
// memory, and a restart loads.
#ifndef FUZZ_CLUSTER_H
#define FUZZ_CLUSTER_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/cel_check.h"
#include "base/exec.h"
#include "ctl/ctl.h"
#include "inproc/local.h"
#include "os/file.h"
#include "registry/registry.h"
#include "sched/sched.h"

#define CLUSTER_LINES_MAX 24
#define CLUSTER_STEPS_MAX 60000 // of one event; the quota bounds what an event can cause
#define CLUSTER_BYTES_MAX ((size_t)96 * 1024 * 1024)

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

struct fuzz_cluster {
    char folder[64];
    struct sbuf path; // of the database; empty: in memory
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct features features;
    struct api_cel_engine *cel;
    struct store *store;
    struct registry *registry;
    struct client *ctl_client, *sched_client;
    struct ctl *ctl;
    struct sched *sched;
    struct arena arena;
    struct registry_request request, newest;
    bool answered;
    int code;
    size_t bytes;             // allocated when the input began
    const char *const *bases; // objects of the fuzzer, as JSON
    size_t bases_len;
};

// --- Bounds --------------------------------------------------------------------------------------

static inline size_t cluster_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

// cluster_rest runs all that is ready now. A component that never rests is a finding.
static inline void cluster_rest(struct fuzz_cluster *c)
{
    size_t steps = 0;
    while (exec_sim_step(c->sim)) {
        steps++;
        assert(steps < CLUSTER_STEPS_MAX);
    }
    assert(cluster_bytes() < c->bytes + CLUSTER_BYTES_MAX);
}

// cluster_pass lets time pass, from timer to timer.
static inline void cluster_pass(struct fuzz_cluster *c, int64_t seconds)
{
    int64_t until = c->clock.mono + seconds * CLOCK_NS_PER_SEC;
    size_t steps = 0;
    for (;;) {
        while (exec_sim_step(c->sim)) {
            steps++;
            assert(steps < CLUSTER_STEPS_MAX);
        }
        int64_t next = exec_sim_next_ns(c->sim);
        if (next > until)
            break;
        clock_fake_advance(&c->clock, next > c->clock.mono ? next - c->clock.mono : 1);
    }
    clock_fake_advance(&c->clock, until > c->clock.mono ? until - c->clock.mono : 0);
    cluster_rest(c);
}

// --- Life ----------------------------------------------------------------------------------------

static inline void cluster_start(struct fuzz_cluster *c)
{
    static const struct registry_user user = {.name = STR_INIT("fuzz")};
    static const struct str names[] = {STR_INIT("default-scheduler"), STR_INIT("dray")};
    struct err err = {0};
    struct exec *exec = exec_sim_exec(c->sim);
    const struct store_options so = {
        .exec = exec, .path = c->path.n ? c->path.p : NULL, .commit_on_exec = true};
    int r = store_open(&so, &c->store, &err);
    if (r < 0)
        (void)fprintf(stderr, "cannot open: %s\n", err.msg);
    assert(r == 0);
    const struct registry_options ro = {.store = c->store,
                                        .exec = exec,
                                        .features = &c->features,
                                        .cel = api_cel_engine_rules(c->cel)};
    r = registry_new(&ro, &c->registry, &err);
    assert(r == 0);
    cluster_rest(c);
    c->ctl_client = local_client_new(c->registry, exec, &user);
    c->sched_client = local_client_new(c->registry, exec, &user);
    const struct ctl_options co = {.client = c->ctl_client,
                                   .exec = exec,
                                   .features = &c->features,
                                   .aggregate_roles = true,
                                   .collect_all = true,
                                   .terminated_pods = 50,
                                   .root_ca = STR("fuzz")};
    c->ctl = ctl_new(&co);
    ctl_start(c->ctl);
    const struct sched_options o = {.client = c->sched_client,
                                    .names = names,
                                    .names_len = array_len(names),
                                    .features = &c->features};
    c->sched = sched_new(&o);
    sched_start(c->sched);
    cluster_rest(c);
    assert(ctl_synced(c->ctl) && sched_synced(c->sched));
}

static inline void cluster_stop(struct fuzz_cluster *c)
{
    cluster_rest(c);
    sched_free(c->sched);
    ctl_free(c->ctl);
    cluster_rest(c);
    client_free(c->sched_client);
    client_free(c->ctl_client);
    cluster_rest(c);
    registry_free(c->registry);
    store_close(c->store);
    cluster_rest(c);
}

// cluster_open starts a cluster; on_disk: with a database that a restart reads.
static inline void cluster_open(struct fuzz_cluster *c, bool on_disk)
{
    static struct api_cel_engine *cel; // making one takes longer than all the rest
    if (!cel)
        cel = api_cel_engine_new();
    c->cel = cel;
    c->bytes = cluster_bytes();
    if (on_disk) {
        (void)snprintf(c->folder, sizeof(c->folder), "%s/fuzz-cluster-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(c->folder))
            abort();
        sbuf_addf(&c->path, "%s/db", c->folder);
    }
    clock_fake_init(&c->clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&c->rng, 1);
    c->sim = exec_sim_new(&c->clock, &c->rng.rng);
    features_init(&c->features, FEATURES_MINOR);
    cluster_start(c);
}

static inline void cluster_close(struct fuzz_cluster *c)
{
    cluster_stop(c);
    exec_sim_free(c->sim);
    arena_done(&c->arena);
    if (c->path.n)
        (void)file_remove_tree(c->folder, NULL);
    sbuf_done(&c->path);
}

// --- Requests ------------------------------------------------------------------------------------

static inline void cluster_answered(void *arg, const struct registry_answer *a)
{
    struct fuzz_cluster *c = arg;
    c->answered = true;
    c->code = a->code;
    if (a->code == 0 && a->created && a->object) {
        c->newest = c->request;
        c->newest.name = arena_str(&c->arena, a->object->name);
        c->newest.namespace = arena_str(&c->arena, a->object->namespace);
    }
}

static inline void cluster_wait(struct fuzz_cluster *c)
{
    cluster_rest(c);
    assert(c->answered);
    c->answered = false;
}

// cluster_put creates an object; one that exists is replaced.
static inline void cluster_put(struct fuzz_cluster *c, const struct api_object *body)
{
    static const struct registry_user user = {.name = STR_INIT("fuzz")};
    struct api_object_meta *meta = api_object_meta(body);
    c->request = (struct registry_request){.kind = body->kind, .user = &user};
    if (body->kind->namespaced) {
        meta->namespace = STR("default");
        c->request.namespace = STR("default");
    }
    registry_create(c->registry, &c->request, body, &c->arena, cluster_answered, c);
    cluster_wait(c);
    if (c->code != -ERR_ALREADY_EXISTS)
        return;
    c->request.name = meta->name;
    meta->resource_version = STR("");
    registry_update(c->registry, &c->request, body, &c->arena, cluster_answered, c);
    cluster_wait(c);
}

static inline void cluster_put_json(struct fuzz_cluster *c, struct str text)
{
    struct json_doc doc = {0};
    struct err err = {0};
    struct api_object body = {0};
    if (json_parse(text, NULL, &doc, &err) < 0)
        return;
    if (api_decode(&doc, doc.root, &c->arena, NULL, &body, &err) == 0 && body.kind->plural.n &&
        api_object_meta(&body))
        cluster_put(c, &body);
    json_doc_done(&doc);
}

static inline void cluster_delete(struct fuzz_cluster *c)
{
    if (!c->newest.kind)
        return;
    c->request = c->newest;
    c->newest.kind = NULL;
    registry_delete(c->registry, &c->request, NULL, &c->arena, cluster_answered, c);
    cluster_wait(c);
}

// --- Workloads -----------------------------------------------------------------------------------

#define CLUSTER_SELECTOR "\"selector\":{\"matchLabels\":{\"a\":\"b\"}}"
#define CLUSTER_TEMPLATE(policy)                                                                  \
    "\"template\":{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"restartPolicy\":\"" policy \
    "\",\"terminationGracePeriodSeconds\":30,\"containers\":[{\"name\":\"c\",\"image\":\"i\","    \
    "\"resources\":{\"requests\":{\"cpu\":\"1\",\"memory\":\"1Gi\"}}}]}}"

static const char *const cluster_numbers[] = {
    "0",   "1",      "2",         "-1",     "5",          "19",          "100",
    "500", "100000", "100001",    "999999", "2147483647", "-2147483648", "9223372036854775807",
    "600", "601",    "1000000000"};

static const char *const cluster_texts[] = {
    "",
    "0%",
    "1%",
    "100%",
    "0",
    "Recreate",
    "RollingUpdate",
    "Never",
    "Always",
    "OnDelete",
    "NonIndexed",
    "Indexed",
    "OrderedReady",
    "Parallel",
    "Ignore",
    "Count",
    "FailJob",
    "FailIndex",
    "NotIn",
    "0-3",
    "99999999999%",
    "-1",
    "100E",
    "1n",
    "0-2147483647",
    "NoSchedule",
    "All",
    "Terminating",
    "Retain",
    "Delete",
    "a",
    "*/5 * * * *",
    "123456789012345678901",
};

// cluster_value_at finds the n-th number or text of a JSON text; its span is [*from, *to).
static inline bool cluster_value_at(struct str json, bool text, size_t n, size_t *from, size_t *to)
{
    for (size_t i = 0; i + 1 < json.n; i++) {
        char c = json.p[i + 1];
        if (json.p[i] != ':' && json.p[i] != '[')
            continue;
        if (text ? c != '"' : !((c >= '0' && c <= '9') || c == '-'))
            continue;
        *from = i + 1;
        *to = *from + 1;
        while (*to < json.n &&
               (text ? json.p[*to] != '"' : json.p[*to] >= '0' && json.p[*to] <= '9'))
            ++*to;
        *to += text;
        if (n-- == 0)
            return true;
    }
    return false;
}

static inline void cluster_put_base(struct fuzz_cluster *c, struct str bytes)
{
    if (bytes.n == 0)
        return;
    cleanup_sbuf struct sbuf json = {0}, next = {0};
    sbuf_addz(&json, c->bases[(unsigned char)bytes.p[0] % c->bases_len]);
    for (size_t i = 1; i + 1 < bytes.n && i < 17; i += 2) {
        unsigned char place = (unsigned char)bytes.p[i], value = (unsigned char)bytes.p[i + 1];
        bool text = place & 0x80;
        size_t from, to;
        if (!cluster_value_at(sbuf_str(&json), text, place & 0x7f, &from, &to))
            continue;
        sbuf_clear(&next);
        sbuf_add(&next, str_upto(sbuf_str(&json), from));
        sbuf_addf(&next, text ? "\"%s\"" : "%s",
                  text ? cluster_texts[value % array_len(cluster_texts)]
                       : cluster_numbers[value % array_len(cluster_numbers)]);
        sbuf_add(&next, str_from(sbuf_str(&json), to));
        sbuf_clear(&json);
        sbuf_add(&json, sbuf_str(&next));
    }
    cluster_put_json(c, sbuf_str(&json));
}

// --- Nodes ---------------------------------------------------------------------------------------

// cluster_set_phase writes what kubelets would: the phase of every pod.
static inline void cluster_set_phase(struct fuzz_cluster *c, unsigned char which)
{
    static const char *const statuses[] = {
        "{\"status\":{\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":"
        "\"True\"}]}}",
        "{\"status\":{\"phase\":\"Succeeded\"}}",
        "{\"status\":{\"phase\":\"Failed\",\"containerStatuses\":[{\"name\":\"c\",\"image\":\"i\","
        "\"imageID\":\"\",\"ready\":false,\"restartCount\":2147483647,\"state\":{\"terminated\":{"
        "\"exitCode\":1,\"startedAt\":null,\"finishedAt\":null}}}]}}",
        "{\"status\":{\"phase\":\"Pending\"}}",
    };
    static const struct registry_user user = {.name = STR_INIT("fuzz")};
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("Pod"));
    struct str names[64];
    size_t n = 0;
    struct store_walk walk = {.kind = kind};
    if (store_walk_start(c->store, &walk, NULL) < 0)
        return;
    const struct object *o;
    while (n < array_len(names) && (o = store_walk_next(c->store, &walk)))
        names[n++] = arena_str(&c->arena, o->name);
    store_walk_done(&walk);
    for (size_t i = 0; i < n; i++) {
        c->request = (struct registry_request){.kind = kind,
                                               .user = &user,
                                               .namespace = STR("default"),
                                               .name = names[i],
                                               .subresource = STR("status")};
        registry_patch(c->registry, &c->request, REGISTRY_PATCH_MERGE,
                       str_z(statuses[which % array_len(statuses)]), &c->arena, cluster_answered,
                       c);
        cluster_wait(c);
    }
}

// cluster_run carries out the events of an input.
static inline void cluster_run(struct fuzz_cluster *c, struct str text)
{
    for (int i = 0; i < CLUSTER_LINES_MAX && text.n; i++) {
        struct str line;
        str_cut(text, '\n', &line, &text);
        if (line.n == 0)
            continue;
        unsigned char byte = line.n > 1 ? (unsigned char)line.p[1] : 0;
        if (line.p[0] == '{')
            cluster_put_json(c, line);
        else if (line.p[0] == 'W')
            cluster_put_base(c, str_from(line, 1));
        else if (line.p[0] == 'P')
            cluster_set_phase(c, byte);
        else if (line.p[0] == 'T')
            cluster_pass(c, byte);
        else if (line.p[0] == 'D')
            cluster_delete(c);
        else if (line.p[0] == 'R') {
            cluster_stop(c);
            cluster_start(c);
        }
    }
}

#endif

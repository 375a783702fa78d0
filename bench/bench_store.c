// SPDX-License-Identifier: Apache-2.0
//
// The store with 100,000 typical claims: what a write costs in memory and on disk, bytes per object,
// reading, listing, and how long a start takes. Work in memory is given in processor time, what waits
// for the disk in time on the clock, per write.
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "../tests/unit/thread_exec.h"
#include "base/mem.h"
#include "bench.h"
#include "store/store.h"

#include "base/banned.h"

enum { OBJECTS = 100000, IN_FLIGHT = 1000 };

static const char claim_text[] =
    "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/"
    "v1\",\"metadata\":{\"name\":\"%s\","
    "\"namespace\":\"team-%zu\",\"uid\":\"6f1c2b7e-0000-4000-8000-%012zu\",\"resourceVersion\":\"%"
    "llu\","
    "\"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"app\":\"trainer\",\"job\":\"job-%"
    "zu\"},"
    "\"annotations\":{\"resource.kubernetes.io/pod-claim-name\":\"gpu\"},\"ownerReferences\":[{"
    "\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"trainer-%zu\",\"uid\":\"aaaaaaaa-0000-4000-"
    "8000-%012zu\","
    "\"controller\":true,\"blockOwnerDeletion\":true}],\"finalizers\":[\"resource.kubernetes.io/"
    "delete-protection\"]},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\",\"exactly\":{"
    "\"deviceClassName\":\"gpu.example.com\",\"allocationMode\":\"ExactCount\",\"count\":1}}]}},"
    "\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"gpu."
    "example.com\","
    "\"pool\":\"node-%zu\",\"device\":\"gpu-3\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{"
    "\"matchFields\":[{"
    "\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"node-%zu\"]}]}]}},\"reservedFor\":"
    "[{"
    "\"resource\":\"pods\",\"name\":\"trainer-%zu\",\"uid\":\"aaaaaaaa-0000-4000-8000-%012zu\"}]}}";

static const struct api_kind *claim_kind;

static int64_t cpu_ns(void)
{
    return (int64_t)bench_cpu_ns();
}

static int64_t wall_ns(void)
{
    return clock_mono_ns(clock_system());
}

static struct object *make_claim(size_t i, uint64_t revision)
{
    char name[32], namespace[32], uid[40], owner[40], job[32], json[2048];
    (void)snprintf(name, sizeof(name), "trainer-%zu-gpu", i);
    (void)snprintf(namespace, sizeof(namespace), "team-%zu", i % 100);
    (void)snprintf(uid, sizeof(uid), "6f1c2b7e-0000-4000-8000-%012zu", i);
    (void)snprintf(owner, sizeof(owner), "aaaaaaaa-0000-4000-8000-%012zu", i);
    (void)snprintf(job, sizeof(job), "job-%zu", i / 50);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    int n = snprintf(json, sizeof(json), claim_text, name, i % 100, i, (unsigned long long)revision,
                     i / 50, i, i, i % 1000, i % 1000, i, i);
#pragma GCC diagnostic pop
    struct object_pair labels[] = {{STR("app"), STR("trainer")}, {STR("job"), str_z(job)}};
    struct object_pair fields[] = {{STR("metadata.name"), str_z(name)},
                                   {STR("metadata.namespace"), str_z(namespace)}};
    return object_new(&(struct object_parts){.kind = claim_kind,
                                             .revision = revision,
                                             .namespace = str_z(namespace),
                                             .name = str_z(name),
                                             .uid = str_z(uid),
                                             .json = str_make(json, (size_t)n),
                                             .labels = labels,
                                             .labels_len = 2,
                                             .fields = fields,
                                             .fields_len = 2});
}

static void count_down(void *arg, int code, const struct err *err)
{
    (void)err;
    if (code)
        abort();
    --*(size_t *)arg;
}

static void put_claim(struct store *s, size_t i, size_t *in_flight)
{
    struct object *o = make_claim(i, store_next_revision(s));
    struct store_key key = {claim_kind, o->namespace, o->name};
    const struct object *head = store_head(s, &key);
    struct err err;
    if (store_put(s, o, head ? head->revision : 0, count_down, in_flight, &err) < 0)
        abort();
    ++*in_flight;
    object_unref(o);
}

// fill writes every claim and returns nanoseconds per write.
static double fill(struct thread_exec *exec, struct store *s, size_t n, int64_t (*now)(void))
{
    size_t in_flight = 0;
    int64_t start = now();
    for (size_t i = 0; i < n; i++) {
        put_claim(s, i, &in_flight);
        while (in_flight >= IN_FLIGHT)
            thread_exec_step(exec);
    }
    while (in_flight)
        thread_exec_step(exec);
    return (double)(now() - start) / (double)n;
}

static struct store *open_store(struct thread_exec *exec, const char *path)
{
    struct store *s;
    struct err err;
    if (store_open(&(struct store_options){.exec = &exec->exec, .path = path}, &s, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    return s;
}

static size_t list_all(const struct store *s)
{
    struct store_walk w = {.kind = claim_kind};
    struct err err;
    size_t bytes = 0;
    if (store_walk_start(s, &w, &err) < 0)
        abort();
    for (const struct object *o; (o = store_walk_next(s, &w));)
        bytes += o->json.n;
    store_walk_done(&w);
    return bytes;
}

static void in_memory(struct thread_exec *exec)
{
    size_t before = mallinfo2().uordblks;
    struct store *s = open_store(exec, NULL);
    bench_print("put in memory (new)", fill(exec, s, OBJECTS, cpu_ns), 0, NULL);
    size_t bytes = mallinfo2().uordblks - before;
    bench_value("memory of an object, all told", (double)bytes / OBJECTS, "B");
    bench_value("its JSON", (double)list_all(s) / OBJECTS, "B");
    struct store_key key = {claim_kind, STR("team-77"), STR("trainer-31077-gpu")};
    BENCH("get", bench_keep(store_get(s, &key)));
    int64_t start = cpu_ns();
    size_t listed = list_all(s);
    bench_keep(listed);
    bench_print("list, per object", (double)(cpu_ns() - start) / OBJECTS, 0, NULL);
    bench_print("put in memory (change)", fill(exec, s, OBJECTS, cpu_ns), 0, NULL);
    store_close(s);
}

static void durable(struct thread_exec *exec, const char *path)
{
    struct store *s = open_store(exec, path);
    int64_t cpu = cpu_ns();
    bench_print("put on disk, 1000 in flight", fill(exec, s, OBJECTS, wall_ns), 0, NULL);
    bench_print("put on disk, processor time", (double)(cpu_ns() - cpu) / OBJECTS, 0, NULL);
    size_t in_flight = 0;
    int64_t start = wall_ns();
    for (size_t i = 0; i < 200; i++) {
        put_claim(s, i, &in_flight);
        while (in_flight)
            thread_exec_step(exec);
    }
    bench_print("put on disk, one at a time", (double)(wall_ns() - start) / 200, 0, NULL);
    store_close(s);
    start = wall_ns();
    cpu = cpu_ns();
    s = open_store(exec, path);
    bench_print("start with 100000 objects", (double)(wall_ns() - start), 0, NULL);
    bench_print("start, processor time", (double)(cpu_ns() - cpu), 0, NULL);
    store_close(s);
}

// --- Instructions --------------------------------------------------------------------------------

enum { WATCHERS = 1000, COUNTED_OBJECTS = 2000 };

static void see(void *arg, const struct store_event *e)
{
    *(size_t *)arg += e->object->json.n;
}

static void put_at_once(struct exec_sim *sim, struct store *s, size_t i)
{
    size_t in_flight = 0;
    put_claim(s, i, &in_flight);
    while (exec_sim_step(sim)) {}
    bench_keep(in_flight);
}

// The same thread commits, so that each run takes the same way.
static void count(const char *path)
{
    struct clock_fake clock;
    struct rng_seeded rng;
    struct store *s;
    struct err err;
    struct store_watch *watches = xcalloc(WATCHERS, sizeof(*watches));
    size_t seen = 0;
    clock_fake_init(&clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&rng, 1);
    struct exec_sim *sim = exec_sim_new(&clock, &rng.rng);
    const struct store_options options = {
        .exec = exec_sim_exec(sim), .path = path, .commit_on_exec = true};
    if (store_open(&options, &s, &err) < 0)
        abort();
    for (size_t i = 0; i < COUNTED_OBJECTS; i++)
        put_at_once(sim, s, i);
    COUNT(path ? "commit a change to disk" : "commit a change in memory", 50,
          put_at_once(sim, s, 77));
    for (size_t i = 0; i < WATCHERS; i++) {
        watches[i] = (struct store_watch){
            .kind = claim_kind, .seen = store_revision(s), .event = see, .arg = &seen};
        if (store_watch_start(s, &watches[i], &err) < 0)
            abort();
    }
    if (!path) {
        COUNT("list 2000 objects", 2, bench_keep(list_all(s)));
        COUNT("a change for 1000 watchers", 5, put_at_once(sim, s, 78));
    }
    for (size_t i = 0; i < WATCHERS; i++)
        store_watch_stop(s, &watches[i]);
    bench_keep(seen);
    store_close(s);
    exec_sim_free(sim);
    free(watches);
}

// --- Growth --------------------------------------------------------------------------------------

static void grow_objects(struct exec_sim *sim, struct store *s)
{
    static const size_t sizes[] = {1000, 10000, 100000};
    enum { RUNS = 2000 };
    size_t have = 0;
    for (size_t i = 0; i < array_len(sizes); i++) {
        for (; have < sizes[i]; have++)
            put_at_once(sim, s, have);
        double before = bench_cpu_ns();
        for (size_t k = 0; k < RUNS; k++)
            put_at_once(sim, s, k * 7919 % have);
        bench_point("a write, with so many objects", have, (bench_cpu_ns() - before) / RUNS);
        before = bench_cpu_ns();
        bench_keep(list_all(s));
        bench_point("a listed object, of so many", have, (bench_cpu_ns() - before) / (double)have);
    }
}

static void grow_watchers(struct exec_sim *sim, struct store *s)
{
    static const size_t sizes[] = {10, 100, 1000, 10000};
    enum { RUNS = 200 };
    struct err err;
    size_t seen = 0;
    for (size_t i = 0; i < array_len(sizes); i++) {
        struct store_watch *watches = xcalloc(sizes[i], sizeof(*watches));
        for (size_t k = 0; k < sizes[i]; k++) {
            watches[k] = (struct store_watch){
                .kind = claim_kind, .seen = store_revision(s), .event = see, .arg = &seen};
            if (store_watch_start(s, &watches[k], &err) < 0)
                abort();
        }
        double before = bench_cpu_ns();
        for (size_t k = 0; k < RUNS; k++)
            put_at_once(sim, s, k);
        bench_point("a write, with so many watchers", sizes[i], (bench_cpu_ns() - before) / RUNS);
        for (size_t k = 0; k < sizes[i]; k++)
            store_watch_stop(s, &watches[k]);
        free(watches);
    }
    bench_keep(seen);
}

static void growth(void)
{
    struct clock_fake clock;
    struct rng_seeded rng;
    struct store *s;
    struct err err;
    clock_fake_init(&clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&rng, 1);
    struct exec_sim *sim = exec_sim_new(&clock, &rng.rng);
    if (store_open(&(struct store_options){.exec = exec_sim_exec(sim), .commit_on_exec = true}, &s,
                   &err) < 0)
        abort();
    grow_objects(sim, s);
    grow_watchers(sim, s);
    store_close(s);
    exec_sim_free(sim);
}

int main(int argc, char **argv)
{
    char folder[] = "./bench-store-XXXXXX", path[64], log[64];
    struct thread_exec exec;
    claim_kind = api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
    if (argc == 2 && strcmp(argv[1], "--growth") == 0) {
        growth();
        return 0;
    }
    if (!mkdtemp(folder))
        return 1;
    (void)snprintf(path, sizeof(path), "%s/db", folder);
    (void)snprintf(log, sizeof(log), "%s/db-wal", folder);
    if (bench_counting(argc, argv)) {
        count(NULL);
        count(path);
    } else {
        thread_exec_init(&exec);
        in_memory(&exec);
        durable(&exec, path);
        while (exec.posts.n)
            thread_exec_step(&exec);
        thread_exec_done(&exec);
    }
    (void)unlink(path);
    (void)unlink(log);
    (void)rmdir(folder);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray bench fleet: a simulated fleet in one process. What it costs the core of a scheduler (index,
// worth, allocator) to learn a cluster, to fill it, to keep it full, to drain nodes, to taint a
// driver, to start again. There is no API server and no network in it: docs/design/scale.md adds
// those.
#include "lab/bench_fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/rand.h"
#include "cmd/verb.h"

#include "base/banned.h"

struct fleet_claims VEC(struct fleet_claim *);

struct fleet_bench {
    struct fleet_objects objects;
    struct fleet_core core;
    struct fleet_claims claims; // that hold devices
    struct rng_seeded rng;
    size_t held; // devices
    size_t churn, fill_percent;
    bool json;
};

// --- Output --------------------------------------------------------------------------------------

static double rss_mib(void)
{
    cleanup_sbuf struct sbuf text = {0};
    uint64_t pages = 0;
    struct str size, resident, rest;
    if (kubeconfig_read_file("/proc/self/statm", &text, NULL) < 0 ||
        !str_cut(sbuf_str(&text), ' ', &size, &rest) || !str_cut(rest, ' ', &resident, &rest) ||
        str_to_u64(resident, &pages) < 0)
        return 0;
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static double load_now(void)
{
    double load = 0;
    return getloadavg(&load, 1) == 1 ? load : 0;
}

// One line a step: what, how many operations, times of one of them in microseconds, all of it,
// memory.
static void bench_fleet_print_times(const struct fleet_bench *b, const char *what,
                                    struct bench_times *t, double s)
{
    bench_sort(t);
    double p50 = bench_percentile_ms(t, 0.5) * 1000;
    double p99 = bench_percentile_ms(t, 0.99) * 1000;
    double worst = bench_percentile_ms(t, 1) * 1000;
    if (b->json)
        printf("{\"nodes\":%zu,\"step\":\"%s\",\"count\":%zu,\"seconds\":%.3f,\"p50_us\":%.2f,"
               "\"p99_us\":%.2f,\"max_us\":%.1f,\"rss_mib\":%.0f,\"states\":%zu,\"load\":%.1f}\n",
               b->objects.nodes, what, t->n, s, p50, p99, worst, rss_mib(),
               b->core.index ? index_states(b->core.index) : 0, load_now());
    else
        printf("%7zu nodes  %-34s %8zu  %8.2f s  p50 %9.1f us  p99 %9.1f us  max %10.1f us  %6.0f "
               "MiB  %6zu states  load %.1f\n",
               b->objects.nodes, what, t->n, s, p50, p99, worst, rss_mib(),
               b->core.index ? index_states(b->core.index) : 0, load_now());
    (void)fflush(stdout);
    t->n = 0;
}

static double since_s(int64_t from)
{
    return (double)(bench_now_ns() - from) / 1e9;
}

// Others use this machine, too: single operations are measured in processor time of this thread.
static int64_t cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * CLOCK_NS_PER_SEC + t.tv_nsec;
}

// A step that is one operation: s is wall time, the rest processor time.
struct instant {
    int64_t wall, cpu;
};

static struct instant instant_now(void)
{
    return (struct instant){bench_now_ns(), cpu_ns()};
}

static void tell_one(const struct fleet_bench *b, const char *what, struct instant from)
{
    struct bench_times one = {0};
    vec_push(&one, cpu_ns() - from.cpu);
    bench_fleet_print_times(b, what, &one, since_s(from.wall));
    vec_done(&one);
}

// --- Steps ---------------------------------------------------------------------------------------

// What pods ask for: mostly one GPU, some a whole node.
static uint8_t next_ask(struct fleet_bench *b)
{
    static const uint8_t wheel[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5};
    return wheel[rng_below(&b->rng.rng, array_len(wheel))];
}

static bool bench_fleet_place_claim(struct fleet_bench *b, uint8_t ask, struct bench_times *t)
{
    struct fleet_claim *k = xcalloc(1, sizeof(*k));
    k->ask = ask;
    int64_t from = cpu_ns();
    bool placed = bench_fleet_core_place(&b->core, k);
    vec_push(t, cpu_ns() - from);
    if (!placed) {
        free(k);
        return false;
    }
    b->held += ask == 5 ? 1 : k->user.uses_len;
    vec_push(&b->claims, k);
    return true;
}

static void bench_fleet_release_claim(struct fleet_bench *b, size_t i, struct bench_times *t)
{
    struct fleet_claim *k = b->claims.p[i];
    b->held -= k->ask == 5 ? 1 : k->user.uses_len;
    int64_t from = cpu_ns();
    bench_fleet_core_release(&b->core, k);
    vec_push(t, cpu_ns() - from);
    free(k);
    b->claims.p[i] = vec_pop(&b->claims);
}

static void bench_fleet_fill_nodes(struct fleet_bench *b)
{
    struct bench_times t = {0};
    struct bench_times all = {0};
    size_t devices = b->objects.nodes * b->objects.devices;
    int64_t from = bench_now_ns();
    int64_t part = from;
    for (size_t percent = 10;; percent += 10) {
        size_t goal = percent < b->fill_percent ? percent : b->fill_percent;
        char what[64];
        while (b->held * 100 < goal * devices)
            if (!bench_fleet_place_claim(b, next_ask(b), &t) && !bench_fleet_place_claim(b, 0, &t))
                break;
        for (size_t i = 0; i < t.n; i++)
            vec_push(&all, t.p[i]);
        (void)snprintf(what, sizeof(what), "fill to %zu %%", goal);
        bench_fleet_print_times(b, what, &t, since_s(part));
        part = bench_now_ns();
        if (goal == b->fill_percent)
            break;
    }
    bench_fleet_print_times(b, "fill, all", &all, since_s(from));
    vec_done(&all);
    vec_done(&t);
}

// A pod goes, another comes.
static void bench_fleet_churn_claims(struct fleet_bench *b)
{
    struct bench_times come = {0}, go = {0};
    int64_t from = bench_now_ns();
    for (size_t i = 0; i < b->churn && b->claims.n; i++) {
        bench_fleet_release_claim(b, rng_below(&b->rng.rng, b->claims.n), &go);
        (void)bench_fleet_place_claim(b, next_ask(b), &come);
    }
    double s = since_s(from);
    bench_fleet_print_times(b, "churn: a pod comes", &come, s);
    bench_fleet_print_times(b, "churn: a pod goes", &go, s);
    vec_done(&come);
    vec_done(&go);
}

static void bench_fleet_drain_nodes(struct fleet_bench *b)
{
    struct bench_times t = {0}, gone = {0};
    size_t closed = b->objects.nodes / 100;
    size_t moved = 0;
    int64_t from = bench_now_ns();
    for (size_t i = 0; i < closed; i++)
        b->core.closed[i * 100 / 64] |= UINT64_C(1) << (i * 100 % 64);
    for (size_t i = 0; i < closed; i++)
        fleet_gone(b->core.fleet, (uint32_t)(i * 100));
    for (size_t i = b->claims.n; i-- > 0;) {
        if (b->claims.p[i]->node % 100 || b->claims.p[i]->node / 100 >= closed)
            continue;
        uint8_t ask = b->claims.p[i]->ask;
        bench_fleet_release_claim(b, i, &gone);
        moved += bench_fleet_place_claim(b, ask, &t);
    }
    bench_fleet_print_times(b, "drain 1 % of the nodes: a pod moves", &t, since_s(from));
    if (!b->json)
        printf("%14s %zu nodes closed, %zu of %zu pods found another place\n", "", closed, moved,
               gone.n);
    memset(b->core.closed, 0, (b->objects.nodes / 64 + 1) * sizeof(*b->core.closed));
    while (index_touched(b->core.index)->n <= b->objects.nodes)
        vec_push(index_touched(b->core.index), 0);
    bench_fleet_core_refresh(&b->core, SIZE_MAX);
    vec_done(&t);
    vec_done(&gone);
}

static void update_slices(struct fleet_bench *b)
{
    struct bench_times t = {0};
    size_t n = b->objects.nodes < 2000 ? b->objects.nodes : 2000;
    int64_t from = bench_now_ns();
    struct VEC(struct fleet_old) old = {0};
    for (size_t i = 0; i < n; i++) {
        size_t node = rng_below(&b->rng.rng, b->objects.nodes);
        struct fleet_old o;
        bench_fleet_objects_renew(&b->objects, node, (int64_t)i + 2, &o);
        vec_push(&old, o); // claims have its strings
        int64_t at = cpu_ns();
        index_set_slice(b->core.index, (struct index_object){.value = o.slice},
                        (struct index_object){.value = b->objects.slice[node]});
        bench_fleet_core_refresh(&b->core, SIZE_MAX);
        vec_push(&t, cpu_ns() - at);
    }
    bench_fleet_print_times(b, "a slice is published again", &t, since_s(from));
    vec_done(&t);
    vec_done(&old);
}

static struct api_device_taint_rule *make_rule(struct fleet_bench *b)
{
    return bench_decode(&b->objects.shared,
                        STR("{\"apiVersion\":\"resource.k8s.io/v1\",\"kind\":\"DeviceTaintRule\","
                            "\"metadata\":{\"name\":\"all\"},\"spec\":{\"deviceSelector\":{"
                            "\"driver\":\"gpu.example.com\"},\"taint\":{\"key\":\"sick\","
                            "\"value\":\"yes\",\"effect\":\"NoSchedule\"}}}"))
        .value;
}

// Every node, as an explanation for a pod that fits nowhere has it.
static void bench_fleet_explain_failure(struct fleet_bench *b)
{
    const struct api_resource_claim *claim = b->objects.asks[0];
    struct index_explaining e = {
        .solver = b->core.solver, .report = alloc_report_new(), .claims = &claim, .claims_len = 1};
    cleanup_sbuf struct sbuf line = {0};
    struct instant from = instant_now();
    for (uint32_t i = 0; i < b->objects.nodes; i++)
        if (!index_explain(b->core.index, &e, i))
            alloc_report_refuse(e.report, b->objects.node[i]->metadata.name, STR("not judged"));
    alloc_report_summary(e.report, NULL, &line);
    tell_one(b, "why a pod fits nowhere", from);
    if (!b->json)
        printf("%14s %s\n", "", line.p);
    map_done(&e.seen);
    alloc_report_free(e.report);
    index_unpin(b->core.index);
}

static void bench_fleet_taint_nodes(struct fleet_bench *b)
{
    struct bench_times t = {0};
    struct index_object rule = {.value = make_rule(b)};
    struct instant from = instant_now();
    index_set_rule(b->core.index, (struct index_object){0}, rule);
    bench_fleet_core_refresh(&b->core, SIZE_MAX);
    tell_one(b, "taint a driver", from);
    from = instant_now();
    if (bench_fleet_place_claim(b, 0, &t))
        printf("a pod was placed on a tainted device\n");
    bench_fleet_print_times(b, "a pod that fits nowhere", &t, since_s(from.wall));
    bench_fleet_explain_failure(b);
    from = instant_now();
    index_set_rule(b->core.index, rule, (struct index_object){0});
    bench_fleet_core_refresh(&b->core, SIZE_MAX);
    tell_one(b, "take the taint back", from);
    vec_done(&t);
}

// How many more: the question of capacity planning.
static void bench_fleet_count_devices(struct fleet_bench *b)
{
    for (uint8_t i = 0; i < FLEET_ASKS; i += 4) {
        const struct api_resource_claim *claim = b->objects.asks[i];
        struct index_answer a;
        struct instant from = instant_now();
        index_count(
            b->core.index, b->core.solver,
            &(struct index_ask){.hash = b->objects.hashes[i], .claims = &claim, .claims_len = 1},
            &a);
        tell_one(b, i ? "how many more of 8 GPUs" : "how many more of one GPU", from);
        if (!b->json)
            printf("%14s %llu more, on %zu nodes in %zu states\n", "", (unsigned long long)a.more,
                   a.nodes, a.states);
    }
}

static void bench_fleet_restart_core(struct fleet_bench *b)
{
    uint64_t asked = b->core.asked;
    uint64_t solved = b->core.solved;
    for (size_t i = 0; i < b->claims.n; i++) {
        vec_done(&b->claims.p[i]->user.pools);
        b->claims.p[i]->user = (struct index_user){.uses_len = b->claims.p[i]->user.uses_len};
    }
    bench_fleet_core_end(&b->core);
    struct instant from = instant_now();
    bench_fleet_core_begin(&b->core, &b->objects);
    for (size_t i = 0; i < b->claims.n; i++)
        bench_fleet_core_take(&b->core, b->claims.p[i]);
    (void)index_catch_up(b->core.index, SIZE_MAX);
    bench_fleet_core_refresh(&b->core, SIZE_MAX);
    tell_one(b, "start again, full", from);
    b->core.asked = asked;
    b->core.solved = solved;
}

static void bench_fleet_run_phases(struct fleet_bench *b)
{
    struct instant from = instant_now();
    bench_fleet_objects_make(&b->objects);
    tell_one(b, "objects, decoded", from);
    from = instant_now();
    bench_fleet_core_begin(&b->core, &b->objects);
    bench_fleet_core_refresh(&b->core, SIZE_MAX);
    tell_one(b, "index built", from);
    bench_fleet_count_devices(b);
    bench_fleet_fill_nodes(b);
    bench_fleet_churn_claims(b);
    update_slices(b);
    bench_fleet_drain_nodes(b);
    bench_fleet_taint_nodes(b);
    bench_fleet_count_devices(b);
    bench_fleet_restart_core(b);
    bench_fleet_churn_claims(b);
    if (!b->json)
        printf("%14s %llu nodes named, %llu of them asked\n", "", (unsigned long long)b->core.asked,
               (unsigned long long)b->core.solved);
    while (b->claims.n) {
        struct bench_times t = {0};
        bench_fleet_release_claim(b, b->claims.n - 1, &t);
        vec_done(&t);
    }
    bench_fleet_core_end(&b->core);
    bench_fleet_objects_free(&b->objects);
    vec_done(&b->claims);
}

// --- The command line ----------------------------------------------------------------------------

static struct fleet_bench args = {
    .objects = {.nodes = 100000, .devices = 8, .pools = 1000}, .churn = 10000, .fill_percent = 99};

static int bench_run_fleet(void);

static const struct cli_option fleet_options[] = {
    {"--nodes", NULL, "N", "simulate so many nodes; default 100000", .size = &args.objects.nodes,
     .least = 1, .most = 10000000},
    {"--devices", NULL, "N", "give each node so many devices; default 8",
     .size = &args.objects.devices, .least = 1, .most = 128},
    {"--pools", NULL, "N", "simulate so many network pools; default 1000",
     .size = &args.objects.pools, .most = 1000000},
    {"--churn", NULL, "N", "replace so many claims; default 10000", .size = &args.churn,
     .most = 100000000},
    {"--fill", NULL, "PERCENT", "fill the fleet so far; default 99", .size = &args.fill_percent,
     .most = 100},
    {"--json", NULL, NULL, "print JSON", .flag = &args.json},
};
static const struct cli_group fleet_group = CLI_GROUP("Options", fleet_options);

const struct cli_verb bench_fleet_verb = {
    .name = "fleet",
    .summary = "measure the scheduler's core on a simulated fleet",
    .synopsis = "fleet [--nodes N] [--devices N] [--pools N] [--fill PERCENT] [--churn N] [--json]",
    .text = "Simulates a fleet in this process, without a server, and measures what filling, "
            "churn, draining, tainting and "
            "restarting cost the scheduler's core.",
    .groups = {&fleet_group},
    .run = bench_run_fleet,
};

static int bench_run_fleet(void)
{
    rng_seeded_init(&args.rng, 1);
    bench_fleet_run_phases(&args);
    return VERB_OK;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray bench sched: pods created as fast as the server takes them, or at a rate, until all are
// bound.
#include "lab/bench_sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/common.h"
#include "cmd/verb.h"

#include "base/banned.h"

struct moments VEC(int64_t);
struct places VEC(struct str);
struct numbers VEC(size_t);

// Pods that may be without an answer at a time, in a run that goes on for long.
#define STEADY_BACKLOG 64

struct run {
    struct sched_bench *s;
    struct moments sent_ns, bound_ns; // by pod; 0: not yet
    struct places on;
    struct numbers alive; // in the order they were bound, with a rate; from oldest on
    size_t oldest;
    size_t created, answered, bound, deleting, rewatches;
    int64_t start_ns, created_ns, last_ns;
    int64_t end_ns; // give up then
    struct client_watch *watch;
    struct exec_timer tick, limit;
    bool timed_out, ready, over;
    struct err err;
};

static void bench_sched_finish_run(struct run *r)
{
    if (!r->over)
        loop_stop(r->s->bench.loop);
    r->over = true;
}

static void check_end(struct run *r)
{
    if (r->s->steady_s == 0 && r->bound == r->s->pods && r->answered == r->s->pods)
        bench_sched_finish_run(r);
}

// --- Creating ------------------------------------------------------------------------------------

static void create_next(struct run *r);

static void bench_sched_on_created(void *arg, const struct client_answer *a)
{
    struct run *r = arg;
    r->answered++;
    if (a->code < 0 && r->err.code == 0)
        r->err = *a->err;
    if (r->answered <= r->s->pods)
        r->created_ns = bench_now_ns();
    if (r->err.code) {
        bench_sched_finish_run(r);
        return;
    }
    if (r->s->rate <= 0 && r->created < r->s->pods)
        create_next(r);
    check_end(r);
}

static void create_next(struct run *r)
{
    struct sched_bench *s = r->s;
    if (r->over || (r->created >= s->pods && s->steady_s == 0))
        return;
    size_t i = r->created++;
    char name[32];
    struct api_pod pod = bench_sched_make_pod(s, i, name);
    vec_push(&r->sent_ns, bench_now_ns());
    vec_push(&r->bound_ns, 0);
    vec_push(&r->on, (struct str){0});
    client_create(s->bench.client, &(struct api_object){s->pods_of.p[0].kind, &pod}, NULL,
                  bench_sched_on_created, r);
}

static void on_tick(void *arg)
{
    struct run *r = arg;
    struct sched_bench *s = r->s;
    double period_ns = 1e9 / s->rate;
    // What the server cannot take in time is left out when this goes on for long.
    if (s->steady_s > 0 && r->created - r->answered >= STEADY_BACKLOG) {
        exec_timer_start(loop_exec(s->bench.loop), &r->tick, CLOCK_NS_PER_MS);
        return;
    }
    while (!r->over && (r->created < s->pods || s->steady_s > 0) &&
           (s->steady_s == 0 || r->created - r->answered < STEADY_BACKLOG) &&
           r->start_ns + (int64_t)((double)r->created * period_ns) <= bench_now_ns())
        create_next(r);
    if ((r->created == s->pods && s->steady_s == 0) || r->over)
        return;
    int64_t next = r->start_ns + (int64_t)((double)r->created * period_ns) - bench_now_ns();
    exec_timer_start(loop_exec(s->bench.loop), &r->tick, next > 0 ? next : 0);
}

// --- Watching ------------------------------------------------------------------------------------

static void bench_sched_on_deleted(void *arg, const struct client_answer *a)
{
    (void)a;
    struct run *r = arg;
    r->deleting--;
}

static void bench_sched_delete_pod(struct run *r, struct str name)
{
    static const struct api_delete_options at_once = {.has_grace_period_seconds = true};
    const struct client_key key = {bench_kind("v1", "Pod"), str_z(r->s->namespace), name};
    r->deleting++;
    client_delete(r->s->bench.client, &key, &at_once, bench_sched_on_deleted, r);
}

// bench_sched_replace_pod keeps the load as it is: for a pod that was bound another one is made, or
// with a rate the oldest one goes.
static void bench_sched_replace_pod(struct run *r, const struct typed_object *o, size_t number)
{
    if (r->s->rate <= 0) {
        bench_sched_delete_pod(r, o->meta->name);
        create_next(r);
        return;
    }
    vec_push(&r->alive, number);
    if (r->alive.n - r->oldest <= r->s->pods)
        return;
    char name[32];
    (void)bench_sched_make_pod(r->s, r->alive.p[r->oldest++], name);
    bench_sched_delete_pod(r, str_z(name));
}

static void bench_sched_observe_pod(struct run *r, const struct typed_object *o)
{
    const struct api_pod *pod = o->object.value;
    uint64_t i = 0;
    if (pod->spec.node_name.n == 0 || !str_starts(pod->metadata.name, STR("sb-pod-")) ||
        str_to_u64(str_from(pod->metadata.name, 7), &i) < 0 || i < r->s->first || r->over)
        return;
    i -= r->s->first;
    if (i >= r->created || r->bound_ns.p[i])
        return;
    r->bound_ns.p[i] = r->last_ns = bench_now_ns();
    r->on.p[i] = arena_str(&r->s->arena, pod->spec.node_name);
    r->bound++;
    if (r->s->steady_s > 0)
        bench_sched_replace_pod(r, o, i);
    check_end(r);
}

static void bench_sched_on_event(void *arg, const struct client_event *e);

static void bench_sched_watch_pods(struct run *r)
{
    const struct client_list_options o = {.namespace = str_z(r->s->namespace)};
    r->watch =
        client_watch(r->s->bench.client, bench_kind("v1", "Pod"), &o, 0, bench_sched_on_event, r);
}

static void bench_sched_on_event(void *arg, const struct client_event *e)
{
    struct run *r = arg;
    switch (e->type) {
    case CLIENT_ADDED:
    case CLIENT_MODIFIED:
        bench_sched_observe_pod(r, e->object);
        break;
    case CLIENT_SYNCED:
        if (!r->ready)
            loop_stop(r->s->bench.loop);
        r->ready = true;
        break;
    case CLIENT_ENDED: // a server may end a watch at any time
        client_watch_stop(r->s->bench.client, take_ptr(r->watch));
        r->rewatches++;
        if (e->code != -ERR_EXPIRED && !r->ready) {
            r->err = *e->err;
            r->ready = true;
            loop_stop(r->s->bench.loop);
        } else {
            bench_sched_watch_pods(r);
        }
        break;
    case CLIENT_DELETED:
    case CLIENT_BOOKMARK:
        break;
    }
}

static void bench_sched_on_limit(void *arg)
{
    struct run *r = arg;
    r->timed_out = r->s->steady_s == 0;
    r->last_ns = r->timed_out ? r->last_ns : bench_now_ns();
    bench_sched_finish_run(r);
}

// --- The measured part ---------------------------------------------------------------------------

static void bench_sched_measure_run(struct run *r, struct bench_cpu *ret_cpu)
{
    struct sched_bench *s = r->s;
    struct exec *exec = loop_exec(s->bench.loop);
    struct bench_cpu before;
    bench_sched_watch_pods(r);
    loop_run(s->bench.loop);
    if (r->err.code)
        return;
    r->limit = (struct exec_timer){.fn = bench_sched_on_limit, .arg = r};
    r->tick = (struct exec_timer){.fn = on_tick, .arg = r};
    size_t limit_s = s->steady_s ? s->steady_s : s->timeout_s;
    exec_timer_start(exec, &r->limit, (int64_t)limit_s * CLOCK_NS_PER_SEC);
    bench_cpu_read(&s->args, &before);
    r->start_ns = bench_now_ns();
    if (s->rate > 0)
        on_tick(r);
    else
        for (size_t i = 0; i < s->args.concurrency && r->created < s->pods; i++)
            create_next(r);
    if (s->pods > 0)
        loop_run(s->bench.loop);
    bench_cpu_read(&s->args, ret_cpu);
    bench_cpu_since(ret_cpu, &before);
    r->over = true;
    exec_timer_stop(exec, &r->limit);
    exec_timer_stop(exec, &r->tick);
    client_watch_stop(s->bench.client, take_ptr(r->watch));
    while (r->answered < r->created || r->deleting > 0) // those under way point here
        bench_sleep(&s->bench, 10 * CLOCK_NS_PER_MS);
}

// --- Output --------------------------------------------------------------------------------------

struct result {
    struct bench_times times;
    struct bench_cpu cpu;
    double setup_s, create_s, seconds;
    struct sbuf verdict;
};

static double per_second(const struct result *x)
{
    return x->seconds > 0 ? (double)x->times.n / x->seconds : 0;
}

static void bench_sched_print_json(const struct run *r, const struct result *x)
{
    const struct sched_bench *s = r->s;
    const struct bench_times *t = &x->times;
    printf("{\"variant\":\"%s\",\"nodes\":%zu,\"gpus_per_node\":%zu,\"pods\":%zu,\"bound\":%zu,"
           "\"prefilled_devices\":%zu,\"rate\":%g,\"setup_s\":%.3f,\"create_s\":%.3f,"
           "\"seconds\":%.4f,\"pods_per_s\":%.1f,",
           s->variant, s->nodes, s->gpus, s->pods, r->bound, s->fill.n, s->rate, x->setup_s,
           x->create_s, x->seconds, per_second(x));
    printf("\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"client_cpu_s\":%.3f,"
           "\"other_cpu_s\":%.3f,\"server_cpu_s\":{",
           bench_percentile_ms(t, 0.5), bench_percentile_ms(t, 0.9), bench_percentile_ms(t, 0.99),
           bench_percentile_ms(t, 1), x->cpu.self_s, x->cpu.machine_s);
    for (size_t i = 0; i < x->cpu.pids_len; i++)
        printf("%s\"%.*s\":%.3f", i ? "," : "", STR_ARG(x->cpu.pids[i].name), x->cpu.pids[i].s);
    printf("},\"timed_out\":%s,\"rewatches\":%zu", r->timed_out ? "true" : "false", r->rewatches);
    if (x->verdict.n)
        printf(",\"verify\":\"%s\"", x->verdict.p);
    puts("}");
}

static void show_people(const struct run *r, const struct result *x)
{
    const struct sched_bench *s = r->s;
    const struct bench_times *t = &x->times;
    printf(
        "%s nodes=%zu pods=%zu bound=%zu prefilled=%zu rate=%g: %.1f pods/s (%.2f s, creates took "
        "%.2f s) created → bound p50 %.1f ms p90 %.1f ms p99 %.1f ms max %.1f ms cpu: client "
        "%.2fs",
        s->variant, s->nodes, s->pods, r->bound, s->fill.n, s->rate, per_second(x), x->seconds,
        x->create_s, bench_percentile_ms(t, 0.5), bench_percentile_ms(t, 0.9),
        bench_percentile_ms(t, 0.99), bench_percentile_ms(t, 1), x->cpu.self_s);
    for (size_t i = 0; i < x->cpu.pids_len; i++)
        printf(" %.*s %.2fs (%.3f ms a pod)", STR_ARG(x->cpu.pids[i].name), x->cpu.pids[i].s,
               r->bound ? x->cpu.pids[i].s * 1e3 / (double)r->bound : 0);
    printf(" other %.2fs", x->cpu.machine_s);
    if (r->rewatches)
        printf(" rewatches %zu", r->rewatches);
    if (x->verdict.n)
        printf(" verify: %s", x->verdict.p);
    puts("");
}

static void bench_sched_collect_result(const struct run *r, struct result *x)
{
    for (size_t i = 0; i < r->created; i++)
        if (r->bound_ns.p[i])
            vec_push(&x->times, r->bound_ns.p[i] - r->sent_ns.p[i]);
    bench_sort(&x->times);
    x->create_s = (double)(r->created_ns - r->start_ns) / 1e9;
    x->seconds = (double)(r->last_ns - r->start_ns) / 1e9;
}

static int bench_sched_fail(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "dray bench sched: %s: %s\n", what, err->msg);
    return VERB_NO;
}

static int run_measured(struct sched_bench *s, double setup_s)
{
    struct run r = {.s = s};
    struct result x = {.setup_s = setup_s};
    bench_sched_measure_run(&r, &x.cpu);
    int answer = r.timed_out ? VERB_NO : VERB_OK;
    if (r.err.code) {
        answer = bench_sched_fail("pods", &r.err);
    } else {
        bench_sched_collect_result(&r, &x);
        if (!s->no_verify && s->form->uses != USES_NOTHING &&
            !bench_sched_verify(s, r.on.p, r.on.n, &x.verdict))
            answer = VERB_NO;
        (s->args.json ? bench_sched_print_json : show_people)(&r, &x);
    }
    vec_done(&r.sent_ns);
    vec_done(&r.bound_ns);
    vec_done(&r.on);
    vec_done(&r.alive);
    vec_done(&x.times);
    sbuf_done(&x.verdict);
    return answer;
}

// Pods that are there before: bound, and not measured.
static int run_before(struct sched_bench *s)
{
    struct run r = {.s = s};
    struct bench_cpu cpu;
    size_t pods = s->pods, steady_s = s->steady_s;
    s->pods = s->init_pods;
    s->steady_s = 0;
    if (s->pods)
        bench_sched_measure_run(&r, &cpu);
    s->first = s->pods;
    s->pods = pods;
    s->steady_s = steady_s;
    int answer = r.timed_out || r.err.code ? VERB_NO : VERB_OK;
    if (r.err.code)
        (void)bench_sched_fail("pods before", &r.err);
    else if (r.timed_out)
        (void)fprintf(stderr, "dray bench sched: only %zu of %zu pods were bound before\n", r.bound,
                      s->init_pods);
    vec_done(&r.sent_ns);
    vec_done(&r.bound_ns);
    vec_done(&r.on);
    return answer;
}

static int bench_sched_run_bench(struct sched_bench *s)
{
    struct err err = {0};
    int r = bench_open(&s->bench, &s->args, &err);
    if (r < 0)
        return bench_sched_fail("cannot begin", &err);
    const char *what = "";
    int64_t begun_ns = bench_now_ns();
    if (bench_sched_setup(s, &what) < 0)
        return bench_sched_fail(what, &s->bench.err);
    double setup_s = (double)(bench_now_ns() - begun_ns) / 1e9;
    bench_sleep(&s->bench, (int64_t)s->settle_ms * CLOCK_NS_PER_MS);
    int answer = run_before(s);
    if (answer == VERB_OK)
        answer = run_measured(s, setup_s);
    (void)fflush(stdout);
    if (!s->no_cleanup && bench_sched_wipe(s) < 0)
        answer = bench_sched_fail("cleaning up", &s->bench.err);
    return answer;
}

// --- The command line ----------------------------------------------------------------------------

static struct sched_bench args = {.nodes = 100,
                                  .gpus = 8,
                                  .pods = 400,
                                  .timeout_s = 600,
                                  .settle_ms = 3000,
                                  .variant = "one",
                                  .namespace = "schedbench"};

static int bench_run_sched(void);
static int bench_check_sched(struct err *err);

static int bench_take_workload(const struct cli_option *o, const char *value, struct err *err)
{
    (void)o;
    return bench_workload_take(&args, value, err);
}

static const struct cli_option sched_options[] = {
    {"--nodes", NULL, "N", "create so many nodes; default 100", .size = &args.nodes,
     .most = 1000000},
    {"--gpus", NULL, "N", "give each node so many devices; default 8", .size = &args.gpus,
     .least = 1, .most = 128},
    {"--pods", NULL, "N", "create so many pods; default 400", .size = &args.pods, .most = 10000000},
    {"--variant", NULL, "NAME",
     "let pods request one GPU by a CEL selector (one, the default), two on one PCIe root (pair), "
     "nothing (none), or another form; a wrong name lists them",
     .text = &args.variant, .suggest = "one pair none"},
    {"--prefill-per-node", NULL, "K", "allocate K devices of each node before",
     .size = &args.prefill_per_node, .most = 128},
    {"--prefill-full-nodes", NULL, "F", "allocate all devices of F nodes before",
     .size = &args.prefill_full_nodes, .most = 1000000},
    {"--prefill", NULL, "N", "allocate N more devices anywhere before", .size = &args.prefill,
     .most = 100000000},
    {"--steady", NULL, "SECONDS",
     "replace each bound pod for so long; with --rate, keep the newest --pods of them",
     .size = &args.steady_s, .most = 86400},
    {"--workload", NULL, "NAME",
     "use the counts of Kubernetes' scheduler_perf: 5000pods_500nodes, half_500nodes …; a wrong "
     "name lists them",
     .take = bench_take_workload},
    {"--rate", NULL, "R", "create R pods a second; default 0: as fast as possible",
     .decimal = &args.rate, .most = 1000000},
    {"--scheduler-name", NULL, "NAME", "set spec.schedulerName of the pods",
     .text = &args.scheduler_name},
    {"--namespace", NULL, "NAME", "use this namespace; default schedbench",
     .text = &args.namespace},
    {"--timeout", NULL, "SECONDS", "give up after this time; default 600", .size = &args.timeout_s,
     .most = 86400},
    {"--settle", NULL, "MS", "wait so long before measuring; default 3000", .size = &args.settle_ms,
     .most = 3600000},
    {"--no-cleanup", NULL, NULL, "keep everything that was created", .flag = &args.no_cleanup},
    {"--no-verify", NULL, NULL, "do not check that no device was allocated twice",
     .flag = &args.no_verify},
};
static const struct cli_group sched_group = CLI_GROUP("Options", sched_options);

const struct cli_verb bench_sched_verb = {
    .name = "sched",
    .summary = "measure how fast pods with claims are bound",
    .synopsis = "sched [--nodes N] [--pods N] [OPTIONS]",
    .text = "Creates nodes, slices, a class, a template and pods; waits until all pods are bound; "
            "prints pods a second and the "
            "time from creating a pod to seeing it bound; verifies that no device was allocated "
            "twice; removes everything.",
    .groups = {&sched_group, &bench_group, &common_connect},
    .check = bench_check_sched,
    .run = bench_run_sched,
};

static int bench_check_sched(struct err *err)
{
    struct sched_bench *s = &args;
    s->form = bench_form_find(s->variant);
    if (!s->form) {
        cleanup_sbuf struct sbuf known = {0};
        bench_form_names(&known);
        return err_set(err, ERR_INVALID, "--variant is one of %s", known.p);
    }
    if (s->form->devices)
        s->gpus = s->form->devices;
    if (s->classes == 0)
        s->classes = 1;
    if (s->prefill_per_node > s->gpus)
        return err_set(err, ERR_INVALID, "--prefill-per-node is more than a node has (--gpus)");
    return 0;
}

static int bench_run_sched(void)
{
    args.args = bench_args;
    args.args.concurrency = bench_args.concurrency ? bench_args.concurrency : 64;
    int r = bench_sched_run_bench(&args);
    bench_close(&args.bench);
    vec_done(&args.fill);
    vec_done(&args.pods_of);
    arena_done(&args.arena);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray bench: load for any API server, and what the generators share.
#include "lab/bench.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/resource.h>

#include "client/backoff.h"
#include "cmd/common.h"
#include "cmd/verb.h"
#include "codec/json.h"

#include "base/banned.h"

struct bench_args bench_args;

static const struct cli_option bench_options[] = {
    {"--concurrency", NULL, "N",
     "keep so many requests in flight; default 64 for sched, 16 for api",
     .size = &bench_args.concurrency, .least = 1, .most = 100000},
    {"--pids", NULL, "NAME=PID,…", "show the processor time of these processes",
     .text = &bench_args.pids},
    {"--json", NULL, NULL, "print JSON", .flag = &bench_args.json},
};
const struct cli_group bench_group = CLI_GROUP("Load options", bench_options);

static const struct cli_verb *const bench_verbs[] = {&bench_sched_verb, &bench_api_verb,
                                                     &bench_fleet_verb, NULL};

const struct cli_verb bench_verb = {
    .name = "bench",
    .summary = "measure scheduling and requests of any API server",
    .chapter = CLI_DEVELOPERS,
    .text = "Generates load for any Kubernetes API server, with many requests in flight, or for "
            "the scheduler's core alone.",
    .examples = "dray bench sched --nodes 100 --pods 400\n"
                "dray bench api --count 1000 --json\n"
                "dray bench fleet --nodes 10000",
    .subverbs = bench_verbs,
};

// --- The client ----------------------------------------------------------------------------------

int bench_open(struct bench *b, const struct bench_args *args, struct err *err)
{
    b->args = args;
    struct kubeconfig_target target;
    int r = kubeconfig_find(&b->config, common.kubeconfig, common.context, &target, err);
    if (r == 0)
        r = loop_new(&b->loop, err);
    if (r < 0)
        return r;
    const struct client_remote_options o = {.target = &target, .user_agent = STR("dray-bench")};
    return client_remote_new(b->loop, &o, &b->client, err);
}

void bench_close(struct bench *b)
{
    client_free(b->client);
    if (b->loop) {
        bench_sleep(b, 0); // what was posted runs
        loop_free(b->loop);
    }
    kubeconfig_done(&b->config);
}

// --- Steps ---------------------------------------------------------------------------------------

void bench_finished(struct bench *b, int code, const struct err *err)
{
    if (code < 0 && b->failures++ == 0 && err)
        b->err = *err;
    b->finished++;
    if (b->next < b->total)
        b->op(b, b->next++, b->arg);
    else if (b->finished == b->total)
        loop_stop(b->loop);
}

int bench_each(struct bench *b, size_t n, size_t concurrency,
               void (*op)(struct bench *b, size_t i, void *arg), void *arg)
{
    b->op = op;
    b->arg = arg;
    b->total = n;
    b->next = b->finished = b->failures = 0;
    b->err = (struct err){0};
    if (n == 0)
        return 0;
    b->next = concurrency < n ? concurrency : n;
    size_t begun = b->next;
    for (size_t i = 0; i < begun; i++)
        op(b, i, arg);
    loop_run(b->loop);
    return b->failures ? -b->err.code : 0;
}

static void on_slept(void *arg)
{
    loop_stop(arg);
}

void bench_sleep(struct bench *b, int64_t ns)
{
    b->timer = (struct exec_timer){.fn = on_slept, .arg = b->loop};
    exec_timer_start(loop_exec(b->loop), &b->timer, ns);
    loop_run(b->loop);
}

struct listing {
    struct bench *bench;
    struct bench_objects *out;
    int code;
    struct err err;
};

static void bench_on_listed(void *arg, const struct client_event *e)
{
    struct listing *l = arg;
    if (e->type == CLIENT_ADDED) {
        vec_push(l->out, typed_object_ref(e->object));
    } else if (e->type == CLIENT_SYNCED || e->type == CLIENT_ENDED) {
        l->code = e->code;
        if (e->err)
            l->err = *e->err;
        loop_stop(l->bench->loop);
    }
}

static int list_once(struct bench *b, const struct api_kind *kind, struct str namespace,
                     struct bench_objects *out)
{
    struct listing l = {.bench = b, .out = out};
    const struct client_list_options o = {.namespace = namespace};
    struct client_watch *w = client_watch(b->client, kind, &o, 0, bench_on_listed, &l);
    loop_run(b->loop);
    client_watch_stop(b->client, w);
    if (l.code < 0)
        b->err = l.err;
    return l.code;
}

// A server that has just been put under load may break lists off; that passes.
#define LIST_TRIES 30

int bench_list(struct bench *b, const struct api_kind *kind, struct str namespace,
               struct bench_objects *out)
{
    size_t before = out->n;
    int r = list_once(b, kind, namespace, out);
    for (int tries = 1; r < 0 && backoff_passing(r) && tries < LIST_TRIES; tries++) {
        while (out->n > before)
            typed_object_unref(out->p[--out->n]);
        bench_sleep(b, CLOCK_NS_PER_SEC);
        r = list_once(b, kind, namespace, out);
    }
    return r;
}

void bench_objects_done(struct bench_objects *o)
{
    vec_foreach(o, it)
        typed_object_unref(*it);
    vec_done(o);
}

struct api_object bench_decode(struct arena *arena, struct str json)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct api_object o = {0};
    struct err err = {0};
    int r = json_parse(json, NULL, &doc, &err);
    if (r == 0)
        r = api_decode(&doc, doc.root, arena, NULL, &o, &err);
    if (r < 0) {
        (void)fprintf(stderr, "dray bench: %s%s%s in %.*s\n", err.path, err.path[0] ? ": " : "",
                      err.msg, STR_ARG(json));
        abort();
    }
    return o;
}

const struct api_kind *bench_kind(const char *api_version, const char *kind)
{
    const struct api_kind *k = api_kind_find(str_z(api_version), str_z(kind));
    assert(k);
    return k;
}

// --- Numbers -------------------------------------------------------------------------------------

int64_t bench_now_ns(void)
{
    return clock_mono_ns(clock_system());
}

static double ticks_s(uint64_t ticks)
{
    long per_second = sysconf(_SC_CLK_TCK);
    return (double)ticks / (double)(per_second > 0 ? per_second : 100);
}

// sum_fields adds up fields first … last (from 0) of white-space separated numbers.
static uint64_t sum_fields(struct str text, size_t first, size_t last, size_t skip_a, size_t skip_b)
{
    uint64_t sum = 0;
    for (size_t i = 0; text.n && i <= last; i++) {
        struct str word;
        uint64_t v = 0;
        text = str_trim(text);
        str_cut(text, ' ', &word, &text);
        if (i >= first && i != skip_a && i != skip_b && str_to_u64(word, &v) == 0)
            sum += v;
    }
    return sum;
}

static double pid_s(struct str pid)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    sbuf_addf(&path, "/proc/%.*s/stat", STR_ARG(pid));
    if (kubeconfig_read_file(path.p, &text, NULL) < 0)
        return 0;
    ptrdiff_t name_end = str_rfind_char(sbuf_str(&text), ')');
    if (name_end < 0)
        return 0;
    struct str rest = str_from(sbuf_str(&text), (size_t)name_end + 1);
    return ticks_s(sum_fields(rest, 11, 12, SIZE_MAX, SIZE_MAX));
}

// Busy time of all processors: user, nice, system, irq, softirq, steal; not idle and iowait.
static double machine_s(void)
{
    cleanup_sbuf struct sbuf text = {0};
    if (kubeconfig_read_file("/proc/stat", &text, NULL) < 0)
        return 0;
    struct str line, rest;
    str_cut(sbuf_str(&text), '\n', &line, &rest);
    return ticks_s(sum_fields(str_from(line, 3), 0, 7, 3, 4));
}

static double self_s(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void bench_cpu_read(const struct bench_args *args, struct bench_cpu *ret)
{
    *ret = (struct bench_cpu){.self_s = self_s(), .machine_s = machine_s()};
    struct str rest = str_z(args->pids);
    while (rest.n && ret->pids_len < BENCH_PIDS_MAX) {
        struct str one, name, pid;
        str_cut(rest, ',', &one, &rest);
        if (!str_cut(one, '=', &name, &pid))
            continue;
        ret->pids[ret->pids_len].name = name;
        ret->pids[ret->pids_len++].s = pid_s(pid);
    }
}

void bench_cpu_since(struct bench_cpu *now, const struct bench_cpu *before)
{
    now->self_s -= before->self_s;
    now->machine_s -= before->machine_s + now->self_s;
    for (size_t i = 0; i < now->pids_len && i < before->pids_len; i++) {
        now->pids[i].s -= before->pids[i].s;
        now->machine_s -= now->pids[i].s;
    }
}

static int bench_compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void bench_sort(struct bench_times *t)
{
    if (t->n)
        qsort(t->p, t->n, sizeof(*t->p), bench_compare_times);
}

double bench_percentile_ms(const struct bench_times *t, double part)
{
    if (t->n == 0)
        return 0;
    size_t at = (size_t)(part * (double)t->n + 0.5);
    at = at > 0 ? at - 1 : 0;
    if (at >= t->n)
        at = t->n - 1;
    return (double)t->p[at] / 1e6;
}

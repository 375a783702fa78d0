// SPDX-License-Identifier: Apache-2.0
//
// dray bench api: one kind of request after the other, many at a time, with the time each takes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/common.h"
#include "cmd/verb.h"
#include "lab/bench.h"

#include "base/banned.h"

#define WATCH_WRITERS  4
#define WATCH_PATIENCE 60 // seconds
#define CLAIM_VERSION  "resource.k8s.io/v1"

struct api_bench {
    struct bench bench;
    struct bench_args args;
    const char *ops, *namespace;
    size_t count, list_count;
    double rate; // of events, for watch
    bool failed;
    struct arena arena;
    struct api_object claim; // what all look like but for their names
    // The operation under way:
    const char *op;
    struct bench_objects objects; // in order of their numbers
    struct bench_times times;
    struct bench_cpu before;
    int64_t start_ns;
    size_t items; // of the last list
};

// One request.
struct request {
    struct api_bench *bench;
    int64_t sent_ns;
};

static const struct api_kind *claim_kind(void)
{
    return bench_kind(CLAIM_VERSION, "ResourceClaim");
}

static struct request *request_new(struct api_bench *a)
{
    struct request *q = xcalloc(1, sizeof(*q));
    q->bench = a;
    q->sent_ns = bench_now_ns();
    return q;
}

static void request_end(struct request *q, int code, const struct err *err)
{
    struct bench *b = &q->bench->bench;
    vec_push(&q->bench->times, bench_now_ns() - q->sent_ns);
    free(q);
    bench_finished(b, code, err);
}

static void bench_api_on_answer(void *arg, const struct client_answer *a)
{
    request_end(arg, a->code, a->err);
}

static struct client_key bench_api_make_key(const struct api_bench *a, size_t i, char name[32])
{
    (void)snprintf(name, 32, "bench-%06zu", i);
    return (struct client_key){claim_kind(), str_z(a->namespace), str_z(name)};
}

// --- Operations ----------------------------------------------------------------------------------

static void bench_api_create_object(struct bench *b, size_t i, void *arg)
{
    struct api_bench *a = arg;
    char name[32];
    struct api_resource_claim claim = *(const struct api_resource_claim *)a->claim.value;
    claim.metadata.name = bench_api_make_key(a, i, name).name;
    client_create(b->client, &(struct api_object){a->claim.kind, &claim}, NULL, bench_api_on_answer,
                  request_new(a));
}

static void bench_api_get_object(struct bench *b, size_t i, void *arg)
{
    struct api_bench *a = arg;
    char name[32];
    // Scattered, and the same in every run.
    struct client_key key = bench_api_make_key(a, (i * 2654435761u) % a->count, name);
    client_get(b->client, &key, bench_api_on_answer, request_new(a));
}

static void bench_api_update_object(struct bench *b, size_t i, void *arg)
{
    struct api_bench *a = arg;
    char value[32];
    (void)snprintf(value, sizeof(value), "%lld", (long long)bench_now_ns());
    struct api_resource_claim claim =
        *(const struct api_resource_claim *)a->objects.p[i]->object.value;
    struct api_str_entry note = {STR("bench"), str_z(value)};
    claim.metadata.annotations = (struct api_str_map){&note, 1};
    client_update(b->client, &(struct api_object){a->claim.kind, &claim}, NULL, bench_api_on_answer,
                  request_new(a));
}

#define ALLOCATION                                                                              \
    "{\"devices\":{\"results\":[{\"request\":\"gpu\",\"driver\":\"gpu.example.com\",\"pool\":"  \
    "\"node-0\",\"device\":\"gpu-0\"}]},\"nodeSelector\":{\"nodeSelectorTerms\":[{"             \
    "\"matchFields\":[{\"key\":\"metadata.name\",\"operator\":\"In\",\"values\":[\"node-0\"]}]" \
    "}]}}"

static void update_status(struct bench *b, size_t i, void *arg)
{
    struct api_bench *a = arg;
    struct api_resource_claim claim =
        *(const struct api_resource_claim *)a->objects.p[i]->object.value;
    const struct api_resource_claim *form = a->claim.value;
    struct api_resource_claim_status none = {0};
    claim.status = claim.status.allocation ? none : form->status;
    client_update(b->client, &(struct api_object){a->claim.kind, &claim},
                  &(struct client_write){.subresource = STR("status")}, bench_api_on_answer,
                  request_new(a));
}

// A list counts as read when it is typed.
static int bench_api_count_items(struct str body, size_t *ret, struct err *err)
{
    static const struct json_options options = {.max_bytes = DRAY_FILE_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    struct arena cleanup_arena arena = {0};
    struct api_object list;
    int r = json_parse(body, &options, &doc, err);
    if (r == 0)
        r = api_decode(&doc, doc.root, &arena, NULL, &list, err);
    if (r == 0)
        *ret = ((const struct api_resource_claim_list *)list.value)->items.n;
    return r;
}

static void bench_api_on_listed(void *arg, int code, const struct err *err, struct str body)
{
    struct request *q = arg;
    struct err own = {0};
    if (code == 0) {
        code = bench_api_count_items(body, &q->bench->items, &own);
        err = &own;
    }
    request_end(q, code, err);
}

static void bench_api_list_objects(struct bench *b, size_t i, void *arg)
{
    (void)i;
    struct api_bench *a = arg;
    cleanup_sbuf struct sbuf target = {0};
    sbuf_addf(&target, "/apis/" CLAIM_VERSION "/namespaces/%s/resourceclaims?resourceVersion=0",
              a->namespace);
    client_remote_raw(b->client, "GET", sbuf_str(&target), (struct str){0}, bench_api_on_listed,
                      request_new(a));
}

static void bench_api_remove_object(struct bench *b, size_t i, void *arg)
{
    struct api_bench *a = arg;
    char name[32];
    struct client_key key = bench_api_make_key(a, i, name);
    client_delete(b->client, &key, NULL, bench_api_on_answer, request_new(a));
}

// --- Output --------------------------------------------------------------------------------------

static void bench_api_begin_phase(struct api_bench *a, const char *op)
{
    a->op = op;
    vec_clear(&a->times);
    bench_cpu_read(&a->args, &a->before);
    a->start_ns = bench_now_ns();
}

static void bench_api_print_phase(struct api_bench *a, size_t n, size_t errors, const char *extra)
{
    struct bench_cpu cpu;
    double seconds = (double)(bench_now_ns() - a->start_ns) / 1e9;
    bench_cpu_read(&a->args, &cpu);
    bench_cpu_since(&cpu, &a->before);
    bench_sort(&a->times);
    const struct bench_times *t = &a->times;
    double p50 = bench_percentile_ms(t, 0.5), p90 = bench_percentile_ms(t, 0.9),
           p99 = bench_percentile_ms(t, 0.99), max = bench_percentile_ms(t, 1);
    a->failed = a->failed || errors > 0;
    if (a->args.json)
        printf("{\"op\":\"%s\",\"count\":%zu,\"errors\":%zu,\"concurrency\":%zu,\"seconds\":%.4f,"
               "\"ops_per_s\":%.1f,\"p50_ms\":%.3f,\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,"
               "\"client_cpu_s\":%.3f,\"server_cpu_s\":{",
               a->op, n, errors, a->args.concurrency, seconds, (double)n / seconds, p50, p90, p99,
               max, cpu.self_s);
    else
        printf("%-7s n=%-6zu c=%-3zu %9.1f ops/s  p50 %8.3f ms  p90 %8.3f ms  p99 %8.3f ms  max "
               "%8.3f ms  errors %zu  client-cpu %.2fs",
               a->op, n, a->args.concurrency, (double)n / seconds, p50, p90, p99, max, errors,
               cpu.self_s);
    for (size_t i = 0; i < cpu.pids_len; i++)
        printf(a->args.json ? "%s\"%.*s\":%.3f" : "%s  %.*s-cpu %.2fs",
               a->args.json && i ? "," : "", STR_ARG(cpu.pids[i].name), cpu.pids[i].s);
    if (a->args.json)
        printf("},\"other_cpu_s\":%.3f,\"extra\":\"%s\"}\n", cpu.machine_s, extra);
    else
        printf("  other-cpu %.2fs%s%s%s\n", cpu.machine_s, extra[0] ? "  (" : "", extra,
               extra[0] ? ")" : "");
    (void)fflush(stdout);
}

static void run_op(struct api_bench *a, const char *name, size_t n,
                   void (*op)(struct bench *b, size_t i, void *arg))
{
    bench_api_begin_phase(a, name);
    (void)bench_each(&a->bench, n, a->args.concurrency, op, a);
    char extra[256] = "";
    if (a->bench.failures)
        (void)snprintf(extra, sizeof(extra), "first error: %.200s", a->bench.err.msg);
    else if (op == bench_api_list_objects)
        (void)snprintf(extra, sizeof(extra), "%zu items per list", a->items);
    bench_api_print_phase(a, n, a->bench.failures, extra);
}

// --- Watching ------------------------------------------------------------------------------------

struct watching {
    struct api_bench *bench;
    struct client_watch **watches;
    size_t synced, seen, ended;
    int64_t *sent_ns;
    struct str prefix;
    struct exec_timer limit;
    size_t offset; // of the first event of a step
    bool creating;
};

static void on_watch_event(void *arg, const struct client_event *e)
{
    struct watching *w = arg;
    struct api_bench *a = w->bench;
    uint64_t i = 0;
    if (e->type == CLIENT_SYNCED && ++w->synced == a->args.concurrency)
        loop_stop(a->bench.loop);
    if (e->type == CLIENT_ENDED) {
        w->ended++;
        loop_stop(a->bench.loop);
    }
    if (e->type != CLIENT_ADDED || !str_starts(e->object->meta->name, w->prefix) ||
        str_to_u64(str_from(e->object->meta->name, w->prefix.n), &i) < 0 || i >= a->count)
        return;
    vec_push(&a->times, bench_now_ns() - w->sent_ns[i]);
    if (++w->seen == a->count * a->args.concurrency && !w->creating)
        loop_stop(a->bench.loop);
}

static void on_watched_created(void *arg, const struct client_answer *a)
{
    bench_finished(arg, a->code, a->err);
}

static void create_watched(struct bench *b, size_t i, void *arg)
{
    struct watching *w = arg;
    char name[64];
    i += w->offset;
    (void)snprintf(name, sizeof(name), "%.*s%zu", STR_ARG(w->prefix), i);
    struct api_resource_claim claim = *(const struct api_resource_claim *)w->bench->claim.value;
    claim.metadata.name = str_z(name);
    w->sent_ns[i] = bench_now_ns();
    client_create(b->client, &(struct api_object){w->bench->claim.kind, &claim}, NULL,
                  on_watched_created, b);
}

static void remove_watched(struct bench *b, size_t i, void *arg)
{
    const struct watching *w = arg;
    char name[64];
    (void)snprintf(name, sizeof(name), "%.*s%zu", STR_ARG(w->prefix), i);
    const struct client_key key = {claim_kind(), str_z(w->bench->namespace), str_z(name)};
    client_delete(b->client, &key, NULL, on_watched_created, b);
}

static void bench_api_on_limit(void *arg)
{
    loop_stop(arg);
}

// Makes the events: as fast as possible, or so many a second, each when its time has come.
static void make_events(struct api_bench *a, struct watching *w)
{
    if (a->rate <= 0) {
        (void)bench_each(&a->bench, a->count, WATCH_WRITERS, create_watched, w);
        return;
    }
    int64_t start_ns = bench_now_ns();
    size_t failures = 0;
    for (; w->offset < a->count && w->ended == 0; w->offset++) {
        int64_t due_ns = start_ns + (int64_t)((double)w->offset * 1e9 / a->rate);
        int64_t left_ns = due_ns - bench_now_ns();
        if (left_ns > 0)
            bench_sleep(&a->bench, left_ns);
        (void)bench_each(&a->bench, 1, 1, create_watched, w);
        failures += a->bench.failures;
    }
    a->bench.failures = failures;
    w->offset = 0;
}

static void run_watch(struct api_bench *a)
{
    struct watching w = {.bench = a, .creating = true};
    size_t watchers = a->args.concurrency;
    const struct client_list_options o = {.namespace = str_z(a->namespace)};
    w.watches = xcalloc(watchers, sizeof(struct client_watch *));
    w.sent_ns = xcalloc(a->count + 1, sizeof(*w.sent_ns));
    w.prefix = arena_strf(&a->arena, "watch-%llx-", (unsigned long long)bench_now_ns());
    for (size_t i = 0; i < watchers; i++)
        w.watches[i] = client_watch(a->bench.client, claim_kind(), &o, 0, on_watch_event, &w);
    loop_run(a->bench.loop);
    bench_api_begin_phase(a, "watch");
    make_events(a, &w);
    size_t errors = a->bench.failures;
    double creating_s = (double)(bench_now_ns() - a->start_ns) / 1e9;
    w.creating = false;
    w.limit = (struct exec_timer){.fn = bench_api_on_limit, .arg = a->bench.loop};
    exec_timer_start(loop_exec(a->bench.loop), &w.limit, WATCH_PATIENCE * CLOCK_NS_PER_SEC);
    if (w.seen < a->count * watchers && w.ended == 0)
        loop_run(a->bench.loop);
    exec_timer_stop(loop_exec(a->bench.loop), &w.limit);
    char extra[200];
    (void)snprintf(extra, sizeof(extra),
                   "%s%zu events x %zu watchers, creates %.0f/s, latency is create sent -> event "
                   "seen",
                   w.seen < a->count * watchers ? "not all events were received; " : "", a->count,
                   watchers, (double)a->count / creating_s);
    errors += w.seen < a->count * watchers;
    bench_api_print_phase(a, w.seen, errors, extra);
    for (size_t i = 0; i < watchers; i++)
        client_watch_stop(a->bench.client, w.watches[i]);
    (void)bench_each(&a->bench, a->count, watchers, remove_watched, &w);
    free(w.watches);
    free(w.sent_ns);
}

// --- All of it -----------------------------------------------------------------------------------

static int bench_api_compare_names(const void *x, const void *y)
{
    const struct typed_object *const *a = x, *const *b = y;
    return str_cmp((*a)->meta->name, (*b)->meta->name);
}

// bench_api_load_names reads the objects that updates need; they must have been created.
static int bench_api_load_names(struct api_bench *a, struct err *err)
{
    bench_objects_done(&a->objects);
    struct bench_objects all = {0};
    int r = bench_list(&a->bench, claim_kind(), str_z(a->namespace), &all);
    if (r < 0) {
        *err = a->bench.err;
        bench_objects_done(&all);
        return r;
    }
    for (size_t i = 0; i < all.n; i++)
        if (str_starts(all.p[i]->meta->name, STR("bench-")))
            vec_push(&a->objects, typed_object_ref(all.p[i]));
    bench_objects_done(&all);
    if (a->objects.n < a->count)
        return err_set(err, ERR_NOT_FOUND, "only %zu of %zu claims are there; run create first",
                       a->objects.n, a->count);
    qsort(a->objects.p, a->objects.n, sizeof(*a->objects.p), bench_api_compare_names);
    return 0;
}

static int run_named(struct api_bench *a, struct str op, struct err *err)
{
    int r = 0;
    if (str_eqz(op, "create")) {
        run_op(a, "create", a->count, bench_api_create_object);
    } else if (str_eqz(op, "get")) {
        run_op(a, "get", a->count, bench_api_get_object);
    } else if (str_eqz(op, "update")) {
        r = bench_api_load_names(a, err);
        if (r == 0)
            run_op(a, "update", a->count, bench_api_update_object);
    } else if (str_eqz(op, "status")) {
        r = bench_api_load_names(a, err);
        if (r == 0)
            run_op(a, "status", a->count, update_status);
    } else if (str_eqz(op, "list")) {
        run_op(a, "list", a->list_count, bench_api_list_objects);
    } else if (str_eqz(op, "watch")) {
        run_watch(a);
    } else if (str_eqz(op, "delete")) {
        run_op(a, "delete", a->count, bench_api_remove_object);
    } else {
        r = err_set(err, ERR_INVALID,
                    "--ops knows create, get, update, status, list, watch, delete");
    }
    return r;
}

static void bench_api_make_namespace(struct bench *b, size_t i, void *arg)
{
    (void)i;
    struct api_bench *a = arg;
    struct api_object o = bench_decode(
        &a->arena,
        arena_strf(&a->arena,
                   "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}",
                   a->namespace));
    client_create(b->client, &o, NULL, on_watched_created, b);
}

static int bench_api_run_phases(struct api_bench *a, struct err *err)
{
    int r = bench_open(&a->bench, &a->args, err);
    if (r < 0)
        return r;
    a->claim = bench_decode(
        &a->arena,
        arena_strf(&a->arena,
                   "{\"apiVersion\":\"" CLAIM_VERSION "\",\"kind\":\"ResourceClaim\",\"metadata\":{"
                   "\"name\":\"x\",\"namespace\":\"%s\",\"labels\":{\"app\":\"apibench\"}},"
                   "\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\",\"exactly\":{"
                   "\"deviceClassName\":\"gpu.example.com\",\"allocationMode\":\"ExactCount\","
                   "\"count\":1,\"selectors\":[{\"cel\":{\"expression\":"
                   "\"device.attributes[\\\"gpu.example.com\\\"].model == \\\"A100\\\"\"}}]}}]}},"
                   "\"status\":{\"allocation\":" ALLOCATION "}}",
                   a->namespace));
    r = bench_each(&a->bench, 1, 1, bench_api_make_namespace, a);
    if (r < 0 && r != -ERR_ALREADY_EXISTS) {
        *err = a->bench.err;
        return r;
    }
    struct str rest = str_z(a->ops);
    r = 0;
    while (rest.n && r == 0) {
        struct str op;
        str_cut(rest, ',', &op, &rest);
        r = run_named(a, op, err);
    }
    return r;
}

// --- The command line ----------------------------------------------------------------------------

static struct api_bench args = {.ops = "create,get,update,status,list,watch,delete",
                                .namespace = "apibench",
                                .count = 1000,
                                .list_count = 100};

static int bench_run_api(void);

static const struct cli_option api_options[] = {
    {"--ops", NULL, "LIST",
     "run these in this order: create,get,update,status,list,watch,delete (all by default)",
     .text = &args.ops},
    {"--count", NULL, "N", "use so many claims; default 1000", .size = &args.count, .least = 1,
     .most = 10000000},
    {"--list-count", NULL, "N", "list so many times; default 100", .size = &args.list_count,
     .most = 10000000},
    {"--namespace", NULL, "NAME", "use this namespace; default apibench", .text = &args.namespace},
    {"--rate", NULL, "R", "create R events a second for watch; default 0: as fast as possible",
     .decimal = &args.rate, .most = 1000000},
};
static const struct cli_group api_group = CLI_GROUP("Options", api_options);

const struct cli_verb bench_api_verb = {
    .name = "api",
    .summary = "measure requests for claims",
    .synopsis = "api [--ops LIST] [--count N] [OPTIONS]",
    .text = "Creates, reads, updates, lists, watches and deletes claims and prints the times.",
    .groups = {&api_group, &bench_group, &common_connect},
    .run = bench_run_api,
};

static int bench_run_api(void)
{
    struct api_bench *a = &args;
    a->args = bench_args;
    a->args.concurrency = bench_args.concurrency ? bench_args.concurrency : 16;
    struct err err = {0};
    int r = bench_api_run_phases(a, &err);
    if (r < 0)
        (void)fprintf(stderr, "dray bench api: %s\n", err.msg);
    bench_objects_done(&a->objects);
    vec_done(&a->times);
    bench_close(&a->bench);
    arena_done(&a->arena);
    return r < 0 || a->failed ? VERB_NO : VERB_OK;
}

// SPDX-License-Identifier: Apache-2.0
//
// What explanations cost: the funnel of one node beside the bare answer, an impossible pod on 5,000
// nodes beside solving it there, and the remedies.
#include <stdlib.h>

#include "base/clock.h"
#include "bench.h"
#include "lab/alloc_question.h"

#include "base/banned.h"

#define NODES 5000

static void add_device(struct sbuf *b, unsigned node, unsigned d)
{
    sbuf_addf(
        b,
        "%s{\"name\":\"gpu-%u\",\"attributes\":{\"model\":{\"string\":\"%s\"},\"numa\":{\"int\":%u}"
        ","
        "\"uuid\":{\"string\":\"GPU-%08x-%u\"},\"resource.kubernetes.io/pcieRoot\":{\"string\":"
        "\"pci0000:%02x\"}},\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}%s}",
        d ? "," : "", d, node % 3 ? "h100" : "a10", d / 4, node * 2654435761U, d, d,
        node % 10 == 1
            ? ",\"taints\":[{\"key\":\"maintenance\",\"value\":\"true\",\"effect\":\"NoSchedule\"}]"
            : "");
}

static void add_slice(struct sbuf *b, unsigned node)
{
    sbuf_addf(b,
              "%s{\"metadata\":{\"name\":\"s-%05u\"},\"spec\":{\"driver\":\"gpu.example.com\","
              "\"nodeName\":"
              "\"n-%05u\",\"pool\":{\"name\":\"n-%05u\",\"generation\":1,\"resourceSliceCount\":1},"
              "\"devices\":[",
              node ? "," : "", node, node, node);
    for (unsigned d = 0; d < 8; d++)
        add_device(b, node, d);
    sbuf_addz(b, "]}}");
}

static void add_use(struct sbuf *b, unsigned node)
{
    sbuf_addf(
        b,
        "%s{\"metadata\":{\"name\":\"train-%u\",\"namespace\":\"team-b\"},\"spec\":{},\"status\":{"
        "\"allocation\":{\"devices\":{\"results\":[",
        node ? "," : "", node);
    for (unsigned d = 0; d < 5 + node % 4; d++)
        sbuf_addf(
            b,
            "%s{\"request\":\"r\",\"driver\":\"gpu.example.com\",\"pool\":\"n-%05u\",\"device\":"
            "\"gpu-%u\"}",
            d ? "," : "", node, d);
    sbuf_addz(b, "]}}}}");
}

// Eight GPUs a node; five to eight of them in use, some of another model, some tainted. A pod that
// wants four of one NUMA node fits nowhere.
static void write_problem(struct sbuf *b, unsigned nodes)
{
    sbuf_addz(
        b, "{\"features\":[\"default-1.37\"],\"deviceClasses\":[{\"metadata\":{\"name\":\"gpu\"},"
           "\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"device.driver == "
           "'gpu.example.com'\"}}]}}],\"claims\":[{\"metadata\":{\"name\":\"c\",\"namespace\":"
           "\"default\"},\"spec\":{\"devices\":{\"requests\":[{\"name\":\"gpu\",\"exactly\":{"
           "\"deviceClassName\":\"gpu\",\"allocationMode\":\"ExactCount\",\"count\":4,"
           "\"selectors\":[{\"cel\":{\"expression\":\"device.attributes['gpu.example.com']."
           "model == 'h100' && device.capacity['gpu.example.com'].memory.compareTo("
           "quantity('40Gi')) >= 0\"}}]}}],\"constraints\":[{\"matchAttribute\":"
           "\"gpu.example.com/numa\"}]}}}],\"nodes\":[");
    for (unsigned i = 0; i < nodes; i++)
        sbuf_addf(b, "%s{\"metadata\":{\"name\":\"n-%05u\"}}", i ? "," : "", i);
    sbuf_addz(b, "],\"resourceSlices\":[");
    for (unsigned i = 0; i < nodes; i++)
        add_slice(b, i);
    sbuf_addz(b, "],\"allocatedClaims\":[");
    for (unsigned i = 0; i < nodes; i++)
        add_use(b, i);
    sbuf_addz(b, "]}");
}

struct deadline {
    int64_t at_ns;
};

static bool expired(void *arg)
{
    const struct deadline *d = arg;
    return clock_mono_ns(clock_system()) >= d->at_ns;
}

static struct alloc_report *report(struct alloc_solver *s, const struct question *q,
                                   const struct prepared *p)
{
    struct alloc_report *r = alloc_report_new();
    for (size_t i = 0; i < q->nodes.n; i++)
        (void)alloc_report_add(r, s, p->views[i], q->claims.p, q->claims.n);
    return r;
}

static void solve_all(struct alloc_solver *s, const struct question *q, const struct prepared *p)
{
    for (size_t i = 0; i < q->nodes.n; i++) {
        struct alloc_answer a;
        alloc_solve(s, p->views[i], q->claims.p, q->claims.n, &a);
        bench_keep(a.verdict);
    }
}

// Runs take milliseconds here; the best of a few counts.
#define SLOW(name, ...)                                                             \
    do {                                                                            \
        double slow_best = 0;                                                       \
        for (int slow_i = 0; slow_i < 7; slow_i++) {                                \
            int64_t slow_from = clock_mono_ns(clock_system());                      \
            __VA_ARGS__;                                                            \
            double slow_took = (double)(clock_mono_ns(clock_system()) - slow_from); \
            if (slow_i == 0 || slow_took < slow_best)                               \
                slow_best = slow_took;                                              \
        }                                                                           \
        bench_print((name), slow_best, 0, NULL);                                    \
    } while (0)

static void measure_one(struct alloc_solver *s, const struct question *q, const struct prepared *p)
{
    static const char *const solves[] = {"explain_solve_used", "explain_solve_tainted",
                                         "explain_solve_conflict"};
    static const char *const funnels[] = {"explain_funnel_used", "explain_funnel_tainted",
                                          "explain_funnel_conflict"};
    for (size_t i = 0; i < 3; i++) {
        struct alloc_answer a;
        struct alloc_explanation e;
        BENCH(solves[i], alloc_solve(s, p->views[i], q->claims.p, q->claims.n, &a));
        BENCH(funnels[i], (void)alloc_explain(s, p->views[i], q->claims.p, q->claims.n, &e));
        bench_keep(e.nearest);
    }
}

static void count_one(struct alloc_solver *s, const struct question *q, const struct prepared *p)
{
    static const char *const names[] = {"used", "tainted", "conflict"};
    for (size_t i = 0; i < array_len(names); i++) {
        struct alloc_answer a;
        struct alloc_explanation e;
        char name[32];
        (void)snprintf(name, sizeof(name), "solve %s", names[i]);
        COUNT(name, 10, alloc_solve(s, p->views[i], q->claims.p, q->claims.n, &a));
        (void)snprintf(name, sizeof(name), "funnel %s", names[i]);
        COUNT(name, 10, (void)alloc_explain(s, p->views[i], q->claims.p, q->claims.n, &e));
    }
}

static void measure_many(struct alloc_solver *s, struct deadline *d, const struct question *q,
                         const struct prepared *p)
{
    struct alloc_remedies remedies = {0};
    cleanup_sbuf struct sbuf line = {0};
    SLOW("solve_5000_nodes", solve_all(s, q, p));
    SLOW("report_5000_nodes", struct alloc_report *r = report(s, q, p); sbuf_clear(&line);
         alloc_report_summary(r, NULL, &line); alloc_report_free(r));
    struct alloc_report *r = report(s, q, p);
    SLOW("remedies_5000_nodes", d->at_ns = clock_mono_ns(clock_system()) + 50 * CLOCK_NS_PER_MS;
         alloc_remedies_find(r, s, &remedies));
    bench_keep(remedies.tried);
    alloc_report_free(r);
}

int main(int argc, char **argv)
{
    bool counting = bench_counting(argc, argv);
    cleanup_sbuf struct sbuf text = {0};
    struct question q = {0};
    struct prepared p = {0};
    struct err err = {0};
    struct deadline d = {.at_ns = INT64_MAX};
    write_problem(&text, counting ? 3 : NODES);
    if (alloc_question_read(&q, sbuf_str(&text), &err) < 0 ||
        alloc_question_prepare(&q, &p, &err) < 0) {
        (void)fprintf(stderr, "bench_explain: %s\n", err.msg);
        return 1;
    }
    struct alloc_solver *s = alloc_solver_new(
        &(struct alloc_options){.policy = ALLOC_FIRST, .expired = expired, .expired_arg = &d});
    if (counting) {
        count_one(s, &q, &p);
    } else {
        measure_one(s, &q, &p);
        measure_many(s, &d, &q, &p);
    }
    alloc_solver_free(s);
    alloc_question_end(&q, &p);
    alloc_question_done(&q);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// dray top at 10,000 devices of 1,250 nodes, half of them held: the model made anew, the model after one claim has changed (with
// the picture: what a redraw costs), a picture of 50 lines, and a repaint in which nothing has changed.
#include <stdlib.h>
#include <time.h>

#include "api/table.h"
#include "bench.h"
#include "plan/parts.h"
#include "plan/sim/plan_int.h"
#include "view/screen.h"
#include "view/top.h"

#include "base/banned.h"

#define NODES 1250
#define EACH  8

static void make_text(struct sbuf *b)
{
    for (int n = 0; n < NODES; n++) {
        sbuf_addf(
            b, "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"name\":\"node-%04d\"}}\n",
            n);
        sbuf_addf(b,
                  "{\"apiVersion\":\"resource.k8s.io/"
                  "v1\",\"kind\":\"ResourceSlice\",\"metadata\":{\"name\":"
                  "\"s-%04d\"},\"spec\":{\"driver\":\"gpu.example.com\",\"nodeName\":\"node-%04d\","
                  "\"pool\":{"
                  "\"name\":\"node-%04d\",\"generation\":1,\"resourceSliceCount\":1},\"devices\":[",
                  n, n, n);
        for (int d = 0; d < EACH; d++)
            sbuf_addf(
                b,
                "%s{\"name\":\"gpu-%d\",\"attributes\":{\"model\":{\"string\":\"A100\"},\"index\":{"
                "\"int\":%d}},\"capacity\":{\"memory\":{\"value\":\"80Gi\"}}}",
                d ? "," : "", d, d);
        sbuf_addz(b, "]}}\n");
        for (int d = 0; d < EACH / 2; d++)
            sbuf_addf(
                b,
                "{\"apiVersion\":\"resource.k8s.io/"
                "v1\",\"kind\":\"ResourceClaim\",\"metadata\":{\"name\":"
                "\"c-%d-%d\",\"namespace\":\"default\"},\"spec\":{\"devices\":{}},\"status\":{"
                "\"allocation\":{\"devices\":{\"results\":[{\"request\":\"r\",\"driver\":\"gpu."
                "example."
                "com\",\"pool\":\"node-%04d\",\"device\":\"gpu-%d\"}]}}}}\n",
                n, d, n, d);
    }
}

static struct inventory *model(struct plan_world *w)
{
    struct inventory *inv = NULL;
    const struct inventory_options o = {.features = alloc_features_default()};
    if (inventory_new(w, &o, &inv, NULL) < 0)
        abort();
    return inv;
}

static size_t picture(struct screen *s, const struct inventory *inv, size_t scroll)
{
    cleanup_sbuf struct sbuf text = {0}, out = {0};
    const struct top_look look = {
        .term = {.rows = 50, .columns = 200}, .scroll = scroll, .keys = true};
    (void)view_top(&text, inv, &look);
    screen_size(s, 50, 200);
    screen_text(s, sbuf_str(&text));
    return screen_paint(s, &out);
}

// Processor time: what else runs on the machine does not count.
static double cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

// One claim changes: what the live view does between two pictures.
static double event(struct plan_world *w, struct screen *s)
{
    const struct alloc_features features = alloc_features_default();
    struct inventory_parts *parts = inventory_parts_new(&features);
    const struct inventory *inv = NULL;
    struct api_object claim = {0};
    double best = 0;
    vec_foreach(&w->objects, o) {
        bool node = o->kind == PLAN_NODE;
        const struct api_object object = {
            .kind = api_kind_find(node ? STR("v1") : STR("resource.k8s.io/v1"), o->type->name),
            .value = o->value};
        inventory_parts_change(parts, NULL, &object);
        if (o->kind == PLAN_CLAIM)
            claim = object;
    }
    if (inventory_parts_update(parts, &inv, NULL) < 0)
        abort();
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double start = cpu_ns();
        inventory_parts_change(parts, i % 2 ? NULL : &claim, i % 2 ? &claim : NULL);
        if (inventory_parts_update(parts, &inv, NULL) < 0)
            abort();
        (void)picture(s, inv, 0);
        double took = cpu_ns() - start;
        best = i == 0 || took < best ? took : best;
    }
    inventory_parts_free(parts);
    return best;
}

int main(void)
{
    cleanup_sbuf struct sbuf text = {0};
    struct plan_world *w = plan_world_new();
    struct screen s = {0};
    make_text(&text);
    if (plan_world_read(w, STR("made"), sbuf_str(&text), NULL) < 0)
        return 1;
    struct inventory *inv = model(w);
    double best = 0;
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double start = cpu_ns();
        struct inventory *again = model(w);
        double took = cpu_ns() - start;
        inventory_free(again);
        best = i == 0 || took < best ? took : best;
    }
    bench_print("top/10000/model", best, 0, NULL);
    bench_print("top/10000/event", event(w, &s), 0, NULL);
    size_t at = 0;
    BENCH("top/10000/redraw", { (void)picture(&s, inv, at++ & 1); });
    BENCH("top/10000/unchanged", { (void)picture(&s, inv, 0); });
    screen_done(&s);
    inventory_free(inv);
    plan_world_free(w);
    return 0;
}

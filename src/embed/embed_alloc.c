// SPDX-License-Identifier: Apache-2.0
//
// include/dray/alloc.h: a snapshot out of a text, and claims allocated in it, node by node.
#include <stdlib.h>

#include "alloc/alloc.h"
#include "api/api.h"
#include "api/validate.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "dray/alloc.h"
#include "embed/embed_int.h"

#include "base/banned.h"

#define TIMEOUT_MS 10000 // kube-scheduler's for one filter

struct embed_slices VEC(const struct api_resource_slice *);
struct embed_classes VEC(const struct api_device_class *);
struct embed_rules VEC(const struct api_device_taint_rule *);
struct embed_claims VEC(const struct api_resource_claim *);
struct embed_nodes VEC(const struct api_node *);

struct dray_cluster {
    struct arena arena; // of the objects
    struct embed_slices slices;
    struct embed_classes classes;
    struct embed_rules rules;
    struct embed_claims claims;
    struct embed_nodes nodes;
    struct alloc_cluster *snapshot;
    struct alloc_view **views; // one a node, made when first needed
    struct alloc_solver *solver;
    struct rng_seeded shares; // share IDs must differ, not be secret
    int64_t timeout_ns;
    int64_t deadline_ns; // on the monotonic clock
};

// --- Objects -------------------------------------------------------------------------------------

static int embed_alloc_add_object(void *arg, const struct json_doc *doc, const yyjson_val *object,
                                  struct err *err)
{
    static const char *const kinds[] = {"Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule",
                                        "ResourceClaim"};
    struct dray_cluster *c = arg;
    struct str kind = embed_text_field(object, STR("kind"));
    bool wanted = false;
    for (size_t i = 0; i < array_len(kinds); i++)
        wanted |= str_eqz(kind, kinds[i]);
    if (!wanted)
        return 0;
    struct api_object decoded, hub;
    int r = api_decode(doc, object, &c->arena, NULL, &decoded, err);
    if (r < 0)
        return r;
    api_default(decoded.kind->type, decoded.value, NULL, &c->arena);
    r = api_convert(&decoded, api_hub_kind(decoded.kind), &c->arena, &hub, err);
    if (r < 0)
        return r;
    if (hub.kind->type == &api_node_type)
        vec_push(&c->nodes, hub.value);
    else if (hub.kind->type == &api_resource_slice_type)
        vec_push(&c->slices, hub.value);
    else if (hub.kind->type == &api_device_class_type)
        vec_push(&c->classes, hub.value);
    else if (hub.kind->type == &api_device_taint_rule_type)
        vec_push(&c->rules, hub.value);
    else if (hub.kind->type == &api_resource_claim_type)
        vec_push(&c->claims, hub.value);
    return 0;
}

static void embed_alloc_objects_done(struct dray_cluster *c)
{
    vec_done(&c->slices);
    vec_done(&c->classes);
    vec_done(&c->rules);
    vec_done(&c->claims);
    vec_done(&c->nodes);
    arena_done(&c->arena);
}

// --- Clusters ------------------------------------------------------------------------------------

static bool embed_alloc_expired(void *arg)
{
    const struct dray_cluster *c = arg;
    return clock_mono_ns(clock_system()) >= c->deadline_ns;
}

static void embed_alloc_set_options(struct dray_cluster *c, const struct dray_cluster_options *o)
{
    static const enum alloc_policy policies[] = {
        [DRAY_PACK] = ALLOC_PACK, [DRAY_SPREAD] = ALLOC_SPREAD, [DRAY_FIRST] = ALLOC_FIRST};
    struct alloc_options options = {
        .rng = &c->shares.rng, .expired = embed_alloc_expired, .expired_arg = c};
    if ((size_t)o->policy < array_len(policies))
        options.policy = policies[o->policy];
    c->timeout_ns = (o->timeout_ms ? o->timeout_ms : TIMEOUT_MS) * CLOCK_NS_PER_MS;
    rng_seeded_init(&c->shares, rng_u64(rng_system()));
    c->solver = alloc_solver_new(&options);
}

static int embed_alloc_snapshot(struct dray_cluster *c, const struct features *features,
                                struct err *err)
{
    const struct alloc_input input = {.features = alloc_features_of(features),
                                      .slices = c->slices.p,
                                      .slices_len = c->slices.n,
                                      .classes = c->classes.p,
                                      .classes_len = c->classes.n,
                                      .taint_rules = c->rules.p,
                                      .taint_rules_len = c->rules.n,
                                      .claims = c->claims.p,
                                      .claims_len = c->claims.n};
    c->views = xcalloc(c->nodes.n + 1, sizeof(struct alloc_view *));
    return alloc_cluster_new(&input, &c->snapshot, err);
}

int dray_cluster_read(const char *text, size_t len, const struct dray_cluster_options *options,
                      struct dray_cluster **ret, struct dray_error *err)
{
    static const struct dray_cluster_options defaults = {0};
    const struct dray_cluster_options *o = options ? options : &defaults;
    struct dray_cluster *c = xcalloc(1, sizeof(*c));
    struct features features;
    struct err failure = {0};
    embed_alloc_set_options(c, o);
    int r = embed_text_features(o->release, o->feature_gates, &features, &failure);
    if (r == 0)
        r = embed_text_foreach(str_make(text, len), embed_alloc_add_object, c, &failure);
    if (r == 0)
        r = embed_alloc_snapshot(c, &features, &failure);
    if (r < 0) {
        dray_cluster_free(c);
        return err_to_public(err, &failure);
    }
    *ret = c;
    return 0;
}

void dray_cluster_free(struct dray_cluster *c)
{
    if (!c)
        return;
    alloc_solver_free(c->solver);
    for (size_t i = 0; c->views && i < c->nodes.n; i++)
        alloc_view_free(c->views[i]);
    free(c->views);
    alloc_cluster_free(c->snapshot);
    embed_alloc_objects_done(c);
    free(c);
}

// --- Questions -----------------------------------------------------------------------------------

// A question: the claims, and the nodes from first up to end.
struct question {
    struct embed_claims claims;
    size_t first, end;
};

static int embed_alloc_choose_nodes(const struct dray_cluster *c, const char *node,
                                    struct question *q, struct err *err)
{
    q->end = c->nodes.n;
    if (!node)
        return c->nodes.n ? 0 : err_set(err, ERR_NOT_FOUND, "the cluster has no nodes");
    for (size_t i = 0; i < c->nodes.n; i++) {
        if (str_eqz(c->nodes.p[i]->metadata.name, node)) {
            q->first = i;
            q->end = i + 1;
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "the cluster has no node \"%s\"", node);
}

static int embed_alloc_solve(struct dray_cluster *c, const struct question *q, size_t *ret_node,
                             struct alloc_answer *ret, struct err *err)
{
    c->deadline_ns = clock_mono_ns(clock_system()) + c->timeout_ns;
    for (size_t i = q->first; i < q->end; i++) {
        int r = c->views[i] ? 0 : alloc_view_new(c->snapshot, c->nodes.p[i], &c->views[i], err);
        if (r < 0)
            return err_wrap(err, "node %.*s", STR_ARG(c->nodes.p[i]->metadata.name));
        alloc_solve(c->solver, c->views[i], q->claims.p, q->claims.n, ret);
        *ret_node = i;
        if (ret->verdict != ALLOC_UNSATISFIABLE && ret->verdict != ALLOC_NODE_ERROR)
            break;
    }
    return 0;
}

static void embed_alloc_write_results(const struct alloc_answer *a, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_array_begin(&w);
    for (size_t i = 0; i < a->results_len; i++)
        if (api_json_write(&api_allocation_result_type, &a->results[i], &w, NULL) < 0)
            json_write_null(&w);
    json_write_array_end(&w);
}

static void embed_alloc_explain(struct dray_cluster *c, const struct question *q, struct sbuf *out)
{
    struct alloc_report *report = alloc_report_new();
    for (size_t i = q->first; i < q->end; i++)
        (void)alloc_report_add(report, c->solver, c->views[i], q->claims.p, q->claims.n);
    size_t unused;
    (void)alloc_report_finish(report, &unused);
    alloc_report_text(report, out);
    alloc_report_free(report);
}

static void embed_alloc_answer(struct dray_cluster *c, const struct question *q, size_t node,
                               const struct alloc_answer *a, struct dray_answer *ret)
{
    cleanup_sbuf struct sbuf text = {0}, name = {0};
    *ret = (struct dray_answer){.verdict = DRAY_FAILED};
    if (a->verdict == ALLOC_ALLOCATED) {
        ret->verdict = DRAY_ALLOCATED;
        sbuf_add(&name, c->nodes.p[node]->metadata.name);
        embed_alloc_write_results(a, &text);
    } else if (a->verdict == ALLOC_UNSATISFIABLE) {
        ret->verdict = DRAY_UNSATISFIABLE;
        embed_alloc_explain(c, q, &text);
    } else {
        ret->verdict = a->verdict == ALLOC_TIMEOUT ? DRAY_TIMEOUT : DRAY_FAILED;
        sbuf_add(&text, a->error);
    }
    ret->node = sbuf_take(&name);
    ret->text = sbuf_take(&text);
}

int dray_allocate(struct dray_cluster *c, const char *node, const char *claims, size_t len,
                  struct dray_answer *ret, struct dray_error *err)
{
    struct dray_cluster read = {0}; // holds the objects of the text
    struct question q = {0};
    struct alloc_answer a = {0};
    struct err failure = {0};
    size_t at = 0;
    int r = embed_text_foreach(str_make(claims, len), embed_alloc_add_object, &read, &failure);
    q.claims = read.claims;
    if (r == 0 && q.claims.n == 0)
        r = err_set(&failure, ERR_INVALID, "the text has no ResourceClaim");
    if (r == 0)
        r = embed_alloc_choose_nodes(c, node, &q, &failure);
    if (r == 0)
        r = embed_alloc_solve(c, &q, &at, &a, &failure);
    if (r == 0)
        embed_alloc_answer(c, &q, at, &a, ret);
    embed_alloc_objects_done(&read);
    return r < 0 ? err_to_public(err, &failure) : 0;
}

void dray_answer_done(struct dray_answer *a)
{
    free(a->node);
    free(a->text);
    *a = (struct dray_answer){0};
}

// SPDX-License-Identifier: Apache-2.0
//
// The explanation of a claim: who has it, what its pods wait for, and, while no pod uses it, what
// would become of one that did.
#include "alloc/fleet.h"
#include "api/match/claim.h"
#include "api/match/taint.h"
#include "sched/core/cycle.h"
#include "sched/explain/explain_int.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

// --- No pod uses it ------------------------------------------------------------------------------

static void write_count(struct sched *s, const struct api_resource_claim *claim,
                        struct json_writer *w)
{
    struct index_answer count;
    uint64_t hash = fleet_hash(&claim, 1);
    s->cost.expire_calls = UINT64_MAX;
    index_count(s->devices, s->solver,
                &(struct index_ask){.hash = hash, .claims = &claim, .claims_len = 1}, &count);
    json_write_key(w, count.at_most ? STR("moreThatFitAtMost") : STR("moreThatFit"));
    json_write_u64(w, count.more);
    index_unpin(s->devices);
}

static void explain_claim_write_number(struct json_writer *w, const char *key, size_t n)
{
    json_write_key(w, str_z(key));
    json_write_u64(w, n);
}

static void write_group(const struct alloc_group *g, struct json_writer *w)
{
    json_write_object_begin(w);
    explain_claim_write_number(w, "nodes", g->nodes);
    json_write_key(w, STR("names"));
    json_write_array_begin(w);
    for (size_t i = 0; i < g->names_len; i++)
        json_write_str(w, g->names[i]);
    json_write_array_end(w);
    json_write_key(w, STR("requests"));
    json_write_array_begin(w);
    for (size_t i = 0; i < g->explanation.funnels_len; i++) {
        const struct alloc_funnel *f = &g->explanation.funnels[i];
        json_write_object_begin(w);
        explain_field(w, "claim", f->claim);
        explain_field(w, "request", f->request);
        explain_claim_write_number(w, "wanted", f->wanted);
        explain_claim_write_number(w, "published", f->published);
        explain_claim_write_number(w, "classRefused", f->class_refused);
        explain_claim_write_number(w, "selectorRefused", f->selector_refused);
        explain_claim_write_number(w, "tainted", f->tainted);
        explain_claim_write_number(w, "inUse", f->in_use);
        explain_claim_write_number(w, "usable", f->usable);
        json_write_key(w, STR("satisfied"));
        json_write_bool(w, f->satisfied);
        json_write_object_end(w);
    }
    json_write_array_end(w);
    json_write_object_end(w);
}

// How many devices of each node the requests match, and how many of those are free. Nodes that are
// alike are shown once.
static void explain_claim_write_devices(struct sched *s, const struct api_resource_claim *claim,
                                        struct json_writer *w)
{
    struct alloc_report *r = alloc_report_new();
    struct index_explaining e = {
        .solver = s->solver, .report = r, .claims = &claim, .claims_len = 1};
    size_t groups = 0;
    s->cost.expire_calls = UINT64_MAX;
    for (size_t i = 0; i < s->cluster.order.n; i++) {
        const struct sched_node *n = s->cluster.order.p[i];
        if (n && n->api)
            (void)!index_explain(s->devices, &e, n->index);
    }
    map_done(&e.seen);
    const struct alloc_group *g = alloc_report_finish(r, &groups);
    json_write_key(w, STR("report"));
    json_write_object_begin(w);
    json_write_key(w, STR("groups"));
    json_write_array_begin(w);
    for (size_t i = 0; i < groups; i++)
        write_group(&g[i], w);
    json_write_array_end(w);
    json_write_object_end(w);
    alloc_report_free(r);
    index_unpin(s->devices);
}

// As if a pod came that wanted nothing but this claim.
static void explain_claim_ask_unowned(struct sched *s, const struct api_resource_claim *claim,
                                      struct told *t)
{
    struct api_pod_resource_claim entry = {.name = STR("claim"),
                                           .resource_claim_name = claim->metadata.name,
                                           .has_resource_claim_name = true};
    struct api_pod api = {.metadata = {.namespace = claim->metadata.namespace},
                          .spec.resource_claims = {.p = &entry, .n = 1}};
    struct pod_need need = {.res = RES_PODS, .amount = 1};
    struct sched_pod pod = {.key = STR(""), .api = &api, .needs = &need, .needs_len = 1};
    struct attempt a;
    cures_find(s, &pod, &t->cures);
    enum dra_begin r = cycle_begin(s, &pod, &a);
    explain_attempt(&a, r, t);
    if (a.failed)
        t->advice.fits = 0;
    cycle_end(&a);
}

static void write_unused(struct sched *s, const struct api_resource_claim *claim,
                         struct json_writer *w, struct sbuf *text)
{
    struct told t = {0};
    cleanup_sbuf struct sbuf cause = {0};
    explain_claim_ask_unowned(s, claim, &t);
    if (t.advice.fits)
        sbuf_addf(&cause,
                  "no pod uses it: it gets its devices when a pod with it gets its node (now %zu "
                  "node%s could give them)",
                  t.advice.fits, t.advice.fits == 1 ? "" : "s");
    else
        sbuf_addf(&cause, "no pod uses it, and one that did would wait: %.*s",
                  STR_ARG(sbuf_str(&t.cause)));
    explain_field(w, "cause", sbuf_str(&cause));
    cures_write(&t.cures, w);
    advice_write(&t.advice, w);
    json_write_key(w, STR("nodesThatFit"));
    json_write_u64(w, t.advice.fits);
    write_count(s, claim, w);
    if (t.advice.fits) {
        explain_claim_write_devices(s, claim, w);
    } else if (t.now.n) {
        json_write_key(w, STR("now"));
        json_write_raw(w, sbuf_str(&t.now));
    }
    if (text)
        sbuf_add(text, sbuf_str(&t.text));
    explain_verdict_done(&t);
}

// --- Nodes that take no pods ---------------------------------------------------------------------

// The taint of a cordon is no taint that somebody would tolerate.
static size_t tolerate_all(const struct api_node *node, struct api_toleration *all)
{
    size_t n = 0;
    for (size_t i = 0; i < node->spec.taints.n; i++)
        if (!str_eqz(node->spec.taints.p[i].key, "node.kubernetes.io/unschedulable"))
            all[n++] = (struct api_toleration){.key = node->spec.taints.p[i].key,
                                               .operator= STR(TOLERATION_EXISTS)};
    return n;
}

static bool explain_claim_is_closed_node(struct sched *s, struct sched_node *n)
{
    struct arena arena = {0};
    struct api_toleration *all =
        arena_array(&arena, struct api_toleration, n->api->spec.taints.n + 1);
    struct api_pod api = {.spec.tolerations = {.p = all, .n = tolerate_all(n->api, all)}};
    struct pod_need need = {.res = RES_PODS, .amount = 1};
    struct sched_pod pod = {.key = STR(""), .api = &api, .needs = &need, .needs_len = 1};
    struct attempt a;
    bool closed = cycle_begin(s, &pod, &a) == DRA_OK && filter_node(&a, n, NULL) != WHY_NONE;
    cycle_end(&a);
    arena_done(&arena);
    return closed;
}

void sched_closed_nodes(struct sched *s, void (*fn)(void *arg, struct str node), void *arg)
{
    for (size_t i = 0; i < s->cluster.order.n; i++) {
        struct sched_node *n = s->cluster.order.p[i];
        if (n && n->api && explain_claim_is_closed_node(s, n))
            fn(arg, n->name);
    }
}

// --- Who has it ----------------------------------------------------------------------------------

static void write_holder(struct sched *s, const struct api_resource_claim *claim,
                         const struct api_resource_claim_consumer_reference *r,
                         struct json_writer *w)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(claim->metadata.namespace), STR_ARG(r->name));
    const struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
    if (p && !str_eq(p->api->metadata.uid, r->uid))
        p = NULL;
    json_write_object_begin(w);
    explain_field(w, "resource", r->resource);
    explain_field(w, "name", r->name);
    if (p) {
        explain_field(w, "node", p->api->spec.node_name);
        explain_field(w, "phase", p->api->status.phase);
    }
    explain_field(w, "state", p || consumer_is_group(r) ? STR("") : STR("gone"));
    json_write_object_end(w);
}

static void write_allocation(struct sched *s, const struct api_resource_claim *claim,
                             struct json_writer *w)
{
    struct err err;
    json_write_key(w, STR("allocation"));
    if (api_json_write(&api_allocation_result_type, claim->status.allocation, w, &err) < 0)
        json_write_null(w); // what came from the API can be written
    json_write_key(w, STR("heldBy"));
    json_write_array_begin(w);
    for (size_t i = 0; i < claim->status.reserved_for.n; i++)
        write_holder(s, claim, &claim->status.reserved_for.p[i], w);
    json_write_array_end(w);
}

static struct str explain_claim_state(const struct sched_claim *k,
                                      const struct api_resource_claim *claim)
{
    return claim->metadata.deletion_timestamp.set ? STR("being deleted")
           : claim->status.allocation             ? STR("allocated")
           : k->flight                            ? STR("beingAllocated")
                                                  : STR("pending");
}

void explain_claim(struct sched *s, struct sched_claim *k, struct sbuf *out, struct sbuf *text)
{
    const struct api_resource_claim *claim = claims_api(k);
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    explain_field(&w, "kind", STR("ResourceClaim"));
    explain_field(&w, "name", k->key);
    explain_field(&w, "state", explain_claim_state(k, claim));
    if (claim->status.allocation)
        write_allocation(s, claim, &w);
    json_write_key(&w, STR("pods"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < k->pods.n; i++) {
        cleanup_sbuf struct sbuf pod = {0};
        explain_pod(s, k->pods.p[i], &pod, NULL);
        json_write_raw(&w, sbuf_str(&pod));
    }
    json_write_array_end(&w);
    if (!claim->status.allocation && !k->flight && !k->pods.n &&
        !claim->metadata.deletion_timestamp.set)
        write_unused(s, claim, &w, text);
    json_write_object_end(&w);
}

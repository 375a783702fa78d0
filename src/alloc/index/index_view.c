// SPDX-License-Identifier: Apache-2.0
//
// Views of nodes, made on request; the latest ones are kept. Nodes without pools of
// their own look at one snapshot of the pools of their set.
#include <stdlib.h>

#include "alloc/index/index_int.h"
#include "alloc/model/answer.h"
#include "api/match/device_taint.h"

#include "base/banned.h"

// What a snapshot costs without any devices, in devices.
#define SNAPSHOT_DEVICES 2

struct gathering {
    struct slice_ptrs VEC(const struct api_resource_slice *) slices;
    struct class_ptrs VEC(const struct api_device_class *) classes;
    struct rule_ptrs VEC(const struct api_device_taint_rule *) rules;
    struct use_vec VEC(struct alloc_use) uses;
    struct kind_vec VEC(struct device_kind *) kinds; // of the devices of slices
};

static void gathering_done(struct gathering *g)
{
    vec_done(&g->slices);
    vec_done(&g->classes);
    vec_done(&g->rules);
    vec_done(&g->uses);
    vec_done(&g->kinds);
}

// --- Snapshots -----------------------------------------------------------------------------------

static void drop_state(struct index_base *b)
{
    alloc_cluster_free(b->state);
    b->state = NULL;
}

static void drop_base(const struct index *x, struct index_base *b)
{
    drop_state(b);
    alloc_cluster_free(b->base);
    b->base = NULL;
    b->unknown = false;
    vec_foreach(&b->held, o)
        index_let_go(x, *o);
    vec_done(&b->held);
}

static void index_view_hold_objects(const struct index *x, struct index_base *b, const void *owner)
{
    if (!x->options.keep)
        return;
    index_keep(x, owner);
    vec_push(&b->held, owner);
}

static void index_view_gather_slices(const struct index *x, const struct index_pools *pools,
                                     struct gathering *g, struct index_base *b)
{
    for (size_t i = 0; i < pools->n; i++)
        for (size_t k = 0; k < pools->p[i]->slices.n; k++) {
            const struct index_slice *s = pools->p[i]->slices.p[k];
            // Kinds that do not tell apart what is read now are none.
            bool known = !index_reads_grow(x, s);
            b->unknown |= !known;
            vec_push(&g->slices, s->api);
            index_view_hold_objects(x, b, s->object.owner);
            for (size_t d = 0; d < s->api->spec.devices.n; d++)
                vec_push(&g->kinds,
                         known ? answer_kind_of(x->kit->answers, s->devices[d].kind) : NULL);
        }
}

// A rule counts if it may concern one of the slices: there may be many for other nodes.
static bool rule_counts(const struct gathering *g, const struct api_device_taint_rule *r)
{
    for (size_t i = 0; i < g->slices.n; i++) {
        const struct api_resource_slice_spec *s = &g->slices.p[i]->spec;
        if (device_taint_selects(r->spec.device_selector, s->driver, s->pool.name, NULL))
            return true;
    }
    return false;
}

static int make_base(const struct index *x, const struct index_pools *own,
                     const struct index_pools *shared, struct index_base *b, struct err *err)
{
    struct gathering g = {0};
    struct cl_kinds kinds = {.generation = answer_begin(x->kit->answers),
                             .reads = x->read.all ? UINT32_MAX : (uint32_t)x->read.list.n};
    if (own)
        index_view_gather_slices(x, own, &g, b);
    index_view_gather_slices(x, shared, &g, b);
    for (size_t i = 0; i < x->classes.n; i++) {
        vec_push(&g.classes, x->classes.p[i].value);
        index_view_hold_objects(x, b, x->classes.p[i].owner);
    }
    for (size_t i = 0; i < x->rules.n; i++) {
        if (!rule_counts(&g, x->rules.p[i].value))
            continue;
        vec_push(&g.rules, x->rules.p[i].value);
        index_view_hold_objects(x, b, x->rules.p[i].owner);
    }
    struct alloc_input in = {.features = x->options.features,
                             .kit = x->kit,
                             .kinds = &kinds,
                             .slices = g.slices.p,
                             .slices_len = g.slices.n,
                             .classes = g.classes.p,
                             .classes_len = g.classes.n,
                             .taint_rules = g.rules.p,
                             .taint_rules_len = g.rules.n};
    kinds.of = g.kinds.p;
    int r = alloc_cluster_new(&in, &b->base, err);
    gathering_done(&g);
    if (r < 0)
        drop_base(x, b);
    return r;
}

// --- Kinds ---------------------------------------------------------------------------------------

static uint32_t kinds_number(const struct index *x, const struct index_pools *pools,
                             struct index_base *b, uint32_t at)
{
    for (size_t i = 0; pools && i < pools->n; i++)
        for (size_t k = 0; k < pools->p[i]->slices.n; k++) {
            const struct index_slice *s = pools->p[i]->slices.p[k];
            bool known = !index_reads_grow(x, s);
            b->unknown |= !known;
            for (size_t d = 0; d < s->api->spec.devices.n; d++, at++) {
                uint32_t n =
                    known ? answer_kind_of(x->kit->answers, s->devices[d].kind)->number : 0;
                b->base->devices[at].kind_number = n;
                if (b->state)
                    b->state->devices[at].kind_number = n;
            }
        }
    return at;
}

// Expressions may read more than when the snapshot was made: its devices get the kinds that tell
// that apart, so that answers on them are kept.
static void kinds_renew(const struct index *x, const struct index_pools *own,
                        const struct index_pools *shared, struct index_base *b)
{
    struct cl_kinds kinds = {.generation = answer_begin(x->kit->answers),
                             .reads = x->read.all ? UINT32_MAX : (uint32_t)x->read.list.n};
    if (!b->unknown && b->base->kinds.generation == kinds.generation &&
        b->base->kinds.reads == kinds.reads)
        return;
    b->unknown = false;
    (void)kinds_number(x, shared, b, kinds_number(x, own, b, 0));
    b->base->kinds = kinds;
    if (b->state)
        b->state->kinds = kinds;
}

// --- Use -----------------------------------------------------------------------------------------

// Everything in use; with judged only by others, and what may have been stored before a revision.
static void index_view_gather_uses(const struct index *x, const struct index_pools *pools,
                                   const struct index_user *judged, uint64_t before,
                                   struct gathering *g)
{
    for (size_t i = 0; i < pools->n; i++) {
        const struct index_pool *p = pools->p[i];
        for (size_t k = 0; k < p->users.n; k++) {
            const struct index_user *u = p->users.p[k];
            if (judged && (u == judged || u->not_before >= before))
                continue;
            for (size_t m = 0; m < index_user_len(u); m++) {
                struct alloc_use use;
                if (index_user_use(x, u, m, &use) && str_eq(use.id.pool, p->name) &&
                    str_eq(use.id.driver, p->driver))
                    vec_push(&g->uses, use);
            }
        }
    }
}

static struct alloc_cluster *make_state(const struct index *x, const struct index_pools *own,
                                        const struct index_pools *shared,
                                        const struct alloc_cluster *base,
                                        const struct index_user *judged, uint64_t before)
{
    struct gathering g = {0};
    if (own)
        index_view_gather_uses(x, own, judged, before, &g);
    index_view_gather_uses(x, shared, judged, before, &g);
    struct alloc_input in = {.uses = g.uses.p, .uses_len = g.uses.n};
    struct alloc_cluster *c = alloc_cluster_in_use(base, &in);
    gathering_done(&g);
    return c;
}

// --- What is kept --------------------------------------------------------------------------------

static void unlink_snapshot(struct index *x, struct index_snapshot *s)
{
    if (s->newer)
        s->newer->older = s->older;
    else
        x->kept.newest = s->older;
    if (s->older)
        s->older->newer = s->newer;
    else
        x->kept.oldest = s->newer;
    s->newer = s->older = NULL;
}

static void link_newest(struct index *x, struct index_snapshot *s)
{
    s->older = x->kept.newest;
    if (x->kept.newest)
        x->kept.newest->newer = s;
    else
        x->kept.oldest = s;
    x->kept.newest = s;
}

static void drop_view(struct index_snapshot *s)
{
    alloc_view_free(s->view);
    s->view = NULL;
}

static void drop_snapshot(struct index *x, struct index_snapshot *s)
{
    unlink_snapshot(x, s);
    drop_view(s);
    drop_base(x, &s->own);
    s->node->snapshot = NULL;
    x->kept.n--;
    x->kept.devices -= s->devices;
    free(s);
}

static void drop_surplus(struct index *x)
{
    struct index_snapshot *s = x->kept.oldest;
    while (s && x->kept.n > VIEWS_LEAST && x->kept.devices > x->options.devices_kept) {
        struct index_snapshot *next = s->newer;
        if (!s->pinned)
            drop_snapshot(x, s);
        s = next;
    }
}

void index_pin(struct index *x, uint32_t node)
{
    if (x->nodes.p[node]->snapshot)
        x->nodes.p[node]->snapshot->pinned = true;
}

void index_unpin(struct index *x)
{
    for (struct index_snapshot *s = x->kept.oldest; s; s = s->newer)
        s->pinned = false;
    drop_surplus(x);
}

void index_view_drop(struct index *x, struct index_node *n, bool slices)
{
    struct index_snapshot *s = n->snapshot;
    if (!s)
        return;
    if (slices) {
        drop_snapshot(x, s);
        return;
    }
    drop_view(s);
    drop_state(&s->own);
}

void index_view_drop_all(struct index *x)
{
    while (x->kept.oldest)
        drop_snapshot(x, x->kept.oldest);
    map_foreach(&x->sets, i)
        drop_base(x, &(*map_value(&x->sets, i))->common);
}

void index_view_done(struct index *x, struct index_set *set)
{
    drop_base(x, &set->common);
}

// The snapshot of a node, in which nothing is out of date.
static struct index_snapshot *snapshot_of(struct index *x, struct index_node *n)
{
    struct index_snapshot *s = n->snapshot;
    if (s && s->slices_stamp != n->set->slices_stamp) {
        drop_snapshot(x, s);
        s = NULL;
    }
    if (!s) {
        s = n->snapshot = xcalloc(1, sizeof(*s));
        s->node = n;
        s->slices_stamp = n->set->slices_stamp;
        s->uses_stamp = n->set->uses_stamp;
        x->kept.n++;
        link_newest(x, s);
        return s;
    }
    if (s->uses_stamp != n->set->uses_stamp) {
        drop_view(s);
        drop_state(&s->own);
        s->uses_stamp = n->set->uses_stamp;
    }
    unlink_snapshot(x, s);
    link_newest(x, s);
    return s;
}

// What a node's view is made of. NULL: err has the reason.
static struct index_base *index_view_base_of(struct index *x, struct index_node *n, struct err *err)
{
    struct index_set *set = n->set;
    struct index_base *b = n->pools.n ? &snapshot_of(x, n)->own : &set->common;
    const struct index_pools *own = n->pools.n ? &n->pools : NULL;
    if (!own && b->base && set->common_slices != set->slices_stamp)
        drop_base(x, b);
    if (!own && b->state && set->common_uses != set->uses_stamp)
        drop_state(b);
    if (!b->base && make_base(x, own, &set->pools, b, err) < 0)
        return NULL;
    kinds_renew(x, own, &set->pools, b);
    if (!b->state)
        b->state = make_state(x, own, &set->pools, b->base, NULL, 0);
    if (!own) {
        set->common_slices = set->slices_stamp;
        set->common_uses = set->uses_stamp;
    }
    return b;
}

const struct alloc_view *index_view(struct index *x, uint32_t node, struct err *err)
{
    struct index_node *n = x->nodes.p[node];
    struct index_snapshot *s = snapshot_of(x, n);
    if (s->view) {
        kinds_renew(x, n->pools.n ? &n->pools : NULL, &n->set->pools,
                    n->pools.n ? &s->own : &n->set->common);
        return s->view;
    }
    const struct index_base *b = index_view_base_of(x, n, err);
    if (!b || alloc_view_new(b->state, n->object.value, &s->view, err) < 0)
        s->view = NULL;
    x->kept.devices -= s->devices;
    s->devices = SNAPSHOT_DEVICES + (s->view ? alloc_view_devices(s->view) : 0);
    x->kept.devices += s->devices;
    drop_surplus(x); // never this one: it is the newest
    return s->view;
}

// --- Other schedulers ----------------------------------------------------------------------------

bool index_contested(const struct index_user *u)
{
    for (size_t i = 0; i < u->pools.n; i++)
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++)
            if (u->pools.p[i]->users.p[k] != u &&
                (u->foreign || u->pools.p[i]->users.p[k]->foreign))
                return true;
    return false;
}

static bool index_view_holds_device(const struct api_device_request_allocation_result *r)
{
    return !(r->has_admin_access && r->admin_access);
}

// Do two allocations have a device in common that cannot be shared?
static bool index_view_results_collide(const struct api_allocation_result *a,
                                       const struct api_allocation_result *b)
{
    for (size_t i = 0; i < a->devices.results.n; i++)
        for (size_t k = 0; k < b->devices.results.n; k++) {
            const struct api_device_request_allocation_result *x = &a->devices.results.p[i];
            const struct api_device_request_allocation_result *y = &b->devices.results.p[k];
            if (index_view_holds_device(x) && index_view_holds_device(y) &&
                !(x->has_share_id && y->has_share_id) && str_eq(x->device, y->device) &&
                str_eq(x->pool, y->pool) && str_eq(x->driver, y->driver))
                return true;
        }
    return false;
}

static bool index_view_user_collides(const struct index_user *u, uint64_t before)
{
    for (size_t i = 0; i < u->pools.n; i++)
        for (size_t k = 0; k < u->pools.p[i]->users.n; k++) {
            const struct index_user *other = u->pools.p[i]->users.p[k];
            if (other != u && other->not_before < before &&
                index_view_results_collide(u->allocation, other->allocation))
                return true;
        }
    return false;
}

bool index_stands(struct index *x, uint32_t node, const struct index_user *u,
                  const struct api_resource_claim *claim, uint64_t before)
{
    struct err err;
    cleanup_sbuf struct sbuf problems = {0};
    struct index_node *n = node < x->nodes.n ? x->nodes.p[node] : NULL;
    const struct index_base *b = n ? index_view_base_of(x, n, &err) : NULL;
    if (!b || index_view_user_collides(u, before))
        return false; // without its node there is nothing to hold shares and counters against
    struct alloc_cluster *c =
        make_state(x, n->pools.n ? &n->pools : NULL, &n->set->pools, b->base, u, before);
    struct alloc_view *v = NULL;
    bool stands = alloc_view_new(c, n->object.value, &v, &err) == 0 &&
                  alloc_check(v, &claim, 1, u->allocation, 1, &problems);
    alloc_view_free(v);
    alloc_cluster_free(c);
    return stands;
}

// SPDX-License-Identifier: Apache-2.0
//
// Keeps the fleet up to date, a few hundred nodes at a time, and puts pods as questions to it.
#include "sched/filter/packing.h"

#include <stdlib.h>

#include "alloc/fleet.h"
#include "sched/dra/dra_int.h"

#include "base/banned.h"

// Nodes looked at again in one attempt; the others keep the state they had, which is a preference
// only. When nothing is found, all are looked at.
#define NODES_AT_ONCE 512

// The fleet adds amounts up and takes them off: no more than this of anything is passed to it.
#define AMOUNT_MAX (INT64_C(1) << 53)

// Pods on nodes that count as seen when the scheduler starts, and what their selectors may cost.
#define RECALL_PODS 1024
#define RECALL_COST UINT64_C(1000000)

struct packing {
    struct sched *s;
    struct fleet *fleet;
    uint64_t *stale; // a bit a node
    size_t words;
    size_t stale_len;
    size_t next;   // word to go on with
    bool recalled; // pods that were on nodes before are counted
};

static const struct alloc_view *view_of(void *arg, uint32_t node)
{
    const struct sched *s = arg;
    struct err err;
    return index_view(s->devices, node, &err);
}

struct packing *packing_new(struct sched *s)
{
    struct packing *p = xcalloc(1, sizeof(*p));
    p->s = s;
    p->fleet =
        fleet_new(&(struct fleet_options){.view = view_of, .view_arg = s, .meter = &s->cost.meter});
    return p;
}

void packing_free(struct packing *p)
{
    if (!p)
        return;
    fleet_free(p->fleet);
    free(p->stale);
    free(p);
}

struct fleet *packing_fleet(struct packing *p)
{
    return p->fleet;
}

// --- Nodes ---------------------------------------------------------------------------------------

static void packing_mark_node(struct packing *p, uint32_t node)
{
    size_t word = node / 64;
    uint64_t bit = UINT64_C(1) << (node % 64);
    if (word >= p->words) {
        size_t words = 2 * word + 1;
        p->stale = xreallocarray(p->stale, words, sizeof(*p->stale));
        memset(p->stale + p->words, 0, (words - p->words) * sizeof(*p->stale));
        p->words = words;
    }
    p->stale_len += !(p->stale[word] & bit);
    p->stale[word] |= bit;
}

// Lists that are longer than there are nodes were not kept further: anything may have changed.
static void mark_list(struct packing *p, struct index_numbers *changed)
{
    size_t all = p->s->cluster.order.n;
    for (uint32_t i = 0; i < all && changed->n > all; i++)
        packing_mark_node(p, i);
    for (size_t i = 0; i < changed->n; i++)
        packing_mark_node(p, changed->p[i]);
    vec_clear(changed);
}

static int64_t packing_at_most(int64_t amount)
{
    return amount > AMOUNT_MAX ? AMOUNT_MAX : amount < -AMOUNT_MAX ? -AMOUNT_MAX : amount;
}

static void packing_update_node(struct packing *p, uint32_t node)
{
    struct sched *s = p->s;
    const struct sched_node *n = node < s->cluster.order.n ? s->cluster.order.p[node] : NULL;
    if (!n || !n->api) {
        fleet_gone(p->fleet, node);
        return;
    }
    struct fleet_room room = {.order = node,
                              .cpu_all = amount_at(&n->allocatable, RES_CPU),
                              .memory_all = amount_at(&n->allocatable, RES_MEMORY)};
    room.cpu = packing_at_most(room.cpu_all - amount_at(&n->requested, RES_CPU));
    room.memory = packing_at_most(room.memory_all - amount_at(&n->requested, RES_MEMORY));
    fleet_set_state(p->fleet, node, &room, index_state(s->devices, node));
}

static void packing_update_marked(struct packing *p, size_t most)
{
    mark_list(p, &p->s->cluster.changed);
    mark_list(p, index_touched(p->s->devices));
    for (size_t left = p->words; left && p->stale_len && most; left--) {
        p->next = p->next < p->words ? p->next : 0;
        while (p->stale[p->next] && most) {
            uint32_t bit = (uint32_t)__builtin_ctzll(p->stale[p->next]);
            p->stale[p->next] &= p->stale[p->next] - 1;
            p->stale_len--;
            most--;
            packing_update_node(p, (uint32_t)(p->next * 64) + bit);
        }
        p->next += !p->stale[p->next];
    }
}

bool packing_warm(struct packing *p, size_t most)
{
    bool behind = index_catch_up(p->s->devices, most);
    packing_update_marked(p, most);
    return behind || p->stale_len > 0;
}

bool packing_behind(const struct packing *p)
{
    return p->stale_len > 0;
}

void packing_catch_up(struct sched *s)
{
    packing_update_marked(s->packing, SIZE_MAX);
}

// --- Pods ----------------------------------------------------------------------------------------

static int64_t packing_need_of(const struct sched_pod *p, uint32_t res)
{
    for (size_t i = 0; i < p->needs_len; i++)
        if (p->needs[i].res == res)
            return packing_at_most(p->needs[i].amount);
    return 0;
}

bool packing_serves(const struct attempt *a)
{
    if (!a->s->packing || a->nodes.only.n || a->special.want)
        return false;
    if (a->open_len)
        return true;
    if (a->wants_len)
        return false;
    // Pods without devices should leave processors to those that come for devices, if there are
    // any. Look at nodes first: the choice must not depend on whether there was time before.
    struct packing *p = a->s->packing;
    if (worth_types(fleet_worth(p->fleet)) == 0)
        (void)packing_warm(p, NODES_AT_ONCE);
    return worth_types(fleet_worth(p->fleet)) > 0;
}

static int packing_pod_cmp(const void *x, const void *y)
{
    const struct sched_pod *a = *(struct sched_pod *const *)x;
    const struct sched_pod *b = *(struct sched_pod *const *)y;
    int r =
        moment_cmp(a->api->metadata.creation_timestamp.at, b->api->metadata.creation_timestamp.at);
    return r ? r : str_cmp(a->key, b->key);
}

static void packing_recall_pod(struct packing *p, struct sched_pod *pod)
{
    struct arena arena = {0};
    const struct api_resource_claim *const *claims = NULL;
    uint64_t hash = 0;
    size_t n = dra_claims_of(p->s, pod->api, &arena, &claims, &hash);
    (void)fleet_ask(p->fleet, n ? hash : 0, claims, n, packing_need_of(pod, RES_CPU),
                    packing_need_of(pod, RES_MEMORY));
    if (!p->s->cost.meter.refused) {
        fleet_learn(p->fleet, 1);
        fleet_start(p->fleet); // prices are made after as many pods as if it had been placed now
    }
    arena_done(&arena);
}

// packing_recall counts pods that were on nodes before the scheduler started, so that a scheduler
// that starts anew, or that of a plan, chooses as one that has run all the time. The cost of their
// selectors is not the cost of the pod that is being placed.
static void packing_recall(struct packing *p)
{
    struct alloc_meter *m = &p->s->cost.meter;
    const struct alloc_meter before = *m;
    struct pod_vec pods = {0};
    p->recalled = true;
    for (size_t i = 0; i < p->s->cluster.order.n; i++) {
        const struct sched_node *n = p->s->cluster.order.p[i];
        for (size_t k = 0; n && n->api && k < n->pods.n; k++)
            if (!n->pods.p[k]->assumed && !n->pods.p[k]->cost.learnt)
                vec_push(&pods, n->pods.p[k]);
    }
    if (pods.n)
        qsort(pods.p, pods.n, sizeof(struct sched_pod *), packing_pod_cmp);
    m->left = RECALL_COST;
    m->refused = false;
    for (size_t i = pods.n > RECALL_PODS ? pods.n - RECALL_PODS : 0; i < pods.n && !m->refused; i++)
        packing_recall_pod(p, pods.p[i]);
    m->left = before.left;
    m->refused = before.refused;
    p->s->cost.began += m->spent - before.spent;
    vec_done(&pods);
}

void packing_start(struct attempt *a)
{
    struct packing *p = a->s->packing;
    packing_update_marked(p, NODES_AT_ONCE);
    if (!p->recalled)
        packing_recall(p);
    (void)fleet_ask(p->fleet, a->open_len ? a->devices_hash : 0, a->open, a->open_len,
                    packing_need_of(a->pod, RES_CPU), packing_need_of(a->pod, RES_MEMORY));
    if (a->s->cost.meter.refused)
        return;
    if (a->pod->queue.attempts <= 1 && !a->learnt && !a->pod->cost.learnt)
        fleet_learn(p->fleet, 1);
    a->learnt = a->pod->cost.learnt = true;
    a->by_worth = true;
    fleet_start(p->fleet);
}

void packing_end(struct sched *s)
{
    if (s->packing)
        fleet_at(s->packing->fleet, UINT32_MAX);
}

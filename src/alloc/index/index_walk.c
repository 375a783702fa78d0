// SPDX-License-Identifier: Apache-2.0
//
// Questions: what is known about them on groups of nodes, and which nodes to ask in which order.
#include <stdlib.h>

#include "alloc/fleet.h"
#include "alloc/index/index_int.h"

#include "base/banned.h"

// --- Facts ---------------------------------------------------------------------------------------

// Does a question read what some devices have not been looked at for? Then their groups are too
// large for it.
static bool index_walk_is_pending(const struct index *x, const struct index_question *q)
{
    return q->rekey > x->read.rekeyed;
}

struct index_question *index_question(struct index *x, uint64_t hash,
                                      const struct api_resource_claim *const *claims,
                                      size_t claims_len)
{
    struct index_question *oldest = &x->questions[0];
    x->clock++;
    (void)index_catch_up(x, CATCH_UP);
    for (size_t i = 0; i < x->questions_len; i++) {
        struct index_question *q = &x->questions[i];
        if (q->hash == hash && q->epoch == x->epoch) {
            q->used = x->clock;
            return q;
        }
        if (q->used < oldest->used)
            oldest = q;
    }
    if (x->questions_len < QUESTIONS_MAX)
        oldest = &x->questions[x->questions_len++];
    if (index_reads_claims(x, claims, claims_len))
        index_stale(x);
    if (oldest->facts_len)
        memset(oldest->facts, 0, oldest->facts_len * sizeof(*oldest->facts));
    oldest->hash = hash;
    oldest->epoch = x->epoch;
    oldest->rekey = x->read.rekeys;
    oldest->refusals = 0;
    oldest->used = x->clock;
    return oldest;
}

struct index_fact *index_fact_of(struct index *x, struct index_question *q,
                                 const struct index_group *g)
{
    if (q->facts_len <= g->number) {
        size_t n = x->group.all.n + x->group.all.n / 2 + 16;
        q->facts = xreallocarray(q->facts, n, sizeof(*q->facts));
        memset(q->facts + q->facts_len, 0, (n - q->facts_len) * sizeof(*q->facts));
        q->facts_len = n;
    }
    struct index_fact *f = &q->facts[g->number];
    if (f->born != g->born)
        *f = (struct index_fact){.born = g->born, .more = UINT32_MAX};
    return f;
}

enum index_known index_fact_known(const struct index *x, const struct index_question *q,
                                  const struct index_group *g)
{
    if (!q || index_walk_is_pending(x, q) || g->number >= q->facts_len ||
        q->facts[g->number].born != g->born)
        return KNOWN_NOTHING;
    return (enum index_known)q->facts[g->number].known;
}

struct index_group *index_group_of(struct index *x, uint32_t node)
{
    const struct index_node *n = node < x->nodes.n ? x->nodes.p[node] : NULL;
    if (!n || !n->cell)
        return NULL;
    index_place_settle(x, n->set);
    return n->cell->group;
}

bool index_ruled_out(struct index *x, const struct index_question *q, uint32_t node)
{
    const struct index_group *g = index_group_of(x, node);
    return g && index_fact_known(x, q, g) == KNOWN_NO;
}

bool index_serves(struct index *x, const struct index_question *q, uint32_t node)
{
    (void)index_catch_up(x, SIZE_MAX);
    const struct index_group *g = index_group_of(x, node);
    return g && index_fact_known(x, q, g) == KNOWN_YES;
}

void index_rule_out(struct index *x, struct index_question *q, uint32_t node)
{
    const struct index_group *g = index_group_of(x, node);
    if (g && !index_walk_is_pending(x, q))
        index_fact_of(x, q, g)->known = KNOWN_NO;
}

// --- Walks ---------------------------------------------------------------------------------------

static void load_groups(struct index *x, const struct index_groups *b)
{
    for (size_t i = 0; i < b->n; i++) {
        if (index_fact_known(x, x->walk.q, b->p[i]) == KNOWN_NO)
            continue;
        for (size_t k = 0; k < b->p[i]->cells.n; k++)
            crowd_walk_add(&x->walk.at, &b->p[i]->cells.p[k]->nodes, 0,
                           b->p[i]->cells.p[k]->number);
    }
}

// Nodes with so many idle devices. With too few a node does only if it can share them.
static void load_bucket(struct index *x, size_t bucket)
{
    if (bucket >= x->walk.need || bucket == BUCKETS - 1)
        load_groups(x, &x->group.buckets[bucket].firm);
    load_groups(x, &x->group.buckets[bucket].loose);
}

void index_walk_start(struct index *x, struct index_question *q, size_t need)
{
    index_place_settle_all(x);
    x->walk.q = q;
    x->walk.need = need;
    x->walk.at.n = 0;
    x->walk.left = BUCKETS;
    if (x->options.policy != ALLOC_FIRST)
        return;
    while (x->walk.left)
        load_bucket(x, --x->walk.left);
}

// The next bucket that has nodes; false: there is none.
static bool next_bucket(struct index *x)
{
    while (x->walk.left && !x->walk.at.n) {
        bool spread = x->options.policy == ALLOC_SPREAD;
        size_t bucket = spread ? x->walk.left - 1 : BUCKETS - x->walk.left;
        x->walk.left--;
        load_bucket(x, bucket);
    }
    return x->walk.at.n > 0;
}

bool index_walk_next(struct index *x, uint32_t *ret_node)
{
    do {
        struct crowd_cursor at;
        while (crowd_walk_next(&x->walk.at, &at)) {
            const struct index_cell *c = x->cell.all.p[at.crowd];
            if (index_fact_known(x, x->walk.q, c->group) == KNOWN_NO)
                continue; // all of them are ruled out
            crowd_walk_on(&x->walk.at, &c->nodes, &at);
            *ret_node = c->nodes.p[at.place].node;
            return true;
        }
    } while (next_bucket(x));
    return false;
}

// --- Asking nodes --------------------------------------------------------------------------------

// A refusal that cannot be remembered yet. Many of them are worth looking at all devices.
static void refuse_early(struct index *x, struct index_question *q)
{
    if (++q->refusals == REFUSALS_MAX)
        (void)index_catch_up(x, SIZE_MAX);
}

// Asks a node, and remembers a no. The fleet has the states of before: it does not learn what is
// about others. False: that was enough.
static bool index_walk_ask_node(struct index *x, struct index_question *q,
                                const struct index_ask *ask, uint32_t node, bool early)
{
    enum index_reply r = INDEX_NO;
    if (ask->fleet)
        fleet_at(ask->fleet, node);
    if (!q || !index_ruled_out(x, q, node)) {
        r = ask->ask(ask->arg, node);
        if (q && r == INDEX_NO) {
            if (index_walk_is_pending(x, q))
                refuse_early(x, q);
            index_rule_out(x, q, node);
        }
    }
    if (ask->fleet && r == INDEX_NO && !early)
        fleet_refused(ask->fleet, node);
    return r != INDEX_ENOUGH;
}

void index_find(struct index *x, const struct index_ask *ask)
{
    uint32_t node;
    struct index_question *q =
        ask->hash ? index_question(x, ask->hash, ask->claims, ask->claims_len) : NULL;
    if (!ask->fleet) {
        (void)index_catch_up(x, SIZE_MAX); // nodes must not move while they are walked over
        index_walk_start(x, q, ask->need);
    }
    bool early = q && index_walk_is_pending(x, q);
    while (ask->fleet ? fleet_next(ask->fleet, &node) : index_walk_next(x, &node))
        if (!index_walk_ask_node(x, q, ask, node, early))
            return;
}

// SPDX-License-Identifier: Apache-2.0
//
// Questions: what is known about them on groups of nodes, walks over the nodes that may do, and the
// answer for the whole cluster.
#include <stdlib.h>

#include "alloc/alloc_int.h"
#include "alloc/index_int.h"
#include "api/api.h"

#include "base/banned.h"

// Of one state, so many copies of a question are placed one after the other at the most.
#define MORE_MAX 256

// --- Facts ---------------------------------------------------------------------------------------

struct index_question *index_question(struct index *x, uint64_t hash,
                                      const struct api_resource_claim *const *claims,
                                      size_t claims_len)
{
    struct index_question *oldest = &x->questions[0];
    x->clock++;
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
    if (key_claims(x, claims, claims_len))
        index_rekey(x);
    if (oldest->facts_len)
        memset(oldest->facts, 0, oldest->facts_len * sizeof(*oldest->facts));
    oldest->hash = hash;
    oldest->epoch = x->epoch;
    oldest->used = x->clock;
    return oldest;
}

static struct index_fact *fact_of(struct index *x, struct index_question *q,
                                  const struct index_group *g)
{
    if (q->facts_len <= g->number) {
        size_t n = x->groups.n + x->groups.n / 2 + 16;
        q->facts = xreallocarray(q->facts, n, sizeof(*q->facts));
        memset(q->facts + q->facts_len, 0, (n - q->facts_len) * sizeof(*q->facts));
        q->facts_len = n;
    }
    struct index_fact *f = &q->facts[g->number];
    if (f->born != g->born)
        *f = (struct index_fact){.born = g->born, .more = UINT32_MAX};
    return f;
}

static enum index_known known(const struct index_question *q, const struct index_group *g)
{
    if (!q || g->number >= q->facts_len || q->facts[g->number].born != g->born)
        return KNOWN_NOTHING;
    return (enum index_known)q->facts[g->number].known;
}

// The group of a node as it is now; NULL: there is no such node.
static struct index_group *group_of(struct index *x, uint32_t node)
{
    const struct index_node *n = x->nodes.p[node];
    if (!n || !n->cell)
        return NULL;
    place_settle(x, n->set);
    return n->cell->group;
}

bool index_ruled_out(struct index *x, const struct index_question *q, uint32_t node)
{
    const struct index_group *g = group_of(x, node);
    return g && known(q, g) == KNOWN_NO;
}

bool index_serves(struct index *x, const struct index_question *q, uint32_t node)
{
    const struct index_group *g = group_of(x, node);
    return g && known(q, g) == KNOWN_YES;
}

void index_rule_out(struct index *x, struct index_question *q, uint32_t node)
{
    const struct index_group *g = group_of(x, node);
    if (g)
        fact_of(x, q, g)->known = KNOWN_NO;
}

// --- Walks ---------------------------------------------------------------------------------------

static int first_bucket(size_t need)
{
    return need < BUCKET_UNKNOWN ? (int)need : BUCKET_UNKNOWN - 1;
}

// All nodes of a bucket, or of all buckets.
static void load_bucket(struct index *x, int bucket)
{
    const struct index_groups *b = &x->buckets[bucket];
    for (size_t i = 0; i < b->n; i++) {
        if (known(x->walk.q, b->p[i]) == KNOWN_NO)
            continue;
        for (size_t k = 0; k < b->p[i]->cells.n; k++)
            crowd_walk_add(&x->walk.at, &b->p[i]->cells.p[k]->nodes, 0,
                           b->p[i]->cells.p[k]->number);
    }
}

void index_walk_start(struct index *x, struct index_question *q, size_t need)
{
    enum alloc_policy policy = x->options.policy;
    place_settle_all(x);
    x->walk.q = q;
    x->walk.need = need;
    x->walk.at.n = 0;
    x->walk.bucket = policy == ALLOC_SPREAD ? BUCKETS : first_bucket(need) - 1;
    if (policy != ALLOC_FIRST)
        return;
    for (int b = first_bucket(need); b < BUCKETS; b++)
        load_bucket(x, b);
    x->walk.bucket = BUCKETS;
}

// The next bucket that may do; false: there is none.
static bool next_bucket(struct index *x)
{
    if (x->options.policy == ALLOC_SPREAD) {
        if (--x->walk.bucket < first_bucket(x->walk.need))
            return false;
    } else if (x->walk.bucket >= BUCKETS || ++x->walk.bucket >= BUCKETS) {
        return false;
    }
    load_bucket(x, x->walk.bucket);
    return true;
}

bool index_walk_next(struct index *x, uint32_t *ret_node)
{
    for (;;) {
        struct crowd_cursor at;
        while (crowd_walk_next(&x->walk.at, &at)) {
            const struct index_cell *c = x->cells.p[at.crowd];
            if (known(x->walk.q, c->group) == KNOWN_NO)
                continue; // all of them are ruled out
            crowd_walk_on(&x->walk.at, &c->nodes, &at);
            *ret_node = c->nodes.p[at.place].node;
            return true;
        }
        if (!next_bucket(x))
            return false;
    }
}

// --- The whole cluster ---------------------------------------------------------------------------

// Solves on a node. False: the walk is over, with the answer in ret.
static bool try_node(struct index *x, struct index_question *q, struct alloc_solver *s,
                     const struct index_ask *ask, uint32_t node, struct index_answer *ret)
{
    struct err err = {0};
    const struct alloc_view *v = index_view(x, node, &err);
    struct index_fact *f = fact_of(x, q, group_of(x, node));
    ret->node = node;
    if (!v) {
        ret->verdict = ALLOC_NODE_ERROR;
        f->known = KNOWN_NO;
        return true;
    }
    alloc_solve(s, v, ask->claims, ask->claims_len, &ret->best);
    ret->solves++;
    ret->verdict = ret->best.verdict;
    if (ret->verdict == ALLOC_UNSATISFIABLE || ret->verdict == ALLOC_NODE_ERROR) {
        f->known = KNOWN_NO;
        return true;
    }
    if (ret->verdict == ALLOC_ALLOCATED)
        f->known = KNOWN_YES;
    return false;
}

void index_best(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                struct index_answer *ret)
{
    struct index_question *q = index_question(x, ask->hash, ask->claims, ask->claims_len);
    uint32_t node;
    *ret = (struct index_answer){.verdict = ALLOC_UNSATISFIABLE, .node = UINT32_MAX};
    // Nodes with too few devices may have an error to tell, and each state is asked but once.
    index_walk_start(x, q, 0);
    while (index_walk_next(x, &node)) {
        if (ask->may && !ask->may(ask->arg, node))
            continue;
        if (!try_node(x, q, s, ask, node, ret))
            return;
    }
}

// --- How many ------------------------------------------------------------------------------------

struct use_list VEC(struct alloc_use);

static bool add_uses(const struct index *x, const struct index_node *n,
                     const struct alloc_answer *a, struct arena *arena, struct use_list *uses)
{
    bool shared = false;
    for (size_t c = 0; c < a->results_len; c++) {
        struct api_allocation_result *copy = arena_one(arena, struct api_allocation_result);
        api_copy(&api_allocation_result_type, &a->results[c], copy, arena);
        struct index_user user = {.allocation = copy};
        for (size_t i = 0; i < user_len(&user); i++) {
            struct alloc_use use;
            if (!user_use(x, &user, i, &use))
                continue;
            vec_push(uses, use);
            bool own = false;
            for (size_t k = 0; k < n->pools.n; k++)
                own |= str_eq(n->pools.p[k]->name, use.id.pool) &&
                       str_eq(n->pools.p[k]->driver, use.id.driver);
            shared |= !own;
        }
    }
    return shared;
}

// So many fit on one node of the group, one after the other.
static void count_more(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                       uint32_t node, struct index_fact *f)
{
    struct index_node *n = x->nodes.p[node];
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    struct use_list uses = {0};
    const struct alloc_view *v = index_view(x, node, &err);
    for (size_t i = 0; v && i < v->cluster->use_list_len; i++)
        vec_push(&uses, v->cluster->use_list[i]);
    f->more = f->shared = 0;
    while (v && f->more < MORE_MAX) {
        struct alloc_input in = {.uses = uses.p, .uses_len = uses.n};
        struct alloc_cluster *c = alloc_cluster_in_use(v->cluster, &in);
        struct alloc_view *now = NULL;
        struct alloc_answer a = {.verdict = ALLOC_NODE_ERROR};
        size_t before = uses.n;
        if (alloc_view_new(c, n->object.value, &now, &err) == 0)
            alloc_solve(s, now, ask->claims, ask->claims_len, &a);
        if (a.verdict == ALLOC_ALLOCATED) {
            f->shared += add_uses(x, n, &a, &arena, &uses);
            f->more++;
        }
        alloc_view_free(now);
        alloc_cluster_free(c);
        if (uses.n == before)
            break; // it did not fit, or takes nothing
    }
    vec_done(&uses);
}

static size_t nodes_of(const struct index_group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->cells.n; i++)
        n += g->cells.p[i]->nodes.n;
    return n;
}

void index_count(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                 struct index_answer *ret)
{
    struct index_question *q = index_question(x, ask->hash, ask->claims, ask->claims_len);
    *ret = (struct index_answer){.verdict = ALLOC_UNSATISFIABLE, .node = UINT32_MAX};
    place_settle_all(x);
    for (size_t i = 0; i < x->groups.n; i++) {
        const struct index_group *g = x->groups.p[i];
        if (!g || known(q, g) == KNOWN_NO)
            continue;
        uint32_t node = g->cells.p[0]->nodes.p[0].node;
        struct index_answer one = {0};
        if (known(q, g) == KNOWN_NOTHING)
            (void)try_node(x, q, s, ask, node, &one);
        ret->solves += one.solves;
        struct index_fact *f = fact_of(x, q, g);
        if (f->known != KNOWN_YES)
            continue;
        if (f->more == UINT32_MAX)
            count_more(x, s, ask, node, f);
        ret->verdict = ALLOC_ALLOCATED;
        ret->states++;
        ret->nodes += nodes_of(g);
        ret->more += (uint64_t)f->more * nodes_of(g);
        ret->at_most |= f->shared > 0;
    }
}

// --- Explanations --------------------------------------------------------------------------------

bool index_explain(struct index *x, struct index_explaining *e, uint32_t node)
{
    const struct index_group *g = group_of(x, node);
    struct err err;
    struct index_look *look =
        map_put(&e->seen, str_make((const char *)&g->state, sizeof(g->state)));
    if (look->looks && e->looks >= INDEX_LOOKS) {
        alloc_report_again(e->report, look->group, x->nodes.p[node]->name);
        return true;
    }
    const struct alloc_view *v = index_view(x, node, &err);
    if (!v || !alloc_report_add(e->report, e->solver, v, e->claims, e->claims_len))
        return false;
    bool first;
    look->looks++;
    e->looks++;
    look->group = alloc_report_last(e->report, &first);
    if (first)
        index_pin(x, node);
    return true;
}

// SPDX-License-Identifier: Apache-2.0
//
// The answer of the whole cluster: the best node, how many would fit, why none does.
#include <stdlib.h>

#include "alloc/index/index_int.h"
#include "alloc/model/answer.h"
#include "alloc/model/view_int.h"
#include "api/api.h"

#include "base/banned.h"

// Of one state, so many copies of a question are placed one after the other at the most.
#define MORE_MAX 256

// --- The whole cluster ---------------------------------------------------------------------------

struct best {
    struct index *x;
    struct alloc_solver *s;
    const struct index_ask *ask;
    struct index_answer *ret;
};

static enum index_reply solve_on(void *arg, uint32_t node)
{
    struct best *b = arg;
    struct index_answer *ret = b->ret;
    struct err err = {0};
    const struct alloc_view *v = index_view(b->x, node, &err);
    ret->node = node;
    ret->verdict = ALLOC_NODE_ERROR;
    if (v) {
        alloc_solve(b->s, v, b->ask->claims, b->ask->claims_len, &ret->best);
        ret->solves++;
        ret->verdict = ret->best.verdict;
    }
    bool no = ret->verdict == ALLOC_UNSATISFIABLE || ret->verdict == ALLOC_NODE_ERROR;
    return no ? INDEX_NO : INDEX_ENOUGH;
}

void index_best(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                struct index_answer *ret)
{
    *ret = (struct index_answer){.verdict = ALLOC_UNSATISFIABLE, .node = UINT32_MAX};
    struct best b = {x, s, ask, ret};
    struct index_ask find = *ask;
    find.ask = solve_on;
    find.arg = &b;
    // Nodes with too few devices may have an error to tell, and each state is asked but once.
    find.need = 0;
    index_find(x, &find);
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
        for (size_t i = 0; i < index_user_len(&user); i++) {
            struct alloc_use use;
            if (!index_user_use(x, &user, i, &use))
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
        if (a.verdict == ALLOC_POSTPONED)
            f->more = UINT32_MAX; // not known yet
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

static size_t index_ask_nodes_of(const struct index_group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->cells.n; i++)
        n += g->cells.p[i]->nodes.n;
    return n;
}

// Solves on a node of the group. Returns how many solves that took.
static uint64_t find_fact(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                          uint32_t node, struct index_fact *f)
{
    struct index_answer one = {0};
    enum index_reply r = solve_on(&(struct best){x, s, ask, &one}, node);
    if (r == INDEX_NO)
        f->known = KNOWN_NO;
    else if (one.verdict == ALLOC_ALLOCATED)
        f->known = KNOWN_YES;
    return one.solves;
}

void index_count(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                 struct index_answer *ret)
{
    struct index_question *q = index_question(x, ask->hash, ask->claims, ask->claims_len);
    *ret = (struct index_answer){.verdict = ALLOC_UNSATISFIABLE, .node = UINT32_MAX};
    (void)index_catch_up(x, SIZE_MAX);
    index_place_settle_all(x);
    for (size_t i = 0; i < x->group.all.n; i++) {
        const struct index_group *g = x->group.all.p[i];
        if (!g || index_fact_known(x, q, g) == KNOWN_NO)
            continue;
        uint32_t node = g->cells.p[0]->nodes.p[0].node;
        struct index_fact *f = index_fact_of(x, q, g);
        if (f->known == KNOWN_NOTHING)
            ret->solves += find_fact(x, s, ask, node, f);
        if (f->known != KNOWN_YES)
            continue;
        if (f->more == UINT32_MAX)
            count_more(x, s, ask, node, f);
        if (f->more == UINT32_MAX)
            continue;
        ret->verdict = ALLOC_ALLOCATED;
        ret->states++;
        ret->nodes += index_ask_nodes_of(g);
        ret->more += (uint64_t)f->more * index_ask_nodes_of(g);
        ret->at_most |= f->shared > 0;
    }
}

// --- Explanations --------------------------------------------------------------------------------

bool index_explain(struct index *x, struct index_explaining *e, uint32_t node)
{
    (void)index_catch_up(x, SIZE_MAX);
    const struct index_group *g = index_group_of(x, node);
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

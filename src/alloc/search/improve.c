// SPDX-License-Identifier: Apache-2.0
//
// pack takes what looks best request by request; an early choice can make a later request break
// into another device or PCIe root. With several requests, the search is run again with less to
// break into, for about as many steps as the first solution took, until nothing better turns up.
// The alternatives stay, and the devices may not become larger.
#include "alloc/search/search_int.h"

#include "base/banned.h"

// Rounds, and steps that are always granted.
#define ROUNDS_MAX  4
#define STEPS_LEAST 64

static bool opens_place(const struct alloc_solver *s, const struct vw_rank *r)
{
    return r->pcie && !s->view->devices[r - s->view->ranks].shared &&
           !s->view->places.begun[r->pcie] && s->improvement.in_place[r->pcie] == 0;
}

static bool opens_set(const struct alloc_solver *s, const struct vw_rank *r)
{
    return r->set && !s->view->sets_now[r->set - 1].begun && s->improvement.in_set[r->set - 1] == 0;
}

bool improve_take(struct alloc_solver *s, uint32_t device)
{
    struct improvement *m = &s->improvement;
    const struct vw_rank *r = &s->view->ranks[device];
    struct pack_cost then = {m->now.opened + opens_place(s, r) + opens_set(s, r),
                             m->now.size + r->size};
    if (then.opened > m->most.opened || then.size > m->most.size)
        return false;
    m->now = then;
    m->in_place[r->pcie]++;
    if (r->set)
        m->in_set[r->set - 1]++;
    return true;
}

void improve_give_back(struct alloc_solver *s, uint32_t device)
{
    struct improvement *m = &s->improvement;
    const struct vw_rank *r = &s->view->ranks[device];
    m->in_place[r->pcie]--;
    if (r->set)
        m->in_set[r->set - 1]--;
    m->now.opened -= (uint32_t)opens_place(s, r) + opens_set(s, r);
    m->now.size -= r->size;
}

static void improve_forget_memory(struct alloc_solver *s)
{
    struct improvement *m = &s->improvement;
    m->now = (struct pack_cost){0, 0};
    memset(m->in_place, 0, s->view->places.n * sizeof(*m->in_place));
    memset(m->in_set, 0, (s->view->sets_len + 1) * sizeof(*m->in_set));
}

static struct pack_cost improve_cost_of(struct alloc_solver *s)
{
    struct improvement *m = &s->improvement;
    improve_forget_memory(s);
    m->most = (struct pack_cost){UINT32_MAX, UINT64_MAX};
    for (size_t i = 0; i < s->at.picks_n; i++)
        (void)improve_take(s, s->at.picks[i].device);
    return m->now;
}

// A guess from below at what must be opened: picks that do not fit what is begun, in the largest
// roots of their pool; and counter sets by the parts of them that are picked.
static uint32_t least_opened(const struct alloc_solver *s, uint32_t *picks_of_pool)
{
    const struct alloc_view *v = s->view;
    uint32_t weight = 0;
    uint32_t sum = 0;
    for (size_t i = 0; i < s->at.picks_n; i++) {
        const struct vw_rank *r = &v->ranks[s->at.picks[i].device];
        const struct vw_device *d = &v->devices[s->at.picks[i].device];
        picks_of_pool[d->pool] += r->pcie && !d->shared;
        weight += r->weight;
    }
    for (size_t i = 0; i < v->pools_len; i++) {
        const struct vw_pool *p = &v->pools[i];
        if (picks_of_pool[i] > p->begun_free && p->largest_place)
            sum += (picks_of_pool[i] - p->begun_free + p->largest_place - 1) / p->largest_place;
    }
    return sum + (v->any_set_begun ? 0 : (weight + 15) / 16);
}

struct solution {
    struct pick *picks;
    size_t picks_n;
    uint32_t *claim_picks;
    uint32_t *chosen;
};

static void improve_save_solution(const struct alloc_solver *s, struct solution *k)
{
    k->picks_n = s->at.picks_n;
    memcpy(k->picks, s->at.picks, s->at.picks_n * sizeof(*k->picks));
    memcpy(k->claim_picks, s->at.claim_picks, s->p.claims_len * sizeof(*k->claim_picks));
    memcpy(k->chosen, s->at.chosen, s->p.requests_len * sizeof(*k->chosen));
}

// Only what the result is made of; the search is over.
static void improve_restore_solution(struct alloc_solver *s, const struct solution *k)
{
    s->at.picks_n = k->picks_n;
    memcpy(s->at.picks, k->picks, k->picks_n * sizeof(*k->picks));
    memcpy(s->at.claim_picks, k->claim_picks, s->p.claims_len * sizeof(*k->claim_picks));
    memcpy(s->at.chosen, k->chosen, s->p.requests_len * sizeof(*k->chosen));
}

static bool worth_it(const struct alloc_solver *s)
{
    return s->options.policy == ALLOC_PACK && s->at.orders && s->p.requests_len > 1 &&
           s->at.picks_n > 1;
}

void improve_solution(struct alloc_solver *s)
{
    struct improvement *m = &s->improvement;
    struct solution best;
    uint32_t *forced;
    uint32_t *picks_of_pool;
    if (!worth_it(s))
        return;
    const struct piece pieces[] = {
        PIECE(m->in_place, s->view->places.n),
        PIECE(m->in_set, s->view->sets_len + 1),
        PIECE(best.picks, s->at.picks_n),
        PIECE(best.claim_picks, s->p.claims_len),
        PIECE(best.chosen, s->p.requests_len),
        PIECE(forced, s->p.requests_len),
        PIECE(picks_of_pool, s->view->pools_len + 1),
    };
    solver_allocate(s, pieces, array_len(pieces));
    struct pack_cost cost = improve_cost_of(s);
    uint32_t least = least_opened(s, picks_of_pool);
    memcpy(forced, s->at.chosen, s->p.requests_len * sizeof(*forced));
    s->at.forced = forced;
    m->steps_most = s->budget.steps + (s->budget.steps - s->budget.slice_began) + STEPS_LEAST;
    for (int i = 0; i < ROUNDS_MAX && cost.opened > least; i++) {
        improve_save_solution(s, &best);
        search_reset(s);
        improve_forget_memory(s);
        m->on = true;
        m->most = (struct pack_cost){cost.opened - 1, cost.size};
        s->prune = NULL;
        enum outcome o = search_run(s);
        m->on = false;
        if (o != SOLVED) {
            improve_restore_solution(s, &best);
            break;
        }
        cost = improve_cost_of(s);
    }
    // Whatever stopped the search for something better does not make the solution worse.
    s->budget.fatal = false;
    s->budget.timeout = false;
}

// SPDX-License-Identifier: Apache-2.0
//
// What constraints leave of the domains: a match constraint only values that all its requests can
// have, a distinct one different values for each. What one takes away another may notice, so they
// are asked in rounds, those first whose requests have changed.
#include "alloc/search/prune_int.h"

#include "base/banned.h"

#define ROUNDS_MAX 4

// All alternatives of a request are in the constraint's scope; only such requests must obey.
static bool bound_by(const struct alloc_solver *s, uint32_t request, uint32_t index)
{
    const struct request *q = &s->p.requests[request];
    for (uint32_t k = 0; k < q->n; k++)
        if (chooses(s, request, k) && s->p.alternatives[q->first + k].columns[index] == UINT32_MAX)
            return false;
    return true;
}

struct span bound_span(const struct alloc_solver *s, uint32_t claim, uint32_t index)
{
    const struct prune *p = s->prune;
    const struct claim *c = &s->p.claims[claim];
    bool here = claim == p->now.work->claim;
    uint32_t to = c->first_request + c->requests_len;
    return (struct span){.claim = c,
                         .index = index,
                         .from = here ? p->now.work->request : c->first_request,
                         .to = to < p->now.end ? to : p->now.end,
                         .state = here ? &s->at.states[c->first_constraint + index] : NULL};
}

void bound_find(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    sp->exclusive = true;
    sp->one_column = true;
    for (uint32_t r = sp->from; r < sp->to; r++) {
        const struct request *q = &s->p.requests[r];
        int64_t want = fewest_of(s, r);
        if (want == 0 || !bound_by(s, r, sp->index))
            continue;
        p->now.bound[sp->bound_n++] = r;
        sp->sum += want;
        for (uint32_t k = 0; k < q->n; k++) {
            const struct alternative *a = &s->p.alternatives[q->first + k];
            if (!chooses(s, r, k))
                continue;
            if (sp->sum == want)
                sp->column = a->columns[sp->index];
            sp->exclusive &= exclusive(s, a);
            sp->one_column &= a->columns[sp->index] == sp->column;
        }
    }
}

// Adds the devices to p->mask.
static bool can_have(struct alloc_solver *s, uint32_t request, const struct span *sp, uint32_t id)
{
    struct prune *p = s->prune;
    bool can = false;
    const struct request *q = &s->p.requests[request];
    for (uint32_t k = 0; k < q->n; k++) {
        const struct alternative *a = &s->p.alternatives[q->first + k];
        if (!chooses(s, request, k))
            continue;
        const struct value_bits *v = prune_value(&p->values[a->columns[sp->index]], id);
        size_t n = 0;
        for (size_t w = 0; v && w < p->words; w++) {
            uint64_t x = p->now.dom[q->first + k][w] & v->bits[w];
            p->now.mask[w] |= x;
            n += (size_t)__builtin_popcountll(x);
        }
        can |= (int64_t)n >= wanted(s, a);
    }
    return can;
}

// Can every request that must obey have this value?
static bool value_serves(struct alloc_solver *s, const struct span *sp, uint32_t id)
{
    struct prune *p = s->prune;
    memset(p->now.mask, 0, p->words * sizeof(*p->now.mask));
    for (uint32_t i = 0; i < sp->bound_n; i++)
        if (!can_have(s, p->now.bound[i], sp, id))
            return false;
    return !sp->exclusive || (int64_t)count_bits(p->now.mask, p->words) >= sp->sum;
}

// Every alternative in the span that the constraint applies to.
static void bound_values_find_scope(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    for (uint32_t r = sp->from; r < sp->to; r++) {
        const struct request *q = &s->p.requests[r];
        for (uint32_t k = 0; k < q->n; k++)
            if (chooses(s, r, k) &&
                s->p.alternatives[q->first + k].columns[sp->index] != UINT32_MAX) {
                p->now.scope[sp->scope_n++] = q->first + k;
                sp->one_column &= s->p.alternatives[q->first + k].columns[sp->index] == sp->column;
            }
    }
}

// Takes over a new domain.
static void bound_values_renew_domain(struct alloc_solver *s, struct span *sp, uint32_t alternative)
{
    struct prune *p = s->prune;
    uint64_t differs = 0;
    for (size_t w = 0; w < p->words; w++) {
        differs |= p->now.dom[alternative][w] ^ p->now.fresh[alternative][w];
        p->now.dom[alternative][w] = p->now.fresh[alternative][w];
    }
    if (differs) {
        sp->changed = true;
        p->now.dirty[s->p.alternatives[alternative].request] = p->now.round + 1;
    }
}

static void keep_value(struct alloc_solver *s, const struct span *sp, uint32_t id)
{
    struct prune *p = s->prune;
    for (uint32_t i = 0; i < sp->scope_n; i++) {
        uint32_t a = p->now.scope[i];
        const struct value_bits *v =
            prune_value(&p->values[s->p.alternatives[a].columns[sp->index]], id);
        for (size_t w = 0; v && w < p->words; w++)
            p->now.fresh[a][w] |= p->now.dom[a][w] & v->bits[w];
    }
}

// Keeps the values that serve, of those that the constraint has seen or, at first, of a column.
static void keep_values(struct alloc_solver *s, struct span *sp, const struct constraint_state *st,
                        const struct column_values *c)
{
    for (size_t i = 0; i < (st ? st->n : c->n); i++) {
        uint32_t id = st ? s->numbers[st->first + i] : c->p[i].id;
        if (value_serves(s, sp, id))
            keep_value(s, sp, id);
        if (solver_tick(s, sp->bound_n * (uint32_t)s->prune->words * 4))
            return;
    }
}

// A match constraint leaves only values that all its requests can have.
static void filter_match(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    const struct constraint_state *st = sp->state && sp->state->devices ? sp->state : NULL;
    for (uint32_t i = 0; i < sp->scope_n; i++) {
        uint32_t a = p->now.scope[i];
        const struct column_values *c = &p->values[s->p.alternatives[a].columns[sp->index]];
        // Without lists, a device without a value is accepted as the only one.
        for (size_t w = 0; w < p->words; w++)
            p->now.fresh[a][w] = st ? 0 : p->now.dom[a][w] & c->without[w];
    }
    // The values of one request will do: its alternatives may take them from different columns.
    const struct request *q = &s->p.requests[p->now.bound[0]];
    if (st)
        keep_values(s, sp, st, NULL);
    for (uint32_t k = 0; !st && k < q->n; k++)
        if (chooses(s, p->now.bound[0], k))
            keep_values(s, sp, NULL,
                        &p->values[s->p.alternatives[q->first + k].columns[sp->index]]);
    if (s->budget.timeout)
        return;
    for (uint32_t i = 0; i < sp->scope_n; i++)
        bound_values_renew_domain(s, sp, p->now.scope[i]);
}

// --- The same for columns in which a device has one value ----------------------------------------

// Counts the devices of a domain by value.
static void bound_values_count(const struct prune *p, const struct column_values *c,
                               const uint64_t *dom)
{
    memset(p->now.tally, 0, (c->n + 1) * sizeof(*p->now.tally));
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = dom[w]; x; x &= x - 1)
            p->now.tally[c->of[w * 64 + (size_t)__builtin_ctzll(x)]]++;
}

// Counts for each value the requests that can have it, in p->served.
static void bound_values_count_served(struct alloc_solver *s, const struct span *sp,
                                      const struct column_values *c)
{
    struct prune *p = s->prune;
    memset(p->now.served, 0, (c->n + 1) * sizeof(*p->now.served));
    memset(p->now.mask, 0, p->words * sizeof(*p->now.mask));
    for (uint32_t i = 0; i < sp->bound_n; i++) {
        uint32_t r = p->now.bound[i];
        const struct request *q = &s->p.requests[r];
        for (uint32_t k = 0; k < q->n; k++) {
            const struct alternative *a = &s->p.alternatives[q->first + k];
            if (!chooses(s, r, k))
                continue;
            bound_values_count(p, c, p->now.dom[q->first + k]);
            for (size_t v = 1; v <= c->n; v++)
                if (p->now.served[v] == i && p->now.tally[v] >= wanted(s, a))
                    p->now.served[v] = i + 1;
            for (size_t w = 0; w < p->words; w++)
                p->now.mask[w] |= p->now.dom[q->first + k][w];
        }
    }
    if (!sp->exclusive || sp->bound_n < 2)
        return;
    bound_values_count(p, c, p->now.mask);
    for (size_t v = 1; v <= c->n; v++)
        if (p->now.tally[v] < sp->sum)
            p->now.served[v] = 0;
}

static void filter_match_single(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    const struct column_values *c = &p->values[sp->column];
    bool started = sp->state && sp->state->devices;
    bound_values_count_served(s, sp, c);
    // Values that the state does not allow are not in the domains any more.
    p->now.served[0] = started ? 0 : sp->bound_n;
    for (uint32_t i = 0; i < sp->scope_n; i++) {
        uint32_t a = p->now.scope[i];
        for (size_t w = 0; w < p->words; w++) {
            p->now.fresh[a][w] = p->now.dom[a][w];
            for (uint64_t x = p->now.dom[a][w]; x; x &= x - 1)
                if (p->now.served[c->of[w * 64 + (size_t)__builtin_ctzll(x)]] != sp->bound_n)
                    p->now.fresh[a][w] &= ~(x & -x);
        }
        bound_values_renew_domain(s, sp, a);
    }
    (void)solver_tick(s, (uint32_t)(c->n + s->view->devices_len) * (sp->bound_n + 1));
}

// --- Distinct ------------------------------------------------------------------------------------

// Values of a column that occur in a domain, as a bitset of their positions. False when a device
// without a value is among them, which a first one may be.
static bool values_in(const struct prune *p, const struct column_values *c, const uint64_t *dom,
                      uint64_t *out)
{
    memset(out, 0, p->words * sizeof(*out));
    for (size_t w = 0; w < p->words; w++)
        if (dom[w] & c->without[w])
            return false;
    for (uint32_t i = 0; i < c->n; i++)
        for (size_t w = 0; w < p->words; w++)
            if (dom[w] & c->p[i].bits[w]) {
                set_bit(out, i);
                break;
            }
    return true;
}

// The only value that a request for one device can have is taken from the others.
static void claim_value(struct alloc_solver *s, struct span *sp, uint32_t request,
                        const struct value_bits *v)
{
    struct prune *p = s->prune;
    for (uint32_t i = 0; i < sp->scope_n; i++) {
        uint32_t a = p->now.scope[i];
        const struct value_bits *mine =
            prune_value(&p->values[s->p.alternatives[a].columns[sp->index]], v->id);
        if (s->p.alternatives[a].request == request || !mine)
            continue;
        for (size_t w = 0; w < p->words; w++)
            p->now.fresh[a][w] = p->now.dom[a][w] & ~mine->bits[w];
        bound_values_renew_domain(s, sp, a);
    }
}

// A distinct constraint needs different values for all its requests.
static bool filter_distinct(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    uint32_t slots = 0;
    uint32_t column = UINT32_MAX;
    for (uint32_t i = 0; i < sp->bound_n; i++) {
        uint32_t r = p->now.bound[i];
        const struct alternative *a =
            at_work(p, r) ? p->now.work : &s->p.alternatives[s->p.requests[r].first];
        const struct column_values *c = &p->values[a->columns[sp->index]];
        uint64_t *bits = p->now.of_value[i];
        if ((s->p.requests[r].n != 1 && !at_work(p, r)) || c->n > s->view->devices_len ||
            (column != UINT32_MAX && a->columns[sp->index] != column))
            continue;
        column = a->columns[sp->index];
        if (!values_in(p, c, p->now.dom[a - s->p.alternatives], bits))
            continue;
        if (wanted(s, a) == 1 && count_bits(bits, p->words) == 1) {
            size_t w = 0;
            while (!bits[w])
                w++;
            claim_value(s, sp, r, &c->p[w * 64 + (size_t)__builtin_ctzll(bits[w])]);
        }
        for (int64_t k = 0; k < wanted(s, a) && slots < MATCHING_SLOTS_MAX; k++)
            p->slot_bits[slots++] = bits;
        if (solver_tick(s, (uint32_t)(c->n * p->words)))
            return true;
    }
    return bound_matching(s, slots);
}

static bool bound_values_filter_span(struct alloc_solver *s, struct span *sp)
{
    struct prune *p = s->prune;
    bound_find(s, sp);
    bool dirty = p->now.round == 0;
    for (uint32_t i = 0; i < sp->bound_n && !dirty; i++)
        dirty = p->now.dirty[p->now.bound[i]] >= p->now.round;
    if (!dirty || sp->bound_n == 0)
        return true;
    bound_values_find_scope(s, sp);
    if (s->p.constraints[sp->claim->first_constraint + sp->index].distinct)
        return filter_distinct(s, sp);
    if (sp->one_column && p->values[sp->column].of)
        filter_match_single(s, sp);
    else
        filter_match(s, sp);
    return true;
}

// One round over all constraints of the claims to come.
static bool filter_all(struct alloc_solver *s, bool *changed)
{
    const struct prune *p = s->prune;
    for (uint32_t i = p->now.work->claim; i < s->p.claims_len; i++) {
        const struct claim *c = &s->p.claims[i];
        for (uint32_t j = 0; j < c->constraints_len && c->requests_len; j++) {
            struct span sp = bound_span(s, i, j);
            if (!bound_values_filter_span(s, &sp))
                return false;
            *changed |= sp.changed;
            if (s->budget.timeout)
                return true;
        }
    }
    for (uint32_t r = p->now.work->request; r < p->now.end; r++)
        if (!bound_large_enough(s, r))
            return false;
    return true;
}

bool bound_check_values(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    bool changed = true;
    memset(p->now.dirty, 0, s->p.requests_len * sizeof(*p->now.dirty));
    for (p->now.round = 0; changed && p->now.round < ROUNDS_MAX && !s->budget.timeout;
         p->now.round++) {
        changed = false;
        if (!filter_all(s, &changed))
            return false;
    }
    return true;
}

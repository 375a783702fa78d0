// SPDX-License-Identifier: Apache-2.0
//
// Match constraints that have seen nothing yet, such as one of each claim to come, are things to be
// packed: each wants so many devices, and so much of their counters, of one value. Is there a way
// to pack them all? That is checked for each counter by itself, and given up after so many tries:
// then they count as packed.
#include "alloc/search/prune_int.h"

#include "base/banned.h"

#define TRIES_MAX  2000
#define BINS_MAX   64U
#define THINGS_MAX 64U
#define KINDS_MAX  8U

// A value's devices, or what a constraint wants of one.
struct load {
    int64_t devices;
    amount drawn;
};

struct packing {
    struct load things[THINGS_MAX];
    struct load bins[BINS_MAX];
    size_t things_n;
    size_t bins_n;
    uint32_t tries;
};

// Adds what a match constraint that has seen nothing yet needs of one value, unless its requests
// are counted already or differ in what they compare.
static void add_need(struct alloc_solver *s, struct span *sp, size_t *n)
{
    struct prune *p = s->prune;
    bound_find(s, sp);
    for (uint32_t i = 0; i < sp->bound_n; i++)
        if (p->now.covered[p->now.bound[i]])
            return;
    if (!sp->exclusive || !sp->one_column || sp->bound_n == 0 || p->values[sp->column].any_without)
        return;
    struct group_need *need = &p->now.needs[(*n)++];
    need->column = sp->column;
    need->n = sp->sum;
    memset(need->draws, 0, p->sum.kinds * sizeof(*need->draws));
    for (uint32_t i = 0; i < sp->bound_n; i++) {
        uint32_t r = p->now.bound[i];
        p->now.covered[r] = true;
        if (p->sum.kinds)
            bound_draws(s, p->now.joined[r]);
        for (uint32_t k = 0; k < p->sum.kinds; k++)
            need->draws[k] += p->sum.lowest[k] * fewest_of(s, r);
    }
}

static int heavier_first(const void *x, const void *y)
{
    const struct load *a = x;
    const struct load *b = y;
    if (a->drawn != b->drawn)
        return a->drawn > b->drawn ? -1 : 1;
    return (a->devices < b->devices) - (a->devices > b->devices);
}

static bool bound_groups_bin_holds(const struct load *bin, const struct load *thing)
{
    return bin->devices >= thing->devices && bin->drawn >= thing->drawn;
}

// Things that are alike go into bins in order, so that they are not tried the other way round.
static bool pack_from(struct packing *k, size_t thing, size_t from) // NOLINT(misc-no-recursion)
{
    if (thing == k->things_n)
        return true;
    const struct load t = k->things[thing];
    for (size_t i = from; i < k->bins_n; i++) {
        bool tried = false;
        for (size_t o = from; o < i && !tried; o++)
            tried =
                k->bins[o].devices == k->bins[i].devices && k->bins[o].drawn == k->bins[i].drawn;
        if (tried || !bound_groups_bin_holds(&k->bins[i], &t))
            continue;
        if (++k->tries > TRIES_MAX)
            return true;
        bool alike = thing + 1 < k->things_n && k->things[thing + 1].devices == t.devices &&
                     k->things[thing + 1].drawn == t.drawn;
        k->bins[i].devices -= t.devices;
        k->bins[i].drawn -= t.drawn;
        bool ok = pack_from(k, thing + 1, alike ? i : 0);
        k->bins[i].devices += t.devices;
        k->bins[i].drawn += t.drawn;
        if (ok)
            return true;
    }
    return false;
}

// What the counters of these devices have left, of one kind.
static amount room_of(struct alloc_solver *s, const uint64_t *value, uint32_t kind)
{
    struct prune *p = s->prune;
    const struct alloc_view *v = s->view;
    amount sum = 0;
    p->sum.stamp_now++;
    for (size_t w = 0; w < p->words; w++)
        for (uint64_t x = value[w] & p->now.mask[w]; x; x &= x - 1) {
            const struct vw_device *d = &v->devices[w * 64 + (size_t)__builtin_ctzll(x)];
            for (uint16_t i = 0; i < d->counters_len; i++) {
                uint32_t c = v->counter_uses[d->first_counter + i].counter;
                if (p->sum.kind[c] != kind || p->sum.stamp[c] == p->sum.stamp_now)
                    continue;
                p->sum.stamp[c] = p->sum.stamp_now;
                sum += v->counters.available[c] > s->at.consumed[c]
                           ? v->counters.available[c] - s->at.consumed[c]
                           : 0;
            }
        }
    return sum;
}

// kind UINT32_MAX: devices alone.
static bool bound_groups_can_pack(struct alloc_solver *s, uint32_t column, uint32_t kind,
                                  size_t needs_n)
{
    struct prune *p = s->prune;
    const struct column_values *c = &p->values[column];
    struct packing k;
    k.things_n = 0;
    k.bins_n = 0;
    k.tries = 0;
    for (size_t i = 0; i < needs_n; i++) {
        const struct group_need *need = &p->now.needs[i];
        if (need->column == column && k.things_n < THINGS_MAX)
            k.things[k.things_n++] =
                (struct load){need->n, kind == UINT32_MAX ? 0 : need->draws[kind]};
    }
    if (c->n > BINS_MAX || k.things_n < 2)
        return true; // a single one was looked at already
    for (size_t i = 0; i < c->n; i++) {
        struct load bin = {0, 0};
        for (size_t w = 0; w < p->words; w++)
            bin.devices += __builtin_popcountll(c->p[i].bits[w] & p->now.mask[w]);
        if (kind != UINT32_MAX)
            bin.drawn = room_of(s, c->p[i].bits, kind);
        if (bin.devices)
            k.bins[k.bins_n++] = bin;
    }
    qsort(k.things, k.things_n, sizeof(*k.things), heavier_first);
    bool ok = pack_from(&k, 0, 0);
    (void)solver_tick(s, k.tries * 16 + (uint32_t)s->view->devices_len);
    return ok;
}

static void find_needs(struct alloc_solver *s, size_t *n)
{
    struct prune *p = s->prune;
    memset(p->now.covered, 0, s->p.requests_len * sizeof(*p->now.covered));
    memset(p->now.mask, 0, p->words * sizeof(*p->now.mask));
    for (uint32_t i = p->now.work->claim; i < s->p.claims_len; i++)
        for (uint32_t j = 0; j < s->p.claims[i].constraints_len && s->p.claims[i].requests_len;
             j++) {
            struct span sp = bound_span(s, i, j);
            bool fresh = !sp.state || sp.state->devices == 0;
            if (fresh && !s->p.constraints[s->p.claims[i].first_constraint + j].distinct)
                add_need(s, &sp, n);
        }
    for (uint32_t r = p->now.work->request; r < p->now.end; r++)
        for (size_t w = 0; p->now.covered[r] && w < p->words; w++)
            p->now.mask[w] |= p->now.joined[r][w];
}

bool bound_check_groups(struct alloc_solver *s)
{
    struct prune *p = s->prune;
    size_t n = 0;
    find_needs(s, &n);
    for (size_t i = 0; i < n && !s->budget.timeout; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = p->now.needs[k].column == p->now.needs[i].column;
        if (seen)
            continue;
        if (!bound_groups_can_pack(s, p->now.needs[i].column, UINT32_MAX, n))
            return false;
        for (uint32_t k = 0; k < p->sum.kinds && k < KINDS_MAX; k++)
            if (!bound_groups_can_pack(s, p->now.needs[i].column, k, n))
                return false;
    }
    return true;
}

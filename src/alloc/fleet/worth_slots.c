// SPDX-License-Identifier: Apache-2.0
//
// Partitions with fixed places. A slot is a partition in a place; taking one closes those that need
// something of the same. Each kind of request has so many places left, on this unit and on all; a
// place is worth more, the fewer there are for the requests that will come. A slot costs the places
// that it closes, now and for as long as who took it is likely to stay.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/fleet/worth_int.h"
#include "base/mem.h"

#include "base/banned.h"

// Losses of slots are distinguished in so many parts of a unit: what closes one small place among
// many must not look like what closes two.
#define SLOT_STEPS 5000

// A value of a place that changed by less, in shares of what is taken, is left as it is.
#define SLOT_TOLERANCE 0.05

// How much a unit counts as it is now, beside how it will be when one of those in use has left.
// With more in use than TENANTS_MOST only the first to leave is looked at.
#define PATIENCE     8.0
#define TENANTS_MOST 8

const struct worth_geometry *worth_geometry_of(const struct worth *w, uint8_t type)
{
    return w->slots.geometry[type];
}

void worth_set_geometry(struct worth *w, uint8_t type, const struct worth_geometry *g)
{
    if (!w->slots.geometry[type])
        w->slots.geometry[type] = xcalloc(1, sizeof(*g));
    if (!w->slots.memo)
        w->slots.memo = xcalloc(SLOT_MEMO, sizeof(*w->slots.memo));
    w->slots.stamp++;
    *w->slots.geometry[type] = *g;
}

bool worth_slotted(const struct worth *w)
{
    return w->slots.kinds_len > 0;
}

// How many of these slots can be had together, taken in their order.
static uint32_t places_in(const struct worth_geometry *g, uint64_t open)
{
    uint32_t n = 0;
    for (; open; n++)
        open &= ~g->excludes[__builtin_ctzll(open)];
    return n;
}

// --- What is wanted ------------------------------------------------------------------------------

bool worth_slots_wanted(const struct worth_request *r)
{
    uint64_t any = 0;
    for (size_t t = 0; t < WORTH_TYPES; t++)
        any |= r->slots[t];
    return any != 0;
}

static struct slot_kind *worth_slots_kind(struct worth *w, const struct worth_request *r)
{
    for (size_t i = 0; i < w->slots.kinds_len; i++)
        if (memcmp(w->slots.kinds[i].slots, r->slots, sizeof(r->slots)) == 0)
            return &w->slots.kinds[i];
    if (w->slots.kinds_len == WORTH_KINDS)
        return NULL;
    struct slot_kind *k = &w->slots.kinds[w->slots.kinds_len++];
    *k = (struct slot_kind){0};
    memcpy(k->slots, r->slots, sizeof(k->slots));
    return k;
}

// What one share of a request takes of a unit.
static double share_of(const struct worth_request *r)
{
    for (size_t t = 0; t < WORTH_TYPES; t++)
        if (r->slots[t])
            return (double)r->part[t] / WORTH_WHOLE;
    return 0;
}

// Recounts what is wanted. Values of places stay until worth_slots_end.
static void worth_slots_count_wanted(struct worth *w)
{
    w->slots.wanted = 0;
    for (size_t i = 0; i < w->slots.kinds_len; i++)
        w->slots.kinds[i].count = 0;
    for (size_t i = 0; i < w->demands_len; i++) {
        const struct demand *d = &w->demands[i];
        double share = d->request.num ? share_of(&d->request) : 0;
        if (share <= 0)
            continue;
        struct slot_kind *k = worth_slots_kind(w, &d->request);
        w->slots.wanted += d->count * d->request.num * share;
        if (!k)
            continue; // the rest is not minded
        k->count += d->count * d->request.num;
        k->units = share;
    }
}

void worth_slots_settle(struct worth *w)
{
    w->slots.kinds_len = 0;
    w->slots.stamp++;
    worth_slots_count_wanted(w);
}

// --- Scarcity ------------------------------------------------------------------------------------

void worth_slots_begin(struct worth *w)
{
    worth_slots_count_wanted(w);
    w->free_slotted = 0;
    for (size_t i = 0; i < w->slots.kinds_len; i++)
        w->slots.kinds[i].places = 0;
}

void worth_slots_count(struct worth *w, const struct worth_state *s, double nodes)
{
    for (uint32_t u = 0; u < s->n; u++) {
        const struct worth_geometry *g = w->slots.geometry[s->units[u].type];
        if (!g)
            continue;
        w->free_slotted += nodes * (double)s->units[u].left / WORTH_WHOLE;
        for (size_t i = 0; i < w->slots.kinds_len; i++)
            w->slots.kinds[i].places +=
                nodes * places_in(g, s->units[u].fits & w->slots.kinds[i].slots[s->units[u].type]);
    }
}

bool worth_slots_end(struct worth *w, bool always)
{
    bool changed = always;
    double scale = w->slots.wanted > 0 ? w->free_slotted / w->slots.wanted : 0;
    for (size_t i = 0; i < w->slots.kinds_len; i++) {
        struct slot_kind *k = &w->slots.kinds[i];
        double rate =
            k->places > 0 ? k->count * scale / k->places : 1; // the next to open is scarce
        k->next = sqrt(rate > 1 ? 1 : rate) * k->units;
        changed = changed || fabs(k->value - k->next) > SLOT_TOLERANCE * k->units;
    }
    for (size_t i = 0; changed && i < w->slots.kinds_len; i++)
        w->slots.kinds[i].value = w->slots.kinds[i].next;
    w->slots.stamp += changed;
    return changed;
}

// --- Worth ---------------------------------------------------------------------------------------

static double open_worth(const struct worth *w, uint8_t type, uint64_t fits)
{
    const struct worth_geometry *g = w->slots.geometry[type];
    double sum = 0;
    for (size_t i = 0; i < w->slots.kinds_len; i++) {
        uint64_t open = fits & w->slots.kinds[i].slots[type];
        if (open)
            sum += w->slots.kinds[i].value * places_in(g, open);
    }
    return sum;
}

// Slots that those in use leave open.
static uint64_t open_beside(const struct worth_geometry *g, uint64_t taken)
{
    uint64_t open = g->n < WORTH_SLOTS ? (UINT64_C(1) << g->n) - 1 : UINT64_MAX;
    for (; taken; taken &= taken - 1)
        open &= ~g->excludes[__builtin_ctzll(taken)];
    return open;
}

static struct slot_memo *memo_at(const struct worth *w, uint8_t type, uint64_t taken, uint64_t shut)
{
    uint64_t h = (taken * 31 + shut) * 31 + type;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    return &w->slots.memo[h >> 32 & (SLOT_MEMO - 1)];
}

// What a unit is worth a while from now. Those in use leave one by one, each as likely as the
// others and as the end of the while is to come first, divided by PATIENCE. shut: slots that stay
// closed whichever leaves.
static double later_worth(const struct worth *w, uint8_t type, uint64_t taken, uint64_t shut)
{
    struct slot_memo *m = memo_at(w, type, taken, shut);
    if (m->stamp == w->slots.stamp && m->taken == taken && m->shut == shut && m->type == type)
        return m->worth;
    const struct worth_geometry *g = w->slots.geometry[type];
    int n = __builtin_popcountll(taken);
    double sum = PATIENCE * open_worth(w, type, open_beside(g, taken) & ~shut);
    for (uint64_t x = taken; x; x &= x - 1) {
        uint64_t then = taken & ~(x & -x);
        sum += n > TENANTS_MOST ? open_worth(w, type, open_beside(g, then) & ~shut)
                                : later_worth(w, type, then, shut);
    }
    *m = (struct slot_memo){taken, shut, w->slots.stamp, type, sum / (PATIENCE + n)};
    return sum / (PATIENCE + n);
}

double worth_slots_worth(const struct worth *w, const struct worth_unit *u)
{
    const struct worth_geometry *g = w->slots.geometry[u->type];
    if (!w->slots.kinds_len)
        return 0;
    return later_worth(w, u->type, u->taken, open_beside(g, u->taken) & ~u->fits);
}

static struct worth_unit with_slot(const struct worth *w, const struct worth_unit *u, uint32_t slot)
{
    struct worth_unit ret = *u;
    ret.fits &= ~w->slots.geometry[u->type]->excludes[slot];
    ret.taken |= UINT64_C(1) << slot;
    return ret;
}

void worth_slots_take(const struct worth *w, struct worth_unit *u, const struct worth_request *r)
{
    struct worth_unit best = *u;
    double most = -1;
    for (uint64_t open = u->fits & r->slots[u->type]; open; open &= open - 1) {
        struct worth_unit then = with_slot(w, u, (uint32_t)__builtin_ctzll(open));
        double worth = worth_slots_worth(w, &then);
        if (worth > most) {
            most = worth;
            best = then;
        }
    }
    *u = best;
}

uint16_t worth_slot_loss(const struct worth *w, const struct worth_unit *u, uint32_t slot)
{
    if (!(u->fits >> slot & 1))
        return UINT16_MAX;
    const struct worth_unit then = with_slot(w, u, slot);
    double loss = (worth_slots_worth(w, u) - worth_slots_worth(w, &then)) * SLOT_STEPS;
    return loss >= UINT16_MAX - 1 ? UINT16_MAX - 1 : loss > 0 ? (uint16_t)(loss + 0.5) : 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// The worth of one node, and what a request there costs.
#include <math.h>
#include <string.h>

#include "alloc/fleet/worth_int.h"

#include "base/banned.h"

// How much the terms count. Found on traces, see docs/measurements/utilization.md.
#define PARTS 2.0
#define PRESS 0.2
#define SLOTS 32.0

// Losses are distinguished in steps of so many thousandths of a unit. Within a step the fullest
// node wins and the first unit, which is what keeps whole nodes and units free; finer steps
// scatter.
#define STEP 120.0

// No more than what is left of something allows, each taking so much of it. Mostly all n do: a
// division is wanted only where they do not.
static inline int64_t worth_node_at_most(int64_t n, int64_t left, int64_t each)
{
    int64_t all = 0;
    if (each <= 0 || (!__builtin_mul_overflow(n, each, &all) && all <= left))
        return n;
    return left > 0 ? left / each : 0;
}

// Does a unit have what a share takes, as far as the model can see?
static inline bool worth_node_has_room(const struct worth_unit *u, const struct worth_request *r)
{
    uint16_t part = r->part[u->type];
    uint64_t slots = r->slots[u->type];
    return part && (slots ? (u->fits & slots) != 0 : u->left >= part);
}

static uint32_t units_for(const struct worth_state *s, const struct worth_request *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t slots = r->slots[s->units[i].type];
        n += slots ? (uint32_t)__builtin_popcountll(s->units[i].fits & slots)
                   : worth_node_has_room(&s->units[i], r);
    }
    return n;
}

static inline int64_t slots_of(const struct worth *w, const struct worth_state *s,
                               const struct unit_sums *m, const struct scarce *r)
{
    uint64_t type = s->n ? UINT64_C(1) << s->units[0].type : 0;
    uint32_t units = m->whole;
    if (m->mixed || !(r->whole & type)) {
        if (!m->mixed && !(r->any & type))
            return 0;
        units = units_for(s, &w->demands[r->demand].request);
    }
    if (!r->num || units < r->num)
        return 0;
    return worth_node_at_most(worth_node_at_most(units / r->num, s->cpu, r->cpu), s->memory,
                              r->memory);
}

int64_t worth_slots(const struct worth *w, const struct worth_state *s, const struct unit_sums *m,
                    const struct scarce *r)
{
    return slots_of(w, s, m, r);
}

// Σ weight · min(value, cpu · rate), by the sums up to the last request that lacks processors.
static double company_of(const struct family *f, double value, double cpu)
{
    if (value <= 0 || f->total <= 0)
        return 0;
    if (cpu <= 0)
        return f->unbounded * value;
    double limit = value / cpu;
    size_t low = 0;
    size_t high = f->company_len;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (f->company[mid].rate <= limit)
            low = mid + 1;
        else
            high = mid;
    }
    double short_of = low ? cpu * f->company[low - 1].rates : 0;
    return short_of + value * (f->total - (low ? f->company[low - 1].weights : 0));
}

static void add_unit(const struct worth *w, struct unit_sums *s, const struct worth_unit *u,
                     double sign)
{
    uint8_t f = w->types[u->type].family;
    uint16_t left = u->left;
    if (w->slots.geometry[u->type]) {
        s->value[f] += sign * left / WORTH_WHOLE;
        s->slots += sign * worth_slots_worth(w, u);
        return;
    }
    double v = sign * w->families[f].prices.value[left];
    s->value[f] += v;
    s->parts += PARTS * (1 + PRESS * w->groups[u->group].press) * v;
    if (left == WORTH_WHOLE)
        s->whole = sign > 0 ? s->whole + 1 : s->whole - 1;
}

void worth_sums(const struct worth *w, const struct worth_state *s, struct unit_sums *ret)
{
    *ret = (struct unit_sums){0};
    for (uint32_t i = 0; i < s->n; i++) {
        add_unit(w, ret, &s->units[i], 1);
        ret->mixed |= s->units[i].type != s->units[0].type;
    }
}

// units are those of s; left of one may differ from what the sums say only where sums know.
static double worth_of_sums(const struct worth *w, const struct unit_sums *m,
                            const struct worth_state *s)
{
    double sum = m->parts + SLOTS * m->slots;
    for (size_t f = 0; f < w->families_len; f++)
        sum += w->company * company_of(&w->families[f], m->value[f], (double)s->cpu);
    for (size_t i = 0; i < w->scarce_len; i++)
        sum += w->scarce[i].value * (double)slots_of(w, s, m, &w->scarce[i]);
    return sum;
}

double worth_of(const struct worth *w, const struct worth_state *s)
{
    struct unit_sums m;
    worth_sums(w, s, &m);
    return worth_of_sums(w, &m, s);
}

double worth_price_of(const struct worth *w, const struct worth_request *r)
{
    double least = -1;
    for (size_t t = 0; t < w->types_len; t++) {
        double p = w->families[w->types[t].family].prices.price[r->part[t]] * r->num;
        if (r->part[t] && (least < 0 || p < least))
            least = p;
    }
    return least < 0 ? 0 : least;
}

bool worth_fits(const struct worth_state *s, const struct worth_request *r)
{
    return units_for(s, r) >= r->num;
}

bool worth_refuses(const struct worth_state *s, const struct worth_request *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t part = r->part[s->units[i].type];
        n += part && (s->units[i].loose || worth_node_has_room(&s->units[i], r));
    }
    return n < r->num;
}

// --- Loss ----------------------------------------------------------------------------------------

double worth_steps(double gain, double price)
{
    return floor((gain + price) * WORTH_WHOLE / STEP);
}

// A node whose units are taken from, one share after the other.
struct trial {
    const struct worth *w;
    struct worth_unit units[WORTH_UNITS];
    struct worth_state state;
    struct unit_sums sums;
};

static void trial_begin(struct trial *t, const struct worth *w, const struct worth_state *s)
{
    t->w = w;
    t->state = *s;
    t->state.units = t->units;
    t->units[0] = (struct worth_unit){0};
    for (uint32_t i = 0; i < s->n; i++)
        t->units[i] = s->units[i];
    worth_sums(w, s, &t->sums);
}

static void trial_set(struct trial *t, uint32_t unit, const struct worth_unit *after)
{
    add_unit(t->w, &t->sums, &t->units[unit], -1);
    t->units[unit] = *after;
    add_unit(t->w, &t->sums, after, 1);
}

// A unit with a share taken.
static struct worth_unit worth_node_unit_after(const struct trial *t, uint32_t unit,
                                               const struct worth_request *r)
{
    struct worth_unit u = t->units[unit];
    uint16_t part = r->part[u.type];
    if (t->w->slots.geometry[u.type])
        worth_slots_take(t->w, &u, r);
    u.left = (uint16_t)(u.left > part ? u.left - part : 0);
    return u;
}

// The worth with a share taken of one unit; the trial stays as it is.
static double trial_with(struct trial *t, uint32_t unit, const struct worth_request *r)
{
    const struct unit_sums before = t->sums;
    const struct worth_unit old = t->units[unit];
    const struct worth_unit after = worth_node_unit_after(t, unit, r);
    trial_set(t, unit, &after);
    double worth = worth_of_sums(t->w, &t->sums, &t->state);
    t->units[unit] = old;
    t->sums = before;
    return worth;
}

// The first unit in the same state; its number when there is none before it.
static uint32_t first_like(const struct trial *t, uint32_t unit)
{
    for (uint32_t i = 0; i < unit; i++)
        if (t->units[i].left == t->units[unit].left && t->units[i].fits == t->units[unit].fits &&
            t->units[i].taken == t->units[unit].taken && t->units[i].group == t->units[unit].group)
            return i;
    return unit;
}

void worth_loss(const struct worth *w, const struct worth_state *s, const struct worth_request *r,
                uint16_t rank[WORTH_UNITS])
{
    double steps[WORTH_UNITS] = {0};
    struct trial t;
    double price = worth_price_of(w, r);
    trial_begin(&t, w, s);
    double before = worth_of_sums(w, &t.sums, s);
    t.state.cpu -= r->cpu;
    t.state.memory -= r->memory;
    for (uint32_t i = 0; i < s->n; i++) {
        uint32_t like = first_like(&t, i);
        rank[i] = worth_node_has_room(&s->units[i], r) ? 0 : UINT16_MAX;
        if (rank[i] == 0)
            steps[i] = like < i ? steps[like] : worth_steps(trial_with(&t, i, r) - before, price);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t ahead = 0;
        for (uint32_t k = 0; rank[i] != UINT16_MAX && k < s->n; k++)
            ahead = (uint16_t)(ahead + (rank[k] != UINT16_MAX && steps[k] > steps[i]));
        if (rank[i] != UINT16_MAX)
            rank[i] = ahead;
    }
}

// Units that a share can be taken from; of those in the same state the first.
static uint32_t worth_node_candidates(const struct trial *t, const struct worth_request *r,
                                      const bool *used, uint8_t ret[WORTH_UNITS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->state.n; i++) {
        if (used[i] || !worth_node_has_room(&t->units[i], r))
            continue;
        uint32_t like = first_like(t, i);
        if (like == i || used[like])
            ret[n++] = (uint8_t)i;
    }
    return n;
}

// Takes one share where it costs the least. False: no unit has it.
static bool take_share(struct trial *t, const struct worth_request *r, bool used[WORTH_UNITS])
{
    uint8_t from[WORTH_UNITS];
    uint32_t n = worth_node_candidates(t, r, used, from);
    if (!n)
        return false;
    uint32_t at = from[0];
    double best = n > 1 ? trial_with(t, at, r) : 0;
    for (uint32_t i = 1; i < n; i++) {
        double with = trial_with(t, from[i], r);
        if (with > best) {
            best = with;
            at = from[i];
        }
    }
    used[at] = !t->w->slots.geometry[t->units[at].type]; // of one unit several slots can be had
    const struct worth_unit after = worth_node_unit_after(t, at, r);
    trial_set(t, at, &after);
    return true;
}

bool worth_after(const struct worth *w, const struct worth_state *s,
                 const struct worth_request *requests, size_t n, double *ret)
{
    struct trial t;
    trial_begin(&t, w, s);
    for (size_t i = 0; i < n; i++) {
        t.state.cpu -= requests[i].cpu;
        t.state.memory -= requests[i].memory;
    }
    for (size_t i = 0; i < n; i++) {
        bool used[WORTH_UNITS] = {false};
        for (uint32_t k = 0; k < requests[i].num; k++)
            if (!take_share(&t, &requests[i], used))
                return false;
    }
    *ret = worth_of_sums(w, &t.sums, &t.state);
    return true;
}

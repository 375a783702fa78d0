// SPDX-License-Identifier: Apache-2.0
//
// What was seen, and what follows from it: prices, weights, press, scarcity.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/fleet/worth_int.h"
#include "base/mem.h"

#include "base/banned.h"

// After so many requests an old one counts half.
#define HALF_LIFE 32768.0
#define COUNT_MAX 1e12

// Requests between two looks at the prices: few at first, then an eighth of those behind them.
#define SETTLE_LEAST 32
#define SETTLE_MOST  1024

// A scarcity that changed by less is left as it is, so that what is known about nodes stays.
#define SCARCE_TOLERANCE 0.25

// A place is worth more than in proportion as places get few.
#define SCARCE_POWER 1.5

// What processors allow counts once. Where those that will come want more of the processors left
// than COMPANY_FROM, while they want all units, processors are what runs out, and it counts up to
// COMPANY_MOST times.
#define COMPANY_FROM  0.9
#define COMPANY_SLOPE 5.0
#define COMPANY_MOST  3.0
#define COMPANY_MOVED 0.1

struct worth *worth_new(void)
{
    struct worth *w = xcalloc(1, sizeof(*w));
    w->one = 1;
    w->company = 1;
    w->slots.stamp = 1;
    for (size_t i = 0; i < WORTH_FAMILIES; i++) {
        const double none[WORTH_WHOLE + 1] = {0};
        worth_price(none, &w->families[i].prices);
    }
    return w;
}

void worth_free(struct worth *w)
{
    for (size_t i = 0; w && i < WORTH_TYPES; i++)
        free(w->slots.geometry[i]);
    if (w)
        free(w->slots.memo);
    free(w);
}

// --- Types and groups ----------------------------------------------------------------------------

static uint8_t family_of(struct worth *w, uint64_t family)
{
    for (size_t i = 0; i < w->families_len; i++)
        if (w->families[i].hash == family)
            return (uint8_t)i;
    if (w->families_len == WORTH_FAMILIES)
        return WORTH_FAMILIES - 1;
    w->families[w->families_len].hash = family;
    return (uint8_t)w->families_len++;
}

uint8_t worth_type(struct worth *w, uint64_t kind, uint64_t family)
{
    for (size_t i = 0; i < w->types_len; i++)
        if (w->types[i].kind == kind)
            return (uint8_t)i;
    if (w->types_len == WORTH_TYPES)
        return WORTH_TYPES - 1;
    w->types[w->types_len] = (struct unit_type){kind, family_of(w, family)};
    return (uint8_t)w->types_len++;
}

size_t worth_types(const struct worth *w)
{
    return w->types_len;
}

uint16_t worth_group(struct worth *w, uint8_t type, uint32_t n)
{
    for (size_t i = 0; i < w->groups_len; i++)
        if (w->groups[i].type == type && w->groups[i].n == n)
            return (uint16_t)i;
    if (w->groups_len == WORTH_GROUPS)
        return WORTH_GROUPS - 1;
    w->groups[w->groups_len] = (struct unit_group){.type = type, .n = n};
    return (uint16_t)w->groups_len++;
}

void worth_supply(struct worth *w, uint16_t group, int64_t units)
{
    w->groups[group].units += units;
    w->supply_changed = true;
}

// --- What was seen -------------------------------------------------------------------------------

static struct demand *demand_of(struct worth *w, uint64_t hash)
{
    size_t least = 0;
    for (size_t i = 0; i < w->demands_len; i++) {
        if (w->demands[i].hash == hash)
            return &w->demands[i];
        if (w->demands[i].count < w->demands[least].count)
            least = i;
    }
    if (w->demands_len < WORTH_REQUESTS)
        least = w->demands_len++;
    w->demands[least] = (struct demand){.hash = hash};
    return &w->demands[least];
}

void worth_seen(struct worth *w, uint64_t hash, const struct worth_request *r, double times)
{
    struct demand *d = demand_of(w, hash);
    d->request = *r;
    d->count += times * w->one;
    w->seen += times;
    w->unsettled += times;
    w->one *= exp2(times / HALF_LIFE);
    if (w->one < COUNT_MAX)
        return;
    for (size_t i = 0; i < w->demands_len; i++)
        w->demands[i].count /= w->one;
    w->one = 1;
}

// --- Prices and weights --------------------------------------------------------------------------

static bool worth_hosts_demand(const struct worth *w, const struct unit_group *g,
                               const struct demand *d)
{
    (void)w;
    return d->request.num && d->request.num <= g->n && d->request.part[g->type];
}

// The part that a request takes where most units are that would do, by family; 0: none there.
static uint16_t usual_part(const struct worth *w, const struct demand *d, size_t family)
{
    int64_t units[WORTH_TYPES] = {0};
    size_t most = WORTH_TYPES;
    for (size_t g = 0; g < w->groups_len; g++)
        units[w->groups[g].type] += w->groups[g].units;
    for (size_t t = 0; t < w->types_len; t++)
        if (w->types[t].family == family && d->request.part[t] &&
            (most == WORTH_TYPES || units[t] > units[most]))
            most = t;
    return most == WORTH_TYPES ? 0 : d->request.part[most];
}

// Demand counts as if it were exactly what all units hold.
static void scale_demand(struct worth *w)
{
    double capacity = 0;
    double wanted = 0;
    for (size_t g = 0; g < w->groups_len; g++)
        capacity += (double)w->groups[g].units;
    for (size_t i = 0; i < w->demands_len; i++) {
        struct demand *d = &w->demands[i];
        uint16_t part = 0;
        for (size_t f = 0; f < w->families_len && !part; f++)
            part = d->usual[f];
        d->units = (double)d->request.num * part / WORTH_WHOLE;
        wanted += d->count * d->units;
    }
    w->scale = wanted > 0 && capacity > 0 ? capacity / wanted : 0;
    w->wanted = capacity;
}

static int by_rate(const void *x, const void *y)
{
    const struct company *a = x;
    const struct company *b = y;
    return a->rate < b->rate ? -1 : a->rate > b->rate;
}

static void set_company(struct worth *w, size_t f)
{
    struct family *fam = &w->families[f];
    double sum = 0;
    fam->company_len = 0;
    fam->unbounded = 0;
    for (size_t i = 0; i < w->demands_len; i++) {
        const struct demand *d = &w->demands[i];
        double weight = d->usual[f] ? d->count * d->request.num * d->usual[f] : 0;
        sum += weight;
        if (weight <= 0)
            continue;
        if (d->request.cpu > 0)
            fam->company[fam->company_len++] = (struct company){
                .rate = fam->prices.price[d->usual[f]] * d->request.num / (double)d->request.cpu,
                .weight = weight};
        else
            fam->unbounded += weight;
    }
    if (sum <= 0)
        return;
    fam->unbounded /= sum;
    qsort(fam->company, fam->company_len, sizeof(*fam->company), by_rate);
    double weights = 0;
    double rates = 0;
    for (size_t i = 0; i < fam->company_len; i++) {
        fam->company[i].weight /= sum;
        weights += fam->company[i].weight;
        rates += fam->company[i].weight * fam->company[i].rate;
        fam->company[i].weights = weights;
        fam->company[i].rates = rates;
    }
    fam->total = weights + fam->unbounded;
}

static void set_press(struct worth *w)
{
    double least = HUGE_VAL;
    for (size_t g = 0; g < w->groups_len; g++)
        w->groups[g].press = 0;
    for (size_t i = 0; i < w->demands_len; i++) {
        const struct demand *d = &w->demands[i];
        double capacity = 0;
        for (size_t g = 0; g < w->groups_len; g++)
            if (worth_hosts_demand(w, &w->groups[g], d))
                capacity += (double)w->groups[g].units;
        for (size_t g = 0; g < w->groups_len && capacity > 0; g++)
            if (worth_hosts_demand(w, &w->groups[g], d))
                w->groups[g].press += d->count * w->scale * d->units / capacity;
    }
    for (size_t g = 0; g < w->groups_len; g++)
        if (w->groups[g].units > 0 && w->groups[g].press < least)
            least = w->groups[g].press;
    for (size_t g = 0; g < w->groups_len; g++)
        w->groups[g].press -= least < HUGE_VAL ? least : 0;
}

static void set_prices(struct worth *w, size_t f)
{
    double parts[WORTH_WHOLE + 1] = {0};
    for (size_t i = 0; i < w->demands_len; i++) {
        struct demand *d = &w->demands[i];
        d->usual[f] = usual_part(w, d, f);
        parts[d->usual[f]] += d->count * d->request.num;
    }
    parts[0] = 0;
    worth_price(parts, &w->families[f].prices);
}

bool worth_settle(struct worth *w, bool always)
{
    double after = w->seen / 8;
    after = after < SETTLE_LEAST ? SETTLE_LEAST : after > SETTLE_MOST ? SETTLE_MOST : after;
    if (!always && !w->supply_changed && w->unsettled < after)
        return false;
    w->unsettled = 0;
    w->supply_changed = false;
    for (size_t f = 0; f < w->families_len; f++)
        set_prices(w, f);
    scale_demand(w);
    for (size_t f = 0; f < w->families_len; f++)
        set_company(w, f);
    set_press(w);
    worth_slots_settle(w);
    w->scarce_len = 0; // until places are counted again
    return true;
}

double worth_press(const struct worth *w, uint16_t group)
{
    return w->groups[group].press;
}

// --- Scarcity ------------------------------------------------------------------------------------

static void count_kind(struct worth *w, uint32_t demand)
{
    const struct worth_request *r = &w->demands[demand].request;
    struct scarce s = {.demand = demand, .num = r->num, .cpu = r->cpu, .memory = r->memory};
    for (size_t t = 0; t < w->types_len && t < WORTH_TYPES; t++) {
        s.any |= (uint64_t)(r->part[t] > 0) << t;
        s.whole |= (uint64_t)(r->part[t] == WORTH_WHOLE) << t;
    }
    w->counted[w->counted_len++] = s;
}

void worth_places_begin(struct worth *w)
{
    w->counted_len = 0;
    w->free_units = 0;
    w->free_cpu = 0;
    worth_slots_begin(w);
    for (size_t i = 0; i < w->demands_len && w->counted_len < WORTH_SCARCE; i++)
        if (w->demands[i].request.num >= 2 && w->demands[i].units > 0 &&
            !worth_slots_wanted(&w->demands[i].request))
            count_kind(w, (uint32_t)i);
}

void worth_places(struct worth *w, const struct worth_state *s, double nodes)
{
    struct unit_sums m;
    double left = 0;
    worth_sums(w, s, &m);
    for (uint32_t i = 0; i < s->n; i++)
        left += s->units[i].left;
    w->free_units += nodes * left / WORTH_WHOLE;
    w->free_cpu += nodes * (s->cpu > 0 ? (double)s->cpu : 0);
    for (size_t i = 0; i < w->counted_len; i++)
        w->counted[i].places += nodes * (double)worth_slots(w, s, &m, &w->counted[i]);
    worth_slots_count(w, s, nodes);
}

static double family_price(const struct worth *w, const struct demand *d)
{
    for (size_t f = 0; f < w->families_len; f++)
        if (d->usual[f])
            return w->families[f].prices.price[d->usual[f]];
    return 0;
}

static void set_scarcity(const struct worth *w, struct scarce *s)
{
    const struct demand *d = &w->demands[s->demand];
    double come = d->count * w->scale * w->free_units / (w->wanted > 0 ? w->wanted : 1);
    double rate = s->places > 0 ? come / s->places : 1; // the next one is
    rate = rate > 1 ? 1 : rate;
    s->value = pow(rate, SCARCE_POWER) * d->request.num * family_price(w, d);
}

// True: it changed so much that it matters.
static bool set_weight_of_company(struct worth *w)
{
    double come = 0;
    for (size_t i = 0; i < w->demands_len; i++)
        come += w->demands[i].count * (double)w->demands[i].request.cpu;
    come *= w->scale * w->free_units / (w->wanted > 0 ? w->wanted : 1);
    double tight = w->free_cpu > 0 ? come / w->free_cpu : 0;
    double weight = 1 + COMPANY_SLOPE * (tight - COMPANY_FROM);
    weight = weight < 1 ? 1 : weight > COMPANY_MOST ? COMPANY_MOST : weight;
    if (fabs(weight - w->company) <= COMPANY_MOVED)
        return false;
    w->company = weight;
    return true;
}

// worth_moved: a value has changed so much that what was made of it should be rebuilt.
static bool worth_moved(double old, double new)
{
    return fabs(new - old) > SCARCE_TOLERANCE * (old > new ? old : new);
}

bool worth_places_end(struct worth *w)
{
    bool changed = set_weight_of_company(w) || w->scarce_len != w->counted_len;
    for (size_t i = 0; i < w->counted_len; i++) {
        set_scarcity(w, &w->counted[i]);
        changed = changed || worth_moved(w->scarce[i].value, w->counted[i].value);
    }
    changed = worth_slots_end(w, changed) || changed;
    if (!changed)
        return false;
    memcpy(w->scarce, w->counted, w->counted_len * sizeof(*w->scarce));
    w->scarce_len = w->counted_len;
    return true;
}

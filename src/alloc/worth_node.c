// SPDX-License-Identifier: Apache-2.0
//
// The worth of one node, and what a request there costs.
#include <string.h>

#include "alloc/worth_int.h"

#include "base/banned.h"

// How much the terms count. Found on traces, see docs/utilization.md.
#define PARTS   2.0
#define PRESS   0.2
#define COMPANY 0.5

int64_t worth_slots(const struct worth_state *s, const struct worth_request *r)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t part = r->part[s->units[i].type];
        n += part && s->units[i].left >= part;
    }
    n /= r->num;
    if (n && r->cpu > 0 && s->cpu / r->cpu < n)
        n = s->cpu / r->cpu;
    if (n && r->memory > 0 && s->memory / r->memory < n)
        n = s->memory / r->memory;
    return n < 0 ? 0 : n;
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

double worth_of(const struct worth *w, const struct worth_state *s)
{
    double value[WORTH_FAMILIES] = {0};
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const struct worth_unit *u = &s->units[i];
        uint8_t f = w->types[u->type].family;
        double v = w->families[f].prices.value[u->left];
        value[f] += v;
        sum += PARTS * (1 + PRESS * w->groups[u->group].press) * v;
    }
    for (size_t f = 0; f < w->families_len; f++)
        sum += COMPANY * company_of(&w->families[f], value[f], (double)s->cpu);
    for (size_t i = 0; i < w->scarce_len; i++)
        sum +=
            w->scarce[i].value * (double)worth_slots(s, &w->demands[w->scarce[i].demand].request);
    return sum;
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
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t part = r->part[s->units[i].type];
        n += part && s->units[i].left >= part;
    }
    return n >= r->num;
}

bool worth_refuses(const struct worth_state *s, const struct worth_request *r)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t part = r->part[s->units[i].type];
        n += part && (s->units[i].loose || s->units[i].left >= part);
    }
    return n < r->num;
}

// --- Loss ----------------------------------------------------------------------------------------

struct option {
    double worth; // of the node with the share taken there
    uint32_t unit;
    uint16_t left;
};

static bool better(const struct option *a, const struct option *b)
{
    return a->worth != b->worth ? a->worth > b->worth : a->left < b->left;
}

// Units in the same state cost the same; those are looked for among the units before.
static const struct option *known_option(const struct worth_state *s, const struct option *options,
                                         size_t n, uint32_t unit)
{
    for (size_t i = 0; i < n; i++) {
        const struct worth_unit *u = &s->units[options[i].unit];
        if (u->left == s->units[unit].left && u->group == s->units[unit].group)
            return &options[i];
    }
    return NULL;
}

static size_t make_options(const struct worth *w, const struct worth_state *s,
                           const struct worth_request *r, struct option *options)
{
    struct worth_unit units[WORTH_UNITS];
    struct worth_state then = {s->cpu - r->cpu, s->memory - r->memory, units, s->n};
    size_t n = 0;
    if (s->n)
        memcpy(units, s->units, s->n * sizeof(*units));
    for (uint32_t i = 0; i < s->n; i++) {
        uint16_t part = r->part[units[i].type];
        if (!part || units[i].left < part)
            continue;
        const struct option *same = known_option(s, options, n, i);
        options[n] = (struct option){.unit = i, .left = units[i].left};
        if (same) {
            options[n++].worth = same->worth;
            continue;
        }
        units[i].left = (uint16_t)(units[i].left - part);
        options[n++].worth = worth_of(w, &then);
        units[i].left = s->units[i].left;
    }
    return n;
}

double worth_loss(const struct worth *w, const struct worth_state *s, const struct worth_request *r,
                  uint16_t rank[WORTH_UNITS])
{
    struct option options[WORTH_UNITS];
    size_t n = make_options(w, s, r, options);
    double best = 0;
    for (uint32_t i = 0; i < s->n; i++)
        rank[i] = UINT16_MAX;
    for (size_t i = 0; i < n; i++) {
        uint16_t before = 0;
        for (size_t k = 0; k < n; k++)
            before = (uint16_t)(before + better(&options[k], &options[i]));
        rank[options[i].unit] = before;
        if (before == 0)
            best = options[i].worth;
    }
    return n ? worth_of(w, s) - best : 0;
}

static const struct option *best_option(const struct option *options, size_t n)
{
    const struct option *best = &options[0];
    for (size_t i = 1; i < n; i++)
        if (better(&options[i], best))
            best = &options[i];
    return best;
}

bool worth_place(const struct worth *w, const struct worth_state *s, const struct worth_request *r,
                 struct worth_unit units[WORTH_UNITS])
{
    struct option options[WORTH_UNITS];
    size_t n = r->num ? make_options(w, s, r, options) : 0;
    for (uint32_t taken = 0; taken < r->num; taken++) {
        if (n == 0)
            return false;
        // What one share costs is taken from the state before all of them: near enough.
        const struct option *best = best_option(options, n);
        struct worth_unit *u = &units[best->unit];
        u->left = (uint16_t)(u->left - r->part[u->type]);
        options[best - options] = options[--n];
    }
    return true;
}

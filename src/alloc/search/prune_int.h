// SPDX-License-Identifier: Apache-2.0
//
// What pruning works with, shared by prune.c (facts and memory) and bound.c (reasons to turn back).
#ifndef ALLOC_SEARCH_PRUNE_INT_H
#define ALLOC_SEARCH_PRUNE_INT_H

#include "alloc/search/search_int.h"

struct value_bits {
    uint32_t id;
    uint64_t *bits;
};

struct column_values {
    struct value_bits *p; // by id
    size_t n;
    uint64_t *without; // devices that have the attribute without a value that counts
    bool any_without;
    uint32_t *of; // by device: which value, from 1; NULL when some device has several
};

// What a match constraint needs of one value's devices.
struct group_need {
    uint32_t column;
    int64_t n;
    amount *draws; // by kind of counter, at least
};

// A counter set, as far as it mirrors others: sets of the same shape are alike.
struct set_shape {
    uint64_t hash;
    bool alone; // some device draws on it and on another one
};

// What is left to each alternative in the present state.
struct prune_domains {
    const struct alternative *work;
    int64_t left;
    uint32_t end; // requests from this one on are not looked at: it is fragile
    uint64_t **dom;
    uint64_t **fresh;
    uint64_t *usable;  // devices whose counters and groups allow them now
    uint64_t **joined; // by request: those of all its alternatives
    uint64_t *merged;  // words
    uint64_t *mask;    // words
    uint32_t *bound;   // requests that a constraint binds
    uint32_t *scope;   // alternatives that it applies to
    uint32_t *tally;   // by value of a column, from 1
    uint32_t *served;  // likewise
    uint32_t *dirty;   // by request: the round after which its domain changed
    uint32_t round;
    uint64_t **of_value;
    struct group_need *needs; // scratch of the test of groups
    bool *covered;            // by request: counted in needs
};

// Sums over counters, and their scratch.
struct prune_sums {
    amount *least;     // by counter
    uint32_t *least_n; // by counter: devices that draw on it
    uint32_t *in_set;  // by counter set: devices
    uint32_t *limit;   // by counter set: how many of them at once
    uint32_t *stamp;   // by counter
    uint32_t *set_stamp;
    uint32_t stamp_now;
    uint64_t *set_sum;    // by counter set: scratch of keys
    const uint32_t *kind; // by counter: counters of the same name in one pool
    uint32_t kinds;
    amount *supply; // by kind
    amount *demand; // by kind
    amount *lowest; // by kind: scratch
    uint32_t *drawn_n;
    struct set_shape *shapes; // by counter set
};

struct prune {
    size_t words;
    uint64_t **cand;              // by alternative: devices that fit, each for itself
    uint64_t **errors;            // by alternative: devices that would raise an error
    bool *fragile;                // by alternative
    uint32_t *next_fragile;       // by request: it or the first later one that is fragile
    uint64_t **later;             // by request: candidates of it and of later ones
    bool *sharing;                // by alternative: some candidate may be allocated several times
    uint64_t *unique;             // devices like no other
    uint64_t *signature;          // by device, its counter sets by number
    uint64_t *mirrored;           // by device, its counter set by shape
    struct column_values *values; // by column
    uint64_t *range;              // words: positions that are left to the request at work
    uint32_t calls;               // of bound_is_hopeless

    struct prune_domains now;
    struct prune_sums sum;

    // Matching.
    uint32_t *owner;   // by device or value: slot + 1
    uint64_t *visited; // words
    uint64_t **slot_bits;
};

// Slots up to this many get the matching test; its cost grows with their square.
#define MATCHING_SLOTS_MAX 256

static inline void set_bit(uint64_t *w, uint32_t i)
{
    w[i / 64] |= UINT64_C(1) << i % 64;
}

static inline bool test_bit(const uint64_t *w, uint32_t i)
{
    return w[i / 64] >> (i % 64) & 1;
}

static inline size_t count_bits(const uint64_t *w, size_t words)
{
    size_t n = 0;
    for (size_t i = 0; i < words; i++)
        n += (size_t)__builtin_popcountll(w[i]);
    return n;
}

// --- The state at hand ---------------------------------------------------------------------------

static inline bool at_work(const struct prune *p, uint32_t request)
{
    return request == p->now.work->request;
}

static inline bool chooses(const struct alloc_solver *s, uint32_t request, uint32_t k)
{
    const struct prune *p = s->prune;
    if (at_work(p, request))
        return &s->p.alternatives[s->p.requests[request].first + k] == p->now.work;
    return !s->at.forced || s->at.forced[request] == UINT32_MAX || s->at.forced[request] == k;
}

static inline int64_t wanted(const struct alloc_solver *s, const struct alternative *a)
{
    return a == s->prune->now.work ? s->prune->now.left : a->count;
}

static inline bool exclusive(const struct alloc_solver *s, const struct alternative *a)
{
    return !a->admin && !s->prune->sharing[a - s->p.alternatives];
}

static inline int64_t fewest_of(const struct alloc_solver *s, uint32_t request)
{
    const struct request *q = &s->p.requests[request];
    int64_t fewest = INT64_MAX;
    for (uint32_t k = 0; k < q->n; k++) {
        int64_t n = wanted(s, &s->p.alternatives[q->first + k]);
        if (chooses(s, request, k) && n < fewest)
            fewest = n;
    }
    return fewest == INT64_MAX ? 0 : fewest;
}

// What a constraint still has to cover.
struct span {
    const struct claim *claim;
    uint32_t index; // of the constraint in the claim
    uint32_t from, to;
    const struct constraint_state *state; // NULL: it has seen nothing yet
    uint32_t bound_n;                     // requests in p->bound
    int64_t sum;                          // devices they want
    bool exclusive;                       // each of its own
    uint32_t scope_n;                     // alternatives in p->scope
    uint32_t column;                      // of the first bound request
    bool one_column;                      // of all of them
    bool changed;
};

// bound_span finds what is left of a constraint of a claim; bound_find fills in its requests.
struct span bound_span(const struct alloc_solver *s, uint32_t claim, uint32_t index);
void bound_find(struct alloc_solver *s, struct span *sp);

// bound_large_enough: some domain of the request holds as many devices as are wanted.
bool bound_large_enough(const struct alloc_solver *s, uint32_t request);

// bound_matching: the first `slots` of p->slot_bits find different items.
bool bound_matching(struct alloc_solver *s, uint32_t slots);

// bound_draws puts the least that any of the devices draws into p->lowest, by kind of counter.
void bound_draws(struct alloc_solver *s, const uint64_t *devices);

// bound_check_values filters the domains by constraints; bound_check_groups asks whether match
// constraints find values with devices and counters enough. False: no solution can come of this.
bool bound_check_values(struct alloc_solver *s);
bool bound_check_groups(struct alloc_solver *s);

// prune_value finds the devices with a value of a column, or NULL.
const struct value_bits *prune_value(const struct column_values *c, uint32_t id);

// prune_range sets p->range to the positions from start on, as devices.
void prune_range(struct alloc_solver *s, const struct alternative *a, uint32_t start);

#endif

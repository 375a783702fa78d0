// SPDX-License-Identifier: Apache-2.0
//
// The solver: one question, the state of its search, and the memory that both use.
#ifndef ALLOC_SEARCH_SOLVER_INT_H
#define ALLOC_SEARCH_SOLVER_INT_H

#include "alloc/model/answer.h"
#include "alloc/model/problem_int.h"

// What a constraint has seen. Sets live on the solver's stack of numbers.
struct constraint_state {
    uint32_t devices; // that are in scope and picked
    uint32_t first;   // in solver.numbers: match: the values all have; distinct: those taken
    uint32_t n;
};

struct pick {
    uint32_t alternative;
    uint32_t device;
};

struct undo {
    uint32_t numbers_n;
    uint32_t states_n;
    uint32_t groups_n;
};

struct saved_state {
    uint32_t constraint;
    struct constraint_state state;
};

struct saved_group {
    uint32_t set;
    struct group_state state;
};

// Candidates of a request in the order of the policy, as preferences that end in a position of the
// view. What the search has not reached yet is in a heap: most searches end long before.
struct order {
    uint64_t *keys; // n: from the end on those that are sorted, before them the others
    uint32_t n;
    uint32_t sorted;
    uint32_t least; // which one is the first, as long as nothing is sorted
    uint16_t *loss; // by device, from the options; NULL: no opinion
    bool asked;     // for it
};

#define ORDER_POSITION ((1U << 20) - 1)

// What preferences are made of, see order.c.
struct preference {
    const uint32_t *place_free; // by place
    const struct set_now *sets; // by counter set
    uint32_t *own_free;         // with what is picked; the view's until something is
    struct set_now *own_sets;
    uint32_t *turns;     // by place
    uint32_t *set_turns; // by counter set, from 1
};

// What a solution costs under pack, and what the next one may cost at most; see improve.c.
struct pack_cost {
    uint32_t opened; // PCIe roots and counter sets of which nothing was in use
    uint64_t size;   // of all devices
};

struct improvement {
    bool on;
    struct pack_cost now;
    struct pack_cost most;
    uint64_t steps_most;
    uint16_t *in_place; // by place: picks
    uint16_t *in_set;   // by counter set: picks
};

// How far a search has come. A pick pushes what it changes on the stacks of saved states.
struct search {
    uint16_t *marks;            // by device: claims that have it exclusively
    uint64_t *marked;           // the same as a bitset: any claim
    uint16_t *shares;           // by device: shares of this attempt
    amount *taken;              // parallel to view.caps
    amount *consumed;           // by counter
    uint32_t *overdrawn;        // by pool: counters whose sum is too large
    struct group_state *groups; // by counter set
    struct constraint_state *states;
    size_t numbers_n;
    struct saved_state *saved_states;
    size_t saved_states_n;
    struct saved_group *saved_groups;
    size_t saved_groups_n;
    struct pick *picks;
    size_t picks_n;
    uint32_t *claim_picks; // by claim
    uint32_t *chosen;      // by request: alternative, relative
    uint32_t *forced;      // by request: the only alternative to try, UINT32_MAX: all
    struct order *orders;  // by request: candidates in the order of the policy; NULL: as published
};

// What a search has done, and what ends it.
struct budget {
    uint64_t steps;
    uint64_t steps_most;  // of the slice at work
    uint64_t slice_began; // after so many steps
    uint32_t work;        // done since the deadline was checked, in some small unit
    uint32_t dead_ends;
    bool fatal;
    bool timeout;
    bool postponed; // … because the meter has nothing left
    bool paused;    // the slice is over
};

struct prune;
struct term_memory;

struct alloc_solver {
    bool no_error_texts; // explanations leave out why a selector fails, which costs an evaluation
    struct alloc_options options;
    struct arena arena; // of one solve
    struct cel_run *run;
    struct sbuf error;
    struct sbuf scratch;
    uint32_t *numbers; // stack of value numbers
    size_t numbers_cap;
    uint64_t *memo; // of failed states; its key changes from solve to solve
    uint64_t memo_salt;
    struct term_memory *terms; // selectors taken apart, for explanations
    // The question. solver_begin clears all that follows.
    const struct alloc_view *view;
    struct problem p;
    struct search at;
    struct budget budget;
    struct preference preference;
    struct improvement improvement;
    struct prune *prune; // NULL until the search met a dead end
};

// Work between two looks at the deadline: some 50 us.
#define WORK_PER_LOOK 20000

// solver_tick counts work and asks now and then whether time is up; true when it is.
static inline bool solver_tick(struct alloc_solver *s, uint32_t work)
{
    s->budget.work += work;
    if (s->budget.work >= WORK_PER_LOOK) {
        s->budget.work = 0;
        if (s->options.expired && s->options.expired(s->options.expired_arg))
            s->budget.timeout = true;
    }
    return s->budget.timeout;
}
// solver_begin forgets the last question and starts one on a node.
void solver_begin(struct alloc_solver *s, const struct alloc_view *view);

// One of several arrays that are allocated together.
struct piece {
    void **where;
    size_t bytes;
};

#ifdef __clang__
#    define UNROLL _Pragma("unroll")
#else
#    define UNROLL _Pragma("GCC unroll 16")
#endif

#define PIECE(pointer, count)                             \
    {                                                     \
        (void **)&(pointer), (count) * sizeof(*(pointer)) \
    }

// solver_allocate gives each piece zeroed memory of the solver's arena. It is inlined where the
// pieces are listed: that leaves of them nothing but additions, which small questions notice.
static inline __attribute__((always_inline)) void solver_allocate(struct alloc_solver *s,
                                                                  const struct piece *pieces,
                                                                  size_t n)
{
    const size_t mask = _Alignof(max_align_t) - 1;
    size_t total = 0;
    UNROLL
    for (size_t i = 0; i < n; i++)
        total += (pieces[i].bytes + mask) & ~mask;
    char *at = arena_alloc(&s->arena, total + 1, mask + 1);
    UNROLL
    for (size_t i = 0; i < n; i++) {
        *pieces[i].where = at;
        at += (pieces[i].bytes + mask) & ~mask;
    }
}

// solver_fail records a fatal error.
void solver_fail(struct alloc_solver *s, const char *fmt, ...) ERR_PRINTF(2, 3);

// solver_claim_name adds namespace/name.
void solver_claim_name(struct sbuf *out, const struct api_resource_claim *claim);

// solver_device_name adds driver/pool/device.
void solver_device_name(struct sbuf *out, const struct vw_device *d);

// need_amount is the amount of the cap-th capacity of the view; valid after NEED_OK.
static inline amount need_amount(const struct alloc_solver *s, const struct alternative *a,
                                 uint32_t cap)
{
    return a->capreq ? s->p.capreqs[a->capreq].need[cap] : s->view->caps[cap].default_need;
}

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Runs the search in slices. Its order is given, so it may fail in a late claim again and again for
// a reason that no earlier pick has a part in and that no bound sees. When a slice ends without an
// answer the last claims are tried by themselves, on a node where nothing is picked: what fails
// there fails everywhere. Then the search starts again, with its memory, and a longer slice.
#include "alloc/search/prune_int.h"

#include "base/banned.h"

// Steps of the first slice, how much longer the next one is, and which part of a slice the last
// claims get.
#define SLICE_FIRST  1024U
#define SLICE_GROWTH 16U
#define TAIL_PART    4U

static enum outcome run_slice(struct alloc_solver *s, uint32_t request, uint64_t steps)
{
    s->budget.paused = false;
    s->budget.slice_began = s->budget.steps;
    s->budget.steps_most = s->budget.steps + steps;
    return search_from(s, request);
}

// Whether the claims from some one on cannot be placed, whatever the earlier ones take. Not asked
// where errors can be met: they count only if the search gets to them.
static bool some_tail_fails(struct alloc_solver *s, uint64_t steps)
{
    if (!s->prune)
        prune_prepare(s);
    if (s->prune->next_fragile[0] < s->p.requests_len)
        return false;
    for (size_t i = s->p.claims_len; i-- > 1;) {
        search_reset(s);
        enum outcome o = run_slice(s, s->p.claims[i].first_request, steps);
        if (o != SOLVED)
            return o == FAILED;
    }
    return false;
}

enum outcome search_run(struct alloc_solver *s)
{
    bool sliced = s->p.claims_len > 1 && !s->improvement.on && !s->options.no_pruning;
    uint64_t slice = SLICE_FIRST;
    if (s->options.eager_pruning && !s->prune && !s->improvement.on)
        prune_prepare(s);
    enum outcome o = run_slice(s, 0, sliced ? slice : UINT64_MAX / 2);
    while (o == STOPPED && s->budget.paused && !s->budget.timeout) {
        if (some_tail_fails(s, slice / TAIL_PART))
            return FAILED;
        if (s->budget.timeout)
            return STOPPED;
        search_reset(s);
        slice *= SLICE_GROWTH;
        o = run_slice(s, 0, slice);
    }
    return o == EXCEEDED ? FAILED : o;
}

// SPDX-License-Identifier: Apache-2.0
//
// The parts of the search: order of candidates, improvement, ranks and pruning.
#ifndef ALLOC_SEARCH_SEARCH_INT_H
#define ALLOC_SEARCH_SEARCH_INT_H

#include "alloc/search/solver_int.h"

#define DEVICES_MAX 4096 // picked in one question; the search recurses once for each

enum outcome {
    SOLVED,
    FAILED,
    EXCEEDED, // more than a claim can hold
    STOPPED,  // error or timeout
};

// search_run searches for a solution with the options' policy; search_from walks the search from a
// request on, in the state there is, until it ends or s->steps_most is reached (paused).
enum outcome search_run(struct alloc_solver *s);
enum outcome search_from(struct alloc_solver *s, uint32_t request);

// search_prepare makes the arrays of the search. False with s->error set when the claims ask for
// more devices than a search may hold.
bool search_prepare(struct alloc_solver *s);

// search_reset takes back everything that a search has placed.
void search_reset(struct alloc_solver *s);

// order_begin makes room for orders; false when there are too many devices for them. order_prepare
// sets the order of candidates of a request for the policy. order_sort puts the candidate at a
// position in place, with all before it.
bool order_begin(struct alloc_solver *s);
void order_prepare(struct alloc_solver *s, const struct alternative *a);
void order_sort(struct order *o, uint32_t at);

// order_device is the candidate at a position that is sorted; order_seat fills in the keys of a
// seat.
static inline uint32_t order_device(const struct alloc_solver *s, const struct order *o,
                                    uint32_t at)
{
    return s->view->seats[o->keys[o->n - 1 - at] & ORDER_POSITION].device;
}

void order_seat(const struct alloc_view *v, struct vw_seat *t, bool binding, uint16_t size);

// improve_solution looks for a solution that breaks into less than the one found, for a bounded
// time. improve_take and improve_give_back keep count of what picks cost; false: too much.
void improve_solution(struct alloc_solver *s);
bool improve_take(struct alloc_solver *s, uint32_t device);
void improve_give_back(struct alloc_solver *s, uint32_t device);

// rank_view fills in what policies want to know about the devices of a view. rank_size shortens an
// amount, keeping the order. rank_excluded weighs the partitions in fits that a device excludes.
// rank_device finds the attributes of a device that tell where it sits.
void rank_view(struct alloc_view *v);

// rank_again does so when other devices are in use; sets_changed: counter sets that this concerns.
void rank_again(struct alloc_view *v, const bool *sets_changed);
void rank_device(struct cl_device *d);
uint16_t rank_size(amount a);
uint32_t rank_excluded(const struct alloc_view *v, uint32_t device, uint64_t fits);

// rank_beside reports whether two devices can be had together when counters have so much.
bool rank_beside(const struct alloc_view *v, const struct vw_device *a, const struct vw_device *b,
                 const amount *have);

// prune_prepare collects what pruning needs. bound_is_hopeless: no solution can come of
// the present state: alternative a still wants left devices from position start on, then the
// requests behind it. prune_known looks the state up in the memory of failed ones (and finds where
// to put it if it fails), prune_remember puts it there.
void prune_prepare(struct alloc_solver *s);
bool bound_is_hopeless(struct alloc_solver *s, const struct alternative *a, uint32_t left,
                       uint32_t start);
// prune_alike: what failed with one device fails with the other.
bool prune_alike(const struct alloc_solver *s, uint32_t a, uint32_t b);
bool prune_skips(const struct alloc_solver *s, const struct alternative *a, uint32_t device);
struct memo_key {
    uint64_t a, b;
};
bool prune_known(struct alloc_solver *s, const struct alternative *a, uint32_t left, uint32_t start,
                 struct memo_key *ret);
void prune_remember(struct alloc_solver *s, struct memo_key key);

#endif

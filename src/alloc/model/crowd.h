// SPDX-License-Identifier: Apache-2.0
//
// A set of nodes that can be walked in their order without being sorted: a heap of which every node
// knows its place. Adding and removing one costs the logarithm of the set; so does each step of a
// walk over several crowds at once (struct crowd_walk). Where a node stands is kept in an array of
// the owner's, by node: a node is in one crowd at a time.
#ifndef ALLOC_MODEL_CROWD_H
#define ALLOC_MODEL_CROWD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct crowd_member {
    uint32_t order; // the lower first; no two nodes have the same
    uint32_t node;
};

struct crowd VEC(struct crowd_member);

// crowd_add and crowd_remove keep at[node] up to date for all members; the node must not, or must,
// be a member.
void crowd_add(struct crowd *c, uint32_t *at, struct crowd_member m);
void crowd_remove(struct crowd *c, uint32_t *at, uint32_t node);

// A place in one of several crowds. rank is which crowd comes first, before the order of nodes.
struct crowd_cursor {
    uint64_t rank;
    uint32_t order;
    uint32_t crowd; // the caller's number
    uint32_t place;
};

struct crowd_walk VEC(struct crowd_cursor);

// crowd_walk_add adds a crowd that is not empty, from its first member on. crowd_walk_next takes
// the first cursor off; crowd_walk_on adds what comes after it in its crowd, which must not have
// changed.
void crowd_walk_add(struct crowd_walk *w, const struct crowd *c, uint64_t rank, uint32_t number);
bool crowd_walk_next(struct crowd_walk *w, struct crowd_cursor *ret);
void crowd_walk_on(struct crowd_walk *w, const struct crowd *c, const struct crowd_cursor *at);

#endif

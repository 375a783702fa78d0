// SPDX-License-Identifier: Apache-2.0
//
// Intrusive binary heap, smallest first. A node knows its place, so any node can be removed or
// moved after its key changed in O(log n). Embed struct heap_node zeroed; use list_entry's cousin
// heap_entry to get back to the object. Equal keys leave in no particular order: a caller that
// needs one adds a sequence number to its key.
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct heap_node {
    size_t place; // position + 1; 0 when in no heap
};

typedef bool (*heap_less_fn)(const struct heap_node *a, const struct heap_node *b);

struct heap {
    struct heap_node **nodes;
    size_t n;
    size_t cap;
    heap_less_fn less;
};

static inline void heap_init(struct heap *h, heap_less_fn less)
{
    *h = (struct heap){.less = less};
}

void heap_push(struct heap *h, struct heap_node *node);

// heap_peek and heap_pop return the smallest node, or NULL.
struct heap_node *heap_peek(const struct heap *h);
struct heap_node *heap_pop(struct heap *h);

// heap_remove takes a node out; one that is in no heap is left alone.
void heap_remove(struct heap *h, struct heap_node *node);

// heap_update restores the order after node's key changed.
void heap_update(struct heap *h, struct heap_node *node);

// heap_done frees the heap's own array; nodes still in it are released, not freed.
void heap_done(struct heap *h);

static inline bool heap_linked(const struct heap_node *n)
{
    return n->place != 0;
}

#define heap_entry(node, type, member) container_of(node, type, member)

#endif

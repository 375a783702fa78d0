// SPDX-License-Identifier: Apache-2.0
//
// A binary heap of pointers whose items know their position, so that any item can be moved or
// removed.
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/banned.h"

static void put_at(struct heap *h, size_t at, struct heap_node *node)
{
    h->nodes[at] = node;
    node->place = at + 1;
}

static void sift_up(struct heap *h, size_t at)
{
    struct heap_node *node = h->nodes[at];
    while (at > 0) {
        size_t parent = (at - 1) / 2;
        if (!h->less(node, h->nodes[parent]))
            break;
        put_at(h, at, h->nodes[parent]);
        at = parent;
    }
    put_at(h, at, node);
}

static void heap_sift_down(struct heap *h, size_t at)
{
    struct heap_node *node = h->nodes[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= h->n)
            break;
        if (child + 1 < h->n && h->less(h->nodes[child + 1], h->nodes[child]))
            child++;
        if (!h->less(h->nodes[child], node))
            break;
        put_at(h, at, h->nodes[child]);
        at = child;
    }
    put_at(h, at, node);
}

void heap_push(struct heap *h, struct heap_node *node)
{
    assert(!heap_linked(node));
    if (h->n == h->cap) {
        h->cap = mem_grow_cap(h->cap, h->n + 1, sizeof(*h->nodes));
        h->nodes = xreallocarray(h->nodes, h->cap, sizeof(*h->nodes));
    }
    h->nodes[h->n++] = node;
    sift_up(h, h->n - 1);
}

struct heap_node *heap_peek(const struct heap *h)
{
    return h->n ? h->nodes[0] : NULL;
}

struct heap_node *heap_pop(struct heap *h)
{
    struct heap_node *first = heap_peek(h);
    if (first)
        heap_remove(h, first);
    return first;
}

void heap_remove(struct heap *h, struct heap_node *node)
{
    if (!heap_linked(node))
        return;
    size_t at = node->place - 1;
    assert(at < h->n && h->nodes[at] == node);
    struct heap_node *last = h->nodes[--h->n];
    node->place = 0;
    if (last == node)
        return;
    put_at(h, at, last);
    heap_update(h, last);
}

void heap_update(struct heap *h, struct heap_node *node)
{
    assert(heap_linked(node));
    sift_up(h, node->place - 1);
    heap_sift_down(h, node->place - 1);
}

void heap_done(struct heap *h)
{
    for (size_t i = 0; i < h->n; i++)
        h->nodes[i]->place = 0;
    free(h->nodes);
    h->nodes = NULL;
    h->n = h->cap = 0;
}

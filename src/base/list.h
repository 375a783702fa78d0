// SPDX-License-Identifier: Apache-2.0
//
// Intrusive doubly linked list. The list owns nothing; a node is in at most one list. A head must
// be initialised with list_init; a node that is in no list is zeroed.
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem.h"

struct list_node {
    struct list_node *prev, *next;
};

struct list {
    struct list_node head;
};

static inline void list_init(struct list *l)
{
    l->head.prev = l->head.next = &l->head;
}

static inline bool list_empty(const struct list *l)
{
    return l->head.next == &l->head;
}

static inline bool list_linked(const struct list_node *n)
{
    return n->next != NULL;
}

// list_insert puts n behind at.
static inline void list_insert(struct list_node *at, struct list_node *n)
{
    n->prev = at;
    n->next = at->next;
    at->next->prev = n;
    at->next = n;
}

static inline void list_push_front(struct list *l, struct list_node *n)
{
    list_insert(&l->head, n);
}

static inline void list_push_back(struct list *l, struct list_node *n)
{
    list_insert(l->head.prev, n);
}

// list_remove takes n out of its list; a node that is in none is left alone.
static inline void list_remove(struct list_node *n)
{
    if (!list_linked(n))
        return;
    n->prev->next = n->next;
    n->next->prev = n->prev;
    n->prev = n->next = NULL;
}

// list_pop_front removes and returns the first node, or NULL.
static inline struct list_node *list_pop_front(struct list *l)
{
    if (list_empty(l))
        return NULL;
    struct list_node *n = l->head.next;
    list_remove(n);
    return n;
}

// NOLINTBEGIN(bugprone-macro-parentheses): it declares its name.
// list_foreach walks nodes; the current one may be removed or freed.
// NOLINTBEGIN(bugprone-macro-parentheses): loop variables cannot stand in parentheses
#define list_foreach(l, it)                                                              \
    for (struct list_node *it = (l)->head.next, *it##_next = it->next; it != &(l)->head; \
         it = it##_next, it##_next = it->next)
// NOLINTEND(bugprone-macro-parentheses)

#define list_entry(node, type, member) container_of(node, type, member)

#endif

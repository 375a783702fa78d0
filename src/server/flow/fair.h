// SPDX-License-Identifier: Apache-2.0
//
// Whose turn is it? Fair queueing in a tree: levels, users, namespaces. Every node has a share of
// its parent's time; what a flow does not use is divided among those who wait. Design:
// docs/design/server.md. Knows no requests and no clock.
#ifndef SERVER_FLOW_FAIR_H
#define SERVER_FLOW_FAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/str.h"

struct fair_node;

// Something that waits, or runs. Zeroed, it is in no queue; embed it.
struct fair_item {
    struct list_node node;
    struct fair_node *flow; // set while it waits or holds a seat
    int64_t cost_ns;        // what it has been charged
    bool seated;
};

struct fair_nodes MAP(struct fair_node *);

struct fair_node {
    struct fair_node *parent; // NULL: the root
    struct sbuf name;
    struct fair_nodes children;
    struct heap ready;      // children with something to run, by start
    struct heap_node place; // in the parent's ready
    struct list items;      // of a leaf: waiting
    uint64_t start;         // virtual time at which its next turn begins
    uint64_t now;           // virtual time among its children: the start of the last turn
    uint32_t share;
    size_t waiting;      // items below
    size_t seats;        // taken by items below
    size_t seats_most;   // 0: no limit
    size_t waiting_most; // 0: no limit
};

struct fair {
    struct fair_node root;
    size_t nodes; // below the root
};

// How many flows are remembered before those that are idle are forgotten.
#define FAIR_NODES_MAX 4096

void fair_init(struct fair *f, size_t seats, size_t waiting);

// fair_done frees all nodes; nothing may wait or hold a seat.
void fair_done(struct fair *f);

// What a level gives to each of its users.
struct fair_level {
    struct str name;
    uint32_t share;
    size_t user_seats;   // 0: no limit
    size_t user_waiting; // 0: no limit
};

// fair_flow finds the flow of a user in a namespace, or makes it. It is good until the next call,
// and as long as something waits or runs in it.
struct fair_node *fair_flow(struct fair *f, const struct fair_level *level, struct str user,
                            struct str namespace);

// fair_may_run: whether an item of a flow could take a seat now.
bool fair_may_run(const struct fair_node *flow);

// fair_run seats an item without waiting.
void fair_run(struct fair_node *flow, struct fair_item *item);

// fair_wait puts an item to the end of its flow's queue. False: a queue is full.
bool fair_wait(struct fair_node *flow, struct fair_item *item);

// fair_next seats the item whose turn it is; NULL when there is none, or no seat for any.
struct fair_item *fair_next(struct fair *f);

// fair_charge adds what an item has taken, or will.
void fair_charge(struct fair_item *item, int64_t cost_ns);

// fair_leave takes an item out of its queue, or gives its seat back. One that is nowhere is left
// alone.
void fair_leave(struct fair_item *item);

static inline size_t fair_waiting(const struct fair *f)
{
    return f->root.waiting;
}

#endif

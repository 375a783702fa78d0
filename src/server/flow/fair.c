// SPDX-License-Identifier: Apache-2.0
//
// Fair queuing in virtual time: levels, users and namespaces share seats, and a flow is charged
// what its requests cost. Only arithmetic; flow.c runs it.
#include "server/flow/fair.h"

#include <assert.h>
#include <stdlib.h>

#include "base/banned.h"

// Virtual time passes in nanoseconds times this for a share of one.
#define SCALE 1024

static bool starts_before(const struct heap_node *a, const struct heap_node *b)
{
    return heap_entry(a, struct fair_node, place)->start <
           heap_entry(b, struct fair_node, place)->start;
}

static void node_init(struct fair_node *n)
{
    heap_init(&n->ready, starts_before);
    list_init(&n->items);
}

void fair_init(struct fair *f, size_t seats, size_t waiting)
{
    *f = (struct fair){.root = {.share = 1, .seats_most = seats, .waiting_most = waiting}};
    node_init(&f->root);
}

static void nodes_free(struct fair *f, struct fair_node *parent);

static void fair_node_done(struct fair *f, struct fair_node *n)
{
    assert(n->seats == 0 && n->waiting == 0);
    nodes_free(f, n);
    heap_done(&n->ready);
    sbuf_done(&n->name);
}

static void nodes_free(struct fair *f, struct fair_node *parent)
{
    map_foreach(&parent->children, i) {
        struct fair_node *n = *map_value(&parent->children, i);
        fair_node_done(f, n);
        free(n);
        f->nodes--;
    }
    map_done(&parent->children);
}

void fair_done(struct fair *f)
{
    fair_node_done(f, &f->root);
}

// --- Flows ---------------------------------------------------------------------------------------

static bool fair_is_idle(const struct fair_node *n)
{
    return n->seats == 0 && n->waiting == 0;
}

// fair_drop_idle frees the idle nodes below one. What they owed is forgiven: that is rare, and
// little.
static void fair_drop_idle(struct fair *f, struct fair_node *parent)
{
    struct fair_nodes kept = {0};
    map_foreach(&parent->children, i) {
        struct fair_node *n = *map_value(&parent->children, i);
        if (fair_is_idle(n)) {
            fair_node_done(f, n);
            free(n);
            f->nodes--;
        } else {
            fair_drop_idle(f, n);
            *map_put(&kept, sbuf_str(&n->name)) = n;
        }
    }
    map_done(&parent->children);
    parent->children = kept;
}

static struct fair_node *child_of(struct fair *f, struct fair_node *parent, struct str name,
                                  uint32_t share)
{
    struct fair_node **have = map_get(&parent->children, name);
    if (have)
        return *have;
    struct fair_node *n = xcalloc(1, sizeof(*n));
    node_init(n);
    n->parent = parent;
    n->share = share;
    sbuf_add(&n->name, name);
    *map_put(&parent->children, sbuf_str(&n->name)) = n;
    f->nodes++;
    return n;
}

struct fair_node *fair_flow(struct fair *f, const struct fair_level *level, struct str user,
                            struct str namespace)
{
    if (f->nodes >= FAIR_NODES_MAX)
        fair_drop_idle(f, &f->root);
    struct fair_node *l = child_of(f, &f->root, level->name, level->share);
    struct fair_node *u = child_of(f, l, user, 1);
    u->seats_most = level->user_seats;
    u->waiting_most = level->user_waiting;
    return child_of(f, u, namespace, 1);
}

// --- Turns ---------------------------------------------------------------------------------------

static bool has_seat(const struct fair_node *n)
{
    return n->seats_most == 0 || n->seats < n->seats_most;
}

bool fair_may_run(const struct fair_node *flow)
{
    for (const struct fair_node *n = flow; n; n = n->parent)
        if (!has_seat(n))
            return false;
    return true;
}

// may_start: a child can have the next turn of its parent.
static bool may_start(const struct fair_node *n)
{
    return has_seat(n) && (!list_empty(&n->items) || n->ready.n);
}

// fair_settle_clock puts a node, and those above it, among the ready ones or takes them away.
static void fair_settle_clock(struct fair_node *n)
{
    for (; n->parent; n = n->parent) {
        bool ready = may_start(n), was = heap_linked(&n->place);
        if (ready == was)
            return;
        if (ready) {
            // Who comes back has no claim on the time that has passed.
            if (n->start < n->parent->now)
                n->start = n->parent->now;
            heap_push(&n->parent->ready, &n->place);
        } else {
            heap_remove(&n->parent->ready, &n->place);
        }
    }
}

static void fair_charge_flow(struct fair_node *flow, int64_t cost_ns)
{
    for (struct fair_node *n = flow; n->parent; n = n->parent) {
        if (n->start < n->parent->now)
            n->start = n->parent->now;
        n->start += (uint64_t)cost_ns * SCALE / n->share;
        if (heap_linked(&n->place))
            heap_update(&n->parent->ready, &n->place);
    }
}

// fair_take_item counts a seat on all levels.
static void fair_take_item(struct fair_node *flow, struct fair_item *item)
{
    item->flow = flow;
    item->seated = true;
    for (struct fair_node *n = flow; n; n = n->parent)
        n->seats++;
}

void fair_run(struct fair_node *flow, struct fair_item *item)
{
    fair_take_item(flow, item);
    for (struct fair_node *n = flow; n->parent; n = n->parent)
        fair_settle_clock(n);
}

bool fair_wait(struct fair_node *flow, struct fair_item *item)
{
    assert(flow);
    for (const struct fair_node *n = flow; n; n = n->parent)
        if (n->waiting_most && n->waiting >= n->waiting_most)
            return false;
    item->flow = flow;
    list_push_back(&flow->items, &item->node);
    for (struct fair_node *n = flow; n; n = n->parent)
        n->waiting++;
    fair_settle_clock(flow);
    return true;
}

static void waits_no_more(struct fair_node *flow)
{
    for (struct fair_node *n = flow; n; n = n->parent)
        n->waiting--;
}

struct fair_item *fair_next(struct fair *f)
{
    struct fair_node *n = &f->root;
    if (!has_seat(n))
        return NULL;
    while (n->ready.n) {
        struct fair_node *first = heap_entry(heap_peek(&n->ready), struct fair_node, place);
        n->now = first->start;
        n = first;
    }
    struct list_node *node = list_pop_front(&n->items);
    if (!node)
        return NULL; // no request waits
    struct fair_item *item = list_entry(node, struct fair_item, node);
    waits_no_more(n);
    fair_run(n, item);
    return item;
}

void fair_charge(struct fair_item *item, int64_t cost_ns)
{
    if (!item->flow || cost_ns <= 0)
        return;
    item->cost_ns += cost_ns;
    fair_charge_flow(item->flow, cost_ns);
}

void fair_leave(struct fair_item *item)
{
    struct fair_node *flow = item->flow;
    if (!flow)
        return;
    if (item->seated) {
        for (struct fair_node *n = flow; n; n = n->parent)
            n->seats--;
    } else {
        list_remove(&item->node);
        waits_no_more(flow);
    }
    *item = (struct fair_item){0};
    for (struct fair_node *n = flow; n->parent; n = n->parent)
        fair_settle_clock(n);
}

// SPDX-License-Identifier: Apache-2.0
//
// Ordered sets of nodes as heaps, in which each member knows its place, and a walk over several of
// them in order: the index keeps the nodes of a cell in one.
#include "alloc/model/crowd.h"

#include "base/banned.h"

// --- Members -------------------------------------------------------------------------------------

static void crowd_put_at(struct crowd *c, uint32_t *at, size_t place, struct crowd_member m)
{
    c->p[place] = m;
    at[m.node] = (uint32_t)place;
}

static void crowd_sift_up(struct crowd *c, uint32_t *at, size_t place, struct crowd_member m)
{
    while (place && m.order < c->p[(place - 1) / 2].order) {
        crowd_put_at(c, at, place, c->p[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    crowd_put_at(c, at, place, m);
}

static void crowd_sift_down(struct crowd *c, uint32_t *at, size_t place, struct crowd_member m)
{
    for (size_t child; (child = 2 * place + 1) < c->n; place = child) {
        if (child + 1 < c->n && c->p[child + 1].order < c->p[child].order)
            child++;
        if (m.order < c->p[child].order)
            break;
        crowd_put_at(c, at, place, c->p[child]);
    }
    crowd_put_at(c, at, place, m);
}

void crowd_add(struct crowd *c, uint32_t *at, struct crowd_member m)
{
    vec_reserve(c, c->n + 1);
    c->n++;
    crowd_sift_up(c, at, c->n - 1, m);
}

void crowd_remove(struct crowd *c, uint32_t *at, uint32_t node)
{
    size_t place = at[node];
    assert(place < c->n && c->p[place].node == node);
    struct crowd_member last = vec_pop(c);
    if (last.node == node)
        return;
    if (place && last.order < c->p[(place - 1) / 2].order)
        crowd_sift_up(c, at, place, last);
    else
        crowd_sift_down(c, at, place, last);
}

// --- Walks ---------------------------------------------------------------------------------------

static bool crowd_is_before(const struct crowd_cursor *a, const struct crowd_cursor *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->order < b->order;
}

static void crowd_walk_push(struct crowd_walk *w, struct crowd_cursor x)
{
    vec_push(w, x);
    size_t at = w->n - 1;
    for (; at && crowd_is_before(&x, &w->p[(at - 1) / 2]); at = (at - 1) / 2)
        w->p[at] = w->p[(at - 1) / 2];
    w->p[at] = x;
}

void crowd_walk_add(struct crowd_walk *w, const struct crowd *c, uint64_t rank, uint32_t number)
{
    crowd_walk_push(w, (struct crowd_cursor){rank, c->p[0].order, number, 0});
}

bool crowd_walk_next(struct crowd_walk *w, struct crowd_cursor *ret)
{
    if (!w->n)
        return false;
    *ret = w->p[0];
    struct crowd_cursor x = vec_pop(w);
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < w->n; at = child) {
        if (child + 1 < w->n && crowd_is_before(&w->p[child + 1], &w->p[child]))
            child++;
        if (!crowd_is_before(&w->p[child], &x))
            break;
        w->p[at] = w->p[child];
    }
    if (w->n)
        w->p[at] = x;
    return true;
}

void crowd_walk_on(struct crowd_walk *w, const struct crowd *c, const struct crowd_cursor *at)
{
    for (size_t place = 2 * (size_t)at->place + 1; place <= 2 * (size_t)at->place + 2; place++)
        if (place < c->n)
            crowd_walk_push(w, (struct crowd_cursor){at->rank, c->p[place].order, at->crowd,
                                                     (uint32_t)place});
}

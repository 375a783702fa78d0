// SPDX-License-Identifier: Apache-2.0
//
// Which nodes to ask for devices, and which not: sets of nodes by free devices, and for each shape of
// question the set of nodes that may have an answer.
#include "sched/devices_int.h"

#include "base/banned.h"

static void grow(struct devices *d, size_t words)
{
    if (words <= d->words)
        return;
    if (words < 2 * d->words)
        words = 2 * d->words;
    size_t old = d->words;
    for (size_t b = 0; b < BUCKETS; b++) {
        d->buckets[b] = xreallocarray(d->buckets[b], words, sizeof(uint64_t));
        memset(d->buckets[b] + old, 0, (words - old) * sizeof(uint64_t));
    }
    for (size_t i = 0; i < d->shapes_len; i++) {
        d->shapes[i].maybe = xreallocarray(d->shapes[i].maybe, words, sizeof(uint64_t));
        memset(d->shapes[i].maybe + old, 0xff, (words - old) * sizeof(uint64_t));
    }
    d->words = words;
}

static bool result_holds(const struct dev_user *u, const struct dev_pool *p, struct str device)
{
    const struct api_device_request_allocation_result_array *rs = &u->allocation->devices.results;
    for (size_t i = 0; i < rs->n; i++)
        if (str_eq(rs->p[i].device, device) && str_eq(rs->p[i].driver, p->driver) &&
            str_eq(rs->p[i].pool, p->name) && !(rs->p[i].has_admin_access && rs->p[i].admin_access))
            return true;
    return false;
}

static size_t pool_free_count(const struct dev_pool *p)
{
    size_t taken = 0;
    if (!p->users.n)
        return p->devices;
    for (size_t i = 0; i < p->slices.n; i++) {
        const struct api_resource_slice *s = p->slices.p[i]->object.value;
        for (size_t k = 0; k < s->spec.devices.n; k++)
            for (size_t u = 0; u < p->users.n; u++)
                if (result_holds(p->users.p[u], p, s->spec.devices.p[k].name)) {
                    taken++;
                    break;
                }
    }
    return p->devices - taken;
}

void devices_count(const struct devices *d, uint32_t node, size_t *ret_free, size_t *ret_all)
{
    const struct pool_vec *v = map_get(&d->local, d->nodes.p[node]->name);
    *ret_free = *ret_all = 0;
    for (size_t i = 0; v && i < v->n; i++) {
        *ret_free += pool_free_count(v->p[i]);
        *ret_all += v->p[i]->devices;
    }
}

static int bucket_of(const struct devices *d, const struct dev_node *n)
{
    const struct pool_vec *v = map_get(&d->local, n->name);
    bool asked = n->own.base || n->view; // only then it is known what it sees
    if (d->shared_pools && (!asked || n->sees_shared))
        return BUCKET_UNKNOWN;
    for (size_t i = 0; v && i < v->n; i++)
        if (v->p[i]->shareable)
            return BUCKET_UNKNOWN;
    size_t have = 0;
    size_t all = 0;
    devices_count(d, n->index, &have, &all);
    return have < BUCKET_UNKNOWN ? (int)have : BUCKET_UNKNOWN - 1;
}

void candidates_settle(struct devices *d, struct dev_node *n)
{
    size_t word = n->index / 64;
    uint64_t bit = UINT64_C(1) << (n->index % 64);
    grow(d, word + 1);
    for (size_t b = 0; b < BUCKETS; b++)
        d->buckets[b][word] &= ~bit;
    n->bucket = bucket_of(d, n);
    d->buckets[n->bucket][word] |= bit;
}

static void touched(struct devices *d, uint32_t index)
{
    if (d->touched.n <= d->nodes.n)
        vec_push(&d->touched, index);
}

struct index_vec *devices_touched(struct devices *d)
{
    return &d->touched;
}

void candidates_touch(struct devices *d, struct dev_node *n)
{
    touched(d, n->index);
    candidates_settle(d, n);
    for (size_t i = 0; i < d->shapes_len; i++)
        d->shapes[i].maybe[n->index / 64] |= UINT64_C(1) << (n->index % 64);
    if (n->index < d->warm)
        d->warm = n->index;
}

void candidates_gone(struct devices *d, uint32_t index)
{
    touched(d, index);
    grow(d, index / 64 + 1);
    for (size_t b = 0; b < BUCKETS; b++)
        d->buckets[b][index / 64] &= ~(UINT64_C(1) << (index % 64));
}

void candidates_done(struct devices *d)
{
    vec_done(&d->touched);
    for (size_t b = 0; b < BUCKETS; b++)
        free(d->buckets[b]);
    for (size_t i = 0; i < d->shapes_len; i++)
        free(d->shapes[i].maybe);
}

struct dev_shape *devices_shape(struct devices *d, uint64_t hash)
{
    struct dev_shape *oldest = &d->shapes[0];
    d->clock++;
    for (size_t i = 0; i < d->shapes_len; i++) {
        if (d->shapes[i].hash == hash) {
            d->shapes[i].used = d->clock;
            return &d->shapes[i];
        }
        if (d->shapes[i].used < oldest->used)
            oldest = &d->shapes[i];
    }
    if (d->shapes_len < SHAPES_MAX)
        oldest = &d->shapes[d->shapes_len++];
    oldest->maybe = xreallocarray(oldest->maybe, d->words + 1, sizeof(uint64_t));
    memset(oldest->maybe, 0xff, d->words * sizeof(uint64_t));
    oldest->hash = hash;
    oldest->used = d->clock;
    return oldest;
}

void devices_rule_out(struct dev_shape *shape, uint32_t node)
{
    shape->maybe[node / 64] &= ~(UINT64_C(1) << (node % 64));
}

// --- Walking -------------------------------------------------------------------------------------

static int first_bucket(const struct dev_walk *w)
{
    return w->need < BUCKET_UNKNOWN ? (int)w->need : BUCKET_UNKNOWN - 1;
}

static void load(const struct devices *d, struct dev_walk *w)
{
    w->bits = w->word < d->words ? d->buckets[w->bucket][w->word] & w->shape->maybe[w->word] : 0;
}

void devices_walk_start(struct devices *d, struct dev_walk *w, struct dev_shape *shape, size_t need)
{
    *w = (struct dev_walk){.shape = shape, .need = need};
    w->bucket = d->policy == ALLOC_SPREAD ? BUCKETS - 1 : first_bucket(w);
    if (d->words)
        load(d, w);
}

// The next bucket that may do; false: there is none.
static bool next_bucket(const struct devices *d, struct dev_walk *w)
{
    w->word = 0;
    if (d->policy == ALLOC_SPREAD)
        return --w->bucket >= first_bucket(w);
    return ++w->bucket < BUCKETS;
}

bool devices_walk_next(struct devices *d, struct dev_walk *w, uint32_t *ret_node)
{
    if (!d->words)
        return false;
    while (!w->bits) {
        if (++w->word >= d->words && !next_bucket(d, w))
            return false;
        load(d, w);
    }
    *ret_node = (uint32_t)(w->word * 64 + (size_t)__builtin_ctzll(w->bits));
    w->bits &= w->bits - 1;
    return true;
}

// SPDX-License-Identifier: Apache-2.0
//
// The order in which candidates are tried under the policies pack and spread. The first solution
// still wins, so the order is the preference; what is tried does not change, only when.
//
// pack, most important first: pools without binding conditions; shared devices that have shares
// already (spread: fewest shares first); partitions of counter sets that are already broken into;
// groups of devices (same PCIe root or NUMA node) with the fewest free members; the smallest
// capacity; the least drawn from counters; as published. spread turns group and set around.
#include "alloc/alloc_int.h"

#include "base/banned.h"

struct rank {
    bool binding;
    uint32_t group; // fewer comes first
    amount size;
    amount draw;
    uint32_t device;
};

static const struct attr_value *attribute(const struct cl_device *d, const char *name)
{
    for (size_t i = 0; i < d->api->attributes.n; i++)
        if (str_eqz(d->api->attributes.p[i].key, name))
            return &d->attrs[i];
    return NULL;
}

// The number of the value that tells a device's neighbourhood; 0 when there is none.
static uint32_t neighbourhood(const struct cl_device *d)
{
    static const char *const names[] = {"resource.kubernetes.io/pcieRoot",
                                        "resource.kubernetes.io/numaNode"};
    for (size_t i = 0; i < array_len(names); i++) {
        const struct attr_value *v = attribute(d, names[i]);
        if (v && v->n)
            return v->ids[0];
    }
    return 0;
}

// Something of the device's first counter set is taken, before or in this attempt.
static bool broken_into(const struct alloc_solver *s, const struct vw_device *d)
{
    const struct alloc_view *v = s->view;
    for (uint32_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *o = &v->devices[i];
        bool taken = o->exclusive_use || o->shared_use || s->marks[i] || s->shares[i];
        if (taken && o->groups_len && d->groups_len &&
            v->group_uses[o->first_group].set == v->group_uses[d->first_group].set)
            return true;
    }
    return false;
}

static uint32_t free_neighbours(const struct alloc_solver *s, uint32_t device, uint32_t place)
{
    const struct alloc_view *v = s->view;
    uint32_t n = 0;
    for (uint32_t i = 0; place && i < v->devices_len; i++)
        n += v->devices[i].pool == v->devices[device].pool && !v->devices[i].exclusive_use &&
             !s->marks[i] && neighbourhood(v->devices[i].cl) == place;
    return n;
}

static amount room_of(const struct alloc_solver *s, const struct vw_device *d)
{
    amount sum = 0;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        const struct vw_cap *c = &s->view->caps[d->first_cap + i];
        sum += c->value - c->used - s->taken[d->first_cap + i];
    }
    return sum;
}

static void rank_device(const struct alloc_solver *s, uint32_t device, struct rank *r)
{
    const struct alloc_view *v = s->view;
    const struct vw_device *d = &v->devices[device];
    bool spread = s->options.policy == ALLOC_SPREAD;
    uint32_t crowd = free_neighbours(s, device, neighbourhood(d->cl));
    *r = (struct rank){.binding = v->pools[d->pool].binding, .device = device};
    r->size = room_of(s, d);
    for (uint16_t i = 0; i < d->counters_len; i++)
        r->draw += v->counter_uses[d->first_counter + i].value;
    bool begun = d->groups_len ? broken_into(s, d) : d->shared_use || s->shares[device];
    r->group = crowd + (begun ? 0 : 1U << 20);
    if (spread) {
        r->group = (begun ? 1U << 21 : 1U << 20) - crowd;
        r->size = -r->size;
    }
}

static int rank_cmp(const void *x, const void *y)
{
    const struct rank *a = x;
    const struct rank *b = y;
    if (a->binding != b->binding)
        return a->binding ? 1 : -1;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    if (a->draw != b->draw)
        return a->draw < b->draw ? -1 : 1;
    return a->device < b->device ? -1 : 1;
}

void order_prepare(struct alloc_solver *s, uint32_t request, const struct alternative *a)
{
    size_t n = s->view->devices_len;
    (void)a;
    if (!s->orders[request])
        s->orders[request] = arena_array(&s->arena, uint32_t, n + 1);
    struct arena_mark m = arena_mark(&s->arena);
    struct rank *ranks = arena_array(&s->arena, struct rank, n + 1);
    for (uint32_t i = 0; i < n; i++)
        rank_device(s, i, &ranks[i]);
    qsort(ranks, n, sizeof(*ranks), rank_cmp);
    for (size_t i = 0; i < n; i++)
        s->orders[request][i] = ranks[i].device;
    arena_rewind(&s->arena, m);
}

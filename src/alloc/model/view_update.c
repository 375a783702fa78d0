// SPDX-License-Identifier: Apache-2.0
//
// A view brought up to date in place. What slices say stays: pools, devices, who draws on which
// counter. What is in use is taken over from the new snapshot, and only counter sets in which
// something changed are looked at again. The result is what alloc_view_new would make.
#include "alloc/search/search_int.h"

#include "base/banned.h"

void view_update_join_group(struct group_state *g, uint64_t mask)
{
    if (!g->members) {
        *g = (struct group_state){mask, true, mask == 0};
    } else if (!g->all_empty && mask) {
        g->mask &= mask;
    }
}

uint32_t view_update_lost(const struct alloc_cluster *c, struct str driver, struct str pool)
{
    if (map_len(&c->pools.lost) == 0)
        return 0;
    struct arena a = {0};
    const int64_t *lost = map_get(&c->pools.lost, cluster_pool_key(&a, driver, pool));
    bool any = lost && *lost > 0;
    arena_done(&a);
    return any;
}

// Every set that a device draws on. One that draws on several ties them together.
static void mark_sets(const struct alloc_view *v, const struct vw_device *d, bool *changed)
{
    for (uint16_t i = 0; i < d->groups_len; i++)
        changed[v->group_uses[d->first_group + i].set] = true;
}

static void renew_capacities(struct alloc_view *v, struct vw_device *d)
{
    d->default_fits = true;
    for (uint32_t i = 0; i < d->caps_len; i++) {
        struct vw_cap *c = &v->caps[d->first_cap + i];
        c->used = d->cl->used[i];
        d->default_fits &= c->used + c->default_need <= c->value;
    }
}

// Takes over what is in use. changed: counter sets that this concerns.
static void renew_devices(struct alloc_view *v, bool *changed)
{
    bool tied = false;
    bool any = false;
    for (size_t i = 0; i < v->devices_len; i++) {
        struct vw_device *d = &v->devices[i];
        const struct cl_device *cl = &v->cluster->devices[d->cl_index];
        bool same = cl->exclusive_use == d->exclusive_use && cl->shared_use == d->shared_use;
        d->cl = cl;
        d->exclusive_use = cl->exclusive_use;
        d->shared_use = cl->shared_use;
        renew_capacities(v, d);
        tied |= d->groups_len > 1;
        any |= !same;
        if (!same)
            mark_sets(v, d, changed);
    }
    for (size_t i = 0; tied && any && i < v->sets_len; i++)
        changed[i] = true;
}

static void charge_again(struct alloc_view *v)
{
    memcpy(v->counters.available, v->counters.totals,
           v->counters.n * sizeof(*v->counters.available));
    memset(v->groups, 0, v->sets_len * sizeof(*v->groups));
    for (size_t i = 0; i < v->devices_len; i++) {
        const struct vw_device *d = &v->devices[i];
        if (!d->exclusive_use && !d->shared_use)
            continue;
        for (uint16_t k = 0; k < d->counters_len; k++) {
            const struct counter_use *u = &v->counter_uses[d->first_counter + k];
            v->counters.available[u->counter] -= u->value;
        }
        for (uint16_t k = 0; k < d->groups_len; k++) {
            const struct group_use *u = &v->group_uses[d->first_group + k];
            view_update_join_group(&v->groups[u->set], u->mask);
        }
    }
    for (size_t i = 0; i < v->pools_len; i++)
        v->pools[i].overdrawn = view_update_lost(v->cluster, v->pools[i].driver, v->pools[i].name);
    for (size_t i = 0; i < v->counters.n; i++)
        v->pools[v->counters.pool[i]].overdrawn += v->counters.available[i] < 0;
}

bool alloc_view_update(struct alloc_view *v, const struct alloc_cluster *c)
{
    if (v->elsewhere || v->cluster->slices != c->slices ||
        v->cluster->devices_len != c->devices_len)
        return false;
    v->cluster = c;
    struct arena_mark m = arena_mark(&v->arena);
    bool *changed = arena_array(&v->arena, bool, v->sets_len + 1);
    renew_devices(v, changed);
    charge_again(v);
    rank_again(v, changed);
    arena_rewind(&v->arena, m);
    return true;
}

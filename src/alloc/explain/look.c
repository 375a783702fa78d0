// SPDX-License-Identifier: Apache-2.0
//
// What a snapshot knows of its devices, for those who show them.
#include "alloc/explain/explain_int.h"

#include "base/banned.h"

size_t alloc_cluster_devices(const struct alloc_cluster *c)
{
    return c->devices_len;
}

struct alloc_seen alloc_cluster_device(const struct alloc_cluster *c, size_t device)
{
    assert(device < c->devices_len);
    const struct cl_device *d = &c->devices[device];
    return (struct alloc_seen){.device = d->api,
                               .slice = d->slice,
                               .taints = d->taints,
                               .exclusive_use = d->exclusive_use,
                               .shared_use = d->shared_use,
                               .shared = d->shared};
}

enum alloc_selects alloc_cluster_selects(const struct alloc_cluster *c, struct str class_name,
                                         size_t device)
{
    const uint32_t *at = map_get(&c->class_names, class_name);
    uint8_t match = at ? c->classes[*at].match[device] : MATCH_NO;
    return match == MATCH_YES     ? ALLOC_SELECTS_YES
           : match == MATCH_ERROR ? ALLOC_SELECTS_ERROR
                                  : ALLOC_SELECTS_NO;
}

size_t alloc_view_pools(const struct alloc_view *v)
{
    return v->pools_len;
}

struct alloc_pool_seen alloc_view_pool(const struct alloc_view *v, size_t pool)
{
    assert(pool < v->pools_len);
    const struct vw_pool *p = &v->pools[pool];
    return (struct alloc_pool_seen){.driver = p->driver,
                                    .name = p->name,
                                    .incomplete = p->incomplete,
                                    .invalid = p->invalid,
                                    .reason = p->invalid_reason};
}

struct str explain_missing_feature(const struct alloc_view *v, const struct vw_device *d)
{
    const struct alloc_features *f = &v->cluster->features;
    if (!f->binding_conditions && d->cl->api->binding_conditions.n)
        return STR("binding conditions");
    if (!f->partitionable_devices && d->cl->api->consumes_counters.n)
        return STR("counters");
    return STR("skipped node operations");
}

struct alloc_room alloc_view_room(const struct alloc_view *v, size_t device)
{
    assert(device < v->devices_len);
    const struct vw_device *d = &v->devices[device];
    struct draft_reason why = {0};
    struct alloc_room r = {.device = d->cl_index,
                           .here = d->node == NODE_YES,
                           .supported = !d->unsupported && !d->refused,
                           .full = d->shared_use && !d->default_fits};
    if (!d->exclusive_use && explain_counters_short(v, d, &why))
        r.lacks = why.what;
    return r;
}

struct str alloc_view_left(const struct alloc_view *v, size_t device, size_t capacity,
                           struct arena *arena)
{
    assert(device < v->devices_len && capacity < v->devices[device].caps_len);
    const struct vw_device *d = &v->devices[device];
    const struct vw_cap *c = &v->caps[d->first_cap + capacity];
    amount left = d->exclusive_use || c->used > c->value ? 0 : c->value - c->used;
    return explain_amount_text(arena, left, &c->api->value.value);
}

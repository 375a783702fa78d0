// SPDX-License-Identifier: Apache-2.0
//
// Small clusters: what one node sees, with other uses. Trying a change or placing one pod after the
// other then costs the node's own devices, not the whole cluster's.
#include "alloc/model/view_int.h"

#include "base/banned.h"

struct slices_of VEC(const struct api_resource_slice *);

static void pool_slices(const struct alloc_view *v, struct arena *arena, struct slices_of *out)
{
    const struct alloc_cluster *c = v->cluster;
    for (size_t p = 0; p < v->pools_len; p++) {
        const struct u32_vec *all =
            map_get(&c->by_pool, cluster_pool_key(arena, v->pools[p].driver, v->pools[p].name));
        for (size_t i = 0; all && i < all->n; i++)
            vec_push_arena(arena, out, c->slices[all->p[i]].api);
    }
}

int alloc_view_renew(const struct alloc_view *v, const struct api_resource_claim *const *claims,
                     size_t claims_len, struct alloc_cluster **ret_cluster,
                     struct alloc_view **ret_view, struct err *err)
{
    const struct alloc_cluster *c = v->cluster;
    struct arena tmp = {0};
    struct slices_of slices = {0};
    const struct api_device_class **classes =
        arena_array(&tmp, const struct api_device_class *, c->classes_len + 1);
    pool_slices(v, &tmp, &slices);
    for (size_t i = 0; i < c->classes_len; i++)
        classes[i] = c->classes[i].api;
    struct alloc_input in = {.features = c->features,
                             .slices = slices.p,
                             .slices_len = slices.n,
                             .classes = classes,
                             .classes_len = c->classes_len,
                             .taint_rules = c->taint_rules,
                             .taint_rules_len = c->taint_rules_len,
                             .claims = claims,
                             .claims_len = claims_len};
    struct alloc_cluster *small = NULL;
    int r = alloc_cluster_new(&in, &small, err);
    if (r == 0) {
        r = alloc_view_new(small, v->node, ret_view, err);
        if (r < 0)
            alloc_cluster_free(small);
        else
            *ret_cluster = small;
    }
    arena_done(&tmp);
    return r;
}

bool alloc_view_has_pool(const struct alloc_view *v, struct str driver, struct str pool)
{
    for (size_t i = 0; i < v->pools_len; i++)
        if (str_eq(v->pools[i].name, pool) && str_eq(v->pools[i].driver, driver))
            return true;
    return false;
}

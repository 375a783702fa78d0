// SPDX-License-Identifier: Apache-2.0
//
// The records of who holds which device of a plugin: adding, finding and dropping grants. Pure
// data, without I/O; device_checkpoint.c is its form on disk.
#include "node/devplug/device_ledger.h"

#include "base/mem.h"

#include "base/banned.h"

struct device_grant *device_ledger_add(struct device_ledger *l, struct str pod_uid,
                                       struct str container, struct str resource)
{
    struct device_grant *g = xcalloc(1, sizeof(*g));
    g->pod_uid = arena_str(&g->arena, pod_uid);
    g->container = arena_str(&g->arena, container);
    g->resource = arena_str(&g->arena, resource);
    vec_push(&l->grants, g);
    return g;
}

void device_grant_add(struct device_grant *g, int64_t node, struct str id)
{
    vec_push_arena(&g->arena, &g->devices, ((struct device_place){node, arena_str(&g->arena, id)}));
}

bool device_grant_has(const struct device_grant *g, struct str id)
{
    vec_foreach(&g->devices, d)
        if (str_eq(d->id, id))
            return true;
    return false;
}

size_t device_grant_len(const struct device_grant *g)
{
    struct device_set seen = {0};
    vec_foreach(&g->devices, d)
        *map_put(&seen, d->id) = true;
    size_t n = map_len(&seen);
    map_done(&seen);
    return n;
}

struct device_grant *device_ledger_find(const struct device_ledger *l, struct str pod_uid,
                                        struct str container, struct str resource)
{
    vec_foreach(&l->grants, g)
        if (str_eq((*g)->pod_uid, pod_uid) && str_eq((*g)->container, container) &&
            str_eq((*g)->resource, resource))
            return *g;
    return NULL;
}

bool device_ledger_has_pod(const struct device_ledger *l, struct str pod_uid)
{
    vec_foreach(&l->grants, g)
        if (str_eq((*g)->pod_uid, pod_uid))
            return true;
    return false;
}

bool device_ledger_has_resource(const struct device_ledger *l, struct str resource)
{
    vec_foreach(&l->grants, g)
        if (str_eq((*g)->resource, resource))
            return true;
    return false;
}

void device_ledger_held(const struct device_ledger *l, struct str resource, struct device_set *out)
{
    vec_foreach(&l->grants, g) {
        if (!str_eq((*g)->resource, resource))
            continue;
        vec_foreach(&(*g)->devices, d)
            *map_put(out, d->id) = true;
    }
}

static void device_ledger_free_grant(struct device_grant *g)
{
    arena_done(&g->arena);
    free(g);
}

size_t device_ledger_drop(struct device_ledger *l,
                          bool (*fn)(void *arg, const struct device_grant *g), void *arg)
{
    size_t kept = 0, before = l->grants.n;
    vec_foreach(&l->grants, g) {
        if (fn(arg, *g))
            device_ledger_free_grant(*g);
        else
            l->grants.p[kept++] = *g;
    }
    l->grants.n = kept;
    return before - kept;
}

void device_ledger_done(struct device_ledger *l)
{
    vec_foreach(&l->grants, g)
        device_ledger_free_grant(*g);
    vec_done(&l->grants);
}

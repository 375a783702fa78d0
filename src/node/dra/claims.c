// SPDX-License-Identifier: Apache-2.0
//
// The claims of a node in memory, by namespace and name: built from the API or the checkpoint, with
// the pods that use them and what each driver prepared.
#include "node/dra/claims.h"

#include <assert.h>
#include <stdlib.h>

#include "base/banned.h"

// --- One claim -----------------------------------------------------------------------------------

struct node_claim *node_claim_new(struct str namespace, struct str name, struct str uid)
{
    struct node_claim *c = xcalloc(1, sizeof(*c));
    c->key = arena_strf(&c->arena, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    c->namespace = str_upto(c->key, namespace.n);
    c->name = str_from(c->key, namespace.n + 1);
    c->uid = arena_str(&c->arena, uid);
    return c;
}

void node_claim_free(struct node_claim *claim)
{
    if (!claim)
        return;
    vec_foreach(&claim->pods, uid)
        free(*uid);
    vec_done(&claim->pods);
    vec_foreach(&claim->drivers, d)
        arena_done(&d->arena);
    vec_done(&claim->drivers);
    arena_done(&claim->arena);
    free(claim);
}

struct node_claim_driver *node_claim_driver_find(const struct node_claim *claim, struct str name)
{
    vec_foreach(&claim->drivers, d)
        if (str_eq(d->name, name))
            return d;
    return NULL;
}

struct node_claim_driver *node_claim_driver_add(struct node_claim *claim, struct str name)
{
    struct node_claim_driver *found = node_claim_driver_find(claim, name);
    if (found)
        return found;
    size_t at = 0;
    while (at < claim->drivers.n && str_cmp(claim->drivers.p[at].name, name) < 0)
        at++;
    vec_push(&claim->drivers, (struct node_claim_driver){0});
    struct node_claim_driver *p = claim->drivers.p;
    memmove(&p[at + 1], &p[at], (claim->drivers.n - 1 - at) * sizeof(*p));
    p[at] = (struct node_claim_driver){.name = arena_str(&claim->arena, name)};
    return &p[at];
}

bool node_claim_driver_remove(struct node_claim *claim, struct str name)
{
    struct node_claim_driver *d = node_claim_driver_find(claim, name);
    if (!d)
        return false;
    arena_done(&d->arena);
    size_t at = (size_t)(d - claim->drivers.p);
    memmove(d, d + 1, (claim->drivers.n - 1 - at) * sizeof(*d));
    claim->drivers.n--;
    return true;
}

bool node_claim_driver_skips(const struct node_claim_driver *d, const char *operation)
{
    vec_foreach(&d->skips, s)
        if (str_eqz(*s, CLAIM_SKIP_ALL) || str_eqz(*s, operation))
            return true;
    return false;
}

static void node_claim_copy_texts(struct arena *a, const struct plugin_strs *from,
                                  struct plugin_strs *to)
{
    *to = (struct plugin_strs){0};
    vec_foreach(from, s)
        vec_push_arena(a, to, arena_str(a, *s));
}

void node_claim_driver_set(struct node_claim_driver *d, const struct plugin_device *devices,
                           size_t n)
{
    struct arena fresh = {0};
    struct node_claim_devices all = {0};
    for (size_t i = 0; i < n; i++) {
        const struct plugin_device *from = &devices[i];
        struct plugin_device to = {
            .pool_name = arena_str(&fresh, from->pool_name),
            .device_name = arena_str(&fresh, from->device_name),
            .share_id = arena_str(&fresh, from->share_id),
            .has_share_id = from->has_share_id,
        };
        node_claim_copy_texts(&fresh, &from->request_names, &to.request_names);
        node_claim_copy_texts(&fresh, &from->cdi_device_ids, &to.cdi_device_ids);
        vec_push_arena(&fresh, &all, to);
    }
    arena_done(&d->arena);
    d->arena = fresh;
    d->devices = all;
}

static size_t node_claim_pod_index(const struct node_claim *claim, struct str uid, bool *ret_found)
{
    size_t at = 0;
    int order = 1;
    while (at < claim->pods.n && (order = str_cmp(str_z(claim->pods.p[at]), uid)) < 0)
        at++;
    *ret_found = at < claim->pods.n && order == 0;
    return at;
}

bool node_claim_pod_has(const struct node_claim *claim, struct str uid)
{
    bool found;
    (void)node_claim_pod_index(claim, uid, &found);
    return found;
}

bool node_claim_pod_add(struct node_claim *claim, struct str uid)
{
    bool found;
    size_t at = node_claim_pod_index(claim, uid, &found);
    if (found)
        return false;
    vec_push(&claim->pods, NULL);
    char **p = claim->pods.p;
    memmove(&p[at + 1], &p[at], (claim->pods.n - 1 - at) * sizeof(*p));
    p[at] = xstrndup(uid.p, uid.n);
    return true;
}

bool node_claim_pod_remove(struct node_claim *claim, struct str uid)
{
    bool found;
    size_t at = node_claim_pod_index(claim, uid, &found);
    if (!found)
        return false;
    char **p = claim->pods.p;
    free(p[at]);
    memmove(&p[at], &p[at + 1], (claim->pods.n - 1 - at) * sizeof(*p));
    claim->pods.n--;
    return true;
}

// --- From the API --------------------------------------------------------------------------------

static bool node_claim_result_skips(const struct api_device_request_allocation_result *r,
                                    struct str operation)
{
    for (size_t i = 0; i < r->skip_node_operations.n; i++) {
        struct str op = r->skip_node_operations.p[i];
        if (str_eqz(op, CLAIM_SKIP_ALL) || str_eq(op, operation))
            return true;
    }
    return false;
}

// node_claim_all_skip: every result of a driver skips an operation.
static bool node_claim_all_skip(const struct api_device_request_allocation_result_array *results,
                                struct str driver, struct str operation)
{
    for (size_t i = 0; i < results->n; i++)
        if (str_eq(results->p[i].driver, driver) &&
            !node_claim_result_skips(&results->p[i], operation))
            return false;
    return true;
}

static void node_claim_add_skip(struct node_claim *claim, struct node_claim_driver *d,
                                struct str operation)
{
    size_t at = 0;
    for (; at < d->skips.n; at++) {
        int order = str_cmp(d->skips.p[at], operation);
        if (order == 0)
            return;
        if (order > 0)
            break;
    }
    vec_push_arena(&claim->arena, &d->skips, (struct str){0});
    struct str *p = d->skips.p;
    memmove(&p[at + 1], &p[at], (d->skips.n - 1 - at) * sizeof(*p));
    p[at] = arena_str(&claim->arena, operation);
}

// What all results of a driver skip: everything, or the operations each of them names.
static void node_claim_gather_skips(
    const struct api_device_request_allocation_result_array *results, struct node_claim *claim,
    struct node_claim_driver *d)
{
    if (node_claim_all_skip(results, d->name, STR(CLAIM_SKIP_ALL))) {
        node_claim_add_skip(claim, d, STR(CLAIM_SKIP_ALL));
        return;
    }
    for (size_t i = 0; i < results->n; i++) {
        const struct api_device_request_allocation_result *r = &results->p[i];
        if (!str_eq(r->driver, d->name))
            continue;
        for (size_t j = 0; j < r->skip_node_operations.n; j++) {
            struct str op = r->skip_node_operations.p[j];
            if (!str_eqz(op, CLAIM_SKIP_ALL) && node_claim_all_skip(results, d->name, op))
                node_claim_add_skip(claim, d, op);
        }
    }
}

int node_claim_from_api(const struct api_resource_claim *from, bool skips_allowed,
                        struct node_claim **ret, struct err *err)
{
    if (!from->status.allocation)
        return err_set(err, ERR_INVALID, "not allocated");
    const struct api_device_request_allocation_result_array *results =
        &from->status.allocation->devices.results;
    struct node_claim *c =
        node_claim_new(from->metadata.namespace, from->metadata.name, from->metadata.uid);
    for (size_t i = 0; i < results->n; i++)
        (void)node_claim_driver_add(c, results->p[i].driver);
    bool any = false;
    vec_foreach(&c->drivers, d) {
        node_claim_gather_skips(results, c, d);
        any = any || d->skips.n > 0;
    }
    if (any && !skips_allowed) {
        node_claim_free(c);
        return err_set(err, ERR_INVALID,
                       "DRAOptionalNodeOperations feature gate is disabled on kubelet");
    }
    *ret = c;
    return 0;
}

// --- All claims ----------------------------------------------------------------------------------

void node_claims_done(struct node_claims *c)
{
    map_foreach(&c->by_key, i)
        node_claim_free(*map_value(&c->by_key, i));
    map_done(&c->by_key);
}

struct node_claim *node_claims_find(const struct node_claims *c, struct str namespace,
                                    struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    struct node_claim *const *found = map_get(&c->by_key, sbuf_str(&key));
    return found ? *found : NULL;
}

void node_claims_add(struct node_claims *c, struct node_claim *claim)
{
    bool fresh = false;
    *map_put_new(&c->by_key, claim->key, &fresh) = claim;
    assert(fresh);
}

struct node_claim *node_claims_take(struct node_claims *c, struct node_claim *claim)
{
    bool was = map_del(&c->by_key, claim->key);
    assert(was);
    return claim;
}

bool node_claims_use(const struct node_claims *c, struct str pod_uid)
{
    map_foreach(&c->by_key, i)
        if (node_claim_pod_has(*map_value(&c->by_key, i), pod_uid))
            return true;
    return false;
}

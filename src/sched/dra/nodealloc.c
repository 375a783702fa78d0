// SPDX-License-Identifier: Apache-2.0
//
// Devices that take of the node's own resources: what a pod's allocations cost in cpu, memory and
// huge pages, and whether the node has that much.
#include "api/match/claim.h"
#include "sched/dra/dra_int.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

static const struct api_allocation_result *allocation_of(const struct attempt *a,
                                                         const struct want *w, size_t *open)
{
    if (w->allocated)
        return w->allocation;
    if (w->special && !a->special.used)
        return NULL;
    return *open < a->last.answer.results_len ? &a->last.answer.results[(*open)++] : NULL;
}

struct totals {
    struct arena *arena;
    struct map_totals MAP(struct quantity) mapped;
    struct over_totals MAP(struct api_node_allocatable_overhead_resources) overhead;
};

static void nodealloc_add_quantity(struct arena *arena, struct quantity **sum,
                                   const struct quantity *more)
{
    if (!more)
        return;
    if (!*sum) {
        *sum = arena_one(arena, struct quantity);
        **sum = quantity_copy(more, arena);
        return;
    }
    quantity_add(*sum, *sum, more, arena);
}

// Multipliers are small numbers; products are made in thousandths.
static struct quantity nodealloc_multiply(const struct quantity *q, const struct quantity *factor)
{
    if (!factor)
        return *q;
    __extension__ typedef __int128 wide;
    wide product = (wide)quantity_milli(q) * quantity_milli(factor) / 1000;
    bool whole = product % 1000 == 0;
    if (product > (wide)INT64_MAX * 1000 || product < 0)
        return quantity_from_i64(INT64_MAX, q->format);
    if (whole)
        return quantity_from_i64((int64_t)(product / 1000), q->format);
    struct quantity milli = quantity_from_i64((int64_t)product, QUANTITY_DECIMAL_SI);
    milli.scale = -3;
    return milli;
}

// False: the demand of the device depends on a capacity that the allocation does not record.
static bool nodealloc_add_device(struct totals *t, const struct api_device *d,
                                 const struct api_device_request_allocation_result *r,
                                 bool *ret_mapped)
{
    for (size_t i = 0; i < d->node_allocatable_resources.n; i++) {
        struct str name = d->node_allocatable_resources.p[i].key;
        const struct api_node_allocatable_resource *n = &d->node_allocatable_resources.p[i].value;
        if (n->mapping && n->mapping->has_capacity_key && n->mapping->capacity_key.n) {
            *ret_mapped = true;
            if (!r->consumed_capacity.p)
                return false;
            for (size_t k = 0; k < r->consumed_capacity.n; k++)
                if (str_eq(r->consumed_capacity.p[k].key, n->mapping->capacity_key)) {
                    struct quantity more = nodealloc_multiply(&r->consumed_capacity.p[k].value,
                                                              n->mapping->capacity_multiplier);
                    struct quantity *sum = map_put(&t->mapped, name);
                    quantity_add(sum, sum, &more, t->arena);
                }
        } else if (n->mapping && n->mapping->device_multiplier) {
            *ret_mapped = true;
            struct quantity *sum = map_put(&t->mapped, name);
            quantity_add(sum, sum, n->mapping->device_multiplier, t->arena);
        }
        if (n->overhead) {
            struct api_node_allocatable_overhead_resources *o = map_put(&t->overhead, name);
            o->name = name;
            nodealloc_add_quantity(t->arena, &o->per_pod, n->overhead->per_pod);
            nodealloc_add_quantity(t->arena, &o->per_container, n->overhead->per_container);
        }
    }
    return true;
}

static int by_mapped(const void *a, const void *b)
{
    const struct api_node_allocatable_mapped_resources *x = a;
    const struct api_node_allocatable_mapped_resources *y = b;
    return str_cmp(x->name, y->name);
}

static int by_overhead(const void *a, const void *b)
{
    const struct api_node_allocatable_overhead_resources *x = a;
    const struct api_node_allocatable_overhead_resources *y = b;
    return str_cmp(x->name, y->name);
}

static void nodealloc_write_status(struct totals *t,
                                   struct api_node_allocatable_resource_claim_status *st)
{
    st->mapping.p = arena_array(t->arena, struct api_node_allocatable_mapped_resources,
                                map_len(&t->mapped) + 1);
    st->overhead.p = arena_array(t->arena, struct api_node_allocatable_overhead_resources,
                                 map_len(&t->overhead) + 1);
    map_foreach(&t->mapped, i) {
        struct quantity *q = arena_one(t->arena, struct quantity);
        *q = *map_value(&t->mapped, i);
        st->mapping.p[st->mapping.n++] =
            (struct api_node_allocatable_mapped_resources){map_key(&t->mapped, i), q};
    }
    map_foreach(&t->overhead, i)
        st->overhead.p[st->overhead.n++] = *map_value(&t->overhead, i);
    if (st->mapping.n)
        qsort(st->mapping.p, st->mapping.n, sizeof(*st->mapping.p), by_mapped);
    if (st->overhead.n)
        qsort(st->overhead.p, st->overhead.n, sizeof(*st->overhead.p), by_overhead);
}

static bool nodealloc_container_refers(const struct attempt *a, const struct api_container *c,
                                       const struct want *w)
{
    const struct api_pod *pod = a->api;
    for (size_t i = 0; i < c->resources.claims.n; i++)
        for (size_t k = 0; k < pod->spec.resource_claims.n; k++) {
            struct str name;
            bool check;
            if (str_eq(pod->spec.resource_claims.p[k].name, c->resources.claims.p[i].name) &&
                claim_name_of(pod, &pod->spec.resource_claims.p[k], &name, &check) == CLAIM_NAMED &&
                w->claim && str_eq(name, w->claim->metadata.name))
                return true;
        }
    return false;
}

static void list_containers(const struct attempt *a, const struct want *w, struct arena *arena,
                            struct api_node_allocatable_resource_claim_status *st)
{
    const struct api_container_array *lists[] = {&a->api->spec.init_containers,
                                                 &a->api->spec.containers};
    st->containers.p = arena_array(arena, struct str, lists[0]->n + lists[1]->n + 1);
    for (size_t l = 0; l < 2; l++)
        for (size_t i = 0; !w->special && i < lists[l]->n; i++)
            if (nodealloc_container_refers(a, &lists[l]->p[i], w))
                st->containers.p[st->containers.n++] = lists[l]->p[i].name;
}

static void refuse_demand(struct attempt *a, struct refusals *why, struct str text)
{
    refusal_add(a, why, (struct refusal){.code = REFUSED_DEVICES, .detail = text});
}

// What one claim takes. Returns 1 if anything, 0, or -1 with the reason it cannot be had.
static int claim_demand(struct attempt *a, const struct want *w,
                        const struct api_allocation_result *allocation,
                        struct api_node_allocatable_resource_claim_status *st, struct refusals *why)
{
    struct totals t = {.arena = a->arena};
    bool mapped = false;
    int r = 0;
    for (size_t i = 0; i < allocation->devices.results.n; i++) {
        const struct api_device_request_allocation_result *result =
            &allocation->devices.results.p[i];
        const struct api_device *d = index_find_device(a->s->devices, result);
        if (d && !nodealloc_add_device(&t, d, result, &mapped)) {
            if (why)
                refuse_demand(a, why,
                              arena_strf(a->arena,
                                         "device %.*s: its demand depends on consumed capacity, "
                                         "which is not recorded",
                                         STR_ARG(result->device)));
            r = -1;
        }
    }
    if (r == 0 && mapped && w->claim &&
        (w->pending || (w->claim->status.reserved_for.n &&
                        !claim_is_reserved_for_pod(w->claim, a->api, w->group)))) {
        if (why)
            refuse_demand(a, why,
                          arena_strf(a->arena,
                                     "node allocatable resource claim %.*s has a mapped device and "
                                     "cannot be shared across pods",
                                     STR_ARG(w->claim->metadata.name)));
        r = -1;
    }
    if (r == 0 && (map_len(&t.mapped) || map_len(&t.overhead))) {
        r = 1;
        st->resource_claim_name = w->claim ? w->claim->metadata.name : STR("<extended-resources>");
        list_containers(a, w, a->arena, st);
        nodealloc_write_status(&t, st);
    }
    map_done(&t.mapped);
    map_done(&t.overhead);
    return r;
}

enum why nodealloc_filter(struct attempt *a, struct sched_node *n, struct refusals *why)
{
    size_t open = 0;
    struct api_node_allocatable_resource_claim_status *list =
        arena_array(a->arena, struct api_node_allocatable_resource_claim_status, a->wants_len + 1);
    size_t len = 0;
    for (size_t i = 0; i < a->wants_len; i++) {
        const struct api_allocation_result *allocation = allocation_of(a, &a->wants[i], &open);
        int r = allocation ? claim_demand(a, &a->wants[i], allocation, &list[len], why) : 0;
        if (r < 0)
            return WHY_DEVICES;
        len += (size_t)r;
    }
    if (!len)
        return WHY_NONE;
    // The pod as it will be, with these statuses, must fit.
    const struct api_node_allocatable_resource_claim_status_array devices = {list, len};
    struct sched_pod as = {.api = a->api};
    needs_of_pod(&a->s->cluster, &as, &devices);
    bool fits = filter_fits(a, n, as.needs, as.needs_len, why);
    free(as.needs);
    a->last.statuses = devices;
    return fits ? WHY_NONE : WHY_RESOURCES;
}

// SPDX-License-Identifier: Apache-2.0
//
// How many partitions of each type could still be had, and how full shared devices are.
#include <stdlib.h>

#include "ctl/device/pool_int.h"

#include "base/banned.h"

enum { ERROR_BYTES_MAX = 256 };

static void pool_views_set_error(struct api_pool_status *ret, struct str text)
{
    if (ret->has_validation_error)
        return; // the first one counts
    ret->validation_error = str_upto(text, ERROR_BYTES_MAX);
    ret->has_validation_error = true;
}

// --- Partition types -----------------------------------------------------------------------------

static const struct api_device_attribute *pool_views_find_attribute(const struct api_device *d,
                                                                    struct str name)
{
    for (size_t i = 0; i < d->attributes.n; i++)
        if (str_eq(d->attributes.p[i].key, name))
            return &d->attributes.p[i].value;
    return NULL;
}

// pool_views_device_type finds a device's partition type; names of the driver's own domain may
// stand without it.
static bool pool_views_device_type(const struct pool *p, const struct pool_device *d,
                                   struct str *ret)
{
    const struct api_device_attribute *a = pool_views_find_attribute(d->device, d->type_attribute);
    struct str rest = str_from(d->type_attribute, p->driver.n + 1);
    if (!a && str_starts(d->type_attribute, p->driver) && d->type_attribute.n > p->driver.n &&
        d->type_attribute.p[p->driver.n] == '/')
        a = pool_views_find_attribute(d->device, rest);
    if (!a || !a->has_string_value)
        return false;
    *ret = a->string_value;
    return true;
}

// What is left of each counter, in the order of the pool's sets.
struct left {
    struct quantity *amounts;
    size_t n;
};

static size_t counter_at(const struct pool *p, struct str set, struct str counter)
{
    size_t at = 0;
    for (size_t i = 0; i < p->counters.n; i++) {
        const struct api_counter_set *s = p->counters.p[i];
        for (size_t j = 0; j < s->counters.n; j++, at++)
            if (str_eq(s->name, set) && str_eq(s->counters.p[j].key, counter))
                return at;
    }
    return SIZE_MAX;
}

// pool_views_take_counters subtracts what a device draws; with only_if_fits it does so only if
// there is enough of all.
static bool pool_views_take_counters(const struct pool *p, const struct api_device *d,
                                     struct left *left, bool only_if_fits, struct arena *arena)
{
    for (int pass = only_if_fits ? 0 : 1; pass < 2; pass++) {
        for (size_t i = 0; i < d->consumes_counters.n; i++) {
            const struct api_device_counter_consumption *c = &d->consumes_counters.p[i];
            for (size_t j = 0; j < c->counters.n; j++) {
                size_t at = counter_at(p, c->counter_set, c->counters.p[j].key);
                const struct quantity *cost = &c->counters.p[j].value.value;
                if (pass == 0 && (at == SIZE_MAX || quantity_cmp(&left->amounts[at], cost) < 0))
                    return false;
                if (pass == 1 && at != SIZE_MAX)
                    quantity_sub(&left->amounts[at], &left->amounts[at], cost, arena);
            }
        }
    }
    return true;
}

static struct left all_counters(const struct pool *p, struct arena *arena)
{
    size_t n = 0;
    for (size_t i = 0; i < p->counters.n; i++)
        n += p->counters.p[i]->counters.n;
    struct left left = {arena_array(arena, struct quantity, n), 0};
    for (size_t i = 0; i < p->counters.n; i++)
        for (size_t j = 0; j < p->counters.p[i]->counters.n; j++)
            left.amounts[left.n++] = p->counters.p[i]->counters.p[j].value.value;
    return left;
}

// cost_text is the same for devices that draw the same.
static struct str cost_text(const struct api_device *d, struct arena *arena)
{
    size_t n = 0;
    for (size_t i = 0; i < d->consumes_counters.n; i++)
        n += d->consumes_counters.p[i].counters.n;
    struct str *parts = arena_array(arena, struct str, n);
    size_t at = 0;
    for (size_t i = 0; i < d->consumes_counters.n; i++) {
        const struct api_device_counter_consumption *c = &d->consumes_counters.p[i];
        for (size_t j = 0; j < c->counters.n; j++) {
            struct sbuf amount = {0};
            quantity_write_canonical(&c->counters.p[j].value.value, &amount);
            parts[at++] = arena_strf(arena, "%.*s/%.*s=%.*s", STR_ARG(c->counter_set),
                                     STR_ARG(c->counters.p[j].key), STR_ARG(sbuf_str(&amount)));
            sbuf_done(&amount);
        }
    }
    if (n > 0)
        qsort(parts, n, sizeof(parts[0]), str_cmp_elements);
    struct sbuf all = {0};
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&all, "%.*s,", STR_ARG(parts[i]));
    struct str text = arena_str(arena, sbuf_str(&all));
    sbuf_done(&all);
    return text;
}

struct group {
    struct str attribute;
    struct str type;
    struct str cost;
    int32_t total;
};

struct groups VEC(struct group);

static struct group *pool_views_get_group(struct groups *all, struct str attribute, struct str type)
{
    vec_foreach(all, g) {
        if (str_eq(g->attribute, attribute) && str_eq(g->type, type))
            return g;
    }
    vec_push(all, ((struct group){.attribute = attribute, .type = type}));
    return vec_last(all);
}

static bool is_partition(const struct pool_device *d)
{
    return d->device->consumes_counters.n > 0 && d->type_attribute.n > 0;
}

static bool gather_groups(const struct pool *p, struct groups *groups, struct arena *arena,
                          struct api_pool_status *ret)
{
    for (size_t i = 0; i < p->devices.n; i++) {
        const struct pool_device *d = &p->devices.p[i];
        struct str type;
        if (!is_partition(d))
            continue;
        if (!pool_views_device_type(p, d, &type)) {
            pool_views_set_error(
                ret, arena_strf(arena,
                                "PartitionTypeMissing: device \"%.*s\" in pool %.*s/%.*s does "
                                "not carry partition type attribute \"%.*s\"",
                                STR_ARG(d->device->name), STR_ARG(p->driver), STR_ARG(p->name),
                                STR_ARG(d->type_attribute)));
            return false;
        }
        struct group *g = pool_views_get_group(groups, d->type_attribute, type);
        struct str cost = cost_text(d->device, arena);
        if (g->total++ == 0)
            g->cost = cost;
        else if (!str_eq(g->cost, cost)) {
            pool_views_set_error(
                ret, arena_strf(arena,
                                "PartitionCostMismatch: devices of partition type \"%.*s\" in "
                                "pool %.*s/%.*s consume different counters",
                                STR_ARG(type), STR_ARG(p->driver), STR_ARG(p->name)));
            return false;
        }
    }
    return true;
}

// How many more of a group fit, each group for itself.
static int32_t pool_views_count_allocatable(const struct pool *p, const struct group *g,
                                            const struct left *free, struct arena *arena)
{
    struct left left = {arena_array(arena, struct quantity, free->n), free->n};
    for (size_t i = 0; i < free->n; i++)
        left.amounts[i] = free->amounts[i];
    int32_t n = 0;
    for (size_t i = 0; i < p->devices.n; i++) {
        const struct pool_device *d = &p->devices.p[i];
        struct str type;
        if (d->in_use || !is_partition(d) || !str_eq(d->type_attribute, g->attribute) ||
            !pool_views_device_type(p, d, &type) || !str_eq(type, g->type))
            continue;
        n += pool_views_take_counters(p, d->device, &left, true, arena);
    }
    return n;
}

static int by_group(const void *a, const void *b)
{
    const struct group *x = a;
    const struct group *y = b;
    int order = str_cmp(x->attribute, y->attribute);
    return order != 0 ? order : str_cmp(x->type, y->type);
}

static void pool_views_add_partitions(const struct pool *p, struct arena *arena,
                                      struct api_pool_status *ret)
{
    struct groups groups = {0};
    if (gather_groups(p, &groups, arena, ret) && groups.n > POOL_LIST_MAX)
        pool_views_set_error(
            ret, arena_strf(arena,
                            "PartitionSummaryOverCap: pool %.*s/%.*s has %zu partition types, "
                            "exceeding the maximum of %d",
                            STR_ARG(p->driver), STR_ARG(p->name), groups.n, POOL_LIST_MAX));
    if (ret->has_validation_error || groups.n == 0) {
        vec_done(&groups);
        return;
    }
    qsort(groups.p, groups.n, sizeof(groups.p[0]), by_group);
    struct left free_now = all_counters(p, arena);
    for (size_t i = 0; i < p->devices.n; i++)
        if (p->devices.p[i].in_use)
            (void)pool_views_take_counters(p, p->devices.p[i].device, &free_now, false, arena);
    struct api_partition_type_status *list =
        arena_array(arena, struct api_partition_type_status, groups.n);
    for (size_t i = 0; i < groups.n; i++)
        list[i] = (struct api_partition_type_status){
            .attribute = groups.p[i].attribute,
            .type = groups.p[i].type,
            .total = groups.p[i].total,
            .allocatable = pool_views_count_allocatable(p, &groups.p[i], &free_now, arena),
            .has_total = true,
            .has_allocatable = true,
        };
    ret->partition_summary = (struct api_partition_type_status_array){list, groups.n};
    vec_done(&groups);
}

// --- Sharing -------------------------------------------------------------------------------------

static struct quantity *pool_views_keep_quantity(struct quantity q, struct arena *arena)
{
    struct quantity *kept = arena_one(arena, struct quantity);
    *kept = q;
    return kept;
}

static struct api_shareable_capacity_status capacity_status(const struct pool *p, struct str name,
                                                            struct quantity total,
                                                            struct arena *arena)
{
    const struct quantity *used = map_get(&p->consumed, name);
    struct quantity consumed = used ? *used : quantity_from_i64(0, total.format);
    struct quantity rest;
    quantity_sub(&rest, &total, &consumed, arena);
    if (quantity_sign(&rest) < 0)
        rest = quantity_from_i64(0, total.format);
    return (struct api_shareable_capacity_status){name, pool_views_keep_quantity(total, arena),
                                                  pool_views_keep_quantity(consumed, arena),
                                                  pool_views_keep_quantity(rest, arena)};
}

static void pool_views_add_sharing(const struct pool *p, struct arena *arena,
                                   struct api_pool_status *ret)
{
    struct pool_amounts totals = {0};
    int32_t full = 0;
    int32_t part = 0;
    for (size_t i = 0; i < p->devices.n; i++) {
        const struct api_device *d = p->devices.p[i].device;
        if (!d->has_allow_multiple_allocations || !d->allow_multiple_allocations)
            continue;
        *(p->devices.p[i].in_use ? &part : &full) += 1;
        for (size_t j = 0; j < d->capacity.n; j++) {
            struct quantity *sum = map_put(&totals, d->capacity.p[j].key);
            quantity_add(sum, sum, &d->capacity.p[j].value.value, arena);
        }
    }
    size_t n = map_len(&totals);
    if (n > POOL_LIST_MAX)
        pool_views_set_error(ret,
                             arena_strf(arena,
                                        "ShareableSummaryOverCap: pool %.*s/%.*s has %zu shareable "
                                        "capacity keys, exceeding the maximum of %d",
                                        STR_ARG(p->driver), STR_ARG(p->name), n, POOL_LIST_MAX));
    else if (full + part > 0) {
        struct api_shareable_capacity_status *list =
            arena_array(arena, struct api_shareable_capacity_status, n);
        size_t at = 0;
        map_foreach(&totals, i) {
            const struct quantity *total = map_value(&totals, i);
            if (total)
                list[at++] = capacity_status(p, map_key(&totals, i), *total, arena);
        }
        // name is the first member
        if (n > 0)
            qsort(list, n, sizeof(list[0]), str_cmp_elements);
        struct api_shareable_summary_status *s =
            arena_one(arena, struct api_shareable_summary_status);
        *s = (struct api_shareable_summary_status){
            .fully_available_devices = full,
            .partially_available_devices = part,
            .capacity = {list, n},
            .has_fully_available_devices = true,
            .has_partially_available_devices = true,
        };
        ret->shareable_summary = s;
    }
    map_done(&totals);
}

void pool_views(struct pool *p, const struct api_resource_pool_status_request_spec *request,
                struct arena *arena, struct api_pool_status *ret)
{
    bool declared = false;
    for (size_t i = 0; i < p->devices.n; i++)
        declared = declared || p->devices.p[i].type_attribute.n > 0;
    // The request's attribute is for drivers that declare none at all.
    bool grouped = declared || (request->has_default_partition_type_attribute && p->devices.n > 0);
    for (size_t i = 0; !declared && grouped && i < p->devices.n; i++)
        p->devices.p[i].type_attribute = request->default_partition_type_attribute;
    if (grouped && p->counters.n == 0)
        pool_views_set_error(ret,
                             arena_strf(arena,
                                        "PartitionTypeMissing: pool %.*s/%.*s declares "
                                        "partitionTypeAttribute but publishes no sharedCounters",
                                        STR_ARG(p->driver), STR_ARG(p->name)));
    else if (grouped)
        pool_views_add_partitions(p, arena, ret);
    pool_views_add_sharing(p, arena, ret);
    if (ret->has_validation_error)
        ret->partition_summary = (struct api_partition_type_status_array){0};
}

// SPDX-License-Identifier: Apache-2.0
//
// What one node sees: which slices count, which pools are complete and valid, and their devices in
// the order of the search, with counters, groups and capacities in dense arrays.
#include "alloc/search/search_int.h"
#include "api/match/node.h"
#include "api/match/taint.h"

#include "base/banned.h"

// A pool while it is put together. Slices are indexes into the cluster's.
struct draft {
    struct u32_vec here;               // relevant for the node, of the highest generation
    struct u32_vec others;             // of the pool and generation, but elsewhere
    struct u32_vec counters;           // slices with shared counters, here or elsewhere
    const struct api_counter_set *set; // that was looked up last
    struct str driver;
    struct str name;
    int64_t generation;
    bool obsolete;
    bool incomplete;
    bool binding;
    struct str invalid;
};

struct drafts MAP(struct draft);
struct names MAP(uint32_t);

// A counter set of the pool at work.
struct pool_set {
    const struct api_counter_set *api;
    uint32_t number;
    uint32_t first; // of its counters
};

struct builder {
    struct alloc_view *v;
    const struct alloc_cluster *c;
    struct drafts pools;
    struct draft **sorted;
    struct err *err;
    struct VEC(struct pool_set) sets;
    size_t set;             // that was found last: mostly the next device draws on it, too
    struct names groups;    // "set\0group" of the pool at work → bit
    uint32_t *group_counts; // by counter set of the view
    size_t counter_uses_n, group_uses_n;
};

// --- Which slices count --------------------------------------------------------------------------

static int devices_match(const struct alloc_view *v, const struct api_resource_slice *s,
                         struct err *err)
{
    for (size_t i = 0; i < s->spec.devices.n; i++) {
        const struct api_device *d = &s->spec.devices.p[i];
        int r = node_matches(v->node, d->node_name, d->has_all_nodes && d->all_nodes,
                             d->node_selector, err);
        if (r < 0)
            return err_wrap(err, "failed to perform node selection for device %.*s in slice %.*s",
                            STR_ARG(d->name), STR_ARG(s->metadata.name));
        if (r)
            return 1;
    }
    return 0;
}

static int slice_relevant(const struct alloc_view *v, const struct cl_slice *cs, struct err *err)
{
    const struct alloc_features *f = &v->cluster->features;
    const struct api_resource_slice_spec *spec = &cs->api->spec;
    bool all = spec->has_all_nodes && spec->all_nodes;
    if (!f->partitionable_devices &&
        (spec->has_per_device_node_selection || spec->shared_counters.n))
        return 0;
    if (!f->compatibility_groups && cs->uses_groups)
        return 0;
    if (spec->node_name.n || all || spec->node_selector) {
        int r = node_matches(v->node, spec->node_name, all, spec->node_selector, err);
        return r < 0 ? err_wrap(err, "failed to perform node selection for slice %.*s",
                                STR_ARG(cs->api->metadata.name))
                     : r;
    }
    if (spec->has_per_device_node_selection && spec->per_device_node_selection)
        return devices_match(v, cs->api, err);
    return 0;
}

static int add_slice(struct builder *b, uint32_t index)
{
    const struct api_resource_slice *s = b->c->slices[index].api;
    int r = slice_relevant(b->v, &b->c->slices[index], b->err);
    if (r <= 0)
        return r;
    bool is_new = false;
    struct draft *p = map_put_new(
        &b->pools, cluster_pool_key(&b->v->arena, s->spec.driver, s->spec.pool.name), &is_new);
    if (is_new) {
        p->driver = s->spec.driver;
        p->name = s->spec.pool.name;
        p->generation = s->spec.pool.generation;
    }
    if (s->spec.pool.generation < p->generation)
        return 0;
    if (s->spec.pool.generation > p->generation) {
        p->generation = s->spec.pool.generation;
        vec_clear(&p->here);
    }
    vec_push(&p->here, index);
    return 0;
}

static int find_slices(struct builder *b)
{
    const struct u32_vec *own = map_get(&b->c->by_node, b->v->node->metadata.name);
    for (size_t i = 0; own && i < own->n; i++) {
        int r = add_slice(b, own->p[i]);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < b->c->elsewhere.n; i++) {
        int r = add_slice(b, b->c->elsewhere.p[i]);
        if (r < 0)
            return r;
    }
    return 0;
}

// --- Completeness --------------------------------------------------------------------------------

static bool contains_name(const struct alloc_cluster *c, const struct u32_vec *v, struct str name)
{
    for (size_t i = 0; i < v->n; i++)
        if (str_eq(c->slices[v->p[i]].api->metadata.name, name))
            return true;
    return false;
}

// Slices of the pool that the node does not see: they complete the pool, and their devices draw on
// its counters.
static void look_elsewhere(struct builder *b, struct draft *p)
{
    const struct alloc_cluster *c = b->c;
    const struct u32_vec *all =
        map_get(&c->by_pool, cluster_pool_key(&b->v->arena, p->driver, p->name));
    int64_t count = 0;
    for (size_t i = 0; all && i < all->n; i++) {
        const struct cl_slice *s = &c->slices[all->p[i]];
        if (s->api->spec.pool.generation > p->generation)
            p->obsolete = true;
        if (s->api->spec.pool.generation != p->generation ||
            (!c->features.compatibility_groups && s->uses_groups))
            continue;
        count++;
        vec_push(&p->others, all->p[i]);
    }
    p->incomplete = count != c->slices[p->here.p[0]].api->spec.pool.resource_slice_count;
    size_t kept = 0;
    for (size_t i = 0; i < p->others.n; i++)
        if (p->here.n < (size_t)count &&
            !contains_name(c, &p->here, c->slices[p->others.p[i]].api->metadata.name))
            p->others.p[kept++] = p->others.p[i];
    p->others.n = kept;
}

// Slices of one generation that disagree on how many there are: no count of them is right. With a
// newer generation at work the pool is about to be replaced; else it is invalid.
static bool counts_disagree(const struct builder *b, struct draft *p)
{
    const struct alloc_cluster *c = b->c;
    const struct u32_vec *all =
        map_get(&c->by_pool, cluster_pool_key(&b->v->arena, p->driver, p->name));
    int64_t count = c->slices[p->here.p[0]].api->spec.pool.resource_slice_count;
    bool disagree = false, newer = false;
    for (size_t i = 0; all && i < all->n; i++) {
        const struct api_resource_pool *pool = &c->slices[all->p[i]].api->spec.pool;
        newer |= pool->generation > p->generation;
        disagree |= pool->generation == p->generation && pool->resource_slice_count != count;
    }
    p->obsolete = disagree && newer;
    if (disagree && !newer)
        p->invalid = STR("resource slices of one generation disagree on resourceSliceCount");
    return disagree;
}

static bool has_counters(const struct builder *b, uint32_t slice)
{
    return b->c->features.partitionable_devices &&
           b->c->slices[slice].api->spec.shared_counters.n > 0;
}

static void split_counters(struct builder *b, struct draft *p, struct u32_vec *from)
{
    size_t kept = 0;
    for (size_t i = 0; i < from->n; i++)
        if (has_counters(b, from->p[i]))
            vec_push(&p->counters, from->p[i]);
        else
            from->p[kept++] = from->p[i];
    from->n = kept;
}

static void sort_by_name(const struct alloc_cluster *c, struct u32_vec *v)
{
    // Few slices a pool, mostly sorted already: insertion keeps equal names in their order.
    for (size_t i = 1; i < v->n; i++)
        for (size_t j = i; j > 0 && str_cmp(c->slices[v->p[j - 1]].api->metadata.name,
                                            c->slices[v->p[j]].api->metadata.name) > 0;
             j--) {
            uint32_t swap = v->p[j];
            v->p[j] = v->p[j - 1];
            v->p[j - 1] = swap;
        }
}

// --- Validity ------------------------------------------------------------------------------------

static bool duplicate_devices(struct builder *b, struct draft *p)
{
    struct names seen = {0};
    bool twice = false;
    for (size_t i = 0; i < p->here.n; i++) {
        const struct api_device_array *ds = &b->c->slices[p->here.p[i]].api->spec.devices;
        for (size_t j = 0; j < ds->n; j++) {
            bool is_new = false;
            (void)map_put_new(&seen, ds->p[j].name, &is_new);
            if (!is_new && !twice) {
                twice = true;
                p->invalid =
                    arena_strf(&b->v->arena, "duplicate device name %.*s", STR_ARG(ds->p[j].name));
            }
        }
    }
    map_done(&seen);
    return twice;
}

static const struct api_counter_set *view_find_set(const struct builder *b, const struct draft *p,
                                                   struct str name)
{
    for (size_t i = 0; i < p->counters.n; i++) {
        const struct api_counter_set_array *sets =
            &b->c->slices[p->counters.p[i]].api->spec.shared_counters;
        for (size_t j = 0; j < sets->n; j++)
            if (str_eq(sets->p[j].name, name))
                return &sets->p[j];
    }
    return NULL;
}

// Which counter of a set has a name; the set's length when none has. Devices name counters in the
// order of the set, mostly: *hint is where to look first.
static size_t counter_named(const struct api_counter_set *s, struct str name, size_t *hint)
{
    for (size_t i = 0; i < s->counters.n; i++) {
        size_t at = *hint + i < s->counters.n ? *hint + i : *hint + i - s->counters.n;
        if (!str_eq(s->counters.p[at].key, name))
            continue;
        *hint = at + 1 < s->counters.n ? at + 1 : 0;
        return at;
    }
    return s->counters.n;
}

// Slices stored before validation rejected them may have negative counters, which would add to what
// the pool has.
static void view_refuse_negative(struct builder *b, struct draft *p, struct str set,
                                 const struct api_counter_map *counters)
{
    for (size_t i = 0; i < counters->n; i++)
        if (quantity_sign(&counters->p[i].value.value) < 0)
            p->invalid =
                arena_strf(&b->v->arena, "counter %.*s in counter set %.*s has a negative value",
                           STR_ARG(counters->p[i].key), STR_ARG(set));
}

static void check_sets(struct builder *b, struct draft *p)
{
    struct names seen = {0};
    for (size_t i = 0; i < p->counters.n && !p->invalid.n; i++) {
        const struct api_counter_set_array *sets =
            &b->c->slices[p->counters.p[i]].api->spec.shared_counters;
        for (size_t j = 0; j < sets->n; j++) {
            bool is_new = false;
            (void)map_put_new(&seen, sets->p[j].name, &is_new);
            if (!is_new)
                p->invalid = arena_strf(&b->v->arena, "duplicate counter set name %.*s",
                                        STR_ARG(sets->p[j].name));
            view_refuse_negative(b, p, sets->p[j].name, &sets->p[j].counters);
        }
    }
    map_done(&seen);
}

static void view_check_consumption(struct builder *b, struct draft *p, const struct api_device *d)
{
    for (size_t k = 0; k < d->consumes_counters.n && !p->invalid.n; k++) {
        const struct api_device_counter_consumption *u = &d->consumes_counters.p[k];
        const struct api_counter_set *set = p->set; // of the device before it
        if (!set || !str_eq(set->name, u->counter_set))
            set = p->set = view_find_set(b, p, u->counter_set);
        if (!set) {
            p->invalid =
                arena_strf(&b->v->arena, "counter set %.*s not found", STR_ARG(u->counter_set));
            return;
        }
        size_t hint = 0;
        for (size_t i = 0; i < u->counters.n; i++)
            if (counter_named(set, u->counters.p[i].key, &hint) == set->counters.n)
                p->invalid = arena_strf(&b->v->arena, "counter %.*s not found in counter set %.*s",
                                        STR_ARG(u->counters.p[i].key), STR_ARG(u->counter_set));
        view_refuse_negative(b, p, u->counter_set, &u->counters);
    }
}

static void view_check_slices(struct builder *b, struct draft *p, const struct u32_vec *v)
{
    for (size_t i = 0; i < v->n; i++) {
        const struct api_device_array *ds = &b->c->slices[v->p[i]].api->spec.devices;
        for (size_t j = 0; j < ds->n && !p->invalid.n; j++)
            view_check_consumption(b, p, &ds->p[j]);
    }
}

static void finish_draft(struct builder *b, struct draft *p)
{
    const struct alloc_cluster *c = b->c;
    assert(p->here.p); // a draft is made by its first slice
    if (c->pools.mixed && counts_disagree(b, p))
        return;
    if ((int64_t)p->here.n != c->slices[p->here.p[0]].api->spec.pool.resource_slice_count) {
        look_elsewhere(b, p);
        if (p->obsolete || p->incomplete)
            return;
    }
    sort_by_name(c, &p->here);
    split_counters(b, p, &p->here);
    split_counters(b, p, &p->others);
    if (!duplicate_devices(b, p) && c->features.partitionable_devices) {
        check_sets(b, p);
        view_check_slices(b, p, &p->here);
        view_check_slices(b, p, &p->others);
    }
    for (size_t i = 0; i < p->here.n && !p->invalid.n; i++) {
        const struct api_device_array *ds = &c->slices[p->here.p[i]].api->spec.devices;
        for (size_t j = 0; j < ds->n; j++)
            p->binding |= ds->p[j].binding_conditions.p != NULL;
    }
}

// --- Dense arrays --------------------------------------------------------------------------------

// The set of the pool with a name, which has been checked to be there.
static const struct pool_set *set_named(struct builder *b, struct str name)
{
    for (size_t i = 0; i < b->sets.n && !str_eq(b->sets.p[b->set].api->name, name); i++)
        b->set = b->set + 1 < b->sets.n ? b->set + 1 : 0;
    return &b->sets.p[b->set];
}

static struct str view_join_names(struct arena *a, struct str set, struct str counter)
{
    char *p = arena_alloc(a, set.n + 1 + counter.n + 1, 1);
    if (set.n)
        memcpy(p, set.p, set.n);
    p[set.n] = '/';
    if (counter.n)
        memcpy(p + set.n + 1, counter.p, counter.n);
    return str_make(p, set.n + 1 + counter.n);
}

static void add_counters(struct builder *b, struct vw_pool *pool, uint32_t pool_index,
                         const struct draft *p)
{
    struct alloc_view *v = b->v;
    pool->first_set = (uint32_t)v->sets_len;
    for (size_t i = 0; i < p->counters.n; i++) {
        const struct api_counter_set_array *sets =
            &b->c->slices[p->counters.p[i]].api->spec.shared_counters;
        for (size_t j = 0; j < sets->n; j++) {
            const struct api_counter_set *s = &sets->p[j];
            vec_push(&b->sets,
                     (struct pool_set){s, (uint32_t)v->sets_len++, (uint32_t)v->counters.n});
            for (size_t k = 0; k < s->counters.n; k++) {
                uint32_t at = (uint32_t)v->counters.n++;
                v->counters.available[at] = amount_from_quantity(&s->counters.p[k].value.value);
                v->counters.totals[at] = v->counters.available[at];
                v->counters.pool[at] = pool_index;
                v->counters.set[at] = (uint32_t)v->sets_len - 1;
                v->counters.names[at] = view_join_names(&v->arena, s->name, s->counters.p[k].key);
            }
        }
    }
    pool->sets_len = (uint32_t)v->sets_len - pool->first_set;
}

// The bits of groups in one counter set. Sets of more than 64 groups do not occur; their surplus
// groups share the last bit.
static uint64_t group_mask(struct builder *b, uint32_t set,
                           const struct api_device_counter_consumption *u)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < u->compatibility_groups.n; i++) {
        bool is_new = false;
        uint32_t *bit = map_put_new(
            &b->groups,
            cluster_pool_key(&b->v->arena, u->counter_set, u->compatibility_groups.p[i]), &is_new);
        if (is_new) {
            *bit = b->group_counts[set];
            if (b->group_counts[set] < 63)
                b->group_counts[set]++;
        }
        mask |= UINT64_C(1) << *bit;
    }
    return mask;
}

// Devices in use draw on the counters and fix the groups, wherever they are.
static void view_charge_device(struct builder *b, const struct api_device *d)
{
    struct alloc_view *v = b->v;
    for (size_t k = 0; k < d->consumes_counters.n; k++) {
        const struct api_device_counter_consumption *u = &d->consumes_counters.p[k];
        const struct pool_set *set = set_named(b, u->counter_set);
        size_t hint = 0;
        for (size_t i = 0; i < u->counters.n; i++)
            v->counters
                .available[set->first + counter_named(set->api, u->counters.p[i].key, &hint)] -=
                amount_from_quantity(&u->counters.p[i].value.value);
        view_update_join_group(&v->groups[set->number], group_mask(b, set->number, u));
    }
}

static void charge_slices(struct builder *b, const struct u32_vec *slices)
{
    for (size_t i = 0; i < slices->n; i++) {
        const struct cl_slice *s = &b->c->slices[slices->p[i]];
        for (size_t j = 0; j < s->api->spec.devices.n; j++) {
            const struct cl_device *d = &b->c->devices[s->first_device + j];
            if (d->exclusive_use || d->shared_use)
                view_charge_device(b, d->api);
        }
    }
}

static void device_counters(struct builder *b, struct vw_device *d)
{
    struct alloc_view *v = b->v;
    const struct api_device_counter_consumption_array *all = &d->cl->api->consumes_counters;
    d->first_counter = (uint32_t)b->counter_uses_n;
    d->first_group = (uint32_t)b->group_uses_n;
    if (!b->c->features.partitionable_devices)
        return;
    for (size_t k = 0; k < all->n; k++) {
        const struct api_device_counter_consumption *u = &all->p[k];
        const struct pool_set *set = set_named(b, u->counter_set);
        size_t hint = 0;
        v->group_uses[b->group_uses_n++] =
            (struct group_use){set->number, group_mask(b, set->number, u)};
        d->groups_len++;
        for (size_t i = 0; i < u->counters.n; i++) {
            size_t at = counter_named(set->api, u->counters.p[i].key, &hint);
            v->counter_uses[b->counter_uses_n++] = (struct counter_use){
                set->first + (uint32_t)at, amount_from_quantity(&u->counters.p[i].value.value)};
            d->counters_len++;
        }
    }
}

static void device_capacities(struct builder *b, struct vw_device *d)
{
    struct alloc_view *v = b->v;
    const struct api_device_capacity_map *m = &d->cl->api->capacity;
    struct arena tmp = {0};
    amount *need = arena_array(&tmp, amount, m->n + 1);
    d->first_cap = (uint32_t)v->caps_len;
    d->caps_len = (uint16_t)m->n;
    d->default_need = NEED_OK;
    if (b->c->features.consumable_capacity)
        d->default_need = (uint8_t)capacity_need(
            d->cl->api, NULL, b->c->features.fractional_capacity_range, need, &tmp, NULL);
    d->default_fits = true;
    for (size_t i = 0; i < m->n; i++) {
        struct vw_cap *c = &v->caps[v->caps_len++];
        *c = (struct vw_cap){.api = &m->p[i],
                             .value = amount_from_quantity(&m->p[i].value.value),
                             .used = d->cl->used[i],
                             .default_need = need[i]};
        capacity_rounding(c, b->c->features.fractional_capacity_range);
        d->default_fits &= c->used + c->default_need <= c->value;
    }
    arena_done(&tmp);
}

static void device_facts(struct builder *b, struct vw_device *d)
{
    const struct alloc_features *f = &b->c->features;
    const struct api_device *api = d->cl->api;
    const struct api_resource_slice_spec *spec = &d->cl->slice->spec;
    d->shared = d->cl->shared;
    d->exclusive_use = d->cl->exclusive_use;
    d->shared_use = d->cl->shared_use;
    bool skips = spec->skip_node_operations.n && b->c->experimental;
    d->refused = (!f->binding_conditions && api->binding_conditions.n) ||
                 (!f->partitionable_devices && api->consumes_counters.n) ||
                 (!f->optional_node_operations && skips);
    d->unsupported = skips && !b->v->declares_optional_operations;
    d->node = NODE_YES;
    if (spec->has_per_device_node_selection && spec->per_device_node_selection) {
        int r = node_matches(b->v->node, api->node_name, api->has_all_nodes && api->all_nodes,
                             api->node_selector, NULL);
        d->node = r < 0 ? NODE_ERROR : r ? NODE_YES : NODE_NO;
    }
    for (size_t i = 0; f->device_taints && i < d->cl->taints.n; i++)
        d->hard_taints |= taint_is_hard(d->cl->taints.p[i].effect);
    b->v->any_shared |= d->shared;
}

static void view_add_pool(struct builder *b, const struct draft *p)
{
    struct alloc_view *v = b->v;
    uint32_t index = (uint32_t)v->pools_len++;
    struct vw_pool *pool = &v->pools[index];
    *pool = (struct vw_pool){.driver = p->driver,
                             .name = p->name,
                             .incomplete = p->incomplete,
                             .invalid = p->invalid.n > 0,
                             .binding = p->binding,
                             .invalid_reason = p->invalid,
                             .first_device = (uint32_t)v->devices_len};
    v->any_invalid |= pool->invalid;
    if (pool->incomplete || pool->invalid)
        return;
    map_done(&b->groups);
    vec_clear(&b->sets);
    b->set = 0;
    b->groups = (struct names){0};
    size_t first_counter = v->counters.n;
    add_counters(b, pool, index, p);
    if (b->c->features.partitionable_devices) {
        charge_slices(b, &p->here);
        charge_slices(b, &p->others);
        v->elsewhere |= p->others.n > 0;
    }
    pool->overdrawn = view_update_lost(b->c, p->driver, p->name);
    for (size_t i = first_counter; i < v->counters.n; i++)
        pool->overdrawn += v->counters.available[i] < 0;
    for (size_t i = 0; i < p->here.n; i++) {
        const struct cl_slice *s = &b->c->slices[p->here.p[i]];
        for (size_t j = 0; j < s->api->spec.devices.n; j++) {
            struct vw_device *d = &v->devices[v->devices_len++];
            d->cl_index = s->first_device + (uint32_t)j;
            d->cl = &b->c->devices[d->cl_index];
            d->pool = index;
            device_facts(b, d);
            device_counters(b, d);
            device_capacities(b, d);
        }
    }
    pool->devices_len = (uint32_t)v->devices_len - pool->first_device;
}

// --- Order and sizes -----------------------------------------------------------------------------

static int draft_cmp(const void *x, const void *y)
{
    const struct draft *a = *(const struct draft *const *)x;
    const struct draft *b = *(const struct draft *const *)y;
    if (a->binding != b->binding)
        return a->binding ? 1 : -1;
    int r = str_cmp(a->driver, b->driver);
    return r ? r : str_cmp(a->name, b->name);
}

static void view_reserve_arrays(struct builder *b)
{
    struct alloc_view *v = b->v;
    size_t devices = 0, caps = 0, uses = 0, group_uses = 0, counters = 0, sets = 0, pools = 0;
    map_foreach(&b->pools, i) {
        const struct draft *p = map_value(&b->pools, i);
        pools++;
        for (size_t j = 0; j < p->counters.n; j++) {
            const struct api_counter_set_array *cs =
                &b->c->slices[p->counters.p[j]].api->spec.shared_counters;
            sets += cs->n;
            for (size_t k = 0; k < cs->n; k++)
                counters += cs->p[k].counters.n;
        }
        for (size_t j = 0; j < p->here.n; j++) {
            const struct api_device_array *ds = &b->c->slices[p->here.p[j]].api->spec.devices;
            devices += ds->n;
            for (size_t k = 0; k < ds->n; k++) {
                caps += ds->p[k].capacity.n;
                group_uses += ds->p[k].consumes_counters.n;
                for (size_t m = 0; m < ds->p[k].consumes_counters.n; m++)
                    uses += ds->p[k].consumes_counters.p[m].counters.n;
            }
        }
    }
    v->pools = arena_array(&v->arena, struct vw_pool, pools + 1);
    v->devices = arena_array(&v->arena, struct vw_device, devices + 1);
    v->caps = arena_array(&v->arena, struct vw_cap, caps + 1);
    v->counter_uses = arena_array(&v->arena, struct counter_use, uses + 1);
    v->group_uses = arena_array(&v->arena, struct group_use, group_uses + 1);
    v->counters.available = arena_array(&v->arena, amount, counters + 1);
    v->counters.totals = arena_array(&v->arena, amount, counters + 1);
    v->counters.pool = arena_array(&v->arena, uint32_t, counters + 1);
    v->counters.set = arena_array(&v->arena, uint32_t, counters + 1);
    v->counters.names = arena_array(&v->arena, struct str, counters + 1);
    v->groups = arena_array(&v->arena, struct group_state, sets + 1);
    b->group_counts = arena_array(&v->arena, uint32_t, sets + 1);
    b->sorted = arena_array(&v->arena, struct draft *, pools + 1);
}

static void view_build_pools(struct builder *b)
{
    size_t n = 0;
    map_foreach(&b->pools, i) {
        assert(b->pools.values);
        finish_draft(b, map_value(&b->pools, i));
    }
    view_reserve_arrays(b);
    map_foreach(&b->pools, i) {
        assert(b->pools.values);
        if (!map_value(&b->pools, i)->obsolete)
            b->sorted[n++] = map_value(&b->pools, i);
    }
    qsort(b->sorted, n, sizeof(struct draft *), draft_cmp);
    for (size_t i = 0; i < n; i++)
        view_add_pool(b, b->sorted[i]);
}

static void builder_done(struct builder *b)
{
    map_foreach(&b->pools, i) {
        struct draft *p = map_value(&b->pools, i);
        vec_done(&p->here);
        vec_done(&p->others);
        vec_done(&p->counters);
    }
    map_done(&b->pools);
    vec_done(&b->sets);
    map_done(&b->groups);
}

int alloc_view_new(const struct alloc_cluster *c, const struct api_node *node,
                   struct alloc_view **ret, struct err *err)
{
    struct err local = {0};
    struct alloc_view *v = xcalloc(1, sizeof(*v));
    struct builder b = {.v = v, .c = c, .err = err ? err : &local};
    v->cluster = c;
    v->node = node;
    for (size_t i = 0; i < node->status.declared_features.n; i++)
        v->declares_optional_operations |=
            str_eqz(node->status.declared_features.p[i], "DRAOptionalNodeOperations");
    int r = find_slices(&b);
    if (r == 0) {
        view_build_pools(&b);
        rank_view(v);
        *ret = v;
    } else {
        r = err_wrap(b.err, "gather pool information");
        alloc_view_free(v);
    }
    builder_done(&b);
    return r;
}

void alloc_view_free(struct alloc_view *v)
{
    if (!v)
        return;
    arena_done(&v->arena);
    free(v);
}

size_t alloc_view_devices(const struct alloc_view *v)
{
    return v->devices_len;
}

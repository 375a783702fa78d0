// SPDX-License-Identifier: Apache-2.0
//
// The cluster's snapshot: devices with their CEL records, numbered attribute values, merged taints
// and recorded use; what each class selects; which slices belong to which node and pool.
#include "alloc/search/search_int.h"
#include "api/match/device_taint.h"
#include "base/hash.h"

#include "base/banned.h"

// Expressions kept compiled. Selectors repeat from claim to claim.
#define PROGRAMS_MAX 4096

static struct str alloc_cluster_key_of(struct arena *a, struct str x, struct str y,
                                       const struct str *z)
{
    size_t n = x.n + y.n + 1 + (z ? z->n + 1 : 0);
    char *p = arena_alloc(a, n + 1, 1);
    memcpy(p, x.p ? x.p : "", x.n);
    memcpy(p + x.n + 1, y.p ? y.p : "", y.n);
    if (z)
        memcpy(p + x.n + 1 + y.n + 1, z->p ? z->p : "", z->n);
    return str_make(p, n);
}

struct str cluster_pool_key(struct arena *a, struct str driver, struct str pool)
{
    return alloc_cluster_key_of(a, driver, pool, NULL);
}

static struct str device_key(struct arena *a, const struct alloc_device_id *id)
{
    return alloc_cluster_key_of(a, id->driver, id->pool, &id->device);
}

// --- Use -----------------------------------------------------------------------------------------

// A bit for a device's name. All of it counts: partitions of two GPUs differ in the middle alone.
static uint8_t name_bit(struct str name)
{
    return (uint8_t)hash_str(name);
}

static void record_use(struct alloc_cluster *c, const struct alloc_use *u, uint32_t index)
{
    struct cl_use *r = map_put(&c->uses, device_key(&c->arena, &u->id));
    uint8_t bit = name_bit(u->id.device);
    c->use_bits[bit / 64] |= UINT64_C(1) << bit % 64;
    if (u->exclusive) {
        r->exclusive = true;
        r->owner = u;
    }
    if (u->share) {
        r->share = true;
        if (!r->owner)
            r->owner = u;
    }
    if (u->has_capacity) {
        r->has_capacity = true;
        vec_push(&r->capacities, index);
    }
}

// Results of a claim count as the scheduler counts them: admin access uses nothing.
static bool use_of_result(const struct alloc_cluster *c,
                          const struct api_device_request_allocation_result *r,
                          struct alloc_use *ret)
{
    if (r->has_admin_access && r->admin_access)
        return false;
    bool share = c->features.consumable_capacity && r->has_share_id;
    *ret = (struct alloc_use){.id = {r->driver, r->pool, r->device},
                              .exclusive = !share,
                              .share = share,
                              .has_capacity = share && r->consumed_capacity.p != NULL,
                              .capacity = r->consumed_capacity};
    return true;
}

static void alloc_cluster_gather_uses(struct alloc_cluster *c, const struct alloc_input *in)
{
    size_t most = in->uses_len;
    for (size_t i = 0; i < in->claims_len; i++)
        if (in->claims[i]->status.allocation)
            most += in->claims[i]->status.allocation->devices.results.n;
    c->use_list = arena_array(&c->arena, struct alloc_use, most + 1);
    for (size_t i = 0; i < in->uses_len; i++)
        c->use_list[c->use_list_len++] = in->uses[i];
    for (size_t i = 0; i < in->claims_len; i++) {
        const struct api_resource_claim *claim = in->claims[i];
        if (!claim->status.allocation)
            continue;
        struct str owner =
            claim->metadata.namespace.n
                ? arena_strf(&c->arena, "%.*s/%.*s", STR_ARG(claim->metadata.namespace),
                             STR_ARG(claim->metadata.name))
                : claim->metadata.name;
        const struct api_device_request_allocation_result_array *rs =
            &claim->status.allocation->devices.results;
        for (size_t j = 0; j < rs->n; j++)
            if (use_of_result(c, &rs->p[j], &c->use_list[c->use_list_len]))
                c->use_list[c->use_list_len++].owner = owner;
    }
    for (size_t i = 0; i < c->use_list_len; i++)
        record_use(c, &c->use_list[i], (uint32_t)i);
}

// Slices alone say what a device draws from counters. When a device in use is no longer published,
// its share is unknown, and the pool's counters admit no other. Compares the uses of each pool with
// its devices of the newest generation.
static void cluster_find_lost(struct alloc_cluster *c)
{
    if (!c->pools.counters || !c->features.partitionable_devices || c->use_list_len == 0)
        return;
    map_foreach(&c->uses, i) {
        struct str key = map_key(&c->uses, i), driver, pool, device;
        str_cut(key, '\0', &driver, &device);
        str_cut(device, '\0', &pool, &device);
        (*map_put(&c->pools.lost, str_upto(key, driver.n + 1 + pool.n)))++;
    }
    map_foreach(&c->pools.lost, i) {
        const struct u32_vec *slices = map_get(&c->by_pool, map_key(&c->pools.lost, i));
        int64_t newest = INT64_MIN;
        for (size_t k = 0; slices && k < slices->n; k++)
            if (c->slices[slices->p[k]].api->spec.pool.generation > newest)
                newest = c->slices[slices->p[k]].api->spec.pool.generation;
        for (size_t k = 0; slices && k < slices->n; k++) {
            const struct cl_slice *s = &c->slices[slices->p[k]];
            const struct cl_device *d = &c->devices[s->first_device];
            if (s->api->spec.pool.generation == newest)
                for (size_t j = 0; j < s->api->spec.devices.n; j++)
                    *map_value(&c->pools.lost, i) -= d[j].exclusive_use || d[j].shared_use;
        }
    }
}

// --- Devices -------------------------------------------------------------------------------------

static uint32_t alloc_cluster_intern(void *arg, char type, struct str bytes)
{
    struct alloc_cluster *c = arg;
    bool is_new = false;
    char *p = arena_alloc(&c->arena, bytes.n + 2, 1);
    p[0] = type;
    memcpy(p + 1, bytes.p ? bytes.p : "", bytes.n);
    uint32_t *id = map_put_new(&c->values, str_make(p, bytes.n + 1), &is_new);
    if (is_new)
        *id = (uint32_t)map_len(&c->values);
    return *id;
}

static bool cluster_rule_taints(const struct api_device_taint_rule *rule, const struct cl_device *d)
{
    return device_taint_selects(rule->spec.device_selector, d->slice->spec.driver,
                                d->slice->spec.pool.name, &d->api->name);
}

static void merge_taints(struct alloc_cluster *c, const struct alloc_input *in, struct cl_device *d)
{
    size_t more = 0;
    d->taints = d->api->taints;
    for (size_t i = 0; i < in->taint_rules_len; i++)
        more += cluster_rule_taints(in->taint_rules[i], d);
    if (!more)
        return;
    struct api_device_taint *p =
        arena_array(&c->arena, struct api_device_taint, d->taints.n + more);
    size_t n = d->taints.n;
    if (n)
        memcpy(p, d->taints.p, n * sizeof(*p));
    for (size_t i = 0; i < in->taint_rules_len; i++)
        if (cluster_rule_taints(in->taint_rules[i], d))
            p[n++] = in->taint_rules[i]->spec.taint;
    d->taints = (struct api_device_taint_array){p, n};
}

static const struct cl_use *find_use(struct alloc_cluster *c, const struct cl_device *d)
{
    if (!(c->use_bits[d->name_bit / 64] >> d->name_bit % 64 & 1))
        return NULL;
    struct alloc_device_id id = {d->slice->spec.driver, d->slice->spec.pool.name, d->api->name};
    return map_get(&c->uses, device_key(&c->arena, &id));
}

// used is NULL for a device without capacities. idle: what stands there is zeros, which devices
// that are not in use may share.
static void apply_use(struct alloc_cluster *c, struct cl_device *d, bool idle)
{
    const struct cl_use *u = find_use(c, d);
    if (d->api->capacity.n && (u || !idle))
        d->used = arena_array(&c->arena, amount, d->api->capacity.n);
    if (!u)
        return;
    d->exclusive_use = u->exclusive;
    d->shared_use = u->share || u->has_capacity;
    d->owner = u->owner;
    for (size_t i = 0; d->used && i < u->capacities.n; i++) {
        const struct api_quantity_map *m = &c->use_list[u->capacities.p[i]].capacity;
        for (size_t k = 0; k < m->n; k++)
            for (size_t j = 0; j < d->api->capacity.n; j++)
                if (str_eq(d->api->capacity.p[j].key, m->p[k].key))
                    d->used[j] += amount_from_quantity(&m->p[k].value);
    }
}

static void alloc_cluster_set_kind(struct cl_device *d, struct device_kind *k)
{
    if (k && k->seen) {
        d->kind = k->kind;
        d->sign = k->sign;
    } else {
        d->kind = fleet_device_kind(d->api, &d->slice->spec);
        d->sign = fleet_device_sign(d->api);
    }
    if (k) {
        d->kind_number = k->number;
        *k = (struct device_kind){k->hash, d->kind, d->sign, k->number, true};
    }
}

static int alloc_cluster_make_device(struct alloc_cluster *c, const struct alloc_input *in,
                                     struct cl_device *d, struct err *err)
{
    const struct api_device *api = d->api;
    struct attr_value *attrs = arena_array(&c->arena, struct attr_value, api->attributes.n + 1);
    for (size_t i = 0; i < api->attributes.n; i++)
        attrs[i] = attr_value_of(&api->attributes.p[i].value, c->features.list_type_attributes,
                                 alloc_cluster_intern, c, &c->arena);
    d->attrs = attrs;
    d->shared = c->features.consumable_capacity && api->has_allow_multiple_allocations &&
                api->allow_multiple_allocations;
    d->name_bit = name_bit(api->name);
    rank_device(d);
    merge_taints(c, in, d);
    apply_use(c, d, false);
    d->cel = arena_one(&c->arena, struct cel_device *);
    // A cluster without a kit may be of several threads: nothing is made later.
    return in->kit ? 0 : answer_make_record(c, d, err);
}

bool cluster_slice_uses_groups(const struct api_resource_slice *s)
{
    for (size_t i = 0; i < s->spec.devices.n; i++)
        for (size_t j = 0; j < s->spec.devices.p[i].consumes_counters.n; j++)
            if (s->spec.devices.p[i].consumes_counters.p[j].compatibility_groups.n)
                return true;
    return false;
}

static int alloc_cluster_gather_slices(struct alloc_cluster *c, const struct alloc_input *in,
                                       struct err *err)
{
    size_t devices = 0;
    for (size_t i = 0; i < in->slices_len; i++)
        devices += in->slices[i]->spec.devices.n;
    c->slices = arena_array(&c->arena, struct cl_slice, in->slices_len + 1);
    c->devices = arena_array(&c->arena, struct cl_device, devices + 1);
    c->slices_len = in->slices_len;
    for (size_t i = 0; i < in->slices_len; i++) {
        const struct api_resource_slice *s = in->slices[i];
        c->slices[i] = (struct cl_slice){s, (uint32_t)c->devices_len, cluster_slice_uses_groups(s)};
        if (s->spec.node_name.n)
            vec_push(map_put(&c->by_node, s->spec.node_name), (uint32_t)i);
        else
            vec_push(&c->elsewhere, (uint32_t)i);
        struct u32_vec *pool =
            map_put(&c->by_pool, cluster_pool_key(&c->arena, s->spec.driver, s->spec.pool.name));
        const struct api_resource_pool *first =
            pool->n ? &c->slices[pool->p[0]].api->spec.pool : &s->spec.pool;
        c->pools.mixed |= first->generation != s->spec.pool.generation ||
                          first->resource_slice_count != s->spec.pool.resource_slice_count;
        c->pools.counters |= s->spec.shared_counters.n > 0;
        vec_push(pool, (uint32_t)i);
        for (size_t j = 0; j < s->spec.devices.n; j++) {
            struct cl_device *d = &c->devices[c->devices_len++];
            d->api = &s->spec.devices.p[j];
            d->slice = s;
            alloc_cluster_set_kind(d, in->kinds ? in->kinds->of[c->devices_len - 1] : NULL);
            int r = alloc_cluster_make_device(c, in, d, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

// --- Classes -------------------------------------------------------------------------------------

static enum match_state class_match(const struct alloc_cluster *c, const struct cl_class *k,
                                    struct answer_set *const *answers, struct cel_run *run,
                                    struct alloc_meter *meter, const struct cl_device *d)
{
    enum match_state m = MATCH_YES;
    for (size_t i = 0; m == MATCH_YES && i < k->api->spec.selectors.n; i++) {
        if (!k->programs[i])
            return MATCH_ERROR;
        m = answer_find(answers[i], d);
        if (m == MATCH_UNKNOWN)
            m = answer_make(c, answers[i], d, &(struct evaluator){run, k->programs[i], meter});
    }
    return m;
}

bool cluster_judge_class(const struct alloc_cluster *c, const struct cl_class *k,
                         struct cel_run *run, struct alloc_meter *meter)
{
    const struct api_device_selector_array *sel = &k->api->spec.selectors;
    if (*k->judged == c->devices_len)
        return true;
    struct answer_set **answers = xcalloc(sel->n + 1, sizeof(struct answer_set *));
    for (size_t i = 0; i < sel->n; i++)
        if (sel->p[i].cel)
            answers[i] = answer_set_of(c, sel->p[i].cel->expression);
    enum match_state m = MATCH_NO;
    for (; *k->judged < c->devices_len; ++*k->judged) {
        m = class_match(c, k, answers, run, meter, &c->devices[*k->judged]);
        if (m == MATCH_UNKNOWN)
            break;
        k->match[*k->judged] = (uint8_t)m;
    }
    free(answers);
    return m != MATCH_UNKNOWN;
}

static void alloc_cluster_make_class(struct alloc_cluster *c, struct cl_class *k)
{
    const struct api_device_selector_array *sel = &k->api->spec.selectors;
    k->programs = arena_array(&c->arena, struct cel_program *, sel->n + 1);
    k->match = arena_array(&c->arena, uint8_t, c->devices_len + 1);
    k->judged = arena_one(&c->arena, size_t);
    for (size_t i = 0; i < sel->n; i++)
        if (!sel->p[i].cel || cel_cache_get(c->kit.cache, c->kit.env, sel->p[i].cel->expression,
                                            &k->programs[i], NULL, NULL) < 0)
            k->programs[i] = NULL;
}

static void alloc_cluster_gather_classes(struct alloc_cluster *c, const struct alloc_input *in)
{
    struct cel_run *run = in->kit ? NULL : cel_run_new();
    c->classes = arena_array(&c->arena, struct cl_class, in->classes_len + 1);
    c->classes_len = in->classes_len;
    for (size_t i = 0; i < in->classes_len; i++) {
        bool is_new = false;
        uint32_t *at = map_put_new(&c->class_names, in->classes[i]->metadata.name, &is_new);
        if (is_new)
            *at = (uint32_t)i;
        c->classes[i].api = in->classes[i];
        alloc_cluster_make_class(c, &c->classes[i]);
        // A cluster without a kit may be of several threads: nothing is made later.
        if (run)
            (void)cluster_judge_class(c, &c->classes[i], run, NULL);
    }
    cel_run_free(run);
}

struct alloc_kit *alloc_kit_new(const struct alloc_features *features)
{
    struct alloc_kit *k = xcalloc(1, sizeof(*k));
    struct cel_env_options options = {.kind = CEL_ENV_DRA,
                                      .consumable_capacity = features->consumable_capacity,
                                      .list_type_attributes = features->list_type_attributes};
    k->env = cel_env_new(&options);
    options.kind = CEL_ENV_DERIVED;
    k->derived_env = cel_env_new(&options);
    k->shapes = cel_shapes_new();
    k->cache = cel_cache_new(PROGRAMS_MAX);
    k->answers = answer_cache_new();
    return k;
}

void alloc_kit_free(struct alloc_kit *k)
{
    if (!k)
        return;
    answer_cache_free(k->answers);
    cel_cache_free(k->cache);
    cel_shapes_free(k->shapes);
    cel_env_free(k->derived_env);
    cel_env_free(k->env);
    free(k);
}

int alloc_cluster_new(const struct alloc_input *input, struct alloc_cluster **ret, struct err *err)
{
    struct alloc_cluster *c = xcalloc(1, sizeof(*c));
    const struct alloc_features *f = &input->features;
    c->features = *f;
    c->experimental = f->list_type_attributes || f->optional_node_operations ||
                      f->derived_attributes || f->compatibility_groups;
    const struct alloc_kit *kit = input->kit;
    if (!kit)
        kit = c->own_kit = alloc_kit_new(f);
    c->kit.env = kit->env;
    c->kit.derived_env = kit->derived_env;
    c->kit.shapes = kit->shapes;
    c->kit.cache = kit->cache;
    if (input->kinds) {
        c->kit.answers = kit->answers;
        c->kinds = *input->kinds;
        c->kinds.of = NULL;
    }
    if (input->taint_rules_len)
        c->taint_rules =
            arena_dup(&c->arena, input->taint_rules,
                      input->taint_rules_len * sizeof(*input->taint_rules), _Alignof(const void *));
    c->taint_rules_len = input->taint_rules_len;
    alloc_cluster_gather_uses(c, input);
    int r = alloc_cluster_gather_slices(c, input, err);
    if (r < 0) {
        alloc_cluster_free(c);
        return r;
    }
    cluster_find_lost(c);
    alloc_cluster_gather_classes(c, input);
    *ret = c;
    return 0;
}

struct alloc_cluster *alloc_cluster_in_use(const struct alloc_cluster *base,
                                           const struct alloc_input *input)
{
    struct alloc_cluster *c = xcalloc(1, sizeof(*c));
    *c = *base;
    c->borrowed = true;
    c->arena = (struct arena){0};
    c->uses = (struct cl_uses){0};
    c->pools.lost = (struct pool_uses){0};
    memset(c->use_bits, 0, sizeof(c->use_bits));
    c->use_list_len = 0;
    alloc_cluster_gather_uses(c, input);
    c->devices = arena_array(&c->arena, struct cl_device, base->devices_len + 1);
    for (size_t i = 0; i < base->devices_len; i++) {
        c->devices[i] = base->devices[i];
        c->devices[i].exclusive_use = c->devices[i].shared_use = false;
        c->devices[i].owner = NULL;
        apply_use(c, &c->devices[i], base->use_list_len == 0);
    }
    cluster_find_lost(c);
    return c;
}

static void free_lists(struct slices_by *m)
{
    map_foreach(m, i)
        vec_done(map_value(m, i));
    map_done(m);
}

static void free_own(struct alloc_cluster *c)
{
    for (size_t i = 0; i < c->classes_len; i++)
        for (size_t j = 0; c->classes[i].programs && j < c->classes[i].api->spec.selectors.n; j++)
            cel_program_free(c->classes[i].programs[j]);
    for (size_t i = 0; i < c->devices_len; i++)
        cel_device_free(c->devices[i].cel ? *c->devices[i].cel : NULL);
    free_lists(&c->by_node);
    free_lists(&c->by_pool);
    vec_done(&c->elsewhere);
    map_done(&c->class_names);
    map_done(&c->values);
    alloc_kit_free(c->own_kit);
}

void alloc_cluster_free(struct alloc_cluster *c)
{
    if (!c)
        return;
    if (!c->borrowed)
        free_own(c);
    map_foreach(&c->uses, i)
        vec_done(&map_value(&c->uses, i)->capacities);
    map_done(&c->uses);
    map_done(&c->pools.lost);
    arena_done(&c->arena);
    free(c);
}

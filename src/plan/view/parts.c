// SPDX-License-Identifier: Apache-2.0
//
// An inventory that follows watches: a change rebuilds only the pools it affects, for `dray top`.
#include "plan/parts.h"

#include <assert.h>

#include "plan/sim/plan_int.h"

#include "base/banned.h"

struct object_list VEC(struct api_object);

// A pool.
struct part {
    char *key; // driver/pool
    struct object_list slices;
    struct object_list claims; // that hold devices of it
    struct plan_world *world;  // as it was looked at; NULL: not yet
    struct inventory *inv;
    bool stale; // something has changed since
};

// An object under its name.
struct kept {
    char *key;
    struct api_object object;
};
struct object_map MAP(struct kept);

struct inventory_parts {
    struct alloc_features features;
    struct part_map MAP(struct part *) parts; // by driver/pool
    struct object_map nodes, pods, claims;    // by name
    struct object_list rules;
    struct plan_world *waiting; // pods without a node
    struct inventory *all;      // put together of the parts
};

struct inventory_parts *inventory_parts_new(const struct alloc_features *features)
{
    struct inventory_parts *p = xcalloc(1, sizeof(*p));
    p->features = *features;
    return p;
}

static void part_forget(struct part *part)
{
    inventory_free(part->inv);
    plan_world_free(part->world);
    part->inv = NULL;
    part->world = NULL;
}

static void part_free(struct part *part)
{
    part_forget(part);
    vec_done(&part->slices);
    vec_done(&part->claims);
    free(part->key);
    free(part);
}

static void map_free(struct object_map *map)
{
    map_foreach(map, i)
        free(map_value(map, i)->key);
    map_done(map);
}

void inventory_parts_free(struct inventory_parts *p)
{
    if (!p)
        return;
    inventory_free(p->all);
    plan_world_free(p->waiting);
    map_foreach(&p->parts, i)
        part_free(*map_value(&p->parts, i));
    map_done(&p->parts);
    map_free(&p->nodes);
    map_free(&p->pods);
    map_free(&p->claims);
    vec_done(&p->rules);
    free(p);
}

// --- Lists and names -----------------------------------------------------------------------------

static void add_full_name(struct sbuf *out, struct str namespace, struct str name)
{
    sbuf_addf(out, "%.*s%s%.*s", STR_ARG(namespace), namespace.n ? "/" : "", STR_ARG(name));
}

// parts_list_search finds an object, or where it belongs: lists are in the order of names, as
// informers give them.
static size_t parts_list_search(const struct object_list *list, const struct api_object *o,
                                bool *ret_there)
{
    const struct api_object_meta *m = api_object_meta(o);
    for (size_t i = 0; i < list->n; i++) {
        const struct api_object_meta *other = api_object_meta(&list->p[i]);
        int order = str_cmp(m->namespace, other->namespace);
        if (order == 0)
            order = str_cmp(m->name, other->name);
        *ret_there = order == 0;
        if (order <= 0)
            return i;
    }
    *ret_there = false;
    return list->n;
}

static void list_remove(struct object_list *list, const struct api_object *o)
{
    bool there = false;
    size_t i = parts_list_search(list, o, &there);
    if (!there)
        return;
    memmove(&list->p[i], &list->p[i + 1], (list->n - i - 1) * sizeof(list->p[0]));
    (void)vec_pop(list);
}

static void parts_list_insert(struct object_list *list, const struct api_object *o)
{
    bool there = false;
    size_t i = parts_list_search(list, o, &there);
    if (!there) {
        vec_push(list, *o);
        memmove(&list->p[i + 1], &list->p[i], (list->n - i - 1) * sizeof(list->p[0]));
    }
    list->p[i] = *o;
}

// parts_replace_object puts an object into a map by its name, or takes it out.
static void parts_replace_object(struct object_map *map, const struct api_object *before,
                                 const struct api_object *after)
{
    cleanup_sbuf struct sbuf name = {0};
    const struct api_object_meta *m = api_object_meta(after ? after : before);
    add_full_name(&name, m->namespace, m->name);
    struct kept *at = map_get(map, sbuf_str(&name));
    if (!after) {
        char *key = at ? at->key : NULL;
        (void)map_del(map, sbuf_str(&name));
        free(key);
    } else if (at) {
        at->object = *after;
    } else {
        char *key = xstrndup(name.p, name.n);
        *map_put(map, str_make(key, name.n)) = (struct kept){key, *after};
    }
}

static const struct api_object *parts_find_object(const struct object_map *map, struct str name)
{
    const struct kept *k = map_get(map, name);
    return k ? &k->object : NULL;
}

static struct part *parts_get_part(struct inventory_parts *p, struct str driver, struct str pool)
{
    cleanup_sbuf struct sbuf key = {0};
    add_full_name(&key, driver, pool);
    struct part **at = map_get(&p->parts, sbuf_str(&key));
    if (at)
        return *at;
    struct part *part = xcalloc(1, sizeof(*part));
    part->key = xstrndup(key.p, key.n);
    *map_put(&p->parts, str_make(part->key, key.n)) = part;
    return part;
}

// --- Changes -------------------------------------------------------------------------------------

static void change_slice(struct inventory_parts *p, const struct api_object *before,
                         const struct api_object *after)
{
    const struct api_object *const both[] = {before, after};
    for (size_t i = 0; i < array_len(both); i++) {
        if (!both[i])
            continue;
        const struct api_resource_slice *s = both[i]->value;
        struct part *part = parts_get_part(p, s->spec.driver, s->spec.pool.name);
        part->stale = true;
        if (both[i] == after)
            parts_list_insert(&part->slices, after);
        else
            list_remove(&part->slices, before);
    }
}

// parts_each_part calls fn for the parts that a claim has devices of; for one twice, maybe.
static void parts_each_part(struct inventory_parts *p, const struct api_object *claim,
                            void (*fn)(struct part *part, const struct api_object *claim))
{
    const struct api_resource_claim *c = claim->value;
    const struct api_device_request_allocation_result *last = NULL;
    for (size_t i = 0; c->status.allocation && i < c->status.allocation->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r =
            &c->status.allocation->devices.results.p[i];
        if (!last || !str_eq(last->pool, r->pool) || !str_eq(last->driver, r->driver))
            fn(parts_get_part(p, r->driver, r->pool), claim);
        last = r;
    }
}

static void claim_comes(struct part *part, const struct api_object *claim)
{
    parts_list_insert(&part->claims, claim);
    part->stale = true;
}

static void claim_goes(struct part *part, const struct api_object *claim)
{
    list_remove(&part->claims, claim);
    part->stale = true;
}

static void mark_stale(struct part *part, const struct api_object *claim)
{
    (void)claim;
    part->stale = true;
}

static void change_claim(struct inventory_parts *p, const struct api_object *before,
                         const struct api_object *after)
{
    if (before)
        parts_each_part(p, before, claim_goes);
    if (after)
        parts_each_part(p, after, claim_comes);
    parts_replace_object(&p->claims, before, after);
}

static void stale_claim(struct inventory_parts *p, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf full = {0};
    add_full_name(&full, namespace, name);
    const struct api_object *claim = name.n ? parts_find_object(&p->claims, sbuf_str(&full)) : NULL;
    if (claim)
        parts_each_part(p, claim, mark_stale);
}

// The node of a pod with claims matters.
static void change_pod(struct inventory_parts *p, const struct api_object *before,
                       const struct api_object *after)
{
    const struct api_pod *pod = (after ? after : before)->value;
    const struct api_pod *was = before ? before->value : NULL;
    assert(pod);
    parts_replace_object(&p->pods, before, after);
    if (was && after && str_eq(was->spec.node_name, pod->spec.node_name))
        return;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
        stale_claim(p, pod->metadata.namespace, pod->spec.resource_claims.p[i].resource_claim_name);
    for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++)
        stale_claim(p, pod->metadata.namespace,
                    pod->status.resource_claim_statuses.p[i].resource_claim_name);
}

// parts_needs_node returns whether a part is about a node; *ret_everywhere: about all of them.
static bool parts_needs_node(const struct part *part, struct str node, bool *ret_everywhere)
{
    bool found = *ret_everywhere = false;
    for (size_t i = 0; i < part->slices.n; i++) {
        const struct api_resource_slice *s = part->slices.p[i].value;
        found = found || str_eq(s->spec.node_name, node);
        *ret_everywhere = *ret_everywhere || s->spec.node_name.n == 0;
    }
    return found || *ret_everywhere;
}

static void parts_change_node(struct inventory_parts *p, const struct api_object *before,
                              const struct api_object *after)
{
    struct str name = api_object_meta(after ? after : before)->name;
    bool everywhere;
    parts_replace_object(&p->nodes, before, after);
    map_foreach(&p->parts, i) {
        struct part *part = *map_value(&p->parts, i);
        part->stale = part->stale || parts_needs_node(part, name, &everywhere);
    }
}

static void change_rule(struct inventory_parts *p, const struct api_object *before,
                        const struct api_object *after)
{
    if (before)
        list_remove(&p->rules, before);
    if (after)
        parts_list_insert(&p->rules, after);
    map_foreach(&p->parts, i)
        (*map_value(&p->parts, i))->stale = true;
}

void inventory_parts_change(struct inventory_parts *p, const struct api_object *before,
                            const struct api_object *after)
{
    static const struct {
        const struct api_type *type;
        void (*take)(struct inventory_parts *p, const struct api_object *before,
                     const struct api_object *after);
    } kinds[] = {{&api_resource_slice_type, change_slice},
                 {&api_resource_claim_type, change_claim},
                 {&api_pod_type, change_pod},
                 {&api_node_type, parts_change_node},
                 {&api_device_taint_rule_type, change_rule}};
    const struct api_type *type = (after ? after : before)->kind->type;
    for (size_t i = 0; i < array_len(kinds); i++)
        if (kinds[i].type == type)
            kinds[i].take(p, before, after);
}

// --- Looking -------------------------------------------------------------------------------------

static void borrow_nodes(struct inventory_parts *p, const struct part *part, struct plan_world *w)
{
    bool everywhere = false;
    (void)parts_needs_node(part, STR(""), &everywhere);
    if (everywhere) {
        map_foreach(&p->nodes, i)
            (void)plan_world_borrow(w, &map_value(&p->nodes, i)->object);
        return;
    }
    for (size_t i = 0; i < part->slices.n; i++) {
        const struct api_resource_slice *s = part->slices.p[i].value;
        const struct api_object *node = parts_find_object(&p->nodes, s->spec.node_name);
        if (node && !world_find(w, PLAN_NODE, s->spec.node_name))
            (void)plan_world_borrow(w, node);
    }
}

static void borrow_claims(struct inventory_parts *p, const struct part *part, struct plan_world *w)
{
    cleanup_sbuf struct sbuf name = {0};
    for (size_t i = 0; i < part->claims.n; i++) {
        const struct api_resource_claim *c = part->claims.p[i].value;
        (void)plan_world_borrow(w, &part->claims.p[i]);
        for (size_t k = 0; k < c->status.reserved_for.n; k++) {
            sbuf_clear(&name);
            add_full_name(&name, c->metadata.namespace, c->status.reserved_for.p[k].name);
            const struct api_object *pod = parts_find_object(&p->pods, sbuf_str(&name));
            if (pod && !world_find(w, PLAN_POD, sbuf_str(&name)))
                (void)plan_world_borrow(w, pod);
        }
    }
}

static int part_look(struct inventory_parts *p, struct part *part, struct err *err)
{
    const struct inventory_options o = {.features = p->features, .nodes_known = true};
    part_forget(part);
    part->world = plan_world_new();
    for (size_t i = 0; i < part->slices.n; i++)
        (void)plan_world_borrow(part->world, &part->slices.p[i]);
    for (size_t i = 0; i < p->rules.n; i++)
        (void)plan_world_borrow(part->world, &p->rules.p[i]);
    borrow_nodes(p, part, part->world);
    borrow_claims(p, part, part->world);
    int r = inventory_new(part->world, &o, &part->inv, err);
    part->stale = r < 0;
    return r;
}

// --- Putting together ----------------------------------------------------------------------------

struct sum {
    size_t devices, pools, claims, holds;
};

static struct sum parts_sum_counts(const struct inventory_parts *p)
{
    struct sum n = {0};
    map_foreach(&p->parts, i) {
        const struct inventory *inv = (*map_value(&p->parts, i))->inv;
        n.devices += inv->devices_len;
        n.pools += inv->pools_len;
        n.claims += inv->claims_len;
        n.holds += inv->holds_len;
    }
    return n;
}

struct claim_places MAP(uint32_t);

// Claims that have devices of several pools are in several parts, and count once.
static uint32_t parts_add_claim(struct inventory *all, const struct inventory_claim *c,
                                struct claim_places *seen)
{
    const struct api_device_request_allocation_result_array *rs =
        &c->claim->status.allocation->devices.results;
    bool several = false, is_new = true;
    for (size_t i = 1; i < rs->n; i++)
        several = several || !str_eq(rs->p[i].pool, rs->p[0].pool) ||
                  !str_eq(rs->p[i].driver, rs->p[0].driver);
    uint32_t *at = several ? map_put_new(seen, c->name, &is_new) : NULL;
    if (!is_new)
        return *at;
    if (at)
        *at = (uint32_t)all->claims_len;
    all->claims[all->claims_len] = *c;
    return (uint32_t)all->claims_len++;
}

// Holds of devices that are gone are those of other pools here: only what a part has is taken over.
static void add_part(struct inventory *all, const struct inventory *inv, uint32_t *claims,
                     struct claim_places *seen)
{
    size_t first_device = all->devices_len, first_hold = all->holds_len;
    for (size_t i = 0; i < inv->claims_len; i++)
        claims[i] = parts_add_claim(all, &inv->claims[i], seen);
    for (size_t i = 0; i < inv->holds_len; i++) {
        struct inventory_hold h = inv->holds[i];
        if (h.device == UINT32_MAX)
            break; // they come last
        h.claim = claims[h.claim];
        h.device += (uint32_t)first_device;
        all->holds[all->holds_len++] = h;
    }
    for (size_t i = 0; i < inv->devices_len; i++) {
        struct inventory_device *d = &all->devices[all->devices_len++];
        *d = inv->devices[i];
        d->first_hold += (uint32_t)first_hold;
        d->pool += (uint32_t)all->pools_len;
    }
    for (size_t i = 0; i < inv->pools_len; i++)
        all->pools[all->pools_len++] = inv->pools[i];
}

static void add_nodes(struct inventory_parts *p, struct inventory *all)
{
    all->nodes = arena_array(&all->arena, struct inventory_node, map_len(&p->nodes) + 1);
    map_foreach(&p->nodes, i) {
        const struct api_node *node = map_value(&p->nodes, i)->object.value;
        all->nodes[all->nodes_len++] =
            (struct inventory_node){.name = node->metadata.name, .node = node};
    }
}

static void add_pending(struct inventory_parts *p, struct inventory *all)
{
    map_foreach(&p->pods, i) {
        const struct api_object *o = &map_value(&p->pods, i)->object;
        if (((const struct api_pod *)o->value)->spec.node_name.n == 0)
            (void)plan_world_borrow(all->world, o);
    }
    inventory_pending(all);
}

static struct inventory *put_together(struct inventory_parts *p)
{
    struct inventory *all = xcalloc(1, sizeof(*all));
    struct sum n = parts_sum_counts(p);
    cleanup_free uint32_t *claims = xcalloc(n.claims + 1, sizeof(*claims));
    struct claim_places seen = {0};
    all->world = p->waiting;
    all->devices = arena_array(&all->arena, struct inventory_device, n.devices + 1);
    all->pools = arena_array(&all->arena, struct inventory_pool, n.pools + 1);
    all->claims = arena_array(&all->arena, struct inventory_claim, n.claims + 1);
    all->holds = arena_array(&all->arena, struct inventory_hold, n.holds + 1);
    map_foreach(&p->parts, i)
        add_part(all, (*map_value(&p->parts, i))->inv, claims, &seen);
    add_nodes(p, all);
    inventory_sort_by_node(all);
    add_pending(p, all);
    map_done(&seen);
    return all;
}

// Pools of which nothing is left.
static void drop_empty(struct inventory_parts *p)
{
    map_foreach(&p->parts, i) {
        struct part *part = *map_value(&p->parts, i);
        if (part->slices.n || part->claims.n)
            continue;
        (void)map_del(&p->parts, map_key(&p->parts, i));
        part_free(part);
    }
}

int inventory_parts_update(struct inventory_parts *p, const struct inventory **ret, struct err *err)
{
    inventory_free(p->all);
    plan_world_free(p->waiting);
    p->all = NULL;
    p->waiting = plan_world_new();
    drop_empty(p);
    map_foreach(&p->parts, i) {
        struct part *part = *map_value(&p->parts, i);
        int r = part->stale || !part->inv ? part_look(p, part, err) : 0;
        if (r < 0)
            return r;
    }
    p->all = put_together(p);
    *ret = p->all;
    return 0;
}

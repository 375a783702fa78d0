// SPDX-License-Identifier: Apache-2.0
//
// The inventory of a world: pools with their newest generation, devices with state and holders, and
// waiting pods.
#include "plan/inventory.h"

#include "api/match/node.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

const char *inventory_state_name(enum inventory_state s)
{
    static const char *const names[] = {"free",    "part", "held",  "blocked",
                                        "tainted", "lost", "broken"};
    return names[s];
}

// What is gathered before its number is known.
struct gather {
    struct inventory *inv;
    struct VEC(const struct api_resource_slice *) slices;
    struct VEC(const struct api_device_class *) classes;
    struct VEC(const struct api_device_taint_rule *) rules;
    struct VEC(const struct api_resource_claim *) claims;
    struct VEC(struct inventory_pool) pools;
    struct VEC(struct inventory_device) devices;
    struct VEC(struct inventory_hold) holds;
    struct pool_names MAP(uint32_t) pool_names;     // driver/pool
    struct device_names MAP(uint32_t) device_names; // driver/pool/device
    struct node_names MAP(uint32_t) node_names;
    uint32_t *of_number; // device of each number of the allocator's snapshot; UINT32_MAX: stale
};

// Puts a text behind at; returns its end.
static char *inventory_append_text(char *at, struct str s, char behind)
{
    if (s.n)
        memcpy(at, s.p, s.n);
    at[s.n] = behind;
    return at + s.n + 1;
}

// driver/pool/device; there are many, so without printf.
static struct str id_text(struct arena *a, const struct alloc_device_id *id)
{
    size_t n = id->driver.n + id->pool.n + id->device.n + 2;
    char *p = arena_alloc(a, n + 1, 1);
    (void)inventory_append_text(inventory_append_text(inventory_append_text(p, id->driver, '/'),
                                                      id->pool, '/'),
                                id->device, '\0');
    return str_make(p, n);
}

// --- Pools ---------------------------------------------------------------------------------------

static uint32_t pool_of(struct gather *g, const struct api_resource_slice_spec *s)
{
    bool is_new = false;
    struct str key =
        arena_strf(&g->inv->arena, "%.*s/%.*s", STR_ARG(s->driver), STR_ARG(s->pool.name));
    uint32_t *at = map_put_new(&g->pool_names, key, &is_new);
    if (is_new) {
        *at = (uint32_t)g->pools.n;
        vec_push(&g->pools, (struct inventory_pool){.driver = s->driver,
                                                    .name = s->pool.name,
                                                    .node = s->node_name,
                                                    .generation = s->pool.generation});
    }
    return *at;
}

// Slices of the newest generation count; older ones are stale.
static void gather_pools(struct gather *g)
{
    for (size_t i = 0; i < g->slices.n; i++) {
        const struct api_resource_slice_spec *s = &g->slices.p[i]->spec;
        uint32_t at = pool_of(g, s); // which may move the pools
        struct inventory_pool *p = &g->pools.p[at];
        if (s->pool.generation > p->generation) {
            p->stale += p->slices;
            p->slices = 0;
            p->generation = s->pool.generation;
        }
        if (s->pool.generation < p->generation) {
            p->stale++;
            continue;
        }
        p->slices++;
        p->slices_wanted = (size_t)s->pool.resource_slice_count;
        if (!str_eq(p->node, s->node_name))
            p->node = (struct str){0};
    }
    for (size_t i = 0; i < g->pools.n; i++) {
        struct inventory_pool *p = &g->pools.p[i];
        if (p->slices != p->slices_wanted)
            p->problem =
                arena_strf(&g->inv->arena, "%zu of %zu slices of generation %lld are there",
                           p->slices, p->slices_wanted, (long long)p->generation);
    }
}

// --- Devices -------------------------------------------------------------------------------------

static void gather_devices(struct gather *g)
{
    struct inventory *inv = g->inv;
    size_t n = alloc_cluster_devices(inv->cluster);
    const struct api_resource_slice *before = NULL; // devices of a slice follow each other
    uint32_t pool = 0;
    g->of_number = arena_array(&inv->arena, uint32_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        struct alloc_seen seen = alloc_cluster_device(inv->cluster, i);
        assert(seen.slice);
        const struct api_resource_slice_spec *s = &seen.slice->spec;
        if (seen.slice != before)
            pool = pool_of(g, s);
        before = seen.slice;
        g->of_number[i] = UINT32_MAX;
        if (s->pool.generation < g->pools.p[pool].generation)
            continue;
        struct inventory_device d = {.id = {s->driver, s->pool.name, seen.device->name},
                                     .node = s->node_name.n ? s->node_name : seen.device->node_name,
                                     .device = seen.device,
                                     .slice = seen.slice,
                                     .taints = seen.taints,
                                     .pool = pool,
                                     .number = i,
                                     .state = INVENTORY_LOST,
                                     .shared = seen.shared};
        bool is_new = false;
        uint32_t *at = map_put_new(&g->device_names, id_text(&inv->arena, &d.id), &is_new);
        if (is_new)
            *at = (uint32_t)g->devices.n;
        else
            g->pools.p[pool].problem =
                arena_strf(&inv->arena, "device %.*s is there twice", STR_ARG(seen.device->name));
        g->of_number[i] = (uint32_t)g->devices.n;
        g->pools.p[pool].devices++;
        vec_push(&g->devices, d);
    }
}

static struct str inventory_taint_text(struct arena *a, const struct api_device_taint *t)
{
    return arena_strf(a, "%.*s%s%.*s:%.*s", STR_ARG(t->key), t->value.n ? "=" : "",
                      STR_ARG(t->value), STR_ARG(t->effect));
}

static const struct api_device_taint *hard_taint(const struct inventory_device *d)
{
    for (size_t i = 0; i < d->taints.n; i++)
        if (!str_eqz(d->taints.p[i].effect, "None"))
            return &d->taints.p[i];
    return NULL;
}

// The allocator's view of a device, seen from a node that has access to it.
static void inventory_set_state(struct inventory *inv, struct inventory_device *d,
                                const struct alloc_view *v, size_t i, const struct alloc_room *room)
{
    struct alloc_seen seen = alloc_cluster_device(inv->cluster, room->device);
    const struct api_device_taint *taint = hard_taint(d);
    if (seen.exclusive_use || room->full) {
        d->state = INVENTORY_HELD;
    } else if (room->lacks.n) {
        d->state = INVENTORY_BLOCKED;
        d->why = arena_strf(&inv->arena, "others use %.*s", STR_ARG(room->lacks));
    } else if (taint) {
        d->state = INVENTORY_TAINTED;
        d->why = inventory_taint_text(&inv->arena, taint);
    } else {
        d->state = seen.shared_use ? INVENTORY_PART : INVENTORY_FREE;
    }
    if (!seen.shared_use)
        return;
    struct str *left = arena_array(&inv->arena, struct str, d->device->capacity.n + 1);
    for (size_t k = 0; k < d->device->capacity.n; k++)
        left[k] = alloc_view_left(v, i, k, &inv->arena);
    d->left = left;
}

static void look_from(struct gather *g, struct inventory_node *n)
{
    struct err err = {0};
    struct inventory *inv = g->inv;
    if (alloc_view_new(inv->cluster, n->node, &n->view, &err) < 0)
        return;
    for (size_t i = 0; i < alloc_view_pools(n->view); i++) {
        struct alloc_pool_seen p = alloc_view_pool(n->view, i);
        const uint32_t *at =
            p.invalid ? map_get(&g->pool_names, arena_strf(&inv->arena, "%.*s/%.*s",
                                                           STR_ARG(p.driver), STR_ARG(p.name)))
                      : NULL;
        if (at && !g->pools.p[*at].problem.n)
            g->pools.p[*at].problem = arena_str(&inv->arena, p.reason);
    }
    for (size_t i = 0; i < alloc_view_devices(n->view); i++) {
        struct alloc_room room = alloc_view_room(n->view, i);
        uint32_t at = g->of_number[room.device];
        struct inventory_device *d = at == UINT32_MAX ? NULL : &g->devices.p[at];
        if (!d || !room.here || d->state != INVENTORY_LOST)
            continue;
        if (room.supported)
            inventory_set_state(inv, d, n->view, i, &room);
        else
            d->why = STR("the node cannot prepare it");
    }
}

// Devices that no node can use say why.
static void explain_lost(struct gather *g)
{
    for (size_t i = 0; i < g->devices.n; i++) {
        struct inventory_device *d = &g->devices.p[i];
        if (d->state != INVENTORY_LOST || d->why.n)
            continue;
        const struct inventory_pool *p = &g->pools.p[d->pool];
        if (p->problem.n)
            d->why = p->problem;
        else if (d->node.n && !map_has(&g->node_names, d->node))
            d->why = arena_strf(&g->inv->arena, "node %.*s is not there", STR_ARG(d->node));
        else
            d->why = STR("no node has access to it");
    }
}

// --- Nodes ---------------------------------------------------------------------------------------

static void infer_nodes(struct gather *g)
{
    for (size_t i = 0; i < g->slices.n; i++)
        if (g->slices.p[i]->spec.node_name.n)
            (void)map_put(&g->node_names, g->slices.p[i]->spec.node_name);
    if (map_len(&g->node_names) == 0 && g->slices.n)
        (void)map_put(&g->node_names, STR("any-node"));
}

static void gather_nodes(struct gather *g, bool known)
{
    struct inventory *inv = g->inv;
    world_foreach(inv->world, PLAN_NODE, o)(void) map_put(&g->node_names, o->name);
    known = known || map_len(&g->node_names) > 0;
    if (!known)
        infer_nodes(g);
    inv->nodes = arena_array(&inv->arena, struct inventory_node, map_len(&g->node_names) + 1);
    map_foreach(&g->node_names, i) {
        struct inventory_node *n = &inv->nodes[inv->nodes_len];
        const struct plan_object *o =
            known ? world_find(inv->world, PLAN_NODE, map_key(&g->node_names, i)) : NULL;
        struct api_node *made = arena_one(&inv->arena, struct api_node);
        n->name = made->metadata.name = map_key(&g->node_names, i);
        n->node = o ? o->value : made;
        *map_value(&g->node_names, i) = (uint32_t)inv->nodes_len++;
    }
}

// The node of each device; devices of one follow each other. UINT32_MAX: of none in particular.
static uint32_t *inventory_index_nodes(struct inventory *inv)
{
    struct node_numbers MAP(uint32_t) numbers = {0};
    uint32_t *of = arena_array(&inv->arena, uint32_t, inv->devices_len + 1);
    for (size_t i = 0; i < inv->nodes_len; i++)
        *map_put(&numbers, inv->nodes[i].name) = (uint32_t)i;
    for (size_t i = 0; i < inv->devices_len; i++) {
        bool same = i > 0 && str_eq(inv->devices[i].node, inv->devices[i - 1].node);
        const uint32_t *n = same ? &of[i - 1] : map_get(&numbers, inv->devices[i].node);
        of[i] = n ? *n : UINT32_MAX;
    }
    map_done(&numbers);
    return of;
}

void inventory_sort_by_node(struct inventory *inv)
{
    uint32_t at = 0;
    const uint32_t *of = inventory_index_nodes(inv);
    inv->by_node = arena_array(&inv->arena, uint32_t, inv->devices_len + 1);
    for (size_t i = 0; i < inv->devices_len; i++)
        if (of[i] != UINT32_MAX)
            inv->nodes[of[i]].devices++;
    for (size_t i = 0; i < inv->nodes_len; i++) {
        inv->nodes[i].first = at;
        at += inv->nodes[i].devices;
        inv->nodes[i].devices = 0;
    }
    for (size_t i = 0; i < inv->devices_len; i++)
        if (of[i] != UINT32_MAX) {
            inv->devices[i].simulated = node_is_simulated(inv->nodes[of[i]].node);
            inv->by_node[inv->nodes[of[i]].first + inv->nodes[of[i]].devices++] = (uint32_t)i;
        }
}

// --- Claims --------------------------------------------------------------------------------------

static void find_since(struct inventory_claim *c)
{
    const struct api_object_meta *m = &c->claim->metadata;
    if (c->claim->status.allocation->allocation_timestamp.set) {
        c->since = c->claim->status.allocation->allocation_timestamp;
        c->since_how = INVENTORY_SINCE_ALLOCATION;
        return;
    }
    for (size_t i = 0; i < m->managed_fields.n; i++) {
        const struct api_managed_fields_entry *e = &m->managed_fields.p[i];
        if (e->time.set && str_contains(e->fields_v1, STR("\"f:allocation\""))) {
            c->since = e->time;
            c->since_how = INVENTORY_SINCE_FIELDS;
            return;
        }
    }
    c->since = m->creation_timestamp;
    c->since_how = c->since.set ? INVENTORY_SINCE_CREATION : INVENTORY_SINCE_UNKNOWN;
}

static void find_pods(struct inventory *inv, struct inventory_claim *c)
{
    cleanup_sbuf struct sbuf names = {0};
    const struct api_resource_claim_consumer_reference_array *refs = &c->claim->status.reserved_for;
    for (size_t i = 0; i < refs->n; i++) {
        sbuf_addf(&names, "%s%.*s", i ? ", " : "", STR_ARG(refs->p[i].name));
        const struct plan_object *o =
            str_eqz(refs->p[i].resource, "pods")
                ? world_find(inv->world, PLAN_POD,
                             world_full_name(&inv->arena, c->claim->metadata.namespace,
                                             refs->p[i].name))
                : NULL;
        if (o)
            c->node = arena_str(&inv->arena, ((const struct api_pod *)o->value)->spec.node_name);
    }
    c->pods = arena_str(&inv->arena, sbuf_str(&names));
}

static const struct api_allocated_device_status *inventory_find_status(
    const struct api_resource_claim *c, const struct api_device_request_allocation_result *r)
{
    for (size_t i = 0; i < c->status.devices.n; i++) {
        const struct api_allocated_device_status *s = &c->status.devices.p[i];
        if (str_eq(s->driver, r->driver) && str_eq(s->pool, r->pool) &&
            str_eq(s->device, r->device) && str_eq(s->share_id, r->share_id))
            return s;
    }
    return NULL;
}

// Conditions by which drivers tell that a device does not work; empty: none does.
static struct str inventory_trouble_text(struct arena *a,
                                         const struct api_allocated_device_status *s)
{
    for (size_t i = 0; s && i < s->conditions.n; i++) {
        const struct api_condition *c = &s->conditions.p[i];
        if ((str_eqz(c->type, "Ready") || str_eqz(c->type, "Healthy")) &&
            str_eqz(c->status, "False"))
            return arena_strf(a, "%.*s is False%s%.*s%s%.*s", STR_ARG(c->type),
                              c->reason.n ? ", " : "", STR_ARG(c->reason), c->message.n ? ": " : "",
                              STR_ARG(c->message));
    }
    return (struct str){0};
}

static void add_holds(struct gather *g, uint32_t claim)
{
    const struct api_resource_claim *c = g->inv->claims[claim].claim;
    const struct api_device_request_allocation_result_array *rs =
        &c->status.allocation->devices.results;
    for (size_t i = 0; i < rs->n; i++) {
        struct alloc_device_id id = {rs->p[i].driver, rs->p[i].pool, rs->p[i].device};
        const uint32_t *at = map_get(&g->device_names, id_text(&g->inv->arena, &id));
        struct inventory_hold h = {.claim = claim,
                                   .device = at ? *at : UINT32_MAX,
                                   .result = &rs->p[i],
                                   .status = inventory_find_status(c, &rs->p[i])};
        if (at && inventory_trouble_text(&g->inv->arena, h.status).n)
            g->devices.p[*at].unhealthy = true;
        vec_push(&g->holds, h);
    }
}

static int hold_cmp(const void *x, const void *y)
{
    const struct inventory_hold *a = x;
    const struct inventory_hold *b = y;
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    return a->claim < b->claim ? -1 : a->claim > b->claim;
}

static void gather_claims(struct gather *g)
{
    struct inventory *inv = g->inv;
    inv->claims = arena_array(&inv->arena, struct inventory_claim, g->claims.n + 1);
    for (size_t i = 0; i < g->claims.n; i++) {
        if (!g->claims.p[i]->status.allocation)
            continue;
        struct inventory_claim *c = &inv->claims[inv->claims_len];
        c->claim = g->claims.p[i];
        c->name =
            world_full_name(&inv->arena, c->claim->metadata.namespace, c->claim->metadata.name);
        find_since(c);
        find_pods(inv, c);
        add_holds(g, (uint32_t)inv->claims_len++);
    }
    if (g->holds.n)
        qsort(g->holds.p, g->holds.n, sizeof(*g->holds.p), hold_cmp);
    for (size_t i = 0; i < g->holds.n && g->holds.p[i].device != UINT32_MAX; i++) {
        struct inventory_device *d = &g->devices.p[g->holds.p[i].device];
        if (d->holds_len++ == 0)
            d->first_hold = (uint32_t)i;
    }
}

static bool inventory_in_use(const struct inventory_device *d)
{
    return d->state == INVENTORY_HELD || d->state == INVENTORY_PART ||
           (d->holds_len && d->state == INVENTORY_TAINTED);
}

// Devices that are in use and do not work, or are tainted under their users.
static void inventory_mark_broken(struct gather *g)
{
    struct arena *arena = &g->inv->arena;
    for (size_t i = 0; i < g->devices.n; i++) {
        struct inventory_device *d = &g->devices.p[i];
        const struct api_device_taint *taint = hard_taint(d);
        if (!inventory_in_use(d) || (!d->unhealthy && !taint))
            continue;
        d->state = INVENTORY_BROKEN;
        d->why = taint ? inventory_taint_text(arena, taint) : (struct str){0};
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len && !d->why.n; k++)
            d->why = inventory_trouble_text(arena, g->holds.p[k].status);
    }
}

// --- Pods that wait ------------------------------------------------------------------------------

static struct str inventory_pod_message(const struct api_pod *p)
{
    for (size_t i = 0; i < p->status.conditions.n; i++)
        if (str_eqz(p->status.conditions.p[i].type, "PodScheduled"))
            return p->status.conditions.p[i].message;
    return (struct str){0};
}

static int pending_cmp(const void *x, const void *y)
{
    const struct inventory_pending *a = x;
    const struct inventory_pending *b = y;
    if (a->claims != b->claims)
        return a->claims ? -1 : 1;
    int r = moment_cmp(a->since.at, b->since.at);
    return r ? r : str_cmp(a->pod, b->pod);
}

void inventory_pending(struct inventory *inv)
{
    struct VEC(struct inventory_pending) list = {0};
    world_foreach(inv->world, PLAN_POD, o)
    {
        const struct api_pod *p = o->value;
        if (p->spec.node_name.n || p->metadata.deletion_timestamp.set ||
            (p->status.phase.n && !str_eqz(p->status.phase, "Pending")))
            continue;
        vec_push_arena(&inv->arena, &list,
                       (struct inventory_pending){.pod = o->name,
                                                  .since = p->metadata.creation_timestamp,
                                                  .reason = inventory_pod_message(p),
                                                  .claims = p->spec.resource_claims.n > 0});
    }
    if (list.n)
        qsort(list.p, list.n, sizeof(*list.p), pending_cmp);
    inv->pending = list.p;
    inv->pending_len = list.n;
}

// --- Everything ----------------------------------------------------------------------------------

static void gather_objects(struct gather *g, const struct inventory_options *o)
{
    world_foreach(g->inv->world, PLAN_SLICE, s) vec_push(&g->slices, s->value);
    world_foreach(g->inv->world, PLAN_CLASS, c) vec_push(&g->classes, c->value);
    world_foreach(g->inv->world, PLAN_RULE, r) vec_push(&g->rules, r->value);
    world_foreach(g->inv->world, PLAN_CLAIM, c) vec_push(&g->claims, c->value);
    if (o->extra)
        vec_push(&g->classes, o->extra);
}

static int make_cluster(struct gather *g, const struct inventory_options *o, struct err *err)
{
    const struct alloc_input in = {.features = o->features,
                                   .slices = g->slices.p,
                                   .slices_len = g->slices.n,
                                   .classes = g->classes.p,
                                   .classes_len = g->classes.n,
                                   .taint_rules = g->rules.p,
                                   .taint_rules_len = g->rules.n,
                                   .claims = g->claims.p,
                                   .claims_len = g->claims.n};
    return alloc_cluster_new(&in, &g->inv->cluster, err);
}

// Hands what was gathered over, in arrays of the inventory's arena.
static void inventory_add_device(struct gather *g)
{
    struct inventory *inv = g->inv;
    inv->devices_len = g->devices.n;
    inv->pools_len = g->pools.n;
    inv->holds_len = g->holds.n;
    inv->devices = arena_dup(&inv->arena, g->devices.p, g->devices.n * sizeof(*g->devices.p),
                             _Alignof(struct inventory_device));
    inv->pools = arena_dup(&inv->arena, g->pools.p, g->pools.n * sizeof(*g->pools.p),
                           _Alignof(struct inventory_pool));
    inv->holds = arena_dup(&inv->arena, g->holds.p, g->holds.n * sizeof(*g->holds.p),
                           _Alignof(struct inventory_hold));
}

static void gather_done(struct gather *g)
{
    vec_done(&g->slices);
    vec_done(&g->classes);
    vec_done(&g->rules);
    vec_done(&g->claims);
    vec_done(&g->pools);
    vec_done(&g->devices);
    vec_done(&g->holds);
    map_done(&g->pool_names);
    map_done(&g->device_names);
    map_done(&g->node_names);
}

int inventory_new(struct plan_world *w, const struct inventory_options *options,
                  struct inventory **ret, struct err *err)
{
    struct inventory *inv = xcalloc(1, sizeof(*inv));
    struct gather g = {.inv = inv};
    inv->world = w;
    gather_objects(&g, options);
    int r = make_cluster(&g, options, err);
    if (r == 0) {
        gather_pools(&g);
        gather_devices(&g);
        gather_nodes(&g, options->nodes_known);
        for (size_t i = 0; !options->no_views && i < inv->nodes_len; i++)
            look_from(&g, &inv->nodes[i]);
        explain_lost(&g);
        gather_claims(&g);
        inventory_mark_broken(&g);
        inventory_add_device(&g);
        inventory_sort_by_node(inv);
        inventory_pending(inv);
    }
    gather_done(&g);
    if (r < 0)
        inventory_free(inv);
    else
        *ret = inv;
    return r;
}

void inventory_free(struct inventory *inv)
{
    if (!inv)
        return;
    for (size_t i = 0; i < inv->nodes_len; i++)
        alloc_view_free(inv->nodes[i].view);
    alloc_cluster_free(inv->cluster);
    arena_done(&inv->arena);
    free(inv);
}

// --- Names and values ----------------------------------------------------------------------------

void inventory_name(const struct alloc_device_id *id, struct sbuf *out)
{
    sbuf_addf(out, "%.*s/%.*s/%.*s", STR_ARG(id->driver), STR_ARG(id->pool), STR_ARG(id->device));
}

bool inventory_simulated(const struct inventory *inv, struct str node)
{
    for (size_t i = 0; i < inv->nodes_len; i++)
        if (str_eq(inv->nodes[i].name, node))
            return node_is_simulated(inv->nodes[i].node);
    return false;
}

// The parts of a name: one, two or three.
static bool inventory_is_named(const struct inventory_device *d, const struct str *part, size_t n)
{
    if (!str_eq(d->id.device, part[n - 1]))
        return false;
    if (n == 3)
        return str_eq(d->id.driver, part[0]) && str_eq(d->id.pool, part[1]);
    return n == 1 || str_eq(d->id.pool, part[0]) || str_eq(d->node, part[0]) ||
           str_eq(d->id.driver, part[0]);
}

// Pools may have slashes in their names: the driver is before the first, the device behind the
// last.
static size_t cut_name(struct str name, struct str part[3])
{
    ptrdiff_t first = str_find_char(name, '/');
    ptrdiff_t last = str_rfind_char(name, '/');
    if (first < 0) {
        part[0] = name;
        return 1;
    }
    part[0] = str_upto(name, (size_t)first);
    part[1] = str_from(name, (size_t)last + 1);
    if (first == last)
        return 2;
    part[2] = part[1];
    part[1] = str_upto(str_from(name, (size_t)first + 1), (size_t)(last - first - 1));
    return 3;
}

size_t inventory_find(const struct inventory *inv, struct str name,
                      void (*fn)(void *arg, uint32_t device), void *arg)
{
    struct str part[3] = {0};
    size_t n = cut_name(name, part);
    size_t found = 0;
    for (size_t i = 0; i < inv->devices_len; i++) {
        if (!inventory_is_named(&inv->devices[i], part, n))
            continue;
        found++;
        if (fn)
            fn(arg, (uint32_t)i);
    }
    return found;
}

const struct api_device_attribute *inventory_attribute(const struct inventory_device *d,
                                                       struct str name)
{
    struct str domain, local;
    bool qualified = str_cut(name, '/', &domain, &local);
    for (size_t i = 0; i < d->device->attributes.n; i++) {
        struct str key = d->device->attributes.p[i].key;
        if (str_eq(key, name) || (qualified && str_eq(domain, d->id.driver) && str_eq(key, local)))
            return &d->device->attributes.p[i].value;
    }
    return NULL;
}

void inventory_value(const struct api_device_attribute *a, struct sbuf *out)
{
    if (a->has_int_value)
        sbuf_add_i64(out, a->int_value);
    else if (a->has_bool_value)
        sbuf_addz(out, a->bool_value ? "true" : "false");
    else if (a->has_string_value || a->has_version_value)
        sbuf_add(out, a->has_string_value ? a->string_value : a->version_value);
    for (size_t i = 0; i < a->int_values.n; i++)
        sbuf_addf(out, "%s%lld", i ? "," : "", (long long)a->int_values.p[i]);
    for (size_t i = 0; i < a->bool_values.n; i++)
        sbuf_addf(out, "%s%s", i ? "," : "", a->bool_values.p[i] ? "true" : "false");
    for (size_t i = 0; i < a->string_values.n; i++)
        sbuf_addf(out, "%s%.*s", i ? "," : "", STR_ARG(a->string_values.p[i]));
    for (size_t i = 0; i < a->version_values.n; i++)
        sbuf_addf(out, "%s%.*s", i ? "," : "", STR_ARG(a->version_values.p[i]));
}

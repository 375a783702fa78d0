// SPDX-License-Identifier: Apache-2.0
//
// What is free: devices of a class by state, and how many more claims would be served. Where devices are
// whole and independent, that is a count; where they are shared, or partitions that exclude each other,
// the allocator is asked until it says no.
#include "dray/cel.h"
#include "plan/inventory.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define EXTRA_CLASS "dray.dev/asked" // no API object can have this name
#define FITS_MAX    256              // claims tried at one place
#define TRIES_NS    (2 * CLOCK_NS_PER_SEC)

// --- The question --------------------------------------------------------------------------------

static int check_cel(struct str text, const struct alloc_features *f, struct err *err)
{
    const struct cel_env_options o = {.kind = CEL_ENV_DRA,
                                      .consumable_capacity = f->consumable_capacity,
                                      .list_type_attributes = f->list_type_attributes};
    struct cel_env *env = cel_env_new(&o);
    struct cel_program *p = NULL;
    int r = cel_compile(env, text, &p, NULL, err);
    if (r == 0)
        cel_program_free(p);
    cel_env_free(env);
    return r;
}

// The class that is asked for, with the expression as one more selector.
static int free_make_class(const struct plan_world *w, const struct free_question *q,
                           struct arena *arena, struct api_device_class *ret, struct err *err)
{
    const struct plan_object *o = q->class_name.n ? world_find(w, PLAN_CLASS, q->class_name) : NULL;
    if (q->class_name.n && !o)
        return err_set(err, ERR_NOT_FOUND, "there is no DeviceClass %.*s", STR_ARG(q->class_name));
    if (o)
        *ret = *(const struct api_device_class *)o->value;
    ret->metadata.name = STR(EXTRA_CLASS);
    if (!q->cel.n)
        return 0;
    size_t n = ret->spec.selectors.n;
    struct api_device_selector *all = arena_array(arena, struct api_device_selector, n + 1);
    if (n)
        memcpy(all, ret->spec.selectors.p, n * sizeof(*all));
    all[n].cel = arena_one(arena, struct api_cel_device_selector);
    all[n].cel->expression = q->cel;
    ret->spec.selectors = (struct api_device_selector_array){all, n + 1};
    return 0;
}

static struct api_resource_claim *one_device(struct arena *arena)
{
    struct api_resource_claim *c = arena_one(arena, struct api_resource_claim);
    struct api_device_request *r = arena_one(arena, struct api_device_request);
    r->name = STR("one");
    r->exactly = arena_one(arena, struct api_exact_device_request);
    r->exactly->device_class_name = STR(EXTRA_CLASS);
    r->exactly->allocation_mode = STR("ExactCount");
    r->exactly->count = 1;
    c->metadata.namespace = STR("dray");
    c->metadata.name = STR("asked");
    c->spec.devices.requests = (struct api_device_request_array){r, 1};
    return c;
}

// --- Counting ------------------------------------------------------------------------------------

struct counting {
    struct inventory *inv;
    const struct free_question *q;
    struct arena *arena;
    struct VEC(struct free_row) rows;
    struct VEC(uint32_t) devices;
    struct row_names MAP(uint32_t) names;
    struct places_asked MAP(bool) hard;                 // places where counting does not do
    struct VEC(const struct api_resource_claim *) held; // what is allocated, and what was tried
    int64_t end_ns;
};

static struct free_row *free_find_row(struct counting *c, struct str node)
{
    bool is_new = false;
    uint32_t *at = map_put_new(&c->names, node, &is_new);
    if (is_new) {
        *at = (uint32_t)c->rows.n;
        vec_push(&c->rows, (struct free_row){.node = node});
    }
    return &c->rows.p[*at];
}

static bool asked_for(const struct counting *c, struct str node)
{
    return !c->q->node.n || !node.n || str_eq(node, c->q->node);
}

static void free_count_device(struct counting *c, uint32_t at)
{
    const struct inventory_device *d = &c->inv->devices[at];
    enum alloc_selects s = alloc_cluster_selects(c->inv->cluster, STR(EXTRA_CLASS), d->number);
    if (s == ALLOC_SELECTS_NO || !asked_for(c, d->node))
        return;
    struct free_row *row = free_find_row(c, d->node);
    if (s == ALLOC_SELECTS_ERROR) {
        row->failed++;
        return;
    }
    row->devices++;
    row->states[d->state]++;
    bool open = d->state == INVENTORY_FREE || d->state == INVENTORY_PART;
    if (open)
        vec_push(&c->devices, at);
    if (open && (d->shared || d->device->consumes_counters.n))
        *map_put(&c->hard, d->node) = true;
}

// --- Asking the allocator ------------------------------------------------------------------------

static struct api_resource_claim *free_make_granted(struct counting *c,
                                                    const struct alloc_answer *a)
{
    struct api_resource_claim *claim = one_device(c->arena);
    struct api_allocation_result *got = arena_one(c->arena, struct api_allocation_result);
    api_copy(&api_allocation_result_type, a->results, got, c->arena);
    claim->metadata.name = arena_strf(c->arena, "asked-%zu", c->held.n);
    claim->status.allocation = got;
    return claim;
}

// Where the device that was given belongs to: it may be one that other nodes can have as well.
static struct free_row *free_find_place(struct counting *c, const struct api_allocation_result *a)
{
    const struct api_device_request_allocation_result *r = &a->devices.results.p[0];
    for (size_t i = 0; i < c->inv->pools_len; i++)
        if (str_eq(c->inv->pools[i].driver, r->driver) && str_eq(c->inv->pools[i].name, r->pool))
            return free_find_row(c, c->inv->pools[i].node);
    return free_find_row(c, (struct str){0});
}

// One more claim on a node; false when there is no room for it.
static bool try_one(struct counting *c, struct alloc_solver *s, const struct inventory_node *n)
{
    struct alloc_cluster *cluster = NULL;
    struct alloc_view *view = NULL;
    struct alloc_answer a = {.verdict = ALLOC_UNSATISFIABLE};
    const struct api_resource_claim *ask[] = {one_device(c->arena)};
    struct VEC(const struct api_resource_claim *) here = {0};
    for (size_t i = 0; i < c->held.n; i++) {
        const struct api_device_request_allocation_result_array *rs =
            &c->held.p[i]->status.allocation->devices.results;
        bool touches = false;
        for (size_t k = 0; k < rs->n && !touches; k++)
            touches = alloc_view_has_pool(n->view, rs->p[k].driver, rs->p[k].pool);
        if (touches)
            vec_push(&here, c->held.p[i]);
    }
    if (alloc_view_renew(n->view, here.p, here.n, &cluster, &view, NULL) == 0)
        alloc_solve(s, view, ask, 1, &a);
    bool yes = a.verdict == ALLOC_ALLOCATED;
    if (yes) {
        struct api_resource_claim *got = free_make_granted(c, &a);
        vec_push(&c->held, got);
        free_find_place(c, got->status.allocation)->fits++;
    }
    alloc_view_free(view);
    alloc_cluster_free(cluster);
    vec_done(&here);
    return yes;
}

static bool free_out_of_time(const struct counting *c)
{
    return c->q->clock && clock_mono_ns(c->q->clock) > c->end_ns;
}

// Whether the nodes of a place have to be asked.
static bool is_hard(const struct counting *c, struct str node)
{
    return map_has(&c->hard, node) || map_has(&c->hard, STR(""));
}

static void free_ask_nodes(struct counting *c)
{
    struct alloc_solver *s = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_PACK});
    for (size_t i = 0; i < c->inv->claims_len; i++)
        vec_push(&c->held, c->inv->claims[i].claim);
    for (size_t i = 0; i < c->inv->nodes_len; i++) {
        const struct inventory_node *n = &c->inv->nodes[i];
        size_t tried = 0;
        if (!n->view || !is_hard(c, n->name) || !asked_for(c, n->name) ||
            free_closed_has(c->q->closed, n->name))
            continue;
        while (tried < FITS_MAX && !free_out_of_time(c) && try_one(c, s, n))
            tried++;
        if (tried && (tried == FITS_MAX || free_out_of_time(c)))
            free_find_row(c, map_has(&c->names, n->name) ? n->name : STR(""))->more = true;
    }
    alloc_solver_free(s);
}

static void free_count_claims(struct counting *c)
{
    const struct inventory *inv = c->inv;
    bool *counted = arena_array(c->arena, bool, inv->devices_len + 1);
    for (size_t i = 0; i < inv->nodes_len; i++)
        for (uint32_t k = 0; k < inv->nodes[i].devices; k++) {
            uint32_t at = inv->by_node[inv->nodes[i].first + k];
            counted[at] = true;
            free_count_device(c, at);
        }
    for (size_t i = 0; i < inv->devices_len; i++)
        if (!counted[i])
            free_count_device(c, (uint32_t)i);
    for (size_t i = 0; i < c->rows.n; i++)
        if (!is_hard(c, c->rows.p[i].node) && !free_closed_has(c->q->closed, c->rows.p[i].node))
            c->rows.p[i].fits = c->rows.p[i].states[INVENTORY_FREE];
    free_ask_nodes(c);
}

static void add_up(const struct counting *c, struct free_answer *ret)
{
    *ret = (struct free_answer){.rows_len = c->rows.n, .devices_len = c->devices.n};
    ret->rows =
        arena_dup(c->arena, c->rows.p, c->rows.n * sizeof(*c->rows.p), _Alignof(struct free_row));
    ret->devices =
        arena_dup(c->arena, c->devices.p, c->devices.n * sizeof(*c->devices.p), _Alignof(uint32_t));
    for (size_t i = 0; i < c->rows.n; i++) {
        ret->total.devices += c->rows.p[i].devices;
        ret->total.failed += c->rows.p[i].failed;
        ret->total.fits += c->rows.p[i].fits;
        ret->total.more |= c->rows.p[i].more;
        for (size_t k = 0; k < INVENTORY_STATES; k++)
            ret->total.states[k] += c->rows.p[i].states[k];
    }
}

int free_find(struct plan_world *w, const struct free_question *q,
              const struct alloc_features *features, struct arena *arena,
              struct inventory **ret_inventory, struct free_answer *ret, struct err *err)
{
    struct api_device_class *class_ = arena_one(arena, struct api_device_class);
    const struct inventory_options o = {.features = *features, .extra = class_};
    struct inventory *inv = NULL;
    int r = free_make_class(w, q, arena, class_, err);
    if (r == 0 && q->cel.n)
        r = check_cel(q->cel, features, err);
    if (r == 0)
        r = inventory_new(w, &o, &inv, err);
    if (r < 0)
        return r;
    assert(inv); // that is what 0 means
    struct counting c = {.inv = inv, .q = q, .arena = arena};
    bool known = !q->node.n;
    for (size_t i = 0; i < inv->nodes_len; i++)
        known |= str_eq(inv->nodes[i].name, q->node);
    if (!known) {
        inventory_free(inv);
        return err_set(err, ERR_NOT_FOUND, "there is no node %.*s", STR_ARG(q->node));
    }
    c.end_ns = q->clock ? clock_mono_ns(q->clock) + TRIES_NS : 0;
    free_count_claims(&c);
    add_up(&c, ret);
    vec_done(&c.rows);
    vec_done(&c.devices);
    vec_done(&c.held);
    map_done(&c.names);
    map_done(&c.hard);
    *ret_inventory = inv;
    return 0;
}

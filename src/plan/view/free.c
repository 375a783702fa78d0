// SPDX-License-Identifier: Apache-2.0
//
// Free devices: devices of a class by state, and how many more claims for one of them would be
// served. The states come from the inventory, the second number from the scheduler (sim/probe.c),
// so that it counts what the scheduler counts: room for pods, taints, partitions, shares.
#include "cel/cel.h"
#include "plan/inventory.h"
#include "plan/sim/plan_int.h"
#include "plan/sim/probe.h"

#include "base/banned.h"

#define EXTRA_CLASS "dray.dev/free" // no API object can have this name

// --- The question --------------------------------------------------------------------------------

int inventory_check_cel(struct str text, const struct alloc_features *f, struct err *err)
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

// The class of the question, with the expression as one more selector.
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

// --- Counting ------------------------------------------------------------------------------------

struct counting {
    struct inventory *inv;
    const struct free_question *q;
    struct arena *arena;
    struct VEC(struct free_row) rows;
    struct VEC(uint32_t) devices;
    struct row_names MAP(uint32_t) names;
    const struct features *features;
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

static bool free_is_selected(const struct counting *c, struct str node)
{
    return !c->q->node.n || !node.n || str_eq(node, c->q->node);
}

static void free_count_device(struct counting *c, uint32_t at)
{
    const struct inventory_device *d = &c->inv->devices[at];
    enum alloc_selects s = alloc_cluster_selects(c->inv->cluster, STR(EXTRA_CLASS), d->number);
    if (s == ALLOC_SELECTS_NO || !free_is_selected(c, d->node))
        return;
    struct free_row *row = free_find_row(c, d->node);
    if (s == ALLOC_SELECTS_ERROR) {
        row->failed++;
        return;
    }
    row->devices++;
    row->states[d->state]++;
    if (d->state == INVENTORY_FREE || d->state == INVENTORY_PART)
        vec_push(&c->devices, at);
}

// --- Asking the scheduler ------------------------------------------------------------------------

// free_fit_row finds the row of a served claim: where its device is, which may be a device of
// several nodes.
static struct free_row *free_fit_row(struct counting *c, const struct api_allocation_result *a)
{
    const struct api_device_request_allocation_result *r = &a->devices.results.p[0];
    struct str node = {0};
    for (size_t i = 0; i < c->inv->pools_len && !node.n; i++)
        if (str_eq(c->inv->pools[i].driver, r->driver) && str_eq(c->inv->pools[i].name, r->pool))
            node = c->inv->pools[i].node;
    return free_find_row(c, node);
}

static void free_add_fit(void *arg, const struct api_allocation_result *a)
{
    free_fit_row(arg, a)->fits++;
}

static void free_add_tolerant_fit(void *arg, const struct api_allocation_result *a)
{
    free_fit_row(arg, a)->fits_tolerant++;
}

static void free_ask_scheduler(struct counting *c, const struct api_device_class *class)
{
    struct probe_question q = {.world = c->inv->world,
                               .features = c->features,
                               .class = class,
                               .node = c->q->node,
                               .guess = c->devices.n,
                               .clock = c->q->clock};
    bool tainted = probe_has_taints(c->inv->world);
    if (c->devices.n && !probe_count(&q, free_add_fit, c))
        for (size_t i = 0; i < c->rows.n; i++)
            c->rows.p[i].more = true;
    q.tolerant = true;
    if (c->devices.n && tainted)
        (void)probe_count(&q, free_add_tolerant_fit, c);
    for (size_t i = 0; i < c->rows.n; i++)
        if (!tainted || c->rows.p[i].fits_tolerant < c->rows.p[i].fits)
            c->rows.p[i].fits_tolerant = c->rows.p[i].fits;
}

static void free_count_devices(struct counting *c)
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
        ret->total.fits_tolerant += c->rows.p[i].fits_tolerant;
        ret->total.more |= c->rows.p[i].more;
        for (size_t k = 0; k < INVENTORY_STATES; k++)
            ret->total.states[k] += c->rows.p[i].states[k];
    }
}

int free_find(struct plan_world *w, const struct free_question *q, const struct features *features,
              struct arena *arena, struct inventory **ret_inventory, struct free_answer *ret,
              struct err *err)
{
    struct api_device_class *class_ = arena_one(arena, struct api_device_class);
    const struct inventory_options o = {.features = alloc_features_of(features), .extra = class_};
    struct inventory *inv = NULL;
    int r = free_make_class(w, q, arena, class_, err);
    if (r == 0 && q->cel.n)
        r = inventory_check_cel(q->cel, &o.features, err);
    if (r == 0)
        r = inventory_new(w, &o, &inv, err);
    if (r < 0)
        return r;
    assert(inv);
    struct counting c = {.inv = inv, .q = q, .arena = arena, .features = features};
    bool known = !q->node.n;
    for (size_t i = 0; i < inv->nodes_len; i++)
        known |= str_eq(inv->nodes[i].name, q->node);
    if (!known) {
        inventory_free(inv);
        return err_set(err, ERR_NOT_FOUND, "there is no node %.*s", STR_ARG(q->node));
    }
    free_count_devices(&c);
    free_ask_scheduler(&c, class_);
    add_up(&c, ret);
    vec_done(&c.rows);
    vec_done(&c.devices);
    map_done(&c.names);
    *ret_inventory = inv;
    return 0;
}

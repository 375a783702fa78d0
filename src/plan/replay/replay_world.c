// SPDX-License-Identifier: Apache-2.0
//
// A trace as the objects of a cluster: a node is a Node and a ResourceSlice whose devices can be
// shared and have a capacity of 1000 "milli" with a request policy; a pod's GPUs are a
// ResourceClaim that asks for so much of it, of so many devices, and names models in a CEL
// selector.
#include "api/api.h"
#include "plan/replay/replay_int.h"

#include "base/banned.h"

#define DRIVER   "gpu.trace.dray.dev"
#define CAPACITY DRIVER "/milli"
#define CLASS    "gpu"
#define MIB      (INT64_C(1) << 20)

static struct quantity *replay_world_make_number(struct arena *a, int64_t value)
{
    struct quantity *q = arena_one(a, struct quantity);
    *q = quantity_from_i64(value, QUANTITY_DECIMAL_SI);
    return q;
}

struct replay_world *replay_world_new(const struct replay_trace *t, bool whole, bool any_model)
{
    struct replay_world *w = xcalloc(1, sizeof(*w));
    struct alloc_features features = alloc_features_default();
    w->trace = t;
    w->whole = whole;
    w->any_model = any_model;
    w->kit = alloc_kit_new(&features);
    w->class_ = replay_world_make_class(&w->arena, CLASS, "device.driver == '" DRIVER "'");
    return w;
}

const struct api_device_class *replay_world_make_class(struct arena *a, const char *name,
                                                       const char *expression)
{
    struct api_device_class *c = arena_one(a, struct api_device_class);
    struct api_device_selector *s = arena_one(a, struct api_device_selector);
    c->metadata.name = str_z(name);
    s->cel = arena_one(a, struct api_cel_device_selector);
    s->cel->expression = str_z(expression);
    c->spec.selectors = (struct api_device_selector_array){s, 1};
    return c;
}

void replay_world_free(struct replay_world *w)
{
    if (!w)
        return;
    vec_foreach(&w->nodes, n) {
        alloc_view_free(n->view);
        alloc_cluster_free(n->state);
        alloc_cluster_free(n->base);
        vec_done(&n->uses);
    }
    vec_done(&w->nodes);
    map_done(&w->claims);
    alloc_kit_free(w->kit);
    arena_done(&w->arena);
    free(w);
}

// --- Nodes ---------------------------------------------------------------------------------------

static void make_capacity(struct arena *a, struct api_device *d)
{
    struct api_device_capacity_entry *c = arena_one(a, struct api_device_capacity_entry);
    struct api_capacity_request_policy *p = arena_one(a, struct api_capacity_request_policy);
    p->default_value = replay_world_make_number(a, REPLAY_WHOLE_GPU);
    p->valid_range = arena_one(a, struct api_capacity_request_policy_range);
    p->valid_range->min = replay_world_make_number(a, 1);
    p->valid_range->max = replay_world_make_number(a, REPLAY_WHOLE_GPU);
    p->valid_range->step = replay_world_make_number(a, 1);
    c->key = STR(CAPACITY);
    c->value.value = *replay_world_make_number(a, REPLAY_WHOLE_GPU);
    c->value.request_policy = p;
    d->capacity = (struct api_device_capacity_map){c, 1};
    d->has_allow_multiple_allocations = true;
    d->allow_multiple_allocations = true;
}

static struct api_device_attribute_map make_attributes(struct arena *a, struct str model,
                                                       uint32_t index)
{
    struct api_device_attribute_entry *e = arena_array(a, struct api_device_attribute_entry, 2);
    e[0].key = STR("index");
    e[0].value.has_int_value = true;
    e[0].value.int_value = index;
    e[1].key = STR("model");
    e[1].value.has_string_value = true;
    e[1].value.string_value = model;
    return (struct api_device_attribute_map){e, 2};
}

static struct api_resource_slice *replay_world_make_slice(struct replay_world *w,
                                                          const struct trace_node *n)
{
    struct arena *a = &w->arena;
    struct api_resource_slice *s = arena_one(a, struct api_resource_slice);
    s->metadata.name = n->name;
    s->spec.driver = STR(DRIVER);
    s->spec.pool = (struct api_resource_pool){n->name, 1, 1};
    s->spec.has_node_name = true;
    s->spec.node_name = n->name;
    struct api_device *d = arena_array(a, struct api_device, n->gpus);
    for (uint32_t i = 0; i < n->gpus; i++) {
        d[i].name = arena_strf(a, "gpu-%u", i);
        d[i].attributes = make_attributes(a, w->trace->models.p[n->model], i);
        if (!w->whole)
            make_capacity(a, &d[i]);
    }
    s->spec.devices = (struct api_device_array){d, n->gpus};
    return s;
}

static int replay_world_renew_node(struct world_node *n, struct err *err)
{
    struct alloc_input in = {.uses = n->uses.p, .uses_len = n->uses.n};
    struct alloc_cluster *old = n->state;
    n->state = alloc_cluster_in_use(n->base, &in);
    bool renewed = n->view && alloc_view_update(n->view, n->state);
    alloc_cluster_free(old);
    if (renewed)
        return 0;
    alloc_view_free(n->view);
    n->view = NULL;
    return alloc_view_new(n->state, n->node, &n->view, err);
}

int replay_world_put_node(struct replay_world *w, struct str name, const struct world_node *like,
                          const struct api_resource_slice *const *slices, size_t slices_len,
                          struct err *err)
{
    struct world_node n = *like;
    n.cpu = n.cpu_all;
    n.memory = n.memory_all;
    n.node = arena_one(&w->arena, struct api_node);
    n.node->metadata.name = name;
    struct api_quantity_entry *e = arena_array(&w->arena, struct api_quantity_entry, 2);
    e[0].key = STR("cpu");
    e[0].value = (struct quantity){.value = n.cpu, .scale = -3, .format = QUANTITY_DECIMAL_SI};
    e[1].key = STR("memory");
    e[1].value = quantity_from_i64(n.memory, QUANTITY_BINARY_SI);
    n.node->status.allocatable = (struct api_quantity_map){e, 2};
    struct alloc_input in = {.features = alloc_features_default(),
                             .kit = w->kit,
                             .slices = slices,
                             .slices_len = slices_len,
                             .classes = &w->class_,
                             .classes_len = 1};
    int r = alloc_cluster_new(&in, &n.base, err);
    if (r < 0)
        return r;
    vec_push(&w->nodes, n);
    return replay_world_renew_node(vec_last(&w->nodes), err);
}

int replay_world_add_node(struct replay_world *w, const struct trace_node *t, uint32_t order,
                          struct err *err)
{
    const struct world_node n = {
        .cpu_all = t->cpu, .memory_all = t->memory * MIB, .model = t->model, .order = order};
    const struct api_resource_slice *slice = replay_world_make_slice(w, t);
    return replay_world_put_node(w, t->name, &n, &slice, 1, err);
}

struct fleet_room replay_world_node_room(const struct world_node *n)
{
    return (struct fleet_room){.order = n->order,
                               .cpu = n->cpu,
                               .cpu_all = n->cpu_all,
                               .memory = n->memory,
                               .memory_all = n->memory_all};
}

// --- Pods ----------------------------------------------------------------------------------------

static struct api_device_selector_array model_selector(struct replay_world *w, uint64_t models)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "device.attributes['" DRIVER "'].model in [");
    for (size_t i = 0, n = 0; i < w->trace->models.n; i++)
        if (models >> i & 1) {
            sbuf_addz(&b, n++ ? ", " : "");
            sbuf_add_quoted(&b, w->trace->models.p[i]);
        }
    sbuf_addc(&b, ']');
    struct api_device_selector *s = arena_one(&w->arena, struct api_device_selector);
    s->cel = arena_one(&w->arena, struct api_cel_device_selector);
    s->cel->expression = arena_str(&w->arena, sbuf_str(&b));
    return (struct api_device_selector_array){s, 1};
}

static void ask_capacity(struct replay_world *w, struct api_exact_device_request *e, uint32_t milli)
{
    struct api_quantity_entry *q = arena_one(&w->arena, struct api_quantity_entry);
    q->key = STR(CAPACITY);
    q->value = *replay_world_make_number(&w->arena, milli);
    e->capacity = arena_one(&w->arena, struct api_capacity_requirements);
    e->capacity->requests = (struct api_quantity_map){q, 1};
}

// Parts of several GPUs are parts of different ones.
static void keep_apart(struct replay_world *w, struct api_resource_claim *c)
{
    struct api_device_constraint *k = arena_one(&w->arena, struct api_device_constraint);
    k->has_distinct_attribute = true;
    k->distinct_attribute = STR(DRIVER "/index");
    c->spec.devices.constraints = (struct api_device_constraint_array){k, 1};
}

static struct api_resource_claim *replay_world_build_claim(struct replay_world *w,
                                                           const struct trace_pod *p)
{
    struct arena *a = &w->arena;
    struct api_resource_claim *c = arena_one(a, struct api_resource_claim);
    struct api_device_request *r = arena_one(a, struct api_device_request);
    struct api_exact_device_request *e = arena_one(a, struct api_exact_device_request);
    uint64_t models = w->trace->specs.p[p->spec].models;
    c->metadata.namespace = STR("trace");
    c->metadata.name = p->name;
    r->name = STR("gpu");
    r->exactly = e;
    e->device_class_name = STR(CLASS);
    e->allocation_mode = STR("ExactCount");
    e->count = p->num;
    if (models != UINT64_MAX && !w->any_model)
        e->selectors = model_selector(w, models);
    if (!w->whole)
        ask_capacity(w, e, p->milli);
    if (!w->whole && p->num > 1 && p->milli < REPLAY_WHOLE_GPU)
        keep_apart(w, c);
    c->spec.devices.requests = (struct api_device_request_array){r, 1};
    return c;
}

const struct api_resource_claim *replay_world_make_claim(struct replay_world *w,
                                                         const struct trace_pod *p,
                                                         uint64_t *ret_hash)
{
    struct claim_key {
        uint32_t num, milli, spec;
    };
    const struct claim_key key = {p->num, w->whole ? REPLAY_WHOLE_GPU : p->milli, p->spec};
    *ret_hash = 0;
    if (!p->num)
        return NULL;
    struct world_claim *known = map_get(&w->claims, str_make((const char *)&key, sizeof(key)));
    if (!known) {
        const char *own = arena_dup(&w->arena, &key, sizeof(key), 4);
        known = map_put(&w->claims, str_make(own, sizeof(key)));
        known->claim = replay_world_build_claim(w, p);
        const struct api_resource_claim *claim = known->claim;
        known->hash = fleet_hash(&claim, 1);
    }
    known->claim->metadata.name = p->name;
    *ret_hash = known->hash;
    return known->claim;
}

int replay_world_allocate(struct replay_world *w, uint32_t node, const struct trace_pod *p,
                          const struct api_allocation_result *result, struct err *err)
{
    struct world_node *n = &w->nodes.p[node];
    n->cpu -= p->cpu;
    n->memory -= p->memory * MIB;
    if (!result)
        return 0;
    struct api_allocation_result *own = arena_one(&w->arena, struct api_allocation_result);
    api_copy(&api_allocation_result_type, result, own, &w->arena);
    for (size_t i = 0; i < own->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &own->devices.results.p[i];
        vec_push(&n->uses, (struct alloc_use){.id = {r->driver, r->pool, r->device},
                                              .exclusive = !r->has_share_id,
                                              .share = r->has_share_id,
                                              .has_capacity = r->consumed_capacity.p != NULL,
                                              .capacity = r->consumed_capacity,
                                              .owner = p->name});
    }
    return replay_world_renew_node(n, err);
}

int replay_world_release(struct replay_world *w, uint32_t node, struct str owner, struct err *err)
{
    struct world_node *n = &w->nodes.p[node];
    size_t kept = 0;
    for (size_t i = 0; i < n->uses.n; i++)
        if (!str_eq(n->uses.p[i].owner, owner))
            n->uses.p[kept++] = n->uses.p[i];
    n->uses.n = kept;
    return replay_world_renew_node(n, err);
}

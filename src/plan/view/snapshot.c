// SPDX-License-Identifier: Apache-2.0
//
// Snapshots: the objects of a world as one List, reduced to the fields that scheduling reads. A
// field is kept only if it is listed here, so that secrets cannot slip in.
#include "plan/snapshot.h"

#include "plan/sim/plan_int.h"

#include "base/banned.h"

// --- What is kept --------------------------------------------------------------------------------

// Names and times, labels and owners; annotations may hold anything, such as the whole object once
// more.
static struct api_object_meta safe_meta(const struct api_object_meta *m)
{
    return (struct api_object_meta){.name = m->name,
                                    .namespace = m->namespace,
                                    .uid = m->uid,
                                    .generation = m->generation,
                                    .creation_timestamp = m->creation_timestamp,
                                    .deletion_timestamp = m->deletion_timestamp,
                                    .labels = m->labels,
                                    .owner_references = m->owner_references,
                                    .finalizers = m->finalizers,
                                    .managed_fields = m->managed_fields};
}

static struct api_container_array safe_containers(const struct api_container_array *in,
                                                  struct arena *arena)
{
    struct api_container *out = arena_array(arena, struct api_container, in->n + 1);
    for (size_t i = 0; i < in->n; i++) {
        out[i].name = in->p[i].name;
        out[i].image = in->p[i].image;
        out[i].resources = in->p[i].resources;
        out[i].restart_policy = in->p[i].restart_policy;
        out[i].has_restart_policy = in->p[i].has_restart_policy;
        out[i].ports = in->p[i].ports;
    }
    return (struct api_container_array){out, in->n};
}

// Of volumes that the scheduler looks at the names of claims are kept; what is in the others is
// left out.
static struct api_volume_array safe_volumes(const struct api_volume_array *in, struct arena *arena)
{
    struct api_volume *out = arena_array(arena, struct api_volume, in->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < in->n; i++) {
        if (!in->p[i].volume_source.persistent_volume_claim)
            continue;
        out[n].name = in->p[i].name;
        out[n++].volume_source.persistent_volume_claim =
            in->p[i].volume_source.persistent_volume_claim;
    }
    return (struct api_volume_array){out, n};
}

static struct api_pod_spec safe_pod_spec(const struct api_pod_spec *s, struct arena *arena)
{
    return (struct api_pod_spec){.init_containers = safe_containers(&s->init_containers, arena),
                                 .containers = safe_containers(&s->containers, arena),
                                 .restart_policy = s->restart_policy,
                                 .node_selector = s->node_selector,
                                 .node_name = s->node_name,
                                 .host_network = s->host_network,
                                 .affinity = s->affinity,
                                 .scheduler_name = s->scheduler_name,
                                 .tolerations = s->tolerations,
                                 .priority_class_name = s->priority_class_name,
                                 .priority = s->priority,
                                 .has_priority = s->has_priority,
                                 .runtime_class_name = s->runtime_class_name,
                                 .has_runtime_class_name = s->has_runtime_class_name,
                                 .overhead = s->overhead,
                                 .topology_spread_constraints = s->topology_spread_constraints,
                                 .scheduling_gates = s->scheduling_gates,
                                 .resource_claims = s->resource_claims,
                                 .resources = s->resources,
                                 .volumes = safe_volumes(&s->volumes, arena),
                                 .scheduling_group = s->scheduling_group};
}

static struct api_pod *safe_pod(const struct api_pod *in, struct arena *arena)
{
    struct api_pod *p = arena_one(arena, struct api_pod);
    p->metadata = safe_meta(&in->metadata);
    p->metadata.managed_fields = (struct api_managed_fields_entry_array){0};
    p->spec = safe_pod_spec(&in->spec, arena);
    p->status.phase = in->status.phase;
    p->status.conditions = in->status.conditions;
    p->status.reason = in->status.reason;
    p->status.nominated_node_name = in->status.nominated_node_name;
    p->status.start_time = in->status.start_time;
    p->status.resource_claim_statuses = in->status.resource_claim_statuses;
    p->status.extended_resource_claim_status = in->status.extended_resource_claim_status;
    return p;
}

static struct api_node *safe_node(const struct api_node *in, struct arena *arena)
{
    struct api_node *n = arena_one(arena, struct api_node);
    n->metadata = safe_meta(&in->metadata);
    n->metadata.managed_fields = (struct api_managed_fields_entry_array){0};
    n->spec.unschedulable = in->spec.unschedulable;
    n->spec.taints = in->spec.taints;
    n->status.capacity = in->status.capacity;
    n->status.allocatable = in->status.allocatable;
    n->status.conditions = in->status.conditions;
    n->status.declared_features = in->status.declared_features;
    n->status.node_info.kubelet_version = in->status.node_info.kubelet_version;
    n->status.node_info.kernel_version = in->status.node_info.kernel_version;
    return n;
}

// Status data and parameters belong to drivers: conditions stay, free text and settings go.
static struct api_resource_claim *safe_claim(const struct api_resource_claim *in,
                                             struct arena *arena)
{
    struct api_resource_claim *c = arena_one(arena, struct api_resource_claim);
    *c = *in;
    c->metadata = safe_meta(&in->metadata);
    c->spec.devices.config = (struct api_device_claim_configuration_array){0};
    if (in->status.allocation) {
        c->status.allocation = arena_one(arena, struct api_allocation_result);
        *c->status.allocation = *in->status.allocation;
        c->status.allocation->devices.config =
            (struct api_device_allocation_configuration_array){0};
    }
    struct api_allocated_device_status *devices =
        arena_array(arena, struct api_allocated_device_status, in->status.devices.n + 1);
    for (size_t i = 0; i < in->status.devices.n; i++) {
        devices[i] = in->status.devices.p[i];
        devices[i].data = (struct str){0};
        devices[i].network_data = NULL;
    }
    c->status.devices.p = devices;
    return c;
}

// What the scheduler looks at beside devices: amounts, classes, where volumes are.
static void *safe_plain(const struct plan_object *o, struct arena *arena)
{
    void *copy = arena_alloc(arena, o->type->size, _Alignof(max_align_t));
    memcpy(copy, o->value, o->type->size); // it shares the rest
    struct api_object object = {world_kind(o->type), copy};
    struct api_object_meta *m = api_object_meta(&object);
    *m = safe_meta(m);
    if (o->type == &api_storage_class_type)
        ((struct api_storage_class *)copy)->parameters = (struct api_str_map){0};
    if (o->type == &api_persistent_volume_type) { // where it is, not what it is
        struct api_persistent_volume *v = copy;
        v->spec.persistent_volume_source = (struct api_persistent_volume_source){0};
    }
    if (o->type == &api_daemon_set_type) { // commands and environment of its pods go
        struct api_pod_template_spec *t = &((struct api_daemon_set *)copy)->spec.template;
        t->metadata = safe_meta(&t->metadata);
        t->spec = safe_pod_spec(&t->spec, arena);
    }
    return copy;
}

static void *safe_other(const struct plan_object *o, struct arena *arena)
{
    if (o->kind == PLAN_CLASS) {
        struct api_device_class *c = arena_one(arena, struct api_device_class);
        *c = *(const struct api_device_class *)o->value;
        c->metadata = safe_meta(&c->metadata);
        c->spec.config = (struct api_device_class_configuration_array){0};
        return c;
    }
    if (o->kind == PLAN_TEMPLATE) {
        struct api_resource_claim_template *t =
            arena_one(arena, struct api_resource_claim_template);
        *t = *(const struct api_resource_claim_template *)o->value;
        t->metadata = safe_meta(&t->metadata);
        t->spec.metadata = safe_meta(&t->spec.metadata);
        t->spec.spec.devices.config = (struct api_device_claim_configuration_array){0};
        return t;
    }
    if (o->kind == PLAN_OTHER)
        return safe_plain(o, arena);
    if (o->kind == PLAN_RULE) {
        struct api_device_taint_rule *r = arena_one(arena, struct api_device_taint_rule);
        *r = *(const struct api_device_taint_rule *)o->value;
        r->metadata = safe_meta(&r->metadata);
        return r;
    }
    struct api_resource_slice *s = arena_one(arena, struct api_resource_slice);
    *s = *(const struct api_resource_slice *)o->value;
    s->metadata = safe_meta(&s->metadata);
    return s;
}

static struct api_event *safe_event(const struct api_event *in, struct arena *arena)
{
    struct api_event *e = arena_one(arena, struct api_event);
    *e = *in;
    e->metadata = safe_meta(&in->metadata);
    e->metadata.managed_fields = (struct api_managed_fields_entry_array){0};
    return e;
}

// Events of the objects that are kept; what else happens in a cluster is left out.
static bool event_matters(const struct plan_world *w, const struct api_event *e)
{
    struct arena tmp = {0};
    struct str name = world_full_name(&tmp, e->involved_object.namespace, e->involved_object.name);
    struct str kind = e->involved_object.kind;
    bool yes = str_eqz(kind, "ResourceClaim") || str_eqz(kind, "ResourceSlice") ||
               str_eqz(kind, "DeviceTaintRule");
    if (!yes && str_eqz(kind, "Pod")) {
        const struct plan_object *o = world_find(w, PLAN_POD, name);
        yes = o && ((const struct api_pod *)o->value)->spec.resource_claims.n > 0;
    }
    arena_done(&tmp);
    return yes;
}

static void *snapshot_copy_safe(const struct plan_object *o, struct arena *arena)
{
    if (o->kind == PLAN_POD)
        return safe_pod(o->value, arena);
    if (o->kind == PLAN_NODE)
        return safe_node(o->value, arena);
    if (o->kind == PLAN_CLAIM)
        return safe_claim(o->value, arena);
    if (o->kind == PLAN_EVENT)
        return safe_event(o->value, arena);
    return safe_other(o, arena);
}

// --- Writing -------------------------------------------------------------------------------------

static const struct {
    enum plan_kind kind;
    const char *version, *name;
} order[] = {
    {PLAN_NODE, "v1", "Node"},
    {PLAN_CLASS, "resource.k8s.io/v1", "DeviceClass"},
    {PLAN_SLICE, "resource.k8s.io/v1", "ResourceSlice"},
    {PLAN_RULE, "resource.k8s.io/v1", "DeviceTaintRule"},
    {PLAN_TEMPLATE, "resource.k8s.io/v1", "ResourceClaimTemplate"},
    {PLAN_CLAIM, "resource.k8s.io/v1", "ResourceClaim"},
    {PLAN_POD, "v1", "Pod"},
    {PLAN_OTHER, NULL, NULL},
    {PLAN_EVENT, "v1", "Event"},
};

void snapshot_each(const struct plan_world *w,
                   void (*fn)(void *arg, const struct api_object *o, struct arena *arena),
                   void *arg)
{
    for (size_t i = 0; i < array_len(order); i++) {
        world_foreach(w, order[i].kind, o)
        {
            const struct api_kind *kind =
                order[i].name ? api_kind_find(str_z(order[i].version), str_z(order[i].name))
                              : world_kind(o->type);
            struct arena arena = {0};
            assert(kind);
            if (o->kind == PLAN_EVENT && !event_matters(w, o->value))
                continue;
            struct api_object out = {kind, snapshot_copy_safe(o, &arena)};
            api_set_type_meta(&out);
            fn(arg, &out, &arena);
            arena_done(&arena);
        }
    }
}

static void snapshot_write_object(void *arg, const struct api_object *o, struct arena *arena)
{
    (void)arena;
    // Objects were read by us: raw parts hold JSON.
    (void)!api_json_write(o->kind->type, o->value, arg, NULL);
}

void snapshot_write(const struct plan_world *w, const struct snapshot_about *about,
                    struct sbuf *out)
{
    struct json_writer j = {.out = out};
    json_write_object_begin(&j);
    json_write_key(&j, STR("apiVersion"));
    json_write_str(&j, STR("v1"));
    json_write_key(&j, STR("kind"));
    json_write_str(&j, STR("List"));
    json_write_key(&j, STR("draySnapshot"));
    json_write_object_begin(&j);
    json_write_key(&j, STR("version"));
    json_write_i64(&j, 1);
    json_write_key(&j, STR("taken"));
    json_write_str(&j, about->taken);
    json_write_key(&j, STR("server"));
    json_write_str(&j, about->server);
    json_write_object_end(&j);
    json_write_key(&j, STR("items"));
    json_write_array_begin(&j);
    snapshot_each(w, snapshot_write_object, &j);
    json_write_array_end(&j);
    json_write_object_end(&j);
    sbuf_addc(out, '\n');
}

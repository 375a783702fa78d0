// SPDX-License-Identifier: Apache-2.0
//
// What is to be placed: pods with their claims, replicas of workloads, claims that no pod names.
#include "plan/plan_int.h"

#include "base/banned.h"

#define REPLICAS_MAX     1000 // of one workload; more are cut, with a note
#define CLASS_RESOURCE   "deviceclass.resource.kubernetes.io/"
#define EXTENDED_DEVICES 1024 // that a container may ask for as an extended resource

// --- Claims --------------------------------------------------------------------------------------

static uint32_t add_claim(struct plan *p, const struct api_resource_claim *c, bool generated)
{
    struct str name = world_full_name(&p->arena, c->metadata.namespace, c->metadata.name);
    bool is_new = false;
    uint32_t *at = map_put_new(&p->claim_names, name, &is_new);
    if (is_new) {
        *at = (uint32_t)p->claims.n;
        vec_push(&p->claims, (struct held_claim){.claim = c, .name = name, .generated = generated});
    }
    return *at;
}

static const uint32_t *claim_named(struct plan *p, struct str namespace, struct str name)
{
    return map_get(&p->claim_names, world_full_name(&p->arena, namespace, name));
}

// The claim that a controller made of the template, if the pod's status names it; else a new one.
static bool from_template(struct plan *p, const struct api_pod *pod,
                          const struct api_pod_resource_claim *ref, uint32_t *ret)
{
    const struct api_object_meta *m = &pod->metadata;
    for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++) {
        const struct api_pod_resource_claim_status *s = &pod->status.resource_claim_statuses.p[i];
        const uint32_t *made = str_eq(s->name, ref->name)
                                   ? claim_named(p, m->namespace, s->resource_claim_name)
                                   : NULL;
        if (made) {
            *ret = *made;
            return true;
        }
    }
    const struct plan_object *o =
        world_find(p->world, PLAN_TEMPLATE,
                   world_full_name(&p->arena, m->namespace, ref->resource_claim_template_name));
    if (!o)
        return false;
    const struct api_resource_claim_template *t = o->value;
    struct api_resource_claim *c = arena_one(&p->arena, struct api_resource_claim);
    c->metadata.namespace = m->namespace;
    c->metadata.name = arena_strf(&p->arena, "%.*s-%.*s", STR_ARG(m->name), STR_ARG(ref->name));
    c->metadata.labels = t->spec.metadata.labels;
    c->spec = t->spec.spec;
    *ret = add_claim(p, c, true);
    return true;
}

static void add_reference(struct plan *p, struct unit *u, const struct api_pod_resource_claim *ref)
{
    struct str namespace = u->pod->metadata.namespace;
    uint32_t at = 0;
    if (ref->has_resource_claim_name) {
        const uint32_t *known = claim_named(p, namespace, ref->resource_claim_name);
        if (known)
            vec_push_arena(&p->arena, &u->claims, *known);
        else
            u->error =
                arena_strf(&p->arena, "the pod names claim %.*s/%.*s, which is not in the files",
                           STR_ARG(namespace), STR_ARG(ref->resource_claim_name));
    } else if (ref->has_resource_claim_template_name) {
        if (from_template(p, u->pod, ref, &at))
            vec_push_arena(&p->arena, &u->claims, at);
        else
            u->error =
                arena_strf(&p->arena,
                           "the pod names claim template %.*s/%.*s, which is not in the files",
                           STR_ARG(namespace), STR_ARG(ref->resource_claim_template_name));
    }
}

// --- Extended resources --------------------------------------------------------------------------

static struct str class_of_resource(const struct plan *p, struct str resource)
{
    if (str_starts(resource, STR(CLASS_RESOURCE))) {
        struct str name = str_from(resource, sizeof(CLASS_RESOURCE) - 1);
        return world_find(p->world, PLAN_CLASS, name) ? name : (struct str){0};
    }
    for (size_t i = 0; i < p->classes.n; i++) {
        const struct api_device_class *c = p->classes.p[i];
        if (c->spec.has_extended_resource_name && str_eq(c->spec.extended_resource_name, resource))
            return c->metadata.name;
    }
    return (struct str){0};
}

struct requests_of VEC(struct api_device_request);

static void extended_requests(struct plan *p, const struct api_container *c, size_t container,
                              struct requests_of *out)
{
    const struct api_quantity_map *m =
        c->resources.requests.n ? &c->resources.requests : &c->resources.limits;
    for (size_t i = 0; i < m->n; i++) {
        struct str class_name = class_of_resource(p, m->p[i].key);
        int64_t count = quantity_value(&m->p[i].value);
        if (class_name.n == 0 || count <= 0)
            continue;
        struct api_exact_device_request *e = arena_one(&p->arena, struct api_exact_device_request);
        e->device_class_name = class_name;
        e->allocation_mode = STR("ExactCount");
        e->count = count < EXTENDED_DEVICES ? count : EXTENDED_DEVICES;
        struct str name = arena_strf(&p->arena, "container-%zu-request-%zu", container, i);
        vec_push_arena(&p->arena, out, (struct api_device_request){.name = name, .exactly = e});
    }
}

// Resources that a class stands for become one claim of the pod, as the scheduler makes it.
static void add_extended(struct plan *p, struct unit *u)
{
    const struct api_pod *pod = u->pod;
    const struct api_pod_extended_resource_claim_status *made =
        pod->status.extended_resource_claim_status;
    const uint32_t *known =
        made ? claim_named(p, pod->metadata.namespace, made->resource_claim_name) : NULL;
    struct requests_of requests = {0};
    if (known) {
        vec_push_arena(&p->arena, &u->claims, *known);
        return;
    }
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        extended_requests(p, &pod->spec.containers.p[i], i, &requests);
    if (requests.n == 0)
        return;
    struct api_resource_claim *c = arena_one(&p->arena, struct api_resource_claim);
    c->metadata.namespace = pod->metadata.namespace;
    c->metadata.name =
        arena_strf(&p->arena, "%.*s-extended-resources", STR_ARG(pod->metadata.name));
    c->spec.devices.requests = (struct api_device_request_array){requests.p, requests.n};
    vec_push_arena(&p->arena, &u->claims, add_claim(p, c, true));
}

// --- Pods ----------------------------------------------------------------------------------------

static void add_pod(struct plan *p, const struct api_pod *pod)
{
    struct unit u = {.pod = pod,
                     .name =
                         world_full_name(&p->arena, pod->metadata.namespace, pod->metadata.name)};
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
        add_reference(p, &u, &pod->spec.resource_claims.p[i]);
    add_extended(p, &u);
    vec_push(&p->units, u);
}

static bool finished(const struct api_pod *pod)
{
    return str_eqz(pod->status.phase, "Succeeded") || str_eqz(pod->status.phase, "Failed");
}

struct workload {
    const struct api_object_meta *meta;
    const struct api_pod_template_spec *template;
    int32_t replicas;
    const char *pods_owner; // kind that owns the pods
};

static struct workload workload_of(const struct plan_object *o)
{
    if (o->type == &api_deployment_type) {
        const struct api_deployment *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, "ReplicaSet"};
    }
    if (o->type == &api_replica_set_type) {
        const struct api_replica_set *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, "ReplicaSet"};
    }
    if (o->type == &api_stateful_set_type) {
        const struct api_stateful_set *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, "StatefulSet"};
    }
    const struct api_job *j = o->value;
    return (struct workload){&j->metadata, &j->spec.template,
                             j->spec.has_parallelism ? j->spec.parallelism : 1, "Job"};
}

// Pods of the workload that are among the objects, as in a dump of a cluster.
static bool has_pods(const struct plan *p, const struct workload *w)
{
    if (w->meta->owner_references.n)
        return true; // its owner counts
    world_foreach(p->world, PLAN_POD, o)
    {
        const struct api_object_meta *m = &((const struct api_pod *)o->value)->metadata;
        for (size_t i = 0; i < m->owner_references.n; i++)
            if (str_eqz(m->owner_references.p[i].kind, w->pods_owner) &&
                str_starts(m->owner_references.p[i].name, w->meta->name))
                return true;
    }
    return false;
}

static void add_workload(struct plan *p, const struct plan_object *o)
{
    struct workload w = workload_of(o);
    int32_t n = w.replicas < REPLICAS_MAX ? w.replicas : REPLICAS_MAX;
    if (has_pods(p, &w))
        return;
    if (n < w.replicas)
        world_note(p->world, "%.*s has %d replicas; the first %d are planned", STR_ARG(o->name),
                   w.replicas, n);
    for (int32_t i = 0; i < n; i++) {
        struct api_pod *pod = arena_one(&p->arena, struct api_pod);
        pod->metadata = w.template->metadata;
        pod->metadata.namespace = w.meta->namespace;
        pod->metadata.name = arena_strf(&p->arena, "%.*s-%d", STR_ARG(w.meta->name), i);
        pod->spec = w.template->spec;
        add_pod(p, pod);
    }
}

// --- Everything ----------------------------------------------------------------------------------

static void add_lone_claim(struct plan *p, const struct plan_object *o)
{
    const uint32_t *at = map_get(&p->claim_names, o->name);
    struct unit u = {.name = o->name};
    if (!at)
        return;
    vec_push_arena(&p->arena, &u.claims, *at);
    vec_push(&p->units, u);
}

// Which claims pods name; the others are placed alone.
static void mark_named(const struct plan *p, bool *named)
{
    for (size_t i = 0; i < p->units.n; i++)
        for (size_t k = 0; k < p->units.p[i].claims.n; k++)
            named[p->units.p[i].claims.p[k]] = true;
}

void units_collect(struct plan *p)
{
    world_foreach(p->world, PLAN_CLAIM, o)(void) add_claim(p, o->value, false);
    for (size_t i = 0; i < p->world->objects.n; i++) {
        const struct plan_object *o = &p->world->objects.p[i];
        if (o->gone)
            continue;
        if (o->kind == PLAN_POD && !finished(o->value))
            add_pod(p, o->value);
        else if (o->kind == PLAN_WORKLOAD)
            add_workload(p, o);
    }
    bool *named = arena_array(&p->arena, bool, p->claims.n + 1);
    mark_named(p, named);
    world_foreach(p->world, PLAN_CLAIM, o)
    {
        const uint32_t *at = map_get(&p->claim_names, o->name);
        if (at && !named[*at])
            add_lone_claim(p, o);
    }
}

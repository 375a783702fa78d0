// SPDX-License-Identifier: Apache-2.0
//
// What is to be placed: pods, replicas of workloads that are not there yet, claims that no pod
// names.
#include "api/match/claim.h"
#include "ctl/template.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

#define REPLICAS_MAX 1000 // of one workload; more are cut, with a note

// --- Pods ----------------------------------------------------------------------------------------

static struct unit *units_add_pod(struct plan *p, const struct api_pod *pod, bool fresh)
{
    struct unit u = {.is_pod = true,
                     .name =
                         world_full_name(&p->arena, pod->metadata.namespace, pod->metadata.name),
                     .namespace = pod->metadata.namespace,
                     .pod = pod->metadata.name,
                     .fresh = fresh ? pod : NULL,
                     .group = pod_group_name(pod),
                     .bound = pod->spec.node_name.n > 0};
    vec_push(&p->units, u);
    return vec_last(&p->units);
}

bool units_is_fresh(const struct plan_object *o)
{
    const struct api_pod *pod = o->value;
    return !o->moved && !pod->metadata.uid.n && !pod->spec.node_name.n;
}

bool units_is_new_claim(const struct plan_object *o)
{
    const struct api_resource_claim *claim = o->value;
    return !o->gone && !claim->metadata.uid.n && !claim->status.allocation;
}

// --- Workloads -----------------------------------------------------------------------------------

struct workload {
    const struct api_object_meta *meta;
    const struct api_pod_template_spec *template;
    int32_t replicas;
    struct str pods_owner;              // kind that owns the pods
    const struct api_stateful_set *set; // whose pods have storage; else NULL
};

static struct workload units_workload_of(const struct plan_object *o)
{
    if (o->type == &api_deployment_type) {
        const struct api_deployment *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, STR("ReplicaSet"),
                                 NULL};
    }
    if (o->type == &api_replica_set_type) {
        const struct api_replica_set *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, STR("ReplicaSet"),
                                 NULL};
    }
    if (o->type == &api_stateful_set_type) {
        const struct api_stateful_set *d = o->value;
        return (struct workload){&d->metadata, &d->spec.template,
                                 d->spec.has_replicas ? d->spec.replicas : 1, STR("StatefulSet"),
                                 d};
    }
    const struct api_job *j = o->value;
    return (struct workload){&j->metadata, &j->spec.template,
                             j->spec.has_parallelism ? j->spec.parallelism : 1, STR("Job"), NULL};
}

// The owner of a Deployment's pods is a ReplicaSet with a hash behind the name.
static bool units_owns(const struct workload *w, const struct plan_object *o,
                       const struct api_owner_reference *owner)
{
    if (!str_eq(owner->kind, w->pods_owner))
        return false;
    if (o->type != &api_deployment_type || str_eq(owner->name, w->meta->name))
        return str_eq(owner->name, w->meta->name);
    struct str rest = str_starts(owner->name, w->meta->name)
                          ? str_from(owner->name, w->meta->name.n)
                          : (struct str){0};
    return rest.n > 1 && rest.p[0] == '-' && str_find_char(str_from(rest, 1), '-') < 0;
}

// Pods of the workload that are among the objects, as in a dump of a cluster.
static int32_t units_count_pods(const struct plan *p, const struct workload *w,
                                const struct plan_object *load)
{
    int32_t n = 0;
    world_foreach(p->world, PLAN_POD, o)
    {
        const struct api_pod *pod = o->value;
        const struct api_owner_reference *owner = meta_controller(&pod->metadata);
        if (owner && str_eq(pod->metadata.namespace, w->meta->namespace) && !pod_is_terminal(pod) &&
            units_owns(w, load, owner))
            n++;
    }
    return n;
}

static void units_add_storage(struct plan *p, const struct api_stateful_set *set,
                              struct api_pod *pod)
{
    template_add_storage(set, pod, &p->arena);
    for (size_t i = 0; i < set->spec.volume_claim_templates.n; i++) {
        struct api_persistent_volume_claim *c =
            arena_one(&p->world->arena, struct api_persistent_volume_claim);
        *c = template_storage_claim(set, i, pod->metadata.name, &p->world->arena);
        struct plan_object o = {.kind = PLAN_OTHER,
                                .type = &api_persistent_volume_claim_type,
                                .value = c,
                                .name = world_full_name(&p->world->arena, c->metadata.namespace,
                                                        c->metadata.name),
                                .file = STR("(template)")};
        if (!world_find_other(p->world, o.type, o.name))
            (void)world_add(p->world, &o);
    }
}

static void units_add_replica(struct plan *p, const struct plan_object *o, const struct workload *w,
                              int32_t number)
{
    const struct api_kind *kind = api_kind_by_name(o->type->name);
    struct api_pod *pod = arena_one(&p->arena, struct api_pod);
    struct api_pod made = template_pod(w->template, kind, w->meta, &p->arena);
    made.metadata.name = arena_strf(&p->arena, "%.*s-%d", STR_ARG(w->meta->name), number);
    if (w->set)
        units_add_storage(p, w->set, &made);
    api_copy(&api_pod_type, &made, pod, &p->arena); // defaults are set in place
    api_default(&api_pod_type, pod, NULL, &p->arena);
    if (world_find(p->world, PLAN_POD,
                   world_full_name(&p->arena, pod->metadata.namespace, pod->metadata.name)))
        return;
    units_add_pod(p, pod, true)->alike = o->name;
}

static void units_add_workload(struct plan *p, const struct plan_object *o)
{
    struct workload w = units_workload_of(o);
    if (meta_controller(w.meta))
        return; // its owner counts
    if (w.replicas < 0)
        w.replicas = 0; // files are not validated
    int32_t have = units_count_pods(p, &w, o);
    int32_t n = w.replicas - have < REPLICAS_MAX ? w.replicas - have : REPLICAS_MAX;
    if (have + n < w.replicas)
        world_note(p->world, "%.*s has %d replicas; the first %d are planned", STR_ARG(o->name),
                   w.replicas, n);
    int32_t first = w.set ? have : 0;
    for (int32_t i = 0; i < n; i++)
        units_add_replica(p, o, &w, first + i);
}

// --- Claims --------------------------------------------------------------------------------------

struct claims_named MAP(bool);

static void units_name_claims(struct plan *p, const struct api_pod *pod, struct claims_named *named)
{
    struct str namespace = pod->metadata.namespace;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            *map_put(named, world_full_name(&p->arena, namespace, name)) = true;
    }
    if (pod->status.extended_resource_claim_status)
        *map_put(named,
                 world_full_name(&p->arena, namespace,
                                 pod->status.extended_resource_claim_status->resource_claim_name)) =
            true;
}

// A claim that a controller made for a pod is that pod's, be it in the files or not.
static bool units_is_made(const struct api_resource_claim *c)
{
    return !c->status.allocation && meta_controller(&c->metadata) != NULL;
}

static void units_add_claims(struct plan *p)
{
    struct claims_named named = {0};
    world_foreach(p->world, PLAN_POD, o) units_name_claims(p, o->value, &named);
    vec_foreach(&p->units, u)
        if (u->fresh)
            units_name_claims(p, u->fresh, &named);
    world_foreach(p->world, PLAN_CLAIM, o)
    {
        const struct api_resource_claim *c = o->value;
        if (map_has(&named, o->name) || units_is_made(c))
            continue;
        struct unit u = {.name = o->name,
                         .namespace = c->metadata.namespace,
                         .claim = c->metadata.name,
                         .bound = c->status.allocation != NULL};
        if (!u.bound) // a name that no pod can have
            u.pod = arena_strf(&p->arena, "%.*s:claim", STR_ARG(c->metadata.name));
        vec_push(&p->units, u);
    }
    map_done(&named);
}

void units_collect(struct plan *p)
{
    size_t known = p->world->objects.n; // storage of StatefulSets is added behind
    for (size_t i = 0; i < known; i++) {
        const struct plan_object o = p->world->objects.p[i];
        if (o.gone)
            continue;
        if (o.kind == PLAN_POD && !pod_is_terminal(o.value) &&
            !((const struct api_pod *)o.value)->metadata.deletion_timestamp.set)
            units_add_pod(p, o.value, units_is_fresh(&o))->staying = o.staying;
        else if (o.kind == PLAN_WORKLOAD)
            units_add_workload(p, &o);
    }
    units_add_claims(p);
}

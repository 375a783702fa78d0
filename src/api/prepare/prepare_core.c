// SPDX-License-Identifier: Apache-2.0
//
// Preparation of the kinds outside resource.k8s.io: whose changes count as a generation, what a new
// object's status holds, what an update of the status may touch besides it.
#include <assert.h>
#include <string.h>

#include "api/prepare/prepare_int.h"
#include "api/validate/validate_core.h"
#include "base/map.h"

#include "base/banned.h"

// What is special about a kind.
enum {
    COUNTS = 1 << 0,             // generation 1 when new, one more with each change of the spec
    COUNTS_ANNOTATIONS = 1 << 1, // and of the annotations
    STARTS_AT_ONE = 1 << 2,      // generation 1 when new, and so it stays
    COUNTS_FROM_ZERO = 1 << 3,   // changes count, but a new object has none
    KEEPS_STATUS = 1 << 4,       // who creates it may say its status
    STATUS_ALONE = 1 << 5,       // an update of the status changes nothing of the metadata
    STATUS_NO_LABELS = 1 << 6,   // and this one no labels
};

static unsigned prepare_core_find_special(const struct api_type *t)
{
    static const struct {
        const struct api_type *type;
        unsigned flags;
    } kinds[] = {
        {&api_pod_type, COUNTS},
        {&api_deployment_type, COUNTS | COUNTS_ANNOTATIONS | STATUS_NO_LABELS},
        {&api_replica_set_type, COUNTS},
        {&api_daemon_set_type, COUNTS},
        {&api_stateful_set_type, COUNTS},
        {&api_replication_controller_type, COUNTS},
        {&api_job_type, COUNTS},
        {&api_cron_job_type, COUNTS},
        {&api_pod_disruption_budget_type, COUNTS},
        {&api_pod_template_type, COUNTS},
        {&api_priority_class_type, STARTS_AT_ONE},
        {&api_ingress_type, COUNTS},
        {&api_ingress_class_type, COUNTS},
        {&api_network_policy_type, COUNTS},
        {&api_endpoint_slice_type, COUNTS},
        {&api_flow_schema_type, COUNTS},
        {&api_priority_level_configuration_type, COUNTS},
        {&api_csi_driver_type, COUNTS_FROM_ZERO},
        {&api_node_type, KEEPS_STATUS},
        {&api_volume_attachment_type, STATUS_ALONE},
        {&api_pod_group_type, STATUS_ALONE},
        {&api_v1alpha3_composite_pod_group_type, STATUS_ALONE},
    };
    for (size_t i = 0; i < array_len(kinds); i++)
        if (kinds[i].type == t)
            return kinds[i].flags;
    return 0;
}

static void *prepare_core_member_at(const struct api_object *o, const struct api_field *f)
{
    return f ? api_member(f, o->value) : NULL;
}

// --- Pods ----------------------------------------------------------------------------------------

static const struct quantity *prepare_core_find_amount(const struct api_quantity_map *m,
                                                       const char *resource)
{
    static const struct quantity none;
    for (size_t i = 0; i < m->n; i++)
        if (str_eqz(m->p[i].key, resource))
            return &m->p[i].value;
    return &none;
}

enum quality { BEST_EFFORT, BURSTABLE, GUARANTEED };

static enum quality amount_quality(const struct api_resource_requirements *r, const char *resource)
{
    const struct quantity *request = prepare_core_find_amount(&r->requests, resource);
    if (quantity_cmp(request, prepare_core_find_amount(&r->limits, resource)) != 0)
        return BURSTABLE;
    return quantity_sign(request) == 0 ? BEST_EFFORT : GUARANTEED;
}

static enum quality requirements_quality(const struct api_resource_requirements *r)
{
    enum quality cpu = amount_quality(r, "cpu"), memory = amount_quality(r, "memory");
    return cpu == memory ? cpu : BURSTABLE;
}

static enum quality containers_quality(const struct api_container_array *list, bool first,
                                       enum quality so_far)
{
    for (size_t i = 0; i < list->n; i++) {
        enum quality q = requirements_quality(&list->p[i].resources);
        if (q == BURSTABLE || (!(first && i == 0) && q != so_far))
            return BURSTABLE;
        so_far = q;
    }
    return so_far;
}

static struct str quality_of_service(const struct api_pod_spec *spec)
{
    static const struct str names[] = {
        [BEST_EFFORT] = STR_INIT("BestEffort"),
        [BURSTABLE] = STR_INIT("Burstable"),
        [GUARANTEED] = STR_INIT("Guaranteed"),
    };
    if (spec->resources && (spec->resources->requests.n || spec->resources->limits.n))
        return names[requirements_quality(spec->resources)];
    enum quality q = containers_quality(&spec->init_containers, true, BEST_EFFORT);
    if (q != BURSTABLE)
        q = containers_quality(&spec->containers, spec->init_containers.n == 0, q);
    return names[q];
}

// --- Label keys ----------------------------------------------------------------------------------

static const struct str *label_of(const struct api_pod *pod, struct str key)
{
    for (size_t i = 0; i < pod->metadata.labels.n; i++)
        if (str_eq(pod->metadata.labels.p[i].key, key))
            return &pod->metadata.labels.p[i].value;
    return NULL;
}

// Adds a requirement for each key that the pod has a label of: its value, or any but that. The
// selector may be shared with the object as it was sent, so it is replaced.
static void merge_label_keys(const struct preparer *p, const struct api_pod *pod,
                             const struct api_str_array *keys, struct str operator,
                             struct api_label_selector ** selector)
{
    if (!*selector || !keys->n)
        return;
    const struct api_label_selector_requirement_array *old = &(*selector)->match_expressions;
    struct api_label_selector_requirement *all =
        arena_array(p->arena, struct api_label_selector_requirement, old->n + keys->n);
    size_t n = old->n;
    if (n)
        memcpy(all, old->p, n * sizeof(*all));
    for (size_t i = 0; i < keys->n; i++) {
        const struct str *value = label_of(pod, keys->p[i]);
        if (!value)
            continue;
        struct str *values = arena_one(p->arena, struct str);
        *values = *value;
        all[n++] = (struct api_label_selector_requirement){
            .key = keys->p[i], .operator= operator, .values = {values, 1} };
    }
    if (n == old->n)
        return;
    struct api_label_selector *merged = arena_one(p->arena, struct api_label_selector);
    *merged = **selector;
    merged->match_expressions = (struct api_label_selector_requirement_array){all, n};
    *selector = merged;
}

static void merge_term_keys(const struct preparer *p, const struct api_pod *pod,
                            struct api_pod_affinity_term *t)
{
    merge_label_keys(p, pod, &t->match_label_keys, STR("In"), &t->label_selector);
    merge_label_keys(p, pod, &t->mismatch_label_keys, STR("NotIn"), &t->label_selector);
}

static void merge_affinity_keys(const struct preparer *p, const struct api_pod *pod,
                                const struct api_pod_affinity_term_array *required,
                                const struct api_weighted_pod_affinity_term_array *preferred)
{
    for (size_t i = 0; i < required->n; i++)
        merge_term_keys(p, pod, &required->p[i]);
    for (size_t i = 0; i < preferred->n; i++)
        merge_term_keys(p, pod, &preferred->p[i].pod_affinity_term);
}

// What matchLabelKeys and mismatchLabelKeys stand for is written into the selectors once, when the
// pod is created: its labels may change later.
static void merge_keys_of_pod(const struct preparer *p, struct api_pod *pod)
{
    const struct api_affinity *f = pod->spec.affinity;
    const struct api_topology_spread_constraint_array *spread =
        &pod->spec.topology_spread_constraints;
    if (f && f->pod_affinity)
        merge_affinity_keys(p, pod,
                            &f->pod_affinity->required_during_scheduling_ignored_during_execution,
                            &f->pod_affinity->preferred_during_scheduling_ignored_during_execution);
    if (f && f->pod_anti_affinity)
        merge_affinity_keys(
            p, pod, &f->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
            &f->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution);
    for (size_t i = 0; i < spread->n; i++)
        merge_label_keys(p, pod, &spread->p[i].match_label_keys, STR("In"),
                         &spread->p[i].label_selector);
}

// --- Pods ----------------------------------------------------------------------------------------

static void prepare_new_pod(const struct preparer *p, struct api_pod *pod)
{
    merge_keys_of_pod(p, pod);
    pod->status = (struct api_pod_status){.phase = STR("Pending"),
                                          .qos_class = quality_of_service(&pod->spec)};
    if (pod->spec.scheduling_gates.n == 0)
        return;
    struct api_pod_condition *gated = arena_one(p->arena, struct api_pod_condition);
    *gated = (struct api_pod_condition){
        .type = STR("PodScheduled"),
        .status = STR("False"),
        .last_transition_time = p->rules->now,
        .reason = STR("SchedulingGated"),
        .message = STR("Scheduling is blocked due to non-empty scheduling gates"),
    };
    pod->status.conditions = (struct api_pod_condition_array){gated, 1};
}

struct indexes MAP(size_t);

// Conditions without observedGeneration take over that of the old one of their type; of several
// with the same type the first takes from the first.
static void keep_observed_generations(const struct preparer *p, struct api_pod_status *status,
                                      const struct api_pod_status *old)
{
    struct indexes first = {0}; // old conditions by type, one more than their index
    size_t *next = arena_array(p->arena, size_t, old->conditions.n + 1);
    if (status->observed_generation == 0)
        status->observed_generation = old->observed_generation;
    for (size_t i = old->conditions.n; i > 0; i--) {
        size_t *at = map_put(&first, old->conditions.p[i - 1].type);
        next[i - 1] = *at;
        *at = i;
    }
    for (size_t i = 0; i < status->conditions.n; i++) {
        struct api_pod_condition *c = &status->conditions.p[i];
        size_t *at = map_get(&first, c->type);
        if (!at || *at == 0)
            continue;
        if (c->observed_generation == 0)
            c->observed_generation = old->conditions.p[*at - 1].observed_generation;
        *at = next[*at - 1];
    }
    map_done(&first);
}

// Clients that do not know the fields about claims must not wipe them: nil keeps, [] clears.
static void prepare_pod_status(const struct preparer *p, struct api_pod *pod,
                               const struct api_pod *old)
{
    struct api_pod_status *status = &pod->status;
    pod->spec = old->spec;
    pod->metadata.deletion_timestamp = old->metadata.deletion_timestamp;
    pod->metadata.owner_references = old->metadata.owner_references;
    if (status->qos_class.n == 0)
        status->qos_class = old->status.qos_class;
    if (!status->resource_claim_statuses.p)
        status->resource_claim_statuses = old->status.resource_claim_statuses;
    if (!status->extended_resource_claim_status)
        status->extended_resource_claim_status = old->status.extended_resource_claim_status;
    if (!status->node_allocatable_resource_claim_statuses.p)
        status->node_allocatable_resource_claim_statuses =
            old->status.node_allocatable_resource_claim_statuses;
    keep_observed_generations(p, status, &old->status);
}

// --- Namespaces ----------------------------------------------------------------------------------

static void prepare_new_namespace(const struct preparer *p, struct api_namespace *ns)
{
    ns->status = (struct api_namespace_status){.phase = STR("Active")};
    struct api_str_array *have = &ns->spec.finalizers;
    for (size_t i = 0; i < have->n; i++)
        if (str_eqz(have->p[i], "kubernetes"))
            return;
    struct str *all = arena_array(p->arena, struct str, have->n + 1);
    if (have->n)
        memcpy(all, have->p, have->n * sizeof(*all));
    all[have->n] = STR("kubernetes");
    *have = (struct api_str_array){all, have->n + 1};
}

// --- All of them ---------------------------------------------------------------------------------

static void start_status(const struct preparer *p, const struct api_object *object)
{
    const struct api_type *t = object->kind->type;
    if (t == &api_pod_type)
        prepare_new_pod(p, object->value);
    else if (t == &api_namespace_type)
        prepare_new_namespace(p, object->value);
    else if (t == &api_persistent_volume_claim_type)
        ((struct api_persistent_volume_claim *)object->value)->status.phase = STR("Pending");
    else if (t == &api_persistent_volume_type)
        ((struct api_persistent_volume *)object->value)->status.phase = STR("Pending");
}

static bool is_pod_resource(struct str name)
{
    return str_eqz(name, "cpu") || str_eqz(name, "memory") || resources_is_huge_page(name);
}

// Requests of a whole pod that are not given: what its containers ask for, else its limits.
static void prepare_pod_resources(const struct preparer *p, struct api_pod_spec *spec)
{
    static const struct str names[] = {STR_INIT("cpu"), STR_INIT("memory")};
    struct api_resource_requirements *r = spec->resources;
    if (!r || r->limits.n == 0)
        return;
    struct amounts limits = {0}, sums = {0};
    for (size_t i = 0; i < r->limits.n; i++)
        if (is_pod_resource(r->limits.p[i].key))
            vec_push_arena(p->arena, &limits, r->limits.p[i]);
    const struct api_quantity_map asked = container_amounts(spec, false, p->arena);
    for (size_t i = 0; i < array_len(names); i++) {
        const struct quantity *sum = amounts_get(&asked, names[i]);
        if (sum)
            vec_push_arena(p->arena, &sums, ((struct api_quantity_entry){names[i], *sum}));
    }
    struct api_quantity_map all = {limits.p, limits.n};
    amounts_put(&all, &(struct api_quantity_map){sums.p, sums.n}, p->arena);
    amounts_put(&all, &r->requests, p->arena);
    r->requests = all;
}

// --- PodGroup, Workload --------------------------------------------------------------------------

// Fields whose gate is off are dropped, unless the object has them already.
static void drop_group_fields(const struct preparer *p, struct api_pod_group_spec *now,
                              const struct api_pod_group_spec *old)
{
    if (!gate_on(p, FEATURE_TOPOLOGY_AWARE_WORKLOAD_SCHEDULING) &&
        !(old && old->scheduling_constraints))
        now->scheduling_constraints = NULL;
    if (!gate_on(p, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS) && !(old && old->resource_claims.n))
        now->resource_claims = (struct api_pod_group_resource_claim_array){0};
    if (!gate_on(p, FEATURE_POD_GROUP_PREEMPTION_POLICY) && !(old && old->has_preemption_policy)) {
        now->has_preemption_policy = false;
        now->preemption_policy = (struct str){0};
    }
    if (!gate_on(p, FEATURE_COMPOSITE_POD_GROUP) &&
        !(old && old->has_parent_composite_pod_group_name)) {
        now->has_parent_composite_pod_group_name = false;
        now->parent_composite_pod_group_name = (struct str){0};
    }
}

static void drop_template_fields(const struct preparer *p,
                                 struct api_pod_group_template_array *list,
                                 const struct api_pod_group_template_array *olds)
{
    struct api_pod_group_template *copy =
        arena_array(p->arena, struct api_pod_group_template, list->n + 1);
    for (size_t i = 0; i < list->n; i++) {
        const struct api_pod_group_template *old = olds && i < olds->n ? &olds->p[i] : NULL;
        struct api_pod_group_template *t = &copy[i];
        *t = list->p[i];
        if (!gate_on(p, FEATURE_TOPOLOGY_AWARE_WORKLOAD_SCHEDULING) &&
            !(old && old->scheduling_constraints))
            t->scheduling_constraints = NULL;
        if (!gate_on(p, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS) && !(old && old->resource_claims.n))
            t->resource_claims = (struct api_pod_group_resource_claim_array){0};
        if (!gate_on(p, FEATURE_POD_GROUP_PREEMPTION_POLICY) &&
            !(old && old->has_preemption_policy)) {
            t->has_preemption_policy = false;
            t->preemption_policy = (struct str){0};
        }
    }
    list->p = copy;
}

static void drop_disabled(const struct preparer *p, const struct api_object *object,
                          const struct api_object *old)
{
    if (object->kind->type == &api_pod_group_type) {
        drop_group_fields(p, &((struct api_pod_group *)object->value)->spec,
                          old ? &((const struct api_pod_group *)old->value)->spec : NULL);
    } else if (object->kind->type == &api_workload_type) {
        struct api_workload_spec *spec = &((struct api_workload *)object->value)->spec;
        const struct api_workload_spec *was =
            old ? &((const struct api_workload *)old->value)->spec : NULL;
        drop_template_fields(p, &spec->pod_group_templates, was ? &was->pod_group_templates : NULL);
        if (!gate_on(p, FEATURE_COMPOSITE_POD_GROUP) &&
            !(was && was->composite_pod_group_templates.n))
            spec->composite_pod_group_templates =
                (struct api_composite_pod_group_template_array){0};
    }
}

static void drop_group_claims(const struct preparer *p, struct api_pod_group *now,
                              const struct api_pod_group *old)
{
    if (!gate_on(p, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS) && !old->spec.resource_claims.n)
        now->status.resource_claim_statuses = (struct api_pod_group_resource_claim_status_array){0};
}

static void prepare_create(const struct preparer *p, const struct api_object *object,
                           unsigned flags)
{
    const struct api_field *status = api_type_field(object->kind->type, STR("status"));
    if (status && object->kind->subresources && !(flags & KEEPS_STATUS))
        api_field_clear(status, object->value);
    start_status(p, object);
    if (object->kind->type == &api_pod_type)
        prepare_pod_resources(p, &((struct api_pod *)object->value)->spec);
    if (object->kind->type == &api_job_type)
        prepare_new_job(p, object->value);
    if (flags & (COUNTS | STARTS_AT_ONE))
        api_object_meta(object)->generation = 1;
}

// What else counts, besides a spec.
static bool endpoints_changed(const struct api_object *object, const struct api_object *old)
{
    if (object->kind->type != &api_endpoint_slice_type)
        return false;
    struct api_endpoint_slice masked = *(const struct api_endpoint_slice *)object->value;
    masked.metadata = *api_object_meta(old);
    masked.metadata.labels = api_object_meta(object)->labels;
    return !api_equal(&api_endpoint_slice_type, &masked, old->value);
}

static void count_change(const struct api_object *object, const struct api_object *old,
                         unsigned flags)
{
    const struct api_type *t = object->kind->type;
    const struct api_field *wanted = api_type_field(t, STR("spec"));
    if (!wanted)
        wanted = api_type_field(t, STR("template"));
    struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *before = api_object_meta(old);
    const struct api_field *annotations = api_type_field(&api_object_meta_type, STR("annotations"));
    if ((wanted && !api_field_equal(wanted, object->value, old->value)) ||
        endpoints_changed(object, old) ||
        ((flags & COUNTS_ANNOTATIONS) && !api_field_equal(annotations, meta, before)))
        meta->generation = before->generation + 1;
}

static void prepare_core_copy_field(const struct api_object *to, const struct api_object *from,
                                    struct str name)
{
    const struct api_field *f = api_type_field(to->kind->type, name);
    if (f && f->shape == API_ONE && f->elem == API_STRUCT)
        memcpy(prepare_core_member_at(to, f), prepare_core_member_at(from, f), f->sub->size);
}

static void prepare_update(const struct api_object *object, const struct api_object *old,
                           unsigned flags)
{
    if (object->kind->subresources)
        prepare_core_copy_field(object, old, STR("status"));
    if (object->kind->type == &api_pod_type) {
        // A client that does not know resources of pods has left them out.
        struct api_pod *pod = object->value;
        if (!pod->spec.resources)
            pod->spec.resources = ((const struct api_pod *)old->value)->spec.resources;
    }
    if (object->kind->type == &api_namespace_type)
        ((struct api_namespace *)object->value)->spec.finalizers =
            ((const struct api_namespace *)old->value)->spec.finalizers;
    if (flags & (COUNTS | COUNTS_FROM_ZERO))
        count_change(object, old, flags);
}

static void prepare_status(const struct preparer *p, const struct api_object *object,
                           const struct api_object *old, unsigned flags)
{
    struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *before = api_object_meta(old);
    if (object->kind->type == &api_pod_type) {
        prepare_pod_status(p, object->value, old->value);
        return;
    }
    prepare_core_copy_field(object, old, STR("spec"));
    if (object->kind->type == &api_certificate_signing_request_type)
        prepare_certificate_status(p, object->value, old->value);
    if (flags & STATUS_ALONE)
        prepare_meta_for_status(meta, before);
    if (flags & STATUS_NO_LABELS)
        meta->labels = before->labels;
}

// What was written as text is data; it goes before data of the same key.
static void settle_secret(const struct preparer *p, struct api_secret *secret)
{
    const struct api_str_map *texts = &secret->string_data;
    struct api_str_map all = {
        arena_array(p->arena, struct api_str_entry, secret->data.n + texts->n + 1), 0};
    size_t i = 0;
    for (size_t t = 0; t < texts->n; t++) {
        while (i < secret->data.n && str_cmp(secret->data.p[i].key, texts->p[t].key) < 0)
            all.p[all.n++] = secret->data.p[i++];
        if (i < secret->data.n && str_eq(secret->data.p[i].key, texts->p[t].key))
            i++;
        all.p[all.n++] = texts->p[t];
    }
    while (i < secret->data.n)
        all.p[all.n++] = secret->data.p[i++];
    secret->data = all;
    secret->string_data = (struct api_str_map){0};
}

void prepare_core(const struct preparer *p, const struct api_object *object,
                  const struct api_object *old)
{
    if (object->kind->type == &api_secret_type &&
        ((struct api_secret *)object->value)->string_data.n > 0)
        settle_secret(p, object->value);
    unsigned flags = prepare_core_find_special(object->kind->type);
    assert(old || p->op == API_CREATE);
    switch (p->op) {
    case API_CREATE:
        drop_disabled(p, object, NULL);
        prepare_create(p, object, flags);
        break;
    case API_UPDATE:
        drop_disabled(p, object, old);
        prepare_update(object, old, flags);
        break;
    case API_STATUS_UPDATE:
        prepare_status(p, object, old, flags);
        if (object->kind->type == &api_pod_group_type)
            drop_group_claims(p, object->value, old->value);
        break;
    }
}

// SPDX-License-Identifier: Apache-2.0
//
// Pods and their claims, as Kubernetes' resourceclaim package sees them.
#include "api/match/claim.h"

#include "base/banned.h"

static const struct str claim_pods = STR_INIT("pods");
static const struct str claim_groups = STR_INIT("podgroups");
static const struct str claim_groups_api = STR_INIT("scheduling.k8s.io");

enum claim_name claim_name_of(const struct api_pod *pod, const struct api_pod_resource_claim *entry,
                              struct str *ret, bool *ret_check)
{
    *ret_check = false;
    if (entry->has_resource_claim_name) {
        *ret = entry->resource_claim_name;
        return CLAIM_NAMED;
    }
    if (!entry->has_resource_claim_template_name)
        return CLAIM_UNSUPPORTED;
    for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++) {
        const struct api_pod_resource_claim_status *s = &pod->status.resource_claim_statuses.p[i];
        if (!str_eq(s->name, entry->name))
            continue;
        if (!s->has_resource_claim_name)
            return CLAIM_NOT_NEEDED;
        *ret = s->resource_claim_name;
        *ret_check = true;
        return CLAIM_NAMED;
    }
    return CLAIM_NOT_CREATED;
}

bool group_is_controller(const struct api_owner_reference *owner)
{
    return str_eq(owner->kind, STR("PodGroup")) &&
           str_starts(owner->api_version, STR("scheduling.k8s.io/"));
}

bool claim_is_for(const struct api_resource_claim *claim, const struct api_pod *pod, bool groups)
{
    const struct api_owner_reference *owner = meta_controller(&claim->metadata);
    const struct api_pod_scheduling_group *group = pod->spec.scheduling_group;
    if (!owner || !str_eq(claim->metadata.namespace, pod->metadata.namespace))
        return false;
    if (str_eq(owner->uid, pod->metadata.uid))
        return true;
    return groups && group_is_controller(owner) && group && group->has_pod_group_name &&
           str_eq(owner->name, group->pod_group_name);
}

bool pod_resource_is_claimed(const struct api_pod *pod, struct str container, struct str resource)
{
    const struct api_pod_extended_resource_claim_status *s =
        pod->status.extended_resource_claim_status;
    for (size_t i = 0; s && i < s->request_mappings.n; i++)
        if (str_eq(s->request_mappings.p[i].container_name, container) &&
            str_eq(s->request_mappings.p[i].resource_name, resource))
            return true;
    return false;
}

bool claim_is_extended(const struct api_object_meta *meta)
{
    return str_eq(meta_annotation(meta, STR(CLAIM_EXTENDED)), STR("true"));
}

bool pod_phase_is_final(struct str phase)
{
    return str_eq(phase, STR("Succeeded")) || str_eq(phase, STR("Failed"));
}

bool pod_is_terminal(const struct api_pod *pod)
{
    return pod_phase_is_final(pod->status.phase);
}

bool pod_is_done(const struct api_pod *pod)
{
    return pod_is_terminal(pod) ||
           (pod->metadata.deletion_timestamp.set && pod->spec.node_name.n == 0);
}

bool claim_is_reserved_for(const struct api_resource_claim *claim, struct str uid)
{
    for (size_t i = 0; i < claim->status.reserved_for.n; i++)
        if (str_eq(claim->status.reserved_for.p[i].uid, uid))
            return true;
    return false;
}

const struct api_condition *claim_device_condition(
    const struct api_resource_claim *claim, const struct api_device_request_allocation_result *r,
    struct str type)
{
    for (size_t i = 0; i < claim->status.devices.n; i++) {
        const struct api_allocated_device_status *d = &claim->status.devices.p[i];
        if (!str_eq(d->driver, r->driver) || !str_eq(d->pool, r->pool) ||
            !str_eq(d->device, r->device))
            continue;
        for (size_t k = 0; k < d->conditions.n; k++)
            if (str_eq(d->conditions.p[k].type, type))
                return &d->conditions.p[k];
    }
    return NULL;
}

bool consumer_is_pod(const struct api_resource_claim_consumer_reference *r)
{
    return r->api_group.n == 0 && str_eq(r->resource, claim_pods);
}

bool consumer_is_group(const struct api_resource_claim_consumer_reference *r)
{
    return str_eq(r->api_group, claim_groups_api) && str_eq(r->resource, claim_groups);
}

struct api_resource_claim_consumer_reference consumer_reference_to(
    const struct api_object_meta *meta, bool group)
{
    return (struct api_resource_claim_consumer_reference){
        .api_group = group ? claim_groups_api : STR(""),
        .resource = group ? claim_groups : claim_pods,
        .name = meta->name,
        .uid = meta->uid,
    };
}

// consumer_is_group_named reports whether a reference is to the PodGroup of this name; empty: to
// none.
static bool consumer_is_group_named(const struct api_resource_claim_consumer_reference *r,
                                    struct str name)
{
    return name.n && consumer_is_group(r) && str_eq(r->name, name);
}

bool claim_is_reserved_for_pod(const struct api_resource_claim *claim, const struct api_pod *pod,
                               bool groups)
{
    struct str group = groups ? pod_group_name(pod) : (struct str){0};
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        if (str_eq(r->uid, pod->metadata.uid) || consumer_is_group_named(r, group))
            return true;
    }
    return false;
}

bool claim_is_surplus(const struct api_resource_claim *claim, const struct api_pod *pod)
{
    const struct api_owner_reference *owner = meta_controller(&claim->metadata);
    if (!owner || !claim_is_extended(&claim->metadata) || !pod ||
        !str_eq(pod->metadata.uid, owner->uid) || !pod->spec.node_name.n)
        return false;
    const struct api_pod_extended_resource_claim_status *s =
        pod->status.extended_resource_claim_status;
    return !s || !str_eq(s->resource_claim_name, claim->metadata.name);
}

struct str pod_group_name(const struct api_pod *pod)
{
    const struct api_pod_scheduling_group *g = pod->spec.scheduling_group;
    return g && g->has_pod_group_name ? g->pod_group_name : (struct str){0};
}

static bool claim_text_equal(bool has_a, struct str a, bool has_b, struct str b)
{
    return has_a == has_b && (!has_a || str_eq(a, b));
}

bool pod_entry_is_of_group(const struct api_pod_group *group,
                           const struct api_pod_resource_claim *entry)
{
    for (size_t i = 0; group && i < group->spec.resource_claims.n; i++) {
        const struct api_pod_group_resource_claim *g = &group->spec.resource_claims.p[i];
        if (str_eq(g->name, entry->name) &&
            claim_text_equal(g->has_resource_claim_name, g->resource_claim_name,
                             entry->has_resource_claim_name, entry->resource_claim_name) &&
            claim_text_equal(g->has_resource_claim_template_name, g->resource_claim_template_name,
                             entry->has_resource_claim_template_name,
                             entry->resource_claim_template_name))
            return true;
    }
    return false;
}

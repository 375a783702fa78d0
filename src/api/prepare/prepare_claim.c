// SPDX-License-Identifier: Apache-2.0
//
// Preparation of claims and templates: fields of disabled features go, unless the old object uses
// the feature already.
#include <assert.h>

#include "api/prepare/prepare_int.h"

#include "base/banned.h"

// --- Which features a spec uses ------------------------------------------------------------------

static bool uses_taints(const struct api_resource_claim_spec *spec)
{
    for (size_t i = 0; spec && i < spec->devices.requests.n; i++) {
        const struct api_device_request *r = &spec->devices.requests.p[i];
        if (r->exactly && r->exactly->tolerations.n)
            return true;
        for (size_t j = 0; j < r->first_available.n; j++)
            if (r->first_available.p[j].tolerations.n)
                return true;
    }
    return false;
}

static bool uses_prioritized_list(const struct api_resource_claim_spec *spec)
{
    for (size_t i = 0; spec && i < spec->devices.requests.n; i++)
        if (spec->devices.requests.p[i].first_available.n)
            return true;
    return false;
}

static bool uses_admin_access(const struct api_resource_claim_spec *spec)
{
    for (size_t i = 0; spec && i < spec->devices.requests.n; i++) {
        const struct api_exact_device_request *r = spec->devices.requests.p[i].exactly;
        if (r && r->has_admin_access)
            return true;
    }
    return false;
}

static bool uses_capacity(const struct api_resource_claim_spec *spec)
{
    for (size_t i = 0; spec && i < spec->devices.constraints.n; i++)
        if (spec->devices.constraints.p[i].has_distinct_attribute)
            return true;
    for (size_t i = 0; spec && i < spec->devices.requests.n; i++) {
        const struct api_device_request *r = &spec->devices.requests.p[i];
        if (r->exactly && r->exactly->capacity)
            return true;
        for (size_t j = 0; j < r->first_available.n; j++)
            if (r->first_available.p[j].capacity)
                return true;
    }
    return false;
}

static bool uses_derived_attributes(const struct api_resource_claim_spec *spec)
{
    for (size_t i = 0; spec && i < spec->devices.requests.n; i++) {
        const struct api_device_request *r = &spec->devices.requests.p[i];
        if (r->exactly && r->exactly->derived_attributes.n)
            return true;
        for (size_t j = 0; j < r->first_available.n; j++)
            if (r->first_available.p[j].derived_attributes.n)
                return true;
    }
    return false;
}

// --- The spec ------------------------------------------------------------------------------------

// What to take away from every request.
struct drops {
    bool tolerations, admin_access, capacity, derived_attributes;
};

static void drop_from_request(struct api_device_request *r, const struct drops *drop)
{
    struct api_exact_device_request *exactly = r->exactly;
    if (exactly && drop->tolerations)
        exactly->tolerations = (struct api_device_toleration_array){0};
    if (exactly && drop->admin_access)
        exactly->has_admin_access = exactly->admin_access = false;
    if (exactly && drop->capacity)
        exactly->capacity = NULL;
    if (exactly && drop->derived_attributes)
        exactly->derived_attributes = (struct api_device_derived_attribute_array){0};
    for (size_t i = 0; i < r->first_available.n; i++) {
        struct api_device_sub_request *sub = &r->first_available.p[i];
        if (drop->tolerations)
            sub->tolerations = (struct api_device_toleration_array){0};
        if (drop->capacity)
            sub->capacity = NULL;
        if (drop->derived_attributes)
            sub->derived_attributes = (struct api_device_derived_attribute_array){0};
    }
}

static void drop_spec_fields(const struct preparer *p, struct api_resource_claim_spec *spec,
                             const struct api_resource_claim_spec *old)
{
    struct drops drop = {
        .tolerations = !gate_on(p, FEATURE_DRA_DEVICE_TAINTS) && !uses_taints(old),
        .admin_access = !gate_on(p, FEATURE_DRA_ADMIN_ACCESS) && !uses_admin_access(old),
        .capacity = !gate_on(p, FEATURE_DRA_CONSUMABLE_CAPACITY) && !uses_capacity(old),
        .derived_attributes =
            !gate_on(p, FEATURE_DRA_DERIVED_ATTRIBUTES) && !uses_derived_attributes(old),
    };
    bool list = !gate_on(p, FEATURE_DRA_PRIORITIZED_LIST) && !uses_prioritized_list(old);
    for (size_t i = 0; i < spec->devices.requests.n; i++) {
        if (list)
            spec->devices.requests.p[i].first_available = (struct api_device_sub_request_array){0};
        drop_from_request(&spec->devices.requests.p[i], &drop);
    }
    for (size_t i = 0; drop.capacity && i < spec->devices.constraints.n; i++) {
        spec->devices.constraints.p[i].has_distinct_attribute = false;
        spec->devices.constraints.p[i].distinct_attribute = STR("");
    }
}

// --- The status ----------------------------------------------------------------------------------

static const struct api_device_request_allocation_result_array *prepare_claim_results(
    const struct api_resource_claim *claim)
{
    static const struct api_device_request_allocation_result_array none;
    return claim->status.allocation ? &claim->status.allocation->devices.results : &none;
}

// Which features the status of the old claim uses.
struct status_use {
    bool admin_access, capacity, binding_conditions, node_operations;
};

static struct status_use status_use(const struct api_resource_claim *old)
{
    struct status_use use = {.admin_access = uses_admin_access(&old->spec),
                             .capacity = uses_capacity(&old->spec)};
    for (size_t i = 0; i < prepare_claim_results(old)->n; i++) {
        const struct api_device_request_allocation_result *r = &prepare_claim_results(old)->p[i];
        use.admin_access |= r->has_admin_access;
        use.capacity |= r->has_share_id || r->consumed_capacity.p;
        use.binding_conditions |= r->binding_conditions.p || r->binding_failure_conditions.p;
        use.node_operations |= r->skip_node_operations.n > 0;
    }
    for (size_t i = 0; i < old->status.devices.n; i++)
        use.capacity |= old->status.devices.p[i].has_share_id;
    return use;
}

static void drop_result_fields(const struct preparer *p,
                               struct api_device_request_allocation_result *r,
                               const struct status_use *use)
{
    if (!gate_on(p, FEATURE_DRA_ADMIN_ACCESS) && !use->admin_access)
        r->has_admin_access = r->admin_access = false;
    if (!gate_on(p, FEATURE_DRA_CONSUMABLE_CAPACITY) && !use->capacity) {
        r->has_share_id = false;
        r->share_id = STR("");
        r->consumed_capacity = (struct api_quantity_map){0};
    }
    if (!gate_on(p, FEATURE_DRA_DEVICE_BINDING_CONDITIONS) && !use->binding_conditions) {
        r->binding_conditions = (struct api_str_array){0};
        r->binding_failure_conditions = (struct api_str_array){0};
    }
    if (!gate_on(p, FEATURE_DRA_OPTIONAL_NODE_OPERATIONS) && !use->node_operations)
        r->skip_node_operations = (struct api_str_array){0};
}

static void drop_status_fields(const struct preparer *p, struct api_resource_claim *claim,
                               const struct api_resource_claim *old)
{
    struct status_use use = status_use(old);
    if (!gate_on(p, FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS) && old->status.devices.n == 0)
        claim->status.devices = (struct api_allocated_device_status_array){0};
    for (size_t i = 0; i < prepare_claim_results(claim)->n; i++)
        drop_result_fields(p, &prepare_claim_results(claim)->p[i], &use);
    bool drop = !gate_on(p, FEATURE_DRA_CONSUMABLE_CAPACITY) && !use.capacity;
    for (size_t i = 0; drop && i < claim->status.devices.n; i++) {
        claim->status.devices.p[i].has_share_id = false;
        claim->status.devices.p[i].share_id = STR("");
    }
}

static bool is_result_of(const struct api_resource_claim *claim,
                         const struct api_allocated_device_status *d)
{
    struct str share = d->has_share_id ? d->share_id : STR("");
    for (size_t i = 0; i < prepare_claim_results(claim)->n; i++) {
        const struct api_device_request_allocation_result *r = &prepare_claim_results(claim)->p[i];
        if (str_eq(r->driver, d->driver) && str_eq(r->pool, d->pool) &&
            str_eq(r->device, d->device) && str_eq(r->has_share_id ? r->share_id : STR(""), share))
            return true;
    }
    return false;
}

// Status of devices that this update gives back goes with them, so that clients which know nothing
// of it need not care.
static void drop_deallocated(const struct preparer *p, struct api_resource_claim *claim,
                             const struct api_resource_claim *old)
{
    struct api_allocated_device_status_array *devices = &claim->status.devices;
    size_t n = 0;
    if (!gate_on(p, FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS) && old->status.devices.n == 0)
        return;
    for (size_t i = 0; i < devices->n; i++)
        if (!is_result_of(old, &devices->p[i]) || is_result_of(claim, &devices->p[i]))
            devices->p[n++] = devices->p[i];
    devices->n = n;
    if (n == 0)
        devices->p = NULL;
}

// --- The kinds -----------------------------------------------------------------------------------

void prepare_claim(const struct preparer *p, struct api_resource_claim *claim,
                   const struct api_resource_claim *old)
{
    assert(old || p->op == API_CREATE);
    switch (p->op) {
    case API_CREATE:
        claim->status = (struct api_resource_claim_status){0};
        drop_spec_fields(p, &claim->spec, NULL);
        break;
    case API_UPDATE:
        claim->status = old->status;
        drop_spec_fields(p, &claim->spec, &old->spec);
        break;
    case API_STATUS_UPDATE:
        claim->spec = old->spec;
        prepare_meta_for_status(&claim->metadata, &old->metadata);
        drop_status_fields(p, claim, old);
        drop_deallocated(p, claim, old);
        break;
    }
}

void prepare_template(const struct preparer *p, struct api_resource_claim_template *t,
                      const struct api_resource_claim_template *old)
{
    drop_spec_fields(p, &t->spec.spec, old ? &old->spec.spec : NULL);
}

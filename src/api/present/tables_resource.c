// SPDX-License-Identifier: Apache-2.0
//
// Tables of the resource and scheduling groups.
#include "api/present/tables_int.h"

#include "base/banned.h"

static const struct table_column plain_columns[] = {TABLE_NAME, TABLE_AGE};

static void tables_resource_plain_cells(struct cells *c, const void *value)
{
    (void)value;
    tables_cell_name(c);
    tables_cell_age(c);
}

static const struct table_column claim_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("State", "What has become of the claim: pending, allocated, reserved, deleted."),
    TABLE_AGE,
};

static void claim_state(struct cells *c, const struct api_resource_claim_status *status)
{
    bool deleted = c->meta->deletion_timestamp.set;
    bool reserved = status->reserved_for.n > 0;
    tables_cell_name(c);
    if (!status->allocation)
        tables_cell_z(c, deleted ? "deleted" : "pending");
    else if (deleted)
        tables_cell_z(c, reserved ? "deleted,allocated,reserved" : "deleted,allocated");
    else
        tables_cell_z(c, reserved ? "allocated,reserved" : "allocated");
    tables_cell_age(c);
}

static void claim_cells(struct cells *c, const void *value)
{
    claim_state(c, &((const struct api_resource_claim *)value)->status);
}

static void v1beta1_claim_cells(struct cells *c, const void *value)
{
    claim_state(c, &((const struct api_v1beta1_resource_claim *)value)->status);
}

static const struct table_column slice_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Node", "The node whose devices these are."),
    TABLE_TEXT("Driver", "The driver that published it."),
    TABLE_TEXT("Pool", "The pool it belongs to."),
    TABLE_AGE,
};

static void slice_place(struct cells *c, struct str node, struct str driver, struct str pool)
{
    tables_cell_name(c);
    tables_cell_text(c, node);
    tables_cell_text(c, driver);
    tables_cell_text(c, pool);
    tables_cell_age(c);
}

static void slice_cells(struct cells *c, const void *value)
{
    const struct api_resource_slice_spec *spec = &((const struct api_resource_slice *)value)->spec;
    slice_place(c, spec->node_name, spec->driver, spec->pool.name);
}

static void v1beta1_slice_cells(struct cells *c, const void *value)
{
    const struct api_v1beta1_resource_slice_spec *spec =
        &((const struct api_v1beta1_resource_slice *)value)->spec;
    slice_place(c, spec->node_name, spec->driver, spec->pool.name);
}

static const struct table_column taint_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Key", "The taint's key."),
    TABLE_TEXT("Value", "The taint's value."),
    TABLE_TEXT("Effect", "What the taint does to claims that do not tolerate it."),
    TABLE_TEXT("TimeAdded", "How long ago the taint was added."),
    TABLE_AGE,
};

static void taint_cells(struct cells *c, const void *value)
{
    const struct api_device_taint *taint =
        &((const struct api_device_taint_rule *)value)->spec.taint;
    tables_cell_name(c);
    tables_cell_text(c, taint->key);
    tables_cell_text(c, taint->value);
    tables_cell_text(c, taint->effect);
    if (taint->time_added.set)
        tables_cell_since(c, &taint->time_added);
    else
        tables_cell_z(c, "");
    tables_cell_age(c);
}

static const struct table_column pool_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Driver", "The driver whose pools are requested."),
    TABLE_TEXT("Total", "Devices in all pools."),
    TABLE_TEXT("Available", "Devices that are free, in all pools."),
    TABLE_TEXT("Allocated", "Devices that are taken, in all pools."),
    TABLE_TEXT("Unavailable", "Devices that cannot be had, in all pools."),
    TABLE_TEXT("Errors", "Pools with errors."),
    TABLE_NUMBER("Pools", "Pools that match."),
    TABLE_TEXT("Status", "How far the request has come."),
    TABLE_TEXT("Completed", "How long ago it was answered."),
};

static void cell_count(struct cells *c, bool known, int64_t count)
{
    tables_cell_text(c, known ? arena_strf(c->arena, "%lld", (long long)count) : STR("-"));
}

static void pool_counts(struct cells *c, const struct api_resource_pool_status_request_status *s,
                        bool known)
{
    // Upstream adds in 32 bits.
    uint32_t total = 0, available = 0, allocated = 0, unavailable = 0;
    int64_t errors = 0;
    for (size_t i = 0; s && i < s->pools.n; i++) {
        const struct api_pool_status *p = &s->pools.p[i];
        errors += p->has_validation_error;
        total += (uint32_t)p->total_devices;
        available += (uint32_t)p->available_devices;
        allocated += (uint32_t)p->allocated_devices;
        unavailable += (uint32_t)p->unavailable_devices;
    }
    cell_count(c, known, (int32_t)total);
    cell_count(c, known, (int32_t)available);
    cell_count(c, known, (int32_t)allocated);
    cell_count(c, known, (int32_t)unavailable);
    cell_count(c, known, errors);
}

// pool_verdict finds the first condition that ends a request.
static const struct api_condition *pool_verdict(
    const struct api_resource_pool_status_request_status *s)
{
    for (size_t i = 0; s && i < s->conditions.n; i++) {
        const struct api_condition *cond = &s->conditions.p[i];
        if (str_eqz(cond->status, "True") &&
            (str_eqz(cond->type, "Complete") || str_eqz(cond->type, "Failed")))
            return cond;
    }
    return NULL;
}

static void pool_cells(struct cells *c, const void *value)
{
    const struct api_resource_pool_status_request *request = value;
    const struct api_resource_pool_status_request_status *s = request->status;
    const struct api_condition *verdict = pool_verdict(s);
    bool failed = verdict && str_eqz(verdict->type, "Failed");
    int32_t pools = s && s->has_pool_count ? s->pool_count : 0;
    tables_cell_name(c);
    tables_cell_text(c, request->spec.driver);
    pool_counts(c, s, s && !failed);
    tables_cell_number(c, pools);
    if (!verdict)
        tables_cell_z(c, "Pending");
    else if (s && !failed && pools > (int32_t)s->pools.n)
        tables_cell_text(c, arena_strf(c->arena, "Complete (%zu/%d pools)", s->pools.n, pools));
    else
        tables_cell_text(c, verdict->type);
    if (verdict && !failed)
        tables_cell_since(c, &verdict->last_transition_time);
    else
        tables_cell_z(c, "<none>");
}

static const struct table_column pod_group_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Policy", "How its pods are scheduled: each for itself or all together."),
    TABLE_TEXT("Workload", "The Workload it belongs to."),
    TABLE_TEXT("Status", "Whether it is scheduled."),
    TABLE_AGE,
};

static void pod_group_cells(struct cells *c, const void *value)
{
    const struct api_pod_group *group = value;
    struct str status = STR("Pending");
    const struct api_condition *scheduled = NULL, *disrupted = NULL;
    for (size_t i = 0; i < group->status.conditions.n; i++) {
        const struct api_condition *cond = &group->status.conditions.p[i];
        if (str_eqz(cond->type, "PodGroupInitiallyScheduled"))
            scheduled = cond;
        else if (str_eqz(cond->type, "DisruptionTarget"))
            disrupted = cond;
    }
    if (scheduled)
        status = str_eqz(scheduled->status, "True") ? STR("Scheduled") : STR("Unschedulable");
    if (disrupted)
        status = disrupted->reason;
    tables_cell_name(c);
    tables_cell_z(c, group->spec.scheduling_policy.gang ? "Gang" : "Basic");
    tables_cell_text(c, group->spec.workload_ref ? group->spec.workload_ref->workload_name
                                                 : STR("<none>"));
    tables_cell_text(c, status);
    tables_cell_age(c);
}

static const struct table_column composite_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Policy", "How its groups are scheduled: each for itself or all together."),
    TABLE_TEXT("Workload", "The Workload it belongs to."),
    TABLE_AGE,
};

static void composite_cells(struct cells *c, const void *value)
{
    const struct api_v1alpha3_composite_pod_group *group = value;
    tables_cell_name(c);
    tables_cell_z(c, group->spec.scheduling_policy.gang ? "Gang" : "Basic");
    tables_cell_text(c, group->spec.workload_ref ? group->spec.workload_ref->workload_name
                                                 : STR("<none>"));
    tables_cell_age(c);
}

static const struct table_column priority_columns[] = {
    TABLE_NAME,
    TABLE_NUMBER("Value", "The priority of its pods."),
    TABLE_BOOL("Global-Default", "Whether pods without a class get it."),
    TABLE_AGE,
    TABLE_TEXT("PreemptionPolicy", "Whether its pods may evict others."),
};

static void priority_cells(struct cells *c, const void *value)
{
    const struct api_priority_class *class = value;
    tables_cell_name(c);
    tables_cell_number(c, class->value);
    tables_cell_bool(c, class->global_default);
    tables_cell_age(c);
    tables_cell_text(c, class->preemption_policy);
}

const struct table_printer table_printers_resource[] = {
    TABLE_PRINTER(resource_claim, claim_columns, claim_cells),
    TABLE_PRINTER(v1beta1_resource_claim, claim_columns, v1beta1_claim_cells),
    TABLE_PRINTER(resource_claim_template, plain_columns, tables_resource_plain_cells),
    TABLE_PRINTER(v1beta1_resource_claim_template, plain_columns, tables_resource_plain_cells),
    TABLE_PRINTER(resource_slice, slice_columns, slice_cells),
    TABLE_PRINTER(v1beta1_resource_slice, slice_columns, v1beta1_slice_cells),
    TABLE_PRINTER(device_class, plain_columns, tables_resource_plain_cells),
    TABLE_PRINTER(device_taint_rule, taint_columns, taint_cells),
    TABLE_PRINTER(resource_pool_status_request, pool_columns, pool_cells),
    TABLE_PRINTER(workload, plain_columns, tables_resource_plain_cells),
    TABLE_PRINTER(pod_group, pod_group_columns, pod_group_cells),
    TABLE_PRINTER(v1alpha3_composite_pod_group, composite_columns, composite_cells),
    TABLE_PRINTER(priority_class, priority_columns, priority_cells),
    TABLE_PRINTER(service_account, plain_columns, tables_resource_plain_cells),
};
const size_t table_printers_resource_len = array_len(table_printers_resource);

// SPDX-License-Identifier: Apache-2.0
//
// Preparation of slices: fields of disabled features go, unless the old slice uses the feature
// already.
#include "api/prepare/prepare_int.h"

#include "base/banned.h"

// Which features a slice uses.
struct slice_use {
    bool taints, partitions, binding_conditions, capacity, groups, allocatable, lists, type,
        operations;
};

static void note_device(struct slice_use *use, const struct api_device *d)
{
    use->taints |= d->taints.n > 0;
    use->partitions |=
        d->consumes_counters.n || d->has_node_name || d->node_selector || d->has_all_nodes;
    use->binding_conditions |=
        d->binding_conditions.n || d->binding_failure_conditions.n || d->has_binds_to_node;
    use->capacity |= d->has_allow_multiple_allocations;
    for (size_t i = 0; i < d->capacity.n; i++)
        use->capacity |= d->capacity.p[i].value.request_policy != NULL;
    for (size_t i = 0; i < d->consumes_counters.n; i++)
        use->groups |= d->consumes_counters.p[i].compatibility_groups.n > 0;
    use->allocatable |= d->node_allocatable_resources.n > 0;
    for (size_t i = 0; i < d->attributes.n; i++) {
        const struct api_device_attribute *a = &d->attributes.p[i].value;
        use->lists |=
            a->bool_values.p || a->int_values.p || a->string_values.p || a->version_values.p;
    }
}

static struct slice_use slice_use(const struct api_resource_slice *slice)
{
    struct slice_use use = {0};
    if (!slice)
        return use;
    use.partitions = slice->spec.shared_counters.n || slice->spec.has_per_device_node_selection;
    use.type = slice->spec.has_partition_type_attribute;
    use.operations = slice->spec.skip_node_operations.n > 0;
    for (size_t i = 0; i < slice->spec.devices.n; i++)
        note_device(&use, &slice->spec.devices.p[i]);
    return use;
}

static void drop_capacity(struct api_device *d)
{
    d->has_allow_multiple_allocations = d->allow_multiple_allocations = false;
    for (size_t i = 0; i < d->capacity.n; i++)
        d->capacity.p[i].value.request_policy = NULL;
}

static void drop_partitions(struct api_device *d)
{
    d->consumes_counters = (struct api_device_counter_consumption_array){0};
    d->has_node_name = d->has_all_nodes = d->all_nodes = false;
    d->node_name = STR("");
    d->node_selector = NULL;
}

static void drop_lists(struct api_device *d)
{
    for (size_t i = 0; i < d->attributes.n; i++) {
        struct api_device_attribute *a = &d->attributes.p[i].value;
        a->bool_values = (struct api_bool_array){0};
        a->int_values = (struct api_i64_array){0};
        a->string_values = a->version_values = (struct api_str_array){0};
    }
}

// keep: what stays, because its feature is on or was in use.
static void drop_device_fields(struct api_device *d, const struct slice_use *keep)
{
    if (!keep->taints)
        d->taints = (struct api_device_taint_array){0};
    if (!keep->partitions)
        drop_partitions(d);
    if (!keep->binding_conditions) {
        d->binding_conditions = d->binding_failure_conditions = (struct api_str_array){0};
        d->has_binds_to_node = d->binds_to_node = false;
    }
    if (!keep->capacity)
        drop_capacity(d);
    for (size_t i = 0; !keep->groups && i < d->consumes_counters.n; i++)
        d->consumes_counters.p[i].compatibility_groups = (struct api_str_array){0};
    if (!keep->allocatable)
        d->node_allocatable_resources = (struct api_node_allocatable_resource_map){0};
    if (!keep->lists)
        drop_lists(d);
}

static void drop_fields(const struct preparer *p, struct api_resource_slice *slice,
                        const struct api_resource_slice *old)
{
    struct slice_use keep = slice_use(old);
    keep.taints |= gate_on(p, FEATURE_DRA_DEVICE_TAINTS);
    keep.partitions |= gate_on(p, FEATURE_DRA_PARTITIONABLE_DEVICES);
    keep.binding_conditions |= gate_on(p, FEATURE_DRA_DEVICE_BINDING_CONDITIONS) &&
                               gate_on(p, FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS);
    keep.capacity |= gate_on(p, FEATURE_DRA_CONSUMABLE_CAPACITY);
    keep.groups |= gate_on(p, FEATURE_DRA_DEVICE_COMPATIBILITY_GROUPS);
    keep.allocatable |= gate_on(p, FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES);
    keep.lists |= gate_on(p, FEATURE_DRA_LIST_TYPE_ATTRIBUTES);
    keep.type |= gate_on(p, FEATURE_DRA_PARTITIONABLE_DEVICES_TYPE);
    keep.operations |= gate_on(p, FEATURE_DRA_OPTIONAL_NODE_OPERATIONS);
    struct api_resource_slice_spec *spec = &slice->spec;
    if (!keep.partitions) {
        spec->shared_counters = (struct api_counter_set_array){0};
        spec->has_per_device_node_selection = spec->per_device_node_selection = false;
    }
    if (!keep.type) {
        spec->has_partition_type_attribute = false;
        spec->partition_type_attribute = STR("");
    }
    if (!keep.operations)
        spec->skip_node_operations = (struct api_str_array){0};
    for (size_t i = 0; i < spec->devices.n; i++)
        drop_device_fields(&spec->devices.p[i], &keep);
}

void prepare_slice(const struct preparer *p, struct api_resource_slice *slice,
                   const struct api_resource_slice *old)
{
    if (!old)
        slice->metadata.generation = 1;
    else if (!api_equal(&api_resource_slice_spec_type, &slice->spec, &old->spec))
        slice->metadata.generation = old->metadata.generation + 1;
    drop_fields(p, slice, old);
}

// SPDX-License-Identifier: Apache-2.0
//
// ResourceSlice without what is inside a device.
#include <assert.h>

#include "api/validate/validate_int.h"

#include "base/banned.h"

#define DEVICES_MAX          128
#define DEVICES_ADVANCED_MAX 64 // when a device has taints, counters or lists in attributes
#define COUNTER_SETS_MAX     8

static void check_pool(struct validator *v, const struct path *at,
                       const struct api_resource_pool *pool)
{
    validate_pool_name(v, AT(at, "name"), pool->name);
    if (pool->resource_slice_count <= 0)
        cause_invalid_i64(v->causes, AT(at, "resourceSliceCount"), pool->resource_slice_count,
                          STR("must be greater than zero"));
    if (pool->generation < 0)
        cause_invalid_i64(v->causes, AT(at, "generation"), pool->generation,
                          STR("must be greater than or equal to zero"));
}

static void check_immutable(struct validator *v, const struct path *at,
                            const struct api_resource_slice_spec *spec,
                            const struct api_resource_slice_spec *old)
{
    validate_unchanged(v, AT(AT(at, "pool"), "name"), spec->pool.name, old->pool.name);
    validate_unchanged(v, AT(at, "driver"), spec->driver, old->driver);
    if (spec->has_node_name != old->has_node_name || !str_eq(spec->node_name, old->node_name)) {
        // Upstream has a pointer here, which shows as JSON.
        cleanup_sbuf struct sbuf b = {0};
        if (spec->has_node_name)
            sbuf_add_json_str(&b, spec->node_name, true);
        else
            sbuf_addz(&b, "null");
        cause_invalid_json(v->causes, AT(at, "nodeName"), sbuf_str(&b), STR("field is immutable"));
    }
}

// --- Node selection ------------------------------------------------------------------------------

static void check_slice_selector(struct validator *v, const struct path *at,
                                 const struct api_node_selector *selector)
{
    validate_node_selector(v, at, selector);
    if (selector->node_selector_terms.n == 1)
        return;
    // Shown as upstream's list of terms: cut out of the selector.
    struct str shown = validate_show_internal_json(&api_node_selector_type, selector, scratch(v));
    size_t skip = sizeof("{\"NodeSelectorTerms\":") - 1;
    cause_invalid_json(v->causes, AT(at, "nodeSelectorTerms"),
                       str_upto(str_from(shown, skip), shown.n - skip - 1),
                       STR("must have exactly one node selector term"));
}

static void check_flag(struct validator *v, const struct path *at, bool value,
                       struct chosen *chosen)
{
    if (value)
        validate_choose(chosen, at->name.p);
    else
        cause_invalid_bool(v->causes, at, false, STR("must be either unset or set to true"));
}

static void validate_slice_nodes(struct validator *v, const struct path *at,
                                 const struct api_resource_slice_spec *spec)
{
    struct chosen chosen = {0};
    if (spec->has_node_name && spec->node_name.n) {
        validate_choose(&chosen, "nodeName");
        validate_format(v, AT(at, "nodeName"), spec->node_name, name_dns_subdomain, NULL);
    } else if (spec->has_node_name) {
        cause_invalid(v->causes, AT(at, "nodeName"), spec->node_name,
                      STR("must be either unset or set to a non-empty string"));
    }
    if (spec->node_selector) {
        validate_choose(&chosen, "nodeSelector");
        check_slice_selector(v, AT(at, "nodeSelector"), spec->node_selector);
    }
    if (spec->has_all_nodes)
        check_flag(v, AT(at, "allNodes"), spec->all_nodes, &chosen);
    if (spec->has_per_device_node_selection)
        check_flag(v, AT(at, "perDeviceNodeSelection"), spec->per_device_node_selection, &chosen);
    validate_one_chosen(
        v, at, &chosen,
        STR("exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
            "required"),
        STR("exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is "
            "required, but multiple fields are set"));
}

// --- Counters and devices ------------------------------------------------------------------------

static void check_counter_sets(struct validator *v, const struct path *at,
                               const struct api_counter_set_array *sets)
{
    assert(sets->p || sets->n == 0);
    if (!validate_max_items(v, at, sets->n, COUNTER_SETS_MAX, COVERED))
        return;
    for (size_t i = 0; i < sets->n; i++)
        validate_counters(v, AT_ITEM(at, i), STR("name"), sets->p[i].name, &sets->p[i].counters);
    validate_unique(v, at, TEXTS(sets, name), COVERED);
}

static bool has_list_attribute(const struct api_device *device)
{
    for (size_t i = 0; i < device->attributes.n; i++) {
        const struct api_device_attribute *a = &device->attributes.p[i].value;
        if (a->bool_values.p || a->int_values.p || a->string_values.p || a->version_values.p)
            return true;
    }
    return false;
}

static bool any_consumes_counters(const struct api_resource_slice_spec *spec)
{
    for (size_t i = 0; i < spec->devices.n; i++)
        if (spec->devices.p[i].consumes_counters.n)
            return true;
    return false;
}

static size_t slice_max_devices(const struct api_resource_slice_spec *spec)
{
    assert(spec->devices.p || spec->devices.n == 0);
    for (size_t i = 0; i < spec->devices.n; i++) {
        const struct api_device *d = &spec->devices.p[i];
        if (d->taints.n || d->consumes_counters.n || has_list_attribute(d))
            return DEVICES_ADVANCED_MAX;
    }
    return DEVICES_MAX;
}

static const struct api_device *slice_find_device(const struct api_resource_slice_spec *spec,
                                                  struct str name)
{
    for (size_t i = 0; spec && i < spec->devices.n; i++)
        if (str_eq(spec->devices.p[i].name, name))
            return &spec->devices.p[i];
    return NULL;
}

static void validate_slice_devices(struct validator *v, const struct path *at,
                                   const struct api_resource_slice_spec *spec,
                                   const struct api_resource_slice_spec *old)
{
    bool each = spec->has_per_device_node_selection && spec->per_device_node_selection;
    if (!validate_max_items(v, at, spec->devices.n, slice_max_devices(spec), OWN))
        return;
    for (size_t i = 0; i < spec->devices.n; i++) {
        const struct api_device *d = &spec->devices.p[i];
        validate_device(v, AT_ITEM(at, i), d, slice_find_device(old, d->name), each);
    }
    validate_unique(v, at, TEXTS(&spec->devices, name), OWN);
}

// --- Partition type and node operations ----------------------------------------------------------

static const struct api_device_attribute *find_attribute(const struct api_device *device,
                                                         struct str name)
{
    for (size_t i = 0; name.n && i < device->attributes.n; i++)
        if (str_eq(device->attributes.p[i].key, name))
            return &device->attributes.p[i].value;
    return NULL;
}

static bool well_formed(struct validator *v, struct str name)
{
    struct causes ignored = {.arena = scratch(v)};
    struct validator quiet = *v;
    quiet.causes = &ignored;
    validate_fully_qualified_name(&quiet, NULL, name);
    return ignored.n == 0;
}

// The attribute may be declared under its full name or, in the driver's own domain, the bare one.
static void check_partition_device(struct validator *v, const struct path *attributes,
                                   const struct api_device *device, struct str name,
                                   struct str bare)
{
    const struct api_device_attribute *a = find_attribute(device, name);
    if (!a)
        a = find_attribute(device, bare);
    if (!a)
        cause_required(v->causes, AT_KEY(attributes, name),
                       STR("device consumes counters and `partitionTypeAttribute` names this "
                           "attribute, so it must be set"));
    else if (!a->has_string_value)
        cause_invalid_json(v->causes, AT_KEY(attributes, name),
                           validate_show_internal_json(&api_device_attribute_type, a, scratch(v)),
                           STR("must be a string value because `partitionTypeAttribute` names "
                               "this attribute"));
}

static void check_partition_type(struct validator *v, const struct path *at,
                                 const struct api_resource_slice_spec *spec)
{
    struct str name = spec->partition_type_attribute;
    if (!any_consumes_counters(spec)) {
        cause_invalid(v->causes, AT(at, "partitionTypeAttribute"), name,
                      STR("may only be set on a slice which declares devices that consume "
                          "counters"));
        return;
    }
    // A malformed name is reported by its declarative rule; no device can carry it.
    if (!well_formed(v, name))
        return;
    assert(spec->devices.p); // it has some that consume counters
    struct str prefix = arena_strf(scratch(v), "%.*s/", STR_ARG(spec->driver));
    struct str bare = str_starts(name, prefix) ? str_from(name, prefix.n) : name;
    for (size_t i = 0; i < spec->devices.n; i++) {
        if (spec->devices.p[i].consumes_counters.n)
            check_partition_device(v, AT(AT_ITEM(AT(at, "devices"), i), "attributes"),
                                   &spec->devices.p[i], name, bare);
    }
}

void validate_skip_node_operations(struct validator *v, const struct path *at,
                                   const struct api_str_array *operations)
{
    if (api_str_listed(operations, STR("NodePrepareResources")) &&
        !api_str_listed(operations, STR("NodeUnprepareResources")) &&
        !api_str_listed(operations, STR("*")))
        cause_invalid_json(v->causes, at,
                           validate_show_strings(operations->p, operations->n, scratch(v)),
                           STR("NodePrepareResources cannot be skipped unless "
                               "NodeUnprepareResources is also skipped"));
}

// --- The whole -----------------------------------------------------------------------------------

static void validate_slice_spec(struct validator *v, const struct api_resource_slice_spec *spec,
                                const struct api_resource_slice_spec *old)
{
    const struct path *at = AT(NULL, "spec");
    validate_driver_name(v, AT(at, "driver"), spec->driver, OWN);
    check_pool(v, AT(at, "pool"), &spec->pool);
    if (old)
        check_immutable(v, at, spec, old);
    validate_slice_nodes(v, at, spec);
    if (spec->shared_counters.p && spec->devices.p)
        cause_invalid(v->causes, at, STR(""),
                      STR("only one of `sharedCounters` or `devices` is allowed"));
    validate_slice_devices(v, AT(at, "devices"), spec, old);
    check_counter_sets(v, AT(at, "sharedCounters"), &spec->shared_counters);
    if (spec->has_partition_type_attribute)
        check_partition_type(v, at, spec);
    validate_skip_node_operations(v, AT(at, "skipNodeOperations"), &spec->skip_node_operations);
}

void validate_slice(struct validator *v, const struct api_resource_slice *slice,
                    const struct api_resource_slice *old)
{
    validate_cluster_meta(v, &slice->metadata, old ? &old->metadata : NULL);
    validate_slice_spec(v, &slice->spec, old ? &old->spec : NULL);
}

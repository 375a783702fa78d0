// SPDX-License-Identifier: Apache-2.0
//
// A device of a ResourceSlice, without the arithmetic of consumable capacity.
#include "api/validate/validate_int.h"

#include "base/banned.h"

#define ENTRIES_MAX            32 // attributes and capacities together
#define VALUES_MAX             48 // of attributes, items of lists counted one by one
#define VALUE_BYTES_MAX        64
#define KEY_BYTES_MAX          (63 + 1 + 32) // longer keys are cut in paths
#define TAINTS_MAX             16
#define CONSUMPTIONS_MAX       2
#define COUNTERS_MAX           32
#define BINDING_CONDITIONS_MAX 4

static void validate_quantity_not_negative(struct validator *v, const struct path *at,
                                           const struct quantity *q)
{
    if (q && quantity_sign(q) < 0)
        cause_invalid(v->causes, at, validate_quantity_text(q, scratch(v)),
                      STR("must be non-negative"));
}

// A path step for a key that may be absurdly long: its middle is left out.
static struct str short_key(struct str key, struct arena *arena)
{
    if (key.n <= KEY_BYTES_MAX)
        return key;
    size_t rest = KEY_BYTES_MAX - 3, head = (rest + 1) / 2, tail = rest / 2;
    return arena_strf(arena, "%.*s...%.*s", (int)head, key.p, (int)tail, key.p + key.n - tail);
}

// --- Attributes ----------------------------------------------------------------------------------

static void validate_device_string(struct validator *v, const struct path *at, struct str value)
{
    if (value.n > VALUE_BYTES_MAX)
        cause_too_long(v->causes, at, VALUE_BYTES_MAX);
}

static void validate_device_version(struct validator *v, const struct path *at, struct str value)
{
    if (!name_is_semver(value))
        cause_invalid(v->causes, at, value,
                      STR("must be a string compatible with semver.org spec 2.0.0"));
    validate_device_string(v, at, value);
}

// Counts a list that is set, and reports one that is set but empty.
static size_t validate_device_values(struct validator *v, const struct path *at, const void *p,
                                     size_t n)
{
    if (p && n == 0)
        cause_invalid_json(v->causes, at, STR("[]"), STR("must not be empty if specified"));
    return p != NULL;
}

static size_t check_lists(struct validator *v, const struct path *at,
                          const struct api_device_attribute *a)
{
    size_t set = validate_device_values(v, AT(at, "bools"), a->bool_values.p, a->bool_values.n);
    set += validate_device_values(v, AT(at, "ints"), a->int_values.p, a->int_values.n);
    set += validate_device_values(v, AT(at, "strings"), a->string_values.p, a->string_values.n);
    for (size_t i = 0; i < a->string_values.n; i++) {
        size_t from = v->causes->n;
        validate_device_string(v, AT_ITEM(AT(at, "strings"), i), a->string_values.p[i]);
        causes_mark(v->causes, from, "maxBytes", COVERED);
    }
    set += validate_device_values(v, AT(at, "versions"), a->version_values.p, a->version_values.n);
    for (size_t i = 0; i < a->version_values.n; i++)
        validate_device_version(v, AT_ITEM(AT(at, "versions"), i), a->version_values.p[i]);
    return set;
}

static void check_attribute(struct validator *v, const struct path *at,
                            const struct api_device_attribute *a)
{
    size_t set =
        (size_t)a->has_bool_value + a->has_int_value + a->has_string_value + a->has_version_value;
    if (a->has_string_value)
        validate_device_string(v, AT(at, "string"), a->string_value);
    if (a->has_version_value)
        validate_device_version(v, AT(at, "version"), a->version_value);
    set += check_lists(v, at, a);
    if (set == 1)
        return;
    struct str rule = STR("exactly one value must be specified");
    size_t n = set == 0 ? cause_invalid(v->causes, at, STR(""), rule)
                        : cause_invalid_json(v->causes, at,
                                             validate_show_internal_json(&api_device_attribute_type,
                                                                         a, scratch(v)),
                                             rule);
    causes_mark(v->causes, n, "union", COVERED);
}

static size_t count_values(const struct api_device *device)
{
    size_t sum = 0;
    for (size_t i = 0; i < device->attributes.n; i++) {
        const struct api_device_attribute *a = &device->attributes.p[i].value;
        size_t items =
            a->bool_values.n + a->int_values.n + a->string_values.n + a->version_values.n;
        sum += items ? items : 1;
    }
    return sum;
}

static void check_sizes(struct validator *v, const struct path *at, const struct api_device *device)
{
    size_t entries = device->attributes.n + device->capacity.n, values = count_values(device);
    if (entries > ENTRIES_MAX)
        cause_invalid_i64(v->causes, at, (int64_t)entries,
                          STR("the total number of attributes and capacities must not exceed 32"));
    if (values > VALUES_MAX)
        cause_invalid_i64(v->causes, at, (int64_t)values,
                          STR("the total number of attribute values must not exceed 48"));
}

static void check_attributes(struct validator *v, const struct path *at,
                             const struct api_device_attribute_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        validate_qualified_name(v, at, map->p[i].key);
        check_attribute(v, AT_KEY(at, short_key(map->p[i].key, scratch(v))), &map->p[i].value);
    }
}

// --- Capacity, taints, counters ------------------------------------------------------------------

static bool device_is_shared(const struct api_device *device)
{
    return device->has_allow_multiple_allocations && device->allow_multiple_allocations;
}

static void validate_device_capacities(struct validator *v, const struct path *at,
                                       const struct api_device *device)
{
    bool shared = device_is_shared(device);
    for (size_t i = 0; i < device->capacity.n; i++) {
        const struct api_device_capacity *c = &device->capacity.p[i].value;
        const struct path *item = AT_KEY(at, short_key(device->capacity.p[i].key, scratch(v)));
        validate_qualified_name(v, at, device->capacity.p[i].key);
        if (!c->request_policy)
            continue;
        if (shared)
            validate_request_policy(v, AT(item, "requestPolicy"), c);
        else
            cause_forbidden(v->causes, AT(item, "requestPolicy"),
                            STR("allowMultipleAllocations must be true"));
    }
}

static void check_taints(struct validator *v, const struct path *at,
                         const struct api_device_taint_array *taints)
{
    if (!validate_max_items(v, at, taints->n, TAINTS_MAX, OWN))
        return;
    for (size_t i = 0; i < taints->n; i++)
        validate_taint(v, AT_ITEM(at, i), &taints->p[i], NULL);
}

void validate_counters(struct validator *v, const struct path *at, struct str field,
                       struct str name, const struct api_counter_map *map)
{
    const struct path *counters = AT(at, "counters");
    size_t from = v->causes->n;
    if (name.n == 0)
        cause_required(v->causes, AT_NAME(at, field), STR(""));
    else
        validate_dns_label(v, AT_NAME(at, field), name);
    if (map->n == 0)
        cause_required(v->causes, counters, STR(""));
    causes_mark(v->causes, from, NULL, COVERED);
    if (map->n > COUNTERS_MAX) {
        cause_too_many(v->causes, counters, map->n, COUNTERS_MAX);
        return;
    }
    from = v->causes->n;
    for (size_t i = 0; i < map->n; i++)
        validate_dns_label(v, counters, map->p[i].key);
    causes_mark(v->causes, from, NULL, COVERED);
    // Consumption is subtracted: a negative one would add to what the set has.
    for (size_t i = 0; i < map->n; i++)
        validate_quantity_not_negative(v, AT(AT_KEY(counters, map->p[i].key), "value"),
                                       &map->p[i].value.value);
}

static void check_consumptions(struct validator *v, const struct path *at,
                               const struct api_device_counter_consumption_array *list)
{
    if (!validate_max_items(v, at, list->n, CONSUMPTIONS_MAX, COVERED))
        return;
    for (size_t i = 0; i < list->n; i++)
        validate_counters(v, AT_ITEM(at, i), STR("counterSet"), list->p[i].counter_set,
                          &list->p[i].counters);
    validate_unique(v, at, TEXTS(list, counter_set), COVERED);
}

// --- Nodes ---------------------------------------------------------------------------------------

void validate_choose(struct chosen *c, const char *field)
{
    sbuf_addz(&c->names, c->n++ ? ", `" : "{`");
    sbuf_addz(&c->names, field);
    sbuf_addc(&c->names, '`');
}

void validate_one_chosen(struct validator *v, const struct path *at, struct chosen *c,
                         struct str none, struct str several)
{
    sbuf_addc(&c->names, '}');
    if (c->n == 0)
        cause_required(v->causes, at, none);
    else if (c->n > 1)
        cause_invalid(v->causes, at, sbuf_str(&c->names), several);
    sbuf_done(&c->names);
}

static void check_own_nodes(struct validator *v, const struct path *at,
                            const struct api_device *device)
{
    struct str rule =
        STR("exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
            "`perDeviceNodeSelection` is set to true in the ResourceSlice spec");
    struct chosen chosen = {0};
    if (device->has_node_name && device->node_name.n) {
        validate_choose(&chosen, "nodeName");
        validate_format(v, AT(at, "nodeName"), device->node_name, name_dns_subdomain, NULL);
    } else if (device->has_node_name) {
        cause_invalid(v->causes, AT(at, "nodeName"), STR(""), STR("must not be empty"));
    }
    if (device->node_selector) {
        validate_choose(&chosen, "nodeSelector");
        validate_node_selector(v, AT(at, "nodeSelector"), device->node_selector);
    }
    if (device->has_all_nodes && device->all_nodes)
        validate_choose(&chosen, "allNodes");
    else if (device->has_all_nodes)
        cause_invalid_bool(v->causes, AT(at, "allNodes"), false,
                           STR("must be either unset or set to true"));
    validate_one_chosen(v, at, &chosen, rule, rule);
}

static void check_device_nodes(struct validator *v, const struct path *at,
                               const struct api_device *device, bool per_device_nodes)
{
    if (per_device_nodes)
        check_own_nodes(v, at, device);
    else if (device->has_node_name || device->node_selector || device->has_all_nodes)
        cause_invalid_json(v->causes, at, STR("null"),
                           STR("`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                               "`perDeviceNodeSelection` is set to true in the ResourceSlice "
                               "spec"));
}

// --- Binding conditions --------------------------------------------------------------------------

static void check_condition_names(struct validator *v, const struct path *at,
                                  const struct api_str_array *names)
{
    if (!validate_max_items(v, at, names->n, BINDING_CONDITIONS_MAX, COVERED))
        return;
    for (size_t i = 0; i < names->n; i++)
        validate_label_key(v, AT_ITEM(at, i), names->p[i]);
}

static void check_condition_repeats(struct validator *v, const struct path *at,
                                    const struct api_str_array *names,
                                    const struct api_str_array *disjoint)
{
    cleanup_seen struct seen own = {0}, other = {0};
    for (size_t i = 0; disjoint && i < disjoint->n; i++)
        (void)seen_add(&other, disjoint->p[i]);
    for (size_t i = 0; i < names->n; i++) {
        if (seen_add(&own, names->p[i]))
            cause_duplicate(v->causes, AT_ITEM(at, i), names->p[i]);
        if (map_has(&other, names->p[i]))
            cause_invalid(v->causes, AT_ITEM(at, i), names->p[i],
                          STR("bindingFailureConditions must not overlap with bindingConditions"));
    }
}

void validate_binding_conditions(struct validator *v, const struct path *at,
                                 const struct api_str_array *conditions,
                                 const struct api_str_array *failures)
{
    const struct path *good = AT(at, "bindingConditions");
    const struct path *bad = AT(at, "bindingFailureConditions");
    check_condition_names(v, good, conditions);
    check_condition_names(v, bad, failures);
    check_condition_repeats(v, good, conditions, NULL);
    check_condition_repeats(v, bad, failures, conditions);
    if (conditions->n == 0 && failures->n)
        cause_invalid_json(v->causes, good,
                           validate_show_strings(conditions->p, conditions->n, scratch(v)),
                           STR("bindingConditions are required to use bindingFailureConditions"));
    if (failures->n == 0 && conditions->n)
        cause_invalid_json(v->causes, bad,
                           validate_show_strings(failures->p, failures->n, scratch(v)),
                           STR("bindingFailureConditions are required to use bindingConditions"));
}

// --- Node allocatable resources ------------------------------------------------------------------

static bool has_capacity(const struct api_device_capacity_map *map, struct str key)
{
    size_t from = 0, to = map->n; // sorted by key
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        int order = str_cmp(map->p[middle].key, key);
        if (order == 0)
            return true;
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return false;
}

static void validate_device_count(struct validator *v, const struct path *at,
                                  const struct quantity *q)
{
    if (q && quantity_sign(q) <= 0)
        cause_invalid(v->causes, at, validate_quantity_text(q, scratch(v)),
                      STR("must be positive"));
}

static void check_dependent(struct validator *v, const struct path *at, struct str rule)
{
    causes_mark(v->causes, cause_required(v->causes, at, rule), "dependentRequired", COVERED);
}

static void check_mapping(struct validator *v, const struct path *at,
                          const struct api_node_allocatable_mapping *m,
                          const struct api_device_capacity_map *capacity)
{
    const struct path *key = AT(at, "capacityKey");
    if (m->has_capacity_key) {
        if (m->capacity_key.n == 0)
            cause_invalid(v->causes, key, STR(""), STR("capacityKey must not be an empty string"));
        else if (!has_capacity(capacity, m->capacity_key))
            cause_not_found(v->causes, key, m->capacity_key);
        if (!m->capacity_multiplier)
            check_dependent(v, AT(at, "capacityMultiplier"),
                            STR("capacityMultiplier is required when capacityKey is set"));
        validate_device_count(v, AT(at, "capacityMultiplier"), m->capacity_multiplier);
    }
    validate_device_count(v, AT(at, "deviceMultiplier"), m->device_multiplier);
    if (m->capacity_multiplier && !m->has_capacity_key)
        check_dependent(v, key, STR("capacityKey is required when capacityMultiplier is set"));
}

static void check_overhead(struct validator *v, const struct path *at,
                           const struct api_node_allocatable_overhead *o)
{
    if (!o->per_pod && !o->per_container)
        cause_invalid(v->causes, at, STR(""),
                      STR("at least one of perPod or perContainer must be set"));
    validate_quantity_not_negative(v, AT(at, "perPod"), o->per_pod);
    validate_quantity_not_negative(v, AT(at, "perContainer"), o->per_container);
}

static void check_node_allocatable(struct validator *v, const struct path *at,
                                   const struct api_device *device)
{
    for (size_t i = 0; i < device->node_allocatable_resources.n; i++) {
        struct str name = device->node_allocatable_resources.p[i].key;
        const struct api_node_allocatable_resource *r =
            &device->node_allocatable_resources.p[i].value;
        const struct path *item = AT_KEY(at, name);
        if (!str_eqz(name, "cpu") && !str_eqz(name, "memory") &&
            !str_starts(name, STR("hugepages-")))
            cause_invalid(v->causes, item, name, STR("must be a node allocatable resource name"));
        if (!r->mapping && !r->overhead)
            cause_required(v->causes, item, STR("at least one of mapping or overhead must be set"));
        if (r->mapping)
            check_mapping(v, AT(item, "mapping"), r->mapping, &device->capacity);
        if (r->overhead)
            check_overhead(v, AT(item, "overhead"), r->overhead);
    }
}

// --- The whole -----------------------------------------------------------------------------------

static bool device_field_equal(struct str name, const struct api_device *a,
                               const struct api_device *b)
{
    return api_field_equal(api_type_field(&api_device_type, name), a, b);
}

void validate_device(struct validator *v, const struct path *at, const struct api_device *device,
                     const struct api_device *old, bool per_device_nodes)
{
    validate_dns_label(v, AT(at, "name"), device->name);
    check_sizes(v, at, device);
    check_attributes(v, AT(at, "attributes"), &device->attributes);
    // What has not changed may break rules that came later. Which rules hold for capacities depends
    // on whether the device can be shared.
    if (!old || !device_field_equal(STR("capacity"), device, old) ||
        device_is_shared(device) != device_is_shared(old))
        validate_device_capacities(v, AT(at, "capacity"), device);
    if (!old || !device_field_equal(STR("taints"), device, old))
        check_taints(v, AT(at, "taints"), &device->taints);
    check_consumptions(v, AT(at, "consumesCounters"), &device->consumes_counters);
    check_device_nodes(v, at, device, per_device_nodes);
    validate_binding_conditions(v, at, &device->binding_conditions,
                                &device->binding_failure_conditions);
    check_node_allocatable(v, AT(at, "nodeAllocatableResources"), device);
}

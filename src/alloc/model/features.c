// SPDX-License-Identifier: Apache-2.0
//
// Names of features, policies and verdicts.
#include "api/features.h"

#include "alloc/alloc.h"
#include "base/mem.h"

#include "base/banned.h"

struct feature_name {
    const char *name;
    const char *gate;
    size_t offset;
    bool by_default; // in Kubernetes 1.37
};

static const struct feature_name features[] = {
    {"AdminAccess", "DRAAdminAccess", offsetof(struct alloc_features, admin_access), true},
    {"CompatibilityGroups", "DRADeviceCompatibilityGroups",
     offsetof(struct alloc_features, compatibility_groups), false},
    {"ConsumableCapacity", "DRAConsumableCapacity",
     offsetof(struct alloc_features, consumable_capacity), true},
    {"DerivedAttributes", "DRADerivedAttributes",
     offsetof(struct alloc_features, derived_attributes), false},
    {"DeviceBindingAndStatus", "DRADeviceBindingConditions",
     offsetof(struct alloc_features, binding_conditions), true},
    {"DeviceTaints", "DRADeviceTaints", offsetof(struct alloc_features, device_taints), true},
    {"FractionalCapacityRange", "DRAFractionalCapacityRange",
     offsetof(struct alloc_features, fractional_capacity_range), true},
    {"ListTypeAttributes", "DRAListTypeAttributes",
     offsetof(struct alloc_features, list_type_attributes), false},
    {"OptionalNodeOperations", "DRAOptionalNodeOperations",
     offsetof(struct alloc_features, optional_node_operations), false},
    {"PartitionableDevices", "DRAPartitionableDevices",
     offsetof(struct alloc_features, partitionable_devices), true},
    {"PrioritizedList", "DRAPrioritizedList", offsetof(struct alloc_features, prioritized_list),
     true},
};

static void features_set_at(struct alloc_features *f, size_t offset)
{
    *(bool *)((char *)f + offset) = true;
}

bool alloc_features_add(struct alloc_features *f, struct str name)
{
    bool all = str_eqz(name, "all");
    bool usual = str_eqz(name, "default-1.37");
    bool found = all || usual;
    if (str_eqz(name, "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus"))
        name = STR("DeviceBindingAndStatus");
    for (size_t i = 0; i < array_len(features); i++) {
        const struct feature_name *n = &features[i];
        if (all || (usual && n->by_default) || str_eqz(name, n->name) || str_eqz(name, n->gate)) {
            features_set_at(f, n->offset);
            found = true;
        }
    }
    return found;
}

bool alloc_gates_add(struct features *gates, struct str name)
{
    enum feature gate = feature_find(name);
    bool all = str_eqz(name, "all");
    for (size_t i = 0; all && i < FEATURES; i++)
        gates->on[i] = true;
    for (size_t i = 0; i < array_len(features); i++)
        if (str_eqz(name, features[i].name))
            gate = feature_find(str_z(features[i].gate));
    if (gate != FEATURE_NONE)
        gates->on[gate] = true;
    return all || gate != FEATURE_NONE;
}

struct alloc_features alloc_features_default(void)
{
    struct alloc_features f = {0};
    (void)alloc_features_add(&f, STR("default-1.37"));
    return f;
}

bool alloc_policy_parse(struct str name, enum alloc_policy *ret)
{
    static const char *const names[] = {
        [ALLOC_PACK] = "pack", [ALLOC_SPREAD] = "spread", [ALLOC_FIRST] = "first"};
    for (size_t i = 0; i < array_len(names); i++)
        if (str_eqz(name, names[i])) {
            *ret = (enum alloc_policy)i;
            return true;
        }
    return false;
}

const char *alloc_verdict_name(enum alloc_verdict v)
{
    switch (v) {
    case ALLOC_ALLOCATED:
        return "allocated";
    case ALLOC_UNSATISFIABLE:
        return "unsatisfiable";
    case ALLOC_ERROR:
        return "error";
    case ALLOC_NODE_ERROR:
        return "nodeError";
    case ALLOC_TIMEOUT:
        return "timeout";
    case ALLOC_POSTPONED:
        return "postponed";
    }
    return "error";
}

struct alloc_features alloc_features_of(const struct features *f)
{
    struct alloc_features r = {0};
    for (int i = 0; i < FEATURES; i++)
        if (features_on(f, (enum feature)i))
            (void)alloc_features_add(&r, feature_name((enum feature)i));
    return r;
}

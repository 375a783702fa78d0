// SPDX-License-Identifier: Apache-2.0
//
// Feature gates: their stages by release, defaults and dependencies, as one table, and the text
// form name=bool that flags and configuration files use.
#include "api/features.h"

#include "base/mem.h"

#include "base/banned.h"

// From release 1.minor on a gate is of this stage.
struct step {
    uint8_t minor;
    uint8_t stage; // enum feature_stage
    bool on;
    bool locked;
};

#define STEPS_MAX 4
#define NEEDS_MAX 3

static const struct {
    struct str name;
    struct step steps[STEPS_MAX]; // ascending; minor 0 ends them
    uint8_t needs[NEEDS_MAX];     // gates + 1; 0 ends them
} gates[FEATURES] = {
#define NEED(f) ((f) + 1)
#define D       NEED(FEATURE_DYNAMIC_RESOURCE_ALLOCATION)
#define ALPHA(m)                       \
    {                                  \
        m, FEATURE_ALPHA, false, false \
    }
#define BETA(m)                      \
    {                                \
        m, FEATURE_BETA, true, false \
    }
#define BETA_OFF(m)                   \
    {                                 \
        m, FEATURE_BETA, false, false \
    }
#define GA(m)                      \
    {                              \
        m, FEATURE_GA, true, false \
    }
#define GA_LOCKED(m)              \
    {                             \
        m, FEATURE_GA, true, true \
    }
    // clang-format off
    [FEATURE_COMPOSITE_POD_GROUP] = {STR_INIT("CompositePodGroup"), {ALPHA(37)},
        {NEED(FEATURE_GENERIC_WORKLOAD), NEED(FEATURE_TOPOLOGY_AWARE_WORKLOAD_SCHEDULING)}},
    [FEATURE_DECLARATIVE_VALIDATION_BETA] = {STR_INIT("DeclarativeValidationBeta"), {BETA(36)}, {0}},
    [FEATURE_DRA_ADMIN_ACCESS] = {STR_INIT("DRAAdminAccess"), {ALPHA(32), BETA(34), GA_LOCKED(36)}, {D}},
    [FEATURE_DRA_CONSUMABLE_CAPACITY] = {STR_INIT("DRAConsumableCapacity"), {ALPHA(34), BETA(36)}, {D}},
    [FEATURE_DRA_DERIVED_ATTRIBUTES] = {STR_INIT("DRADerivedAttributes"), {ALPHA(37)}, {D}},
    [FEATURE_DRA_DEVICE_BINDING_CONDITIONS] = {STR_INIT("DRADeviceBindingConditions"), {ALPHA(34), BETA(36)},
        {D, NEED(FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS)}},
    [FEATURE_DRA_DEVICE_COMPATIBILITY_GROUPS] = {STR_INIT("DRADeviceCompatibilityGroups"), {ALPHA(37)},
        {D, NEED(FEATURE_DRA_PARTITIONABLE_DEVICES)}},
    [FEATURE_DRA_DEVICE_TAINT_RULES] = {STR_INIT("DRADeviceTaintRules"), {ALPHA(35), BETA_OFF(36), GA(37)},
        {NEED(FEATURE_DRA_DEVICE_TAINTS)}},
    [FEATURE_DRA_DEVICE_TAINTS] = {STR_INIT("DRADeviceTaints"), {ALPHA(33), BETA(36), GA(37)}, {D}},
    [FEATURE_DRA_EXTENDED_RESOURCE] = {STR_INIT("DRAExtendedResource"), {ALPHA(34), BETA(36), GA_LOCKED(37)}, {D}},
    // On by default only where nothing older than 1.37 has to be compatible.
    [FEATURE_DRA_FRACTIONAL_CAPACITY_RANGE] = {STR_INIT("DRAFractionalCapacityRange"), {BETA_OFF(37)},
        {NEED(FEATURE_DRA_CONSUMABLE_CAPACITY)}},
    [FEATURE_DRA_LIST_TYPE_ATTRIBUTES] = {STR_INIT("DRAListTypeAttributes"), {ALPHA(36)}, {D}},
    [FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES] = {STR_INIT("DRANodeAllocatableResources"), {ALPHA(36)}, {D}},
    [FEATURE_DRA_OPTIONAL_NODE_OPERATIONS] = {STR_INIT("DRAOptionalNodeOperations"), {ALPHA(37)},
        {D, NEED(FEATURE_NODE_DECLARED_FEATURES)}},
    [FEATURE_DRA_PARTITIONABLE_DEVICES] = {STR_INIT("DRAPartitionableDevices"), {ALPHA(33), BETA(36)}, {D}},
    [FEATURE_DRA_PARTITIONABLE_DEVICES_TYPE] = {STR_INIT("DRAPartitionableDevicesType"), {ALPHA(37)},
        {D, NEED(FEATURE_DRA_PARTITIONABLE_DEVICES), NEED(FEATURE_DRA_RESOURCE_POOL_STATUS)}},
    [FEATURE_DRA_PRIORITIZED_LIST] = {STR_INIT("DRAPrioritizedList"),
        {ALPHA(33), BETA(34), GA(36), GA_LOCKED(37)}, {D}},
    [FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS] = {STR_INIT("DRAResourceClaimDeviceStatus"),
        {ALPHA(32), BETA(33), GA_LOCKED(37)}, {0}},
    [FEATURE_DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION] =
        {STR_INIT("DRAResourceClaimGranularStatusAuthorization"), {BETA(36)},
        {D, NEED(FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS)}},
    [FEATURE_DRA_RESOURCE_POOL_STATUS] = {STR_INIT("DRAResourcePoolStatus"), {ALPHA(36)}, {D}},
    [FEATURE_DRA_SCHEDULER_FILTER_TIMEOUT] = {STR_INIT("DRASchedulerFilterTimeout"), {BETA(34)}, {D}},
    [FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS] = {STR_INIT("DRAWorkloadResourceClaims"), {ALPHA(36), BETA_OFF(37)},
        {D, NEED(FEATURE_GENERIC_WORKLOAD)}},
    [FEATURE_DYNAMIC_RESOURCE_ALLOCATION] = {STR_INIT("DynamicResourceAllocation"),
        {ALPHA(26), BETA_OFF(32), GA(34), GA_LOCKED(35)}, {0}},
    [FEATURE_GENERIC_WORKLOAD] = {STR_INIT("GenericWorkload"), {ALPHA(35), BETA_OFF(37)}, {0}},
    [FEATURE_KUBELET_POD_RESOURCES_DYNAMIC_RESOURCES] = {STR_INIT("KubeletPodResourcesDynamicResources"),
        {ALPHA(27), BETA(34), GA_LOCKED(36)}, {0}},
    [FEATURE_KUBELET_POD_RESOURCES_GET] = {STR_INIT("KubeletPodResourcesGet"),
        {ALPHA(27), BETA(34), GA_LOCKED(36)}, {0}},
    [FEATURE_NODE_DECLARED_FEATURES] = {STR_INIT("NodeDeclaredFeatures"),
        {ALPHA(35), BETA(36), GA_LOCKED(37)}, {0}},
    [FEATURE_POD_GROUP_PREEMPTION_POLICY] = {STR_INIT("PodGroupPreemptionPolicy"), {ALPHA(37)},
        {NEED(FEATURE_GENERIC_WORKLOAD)}},
    [FEATURE_RESOURCE_HEALTH_STATUS] = {STR_INIT("ResourceHealthStatus"), {ALPHA(31), BETA(36)}, {D}},
    [FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE] = {STR_INIT("ResourceHealthStatusMessage"), {BETA(36)},
        {NEED(FEATURE_RESOURCE_HEALTH_STATUS)}},
    [FEATURE_TOPOLOGY_AWARE_WORKLOAD_SCHEDULING] = {STR_INIT("TopologyAwareWorkloadScheduling"), {ALPHA(36)},
        {NEED(FEATURE_GENERIC_WORKLOAD)}},
    [FEATURE_WORKLOAD_WITH_JOB] = {STR_INIT("WorkloadWithJob"), {ALPHA(36)}, {NEED(FEATURE_GENERIC_WORKLOAD)}},
    // clang-format on
};

static const struct step *step_in(enum feature which, uint32_t minor)
{
    const struct step *found = NULL;
    for (size_t i = 0; i < STEPS_MAX && gates[which].steps[i].minor; i++)
        if (gates[which].steps[i].minor <= minor)
            found = &gates[which].steps[i];
    return found;
}

enum feature_stage feature_stage_in(enum feature which, uint32_t minor, bool *ret_locked)
{
    const struct step *s = step_in(which, minor);
    if (ret_locked)
        *ret_locked = s && s->locked;
    return s ? (enum feature_stage)s->stage : FEATURE_ABSENT;
}

void features_init(struct features *f, uint32_t minor)
{
    *f = (struct features){.minor = minor};
    for (size_t i = 0; i < FEATURES; i++) {
        const struct step *s = step_in((enum feature)i, minor);
        f->on[i] = s && s->on;
    }
}

struct str feature_name(enum feature which)
{
    return gates[which].name;
}

enum feature feature_find(struct str name)
{
    for (size_t i = 0; i < FEATURES; i++)
        if (str_eq(gates[i].name, name))
            return (enum feature)i;
    return FEATURE_NONE;
}

int features_set(struct features *f, struct str name, bool on, struct err *err)
{
    enum feature which = feature_find(name);
    const struct step *s = which == FEATURE_NONE ? NULL : step_in(which, f->minor);
    if (!s)
        return err_set(err, ERR_NOT_FOUND, "unrecognized feature gate: %.*s (in release 1.%u)",
                       STR_ARG(name), f->minor);
    if (s->locked && on != s->on)
        return err_set(err, ERR_INVALID,
                       "cannot set feature gate %.*s to %s, feature is locked to %s", STR_ARG(name),
                       on ? "true" : "false", s->on ? "true" : "false");
    f->on[which] = on;
    return 0;
}

static int features_read_bool(struct str name, struct str text, bool *ret, struct err *err)
{
    *ret = str_eqz(text, "true");
    if (*ret || str_eqz(text, "false"))
        return 0;
    return err_set(err, ERR_INVALID, "feature gate %.*s: \"%.*s\" is neither true nor false",
                   STR_ARG(name), STR_ARG(text));
}

static void set_stage(struct features *f, enum feature_stage stage, bool on)
{
    for (size_t i = 0; i < FEATURES; i++) {
        const struct step *s = step_in((enum feature)i, f->minor);
        if (s && s->stage == stage && !s->locked)
            f->on[i] = on;
    }
}

// One pass over the list: the first sets whole stages, the second the gates that are named.
static int parse_pass(struct features *f, struct str list, bool stages, struct err *err)
{
    while (list.n) {
        struct str item, name, value;
        bool on;
        str_cut(list, ',', &item, &list);
        item = str_trim(item);
        if (!item.n)
            continue;
        if (!str_cut(item, '=', &name, &value))
            return err_set(err, ERR_INVALID, "feature gate %.*s: want NAME=true or NAME=false",
                           STR_ARG(item));
        int r = features_read_bool(name, value, &on, err);
        if (r < 0)
            return r;
        bool alpha = str_eqz(name, "AllAlpha"), beta = str_eqz(name, "AllBeta");
        if (stages && (alpha || beta))
            set_stage(f, alpha ? FEATURE_ALPHA : FEATURE_BETA, on);
        if (!stages && !alpha && !beta && (r = features_set(f, name, on, err)) < 0)
            return r;
    }
    return 0;
}

int features_parse(struct features *f, struct str list, struct err *err)
{
    int r = parse_pass(f, list, true, err);
    return r < 0 ? r : parse_pass(f, list, false, err);
}

int features_check_dependencies(const struct features *f, struct err *err)
{
    for (size_t i = 0; i < FEATURES; i++) {
        for (size_t j = 0; f->on[i] && j < NEEDS_MAX && gates[i].needs[j]; j++) {
            size_t need = gates[i].needs[j] - 1U;
            if (!f->on[need])
                return err_set(err, ERR_INVALID,
                               "%.*s is enabled, but depends on %.*s, which is not",
                               STR_ARG(gates[i].name), STR_ARG(gates[need].name));
        }
    }
    return 0;
}

int features_parse_version(struct str text, uint32_t *ret_minor, struct err *err)
{
    struct str major, minor, patch;
    uint64_t n;
    struct str rest = str_starts(text, STR("v")) ? str_from(text, 1) : text;
    str_cut(rest, '.', &major, &minor);
    str_cut(minor, '.', &minor, &patch);
    if (!str_eqz(major, "1") || str_to_u64(minor, &n) < 0 || n < FEATURES_MINOR_OLDEST ||
        n > FEATURES_MINOR)
        return err_set(err, ERR_INVALID, "cannot emulate release \"%.*s\": want 1.%d to 1.%d",
                       STR_ARG(text), FEATURES_MINOR_OLDEST, FEATURES_MINOR);
    *ret_minor = (uint32_t)n;
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Feature gates: which exist, since when, whether they are on by default, and what they need. The
// facts are those of Kubernetes 1.37, whose releases from 1.26 on can be emulated.
#ifndef API_FEATURES_H
#define API_FEATURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum feature {
    FEATURE_COMPOSITE_POD_GROUP,
    FEATURE_DECLARATIVE_VALIDATION_BETA,
    FEATURE_DRA_ADMIN_ACCESS,
    FEATURE_DRA_CONSUMABLE_CAPACITY,
    FEATURE_DRA_DERIVED_ATTRIBUTES,
    FEATURE_DRA_DEVICE_BINDING_CONDITIONS,
    FEATURE_DRA_DEVICE_COMPATIBILITY_GROUPS,
    FEATURE_DRA_DEVICE_TAINT_RULES,
    FEATURE_DRA_DEVICE_TAINTS,
    FEATURE_DRA_EXTENDED_RESOURCE,
    FEATURE_DRA_FRACTIONAL_CAPACITY_RANGE,
    FEATURE_DRA_LIST_TYPE_ATTRIBUTES,
    FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES,
    FEATURE_DRA_OPTIONAL_NODE_OPERATIONS,
    FEATURE_DRA_PARTITIONABLE_DEVICES,
    FEATURE_DRA_PARTITIONABLE_DEVICES_TYPE,
    FEATURE_DRA_PRIORITIZED_LIST,
    FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS,
    FEATURE_DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION,
    FEATURE_DRA_RESOURCE_POOL_STATUS,
    FEATURE_DRA_SCHEDULER_FILTER_TIMEOUT,
    FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS,
    FEATURE_DYNAMIC_RESOURCE_ALLOCATION,
    FEATURE_GENERIC_WORKLOAD,
    FEATURE_KUBELET_POD_RESOURCES_DYNAMIC_RESOURCES,
    FEATURE_KUBELET_POD_RESOURCES_GET,
    FEATURE_NODE_DECLARED_FEATURES,
    FEATURE_POD_GROUP_PREEMPTION_POLICY,
    FEATURE_RESOURCE_HEALTH_STATUS,
    FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE,
    FEATURE_TOPOLOGY_AWARE_WORKLOAD_SCHEDULING,
    FEATURE_WORKLOAD_WITH_JOB,
    FEATURES, // how many there are
    FEATURE_NONE = FEATURES,
};

enum feature_stage { FEATURE_ABSENT, FEATURE_ALPHA, FEATURE_BETA, FEATURE_GA };

// The release this is, and the oldest one that can be emulated; both stand for 1.x.
#define FEATURES_MINOR        37
#define FEATURES_MINOR_OLDEST 26

// The gates as they stand, and the release they are those of.
struct features {
    uint32_t minor; // 1.minor
    bool on[FEATURES];
};

static inline bool features_on(const struct features *f, enum feature which)
{
    return f->on[which];
}

// features_init sets the defaults of release 1.minor.
void features_init(struct features *f, uint32_t minor);

// feature_find finds a gate by name; FEATURE_NONE when there is none.
enum feature feature_find(struct str name);

struct str feature_name(enum feature which);

// feature_stage_in returns the stage of a gate in release 1.minor; *ret_locked (may be NULL)
// whether it cannot be changed then.
enum feature_stage feature_stage_in(enum feature which, uint32_t minor, bool *ret_locked);

// features_set changes one gate by name. Returns 0, -ERR_NOT_FOUND for a gate that release 1.minor
// does not have, or -ERR_INVALID for one that is locked to its default there.
int features_set(struct features *f, struct str name, bool on, struct err *err) MUST_USE;

// features_parse applies "A=true,B=false". AllAlpha and AllBeta set every gate of that stage which
// is not named itself. Returns 0, -ERR_NOT_FOUND or -ERR_INVALID.
int features_parse(struct features *f, struct str list, struct err *err) MUST_USE;

// features_check_dependencies reports whether everything that is on has what it needs. Returns 0 or
// -ERR_INVALID.
int features_check_dependencies(const struct features *f, struct err *err) MUST_USE;

// features_parse_version reads "1.35" or "v1.35" to 35. Returns 0 or -ERR_INVALID.
int features_parse_version(struct str text, uint32_t *ret_minor, struct err *err) MUST_USE;

#endif

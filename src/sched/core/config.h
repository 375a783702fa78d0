// SPDX-License-Identifier: Apache-2.0
//
// The settings of a scheduler, as its options give them. Private to src/sched.
#ifndef SCHED_CORE_CONFIG_H
#define SCHED_CORE_CONFIG_H

#include "alloc/alloc.h"
#include "api/features.h"
#include "base/vec.h"
#include "sched/sched.h"

struct sched_config {
    struct features features;
    struct alloc_features alloc_features;
    enum alloc_policy policy;
    enum sched_preemption preemption;
    int64_t binding_timeout_ns;
    size_t feasible_max;
    struct name_vec VEC(struct str) names; // owned
    bool groups_on;                        // PodGroups are watched
    bool group_claims;                     // claims may be a PodGroup's
};

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Eviction from tainted devices: taint.c decides when a pod must go and sends it, taint_rule.c
// writes the status of DeviceTaintRules. Private to src/ctl.
//
// Keys: p/NAMESPACE/NAME a pod, r//NAME a rule.
#ifndef CTL_DEVICE_TAINT_INT_H
#define CTL_DEVICE_TAINT_INT_H

#include "api/match/claim.h"
#include "base/map.h"
#include "codec/prom.h"
#include "ctl/core/ctl_int.h"

#define TAINT_REASON "DeletionByDeviceTaintManager"

// What a rule has done since the controller started.
struct rule_stats {
    char *uid; // owns the key
    int64_t evicted;
};

struct rule_stats_map MAP(struct rule_stats);

// A pod that is waiting for its time.
struct waiting_pod {
    char *key; // owns the key
};

struct waiting_map MAP(struct waiting_pod);

struct taint_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    bool groups;
    size_t pods_by_claim;  // NAMESPACE/CLAIM
    size_t claims_by_pool; // DRIVER/POOL
    size_t slices_by_pool; // DRIVER/POOL
    struct rule_stats_map stats;
    struct waiting_map waiting;
    struct prom_times late; // pods that were deleted: how long after they had to go
};

// When a pod must go, and which rules want it.
struct eviction {
    bool due;            // at all
    int64_t at;          // seconds since 1970
    struct str rules[8]; // UIDs of the rules that contribute, as many as there is room for
    size_t rules_len;
};

// taint_find_eviction works out when a pod must go. as_if, if not NULL, is a rule that is taken to
// have the effect NoExecute; then only its own part counts.
struct eviction taint_find_eviction(const struct taint_ctl *t, const struct api_pod *pod,
                                    const struct api_device_taint_rule *as_if);

void taint_step_rule(struct taint_ctl *t, struct str key, struct str name);

#endif

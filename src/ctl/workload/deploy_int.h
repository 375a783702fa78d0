// SPDX-License-Identifier: Apache-2.0
//
// A Deployment in a step. Private to deploy*.c.
#ifndef CTL_WORKLOAD_DEPLOY_INT_H
#define CTL_WORKLOAD_DEPLOY_INT_H

#include "ctl/workload/load.h"

#define DEPLOY_HASH     "pod-template-hash"
#define DEPLOY_REVISION "deployment.kubernetes.io/revision"
#define DEPLOY_HISTORY  "deployment.kubernetes.io/revision-history"
#define DEPLOY_DESIRED  "deployment.kubernetes.io/desired-replicas"
#define DEPLOY_MAX      "deployment.kubernetes.io/max-replicas"
#define DEPLOY_ROLLBACK "deprecated.deployment.rollback.to"

struct deploy {
    struct load *l;
    struct str key;
    const struct typed_object *o;
    const struct api_deployment *d;
    struct arena *arena;
    struct load_objects sets;          // all its ReplicaSets, oldest first
    struct load_objects old;           // all but the newest
    const struct typed_object *newest; // the one with the template; NULL: there is none yet
    // Never negative, whatever is stored. Sums of these and of sets' sizes do not fit 32 bits.
    int64_t wanted;             // replicas
    int64_t surge, unavailable; // as numbers; 0 for Recreate
};

// deploy_count sums the wanted replicas of sets.
int64_t deploy_count(const struct load_objects *sets);

// deploy_available sums the available replicas of sets.
int64_t deploy_available(const struct load_objects *sets);

// Each returns true when a write is under way. A size that no set can have becomes the nearest one.
bool deploy_scale_one(const struct deploy *d, const struct typed_object *set, int64_t size,
                      bool forced);
bool deploy_scale(const struct deploy *d);
bool deploy_roll(const struct deploy *d);
bool deploy_trim(const struct deploy *d);

// deploy_pause_status writes into the status that it is paused or resumed.
bool deploy_pause_status(const struct deploy *d);

// deploy_status writes the status when it differs. *wait_s as for load_finish. rollout: progress
// counts.
bool deploy_status(const struct deploy *d, bool rollout, int64_t *wait_s);

// deploy_set_progressing writes the condition of that type, and the revision unless it is empty.
bool deploy_set_progressing(const struct deploy *d, const char *status, const char *reason,
                            struct str message, struct str revision);

bool deploy_has_deadline(const struct api_deployment *d);
const struct api_deployment_condition *deploy_condition(const struct api_deployment *d,
                                                        const char *type);

#endif

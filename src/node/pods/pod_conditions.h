// SPDX-License-Identifier: Apache-2.0
//
// The conditions that a kubelet writes: pure functions over a pod and the status made for it.
// Private to src/node.
#ifndef NODE_PODS_POD_CONDITIONS_H
#define NODE_PODS_POD_CONDITIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "api/types.h"
#include "base/arena.h"

struct pod_conditions_input {
    const struct api_pod *pod;
    const struct api_pod_status *old; // what the API has: for times of transition
    bool sandbox_ready;
    int64_t now_s;
};

// pod_conditions_make sets the conditions of a status whose phase and containers are set: ours from
// scratch, those of others as they were.
void pod_conditions_make(const struct pod_conditions_input *in, struct api_pod_status *status,
                         struct arena *arena);

// pod_condition_is_ours: PodScheduled, PodReadyToStartContainers, Initialized, ContainersReady,
// Ready.
bool pod_condition_is_ours(struct str type);

#endif

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
    struct str evicted; // why, if the node evicted the pod for its own sake; else empty
    int64_t now_s;
};

// pod_conditions_make sets the conditions of a status whose phase and containers are set: ours from
// scratch, those of others as they were.
void pod_conditions_make(const struct pod_conditions_input *in, struct api_pod_status *status,
                         struct arena *arena);

// pod_condition_is_ours: PodScheduled, PodReadyToStartContainers, Initialized, ContainersReady,
// Ready, and DisruptionTarget where a kubelet evicted the pod.
bool pod_condition_is_ours(const struct api_pod_condition *c);

#endif

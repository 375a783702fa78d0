// SPDX-License-Identifier: Apache-2.0
//
// How well a node's storage suits a pod. Private to src/sched.
#ifndef SCHED_VOLUME_VOLUME_SCORE_H
#define SCHED_VOLUME_VOLUME_SCORE_H

#include "sched/core/sched_int.h"

// volume_score is 0 … 100: how little of the volumes, or of the driver's room, the pod's unbound
// claims take. 0 without such claims.
int64_t volume_score(struct attempt *a, const struct sched_node *n);

#endif

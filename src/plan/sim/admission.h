// SPDX-License-Identifier: Apache-2.0
//
// What the API server does to a new pod and answers to an eviction: the registry itself, on a store
// in memory that holds the objects its admission reads. Private to src/plan.
#ifndef PLAN_SIM_ADMISSION_H
#define PLAN_SIM_ADMISSION_H

#include "api/api.h"
#include "api/features.h"
#include "base/arena.h"

struct admission;

// admission_new starts with an empty store. features NULL: defaults of the newest release.
struct admission *admission_new(const struct features *features, int64_t wall_ns);
void admission_free(struct admission *a);

// admission_put stores an object as it is, without validation: it comes from a cluster.
void admission_put(struct admission *a, const struct api_object *object);

// admission_create_pod applies what admission adds to a new pod (priority, defaults of LimitRanges,
// overhead and scheduling of its RuntimeClass, tolerations), in place; additions live in arena.
// Returns 0, or a negative code with the server's message in why.
int admission_create_pod(struct admission *a, struct api_pod *pod, struct arena *arena,
                         struct sbuf *why) MUST_USE;

// admission_evict_pod returns whether the pod may be evicted now; nothing is charged to its budget.
// Returns 0, or a negative code with the server's message and the budget's in why.
int admission_evict_pod(struct admission *a, const struct api_pod *pod, struct sbuf *why) MUST_USE;

#endif

// SPDX-License-Identifier: Apache-2.0
//
// What a pod belongs to: Services that select it, the controller that owns it. Pods of one owner
// are spread over hosts and zones although they do not ask for it. Private to src/sched.
#ifndef SCHED_FILTER_OWNERS_H
#define SCHED_FILTER_OWNERS_H

#include "api/types.h"
#include "base/arena.h"
#include "client/informer.h"

struct sched;

enum owner_kind {
    OWNER_SERVICES,
    OWNER_REPLICATION_CONTROLLERS,
    OWNER_REPLICA_SETS,
    OWNER_STATEFUL_SETS,
    OWNER_KINDS,
};

struct owners {
    struct informer *informers[OWNER_KINDS];
    size_t by_namespace; // index of Services
};

// Pods are scheduled before these kinds are listed, and if they cannot be: then nothing is spread.
void owners_watch(struct sched *s);
void owners_done(struct sched *s);

// owners_selector is the selector of all pods of the pod's Services and of its controller; NULL: it
// has none.
const struct api_label_selector *owners_selector(const struct sched *s, const struct api_pod *pod,
                                                 struct arena *arena);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Removes what the runtime has of a pod, by its UID alone: the runtime's list is the source, so it
// does not matter who made it and what was forgotten. Private to src/node.
#ifndef NODE_PODS_POD_SWEEP_H
#define NODE_PODS_POD_SWEEP_H

#include "node/pods/pods_int.h"

enum sweep_what {
    SWEEP_STOP,   // its namespaces, of all attempts
    SWEEP_REMOVE, // stopped, and everything removed
};

// pod_sweep begins; done runs once after it has returned, with the first failure. It is owned by
// p->calls: freed with the pods, then done does not come.
void pod_sweep(struct pods *p, struct str uid, enum sweep_what what, int64_t grace_ns,
               runtime_done_fn done, void *arg);

// pods_remove_files takes the volumes of a pod apart and removes what they held; all: its folder
// and logs go as well. That may take long and happens elsewhere; done comes on the exec, perhaps at
// once.
void pods_remove_files(struct pods *p, struct str uid, bool all, runtime_done_fn done, void *arg);

#endif

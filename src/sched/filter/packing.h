// SPDX-License-Identifier: Apache-2.0
//
// Where a pod does the least harm to those that will come: the scheduler's nodes as a fleet of the
// allocator (alloc/fleet.h). Only under the policy pack. Private to src/sched.
#ifndef SCHED_FILTER_PACKING_H
#define SCHED_FILTER_PACKING_H

#include "sched/core/sched_int.h"

struct packing;

struct packing *packing_new(struct sched *s);
void packing_free(struct packing *p);

// packing_fleet is what the solver asks about devices.
struct fleet *packing_fleet(struct packing *p);

// packing_serves reports whether nodes should be named for a pod this way.
bool packing_serves(const struct attempt *a);

// packing_start lets the fleet name nodes for a pod. packing_behind: some nodes have not been
// looked at since they changed; packing_catch_up looks at them all.
void packing_start(struct attempt *a);
bool packing_behind(const struct packing *p);
void packing_catch_up(struct sched *s);

// packing_warm looks at so many nodes that have changed. True: there are more.
bool packing_warm(struct packing *p, size_t most);

// packing_end: the next solve is not about the pod that nodes were named for.
void packing_end(struct sched *s);

#endif

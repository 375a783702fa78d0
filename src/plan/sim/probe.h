// SPDX-License-Identifier: Apache-2.0
//
// How many more claims for one device of a class would be served: pods with such a claim are
// created in a copy of the cluster in memory until the scheduler leaves one unplaced. Private to
// src/plan.
#ifndef PLAN_SIM_PROBE_H
#define PLAN_SIM_PROBE_H

#include "api/features.h"
#include "plan/sim/plan_int.h"

struct probe_question {
    struct plan_world *world;
    const struct features *features;      // NULL: defaults of the newest release
    const struct api_device_class *class; // put into the copy under its own name
    struct str node;                      // consider only this node; empty: all
    size_t guess;                         // devices that look free; sizes the first batch
    const struct clock *clock;            // bounds the time; NULL: no bound
    bool tolerant;                        // the pods tolerate the taints that administrators set
};

// probe_has_taints reports whether taints of administrators keep pods away from a node.
bool probe_has_taints(const struct plan_world *w);

// probe_count calls fn for the allocation of each claim that the scheduler has served. Returns true
// when a claim was left over; false when the bound on claims or time came first.
bool probe_count(const struct probe_question *q,
                 void (*fn)(void *arg, const struct api_allocation_result *a), void *arg);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// A cycle of a PodGroup, shared by gang.c (what comes of it) and gang_ways.c (other ways to place
// the pods, and a look without consequences).
#ifndef SCHED_GANG_GANG_INT_H
#define SCHED_GANG_GANG_INT_H

#include "sched/bind/bind_int.h"

// So often the pods are placed in other ways before a gang is reported not to fit.
#define OTHER_WAYS_MAX 8

// One pod in a cycle.
struct
try {
    struct sched_pod *pod;
    struct binding *binding;       // NULL: it does not fit, or was not tried
    const struct sched_node *node; // where it was placed
    bool refused;                  // tried, and no node fits
    uint32_t whys;
    char *line;                         // why not
    const struct typed_object *give_up; // a claim that keeps it away; referenced; NULL: none
};

struct cycle {
    struct sched *s;
    struct sched_group *g;
    struct sched_pod *first;
    struct try *tries;
    size_t n;
    size_t tried;
    size_t min;
    size_t before; // members that had a node
    size_t fits;
    int64_t began_ns;
    bool failed;       // an error
    bool waits;        // for a claim that is on its way elsewhere
    bool again;        // another way is looked for: nothing is reported or counted
    gang_seen_fn seen; // it is only looked at: each pod is shown here; NULL: it is not
    void *seen_arg;
    const struct sched_pod *vary;                   // the pod that is put elsewhere; NULL: none yet
    const struct sched_node *avoid[OTHER_WAYS_MAX]; // nodes that it has tried
    size_t avoid_len;
    struct sbuf text;
};

// gang_valid: the pods are alike in what must be the same for all; else c->text has what is not.
bool gang_valid(struct cycle *c);

// gang_try_all places the pods in memory, one after the other; gang_enough: as many as the group
// needs. gang_revert takes them out again.
void gang_try_all(struct cycle *c);
bool gang_enough(const struct cycle *c);
void gang_revert(struct cycle *c);

// gang_another_way places the pods in other ways when the first was none. True: one has been found,
// and c is it.
bool gang_another_way(struct cycle *c);

// gang_drop frees what a cycle has; gang_by_order puts its pods in the order they came.
void gang_drop(struct cycle *c);
void gang_by_order(struct cycle *c);

#endif

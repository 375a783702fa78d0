// SPDX-License-Identifier: Apache-2.0
//
// Preemption: a pod that fits nowhere takes the place of pods of lower priority.
// docs/design/preemption.md describes the rules, which are kube-scheduler's. Private to src/sched.
#ifndef SCHED_PREEMPT_PREEMPT_H
#define SCHED_PREEMPT_PREEMPT_H

#include "base/exec.h"
#include "base/list.h"
#include "client/informer.h"
#include "sched/core/cluster.h"

struct attempt;
struct sched;

// Whether budgets can be looked at.
enum preempt_listed { BUDGETS_UNKNOWN, BUDGETS_LISTED, BUDGETS_ABSENT, BUDGETS_FORBIDDEN };

struct preempt {
    struct informer *budgets; // PodDisruptionBudgets; NULL: not watched
    enum preempt_listed listed;
    bool missed;                   // a pod could not preempt because they were not known
    struct exec_timer again_timer; // writes that failed
    struct list running;           // preemptions whose writes are under way
    uint64_t units;                // work of dry runs in this turn of the loop
    uint32_t rotate;               // where the next search begins
    struct pod_vec lower;          // scratch of a dry run: pods that may go
    struct pod_vec order;          // … and all pods of the node, in their order
    uint64_t dry_runs;             // on nodes
};

enum preempt_outcome {
    PREEMPT_NO_HELP,   // the pod waits for something else
    PREEMPT_WAITS,     // pods that make room for it are still ending
    PREEMPT_POSTPONED, // the pod is in the queue; the search goes on in a later turn
    PREEMPT_NOMINATED, // victims are chosen and being deleted
};

void preempt_init(struct sched *s);
void preempt_start(struct sched *s);
void preempt_done(struct sched *s);

// preempt_run looks for room after no node has fit. note receives what users should know, in
// kube-scheduler's words; may stay empty.
enum preempt_outcome preempt_run(struct attempt *a, struct sbuf *note);

// preempt_begin_turn and preempt_turn_over bound the work of all attempts of a turn of the loop.
void preempt_begin_turn(struct sched *s);
bool preempt_turn_over(const struct sched *s);

// preempt_pod_changed takes the nomination of a pod's newest version; preempt_node_gone ends those
// to a node that is gone. preempt_clear ends one, in memory and in the API.
void preempt_pod_changed(struct sched *s, struct sched_pod *p);
void preempt_node_gone(struct sched *s, struct str name);
void preempt_clear(struct sched *s, struct sched_pod *p);

// preempt_room: a pod has left the node. Pods that wait for it get their turn at once when no more
// have to leave.
void preempt_room(struct sched *s, struct sched_node *n);

#endif

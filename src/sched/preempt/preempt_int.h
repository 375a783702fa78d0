// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files of preemption: budgets.c, dryrun.c (one node), search.c (all nodes),
// nominate.c, evict.c (the writes), and explain/judge_preempt.c.
#ifndef SCHED_PREEMPT_PREEMPT_INT_H
#define SCHED_PREEMPT_PREEMPT_INT_H

#include "sched/core/sched_int.h"
#include "sched/preempt/preempt.h"

#define PREEMPT_NEVER       "not eligible due to preemptionPolicy=Never."
#define PREEMPT_TERMINATING "not eligible due to a terminating pod on the nominated node."
#define PREEMPT_NO_VICTIMS  "No preemption victims found for incoming pod"
#define PREEMPT_USELESS     "Preemption is not helpful for scheduling"

// --- budgets.c -----------------------------------------------------------------------------------

struct preempt_budget {
    const struct api_pod_disruption_budget *api;
    int32_t left;
    uint32_t weight; // of a look at its selector, in units
};

// All budgets, by namespace and name.
struct preempt_budgets {
    struct preempt_budget *p;
    size_t n;
    uint64_t spent; // units of work since budgets_reset
};

void budgets_start(struct sched *s);
void budgets_read(struct attempt *a, struct preempt_budgets *ret);

// budgets_reset begins to count anew; budgets_violated counts the deletion of a pod: true when a
// budget does not allow it, and when the budgets of the pods so far were too many to look at.
void budgets_reset(struct preempt_budgets *b);
bool budgets_violated(struct preempt_budgets *b, const struct api_pod *pod);

// --- dryrun.c ------------------------------------------------------------------------------------

// What a set of victims costs, in the order in which it counts.
struct preempt_cost {
    size_t violations; // pods whose budgets do not allow it
    int32_t highest;   // priority
    int64_t sum;       // of priorities, each above the lowest possible one
    size_t pods;
    int64_t start; // the earliest of those with the highest priority, in seconds; later is better
};

struct preempt_candidate {
    struct sched_node *node;
    struct sched_pod **victims; // the most important first; in the attempt's arena
    struct preempt_cost cost;
};

// preempt_cost_cmp is negative when x is better.
int preempt_cost_cmp(const struct preempt_cost *x, const struct preempt_cost *y);

enum dryrun_result {
    DRYRUN_FITS,
    DRYRUN_NO_VICTIMS, // no pod of the node has a lower priority
    DRYRUN_REFUSED,    // even without them: why has the reasons
};

// dryrun_node finds the pods that would have to leave the node. ret->victims is set only if the
// cost is below that of best, which may be NULL.
enum dryrun_result dryrun_node(struct attempt *a, struct sched_node *n, struct preempt_budgets *b,
                               const struct preempt_cost *best, struct preempt_candidate *ret,
                               struct refusals *why);

// dryrun_has_lower: a pod of the node has a lower priority.
bool dryrun_has_lower(const struct sched_node *n, int32_t priority);

// --- search.c ------------------------------------------------------------------------------------

// preempt_is_ending: pods that make room for p on the node it is nominated to are still ending.
bool preempt_is_ending(const struct sched_pod *p);

// --- nominate.c ----------------------------------------------------------------------------------

// nominate_write stores a nomination; an empty name ends it. call gets the answer.
struct call;
void nominate_write(struct sched *s, const struct sched_pod *p, struct str node, struct call *call);

// nominate_write_end stores that a pod waits for no node any more, until that succeeds.
void nominate_write_end(struct sched *s, struct sched_pod *p);

// nominate_write_again repeats writes that failed; arg is the scheduler.
void nominate_write_again(void *arg);

// nominate_displace ends the nominations to a node of pods with a lower priority than p.
void nominate_displace(struct sched *s, const struct sched_pod *p);

// --- evict.c -------------------------------------------------------------------------------------

// evict_start stores the nomination of the attempt's pod, then deletes the victims.
void evict_start(struct attempt *a, const struct preempt_candidate *c);
void evict_drop_all(struct sched *s);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// One node, as if its pods of lower priority had gone: does the pod fit then, and which of them can
// stay? The filters are those of every attempt.
#include <stdlib.h>

#include "sched/dra/dra_int.h"
#include "sched/filter/filter_int.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

// Work is counted instead of timed, so that runs can be repeated: a unit is about what the filters
// take for a pod without terms.
#define UNITS_SOLVE 50

// --- Cost ----------------------------------------------------------------------------------------

// A pod that has not started yet starts now.
static int64_t dryrun_start_of(const struct attempt *a, const struct sched_pod *p)
{
    return p->api->status.start_time.set ? p->api->status.start_time.at.sec
                                         : exec_wall_ns(a->s->exec) / CLOCK_NS_PER_SEC;
}

static void dryrun_add_cost(const struct attempt *a, const struct sched_pod *p,
                            struct preempt_cost *cost)
{
    int32_t priority = p->queue.priority;
    int64_t start = dryrun_start_of(a, p);
    if (!cost->pods || priority > cost->highest)
        cost->start = start;
    else if (priority == cost->highest && start < cost->start)
        cost->start = start;
    if (!cost->pods || priority > cost->highest)
        cost->highest = priority;
    cost->sum += (int64_t)priority - INT32_MIN;
    cost->pods++;
}

int preempt_cost_cmp(const struct preempt_cost *x, const struct preempt_cost *y)
{
    if (x->violations != y->violations)
        return x->violations < y->violations ? -1 : 1;
    if (x->highest != y->highest)
        return x->highest < y->highest ? -1 : 1;
    if (x->sum != y->sum)
        return x->sum < y->sum ? -1 : 1;
    if (x->pods != y->pods)
        return x->pods < y->pods ? -1 : 1;
    return x->start == y->start ? 0 : x->start > y->start ? -1 : 1;
}

// --- Pods that may go ----------------------------------------------------------------------------

bool dryrun_has_lower(const struct sched_node *n, int32_t priority)
{
    for (size_t i = 0; i < n->pods.n; i++)
        if (n->pods.p[i]->queue.priority < priority)
            return true;
    return false;
}

// The most important first; a pod that has not started is the least important of its priority.
static int dryrun_by_importance(const void *x, const void *y)
{
    const struct sched_pod *a = *(struct sched_pod *const *)x;
    const struct sched_pod *b = *(struct sched_pod *const *)y;
    const struct api_time *s = &a->api->status.start_time;
    const struct api_time *t = &b->api->status.start_time;
    if (a->queue.priority != b->queue.priority)
        return a->queue.priority > b->queue.priority ? -1 : 1;
    if (s->set != t->set)
        return s->set ? -1 : 1;
    int order = s->set ? moment_cmp(s->at, t->at) : 0;
    return order ? order : str_cmp(a->key, b->key);
}

static void dryrun_list_pods(struct attempt *a, const struct sched_node *n)
{
    struct preempt *q = &a->s->preempt;
    vec_clear(&q->lower);
    vec_clear(&q->order);
    for (size_t i = 0; i < n->pods.n; i++) {
        struct sched_pod *p = n->pods.p[i];
        vec_push(&q->order, p);
        if (p->queue.priority < a->pod->queue.priority)
            vec_push(&q->lower, p);
    }
}

// --- The node without them -----------------------------------------------------------------------

// Devices are looked at once: that pods leave frees none. What devices take of the node's own
// resources depends on the pods that stay.
static bool dryrun_fits(struct attempt *a, struct sched_node *n, bool devices, struct refusals *why)
{
    struct preempt *q = &a->s->preempt;
    q->units += 1 + 2 * (a->spreads_len + (a->affinity != NULL)) + a->volume.n;
    if (filter_node(a, n, why) != WHY_NONE)
        return false;
    if (!a->wants_len || !devices)
        return true;
    q->units += UNITS_SOLVE;
    bool fits = dra_filter(a, n, why) == WHY_NONE;
    if (a->failed && !a->s->cost.meter.refused) { // an error on one node is a reason to skip it
        a->failed = false;
        sbuf_clear(&a->text);
    }
    return fits;
}

// Puts pods back as long as the pod still fits: those whose budgets forbid their deletion first,
// then the others, the more important ones before the less. What remains must go.
static void dryrun_spare(struct attempt *a, struct sched_node *n, const bool *violating,
                         bool violations, struct preempt_cost *cost)
{
    struct pod_vec *lower = &a->s->preempt.lower;
    bool devices = features_on(&a->s->config.features, FEATURE_DRA_NODE_ALLOCATABLE_RESOURCES);
    for (size_t i = 0; i < lower->n; i++) {
        struct sched_pod *p = lower->p[i];
        if (violating[i] != violations)
            continue;
        overlay_add(a, p, n);
        if (dryrun_fits(a, n, devices, NULL))
            continue;
        overlay_remove(a, p);
        cost->violations += violations;
        dryrun_add_cost(a, p, cost);
    }
}

static void dryrun_choose(struct attempt *a, struct sched_node *n, struct preempt_budgets *b,
                          struct preempt_cost *cost)
{
    struct pod_vec *lower = &a->s->preempt.lower;
    bool *violating = arena_array(a->arena, bool, lower->n);
    if (lower->n > 1)
        qsort(lower->p, lower->n, sizeof(*lower->p), dryrun_by_importance);
    budgets_reset(b);
    for (size_t i = 0; i < lower->n; i++)
        violating[i] = budgets_violated(b, lower->p[i]->api);
    a->s->preempt.units += b->spent;
    dryrun_spare(a, n, violating, true, cost);
    dryrun_spare(a, n, violating, false, cost);
}

// Those that are still gone are the victims; they come back.
static void dryrun_restore(struct attempt *a, struct sched_node *n, struct sched_pod **victims)
{
    struct preempt *q = &a->s->preempt;
    size_t found = 0;
    for (size_t i = 0; i < q->lower.n; i++) {
        struct sched_pod *p = q->lower.p[i];
        if (p->node)
            continue;
        if (victims)
            victims[found++] = p;
        overlay_add(a, p, n);
    }
    for (size_t i = 0; i < q->order.n; i++) {
        n->pods.p[i] = q->order.p[i];
        q->order.p[i]->on.at = (uint32_t)i;
    }
}

enum dryrun_result dryrun_node(struct attempt *a, struct sched_node *n, struct preempt_budgets *b,
                               const struct preempt_cost *best, struct preempt_candidate *ret,
                               struct refusals *why)
{
    struct preempt *q = &a->s->preempt;
    dryrun_list_pods(a, n);
    *ret = (struct preempt_candidate){.node = n};
    q->units += q->order.n + q->lower.n * (1 + 2 * (a->spreads_len + (a->affinity != NULL)));
    if (!q->lower.n)
        return DRYRUN_NO_VICTIMS;
    q->dry_runs++;
    for (size_t i = 0; i < q->lower.n; i++)
        overlay_remove(a, q->lower.p[i]);
    a->nodes.going = &q->lower;
    bool fits = dryrun_fits(a, n, true, why);
    if (fits)
        dryrun_choose(a, n, b, &ret->cost);
    a->nodes.going = NULL;
    bool better = fits && ret->cost.pods && (!best || preempt_cost_cmp(&ret->cost, best) < 0);
    if (better)
        ret->victims = arena_array(a->arena, struct sched_pod *, ret->cost.pods);
    dryrun_restore(a, n, ret->victims);
    return fits && ret->cost.pods ? DRYRUN_FITS : DRYRUN_REFUSED;
}

// SPDX-License-Identifier: Apache-2.0
//
// The pods of a PodGroup, tried together: each is placed in memory, in the order they came, with
// those before it in place. If as many fit as the group needs they go on their way together, else
// it is as if nothing had been, and what the group still holds of earlier times is given back.
#include "sched/gang/gang.h"

#include <stdlib.h>

#include "sched/bind/bind.h"
#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"
#include "sched/gang/gang_int.h"

#include "base/banned.h"

// --- Who takes part ------------------------------------------------------------------------------

// Pods of a group that has enough are tried when it is their turn; before that all are, whatever
// they wait for: what helps one of them helps all.
static bool takes_part(const struct cycle *c, const struct sched_pod *p)
{
    bool enough = c->before >= c->min || c->min == 1;
    if (p->node || p->binding || !sched_is_mine(c->s, p->api) || p->api->spec.scheduling_gates.n)
        return false;
    if (p == c->first || p->state == POD_ACTIVE)
        return true;
    if (enough)
        return false;
    return p->state == POD_POSTPONED || p->state == POD_BACKOFF || p->state == POD_WAITING ||
           (p->state == POD_GATED && p->group_gated);
}

static void gang_gate_pod(struct sched *s, struct sched_pod *p, struct str text)
{
    free(p->report.gate);
    p->report.gate = xstrndup(text.p, text.n);
    p->group_gated = true;
    queue_gate(&s->queue, p);
    report_gated(s, p);
}

static int by_order(const void *a, const void *b)
{
    const struct sched_pod *x = ((const struct try *)a)->pod;
    const struct sched_pod *y = ((const struct try *)b)->pod;
    return x->queue.order < y->queue.order ? -1 : x->queue.order > y->queue.order;
}

void gang_by_order(struct cycle *c)
{
    qsort(c->tries, c->n, sizeof(*c->tries), by_order);
}

// The group may have gone, or be going, since the pod was put into the queue.
static bool gated_by_group(struct cycle *c, struct sched_pod *p)
{
    cleanup_sbuf struct sbuf why = {0};
    if (groups_gate(p, &why) || (c->g->api && c->g->pods.n < c->min))
        return false;
    gang_gate_pod(c->s, p, sbuf_str(&why));
    return true;
}

static void gang_collect_members(struct cycle *c)
{
    c->before = groups_scheduled(c->g);
    c->tries = xcalloc(c->g->pods.n + 1, sizeof(*c->tries));
    for (size_t i = 0; i < c->g->pods.n; i++)
        if (takes_part(c, c->g->pods.p[i]) && !gated_by_group(c, c->g->pods.p[i]))
            c->tries[c->n++].pod = c->g->pods.p[i];
    for (size_t i = 0; i < c->n; i++)
        queue_leave(&c->s->queue, c->tries[i].pod); // until it is clear where it goes
    gang_by_order(c);
}

// Puts all aside until something about the group, or a claim of theirs, changes.
static void gate_all(struct cycle *c, struct str text)
{
    for (size_t i = 0; i < c->n; i++)
        if (!c->tries[i].pod->binding)
            gang_gate_pod(c->s, c->tries[i].pod, text);
}

// Those that have something of an earlier attempt give it back first, and come again.
static void gate_short(struct cycle *c)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "minCount (%zu) cannot be satisfied: %zu scheduled, %zu remaining", c->min,
              c->before, c->n);
    for (size_t i = 0; i < c->n; i++)
        if (!bind_leftovers(c->s, c->tries[i].pod))
            gang_gate_pod(c->s, c->tries[i].pod, sbuf_str(&text));
}

// What earlier attempts reserved for single pods is taken back first.
static bool gang_clean_leftovers(struct cycle *c)
{
    bool any = false;
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (bind_leftovers(c->s, c->tries[i].pod)) // it comes back by itself
            any = true;
        else
            c->tries[n++] = c->tries[i];
    }
    c->n = n;
    if (!any || c->before >= c->min || c->min == 1)
        return c->n > 0;
    gate_all(c, STR("an earlier attempt is being taken back"));
    return false;
}

// --- Rules for all of them -----------------------------------------------------------------------

static struct str preemption_of(const struct api_pod *pod)
{
    return pod->spec.has_preemption_policy ? pod->spec.preemption_policy
                                           : STR("PreemptLowerPriority");
}

static bool valid_pod(struct cycle *c, const struct api_pod *pod, const struct api_pod *like)
{
    const struct api_pod_group_spec *group = &c->g->api->spec;
    int32_t priority = pod->spec.has_priority ? pod->spec.priority : 0;
    int32_t wanted = group->has_priority ? group->priority : 0;
    if (!str_eq(pod->spec.scheduler_name, like->spec.scheduler_name))
        sbuf_addf(&c->text,
                  "all pods in a single pod group should have the same .spec.schedulerName set, "
                  "got: \"%.*s\" and \"%.*s\"",
                  STR_ARG(pod->spec.scheduler_name), STR_ARG(like->spec.scheduler_name));
    else if (priority != wanted)
        sbuf_addf(&c->text,
                  "all pods in a single pod group should have the same priority as the pod "
                  "group's priority, got %d and %d",
                  (int)priority, (int)wanted);
    else if (!str_eq(preemption_of(pod), preemption_of(like)))
        sbuf_addf(&c->text,
                  "all pods in a single pod group should have the same preemption policy, got "
                  "%.*s and %.*s",
                  STR_ARG(preemption_of(pod)), STR_ARG(preemption_of(like)));
    return !c->text.n;
}

bool gang_valid(struct cycle *c)
{
    const struct api_pod *like = c->tries[0].pod->api;
    for (size_t i = 0; i < c->n; i++)
        if (!valid_pod(c, c->tries[i].pod->api, like))
            return false;
    for (size_t i = 0; i < c->g->pods.n; i++)
        if (c->g->pods.p[i]->node && !valid_pod(c, c->g->pods.p[i]->api, like))
            return false;
    return true;
}

// --- One pod -------------------------------------------------------------------------------------

static char *line_take(struct sbuf *line)
{
    return line->n ? sbuf_take(line) : xstrndup("", 0);
}

static void gang_refuse_pod(struct try *t, struct attempt *a, const struct verdict *known)
{
    struct sbuf line = {0};
    t->refused = true;
    t->whys = known ? known->whys : a->whys ? a->whys : WHY_BIT(WHY_NODE_AFFINITY);
    if (known) {
        sbuf_addz(&line, known->message);
    } else {
        report_line(a, &line);
        a->whys = t->whys;
    }
    t->line = line_take(&line);
    if (!known && !a->s->cost.meter.refused)
        cycle_keep(a, str_z(t->line));
    const struct want *w = known ? NULL : cycle_give_up(a);
    t->give_up = w ? typed_object_ref(w->object) : NULL;
}

static void gang_place_pod(struct cycle *c, struct try *t, struct attempt *a)
{
    const struct verdict *known = NULL;
    struct sched_node *n = cycle_find(a, &known);
    if (n) {
        t->binding = bind_prepare(a, n);
        t->node = n;
        c->fits++;
    } else if (a->failed) {
        c->failed = true;
        sbuf_add(&c->text, sbuf_str(&a->text));
    } else if (c->again) {
        t->refused = true; // the first way has explained it
    } else {
        gang_refuse_pod(t, a, known);
    }
}

static void gang_ungate_pod(struct sched_pod *p)
{
    free(p->report.gate);
    p->report.gate = NULL;
    p->group_gated = false;
}

static void gang_count_attempt(struct sched *s, struct sched_pod *p)
{
    s->stats.attempts++;
    p->queue.attempts++;
    p->queue.tried_ns = exec_now_ns(s->exec);
}

static void try_pod(struct cycle *c, struct try *t)
{
    struct sched *s = c->s;
    struct sched_pod *p = t->pod;
    struct attempt a;
    cleanup_sbuf struct sbuf line = {0};
    gang_ungate_pod(p);
    gang_count_attempt(s, p);
    switch (cycle_begin(s, p, &a)) {
    case DRA_OK:
        gang_place_pod(c, t, &a);
        break;
    case DRA_GATED:
    case DRA_WAIT: // this was no attempt
        p->queue.attempts--;
        c->waits = true;
        cycle_gate(&a);
        p->group_gated = true;
        break;
    case DRA_REFUSED:
        t->refused = true;
        t->whys = a.whys ? a.whys : WHY_BIT(WHY_DEVICES);
        sbuf_addf(&line, "0/%zu nodes are available: %.*s.", s->cluster.nodes_known,
                  STR_ARG(sbuf_str(&a.text)));
        t->line = line_take(&line);
        break;
    case DRA_FAILED:
        c->failed = true;
        sbuf_add(&c->text, sbuf_str(&a.text));
        break;
    }
    cycle_end(&a);
}

// The same when another way is looked for: nothing is counted, and a pod that cannot be tried ends
// it.
static void try_pod_again(struct cycle *c, struct try *t)
{
    struct attempt a;
    enum dra_begin r = cycle_begin(c->s, t->pod, &a);
    if (r == DRA_OK) {
        if (t->pod == c->vary) {
            a.nodes.avoid = c->avoid;
            a.nodes.avoid_len = c->avoid_len;
        }
        gang_place_pod(c, t, &a);
    } else {
        c->failed = true;
    }
    if (c->seen) { // every pod is to be seen
        t->refused = !t->binding;
        c->failed = false;
        sbuf_clear(&c->text);
        c->seen(c->seen_arg, &a, r, t->node);
    }
    cycle_end(&a);
}

// --- What comes of it ----------------------------------------------------------------------------

void gang_revert(struct cycle *c)
{
    for (size_t i = c->n; i-- > 0;) {
        if (!c->tries[i].binding)
            continue;
        bind_revert(c->tries[i].binding);
        c->tries[i].binding = NULL;
    }
    c->s->turn.epoch++; // what was found with these in place does not hold without them
}

static void gang_report_pod(struct cycle *c, struct try *t, const char *reason, struct str text)
{
    bool error = strcmp(reason, "SchedulerError") == 0;
    if (t->binding || t->refused || error)
        meter_attempt(c->s, t->pod, error ? METER_ERROR : METER_UNSCHEDULABLE);
    report_set_message(c->s, t->pod, reason, text);
}

// Waits for what it lacks; an allocation of its own that keeps it from other nodes is given up.
static void gang_requeue_pod(struct cycle *c, struct try *t, uint32_t whys)
{
    if (t->give_up)
        bind_deallocate(c->s, t->pod, t->give_up);
    else
        queue_wait(&c->s->queue, t->pod, whys);
}

static void gang_cycle_succeed(struct cycle *c)
{
    struct sched *s = c->s;
    struct binding **all = xcalloc(c->fits, sizeof(struct binding *));
    size_t n = 0;
    c->g->attempts = 0;
    for (size_t i = 0; i < c->n; i++) {
        struct try *t = &c->tries[i];
        if (t->binding) {
            t->pod->queue.jitter_ns = 0;
            all[n++] = t->binding;
        } else if (t->refused && c->again) {
            sched_enqueue(s, t->pod); // its message is written when its turn comes
        } else if (t->refused) {
            s->stats.unschedulable++;
            gang_report_pod(c, t, "Unschedulable", str_z(t->line));
            gang_requeue_pod(c, t, t->whys);
        } else if (i >= c->tried) {
            sched_enqueue(s, t->pod); // it stands behind one that waits for a claim
        }
    }
    s->stats.groups_placed++;
    meter_group(s, METER_SCHEDULED, c->began_ns);
    groups_set_condition(s, c->g, true, "Scheduled", (struct str){0});
    gang_start(s, all, n, c->min > c->before ? c->min - c->before : 0);
    free(all);
}

// A group backs off as one.
static void back_off(const struct cycle *c, struct sched_pod *p)
{
    p->queue.attempts = c->g->attempts;
    p->queue.tried_ns = c->g->tried_ns;
    p->queue.jitter_ns = c->g->jitter_ns;
}

// A claim that was made for the pod, has devices, and has no other user; NULL: none.
static const struct typed_object *made_and_allocated(struct sched *s, const struct sched_pod *p)
{
    for (size_t i = 0; i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        if (claim && claim->status.allocation && !(*k)->flight &&
            claim_is_for(claim, p->api, false) && !claim_is_extended(&claim->metadata) &&
            claims_only_for(claim, p->api))
            return (*k)->latest;
    }
    return NULL;
}

static void gang_cycle_fail(struct cycle *c)
{
    cleanup_sbuf struct sbuf others = {0};
    sbuf_addf(&others, "failed to schedule other pod from a pod group: %.*s",
              STR_ARG(sbuf_str(&c->text)));
    c->s->stats.errors++;
    meter_group(c->s, METER_ERROR, c->began_ns);
    c->g->attempts++;
    c->g->tried_ns = exec_now_ns(c->s->exec);
    for (size_t i = 0; i < c->n; i++) {
        struct try *t = &c->tries[i];
        bool own = i + 1 == c->tried || !c->tried;
        if (t->pod->state == POD_GATED)
            continue;
        gang_report_pod(c, t, "SchedulerError", sbuf_str(own ? &c->text : &others));
        back_off(c, t->pod);
        // A group that is wrong as it is holds nothing.
        const struct typed_object *held = c->tried ? NULL : made_and_allocated(c->s, t->pod);
        if (held)
            bind_deallocate(c->s, t->pod, held);
        else
            queue_retry(&c->s->queue, t->pod);
    }
    groups_set_condition(c->s, c->g, false, "SchedulerError",
                         sbuf_str(c->tried ? &others : &c->text));
}

// --- No room -------------------------------------------------------------------------------------

static void gang_cycle_explain(struct cycle *c)
{
    size_t more = 0;
    const struct try *worst = NULL;
    for (size_t i = 0; i < c->tried; i++) {
        if (!c->tries[i].refused)
            continue;
        more += worst != NULL;
        worst = worst ? worst : &c->tries[i];
    }
    sbuf_addf(&c->text, "minCount (%zu) cannot be satisfied: %zu scheduled, %zu remaining", c->min,
              c->before + c->fits, c->n - c->tried);
    if (worst)
        sbuf_addf(&c->text, "; pod %.*s: %s", STR_ARG(worst->pod->api->metadata.name), worst->line);
    if (more)
        sbuf_addf(&c->text, " (and %zu more)", more);
}

static void no_room(struct cycle *c)
{
    struct sched *s = c->s;
    cleanup_sbuf struct sbuf others = {0};
    gang_cycle_explain(c);
    gang_revert(c);
    sbuf_addf(&others, "pod group is unschedulable: %.*s", STR_ARG(sbuf_str(&c->text)));
    c->g->attempts++;
    c->g->tried_ns = exec_now_ns(s->exec);
    // Two schedulers whose gangs ran into each other do not do so again at the same moment.
    c->g->jitter_ns = c->min > 1 ? (int64_t)rng_below(s->exec->rng, QUEUE_BACKOFF_FIRST_NS) : 0;
    s->stats.unschedulable++;
    s->stats.groups_refused++;
    meter_group(s, METER_UNSCHEDULABLE, c->began_ns);
    for (size_t i = 0; i < c->n; i++) {
        struct try *t = &c->tries[i];
        if (t->pod->state == POD_GATED)
            continue;
        back_off(c, t->pod);
        gang_report_pod(c, t, "Unschedulable", t->refused ? str_z(t->line) : sbuf_str(&others));
        // What helps one that does not fit helps the others.
        queue_wait(&s->queue, t->pod, t->refused ? t->whys : 0);
    }
    if (!c->waits)
        groups_set_condition(s, c->g, false, "Unschedulable", sbuf_str(&c->text));
    if (gang_give_back(s, c->g, c->min > 1 ? TAKE_ALL : TAKE_SOME))
        return;
    for (size_t i = 0; i < c->n; i++)
        if (c->tries[i].give_up && c->tries[i].pod->state == POD_WAITING)
            bind_deallocate(s, c->tries[i].pod, c->tries[i].give_up);
}

static bool any_refused(const struct cycle *c)
{
    for (size_t i = 0; i < c->tried; i++)
        if (c->tries[i].refused)
            return true;
    return false;
}

// --- The cycle -----------------------------------------------------------------------------------

// Stops when so many do not fit that the rest cannot make it.
void gang_try_all(struct cycle *c)
{
    c->s->turn.gang_now = c->again ? c->s->turn.gang_last : ++c->s->turn.gang_last;
    while (c->tried < c->n && !c->failed &&
           (c->seen || c->before + c->fits + c->n - c->tried >= c->min)) {
        if (c->again)
            try_pod_again(c, &c->tries[c->tried]);
        else
            try_pod(c, &c->tries[c->tried]);
        c->tried++;
        if (c->waits && c->min > 1 && c->before < c->min)
            break;
    }
    c->s->turn.gang_now = 0;
}

bool gang_enough(const struct cycle *c)
{
    return c->fits && c->before + c->fits >= c->min;
}

static void ungate_placed(struct cycle *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->tries[i].binding)
            gang_ungate_pod(c->tries[i].pod);
}

// The slice of cost is used up: whatever was found does not hold.
static void gang_cycle_postpone(struct cycle *c)
{
    gang_revert(c);
    c->failed = false;
    sbuf_clear(&c->text);
    bool goes_on = cost_postpone_group(c->s, c->g);
    for (size_t i = c->n; i-- > 0;) {
        struct sched_pod *p = c->tries[i].pod;
        if (p->state == POD_GATED || !goes_on)
            continue;
        p->queue.attempts -= i < c->tried;
        queue_postpone(&c->s->queue, p);
    }
    if (goes_on)
        return;
    sbuf_addz(&c->text, "selectors of the claims of its pods cost too much; simplify them");
    gang_cycle_fail(c);
}

static void gang_cycle_finish(struct cycle *c)
{
    if (c->s->cost.meter.refused) {
        gang_cycle_postpone(c);
        return;
    }
    if (c->failed) {
        gang_revert(c);
        gang_cycle_fail(c);
    } else if (gang_enough(c)) {
        gang_cycle_succeed(c);
    } else if (c->waits && c->min > 1 && c->before < c->min) {
        gang_revert(c);
        for (size_t i = 0; i < c->tried; i++)
            c->tries[i].pod->queue.attempts -= c->tries[i].pod->state != POD_GATED;
        gate_all(c, STR("a claim of its pod group is in the process of being allocated"));
    } else if (!c->waits || any_refused(c)) {
        if (!c->waits && gang_another_way(c)) {
            ungate_placed(c);
            gang_cycle_succeed(c);
        } else if (c->s->cost.meter.refused) {
            gang_cycle_postpone(c);
        } else {
            no_room(c);
        }
    } // else all are gated: this was no attempt
    c->g->cost = c->s->cost.meter.refused ? c->g->cost : 0;
}

static void gang_cycle_run(struct cycle *c)
{
    struct sched *s = c->s;
    if (c->g->take) {
        gate_all(c, STR("devices of an earlier attempt are being given back"));
    } else if (c->before + c->n < c->min) {
        if (!gang_give_back(s, c->g, TAKE_ALL))
            gate_short(c);
    } else if (!gang_clean_leftovers(c) || gang_give_back(s, c->g, TAKE_LOST)) {
        return;
    } else if (!gang_valid(c)) {
        gang_cycle_fail(c);
    } else {
        c->g->jitter_ns = 0; // the last attempt's
        gang_try_all(c);
        gang_cycle_finish(c);
    }
}

void gang_run(struct sched *s, struct sched_pod *first)
{
    struct cycle c = {.s = s,
                      .g = first->group,
                      .first = first,
                      .min = groups_min(first->group),
                      .began_ns = exec_now_ns(s->exec)};
    gang_collect_members(&c);
    if (c.n)
        gang_cycle_run(&c);
    gang_drop(&c);
}

// SPDX-License-Identifier: Apache-2.0
//
// What evaluating selectors may cost. Expressions come from users who may create claims, and the
// scheduler shares its loop with others, so an attempt gets a slice of cost. When that is used up,
// the attempt ends without a result and the pod is postponed: it gets further with its next slice,
// because verdicts are kept (alloc/model/answer.c). Other pods and other work on the loop get their
// turns in between. An attempt that has used up its budget in this way is given up.
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"

#include "base/banned.h"

// A unit of CEL's cost takes 2 to 25 ns. One evaluation costs a million at the most and is not
// interrupted.
#define COST_SLICE    UINT64_C(1000000)
#define COST_REMEDIES UINT64_C(500000)

// Selectors of a pod's claims. Reading one takes as long as a thousand units of cost, and it is
// read again in each turn once there are more than are kept.
#define COST_SELECTORS_MAX 2048

// A pod whose selectors cost too much is not tried again before.
#define COSTLY_BACKOFF_NS (300 * CLOCK_NS_PER_SEC)

void cost_begin(struct sched *s)
{
    s->cost.meter.left = COST_SLICE;
    s->cost.meter.refused = false;
    s->cost.began = s->cost.meter.spent;
}

bool cost_turn_over(const struct sched *s, uint64_t spent_before)
{
    return s->cost.meter.spent - spent_before >= COST_SLICE / 2;
}

void cost_end_turn(struct sched *s, uint64_t spent_before)
{
    uint64_t spent = s->cost.meter.spent - spent_before;
    s->cost.active_next &= cost_turn_over(s, spent_before) || preempt_turn_over(s);
    s->stats.selector_turn_most =
        spent > s->stats.selector_turn_most ? spent : s->stats.selector_turn_most;
}

// Remedies are tried as long as that is cheap, whatever the slice: what they find must not depend
// on what was evaluated before.
void cost_find_remedies(struct attempt *a, struct alloc_report *r, struct alloc_remedies *ret)
{
    struct alloc_meter *m = &a->s->cost.meter;
    uint64_t left = m->left;
    bool refused = m->refused;
    m->left = COST_REMEDIES;
    alloc_remedies_find(r, a->s->solver, ret);
    m->left = left;
    m->refused = refused;
}

static size_t cost_count_selectors(const struct api_resource_claim *claim)
{
    size_t n = 0;
    for (size_t i = 0; i < claim->spec.devices.requests.n; i++) {
        const struct api_device_request *r = &claim->spec.devices.requests.p[i];
        n += r->exactly ? r->exactly->selectors.n + r->exactly->derived_attributes.n : 0;
        for (size_t k = 0; k < r->first_available.n; k++)
            n += r->first_available.p[k].selectors.n + r->first_available.p[k].derived_attributes.n;
    }
    return n;
}

bool cost_has_too_many(struct attempt *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->open_len; i++)
        n += cost_count_selectors(a->open[i]);
    if (n <= COST_SELECTORS_MAX)
        return false;
    sbuf_addf(&a->text, "the pod's claims have %zu selectors, at most %d are evaluated; use fewer",
              n, COST_SELECTORS_MAX);
    return true;
}

void cost_learn_again(struct attempt *a)
{
    // Other claims may have pushed out the verdicts of their expressions.
    bool goes_on = a->pod->cost.spent || (a->pod->group && a->pod->group->cost);
    for (size_t i = 0; goes_on && i < a->open_len; i++)
        index_expect(a->s->devices, a->open[i]);
}

static bool cost_add(struct sched *s, uint64_t *sum)
{
    *sum += s->cost.meter.spent - s->cost.began;
    s->cost.began = s->cost.meter.spent;
    return *sum >= s->cost.budget;
}

// Verdicts are kept for kinds of devices only once all that is read of them is known.
static void cost_prepare_verdicts(struct sched *s)
{
    (void)index_catch_up(s->devices, SIZE_MAX);
    s->stats.postponed++;
}

// cost_write_over writes which selectors cost too much.
static void cost_write_over(const struct attempt *a, struct sbuf *out)
{
    sbuf_addz(out, "selectors of claim ");
    for (size_t i = 0; i < a->open_len; i++)
        sbuf_addf(out, "%s%.*s/%.*s", i ? ", " : "", STR_ARG(a->open[i]->metadata.namespace),
                  STR_ARG(a->open[i]->metadata.name));
    sbuf_addf(out, " cost more than %llu to evaluate on the cluster's devices; simplify them",
              (unsigned long long)a->s->cost.budget);
}

static void cost_give_up(struct attempt *a)
{
    struct sched *s = a->s;
    struct sched_pod *p = a->pod;
    cleanup_sbuf struct sbuf line = {0};
    sbuf_addf(&line, "0/%zu nodes are available: ", s->cluster.nodes_known);
    cost_write_over(a, &line);
    sbuf_addc(&line, '.');
    s->stats.unschedulable++;
    meter_attempt(s, p, METER_UNSCHEDULABLE);
    p->cost.spent = 0;
    p->cost.costly = true;
    p->queue.jitter_ns = COSTLY_BACKOFF_NS;
    report_set_message(s, p, "Unschedulable", sbuf_str(&line));
    queue_wait(&s->queue, p, WHY_BIT(WHY_DEVICES));
}

void cost_postpone(struct attempt *a)
{
    struct sched *s = a->s;
    struct sched_pod *p = a->pod;
    if (cost_add(s, &p->cost.spent)) {
        cost_give_up(a);
        return;
    }
    p->queue.attempts--; // it goes on
    cost_prepare_verdicts(s);
    queue_postpone(&s->queue, p);
}

bool cost_postpone_line(struct attempt *a, struct sbuf *line)
{
    if (!a->s->cost.meter.refused)
        return false;
    if (!cost_add(a->s, &a->pod->cost.spent)) {
        cost_postpone(a);
        return true;
    }
    // No node fits, and no more is known.
    sbuf_clear(line);
    sbuf_addf(line, "0/%zu nodes are available: cannot allocate all claims (",
              a->s->cluster.nodes_known);
    cost_write_over(a, line);
    sbuf_addz(line, ").");
    return false;
}

bool cost_postpone_group(struct sched *s, struct sched_group *g)
{
    if (!cost_add(s, &g->cost)) {
        cost_prepare_verdicts(s);
        return true;
    }
    g->cost = 0;
    g->jitter_ns = COSTLY_BACKOFF_NS;
    return false;
}

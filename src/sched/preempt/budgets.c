// SPDX-License-Identifier: Apache-2.0
//
// PodDisruptionBudgets, as preemption looks at them: it prefers victims whose budgets allow their
// deletion, but is not bound by them.
#include "api/match/label.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("preempt");

// --- Watch ---------------------------------------------------------------------------------------

// Pods that were tried before could not preempt.
static void budgets_set_listed(struct sched *s, enum preempt_listed now)
{
    if (s->preempt.listed == now)
        return;
    s->preempt.listed = now;
    if (now == BUDGETS_FORBIDDEN)
        LOG_WARN(&log_mod, "no pod is preempted: the server does not let us list "
                           "poddisruptionbudgets; grant get, list and watch");
    if (s->preempt.missed)
        sched_wake(s, WHY_ALL);
    s->preempt.missed = false;
}

static void budgets_on_synced(void *arg)
{
    budgets_set_listed(arg, BUDGETS_LISTED);
}

static void budgets_on_refused(void *arg, int code)
{
    budgets_set_listed(arg, code == -ERR_FORBIDDEN ? BUDGETS_FORBIDDEN : BUDGETS_ABSENT);
}

void budgets_start(struct sched *s)
{
    const struct api_kind *kind = api_kind_find(STR("policy/v1"), STR("PodDisruptionBudget"));
    s->preempt.budgets =
        informer_new(&(struct informer_options){.client = s->client, .kind = kind});
    informer_add_handler(s->preempt.budgets,
                         &(struct informer_handler){
                             .synced = budgets_on_synced, .refused = budgets_on_refused, .arg = s});
    informer_start(s->preempt.budgets);
}

// --- Counting ------------------------------------------------------------------------------------

struct budgets_reading {
    struct attempt *a;
    struct preempt_budgets *to;
};

// Tenants choose how many budgets there are and how many values their selectors have. One dry run
// looks at so much of them; pods behind that count as protected.
#define VALUES_UNIT 16
#define UNITS_NODE  200000

static uint32_t budgets_weigh(const struct api_label_selector *s)
{
    size_t values = s->match_labels.n;
    for (size_t i = 0; i < s->match_expressions.n; i++)
        values += 1 + s->match_expressions.p[i].values.n;
    size_t units = 1 + values / VALUES_UNIT;
    return units > UNITS_NODE ? UNITS_NODE : (uint32_t)units;
}

// A budget whose selector is empty protects no pod from preemption.
static void budgets_add(void *arg, const struct typed_object *o)
{
    const struct budgets_reading *r = arg;
    const struct api_pod_disruption_budget *b = o->object.value;
    const struct api_label_selector *s = b->spec.selector;
    if (s && (s->match_labels.n || s->match_expressions.n))
        r->to->p[r->to->n++] = (struct preempt_budget){.api = b, .weight = budgets_weigh(s)};
}

void budgets_read(struct attempt *a, struct preempt_budgets *ret)
{
    const struct informer *all = a->s->preempt.budgets;
    struct budgets_reading reading = {a, ret};
    *ret = (struct preempt_budgets){0};
    if (!all || !informer_len(all))
        return;
    ret->p = arena_array(a->arena, struct preempt_budget, informer_len(all));
    informer_foreach(all, budgets_add, &reading);
}

void budgets_reset(struct preempt_budgets *b)
{
    b->spent = b->n / VALUES_UNIT;
    for (size_t i = 0; i < b->n; i++)
        b->p[i].left = b->p[i].api->status.disruptions_allowed;
}

// The first budget of a namespace, or what would be behind it.
static size_t budgets_find_first(const struct preempt_budgets *b, struct str namespace)
{
    size_t low = 0;
    size_t high = b->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_cmp(b->p[middle].api->metadata.namespace, namespace) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Its eviction was granted before and is counted.
static bool budgets_is_disrupted(const struct api_pod_disruption_budget *b, struct str pod)
{
    for (size_t i = 0; i < b->status.disrupted_pods.n; i++)
        if (str_eq(b->status.disrupted_pods.p[i].key, pod))
            return true;
    return false;
}

// Budgets behind the one that is exhausted are not counted down, as in Kubernetes.
bool budgets_violated(struct preempt_budgets *b, const struct api_pod *pod)
{
    const struct api_object_meta *m = &pod->metadata;
    if (!b->n || !m->labels.n)
        return false;
    for (size_t i = budgets_find_first(b, m->namespace);
         i < b->n && str_eq(b->p[i].api->metadata.namespace, m->namespace); i++) {
        const struct api_pod_disruption_budget *api = b->p[i].api;
        if (b->spent > UNITS_NODE)
            return true;
        b->spent += b->p[i].weight;
        if (labels_match(api->spec.selector, &m->labels) <= 0 || budgets_is_disrupted(api, m->name))
            continue;
        if (--b->p[i].left < 0)
            return true;
    }
    return false;
}

// SPDX-License-Identifier: Apache-2.0
//
// The search for the node where the fewest and least important pods have to go, bounded in each
// turn of the loop.
#include "base/hash.h"
#include "sched/filter/filter_int.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

// Work of a turn, in units of dryrun.c: some ten milliseconds.
#define UNITS_TURN 20000

// kube-scheduler's defaults: so many candidates are compared.
#define CANDIDATES_LEAST   100
#define CANDIDATES_PERCENT 10

// A turn looks at so many nodes at least, however many the cluster has: the search goes on.
#define NODES_TURN_LEAST 16

// A search that goes on in a later turn. The best node is looked at again in the end, since
// everything may have changed.
struct preempt_search {
    uint32_t begin, visited; // nodes by index
    uint32_t found, sound;   // candidates; those that violate no budget
    struct preempt_cost cost;
    uint32_t best; // index of a node, if any was found
    uint64_t best_hash;
};

// --- Who may preempt -----------------------------------------------------------------------------

// Deleted by a scheduler to make room. Only the first condition of the kind counts, as in
// Kubernetes.
static bool search_is_preempted(const struct sched_pod *p)
{
    const struct api_pod_condition_array *all = &p->api->status.conditions;
    if (p->on.evicted)
        return true;
    if (!p->api->metadata.deletion_timestamp.set)
        return false;
    for (size_t i = 0; i < all->n; i++)
        if (str_eqz(all->p[i].type, "DisruptionTarget"))
            return str_eqz(all->p[i].status, "True") &&
                   str_eqz(all->p[i].reason, "PreemptionByScheduler");
    return false;
}

bool preempt_is_ending(const struct sched_pod *p)
{
    const struct sched_node *n = p->on.nominated.node;
    for (size_t i = 0; n && i < n->pods.n; i++)
        if (n->pods.p[i]->queue.priority < p->queue.priority && search_is_preempted(n->pods.p[i]))
            return true;
    return false;
}

// Could the pod fit on the node if others left?
static bool search_is_potential(struct attempt *a, struct sched_node *n, struct refusals *why)
{
    vec_clear(why);
    if (!n || !n->api || (a->nodes.only.n && !str_eq(a->nodes.only, n->name)))
        return false;
    a->s->preempt.units++;
    // What passes is refused by devices, which leaving pods do not free.
    return filter_node(a, n, why) != WHY_NONE && !refusal_hopeless(why);
}

// --- Nodes ---------------------------------------------------------------------------------------

static size_t search_candidates_most(const struct sched *s)
{
    size_t most = s->cluster.nodes_known * CANDIDATES_PERCENT / 100;
    return most > CANDIDATES_LEAST ? most : CANDIDATES_LEAST;
}

static bool search_is_complete(const struct attempt *a, const struct preempt_search *q)
{
    size_t most = search_candidates_most(a->s);
    return q->visited >= a->s->cluster.order.n || (q->sound && q->found >= most);
}

static void search_node(struct attempt *a, struct preempt_search *q, struct sched_node *n,
                        struct preempt_budgets *b, struct refusals *why,
                        struct preempt_candidate *best)
{
    struct preempt_candidate c;
    if (!n || !dryrun_has_lower(n, a->pod->queue.priority) || !search_is_potential(a, n, why) ||
        dryrun_node(a, n, b, q->found ? &q->cost : NULL, &c, NULL) != DRYRUN_FITS)
        return;
    q->found++;
    q->sound += c.cost.violations == 0;
    if (!c.victims)
        return;
    q->cost = c.cost;
    q->best = n->index;
    q->best_hash = hash_str(n->name);
    *best = c;
}

// Looks at the nodes that are left, as far as this turn allows. False: there are more.
static bool search_nodes(struct attempt *a, struct preempt_search *q, struct preempt_budgets *b,
                         struct preempt_candidate *best)
{
    const struct cluster *c = &a->s->cluster;
    struct refusals why = {0};
    const uint32_t first = q->visited;
    while (!search_is_complete(a, q)) {
        bool late = a->s->preempt.units >= UNITS_TURN && q->visited - first >= NODES_TURN_LEAST;
        if (late || a->s->cost.meter.refused)
            return false;
        search_node(a, q, c->order.p[(q->begin + q->visited++) % c->order.n], b, &why, best);
    }
    return true;
}

// The best node of an earlier turn, as it is now.
static void search_check_best(struct attempt *a, const struct preempt_search *q,
                              struct preempt_budgets *b, struct preempt_candidate *best)
{
    const struct cluster *c = &a->s->cluster;
    struct sched_node *n = q->best < c->order.n ? c->order.p[q->best] : NULL;
    struct refusals why = {0};
    if (n && hash_str(n->name) == q->best_hash && search_is_potential(a, n, &why))
        (void)dryrun_node(a, n, b, NULL, best, NULL);
}

static struct preempt_search *search_begin(struct attempt *a)
{
    struct preempt_search *q = a->pod->queue.search;
    if (!q) {
        q = xcalloc(1, sizeof(*q));
        q->begin = a->s->preempt.rotate % (uint32_t)(a->s->cluster.order.n + 1);
        // Searches that take turns do not all find the same node.
        a->s->preempt.rotate += (uint32_t)search_candidates_most(a->s);
        a->pod->queue.search = q;
    }
    return q;
}

// Gives the pod another turn, which is the same attempt.
static enum preempt_outcome search_postpone(struct attempt *a)
{
    a->pod->queue.attempts--;
    a->s->stats.postponed++;
    queue_postpone(&a->s->queue, a->pod);
    return PREEMPT_POSTPONED;
}

static enum preempt_outcome search_find_best(struct attempt *a, struct preempt_candidate *best)
{
    struct preempt_budgets budgets;
    struct preempt_search *q = search_begin(a);
    budgets_read(a, &budgets);
    *best = (struct preempt_candidate){0};
    bool complete = search_nodes(a, q, &budgets, best);
    if (!complete && !a->s->cost.meter.refused)
        return search_postpone(a);
    if (q->found && !best->victims)
        search_check_best(a, q, &budgets, best);
    bool stale = q->found && !best->victims;
    free(take_ptr(a->pod->queue.search));
    return stale ? search_postpone(a) : best->victims ? PREEMPT_NOMINATED : PREEMPT_NO_HELP;
}

// --- An attempt ----------------------------------------------------------------------------------

// Why the pod does not preempt though it might; else true.
static bool search_is_eligible(struct attempt *a, struct sbuf *note, enum preempt_outcome *ret)
{
    struct sched *s = a->s;
    const struct api_pod_spec *spec = &a->api->spec;
    struct sched_node *nominated = a->pod->on.nominated.node;
    struct refusals why = {0};
    *ret = PREEMPT_NO_HELP;
    if (spec->has_preemption_policy && str_eqz(spec->preemption_policy, "Never")) {
        sbuf_addz(note, PREEMPT_NEVER);
        return false;
    }
    if (!cluster_has_lower(&s->cluster, a->pod->queue.priority)) {
        preempt_clear(s, a->pod);
        return false;
    }
    if (s->preempt.listed == BUDGETS_FORBIDDEN) {
        s->preempt.missed = true; // the pod is tried again when they are known
        sbuf_addz(note, "not possible: the server does not let the scheduler list "
                        "poddisruptionbudgets; grant get, list and watch.");
        return false;
    }
    if (s->preempt.listed == BUDGETS_UNKNOWN) {
        s->preempt.missed = true; // the pod is tried again when they are known
        return false;
    }
    if (!nominated || !preempt_is_ending(a->pod) || !search_is_potential(a, nominated, &why))
        return true;
    sbuf_addz(note, PREEMPT_TERMINATING);
    *ret = PREEMPT_WAITS;
    return false;
}

// An attempt that ends here has asked every node, has counted pods if it has terms, and has been
// explained. That leaves less for other attempts of the turn, not for its own search.
static void search_charge_attempt(const struct attempt *a)
{
    bool counted = a->spreads_len || a->affinity;
    a->s->preempt.units += a->s->cluster.nodes_known;
    a->s->preempt.units += counted ? map_len(&a->s->cluster.pods) / 4 : 0;
}

enum preempt_outcome preempt_run(struct attempt *a, struct sbuf *note)
{
    struct sched *s = a->s;
    struct preempt_candidate best;
    enum preempt_outcome outcome;
    if (s->config.preemption == SCHED_PREEMPTION_OFF)
        return PREEMPT_NO_HELP;
    if (!search_is_eligible(a, note, &outcome)) {
        search_charge_attempt(a);
        return outcome;
    }
    int64_t began_ns = exec_now_ns(s->exec);
    outcome = search_find_best(a, &best);
    search_charge_attempt(a);
    if (outcome == PREEMPT_POSTPONED)
        return outcome;
    meter_preempt(s, began_ns, outcome == PREEMPT_NOMINATED ? best.cost.pods : 0,
                  outcome == PREEMPT_NOMINATED ? best.cost.violations : 0);
    if (outcome == PREEMPT_NO_HELP) {
        preempt_clear(s, a->pod);
        return outcome;
    }
    sbuf_addf(note, "found a potential placement for pod on node %.*s, preempting %zu victims",
              STR_ARG(best.node->name), best.cost.pods);
    evict_start(a, &best);
    return outcome;
}

bool sched_preemption_parse(struct str text, enum sched_preemption *ret)
{
    static const char *const names[] = {
        [SCHED_PREEMPTION_KUBERNETES] = "kubernetes", [SCHED_PREEMPTION_OFF] = "off"};
    for (size_t i = 0; i < array_len(names); i++)
        if (str_eqz(text, names[i])) {
            *ret = (enum sched_preemption)i;
            return true;
        }
    return false;
}

// --- Turns and life ------------------------------------------------------------------------------

void preempt_begin_turn(struct sched *s)
{
    s->preempt.units = 0;
}

bool preempt_turn_over(const struct sched *s)
{
    return s->preempt.units >= UNITS_TURN;
}

void preempt_init(struct sched *s)
{
    list_init(&s->preempt.running);
    s->preempt.again_timer = (struct exec_timer){.fn = nominate_write_again, .arg = s};
}

void preempt_start(struct sched *s)
{
    if (s->config.preemption != SCHED_PREEMPTION_OFF)
        budgets_start(s);
}

void preempt_done(struct sched *s)
{
    exec_timer_stop(s->exec, &s->preempt.again_timer);
    evict_drop_all(s);
    informer_free(s->preempt.budgets);
    vec_done(&s->preempt.lower);
    vec_done(&s->preempt.order);
}

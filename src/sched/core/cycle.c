// SPDX-License-Identifier: Apache-2.0
//
// One attempt to place a pod: its claims, the nodes that may do, the best of them.
#include "sched/core/cycle.h"

#include "alloc/fleet.h"
#include "api/match/node.h"
#include "base/hash.h"
#include "sched/bind/bind.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"
#include "sched/filter/filter_int.h"
#include "sched/filter/packing.h"
#include "sched/gang/gang.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

// Nodes scored are more when no device has to be looked for.
#define PLAIN_FACTOR 4

// --- Begin and end -------------------------------------------------------------------------------

static void narrow_by_affinity(struct attempt *a)
{
    const struct api_node_affinity *f =
        a->api->spec.affinity ? a->api->spec.affinity->node_affinity : NULL;
    struct str only = f ? node_only_name(f->required_during_scheduling_ignored_during_execution)
                        : (struct str){0};
    if (only.n && !a->nodes.only.n)
        a->nodes.only = only;
}

enum dra_begin cycle_begin(struct sched *s, struct sched_pod *p, struct attempt *a)
{
    arena_reset(&s->turn.arena);
    if (p->strange)
        needs_of_pod(&s->cluster, p, NULL); // a node or a class may have come that has it
    *a = (struct attempt){.s = s, .pod = p, .api = p->api, .arena = &s->turn.arena};
    enum dra_begin r = dra_begin(a);
    if (r == DRA_OK)
        r = volume_rules_begin(a);
    if (r != DRA_OK)
        return r;
    narrow_by_affinity(a);
    spread_begin(a);
    affinity_begin(a);
    return DRA_OK;
}

void cycle_end(struct attempt *a)
{
    for (size_t i = 0; i < a->wants_len; i++)
        typed_object_unref(a->wants[i].object);
    spread_end(a);
    affinity_end(a);
    sbuf_done(&a->text);
}

// --- Verdicts ------------------------------------------------------------------------------------

uint64_t cycle_signature(struct attempt *a)
{
    const struct api_pod_spec *spec = &a->api->spec;
    cleanup_sbuf struct sbuf b = {0};
    if (volumes_used(a->api))
        return 0;
    for (size_t i = 0; i < a->wants_len; i++)
        if (a->wants[i].allocated || a->wants[i].stale)
            return 0;
    sbuf_addf(&b, "%llu,", (unsigned long long)a->devices_hash);
    sbuf_add(&b, a->api->metadata.namespace);
    for (size_t i = 0; i < a->api->metadata.labels.n; i++)
        sbuf_addf(&b, "\n%.*s=%.*s", STR_ARG(a->api->metadata.labels.p[i].key),
                  STR_ARG(a->api->metadata.labels.p[i].value));
    for (size_t i = 0; i < a->pod->needs_len; i++)
        sbuf_addf(&b, "\n%u:%lld", a->pod->needs[i].res, (long long)a->pod->needs[i].amount);
    for (size_t i = 0; i < a->pod->ports_len; i++)
        sbuf_addf(&b, "\n%.*s%.*s%d", STR_ARG(a->pod->ports[i].ip),
                  STR_ARG(a->pod->ports[i].protocol), a->pod->ports[i].port);
    for (size_t i = 0; i < spec->node_selector.n; i++)
        sbuf_addf(&b, "\n%.*s==%.*s", STR_ARG(spec->node_selector.p[i].key),
                  STR_ARG(spec->node_selector.p[i].value));
    // Who may be displaced depends on these, and for whom room is kept.
    if (a->pod->queue.priority || spec->has_preemption_policy)
        sbuf_addf(&b, "\n%d%.*s", a->pod->queue.priority, STR_ARG(spec->preemption_policy));
    for (size_t i = 0; i < spec->tolerations.n; i++)
        api_proto_write(&api_toleration_type, &spec->tolerations.p[i], &b);
    for (size_t i = 0; i < spec->topology_spread_constraints.n; i++)
        api_proto_write(&api_topology_spread_constraint_type,
                        &spec->topology_spread_constraints.p[i], &b);
    if (spec->affinity)
        api_proto_write(&api_affinity_type, spec->affinity, &b);
    uint64_t h = hash_str(sbuf_str(&b));
    return h ? h : 1;
}

static struct verdict *known_verdict(struct attempt *a)
{
    struct sched *s = a->s;
    if (s->verdicts.epoch != s->turn.epoch || a->pod->on.nominated.node)
        return NULL;                        // none is of now, or about room kept for this very pod
    if (!a->pod->signature || a->wants_len) // its claims may be others by now, or have devices
        a->pod->signature = cycle_signature(a);
    struct verdict *v = &s->verdicts.all[a->pod->signature % VERDICTS_MAX];
    return a->pod->signature && v->signature == a->pod->signature && v->epoch == s->turn.epoch
               ? v
               : NULL;
}

void cycle_keep(struct attempt *a, struct str message)
{
    struct sched *s = a->s;
    a->pod->signature = cycle_signature(a);
    if (!a->pod->signature)
        return;
    struct verdict *v = &s->verdicts.all[a->pod->signature % VERDICTS_MAX];
    free(v->message);
    *v =
        (struct verdict){a->pod->signature, s->turn.epoch, a->whys, xstrndup(message.p, message.n)};
    s->verdicts.whys = a->whys | (s->verdicts.epoch == s->turn.epoch ? s->verdicts.whys : 0);
    s->verdicts.epoch = s->turn.epoch;
}

// --- Nodes ---------------------------------------------------------------------------------------

struct finding {
    struct sched_node **nodes;
    int64_t *ranks;
    int64_t *worths; // steps of worth; NULL: not known
    size_t n, max;
};

static bool cycle_is_avoided(const struct attempt *a, const struct sched_node *n)
{
    for (size_t i = 0; i < a->nodes.avoid_len; i++)
        if (a->nodes.avoid[i] == n)
            return true;
    return false;
}

// Asks one node. INDEX_YES: it is among those found.
static enum index_reply cycle_ask_node(struct attempt *a, struct sched_node *n,
                                       struct finding *found)
{
    if (cycle_is_avoided(a, n))
        return INDEX_SKIP;
    enum why r = filter_node(a, n, NULL);
    bool devices = false;
    if (r == WHY_NONE) {
        r = dra_filter(a, n, NULL);
        devices = r == WHY_DEVICES && a->last.answer.verdict == ALLOC_UNSATISFIABLE;
    }
    if (r != WHY_NONE) {
        a->whys |= WHY_BIT(r);
        return devices ? INDEX_NO : INDEX_SKIP;
    }
    found->nodes[found->n] = n;
    found->ranks[found->n++] = dra_rank(a);
    return INDEX_YES;
}

static void ask_one(struct attempt *a, struct finding *found)
{
    struct sched_node **n = map_get(&a->s->cluster.nodes, a->nodes.only);
    if (n && (*n)->api && cycle_ask_node(a, *n, found) == INDEX_YES)
        return;
    a->whys |= WHY_BIT(WHY_NODE_AFFINITY);
    // Claims that hold the pod to this node could be had elsewhere.
    for (size_t i = 0; i < a->wants_len; i++) {
        struct want *w = &a->wants[i];
        if (w->allocated && str_eq(node_only_name(w->allocation->node_selector), a->nodes.only)) {
            w->unavailable = true;
            w->entry->unavailable = a->s->turn.gang_now;
            a->whys |= WHY_BIT(WHY_DEVICES);
        }
    }
}

// The cluster question: nodes are named by worth, or by their devices.
struct asking {
    struct attempt *a;
    struct finding *found;
};

static enum index_reply ask_named(void *arg, uint32_t index)
{
    struct asking *q = arg;
    struct attempt *a = q->a;
    struct finding *found = q->found;
    struct sched_node *n =
        index < a->s->cluster.order.n ? a->s->cluster.order.p[index] : NULL; // it may have gone
    if (!n || !n->api)
        return INDEX_SKIP;
    if (found->worths)
        found->worths[found->n] = fleet_score(packing_fleet(a->s->packing));
    enum index_reply r = cycle_ask_node(a, n, found);
    bool settled = r == INDEX_YES && found->worths && score_settled(a, n);
    return settled || a->failed || found->n == found->max ? INDEX_ENOUGH : r;
}

static void ask_by_devices(struct attempt *a, struct finding *found)
{
    struct asking q = {a, found};
    // With extended resources, what is needed depends on the node.
    index_find(a->s->devices, &(struct index_ask){.hash = a->devices_hash,
                                                  .claims = a->open,
                                                  .claims_len = a->open_len,
                                                  .need = a->special.want ? 0 : a->need,
                                                  .ask = ask_named,
                                                  .arg = &q});
    a->whys |= WHY_BIT(WHY_DEVICES); // those that were not asked
}

// All nodes, by what placing the pod there would cost. Further nodes are asked only as long as
// something else than worth could make them the better ones.
static void ask_by_worth(struct attempt *a, struct finding *found)
{
    struct sched *s = a->s;
    struct fleet *fleet = packing_fleet(s->packing);
    struct asking q = {a, found};
    found->worths = arena_array(a->arena, int64_t, found->max);
    packing_start(a);
    if (s->cost.meter.refused) {
        a->failed = true;
        return;
    }
    index_find(s->devices, &(struct index_ask){.hash = a->open_len ? a->devices_hash : 0,
                                               .claims = a->open,
                                               .claims_len = a->open_len,
                                               .fleet = fleet,
                                               .ask = ask_named,
                                               .arg = &q});
    if (a->open_len)
        a->whys |= WHY_BIT(WHY_DEVICES); // those that were not asked
    if (fleet_crowded(fleet))
        a->whys |= WHY_BIT(WHY_RESOURCES);
}

static void cycle_ask_all(struct attempt *a, struct finding *found)
{
    struct sched *s = a->s;
    size_t all = s->cluster.order.n;
    size_t i = 0;
    for (; i < all && found->n < found->max && !a->failed; i++) {
        struct sched_node *n = s->cluster.order.p[(s->turn.rotate + i) % all];
        if (n && n->api)
            (void)cycle_ask_node(a, n, found);
    }
    if (all)
        s->turn.rotate = (s->turn.rotate + i) % all;
}

// Nodes in the order of their worth. False: that offered none that will do.
static bool ask_preferred(struct attempt *a, struct finding *found)
{
    if (!packing_serves(a))
        return false;
    ask_by_worth(a, found);
    if (!found->n && !a->failed && packing_behind(a->s->packing)) {
        packing_catch_up(a->s);
        ask_by_worth(a, found);
    }
    return found->n || a->failed;
}

static void cycle_ask_nodes(struct attempt *a, struct finding *found)
{
    // Worth is a preference, made of numbers that leave things out: what it does not offer is
    // asked, too.
    if (ask_preferred(a, found))
        return;
    found->worths = NULL;
    if (a->nodes.only.n) {
        ask_one(a, found);
    } else if (a->open_len || a->special.want) {
        ask_by_devices(a, found);
    } else {
        cycle_ask_all(a, found);
    }
}

// The node that the pod waits for is taken if it fits; no other is looked at then.
static bool cycle_ask_nominated(struct attempt *a, struct finding *found)
{
    struct sched_node *n = a->pod->on.nominated.node;
    return n && n->api && cycle_ask_node(a, n, found) == INDEX_YES;
}

// Kubernetes filters all nodes of a cluster of this size before it picks one.
#define ERRORS_NODES_MAX 100

// A question that fails on a node, such as a selector with a runtime error, is a mistake in the
// claim: the pod waits for its repair, even if other nodes fit. One node of each state is asked.
static void cycle_look_for_errors(struct attempt *a)
{
    struct sched *s = a->s;
    if (s->cluster.nodes_known > ERRORS_NODES_MAX || a->nodes.only.n)
        return;
    for (size_t i = 0; i < s->cluster.order.n && !a->failed; i++) {
        struct sched_node *n = s->cluster.order.p[i];
        if (!n || !n->api)
            continue;
        const uint64_t key[] = {a->devices_hash, s->verdicts.classes,
                                index_state(s->devices, n->index)};
        uint64_t hash = hash_str(str_make((const char *)key, sizeof(key)));
        uint64_t *known = &s->verdicts.sound[hash % array_len(s->verdicts.sound)];
        if (*known == hash || cycle_is_avoided(a, n) || filter_node(a, n, NULL) != WHY_NONE)
            continue;
        (void)dra_filter(a, n, NULL);
        if (!a->failed)
            *known = hash;
    }
}

static struct sched_node *cycle_find_node(struct attempt *a)
{
    bool devices = a->open_len || a->special.want;
    struct finding found = {.max = a->s->config.feasible_max * (devices ? 1 : PLAIN_FACTOR)};
    struct sched_node *n = NULL;
    found.nodes = arena_array(a->arena, struct sched_node *, found.max);
    found.ranks = arena_array(a->arena, int64_t, found.max);
    if (!cycle_ask_nominated(a, &found))
        cycle_ask_nodes(a, &found);
    if (!a->failed && found.n && devices)
        cycle_look_for_errors(a);
    if (!a->failed && found.n)
        n = found.nodes[score_best(a, found.nodes, found.ranks, found.worths, found.n)];
    // Its allocation, and what devices take of it, may have been overwritten.
    if (n && a->wants_len && a->last.node != n && dra_filter(a, n, NULL) != WHY_NONE)
        n = NULL;
    packing_end(a->s);
    return n;
}

// --- Outcomes ------------------------------------------------------------------------------------

// No node fits: an allocation that keeps the pod from the others may be given up.
static bool may_give_up(const struct attempt *a, const struct want *w)
{
    return w->unavailable && w->allocated && !w->pending && claims_only_for(w->claim, a->api);
}

const struct want *cycle_give_up(const struct attempt *a)
{
    size_t n = 0;
    for (size_t i = 0; i < a->wants_len; i++)
        n += may_give_up(a, &a->wants[i]);
    size_t pick = n ? rng_below(a->s->exec->rng, n) : 0;
    for (size_t i = 0; i < a->wants_len; i++)
        if (may_give_up(a, &a->wants[i]) && pick-- == 0)
            return &a->wants[i];
    return NULL;
}

void cycle_gate(struct attempt *a)
{
    struct sched_pod *p = a->pod;
    free(p->report.gate);
    p->report.gate = xstrndup(a->text.p ? a->text.p : "", a->text.n);
    queue_gate(&a->s->queue, p);
    report_gated(a->s, p);
    preempt_clear(a->s, p); // it may wait for long; others can have the room
}

// Adds to the line what preemption has to say.
static enum preempt_outcome cycle_preempt(struct attempt *a, struct sbuf *line)
{
    cleanup_sbuf struct sbuf note = {0};
    if (a->s->cost.meter.refused)
        return PREEMPT_NO_HELP; // its selectors cost too much already
    enum preempt_outcome made = preempt_run(a, &note);
    if (made != PREEMPT_POSTPONED && a->s->cost.meter.refused) {
        cost_postpone(a);
        return PREEMPT_POSTPONED;
    }
    if (note.n)
        sbuf_addf(line, "; preemption: %.*s", STR_ARG(sbuf_str(&note)));
    return made;
}

static void no_node(struct attempt *a)
{
    struct sched *s = a->s;
    struct sched_pod *p = a->pod;
    cleanup_sbuf struct sbuf line = {0};
    report_line(a, &line);
    if (cost_postpone_line(a, &line))
        return;
    const struct want *give_up = cycle_give_up(a);
    enum preempt_outcome made = give_up ? PREEMPT_NO_HELP : cycle_preempt(a, &line);
    if (made == PREEMPT_POSTPONED)
        return;
    if (made == PREEMPT_WAITS)
        p->queue.attempts--; // nothing has been tried
    s->stats.unschedulable++;
    meter_attempt(s, p, METER_UNSCHEDULABLE);
    if (!a->whys)
        a->whys = WHY_BIT(WHY_NODE_AFFINITY); // there is no node at all
    report_set_message(s, p, "Unschedulable", sbuf_str(&line));
    if (give_up) {
        bind_deallocate(s, p, give_up->object);
        return; // it gets another turn when that is done
    }
    if (p->report.message && made == PREEMPT_NO_HELP && !p->on.nominated.node)
        cycle_keep(a, str_z(p->report.message));
    queue_wait(&s->queue, p, a->whys);
}

static void cycle_on_failed(struct attempt *a)
{
    a->s->stats.errors++;
    meter_attempt(a->s, a->pod, METER_ERROR);
    report_set_message(a->s, a->pod, "SchedulerError", sbuf_str(&a->text));
    queue_retry(&a->s->queue, a->pod);
}

// The pod as a whole cannot be placed, whatever the node.
static void cycle_on_refused(struct attempt *a)
{
    cleanup_sbuf struct sbuf line = {0};
    a->s->stats.unschedulable++;
    meter_attempt(a->s, a->pod, METER_UNSCHEDULABLE);
    sbuf_addf(&line, "0/%zu nodes are available: %.*s.", a->s->cluster.nodes_known,
              STR_ARG(sbuf_str(&a->text)));
    report_set_message(a->s, a->pod, "Unschedulable", sbuf_str(&line));
    preempt_clear(a->s, a->pod); // no pod that leaves would help
    queue_wait(&a->s->queue, a->pod, a->whys ? a->whys : WHY_BIT(WHY_DEVICES));
}

struct sched_node *cycle_find(struct attempt *a, const struct verdict **ret_known)
{
    *ret_known = known_verdict(a);
    return *ret_known ? NULL : cycle_find_node(a);
}

static void try_nodes(struct attempt *a)
{
    const struct verdict *v;
    struct sched_node *n = cycle_find(a, &v);
    if (v) {
        a->s->stats.unschedulable++;
        meter_attempt(a->s, a->pod, METER_UNSCHEDULABLE);
        report_set_message(a->s, a->pod, "Unschedulable", str_z(v->message));
        queue_wait(&a->s->queue, a->pod, v->whys);
        return;
    }
    if (a->s->cost.meter.refused)
        cost_postpone(a);
    else if (n)
        bind_start(a, n);
    else if (a->failed)
        cycle_on_failed(a);
    else
        no_node(a);
}

// What is counted of claims for devices that are in order.
static enum meter_status cycle_prefilter_status(const struct attempt *a)
{
    return a->wants_len ? METER_SUCCESS : METER_SKIP;
}

void cycle_run(struct sched *s, struct sched_pod *p)
{
    struct attempt a;
    if (p->api->spec.node_name.n || p->api->metadata.deletion_timestamp.set)
        return; // decided elsewhere while it was in the queue
    if (p->api->spec.scheduling_gates.n) {
        sched_enqueue(s, p);
        return;
    }
    cost_begin(s);
    if (p->group) {
        gang_run(s, p);
        return;
    }
    if (bind_leftovers(s, p))
        return;
    p->cost.learnt &= p->cost.spent > 0;
    p->cost.costly = false;
    p->queue.jitter_ns = 0;
    s->stats.attempts++;
    p->queue.attempts++;
    p->queue.tried_ns = exec_now_ns(s->exec);
    switch (cycle_begin(s, p, &a)) {
    case DRA_OK:
        meter_prefilter(s, p, cycle_prefilter_status(&a));
        try_nodes(&a);
        break;
    case DRA_GATED:
    case DRA_WAIT: // the claim's next change gives the pod its turn; this was no attempt
        p->queue.attempts--;
        cycle_gate(&a);
        break;
    case DRA_REFUSED:
        meter_prefilter(
            s, p, a.whys & WHY_BIT(WHY_VOLUMES) ? cycle_prefilter_status(&a) : METER_UNRESOLVABLE);
        cycle_on_refused(&a);
        break;
    case DRA_FAILED:
        meter_prefilter(s, p, METER_FAILURE);
        cycle_on_failed(&a);
        break;
    }
    if (p->state != POD_POSTPONED) { // however it ended, the next attempt begins anew
        p->cost.spent = 0;
        free(take_ptr(p->queue.search));
    }
    cycle_end(&a);
}

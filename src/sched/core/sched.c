// SPDX-License-Identifier: Apache-2.0
//
// The scheduler as a whole: what it watches, what each change means, when it works.
#include "alloc/fleet.h"
#include "api/match/claim.h"
#include "sched/bind/bind.h"
#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/report.h"
#include "sched/filter/packing.h"
#include "sched/gang/gang.h"

#include "base/banned.h"

// Pods tried before other work on the exec gets its turn; snapshots made ahead at a time.
#define RUN_PODS   32
#define WARM_NODES 32

#define FEASIBLE_DEFAULT   16
#define BINDING_TIMEOUT_NS (600 * CLOCK_NS_PER_SEC)

const struct api_kind *sched_kind(enum watched w)
{
    static const struct {
        struct str version, kind;
    } names[WATCHES] = {
        [WATCH_PODS] = {STR_INIT("v1"), STR_INIT("Pod")},
        [WATCH_NODES] = {STR_INIT("v1"), STR_INIT("Node")},
        [WATCH_NAMESPACES] = {STR_INIT("v1"), STR_INIT("Namespace")},
        [WATCH_CLAIMS] = {STR_INIT("resource.k8s.io/v1"), STR_INIT("ResourceClaim")},
        [WATCH_SLICES] = {STR_INIT("resource.k8s.io/v1"), STR_INIT("ResourceSlice")},
        [WATCH_CLASSES] = {STR_INIT("resource.k8s.io/v1"), STR_INIT("DeviceClass")},
        [WATCH_RULES] = {STR_INIT("resource.k8s.io/v1"), STR_INIT("DeviceTaintRule")},
        [WATCH_TEMPLATES] = {STR_INIT("resource.k8s.io/v1"), STR_INIT("ResourceClaimTemplate")},
        [WATCH_GROUPS] = {STR_INIT("scheduling.k8s.io/v1beta1"), STR_INIT("PodGroup")},
    };
    return api_kind_find(names[w].version, names[w].kind);
}

// Every kind that all pods need has been listed.
static bool sched_is_listed(const struct sched *s)
{
    return s->started && s->watch.synced == s->watch.n;
}

bool sched_synced(const struct sched *s)
{
    return sched_is_listed(s) && (!s->volumes.informers[0] || volumes_known(s));
}

bool sched_is_forbidden(const struct sched *s)
{
    return s->watch.forbidden;
}

static void sched_on_refused(void *arg, int code)
{
    struct sched *s = arg;
    s->watch.forbidden |= code == -ERR_FORBIDDEN;
}

// Everything is known, and it is this scheduler's turn to act on it.
static bool sched_is_acting(const struct sched *s)
{
    return sched_is_listed(s) && !s->standby;
}

bool sched_idle(const struct sched *s)
{
    return sched_is_acting(s) && queue_ready_len(&s->queue) == 0 && s->queue.binding_len == 0 &&
           list_empty(&s->writes.bindings);
}

void sched_wake(struct sched *s, uint32_t whys)
{
    s->turn.epoch++;
    queue_wake(&s->queue, whys);
}

// --- Work ----------------------------------------------------------------------------------------

// What nodes have left is looked at ahead when there is nothing better to do.
static void warm_soon(struct sched *s)
{
    bool leisure = s->standby || s->queue.active.n == 0;
    if (leisure && sched_is_listed(s) && !exec_timer_armed(&s->turn.warm_timer))
        exec_timer_start(s->exec, &s->turn.warm_timer, 0);
}

static void sched_warm_task(void *arg)
{
    struct sched *s = arg;
    if ((s->standby || s->queue.active.n == 0) && s->packing &&
        packing_warm(s->packing, WARM_NODES))
        warm_soon(s);
}

static void sched_start_run(void *arg)
{
    struct sched *s = arg;
    if (sched_is_acting(s) && !exec_timer_armed(&s->turn.run_timer))
        exec_timer_start(s->exec, &s->turn.run_timer, 0);
}

// Turns of postponed pods and of the others alternate.
static struct sched_pod *next_pod(struct sched *s)
{
    struct sched_pod *p = s->cost.active_next ? queue_pop(&s->queue) : NULL;
    if (p)
        return p;
    p = queue_pop_postponed(&s->queue);
    s->cost.active_next = p != NULL;
    return p ? p : queue_pop(&s->queue);
}

static void sched_run_task(void *arg)
{
    struct sched *s = arg;
    int64_t wait_ns = 0;
    uint64_t spent = s->cost.meter.spent;
    preempt_begin_turn(s);
    for (size_t i = 0; i < RUN_PODS && (wait_ns = beside_wait_ns(s)) == 0; i++) {
        struct sched_pod *p = next_pod(s);
        if (!p)
            break;
        cycle_run(s, p);
        if (cost_turn_over(s, spent) || preempt_turn_over(s))
            break;
    }
    cost_end_turn(s, spent);
    if (wait_ns)
        exec_timer_start(s->exec, &s->turn.run_timer, wait_ns);
    else if (queue_ready_len(&s->queue))
        sched_start_run(s);
    else
        warm_soon(s);
}

static bool sched_turn_expired(void *arg)
{
    struct sched *s = arg;
    return s->cost.expire_calls == 0 || --s->cost.expire_calls == 0;
}

// --- Pods ----------------------------------------------------------------------------------------

bool sched_is_mine(const struct sched *s, const struct api_pod *pod)
{
    if (pod->spec.node_name.n || pod->metadata.deletion_timestamp.set || pod_is_terminal(pod))
        return false;
    for (size_t i = 0; i < s->config.names.n; i++)
        if (str_eq(s->config.names.p[i], pod->spec.scheduler_name))
            return true;
    return false;
}

void sched_index_claim(struct sched *s, struct sched_pod *p, struct str key)
{
    for (size_t i = 0; i < p->claims_len; i++)
        if (str_eq(p->claims[i], key))
            return;
    struct str mine = str_make(xstrndup(key.p, key.n), key.n);
    p->claims = xreallocarray(p->claims, p->claims_len + 1, sizeof(*p->claims));
    p->claims[p->claims_len++] = mine;
    claims_pod_add(&s->claims, mine, p);
}

// special_owner is the UID of the pod that a claim was made for, to give it extended resources.
static struct str special_owner(const struct api_object_meta *meta)
{
    bool special = meta->owner_references.n && claim_is_extended(meta);
    return special ? meta->owner_references.p[0].uid : (struct str){0};
}

static void index_by_owner(const struct typed_object *o, void (*add)(void *ctx, struct str key),
                           void *ctx)
{
    struct str uid = special_owner(o->meta);
    if (uid.n)
        add(ctx, uid);
}

struct found {
    struct sched *s;
    struct sched_pod *p;
};

static void index_found(void *arg, const struct typed_object *o)
{
    const struct found *f = arg;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    sched_index_claim(f->s, f->p, sbuf_str(&key));
}

static void index_claims(struct sched *s, struct sched_pod *p)
{
    cleanup_sbuf struct sbuf key = {0};
    // Watches are not of one moment: the claim of an earlier scheduler may be seen before its pod.
    struct found found = {s, p};
    informer_by(s->watch.informers[WATCH_CLAIMS], s->watch.special_by_owner, p->api->metadata.uid,
                index_found, &found);
    for (size_t i = 0; i < p->api->spec.resource_claims.n; i++) {
        struct str name;
        bool check_owner;
        if (claim_name_of(p->api, &p->api->spec.resource_claims.p[i], &name, &check_owner) !=
            CLAIM_NAMED)
            continue;
        sbuf_clear(&key);
        sbuf_addf(&key, "%.*s/%.*s", STR_ARG(p->api->metadata.namespace), STR_ARG(name));
        sched_index_claim(s, p, sbuf_str(&key));
    }
}

static void unindex_claims(struct sched *s, struct sched_pod *p)
{
    for (size_t i = 0; i < p->claims_len; i++) {
        claims_pod_remove(&s->claims, p->claims[i], p);
        free((void *)(uintptr_t)p->claims[i].p);
    }
    free(p->claims);
    p->claims = NULL;
    p->claims_len = 0;
}

void sched_enqueue(struct sched *s, struct sched_pod *p)
{
    cleanup_sbuf struct sbuf why = {0};
    if (p->api->spec.scheduling_gates.n)
        sbuf_addf(&why, "waiting for scheduling gate %.*s",
                  STR_ARG(p->api->spec.scheduling_gates.p[0].name));
    else if (dra_gate(s, p->api, &why))
        p->group_gated = !groups_gate(p, &why);
    else
        p->group_gated = false;
    free(p->report.gate);
    p->report.gate = why.n ? xstrndup(why.p, why.n) : NULL;
    if (p->report.gate && sched_is_acting(s) && bind_leftovers(s, p))
        return; // what it has it must not keep while it waits
    if (p->report.gate && p->group && !p->group_gated && sched_is_acting(s) && gang_holds(s, p) &&
        gang_give_back(s, p->group, TAKE_ALL))
        return; // nor what its group has: it may wait for a claim that is being deleted
    if (p->group && p->group_gated && sched_is_acting(s) && gang_holds(s, p))
        queue_retry(&s->queue, p); // its group's cycle gives it back
    else if (p->report.gate)
        queue_gate(&s->queue, p);
    if (p->report.gate && !s->standby && !p->api->spec.scheduling_gates.n)
        report_gated(s, p); // the server reports the pod's own gates
    if (p->report.gate && sched_is_acting(s))
        preempt_clear(s, p); // others can have the room
    if (p->report.gate)
        return;
    if (p->group && p->group->attempts) { // its group is backing off
        p->queue.attempts = p->group->attempts;
        p->queue.tried_ns = p->group->tried_ns;
        p->queue.jitter_ns = p->group->jitter_ns;
        queue_retry(&s->queue, p);
    } else {
        queue_activate(&s->queue, p);
    }
}

uint32_t sched_room_whys(const struct sched_pod *p)
{
    return WHY_BIT(WHY_RESOURCES) | WHY_BIT(WHY_PORTS) | WHY_BIT(WHY_SPREAD) |
           WHY_BIT(WHY_POD_AFFINITY) | (volumes_used(p->api) ? WHY_BIT(WHY_VOLUMES) : 0);
}

static void pod_gone(struct sched *s, struct sched_pod *p)
{
    bool holds = p->node || p->on.nominated.node;
    uint32_t whys = holds ? sched_room_whys(p) : 0;
    cluster_nominate(&s->cluster, p, (struct str){0}); // else it would wait for itself
    struct sched_node *waited = p->node && !list_empty(&p->node->nominated) ? p->node : NULL;
    beside_gone(s, p);
    bind_pod_changed(s, p);
    queue_leave(&s->queue, p);
    list_remove(&p->report.pending);
    unindex_claims(s, p);
    groups_pod_gone(s, p);
    cluster_pod_remove(&s->cluster, p);
    if (whys)
        sched_wake(s, whys);
    if (waited)
        preempt_room(s, waited);
}

// Pods stand elsewhere, or look otherwise to those that want to be near them or far from them. What
// was found for pods that wait for other reasons still holds.
static void pods_moved(struct sched *s)
{
    uint32_t whys = WHY_BIT(WHY_SPREAD) | WHY_BIT(WHY_POD_AFFINITY);
    if (s->verdicts.epoch == s->turn.epoch && (s->verdicts.whys & whys))
        s->turn.epoch++;
    queue_wake(&s->queue, whys);
}

// The pod is on a node, or has ended.
static void pod_settled(struct sched *s, struct sched_pod *p, bool moved, bool smaller)
{
    bool finished = pod_is_terminal(p->api);
    struct str where = finished ? (struct str){0} : p->api->spec.node_name;
    if (p->state != POD_BINDING || p->api->spec.node_name.n)
        queue_leave(&s->queue, p);
    if (p->node && !str_eq(p->node->name, where)) {
        struct sched_node *waited = !list_empty(&p->node->nominated) ? p->node : NULL;
        cluster_lift(&s->cluster, p);
        sched_wake(s, sched_room_whys(p));
        if (waited)
            preempt_room(s, waited);
    }
    moved |= p->node && p->assumed; // where we put it
    p->assumed = false;
    if (where.n && !p->node) {
        cluster_place(&s->cluster, p, cluster_node(&s->cluster, where));
        moved = true;
    } else if (p->node && smaller) {
        sched_wake(s, WHY_BIT(WHY_RESOURCES));
    }
    if (moved)
        pods_moved(s);
}

static bool retry_worthy(const struct api_pod *a, const struct api_pod *b)
{
    return !api_equal(&api_pod_spec_type, &a->spec, &b->spec) ||
           a->status.resource_claim_statuses.n != b->status.resource_claim_statuses.n;
}

static bool sched_is_relabelled(const struct api_object_meta *a, const struct api_object_meta *b)
{
    if (a->labels.n != b->labels.n)
        return true;
    for (size_t i = 0; i < a->labels.n; i++)
        if (!str_eq(a->labels.p[i].key, b->labels.p[i].key) ||
            !str_eq(a->labels.p[i].value, b->labels.p[i].value))
            return true;
    return false;
}

static void pod_pending(struct sched *s, struct sched_pod *p, const struct typed_object *before)
{
    index_claims(s, p);
    if (volumes_used(p->api))
        volumes_watch(s);
    if (p->assumed && !p->binding)
        return;                 // it is bound: the watch is behind
    if (p->node && !p->assumed) // servers do not take a pod off its node; files may
        cluster_lift(&s->cluster, p);
    if (!before || p->state == POD_ELSEWHERE || p->state == POD_GATED) {
        if (p->state != POD_BINDING)
            sched_enqueue(s, p);
        return;
    }
    if (p->state == POD_WAITING && (retry_worthy(before->object.value, p->api) ||
                                    sched_is_relabelled(before->meta, &p->api->metadata)))
        queue_retry(&s->queue, p);
}

static void sched_pod_changed(void *arg, const struct typed_object *before,
                              const struct typed_object *after)
{
    struct sched *s = arg;
    const struct api_object_meta *m = after ? after->meta : before->meta;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(m->namespace), STR_ARG(m->name));
    struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
    if (p && (!after || !str_eq(p->api->metadata.uid, m->uid))) {
        pod_gone(s, p);
        p = NULL;
        before = NULL;
    }
    if (!after)
        return;
    // One that is going does not count for spread.
    bool moved = before && (sched_is_relabelled(before->meta, m) ||
                            before->meta->deletion_timestamp.set != m->deletion_timestamp.set);
    bool smaller = false;
    const struct typed_object *held = before ? typed_object_ref(before) : NULL;
    if (p)
        smaller = cluster_pod_set(&s->cluster, p, after);
    else
        p = cluster_pod_add(&s->cluster, after);
    groups_pod(s, p);
    beside_pod(s, p);
    preempt_pod_changed(s, p);
    if (sched_is_mine(s, p->api))
        pod_pending(s, p, held);
    else if (p->api->spec.node_name.n || pod_is_terminal(p->api))
        pod_settled(s, p, moved, smaller);
    else if (p->state != POD_BINDING)
        queue_leave(&s->queue, p); // being deleted, or another scheduler's
    typed_object_unref(held);
}

// --- Nodes ---------------------------------------------------------------------------------------

static bool quantities_differ(const struct api_quantity_map *a, const struct api_quantity_map *b)
{
    if (a->n != b->n)
        return true;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i].key, b->p[i].key) || quantity_cmp(&a->p[i].value, &b->p[i].value))
            return true;
    return false;
}

static bool taints_differ(const struct api_taint_array *a, const struct api_taint_array *b)
{
    if (a->n != b->n)
        return true;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i].key, b->p[i].key) || !str_eq(a->p[i].value, b->p[i].value) ||
            !str_eq(a->p[i].effect, b->p[i].effect))
            return true;
    return false;
}

static bool lists_differ(const struct api_str_array *a, const struct api_str_array *b)
{
    if (a->n != b->n)
        return true;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i], b->p[i]))
            return true;
    return false;
}

// What a change of a node can help.
static uint32_t node_helps(const struct api_node *a, const struct api_node *b)
{
    uint32_t whys = 0;
    if (sched_is_relabelled(&a->metadata, &b->metadata))
        whys |= WHY_BIT(WHY_NODE_AFFINITY) | WHY_BIT(WHY_SPREAD) | WHY_BIT(WHY_POD_AFFINITY) |
                WHY_BIT(WHY_DEVICES) | WHY_BIT(WHY_VOLUMES);
    if (taints_differ(&a->spec.taints, &b->spec.taints))
        whys |= WHY_BIT(WHY_TAINT) | WHY_BIT(WHY_SPREAD);
    if (a->spec.unschedulable != b->spec.unschedulable)
        whys |= WHY_BIT(WHY_UNSCHEDULABLE);
    if (quantities_differ(&a->status.allocatable, &b->status.allocatable))
        whys |= WHY_BIT(WHY_RESOURCES) | WHY_BIT(WHY_DEVICES);
    if (lists_differ(&a->status.declared_features, &b->status.declared_features))
        whys |= WHY_BIT(WHY_DEVICES);
    return whys;
}

static void sched_node_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct sched *s = arg;
    struct str name = after ? after->meta->name : before->meta->name;
    uint32_t whys = WHY_ALL;
    if (before && after)
        whys = node_helps(before->object.value, after->object.value);
    uint32_t index = cluster_node(&s->cluster, name)->index;
    (void)cluster_node_set(&s->cluster, name, after);
    if (whys & WHY_BIT(WHY_DEVICES))
        index_set_node(s->devices, index, name, devices_object(after));
    if (!after)
        whys = WHY_BIT(WHY_SPREAD);
    if (!after && sched_is_acting(s))
        preempt_node_gone(s, name);
    if (whys)
        sched_wake(s, whys);
    warm_soon(s);
}

static void sched_namespace_changed(void *arg, const struct typed_object *before,
                                    const struct typed_object *after)
{
    struct sched *s = arg;
    cluster_namespace_set(&s->cluster, after ? after->meta->name : before->meta->name, after);
    if (after && (!before || sched_is_relabelled(before->meta, after->meta)))
        sched_wake(s, WHY_BIT(WHY_POD_AFFINITY));
}

// --- Claims, slices, classes, rules --------------------------------------------------------------

static bool has_allocation(const struct typed_object *o)
{
    return o && ((const struct api_resource_claim *)o->object.value)->status.allocation;
}

// A pod that waits gets its turn when its claim may help it, or when a late write gave it something
// that it must not keep.
static bool worth_a_turn(struct sched *s, const struct sched_claim *k, const struct sched_pod *p)
{
    const struct api_resource_claim *claim = claims_api(k);
    if (claim &&
        (claim_is_reserved_for(claim, p->api->metadata.uid) || dra_is_special(claim, p->api)))
        return true;
    cleanup_sbuf struct sbuf why = {0};
    return (p->queue.whys & WHY_BIT(WHY_DEVICES)) && dra_gate(s, p->api, &why);
}

static void claim_users(struct sched *s, struct sched_claim *k, bool news)
{
    for (size_t i = k->pods.n; i-- > 0;) {
        struct sched_pod *p = k->pods.p[i];
        if (p->state == POD_GATED)
            sched_enqueue(s, p);
        else if (p->state == POD_WAITING && news && worth_a_turn(s, k, p))
            queue_retry(&s->queue, p);
    }
}

static void index_special(struct sched *s, const struct typed_object *after, struct sched_claim *k)
{
    cleanup_sbuf struct sbuf key = {0};
    struct str uid = special_owner(after->meta);
    if (!uid.n)
        return;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(after->meta->namespace),
              STR_ARG(after->meta->owner_references.p[0].name));
    struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
    if (p && str_eq(p->api->metadata.uid, uid))
        sched_index_claim(s, p, k->key);
}

static bool status_changed(const struct typed_object *before, const struct typed_object *after)
{
    const struct api_resource_claim *a = before->object.value;
    const struct api_resource_claim *b = after->object.value;
    return !api_equal(&api_resource_claim_status_type, &a->status, &b->status);
}

static void sched_claim_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct sched *s = arg;
    bool listing = informer_revision(s->watch.informers[WATCH_CLAIMS]) == 0;
    struct sched_claim *k = claims_seen(&s->claims, before, after, listing);
    if (k && after)
        index_special(s, after, k);
    if (has_allocation(before) && !has_allocation(after)) {
        beside_freed(s);
        sched_wake(s, WHY_BIT(WHY_DEVICES));
    }
    if (!k || !k->pods.n)
        return;
    bool news = !before || (after && status_changed(before, after));
    if (news)
        s->turn.epoch++; // verdicts about pods with this claim may be stale
    struct str key = k->key;
    claim_users(s, k, news);
    struct sched_claim **still = map_get(&s->claims.by_key, key);
    if (still)
        bind_claim_changed(s, *still);
}

static void sched_slice_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct sched *s = arg;
    index_set_slice(s->devices, devices_object(before), devices_object(after));
    if (after)
        sched_wake(s, WHY_BIT(WHY_DEVICES));
    else
        s->turn
            .epoch++; // as in Kubernetes no pod is woken, but a pool may be complete for new ones
    warm_soon(s);
}

static void sched_class_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct sched *s = arg;
    index_set_class(s->devices, devices_object(before), devices_object(after));
    s->verdicts.classes++;
    extended_rebuild(s);
    sched_wake(s, WHY_BIT(WHY_DEVICES) | WHY_BIT(WHY_RESOURCES));
}

static void sched_rule_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct sched *s = arg;
    if (!features_on(&s->config.features, FEATURE_DRA_DEVICE_TAINT_RULES))
        return;
    index_set_rule(s->devices, devices_object(before), devices_object(after));
    sched_wake(s, WHY_BIT(WHY_DEVICES));
}

// --- Life ----------------------------------------------------------------------------------------

static void begin_acting(struct sched *s)
{
    // Pods were looked at before all claims were known, or while others acted.
    map_foreach(&s->cluster.pods, i) {
        struct sched_pod *p = *map_value(&s->cluster.pods, i);
        if (p->state == POD_GATED)
            sched_enqueue(s, p);
    }
    exec_timer_start(s->exec, &s->turn.run_timer, 0);
}

static void sched_on_synced(void *arg)
{
    struct sched *s = arg;
    if (++s->watch.synced < s->watch.n)
        return;
    if (s->standby)
        warm_soon(s);
    else
        begin_acting(s);
}

void sched_lead(struct sched *s)
{
    assert(s->standby);
    s->standby = false;
    if (sched_is_listed(s))
        begin_acting(s);
}

// Kinds whose gate is off are not watched: the server does not serve them.
static bool sched_is_wanted(const struct sched *s, enum watched w)
{
    if (w == WATCH_RULES)
        return features_on(&s->config.features, FEATURE_DRA_DEVICE_TAINT_RULES);
    return w != WATCH_GROUPS || s->config.groups_on;
}

static void set_names(struct sched *s, const struct sched_options *o)
{
    static const struct str own = STR_INIT("dray");
    const struct str *names = o->names_len ? o->names : &own;
    size_t n = o->names_len ? o->names_len : 1;
    for (size_t i = 0; i < n; i++) {
        struct str name = str_make(xstrndup(names[i].p, names[i].n), names[i].n);
        vec_push(&s->config.names, name);
    }
}

struct sched *sched_new(const struct sched_options *options)
{
    struct sched *s = xcalloc(1, sizeof(*s));
    s->client = options->client;
    s->exec = options->client->exec;
    s->config.policy = options->policy;
    s->config.preemption = options->preemption;
    s->turn.epoch = 1;
    s->config.binding_timeout_ns =
        options->binding_timeout_ns ? options->binding_timeout_ns : BINDING_TIMEOUT_NS;
    s->cost.budget = options->selector_budget ? options->selector_budget : COST_BUDGET_DEFAULT;
    s->config.feasible_max = options->feasible_max ? options->feasible_max : FEASIBLE_DEFAULT;
    if (options->features)
        s->config.features = *options->features;
    else
        features_init(&s->config.features, FEATURES_MINOR);
    s->config.alloc_features = alloc_features_of(&s->config.features);
    set_names(s, options);
    s->standby = options->standby;
    s->beside.settle_ns = options->settle_ns;
    s->config.groups_on = features_on(&s->config.features, FEATURE_GENERIC_WORKLOAD);
    s->config.group_claims = s->config.groups_on &&
                             features_on(&s->config.features, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS);
    list_init(&s->writes.bindings);
    list_init(&s->writes.gangs);
    list_init(&s->writes.takes);
    groups_init(s);
    volumes_init(s);
    preempt_init(s);
    list_init(&s->writes.calls);
    report_init(s);
    cluster_init(&s->cluster);
    s->devices = devices_new(&s->config.alloc_features, s->config.policy);
    claims_init(&s->claims, s->devices);
    queue_init(&s->queue, s->exec, sched_start_run, s);
    struct alloc_options solving = {.policy = s->config.policy,
                                    .rng = s->exec->rng,
                                    .expired = sched_turn_expired,
                                    .expired_arg = s,
                                    .meter = &s->cost.meter};
    if (s->config.policy == ALLOC_PACK) {
        s->packing = packing_new(s);
        solving.loss = fleet_loss;
        solving.loss_arg = packing_fleet(s->packing);
    }
    s->solver = alloc_solver_new(&solving);
    s->turn.run_timer = (struct exec_timer){.fn = sched_run_task, .arg = s};
    s->turn.warm_timer = (struct exec_timer){.fn = sched_warm_task, .arg = s};
    s->recorder = events_recorder_new(
        &(struct event_recorder_options){.client = s->client, .component = s->config.names.p[0]});
    return s;
}

static void claim_never_seen(void *arg, struct sched_claim *k)
{
    bind_claim_changed(arg, k);
}

static void claims_came_to(void *arg, uint64_t revision)
{
    struct sched *s = arg;
    if (s->claims.unseen.n && claims_advance(&s->claims, revision, claim_never_seen, s))
        sched_wake(s, WHY_BIT(WHY_DEVICES));
    bind_claims_listed(s);
}

static void pods_came_to(void *arg, uint64_t revision)
{
    (void)revision;
    gang_take_pods_advanced(arg);
}

static void sched_group_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    groups_set(arg, before, after);
}

void sched_start(struct sched *s)
{
    static void (*const changed[WATCHES])(void *, const struct typed_object *,
                                          const struct typed_object *) = {
        [WATCH_PODS] = sched_pod_changed,
        [WATCH_NODES] = sched_node_changed,
        [WATCH_NAMESPACES] = sched_namespace_changed,
        [WATCH_CLAIMS] = sched_claim_changed,
        [WATCH_SLICES] = sched_slice_changed,
        [WATCH_CLASSES] = sched_class_changed,
        [WATCH_RULES] = sched_rule_changed,
        [WATCH_GROUPS] = sched_group_changed,
    };
    assert(!s->started);
    s->started = true;
    for (enum watched w = 0; w < WATCHES; w++) {
        if (!sched_is_wanted(s, w))
            continue;
        s->watch.n++;
        s->watch.informers[w] =
            informer_new(&(struct informer_options){.client = s->client, .kind = sched_kind(w)});
        informer_add_handler(s->watch.informers[w],
                             &(struct informer_handler){.changed = changed[w],
                                                        .synced = sched_on_synced,
                                                        .refused = sched_on_refused,
                                                        .progress = w == WATCH_CLAIMS
                                                                        ? claims_came_to
                                                                    : w == WATCH_PODS ? pods_came_to
                                                                                      : NULL,
                                                        .arg = s});
    }
    s->watch.special_by_owner =
        informer_add_index(s->watch.informers[WATCH_CLAIMS], index_by_owner);
    for (size_t w = 0; w < WATCHES; w++)
        if (s->watch.informers[w])
            informer_start(s->watch.informers[w]);
    owners_watch(s);
    preempt_start(s);
}

static void sched_stop_all(struct sched *s)
{
    exec_timer_stop(s->exec, &s->turn.run_timer);
    exec_timer_stop(s->exec, &s->turn.warm_timer);
    exec_timer_stop(s->exec, &s->report.timer);
    for (int w = 0; w < WATCHES; w++)
        if (s->watch.informers[w])
            informer_free(s->watch.informers[w]);
    bind_drop_all(s);
    owners_done(s);
    preempt_done(s);
    volumes_done(s);
    list_foreach(&s->writes.calls, node) {
        struct call *c = list_entry(node, struct call, node);
        list_remove(&c->node);
        c->s = NULL;
    }
    queue_done(&s->queue);
    meter_done(&s->meter);
    alloc_solver_free(s->solver);
    packing_free(s->packing);
    events_recorder_free(s->recorder);
    // Claims let go of devices, not devices of claims.
    claims_done(&s->claims);
    index_free(s->devices);
    groups_done(s);
    cluster_done(&s->cluster);
    map_foreach(&s->extended, i)
        free((void *)(uintptr_t)map_key(&s->extended, i).p);
    map_done(&s->extended);
    for (size_t i = 0; i < VERDICTS_MAX; i++)
        free(s->verdicts.all[i].message);
    vec_foreach(&s->config.names, n)
        free((void *)(uintptr_t)n->p);
    vec_done(&s->config.names);
    arena_done(&s->turn.arena);
    free(s);
}

void sched_free(struct sched *s)
{
    if (s)
        sched_stop_all(s);
}

void sched_get_stats(const struct sched *s, struct sched_stats *ret)
{
    *ret = s->stats;
    ret->selector_cost = s->cost.meter.spent;
    ret->selector_evaluations = s->cost.meter.evaluations;
    ret->active = queue_ready_len(&s->queue);
    ret->backing_off = s->queue.backoff.n;
    ret->waiting = s->queue.waiting_len;
    ret->gated = s->queue.gated_len;
    ret->binding = s->queue.binding_len;
    ret->dry_runs = s->preempt.dry_runs;
}

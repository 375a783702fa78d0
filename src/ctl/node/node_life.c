// SPDX-License-Identifier: Apache-2.0
//
// Nodes whose kubelet is silent: conditions become Unknown, taints keep new pods away and end old
// ones, pods are marked as not ready (README.md, Nodes and drivers).
#include <stdlib.h>

#include "api/match/taint.h"
#include "base/map.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

// kube-controller-manager's --node-monitor-grace-period.
#define GRACE_NS (50 * CLOCK_NS_PER_SEC)

// When a node was last heard of, on our clock.
struct heard {
    char *name;
    int64_t at_ns;
    bool silent; // the server has no newer Lease than we: it is not we who are deaf
};
struct heard_map MAP(struct heard);

struct node_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct heard_map heard;
    size_t by_node; // index of pods
};

// --- Conditions ----------------------------------------------------------------------------------

static const struct api_node_condition *node_life_condition_of(const struct api_node *node,
                                                               const char *type)
{
    for (size_t i = 0; i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, type))
            return &node->status.conditions.p[i];
    return NULL;
}

static bool node_life_is(const struct api_node *node, const char *type, const char *status)
{
    const struct api_node_condition *c = node_life_condition_of(node, type);
    return c && str_eqz(c->status, status);
}

static const struct typed_object *node_life_lease_of(const struct node_ctl *n, struct str node)
{
    return ctl_find(n->ctl, CACHE_LEASES, STR("kube-node-lease"), node);
}

static void lease_answered(const struct ctl_call *call, const struct client_answer *a)
{
    struct node_ctl *n = call->owner;
    struct heard *heard = map_get(&n->heard, call->key);
    const struct typed_object *known = node_life_lease_of(n, call->key);
    if (heard && known && a->code == 0 && a->object->revision == known->revision)
        heard->silent = true;
}

// ask_for_lease: a controller that was cut off or stopped for a while has heard of no node. So the
// server is asked; if its Lease is newer, the cache has to see that first.
static void ask_for_lease(struct node_ctl *n, struct str key)
{
    const struct client_key at = {ctl_kind(CACHE_LEASES), STR("kube-node-lease"), key};
    struct ctl_call *call = ctl_call_new(&n->calls, n->work, key, CACHE_LEASES);
    call->ended = lease_answered;
    call->owner = n;
    client_get(n->ctl->client, &at, ctl_call_done, call);
}

static void mark_unknown(struct node_ctl *n, struct str key, const struct typed_object *o)
{
    static const char *const kubelets[] = {"Ready", "MemoryPressure", "DiskPressure",
                                           "PIDPressure"};
    cleanup_arena struct arena arena = {0};
    struct api_node changed = *as_node(o);
    const struct api_node_condition_array old = changed.status.conditions;
    struct api_node_condition *all = arena_array(&arena, struct api_node_condition, old.n);
    for (size_t i = 0; i < old.n; i++) {
        all[i] = old.p[i];
        for (size_t k = 0; k < array_len(kubelets); k++)
            if (str_eqz(all[i].type, kubelets[k]) && !str_eqz(all[i].status, "Unknown")) {
                all[i].status = STR("Unknown");
                all[i].reason = STR("NodeStatusUnknown");
                all[i].message = STR("Kubelet stopped posting node status.");
                all[i].last_transition_time = ctl_now(n->ctl);
            }
    }
    changed.status.conditions = (struct api_node_condition_array){all, old.n};
    const struct api_object object = {o->object.kind, &changed};
    const struct client_write how = {.subresource = STR("status")};
    events_record(n->ctl->events, o, EVENT_NORMAL, STR("NodeNotReady"),
                  STR("Node status is now: NodeNotReady"));
    client_update(n->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&n->calls, n->work, key, CACHE_NODES));
}

// --- Taints --------------------------------------------------------------------------------------

// What taints a node, each with these effects.
static const struct {
    const char *key, *condition, *status;
    bool evicts;
} rules[] = {
    {"node.kubernetes.io/not-ready", "Ready", "False", true},
    {"node.kubernetes.io/unreachable", "Ready", "Unknown", true},
    {"node.kubernetes.io/memory-pressure", "MemoryPressure", "True", false},
    {"node.kubernetes.io/disk-pressure", "DiskPressure", "True", false},
    {"node.kubernetes.io/pid-pressure", "PIDPressure", "True", false},
    {"node.kubernetes.io/network-unavailable", "NetworkUnavailable", "True", false},
    {"node.kubernetes.io/unschedulable", NULL, NULL, false},
};

static bool node_life_holds(const struct api_node *node, size_t rule)
{
    return rules[rule].condition ? node_life_is(node, rules[rule].condition, rules[rule].status)
                                 : node->spec.unschedulable;
}

static size_t rule_of(const struct api_taint *t)
{
    size_t i = 0;
    while (i < array_len(rules) &&
           !(str_eqz(t->key, rules[i].key) && (str_eqz(t->effect, TAINT_NO_SCHEDULE) ||
                                               (rules[i].evicts && taint_is_evicting(t->effect)))))
        i++;
    return i;
}

static bool has_taint(const struct api_taint *all, size_t n, const char *key, const char *effect)
{
    for (size_t i = 0; i < n; i++)
        if (str_eqz(all[i].key, key) && str_eqz(all[i].effect, effect))
            return true;
    return false;
}

// taint_node writes the taints that follow from conditions; those of others stay. True: a write is
// under way.
static bool taint_node(struct node_ctl *n, struct str key, const struct typed_object *o)
{
    static const char *const effects[] = {TAINT_NO_SCHEDULE, TAINT_NO_EXECUTE};
    cleanup_arena struct arena arena = {0};
    struct api_node changed = *as_node(o);
    const struct api_taint_array old = changed.spec.taints;
    struct api_taint *all = arena_array(&arena, struct api_taint, old.n + 2 * array_len(rules));
    size_t count = 0;
    bool differs = false;
    for (size_t i = 0; i < old.n; i++) {
        size_t rule = rule_of(&old.p[i]);
        if (rule == array_len(rules) || node_life_holds(&changed, rule))
            all[count++] = old.p[i];
        else
            differs = true;
    }
    for (size_t r = 0; r < array_len(rules); r++)
        for (size_t e = 0; e < (rules[r].evicts ? 2U : 1U); e++) {
            if (!node_life_holds(&changed, r) || has_taint(all, count, rules[r].key, effects[e]))
                continue;
            all[count++] = (struct api_taint){.key = str_z(rules[r].key),
                                              .effect = str_z(effects[e]),
                                              .time_added = ctl_now(n->ctl)};
            differs = true;
        }
    if (!differs)
        return false;
    changed.spec.taints = (struct api_taint_array){count > 0 ? all : NULL, count};
    const struct api_object object = {o->object.kind, &changed};
    client_update(n->ctl->client, &object, NULL, ctl_call_done,
                  ctl_call_new(&n->calls, n->work, key, CACHE_NODES));
    return true;
}

// --- Pods ----------------------------------------------------------------------------------------

static void node_life_index_node(const struct typed_object *o,
                                 void (*add)(void *ctx, struct str key), void *ctx)
{
    if (as_pod(o)->spec.node_name.n)
        add(ctx, as_pod(o)->spec.node_name);
}

static void find_ready(void *arg, const struct typed_object *o)
{
    const struct typed_object **found = arg;
    if (!*found && load_is_ready(as_pod(o)))
        *found = o;
}

// Pods of a node that does not report cannot be relied on.
static bool unready_pod(struct node_ctl *n, struct str key)
{
    const struct typed_object *pod = NULL;
    informer_by(n->ctl->caches[CACHE_PODS], n->by_node, key, find_ready, &pod);
    if (!pod)
        return false;
    cleanup_sbuf struct sbuf patch = {0}, now = {0};
    rfc3339_write_seconds(ctl_now(n->ctl).at, &now);
    sbuf_addf(&patch,
              "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":\"Ready\","
              "\"status\":\"False\",\"reason\":\"NodeNotReady\",\"lastTransitionTime\":\"%s\"}]}}",
              STR_ARG(pod->meta->uid), now.p);
    const struct client_key at = {pod->object.kind, pod->meta->namespace, pod->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(n->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&patch), &how, ctl_call_done,
                 ctl_call_new(&n->calls, n->work, key, CACHE_PODS));
    return true;
}

// --- Steps ---------------------------------------------------------------------------------------

static void node_life_step_key(void *arg, struct str key)
{
    struct node_ctl *n = arg;
    if (!ctl_synced(n->ctl)) {
        work_retry(n->work, key);
        return;
    }
    const struct typed_object *o = ctl_find(n->ctl, CACHE_NODES, STR(""), key);
    const struct heard *heard = map_get(&n->heard, key);
    int64_t left_ns = heard ? heard->at_ns + GRACE_NS - exec_now_ns(n->ctl->exec) : INT64_MAX;
    if (!o || !node_life_condition_of(as_node(o), "Ready")) {
        work_done(n->work, key);
        return;
    }
    if (left_ns <= 0 && !node_life_is(as_node(o), "Ready", "Unknown")) {
        if (heard->silent)
            mark_unknown(n, key, o);
        else
            ask_for_lease(n, key);
        return;
    }
    if (taint_node(n, key, o) ||
        (node_life_is(as_node(o), "Ready", "Unknown") && unready_pod(n, key)))
        return;
    if (left_ns == INT64_MAX || left_ns <= 0)
        work_done(n->work, key);
    else
        work_again(n->work, key, left_ns);
}

static void node_life_node_changed(void *arg, const struct typed_object *before,
                                   const struct typed_object *after)
{
    struct node_ctl *n = arg;
    work_add(n->work, (after ? after : before)->meta->name);
}

static void node_life_lease_changed(void *arg, const struct typed_object *before,
                                    const struct typed_object *after)
{
    struct node_ctl *n = arg;
    const struct api_object_meta *meta = (after ? after : before)->meta;
    if (!str_eqz(meta->namespace, "kube-node-lease"))
        return;
    struct heard *h = map_get(&n->heard, meta->name);
    bool late = h && exec_now_ns(n->ctl->exec) - h->at_ns >= GRACE_NS;
    if (!after && h) { // a node without a Lease is not judged
        char *name = h->name;
        map_del(&n->heard, meta->name);
        free(name);
    } else if (after) {
        char *name = h ? h->name : xstrndup(meta->name.p, meta->name.n);
        *map_put(&n->heard, str_make(name, meta->name.n)) =
            (struct heard){.name = name, .at_ns = exec_now_ns(n->ctl->exec)};
    }
    // A node that is well needs no look at each renewal: its next one is due in the grace period
    // anyway.
    const struct typed_object *o = ctl_find(n->ctl, CACHE_NODES, STR(""), meta->name);
    if (!h || late || !after || !o || !node_life_is(as_node(o), "Ready", "True"))
        work_add(n->work, meta->name);
}

static void node_life_pod_changed(void *arg, const struct typed_object *before,
                                  const struct typed_object *after)
{
    struct node_ctl *n = arg;
    (void)before;
    if (!after || !as_pod(after)->spec.node_name.n || !load_is_ready(as_pod(after)))
        return;
    const struct typed_object *o =
        ctl_find(n->ctl, CACHE_NODES, STR(""), as_pod(after)->spec.node_name);
    if (o && node_life_is(as_node(o), "Ready", "Unknown"))
        work_add(n->work, as_pod(after)->spec.node_name);
}

struct node_ctl *node_ctl_new(struct ctl *ctl)
{
    struct node_ctl *n = xcalloc(1, sizeof(*n));
    n->ctl = ctl;
    n->work = ctl_work(ctl, "node_lifecycle_controller", node_life_step_key, n);
    list_init(&n->calls);
    n->by_node = informer_add_index(ctl->caches[CACHE_PODS], node_life_index_node);
    ctl_watch(ctl, CACHE_NODES, node_life_node_changed, n, n->work);
    ctl_watch(ctl, CACHE_LEASES, node_life_lease_changed, n, n->work);
    ctl_watch(ctl, CACHE_PODS, node_life_pod_changed, n, n->work);
    return n;
}

void node_ctl_free(struct node_ctl *n)
{
    if (!n)
        return;
    ctl_calls_drop(&n->calls);
    work_free(n->work);
    map_foreach(&n->heard, i)
        free(map_value(&n->heard, i)->name);
    map_done(&n->heard);
    free(n);
}

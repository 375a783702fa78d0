// SPDX-License-Identifier: Apache-2.0
//
// Pods that no other controller removes (docs/design/controllers.md, Pods that are left over):
// bound to a node that is gone, being deleted on a node that is out of service, being deleted
// before they were bound, and those that are over when there are too many of them. They are marked
// Failed, then deleted without grace.
#include <assert.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/map.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

#define SWEEP_KEY      "/" // no pod has it: too many pods are over
#define OUT_OF_SERVICE "node.kubernetes.io/out-of-service"

// A node may be missing for a moment only: it registers again, or the cache is behind.
enum { QUARANTINE_S = 40 };

// A pod whose node is not there.
struct orphan {
    char *key;
    char *uid;
    int64_t since_ns; // on our clock
    bool confirmed;   // the server has confirmed it
};
struct orphan_map MAP(struct orphan);

struct pod_gc {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct orphan_map orphans; // by NAMESPACE/NAME
    size_t by_node;            // index of pods
    int64_t limit;             // of pods that are over; 0: none
    int64_t over;              // that many are
    int64_t surplus;           // of those the last sweep chose, still to be deleted
};

enum verdict { STAYS, IS_ORPHAN, IS_LEFT, IS_SURPLUS };

// --- Orphans -------------------------------------------------------------------------------------

static void forget_orphan(struct pod_gc *g, struct str key)
{
    struct orphan *found = map_get(&g->orphans, key);
    if (!found)
        return;
    struct orphan o = *found;
    map_del(&g->orphans, key);
    free(o.key);
    free(o.uid);
}

// orphan_of finds or begins the quarantine of a pod; of another pod that had its name it is not.
static struct orphan *orphan_of(struct pod_gc *g, struct str key, struct str uid)
{
    struct orphan *o = map_get(&g->orphans, key);
    if (o && str_eqz(uid, o->uid))
        return o;
    forget_orphan(g, key);
    char *copy = xstrndup(key.p, key.n);
    o = map_put(&g->orphans, str_make(copy, key.n));
    *o = (struct orphan){copy, xstrndup(uid.p, uid.n), exec_now_ns(g->ctl->exec), false};
    return o;
}

static void pod_gc_node_answered(void *owner, struct str key, const struct client_answer *a)
{
    struct pod_gc *g = owner;
    struct orphan *o = map_get(&g->orphans, key);
    if (a->code == -ERR_NOT_FOUND && o) {
        o->confirmed = true;
        work_add(g->work, key);
    }
}

// wait_for_node ends a step while it is not certain that the node is gone. False: it is.
static bool wait_for_node(struct pod_gc *g, struct str key, const struct api_pod *pod)
{
    const struct orphan *o = orphan_of(g, key, pod->metadata.uid);
    int64_t left = o->since_ns + QUARANTINE_S * CLOCK_NS_PER_SEC - exec_now_ns(g->ctl->exec);
    if (left > 0) {
        work_again(g->work, key, left);
        return true;
    }
    if (o->confirmed)
        return false;
    const struct client_key node = {ctl_kind(CACHE_NODES), STR(""), pod->spec.node_name};
    struct ctl_call *call = ctl_call_new(&g->calls, g->work, key, CACHE_NODES);
    call->failed = pod_gc_node_answered;
    call->owner = g;
    client_get(g->ctl->client, &node, ctl_call_done, call);
    return true;
}

// --- Who goes ------------------------------------------------------------------------------------

static bool is_out_of_service(const struct api_node *node)
{
    bool marked = false;
    for (size_t i = 0; i < node->spec.taints.n; i++)
        marked |= str_eqz(node->spec.taints.p[i].key, OUT_OF_SERVICE);
    for (size_t i = 0; marked && i < node->status.conditions.n; i++)
        if (str_eqz(node->status.conditions.p[i].type, "Ready"))
            return !str_eqz(node->status.conditions.p[i].status, "True");
    return marked;
}

static enum verdict pod_gc_judge_pod(const struct pod_gc *g, const struct api_pod *pod)
{
    bool deleted = pod->metadata.deletion_timestamp.set;
    if (pod->spec.node_name.n) {
        const struct api_node *node =
            maybe_node(ctl_find(g->ctl, CACHE_NODES, STR(""), pod->spec.node_name));
        if (!node)
            return IS_ORPHAN;
        if (deleted && is_out_of_service(node))
            return IS_LEFT;
    } else if (deleted) {
        return IS_LEFT;
    }
    return pod_is_terminal(pod) && g->surplus > 0 ? IS_SURPLUS : STAYS;
}

// is_dismissed: deleted without grace already; only finalizers hold it.
static bool is_dismissed(const struct api_pod *pod)
{
    return pod->metadata.deletion_timestamp.set &&
           pod->metadata.has_deletion_grace_period_seconds &&
           pod->metadata.deletion_grace_period_seconds == 0;
}

// --- Writes --------------------------------------------------------------------------------------

static void fail_pod(struct pod_gc *g, struct str key, const struct typed_object *o, bool orphan)
{
    cleanup_sbuf struct sbuf patch = {0}, now = {0};
    rfc3339_write_seconds(ctl_now(g->ctl).at, &now);
    sbuf_addf(&patch,
              "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"phase\":\"Failed\","
              "\"observedGeneration\":%lld",
              STR_ARG(o->meta->uid), (long long)o->meta->generation);
    if (orphan)
        sbuf_addf(&patch,
                  ",\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\","
                  "\"observedGeneration\":%lld,\"reason\":\"DeletionByPodGC\",\"message\":"
                  "\"PodGC: node no longer exists\",\"lastTransitionTime\":\"%s\"}]",
                  (long long)o->meta->generation, now.p);
    sbuf_addz(&patch, "}}");
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(g->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&patch), &how, ctl_call_done,
                 ctl_call_new(&g->calls, g->work, key, CACHE_PODS));
}

static void pod_gc_delete_pod(struct pod_gc *g, struct str key, const struct typed_object *o)
{
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same,
                                               .has_grace_period_seconds = true};
    client_delete(g->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&g->calls, g->work, key, CACHE_PODS));
}

// --- Too many ------------------------------------------------------------------------------------

struct over VEC(const struct typed_object *);

static void gather_over(void *arg, const struct typed_object *o)
{
    struct over *list = arg;
    if (pod_is_terminal(as_pod(o)) && !is_dismissed(as_pod(o)))
        vec_push(list, o);
}

static bool is_evicted(const struct api_pod *pod)
{
    return str_eqz(pod->status.phase, "Failed") && str_eqz(pod->status.reason, "Evicted");
}

// Evicted ones first: pods that controllers made are counted by them. Then the oldest.
static int compare_over(const void *a, const void *b)
{
    const struct api_pod *x = as_pod(*(const struct typed_object *const *)a);
    const struct api_pod *y = as_pod(*(const struct typed_object *const *)b);
    if (is_evicted(x) != is_evicted(y))
        return is_evicted(x) ? -1 : 1;
    int64_t at_x = x->metadata.creation_timestamp.at.sec;
    int64_t at_y = y->metadata.creation_timestamp.at.sec;
    if (at_x != at_y)
        return at_x < at_y ? -1 : 1;
    return str_cmp(x->metadata.name, y->metadata.name);
}

static void pod_gc_add_pod(void *arg, const struct typed_object *o)
{
    struct pod_gc *g = arg;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    work_add(g->work, sbuf_str(&key));
}

static void pod_gc_sweep_terminated(struct pod_gc *g)
{
    struct over list = {0};
    informer_foreach(g->ctl->caches[CACHE_PODS], gather_over, &list);
    g->surplus = g->limit > 0 ? (int64_t)list.n - g->limit : 0;
    if (g->surplus > 0)
        qsort(list.p, list.n, sizeof(*list.p), compare_over);
    for (int64_t i = 0; i < g->surplus; i++)
        pod_gc_add_pod(g, list.p[i]);
    vec_done(&list);
}

// --- Steps ---------------------------------------------------------------------------------------

static void remove_pod(struct pod_gc *g, struct str key, const struct typed_object *o,
                       enum verdict why)
{
    const struct api_pod *pod = as_pod(o);
    if (why == IS_ORPHAN && wait_for_node(g, key, pod))
        return;
    if (!pod_is_terminal(pod)) {
        fail_pod(g, key, o, why == IS_ORPHAN);
    } else if (is_dismissed(pod)) {
        work_done(g->work, key);
    } else {
        g->surplus -= why == IS_SURPLUS;
        pod_gc_delete_pod(g, key, o);
    }
}

static void pod_gc_step_key(void *arg, struct str key)
{
    struct pod_gc *g = arg;
    if (!ctl_synced(g->ctl)) {
        work_retry(g->work, key);
        return;
    }
    if (str_eqz(key, SWEEP_KEY)) {
        pod_gc_sweep_terminated(g);
        work_done(g->work, key);
        return;
    }
    struct str namespace, name;
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = ctl_find(g->ctl, CACHE_PODS, namespace, name);
    enum verdict why = o ? pod_gc_judge_pod(g, as_pod(o)) : STAYS;
    if (why != IS_ORPHAN)
        forget_orphan(g, key);
    if (why == STAYS)
        work_done(g->work, key);
    else
        remove_pod(g, key, o, why);
}

// --- What changed --------------------------------------------------------------------------------

static void pod_gc_pod_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct pod_gc *g = arg;
    assert(before || after);
    bool was_over = before && pod_is_terminal(as_pod(before));
    bool is_over = after && pod_is_terminal(as_pod(after));
    g->over += (int64_t)is_over - (int64_t)was_over;
    if (is_over && !was_over && g->limit > 0 && g->over > g->limit)
        work_add(g->work, STR(SWEEP_KEY));
    const struct typed_object *o = after ? after : before;
    bool was_bound = before && as_pod(before)->spec.node_name.n;
    // A surplus is looked at when the sweep asks for it.
    if (o->meta->deletion_timestamp.set || !after ||
        (as_pod(after)->spec.node_name.n && !was_bound))
        pod_gc_add_pod(g, o);
}

static void pod_gc_node_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct pod_gc *g = arg;
    assert(before || after);
    if (!before || !after || is_out_of_service(as_node(after)))
        informer_by(g->ctl->caches[CACHE_PODS], g->by_node, (after ? after : before)->meta->name,
                    pod_gc_add_pod, g);
}

struct pod_gc *pod_gc_new(struct ctl *ctl, int64_t limit)
{
    struct pod_gc *g = xcalloc(1, sizeof(*g));
    g->ctl = ctl;
    g->limit = limit;
    g->work = ctl_work(ctl, "orphaned_pods_nodes", pod_gc_step_key, g);
    list_init(&g->calls);
    g->by_node = informer_add_index(ctl->caches[CACHE_PODS], ctl_index_pod_node);
    ctl_watch(ctl, CACHE_PODS, pod_gc_pod_changed, g, g->work);
    ctl_watch(ctl, CACHE_NODES, pod_gc_node_changed, g, g->work);
    return g;
}

void pod_gc_free(struct pod_gc *g)
{
    if (!g)
        return;
    ctl_calls_drop(&g->calls);
    work_free(g->work);
    map_foreach(&g->orphans, i) {
        free(map_value(&g->orphans, i)->key);
        free(map_value(&g->orphans, i)->uid);
    }
    map_done(&g->orphans);
    free(g);
}

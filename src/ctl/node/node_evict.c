// SPDX-License-Identifier: Apache-2.0
//
// Taint eviction: pods leave nodes with NoExecute taints that they do not tolerate, or no longer.
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/taint.h"
#include "base/map.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

// A pod on a node with a taint that it tolerates for a while, and when it was first seen there.
// People's taints do not say since when they are.
struct tolerant {
    char *key;
    char *uid;
    int64_t since; // seconds of the wall clock
};
struct tolerant_map MAP(struct tolerant);

struct evict_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct tolerant_map tolerant; // by NAMESPACE/NAME
    size_t by_node;               // index of pods
};

static void node_evict_forget_pod(struct evict_ctl *e, struct str key)
{
    struct tolerant *found = map_get(&e->tolerant, key);
    if (!found)
        return;
    struct tolerant t = *found;
    map_del(&e->tolerant, key);
    free(t.key);
    free(t.uid);
}

// seen_since is when a pod was first seen with such a taint: now, if it was not.
static int64_t seen_since(struct evict_ctl *e, struct str key, struct str uid)
{
    struct tolerant *t = map_get(&e->tolerant, key);
    if (t && str_eqz(uid, t->uid))
        return t->since;
    node_evict_forget_pod(e, key);
    char *copy = xstrndup(key.p, key.n);
    t = map_put(&e->tolerant, str_make(copy, key.n));
    *t = (struct tolerant){copy, xstrndup(uid.p, uid.n), ctl_now(e->ctl).at.sec};
    return t->since;
}

// node_evict_due is when a pod must go, in seconds of the wall clock; INT64_MAX: never. Taints that
// do not say when they came count from seen.
static int64_t node_evict_due(const struct evict_ctl *e, const struct api_pod *pod, int64_t seen)
{
    const struct api_node *node =
        maybe_node(ctl_find(e->ctl, CACHE_NODES, STR(""), pod->spec.node_name));
    int64_t first = INT64_MAX;
    for (size_t i = 0; node && i < node->spec.taints.n; i++) {
        const struct api_taint *t = &node->spec.taints.p[i];
        int64_t seconds;
        if (!taint_is_evicting(t->effect) || !taint_evicts(&pod->spec.tolerations, t, &seconds))
            continue;
        int64_t since = t->time_added.set ? t->time_added.at.sec : seen, at;
        if (!__builtin_add_overflow(since, seconds, &at) && at < first)
            first = at;
    }
    return first;
}

static void node_evict_mark(struct evict_ctl *e, struct str key, const struct typed_object *o)
{
    cleanup_sbuf struct sbuf patch = {0}, now = {0}, text = {0};
    rfc3339_write_seconds(ctl_now(e->ctl).at, &now);
    sbuf_addf(&patch,
              "{\"metadata\":{\"uid\":\"%.*s\"},\"status\":{\"conditions\":[{\"type\":"
              "\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"DeletionByTaintManager\","
              "\"message\":\"Taint manager: deleting due to NoExecute taint\","
              "\"lastTransitionTime\":\"%s\"}]}}",
              STR_ARG(o->meta->uid), now.p);
    sbuf_addf(&text, "Marking for deletion Pod %.*s", STR_ARG(key));
    events_record(e->ctl->events, o, EVENT_NORMAL, STR("TaintManagerEviction"), sbuf_str(&text));
    const struct client_key at = {o->object.kind, o->meta->namespace, o->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    client_patch(e->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&patch), &how, ctl_call_done,
                 ctl_call_new(&e->calls, e->work, key, CACHE_PODS));
}

static void node_evict_step_key(void *arg, struct str key)
{
    struct evict_ctl *e = arg;
    struct str namespace;
    struct str name;
    if (!ctl_synced(e->ctl)) {
        work_retry(e->work, key);
        return;
    }
    str_cut(key, '/', &namespace, &name);
    const struct typed_object *o = ctl_find(e->ctl, CACHE_PODS, namespace, name);
    const struct api_pod *pod = maybe_pod(o);
    int64_t now = ctl_now(e->ctl).at.sec, at = INT64_MAX;
    if (pod && !pod->metadata.deletion_timestamp.set && !pod_is_terminal(pod))
        at = node_evict_due(e, pod, now);
    if (at != INT64_MAX)
        at = node_evict_due(e, pod, seen_since(e, key, o->meta->uid));
    if (at == INT64_MAX) {
        node_evict_forget_pod(e, key);
        work_done(e->work, key);
    } else if (at > now) {
        work_again_in(e->work, key, at - now);
    } else if (!load_pod_has_condition(pod, STR("DisruptionTarget"))) {
        node_evict_mark(e, key, o);
    } else {
        const struct client_key target = {o->object.kind, namespace, name};
        struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
        const struct api_delete_options options = {.preconditions = &same};
        client_delete(e->ctl->client, &target, &options, ctl_call_done,
                      ctl_call_new(&e->calls, e->work, key, CACHE_PODS));
    }
}

static void node_evict_add_pod(void *arg, const struct typed_object *o)
{
    struct evict_ctl *e = arg;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    work_add(e->work, sbuf_str(&key));
}

static void node_evict_pod_changed(void *arg, const struct typed_object *before,
                                   const struct typed_object *after)
{
    struct evict_ctl *e = arg;
    bool bound = after && as_pod(after)->spec.node_name.n;
    bool was = before && as_pod(before)->spec.node_name.n;
    if (bound && (!was || node_evict_due(e, as_pod(after), 0) != INT64_MAX))
        node_evict_add_pod(arg, after);
    else if (!after && map_len(&e->tolerant) > 0)
        node_evict_add_pod(arg, before); // to be forgotten
}

static void node_evict_node_changed(void *arg, const struct typed_object *before,
                                    const struct typed_object *after)
{
    struct evict_ctl *e = arg;
    static const struct api_node_spec none;
    const struct api_node_spec was = {.taints =
                                          before ? as_node(before)->spec.taints : none.taints};
    const struct api_node_spec is = {.taints = after ? as_node(after)->spec.taints : none.taints};
    if (after && !api_equal(&api_node_spec_type, &was, &is))
        informer_by(e->ctl->caches[CACHE_PODS], e->by_node, after->meta->name, node_evict_add_pod,
                    e);
}

struct evict_ctl *node_evict_ctl_new(struct ctl *ctl)
{
    struct evict_ctl *e = xcalloc(1, sizeof(*e));
    e->ctl = ctl;
    e->work = ctl_work(ctl, "noexec_taint_pod", node_evict_step_key, e);
    list_init(&e->calls);
    e->by_node = informer_add_index(ctl->caches[CACHE_PODS], ctl_index_pod_node);
    ctl_watch(ctl, CACHE_PODS, node_evict_pod_changed, e, e->work);
    ctl_watch(ctl, CACHE_NODES, node_evict_node_changed, e, e->work);
    return e;
}

void node_evict_ctl_free(struct evict_ctl *e)
{
    if (!e)
        return;
    ctl_calls_drop(&e->calls);
    work_free(e->work);
    map_foreach(&e->tolerant, i) {
        free(map_value(&e->tolerant, i)->key);
        free(map_value(&e->tolerant, i)->uid);
    }
    map_done(&e->tolerant);
    free(e);
}

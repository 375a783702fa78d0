// SPDX-License-Identifier: Apache-2.0
//
// Eviction of pods whose devices have NoExecute taints that the claim's requests do not tolerate,
// by claim and by extended resource.
#include "api/match/taint.h"

#include <stdlib.h>

#include "api/match/device_taint.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"
#include "ctl/device/taint_int.h"

#include "base/banned.h"

// How long after an eviction the status of its rules is brought up to date.
static const int64_t rule_status_delay_ns = 10 * CLOCK_NS_PER_SEC;

// --- When ----------------------------------------------------------------------------------------

static void count_taint(struct eviction *e,
                        const struct api_device_request_allocation_result *result,
                        const struct api_device_taint *taint, struct str rule_uid)
{
    int64_t wait;
    if (!device_taint_evicts(&result->tolerations, taint, &wait))
        return;
    int64_t at = taint->time_added.set ? taint->time_added.at.sec : 0;
    if (__builtin_add_overflow(at, wait, &at))
        return;
    if (!e->due || at < e->at)
        e->at = at;
    e->due = true;
    if (rule_uid.n > 0 && e->rules_len < array_len(e->rules))
        e->rules[e->rules_len++] = rule_uid;
}

// The taints that drivers publish: those of the pool's newest generation.
struct pool_search {
    const struct api_device_request_allocation_result *result;
    int64_t generation;
    const struct api_device *device;
};

static void search_slice(void *arg, const struct typed_object *o)
{
    struct pool_search *s = arg;
    const struct api_resource_slice *slice = as_slice(o);
    if (slice->spec.pool.generation < s->generation)
        return;
    if (slice->spec.pool.generation > s->generation) {
        s->generation = slice->spec.pool.generation;
        s->device = NULL;
    }
    for (size_t i = 0; i < slice->spec.devices.n; i++)
        if (str_eq(slice->spec.devices.p[i].name, s->result->device))
            s->device = &slice->spec.devices.p[i];
}

struct rule_search {
    struct eviction *eviction;
    const struct api_device_request_allocation_result *result;
};

static void count_rule(void *arg, const struct typed_object *o)
{
    const struct rule_search *s = arg;
    const struct api_device_taint_rule *rule = as_rule(o);
    if (taint_is_evicting(rule->spec.taint.effect) &&
        device_taint_selects(rule->spec.device_selector, s->result->driver, s->result->pool,
                             &s->result->device))
        count_taint(s->eviction, s->result, &rule->spec.taint, rule->metadata.uid);
}

static void add_pool_key(struct sbuf *key, struct str driver, struct str pool)
{
    sbuf_addf(key, "%.*s/%.*s", STR_ARG(driver), STR_ARG(pool));
}

static void count_result(const struct taint_ctl *t, struct eviction *e,
                         const struct api_device_request_allocation_result *result,
                         const struct api_device_taint_rule *as_if)
{
    if (as_if) {
        if (device_taint_selects(as_if->spec.device_selector, result->driver, result->pool,
                                 &result->device))
            count_taint(e, result, &as_if->spec.taint, as_if->metadata.uid);
        return;
    }
    struct sbuf key = {0};
    struct pool_search s = {.result = result, .generation = -1};
    add_pool_key(&key, result->driver, result->pool);
    informer_by(t->ctl->caches[CACHE_SLICES], t->slices_by_pool, sbuf_str(&key), search_slice, &s);
    sbuf_done(&key);
    for (size_t i = 0; s.device && i < s.device->taints.n; i++)
        if (taint_is_evicting(s.device->taints.p[i].effect))
            count_taint(e, result, &s.device->taints.p[i], STR(""));
    struct rule_search r = {e, result};
    if (t->ctl->caches[CACHE_RULES])
        informer_foreach(t->ctl->caches[CACHE_RULES], count_rule, &r);
}

static void taint_count_claim(const struct taint_ctl *t, struct eviction *e,
                              const struct api_pod *pod, struct str name, bool check_owner,
                              const struct api_device_taint_rule *as_if)
{
    const struct api_resource_claim *claim =
        maybe_claim(ctl_find(t->ctl, CACHE_CLAIMS, pod->metadata.namespace, name));
    if (!claim || !claim->status.allocation ||
        (check_owner && !claim_is_for(claim, pod, t->groups)))
        return;
    bool reserved = claim_is_reserved_for_pod(claim, pod, t->groups);
    const struct api_device_request_allocation_result_array *results =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; reserved && i < results->n; i++)
        count_result(t, e, &results->p[i], as_if);
}

struct eviction taint_find_eviction(const struct taint_ctl *t, const struct api_pod *pod,
                                    const struct api_device_taint_rule *as_if)
{
    struct eviction e = {0};
    if (pod->spec.node_name.n == 0 || pod_is_terminal(pod))
        return e;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED)
            taint_count_claim(t, &e, pod, name, check, as_if);
    }
    if (pod->status.extended_resource_claim_status)
        taint_count_claim(t, &e, pod,
                          pod->status.extended_resource_claim_status->resource_claim_name, true,
                          as_if);
    return e;
}

// --- Sending a pod away --------------------------------------------------------------------------

static void taint_record_event(struct taint_ctl *t, const struct typed_object *pod,
                               struct str message)
{
    events_record(t->ctl->events, pod, STR("Normal"), STR("DeviceTaintManagerEviction"), message);
}

static bool is_marked(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++) {
        const struct api_pod_condition *c = &pod->status.conditions.p[i];
        if (str_eq(c->type, STR("DisruptionTarget")) && str_eq(c->status, STR("True")) &&
            str_eq(c->reason, STR(TAINT_REASON)))
            return true;
    }
    return false;
}

static void taint_mark_disruption(struct taint_ctl *t, struct str key,
                                  const struct typed_object *pod)
{
    struct sbuf body = {0};
    struct sbuf now = {0};
    struct json_writer w = {.out = &body};
    struct api_time time = ctl_now(t->ctl);
    rfc3339_write_seconds(time.at, &now);
    json_write_object_begin(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    json_write_text(&w, "uid", pod->meta->uid);
    json_write_object_end(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("conditions"));
    json_write_array_begin(&w);
    json_write_object_begin(&w);
    json_write_text(&w, "type", STR("DisruptionTarget"));
    json_write_text(&w, "status", STR("True"));
    json_write_text(&w, "reason", STR(TAINT_REASON));
    json_write_text(&w, "message", STR("Device Taint manager: deleting due to NoExecute taint"));
    json_write_text(&w, "lastTransitionTime", sbuf_str(&now));
    json_write_object_end(&w);
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key at = {pod->object.kind, pod->meta->namespace, pod->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    taint_record_event(t, pod, STR("Marking for deletion"));
    client_patch(t->ctl->client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how, ctl_call_done,
                 ctl_call_new(&t->calls, t->work, key, CACHE_PODS));
    sbuf_done(&now);
    sbuf_done(&body);
}

static void count_evicted(struct taint_ctl *t, const struct eviction *e)
{
    for (size_t i = 0; i < e->rules_len; i++) {
        struct rule_stats *s = map_get(&t->stats, e->rules[i]);
        if (!s) {
            char *uid = xstrndup(e->rules[i].p, e->rules[i].n);
            s = map_put(&t->stats, str_z(uid));
            s->uid = uid;
        }
        s->evicted++;
    }
}

// Kubernetes' edges, in seconds.
static const double late_edges[] = {0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240};
static const struct prom_buckets late_buckets = {.edges = late_edges, .n = array_len(late_edges)};

static void count_deletion(struct taint_ctl *t, const struct eviction *e)
{
    double late = (double)exec_wall_ns(t->ctl->exec) / (double)CLOCK_NS_PER_SEC - (double)e->at;
    prom_observe(&t->late, &late_buckets, late > 0 ? late : 0);
}

void taint_ctl_metrics(const struct taint_ctl *t, struct sbuf *out)
{
    static const char deletions[] = "device_taint_eviction_controller_pod_deletions_total";
    static const char late[] = "device_taint_eviction_controller_pod_deletion_duration_seconds";
    prom_head(out, deletions, "counter",
              "Total number of Pods deleted by DeviceTaintEvictionController since its start.");
    sbuf_addf(out, "%s %llu\n", deletions, (unsigned long long)t->late.n);
    prom_head(out, late, "histogram",
              "Latency, in seconds, between the time when a device taint effect has been "
              "activated and a Pod's deletion via DeviceTaintEvictionController.");
    prom_write_times(out, late, "", &t->late, &late_buckets);
}

static void taint_evict_pod(struct taint_ctl *t, struct str key, const struct typed_object *pod,
                            const struct eviction *e)
{
    const struct client_key at = {pod->object.kind, pod->meta->namespace, pod->meta->name};
    struct api_preconditions same = {.uid = pod->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    count_evicted(t, e);
    count_deletion(t, e);
    client_delete(t->ctl->client, &at, &options, ctl_call_done,
                  ctl_call_new(&t->calls, t->work, key, CACHE_PODS));
}

// --- Steps ---------------------------------------------------------------------------------------

static void set_waiting(struct taint_ctl *t, struct str key, bool waiting)
{
    struct waiting_pod *w = map_get(&t->waiting, key);
    if (waiting && !w) {
        char *copy = xstrndup(key.p, key.n);
        map_put(&t->waiting, str_z(copy))->key = copy;
    } else if (!waiting && w) {
        char *copy = w->key;
        map_del(&t->waiting, key);
        free(copy);
    }
}

static void add_rule_by_uid(struct taint_ctl *t, struct str uid);

static void step_pod(struct taint_ctl *t, struct str key, struct str namespace, struct str name)
{
    const struct typed_object *o = ctl_find(t->ctl, CACHE_PODS, namespace, name);
    const struct api_pod *pod = maybe_pod(o);
    struct eviction e = {0};
    if (pod && !pod->metadata.deletion_timestamp.set)
        e = taint_find_eviction(t, pod, NULL);
    if (!e.due) {
        if (map_has(&t->waiting, key) && pod && !pod->metadata.deletion_timestamp.set)
            taint_record_event(t, o, STR("Cancelling deletion"));
        set_waiting(t, key, false);
        work_done(t->work, key);
        return;
    }
    for (size_t i = 0; i < e.rules_len; i++)
        add_rule_by_uid(t, e.rules[i]);
    set_waiting(t, key, true);
    int64_t left_s = e.at - exec_wall_ns(t->ctl->exec) / CLOCK_NS_PER_SEC;
    if (left_s > 0)
        work_again_in(t->work, key, left_s);
    else if (!is_marked(pod))
        taint_mark_disruption(t, key, o);
    else
        taint_evict_pod(t, key, o, &e);
}

static void taint_step_key(void *arg, struct str key)
{
    struct taint_ctl *t = arg;
    struct str namespace;
    struct str name;
    static const enum ctl_cache needed[] = {CACHE_PODS, CACHE_CLAIMS, CACHE_SLICES, CACHE_RULES};
    for (size_t i = 0; i < array_len(needed); i++) {
        if (t->ctl->caches[needed[i]] && !informer_synced(t->ctl->caches[needed[i]])) {
            work_retry(t->work, key);
            return;
        }
    }
    str_cut(str_from(key, 2), '/', &namespace, &name);
    if (key.p[0] == 'p')
        step_pod(t, key, namespace, name);
    else
        taint_step_rule(t, key, name);
}

// --- What changed --------------------------------------------------------------------------------

static void taint_add_pod(void *arg, const struct typed_object *o)
{
    struct taint_ctl *t = arg;
    struct sbuf key = {0};
    sbuf_addf(&key, "p/%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    work_add(t->work, sbuf_str(&key));
    sbuf_done(&key);
}

// taint_add_rule looks at a rule's status, soon or after a while.
static void taint_add_rule(struct taint_ctl *t, struct str name, int64_t delay_ns)
{
    struct sbuf key = {0};
    sbuf_addf(&key, "r//%.*s", STR_ARG(name));
    if (delay_ns > 0)
        work_add_after(t->work, sbuf_str(&key), delay_ns);
    else
        work_add(t->work, sbuf_str(&key));
    sbuf_done(&key);
}

struct uid_search {
    struct taint_ctl *t;
    struct str uid;
};

static void match_uid(void *arg, const struct typed_object *o)
{
    const struct uid_search *s = arg;
    if (str_eq(o->meta->uid, s->uid))
        taint_add_rule(s->t, o->meta->name, rule_status_delay_ns);
}

static void add_rule_by_uid(struct taint_ctl *t, struct str uid)
{
    struct uid_search s = {t, uid};
    informer_foreach(t->ctl->caches[CACHE_RULES], match_uid, &s);
}

static void add_pods_of_claim(void *arg, const struct typed_object *claim)
{
    struct taint_ctl *t = arg;
    if (!as_claim(claim)->status.allocation)
        return;
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(claim->meta->namespace), STR_ARG(claim->meta->name));
    informer_by(t->ctl->caches[CACHE_PODS], t->pods_by_claim, sbuf_str(&key), taint_add_pod, t);
    sbuf_done(&key);
}

static void taint_pod_changed(void *arg, const struct typed_object *before,
                              const struct typed_object *after)
{
    struct taint_ctl *t = arg;
    const struct api_pod *pod = as_pod(after ? after : before);
    if (pod->spec.resource_claims.n > 0 || pod->status.extended_resource_claim_status)
        taint_add_pod(t, after ? after : before);
}

static void taint_claim_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    add_pods_of_claim(arg, after ? after : before);
}

static void taint_slice_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct taint_ctl *t = arg;
    const struct api_resource_slice *slice = as_slice(after ? after : before);
    struct sbuf key = {0};
    add_pool_key(&key, slice->spec.driver, slice->spec.pool.name);
    informer_by(t->ctl->caches[CACHE_CLAIMS], t->claims_by_pool, sbuf_str(&key), add_pods_of_claim,
                t);
    sbuf_done(&key);
}

static void taint_rule_changed(void *arg, const struct typed_object *before,
                               const struct typed_object *after)
{
    struct taint_ctl *t = arg;
    bool same = before && after && before->meta->generation == after->meta->generation &&
                str_eq(before->meta->uid, after->meta->uid);
    if (same)
        return; // only its status
    // Rules change rarely and may be about any device.
    informer_foreach(t->ctl->caches[CACHE_CLAIMS], add_pods_of_claim, t);
    if (after)
        taint_add_rule(t, after->meta->name, 0);
}

// --- The controller ------------------------------------------------------------------------------

typedef void (*index_add_fn)(void *ctx, struct str key);

static void index_claim_pools(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_resource_claim *claim = as_claim(o);
    struct sbuf key = {0};
    for (size_t i = 0; claim->status.allocation && i < claim->status.allocation->devices.results.n;
         i++) {
        const struct api_device_request_allocation_result *r =
            &claim->status.allocation->devices.results.p[i];
        sbuf_clear(&key);
        add_pool_key(&key, r->driver, r->pool);
        add(ctx, sbuf_str(&key));
    }
    sbuf_done(&key);
}

static void index_slice_pool(const struct typed_object *o, index_add_fn add, void *ctx)
{
    const struct api_resource_slice *slice = as_slice(o);
    struct sbuf key = {0};
    add_pool_key(&key, slice->spec.driver, slice->spec.pool.name);
    add(ctx, sbuf_str(&key));
    sbuf_done(&key);
}

struct taint_ctl *taint_ctl_new(struct ctl *ctl)
{
    struct taint_ctl *t = xcalloc(1, sizeof(*t));
    t->ctl = ctl;
    t->work = ctl_work(ctl, "device-taint-eviction-controller", taint_step_key, t);
    t->groups = features_on(ctl->features, FEATURE_DRA_WORKLOAD_RESOURCE_CLAIMS);
    list_init(&t->calls);
    t->pods_by_claim = informer_add_index(ctl->caches[CACHE_PODS], ctl_index_pod_claims);
    t->claims_by_pool = informer_add_index(ctl->caches[CACHE_CLAIMS], index_claim_pools);
    t->slices_by_pool = informer_add_index(ctl->caches[CACHE_SLICES], index_slice_pool);
    ctl_watch(ctl, CACHE_PODS, taint_pod_changed, t, t->work);
    ctl_watch(ctl, CACHE_CLAIMS, taint_claim_changed, t, t->work);
    ctl_watch(ctl, CACHE_SLICES, taint_slice_changed, t, t->work);
    ctl_watch(ctl, CACHE_RULES, taint_rule_changed, t, t->work);
    return t;
}

void taint_ctl_free(struct taint_ctl *t)
{
    if (!t)
        return;
    ctl_calls_drop(&t->calls);
    work_free(t->work);
    map_foreach(&t->stats, i)
        free(map_value(&t->stats, i)->uid);
    map_foreach(&t->waiting, i)
        free(map_value(&t->waiting, i)->key);
    map_done(&t->stats);
    map_done(&t->waiting);
    free(t);
}

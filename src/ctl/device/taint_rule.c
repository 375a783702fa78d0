// SPDX-License-Identifier: Apache-2.0
//
// The condition EvictionInProgress of a DeviceTaintRule: how many pods are still to go, or, for a
// rule without effect, what it would do.
#include "api/match/device_taint.h"
#include "api/match/taint.h"
#include "ctl/device/taint_int.h"

#include "base/banned.h"

// A condition is not changed more often than this, unless the rule itself changed.
static const int64_t period_seconds = 10;

#define CONDITION_TYPE "EvictionInProgress"

struct namespace_set MAP(bool);

struct count {
    const struct taint_ctl *t;
    const struct api_device_taint_rule *rule;
    int64_t pods;
    int64_t published;
    int64_t allocated;
    struct namespace_set namespaces;
};

static void taint_rule_count_pod(void *arg, const struct typed_object *o)
{
    struct count *c = arg;
    const struct api_pod *pod = as_pod(o);
    if (pod->metadata.deletion_timestamp.set)
        return;
    struct eviction e = taint_find_eviction(c->t, pod, c->rule);
    if (!e.due)
        return;
    c->pods += (int64_t)e.rules_len;
    *map_put(&c->namespaces, pod->metadata.namespace) = true;
}

static void count_published(void *arg, const struct typed_object *o)
{
    struct count *c = arg;
    const struct api_resource_slice *s = as_slice(o);
    for (size_t i = 0; i < s->spec.devices.n; i++)
        c->published += device_taint_selects(c->rule->spec.device_selector, s->spec.driver,
                                             s->spec.pool.name, &s->spec.devices.p[i].name);
}

static void count_allocated(void *arg, const struct typed_object *o)
{
    struct count *c = arg;
    const struct api_allocation_result *a = as_claim(o)->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        c->allocated +=
            device_taint_selects(c->rule->spec.device_selector, r->driver, r->pool, &r->device);
    }
}

static void taint_rule_add_count(struct sbuf *out, int64_t n, const char *one, const char *many)
{
    if (n == 1)
        sbuf_addf(out, "1 %s", one);
    else
        sbuf_addf(out, "%lld %s", (long long)n, many);
}

static void add_namespaces(struct sbuf *out, const struct count *c)
{
    taint_rule_add_count(out, (int64_t)map_len(&c->namespaces), "namespace",
                         "different namespaces");
}

static int64_t evicted_by(const struct taint_ctl *t, struct str uid)
{
    const struct rule_stats *s = map_get(&t->stats, uid);
    return s ? s->evicted : 0;
}

static void describe_eviction(struct count *c, struct api_condition *ret, struct sbuf *message)
{
    informer_foreach(c->t->ctl->caches[CACHE_PODS], taint_rule_count_pod, c);
    if (c->pods > 0) {
        ret->status = STR("True");
        ret->reason = STR("PodsPendingEviction");
        taint_rule_add_count(message, c->pods, "pod needs to be evicted in ",
                             "pods need to be evicted in ");
        add_namespaces(message, c);
        sbuf_addc(message, '.');
    } else if (evicted_by(c->t, c->rule->metadata.uid) > 0) {
        ret->reason = STR("Completed");
    } else {
        ret->reason = STR("NotStarted");
    }
}

static void describe_no_effect(struct count *c, struct api_condition *ret, struct sbuf *message)
{
    informer_foreach(c->t->ctl->caches[CACHE_PODS], taint_rule_count_pod, c);
    informer_foreach(c->t->ctl->caches[CACHE_SLICES], count_published, c);
    informer_foreach(c->t->ctl->caches[CACHE_CLAIMS], count_allocated, c);
    ret->reason = STR("NoEffect");
    taint_rule_add_count(message, c->published, "published device selected. ",
                         "published devices selected. ");
    taint_rule_add_count(message, c->allocated, "allocated device selected. ",
                         "allocated devices selected. ");
    taint_rule_add_count(message, c->pods, "pod would be evicted in ", "pods would be evicted in ");
    add_namespaces(message, c);
    sbuf_addz(message, " if the effect was NoExecute. This information will not be updated again. "
                       "Recreate the DeviceTaintRule to trigger an update.");
}

static void taint_rule_describe_progress(const struct taint_ctl *t,
                                         const struct api_device_taint_rule *rule,
                                         struct api_condition *ret, struct sbuf *message)
{
    struct count c = {.t = t, .rule = rule};
    *ret = (struct api_condition){.type = STR(CONDITION_TYPE),
                                  .status = STR("False"),
                                  .observed_generation = rule->metadata.generation};
    if (taint_is_evicting(rule->spec.taint.effect)) {
        describe_eviction(&c, ret, message);
    } else if (str_eq(rule->spec.taint.effect, STR("None"))) {
        describe_no_effect(&c, ret, message);
    } else {
        ret->reason = STR("OtherEffect");
        sbuf_addz(message, "Eviction only happens for the NoExecute effect.");
    }
    int64_t evicted = evicted_by(t, rule->metadata.uid);
    if (evicted > 0) {
        if (message->n > 0)
            sbuf_addc(message, ' ');
        taint_rule_add_count(message, evicted, "pod ", "pods ");
        sbuf_addz(message, "evicted since starting the controller.");
    }
    ret->message = sbuf_str(message);
    map_done(&c.namespaces);
}

static const struct api_condition *taint_rule_current_condition(
    const struct api_device_taint_rule *rule)
{
    for (size_t i = 0; i < rule->status.conditions.n; i++)
        if (str_eq(rule->status.conditions.p[i].type, STR(CONDITION_TYPE)))
            return &rule->status.conditions.p[i];
    return NULL;
}

static bool says_the_same(const struct api_condition *a, const struct api_condition *b)
{
    return a && str_eq(a->status, b->status) && str_eq(a->reason, b->reason) &&
           str_eq(a->message, b->message) && a->observed_generation == b->observed_generation;
}

static void taint_rule_write_condition(struct taint_ctl *t, struct str key,
                                       const struct typed_object *o,
                                       const struct api_condition *new)
{
    struct arena arena = {0};
    struct api_device_taint_rule changed = *as_rule(o);
    const struct api_condition_array old = changed.status.conditions;
    struct api_condition *all = arena_array(&arena, struct api_condition, old.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++)
        if (!str_eq(old.p[i].type, new->type))
            all[n++] = old.p[i];
    all[n++] = *new;
    changed.status.conditions = (struct api_condition_array){all, n};
    const struct api_object object = {o->object.kind, &changed};
    const struct client_write how = {.subresource = STR("status")};
    client_update(t->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&t->calls, t->work, key, CACHE_RULES));
    arena_done(&arena);
}

void taint_step_rule(struct taint_ctl *t, struct str key, struct str name)
{
    const struct typed_object *o = ctl_find(t->ctl, CACHE_RULES, STR(""), name);
    const struct api_device_taint_rule *rule = maybe_rule(o);
    if (!rule || rule->metadata.deletion_timestamp.set) {
        work_done(t->work, key);
        return;
    }
    const struct api_condition *old = taint_rule_current_condition(rule);
    struct api_time now = ctl_now(t->ctl);
    bool seen = old && old->observed_generation == rule->metadata.generation;
    if (seen && str_eq(rule->spec.taint.effect, STR("None"))) {
        work_done(t->work, key); // worked out once for each change of the rule
        return;
    }
    int64_t age = seen ? now.at.sec - old->last_transition_time.at.sec : period_seconds;
    if (age < period_seconds) {
        work_again(t->work, key, (period_seconds - (age > 0 ? age : 0)) * CLOCK_NS_PER_SEC);
        return;
    }
    struct sbuf message = {0};
    struct api_condition new;
    taint_rule_describe_progress(t, rule, &new, &message);
    new.last_transition_time = now;
    if (says_the_same(old, &new))
        work_done(t->work, key);
    else
        taint_rule_write_condition(t, key, o, &new);
    sbuf_done(&message);
}

// SPDX-License-Identifier: Apache-2.0
//
// PodGroups and the pods that name them: when a group may be tried, which claims it uses, and its
// condition.
#include "sched/gang/groups.h"

#include <stdlib.h>

#include "api/match/claim.h"
#include "codec/json_writer.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"

#include "base/banned.h"

#define CONDITION     "PodGroupInitiallyScheduled"
#define TELL_EVERY_NS (10 * CLOCK_NS_PER_SEC)
#define MESSAGE_MAX   4096 // of a condition; the API takes 32 KiB

// --- Groups --------------------------------------------------------------------------------------

struct sched_group *groups_find(const struct sched *s, struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    struct sched_group **g = map_get(&s->groups.by_key, sbuf_str(&key));
    return g ? *g : NULL;
}

static struct sched_group *groups_get_named(struct sched *s, struct str namespace, struct str name)
{
    struct sched_group *g = groups_find(s, namespace, name);
    if (g)
        return g;
    struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    g = xcalloc(1, sizeof(*g));
    g->key.n = key.n;
    g->key.p = sbuf_take(&key);
    *map_put(&s->groups.by_key, g->key) = g;
    return g;
}

static void group_free(struct sched_group *g)
{
    list_remove(&g->untold);
    typed_object_unref(g->object);
    vec_done(&g->pods);
    free(g->message);
    free((void *)(uintptr_t)g->key.p);
    free(g);
}

void groups_release(struct sched *s, struct sched_group *g)
{
    if (g->object || g->pods.n || g->take)
        return;
    (void)map_del(&s->groups.by_key, g->key);
    group_free(g);
}

void groups_done(struct sched *s)
{
    exec_timer_stop(s->exec, &s->groups.tell_timer);
    map_foreach(&s->groups.by_key, i)
        group_free(*map_value(&s->groups.by_key, i));
    map_done(&s->groups.by_key);
}

size_t groups_min(const struct sched_group *g)
{
    const struct api_gang_scheduling_policy *gang =
        g->api ? g->api->spec.scheduling_policy.gang : NULL;
    return gang && gang->min_count > 1 ? (size_t)gang->min_count : 1;
}

size_t groups_scheduled(const struct sched_group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < g->pods.n; i++)
        n += g->pods.p[i]->node != NULL;
    return n;
}

void groups_wake(struct sched *s, struct sched_group *g)
{
    for (size_t i = g->pods.n; i-- > 0;)
        if (g->pods.p[i]->state == POD_GATED && g->pods.p[i]->group_gated)
            sched_enqueue(s, g->pods.p[i]);
}

void groups_set(struct sched *s, const struct typed_object *before,
                const struct typed_object *after)
{
    const struct api_object_meta *m = after ? after->meta : before->meta;
    struct sched_group *g = groups_get_named(s, m->namespace, m->name);
    const struct typed_object *old = g->object;
    bool other = old && after && !str_eq(old->meta->uid, after->meta->uid);
    size_t min = groups_min(g);
    g->object = after ? typed_object_ref(after) : NULL;
    g->api = after ? after->object.value : NULL;
    if (!after || other) {
        g->attempts = 0;
        g->reason = NULL;
    }
    typed_object_unref(old);
    // A group that came, or needs fewer pods than before, may be tried. Pods that were tried wait
    // for what they lack.
    bool helps = !old || other || groups_min(g) < min;
    for (size_t i = g->pods.n; helps && g->api && i-- > 0;)
        if (g->pods.p[i]->state == POD_WAITING)
            queue_retry(&s->queue, g->pods.p[i]);
    if (g->api)
        groups_wake(s, g);
    groups_release(s, g);
}

// --- Pods ----------------------------------------------------------------------------------------

static void groups_leave_pod(struct sched *s, struct sched_pod *p)
{
    struct sched_group *g = p->group;
    struct sched_pod *last = vec_pop(&g->pods);
    if (last != p) {
        g->pods.p[p->group_at] = last;
        last->group_at = p->group_at;
    }
    p->group = NULL;
    p->group_gated = false;
    // What is left may fit, or be too little: either is worth a look.
    for (size_t i = 0; i < g->pods.n; i++)
        if (g->pods.p[i]->state == POD_WAITING) {
            queue_retry(&s->queue, g->pods.p[i]);
            break;
        }
    // Those that wait for a claim must not keep what the last that ran has left.
    for (size_t i = g->pods.n; groups_scheduled(g) == 0 && i-- > 0;)
        if (g->pods.p[i]->state == POD_GATED && !g->pods.p[i]->group_gated)
            sched_enqueue(s, g->pods.p[i]);
    groups_release(s, g);
}

void groups_pod(struct sched *s, struct sched_pod *p)
{
    struct str name = pod_group_name(p->api);
    if (!s->config.groups_on || !name.n)
        return;
    bool over = pod_is_terminal(p->api) ||
                (p->api->metadata.deletion_timestamp.set && !p->api->spec.node_name.n);
    if (over && p->group) {
        groups_leave_pod(s, p);
    } else if (!over && !p->group) {
        p->group = groups_get_named(s, p->api->metadata.namespace, name);
        p->group_at = (uint32_t)p->group->pods.n;
        vec_push(&p->group->pods, p);
        if (p->group->api && p->group->pods.n >= groups_min(p->group))
            groups_wake(s, p->group);
    }
}

void groups_pod_gone(struct sched *s, struct sched_pod *p)
{
    if (p->group)
        groups_leave_pod(s, p);
}

static bool groups_is_older(const struct api_time *a, const struct api_time *b)
{
    return a->set && b->set && a->at.sec < b->at.sec;
}

bool groups_gate(const struct sched_pod *p, struct sbuf *why)
{
    const struct sched_group *g = p->group;
    if (!g)
        return true;
    if (!g->api) {
        sbuf_addf(why, "waiting for pods's pod group \"%.*s\" to appear in scheduling queue",
                  STR_ARG(pod_group_name(p->api)));
        return false;
    }
    // Nothing keeps a group for pods that came after its deletion.
    const struct api_time *deleted = &g->api->metadata.deletion_timestamp;
    if (deleted->set && !groups_is_older(&p->api->metadata.creation_timestamp, deleted)) {
        sbuf_addf(why, "pod group \"%.*s\" is being deleted", STR_ARG(g->api->metadata.name));
        return false;
    }
    if (g->pods.n < groups_min(g)) {
        sbuf_addz(why, "waiting for minCount pods from a gang to appear in scheduling queue");
        return false;
    }
    return true;
}

static bool groups_pod_names_claim(const struct api_pod *pod, struct str claim)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name;
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED &&
            str_eq(name, claim))
            return true;
    }
    return false;
}

bool groups_uses_claim(const struct sched_group *g, struct str claim)
{
    for (size_t i = 0; i < g->pods.n; i++)
        if (g->pods.p[i]->node && groups_pod_names_claim(g->pods.p[i]->api, claim))
            return true;
    return false;
}

bool groups_runs_with(const struct sched *s, const struct api_resource_claim_consumer_reference *r,
                      const struct api_resource_claim *claim)
{
    const struct sched_group *g = groups_find(s, claim->metadata.namespace, r->name);
    for (size_t i = 0; g && i < g->pods.n; i++) {
        const struct api_pod *pod = g->pods.p[i]->api;
        if (pod->spec.node_name.n && groups_pod_names_claim(pod, claim->metadata.name))
            return true;
    }
    return false;
}

// --- The condition -------------------------------------------------------------------------------

static const struct api_condition *groups_condition_of(const struct sched_group *g)
{
    for (size_t i = 0; g->api && i < g->api->status.conditions.n; i++)
        if (str_eqz(g->api->status.conditions.p[i].type, CONDITION))
            return &g->api->status.conditions.p[i];
    return NULL;
}

static bool is_scheduled(const struct sched_group *g)
{
    return str_eqz(str_z(g->reason), "Scheduled");
}

// Does the stored condition say what it should? One that is True stays.
static bool groups_condition_is_current(const struct sched_group *g)
{
    const struct api_condition *c = groups_condition_of(g);
    if (!g->reason || !g->api || (c && str_eqz(c->status, "True")))
        return true;
    return c && str_eqz(c->reason, g->reason) && str_eqz(c->message, g->message) &&
           str_eqz(c->status, is_scheduled(g) ? "True" : "False");
}

static void groups_write_condition(struct sched *s, const struct sched_group *g)
{
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    const struct api_object_meta *m = &g->api->metadata;
    const struct api_condition *was = groups_condition_of(g);
    struct api_condition c = {
        .type = STR(CONDITION),
        .status = is_scheduled(g) ? STR("True") : STR("False"),
        .reason = str_z(g->reason),
        .message = str_z(g->message),
        .observed_generation = m->generation,
        .last_transition_time = {moment_from_ns(exec_wall_ns(s->exec)), true},
    };
    c.last_transition_time.at.nsec = 0;
    if (was && str_eq(was->status, c.status))
        c.last_transition_time = was->last_transition_time;
    json_write_object_begin(&w);
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("uid"));
    json_write_str(&w, m->uid);
    // Of two schedulers the one that was late must not say that it failed.
    if (!is_scheduled(g)) {
        json_write_key(&w, STR("resourceVersion"));
        json_write_str(&w, m->resource_version);
    }
    json_write_object_end(&w);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("conditions"));
    json_write_array_begin(&w);
    struct err err;
    if (api_json_write(&api_condition_type, &c, &w, &err) < 0)
        abort(); // it is made of texts
    json_write_array_end(&w);
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key key = {sched_kind(WATCH_GROUPS), m->namespace, m->name};
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer,
                 calls_begin(s, NULL, NULL));
}

// Until the watch shows it: a write may get lost.
static void groups_arm_timer(struct sched *s, struct sched_group *g)
{
    list_remove(&g->untold);
    list_push_back(&s->groups.untold, &g->untold);
    if (!exec_timer_armed(&s->groups.tell_timer))
        exec_timer_start(s->exec, &s->groups.tell_timer, TELL_EVERY_NS);
}

static void groups_on_timer(void *arg)
{
    struct sched *s = arg;
    int64_t now = exec_now_ns(s->exec);
    list_foreach(&s->groups.untold, node) {
        struct sched_group *g = list_entry(node, struct sched_group, untold);
        int64_t wait = g->told_ns + TELL_EVERY_NS - now;
        if (wait > 0) {
            exec_timer_start(s->exec, &s->groups.tell_timer, wait);
            return;
        }
        list_remove(&g->untold);
        if (groups_condition_is_current(g))
            continue;
        g->told_ns = now;
        groups_write_condition(s, g);
        groups_arm_timer(s, g);
    }
}

void groups_set_condition(struct sched *s, struct sched_group *g, bool scheduled,
                          const char *reason, struct str message)
{
    bool again = g->reason && str_eqz(str_z(g->reason), reason);
    if (g->reason && is_scheduled(g) && !scheduled)
        return;
    free(g->message);
    message = str_upto(message, MESSAGE_MAX);
    g->message = xstrndup(message.n ? message.p : "", message.n);
    g->reason = reason;
    if (groups_condition_is_current(g))
        return;
    if (!again || exec_now_ns(s->exec) - g->told_ns >= TELL_EVERY_NS) {
        g->told_ns = exec_now_ns(s->exec);
        groups_write_condition(s, g);
    }
    groups_arm_timer(s, g);
}

void groups_init(struct sched *s)
{
    list_init(&s->groups.untold);
    s->groups.tell_timer = (struct exec_timer){.fn = groups_on_timer, .arg = s};
}

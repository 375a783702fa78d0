// SPDX-License-Identifier: Apache-2.0
//
// A preemption that is decided, step by step: the nomination is stored, then each victim gets its
// condition and is deleted with its own grace period. Nothing is deleted before the nomination is
// stored, so that a crash leaves no room that belongs to no pod.
#include <stdlib.h>

#include "codec/rfc3339.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/explain/report.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

struct preemption;

struct evict_victim {
    struct preemption *of;
    const struct typed_object *object; // as it was when it was chosen; referenced
};

struct preemption {
    struct list_node node;
    struct sched *s;
    const struct typed_object *pod; // the preemptor; referenced
    struct str where;               // the node; owned
    struct evict_victim *victims;
    size_t victims_len;
    size_t left; // victims whose writes are under way
    bool failed;
};

// --- Helpers -------------------------------------------------------------------------------------

// The pod of an object in the cache, if it still is the same pod.
static struct sched_pod *evict_find(struct sched *s, const struct typed_object *o)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
    return p && str_eq(p->api->metadata.uid, o->meta->uid) ? p : NULL;
}

static void evict_free(struct preemption *e)
{
    list_remove(&e->node);
    for (size_t i = 0; i < e->victims_len; i++)
        typed_object_unref(e->victims[i].object);
    typed_object_unref(e->pod);
    free((void *)(uintptr_t)e->where.p);
    free(e->victims);
    free(e);
}

void evict_drop_all(struct sched *s)
{
    list_foreach(&s->preempt.running, node)
        evict_free(list_entry(node, struct preemption, node));
}

// Does the preemptor still wait for this node? One that is gone, or fits elsewhere by now, spares
// the victims that are left.
static bool evict_is_wanted(const struct preemption *e)
{
    const struct sched_pod *p = evict_find(e->s, e->pod);
    return p && p->on.nominated.node && !p->node && str_eq(p->on.nominated.node->name, e->where);
}

// evict_is_awaited: a pod that has to go is still on the node. Also one that ends for another
// reason than preemption: its end wakes the preemptor, which must not try again before.
static bool evict_is_awaited(const struct sched_pod *p)
{
    const struct sched_node *n = p->on.nominated.node;
    for (size_t i = 0; n && i < n->pods.n; i++) {
        const struct sched_pod *v = n->pods.p[i];
        if (v->queue.priority < p->queue.priority &&
            (v->on.evicted || v->api->metadata.deletion_timestamp.set))
            return true;
    }
    return false;
}

static void evict_end(struct preemption *e)
{
    struct sched_pod *p = evict_find(e->s, e->pod);
    bool waits = p && p->state == POD_WAITING;
    if (waits && e->failed)
        queue_retry(&e->s->queue, p);
    else if (waits && !evict_is_awaited(p))
        queue_activate(&e->s->queue, p); // its victims have gone before the answers came
    evict_free(e);
}

// A victim's writes have ended; not well: it may be chosen again.
static void evict_victim_done(struct evict_victim *v, bool well)
{
    struct preemption *e = v->of;
    struct sched_pod *p = evict_find(e->s, v->object);
    if (p && !well)
        p->on.evicted = false;
    e->failed |= !well;
    if (--e->left == 0)
        evict_end(e);
}

static void evict_record(const struct preemption *e, const struct typed_object *victim,
                         const char *suffix)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "Preempted by pod %.*s on node %.*s%s", STR_ARG(e->pod->meta->uid),
              STR_ARG(e->where), suffix);
    report_event(e->s, victim, "Normal", "Preempted", sbuf_str(&text));
}

// --- A victim ------------------------------------------------------------------------------------

static void evict_on_deleted(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct evict_victim *v = arg;
    (void)s;
    // A conflict: the name is another pod's by now.
    bool gone = answer->code == -ERR_NOT_FOUND || answer->code == -ERR_CONFLICT;
    if (answer->code == 0)
        evict_record(v->of, v->object, "");
    evict_victim_done(v, answer->code == 0 || gone);
}

static void evict_on_condition(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct evict_victim *v = arg;
    const struct api_object_meta *m = v->object->meta;
    if (answer->code == -ERR_NOT_FOUND) {
        evict_victim_done(v, true);
        return;
    }
    if (answer->code < 0 || !evict_is_wanted(v->of)) {
        evict_victim_done(v, false);
        return;
    }
    struct client_key key = {sched_kind(WATCH_PODS), m->namespace, m->name};
    struct api_preconditions same = {.uid = m->uid, .has_uid = true};
    struct api_delete_options options = {.preconditions = &same};
    client_delete(s->client, &key, &options, calls_on_answer, calls_begin(s, evict_on_deleted, v));
}

static void evict_write_condition(struct evict_victim *v)
{
    struct sched *s = v->of->s;
    const struct api_object_meta *m = v->object->meta;
    const struct api_pod *preemptor = v->of->pod->object.value;
    struct client_key key = {sched_kind(WATCH_PODS), m->namespace, m->name};
    cleanup_sbuf struct sbuf body = {0};
    cleanup_sbuf struct sbuf text = {0};
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(s->exec)), &text);
    sbuf_addz(&body, "{\"metadata\":{\"uid\":");
    sbuf_add_json_str(&body, m->uid, false);
    sbuf_addz(&body, "},\"status\":{\"conditions\":[{\"type\":\"DisruptionTarget\","
                     "\"status\":\"True\",\"reason\":\"PreemptionByScheduler\"");
    if (m->generation)
        sbuf_addf(&body, ",\"observedGeneration\":%lld", (long long)m->generation);
    sbuf_addf(&body, ",\"lastTransitionTime\":\"%.*s\",\"message\":", STR_ARG(sbuf_str(&text)));
    sbuf_clear(&text);
    sbuf_addf(&text, "%.*s: preempting to accommodate a higher priority pod",
              STR_ARG(preemptor->spec.scheduler_name));
    sbuf_add_json_str(&body, sbuf_str(&text), false);
    sbuf_addz(&body, "}]}}");
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer,
                 calls_begin(s, evict_on_condition, v));
}

// --- All victims ---------------------------------------------------------------------------------

static void evict_on_nominated(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct preemption *e = arg;
    struct sched_pod *p = evict_find(s, e->pod);
    if (p)
        p->on.nominated.writing = false;
    if (p && answer->code == 0 && answer->object)
        p->on.nominated.revision = answer->object->revision;
    bool well = answer->code == 0 && evict_is_wanted(e);
    if (well) {
        nominate_displace(s, p);
    } else if (p) {
        if (answer->code == 0 && !p->node && !p->on.nominated.node)
            nominate_write_end(s, p); // it was cleared while it was being stored
        else
            preempt_pod_changed(s, p);
        if (p->state == POD_WAITING)
            queue_retry(&s->queue, p);
    }
    e->left = e->victims_len + 1; // not over before all have begun
    for (size_t i = 0; i < e->victims_len; i++)
        if (well)
            evict_write_condition(&e->victims[i]);
        else
            evict_victim_done(&e->victims[i], false);
    if (--e->left == 0)
        evict_end(e);
}

// A victim on its way to the node is turned back: it has not started.
static bool evict_cancel_binding(const struct preemption *e, struct sched_pod *victim)
{
    struct binding *b = victim->binding;
    if (!victim->assumed || !b || b->sent || victim->group || !bind_is_waiting(b))
        return false;
    evict_record(e, victim->object, " (in kube-scheduler memory).");
    victim->on.evicted = true; // until it is off the node
    bind_fail(b, "preempted by pod %.*s", STR_ARG(e->pod->meta->uid));
    bind_undo(b);
    return true;
}

void evict_start(struct attempt *a, const struct preempt_candidate *c)
{
    struct sched *s = a->s;
    struct sched_pod *p = a->pod;
    struct preemption *e = xcalloc(1, sizeof(*e));
    *e = (struct preemption){.s = s, .pod = typed_object_ref(p->object)};
    e->where = str_make(xstrndup(c->node->name.p, c->node->name.n), c->node->name.n);
    e->victims = xcalloc(c->cost.pods, sizeof(*e->victims));
    list_push_back(&s->preempt.running, &e->node);
    bool lower = p->on.nominated.node && p->on.nominated.node != c->node;
    cluster_nominate(&s->cluster, p, c->node->name);
    if (lower)
        sched_wake(s, sched_room_whys(p)); // what it waited for before is free
    p->on.nominated.writing = true;
    p->on.nominated.failed = false;
    for (size_t i = 0; i < c->cost.pods; i++) {
        struct sched_pod *v = c->victims[i];
        if (v->on.evicted || v->api->metadata.deletion_timestamp.set)
            continue; // it is going already
        if (evict_cancel_binding(e, v))
            continue;
        v->on.evicted = true;
        e->victims[e->victims_len++] = (struct evict_victim){e, typed_object_ref(v->object)};
    }
    s->stats.preemptions++;
    nominate_write(s, p, e->where, calls_begin(s, evict_on_nominated, e));
}

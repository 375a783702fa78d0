// SPDX-License-Identifier: Apache-2.0
//
// Writes that come late: a Binding or a claim's update may be carried out long after its sender
// gave up, crashed, or was replaced. docs/design/scheduler.md ("Late writes") has the rules and why
// they suffice. Here: the fence, a change of the pod that makes every Binding decided before it
// fail, and the look at a pod whose writes had no clear answer.
#include "sched/bind/fence.h"

#include <stdlib.h>

#include "codec/json_writer.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"

#include "base/banned.h"

static const struct api_pod_condition *fence_condition_of(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodScheduled"))
            return &pod->status.conditions.p[i];
    return NULL;
}

// The moment of the last fence is the condition's lastProbeTime: no other component writes it.
static int64_t fence_of(const struct api_pod *pod)
{
    const struct api_pod_condition *c = fence_condition_of(pod);
    return c && c->last_probe_time.set ? c->last_probe_time.at.sec : 0;
}

// fence_between: somebody put up a fence between two versions of a pod.
static bool fence_between(const struct api_pod *before, const struct api_pod *after)
{
    return fence_of(before) != fence_of(after);
}

void fence_hold_pod(struct binding *b, const struct typed_object *pod)
{
    const struct typed_object *old = b->pod_object;
    b->pod_object = typed_object_ref(pod);
    typed_object_unref(old);
}

void fence_write_identity(struct json_writer *w, const struct api_object_meta *meta)
{
    json_write_key(w, STR("metadata"));
    json_write_object_begin(w);
    json_write_key(w, STR("uid"));
    json_write_str(w, meta->uid);
    json_write_key(w, STR("resourceVersion"));
    json_write_str(w, meta->resource_version);
    json_write_object_end(w);
}

static void fence_write_condition(const struct binding *b, struct json_writer *w)
{
    const struct api_pod *pod = bind_pod(b);
    const struct api_pod_condition *was = fence_condition_of(pod);
    struct api_pod_condition c = {.type = STR("PodScheduled"),
                                  .status = STR("False"),
                                  .reason = STR("SchedulerError"),
                                  .message = STR("an earlier attempt is being taken back"),
                                  .observed_generation = pod->metadata.generation};
    struct moment now = moment_from_ns(exec_wall_ns(b->s->exec));
    now.nsec = 0;
    if (was)
        c = *was;
    else
        c.last_transition_time = (struct api_time){now, true};
    if (!was && b->error.n)
        c.message = sbuf_str(&b->error);
    // Larger than ever before, so that this is a change whatever the clock shows.
    int64_t last = fence_of(pod);
    if (now.sec <= last)
        now.sec = last + 1;
    c.last_probe_time = (struct api_time){now, true};
    struct err err;
    if (api_json_write(&api_pod_condition_type, &c, w, &err) < 0)
        abort(); // what was read can be written
}

void fence_send(struct binding *b, call_fn done)
{
    const struct api_pod *pod = bind_pod(b);
    cleanup_sbuf struct sbuf body = {0};
    struct json_writer w = {.out = &body};
    json_write_object_begin(&w);
    fence_write_identity(&w, &pod->metadata);
    json_write_key(&w, STR("status"));
    json_write_object_begin(&w);
    json_write_key(&w, STR("conditions"));
    json_write_array_begin(&w);
    fence_write_condition(b, &w);
    json_write_array_end(&w);
    if (pod->status.node_allocatable_resource_claim_statuses.n) {
        json_write_key(&w, STR("nodeAllocatableResourceClaimStatuses"));
        json_write_null(&w);
    }
    json_write_object_end(&w);
    json_write_object_end(&w);
    const struct client_key key = {sched_kind(WATCH_PODS), pod->metadata.namespace,
                                   pod->metadata.name};
    client_patch(b->s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer,
                 calls_begin(b->s, done, b));
}

// --- Looking -------------------------------------------------------------------------------------

static void fence_on_pod_read(struct sched *s, void *arg, const struct client_answer *answer);

static void fence_on_timer(void *arg)
{
    struct binding *b = arg;
    const struct api_pod *pod = bind_pod(b);
    struct client_key key = {sched_kind(WATCH_PODS), pod->metadata.namespace, pod->metadata.name};
    client_get(b->s->client, &key, calls_on_answer, calls_begin(b->s, fence_on_pod_read, b));
}

static void fence_on_pod_read(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct binding *b = arg;
    const struct typed_object *o = answer->object;
    if (answer->code < 0 && answer->code != -ERR_NOT_FOUND) {
        b->timer = (struct exec_timer){.fn = fence_on_timer, .arg = b};
        exec_timer_start(s->exec, &b->timer, LOOK_NS);
        return;
    }
    if (answer->code < 0 || !o || !str_eq(o->meta->uid, b->pod_object->meta->uid)) {
        bind_pod_is(b, POD_IS_GONE);
        return;
    }
    const struct api_pod *now = o->object.value;
    bool fenced = fence_between(bind_pod(b), now);
    fence_hold_pod(b, o);
    if (now->spec.node_name.n)
        bind_pod_is(b, str_eq(now->spec.node_name, b->node_name) ? POD_IS_BOUND : POD_IS_ELSEWHERE);
    else if (now->metadata.deletion_timestamp.set)
        bind_pod_is(b, POD_IS_GONE); // the API binds none that is being deleted
    else
        bind_pod_is(b, fenced ? POD_IS_FENCED : POD_IS_OPEN);
}

void fence_look(struct binding *b)
{
    fence_on_timer(b);
}

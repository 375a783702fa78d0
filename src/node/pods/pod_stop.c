// SPDX-License-Identifier: Apache-2.0
//
// The stop of a pod: preStop, the stop with its grace, sidecars last; then sandbox, claims,
// volumes; then the object is deleted. pod_continue_stop is the whole chain in order.
#include <stdlib.h>

#include "base/mem.h"
#include "node/pods/pod_sweep.h"
#include "node/pods/pods_int.h"
#include "os/fault.h"

#include "base/banned.h"

#define GRACE_MIN_NS  (2 * CLOCK_NS_PER_SEC) // that is left after a preStop hook
#define GONE_GRACE_NS (2 * CLOCK_NS_PER_SEC) // of a pod whose object is gone

int64_t pod_seconds_ns(int64_t seconds)
{
    return (seconds < INT32_MAX ? seconds : INT32_MAX) * CLOCK_NS_PER_SEC;
}

int64_t pod_grace_ns(const struct pod *p)
{
    const struct api_pod *pod = pod_spec_of(p);
    int64_t spec = pod->spec.has_termination_grace_period_seconds
                       ? pod_seconds_ns(pod->spec.termination_grace_period_seconds)
                       : 30 * CLOCK_NS_PER_SEC;
    if (pod->metadata.deletion_timestamp.set && pod->metadata.has_deletion_grace_period_seconds)
        spec = pod_seconds_ns(pod->metadata.deletion_grace_period_seconds);
    if (p->gone && spec > GONE_GRACE_NS)
        spec = GONE_GRACE_NS;
    if (p->evicted && spec > p->evict_grace_ns)
        spec = p->evict_grace_ns;
    return spec < 0 ? 0 : spec;
}

// --- One container -------------------------------------------------------------------------------

static void pod_stop_container_ended(struct pod_container *c)
{
    struct runtime_container_status s;
    if (pod_runtime(c->pod)->ops->container_status(pod_runtime(c->pod), str_z(c->now.id), &s) &&
        s.state == RUNTIME_EXITED) {
        pod_run_set(&c->now, &s);
    } else { // the runtime has lost it
        c->now.state = RUNTIME_EXITED;
        c->now.exit_code = 137;
        c->now.finished_ns = exec_wall_ns(c->pod->owner->exec);
        if (!c->now.reason)
            c->now.reason = xstrndup("ContainerStatusUnknown", 22);
    }
    pod_container_exited(c);
}

static void pod_stop_on_container_stopped(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    struct str id = str_z(((struct pod_call *)arg)->text);
    struct pod_container *c = ((struct pod_call *)arg)->container;
    bool same = list_linked(&((struct pod_call *)arg)->node) && c->now.id && str_eqz(id, c->now.id);
    if (!pod_call_take(arg, &call))
        return;
    if (!same) {
        pod_wake(call.pod, 0);
        return;
    }
    if (c->now.state == RUNTIME_EXITED) { // reported already
        pod_wake(c->pod, 0);
        return;
    }
    if (code == 0 || code == -ERR_NOT_FOUND) {
        pod_stop_container_ended(c);
        return;
    }
    c->stopping = false;
    pod_add_event(c->pod, EVENT_WARNING, "FailedKillPod", "error killing pod: %s", err->msg);
    pod_wake(c->pod, c->pod->owner->options.times.retry_max_ns);
}

static void pod_stop_kill_container(struct pod_container *c, int64_t grace_ns)
{
    struct pod_call *call = pod_call_new(c->pod, c);
    call->text = xstrndup(c->now.id, strlen(c->now.id));
    fault_point("container_stop");
    pod_runtime(c->pod)->ops->container_stop(pod_runtime(c->pod), str_z(c->now.id), grace_ns,
                                             pod_stop_on_container_stopped, call);
}

static int64_t pod_stop_grace_left_ns(const struct pod_container *c, int64_t begun_ns)
{
    int64_t left = c->grace_ns - (exec_now_ns(c->pod->owner->exec) - begun_ns);
    return c->grace_ns <= 0 ? 0 : left < GRACE_MIN_NS ? GRACE_MIN_NS : left;
}

static void pod_stop_on_pre_stop(void *arg, bool ok, struct str text)
{
    struct pod_container *c = arg;
    c->hook = NULL;
    exec_timer_stop(c->pod->owner->exec, &c->hook_timer);
    if (!ok) {
        (void)text;
        pod_container_event(c, EVENT_WARNING, "FailedPreStopHook", "PreStopHook failed");
    }
    pod_stop_kill_container(c, pod_stop_grace_left_ns(c, c->stop_begun_ns));
}

static void pod_stop_on_pre_stop_slept(void *arg)
{
    pod_stop_on_pre_stop(arg, true, STR(""));
}

void pod_stop_container(struct pod_container *c, int64_t grace_ns, const char *message)
{
    const struct api_lifecycle *l = pod_container_spec(c)->lifecycle;
    if (c->stopping || !pod_container_is_alive(c))
        return;
    c->stopping = true;
    c->grace_ns = grace_ns;
    c->stop_begun_ns = exec_now_ns(c->pod->owner->exec);
    pod_probes_end(c, false);
    probe_cancel(take_ptr(c->hook)); // a postStart that is still under way
    exec_timer_stop(c->pod->owner->exec, &c->hook_timer);
    if (message)
        pod_container_event(c, EVENT_NORMAL, "Killing", "%s", message);
    else
        pod_container_event(c, EVENT_NORMAL, "Killing", "Stopping container %s", c->name);
    if (l && l->pre_stop && grace_ns > 0 && c->now.state == RUNTIME_RUNNING) {
        fault_point("pre_stop");
        pod_hook_run(c, l->pre_stop, grace_ns, pod_stop_on_pre_stop_slept, pod_stop_on_pre_stop);
    } else {
        pod_stop_kill_container(c, grace_ns);
    }
}

// a shorter grace
static void pod_stop_check_containers(struct pod_container *c, int64_t grace_ns)
{
    c->grace_ns = grace_ns;
    if (c->hook || exec_timer_armed(&c->hook_timer)) { // the hook's time is cut short as well
        probe_cancel(take_ptr(c->hook));
        exec_timer_stop(c->pod->owner->exec, &c->hook_timer);
    }
    pod_stop_kill_container(c, grace_ns);
}

// --- All containers of a pod ---------------------------------------------------------------------

static int64_t pod_stop_time_left_ns(const struct pod *p)
{
    int64_t left = p->stop.grace_ns - (exec_now_ns(p->owner->exec) - p->stop.begun_ns);
    return left > 0 ? left : 0;
}

// A deletion that is more urgent than the first one.
static void pod_stop_shorten_grace(struct pod *p)
{
    int64_t grace = pod_grace_ns(p);
    if (grace >= p->stop.grace_ns)
        return;
    p->stop.grace_ns = grace;
    for (size_t i = 0; i < p->containers_len; i++)
        if (p->containers[i]->stopping && pod_container_is_alive(p->containers[i]))
            pod_stop_check_containers(p->containers[i], pod_stop_time_left_ns(p));
}

// True: all have ended. Sidecars end after the others, the last one first.
static bool pod_stop_stop_all(struct pod *p)
{
    bool alive = false;
    pod_stop_shorten_grace(p);
    for (size_t i = 0; i < p->containers_len; i++) {
        struct pod_container *c = p->containers[i];
        if (c->kind == POD_SIDECAR || !pod_container_is_alive(c))
            continue;
        alive = true;
        pod_stop_container(c, pod_stop_time_left_ns(p), NULL);
    }
    for (size_t i = p->containers_len; i > 0 && !alive; i--) {
        struct pod_container *c = p->containers[i - 1];
        if (c->kind != POD_SIDECAR || !pod_container_is_alive(c))
            continue;
        alive = true;
        pod_stop_container(c, pod_stop_time_left_ns(p), NULL);
    }
    return !alive;
}

// --- Steps of the stop ---------------------------------------------------------------------------

// pod_stop_advance: the step is done, the next one is due.
static void pod_stop_advance(struct pod *p)
{
    enum pod_stop_step done = p->stop.step++;
    if (done == STOP_SANDBOX)
        p->sandbox.ready = false;
    if (done == STOP_VOLUMES) {
        p->volumes_ready = false;
        p->stage = POD_STOPPED;
        pod_status_changed(p);
    }
    pod_step_done(p);
}

static void pod_stop_on_done(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod *p = call.pod;
    if (code == 0) {
        pod_stop_advance(p);
        return;
    }
    pod_add_event(p, EVENT_WARNING, "FailedKillPod", "error killing pod: %s%s",
                  p->stop.step == STOP_CLAIMS ? "unprepare dynamic resources: " : "", err->msg);
    pod_step_failed(p);
}

static void pod_stop_release_claims(struct pod *p)
{
    if (p->owner->devices)
        devplug_release(p->owner->devices, str_z(p->uid_text));
    if (p->owner->dra && dra_needs_unprepare(p->owner->dra, str_z(p->uid_text)))
        dra_unprepare(p->owner->dra, p->object, pod_stop_on_done, pod_call_new(p, NULL));
    else
        pod_stop_advance(p);
}

static void pod_stop_on_deleted(void *arg, const struct client_answer *a)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod *p = call.pod;
    p->stop.deleting = false;
    if (a->code == 0 || a->code == -ERR_NOT_FOUND || a->code == -ERR_CONFLICT)
        p->stop.delete_sent = true; // the object goes when its finalizers are done
    else
        pod_wake(p, p->owner->options.times.retry_max_ns);
    pod_release(p);
}

static void pod_stop_delete_object(struct pod *p)
{
    const struct api_object_meta *m = p->object->meta;
    struct api_preconditions same = {.uid = m->uid, .has_uid = true};
    const struct api_delete_options now = {
        .preconditions = &same, .grace_period_seconds = 0, .has_grace_period_seconds = true};
    const struct client_key at = {p->object->object.kind, m->namespace, m->name};
    p->stop.deleting = true;
    fault_point("delete pod");
    client_delete(p->owner->options.client, &at, &now, pod_stop_on_deleted, pod_call_new(p, NULL));
}

void pod_continue_stop(struct pod *p)
{
    struct str uid = str_z(p->uid_text);
    int64_t now = exec_now_ns(p->owner->exec);
    if (p->retry_at_ns > now && p->retry.delay_ns > 0) {
        pod_wake(p, p->retry_at_ns - now);
        return;
    }
    switch (p->stop.step) {
    case STOP_CONTAINERS:
        if (pod_stop_stop_all(p))
            pod_stop_advance(p);
        return;
    case STOP_SANDBOX:
        p->busy = true;
        pod_sweep(p->owner, uid, SWEEP_STOP, 0, pod_stop_on_done, pod_call_new(p, NULL));
        return;
    case STOP_CLAIMS:
        p->busy = true;
        pod_stop_release_claims(p);
        return;
    case STOP_VOLUMES:
        p->busy = true;
        fault_point("volumes down");
        pods_remove_files(p->owner, uid, false, pod_stop_on_done, pod_call_new(p, NULL));
        return;
    case STOP_RECORDS: // they and the logs stay until the pod is deleted
        if (!p->gone && !p->object->meta->deletion_timestamp.set)
            return;
        p->busy = true;
        pod_sweep(p->owner, uid, SWEEP_REMOVE, 0, pod_stop_on_done, pod_call_new(p, NULL));
        return;
    case STOP_FILES:
        p->busy = true;
        fault_point("pod folder");
        pods_remove_files(p->owner, uid, true, pod_stop_on_done, pod_call_new(p, NULL));
        return;
    case STOP_OBJECT:
        if (p->gone)
            pod_release(p);
        else if (!p->stop.deleting && !p->stop.delete_sent && pod_status_written(p))
            pod_stop_delete_object(p);
        return;
    }
}

void pod_stop(struct pod *p)
{
    p->stage = POD_STOPPING;
    p->stop.step = STOP_CONTAINERS;
    p->stop.begun_ns = exec_now_ns(p->owner->exec);
    p->stop.grace_ns = pod_grace_ns(p);
    p->retry = (struct pod_backoff){0};
    exec_timer_stop(p->owner->exec, &p->refresh);
    if (p->pull) { // an image on its way makes nothing that would have to be undone
        list_remove(&p->pull->node);
        p->pull = NULL;
        p->busy = false;
    }
    for (size_t i = 0; i < p->containers_len; i++) {
        struct pod_container *c = p->containers[i];
        pod_probes_end(c, false);
        if ((c->hook || exec_timer_armed(&c->hook_timer)) && !c->stopping) { // postStart
            probe_cancel(take_ptr(c->hook));
            exec_timer_stop(p->owner->exec, &c->hook_timer);
            p->busy = false;
        }
    }
    pod_status_changed(p);
    if (p->admitting)
        devplug_release(p->owner->devices, str_z(p->uid_text)); // goes on from there
    else if (!p->busy)
        pod_continue_stop(p);
}

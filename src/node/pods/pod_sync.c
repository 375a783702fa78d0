// SPDX-License-Identifier: Apache-2.0
//
// Decides what is due for a pod: admission, the sandbox, the order and restarts of containers, and
// the stop.
#include <errno.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/mem.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

// --- States of containers ------------------------------------------------------------------------

bool pod_run_is_stale(const struct pod *p, const struct pod_run *r)
{
    return !p->sandbox.ready || !r->sandbox_id || !p->sandbox.id ||
           strcmp(r->sandbox_id, p->sandbox.id) != 0;
}

bool pod_container_is_alive(const struct pod_container *c)
{
    return c->now.id && c->now.state != RUNTIME_EXITED;
}

static bool pod_sync_rule_matches(const struct api_container_restart_rule *r, int32_t exit_code)
{
    if (!r->exit_codes || !str_eqz(r->action, "Restart"))
        return false;
    bool among = false;
    for (size_t i = 0; i < r->exit_codes->values.n; i++)
        among |= r->exit_codes->values.p[i] == exit_code;
    return str_eqz(r->exit_codes->operator, "NotIn") ? !among : among;
}

// Whether a container that ended with exit_code is started again.
static bool pod_sync_will_restart(const struct pod_container *c, int32_t exit_code)
{
    const struct api_container *spec = pod_container_spec(c);
    struct str policy = pod_spec_of(c->pod)->spec.restart_policy;
    if (c->kind == POD_DEBUG)
        return false;
    for (size_t i = 0; i < spec->restart_policy_rules.n; i++)
        if (pod_sync_rule_matches(&spec->restart_policy_rules.p[i], exit_code))
            return true;
    if (spec->has_restart_policy)
        policy = spec->restart_policy;
    if (str_eqz(policy, "Never"))
        return false;
    // An init container that has done its work is not needed again.
    bool always = str_eqz(policy, "Always") && c->kind != POD_INIT;
    return always || exit_code != 0;
}

bool pod_container_is_over(const struct pod_container *c)
{
    return c->now.id && c->now.state == RUNTIME_EXITED &&
           !pod_sync_will_restart(c, c->now.exit_code);
}

// An init container failed for good, or every container has ended for good.
static bool pod_sync_is_over(const struct pod *p)
{
    bool all = true;
    for (size_t i = 0; i < p->containers_len; i++) {
        const struct pod_container *c = p->containers[i];
        if (c->kind == POD_INIT && pod_container_is_over(c) && c->now.exit_code != 0)
            return true;
        if (c->kind == POD_MAIN && !pod_container_is_over(c))
            all = false;
    }
    return all;
}

// A container of the pod proper has been made in these namespaces: initialisation is behind it.
static bool pod_sync_is_initialized(const struct pod *p)
{
    for (size_t i = 0; i < p->containers_len; i++)
        if (p->containers[i]->kind == POD_MAIN && p->containers[i]->now.id &&
            !pod_run_is_stale(p, &p->containers[i]->now))
            return true;
    return false;
}

void pod_container_exited(struct pod_container *c)
{
    pod_probes_end(c, true);
    // A postStart hook that is under way is the pod's step of the moment: it is over, too.
    if ((c->hook || exec_timer_armed(&c->hook_timer)) && !c->stopping)
        c->pod->busy = false;
    probe_cancel(take_ptr(c->hook));
    exec_timer_stop(c->pod->owner->exec, &c->hook_timer);
    pod_message_read(c, &c->now);
    c->ready = c->started = false;
    c->stopping = false;
    pod_status_changed(c->pod);
    pod_wake(c->pod, 0);
}

// --- Back-off after crashes ----------------------------------------------------------------------

// How long a container that ended waits still; 0: not at all.
static int64_t pod_sync_crash_wait_ns(const struct pod_container *c)
{
    const struct pods *p = c->pod->owner;
    const struct pod_backoff *b = &c->crash;
    if (b->delay_ns == 0 ||
        c->now.finished_ns - b->updated_ns > 2 * p->options.times.backoff_max_ns)
        return 0;
    int64_t left = c->now.finished_ns + b->delay_ns - exec_wall_ns(p->exec);
    if (left > b->delay_ns)
        return 0; // the clock was set back: the time already waited is unknown
    return left > 0 ? left : 0;
}

static void pod_sync_grow_crash_backoff(struct pod_container *c)
{
    const struct pods_times *t = &c->pod->owner->options.times;
    struct pod_backoff *b = &c->crash;
    (void)pod_backoff_next(b, c->now.finished_ns, t->backoff_first_ns, t->backoff_max_ns);
    b->updated_ns = exec_wall_ns(c->pod->owner->exec);
}

// As Go writes durations of whole seconds.
static void pod_sync_add_duration(struct sbuf *out, int64_t ns)
{
    int64_t s = ns / CLOCK_NS_PER_SEC;
    if (s >= 60)
        sbuf_addf(out, "%lldm", (long long)(s / 60));
    sbuf_addf(out, "%llds", (long long)(s % 60));
}

static void pod_sync_report_crash_loop(struct pod_container *c)
{
    const struct api_object_meta *m = c->pod->object->meta;
    cleanup_sbuf struct sbuf text = {0};
    if (c->waiting_reason && strcmp(c->waiting_reason, "CrashLoopBackOff") == 0)
        return;
    pod_container_event(c, EVENT_WARNING, "BackOff",
                        "Back-off restarting failed container %s in pod %.*s_%.*s(%.*s)", c->name,
                        STR_ARG(m->name), STR_ARG(m->namespace), STR_ARG(m->uid));
    sbuf_addz(&text, "back-off ");
    pod_sync_add_duration(&text, c->crash.delay_ns);
    sbuf_addf(&text, " restarting failed container=%s pod=%.*s_%.*s(%.*s)", c->name,
              STR_ARG(m->name), STR_ARG(m->namespace), STR_ARG(m->uid));
    pod_container_wait(c, "CrashLoopBackOff", text.p);
}

// --- Containers ----------------------------------------------------------------------------------

enum next { NEXT_NOTHING, NEXT_LATER, NEXT_BEGUN };

// pod_sync_start_container starts a container that shall run and does not, unless it has to wait.
static enum next pod_sync_start_container(struct pod_container *c)
{
    struct pod *p = c->pod;
    int64_t now = exec_now_ns(p->owner->exec);
    if (c->now.id && c->now.state == RUNTIME_EXITED && !pod_run_is_stale(p, &c->now)) {
        int64_t wait = pod_sync_crash_wait_ns(c);
        if (wait > 0) {
            pod_sync_report_crash_loop(c);
            pod_wake(p, wait);
            return NEXT_LATER;
        }
    }
    if (c->not_before_ns > now) {
        bool shown = now - c->pull.updated_ns >= CLOCK_NS_PER_SEC; // people can see why, first
        if (shown && c->pull_error && c->waiting_reason &&
            strcmp(c->waiting_reason, "ErrImagePull") == 0) {
            cleanup_sbuf struct sbuf text = {0};
            sbuf_addf(&text, "Back-off pulling image \"%.*s\": ErrImagePull: %s",
                      STR_ARG(pod_container_spec(c)->image), c->pull_error);
            pod_container_event(c, EVENT_NORMAL, "BackOff", "Back-off pulling image \"%.*s\"",
                                STR_ARG(pod_container_spec(c)->image));
            pod_container_wait(c, "ImagePullBackOff", text.p);
        }
        int64_t next = shown ? c->not_before_ns : c->pull.updated_ns + CLOCK_NS_PER_SEC;
        pod_wake(p, (next < c->not_before_ns ? next : c->not_before_ns) - now);
        return NEXT_LATER;
    }
    if (c->now.id && c->now.state == RUNTIME_EXITED && !pod_run_is_stale(p, &c->now))
        pod_sync_grow_crash_backoff(c);
    pod_start_container(c);
    return NEXT_BEGUN;
}

// The image in the spec is another than the one it was started with.
static bool pod_sync_image_changed(const struct pod_container *c)
{
    return c->image_asked && !str_eqz(pod_container_spec(c)->image, c->image_asked);
}

// pod_sync_check_container: what one container that should run needs.
static enum next pod_sync_check_container(struct pod_container *c)
{
    struct pod *p = c->pod;
    if (c->stopping)
        return NEXT_LATER;
    if (!c->now.id || pod_run_is_stale(p, &c->now))
        return pod_sync_start_container(c);
    if (c->now.state == RUNTIME_RUNNING && pod_sync_image_changed(c)) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Container %s definition changed, will be restarted", c->name);
        pod_stop_container(c, pod_grace_ns(p), text.p);
        return NEXT_LATER;
    }
    if (c->now.state == RUNTIME_RUNNING)
        return NEXT_NOTHING;
    if (c->now.state == RUNTIME_UNKNOWN) { // perhaps it runs: never two at once
        pod_stop_container(c, pod_grace_ns(p),
                           "Container is in \"unknown\" state, try killing it before restart");
        return NEXT_LATER;
    }
    if (c->now.state == RUNTIME_CREATED) // made, not started: a crash lies between
        return pod_sync_start_container(c);
    return pod_container_is_over(c) && !pod_sync_image_changed(c) ? NEXT_NOTHING
                                                                  : pod_sync_start_container(c);
}

// An ephemeral container is started once, and never again.
static void pod_sync_check_ephemeral(struct pod_container *c)
{
    bool made = c->now.id && c->now.state == RUNTIME_CREATED && !pod_run_is_stale(c->pod, &c->now);
    if (!c->stopping && (!c->now.id || made))
        (void)pod_sync_start_container(c);
}

static bool pod_sync_sidecar_started(const struct pod_container *c)
{
    return c->now.id && c->now.state == RUNTIME_RUNNING && !pod_run_is_stale(c->pod, &c->now) &&
           (!pod_container_spec(c)->startup_probe || c->started);
}

// Init containers one after the other; sidecars only have to be up.
static bool pod_sync_run_init_containers(struct pod *p)
{
    for (size_t i = 0; i < p->containers_len && p->containers[i]->kind != POD_MAIN; i++) {
        struct pod_container *c = p->containers[i];
        enum next next = pod_sync_check_container(c);
        bool done = c->kind == POD_SIDECAR
                        ? pod_sync_sidecar_started(c)
                        : c->now.id && c->now.state == RUNTIME_EXITED && c->now.exit_code == 0 &&
                              !pod_run_is_stale(p, &c->now);
        if (next == NEXT_BEGUN || !done)
            return false;
    }
    return true;
}

static void pod_sync_run_containers(struct pod *p)
{
    bool initialized = pod_sync_is_initialized(p);
    // Also while init containers fail: that is when people want to look.
    for (size_t i = 0; i < p->containers_len && !p->busy; i++)
        if (p->containers[i]->kind == POD_DEBUG)
            pod_sync_check_ephemeral(p->containers[i]);
    if (p->busy || (!initialized && !pod_sync_run_init_containers(p)))
        return;
    for (size_t i = 0; i < p->containers_len && !p->busy; i++) {
        struct pod_container *c = p->containers[i];
        if (c->kind == POD_DEBUG || c->kind == POD_INIT || (c->kind == POD_SIDECAR && !initialized))
            continue;
        (void)pod_sync_check_container(c);
    }
}

// --- Sandbox -------------------------------------------------------------------------------------

// What ran in namespaces that are gone is ended before new ones are made.
static bool pod_sync_stop_old_containers(struct pod *p)
{
    bool over = true;
    for (size_t i = 0; i < p->containers_len; i++) {
        struct pod_container *c = p->containers[i];
        if (!pod_container_is_alive(c))
            continue;
        over = false;
        if (!c->stopping)
            pod_stop_container(c, 0, "Pod sandbox changed, it will be killed and re-created.");
    }
    return over;
}

static bool pod_sync_has_run(const struct pod *p, enum pod_container_kind least)
{
    for (size_t i = 0; i < p->containers_len; i++)
        if (p->containers[i]->kind >= least && p->containers[i]->now.id)
            return true;
    return false;
}

// Without anything left to start, namespaces are not made again.
static bool pod_sync_needs_sandbox(const struct pod *p)
{
    struct str policy = pod_spec_of(p)->spec.restart_policy;
    if (str_eqz(policy, "Never") && p->sandbox.known && pod_sync_has_run(p, POD_INIT))
        return false;
    bool on_failure = str_eqz(policy, "OnFailure");
    for (size_t i = 0; i < p->containers_len; i++) {
        const struct pod_container *c = p->containers[i];
        if (c->kind != POD_MAIN)
            continue;
        bool done =
            on_failure && c->now.id && c->now.state == RUNTIME_EXITED && c->now.exit_code == 0;
        if (!done)
            return true;
    }
    return !pod_sync_has_run(p, POD_MAIN);
}

// --- Admission, deadline -------------------------------------------------------------------------

static void pod_sync_fail(struct pod *p, const char *reason, const char *message)
{
    pod_text_set(&p->failed_reason, reason);
    pod_text_set(&p->failed_message, message);
}

static void pod_sync_reject(struct pod *p, const char *reason, const char *message)
{
    cleanup_sbuf struct sbuf text = {0};
    pod_add_event(p, EVENT_WARNING, reason, "%s", message);
    sbuf_addf(&text, "Pod was rejected: %s", message);
    pod_sync_fail(p, reason, text.p);
    p->rejected = true;
    p->stage = POD_STOPPED;
    p->stop.step = STOP_RECORDS;
    pod_status_changed(p);
}

static void pod_sync_accept(struct pod *p)
{
    p->admitted = true;
    if (!p->start_time.set) {
        int64_t now = exec_wall_ns(p->owner->exec) / CLOCK_NS_PER_SEC;
        p->start_time = (struct api_time){.at = {.sec = now}, .set = true};
    }
    pod_status_changed(p);
}

static void pod_sync_on_devices_allocated(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod *p = call.pod;
    p->admitting = p->busy = false;
    if (code == 0 && p->stage == POD_ACTIVE) {
        pod_sync_accept(p);
    } else if (code != -ECANCELED && p->stage == POD_ACTIVE) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Allocate failed due to %s, which is unexpected", err->msg);
        pod_sync_reject(p, "UnexpectedAdmissionError", text.p);
    }
    pod_sync(p);
}

// True: device plugins are called; pod_sync runs again when they have answered.
static bool pod_sync_allocate_devices(struct pod *p)
{
    struct devplug *d = p->owner->devices;
    if (!d || !devplug_wanted(d, pod_spec_of(p)))
        return false;
    p->admitting = p->busy = true;
    devplug_allocate(d, p->object, pod_sync_on_devices_allocated, pod_call_new(p, NULL));
    return true;
}

// A pod whose RuntimeClass is gone waits for it, as under kubelet.
static bool pod_sync_check_runtime_class(struct pod *p)
{
    if (pod_runtime_class_is_known(p))
        return true;
    if (informer_synced(p->owner->runtime_classes))
        pod_add_event(p, EVENT_WARNING, "FailedCreatePodSandBox",
                      "Failed to create pod sandbox: RuntimeClass \"%.*s\" not found; create it",
                      STR_ARG(pod_spec_of(p)->spec.runtime_class_name));
    return false;
}

// True: it may go on. A pod that was here before is not asked again.
static bool pod_sync_admit(struct pod *p)
{
    cleanup_sbuf struct sbuf reason = {0}, message = {0};
    if (p->admitted)
        return true;
    if (!p->sandbox.known && !pod_sync_has_run(p, POD_INIT) && !p->start_time.set) {
        if (!p->owner->options.node_object(p->owner->options.arg))
            return false; // woken when the node is known
        if (!pod_sync_check_runtime_class(p))
            return false; // woken when it is created
        if (!pod_admit(p->owner, p, &reason, &message)) {
            pod_sync_reject(p, reason.p, message.p);
            return false;
        }
        if (pod_sync_allocate_devices(p))
            return false;
    }
    pod_sync_accept(p);
    return true;
}

// The pod has been here longer than it may.
static bool pod_sync_is_past_deadline(struct pod *p)
{
    const struct api_pod_spec *s = &pod_spec_of(p)->spec;
    if (!s->has_active_deadline_seconds || !p->start_time.set)
        return false;
    int64_t left = (p->start_time.at.sec + s->active_deadline_seconds) * CLOCK_NS_PER_SEC -
                   exec_wall_ns(p->owner->exec);
    if (left > 0) {
        pod_wake(p, left);
        return false;
    }
    pod_add_event(p, EVENT_NORMAL, "DeadlineExceeded",
                  "Pod was active on the node longer than the specified deadline");
    pod_sync_fail(p, "DeadlineExceeded",
                  "Pod was active on the node longer than the specified deadline");
    return true;
}

// --- Synchronization -----------------------------------------------------------------------------

static bool pod_sync_should_stop(const struct pod *p)
{
    return p->gone || p->object->meta->deletion_timestamp.set || pod_is_terminal(pod_spec_of(p)) ||
           p->failed_reason || pod_sync_is_over(p);
}

static void pod_sync_sync_active(struct pod *p)
{
    if (pod_sync_should_stop(p) || (p->admitted && pod_sync_is_past_deadline(p))) {
        pod_stop(p);
        return;
    }
    if (p->busy || !pod_sync_admit(p))
        return;
    int64_t now = exec_now_ns(p->owner->exec);
    if (p->retry_at_ns > now) {
        pod_wake(p, p->retry_at_ns - now);
        return;
    }
    if (p->sandbox.ready)
        pod_sync_run_containers(p);
    else if (!pod_sync_needs_sandbox(p))
        pod_stop(p);
    else if (pod_sync_stop_old_containers(p))
        pod_start_sandbox(p);
}

void pod_sync(struct pod *p)
{
    if (!p->owner->swept || p->owner->quiet)
        return;
    if (p->stage == POD_ACTIVE)
        pod_sync_sync_active(p);
    else if (!p->busy)
        pod_continue_stop(p);
}

bool pod_step_goes_on(struct pod *p)
{
    if (p->stage == POD_ACTIVE && !p->owner->quiet)
        return true;
    p->busy = false;
    pod_sync(p);
    return false;
}

bool pod_step_take(void *arg, struct pod_call *ret)
{
    return pod_call_take(arg, ret) && pod_step_goes_on(ret->pod);
}

void pod_step_done(struct pod *p)
{
    p->busy = false;
    p->retry = (struct pod_backoff){0};
    pod_sync(p);
}

void pod_step_failed(struct pod *p)
{
    const struct pods_times *t = &p->owner->options.times;
    p->busy = false;
    int64_t wait = pod_backoff_next(&p->retry, exec_now_ns(p->owner->exec), t->retry_first_ns,
                                    t->retry_max_ns);
    p->retry_at_ns = exec_now_ns(p->owner->exec) + wait;
    pod_status_changed(p);
    pod_wake(p, wait);
}

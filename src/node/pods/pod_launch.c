// SPDX-License-Identifier: Apache-2.0
//
// A container starts: image, making, start, postStart, probes.
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "node/pods/pods_int.h"
#include "os/fault.h"

#include "base/banned.h"

#define HOOK_TIMEOUT_NS (INT64_C(3600) * CLOCK_NS_PER_SEC) // hooks have no limit of their own

static struct runtime *pod_launch_runtime(const struct pod_container *c)
{
    return c->pod->owner->options.runtime;
}

static bool pod_launch_end_call(void *arg, struct pod_call *call)
{
    if (!pod_call_take(arg, call))
        return false;
    if (call->pod->stage == POD_ACTIVE && !call->pod->owner->quiet)
        return true;
    call->pod->busy = false;
    pod_sync(call->pod);
    return false;
}

static char *pod_launch_copy_text(const char *z)
{
    return z ? xstrndup(z, strlen(z)) : NULL;
}

void pod_container_wait(struct pod_container *c, const char *reason, const char *message)
{
    free(c->waiting_reason);
    free(c->waiting_message);
    c->waiting_reason = pod_launch_copy_text(reason);
    c->waiting_message = pod_launch_copy_text(message);
    pod_status_changed(c->pod);
}

// A try failed: the reason is shown, and another try comes later. Other containers go on meanwhile.
static void pod_launch_retry_later(struct pod_container *c, const char *reason, const char *message)
{
    const struct pods_times *t = &c->pod->owner->options.times;
    int64_t wait = pod_backoff_next(&c->pull, exec_now_ns(c->pod->owner->exec), t->backoff_first_ns,
                                    t->backoff_max_ns);
    c->not_before_ns = exec_now_ns(c->pod->owner->exec) + wait;
    pod_container_wait(c, reason, message);
    c->pod->busy = false;
    pod_wake(c->pod, wait < CLOCK_NS_PER_SEC ? wait : CLOCK_NS_PER_SEC);
}

// --- Probes --------------------------------------------------------------------------------------

void pod_probe_target(const struct pod_container *c, struct probe_target *ret)
{
    const struct pod *p = c->pod;
    struct runtime *r = pod_launch_runtime(c);
    *ret = (struct probe_target){.exec = p->owner->exec,
                                 .runtime = r,
                                 .net = p->owner->options.net,
                                 .container_id = str_z(c->now.id),
                                 .address = str_z(p->address),
                                 .container = pod_container_spec(c)};
    if (p->sandbox_id)
        ret->netns = r->ops->pod_netns(r, str_z(p->sandbox_id));
}

static void pod_launch_update_ready(struct pod_container *c)
{
    const struct probe *r = c->probes[PROBE_READINESS];
    bool ready =
        c->now.id && c->now.state == RUNTIME_RUNNING && c->started && (!r || probe_good(r));
    if (ready != c->ready) {
        c->ready = ready;
        pod_status_changed(c->pod);
    }
}

static int64_t pod_launch_probe_grace_ns(const struct pod_container *c,
                                         const struct api_probe *probe)
{
    return probe->has_termination_grace_period_seconds
               ? pod_seconds_ns(probe->termination_grace_period_seconds)
               : pod_grace_ns(c->pod);
}

static void pod_launch_on_probe_changed(void *arg, enum probe_type type, bool good)
{
    struct pod_container *c = arg;
    struct pod *p = c->pod;
    const struct api_container *spec = pod_container_spec(c);
    if (type == PROBE_STARTUP && good) {
        c->started = true;
        if (c->probes[PROBE_LIVENESS])
            probe_start(c->probes[PROBE_LIVENESS]);
        if (c->probes[PROBE_READINESS])
            probe_start(c->probes[PROBE_READINESS]);
        pod_status_changed(p);
        pod_wake(p, 0);
    }
    if (!good && type != PROBE_READINESS && p->stage == POD_ACTIVE) {
        cleanup_sbuf struct sbuf text = {0};
        bool again =
            c->kind == POD_SIDECAR || !str_eqz(pod_spec_of(p)->spec.restart_policy, "Never");
        sbuf_addf(&text, "%s %s failed %s probe%s",
                  c->kind == POD_MAIN ? "Container" : "Init container", c->name,
                  type == PROBE_LIVENESS ? "liveness" : "startup",
                  again ? ", will be restarted" : "");
        const struct api_probe *probe =
            type == PROBE_LIVENESS ? spec->liveness_probe : spec->startup_probe;
        pod_stop_container(c, probe ? pod_launch_probe_grace_ns(c, probe) : pod_grace_ns(p),
                           text.p);
    }
    pod_launch_update_ready(c);
}

static void pod_launch_on_probe_failed(void *arg, enum probe_type type, struct str text)
{
    struct pod_container *c = arg;
    pod_container_event(c, EVENT_WARNING, "Unhealthy", "%s probe failed: %.*s",
                        probe_type_name(type), STR_ARG(text));
}

static void pod_launch_add_probe(struct pod_container *c, enum probe_type type,
                                 const struct api_probe *probe, bool good)
{
    if (!probe || c->probes[type])
        return;
    struct probe_options o = {.type = type,
                              .pod = c->pod->object,
                              .probe = probe,
                              .started_ns = c->now.started_ns,
                              .good = good,
                              .changed = pod_launch_on_probe_changed,
                              .failed = pod_launch_on_probe_failed,
                              .arg = c};
    pod_probe_target(c, &o.target);
    c->probes[type] = probe_new(&o);
}

void pod_begin_probes(struct pod_container *c)
{
    const struct api_container *s = pod_container_spec(c);
    if (c->kind == POD_INIT || c->kind == POD_DEBUG) {
        c->started = true;
        return;
    }
    if (!c->started)
        pod_launch_add_probe(c, PROBE_STARTUP, s->startup_probe, false);
    pod_launch_add_probe(c, PROBE_LIVENESS, s->liveness_probe, true);
    pod_launch_add_probe(c, PROBE_READINESS, s->readiness_probe, c->ready);
    if (c->probes[PROBE_STARTUP]) {
        probe_start(c->probes[PROBE_STARTUP]);
    } else {
        c->started = true;
        if (c->probes[PROBE_LIVENESS])
            probe_start(c->probes[PROBE_LIVENESS]);
        if (c->probes[PROBE_READINESS])
            probe_start(c->probes[PROBE_READINESS]);
    }
    pod_launch_update_ready(c);
}

void pod_end_probes(struct pod_container *c, bool all)
{
    for (size_t i = 0; i < PROBE_TYPES; i++)
        if (all || i != PROBE_READINESS)
            probe_free(take_ptr(c->probes[i]));
}

// --- After the start -----------------------------------------------------------------------------

static void pod_launch_finish(struct pod_container *c)
{
    c->hook_done = true;
    pod_begin_probes(c);
    pod_status_changed(c->pod);
    pod_step_done(c->pod);
}

static void pod_launch_on_post_start(void *arg, bool ok, struct str text)
{
    struct pod_container *c = arg;
    c->hook = NULL;
    if (ok) {
        pod_launch_finish(c);
        return;
    }
    (void)text;
    pod_container_event(c, EVENT_WARNING, "FailedPostStartHook", "PostStartHook failed");
    c->pod->busy = false;
    pod_stop_container(c, pod_grace_ns(c->pod), "FailedPostStartHook");
}

static void pod_launch_on_post_start_slept(void *arg)
{
    pod_launch_on_post_start(arg, true, STR(""));
}

static void pod_launch_run_post_start(struct pod_container *c)
{
    const struct api_lifecycle *l = pod_container_spec(c)->lifecycle;
    const struct api_lifecycle_handler *h = l ? l->post_start : NULL;
    if (!h) {
        pod_launch_finish(c);
        return;
    }
    if (h->sleep) {
        c->hook_timer = (struct exec_timer){.fn = pod_launch_on_post_start_slept, .arg = c};
        exec_timer_start(c->pod->owner->exec, &c->hook_timer, pod_seconds_ns(h->sleep->seconds));
        return;
    }
    struct probe_target t;
    pod_probe_target(c, &t);
    const struct api_probe_handler handler = {
        .exec = h->exec, .http_get = h->http_get, .tcp_socket = h->tcp_socket};
    c->hook = probe_run(&t, &handler, HOOK_TIMEOUT_NS, pod_launch_on_post_start, c);
}

// --- The start -----------------------------------------------------------------------------------

// pod_launch_refresh_run asks the runtime how the newest run is.
static void pod_launch_refresh_run(struct pod_container *c)
{
    struct runtime_container_status s;
    if (pod_launch_runtime(c)->ops->container_status(pod_launch_runtime(c), str_z(c->now.id), &s))
        pod_run_set(&c->now, &s);
}

static void pod_launch_on_started(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct pod *p = c->pod;
    pod_launch_refresh_run(c);
    if (code < 0) {
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
        if (c->now.state != RUNTIME_EXITED) {
            c->now.state = RUNTIME_EXITED;
            c->now.exit_code = 128;
            c->now.finished_ns = exec_wall_ns(p->owner->exec);
        }
        free(c->now.reason);
        free(c->now.message);
        c->now.reason = pod_launch_copy_text("StartError");
        c->now.message = pod_launch_copy_text(err->msg);
        c->now.message_read = true;
        pod_container_exited(c);
        p->busy = false;
        pod_sync(p);
        return;
    }
    pod_container_event(c, EVENT_NORMAL, "Started", "Container started");
    free(take_ptr(c->waiting_reason));
    free(take_ptr(c->waiting_message));
    c->pull = (struct pod_backoff){0};
    if (c->now.state == RUNTIME_EXITED) // already over
        pod_container_exited(c);
    pod_status_changed(p);
    if (p->stage != POD_ACTIVE || c->now.state != RUNTIME_RUNNING) {
        p->busy = false;
        pod_sync(p);
        return;
    }
    pod_launch_run_post_start(c);
}

static void pod_launch_start_container(struct pod_container *c)
{
    fault_point("container_start");
    pod_launch_runtime(c)->ops->container_start(pod_launch_runtime(c), str_z(c->now.id),
                                                pod_launch_on_started, pod_call_new(c->pod, c));
}

static void pod_launch_on_run_removed(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    (void)code;
    (void)err;
    if (pod_call_take(arg, &call) && call.pod->stage == POD_STOPPED)
        pod_wake(call.pod, 0);
}

// The run before the last one is not kept.
static void pod_launch_shift_runs(struct pod_container *c)
{
    if (c->last.id)
        pod_logs_drop(c, c->last.attempt);
    if (c->last.id)
        pod_launch_runtime(c)->ops->container_remove(pod_launch_runtime(c), str_z(c->last.id),
                                                     pod_launch_on_run_removed,
                                                     pod_call_new(c->pod, NULL));
    pod_run_done(&c->last);
    c->last = c->now;
    c->now = (struct pod_run){0};
}

static void pod_launch_on_created(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call, *at = arg;
    if (list_linked(&at->node) && code == 0) { // the end has to know it, too
        struct pod_container *c = at->container;
        pod_launch_shift_runs(c);
        c->now.id = xstrndup(id.p, id.n);
        c->now.attempt = c->next_attempt++;
        c->now.state = RUNTIME_CREATED;
        c->now.sandbox_id = pod_launch_copy_text(c->pod->sandbox_id);
        free(c->image_asked);
        struct str image = pod_container_spec(c)->image;
        c->image_asked = xstrndup(image.n ? image.p : "", image.n);
        pod_launch_refresh_run(c);
    }
    if (!pod_launch_end_call(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code < 0) {
        bool config = str_starts(str_z(err->msg), STR("container has runAsNonRoot"));
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
        pod_launch_retry_later(c, config ? "CreateContainerConfigError" : "CreateContainerError",
                               err->msg);
        return;
    }
    pod_container_event(c, EVENT_NORMAL, "Created", "Container created");
    pod_launch_start_container(c);
}

static void pod_launch_create_container(struct pod_container *c, struct str image)
{
    cleanup_arena struct arena arena = {0};
    struct pod_request q = {0};
    struct err err = {0};
    if (pod_request_make(c, image, &arena, &q, &err) < 0) {
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err.msg);
        pod_launch_retry_later(c, "CreateContainerConfigError", err.msg);
        return;
    }
    fault_point("container_create");
    pod_launch_runtime(c)->ops->container_create(pod_launch_runtime(c), str_z(c->pod->sandbox_id),
                                                 &q.container, pod_launch_on_created,
                                                 pod_call_new(c->pod, c));
}

static void pod_launch_on_devices_prepared(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    cleanup_free char *image = take_ptr(((struct pod_call *)arg)->text);
    if (!pod_launch_end_call(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code == 0) {
        pod_launch_create_container(c, str_z(image));
        return;
    }
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
    pod_launch_retry_later(c, "CreateContainerConfigError", err->msg);
}

// Plugins that want to know of every start are told first.
static void pod_launch_prepare_devices(struct pod_container *c, struct str image)
{
    struct devplug *d = c->pod->owner->devices;
    struct pod_call *call = d && c->kind != POD_DEBUG ? pod_call_new(c->pod, c) : NULL;
    if (call) {
        call->text = xstrndup(image.n ? image.p : "", image.n);
        if (devplug_pre_start(d, c->pod->object, pod_container_spec(c),
                              pod_launch_on_devices_prepared, call))
            return;
        struct pod_call unused;
        (void)pod_call_take(call, &unused);
    }
    pod_launch_create_container(c, image);
}

// --- The image -----------------------------------------------------------------------------------

static enum runtime_pull pod_launch_pull_policy(const struct api_container *s)
{
    return str_eqz(s->image_pull_policy, "Always")  ? RUNTIME_PULL_ALWAYS
           : str_eqz(s->image_pull_policy, "Never") ? RUNTIME_PULL_NEVER
                                                    : RUNTIME_PULL_IF_NOT_PRESENT;
}

static void pod_launch_ensure_image(struct pod_container *c, enum runtime_pull pull,
                                    runtime_id_fn done)
{
    const struct api_pod *pod = pod_spec_of(c->pod);
    const struct api_local_object_reference_array *names = &pod->spec.image_pull_secrets;
    cleanup_arena struct arena arena = {0};
    struct str *auths = arena_array(&arena, struct str, names->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < names->n; i++) {
        struct err err = {0};
        const struct api_secret *s = pod_refs_secret(&c->pod->refs, names->p[i].name, &err);
        for (size_t k = 0; s && k < s->data.n; k++)
            if (str_eqz(s->data.p[k].key, ".dockerconfigjson"))
                auths[n++] = s->data.p[k].value;
    }
    const struct runtime_image q = {
        .reference = pod_container_spec(c)->image, .pull = pull, .auths = auths, .auths_len = n};
    c->pod->pull = pod_call_new(c->pod, c);
    pod_launch_runtime(c)->ops->image_ensure(pod_launch_runtime(c), &q, done, c->pod->pull);
}

static bool pod_launch_end_pull(void *arg, struct pod_call *call)
{
    struct pod_call *at = arg;
    if (list_linked(&at->node))
        at->pod->pull = NULL;
    return pod_launch_end_call(arg, call);
}

static void pod_launch_fail_image(struct pod_container *c, int code, const struct err *err)
{
    struct str image = pod_container_spec(c)->image;
    bool bad_name =
        code == -ERR_INVALID && pod_launch_pull_policy(pod_container_spec(c)) == RUNTIME_PULL_NEVER;
    if (code == -ERR_INVALID && (bad_name || str_contains(str_z(err->msg), STR("reference")))) {
        pod_container_event(c, EVENT_WARNING, "InspectFailed",
                            "Failed to apply default image tag \"%.*s\": %s", STR_ARG(image),
                            err->msg);
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: InvalidImageName");
        pod_launch_retry_later(c, "InvalidImageName", err->msg);
        return;
    }
    const struct pods_options *o = &c->pod->owner->options;
    if (o->disk_full && (code == -ENOSPC || code == -EDQUOT))
        o->disk_full(o->arg);
    pod_container_event(c, EVENT_WARNING, "Failed", "Failed to pull image \"%.*s\": %s",
                        STR_ARG(image), err->msg);
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: ErrImagePull");
    free(c->pull_error);
    c->pull_error = pod_launch_copy_text(err->msg);
    pod_launch_retry_later(c, "ErrImagePull", err->msg);
}

static void pod_launch_on_pulled(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call;
    int64_t begun = ((struct pod_call *)arg)->begun_ns;
    if (!pod_launch_end_pull(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code < 0) {
        pod_launch_fail_image(c, code, err);
        return;
    }
    free(take_ptr(c->pull_error));
    int64_t took = exec_now_ns(c->pod->owner->exec) - begun;
    pod_container_event(c, EVENT_NORMAL, "Pulled", "Successfully pulled image \"%.*s\" in %lldms",
                        STR_ARG(pod_container_spec(c)->image), (long long)(took / CLOCK_NS_PER_MS));
    pod_launch_prepare_devices(c, id);
}

static void pod_launch_pull_image(struct pod_container *c)
{
    pod_container_event(c, EVENT_NORMAL, "Pulling", "Pulling image \"%.*s\"",
                        STR_ARG(pod_container_spec(c)->image));
    fault_point("image_pull");
    pod_launch_ensure_image(c, pod_launch_pull_policy(pod_container_spec(c)), pod_launch_on_pulled);
}

// The image is looked for on the machine first: what people are told depends on it.
static void pod_launch_on_image_checked(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call;
    if (!pod_launch_end_pull(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct str image = pod_container_spec(c)->image;
    if (code == 0) {
        pod_container_event(c, EVENT_NORMAL, "Pulled",
                            "Container image \"%.*s\" already present on machine", STR_ARG(image));
        pod_launch_prepare_devices(c, id);
    } else if (pod_launch_pull_policy(pod_container_spec(c)) != RUNTIME_PULL_NEVER &&
               code == -ERR_NOT_FOUND) {
        pod_launch_pull_image(c);
    } else if (code == -ERR_NOT_FOUND) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Container image \"%.*s\" is not present with pull policy of Never",
                  STR_ARG(image));
        pod_container_event(c, EVENT_WARNING, "ErrImageNeverPull", "%s", text.p);
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: ErrImageNeverPull");
        pod_launch_retry_later(c, "ErrImageNeverPull", text.p);
    } else {
        pod_launch_fail_image(c, code, err);
    }
}

static void pod_launch_get_image(struct pod_container *c)
{
    if (pod_launch_pull_policy(pod_container_spec(c)) == RUNTIME_PULL_ALWAYS)
        pod_launch_pull_image(c);
    else
        pod_launch_ensure_image(c, RUNTIME_PULL_NEVER, pod_launch_on_image_checked);
}

// What a container's environment is taken from is fetched again for each start after the first.
static void pod_launch_on_refs_fetched(void *arg)
{
    struct pod_container *c = arg;
    if (c->pod->stage == POD_ACTIVE) {
        pod_launch_get_image(c);
        return;
    }
    c->pod->busy = false;
    pod_sync(c->pod);
}

void pod_start_container(struct pod_container *c)
{
    struct pod *p = c->pod;
    p->busy = true;
    c->ready = c->started = c->hook_done = false;
    if (c->now.id && c->now.state == RUNTIME_CREATED && !pod_run_is_stale(p, &c->now)) {
        pod_launch_start_container(c);
        return;
    }
    bool old = exec_now_ns(p->owner->exec) - p->refs_at_ns > CLOCK_NS_PER_SEC;
    if (p->refs.all.n == 0 || (p->refs_fresh && !old)) {
        pod_launch_get_image(c);
        return;
    }
    p->refs_at_ns = exec_now_ns(p->owner->exec);
    p->refs_fresh = true;
    pod_refs_cancel(&p->refs); // of a refresh
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, pod_launch_on_refs_fetched, c);
    if (p->refs.waiting == 0)
        pod_launch_get_image(c);
}

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

static struct runtime *runtime_of(const struct pod_container *c)
{
    return c->pod->owner->options.runtime;
}

static bool step_goes_on(void *arg, struct pod_call *call)
{
    if (!pod_call_take(arg, call))
        return false;
    if (call->pod->stage == POD_ACTIVE && !call->pod->owner->quiet)
        return true;
    call->pod->busy = false;
    pod_sync(call->pod);
    return false;
}

static char *copy_z(const char *z)
{
    return z ? xstrndup(z, strlen(z)) : NULL;
}

void pod_container_wait(struct pod_container *c, const char *reason, const char *message)
{
    free(c->waiting_reason);
    free(c->waiting_message);
    c->waiting_reason = copy_z(reason);
    c->waiting_message = copy_z(message);
    pod_status_changed(c->pod);
}

// A try failed: the reason is shown, and another try comes later. Other containers go on meanwhile.
static void try_later(struct pod_container *c, const char *reason, const char *message)
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
    struct runtime *r = runtime_of(c);
    *ret = (struct probe_target){.exec = p->owner->exec,
                                 .runtime = r,
                                 .net = p->owner->options.net,
                                 .container_id = str_z(c->now.id),
                                 .address = str_z(p->address),
                                 .container = pod_container_spec(c)};
    if (p->sandbox_id)
        ret->netns = r->ops->pod_netns(r, str_z(p->sandbox_id));
}

static void settle_ready(struct pod_container *c)
{
    const struct probe *r = c->probes[PROBE_READINESS];
    bool ready =
        c->now.id && c->now.state == RUNTIME_RUNNING && c->started && (!r || probe_good(r));
    if (ready != c->ready) {
        c->ready = ready;
        pod_status_changed(c->pod);
    }
}

static int64_t probe_grace_ns(const struct pod_container *c, const struct api_probe *probe)
{
    return probe->has_termination_grace_period_seconds
               ? pod_seconds_ns(probe->termination_grace_period_seconds)
               : pod_grace_ns(c->pod);
}

static void on_probe(void *arg, enum probe_type type, bool good)
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
        pod_stop_container(c, probe ? probe_grace_ns(c, probe) : pod_grace_ns(p), text.p);
    }
    settle_ready(c);
}

static void on_probe_failed(void *arg, enum probe_type type, struct str text)
{
    struct pod_container *c = arg;
    pod_container_event(c, EVENT_WARNING, "Unhealthy", "%s probe failed: %.*s",
                        probe_type_name(type), STR_ARG(text));
}

static void add_probe(struct pod_container *c, enum probe_type type, const struct api_probe *probe,
                      bool good)
{
    if (!probe || c->probes[type])
        return;
    struct probe_options o = {.type = type,
                              .pod = c->pod->object,
                              .probe = probe,
                              .started_ns = c->now.started_ns,
                              .good = good,
                              .changed = on_probe,
                              .failed = on_probe_failed,
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
        add_probe(c, PROBE_STARTUP, s->startup_probe, false);
    add_probe(c, PROBE_LIVENESS, s->liveness_probe, true);
    add_probe(c, PROBE_READINESS, s->readiness_probe, c->ready);
    if (c->probes[PROBE_STARTUP]) {
        probe_start(c->probes[PROBE_STARTUP]);
    } else {
        c->started = true;
        if (c->probes[PROBE_LIVENESS])
            probe_start(c->probes[PROBE_LIVENESS]);
        if (c->probes[PROBE_READINESS])
            probe_start(c->probes[PROBE_READINESS]);
    }
    settle_ready(c);
}

void pod_end_probes(struct pod_container *c, bool all)
{
    for (size_t i = 0; i < PROBE_TYPES; i++)
        if (all || i != PROBE_READINESS)
            probe_free(take_ptr(c->probes[i]));
}

// --- After the start -----------------------------------------------------------------------------

static void is_up(struct pod_container *c)
{
    c->hook_done = true;
    pod_begin_probes(c);
    pod_status_changed(c->pod);
    pod_step_over(c->pod);
}

static void on_post_start(void *arg, bool ok, struct str text)
{
    struct pod_container *c = arg;
    c->hook = NULL;
    if (ok) {
        is_up(c);
        return;
    }
    (void)text;
    pod_container_event(c, EVENT_WARNING, "FailedPostStartHook", "PostStartHook failed");
    c->pod->busy = false;
    pod_stop_container(c, pod_grace_ns(c->pod), "FailedPostStartHook");
}

static void on_post_sleep(void *arg)
{
    on_post_start(arg, true, STR(""));
}

static void post_start(struct pod_container *c)
{
    const struct api_lifecycle *l = pod_container_spec(c)->lifecycle;
    const struct api_lifecycle_handler *h = l ? l->post_start : NULL;
    if (!h) {
        is_up(c);
        return;
    }
    if (h->sleep) {
        c->hook_timer = (struct exec_timer){.fn = on_post_sleep, .arg = c};
        exec_timer_start(c->pod->owner->exec, &c->hook_timer, pod_seconds_ns(h->sleep->seconds));
        return;
    }
    struct probe_target t;
    pod_probe_target(c, &t);
    const struct api_probe_handler handler = {
        .exec = h->exec, .http_get = h->http_get, .tcp_socket = h->tcp_socket};
    c->hook = probe_run(&t, &handler, HOOK_TIMEOUT_NS, on_post_start, c);
}

// --- The start -----------------------------------------------------------------------------------

// take_now asks the runtime how the newest run is.
static void take_now(struct pod_container *c)
{
    struct runtime_container_status s;
    if (runtime_of(c)->ops->container_status(runtime_of(c), str_z(c->now.id), &s))
        pod_run_take(&c->now, &s);
}

static void on_started(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct pod *p = c->pod;
    take_now(c);
    if (code < 0) {
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
        if (c->now.state != RUNTIME_EXITED) {
            c->now.state = RUNTIME_EXITED;
            c->now.exit_code = 128;
            c->now.finished_ns = exec_wall_ns(p->owner->exec);
        }
        free(c->now.reason);
        free(c->now.message);
        c->now.reason = copy_z("StartError");
        c->now.message = copy_z(err->msg);
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
    post_start(c);
}

static void start(struct pod_container *c)
{
    fault_point("container_start");
    runtime_of(c)->ops->container_start(runtime_of(c), str_z(c->now.id), on_started,
                                        pod_call_new(c->pod, c));
}

static void on_old_removed(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    (void)code;
    (void)err;
    if (pod_call_take(arg, &call) && call.pod->stage == POD_STOPPED)
        pod_wake(call.pod, 0);
}

// The run before the last one is not kept.
static void shift_runs(struct pod_container *c)
{
    if (c->last.id)
        pod_logs_drop(c, c->last.attempt);
    if (c->last.id)
        runtime_of(c)->ops->container_remove(runtime_of(c), str_z(c->last.id), on_old_removed,
                                             pod_call_new(c->pod, NULL));
    pod_run_done(&c->last);
    c->last = c->now;
    c->now = (struct pod_run){0};
}

static void on_created(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call, *at = arg;
    if (list_linked(&at->node) && code == 0) { // the end has to know it, too
        struct pod_container *c = at->container;
        shift_runs(c);
        c->now.id = xstrndup(id.p, id.n);
        c->now.attempt = c->next_attempt++;
        c->now.state = RUNTIME_CREATED;
        c->now.sandbox_id = copy_z(c->pod->sandbox_id);
        free(c->image_asked);
        struct str image = pod_container_spec(c)->image;
        c->image_asked = xstrndup(image.n ? image.p : "", image.n);
        take_now(c);
    }
    if (!step_goes_on(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code < 0) {
        bool config = str_starts(str_z(err->msg), STR("container has runAsNonRoot"));
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
        try_later(c, config ? "CreateContainerConfigError" : "CreateContainerError", err->msg);
        return;
    }
    pod_container_event(c, EVENT_NORMAL, "Created", "Container created");
    start(c);
}

static void create(struct pod_container *c, struct str image)
{
    cleanup_arena struct arena arena = {0};
    struct pod_request q = {0};
    struct err err = {0};
    if (pod_request_make(c, image, &arena, &q, &err) < 0) {
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err.msg);
        try_later(c, "CreateContainerConfigError", err.msg);
        return;
    }
    fault_point("container_create");
    runtime_of(c)->ops->container_create(runtime_of(c), str_z(c->pod->sandbox_id), &q.container,
                                         on_created, pod_call_new(c->pod, c));
}

static void on_devices(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    cleanup_free char *image = take_ptr(((struct pod_call *)arg)->text);
    if (!step_goes_on(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code == 0) {
        create(c, str_z(image));
        return;
    }
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
    try_later(c, "CreateContainerConfigError", err->msg);
}

// Plugins that want to know of every start are told first.
static void ready_devices(struct pod_container *c, struct str image)
{
    struct devplug *d = c->pod->owner->devices;
    struct pod_call *call = d && c->kind != POD_DEBUG ? pod_call_new(c->pod, c) : NULL;
    if (call) {
        call->text = xstrndup(image.n ? image.p : "", image.n);
        if (devplug_pre_start(d, c->pod->object, pod_container_spec(c), on_devices, call))
            return;
        struct pod_call unused;
        (void)pod_call_take(call, &unused);
    }
    create(c, image);
}

// --- The image -----------------------------------------------------------------------------------

static enum runtime_pull policy_of(const struct api_container *s)
{
    return str_eqz(s->image_pull_policy, "Always")  ? RUNTIME_PULL_ALWAYS
           : str_eqz(s->image_pull_policy, "Never") ? RUNTIME_PULL_NEVER
                                                    : RUNTIME_PULL_IF_NOT_PRESENT;
}

static void ensure_image(struct pod_container *c, enum runtime_pull pull, runtime_id_fn done)
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
    runtime_of(c)->ops->image_ensure(runtime_of(c), &q, done, c->pod->pull);
}

static bool pull_goes_on(void *arg, struct pod_call *call)
{
    struct pod_call *at = arg;
    if (list_linked(&at->node))
        at->pod->pull = NULL;
    return step_goes_on(arg, call);
}

static void image_failed(struct pod_container *c, int code, const struct err *err)
{
    struct str image = pod_container_spec(c)->image;
    bool bad_name = code == -ERR_INVALID && policy_of(pod_container_spec(c)) == RUNTIME_PULL_NEVER;
    if (code == -ERR_INVALID && (bad_name || str_contains(str_z(err->msg), STR("reference")))) {
        pod_container_event(c, EVENT_WARNING, "InspectFailed",
                            "Failed to apply default image tag \"%.*s\": %s", STR_ARG(image),
                            err->msg);
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: InvalidImageName");
        try_later(c, "InvalidImageName", err->msg);
        return;
    }
    const struct pods_options *o = &c->pod->owner->options;
    if (o->disk_full && (code == -ENOSPC || code == -EDQUOT))
        o->disk_full(o->arg);
    pod_container_event(c, EVENT_WARNING, "Failed", "Failed to pull image \"%.*s\": %s",
                        STR_ARG(image), err->msg);
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: ErrImagePull");
    free(c->pull_error);
    c->pull_error = copy_z(err->msg);
    try_later(c, "ErrImagePull", err->msg);
}

static void on_pulled(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call;
    int64_t begun = ((struct pod_call *)arg)->begun_ns;
    if (!pull_goes_on(arg, &call))
        return;
    struct pod_container *c = call.container;
    if (code < 0) {
        image_failed(c, code, err);
        return;
    }
    free(take_ptr(c->pull_error));
    int64_t took = exec_now_ns(c->pod->owner->exec) - begun;
    pod_container_event(c, EVENT_NORMAL, "Pulled", "Successfully pulled image \"%.*s\" in %lldms",
                        STR_ARG(pod_container_spec(c)->image), (long long)(took / CLOCK_NS_PER_MS));
    ready_devices(c, id);
}

static void pull(struct pod_container *c)
{
    pod_container_event(c, EVENT_NORMAL, "Pulling", "Pulling image \"%.*s\"",
                        STR_ARG(pod_container_spec(c)->image));
    fault_point("image_pull");
    ensure_image(c, policy_of(pod_container_spec(c)), on_pulled);
}

// The image is looked for on the machine first: what people are told depends on it.
static void on_looked(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call;
    if (!pull_goes_on(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct str image = pod_container_spec(c)->image;
    if (code == 0) {
        pod_container_event(c, EVENT_NORMAL, "Pulled",
                            "Container image \"%.*s\" already present on machine", STR_ARG(image));
        ready_devices(c, id);
    } else if (policy_of(pod_container_spec(c)) != RUNTIME_PULL_NEVER && code == -ERR_NOT_FOUND) {
        pull(c);
    } else if (code == -ERR_NOT_FOUND) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Container image \"%.*s\" is not present with pull policy of Never",
                  STR_ARG(image));
        pod_container_event(c, EVENT_WARNING, "ErrImageNeverPull", "%s", text.p);
        pod_container_event(c, EVENT_WARNING, "Failed", "Error: ErrImageNeverPull");
        try_later(c, "ErrImageNeverPull", text.p);
    } else {
        image_failed(c, code, err);
    }
}

static void begin(struct pod_container *c)
{
    if (policy_of(pod_container_spec(c)) == RUNTIME_PULL_ALWAYS)
        pull(c);
    else
        ensure_image(c, RUNTIME_PULL_NEVER, on_looked);
}

// What a container's environment is taken from is fetched again for each start after the first.
static void on_refs_again(void *arg)
{
    struct pod_container *c = arg;
    if (c->pod->stage == POD_ACTIVE) {
        begin(c);
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
    if (c->now.id && c->now.state == RUNTIME_CREATED && !pod_run_stale(p, &c->now)) {
        start(c);
        return;
    }
    bool old = exec_now_ns(p->owner->exec) - p->refs_at_ns > CLOCK_NS_PER_SEC;
    if (p->refs.all.n == 0 || (p->refs_fresh && !old)) {
        begin(c);
        return;
    }
    p->refs_at_ns = exec_now_ns(p->owner->exec);
    p->refs_fresh = true;
    pod_refs_cancel(&p->refs); // of a refresh
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, on_refs_again, c);
    if (p->refs.waiting == 0)
        begin(c);
}

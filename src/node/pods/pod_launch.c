// SPDX-License-Identifier: Apache-2.0
//
// The start of a container. pod_launch_steps is the whole chain in order; pod_launch_advance runs
// it. A step that waits is advanced by its callback, with the result. Other containers of the pod
// start afterwards.
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "node/pods/pods_int.h"
#include "os/fault.h"

#include "base/banned.h"

#define HOOK_TIMEOUT_NS (INT64_C(3600) * CLOCK_NS_PER_SEC) // hooks have no limit of their own

static void pod_launch_advance(struct pod_container *c, int r, const struct err *err);

void pod_container_wait(struct pod_container *c, const char *reason, const char *message)
{
    pod_text_set(&c->waiting_reason, reason);
    pod_text_set(&c->waiting_message, message);
    pod_status_changed(c->pod);
}

// A try failed: show the reason, try again later. Other containers start meanwhile.
static void pod_launch_retry_later(struct pod_container *c, const char *reason, const char *message)
{
    const struct pods_times *t = &c->pod->owner->options.times;
    int64_t now = exec_now_ns(c->pod->owner->exec);
    int64_t wait = pod_backoff_next(&c->pull, now, t->backoff_first_ns, t->backoff_max_ns);
    c->not_before_ns = now + wait;
    pod_container_wait(c, reason, message);
    c->pod->busy = false;
    pod_wake(c->pod, wait < CLOCK_NS_PER_SEC ? wait : CLOCK_NS_PER_SEC);
}

static void pod_launch_on_done(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (pod_step_take(arg, &call))
        pod_launch_advance(call.container, code, err);
}

// --- References ----------------------------------------------------------------------------------

static void pod_launch_on_refs_fetched(void *arg)
{
    struct pod_container *c = arg;
    if (pod_step_goes_on(c->pod))
        pod_launch_advance(c, 0, NULL);
}

// Sources of the environment are fetched again for each start after the first.
static int pod_launch_fetch_refs(struct pod_container *c, struct err *err)
{
    struct pod *p = c->pod;
    int64_t now = exec_now_ns(p->owner->exec);
    (void)err;
    if (p->refs.all.n == 0 || (p->refs_fresh && now - p->refs_at_ns <= CLOCK_NS_PER_SEC))
        return 0;
    p->refs_at_ns = now;
    p->refs_fresh = true;
    pod_refs_cancel(&p->refs); // of a refresh
    pod_refs_fetch(&p->refs, p->owner->options.client, p->object, pod_launch_on_refs_fetched, c);
    return p->refs.waiting > 0 ? POD_STEP_WAITS : 0;
}

// --- The image -----------------------------------------------------------------------------------

static enum runtime_pull pod_launch_pull_policy(const struct pod_container *c)
{
    const struct api_container *s = pod_container_spec(c);
    return str_eqz(s->image_pull_policy, "Always")  ? RUNTIME_PULL_ALWAYS
           : str_eqz(s->image_pull_policy, "Never") ? RUNTIME_PULL_NEVER
                                                    : RUNTIME_PULL_IF_NOT_PRESENT;
}

static void pod_launch_on_image(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call, *at = arg;
    if (list_linked(&at->node))
        at->pod->pull = NULL;
    if (!pod_step_take(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct str image = pod_container_spec(c)->image;
    int64_t took = exec_now_ns(c->pod->owner->exec) - call.begun_ns;
    bool pulled = c->launch.step == LAUNCH_PULL_IMAGE;
    if (code == 0)
        c->launch.image = arena_str(&c->launch.arena, id);
    if (code == 0)
        pod_text_set(&c->pull_error, NULL);
    if (code == 0 && pulled)
        pod_container_event(c, EVENT_NORMAL, "Pulled",
                            "Successfully pulled image \"%.*s\" in %lldms", STR_ARG(image),
                            (long long)(took / CLOCK_NS_PER_MS));
    else if (code == 0)
        pod_container_event(c, EVENT_NORMAL, "Pulled",
                            "Container image \"%.*s\" already present on machine", STR_ARG(image));
    else if (!pulled && code == -ERR_NOT_FOUND && pod_launch_pull_policy(c) != RUNTIME_PULL_NEVER)
        code = 0; // the next step pulls it
    pod_launch_advance(c, code, err);
}

static int pod_launch_ensure_image(struct pod_container *c, enum runtime_pull pull)
{
    const struct api_pod *pod = pod_spec_of(c->pod);
    const struct api_local_object_reference_array *names = &pod->spec.image_pull_secrets;
    struct runtime *runtime = pod_runtime(c->pod);
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
    runtime->ops->image_ensure(runtime, &q, pod_launch_on_image, c->pod->pull);
    return POD_STEP_WAITS;
}

// The image is looked for on the machine first: the events depend on it.
static int pod_launch_find_image(struct pod_container *c, struct err *err)
{
    (void)err;
    return pod_launch_pull_policy(c) == RUNTIME_PULL_ALWAYS
               ? 0
               : pod_launch_ensure_image(c, RUNTIME_PULL_NEVER);
}

static int pod_launch_pull_image(struct pod_container *c, struct err *err)
{
    (void)err;
    if (c->launch.image.n)
        return 0;
    pod_container_event(c, EVENT_NORMAL, "Pulling", "Pulling image \"%.*s\"",
                        STR_ARG(pod_container_spec(c)->image));
    fault_point("image_pull");
    return pod_launch_ensure_image(c, pod_launch_pull_policy(c));
}

static void pod_launch_fail_image(struct pod_container *c, int r, const struct err *err)
{
    const struct pods_options *o = &c->pod->owner->options;
    struct str image = pod_container_spec(c)->image;
    cleanup_sbuf struct sbuf never = {0};
    const char *reason = "ErrImagePull", *message = err->msg;
    if (r == -ERR_BAD_REQUEST) {
        reason = "InvalidImageName";
        pod_container_event(c, EVENT_WARNING, "InspectFailed",
                            "Failed to apply default image tag \"%.*s\": %s", STR_ARG(image),
                            message);
    } else if (r == -ERR_NOT_FOUND && c->launch.step == LAUNCH_FIND_IMAGE) {
        reason = "ErrImageNeverPull";
        sbuf_addf(&never, "Container image \"%.*s\" is not present with pull policy of Never",
                  STR_ARG(image));
        message = never.p;
        pod_container_event(c, EVENT_WARNING, reason, "%s", message);
    } else {
        pod_container_event(c, EVENT_WARNING, "Failed", "Failed to pull image \"%.*s\": %s",
                            STR_ARG(image), message);
        pod_text_set(&c->pull_error, message);
    }
    if (o->disk_full && (r == -ENOSPC || r == -EDQUOT))
        o->disk_full(o->arg);
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", reason);
    pod_launch_retry_later(c, reason, message);
}

// --- The container -------------------------------------------------------------------------------

// Device plugins may ask to be called before every start.
static int pod_launch_prepare_devices(struct pod_container *c, struct err *err)
{
    struct devplug *d = c->pod->owner->devices;
    (void)err;
    if (!d || c->kind == POD_DEBUG)
        return 0;
    struct pod_call unused, *call = pod_call_new(c->pod, c);
    if (devplug_pre_start(d, c->pod->object, pod_container_spec(c), pod_launch_on_done, call))
        return POD_STEP_WAITS;
    (void)pod_call_take(call, &unused);
    return 0;
}

static int pod_launch_configure(struct pod_container *c, struct err *err)
{
    c->launch.request = arena_one(&c->launch.arena, struct runtime_container);
    return pod_request_make(c, c->launch.image, &c->launch.arena, c->launch.request, err);
}

// pod_launch_refresh_run reads the state of the newest run from the runtime.
static void pod_launch_refresh_run(struct pod_container *c)
{
    struct runtime *runtime = pod_runtime(c->pod);
    struct runtime_container_status s;
    if (runtime->ops->container_status(runtime, str_z(c->now.id), &s))
        pod_run_set(&c->now, &s);
}

static void pod_launch_on_run_removed(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    (void)code;
    (void)err;
    if (pod_call_take(arg, &call) && call.pod->stage == POD_STOPPED)
        pod_wake(call.pod, 0);
}

void pod_drop_last_run(struct pod_container *c)
{
    struct runtime *runtime = pod_runtime(c->pod);
    if (!c->last.id)
        return;
    pod_logs_drop(c, c->last.attempt);
    runtime->ops->container_remove(runtime, str_z(c->last.id), pod_launch_on_run_removed,
                                   pod_call_new(c->pod, NULL));
}

// The run before the last one is not kept.
static void pod_launch_shift_runs(struct pod_container *c)
{
    pod_drop_last_run(c);
    pod_run_done(&c->last);
    c->last = c->now;
    c->now = (struct pod_run){0};
}

static void pod_launch_on_created(void *arg, int code, struct str id, const struct err *err)
{
    struct pod_call call, *at = arg;
    if (list_linked(&at->node) && code == 0) { // also for a pod that is stopping: it must know
        struct pod_container *c = at->container;
        struct str image = pod_container_spec(c)->image;
        pod_launch_shift_runs(c);
        c->now.id = xstrndup(id.p, id.n);
        c->now.attempt = c->next_attempt++;
        c->now.state = RUNTIME_CREATED;
        pod_text_set(&c->now.sandbox_id, c->pod->sandbox.id);
        free(c->image_asked);
        c->image_asked = pod_text_copy(image);
        pod_launch_refresh_run(c);
    }
    if (!pod_step_take(arg, &call))
        return;
    if (code == 0)
        pod_container_event(call.container, EVENT_NORMAL, "Created", "Container created");
    pod_launch_advance(call.container, code, err);
}

static int pod_launch_create(struct pod_container *c, struct err *err)
{
    struct runtime *runtime = pod_runtime(c->pod);
    (void)err;
    fault_point("container_create");
    runtime->ops->container_create(runtime, str_z(c->pod->sandbox.id), c->launch.request,
                                   pod_launch_on_created, pod_call_new(c->pod, c));
    arena_done(&c->launch.arena);
    return POD_STEP_WAITS;
}

// The runtime forbids what the security context rules out; that is an error of the configuration,
// too.
static void pod_launch_fail_create(struct pod_container *c, int r, const struct err *err)
{
    bool config = c->launch.step != LAUNCH_CREATE || r == -ERR_FORBIDDEN;
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
    pod_launch_retry_later(c, config ? "CreateContainerConfigError" : "CreateContainerError",
                           err->msg);
}

static void pod_launch_on_started(void *arg, int code, const struct err *err)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod_container *c = call.container;
    struct pod *p = c->pod;
    pod_launch_refresh_run(c);
    if (code == 0) {
        pod_container_event(c, EVENT_NORMAL, "Started", "Container started");
        c->pull = (struct pod_backoff){0};
        pod_container_wait(c, NULL, NULL);
        if (c->now.state == RUNTIME_EXITED) // already over
            pod_container_exited(c);
    }
    if (code == 0 && (p->stage != POD_ACTIVE || c->now.state != RUNTIME_RUNNING)) {
        p->busy = false;
        pod_sync(p);
        return;
    }
    pod_launch_advance(c, code, err);
}

static int pod_launch_start(struct pod_container *c, struct err *err)
{
    struct runtime *runtime = pod_runtime(c->pod);
    (void)err;
    fault_point("container_start");
    runtime->ops->container_start(runtime, str_z(c->now.id), pod_launch_on_started,
                                  pod_call_new(c->pod, c));
    return POD_STEP_WAITS;
}

static void pod_launch_fail_start(struct pod_container *c, int r, const struct err *err)
{
    struct pod *p = c->pod;
    (void)r;
    pod_container_event(c, EVENT_WARNING, "Failed", "Error: %s", err->msg);
    if (c->now.state != RUNTIME_EXITED) {
        c->now.state = RUNTIME_EXITED;
        c->now.exit_code = 128;
        c->now.finished_ns = exec_wall_ns(p->owner->exec);
    }
    pod_text_set(&c->now.reason, "StartError");
    pod_text_set(&c->now.message, err->msg);
    c->now.message_read = true;
    pod_container_exited(c);
    p->busy = false;
    pod_sync(p);
}

// --- After the start -----------------------------------------------------------------------------

static void pod_launch_on_post_start(void *arg, bool ok, struct str text)
{
    struct pod_container *c = arg;
    (void)text;
    c->hook = NULL;
    pod_launch_advance(c, ok ? 0 : -ERR_UNAVAILABLE, NULL);
}

static void pod_launch_on_post_start_slept(void *arg)
{
    pod_launch_on_post_start(arg, true, STR(""));
}

static int pod_launch_post_start(struct pod_container *c, struct err *err)
{
    const struct api_lifecycle *l = pod_container_spec(c)->lifecycle;
    const struct api_lifecycle_handler *h = l ? l->post_start : NULL;
    (void)err;
    if (!h)
        return 0;
    pod_hook_run(c, h, h->sleep ? INT64_MAX : HOOK_TIMEOUT_NS, pod_launch_on_post_start_slept,
                 pod_launch_on_post_start);
    return POD_STEP_WAITS;
}

static void pod_launch_fail_post_start(struct pod_container *c, int r, const struct err *err)
{
    (void)r;
    (void)err;
    pod_container_event(c, EVENT_WARNING, "FailedPostStartHook", "PostStartHook failed");
    c->pod->busy = false;
    pod_stop_container(c, pod_grace_ns(c->pod), "FailedPostStartHook");
}

static int pod_launch_finish(struct pod_container *c, struct err *err)
{
    (void)err;
    pod_probes_begin(c);
    pod_status_changed(c->pod);
    pod_step_done(c->pod); // looks for the next container
    return POD_STEP_WAITS;
}

// --- The chain -----------------------------------------------------------------------------------

// begin returns 0 (done), POD_STEP_WAITS (its callback advances), or a failure, which fail reports.
static const struct {
    int (*begin)(struct pod_container *c, struct err *err);
    void (*fail)(struct pod_container *c, int r, const struct err *err);
} pod_launch_steps[] = {
    [LAUNCH_REFS] = {pod_launch_fetch_refs, NULL},
    [LAUNCH_FIND_IMAGE] = {pod_launch_find_image, pod_launch_fail_image},
    [LAUNCH_PULL_IMAGE] = {pod_launch_pull_image, pod_launch_fail_image},
    [LAUNCH_DEVICES] = {pod_launch_prepare_devices, pod_launch_fail_create},
    [LAUNCH_CONFIGURE] = {pod_launch_configure, pod_launch_fail_create},
    [LAUNCH_CREATE] = {pod_launch_create, pod_launch_fail_create},
    [LAUNCH_START] = {pod_launch_start, pod_launch_fail_start},
    [LAUNCH_POST_START] = {pod_launch_post_start, pod_launch_fail_post_start},
    [LAUNCH_DONE] = {pod_launch_finish, NULL},
};

// pod_launch_advance takes the result of the step under way and runs the next ones up to one that
// waits.
static void pod_launch_advance(struct pod_container *c, int r, const struct err *err)
{
    struct err why = {0};
    while (r == 0) {
        c->launch.step++;
        r = pod_launch_steps[c->launch.step].begin(c, &why);
        err = &why;
    }
    if (r < 0)
        pod_launch_steps[c->launch.step].fail(c, r, err);
}

void pod_start_container(struct pod_container *c)
{
    bool created =
        c->now.id && c->now.state == RUNTIME_CREATED && !pod_run_is_stale(c->pod, &c->now);
    c->pod->busy = true;
    c->ready = c->started = false;
    arena_done(&c->launch.arena);
    c->launch = (struct pod_launch){.step = created ? LAUNCH_CREATE : LAUNCH_IDLE};
    pod_launch_advance(c, 0, NULL);
}

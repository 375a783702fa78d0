// SPDX-License-Identifier: Apache-2.0
//
// A pod's status as kubelet writes it: containers, phase, conditions, addresses. Computed from the
// current state, compared with the API's, written as a patch of the fields that a kubelet owns.
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/log.h"
#include "base/mem.h"
#include "node/pods/pod_conditions.h"
#include "node/pods/pods_int.h"
#include "os/fault.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("pods");

// --- Containers ----------------------------------------------------------------------------------

static struct api_time pod_status_api_time(int64_t ns)
{
    return (struct api_time){.at = {.sec = ns / CLOCK_NS_PER_SEC}, .set = ns != 0};
}

static struct str pod_status_container_id(const struct pod *p, const char *id, struct arena *arena)
{
    return arena_strf(arena, "%.*s://%s", STR_ARG(p->owner->runtime_name), id);
}

static struct api_container_state pod_status_ended_state(const struct pod *p,
                                                         const struct pod_run *r,
                                                         struct arena *arena)
{
    struct api_container_state_terminated *t =
        arena_one(arena, struct api_container_state_terminated);
    *t = (struct api_container_state_terminated){.exit_code = r->exit_code,
                                                 .reason = r->reason           ? str_z(r->reason)
                                                           : r->oom_killed     ? STR("OOMKilled")
                                                           : r->exit_code == 0 ? STR("Completed")
                                                                               : STR("Error"),
                                                 .message = str_z(r->message),
                                                 .started_at = pod_status_api_time(r->started_ns),
                                                 .finished_at = pod_status_api_time(r->finished_ns),
                                                 .container_id =
                                                     pod_status_container_id(p, r->id, arena)};
    return (struct api_container_state){.terminated = t};
}

static struct api_container_state pod_status_waiting_state(const struct pod_container *c,
                                                           struct arena *arena)
{
    struct api_container_state_waiting *w = arena_one(arena, struct api_container_state_waiting);
    bool inits = pod_spec_of(c->pod)->spec.init_containers.n > 0;
    w->reason = c->waiting_reason ? str_z(c->waiting_reason)
                : inits           ? STR("PodInitializing")
                                  : STR("ContainerCreating");
    w->message = str_z(c->waiting_message);
    return (struct api_container_state){.waiting = w};
}

// A container that never ran, of a pod that is over.
static struct api_container_state pod_status_lost_state(struct arena *arena)
{
    struct api_container_state_terminated *t =
        arena_one(arena, struct api_container_state_terminated);
    *t = (struct api_container_state_terminated){
        .exit_code = 137,
        .reason = STR("ContainerStatusUnknown"),
        .message = STR("The container could not be located when the pod was terminated")};
    return (struct api_container_state){.terminated = t};
}

static void pod_status_set_states(const struct pod_container *c, struct arena *arena,
                                  struct api_container_status *s)
{
    const struct pod *p = c->pod;
    const struct pod_run *r = &c->now;
    bool comes_again = p->stage == POD_ACTIVE && r->id && r->state == RUNTIME_EXITED &&
                       !pod_container_is_over(c) &&
                       (c->waiting_reason || (p->sandbox.ready && pod_run_is_stale(p, r)));
    if (r->id && r->state == RUNTIME_RUNNING) {
        struct api_container_state_running *up =
            arena_one(arena, struct api_container_state_running);
        up->started_at = pod_status_api_time(r->started_ns);
        s->state.running = up;
    } else if (r->id && r->state == RUNTIME_EXITED && !comes_again) {
        s->state = pod_status_ended_state(p, r, arena);
    } else if (p->stage == POD_STOPPED) {
        s->state = pod_status_lost_state(arena);
    } else {
        s->state = pod_status_waiting_state(c, arena);
    }
    const struct pod_run *before = comes_again ? r : &c->last;
    if (before->id && before->state == RUNTIME_EXITED)
        s->last_state = pod_status_ended_state(p, before, arena);
}

static void pod_status_set_mounts(const struct pod *p, const struct api_container *spec,
                                  struct arena *arena, struct api_container_status *s)
{
    struct api_volume_mount_status *m =
        arena_array(arena, struct api_volume_mount_status, spec->volume_mounts.n + 1);
    for (size_t i = 0; i < spec->volume_mounts.n; i++) {
        const struct api_volume_mount *v = &spec->volume_mounts.p[i];
        m[i] = (struct api_volume_mount_status){
            .name = v->name, .mount_path = v->mount_path, .read_only = v->read_only};
        if (v->read_only) {
            m[i].recursive_read_only =
                pod_mount_is_recursive(p, v) ? STR("Enabled") : STR("Disabled");
            m[i].has_recursive_read_only = true;
        }
    }
    if (spec->volume_mounts.n)
        s->volume_mounts = (struct api_volume_mount_status_array){m, spec->volume_mounts.n};
}

static void pod_status_set_resources(const struct api_container *spec, struct arena *arena,
                                     struct api_container_status *s)
{
    s->allocated_resources = spec->resources.requests;
    s->resources = arena_one(arena, struct api_resource_requirements);
    *s->resources = (struct api_resource_requirements){.limits = spec->resources.limits,
                                                       .requests = spec->resources.requests};
}

static void pod_status_fill_container(const struct pod_container *c, struct arena *arena,
                                      struct api_container_status *s)
{
    const struct api_container *spec = pod_container_spec(c);
    const struct pod_run *r = &c->now;
    bool running = r->id && r->state == RUNTIME_RUNNING;
    *s = (struct api_container_status){
        .name = spec->name,
        .image = r->id && r->image && r->image[0] ? str_z(r->image) : spec->image,
        .image_id = str_z(r->image_id),
        .ready = c->kind == POD_INIT ? r->id && r->state == RUNTIME_EXITED && r->exit_code == 0
                                     : running && c->ready && c->kind != POD_DEBUG,
        .started = running && c->started && c->kind != POD_DEBUG,
        .has_started = c->kind != POD_DEBUG, // as kubelet
        .restart_count = r->id             ? (int32_t)r->attempt
                         : c->next_attempt ? (int32_t)c->next_attempt - 1
                                           : 0};
    if (r->id)
        s->container_id = pod_status_container_id(c->pod, r->id, arena);
    pod_status_set_states(c, arena, s);
    pod_status_set_mounts(c->pod, spec, arena, s);
    pod_status_set_resources(spec, arena, s);
    if (c->kind == POD_MAIN && spec->resources.claims.n && c->pod->owner->dra)
        dra_container_health(c->pod->owner->dra, pod_spec_of(c->pod), spec, arena,
                             &s->allocated_resources_status);
    if (c->kind == POD_MAIN && c->pod->owner->devices)
        devplug_health(c->pod->owner->devices, str_z(c->pod->uid_text), spec->name, arena,
                       &s->allocated_resources_status);
}

// The containers of two kinds next to each other.
static void pod_status_fill_containers(const struct pod *p, enum pod_container_kind from,
                                       enum pod_container_kind to, struct arena *arena,
                                       struct api_container_status_array *ret)
{
    *ret = (struct api_container_status_array){
        arena_array(arena, struct api_container_status, p->containers_len + 1), 0};
    for (size_t i = 0; i < p->containers_len; i++)
        if (p->containers[i]->kind >= from && p->containers[i]->kind <= to)
            pod_status_fill_container(p->containers[i], arena, &ret->p[ret->n++]);
    if (ret->n == 0)
        ret->p = NULL;
}

// --- Phase ---------------------------------------------------------------------------------------

struct tally {
    size_t pending_init, failed_init, running, waiting, stopped, restarting, succeeded;
};

static void pod_status_count_init(const struct pod_container *c, struct tally *t)
{
    const struct pod_run *r = &c->now;
    if (c->kind == POD_SIDECAR) {
        if (r->id && r->state == RUNTIME_RUNNING) {
            t->running++;
            t->pending_init += !c->started;
        } else if (!r->id) {
            t->pending_init++;
        }
        return;
    }
    if (!r->id || r->state != RUNTIME_EXITED)
        t->pending_init++;
    else if (r->exit_code != 0)
        t->failed_init += pod_container_is_over(c);
}

static void pod_status_count_main(const struct pod_container *c, struct tally *t)
{
    const struct pod_run *r = &c->now;
    if (r->id && r->state == RUNTIME_RUNNING)
        t->running++;
    else if (r->id && r->state == RUNTIME_EXITED) {
        t->stopped++;
        t->restarting += !pod_container_is_over(c);
        t->succeeded += r->exit_code == 0;
    } else if (c->last.id)
        t->stopped++, t->restarting++;
    else
        t->waiting++;
}

static struct str pod_status_compute_phase(const struct pod *p)
{
    struct tally t = {0};
    bool initialized = false;
    for (size_t i = 0; i < p->containers_len; i++) {
        const struct pod_container *c = p->containers[i];
        if (c->kind == POD_MAIN)
            pod_status_count_main(c, &t);
        else if (c->kind != POD_DEBUG)
            pod_status_count_init(c, &t);
        initialized |= c->kind == POD_MAIN && c->now.id;
    }
    bool over = p->stage == POD_STOPPED;
    if (t.failed_init > 0)
        return STR("Failed");
    if (over)
        return t.waiting == 0 && t.pending_init == 0 && t.stopped == t.succeeded ? STR("Succeeded")
                                                                                 : STR("Failed");
    if ((t.pending_init > 0 && !initialized) || t.waiting > 0)
        return STR("Pending");
    if (t.running > 0 || t.restarting > 0)
        return STR("Running");
    return t.stopped == t.succeeded ? STR("Succeeded") : STR("Failed");
}

static struct str pod_status_phase(const struct pod *p)
{
    const struct api_pod *pod = pod_spec_of(p);
    if (pod_is_terminal(pod))
        return pod->status.phase;
    if (p->rejected || (p->failed_reason && p->stage == POD_STOPPED))
        return STR("Failed");
    struct str phase = pod_status_compute_phase(p);
    if (!pod_phase_is_final(phase) || p->stage == POD_STOPPED)
        return phase;
    // Not before claims and volumes are let go: others take a final phase for that.
    return str_eqz(pod->status.phase, "Running") || p->containers_len == 0 ? STR("Running")
                                                                           : pod->status.phase;
}

// --- The status ----------------------------------------------------------------------------------

static const struct typed_object *pod_status_newest_object(const struct pod *p)
{
    return p->status.written && p->status.written->revision > p->object->revision
               ? p->status.written
               : p->object;
}

static void pod_status_set_addresses(const struct pod *p, struct arena *arena,
                                     struct api_pod_status *s)
{
    struct str rest = p->owner->options.host_ips, one;
    bool host = pod_spec_of(p)->spec.host_network;
    struct api_host_ip *ips = arena_array(arena, struct api_host_ip, 8);
    struct api_pod_ip *own = arena_array(arena, struct api_pod_ip, 8);
    size_t n = 0;
    while (rest.n > 0 && n < 8) {
        (void)str_cut(rest, ',', &one, &rest);
        ips[n] = (struct api_host_ip){one};
        own[n++] = (struct api_pod_ip){one};
    }
    if (n > 0) {
        s->host_ip = ips[0].ip;
        s->host_ips = (struct api_host_ip_array){ips, n};
    }
    if (host && p->sandbox.ready && n > 0) {
        s->pod_ip = own[0].ip;
        s->pod_ips = (struct api_pod_ip_array){own, n};
    } else if (!host && p->sandbox.address && p->sandbox.address[0] && p->stage != POD_STOPPED) {
        own[0] = (struct api_pod_ip){str_z(p->sandbox.address)};
        s->pod_ip = own[0].ip;
        s->pod_ips = (struct api_pod_ip_array){own, 1};
    }
}

static void pod_status_fill(const struct pod *p, const struct api_pod_status *base,
                            struct arena *arena, struct api_pod_status *s)
{
    *s = *base;
    s->observed_generation = p->object->meta->generation;
    s->phase = pod_status_phase(p);
    if (p->failed_reason) {
        s->reason = str_z(p->failed_reason);
        s->message = str_z(p->failed_message);
    }
    if (p->rejected)
        return;
    s->start_time = p->start_time;
    pod_status_fill_containers(p, POD_INIT, POD_SIDECAR, arena, &s->init_container_statuses);
    pod_status_fill_containers(p, POD_MAIN, POD_MAIN, arena, &s->container_statuses);
    pod_status_fill_containers(p, POD_DEBUG, POD_DEBUG, arena, &s->ephemeral_container_statuses);
    s->host_ip = s->pod_ip = (struct str){0};
    s->host_ips = (struct api_host_ip_array){0};
    s->pod_ips = (struct api_pod_ip_array){0};
    pod_status_set_addresses(p, arena, s);
    const struct pod_conditions_input in = {
        .pod = pod_spec_of(p),
        .old = base,
        .sandbox_ready = p->sandbox.ready,
        .evicted = p->evicted_for_node ? str_z(p->failed_message) : STR(""),
        .now_s = exec_wall_ns(p->owner->exec) / CLOCK_NS_PER_SEC};
    pod_conditions_make(&in, s, arena);
}

// --- The patch -----------------------------------------------------------------------------------

static void pod_status_write_text(struct json_writer *w, struct str key, struct str value)
{
    json_write_key(w, key);
    if (value.n)
        json_write_str(w, value);
    else
        json_write_null(w);
}

static void pod_status_write_time(struct json_writer *w, struct str key, const struct api_time *t)
{
    cleanup_sbuf struct sbuf text = {0};
    if (t->set)
        rfc3339_write_seconds(t->at, &text);
    pod_status_write_text(w, key, sbuf_str(&text));
}

static void pod_status_write_conditions(struct json_writer *w, const struct api_pod_status *s)
{
    json_write_key(w, STR("conditions"));
    json_write_array_begin(w);
    for (size_t i = 0; i < s->conditions.n; i++) {
        const struct api_pod_condition *c = &s->conditions.p[i];
        if (!pod_condition_is_ours(c))
            continue;
        json_write_object_begin(w);
        pod_status_write_text(w, STR("type"), c->type);
        pod_status_write_text(w, STR("status"), c->status);
        json_write_key(w, STR("observedGeneration"));
        json_write_i64(w, c->observed_generation);
        pod_status_write_time(w, STR("lastTransitionTime"), &c->last_transition_time);
        pod_status_write_text(w, STR("reason"), c->reason);
        pod_status_write_text(w, STR("message"), c->message);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void pod_status_write_containers(struct json_writer *w, struct str key,
                                        const struct api_container_status_array *all)
{
    struct err err = {0};
    if (all->n == 0)
        return;
    json_write_key(w, key);
    json_write_array_begin(w);
    for (size_t i = 0; i < all->n; i++)
        (void)!api_json_write(&api_container_status_type, &all->p[i], w, &err);
    json_write_array_end(w);
}

// The server merges addresses by value unless the patch replaces the list.
static void pod_status_write_ips(struct json_writer *w, struct str key, const struct str *ips,
                                 size_t n)
{
    json_write_key(w, key);
    json_write_array_begin(w);
    json_write_object_begin(w);
    pod_status_write_text(w, STR("$patch"), STR("replace"));
    json_write_object_end(w);
    for (size_t i = 0; i < n; i++) {
        json_write_object_begin(w);
        pod_status_write_text(w, STR("ip"), ips[i]);
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void pod_status_write_addresses(struct json_writer *w, const struct api_pod_status *s)
{
    struct str ips[8];
    pod_status_write_text(w, STR("hostIP"), s->host_ip);
    for (size_t i = 0; i < s->host_ips.n; i++)
        ips[i] = s->host_ips.p[i].ip;
    pod_status_write_ips(w, STR("hostIPs"), ips, s->host_ips.n);
    pod_status_write_text(w, STR("podIP"), s->pod_ip);
    for (size_t i = 0; i < s->pod_ips.n; i++)
        ips[i] = s->pod_ips.p[i].ip;
    pod_status_write_ips(w, STR("podIPs"), ips, s->pod_ips.n);
}

static void pod_status_write_patch(const struct pod *p, const struct api_pod_status *s,
                                   struct sbuf *out)
{
    struct json_writer writer = {.out = out}, *w = &writer;
    json_write_object_begin(w);
    json_write_key(w, STR("metadata"));
    json_write_object_begin(w);
    pod_status_write_text(w, STR("uid"), p->object->meta->uid);
    json_write_object_end(w);
    json_write_key(w, STR("status"));
    json_write_object_begin(w);
    json_write_key(w, STR("observedGeneration"));
    json_write_i64(w, s->observed_generation);
    pod_status_write_text(w, STR("phase"), s->phase);
    pod_status_write_text(w, STR("reason"), s->reason);
    pod_status_write_text(w, STR("message"), s->message);
    if (!p->rejected) {
        pod_status_write_time(w, STR("startTime"), &s->start_time);
        pod_status_write_addresses(w, s);
        pod_status_write_conditions(w, s);
        pod_status_write_containers(w, STR("initContainerStatuses"), &s->init_container_statuses);
        pod_status_write_containers(w, STR("containerStatuses"), &s->container_statuses);
        pod_status_write_containers(w, STR("ephemeralContainerStatuses"),
                                    &s->ephemeral_container_statuses);
    }
    json_write_object_end(w);
    json_write_object_end(w);
}

static void pod_status_send(struct pod *p);

static void pod_status_on_written(void *arg, const struct client_answer *a)
{
    struct pod_call call;
    if (!pod_call_take(arg, &call))
        return;
    struct pod *p = call.pod;
    p->status.busy = false;
    p->status.refused = false;
    if (a->code == 0 && a->object) {
        typed_object_unref(p->status.written);
        p->status.written = typed_object_ref(a->object);
    } else if (a->code != -ERR_NOT_FOUND && a->code != -ERR_CONFLICT) {
        LOG_WARN(&log_mod, "the status of a pod cannot be written",
                 log_str("namespace", p->object->meta->namespace),
                 log_str("pod", p->object->meta->name), log_z("why", a->err->msg));
        p->status.dirty = true; // the server is out of reach, or refused: again, not at once
        p->status.refused = a->code == -ERR_INVALID || a->code == -ERR_FORBIDDEN;
        if (p->status.refused && p->stage == POD_STOPPED)
            pod_wake(p, 0);
        exec_timer_start(p->owner->exec, &p->status.again, p->owner->options.times.retry_max_ns);
        pod_release(p);
        return;
    } else {
        p->status.lost = true; // another object has the name now, or none
    }
    if (p->status.dirty)
        pod_status_send(p);
    if (p->stage == POD_STOPPED)
        pod_wake(p, 0);
}

static void pod_status_send(struct pod *p)
{
    const struct typed_object *base = pod_status_newest_object(p);
    const struct api_pod *pod = base->object.value;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf body = {0};
    struct api_pod_status s;
    p->status.dirty = false;
    pod_status_fill(p, &pod->status, &arena, &s);
    if (p->gone || p->status.lost || api_equal(&api_pod_status_type, &s, &pod->status))
        return;
    pod_status_write_patch(p, &s, &body);
    const struct client_key at = {p->object->object.kind, p->object->meta->namespace,
                                  p->object->meta->name};
    const struct client_write how = {.subresource = STR("status")};
    p->status.busy = true;
    fault_point("status");
    client_patch(p->owner->options.client, &at, CLIENT_PATCH_STRATEGIC, sbuf_str(&body), &how,
                 pod_status_on_written, pod_call_new(p, NULL));
}

static void pod_status_on_retry(void *arg)
{
    pod_status_changed(arg);
}

static void pod_status_flush(void *arg)
{
    struct pod *p = arg;
    if (p->status.busy || !p->status.dirty)
        return;
    pod_status_send(p);
    if (!p->status.busy && p->stage == POD_STOPPED)
        pod_wake(p, 0);
}

// The status is written in the next turn of the exec, once for several changes.
void pod_status_changed(struct pod *p)
{
    p->status.dirty = true;
    if (!p->status.soon.fn) {
        p->status.soon = (struct exec_timer){.fn = pod_status_flush, .arg = p};
        p->status.again = (struct exec_timer){.fn = pod_status_on_retry, .arg = p};
    }
    if (!p->status.busy && !exec_timer_armed(&p->status.soon))
        exec_timer_start(p->owner->exec, &p->status.soon, 0);
}

bool pod_status_written(const struct pod *p)
{
    return p->status.lost || p->status.refused || (!p->status.busy && !p->status.dirty);
}

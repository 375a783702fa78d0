// SPDX-License-Identifier: Apache-2.0
//
// The pods of this node: merges those of the API with those of the runtime and keeps a struct pod
// for each.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/backoff.h"
#include "base/mem.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

// --- Pods of the API -----------------------------------------------------------------------------

static void pods_on_wake(void *arg)
{
    pod_sync(arg);
}

static struct pod_container *pods_add_container(struct pod *p, struct str name,
                                                enum pod_container_kind kind, size_t index)
{
    struct pod_container *c = xcalloc(1, sizeof(*c));
    *c =
        (struct pod_container){.pod = p, .kind = kind, .index = index, .name = pod_text_copy(name)};
    p->containers[p->containers_len++] = c;
    return c;
}

static enum pod_container_kind pods_init_kind(const struct api_container *c)
{
    return c->has_restart_policy && str_eqz(c->restart_policy, "Always") ? POD_SIDECAR : POD_INIT;
}

// An ephemeral container has the fields of any other.
static void pods_set_ephemeral_spec(struct pod_container *c,
                                    const struct api_ephemeral_container *e)
{
    static_assert(sizeof(e->ephemeral_container_common) == sizeof(*c->debug) &&
                      offsetof(struct api_ephemeral_container_common, security_context) ==
                          offsetof(struct api_container, security_context) &&
                      offsetof(struct api_ephemeral_container_common, has_restart_policy) ==
                          offsetof(struct api_container, has_restart_policy),
                  "they are made from the same definition");
    if (!c->debug)
        c->debug = xcalloc(1, sizeof(*c->debug));
    memcpy(c->debug, &e->ephemeral_container_common, sizeof(*c->debug));
}

// Ephemeral containers of the newest object: those that are new are added, none is ever taken away.
static void pods_update_ephemeral(struct pod *p)
{
    const struct api_ephemeral_container_array *all = &pod_spec_of(p)->spec.ephemeral_containers;
    size_t before = p->containers_len;
    p->containers =
        xreallocarray(p->containers, p->containers_len + all->n + 1, sizeof(*p->containers));
    for (size_t i = 0; i < all->n; i++) {
        struct str name = all->p[i].ephemeral_container_common.name;
        struct pod_container *c = pod_container_named(p, name);
        if (!c)
            c = pods_add_container(p, name, POD_DEBUG, i);
        if (c->kind == POD_DEBUG)
            pods_set_ephemeral_spec(c, &all->p[i]);
    }
    if (p->containers_len > before) {
        pod_refs_gather(&p->refs, pod_spec_of(p));
        p->refs_fresh = false;
    }
}

static void pods_make_containers(struct pod *p)
{
    const struct api_pod_spec *s = &pod_spec_of(p)->spec;
    p->containers = xcalloc(s->init_containers.n + s->containers.n + 1, sizeof(*p->containers));
    for (size_t i = 0; i < s->init_containers.n; i++)
        pods_add_container(p, s->init_containers.p[i].name,
                           pods_init_kind(&s->init_containers.p[i]), i);
    for (size_t i = 0; i < s->containers.n; i++)
        pods_add_container(p, s->containers.p[i].name, POD_MAIN, i);
    pods_update_ephemeral(p);
}

static const struct api_container_status *pods_find_status(const struct api_pod *pod,
                                                           const char *name)
{
    const struct api_container_status_array *lists[] = {&pod->status.init_container_statuses,
                                                        &pod->status.container_statuses,
                                                        &pod->status.ephemeral_container_statuses};
    for (size_t l = 0; l < array_len(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++)
            if (str_eqz(lists[l]->p[i].name, name))
                return &lists[l]->p[i];
    return NULL;
}

// What the API remembers of a pod that ran here before this process: how often its containers were
// started, since when it is here.
static void pods_restore_status(struct pod *p)
{
    const struct api_pod *pod = pod_spec_of(p);
    p->start_time = pod->status.start_time;
    for (size_t i = 0; i < p->containers_len; i++) {
        struct pod_container *c = p->containers[i];
        const struct api_container_status *s = pods_find_status(pod, c->name);
        if (!s)
            continue;
        c->started = s->has_started && s->started;
        c->ready = s->ready;
        if (s->container_id.n || s->last_state.terminated)
            c->next_attempt = (uint32_t)s->restart_count + 1;
    }
}

static struct pod *pods_add_pod(struct pods *owner, const struct typed_object *o)
{
    struct pod *p = xcalloc(1, sizeof(*p));
    p->owner = owner;
    p->object = typed_object_ref(o);
    p->uid_text = pod_text_copy(o->meta->uid);
    p->wake = (struct exec_timer){.fn = pods_on_wake, .arg = p};
    list_init(&p->calls);
    list_push_back(&owner->all, &p->node);
    pods_make_containers(p);
    pods_restore_status(p);
    pod_refs_gather(&p->refs, pod_spec_of(p));
    *map_put(&owner->by_uid, str_z(p->uid_text)) = p;
    return p;
}

static void pods_free_container(struct pod_container *c)
{
    pod_probes_end(c, true);
    probe_cancel(c->hook);
    exec_timer_stop(c->pod->owner->exec, &c->hook_timer);
    pod_run_done(&c->now);
    pod_run_done(&c->last);
    free(c->name);
    free(c->waiting_reason);
    free(c->waiting_message);
    free(c->pull_error);
    free(c->image_asked);
    arena_done(&c->launch.arena);
    free(c->debug);
    free(c);
}

static void pods_free_pod(struct pod *p)
{
    struct pods *owner = p->owner;
    (void)map_del(&owner->by_uid, str_z(p->uid_text));
    list_remove(&p->node);
    while (list_pop_front(&p->calls))
        ;
    exec_timer_stop(owner->exec, &p->wake);
    exec_timer_stop(owner->exec, &p->refresh);
    exec_timer_stop(owner->exec, &p->status.soon);
    exec_timer_stop(owner->exec, &p->status.again);
    for (size_t i = 0; i < p->containers_len; i++)
        pods_free_container(p->containers[i]);
    free(p->containers);
    pod_refs_done(&p->refs);
    typed_object_unref(p->status.written);
    typed_object_unref(p->object);
    free(p->uid_text);
    free(p->sandbox.id);
    free(p->sandbox.address);
    free(p->failed_reason);
    free(p->failed_message);
    free(p);
}

void pod_release(struct pod *p)
{
    if (p->gone && p->stop.step == STOP_OBJECT && list_empty(&p->calls))
        pods_free_pod(p);
}

static void pods_on_pod_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct pods *owner = arg;
    const struct typed_object *o = after ? after : before;
    struct pod **known = map_get(&owner->by_uid, o->meta->uid);
    struct pod *p = known ? *known : NULL;
    if (!after) {
        if (!p)
            return;
        p->gone = true;
        pod_wake(p, 0);
        return;
    }
    if (!p) {
        p = pods_add_pod(owner, after);
    } else {
        const struct typed_object *old = p->object;
        p->object = typed_object_ref(after);
        pods_update_ephemeral(p); // before the old one goes, which their specs are in
        typed_object_unref(old);
        if (p->status.written && p->status.written->revision <= after->revision) {
            typed_object_unref(p->status.written);
            p->status.written = NULL;
        }
        p->gone = false;
    }
    if (owner->swept)
        pod_wake(p, 0);
}

// --- State at the start --------------------------------------------------------------------------

// pods_begin lets all pods go once both the API's pods and the runtime's are known.
static void pods_begin(struct pods *p, const struct runtime_list *all)
{
    pods_sweep(p, all);
    p->swept = true;
    list_foreach(&p->all, n) {
        struct pod *pod = list_entry(n, struct pod, node);
        for (size_t i = 0; i < pod->containers_len; i++)
            if (pod->containers[i]->now.id && pod->containers[i]->now.state == RUNTIME_RUNNING)
                pod_probes_begin(pod->containers[i]); // it ran on without us
        pod_wake(pod, 0);
    }
    if (p->dra)
        dra_reconcile(p->dra);
    pod_logs_start(p);
    pods_evict_start(p->evict);
}

static void pods_restore_sandbox(struct pods *p, const struct runtime_pod_status *s)
{
    struct pod **at = map_get(&p->by_uid, s->uid);
    struct pod *pod = at ? *at : NULL;
    if (!pod || (pod->sandbox.known && s->attempt < pod->sandbox.attempt))
        return;
    free(pod->sandbox.id);
    free(pod->sandbox.address);
    pod->sandbox.id = pod_text_copy(s->id);
    pod->sandbox.address = pod_text_copy(s->address);
    pod->sandbox.attempt = s->attempt;
    pod->sandbox.known = true;
    pod->sandbox.ready = s->state == RUNTIME_POD_READY;
}

static void pods_restore_container(struct pods *p, const struct runtime_container_status *s)
{
    struct pod **at = map_get(&p->by_uid, s->pod_uid);
    struct pod_container *c = at ? pod_container_named(*at, s->name) : NULL;
    if (!c)
        return;
    if (!c->now.id || s->attempt >= c->now.attempt) {
        pod_run_done(&c->last);
        c->last = c->now;
        c->now = (struct pod_run){0};
        pod_run_set(&c->now, s);
    } else if (!c->last.id || s->attempt > c->last.attempt) {
        pod_run_set(&c->last, s);
    }
    if (s->attempt + 1 > c->next_attempt)
        c->next_attempt = s->attempt + 1;
}

// A container that the API knows and the runtime does not any more: it ended in an unknown way.
static void pods_restore_lost(struct pod_container *c)
{
    const struct api_container_status *s = pods_find_status(pod_spec_of(c->pod), c->name);
    if (c->now.id || !s || s->container_id.n == 0 || (!s->state.running && !s->state.terminated))
        return;
    ptrdiff_t scheme = str_find(s->container_id, STR("://"));
    const struct api_container_state_terminated *t = s->state.terminated;
    c->now = (struct pod_run){
        .id = pod_text_copy(scheme < 0 ? s->container_id
                                       : str_from(s->container_id, (size_t)scheme + 3)),
        .attempt = (uint32_t)s->restart_count,
        .state = RUNTIME_EXITED,
        .image = pod_text_copy(s->image),
        .image_id = pod_text_copy(s->image_id),
        .exit_code = t ? t->exit_code : 137,
        .message_read = true,
        .reason = pod_text_copy(t ? t->reason : STR("ContainerStatusUnknown")),
        .message = pod_text_copy(
            t ? t->message : STR("The container could not be located when the pod was terminated")),
        .started_ns = t ? t->started_at.at.sec * CLOCK_NS_PER_SEC
                        : s->state.running->started_at.at.sec * CLOCK_NS_PER_SEC,
        .finished_ns = t ? t->finished_at.at.sec * CLOCK_NS_PER_SEC : 0};
}

static void pods_on_runtime_list(void *arg, const struct runtime_list *all)
{
    struct pods_call *call = arg;
    struct pods *p = list_linked(&call->node) ? call->owner : NULL;
    list_remove(&call->node);
    free(call);
    if (!p)
        return;
    for (size_t i = 0; i < all->pods_len; i++)
        pods_restore_sandbox(p, &all->pods[i]);
    for (size_t i = 0; i < all->containers_len; i++)
        pods_restore_container(p, &all->containers[i]);
    list_foreach(&p->all, n) {
        struct pod *pod = list_entry(n, struct pod, node);
        for (size_t i = 0; i < pod->containers_len; i++)
            pods_restore_lost(pod->containers[i]);
    }
    pods_begin(p, all);
}

static void pods_on_synced(void *arg)
{
    struct pods *p = arg;
    struct pods_call *call = xcalloc(1, sizeof(*call));
    call->owner = p;
    list_push_back(&p->calls, &call->node);
    p->options.runtime->ops->list(p->options.runtime, pods_on_runtime_list, call);
}

// --- Notifications of the runtime ----------------------------------------------------------------

static void pods_on_exited(void *arg, const struct runtime_container_status *s)
{
    struct pods *p = arg;
    struct pod **at = map_get(&p->by_uid, s->pod_uid);
    struct pod_container *c = at ? pod_container_named(*at, s->name) : NULL;
    if (!c || !c->now.id || !str_eqz(s->id, c->now.id) || c->now.state == RUNTIME_EXITED)
        return;
    pod_run_set(&c->now, s);
    pod_container_exited(c);
}

// --- Construction --------------------------------------------------------------------------------

static int64_t pods_or_default(int64_t v, int64_t usual)
{
    return v > 0 ? v : usual;
}

static void pods_copy_options(struct pods *p, const struct pods_options *o)
{
    p->options = *o;
    p->options.node = arena_str(&p->arena, o->node);
    p->options.data_dir = arena_str(&p->arena, str_z(o->data_dir)).p;
    p->options.log_dir = arena_str(&p->arena, str_z(o->log_dir)).p;
    p->options.host_ips = arena_str(&p->arena, o->host_ips);
    p->options.api_host = arena_str(&p->arena, o->api_host);
    p->options.api_port = arena_str(&p->arena, o->api_port);
    struct pods_times *t = &p->options.times;
    t->backoff_first_ns = pods_or_default(t->backoff_first_ns, 10 * CLOCK_NS_PER_SEC);
    t->backoff_max_ns = pods_or_default(t->backoff_max_ns, 300 * CLOCK_NS_PER_SEC);
    t->retry_first_ns = pods_or_default(t->retry_first_ns, CLOCK_NS_PER_SEC / 2);
    t->retry_max_ns = pods_or_default(t->retry_max_ns, 10 * CLOCK_NS_PER_SEC);
    t->refresh_ns = pods_or_default(t->refresh_ns, 60 * CLOCK_NS_PER_SEC);
    p->options.pids_max = o->pids_max == 0 ? PODS_PIDS_MAX : o->pids_max;
    struct eviction_config *config = arena_one(&p->arena, struct eviction_config);
    if (o->eviction.config)
        *config = *o->eviction.config;
    else // the defaults are right
        (void)!eviction_config_parse(&(struct eviction_texts){0}, config, NULL);
    p->options.eviction.config = config;
}

static void pods_name_runtime(struct pods *p)
{
    struct str version = {0};
    const struct str *missing = NULL;
    size_t n = 0;
    p->options.runtime->ops->about(p->options.runtime, &version, &missing, &n);
    size_t end = 0;
    while (end < version.n && ((version.p[end] >= 'a' && version.p[end] <= 'z') ||
                               (version.p[end] >= 'A' && version.p[end] <= 'Z')))
        end++;
    p->runtime_name = arena_str(&p->arena, end ? str_upto(version, end) : STR("dray"));
}

struct pods *pods_new(const struct pods_options *options)
{
    struct pods *p = xcalloc(1, sizeof(*p));
    p->exec = options->exec;
    list_init(&p->all);
    list_init(&p->orphans);
    list_init(&p->calls);
    pods_copy_options(p, options);
    pods_name_runtime(p);
    p->options.runtime->listener = (struct runtime_listener){.exited = pods_on_exited, .arg = p};
    struct str fields = arena_strf(&p->arena, "spec.nodeName=%.*s", STR_ARG(p->options.node));
    const struct informer_options o = {.client = options->client,
                                       .kind = api_kind_find(STR("v1"), STR("Pod")),
                                       .list = {.field_selector = fields}};
    p->informer = informer_new(&o);
    const struct informer_handler h = {
        .changed = pods_on_pod_changed, .synced = pods_on_synced, .arg = p};
    informer_add_handler(p->informer, &h);
    const struct informer_options so = {.client = options->client,
                                        .kind = api_kind_find(STR("v1"), STR("Service"))};
    p->services = informer_new(&so);
    pods_watch_runtime_classes(p);
    p->evict = pods_evict_new(p);
    return p;
}

void pods_set_devices(struct pods *p, struct devplug *devices)
{
    p->devices = devices;
}

void pods_set_dra(struct pods *p, struct dra *dra)
{
    p->dra = dra;
}

void pods_start(struct pods *p)
{
    informer_start(p->services);
    informer_start(p->runtime_classes);
    informer_start(p->informer);
}

void pods_free(struct pods *p)
{
    if (!p)
        return;
    p->options.runtime->listener = (struct runtime_listener){0};
    exec_timer_stop(p->exec, &p->logs);
    pods_evict_free(p->evict);
    informer_free(p->informer);
    informer_free(p->services);
    informer_free(p->runtime_classes);
    list_foreach(&p->all, n)
        pods_free_pod(list_entry(n, struct pod, node));
    pods_free_orphans(p);
    while (list_pop_front(&p->calls))
        ;
    map_done(&p->by_uid);
    sbuf_done(&p->found[0]);
    sbuf_done(&p->found[1]);
    arena_done(&p->arena);
    free(p);
}

// --- For other parts of the node -----------------------------------------------------------------

bool pods_each(void *arg, dra_pod_fn each, void *ctx)
{
    struct pods *p = arg;
    if (!p->swept || !list_empty(&p->orphans))
        return false; // what runs unseen may hold devices
    list_foreach(&p->all, n) {
        const struct pod *pod = list_entry(n, struct pod, node);
        bool holds = pod->stage == POD_ACTIVE ||
                     (pod->stage == POD_STOPPING && pod->stop.step < STOP_VOLUMES);
        if (holds && !pod->rejected)
            each(ctx, pod->object);
    }
    return true;
}

void pods_health_changed(void *arg, struct str pod_uid)
{
    struct pods *p = arg;
    struct pod **at = map_get(&p->by_uid, pod_uid);
    if (at)
        pod_status_changed(*at);
}

void pods_node_changed(struct pods *p)
{
    if (!p->swept)
        return;
    list_foreach(&p->all, n) {
        struct pod *pod = list_entry(n, struct pod, node);
        if (pod->stage == POD_ACTIVE)
            pod_wake(pod, 0);
    }
}

// --- Queries -------------------------------------------------------------------------------------

static struct pod *pods_find_pod(struct pods *p, struct str namespace, struct str name,
                                 struct str uid)
{
    struct pod *found = NULL;
    list_foreach(&p->all, n) {
        struct pod *pod = list_entry(n, struct pod, node);
        if (str_eq(pod->object->meta->namespace, namespace) &&
            str_eq(pod->object->meta->name, name) && (uid.n == 0 || str_eqz(uid, pod->uid_text)) &&
            (!found || !pod->gone))
            found = pod;
    }
    return found;
}

static void pods_set_log_path(const struct pod_container *c, uint32_t attempt, struct sbuf *out)
{
    sbuf_clear(out);
    pod_log_directory(c->pod, out);
    sbuf_addf(out, "/%s/%u.log", c->name, attempt);
}

int pods_find(struct pods *p, struct str namespace, struct str name, struct str uid,
              struct str container, struct pods_container *ret, struct err *err)
{
    struct pod *pod = pods_find_pod(p, namespace, name, uid);
    if (!pod)
        return err_set(err, ERR_NOT_FOUND, "pod \"%.*s\" does not exist", STR_ARG(name));
    if (container.n == 0 && pod_spec_of(pod)->spec.containers.n == 1)
        container = pod_spec_of(pod)->spec.containers.p[0].name;
    struct pod_container *c = pod_container_named(pod, container);
    if (!c)
        return err_set(err, ERR_BAD_REQUEST, "container %.*s is not valid for pod %.*s",
                       STR_ARG(container), STR_ARG(name));
    *ret = (struct pods_container){.pod_uid = str_z(pod->uid_text),
                                   .pod_id = str_z(pod->sandbox.id),
                                   .id = str_z(c->now.id),
                                   .previous_id = str_z(c->last.id),
                                   .attempt = c->now.attempt,
                                   .running = c->now.id && c->now.state == RUNTIME_RUNNING};
    if (c->now.id) {
        pods_set_log_path(c, c->now.attempt, &p->found[0]);
        ret->log_path = p->found[0].p;
    }
    if (c->now.id && c->now.attempt > 0) {
        pods_set_log_path(c, c->now.attempt - 1, &p->found[1]);
        ret->previous_log_path = p->found[1].p;
    }
    ret->waiting = c->waiting_reason                              ? str_z(c->waiting_reason)
                   : pod_spec_of(pod)->spec.init_containers.n > 0 ? STR("PodInitializing")
                                                                  : STR("ContainerCreating");
    return 0;
}

void pods_list_json(struct pods *p, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct err err = {0};
    json_write_object_begin(&w);
    json_write_key(&w, STR("kind"));
    json_write_str(&w, STR("PodList"));
    json_write_key(&w, STR("apiVersion"));
    json_write_str(&w, STR("v1"));
    json_write_key(&w, STR("metadata"));
    json_write_object_begin(&w);
    json_write_object_end(&w);
    json_write_key(&w, STR("items"));
    json_write_array_begin(&w);
    list_foreach(&p->all, n)
        (void)!api_json_write(&api_pod_type, pod_spec_of(list_entry(n, struct pod, node)), &w,
                              &err);
    json_write_array_end(&w);
    json_write_object_end(&w);
}

void pods_pause(struct pods *p)
{
    p->quiet = true;
}

bool pods_busy(const struct pods *p)
{
    list_foreach(&p->all, n)
        if (!list_empty(&list_entry(n, struct pod, node)->calls))
            return true;
    return !list_empty(&p->calls) || pods_evict_busy(p->evict);
}

bool pods_idle(const struct pods *p)
{
    list_foreach(&p->all, n) {
        const struct pod *pod = list_entry(n, struct pod, node);
        if (!list_empty(&pod->calls) || exec_timer_armed(&pod->wake))
            return false;
    }
    return p->swept && list_empty(&p->orphans);
}

size_t pods_len(const struct pods *p)
{
    return map_len(&p->by_uid);
}

// SPDX-License-Identifier: Apache-2.0
//
// Allocates devices of plugins to the containers of a pod: chooses them, asks the plugin, saves its
// answer.
//
// Devices are in the ledger from the moment they are chosen, so operations of several pods may be
// under way at the same time. Nothing is on disk before the plugins have agreed to everything; a
// crash before that leaves no trace, and the pod is admitted as if for the first time.
#include <errno.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/mem.h"
#include "node/devplug/devplug_int.h"
#include "os/fault.h"

#include "base/banned.h"

struct id_list VEC(struct str);

static void devplug_allocate_next_step(struct device_op *op);

static struct str devplug_allocate_pod_uid(const struct device_op *op)
{
    return op->pod->meta->uid;
}

// --- The end of an operation ---------------------------------------------------------------------

static void devplug_allocate_op_free(struct device_op *op)
{
    typed_object_unref(op->pod);
    vec_done(&op->made);
    arena_done(&op->arena);
    free(op);
}

static bool devplug_allocate_grant_is_new(void *arg, const struct device_grant *g)
{
    const struct device_op *op = arg;
    vec_foreach(&op->made, one)
        if (*one == g)
            return true;
    return false;
}

static void devplug_allocate_op_end(struct device_op *op, int code)
{
    if (code < 0)
        (void)device_ledger_drop(&op->owner->ledger, devplug_allocate_grant_is_new, op);
    exec_timer_stop(op->owner->options.exec, &op->begin);
    list_remove(&op->node);
    devplug_done_fn done = op->done;
    void *arg = op->arg;
    struct err err = op->err;
    if (!op->waiting)
        devplug_allocate_op_free(op);
    done(arg, code, &err);
}

// The operation an answer is for; NULL: it has ended meanwhile.
static struct device_op *devplug_allocate_op_resume(struct device_op *op)
{
    op->waiting = false;
    if (list_linked(&op->node))
        return op;
    devplug_allocate_op_free(op);
    return NULL;
}

static struct device_op *devplug_allocate_find_op(const struct devplug *d, struct str uid)
{
    list_foreach(&d->ops, n) {
        struct device_op *op = list_entry(n, struct device_op, node);
        if (uid.n == 0 || str_eq(devplug_allocate_pod_uid(op), uid))
            return op;
    }
    return NULL;
}

void devplug_cancel_ops(struct devplug *d, struct str uid)
{
    struct device_op *op;
    while ((op = devplug_allocate_find_op(d, uid)))
        devplug_allocate_op_end(op,
                                err_set(&op->err, ECANCELED, "the pod is not started any more"));
}

// --- Free devices --------------------------------------------------------------------------------

static void devplug_allocate_remove_ids(struct id_list *l, const struct device_grant *g)
{
    size_t kept = 0;
    vec_foreach(l, id)
        if (!device_grant_has(g, *id))
            l->p[kept++] = *id;
    l->n = kept;
}

// What a container before this one leaves to it: an init container all it has, others nothing.
static void devplug_allocate_add_reusable(struct device_op *op, const struct api_container *c,
                                          struct str resource, bool init, struct id_list *out)
{
    const struct device_grant *g =
        device_ledger_find(&op->owner->ledger, devplug_allocate_pod_uid(op), c->name, resource);
    bool sidecar = c->has_restart_policy && str_eqz(c->restart_policy, "Always");
    if (!g)
        return;
    if (!init || sidecar) {
        devplug_allocate_remove_ids(out, g);
        return;
    }
    vec_foreach(&g->devices, d)
        if (!str_listed(out->p, out->n, d->id))
            vec_push_arena(&op->arena, out, d->id);
}

// Devices of init containers that have ended by the time this container runs.
static struct id_list devplug_allocate_list_reusable(struct device_op *op,
                                                     const struct device_step *s)
{
    const struct api_pod_spec *spec = &((const struct api_pod *)op->pod->object.value)->spec;
    struct id_list out = {0};
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        if (&spec->init_containers.p[i] == s->container)
            return out;
        devplug_allocate_add_reusable(op, &spec->init_containers.p[i], s->resource, true, &out);
    }
    for (size_t i = 0; i < spec->containers.n && &spec->containers.p[i] != s->container; i++)
        devplug_allocate_add_reusable(op, &spec->containers.p[i], s->resource, false, &out);
    return out;
}

// Healthy devices that are not held, in the plugin's order.
static struct id_list devplug_allocate_list_available(struct device_op *op,
                                                      const struct resource *r)
{
    struct device_set held = {0};
    struct id_list out = {0};
    bool live;
    const struct device_list *l = devplug_resource_list(r, &live);
    device_ledger_held(&op->owner->ledger, str_z(r->name), &held);
    for (size_t i = 0; live && i < l->all.n; i++)
        if (l->all.p[i].healthy && !map_has(&held, l->all.p[i].id))
            vec_push_arena(&op->arena, &out, arena_str(&op->arena, l->all.p[i].id));
    map_done(&held);
    return out;
}

static void devplug_allocate_take_device(struct device_grant *g, const struct resource *r,
                                         struct str id)
{
    bool live;
    const struct listed *d = devplug_list_find(devplug_resource_list(r, &live), id);
    if (!d || d->nodes.n == 0) {
        device_grant_add(g, DEVICE_NODE_NONE, id);
        return;
    }
    vec_foreach(&d->nodes, node)
        device_grant_add(g, *node, id);
}

// Takes from a list until a grant has what it needs. True: it has.
static bool devplug_allocate_take_devices(struct device_grant *g, const struct resource *r,
                                          const struct id_list *from, size_t needed)
{
    size_t have = device_grant_len(g);
    for (size_t i = 0; i < from->n && have < needed; i++) {
        if (device_grant_has(g, from->p[i]))
            continue;
        devplug_allocate_take_device(g, r, from->p[i]);
        have++;
    }
    return have >= needed;
}

static void devplug_allocate_grant_ids(const struct device_grant *g, struct arena *a,
                                       struct plugin_strs *out)
{
    struct device_set seen = {0};
    vec_foreach(&g->devices, d) {
        bool fresh = false;
        *map_put_new(&seen, d->id, &fresh) = true;
        if (fresh)
            vec_push_arena(a, out, d->id);
    }
    map_done(&seen);
}

// --- One step ------------------------------------------------------------------------------------

static const struct device_step *devplug_allocate_current_step(const struct device_op *op)
{
    return &op->steps.p[op->next];
}

static struct device_grant *devplug_allocate_current_grant(const struct device_op *op)
{
    const struct device_step *s = devplug_allocate_current_step(op);
    return device_ledger_find(&op->owner->ledger, devplug_allocate_pod_uid(op), s->container->name,
                              s->resource);
}

// The instance to ask; NULL, and the operation has ended: there is none any more.
static struct device_plugin *devplug_allocate_current_plugin(struct device_op *op)
{
    const struct resource *r = devplug_find(op->owner, devplug_allocate_current_step(op)->resource);
    struct device_plugin *p = r ? devplug_resource_plugin(r) : NULL;
    if (!p || p->dead) {
        devplug_allocate_op_end(op, err_set(&op->err, ERR_UNAVAILABLE,
                                            "endpoint of %.*s has been stopped",
                                            STR_ARG(devplug_allocate_current_step(op)->resource)));
        return NULL;
    }
    return p;
}

static void devplug_allocate_step_done(struct device_op *op)
{
    op->next++;
    devplug_allocate_next_step(op);
}

static void devplug_allocate_on_pre_started(void *arg, const struct grpc_result *result)
{
    struct device_op *op = devplug_allocate_op_resume(arg);
    struct err why = {0};
    if (!op)
        return;
    if (result->status == GRPC_OK) {
        devplug_allocate_step_done(op);
        return;
    }
    int r = transport_error(result, &why);
    devplug_allocate_op_end(op, err_set(&op->err, -r,
                                        "device plugin PreStartContainer rpc failed with err: %s",
                                        why.msg));
}

// A plugin that is gone cannot be asked; what it gave is still good, as far as anybody knows.
static void devplug_allocate_call_pre_start(struct device_op *op)
{
    const struct resource *r = devplug_find(op->owner, devplug_allocate_current_step(op)->resource);
    struct device_plugin *p = r ? devplug_resource_plugin(r) : NULL;
    if (!op->starting || !p || !p->options.pre_start_required) {
        devplug_allocate_step_done(op);
        return;
    }
    struct plugin_device_ids q = {0};
    devplug_allocate_grant_ids(devplug_allocate_current_grant(op), &op->arena, &q.ids);
    op->waiting = true;
    fault_point("pre-start a container");
    devplug_call_plugin(p, "PreStartContainer", &plugin_device_ids_message, &q,
                        op->owner->options.times.pre_start_ns, devplug_allocate_on_pre_started, op);
}

// Keeps the part of an answer that is for the container; the request had one.
static int devplug_allocate_keep_answer(struct device_grant *g, struct str message, struct err *err)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_allocate_response answer = {0};
    int r = plugin_decode(&plugin_allocate_response_message, message, &answer, &a, err);
    if (r < 0)
        return r;
    if (answer.containers.n == 0)
        return err_set(err, ERR_INTERNAL, "no containers return in allocation response");
    plugin_encode(&plugin_allocation_message, &answer.containers.p[0], &w);
    g->response = arena_str(&g->arena, proto_written(&w));
    g->settled = true;
    return 0;
}

static void devplug_allocate_on_allocated(void *arg, const struct grpc_result *result)
{
    struct device_op *op = devplug_allocate_op_resume(arg);
    if (!op)
        return;
    struct device_grant *g = devplug_allocate_current_grant(op);
    int r = result->status == GRPC_OK ? devplug_allocate_keep_answer(g, result->response, &op->err)
                                      : transport_error(result, &op->err);
    if (r < 0)
        devplug_allocate_op_end(op, r);
    else
        devplug_allocate_call_pre_start(op);
}

static void devplug_allocate_call_allocate(struct device_op *op)
{
    struct device_plugin *p = devplug_allocate_current_plugin(op);
    struct plugin_devices_by_container q = {0};
    struct plugin_device_ids one = {0};
    if (!p)
        return;
    devplug_allocate_grant_ids(devplug_allocate_current_grant(op), &op->arena, &one.ids);
    vec_push_arena(&op->arena, &q.containers, one);
    op->waiting = true;
    fault_point("allocate devices");
    devplug_call_plugin(p, "Allocate", &plugin_devices_by_container_message, &q,
                        op->owner->options.times.allocate_ns, devplug_allocate_on_allocated, op);
}

static void devplug_allocate_fail_shortage(struct device_op *op, size_t needed, size_t there)
{
    devplug_allocate_op_end(
        op, err_set(&op->err, ERR_UNAVAILABLE,
                    "requested number of devices unavailable for %.*s. Requested: %zu, "
                    "Available: %zu",
                    STR_ARG(devplug_allocate_current_step(op)->resource), needed, there));
}

// The rest, whatever was preferred.
static void devplug_allocate_take_remaining(struct device_op *op, const struct resource *r)
{
    struct device_grant *g = devplug_allocate_current_grant(op);
    struct id_list there = devplug_allocate_list_available(op, r);
    size_t missing = devplug_allocate_current_step(op)->needed - device_grant_len(g);
    if (devplug_allocate_take_devices(g, r, &there, devplug_allocate_current_step(op)->needed))
        devplug_allocate_call_allocate(op);
    else
        devplug_allocate_fail_shortage(op, missing, there.n);
}

// Of what a plugin would like best, that which is there: it may name anything.
static void devplug_allocate_take_preferred(struct device_op *op, const struct resource *r,
                                            const struct plugin_strs *said)
{
    struct id_list there = devplug_allocate_list_available(op, r), wanted = {0};
    struct device_set known = {0};
    vec_foreach(&there, id)
        *map_put(&known, *id) = true;
    vec_foreach(said, id)
        if (wanted.n < devplug_allocate_current_step(op)->needed && map_has(&known, *id))
            vec_push_arena(&op->arena, &wanted, *id);
    (void)devplug_allocate_take_devices(devplug_allocate_current_grant(op), r, &wanted,
                                        devplug_allocate_current_step(op)->needed);
    map_done(&known);
}

static void devplug_allocate_on_preferred(void *arg, const struct grpc_result *result)
{
    struct device_op *op = devplug_allocate_op_resume(arg);
    struct plugin_devices_by_container said = {0};
    struct err why = {0};
    if (!op)
        return;
    int r = result->status == GRPC_OK ? plugin_decode(&plugin_devices_by_container_message,
                                                      result->response, &said, &op->arena, &why)
                                      : transport_error(result, &why);
    if (r < 0) {
        devplug_allocate_op_end(
            op, err_set(&op->err, -r,
                        "device plugin GetPreferredAllocation rpc failed with err: %s", why.msg));
        return;
    }
    const struct resource *of =
        devplug_find(op->owner, devplug_allocate_current_step(op)->resource);
    if (said.containers.n > 0)
        devplug_allocate_take_preferred(op, of, &said.containers.p[0].ids);
    devplug_allocate_take_remaining(op, of);
}

static void devplug_allocate_call_preferred(struct device_op *op, struct device_plugin *p,
                                            const struct id_list *there)
{
    struct plugin_preferred_request q = {0};
    struct plugin_preference one = {.size = (int64_t)devplug_allocate_current_step(op)->needed};
    devplug_allocate_grant_ids(devplug_allocate_current_grant(op), &op->arena, &one.must_include);
    vec_foreach(there, id)
        vec_push_arena(&op->arena, &one.available, *id);
    vec_foreach(&one.must_include, id)
        vec_push_arena(&op->arena, &one.available, *id);
    vec_push_arena(&op->arena, &q.containers, one);
    op->waiting = true;
    devplug_call_plugin(p, "GetPreferredAllocation", &plugin_preferred_request_message, &q,
                        op->owner->options.times.allocate_ns, devplug_allocate_on_preferred, op);
}

static int devplug_allocate_check_resource(const struct resource *r, struct str name,
                                           struct err *err)
{
    if (!r || !r->known)
        return err_set(err, ERR_NOT_FOUND, "cannot allocate unregistered device %.*s",
                       STR_ARG(name));
    if (devplug_resource_healthy(r) == 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "no healthy devices present; cannot allocate unhealthy devices %.*s",
                       STR_ARG(name));
    return 0;
}

static void devplug_allocate_choose_devices(struct device_op *op)
{
    const struct device_step *s = devplug_allocate_current_step(op);
    const struct resource *resource = devplug_find(op->owner, s->resource);
    int r = devplug_allocate_check_resource(resource, s->resource, &op->err);
    if (r < 0) {
        devplug_allocate_op_end(op, r);
        return;
    }
    struct id_list again = devplug_allocate_list_reusable(op, s);
    struct device_grant *g = device_ledger_add(&op->owner->ledger, devplug_allocate_pod_uid(op),
                                               s->container->name, s->resource);
    vec_push(&op->made, g);
    if (devplug_allocate_take_devices(g, resource, &again, s->needed)) {
        devplug_allocate_call_allocate(op);
        return;
    }
    struct id_list there = devplug_allocate_list_available(op, resource);
    size_t missing = s->needed - device_grant_len(g);
    struct device_plugin *p = devplug_resource_plugin(resource);
    if (there.n < missing)
        devplug_allocate_fail_shortage(op, missing, there.n);
    else if (p && p->options.preferred_allocation_available)
        devplug_allocate_call_preferred(op, p, &there);
    else
        devplug_allocate_take_remaining(op, resource);
}

// What a container has already, it keeps.
static void devplug_allocate_run_step(struct device_op *op)
{
    const struct device_step *s = devplug_allocate_current_step(op);
    const struct device_grant *g = devplug_allocate_current_grant(op);
    if (!g) {
        devplug_allocate_choose_devices(op);
    } else if (device_grant_len(g) != s->needed) {
        cleanup_sbuf struct sbuf uid = {0}, name = {0}, resource = {0};
        sbuf_add_quoted(&uid, devplug_allocate_pod_uid(op));
        sbuf_add_quoted(&name, s->container->name);
        sbuf_add_quoted(&resource, s->resource);
        devplug_allocate_op_end(
            op, err_set(&op->err, ERR_CONFLICT,
                        "pod %s container %s changed request for resource %s from %zu to %zu",
                        uid.p, name.p, resource.p, device_grant_len(g), s->needed));
    } else {
        devplug_allocate_call_pre_start(op);
    }
}

static void devplug_allocate_next_step(struct device_op *op)
{
    if (op->next < op->steps.n) {
        devplug_allocate_run_step(op);
        return;
    }
    devplug_allocate_op_end(op, op->made.n > 0 ? devplug_save(op->owner, &op->err) : 0);
}

// --- Operations ----------------------------------------------------------------------------------

static bool devplug_allocate_is_plugin_resource(const struct devplug *d, struct str resource)
{
    const struct resource *r = devplug_find(d, resource);
    return (r && r->known) || device_ledger_has_resource(&d->ledger, resource);
}

// Calls fn for what a container needs of plugins. Extended resources cannot be overcommitted:
// limits say it all.
static void devplug_allocate_each_need(const struct devplug *d, const struct api_pod *pod,
                                       const struct api_container *c,
                                       void (*fn)(void *arg, const struct device_step *s),
                                       void *arg)
{
    for (size_t i = 0; i < c->resources.limits.n; i++) {
        struct str name = c->resources.limits.p[i].key;
        int64_t needed = quantity_value(&c->resources.limits.p[i].value);
        if (needed <= 0 || pod_resource_is_claimed(pod, c->name, name) ||
            !devplug_allocate_is_plugin_resource(d, name))
            continue;
        const struct device_step s = {c, name, (size_t)needed};
        fn(arg, &s);
    }
}

static void devplug_allocate_each_container(const struct devplug *d, const struct api_pod *pod,
                                            void (*fn)(void *arg, const struct device_step *s),
                                            void *arg)
{
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        devplug_allocate_each_need(d, pod, &pod->spec.init_containers.p[i], fn, arg);
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        devplug_allocate_each_need(d, pod, &pod->spec.containers.p[i], fn, arg);
}

static void devplug_allocate_count_need(void *arg, const struct device_step *s)
{
    (void)s;
    *(bool *)arg = true;
}

bool devplug_wanted(const struct devplug *d, const struct api_pod *pod)
{
    bool any = false;
    devplug_allocate_each_container(d, pod, devplug_allocate_count_need, &any);
    return any;
}

static void devplug_allocate_add_step(void *arg, const struct device_step *s)
{
    struct device_op *op = arg;
    vec_push_arena(&op->arena, &op->steps, *s);
}

// --- Grants of pods that are gone ----------------------------------------------------------------

static void devplug_allocate_mark_pod(void *ctx, const struct typed_object *pod)
{
    *map_put((struct device_set *)ctx, pod->meta->uid) = true;
}

static bool devplug_allocate_is_stranded(void *arg, const struct device_grant *g)
{
    return !map_has((struct device_set *)arg, g->pod_uid);
}

// As kubelet, before devices are allocated: release those of pods that are gone.
static void devplug_allocate_release_stranded(struct devplug *d)
{
    struct device_set there = {0};
    if (d->options.pods && d->options.pods(d->options.arg, devplug_allocate_mark_pod, &there)) {
        list_foreach(&d->ops, n)
            devplug_allocate_mark_pod(&there, list_entry(n, struct device_op, node)->pod);
        (void)device_ledger_drop(&d->ledger, devplug_allocate_is_stranded, &there);
    }
    map_done(&there);
}

static void devplug_allocate_on_begin(void *arg)
{
    struct device_op *op = arg;
    devplug_allocate_release_stranded(op->owner);
    devplug_allocate_next_step(op);
}

static struct device_op *devplug_allocate_op_new(struct devplug *d, const struct typed_object *pod,
                                                 devplug_done_fn done, void *arg)
{
    struct device_op *op = xcalloc(1, sizeof(*op));
    op->owner = d;
    op->pod = typed_object_ref(pod);
    op->done = done;
    op->arg = arg;
    op->begin = (struct exec_timer){.fn = devplug_allocate_on_begin, .arg = op};
    list_push_back(&d->ops, &op->node);
    exec_timer_start(d->options.exec, &op->begin, 0);
    return op;
}

void devplug_allocate(struct devplug *d, const struct typed_object *pod, devplug_done_fn done,
                      void *arg)
{
    struct device_op *op = devplug_allocate_op_new(d, pod, done, arg);
    devplug_allocate_each_container(d, pod->object.value, devplug_allocate_add_step, op);
}

struct need_check {
    const struct devplug *devices;
    struct str pod_uid;
    bool due;
};

static void devplug_allocate_mark_due(void *arg, const struct device_step *s)
{
    struct need_check *n = arg;
    const struct resource *r = devplug_find(n->devices, s->resource);
    const struct device_plugin *p = r ? devplug_resource_plugin(r) : NULL;
    n->due |= (p && p->options.pre_start_required) ||
              !device_ledger_find(&n->devices->ledger, n->pod_uid, s->container->name, s->resource);
}

bool devplug_pre_start(struct devplug *d, const struct typed_object *pod,
                       const struct api_container *container, devplug_done_fn done, void *arg)
{
    struct need_check n = {.devices = d, .pod_uid = pod->meta->uid};
    devplug_allocate_each_need(d, pod->object.value, container, devplug_allocate_mark_due, &n);
    if (!n.due)
        return false;
    struct device_op *op = devplug_allocate_op_new(d, pod, done, arg);
    op->starting = true;
    devplug_allocate_each_need(d, pod->object.value, container, devplug_allocate_add_step, op);
    return true;
}

static bool devplug_allocate_grant_is_of(void *arg, const struct device_grant *g)
{
    return str_eq(*(const struct str *)arg, g->pod_uid);
}

void devplug_release(struct devplug *d, struct str uid)
{
    struct err err = {0};
    devplug_cancel_ops(d, uid);
    // A text that cannot be written now is written with the next change, and collect() finds what
    // is left.
    if (device_ledger_drop(&d->ledger, devplug_allocate_grant_is_of, &uid) > 0 &&
        devplug_save(d, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
}

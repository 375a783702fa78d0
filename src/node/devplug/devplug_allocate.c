// SPDX-License-Identifier: Apache-2.0
//
// Devices for the containers of a pod: which ones, what the plugin says to them, and what is kept of it.
//
// Devices are in the ledger from the moment they are chosen, so operations of several pods may be under way at the
// same time. Nothing is on disk before the plugins have agreed to everything; a crash before that leaves no trace,
// and the pod is admitted as if for the first time.
#include <errno.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/mem.h"
#include "node/devplug/devplug_int.h"
#include "os/fault.h"

#include "base/banned.h"

struct id_list VEC(struct str);

static void go_on(struct device_op *op);

static struct str pod_uid(const struct device_op *op)
{
    return op->pod->meta->uid;
}

// --- The end of an operation ---------------------------------------------------------------------

static void op_free(struct device_op *op)
{
    typed_object_unref(op->pod);
    vec_done(&op->made);
    arena_done(&op->arena);
    free(op);
}

static bool was_made_here(void *arg, const struct device_grant *g)
{
    const struct device_op *op = arg;
    vec_foreach(&op->made, one)
        if (*one == g)
            return true;
    return false;
}

static void op_end(struct device_op *op, int code)
{
    if (code < 0)
        (void)device_ledger_drop(&op->owner->ledger, was_made_here, op);
    exec_timer_stop(op->owner->options.exec, &op->begin);
    list_remove(&op->node);
    devplug_done_fn done = op->done;
    void *arg = op->arg;
    struct err err = op->err;
    if (!op->waiting)
        op_free(op);
    done(arg, code, &err);
}

// The operation an answer is for; NULL: it has ended meanwhile.
static struct device_op *op_back(struct device_op *op)
{
    op->waiting = false;
    if (list_linked(&op->node))
        return op;
    op_free(op);
    return NULL;
}

static struct device_op *op_of(const struct devplug *d, struct str uid)
{
    list_foreach(&d->ops, n) {
        struct device_op *op = list_entry(n, struct device_op, node);
        if (uid.n == 0 || str_eq(pod_uid(op), uid))
            return op;
    }
    return NULL;
}

void device_op_cancel_all(struct devplug *d, struct str uid)
{
    struct device_op *op;
    while ((op = op_of(d, uid)))
        op_end(op, err_set(&op->err, ECANCELED, "the pod is not started any more"));
}

// --- What is there to take -----------------------------------------------------------------------

static void drop_ids(struct id_list *l, const struct device_grant *g)
{
    size_t kept = 0;
    vec_foreach(l, id)
        if (!device_grant_has(g, *id))
            l->p[kept++] = *id;
    l->n = kept;
}

// What a container before this one leaves to it: an init container all it has, others nothing.
static void pass_on(struct device_op *op, const struct api_container *c, struct str resource,
                    bool init, struct id_list *out)
{
    const struct device_grant *g =
        device_ledger_find(&op->owner->ledger, pod_uid(op), c->name, resource);
    bool sidecar = c->has_restart_policy && str_eqz(c->restart_policy, "Always");
    if (!g)
        return;
    if (!init || sidecar) {
        drop_ids(out, g);
        return;
    }
    vec_foreach(&g->devices, d)
        if (!str_listed(out->p, out->n, d->id))
            vec_push_arena(&op->arena, out, d->id);
}

// Devices of init containers that have ended by the time this container runs.
static struct id_list reusable(struct device_op *op, const struct device_step *s)
{
    const struct api_pod_spec *spec = &((const struct api_pod *)op->pod->object.value)->spec;
    struct id_list out = {0};
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        if (&spec->init_containers.p[i] == s->container)
            return out;
        pass_on(op, &spec->init_containers.p[i], s->resource, true, &out);
    }
    for (size_t i = 0; i < spec->containers.n && &spec->containers.p[i] != s->container; i++)
        pass_on(op, &spec->containers.p[i], s->resource, false, &out);
    return out;
}

// Healthy devices that nobody holds, in the plugin's order.
static struct id_list available(struct device_op *op, const struct resource *r)
{
    struct device_set held = {0};
    struct id_list out = {0};
    bool live;
    const struct device_list *l = resource_list(r, &live);
    device_ledger_held(&op->owner->ledger, str_z(r->name), &held);
    for (size_t i = 0; live && i < l->all.n; i++)
        if (l->all.p[i].healthy && !map_has(&held, l->all.p[i].id))
            vec_push_arena(&op->arena, &out, arena_str(&op->arena, l->all.p[i].id));
    map_done(&held);
    return out;
}

static void take_one(struct device_grant *g, const struct resource *r, struct str id)
{
    bool live;
    const struct listed *d = device_list_find(resource_list(r, &live), id);
    if (!d || d->nodes.n == 0) {
        device_grant_add(g, DEVICE_NODE_NONE, id);
        return;
    }
    vec_foreach(&d->nodes, node)
        device_grant_add(g, *node, id);
}

// Takes from a list until a grant has what it needs. True: it has.
static bool take(struct device_grant *g, const struct resource *r, const struct id_list *from,
                 size_t needed)
{
    size_t have = device_grant_len(g);
    for (size_t i = 0; i < from->n && have < needed; i++) {
        if (device_grant_has(g, from->p[i]))
            continue;
        take_one(g, r, from->p[i]);
        have++;
    }
    return have >= needed;
}

static void ids_of(const struct device_grant *g, struct arena *a, struct plugin_strs *out)
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

static const struct device_step *step_of(const struct device_op *op)
{
    return &op->steps.p[op->next];
}

static struct device_grant *grant_of(const struct device_op *op)
{
    const struct device_step *s = step_of(op);
    return device_ledger_find(&op->owner->ledger, pod_uid(op), s->container->name, s->resource);
}

// The instance to ask; NULL, and the operation has ended: there is none any more.
static struct device_plugin *plugin_of(struct device_op *op)
{
    const struct resource *r = devplug_find(op->owner, step_of(op)->resource);
    struct device_plugin *p = r ? resource_plugin(r) : NULL;
    if (!p || p->dead) {
        op_end(op, err_set(&op->err, ERR_UNAVAILABLE, "endpoint of %.*s has been stopped",
                           STR_ARG(step_of(op)->resource)));
        return NULL;
    }
    return p;
}

static void step_is_over(struct device_op *op)
{
    op->next++;
    go_on(op);
}

static void on_pre_started(void *arg, const struct grpc_result *r)
{
    struct device_op *op = op_back(arg);
    struct err why = {0};
    if (!op)
        return;
    if (r->status == GRPC_OK) {
        step_is_over(op);
        return;
    }
    int code = transport_error(r, &why);
    op_end(op, err_set(&op->err, -code, "device plugin PreStartContainer rpc failed with err: %s",
                       why.msg));
}

// A plugin that is gone cannot be asked; what it gave is still good, as far as anybody knows.
static void pre_start(struct device_op *op)
{
    const struct resource *r = devplug_find(op->owner, step_of(op)->resource);
    struct device_plugin *p = r ? resource_plugin(r) : NULL;
    if (!op->starting || !p || !p->options.pre_start_required) {
        step_is_over(op);
        return;
    }
    struct plugin_device_ids q = {0};
    ids_of(grant_of(op), &op->arena, &q.ids);
    op->waiting = true;
    fault_point("pre-start a container");
    device_plugin_call(p, "PreStartContainer", &plugin_device_ids_message, &q,
                       op->owner->options.times.pre_start_ns, on_pre_started, op);
}

// Keeps the part of an answer that is for the container; the request had one.
static int keep(struct device_grant *g, struct str message, struct err *err)
{
    cleanup_arena struct arena a = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct plugin_allocate_response r = {0};
    int code = plugin_decode(&plugin_allocate_response_message, message, &r, &a, err);
    if (code < 0)
        return code;
    if (r.containers.n == 0)
        return err_set(err, ERR_INTERNAL, "no containers return in allocation response");
    plugin_encode(&plugin_allocation_message, &r.containers.p[0], &w);
    g->response = arena_str(&g->arena, proto_written(&w));
    g->settled = true;
    return 0;
}

static void on_allocated(void *arg, const struct grpc_result *r)
{
    struct device_op *op = op_back(arg);
    if (!op)
        return;
    struct device_grant *g = grant_of(op);
    int code = r->status == GRPC_OK ? keep(g, r->response, &op->err) : transport_error(r, &op->err);
    if (code < 0)
        op_end(op, code);
    else
        pre_start(op);
}

static void allocate(struct device_op *op)
{
    struct device_plugin *p = plugin_of(op);
    struct plugin_devices_by_container q = {0};
    struct plugin_device_ids one = {0};
    if (!p)
        return;
    ids_of(grant_of(op), &op->arena, &one.ids);
    vec_push_arena(&op->arena, &q.containers, one);
    op->waiting = true;
    fault_point("allocate devices");
    device_plugin_call(p, "Allocate", &plugin_devices_by_container_message, &q,
                       op->owner->options.times.allocate_ns, on_allocated, op);
}

static void end_without(struct device_op *op, size_t needed, size_t there)
{
    op_end(op, err_set(&op->err, ERR_UNAVAILABLE,
                       "requested number of devices unavailable for %.*s. Requested: %zu, "
                       "Available: %zu",
                       STR_ARG(step_of(op)->resource), needed, there));
}

// The rest, whatever was preferred.
static void take_rest(struct device_op *op, const struct resource *r)
{
    struct device_grant *g = grant_of(op);
    struct id_list there = available(op, r);
    size_t missing = step_of(op)->needed - device_grant_len(g);
    if (take(g, r, &there, step_of(op)->needed))
        allocate(op);
    else
        end_without(op, missing, there.n);
}

// Of what a plugin would like best, that which is there: it may name anything.
static void take_preferred(struct device_op *op, const struct resource *r,
                           const struct plugin_strs *said)
{
    struct id_list there = available(op, r), wanted = {0};
    struct device_set known = {0};
    vec_foreach(&there, id)
        *map_put(&known, *id) = true;
    vec_foreach(said, id)
        if (wanted.n < step_of(op)->needed && map_has(&known, *id))
            vec_push_arena(&op->arena, &wanted, *id);
    (void)take(grant_of(op), r, &wanted, step_of(op)->needed);
    map_done(&known);
}

static void on_preferred(void *arg, const struct grpc_result *r)
{
    struct device_op *op = op_back(arg);
    struct plugin_devices_by_container said = {0};
    struct err why = {0};
    if (!op)
        return;
    int code = r->status == GRPC_OK ? plugin_decode(&plugin_devices_by_container_message,
                                                    r->response, &said, &op->arena, &why)
                                    : transport_error(r, &why);
    if (code < 0) {
        op_end(op,
               err_set(&op->err, -code,
                       "device plugin GetPreferredAllocation rpc failed with err: %s", why.msg));
        return;
    }
    const struct resource *of = devplug_find(op->owner, step_of(op)->resource);
    if (said.containers.n > 0)
        take_preferred(op, of, &said.containers.p[0].ids);
    take_rest(op, of);
}

static void ask_preference(struct device_op *op, struct device_plugin *p,
                           const struct id_list *there)
{
    struct plugin_preferred_request q = {0};
    struct plugin_preference one = {.size = (int64_t)step_of(op)->needed};
    ids_of(grant_of(op), &op->arena, &one.must_include);
    vec_foreach(there, id)
        vec_push_arena(&op->arena, &one.available, *id);
    vec_foreach(&one.must_include, id)
        vec_push_arena(&op->arena, &one.available, *id);
    vec_push_arena(&op->arena, &q.containers, one);
    op->waiting = true;
    device_plugin_call(p, "GetPreferredAllocation", &plugin_preferred_request_message, &q,
                       op->owner->options.times.allocate_ns, on_preferred, op);
}

static int check_resource(const struct resource *r, struct str name, struct err *err)
{
    if (!r || !r->known)
        return err_set(err, ERR_NOT_FOUND, "cannot allocate unregistered device %.*s",
                       STR_ARG(name));
    if (resource_healthy(r) == 0)
        return err_set(err, ERR_UNAVAILABLE,
                       "no healthy devices present; cannot allocate unhealthy devices %.*s",
                       STR_ARG(name));
    return 0;
}

static void choose(struct device_op *op)
{
    const struct device_step *s = step_of(op);
    const struct resource *r = devplug_find(op->owner, s->resource);
    int code = check_resource(r, s->resource, &op->err);
    if (code < 0) {
        op_end(op, code);
        return;
    }
    struct id_list again = reusable(op, s);
    struct device_grant *g =
        device_ledger_add(&op->owner->ledger, pod_uid(op), s->container->name, s->resource);
    vec_push(&op->made, g);
    if (take(g, r, &again, s->needed)) {
        allocate(op);
        return;
    }
    struct id_list there = available(op, r);
    size_t missing = s->needed - device_grant_len(g);
    struct device_plugin *p = resource_plugin(r);
    if (there.n < missing)
        end_without(op, missing, there.n);
    else if (p && p->options.preferred_allocation_available)
        ask_preference(op, p, &there);
    else
        take_rest(op, r);
}

// What a container has already, it keeps.
static void run_step(struct device_op *op)
{
    const struct device_step *s = step_of(op);
    const struct device_grant *g = grant_of(op);
    if (!g) {
        choose(op);
    } else if (device_grant_len(g) != s->needed) {
        cleanup_sbuf struct sbuf uid = {0}, name = {0}, resource = {0};
        sbuf_add_quoted(&uid, pod_uid(op));
        sbuf_add_quoted(&name, s->container->name);
        sbuf_add_quoted(&resource, s->resource);
        op_end(op, err_set(&op->err, ERR_CONFLICT,
                           "pod %s container %s changed request for resource %s from %zu to %zu",
                           uid.p, name.p, resource.p, device_grant_len(g), s->needed));
    } else {
        pre_start(op);
    }
}

static void go_on(struct device_op *op)
{
    if (op->next < op->steps.n) {
        run_step(op);
        return;
    }
    op_end(op, op->made.n > 0 ? devplug_save(op->owner, &op->err) : 0);
}

// --- Operations ----------------------------------------------------------------------------------

static bool is_plugins(const struct devplug *d, struct str resource)
{
    const struct resource *r = devplug_find(d, resource);
    return (r && r->known) || device_ledger_has_resource(&d->ledger, resource);
}

// Calls fn for what a container needs of plugins. Extended resources cannot be overcommitted: limits say it all.
static void each_need(const struct devplug *d, const struct api_pod *pod,
                      const struct api_container *c,
                      void (*fn)(void *arg, const struct device_step *s), void *arg)
{
    for (size_t i = 0; i < c->resources.limits.n; i++) {
        struct str name = c->resources.limits.p[i].key;
        int64_t needed = quantity_value(&c->resources.limits.p[i].value);
        if (needed <= 0 || pod_resource_is_claimed(pod, c->name, name) || !is_plugins(d, name))
            continue;
        const struct device_step s = {c, name, (size_t)needed};
        fn(arg, &s);
    }
}

static void each_container(const struct devplug *d, const struct api_pod *pod,
                           void (*fn)(void *arg, const struct device_step *s), void *arg)
{
    for (size_t i = 0; i < pod->spec.init_containers.n; i++)
        each_need(d, pod, &pod->spec.init_containers.p[i], fn, arg);
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        each_need(d, pod, &pod->spec.containers.p[i], fn, arg);
}

static void note_need(void *arg, const struct device_step *s)
{
    (void)s;
    *(bool *)arg = true;
}

bool devplug_wanted(const struct devplug *d, const struct api_pod *pod)
{
    bool any = false;
    each_container(d, pod, note_need, &any);
    return any;
}

static void add_step(void *arg, const struct device_step *s)
{
    struct device_op *op = arg;
    vec_push_arena(&op->arena, &op->steps, *s);
}

// --- Grants of pods that are gone ----------------------------------------------------------------

static void note_pod(void *ctx, const struct typed_object *pod)
{
    *map_put((struct device_set *)ctx, pod->meta->uid) = true;
}

static bool is_stranded(void *arg, const struct device_grant *g)
{
    return !map_has((struct device_set *)arg, g->pod_uid);
}

// As kubelet, before something is given away: what nobody came to take back.
static void collect(struct devplug *d)
{
    struct device_set there = {0};
    if (d->options.pods && d->options.pods(d->options.arg, note_pod, &there)) {
        list_foreach(&d->ops, n)
            note_pod(&there, list_entry(n, struct device_op, node)->pod);
        (void)device_ledger_drop(&d->ledger, is_stranded, &there);
    }
    map_done(&there);
}

static void on_begin(void *arg)
{
    struct device_op *op = arg;
    collect(op->owner);
    go_on(op);
}

static struct device_op *op_new(struct devplug *d, const struct typed_object *pod,
                                devplug_done_fn done, void *arg)
{
    struct device_op *op = xcalloc(1, sizeof(*op));
    op->owner = d;
    op->pod = typed_object_ref(pod);
    op->done = done;
    op->arg = arg;
    op->begin = (struct exec_timer){.fn = on_begin, .arg = op};
    list_push_back(&d->ops, &op->node);
    exec_timer_start(d->options.exec, &op->begin, 0);
    return op;
}

void devplug_allocate(struct devplug *d, const struct typed_object *pod, devplug_done_fn done,
                      void *arg)
{
    struct device_op *op = op_new(d, pod, done, arg);
    each_container(d, pod->object.value, add_step, op);
}

struct need_check {
    const struct devplug *devices;
    struct str pod_uid;
    bool due;
};

static void note_due(void *arg, const struct device_step *s)
{
    struct need_check *n = arg;
    const struct resource *r = devplug_find(n->devices, s->resource);
    const struct device_plugin *p = r ? resource_plugin(r) : NULL;
    n->due |= (p && p->options.pre_start_required) ||
              !device_ledger_find(&n->devices->ledger, n->pod_uid, s->container->name, s->resource);
}

bool devplug_pre_start(struct devplug *d, const struct typed_object *pod,
                       const struct api_container *container, devplug_done_fn done, void *arg)
{
    struct need_check n = {.devices = d, .pod_uid = pod->meta->uid};
    each_need(d, pod->object.value, container, note_due, &n);
    if (!n.due)
        return false;
    struct device_op *op = op_new(d, pod, done, arg);
    op->starting = true;
    each_need(d, pod->object.value, container, add_step, op);
    return true;
}

static bool is_of(void *arg, const struct device_grant *g)
{
    return str_eq(*(const struct str *)arg, g->pod_uid);
}

void devplug_release(struct devplug *d, struct str uid)
{
    struct err err = {0};
    device_op_cancel_all(d, uid);
    // A text that cannot be written now is written with the next change, and collect() finds what is left.
    if (device_ledger_drop(&d->ledger, is_of, &uid) > 0 && devplug_save(d, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
}

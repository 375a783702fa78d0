// SPDX-License-Identifier: Apache-2.0
//
// The manager of device plugins: registration, device lists and their health, and the checkpoint.
#include "node/devplug/devplug.h"

#include <errno.h>
#include <stdlib.h>

#include "api/names.h"
#include "base/mem.h"
#include "node/devplug/devplug_int.h"
#include "os/fault.h"

#include "base/banned.h"

#define DIAL_NS      (10 * CLOCK_NS_PER_SEC)
#define GRACE_NS     (300 * CLOCK_NS_PER_SEC)
#define ALLOCATE_NS  (120 * CLOCK_NS_PER_SEC)
#define PRE_START_NS (30 * CLOCK_NS_PER_SEC)

struct log_module devplug_log = LOG_MODULE("agent");

static void devplug_notify_changed(struct devplug *d)
{
    if (d->options.changed && !d->closing)
        d->options.changed(d->options.arg);
}

// --- Lists of devices ----------------------------------------------------------------------------

static void devplug_free_list(struct device_list *l)
{
    if (!l)
        return;
    map_done(&l->by_id);
    arena_done(&l->arena);
    free(l);
}

const struct listed *devplug_list_find(const struct device_list *l, struct str id)
{
    const size_t *at = l ? map_get(&l->by_id, id) : NULL;
    return at ? &l->all.p[*at] : NULL;
}

// Of two devices with the same id the last one counts.
static void devplug_add_device(struct device_list *l, const struct plugin_listed_device *d)
{
    struct listed one = {.id = arena_str(&l->arena, d->id),
                         .healthy = str_eqz(d->health, PLUGIN_DEVICE_HEALTHY)};
    vec_foreach(&d->topology, t)
        vec_foreach(&t->nodes, node)
            vec_push_arena(&l->arena, &one.nodes, node->id);
    const size_t *before = map_get(&l->by_id, d->id);
    if (before) {
        l->healthy -= l->all.p[*before].healthy;
        l->all.p[*before] = one;
    } else {
        *map_put(&l->by_id, one.id) = l->all.n;
        vec_push_arena(&l->arena, &l->all, one);
    }
    l->healthy += one.healthy;
}

// --- Resources -----------------------------------------------------------------------------------

struct resource *devplug_find(const struct devplug *d, struct str name)
{
    vec_foreach(&d->resources, r)
        if (str_eqz(name, (*r)->name))
            return *r;
    return NULL;
}

struct device_plugin *devplug_resource_plugin(const struct resource *r)
{
    for (size_t i = r->plugins.n; i-- > 0;)
        if (r->plugins.p[i]->list)
            return r->plugins.p[i];
    return r->plugins.n > 0 ? r->plugins.p[r->plugins.n - 1] : NULL;
}

const struct device_list *devplug_resource_list(const struct resource *r, bool *ret_live)
{
    const struct device_plugin *p = devplug_resource_plugin(r);
    *ret_live = p && p->list;
    return *ret_live ? p->list : r->left;
}

size_t devplug_resource_healthy(const struct resource *r)
{
    bool live;
    const struct device_list *l = devplug_resource_list(r, &live);
    return live ? l->healthy : 0;
}

// The time of a resource without a plugin is over: it is forgotten, but for the node's saying 0.
static void devplug_on_grace_over(void *arg)
{
    struct resource *r = arg;
    struct err err = {0};
    devplug_free_list(take_ptr(r->left));
    r->known = false;
    LOG_INFO(&devplug_log, "a resource is gone: its plugin did not come back",
             log_z("resource", r->name));
    if (devplug_save(r->owner, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
    devplug_notify_changed(r->owner);
}

static struct resource *devplug_put_resource(struct devplug *d, struct str name)
{
    struct resource *r = devplug_find(d, name);
    if (!r) {
        r = xcalloc(1, sizeof(*r));
        r->owner = d;
        r->name = xstrndup(name.p, name.n);
        r->grace = (struct exec_timer){.fn = devplug_on_grace_over, .arg = r};
        vec_push(&d->resources, r);
    }
    r->known = true;
    return r;
}

static void devplug_start_grace(struct resource *r)
{
    exec_timer_start(r->owner->options.exec, &r->grace, r->owner->options.times.grace_ns);
}

// --- Health --------------------------------------------------------------------------------------

static bool devplug_is_healthy(const struct device_list *l, bool live, struct str id)
{
    const struct listed *d = live ? devplug_list_find(l, id) : NULL;
    return d && d->healthy;
}

// What is known of a resource, before something happens to it.
struct before {
    const struct device_list *list;
    bool live;
};

// Notifies of the pods that have a device whose health changed.
static void devplug_notify_pods(struct devplug *d, const struct resource *r, const struct before *b)
{
    struct device_set told = {0};
    bool live;
    const struct device_list *now = devplug_resource_list(r, &live);
    vec_foreach(&d->ledger.grants, g) {
        bool other = false, fresh = false;
        if (!str_eqz((*g)->resource, r->name))
            continue;
        vec_foreach(&(*g)->devices, place)
            other |= devplug_is_healthy(b->list, b->live, place->id) !=
                     devplug_is_healthy(now, live, place->id);
        if (other)
            *map_put_new(&told, (*g)->pod_uid, &fresh) = true;
        if (fresh && d->options.health_changed)
            d->options.health_changed(d->options.arg, (*g)->pod_uid);
    }
    map_done(&told);
}

static void devplug_has_changed(struct resource *r, const struct before *b)
{
    struct err err = {0};
    if (r->owner->closing)
        return;
    if (devplug_save(r->owner, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
    devplug_notify_pods(r->owner, r, b);
    devplug_notify_changed(r->owner);
}

// --- Plugins -------------------------------------------------------------------------------------

static void devplug_on_plugin_free(void *arg)
{
    struct device_plugin *p = arg;
    struct devplug *d = p->owner;
    exec_timer_stop(d->options.exec, &p->timer);
    d->options.transport->close(take_ptr(p->link));
    list_remove(&p->node);
    d->plugins_len--;
    devplug_free_list(p->list);
    free(p->name);
    free(p->path);
    free(p);
}

// Removes an instance from its resource; its device list stays as the last one known.
static void devplug_disconnect(struct device_plugin *p)
{
    struct resource *r = take_ptr(p->resource);
    struct before b;
    size_t kept = 0;
    b.list = devplug_resource_list(r, &b.live);
    vec_foreach(&r->plugins, one)
        if (*one != p)
            r->plugins.p[kept++] = *one;
    r->plugins.n = kept;
    struct device_list *old = r->left;
    if (p->list)
        r->left = take_ptr(p->list);
    if (kept == 0) {
        devplug_start_grace(r);
        LOG_INFO(&devplug_log, "the last device plugin of a resource is gone",
                 log_z("resource", r->name));
        if (p->owner->options.plugin_changed && !p->owner->closing)
            p->owner->options.plugin_changed(p->owner->options.arg, str_z(r->name), false);
    }
    devplug_has_changed(r, &b);
    if (old != r->left)
        devplug_free_list(old);
}

static void devplug_answer_registration(struct device_plugin *p, int code, const struct err *err)
{
    devplug_done_fn done = p->done;
    p->done = NULL;
    if (done)
        done(p->arg, code, err);
}

// The memory goes later: this may be within one of its calls.
static void devplug_end_plugin(struct device_plugin *p, const char *why)
{
    if (p->dead)
        return;
    p->dead = true;
    LOG_INFO(&devplug_log, "device plugin disconnected", log_z("resource", p->name),
             log_z("endpoint", p->path), log_z("why", why));
    struct err err = {0};
    int code = err_set(&err, ERR_UNAVAILABLE, "%s", why);
    devplug_answer_registration(p, code, &err);
    if (p->resource)
        devplug_disconnect(p);
    p->timer.fn = devplug_on_plugin_free;
    exec_timer_start(p->owner->options.exec, &p->timer, 0);
}

void devplug_call_plugin(struct device_plugin *p, const char *method,
                         const struct plugin_message *message, const void *value,
                         int64_t timeout_ns, void (*done)(void *arg, const struct grpc_result *r),
                         void *arg)
{
    cleanup_sbuf struct sbuf path = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    sbuf_addf(&path, PLUGIN_DEVICES "%s", method);
    plugin_encode(message, value, &w);
    const struct grpc_request q = {.method = sbuf_str(&path),
                                   .message = proto_written(&w),
                                   .timeout_ns = timeout_ns,
                                   .done = done,
                                   .arg = arg};
    p->owner->options.transport->call(p->link, &q);
}

// --- Device lists --------------------------------------------------------------------------------

static void devplug_on_list(void *arg, struct str message)
{
    struct device_plugin *p = arg;
    cleanup_arena struct arena a = {0};
    struct plugin_device_list told = {0};
    struct err err = {0};
    struct before b;
    if (p->dead || !p->resource)
        return;
    if (plugin_decode(&plugin_device_list_message, message, &told, &a, &err) < 0) {
        devplug_end_plugin(p, err.msg);
        return;
    }
    struct device_list *l = xcalloc(1, sizeof(*l));
    vec_foreach(&told.devices, one)
        devplug_add_device(l, one);
    b.list = devplug_resource_list(p->resource, &b.live);
    struct device_list *old = p->list;
    p->list = l;
    devplug_has_changed(p->resource, &b);
    devplug_free_list(old);
}

static void devplug_on_list_end(void *arg, const struct grpc_result *r)
{
    struct err why = {0};
    (void)transport_error(r, &why);
    devplug_end_plugin(arg, why.msg);
}

static void devplug_watch_devices(struct device_plugin *p)
{
    const struct grpc_request q = {.method = STR(PLUGIN_DEVICES "ListAndWatch"),
                                   .received = devplug_on_list,
                                   .done = devplug_on_list_end,
                                   .arg = p};
    p->owner->options.transport->call(p->link, &q);
}

// --- Registration --------------------------------------------------------------------------------

// Another instance at the same socket is one whose end has not been seen yet.
static void devplug_replace_older(const struct device_plugin *p)
{
    list_foreach(&p->owner->plugins, n) {
        struct device_plugin *other = list_entry(n, struct device_plugin, node);
        if (other != p && other->resource == p->resource && strcmp(other->path, p->path) == 0)
            devplug_end_plugin(other, "another plugin registered with the same socket");
    }
}

static void devplug_join_plugin(struct device_plugin *p)
{
    struct devplug *d = p->owner;
    struct resource *r = devplug_put_resource(d, str_z(p->name));
    exec_timer_stop(d->options.exec, &p->timer);
    exec_timer_stop(d->options.exec, &r->grace);
    p->resource = r;
    vec_push(&r->plugins, p);
    devplug_replace_older(p);
    LOG_INFO(&devplug_log, "device plugin connected", log_z("resource", p->name),
             log_z("endpoint", p->path));
    if (d->options.plugin_changed)
        d->options.plugin_changed(d->options.arg, str_z(r->name), true);
    devplug_answer_registration(p, 0, NULL);
    devplug_watch_devices(p);
}

static void devplug_on_options(void *arg, const struct grpc_result *result)
{
    struct device_plugin *p = arg;
    cleanup_arena struct arena a = {0};
    struct err why = {0};
    if (p->dead)
        return;
    int r = result->status == GRPC_OK ? plugin_decode(&plugin_devices_options_message,
                                                      result->response, &p->options, &a, &why)
                                      : transport_error(result, &why);
    if (r == 0) {
        devplug_join_plugin(p);
        return;
    }
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "failed to get device plugin options: %s", why.msg);
    devplug_end_plugin(p, text.p);
}

static void devplug_on_state(void *arg, bool connected)
{
    struct device_plugin *p = arg;
    if (!connected || p->asking || p->dead)
        return;
    p->asking = true;
    devplug_call_plugin(p, "GetDevicePluginOptions", &plugin_empty_message,
                        &(struct plugin_empty){0}, p->owner->options.times.dial_ns,
                        devplug_on_options, p);
}

static void devplug_on_dial_timeout(void *arg)
{
    devplug_end_plugin(arg, "failed to dial device plugin: context deadline exceeded");
}

static int devplug_check_request(const struct devplug *d, const struct plugin_register_request *q,
                                 struct err *err)
{
    cleanup_arena struct arena a = {0};
    struct name_msgs wrong = {.arena = &a};
    cleanup_sbuf struct sbuf quoted = {0};
    if (!str_eqz(q->version, PLUGIN_ID_DEVICES)) {
        sbuf_add_quoted(&quoted, q->version);
        return err_set(err, ERR_INVALID,
                       "requested API version %s is not supported by kubelet. Supported version "
                       "is [\"" PLUGIN_ID_DEVICES "\"]",
                       quoted.p);
    }
    name_extended_resource(q->resource_name, &wrong);
    if (wrong.n > 0) {
        sbuf_add_quoted(&quoted, q->resource_name);
        return err_set(err, ERR_INVALID, "the ResourceName %s is invalid", quoted.p);
    }
    if (q->endpoint.n == 0 || str_find_char(q->endpoint, '\0') >= 0)
        return err_set(err, ERR_INVALID,
                       "the endpoint must be the name of the plugin's socket in the folder of the "
                       "registration socket");
    if (d->plugins_len >= DEVPLUG_PLUGINS_MAX ||
        (!devplug_find(d, q->resource_name) && d->resources.n >= DEVPLUG_RESOURCES_MAX))
        return err_set(err, ERR_TOO_MANY, "too many device plugins are registered");
    return 0;
}

void devplug_register(struct devplug *d, const struct plugin_register_request *q,
                      devplug_done_fn done, void *arg)
{
    struct err err = {0};
    int r = devplug_check_request(d, q, &err);
    if (r < 0) {
        LOG_WARN(&devplug_log, "bad registration of a device plugin", log_z("why", err.msg));
        done(arg, r, &err);
        return;
    }
    struct device_plugin *p = xcalloc(1, sizeof(*p));
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%.*s", d->folder, STR_ARG(q->endpoint));
    p->owner = d;
    p->name = xstrndup(q->resource_name.p, q->resource_name.n);
    p->path = sbuf_take(&path);
    p->done = done;
    p->arg = arg;
    list_push_back(&d->plugins, &p->node);
    d->plugins_len++;
    p->timer = (struct exec_timer){.fn = devplug_on_dial_timeout, .arg = p};
    exec_timer_start(d->options.exec, &p->timer, d->options.times.dial_ns);
    p->link = d->options.transport->open(d->options.transport, p->path, devplug_on_state, p);
}

// --- Checkpoint ----------------------------------------------------------------------------------

int devplug_save(struct devplug *d, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena a = {0};
    struct device_registrations all = {0};
    vec_foreach(&d->resources, it) {
        const struct resource *resource = *it;
        struct device_registered one = {.resource = str_z(resource->name)};
        bool live;
        const struct device_list *l = devplug_resource_list(resource, &live);
        if (!resource->known)
            continue;
        for (size_t i = 0; live && i < l->all.n; i++)
            if (l->all.p[i].healthy)
                vec_push_arena(&a, &one.ids, l->all.p[i].id);
        vec_push_arena(&a, &all, one);
    }
    device_ledger_write(&d->ledger, &all, &text);
    fault_point("save the devices");
    struct err why = {0};
    int r =
        d->options.disk->replace(d->options.disk, DEVICE_CHECKPOINT_FILE, sbuf_str(&text), &why);
    if (r == 0)
        return 0;
    return err_set(err, -r, "failed to write checkpoint file \"" DEVICE_CHECKPOINT_FILE "\": %s",
                   why.msg);
}

// Capacity of what was registered is 0 until its plugin registers again.
static void devplug_load_checkpoint(struct devplug *d)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena a = {0};
    struct device_registrations all = {0};
    struct err err = {0};
    int r = d->options.disk->read(d->options.disk, DEVICE_CHECKPOINT_FILE, &text, &err);
    d->is_new = r == -ENOENT;
    if (r == 0)
        r = device_ledger_read(sbuf_str(&text), &d->ledger, &a, &all, &err);
    if (r < 0 && !d->is_new)
        LOG_ERROR(&devplug_log,
                  "the checkpoint of devices cannot be read: who holds what is not known",
                  log_z("file", DEVICE_CHECKPOINT_FILE), log_z("why", err.msg));
    vec_foreach(&all, one)
        if (d->resources.n < DEVPLUG_RESOURCES_MAX && str_find_char(one->resource, '\0') < 0 &&
            one->resource.n > 0)
            devplug_start_grace(devplug_put_resource(d, one->resource));
}

// --- Construction --------------------------------------------------------------------------------

static int64_t devplug_or_default(int64_t v, int64_t usual)
{
    return v > 0 ? v : usual;
}

struct devplug *devplug_new(const struct devplug_options *options)
{
    struct devplug *d = xcalloc(1, sizeof(*d));
    d->options = *options;
    d->folder = xstrndup(options->folder, strlen(options->folder));
    struct devplug_times *t = &d->options.times;
    t->dial_ns = devplug_or_default(t->dial_ns, DIAL_NS);
    t->grace_ns = devplug_or_default(t->grace_ns, GRACE_NS);
    t->allocate_ns = devplug_or_default(t->allocate_ns, ALLOCATE_NS);
    t->pre_start_ns = devplug_or_default(t->pre_start_ns, PRE_START_NS);
    list_init(&d->plugins);
    list_init(&d->ops);
    devplug_load_checkpoint(d);
    return d;
}

void devplug_free(struct devplug *d)
{
    if (!d)
        return;
    d->closing = true;
    grpc_server_free(take_ptr(d->server));
    devplug_cancel_ops(d, STR(""));
    list_foreach(&d->plugins, n) {
        struct device_plugin *p = list_entry(n, struct device_plugin, node);
        devplug_end_plugin(p, "the agent ends");
        devplug_on_plugin_free(p);
    }
    vec_foreach(&d->resources, it) {
        struct resource *r = *it;
        exec_timer_stop(d->options.exec, &r->grace);
        devplug_free_list(r->left);
        vec_done(&r->plugins);
        free(r->name);
        free(r);
    }
    vec_done(&d->resources);
    device_ledger_done(&d->ledger);
    free(d->folder);
    free(d);
}

// --- Capacity of the node ------------------------------------------------------------------------

void devplug_amounts(const struct devplug *d, devplug_amount_fn fn, void *arg)
{
    vec_foreach(&d->resources, it) {
        const struct resource *r = *it;
        bool live;
        const struct device_list *l = devplug_resource_list(r, &live);
        fn(arg, str_z(r->name), l ? (int64_t)l->all.n : 0, (int64_t)devplug_resource_healthy(r));
    }
}

bool devplug_is_new(const struct devplug *d)
{
    return d->is_new;
}

const struct device_ledger *devplug_ledger(const struct devplug *d)
{
    return &d->ledger;
}

// SPDX-License-Identifier: Apache-2.0
//
// The manager's life, the plugins and what they tell.
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

static void tell_changed(struct devplug *d)
{
    if (d->options.changed && !d->closing)
        d->options.changed(d->options.arg);
}

// --- Lists of devices ----------------------------------------------------------------------------

static void list_free(struct device_list *l)
{
    if (!l)
        return;
    map_done(&l->by_id);
    arena_done(&l->arena);
    free(l);
}

const struct listed *device_list_find(const struct device_list *l, struct str id)
{
    const size_t *at = l ? map_get(&l->by_id, id) : NULL;
    return at ? &l->all.p[*at] : NULL;
}

// Of two devices with the same id the last one counts.
static void list_add(struct device_list *l, const struct plugin_listed_device *d)
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

struct device_plugin *resource_plugin(const struct resource *r)
{
    for (size_t i = r->plugins.n; i-- > 0;)
        if (r->plugins.p[i]->list)
            return r->plugins.p[i];
    return r->plugins.n > 0 ? r->plugins.p[r->plugins.n - 1] : NULL;
}

const struct device_list *resource_list(const struct resource *r, bool *ret_live)
{
    const struct device_plugin *p = resource_plugin(r);
    *ret_live = p && p->list;
    return *ret_live ? p->list : r->left;
}

size_t resource_healthy(const struct resource *r)
{
    bool live;
    const struct device_list *l = resource_list(r, &live);
    return live ? l->healthy : 0;
}

// The time of a resource without a plugin is over: it is forgotten, but for the node's saying 0.
static void on_grace(void *arg)
{
    struct resource *r = arg;
    struct err err = {0};
    list_free(take_ptr(r->left));
    r->known = false;
    LOG_INFO(&devplug_log, "a resource is gone: its plugin did not come back",
             log_z("resource", r->name));
    if (devplug_save(r->owner, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
    tell_changed(r->owner);
}

static struct resource *resource_put(struct devplug *d, struct str name)
{
    struct resource *r = devplug_find(d, name);
    if (!r) {
        r = xcalloc(1, sizeof(*r));
        r->owner = d;
        r->name = xstrndup(name.p, name.n);
        r->grace = (struct exec_timer){.fn = on_grace, .arg = r};
        vec_push(&d->resources, r);
    }
    r->known = true;
    return r;
}

static void start_grace(struct resource *r)
{
    exec_timer_start(r->owner->options.exec, &r->grace, r->owner->options.times.grace_ns);
}

// --- Health --------------------------------------------------------------------------------------

static bool is_healthy(const struct device_list *l, bool live, struct str id)
{
    const struct listed *d = live ? device_list_find(l, id) : NULL;
    return d && d->healthy;
}

// What is known of a resource, before something happens to it.
struct before {
    const struct device_list *list;
    bool live;
};

// Tells of the pods that have a device whose health is another now.
static void tell_pods(struct devplug *d, const struct resource *r, const struct before *b)
{
    struct device_set told = {0};
    bool live;
    const struct device_list *now = resource_list(r, &live);
    vec_foreach(&d->ledger.grants, g) {
        bool other = false, fresh = false;
        if (!str_eqz((*g)->resource, r->name))
            continue;
        vec_foreach(&(*g)->devices, place)
            other |= is_healthy(b->list, b->live, place->id) != is_healthy(now, live, place->id);
        if (other)
            *map_put_new(&told, (*g)->pod_uid, &fresh) = true;
        if (fresh && d->options.health_changed)
            d->options.health_changed(d->options.arg, (*g)->pod_uid);
    }
    map_done(&told);
}

static void has_changed(struct resource *r, const struct before *b)
{
    struct err err = {0};
    if (r->owner->closing)
        return;
    if (devplug_save(r->owner, &err) < 0)
        LOG_WARN(&devplug_log, "the checkpoint of devices is not written", log_z("why", err.msg));
    tell_pods(r->owner, r, b);
    tell_changed(r->owner);
}

// --- Plugins -------------------------------------------------------------------------------------

static void on_burial(void *arg)
{
    struct device_plugin *p = arg;
    struct devplug *d = p->owner;
    exec_timer_stop(d->options.exec, &p->timer);
    d->options.transport->close(take_ptr(p->link));
    list_remove(&p->node);
    d->plugins_len--;
    list_free(p->list);
    free(p->name);
    free(p->path);
    free(p);
}

// Takes an instance out of its resource; what it told stays as what was there.
static void leave(struct device_plugin *p)
{
    struct resource *r = take_ptr(p->resource);
    struct before b;
    size_t kept = 0;
    b.list = resource_list(r, &b.live);
    vec_foreach(&r->plugins, one)
        if (*one != p)
            r->plugins.p[kept++] = *one;
    r->plugins.n = kept;
    struct device_list *old = r->left;
    if (p->list)
        r->left = take_ptr(p->list);
    if (kept == 0) {
        start_grace(r);
        LOG_INFO(&devplug_log, "the last device plugin of a resource is gone",
                 log_z("resource", r->name));
        if (p->owner->options.plugin_changed && !p->owner->closing)
            p->owner->options.plugin_changed(p->owner->options.arg, str_z(r->name), false);
    }
    has_changed(r, &b);
    if (old != r->left)
        list_free(old);
}

static void answer(struct device_plugin *p, int code, const struct err *err)
{
    devplug_done_fn done = p->done;
    p->done = NULL;
    if (done)
        done(p->arg, code, err);
}

// The memory goes later: this may be within one of its calls.
static void end(struct device_plugin *p, const char *why)
{
    if (p->dead)
        return;
    p->dead = true;
    LOG_INFO(&devplug_log, "device plugin disconnected", log_z("resource", p->name),
             log_z("endpoint", p->path), log_z("why", why));
    struct err err = {0};
    int code = err_set(&err, ERR_UNAVAILABLE, "%s", why);
    answer(p, code, &err);
    if (p->resource)
        leave(p);
    p->timer.fn = on_burial;
    exec_timer_start(p->owner->options.exec, &p->timer, 0);
}

void device_plugin_call(struct device_plugin *p, const char *method,
                        const struct plugin_message *message, const void *value, int64_t timeout_ns,
                        void (*done)(void *arg, const struct grpc_result *r), void *arg)
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

// --- What they tell ------------------------------------------------------------------------------

static void on_list(void *arg, struct str message)
{
    struct device_plugin *p = arg;
    cleanup_arena struct arena a = {0};
    struct plugin_device_list told = {0};
    struct err err = {0};
    struct before b;
    if (p->dead || !p->resource)
        return;
    if (plugin_decode(&plugin_device_list_message, message, &told, &a, &err) < 0) {
        end(p, err.msg);
        return;
    }
    struct device_list *l = xcalloc(1, sizeof(*l));
    vec_foreach(&told.devices, one)
        list_add(l, one);
    b.list = resource_list(p->resource, &b.live);
    struct device_list *old = p->list;
    p->list = l;
    has_changed(p->resource, &b);
    list_free(old);
}

static void on_list_end(void *arg, const struct grpc_result *r)
{
    struct err why = {0};
    (void)transport_error(r, &why);
    end(arg, why.msg);
}

static void watch(struct device_plugin *p)
{
    const struct grpc_request q = {.method = STR(PLUGIN_DEVICES "ListAndWatch"),
                                   .received = on_list,
                                   .done = on_list_end,
                                   .arg = p};
    p->owner->options.transport->call(p->link, &q);
}

// --- Registration --------------------------------------------------------------------------------

// Another instance at the same socket is one whose end has not been seen yet.
static void replace_older(const struct device_plugin *p)
{
    list_foreach(&p->owner->plugins, n) {
        struct device_plugin *other = list_entry(n, struct device_plugin, node);
        if (other != p && other->resource == p->resource && strcmp(other->path, p->path) == 0)
            end(other, "another plugin registered with the same socket");
    }
}

static void join(struct device_plugin *p)
{
    struct devplug *d = p->owner;
    struct resource *r = resource_put(d, str_z(p->name));
    exec_timer_stop(d->options.exec, &p->timer);
    exec_timer_stop(d->options.exec, &r->grace);
    p->resource = r;
    vec_push(&r->plugins, p);
    replace_older(p);
    LOG_INFO(&devplug_log, "device plugin connected", log_z("resource", p->name),
             log_z("endpoint", p->path));
    if (d->options.plugin_changed)
        d->options.plugin_changed(d->options.arg, str_z(r->name), true);
    answer(p, 0, NULL);
    watch(p);
}

static void on_options(void *arg, const struct grpc_result *r)
{
    struct device_plugin *p = arg;
    cleanup_arena struct arena a = {0};
    struct err why = {0};
    if (p->dead)
        return;
    int code = r->status == GRPC_OK ? plugin_decode(&plugin_devices_options_message, r->response,
                                                    &p->options, &a, &why)
                                    : transport_error(r, &why);
    if (code == 0) {
        join(p);
        return;
    }
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "failed to get device plugin options: %s", why.msg);
    end(p, text.p);
}

static void on_state(void *arg, bool connected)
{
    struct device_plugin *p = arg;
    if (!connected || p->asking || p->dead)
        return;
    p->asking = true;
    device_plugin_call(p, "GetDevicePluginOptions", &plugin_empty_message,
                       &(struct plugin_empty){0}, p->owner->options.times.dial_ns, on_options, p);
}

static void on_dial_timeout(void *arg)
{
    end(arg, "failed to dial device plugin: context deadline exceeded");
}

static int check(const struct devplug *d, const struct plugin_register_request *q, struct err *err)
{
    cleanup_arena struct arena a = {0};
    struct name_msgs wrong = {.arena = &a};
    cleanup_sbuf struct sbuf said = {0};
    if (!str_eqz(q->version, PLUGIN_ID_DEVICES)) {
        sbuf_add_quoted(&said, q->version);
        return err_set(err, ERR_INVALID,
                       "requested API version %s is not supported by kubelet. Supported version "
                       "is [\"" PLUGIN_ID_DEVICES "\"]",
                       said.p);
    }
    name_extended_resource(q->resource_name, &wrong);
    if (wrong.n > 0) {
        sbuf_add_quoted(&said, q->resource_name);
        return err_set(err, ERR_INVALID, "the ResourceName %s is invalid", said.p);
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
    int code = check(d, q, &err);
    if (code < 0) {
        LOG_WARN(&devplug_log, "bad registration of a device plugin", log_z("why", err.msg));
        done(arg, code, &err);
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
    p->timer = (struct exec_timer){.fn = on_dial_timeout, .arg = p};
    exec_timer_start(d->options.exec, &p->timer, d->options.times.dial_ns);
    p->link = d->options.transport->open(d->options.transport, p->path, on_state, p);
}

// --- The disk ------------------------------------------------------------------------------------

int devplug_save(struct devplug *d, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena a = {0};
    struct device_registrations all = {0};
    vec_foreach(&d->resources, it) {
        const struct resource *r = *it;
        struct device_registered one = {.resource = str_z(r->name)};
        bool live;
        const struct device_list *l = resource_list(r, &live);
        if (!r->known)
            continue;
        for (size_t i = 0; live && i < l->all.n; i++)
            if (l->all.p[i].healthy)
                vec_push_arena(&a, &one.ids, l->all.p[i].id);
        vec_push_arena(&a, &all, one);
    }
    device_ledger_write(&d->ledger, &all, &text);
    fault_point("save the devices");
    struct err why = {0};
    int rc =
        d->options.disk->replace(d->options.disk, DEVICE_CHECKPOINT_FILE, sbuf_str(&text), &why);
    if (rc == 0)
        return 0;
    return err_set(err, -rc, "failed to write checkpoint file \"" DEVICE_CHECKPOINT_FILE "\": %s",
                   why.msg);
}

// Capacity of what was registered is 0 until its plugin registers again.
static void load(struct devplug *d)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_arena struct arena a = {0};
    struct device_registrations all = {0};
    struct err err = {0};
    int rc = d->options.disk->read(d->options.disk, DEVICE_CHECKPOINT_FILE, &text, &err);
    d->is_new = rc == -ENOENT;
    if (rc == 0)
        rc = device_ledger_read(sbuf_str(&text), &d->ledger, &a, &all, &err);
    if (rc < 0 && !d->is_new)
        LOG_ERROR(&devplug_log,
                  "the checkpoint of devices cannot be read: who holds what is not known",
                  log_z("file", DEVICE_CHECKPOINT_FILE), log_z("why", err.msg));
    vec_foreach(&all, one)
        if (d->resources.n < DEVPLUG_RESOURCES_MAX && str_find_char(one->resource, '\0') < 0 &&
            one->resource.n > 0)
            start_grace(resource_put(d, one->resource));
}

// --- Life ----------------------------------------------------------------------------------------

static int64_t otherwise(int64_t v, int64_t usual)
{
    return v > 0 ? v : usual;
}

struct devplug *devplug_new(const struct devplug_options *options)
{
    struct devplug *d = xcalloc(1, sizeof(*d));
    d->options = *options;
    d->folder = xstrndup(options->folder, strlen(options->folder));
    struct devplug_times *t = &d->options.times;
    t->dial_ns = otherwise(t->dial_ns, DIAL_NS);
    t->grace_ns = otherwise(t->grace_ns, GRACE_NS);
    t->allocate_ns = otherwise(t->allocate_ns, ALLOCATE_NS);
    t->pre_start_ns = otherwise(t->pre_start_ns, PRE_START_NS);
    list_init(&d->plugins);
    list_init(&d->ops);
    load(d);
    return d;
}

void devplug_free(struct devplug *d)
{
    if (!d)
        return;
    d->closing = true;
    grpc_server_free(take_ptr(d->server));
    device_op_cancel_all(d, STR(""));
    list_foreach(&d->plugins, n) {
        struct device_plugin *p = list_entry(n, struct device_plugin, node);
        end(p, "the agent ends");
        on_burial(p);
    }
    vec_foreach(&d->resources, it) {
        struct resource *r = *it;
        exec_timer_stop(d->options.exec, &r->grace);
        list_free(r->left);
        vec_done(&r->plugins);
        free(r->name);
        free(r);
    }
    vec_done(&d->resources);
    device_ledger_done(&d->ledger);
    free(d->folder);
    free(d);
}

// --- The node ------------------------------------------------------------------------------------

void devplug_amounts(const struct devplug *d, devplug_amount_fn fn, void *arg)
{
    vec_foreach(&d->resources, it) {
        const struct resource *r = *it;
        bool live;
        const struct device_list *l = resource_list(r, &live);
        fn(arg, str_z(r->name), l ? (int64_t)l->all.n : 0, (int64_t)resource_healthy(r));
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

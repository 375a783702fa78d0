// SPDX-License-Identifier: Apache-2.0
//
// The DRA manager: operations and their order, reconciling with the pods of the node, healing of
// claims that are not trusted, and the health of devices.
#include "node/dra.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "node/dra/dra_int.h"
#include "os/fault.h"

#include "base/banned.h"

struct log_module dra_log = LOG_MODULE("agent");

// --- Operations ----------------------------------------------------------------------------------

static void dra_op_free(struct dra_op *op)
{
    for (size_t i = 0; i < op->claims.n; i++) {
        typed_object_unref(op->claims.p[i].object);
        node_claim_free(op->claims.p[i].fresh);
    }
    typed_object_unref(op->pod);
    arena_done(&op->arena);
    free(op);
}

static struct dra_op *dra_find_pod_op(struct dra *d, struct str pod_uid)
{
    list_foreach(&d->ops, n) {
        struct dra_op *op = list_entry(n, struct dra_op, node);
        if (str_eq(op->pod_uid, pod_uid))
            return op;
    }
    return NULL;
}

// Starts the first operation of a pod, if it is not running.
static void dra_start_next_op(struct dra *d, struct str pod_uid);

static void dra_on_op_start(void *arg)
{
    struct dra_op *op = dra_op_resume(arg);
    if (op)
        op->kind->run(op);
}

static void dra_start_next_op(struct dra *d, struct str pod_uid)
{
    struct dra_op *op = dra_find_pod_op(d, pod_uid);
    if (!op || op->started)
        return;
    op->started = true;
    op->waiting = true;
    exec_post(d->options.exec, dra_on_op_start, op);
}

// dra_op_new makes an operation that runs when earlier ones of the pod are over.
static struct dra_op *dra_op_new(struct dra *d, struct str pod_uid, const struct dra_op_kind *kind,
                                 dra_done_fn done, void *arg)
{
    assert(!d->closing);
    struct dra_op *op = xcalloc(1, sizeof(*op));
    op->dra = d;
    op->kind = kind;
    op->done = done;
    op->arg = arg;
    op->since_ns = exec_now_ns(d->options.exec);
    op->pod_uid = arena_str(&op->arena, pod_uid);
    list_push_back(&d->ops, &op->node);
    dra_start_next_op(d, op->pod_uid);
    return op;
}

struct dra_op *dra_op_resume(struct dra_op *op)
{
    op->waiting = false;
    if (op->dra)
        return op;
    dra_op_free(op);
    return NULL;
}

static void dra_report_failure(struct dra_op *op)
{
    struct dra *d = op->dra;
    if (!d->options.events || !op->pod || op->internal)
        return;
    cleanup_sbuf struct sbuf text = {0};
    const char *what = op->kind->preparing ? "prepare" : "unprepare";
    sbuf_addf(&text, "Failed to %s dynamic resources: %s dynamic resources: %s", what, what,
              op->err.msg);
    events_record(d->options.events, op->pod, EVENT_WARNING,
                  op->kind->preparing ? STR("FailedPrepareDynamicResources")
                                      : STR("FailedUnprepareDynamicResources"),
                  sbuf_str(&text));
}

void dra_op_end(struct dra_op *op, int code)
{
    struct dra *d = op->dra;
    if (code < 0 && !d->closing)
        dra_report_failure(op);
    dra_meter_operation(&d->meter, op->kind->preparing, code < 0,
                        exec_now_ns(d->options.exec) - op->since_ns);
    list_remove(&op->node);
    op->dra = NULL;
    if (op->done)
        op->done(op->arg, code, code < 0 ? &op->err : NULL);
    if (!d->closing)
        dra_start_next_op(d, op->pod_uid);
    if (!op->waiting)
        dra_op_free(op);
}

void dra_metrics(const struct dra *d, struct sbuf *out)
{
    dra_meter_write(&d->meter, &d->claims, out);
}

// --- Interface -----------------------------------------------------------------------------------

static const struct api_pod *dra_pod_spec(const struct typed_object *o)
{
    return o->object.value;
}

static struct dra_op *dra_new_pod_op(struct dra *d, const struct typed_object *pod,
                                     const struct dra_op_kind *kind, dra_done_fn done, void *arg)
{
    struct dra_op *op = dra_op_new(d, pod->meta->uid, kind, done, arg);
    op->pod = typed_object_ref(pod);
    op->namespace = arena_str(&op->arena, pod->meta->namespace);
    return op;
}

void dra_prepare(struct dra *d, const struct typed_object *pod, dra_done_fn done, void *arg)
{
    (void)dra_new_pod_op(d, pod, &dra_prepare_kind, done, arg);
}

void dra_unprepare(struct dra *d, const struct typed_object *pod, dra_done_fn done, void *arg)
{
    (void)dra_new_pod_op(d, pod, &dra_unprepare_kind, done, arg);
}

void dra_prepare_claims(struct dra *d, struct str consumer_uid,
                        const struct typed_object *const *claims, size_t n, dra_done_fn done,
                        void *arg)
{
    struct dra_op *op = dra_op_new(d, consumer_uid, &dra_prepare_kind, done, arg);
    for (size_t i = 0; i < n; i++) {
        const struct dra_op_claim c = {.name = arena_str(&op->arena, claims[i]->meta->name),
                                       .object = typed_object_ref(claims[i])};
        vec_push_arena(&op->arena, &op->claims, c);
    }
}

void dra_unprepare_uid(struct dra *d, struct str consumer_uid, dra_done_fn done, void *arg)
{
    (void)dra_op_new(d, consumer_uid, &dra_unprepare_kind, done, arg);
}

bool dra_needs_unprepare(const struct dra *d, struct str pod_uid)
{
    return node_claims_use(&d->claims, pod_uid);
}

bool dra_idle(const struct dra *d)
{
    return list_empty(&d->ops);
}

const struct node_claims *dra_claims(const struct dra *d)
{
    return &d->claims;
}

struct plugins *dra_plugins(struct dra *d)
{
    return d->plugins;
}

// --- Reconciling ---------------------------------------------------------------------------------

struct uids MAP(bool);

struct round {
    struct dra *dra;
    struct uids active;
    struct arena arena;
};

static void dra_mark_active(void *ctx, const struct typed_object *pod)
{
    struct round *r = ctx;
    *map_put(&r->active, arena_str(&r->arena, pod->meta->uid)) = true;
}

static void dra_on_inactive_unprepared(void *arg, int code, const struct err *err)
{
    (void)arg;
    if (code < 0 && code != -ECANCELED)
        LOG_INFO(&dra_log, "claims of a pod that is gone could not be unprepared, will be retried",
                 log_z("why", err->msg));
}

// Pods of the checkpoint that are not active any more, once each.
static void dra_unprepare_inactive(struct round *r)
{
    struct dra *d = r->dra;
    map_foreach(&d->claims.by_key, i) {
        const struct node_claim *c = *map_value(&d->claims.by_key, i);
        vec_foreach(&c->pods, uid) {
            struct str text = arena_str(&r->arena, str_z(*uid));
            if (map_has(&r->active, text))
                continue;
            *map_put(&r->active, text) = true;
            if (!dra_find_pod_op(d, text)) // one that is under way does it already
                dra_unprepare_uid(d, text, dra_on_inactive_unprepared, NULL);
        }
    }
}

// dra_heal_soon checks on a later turn whether claims that are not trusted can be prepared again.
static void dra_heal_soon(struct dra *d);

void dra_reconcile(struct dra *d)
{
    struct round r = {.dra = d};
    if (d->options.pods && d->options.pods(d->options.arg, dra_mark_active, &r))
        dra_unprepare_inactive(&r);
    map_done(&r.active);
    arena_done(&r.arena);
    blocked_check(d->blocked);
    dra_heal_soon(d);
}

static void dra_on_reconcile(void *arg)
{
    struct dra *d = arg;
    int64_t period_ns = d->options.times.reconcile_ns;
    exec_timer_start(d->options.exec, &d->reconcile, period_ns ? period_ns : DRA_RECONCILE_NS);
    dra_reconcile(d);
}

// --- Healing -------------------------------------------------------------------------------------

static bool dra_has_stale_claims(const struct dra *d)
{
    map_foreach(&d->claims.by_key, i)
        if ((*map_value(&d->claims.by_key, i))->stale)
            return true;
    return false;
}

static bool dra_pod_uses_stale(const struct dra *d, struct str pod_uid)
{
    map_foreach(&d->claims.by_key, i) {
        const struct node_claim *c = *map_value(&d->claims.by_key, i);
        if (c->stale && node_claim_pod_has(c, pod_uid))
            return true;
    }
    return false;
}

static void dra_on_pod_healed(void *arg, int code, const struct err *err)
{
    struct dra *d = arg;
    d->healing--;
    if (code < 0 && code != -ECANCELED) {
        d->heal_failed = true;
        LOG_INFO(&dra_log, "claims of a pod could not be prepared again, will be retried",
                 log_z("why", err->msg));
    }
    if (d->healing == 0 && !d->heal_failed && !d->closing)
        d->rebuilding = false;
}

static void dra_heal_pod(void *ctx, const struct typed_object *pod)
{
    struct dra *d = ctx;
    bool has_claims = dra_pod_spec(pod)->spec.resource_claims.n > 0 ||
                      dra_pod_spec(pod)->status.extended_resource_claim_status;
    bool wanted = dra_pod_uses_stale(d, pod->meta->uid) || (d->rebuilding && has_claims);
    if (!wanted || dra_find_pod_op(d, pod->meta->uid))
        return;
    d->healing++;
    struct dra_op *op = dra_new_pod_op(d, pod, &dra_prepare_kind, dra_on_pod_healed, d);
    op->internal = true;
}

static void dra_on_heal(void *arg)
{
    struct dra *d = arg;
    if (d->healing > 0 || (!d->rebuilding && !dra_has_stale_claims(d)) || !d->options.pods)
        return;
    d->heal_failed = false;
    if (d->options.pods(d->options.arg, dra_heal_pod, d) && d->healing == 0)
        d->rebuilding = false;
}

static void dra_heal_soon(struct dra *d)
{
    d->heal_soon.fn = dra_on_heal;
    d->heal_soon.arg = d;
    if (!exec_timer_armed(&d->heal_soon))
        exec_timer_start(d->options.exec, &d->heal_soon, 0);
}

// --- Plugins and health --------------------------------------------------------------------------

static void dra_on_plugin_changed(void *arg, struct str driver, bool usable)
{
    struct dra *d = arg;
    if (d->wipe)
        wipe_driver(d->wipe, driver, usable);
    if (usable)
        dra_heal_soon(d);
    if (d->options.plugin_changed)
        d->options.plugin_changed(d->options.arg, driver, usable);
}

static int dra_accept_plugin(void *arg, const struct plugin_info *info, struct err *err)
{
    struct dra *d = arg;
    return plugins_add(d->plugins, info, err);
}

static void dra_remove_plugin(void *arg, struct str driver, struct str endpoint)
{
    struct dra *d = arg;
    plugins_remove(d->plugins, driver, endpoint);
}

static void dra_on_registry_scanned(void *arg, size_t unsettled)
{
    struct dra *d = arg;
    if (d->options.looked)
        d->options.looked(d->options.arg, unsettled);
}

static void dra_on_plugin_failed(void *arg, struct str path, const struct err *err)
{
    struct dra *d = arg;
    if (d->options.plugin_failed)
        d->options.plugin_failed(d->options.arg, path, err);
}

static void dra_save_health(struct dra *d)
{
    cleanup_sbuf struct sbuf text = {0};
    struct err err = {0};
    health_write(d->health, &text);
    if (d->options.disk->replace(d->options.disk, DRA_HEALTH_FILE, sbuf_str(&text), &err) < 0)
        LOG_WARN(&dra_log, "health of devices could not be saved", log_z("why", err.msg));
}

static bool dra_uses_changed_device(const struct node_claim_driver *part,
                                    const struct health_changes *changes)
{
    vec_foreach(&part->devices, device)
        vec_foreach(changes, x)
            if (str_eq(x->pool, device->pool_name) && str_eq(x->device, device->device_name))
                return true;
    return false;
}

// Notifies of the pods that use one of the devices, each once.
static void dra_notify_pods(struct dra *d, struct str driver, const struct health_changes *changes)
{
    struct uids told = {0};
    map_foreach(&d->claims.by_key, i) {
        const struct node_claim *c = *map_value(&d->claims.by_key, i);
        const struct node_claim_driver *part = node_claim_driver_find(c, driver);
        if (!part || !dra_uses_changed_device(part, changes))
            continue;
        vec_foreach(&c->pods, uid) {
            bool fresh = false;
            *map_put_new(&told, str_z(*uid), &fresh) = true;
            if (fresh)
                d->options.health_changed(d->options.arg, str_z(*uid));
        }
    }
    map_done(&told);
}

static void dra_on_health_message(void *arg, struct str driver, struct str message)
{
    struct dra *d = arg;
    cleanup_arena struct arena a = {0};
    struct plugin_health_response r = {0};
    struct health_changes changes = {0};
    struct err err = {0};
    bool dirty = false;
    if (plugin_decode(&plugin_health_response_message, message, &r, &a, &err) < 0) {
        LOG_WARN(&dra_log, "cannot decode a health report", log_str("driver", driver),
                 log_z("why", err.msg));
        return;
    }
    size_t ignored = health_report(d->health, driver, &r, &a, &changes, &dirty);
    if (ignored > 0)
        LOG_ERROR(&dra_log, "a health report has too many devices", log_str("driver", driver),
                  log_u64("limit", HEALTH_DEVICES_MAX), log_u64("ignored", ignored));
    if (dirty)
        dra_save_health(d);
    if (changes.n > 0 && d->options.health_changed)
        dra_notify_pods(d, driver, &changes);
}

static void dra_on_health_end(void *arg, struct str driver)
{
    struct dra *d = arg;
    if (health_clear(d->health, driver))
        dra_save_health(d);
}

// --- Construction --------------------------------------------------------------------------------

static void dra_load_health(struct dra *d)
{
    cleanup_sbuf struct sbuf text = {0};
    struct err err = {0};
    int r = d->options.disk->read(d->options.disk, DRA_HEALTH_FILE, &text, &err);
    if (r == 0)
        r = health_read(d->health, sbuf_str(&text), &err);
    if (r < 0 && r != -ENOENT)
        LOG_WARN(&dra_log, "saved health of devices is ignored", log_z("why", err.msg));
}

static int dra_make_registrar(struct dra *d, struct err *err)
{
    const struct registrar_options o = {
        .exec = d->options.exec,
        .transport = d->options.transport,
        .folder = d->options.registry,
        .period_ns = d->options.times.look_ns,
        .dial_ns = d->options.times.dial_ns,
        .accept = dra_accept_plugin,
        .leave = dra_remove_plugin,
        .looked = dra_on_registry_scanned,
        .failed = dra_on_plugin_failed,
        .arg = d,
    };
    return d->options.registry ? registrar_new(&o, &d->registrar, err) : 0;
}

static void dra_make_parts(struct dra *d)
{
    const struct plugins_options plugins = {
        .exec = d->options.exec,
        .transport = d->options.transport,
        .health_retry_ns = d->options.times.health_retry_ns,
        .health = features_on(d->options.features, FEATURE_RESOURCE_HEALTH_STATUS),
        .changed = dra_on_plugin_changed,
        .health_message = dra_on_health_message,
        .health_end = dra_on_health_end,
        .arg = d,
    };
    d->plugins = plugins_new(&plugins);
    const struct wipe_options wipe = {
        .client = d->options.client,
        .exec = d->options.exec,
        .node = str_z(d->node),
        .delay_ns = d->options.times.wipe_ns,
    };
    if (d->options.client && !d->options.keep_slices)
        d->wipe = wipe_new(&wipe);
    d->blocked = blocked_new(d);
}

int dra_new(const struct dra_options *options, struct dra **ret, struct err *err)
{
    struct dra *d = xcalloc(1, sizeof(*d));
    d->options = *options;
    d->node = xstrndup(options->node.p, options->node.n);
    d->boot_id = xstrndup(options->boot_id.p, options->boot_id.n);
    list_init(&d->ops);
    d->health = health_new(options->exec->clock);
    dra_make_parts(d);
    int r = dra_load(d, err);
    if (r == 0)
        r = dra_make_registrar(d, err);
    if (r < 0) {
        dra_free(d);
        return r;
    }
    dra_load_health(d);
    *ret = d;
    return 0;
}

void dra_start(struct dra *d)
{
    if (d->wipe)
        wipe_all(d->wipe);
    if (d->registrar)
        registrar_start(d->registrar);
    d->reconcile.fn = dra_on_reconcile;
    d->reconcile.arg = d;
    exec_timer_start(d->options.exec, &d->reconcile, 0);
}

void dra_free(struct dra *d)
{
    if (!d)
        return;
    d->closing = true;
    exec_timer_stop(d->options.exec, &d->reconcile);
    exec_timer_stop(d->options.exec, &d->heal_soon);
    registrar_free(d->registrar);
    plugins_free(d->plugins);
    list_foreach(&d->ops, n) {
        struct dra_op *op = list_entry(n, struct dra_op, node);
        dra_op_end(op, err_set(&op->err, ECANCELED, "the manager stops"));
    }
    wipe_free(d->wipe);
    blocked_free(d->blocked);
    health_free(d->health);
    node_claims_done(&d->claims);
    dra_meter_done(&d->meter);
    free(d->node);
    free(d->boot_id);
    free(d);
}

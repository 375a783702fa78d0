// SPDX-License-Identifier: Apache-2.0
//
// A driver's life: its folders, its thread, what it publishes.
#include <stdlib.h>
#include <unistd.h>

#include "base/err_public.h"
#include "driver/sdk/sdk.h"
#include "os/fault.h"

#include "base/banned.h"

enum { SETTLE_AFTER_S = 1 };

void sdk_trouble(struct dray_driver *d, const struct err *err)
{
    struct dray_error told;
    (void)err_to_public(&told, err);
    if (d->o.callbacks.trouble)
        d->o.callbacks.trouble(d->o.arg, &told);
}

static void publish_trouble(void *arg, const struct err *err)
{
    sdk_trouble(arg, err);
}

// --- The driver's thread -------------------------------------------------------------------------

// Waits for work, under the lock; what was put off is done when none has come for a while.
static void driver_stop_idle(struct dray_driver *d)
{
    if (!d->core || !core_unsettled(d->core)) {
        pthread_cond_wait(&d->wake, &d->lock);
        return;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SETTLE_AFTER_S;
    if (pthread_cond_timedwait(&d->wake, &d->lock, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&d->lock);
    core_settle(d->core);
    pthread_mutex_lock(&d->lock);
}

static void *work_off(void *arg)
{
    struct dray_driver *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        struct list_node *n = list_pop_front(&d->jobs);
        if (!n && d->quit)
            break;
        if (!n) {
            driver_stop_idle(d);
            continue;
        }
        pthread_mutex_unlock(&d->lock);
        FAULT_SCOPE(d->faults);
        struct sdk_job *job = list_entry(n, struct sdk_job, node);
        job->run(job->arg);
        exec_post(d->runtime->exec, job->done, job->arg);
        free(job);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

void sdk_job(struct dray_driver *d, exec_fn run, exec_fn done, void *arg)
{
    struct sdk_job *job = xcalloc(1, sizeof(*job));
    *job = (struct sdk_job){.driver = d, .run = run, .done = done, .arg = arg};
    pthread_mutex_lock(&d->lock);
    list_push_back(&d->jobs, &job->node);
    if (!d->has_thread)
        d->has_thread = pthread_create(&d->thread, NULL, work_off, d) == 0;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
}

// Lets the thread finish what it has begun and what waits.
static void end_thread(struct dray_driver *d)
{
    pthread_mutex_lock(&d->lock);
    d->quit = true;
    pthread_cond_signal(&d->wake);
    pthread_mutex_unlock(&d->lock);
    if (d->has_thread)
        pthread_join(d->thread, NULL);
    d->has_thread = false;
}

// --- Start ---------------------------------------------------------------------------------------

static const char *driver_keep_text(struct dray_driver *d, const char *text, const char *otherwise)
{
    if (!text)
        text = otherwise;
    return text ? arena_str(&d->arena, str_z(text)).p : NULL;
}

static void keep_options(struct dray_driver *d, const struct dray_driver_options *o)
{
    d->o = *o;
    d->o.name = driver_keep_text(d, o->name, "");
    d->o.node = driver_keep_text(d, o->node && *o->node ? o->node : NULL, NULL);
    d->o.plugins_dir = driver_keep_text(d, o->plugins_dir, "/var/lib/kubelet/plugins");
    d->o.registry_dir = driver_keep_text(d, o->registry_dir, "/var/lib/kubelet/plugins_registry");
    d->o.cdi_dir = driver_keep_text(d, o->cdi_dir, "/var/run/cdi");
    d->o.cdi_class = driver_keep_text(d, o->cdi_class, "device");
    d->o.instance = driver_keep_text(d, o->instance && *o->instance ? o->instance : NULL, NULL);
    d->o.lease_namespace = driver_keep_text(d, o->lease_namespace, NULL);
    d->data_dir = arena_strf(&d->arena, "%s/%s", d->o.plugins_dir, d->o.name).p;
    d->endpoint = arena_strf(&d->arena, "%s/dra%s%s.sock", d->data_dir, d->o.instance ? "-" : "",
                             d->o.instance ? d->o.instance : "")
                      .p;
    cleanup_sbuf struct sbuf name = {0};
    sdk_registration_name(&name, d->o.registry_dir, d->o.name, d->o.instance);
    d->registration = arena_strf(&d->arena, "%s/%s", d->o.registry_dir, name.p).p;
}

static int driver_check_options(const struct dray_driver *d, struct err *err)
{
    if (d->o.name[0] == '\0' || strlen(d->o.name) > 63 || strchr(d->o.name, '/'))
        return err_set(err, ERR_INVALID, "a driver needs a name, a DNS name of at most 63 bytes");
    if (d->o.node && !d->o.callbacks.prepare)
        return err_set(err, ERR_INVALID, "a driver of a node needs a prepare callback");
    if (d->o.attaches && !d->o.callbacks.attach)
        return err_set(err, ERR_INVALID, "a driver that attaches needs an attach callback");
    return 0;
}

static int open_core(struct dray_driver *d, struct err *err)
{
    char boot[64];
    core_boot_id(boot);
    const struct core_options o = {.driver = d->o.name,
                                   .cdi_class = d->o.cdi_class,
                                   .data_dir = d->data_dir,
                                   .cdi_dir = d->o.cdi_dir,
                                   .boot_id = boot,
                                   .metadata = d->o.metadata,
                                   .callbacks = d->o.callbacks,
                                   .arg = d->o.arg,
                                   .clock = d->runtime->exec->clock};
    return core_open(&o, &d->core, err);
}

static void open_publisher(struct dray_driver *d)
{
    const struct publisher_options o = {.client = d->runtime->client,
                                        .driver = str_z(d->o.name),
                                        .node = str_z(d->o.node),
                                        .lease_namespace = str_z(d->o.lease_namespace),
                                        .lease_holder = str_z(d->o.node ? d->o.node : d->o.name),
                                        .lease_seconds = d->o.lease_seconds,
                                        .trouble = publish_trouble,
                                        .arg = d};
    d->publisher = publish_new(&o);
    if (d->runtime->minor && d->runtime->minor <= 34)
        publish_old_server(d->publisher);
    const struct event_recorder_options events = {
        .client = d->runtime->client, .component = str_z(d->o.name), .host = str_z(d->o.node)};
    d->events = events_recorder_new(&events);
}

int sdk_driver_start(struct dray_runtime *r, const struct dray_driver_options *options,
                     const struct fault_hook *faults, struct dray_driver **ret, struct err *err)
{
    struct dray_driver *d = xcalloc(1, sizeof(*d));
    d->runtime = r;
    d->faults = faults;
    FAULT_SCOPE(faults);
    list_init(&d->jobs);
    list_init(&d->pendings);
    list_init(&d->streams);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->wake, NULL);
    list_push_back(&r->drivers, &d->node);
    keep_options(d, options);
    int code = driver_check_options(d, err);
    if (code == 0 && d->o.node)
        code = open_core(d, err);
    if (code == 0)
        open_publisher(d);
    if (code == 0 && d->o.node)
        code = sdk_plugin_open(d, err);
    if (code != 0) {
        sdk_driver_free(d);
        return code;
    }
    if (d->o.attaches)
        sdk_attach_open(d);
    if (d->core)
        sdk_collect_open(d);
    *ret = d;
    return 0;
}

int dray_driver_start(struct dray_runtime *r, const struct dray_driver_options *options,
                      struct dray_driver **ret, struct dray_error *err)
{
    struct err why = {0};
    return sdk_driver_start(r, options, NULL, ret, &why) == 0 ? 0 : err_to_public(err, &why);
}

void sdk_driver_end(struct dray_driver *d)
{
    sdk_attach_close(d);
    sdk_collect_close(d);
    sdk_health_close(d);
    end_thread(d);
    sdk_plugin_close(d);
    list_foreach(&d->pendings, n) {
        list_entry(n, struct sdk_pending, node)->driver = NULL;
        list_remove(n);
    }
}

void sdk_driver_free(struct dray_driver *d)
{
    if (!d)
        return;
    list_remove(&d->node);
    sdk_driver_end(d);
    publish_free(d->publisher);
    if (d->events)
        events_recorder_free(d->events);
    core_free(d->core);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->wake);
    arena_done(&d->arena);
    free(d);
}

// --- What drivers call, on any thread
// --------------------------------------------------------------

struct publish_job {
    struct dray_driver *driver;
    struct arena arena;
    struct pool_specs specs;
    struct str pool;
    bool shared, remove;
};

static struct str pool_or_node(const struct dray_driver *d, const char *pool)
{
    return str_z(pool ? pool : d->o.node);
}

static void publish_on_loop(void *arg)
{
    struct publish_job *job = arg;
    if (job->remove)
        publish_remove_pool(job->driver->publisher, job->pool);
    else
        publish_set_pool(job->driver->publisher, job->pool, job->shared, &job->specs);
    sdk_attach_look(job->driver);
    arena_done(&job->arena);
    free(job);
}

int dray_publish(struct dray_driver *d, const struct dray_pool *p, struct dray_error *err)
{
    struct publish_job *job = xcalloc(1, sizeof(*job));
    struct err why = {0};
    job->driver = d;
    job->shared = pool_is_shared(p);
    job->pool = arena_str(&job->arena, pool_or_node(d, pool_name(p)));
    int r = pool_make(p, &job->arena, &job->specs, &why);
    if (r == 0 && job->pool.n == 0)
        r = err_set(&why, ERR_INVALID, "a pool that belongs to no node needs a name");
    if (r == 0 && !job->shared && !d->o.node)
        r = err_set(&why, ERR_INVALID,
                    "pool %.*s belongs to a node, this driver to none: give the pool nodes",
                    STR_ARG(job->pool));
    if (r != 0) {
        arena_done(&job->arena);
        free(job);
        return err_to_public(err, &why);
    }
    exec_post(d->runtime->exec, publish_on_loop, job);
    return 0;
}

void dray_unpublish(struct dray_driver *d, const char *pool)
{
    struct publish_job *job = xcalloc(1, sizeof(*job));
    job->driver = d;
    job->remove = true;
    job->pool = arena_str(&job->arena, pool_or_node(d, pool));
    exec_post(d->runtime->exec, publish_on_loop, job);
}

struct taint_job {
    struct dray_driver *driver;
    struct arena arena;
    struct str pool;
    struct pool_taint taint;
    bool remove;
};

static void taint_on_loop(void *arg)
{
    struct taint_job *job = arg;
    struct publisher *p = job->driver->publisher;
    if (job->remove)
        publish_untaint(p, job->pool, job->taint.device, job->taint.key);
    else
        publish_taint(p, job->pool, &job->taint);
    arena_done(&job->arena);
    free(job);
}

static void post_taint(struct dray_driver *d, const char *pool, const struct pool_taint *t,
                       bool remove)
{
    struct taint_job *job = xcalloc(1, sizeof(*job));
    job->driver = d;
    job->remove = remove;
    job->pool = arena_str(&job->arena, pool_or_node(d, pool));
    job->taint =
        (struct pool_taint){arena_str(&job->arena, t->device), arena_str(&job->arena, t->key),
                            arena_str(&job->arena, t->value), arena_str(&job->arena, t->effect)};
    exec_post(d->runtime->exec, taint_on_loop, job);
}

void dray_taint(struct dray_driver *d, const char *pool, const char *device, const char *key,
                const char *value, const char *effect)
{
    const struct pool_taint t = {str_z(device), str_z(key), str_z(value), str_z(effect)};
    post_taint(d, pool, &t, false);
}

void dray_untaint(struct dray_driver *d, const char *pool, const char *device, const char *key)
{
    const struct pool_taint t = {.device = str_z(device), .key = str_z(key)};
    post_taint(d, pool, &t, true);
}

size_t dray_in_use(struct dray_driver *d, const char *pool, const char *device)
{
    return d->core ? core_in_use(d->core, pool ? pool : d->o.node, device) : 0;
}

struct event_job {
    struct dray_driver *driver;
    struct arena arena;
    struct str reason, message;
    bool warning;
};

static void event_on_loop(void *arg)
{
    struct event_job *job = arg;
    struct dray_driver *d = job->driver;
    // As kubelet's events about its node: in no namespace, with the name as UID.
    const struct api_object_reference about = {.kind = STR("Node"),
                                               .api_version = STR("v1"),
                                               .name = str_z(d->o.node),
                                               .uid = str_z(d->o.node)};
    if (d->o.node)
        events_record_ref(d->events, &about, job->warning ? EVENT_WARNING : EVENT_NORMAL,
                          job->reason, job->message);
    arena_done(&job->arena);
    free(job);
}

void dray_event(struct dray_driver *d, bool warning, const char *reason, const char *message)
{
    struct event_job *job = xcalloc(1, sizeof(*job));
    job->driver = d;
    job->warning = warning;
    job->reason = arena_str(&job->arena, str_z(reason));
    job->message = arena_str(&job->arena, str_z(message));
    exec_post(d->runtime->exec, event_on_loop, job);
}

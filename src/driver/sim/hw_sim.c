// SPDX-License-Identifier: Apache-2.0
//
// Nodes and drivers of simulated hardware out of a profile: publishes slices, starts a driver for
// each name, and lets faults take effect.
#include "driver/hw_sim.h"

#include <signal.h>
#include <stdlib.h>

#include "driver/sdk/pool.h"
#include "driver/sim/hw.h"
#include "os/fault.h"

#include "base/banned.h"

#define TICK_NS (250 * CLOCK_NS_PER_MS)

// A write of an object; the sim may be gone when it ends.
struct call {
    struct list_node node;
    struct hw_sim *sim;
};

// --- Objects of the profile
// ------------------------------------------------------------------------

static void hw_sim_on_created(void *arg, const struct client_answer *a)
{
    struct call *c = arg;
    const struct hw_sim *s = list_linked(&c->node) ? c->sim : NULL;
    if (s && a->code != 0 && a->code != -ERR_ALREADY_EXISTS && s->o.told && a->err)
        s->o.told(s->o.arg, "", "", a->err->msg);
    list_remove(&c->node);
    free(c);
}

static void hw_sim_create_object(struct hw_sim *s, const char *version, const char *kind,
                                 void *value)
{
    struct call *c = xcalloc(1, sizeof(*c));
    c->sim = s;
    list_push_back(&s->calls, &c->node);
    const struct api_object o = {api_kind_find(str_z(version), str_z(kind)), value};
    client_create(s->runtime->client, &o, NULL, hw_sim_on_created, c);
}

// --- Callbacks -----------------------------------------------------------------------------------

static void hw_sim_log_driver(const struct hw_driver *d, const char *what)
{
    if (d->sim->o.told)
        d->sim->o.told(d->sim->o.arg, d->node ? d->node : "", d->name, what);
}

static void hw_sim_on_registered(void *arg, bool yes, const char *why)
{
    hw_sim_log_driver(arg, yes ? "registered" : why);
}

static void hw_sim_on_trouble(void *arg, const struct dray_error *err)
{
    hw_sim_log_driver(arg, err->message);
}

// The fault "crash" counts fault points of the driver's thread and ends the process, once.
static int hw_sim_on_step(void *arg, const char *what)
{
    struct hw_driver *d = arg;
    struct fault f;
    (void)what;
    if (!fault_file_find(&d->faults, FAULT_CRASH, STR(""), &f)) {
        d->steps = 0;
        return 0;
    }
    if (++d->steps < f.step)
        return 0;
    fault_file_drop(&d->faults, FAULT_CRASH, STR(""));
    (void)raise(SIGKILL);
    return 0;
}

// --- Drivers of a node ---------------------------------------------------------------------------

static const char *hw_sim_join_path(struct hw_sim *s, const char *a, const char *b, const char *c)
{
    return arena_strf(&s->arena, "%s/%s%s%s", a, b, *c ? "/" : "", c).p;
}

static void hw_sim_add_devices(struct hw_driver *d, const struct profile_objects *o, bool shared)
{
    for (size_t i = 0; i < o->slices_len; i++) {
        const struct api_resource_slice_spec *spec = &o->slices[i]->spec;
        if (!str_eqz(spec->driver, d->name))
            continue;
        for (size_t k = 0; k < spec->devices.n; k++)
            vec_push(&d->devices,
                     ((struct hw_device){&spec->devices.p[k], spec->pool.name, shared}));
        for (size_t k = 0; k < spec->shared_counters.n; k++)
            vec_push(&d->counters, spec->shared_counters.p[k]);
    }
}

// Publishes the pools of a driver as the profile has them.
static int hw_sim_publish_slices(struct hw_driver *d, const struct profile_objects *o,
                                 struct err *err)
{
    struct VEC(const struct api_resource_slice_spec *) specs = {0};
    for (size_t i = 0; i < o->slices_len; i++) {
        const struct api_resource_slice_spec *first = &o->slices[i]->spec;
        bool seen = !str_eqz(first->driver, d->name);
        for (size_t k = 0; k < i && !seen; k++)
            seen = str_eq(o->slices[k]->spec.driver, first->driver) &&
                   str_eq(o->slices[k]->spec.pool.name, first->pool.name);
        if (seen)
            continue;
        vec_clear(&specs);
        for (size_t k = i; k < o->slices_len; k++)
            if (str_eq(o->slices[k]->spec.driver, first->driver) &&
                str_eq(o->slices[k]->spec.pool.name, first->pool.name))
                vec_push(&specs, &o->slices[k]->spec);
        cleanup_free char *name = xstrndup(first->pool.name.p, first->pool.name.n);
        struct dray_pool *pool = pool_from_specs(name, specs.p, specs.n);
        struct dray_error why;
        int r = dray_publish(d->driver, pool, &why);
        dray_pool_free(pool);
        if (r != 0) {
            vec_done(&specs);
            return err_set(err, ERR_INVALID, "%s", why.message);
        }
    }
    vec_done(&specs);
    return 0;
}

static void be_healthy(const struct hw_driver *d)
{
    vec_foreach(&d->devices, one) {
        cleanup_free char *pool = xstrndup(one->pool.p, one->pool.n);
        cleanup_free char *name = xstrndup(one->device->name.p, one->device->name.n);
        if (!one->shared)
            dray_health(d->driver, pool, name, DRAY_HEALTHY, "");
    }
}

static struct dray_driver_options options_of(struct hw_driver *d)
{
    struct hw_sim *s = d->sim;
    const struct hw_sim_options *o = &s->o;
    struct dray_driver_options out = {
        .name = d->name,
        .node = d->node,
        .plugins_dir = o->root
                           ? hw_sim_join_path(s, o->root, d->node ? d->node : "shared", "plugins")
                           : o->plugins_dir,
        .registry_dir =
            o->root ? hw_sim_join_path(s, o->root, d->node ? d->node : "shared", "plugins_registry")
                    : o->registry_dir,
        .cdi_dir = o->root ? hw_sim_join_path(s, o->root, d->node ? d->node : "shared", "cdi")
                           : o->cdi_dir,
        .instance = o->instance,
        .lease_namespace = o->lease_namespace,
        .lease_seconds = (unsigned)o->lease_seconds,
        .health = d->node != NULL,
        .metadata = d->node != NULL,
        .attaches = d->node == NULL,
        .callbacks = {.prepare = hw_prepare,
                      .unprepare = hw_unprepare,
                      .verify = hw_verify,
                      .attach = hw_attach,
                      .registered = hw_sim_on_registered,
                      .trouble = hw_sim_on_trouble},
        .arg = d,
    };
    return out;
}

static struct hw_driver *driver_new(struct hw_sim *s, struct str name, const char *node,
                                    size_t index)
{
    struct hw_driver *d = arena_one(&s->arena, struct hw_driver);
    d->sim = s;
    d->name = arena_str(&s->arena, name).p;
    d->node = node;
    d->index = index;
    d->family = hw_family_of(d->name);
    const struct dray_driver_options o = options_of(d);
    const char *plugins = o.plugins_dir ? o.plugins_dir : "/var/lib/kubelet/plugins";
    d->hw = hw_sim_join_path(s, plugins, d->name, "hw");
    const char *state = s->o.state  ? s->o.state
                        : s->o.root ? s->o.root
                                    : hw_sim_join_path(s, plugins, "dray-sim", "");
    fault_file_init(&d->faults, hw_sim_join_path(s, state, node ? node : "shared", "faults.json"));
    d->hook = (struct fault_hook){hw_sim_on_step, d};
    list_push_back(&s->drivers, &d->node_of);
    return d;
}

static bool has_driver(const struct hw_sim *s, struct str name, const char *node)
{
    list_foreach(&s->drivers, n) {
        const struct hw_driver *d = list_entry(n, struct hw_driver, node_of);
        if (str_eqz(name, d->name) && (node ? d->node && strcmp(d->node, node) == 0 : !d->node))
            return true;
    }
    return false;
}

// --- Start ---------------------------------------------------------------------------------------

struct start {
    struct hw_sim *sim;
    const char *node;
    size_t index;
    const struct profile_objects *own; // NULL for the part without node
    const struct profile_objects *shared;
};

static int hw_sim_start_driver(const struct start *st, struct str name, struct err *err)
{
    struct hw_sim *s = st->sim;
    if (has_driver(s, name, st->node))
        return 0;
    struct hw_driver *d = driver_new(s, name, st->node, st->index);
    if (st->own)
        hw_sim_add_devices(d, st->own, false);
    hw_sim_add_devices(d, st->shared, true);
    const struct dray_driver_options o = options_of(d);
    int r = sdk_driver_start(s->runtime, &o, &d->hook, &d->driver, err);
    if (r != 0)
        return err_wrap(err, "driver %s", d->name);
    r = hw_sim_publish_slices(d, st->own ? st->own : st->shared, err);
    if (r == 0 && st->node)
        be_healthy(d);
    return r;
}

static int start_drivers(const struct start *st, const struct profile_objects *of, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < of->slices_len; i++)
        r = hw_sim_start_driver(st, of->slices[i]->spec.driver, err);
    return r;
}

static int start_node(struct hw_sim *s, const struct profile *p,
                      const struct profile_objects *shared, const char *node, size_t index,
                      struct err *err)
{
    struct profile_objects *own = arena_one(&s->arena, struct profile_objects);
    int r = profile_node(p, str_z(node), index, &s->arena, own, err);
    if (r != 0)
        return r;
    if (s->o.make_nodes)
        hw_sim_create_object(s, "v1", "Node", own->node);
    const struct start st = {s, node, index, own, shared};
    r = start_drivers(&st, own, err);
    return r == 0 ? start_drivers(&st, shared, err) : r;
}

static int start_profile(struct hw_sim *s, const struct profile *p, struct err *err)
{
    struct profile_objects *shared = arena_one(&s->arena, struct profile_objects);
    int r = profile_shared(p, &s->arena, shared, err);
    if (r != 0)
        return r;
    for (size_t i = 0; s->o.make_classes && i < shared->classes_len; i++)
        hw_sim_create_object(s, "resource.k8s.io/v1", "DeviceClass", shared->classes[i]);
    const struct start without_node = {s, NULL, 0, NULL, shared};
    if (s->o.shared)
        r = start_drivers(&without_node, shared, err);
    for (size_t i = 0; r == 0 && i < (s->o.node ? 1 : s->o.nodes); i++) {
        struct str name = profile_name(p);
        const char *node =
            s->o.node ? s->o.node : arena_strf(&s->arena, "%.*s-%zu", STR_ARG(name), i).p;
        r = start_node(s, p, shared, node, i, err);
    }
    return r;
}

static void hw_sim_on_tick(void *arg)
{
    struct hw_sim *s = arg;
    list_foreach(&s->drivers, n)
        hw_heal_tick(list_entry(n, struct hw_driver, node_of));
    exec_timer_start(s->exec, &s->tick, TICK_NS);
}

int hw_sim_start(const struct hw_sim_options *options, struct hw_sim **ret, struct err *err)
{
    struct hw_sim *s = xcalloc(1, sizeof(*s));
    s->o = *options;
    s->runtime = options->runtime;
    s->exec = s->runtime->exec;
    list_init(&s->drivers);
    list_init(&s->calls);
    int r = 0;
    for (size_t i = 0; r == 0 && i < options->profiles_len; i++)
        r = start_profile(s, options->profiles[i], err);
    s->tick = (struct exec_timer){.fn = hw_sim_on_tick, .arg = s};
    if (r == 0)
        exec_timer_start(s->exec, &s->tick, TICK_NS);
    *ret = s;
    return r;
}

void hw_sim_stop(struct hw_sim *s)
{
    exec_timer_stop(s->exec, &s->tick);
    list_foreach(&s->calls, n)
        list_remove(n);
}

void hw_sim_free(struct hw_sim *s)
{
    if (!s)
        return;
    list_foreach(&s->drivers, n) {
        struct hw_driver *d = list_entry(n, struct hw_driver, node_of);
        vec_done(&d->devices);
        vec_done(&d->counters);
        vec_done(&d->heals);
        vec_foreach(&d->attachings, a)
            free(a->key);
        vec_done(&d->attachings);
        fault_file_done(&d->faults);
    }
    arena_done(&s->arena);
    free(s);
}

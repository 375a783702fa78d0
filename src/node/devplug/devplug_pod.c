// SPDX-License-Identifier: Apache-2.0
//
// Views of the ledger: what the runtime gives a container, its status, and PodResources.
#include "node/devplug/devplug_int.h"

#include "base/banned.h"

// --- The runtime's view --------------------------------------------------------------------------

// True for the first of a name; a second one with another value is logged.
static bool devplug_pod_is_first(struct device_set *seen, const char *kind, struct str key)
{
    bool fresh = false;
    *map_put_new(seen, key, &fresh) = true;
    if (!fresh)
        LOG_DEBUG(&devplug_log, "two plugins set the same thing of a container; the first counts",
                  log_z("kind", kind), log_str("name", key));
    return fresh;
}

// One set for each kind of thing.
struct seen {
    struct device_set env, mounts, devices, annotations, cdi;
};

static void devplug_pod_seen_done(struct seen *s)
{
    map_done(&s->env);
    map_done(&s->mounts);
    map_done(&s->devices);
    map_done(&s->annotations);
    map_done(&s->cdi);
}

static void devplug_pod_add_texts(const struct plugin_allocation *from, struct arena *a,
                                  struct seen *s, struct devplug_gifts *out)
{
    vec_foreach(&from->envs, e)
        if (devplug_pod_is_first(&s->env, "env", e->key))
            vec_push_arena(a, &out->env, ((struct runtime_pair){e->key, e->value}));
    vec_foreach(&from->annotations, e)
        if (devplug_pod_is_first(&s->annotations, "annotation", e->key))
            vec_push_arena(a, &out->annotations, ((struct runtime_pair){e->key, e->value}));
    vec_foreach(&from->cdi_devices, c)
        if (devplug_pod_is_first(&s->cdi, "CDI device", c->name))
            vec_push_arena(a, &out->cdi_devices, c->name);
}

static void devplug_pod_add_paths(const struct plugin_allocation *from, struct arena *a,
                                  struct seen *s, struct devplug_gifts *out)
{
    vec_foreach(&from->mounts, m)
        if (devplug_pod_is_first(&s->mounts, "mount", m->container_path))
            vec_push_arena(
                a, &out->mounts,
                ((struct runtime_mount){.host_path = arena_str(a, m->host_path).p,
                                        .container_path = arena_str(a, m->container_path).p,
                                        .sub_path = "",
                                        .read_only = m->read_only}));
    vec_foreach(&from->devices, d)
        if (devplug_pod_is_first(&s->devices, "device", d->container_path))
            vec_push_arena(a, &out->devices,
                           ((struct runtime_device){.host_path = d->host_path,
                                                    .container_path = d->container_path,
                                                    .permissions = d->permissions}));
}

int devplug_container(const struct devplug *d, struct str pod_uid, struct str container,
                      struct arena *arena, struct devplug_gifts *ret, struct err *err)
{
    cleanup_with(devplug_pod_seen_done) struct seen seen = {0};
    vec_foreach(&d->ledger.grants, it) {
        const struct device_grant *g = *it;
        struct plugin_allocation said = {0};
        if (!g->settled || !str_eq(g->pod_uid, pod_uid) || !str_eq(g->container, container))
            continue;
        struct str bytes = arena_str(arena, g->response);
        if (plugin_decode(&plugin_allocation_message, bytes, &said, arena, err) < 0)
            return err_set(err, ERR_INVALID,
                           "what the device plugin of %.*s answered cannot be read from the "
                           "checkpoint",
                           STR_ARG(g->resource));
        devplug_pod_add_texts(&said, arena, &seen, ret);
        devplug_pod_add_paths(&said, arena, &seen, ret);
    }
    return 0;
}

int64_t devplug_held(const struct devplug *d, struct str pod_uid, struct str resource)
{
    struct device_set held = {0};
    if (!device_ledger_has_pod(&d->ledger, pod_uid))
        return 0;
    device_ledger_held(&d->ledger, resource, &held);
    int64_t n = (int64_t)map_len(&held);
    map_done(&held);
    return n;
}

// --- Each device of a grant ----------------------------------------------------------------------

struct one_device {
    const struct device_grant *grant;
    struct str id;
    struct plugin_topology topology;
};

typedef void (*device_fn)(void *arg, const struct one_device *d);

static bool devplug_pod_is_earlier_grant(const struct device_grant *g, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (str_eq(g->devices.p[i].id, g->devices.p[at].id))
            return true;
    return false;
}

// Calls fn for each device, once, with all nodes it belongs to.
static void devplug_pod_each_device(const struct device_grant *g, struct arena *a, device_fn fn,
                                    void *arg)
{
    for (size_t i = 0; i < g->devices.n; i++) {
        struct one_device one = {.grant = g, .id = g->devices.p[i].id};
        if (devplug_pod_is_earlier_grant(g, i))
            continue;
        for (size_t k = i; k < g->devices.n; k++)
            if (str_eq(g->devices.p[k].id, one.id) && g->devices.p[k].node != DEVICE_NODE_NONE)
                vec_push_arena(a, &one.topology.nodes,
                               ((struct plugin_numa_node){g->devices.p[k].node}));
        fn(arg, &one);
    }
}

static void devplug_pod_each_grant(const struct devplug *d, struct str pod_uid,
                                   struct str container,
                                   void (*fn)(void *arg, const struct device_grant *g), void *arg)
{
    vec_foreach(&d->ledger.grants, g)
        if ((*g)->settled && str_eq((*g)->pod_uid, pod_uid) && str_eq((*g)->container, container))
            fn(arg, *g);
}

// --- Health --------------------------------------------------------------------------------------

struct health_walk {
    const struct devplug *devices;
    struct arena *arena;
    struct VEC(struct api_resource_status) all;
    struct VEC(struct api_resource_health) one;
};

// As kubelet: an unknown device of a plugin that has not reported yet counts as healthy.
static void devplug_pod_add_health(void *arg, const struct one_device *d)
{
    struct health_walk *w = arg;
    const struct resource *r = devplug_find(w->devices, d->grant->resource);
    bool live = false;
    const struct device_list *l = r ? devplug_resource_list(r, &live) : NULL;
    const struct listed *known = devplug_list_find(l, d->id);
    bool healthy = !known || (known->healthy && live);
    vec_push_arena(
        w->arena, &w->one,
        ((struct api_resource_health){.resource_id = arena_str(w->arena, d->id),
                                      .health = healthy ? STR("Healthy") : STR("Unhealthy")}));
}

static void devplug_pod_add_status(void *arg, const struct device_grant *g)
{
    struct health_walk *w = arg;
    w->one.p = NULL;
    w->one.n = w->one.cap = 0;
    devplug_pod_each_device(g, w->arena, devplug_pod_add_health, w);
    vec_push_arena(w->arena, &w->all,
                   ((struct api_resource_status){.name = arena_str(w->arena, g->resource),
                                                 .resources = {w->one.p, w->one.n}}));
}

void devplug_health(const struct devplug *d, struct str pod_uid, struct str container,
                    struct arena *arena, struct api_resource_status_array *out)
{
    struct health_walk w = {.devices = d, .arena = arena};
    for (size_t i = 0; i < out->n; i++)
        vec_push_arena(arena, &w.all, out->p[i]);
    devplug_pod_each_grant(d, pod_uid, container, devplug_pod_add_status, &w);
    *out = (struct api_resource_status_array){w.all.p, w.all.n};
}

// --- PodResources --------------------------------------------------------------------------------

struct resources_walk {
    struct arena *arena;
    struct plugin_container_resources *out;
};

static struct plugin_container_devices devplug_pod_make_devices(
    struct arena *a, struct str resource, struct str id, const struct plugin_topology *topology)
{
    struct plugin_container_devices one = {.resource_name = arena_str(a, resource)};
    vec_push_arena(a, &one.device_ids, arena_str(a, id));
    if (topology->nodes.n > 0)
        vec_push_arena(a, &one.topology, *topology);
    return one;
}

static void devplug_pod_add_device(void *arg, const struct one_device *d)
{
    struct resources_walk *w = arg;
    vec_push_arena(w->arena, &w->out->devices,
                   devplug_pod_make_devices(w->arena, d->grant->resource, d->id, &d->topology));
}

static void devplug_pod_add_devices(void *arg, const struct device_grant *g)
{
    struct resources_walk *w = arg;
    devplug_pod_each_device(g, w->arena, devplug_pod_add_device, w);
}

void devplug_of_container(const struct devplug *d, struct str pod_uid, struct str container,
                          struct arena *arena, struct plugin_container_resources *out)
{
    struct resources_walk w = {arena, out};
    devplug_pod_each_grant(d, pod_uid, container, devplug_pod_add_devices, &w);
}

void devplug_allocatable(const struct devplug *d, struct arena *arena,
                         struct plugin_allocatable_response *out)
{
    vec_foreach(&d->resources, r) {
        bool live;
        const struct device_list *l = devplug_resource_list(*r, &live);
        for (size_t i = 0; live && i < l->all.n; i++) {
            struct plugin_topology topology = {0};
            if (!l->all.p[i].healthy)
                continue;
            vec_foreach(&l->all.p[i].nodes, node)
                vec_push_arena(arena, &topology.nodes, ((struct plugin_numa_node){*node}));
            vec_push_arena(arena, &out->devices,
                           devplug_pod_make_devices(arena, str_z((*r)->name), l->all.p[i].id,
                                                    &topology));
        }
    }
}

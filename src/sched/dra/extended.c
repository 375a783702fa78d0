// SPDX-License-Identifier: Apache-2.0
//
// Extended resources with a device class behind them: a pod that asks for example.com/gpu: 2 gets a
// claim made for it, on nodes that do not offer the resource themselves.
#include "api/match/claim.h"
#include "sched/dra/dra_int.h"

#include "base/banned.h"

static const struct str implicit_prefix = STR_INIT("deviceclass.resource.kubernetes.io/");

// --- Names ---------------------------------------------------------------------------------------

// Which of two classes with one name wins: the younger; of the same age the lower name.
static bool extended_class_wins(const struct api_device_class *a, const struct api_device_class *b)
{
    int age = moment_cmp(a->metadata.creation_timestamp.at, b->metadata.creation_timestamp.at);
    return age ? age > 0 : str_cmp(a->metadata.name, b->metadata.name) < 0;
}

static void extended_enter_class_name(struct ext_map *m, struct str name,
                                      const struct api_device_class *c)
{
    const struct api_device_class **known = map_get(m, name);
    if (known) {
        if (extended_class_wins(c, *known))
            *known = c;
        return;
    }
    *map_put(m, str_make(xstrndup(name.p, name.n), name.n)) = c;
}

// A class serves what pods ask for as a node does.
static void enter_name(struct sched *s, struct str name, const struct api_device_class *c)
{
    (void)cluster_resource(&s->cluster, name);
    extended_enter_class_name(&s->extended, name, c);
}

static void enter_class(void *arg, const struct typed_object *o)
{
    struct sched *s = arg;
    const struct api_device_class *c = o->object.value;
    cleanup_sbuf struct sbuf name = {0};
    sbuf_add(&name, implicit_prefix);
    sbuf_add(&name, c->metadata.name);
    enter_name(s, sbuf_str(&name), c);
    if (c->spec.has_extended_resource_name && c->spec.extended_resource_name.n)
        enter_name(s, c->spec.extended_resource_name, c);
}

static void extended_clear_map(struct ext_map *m)
{
    map_foreach(m, i)
        free((void *)(uintptr_t)map_key(m, i).p);
    map_done(m);
    *m = (struct ext_map){0};
}

void extended_rebuild(struct sched *s)
{
    extended_clear_map(&s->extended);
    if (s->watch.informers[WATCH_CLASSES])
        informer_foreach(s->watch.informers[WATCH_CLASSES], enter_class, s);
}

const struct api_device_class *extended_class(const struct sched *s, struct str resource)
{
    const struct api_device_class **c = map_get(&s->extended, resource);
    return c && features_on(&s->config.features, FEATURE_DRA_EXTENDED_RESOURCE) ? *c : NULL;
}

bool extended_wanted(const struct sched *s, const struct sched_pod *p)
{
    if (!map_len(&s->extended))
        return false;
    for (size_t i = 0; i < p->needs_len; i++)
        if (p->needs[i].res >= RES_FIXED &&
            extended_class(s, s->cluster.res_names.p[p->needs[i].res]))
            return true;
    return false;
}

// --- Requests ------------------------------------------------------------------------------------

// More requests than a claim can have: it is refused, so it does not matter which of them a
// container shares.
#define REQUESTS_MAX 32

struct maker {
    struct attempt *a;
    struct api_device_request *requests; // one a container and resource at most
    size_t requests_len;
    struct mapping_vec VEC(struct api_container_extended_resource_request) mappings;
};

static const struct api_container *container_at(const struct api_pod_spec *spec, size_t i)
{
    return i < spec->init_containers.n ? &spec->init_containers.p[i]
                                       : &spec->containers.p[i - spec->init_containers.n];
}

static bool short_lived(const struct api_pod_spec *spec, size_t i)
{
    const struct api_container *c = container_at(spec, i);
    return i < spec->init_containers.n &&
           !(c->has_restart_policy && str_eqz(c->restart_policy, "Always"));
}

// The quantity a container asks for, 0 when none, and its place among the container's requests.
static int64_t extended_requested(const struct api_container *c, struct str resource,
                                  size_t *ret_place)
{
    for (size_t i = 0; i < c->resources.requests.n; i++) {
        int64_t q = 0;
        if (!str_eq(c->resources.requests.p[i].key, resource))
            continue;
        *ret_place = i; // a map's entries are sorted by key
        return quantity_as_i64(&c->resources.requests.p[i].value, &q) && q > 0 ? q : 0;
    }
    return 0;
}

static void map_request(struct maker *m, const struct api_container *c, struct str resource,
                        struct str request)
{
    vec_push_arena(m->a->arena, &m->mappings,
                   (struct api_container_extended_resource_request){c->name, resource, request});
}

static void set_request(struct maker *m, struct api_device_request *r, size_t container,
                        size_t place, const struct api_device_class *class, int64_t count)
{
    struct arena *arena = m->a->arena;
    r->name = arena_strf(arena, "container-%zu-request-%zu", container, place);
    r->exactly = arena_one(arena, struct api_exact_device_request);
    r->exactly->device_class_name = class->metadata.name;
    r->exactly->allocation_mode = STR("ExactCount");
    r->exactly->count = count;
}

// What a pod's long-lived containers ask for, by container; exactly is NULL where one asks for
// nothing.
struct long_lived {
    struct api_device_request *p;
    size_t containers;
    size_t n; // that ask for something
};

// A short-lived container uses what long-lived ones at or behind it will have, then needs more.
static void short_request(struct maker *m, size_t i, struct str resource,
                          const struct api_device_class *class, const struct long_lived *all,
                          struct api_device_request *ret)
{
    const struct api_container *c = container_at(&m->a->api->spec, i);
    size_t place = 0;
    int64_t want = extended_requested(c, resource, &place);
    int64_t have = 0;
    if (!want)
        return;
    for (size_t k = i; k < all->containers; k++) {
        if (!all->p[k].exactly)
            continue;
        have = amount_add(have, all->p[k].exactly->count);
        if (all->n <= REQUESTS_MAX)
            map_request(m, c, resource, all->p[k].name);
        if (have >= want)
            return;
    }
    set_request(m, ret, i, place, class, want - have);
    map_request(m, c, resource, ret->name);
}

static void make_resource(struct maker *m, struct str resource,
                          const struct api_device_class *class)
{
    const struct api_pod_spec *spec = &m->a->api->spec;
    struct long_lived all = {.containers = spec->init_containers.n + spec->containers.n};
    struct api_device_request most = {0};
    size_t *own = arena_array(m->a->arena, size_t, spec->init_containers.n + 1);
    size_t own_len = 0;
    all.p = arena_array(m->a->arena, struct api_device_request, all.containers);
    for (size_t i = 0; i < all.containers; i++) {
        const struct api_container *c = container_at(spec, i);
        size_t place = 0;
        int64_t want = short_lived(spec, i) ? 0 : extended_requested(c, resource, &place);
        if (!want)
            continue;
        all.n++;
        set_request(m, &all.p[i], i, place, class, want);
        map_request(m, c, resource, all.p[i].name);
    }
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        struct api_device_request r = {0};
        if (!short_lived(spec, i))
            continue;
        short_request(m, i, resource, class, &all, &r);
        if (!r.exactly)
            continue;
        own[own_len++] = m->mappings.n - 1; // the last is of its own request
        if (!most.exactly || most.exactly->count < r.exactly->count)
            most = r;
    }
    // Short-lived containers never run at once: they share the largest of their requests.
    for (size_t i = 0; i < own_len; i++)
        m->mappings.p[own[i]].request_name = most.name;
    if (most.exactly)
        m->requests[m->requests_len++] = most;
    for (size_t i = 0; i < all.containers; i++)
        if (all.p[i].exactly)
            m->requests[m->requests_len++] = all.p[i];
}

static int extended_cmp_name(const void *a, const void *b)
{
    const struct api_device_request *x = a;
    const struct api_device_request *y = b;
    return str_cmp(x->name, y->name);
}

struct resource_name {
    struct str name;
    const struct api_device_class *class;
};

static int extended_cmp_resource(const void *a, const void *b)
{
    const struct resource_name *x = a;
    const struct resource_name *y = b;
    return str_cmp(x->name, y->name);
}

static void extended_make_claim(struct attempt *a, struct resource_name *names, size_t names_len)
{
    const struct api_pod *pod = a->api;
    size_t containers = pod->spec.init_containers.n + pod->spec.containers.n;
    struct maker m = {.a = a};
    m.requests = arena_array(a->arena, struct api_device_request, (containers + 1) * names_len + 1);
    qsort(names, names_len, sizeof(*names), extended_cmp_resource);
    for (size_t i = 0; i < names_len; i++)
        make_resource(&m, names[i].name, names[i].class);
    qsort(m.requests, m.requests_len, sizeof(*m.requests), extended_cmp_name);

    struct api_resource_claim *c = arena_one(a->arena, struct api_resource_claim);
    struct api_owner_reference *owner = arena_one(a->arena, struct api_owner_reference);
    struct api_str_entry *mark = arena_one(a->arena, struct api_str_entry);
    *owner = (struct api_owner_reference){.api_version = STR("v1"),
                                          .kind = STR("Pod"),
                                          .name = pod->metadata.name,
                                          .uid = pod->metadata.uid,
                                          .controller = true,
                                          .has_controller = true};
    mark->key = STR(CLAIM_EXTENDED);
    mark->value = STR("true");
    c->metadata.namespace = pod->metadata.namespace;
    c->metadata.name = STR("<extended-resources>");
    c->metadata.generate_name =
        arena_strf(a->arena, "%.*s-extended-resources-", STR_ARG(pod->metadata.name));
    c->metadata.owner_references.p = owner;
    c->metadata.owner_references.n = 1;
    c->metadata.annotations.p = mark;
    c->metadata.annotations.n = 1;
    c->spec.devices.requests.p = m.requests;
    c->spec.devices.requests.n = m.requests_len;
    a->special.claim = c;
    a->special.mappings.p = m.mappings.p;
    a->special.mappings.n = m.mappings.n;
}

int extended_on_node(struct attempt *a, const struct sched_node *n)
{
    const struct cluster *c = &a->s->cluster;
    struct resource_name *names =
        arena_array(a->arena, struct resource_name, a->pod->needs_len + 1);
    size_t len = 0;
    for (size_t i = 0; i < a->pod->needs_len; i++) {
        uint32_t res = a->pod->needs[i].res;
        const struct api_device_class *class =
            res < RES_FIXED ? NULL : extended_class(a->s, c->res_names.p[res]);
        if (class && amount_at(&n->allocatable, res) == 0)
            names[len++] = (struct resource_name){c->res_names.p[res], class};
    }
    if (!len)
        return 0;
    extended_make_claim(a, names, len);
    return 1;
}

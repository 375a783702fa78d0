// SPDX-License-Identifier: Apache-2.0
//
// Keeps the ResourceSlices of a driver as its pools want them: creates, updates and deletes one at
// a time, in an order in which a pool is never seen half-changed under its old generation.
#include "driver/sdk/publish.h"

#include <stdlib.h>

#include "api/meta.h"
#include "base/list.h"
#include "base/map.h"
#include "client/informer.h"
#include "client/work.h"
#include "driver/sdk/alive.h"

#include "base/banned.h"

enum { SOURCE_NODE, SOURCE_SHARED, SOURCES };

#define RETRY_MIN_NS (100 * CLOCK_NS_PER_MS)
#define RETRY_MAX_NS (30 * CLOCK_NS_PER_SEC)

struct accepted_list VEC(struct typed_object *);

// A pool as the driver wants it.
struct desired {
    char *name;
    bool shared;
    bool set;     // the driver has published it
    bool removed; // all its slices go
    struct arena arena;
    struct pool_specs specs;
    struct pool_taints taints; // texts on the heap
    // What the server made of slices when it did not keep all that was sent; by index.
    struct accepted_list accepted;
    unsigned failures;
    struct alive *alive; // NULL: not begun, or not wanted
};

struct desireds MAP(struct desired *);

struct publisher {
    struct publisher_options o;
    struct arena arena;
    struct exec *exec;
    struct informer *informers[SOURCES];
    struct work *work;
    struct desireds pools;
    struct list calls;
    struct exec_timer node_timer;
    char *node_uid;  // NULL: not known yet
    bool node_known; // it is the Node's that is there, as far as we know
    bool asking_node;
    bool old_server;
};

// A write under way, or the question for the node; the publisher may be gone when it ends.
struct call {
    struct list_node node;
    struct publisher *owner;
    char *pool;
    size_t index;
    size_t source;
    struct arena arena;
    struct api_resource_slice_spec *sent;
};

static const struct api_kind *slice_kind(void)
{
    return api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceSlice"));
}

static struct call *publish_call_new(struct publisher *p, struct str pool)
{
    struct call *c = xcalloc(1, sizeof(*c));
    c->owner = p;
    c->pool = xstrndup(pool.p ? pool.p : "", pool.n);
    list_push_back(&p->calls, &c->node);
    return c;
}

static struct publisher *publish_call_take(struct call *c)
{
    struct publisher *p = list_linked(&c->node) ? c->owner : NULL;
    list_remove(&c->node);
    return p;
}

static void publish_call_free(struct call *c)
{
    arena_done(&c->arena);
    free(c->pool);
    free(c);
}

static void look_at_all(struct publisher *p)
{
    map_foreach(&p->pools, i)
        work_add(p->work, map_key(&p->pools, i));
}

// --- The node's UID, for owner references
// ---------------------------------------------------------

static void publish_ask_node(void *arg);

// take_node notes who owns what is published. Leases are made for one owner.
static void take_node(struct publisher *p, struct str uid)
{
    p->node_known = true;
    if (p->node_uid && str_eqz(uid, p->node_uid))
        return;
    free(p->node_uid);
    p->node_uid = xstrndup(uid.p, uid.n);
    map_foreach(&p->pools, i) {
        struct desired *d = *map_value(&p->pools, i);
        if (!d->shared)
            alive_free(take_ptr(d->alive));
    }
}

static void publish_node_answered(void *arg, const struct client_answer *a)
{
    struct call *c = arg;
    struct publisher *p = publish_call_take(c);
    publish_call_free(c);
    if (!p)
        return;
    p->asking_node = false;
    if (a->code == 0 && a->object) {
        take_node(p, a->object->meta->uid);
        look_at_all(p);
        return;
    }
    if (p->o.trouble && a->err)
        p->o.trouble(p->o.arg, a->err);
    exec_timer_start(p->exec, &p->node_timer, 2 * CLOCK_NS_PER_SEC);
}

static void publish_ask_node(void *arg)
{
    struct publisher *p = arg;
    if (p->asking_node || p->node_known || p->o.node.n == 0)
        return;
    p->asking_node = true;
    const struct client_key key = {api_kind_find(STR("v1"), STR("Node")), STR(""), p->o.node};
    client_get(p->o.client, &key, publish_node_answered, publish_call_new(p, STR("")));
}

// --- What exists ---------------------------------------------------------------------------------

struct existing {
    const struct typed_object *object;
    const struct api_resource_slice *slice;
    ptrdiff_t index; // by its name; -1: not one of ours
};

struct existings VEC(struct existing);

struct gather {
    struct existings *to;
    struct str pool;
};

// The number that a slice's name begins with: 0000a-driver-node-xyz.
static ptrdiff_t index_of(struct str name)
{
    ptrdiff_t dash = str_find_char(name, '-');
    if (dash < 5 || dash > 8)
        return -1;
    ptrdiff_t index = 0;
    for (ptrdiff_t i = 0; i < dash; i++) {
        char c = name.p[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && !(c >= 'a' && c <= 'f'))
            return -1;
        index = index * 16 + (digit ? c - '0' : c - 'a' + 10);
    }
    return index;
}

static void gather_one(void *arg, const struct typed_object *o)
{
    const struct gather *g = arg;
    const struct api_resource_slice *slice = o->object.value;
    if (str_eq(slice->spec.pool.name, g->pool))
        vec_push(g->to, ((struct existing){o, slice, index_of(slice->metadata.name)}));
}

// --- What there should be ------------------------------------------------------------------------

static void make_specs(const struct publisher *p, const struct desired *d, struct arena *arena,
                       struct pool_specs *ret)
{
    *ret = (struct pool_specs){0};
    if (d->removed)
        return;
    vec_foreach(&d->specs, s) {
        struct api_resource_slice_spec copy = {0};
        api_copy(&api_resource_slice_spec_type, s, &copy, arena);
        vec_push_arena(arena, ret, copy);
    }
    pool_taint_all(ret, &d->taints, arena);
    if (p->old_server)
        pool_combine(ret, arena);
    pool_split(ret, arena);
    vec_foreach(ret, s) {
        s->driver = p->o.driver;
        s->pool.name = str_z(d->name);
        s->pool.resource_slice_count = (int64_t)ret->n;
        if (!d->shared) {
            s->node_name = p->o.node;
            s->has_node_name = true;
        }
    }
}

// Taints that are there already keep the time they were added at.
static void adopt_times(struct api_resource_slice_spec *want,
                        const struct api_resource_slice_spec *have)
{
    for (size_t i = 0; i < want->devices.n && i < have->devices.n; i++) {
        struct api_device *w = &want->devices.p[i];
        const struct api_device *h = &have->devices.p[i];
        for (size_t k = 0; k < w->taints.n && str_eq(w->name, h->name); k++) {
            for (size_t m = 0; m < h->taints.n; m++) {
                const struct api_device_taint *old = &h->taints.p[m];
                struct api_device_taint *new = &w->taints.p[k];
                if (str_eq(old->key, new->key) && str_eq(old->value, new->value) &&
                    str_eq(old->effect, new->effect))
                    new->time_added = old->time_added;
            }
        }
    }
}

static bool specs_equal(const struct api_resource_slice_spec *a,
                        const struct api_resource_slice_spec *b)
{
    return api_equal(&api_resource_slice_spec_type, a, b);
}

// Whether a slice is as wanted; or as the server made it when it was last written so.
static bool publish_is_wanted(const struct desired *d, size_t index,
                              struct api_resource_slice_spec *want,
                              const struct api_resource_slice_spec *have)
{
    adopt_times(want, have);
    want->pool.generation = have->pool.generation;
    if (specs_equal(want, have))
        return true;
    const struct typed_object *as = index < d->accepted.n ? d->accepted.p[index] : NULL;
    if (!as)
        return false;
    return specs_equal(&((const struct api_resource_slice *)as->object.value)->spec, have);
}

// --- Signs of life -------------------------------------------------------------------------------

static struct str publish_lease_name(const struct desired *d)
{
    return d->alive ? alive_lease(d->alive) : STR("");
}

// names_lease: the slice's annotation is as it should be.
static bool names_lease(const struct desired *d, const struct api_resource_slice *slice)
{
    const struct str *has = api_map_find(&slice->metadata.annotations, STR(META_PUBLISHER_LEASE));
    return str_eq(has ? *has : STR(""), publish_lease_name(d));
}

static void name_lease(const struct desired *d, struct api_resource_slice *slice,
                       struct arena *arena)
{
    struct api_str_map *notes = &slice->metadata.annotations;
    if (publish_lease_name(d).n)
        meta_map_put(notes, STR(META_PUBLISHER_LEASE), publish_lease_name(d), arena);
    else
        meta_map_drop(notes, STR(META_PUBLISHER_LEASE), arena);
}

static void alive_trouble(void *arg, const struct err *err)
{
    const struct publisher *p = arg;
    p->o.trouble(p->o.arg, err);
}

static void alive_changed(void *arg)
{
    look_at_all(arg);
}

// is_alive begins to renew the pool's Lease; true when it is known what became of it.
static bool is_alive(struct publisher *p, struct desired *d)
{
    if (p->o.lease_namespace.n == 0 || d->removed)
        return true;
    const struct alive_options o = {.client = p->o.client,
                                    .namespace = p->o.lease_namespace,
                                    .driver = p->o.driver,
                                    .pool = str_z(d->name),
                                    .holder = p->o.lease_holder,
                                    .node = p->o.node,
                                    .node_uid = d->shared ? STR("") : str_z(p->node_uid),
                                    .seconds = p->o.lease_seconds,
                                    .changed = alive_changed,
                                    .trouble = p->o.trouble ? alive_trouble : NULL,
                                    .arg = p};
    if (!d->alive)
        d->alive = alive_new(&o);
    return alive_known(d->alive);
}

// --- Writes --------------------------------------------------------------------------------------

static void drop_accepted(struct desired *d)
{
    vec_foreach(&d->accepted, o)
        if (*o)
            typed_object_unref(*o);
    vec_clear(&d->accepted);
}

// Remembers what the server made of a slice if that is not what was sent.
static void note_accepted(struct publisher *p, struct desired *d, const struct call *c,
                          const struct typed_object *o)
{
    while (d->accepted.n <= c->index)
        vec_push(&d->accepted, NULL);
    struct typed_object **at = &d->accepted.p[c->index];
    if (*at)
        typed_object_unref(*at);
    *at = NULL;
    const struct api_resource_slice *slice = o->object.value;
    adopt_times(c->sent, &slice->spec);
    if (specs_equal(c->sent, &slice->spec))
        return;
    *at = typed_object_ref(o);
    struct err err;
    (void)err_set(&err, ERR_UNSUPPORTED,
                  "the API server did not keep all fields of slice %.*s: a feature gate may be off",
                  STR_ARG(slice->metadata.name));
    if (p->o.trouble)
        p->o.trouble(p->o.arg, &err);
}

static void publish_write_failed(struct publisher *p, struct desired *d, struct str key,
                                 const struct client_answer *a)
{
    bool race = a->code == -ERR_CONFLICT || a->code == -ERR_NOT_FOUND;
    if (!race && p->o.trouble && a->err)
        p->o.trouble(p->o.arg, a->err);
    unsigned n = d && d->failures < 12 ? d->failures++ : 12;
    int64_t delay = RETRY_MIN_NS << n;
    work_again(p->work, key, delay < RETRY_MAX_NS ? delay : RETRY_MAX_NS);
}

static void publish_on_written(void *arg, const struct client_answer *a)
{
    struct call *c = arg;
    struct publisher *p = publish_call_take(c);
    if (p) {
        struct str key = str_z(c->pool);
        struct desired **d = map_get(&p->pools, key);
        if (a->code == 0 && a->object && d) {
            (*d)->failures = 0;
            if (c->sent)
                note_accepted(p, *d, c, a->object);
            work_after(p->work, key, c->source, a->object->revision);
        } else if (a->code == 0) {
            work_again(p->work, key, RETRY_MIN_NS); // the cache shows when it is gone
        } else {
            publish_write_failed(p, d ? *d : NULL, key, a);
        }
    }
    publish_call_free(c);
}

static struct call *publish_new_write(struct publisher *p, const struct desired *d, size_t index)
{
    struct call *c = publish_call_new(p, str_z(d->name));
    c->index = index;
    c->source = d->shared ? SOURCE_SHARED : SOURCE_NODE;
    return c;
}

static struct call *write_of(struct publisher *p, const struct desired *d, size_t index,
                             const struct api_resource_slice_spec *spec, int64_t generation)
{
    struct call *c = publish_new_write(p, d, index);
    c->sent = arena_one(&c->arena, struct api_resource_slice_spec);
    api_copy(&api_resource_slice_spec_type, spec, c->sent, &c->arena);
    c->sent->pool.generation = generation;
    return c;
}

static void publish_create_slice(struct publisher *p, const struct desired *d, size_t index,
                                 const struct api_resource_slice_spec *spec, int64_t generation)
{
    struct call *c = write_of(p, d, index, spec, generation);
    struct api_resource_slice slice = {.spec = *c->sent};
    struct str whose = d->shared ? str_z(d->name) : p->o.node;
    struct str name =
        arena_strf(&c->arena, "%05zx-%.*s-%.*s-", index, STR_ARG(p->o.driver), STR_ARG(whose));
    char *at = arena_dup(&c->arena, name.p, name.n, 1);
    for (size_t i = 0; i < name.n; i++)
        if (at[i] == '/')
            at[i] = '.';
    slice.metadata.generate_name = str_make(at, name.n);
    struct api_owner_reference owner = {.api_version = STR("v1"),
                                        .kind = STR("Node"),
                                        .name = p->o.node,
                                        .uid = str_z(p->node_uid),
                                        .controller = true,
                                        .has_controller = true};
    if (!d->shared)
        slice.metadata.owner_references = (struct api_owner_reference_array){&owner, 1};
    name_lease(d, &slice, &c->arena);
    const struct api_object object = {slice_kind(), &slice};
    client_create(p->o.client, &object, NULL, publish_on_written, c);
}

static void publish_update_slice(struct publisher *p, const struct desired *d, size_t index,
                                 const struct existing *e,
                                 const struct api_resource_slice_spec *spec, int64_t generation)
{
    struct call *c = write_of(p, d, index, spec, generation);
    adopt_times(c->sent, &e->slice->spec);
    struct api_resource_slice slice = *e->slice;
    slice.spec = *c->sent;
    name_lease(d, &slice, &c->arena);
    const struct api_object object = {slice_kind(), &slice};
    client_update(p->o.client, &object, NULL, publish_on_written, c);
}

static void delete_slice(struct publisher *p, const struct desired *d, const struct existing *e)
{
    struct api_preconditions same = {.uid = e->object->meta->uid,
                                     .has_uid = true,
                                     .resource_version = e->object->meta->resource_version,
                                     .has_resource_version = true};
    const struct api_delete_options options = {.preconditions = &same};
    const struct client_key key = {slice_kind(), STR(""), e->object->meta->name};
    client_delete(p->o.client, &key, &options, publish_on_written, publish_new_write(p, d, 0));
}

// --- One step ------------------------------------------------------------------------------------

struct survey {
    struct existings all;
    const struct existing **current; // by index, of the newest generation
    int64_t generation;
    size_t differing, missing, surplus;
    size_t differs_at, missing_at;
};

static void survey_pool(const struct publisher *p, const struct desired *d,
                        struct pool_specs *specs, struct arena *arena, struct survey *s)
{
    struct gather g = {&s->all, str_z(d->name)};
    informer_foreach(p->informers[d->shared ? SOURCE_SHARED : SOURCE_NODE], gather_one, &g);
    s->current = arena_array(arena, const struct existing *, specs->n);
    vec_foreach(&s->all, e)
        if (e->slice->spec.pool.generation > s->generation)
            s->generation = e->slice->spec.pool.generation;
    vec_foreach(&s->all, e) {
        if (e->slice->spec.pool.generation == s->generation && e->index >= 0 &&
            (size_t)e->index < specs->n && !s->current[e->index])
            s->current[e->index] = e;
        else if (e->slice->spec.pool.generation == s->generation)
            s->surplus++;
    }
    for (size_t i = specs->n; i-- > 0;) {
        if (!s->current[i]) {
            s->missing++;
            s->missing_at = i;
        } else if (!publish_is_wanted(d, i, &specs->p[i], &s->current[i]->slice->spec) ||
                   !names_lease(d, s->current[i]->slice)) {
            s->differing++;
            s->differs_at = i;
        }
    }
}

// A slice of an older generation that has this place.
static const struct existing *publish_find_older(const struct survey *s, size_t index)
{
    vec_foreach(&s->all, e)
        if (e->index == (ptrdiff_t)index)
            return e;
    return NULL;
}

static void publish_put_slice(struct publisher *p, const struct desired *d, const struct survey *s,
                              size_t index, const struct api_resource_slice_spec *spec,
                              int64_t generation)
{
    const struct existing *e = s->current[index] ? s->current[index] : publish_find_older(s, index);
    if (e)
        publish_update_slice(p, d, index, e, spec, generation);
    else
        publish_create_slice(p, d, index, spec, generation);
}

// Makes the next write; false: nothing is to be done.
static bool next_write(struct publisher *p, const struct desired *d, struct pool_specs *specs,
                       const struct survey *s)
{
    int64_t generation = s->generation ? s->generation : 1;
    if (s->differing == 1 && s->missing == 0 && s->surplus == 0) {
        size_t i = s->differs_at;
        bool same_count = s->current[i]->slice->spec.pool.resource_slice_count == (int64_t)specs->n;
        publish_put_slice(p, d, s, i, &specs->p[i], same_count ? generation : generation + 1);
        return true;
    }
    if (s->differing || (s->missing && s->surplus)) {
        publish_put_slice(p, d, s, 0, &specs->p[0], generation + 1);
        return true;
    }
    if (s->missing) {
        publish_put_slice(p, d, s, s->missing_at, &specs->p[s->missing_at], generation);
        return true;
    }
    vec_foreach(&s->all, e) {
        bool wanted = e->index >= 0 && (size_t)e->index < specs->n && s->current[e->index] == e;
        if (!wanted) {
            delete_slice(p, d, e);
            return true;
        }
    }
    return false;
}

// A taint's texts stand one behind the other in one block.
static void taint_done(struct pool_taint *t)
{
    free((void *)(uintptr_t)t->device.p);
}

static struct pool_taint taint_copy(const struct pool_taint *t)
{
    struct sbuf all = {0};
    sbuf_add(&all, t->device);
    sbuf_add(&all, t->key);
    sbuf_add(&all, t->value);
    sbuf_add(&all, t->effect);
    const char *at = sbuf_take(&all);
    struct pool_taint copy = {.device = str_make(at, t->device.n)};
    copy.key = str_make(at + t->device.n, t->key.n);
    copy.value = str_make(copy.key.p + t->key.n, t->value.n);
    copy.effect = str_make(copy.value.p + t->value.n, t->effect.n);
    return copy;
}

static void desired_free(struct desired *d)
{
    alive_free(d->alive);
    drop_accepted(d);
    vec_done(&d->accepted);
    vec_foreach(&d->taints, t)
        taint_done(t);
    vec_done(&d->taints);
    arena_done(&d->arena);
    free(d->name);
    free(d);
}

static void publish_step_key(void *arg, struct str key)
{
    struct publisher *p = arg;
    struct desired **at = map_get(&p->pools, key);
    struct desired *d = at ? *at : NULL;
    struct informer *informer =
        d && d->set ? p->informers[d->shared ? SOURCE_SHARED : SOURCE_NODE] : NULL;
    if (!informer || !informer_synced(informer) || (!d->shared && !p->node_known) ||
        !is_alive(p, d)) {
        work_done(p->work, key); // it is added again when that is there
        return;
    }
    cleanup_arena struct arena arena = {0};
    struct pool_specs specs;
    struct survey s = {0};
    make_specs(p, d, &arena, &specs);
    survey_pool(p, d, &specs, &arena, &s);
    bool writing = next_write(p, d, &specs, &s);
    vec_done(&s.all);
    if (writing)
        return;
    if (d->removed) {
        map_del(&p->pools, key);
        desired_free(d);
    }
    work_done(p->work, key); // key is gone from here on
}

// --- Informers -----------------------------------------------------------------------------------

static void publish_slice_changed(void *arg, const struct typed_object *before,
                                  const struct typed_object *after)
{
    struct publisher *p = arg;
    const struct api_resource_slice *slice = (after ? after : before)->object.value;
    // Slices go with their Node. One of its name that came since is another, and what the old one
    // owned would go again.
    if (!after && slice->spec.node_name.n) {
        p->node_known = false;
        publish_ask_node(p);
    }
    if (map_has(&p->pools, slice->spec.pool.name))
        work_add(p->work, slice->spec.pool.name);
}

static void publish_on_synced(void *arg)
{
    look_at_all(arg);
}

static void node_progress(void *arg, uint64_t revision)
{
    work_seen(((struct publisher *)arg)->work, SOURCE_NODE, revision);
}

static void shared_progress(void *arg, uint64_t revision)
{
    work_seen(((struct publisher *)arg)->work, SOURCE_SHARED, revision);
}

static void watch_slices(struct publisher *p, size_t source)
{
    if (p->informers[source])
        return;
    cleanup_sbuf struct sbuf fields = {0};
    sbuf_addf(&fields, "spec.driver=%.*s,spec.nodeName=%.*s", STR_ARG(p->o.driver),
              source == SOURCE_NODE ? (int)p->o.node.n : 0, p->o.node.p ? p->o.node.p : "");
    const struct informer_options options = {
        .client = p->o.client, .kind = slice_kind(), .list = {.field_selector = sbuf_str(&fields)}};
    p->informers[source] = informer_new(&options);
    const struct informer_handler h = {.changed = publish_slice_changed,
                                       .synced = publish_on_synced,
                                       .progress =
                                           source == SOURCE_NODE ? node_progress : shared_progress,
                                       .arg = p};
    informer_add_handler(p->informers[source], &h);
    informer_start(p->informers[source]);
}

// --- Interface -----------------------------------------------------------------------------------

struct publisher *publish_new(const struct publisher_options *options)
{
    struct publisher *p = xcalloc(1, sizeof(*p));
    p->o = *options;
    p->o.driver = arena_str(&p->arena, options->driver);
    p->o.node = arena_str(&p->arena, options->node);
    p->o.lease_namespace = arena_str(&p->arena, options->lease_namespace);
    p->o.lease_holder = arena_str(&p->arena, options->lease_holder);
    p->exec = options->client->exec;
    list_init(&p->calls);
    p->work = work_new(p->exec, NULL, publish_step_key, p);
    p->node_timer = (struct exec_timer){.fn = publish_ask_node, .arg = p};
    return p;
}

void publish_free(struct publisher *p)
{
    if (!p)
        return;
    list_foreach(&p->calls, n)
        list_remove(n);
    exec_timer_stop(p->exec, &p->node_timer);
    for (size_t i = 0; i < SOURCES; i++)
        if (p->informers[i])
            informer_free(p->informers[i]);
    work_free(p->work);
    map_foreach(&p->pools, i)
        desired_free(*map_value(&p->pools, i));
    map_done(&p->pools);
    free(p->node_uid);
    arena_done(&p->arena);
    free(p);
}

void publish_old_server(struct publisher *p)
{
    p->old_server = true;
    look_at_all(p);
}

static struct desired *desired_of(struct publisher *p, struct str pool)
{
    struct desired **at = map_get(&p->pools, pool);
    if (at)
        return *at;
    struct desired *d = xcalloc(1, sizeof(*d));
    d->name = xstrndup(pool.p, pool.n);
    *map_put(&p->pools, str_z(d->name)) = d;
    return d;
}

void publish_set_pool(struct publisher *p, struct str pool, bool shared,
                      const struct pool_specs *specs)
{
    struct desired *d = desired_of(p, pool);
    arena_done(&d->arena);
    d->arena = (struct arena){0};
    d->specs = (struct pool_specs){0};
    d->shared = shared;
    d->removed = false;
    d->set = true;
    drop_accepted(d);
    vec_foreach(specs, s) {
        struct api_resource_slice_spec copy = {0};
        api_copy(&api_resource_slice_spec_type, s, &copy, &d->arena);
        vec_push_arena(&d->arena, &d->specs, copy);
    }
    watch_slices(p, shared ? SOURCE_SHARED : SOURCE_NODE);
    if (!shared)
        publish_ask_node(p);
    work_add(p->work, pool);
}

void publish_remove_pool(struct publisher *p, struct str pool)
{
    struct desired **d = map_get(&p->pools, pool);
    if (!d)
        return;
    (*d)->removed = true;
    work_add(p->work, pool);
}

bool publish_has_pool(const struct publisher *p, struct str pool)
{
    return map_has(&p->pools, pool);
}

void publish_untaint(struct publisher *p, struct str pool, struct str device, struct str key)
{
    struct desired **at = map_get(&p->pools, pool);
    if (!at)
        return;
    struct pool_taints *taints = &(*at)->taints;
    for (size_t i = taints->n; i-- > 0;) {
        struct pool_taint *t = &taints->p[i];
        if (!str_eq(t->device, device) || !str_eq(t->key, key))
            continue;
        taint_done(t);
        *t = taints->p[--taints->n];
    }
    work_add(p->work, pool);
}

void publish_taint(struct publisher *p, struct str pool, const struct pool_taint *taint)
{
    publish_untaint(p, pool, taint->device, taint->key);
    struct desired *d = desired_of(p, pool);
    vec_push(&d->taints, taint_copy(taint));
    work_add(p->work, pool);
}

bool publish_idle(const struct publisher *p)
{
    return work_idle(p->work);
}

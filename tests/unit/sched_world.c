// SPDX-License-Identifier: Apache-2.0
#include "sched_world.h"

#include <stdarg.h>

#include "api/match/claim.h"
#include "base/mem.h"
#include "codec/json.h"

#include "base/banned.h"

// A client of the API in memory that can be told to fail, to be late and to see late.
struct world_client {
    struct client client; // first
    struct client *inner;
    struct world *w;
    struct list_node node;
    const char *lag;    // kind whose events are held back
    uint64_t lag_since; // those of writes after this revision
};

// A watch of the test's client, behind the handle that its users have.
struct world_watch {
    struct list_node node;
    struct world_client *client;
    struct client_watch *inner; // NULL: denied
    const struct api_kind *kind;
    client_event_fn event;
    void *arg;
    struct list held; // events not given yet
    uint32_t posted;  // events on the exec
    bool stopped;
};

struct held_event {
    struct list_node node;
    struct world_watch *watch;
    struct client_event event;
    struct err err;
};

static struct world_client *world_client_of(struct client *c)
{
    return container_of(c, struct world_client, client);
}

// --- Watches that lag or are denied --------------------------------------------------------------

static void world_watch_release(struct world_watch *watch)
{
    if (watch->stopped && watch->posted == 0 && list_empty(&watch->held))
        free(watch);
}

static void world_give_event(void *arg)
{
    struct held_event *e = arg;
    struct world_watch *watch = e->watch;
    if (!watch->stopped)
        watch->event(watch->arg, &e->event);
    typed_object_unref(e->event.object);
    free(e);
    watch->posted--;
    world_watch_release(watch);
}

static void world_post_event(struct held_event *e)
{
    e->watch->posted++;
    exec_post(e->watch->client->w->exec, world_give_event, e);
}

static void world_on_event(void *arg, const struct client_event *event)
{
    struct world_watch *watch = arg;
    const struct world_client *wc = watch->client;
    bool late = wc->lag && str_eqz(watch->kind->kind, wc->lag) && event->revision > wc->lag_since;
    if (!late && !watch->posted) {
        watch->event(watch->arg, event);
        return;
    }
    struct held_event *e = xcalloc(1, sizeof(*e));
    e->watch = watch;
    e->event = *event;
    e->event.object = typed_object_ref(event->object);
    if (late)
        list_push_back(&watch->held, &e->node);
    else
        world_post_event(e); // behind those that were released
}

void world_lag(struct client *c, const char *kind)
{
    struct world_client *wc = world_client_of(c);
    wc->lag = kind;
    wc->lag_since = memory_revision(wc->w->memory);
}

void world_release(struct client *c)
{
    struct world_client *wc = world_client_of(c);
    wc->lag = NULL;
    list_foreach(&wc->w->watches, node) {
        struct world_watch *watch = list_entry(node, struct world_watch, node);
        if (watch->client != wc)
            continue;
        for (struct list_node *n; (n = list_pop_front(&watch->held));)
            world_post_event(list_entry(n, struct held_event, node));
    }
}

static void world_deny(struct world_watch *watch)
{
    struct held_event *e = xcalloc(1, sizeof(*e));
    int code =
        err_set(&e->err, watch->client->w->unknown ? ERR_NOT_FOUND : ERR_FORBIDDEN, "by the test");
    e->watch = watch;
    e->event = (struct client_event){.type = CLIENT_ENDED, .code = code, .err = &e->err};
    world_post_event(e);
}

static struct client_watch *world_op_watch(struct client *c, const struct api_kind *kind,
                                           const struct client_list_options *options,
                                           uint64_t since, client_event_fn event, void *arg)
{
    struct world_client *wc = world_client_of(c);
    struct world *w = wc->w;
    struct world_watch *watch = xcalloc(1, sizeof(*watch));
    *watch = (struct world_watch){.client = wc, .kind = kind, .event = event, .arg = arg};
    list_init(&watch->held);
    list_push_back(&w->watches, &watch->node);
    if (w->denied && str_eqz(kind->kind, w->denied))
        world_deny(watch);
    else
        watch->inner = client_watch(wc->inner, kind, options, since, world_on_event, watch);
    return (struct client_watch *)watch;
}

static void world_op_watch_stop(struct client_watch *handle)
{
    struct world_watch *watch = (struct world_watch *)handle;
    list_remove(&watch->node);
    if (watch->inner)
        client_watch_stop(watch->client->inner, watch->inner);
    watch->stopped = true;
    for (struct list_node *n; (n = list_pop_front(&watch->held));) {
        struct held_event *e = list_entry(n, struct held_event, node);
        typed_object_unref(e->event.object);
        free(e);
    }
    world_watch_release(watch);
}

// --- Calls that fail -----------------------------------------------------------------------------

struct refusal {
    client_done_fn done;
    void *arg;
    int code;
    struct err err;
    struct exec_timer timer;
};

static void world_give_refusal(void *arg)
{
    struct refusal *r = arg;
    r->done(r->arg, &(struct client_answer){r->code, &r->err, NULL});
    free(r);
}

static bool world_refuses(struct client *c, const char *verb, const struct api_kind *kind,
                          struct str name, client_done_fn done, void *arg)
{
    struct world *w = world_client_of(c)->w;
    int code = w->refuse ? w->refuse(w, verb, kind, name) : 0;
    if (code >= 0)
        return false;
    struct refusal *r = xcalloc(1, sizeof(*r));
    *r = (struct refusal){.done = done, .arg = arg, .code = code};
    (void)err_set(&r->err, -code, "refused by the test");
    r->timer = (struct exec_timer){.fn = world_give_refusal, .arg = r};
    if (w->refused_ms)
        exec_timer_start(c->exec, &r->timer, w->refused_ms * CLOCK_NS_PER_MS);
    else
        exec_post(c->exec, world_give_refusal, r);
    return true;
}

static void world_op_get(struct client *c, const struct client_key *key, client_done_fn done,
                         void *arg)
{
    client_get(world_client_of(c)->inner, key, done, arg);
}

static void world_op_create(struct client *c, const struct api_object *object,
                            const struct client_write *how, client_done_fn done, void *arg)
{
    bool binds = str_eqz(how->subresource, "binding");
    const struct api_kind *kind = binds ? api_kind_find(STR("v1"), STR("Pod")) : object->kind;
    if (!world_refuses(c, binds ? "bind" : "create", kind, api_object_meta(object)->name, done,
                       arg))
        client_create(world_client_of(c)->inner, object, how, done, arg);
}

static void world_op_update(struct client *c, const struct api_object *object,
                            const struct client_write *how, client_done_fn done, void *arg)
{
    const char *verb = str_eqz(how->subresource, "status") ? "status" : "update";
    const struct api_resource_claim *claim =
        object->kind->type == &api_resource_claim_type ? object->value : NULL;
    if (claim && claim->status.reserved_for.n > 256) {
        struct refusal *r = xcalloc(1, sizeof(*r));
        *r = (struct refusal){.done = done, .arg = arg, .code = -ERR_INVALID};
        (void)err_set(&r->err, ERR_INVALID,
                      "status.reservedFor: Too many: must have at most 256 items");
        exec_post(c->exec, world_give_refusal, r);
    } else if (!world_refuses(c, verb, object->kind, api_object_meta(object)->name, done, arg)) {
        client_update(world_client_of(c)->inner, object, how, done, arg);
    }
}

static void world_op_patch(struct client *c, const struct client_key *key, enum client_patch type,
                           struct str body, const struct client_write *how, client_done_fn done,
                           void *arg)
{
    if (!world_refuses(c, "patch", key->kind, key->name, done, arg))
        client_patch(world_client_of(c)->inner, key, type, body, how, done, arg);
}

static void world_op_remove(struct client *c, const struct client_key *key,
                            const struct api_delete_options *options, client_done_fn done,
                            void *arg)
{
    client_delete(world_client_of(c)->inner, key, options, done, arg);
}

static void world_op_free(struct client *c)
{
    struct world_client *wc = world_client_of(c);
    client_free(wc->inner);
    list_remove(&wc->node);
    free(wc);
}

static const struct client_ops world_ops = {
    .get = world_op_get,
    .create = world_op_create,
    .update = world_op_update,
    .patch = world_op_patch,
    .remove = world_op_remove,
    .watch = world_op_watch,
    .watch_stop = world_op_watch_stop,
    .free = world_op_free,
};

// --- The world -----------------------------------------------------------------------------------

// world_all_features: what a test puts in is not pruned because a gate is off.
static struct features world_all_features(void)
{
    struct features f;
    features_init(&f, FEATURES_MINOR);
    for (size_t i = 0; i < FEATURES; i++)
        f.on[i] = true;
    return f;
}

void world_start(struct world *w)
{
    *w = (struct world){0};
    struct features all = world_all_features();
    clock_fake_init(&w->clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    w->exec = exec_sim_exec(w->sim);
    w->memory = memory_new(w->exec, &all);
    list_init(&w->watches);
    list_init(&w->clients);
}

void world_end(struct world *w)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + CLOCK_NS_PER_MS);
    list_foreach(&w->clients, node)
        client_free(&list_entry(node, struct world_client, node)->client);
    memory_free(w->memory);
    exec_sim_free(w->sim);
}

struct client *world_client(struct world *w)
{
    struct world_client *c = xcalloc(1, sizeof(*c));
    c->client = (struct client){.ops = &world_ops, .exec = w->exec};
    c->inner = memory_client(w->memory);
    c->w = w;
    list_push_back(&w->clients, &c->node);
    return &c->client;
}

void world_put(struct world *w, const char *text)
{
    char *json = xstrndup(text, strlen(text));
    struct err err;
    struct json_doc doc = {0};
    struct arena tmp = {0};
    struct api_object o;
    for (char *p = json; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (json_parse(str_z(json), NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &tmp, NULL, &o, &err) < 0)
        fail_msg("%s in %s", err.msg, json);
    api_default(o.kind->type, o.value, NULL, &tmp);
    (void)memory_put(w->memory, &o);
    json_doc_done(&doc);
    arena_done(&tmp);
    free(json);
}

void world_putf(struct world *w, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    assert_true(n >= 0);
    world_put(w, text);
    free(text);
}

static const struct api_kind *kind_named(const char *kind)
{
    const struct api_kind *k = api_kind_by_name(str_z(kind));
    assert_non_null(k);
    return k;
}

static const struct typed_object *find_key(struct world *w, const char *kind, const char *key)
{
    struct str ns = {0};
    struct str name = str_z(key);
    if (str_find_char(name, '/') >= 0)
        (void)str_cut(str_z(key), '/', &ns, &name);
    return memory_find(w->memory, &(struct client_key){kind_named(kind), ns, name});
}

void world_delete(struct world *w, const char *kind, const char *key)
{
    const struct typed_object *o = find_key(w, kind, key);
    assert_non_null(o);
    (void)memory_delete(w->memory,
                        &(struct client_key){o->object.kind, o->meta->namespace, o->meta->name});
}

void world_run(struct world *w, int64_t ms)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ms * CLOCK_NS_PER_MS);
}

const struct api_pod *world_pod(struct world *w, const char *key)
{
    const struct typed_object *o = find_key(w, "Pod", key);
    return o ? o->object.value : NULL;
}

const struct api_resource_claim *world_claim(struct world *w, const char *key)
{
    const struct typed_object *o = find_key(w, "ResourceClaim", key);
    return o ? o->object.value : NULL;
}

const struct api_pod_group *world_group(struct world *w, const char *key)
{
    const struct typed_object *o = find_key(w, "PodGroup", key);
    return o ? o->object.value : NULL;
}

const struct api_persistent_volume *world_volume(struct world *w, const char *name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "/%s", name);
    const struct typed_object *o = find_key(w, "PersistentVolume", key.p);
    return o ? o->object.value : NULL;
}

const struct api_persistent_volume_claim *world_volume_claim(struct world *w, const char *key)
{
    const struct typed_object *o = find_key(w, "PersistentVolumeClaim", key);
    return o ? o->object.value : NULL;
}

bool world_watches(struct world *w, const char *kind)
{
    list_foreach(&w->watches, node)
        if (str_eqz(list_entry(node, struct world_watch, node)->kind->kind, kind))
            return true;
    return false;
}

size_t world_count(struct world *w, const char *kind)
{
    return memory_count(w->memory, kind_named(kind));
}

struct str world_node_of(struct world *w, const char *key)
{
    const struct api_pod *p = world_pod(w, key);
    if (!p)
        fail_msg("no pod %s", key);
    return p ? p->spec.node_name : STR("");
}

struct str world_condition(struct world *w, const char *key)
{
    const struct api_pod *p = world_pod(w, key);
    if (!p)
        fail_msg("no pod %s", key);
    for (size_t i = 0; p && i < p->status.conditions.n; i++)
        if (str_eqz(p->status.conditions.p[i].type, "PodScheduled"))
            return p->status.conditions.p[i].message;
    return STR("");
}

struct event_search {
    const char *name, *reason;
    const struct api_event *found;
};

static void event_matches(void *arg, const struct typed_object *o)
{
    struct event_search *s = arg;
    const struct api_event *e = o->object.value;
    if (!s->found && str_eqz(e->involved_object.name, s->name) && str_eqz(e->reason, s->reason))
        s->found = e;
}

const struct api_event *world_event(struct world *w, const char *name, const char *reason)
{
    struct event_search s = {.name = name, .reason = reason};
    memory_foreach(w->memory, api_kind_find(STR("v1"), STR("Event")), event_matches, &s);
    return s.found;
}

static bool exclusive(const struct api_device_request_allocation_result *r)
{
    return !r->has_share_id && !(r->has_admin_access && r->admin_access);
}

struct device_holders MAP(const struct typed_object *);

struct soundness {
    struct world *w;
    struct device_holders devices;
    struct arena arena;
};

static void sound_claim(void *arg, const struct typed_object *o)
{
    struct soundness *s = arg;
    const struct api_resource_claim *claim = o->object.value;
    const struct api_allocation_result *a = claim->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        bool is_new = false;
        struct str key = arena_strf(&s->arena, "%.*s/%.*s/%.*s", STR_ARG(r->driver),
                                    STR_ARG(r->pool), STR_ARG(r->device));
        if (!exclusive(r))
            continue;
        const struct typed_object **holder = map_put_new(&s->devices, key, &is_new);
        if (!is_new)
            fail_msg("device %s is held by %.*s and %.*s", key.p, STR_ARG((*holder)->meta->name),
                     STR_ARG(o->meta->name));
        *holder = o;
    }
}

static void sound_pod(void *arg, const struct typed_object *object)
{
    const struct soundness *s = arg;
    const struct api_pod *pod = object->object.value;
    for (size_t i = 0; pod->spec.node_name.n && i < pod->spec.resource_claims.n; i++) {
        const struct api_kind *claims =
            api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
        if (!pod->spec.resource_claims.p[i].has_resource_claim_name)
            continue;
        const struct typed_object *o = memory_find(
            s->w->memory, &(struct client_key){claims, pod->metadata.namespace,
                                               pod->spec.resource_claims.p[i].resource_claim_name});
        const struct api_resource_claim *claim = o ? o->object.value : NULL;
        bool reserved = false;
        for (size_t k = 0; claim && k < claim->status.reserved_for.n; k++)
            reserved |= str_eq(claim->status.reserved_for.p[k].uid, pod->metadata.uid) ||
                        (str_eqz(claim->status.reserved_for.p[k].resource, "podgroups") &&
                         str_eq(claim->status.reserved_for.p[k].name, pod_group_name(pod)));
        if (!claim || !claim->status.allocation || !reserved)
            fail_msg("pod %.*s is bound without its claim", STR_ARG(pod->metadata.name));
    }
}

void world_sound(struct world *w)
{
    struct soundness s = {.w = w};
    memory_foreach(w->memory, kind_named("ResourceClaim"), sound_claim, &s);
    memory_foreach(w->memory, kind_named("Pod"), sound_pod, &s);
    map_done(&s.devices);
    arena_done(&s.arena);
}

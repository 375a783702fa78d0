// SPDX-License-Identifier: Apache-2.0
#include "sched_world.h"

#include <stdarg.h>

#include "api/pod_claims.h"
#include "base/uuid.h"
#include "codec/json.h"

#include "base/banned.h"

struct world_client {
    struct client client; // first
    struct world *w;
    struct list_node node;
    const char *lag; // kind whose events are held back
};

struct client_watch {
    struct list_node node;
    struct world *w;
    struct world_client *client;
    const struct api_kind *kind;
    client_event_fn event;
    void *arg;
    struct list held; // events not given yet
    uint32_t posted;  // events on the exec
    bool stopped;
};

struct pending_event {
    struct list_node node;
    struct client_watch *watch;
    struct client_event event;
};

// --- Objects -------------------------------------------------------------------------------------

static struct client_object *object_make(const struct api_object *from, uint64_t revision)
{
    struct client_object *o = xcalloc(1, sizeof(*o));
    o->refs = 1;
    o->revision = revision;
    o->object.kind = from->kind;
    o->object.value = arena_alloc(&o->arena, from->kind->type->size, 16);
    api_copy(from->kind->type, from->value, o->object.value, &o->arena);
    o->meta = api_object_meta(&o->object);
    o->meta->resource_version = arena_strf(&o->arena, "%llu", (unsigned long long)revision);
    api_set_type_meta(&o->object);
    return o;
}

static void key_write(struct sbuf *out, const struct api_kind *kind, struct str ns, struct str name)
{
    sbuf_addf(out, "%.*s %.*s/%.*s", STR_ARG(kind->kind), STR_ARG(ns), STR_ARG(name));
}

static const struct client_object *find(struct world *w, const struct api_kind *kind, struct str ns,
                                        struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    key_write(&key, kind, ns, name);
    const struct client_object **o = map_get(&w->objects, sbuf_str(&key));
    return o ? *o : NULL;
}

// --- Watches -------------------------------------------------------------------------------------

static void watch_unref(struct client_watch *watch)
{
    if (watch->stopped && watch->posted == 0 && list_empty(&watch->held))
        free(watch);
}

static void deliver(void *arg)
{
    struct pending_event *p = arg;
    struct client_watch *watch = p->watch;
    if (!watch->stopped)
        watch->event(watch->arg, &p->event);
    client_object_unref(p->event.object);
    free(p);
    watch->posted--;
    watch_unref(watch);
}

static void send(struct client_watch *watch, enum client_event_type type,
                 const struct client_object *o, uint64_t revision)
{
    struct pending_event *p = xcalloc(1, sizeof(*p));
    p->watch = watch;
    p->event = (struct client_event){
        .type = type, .object = o ? client_object_ref(o) : NULL, .revision = revision};
    if (watch->client->lag && str_eqz(watch->kind->kind, watch->client->lag)) {
        list_push_back(&watch->held, &p->node);
        return;
    }
    watch->posted++;
    exec_post(watch->w->exec, deliver, p);
}

static void send_all(struct world *w, enum client_event_type type, const struct client_object *o)
{
    list_foreach(&w->watches, node) {
        struct client_watch *watch = list_entry(node, struct client_watch, node);
        if (str_eq(watch->kind->kind, o->object.kind->kind))
            send(watch, type, o, o->revision);
    }
}

void world_lag(struct client *c, const char *kind)
{
    ((struct world_client *)c)->lag = kind;
}

void world_release(struct client *c)
{
    struct world_client *wc = (struct world_client *)c;
    wc->lag = NULL;
    list_foreach(&wc->w->watches, node) {
        struct client_watch *watch = list_entry(node, struct client_watch, node);
        if (watch->client != wc)
            continue;
        for (struct list_node *n; (n = list_pop_front(&watch->held));) {
            watch->posted++;
            exec_post(wc->w->exec, deliver, list_entry(n, struct pending_event, node));
        }
    }
}

// --- Writes --------------------------------------------------------------------------------------

static void store(struct world *w, struct client_object *o)
{
    cleanup_sbuf struct sbuf key = {0};
    key_write(&key, o->object.kind, o->meta->namespace, o->meta->name);
    const struct client_object **old = map_get(&w->objects, sbuf_str(&key));
    w->writes++;
    // Marked for deletion and nothing holds it: gone.
    bool gone = o->meta->deletion_timestamp.set && o->meta->finalizers.n == 0;
    if (gone && !old) {
        client_object_unref(o);
        return;
    }
    send_all(w, gone ? CLIENT_DELETED : old ? CLIENT_MODIFIED : CLIENT_ADDED, o);
    if (old) {
        client_object_unref(*old);
        *old = o;
    } else {
        struct str mine = str_make(xstrndup(key.p, key.n), key.n);
        *map_put(&w->objects, mine) = o;
    }
    if (gone) {
        size_t at = map_index_find(&w->objects.index, sbuf_str(&key));
        struct str mine = map_key(&w->objects, at);
        client_object_unref(o);
        (void)map_del(&w->objects, mine);
        free((void *)(uintptr_t)mine.p);
    }
}

static void identify(struct world *w, struct client_object *o)
{
    char text[UUID_TEXT_LEN + 1];
    struct uuid u = uuid_random(&w->rng.rng);
    uuid_write(&u, text);
    if (!o->meta->name.n)
        o->meta->name = arena_strf(&o->arena, "%.*s%.5s", STR_ARG(o->meta->generate_name), text);
    if (!o->meta->uid.n)
        o->meta->uid = arena_str(&o->arena, str_z(text));
    if (!o->meta->creation_timestamp.set) {
        o->meta->creation_timestamp.at = moment_from_ns(clock_wall_ns(&w->clock.clock));
        o->meta->creation_timestamp.set = true;
    }
}

// --- Answers -------------------------------------------------------------------------------------

struct pending_answer {
    client_done_fn done;
    void *arg;
    int code;
    struct err err;
    const struct client_object *object;
    struct exec_timer timer;
};

static void give_answer(void *arg)
{
    struct pending_answer *p = arg;
    p->done(p->arg, &(struct client_answer){p->code, p->code < 0 ? &p->err : NULL, p->object});
    client_object_unref(p->object);
    free(p);
}

static void answer_after(struct client *c, int64_t delay_ms, int code, const char *text,
                         const struct client_object *o, client_done_fn done, void *arg)
{
    struct pending_answer *p = xcalloc(1, sizeof(*p));
    *p = (struct pending_answer){.done = done, .arg = arg, .code = code};
    if (code < 0)
        (void)err_set(&p->err, -code, "%s", text);
    p->object = o ? client_object_ref(o) : NULL;
    p->timer = (struct exec_timer){.fn = give_answer, .arg = p};
    if (delay_ms)
        exec_timer_start(c->exec, &p->timer, delay_ms * CLOCK_NS_PER_MS);
    else
        exec_post(c->exec, give_answer, p);
}

static void answer(struct client *c, int code, const char *text, const struct client_object *o,
                   client_done_fn done, void *arg)
{
    answer_after(c, 0, code, text, o, done, arg);
}

static struct world *world_of(struct client *c)
{
    return ((struct world_client *)c)->w;
}

static bool refused(struct client *c, const char *verb, const struct api_kind *kind,
                    struct str name, client_done_fn done, void *arg)
{
    struct world *w = world_of(c);
    int code = w->refuse ? w->refuse(w, verb, kind, name) : 0;
    if (code < 0)
        answer_after(c, w->refused_ms, code, "refused by the test", NULL, done, arg);
    return code < 0;
}

static void do_get(struct client *c, const struct client_key *key, client_done_fn done, void *arg)
{
    const struct client_object *o = find(world_of(c), key->kind, key->namespace, key->name);
    answer(c, o ? 0 : -ERR_NOT_FOUND, "not found", o, done, arg);
}

static void bind_pod(struct client *c, const struct api_binding *b, client_done_fn done, void *arg)
{
    struct world *w = world_of(c);
    const struct api_kind *pods = api_kind_find(STR("v1"), STR("Pod"));
    if (refused(c, "bind", pods, b->metadata.name, done, arg))
        return;
    const struct client_object *old = find(w, pods, b->metadata.namespace, b->metadata.name);
    const struct api_pod *pod = old ? old->object.value : NULL;
    if (!old || (b->metadata.uid.n && !str_eq(b->metadata.uid, old->meta->uid))) {
        answer(c, -ERR_NOT_FOUND, "no such pod", NULL, done, arg);
        return;
    }
    if (b->metadata.resource_version.n &&
        !str_eq(b->metadata.resource_version, old->meta->resource_version)) {
        answer(c, -ERR_CONFLICT, "Precondition failed: ResourceVersion", NULL, done, arg);
        return;
    }
    if (pod->spec.node_name.n) {
        answer(c, -ERR_CONFLICT, "pod is already assigned to a node", NULL, done, arg);
        return;
    }
    struct client_object *o = object_make(&old->object, ++w->revision);
    ((struct api_pod *)o->object.value)->spec.node_name = arena_str(&o->arena, b->target.name);
    store(w, o);
    answer(c, 0, NULL, NULL, done, arg);
}

static void do_create(struct client *c, const struct api_object *object,
                      const struct client_write *how, client_done_fn done, void *arg)
{
    struct world *w = world_of(c);
    if (how && str_eqz(how->subresource, "binding")) {
        bind_pod(c, object->value, done, arg);
        return;
    }
    const struct api_object_meta *m = api_object_meta(object);
    if (refused(c, "create", object->kind, m->name, done, arg))
        return;
    if (m->name.n && find(w, object->kind, m->namespace, m->name)) {
        answer(c, -ERR_ALREADY_EXISTS, "exists", NULL, done, arg);
        return;
    }
    struct client_object *o = object_make(object, ++w->revision);
    identify(w, o);
    answer(c, 0, NULL, o, done, arg);
    store(w, o);
}

// An update of the main resource leaves the status as it is, one of the status the rest.
static void keep_other_half(struct client_object *o, const struct client_object *old, bool status)
{
    if (str_eqz(o->object.kind->kind, "ResourceClaim")) {
        struct api_resource_claim *claim = o->object.value;
        struct api_resource_claim before;
        api_copy(old->object.kind->type, old->object.value, &before, &o->arena);
        if (!status) {
            claim->status = before.status;
            return;
        }
        struct str revision = claim->metadata.resource_version;
        claim->metadata = before.metadata;
        claim->metadata.resource_version = revision;
        claim->spec = before.spec;
    }
}

static void do_update(struct client *c, const struct api_object *object,
                      const struct client_write *how, client_done_fn done, void *arg)
{
    struct world *w = world_of(c);
    const struct api_object_meta *m = api_object_meta(object);
    bool status = how && str_eqz(how->subresource, "status");
    if (refused(c, status ? "status" : "update", object->kind, m->name, done, arg))
        return;
    const struct client_object *old = find(w, object->kind, m->namespace, m->name);
    if (!old || !str_eq(old->meta->uid, m->uid)) {
        answer(c, -ERR_NOT_FOUND, "not found", NULL, done, arg);
        return;
    }
    if (m->resource_version.n && !str_eq(m->resource_version, old->meta->resource_version)) {
        answer(c, -ERR_CONFLICT, "the object has been modified", NULL, done, arg);
        return;
    }
    struct client_object *o = object_make(object, ++w->revision);
    keep_other_half(o, old, status);
    if (status && str_eqz(object->kind->kind, "ResourceClaim") &&
        ((struct api_resource_claim *)o->object.value)->status.reserved_for.n > 256) {
        client_object_unref(o);
        answer(c, -ERR_INVALID, "status.reservedFor: Too many: must have at most 256 items", NULL,
               done, arg);
        return;
    }
    answer(c, 0, NULL, o, done, arg);
    store(w, o);
}

// merged: NULL when the patch is meant for another version of the object, or for another one.
static struct client_object *merged(struct world *w, const struct client_object *old,
                                    struct str body)
{
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer writer = {.out = &json};
    struct err err;
    struct json_doc was = {0};
    struct json_doc patch = {0};
    struct json_doc is = {0};
    struct arena tmp = {0};
    struct api_object read;
    assert_int_equal(api_json_write(old->object.kind->type, old->object.value, &writer, &err), 0);
    assert_int_equal(json_parse(sbuf_str(&json), NULL, &was, &err), 0);
    assert_int_equal(json_parse(body, NULL, &patch, &err), 0);
    yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
    yyjson_mut_val *v = yyjson_merge_patch(doc, (yyjson_val *)(uintptr_t)was.root,
                                           (yyjson_val *)(uintptr_t)patch.root);
    yyjson_mut_doc_set_root(doc, v);
    size_t n = 0;
    char *text = yyjson_mut_write(doc, 0, &n);
    assert_int_equal(json_parse(str_make(text, n), NULL, &is, &err), 0);
    assert_int_equal(api_decode_as(old->object.kind, &is, is.root, &tmp, NULL, &read, &err), 0);
    const struct api_object_meta *m = api_object_meta(&read);
    bool same =
        str_eq(m->uid, old->meta->uid) && str_eq(m->resource_version, old->meta->resource_version);
    struct client_object *o = same ? object_make(&read, ++w->revision) : NULL;
    arena_done(&tmp);
    json_doc_done(&was);
    json_doc_done(&patch);
    json_doc_done(&is);
    yyjson_mut_doc_free(doc);
    free(text);
    return o;
}

static void do_patch(struct client *c, const struct client_key *key, enum client_patch type,
                     struct str body, const struct client_write *how, client_done_fn done,
                     void *arg)
{
    struct world *w = world_of(c);
    (void)type;
    (void)how;
    if (refused(c, "patch", key->kind, key->name, done, arg))
        return;
    const struct client_object *old = find(w, key->kind, key->namespace, key->name);
    if (!old) {
        answer(c, -ERR_NOT_FOUND, "not found", NULL, done, arg);
        return;
    }
    struct client_object *o = merged(w, old, body);
    if (!o) {
        answer(c, -ERR_CONFLICT, "the object has been modified", NULL, done, arg);
        return;
    }
    answer(c, 0, NULL, o, done, arg);
    store(w, o);
}

static void remove_object(struct world *w, const struct client_object *old)
{
    struct client_object *o = object_make(&old->object, ++w->revision);
    o->meta->deletion_timestamp.at = moment_from_ns(clock_wall_ns(&w->clock.clock));
    o->meta->deletion_timestamp.set = true;
    store(w, o);
}

static void do_remove(struct client *c, const struct client_key *key,
                      const struct api_delete_options *options, client_done_fn done, void *arg)
{
    struct world *w = world_of(c);
    (void)options;
    const struct client_object *old = find(w, key->kind, key->namespace, key->name);
    if (old)
        remove_object(w, old);
    answer(c, old ? 0 : -ERR_NOT_FOUND, "not found", NULL, done, arg);
}

static void deny(struct client_watch *watch)
{
    static struct err err;
    struct pending_event *p = xcalloc(1, sizeof(*p));
    int code = err_set(&err, watch->w->unknown ? ERR_NOT_FOUND : ERR_FORBIDDEN, "by the test");
    p->watch = watch;
    p->event = (struct client_event){.type = CLIENT_ENDED, .code = code, .err = &err};
    watch->posted++;
    exec_post(watch->w->exec, deliver, p);
}

static struct client_watch *do_watch(struct client *c, const struct api_kind *kind,
                                     const struct client_list_options *options, uint64_t since,
                                     client_event_fn event, void *arg)
{
    struct world *w = world_of(c);
    struct client_watch *watch = xcalloc(1, sizeof(*watch));
    (void)options;
    assert_true(since == 0);
    *watch = (struct client_watch){
        .w = w, .client = (struct world_client *)c, .kind = kind, .event = event, .arg = arg};
    list_init(&watch->held);
    list_push_back(&w->watches, &watch->node);
    if (w->denied && str_eqz(kind->kind, w->denied)) {
        deny(watch);
        return watch;
    }
    map_foreach(&w->objects, i) {
        const struct client_object *o = *map_value(&w->objects, i);
        if (str_eq(o->object.kind->kind, kind->kind))
            send(watch, CLIENT_ADDED, o, o->revision);
    }
    send(watch, CLIENT_SYNCED, NULL, w->revision);
    return watch;
}

static void do_watch_stop(struct client_watch *watch)
{
    list_remove(&watch->node);
    watch->stopped = true;
    for (struct list_node *n; (n = list_pop_front(&watch->held));) {
        struct pending_event *p = list_entry(n, struct pending_event, node);
        client_object_unref(p->event.object);
        free(p);
    }
    watch_unref(watch);
}

static void do_free(struct client *c)
{
    struct world_client *wc = (struct world_client *)c;
    list_remove(&wc->node);
    free(wc);
}

static const struct client_ops ops = {
    .get = do_get,
    .create = do_create,
    .update = do_update,
    .patch = do_patch,
    .remove = do_remove,
    .watch = do_watch,
    .watch_stop = do_watch_stop,
    .free = do_free,
};

// --- The world -----------------------------------------------------------------------------------

void world_start(struct world *w)
{
    *w = (struct world){0};
    clock_fake_init(&w->clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    w->exec = exec_sim_exec(w->sim);
    list_init(&w->watches);
    list_init(&w->clients);
}

void world_end(struct world *w)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + CLOCK_NS_PER_MS);
    list_foreach(&w->clients, node)
        client_free(&list_entry(node, struct world_client, node)->client);
    map_foreach(&w->objects, i) {
        client_object_unref(*map_value(&w->objects, i));
        free((void *)(uintptr_t)map_key(&w->objects, i).p);
    }
    map_done(&w->objects);
    exec_sim_free(w->sim);
}

struct client *world_client(struct world *w)
{
    struct world_client *c = xcalloc(1, sizeof(*c));
    c->client = (struct client){.ops = &ops, .exec = w->exec};
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
    const struct api_object_meta *m = api_object_meta(&o);
    const struct client_object *old = find(w, o.kind, m->namespace, m->name);
    struct client_object *made = object_make(&o, ++w->revision);
    if (old) {
        made->meta->uid = arena_str(&made->arena, old->meta->uid);
        made->meta->creation_timestamp = old->meta->creation_timestamp;
    }
    identify(w, made);
    store(w, made);
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

static const struct client_object *find_key(struct world *w, const char *kind, const char *key)
{
    struct str ns = {0};
    struct str name = str_z(key);
    if (str_find_char(name, '/') >= 0)
        (void)str_cut(str_z(key), '/', &ns, &name);
    return find(w, kind_named(kind), ns, name);
}

void world_delete(struct world *w, const char *kind, const char *key)
{
    const struct client_object *o = find_key(w, kind, key);
    assert_non_null(o);
    remove_object(w, o);
}

void world_run(struct world *w, int64_t ms)
{
    exec_sim_run(w->sim, clock_mono_ns(&w->clock.clock) + ms * CLOCK_NS_PER_MS);
}

const struct api_pod *world_pod(struct world *w, const char *key)
{
    const struct client_object *o = find_key(w, "Pod", key);
    return o ? o->object.value : NULL;
}

const struct api_resource_claim *world_claim(struct world *w, const char *key)
{
    const struct client_object *o = find_key(w, "ResourceClaim", key);
    return o ? o->object.value : NULL;
}

const struct api_pod_group *world_group(struct world *w, const char *key)
{
    const struct client_object *o = find_key(w, "PodGroup", key);
    return o ? o->object.value : NULL;
}

const struct api_persistent_volume *world_volume(struct world *w, const char *name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "/%s", name);
    const struct client_object *o = find_key(w, "PersistentVolume", key.p);
    return o ? o->object.value : NULL;
}

const struct api_persistent_volume_claim *world_volume_claim(struct world *w, const char *key)
{
    const struct client_object *o = find_key(w, "PersistentVolumeClaim", key);
    return o ? o->object.value : NULL;
}

bool world_watches(struct world *w, const char *kind)
{
    list_foreach(&w->watches, node)
        if (str_eqz(list_entry(node, struct client_watch, node)->kind->kind, kind))
            return true;
    return false;
}

size_t world_count(struct world *w, const char *kind)
{
    size_t n = 0;
    map_foreach(&w->objects, i)
        n += str_eqz((*map_value(&w->objects, i))->object.kind->kind, kind);
    return n;
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

const struct api_event *world_event(struct world *w, const char *name, const char *reason)
{
    map_foreach(&w->objects, i) {
        const struct client_object *o = *map_value(&w->objects, i);
        const struct api_event *e = o->object.value;
        if (str_eqz(o->object.kind->kind, "Event") && str_eqz(e->involved_object.name, name) &&
            str_eqz(e->reason, reason))
            return e;
    }
    return NULL;
}

static bool exclusive(const struct api_device_request_allocation_result *r)
{
    return !r->has_share_id && !(r->has_admin_access && r->admin_access);
}

static void sound_claim(struct world_objects *devices, const struct client_object *o,
                        struct arena *arena)
{
    const struct api_resource_claim *claim = o->object.value;
    const struct api_allocation_result *a = claim->status.allocation;
    for (size_t i = 0; a && i < a->devices.results.n; i++) {
        const struct api_device_request_allocation_result *r = &a->devices.results.p[i];
        bool is_new = false;
        struct str key = arena_strf(arena, "%.*s/%.*s/%.*s", STR_ARG(r->driver), STR_ARG(r->pool),
                                    STR_ARG(r->device));
        if (!exclusive(r))
            continue;
        const struct client_object **holder = map_put_new(devices, key, &is_new);
        if (!is_new)
            fail_msg("device %s is held by %.*s and %.*s", key.p, STR_ARG((*holder)->meta->name),
                     STR_ARG(o->meta->name));
        *holder = o;
    }
}

static void sound_pod(struct world *w, const struct api_pod *pod)
{
    for (size_t i = 0; pod->spec.node_name.n && i < pod->spec.resource_claims.n; i++) {
        const struct api_kind *claims =
            api_kind_find(STR("resource.k8s.io/v1"), STR("ResourceClaim"));
        if (!pod->spec.resource_claims.p[i].has_resource_claim_name)
            continue;
        const struct client_object *o = find(w, claims, pod->metadata.namespace,
                                             pod->spec.resource_claims.p[i].resource_claim_name);
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
    struct world_objects devices = {0};
    struct arena arena = {0};
    map_foreach(&w->objects, i) {
        const struct client_object *o = *map_value(&w->objects, i);
        if (str_eqz(o->object.kind->kind, "ResourceClaim"))
            sound_claim(&devices, o, &arena);
        else if (str_eqz(o->object.kind->kind, "Pod"))
            sound_pod(w, o->object.value);
    }
    map_done(&devices);
    arena_done(&arena);
}

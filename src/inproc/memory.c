// SPDX-License-Identifier: Apache-2.0
//
// Objects in memory behind the client's interface. Each kind has a table of its own, in the order
// in which objects were put in, so that runs repeat exactly. Every write makes a new object;
// answers and events share it by reference count and are delivered by the exec, never by the call
// itself.
#include <assert.h>
#include <stdlib.h>

#include "api/patch.h"
#include "api/validate.h"
#include "base/mem.h"
#include "base/uuid.h"
#include "codec/json.h"
#include "inproc/memory_int.h"

#include "base/banned.h"

// --- Tables --------------------------------------------------------------------------------------

struct memory_table *memory_table(struct memory *m, const struct api_kind *kind)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s.%.*s", STR_ARG(kind->kind), STR_ARG(kind->group));
    struct memory_table **known = map_get(&m->tables, sbuf_str(&key));
    if (known)
        return *known;
    struct memory_table *t = xcalloc(1, sizeof(*t));
    t->kind = kind;
    list_init(&t->watches);
    *map_put(&m->tables, str_make(xstrndup(key.p, key.n), key.n)) = t;
    return t;
}

static const struct typed_object *memory_get(struct memory *m, const struct api_kind *kind,
                                             struct str namespace, struct str name)
{
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    const struct typed_object **o = map_get(&memory_table(m, kind)->objects, sbuf_str(&key));
    return o ? *o : NULL;
}

static struct typed_object *memory_make_object(struct memory *m, const struct api_object *from)
{
    struct typed_object *o = typed_object_new();
    o->revision = ++m->revision;
    o->object.kind = from->kind;
    o->object.value = arena_alloc(&o->arena, from->kind->type->size, _Alignof(max_align_t));
    api_copy(from->kind->type, from->value, o->object.value, &o->arena);
    o->meta = api_object_meta(&o->object);
    api_set_type_meta(&o->object);
    return o;
}

// memory_set_version comes last: preparing an object may take its metadata from the old one.
static void memory_set_version(struct typed_object *o)
{
    o->meta->resource_version = arena_strf(&o->arena, "%llu", (unsigned long long)o->revision);
}

// memory_generate_name counts where a server rolls dice: people read it.
static void memory_generate_name(struct memory *m, struct typed_object *o)
{
    struct str base = o->meta->generate_name;
    uint64_t i = 0;
    do
        o->meta->name = arena_strf(&o->arena, "%.*s%llu", STR_ARG(base), (unsigned long long)++i);
    while (memory_get(m, o->object.kind, o->meta->namespace, o->meta->name));
}

static void memory_identify(struct memory *m, struct typed_object *o)
{
    if (!o->meta->name.n)
        memory_generate_name(m, o);
    if (!o->meta->uid.n) {
        char text[UUID_TEXT_LEN + 1];
        struct uuid u = uuid_random(m->exec->rng);
        uuid_write(&u, text);
        o->meta->uid = arena_str(&o->arena, str_z(text));
    }
    if (!o->meta->creation_timestamp.set) {
        o->meta->creation_timestamp.at = moment_from_ns(exec_wall_ns(m->exec));
        o->meta->creation_timestamp.set = true;
    }
}

// memory_prepare leaves the status as it is in an update of the rest, and the rest in one of the
// status.
static void memory_prepare(struct memory *m, enum api_op op, struct typed_object *o,
                           const struct typed_object *old)
{
    const struct api_rules rules = {.features = &m->features,
                                    .now = {.set = true,
                                            .at = moment_from_ns(exec_wall_ns(m->exec))}};
    struct api_object before = {0};
    if (old) {
        // The new object may share memory with the old one, which goes before it.
        before.kind = old->object.kind;
        before.value = arena_alloc(&o->arena, before.kind->type->size, _Alignof(max_align_t));
        api_copy(before.kind->type, old->object.value, before.value, &o->arena);
    }
    api_prepare(op, &o->object, old ? &before : NULL, &rules, &o->arena);
}

// --- Storing -------------------------------------------------------------------------------------

static bool memory_is_over(const struct typed_object *o)
{
    const struct api_object_meta *m = o->meta;
    return m->deletion_timestamp.set && m->finalizers.n == 0 &&
           (!m->has_deletion_grace_period_seconds || m->deletion_grace_period_seconds == 0);
}

static void memory_publish(struct memory *m, struct memory_table *t,
                           const struct typed_object *before, const struct typed_object *after,
                           bool gone)
{
    list_foreach(&t->watches, node)
        memory_send_event(list_entry(node, struct client_watch, node),
                          gone     ? CLIENT_DELETED
                          : before ? CLIENT_MODIFIED
                                   : CLIENT_ADDED,
                          after, after->revision);
    if (m->hook)
        m->hook(m->hook_arg, before, gone ? NULL : after);
}

// memory_store takes the reference of o.
static void memory_store(struct memory *m, struct typed_object *o)
{
    struct memory_table *t = memory_table(m, o->object.kind);
    bool gone = memory_is_over(o);
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    size_t at = map_index_find(&t->objects.index, sbuf_str(&key));
    const struct typed_object *old = at == SIZE_MAX ? NULL : *map_value(&t->objects, at);
    m->writes++;
    memory_set_version(o);
    if (old || !gone)
        memory_publish(m, t, old, o, gone);
    if (gone && old) {
        char *mine = (char *)(uintptr_t)map_key(&t->objects, at).p;
        (void)map_del(&t->objects, sbuf_str(&key));
        free(mine);
    }
    typed_object_unref(old);
    if (gone)
        typed_object_unref(o);
    else if (old)
        *map_value(&t->objects, at) = o;
    else
        *map_put(&t->objects, str_make(xstrndup(key.p, key.n), key.n)) = o;
}

static void memory_remove(struct memory *m, const struct typed_object *old)
{
    struct typed_object *o = memory_make_object(m, &old->object);
    if (!o->meta->deletion_timestamp.set) {
        o->meta->deletion_timestamp.at = moment_from_ns(exec_wall_ns(m->exec));
        o->meta->deletion_timestamp.set = true;
    }
    o->meta->has_deletion_grace_period_seconds = false;
    memory_store(m, o);
}

// --- Answers -------------------------------------------------------------------------------------

struct memory_answer {
    struct memory_client *client;
    client_done_fn done;
    void *arg;
    int code;
    struct err err;
    const struct typed_object *object;
};

static void memory_give_answer(void *arg)
{
    struct memory_answer *a = arg;
    struct memory_client *c = a->client;
    if (c->freed && a->code == 0)
        a->code = err_set(&a->err, ECANCELED, "the client is gone");
    a->done(a->arg, &(struct client_answer){a->code, a->code < 0 ? &a->err : NULL,
                                            a->code < 0 ? NULL : a->object});
    typed_object_unref(a->object);
    free(a);
    c->busy--;
    if (c->freed && !c->busy)
        free(c);
}

static void memory_answer(struct client *c, int code, const struct err *err,
                          const struct typed_object *o, client_done_fn done, void *arg)
{
    struct memory_answer *a = xcalloc(1, sizeof(*a));
    *a = (struct memory_answer){.client = memory_client_of(c),
                                .done = done,
                                .arg = arg,
                                .code = code,
                                .object = typed_object_ref(o)};
    if (err)
        a->err = *err;
    a->client->busy++;
    exec_post(c->exec, memory_give_answer, a);
}

static void memory_refuse(struct client *c, int code, const char *what, const struct api_kind *kind,
                          struct str name, client_done_fn done, void *arg)
{
    struct err err = {0};
    int r = err_set(&err, code, "%.*s \"%.*s\" %s", STR_ARG(kind->plural), STR_ARG(name), what);
    memory_answer(c, r, &err, NULL, done, arg);
}

// memory_guarded answers a write that the guard refuses.
static bool memory_guarded(struct client *c, const struct api_object *object,
                           const struct typed_object *old, client_done_fn done, void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    struct err err = {0};
    int r = m->guard ? m->guard(m->guard_arg, object, old, &err) : 0;
    if (r < 0)
        memory_answer(c, r, &err, NULL, done, arg);
    return r < 0;
}

// --- Calls ---------------------------------------------------------------------------------------

static void memory_op_get(struct client *c, const struct client_key *key, client_done_fn done,
                          void *arg)
{
    const struct typed_object *o =
        memory_get(memory_client_of(c)->m, key->kind, key->namespace, key->name);
    if (o)
        memory_answer(c, 0, NULL, o, done, arg);
    else
        memory_refuse(c, ERR_NOT_FOUND, "not found", key->kind, key->name, done, arg);
}

static void memory_bind_pod(struct client *c, const struct api_binding *b, client_done_fn done,
                            void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    const struct api_kind *pods = api_kind_find(STR("v1"), STR("Pod"));
    const struct api_object_meta *want = &b->metadata;
    const struct typed_object *old = memory_get(m, pods, want->namespace, want->name);
    const struct api_pod *pod = old ? old->object.value : NULL;
    if (!pod || (want->uid.n && !str_eq(want->uid, old->meta->uid))) {
        memory_refuse(c, ERR_NOT_FOUND, "not found", pods, want->name, done, arg);
    } else if (want->resource_version.n &&
               !str_eq(want->resource_version, old->meta->resource_version)) {
        memory_refuse(c, ERR_CONFLICT, "has been modified", pods, want->name, done, arg);
    } else if (pod->spec.node_name.n) {
        memory_refuse(c, ERR_CONFLICT, "is assigned to a node already", pods, want->name, done,
                      arg);
    } else {
        struct typed_object *o = memory_make_object(m, &old->object);
        ((struct api_pod *)o->object.value)->spec.node_name = arena_str(&o->arena, b->target.name);
        memory_store(m, o);
        memory_answer(c, 0, NULL, NULL, done, arg);
    }
}

static void memory_op_create(struct client *c, const struct api_object *object,
                             const struct client_write *how, client_done_fn done, void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    const struct api_object_meta *meta = api_object_meta(object);
    if (str_eqz(how->subresource, "binding")) {
        memory_bind_pod(c, object->value, done, arg);
        return;
    }
    if (meta->name.n && memory_get(m, object->kind, meta->namespace, meta->name)) {
        memory_refuse(c, ERR_ALREADY_EXISTS, "already exists", object->kind, meta->name, done, arg);
        return;
    }
    if (memory_guarded(c, object, NULL, done, arg))
        return;
    struct typed_object *o = memory_make_object(m, object);
    api_default(o->object.kind->type, o->object.value, NULL, &o->arena);
    memory_prepare(m, API_CREATE, o, NULL);
    memory_identify(m, o);
    memory_set_version(o);
    memory_answer(c, 0, NULL, o, done, arg);
    memory_store(m, o);
}

// memory_replace writes an object in place of old; the caller has compared their versions.
static void memory_replace(struct client *c, const struct api_object *object,
                           const struct typed_object *old, bool status, client_done_fn done,
                           void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    if (!status && memory_guarded(c, object, old, done, arg))
        return;
    struct typed_object *o = memory_make_object(m, object);
    memory_prepare(m, status ? API_STATUS_UPDATE : API_UPDATE, o, old);
    memory_set_version(o);
    memory_answer(c, 0, NULL, o, done, arg);
    memory_store(m, o);
}

// memory_stale reports whether a write is meant for another version of an object, or for another
// object.
static bool memory_stale(const struct api_object_meta *want, const struct typed_object *old)
{
    return (want->uid.n && !str_eq(want->uid, old->meta->uid)) ||
           (want->resource_version.n &&
            !str_eq(want->resource_version, old->meta->resource_version));
}

static void memory_op_update(struct client *c, const struct api_object *object,
                             const struct client_write *how, client_done_fn done, void *arg)
{
    const struct api_object_meta *meta = api_object_meta(object);
    const struct typed_object *old =
        memory_get(memory_client_of(c)->m, object->kind, meta->namespace, meta->name);
    if (!old)
        memory_refuse(c, ERR_NOT_FOUND, "not found", object->kind, meta->name, done, arg);
    else if (memory_stale(meta, old))
        memory_refuse(c, ERR_CONFLICT, "has been modified", object->kind, meta->name, done, arg);
    else
        memory_replace(c, object, old, str_eqz(how->subresource, "status"), done, arg);
}

// memory_patch_object makes the patched object in arena.
static int memory_patch_object(const struct typed_object *old, enum client_patch type,
                               struct str body, struct arena *arena, struct api_object *ret,
                               struct err *err)
{
    cleanup_sbuf struct sbuf json = {0}, patched = {0};
    cleanup_json_doc struct json_doc was = {0}, patch = {0}, is = {0};
    const struct api_kind *kind = old->object.kind;
    struct json_writer w = {.out = &json};
    const struct json_options whole = {.max_bytes = SIZE_MAX};
    int r = api_json_write(kind->type, old->object.value, &w, err);
    if (r == 0)
        r = json_parse(sbuf_str(&json), &whole, &was, err);
    if (r == 0)
        r = json_parse(body, NULL, &patch, err);
    if (r == 0 && type == CLIENT_PATCH_JSON)
        r = api_patch_json(&was, &patch, NULL, &patched, err);
    else if (r == 0 && type == CLIENT_PATCH_MERGE)
        r = api_patch_merge(&was, &patch, NULL, &patched, err);
    else if (r == 0 && type == CLIENT_PATCH_STRATEGIC)
        r = api_patch_strategic(kind->type, &was, &patch, NULL, &patched, err);
    else if (r == 0)
        r = err_set(err, ERR_UNSUPPORTED, "objects in memory are not applied to; send a patch");
    if (r == 0)
        r = json_parse(sbuf_str(&patched), &whole, &is, err);
    return r < 0 ? r : api_decode_as(kind, &is, is.root, arena, NULL, ret, err);
}

static void memory_op_patch(struct client *c, const struct client_key *key, enum client_patch type,
                            struct str body, const struct client_write *how, client_done_fn done,
                            void *arg)
{
    const struct typed_object *old =
        memory_get(memory_client_of(c)->m, key->kind, key->namespace, key->name);
    struct api_object object = {0};
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    if (!old) {
        memory_refuse(c, ERR_NOT_FOUND, "not found", key->kind, key->name, done, arg);
        return;
    }
    int r = memory_patch_object(old, type, body, &arena, &object, &err);
    if (r < 0)
        memory_answer(c, r, &err, NULL, done, arg);
    else if (memory_stale(api_object_meta(&object), old))
        memory_refuse(c, ERR_CONFLICT, "has been modified", key->kind, key->name, done, arg);
    else
        memory_replace(c, &object, old, str_eqz(how->subresource, "status"), done, arg);
}

static void memory_op_remove(struct client *c, const struct client_key *key,
                             const struct api_delete_options *options, client_done_fn done,
                             void *arg)
{
    struct memory *m = memory_client_of(c)->m;
    const struct typed_object *old = memory_get(m, key->kind, key->namespace, key->name);
    const struct api_preconditions *p = options ? options->preconditions : NULL;
    if (!old) {
        memory_refuse(c, ERR_NOT_FOUND, "not found", key->kind, key->name, done, arg);
        return;
    }
    const struct api_object_meta want = {
        .uid = p && p->has_uid ? p->uid : (struct str){0},
        .resource_version = p && p->has_resource_version ? p->resource_version : (struct str){0}};
    if (memory_stale(&want, old)) {
        memory_refuse(c, ERR_CONFLICT, "has been modified", key->kind, key->name, done, arg);
        return;
    }
    memory_remove(m, old);
    memory_answer(c, 0, NULL, NULL, done, arg);
}

static void memory_op_free(struct client *c)
{
    struct memory_client *own = memory_client_of(c);
    own->freed = true;
    if (!own->busy)
        free(own);
}

static const struct client_ops memory_ops = {
    .get = memory_op_get,
    .create = memory_op_create,
    .update = memory_op_update,
    .patch = memory_op_patch,
    .remove = memory_op_remove,
    .watch = memory_op_watch,
    .watch_stop = memory_op_watch_stop,
    .free = memory_op_free,
};

// --- The API -------------------------------------------------------------------------------------

struct memory *memory_new(struct exec *exec, const struct features *features)
{
    struct memory *m = xcalloc(1, sizeof(*m));
    m->exec = exec;
    if (features)
        m->features = *features;
    else
        features_init(&m->features, FEATURES_MINOR);
    return m;
}

void memory_free(struct memory *m)
{
    if (!m)
        return;
    map_foreach(&m->tables, i) {
        struct memory_table *t = *map_value(&m->tables, i);
        assert(list_empty(&t->watches));
        map_foreach(&t->objects, k) {
            typed_object_unref(*map_value(&t->objects, k));
            free((void *)(uintptr_t)map_key(&t->objects, k).p);
        }
        map_done(&t->objects);
        free(t);
        free((void *)(uintptr_t)map_key(&m->tables, i).p);
    }
    map_done(&m->tables);
    free(m);
}

struct client *memory_client(struct memory *m)
{
    struct memory_client *c = xcalloc(1, sizeof(*c));
    c->client = (struct client){.ops = &memory_ops, .exec = m->exec};
    c->m = m;
    return &c->client;
}

const struct typed_object *memory_put(struct memory *m, const struct api_object *object)
{
    const struct api_object_meta *meta = api_object_meta(object);
    const struct typed_object *old = memory_get(m, object->kind, meta->namespace, meta->name);
    struct typed_object *o = memory_make_object(m, object);
    if (old && !o->meta->uid.n)
        o->meta->uid = arena_str(&o->arena, old->meta->uid);
    if (old && !o->meta->creation_timestamp.set)
        o->meta->creation_timestamp = old->meta->creation_timestamp;
    memory_identify(m, o);
    bool gone = memory_is_over(o);
    memory_store(m, o);
    return gone ? NULL : o;
}

bool memory_delete(struct memory *m, const struct client_key *key)
{
    const struct typed_object *old = memory_get(m, key->kind, key->namespace, key->name);
    if (old)
        memory_remove(m, old);
    return old != NULL;
}

const struct typed_object *memory_find(const struct memory *m, const struct client_key *key)
{
    return memory_get((struct memory *)(uintptr_t)m, key->kind, key->namespace, key->name);
}

void memory_foreach(const struct memory *m, const struct api_kind *kind,
                    void (*fn)(void *arg, const struct typed_object *o), void *arg)
{
    const struct memory_table *t = memory_table((struct memory *)(uintptr_t)m, kind);
    map_foreach(&t->objects, i)
        fn(arg, *map_value(&t->objects, i));
}

size_t memory_count(const struct memory *m, const struct api_kind *kind)
{
    return map_len(&memory_table((struct memory *)(uintptr_t)m, kind)->objects);
}

uint64_t memory_revision(const struct memory *m)
{
    return m->revision;
}

uint64_t memory_writes(const struct memory *m)
{
    return m->writes;
}

void memory_set_guard(struct memory *m, memory_guard_fn fn, void *arg)
{
    m->guard = fn;
    m->guard_arg = arg;
}

void memory_set_hook(struct memory *m, memory_hook_fn fn, void *arg)
{
    m->hook = fn;
    m->hook_arg = arg;
}

// SPDX-License-Identifier: Apache-2.0
//
// Calls: copied on the client's exec, run on the registry's, answered on the client's.
#include "inproc/local.h"

#include <assert.h>
#include <stdlib.h>

#include "api/custom.h"
#include "api/partial.h"
#include "base/mem.h"
#include "inproc/local_int.h"

#include "base/banned.h"

enum call_verb { CALL_GET, CALL_CREATE, CALL_UPDATE, CALL_PATCH, CALL_DELETE, CALL_DELETE_ALL };

// A call and everything it was given. One side at a time has it.
struct call {
    struct local *local;
    enum call_verb verb;
    struct arena arena;
    struct registry_request request;
    const struct api_kind *as; // what the answer is
    struct api_object body;
    struct api_delete_options *options;
    enum registry_patch_type patch_type;
    struct str patch;
    struct client_list_options list; // of CALL_DELETE_ALL
    struct store_select select;
    client_done_fn done;
    void *arg;
    // The answer:
    int code;
    struct err err;
    const struct object *object; // referenced
};

void local_release(struct local *l)
{
    assert(l->busy > 0);
    if (--l->busy > 0 || !l->freed)
        return;
    typed_cache_unref(l->typed);
    arena_done(&l->arena);
    free(l);
}

// --- On the client's exec, at the end ------------------------------------------------------------

static void local_call_answer(struct call *call)
{
    struct local *l = call->local;
    struct typed_object *object = NULL;
    if (l->freed) {
        call->code = err_set(&call->err, ECANCELED, "the client is gone");
    } else if (call->code == 0 && call->object) {
        object = typed_cache_get(l->typed, call->object, call->as, true, &call->err);
        if (!object)
            call->code = -call->err.code;
    }
    struct client_answer answer = {
        .code = call->code,
        .err = call->code ? &call->err : NULL,
        .object = object,
    };
    if (call->done)
        call->done(call->arg, &answer);
    typed_object_unref(object);
}

static void call_finish(void *arg)
{
    struct call *call = arg;
    struct local *l = call->local;
    local_call_answer(call);
    object_unref(call->object);
    arena_done(&call->arena);
    free(call);
    local_release(l);
}

// --- On the registry's exec ----------------------------------------------------------------------

static void call_return(struct call *call)
{
    struct local *l = call->local;
    if (l->registry_exec == l->client.exec)
        call_finish(call);
    else
        exec_post(l->client.exec, call_finish, call);
}

static void local_on_registry_answer(void *arg, const struct registry_answer *answer)
{
    struct call *call = arg;
    call->code = answer->code;
    if (answer->code < 0) {
        struct str why = answer->status ? answer->status->message : (struct str){0};
        if (why.n)
            (void)err_set(&call->err, -answer->code, "%.*s", STR_ARG(why));
        else
            (void)err_set(&call->err, -answer->code, "%s", err_reason(-answer->code));
    }
    call->object = object_ref(answer->object);
    call_return(call);
}

static void call_get(struct call *call)
{
    const struct registry_request *request = &call->request;
    struct store_key key = {registry_stored_kind(request->kind), request->namespace, request->name};
    call->object = object_ref(store_get(registry_store(call->local->registry), &key));
    if (!call->object)
        call->code = err_set(&call->err, ERR_NOT_FOUND, "%.*s%s%.*s \"%.*s\" not found",
                             STR_ARG(request->kind->plural), request->kind->group.n ? "." : "",
                             STR_ARG(request->kind->group), STR_ARG(request->name));
    call_return(call);
}

static bool call_selects(void *arg, const struct object *o)
{
    return store_select_matches(arg, o);
}

static void call_delete_all(struct call *call)
{
    struct registry_filter *filter = arena_one(&call->arena, struct registry_filter);
    *filter = (struct registry_filter){call_selects, &call->select};
    call->code = store_select_parse(call->list.label_selector, call->list.field_selector,
                                    call->request.kind, registry_stored_kind(call->request.kind),
                                    &call->arena, &call->select, &call->err);
    if (call->code < 0)
        call_return(call);
    else
        registry_delete_collection(call->local->registry, &call->request, NULL, filter,
                                   &call->arena, local_on_registry_answer, call);
}

const struct api_kind *local_kind(const struct registry *registry, const struct api_kind *kind)
{
    return api_kind_is_partial(kind)
               ? custom_find(registry_customs(registry), kind->api_version, kind->kind)
               : kind;
}

static void call_run(void *arg)
{
    struct call *call = arg;
    struct registry *r = call->local->registry;
    call->as = call->request.kind;
    call->request.kind = local_kind(r, call->as);
    if (!call->request.kind) {
        call->code =
            err_set(&call->err, ERR_NOT_FOUND, "the server could not find the requested resource");
        call_return(call);
        return;
    }
    switch (call->verb) {
    case CALL_GET:
        call_get(call);
        break;
    case CALL_CREATE:
        registry_create(r, &call->request, &call->body, &call->arena, local_on_registry_answer,
                        call);
        break;
    case CALL_UPDATE:
        registry_update(r, &call->request, &call->body, &call->arena, local_on_registry_answer,
                        call);
        break;
    case CALL_PATCH:
        registry_patch(r, &call->request, call->patch_type, call->patch, &call->arena,
                       local_on_registry_answer, call);
        break;
    case CALL_DELETE:
        registry_delete(r, &call->request, call->options, &call->arena, local_on_registry_answer,
                        call);
        break;
    case CALL_DELETE_ALL:
        call_delete_all(call);
        break;
    }
}

// --- On the client's exec, at the start ----------------------------------------------------------

static struct call *local_call_new(struct client *c, enum call_verb verb, client_done_fn done,
                                   void *arg)
{
    struct local *l = local_of(c);
    struct call *call = xcalloc(1, sizeof(*call));
    call->local = l;
    call->verb = verb;
    call->done = done;
    call->arg = arg;
    call->request.user = &l->user;
    call->request.field_manager = STR("dray"); // of who does not say
    l->busy++;
    return call;
}

static void call_key(struct call *call, const struct client_key *key)
{
    call->request.kind = api_kind_keep(&call->arena, key->kind);
    call->request.namespace = arena_str(&call->arena, key->namespace);
    call->request.name = arena_str(&call->arena, key->name);
}

static void call_how(struct call *call, const struct client_write *how)
{
    call->request.subresource = arena_str(&call->arena, how->subresource);
    if (how->field_manager.n)
        call->request.field_manager = arena_str(&call->arena, how->field_manager);
    call->request.force = how->force;
    call->request.dry_run = how->dry_run;
}

// A Binding and an Eviction are bodies of a pod's subresource: the request is about the pod.
static const struct api_kind *request_kind(const struct api_object *object,
                                           const struct client_write *how)
{
    if (str_eqz(how->subresource, "binding") || str_eqz(how->subresource, "eviction"))
        return api_kind_find(STR("v1"), STR("Pod"));
    if (str_eqz(how->subresource, "token")) // a TokenRequest is about a service account
        return api_kind_find(STR("v1"), STR("ServiceAccount"));
    return object->kind;
}

static void call_body(struct call *call, const struct api_object *object,
                      const struct client_write *how)
{
    const struct api_type *type = object->kind->type;
    call->body.kind = object->kind;
    call->body.value = arena_alloc(&call->arena, type->size, _Alignof(max_align_t));
    api_copy(type, object->value, call->body.value, &call->arena);
    const struct api_object_meta *meta = api_object_meta(&call->body);
    call->request.kind = request_kind(object, how);
    if (meta) {
        call->request.namespace = meta->namespace;
        if (call->verb == CALL_UPDATE || how->subresource.n)
            call->request.name = meta->name;
    }
    call_how(call, how);
}

static void local_call_start(struct call *call)
{
    exec_post(call->local->registry_exec, call_run, call);
}

static void local_get(struct client *c, const struct client_key *key, client_done_fn done,
                      void *arg)
{
    struct call *call = local_call_new(c, CALL_GET, done, arg);
    call_key(call, key);
    local_call_start(call);
}

static void local_create(struct client *c, const struct api_object *object,
                         const struct client_write *how, client_done_fn done, void *arg)
{
    struct call *call = local_call_new(c, CALL_CREATE, done, arg);
    call_body(call, object, how);
    local_call_start(call);
}

static void local_update(struct client *c, const struct api_object *object,
                         const struct client_write *how, client_done_fn done, void *arg)
{
    struct call *call = local_call_new(c, CALL_UPDATE, done, arg);
    call_body(call, object, how);
    local_call_start(call);
}

static enum registry_patch_type local_patch_type(enum client_patch type)
{
    switch (type) {
    case CLIENT_PATCH_JSON:
        return REGISTRY_PATCH_JSON;
    case CLIENT_PATCH_STRATEGIC:
        return REGISTRY_PATCH_STRATEGIC;
    case CLIENT_PATCH_APPLY:
        return REGISTRY_PATCH_APPLY;
    case CLIENT_PATCH_MERGE:
        break;
    }
    return REGISTRY_PATCH_MERGE;
}

static void local_patch(struct client *c, const struct client_key *key, enum client_patch type,
                        struct str body, const struct client_write *how, client_done_fn done,
                        void *arg)
{
    struct call *call = local_call_new(c, CALL_PATCH, done, arg);
    call_key(call, key);
    call_how(call, how);
    call->patch_type = local_patch_type(type);
    call->patch = arena_str(&call->arena, body);
    local_call_start(call);
}

static void local_remove(struct client *c, const struct client_key *key,
                         const struct api_delete_options *options, client_done_fn done, void *arg)
{
    struct call *call = local_call_new(c, CALL_DELETE, done, arg);
    call_key(call, key);
    if (options) {
        call->options = arena_one(&call->arena, struct api_delete_options);
        api_copy(&api_delete_options_type, options, call->options, &call->arena);
    }
    local_call_start(call);
}

static void local_remove_all(struct client *c, const struct api_kind *kind,
                             const struct client_list_options *list, client_done_fn done, void *arg)
{
    struct call *call = local_call_new(c, CALL_DELETE_ALL, done, arg);
    call->request.kind = api_kind_keep(&call->arena, kind);
    call->request.namespace = arena_str(&call->arena, list->namespace);
    call->list.label_selector = arena_str(&call->arena, list->label_selector);
    call->list.field_selector = arena_str(&call->arena, list->field_selector);
    local_call_start(call);
}

static void local_free(struct client *c)
{
    struct local *l = local_of(c);
    assert(!l->freed);
    l->freed = true;
    l->busy++;
    local_release(l);
}

static const struct client_ops local_ops = {
    .get = local_get,
    .create = local_create,
    .update = local_update,
    .patch = local_patch,
    .remove = local_remove,
    .remove_all = local_remove_all,
    .watch = local_watch,
    .watch_stop = local_watch_stop,
    .free = local_free,
};

static void copy_user(struct local *l, const struct registry_user *user)
{
    struct arena *a = &l->arena;
    struct str *groups = arena_array(a, struct str, user->groups_len);
    for (size_t i = 0; i < user->groups_len; i++)
        groups[i] = arena_str(a, user->groups[i]);
    struct registry_extra *extra = arena_array(a, struct registry_extra, user->extra_len);
    for (size_t i = 0; i < user->extra_len; i++) {
        const struct registry_extra *from = &user->extra[i];
        struct str *values = arena_array(a, struct str, from->values_len);
        for (size_t v = 0; v < from->values_len; v++)
            values[v] = arena_str(a, from->values[v]);
        extra[i] = (struct registry_extra){arena_str(a, from->key), values, from->values_len};
    }
    l->user = (struct registry_user){
        .name = arena_str(a, user->name),
        .uid = arena_str(a, user->uid),
        .groups = groups,
        .groups_len = user->groups_len,
        .extra = extra,
        .extra_len = user->extra_len,
    };
}

struct client *local_client_new(struct registry *registry, struct exec *exec,
                                const struct registry_user *user)
{
    struct local *l = xcalloc(1, sizeof(*l));
    l->client = (struct client){&local_ops, exec};
    l->registry = registry;
    l->registry_exec = store_exec(registry_store(registry));
    l->typed = typed_cache_ref(registry_typed(registry));
    copy_user(l, user);
    return &l->client;
}

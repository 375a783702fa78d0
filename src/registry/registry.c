// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.h"

#include <assert.h>
#include <stdlib.h>

#include "registry/registry_int.h"

#include "base/banned.h"

struct store *registry_store(struct registry *r)
{
    return r->store;
}

struct typed_cache *registry_typed(struct registry *r)
{
    return r->typed;
}

void registry_set_authorizer(struct registry *r, registry_authorize_fn fn, void *arg)
{
    r->authorize = fn;
    r->authorize_arg = arg;
}

// --- What every cluster has ----------------------------------------------------------------------

struct founding {
    struct registry_request request;
    struct arena arena;
    int code;
    bool returned; // registry_create has come back; whoever is last frees
    bool answered;
    struct err *err;
};

static void founding_done(void *arg, const struct registry_answer *answer)
{
    struct founding *f = arg;
    f->code = answer->code;
    f->answered = true;
    if (!f->returned) {
        if (answer->code < 0)
            (void)err_set(f->err, -answer->code, "%.*s",
                          STR_ARG(answer->status ? answer->status->message : STR("")));
        return;
    }
    arena_done(&f->arena);
    free(f);
}

int registry_found_object(struct registry *r, const struct store_key *key,
                          void (*fill)(void *value, const void *arg), const void *arg,
                          struct err *err)
{
    const struct api_kind *kind = key->kind;
    if (store_head(r->store, key))
        return 0;
    struct founding *f = xcalloc(1, sizeof(*f));
    f->request.kind = kind;
    f->request.namespace = arena_str(&f->arena, key->namespace);
    f->err = err;
    struct api_object body = {kind,
                              arena_alloc(&f->arena, kind->type->size, _Alignof(max_align_t))};
    api_object_meta(&body)->name = arena_str(&f->arena, key->name);
    if (fill)
        fill(body.value, arg);
    registry_create(r, &f->request, &body, &f->arena, founding_done, f);
    f->returned = true;
    int code = f->answered ? f->code : 0;
    if (f->answered) {
        arena_done(&f->arena);
        free(f);
    }
    return code;
}

struct system_class {
    const char *name;
    int32_t value;
    struct str description;
};

static void fill_class(void *value, const void *arg)
{
    struct api_priority_class *c = value;
    const struct system_class *s = arg;
    c->value = s->value;
    c->description = s->description;
}

static int registry_found_cluster(struct registry *r, struct err *err)
{
    static const char *const namespaces[] = {"default", "kube-system", "kube-public",
                                             "kube-node-lease"};
    static const struct system_class classes[] = {
        {"system-node-critical", 2000001000,
         STR_INIT("Used for system critical pods that must not be moved from their current node.")},
        {"system-cluster-critical", 2000000000,
         STR_INIT("Used for system critical pods that must run in the cluster, but can be moved to "
                  "another node if necessary.")},
    };
    int code = 0;
    for (size_t i = 0; code == 0 && i < array_len(namespaces); i++)
        code = registry_found_object(
            r, &(struct store_key){r->namespace_kind, STR(""), str_z(namespaces[i])}, NULL, NULL,
            err);
    for (size_t i = 0; code == 0 && i < array_len(classes); i++)
        code = registry_found_object(
            r, &(struct store_key){r->priority_kind, STR(""), str_z(classes[i].name)}, fill_class,
            &classes[i], err);
    return code;
}

// Namespaces whose end was interrupted.
static void resume_sweeps(struct registry *r)
{
    struct store_walk walk = {.kind = r->namespace_kind};
    if (store_walk_start(r->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(r->store, &walk));)
        if (namespace_terminating(o))
            namespace_due(r, o->name, true);
    store_walk_done(&walk);
}

int registry_new(const struct registry_options *options, struct registry **ret, struct err *err)
{
    struct registry *r = xcalloc(1, sizeof(*r));
    r->store = options->store;
    r->exec = options->exec;
    r->features = options->features;
    r->namespace_kind = api_kind_find(STR("v1"), STR("Namespace"));
    r->pod_kind = api_kind_find(STR("v1"), STR("Pod"));
    r->runtime_kind = api_kind_find(STR("node.k8s.io/v1"), STR("RuntimeClass"));
    r->priority_kind = api_kind_find(STR("scheduling.k8s.io/v1"), STR("PriorityClass"));
    r->storage_kind = api_kind_find(STR("storage.k8s.io/v1"), STR("StorageClass"));
    r->crd_kind = api_kind_find(STR("apiextensions.k8s.io/v1"), STR("CustomResourceDefinition"));
    r->customs = store_customs(options->store);
    r->budget_kind = api_kind_find(STR("policy/v1"), STR("PodDisruptionBudget"));
    r->quota_kind = api_kind_find(STR("v1"), STR("ResourceQuota"));
    r->account_kind = api_kind_find(STR("v1"), STR("ServiceAccount"));
    r->event_kind = api_kind_find(STR("v1"), STR("Event"));
    r->limits_kind = api_kind_find(STR("v1"), STR("LimitRange"));
    r->sweep_timer = (struct exec_timer){.fn = namespace_sweep_deleted, .arg = r};
    r->events_timer = (struct exec_timer){.fn = events_look, .arg = r};
    r->typed = typed_cache_new();
    list_init(&r->waiting);
    list_init(&r->sweeps);
    cel_memo_init(&r->cel, options->cel);
    int code = admit_switch_off(options->disable_admission, &r->admission_off, err);
    if (code == 0)
        code = registry_found_cluster(r, err);
    if (code == 0)
        code = definitions_start(r, err);
    if (code == 0)
        code = policies_start(r, err);
    if (code < 0) {
        registry_free(r);
        return code;
    }
    resume_sweeps(r);
    events_due(r);
    *ret = r;
    return 0;
}

void registry_stop(struct registry *r)
{
    if (!r)
        return;
    definitions_stop(r);
    policies_stop(r);
    events_stop(r);
}

void registry_free(struct registry *r)
{
    if (!r)
        return;
    assert(list_empty(&r->waiting));
    namespace_sweep_done(r);
    registry_stop(r);
    cel_memo_done(&r->cel);
    free((void *)(uintptr_t)r->default_priority.class_name.p);
    sbuf_done(&r->scratch);
    sbuf_done(&r->spliced);
    typed_cache_unref(r->typed);
    fields_done(r);
    free(r);
}

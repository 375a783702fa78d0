// SPDX-License-Identifier: Apache-2.0
//
// Start and stop of a registry, and the objects that every cluster has from the beginning:
// namespaces and priority classes.
#include "registry/registry.h"

#include <assert.h>
#include <stdlib.h>

#include "registry/stage_int.h"

#include "base/banned.h"

struct store *registry_store(struct registry *reg)
{
    return reg->store;
}

struct typed_cache *registry_typed(struct registry *reg)
{
    return reg->typed;
}

void registry_set_authorizer(struct registry *reg, registry_authorize_fn fn, void *arg)
{
    reg->hooks.authorize = fn;
    reg->hooks.authorize_arg = arg;
}

// --- What every cluster has ----------------------------------------------------------------------

struct founding {
    struct registry_request request;
    struct arena arena;
    int code;
    bool returned; // registry_create has come back; the last of both frees
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

int registry_found_object(struct registry *reg, const struct store_key *key,
                          void (*fill)(void *value, const void *arg), const void *arg,
                          struct err *err)
{
    const struct api_kind *kind = key->kind;
    if (store_head(reg->store, key))
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
    registry_create(reg, &f->request, &body, &f->arena, founding_done, f);
    f->returned = true;
    int r = f->answered ? f->code : 0;
    if (f->answered) {
        arena_done(&f->arena);
        free(f);
    }
    return r;
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

static int registry_found_cluster(struct registry *reg, struct err *err)
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
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(namespaces); i++)
        r = registry_found_object(
            reg, &(struct store_key){reg->kinds.namespace, STR(""), str_z(namespaces[i])}, NULL,
            NULL, err);
    for (size_t i = 0; r == 0 && i < array_len(classes); i++)
        r = registry_found_object(
            reg, &(struct store_key){reg->kinds.priority, STR(""), str_z(classes[i].name)},
            fill_class, &classes[i], err);
    return r;
}

// Namespaces whose end was interrupted.
static void resume_sweeps(struct registry *reg)
{
    struct store_walk walk = {.kind = reg->kinds.namespace};
    if (store_walk_start(reg->store, &walk, NULL) < 0)
        return;
    for (const struct object *o; (o = store_walk_next(reg->store, &walk));)
        if (namespace_terminating(o))
            namespace_due(reg, o->name, true);
    store_walk_done(&walk);
}

int registry_new(const struct registry_options *options, struct registry **ret, struct err *err)
{
    struct registry *reg = xcalloc(1, sizeof(*reg));
    reg->store = options->store;
    reg->exec = options->exec;
    reg->features = options->features;
    reg->kinds.namespace = api_kind_find(STR("v1"), STR("Namespace"));
    reg->kinds.pod = api_kind_find(STR("v1"), STR("Pod"));
    reg->kinds.runtime = api_kind_find(STR("node.k8s.io/v1"), STR("RuntimeClass"));
    reg->kinds.priority = api_kind_find(STR("scheduling.k8s.io/v1"), STR("PriorityClass"));
    reg->kinds.storage = api_kind_find(STR("storage.k8s.io/v1"), STR("StorageClass"));
    reg->kinds.definition =
        api_kind_find(STR("apiextensions.k8s.io/v1"), STR("CustomResourceDefinition"));
    reg->customs = store_customs(options->store);
    reg->kinds.budget = api_kind_find(STR("policy/v1"), STR("PodDisruptionBudget"));
    reg->kinds.quota = api_kind_find(STR("v1"), STR("ResourceQuota"));
    reg->kinds.account = api_kind_find(STR("v1"), STR("ServiceAccount"));
    reg->kinds.event = api_kind_find(STR("v1"), STR("Event"));
    reg->kinds.limits = api_kind_find(STR("v1"), STR("LimitRange"));
    reg->sweep.timer = (struct exec_timer){.fn = namespace_sweep_deleted, .arg = reg};
    reg->events.timer = (struct exec_timer){.fn = events_look, .arg = reg};
    reg->typed = typed_cache_new();
    list_init(&reg->writes.waiting);
    list_init(&reg->sweep.namespaces);
    list_init(&reg->apart.jobs);
    reg->apart.offload = options->offload;
    cel_memo_init(&reg->cel, options->cel);
    int r = admit_switch_off(options->disable_admission, &reg->admission_off, err);
    if (r == 0)
        r = podsec_start(reg, &options->podsec, err);
    if (r == 0)
        r = registry_found_cluster(reg, err);
    if (r == 0)
        r = definitions_start(reg, err);
    if (r == 0)
        r = policies_start(reg, err);
    if (r < 0) {
        registry_free(reg);
        return r;
    }
    resume_sweeps(reg);
    events_due(reg);
    *ret = reg;
    return 0;
}

void registry_stop(struct registry *reg)
{
    if (!reg)
        return;
    apart_stop(reg);
    definitions_stop(reg);
    policies_stop(reg);
    podsec_stop(reg);
    events_stop(reg);
}

void registry_free(struct registry *reg)
{
    if (!reg)
        return;
    assert(list_empty(&reg->writes.waiting));
    namespace_sweep_done(reg);
    registry_stop(reg);
    cel_memo_done(&reg->cel);
    free((void *)(uintptr_t)reg->default_priority.class_name.p);
    sbuf_done(&reg->json.text);
    sbuf_done(&reg->json.spliced);
    typed_cache_unref(reg->typed);
    fields_done(reg);
    podsec_done(reg);
    free(reg);
}

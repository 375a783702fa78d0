// SPDX-License-Identifier: Apache-2.0
//
// The end of namespaces. A deletion marks one as terminating; from then on it takes no new content.
// When that is visible, everything in it is deleted; when nothing is left, the namespace loses its
// finalizer `kubernetes` and is gone. Other controllers may do the same work: nothing here minds.
#include <stdlib.h>

#include "registry/stage_int.h"

#include "base/banned.h"

// How soon to try again after a failure.
#define SWEEP_RETRY_NS CLOCK_NS_PER_SEC

bool namespace_terminating(const struct object *ns)
{
    struct str phase;
    return object_field(ns, STR("status.phase"), &phase) && str_eqz(phase, "Terminating");
}

// --- Deletion ------------------------------------------------------------------------------------

static int check_namespace_preconditions(struct op *op, const struct object *old,
                                         const struct api_preconditions *p)
{
    uint64_t version = 0;
    const struct status_subject s = op_subject(op, old->name);
    if (p && p->has_uid && !str_eq(p->uid, old->uid))
        return fail_conflict(op, s,
                             "Precondition failed: UID in precondition: %.*s, UID in object meta: "
                             "%.*s",
                             STR_ARG(p->uid), STR_ARG(old->uid));
    if (p && p->has_resource_version &&
        (str_to_u64(p->resource_version, &version) < 0 || version != old->revision))
        return fail_conflict(op, s,
                             "Precondition failed: ResourceVersion in precondition: %.*s, "
                             "ResourceVersion in object meta: %llu",
                             STR_ARG(p->resource_version), (unsigned long long)old->revision);
    return 0;
}

static bool namespace_wants_finalizer(const struct api_delete_options *o, bool orphans, bool has_it)
{
    if (o->has_orphan_dependents)
        return o->orphan_dependents == orphans;
    if (o->has_propagation_policy)
        return str_eq(o->propagation_policy, orphans ? STR("Orphan") : STR("Foreground"));
    return has_it;
}

static void set_namespace_finalizers(struct op *op, struct api_object_meta *meta,
                                     const struct api_delete_options *o)
{
    struct str orphan = STR("orphan"), foreground = STR("foregroundDeletion");
    struct str *list = arena_array(op->arena, struct str, meta->finalizers.n + 2);
    bool has_orphan = false, has_foreground = false;
    size_t n = 0;
    for (size_t i = 0; i < meta->finalizers.n; i++) {
        struct str f = meta->finalizers.p[i];
        has_orphan |= str_eq(f, orphan);
        has_foreground |= str_eq(f, foreground);
        if (!str_eq(f, orphan) && !str_eq(f, foreground))
            list[n++] = f;
    }
    if (namespace_wants_finalizer(o, true, has_orphan))
        list[n++] = orphan;
    if (namespace_wants_finalizer(o, false, has_foreground))
        list[n++] = foreground;
    meta->finalizers = (struct api_str_array){n ? list : NULL, n};
}

int namespace_delete(struct op *op, const struct object *old, const struct api_object *decoded,
                     const struct api_delete_options *options)
{
    struct api_namespace *ns = decoded->value;
    int r = check_namespace_preconditions(op, old, options->preconditions);
    if (r == 0)
        r = admit_deletion(op, old->name, decoded);
    if (r < 0)
        return r;
    if (!ns->metadata.deletion_timestamp.set) {
        ns->metadata.deletion_timestamp = op->now;
        ns->status.phase = STR("Terminating");
        set_namespace_finalizers(op, &ns->metadata, options);
        return op_write_change(op, decoded, old);
    }
    if (ns->spec.finalizers.n) {
        op_wait(op, old);
        op_answer_with(op, old);
        return 0;
    }
    return delete_decoded(op, old, decoded, options);
}

// --- Sweeping ------------------------------------------------------------------------------------

struct due {
    struct list_node node;
    struct str name; // behind this struct
    bool all;        // delete the content; else only check whether there is some
};

void namespace_due(struct registry *reg, struct str name, bool all)
{
    list_foreach(&reg->sweep.namespaces, node) {
        struct due *d = list_entry(node, struct due, node);
        if (!str_eq(d->name, name))
            continue;
        d->all |= all;
        return;
    }
    struct due *d = xcalloc(1, sizeof(*d) + name.n + 1);
    memcpy(d + 1, name.p, name.n);
    d->name = str_make((const char *)(d + 1), name.n);
    d->all = all;
    list_push_back(&reg->sweep.namespaces, &d->node);
    if (!exec_timer_armed(&reg->sweep.timer))
        exec_timer_start(reg->exec, &reg->sweep.timer, 0);
}

void namespace_sweep_done(struct registry *reg)
{
    exec_timer_stop(reg->exec, &reg->sweep.timer);
    for (struct list_node *node; (node = list_pop_front(&reg->sweep.namespaces));)
        free(list_entry(node, struct due, node));
}

// A request that the registry makes itself.
struct errand {
    struct registry *reg;
    struct registry_request request;
    struct arena arena;
    struct str namespace;
};

static void namespace_on_request_done(void *arg, const struct registry_answer *answer)
{
    struct errand *e = arg;
    if (answer->code < 0 && answer->code != -ERR_NOT_FOUND && answer->code != -ERR_CONFLICT) {
        namespace_due(e->reg, e->namespace, true);
        exec_timer_start(e->reg->exec, &e->reg->sweep.timer, SWEEP_RETRY_NS);
    }
    arena_done(&e->arena);
    free(e);
}

static struct errand *namespace_new_request(struct registry *reg, const struct api_kind *kind,
                                            struct str namespace, struct str name)
{
    struct errand *e = xcalloc(1, sizeof(*e));
    e->reg = reg;
    e->request.kind = kind;
    e->request.namespace = kind->namespaced ? arena_str(&e->arena, namespace) : STR("");
    e->request.name = arena_str(&e->arena, name);
    e->namespace = arena_str(&e->arena, namespace);
    return e;
}

static bool holds_content(const struct api_kind *kind)
{
    return kind->namespaced && kind->plural.n && kind->type->root && !kind->item &&
           kind == registry_stored_kind(kind) && api_type_field(kind->type, STR("metadata"));
}

// The kinds that users added count, too, whether they are served or not.
static const struct api_kind *kind_at(struct registry *reg, size_t i)
{
    return i < api_kinds_len ? &api_kinds[i] : custom_hub_at(reg->customs, i - api_kinds_len);
}

static bool namespace_is_empty(struct registry *reg, struct str name)
{
    const struct api_kind *k;
    for (size_t i = 0; (k = kind_at(reg, i)); i++)
        if (holds_content(k) && store_count(reg->store, k, name))
            return false;
    return true;
}

// Deletes what is in a namespace. Objects that are on their way already take it for a repetition.
static void delete_all(struct registry *reg, struct str name)
{
    static const struct api_delete_options background = {
        .has_propagation_policy = true, .propagation_policy = STR_INIT("Background")};
    const struct api_kind *k;
    for (size_t i = 0; (k = kind_at(reg, i)); i++) {
        if (!holds_content(k) || store_count(reg->store, k, name) == 0)
            continue;
        struct errand *e = namespace_new_request(reg, k, name, STR(""));
        registry_delete_collection(reg, &e->request, &background, NULL, &e->arena,
                                   namespace_on_request_done, e);
    }
}

// Takes away the registry's own finalizer, which is all that holds an empty namespace.
static void namespace_remove_finalizer(struct registry *reg, const struct object *ns)
{
    struct errand *e = namespace_new_request(reg, reg->kinds.namespace, ns->name, ns->name);
    e->request.subresource = STR("finalize");
    struct op *op = op_new(reg, &e->request, VERB_UPDATE, &e->arena, namespace_on_request_done, e);
    struct api_object object = {0};
    int r = op_decode(op, ns, &object);
    if (r == 0) {
        struct api_str_array *list = &((struct api_namespace *)object.value)->spec.finalizers;
        size_t n = 0;
        for (size_t i = 0; i < list->n; i++)
            if (!str_eqz(list->p[i], "kubernetes"))
                list->p[n++] = list->p[i];
        list->n = n;
        r = update_object(op, &object, ns);
    }
    op_finish(op, r);
}

void namespace_sweep_deleted(void *arg)
{
    struct registry *reg = arg;
    struct list_node *node = list_pop_front(&reg->sweep.namespaces);
    if (!node)
        return;
    struct due *d = list_entry(node, struct due, node);
    const struct store_key key = {reg->kinds.namespace, STR(""), d->name};
    const struct object *ns = object_ref(store_head(reg->store, &key));
    if (!list_empty(&reg->sweep.namespaces))
        exec_timer_start(reg->exec, &reg->sweep.timer, 0);
    if (ns && namespace_terminating(ns)) {
        if (d->all)
            delete_all(reg, d->name);
        if (namespace_is_empty(reg, d->name))
            namespace_remove_finalizer(reg, ns);
    }
    object_unref(ns);
    free(d);
}

// SPDX-License-Identifier: Apache-2.0
//
// Deletion: at once, after a time, or when the last finalizer is gone.
#include <assert.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// Objects of a collection that are deleted in one go, before others have their turn.
#define COLLECTION_STEP 128

// --- Options -------------------------------------------------------------------------------------

static void delete_check_dry_run(struct op *op, struct causes *causes,
                                 const struct api_str_array *list)
{
    bool known = true;
    cleanup_sbuf struct sbuf shown = {0};
    for (size_t i = 0; i < list->n; i++) {
        known &= str_eqz(list->p[i], "All");
        sbuf_addc(&shown, i ? ',' : '[');
        sbuf_add_quoted(&shown, list->p[i]);
    }
    if (known)
        return;
    sbuf_addc(&shown, ']');
    struct path at = path_root(STR("dryRun"));
    static const struct str all[] = {STR_INIT("All")};
    size_t n = cause_not_supported(causes, &at, STR(""), all, 1);
    causes->p[n].message = arena_strf(
        op->arena, "Unsupported value: %.*s: supported values: \"All\"", STR_ARG(sbuf_str(&shown)));
}

static int delete_check_options(struct op *op, const struct api_delete_options *o)
{
    static const struct str policies[] = {STR_INIT("Foreground"), STR_INIT("Background"),
                                          STR_INIT("Orphan"), STR_INIT("nil")};
    struct causes causes = {.arena = op->arena};
    struct path at = path_root(STR("propagationPolicy"));
    bool known = !o->has_propagation_policy;
    if (o->has_orphan_dependents && o->has_propagation_policy)
        cause_invalid(&causes, &at, o->propagation_policy,
                      STR("orphanDependents and deletionPropagation cannot be both set"));
    for (size_t i = 0; i < 3; i++)
        known |= str_eq(o->propagation_policy, policies[i]);
    if (!known)
        cause_not_supported(&causes, &at, o->propagation_policy, policies, array_len(policies));
    delete_check_dry_run(op, &causes, &o->dry_run);
    if (causes.n == 0)
        return 0;
    return fail_invalid(
        op, (struct status_subject){STR("meta.k8s.io"), STR("DeleteOptions"), STR("")}, &causes);
}

int delete_check_preconditions(struct op *op, const struct object *old,
                               const struct api_preconditions *p)
{
    const struct status_subject s = {old->kind->group, old->kind->kind, old->name};
    if (p && p->has_uid && !str_eq(p->uid, old->uid))
        return fail_conflict(op, s,
                             "the UID in the precondition (%.*s) does not match the UID in record "
                             "(%.*s). The object might have been deleted and then recreated",
                             STR_ARG(p->uid), STR_ARG(old->uid));
    uint64_t version = 0;
    if (p && p->has_resource_version &&
        (str_to_u64(p->resource_version, &version) < 0 || version != old->revision))
        return fail_conflict(
            op, s,
            "the ResourceVersion in the precondition (%.*s) does not match the "
            "ResourceVersion in record (%llu). The object might have been modified",
            STR_ARG(p->resource_version), (unsigned long long)old->revision);
    return 0;
}

// --- Finalizers for dependents -------------------------------------------------------------------

#define ORPHAN     STR("orphan")
#define FOREGROUND STR("foregroundDeletion")

// What is to become of dependents.
enum dependents { GO_LATER, ARE_ORPHANED, GO_FIRST };

static enum dependents delete_choose_dependents(const struct op *op,
                                                const struct api_object_meta *meta,
                                                const struct api_delete_options *o)
{
    if (op->rules->flags & KIND_NO_COLLECTION)
        return GO_LATER;
    if (o->has_orphan_dependents)
        return o->orphan_dependents ? ARE_ORPHANED : GO_LATER;
    if (o->has_propagation_policy)
        return str_eq(o->propagation_policy, STR("Orphan"))       ? ARE_ORPHANED
               : str_eq(o->propagation_policy, STR("Foreground")) ? GO_FIRST
                                                                  : GO_LATER;
    for (size_t i = 0; i < meta->finalizers.n; i++) {
        if (str_eq(meta->finalizers.p[i], ORPHAN))
            return ARE_ORPHANED;
        if (str_eq(meta->finalizers.p[i], FOREGROUND))
            return GO_FIRST;
    }
    return op->rules->flags & KIND_ORPHANS ? ARE_ORPHANED : GO_LATER;
}

static void set_finalizers(struct op *op, struct api_object_meta *meta,
                           const struct api_delete_options *o)
{
    enum dependents what = delete_choose_dependents(op, meta, o);
    struct api_str_array *have = &meta->finalizers;
    if (api_str_listed(have, ORPHAN) == (what == ARE_ORPHANED) &&
        api_str_listed(have, FOREGROUND) == (what == GO_FIRST))
        return;
    struct str *list = arena_array(op->arena, struct str, have->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < have->n; i++)
        if (!str_eq(have->p[i], ORPHAN) && !str_eq(have->p[i], FOREGROUND))
            list[n++] = have->p[i];
    if (what != GO_LATER)
        list[n++] = what == ARE_ORPHANED ? ORPHAN : FOREGROUND;
    *have = (struct api_str_array){n ? list : NULL, n};
}

// --- Time to go ----------------------------------------------------------------------------------

static void set_grace(struct api_object_meta *meta, struct moment at, int64_t seconds)
{
    meta->deletion_timestamp = (struct api_time){.at = at, .set = true};
    meta->has_deletion_grace_period_seconds = true;
    meta->deletion_grace_period_seconds = seconds;
}

static void delete_mark_object(struct op *op, struct api_object_meta *meta)
{
    struct api_time *at = &meta->deletion_timestamp;
    if (!at->set && meta->generation > 0)
        meta->generation++;
    if (!at->set || moment_cmp(at->at, op->now.at) > 0)
        *at = op->now;
    set_grace(meta, at->at, 0);
}

// How a graceful deletion stands.
enum grace { NO_GRACE, GRACE_BEGINS, GRACE_GOES_ON };

// Once the grace period runs it can only be shortened.
static enum grace delete_shorten_grace(struct op *op, struct api_object_meta *meta,
                                       const struct api_delete_options *o)
{
    int64_t have = meta->deletion_grace_period_seconds, want = o->grace_period_seconds;
    if (!meta->has_deletion_grace_period_seconds || have == 0)
        return NO_GRACE;
    if (!o->has_grace_period_seconds || want >= have)
        return GRACE_GOES_ON;
    struct moment at = {meta->deletion_timestamp.at.sec - have + want, 0};
    if (moment_cmp(at, op->now.at) < 0) {
        at = op->now.at;
        want = want ? 1 : 0;
    }
    set_grace(meta, at, want);
    return GRACE_BEGINS;
}

static enum grace pod_grace(struct op *op, struct api_pod *pod, const struct api_delete_options *o)
{
    struct api_object_meta *meta = &pod->metadata;
    if (meta->deletion_timestamp.set)
        return delete_shorten_grace(op, meta, o);
    int64_t period = 0;
    if (o->has_grace_period_seconds)
        period = o->grace_period_seconds;
    else if (pod->spec.has_termination_grace_period_seconds)
        period = pod->spec.termination_grace_period_seconds;
    if (pod->spec.node_name.n == 0 || pod_is_terminal(pod))
        period = 0;
    if (period < 0)
        period = 1;
    // Beyond any calendar it would only overflow.
    if (period > INT32_MAX)
        period = INT32_MAX;
    set_grace(meta, (struct moment){op->now.at.sec + period, 0}, period);
    if (meta->generation > 0)
        meta->generation++;
    return GRACE_BEGINS;
}

// --- One object ----------------------------------------------------------------------------------

static void delete_answer_deleted(struct op *op, const struct object *o)
{
    if (op->rules->flags & KIND_RETURNS_DELETED)
        return;
    const struct status_subject s = op_subject(op, o->name);
    op->status = api_status_success(op->arena, &s, o->uid);
}

static int remove_now(struct op *op, const struct object *old)
{
    int r = op_write_removal(op, old, true);
    if (r == 0)
        delete_answer_deleted(op, op->object);
    return r;
}

// A graceful deletion whose time is up at once: marked first, for watchers, then gone.
static int mark_and_remove(struct op *op, const struct api_object *object, const struct object *old)
{
    int r = op_write_change(op, object, old);
    if (r < 0)
        return r;
    op->deleted = true;
    if (op->dry_run)
        return 0;
    const struct object *marked = object_ref(op->object);
    r = remove_now(op, marked);
    object_unref(marked);
    return r;
}

int delete_decoded(struct op *op, const struct object *old, const struct api_object *object,
                   const struct api_delete_options *o)
{
    struct api_object_meta *meta = api_object_meta(object);
    enum grace grace = NO_GRACE;
    if (op->rules->flags & KIND_GRACEFUL)
        grace = pod_grace(op, object->value, o);
    if (grace == GRACE_GOES_ON) {
        op_wait(op, old);
        op_answer_with(op, old);
        return 0;
    }
    set_finalizers(op, meta, o);
    if (grace == NO_GRACE && meta->finalizers.n == 0)
        return remove_now(op, old);
    if (grace == NO_GRACE)
        delete_mark_object(op, meta);
    if (meta->finalizers.n || meta->deletion_grace_period_seconds > 0)
        return op_write_change(op, object, old);
    return mark_and_remove(op, object, old);
}

int registry_delete_object(struct op *op, const struct object *old,
                           const struct api_delete_options *options)
{
    struct api_delete_options o = options ? *options : (struct api_delete_options){0};
    struct api_object object = {0};
    int r = delete_check_options(op, &o);
    if (o.dry_run.n)
        op->dry_run = true;
    if (o.has_grace_period_seconds && o.grace_period_seconds < 0)
        o.grace_period_seconds = 1;
    if (r == 0)
        r = op_decode(op, old, &object);
    if (r == 0 && old->kind == op->reg->kinds.namespace)
        return namespace_delete(op, old, &object, &o);
    bool definition = old->kind == op->reg->kinds.definition;
    if (r == 0)
        r = delete_check_preconditions(op, old, o.preconditions);
    if (r == 0)
        r = admit_deletion(op, old->name, &object);
    if (r == 0)
        r = policies_admit(op, NULL, &object);
    if (r == 0 && definition)
        return definitions_delete(op, old, &object, &o);
    return r < 0 ? r : delete_decoded(op, old, &object, &o);
}

void registry_delete(struct registry *reg, const struct registry_request *request,
                     const struct api_delete_options *options, struct arena *arena,
                     registry_done_fn done, void *arg)
{
    struct op *op = op_new(reg, request, VERB_DELETE, arena, done, arg);
    const struct object *old = op_head(op, request->name);
    int r = 0;
    if (request->subresource.n)
        r = fail_unsupported(op, "%.*s/%.*s cannot be deleted", STR_ARG(request->kind->plural),
                             STR_ARG(request->subresource));
    else if (!old)
        r = fail_not_found(op, op_subject(op, request->name));
    if (r == 0) {
        const struct object *held = object_ref(old);
        r = registry_delete_object(op, held, options);
        object_unref(held);
    }
    op_finish(op, r);
}

// --- Collections ---------------------------------------------------------------------------------

struct found VEC(const struct object *);

struct collection {
    struct op *op;
    const struct api_delete_options *options;
    size_t next;
};

static int delete_collection_item(struct collection *c, const struct object *listed)
{
    struct op *op = c->op;
    const struct store_key key = {listed->kind, listed->namespace, listed->name};
    const struct object *head = store_head(op->reg->store, &key);
    if (!head)
        return 0;
    head = object_ref(head);
    int r = registry_delete_object(op, head, c->options);
    object_unref(head);
    if (r == 0)
        op->status = NULL;
    return r;
}

static void delete_collection_batch(void *arg)
{
    struct collection *c = arg;
    struct op *op = c->op;
    int r = 0;
    for (size_t i = 0; r == 0 && i < COLLECTION_STEP && c->next < op->collection.n; i++)
        r = delete_collection_item(c, op->collection.p[c->next++]);
    if (r == 0 && c->next < op->collection.n) {
        exec_post(op->reg->exec, delete_collection_batch, c);
        return;
    }
    const struct object *last = op->object;
    op->object = NULL;
    object_unref(last);
    op->deleted = r == 0;
    op_finish(op, r);
}

static int delete_list_collection(struct op *op, const struct registry_filter *filter)
{
    struct err err = {0};
    struct found found = {0};
    struct store_walk walk = {.kind = op->stored,
                              .one_namespace = op->request->namespace.n > 0,
                              .namespace = op->request->namespace};
    if (store_walk_start(op->reg->store, &walk, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    for (const struct object *o; (o = store_walk_next(op->reg->store, &walk));)
        if (!filter || !filter->match || filter->match(filter->arg, o))
            vec_push(&found, object_ref(o));
    store_walk_done(&walk);
    op->collection.p = found.p;
    op->collection.n = found.n;
    return 0;
}

void registry_delete_collection(struct registry *reg, const struct registry_request *request,
                                const struct api_delete_options *options,
                                const struct registry_filter *filter, struct arena *arena,
                                registry_done_fn done, void *arg)
{
    struct op *op = op_new(reg, request, VERB_DELETE, arena, done, arg);
    struct collection *c = arena_one(arena, struct collection);
    *c = (struct collection){.op = op, .options = options};
    int r = delete_list_collection(op, filter);
    if (r < 0)
        op_finish(op, r);
    else
        delete_collection_batch(c);
}

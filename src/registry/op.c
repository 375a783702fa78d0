// SPDX-License-Identifier: Apache-2.0
//
// The life of a request: from its start to the answer, which waits until everything the request
// wrote, or relied on, is visible.
#include <assert.h>
#include <stdlib.h>

#include "registry/registry_int.h"

#include "base/banned.h"

static bool ask_for_user(void *ctx, const struct api_authz_question *question, struct arena *arena,
                         struct str *ret_reason)
{
    const struct op *op = ctx;
    return op->r->authorize(op->r->authorize_arg, op->request->user, question, arena, ret_reason);
}

struct op *op_new(struct registry *r, const struct registry_request *request, enum verb verb,
                  struct arena *arena, registry_done_fn done, void *arg)
{
    struct op *op = arena_one(arena, struct op);
    op->r = r;
    op->request = request;
    op->stored = registry_stored_kind(request->kind);
    op->rules = kinds_rules_of(op->stored);
    op->arena = arena;
    op->done = done;
    op->arg = arg;
    op->verb = verb;
    op->dry_run = request->dry_run;
    op->now = (struct api_time){.at = moment_from_ns(exec_wall_ns(r->exec)), .set = true};
    op->now.at.nsec = 0;
    op->authorizer = (struct api_authorizer){.allows = ask_for_user, .ctx = op};
    return op;
}

// The answer leaves; op and everything in its arena may be gone when it returns.
static void op_send_answer(struct op *op, int code)
{
    if (code == 0 && op->code < 0)
        code = op->code;
    const struct object *object = op->object, **objects = op->objects;
    size_t objects_len = op->objects_len;
    const struct registry_answer a = {
        .code = code,
        .status = op->status,
        .object = code == 0 ? object : NULL,
        .objects = code == 0 ? objects : NULL,
        .objects_len = code == 0 ? objects_len : 0,
        .created = code == 0 && op->created,
        .deleted = code == 0 && op->deleted,
        .warnings = op->warnings.p,
        .warnings_len = op->warnings.n,
    };
    op->done(op->arg, &a);
    object_unref(object);
    for (size_t i = 0; i < objects_len; i++)
        object_unref(objects[i]);
    free(objects);
}

static void wait_until(struct op *op, uint64_t revision)
{
    // Writes become visible in order: the newest stands for all.
    if (revision > op->waits_for)
        op->waits_for = revision;
    if (list_linked(&op->waiting))
        return;
    op->pending++;
    list_push_back(&op->r->waiting, &op->waiting);
}

// wait_for_reasons lets a refusal wait for what it may rest on: who is told of a conflict, or that a name is taken or gone, and
// reads again must not find the state from before.
static void wait_for_reasons(struct op *op)
{
    if (op->r->unsettled && !op->full)
        wait_until(op, op->r->accepted);
}

void op_finish(struct op *op, int code)
{
    assert(code == 0 || op->status);
    if (code < 0) {
        op->code = code;
        wait_for_reasons(op);
    }
    op->ready = true;
    if (op->pending == 0)
        op_send_answer(op, op->code);
}

void op_warn(struct op *op, struct str text)
{
    vec_push_arena(op->arena, &op->warnings, text);
}

void op_answer_with(struct op *op, const struct object *o)
{
    const struct object *before = op->object;
    op->object = object_ref(o);
    object_unref(before);
}

struct api_rules op_world(const struct op *op, struct str namespace)
{
    const struct registry_user *user = op->request->user;
    struct api_rules rules = {
        .features = op->r->features,
        .cel = op->r->cel.engine ? &op->r->cel.cel : NULL,
        .authorizer = op->r->authorize && user ? &op->authorizer : NULL,
        .requester = {.verb = op->verb == VERB_PATCH ? STR("patch") : STR("update")},
        .subresource = op->request->subresource,
        .version = op->request->kind,
        .now = op->now,
    };
    if (user)
        rules.requester.user = user->name;
    for (size_t i = 0; user && i < user->extra_len; i++)
        if (user->extra[i].values_len == 1 &&
            str_eqz(user->extra[i].key, "authentication.kubernetes.io/node-name"))
            rules.requester.node = user->extra[i].values[0];
    if (op->stored->namespaced && str_eqz(op->stored->group, "resource.k8s.io")) {
        const struct store_key key = {op->r->namespace_kind, STR(""), namespace};
        const struct object *ns = store_head(op->r->store, &key);
        struct str label;
        rules.admin_namespace =
            ns && object_label(ns, STR("resource.kubernetes.io/admin-access"), &label) &&
            str_eqz(label, "true");
    }
    return rules;
}

const struct object *op_head(const struct op *op, struct str name)
{
    const struct store_key key = {op->stored,
                                  op->stored->namespaced ? op->request->namespace : STR(""), name};
    return store_head(op->r->store, &key);
}

// --- Waiting -------------------------------------------------------------------------------------

// One of an op's writes came to its end.
static void op_settle_writes(struct op *op, int code, const struct err *err)
{
    assert(op->pending > 0);
    op->pending--;
    if (code < 0 && op->code == 0) {
        (void)fail_internal(op, "the write was lost: %s",
                            err && err->msg[0] ? err->msg : "the disk refuses writes");
        op->code = code;
    }
    if (op->ready && op->pending == 0)
        op_send_answer(op, op->code);
}

void op_wait(struct op *op, const struct object *o)
{
    if (o->revision > store_revision(op->r->store))
        wait_until(op, o->revision);
}

// What a write is remembered by until it is visible.
struct write {
    struct op *op;
    uint64_t revision;
    struct str terminating; // the namespace that may be due afterwards, if any
};

static void op_on_written(void *arg, int code, const struct err *err)
{
    struct write w = *(const struct write *)arg;
    struct registry *r = w.op->r;
    struct list due;
    assert(r->unsettled > 0);
    r->unsettled--;
    list_init(&due);
    list_foreach(&r->waiting, node) {
        if (list_entry(node, struct op, waiting)->waits_for != w.revision)
            continue;
        list_remove(node);
        list_push_back(&due, node);
    }
    if (code == 0 && w.terminating.n)
        namespace_due(r, w.terminating, w.op->stored == r->namespace_kind);
    if (w.op->stored == r->priority_kind)
        r->default_priority.known = false;
    if (code == 0 && w.op->stored == r->event_kind)
        events_due(r);
    if (code == 0 && w.op->stored->custom)
        definitions_due(r, w.op->stored);
    op_settle_writes(w.op, code, err);
    for (struct list_node *node; (node = list_pop_front(&due));)
        op_settle_writes(list_entry(node, struct op, waiting), code, err);
}

// --- Writing -------------------------------------------------------------------------------------

// op_begin_write ends what begin_write began: the store has taken the write of a revision, or refused it. What it refused never becomes
// visible: nobody may wait for it.
static int op_begin_write(struct op *op, uint64_t revision, int code, const struct err *err)
{
    if (code == 0) {
        op->r->accepted = revision;
        return 0;
    }
    op->pending--;
    op->r->unsettled--;
    op->full = true;
    return fail_internal(op, "%s", err->msg[0] ? err->msg : "the store refuses writes");
}

// The namespace that waits for the end of o.
static struct str op_terminating_text(struct op *op, const struct object *o)
{
    struct registry *r = op->r;
    const struct object *ns = o;
    if (o->kind != r->namespace_kind) {
        const struct store_key key = {r->namespace_kind, STR(""), o->namespace};
        ns = o->namespace.n ? store_head(r->store, &key) : NULL;
    }
    return ns && namespace_terminating(ns) ? arena_str(op->arena, ns->name) : STR("");
}

static struct write *begin_write(struct op *op, const struct object *o)
{
    struct write *w = arena_one(op->arena, struct write);
    *w = (struct write){op, o->revision, {0}};
    op->pending++;
    op->r->unsettled++;
    if (o->kind == op->r->priority_kind)
        op->r->default_priority.known = false;
    return w;
}

// op_put_object writes o, which object was encoded to.
static int op_put_object(struct op *op, const struct object *o, const struct api_object *object,
                         uint64_t expect)
{
    struct err err = {0};
    struct write *w = begin_write(op, o);
    op_answer_with(op, o);
    if (o->kind == op->r->namespace_kind)
        w->terminating = op_terminating_text(op, o);
    int code = store_put(op->r->store, o, expect, op_on_written, w, &err);
    if (code == 0 && !op->r->scratch_altered)
        typed_cache_keep(op->r->typed, o, object);
    return op_begin_write(op, o->revision, code, &err);
}

static int op_encode_object(struct op *op, const struct api_object *object, uint64_t revision)
{
    struct err err = {0};
    if (encode_json(op->r, object, revision, op->arena, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    // What is too large already can still be deleted.
    if (op->r->scratch.n <= DRAY_OBJECT_STORED_BYTES_MAX || op->verb == VERB_DELETE)
        return 0;
    op->status = api_status_too_large(
        op->arena, arena_strf(op->arena, "the object would take %zu bytes, the limit is %zu",
                              op->r->scratch.n, DRAY_OBJECT_STORED_BYTES_MAX));
    return -ERR_TOO_LARGE;
}

int op_write_new(struct op *op, const struct api_object *object)
{
    uint64_t revision = op->dry_run ? 0 : store_next_revision(op->r->store);
    int code = op_encode_object(op, object, revision);
    if (code < 0)
        return code;
    struct object *o = encode_new_object(op->r, object, revision, op->arena);
    op->created = true;
    if (op->dry_run)
        op_answer_with(op, o);
    else
        code = op_put_object(op, o, object, 0);
    object_unref(o);
    return code;
}

int op_write_change(struct op *op, const struct api_object *object, const struct object *old)
{
    // First with the old version, to see whether anything changes.
    int code = op_encode_object(op, object, old->revision);
    if (code < 0)
        return code;
    if (str_eq(sbuf_str(&op->r->scratch), old->json)) {
        op_wait(op, old);
        op_answer_with(op, old);
        return 0;
    }
    uint64_t revision = op->dry_run ? old->revision : store_next_revision(op->r->store);
    struct object *o = encode_new_object_at(op->r, object, revision, op->arena);
    if (op->dry_run)
        op_answer_with(op, o);
    else
        code = op_put_object(op, o, object, old->revision);
    object_unref(o);
    return code;
}

int op_write_removal(struct op *op, const struct object *old, bool answer_with_it)
{
    struct err err = {0};
    op->deleted = true;
    if (op->dry_run) {
        if (answer_with_it)
            op_answer_with(op, old);
        return 0;
    }
    struct object *last = encode_object_at(op->r, old, store_next_revision(op->r->store));
    struct write *w = begin_write(op, last);
    if (old->kind != op->r->namespace_kind)
        w->terminating = op_terminating_text(op, old);
    if (answer_with_it)
        op_answer_with(op, last);
    int code = store_delete(op->r->store, last, old->revision, op_on_written, w, &err);
    code = op_begin_write(op, last->revision, code, &err);
    object_unref(last);
    return code;
}

int op_write_nothing(struct op *op, const struct api_object *object, const struct object *old)
{
    int code = op_encode_object(op, object, old->revision);
    if (code < 0)
        return code;
    struct object *o = encode_new_object(op->r, object, old->revision, op->arena);
    op_answer_with(op, o);
    object_unref(o);
    return 0;
}

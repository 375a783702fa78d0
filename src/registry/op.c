// SPDX-License-Identifier: Apache-2.0
//
// The life of a request: from its start to the answer, which waits until everything the request
// wrote, or relied on, is visible.
#include <assert.h>
#include <stdlib.h>

#include "registry/stage_int.h"
#include "store/room.h"

#include "base/banned.h"

static bool ask_for_user(void *ctx, const struct api_authz_question *question, struct arena *arena,
                         struct str *ret_reason)
{
    const struct op *op = ctx;
    return op->reg->hooks.authorize(op->reg->hooks.authorize_arg, op->request->user, question,
                                    arena, ret_reason);
}

struct op *op_new(struct registry *reg, const struct registry_request *request, enum verb verb,
                  struct arena *arena, registry_done_fn done, void *arg)
{
    struct op *op = arena_one(arena, struct op);
    op->reg = reg;
    op->request = request;
    op->stored = registry_stored_kind(request->kind);
    op->rules = kinds_rules_of(op->stored);
    op->arena = arena;
    op->done = done;
    op->arg = arg;
    op->verb = verb;
    op->dry_run = request->dry_run;
    op->now = (struct api_time){.at = moment_from_ns(exec_wall_ns(reg->exec)), .set = true};
    op->now.at.nsec = 0;
    op->authorizer = (struct api_authorizer){.allows = ask_for_user, .ctx = op};
    return op;
}

// The answer leaves; op and everything in its arena may be gone when it returns.
static void op_send_answer(struct op *op, int r)
{
    if (r == 0 && op->code < 0)
        r = op->code;
    const struct object *object = op->object, **objects = op->collection.p;
    size_t objects_len = op->collection.n;
    const struct registry_answer a = {
        .code = r,
        .status = op->status,
        .object = r == 0 ? object : NULL,
        .objects = r == 0 ? objects : NULL,
        .objects_len = r == 0 ? objects_len : 0,
        .created = r == 0 && op->created,
        .deleted = r == 0 && op->deleted,
        .warnings = op->said.warnings.p,
        .warnings_len = op->said.warnings.n,
        .notes = op->said.notes.p,
        .notes_len = op->said.notes.n,
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
    list_push_back(&op->reg->writes.waiting, &op->waiting);
}

// wait_for_reasons delays a refusal until its reason is visible: a client that gets a conflict, or
// a name is taken or gone, and reads again must not find the state from before.
static void wait_for_reasons(struct op *op)
{
    if (op->reg->writes.unsettled && !op->full)
        wait_until(op, op->reg->writes.accepted);
}

void op_finish(struct op *op, int r)
{
    assert(r == 0 || op->status);
    if (r < 0) {
        op->code = r;
        wait_for_reasons(op);
    }
    op->ready = true;
    if (op->pending == 0)
        op_send_answer(op, op->code);
}

void op_warn(struct op *op, struct str text)
{
    vec_push_arena(op->arena, &op->said.warnings, text);
}

void op_note(struct op *op, struct str key, struct str value)
{
    if (op->request->audited)
        vec_push_arena(op->arena, &op->said.notes, ((struct registry_note){key, value}));
}

void op_note_listed(struct op *op, struct str key, struct str item)
{
    vec_foreach(&op->said.notes, note) {
        if (!str_eq(note->key, key))
            continue;
        note->value = arena_strf(op->arena, "%.*s,%.*s]",
                                 STR_ARG(str_upto(note->value, note->value.n - 1)), STR_ARG(item));
        return;
    }
    op_note(op, key, arena_strf(op->arena, "[%.*s]", STR_ARG(item)));
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
        .features = op->reg->features,
        .cel = op->reg->cel.engine ? &op->reg->cel.cel : NULL,
        .authorizer = op->reg->hooks.authorize && user ? &op->authorizer : NULL,
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
        const struct store_key key = {op->reg->kinds.namespace, STR(""), namespace};
        const struct object *ns = store_head(op->reg->store, &key);
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
    return store_head(op->reg->store, &key);
}

// --- Waiting -------------------------------------------------------------------------------------

// One of an op's writes came to its end.
static void op_settle_writes(struct op *op, int r, const struct err *err)
{
    assert(op->pending > 0);
    op->pending--;
    if (r < 0 && op->code == 0) {
        (void)fail_internal(op, "the write was lost: %s",
                            err && err->msg[0] ? err->msg : "the disk refuses writes");
        op->code = r;
    }
    if (op->ready && op->pending == 0)
        op_send_answer(op, op->code);
}

void op_hold(struct op *op)
{
    op->pending++;
}

void op_release(struct op *op)
{
    op_settle_writes(op, 0, NULL);
}

void op_wait(struct op *op, const struct object *o)
{
    if (o->revision > store_revision(op->reg->store))
        wait_until(op, o->revision);
}

// What a write is remembered by until it is visible.
struct write {
    struct op *op;
    uint64_t revision;
    struct str terminating; // the namespace that may be due afterwards, if any
};

static void op_on_written(void *arg, int r, const struct err *err)
{
    struct write w = *(const struct write *)arg;
    struct registry *reg = w.op->reg;
    struct list due;
    assert(reg->writes.unsettled > 0);
    reg->writes.unsettled--;
    list_init(&due);
    list_foreach(&reg->writes.waiting, node) {
        if (list_entry(node, struct op, waiting)->waits_for != w.revision)
            continue;
        list_remove(node);
        list_push_back(&due, node);
    }
    if (r == 0 && w.terminating.n)
        namespace_due(reg, w.terminating, w.op->stored == reg->kinds.namespace);
    if (w.op->stored == reg->kinds.priority)
        reg->default_priority.known = false;
    if (r == 0 && w.op->stored == reg->kinds.event)
        events_due(reg);
    if (r == 0 && w.op->stored->custom)
        definitions_due(reg, w.op->stored);
    op_settle_writes(w.op, r, err);
    for (struct list_node *node; (node = list_pop_front(&due));)
        op_settle_writes(list_entry(node, struct op, waiting), r, err);
}

// --- Writing -------------------------------------------------------------------------------------

// op_begin_write ends what begin_write began: the store has taken the write of a revision, or
// refused it. A refused write never becomes visible: no op may wait for it.
static int op_begin_write(struct op *op, uint64_t revision, int r, const struct err *err)
{
    if (r == 0) {
        op->reg->writes.accepted = revision;
        return 0;
    }
    op->pending--;
    op->reg->writes.unsettled--;
    op->full = true;
    return fail_internal(op, "%s", err->msg[0] ? err->msg : "the store refuses writes");
}

// The namespace that waits for the end of o.
static struct str op_terminating_text(struct op *op, const struct object *o)
{
    struct registry *reg = op->reg;
    const struct object *ns = o;
    if (o->kind != reg->kinds.namespace) {
        const struct store_key key = {reg->kinds.namespace, STR(""), o->namespace};
        ns = o->namespace.n ? store_head(reg->store, &key) : NULL;
    }
    return ns && namespace_terminating(ns) ? arena_str(op->arena, ns->name) : STR("");
}

static struct write *begin_write(struct op *op, const struct object *o)
{
    struct write *w = arena_one(op->arena, struct write);
    *w = (struct write){op, o->revision, {0}};
    op->pending++;
    op->reg->writes.unsettled++;
    if (o->kind == op->reg->kinds.priority)
        op->reg->default_priority.known = false;
    return w;
}

static int op_encode_object(struct op *op, const struct api_object *object, uint64_t revision)
{
    struct err err = {0};
    if (encode_json(op->reg, object, revision, op->arena, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    // What is too large already can still be deleted.
    if (op->reg->json.text.n <= DRAY_OBJECT_STORED_BYTES_MAX || op->verb == VERB_DELETE)
        return 0;
    op->status = api_status_too_large(
        op->arena, arena_strf(op->arena, "the object would take %zu bytes, the limit is %zu",
                              op->reg->json.text.n, DRAY_OBJECT_STORED_BYTES_MAX));
    return -ERR_TOO_LARGE;
}

// op_check_room refuses a write that the database has no room for. Deletions, which begin with
// marks on objects, and what every cluster has are always stored.
static int op_check_room(struct op *op, const struct object *o)
{
    struct err err = {0};
    if (op->verb == VERB_DELETE || !op->request->user ||
        str_eqz(op->request->subresource, "eviction"))
        return 0;
    int r = store_room(op->reg->store, o, &err);
    if (r == -ERR_FORBIDDEN)
        return fail_forbidden(op, op_subject(op, o->name), "%s", err.msg);
    return r < 0 ? fail_unknown(op, "%s", err.msg) : 0;
}

int op_check_new_room(struct op *op, const struct api_object *object)
{
    uint64_t revision = store_next_revision(op->reg->store);
    int r = op_encode_object(op, object, revision);
    if (r < 0)
        return r;
    const struct object *o = encode_new_object(op->reg, object, revision, op->arena);
    r = op_check_room(op, o);
    object_unref(o);
    return r;
}

// op_put_object writes o, which object was encoded to.
static int op_put_object(struct op *op, const struct object *o, const struct api_object *object,
                         uint64_t expect)
{
    struct err err = {0};
    int r = op_check_room(op, o);
    if (r < 0)
        return r;
    struct write *w = begin_write(op, o);
    op_answer_with(op, o);
    if (o->kind == op->reg->kinds.namespace)
        w->terminating = op_terminating_text(op, o);
    r = store_put(op->reg->store, o, expect, op_on_written, w, &err);
    if (r == 0 && !op->reg->json.altered)
        typed_cache_keep(op->reg->typed, o, object);
    return op_begin_write(op, o->revision, r, &err);
}

int op_write_new(struct op *op, const struct api_object *object)
{
    uint64_t revision = op->dry_run ? 0 : store_next_revision(op->reg->store);
    int r = op_encode_object(op, object, revision);
    if (r < 0)
        return r;
    struct object *o = encode_new_object(op->reg, object, revision, op->arena);
    op->created = true;
    if (op->dry_run)
        op_answer_with(op, o);
    else
        r = op_put_object(op, o, object, 0);
    object_unref(o);
    return r;
}

int op_write_change(struct op *op, const struct api_object *object, const struct object *old)
{
    // First with the old version, to see whether anything changes.
    int r = op_encode_object(op, object, old->revision);
    if (r < 0)
        return r;
    if (str_eq(sbuf_str(&op->reg->json.text), old->json)) {
        op_wait(op, old);
        op_answer_with(op, old);
        return 0;
    }
    uint64_t revision = op->dry_run ? old->revision : store_next_revision(op->reg->store);
    struct object *o = encode_new_object_at(op->reg, object, revision, op->arena);
    if (op->dry_run)
        op_answer_with(op, o);
    else
        r = op_put_object(op, o, object, old->revision);
    object_unref(o);
    return r;
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
    struct object *last = encode_object_at(op->reg, old, store_next_revision(op->reg->store));
    struct write *w = begin_write(op, last);
    if (old->kind != op->reg->kinds.namespace)
        w->terminating = op_terminating_text(op, old);
    if (answer_with_it)
        op_answer_with(op, last);
    int r = store_delete(op->reg->store, last, old->revision, op_on_written, w, &err);
    r = op_begin_write(op, last->revision, r, &err);
    object_unref(last);
    return r;
}

int op_write_nothing(struct op *op, const struct api_object *object, const struct object *old)
{
    int r = op_encode_object(op, object, old->revision);
    if (r < 0)
        return r;
    struct object *o = encode_new_object(op->reg, object, old->revision, op->arena);
    op_answer_with(op, o);
    object_unref(o);
    return 0;
}

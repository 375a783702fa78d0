// SPDX-License-Identifier: Apache-2.0
//
// Create, update, patch, delete: bodies are read here, everything else is the registry's.
#include "server/audit/trail.h"
#include "server/auth/access.h"
#include "server/http/body.h"
#include "server/http/server_int.h"
#include "store/select.h"

#include "base/banned.h"

static void writer_closed(void *arg)
{
    struct exchange *ex = arg;
    ex->q = NULL; // the registry goes on; its answer is dropped
}

// write_hold_exchange keeps the exchange until the registry answers.
static void write_hold_exchange(struct exchange *ex)
{
    ex->q->closed = writer_closed;
    ex->q->arg = ex;
}

// write_answer_deleted lists what was deleted from a collection.
static void write_answer_deleted(struct exchange *ex, const struct registry_answer *a)
{
    struct encode_how how = exchange_how(ex);
    struct encode_list list = {.revision = store_revision(ex->s->store), .remaining = -1};
    struct sbuf json = {0};
    struct err err = {0};
    int r = 0;
    encode_list_head(&how, &list, &json);
    for (size_t i = 0; i < a->objects_len && r == 0; i++) {
        if (i)
            sbuf_addc(&json, ',');
        r = encode_item(a->objects[i], &how, &json, &err);
    }
    encode_list_tail(&json);
    if (r == 0) {
        answer_json(ex, 200, &json);
        return;
    }
    sbuf_done(&json);
    answer_error(ex, &err);
}

static void write_on_registry_answer(void *arg, const struct registry_answer *a)
{
    struct exchange *ex = arg;
    for (size_t i = 0; i < a->warnings_len; i++)
        exchange_warn(ex, a->warnings[i]);
    for (size_t i = 0; i < a->notes_len; i++)
        audit_note(ex, a->notes[i].key, a->notes[i].value);
    if (a->code < 0) {
        if (a->status) {
            answer_status(ex, a->status);
            return;
        }
        struct err err = {0};
        err_record(&err, -a->code, "the write failed: %s", err_reason(-a->code));
        answer_error(ex, &err);
        return;
    }
    if (ex->verb == VERB_DELETE_COLLECTION && !a->status) {
        write_answer_deleted(ex, a);
        return;
    }
    if (a->status) {
        answer_status(ex, a->status);
        return;
    }
    bool accepted = ex->verb == VERB_DELETE && !a->deleted && ex->delete_options &&
                    ex->delete_options->has_orphan_dependents &&
                    !ex->delete_options->orphan_dependents;
    if (a->object) {
        answer_object(ex, a->created ? 201 : accepted ? 202 : 200, a->object);
        return;
    }
    struct api_status done = {.status = STR("Success"), .code = a->created ? 201 : 200};
    answer_status(ex, &done);
}

// --- Options and bodies --------------------------------------------------------------------------

static enum registry_field_validation validation_of(enum query_validation v)
{
    switch (v) {
    case QUERY_FIELDS_IGNORE:
        return REGISTRY_FIELDS_IGNORE;
    case QUERY_FIELDS_STRICT:
        return REGISTRY_FIELDS_STRICT;
    case QUERY_FIELDS_WARN:
        break;
    }
    return REGISTRY_FIELDS_WARN;
}

// manager_of is the field manager, by default what stands before the slash of the user agent.
static struct str manager_of(struct exchange *ex, struct str given)
{
    struct str name, rest;
    if (given.n)
        return given;
    str_cut(ex->user_agent, '/', &name, &rest);
    return arena_str(&ex->arena, str_upto(name, 128));
}

// write_read_options reads the query of a write. False: it has been answered.
static bool write_read_options(struct exchange *ex, struct str kind, bool patch, bool apply,
                               struct write_options *ret)
{
    struct causes causes = {.arena = &ex->arena};
    if (query_write_options(&ex->query, patch, apply, ret, &causes) < 0) {
        answer_invalid(ex, kind, &causes);
        return false;
    }
    ex->request.dry_run = ret->dry_run;
    ex->request.field_validation = validation_of(ret->fields);
    ex->request.field_manager = manager_of(ex, ret->field_manager);
    return true;
}

// too_strict refuses a body with unknown or repeated fields, or warns of each.
static bool too_strict(struct exchange *ex, const struct json_strict *strict,
                       const struct write_options *o, const struct api_kind *want)
{
    if (o->fields == QUERY_FIELDS_IGNORE || strict->reports.n == 0)
        return false;
    if (o->fields == QUERY_FIELDS_WARN) {
        vec_foreach(&strict->reports, text)
            exchange_warn(ex, *text);
        return false;
    }
    cleanup_sbuf struct sbuf message = {0};
    sbuf_addf(&message,
              "%.*s in version \"%.*s\" cannot be handled as a %.*s: strict decoding error: ",
              STR_ARG(want->kind), STR_ARG(want->version), STR_ARG(want->kind));
    json_strict_text(strict, &message);
    answer_fail(ex, 400, "BadRequest", arena_str(&ex->arena, sbuf_str(&message)), NULL);
    return true;
}

// write_read_body decodes the object of a create or update. False: it has been answered.
static bool write_read_body(struct exchange *ex, const struct write_options *o,
                            struct api_object *ret)
{
    const struct api_kind *want = ex->route.sub ? ex->route.sub->kind : ex->route.resource->kind;
    cleanup_json_strict struct json_strict strict = {0};
    struct err err = {0};
    enum media media;
    if (negotiate_body(http_find_header(ex->q, STR("content-type")), &media, &err) < 0) {
        answer_fail(ex, 415, "UnsupportedMediaType", str_z(err.msg), NULL);
        return false;
    }
    int r = body_decode(ex->q->body, media, want, &ex->arena,
                        o->fields == QUERY_FIELDS_IGNORE ? NULL : &strict, ret, &err);
    if (r < 0) {
        answer_error(ex, &err);
        return false;
    }
    audit_request_object(ex, ret);
    return !too_strict(ex, &strict, o, want);
}

// --- Verbs ---------------------------------------------------------------------------------------

void write_create(struct exchange *ex)
{
    struct write_options o;
    struct api_object body;
    if (!write_read_options(ex, STR("CreateOptions"), false, false, &o) ||
        !write_read_body(ex, &o, &body))
        return;
    if (ex->route.sub && str_eqz(ex->route.sub->name, "token")) {
        account_token(ex, &body);
        return;
    }
    if (review_is(ex->route.resource->kind)) {
        review_answer(ex, &body);
        return;
    }
    write_hold_exchange(ex);
    registry_create(ex->s->registry, &ex->request, &body, &ex->arena, write_on_registry_answer, ex);
}

void write_update(struct exchange *ex)
{
    struct write_options o;
    struct api_object body;
    if (!write_read_options(ex, STR("UpdateOptions"), false, false, &o) ||
        !write_read_body(ex, &o, &body))
        return;
    // What an update creates needs the right to create.
    if (registry_creates_on_update(ex->route.resource->kind) && !authz_create(ex))
        return;
    write_hold_exchange(ex);
    registry_update(ex->s->registry, &ex->request, &body, &ex->arena, write_on_registry_answer, ex);
}

void write_serve_patch(struct exchange *ex)
{
    static const enum registry_patch_type types[] = {
        [PATCH_JSON] = REGISTRY_PATCH_JSON,
        [PATCH_MERGE] = REGISTRY_PATCH_MERGE,
        [PATCH_STRATEGIC] = REGISTRY_PATCH_STRATEGIC,
        [PATCH_APPLY] = REGISTRY_PATCH_APPLY,
    };
    struct write_options o;
    struct err err = {0};
    enum patch_media media;
    if (negotiate_patch(http_find_header(ex->q, STR("content-type")), &media, &err) < 0) {
        answer_fail(ex, 415, "UnsupportedMediaType", str_z(err.msg), NULL);
        return;
    }
    if (media == PATCH_STRATEGIC && ex->route.resource->kind->custom && !ex->route.sub) {
        answer_fail(ex, 415, "UnsupportedMediaType",
                    STR("the body of the request was in an unknown format - accepted media types "
                        "include: application/json-patch+json, application/merge-patch+json, "
                        "application/apply-patch+yaml"),
                    NULL);
        return;
    }
    if (!write_read_options(ex, STR("PatchOptions"), true, media == PATCH_APPLY, &o))
        return;
    ex->request.force = media == PATCH_APPLY && o.force;
    if (media == PATCH_APPLY && !authz_create(ex))
        return;
    struct str patch = arena_str(&ex->arena, ex->q->body);
    audit_request_patch(ex, patch);
    write_hold_exchange(ex);
    registry_patch(ex->s->registry, &ex->request, types[media], patch, &ex->arena,
                   write_on_registry_answer, ex);
}

// read_delete_options takes them from the body or, without one, from the query. False: answered.
static bool read_delete_options(struct exchange *ex)
{
    struct err err = {0};
    struct causes causes = {.arena = &ex->arena};
    struct api_delete_options *o = NULL;
    enum media media;
    int r = 0;
    if (ex->q->body.n) {
        if (negotiate_body(http_find_header(ex->q, STR("content-type")), &media, &err) < 0) {
            answer_fail(ex, 415, "UnsupportedMediaType", str_z(err.msg), NULL);
            return false;
        }
        r = body_delete_options(ex->q->body, media, &ex->arena, &o, &err);
    } else {
        o = arena_one(&ex->arena, struct api_delete_options);
        r = query_delete_options(&ex->query, ex->verb == VERB_DELETE, &ex->arena, o, &err);
    }
    if (r < 0) {
        answer_error(ex, &err);
        return false;
    }
    if (query_check_delete_options(o, &causes) < 0) {
        answer_invalid(ex, STR("DeleteOptions"), &causes);
        return false;
    }
    // A dry run may be requested in the query, too.
    ex->request.dry_run = o->dry_run.n > 0 || query_str(&ex->query, STR("dryRun")).n > 0;
    ex->delete_options = o;
    const struct api_kind *kind = api_kind_find(STR("v1"), STR("DeleteOptions"));
    if (ex->audit.trail && ex->q->body.n && kind)
        audit_request_object(ex, &(struct api_object){kind, o});
    return true;
}

void write_delete(struct exchange *ex)
{
    if (!read_delete_options(ex))
        return;
    write_hold_exchange(ex);
    registry_delete(ex->s->registry, &ex->request, ex->delete_options, &ex->arena,
                    write_on_registry_answer, ex);
}

static bool filter_matches(void *arg, const struct object *o)
{
    return store_select_matches(arg, o);
}

void write_delete_collection(struct exchange *ex)
{
    struct list_options o;
    struct causes causes = {.arena = &ex->arena};
    struct err err = {0};
    const struct api_kind *kind = ex->route.resource->kind;
    if (!read_delete_options(ex))
        return;
    int r = query_list_options(&ex->query, false, &o, &causes, &err);
    if (r < 0 && causes.n) {
        answer_invalid(ex, STR("ListOptions"), &causes);
        return;
    }
    struct store_select *select = arena_one(&ex->arena, struct store_select);
    struct registry_filter *filter = arena_one(&ex->arena, struct registry_filter);
    *filter = (struct registry_filter){filter_matches, select};
    if (r == 0)
        r = store_select_parse(o.label_selector, o.field_selector, kind, registry_stored_kind(kind),
                               &ex->arena, select, &err);
    if (r < 0) {
        answer_error(ex, &err);
        return;
    }
    write_hold_exchange(ex);
    registry_delete_collection(ex->s->registry, &ex->request, ex->delete_options, filter,
                               &ex->arena, write_on_registry_answer, ex);
}

// SPDX-License-Identifier: Apache-2.0
//
// Patches: the object as the request's version shows it, changed as text, then an update like any
// other. Nothing can come between reading and writing here, so there is nothing to try again. Only
// a large one is worked out on another thread, and again if the object has changed meanwhile.
#include "api/patch.h"

#include "registry/stage_int.h"

#include "base/banned.h"

// What goes through the stages of one patch.
struct patching {
    struct op *op;
    enum registry_patch_type type;
    struct str patch;
    const struct api_kind *kind; // of what is patched: the object or its Scale
    struct json_strict strict;
    struct sbuf current, patched;
    const struct object *old; // that the patch is worked out for; referenced while it is apart
    struct api_object body;   // the result
    int result;
    int tries; // on other threads
};

// From this size of patch and object on, the work would hold the loop for more than some
// milliseconds.
#define PATCH_APART_BYTES ((size_t)64 * 1024)
#define PATCH_APART_TRIES 3

static int fail_patch(struct op *op, const struct err *err)
{
    switch (err->code) {
    case ERR_TOO_LARGE:
        op->status = api_status_too_large(op->arena, str_z(err->msg));
        break;
    case ERR_INVALID:
        op->status = api_status_patch_failed(op->arena, str_z(err->msg));
        break;
    case ERR_INTERNAL:
        op->status = api_status_unknown(op->arena, str_z(err->msg));
        break;
    default:
        op->status = api_status_bad_request(op->arena, str_z(err->msg));
        break;
    }
    return -err->code;
}

static int run_patch(struct patching *p, const struct json_doc *object,
                     const struct json_doc *patch, struct err *err)
{
    struct json_strict *strict =
        p->op->request->field_validation == REGISTRY_FIELDS_IGNORE ? NULL : &p->strict;
    switch (p->type) {
    case REGISTRY_PATCH_JSON:
        return api_patch_json(object, patch, strict, &p->patched, err);
    case REGISTRY_PATCH_MERGE:
        return api_patch_merge(object, patch, strict, &p->patched, err);
    case REGISTRY_PATCH_STRATEGIC:
        return api_patch_strategic(p->kind->type, object, patch, strict, &p->patched, err);
    case REGISTRY_PATCH_APPLY:
        break;
    }
    return err_set(err, ERR_UNSUPPORTED, "no such patch");
}

static int apply_patch(struct patching *p)
{
    struct err err = {0};
    cleanup_json_doc struct json_doc object = {0}, patch = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    if (json_parse(sbuf_str(&p->current), &options, &object, &err) < 0)
        return fail_internal(p->op, "%s", err.msg);
    if (json_parse(p->patch, &(struct json_options){.duplicates = JSON_DUPLICATES_KEEP}, &patch,
                   &err) < 0)
        return fail_bad_request(p->op, "invalid JSON patch: %s", err.msg);
    return run_patch(p, &object, &patch, &err) < 0 ? fail_patch(p->op, &err) : 0;
}

// --- The result ----------------------------------------------------------------------------------

static int fail_result(struct patching *p, struct str why)
{
    struct causes causes = {.arena = p->op->arena};
    struct path at = path_root(STR("patch"));
    cause_invalid(&causes, &at,
                  p->type == REGISTRY_PATCH_STRATEGIC ? p->patch : sbuf_str(&p->patched), why);
    return fail_invalid(p->op, (struct status_subject){0}, &causes);
}

static int patch_report_strict(struct patching *p)
{
    const struct json_strict_reports *reports = &p->strict.reports;
    if (reports->n == 0)
        return 0;
    if (p->op->request->field_validation != REGISTRY_FIELDS_STRICT) {
        for (size_t i = 0; i < reports->n; i++)
            op_warn(p->op, arena_str(p->op->arena, reports->p[i]));
        return 0;
    }
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "strict decoding error: ");
    for (size_t i = 0; i < reports->n; i++) {
        sbuf_addz(&b, i ? ", " : "");
        sbuf_add(&b, reports->p[i]);
    }
    return fail_result(p, sbuf_str(&b));
}

static bool patch_member_equals(const yyjson_val *root, struct str key, struct str value)
{
    const yyjson_val *v = json_get(root, key);
    return v && json_is_string(v) && str_eq(json_str(v), value);
}

static int decode_result(struct patching *p, struct api_object *ret)
{
    struct err err = {0};
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    struct json_strict *strict =
        p->op->request->field_validation == REGISTRY_FIELDS_IGNORE ? NULL : &p->strict;
    char text[DRAY_ERR_MSG_MAX + DRAY_ERR_PATH_MAX];
    if (json_parse(sbuf_str(&p->patched), &options, &doc, &err) < 0)
        return err.code == ERR_TOO_LARGE ? fail_patch(p->op, &err) : fail_result(p, str_z(err.msg));
    if (!json_is_object(doc.root) || !patch_member_equals(doc.root, STR("kind"), p->kind->kind) ||
        !patch_member_equals(doc.root, STR("apiVersion"), p->kind->api_version))
        return fail_result(p, STR("a patch cannot change kind or apiVersion"));
    if (api_decode_as(p->kind, &doc, doc.root, p->op->arena, strict, ret, &err) < 0) {
        err_text(&err, text, sizeof(text));
        return fail_result(p, str_z(text));
    }
    return patch_report_strict(p);
}

// --- All of it -----------------------------------------------------------------------------------

static int show_current(struct patching *p, const struct object *old)
{
    struct err err = {0};
    int r = 0;
    if (p->kind->type == &api_scale_type) {
        struct api_scale scale = {0};
        r = registry_scale(old, p->op->arena, &scale, &err);
        struct json_writer w = {.out = &p->current};
        if (r == 0)
            r = api_json_write(&api_scale_type, &scale, &w, &err);
    } else {
        r = registry_json(old, p->kind, false, &p->current, &err);
    }
    return r < 0 ? fail_internal(p->op, "%s", err.msg) : 0;
}

// patch_make works out what the object is to be; it touches nothing but the request.
static int patch_make(struct patching *p)
{
    if (p->type == REGISTRY_PATCH_APPLY)
        return fields_apply(p->op, p->patch, p->old, &p->body);
    int r = show_current(p, p->old);
    if (r == 0)
        r = apply_patch(p);
    return r < 0 ? r : decode_result(p, &p->body);
}

// patch_write goes on with the result, like any other update or creation.
static int patch_write(struct patching *p)
{
    struct op *op = p->op;
    if (p->kind->type == &api_scale_type)
        return scale_object(op, p->body.value, p->old);
    if (p->old)
        return update_body(op, &p->body, p->old);
    int r = update_check_name(op, api_object_meta(&p->body));
    return r < 0 ? r : create_body(op, &p->body);
}

static int patch_check(struct patching *p)
{
    int r = update_check_subresource(p->op);
    if (r < 0)
        return r;
    p->old = op_head(p->op, p->op->request->name);
    if (p->type == REGISTRY_PATCH_APPLY && p->kind->type == &api_scale_type)
        return fail_unsupported(p->op,
                                "a Scale cannot be applied to this server yet; use another type "
                                "of patch");
    if (p->type != REGISTRY_PATCH_APPLY && !p->old)
        return fail_not_found(p->op, op_subject(p->op, p->op->request->name));
    return 0;
}

static void patch_finish(struct patching *p, int r)
{
    struct op *op = p->op;
    json_strict_done(&p->strict);
    sbuf_done(&p->current);
    sbuf_done(&p->patched);
    op_finish(op, r);
}

// --- On another thread ---------------------------------------------------------------------------

static void patch_work(void *arg)
{
    struct patching *p = arg;
    p->result = patch_make(p);
}

// patch_reset forgets what was worked out for an older object.
static void patch_reset(struct patching *p)
{
    struct op *op = p->op;
    json_strict_done(&p->strict);
    sbuf_clear(&p->current);
    sbuf_clear(&p->patched);
    p->strict = (struct json_strict){0};
    p->body = (struct api_object){0};
    op->status = NULL;
    op->applied.done = false;
    op->said.warnings.n = 0;
}

static void patch_after(void *arg, bool stopping);

static void patch_send_apart(struct patching *p)
{
    p->tries++;
    p->op->applied.apart = true;
    if (p->old)
        p->old = object_ref(p->old);
    apart_run(p->op->reg, patch_work, patch_after, p);
}

// patch_after: the object may have changed since; the result then is one of the past.
static void patch_after(void *arg, bool stopping)
{
    struct patching *p = arg;
    struct op *op = p->op;
    const struct object *was = p->old;
    int r = p->result;
    op->applied.apart = false;
    if (stopping) {
        patch_reset(p);
        r = fail_internal(op, "the server is stopping; try again");
    } else if (op_head(op, op->request->name) != was) {
        patch_reset(p);
        r = patch_check(p);
        if (r == 0 && p->tries < PATCH_APART_TRIES) {
            object_unref(was);
            patch_send_apart(p);
            return;
        }
        if (r == 0)
            r = patch_make(p);
        if (r == 0)
            r = patch_write(p);
    } else if (r == 0) {
        r = patch_write(p);
    }
    object_unref(was);
    patch_finish(p, r);
}

// Kinds that come and go with their definition stay on the loop.
static bool patch_goes_apart(const struct patching *p)
{
    size_t bytes = p->patch.n + (p->old ? p->old->json.n : 0);
    return bytes > PATCH_APART_BYTES && apart_possible(p->op->reg) && !p->kind->custom &&
           p->kind->type != &api_scale_type;
}

void registry_patch(struct registry *reg, const struct registry_request *request,
                    enum registry_patch_type type, struct str patch, struct arena *arena,
                    registry_done_fn done, void *arg)
{
    struct patching *p = arena_one(arena, struct patching);
    *p = (struct patching){
        .op = op_new(reg, request, VERB_PATCH, arena, done, arg),
        .type = type,
        .patch = patch,
        .kind = str_eqz(request->subresource, "scale")
                    ? api_kind_find(STR("autoscaling/v1"), STR("Scale"))
                    : request->kind,
    };
    int r = patch_check(p);
    if (r == 0 && patch_goes_apart(p)) {
        patch_send_apart(p);
        return;
    }
    if (r == 0)
        r = patch_make(p);
    if (r == 0)
        r = patch_write(p);
    patch_finish(p, r);
}

// SPDX-License-Identifier: Apache-2.0
//
// Patches: the object as the request's version shows it, changed as text, then an update like any
// other. Nothing can come between reading and writing here, so there is nothing to try again.
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
};

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

static int apply_object(struct patching *p, const struct object *old)
{
    struct op *op = p->op;
    struct api_object body = {0};
    if (p->kind->type == &api_scale_type)
        return fail_unsupported(op,
                                "a Scale cannot be applied to this server yet; use another type "
                                "of patch");
    int r = fields_apply(op, p->patch, old, &body);
    if (r < 0)
        return r;
    if (old)
        return update_body(op, &body, old);
    r = update_check_name(op, api_object_meta(&body));
    return r < 0 ? r : create_body(op, &body);
}

static int patch_object(struct patching *p)
{
    struct op *op = p->op;
    struct api_object body = {0};
    int r = update_check_subresource(op);
    if (r < 0)
        return r;
    const struct object *old = op_head(op, op->request->name);
    if (p->type == REGISTRY_PATCH_APPLY)
        return apply_object(p, old);
    if (!old)
        return fail_not_found(op, op_subject(op, op->request->name));
    r = show_current(p, old);
    if (r == 0)
        r = apply_patch(p);
    if (r == 0)
        r = decode_result(p, &body);
    if (r < 0)
        return r;
    return p->kind->type == &api_scale_type ? scale_object(op, body.value, old)
                                            : update_body(op, &body, old);
}

void registry_patch(struct registry *reg, const struct registry_request *request,
                    enum registry_patch_type type, struct str patch, struct arena *arena,
                    registry_done_fn done, void *arg)
{
    struct patching p = {
        .op = op_new(reg, request, VERB_PATCH, arena, done, arg),
        .type = type,
        .patch = patch,
        .kind = str_eqz(request->subresource, "scale")
                    ? api_kind_find(STR("autoscaling/v1"), STR("Scale"))
                    : request->kind,
    };
    int r = patch_object(&p);
    json_strict_done(&p.strict);
    sbuf_done(&p.current);
    sbuf_done(&p.patched);
    op_finish(p.op, r);
}

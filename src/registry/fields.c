// SPDX-License-Identifier: Apache-2.0
//
// Who manages which fields, kept with every write; and server-side apply. The comparing and merging
// is done in api/managed; here is what is compared with what: the object as the request's version
// shows it, before admission and preparation, as in upstream.
#include <stdlib.h>

#include "api/field_walk.h"
#include "api/managed.h"
#include "base/mem.h"
#include "codec/yaml.h"
#include "registry/stage_int.h"

#include "base/banned.h"

// All annotations of an object together, as upstream.
#define ANNOTATIONS_BYTES_MAX ((size_t)256 * 1024)
// Entries that a client may set itself. The server keeps ten of those who update and one for each
// who applies; what is sent in thousands is there to be work.
#define GIVEN_MAX 100

// --- What a write cannot change ------------------------------------------------------------------

static void fields_ignore_path(struct op *op, struct field_set *s, const char *first,
                               const char *second)
{
    const struct field_elem a = {.kind = FIELD_NAME, .name = str_z(first)};
    const struct field_elem b = {.kind = FIELD_NAME, .name = str_z(second)};
    const struct field_path root = {NULL, &a}, below = {&root, &b};
    field_set_add(s, second ? &below : &root, op->arena);
}

static bool fields_has_status(const struct api_kind *kind)
{
    for (const char *const *s = kind->subresources; s && *s; s++)
        if (strcmp(*s, "status") == 0)
            return true;
    return false;
}

// The fields that the strategy of a resource, or of its status, sets back to what they were.
static struct field_set ignored_by(struct op *op)
{
    struct field_set s = {0};
    const struct api_kind *kind = op->stored->custom ? op->request->kind : op->stored;
    if (!str_eqz(op->request->subresource, "status")) {
        if (fields_has_status(kind))
            fields_ignore_path(op, &s, "status", NULL);
        return s;
    }
    fields_ignore_path(op, &s, "spec", NULL);
    if (str_eqz(kind->group, "resource.k8s.io") || str_eqz(kind->group, "scheduling.k8s.io")) {
        fields_ignore_path(op, &s, "metadata", NULL);
    } else if (kind->type == &api_pod_type) {
        fields_ignore_path(op, &s, "metadata", "deletionTimestamp");
        fields_ignore_path(op, &s, "metadata", "ownerReferences");
    } else if (kind->type == &api_deployment_type) {
        fields_ignore_path(op, &s, "metadata", "labels");
    }
    return s;
}

// --- Objects as JSON in the request's version ----------------------------------------------------

struct shown {
    struct sbuf text;
    struct json_doc doc;
};

static void shown_done(struct shown *s)
{
    json_doc_done(&s->doc);
    sbuf_done(&s->text);
}
#define cleanup_shown cleanup_with(shown_done)

// The registry wrote the text itself: no member of a struct or map is there twice.
static int shown_parse(struct shown *s, struct str text, struct err *err)
{
    const struct json_options options = {.max_bytes = SIZE_MAX, .duplicates = JSON_DUPLICATES_KEEP};
    return json_parse(text, &options, &s->doc, err);
}

// The stored form as it is, where the request speaks the same version.
static int show_stored(struct op *op, const struct object *o, struct shown *ret, struct err *err)
{
    if (op->request->kind == o->kind)
        return shown_parse(ret, o->json, err);
    int r = registry_json(o, op->request->kind, false, &ret->text, err);
    return r < 0 ? r : shown_parse(ret, sbuf_str(&ret->text), err);
}

static int show_typed(struct op *op, const struct api_object *object, struct shown *ret,
                      struct err *err)
{
    const struct api_kind *kind = op->request->kind;
    struct api_object out = *object;
    struct json_writer w = {.out = &ret->text};
    int r = 0;
    if (kind->type != object->kind->type)
        r = api_convert(object, kind, op->arena, &out, err);
    if (r == 0)
        r = api_json_write(kind->type, out.value, &w, err);
    return r < 0 ? r : shown_parse(ret, sbuf_str(&ret->text), err);
}

// A creation is compared with an object in which nothing is set. Built-in kinds keep theirs.
struct empty_object {
    const struct api_kind *kind;
    struct shown shown;
};

struct empty_objects {
    struct VEC(struct empty_object *) all;
};

static int show_empty(struct op *op, struct shown *ret, struct err *err)
{
    int r = managed_empty(op->request->kind, op->arena, &ret->text, err);
    return r < 0 ? r : shown_parse(ret, sbuf_str(&ret->text), err);
}

// empty_of finds the empty object of the request's kind, or makes it; in *own where it is not kept.
static int empty_of(struct op *op, struct shown *own, const yyjson_val **ret, struct err *err)
{
    const struct api_kind *kind = op->request->kind;
    struct registry *reg = op->reg;
    if (kind->custom || op->applied.apart) {
        int r = show_empty(op, own, err);
        *ret = own->doc.root;
        return r;
    }
    if (!reg->empty)
        reg->empty = xcalloc(1, sizeof(*reg->empty));
    vec_foreach(&reg->empty->all, e) {
        if ((*e)->kind == kind) {
            *ret = (*e)->shown.doc.root;
            return 0;
        }
    }
    struct empty_object *made = xcalloc(1, sizeof(*made));
    int r = show_empty(op, &made->shown, err);
    if (r < 0) {
        shown_done(&made->shown);
        free(made);
        return r;
    }
    made->kind = kind;
    vec_push(&reg->empty->all, made);
    *ret = made->shown.doc.root;
    return 0;
}

void fields_done(struct registry *reg)
{
    if (!reg->empty)
        return;
    vec_foreach(&reg->empty->all, e) {
        shown_done(&(*e)->shown);
        free(*e);
    }
    vec_done(&reg->empty->all);
    free(reg->empty);
}

static struct managed_request fields_managed_request(struct op *op, const struct field_set *ignored)
{
    return (struct managed_request){.kind = op->request->kind,
                                    .manager = op->request->field_manager,
                                    .subresource = op->request->subresource,
                                    .now = op->now.at,
                                    .force = op->request->force,
                                    .ignored = ignored};
}

// --- Every write ---------------------------------------------------------------------------------

// show_new shows a new object without its name and namespace: no manager is ever given these.
static int show_new(struct op *op, const struct api_object *object, struct shown *ret,
                    struct err *err)
{
    struct api_object_meta *meta = api_object_meta(object);
    struct str name = meta->name, namespace = meta->namespace;
    meta->name = meta->namespace = STR("");
    int r = show_typed(op, object, ret, err);
    meta->name = name;
    meta->namespace = namespace;
    return r;
}

static int work_out(struct op *op, const struct api_object *object, const struct object *old,
                    const struct api_managed_fields_entry_array *entries,
                    struct api_managed_fields_entry_array *ret)
{
    cleanup_shown struct shown before = {0}, after = {0};
    struct err err = {0};
    const struct field_set ignored = ignored_by(op);
    const struct managed_request q = fields_managed_request(op, &ignored);
    const yyjson_val *was = NULL;
    int r = old ? show_stored(op, old, &before, &err) : empty_of(op, &before, &was, &err);
    if (r == 0)
        r = old || entries->n ? show_typed(op, object, &after, &err)
                              : show_new(op, object, &after, &err);
    if (r == 0)
        r = managed_update(&q, old ? before.doc.root : was, after.doc.root, entries, op->arena, ret,
                           &err);
    return r;
}

void fields_manage(struct op *op, const struct api_object *object, const struct api_object *before,
                   const struct object *old)
{
    static const struct api_managed_fields_entry_array none;
    struct api_object_meta *meta = api_object_meta(object);
    struct api_managed_fields_entry_array given = meta->managed_fields, entries = none;
    const struct api_managed_fields_entry_array *live =
        before ? &api_object_meta(before)->managed_fields : &none;
    meta->managed_fields = none;
    if (op->applied.done) {
        meta->managed_fields = op->applied.entries;
        return;
    }
    // A client may set or drop the entries themselves, but not by way of a subresource.
    bool own = op->request->subresource.n == 0 && given.n && given.n <= GIVEN_MAX &&
               !managed_is_reset(&given);
    bool reset = op->request->subresource.n == 0 && managed_is_reset(&given);
    const struct api_managed_fields_entry_array *from = own ? &given : reset ? &none : live;
    // An object without managers gets none by an update.
    if (old && from->n == 0)
        return;
    int r = work_out(op, object, old, from, &entries);
    if (r < 0 && own)
        r = work_out(op, object, old, live, &entries);
    meta->managed_fields = r < 0 ? *live : entries;
}

static bool same_but_time(const struct api_managed_fields_entry_array *a,
                          const struct api_managed_fields_entry_array *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++) {
        const struct api_managed_fields_entry *x = &a->p[i], *y = &b->p[i];
        same = str_eq(x->manager, y->manager) && str_eq(x->operation, y->operation) &&
               str_eq(x->api_version, y->api_version) && str_eq(x->subresource, y->subresource) &&
               str_eq(x->fields_v1, y->fields_v1);
    }
    return same;
}

void fields_settle(const struct api_object *object, const struct api_object *before)
{
    struct api_object_meta *meta = api_object_meta(object);
    const struct api_object_meta *old = api_object_meta(before);
    struct api_managed_fields_entry_array entries = meta->managed_fields;
    if (!same_but_time(&entries, &old->managed_fields))
        return;
    meta->managed_fields = old->managed_fields;
    if (!api_equal(object->kind->type, object->value, before->value))
        meta->managed_fields = entries;
}

// --- Apply ---------------------------------------------------------------------------------------

static int parse_config(struct op *op, struct str text, struct json_doc *ret)
{
    struct err err = {0};
    const struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    struct str trimmed = str_trim(text);
    int r = trimmed.n && trimmed.p[0] == '{' ? json_parse(text, &options, ret, &err)
                                             : yaml_parse(text, &options, ret, &err);
    if (r == 0 && !json_is_object(ret->root))
        r = err_set(&err, ERR_BAD_REQUEST, "a configuration is an object, not %s",
                    json_type_name(ret->root));
    if (r == -ERR_TOO_LARGE) {
        op->status = api_status_too_large(op->arena, str_z(err.msg));
        return r;
    }
    return r < 0 ? fail_bad_request(op, "error decoding YAML: %s", err.msg) : 0;
}

static struct str fields_text_of(const yyjson_val *v, struct str key)
{
    const yyjson_val *m = json_get(v, key);
    return m && json_is_string(m) ? json_str(m) : STR("");
}

static int fields_check_config(struct op *op, const yyjson_val *config)
{
    const struct api_kind *kind = op->request->kind;
    struct str version = fields_text_of(config, STR("apiVersion")),
               name = fields_text_of(config, STR("kind"));
    struct str group, rest;
    if (!str_eq(version, kind->api_version) || !str_eq(name, kind->kind)) {
        if (!str_cut(version, '/', &group, &rest)) {
            rest = version;
            group = STR("");
        }
        return fail_bad_request(op, "invalid object type: %.*s/%.*s, Kind=%.*s", STR_ARG(group),
                                STR_ARG(rest), STR_ARG(name));
    }
    const yyjson_val *meta = json_get(config, STR("metadata"));
    const yyjson_val *entries = meta ? json_get(meta, STR("managedFields")) : NULL;
    if (entries && !json_is_null(entries))
        return fail_bad_request(op, "metadata.managedFields must be nil");
    return 0;
}

static int fail_conflicts(struct op *op, const struct managed_applied *a)
{
    struct arena *arena = op->arena;
    struct api_status *s = arena_one(arena, struct api_status);
    struct api_status_details *details = arena_one(arena, struct api_status_details);
    details->causes.p = arena_array(arena, struct api_status_cause, a->conflicts_len);
    for (size_t i = 0; i < a->conflicts_len; i++)
        details->causes.p[details->causes.n++] = (struct api_status_cause){
            STR("FieldManagerConflict"),
            arena_strf(arena, "conflict with %.*s", STR_ARG(a->conflicts[i].manager)),
            a->conflicts[i].field};
    *s = (struct api_status){.status = STR("Failure"),
                             .message =
                                 managed_conflict_message(a->conflicts, a->conflicts_len, arena),
                             .reason = STR("Conflict"),
                             .details = details,
                             .code = 409};
    op->status = s;
    return -ERR_CONFLICT;
}

// The annotation of kubectl's own apply, where there is one, follows. It may not make annotations
// too large.
static void keep_last_applied(struct op *op, struct api_object_meta *meta, const yyjson_val *config)
{
    struct api_str_entry *entry = NULL;
    size_t bytes = 0;
    for (size_t i = 0; i < meta->annotations.n; i++) {
        struct api_str_entry *e = &meta->annotations.p[i];
        bytes += e->key.n + e->value.n;
        if (str_eqz(e->key, MANAGED_LAST_APPLIED) && e->value.n)
            entry = e;
    }
    if (!entry)
        return;
    cleanup_sbuf struct sbuf text = {0};
    managed_last_write(config, op->arena, &text);
    bytes += text.n - entry->value.n;
    entry->value = arena_str(op->arena, sbuf_str(&text));
    if (bytes <= ANNOTATIONS_BYTES_MAX)
        return;
    meta->annotations.n--;
    for (; entry < meta->annotations.p + meta->annotations.n; entry++)
        entry[0] = entry[1];
}

// Lays the configuration over live. *ret is the whole object in the request's version.
static int fields_merge_config(struct op *op, const yyjson_val *live, const yyjson_val *config,
                               const struct api_managed_fields_entry_array *entries,
                               struct api_object *ret)
{
    struct managed_applied applied = {0};
    struct err err = {0};
    const struct field_set ignored = ignored_by(op);
    const struct managed_request q = fields_managed_request(op, &ignored);
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = SIZE_MAX};
    int r = managed_apply(&q, live, config, entries, op->arena, &applied, &err);
    if (r == 0 && applied.changed)
        r = json_parse(sbuf_str(&applied.object), &options, &doc, &err);
    const struct json_doc as_is = {.root = live};
    if (r == 0)
        r = api_decode_as(op->request->kind, doc.root ? &doc : &as_is, doc.root ? doc.root : live,
                          op->arena, NULL, ret, &err);
    sbuf_done(&applied.object);
    if (r == 0 && str_eqz(op->request->field_manager, "kubectl"))
        keep_last_applied(op, api_object_meta(ret), config);
    op->applied.done = r == 0;
    op->applied.entries = applied.entries;
    if (r == -ERR_CONFLICT)
        return fail_conflicts(op, &applied);
    return r < 0 ? fail_unknown(op, "%s", err.msg) : 0;
}

static int apply_new(struct op *op, const yyjson_val *config, struct api_object *ret)
{
    cleanup_shown struct shown empty = {0};
    struct err err = {0};
    const yyjson_val *meta = json_get(config, STR("metadata"));
    struct str uid = meta ? fields_text_of(meta, STR("uid")) : STR("");
    if (op->request->subresource.n)
        return fail_not_found(op, op_subject(op, op->request->name));
    if (uid.n)
        return fail_conflict(op, op_subject(op, op->request->name),
                             "uid mismatch: the provided object specified uid %.*s, and no "
                             "existing object was found",
                             STR_ARG(uid));
    const yyjson_val *was = NULL;
    if (empty_of(op, &empty, &was, &err) < 0)
        return fail_internal(op, "%s", err.msg);
    return fields_merge_config(op, was, config, &(struct api_managed_fields_entry_array){0}, ret);
}

static int apply_old(struct op *op, const yyjson_val *config, const struct object *old,
                     struct api_object *ret)
{
    cleanup_shown struct shown live = {0};
    struct api_object before = {0};
    struct err err = {0};
    int r = op_decode(op, old, &before);
    if (r == 0 && show_stored(op, old, &live, &err) < 0)
        r = fail_internal(op, "%s", err.msg);
    if (r == 0)
        r = fields_merge_config(op, live.doc.root, config,
                                &api_object_meta(&before)->managed_fields, ret);
    return r;
}

int fields_apply(struct op *op, struct str patch, const struct object *old, struct api_object *ret)
{
    cleanup_json_doc struct json_doc config = {0};
    int r = parse_config(op, patch, &config);
    if (r == 0)
        r = fields_check_config(op, config.root);
    if (r < 0)
        return r;
    return old ? apply_old(op, config.root, old, ret) : apply_new(op, config.root, ret);
}

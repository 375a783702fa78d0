// SPDX-License-Identifier: Apache-2.0
//
// Objects of kinds that users add: between bytes, trees and versions; preparation and validation.
#include "api/custom.h"

#include "api/validate/validate_int.h"

#include "base/banned.h"

// --- Bytes ---------------------------------------------------------------------------------------

static int custom_read_text(const yyjson_val *v, struct str key, struct arena *a, struct str *ret,
                            struct err *err)
{
    struct str text = {0};
    if (json_is_null(v))
        return 0;
    int r = json_to_str(v, &text, err);
    if (r < 0)
        return err_wrap(err, "%.*s", STR_ARG(key));
    *ret = arena_str(a, text);
    return 0;
}

int custom_json_read(const struct api_custom *c, const struct json_doc *doc, const yyjson_val *v,
                     void *out, struct arena *arena, struct json_strict *strict, struct err *err)
{
    struct custom_object *o = out;
    int r = json_want_object(v, err);
    if (r < 0)
        return r;
    json_obj_foreach(v, key, value) {
        struct str name = json_str(key);
        size_t mark = json_strict_field(strict, name);
        if (str_eqz(name, "metadata")) {
            o->metadata = (struct api_object_meta){0};
            if (!json_is_null(value))
                r = api_json_read(&api_object_meta_type, doc, value, &o->metadata, arena, strict,
                                  err);
        } else if (str_eqz(name, "kind")) {
            r = custom_read_text(value, name, arena, &o->kind, err);
        } else if (str_eqz(name, "apiVersion")) {
            r = custom_read_text(value, name, arena, &o->api_version, err);
        } else {
            json_strict_walk(strict, value);
        }
        json_strict_back(strict, mark);
        if (r < 0)
            return r;
    }
    o->content = dyn_of(v, arena);
    dyn_remove(&o->content, STR("apiVersion"));
    dyn_remove(&o->content, STR("kind"));
    dyn_remove(&o->content, STR("metadata"));
    if (c->schema)
        crd_prune(&o->content, c->schema->root, true, strict);
    return 0;
}

int custom_json_write(const void *in, struct json_writer *w, struct err *err)
{
    const struct custom_object *o = in;
    json_write_object_begin(w);
    if (o->kind.n) {
        json_write_key(w, STR("kind"));
        json_write_str(w, o->kind);
    }
    if (o->api_version.n) {
        json_write_key(w, STR("apiVersion"));
        json_write_str(w, o->api_version);
    }
    json_write_key(w, STR("metadata"));
    int r = api_json_write(&api_object_meta_type, &o->metadata, w, err);
    for (size_t i = 0; r == 0 && i < o->content.members_len; i++) {
        json_write_key(w, o->content.members[i].key);
        dyn_write(&o->content.members[i].value, w);
    }
    json_write_object_end(w);
    return r;
}

void custom_copy(const void *in, void *out, struct arena *arena)
{
    const struct custom_object *from = in;
    struct custom_object *to = out;
    to->content = dyn_copy(&from->content, arena);
    to->cut = from->cut;
}

bool custom_equal(const void *a, const void *b)
{
    const struct custom_object *x = a, *y = b;
    return dyn_equal(&x->content, &y->content);
}

void custom_default(const struct api_custom *c, void *value, struct arena *arena)
{
    struct custom_object *o = value;
    if (o->content.type != DYN_OBJECT)
        o->content = (struct dyn){.type = DYN_OBJECT};
    if (c->schema && !crd_default(&o->content, c->schema->root, arena))
        o->cut = true;
}

void custom_fit(const struct api_kind *version, struct custom_object *o, struct arena *a)
{
    if (!version->custom->schema)
        return;
    crd_prune(&o->content, version->custom->schema->root, true, NULL);
    if (!crd_default(&o->content, version->custom->schema->root, a))
        o->cut = true;
}

int custom_convert(const struct api_object *in, const struct api_kind *to, struct arena *arena,
                   struct api_object *ret)
{
    struct custom_object *o = arena_one(arena, struct custom_object);
    api_copy(in->kind->type, in->value, o, arena);
    *ret = (struct api_object){to, o};
    custom_fit(to, o, arena);
    api_set_type_meta(ret);
    return 0;
}

// --- Rules ---------------------------------------------------------------------------------------

struct dyn custom_whole(const struct custom_object *o, const struct api_kind *as, struct arena *a)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    struct json_writer w = {.out = &text};
    struct dyn whole = o->content, meta = {.type = DYN_OBJECT};
    if (api_json_write(&api_object_meta_type, &o->metadata, &w, NULL) == 0 &&
        json_parse(sbuf_str(&text), &(struct json_options){.max_bytes = SIZE_MAX}, &doc, NULL) == 0)
        meta = dyn_of(doc.root, a);
    dyn_set(&whole, STR("apiVersion"), dyn_str(as->api_version), a);
    dyn_set(&whole, STR("kind"), dyn_str(as->kind), a);
    dyn_set(&whole, STR("metadata"), meta, a);
    return whole;
}

const struct dyn *custom_at(const struct dyn *whole, struct str path)
{
    const struct dyn *v = whole;
    for (struct str step; path.n && v;) {
        if (path.p[0] == '.')
            path = str_from(path, 1);
        str_cut(path, '.', &step, &path);
        v = dyn_get(v, step);
    }
    return v;
}

static void keep_status(struct custom_object *o, const struct custom_object *old, struct arena *a)
{
    const struct dyn *status = old ? dyn_get(&old->content, STR("status")) : NULL;
    if (status)
        dyn_set(&o->content, STR("status"), *status, a);
    else
        dyn_remove(&o->content, STR("status"));
}

// A status update changes nothing but the status.
static void keep_all_but_status(struct custom_object *o, const struct custom_object *old,
                                struct arena *a)
{
    const struct dyn *status = dyn_get(&o->content, STR("status"));
    struct dyn content = old->content;
    content.members = arena_dup(a, content.members, content.members_len * sizeof(*content.members),
                                _Alignof(struct dyn_member));
    dyn_remove(&content, STR("status"));
    if (status)
        dyn_set(&content, STR("status"), *status, a);
    struct api_managed_fields_entry_array entries = o->metadata.managed_fields;
    struct str version = o->metadata.resource_version;
    o->metadata = old->metadata;
    o->metadata.managed_fields = entries;
    o->metadata.resource_version = version;
    o->content = content;
}

void custom_prepare(enum api_op op, const struct api_object *object, const struct api_object *old,
                    const struct api_kind *version, struct arena *a)
{
    struct custom_object *o = object->value;
    const struct custom_object *before = old ? old->value : NULL;
    if (op == API_STATUS_UPDATE) {
        if (before)
            keep_all_but_status(o, before, a);
        return;
    }
    if (version->custom->has_status)
        keep_status(o, before, a);
    if (!before)
        o->metadata.generation = 1;
    else
        o->metadata.generation =
            before->metadata.generation + (dyn_equal(&o->content, &before->content) ? 0 : 1);
}

// Errors after which rules are not asked.
static bool is_blocking(const struct causes *c, size_t from)
{
    for (size_t i = from; i < c->n; i++) {
        enum cause_type t = c->p[i].type;
        if (t == CAUSE_NOT_SUPPORTED || t == CAUSE_REQUIRED || t == CAUSE_TOO_LONG ||
            t == CAUSE_TOO_MANY || t == CAUSE_TYPE_INVALID)
            return true;
    }
    return false;
}

static void check_scale(const struct api_custom *c, const struct dyn *whole, struct causes *causes)
{
    const struct {
        struct str path;
        bool text;
    } parts[] = {{c->spec_replicas, false}, {c->status_replicas, false}, {c->label_selector, true}};
    for (size_t i = 0; i < array_len(parts); i++) {
        const struct dyn *v = parts[i].path.n ? custom_at(whole, parts[i].path) : NULL;
        const struct path *at = AT_NAME(NULL, parts[i].path);
        cleanup_sbuf struct sbuf shown = {0};
        if (!v || v->type == DYN_NULL)
            continue;
        dyn_text(v, &shown);
        if (parts[i].text && v->type == DYN_STR && v->text.n > 1024)
            cause_too_long(causes, at, 1024);
        if (!parts[i].text && v->type == DYN_INT && v->number < 0)
            cause_invalid_json(causes, at, sbuf_str(&shown),
                               STR("should be a non-negative integer"));
        else if (!parts[i].text && v->type == DYN_INT && v->number > INT32_MAX)
            cause_invalid_json(causes, at, sbuf_str(&shown),
                               arena_strf(causes->arena, "should be less than or equal to %d",
                                          INT32_MAX));
    }
}

static void custom_check_schema(enum api_op op, const struct api_object *object,
                                const struct api_object *old, const struct api_kind *version,
                                struct causes *causes)
{
    const struct crd_node *root = version->custom->schema->root;
    struct arena *a = causes->arena;
    struct dyn whole = custom_whole(object->value, version, a), before = {0};
    const struct dyn *was = NULL;
    size_t from = causes->n;
    if (old) {
        before = custom_whole(old->value, version, a);
        was = &before;
    }
    crd_validate(&whole, was, root, causes);
    if (version->custom->has_scale && op != API_STATUS_UPDATE)
        check_scale(version->custom, &whole, causes);
    crd_check_embedded(&whole, root, NULL, causes);
    struct causes old_lists = {.arena = a};
    if (was)
        crd_check_lists(was, root, NULL, &old_lists);
    if (old_lists.n == 0)
        crd_check_lists(&whole, root, NULL, causes);
    if (!root->any_rules)
        return;
    if (!is_blocking(causes, from)) {
        crd_rules(&whole, was, root, causes);
        return;
    }
    cause_add(causes, CAUSE_INVALID, AT(NULL, "<nil>"), STR("null"),
              STR("some validation rules were not checked because the object was invalid; "
                  "correct the existing errors to complete validation"));
}

void custom_validate(enum api_op op, const struct api_object *object, const struct api_object *old,
                     const struct api_kind *version, struct causes *causes)
{
    struct validator v = {.causes = causes, .op = op, .version = version};
    const struct api_object_meta *meta = api_object_meta(object);
    if (((const struct custom_object *)object->value)->cut) {
        cause_forbidden(causes, AT(NULL, "<nil>"),
                        STR("the defaults of its schema would make it too large"));
        return;
    }
    if (old)
        validate_object_meta_update(&v, meta, api_object_meta(old));
    else
        validate_object_meta(&v, meta, version->namespaced,
                             &(struct name_rule){.check = name_dns_subdomain});
    if (version->custom->schema)
        custom_check_schema(op, object, old, version, causes);
}

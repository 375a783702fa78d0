// SPDX-License-Identifier: Apache-2.0
//
// Whether a configuration is one: the errors structured-merge-diff reports before it merges a
// value.
#include "api/field_walk.h"
#include "base/vec.h"
#include "codec/json_writer.h"

#include "base/banned.h"

struct checking {
    struct arena *arena;
    struct VEC(struct str) errors;
};

// More are not listed.
#define ERRORS_MAX ((size_t)64)

static void field_check_add_error(struct checking *c, const struct field_path *path,
                                  const char *why)
{
    cleanup_sbuf struct sbuf text = {0};
    if (c->errors.n == ERRORS_MAX)
        return;
    field_path_write(path, &text);
    sbuf_addf(&text, "%s%s", text.n ? ": " : "", why);
    vec_push_arena(c->arena, &c->errors, arena_str(c->arena, sbuf_str(&text)));
}

static void field_check_value(struct checking *c, const struct field_type *t, const yyjson_val *v,
                              const struct field_path *path);

// As Go's %v shows decoded JSON, more or less.
static void complain_of(struct checking *c, const struct field_path *path, const char *want,
                        const yyjson_val *v)
{
    cleanup_sbuf struct sbuf text = {0}, value = {0};
    struct json_writer w = {.out = &value};
    json_write_value(&w, v);
    sbuf_addf(&text, "expected %s, got %.*s", want, STR_ARG(str_upto(sbuf_str(&value), 100)));
    field_check_add_error(c, path, text.p);
}

static void check_scalar(struct checking *c, const struct api_field *f, const yyjson_val *v,
                         const struct field_path *path)
{
    enum json_type t = json_type(v);
    bool number = t == JSON_INT || t == JSON_UINT || t == JSON_DOUBLE || t == JSON_BIG;
    if (t == JSON_NULL)
        return;
    if (f->elem == API_I32 || f->elem == API_I64) {
        if (!number)
            complain_of(c, path, "numeric (int or float)", v);
    } else if (f->elem == API_STR || f->elem == API_BYTES) {
        if (t != JSON_STRING)
            complain_of(c, path, "string", v);
    } else if (f->elem == API_BOOL) {
        if (t != JSON_BOOL)
            complain_of(c, path, "boolean", v);
    } else if (f->elem != API_RAW && f->elem != API_FIELDS && f->elem != API_STRLIST &&
               json_is_container(v)) {
        complain_of(c, path, "any scalar", v);
    }
}

static void check_members(struct checking *c, const struct api_type *type,
                          const struct field_type *item, const yyjson_val *v,
                          const struct field_path *path)
{
    if (json_is_null(v))
        return;
    if (!json_is_object(v)) {
        complain_of(c, path, "map", v);
        return;
    }
    json_obj_foreach(v, key, value) {
        const struct field_elem e = {.kind = FIELD_NAME, .name = json_str(key)};
        const struct field_path below = {path, &e};
        struct field_type bt = {0};
        if (item)
            bt = *item;
        else
            bt.field = api_type_field(type, e.name);
        if (!bt.field) {
            field_check_add_error(c, &below, "field not declared in schema");
            return; // as upstream
        }
        field_check_value(c, &bt, value, &below);
    }
}

static void field_check_items(struct checking *c, const struct field_type *t, const yyjson_val *v,
                              const struct field_path *path)
{
    enum field_shape shape = field_shape_of(t);
    bool keyed = shape == SHAPE_LIST_MAP || shape == SHAPE_LIST_SET;
    const struct field_type bt = {.field = t->field, .item = true};
    struct field_set seen = {0};
    int64_t at = 0;
    if (json_is_null(v))
        return;
    if (!json_is_array(v)) {
        complain_of(c, path, "list", v);
        return;
    }
    json_arr_foreach(v, item) {
        struct field_elem e = {.kind = FIELD_INDEX, .index = at};
        struct err err = {0};
        cleanup_sbuf struct sbuf why = {0};
        if (keyed && field_item_elem(t, item, c->arena, &e, &err) < 0) {
            sbuf_addf(&why, "element %lld: %s", (long long)at, err.msg);
            field_check_add_error(c, path, why.p);
            return;
        }
        if (keyed) {
            struct field_node *n = field_set_at(&seen, &e, c->arena);
            if (n->member) {
                sbuf_addz(&why, "duplicate entries for key ");
                field_path_write(&(struct field_path){NULL, &e}, &why);
                field_check_add_error(c, path, why.p);
            }
            n->member = true;
        }
        const struct field_path below = {path, &e};
        field_check_value(c, &bt, item, &below);
        at++;
    }
}

static void field_check_value(struct checking *c, const struct field_type *t, const yyjson_val *v,
                              const struct field_path *path)
{
    const struct api_field *f = t->field;
    const struct field_type item = {.field = f, .item = true};
    if (!f)
        check_members(c, t->type, NULL, v, path);
    else if (!t->item && f->shape == API_LIST)
        field_check_items(c, t, v, path);
    else if (!t->item && f->shape == API_MAP)
        check_members(c, NULL, &item, v, path);
    else if (f->elem == API_STRUCT)
        check_members(c, f->sub, NULL, v, path);
    else
        check_scalar(c, f, v, path);
}

int field_check(const struct field_type *t, const yyjson_val *v, struct arena *a, struct err *err)
{
    struct checking c = {.arena = a};
    field_check_value(&c, t, v, NULL);
    if (c.errors.n == 0)
        return 0;
    if (c.errors.n == 1)
        return err_set(err, ERR_INVALID, "%.*s", STR_ARG(c.errors.p[0]));
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, "errors:");
    vec_foreach(&c.errors, e)
        sbuf_addf(&text, "\n  %.*s", STR_ARG(*e));
    return err_set(err, ERR_INVALID, "%s", text.p);
}

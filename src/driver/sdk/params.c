// SPDX-License-Identifier: Apache-2.0
//
// Opaque parameters: JSON that users write, read by a table. Everything the table does not know is
// an error, because a setting that is silently ignored costs more than one that is refused.
#include <stdlib.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/err_public.h"
#include "codec/json.h"
#include "codec/json_writer.h"
#include "codec/quantity.h"
#include "dray/driver.h"

#include "base/banned.h"

enum { PARAMS_BYTES_MAX = 64 * 1024, PARAMS_DEPTH_MAX = 16 };

struct dray_params {
    struct arena arena;
    void *value;
};

static int read_fields(const struct dray_field *fields, const yyjson_val *v, void *out, int depth,
                       struct arena *a, struct err *err);

static int at_field(int code, struct str name, struct err *err)
{
    if (code != 0)
        err_path_field(err, name.p, name.n);
    return code;
}

static void *params_field_address(void *out, size_t offset)
{
    return (char *)out + offset;
}

static int params_read_text(const yyjson_val *v, struct arena *a, const char **ret, struct err *err)
{
    struct str s;
    int r = json_to_str(v, &s, err);
    if (r == 0 && str_find_char(s, '\0') >= 0)
        return err_set(err, ERR_INVALID, "a text must not hold a NUL character");
    if (r == 0)
        *ret = arena_str(a, s).p;
    return r;
}

// A key goes to the driver as a C string: one that ends early would be another key.
static int params_read_key(const yyjson_val *key, struct arena *a, const char **ret,
                           struct err *err)
{
    if (str_find_char(json_str(key), '\0') >= 0)
        return err_set(err, ERR_INVALID, "a key must not hold a NUL character");
    *ret = arena_str(a, json_str(key)).p;
    return 0;
}

static int check_quantity(const char *text, struct err *err)
{
    cleanup_arena struct arena scratch = {0};
    struct quantity q;
    return quantity_parse(str_z(text), &scratch, &q, err);
}

// A quantity may be written as a number, as everywhere in Kubernetes.
static int params_read_quantity(const yyjson_val *v, struct arena *a, const char **ret,
                                struct err *err)
{
    int64_t number;
    if (json_to_i64(v, &number, NULL) == 0) {
        *ret = arena_strf(a, "%lld", (long long)number).p;
        return 0;
    }
    int r = params_read_text(v, a, ret, err);
    return r == 0 ? check_quantity(*ret, err) : r;
}

static int params_read_choice(const struct dray_field *f, const yyjson_val *v, struct arena *a,
                              const char **ret, struct err *err)
{
    const char *text;
    int r = params_read_text(v, a, &text, err);
    if (r != 0)
        return r;
    cleanup_sbuf struct sbuf all = {0};
    for (size_t i = 0; f->choices && f->choices[i]; i++) {
        if (strcmp(f->choices[i], text) == 0) {
            *ret = f->choices[i];
            return 0;
        }
        sbuf_addf(&all, "%s%s", i ? ", " : "", f->choices[i]);
    }
    return err_set(err, ERR_INVALID, "\"%.64s\" is not one of: %s", text, all.p ? all.p : "");
}

static int params_read_int(const struct dray_field *f, const yyjson_val *v, int64_t *ret,
                           struct err *err)
{
    int r = json_to_i64(v, ret, err);
    if (r == 0 && f->min != f->max && (*ret < f->min || *ret > f->max))
        return err_set(err, ERR_INVALID, "%lld is not within %lld and %lld", (long long)*ret,
                       (long long)f->min, (long long)f->max);
    return r;
}

static int params_read_texts(const yyjson_val *v, struct arena *a, struct dray_texts *ret,
                             struct err *err)
{
    int r = json_want_array(v, err);
    if (r != 0)
        return r;
    const char **all = arena_array(a, const char *, json_len(v));
    size_t n = 0;
    json_arr_foreach(v, item) {
        r = params_read_text(item, a, &all[n], err);
        if (r != 0) {
            err_path_index(err, n);
            return r;
        }
        n++;
    }
    *ret = (struct dray_texts){all, n};
    return 0;
}

static int params_read_map(const struct dray_field *f, const yyjson_val *v, struct arena *a,
                           struct dray_map *ret, struct err *err)
{
    int r = json_want_object(v, err);
    if (r != 0)
        return r;
    struct dray_amount *all = arena_array(a, struct dray_amount, json_len(v));
    size_t n = 0;
    json_obj_foreach(v, key, value) {
        r = params_read_key(key, a, &all[n].name, err);
        if (r == 0)
            r = f->of_quantities ? params_read_quantity(value, a, &all[n].quantity, err)
                                 : params_read_text(value, a, &all[n].quantity, err);
        if (r != 0) {
            err_path_key(err, json_str(key).p, json_str(key).n);
            return r;
        }
        n++;
    }
    *ret = (struct dray_map){all, n};
    return 0;
}

static int params_read_flags(const yyjson_val *v, struct arena *a, struct dray_flags *ret,
                             struct err *err)
{
    int r = json_want_object(v, err);
    if (r != 0)
        return r;
    struct dray_flag *all = arena_array(a, struct dray_flag, json_len(v));
    size_t n = 0;
    json_obj_foreach(v, key, value) {
        r = params_read_key(key, a, &all[n].name, err);
        if (r == 0)
            r = json_to_bool(value, &all[n].on, err);
        if (r != 0) {
            err_path_key(err, json_str(key).p, json_str(key).n);
            return r;
        }
        n++;
    }
    *ret = (struct dray_flags){all, n};
    return 0;
}

static int read_opt_int(const struct dray_field *f, const yyjson_val *v, struct arena *a,
                        const int64_t **ret, struct err *err)
{
    int64_t *made = arena_one(a, int64_t);
    *ret = made;
    return params_read_int(f, v, made, err);
}

static int read_opt_bool(const yyjson_val *v, struct arena *a, const bool **ret, struct err *err)
{
    bool *made = arena_one(a, bool);
    *ret = made;
    return json_to_bool(v, made, err);
}

static int read_objects(const struct dray_field *f, const yyjson_val *v, int depth, struct arena *a,
                        struct dray_objects *ret, struct err *err)
{
    int r = json_want_array(v, err);
    if (r != 0)
        return r;
    char *all = arena_alloc_array(a, json_len(v), f->size, _Alignof(max_align_t));
    size_t n = 0;
    json_arr_foreach(v, item) {
        r = read_fields(f->fields, item, all + n * f->size, depth + 1, a, err);
        if (r != 0) {
            err_path_index(err, n);
            return r;
        }
        n++;
    }
    *ret = (struct dray_objects){all, n};
    return 0;
}

static int params_read_object(const struct dray_field *f, const yyjson_val *v, int depth,
                              struct arena *a, void **ret, struct err *err)
{
    *ret = arena_alloc(a, f->size, _Alignof(max_align_t));
    return read_fields(f->fields, v, *ret, depth + 1, a, err);
}

static int params_read_raw(const yyjson_val *v, struct arena *a, const char **ret)
{
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    json_write_value(&w, v);
    *ret = arena_str(a, sbuf_str(&out)).p;
    return 0;
}

static int params_read_one(const struct dray_field *f, const yyjson_val *v, void *to, int depth,
                           struct arena *a, struct err *err)
{
    switch (f->kind) {
    case DRAY_TEXT:
        return params_read_text(v, a, to, err);
    case DRAY_INT:
        return params_read_int(f, v, to, err);
    case DRAY_BOOL:
        return json_to_bool(v, to, err);
    case DRAY_QUANTITY:
        return params_read_quantity(v, a, to, err);
    case DRAY_CHOICE:
        return params_read_choice(f, v, a, to, err);
    case DRAY_OBJECT:
        return params_read_object(f, v, depth, a, to, err);
    case DRAY_TEXTS:
        return params_read_texts(v, a, to, err);
    case DRAY_MAP:
        return params_read_map(f, v, a, to, err);
    case DRAY_OBJECTS:
        return read_objects(f, v, depth, a, to, err);
    case DRAY_RAW:
        return params_read_raw(v, a, to);
    case DRAY_OPT_INT:
        return read_opt_int(f, v, a, to, err);
    case DRAY_OPT_BOOL:
        return read_opt_bool(v, a, to, err);
    case DRAY_FLAGS:
        return params_read_flags(v, a, to, err);
    }
    return err_set(err, ERR_INTERNAL, "the driver's table has a field of no kind");
}

static const struct dray_field *params_find_field(const struct dray_field *fields, struct str name)
{
    for (; fields && fields->name; fields++)
        if (str_eqz(name, fields->name))
            return fields;
    return NULL;
}

static int params_unknown_field(const struct dray_field *fields, struct err *err)
{
    cleanup_sbuf struct sbuf all = {0};
    for (size_t i = 0; fields && fields[i].name; i++)
        sbuf_addf(&all, "%s%s", i ? ", " : "", fields[i].name);
    return err_set(err, ERR_INVALID, "unknown field; known are: %s", all.n ? all.p : "none");
}

static int read_fields(const struct dray_field *fields, const yyjson_val *v, void *out, int depth,
                       struct arena *a, struct err *err)
{
    int r = json_want_object(v, err);
    if (r == 0 && depth > PARAMS_DEPTH_MAX)
        r = err_set(err, ERR_INVALID, "nested too deep");
    if (r != 0)
        return r;
    json_obj_foreach(v, key, value) {
        struct str name = json_str(key);
        bool type_meta =
            depth == 0 && (str_eq(name, STR("apiVersion")) || str_eq(name, STR("kind")));
        const struct dray_field *f = params_find_field(fields, name);
        if (!f && type_meta)
            continue;
        if (!f)
            return at_field(params_unknown_field(fields, err), name, err);
        if (json_is_null(value))
            continue; // as Go: the field stays as it is
        r = at_field(params_read_one(f, value, params_field_address(out, f->offset), depth, a, err),
                     name, err);
        if (r != 0)
            return r;
    }
    for (const struct dray_field *f = fields; f && f->name; f++) {
        const yyjson_val *there = json_get(v, str_z(f->name));
        if (f->required && (!there || json_is_null(there)))
            return at_field(err_set(err, ERR_INVALID, "is required"), str_z(f->name), err);
    }
    return 0;
}

// --- Which schema --------------------------------------------------------------------------------

static bool params_value_is(const yyjson_val *v, const char *want)
{
    return want ? v && json_is_string(v) && str_eqz(json_str(v), want) : !v;
}

static int no_schema(const yyjson_val *version, const yyjson_val *kind,
                     const struct dray_schema *schemas, size_t n, struct err *err)
{
    cleanup_sbuf struct sbuf all = {0};
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&all, "%s%s %s", i ? ", " : "",
                  schemas[i].api_version ? schemas[i].api_version : "(none)",
                  schemas[i].kind ? schemas[i].kind : "");
    struct str v = version && json_is_string(version) ? json_str(version) : STR("");
    struct str k = kind && json_is_string(kind) ? json_str(kind) : STR("");
    int r = err_set(err, ERR_INVALID,
                    "parameters of apiVersion \"%.*s\" and kind \"%.*s\" are not "
                    "known to this driver; it knows: %s",
                    STR_ARG(str_upto(v, 64)), STR_ARG(str_upto(k, 64)), all.p ? all.p : "none");
    return r;
}

static const struct dray_schema *params_choose_schema(const yyjson_val *root,
                                                      const struct dray_schema *schemas, size_t n,
                                                      struct err *err)
{
    const yyjson_val *version = json_get(root, STR("apiVersion"));
    const yyjson_val *kind = json_get(root, STR("kind"));
    for (size_t i = 0; i < n; i++)
        if (params_value_is(version, schemas[i].api_version) &&
            params_value_is(kind, schemas[i].kind))
            return &schemas[i];
    (void)no_schema(version, kind, schemas, n, err);
    return NULL;
}

static int params_decode_object(struct str json, const struct dray_schema *schemas, size_t n,
                                const struct dray_schema **ret_schema, struct dray_params *p,
                                struct err *err)
{
    const struct json_options options = {.max_bytes = PARAMS_BYTES_MAX};
    cleanup_json_doc struct json_doc doc = {0};
    int r = json_parse(json, &options, &doc, err);
    if (r == 0)
        r = json_want_object(doc.root, err);
    if (r != 0)
        return r;
    const struct dray_schema *schema = params_choose_schema(doc.root, schemas, n, err);
    if (!schema)
        return -ERR_INVALID;
    p->value = arena_alloc(&p->arena, schema->size, _Alignof(max_align_t));
    *ret_schema = schema;
    return read_fields(schema->fields, doc.root, p->value, 0, &p->arena, err);
}

int dray_decode(const char *json, const struct dray_schema *schemas, size_t schemas_len,
                const struct dray_schema **ret_schema, struct dray_params **ret,
                struct dray_error *err)
{
    struct dray_params *p = xcalloc(1, sizeof(*p));
    struct err why = {0};
    const struct dray_schema *schema = NULL;
    if (params_decode_object(str_z(json), schemas, schemas_len, &schema, p, &why) != 0) {
        dray_params_free(p);
        return err_to_public(err, &why);
    }
    if (ret_schema)
        *ret_schema = schema;
    *ret = p;
    return 0;
}

const void *dray_params_value(const struct dray_params *p)
{
    return p->value;
}

void dray_params_free(struct dray_params *p)
{
    if (!p)
        return;
    arena_done(&p->arena);
    free(p);
}

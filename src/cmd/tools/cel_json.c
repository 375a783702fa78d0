// SPDX-License-Identifier: Apache-2.0
//
// CEL values and types as the JSON of `dray cel --jsonl`, in both directions.
#include "cmd/tools/cel_json.h"

#include "base/vec.h"
#include "cel/text.h"
#include "codec/base64.h"
#include "codec/json_writer.h"

#include "base/banned.h"

static void write_text_of(struct json_writer *w, const char *name, struct cel_val v)
{
    cleanup_sbuf struct sbuf b = {0};
    cel_write(v, &b);
    json_write_text(w, name, sbuf_str(&b));
}

static void write_double(struct json_writer *w, struct cel_val v)
{
    write_text_of(w, "double", v);
}

static void cel_json_write_list(struct json_writer *w, const struct cel_list *l)
{
    json_write_key(w, STR("list"));
    json_write_array_begin(w);
    for (uint32_t i = 0; i < l->n; i++)
        cel_json_write_value(w, l->items[i]);
    json_write_array_end(w);
}

static void cel_json_write_map(struct json_writer *w, const struct cel_map *m)
{
    json_write_key(w, STR("map"));
    json_write_array_begin(w);
    for (uint32_t i = 0; i < m->n; i++) {
        json_write_array_begin(w);
        cel_json_write_value(w, m->entries[i].key);
        cel_json_write_value(w, m->entries[i].value);
        json_write_array_end(w);
    }
    json_write_array_end(w);
}

static void cel_json_write_bytes(struct json_writer *w, struct cel_val v)
{
    cleanup_sbuf struct sbuf b = {0};
    base64_encode(cel_str(v), BASE64_STD, &b);
    json_write_text(w, "bytes", sbuf_str(&b));
}

static void write_optional(struct json_writer *w, struct cel_val v)
{
    json_write_key(w, STR("optional"));
    if (v.opt)
        cel_json_write_value(w, *v.opt);
    else
        json_write_null(w);
}

static void write_flag(struct json_writer *w, const char *name, bool b)
{
    json_write_key(w, str_z(name));
    json_write_bool(w, b);
}

void cel_json_write_value(struct json_writer *w, struct cel_val v)
{
    static const char *const names[CEL_KINDS] = {
        [CEL_INT] = "int",
        [CEL_UINT] = "uint",
        [CEL_STRING] = "string",
        [CEL_TYPE] = "type",
        [CEL_TIMESTAMP] = "timestamp",
        [CEL_QUANTITY] = "quantity",
        [CEL_SEMVER] = "semver",
        [CEL_IP] = "ip",
        [CEL_CIDR] = "cidr",
        [CEL_URL] = "url",
        [CEL_FORMAT] = "format",
    };
    json_write_object_begin(w);
    switch (v.kind) {
    case CEL_NULL:
        write_flag(w, "null", true);
        break;
    case CEL_BOOL:
        write_flag(w, "bool", v.b);
        break;
    case CEL_DOUBLE:
        write_double(w, v);
        break;
    case CEL_BYTES:
        cel_json_write_bytes(w, v);
        break;
    case CEL_LIST:
        cel_json_write_list(w, v.list);
        break;
    case CEL_MAP:
        cel_json_write_map(w, v.map);
        break;
    case CEL_TIMESTAMP:
        v.spare = 0; // shown in UTC
        write_text_of(w, "timestamp", v);
        break;
    case CEL_DURATION:
        write_text_of(w, "duration", cel_int(v.i));
        break;
    case CEL_OPTIONAL:
        write_optional(w, v);
        break;
    case CEL_TYPE:
        json_write_text(w, "type", v.type->name);
        break;
    default:
        write_text_of(w, names[v.kind] ? names[v.kind] : "unknown", v);
        break;
    }
    json_write_object_end(w);
}

static int cel_json_reject(struct err *err, const char *what)
{
    return err_set(err, ERR_BAD_REQUEST, "%s", what);
}

static int read_container(const yyjson_val *v, bool map, struct arena *a, struct cel_val *ret,
                          struct err *err)
{
    if (!json_is_array(v))
        return cel_json_reject(err, "a list or map value must be an array");
    struct cel_list *l = cel_list_new(a, 0);
    struct cel_map *m = cel_map_new(a, 0);
    json_arr_foreach(v, item) {
        struct cel_val key = {0}, value = {0};
        if (map && (!json_is_array(item) || json_len(item) != 2))
            return cel_json_reject(err, "an entry of a map must be a pair");
        const yyjson_val *first = map ? json_arr_first(item) : item;
        int r = cel_json_read_value(first, a, &key, err);
        if (r == 0 && map)
            r = cel_json_read_value(json_next(first), a, &value, err);
        if (r < 0)
            return r;
        if (map)
            (void)cel_map_set(a, m, key, value);
        else
            cel_list_push(a, l, key);
    }
    *ret = map ? cel_map_value(m) : cel_list_value(l);
    return 0;
}

static int cel_json_read_text(struct str kind, struct str text, struct arena *a,
                              struct cel_val *ret, struct err *err)
{
    int64_t i;
    uint64_t u;
    double d;
    if (str_eqz(kind, "string")) {
        *ret = cel_string(arena_str(a, text));
    } else if (str_eqz(kind, "int") && str_to_i64(text, &i) == 0) {
        *ret = cel_int(i);
    } else if (str_eqz(kind, "uint") && str_to_u64(text, &u) == 0) {
        *ret = cel_uint(u);
    } else if (str_eqz(kind, "double") && cel_text_read_double(text, &d)) {
        *ret = cel_double(d);
    } else if (str_eqz(kind, "duration") && str_to_i64(text, &i) == 0) {
        *ret = cel_duration(i);
    } else if (str_eqz(kind, "bytes")) {
        cleanup_sbuf struct sbuf b = {0};
        int r = base64_decode(text, BASE64_STD, &b, err);
        if (r < 0)
            return r;
        *ret = cel_bytes(arena_str(a, sbuf_str(&b)));
    } else if (str_eqz(kind, "type") && cel_env_named_type(text)) {
        *ret = cel_type_value(cel_env_named_type(text));
    } else {
        return err_set(err, ERR_BAD_REQUEST, "cannot read a value of kind %.*s", STR_ARG(kind));
    }
    return 0;
}

int cel_json_read_value(const yyjson_val *v, struct arena *a, struct cel_val *ret, struct err *err)
{
    if (!json_is_object(v) || json_len(v) != 1)
        return cel_json_reject(err,
                               "a value must be an object with one key, such as {\"int\":\"1\"}");
    const yyjson_val *key = json_obj_first(v);
    const yyjson_val *val = key + 1;
    struct str kind = json_str(key);
    if (str_eqz(kind, "null")) {
        *ret = cel_null;
        return 0;
    }
    if (str_eqz(kind, "list") || str_eqz(kind, "map"))
        return read_container(val, str_eqz(kind, "map"), a, ret, err);
    if (str_eqz(kind, "bool")) {
        bool b = false;
        int r = json_to_bool(val, &b, err);
        *ret = cel_bool(r == 0 && b);
        return r;
    }
    if (json_is_string(val))
        return cel_json_read_text(kind, json_str(val), a, ret, err);
    double d;
    int64_t i = 0;
    if (str_eqz(kind, "double") && json_to_double(val, &d, NULL) == 0) {
        *ret = cel_double(d);
        return 0;
    }
    if (str_eqz(kind, "int") && json_to_i64(val, &i, NULL) == 0) {
        *ret = cel_int(i);
        return 0;
    }
    return err_set(err, ERR_BAD_REQUEST, "cannot read a value of kind %.*s", STR_ARG(kind));
}

static const struct cel_type *cel_json_primitive_type(struct str name, bool wrapper)
{
    static const struct {
        const char *name;
        const struct cel_type *type, *wrapped;
    } table[] = {
        {"BOOL", &cel_type_bool, &cel_type_wrap_bool},
        {"INT64", &cel_type_int, &cel_type_wrap_int},
        {"UINT64", &cel_type_uint, &cel_type_wrap_uint},
        {"DOUBLE", &cel_type_double, &cel_type_wrap_double},
        {"STRING", &cel_type_string, &cel_type_wrap_string},
        {"BYTES", &cel_type_bytes, &cel_type_wrap_bytes},
    };
    for (size_t i = 0; i < array_len(table); i++)
        if (str_eqz(name, table[i].name))
            return wrapper ? table[i].wrapped : table[i].type;
    return &cel_type_dyn;
}

// Type parameters of one declaration, numbered in the order they appear.
struct params {
    struct str names[8];
    uint32_t n;
};

static const struct cel_type *read_type(const yyjson_val *v, struct arena *a, struct params *p);

static const struct cel_type *read_param(struct str name, struct arena *a, struct params *p)
{
    uint32_t i = 0;
    while (i < p->n && !str_eq(p->names[i], name))
        i++;
    if (i == p->n && p->n < array_len(p->names))
        p->names[p->n++] = name;
    return cel_type_var(a, i < array_len(p->names) ? i : 0);
}

static const struct cel_type *read_abstract(const yyjson_val *v, struct arena *a, struct params *p)
{
    const struct cel_type *params[CEL_TYPE_PARAMS_MAX];
    size_t n = 0;
    const yyjson_val *name = json_get(v, STR("name"));
    const yyjson_val *list = json_get(v, STR("parameterTypes"));
    if (list && json_is_array(list)) {
        json_arr_foreach(list, item)
            if (n < CEL_TYPE_PARAMS_MAX)
                params[n++] = read_type(item, a, p);
    }
    struct str text = name && json_is_string(name) ? arena_str(a, json_str(name)) : STR("?");
    return cel_type_opaque(a, text, params, n);
}

static const struct cel_type *read_type(const yyjson_val *v, struct arena *a, struct params *p)
{
    if (!json_is_object(v) || json_len(v) != 1)
        return &cel_type_dyn;
    const yyjson_val *key = json_obj_first(v);
    const yyjson_val *val = key + 1;
    struct str kind = json_str(key);
    if (str_eqz(kind, "primitive") && json_is_string(val))
        return cel_json_primitive_type(json_str(val), false);
    if (str_eqz(kind, "wrapper") && json_is_string(val))
        return cel_json_primitive_type(json_str(val), true);
    if (str_eqz(kind, "null"))
        return &cel_type_null;
    if (str_eqz(kind, "wellKnown") && json_is_string(val)) {
        if (str_eqz(json_str(val), "TIMESTAMP"))
            return &cel_type_timestamp;
        return str_eqz(json_str(val), "DURATION") ? &cel_type_duration : &cel_type_any;
    }
    if (str_eqz(kind, "typeParam") && json_is_string(val))
        return read_param(json_str(val), a, p);
    if (str_eqz(kind, "abstractType"))
        return read_abstract(val, a, p);
    if (str_eqz(kind, "listType")) {
        const yyjson_val *e = json_get(val, STR("elemType"));
        return cel_type_list(a, e ? read_type(e, a, p) : &cel_type_dyn);
    }
    if (str_eqz(kind, "mapType")) {
        const yyjson_val *k = json_get(val, STR("keyType"));
        const yyjson_val *e = json_get(val, STR("valueType"));
        return cel_type_map(a, k ? read_type(k, a, p) : &cel_type_dyn,
                            e ? read_type(e, a, p) : &cel_type_dyn);
    }
    if (str_eqz(kind, "messageType") && json_is_string(val)) {
        const struct cel_type *t = cel_env_named_type(json_str(val));
        return t ? t : &cel_type_dyn;
    }
    return &cel_type_dyn;
}

static void declare_function(struct cel_env *env, struct str name, const yyjson_val *overloads)
{
    struct arena *a = cel_env_arena(env);
    struct cel_function *f = cel_env_add_function(env, name, json_len(overloads));
    json_arr_foreach(overloads, o) {
        struct params p = {0};
        const struct cel_type *args[5];
        size_t n = 0;
        const yyjson_val *id = json_get(o, STR("overloadId"));
        const yyjson_val *params = json_get(o, STR("params"));
        const yyjson_val *result = json_get(o, STR("resultType"));
        const yyjson_val *member = json_get(o, STR("isInstanceFunction"));
        bool is_member = false;
        if (member)
            (void)json_to_bool(member, &is_member, NULL);
        if (params && json_is_array(params)) {
            json_arr_foreach(params, item)
                if (n < array_len(args))
                    args[n++] = read_type(item, a, &p);
        }
        cel_env_add_overload(f, id && json_is_string(id) ? arena_str(a, json_str(id)) : STR("?"),
                             is_member, args, n, result ? read_type(result, a, &p) : &cel_type_dyn);
    }
}

int cel_json_declare(const yyjson_val *list, struct cel_env *env, struct err *err)
{
    if (!json_is_array(list))
        return cel_json_reject(err, "typeEnv must be an array");
    json_arr_foreach(list, d) {
        const yyjson_val *name = json_get(d, STR("name"));
        const yyjson_val *ident = json_get(d, STR("ident"));
        const yyjson_val *function = json_get(d, STR("function"));
        const yyjson_val *overloads = function ? json_get(function, STR("overloads")) : NULL;
        if (!name || !json_is_string(name))
            return cel_json_reject(err, "a declaration needs a name");
        if (ident) {
            struct params p = {0};
            const yyjson_val *type = json_get(ident, STR("type"));
            cel_env_add_variable(env, json_str(name),
                                 type ? read_type(type, cel_env_arena(env), &p) : &cel_type_dyn);
        } else if (overloads && json_is_array(overloads)) {
            declare_function(env, json_str(name), overloads);
        }
    }
    return 0;
}

// One attribute's value: the form that is set, lists before scalars as upstream looks.
static int cel_json_read_attribute(const yyjson_val *v, struct arena *a, struct cel_attr_input *ret,
                                   struct err *err)
{
    static const struct {
        const char *key;
        enum cel_attr_kind kind;
        bool list;
    } forms[] = {
        {"ints", CEL_ATTR_INT, true},       {"bools", CEL_ATTR_BOOL, true},
        {"strings", CEL_ATTR_STRING, true}, {"versions", CEL_ATTR_VERSION, true},
        {"int", CEL_ATTR_INT, false},       {"bool", CEL_ATTR_BOOL, false},
        {"string", CEL_ATTR_STRING, false}, {"version", CEL_ATTR_VERSION, false},
    };
    for (size_t f = 0; f < array_len(forms); f++) {
        const yyjson_val *x = json_get(v, str_z(forms[f].key));
        if (!x || json_is_null(x))
            continue;
        if (forms[f].list && !json_is_array(x))
            return json_type_error(x, "array", err);
        size_t n = forms[f].list ? json_len(x) : 1;
        int64_t *ints = arena_array(a, int64_t, n + 1);
        bool *bools = arena_array(a, bool, n + 1);
        struct str *strings = arena_array(a, struct str, n + 1);
        const yyjson_val *item = forms[f].list ? json_arr_first(x) : x;
        for (size_t i = 0; i < n; i++, item = json_next(item)) {
            int r = forms[f].kind == CEL_ATTR_INT    ? json_to_i64(item, &ints[i], err)
                    : forms[f].kind == CEL_ATTR_BOOL ? json_to_bool(item, &bools[i], err)
                                                     : json_to_str(item, &strings[i], err);
            if (r < 0)
                return r;
        }
        ret->kind = forms[f].kind;
        ret->list = forms[f].list;
        ret->count = n;
        if (ret->kind == CEL_ATTR_INT)
            ret->ints = ints;
        else if (ret->kind == CEL_ATTR_BOOL)
            ret->bools = bools;
        else
            ret->strings = strings;
        return 0;
    }
    return 0;
}

struct attrs VEC(struct cel_attr_input);
struct capacities VEC(struct cel_capacity_input);

static int cel_json_read_parts(const yyjson_val *v, struct arena *a, struct attrs *attrs,
                               struct capacities *caps, struct err *err)
{
    const yyjson_val *list = json_get(v, STR("attributes"));
    if (list && json_is_object(list)) {
        json_obj_foreach(list, key, val) {
            struct cel_attr_input in = {.name = json_str(key)};
            int r = cel_json_read_attribute(val, a, &in, err);
            if (r < 0)
                return r;
            vec_push_arena(a, attrs, in);
        }
    }
    list = json_get(v, STR("capacity"));
    if (list && json_is_object(list)) {
        json_obj_foreach(list, key, val) {
            const yyjson_val *q = json_is_object(val) ? json_get(val, STR("value")) : val;
            struct cel_capacity_input in = {.name = json_str(key)};
            int64_t i = 0;
            if (q && json_is_string(q))
                in.quantity = json_str(q);
            else if (q && json_to_i64(q, &i, NULL) == 0)
                in.quantity = arena_strf(a, "%lld", (long long)i);
            else
                return err_set(err, ERR_BAD_REQUEST, "capacity %.*s: no quantity",
                               STR_ARG(in.name));
            vec_push_arena(a, caps, in);
        }
    }
    return 0;
}

int cel_json_read_device(const yyjson_val *v, struct str driver, struct cel_shapes *shapes,
                         struct cel_device **ret, struct err *err)
{
    struct arena scratch = {0};
    struct attrs attrs = {0};
    struct capacities caps = {0};
    struct cel_device_input in = {.driver = driver};
    int r = v ? cel_json_read_parts(v, &scratch, &attrs, &caps, err) : 0;
    if (r == 0) {
        const yyjson_val *own = v ? json_get(v, STR("driver")) : NULL;
        const yyjson_val *multi = v ? json_get(v, STR("allowMultipleAllocations")) : NULL;
        if (own && json_is_string(own))
            in.driver = json_str(own);
        if (multi && !json_is_null(multi))
            r = json_to_bool(multi, &in.allow_multiple_allocations, err);
    }
    if (r == 0) {
        in.attributes = attrs.p;
        in.attribute_count = attrs.n;
        in.capacities = caps.p;
        in.capacity_count = caps.n;
        r = cel_device_new(shapes, &in, ret, err);
    }
    arena_done(&scratch);
    return r;
}

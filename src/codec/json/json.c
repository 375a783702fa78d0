// SPDX-License-Identifier: Apache-2.0
//
// Values of JSON documents: types, conversion with exact bounds, comparison, paths.
#include "codec/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/json_writer.h"

#include "base/banned.h"

enum json_type json_type(const yyjson_val *v)
{
    switch (v->tag & YYJSON_TYPE_MASK) {
    case YYJSON_TYPE_BOOL:
        return JSON_BOOL;
    case YYJSON_TYPE_NUM:
        if ((v->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_REAL)
            return JSON_DOUBLE;
        if ((v->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_SINT)
            return JSON_INT;
        return v->uni.u64 <= INT64_MAX ? JSON_INT : JSON_UINT;
    case YYJSON_TYPE_RAW:
        return JSON_BIG;
    case YYJSON_TYPE_STR:
        return JSON_STRING;
    case YYJSON_TYPE_ARR:
        return JSON_ARRAY;
    case YYJSON_TYPE_OBJ:
        return JSON_OBJECT;
    default:
        return JSON_NULL;
    }
}

const char *json_type_name(const yyjson_val *v)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "bool",     [JSON_INT] = "number",
        [JSON_UINT] = "number",   [JSON_DOUBLE] = "number", [JSON_BIG] = "number",
        [JSON_STRING] = "string", [JSON_ARRAY] = "array",   [JSON_OBJECT] = "object",
    };
    return names[json_type(v)];
}

// A number as messages show it. A whole double gets its ".0" back: that is what is wrong with it.
static void show_number(const yyjson_val *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    size_t start = out->n;
    json_write_value(&w, v);
    if (json_type(v) == JSON_DOUBLE && !strpbrk(out->p + start, ".e"))
        sbuf_addz(out, ".0");
}

int json_type_error(const yyjson_val *v, const char *want, struct err *err)
{
    enum json_type type = json_type(v);
    bool number = type == JSON_INT || type == JSON_UINT || type == JSON_DOUBLE || type == JSON_BIG;
    bool want_integer = strstr(want, "int") != NULL;
    cleanup_sbuf struct sbuf text = {0};
    if (number)
        show_number(v, &text);
    const char *why = "";
    if (want_integer && type == JSON_DOUBLE)
        why = ": not written as an integer";
    else if (number && (want_integer || strcmp(want, "float64") == 0))
        why = ": out of range";
    return err_set(err, ERR_BAD_REQUEST, "cannot unmarshal %s%s%.100s into a value of type %s%s",
                   json_type_name(v), number ? " " : "", number ? text.p : "", want, why);
}

int json_to_double(const yyjson_val *v, double *ret, struct err *err)
{
    switch (json_type(v)) {
    case JSON_INT:
        *ret = (v->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_SINT ? (double)v->uni.i64
                                                                     : (double)v->uni.u64;
        return 0;
    case JSON_UINT:
        *ret = (double)v->uni.u64;
        return 0;
    case JSON_DOUBLE:
        *ret = v->uni.f64;
        return 0;
    case JSON_BIG: {
        yyjson_val number;
        // Without the flags of json_parse: a double, or an error if it is infinite.
        if (yyjson_read_number(v->uni.str, &number, 0, NULL, NULL)) {
            *ret = yyjson_get_num(&number);
            return 0;
        }
        break;
    }
    case JSON_NULL:
    case JSON_BOOL:
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT:
        break;
    }
    return json_type_error(v, "float64", err);
}

bool json_is_integral(const yyjson_val *v, int64_t *ret)
{
    if (json_to_i64(v, ret, NULL) == 0)
        return true;
    if (json_type(v) != JSON_DOUBLE)
        return false;
    double d = v->uni.f64;
    if (d != trunc(d) || d < -0x1p63 || d >= 0x1p63)
        return false;
    *ret = (int64_t)d;
    return true;
}

const yyjson_val *json_get(const yyjson_val *v, struct str key)
{
    const yyjson_val *found = NULL;
    if (!v || !json_is_object(v))
        return NULL;
    json_obj_foreach(v, k, val)
        if (str_eq(json_str(k), key))
            found = val;
    return found;
}

const yyjson_val *json_at(const yyjson_val *v, size_t index)
{
    if (!v || !json_is_array(v) || index >= json_len(v))
        return NULL;
    const yyjson_val *item = json_arr_first(v);
    while (index--)
        item = json_next(item);
    return item;
}

// The longest key of v that is the next step of path; a key may itself hold dots. *ret_len is the
// length of the step.
static const yyjson_val *step_field(const yyjson_val *v, struct str path, size_t *ret_len)
{
    const yyjson_val *found = NULL;
    if (!json_is_object(v))
        return NULL;
    *ret_len = 0;
    json_obj_foreach(v, key, val) {
        struct str k = json_str(key);
        bool ends = k.n == path.n || (k.n < path.n && (path.p[k.n] == '.' || path.p[k.n] == '['));
        if (ends && str_starts(path, k) && k.n >= *ret_len) {
            found = val;
            *ret_len = k.n;
        }
    }
    return found;
}

// A step in brackets: an item of an array, a key of an object.
static const yyjson_val *step_bracket(const yyjson_val *v, struct str path, size_t *ret_len)
{
    ptrdiff_t close = str_find_char(path, ']');
    if (close < 0)
        return NULL;
    struct str inside = str_make(path.p + 1, (size_t)close - 1);
    *ret_len = (size_t)close + 1;
    uint64_t index;
    if (json_is_array(v))
        return str_to_u64(inside, &index) == 0 ? json_at(v, index) : NULL;
    return json_get(v, inside);
}

const yyjson_val *json_at_path(const yyjson_val *root, struct str path, bool *ret_whole)
{
    const yyjson_val *v = root;
    while (path.n) {
        size_t len = 0;
        if (path.p[0] == '.')
            path = str_from(path, 1);
        const yyjson_val *next =
            path.n && path.p[0] == '[' ? step_bracket(v, path, &len) : step_field(v, path, &len);
        if (!next)
            break;
        v = next;
        path = str_from(path, len);
    }
    if (ret_whole)
        *ret_whole = path.n == 0;
    return v;
}

// --- Comparison ----------------------------------------------------------------------------------

static bool number_equal(const yyjson_val *a, const yyjson_val *b)
{
    enum json_type ta = json_type(a), tb = json_type(b);
    if (ta == JSON_BIG && tb == JSON_BIG)
        return str_eq(json_str(a), json_str(b));
    if (ta != JSON_DOUBLE && tb != JSON_DOUBLE)
        return ta == tb && a->uni.u64 == b->uni.u64;
    // One is a double. Where the other is an exact integer, the double must be exactly that.
    double x = 0, y = 0;
    if (json_to_double(a, &x, NULL) < 0 || json_to_double(b, &y, NULL) < 0 || x != y)
        return false;
    int64_t i = 0, j = 0;
    if (ta == JSON_INT || tb == JSON_INT)
        return json_is_integral(a, &i) && json_is_integral(b, &j) && i == j;
    if (ta == JSON_UINT || tb == JSON_UINT) {
        uint64_t u = ta == JSON_UINT ? a->uni.u64 : b->uni.u64;
        return x < 0x1p64 && (uint64_t)x == u;
    }
    return true;
}

struct pair {
    struct str key;
    const yyjson_val *val;
};

static struct pair *sorted_pairs(const yyjson_val *v)
{
    struct pair *pairs = xreallocarray(NULL, json_len(v), sizeof(*pairs));
    size_t n = 0;
    json_obj_foreach(v, key, val)
        pairs[n++] = (struct pair){json_str(key), val};
    qsort(pairs, n, sizeof(*pairs), str_cmp_elements);
    return pairs;
}

static bool object_equal(const yyjson_val *a, const yyjson_val *b)
{
    size_t n = json_len(a);
    if (n != json_len(b))
        return false;
    cleanup_free struct pair *pa = sorted_pairs(a);
    cleanup_free struct pair *pb = sorted_pairs(b);
    for (size_t i = 0; i < n; i++) {
        bool repeats = i > 0 && str_eq(pa[i - 1].key, pa[i].key);
        if (repeats || !str_eq(pa[i].key, pb[i].key) || !json_equal(pa[i].val, pb[i].val))
            return false;
    }
    return true;
}

static bool array_equal(const yyjson_val *a, const yyjson_val *b)
{
    if (json_len(a) != json_len(b))
        return false;
    const yyjson_val *other = json_arr_first(b);
    json_arr_foreach(a, item) {
        if (!json_equal(item, other))
            return false;
        other = json_next(other);
    }
    return true;
}

bool json_equal(const yyjson_val *a, const yyjson_val *b)
{
    if (strcmp(json_type_name(a), json_type_name(b)) != 0)
        return false;
    switch (json_type(a)) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
        return a->tag == b->tag;
    case JSON_STRING:
        return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY:
        return array_equal(a, b);
    case JSON_OBJECT:
        return object_equal(a, b);
    case JSON_INT:
    case JSON_UINT:
    case JSON_DOUBLE:
    case JSON_BIG:
        return number_equal(a, b);
    }
    return false;
}

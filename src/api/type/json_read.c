// SPDX-License-Identifier: Apache-2.0
//
// JSON values to typed structs, by the tables. The order of fields in a text is nearly always the
// order of declaration, so a key is looked for from behind the last one found.
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "api/custom.h"
#include "api/type/map.h"
#include "api/type/raw.h"
#include "codec/base64.h"

#include "base/banned.h"

struct reader {
    const struct json_doc *doc;
    struct arena *arena;
    size_t used_max; // what the arena may have handed out
    struct json_strict *strict;
    struct err *err;
};

// api_json_alloc takes zeroed memory for count things of a size, or answers NULL with an error when
// the object grows past its bounds.
static void *api_json_alloc(struct reader *rd, size_t count, size_t size)
{
    size_t used = rd->arena->used_bytes;
    if (used <= rd->used_max && count <= (rd->used_max - used) / size)
        return arena_alloc_array(rd->arena, count, size, _Alignof(max_align_t));
    (void)err_set(rd->err, ERR_BAD_REQUEST, "the object takes too much memory; split it");
    return NULL;
}

static int read_struct(struct reader *rd, const struct api_type *t, const yyjson_val *v, void *out);

// bad_value makes the error of a value's own parser one of the request.
static int bad_value(struct err *err)
{
    if (err)
        err->code = ERR_BAD_REQUEST;
    return -ERR_BAD_REQUEST;
}

static int api_json_read_quantity(struct reader *rd, const yyjson_val *key, const yyjson_val *v,
                                  struct quantity *out)
{
    struct str text;
    cleanup_sbuf struct sbuf number = {0};
    if (json_is_string(v)) {
        text = json_str(v);
    } else if ((v->tag & YYJSON_TYPE_MASK) == YYJSON_TYPE_NUM || json_type(v) == JSON_BIG) {
        text = raw_source(rd->doc, key, v);
        if (!text.p) {
            struct json_writer w = {.out = &number};
            json_write_value(&w, v);
            text = sbuf_str(&number);
        }
    } else {
        return json_type_error(v, "Quantity", rd->err);
    }
    text = arena_str(rd->arena, str_trim(text));
    int r = quantity_parse(text, rd->arena, out, rd->err);
    return r < 0 ? bad_value(rd->err) : 0;
}

// has_micros reports whether a time has exactly six digits behind the point. MicroTime insists on
// them.
static bool has_micros(struct str text)
{
    const size_t point = sizeof("2006-01-02T15:04:05") - 1;
    if (text.n < point + 8 || text.p[point] != '.')
        return false;
    for (size_t i = point + 1; i < point + 7; i++)
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
    return text.p[point + 7] < '0' || text.p[point + 7] > '9';
}

static int api_json_read_time(struct reader *rd, const yyjson_val *v, bool micro,
                              struct api_time *out)
{
    struct str text = {NULL, 0};
    if (json_to_str(v, &text, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    if (rfc3339_parse(text, &out->at, rd->err) < 0)
        return bad_value(rd->err);
    if (micro && !has_micros(text))
        return err_set(rd->err, ERR_BAD_REQUEST,
                       "parsing time \"%.*s\": six digits must follow the point, as in "
                       "2006-01-02T15:04:05.000000Z",
                       STR_ARG(str_upto(text, 64)));
    // What the formats cannot hold is dropped here, so that an object does not change on its way.
    out->at.nsec = micro ? out->at.nsec / 1000 * 1000 : 0;
    out->set = true;
    return 0;
}

static int api_json_read_int_or_string(struct reader *rd, const yyjson_val *v,
                                       struct api_int_or_string *out)
{
    if (!json_is_string(v))
        return json_to_i32(v, &out->number, rd->err);
    out->is_text = true;
    out->text = arena_str(rd->arena, json_str(v));
    return 0;
}

static int api_json_read_bytes(struct reader *rd, const yyjson_val *v, struct str *out)
{
    struct str text = {NULL, 0};
    if (json_to_str(v, &text, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    cleanup_sbuf struct sbuf bytes = {0};
    if (base64_decode(text, BASE64_STD, &bytes, rd->err) < 0)
        return bad_value(rd->err);
    *out = arena_str(rd->arena, sbuf_str(&bytes));
    return 0;
}

static int api_json_read_raw(struct reader *rd, const yyjson_val *key, const yyjson_val *v,
                             struct str *out)
{
    json_strict_walk(rd->strict, v);
    struct str text = raw_source(rd->doc, key, v);
    if (text.p) {
        *out = arena_str(rd->arena, text);
        return 0;
    }
    cleanup_sbuf struct sbuf made = {0};
    struct json_writer w = {.out = &made};
    json_write_value(&w, v);
    *out = arena_str(rd->arena, sbuf_str(&made));
    return 0;
}

static int api_json_read_strlist(struct reader *rd, const yyjson_val *v, struct api_str_array *out)
{
    if (json_want_array(v, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    out->p = arena_array(rd->arena, struct str, json_len(v));
    json_arr_foreach(v, item) {
        if (!json_is_null(item)) {
            int r = json_to_str(item, &out->p[out->n], rd->err);
            if (r < 0) {
                err_path_index(rd->err, out->n);
                return r;
            }
            out->p[out->n] = arena_str(rd->arena, out->p[out->n]);
        }
        out->n++;
    }
    return 0;
}

// api_json_read_elem reads one element, not null, into zeroed memory of its type.
static int api_json_read_elem(struct reader *rd, const struct api_field *f, const yyjson_val *key,
                              const yyjson_val *v, void *out)
{
    switch (f->elem) {
    case API_STR: {
        struct str s = {NULL, 0};
        if (json_to_str(v, &s, rd->err) < 0)
            return -ERR_BAD_REQUEST;
        *(struct str *)out = arena_str(rd->arena, s);
        return 0;
    }
    case API_BOOL:
        return json_to_bool(v, out, rd->err);
    case API_I32:
        return json_to_i32(v, out, rd->err);
    case API_I64:
        return json_to_i64(v, out, rd->err);
    case API_QUANTITY:
        return api_json_read_quantity(rd, key, v, out);
    case API_TIME:
        return api_json_read_time(rd, v, false, out);
    case API_MICROTIME:
        return api_json_read_time(rd, v, true, out);
    case API_INTSTR:
        return api_json_read_int_or_string(rd, v, out);
    case API_RAW:
    case API_FIELDS:
        return api_json_read_raw(rd, key, v, out);
    case API_BYTES:
        return api_json_read_bytes(rd, v, out);
    case API_STRLIST:
        return api_json_read_strlist(rd, v, out);
    case API_STRUCT:
        return read_struct(rd, f->sub, v, out);
    case API_ELEMS:
        break;
    }
    assert(false);
    return 0;
}

static int api_json_read_list(struct reader *rd, const struct api_field *f, const yyjson_val *v,
                              struct api_span *out)
{
    if (json_want_array(v, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    size_t size = api_elem_size(f), n = 0;
    char *items = api_json_alloc(rd, json_len(v), size);
    if (!items)
        return -ERR_BAD_REQUEST;
    out->p = items;
    out->n = json_len(v);
    json_arr_foreach(v, item) {
        // null leaves the zero value, as in Go.
        if (!json_is_null(item)) {
            size_t mark = json_strict_index(rd->strict, n);
            int r = api_json_read_elem(rd, f, NULL, item, items + n * size);
            json_strict_back(rd->strict, mark);
            if (r < 0) {
                err_path_index(rd->err, n);
                return r;
            }
        }
        n++;
    }
    return 0;
}

static int api_json_read_map(struct reader *rd, const struct api_field *f, const yyjson_val *v,
                             struct api_span *out)
{
    if (json_want_object(v, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    size_t size = api_entry_size(f);
    char *entries = api_json_alloc(rd, json_len(v), size);
    if (!entries)
        return -ERR_BAD_REQUEST;
    out->p = entries;
    bool sorted = true;
    json_obj_foreach(v, key, val) {
        struct str *slot = (void *)(entries + out->n * size);
        struct str name = json_str(key);
        if (out->n > 0 && sorted) {
            const struct str *last = (const void *)(entries + (out->n - 1) * size);
            sorted = str_cmp(*last, name) < 0;
        }
        *slot = arena_str(rd->arena, name);
        out->n++;
        if (json_is_null(val))
            continue;
        size_t mark = json_strict_field(rd->strict, name);
        int r = api_json_read_elem(rd, f, key, val, (char *)slot + API_ENTRY_VALUE);
        json_strict_back(rd->strict, mark);
        if (r < 0) {
            err_path_key(rd->err, name.p, name.n);
            return r;
        }
    }
    if (!sorted)
        map_settle(out, size, rd->arena, rd->strict);
    return 0;
}

static int api_json_read_field(struct reader *rd, const struct api_field *f, const yyjson_val *key,
                               const yyjson_val *v, void *owner)
{
    void *member = api_member(f, owner);
    if (json_is_null(v))
        return 0;
    switch (f->shape) {
    case API_LIST:
        return api_json_read_list(rd, f, v, member);
    case API_MAP:
        return api_json_read_map(rd, f, v, member);
    case API_OPT:
        if (api_field_is_pointer(f)) {
            void **target = member;
            *target = api_json_alloc(rd, 1, api_elem_size(f));
            if (!*target)
                return -ERR_BAD_REQUEST;
            member = *target;
        } else if (f->has_offset) {
            *(bool *)((char *)owner + f->has_offset) = true;
        }
        return api_json_read_elem(rd, f, key, v, member);
    case API_ONE:
        return api_json_read_elem(rd, f, key, v, member);
    case API_INLINE:
        break;
    }
    assert(false);
    return 0;
}

// api_json_find_field looks for a name, starting at *next; *next moves behind it.
static const struct api_field *api_json_find_field(const struct api_type *t, struct str name,
                                                   size_t *next)
{
    for (size_t i = 0, at = *next; i < t->json_len; i++, at++) {
        if (at >= t->json_len)
            at = 0;
        const struct api_field *f = &t->json[at];
        if (f->name.n == name.n && memcmp(f->name.p, name.p, name.n) == 0) {
            *next = at + 1;
            return f;
        }
    }
    return NULL;
}

static int read_struct(struct reader *rd, const struct api_type *t, const yyjson_val *v, void *out)
{
    if (!json_is_object(v))
        return json_type_error(v, t->name.p, rd->err);
    uint64_t seen[2] = {0, 0};
    size_t next = 0;
    json_obj_foreach(v, key, val) {
        struct str name = json_str(key);
        const struct api_field *f = api_json_find_field(t, name, &next);
        if (!f) {
            json_strict_unknown(rd->strict, name);
            continue;
        }
        size_t at = next - 1;
        if (seen[at / 64] >> at % 64 & 1) {
            json_strict_duplicate(rd->strict, name);
            api_field_clear(f, out);
        }
        seen[at / 64] |= (uint64_t)1 << at % 64;
        size_t mark = json_strict_field(rd->strict, name);
        int r = api_json_read_field(rd, f, key, val, out);
        json_strict_back(rd->strict, mark);
        if (r < 0) {
            err_path_field(rd->err, name.p, name.n);
            return r;
        }
    }
    return 0;
}

int api_json_read(const struct api_type *t, const struct json_doc *doc, const yyjson_val *v,
                  void *out, struct arena *arena, struct json_strict *strict, struct err *err)
{
    size_t most = DRAY_OBJECT_BYTES_MAX + doc->count * DRAY_OBJECT_BYTES_PER_VALUE;
    struct reader rd = {doc, arena, arena->used_bytes + most, strict, err};
    if (t->custom)
        return custom_json_read(t->custom, doc, v, out, arena, strict, err);
    return read_struct(&rd, t, v, out);
}

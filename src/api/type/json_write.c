// SPDX-License-Identifier: Apache-2.0
//
// Typed structs to JSON, as Go's encoding/json writes the same objects.
#include <assert.h>

#include "api/api.h"
#include "api/custom.h"
#include "api/type/raw.h"
#include "codec/base64.h"

#include "base/banned.h"

static int write_struct(const struct api_type *t, const void *in, struct json_writer *w,
                        struct err *err);

static void api_json_write_time(const struct api_time *t, bool micro, struct json_writer *w)
{
    if (!t->set) {
        json_write_null(w);
        return;
    }
    cleanup_sbuf struct sbuf text = {0};
    if (micro)
        rfc3339_write_micros(t->at, &text);
    else
        rfc3339_write_seconds(t->at, &text);
    json_write_str(w, sbuf_str(&text));
}

static void api_json_write_bytes(struct str bytes, struct json_writer *w)
{
    if (!bytes.p) {
        json_write_null(w);
        return;
    }
    cleanup_sbuf struct sbuf text = {0};
    base64_encode(bytes, BASE64_STD, &text);
    json_write_str(w, sbuf_str(&text));
}

static void write_quantity(const struct quantity *q, struct json_writer *w)
{
    cleanup_sbuf struct sbuf text = {0};
    quantity_write(q, &text);
    json_write_str(w, sbuf_str(&text));
}

static void write_strlist(const struct api_str_array *list, struct json_writer *w)
{
    if (!list->p) {
        json_write_null(w);
        return;
    }
    json_write_array_begin(w);
    for (size_t i = 0; i < list->n; i++)
        json_write_str(w, list->p[i]);
    json_write_array_end(w);
}

static int api_json_write_raw(struct str text, struct json_writer *w, struct err *err)
{
    if (text.p)
        return raw_write(text, w, err);
    json_write_null(w);
    return 0;
}

static int write_elem(const struct api_field *f, const void *in, struct json_writer *w,
                      struct err *err)
{
    switch (f->elem) {
    case API_STR:
        json_write_str(w, *(const struct str *)in);
        return 0;
    case API_BOOL:
        json_write_bool(w, *(const bool *)in);
        return 0;
    case API_I32:
        json_write_i64(w, *(const int32_t *)in);
        return 0;
    case API_I64:
        json_write_i64(w, *(const int64_t *)in);
        return 0;
    case API_QUANTITY:
        write_quantity(in, w);
        return 0;
    case API_TIME:
    case API_MICROTIME:
        api_json_write_time(in, f->elem == API_MICROTIME, w);
        return 0;
    case API_INTSTR: {
        const struct api_int_or_string *value = in;
        if (value->is_text)
            json_write_str(w, value->text);
        else
            json_write_i64(w, value->number);
        return 0;
    }
    case API_RAW:
    case API_FIELDS:
        return api_json_write_raw(*(const struct str *)in, w, err);
    case API_BYTES:
        api_json_write_bytes(*(const struct str *)in, w);
        return 0;
    case API_STRLIST:
        write_strlist(in, w);
        return 0;
    case API_STRUCT:
        return write_struct(f->sub, in, w, err);
    case API_ELEMS:
        break;
    }
    assert(false);
    return 0;
}

static int api_json_write_list(const struct api_field *f, const struct api_span *list,
                               struct json_writer *w, struct err *err)
{
    size_t size = api_elem_size(f);
    json_write_array_begin(w);
    for (size_t i = 0; i < list->n; i++) {
        int r = write_elem(f, (const char *)list->p + i * size, w, err);
        if (r < 0) {
            err_path_index(err, i);
            return r;
        }
    }
    json_write_array_end(w);
    return 0;
}

static int api_json_write_map(const struct api_field *f, const struct api_span *map,
                              struct json_writer *w, struct err *err)
{
    size_t size = api_entry_size(f);
    json_write_object_begin(w);
    for (size_t i = 0; i < map->n; i++) {
        const char *entry = (const char *)map->p + i * size;
        const struct str *key = (const void *)entry;
        json_write_key(w, *key);
        int r = write_elem(f, entry + API_ENTRY_VALUE, w, err);
        if (r < 0) {
            err_path_key(err, key->p, key->n);
            return r;
        }
    }
    json_write_object_end(w);
    return 0;
}

// api_json_shows_field reports whether JSON has the field: Go's omitempty looks at length and zero,
// and never leaves out a struct by value.
static bool api_json_shows_field(const struct api_field *f, const void *in)
{
    if (f->flags & API_ALWAYS)
        return true;
    if (f->shape == API_LIST || f->shape == API_MAP)
        return ((const struct api_span *)api_member_const(f, in))->n > 0;
    if (f->shape == API_ONE && (f->elem == API_TIME || f->elem == API_MICROTIME) &&
        !(f->flags & API_OMITZERO))
        return true;
    if (f->shape == API_ONE && f->elem == API_RAW)
        return true;
    if (f->shape == API_ONE && f->elem == API_BYTES)
        return ((const struct str *)api_member_const(f, in))->n > 0;
    if (f->shape == API_ONE && f->elem == API_STRLIST)
        return ((const struct api_str_array *)api_member_const(f, in))->n > 0;
    return api_field_present(f, in);
}

static int api_json_write_field(const struct api_field *f, const void *in, struct json_writer *w,
                                struct err *err)
{
    const void *member = api_member_const(f, in);
    const struct api_span *span = member;
    if (f->shape == API_ONE)
        return write_elem(f, member, w, err);
    if (!api_field_present(f, in)) {
        json_write_null(w);
        return 0;
    }
    if (f->shape == API_LIST)
        return api_json_write_list(f, span, w, err);
    if (f->shape == API_MAP)
        return api_json_write_map(f, span, w, err);
    return write_elem(f, api_field_is_pointer(f) ? *(void *const *)member : member, w, err);
}

static int write_struct(const struct api_type *t, const void *in, struct json_writer *w,
                        struct err *err)
{
    json_write_object_begin(w);
    for (size_t i = 0; i < t->json_len; i++) {
        const struct api_field *f = &t->json[i];
        if (!api_json_shows_field(f, in))
            continue;
        json_write_raw_key(w, f->key);
        int r = api_json_write_field(f, in, w, err);
        if (r < 0) {
            err_path_field(err, f->name.p, f->name.n);
            return r;
        }
    }
    json_write_object_end(w);
    return 0;
}

int api_json_write(const struct api_type *t, const void *in, struct json_writer *w, struct err *err)
{
    if (t->custom)
        return custom_json_write(in, w, err);
    return write_struct(t, in, w, err);
}

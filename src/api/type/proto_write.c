// SPDX-License-Identifier: Apache-2.0
//
// Typed structs to protobuf, byte for byte as the code generated for Kubernetes writes them: fields
// by ascending number, plain values always (also zero ones), pointers when set, map entries by key.
// The writer goes from the end to the beginning, so everything here runs backwards.
#include <assert.h>

#include "api/api.h"
#include "api/crd/schema_proto.h"
#include "codec/proto.h"

#include "base/banned.h"

static void api_proto_write_message(const struct api_type *t, const void *in,
                                    struct proto_writer *w);

static void put_quantity(const struct quantity *q, struct proto_writer *w)
{
    cleanup_sbuf struct sbuf text = {0};
    quantity_write(q, &text);
    proto_put_bytes(w, 1, sbuf_str(&text));
}

static void put_time(const struct api_time *t, struct proto_writer *w)
{
    if (!t->set)
        return;
    proto_put_i32(w, 2, t->at.nsec);
    proto_put_i64(w, 1, t->at.sec);
}

static void put_int_or_string(const struct api_int_or_string *value, struct proto_writer *w)
{
    proto_put_bytes(w, 3, value->is_text ? value->text : STR(""));
    proto_put_i32(w, 2, value->is_text ? 0 : value->number);
    proto_put_i64(w, 1, value->is_text);
}

// put_inside writes the content of an element that is a message.
static void put_inside(const struct api_field *f, const void *in, struct proto_writer *w)
{
    switch (f->elem) {
    case API_QUANTITY:
        put_quantity(in, w);
        return;
    case API_TIME:
    case API_MICROTIME:
        put_time(in, w);
        return;
    case API_INTSTR:
        put_int_or_string(in, w);
        return;
    case API_RAW:
    case API_FIELDS:
        if (f->flags & API_SCHEMA)
            schema_proto_write(*(const struct str *)in, w);
        else if (((const struct str *)in)->p)
            proto_put_bytes(w, 1, *(const struct str *)in);
        return;
    case API_STRLIST: {
        const struct api_str_array *list = in;
        for (size_t i = list->n; i > 0; i--)
            proto_put_bytes(w, 1, list->p[i - 1]);
        return;
    }
    case API_STRUCT:
        api_proto_write_message(f->sub, in, w);
        return;
    case API_STR:
    case API_BOOL:
    case API_I32:
    case API_I64:
    case API_BYTES:
    case API_ELEMS:
        break;
    }
    assert(false);
}

static void put_elem(const struct api_field *f, uint32_t number, const void *in,
                     struct proto_writer *w)
{
    if (f->elem == API_STR || f->elem == API_BYTES) {
        proto_put_bytes(w, number, *(const struct str *)in);
    } else if (f->elem == API_BOOL) {
        proto_put_bool(w, number, *(const bool *)in);
    } else if (f->elem == API_I32) {
        proto_put_i32(w, number, *(const int32_t *)in);
    } else if (f->elem == API_I64) {
        proto_put_i64(w, number, *(const int64_t *)in);
    } else {
        size_t mark = proto_mark(w);
        put_inside(f, in, w);
        proto_close(w, number, mark);
    }
}

static void put_list(const struct api_field *f, const struct api_span *list, struct proto_writer *w)
{
    size_t size = api_elem_size(f);
    for (size_t i = list->n; i > 0; i--)
        put_elem(f, f->number, (const char *)list->p + (i - 1) * size, w);
}

static void put_map(const struct api_field *f, const struct api_span *map, struct proto_writer *w)
{
    size_t size = api_entry_size(f);
    for (size_t i = map->n; i > 0; i--) {
        const char *entry = (const char *)map->p + (i - 1) * size;
        size_t mark = proto_mark(w);
        // A nil []byte as a map's value is left out, as everywhere.
        if (f->elem != API_BYTES ||
            ((const struct str *)(const void *)(entry + API_ENTRY_VALUE))->p)
            put_elem(f, 2, entry + API_ENTRY_VALUE, w);
        proto_put_bytes(w, 1, *(const struct str *)(const void *)entry);
        proto_close(w, f->number, mark);
    }
}

static void put_field(const struct api_field *f, const void *in, struct proto_writer *w)
{
    const void *member = api_member_const(f, in);
    if (f->shape == API_LIST) {
        put_list(f, member, w);
    } else if (f->shape == API_MAP) {
        put_map(f, member, w);
    } else if (f->shape == API_OPT || f->elem == API_BYTES || f->elem == API_STRLIST ||
               f->flags & API_SCHEMA) {
        if (api_field_present(f, in))
            put_elem(f, f->number, api_field_is_pointer(f) ? *(void *const *)member : member, w);
    } else {
        put_elem(f, f->number, member, w);
    }
}

static void api_proto_write_message(const struct api_type *t, const void *in,
                                    struct proto_writer *w)
{
    for (size_t i = t->wire_len; i > 0; i--)
        put_field(&t->fields[t->wire[i - 1]], in, w);
}

void api_proto_write(const struct api_type *t, const void *in, struct sbuf *out)
{
    cleanup_proto_writer struct proto_writer w = {0};
    api_proto_write_message(t, in, &w);
    sbuf_add(out, proto_written(&w));
}

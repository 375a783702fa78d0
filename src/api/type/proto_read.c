// SPDX-License-Identifier: Apache-2.0
//
// Protobuf messages to typed structs, by the tables.
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "api/crd/schema_proto.h"
#include "api/type/map.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "codec/proto.h"

#include "base/banned.h"

struct wire_reader {
    struct arena *arena;
    size_t used_max; // what the arena may have handed out
    struct err *err;
};

// api_proto_alloc takes zeroed memory for count things of a size, or answers NULL with an error
// when the object grows past its bounds.
static void *api_proto_alloc(struct wire_reader *rd, size_t count, size_t size)
{
    size_t used = rd->arena->used_bytes;
    if (used <= rd->used_max && count <= (rd->used_max - used) / size)
        return arena_alloc_array(rd->arena, count, size, _Alignof(max_align_t));
    (void)err_set(rd->err, ERR_BAD_REQUEST, "the object takes too much memory; split it");
    return NULL;
}

static int api_proto_read_message(struct wire_reader *rd, const struct api_type *t,
                                  struct proto_reader in, void *out);

// read_inner reads the one field, number 1, of the small messages around strings and bytes. A
// missing field leaves *out alone.
static int read_inner(struct wire_reader *rd, struct proto_reader in, bool text, struct str *out)
{
    struct proto_field f;
    int r;
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        if (f.number != 1)
            continue;
        r = text ? proto_to_str(&in, &f, out, rd->err) : proto_to_bytes(&in, &f, out, rd->err);
        if (r < 0)
            return r;
    }
    return r;
}

static int api_proto_read_quantity(struct wire_reader *rd, struct proto_reader in,
                                   struct quantity *out)
{
    struct str text = {NULL, 0};
    int r = read_inner(rd, in, true, &text);
    // An empty message is a zero quantity; an empty text is not a number, as upstream has it.
    if (r < 0 || !text.p)
        return r;
    r = quantity_parse(arena_str(rd->arena, text), rd->arena, out, rd->err);
    if (r < 0 && rd->err)
        rd->err->code = ERR_BAD_REQUEST;
    return r < 0 ? -ERR_BAD_REQUEST : 0;
}

// The years 0001 to 9999: what RFC 3339, and so JSON, can say.
#define TIME_MIN INT64_C(-62135596800)
#define TIME_MAX INT64_C(253402300799)

static int api_proto_read_time(struct wire_reader *rd, struct proto_reader in, bool micro,
                               struct api_time *out)
{
    struct proto_field f;
    int r;
    int64_t sec = 0;
    int32_t nsec = 0;
    if (in.next == in.end)
        return 0;
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        if (f.number == 1)
            r = proto_to_i64(&in, &f, &sec, rd->err);
        else if (f.number == 2)
            r = proto_to_i32(&in, &f, &nsec, rd->err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (sec < TIME_MIN || sec > TIME_MAX || nsec < 0 || nsec > 999999999)
        return err_set(rd->err, ERR_BAD_REQUEST, "the time is outside the years 0001 to 9999");
    out->at.sec = sec;
    out->at.nsec = micro ? nsec / 1000 * 1000 : 0;
    // The first second of year 1 is Go's zero time.
    out->set = sec != TIME_MIN || out->at.nsec != 0;
    return 0;
}

static int api_proto_read_int_or_string(struct wire_reader *rd, struct proto_reader in,
                                        struct api_int_or_string *out)
{
    struct proto_field f;
    int r;
    int64_t type = 0;
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        if (f.number == 1)
            r = proto_to_i64(&in, &f, &type, rd->err);
        else if (f.number == 2)
            r = proto_to_i32(&in, &f, &out->number, rd->err);
        else if (f.number == 3)
            r = proto_to_str(&in, &f, &out->text, rd->err);
        if (r < 0)
            return r;
    }
    if (r < 0)
        return r;
    if (type != 0 && type != 1)
        return err_set(rd->err, ERR_BAD_REQUEST, "an int-or-string is of type 0 or 1");
    out->is_text = type == 1;
    if (out->is_text) {
        out->number = 0;
        out->text = arena_str(rd->arena, out->text);
    } else {
        out->text = STR("");
    }
    return 0;
}

static int api_proto_read_raw(struct wire_reader *rd, struct proto_reader in, struct str *out)
{
    struct str bytes = {NULL, 0};
    int r = read_inner(rd, in, false, &bytes);
    if (r < 0 || !bytes.p)
        return r;
    *out = arena_str(rd->arena, bytes);
    return 0;
}

static int read_schema(struct wire_reader *rd, struct proto_reader in, struct str *out)
{
    cleanup_sbuf struct sbuf text = {0};
    int r = schema_proto_read(in, &text, rd->err);
    if (r == 0)
        *out = arena_str(rd->arena, sbuf_str(&text));
    return r;
}

static int api_proto_read_strlist(struct wire_reader *rd, struct proto_reader in,
                                  struct api_str_array *out)
{
    struct proto_field f;
    int r;
    struct VEC(struct str) items = {0};
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        struct str s;
        if (f.number != 1)
            continue;
        r = proto_to_str(&in, &f, &s, rd->err);
        if (r < 0)
            return r;
        vec_push_arena(rd->arena, &items, arena_str(rd->arena, s));
    }
    out->p = items.p;
    out->n = items.n;
    return r;
}

static int api_proto_read_text(struct wire_reader *rd, const struct proto_reader *in,
                               const struct proto_field *f, struct str *out)
{
    struct str s = {NULL, 0};
    if (proto_to_str(in, f, &s, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    *out = arena_str(rd->arena, s);
    return 0;
}

static int read_plain_bytes(struct wire_reader *rd, const struct proto_reader *in,
                            const struct proto_field *f, struct str *out)
{
    struct str s = {NULL, 0};
    if (proto_to_bytes(in, f, &s, rd->err) < 0)
        return -ERR_BAD_REQUEST;
    *out = arena_str(rd->arena, s);
    return 0;
}

// read_inside reads an element that is a message of its own.
static int read_inside(struct wire_reader *rd, const struct api_field *row, struct proto_reader in,
                       void *out)
{
    switch (row->elem) {
    case API_QUANTITY:
        return api_proto_read_quantity(rd, in, out);
    case API_TIME:
    case API_MICROTIME:
        return api_proto_read_time(rd, in, row->elem == API_MICROTIME, out);
    case API_INTSTR:
        return api_proto_read_int_or_string(rd, in, out);
    case API_RAW:
    case API_FIELDS:
        return row->flags & API_SCHEMA ? read_schema(rd, in, out) : api_proto_read_raw(rd, in, out);
    case API_STRLIST:
        return api_proto_read_strlist(rd, in, out);
    case API_STRUCT:
        return api_proto_read_message(rd, row->sub, in, out);
    case API_STR:
    case API_BOOL:
    case API_I32:
    case API_I64:
    case API_BYTES:
    case API_ELEMS:
        break;
    }
    assert(false);
    return 0;
}

static int api_proto_read_elem(struct wire_reader *rd, const struct api_field *row,
                               const struct proto_reader *in, const struct proto_field *f,
                               void *out)
{
    if (row->elem == API_STR)
        return api_proto_read_text(rd, in, f, out);
    if (row->elem == API_BYTES)
        return read_plain_bytes(rd, in, f, out);
    if (row->elem == API_BOOL)
        return proto_to_bool(in, f, out, rd->err);
    if (row->elem == API_I32)
        return proto_to_i32(in, f, out, rd->err);
    if (row->elem == API_I64)
        return proto_to_i64(in, f, out, rd->err);
    struct proto_reader inside;
    int r = proto_enter(in, f, &inside, rd->err);
    return r < 0 ? r : read_inside(rd, row, inside, out);
}

static bool is_varint(const struct api_field *row)
{
    return row->elem == API_BOOL || row->elem == API_I32 || row->elem == API_I64;
}

// count_items counts, f included, what the rest of the message adds to a list or map. Packed
// numbers take at least a byte each.
static size_t count_items(const struct api_field *row, const struct proto_reader *in,
                          const struct proto_field *f)
{
    struct proto_reader ahead = *in;
    struct proto_field next = *f;
    size_t count = 0;
    do {
        if (next.number == row->number)
            count += is_varint(row) && next.wire == PROTO_BYTES ? next.bytes.n : 1;
    } while (proto_next(&ahead, &next, NULL) > 0);
    return count;
}

// open_span makes room for all items that a message adds; f is the first of them. There are some
// already when the message around is given twice.
static int open_span(struct wire_reader *rd, const struct api_field *row,
                     const struct proto_reader *in, const struct proto_field *f,
                     struct api_span *span)
{
    size_t size = row->shape == API_MAP ? api_entry_size(row) : api_elem_size(row);
    char *wider = api_proto_alloc(rd, span->n + count_items(row, in, f), size);
    if (!wider)
        return -ERR_BAD_REQUEST;
    if (span->n)
        memcpy(wider, span->p, span->n * size);
    span->p = wider;
    return 0;
}

// read_packed takes numbers that a peer packed; Kubernetes itself never does.
static int read_packed(struct wire_reader *rd, const struct api_field *row,
                       const struct proto_reader *in, const struct proto_field *f,
                       struct api_span *span)
{
    struct proto_items items;
    uint64_t value;
    int r = proto_items_of(in, f, PROTO_VARINT, &items, rd->err);
    if (r < 0)
        return r;
    while ((r = proto_items_next(&items, &value, rd->err)) > 0) {
        void *slot = (char *)span->p + span->n++ * api_elem_size(row);
        if (row->elem == API_BOOL)
            *(bool *)slot = value != 0;
        else if (row->elem == API_I32)
            *(int32_t *)slot = (int32_t)(uint32_t)value;
        else
            *(int64_t *)slot = (int64_t)value;
    }
    return r;
}

static int api_proto_read_entry(struct wire_reader *rd, const struct api_field *row,
                                const struct proto_reader *in, const struct proto_field *f,
                                struct api_span *span)
{
    struct proto_reader entry;
    struct proto_field part;
    int r = proto_enter(in, f, &entry, rd->err);
    if (r < 0)
        return r;
    char *slot = (char *)span->p + span->n++ * api_entry_size(row);
    struct str *key = (void *)slot;
    *key = STR("");
    if (row->elem == API_BYTES)
        *(struct str *)(void *)(slot + API_ENTRY_VALUE) = STR("");
    while ((r = proto_next(&entry, &part, rd->err)) > 0) {
        if (part.number == 1)
            r = api_proto_read_text(rd, &entry, &part, key);
        else if (part.number == 2)
            r = api_proto_read_elem(rd, row, &entry, &part, slot + API_ENTRY_VALUE);
        if (r < 0)
            break;
    }
    if (r < 0)
        err_path_key(rd->err, key->p, key->n);
    return r;
}

static int api_proto_read_field(struct wire_reader *rd, const struct api_field *row,
                                const struct proto_reader *in, const struct proto_field *f,
                                void *owner)
{
    void *member = api_member(row, owner);
    if (row->shape == API_LIST) {
        struct api_span *span = member;
        if (is_varint(row))
            return read_packed(rd, row, in, f, span);
        int r = api_proto_read_elem(rd, row, in, f, (char *)span->p + span->n * api_elem_size(row));
        if (r < 0)
            err_path_index(rd->err, span->n);
        span->n++;
        return r;
    }
    if (row->shape == API_MAP)
        return api_proto_read_entry(rd, row, in, f, member);
    if (api_field_is_pointer(row)) {
        void **target = member;
        // A message given twice is merged, as protobuf requires.
        if (!*target)
            *target = api_proto_alloc(rd, 1, api_elem_size(row));
        if (!*target)
            return -ERR_BAD_REQUEST;
        member = *target;
    }
    if (row->has_offset)
        *(bool *)((char *)owner + row->has_offset) = true;
    return api_proto_read_elem(rd, row, in, f, member);
}

static const struct api_field *find_number(const struct api_type *t, uint32_t number, size_t *next)
{
    for (size_t i = 0; i < t->wire_len; i++) {
        size_t at = *next + i < t->wire_len ? *next + i : *next + i - t->wire_len;
        const struct api_field *f = &t->fields[t->wire[at]];
        if (f->number == number) {
            *next = at;
            return f;
        }
    }
    return NULL;
}

static void settle_maps(struct wire_reader *rd, const struct api_type *t, void *out)
{
    for (size_t i = 0; i < t->wire_len; i++) {
        const struct api_field *row = &t->fields[t->wire[i]];
        if (row->shape == API_MAP)
            map_settle(api_member(row, out), api_entry_size(row), rd->arena, NULL);
    }
}

static int api_proto_read_message(struct wire_reader *rd, const struct api_type *t,
                                  struct proto_reader in, void *out)
{
    struct proto_field f;
    uint64_t opened[2] = {0, 0}; // lists and maps, by position in t->wire
    size_t at = 0;
    int r;
    while ((r = proto_next(&in, &f, rd->err)) > 0) {
        const struct api_field *row = find_number(t, f.number, &at);
        if (!row)
            continue;
        bool span = row->shape == API_LIST || row->shape == API_MAP;
        r = 0;
        if (span && !(opened[at / 64] >> at % 64 & 1))
            r = open_span(rd, row, &in, &f, api_member(row, out));
        opened[at / 64] |= (uint64_t)1 << at % 64;
        if (r == 0)
            r = api_proto_read_field(rd, row, &in, &f, out);
        if (r < 0) {
            if (row->shape != API_INLINE)
                err_path_field(rd->err, row->name.p, row->name.n);
            return r;
        }
    }
    if (r == 0)
        settle_maps(rd, t, out);
    return r;
}

int api_proto_read(const struct api_type *t, struct str message, void *out, struct arena *arena,
                   struct err *err)
{
    size_t most = DRAY_OBJECT_BYTES_MAX + message.n * DRAY_OBJECT_BYTES_PER_BYTE;
    struct wire_reader rd = {arena, arena->used_bytes + most, err};
    return api_proto_read_message(&rd, t, proto_reader_of(message), out);
}

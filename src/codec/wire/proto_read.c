// SPDX-License-Identifier: Apache-2.0
//
// The protobuf wire format, read field by field without allocation. Every length is checked against
// the message before it is used.
#include <assert.h>
#include <string.h>

#include "base/utf8.h"
#include "codec/proto.h"

#include "base/banned.h"

#define VARINT_BYTES_MAX 10

static size_t proto_read_get_offset(const struct proto_reader *in, const char *at)
{
    return in->origin ? (size_t)(at - in->origin) : 0;
}

static int proto_read_fail(const struct proto_reader *in, const char *at, const char *what,
                           struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "invalid protobuf at byte %zu: %s",
                   proto_read_get_offset(in, at), what);
}

static int read_varint(struct proto_reader *in, uint64_t *ret, struct err *err)
{
    uint64_t v = 0;
    const char *start = in->next;
    for (unsigned i = 0; i < VARINT_BYTES_MAX; i++) {
        if (in->next == in->end)
            return proto_read_fail(in, start, "a varint is cut off", err);
        unsigned char c = (unsigned char)*in->next++;
        // The tenth byte holds the 64th bit and nothing more.
        if (i == VARINT_BYTES_MAX - 1 && c > 1)
            return proto_read_fail(in, start, "a varint is longer than 64 bits", err);
        v |= (uint64_t)(c & 0x7Fu) << (7 * i);
        if (c < 0x80u)
            break;
    }
    *ret = v;
    return 0;
}

// n bytes, little end first.
static int read_fixed(struct proto_reader *in, size_t n, uint64_t *ret, struct err *err)
{
    if ((size_t)(in->end - in->next) < n)
        return proto_read_fail(in, in->next, "a fixed-size number is cut off", err);
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)(unsigned char)in->next[i] << (8 * i);
    in->next += n;
    *ret = v;
    return 0;
}

static int proto_read_bytes(struct proto_reader *in, struct str *ret, struct err *err)
{
    const char *start = in->next;
    uint64_t n;
    int r = read_varint(in, &n, err);
    if (r < 0)
        return r;
    if (n > (uint64_t)(in->end - in->next))
        return proto_read_fail(in, start, "a length points past the end", err);
    *ret = str_make(in->next, (size_t)n);
    in->next += n;
    return 0;
}

static int read_tag(struct proto_reader *in, struct proto_field *f, struct err *err)
{
    const char *start = in->next;
    uint64_t tag;
    int r = read_varint(in, &tag, err);
    if (r < 0)
        return r;
    if (tag >> 3 == 0 || tag >> 3 > PROTO_FIELD_MAX)
        return proto_read_fail(in, start, "a field number is out of range", err);
    if ((tag & 7) > PROTO_FIXED32)
        return proto_read_fail(in, start, "a wire type is 6 or 7", err);
    f->number = (uint32_t)(tag >> 3);
    f->wire = (enum proto_wire)(tag & 7);
    return 0;
}

// Reads what follows a tag, unless it is a group's.
static int proto_read_payload(struct proto_reader *in, struct proto_field *f, struct err *err)
{
    switch (f->wire) {
    case PROTO_VARINT:
        return read_varint(in, &f->value, err);
    case PROTO_FIXED64:
        return read_fixed(in, 8, &f->value, err);
    case PROTO_FIXED32:
        return read_fixed(in, 4, &f->value, err);
    case PROTO_BYTES:
        return proto_read_bytes(in, &f->bytes, err);
    case PROTO_GROUP:
    case PROTO_GROUP_END:
        break;
    }
    return 0;
}

// Skips to behind the end of the group whose start tag has just been read, groups inside included.
static int proto_read_skip_group(struct proto_reader *in, struct proto_field *group,
                                 struct err *err)
{
    uint32_t open[DRAY_PROTO_DEPTH_MAX];
    size_t depth = 0;
    open[depth++] = group->number;
    const char *inside = in->next;
    const char *end = in->next;
    while (depth) {
        if (in->next == in->end)
            return proto_read_fail(in, inside, "a group is not closed", err);
        struct proto_field f = {0};
        end = in->next;
        int r = read_tag(in, &f, err);
        if (r == 0)
            r = proto_read_payload(in, &f, err);
        if (r < 0)
            return r;
        if (f.wire == PROTO_GROUP) {
            if (depth + in->depth >= DRAY_PROTO_DEPTH_MAX)
                return proto_read_fail(in, end, "groups are nested too deep", err);
            open[depth++] = f.number;
        } else if (f.wire == PROTO_GROUP_END && open[--depth] != f.number) {
            return proto_read_fail(in, end, "a group ends with the tag of another", err);
        }
    }
    group->bytes = str_make(inside, (size_t)(end - inside));
    return 0;
}

// next_short reads what most fields are: a tag of one byte, then a number or a length of one byte.
static bool next_short(struct proto_reader *in, struct proto_field *ret)
{
    const char *start = in->next;
    if (in->end - start < 2)
        return false;
    unsigned tag = (unsigned char)start[0], second = (unsigned char)start[1];
    bool bytes = (tag & 7) == PROTO_BYTES;
    if (tag < 8 || tag >= 0x80 || second >= 0x80 || (!bytes && (tag & 7) != PROTO_VARINT))
        return false;
    size_t body = bytes ? second : 0;
    if ((size_t)(in->end - start) - 2 < body)
        return false;
    ret->number = tag >> 3;
    ret->wire = (enum proto_wire)(tag & 7);
    ret->value = bytes ? 0 : second;
    ret->bytes = bytes ? str_make(start + 2, body) : str_make(NULL, 0);
    ret->raw = str_make(start, 2 + body);
    in->next = start + 2 + body;
    return true;
}

int proto_next(struct proto_reader *in, struct proto_field *ret, struct err *err)
{
    const char *start = in->next;
    if (start == in->end)
        return 0;
    if (next_short(in, ret))
        return 1;
    struct proto_field f = {0};
    int r = read_tag(in, &f, err);
    if (r < 0)
        return r;
    if (f.wire == PROTO_GROUP_END)
        return proto_read_fail(in, start, "a group ends that did not begin", err);
    r = f.wire == PROTO_GROUP ? proto_read_skip_group(in, &f, err)
                              : proto_read_payload(in, &f, err);
    if (r < 0)
        return r;
    f.raw = str_make(start, (size_t)(in->next - start));
    *ret = f;
    return 1;
}

// proto_wire_error reports a field whose wire type is not the one of its schema. Returns
// -ERR_BAD_REQUEST.
static int proto_wire_error(const struct proto_reader *in, const struct proto_field *f,
                            enum proto_wire want, struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST,
                   "invalid protobuf at byte %zu: field %u has wire type %d, not %d",
                   proto_read_get_offset(in, f->raw.p), f->number, (int)f->wire, (int)want);
}

static int to_number(const struct proto_reader *in, const struct proto_field *f,
                     enum proto_wire want, uint64_t *ret, struct err *err)
{
    if (f->wire != want)
        return proto_wire_error(in, f, want, err);
    *ret = f->value;
    return 0;
}

int proto_to_i64(const struct proto_reader *in, const struct proto_field *f, int64_t *ret,
                 struct err *err)
{
    uint64_t v = 0;
    int r = to_number(in, f, PROTO_VARINT, &v, err);
    if (r == 0)
        *ret = (int64_t)v;
    return r;
}

int proto_to_i32(const struct proto_reader *in, const struct proto_field *f, int32_t *ret,
                 struct err *err)
{
    uint64_t v = 0;
    int r = to_number(in, f, PROTO_VARINT, &v, err);
    if (r == 0)
        *ret = (int32_t)(uint32_t)v;
    return r;
}

int proto_to_bool(const struct proto_reader *in, const struct proto_field *f, bool *ret,
                  struct err *err)
{
    uint64_t v = 0;
    int r = to_number(in, f, PROTO_VARINT, &v, err);
    if (r == 0)
        *ret = v != 0;
    return r;
}

int proto_to_double(const struct proto_reader *in, const struct proto_field *f, double *ret,
                    struct err *err)
{
    uint64_t v = 0;
    int r = to_number(in, f, PROTO_FIXED64, &v, err);
    if (r == 0)
        memcpy(ret, &v, sizeof(*ret));
    return r;
}

int proto_to_bytes(const struct proto_reader *in, const struct proto_field *f, struct str *ret,
                   struct err *err)
{
    if (f->wire != PROTO_BYTES)
        return proto_wire_error(in, f, PROTO_BYTES, err);
    *ret = f->bytes;
    return 0;
}

int proto_to_str(const struct proto_reader *in, const struct proto_field *f, struct str *ret,
                 struct err *err)
{
    struct str s = {0};
    int r = proto_to_bytes(in, f, &s, err);
    if (r < 0)
        return r;
    size_t bad;
    if (!utf8_valid(s, &bad))
        return proto_read_fail(in, s.p + bad, "a string is not UTF-8", err);
    *ret = s;
    return 0;
}

int proto_enter(const struct proto_reader *in, const struct proto_field *f,
                struct proto_reader *ret, struct err *err)
{
    struct str message = {0};
    int r = proto_to_bytes(in, f, &message, err);
    if (r < 0)
        return r;
    if (in->depth + 1 >= DRAY_PROTO_DEPTH_MAX)
        return proto_read_fail(in, f->raw.p, "messages are nested too deep", err);
    *ret = (struct proto_reader){message.p, message.p + message.n, in->origin, in->depth + 1};
    return 0;
}

int proto_items_of(const struct proto_reader *in, const struct proto_field *f, enum proto_wire wire,
                   struct proto_items *ret, struct err *err)
{
    assert(wire == PROTO_VARINT || wire == PROTO_FIXED32 || wire == PROTO_FIXED64);
    struct proto_items items = {.wire = wire, .reader = *in};
    if (f->wire == PROTO_BYTES) {
        items.reader.next = f->bytes.p;
        items.reader.end = f->bytes.p + f->bytes.n;
    } else if (f->wire == wire) {
        items.single = true;
        items.value = f->value;
        items.reader.end = items.reader.next;
    } else {
        return proto_wire_error(in, f, wire, err);
    }
    *ret = items;
    return 0;
}

int proto_items_next(struct proto_items *items, uint64_t *ret, struct err *err)
{
    if (items->single) {
        items->single = false;
        *ret = items->value;
        return 1;
    }
    struct proto_reader *in = &items->reader;
    if (in->next == in->end)
        return 0;
    int r = items->wire == PROTO_VARINT
                ? read_varint(in, ret, err)
                : read_fixed(in, items->wire == PROTO_FIXED32 ? 4 : 8, ret, err);
    return r < 0 ? r : 1;
}

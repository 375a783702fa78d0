// SPDX-License-Identifier: Apache-2.0
//
// Protocol buffers on the wire: a bounded cursor over bytes and a writer. No messages are known
// here; generated decoders loop over proto_next and switch on the field number.
//
// The reader never reads past its slice, never recurses and never allocates; slices it hands out
// point into the input. It refuses varints longer than ten bytes or past 64 bits, field number 0 or
// past 2^29-1, wire types 6 and 7, lengths past the end, unbalanced groups, and nesting deeper than
// DRAY_PROTO_DEPTH_MAX. Every error names the byte of the whole message.
//
// Fields a decoder does not know are handed out whole (raw), so that they can be kept and written
// back by proto_put_raw.
#ifndef CODEC_PROTO_H
#define CODEC_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/str.h"

#define PROTO_FIELD_MAX ((1u << 29) - 1)

enum proto_wire {
    PROTO_VARINT = 0,
    PROTO_FIXED64 = 1,
    PROTO_BYTES = 2,
    PROTO_GROUP = 3, // deprecated; skipped as a whole
    PROTO_GROUP_END = 4,
    PROTO_FIXED32 = 5,
};

struct proto_reader {
    const char *next;
    const char *end;
    const char *origin; // start of the outermost message, for offsets
    unsigned depth;     // messages around this one
};

struct proto_field {
    uint32_t number;
    enum proto_wire wire;
    uint64_t value;   // varint and fixed
    struct str bytes; // of PROTO_BYTES: the content; of PROTO_GROUP: what is inside
    struct str raw;   // tag and all
};

// proto_reader_of starts reading a message.
static inline struct proto_reader proto_reader_of(struct str message)
{
    return (struct proto_reader){message.p, message.n ? message.p + message.n : message.p,
                                 message.p, 0};
}

// proto_next reads a field. Returns 1, 0 at the end, or -ERR_BAD_REQUEST.
int proto_next(struct proto_reader *in, struct proto_field *ret, struct err *err) MUST_USE;

// proto_to_*: a field's value as the schema's type. Return 0 or -ERR_BAD_REQUEST by
// proto_wire_error. As everywhere, a varint is cut to the type's bits and any bool but 0 is true.
int proto_to_i64(const struct proto_reader *in, const struct proto_field *f, int64_t *ret,
                 struct err *err) MUST_USE;
int proto_to_i32(const struct proto_reader *in, const struct proto_field *f, int32_t *ret,
                 struct err *err) MUST_USE;
int proto_to_bool(const struct proto_reader *in, const struct proto_field *f, bool *ret,
                  struct err *err) MUST_USE;
int proto_to_double(const struct proto_reader *in, const struct proto_field *f, double *ret,
                    struct err *err) MUST_USE;

// proto_to_bytes borrows the bytes; proto_to_str also refuses what is not UTF-8.
int proto_to_bytes(const struct proto_reader *in, const struct proto_field *f, struct str *ret,
                   struct err *err) MUST_USE;
int proto_to_str(const struct proto_reader *in, const struct proto_field *f, struct str *ret,
                 struct err *err) MUST_USE;

// proto_enter starts reading a message inside another. -ERR_BAD_REQUEST also when nested too deep.
int proto_enter(const struct proto_reader *in, const struct proto_field *f,
                struct proto_reader *ret, struct err *err) MUST_USE;

// struct proto_items walks the numbers in one occurrence of a repeated numeric field, which may be
// packed (many in a PROTO_BYTES) or not (just one, of wire type `wire`).
struct proto_items {
    struct proto_reader reader;
    enum proto_wire wire;
    bool single;
    uint64_t value;
};

// proto_items_of starts; proto_items_next answers 1 with a number, 0 at the end, or
// -ERR_BAD_REQUEST.
int proto_items_of(const struct proto_reader *in, const struct proto_field *f, enum proto_wire wire,
                   struct proto_items *ret, struct err *err) MUST_USE;
int proto_items_next(struct proto_items *items, uint64_t *ret, struct err *err) MUST_USE;

// --- Writing -------------------------------------------------------------------------------------

// struct proto_writer writes from the end of a message to its beginning: the last field first. So a
// length is known when it is written, and nothing is measured before or moved after. Callers write
// fields by descending number and items from last to first. Zeroed, it is ready.
struct proto_writer {
    char *buf;
    size_t cap;
    size_t n; // bytes written; they are the last n of buf
};

void proto_put_varint(struct proto_writer *w, uint32_t number, uint64_t v);

// proto_put_i32 writes an int32: negative ones take ten bytes, as for int64.
static inline void proto_put_i64(struct proto_writer *w, uint32_t number, int64_t v)
{
    proto_put_varint(w, number, (uint64_t)v);
}

static inline void proto_put_i32(struct proto_writer *w, uint32_t number, int32_t v)
{
    proto_put_varint(w, number, (uint64_t)(int64_t)v);
}

static inline void proto_put_bool(struct proto_writer *w, uint32_t number, bool v)
{
    proto_put_varint(w, number, v);
}

void proto_put_double(struct proto_writer *w, uint32_t number, double v);
void proto_put_bytes(struct proto_writer *w, uint32_t number, struct str v);

// proto_put_raw writes bytes as they are: fields kept from elsewhere.
void proto_put_raw(struct proto_writer *w, struct str raw);

// proto_put_packed_item writes one varint of a packed field, without a tag.
void proto_put_packed_item(struct proto_writer *w, uint64_t v);

// proto_mark and proto_close write a message inside a message (or a packed field): take the mark,
// write the content, close it.
static inline size_t proto_mark(const struct proto_writer *w)
{
    return w->n;
}
void proto_close(struct proto_writer *w, uint32_t number, size_t mark);

// proto_sort_by_key puts the entries of a map into the order in which they appear in the message:
// by key, ascending. entries is an array of count structs of size bytes whose first member is the
// key, a struct str; write them from last to first.
void proto_sort_by_key(void *entries, size_t count, size_t size);

// proto_written is the message so far; it lives until the next write.
static inline struct str proto_written(const struct proto_writer *w)
{
    return (struct str){w->buf ? w->buf + w->cap - w->n : "", w->n};
}

static inline void proto_writer_clear(struct proto_writer *w)
{
    w->n = 0;
}

void proto_writer_done(struct proto_writer *w);
#define cleanup_proto_writer cleanup_with(proto_writer_done)

#endif

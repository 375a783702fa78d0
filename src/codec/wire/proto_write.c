// SPDX-License-Identifier: Apache-2.0
//
// The protobuf wire format, written from the end to the beginning, so that the length of a nested
// message is known when it is written.
#include <assert.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "codec/proto.h"

#include "base/banned.h"

static void proto_write_grow(struct proto_writer *w, size_t n)
{
    size_t cap = mem_grow_cap(w->cap, w->n + n < 256 ? 256 : w->n + n, 1);
    char *bigger = xmalloc(cap);
    if (w->buf)
        memcpy(bigger + cap - w->n, w->buf + w->cap - w->n, w->n);
    free(w->buf);
    w->buf = bigger;
    w->cap = cap;
}

// Makes room for n bytes before what is written, and returns where they go.
static inline char *grow_down(struct proto_writer *w, size_t n)
{
    if (!w->buf || w->cap - w->n < n)
        proto_write_grow(w, n);
    w->n += n;
    return w->buf + w->cap - w->n;
}

static void proto_write_raw(struct proto_writer *w, struct str bytes)
{
    char *to = grow_down(w, bytes.n);
    if (bytes.n)
        memcpy(to, bytes.p, bytes.n);
}

// Most are one byte: tags, lengths, small numbers.
static inline void proto_write_varint(struct proto_writer *w, uint64_t v)
{
    if (v < 0x80u) {
        *grow_down(w, 1) = (char)v;
        return;
    }
    size_t n = 1;
    for (uint64_t rest = v >> 7; rest; rest >>= 7)
        n++;
    char *to = grow_down(w, n);
    for (; v >= 0x80u; v >>= 7)
        *to++ = (char)(v | 0x80u);
    *to = (char)v;
}

void proto_put_packed_item(struct proto_writer *w, uint64_t v)
{
    proto_write_varint(w, v);
}

static void put_tag(struct proto_writer *w, uint32_t number, enum proto_wire wire)
{
    assert(number > 0 && number <= PROTO_FIELD_MAX);
    proto_write_varint(w, (uint64_t)number << 3 | (uint64_t)wire);
}

void proto_put_varint(struct proto_writer *w, uint32_t number, uint64_t v)
{
    proto_write_varint(w, v);
    put_tag(w, number, PROTO_VARINT);
}

void proto_put_double(struct proto_writer *w, uint32_t number, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof(bits));
    bits = htole64(bits);
    memcpy(grow_down(w, sizeof(bits)), &bits, sizeof(bits));
    put_tag(w, number, PROTO_FIXED64);
}

void proto_put_bytes(struct proto_writer *w, uint32_t number, struct str v)
{
    proto_write_raw(w, v);
    proto_write_varint(w, v.n);
    put_tag(w, number, PROTO_BYTES);
}

void proto_put_raw(struct proto_writer *w, struct str raw)
{
    proto_write_raw(w, raw);
}

void proto_close(struct proto_writer *w, uint32_t number, size_t mark)
{
    assert(mark <= w->n);
    proto_write_varint(w, w->n - mark);
    put_tag(w, number, PROTO_BYTES);
}

void proto_sort_by_key(void *entries, size_t count, size_t size)
{
    assert(size >= sizeof(struct str));
    if (count > 1)
        qsort(entries, count, size, str_cmp_elements);
}

void proto_writer_done(struct proto_writer *w)
{
    free(w->buf);
    *w = (struct proto_writer){0};
}

// SPDX-License-Identifier: Apache-2.0
//
// Layout: one byte of format, eight of checksum (least significant first), then texts, each behind
// its length as a base-128 number: UID, labels, fields, owners (each list behind its length); the
// rest is the JSON.
#include "store/record.h"

#include <string.h>

#include "base/vec.h"

#include "base/banned.h"

#define RECORD_FORMAT     1
#define RECORD_HEAD_BYTES 9

// --- Checksum ------------------------------------------------------------------------------------

// Every step is a bijection of the state, so that a change within one word is always seen.
static uint64_t sum_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 32;
}

static uint64_t sum_text(uint64_t h, struct str s)
{
    size_t n = s.n;
    const char *p = s.p;
    h = sum_word(h, n);
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        h = sum_word(h, word);
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < n; i++)
        rest |= (uint64_t)(unsigned char)p[i] << (8 * i);
    return n ? sum_word(h, rest) : h;
}

uint64_t record_sum(const struct record_row *row, struct str payload)
{
    uint64_t h = sum_word(UINT64_C(0x64726179), row->revision);
    h = sum_word(h, row->deleted);
    h = sum_text(h, row->kind);
    h = sum_text(h, row->namespace);
    h = sum_text(h, row->name);
    return sum_text(h, payload);
}

// --- Writing -------------------------------------------------------------------------------------

static void record_add_number(struct sbuf *out, size_t v)
{
    while (v >= 0x80) {
        sbuf_addc(out, (char)(unsigned char)(v | 0x80));
        v >>= 7;
    }
    sbuf_addc(out, (char)v);
}

static void record_add_text(struct sbuf *out, struct str s)
{
    record_add_number(out, s.n);
    sbuf_add(out, s);
}

static void add_pairs(struct sbuf *out, const struct object_pair *pairs, size_t n)
{
    record_add_number(out, n);
    for (size_t i = 0; i < n; i++) {
        record_add_text(out, pairs[i].key);
        record_add_text(out, pairs[i].value);
    }
}

static void put_sum(char *at, uint64_t sum)
{
    for (int i = 0; i < 8; i++)
        at[i] = (char)(unsigned char)(sum >> (8 * i));
}

static uint64_t get_sum(const char *at)
{
    uint64_t sum = 0;
    for (int i = 0; i < 8; i++)
        sum |= (uint64_t)(unsigned char)at[i] << (8 * i);
    return sum;
}

void record_write(const struct record_row *row, const struct object *o, struct sbuf *out)
{
    size_t start = out->n;
    sbuf_reserve(out, RECORD_HEAD_BYTES + o->block_size);
    sbuf_addc(out, RECORD_FORMAT);
    sbuf_add_repeat(out, 0, 8);
    record_add_text(out, o->uid);
    add_pairs(out, o->labels, o->labels_len);
    add_pairs(out, o->fields, o->fields_len);
    record_add_number(out, 0); // owners, in rows of version 0.1
    sbuf_add(out, o->json);
    put_sum(out->p + start + 1,
            record_sum(row, str_from(sbuf_str(out), start + RECORD_HEAD_BYTES)));
}

// --- Reading -------------------------------------------------------------------------------------

struct reader {
    struct str rest;
    bool bad;
};

static size_t record_read_number(struct reader *r)
{
    size_t v = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        if (r->rest.n == 0)
            break;
        unsigned char c = (unsigned char)r->rest.p[0];
        r->rest = str_from(r->rest, 1);
        v |= (size_t)(c & 0x7f) << shift;
        if (c < 0x80)
            return v;
    }
    r->bad = true;
    return 0;
}

static struct str record_read_text(struct reader *r)
{
    size_t n = record_read_number(r);
    if (n > r->rest.n)
        r->bad = true;
    if (r->bad)
        return (struct str){0};
    struct str s = str_upto(r->rest, n);
    r->rest = str_from(r->rest, n);
    return s;
}

// A list's length: no more than there are bytes.
static size_t read_count(struct reader *r)
{
    size_t n = record_read_number(r);
    if (n > r->rest.n)
        r->bad = true;
    return r->bad ? 0 : n;
}

struct pair_list VEC(struct object_pair);

static void record_read_pairs(struct reader *r, struct arena *arena, struct pair_list *out)
{
    size_t n = read_count(r);
    for (size_t i = 0; i < n && !r->bad; i++) {
        struct str key = record_read_text(r);
        struct object_pair pair = {key, record_read_text(r)};
        if (out->n && str_cmp(vec_last(out)->key, key) > 0)
            r->bad = true;
        vec_push_arena(arena, out, pair);
    }
}

// record_parse checks a row and finds its parts, all but the kind.
static int record_parse(const struct record_row *row, struct str blob, struct arena *arena,
                        struct object_parts *ret, struct err *err)
{
    if (blob.n < RECORD_HEAD_BYTES || blob.p[0] != RECORD_FORMAT)
        return err_set(err, ERR_INVALID, "the row's format is unknown");
    struct reader r = {.rest = str_from(blob, RECORD_HEAD_BYTES)};
    if (get_sum(blob.p + 1) != record_sum(row, r.rest))
        return err_set(err, ERR_INVALID, "the row's checksum is wrong");
    struct pair_list labels = {0}, fields = {0};
    struct str uid = record_read_text(&r);
    record_read_pairs(&r, arena, &labels);
    record_read_pairs(&r, arena, &fields);
    size_t owners_len = read_count(&r);
    for (size_t i = 0; i < owners_len && !r.bad; i++)
        (void)record_read_text(&r);
    if (r.bad)
        return err_set(err, ERR_INVALID, "the row ends too early");
    *ret = (struct object_parts){
        .revision = row->revision,
        .namespace = row->namespace,
        .name = row->name,
        .uid = uid,
        .json = r.rest,
        .labels = labels.p,
        .labels_len = labels.n,
        .fields = fields.p,
        .fields_len = fields.n,
    };
    return 0;
}

int record_check(const struct record_row *row, struct str blob, struct err *err)
{
    struct arena cleanup_arena arena = {0};
    struct object_parts parts;
    return record_parse(row, blob, &arena, &parts, err);
}

int record_read(const struct record_row *row, const struct api_kind *kind, struct str blob,
                struct object **ret, struct err *err)
{
    struct arena cleanup_arena arena = {0};
    struct object_parts parts;
    int r = record_parse(row, blob, &arena, &parts, err);
    if (r < 0)
        return r;
    parts.kind = kind;
    *ret = object_new(&parts);
    return 0;
}

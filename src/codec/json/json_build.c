// SPDX-License-Identifier: Apache-2.0
//
// Building documents. Values are laid out exactly as yyjson's parser lays them out: a container's
// tag holds the number of its items and its payload the distance to the value behind it.
#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/json/json_int.h"

#include "base/banned.h"

// Adds a value that the caller fills in at once: the pointer is good until the next one.
static yyjson_val *json_build_add_value(struct json_builder *b)
{
    if (b->n == b->cap) {
        b->cap = mem_grow_cap(b->cap, b->n + 1, sizeof(*b->vals));
        b->vals = xreallocarray(b->vals, b->cap, sizeof(*b->vals));
        if (b->keep_positions)
            b->positions = xreallocarray(b->positions, b->cap, sizeof(*b->positions));
    }
    assert(b->n < UINT32_MAX);
    if (b->keep_positions)
        b->positions[b->n] = b->at;
    // An item more for the container around it; keys and values are distinguished when it is
    // closed.
    if (b->depth)
        b->vals[b->open[b->depth - 1]].tag += (uint64_t)1 << YYJSON_TAG_BIT;
    return &b->vals[b->n++];
}

static int open_container(struct json_builder *b, uint64_t type, struct err *err)
{
    if (b->depth == DRAY_DOC_DEPTH_MAX || b->n >= UINT32_MAX / 2) {
        int r = err_set(err, ERR_BAD_REQUEST,
                        b->depth == DRAY_DOC_DEPTH_MAX ? "nested deeper than %d levels"
                                                       : "more than %d million values",
                        b->depth == DRAY_DOC_DEPTH_MAX ? DRAY_DOC_DEPTH_MAX : 2147);
        err_at(err, b->at.line, b->at.column);
        return r;
    }
    *json_build_add_value(b) = (yyjson_val){.tag = type};
    b->open[b->depth++] = (uint32_t)(b->n - 1);
    return 0;
}

int json_build_object(struct json_builder *b, struct err *err)
{
    return open_container(b, YYJSON_TYPE_OBJ, err);
}

int json_build_array(struct json_builder *b, struct err *err)
{
    return open_container(b, YYJSON_TYPE_ARR, err);
}

void json_build_end(struct json_builder *b)
{
    assert(b->depth > 0);
    uint32_t index = b->open[--b->depth];
    yyjson_val *v = &b->vals[index];
    size_t items = json_len(v);
    if (json_is_object(v)) {
        assert(items % 2 == 0);
        unsafe_yyjson_set_len(v, items / 2);
    }
    v->uni.ofs = (b->n - index) * sizeof(*v);
}

void json_build_null(struct json_builder *b)
{
    *json_build_add_value(b) = (yyjson_val){.tag = YYJSON_TYPE_NULL};
}

void json_build_bool(struct json_builder *b, bool v)
{
    unsafe_yyjson_set_bool(json_build_add_value(b), v);
}

void json_build_i64(struct json_builder *b, int64_t v)
{
    // As the parser: a number that is not negative is unsigned.
    if (v < 0)
        unsafe_yyjson_set_sint(json_build_add_value(b), v);
    else
        unsafe_yyjson_set_uint(json_build_add_value(b), (uint64_t)v);
}

void json_build_u64(struct json_builder *b, uint64_t v)
{
    unsafe_yyjson_set_uint(json_build_add_value(b), v);
}

void json_build_number(struct json_builder *b, struct str text)
{
    struct str copy = arena_str(&b->strings, text);
    yyjson_val *v = json_build_add_value(b);
    const char *end = yyjson_read_number(copy.p, v, YYJSON_READ_BIGNUM_AS_RAW, NULL, NULL);
    assert(end == copy.p + copy.n);
    (void)end;
}

void json_build_str(struct json_builder *b, struct str s)
{
    struct str copy = arena_str(&b->strings, s);
    unsafe_yyjson_set_strn(json_build_add_value(b), copy.p, copy.n);
}

int json_build_value(struct json_builder *b, const yyjson_val *v, struct err *err)
{
    if (json_is_object(v)) {
        int r = json_build_object(b, err);
        if (r < 0)
            return r;
        json_obj_foreach(v, key, val) {
            json_build_str(b, json_str(key));
            r = json_build_value(b, val, err);
            if (r < 0)
                return r;
        }
        json_build_end(b);
        return 0;
    }
    if (json_is_array(v)) {
        int r = json_build_array(b, err);
        if (r < 0)
            return r;
        json_arr_foreach(v, item) {
            r = json_build_value(b, item, err);
            if (r < 0)
                return r;
        }
        json_build_end(b);
        return 0;
    }
    yyjson_val copy = *v;
    if (json_is_string(v) || yyjson_is_raw(&copy))
        copy.uni.str = arena_str(&b->strings, json_str(v)).p;
    *json_build_add_value(b) = copy;
    return 0;
}

void json_build_finish(struct json_builder *b, struct json_doc *ret)
{
    assert(b->depth == 0 && b->n > 0 && json_next(b->vals) == b->vals + b->n);
    *ret = (struct json_doc){.root = b->vals,
                             .count = b->n,
                             .built = b->vals,
                             .strings = b->strings,
                             .positions = b->positions,
                             .start = {1, 1}};
    *b = (struct json_builder){0};
}

void json_builder_done(struct json_builder *b)
{
    free(b->vals);
    free(b->positions);
    arena_done(&b->strings);
    *b = (struct json_builder){0};
}

// --- Last of repeated keys wins ------------------------------------------------------------------

struct drop {
    const struct json_doc *doc;
    const struct json_pos *positions; // of doc
    struct json_builder builder;
    struct err *err;
};

static int drop_in(struct drop *d, const yyjson_val *v);

static void set_place(struct drop *d, const yyjson_val *v)
{
    d->builder.at = d->positions[v - d->doc->root];
}

static int drop_in_object(struct drop *d, const yyjson_val *v)
{
    struct json_keys keys = {0};
    size_t repeats = json_keys_load(&keys, v);
    cleanup_free uint32_t *last = xreallocarray(NULL, keys.n, sizeof(*last));
    for (size_t i = 0; repeats && i < keys.n; i++)
        last[keys.first[i]] = (uint32_t)i;
    int r = json_build_object(&d->builder, d->err);
    for (size_t i = 0; r == 0 && i < keys.n; i++) {
        if (keys.first[i] != i)
            continue;
        const yyjson_val *key = keys.vals[repeats ? last[i] : i];
        set_place(d, key);
        json_build_str(&d->builder, json_str(key));
        r = drop_in(d, key + 1);
    }
    json_keys_done(&keys);
    if (r == 0)
        json_build_end(&d->builder);
    return r;
}

// Recursion is bounded: the document's depth has been checked.
static int drop_in(struct drop *d, const yyjson_val *v)
{
    set_place(d, v);
    if (json_is_object(v))
        return drop_in_object(d, v);
    if (!json_is_array(v))
        return json_build_value(&d->builder, v, d->err);
    int r = json_build_array(&d->builder, d->err);
    json_arr_foreach(v, item) {
        if (r == 0)
            r = drop_in(d, item);
    }
    if (r == 0)
        json_build_end(&d->builder);
    return r;
}

int json_drop_repeats(struct json_doc *doc, struct err *err)
{
    cleanup_free struct json_pos *positions = json_positions(doc->source, doc->start, doc->count);
    struct drop d = {.doc = doc, .positions = positions, .err = err};
    d.builder.keep_positions = true;
    int r = drop_in(&d, doc->root);
    if (r < 0) {
        json_builder_done(&d.builder);
        return r;
    }
    struct json_doc rebuilt;
    json_build_finish(&d.builder, &rebuilt);
    rebuilt.source = doc->source;
    rebuilt.start = doc->start;
    json_doc_done(doc);
    *doc = rebuilt;
    return 0;
}

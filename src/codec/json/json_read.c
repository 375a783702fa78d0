// SPDX-License-Identifier: Apache-2.0
//
// Parsing: bounds, then yyjson, then one pass over the values for nesting and repeated keys.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/json/json_int.h"
#include "codec/json/keys.h"

#include "base/banned.h"

// A piece of a larger text: errors are reported in terms of the whole.
struct piece {
    struct str text;
    size_t offset; // of text in the whole
    struct json_pos start;
};

size_t json_skip_space(struct str text, size_t offset)
{
    while (offset < text.n && (text.p[offset] == ' ' || text.p[offset] == '\n' ||
                               text.p[offset] == '\r' || text.p[offset] == '\t'))
        offset++;
    return offset;
}

struct json_pos json_pos_of(struct str text, size_t offset)
{
    assert(offset <= text.n);
    struct json_pos at = {1, 1};
    size_t line_start = 0;
    const char *p = text.p;
    const char *end = text.p + offset;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
        p++;
        at.line++;
        line_start = (size_t)(p - text.p);
    }
    at.column = (uint32_t)(offset - line_start + 1);
    return at;
}

// The position in the whole of what is at `at` in a piece that starts at `start`.
static struct json_pos json_read_shift_position(struct json_pos start, struct json_pos at)
{
    if (at.line == 1)
        at.column += start.column - 1;
    at.line += start.line - 1;
    return at;
}

static void json_read_set_position(struct err *err, const struct piece *in, size_t offset)
{
    struct json_pos at = json_read_shift_position(in->start, json_pos_of(in->text, offset));
    err_at(err, at.line, at.column);
}

// What the byte at offset looks like, for messages: 'x', 0x1b, or the end.
static const char *show_byte(struct str text, size_t offset, char buf[16])
{
    if (offset >= text.n)
        return "the end of the text";
    unsigned char c = (unsigned char)text.p[offset];
    (void)snprintf(buf, 16, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    return buf;
}

// What to do about the commonest mistakes; empty when there is nothing to add.
static const char *json_read_get_advice(struct str text, size_t offset)
{
    char c = offset < text.n ? text.p[offset] : '\0';
    if (c == '\'')
        return "; strings stand in double quotes";
    if (c == '/' || c == '#')
        return "; JSON has no comments";
    if (c == 'N' || c == 'I')
        return "; NaN and Infinity are not JSON";
    if (c == 'T' || c == 'F')
        return "; true and false are written in small letters";
    return "";
}

static int json_read_fail_syntax(const struct piece *in, const yyjson_read_err *bad,
                                 struct err *err)
{
    size_t offset = bad->pos < in->text.n ? bad->pos : in->text.n;
    char buf[16];
    int r = err_set(err, ERR_BAD_REQUEST, "invalid JSON: %s at %s (offset %zu)%s", bad->msg,
                    show_byte(in->text, offset, buf), in->offset + offset,
                    json_read_get_advice(in->text, offset));
    json_read_set_position(err, in, offset);
    return r;
}

// Marks of other encodings, which the parser itself would only call unexpected characters.
static int check_encoding(const struct piece *in, struct err *err)
{
    const char *what = NULL;
    if (str_starts(in->text, STR("\xEF\xBB\xBF")))
        what = "starts with a byte order mark; save it as UTF-8 without one";
    else if (str_starts(in->text, STR("\xFE\xFF")) || str_starts(in->text, STR("\xFF\xFE")))
        what = "is UTF-16; save it as UTF-8";
    if (!what)
        return 0;
    int r =
        err_set(err, ERR_BAD_REQUEST, "invalid JSON: the text %s (offset %zu)", what, in->offset);
    json_read_set_position(err, in, 0);
    return r;
}

static void keys_reserve(struct json_keys *k, size_t n)
{
    if (n <= k->cap)
        return;
    size_t cap = mem_grow_cap(k->cap, n < KEYS_FEW ? KEYS_FEW : n, sizeof(*k->keys));
    k->keys = xreallocarray(k->keys, cap, sizeof(*k->keys));
    k->vals = xreallocarray(k->vals, cap, sizeof(*k->vals));
    k->first = xreallocarray(k->first, cap, sizeof(*k->first));
    k->cap = cap;
}

size_t json_keys_load(struct json_keys *k, const yyjson_val *object)
{
    keys_reserve(k, json_len(object));
    k->n = 0;
    json_obj_foreach(object, key, val) {
        k->vals[k->n] = key;
        k->keys[k->n++] = json_str(key);
    }
    return keys_first(k->keys, k->n, k->first);
}

void json_keys_done(struct json_keys *k)
{
    free(k->keys);
    free(k->vals);
    free(k->first);
    *k = (struct json_keys){0};
}

// Whether a key equals one that stands before it in the object.
static bool repeats_earlier(const yyjson_val *object, const yyjson_val *later)
{
    for (const yyjson_val *key = json_obj_first(object); key != later; key = json_next(key + 1))
        if (str_eq(json_str(key), json_str(later)))
            return true;
    return false;
}

bool json_has_repeats(struct json_keys *k, const yyjson_val *object)
{
    size_t n = json_len(object);
    if (n < 2)
        return false;
    if (n > KEYS_FEW)
        return json_keys_load(k, object) > 0;
    // The common case, without loading: keys leave a mark by length, first and last byte, and only
    // one that finds its mark taken is compared with those before it.
    uint64_t marks = 0;
    json_obj_foreach(object, key, val) {
        struct str s = json_str(key);
        unsigned sum = (unsigned)s.n * 5 + (unsigned char)s.p[0] * 3u;
        if (s.n)
            sum += (unsigned char)s.p[s.n - 1];
        uint64_t mark = (uint64_t)1 << (sum & 63u);
        if ((marks & mark) && repeats_earlier(object, key))
            return true;
        marks |= mark;
    }
    return false;
}

static int refuse_repeat(const struct json_doc *doc, const struct json_keys *k, struct err *err)
{
    size_t i = 0;
    while (i < k->n && k->first[i] == i)
        i++;
    assert(i < k->n);
    int r = err_set(err, ERR_BAD_REQUEST, "duplicate key \"%.*s\" in an object",
                    STR_ARG(str_upto(k->keys[i], 200)));
    struct json_pos at;
    if (err && json_locate(doc, k->vals[i], &at))
        err_at(err, at.line, at.column);
    return r;
}

static int refuse_depth(const struct json_doc *doc, const yyjson_val *v, struct err *err)
{
    int r = err_set(err, ERR_BAD_REQUEST, "nested deeper than %d levels", DRAY_DOC_DEPTH_MAX);
    struct json_pos at;
    if (err && json_locate(doc, v, &at))
        err_at(err, at.line, at.column);
    return r;
}

// One pass over all values in text order. Returns 1 when keys repeat and options allow it.
static int json_read_check_values(const struct json_doc *doc, enum json_duplicates duplicates,
                                  struct err *err)
{
    const yyjson_val *ends[DRAY_DOC_DEPTH_MAX]; // of the containers around v
    size_t depth = 0;
    struct json_keys keys = {0};
    const yyjson_val *end = doc->root + doc->count;
    int r = 0;
    for (const yyjson_val *v = doc->root; v < end; v++) {
        if (!json_is_container(v))
            continue;
        while (depth && ends[depth - 1] <= v)
            depth--;
        if (depth == DRAY_DOC_DEPTH_MAX) {
            r = refuse_depth(doc, v, err);
            break;
        }
        ends[depth++] = json_next(v);
        if (!json_is_object(v) || duplicates == JSON_DUPLICATES_KEEP || !json_has_repeats(&keys, v))
            continue;
        r = 1;
        if (duplicates == JSON_DUPLICATES_REFUSE) {
            (void)json_keys_load(&keys, v);
            r = refuse_repeat(doc, &keys, err);
            break;
        }
    }
    json_keys_done(&keys);
    return r;
}

static int parse_piece(const struct piece *in, enum json_duplicates duplicates,
                       struct json_doc *ret, struct err *err)
{
    int r = check_encoding(in, err);
    if (r < 0)
        return r;
    yyjson_read_err bad;
    union {
        const char *in;
        char *out;
    } unconst = {.in = in->text.p}; // not written to without the in-situ flag
    yyjson_doc *parsed =
        yyjson_read_opts(unconst.out, in->text.n, YYJSON_READ_BIGNUM_AS_RAW, NULL, &bad);
    if (!parsed)
        return json_read_fail_syntax(in, &bad, err);
    struct json_doc doc = {.root = yyjson_doc_get_root(parsed),
                           .count = yyjson_doc_get_val_count(parsed),
                           .parsed = parsed,
                           .source = in->text,
                           .start = in->start};
    r = json_read_check_values(&doc, duplicates, err);
    if (r > 0)
        r = json_drop_repeats(&doc, err);
    if (r < 0) {
        json_doc_done(&doc);
        return r;
    }
    *ret = doc;
    return 0;
}

static int json_read_check_size(size_t n, const struct json_options *options, struct err *err)
{
    size_t max = options && options->max_bytes ? options->max_bytes : DRAY_REQUEST_BYTES_MAX;
    if (n <= max)
        return 0;
    return err_set(err, ERR_TOO_LARGE, "the document has %zu bytes, more than the %zu allowed", n,
                   max);
}

int json_parse(struct str text, const struct json_options *options, struct json_doc *ret,
               struct err *err)
{
    int r = json_read_check_size(text.n, options, err);
    if (r < 0)
        return r;
    size_t begin = json_skip_space(text, 0);
    if (begin == text.n) {
        r = err_set(err, ERR_BAD_REQUEST, "the document is empty");
        err_at(err, 1, 1);
        return r;
    }
    struct piece in = {str_from(text, begin), begin, json_pos_of(text, begin)};
    return parse_piece(&in, options ? options->duplicates : JSON_DUPLICATES_REFUSE, ret, err);
}

// The end of the string that starts at offset (at its quote); the end of text if it is not closed.
static size_t skip_string(struct str text, size_t offset)
{
    for (offset++; offset < text.n; offset++) {
        if (text.p[offset] == '\\')
            offset++;
        else if (text.p[offset] == '"')
            return offset + 1;
    }
    return text.n;
}

// The end of a number or literal, or of one byte that starts nothing.
static size_t skip_word(struct str text, size_t offset)
{
    size_t end = offset;
    while (end < text.n && !strchr(" \t\r\n,:[]{}\"", text.p[end]))
        end++;
    return end > offset ? end : offset + 1;
}

// Where the value that starts at offset ends. Does not check it: that is the parser's work.
static size_t find_end(struct str text, size_t offset)
{
    size_t depth = 0;
    while (offset < text.n) {
        char c = text.p[offset];
        if (c == '"')
            offset = skip_string(text, offset);
        else if (c == '{' || c == '[')
            depth++, offset++;
        else if (c == '}' || c == ']')
            depth -= depth > 0, offset++;
        else if (depth)
            offset++;
        else
            offset = skip_word(text, offset);
        if (depth == 0)
            return offset;
    }
    return text.n;
}

int json_parse_next(struct str text, size_t *offset, struct json_pos *at,
                    const struct json_options *options, struct json_doc *ret, struct err *err)
{
    size_t begin = json_skip_space(text, *offset);
    if (begin == text.n)
        return 0;
    size_t end = find_end(text, begin);
    int r = json_read_check_size(end - begin, options, err);
    if (r < 0)
        return r;
    struct str space = str_upto(str_from(text, *offset), begin - *offset);
    struct json_pos start = json_read_shift_position(*at, json_pos_of(space, space.n));
    struct piece in = {str_upto(str_from(text, begin), end - begin), begin, start};
    r = parse_piece(&in, options ? options->duplicates : JSON_DUPLICATES_REFUSE, ret, err);
    if (r < 0)
        return r;
    *offset = end;
    *at = json_read_shift_position(start, json_pos_of(in.text, in.text.n));
    return 1;
}

struct json_pos *json_positions(struct str source, struct json_pos start, size_t count)
{
    struct json_pos *list = xreallocarray(NULL, count ? count : 1, sizeof(*list));
    struct json_pos line = start; // line.column is that of the line's first byte
    size_t line_offset = 0, n = 0;
    for (size_t i = 0; i < source.n && n < count;) {
        char c = source.p[i];
        if (c == '\n') {
            line = (struct json_pos){line.line + 1, 1};
            line_offset = i + 1;
        }
        if (strchr(" \t\r\n,:]}", c)) {
            i++;
            continue;
        }
        list[n++] = (struct json_pos){line.line, line.column + (uint32_t)(i - line_offset)};
        if (c == '"')
            i = skip_string(source, i);
        else
            i = c == '{' || c == '[' ? i + 1 : skip_word(source, i);
    }
    while (n < count)
        list[n++] = start;
    return list;
}

bool json_locate(const struct json_doc *doc, const yyjson_val *v, struct json_pos *ret)
{
    assert(v >= doc->root && v < doc->root + doc->count);
    size_t index = (size_t)(v - doc->root);
    if (doc->positions) {
        *ret = doc->positions[index];
        return true;
    }
    if (!doc->source.n)
        return false;
    cleanup_free struct json_pos *list = json_positions(doc->source, doc->start, index + 1);
    *ret = list[index];
    return true;
}

void json_locate_err(const struct json_doc *doc, struct err *err)
{
    struct json_pos at;
    if (!err || err->line || !doc->root)
        return;
    if (json_locate(doc, json_at_path(doc->root, str_z(err->path), NULL), &at))
        err_at(err, at.line, at.column);
}

void json_doc_done(struct json_doc *doc)
{
    yyjson_doc_free(doc->parsed);
    free(doc->built);
    free(doc->positions);
    arena_done(&doc->strings);
    *doc = (struct json_doc){0};
}

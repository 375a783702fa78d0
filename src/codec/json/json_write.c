// SPDX-License-Identifier: Apache-2.0
//
// JSON text as Go's encoding/json writes it: strings, numbers, layout. Encoders spend most of their
// time here, so plain bytes are copied eight at a time.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "codec/json/json_int.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// Strings up to this long are written in one piece.
#define JSON_PIECE_MAX ((size_t)4096)

// What a byte of a string needs: 0 as it is, 'u' \u00XX, 'h' the same when HTML is escaped, 'x' a
// look at its UTF-8 sequence, else the letter of its short escape.
static const char escapes[256] = {
    [0x00 ... 0x07] = 'u', ['\b'] = 'b',          ['\t'] = 't', ['\n'] = 'n',
    [0x0b] = 'u',          ['\f'] = 'f',          ['\r'] = 'r', [0x0e ... 0x1f] = 'u',
    ['"'] = '"',           ['\\'] = '\\',         ['<'] = 'h',  ['>'] = 'h',
    ['&'] = 'h',           [0x80 ... 0xff] = 'x',
};

static char *put_u(char *to, unsigned code)
{
    static const char hex[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'u';
    for (unsigned i = 0; i < 4; i++)
        to[2 + i] = hex[code >> (12 - 4 * i) & 15u];
    return to + 6;
}

// One sequence of a string that is not ASCII. Returns where the output goes on.
static char *put_sequence(char *to, struct str s, size_t at, size_t *ret_len)
{
    uint32_t cp;
    if (!utf8_decode_strict(s, at, &cp, ret_len)) {
        *ret_len = 1;
        return put_u(to, UTF8_REPLACEMENT);
    }
    // Line separators, which JavaScript once took for line ends.
    if (cp == 0x2028 || cp == 0x2029)
        return put_u(to, cp);
    memcpy(to, s.p + at, *ret_len);
    return to + *ret_len;
}

// json_copy_plain copies the bytes of s from i on that need no escape, and returns how many. `to`
// has room for at least as many bytes as s has from i on.
static size_t json_copy_plain(char *to, struct str s, size_t i)
{
    const size_t word = sizeof(uint64_t);
    size_t start = i, run = word;
    for (; run == word && s.n - i >= word; i += run) {
        memcpy(to + (i - start), s.p + i, word);
        run = json_plain_run(s.p + i);
    }
    if (run != word || i == s.n)
        return i - start;
    if (s.n - start >= word) { // the rest, with plain bytes before it
        i = s.n - word;
        memcpy(to + (i - start), s.p + i, word);
        return i - start + json_plain_run(s.p + i);
    }
    for (; i < s.n && !escapes[(unsigned char)s.p[i]]; i++)
        to[i - start] = s.p[i];
    return i - start;
}

// The escaped form of s, which is at most six times as long, written to `to`.
static char *put_escaped(char *to, struct str s, bool html)
{
    for (size_t i = 0; i < s.n;) {
        size_t run = json_copy_plain(to, s, i);
        to += run;
        i += run;
        if (i == s.n)
            break;
        char e = escapes[(unsigned char)s.p[i]];
        if (e == 'x') {
            size_t len;
            to = put_sequence(to, s, i, &len);
            i += len;
            continue;
        }
        if (e == 'u' || (e == 'h' && html)) {
            to = put_u(to, (unsigned char)s.p[i]);
        } else if (e == 'h') {
            *to++ = s.p[i];
        } else {
            *to++ = '\\';
            *to++ = e;
        }
        i++;
    }
    return to;
}

// json_put_quoted writes s with its quotes to `to`, which has JSON_QUOTED_MAX bytes.
#define JSON_QUOTED_MAX(s) ((s).n * 6 + 2)
static char *json_put_quoted(char *to, struct str s, bool html)
{
    *to++ = '"';
    to = put_escaped(to, s, html);
    *to++ = '"';
    return to;
}

// json_add_long adds s in pieces, so that room for the worst case stays small. A piece ends at a
// character's end.
static void json_add_long(struct sbuf *out, struct str s, bool html)
{
    sbuf_addc(out, '"');
    while (s.n) {
        size_t n = s.n < JSON_PIECE_MAX ? s.n : JSON_PIECE_MAX;
        while (n < s.n && n > JSON_PIECE_MAX - 4 && ((unsigned char)s.p[n] & 0xC0u) == 0x80u)
            n--;
        char *start = sbuf_space(out, n * 6);
        char *end = put_escaped(start, str_upto(s, n), html);
        sbuf_commit(out, (size_t)(end - start));
        s = str_from(s, n);
    }
    sbuf_addc(out, '"');
}

void sbuf_add_json_str(struct sbuf *out, struct str s, bool html)
{
    if (s.n > JSON_PIECE_MAX) {
        json_add_long(out, s, html);
        return;
    }
    char *start = sbuf_space(out, JSON_QUOTED_MAX(s));
    sbuf_commit(out, (size_t)(json_put_quoted(start, s, html) - start));
}

// yyjson knows how to find the digits; here its text is taken apart again.
size_t json_shortest_digits(double v, char digits[32], int *ret_point)
{
    char pool[512];
    yyjson_alc alc;
    yyjson_val val = {0};
    unsafe_yyjson_set_real(&val, v);
    bool ok = yyjson_alc_pool_init(&alc, pool, sizeof(pool));
    assert(ok);
    const char *p = yyjson_val_write_opts(&val, 0, &alc, NULL, NULL);
    assert(ok && p);
    size_t n = 0;
    int point = 0, exponent = 0;
    bool fraction = false;
    for (; *p && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (n == 0 && *p == '0') { // a leading zero
            point -= fraction;
            continue;
        }
        assert(n < 32);
        digits[n++] = *p;
        point += !fraction;
    }
    if (*p) {
        bool negative = p[1] == '-';
        for (p += 1 + (p[1] == '-' || p[1] == '+'); *p; p++)
            exponent = exponent * 10 + (*p - '0');
        point += negative ? -exponent : exponent;
    }
    while (n > 1 && digits[n - 1] == '0')
        n--;
    assert(n > 0);
    *ret_point = point;
    return n;
}

// d.ddde±x, at least one digit in the exponent.
static void add_scientific(struct sbuf *out, const char *digits, size_t n, int point)
{
    sbuf_addc(out, digits[0]);
    if (n > 1) {
        sbuf_addc(out, '.');
        sbuf_add(out, str_make(digits + 1, n - 1));
    }
    sbuf_addf(out, "e%+d", point - 1);
}

static void json_write_add_plain(struct sbuf *out, const char *digits, size_t n, int point)
{
    if (point <= 0) {
        sbuf_addz(out, "0.");
        sbuf_add_repeat(out, '0', (size_t)-point);
        sbuf_add(out, str_make(digits, n));
        return;
    }
    size_t whole = (size_t)point;
    sbuf_add(out, str_make(digits, n < whole ? n : whole));
    if (whole > n)
        sbuf_add_repeat(out, '0', whole - n);
    if (whole < n) {
        sbuf_addc(out, '.');
        sbuf_add(out, str_make(digits + whole, n - whole));
    }
}

void sbuf_add_json_double(struct sbuf *out, double v)
{
    assert(isfinite(v));
    if (signbit(v)) {
        sbuf_addc(out, '-');
        v = -v;
    }
    if (v == 0) {
        sbuf_addc(out, '0');
        return;
    }
    char digits[32];
    int point;
    size_t n = json_shortest_digits(v, digits, &point);
    if (v < 1e-6 || v >= 1e21)
        add_scientific(out, digits, n, point);
    else
        json_write_add_plain(out, digits, n, point);
}

static void new_line(struct json_writer *w)
{
    sbuf_addc(w->out, '\n');
    sbuf_add_repeat(w->out, ' ', (size_t)w->depth * w->indent);
}

// json_put_begin makes room for n bytes, writes what stands before an item or a key, and returns
// where the bytes go. json_put_end takes the end of what was written.
static inline char *json_put_begin(struct json_writer *w, size_t n)
{
    struct sbuf *out = w->out;
    if (w->indent && w->depth && !w->value) {
        if (w->comma)
            sbuf_addc(out, ',');
        w->comma = false;
        new_line(w);
    }
    if (out->n + n + 2 > out->cap)
        sbuf_reserve(out, n + 1);
    char *to = out->p + out->n;
    *to = ',';
    to += w->comma && !w->value;
    w->comma = true;
    w->value = false;
    return to;
}

static inline void json_put_end(struct json_writer *w, char *to)
{
    *to = '\0';
    w->out->n = (size_t)(to - w->out->p);
}

static inline void json_put_text(struct json_writer *w, struct str s)
{
    char *to = json_put_begin(w, s.n);
    if (s.n)
        memcpy(to, s.p, s.n);
    json_put_end(w, to + s.n);
}

static inline void json_put_open(struct json_writer *w, char c)
{
    char *to = json_put_begin(w, 1);
    *to++ = c;
    json_put_end(w, to);
    w->depth++;
    w->comma = false;
}

static inline void json_put_close(struct json_writer *w, char c)
{
    assert(w->depth > 0 && !w->value);
    w->depth--;
    if (w->indent && w->comma)
        new_line(w);
    sbuf_addc(w->out, c);
    w->comma = true;
}

void json_write_object_begin(struct json_writer *w)
{
    json_put_open(w, '{');
}

void json_write_object_end(struct json_writer *w)
{
    json_put_close(w, '}');
}

void json_write_array_begin(struct json_writer *w)
{
    json_put_open(w, '[');
}

void json_write_array_end(struct json_writer *w)
{
    json_put_close(w, ']');
}

// json_put_colon ends a key. Room for two bytes more must be there.
static inline void json_put_colon(struct json_writer *w, char *to)
{
    *to++ = ':';
    if (w->indent)
        *to++ = ' ';
    json_put_end(w, to);
    w->value = true;
}

void json_write_key(struct json_writer *w, struct str key)
{
    if (key.n > JSON_PIECE_MAX) {
        json_put_end(w, json_put_begin(w, 0));
        json_add_long(w->out, key, w->html);
        json_put_colon(w, sbuf_space(w->out, 2));
        return;
    }
    char *to = json_put_begin(w, JSON_QUOTED_MAX(key) + 2);
    json_put_colon(w, json_put_quoted(to, key, w->html));
}

void json_write_raw_key(struct json_writer *w, struct str quoted)
{
    char *to = json_put_begin(w, quoted.n + 2);
    memcpy(to, quoted.p, quoted.n);
    json_put_colon(w, to + quoted.n);
}

void json_write_str(struct json_writer *w, struct str s)
{
    if (s.n > JSON_PIECE_MAX) {
        json_put_end(w, json_put_begin(w, 0));
        json_add_long(w->out, s, w->html);
        return;
    }
    char *to = json_put_begin(w, JSON_QUOTED_MAX(s));
    json_put_end(w, json_put_quoted(to, s, w->html));
}

void json_write_i64(struct json_writer *w, int64_t v)
{
    json_put_text(w, STR(""));
    sbuf_add_i64(w->out, v);
}

void json_write_u64(struct json_writer *w, uint64_t v)
{
    json_put_text(w, STR(""));
    sbuf_add_u64(w->out, v);
}

void json_write_bool(struct json_writer *w, bool v)
{
    json_put_text(w, v ? STR("true") : STR("false"));
}

void json_write_null(struct json_writer *w)
{
    json_put_text(w, STR("null"));
}

void json_write_double(struct json_writer *w, double v)
{
    json_put_text(w, STR(""));
    sbuf_add_json_double(w->out, v);
}

void json_write_raw(struct json_writer *w, struct str text)
{
    json_put_text(w, text);
}

static void write_container(struct json_writer *w, const yyjson_val *v)
{
    if (json_is_array(v)) {
        json_write_array_begin(w);
        json_arr_foreach(v, item)
            json_write_value(w, item);
        json_write_array_end(w);
        return;
    }
    json_write_object_begin(w);
    json_obj_foreach(v, key, val) {
        json_write_key(w, json_str(key));
        json_write_value(w, val);
    }
    json_write_object_end(w);
}

// Recursion is bounded: documents are never deeper than DRAY_DOC_DEPTH_MAX.
void json_write_value(struct json_writer *w, const yyjson_val *v)
{
    switch (json_type(v)) {
    case JSON_NULL:
        json_write_null(w);
        break;
    case JSON_BOOL:
        json_write_bool(w, (v->tag & YYJSON_SUBTYPE_MASK) == YYJSON_SUBTYPE_TRUE);
        break;
    case JSON_INT:
        json_write_i64(w, v->uni.i64);
        break;
    case JSON_UINT:
        json_write_u64(w, v->uni.u64);
        break;
    case JSON_DOUBLE:
        json_write_double(w, v->uni.f64);
        break;
    case JSON_BIG:
        json_write_raw(w, json_str(v));
        break;
    case JSON_STRING:
        json_write_str(w, json_str(v));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
        write_container(w, v);
        break;
    }
}

void json_write_text(struct json_writer *w, const char *key, struct str value)
{
    json_write_key(w, str_z(key));
    json_write_str(w, value);
}

void json_write_text_if(struct json_writer *w, const char *key, struct str value)
{
    if (value.n)
        json_write_text(w, key, value);
}

void json_write_number(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, str_z(key));
    json_write_i64(w, value);
}

void json_write_flag(struct json_writer *w, const char *key, bool value)
{
    json_write_key(w, str_z(key));
    json_write_bool(w, value);
}

void json_write_object_in(struct json_writer *w, const char *key)
{
    json_write_key(w, str_z(key));
    json_write_object_begin(w);
}

void json_write_array_in(struct json_writer *w, const char *key)
{
    json_write_key(w, str_z(key));
    json_write_array_begin(w);
}

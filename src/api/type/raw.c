// SPDX-License-Identifier: Apache-2.0
//
// RawExtension and FieldsV1 are kept as text, byte for byte. This scanner checks that a text is one
// JSON value, writes it in compact form, and finds the source of a value in a parsed document.
#include "api/type/raw.h"

#include <string.h>

#include "base/utf8.h"

#include "base/banned.h"

// A scanner over JSON text. It checks the grammar, not the escapes' meaning.
struct scan {
    const char *p;
    const char *end;
    bool rewritten; // the text differs from what is written: white space, characters to escape
};

static void raw_skip_space(struct scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) {
        s->rewritten = true;
        s->p++;
    }
}

// What a byte within a string means to the scanner; most mean nothing.
enum raw_class { RAW_PLAIN, RAW_QUOTE, RAW_ESCAPE, RAW_CONTROL, RAW_HTML };

static const unsigned char raw_classes[256] = {
    [0x00 ... 0x1f] = RAW_CONTROL,
    ['"'] = RAW_QUOTE,
    ['\\'] = RAW_ESCAPE,
    ['<'] = RAW_HTML,
    ['>'] = RAW_HTML,
    ['&'] = RAW_HTML,
    [0xe2] = RAW_HTML, // U+2028 begins with it
};

// scan_string takes a string with its quotes; false when it does not end or holds a control
// character.
static bool scan_string(struct scan *s, struct str *ret)
{
    const char *start = s->p++;
    for (; s->p < s->end; s->p++) {
        for (size_t run = 8; run == 8 && s->end - s->p > 8; s->p += run)
            run = json_plain_run(s->p);
        switch ((enum raw_class)raw_classes[(unsigned char)*s->p]) {
        case RAW_PLAIN:
            break;
        case RAW_HTML:
            s->rewritten = true;
            break;
        case RAW_CONTROL:
            return false;
        case RAW_ESCAPE:
            s->p++;
            if (s->p == s->end || !*s->p || !strchr("\"\\/bfnrtu", *s->p))
                return false;
            break;
        case RAW_QUOTE:
            s->p++;
            *ret = str_make(start, (size_t)(s->p - start));
            return true;
        }
    }
    return false;
}

static size_t scan_digits(struct scan *s)
{
    const char *start = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - start);
}

static bool scan_number(struct scan *s)
{
    if (s->p < s->end && *s->p == '-')
        s->p++;
    bool zero = s->p < s->end && *s->p == '0';
    size_t whole = scan_digits(s);
    if (whole == 0 || (zero && whole > 1))
        return false;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (scan_digits(s) == 0)
            return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        return scan_digits(s) > 0;
    }
    return true;
}

// scan_scalar takes a string, number or word.
static bool scan_scalar(struct scan *s, struct str *ret)
{
    static const struct str words[] = {STR_INIT("true"), STR_INIT("false"), STR_INIT("null")};
    if (s->p >= s->end)
        return false;
    if (*s->p == '"')
        return scan_string(s, ret);
    struct str rest = {s->p, (size_t)(s->end - s->p)};
    for (size_t i = 0; i < array_len(words); i++) {
        if (str_starts(rest, words[i])) {
            s->p += words[i].n;
            *ret = str_upto(rest, words[i].n);
            return true;
        }
    }
    if (!scan_number(s))
        return false;
    *ret = str_upto(rest, (size_t)(s->p - rest.p));
    return true;
}

static bool needs_escape(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (raw_classes[(unsigned char)s.p[i]] == RAW_HTML)
            return true;
    return false;
}

// add_escaped copies a quoted string with <, >, &, U+2028 and U+2029 escaped.
static void add_escaped(struct sbuf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '<' || c == '>' || c == '&') {
            sbuf_addf(out, "\\u%04x", (unsigned)c);
        } else if ((unsigned char)c == 0xe2 && i + 2 < s.n && (unsigned char)s.p[i + 1] == 0x80 &&
                   ((unsigned char)s.p[i + 2] & ~1u) == 0xa8) {
            sbuf_addf(out, "\\u%04x", 0x2028u + ((unsigned char)s.p[i + 2] & 1u));
            i += 2;
        } else {
            sbuf_addc(out, c);
        }
    }
}

// raw_put writes a token, if there is a writer.
static void raw_put(struct json_writer *w, struct str token, bool key)
{
    cleanup_sbuf struct sbuf escaped = {0};
    if (!w)
        return;
    if (w->html && needs_escape(token)) {
        add_escaped(&escaped, token);
        token = sbuf_str(&escaped);
    }
    if (key)
        json_write_raw_key(w, token);
    else
        json_write_raw(w, token);
}

static void raw_put_begin(struct json_writer *w, bool object)
{
    if (w && object)
        json_write_object_begin(w);
    else if (w)
        json_write_array_begin(w);
}

static void raw_put_end(struct json_writer *w, bool object)
{
    if (w && object)
        json_write_object_end(w);
    else if (w)
        json_write_array_end(w);
}

static bool put_key(struct scan *s, struct json_writer *w)
{
    struct str key;
    raw_skip_space(s);
    if (s->p >= s->end || *s->p != '"' || !scan_string(s, &key))
        return false;
    raw_put(w, key, true);
    raw_skip_space(s);
    return s->p < s->end && *s->p++ == ':';
}

// put_open writes the start of a container if there is one, and then sets *ret_open. An object's
// first key is written too.
static bool put_open(struct scan *s, struct json_writer *w, bool *ret_open, bool *ret_empty)
{
    *ret_open = s->p < s->end && (*s->p == '{' || *s->p == '[');
    if (!*ret_open)
        return true;
    bool object = *s->p++ == '{';
    raw_put_begin(w, object);
    raw_skip_space(s);
    *ret_empty = s->p < s->end && *s->p == (object ? '}' : ']');
    return *ret_empty || !object || put_key(s, w);
}

// put_after handles what follows a value: a comma, or ends of containers. open is a stack of
// container kinds, true for objects.
static bool put_after(struct scan *s, struct json_writer *w, const bool *open, size_t *depth)
{
    while (*depth > 0) {
        raw_skip_space(s);
        if (s->p >= s->end)
            return false;
        bool object = open[*depth - 1];
        char c = *s->p++;
        if (c == ',')
            return !object || put_key(s, w);
        if (c != (object ? '}' : ']'))
            return false;
        raw_put_end(w, object);
        (*depth)--;
    }
    return true;
}

// raw_copy_value checks one value and writes it in compact form; with w NULL it only checks.
static bool raw_copy_value(struct scan *s, struct json_writer *w)
{
    bool open[DRAY_DOC_DEPTH_MAX];
    size_t depth = 0;
    do {
        raw_skip_space(s);
        bool opened, empty = false;
        const char *at = s->p;
        if (!put_open(s, w, &opened, &empty))
            return false;
        if (opened) {
            if (depth == DRAY_DOC_DEPTH_MAX)
                return false;
            open[depth++] = *at == '{';
            if (!empty)
                continue;
        } else {
            struct str token;
            if (!scan_scalar(s, &token))
                return false;
            raw_put(w, token, false);
        }
        if (!put_after(s, w, open, &depth))
            return false;
    } while (depth > 0);
    return true;
}

int raw_write(struct str text, struct json_writer *w, struct err *err)
{
    struct scan s = {text.p, text.p + text.n, false};
    if (!utf8_valid(text, NULL) || !raw_copy_value(&s, NULL))
        return err_set(err, ERR_INVALID, "the raw value is not JSON");
    raw_skip_space(&s);
    if (s.p != s.end)
        return err_set(err, ERR_INVALID, "the raw value is more than one JSON value");
    // Most values are compact already: they were written here before.
    if (!s.rewritten && !w->indent) {
        json_write_raw(w, text);
        return 0;
    }
    w->altered |= s.rewritten;
    s = (struct scan){text.p, text.p + text.n, false};
    (void)raw_copy_value(&s, w);
    return 0;
}

// value_end finds the end of a value in text that is known to be JSON.
static const char *value_end(struct scan s)
{
    size_t depth = 0;
    struct str token;
    do {
        raw_skip_space(&s);
        if (s.p >= s.end)
            return NULL;
        switch (*s.p) {
        case '{':
        case '[':
            depth++;
            s.p++;
            break;
        case '}':
        case ']':
            depth--;
            s.p++;
            break;
        case ',':
        case ':':
            s.p++;
            break;
        default:
            if (!scan_scalar(&s, &token))
                return NULL;
        }
    } while (depth > 0);
    return s.p;
}

// The parser copies the source and lets strings point into the copy, so a key's address gives where
// it stands in the source. This is checked against the source, for nothing promises it.
struct str raw_source(const struct json_doc *doc, const yyjson_val *key, const yyjson_val *v)
{
    const struct str nothing = {NULL, 0};
    if (!key || !doc || !doc->parsed || !doc->parsed->str_pool || !doc->source.p)
        return nothing;
    struct str name = json_str(key);
    uintptr_t at = (uintptr_t)name.p - (uintptr_t)doc->parsed->str_pool;
    if ((uintptr_t)name.p < (uintptr_t)doc->parsed->str_pool || at == 0 || at >= doc->source.n ||
        name.n >= doc->source.n - at)
        return nothing;
    const char *p = doc->source.p + at;
    if (p[-1] != '"' || p[name.n] != '"' || memcmp(p, name.p, name.n) != 0)
        return nothing;
    struct scan s = {.p = p + name.n + 1, .end = doc->source.p + doc->source.n};
    raw_skip_space(&s);
    if (s.p >= s.end || *s.p++ != ':')
        return nothing;
    raw_skip_space(&s);
    const char *end = value_end(s);
    bool same_shape = s.p < s.end && json_is_object(v) == (*s.p == '{') &&
                      json_is_array(v) == (*s.p == '[') && json_is_string(v) == (*s.p == '"');
    return end && same_shape ? str_make(s.p, (size_t)(end - s.p)) : nothing;
}

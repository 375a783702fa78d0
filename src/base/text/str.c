// SPDX-License-Identifier: Apache-2.0
//
// Slices and the text builder. Quoting follows Go's %q, because upstream's messages are made with
// it.
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

#include "base/banned.h"

int str_cmp(struct str a, struct str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    if (c != 0)
        return c;
    return (a.n > b.n) - (a.n < b.n);
}

int str_cmp_elements(const void *a, const void *b)
{
    return str_cmp(*(const struct str *)a, *(const struct str *)b);
}

bool str_listed(const struct str *list, size_t n, struct str s)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(list[i], s))
            return true;
    return false;
}

bool str_is_one_of(struct str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (str_eqz(s, words[i]))
            return true;
    return false;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_upto(s, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n && str_eq(str_from(s, s.n - suffix.n), suffix);
}

ptrdiff_t str_find(struct str s, struct str needle)
{
    if (needle.n == 0)
        return 0;
    if (s.n < needle.n)
        return -1;
    const char *hit = memmem(s.p, s.n, needle.p, needle.n);
    return hit ? hit - s.p : -1;
}

ptrdiff_t str_find_char(struct str s, char c)
{
    const char *hit = s.n ? memchr(s.p, c, s.n) : NULL;
    return hit ? hit - s.p : -1;
}

ptrdiff_t str_rfind_char(struct str s, char c)
{
    const char *hit = s.n ? memrchr(s.p, c, s.n) : NULL;
    return hit ? hit - s.p : -1;
}

bool str_cut(struct str s, char c, struct str *head, struct str *tail)
{
    ptrdiff_t at = str_find_char(s, c);
    if (at < 0) {
        *head = s;
        *tail = (struct str){0};
        return false;
    }
    *head = str_upto(s, (size_t)at);
    *tail = str_from(s, (size_t)at + 1);
    return true;
}

static bool str_is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n && str_is_space(s.p[0]))
        s = str_from(s, 1);
    while (s.n && str_is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

int str_to_u64(struct str s, uint64_t *ret)
{
    uint64_t v = 0;
    bool overflow = false;
    if (s.n == 0)
        return -EINVAL;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return -EINVAL;
        uint64_t digit = (uint64_t)(s.p[i] - '0');
        overflow |= __builtin_mul_overflow(v, 10, &v);
        overflow |= __builtin_add_overflow(v, digit, &v);
    }
    if (overflow)
        return -ERANGE;
    *ret = v;
    return 0;
}

int str_to_i64(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    uint64_t magnitude;
    int r = str_to_u64(negative ? str_from(s, 1) : s, &magnitude);
    if (r < 0)
        return r;
    uint64_t most = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    if (magnitude > most)
        return -ERANGE;
    *ret = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return 0;
}

void sbuf_reserve(struct sbuf *b, size_t extra)
{
    assert(extra < SIZE_MAX / 4);
    if (b->n + extra + 1 <= b->cap)
        return;
    b->cap = mem_grow_cap(b->cap, b->n + extra + 1, 1);
    b->p = xrealloc(b->p, b->cap);
    b->p[b->n] = '\0';
}

char *sbuf_space(struct sbuf *b, size_t n)
{
    sbuf_reserve(b, n);
    return b->p + b->n;
}

void sbuf_commit(struct sbuf *b, size_t n)
{
    assert(b->n + n < b->cap);
    b->n += n;
    b->p[b->n] = '\0';
}

void sbuf_addz(struct sbuf *b, const char *z)
{
    sbuf_add(b, str_z(z));
}

void sbuf_add_repeat(struct sbuf *b, char c, size_t count)
{
    memset(sbuf_space(b, count), c, count);
    sbuf_commit(b, count);
}

void sbuf_addf(struct sbuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    char *p = sbuf_space(b, (size_t)n);
    va_start(ap, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    sbuf_commit(b, (size_t)n);
}

void sbuf_add_u64(struct sbuf *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    sbuf_add(b, str_make(digits + at, sizeof(digits) - at));
}

void sbuf_add_i64(struct sbuf *b, int64_t v)
{
    if (v < 0)
        sbuf_addc(b, '-');
    sbuf_add_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

// The short escapes of Go's %q; 0 when c has none.
static char short_escape(uint32_t c)
{
    switch (c) {
    case '\a':
        return 'a';
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\v':
        return 'v';
    case '\\':
        return '\\';
    case '"':
        return '"';
    default:
        return 0;
    }
}

void sbuf_add_quoted(struct sbuf *b, struct str s)
{
    sbuf_addc(b, '"');
    for (size_t i = 0, len; i < s.n; i += len) {
        uint32_t cp;
        bool valid = utf8_decode_strict(s, i, &cp, &len);
        char esc = valid ? short_escape(cp) : 0;
        if (!valid) {
            len = 1;
            sbuf_addf(b, "\\x%02x", (unsigned)(unsigned char)s.p[i]);
        } else if (esc) {
            sbuf_addc(b, '\\');
            sbuf_addc(b, esc);
        } else if (cp < 0x20 || cp == 0x7f) {
            sbuf_addf(b, "\\x%02x", (unsigned)cp);
        } else if (!utf8_printable(cp)) {
            sbuf_addf(b, cp > 0xffff ? "\\U%08x" : "\\u%04x", (unsigned)cp);
        } else {
            sbuf_add(b, str_make(s.p + i, len));
        }
    }
    sbuf_addc(b, '"');
}

void sbuf_truncate(struct sbuf *b, size_t n)
{
    assert(n <= b->n);
    b->n = n;
    if (b->p)
        b->p[n] = '\0';
}

void sbuf_clear(struct sbuf *b)
{
    sbuf_truncate(b, 0);
}

void sbuf_done(struct sbuf *b)
{
    free(b->p);
    *b = (struct sbuf){0};
}

char *sbuf_take(struct sbuf *b)
{
    sbuf_reserve(b, 0);
    char *p = b->p;
    *b = (struct sbuf){0};
    return p;
}

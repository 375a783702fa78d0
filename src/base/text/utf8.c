// SPDX-License-Identifier: Apache-2.0
//
// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
#include "base/utf8.h"

#include <assert.h>

#include "base/banned.h"

static bool is_continuation(unsigned char c)
{
    return (c & 0xC0u) == 0x80u;
}

// Length announced by a lead byte (0 for one that cannot start a sequence) and its payload bits.
static size_t utf8_read_lead(unsigned char c, uint32_t *ret_bits)
{
    if (c < 0x80u) {
        *ret_bits = c;
        return 1;
    }
    if (c >= 0xC2u && c <= 0xDFu) {
        *ret_bits = c & 0x1Fu;
        return 2;
    }
    if (c >= 0xE0u && c <= 0xEFu) {
        *ret_bits = c & 0x0Fu;
        return 3;
    }
    if (c >= 0xF0u && c <= 0xF4u) {
        *ret_bits = c & 0x07u;
        return 4;
    }
    return 0;
}

bool utf8_decode_strict(struct str s, size_t off, uint32_t *ret_cp, size_t *ret_len)
{
    static const uint32_t smallest[5] = {0, 0, 0x80u, 0x800u, 0x10000u};
    assert(off < s.n);
    uint32_t cp;
    size_t len = utf8_read_lead((unsigned char)s.p[off], &cp);
    if (len == 0 || len > s.n - off)
        return false;
    for (size_t i = 1; i < len; i++) {
        unsigned char c = (unsigned char)s.p[off + i];
        if (!is_continuation(c))
            return false;
        cp = cp << 6 | (c & 0x3Fu);
    }
    if (cp < smallest[len] || cp > 0x10FFFFu || (cp >= 0xD800u && cp <= 0xDFFFu))
        return false;
    *ret_cp = cp;
    *ret_len = len;
    return true;
}

uint32_t utf8_decode(struct str s, size_t off, size_t *ret_len)
{
    uint32_t cp;
    if (utf8_decode_strict(s, off, &cp, ret_len))
        return cp;
    *ret_len = 1;
    return UTF8_REPLACEMENT;
}

size_t utf8_encode(uint32_t cp, char out[4])
{
    if (cp > 0x10FFFFu || (cp >= 0xD800u && cp <= 0xDFFFu))
        cp = UTF8_REPLACEMENT;
    if (cp < 0x80u) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800u) {
        out[0] = (char)(0xC0u | cp >> 6);
        out[1] = (char)(0x80u | (cp & 0x3Fu));
        return 2;
    }
    if (cp < 0x10000u) {
        out[0] = (char)(0xE0u | cp >> 12);
        out[1] = (char)(0x80u | (cp >> 6 & 0x3Fu));
        out[2] = (char)(0x80u | (cp & 0x3Fu));
        return 3;
    }
    out[0] = (char)(0xF0u | cp >> 18);
    out[1] = (char)(0x80u | (cp >> 12 & 0x3Fu));
    out[2] = (char)(0x80u | (cp >> 6 & 0x3Fu));
    out[3] = (char)(0x80u | (cp & 0x3Fu));
    return 4;
}

// ascii_words is how far s is ASCII from i on, in whole words.
static size_t ascii_words(struct str s, size_t i)
{
    uint64_t word;
    for (; s.n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, s.p + i, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    return i;
}

bool utf8_valid(struct str s, size_t *ret_bad)
{
    for (size_t len, i = ascii_words(s, 0); i < s.n; i = ascii_words(s, i + len)) {
        uint32_t cp;
        len = 1;
        if ((unsigned char)s.p[i] < 0x80u)
            continue;
        if (!utf8_decode_strict(s, i, &cp, &len)) {
            if (ret_bad)
                *ret_bad = i;
            return false;
        }
    }
    return true;
}

size_t utf8_count(struct str s)
{
    size_t count = 0;
    for (size_t i = 0, len; i < s.n; i += len, count++)
        (void)utf8_decode(s, i, &len);
    return count;
}

// Ranges that Go's strconv.IsPrint refuses and that occur in practice: controls, format characters,
// spaces, surrogates, private use, noncharacters. Unassigned code points are not listed.
static const struct {
    uint32_t first, last;
} unprintable[] = {
    {0x0000, 0x001F},    {0x007F, 0x00A0}, {0x00AD, 0x00AD}, {0x0600, 0x0605},   {0x061C, 0x061C},
    {0x06DD, 0x06DD},    {0x070F, 0x070F}, {0x1680, 0x1680}, {0x180E, 0x180E},   {0x2000, 0x200F},
    {0x2028, 0x202F},    {0x205F, 0x206F}, {0x3000, 0x3000}, {0xD800, 0xF8FF},   {0xFDD0, 0xFDEF},
    {0xFEFF, 0xFEFF},    {0xFFF0, 0xFFFB}, {0xFFFE, 0xFFFF}, {0x1D173, 0x1D17A}, {0xE0000, 0xE00FF},
    {0xF0000, 0x10FFFF},
};

bool utf8_printable(uint32_t cp)
{
    for (size_t i = 0; i < array_len(unprintable); i++)
        if (cp >= unprintable[i].first && cp <= unprintable[i].last)
            return false;
    return true;
}

void sbuf_add_utf8(struct sbuf *b, uint32_t cp)
{
    char out[4];
    size_t n = utf8_encode(cp, out);
    sbuf_add(b, str_make(out, n));
}

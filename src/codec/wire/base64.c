// SPDX-License-Identifier: Apache-2.0
//
// Base64 in the standard and the URL alphabet. As in Go, line ends are skipped and padding must be
// complete.
#include "codec/base64.h"

#include "base/banned.h"

static const char *base64_get_alphabet(enum base64_form form)
{
    return form == BASE64_URL ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
                              : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
}

void base64_encode(struct str bytes, enum base64_form form, struct sbuf *out)
{
    const char *letters = base64_get_alphabet(form);
    const unsigned char *p = (const unsigned char *)bytes.p;
    sbuf_reserve(out, (bytes.n + 2) / 3 * 4);
    for (size_t i = 0; i < bytes.n; i += 3) {
        size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t group = (uint32_t)p[i] << 16;
        if (have > 1)
            group |= (uint32_t)p[i + 1] << 8;
        if (have > 2)
            group |= p[i + 2];
        for (size_t k = 0; k < 4; k++) {
            if (k <= have)
                sbuf_addc(out, letters[group >> (18 - 6 * k) & 63]);
            else if (form == BASE64_STD)
                sbuf_addc(out, '=');
        }
    }
}

static int letter_value(char c, enum base64_form form)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (form == BASE64_URL ? '-' : '+'))
        return 62;
    if (c == (form == BASE64_URL ? '_' : '/'))
        return 63;
    return -1;
}

static int bad_byte(struct err *err, size_t at)
{
    return err_set(err, ERR_INVALID, "illegal base64 data at input byte %zu", at);
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

// What stands behind the letters: the right number of '=' and line ends, nothing else.
static int check_padding(struct str text, size_t at, size_t want, struct err *err)
{
    for (; at < text.n; at++) {
        if (is_line_end(text.p[at]))
            continue;
        if (text.p[at] != '=' || want == 0)
            return bad_byte(err, at);
        want--;
    }
    return want ? bad_byte(err, text.n) : 0;
}

int base64_decode(struct str text, enum base64_form form, struct sbuf *out, struct err *err)
{
    size_t before = out->n, letters = 0, at = 0;
    uint32_t group = 0;
    sbuf_reserve(out, text.n / 4 * 3 + 3);
    for (; at < text.n; at++) {
        if (is_line_end(text.p[at]))
            continue;
        int v = letter_value(text.p[at], form);
        if (v < 0)
            break;
        group = group << 6 | (uint32_t)v;
        if (++letters % 4 == 0) {
            const char bytes[3] = {(char)(group >> 16), (char)(group >> 8), (char)group};
            sbuf_add(out, str_make(bytes, 3));
            group = 0;
        }
    }
    size_t left = letters % 4; // 2 letters carry one byte more, 3 carry two
    size_t padding = form == BASE64_STD && left ? 4 - left : 0;
    int r = left == 1 ? bad_byte(err, at) : check_padding(text, at, padding, err);
    if (r < 0) {
        sbuf_truncate(out, before);
        return r;
    }
    if (left == 2)
        sbuf_addc(out, (char)(group >> 4));
    if (left == 3) {
        sbuf_addc(out, (char)(group >> 10));
        sbuf_addc(out, (char)(group >> 2));
    }
    return 0;
}

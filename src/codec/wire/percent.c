// SPDX-License-Identifier: Apache-2.0
//
// Percent-encoding. Two ways to decode, because two protocols disagree about what is malformed: a
// URL with a stray percent sign is none, gRPC keeps it.
#include "codec/percent.h"

#include "base/banned.h"

// percent_byte is the byte that is encoded at the percent sign s.p[at], -1 if none is.
static int percent_byte(struct str s, size_t at)
{
    int high = s.n - at > 2 ? str_hex_digit(s.p[at + 1]) : -1;
    int low = high >= 0 ? str_hex_digit(s.p[at + 2]) : -1;
    return low >= 0 ? high << 4 | low : -1;
}

bool percent_decode(struct str s, bool form, struct arena *arena, struct str *ret)
{
    if (str_find_char(s, '%') < 0 && (!form || str_find_char(s, '+') < 0)) {
        *ret = s;
        return true;
    }
    char *out = arena_alloc(arena, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '+' && form) {
            c = ' ';
        } else if (c == '%') {
            int byte = percent_byte(s, i);
            if (byte < 0)
                return false;
            c = (char)byte;
            i += 2;
        }
        out[n++] = c;
    }
    *ret = str_make(out, n);
    return true;
}

struct str percent_decode_lenient(struct str s, struct arena *arena)
{
    char *out = arena_alloc(arena, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        int byte = s.p[i] == '%' ? percent_byte(s, i) : -1;
        out[n++] = byte < 0 ? s.p[i] : (char)byte;
        i += byte < 0 ? 0 : 2;
    }
    return str_make(out, n);
}

void percent_encode(struct str s, bool (*plain)(unsigned char c), struct sbuf *out)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (plain(c)) {
            sbuf_addc(out, (char)c);
            continue;
        }
        sbuf_addc(out, '%');
        sbuf_addc(out, digits[c >> 4]);
        sbuf_addc(out, digits[c & 15]);
    }
}

bool percent_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '~';
}

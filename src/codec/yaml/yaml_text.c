// SPDX-License-Identifier: Apache-2.0
//
// Forms of scalars that only YAML uses: Go's %g for numbers, base 64 for !!binary.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json/json_int.h"
#include "codec/yaml/yaml_int.h"

#include "base/banned.h"

// The fewest digits that still read as the same float32, v > 0; *ret_point as for
// json_shortest_digits.
static size_t single_digits(float v, char digits[32], int *ret_point)
{
    char text[32];
    for (int precision = 0;; precision++) {
        (void)snprintf(text, sizeof(text), "%.*e", precision, (double)v);
        if (precision == 8 || strtof(text, NULL) == v)
            break;
    }
    size_t n = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') // not the point, whatever the locale writes for it
            digits[n++] = *p;
    int exponent = 0;
    for (const char *e = p + 2; *e; e++)
        exponent = exponent * 10 + (*e - '0');
    *ret_point = (p[1] == '-' ? -exponent : exponent) + 1;
    return n;
}

static void add_digits(struct sbuf *out, struct str digits, int point)
{
    if (point < -3 || point > 6) {
        sbuf_add(out, str_upto(digits, 1));
        if (digits.n > 1) {
            sbuf_addc(out, '.');
            sbuf_add(out, str_from(digits, 1));
        }
        sbuf_addf(out, "e%c%02d", point < 1 ? '-' : '+', abs(point - 1));
        return;
    }
    if (point <= 0) {
        sbuf_addz(out, "0.");
        sbuf_add_repeat(out, '0', (size_t)-point);
        sbuf_add(out, digits);
        return;
    }
    size_t whole = (size_t)point;
    sbuf_add(out, str_upto(digits, whole));
    sbuf_add_repeat(out, '0', digits.n < whole ? whole - digits.n : 0);
    if (digits.n > whole) {
        sbuf_addc(out, '.');
        sbuf_add(out, str_from(digits, whole));
    }
}

void yaml_add_float(struct sbuf *out, double v, bool single)
{
    float narrow = (float)v;
    if (isnan(v)) {
        sbuf_addz(out, ".nan");
        return;
    }
    if (isinf(v) || (single && isinf(narrow))) {
        sbuf_addz(out, v < 0 ? "-.inf" : ".inf");
        return;
    }
    if (signbit(v))
        sbuf_addc(out, '-');
    if (v == 0 || (single && narrow == 0)) {
        sbuf_addc(out, '0');
        return;
    }
    char digits[32];
    int point;
    size_t n = single ? single_digits(fabsf(narrow), digits, &point)
                      : json_shortest_digits(fabs(v), digits, &point);
    add_digits(out, str_make(digits, n), point);
}

// --- Base 64 -------------------------------------------------------------------------------------

bool yaml_add_base64(struct sbuf *out, struct str text)
{
    cleanup_sbuf struct sbuf bytes = {0};
    if (base64_decode(text, BASE64_STD, &bytes, NULL) < 0)
        return false;
    for (size_t i = 0, len; i < bytes.n; i += len)
        sbuf_add_utf8(out, utf8_decode(sbuf_str(&bytes), i, &len));
    return true;
}

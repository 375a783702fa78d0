// SPDX-License-Identifier: Apache-2.0
//
// string.format(list): %s %d %f %e %b %o %x %X %%. Floating point follows Go's x/text for English:
// thousands are grouped, exponents are superscript powers of ten.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "cel/lib/format.h"
#include "cel/lib/lib.h"
#include "cel/text.h"

#include "base/banned.h"

#define DEFAULT_PRECISION 6
#define PRECISION_MAX     1000 // more digits than any double has

static const char *write_string(struct cel_val v, struct sbuf *out, struct arena *a);

static void lib_format_group_digits(const char *digits, struct sbuf *out)
{
    size_t whole = strcspn(digits, ".");
    for (size_t i = 0; i < whole; i++) {
        if (i && (whole - i) % 3 == 0)
            sbuf_addc(out, ',');
        sbuf_addc(out, digits[i]);
    }
    sbuf_addz(out, digits + whole);
}

static bool lib_format_special_name(double d, const char **ret)
{
    if (isnan(d))
        *ret = "NaN";
    else if (isinf(d))
        *ret = d < 0 ? "-\xe2\x88\x9e" : "\xe2\x88\x9e";
    else
        return false;
    return true;
}

static void write_fixed(double d, int precision, struct sbuf *out)
{
    const char *name;
    if (lib_format_special_name(d, &name)) {
        sbuf_addz(out, name);
        return;
    }
    int n = snprintf(NULL, 0, "%.*f", precision, fabs(d));
    char *text = xmalloc((size_t)n + 1);
    (void)snprintf(text, (size_t)n + 1, "%.*f", precision, fabs(d));
    if (d < 0)
        sbuf_addc(out, '-');
    lib_format_group_digits(text, out);
    free(text);
}

static void write_superscript(int e, struct sbuf *out)
{
    static const char *const digits[] = {"\xe2\x81\xb0", "\xc2\xb9",     "\xc2\xb2",
                                         "\xc2\xb3",     "\xe2\x81\xb4", "\xe2\x81\xb5",
                                         "\xe2\x81\xb6", "\xe2\x81\xb7", "\xe2\x81\xb8",
                                         "\xe2\x81\xb9"};
    char text[16];
    (void)snprintf(text, sizeof(text), "%02d", abs(e));
    if (e < 0)
        sbuf_addz(out, "\xe2\x81\xbb");
    for (const char *p = text; *p; p++)
        sbuf_addz(out, digits[*p - '0']);
}

// Upstream passes its precision on as a width; the mantissa always has six digits.
static void write_scientific(double d, int width, struct sbuf *out)
{
    cleanup_sbuf struct sbuf b = {0};
    const char *name;
    if (lib_format_special_name(d, &name)) {
        sbuf_addz(&b, name);
    } else {
        char text[40];
        (void)snprintf(text, sizeof(text), "%.6e", d == 0 ? 0.0 : d);
        char *e = strchr(text, 'e');
        int exponent = 0;
        (void)sscanf(e + 1, "%d", &exponent); // NOLINT(cert-err34-c): our own text
        *e = 0;
        sbuf_addz(&b, text);
        sbuf_addz(&b, "\xc3\x97"
                      "10");
        write_superscript(exponent, &b);
    }
    size_t n = utf8_count(sbuf_str(&b));
    if ((int)n < width)
        sbuf_add_repeat(out, ' ', (size_t)width - n);
    sbuf_add(out, sbuf_str(&b));
}

static void write_base(uint64_t u, unsigned base, bool upper, struct sbuf *out)
{
    const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[65];
    size_t at = sizeof(text);
    do {
        text[--at] = digits[u % base];
        u /= base;
    } while (u);
    sbuf_add(out, str_make(text + at, sizeof(text) - at));
}

static void write_int_base(struct cel_val v, unsigned base, bool upper, struct sbuf *out)
{
    uint64_t u = v.u;
    if (v.kind == CEL_INT && v.i < 0) {
        sbuf_addc(out, '-');
        u = 0 - u;
    }
    write_base(u, base, upper, out);
}

// An element of a list or map: quoted where CEL would quote it.
static const char *write_element(struct cel_val v, struct sbuf *out, struct arena *a)
{
    cleanup_sbuf struct sbuf b = {0};
    if (v.kind == CEL_DOUBLE) {
        write_fixed(v.d, DEFAULT_PRECISION, &b);
        if (isnan(v.d) || isinf(v.d))
            sbuf_add_quoted(out, sbuf_str(&b));
        else
            sbuf_add(out, sbuf_str(&b));
        return NULL;
    }
    const char *why = write_string(v, &b, a);
    if (why)
        return why;
    if (v.kind == CEL_BYTES)
        sbuf_addc(out, 'b');
    if (v.kind == CEL_STRING || v.kind == CEL_BYTES)
        sbuf_add_quoted(out, sbuf_str(&b));
    else
        sbuf_add(out, sbuf_str(&b));
    return NULL;
}

static const char *lib_format_write_list(const struct cel_list *l, struct sbuf *out,
                                         struct arena *a)
{
    sbuf_addc(out, '[');
    for (uint32_t i = 0; i < l->n; i++) {
        if (i)
            sbuf_addz(out, ", ");
        const char *why = write_element(l->items[i], out, a);
        if (why)
            return why;
    }
    sbuf_addc(out, ']');
    return NULL;
}

struct pair {
    struct str key, text;
};

static int compare_pairs(const void *a, const void *b)
{
    return str_cmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static const char *lib_format_write_map(const struct cel_map *m, struct sbuf *out, struct arena *a)
{
    struct pair *pairs = arena_array(a, struct pair, m->n + 1);
    for (uint32_t i = 0; i < m->n; i++) {
        struct cel_val key = m->entries[i].key;
        if (key.kind != CEL_STRING && key.kind != CEL_BOOL && key.kind != CEL_INT &&
            key.kind != CEL_UINT)
            return arena_strf(a, "no formatting function for map key of type %.*s",
                              STR_ARG(cel_type_name(key)))
                .p;
        cleanup_sbuf struct sbuf b = {0};
        const char *why = write_element(key, &b, a);
        if (why)
            return why;
        pairs[i].key = arena_str(a, sbuf_str(&b));
        sbuf_addc(&b, ':');
        why = write_element(m->entries[i].value, &b, a);
        if (why)
            return why;
        pairs[i].text = arena_str(a, sbuf_str(&b));
    }
    qsort(pairs, m->n, sizeof(*pairs), compare_pairs);
    sbuf_addc(out, '{');
    for (uint32_t i = 0; i < m->n; i++) {
        if (i)
            sbuf_addz(out, ", ");
        sbuf_add(out, pairs[i].text);
    }
    sbuf_addc(out, '}');
    return NULL;
}

static const char *lib_format_type_error(struct arena *a, const char *what, struct str type)
{
    return arena_strf(a, "error during formatting: %s, was given %.*s", what, STR_ARG(type)).p;
}

#define STRING_CLAUSE                                                                       \
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, " \
    "types, durations, and timestamps"

static const char *write_string(struct cel_val v, struct sbuf *out, struct arena *a)
{
    switch (v.kind) {
    case CEL_LIST:
        return lib_format_write_list(v.list, out, a);
    case CEL_MAP:
        return lib_format_write_map(v.map, out, a);
    case CEL_BYTES:
        if (!utf8_valid(cel_str(v), NULL))
            return "could not convert argument to string";
        sbuf_add(out, cel_str(v));
        return NULL;
    case CEL_TYPE:
        sbuf_add(out, v.type->name);
        return NULL;
    case CEL_NULL:
    case CEL_BOOL:
    case CEL_INT:
    case CEL_UINT:
    case CEL_DOUBLE:
    case CEL_STRING:
    case CEL_DURATION:
    case CEL_TIMESTAMP:
        cel_write(v, out);
        return NULL;
    default:
        return lib_format_type_error(a, STRING_CLAUSE, cel_type_name(v));
    }
}

static bool number_name(struct cel_val v, double *ret)
{
    if (v.kind == CEL_DOUBLE) {
        *ret = v.d;
        return true;
    }
    if (v.kind != CEL_STRING)
        return false;
    struct str s = cel_str(v);
    if (str_eqz(s, "NaN"))
        *ret = (double)NAN;
    else if (str_eqz(s, "Infinity"))
        *ret = (double)INFINITY;
    else if (str_eqz(s, "-Infinity"))
        *ret = -(double)INFINITY;
    else
        return false;
    return true;
}

static const char *write_hex(struct cel_val v, bool upper, struct sbuf *out, struct arena *a)
{
    if (v.kind == CEL_INT || v.kind == CEL_UINT) {
        write_int_base(v, 16, upper, out);
        return NULL;
    }
    if (v.kind != CEL_STRING && v.kind != CEL_BYTES)
        return lib_format_type_error(
            a, "only integers, byte buffers, and strings can be formatted as hex",
            cel_type_name(v));
    for (uint32_t i = 0; i < v.n; i++)
        sbuf_addf(out, upper ? "%02X" : "%02x", (unsigned)(unsigned char)v.s[i]);
    return NULL;
}

// cel_format_clause writes one value. Returns NULL or what is wrong.
static const char *cel_format_clause(const struct cel_clause *c, struct cel_val v, struct sbuf *out,
                                     struct arena *a)
{
    double d;
    switch (c->verb) {
    case 's':
        return write_string(v, out, a);
    case 'd':
        if (v.kind != CEL_INT && v.kind != CEL_UINT)
            return lib_format_type_error(a, "decimal clause can only be used on integers",
                                         cel_type_name(v));
        cel_write(v, out);
        return NULL;
    case 'f':
        if (!number_name(v, &d))
            return lib_format_type_error(a, "fixed-point clause can only be used on doubles",
                                         cel_type_name(v));
        write_fixed(d, c->precision < 0 ? DEFAULT_PRECISION : c->precision, out);
        return NULL;
    case 'e':
        if (!number_name(v, &d))
            return lib_format_type_error(a, "scientific clause can only be used on doubles",
                                         cel_type_name(v));
        write_scientific(d, c->precision < 0 ? DEFAULT_PRECISION : c->precision, out);
        return NULL;
    case 'b':
        if (v.kind == CEL_BOOL) {
            sbuf_addc(out, v.b ? '1' : '0');
            return NULL;
        }
        if (v.kind != CEL_INT && v.kind != CEL_UINT)
            return lib_format_type_error(a, "only integers and bools can be formatted as binary",
                                         cel_type_name(v));
        write_int_base(v, 2, false, out);
        return NULL;
    case 'o':
        if (v.kind != CEL_INT && v.kind != CEL_UINT)
            return lib_format_type_error(a, "octal clause can only be used on integers",
                                         cel_type_name(v));
        write_int_base(v, 8, false, out);
        return NULL;
    default:
        return write_hex(v, c->verb == 'X', out, a);
    }
}

const char *cel_format_next(struct str format, size_t *at, struct sbuf *literal,
                            struct cel_clause *ret, struct arena *a)
{
    ret->verb = 0;
    ret->precision = -1;
    while (*at < format.n) {
        char c = format.p[*at];
        if (c != '%') {
            sbuf_addc(literal, c);
            (*at)++;
            continue;
        }
        if (*at + 1 < format.n && format.p[*at + 1] == '%') {
            sbuf_addc(literal, '%');
            *at += 2;
            continue;
        }
        break;
    }
    if (*at >= format.n)
        return NULL;
    if (++*at >= format.n)
        return "unexpected end of string";
#define CLAUSE "could not parse formatting clause: "
    if (format.p[*at] == '.') {
        size_t from = ++*at;
        int precision = 0;
        while (*at < format.n && isdigit((unsigned char)format.p[*at]) && precision < 1000000)
            precision = precision * 10 + (format.p[(*at)++] - '0');
        if (*at >= format.n)
            return CLAUSE
                "error while parsing precision: could not find end of precision specifier";
        if (*at == from)
            return CLAUSE "error while parsing precision: error while converting precision to "
                          "integer: strconv.Atoi: parsing \"\": invalid syntax";
        ret->precision = precision < PRECISION_MAX ? precision : PRECISION_MAX;
    }
    char verb = format.p[*at];
    if (!strchr("sdfebxXo", verb))
        return arena_strf(a, CLAUSE "unrecognized formatting clause \"%c\"", verb).p;
    (*at)++;
    ret->verb = verb;
    return NULL;
}

static struct cel_val fn_format(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 2 || args[0].kind != CEL_STRING || args[1].kind != CEL_LIST)
        return cel_run_mismatch(run, "format", args, n);
    struct str format = cel_str(args[0]);
    const struct cel_list *l = args[1].list;
    cleanup_sbuf struct sbuf out = {0};
    size_t at = 0;
    for (uint32_t i = 0;; i++) {
        struct cel_clause c;
        const char *why = cel_format_next(format, &at, &out, &c, &run->arena);
        if (!why && !c.verb)
            break;
        // Upstream asks for the argument before it reads the clause.
        if (i >= l->n)
            return cel_errorf(&run->arena, "index %u out of range", i);
        if (!why)
            why = cel_format_clause(&c, l->items[i], &out, &run->arena);
        if (why)
            return cel_errorf(&run->arena, "%s", why);
    }
    return cel_run_string(run, sbuf_str(&out));
}

static const struct cel_impl table[] = {{"format", fn_format}};

CEL_IMPLS(format, table);

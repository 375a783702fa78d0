// SPDX-License-Identifier: Apache-2.0
//
// Text to quantity. Short texts without sign and exponent are one scan in registers; what else 64
// bits can take is a second one, still without allocation. Everything else goes through decimals,
// as upstream does, because upstream's later answers depend on which of the two a number took.
#include <assert.h>
#include <string.h>

#include "codec/number/quantity_int.h"

#include "base/banned.h"

#define FORMAT_WRONG                                \
    "quantities must match the regular expression " \
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
#define NUMERIC_WRONG "unable to parse numeric part of quantity"
#define SUFFIX_WRONG  "unable to parse quantity's suffix"

// Digits that surely fit 64 bits.
#define FAST_DIGITS 18

struct parts {
    bool negative;
    bool any_digit;    // a digit was written, a leading zero counts
    struct str whole;  // digits before the point, leading zeroes dropped; may be empty
    struct str frac;   // digits behind the point
    struct str suffix; // what follows the number
};

static inline bool quantity_parse_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static struct str take_digits(struct str s, size_t *at)
{
    size_t from = *at;
    while (*at < s.n && quantity_parse_is_digit(s.p[*at]))
        ++*at;
    return str_make(s.p + from, *at - from);
}

// Cuts the text into sign, digits and the rest. s is not empty.
static struct parts quantity_parse_split_text(struct str s)
{
    struct parts p = {0};
    size_t at = 0;
    if (s.p[0] == '-' || s.p[0] == '+') {
        p.negative = s.p[0] == '-';
        at = 1;
    }
    size_t first_digit = at;
    while (at < s.n && s.p[at] == '0')
        at++;
    p.whole = take_digits(s, &at);
    p.any_digit = at > first_digit;
    if (at < s.n && s.p[at] == '.') {
        at++;
        p.frac = take_digits(s, &at);
        p.any_digit |= p.frac.n > 0;
    }
    p.suffix = str_from(s, at);
    return p;
}

struct scale {
    int32_t exponent; // of 10, or of 2 for QUANTITY_BINARY_SI
    enum quantity_format format;
};

// The exponent of 10 that a letter stands for; 1 (which none does) when it is no suffix.
static inline int32_t letter_exponent(char c)
{
    switch (c) {
    case 'n':
        return -9;
    case 'u':
        return -6;
    case 'm':
        return -3;
    case 'k':
    case 'K': // only before an i; checked by the caller
        return 3;
    case 'M':
        return 6;
    case 'G':
        return 9;
    case 'T':
        return 12;
    case 'P':
        return 15;
    case 'E':
        return 18;
    default:
        return 1;
    }
}

// Suffixes without an exponent. False when it is none of them.
static inline bool plain_suffix(struct str suffix, struct scale *ret)
{
    if (suffix.n == 0) {
        *ret = (struct scale){0, QUANTITY_DECIMAL_SI};
        return true;
    }
    int32_t exponent = letter_exponent(suffix.p[0]);
    if (exponent == 1)
        return false;
    if (suffix.n == 1) {
        *ret = (struct scale){exponent, QUANTITY_DECIMAL_SI};
        return suffix.p[0] != 'K';
    }
    // Ki is 2^10 where k is 10^3, and so on; there is no binary form below one and no "ki".
    *ret = (struct scale){exponent / 3 * 10, QUANTITY_BINARY_SI};
    return suffix.n == 2 && suffix.p[1] == 'i' && exponent > 0 && suffix.p[0] != 'k';
}

// An exponent of up to three digits: e6, E-3, e+12. False when it is anything else.
static inline bool short_exponent(struct str suffix, struct scale *ret)
{
    size_t at = 1;
    if (suffix.n < 2 || (suffix.p[0] != 'e' && suffix.p[0] != 'E'))
        return false;
    at += suffix.p[1] == '-' || suffix.p[1] == '+';
    if (at == suffix.n || suffix.n - at > 3)
        return false;
    int32_t exponent = 0;
    for (size_t i = at; i < suffix.n; i++) {
        if (!quantity_parse_is_digit(suffix.p[i]))
            return false;
        exponent = exponent * 10 + (suffix.p[i] - '0');
    }
    ret->exponent = suffix.p[1] == '-' ? -exponent : exponent;
    ret->format = QUANTITY_DECIMAL_EXPONENT;
    return true;
}

static bool has_suffix_shape(struct str s)
{
    size_t at = 0;
    while (at < s.n && strchr("eEinumkKMGTP", s.p[at]) && s.p[at])
        at++;
    if (at < s.n && (s.p[at] == '-' || s.p[at] == '+'))
        at++;
    while (at < s.n && quantity_parse_is_digit(s.p[at]))
        at++;
    return at == s.n;
}

// e3, E-6 and the like, behind a number of whole digits. Reads as Go's ParseInt does: one sign,
// digits. The bound is on the place of the first digit, so that the canonical form, which moves
// zeroes from the number to the exponent, stays within it.
static int parse_exponent(struct str suffix, size_t whole, struct scale *ret, struct err *err)
{
    if (!has_suffix_shape(suffix))
        return err_set(err, ERR_INVALID, FORMAT_WRONG);
    if (suffix.n < 2 || (suffix.p[0] != 'e' && suffix.p[0] != 'E'))
        return err_set(err, ERR_INVALID, SUFFIX_WRONG);
    int64_t exponent;
    struct str digits = str_from(suffix, suffix.p[1] == '+' ? 2 : 1);
    if (str_to_i64(digits, &exponent) < 0)
        return err_set(err, ERR_INVALID, SUFFIX_WRONG);
    int64_t most = DRAY_QUANTITY_EXPONENT_MAX - (int64_t)whole;
    if (exponent > most || exponent < -DRAY_QUANTITY_EXPONENT_MAX)
        return err_set(err, ERR_INVALID, "quantity's exponent %lld is out of range (-%d to %lld)",
                       (long long)exponent, DRAY_QUANTITY_EXPONENT_MAX, (long long)most);
    *ret = (struct scale){(int32_t)exponent, QUANTITY_DECIMAL_EXPONENT};
    return 0;
}

// Upstream's estimate of whether 64 bits take digits * 2^exponent; it errs on the safe side.
static inline bool binary_fits(size_t digits, int32_t exponent)
{
    return 15 - (int64_t)digits - exponent * 3 / 10 - 1 >= 0;
}

// Makes the quantity of a decimal text of at most FAST_DIGITS digits; false when it is finer than
// nano, where upstream would round.
static inline bool make_plain(struct str text, uint64_t digits, int32_t scale, struct quantity *ret)
{
    bool keep = scale % 3 == 0 && digits % 1000 != 0;
    if (scale < QUANTITY_NANO)
        return false;
    ret->value = (int64_t)digits;
    ret->big = NULL;
    ret->original = keep ? text : (struct str){0};
    ret->scale = scale;
    ret->format = QUANTITY_DECIMAL_SI;
    ret->decimal = false;
    return true;
}

// Makes the quantity when 64 bits hold it; false when upstream would take a decimal. digits is the
// value of all digits; whole and frac count them before (without leading zeroes) and behind the
// point.
static inline bool make_small(struct str text, uint64_t digits, size_t whole, size_t frac,
                              struct scale s, struct quantity *ret)
{
    size_t counted = whole ? whole : 1; // upstream counts a missing number as "0"
    uint64_t value = digits;
    int32_t scale = 0;
    bool keep;
    if (s.format == QUANTITY_BINARY_SI) {
        if (frac || !binary_fits(counted, s.exponent))
            return false;
        value <<= s.exponent;
        keep = digits & 7;
    } else {
        scale = s.exponent - (int32_t)frac;
        if (counted + frac > FAST_DIGITS || scale < QUANTITY_NANO)
            return false;
        keep = scale % 3 == 0 && digits % 1000 != 0 && whole;
    }
    ret->value = text.p[0] == '-' ? -(int64_t)value : (int64_t)value;
    ret->big = NULL;
    ret->original = keep ? text : (struct str){0};
    ret->scale = scale;
    ret->format = s.format;
    ret->decimal = false;
    return true;
}

// The shortest texts, which are most: digits, the first of them not 0, perhaps a point, perhaps one
// letter. False when it is not that; then nothing is known about the text. This fits the registers
// that a function need not save, which is half of what it costs.
static inline bool parse_plain(struct str text, struct quantity *ret)
{
    uint64_t digits = 0;
    int32_t scale = 0;
    size_t n = 0;
    if (text.n - 1 >= FAST_DIGITS || text.p[text.n - 1] == 'i' || text.p[0] == '0')
        return false;
    for (; n < text.n && quantity_parse_is_digit(text.p[n]); n++)
        digits = digits * 10 + (uint64_t)(text.p[n] - '0');
    if (n == 0)
        return false;
    if (n < text.n && text.p[n] == '.')
        for (n++; n < text.n && quantity_parse_is_digit(text.p[n]); n++, scale--)
            digits = digits * 10 + (uint64_t)(text.p[n] - '0');
    if (n < text.n) {
        int32_t exponent = letter_exponent(text.p[n]);
        if (exponent == 1 || text.p[n] == 'K' || n + 1 < text.n)
            return false;
        scale += exponent;
    }
    return make_plain(text, digits, scale, ret);
}

// The same with a sign, leading zeroes, a binary suffix or an exponent.
static inline bool parse_common(struct str text, struct quantity *ret)
{
    const char *p = text.p, *end = text.p + text.n, *from;
    struct scale s;
    uint64_t digits = 0;
    size_t frac = 0;
    p += *p == '-' || *p == '+';
    while (p < end && *p == '0')
        p++;
    for (from = p; p < end && quantity_parse_is_digit(*p); p++)
        digits = digits * 10 + (uint64_t)(*p - '0');
    size_t whole = (size_t)(p - from);
    if (p < end && *p == '.') {
        for (from = ++p; p < end && quantity_parse_is_digit(*p); p++)
            digits = digits * 10 + (uint64_t)(*p - '0');
        frac = (size_t)(p - from);
    }
    struct str suffix = str_make(p, (size_t)(end - p));
    return (plain_suffix(suffix, &s) || short_exponent(suffix, &s)) &&
           make_small(text, digits, whole, frac, s, ret);
}

static uint64_t digits_value(struct str whole, struct str frac)
{
    uint64_t v = 0;
    for (size_t i = 0; i < whole.n; i++)
        v = v * 10 + (uint64_t)(whole.p[i] - '0');
    for (size_t i = 0; i < frac.n; i++)
        v = v * 10 + (uint64_t)(frac.p[i] - '0');
    return v;
}

static const struct bigint *times_pow2(const struct bigint *b, int32_t exponent, struct arena *a)
{
    for (; exponent > 30; exponent -= 30)
        b = bigint_mul_small(b, UINT32_C(1) << 30, a);
    return bigint_mul_small(b, UINT32_C(1) << exponent, a);
}

// Binary numbers stop at 2^63-1; fractions below one become decimal to stay exact.
static void limit_binary(struct quantity *q, struct arena *arena)
{
    const struct quantity most = {.value = INT64_MAX, .decimal = true};
    const struct quantity one = {.value = 1, .decimal = true};
    bool negative = quantity_sign(q) < 0;
    struct quantity size = *q;
    if (negative)
        quantity_neg(&size, q, arena);
    if (quantity_cmp(&size, &most) > 0) {
        size.value = INT64_MAX;
        size.big = NULL;
        size.scale = 0;
    } else if (quantity_sign(&size) > 0 && quantity_cmp(&size, &one) < 0) {
        size.format = QUANTITY_DECIMAL_SI;
    }
    if (negative)
        quantity_neg(q, &size, arena);
    else
        *q = size;
}

static struct quantity quantity_parse_decimal(const struct parts *p, struct scale s,
                                              struct arena *arena)
{
    char digits[DRAY_QUANTITY_TEXT_MAX];
    size_t n = p->whole.n + p->frac.n;
    assert(n <= sizeof(digits));
    if (p->whole.n)
        memcpy(digits, p->whole.p, p->whole.n);
    if (p->frac.n)
        memcpy(digits + p->whole.n, p->frac.p, p->frac.n);
    const struct bigint *unscaled = bigint_from_digits(str_make(digits, n), p->negative, arena);
    int32_t scale = -(int32_t)p->frac.n;
    if (s.format == QUANTITY_BINARY_SI)
        unscaled = times_pow2(unscaled, s.exponent, arena);
    else
        scale += s.exponent;
    struct quantity q = quantity_decimal(unscaled, scale, s.format);
    if (quantity_sign(&q) != 0)
        (void)quantity_decimal_round(&q, &q, QUANTITY_NANO, arena);
    if (s.format == QUANTITY_BINARY_SI)
        limit_binary(&q, arena);
    return q;
}

// A binary number that upstream keeps as a decimal, such as 2Pi or 1.5Gi, when 128 bits hold it in
// nano, as 9 digits times 2^60 and 10^9 do. The same as quantity_parse_decimal makes, without its
// five steps of digits in the arena. False when it is not that.
static bool make_binary_decimal(const struct parts *p, struct scale s, struct arena *arena,
                                struct quantity *ret)
{
    const uint32_t nano = 1000000000;
    uint64_t digits = digits_value(p->whole, p->frac);
    if (s.format != QUANTITY_BINARY_SI || p->negative || digits == 0 ||
        p->whole.n + p->frac.n > -QUANTITY_NANO)
        return false;
    unsigned __int128 value = (unsigned __int128)digits << s.exponent;
    for (size_t i = p->frac.n; i < -QUANTITY_NANO; i++)
        value *= 10;
    struct quantity q = {.scale = QUANTITY_NANO, .format = s.format, .decimal = true};
    if (value > (unsigned __int128)INT64_MAX * nano) {
        q.value = INT64_MAX;
        q.scale = 0;
    } else if (value > INT64_MAX) {
        q.big = bigint_from_u128(value, arena);
    } else {
        q.value = (int64_t)value;
    }
    if (value < nano)
        q.format = QUANTITY_DECIMAL_SI;
    *ret = q;
    return true;
}

// Everything that is not common. Out of line: its buffers must not burden the fast way.
static int __attribute__((noinline))
parse_rest(struct str text, struct arena *arena, struct quantity *ret, struct err *err)
{
    struct scale s = {0};
    struct parts p = quantity_parse_split_text(text);
    if (!plain_suffix(p.suffix, &s)) {
        int r = parse_exponent(p.suffix, p.whole.n, &s, err);
        if (r < 0)
            return r;
    }
    if (make_small(text, digits_value(p.whole, p.frac), p.whole.n, p.frac.n, s, ret))
        return 0;
    if (!p.any_digit)
        return err_set(err, ERR_INVALID, NUMERIC_WRONG);
    if (!make_binary_decimal(&p, s, arena, ret))
        *ret = quantity_parse_decimal(&p, s, arena);
    return 0;
}

// Everything that is not plain. Out of line for the same reason.
static int __attribute__((noinline))
parse_more(struct str text, struct arena *arena, struct quantity *ret, struct err *err)
{
    if (text.n == 0)
        return err_set(err, ERR_INVALID, FORMAT_WRONG);
    if (text.n > DRAY_QUANTITY_TEXT_MAX)
        return err_set(err, ERR_INVALID, "quantity is longer than %d bytes",
                       DRAY_QUANTITY_TEXT_MAX);
    return parse_common(text, ret) ? 0 : parse_rest(text, arena, ret, err);
}

int quantity_parse(struct str text, struct arena *arena, struct quantity *ret, struct err *err)
{
    return parse_plain(text, ret) ? 0 : parse_more(text, arena, ret, err);
}

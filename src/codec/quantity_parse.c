// SPDX-License-Identifier: Apache-2.0
//
// Text to quantity. The common case (up to 18 digits, a suffix that 64 bits can take) is one scan
// and no allocation; everything else goes through decimals, as upstream does, because upstream's
// later answers depend on which of the two a number took.
#include <assert.h>

#include "codec/quantity_int.h"

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

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_suffix_letter(char c)
{
    switch (c) {
    case 'e':
    case 'E':
    case 'i':
    case 'n':
    case 'u':
    case 'm':
    case 'k':
    case 'K':
    case 'M':
    case 'G':
    case 'T':
    case 'P':
        return true;
    default:
        return false;
    }
}

static struct str take_digits(struct str s, size_t *at)
{
    size_t from = *at;
    while (*at < s.n && is_digit(s.p[*at]))
        ++*at;
    return str_make(s.p + from, *at - from);
}

// False when the text does not have the shape of a quantity.
static bool split(struct str s, struct parts *ret)
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
    size_t suffix_from = at;
    while (at < s.n && is_suffix_letter(s.p[at]))
        at++;
    if (at < s.n && (s.p[at] == '-' || s.p[at] == '+'))
        at++;
    while (at < s.n && is_digit(s.p[at]))
        at++;
    p.suffix = str_from(s, suffix_from);
    *ret = p;
    return at == s.n;
}

struct scale {
    int32_t exponent; // of 10, or of 2 for QUANTITY_BINARY_SI
    enum quantity_format format;
};

static bool one_letter_scale(char c, struct scale *ret)
{
    static const char letters[] = "num kMGTPE"; // 10^-9 to 10^18 in steps of three
    for (int32_t i = 0; letters[i]; i++) {
        if (letters[i] == c && c != ' ') {
            *ret = (struct scale){3 * i - 9, QUANTITY_DECIMAL_SI};
            return true;
        }
    }
    return false;
}

static bool binary_scale(struct str suffix, struct scale *ret)
{
    static const char letters[] = "KMGTPE"; // 2^10 to 2^60 in steps of ten
    if (suffix.n != 2 || suffix.p[1] != 'i')
        return false;
    for (int32_t i = 0; letters[i]; i++) {
        if (letters[i] == suffix.p[0]) {
            *ret = (struct scale){10 * (i + 1), QUANTITY_BINARY_SI};
            return true;
        }
    }
    return false;
}

static int parse_suffix(struct str suffix, struct scale *ret, struct err *err)
{
    if (suffix.n == 0) {
        *ret = (struct scale){0, QUANTITY_DECIMAL_SI};
        return 0;
    }
    if (suffix.n == 1 && one_letter_scale(suffix.p[0], ret))
        return 0;
    if (binary_scale(suffix, ret))
        return 0;
    if (suffix.n < 2 || (suffix.p[0] != 'e' && suffix.p[0] != 'E'))
        return err_set(err, ERR_INVALID, SUFFIX_WRONG);
    int64_t exponent;
    struct str digits = str_from(suffix, suffix.p[1] == '+' ? 2 : 1);
    if (suffix.p[1] == '+' && digits.n && digits.p[0] == '-')
        return err_set(err, ERR_INVALID, SUFFIX_WRONG);
    if (str_to_i64(digits, &exponent) < 0)
        return err_set(err, ERR_INVALID, SUFFIX_WRONG);
    if (exponent > DRAY_QUANTITY_EXPONENT_MAX || exponent < -DRAY_QUANTITY_EXPONENT_MAX)
        return err_set(err, ERR_INVALID, "quantity's exponent %lld is out of range (-%d to %d)",
                       (long long)exponent, DRAY_QUANTITY_EXPONENT_MAX, DRAY_QUANTITY_EXPONENT_MAX);
    *ret = (struct scale){(int32_t)exponent, QUANTITY_DECIMAL_EXPONENT};
    return 0;
}

static int64_t digits_value(struct str whole, struct str frac)
{
    int64_t v = 0;
    for (size_t i = 0; i < whole.n; i++)
        v = v * 10 + (whole.p[i] - '0');
    for (size_t i = 0; i < frac.n; i++)
        v = v * 10 + (frac.p[i] - '0');
    return v;
}

// Upstream's estimate of whether 64 bits take digits * 2^exponent; it errs on the safe side.
static bool binary_fits(size_t digits, int32_t exponent)
{
    return 15 - (int64_t)digits - exponent * 3 / 10 - 1 >= 0;
}

// The way without decimals. False when upstream would not take it.
static bool parse_fast(struct str text, const struct parts *p, struct scale s, struct quantity *ret)
{
    size_t whole_digits = p->whole.n ? p->whole.n : 1; // upstream counts a missing number as "0"
    struct quantity q = {.format = s.format};
    if (s.format == QUANTITY_BINARY_SI) {
        if (p->frac.n || !binary_fits(whole_digits, s.exponent))
            return false;
        int64_t digits = digits_value(p->whole, p->frac);
        q.value = digits << s.exponent;
        if (digits & 7)
            q.original = text;
    } else {
        q.scale = s.exponent - (int32_t)p->frac.n;
        if (whole_digits + p->frac.n > FAST_DIGITS || q.scale < QUANTITY_NANO)
            return false;
        q.value = digits_value(p->whole, p->frac);
        if (q.scale % 3 == 0 && q.value % 1000 != 0 && p->whole.n)
            q.original = text;
    }
    if (p->negative)
        q.value = -q.value;
    *ret = q;
    return true;
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

static struct quantity parse_decimal(const struct parts *p, struct scale s, struct arena *arena)
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

int quantity_parse(struct str text, struct arena *arena, struct quantity *ret, struct err *err)
{
    struct parts p;
    struct scale s = {0};
    if (text.n == 0)
        return err_set(err, ERR_INVALID, FORMAT_WRONG);
    if (text.n > DRAY_QUANTITY_TEXT_MAX)
        return err_set(err, ERR_INVALID, "quantity is longer than %d bytes",
                       DRAY_QUANTITY_TEXT_MAX);
    if (!split(text, &p))
        return err_set(err, ERR_INVALID, FORMAT_WRONG);
    int r = parse_suffix(p.suffix, &s, err);
    if (r < 0)
        return r;
    if (parse_fast(text, &p, s, ret))
        return 0;
    if (!p.any_digit)
        return err_set(err, ERR_INVALID, NUMERIC_WRONG);
    *ret = parse_decimal(&p, s, arena);
    return 0;
}

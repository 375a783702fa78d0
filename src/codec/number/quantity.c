// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on quantities. Numbers in 64 bits stay there while they fit; decimals stay decimals.
#include "codec/quantity.h"

#include <assert.h>

#include "codec/number/quantity_int.h"

#include "base/banned.h"

// Powers of ten that 64 bits hold.
#define POW10_MAX 18

static const int64_t pow10_i64[POW10_MAX + 1] = {
    1,
    10,
    100,
    1000,
    10000,
    100000,
    1000000,
    10000000,
    100000000,
    1000000000,
    10000000000,
    100000000000,
    1000000000000,
    10000000000000,
    100000000000000,
    1000000000000000,
    10000000000000000,
    100000000000000000,
    1000000000000000000,
};

// Negation that wraps, as upstream's does for the smallest number.
static int64_t quantity_negate_saturated(int64_t v)
{
    return (int64_t)(0 - (uint64_t)v);
}

const struct bigint *quantity_unscaled(const struct quantity *q, struct arena *a)
{
    return q->big ? q->big : bigint_from_i64(q->value, a);
}

struct quantity quantity_decimal(const struct bigint *unscaled, int32_t scale,
                                 enum quantity_format format)
{
    struct quantity q = {.scale = scale, .format = format, .decimal = true};
    if (!bigint_to_i64(unscaled, &q.value))
        q.big = unscaled;
    return q;
}

int quantity_sign(const struct quantity *q)
{
    if (q->big)
        return q->big->negative ? -1 : 1;
    return (q->value > 0) - (q->value < 0);
}

// Comparison. Numbers whose scales are close meet in 128 bits; the others by the place of their
// first digit and then digit by digit, so that no power of ten is ever written out.

struct digits {
    const struct bigint *big;
    size_t n;
    char small[20];
};

static struct digits quantity_get_digits(const struct quantity *q)
{
    struct digits d = {.big = q->big};
    if (q->big) {
        d.n = bigint_digits(q->big);
        return d;
    }
    uint64_t rest = q->value < 0 ? 0 - (uint64_t)q->value : (uint64_t)q->value;
    char reversed[20];
    for (; rest; rest /= 10)
        reversed[d.n++] = (char)(rest % 10);
    for (size_t i = 0; i < d.n; i++)
        d.small[i] = reversed[d.n - 1 - i];
    return d;
}

static unsigned digit_at(const struct digits *d, size_t i)
{
    if (i >= d->n)
        return 0;
    return d->big ? bigint_digit_at(d->big, i) : (unsigned)d->small[i];
}

// Compares magnitudes of two numbers that are not zero.
static int cmp_by_digits(const struct quantity *a, const struct quantity *b)
{
    struct digits da = quantity_get_digits(a), db = quantity_get_digits(b);
    int64_t top_a = (int64_t)da.n + a->scale, top_b = (int64_t)db.n + b->scale;
    if (top_a != top_b)
        return top_a < top_b ? -1 : 1;
    size_t longest = da.n > db.n ? da.n : db.n;
    for (size_t i = 0; i < longest; i++) {
        unsigned x = digit_at(&da, i), y = digit_at(&db, i);
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int quantity_cmp(const struct quantity *a, const struct quantity *b)
{
    int64_t apart = (int64_t)a->scale - b->scale;
    if (!a->big && !b->big && apart == 0)
        return (a->value > b->value) - (a->value < b->value);
    if (!a->big && !b->big && apart <= POW10_MAX && apart >= -POW10_MAX) {
        __int128 x = a->value, y = b->value;
        if (apart > 0)
            x *= pow10_i64[apart];
        else
            y *= pow10_i64[-apart];
        return (x > y) - (x < y);
    }
    int sign_a = quantity_sign(a), sign_b = quantity_sign(b);
    if (sign_a != sign_b || sign_a == 0)
        return (sign_a > sign_b) - (sign_a < sign_b);
    return sign_a * cmp_by_digits(a, b);
}

// quantity_scale_up multiplies by 10^by; false when 64 bits do not hold it.
static bool quantity_scale_up(int64_t value, int64_t by, int64_t *ret)
{
    if (value == 0 || by == 0) {
        *ret = value;
        return true;
    }
    return by <= POW10_MAX && !__builtin_mul_overflow(value, pow10_i64[by], ret);
}

// quantity_scale_down divides by 10^by, rounding away from zero; false when digits were lost.
static bool quantity_scale_down(int64_t value, int64_t by, int64_t *ret)
{
    if (by > POW10_MAX) {
        *ret = (value > 0) - (value < 0);
        return value == 0;
    }
    int64_t rest = value % pow10_i64[by];
    *ret = value / pow10_i64[by] + (rest > 0) - (rest < 0);
    return rest == 0;
}

// a + b in 64 bits, at the finer of the two scales. False when it does not fit.
static bool add_small(struct quantity *ret, const struct quantity *a, const struct quantity *b)
{
    if (b->value == 0) {
        *ret = *a;
        return true;
    }
    if (a->value == 0) {
        ret->value = b->value;
        ret->scale = b->scale;
        return true;
    }
    int64_t x = a->value, y = b->value, apart = (int64_t)a->scale - b->scale;
    if (apart > 0 ? !quantity_scale_up(x, apart, &x) : !quantity_scale_up(y, -apart, &y))
        return false;
    if (__builtin_add_overflow(x, y, &x))
        return false;
    ret->value = x;
    ret->scale = apart > 0 ? b->scale : a->scale;
    return true;
}

static struct quantity add_decimal(const struct quantity *a, const struct quantity *b,
                                   struct arena *arena)
{
    const struct bigint *x = quantity_unscaled(a, arena), *y = quantity_unscaled(b, arena);
    int64_t apart = (int64_t)a->scale - b->scale;
    if (apart > 0)
        x = bigint_mul_pow10(x, (uint32_t)apart, arena);
    else if (apart < 0)
        y = bigint_mul_pow10(y, (uint32_t)-apart, arena);
    return quantity_decimal(bigint_add(x, y, arena), apart > 0 ? b->scale : a->scale, a->format);
}

void quantity_add(struct quantity *ret, const struct quantity *a, const struct quantity *b,
                  struct arena *arena)
{
    struct quantity left = *a;
    left.original = (struct str){0};
    if (quantity_sign(a) == 0)
        left.format = b->format;
    struct quantity sum = left;
    if (a->decimal || b->decimal || !add_small(&sum, &left, b))
        sum = add_decimal(&left, b, arena);
    *ret = sum;
}

void quantity_neg(struct quantity *ret, const struct quantity *q, struct arena *arena)
{
    struct quantity n = *q;
    n.original = (struct str){0};
    if (q->big)
        n = quantity_decimal(bigint_neg(q->big, arena), q->scale, q->format);
    else if (q->decimal && q->value == INT64_MIN)
        n = quantity_decimal(bigint_neg(quantity_unscaled(q, arena), arena), q->scale, q->format);
    else
        n.value = quantity_negate_saturated(q->value);
    *ret = n;
}

void quantity_sub(struct quantity *ret, const struct quantity *a, const struct quantity *b,
                  struct arena *arena)
{
    // Of two numbers in 64 bits the second is negated wrapping, as upstream does; if the sum then
    // does not fit, or one is a decimal, the exact value counts.
    struct quantity left = *a, wrapped = *b;
    left.original = (struct str){0};
    if (quantity_sign(a) == 0)
        left.format = b->format;
    wrapped.value = quantity_negate_saturated(b->value);
    struct quantity rest = left;
    if (!a->decimal && !b->decimal && add_small(&rest, &left, &wrapped)) {
        *ret = rest;
        return;
    }
    struct quantity minus = *b;
    minus.decimal = true;
    quantity_neg(&minus, &minus, arena);
    *ret = add_decimal(&left, &minus, arena);
}

bool quantity_as_i64(const struct quantity *q, int64_t *ret)
{
    if (q->decimal || q->scale < 0)
        return false;
    return quantity_scale_up(q->value, q->scale, ret);
}

// Upstream multiplies by 10, 100, 1000, 10^6 and 10^9 in one step that wraps, and by other powers
// in steps that answer 0 at the first overflow.
static int64_t scale_up_as_upstream(int64_t value, int64_t by)
{
    int64_t v;
    if (quantity_scale_up(value, by, &v))
        return v;
    bool one_step = by == 1 || by == 2 || by == 3 || by == 6 || by == 9;
    if (!one_step || value == INT64_MIN)
        return 0;
    return (int64_t)((uint64_t)value * (uint64_t)pow10_i64[by]);
}

// A decimal's ScaledValue. Upstream's fast way treats anything below 2^63-1 as 64 bits, however
// negative, and adds one for any remainder.
static int64_t scaled_decimal(const struct quantity *q, int64_t drop)
{
    int64_t low = q->big ? bigint_low64(q->big) : q->value;
    if (drop == 0)
        return low;
    if (drop < 0) // Go's conversion of a float beyond int64 gives the smallest number
        return (int64_t)((uint64_t)low *
                         (uint64_t)(-drop > POW10_MAX ? INT64_MIN : pow10_i64[-drop]));
    bool below_max = q->big ? q->big->negative : q->value < INT64_MAX;
    if (below_max && drop <= POW10_MAX)
        return low / pow10_i64[drop] + (low % pow10_i64[drop] != 0);
    cleanup_arena struct arena scratch = {0};
    bool rest;
    const struct bigint *whole =
        bigint_div_pow10(quantity_unscaled(q, &scratch), (uint32_t)drop, &scratch, &rest);
    return (int64_t)((uint64_t)bigint_low64(whole) + (rest && quantity_sign(q) > 0 ? 1 : 0));
}

int64_t quantity_scaled(const struct quantity *q, int32_t scale)
{
    int64_t drop = (int64_t)scale - q->scale;
    if (q->decimal)
        return scaled_decimal(q, drop);
    if (drop <= 0)
        return scale_up_as_upstream(q->value, -drop);
    int64_t v;
    (void)quantity_scale_down(q->value, drop, &v);
    return v;
}

int64_t quantity_value(const struct quantity *q)
{
    return quantity_scaled(q, 0);
}

int64_t quantity_milli(const struct quantity *q)
{
    return quantity_scaled(q, -3);
}

static uint32_t trailing_zeroes(const struct quantity *q)
{
    if (q->big)
        return bigint_trailing_zeroes(q->big);
    uint32_t n = 0;
    for (int64_t v = q->value; v && v % 10 == 0; v /= 10)
        n++;
    return n;
}

bool quantity_is_whole_in(const struct quantity *q, int32_t scale)
{
    return quantity_sign(q) == 0 || (int64_t)q->scale + trailing_zeroes(q) >= scale;
}

bool quantity_decimal_round(struct quantity *ret, const struct quantity *q, int32_t scale,
                            struct arena *arena)
{
    const struct bigint *digits = quantity_unscaled(q, arena);
    bool rest = false;
    int64_t drop = (int64_t)scale - q->scale;
    if (drop <= 0) {
        digits = bigint_mul_pow10(digits, (uint32_t)-drop, arena);
    } else {
        digits = bigint_div_pow10(digits, (uint32_t)drop, arena, &rest);
        if (rest)
            digits = bigint_add(digits, bigint_from_i64(quantity_sign(q), arena), arena);
    }
    *ret = quantity_decimal(digits, scale, q->format);
    return !rest;
}

bool quantity_round_up(struct quantity *ret, const struct quantity *q, int32_t scale,
                       struct arena *arena)
{
    if (q->decimal)
        return quantity_decimal_round(ret, q, scale, arena);
    struct quantity rounded = *q;
    bool exact = true;
    if (q->scale < scale) {
        exact = quantity_scale_down(q->value, (int64_t)scale - q->scale, &rounded.value);
        rounded.scale = scale;
        rounded.original = (struct str){0};
    }
    *ret = rounded;
    return exact;
}

// Powers of ten as Go's math.Pow10 has them: a table of every 32nd, times or over a small one.
static double pow10_double(int64_t n)
{
    static const double by32[] = {1e0, 1e32, 1e64, 1e96, 1e128, 1e160, 1e192, 1e224, 1e256, 1e288};
    static const double neg32[] = {1e-0,   1e-32,  1e-64,  1e-96,  1e-128, 1e-160,
                                   1e-192, 1e-224, 1e-256, 1e-288, 1e-320};
    static const double small[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10,
                                   1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
                                   1e22, 1e23, 1e24, 1e25, 1e26, 1e27, 1e28, 1e29, 1e30, 1e31};
    if (n >= 0 && n <= 308)
        return by32[n / 32] * small[n % 32];
    if (n >= -323 && n < 0)
        return neg32[-n / 32] / small[-n % 32];
    return n > 0 ? __builtin_inf() : 0;
}

double quantity_as_double(const struct quantity *q)
{
    double base = q->big ? bigint_to_double(q->big) : (double)q->value;
    return q->scale ? base * pow10_double(q->scale) : base;
}

static size_t bigint_bytes(const struct bigint *b)
{
    return sizeof(*b) + b->n * sizeof(b->limbs[0]);
}

void quantity_count(const struct quantity *q, size_t *bytes)
{
    if (q->original.n)
        arena_count(bytes, q->original.n + 1, 1);
    if (q->big)
        arena_count(bytes, bigint_bytes(q->big), _Alignof(struct bigint));
}

struct quantity quantity_copy(const struct quantity *q, struct arena *arena)
{
    struct quantity c = *q;
    if (q->original.n)
        c.original = arena_str(arena, q->original);
    if (q->big)
        c.big = arena_dup(arena, q->big, bigint_bytes(q->big), _Alignof(struct bigint));
    return c;
}

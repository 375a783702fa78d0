// SPDX-License-Identifier: Apache-2.0
//
// Arbitrary-precision integers in base 10^9: quantities beyond 64 bits need decimal shifts and
// exact comparison, and nothing else.
#include "codec/bigint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#define LIMB 1000000000u

static const uint32_t pow10_small[BIGINT_LIMB_DIGITS + 1] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

static struct bigint *bigint_new(struct arena *a, size_t limbs, bool negative)
{
    assert(limbs < UINT32_MAX);
    struct bigint *b =
        arena_alloc(a, sizeof(*b) + limbs * sizeof(b->limbs[0]), _Alignof(struct bigint));
    b->n = (uint32_t)limbs;
    b->negative = negative;
    return b;
}

static const struct bigint *bigint_normalize(struct bigint *b)
{
    while (b->n && b->limbs[b->n - 1] == 0)
        b->n--;
    if (b->n == 0)
        b->negative = false;
    return b;
}

const struct bigint *bigint_from_i64(int64_t v, struct arena *a)
{
    struct bigint *b = bigint_new(a, 3, v < 0);
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    for (uint32_t i = 0; i < 3; i++) {
        b->limbs[i] = (uint32_t)(rest % LIMB);
        rest /= LIMB;
    }
    return bigint_normalize(b);
}

const struct bigint *bigint_from_u128(unsigned __int128 v, struct arena *a)
{
    struct bigint *b = bigint_new(a, 5, false);
    for (uint32_t i = 0; v; i++) {
        unsigned __int128 rest = v / LIMB;
        b->limbs[i] = (uint32_t)(v - rest * LIMB);
        v = rest;
    }
    return bigint_normalize(b);
}

const struct bigint *bigint_from_digits(struct str digits, bool negative, struct arena *a)
{
    size_t limbs = digits.n / BIGINT_LIMB_DIGITS + 1;
    struct bigint *b = bigint_new(a, limbs, negative);
    for (size_t i = 0; i < digits.n; i++) {
        size_t from_end = digits.n - 1 - i;
        uint32_t digit = (uint32_t)(digits.p[i] - '0');
        assert(digit <= 9);
        b->limbs[from_end / BIGINT_LIMB_DIGITS] +=
            digit * pow10_small[from_end % BIGINT_LIMB_DIGITS];
    }
    return bigint_normalize(b);
}

bool bigint_to_i64(const struct bigint *b, int64_t *ret)
{
    if (b->n > 3)
        return false;
    unsigned __int128 v = 0;
    for (uint32_t i = b->n; i-- > 0;)
        v = v * LIMB + b->limbs[i];
    unsigned __int128 most = (unsigned __int128)INT64_MAX + (b->negative ? 1 : 0);
    if (v > most)
        return false;
    *ret = b->negative ? (int64_t)(0 - (uint64_t)v) : (int64_t)v;
    return true;
}

int64_t bigint_low64(const struct bigint *b)
{
    uint64_t v = 0;
    for (uint32_t i = b->n; i-- > 0;)
        v = v * LIMB + b->limbs[i];
    return (int64_t)(b->negative ? 0 - v : v);
}

static int cmp_magnitude(const struct bigint *x, const struct bigint *y)
{
    if (x->n != y->n)
        return x->n < y->n ? -1 : 1;
    for (uint32_t i = x->n; i-- > 0;)
        if (x->limbs[i] != y->limbs[i])
            return x->limbs[i] < y->limbs[i] ? -1 : 1;
    return 0;
}

static struct bigint *bigint_duplicate(const struct bigint *b, struct arena *a)
{
    struct bigint *c = bigint_new(a, b->n, b->negative);
    memcpy(c->limbs, b->limbs, b->n * sizeof(b->limbs[0]));
    return c;
}

const struct bigint *bigint_neg(const struct bigint *b, struct arena *a)
{
    struct bigint *c = bigint_duplicate(b, a);
    c->negative = !b->negative;
    return bigint_normalize(c);
}

static const struct bigint *add_magnitude(const struct bigint *x, const struct bigint *y,
                                          struct arena *a)
{
    uint32_t longest = x->n > y->n ? x->n : y->n;
    struct bigint *sum = bigint_new(a, (size_t)longest + 1, x->negative);
    uint32_t carry = 0;
    for (uint32_t i = 0; i < sum->n; i++) {
        uint32_t v = carry + (i < x->n ? x->limbs[i] : 0) + (i < y->n ? y->limbs[i] : 0);
        carry = v >= LIMB;
        sum->limbs[i] = carry ? v - LIMB : v;
    }
    return bigint_normalize(sum);
}

// |x| - |y| where |x| >= |y|, with the given sign.
static const struct bigint *sub_magnitude(const struct bigint *x, const struct bigint *y,
                                          bool negative, struct arena *a)
{
    struct bigint *rest = bigint_new(a, x->n, negative);
    uint32_t borrow = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t take = borrow + (i < y->n ? y->limbs[i] : 0);
        borrow = x->limbs[i] < take;
        rest->limbs[i] = x->limbs[i] + (borrow ? LIMB : 0) - take;
    }
    return bigint_normalize(rest);
}

const struct bigint *bigint_add(const struct bigint *x, const struct bigint *y, struct arena *a)
{
    if (x->negative == y->negative)
        return add_magnitude(x, y, a);
    if (cmp_magnitude(x, y) >= 0)
        return sub_magnitude(x, y, x->negative, a);
    return sub_magnitude(y, x, y->negative, a);
}

const struct bigint *bigint_mul_small(const struct bigint *b, uint32_t factor, struct arena *a)
{
    struct bigint *product = bigint_new(a, (size_t)b->n + 2, b->negative);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < product->n; i++) {
        carry += i < b->n ? (uint64_t)b->limbs[i] * factor : 0;
        product->limbs[i] = (uint32_t)(carry % LIMB);
        carry /= LIMB;
    }
    return bigint_normalize(product);
}

const struct bigint *bigint_div_small(const struct bigint *b, uint32_t divisor, struct arena *a,
                                      uint32_t *ret_rest)
{
    struct bigint *quotient = bigint_new(a, b->n, b->negative);
    uint64_t rest = 0;
    for (uint32_t i = b->n; i-- > 0;) {
        rest = rest * LIMB + b->limbs[i];
        quotient->limbs[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    *ret_rest = (uint32_t)rest;
    return bigint_normalize(quotient);
}

const struct bigint *bigint_mul_pow10(const struct bigint *b, uint32_t exp, struct arena *a)
{
    uint32_t whole = exp / BIGINT_LIMB_DIGITS;
    struct bigint *shifted = bigint_new(a, (size_t)b->n + whole, b->negative);
    memcpy(shifted->limbs + whole, b->limbs, b->n * sizeof(b->limbs[0]));
    return bigint_mul_small(bigint_normalize(shifted), pow10_small[exp % BIGINT_LIMB_DIGITS], a);
}

const struct bigint *bigint_div_pow10(const struct bigint *b, uint32_t exp, struct arena *a,
                                      bool *ret_rest)
{
    uint32_t whole = exp / BIGINT_LIMB_DIGITS;
    bool lost = false;
    for (uint32_t i = 0; i < b->n && i < whole; i++)
        lost |= b->limbs[i] != 0;
    uint32_t keep = b->n > whole ? b->n - whole : 0;
    struct bigint *shifted = bigint_new(a, keep, b->negative);
    memcpy(shifted->limbs, b->limbs + (b->n - keep), keep * sizeof(b->limbs[0]));
    uint32_t rest;
    const struct bigint *q = bigint_div_small(bigint_normalize(shifted),
                                              pow10_small[exp % BIGINT_LIMB_DIGITS], a, &rest);
    *ret_rest = lost || rest != 0;
    return q;
}

static uint32_t limb_digits(uint32_t limb)
{
    uint32_t n = 1;
    while (n < BIGINT_LIMB_DIGITS && limb >= pow10_small[n])
        n++;
    return n;
}

size_t bigint_digits(const struct bigint *b)
{
    if (b->n == 0)
        return 0;
    return (size_t)(b->n - 1) * BIGINT_LIMB_DIGITS + limb_digits(b->limbs[b->n - 1]);
}

unsigned bigint_digit_at(const struct bigint *b, size_t i)
{
    size_t from_end = bigint_digits(b) - 1 - i;
    uint32_t limb = b->limbs[from_end / BIGINT_LIMB_DIGITS];
    return limb / pow10_small[from_end % BIGINT_LIMB_DIGITS] % 10;
}

uint32_t bigint_trailing_zeroes(const struct bigint *b)
{
    if (b->n == 0)
        return 0;
    uint32_t limb = 0, zeroes = 0;
    while (b->limbs[limb] == 0)
        limb++;
    while (b->limbs[limb] % pow10_small[zeroes + 1] == 0)
        zeroes++;
    return limb * BIGINT_LIMB_DIGITS + zeroes;
}

void bigint_write(const struct bigint *b, struct sbuf *out)
{
    if (b->negative)
        sbuf_addc(out, '-');
    sbuf_addf(out, "%u", b->n ? b->limbs[b->n - 1] : 0u);
    for (uint32_t i = b->n; i-- > 1;)
        sbuf_addf(out, "%09u", b->limbs[i - 1]);
}

double bigint_to_double(const struct bigint *b)
{
    cleanup_sbuf struct sbuf text = {0};
    bigint_write(b, &text);
    return strtod(text.p, NULL); // correctly rounded; digits alone mean the same in every locale
}

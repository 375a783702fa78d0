// SPDX-License-Identifier: Apache-2.0
//
// Whole numbers of any size, for quantities that outgrow 64 bits. Limbs are base 10^9: the work is
// shifting by powers of ten and printing, both linear that way. Numbers are immutable and live in
// an arena. Private to the codec room.
#ifndef CODEC_BIGINT_H
#define CODEC_BIGINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

#define BIGINT_LIMB_DIGITS 9

// Least significant limb first; no zero limb on top; zero has no limbs and is not negative.
struct bigint {
    bool negative;
    uint32_t n;
    uint32_t limbs[];
};

const struct bigint *bigint_from_i64(int64_t v, struct arena *a);
const struct bigint *bigint_from_u128(unsigned __int128 v, struct arena *a);

// bigint_from_digits reads decimal digits (nothing else; may be empty for zero).
const struct bigint *bigint_from_digits(struct str digits, bool negative, struct arena *a);

// bigint_to_i64 answers the value if it fits.
bool bigint_to_i64(const struct bigint *b, int64_t *ret);

// bigint_low64 is what two's complement keeps in 64 bits (Go's big.Int.Int64 on overflow).
int64_t bigint_low64(const struct bigint *b);

const struct bigint *bigint_neg(const struct bigint *b, struct arena *a);
const struct bigint *bigint_add(const struct bigint *x, const struct bigint *y, struct arena *a);

// bigint_mul_small multiplies by at most 2^32-1.
const struct bigint *bigint_mul_small(const struct bigint *b, uint32_t factor, struct arena *a);

// bigint_div_small divides, truncating towards zero; *ret_rest gets the magnitude of the remainder.
const struct bigint *bigint_div_small(const struct bigint *b, uint32_t divisor, struct arena *a,
                                      uint32_t *ret_rest);

// bigint_mul_pow10 multiplies by 10^exp.
const struct bigint *bigint_mul_pow10(const struct bigint *b, uint32_t exp, struct arena *a);

// bigint_div_pow10 divides by 10^exp, truncating towards zero; *ret_rest reports whether any was
// lost.
const struct bigint *bigint_div_pow10(const struct bigint *b, uint32_t exp, struct arena *a,
                                      bool *ret_rest);

// bigint_digits counts decimal digits; zero has none. bigint_digit_at reads one, 0 being the first
// (most significant).
size_t bigint_digits(const struct bigint *b);
unsigned bigint_digit_at(const struct bigint *b, size_t i);

// bigint_trailing_zeroes counts decimal zeroes at the end; 0 for zero.
uint32_t bigint_trailing_zeroes(const struct bigint *b);

void bigint_write(const struct bigint *b, struct sbuf *out);

// bigint_to_double rounds to the nearest double, ties to even; infinite when too large.
double bigint_to_double(const struct bigint *b);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// resource.Quantity: fixed-point numbers such as 40Gi, 100m, 1.5e3, with upstream's exact rules for
// precision, rounding and the canonical form. A quantity that fits 64 bits lives in the struct
// alone; a larger one points to digits in the arena it was made in. Values are immutable.
#ifndef CODEC_QUANTITY_H
#define CODEC_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum quantity_format {
    QUANTITY_DECIMAL_SI,       // 1500m, 2k, 3M
    QUANTITY_BINARY_SI,        // 2Ki, 3Mi
    QUANTITY_DECIMAL_EXPONENT, // 2e3
};

struct bigint;

// The number is unscaled * 10^scale, where unscaled is value, or *big when big is not NULL.
//
// Upstream keeps a number either in 64 bits or in an arbitrary-precision decimal, and some of its
// answers depend on which (1.5Gi and 1Pi are decimals, so AsInt64 refuses them): see `decimal`.
// Upstream also remembers the text it parsed if it looks canonical, and prints that: original.
struct quantity {
    int64_t value;
    const struct bigint *big; // only with decimal
    struct str original;      // borrowed from the parsed text; empty when not kept
    int32_t scale;
    enum quantity_format format;
    bool decimal;
};

// quantity_parse reads text as upstream's ParseQuantity does, rounding away from zero beyond nano
// precision and capping binary numbers at 2^63-1. arena is touched only when 64 bits do not
// suffice; text must outlive *ret. Returns 0, or -ERR_INVALID with upstream's message. Texts over
// DRAY_QUANTITY_TEXT_MAX bytes and exponents beyond +-DRAY_QUANTITY_EXPONENT_MAX are refused:
// upstream takes them and then spends unbounded time and memory on their digits.
int quantity_parse(struct str text, struct arena *arena, struct quantity *ret,
                   struct err *err) MUST_USE;

// quantity_from_i64 makes an integer quantity.
static inline struct quantity quantity_from_i64(int64_t value, enum quantity_format format)
{
    return (struct quantity){.value = value, .format = format};
}

// quantity_write adds what upstream's String and MarshalJSON give: the original text if it was
// kept, else the canonical form.
void quantity_write(const struct quantity *q, struct sbuf *out);

// quantity_write_canonical adds the canonical form: the largest suffix that leaves no fraction.
void quantity_write_canonical(const struct quantity *q, struct sbuf *out);

// quantity_cmp compares by number, whatever the format: <0, 0, >0.
int quantity_cmp(const struct quantity *a, const struct quantity *b);

// quantity_sign: -1, 0 or 1.
int quantity_sign(const struct quantity *q);

// quantity_add and quantity_sub set *ret to a+b and a-b. The format is a's, or b's when a is zero,
// as upstream. ret may alias a or b. arena is touched only when 64 bits do not suffice.
void quantity_add(struct quantity *ret, const struct quantity *a, const struct quantity *b,
                  struct arena *arena);
void quantity_sub(struct quantity *ret, const struct quantity *a, const struct quantity *b,
                  struct arena *arena);

// quantity_neg sets *ret to -q. ret may alias q.
void quantity_neg(struct quantity *ret, const struct quantity *q, struct arena *arena);

// quantity_as_i64 answers the value if it is a whole number that fits (upstream's AsInt64).
bool quantity_as_i64(const struct quantity *q, int64_t *ret);

// quantity_scaled is upstream's ScaledValue: the value in units of 10^scale, rounded away from zero
// (a negative decimal is rounded towards zero and then up by one, as upstream does), and upstream's
// wrapped number when it does not fit. quantity_value is scale 0, quantity_milli -3.
int64_t quantity_scaled(const struct quantity *q, int32_t scale);
int64_t quantity_value(const struct quantity *q);
int64_t quantity_milli(const struct quantity *q);

// quantity_is_whole_in reports whether q is exactly a multiple of 10^scale.
bool quantity_is_whole_in(const struct quantity *q, int32_t scale);

// quantity_round_up sets *ret to q rounded away from zero to a multiple of 10^scale. True when
// nothing was lost (upstream's RoundUp).
bool quantity_round_up(struct quantity *ret, const struct quantity *q, int32_t scale,
                       struct arena *arena);

// quantity_as_double is upstream's AsApproximateFloat64.
double quantity_as_double(const struct quantity *q);

// quantity_copy copies into another arena.
struct quantity quantity_copy(const struct quantity *q, struct arena *arena);

// quantity_count adds to *bytes what quantity_copy takes of an arena (arena_count).
void quantity_count(const struct quantity *q, size_t *bytes);

#endif

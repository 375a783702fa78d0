// SPDX-License-Identifier: Apache-2.0
//
// Quantity to text. The canonical form has no fraction and the largest suffix that allows that.
// Where upstream has no suffix for an exponent (above E or Ei) it writes none, and so do we: a
// reader gets the same wrong number from either.
#include "codec/number/quantity_int.h"

#include "base/banned.h"

static void add_decimal_suffix(int64_t exponent, enum quantity_format format, struct sbuf *out)
{
    static const char *const suffixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
    if (format == QUANTITY_DECIMAL_EXPONENT) {
        if (exponent != 0)
            sbuf_addf(out, "e%lld", (long long)exponent);
    } else if (exponent >= -9 && exponent <= 18) {
        sbuf_addz(out, suffixes[(exponent + 9) / 3]);
    }
}

// Zeroes to put back so that the exponent is a multiple of three.
static uint32_t pad_to_three(int64_t exponent)
{
    return (uint32_t)(((exponent % 3) + 3) % 3);
}

static void write_decimal(const struct quantity *q, enum quantity_format format, struct sbuf *out)
{
    cleanup_arena struct arena scratch = {0};
    int64_t exponent = q->scale;
    if (!q->big) {
        int64_t v = q->value;
        for (; v % 10 == 0; v /= 10)
            exponent++;
        uint32_t pad = pad_to_three(exponent);
        sbuf_add_i64(out, v);
        sbuf_add_repeat(out, '0', pad);
        exponent -= pad;
    } else {
        uint32_t zeroes = bigint_trailing_zeroes(q->big);
        bool rest;
        exponent += zeroes;
        uint32_t pad = pad_to_three(exponent);
        bigint_write(bigint_div_pow10(q->big, zeroes, &scratch, &rest), out);
        sbuf_add_repeat(out, '0', pad);
        exponent -= pad;
    }
    add_decimal_suffix(exponent, format, out);
}

static void add_binary_suffix(uint32_t times, struct sbuf *out)
{
    static const char *const suffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    if (times < array_len(suffixes))
        sbuf_addz(out, suffixes[times]);
}

// A whole number in powers of 1024.
static void write_binary(const struct quantity *q, struct sbuf *out)
{
    cleanup_arena struct arena scratch = {0};
    uint32_t times = 0;
    int64_t whole;
    if (!q->decimal && quantity_scaled(q, 0) == INT64_MIN) {
        // Upstream cannot negate this one to look for factors and leaves it as it is.
        sbuf_add_i64(out, INT64_MIN);
        return;
    }
    if (quantity_as_i64(q, &whole)) {
        for (; whole % 1024 == 0; whole /= 1024)
            times++;
        sbuf_add_i64(out, whole);
        add_binary_suffix(times, out);
        return;
    }
    struct quantity rounded;
    (void)quantity_decimal_round(&rounded, q, 0, &scratch);
    const struct bigint *b = quantity_unscaled(&rounded, &scratch);
    for (;;) {
        uint32_t rest;
        const struct bigint *next = bigint_div_small(b, 1024, &scratch, &rest);
        if (rest)
            break;
        b = next;
        times++;
    }
    bigint_write(b, out);
    add_binary_suffix(times, out);
}

void quantity_write_canonical(const struct quantity *q, struct sbuf *out)
{
    if (quantity_sign(q) == 0) {
        sbuf_addc(out, '0');
        return;
    }
    const struct quantity low = quantity_from_i64(-1024, QUANTITY_DECIMAL_SI);
    const struct quantity high = quantity_from_i64(1024, QUANTITY_DECIMAL_SI);
    enum quantity_format format = q->format;
    if (format == QUANTITY_BINARY_SI) {
        bool small = quantity_cmp(q, &low) > 0 && quantity_cmp(q, &high) < 0;
        if (!small && quantity_is_whole_in(q, 0)) {
            write_binary(q, out);
            return;
        }
        format = QUANTITY_DECIMAL_SI; // shows fractions and small numbers without rounding
    }
    write_decimal(q, format, out);
}

void quantity_write(const struct quantity *q, struct sbuf *out)
{
    if (q->original.n)
        sbuf_add(out, q->original);
    else
        quantity_write_canonical(q, out);
}

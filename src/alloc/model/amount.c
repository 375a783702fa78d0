// SPDX-License-Identifier: Apache-2.0
//
// Conversion of quantities to 128-bit amounts, which counters and capacities are compared in.
#include "alloc/model/amount.h"

#include "base/mem.h"

#include "base/banned.h"

#define NANO_SCALE (-9)

const int64_t amount_powers[AMOUNT_POWERS] = {
    INT64_C(1),
    INT64_C(10),
    INT64_C(100),
    INT64_C(1000),
    INT64_C(10000),
    INT64_C(100000),
    INT64_C(1000000),
    INT64_C(10000000),
    INT64_C(100000000),
    INT64_C(1000000000),
    INT64_C(10000000000),
    INT64_C(100000000000),
    INT64_C(1000000000000),
    INT64_C(10000000000000),
    INT64_C(100000000000000),
    INT64_C(1000000000000000),
    INT64_C(10000000000000000),
    INT64_C(100000000000000000),
    INT64_C(1000000000000000000),
};

// 1e37, beyond which no amount goes.
static const amount limit = (amount)1000000000000000000 * 1000000000000000000 * 10;

static amount amount_clamp(int sign)
{
    return sign < 0 ? -limit : limit;
}

// A number of more than 64 bits, taken apart into 10^18s, ones and billionths. Each part is rounded
// away from zero, which makes the next one's sign the opposite; the sum is exact.
static amount amount_from_large(const struct quantity *q)
{
    static const int32_t scales[] = {18, 0, NANO_SCALE};
    struct arena arena = {0};
    struct quantity most = quantity_from_i64(INT64_MAX, QUANTITY_DECIMAL_SI);
    most.scale = 9;
    struct quantity least = quantity_from_i64(-INT64_MAX, QUANTITY_DECIMAL_SI);
    least.scale = 9;
    amount sum = amount_clamp(quantity_sign(q));
    if (quantity_cmp(q, &most) < 0 && quantity_cmp(q, &least) > 0) {
        struct quantity rest = *q;
        sum = 0;
        for (size_t i = 0; i < array_len(scales); i++) {
            struct quantity part =
                quantity_from_i64(quantity_scaled(&rest, scales[i]), QUANTITY_DECIMAL_SI);
            part.scale = scales[i];
            quantity_sub(&rest, &rest, &part, &arena);
            sum += amount_from_quantity(&part);
        }
    }
    arena_done(&arena);
    return sum;
}

amount amount_from_quantity(const struct quantity *q)
{
    if (q->big)
        return amount_from_large(q);
    amount v = q->value;
    if (q->scale >= NANO_SCALE && q->scale <= -NANO_SCALE)
        return v * amount_powers[q->scale - NANO_SCALE]; // below the limit in any case
    const amount most = limit / 10;
    for (int32_t s = q->scale; s > NANO_SCALE; s--) {
        if (v > most || v < -most)
            return amount_clamp(v < 0 ? -1 : 1);
        v *= 10;
    }
    for (int32_t s = q->scale; s < NANO_SCALE; s++)
        v /= 10;
    return v;
}

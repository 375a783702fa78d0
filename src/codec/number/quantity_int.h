// SPDX-License-Identifier: Apache-2.0
//
// What the quantity files share. Private to the codec room.
#ifndef CODEC_NUMBER_QUANTITY_INT_H
#define CODEC_NUMBER_QUANTITY_INT_H

#include "codec/bigint.h"
#include "codec/quantity.h"

#define QUANTITY_NANO (-9)

// quantity_unscaled gives the digits of q as a bigint, made in a when q has none.
const struct bigint *quantity_unscaled(const struct quantity *q, struct arena *a);

// quantity_decimal makes a decimal from digits and scale; small digits move into the struct.
struct quantity quantity_decimal(const struct bigint *unscaled, int32_t scale,
                                 enum quantity_format format);

// quantity_decimal_round is a decimal's rounding away from zero: the result has exactly this
// scale. True when nothing was lost.
bool quantity_decimal_round(struct quantity *ret, const struct quantity *q, int32_t scale,
                            struct arena *arena);

#endif

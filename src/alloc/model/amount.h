// SPDX-License-Identifier: Apache-2.0
//
// Amounts: quantities as 128-bit numbers of billionths, so that the search adds and compares
// without allocating. Quantities have no finer grain. Values beyond 1e28 units are cut there, far
// above anything a sum of real capacities reaches.
#ifndef ALLOC_MODEL_AMOUNT_H
#define ALLOC_MODEL_AMOUNT_H

#include "codec/quantity.h"

typedef __int128 amount;

// Powers of ten that 64 bits hold.
#define AMOUNT_POWERS 19
extern const int64_t amount_powers[AMOUNT_POWERS];

// amount_from_quantity converts a quantity.
amount amount_from_quantity(const struct quantity *q);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// What parts of a device are worth, when requests for parts of certain sizes come in certain
// numbers. Cutting devices into parts is the cutting-stock problem; the duals of its linear program
// say how much of a device a part of each size costs when the others are cut well. A part of 510
// thousandths beside which nothing fits costs a whole device, one of 250 a quarter.
#ifndef ALLOC_FLEET_WORTH_PRICE_H
#define ALLOC_FLEET_WORTH_PRICE_H

#include <stdint.h>

// Sizes are thousandths of a device.
#define WORTH_WHOLE 1000U

// Sizes that are distinguished; with more, they are rounded up to a coarser grid.
#define WORTH_SIZES 128

struct worth_prices {
    double price[WORTH_WHOLE + 1]; // of a part of a size
    double value[WORTH_WHOLE + 1]; // of what is left of a device: the best that can be cut from it
};

// worth_price computes prices for a demand: how many parts of each size are wanted, in any unit.
// Without demand for parts, a part is worth its size. Deterministic; time is bounded.
void worth_price(const double demand[WORTH_WHOLE + 1], struct worth_prices *ret);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of costs: upstream multiplies in double precision and rounds up.
#ifndef CEL_COST_COST_H
#define CEL_COST_COST_H

#include <stdint.h>

#define CEL_STRING_FACTOR 0.1
#define CEL_REGEX_FACTOR  0.25

static inline uint64_t cel_ceil(double x)
{
    uint64_t t = (uint64_t)x;
    return t + (x > (double)t ? 1 : 0);
}

static inline uint64_t cel_tenth(uint64_t n)
{
    return cel_ceil((double)n * CEL_STRING_FACTOR);
}

#endif

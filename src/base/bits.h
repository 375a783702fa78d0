// SPDX-License-Identifier: Apache-2.0
//
// Fixed-size bitsets on the heap.
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

struct bits {
    uint64_t *words;
    size_t len; // in bits
};

// bits_init makes a set of len bits, all zero; bits_done frees it.
static inline void bits_init(struct bits *b, size_t len)
{
    *b = (struct bits){xcalloc(len / 64 + 1, sizeof(uint64_t)), len};
}

static inline void bits_done(struct bits *b)
{
    free(b->words);
    *b = (struct bits){0};
}

static inline void bits_set(struct bits *b, size_t i)
{
    assert(i < b->len);
    b->words[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline bool bits_test(const struct bits *b, size_t i)
{
    assert(i < b->len);
    return b->words[i / 64] >> (i % 64) & 1;
}

#endif

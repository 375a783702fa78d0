// SPDX-License-Identifier: Apache-2.0
//
// Fixed-size bitsets. Bits past the length are always zero, so words can be compared and counted
// whole. The words live on the heap.
#ifndef BASE_BITS_H
#define BASE_BITS_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bits {
    uint64_t *words;
    size_t len; // in bits
};

static inline size_t bits_words(size_t len)
{
    return len / 64 + (len % 64 != 0);
}

void bits_init(struct bits *b, size_t len);
void bits_done(struct bits *b);

static inline void bits_set(struct bits *b, size_t i)
{
    assert(i < b->len);
    b->words[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void bits_clear(struct bits *b, size_t i)
{
    assert(i < b->len);
    b->words[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

static inline bool bits_test(const struct bits *b, size_t i)
{
    assert(i < b->len);
    return b->words[i / 64] >> (i % 64) & 1;
}

void bits_set_all(struct bits *b);
void bits_clear_all(struct bits *b);

// The following work on sets of the same length and change the first.
void bits_copy(struct bits *to, const struct bits *from);
void bits_and(struct bits *b, const struct bits *other);
void bits_or(struct bits *b, const struct bits *other);
void bits_andnot(struct bits *b, const struct bits *other);
void bits_not(struct bits *b);

size_t bits_count(const struct bits *b);
size_t bits_count_and(const struct bits *a, const struct bits *b);
bool bits_any(const struct bits *b);
bool bits_intersect(const struct bits *a, const struct bits *b);
bool bits_equal(const struct bits *a, const struct bits *b);
bool bits_subset(const struct bits *a, const struct bits *of);

// bits_next returns the first set bit at or behind i, or SIZE_MAX.
size_t bits_next(const struct bits *b, size_t i);

// NOLINTBEGIN(bugprone-macro-parentheses): types and loop variables cannot stand in parentheses
#define bits_foreach(b, i) \
    for (size_t i = bits_next((b), 0); i != SIZE_MAX; i = bits_next((b), i + 1))
// NOLINTEND(bugprone-macro-parentheses)

#endif

// SPDX-License-Identifier: Apache-2.0
#include "base/bits.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#include "base/banned.h"

void bits_init(struct bits *b, size_t len)
{
    *b = (struct bits){xcalloc(bits_words(len), sizeof(uint64_t)), len};
}

void bits_done(struct bits *b)
{
    free(b->words);
    *b = (struct bits){0};
}

// Keeps the invariant: zero behind the end.
static void bits_trim_tail(struct bits *b)
{
    if (b->len % 64)
        b->words[b->len / 64] &= (UINT64_C(1) << (b->len % 64)) - 1;
}

void bits_set_all(struct bits *b)
{
    memset(b->words, 0xff, bits_words(b->len) * sizeof(uint64_t));
    bits_trim_tail(b);
}

void bits_clear_all(struct bits *b)
{
    memset(b->words, 0, bits_words(b->len) * sizeof(uint64_t));
}

void bits_copy(struct bits *to, const struct bits *from)
{
    assert(to->len == from->len);
    memcpy(to->words, from->words, bits_words(from->len) * sizeof(uint64_t));
}

void bits_and(struct bits *b, const struct bits *other)
{
    assert(b->len == other->len);
    for (size_t i = 0; i < bits_words(b->len); i++)
        b->words[i] &= other->words[i];
}

void bits_or(struct bits *b, const struct bits *other)
{
    assert(b->len == other->len);
    for (size_t i = 0; i < bits_words(b->len); i++)
        b->words[i] |= other->words[i];
}

void bits_andnot(struct bits *b, const struct bits *other)
{
    assert(b->len == other->len);
    for (size_t i = 0; i < bits_words(b->len); i++)
        b->words[i] &= ~other->words[i];
}

void bits_not(struct bits *b)
{
    for (size_t i = 0; i < bits_words(b->len); i++)
        b->words[i] = ~b->words[i];
    bits_trim_tail(b);
}

size_t bits_count(const struct bits *b)
{
    size_t n = 0;
    for (size_t i = 0; i < bits_words(b->len); i++)
        n += (size_t)__builtin_popcountll(b->words[i]);
    return n;
}

size_t bits_count_and(const struct bits *a, const struct bits *b)
{
    assert(a->len == b->len);
    size_t n = 0;
    for (size_t i = 0; i < bits_words(a->len); i++)
        n += (size_t)__builtin_popcountll(a->words[i] & b->words[i]);
    return n;
}

bool bits_any(const struct bits *b)
{
    for (size_t i = 0; i < bits_words(b->len); i++)
        if (b->words[i])
            return true;
    return false;
}

bool bits_intersect(const struct bits *a, const struct bits *b)
{
    assert(a->len == b->len);
    for (size_t i = 0; i < bits_words(a->len); i++)
        if (a->words[i] & b->words[i])
            return true;
    return false;
}

bool bits_equal(const struct bits *a, const struct bits *b)
{
    return a->len == b->len && memcmp(a->words, b->words, bits_words(a->len) * 8) == 0;
}

bool bits_subset(const struct bits *a, const struct bits *of)
{
    assert(a->len == of->len);
    for (size_t i = 0; i < bits_words(a->len); i++)
        if (a->words[i] & ~of->words[i])
            return false;
    return true;
}

size_t bits_next(const struct bits *b, size_t i)
{
    if (i >= b->len)
        return SIZE_MAX;
    size_t at = i / 64;
    uint64_t word = b->words[at] & ~UINT64_C(0) << (i % 64);
    while (!word) {
        if (++at == bits_words(b->len))
            return SIZE_MAX;
        word = b->words[at];
    }
    return at * 64 + (size_t)__builtin_ctzll(word);
}

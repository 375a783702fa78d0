// SPDX-License-Identifier: Apache-2.0
//
// Repeated keys of an object are found by sorting, which no choice of keys makes slow.
#include "codec/json/keys.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

static size_t compare_each(const struct str *keys, size_t n, uint32_t *first)
{
    size_t repeats = 0;
    for (size_t i = 0; i < n; i++) {
        size_t j = 0;
        while (!str_eq(keys[j], keys[i])) // ends at j == i at the latest
            j++;
        first[i] = (uint32_t)j;
        repeats += j != i;
    }
    return repeats;
}

static int by_key_then_index(const void *a, const void *b, void *keys)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct str *k = keys;
    // Any total order does; lengths first is the cheapest.
    if (k[i].n != k[j].n)
        return k[i].n < k[j].n ? -1 : 1;
    int c = k[i].n ? memcmp(k[i].p, k[j].p, k[i].n) : 0;
    if (c != 0)
        return c;
    return (i > j) - (i < j);
}

size_t keys_first(const struct str *keys, size_t n, uint32_t *first)
{
    assert(n < UINT32_MAX);
    if (n <= KEYS_FEW)
        return compare_each(keys, n, first);
    cleanup_free uint32_t *order = xreallocarray(NULL, n, sizeof(*order));
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    union {
        const struct str *in;
        void *out;
    } unconst = {.in = keys};
    qsort_r(order, n, sizeof(*order), by_key_then_index, unconst.out);
    size_t repeats = 0;
    for (size_t i = 0; i < n; i++) {
        bool repeat = i > 0 && str_eq(keys[order[i - 1]], keys[order[i]]);
        first[order[i]] = repeat ? first[order[i - 1]] : order[i];
        repeats += repeat;
    }
    return repeats;
}

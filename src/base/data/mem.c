// SPDX-License-Identifier: Apache-2.0
//
// Allocation that aborts when memory is exhausted: no caller could do better, and no path is left
// untested.
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

static void *or_die(void *p, size_t size)
{
    if (!p) {
        (void)fprintf(stderr, "dray: out of memory (allocating %zu bytes)\n", size);
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return or_die(malloc(size ? size : 1), size);
}

void *xcalloc(size_t count, size_t size)
{
    if (count == 0 || size == 0)
        count = size = 1;
    return or_die(calloc(count, size), size);
}

void *xrealloc(void *p, size_t size)
{
    return or_die(realloc(p, size ? size : 1), size);
}

void *xreallocarray(void *p, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        or_die(NULL, SIZE_MAX);
    return xrealloc(p, total);
}

char *xstrndup(const char *p, size_t n)
{
    char *copy = xmalloc(n + 1);
    if (n)
        memcpy(copy, p, n);
    copy[n] = '\0';
    return copy;
}

size_t mem_grow_cap(size_t cap, size_t need, size_t elem_size)
{
    size_t next = cap + cap / 2;
    if (next < 8)
        next = 8;
    if (next < need)
        next = need;
    size_t total;
    if (__builtin_mul_overflow(next, elem_size, &total))
        or_die(NULL, SIZE_MAX);
    return next;
}

void mem_free_indirect(void *p)
{
    void *target;
    memcpy(&target, p, sizeof(target));
    free(target);
}

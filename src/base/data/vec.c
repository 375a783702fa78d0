// SPDX-License-Identifier: Apache-2.0
//
// Growth of vectors, on the heap and in an arena; the typed part is in the header.
#include "base/vec.h"

#include <string.h>

#include "base/banned.h"

void *vec_grow(void *p, size_t *cap, size_t need, size_t elem_size)
{
    *cap = mem_grow_cap(*cap, need, elem_size);
    return xreallocarray(p, *cap, elem_size);
}

void *vec_grow_arena(struct arena *a, const void *p, size_t n, size_t *cap, size_t need,
                     size_t elem_size)
{
    *cap = mem_grow_cap(*cap, need, elem_size);
    void *bigger = arena_alloc_array(a, *cap, elem_size, _Alignof(max_align_t));
    if (n)
        memcpy(bigger, p, n * elem_size);
    return bigger;
}

// SPDX-License-Identifier: Apache-2.0
//
// Heap allocation that never returns NULL (out of memory aborts with a message), scope-bound
// cleanup, and ownership transfer. Sizes that come from a peer are bounded before they get here.
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

// xmalloc, xcalloc, xrealloc, xreallocarray: as their libc namesakes; abort instead of NULL.
// A size of 0 yields a unique pointer. Multiplications are checked.
void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t size) __attribute__((returns_nonnull));
void *xreallocarray(void *p, size_t count, size_t size) __attribute__((returns_nonnull));

// xstrndup copies n bytes and adds a NUL. The caller owns the result.
char *xstrndup(const char *p, size_t n) __attribute__((malloc, returns_nonnull));

// mem_grow_cap returns the next capacity for a growing array: at least need, at least half as
// much again as cap. Aborts on overflow of count * elem_size.
size_t mem_grow_cap(size_t cap, size_t need, size_t elem_size);

// mem_free_indirect frees *(void **)p; the cleanup attribute calls it.
void mem_free_indirect(void *p);

// cleanup_free frees a heap pointer when it goes out of scope.
#define cleanup_free     __attribute__((cleanup(mem_free_indirect)))
#define cleanup_with(fn) __attribute__((cleanup(fn)))

// take_ptr gives a pointer away: the variable becomes NULL, the value is returned.
#define take_ptr(ptr)                                    \
    ({                                                   \
        __typeof__(ptr) *take_ptr_from = &(ptr);         \
        __typeof__(ptr) take_ptr_value = *take_ptr_from; \
        *take_ptr_from = NULL;                           \
        take_ptr_value;                                  \
    })

#define array_len(a) (sizeof(a) / sizeof((a)[0]))

// container_of finds the struct that a member lives in. For a pointer to const, say `const` in
// type.
#define container_of(ptr, type, member) ((type *)((uintptr_t)(ptr)-offsetof(type, member)))

#endif

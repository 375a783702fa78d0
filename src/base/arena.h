// SPDX-License-Identifier: Apache-2.0
//
// Bump allocation for work with one end: a request, a parse, a search. Everything is freed at once.
// Memory from arena_alloc is zeroed. An arena belongs to one thread at a time. Zero-initialised
// arenas are ready to use.
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"

struct arena_chunk;

struct arena {
    char *next; // first free byte of the newest chunk
    char *end;
    struct arena_chunk *newest;
    size_t used_bytes; // handed out since the last reset, without padding
};

// A position to come back to; see arena_rewind.
struct arena_mark {
    struct arena_chunk *chunk;
    char *next;
    size_t used_bytes;
};

// arena_reserve gives a new arena its first size bytes: for those that live long and whose content
// is known. Padding counts.
void arena_reserve(struct arena *a, size_t size);

// arena_count adds to *bytes what an allocation takes in a new arena: the sum of all of them, in
// their order, is what arena_reserve needs for them.
void arena_count(size_t *bytes, size_t size, size_t align);

// arena_alloc returns size zeroed bytes aligned to align (a power of two). Never NULL.
void *arena_alloc(struct arena *a, size_t size, size_t align)
    __attribute__((malloc, returns_nonnull));

// arena_alloc_array is arena_alloc for count items; aborts if the product overflows.
void *arena_alloc_array(struct arena *a, size_t count, size_t size, size_t align)
    __attribute__((malloc, returns_nonnull));

// arena_one and arena_array allocate zeroed objects of a type.
#define arena_one(a, type) ((type *)arena_alloc((a), sizeof(type), _Alignof(type)))
#define arena_array(a, type, count) \
    ((type *)arena_alloc_array((a), (count), sizeof(type), _Alignof(type)))

// arena_dup copies n bytes. arena_str copies a slice and adds a NUL behind it.
void *arena_dup(struct arena *a, const void *p, size_t n, size_t align);
struct str arena_str(struct arena *a, struct str s);

// arena_strf formats into the arena; the result is NUL-terminated.
struct str arena_strf(struct arena *a, const char *fmt, ...) ERR_PRINTF(2, 3);

// arena_mark and arena_rewind: free everything allocated since the mark was taken.
struct arena_mark arena_mark(const struct arena *a);
void arena_rewind(struct arena *a, struct arena_mark mark);

// arena_reset frees all but one chunk, for reuse. arena_done frees everything.
void arena_reset(struct arena *a);
void arena_done(struct arena *a);

#define cleanup_arena cleanup_with(arena_done)

#endif

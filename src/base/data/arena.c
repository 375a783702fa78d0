// SPDX-License-Identifier: Apache-2.0
//
// Chunks that double up to 1 MiB. Under AddressSanitizer bytes that are not handed out are
// poisoned.
#include "base/arena.h"

#include <assert.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

#include "base/banned.h"

// With AddressSanitizer, bytes that are not handed out are poisoned, so a use after reset or past
// the end of an allocation is caught as it would be with malloc.
#ifdef DRAY_ASAN // set by the build
#    include <sanitizer/asan_interface.h>
#    define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#    define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#    define GAP            8
#else
#    define POISON(p, n)   ((void)(p), (void)(n))
#    define UNPOISON(p, n) ((void)(p), (void)(n))
#    define GAP            0
#endif

#define FIRST_CHUNK ((size_t)4096)
#define MAX_CHUNK   ((size_t)1024 * 1024)

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; // usable bytes behind the header
    _Alignas(16) char data[];
};

static void chunk_free(struct arena_chunk *c)
{
    UNPOISON(c->data, c->size);
    free(c);
}

static void add_chunk_of(struct arena *a, size_t size)
{
    struct arena_chunk *c = xmalloc(sizeof(*c) + size);
    c->older = a->newest;
    c->size = size;
    a->newest = c;
    a->next = c->data;
    a->end = c->data + size;
    POISON(c->data, size);
}

// Makes a chunk that surely holds `need` bytes the newest one.
static void add_chunk(struct arena *a, size_t need)
{
    size_t size = a->newest ? a->newest->size * 2 : FIRST_CHUNK;
    if (size > MAX_CHUNK)
        size = MAX_CHUNK;
    add_chunk_of(a, size < need ? need : size);
}

// Checked in every build: an unchecked size would be mapped, zeroed and only then fail.
static void arena_check_size(size_t size)
{
    if (size <= DRAY_ARENA_BLOCK_MAX)
        return;
    (void)fprintf(stderr, "dray: allocation of %zu bytes refused: more than any input needs\n",
                  size);
    abort();
}

void arena_reserve(struct arena *a, size_t size)
{
    assert(!a->newest);
    arena_check_size(size);
    add_chunk_of(a, size);
}

void arena_count(size_t *bytes, size_t size, size_t align)
{
    *bytes += (-*bytes & (align - 1)) + size + GAP;
}

static char *align_up(char *p, size_t align)
{
    return p + (-(uintptr_t)p & (align - 1));
}

// Bytes as they come, not zeroed.
static void *arena_take_bytes(struct arena *a, size_t size, size_t align)
{
    assert(align && (align & (align - 1)) == 0);
    arena_check_size(size);
    char *p = a->next ? align_up(a->next, align) : NULL;
    if (!p || p > a->end || (size_t)(a->end - p) < size + GAP) {
        add_chunk(a, size + align + GAP);
        p = align_up(a->next, align);
    }
    a->next = p + size + GAP;
    a->used_bytes += size;
    UNPOISON(p, size);
    return p;
}

void *arena_alloc(struct arena *a, size_t size, size_t align)
{
    void *p = arena_take_bytes(a, size, align);
    memset(p, 0, size);
    return p;
}

void *arena_alloc_array(struct arena *a, size_t count, size_t size, size_t align)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        abort();
    return arena_alloc(a, total, align);
}

void *arena_dup(struct arena *a, const void *p, size_t n, size_t align)
{
    void *copy = arena_take_bytes(a, n, align);
    if (n)
        memcpy(copy, p, n);
    return copy;
}

struct str arena_str(struct arena *a, struct str s)
{
    char *copy = arena_take_bytes(a, s.n + 1, 1);
    if (s.n)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return (struct str){copy, s.n};
}

struct str arena_strf(struct arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    assert(n >= 0);
    char *p = arena_take_bytes(a, (size_t)n + 1, 1);
    va_start(ap, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return (struct str){p, (size_t)n};
}

struct arena_mark arena_mark(const struct arena *a)
{
    return (struct arena_mark){a->newest, a->next, a->used_bytes};
}

void arena_rewind(struct arena *a, struct arena_mark mark)
{
    while (a->newest != mark.chunk) {
        struct arena_chunk *c = a->newest;
        assert(c); // else the mark is not of this arena, or older than a reset
        a->newest = c->older;
        chunk_free(c);
    }
    a->next = mark.next;
    a->end = a->newest ? a->newest->data + a->newest->size : NULL;
    a->used_bytes = mark.used_bytes;
    if (a->newest)
        POISON(a->next, (size_t)(a->end - a->next));
}

void arena_reset(struct arena *a)
{
    if (!a->newest)
        return;
    struct arena_chunk *keep = a->newest;
    for (struct arena_chunk *c = keep->older, *older; c; c = older) {
        older = c->older;
        chunk_free(c);
    }
    keep->older = NULL;
    // One huge allocation must not pin its chunk for the life of the arena.
    if (keep->size > MAX_CHUNK) {
        chunk_free(keep);
        *a = (struct arena){0};
        return;
    }
    POISON(keep->data, keep->size);
    a->next = keep->data;
    a->end = keep->data + keep->size;
    a->used_bytes = 0;
}

void arena_done(struct arena *a)
{
    for (struct arena_chunk *c = a->newest, *older; c; c = older) {
        older = c->older;
        chunk_free(c);
    }
    *a = (struct arena){0};
}

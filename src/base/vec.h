// SPDX-License-Identifier: Apache-2.0
//
// Growing arrays, typed by macro over one implementation. VEC(T) is an anonymous struct type; name
// it once per element type where it crosses functions: `struct names VEC(struct str);`. A zeroed
// vec is empty and ready. Elements move when the vec grows: keep indexes, not pointers.
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"

// NOLINTBEGIN(bugprone-macro-parentheses): types and loop variables cannot stand in parentheses
#define VEC(T)      \
    {               \
        T *p;       \
        size_t n;   \
        size_t cap; \
    }

// vec_grow and vec_grow_arena make room for need elements; not called directly.
void *vec_grow(void *p, size_t *cap, size_t need, size_t elem_size);
void *vec_grow_arena(struct arena *a, const void *p, size_t n, size_t *cap, size_t need,
                     size_t elem_size);

#define vec_reserve(v, need)                                                                   \
    ((need) > (v)->cap ? (void)((v)->p = vec_grow((v)->p, &(v)->cap, (need), sizeof(*(v)->p))) \
                       : (void)0)

// vec_push adds one element to a vec on the heap.
#define vec_push(v, ...) (vec_reserve((v), (v)->n + 1), (void)((v)->p[(v)->n++] = (__VA_ARGS__)))

// vec_push_arena adds one element to a vec whose array lives in an arena. Use one or the other for
// a vec, never both; an arena vec needs no vec_done.
#define vec_push_arena(a, v, ...)                                                        \
    ((v)->n == (v)->cap ? (void)((v)->p = vec_grow_arena((a), (v)->p, (v)->n, &(v)->cap, \
                                                         (v)->n + 1, sizeof(*(v)->p)))   \
                        : (void)0,                                                       \
     (void)((v)->p[(v)->n++] = (__VA_ARGS__)))

#define vec_pop(v)   (assert((v)->n > 0), (v)->p[--(v)->n])
#define vec_last(v)  (assert((v)->n > 0), &(v)->p[(v)->n - 1])
#define vec_clear(v) ((void)((v)->n = 0))
#define vec_done(v)  (free((v)->p), (void)((v)->p = NULL), (void)((v)->n = 0), (void)((v)->cap = 0))

// vec_foreach walks with a pointer to each element; the vec may be const.
#define vec_foreach(v, it)                                                            \
    for (__typeof__(*(v)->p) *it = (v)->p, *it##_end = (v)->n ? (v)->p + (v)->n : it; \
         it != it##_end; it++)
// NOLINTEND(bugprone-macro-parentheses)

#endif

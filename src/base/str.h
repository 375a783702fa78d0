// SPDX-License-Identifier: Apache-2.0
//
// struct str is a borrowed slice of bytes; it owns nothing and need not end in NUL. struct sbuf
// builds text on the heap and always keeps a NUL behind its bytes.
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

struct str {
    const char *p;
    size_t n;
};

// STR makes a slice of a string literal; STR_INIT is the same for static initialisers.
#define STR(lit) ((struct str){"" lit "", sizeof(lit) - 1})
#define STR_INIT(lit)              \
    {                              \
        "" lit "", sizeof(lit) - 1 \
    }

// For printf: printf("%.*s", STR_ARG(s)).
#define STR_ARG(s) ((int)(s).n), ((s).p ? (s).p : "")

static inline struct str str_make(const char *p, size_t n)
{
    return (struct str){p, n};
}

// str_z makes a slice of a NUL-terminated string; NULL becomes the empty slice.
static inline struct str str_z(const char *z)
{
    return (struct str){z, z ? strlen(z) : 0};
}

static inline bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool str_eqz(struct str a, const char *z)
{
    return str_eq(a, str_z(z));
}

// str_cmp orders by bytes, a prefix before the longer one: <0, 0, >0.
int str_cmp(struct str a, struct str b);

// str_cmp_elements is str_cmp of two elements of an array, for qsort and bsearch. Elements that
// begin with a struct str are fine, too.
int str_cmp_elements(const void *a, const void *b);

// str_listed: s is one of n strings. str_is_one_of: of n words.
bool str_listed(const struct str *list, size_t n, struct str s);
bool str_is_one_of(struct str s, const char *const *words, size_t n);

// str_hex_digit is the value of a hexadecimal digit of either case, or -1.
static inline int str_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);

// str_find returns the offset of the first occurrence, or -1.
ptrdiff_t str_find(struct str s, struct str needle);
ptrdiff_t str_find_char(struct str s, char c);
ptrdiff_t str_rfind_char(struct str s, char c);

static inline bool str_contains(struct str s, struct str needle)
{
    return str_find(s, needle) >= 0;
}

// str_from drops the first off bytes; str_upto keeps the first n. Both clamp to the length.
static inline struct str str_from(struct str s, size_t off)
{
    if (off > s.n)
        off = s.n;
    return off ? (struct str){s.p + off, s.n - off} : s;
}

static inline struct str str_upto(struct str s, size_t n)
{
    return (struct str){s.p, n < s.n ? n : s.n};
}

// str_cut splits at the first c: *head gets what is before, *tail what is behind. Without c, head
// is the whole, tail empty, and the result false. head and tail may alias the source.
bool str_cut(struct str s, char c, struct str *head, struct str *tail);

// str_trim drops ASCII white space at both ends.
struct str str_trim(struct str s);

// str_to_i64 and str_to_u64 read a whole decimal number with nothing around it; an optional '-'
// for the signed one. Return 0, -EINVAL (not a number) or -ERANGE (does not fit).
int str_to_i64(struct str s, int64_t *ret) MUST_USE;
int str_to_u64(struct str s, uint64_t *ret) MUST_USE;

struct sbuf {
    char *p; // NULL until something is added
    size_t n;
    size_t cap;
};

void sbuf_reserve(struct sbuf *b, size_t extra);
void sbuf_addz(struct sbuf *b, const char *z);

// Inline: encoders are made of these two.
static inline void sbuf_add(struct sbuf *b, struct str s)
{
    if (b->n + s.n + 1 > b->cap)
        sbuf_reserve(b, s.n);
    if (s.n)
        memcpy(b->p + b->n, s.p, s.n);
    b->n += s.n;
    b->p[b->n] = '\0';
}

static inline void sbuf_addc(struct sbuf *b, char c)
{
    if (b->n + 2 > b->cap)
        sbuf_reserve(b, 1);
    b->p[b->n++] = c;
    b->p[b->n] = '\0';
}

void sbuf_add_repeat(struct sbuf *b, char c, size_t count);
void sbuf_addf(struct sbuf *b, const char *fmt, ...) ERR_PRINTF(2, 3);
void sbuf_add_u64(struct sbuf *b, uint64_t v);
void sbuf_add_i64(struct sbuf *b, int64_t v);

// sbuf_add_quoted adds s in double quotes with Go's %q escapes; invalid UTF-8 becomes \xNN.
void sbuf_add_quoted(struct sbuf *b, struct str s);

// sbuf_space makes room for n bytes and returns where they go; sbuf_commit counts them in.
char *sbuf_space(struct sbuf *b, size_t n);
void sbuf_commit(struct sbuf *b, size_t n);

void sbuf_truncate(struct sbuf *b, size_t n);
void sbuf_clear(struct sbuf *b);
void sbuf_done(struct sbuf *b);

// sbuf_take hands the heap text (NUL-terminated, never NULL) to the caller and empties b.
char *sbuf_take(struct sbuf *b);

static inline struct str sbuf_str(const struct sbuf *b)
{
    return (struct str){b->p, b->n};
}

#define cleanup_sbuf cleanup_with(sbuf_done)

#endif

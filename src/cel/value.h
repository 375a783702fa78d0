// SPDX-License-Identifier: Apache-2.0
//
// Run-time values: 16 bytes, tagged, passed by value. What does not fit is behind a pointer into an
// arena that outlives the value: the program's for constants, the device's for attributes, the
// evaluation's for everything computed. Errors are values too. Nothing here is freed one by one.
#ifndef CEL_VALUE_H
#define CEL_VALUE_H

#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "cel/front/type.h"
#include "codec/quantity.h"
#include "codec/semver.h"

enum cel_kind {
    CEL_ERROR,
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TYPE,
    CEL_DURATION,
    CEL_TIMESTAMP,
    CEL_OPTIONAL,
    CEL_QUANTITY,
    CEL_SEMVER,
    CEL_IP,
    CEL_CIDR,
    CEL_URL,
    CEL_FORMAT,
    CEL_KINDS,
};

enum {
    CEL_F_ASCII = 1,    // string: known to hold one-byte code points only
    CEL_F_CHAIN = 2,    // inside an attribute whose result will be wrapped into an optional
    CEL_F_COMPUTED = 4, // quantity made by add or sub: upstream holds a pointer, equality differs
};

struct cel_error;
struct cel_list;
struct cel_map;
struct cel_ip;
struct cel_cidr;
struct cel_url;
struct cel_format;

struct cel_val {
    uint8_t kind; // enum cel_kind
    uint8_t flags;
    int16_t spare; // timestamp: minutes east of UTC it was written with
    uint32_t n;    // bytes of a string; nanoseconds of a timestamp
    union {
        bool b;
        int64_t i; // int; duration in nanoseconds; timestamp in seconds since 1970
        uint64_t u;
        double d;
        const char *s;
        struct cel_list *list;
        struct cel_map *map;
        const struct cel_val *opt; // optional: NULL is none
        const struct cel_type *type;
        const struct cel_error *error;
        const struct quantity *quantity;
        const struct semver *semver;
        const struct cel_ip *ip;
        const struct cel_cidr *cidr;
        const struct cel_url *url;
        const struct cel_format *format;
    };
};
_Static_assert(sizeof(struct cel_val) == 16, "values travel in two registers");

struct cel_error {
    struct str text;
    uint32_t pos;     // code point offset in the source, CEL_NO_POS when unknown
    bool missing_key; // text starts with "no such key"
    bool fatal;       // not absorbed by && and ||: cost limit, interruption
};

#define CEL_NO_POS UINT32_MAX

// A list that grows while a comprehension runs is `open`: + appends to it in place, which is what
// upstream's mutable lists do, aliases and all.
struct cel_list {
    struct cel_val *items;
    uint32_t n;
    uint32_t cap;
    uint32_t weight; // once it is known (work.c); 0: it is not
    bool open;
};

struct cel_entry {
    struct cel_val key;
    struct cel_val value;
};

// Entries keep the order of insertion. `index` (power of two, entry number + 1) exists from
// CEL_MAP_INDEX_MIN entries on. `always` answers every lookup of an absent key: the outer maps of
// a device give an empty map for an unknown domain.
struct cel_map {
    struct cel_entry *entries;
    uint32_t n;
    uint32_t cap;
    uint32_t *index;
    uint32_t mask;
    uint32_t weight; // once it is known (work.c); 0: it is not
    bool open;
    bool always;
};

#define CEL_MAP_INDEX_MIN 9

struct cel_ip {
    uint8_t bytes[16];
    bool v6;
};

struct cel_cidr {
    struct cel_ip ip;
    uint8_t bits;
};

extern const struct cel_val cel_true, cel_false, cel_null, cel_none;
extern struct cel_map cel_empty_map;

static inline struct cel_val cel_bool(bool b)
{
    return (struct cel_val){.kind = CEL_BOOL, .b = b};
}

static inline struct cel_val cel_int(int64_t i)
{
    return (struct cel_val){.kind = CEL_INT, .i = i};
}

static inline struct cel_val cel_uint(uint64_t u)
{
    return (struct cel_val){.kind = CEL_UINT, .u = u};
}

static inline struct cel_val cel_double(double d)
{
    return (struct cel_val){.kind = CEL_DOUBLE, .d = d};
}

static inline struct cel_val cel_duration(int64_t nanos)
{
    return (struct cel_val){.kind = CEL_DURATION, .i = nanos};
}

static inline struct cel_val cel_timestamp(int64_t seconds, uint32_t nanos)
{
    return (struct cel_val){.kind = CEL_TIMESTAMP, .n = nanos, .i = seconds};
}

static inline int cel_offset(struct cel_val timestamp)
{
    return timestamp.spare;
}

static inline struct cel_val cel_type_value(const struct cel_type *t)
{
    return (struct cel_val){.kind = CEL_TYPE, .type = t};
}

static inline struct cel_val cel_list_value(struct cel_list *l)
{
    return (struct cel_val){.kind = CEL_LIST, .list = l};
}

static inline struct cel_val cel_map_value(struct cel_map *m)
{
    return (struct cel_val){.kind = CEL_MAP, .map = m};
}

static inline struct str cel_str(struct cel_val v)
{
    return (struct str){v.s, v.n};
}

static inline bool cel_is_true(struct cel_val v)
{
    return v.kind == CEL_BOOL && v.b;
}

static inline bool cel_is_error(struct cel_val v)
{
    return v.kind == CEL_ERROR;
}

// cel_string makes a string value of borrowed text; cel_bytes likewise.
struct cel_val cel_string(struct str s);
struct cel_val cel_bytes(struct str s);

// cel_optional boxes a copy of v in the arena.
struct cel_val cel_optional(struct arena *a, struct cel_val v);
struct cel_val cel_quantity(struct arena *a, const struct quantity *q);
struct cel_val cel_semver(struct arena *a, const struct semver *v);

// Lists and maps under construction. cel_list_new reserves room for cap items.
struct cel_list *cel_list_new(struct arena *a, size_t cap);
void cel_list_push(struct arena *a, struct cel_list *l, struct cel_val v);
struct cel_map *cel_map_new(struct arena *a, size_t cap);

// cel_map_set adds or replaces; true when the key was new.
bool cel_map_set(struct arena *a, struct cel_map *m, struct cel_val key, struct cel_val value);
void cel_map_remove(struct arena *a, struct cel_map *m, struct cel_val key);

// cel_map_get finds by key with CEL's cross-type numeric equality; NULL when absent.
const struct cel_val *cel_map_get(const struct cel_map *m, struct cel_val key);
const struct cel_val *cel_map_get_str(const struct cel_map *m, struct str key);

// Errors. cel_errorf formats into the arena.
struct cel_val cel_errorf(struct arena *a, const char *fmt, ...) ERR_PRINTF(2, 3);
struct cel_val cel_no_such_overload(void);
struct cel_val cel_error_const(const struct cel_error *e);

// cel_equal is CEL's ==: a bool, or an error value where upstream answers one.
struct cel_val cel_equal(struct cel_val a, struct cel_val b);

// cel_same is cel_equal as a plain bool; errors count as different.
bool cel_same(struct cel_val a, struct cel_val b);

// cel_compare orders a and b: -1, 0, 1 as an int value, or an error.
struct cel_val cel_compare(struct cel_val a, struct cel_val b);

// cel_size is the size() of a value and 1 for what has none: what the cost model measures.
uint64_t cel_size(struct cel_val v);
uint64_t cel_size_through_optional(struct cel_val v);

// cel_type_of_value is the run-time type; its name is what type() and error texts show.
const struct cel_type *cel_type_of_value(struct cel_val v);
struct str cel_type_name(struct cel_val v);

// cel_write adds a value the way error texts show it.
void cel_write(struct cel_val v, struct sbuf *out);

// cel_key_allowed reports whether a value may be the key of a map literal: bool, int, uint and
// string by the specification; upstream's maps take all but bytes and versions.
bool cel_key_allowed(struct cel_val v, bool strict);

// cel_same_bytes is memcmp for texts that are mostly short and often the very same ones.
static inline bool cel_same_bytes(const char *a, const char *b, size_t n)
{
    if (a == b)
        return true;
    uint64_t x, y, u, v;
    if (n >= 8) {
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        memcpy(&u, a + n - 8, 8);
        memcpy(&v, b + n - 8, 8);
        if (((x ^ y) | (u ^ v)) != 0)
            return false;
        return n <= 16 || memcmp(a + 8, b + 8, n - 16) == 0;
    }
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

// cel_text_hash hashes a string's bytes, for sets of constants.
static inline uint32_t cel_text_hash(struct str s)
{
    uint64_t a = 0;
    uint64_t b = 0;
    if (s.n >= 8) {
        memcpy(&a, s.p, 8);
        memcpy(&b, s.p + s.n - 8, 8);
    } else {
        for (size_t i = 0; i < s.n; i++)
            a = a << 8 | (unsigned char)s.p[i];
    }
    a = (a ^ (b << 23 | b >> 41) ^ s.n) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(a >> 32);
}

// cel_copy copies v and all it points to into another arena.
struct cel_val cel_copy(struct cel_val v, struct arena *a);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The query of a URL: NAME=VALUE pairs between ampersands, percent-encoded.
#ifndef NET_QUERY_H
#define NET_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct query_pair {
    struct str name;
    struct str value;
};

struct query VEC(struct query_pair);

// More pairs than this are not looked at.
#define QUERY_PAIRS_MAX 256

// query_parse takes a query apart and decodes it into arena. Pairs that cannot be decoded are
// dropped, as Go does.
void query_parse(struct str text, struct arena *arena, struct query *ret);

// query_get finds the first value of a name; false when there is none.
bool query_get(const struct query *q, struct str name, struct str *ret);

// query_str is query_get with the empty string for nothing.
struct str query_str(const struct query *q, struct str name);

// query_escape adds a text as it stands in a query.
void query_escape(struct str text, struct sbuf *out);

// query_bool: absent, 0 and false are false, all else is true.
bool query_bool(const struct query *q, struct str name);

// Of a flag that may be absent.
enum query_flag { QUERY_ABSENT, QUERY_FALSE, QUERY_TRUE };
enum query_flag query_flag(const struct query *q, struct str name);

// query_i64 reads a number. Returns 1, 0 when it is absent, or -ERR_BAD_REQUEST.
int query_i64(const struct query *q, struct str name, int64_t *ret, struct err *err) MUST_USE;

#endif

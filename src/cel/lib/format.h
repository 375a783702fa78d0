// SPDX-License-Identifier: Apache-2.0
//
// Format strings, shared by the function that runs them and the check of literal ones.
#ifndef CEL_LIB_FORMAT_H
#define CEL_LIB_FORMAT_H

#include "cel/value.h"

struct cel_clause {
    char verb;     // 0: the format ended
    int precision; // -1: none given
};

// cel_format_next reads up to and including the next clause; text before it goes to literal.
// Returns NULL or what is wrong.
const char *cel_format_next(struct str format, size_t *at, struct sbuf *literal,
                            struct cel_clause *ret, struct arena *a);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Patterns that are no more than ^, .*, plain text, .*, $: most patterns of selectors. They need no
// regular expression engine.
#ifndef CEL_LIB_PATTERN_H
#define CEL_LIB_PATTERN_H

#include "base/str.h"

struct cel_pattern {
    bool simple;                 // false: the rest means nothing
    bool from_start, any_before; // ^ and .* in front of the text
    bool to_end, any_behind;     // .* and $ behind it
    struct str text;
};

// cel_pattern_of looks at a pattern; text is a slice of it.
struct cel_pattern cel_pattern_of(struct str pattern);

// cel_pattern_match searches as RE2 would; p must be simple.
bool cel_pattern_match(const struct cel_pattern *p, struct str s);

#endif

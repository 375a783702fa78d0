// SPDX-License-Identifier: Apache-2.0
//
// A template that was read: parts, which are text or steps from value to value.
#ifndef VIEW_JSONPATH_INT_H
#define VIEW_JSONPATH_INT_H

#include <stdbool.h>
#include <stdint.h>

#include "view/jsonpath.h"

enum step_type {
    STEP_FIELD,     // .name
    STEP_SLICE,     // [from:to:by]
    STEP_FILTER,    // [?(left op right)]
    STEP_WILDCARD,  // .*
    STEP_RECURSIVE, // ..
    STEP_UNION,     // [a,b]
    STEP_VALUE,     // a literal, whatever is before it
};

enum filter_op {
    FILTER_EXISTS,
    FILTER_EQ,
    FILTER_NE,
    FILTER_LT,
    FILTER_LE,
    FILTER_GT,
    FILTER_GE,
};

struct slice_bound {
    bool known;
    int64_t value;
};

struct step_list VEC(struct step);
struct step_lists VEC(struct step_list);

struct step {
    enum step_type type;
    struct str name;             // FIELD
    struct slice_bound bound[3]; // SLICE
    bool one;                    // SLICE: [3] was written, not [3:4]
    enum filter_op op;
    struct step_list left, right; // FILTER
    struct step_lists lists;      // UNION
    yyjson_val value;             // VALUE
};

enum part_type {
    PART_STEPS,
    PART_RANGE, // steps give what the parts up to its end are run on
    PART_END,
};

struct part {
    enum part_type type;
    struct step_list steps;
    size_t end; // RANGE: index of its end, or the number of parts if it has none
};

struct jsonpath {
    struct VEC(struct part) parts;
};

#endif

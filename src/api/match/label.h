// SPDX-License-Identifier: Apache-2.0
//
// Requirements on labels: In, NotIn, Exists, DoesNotExist, Gt, Lt and the equalities of queries.
// The one place of these rules. Selectors of queries (label_selector.h), LabelSelectors of objects
// and terms of NodeSelectors (node.h) are lists of such requirements. Nothing here allocates.
#ifndef API_MATCH_LABEL_H
#define API_MATCH_LABEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h" // api_map_find
#include "api/match/selection.h"
#include "api/types.h"
#include "base/str.h"

enum label_operator {
    LABEL_EQUALS,
    LABEL_DOUBLE_EQUALS,
    LABEL_NOT_EQUALS,
    LABEL_IN,
    LABEL_NOT_IN,
    LABEL_EXISTS,
    LABEL_DOES_NOT_EXIST,
    LABEL_GREATER,
    LABEL_LESS,
};

struct label_requirement {
    struct str key;
    enum label_operator relation;
    struct str *values; // sorted, without repeats when they were read from text
    size_t values_len;
    int64_t number; // LABEL_GREATER, LABEL_LESS
};

// label_operator_read understands an operator as it stands in objects. numbers: Gt and Lt are
// operators too, as in NodeSelectors. False: unknown.
bool label_operator_read(struct str text, bool numbers, enum label_operator *ret);

// label_number_read reads as Go's ParseInt: a sign of either kind may lead.
bool label_number_read(struct str text, int64_t *ret);

// label_requirement_read makes a requirement of the members of an object's one; it borrows them.
// False: Kubernetes cannot read it, because the operator is unknown or does not take so many
// values, or Gt and Lt have no number. The syntax of keys and values is what validation checks; it
// is not looked at here.
bool label_requirement_read(struct str key, struct str operator,
                            const struct api_str_array * values, bool numbers,
                            struct label_requirement *ret);

// label_requirement_holds: value is that of the requirement's key, NULL when the object has no such
// label.
bool label_requirement_holds(const struct label_requirement *r, const struct str *value);

// labels_match asks a LabelSelector as it stands in an object: NULL matches nothing, an empty one
// everything. SELECTION_INVALID comes before SELECTION_NO: a selector with one requirement that
// cannot be read is unreadable.
enum selection labels_match(const struct api_label_selector *s, const struct api_str_map *labels);

// labels_include: every wanted label is there with the wanted value.
bool labels_include(const struct api_str_map *labels, const struct api_str_map *wanted);

#endif

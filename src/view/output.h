// SPDX-License-Identifier: Apache-2.0
//
// -o: an object, or a list of them, in the requested format.
#ifndef VIEW_OUTPUT_H
#define VIEW_OUTPUT_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "view/jsonpath.h"

enum view_format {
    VIEW_TABLE,
    VIEW_WIDE, // a table with more columns
    VIEW_JSON,
    VIEW_YAML,
    VIEW_NAME,
    VIEW_JSONPATH,
};

struct view_output {
    enum view_format format;
    const struct jsonpath *path;
};

// The formats of verbs that print text of their own, as bits.
#define VIEW_FORMATS_ALL  0x3FU
#define VIEW_FORMATS_DATA (1U << VIEW_JSON | 1U << VIEW_YAML | 1U << VIEW_JSONPATH)

// view_output_parse reads what stands behind -o; NULL: a table. allowed lists the formats, as 1U <<
// format. Returns 0 or -ERR_INVALID with what there is.
int view_output_parse(const char *text, unsigned allowed, struct arena *arena,
                      struct view_output *ret, struct err *err) MUST_USE;

// view_is_table returns whether a table was requested, which is not for view_output_write.
static inline bool view_is_table(const struct view_output *o)
{
    return o->format == VIEW_TABLE || o->format == VIEW_WIDE;
}

// view_output_write adds any value in a format that is not a table. VIEW_NAME takes objects and
// lists of them. Returns 0 or as jsonpath_write.
int view_output_write(const struct view_output *o, const yyjson_val *value, struct sbuf *out,
                      struct err *err) MUST_USE;

// view_add_json adds a value with its keys in order, as kubectl does; indent spaces a level, 0: on
// one line.
void view_add_json(struct sbuf *out, const yyjson_val *v, unsigned indent);

// view_add_name adds an object's name as -o name has it: pod/a, resourceclaim.resource.k8s.io/b.
void view_add_name(struct sbuf *out, const yyjson_val *object);

#endif

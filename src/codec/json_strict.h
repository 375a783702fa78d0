// SPDX-License-Identifier: Apache-2.0
//
// Strict decoding, as Kubernetes means it: decoding goes on, and unknown and duplicate fields are
// collected with their paths, to become a warning or an error at the end. The
// texts are those of sigs.k8s.io/json: unknown field "spec.foo", duplicate field "spec.bar[0].baz".
// Map keys are steps like any other: metadata.labels.a. A report made twice counts once.
//
// A typed decoder takes `struct json_strict *` which is NULL for lenient decoding; all functions
// here accept NULL and do nothing.
#ifndef CODEC_JSON_STRICT_H
#define CODEC_JSON_STRICT_H

#include <stddef.h>

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "codec/json.h"

// As sigs.k8s.io/json: more are dropped. Longer paths are cut, so that reports stay small.
#define JSON_STRICT_REPORTS_MAX 100
#define JSON_STRICT_PATH_MAX    1024

struct json_strict_reports VEC(struct str);

// Zeroed, it is ready.
struct json_strict {
    struct sbuf path; // of the value being decoded
    struct json_strict_reports reports;
    struct arena arena; // texts of the reports
    size_t dropped;     // reports beyond the maximum
};

// json_strict_field and json_strict_index step into a field or an item and return a mark;
// json_strict_back steps out again to it.
size_t json_strict_field_slow(struct json_strict *s, struct str name);
size_t json_strict_index_slow(struct json_strict *s, size_t index);

static inline size_t json_strict_field(struct json_strict *s, struct str name)
{
    return s ? json_strict_field_slow(s, name) : 0;
}

static inline size_t json_strict_index(struct json_strict *s, size_t index)
{
    return s ? json_strict_index_slow(s, index) : 0;
}

static inline void json_strict_back(struct json_strict *s, size_t mark)
{
    if (s)
        sbuf_truncate(&s->path, mark);
}

// json_strict_unknown and json_strict_duplicate report a field of the value being decoded.
void json_strict_unknown(struct json_strict *s, struct str name);
void json_strict_duplicate(struct json_strict *s, struct str name);

// json_strict_walk reports every duplicate key of v and below, for values that no typed decoder
// goes through.
void json_strict_walk(struct json_strict *s, const yyjson_val *v);

// json_strict_text adds the reports, separated by ", ".
void json_strict_text(const struct json_strict *s, struct sbuf *out);

void json_strict_done(struct json_strict *s);
#define cleanup_json_strict cleanup_with(json_strict_done)

#endif

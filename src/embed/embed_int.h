// SPDX-License-Identifier: Apache-2.0
//
// What the parts of libdray share: objects out of a text, and gates out of options.
#ifndef EMBED_EMBED_INT_H
#define EMBED_EMBED_INT_H

#include "api/features.h"
#include "base/err_public.h"
#include "codec/json.h"

// embed_text_foreach calls fn for each object of a text: documents of YAML or JSON, items of Lists.
// Returns 0, what fn returned first below zero, or -ERR_BAD_REQUEST or -ERR_TOO_LARGE.
typedef int (*embed_object_fn)(void *arg, const struct json_doc *doc, const yyjson_val *object,
                               struct err *err);
int embed_text_foreach(struct str text, embed_object_fn fn, void *arg, struct err *err) MUST_USE;

// embed_text_field is the text of a member; empty when it is missing or no string.
struct str embed_text_field(const yyjson_val *v, struct str key);

// embed_text_features reads release and gates of options; either may be NULL.
int embed_text_features(const char *release, const char *gates, struct features *ret,
                        struct err *err) MUST_USE;

#endif

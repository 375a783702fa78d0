// SPDX-License-Identifier: Apache-2.0
//
// Label and field selectors of a request against stored objects, on what is kept beside their JSON.
#ifndef SERVER_SELECT_H
#define SERVER_SELECT_H

#include <stdbool.h>

#include "api/selector.h"
#include "base/arena.h"
#include "base/err.h"
#include "store/object.h"

struct select {
    struct label_selector labels;
    struct field_selector fields;
    struct str name; // all objects have this name if it is not empty: one key is enough
};

// select_parse reads both selectors for a kind in the request's version. Returns 0 or
// -ERR_BAD_REQUEST.
int select_parse(struct str labels, struct str fields, const struct api_kind *kind,
                 const struct api_kind *stored, struct arena *arena, struct select *ret,
                 struct err *err) MUST_USE;

bool select_matches(const struct select *s, const struct object *o);

static inline bool select_everything(const struct select *s)
{
    return label_selector_everything(&s->labels) && field_selector_everything(&s->fields);
}

#endif

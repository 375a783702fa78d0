// SPDX-License-Identifier: Apache-2.0
//
// Label and field selectors of lists and watches against stored objects, on what is kept beside
// their JSON. The server and the local transport ask them; what a selector means is in api/match.
#ifndef STORE_SELECT_H
#define STORE_SELECT_H

#include <stdbool.h>

#include "api/match/field_selector.h"
#include "api/match/label_selector.h"
#include "base/arena.h"
#include "base/err.h"
#include "store/object.h"
#include "store/store.h"

struct store_select {
    struct label_selector labels;
    struct field_selector fields;
    struct str name; // all objects have this name if it is not empty: one key is enough
};

// store_select_parse reads both selectors for a kind in the request's version. Returns 0 or
// -ERR_BAD_REQUEST.
int store_select_parse(struct str labels, struct str fields, const struct api_kind *kind,
                       const struct api_kind *stored, struct arena *arena, struct store_select *ret,
                       struct err *err) MUST_USE;

bool store_select_matches(const struct store_select *s, const struct object *o);

static inline bool store_select_everything(const struct store_select *s)
{
    return label_selector_everything(&s->labels) && field_selector_everything(&s->fields);
}

// store_select_event decides what an event of the store is to a watcher: which type, of which
// object. An object that ceases to match is DELETED, in its last state that matched. False: no
// event.
bool store_select_event(const struct store_select *s, const struct store_event *e,
                        enum store_event_type *ret_type, const struct object **ret);

#endif

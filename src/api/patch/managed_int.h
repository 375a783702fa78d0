// SPDX-License-Identifier: Apache-2.0
//
// What the files of managed fields share. Private to src/api.
#ifndef API_PATCH_MANAGED_INT_H
#define API_PATCH_MANAGED_INT_H

#include "api/field_walk.h"
#include "api/managed.h"
#include "base/vec.h"

// One entry. Of appliers the version does not belong to who they are.
struct owner {
    struct str manager;
    struct str api_version;
    struct str subresource;
    bool applies;
    struct api_time time;
    struct field_set set;
    bool gone; // dropped: nothing left, or its version is not known any more
};

struct owners VEC(struct owner);

// A call. Documents made on the way live until its end: sets point into them.
struct work {
    const struct managed_request *q;
    struct arena *arena;
    struct err *err;
    struct owners owners;
    struct VEC(struct json_doc *) docs;
};

void managed_work_done(struct work *w);

// managed_decode reads the entries; managed_encode writes them, in order.
int managed_decode(struct work *w, const struct api_managed_fields_entry_array *entries) MUST_USE;
void managed_encode(struct work *w, struct api_managed_fields_entry_array *ret);

static inline struct field_type managed_type(const struct api_kind *kind)
{
    return (struct field_type){.type = kind->type};
}

// managed_parse keeps a document until the end of the call; text must live in the arena.
int managed_parse(struct work *w, struct str text, const yyjson_val **ret) MUST_USE;

struct owner *managed_find(struct owners *l, const struct owner *like);

// managed_strip takes out what has no manager, managed_unignored what the request cannot change.
struct field_set managed_strip(struct work *w, const struct field_set *s);
struct field_set managed_unignored(const struct work *w, const struct field_set *s);

// managed_kind_in is the kind in another version, NULL when that is not known. managed_convert
// makes the JSON of an object in it.
const struct api_kind *managed_kind_in(const struct work *w, struct str api_version);
int managed_convert(struct work *w, const struct api_kind *from, const yyjson_val *v,
                    const struct api_kind *to, const yyjson_val **ret) MUST_USE;

struct conflict_list {
    struct work *w;
    struct str manager;              // whose are being noted
    size_t bytes;                    // of all paths found
    const struct field_set *allowed; // those that are none; may be NULL
    struct VEC(struct managed_conflict) found;
};

// managed_take_over takes from everyone but self (may be NULL) what a write changes, or lists it.
// *ret_changed: the modified and added fields, as the request's version shows them. Returns 0 or
// -ERR_CONFLICT.
int managed_take_over(struct work *w, const struct owner *self, const yyjson_val *before,
                      const yyjson_val *after, bool force, struct conflict_list *conflicts,
                      struct field_set *ret_changed) MUST_USE;

// managed_step is a write by an updater.
int managed_step(struct work *w, const yyjson_val *before, const yyjson_val *after,
                 struct str manager) MUST_USE;

// managed_last_allowed is what kubectl applied on its own side, as far as the object still has it:
// of that kubectl may take over everything.
struct field_set managed_last_allowed(struct work *w, const yyjson_val *live);

#endif

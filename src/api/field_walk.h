// SPDX-License-Identifier: Apache-2.0
//
// JSON values under the rules of ownership: which paths a value has, what differs between two
// values, a value laid over another, paths taken out. The types' tables say how far down paths go.
// Values come from documents without duplicate keys, which must outlive the sets made of them.
// Behaviour is that of sigs.k8s.io/structured-merge-diff on the schemas kube-apiserver makes from
// OpenAPI.
#ifndef API_FIELD_WALK_H
#define API_FIELD_WALK_H

#include "api/patch/field_set.h"
#include "api/table.h"

// What a value is. Of a kind: only type is set.
struct field_type {
    const struct api_type *type;   // of a struct, when there is no field
    const struct api_field *field; // whose value it is
    bool item;                     // an item of the field's list or map
    bool deduced;                  // somewhere below a value of any shape
};

// How deep ownership goes.
enum field_shape {
    SHAPE_SCALAR,
    SHAPE_ATOMIC, // a list, map or struct that is owned as a whole
    SHAPE_STRUCT,
    SHAPE_MAP,
    SHAPE_LIST_SET,
    SHAPE_LIST_MAP,
    SHAPE_DEDUCED, // as the value has it
};

enum field_shape field_shape_of(const struct field_type *t);

// field_type_below is the type of a member of a struct or map, or of an item of a list (name
// empty). False: a struct has no such field.
bool field_type_below(const struct field_type *t, struct str name, struct field_type *ret);

// field_item_elem makes the element of an item of a list that is a set or a map. Returns 0 or
// -ERR_INVALID.
int field_item_elem(const struct field_type *t, const yyjson_val *item, struct arena *a,
                    struct field_elem *ret, struct err *err) MUST_USE;

// field_check judges a configuration: unknown fields, wrong types, items that are there twice or
// have no keys, at every depth. Returns 0 or -ERR_INVALID with all that is wrong, in upstream's
// words.
int field_check(const struct field_type *t, const yyjson_val *v, struct arena *a,
                struct err *err) MUST_USE;

// field_set_of makes the set of all paths a value has.
struct field_set field_set_of(const struct field_type *t, const yyjson_val *v, struct arena *a);

struct field_diff {
    struct field_set removed, modified, added;
};

// field_compare finds what becomes of before's paths when after takes its place.
int field_compare(const struct field_type *t, const yyjson_val *before, const yyjson_val *after,
                  struct arena *a, struct field_diff *ret, struct err *err) MUST_USE;

// field_merge lays config over live and adds the result's text. Items that only live has stay; the
// order of lists is config's, with live's own items where they were.
int field_merge(const struct field_type *t, const yyjson_val *live, const yyjson_val *config,
                struct arena *a, struct sbuf *out, struct err *err) MUST_USE;

// field_remove adds the text of a value without the members of a set.
void field_remove(const struct field_type *t, const yyjson_val *v, const struct field_set *items,
                  struct arena *a, struct sbuf *out);

// field_set_name_members makes members of all fields of structs that have children in the set.
struct field_set field_set_name_members(const struct field_type *t, const struct field_set *s,
                                        struct arena *a);

// --- For the walks -------------------------------------------------------------------------------

// The members of an object by key; empty for everything else.
struct field_member {
    struct str key;
    const yyjson_val *value;
};

struct field_members {
    struct field_member *p;
    size_t n;
};

struct field_members field_members_of(const yyjson_val *v, struct arena *a);

// The items of a list by element, those of the same element in order; empty for everything else.
struct field_item {
    struct field_elem elem;
    const yyjson_val *value;
    size_t at;
};

struct field_items {
    struct field_item *p;
    size_t n;
};

int field_items_of(const struct field_type *t, const yyjson_val *v, struct arena *a,
                   struct field_items *ret, struct err *err) MUST_USE;

// field_some_elem is field_item_elem for lists that were judged before: an item that has lost its
// keys on the way gets an element no other has.
struct field_elem field_some_elem(const struct field_type *t, const yyjson_val *item,
                                  struct arena *a);

// field_items_find finds those of an element: how many, and the first.
size_t field_items_find(const struct field_items *l, const struct field_elem *e, size_t *ret_first);

#endif

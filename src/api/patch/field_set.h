// SPDX-License-Identifier: Apache-2.0
//
// Sets of field paths, as managedFields hold them. A path is a list of elements: the name of a
// field or a map's key, the keys of a list item, the value of a set's item, an index. A set is a
// tree of such elements, sorted; each of its nodes may be a member itself and may have children.
// Semantics, order and text forms are those of sigs.k8s.io/structured-merge-diff. Everything lives
// in one arena and is never changed once it was given to somebody else: sets share their parts.
#ifndef API_PATCH_FIELD_SET_H
#define API_PATCH_FIELD_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

enum field_elem_kind { FIELD_NAME, FIELD_KEY, FIELD_VALUE, FIELD_INDEX };

// One key of a list item: a name and a JSON value of a document that outlives the set.
struct field_key {
    struct str name;
    const yyjson_val *value;
};

// In the order in which they sort. The kind says which member is set.
struct field_elem {
    enum field_elem_kind kind;
    union {
        struct str name; // FIELD_NAME
        struct {
            const struct field_key *keys; // FIELD_KEY, by name
            size_t keys_len;
        };
        const yyjson_val *value; // FIELD_VALUE
        int64_t index;           // FIELD_INDEX
    };
};

int field_elem_cmp(const struct field_elem *a, const struct field_elem *b);

struct field_node;

// Zeroed: the empty set.
struct field_set {
    struct field_node *p; // by element
    size_t n;
    size_t cap;
};

struct field_node {
    struct field_elem elem;
    bool member;
    struct field_set *children; // NULL: none
};

// field_set_empty: no member anywhere.
bool field_set_empty(const struct field_set *s);

// field_set_find finds the node of an element, NULL when there is none. field_set_at finds it or
// makes one, which is neither member nor has children yet.
const struct field_node *field_set_find(const struct field_set *s, const struct field_elem *e);
struct field_node *field_set_at(struct field_set *s, const struct field_elem *e, struct arena *a);

// field_set_push adds a node behind all others.
void field_set_push(struct field_set *s, const struct field_node *n, struct arena *a);

// The algebra. difference takes members away one by one; recursive_difference with all that is
// below them.
struct field_set field_set_union(const struct field_set *x, const struct field_set *y,
                                 struct arena *a);
struct field_set field_set_difference(const struct field_set *x, const struct field_set *y,
                                      struct arena *a);
struct field_set field_set_recursive_difference(const struct field_set *x,
                                                const struct field_set *y, struct arena *a);
struct field_set field_set_intersection(const struct field_set *x, const struct field_set *y,
                                        struct arena *a);
bool field_set_equal(const struct field_set *x, const struct field_set *y);

// A path as a chain on the stack, innermost first.
struct field_path {
    const struct field_path *parent;
    const struct field_elem *elem;
};

// field_set_has_path reports whether a path is a member. field_set_add puts a whole path into a
// set. field_path_write adds it as people read it: .spec.ports[port=80,protocol="TCP"].name.
bool field_set_has_path(const struct field_set *s, const struct field_path *path);
void field_set_add(struct field_set *s, const struct field_path *path, struct arena *a);
void field_path_write(const struct field_path *path, struct sbuf *out);

// field_set_each calls fn for every member's path, those of a level before those below, as
// upstream.
void field_set_each(const struct field_set *s, void (*fn)(void *arg, const struct field_path *path),
                    void *arg);

// field_set_read reads FieldsV1; the document must outlive the set. Returns 0 or -ERR_BAD_REQUEST.
int field_set_read(const yyjson_val *v, struct arena *a, struct field_set *ret,
                   struct err *err) MUST_USE;

// field_set_write adds it as FieldsV1.
void field_set_write(const struct field_set *s, struct sbuf *out);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// JSON that can be changed: what patches are applied to. A node starts out as a value of a parsed
// document and is taken apart only where a patch reaches into it; the rest is written out as the
// text it was read from, byte for byte. Everything lives in one arena. Private to src/api.
#ifndef API_TYPE_TREE_H
#define API_TYPE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"
#include "codec/json_writer.h"

enum tree_shape {
    TREE_SOURCE, // as it stands in a document
    TREE_LIST,
    TREE_OBJECT,
};

struct tree_member {
    struct str key;
    struct tree *value; // NULL: removed
};

struct tree_list {
    struct tree **p;
    size_t n;
    size_t cap;
};

struct tree {
    enum tree_shape shape;
    const struct json_doc *doc; // TREE_SOURCE
    const yyjson_val *key;      // the key before it, NULL for items and roots
    const yyjson_val *val;
    struct tree_list list;       // TREE_LIST
    struct tree_member *members; // TREE_OBJECT, removed ones included
    size_t members_len;
    size_t members_cap;
    size_t live;
    uint32_t *slots; // open addressing, position + 1; NULL while there are few members
    size_t slots_len;
};

// tree_of makes a node of a value of doc; both must outlive it. key may be NULL.
struct tree *tree_of(struct arena *arena, const struct json_doc *doc, const yyjson_val *key,
                     const yyjson_val *val);

struct tree *tree_null(struct arena *arena);
struct tree *tree_new_object(struct arena *arena);
struct tree *tree_new_list(struct arena *arena, struct tree_list items);

bool tree_is_object(const struct tree *t);
bool tree_is_list(const struct tree *t);
bool tree_is_null(const struct tree *t);

// tree_text is the text of a string; p is NULL when it is none.
struct str tree_text(const struct tree *t);

// tree_open takes a container apart, one level. Of repeated keys the last value stays.
void tree_open(struct tree *t, struct arena *arena);

// tree_get finds a member of an object, which is opened; NULL when there is none.
struct tree *tree_get(struct tree *object, struct str key, struct arena *arena);

// tree_put sets a member of an object. key is borrowed.
void tree_put(struct tree *object, struct str key, struct tree *value, struct arena *arena);

// tree_remove reports whether there was such a member.
bool tree_remove(struct tree *object, struct str key, struct arena *arena);

// NOLINTBEGIN(bugprone-macro-parentheses): it declares its name.
// tree_foreach walks the members of an opened object in order, also while some are removed.
#define tree_foreach(object, m)                                       \
    for (size_t m##_at = 0; m##_at < (object)->members_len; m##_at++) \
        for (struct tree_member *m = &(object)->members[m##_at]; m && m->value; m = NULL)
// NOLINTEND(bugprone-macro-parentheses)

// tree_list_add appends; a full array is copied to a larger one, as Go does, and a caller that
// still holds the old one does not see the item.
void tree_list_add(struct tree_list *list, struct tree *item, struct arena *arena);

// tree_copy makes a deep copy. Returns NULL when it nests deeper than DRAY_DOC_DEPTH_MAX.
struct tree *tree_copy(const struct tree *t, struct arena *arena);

// tree_equal compares deeply: numbers by value and kind (1 is not 1.0), objects without order.
// Containers are opened.
bool tree_equal(struct tree *a, struct tree *b, struct arena *arena);

// tree_write writes it. Returns 0, or -ERR_INVALID when it nests deeper than DRAY_DOC_DEPTH_MAX.
int tree_write(const struct tree *t, struct json_writer *w, struct err *err) MUST_USE;

// tree_write_go adds it as Go's %v shows decoded JSON: map[a:1 b:[x y]]. At most DRAY_ERR_MSG_MAX
// bytes or so are added.
void tree_write_go(struct tree *t, struct sbuf *out, struct arena *arena);

#endif

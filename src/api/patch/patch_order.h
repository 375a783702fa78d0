// SPDX-License-Identifier: Apache-2.0
//
// The order of lists that a strategic merge patch has merged: the items that the patch (or its
// order list) names come in the patch's order, the others stay where they were as well as can be.
// Also what values are to Go, which decides what equals what. Private to src/api.
#ifndef API_PATCH_PATCH_ORDER_H
#define API_PATCH_PATCH_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "api/patch/patch_int.h"
#include "api/type/tree.h"
#include "base/str.h"

enum order_class {
    ORDER_NIL,
    ORDER_BOOL,
    ORDER_INT,
    ORDER_FLOAT,
    ORDER_STRING,
    ORDER_LIST,
    ORDER_OBJECT,
};

// patch_order_go_class is what decoding JSON makes of a value in Go; patch_order_go_type its name
// there.
enum order_class patch_order_go_class(const struct tree *t);
const char *patch_order_go_type(const struct tree *t);

// patch_order_same compares two values as Go's == does; containers equal nothing.
bool patch_order_same(const struct tree *a, const struct tree *b);

// patch_order_same_key compares two items by their merge key, or themselves when it is empty.
// Returns 0 or
// -ERR_INTERNAL when an item has no such key.
int patch_order_same_key(struct patch_work *w, struct tree *a, struct tree *b, struct str merge_key,
                         bool *ret) MUST_USE;

// patch_order_look_up finds the first item whose merge key (or which itself) is a string, by index.
// *ret_odd gets the first item before it that is no object, or SIZE_MAX. patch_order_forget drops
// the indexes: lists changed otherwise than at their end, or the work is done.
int patch_order_look_up(struct patch_work *w, const struct tree_list *list, struct str key,
                        struct str merge_key, size_t *ret, size_t *ret_odd) MUST_USE;
void patch_order_forget(struct patch_work *w);

// patch_order_find_item finds the first item that equals one by its merge key (or itself); list->n
// when there is none.
int patch_order_find_item(struct patch_work *w, const struct tree_list *list, struct tree *item,
                          struct str merge_key, size_t *ret) MUST_USE;

// What is to be put in order.
struct order_request {
    struct tree_list merged;
    struct tree_list wanted; // the patch's items, or its order list
    struct tree_list before; // the list as it was
    struct str merge_key;    // empty for scalars
    bool objects;            // whether the items are objects
};

// patch_order_part splits the merged items: ret[0] those that are wanted, ret[1] the others.
int patch_order_part(struct patch_work *w, const struct order_request *q,
                     struct tree_list ret[2]) MUST_USE;

// patch_order_join sorts each part and weaves them together.
int patch_order_join(struct patch_work *w, const struct order_request *q, struct tree_list parts[2],
                     struct tree_list *ret) MUST_USE;

// patch_order_settle does both.
int patch_order_settle(struct patch_work *w, const struct order_request *q,
                       struct tree_list *ret) MUST_USE;

// patch_order_fail_map reports a value that should be an object, patch_order_fail_merge_key an item
// without the merge key, in upstream's words.
int patch_order_fail_map(struct patch_work *w, const struct tree *have);
int patch_order_fail_merge_key(struct patch_work *w, struct tree *item, struct str key);

#endif

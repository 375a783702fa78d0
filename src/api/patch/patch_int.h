// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of patch share. Private to src/api.
#ifndef API_PATCH_PATCH_INT_H
#define API_PATCH_PATCH_INT_H

#include "api/type/tree.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"

// How many list items one patch may look at or move, all in all: some 50 ms. Lists are searched by
// index where keys are strings, else item by item.
#define PATCH_WORK_MAX ((size_t)3 * 1000 * 1000)

// The first places of strings in a list: merge keys of its items or, without merge key, the items.
struct patch_index {
    struct tree *const *p; // of the list; NULL: none
    struct str merge_key;
    size_t n;   // items that are in it
    size_t odd; // the first of them that is no object; SIZE_MAX: none
    struct patch_places MAP(size_t) places;
};

// Lists that are searched in turn, also those around them, have an index each. The owner calls
// patch_order_forget in the end.
struct patch_work {
    struct arena *arena;
    struct err *err;
    size_t done;
    struct patch_index indexes[4];
    unsigned oldest; // of indexes
};

// patch_work_add counts. Returns 0, or -ERR_TOO_LARGE when it is too much.
static inline int patch_work_add(struct patch_work *w, size_t items)
{
    w->done += items;
    if (w->done <= PATCH_WORK_MAX)
        return 0;
    return err_set(
        w->err, ERR_TOO_LARGE,
        "Request entity too large: the patch takes too long to apply to lists this long");
}

#endif

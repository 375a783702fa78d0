// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of patch share. Private to src/api.
#ifndef API_PATCH_PATCH_INT_H
#define API_PATCH_PATCH_INT_H

#include "api/type/tree.h"
#include "base/arena.h"
#include "base/err.h"

// How many list items one patch may look at or move, all in all. Lists are searched item by item;
// no object comes near this, and it takes a good part of a second.
#define PATCH_WORK_MAX ((size_t)100 * 1000 * 1000)

struct patch_work {
    struct arena *arena;
    struct err *err;
    size_t done;
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

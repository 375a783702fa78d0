// SPDX-License-Identifier: Apache-2.0
//
// Which name was meant: by the number of letters that have to be added, dropped, changed or swapped.
#ifndef VIEW_NEAREST_H
#define VIEW_NEAREST_H

#include <stddef.h>

#include "base/str.h"

// view_distance counts the changes that make b of a; SIZE_MAX when either is longer than 64 bytes.
size_t view_distance(struct str a, struct str b);

// Keeps the best of the names it is shown. Zeroed but for word, it is ready.
struct view_nearest {
    struct str word;
    struct str best; // empty: none is near
    size_t distance; // of best
};

// view_nearest_try shows it a name. A name is near when a third of its letters, at least one, is wrong at most;
// or when it starts with the word.
void view_nearest_try(struct view_nearest *n, struct str name);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Which name was meant: the one that takes the fewest letters added, dropped, changed or swapped.
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include <stddef.h>

#include "base/str.h"

// Keeps the best of the names it is shown. Zeroed but for word, it is ready.
struct nearest {
    struct str word;
    struct str best; // empty: none is near; borrowed from the caller
    size_t distance; // of best
};

// nearest_try shows it a name. A name is near when at most a third of its letters, but always one,
// is wrong, or when it begins with the word. The word itself counts, with distance 0.
void nearest_try(struct nearest *n, struct str name);

// nearest_distance counts the letters that differ; SIZE_MAX when a name is too long to be compared
// (more than 128 bytes).
size_t nearest_distance(struct str a, struct str b);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The picture of dray top: nodes with a mark for each device, or devices with their holders; pods
// that wait, and why. As long as the terminal has rows; only what is seen is made, so that a
// picture costs the same for ten devices and for ten thousand.
#ifndef VIEW_TOP_H
#define VIEW_TOP_H

#include "plan/inventory.h"
#include "view/term.h"

enum top_sort {
    TOP_BY_NAME,
    TOP_BY_FREE, // most free devices first
    TOP_BY_HELD,
    TOP_SORTS,
};

struct top_look {
    struct view_term term; // rows 0: everything
    enum top_sort sort;
    bool devices;  // a line a device
    size_t scroll; // lines left out at the beginning
    struct moment now;
    bool keys; // the line of key bindings
};

// view_top adds the picture, and returns how many lines the list has.
size_t view_top(struct sbuf *out, const struct inventory *inv, const struct top_look *look);

#endif

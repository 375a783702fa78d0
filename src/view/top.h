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
    bool devices;         // a line a device
    bool pods;            // the cursor is among the pods that wait
    size_t cursor;        // line with the cursor, with keys
    size_t scroll;        // lines left out at the beginning of the list
    size_t pods_scroll;   // … of the pods that wait
    struct str namespace; // only what claims and pods of this one have and want; empty: all
    struct str filter;    // only lines with this text; empty: all
    bool typing;          // the filter is being typed
    bool help;            // the keys instead of the picture
    struct moment now;
    bool keys; // cursor, details and the line of key bindings
};

// What a picture had to show.
struct top_seen {
    size_t lines, pods;           // of the list, and pods that wait, after the filters
    size_t lines_room, pods_room; // rows for them
};

// view_top adds the picture.
struct top_seen view_top(struct sbuf *out, const struct inventory *inv,
                         const struct top_look *look);

// view_top_json writes the same as data: nodes, devices and pods that wait.
struct json_writer;
void view_top_json(struct json_writer *w, const struct inventory *inv, const struct top_look *look);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Deletes the slices of a node: all at the start, when no driver is there yet, and those of a
// driver that has been gone for a while. Tried again until it works. Slices without the node's name
// are never touched.
#ifndef NODE_DRA_WIPE_H
#define NODE_DRA_WIPE_H

#include <stdbool.h>

#include "base/exec.h"
#include "client/client.h"

struct wipe;

struct wipe_options {
    struct client *client;
    struct exec *exec;
    struct str node;  // copied
    int64_t delay_ns; // after a driver is gone; 0: 30 s
    // wiped (may be NULL): slices of a driver (empty: of all) have been deleted.
    void (*wiped)(void *arg, struct str driver);
    void *arg;
};

struct wipe *wipe_new(const struct wipe_options *options);
void wipe_free(struct wipe *w);

// wipe_all deletes the slices of all drivers, once the Node exists.
void wipe_all(struct wipe *w);

// wipe_driver: a driver became usable, or ceased to be. Only the first of several reports that it
// is gone starts the delay; one that is back is left alone.
void wipe_driver(struct wipe *w, struct str driver, bool usable);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Keeps the disk of the images from filling up: kubelet's image manager. Every five minutes, and
// when a pull found no space, the runtime checks the disk and removes unused images. Removals and
// failures are reported.
#ifndef NODE_IMAGE_KEEPER_H
#define NODE_IMAGE_KEEPER_H

#include <stdbool.h>

#include "base/exec.h"
#include "client/events.h"
#include "node/runtime/runtime.h"

#define IMAGE_KEEPER_HIGH_PERCENT 85
#define IMAGE_KEEPER_LOW_PERCENT  80

struct image_keeper;

// 0: as kubelet.
struct image_keeper_options {
    struct exec *exec;
    struct runtime *runtime;
    struct event_recorder *events; // may be NULL
    struct str node;               // whom events are about; copied
    int64_t high_percent;          // 85; 100: images are removed only when a pull finds no space
    int64_t low_percent;           // 80
    int64_t min_age_ns;            // 2 min
    int64_t period_ns;             // 5 min
    // say logs one line; may be NULL.
    void (*say)(void *arg, const char *line);
    void *arg;
};

struct image_keeper *image_keeper_new(const struct image_keeper_options *options);

// image_keeper_start looks for the first time, soon.
void image_keeper_start(struct image_keeper *k);

// image_keeper_disk_full: a pull found no space. All unused images are removed.
void image_keeper_disk_full(struct image_keeper *k);

// image_keeper_reclaim removes every unused image, then calls done.
void image_keeper_reclaim(struct image_keeper *k, exec_fn done, void *arg);

// image_keeper_quiet begins nothing new; image_keeper_busy: the runtime is at it.
void image_keeper_quiet(struct image_keeper *k);
bool image_keeper_busy(const struct image_keeper *k);

// image_keeper_free may be called while the runtime is at it.
void image_keeper_free(struct image_keeper *k);

#endif

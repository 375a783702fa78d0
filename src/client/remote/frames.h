// SPDX-License-Identifier: Apache-2.0
//
// A stream of bytes cut into frames, each with its length in four bytes (big-endian) in front,
// however it arrives: how servers send watch events in protobuf. What is kept of a frame that has
// not ended is bounded.
#ifndef CLIENT_REMOTE_FRAMES_H
#define CLIENT_REMOTE_FRAMES_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

// Zeroed but for max, it is ready.
struct frames {
    struct sbuf part; // the frame that has not ended yet, with its length
    size_t max;       // bytes of a frame
};

// frames_feed calls frame for every frame that bytes complete, without its length. frame returns 0
// to go on. Returns 0, what frame returned, or -ERR_TOO_LARGE; after anything but 0 the rest of
// bytes is lost.
int frames_feed(struct frames *f, struct str bytes, int (*frame)(void *arg, struct str body),
                void *arg, struct err *err) MUST_USE;

// frames_reset forgets the frame that has not ended.
void frames_reset(struct frames *f);
void frames_done(struct frames *f);

#endif

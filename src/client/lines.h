// SPDX-License-Identifier: Apache-2.0
//
// A stream of bytes cut into lines, however it arrives, with a bound on what is kept of a line that
// has not ended.
#ifndef CLIENT_LINES_H
#define CLIENT_LINES_H

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

// Zeroed but for max, it is ready.
struct lines {
    struct sbuf part; // the line that has not ended yet
    size_t max;       // bytes of a line
};

// lines_feed calls line for every line that bytes complete, without its end (\n or \r\n); empty
// ones are left out. line returns 0 to go on. Returns 0, what line returned, or -ERR_TOO_LARGE;
// after anything but 0 the rest of bytes is lost.
int lines_feed(struct lines *l, struct str bytes, int (*line)(void *arg, struct str text),
               void *arg, struct err *err) MUST_USE;

// lines_reset forgets the line that has not ended.
void lines_reset(struct lines *l);
void lines_done(struct lines *l);

#endif

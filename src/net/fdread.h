// SPDX-License-Identifier: Apache-2.0
//
// Bytes from a file descriptor that was given to us (standard input), on a loop: a terminal, a
// pipe, a socket or a plain file.
#ifndef NET_FDREAD_H
#define NET_FDREAD_H

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

struct fdread;

// fdread_new starts to read. input gets what comes, and an empty text once, at the end. The
// descriptor stays the caller's. Returns 0 or -errno.
int fdread_new(struct loop *loop, int fd, void (*input)(void *arg, struct str bytes), void *arg,
               struct fdread **ret, struct err *err) MUST_USE;

// fdread_hold stops reading (true) or goes on (false).
void fdread_hold(struct fdread *r, bool hold);

// fdread_free ends it; memory goes with the loop's next turn. NULL is legal.
void fdread_free(struct fdread *r);

#endif

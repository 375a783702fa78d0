// SPDX-License-Identifier: Apache-2.0
//
// Being told when spec folders change, through inotify: a file descriptor that any event loop can wait
// on. It says only that something may have changed; cdi_cache_refresh finds out. A folder that does
// not exist is waited for in the nearest one above it that does.
#ifndef CDI_WATCH_H
#define CDI_WATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct cdi_watch;

// cdi_watch_new watches folders, whose names are copied; n == 0 stands for the usual ones. Returns 0
// or -errno. The caller owns *ret.
int cdi_watch_new(const char *const *dirs, size_t n, struct cdi_watch **ret,
                  struct err *err) MUST_USE;
void cdi_watch_free(struct cdi_watch *w);

// cdi_watch_fd is readable when something has happened. It does not block and belongs to w.
int cdi_watch_fd(const struct cdi_watch *w);

// cdi_watch_drain takes what has happened off the descriptor, begins to watch folders that have come
// into being, and says whether the cache should be refreshed.
bool cdi_watch_drain(struct cdi_watch *w);

#endif

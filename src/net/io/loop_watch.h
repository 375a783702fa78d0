// SPDX-License-Identifier: Apache-2.0
//
// What the watchdog knows of one loop (loop_watch.c).
#ifndef NET_IO_LOOP_WATCH_H
#define NET_IO_LOOP_WATCH_H

#include <stdint.h>
#include <uv.h>

struct loop_watch {
    struct loop_watch *next;
    uv_prepare_t prepare;
    const char *name; // NULL: the loop is not watched
    int64_t began_ns;
    uint64_t idle_ns;
    int64_t logged_ns;
    uint64_t stalls; // under the lock, as longest_ns: metrics are read on another thread
    int64_t longest_ns;
};

void loop_watch_start(struct loop_watch *w, struct uv_loop_s *uv, const char *name);
void loop_watch_stop(struct loop_watch *w);

#endif

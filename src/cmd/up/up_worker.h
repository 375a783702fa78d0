// SPDX-License-Identifier: Apache-2.0
//
// The thread of `dray up` on which scheduler, controllers, simulated nodes and the agent run, with
// a loop of its own: a long turn there does not delay a response of the API server.
#ifndef CMD_UP_UP_WORKER_H
#define CMD_UP_UP_WORKER_H

#include "net/loop.h"

struct up_worker;

// up_worker_new makes the loop; what is set up on it before up_worker_start needs no lock.
int up_worker_new(struct loop *server, struct up_worker **ret, struct err *err) MUST_USE;
struct loop *up_worker_loop(struct up_worker *w);

// up_worker_start starts the thread. Returns 0 or -errno.
int up_worker_start(struct up_worker *w, struct err *err) MUST_USE;

// up_worker_stop calls stop(arg) on the thread, lets both loops deliver what is under way, calls
// leave(arg) and then, on the server's loop, done(done_arg).
struct up_worker_end {
    exec_fn stop, leave, done;
    void *arg, *done_arg;
};
void up_worker_stop(struct up_worker *w, const struct up_worker_end *end);

// up_worker_settle lets both loops deliver what is under way, on the server's thread: for a start
// that failed before up_worker_start. NULL is fine.
void up_worker_settle(struct up_worker *w);

// up_worker_free ends the thread, which has been stopped or never started, delivers late answers
// and frees the loop.
void up_worker_free(struct up_worker *w);

#endif

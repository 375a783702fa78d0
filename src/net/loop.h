// SPDX-License-Identifier: Apache-2.0
//
// A libuv loop as an exec: posted work, timers, signals. One thread runs it.
#ifndef NET_LOOP_H
#define NET_LOOP_H

#include "base/err.h"
#include "base/exec.h"
#include "base/str.h"

struct loop;
struct uv_loop_s;

// loop_new makes a loop with the system's clock and randomness. SIGPIPE is ignored from then on.
int loop_new(struct loop **ret, struct err *err) MUST_USE;

// loop_free frees a loop whose handles are all closed.
void loop_free(struct loop *l);

struct exec *loop_exec(struct loop *l);
struct uv_loop_s *loop_uv(struct loop *l); // for src/net

// loop_run runs until loop_stop. loop_stop may be called from any thread.
void loop_run(struct loop *l);
void loop_stop(struct loop *l);

// loop_watch_turns counts the loop's turns that take longer than 50 ms, and logs one of them in ten
// seconds at most. The name is static. loop_add_metrics adds the counts of all such loops of the
// process, in Prometheus' text form.
void loop_watch_turns(struct loop *l, const char *name);
void loop_add_metrics(struct sbuf *out);

// loop_on_signal calls fn(arg) on the loop when a signal (SIGTERM, SIGINT) arrives.
int loop_on_signal(struct loop *l, int signal, exec_fn fn, void *arg, struct err *err) MUST_USE;

// loop_work runs work(arg) on a thread of a small pool, then after(arg) on the loop: for what would
// block it. loop_free waits for work that has begun and then runs its after.
void loop_work(struct loop *l, exec_fn work, exec_fn after, void *arg);

// net_clear_path makes a path ready to be bound: a socket without a listener is removed.
// -EADDRINUSE when somebody does, -EEXIST when it is no socket, -ENAMETOOLONG.
int net_clear_path(const char *path, struct err *err) MUST_USE;

#endif

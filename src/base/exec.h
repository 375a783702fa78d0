// SPDX-License-Identifier: Apache-2.0
//
// Where work runs: one thread's loop behind an interface. The server, the scheduler, a controller
// own their state on one exec each; nothing else touches it. In production an exec is a libuv loop
// (src/net/loop.h), in simulations and tests a queue that moves with a fake clock (exec_sim).
//
// Everything but exec_post is called on the exec's own thread.
#ifndef BASE_EXEC_H
#define BASE_EXEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/heap.h"
#include "base/rand.h"

struct exec;

typedef void (*exec_fn)(void *arg);

// A timer belongs to its owner, who zeroes it once and embeds it. It fires once for each start.
struct exec_timer {
    struct heap_node node; // in its exec's heap while armed
    exec_fn fn;
    void *arg;
    int64_t due_ns; // on the exec's monotonic clock
    uint64_t order; // among timers due at the same time: first started, first fired
};

static inline bool exec_timer_armed(const struct exec_timer *t)
{
    return heap_linked(&t->node);
}

struct exec_ops {
    // post runs fn(arg) on the exec's thread, after what was posted before; from any thread.
    void (*post)(struct exec *e, exec_fn fn, void *arg);
    // unpost takes back what has not begun to run: true, it never will. May be missing.
    bool (*unpost)(struct exec *e, exec_fn fn, const void *arg);
    // timer_start arms t to fire in delay_ns (again: moves it); 0 is legal and never fires at once.
    void (*timer_start)(struct exec *e, struct exec_timer *t, int64_t delay_ns);
    // timer_stop disarms t; legal on one that is not armed. Its memory may go afterwards.
    void (*timer_stop)(struct exec *e, struct exec_timer *t);
};

struct exec {
    const struct exec_ops *ops;
    const struct clock *clock;
    struct rng *rng;
};

static inline void exec_post(struct exec *e, exec_fn fn, void *arg)
{
    e->ops->post(e, fn, arg);
}

static inline bool exec_unpost(struct exec *e, exec_fn fn, const void *arg)
{
    return e->ops->unpost && e->ops->unpost(e, fn, arg);
}

static inline void exec_timer_start(struct exec *e, struct exec_timer *t, int64_t delay_ns)
{
    e->ops->timer_start(e, t, delay_ns);
}

static inline void exec_timer_stop(struct exec *e, struct exec_timer *t)
{
    e->ops->timer_stop(e, t);
}

static inline int64_t exec_now_ns(const struct exec *e)
{
    return clock_mono_ns(e->clock);
}

static inline int64_t exec_wall_ns(const struct exec *e)
{
    return clock_wall_ns(e->clock);
}

// --- For those who make an exec ------------------------------------------------------------------

// The armed timers of an exec.
struct exec_timers {
    struct heap heap;
    uint64_t started;
};

void exec_timers_init(struct exec_timers *ts);
void exec_timers_done(struct exec_timers *ts); // disarms all

void exec_timers_start(struct exec_timers *ts, struct exec_timer *t, int64_t due_ns);
void exec_timers_stop(struct exec_timers *ts, struct exec_timer *t);

// exec_timers_next_ns is when the next one is due, INT64_MAX when none is armed.
int64_t exec_timers_next_ns(const struct exec_timers *ts);

// exec_timers_fire disarms and runs the first one that is due by now_ns. False: none is.
bool exec_timers_fire(struct exec_timers *ts, int64_t now_ns);

// --- Simulation ----------------------------------------------------------------------------------

// exec_sim runs on its caller's thread, on a fake clock. Several may share a clock.
struct exec_sim;

// exec_sim_new makes one; clock and rng are borrowed.
struct exec_sim *exec_sim_new(struct clock_fake *clock, struct rng *rng);
void exec_sim_free(struct exec_sim *s);
struct exec *exec_sim_exec(struct exec_sim *s);

// exec_sim_step runs one thing that is ready (posted work before due timers). False: nothing is.
bool exec_sim_step(struct exec_sim *s);

// exec_sim_next_ns is when the next timer is due, INT64_MAX when none is armed. Posted work is due
// now.
int64_t exec_sim_next_ns(const struct exec_sim *s);

// exec_sim_run runs everything that is ready, moving the clock from timer to timer, until nothing
// is left or the clock has come to until_ns.
void exec_sim_run(struct exec_sim *s, int64_t until_ns);

#endif

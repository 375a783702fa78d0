// SPDX-License-Identifier: Apache-2.0
//
// Timers on a heap, and the simulated exec: posted work and timers on a fake clock, in an order
// that depends on nothing but its inputs.
#include "base/exec.h"

#include <stdlib.h>

#include "base/vec.h"

#include "base/banned.h"

static bool timer_before(const struct heap_node *a, const struct heap_node *b)
{
    const struct exec_timer *x = heap_entry(a, const struct exec_timer, node);
    const struct exec_timer *y = heap_entry(b, const struct exec_timer, node);
    return x->due_ns != y->due_ns ? x->due_ns < y->due_ns : x->order < y->order;
}

void exec_timers_init(struct exec_timers *ts)
{
    heap_init(&ts->heap, timer_before);
    ts->started = 0;
}

void exec_timers_done(struct exec_timers *ts)
{
    heap_done(&ts->heap);
}

void exec_timers_start(struct exec_timers *ts, struct exec_timer *t, int64_t due_ns)
{
    heap_remove(&ts->heap, &t->node);
    t->due_ns = due_ns;
    t->order = ts->started++;
    heap_push(&ts->heap, &t->node);
}

void exec_timers_stop(struct exec_timers *ts, struct exec_timer *t)
{
    heap_remove(&ts->heap, &t->node);
}

int64_t exec_timers_next_ns(const struct exec_timers *ts)
{
    const struct heap_node *first = heap_peek(&ts->heap);
    return first ? heap_entry(first, const struct exec_timer, node)->due_ns : INT64_MAX;
}

bool exec_timers_fire(struct exec_timers *ts, int64_t now_ns)
{
    if (exec_timers_next_ns(ts) > now_ns)
        return false;
    struct heap_node *first = heap_pop(&ts->heap);
    if (!first)
        return false;
    struct exec_timer *t = heap_entry(first, struct exec_timer, node);
    t->fn(t->arg);
    return true;
}

// --- Simulation ----------------------------------------------------------------------------------

struct posted {
    exec_fn fn;
    void *arg;
};

struct posted_list VEC(struct posted);

struct exec_sim {
    struct exec exec; // first, so that a pointer to it is a pointer to this
    struct clock_fake *clock;
    struct exec_timers timers;
    struct posted_list posted;
    size_t done; // how many of posted have run
};

static struct exec_sim *sim_of(struct exec *e)
{
    return container_of(e, struct exec_sim, exec);
}

static void sim_post(struct exec *e, exec_fn fn, void *arg)
{
    struct exec_sim *s = sim_of(e);
    vec_push(&s->posted, ((struct posted){fn, arg}));
}

static void sim_timer_start(struct exec *e, struct exec_timer *t, int64_t delay_ns)
{
    struct exec_sim *s = sim_of(e);
    exec_timers_start(&s->timers, t, s->clock->mono + (delay_ns > 0 ? delay_ns : 0));
}

static void sim_timer_stop(struct exec *e, struct exec_timer *t)
{
    exec_timers_stop(&sim_of(e)->timers, t);
}

static const struct exec_ops sim_ops = {
    .post = sim_post,
    .timer_start = sim_timer_start,
    .timer_stop = sim_timer_stop,
};

struct exec_sim *exec_sim_new(struct clock_fake *clock, struct rng *rng)
{
    struct exec_sim *s = xcalloc(1, sizeof(*s));
    s->exec = (struct exec){.ops = &sim_ops, .clock = &clock->clock, .rng = rng};
    s->clock = clock;
    exec_timers_init(&s->timers);
    return s;
}

void exec_sim_free(struct exec_sim *s)
{
    if (!s)
        return;
    exec_timers_done(&s->timers);
    vec_done(&s->posted);
    free(s);
}

struct exec *exec_sim_exec(struct exec_sim *s)
{
    return &s->exec;
}

bool exec_sim_step(struct exec_sim *s)
{
    if (s->done < s->posted.n) {
        struct posted next = s->posted.p[s->done++];
        if (s->done == s->posted.n) {
            vec_clear(&s->posted);
            s->done = 0;
        }
        next.fn(next.arg);
        return true;
    }
    return exec_timers_fire(&s->timers, s->clock->mono);
}

int64_t exec_sim_next_ns(const struct exec_sim *s)
{
    if (s->done < s->posted.n)
        return s->clock->mono;
    return exec_timers_next_ns(&s->timers);
}

void exec_sim_run(struct exec_sim *s, int64_t until_ns)
{
    for (;;) {
        while (exec_sim_step(s))
            ;
        int64_t next = exec_sim_next_ns(s);
        if (next == INT64_MAX || next > until_ns)
            break;
        if (next > s->clock->mono)
            clock_fake_advance(s->clock, next - s->clock->mono);
    }
    if (until_ns != INT64_MAX && s->clock->mono < until_ns)
        clock_fake_advance(s->clock, until_ns - s->clock->mono);
}

// SPDX-License-Identifier: Apache-2.0
//
// libuv as an exec: posted work is swapped out as a list with one wake-up a batch, all timers share
// one heap behind one uv_timer.
#include "net/loop.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/vec.h"
#include "net/io/loop_watch.h"

#include "base/banned.h"

#define LOOP_LATE_NS (INT64_C(20) * CLOCK_NS_PER_MS)

struct posted {
    exec_fn fn;
    void *arg;
};

struct posted_list VEC(struct posted);

struct loop_signal {
    uv_signal_t uv;
    struct loop_signal *next;
    exec_fn fn;
    void *arg;
};

// Posted work waits in `posted` under the lock; the loop swaps the whole list out and runs it
// without. All timers share one uv_timer, armed for the earliest.
struct loop {
    struct exec exec; // first, so that a pointer to it is a pointer to this
    uv_loop_t uv;
    uv_async_t wake;
    uv_timer_t timer;
    uv_idle_t turn; // for timers that are due at once: a uv_timer would fire again before any I/O
    uv_check_t polled; // for timers that are late: they fire after the next poll
    struct loop_watch watch;
    struct exec_timers timers;
    int64_t timer_due_ns; // what uv_timer is armed for; INT64_MAX when it is not
    bool firing;          // the timers are being run: arm once, at the end
    pthread_mutex_t lock;
    struct posted_list posted;
    struct posted_list running; // the list that posted is swapped with, kept for its memory
    atomic_bool stop;
    struct loop_signal *signals;
};

static struct loop *loop_of(struct exec *e)
{
    return container_of(e, struct loop, exec);
}

// --- Posted work ---------------------------------------------------------------------------------

static void loop_post_work(struct exec *e, exec_fn fn, void *arg)
{
    struct loop *l = loop_of(e);
    pthread_mutex_lock(&l->lock);
    bool first = l->posted.n == 0;
    vec_push(&l->posted, ((struct posted){fn, arg}));
    pthread_mutex_unlock(&l->lock);
    // The thread that found the list empty wakes the loop, once for all.
    if (first)
        (void)uv_async_send(&l->wake);
}

static bool loop_unpost_work(struct exec *e, exec_fn fn, const void *arg)
{
    struct loop *l = loop_of(e);
    bool found = false;
    pthread_mutex_lock(&l->lock);
    for (size_t i = 0; i < l->posted.n && !found; i++) {
        struct posted *p = &l->posted.p[i];
        found = p->fn == fn && p->arg == arg;
        if (found) {
            memmove(p, p + 1, (l->posted.n - i - 1) * sizeof(*p));
            l->posted.n--;
        }
    }
    pthread_mutex_unlock(&l->lock);
    return found;
}

// Runs what is posted now. Work posted meanwhile runs on the loop's next turn, so that work that
// posts itself again does not starve the sockets.
static void loop_run_posted(uv_async_t *wake)
{
    struct loop *l = container_of(wake, struct loop, wake);
    pthread_mutex_lock(&l->lock);
    struct posted_list now = l->posted;
    l->posted = l->running;
    l->running = (struct posted_list){0};
    pthread_mutex_unlock(&l->lock);
    vec_foreach(&now, p)
        p->fn(p->arg);
    vec_clear(&now);
    l->running = now;
    if (atomic_load(&l->stop))
        uv_stop(&l->uv);
}

// --- Timers --------------------------------------------------------------------------------------

static void fire_timers(uv_timer_t *timer);

static void loop_arm_timer(struct loop *l)
{
    int64_t due_ns = exec_timers_next_ns(&l->timers);
    if (l->firing || due_ns >= l->timer_due_ns)
        return; // it fires early at worst, and is armed again then
    int64_t wait_ns = due_ns - clock_mono_ns(l->exec.clock);
    if (wait_ns < 0)
        wait_ns = 0;
    uv_update_time(&l->uv);
    uint64_t wait_ms = ((uint64_t)wait_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    (void)uv_timer_start(&l->timer, fire_timers, wait_ms, 0);
    l->timer_due_ns = due_ns;
}

static void fire_turn(uv_idle_t *turn);

static void fire_due(struct loop *l)
{
    l->firing = true;
    // Up to one moment: a timer that is started with delay 0 while these run waits a turn.
    int64_t now_ns = clock_mono_ns(l->exec.clock);
    uint64_t first_new = l->timers.started;
    while (exec_timers_next_ns(&l->timers) <= now_ns) {
        struct heap_node *node = heap_peek(&l->timers.heap);
        if (!node || heap_entry(node, struct exec_timer, node)->order >= first_new)
            break;
        (void)exec_timers_fire(&l->timers, now_ns);
    }
    l->firing = false;
    l->timer_due_ns = INT64_MAX;
    int64_t next_ns = exec_timers_next_ns(&l->timers);
    if (next_ns <= clock_mono_ns(l->exec.clock)) {
        l->timer_due_ns = next_ns;
        (void)uv_idle_start(&l->turn, fire_turn);
    } else if (next_ns != INT64_MAX) {
        loop_arm_timer(l);
    }
}

static void loop_fire_late(uv_check_t *polled)
{
    struct loop *l = container_of(polled, struct loop, polled);
    (void)uv_check_stop(polled);
    (void)uv_idle_stop(&l->turn);
    fire_due(l);
}

static void loop_keep_turning(uv_idle_t *turn)
{
    (void)turn;
}

// libuv runs timers before it polls. After a long turn that would end requests for being late whose
// bytes lie in their sockets: what is late by that much waits for one poll.
static void fire_timers(uv_timer_t *timer)
{
    struct loop *l = container_of(timer, struct loop, timer);
    if (clock_mono_ns(l->exec.clock) - exec_timers_next_ns(&l->timers) < LOOP_LATE_NS) {
        fire_due(l);
        return;
    }
    (void)uv_check_start(&l->polled, loop_fire_late);
    (void)uv_idle_start(&l->turn, loop_keep_turning); // the poll must not wait
}

// Runs once in each turn of the loop, and the loop polls for I/O between two turns.
static void fire_turn(uv_idle_t *turn)
{
    (void)uv_idle_stop(turn);
    fire_due(container_of(turn, struct loop, turn));
}

static void timer_start(struct exec *e, struct exec_timer *t, int64_t delay_ns)
{
    struct loop *l = loop_of(e);
    int64_t now_ns = clock_mono_ns(e->clock);
    exec_timers_start(&l->timers, t, now_ns + (delay_ns > 0 ? delay_ns : 0));
    loop_arm_timer(l);
}

static void timer_stop(struct exec *e, struct exec_timer *t)
{
    exec_timers_stop(&loop_of(e)->timers, t);
}

static const struct exec_ops loop_ops = {
    .post = loop_post_work,
    .unpost = loop_unpost_work,
    .timer_start = timer_start,
    .timer_stop = timer_stop,
};

// --- Life ----------------------------------------------------------------------------------------

// Writing to a peer that is gone is an error to handle, not a reason to die. A handler someone else
// has set stays.
static void ignore_sigpipe(void)
{
    struct sigaction now;
    if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL) {
        now = (struct sigaction){.sa_handler = SIG_IGN};
        (void)sigaction(SIGPIPE, &now, NULL);
    }
}

int loop_new(struct loop **ret, struct err *err)
{
    ignore_sigpipe();
    struct loop *l = xcalloc(1, sizeof(*l));
    int r = uv_loop_init(&l->uv);
    if (r < 0) {
        free(l);
        return err_set(err, -r, "cannot make an event loop: %s; raise the limit of open files",
                       uv_strerror(r));
    }
    r = uv_async_init(&l->uv, &l->wake, loop_run_posted);
    if (r < 0) {
        (void)uv_loop_close(&l->uv);
        free(l);
        return err_set(err, -r, "cannot make an event loop's wake-up: %s", uv_strerror(r));
    }
    (void)uv_timer_init(&l->uv, &l->timer);
    (void)uv_idle_init(&l->uv, &l->turn);
    (void)uv_check_init(&l->uv, &l->polled);
    (void)uv_prepare_init(&l->uv, &l->watch.prepare);
    l->exec = (struct exec){.ops = &loop_ops, .clock = clock_system(), .rng = rng_system()};
    exec_timers_init(&l->timers);
    l->timer_due_ns = INT64_MAX;
    (void)pthread_mutex_init(&l->lock, NULL);
    *ret = l;
    return 0;
}

void loop_free(struct loop *l)
{
    if (!l)
        return;
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->timer, NULL);
    uv_close((uv_handle_t *)&l->turn, NULL);
    uv_close((uv_handle_t *)&l->polled, NULL);
    uv_close((uv_handle_t *)&l->watch.prepare, NULL);
    loop_watch_stop(&l->watch);
    for (struct loop_signal *s = l->signals; s; s = s->next)
        uv_close((uv_handle_t *)&s->uv, NULL);
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); // runs the close callbacks
    int r = uv_loop_close(&l->uv);
    assert(r == 0); // else a handle is still open
    for (struct loop_signal *s = l->signals, *next; s; s = next) {
        next = s->next;
        free(s);
    }
    exec_timers_done(&l->timers);
    vec_done(&l->posted);
    vec_done(&l->running);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

void loop_watch_turns(struct loop *l, const char *name)
{
    loop_watch_start(&l->watch, &l->uv, name);
}

struct exec *loop_exec(struct loop *l)
{
    return &l->exec;
}

struct uv_loop_s *loop_uv(struct loop *l)
{
    return &l->uv;
}

void loop_run(struct loop *l)
{
    while (!atomic_load(&l->stop))
        (void)uv_run(&l->uv, UV_RUN_DEFAULT);
    atomic_store(&l->stop, false);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stop, true);
    (void)uv_async_send(&l->wake);
}

static void loop_run_signal(uv_signal_t *uv, int number)
{
    (void)number;
    struct loop_signal *s = container_of(uv, struct loop_signal, uv);
    s->fn(s->arg);
}

int loop_on_signal(struct loop *l, int signal, exec_fn fn, void *arg, struct err *err)
{
    struct loop_signal *s = xcalloc(1, sizeof(*s));
    s->fn = fn;
    s->arg = arg;
    (void)uv_signal_init(&l->uv, &s->uv);
    s->next = l->signals;
    l->signals = s;
    int r = uv_signal_start(&s->uv, loop_run_signal, signal);
    if (r < 0)
        return err_set(err, -r, "cannot wait for signal %d: %s", signal, uv_strerror(r));
    return 0;
}

// --- Work elsewhere ------------------------------------------------------------------------------

struct loop_work {
    uv_work_t uv;
    exec_fn work, after;
    void *arg;
};

static void loop_on_work(uv_work_t *uv)
{
    struct loop_work *w = container_of(uv, struct loop_work, uv);
    w->work(w->arg);
}

static void on_worked(uv_work_t *uv, int status)
{
    (void)status;
    struct loop_work *w = container_of(uv, struct loop_work, uv);
    w->after(w->arg);
    free(w);
}

void loop_work(struct loop *l, exec_fn work, exec_fn after, void *arg)
{
    struct loop_work *w = xcalloc(1, sizeof(*w));
    w->work = work;
    w->after = after;
    w->arg = arg;
    int r = uv_queue_work(&l->uv, &w->uv, loop_on_work, on_worked);
    assert(r == 0); // fails only without a function to run
    (void)r;
}

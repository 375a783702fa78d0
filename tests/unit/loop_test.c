// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/loop.h"
#include "unit.h"

#include "base/banned.h"

struct fixture {
    struct loop *loop;
    struct exec *exec;
    struct sbuf log; // on the loop's thread
    struct exec_timer timers[4];
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){0};
    assert_int_equal(loop_new(&f->loop, NULL), 0);
    f->exec = loop_exec(f->loop);
}

static void teardown(struct fixture *f)
{
    loop_free(f->loop);
    sbuf_done(&f->log);
}

static void stop(void *arg)
{
    loop_stop(((struct fixture *)arg)->loop);
}

static void note_a(void *arg)
{
    sbuf_addc(&((struct fixture *)arg)->log, 'a');
}

static void note_b(void *arg)
{
    sbuf_addc(&((struct fixture *)arg)->log, 'b');
}

static void note_c_and_post_a(void *arg)
{
    struct fixture *f = arg;
    sbuf_addc(&f->log, 'c');
    exec_post(f->exec, note_a, f);
    exec_post(f->exec, stop, f);
}

static void runs_posted_work_in_order(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    exec_post(f.exec, note_a, &f);
    exec_post(f.exec, note_c_and_post_a, &f);
    exec_post(f.exec, note_b, &f);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "acba");
    // And again after a stop.
    sbuf_clear(&f.log);
    exec_post(f.exec, note_b, &f);
    exec_post(f.exec, stop, &f);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "b");
    teardown(&f);
}

static void work_can_be_taken_back(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    exec_post(f.exec, note_a, &f);
    exec_post(f.exec, note_b, &f);
    assert_true(exec_unpost(f.exec, note_a, &f));
    assert_false(exec_unpost(f.exec, note_a, &f));
    exec_post(f.exec, stop, &f);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "b");
    teardown(&f);
}

static void start_timer(struct fixture *f, int i, exec_fn fn, int64_t delay_ns)
{
    f->timers[i].fn = fn;
    f->timers[i].arg = f;
    exec_timer_start(f->exec, &f->timers[i], delay_ns);
}

static void rearm(void *arg)
{
    struct fixture *f = arg;
    sbuf_addc(&f->log, 'r');
    if (f->log.n < 4)
        exec_timer_start(f->exec, &f->timers[0], 0);
    else
        start_timer(f, 3, stop, 0);
}

static void fires_timers_in_order(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    start_timer(&f, 0, stop, 30 * CLOCK_NS_PER_MS);
    start_timer(&f, 1, note_b, 10 * CLOCK_NS_PER_MS);
    start_timer(&f, 2, note_a, 5 * CLOCK_NS_PER_MS);
    start_timer(&f, 3, note_a, 1 * CLOCK_NS_PER_MS);
    exec_timer_stop(f.exec, &f.timers[3]);
    exec_timer_start(f.exec, &f.timers[2], 20 * CLOCK_NS_PER_MS); // moved behind
    int64_t start_ns = exec_now_ns(f.exec);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "ba");
    assert_true(exec_now_ns(f.exec) - start_ns >= 30 * CLOCK_NS_PER_MS);
    assert_false(exec_timer_armed(&f.timers[0]));
    sbuf_clear(&f.log);
    start_timer(&f, 0, rearm, 0);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "rrrr");
    teardown(&f);
}

// Works for a while and wants another turn at once; gives up after many.
static void work_on(void *arg)
{
    struct fixture *f = arg;
    int64_t until_ns = exec_now_ns(f->exec) + 3 * CLOCK_NS_PER_MS;
    while (exec_now_ns(f->exec) < until_ns)
        continue;
    sbuf_addc(&f->log, 'w');
    if (f->log.n < 1000)
        exec_timer_start(f->exec, &f->timers[0], 0);
    else
        stop(f);
}

static void *stop_by_post(void *arg)
{
    struct fixture *f = arg;
    (void)poll(NULL, 0, 20);
    exec_post(f->exec, stop, f);
    return NULL;
}

// Timers that are always due leave the loop its turns for everything else.
static void endless_timers_do_not_keep_others_waiting(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t thread;
    setup(&f);
    start_timer(&f, 0, work_on, 0);
    assert_int_equal(pthread_create(&thread, NULL, stop_by_post, &f), 0);
    loop_run(f.loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(f.log.n < 900);
    exec_timer_stop(f.exec, &f.timers[0]);
    teardown(&f);
}

static void on_signal(void *arg)
{
    note_a(arg);
    stop(arg);
}

static void hears_signals(void **state)
{
    (void)state;
    struct fixture f;
    struct err err;
    setup(&f);
    assert_int_equal(loop_on_signal(f.loop, SIGUSR1, on_signal, &f, &err), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    loop_run(f.loop);
    assert_str(sbuf_str(&f.log), "a");
    assert_true(loop_on_signal(f.loop, 999, on_signal, &f, &err) < 0);
    teardown(&f);
}

enum { THREADS = 4, EACH = 5000 };

struct flood {
    struct loop *loop;
    int counts[THREADS]; // touched by the loop's thread alone
    int total;
};

struct sender {
    struct flood *flood;
    int number;
};

static void count(void *arg)
{
    const struct sender *s = arg;
    s->flood->counts[s->number]++;
    if (++s->flood->total == THREADS * EACH)
        loop_stop(s->flood->loop);
}

static void *send_posts(void *arg)
{
    struct sender *s = arg;
    for (int i = 0; i < EACH; i++)
        exec_post(loop_exec(s->flood->loop), count, s);
    return NULL;
}

static void takes_work_from_other_threads(void **state)
{
    (void)state;
    struct flood flood = {0};
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    assert_int_equal(loop_new(&flood.loop, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        senders[i] = (struct sender){&flood, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_posts, &senders[i]), 0);
    }
    loop_run(flood.loop);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(flood.counts[i], EACH);
    }
    loop_free(flood.loop);
}

static void *stop_from_outside(void *arg)
{
    loop_stop(arg);
    return NULL;
}

static void stops_from_other_threads(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t thread;
    setup(&f);
    assert_int_equal(pthread_create(&thread, NULL, stop_from_outside, f.loop), 0);
    loop_run(f.loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    teardown(&f);
}

// --- Long turns ----------------------------------------------------------------------------------

static void sleep_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * CLOCK_NS_PER_MS};
    (void)nanosleep(&t, NULL);
}

static void stall(void *arg)
{
    (void)arg;
    sleep_ms(100);
}

static void *post_during_stall(void *arg)
{
    struct fixture *f = arg;
    sleep_ms(50);
    exec_post(f->exec, note_a, f);
    return NULL;
}

static void note_b_and_stop(void *arg)
{
    note_b(arg);
    stop(arg);
}

// A request that arrived while the loop was busy is read before its time limit ends it.
static void late_timers_fire_after_a_poll(void **state)
{
    (void)state;
    struct fixture f;
    pthread_t thread;
    setup(&f);
    f.timers[0] = (struct exec_timer){.fn = note_b_and_stop, .arg = &f};
    exec_timer_start(f.exec, &f.timers[0], 10 * CLOCK_NS_PER_MS);
    exec_post(f.exec, stall, &f);
    assert_int_equal(pthread_create(&thread, NULL, post_during_stall, &f), 0);
    loop_run(f.loop);
    assert_string_equal(f.log.p, "ab");
    assert_int_equal(pthread_join(thread, NULL), 0);
    teardown(&f);
}

static void stall_long(void *arg)
{
    (void)arg;
    sleep_ms(1100);
}

static void long_turns_are_counted(void **state)
{
    (void)state;
    struct fixture f;
    cleanup_sbuf struct sbuf before = {0}, after = {0};
    setup(&f);
    loop_watch_turns(f.loop, "test");
    const exec_fn fns[] = {note_a, stall_long, stop};
    for (int i = 0; i < 3; i++) {
        f.timers[i] = (struct exec_timer){.fn = fns[i], .arg = &f};
        exec_timer_start(f.exec, &f.timers[i], (1 + i * 600) * CLOCK_NS_PER_MS);
    }
    loop_add_metrics(&before);
    assert_non_null(strstr(before.p, "dray_loop_stalls_total{loop=\"test\"} 0\n"));
    loop_run(f.loop);
    loop_add_metrics(&after);
    assert_null(strstr(after.p, "dray_loop_stalls_total{loop=\"test\"} 0\n"));
    assert_null(strstr(after.p, "dray_loop_longest_turn_seconds{loop=\"test\"} 0."));
    teardown(&f);
}

RUN_TESTS(TEST_CASE(runs_posted_work_in_order), TEST_CASE(work_can_be_taken_back),
          TEST_CASE(fires_timers_in_order), TEST_CASE(endless_timers_do_not_keep_others_waiting),
          TEST_CASE(hears_signals), TEST_CASE(takes_work_from_other_threads),
          TEST_CASE(stops_from_other_threads), TEST_CASE(late_timers_fire_after_a_poll),
          TEST_CASE(long_turns_are_counted))

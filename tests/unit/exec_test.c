// SPDX-License-Identifier: Apache-2.0
#include "base/exec.h"
#include "unit.h"

#include "base/banned.h"

struct sim {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct exec *exec;
    char log[64];
    size_t n;
};

static void start(struct sim *s)
{
    *s = (struct sim){0};
    clock_fake_init(&s->clock, 0);
    rng_seeded_init(&s->rng, 1);
    s->sim = exec_sim_new(&s->clock, &s->rng.rng);
    s->exec = exec_sim_exec(s->sim);
}

struct mark {
    struct sim *s;
    char c;
};

static void note(void *arg)
{
    struct mark *m = arg;
    m->s->log[m->s->n++] = m->c;
}

static void posted_work_runs_in_order_before_timers(void **state)
{
    (void)state;
    struct sim s;
    start(&s);
    struct mark a = {&s, 'a'}, b = {&s, 'b'}, t = {&s, 't'};
    struct exec_timer timer = {.fn = note, .arg = &t};
    exec_timer_start(s.exec, &timer, 0);
    exec_post(s.exec, note, &a);
    exec_post(s.exec, note, &b);
    exec_sim_run(s.sim, INT64_MAX);
    assert_string_equal(s.log, "abt");
    exec_sim_free(s.sim);
}

static void timers_fire_by_time_then_by_start_and_move_the_clock(void **state)
{
    (void)state;
    struct sim s;
    start(&s);
    struct mark a = {&s, 'a'}, b = {&s, 'b'}, c = {&s, 'c'};
    struct exec_timer ta = {.fn = note, .arg = &a};
    struct exec_timer tb = {.fn = note, .arg = &b};
    struct exec_timer tc = {.fn = note, .arg = &c};
    exec_timer_start(s.exec, &ta, 30);
    exec_timer_start(s.exec, &tb, 10);
    exec_timer_start(s.exec, &tc, 10);
    exec_sim_run(s.sim, 20);
    assert_string_equal(s.log, "bc");
    assert_int_equal(exec_now_ns(s.exec), 20);
    assert_true(exec_timer_armed(&ta));
    exec_sim_run(s.sim, INT64_MAX);
    assert_string_equal(s.log, "bca");
    assert_int_equal(exec_now_ns(s.exec), 30);
    exec_sim_free(s.sim);
}

static void a_timer_can_be_moved_and_stopped(void **state)
{
    (void)state;
    struct sim s;
    start(&s);
    struct mark a = {&s, 'a'}, b = {&s, 'b'};
    struct exec_timer ta = {.fn = note, .arg = &a};
    struct exec_timer tb = {.fn = note, .arg = &b};
    exec_timer_start(s.exec, &ta, 10);
    exec_timer_start(s.exec, &tb, 20);
    exec_timer_start(s.exec, &ta, 30);
    exec_timer_stop(s.exec, &tb);
    exec_timer_stop(s.exec, &tb);
    exec_sim_run(s.sim, INT64_MAX);
    assert_string_equal(s.log, "a");
    assert_int_equal(exec_now_ns(s.exec), 30);
    exec_sim_free(s.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_work_runs_in_order_before_timers),
        cmocka_unit_test(timers_fire_by_time_then_by_start_and_move_the_clock),
        cmocka_unit_test(a_timer_can_be_moved_and_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

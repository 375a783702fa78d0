// SPDX-License-Identifier: Apache-2.0
#include "client/workqueue.h"
#include "unit.h"

#include "base/banned.h"

struct world {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct workqueue *q;
    struct sbuf worked; // "a@ms "
    bool keep;          // work goes on until somebody says done
};

static void work(void *arg, struct str key)
{
    struct world *w = arg;
    sbuf_addf(&w->worked, "%.*s@%lld ", STR_ARG(key), (long long)(w->clock.mono / CLOCK_NS_PER_MS));
    if (!w->keep)
        workqueue_done(w->q, key);
}

static void begin(struct world *w, const struct workqueue_options *options)
{
    *w = (struct world){0};
    clock_fake_init(&w->clock, 0);
    w->clock.mono = 0;
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
    struct workqueue_options o = *options;
    o.exec = exec_sim_exec(w->sim);
    o.work = work;
    o.arg = w;
    w->q = workqueue_new(&o);
}

static void end(struct world *w)
{
    workqueue_free(w->q);
    exec_sim_free(w->sim);
    sbuf_done(&w->worked);
}

static void pass(struct world *w, int64_t ms)
{
    exec_sim_run(w->sim, w->clock.mono + ms * CLOCK_NS_PER_MS);
}

static void check(struct world *w, const char *expected)
{
    assert_str(sbuf_str(&w->worked), expected);
    sbuf_clear(&w->worked);
}

static void waiting_keys_are_there_once(void **state)
{
    (void)state;
    struct world w;
    begin(&w, &(struct workqueue_options){0});
    workqueue_add(w.q, STR("a"));
    workqueue_add(w.q, STR("b"));
    workqueue_add(w.q, STR("a"));
    assert_int_equal(workqueue_len(w.q), 2);
    assert_int_equal(w.worked.n, 0); // never at once
    pass(&w, 0);
    check(&w, "a@0 b@0 ");
    assert_true(workqueue_idle(w.q));
    end(&w);
}

static void a_key_being_worked_on_comes_again_afterwards(void **state)
{
    (void)state;
    struct world w;
    begin(&w, &(struct workqueue_options){.workers = 2});
    w.keep = true;
    workqueue_add(w.q, STR("a"));
    workqueue_add(w.q, STR("b"));
    workqueue_add(w.q, STR("c"));
    pass(&w, 0);
    check(&w, "a@0 b@0 "); // two workers
    workqueue_add(w.q, STR("a"));
    workqueue_add(w.q, STR("a"));
    pass(&w, 1);
    check(&w, "");
    workqueue_done(w.q, STR("a"));
    pass(&w, 0);
    check(&w, "c@1 "); // who waited longer
    workqueue_done(w.q, STR("b"));
    pass(&w, 0);
    check(&w, "a@1 ");
    workqueue_done(w.q, STR("a"));
    workqueue_done(w.q, STR("c"));
    pass(&w, 0);
    check(&w, "");
    assert_true(workqueue_idle(w.q));
    end(&w);
}

static void the_earlier_time_counts(void **state)
{
    (void)state;
    struct world w;
    begin(&w, &(struct workqueue_options){0});
    workqueue_add_after(w.q, STR("a"), 50 * CLOCK_NS_PER_MS);
    workqueue_add_after(w.q, STR("b"), 20 * CLOCK_NS_PER_MS);
    workqueue_add_after(w.q, STR("a"), 10 * CLOCK_NS_PER_MS);
    workqueue_add_after(w.q, STR("b"), 90 * CLOCK_NS_PER_MS);
    workqueue_add_after(w.q, STR("c"), 0);
    pass(&w, 100);
    check(&w, "c@0 a@10 b@20 ");
    end(&w);
}

static void failures_wait_longer_and_longer(void **state)
{
    (void)state;
    struct world w;
    begin(&w, &(struct workqueue_options){.retry_max_ns = 60 * CLOCK_NS_PER_MS});
    for (int i = 0; i < 6; i++) {
        workqueue_retry(w.q, STR("a"));
        assert_int_equal(workqueue_failures(w.q, STR("a")), i + 1);
        pass(&w, 100);
    }
    check(&w, "a@5 a@110 a@220 a@340 a@460 a@560 ");
    workqueue_forget(w.q, STR("a"));
    assert_int_equal(workqueue_failures(w.q, STR("a")), 0);
    workqueue_retry(w.q, STR("a"));
    pass(&w, 100);
    check(&w, "a@605 ");
    end(&w);
}

static void retries_of_all_keys_share_a_rate(void **state)
{
    (void)state;
    struct world w;
    begin(&w, &(struct workqueue_options){.retry_per_sec = 10, .retry_burst = 2});
    workqueue_retry(w.q, STR("a"));
    workqueue_retry(w.q, STR("b"));
    workqueue_retry(w.q, STR("c"));
    workqueue_retry(w.q, STR("d"));
    pass(&w, 1000);
    check(&w, "a@5 b@5 c@100 d@200 ");
    end(&w);
}

static void has_line(const struct sbuf *text, const char *line)
{
    if (!str_contains(sbuf_str(text), str_z(line)))
        fail_msg("%s is not in\n%s", line, text->p);
}

// As client-go counts: what comes while it is worked on waits from then on, and what is under way shows.
static void a_named_queue_counts(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf text = {0};
    begin(&w, &(struct workqueue_options){.name = "q"});
    const struct workqueue *queues[] = {w.q};
    w.keep = true;
    workqueue_hold(w.q, true);
    workqueue_add(w.q, STR("a"));
    workqueue_add(w.q, STR("a")); // is there already
    workqueue_add(w.q, STR("b"));
    pass(&w, 20);
    workqueue_hold(w.q, false);
    pass(&w, 0);
    workqueue_add(w.q, STR("a")); // comes again
    pass(&w, 3000);
    workqueue_metrics(queues, 1, &text);
    has_line(&text, "workqueue_depth{name=\"q\"} 2\n");
    has_line(&text, "workqueue_adds_total{name=\"q\"} 3\n");
    has_line(&text, "workqueue_retries_total{name=\"q\"} 0\n");
    has_line(&text, "workqueue_unfinished_work_seconds{name=\"q\"} 3\n");
    has_line(&text, "workqueue_longest_running_processor_seconds{name=\"q\"} 3\n");
    has_line(&text, "workqueue_queue_duration_seconds_bucket{name=\"q\",le=\"0.01\"} 0\n");
    has_line(&text, "workqueue_queue_duration_seconds_bucket{name=\"q\",le=\"0.1\"} 1\n");
    has_line(&text, "workqueue_work_duration_seconds_count{name=\"q\"} 0\n");
    workqueue_retry(w.q, STR("a"));
    workqueue_done(w.q, STR("a"));
    pass(&w, 0);
    sbuf_clear(&text);
    workqueue_metrics(queues, 1, &text);
    has_line(&text, "workqueue_retries_total{name=\"q\"} 1\n");
    has_line(&text, "workqueue_work_duration_seconds_bucket{name=\"q\",le=\"1\"} 0\n");
    has_line(&text, "workqueue_work_duration_seconds_bucket{name=\"q\",le=\"10\"} 1\n");
    has_line(&text, "workqueue_queue_duration_seconds_sum{name=\"q\"} 3.04\n");
    workqueue_add_after(w.q, STR("later"),
                        CLOCK_NS_PER_SEC); // counts too, as client-go's AddAfter does
    sbuf_clear(&text);
    workqueue_metrics(queues, 1, &text);
    has_line(&text, "workqueue_retries_total{name=\"q\"} 2\n");
    end(&w);
}

static void a_queue_without_a_name_tells_nothing(void **state)
{
    (void)state;
    struct world w;
    cleanup_sbuf struct sbuf text = {0};
    begin(&w, &(struct workqueue_options){0});
    workqueue_add(w.q, STR("a"));
    pass(&w, 0);
    workqueue_metrics(&(const struct workqueue *){w.q}, 1, &text);
    assert_false(str_contains(sbuf_str(&text), STR("name=")));
    end(&w);
}

RUN_TESTS(TEST_CASE(a_named_queue_counts), TEST_CASE(a_queue_without_a_name_tells_nothing),
          TEST_CASE(waiting_keys_are_there_once),
          TEST_CASE(a_key_being_worked_on_comes_again_afterwards),
          TEST_CASE(the_earlier_time_counts), TEST_CASE(failures_wait_longer_and_longer),
          TEST_CASE(retries_of_all_keys_share_a_rate))

// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>

#include "base/queue.h"
#include "unit.h"

#include "base/banned.h"

struct numbers QUEUE(uint64_t);

static void is_bounded_and_first_in_first_out(void **state)
{
    (void)state;
    struct numbers q;
    uint64_t v;
    queue_init(&q, 3);
    assert_false(queue_pop(&q, &v, 0));
    assert_false(queue_pop(&q, &v, 1000));
    for (uint64_t i = 1; i <= 3; i++)
        assert_true(queue_try_push(&q, i));
    assert_false(queue_try_push(&q, (uint64_t)4));
    assert_int_equal(queue_len(&q), 3);
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(queue_pop(&q, &v, -1));
        assert_int_equal(v, i);
    }
    assert_true(queue_push(&q, (uint64_t)9));
    queue_close(&q);
    assert_false(queue_push(&q, (uint64_t)10));
    assert_true(queue_pop(&q, &v, -1)); // what was inside is still given out
    assert_false(queue_pop(&q, &v, -1));
    queue_done(&q);
}

enum { PRODUCERS = 3, CONSUMERS = 3, EACH = 5000 };

struct shared {
    struct numbers q;
    atomic_ullong sum;
    atomic_ullong count;
};

static void *produce(void *arg)
{
    struct shared *s = arg;
    for (uint64_t i = 1; i <= EACH; i++)
        if (!queue_push(&s->q, i))
            return s;
    return NULL;
}

static void *consume(void *arg)
{
    struct shared *s = arg;
    for (uint64_t v; queue_pop(&s->q, &v, -1);) {
        atomic_fetch_add(&s->sum, v);
        atomic_fetch_add(&s->count, 1);
    }
    return NULL;
}

static void threads_lose_and_double_nothing(void **state)
{
    (void)state;
    static struct shared s;
    pthread_t producers[PRODUCERS], consumers[CONSUMERS];
    queue_init(&s.q, 16);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_create(&consumers[i], NULL, consume, &s), 0);
    for (int i = 0; i < PRODUCERS; i++)
        assert_int_equal(pthread_create(&producers[i], NULL, produce, &s), 0);
    for (int i = 0; i < PRODUCERS; i++) {
        void *failed;
        assert_int_equal(pthread_join(producers[i], &failed), 0);
        assert_null(failed);
    }
    queue_close(&s.q);
    for (int i = 0; i < CONSUMERS; i++)
        assert_int_equal(pthread_join(consumers[i], NULL), 0);
    assert_int_equal(atomic_load(&s.count), PRODUCERS * EACH);
    assert_int_equal(atomic_load(&s.sum), (uint64_t)PRODUCERS * EACH * (EACH + 1) / 2);
    queue_done(&s.q);
}

static void count_wake(void *ctx)
{
    (*(int *)ctx)++;
}

static void wakes_a_loop_on_push_and_close(void **state)
{
    (void)state;
    struct numbers q;
    int woken = 0;
    queue_init(&q, 1);
    queue_on_push(&q, count_wake, &woken);
    assert_true(queue_try_push(&q, (uint64_t)1));
    assert_false(queue_try_push(&q, (uint64_t)2));
    assert_int_equal(woken, 1);
    queue_close(&q);
    assert_int_equal(woken, 2);
    queue_done(&q);
}

RUN_TESTS(TEST_CASE(is_bounded_and_first_in_first_out), TEST_CASE(threads_lose_and_double_nothing),
          TEST_CASE(wakes_a_loop_on_push_and_close))

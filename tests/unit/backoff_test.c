// SPDX-License-Identifier: Apache-2.0
//
// The waits of the one formula: growth, bounds, chance, and that no policy makes it overflow.
#include "base/backoff.h"
#include "base/clock.h"
#include "unit.h"

#include "base/banned.h"

static void waits_double_up_to_the_longest(void **state)
{
    (void)state;
    const struct backoff_policy p = {.first_ns = 5, .max_ns = 70};
    static const int64_t waits[] = {5, 10, 20, 40, 70, 70};
    int64_t wait = 0;
    for (size_t i = 0; i < array_len(waits); i++) {
        assert_int_equal(backoff_wait_ns(&p, i), waits[i]);
        wait = backoff_grow_ns(&p, wait);
        assert_int_equal(wait, waits[i]);
    }
    assert_int_equal(backoff_wait_ns(&p, UINT64_MAX), 70);
    const struct backoff_policy gentle = {.first_ns = 1000, .max_ns = 2000, .growth_percent = 160};
    assert_int_equal(backoff_wait_ns(&gentle, 1), 1600);
    assert_int_equal(backoff_wait_ns(&gentle, 2), 2000);
}

static void odd_policies_do_no_harm(void **state)
{
    (void)state;
    struct rng_seeded r;
    rng_seeded_init(&r, 1);
    const struct backoff_policy huge = {
        .first_ns = INT64_MAX / 3, .max_ns = INT64_MAX / 2, .sooner_percent = 100};
    assert_int_equal(backoff_wait_ns(&huge, 1), INT64_MAX / 2);
    assert_int_equal(backoff_wait_ns(&huge, 1000), INT64_MAX / 2);
    int64_t spread = backoff_spread_ns(&huge, INT64_MAX / 2, &r.rng);
    assert_true(spread >= 0 && spread <= INT64_MAX / 2);
    const struct backoff_policy flat = {.first_ns = 7, .max_ns = 100, .growth_percent = 100};
    assert_int_equal(backoff_wait_ns(&flat, UINT64_MAX), 7); // and it ends
    const struct backoff_policy none = {0};
    assert_int_equal(backoff_wait_ns(&none, UINT64_MAX), 0);
    assert_int_equal(backoff_spread_ns(&none, 0, &r.rng), 0);
    const struct backoff_policy capped = {.first_ns = 100, .max_ns = 10};
    assert_int_equal(backoff_wait_ns(&capped, 0), 10);
}

static void chance_spreads_within_the_bounds(void **state)
{
    (void)state;
    struct rng_seeded r;
    rng_seeded_init(&r, 2);
    const struct backoff_policy p = {.sooner_percent = 20, .later_percent = 50};
    int64_t least = INT64_MAX, most = 0;
    for (int i = 0; i < 10000; i++) {
        int64_t wait = backoff_spread_ns(&p, 1000, &r.rng);
        least = wait < least ? wait : least;
        most = wait > most ? wait : most;
    }
    assert_int_equal(least, 800);
    assert_int_equal(most, 1500);
    const struct backoff_policy exact = {0};
    assert_int_equal(backoff_spread_ns(&exact, 1000, &r.rng), 1000);
}

RUN_TESTS(TEST_CASE(waits_double_up_to_the_longest), TEST_CASE(odd_policies_do_no_harm),
          TEST_CASE(chance_spreads_within_the_bounds))

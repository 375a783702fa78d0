// SPDX-License-Identifier: Apache-2.0
//
// clock, civil dates, randomness, uuid.
#include "base/civil.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/uuid.h"
#include "unit.h"

#include "base/banned.h"

static void fake_clock_moves_only_when_told(void **state)
{
    (void)state;
    struct clock_fake f;
    clock_fake_init(&f, 1000);
    assert_int_equal(clock_wall_ns(&f.clock), 1000);
    assert_int_equal(clock_mono_ns(&f.clock), 0);
    clock_fake_advance(&f, 5 * CLOCK_NS_PER_MS);
    assert_int_equal(clock_wall_ns(&f.clock), 5001000);
    assert_int_equal(clock_mono_ns(&f.clock), 5000000);
    const struct clock *c = clock_system();
    int64_t first = clock_mono_ns(c);
    assert_true(clock_mono_ns(c) >= first);
    assert_true(clock_wall_ns(c) > INT64_C(1700000000) * CLOCK_NS_PER_SEC);
}

static void civil_dates_run_without_gaps(void **state)
{
    (void)state;
    struct civil_date d = civil_from_days(0);
    assert_true(d.year == 1970 && d.month == 1 && d.day == 1);
    d = civil_from_days(-719162);
    assert_true(d.year == 1 && d.month == 1 && d.day == 1);
    assert_int_equal(civil_to_days((struct civil_date){9999, 12, 31}), 2932896);
    // Every day of 800 years is valid, follows its predecessor and maps back.
    d = civil_from_days(-200001);
    for (int64_t day = -200000; day < 100000; day++) {
        struct civil_date n = civil_from_days(day);
        assert_true(civil_valid(n));
        assert_int_equal(civil_to_days(n), day);
        bool next_day = n.year == d.year && n.month == d.month && n.day == d.day + 1;
        bool next_month =
            n.day == 1 && (n.month == d.month + 1 || (n.month == 1 && n.year == d.year + 1));
        assert_true(next_day || next_month);
        d = n;
    }
    assert_false(civil_valid((struct civil_date){1900, 2, 29}));
    assert_true(civil_valid((struct civil_date){2000, 2, 29}));
    assert_false(civil_valid((struct civil_date){2026, 4, 31}));
    assert_false(civil_valid((struct civil_date){2026, 13, 1}));
    assert_false(civil_valid((struct civil_date){2026, 0, 1}));
    assert_false(civil_valid((struct civil_date){2026, 1, 0}));
}

static void seeded_randomness_repeats(void **state)
{
    (void)state;
    struct rng_seeded a, b, c;
    rng_seeded_init(&a, 42);
    rng_seeded_init(&b, 42);
    rng_seeded_init(&c, 43);
    bool differs = false;
    for (int i = 0; i < 100; i++) {
        uint64_t v = rng_u64(&a.rng);
        assert_true(v == rng_u64(&b.rng));
        differs |= v != rng_u64(&c.rng);
    }
    assert_true(differs);
    size_t seen[7] = {0};
    for (int i = 0; i < 7000; i++)
        seen[rng_below(&a.rng, 7)]++;
    for (size_t i = 0; i < 7; i++)
        assert_in_range(seen[i], 800, 1200);
    assert_int_equal(rng_below(&a.rng, 1), 0);
    assert_true(rng_u64(rng_system()) != rng_u64(rng_system()));
}

static void uuids_are_version_4_and_in_hex(void **state)
{
    (void)state;
    struct rng_seeded r;
    rng_seeded_init(&r, 7);
    for (int i = 0; i < 100; i++) {
        struct uuid u = uuid_random(&r.rng);
        char text[UUID_TEXT_LEN + 1];
        uuid_write(&u, text);
        assert_int_equal(strlen(text), UUID_TEXT_LEN);
        assert_int_equal(text[14], '4');
        assert_non_null(strchr("89ab", text[19]));
        char want[UUID_TEXT_LEN + 1] = "";
        for (size_t b = 0, at = 0; b < 16; b++, at += 2) {
            if (b == 4 || b == 6 || b == 8 || b == 10)
                want[at++] = '-';
            (void)snprintf(want + at, 3, "%02x", u.bytes[b]);
        }
        assert_string_equal(text, want);
    }
}

RUN_TESTS(TEST_CASE(fake_clock_moves_only_when_told), TEST_CASE(civil_dates_run_without_gaps),
          TEST_CASE(seeded_randomness_repeats), TEST_CASE(uuids_are_version_4_and_in_hex))

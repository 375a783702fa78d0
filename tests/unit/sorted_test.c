// SPDX-License-Identifier: Apache-2.0
#include "base/rand.h"
#include "base/sorted.h"
#include "unit.h"

#include "base/banned.h"

enum { KEYS = 3000 };

static int order(const void *item, const void *key)
{
    uint32_t a = *(const uint32_t *)item, b = *(const uint32_t *)key;
    return a < b ? -1 : a > b;
}

static void check(const struct sorted *s, const bool *there, const uint32_t *values)
{
    struct sorted_place p = {0};
    size_t n = 0;
    for (size_t i = 0; i < KEYS; i++) {
        assert_ptr_equal(sorted_find(s, &values[i]), there[i] ? &values[i] : NULL);
        if (!there[i])
            continue;
        assert_ptr_equal(sorted_at(s, p), &values[i]);
        p = sorted_step(s, p);
        n++;
    }
    assert_null(sorted_at(s, p));
    assert_int_equal(s->len, n);
}

static void check_seek(const struct sorted *s, const bool *there, const uint32_t *values, size_t at)
{
    for (int at_too = 0; at_too < 2; at_too++) {
        size_t i = at_too ? at : at + 1;
        while (i < KEYS && !there[i])
            i++;
        const void *found = sorted_at(s, sorted_seek(s, &values[at], at_too));
        assert_ptr_equal(found, i < KEYS ? &values[i] : NULL);
    }
}

static void agrees_with_a_plain_array(void **state)
{
    (void)state;
    static uint32_t values[KEYS];
    static bool there[KEYS];
    struct rng_seeded rng;
    struct sorted s;
    sorted_init(&s, order);
    rng_seeded_init(&rng, 3);
    for (size_t i = 0; i < KEYS; i++)
        values[i] = (uint32_t)i * 2;
    // Fuller, then emptier: blocks split and join.
    for (size_t step = 0; step < 40000; step++) {
        size_t at = (size_t)rng_below(&rng.rng, KEYS);
        bool add = rng_below(&rng.rng, 10) < (step < 20000 ? 7U : 2U);
        uint64_t changes = s.changes;
        if (add)
            assert_true(sorted_add(&s, &values[at], &values[at]) == !there[at]);
        else
            assert_ptr_equal(sorted_remove(&s, &values[at]), there[at] ? &values[at] : NULL);
        assert_int_equal(s.changes - changes, there[at] != add);
        there[at] = add;
        check_seek(&s, there, values, (size_t)rng_below(&rng.rng, KEYS));
        if (step % 4000 == 0)
            check(&s, there, values);
    }
    check(&s, there, values);
    for (size_t i = 0; i < KEYS; i++)
        (void)sorted_remove(&s, &values[i]);
    assert_int_equal(s.len, 0);
    assert_null(sorted_at(&s, sorted_seek(&s, &values[0], true)));
    // In order, as a list comes.
    for (size_t i = 0; i < KEYS; i++) {
        assert_true(sorted_add(&s, &values[i], &values[i]));
        there[i] = true;
    }
    check(&s, there, values);
    sorted_done(&s);
    assert_null(sorted_find(&s, &values[0]));
    sorted_done(&s);
}

RUN_TESTS(TEST_CASE(agrees_with_a_plain_array))

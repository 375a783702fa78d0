// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' matching rules (src/api/match), row by row.
#include "api/match/device_taint.h"
#include "unit.h"

#include "base/banned.h"

// Seconds: NONE: the field is not there.
#define NONE    (-1000)
#define FOREVER (-1) // the answer: not evicted

static struct api_device_toleration toleration(const char *key, const char *operator,
                                               const char * value, const char *effect, int64_t s)
{
    return (struct api_device_toleration){.key = str_z(key),
                                          .operator= str_z(operator),
                                          .value = str_z(value),
                                          .effect = str_z(effect),
                                          .toleration_seconds = s == NONE ? 0 : s,
                                          .has_toleration_seconds = s != NONE};
}

static const struct api_device_taint broken = {
    .key = STR_INIT("broken"), .value = STR_INIT("v"), .effect = STR_INIT("NoExecute")};

// Rows with upstream's answers: a device with the taint broken=v:NoExecute may be chosen; its pods leave after so long.
static void one_toleration(void **state)
{
    (void)state;
    static const struct {
        const char *key, *operator, * value, *effect;
        int64_t seconds;
        bool chosen;
        int64_t leaves_s;
    } rows[] = {
        // Choosing takes any effect where none is named; staying needs the effect.
        {"broken", "Exists", "", "", NONE, true, 0},
        {"broken", "Exists", "", "NoExecute", NONE, true, FOREVER},
        {"broken", "Exists", "", "NoSchedule", NONE, false, 0},
        {"", "Exists", "", "", NONE, true, 0},
        {"", "Exists", "", "NoExecute", NONE, true, FOREVER},
        {"other", "Exists", "", "NoExecute", NONE, false, 0},
        {"broken", "Equal", "v", "NoExecute", NONE, true, FOREVER},
        {"broken", "Equal", "w", "NoExecute", NONE, false, 0},
        {"broken", "", "v", "NoExecute", NONE, true, FOREVER}, // Equal is the default
        {"broken", "", "", "NoExecute", NONE, false, 0},
        {"", "", "v", "NoExecute", NONE, true, FOREVER},
        {"broken", "Gt", "v", "NoExecute", NONE, false, 0}, // unknown
        {"broken", "Exists", "", "NoExecute", 300, true, 300},
        {"broken", "Exists", "", "NoExecute", 0, true, 0},
        {"broken", "Exists", "", "NoExecute", -7, true, 0},
        {"broken", "Exists", "", "", 300, true, 0}, // without the effect the seconds are nothing
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        struct api_device_toleration t = toleration(rows[i].key, rows[i].operator, rows[i].value,
                                                    rows[i].effect, rows[i].seconds);
        const struct api_device_toleration_array all = {&t, 1};
        int64_t wait = FOREVER;
        bool evicts = device_taint_evicts(&all, &broken, &wait);
        if (device_taint_is_tolerated(&all, &broken) != rows[i].chosen ||
            evicts != (rows[i].leaves_s != FOREVER) || wait != rows[i].leaves_s)
            fail_msg("row %zu: chosen %d, leaves after %lld", i, !rows[i].chosen, (long long)wait);
    }
}

static void several_tolerations(void **state)
{
    (void)state;
    struct api_device_toleration t[] = {toleration("broken", "Exists", "", "NoExecute", 60),
                                        toleration("", "Exists", "", "NoExecute", 20),
                                        toleration("other", "Exists", "", "NoExecute", 5),
                                        toleration("broken", "Equal", "v", "NoExecute", NONE)};
    int64_t wait = 0;
    assert_true(device_taint_evicts(&(struct api_device_toleration_array){t, 3}, &broken, &wait));
    assert_int_equal(wait, 20); // the shortest that matches
    assert_false(device_taint_evicts(&(struct api_device_toleration_array){t, 4}, &broken, &wait));
    assert_true(device_taint_evicts(&(struct api_device_toleration_array){0}, &broken, &wait));
    assert_int_equal(wait, 0);
    // A rule with the effect None is asked about as if it evicted.
    struct api_device_taint none = broken;
    none.effect = STR("None");
    assert_false(device_taint_evicts(&(struct api_device_toleration_array){t, 4}, &none, &wait));
}

static void rules_select_devices(void **state)
{
    (void)state;
    struct str driver = STR("d"), pool = STR("p"), device = STR("x"), other = STR("y");
    struct api_device_taint_selector s = {0};
    assert_false(device_taint_selects(NULL, driver, pool, &device));
    assert_true(device_taint_selects(&s, driver, pool, &device)); // an empty one is for all
    s = (struct api_device_taint_selector){
        .driver = driver, .has_driver = true, .device = device, .has_device = true};
    assert_true(device_taint_selects(&s, driver, pool, &device));
    assert_false(device_taint_selects(&s, driver, pool, &other));
    assert_false(device_taint_selects(&s, other, pool, &device));
    assert_true(device_taint_selects(&s, driver, pool, NULL));
    s.pool = other;
    s.has_pool = true;
    assert_false(device_taint_selects(&s, driver, pool, &device));
    assert_false(device_taint_selects(&s, driver, pool, NULL));
}

RUN_TESTS(TEST_CASE(one_toleration), TEST_CASE(several_tolerations),
          TEST_CASE(rules_select_devices))

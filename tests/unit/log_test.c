// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"
#include "unit.h"

#include "base/banned.h"

static struct sbuf written;
static struct clock_fake fake;

static void keep(void *ctx, enum log_level level, struct str record)
{
    (void)ctx;
    (void)level;
    sbuf_add(&written, record);
}

static int setup(void **state)
{
    (void)state;
    // 2026-11-15T12:00:00.5Z
    clock_fake_init(&fake, INT64_C(1794744000) * CLOCK_NS_PER_SEC + 500 * CLOCK_NS_PER_MS);
    log_configure(keep, NULL, LOG_FORMAT_TEXT, &fake.clock);
    return log_set_levels((struct str){0}, NULL);
}

static int teardown(void **state)
{
    (void)state;
    sbuf_done(&written);
    log_configure(NULL, NULL, LOG_FORMAT_TEXT, NULL);
    return 0;
}

static struct log_module mod = LOG_MODULE("sched");

static void writes_text_lines(void **state)
{
    (void)state;
    LOG_INFO(&mod, "pod bound", log_z("pod", "default/a"), log_i64("ms", -3),
             log_z("why", "two words"), log_bool("ok", true), log_u64("n", 7), log_z("none", ""));
    LOG_WARN(&mod, "bare");
    assert_string_equal(written.p,
                        "2026-11-15T12:00:00.500000Z info  sched: pod bound pod=default/a ms=-3 "
                        "why=\"two words\" ok=true n=7 none=\"\"\n"
                        "2026-11-15T12:00:00.500000Z warn  sched: bare\n");
}

static void writes_json_lines(void **state)
{
    (void)state;
    log_configure(keep, NULL, LOG_FORMAT_JSON, &fake.clock);
    LOG_ERROR(&mod, "say \"no\"", log_str("bytes", STR("a\n\xff")));
    assert_string_equal(written.p, "{\"time\":\"2026-11-15T12:00:00.500000Z\",\"level\":\"error\","
                                   "\"module\":\"sched\",\"msg\":\"say \\\"no\\\"\","
                                   "\"bytes\":\"a\\u000a\xef\xbf\xbd\"}\n");
}

static void levels_are_per_module(void **state)
{
    (void)state;
    static struct log_module other = LOG_MODULE("store");
    struct err err;
    LOG_DEBUG(&mod, "hidden by default");
    assert_int_equal(written.n, 0);
    assert_int_equal(log_set_levels(STR("warn, sched=debug"), &err), 0);
    LOG_INFO(&other, "hidden");
    assert_int_equal(written.n, 0);
    LOG_DEBUG(&mod, "seen");
    assert_true(written.n > 0);
    // The module's own level wins whatever the order.
    assert_int_equal(log_set_levels(STR("sched=error,debug"), &err), 0);
    assert_false(log_enabled(&mod, LOG_LEVEL_WARN));
    assert_true(log_enabled(&other, LOG_LEVEL_DEBUG));
    assert_int_equal(log_set_levels(STR("info,sched=loud"), &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "sched=loud"));
    assert_false(log_enabled(&mod, LOG_LEVEL_WARN));
}

static void say_again(void)
{
    LOG_INFO(&mod, "again");
}

static size_t lines(void)
{
    size_t n = 0;
    for (size_t i = 0; i < written.n; i++)
        n += written.p[i] == '\n';
    return n;
}

static void repeats_are_held_back_and_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++)
        say_again();
    assert_int_equal(lines(), LOG_SITE_BURST);
    clock_fake_advance(&fake, CLOCK_NS_PER_SEC);
    sbuf_clear(&written);
    for (int i = 0; i < 1000; i++)
        say_again();
    assert_int_equal(lines(), LOG_SITE_PER_SEC);
    assert_non_null(strstr(written.p, "again suppressed=950\n"));
    // Another site is not affected.
    sbuf_clear(&written);
    LOG_INFO(&mod, "other");
    assert_int_equal(lines(), 1);
}

static void long_records_are_cut_whole_fields_at_a_time(void **state)
{
    (void)state;
    char big[DRAY_LOG_RECORD_MAX];
    memset(big, 'x', sizeof(big));
    log_configure(keep, NULL, LOG_FORMAT_JSON, &fake.clock);
    LOG_INFO(&mod, "m", log_z("a", "1"), log_str("big", str_make(big, sizeof(big))),
             log_z("b", "2"));
    assert_non_null(strstr(written.p, "\"a\":\"1\",\"cut\":true}\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_text_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(writes_json_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(levels_are_per_module, setup, teardown),
        cmocka_unit_test_setup_teardown(repeats_are_held_back_and_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(long_records_are_cut_whole_fields_at_a_time, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

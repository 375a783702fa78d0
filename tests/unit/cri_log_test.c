// SPDX-License-Identifier: Apache-2.0
#include "node/runtime/cri_log.h"
#include "unit.h"

#include "base/banned.h"

static const char text[] = "2026-11-16T09:00:01Z stdout F one\n"
                           "2026-11-16T09:00:02.5Z stderr F two\n"
                           "2026-11-16T09:00:03.123456789+02:00 stdout P thr\n"
                           "2026-11-16T09:00:04Z stdout F ee\n"
                           "no log line\n"
                           "2026-11-16T09:00:05Z stdin F no stream\n"
                           "2026-11-16T09:00:06Z stdout F:x  spaces \n"
                           "2026-11-16T09:00:07Z stdout F last";

// What a log says however it is cut.
static void expect(struct cri_log_options options, int stream, const char *want)
{
    for (size_t cut = 1; cut < sizeof(text); cut += 7) {
        struct cri_log l = {.options = options};
        cleanup_sbuf struct sbuf out = {0};
        struct str rest = str_make(text, sizeof(text) - 1);
        bool more = true;
        while (rest.n && more) {
            more = cri_log_read(&l, str_upto(rest, cut), stream, &out);
            rest = str_from(rest, cut);
        }
        if (more)
            cri_log_end(&l, stream, &out);
        assert_str(sbuf_str(&out), want);
        cri_log_done(&l);
    }
}

static void reads_what_kubelet_reads(void **state)
{
    (void)state;
    struct cri_log_options all = {.limit_bytes = -1};
    expect(all, 0, "one\ntwo\nthree\n spaces \nlast");
    expect(all, 2, "two\n");
    all.no_stdout = true;
    expect(all, 0, "two\n");
    all = (struct cri_log_options){.limit_bytes = 6};
    expect(all, 0, "one\ntw");
    all = (struct cri_log_options){.limit_bytes = -1};
    assert_int_equal(rfc3339_parse(STR("2026-11-16T09:00:04Z"), &all.since, NULL), 0);
    expect(all, 0, "ee\n spaces \nlast");
}

static void shows_times_with_nine_digits(void **state)
{
    (void)state;
    const struct cri_log_options o = {.limit_bytes = -1, .timestamps = true};
    expect(o, 0,
           "2026-11-16T09:00:01.000000000Z one\n"
           "2026-11-16T09:00:02.500000000Z two\n"
           "2026-11-16T09:00:03.123456789+02:00 three\n"
           "2026-11-16T09:00:06.000000000Z  spaces \n"
           "2026-11-16T09:00:07.000000000Z last");
}

static void drops_lines_without_end(void **state)
{
    (void)state;
    struct cri_log l = {.options = {.limit_bytes = -1}};
    cleanup_sbuf struct sbuf out = {0}, block = {0};
    sbuf_add_repeat(&block, 'x', 300000);
    for (int i = 0; i < 10; i++)
        assert_true(cri_log_read(&l, sbuf_str(&block), 0, &out));
    assert_true(l.line.n <= CRI_LOG_LINE_MAX);
    assert_true(cri_log_read(&l, STR("\n2026-11-16T09:00:01Z stdout F one\n"), 0, &out));
    assert_str(sbuf_str(&out), "one\n");
    assert_int_equal(l.not_understood, 1);
    cri_log_done(&l);
}

RUN_TESTS(TEST_CASE(reads_what_kubelet_reads), TEST_CASE(shows_times_with_nine_digits),
          TEST_CASE(drops_lines_without_end))

// SPDX-License-Identifier: Apache-2.0
//
// The rules of time zones beyond the tables of TZif files, compared with the C library's reading of the same rules.
#include <stdlib.h>
#include <time.h>

#include "base/rand.h"
#include "cel/lib/posix_tz.h"
#include "unit.h"

#include "base/banned.h"

static const char *const rules[] = {
    "UTC0",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "EST5EDT,M3.2.0,M11.1.0",
    "<-03>3",
    "<+0545>-5:45",
    "NZST-12NZDT,M9.5.0,M4.1.0/3",
    "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
    "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
    "EET-2EEST,M3.4.4/50,M10.4.4/50",
    "AAA3BBB,J60/0,J300",
    "AAA3BBB2,59,299/1:30",
};

static void as_the_c_library_reads_them(void **state)
{
    struct rng_seeded r;
    (void)state;
    rng_seeded_init(&r, 5);
    for (size_t i = 0; i < array_len(rules); i++) {
        assert_int_equal(setenv("TZ", rules[i], 1), 0); // NOLINT(concurrency-mt-unsafe): a test
        tzset();
        for (int k = 0; k < 3000; k++) {
            // From 1972 to 2300.
            time_t t = (time_t)(63072000 + (int64_t)rng_below(&r.rng, 10350000000));
            struct tm local;
            int64_t offset = -1;
            assert_non_null(localtime_r(&t, &local));
            assert_true(cel_posix_tz_offset(str_z(rules[i]), t, &offset));
            if (offset != local.tm_gmtoff)
                fail_msg("%s at %lld: %lld, not %ld", rules[i], (long long)t, (long long)offset,
                         local.tm_gmtoff);
        }
    }
}

static void what_is_no_rule_is_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "AB1",
        "CET",
        "<CET-1",
        "CET-",
        "CET-1CEST,",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M13.1.0,M1.1.0",
        "CET-1CEST,M3.6.0,M1.1.0",
        "CET-1CEST,M3.5.7,M1.1.0",
        "CET-1CEST,M3.5.0/x,M10.5.0",
        "CET-1CEST,Jx,J1",
        "CET-1CE,M3.5.0,M10.5.0",
    };
    (void)state;
    for (size_t i = 0; i < array_len(bad); i++) {
        int64_t offset;
        if (cel_posix_tz_offset(str_z(bad[i]), 0, &offset))
            fail_msg("'%s' is taken", bad[i]);
    }
    // Any bytes are survived.
    struct rng_seeded r;
    rng_seeded_init(&r, 6);
    for (int k = 0; k < 20000; k++) {
        cleanup_sbuf struct sbuf text = {0};
        int64_t offset;
        sbuf_addz(&text, rules[rng_below(&r.rng, array_len(rules))]);
        for (int n = 0; n < 3; n++)
            text.p[rng_below(&r.rng, text.n)] = (char)rng_below(&r.rng, 128);
        (void)cel_posix_tz_offset(str_make(text.p, rng_below(&r.rng, text.n + 1)),
                                  (int64_t)rng_below(&r.rng, 10000000000), &offset);
    }
}

RUN_TESTS(TEST_CASE(as_the_c_library_reads_them), TEST_CASE(what_is_no_rule_is_refused))

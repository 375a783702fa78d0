// SPDX-License-Identifier: Apache-2.0
#include "codec/percent.h"
#include "net/grpc/grpc_wire.h"
#include "unit.h"

#include "base/banned.h"

static void timeouts_are_read_and_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {{"1n", 1},
                {"250u", 250000},
                {"99999999m", INT64_C(99999999) * 1000000},
                {"5S", INT64_C(5000000000)},
                {"2M", INT64_C(120000000000)},
                {"1H", INT64_C(3600000000000)},
                {"0m", 0}};
    for (size_t i = 0; i < array_len(good); i++) {
        int64_t ns = -1;
        assert_int_equal(grpc_timeout_read(str_z(good[i].text), &ns), 0);
        assert_int_equal(ns, good[i].ns);
    }
    int64_t huge = 0;
    assert_int_equal(grpc_timeout_read(STR("99999999H"), &huge), 0);
    assert_true(huge > 0);
    static const char *const bad[] = {"", "1", "m", "123456789m", "-1m", "1 m", "1x", "1.5S"};
    for (size_t i = 0; i < array_len(bad); i++) {
        int64_t ns = 7;
        assert_int_equal(grpc_timeout_read(str_z(bad[i]), &ns), -ERR_BAD_REQUEST);
        assert_int_equal(ns, 7);
    }
    static const struct {
        int64_t ns;
        const char *text;
    } rows[] = {{1, "1n"},
                {99999999, "99999999n"},
                {100000000, "100000u"},
                {100000001, "100001u"},
                {-5, "0n"},
                {INT64_C(45000000000), "45000000u"},
                {INT64_MAX, "2562048H"}};
    for (size_t i = 0; i < array_len(rows); i++) {
        struct sbuf out = {0};
        grpc_timeout_write(rows[i].ns, &out);
        if (rows[i].ns != INT64_MAX)
            assert_str(sbuf_str(&out), rows[i].text);
        int64_t back = 0;
        assert_int_equal(grpc_timeout_read(sbuf_str(&out), &back), 0);
        if (rows[i].ns > 0 && rows[i].ns != INT64_MAX)
            assert_true(back >= rows[i].ns); // never earlier than meant
        sbuf_done(&out);
    }
}

static void messages_survive_percent_encoding(void **state)
{
    (void)state;
    struct arena a = {0};
    struct sbuf out = {0};
    struct str text = STR("50% of \xc3\xa9\n\x01 done");
    grpc_percent_encode(text, &out);
    assert_str(sbuf_str(&out), "50%25 of %C3%A9%0A%01 done");
    assert_true(str_eq(percent_decode_lenient(sbuf_str(&out), &a), text));
    assert_str(percent_decode_lenient(STR("%"), &a), "%");
    assert_str(percent_decode_lenient(STR("%4"), &a), "%4");
    assert_str(percent_decode_lenient(STR("%zz%41"), &a), "%zzA");
    assert_str(percent_decode_lenient(STR("a%4"), &a), "a%4");
    sbuf_done(&out);
    arena_done(&a);
}

static void frames_are_found(void **state)
{
    (void)state;
    struct str message = {0};
    size_t used = 9;
    assert_int_equal(grpc_frame_next(STR("\0\0\0\0\2hi rest"), 10, &message, &used), GRPC_OK);
    assert_int_equal(used, 7);
    assert_str(message, "hi");
    assert_int_equal(grpc_frame_next(STR("\0\0\0\0\2h"), 10, &message, &used), GRPC_OK);
    assert_int_equal(used, 0);
    assert_int_equal(grpc_frame_next(STR("\0\0"), 10, &message, &used), GRPC_OK);
    assert_int_equal(used, 0);
    assert_int_equal(grpc_frame_next(STR("\0\0\0\0\0"), 10, &message, &used), GRPC_OK);
    assert_int_equal(used, 5);
    assert_int_equal(grpc_frame_next(STR("\0\0\0\0\x0b"), 10, &message, &used),
                     GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(grpc_frame_next(STR("\0\xff\xff\xff\xff"), 10, &message, &used),
                     GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(grpc_frame_next(STR("\1"), 10, &message, &used), GRPC_UNIMPLEMENTED);
    assert_int_equal(grpc_frame_next(STR("\2"), 10, &message, &used), GRPC_INTERNAL);
    char prefix[GRPC_PREFIX_BYTES];
    grpc_prefix(prefix, 0x01020304);
    assert_memory_equal(prefix, "\0\1\2\3\4", 5);
}

static void statuses_and_names(void **state)
{
    (void)state;
    assert_int_equal(grpc_status_read(STR("0")), GRPC_OK);
    assert_int_equal(grpc_status_read(STR("16")), GRPC_UNAUTHENTICATED);
    assert_int_equal(grpc_status_read(STR("17")), GRPC_UNKNOWN);
    assert_int_equal(grpc_status_read(STR("x")), GRPC_UNKNOWN);
    assert_string_equal(grpc_status_name(GRPC_DEADLINE_EXCEEDED), "DEADLINE_EXCEEDED");
    assert_string_equal(grpc_status_name((enum grpc_status)99), "UNKNOWN");
    assert_int_equal(grpc_status_of_http(404), GRPC_UNIMPLEMENTED);
    assert_int_equal(grpc_status_of_http(503), GRPC_UNAVAILABLE);
    assert_true(grpc_meta_reserved(STR("grpc-timeout")));
    assert_true(grpc_meta_reserved(STR("Upper")));
    assert_true(grpc_meta_reserved(STR("te")));
    assert_true(grpc_meta_reserved(STR("")));
    assert_false(grpc_meta_reserved(STR("x-trace-bin")));
}

RUN_TESTS(TEST_CASE(timeouts_are_read_and_written), TEST_CASE(messages_survive_percent_encoding),
          TEST_CASE(frames_are_found), TEST_CASE(statuses_and_names))

// SPDX-License-Identifier: Apache-2.0
//
// quantity, semver, RFC 3339, base64: the rules by hand. values_rows_test compares the first two
// with upstream at large.
#include "base/arena.h"
#include "codec/base64.h"
#include "codec/quantity.h"
#include "codec/rfc3339.h"
#include "codec/semver.h"
#include "unit.h"

#include "base/banned.h"

static void quantities_are_written_canonically(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"0", "0"},
        {"-0", "0"},
        {"1.5", "1500m"},
        {"1.5Gi", "1536Mi"},
        {"80Gi", "80Gi"},
        {"1024Mi", "1Gi"},
        {"1023", "1023"},
        {"0.5Ki", "512"},
        {"1000", "1k"},
        {"1e3", "1e3"},
        {"1500e0", "1500"},
        {"0.1n", "1n"}, // rounded up: who asks for something gets something
        {"-0.1n", "-1n"},
        {"123456789012345678901234567890", "123456789012345678901234567890"},
        {"1000000000000000000000000", "1"}, // 10^24 has no suffix: upstream writes none either
        {"16Ei", "9223372036854775807"},
        {"-16Ei", "-9223372036854775807"},
        {"0.001Ki", "1024m"},
        {"100000e-3", "100"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_arena struct arena a = {0};
        cleanup_sbuf struct sbuf b = {0};
        struct quantity q;
        assert_int_equal(quantity_parse(str_z(cases[i].in), &a, &q, NULL), 0);
        quantity_write_canonical(&q, &b);
        assert_string_equal(b.p, cases[i].out);
    }
}

static void expect_same_quantity(const struct quantity *x, const struct quantity *y)
{
    cleanup_sbuf struct sbuf b = {0}, c = {0};
    assert_int_equal(quantity_cmp(x, y), 0);
    assert_int_equal(x->scale, y->scale);
    assert_int_equal(x->format, y->format);
    assert_int_equal(x->decimal, y->decimal);
    assert_int_equal(!x->big, !y->big);
    quantity_write_canonical(x, &b);
    quantity_write_canonical(y, &c);
    assert_string_equal(b.p, c.p);
}

// Short texts have ways of their own, which a zero in front and a sign lead away from: all must make
// the same of a number.
static void quantities_are_the_same_whichever_way_they_are_read(void **state)
{
    (void)state;
    static const char *const texts[] = {
        // clang-format off
        "4", "1000", "5000m", "100m", "7u", "3n", "2k", "9E", "1.5", "1.", "1.500", "2.5k", "1.5n",
        "1.0000000001", "1.5m", "80Gi", "8Ki", "1023Mi", "2Pi", "1Ei", "7Ei", "7.999Ei", "8Ei",
        "15Pi", "1.5Gi", "1.00000001E", "1.5Ei", "999999999Ki", "1e3", "12e6", "1E", "12.5e-3",
        "0.5Ki", "0.01Ki", "0.0001Ki", "8589.Mi", "8.388608", "0Ki", "0.0Pi", "0.008388608Ti",
        "0.000000001Ki",
        // clang-format on
    };
    for (size_t i = 0; i < array_len(texts); i++) {
        cleanup_arena struct arena a = {0};
        struct quantity q, zero, minus;
        assert_int_equal(quantity_parse(str_z(texts[i]), &a, &q, NULL), 0);
        assert_int_equal(quantity_parse(arena_strf(&a, "+00%s", texts[i]), &a, &zero, NULL), 0);
        assert_int_equal(quantity_parse(arena_strf(&a, "-%s", texts[i]), &a, &minus, NULL), 0);
        expect_same_quantity(&q, &zero);
        assert_int_equal(!q.original.n, !zero.original.n);
        assert_int_equal(!q.original.n, !minus.original.n);
        quantity_neg(&minus, &minus, &a);
        expect_same_quantity(&q, &minus);
    }
}

static void bad_quantities_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *in, *msg;
    } cases[] = {
        {"", "quantities must match the regular expression"},
        {"ten", "quantities must match the regular expression"},
        {"1 Gi", "quantities must match the regular expression"},
        {"1..5", "quantities must match the regular expression"},
        {"0x10", "quantities must match the regular expression"},
        {"1GiB", "quantities must match the regular expression"},
        {"1Gii", "unable to parse quantity's suffix"},
        {"1e", "unable to parse quantity's suffix"},
        {"1e99999999999999999999", "unable to parse quantity's suffix"},
        {"Ei", "unable to parse numeric part of quantity"},
        {"1e1000000000", "exponent 1000000000 is out of range"},
        {"1e-10001", "exponent -10001 is out of range"},
        {"1e10000", "exponent 10000 is out of range (-10000 to 9999)"},
        {"1000e9997", "exponent 9997 is out of range (-10000 to 9996)"},
    };
    cleanup_arena struct arena a = {0};
    struct quantity q = {.value = 42};
    for (size_t i = 0; i < array_len(cases); i++) {
        struct err err = {0};
        assert_int_equal(quantity_parse(str_z(cases[i].in), &a, &q, &err), -ERR_INVALID);
        assert_non_null(strstr(err.msg, cases[i].msg));
    }
    char big[DRAY_QUANTITY_TEXT_MAX + 1];
    memset(big, '9', sizeof(big));
    assert_int_equal(quantity_parse(str_make(big, sizeof(big)), &a, &q, NULL), -ERR_INVALID);
    assert_int_equal(q.value, 42); // untouched by failures
    assert_int_equal(quantity_parse(str_make(big, sizeof(big) - 1), &a, &q, NULL), 0);
}

static void quantities_far_apart_compare_without_their_digits(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct quantity large, small, same, sum;
    assert_int_equal(quantity_parse(STR("1e9999"), &a, &large, NULL), 0);
    assert_int_equal(quantity_parse(STR("1n"), &a, &small, NULL), 0);
    assert_int_equal(quantity_parse(STR("1000e9996"), &a, &same, NULL), 0);
    assert_true(quantity_cmp(&large, &small) > 0);
    assert_true(quantity_cmp(&small, &large) < 0);
    assert_int_equal(quantity_cmp(&large, &same), 0);
    quantity_add(&sum, &large, &small, &a);
    assert_true(quantity_cmp(&sum, &large) > 0);
    quantity_sub(&sum, &sum, &large, &a);
    assert_int_equal(quantity_cmp(&sum, &small), 0);
}

static void semantic_versions_follow_precedence(void **state)
{
    (void)state;
    static const char *const ascending[] = {
        "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta",
        "1.0.0-beta",  "1.0.0-beta.2",  "1.0.0-beta.11",
        "1.0.0-rc.1",  "1.0.0",         "1.0.1",
        "1.2.0",       "2.0.0",         "10.0.0",
    };
    for (size_t i = 0; i < array_len(ascending); i++) {
        for (size_t k = 0; k < array_len(ascending); k++) {
            struct semver x, y;
            assert_int_equal(semver_parse(str_z(ascending[i]), &x, NULL), 0);
            assert_int_equal(semver_parse(str_z(ascending[k]), &y, NULL), 0);
            assert_int_equal(semver_cmp(&x, &y), (i > k) - (i < k));
        }
    }
    struct semver with, without;
    assert_int_equal(semver_parse(STR("1.0.0+build.7"), &with, NULL), 0);
    assert_int_equal(semver_parse(STR("1.0.0"), &without, NULL), 0);
    assert_int_equal(semver_cmp(&with, &without), 0);
}

static void bad_versions_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       "1",      "1.2",    "01.2.3",     "1.02.3",     "1.2.03",
        "v1.2.3", "1.2.3-", "1.2.3+", "1.2.3-a..b", "1.2.3-01",   "1.2.3+a+b",
        "1.2.x",  "-1.2.3", " 1.2.3", "1.2.3 ",     "1.2.3-\xff", "18446744073709551616.0.0"};
    struct semver v;
    for (size_t i = 0; i < array_len(bad); i++)
        assert_int_equal(semver_parse(str_z(bad[i]), &v, NULL), -ERR_INVALID);
    cleanup_arena struct arena a = {0};
    assert_int_equal(semver_parse_tolerant(STR("v01.2"), &a, &v, NULL), 0);
    assert_true(v.major == 1 && v.minor == 2 && v.patch == 0);
    struct err err = {0};
    assert_int_equal(semver_parse_tolerant(STR("1.2-rc"), &a, &v, &err), -ERR_INVALID);
    assert_string_equal(err.msg, "short version cannot contain PreRelease/Build meta data");
}

static void times_read_and_write(void **state)
{
    (void)state;
    static const struct {
        const char *in, *seconds, *micros, *nanos;
    } cases[] = {
        {"1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000000Z",
         "1970-01-01T00:00:00Z"},
        {"2026-11-15T12:34:56.789012345+02:00", "2026-11-15T10:34:56Z",
         "2026-11-15T10:34:56.789012Z", "2026-11-15T10:34:56.789012345Z"},
        {"1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59Z", "1969-12-31T23:59:59.500000Z",
         "1969-12-31T23:59:59.5Z"},
        {"0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z",
         "0001-01-01T00:00:00Z"},
        {"9999-12-31T23:59:59.9999999999Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z",
         "9999-12-31T23:59:59.999999999Z"},
        {"2024-02-29T00:00:00-00:30", "2024-02-29T00:30:00Z", "2024-02-29T00:30:00.000000Z",
         "2024-02-29T00:30:00Z"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct moment m;
        cleanup_sbuf struct sbuf s = {0}, u = {0}, n = {0};
        assert_int_equal(rfc3339_parse(str_z(cases[i].in), &m, NULL), 0);
        rfc3339_write_seconds(m, &s);
        rfc3339_write_micros(m, &u);
        rfc3339_write_nanos(m, &n);
        assert_string_equal(s.p, cases[i].seconds);
        assert_string_equal(u.p, cases[i].micros);
        assert_string_equal(n.p, cases[i].nanos);
    }
    assert_true(moment_from_ns(-1).sec == -1 && moment_from_ns(-1).nsec == 999999999);
    assert_true(moment_cmp(moment_from_ns(-1), moment_from_ns(0)) < 0);
    assert_true(moment_cmp(moment_from_ns(7), moment_from_ns(6)) > 0);
}

static void bad_times_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026",
        "2026-11-15",
        "2026-11-15T12:00:00",
        "2026-11-15 12:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-15T24:00:00Z",
        "2026-11-15T12:60:00Z",
        "2026-11-15T12:00:60Z",
        "2026-11-15T12:00:00.Z",
        "2026-11-15T12:00:00z",
        "2026-11-15t12:00:00Z",
        "2026-11-15T12:00:00+25:00",
        "2026-11-15T12:00:00+0200",
        "2026-11-15T12:00:00ZZ",
        "226-11-15T12:00:00Z",
        "2026-11-15T1:00:00Z",
        "+2026-11-15T12:00:00Z",
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        struct moment m;
        struct err err = {0};
        assert_int_equal(rfc3339_parse(str_z(bad[i]), &m, &err), -ERR_INVALID);
        assert_non_null(strstr(err.msg, "as a time"));
    }
}

static void base64_reads_and_writes(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        const char *std, *url;
    } cases[] = {
        {STR_INIT(""), "", ""},
        {STR_INIT("f"), "Zg==", "Zg"},
        {STR_INIT("fo"), "Zm8=", "Zm8"},
        {STR_INIT("foo"), "Zm9v", "Zm9v"},
        {STR_INIT("foobar"), "Zm9vYmFy", "Zm9vYmFy"},
        {STR_INIT("\xfb\xff\xfe"), "+//+", "-__-"},
        {STR_INIT("\0\0"), "AAA=", "AAA"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf std = {0}, url = {0}, back = {0};
        base64_encode(cases[i].bytes, BASE64_STD, &std);
        base64_encode(cases[i].bytes, BASE64_URL, &url);
        assert_str(sbuf_str(&std), cases[i].std);
        assert_str(sbuf_str(&url), cases[i].url);
        assert_int_equal(base64_decode(sbuf_str(&std), BASE64_STD, &back, NULL), 0);
        assert_true(str_eq(sbuf_str(&back), cases[i].bytes));
        sbuf_clear(&back);
        assert_int_equal(base64_decode(sbuf_str(&url), BASE64_URL, &back, NULL), 0);
        assert_true(str_eq(sbuf_str(&back), cases[i].bytes));
    }
    cleanup_sbuf struct sbuf out = {0};
    assert_int_equal(base64_decode(STR("Zm9v\r\nYmFy\n"), BASE64_STD, &out, NULL), 0);
    assert_str(sbuf_str(&out), "foobar");
}

static void bad_base64_is_refused_where_it_breaks(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum base64_form form;
        const char *msg;
    } cases[] = {
        {"Zg", BASE64_STD, "at input byte 2"},    {"Zg=", BASE64_STD, "at input byte 3"},
        {"Zg===", BASE64_STD, "at input byte 4"}, {"Zm9vZ", BASE64_STD, "at input byte 5"},
        {"Zm 9v", BASE64_STD, "at input byte 2"}, {"Zg==Zg==", BASE64_STD, "at input byte 4"},
        {"-__-", BASE64_STD, "at input byte 0"},  {"Zg==", BASE64_URL, "at input byte 2"},
        {"+//+", BASE64_URL, "at input byte 0"},  {"=", BASE64_STD, "at input byte 0"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct err err = {0};
        cleanup_sbuf struct sbuf out = {0};
        sbuf_addz(&out, "kept");
        assert_int_equal(base64_decode(str_z(cases[i].text), cases[i].form, &out, &err),
                         -ERR_INVALID);
        assert_non_null(strstr(err.msg, cases[i].msg));
        assert_string_equal(out.p, "kept");
    }
}

RUN_TESTS(TEST_CASE(quantities_are_written_canonically),
          TEST_CASE(quantities_are_the_same_whichever_way_they_are_read),
          TEST_CASE(bad_quantities_are_refused),
          TEST_CASE(quantities_far_apart_compare_without_their_digits),
          TEST_CASE(semantic_versions_follow_precedence), TEST_CASE(bad_versions_are_refused),
          TEST_CASE(times_read_and_write), TEST_CASE(bad_times_are_refused),
          TEST_CASE(base64_reads_and_writes), TEST_CASE(bad_base64_is_refused_where_it_breaks))

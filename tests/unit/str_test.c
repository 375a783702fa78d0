// SPDX-License-Identifier: Apache-2.0
#include "base/str.h"
#include "base/utf8.h"
#include "unit.h"

#include "base/banned.h"

static void compares_and_searches(void **state)
{
    (void)state;
    assert_true(str_eq(STR("a"), STR("a")));
    assert_true(str_eq((struct str){0}, STR("")));
    assert_false(str_eq(STR("a"), STR("ab")));
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("b"), STR("ab")) > 0);
    assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
    assert_true(str_starts(STR("gpu.nvidia.com"), STR("gpu.")));
    assert_false(str_starts(STR("gp"), STR("gpu")));
    assert_true(str_ends(STR("gpu.nvidia.com"), STR(".com")));
    assert_int_equal(str_find(STR("abcabc"), STR("ca")), 2);
    assert_int_equal(str_find(STR("abc"), STR("")), 0);
    assert_int_equal(str_find(STR("abc"), STR("abcd")), -1);
    assert_int_equal(str_rfind_char(STR("a/b/c"), '/'), 3);
    assert_int_equal(str_find_char((struct str){0}, '/'), -1);
}

static void cuts_and_trims(void **state)
{
    (void)state;
    struct str head, tail;
    assert_true(str_cut(STR("key=a=b"), '=', &head, &tail));
    assert_str(head, "key");
    assert_str(tail, "a=b");
    assert_false(str_cut(STR("key"), '=', &head, &tail));
    assert_str(head, "key");
    assert_int_equal(tail.n, 0);
    assert_str(str_trim(STR(" \t x y \r\n")), "x y");
    assert_int_equal(str_trim(STR("  ")).n, 0);
    assert_str(str_from(STR("abc"), 1), "bc");
    assert_int_equal(str_from(STR("abc"), 9).n, 0);
}

static void reads_whole_numbers_only(void **state)
{
    (void)state;
    int64_t i;
    uint64_t u;
    assert_int_equal(str_to_i64(STR("9223372036854775807"), &i), 0);
    assert_true(i == INT64_MAX);
    assert_int_equal(str_to_i64(STR("-9223372036854775808"), &i), 0);
    assert_true(i == INT64_MIN);
    assert_int_equal(str_to_i64(STR("9223372036854775808"), &i), -ERANGE);
    assert_int_equal(str_to_i64(STR("-9223372036854775809"), &i), -ERANGE);
    assert_int_equal(str_to_u64(STR("18446744073709551615"), &u), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(str_to_u64(STR("18446744073709551616"), &u), -ERANGE);
    assert_int_equal(str_to_u64(STR("99999999999999999999999"), &u), -ERANGE);
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "1x", "0x1", "--1", "1.0"};
    for (size_t k = 0; k < array_len(bad); k++)
        assert_int_equal(str_to_i64(str_z(bad[k]), &i), -EINVAL);
}

static void builds_text(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "n=");
    sbuf_add_i64(&b, INT64_MIN);
    sbuf_addc(&b, ',');
    sbuf_add_u64(&b, UINT64_MAX);
    sbuf_addf(&b, ",%03d", 7);
    sbuf_add_repeat(&b, '.', 3);
    assert_string_equal(b.p, "n=-9223372036854775808,18446744073709551615,007...");
    sbuf_truncate(&b, 2);
    assert_string_equal(b.p, "n=");
    char *p = sbuf_take(&b);
    assert_string_equal(p, "n=");
    assert_null(b.p);
    free(p);
    p = sbuf_take(&b);
    assert_string_equal(p, "");
    free(p);
}

static void quotes_as_go_does(void **state)
{
    (void)state;
    static const struct {
        struct str in;
        const char *out;
    } cases[] = {
        {STR_INIT(""), "\"\""},
        {STR_INIT("plain"), "\"plain\""},
        {STR_INIT("a\"b\\c"), "\"a\\\"b\\\\c\""},
        {STR_INIT("\n\t\r\a\b\f\v"), "\"\\n\\t\\r\\a\\b\\f\\v\""},
        {STR_INIT("\x01\x7f"), "\"\\x01\\x7f\""},
        {STR_INIT("\xff\xc3"), "\"\\xff\\xc3\""},
        {STR_INIT("ü€"), "\"ü€\""},
        {STR_INIT("\xc2\xa0"), "\"\\u00a0\""},
        {STR_INIT("\xe2\x80\xa8"), "\"\\u2028\""},
        {STR_INIT("\xf3\xa0\x80\x81"), "\"\\U000e0001\""},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf b = {0};
        sbuf_add_quoted(&b, cases[i].in);
        assert_string_equal(b.p, cases[i].out);
    }
}

static void decodes_utf8_strictly(void **state)
{
    (void)state;
    static const struct {
        struct str in;
        bool valid;
        size_t bad;
    } cases[] = {
        {STR_INIT("a\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"), true, 0},
        {STR_INIT("\xef\xbf\xbf\xf4\x8f\xbf\xbf"), true, 0},
        {STR_INIT("ab\x80"), false, 2},
        {STR_INIT("\xc0\xaf"), false, 0},         // over-long
        {STR_INIT("\xe0\x80\x80"), false, 0},     // over-long
        {STR_INIT("\xf0\x80\x80\x80"), false, 0}, // over-long
        {STR_INIT("\xed\xa0\x80"), false, 0},     // surrogate
        {STR_INIT("\xf4\x90\x80\x80"), false, 0}, // past the last code point
        {STR_INIT("\xf5\x80\x80\x80"), false, 0},
        {STR_INIT("x\xe2\x82"), false, 1}, // cut off
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        size_t bad = 99;
        assert_int_equal(utf8_valid(cases[i].in, &bad), cases[i].valid);
        if (!cases[i].valid)
            assert_int_equal(bad, cases[i].bad);
    }
    assert_int_equal(utf8_count(STR("a\xc3\xbc\xff")), 3);
}

static void encodes_what_it_decodes(void **state)
{
    (void)state;
    for (uint32_t cp = 0; cp <= 0x10FFFF; cp++) {
        char out[4];
        size_t n = utf8_encode(cp, out), len;
        bool surrogate = cp >= 0xD800 && cp <= 0xDFFF;
        uint32_t back = utf8_decode(str_make(out, n), 0, &len);
        assert_int_equal(back, surrogate ? UTF8_REPLACEMENT : cp);
        assert_int_equal(len, n);
    }
}

RUN_TESTS(TEST_CASE(compares_and_searches), TEST_CASE(cuts_and_trims),
          TEST_CASE(reads_whole_numbers_only), TEST_CASE(builds_text), TEST_CASE(quotes_as_go_does),
          TEST_CASE(decodes_utf8_strictly), TEST_CASE(encodes_what_it_decodes))

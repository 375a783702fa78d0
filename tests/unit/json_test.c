// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "codec/json.h"
#include "codec/json_strict.h"
#include "codec/json_writer.h"
#include "unit.h"

#include "base/banned.h"

// NOLINTBEGIN(bugprone-macro-parentheses): it declares doc.
#define PARSE(doc, text)                                          \
    cleanup_json_doc struct json_doc doc = {0};                   \
    do {                                                          \
        struct err parse_err = {0};                               \
        if (json_parse(str_z(text), NULL, &doc, &parse_err) != 0) \
            fail_msg("%s: %s", (text), parse_err.msg);            \
    } while (0)
// NOLINTEND(bugprone-macro-parentheses)

static struct str write_compact(const yyjson_val *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_value(&w, v);
    return sbuf_str(out);
}

// Parses text, which must fail with a message that holds `what` at a position.
static void refuses_at(struct str text, const char *what, size_t line, size_t column)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(json_parse(text, NULL, &doc, &err), -ERR_BAD_REQUEST);
    if (!strstr(err.msg, what))
        fail_msg("wanted \"%s\" in: %s", what, err.msg);
    assert_int_equal(err.line, line);
    assert_int_equal(err.column, column);
}

// --- Reading -------------------------------------------------------------------------------------

static void walks_in_text_order(void **state)
{
    (void)state;
    PARSE(doc, " {\"a\": [1, {\"x\": null}, \"s\"], \"b\": {}, \"c\": true} ");
    assert_int_equal(doc.count, 12);
    cleanup_sbuf struct sbuf keys = {0};
    json_obj_foreach(doc.root, key, val) {
        sbuf_add(&keys, json_str(key));
        sbuf_addf(&keys, "=%s ", json_type_name(val));
    }
    assert_str(sbuf_str(&keys), "a=array b=object c=bool ");
    const yyjson_val *a = json_get(doc.root, STR("a"));
    size_t n = 0;
    json_arr_foreach(a, item)
        n += json_len(item);
    assert_int_equal(json_len(a), 3);
    assert_int_equal(n, 2); // one pair, one byte
    const yyjson_val *x = json_get(json_at(a, 1), STR("x"));
    assert_true(x && json_is_null(x));
    assert_null(json_at(a, 3));
    assert_null(json_get(doc.root, STR("A"))); // no case folding
    assert_null(json_get(a, STR("x")));
    size_t none = 0;
    json_obj_foreach(json_get(doc.root, STR("b")), k, v)
        none++;
    assert_int_equal(none, 0);
}

static void keeps_integers_exact(void **state)
{
    (void)state;
    PARSE(doc, "[9223372036854775807, -9223372036854775808, 9223372036854775808,"
               " 18446744073709551615, 18446744073709551616, -9223372036854775809, 0, -0]");
    static const enum json_type types[] = {JSON_INT, JSON_INT, JSON_UINT, JSON_UINT,
                                           JSON_BIG, JSON_BIG, JSON_INT};
    for (size_t i = 0; i < array_len(types); i++)
        assert_int_equal(json_type(json_at(doc.root, i)), types[i]);
    int64_t i64 = 0;
    uint64_t u64 = 0;
    assert_int_equal(json_to_i64(json_at(doc.root, 0), &i64, NULL), 0);
    assert_true(i64 == INT64_MAX);
    assert_int_equal(json_to_i64(json_at(doc.root, 1), &i64, NULL), 0);
    assert_true(i64 == INT64_MIN);
    assert_int_equal(json_to_u64(json_at(doc.root, 3), &u64, NULL), 0);
    assert_true(u64 == UINT64_MAX);
    struct err err = {0};
    i64 = 5;
    assert_int_equal(json_to_i64(json_at(doc.root, 2), &i64, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal number 9223372036854775808 into a value of type "
                                 "int64: out of range");
    assert_int_equal(i64, 5);
    assert_int_equal(json_to_u64(json_at(doc.root, 4), &u64, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "18446744073709551616 into a value of type uint64: out of"));
    assert_int_equal(json_to_u64(json_at(doc.root, 1), &u64, NULL), -ERR_BAD_REQUEST);
    cleanup_sbuf struct sbuf out = {0};
    assert_str(write_compact(doc.root, &out),
               "[9223372036854775807,-9223372036854775808,9223372036854775808,"
               "18446744073709551615,18446744073709551616,-9223372036854775809,0,0]");
}

static void bounds_small_integers(void **state)
{
    (void)state;
    PARSE(doc, "[2147483647, 2147483648, -2147483648, -2147483649, 4294967295, 4294967296, -1]");
    int32_t i32 = 0;
    uint32_t u32 = 0;
    static const bool fits_i32[] = {true, false, true, false, false, false, true};
    static const bool fits_u32[] = {true, true, false, false, true, false, false};
    for (size_t i = 0; i < array_len(fits_i32); i++) {
        assert_int_equal(json_to_i32(json_at(doc.root, i), &i32, NULL) == 0, fits_i32[i]);
        assert_int_equal(json_to_u32(json_at(doc.root, i), &u32, NULL) == 0, fits_u32[i]);
    }
}

// sigs.k8s.io/json: an integer field takes an integer's text only.
static void refuses_doubles_for_integers(void **state)
{
    (void)state;
    PARSE(doc, "[1.0, 1e3, 1.5, -2.0, 1e300, 9223372036854775808.0]");
    int64_t v = 0;
    struct err err = {0};
    for (size_t i = 0; i < 6; i++)
        assert_int_equal(json_to_i64(json_at(doc.root, i), &v, NULL), -ERR_BAD_REQUEST);
    assert_int_equal(json_to_i64(json_at(doc.root, 0), &v, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal number 1.0 into a value of type int64: not "
                                 "written as an integer");
    assert_true(json_is_integral(json_at(doc.root, 0), &v) && v == 1);
    assert_true(json_is_integral(json_at(doc.root, 1), &v) && v == 1000);
    assert_false(json_is_integral(json_at(doc.root, 2), &v));
    assert_true(json_is_integral(json_at(doc.root, 3), &v) && v == -2);
    assert_false(json_is_integral(json_at(doc.root, 4), &v));
    assert_false(json_is_integral(json_at(doc.root, 5), &v));
}

static void reads_doubles(void **state)
{
    (void)state;
    PARSE(doc, "[0.1, 5e-324, 1.7976931348623157e308, 1e999, 18446744073709551616, 3, -3, true]");
    double d = 0;
    assert_int_equal(json_to_double(json_at(doc.root, 0), &d, NULL), 0);
    assert_true(d == 0.1);
    assert_int_equal(json_to_double(json_at(doc.root, 1), &d, NULL), 0);
    assert_true(d > 0);
    struct err err = {0};
    assert_int_equal(json_to_double(json_at(doc.root, 3), &d, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "1e999 into a value of type float64: out of range"));
    assert_int_equal(json_to_double(json_at(doc.root, 4), &d, NULL), 0);
    assert_true(d == 18446744073709551616.0);
    assert_int_equal(json_to_double(json_at(doc.root, 6), &d, NULL), 0);
    assert_true(d == -3);
    assert_int_equal(json_to_double(json_at(doc.root, 7), &d, NULL), -ERR_BAD_REQUEST);
}

static void names_wrong_types(void **state)
{
    (void)state;
    PARSE(doc, "[\"x\", true, null, [], {}, 12]");
    struct err err = {0};
    int64_t i = 0;
    bool b = false;
    struct str s = {0};
    assert_int_equal(json_to_i64(json_at(doc.root, 0), &i, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal string into a value of type int64");
    assert_int_equal(json_to_str(json_at(doc.root, 5), &s, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal number 12 into a value of type string");
    assert_int_equal(json_to_bool(json_at(doc.root, 2), &b, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal null into a value of type bool");
    assert_int_equal(json_want_array(json_at(doc.root, 4), &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "cannot unmarshal object into a value of type array");
    assert_int_equal(json_want_object(json_at(doc.root, 3), &err), -ERR_BAD_REQUEST);
    assert_int_equal(json_want_object(json_at(doc.root, 4), &err), 0);
    assert_int_equal(json_to_bool(json_at(doc.root, 1), &b, &err), 0);
    assert_true(b);
    assert_int_equal(json_to_str(json_at(doc.root, 0), &s, &err), 0);
    assert_str(s, "x");
}

static void decodes_escapes(void **state)
{
    (void)state;
    PARSE(doc, "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\\u0000z\"");
    struct str s = json_str(doc.root);
    assert_int_equal(s.n, 8 + 2 + 4 + 2);
    assert_memory_equal(s.p, "\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80\0z", s.n + 1);
}

static void refuses_what_is_not_json(void **state)
{
    (void)state;
    refuses_at(STR(""), "empty", 1, 1);
    refuses_at(STR(" \n\t "), "empty", 1, 1);
    refuses_at(STR("{\"a\":1,}"), "trailing comma", 1, 7);
    refuses_at(STR("[1,2"), "the end of the text", 1, 5);
    refuses_at(STR("{\n  'a': 1}"), "strings stand in double quotes", 2, 3);
    refuses_at(STR("{\n  \"a\": 1 // c\n}"), "no comments", 2, 10);
    refuses_at(STR("[NaN]"), "NaN", 1, 2);
    refuses_at(STR("[True]"), "small letters", 1, 2);
    refuses_at(STR("{} {}"), "unexpected content", 1, 4);
    refuses_at(STR("[01]"), "leading zero", 1, 2);
    refuses_at(STR("\xEF\xBB\xBF{}"), "byte order mark", 1, 1);
    refuses_at(STR("\xFF\xFE{\0}\0"), "UTF-16", 1, 1);
    refuses_at(STR("\n\n  [\"a\tb\"]"), "control character", 3, 6);
    // Versions of yyjson differ in which byte of a bad escape they point at.
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(json_parse(STR("\"\\x41\""), NULL, &doc, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "escape"));
    assert_in_range(err.column, 2, 3);
}

// Go replaces these silently; we refuse them, so that no object changes by being read.
static void refuses_bad_unicode(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"\xC3\"",
        "\"\x80\"",
        "\"\xC0\x80\"",
        "\"\xED\xA0\x80\"",
        "\"\xF5\x80\x80\x80\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
    };
    for (size_t i = 0; i < array_len(bad); i++) {
        cleanup_json_doc struct json_doc doc = {0};
        struct err err = {0};
        assert_int_equal(json_parse(str_z(bad[i]), NULL, &doc, &err), -ERR_BAD_REQUEST);
        assert_int_equal(err.line, 1);
        assert_true(err.column >= 2);
        assert_true(strstr(err.msg, "UTF-8") || strstr(err.msg, "surrogate") ||
                    strstr(err.msg, "string"));
    }
}

// Every prefix of a document is an error at its end, not a crash and not a document.
static void refuses_every_truncation(void **state)
{
    (void)state;
    const char *text =
        "{\"a\": [1, -2.5e3, true, null, \"x\\u00e9\\ud83d\\ude00\"], \"b\": {\"c\": \"d\"}}";
    for (size_t n = 0; n < strlen(text); n++) {
        cleanup_free char *copy = xstrndup(text, n); // so that a read past the end is seen
        cleanup_json_doc struct json_doc doc = {0};
        struct err err = {0};
        assert_int_equal(json_parse(str_make(copy, n), NULL, &doc, &err), -ERR_BAD_REQUEST);
        assert_int_equal(err.line, 1);
        assert_null(doc.root);
    }
}

static void bounds_depth(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add_repeat(&text, '[', DRAY_DOC_DEPTH_MAX);
    sbuf_add_repeat(&text, ']', DRAY_DOC_DEPTH_MAX);
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(json_parse(sbuf_str(&text), NULL, &doc, NULL), 0);
    sbuf_clear(&text);
    sbuf_addz(&text, "\n");
    sbuf_add_repeat(&text, '[', DRAY_DOC_DEPTH_MAX + 1);
    sbuf_add_repeat(&text, ']', DRAY_DOC_DEPTH_MAX + 1);
    refuses_at(sbuf_str(&text), "nested deeper than 256", 2, DRAY_DOC_DEPTH_MAX + 1);
    // Siblings do not add up.
    sbuf_clear(&text);
    sbuf_addz(&text, "[");
    for (int i = 0; i < 2000; i++)
        sbuf_addz(&text, i ? ",[{}]" : "[{}]");
    sbuf_addz(&text, "]");
    cleanup_json_doc struct json_doc wide = {0};
    assert_int_equal(json_parse(sbuf_str(&text), NULL, &wide, NULL), 0);
    // Very deep text neither overflows the stack nor takes long.
    sbuf_clear(&text);
    sbuf_add_repeat(&text, '[', 1000000);
    cleanup_json_doc struct json_doc deep = {0};
    assert_int_equal(json_parse(sbuf_str(&text), NULL, &deep, NULL), -ERR_BAD_REQUEST);
}

static void bounds_size(void **state)
{
    (void)state;
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    struct json_options options = {.max_bytes = 10};
    assert_int_equal(json_parse(STR("[1,2,3,44]"), &options, &doc, &err), 0);
    cleanup_json_doc struct json_doc none = {0};
    assert_int_equal(json_parse(STR("[1,2,3,444]"), &options, &none, &err), -ERR_TOO_LARGE);
    assert_string_equal(err.msg, "the document has 11 bytes, more than the 10 allowed");
}

static void survives_a_hundred_megabytes_of_spaces(void **state)
{
    (void)state;
    size_t n = (size_t)100 * 1024 * 1024;
    cleanup_free char *text = xmalloc(n);
    memset(text, ' ', n);
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(json_parse(str_make(text, n), NULL, &doc, &err), -ERR_TOO_LARGE);
    struct json_options options = {.max_bytes = n};
    assert_int_equal(json_parse(str_make(text, n), &options, &doc, &err), -ERR_BAD_REQUEST);
    assert_string_equal(err.msg, "the document is empty");
    text[n / 2] = '1';
    assert_int_equal(json_parse(str_make(text, n), &options, &doc, &err), 0);
    assert_int_equal(doc.count, 1);
}

// --- Duplicates ----------------------------------------------------------------------------------

static void refuses_duplicate_keys(void **state)
{
    (void)state;
    refuses_at(STR("{\"a\": 1,\n \"b\": {\"x\": 1, \"x\": 2}}"), "duplicate key \"x\"", 2, 16);
    refuses_at(STR("{\"a\":1,\"\\u0061\":2}"), "duplicate key \"a\"", 1, 8);
    refuses_at(STR("{\"\":1,\"\":2}"), "duplicate key", 1, 7);
}

static void finds_duplicates_among_many_keys(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, "{");
    for (int i = 0; i < 50000; i++)
        sbuf_addf(&text, "\"key%d\":%d,", i, i);
    size_t n = text.n;
    sbuf_addz(&text, "\"last\":0}");
    cleanup_json_doc struct json_doc good = {0};
    assert_int_equal(json_parse(sbuf_str(&text), NULL, &good, NULL), 0);
    sbuf_truncate(&text, n);
    sbuf_addz(&text, "\"key777\":0}");
    refuses_at(sbuf_str(&text), "duplicate key \"key777\"", 1, n + 1);
}

static void keeps_the_last_duplicate(void **state)
{
    (void)state;
    struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    struct str text = STR("{\"a\":1,\n\"b\":[{\"x\":1,\"y\":2,\n\"x\":{\"z\":3}}],\"a\":2,\"c\":"
                          "18446744073709551616}");
    assert_int_equal(json_parse(text, &options, &doc, NULL), 0);
    cleanup_sbuf struct sbuf out = {0};
    assert_str(write_compact(doc.root, &out),
               "{\"a\":2,\"b\":[{\"x\":{\"z\":3},\"y\":2}],\"c\":18446744073709551616}");
    struct json_pos at = {0};
    assert_true(json_locate(&doc, json_at_path(doc.root, STR("b[0].x.z"), NULL), &at));
    assert_int_equal(at.line, 3);
    assert_int_equal(at.column, 10);
    options.duplicates = JSON_DUPLICATES_KEEP;
    cleanup_json_doc struct json_doc kept = {0};
    assert_int_equal(json_parse(text, &options, &kept, NULL), 0);
    assert_int_equal(json_len(kept.root), 4);
    int64_t v = 0;
    assert_int_equal(json_to_i64(json_get(kept.root, STR("a")), &v, NULL), 0);
    assert_int_equal(v, 2);
    assert_false(json_equal(kept.root, kept.root));
}

static void reports_duplicates_with_their_path(void **state)
{
    (void)state;
    struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(
        json_parse(STR("{\"spec\":{\"bar\":1,\"l\":[0,{\"q\":1,\"q\":1,\"q\":2}],\"bar\":2},"
                       "\"m\":{\"a.b\":{\"\\n\":1,\"\\n\":1}}}"),
                   &options, &doc, NULL),
        0);
    cleanup_json_strict struct json_strict strict = {0};
    json_strict_walk(&strict, doc.root);
    cleanup_sbuf struct sbuf text = {0};
    json_strict_text(&strict, &text);
    assert_str(sbuf_str(&text), "duplicate field \"spec.bar\", duplicate field \"spec.l[1].q\", "
                                "duplicate field \"m.a.b.\\n\"");
}

static void collects_unknown_fields(void **state)
{
    (void)state;
    cleanup_json_strict struct json_strict s = {0};
    json_strict_unknown(&s, STR("top"));
    size_t spec = json_strict_field(&s, STR("spec"));
    json_strict_unknown(&s, STR("foo"));
    json_strict_unknown(&s, STR("foo")); // counts once
    size_t list = json_strict_field(&s, STR("list"));
    size_t item = json_strict_index(&s, 3);
    json_strict_duplicate(&s, STR("x"));
    json_strict_back(&s, item);
    json_strict_back(&s, list);
    json_strict_back(&s, spec);
    json_strict_unknown(&s, STR("end"));
    cleanup_sbuf struct sbuf text = {0};
    json_strict_text(&s, &text);
    assert_str(sbuf_str(&text), "unknown field \"top\", unknown field \"spec.foo\", "
                                "duplicate field \"spec.list[3].x\", unknown field \"end\"");
    // Without a collector nothing happens.
    json_strict_back(NULL, json_strict_field(NULL, STR("a")));
    json_strict_unknown(NULL, STR("a"));
}

static void bounds_reports(void **state)
{
    (void)state;
    cleanup_json_strict struct json_strict s = {0};
    cleanup_sbuf struct sbuf name = {0};
    sbuf_add_repeat(&name, 'x', 100000);
    for (int i = 0; i < 300; i++) {
        cleanup_sbuf struct sbuf unique = {0};
        sbuf_addf(&unique, "%d%s", i, name.p);
        json_strict_unknown(&s, sbuf_str(&unique));
        (void)json_strict_field(&s, sbuf_str(&name));
    }
    assert_true(s.reports.n <= JSON_STRICT_REPORTS_MAX);
    assert_true(s.arena.used_bytes < 100 * 2000);
    assert_true(s.path.n < 10000);
}

// --- Positions -----------------------------------------------------------------------------------

static void locates_values(void **state)
{
    (void)state;
    struct str text = STR("  {\n  \"spec\": {\n    \"l\": [10, \"a\\\"]\", {\"k.v\": 1.5}],\n    "
                          "\"e\": []\n  }\n}\n");
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(json_parse(text, NULL, &doc, NULL), 0);
    static const struct {
        const char *path;
        uint32_t line, column;
        bool whole;
    } cases[] = {
        {"", 1, 3, true},
        {"spec", 2, 11, true},
        {"spec.l", 3, 10, true},
        {"spec.l[0]", 3, 11, true},
        {"spec.l[1]", 3, 15, true},
        {"spec.l[2]", 3, 23, true},
        {"spec.l[2].k.v", 3, 31, true},
        {"spec.l[2][k.v]", 3, 31, true},
        {"spec.e", 4, 10, true},
        {"spec.e[0]", 4, 10, false},
        {"spec.nope.deep", 2, 11, false},
        {"spec.l[x]", 3, 10, false},
        {"spec.l[2", 3, 10, false},
        {"other", 1, 3, false},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        bool whole = false;
        struct json_pos at = {0};
        const yyjson_val *v = json_at_path(doc.root, str_z(cases[i].path), &whole);
        assert_true(json_locate(&doc, v, &at));
        if (at.line != cases[i].line || at.column != cases[i].column || whole != cases[i].whole)
            fail_msg("%s: %u:%u %d", cases[i].path, at.line, at.column, whole);
    }
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "must be positive");
    err_path_index(&err, 0);
    err_path_field(&err, "l", 1);
    err_path_field(&err, "spec", 4);
    json_locate_err(&doc, &err);
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 11);
}

static void reads_values_that_follow_each_other(void **state)
{
    (void)state;
    struct str text = STR(" {\"a\":1}\n\n  {\"b\":\"}\"}[1]2 \"x\"true\n");
    size_t offset = 0;
    struct json_pos at = {1, 1};
    static const struct {
        const char *text;
        uint32_t line, column;
    } want[] = {{"{\"a\":1}", 1, 2}, {"{\"b\":\"}\"}", 3, 3}, {"[1]", 3, 12},
                {"2", 3, 15},        {"\"x\"", 3, 17},        {"true", 3, 20}};
    for (size_t i = 0; i < array_len(want); i++) {
        cleanup_json_doc struct json_doc doc = {0};
        assert_int_equal(json_parse_next(text, &offset, &at, NULL, &doc, NULL), 1);
        cleanup_sbuf struct sbuf out = {0};
        assert_str(write_compact(doc.root, &out), want[i].text);
        assert_int_equal(doc.start.line, want[i].line);
        assert_int_equal(doc.start.column, want[i].column);
        struct json_pos root = {0};
        assert_true(json_locate(&doc, doc.root, &root));
        assert_int_equal(root.line, want[i].line);
        assert_int_equal(root.column, want[i].column);
    }
    cleanup_json_doc struct json_doc none = {0};
    assert_int_equal(json_parse_next(text, &offset, &at, NULL, &none, NULL), 0);
    // An error in a later value is placed in the whole text.
    text = STR("{}\n{}\n {\"a\":\n oops}");
    offset = 0;
    at = (struct json_pos){1, 1};
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        cleanup_json_doc struct json_doc doc = {0};
        assert_int_equal(json_parse_next(text, &offset, &at, NULL, &doc, &err), 1);
    }
    assert_int_equal(json_parse_next(text, &offset, &at, NULL, &none, &err), -ERR_BAD_REQUEST);
    assert_int_equal(err.line, 4);
    assert_int_equal(err.column, 2);
    assert_non_null(strstr(err.msg, "(offset 14)"));
}

// --- Comparison ----------------------------------------------------------------------------------

static void compares_values(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
        {"{\"a\":1}", "{\"a\":1,\"b\":2}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2,3]", false},
        {"1", "1.0", true},
        {"1", "1.5", false},
        {"-1", "18446744073709551615", false},
        {"9007199254740993", "9007199254740992.0", false},
        {"18446744073709551615", "1.8446744073709552e19", false},
        {"1e400", "1e400", true},
        {"1e400", "1e401", false},
        {"100000000000000000000", "1e20", true},
        {"\"a\"", "\"b\"", false},
        {"true", "false", false},
        {"null", "false", false},
        {"null", "null", true},
        {"\"1\"", "1", false},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        PARSE(a, cases[i].a);
        PARSE(b, cases[i].b);
        if (json_equal(a.root, b.root) != cases[i].equal ||
            json_equal(b.root, a.root) != cases[i].equal)
            fail_msg("%s and %s", cases[i].a, cases[i].b);
    }
}

// --- Writing -------------------------------------------------------------------------------------

static void writes_in_both_layouts(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out};
    for (int pretty = 0; pretty < 2; pretty++) {
        sbuf_clear(&out);
        w.indent = pretty ? 2 : 0;
        w.comma = false;
        json_write_object_begin(&w);
        json_write_key(&w, STR("a"));
        json_write_array_begin(&w);
        json_write_i64(&w, -5);
        json_write_u64(&w, UINT64_MAX);
        json_write_double(&w, 1.5);
        json_write_bool(&w, true);
        json_write_null(&w);
        json_write_array_end(&w);
        json_write_raw_key(&w, STR("\"b\""));
        json_write_object_begin(&w);
        json_write_object_end(&w);
        json_write_key(&w, STR("c"));
        json_write_array_begin(&w);
        json_write_array_end(&w);
        json_write_key(&w, STR("d"));
        json_write_raw(&w, STR("{\"x\":1}"));
        json_write_object_end(&w);
        assert_str(sbuf_str(&out),
                   pretty
                       ? "{\n  \"a\": [\n    -5,\n    18446744073709551615,\n    1.5,\n    true,\n"
                         "    null\n  ],\n  \"b\": {},\n  \"c\": [],\n  \"d\": {\"x\":1}\n}"
                       : "{\"a\":[-5,18446744073709551615,1.5,true,null],\"b\":{},\"c\":[],"
                         "\"d\":{\"x\":1}}");
    }
}

static void escapes_as_go(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf out = {0};
    struct str s =
        STR("\"\\/\b\f\n\r\t\x01\x1f\x7f<>&\xC3\xA9\xE2\x80\xA8\xE2\x80\xA9\xF0\x9F\x98\x80\xFF");
    sbuf_add_json_str(&out, s, true);
    assert_str(sbuf_str(&out),
               "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\\u003c\\u003e\\u0026\xC3\xA9"
               "\\u2028\\u2029\xF0\x9F\x98\x80\\ufffd\"");
    sbuf_clear(&out);
    sbuf_add_json_str(&out, STR("<>&"), false);
    assert_str(sbuf_str(&out), "\"<>&\"");
    // Long strings are written in pieces; a character at the seam stays whole.
    for (size_t pad = 4090; pad < 4100; pad++) {
        cleanup_sbuf struct sbuf text = {0}, json = {0};
        sbuf_add_repeat(&text, 'a', pad);
        sbuf_addz(&text, "\xF0\x9F\x98\x80");
        sbuf_add_repeat(&text, 'b', 5000);
        sbuf_add_json_str(&json, sbuf_str(&text), true);
        assert_int_equal(json.n, text.n + 2);
        assert_memory_equal(json.p + 1, text.p, text.n);
    }
}

static void writes_doubles_as_go(void **state)
{
    (void)state;
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/json_doubles.txt", getenv("TEST_DATA")); // NOLINT
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char line[128], want[64];
    uint64_t bits;
    size_t rows = 0;
    while (fgets(line, sizeof(line), f)) {
        assert_int_equal(sscanf(line, "%" SCNx64 " %63s", &bits, want), 2); // NOLINT
        double v;
        memcpy(&v, &bits, sizeof(v));
        cleanup_sbuf struct sbuf out = {0};
        sbuf_add_json_double(&out, v);
        assert_str(sbuf_str(&out), want);
        rows++;
    }
    (void)fclose(f);
    assert_true(rows > 1000);
}

// --- Building ------------------------------------------------------------------------------------

static void builds_documents(void **state)
{
    (void)state;
    PARSE(other, "{\"deep\":[1,\"two\",12345678901234567890123]}");
    cleanup_json_builder struct json_builder b = {.keep_positions = true, .at = {7, 8}};
    assert_int_equal(json_build_object(&b, NULL), 0);
    json_build_str(&b, STR("n"));
    json_build_null(&b);
    json_build_str(&b, STR("l"));
    assert_int_equal(json_build_array(&b, NULL), 0);
    json_build_bool(&b, false);
    json_build_i64(&b, -1);
    json_build_i64(&b, 1);
    json_build_u64(&b, UINT64_MAX);
    json_build_number(&b, STR("0.5"));
    json_build_number(&b, STR("1e999"));
    json_build_end(&b);
    json_build_str(&b, STR("e"));
    assert_int_equal(json_build_array(&b, NULL), 0);
    json_build_end(&b);
    json_build_str(&b, STR("o"));
    assert_int_equal(json_build_value(&b, other.root, NULL), 0);
    json_build_end(&b);
    cleanup_json_doc struct json_doc doc = {0};
    json_build_finish(&b, &doc);
    cleanup_sbuf struct sbuf out = {0};
    assert_str(write_compact(doc.root, &out),
               "{\"n\":null,\"l\":[false,-1,1,18446744073709551615,0.5,1e999],\"e\":[],"
               "\"o\":{\"deep\":[1,\"two\",12345678901234567890123]}}");
    // What is built is laid out like what is parsed.
    PARSE(parsed, out.p);
    assert_int_equal(parsed.count, doc.count);
    for (size_t i = 0; i < doc.count; i++) {
        assert_int_equal(parsed.root[i].tag & YYJSON_TYPE_MASK, doc.root[i].tag & YYJSON_TYPE_MASK);
        assert_int_equal(json_len(&parsed.root[i]), json_len(&doc.root[i]));
    }
    assert_true(json_equal(parsed.root, doc.root));
    struct json_pos at = {0};
    assert_true(json_locate(&doc, doc.root + 1, &at));
    assert_int_equal(at.line, 7);
}

static void bounds_built_depth(void **state)
{
    (void)state;
    cleanup_json_builder struct json_builder b = {0};
    for (int i = 0; i < DRAY_DOC_DEPTH_MAX; i++)
        assert_int_equal(json_build_array(&b, NULL), 0);
    struct err err = {0};
    assert_int_equal(json_build_object(&b, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "deeper"));
}

RUN_TESTS(TEST_CASE(walks_in_text_order), TEST_CASE(keeps_integers_exact),
          TEST_CASE(bounds_small_integers), TEST_CASE(refuses_doubles_for_integers),
          TEST_CASE(reads_doubles), TEST_CASE(names_wrong_types), TEST_CASE(decodes_escapes),
          TEST_CASE(refuses_what_is_not_json), TEST_CASE(refuses_bad_unicode),
          TEST_CASE(refuses_every_truncation), TEST_CASE(bounds_depth), TEST_CASE(bounds_size),
          TEST_CASE(survives_a_hundred_megabytes_of_spaces), TEST_CASE(refuses_duplicate_keys),
          TEST_CASE(finds_duplicates_among_many_keys), TEST_CASE(keeps_the_last_duplicate),
          TEST_CASE(reports_duplicates_with_their_path), TEST_CASE(collects_unknown_fields),
          TEST_CASE(bounds_reports), TEST_CASE(locates_values),
          TEST_CASE(reads_values_that_follow_each_other), TEST_CASE(compares_values),
          TEST_CASE(writes_in_both_layouts), TEST_CASE(escapes_as_go),
          TEST_CASE(writes_doubles_as_go), TEST_CASE(builds_documents),
          TEST_CASE(bounds_built_depth))

// SPDX-License-Identifier: Apache-2.0
//
// What a person sees: widths, tables, numbers, formats, and which name was meant.
#include "base/nearest.h"
#include "unit.h"
#include "view/human.h"
#include "view/output.h"
#include "view/table.h"

#include "base/banned.h"

static void widths_are_columns(void **state)
{
    (void)state;
    assert_int_equal(view_width(STR("abc")), 3);
    assert_int_equal(view_width(STR("gr\u00fc\u00df")), 4);
    assert_int_equal(view_width(STR("e\u0301")), 1);
    assert_int_equal(view_width(STR("\u65e5\u672c")), 4);
    cleanup_sbuf struct sbuf out = {0};
    view_add_cut(&out, STR("\u65e5\u672c\u8a9e"), 5);
    assert_str(sbuf_str(&out), "\u65e5\u672c\u2026");
    sbuf_clear(&out);
    view_add_cut(&out, STR("abcdef"), 6);
    assert_str(sbuf_str(&out), "abcdef");
    sbuf_clear(&out);
    view_add_cut(&out, STR("abcdefg"), 6);
    assert_str(sbuf_str(&out), "abcde\u2026");
}

static void controls_do_not_reach_the_terminal(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    view_add_line(&out, STR("a\x1b[31mb\tc\x07\ndropped"));
    assert_str(sbuf_str(&out), "a^[[31mb c^G...");
    sbuf_clear(&out);
    view_add_line(&out, STR("\xc2\x9b"
                            "31m\u202eabc"));
    assert_str(sbuf_str(&out), "\ufffd31m\ufffdabc");
}

static void fill(struct view_table *t)
{
    view_table_column(t, STR("NAME"), VIEW_COLUMN_WHOLE);
    view_table_column(t, STR("AGE"), 0);
    view_table_column(t, STR("NODE"), VIEW_COLUMN_WIDE);
    view_table_column(t, STR("MESSAGE"), 0);
    view_table_cell(t, STR("a-long-name"), VIEW_PLAIN);
    view_table_cell(t, STR("5s"), VIEW_PLAIN);
    view_table_cell(t, STR("node-1"), VIEW_PLAIN);
    view_table_cell(t, STR("something that goes on and on"), VIEW_BAD);
    view_table_cell(t, STR("b"), VIEW_PLAIN);
    view_table_cellf(t, VIEW_PLAIN, "%dd", 10);
    view_table_cell(t, STR(""), VIEW_PLAIN);
    view_table_cell(t, STR("short"), VIEW_PLAIN);
}

static void tables_are_kubectls(void **state)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct view_layout plain = {0}, wide = {.wide = true, .no_headers = true};
    (void)state;
    fill(&t);
    view_table_write(&t, &plain, &out);
    assert_str(sbuf_str(&out), "NAME          AGE   MESSAGE\n"
                               "a-long-name   5s    something that goes on and on\n"
                               "b             10d   short\n");
    cleanup_view_table struct view_table again = {0};
    sbuf_clear(&out);
    fill(&again);
    view_table_write(&again, &wide, &out);
    assert_str(sbuf_str(&out), "a-long-name   5s    node-1   something that goes on and on\n"
                               "b             10d            short\n");
}

// On a terminal no line is longer than it is wide, whatever its width; names go last.
static void tables_fit_the_terminal(void **state)
{
    (void)state;
    for (size_t columns = 1; columns < 70; columns++) {
        cleanup_view_table struct view_table t = {0};
        cleanup_sbuf struct sbuf out = {0};
        const struct view_layout how = {.term = {.tty = true, .columns = columns}, .wide = true};
        fill(&t);
        view_table_write(&t, &how, &out);
        for (struct str rest = sbuf_str(&out), line; rest.n;) {
            str_cut(rest, '\n', &line, &rest);
            if (columns >= 6)
                assert_true(view_width(line) <= columns);
            if (columns >= 36 && str_starts(line, STR("a-")))
                assert_true(str_starts(line, STR("a-long-name ")));
        }
    }
}

// A long name does not take the room of everything else.
static void names_are_cut_in_their_middle(void **state)
{
    cleanup_sbuf struct sbuf out = {0};
    (void)state;
    view_add_cut_name(&out, STR("gpu.example.com/node-0/gpu-0"), 18);
    assert_str(sbuf_str(&out), "gpu.ex\u2026ode-0/gpu-0");
    sbuf_clear(&out);
    view_add_cut_name(&out, STR("\u65e5\u672c\u8a9e\u65e5\u672c\u8a9e"), 10);
    assert_str(sbuf_str(&out), "\u65e5\u2026\u65e5\u672c\u8a9e");
    sbuf_clear(&out);
    view_add_cut_name(&out, STR("words are cut at their end"), 12);
    assert_str(sbuf_str(&out), "words are c\u2026");
}

static void other_columns_can_be_read_beside_long_names(void **state)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct view_layout how = {.term = {.tty = true, .columns = 60}, .no_headers = true};
    (void)state;
    view_table_column(&t, STR("NAME"), VIEW_COLUMN_WHOLE);
    view_table_column(&t, STR("NODE"), 0);
    view_table_column(&t, STR("DRIVER"), 0);
    view_table_cell(&t, STR("resourceslice/00000-gpu.example.com-example-gpu-0-x"), VIEW_PLAIN);
    view_table_cell(&t, STR("example-gpu-0"), VIEW_PLAIN);
    view_table_cell(&t, STR("gpu.example.com"), VIEW_PLAIN);
    view_table_write(&t, &how, &out);
    assert_str(sbuf_str(&out),
               "resourceslic\u2026ample.com-example-gpu-0-x  exa\u2026gpu-0  gpu\u2026e.com\n");
}

static void later_rows_keep_the_columns(void **state)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct view_layout how = {0};
    (void)state;
    view_table_column(&t, STR("NAME"), 0);
    view_table_column(&t, STR("N"), VIEW_COLUMN_RIGHT);
    view_table_cell(&t, STR("longer"), VIEW_PLAIN);
    view_table_cell(&t, STR("10000"), VIEW_PLAIN);
    view_table_write(&t, &how, &out);
    view_table_cell(&t, STR("x"), VIEW_PLAIN);
    view_table_cell(&t, STR("7"), VIEW_PLAIN);
    view_table_write(&t, &how, &out);
    assert_str(sbuf_str(&out), "NAME         N\nlonger   10000\nx            7\n");
}

static void colours_are_apart_from_widths(void **state)
{
    cleanup_view_table struct view_table t = {0};
    cleanup_sbuf struct sbuf out = {0};
    const struct view_layout how = {.term = {.color = true}, .no_headers = true};
    (void)state;
    view_table_column(&t, STR("A"), 0);
    view_table_column(&t, STR("B"), 0);
    view_table_cell(&t, STR("Running"), view_style_of(STR("Running")));
    view_table_cell(&t, STR("x"), VIEW_PLAIN);
    view_table_write(&t, &how, &out);
    assert_str(sbuf_str(&out), "\x1b[32mRunning\x1b[0m   x\n");
    assert_int_equal(view_style_of(STR("CrashLoopBackOff")), VIEW_BAD);
    assert_int_equal(view_style_of(STR("whatever")), VIEW_PLAIN);
}

static void numbers_are_short(void **state)
{
    static const struct {
        uint64_t bytes;
        const char *want;
    } rows[] = {{0, "0"},        {1023, "1023"},        {1024, "1Ki"},
                {1536, "1.5Ki"}, {85899345920, "80Gi"}, {UINT64_MAX, "15.9Ei"}};
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        view_add_bytes(&out, rows[i].bytes);
        assert_str(sbuf_str(&out), rows[i].want);
    }
    cleanup_sbuf struct sbuf out = {0};
    const struct moment now = {.sec = 1000000};
    view_add_age(&out, STR("1970-01-12T13:43:20Z"), now);
    view_add_age(&out, STR("nonsense"), now);
    view_add_duration(&out, 200);
    assert_str(sbuf_str(&out), "3m20s<unknown>3m20s");
}

static void formats(void **state)
{
    static const char text[] = "{\"kind\":\"ResourceClaim\",\"apiVersion\":\"resource.k8s.io/v1\","
                               "\"metadata\":{\"name\":\"c\",\"b\":1,\"a\":\"<\"}}";
    static const struct {
        const char *format, *want;
    } rows[] = {
        {"name", "resourceclaim.resource.k8s.io/c\n"},
        {"yaml", "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata:\n  a: <\n  b: 1\n"
                 "  name: c\n"},
        {"jsonpath={.metadata.b}", "1"},
        {"json",
         "{\n    \"apiVersion\": \"resource.k8s.io/v1\",\n    \"kind\": \"ResourceClaim\",\n"
         "    \"metadata\": {\n        \"a\": \"\\u003c\",\n        \"b\": 1,\n"
         "        \"name\": \"c\"\n    }\n}\n"},
    };
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_arena struct arena arena = {0};
    struct view_output o;
    struct err err = {0};
    (void)state;
    assert_int_equal(json_parse(str_z(text), NULL, &doc, NULL), 0);
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        assert_int_equal(view_output_parse(rows[i].format, VIEW_FORMATS_ALL, &arena, &o, &err), 0);
        assert_int_equal(view_output_write(&o, doc.root, &out, &err), 0);
        assert_str(sbuf_str(&out), rows[i].want);
    }
    assert_int_equal(view_output_parse(NULL, 0, &arena, &o, &err), 0);
    assert_true(view_is_table(&o));
    assert_int_equal(view_output_parse("jsn", VIEW_FORMATS_ALL, &arena, &o, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "did you mean 'json'"));
    assert_int_equal(view_output_parse("table", VIEW_FORMATS_DATA, &arena, &o, &err), -ERR_INVALID);
    assert_int_equal(view_output_parse("json=x", VIEW_FORMATS_ALL, &arena, &o, &err), -ERR_INVALID);
    assert_int_equal(view_output_parse("jsonpath", VIEW_FORMATS_ALL, &arena, &o, &err),
                     -ERR_INVALID);
}

static void the_nearest_name(void **state)
{
    static const char *const names[] = {"get", "describe", "delete", "plan", "--selector"};
    static const struct {
        const char *word, *want;
    } rows[] = {{"gte", "get"},
                {"got", "get"},
                {"descibe", "describe"},
                {"desc", "describe"},
                {"--selctor", "--selector"},
                {"paln", "plan"},
                {"xyz", ""},
                {"", ""}};
    (void)state;
    assert_int_equal(nearest_distance(STR("kitten"), STR("sitting")), 3);
    assert_int_equal(nearest_distance(STR("ab"), STR("ba")), 1);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct nearest near = {.word = str_z(rows[i].word)};
        for (size_t k = 0; k < array_len(names); k++)
            nearest_try(&near, str_z(names[k]));
        assert_str(near.best, rows[i].want);
    }
}

RUN_TESTS(TEST_CASE(widths_are_columns), TEST_CASE(controls_do_not_reach_the_terminal),
          TEST_CASE(tables_are_kubectls), TEST_CASE(tables_fit_the_terminal),
          TEST_CASE(names_are_cut_in_their_middle),
          TEST_CASE(other_columns_can_be_read_beside_long_names),
          TEST_CASE(later_rows_keep_the_columns), TEST_CASE(colours_are_apart_from_widths),
          TEST_CASE(numbers_are_short), TEST_CASE(formats), TEST_CASE(the_nearest_name))

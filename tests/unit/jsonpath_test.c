// SPDX-License-Identifier: Apache-2.0
//
// JSONPath templates: each row is a template, the document's name, and what kubectl prints for it.
#include "unit.h"
#include "view/jsonpath.h"

#include "base/banned.h"

static const char pods[] =
    "{\"kind\":\"List\",\"items\":["
    "{\"metadata\":{\"name\":\"a\",\"labels\":{\"app\":\"web\",\"app.kubernetes.io/name\":\"x\"},"
    "\"uid\":\"1\"},\"spec\":{\"nodeName\":\"n1\",\"n\":3},\"status\":{\"phase\":\"Running\","
    "\"ready\":true,\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},"
    "{\"type\":\"Other\",\"status\":\"False\"}]}},"
    "{\"metadata\":{\"name\":\"b\",\"uid\":\"2\"},\"spec\":{\"n\":10},\"status\":{\"phase\":"
    "\"Pending\",\"ready\":false,\"load\":1.5,\"none\":null}},"
    "{\"metadata\":{\"name\":\"c\",\"uid\":\"3\"},\"spec\":{\"nodeName\":\"n2\",\"n\":7},"
    "\"status\":{\"phase\":\"Running\"}}]}";

struct row {
    const char *path;
    const char *want;
};

static int run(const char *path, struct sbuf *out, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    const struct jsonpath *p = NULL;
    assert_int_equal(json_parse(str_z(pods), NULL, &doc, NULL), 0);
    int code = jsonpath_parse(str_z(path), &arena, &p, err);
    return code < 0 ? code : jsonpath_write(p, doc.root, out, err);
}

static void finds_what_kubectl_finds(void **state)
{
    static const struct row rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"{.kind}", "List"},
        {"{$.kind}", "List"},
        {"{.items[*].metadata.name}", "a b c"},
        {"{.items[:].metadata.name}", "a b c"},
        {"{.items..metadata.name}", "a b c"},
        {"{.items[0].metadata.name}", "a"},
        {"{.items[-1].metadata.name}", "c"},
        {"{.items[-1:].metadata.name}", "c"},
        {"{.items[0:2].metadata.name}", "a b"},
        {"{.items[0:3:2].metadata.name}", "a c"},
        {"{.items[1:1].metadata.name}", ""},
        {"{.items[0,2].metadata.name}", "a c"},
        {"{.items[0]['metadata.name','spec.nodeName']}", "a n1"},
        {"{.items[0].metadata['name', 'uid']}", "a 1"},
        {"{.items[0].metadata.labels.app\\.kubernetes\\.io/name}", "x"},
        {"{.items[0].metadata.labels['app\\.kubernetes\\.io/name']}", "x"},
        {"{.items[0].metadata.labels}", "{\"app\":\"web\",\"app.kubernetes.io/name\":\"x\"}"},
        {"{.items[*].spec.nodeName}", "n1 n2"},
        {"{.items[*].nothing}", ""},
        {"{.items[?(@.status.phase==\"Running\")].metadata.name}", "a c"},
        {"{.items[?(@.status.phase=='Running')].metadata.name}", "a c"},
        {"{.items[?(@.status.phase!=\"Running\")].metadata.name}", "b"},
        {"{.items[?(@.spec.n>5)].metadata.name}", "b c"},
        {"{.items[?(@.spec.n>=7)].metadata.name}", "b c"},
        {"{.items[?(@.spec.n<7)].metadata.name}", "a"},
        {"{.items[?(@.spec.n<=7)].metadata.name}", "a c"},
        {"{.items[?(@.status.ready==true)].metadata.name}", "a"},
        {"{.items[?(@.spec.nodeName)].metadata.name}", "a c"},
        {"{.items[0].status.conditions[?(@.type==\"Ready\")].status}", "True"},
        {"{.items[?(@.metadata.name==\"a)b\")].metadata.name}", ""},
        {"{.items[0].status.conditions[?(@.type=='Other')].status}{\"\\n\"}", "False\n"},
        {"{range .items[*]}{.metadata.name}{\"\\t\"}{.spec.nodeName}{\"\\n\"}{end}",
         "a\tn1\nb\t\nc\tn2\n"},
        {"{range .items[*]}[{.metadata.name}] {end}done", "[a] [b] [c] done"},
        {"{range .items[*]}{.metadata.name}:{range .status.conditions[*]}{.type},{end};{end}",
         "a:Ready,Other,;b:;c:;"},
        {"{range .none[*]}x{end}y", "y"},
        {"{.items[1].status.ready} {.items[1].status.load} {.items[1].spec.n}", "false 1.5 10"},
        {"{.items[1].status.none}", "null"},
        {"{'a'}{\"b\"}{\"\\u00e9\"}", "ab\u00e9"},
        {"{ .kind }", "List"},
        {"{.items[*]['metadata.name', 'spec.n']}", "a b c 3 10 7"},
        {"{.items[0].metadata.*}", "a {\"app\":\"web\",\"app.kubernetes.io/name\":\"x\"} 1"},
        {"{..phase}", "Running Pending Running"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        struct err err = {0};
        if (run(rows[i].path, &out, &err) < 0)
            fail_msg("%s: %s", rows[i].path, err.msg);
        if (!str_eqz(sbuf_str(&out), rows[i].want))
            fail_msg("%s: got '%s', want '%s'", rows[i].path, out.p ? out.p : "", rows[i].want);
    }
}

static void refuses_with_a_place(void **state)
{
    static const struct row rows[] = {
        {"{.items", "the '{' is not closed"},
        {"{.items[0}", "the '[' is not closed"},
        {"{.items[?(@.a==\"b\"}", "is not closed"},
        {"{.items[name]}", "is no index"},
        {"{items}", "a field is written .items"},
        {"{end}", "without a {range}"},
        {"{\"abc}", "does not end"},
        {"{....a}", "stands twice"},
        {"{.items[0:3:0]}", "more than 0"},
        {"{.items[7]}", "out of bounds"},
        {"{.items[-7]}", "out of bounds"},
        {"{.kind[0]}", "is not a list"},
        {"{.kind[?(@.a==1)]}", "cannot be filtered"},
        {"{.items[?(@.spec.n==\"3\")]}", "cannot compare"},
        {"{.items[?(@.spec.n=3)]}", "a filter compares with"},
        {"{^}", "unexpected '^'"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf out = {0};
        struct err err = {0};
        if (run(rows[i].path, &out, &err) >= 0)
            fail_msg("%s was taken", rows[i].path);
        if (!strstr(err.msg, rows[i].want))
            fail_msg("%s: got '%s', want '%s'", rows[i].path, err.msg, rows[i].want);
    }
}

static void relaxed_forms_are_one(void **state)
{
    static const char *const forms[] = {"{.kind}", ".kind", "kind", " {.kind} "};
    (void)state;
    for (size_t i = 0; i < array_len(forms); i++) {
        cleanup_arena struct arena arena = {0};
        cleanup_json_doc struct json_doc doc = {0};
        const struct jsonpath *p = NULL;
        struct jsonpath_values found = {0};
        assert_int_equal(json_parse(str_z(pods), NULL, &doc, NULL), 0);
        assert_int_equal(jsonpath_parse_relaxed(str_z(forms[i]), &arena, &p, NULL), 0);
        assert_non_null(p);
        assert_int_equal(jsonpath_find(p, doc.root, &arena, &found, NULL), 0);
        assert_int_equal(found.n, 1);
        assert_str(json_str(found.p[0]), "List");
    }
}

// A short template can ask for more than a machine has: it is told so instead.
static void looking_has_an_end(void **state)
{
    cleanup_sbuf struct sbuf path = {0}, out = {0};
    struct err err = {0};
    (void)state;
    sbuf_addz(&path, "{");
    for (int i = 0; i < 40; i++)
        sbuf_addz(&path, "...*");
    sbuf_addz(&path, "}");
    int code = run(path.p, &out, &err);
    assert_true(code == 0 || code == -ERR_TOO_LARGE);
    sbuf_clear(&path);
    sbuf_addz(&path, "{.");
    for (int i = 0; i < 40; i++)
        sbuf_addz(&path, "[?(@");
    assert_int_equal(run(path.p, &out, &err), -ERR_INVALID);
}

RUN_TESTS(TEST_CASE(finds_what_kubectl_finds), TEST_CASE(refuses_with_a_place),
          TEST_CASE(relaxed_forms_are_one), TEST_CASE(looking_has_an_end))

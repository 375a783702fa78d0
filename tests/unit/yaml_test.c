// SPDX-License-Identifier: Apache-2.0
//
// YAML. What kubectl's own reader and writer answer is in data/yaml_read.jsonl and
// data/yaml_write.jsonl, made by tests/oracle/yaml; the rest is about what they do not say: places,
// bounds, many documents.
#include "codec/docs.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "unit.h"

#include "base/banned.h"

static struct str write_compact(const yyjson_val *v, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_value(&w, v);
    return sbuf_str(out);
}

static void reads_as(const char *yaml, const char *json)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    if (yaml_parse(str_z(yaml), NULL, &doc, &err) != 0)
        fail_msg("%s: %s", yaml, err.msg);
    cleanup_sbuf struct sbuf out = {0};
    assert_str(write_compact(doc.root, &out), json);
}

static void refuses_at(struct str yaml, const char *what, size_t line, size_t column)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(yaml_parse(yaml, NULL, &doc, &err), -ERR_BAD_REQUEST);
    if (!strstr(err.msg, what) || err.line != line || err.column != column)
        fail_msg("wanted \"%s\" at %zu:%zu, got at %zu:%zu: %s", what, line, column, err.line,
                 err.column, err.msg);
}

// --- kubectl's answers ---------------------------------------------------------------------------

static struct sbuf read_data(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "%s/%s", getenv("TEST_DATA"), name); // NOLINT
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    struct sbuf b = {0};
    size_t n;
    do {
        n = fread(sbuf_space(&b, 65536), 1, 65536, f);
        sbuf_commit(&b, n);
    } while (n);
    (void)fclose(f);
    return b;
}

// Where we differ from go-yaml on purpose or because libyaml is newer than what it was made from.
static bool differs_knowingly(struct str yaml)
{
    static const char *const known[] = {
        "[!, x]\n",               // libyaml: ',' ends a tag
        "%YAML 1.2\n---\na: 1\n", // libyaml reads 1.2 as 1.1, go-yaml refuses it
        "a: b\n---\nc: d\n",      // go-yaml ignores all but the first document
        "a: b\n...\n---\nc: d\n",
        "a: \"\\/\\\"\\\\\\a\\b\\t\\n\\v\\f\\r\\e\\ \\N\\_\\L\\P\"\n", // libyaml knows JSON's \/
    };
    for (size_t i = 0; i < array_len(known); i++)
        if (str_eqz(yaml, known[i]))
            return true;
    return false;
}

static void check_read(const yyjson_val *row)
{
    struct str yaml = json_str(json_get(row, STR("yaml")));
    const yyjson_val *json = json_get(row, STR("json"));
    if (differs_knowingly(yaml))
        return;
    struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0}, want = {0};
    struct err err = {0};
    int r = yaml_parse(yaml, &options, &doc, &err);
    if (!json) {
        if (r == 0)
            fail_msg("not refused: %.*s", STR_ARG(yaml));
        assert_true(err.line > 0 && err.column > 0 && err.msg[0]);
        return;
    }
    if (r < 0)
        fail_msg("%.*s: %s", STR_ARG(yaml), err.msg);
    assert_int_equal(json_parse(json_str(json), &options, &want, &err), 0);
    if (!json_equal(doc.root, want.root))
        fail_msg("%.*s is not %.*s", STR_ARG(yaml), STR_ARG(json_str(json)));
}

static void reads_as_kubectl(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf data = read_data("yaml_read.jsonl");
    size_t offset = 0, rows = 0;
    struct json_pos at = {1, 1};
    for (;; rows++) {
        cleanup_json_doc struct json_doc row = {0};
        int r = json_parse_next(sbuf_str(&data), &offset, &at, NULL, &row, NULL);
        if (r == 0)
            break;
        assert_int_equal(r, 1);
        check_read(row.root);
    }
    assert_true(rows > 1500);
}

static void check_write(const yyjson_val *row)
{
    struct str json = json_str(json_get(row, STR("json")));
    struct str yaml = json_str(json_get(row, STR("yaml")));
    // Upstream reads JSON as YAML first, which loses or refuses these two; <<, left bare, would come
    // back as a merge.
    bool upstream_errs = str_contains(json, STR("\xC2\x85")) || str_contains(json, STR("\x7f"));
    if (str_contains(json, STR("\"\\u003c\\u003c\"")))
        upstream_errs = true;
    struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0}, back = {0};
    struct err err = {0};
    assert_int_equal(json_parse(json, &options, &doc, &err), 0);
    cleanup_sbuf struct sbuf out = {0};
    yaml_write(doc.root, true, &out);
    if (!upstream_errs)
        assert_str(sbuf_str(&out), yaml.p);
    if (yaml_parse(sbuf_str(&out), NULL, &back, &err) < 0)
        fail_msg("%.*s: %s", STR_ARG(json), err.msg);
    bool big = false;
    for (size_t i = 0; i < doc.count; i++)
        big = big || json_type(doc.root + i) == JSON_BIG;
    if (!big && !json_equal(doc.root, back.root))
        fail_msg("%.*s came back as %s", STR_ARG(json), out.p);
}

static void writes_as_kubectl(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf data = read_data("yaml_write.jsonl");
    size_t offset = 0, rows = 0;
    struct json_pos at = {1, 1};
    for (;; rows++) {
        cleanup_json_doc struct json_doc row = {0};
        int r = json_parse_next(sbuf_str(&data), &offset, &at, NULL, &row, NULL);
        if (r == 0)
            break;
        assert_int_equal(r, 1);
        check_write(row.root);
    }
    assert_true(rows > 1500);
}

// --- Our own -------------------------------------------------------------------------------------

static void keeps_keys_in_order(void **state)
{
    (void)state;
    reads_as("z: 1\na: 2\nm: {w: 1, b: 2}\n", "{\"z\":1,\"a\":2,\"m\":{\"w\":1,\"b\":2}}");
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(yaml_parse(STR("z: 1\na10: 2\na9: 3\n"), NULL, &doc, NULL), 0);
    cleanup_sbuf struct sbuf given = {0}, sorted = {0};
    yaml_write(doc.root, false, &given);
    yaml_write(doc.root, true, &sorted);
    assert_str(sbuf_str(&given), "z: 1\na10: 2\na9: 3\n");
    assert_str(sbuf_str(&sorted), "a9: 3\na10: 2\nz: 1\n");
}

static void takes_doubles_through_json(void **state)
{
    (void)state;
    reads_as("[1e3, 1.0, 1.5, 1e20, 1e21, -0.0]", "[1000,1,1.5,100000000000000000000,1e+21,0]");
    reads_as("[0x7fffffffffffffff, 0xffffffffffffffff]",
             "[9223372036854775807,18446744073709551615]");
}

static void merges_maps(void **state)
{
    (void)state;
    // The order in the text decides, and a key keeps its first place.
    reads_as("b: &b {x: 1, w: 2}\nc: {<<: *b, w: 3, z: 4}\n",
             "{\"b\":{\"x\":1,\"w\":2},\"c\":{\"x\":1,\"w\":3,\"z\":4}}");
    reads_as("c: {w: 3, <<: {x: 1, w: 2}}\n", "{\"c\":{\"w\":2,\"x\":1}}");
    reads_as("c: {<<: [{x: 1}, {x: 2, w: 2}]}\n", "{\"c\":{\"x\":1,\"w\":2}}");
    refuses_at(STR("a: 1\nc: {<<: 7}\n"), "map merge requires", 2, 9);
    refuses_at(STR("x: &x\n  <<: *x\n"), "contains itself", 2, 7);
    // Overriding a merged key is no duplicate; saying it twice is.
    refuses_at(STR("c: {<<: {x: 1}, x: 2,\n  x: 3}\n"), "key \"x\" already set in map on line 1", 2,
               3);
    refuses_at(STR("c: {<<: {x: 1, x: 2}}\n"), "already set", 1, 16);
}

static void refuses_duplicate_keys(void **state)
{
    (void)state;
    refuses_at(STR("a: 1\nb: 2\na: 3\n"), "key \"a\" already set in map on line 1", 3, 1);
    refuses_at(STR("1: a\n\"1\": b\n"), "already set", 2, 1);
    refuses_at(STR("yes: a\ntrue: b\n"), "key \"true\" already set", 2, 1);
    struct json_options options = {.duplicates = JSON_DUPLICATES_LAST};
    cleanup_json_doc struct json_doc doc = {0};
    assert_int_equal(yaml_parse(STR("a: 1\nb: 2\na: 3\n"), &options, &doc, NULL), 0);
    cleanup_sbuf struct sbuf out = {0};
    assert_str(write_compact(doc.root, &out), "{\"a\":3,\"b\":2}");
}

static void knows_lines(void **state)
{
    (void)state;
    cleanup_json_doc struct json_doc doc = {0};
    struct str text =
        STR("# c\nspec: &s\n  list:\n  - a\n  - {b: c}\n  text: |\n    x\nalias: *s\n");
    assert_int_equal(yaml_parse(text, NULL, &doc, NULL), 0);
    static const struct {
        const char *path;
        uint32_t line, column;
    } cases[] = {{"", 2, 1},
                 {"spec", 2, 7},
                 {"spec.list", 4, 3},
                 {"spec.list[0]", 4, 5},
                 {"spec.list[1].b", 5, 9},
                 {"spec.text", 6, 9},
                 {"alias.list[0]", 4, 5}};
    for (size_t i = 0; i < array_len(cases); i++) {
        struct json_pos at = {0};
        assert_true(json_locate(&doc, json_at_path(doc.root, str_z(cases[i].path), NULL), &at));
        if (at.line != cases[i].line || at.column != cases[i].column)
            fail_msg("%s is at %u:%u", cases[i].path, at.line, at.column);
    }
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "must be positive");
    err_path_field(&err, "missing", 7);
    err_path_index(&err, 1);
    err_path_field(&err, "spec.list", 9);
    json_locate_err(&doc, &err);
    assert_int_equal(err.line, 5);
}

static void places_errors(void **state)
{
    (void)state;
    refuses_at(STR("a: 1\n\tb: 2\n"), "indent with spaces", 2, 1);
    refuses_at(STR("a: [1,\n"), "flow", 2, 1);
    refuses_at(STR("a: b: c\n"), "mapping values are not allowed", 1, 5);
    refuses_at(STR("a:\n  - *nope\n"), "unknown anchor 'nope'", 2, 5);
    refuses_at(STR("a: .inf\n"), ".inf cannot be represented in JSON", 1, 4);
    refuses_at(STR("a: !!int x\n"), "cannot decode !!str `x` as a !!int", 1, 4);
    refuses_at(STR("? [a]\n: b\n"), "unsupported map key: a list", 1, 3);
    refuses_at(STR("ok: 1\nbad: \"\xFF\"\n"), "UTF-8", 2, 7);
    refuses_at(STR("\xFF\xFE"
                   "a\0:\0"),
               "UTF-16", 1, 1);
    refuses_at(STR("ok: 1\nbad: \"\x01\"\n"), "control characters", 2, 7);
    refuses_at(STR("a: 1\n---\nb: 2\n"), "more than one YAML document", 3, 1);
}

// A long text that is mentioned often, as a value and as a key.
static void refuses_long_aliases(void **state)
{
    (void)state;
    static const char *const mentions[] = {"*x", "{*x : 1}", "{<<: *y}"};
    for (size_t i = 0; i < array_len(mentions); i++) {
        for (size_t n = 30; n <= 50; n += 20) { // 3 MB and 5 MB
            cleanup_json_doc struct json_doc doc = {0};
            cleanup_sbuf struct sbuf text = {0};
            struct err err = {0};
            sbuf_addz(&text, "a: &x ");
            for (size_t k = 0; k < 100000; k++)
                sbuf_addc(&text, 'v');
            sbuf_addz(&text, "\nb: &y {*x : 1}\nc: [");
            for (size_t k = 0; k < n; k++)
                sbuf_addf(&text, "%s%s", k ? ", " : "", mentions[i]);
            sbuf_addz(&text, "]\n");
            int r = yaml_parse(sbuf_str(&text), NULL, &doc, &err);
            assert_int_equal(r, n == 30 ? 0 : -ERR_BAD_REQUEST);
            if (r < 0)
                assert_non_null(strstr(err.msg, "aliases expand to more than 4194304 bytes"));
        }
    }
}

static void refuses_billion_laughs(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addz(&text, "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for (int i = 1; i < 10; i++) {
        sbuf_addf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 9; j++)
            sbuf_addf(&text, "%s*a%d", j ? ", " : "", i - 1);
        sbuf_addz(&text, "]\n");
    }
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &doc, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "aliases expand to more than 100000 nodes"));
    assert_true(err.line > 0);
    // The same with merges, whose maps may even be empty.
    sbuf_clear(&text);
    sbuf_addz(&text, "a0: &a0 {}\n");
    for (int i = 1; i < 10; i++) {
        sbuf_addf(&text, "a%d: &a%d {<<: [", i, i);
        for (int j = 0; j < 9; j++)
            sbuf_addf(&text, "%s*a%d", j ? ", " : "", i - 1);
        sbuf_addz(&text, "]}\n");
    }
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &doc, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "aliases expand"));
    // A chain of merges must not eat the stack.
    sbuf_clear(&text);
    sbuf_addz(&text, "a0: &a0 {}\n");
    for (int i = 1; i < 20000; i++)
        sbuf_addf(&text, "a%d: &a%d {<<: *a%d}\n", i, i, i - 1);
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &doc, &err), -ERR_BAD_REQUEST);
    // Honest use is far from the bound.
    sbuf_clear(&text);
    sbuf_addz(&text, "base: &b {a: 1, b: [1, 2, 3]}\nlist:\n");
    for (int i = 0; i < 5000; i++)
        sbuf_addz(&text, "- <<: *b\n  c: *b\n");
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &doc, &err), 0);
}

static void bounds_depth_and_size(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0}, none = {0};
    struct err err = {0};
    sbuf_add_repeat(&text, '[', DRAY_DOC_DEPTH_MAX);
    sbuf_add_repeat(&text, ']', DRAY_DOC_DEPTH_MAX);
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &doc, NULL), 0);
    sbuf_clear(&text);
    sbuf_add_repeat(&text, '[', 1000000);
    refuses_at(sbuf_str(&text), "nested deeper than 256", 1, DRAY_DOC_DEPTH_MAX + 1);
    sbuf_clear(&text);
    for (int i = 0; i < 300000; i++)
        sbuf_addz(&text, "- ");
    refuses_at(sbuf_str(&text), "nested deeper than 256", 1, 2 * DRAY_DOC_DEPTH_MAX + 1);
    // By aliases, too: each line is one level deeper than the one before.
    sbuf_clear(&text);
    sbuf_addz(&text, "- &a0 []\n");
    for (int i = 1; i < 300; i++)
        sbuf_addf(&text, "- &a%d [*a%d]\n", i, i - 1);
    assert_int_equal(yaml_parse(sbuf_str(&text), NULL, &none, &err), -ERR_BAD_REQUEST);
    assert_non_null(strstr(err.msg, "nested deeper"));
    struct json_options options = {.max_bytes = 5};
    assert_int_equal(yaml_parse(STR("a: 123"), &options, &none, &err), -ERR_TOO_LARGE);
    // libyaml takes quadratic time over these.
    sbuf_clear(&text);
    for (int i = 0; i <= DRAY_YAML_TAG_DIRECTIVES_MAX; i++)
        sbuf_addf(&text, "%%TAG !a%d! tag:x:\n", i);
    sbuf_addz(&text, "---\na: 1\n");
    refuses_at(sbuf_str(&text), "more than 100 %TAG directives", 1, 1);
}

static void survives_a_hundred_megabytes_of_spaces(void **state)
{
    (void)state;
    size_t n = (size_t)100 * 1024 * 1024;
    cleanup_free char *text = xmalloc(n);
    memset(text, ' ', n);
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    assert_int_equal(yaml_parse(str_make(text, n), NULL, &doc, &err), -ERR_TOO_LARGE);
}

// Every prefix is a document or an error with a place.
static void takes_every_truncation(void **state)
{
    (void)state;
    const char *text =
        "a: &x [1, 'b', \"c\\u00e9\"]\nb:\n  - |+2\n    t\n  - {<<: {k: v}, m: !!int 3}\n"
        "? >-\n  key\n: *x\n---\nz: 1\n...\n";
    for (size_t n = 0; n < strlen(text); n++) {
        cleanup_free char *copy = xstrndup(text, n);
        struct yaml_reader *r = yaml_reader_new(str_make(copy, n), (struct json_pos){1, 1}, NULL);
        struct err err = {0};
        int code;
        do {
            cleanup_json_doc struct json_doc doc = {0};
            code = yaml_reader_next(r, &doc, &err);
        } while (code > 0);
        assert_true(code == 0 || (err.line > 0 && err.msg[0]));
        yaml_reader_free(r);
    }
}

// Reads a manifest and joins what it holds: line, then JSON.
static void manifest_is(const char *text, const char *want)
{
    cleanup_docs_reader struct docs_reader r;
    docs_reader_init(&r, str_z(text), NULL);
    cleanup_sbuf struct sbuf got = {0};
    for (;;) {
        cleanup_json_doc struct json_doc doc = {0};
        struct err err = {0};
        int code = docs_next(&r, &doc, &err);
        if (code < 0)
            sbuf_addf(&got, "error at %zu:%zu ", err.line, err.column);
        if (code <= 0)
            break;
        sbuf_addf(&got, "%u:", doc.start.line);
        (void)write_compact(doc.root, &got);
        sbuf_addc(&got, ' ');
    }
    assert_str(sbuf_str(&got), want);
}

static void reads_many_documents(void **state)
{
    (void)state;
    manifest_is("", "");
    manifest_is("# nothing\n---\n---\n# still nothing\n...\n", "");
    manifest_is("a: 1\n", "1:{\"a\":1} ");
    manifest_is("---\na: 1\n---\n\nb: 2\n---\n---\nc: 3\n...\n",
                "2:{\"a\":1} 5:{\"b\":2} 8:{\"c\":3} ");
    manifest_is("a: 1\n---\nnull\n---\n~\n---\nb: 2\n", "1:{\"a\":1} 7:{\"b\":2} ");
    manifest_is("\xEF\xBB\xBF"
                "a: 1\r\n---\r\nb: 2\r\n",
                "1:{\"a\":1} 3:{\"b\":2} ");
    manifest_is("a: 1\n---\nb: [\n", "1:{\"a\":1} error at 4:1 ");
    manifest_is("- a\n- b\n", "1:[\"a\",\"b\"] ");
    manifest_is("[1, 2]", "1:[1,2] ");
    // Anchors end with their document.
    manifest_is("a: &x 1\n---\nb: *x\n", "1:{\"a\":1} error at 3:4 ");
}

static void reads_json_manifests(void **state)
{
    (void)state;
    manifest_is("{\"a\":1}", "1:{\"a\":1} ");
    manifest_is("\n  {\"a\":1}{\"b\":\n2}\n{\"c\":3}", "2:{\"a\":1} 2:{\"b\":2} 4:{\"c\":3} ");
    manifest_is("\xEF\xBB\xBF{\"a\":1}", "1:{\"a\":1} "); // by way of YAML
    manifest_is("{a: 1}", "1:{\"a\":1} ");
    manifest_is("{\"a\":1}\n---\n{b: 2}\n---\nc: 3\n", "1:{\"a\":1} 3:{\"b\":2} 5:{\"c\":3} ");
    manifest_is("{\"a\":1,\n\"a\":2}", "error at 2:1 ");
    manifest_is("{\"a\":1}\n{\"b\":2}\n{c: 3}", "1:{\"a\":1} 2:{\"b\":2} error at 3:2 ");
    manifest_is("{\"a\": 1,\n \"b\": @}", "error at 2:7 ");
}

static void bounds_manifests(void **state)
{
    (void)state;
    struct json_options options = {.max_bytes = 20};
    static const char *const texts[] = {"a: 1\n---\nb: 2\n---\nc: 3\n",
                                        "{\"a\":1}{\"b\":1}{\"c\":1}"};
    for (size_t i = 0; i < array_len(texts); i++) {
        cleanup_docs_reader struct docs_reader r;
        docs_reader_init(&r, str_z(texts[i]), &options);
        cleanup_json_doc struct json_doc doc = {0};
        assert_int_equal(docs_next(&r, &doc, NULL), -ERR_TOO_LARGE);
        assert_int_equal(docs_next(&r, &doc, NULL), 0);
    }
}

RUN_TESTS(TEST_CASE(reads_as_kubectl), TEST_CASE(writes_as_kubectl), TEST_CASE(keeps_keys_in_order),
          TEST_CASE(takes_doubles_through_json), TEST_CASE(merges_maps),
          TEST_CASE(refuses_duplicate_keys), TEST_CASE(knows_lines), TEST_CASE(places_errors),
          TEST_CASE(refuses_billion_laughs), TEST_CASE(refuses_long_aliases),
          TEST_CASE(bounds_depth_and_size), TEST_CASE(survives_a_hundred_megabytes_of_spaces),
          TEST_CASE(takes_every_truncation), TEST_CASE(reads_many_documents),
          TEST_CASE(reads_json_manifests), TEST_CASE(bounds_manifests))

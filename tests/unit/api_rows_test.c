// SPDX-License-Identifier: Apache-2.0
//
// Objects of every kind as Kubernetes' own packages write them (tests/oracle/api): JSON and protobuf
// must be read and written back byte for byte. The file that API_ROWS names replaces the sample.
#include "api/api.h"
#include "codec/base64.h"
#include "codec/proto.h"
#include "unit.h"

#include "base/banned.h"

static const char *rows_path;

static void same_bytes(struct str got, struct str want, struct str row, const char *what,
                       const char *from)
{
    if (str_eq(got, want))
        return;
    size_t at = 0;
    while (at < got.n && at < want.n && got.p[at] == want.p[at])
        at++;
    fail_msg(
        "%s from %s differs at byte %zu of %zu (got %zu bytes) in %.*s...\n got  %.*s\n want %.*s",
        what, from, at, want.n, got.n, STR_ARG(str_upto(row, 100)),
        STR_ARG(str_upto(str_from(got, at), 80)), STR_ARG(str_upto(str_from(want, at), 80)));
}

static void writes(const struct api_object *o, struct str text, struct str wire, const char *from)
{
    cleanup_sbuf struct sbuf json = {0}, proto = {0};
    struct json_writer w = {.out = &json, .html = true};
    struct err err = {0};
    if (api_json_write(o->kind->type, o->value, &w, &err) < 0)
        fail_msg("%s: %s", err.path, err.msg);
    api_envelope_write(o, &proto);
    same_bytes(sbuf_str(&json), text, text, "JSON", from);
    same_bytes(sbuf_str(&proto), wire, text, "protobuf", from);
}

static void check_row(struct str text, struct str wire)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_json_strict struct json_strict strict = {0};
    struct api_object from_json, from_proto;
    struct err err = {0};
    if (json_parse(text, NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &arena, &strict, &from_json, &err) < 0)
        fail_msg("%s: %s in %.*s", err.path, err.msg, STR_ARG(str_upto(text, 200)));
    assert_int_equal(strict.reports.n, 0);
    if (api_envelope_read(wire, &arena, &from_proto, &err) < 0)
        fail_msg("%s: %s in %.*s", err.path, err.msg, STR_ARG(str_upto(text, 200)));
    writes(&from_json, text, wire, "JSON");
    writes(&from_proto, text, wire, "protobuf");
    assert_true(api_equal(from_json.kind->type, from_json.value, from_proto.value));
}

static size_t check_rows(const char *from)
{
    cleanup_sbuf struct sbuf file = {0}, wire = {0};
    read_file(from, &file);
    struct str rest = sbuf_str(&file), line, text, base64;
    size_t rows = 0;
    while (rest.n) {
        (void)str_cut(rest, '\n', &line, &rest);
        assert_true(str_cut(line, '\t', &text, &base64));
        sbuf_clear(&wire);
        assert_int_equal(base64_decode(base64, BASE64_STD, &wire, NULL), 0);
        check_row(text, sbuf_str(&wire));
        rows++;
    }
    return rows;
}

static void every_row_is_written_back(void **state)
{
    (void)state;
    assert_true(check_rows(rows_path) >= 200);
}

// --- Schemas in protobuf -------------------------------------------------------------------------

static void definitions_are_written_back(void **state)
{
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/definition_rows.tsv", getenv("TEST_DATA"));
    assert_int_equal(check_rows(path), 9);
}

// read_schema reads a message as the schema of a definition's version; the text is in the arena.
static int read_schema(struct str message, struct arena *arena, struct str *ret)
{
    struct api_custom_resource_validation v = {0};
    cleanup_proto_writer struct proto_writer w = {0};
    struct err err = {0};
    proto_put_bytes(&w, 1, message);
    int r =
        api_proto_read(&api_custom_resource_validation_type, proto_written(&w), &v, arena, &err);
    *ret = v.open_apiv3_schema;
    return r;
}

static void refuses(struct str message)
{
    cleanup_arena struct arena arena = {0};
    struct str text;
    assert_int_equal(read_schema(message, &arena, &text), -ERR_BAD_REQUEST);
}

#define BYTES(text) ((struct str){text, sizeof(text) - 1})

static void schemas_that_json_cannot_say_are_refused(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    struct str text;
    assert_int_equal(read_schema(BYTES("\x2a\x01s\x32\x01"
                                       "f"),
                                 &arena, &text),
                     0);
    assert_str(text, "{\"type\":\"s\",\"format\":\"f\"}");
    refuses(BYTES("\x32\x01"
                  "f\x2a\x01s"));         // numbers that descend
    refuses(BYTES("\x2a\x01s\x2a\x01s")); // one field twice
    refuses(BYTES("\x42\x09\x0a\x07"
                  "1,\"a\":2"));                            // members hidden in a value
    refuses(BYTES("\x42\x03\x0a\x01x"));                    // no JSON
    refuses(BYTES("\x49\x00\x00\x00\x00\x00\x00\xf8\x7f")); // not a number
    refuses(BYTES("\xea\x01\x03\x0a\x01"
                  "b\xea\x01\x03\x0a\x01"
                  "a")); // keys that descend
    refuses(BYTES("\xea\x01\x03\x0a\x01"
                  "a\xea\x01\x03\x0a\x01"
                  "a"));         // a key twice
    refuses(BYTES("\x2a\x7fs")); // longer than the message
    refuses(BYTES("\x2a\xff\xff\xff\xff\xff\xff\xff\xff\x7fs"));
    refuses(BYTES("\x2a\x01\xff")); // not UTF-8
}

static void schemas_nest_only_so_deep(void **state)
{
    (void)state;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf deep = {0};
    struct str text;
    for (int levels = 10; levels <= 100000; levels *= 10) {
        cleanup_proto_writer struct proto_writer w = {0};
        for (int i = 0; i < levels; i++)
            proto_close(&w, 28, 0); // not: { not: { … } }
        int r = read_schema(proto_written(&w), &arena, &text);
        assert_int_equal(r, levels == 10 ? 0 : -ERR_BAD_REQUEST);
    }
    // A default nested as deep as a document may be, some schemas further down.
    for (int i = 0; i < 250; i++)
        sbuf_addc(&deep, '[');
    for (int i = 0; i < 250; i++)
        sbuf_addc(&deep, ']');
    cleanup_proto_writer struct proto_writer w = {0};
    proto_put_bytes(&w, 1, sbuf_str(&deep));
    proto_close(&w, 8, 0);
    assert_int_equal(read_schema(proto_written(&w), &arena, &text), 0);
    for (int i = 0; i < 10; i++)
        proto_close(&w, 28, 0);
    refuses(proto_written(&w));
}

// --- Defaults and conversion ---------------------------------------------------------------------

// 2001-01-01T00:00:00Z, which stands for now in the rows.
#define ROW_TIME 978307200

static void check_behaviour(struct str what, struct str before, struct str after)
{
    cleanup_arena struct arena arena = {0};
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf out = {0};
    struct json_writer w = {.out = &out, .html = true};
    struct api_object o;
    struct err err = {0};
    if (json_parse(before, NULL, &doc, &err) < 0 ||
        api_decode(&doc, doc.root, &arena, NULL, &o, &err) < 0)
        fail_msg("%s: %s in %.*s", err.path, err.msg, STR_ARG(str_upto(before, 200)));
    if (str_eqz(what, "default")) {
        struct api_default_options options = {.now = {{ROW_TIME, 0}, true}};
        api_default(o.kind->type, o.value, &options, &arena);
    } else {
        const struct api_kind *to = api_kind_find(what, o.kind->kind);
        assert_non_null(to);
        assert_int_equal(api_convert(&o, to, &arena, &o, &err), 0);
    }
    assert_int_equal(api_json_write(o.kind->type, o.value, &w, &err), 0);
    same_bytes(sbuf_str(&out), after, before, "JSON", "the API server");
}

static void defaults_and_conversions_are_upstreams(void **state)
{
    (void)state;
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/api_behaviour_rows.tsv", getenv("TEST_DATA"));
    cleanup_sbuf struct sbuf file = {0};
    read_file(path, &file);
    struct str rest = sbuf_str(&file), line, what, before, after;
    size_t rows = 0;
    while (rest.n) {
        (void)str_cut(rest, '\n', &line, &rest);
        assert_true(str_cut(line, '\t', &what, &line));
        assert_true(str_cut(line, '\t', &before, &after));
        check_behaviour(what, before, after);
        rows++;
    }
    assert_true(rows >= 150);
}

int main(void)
{
    char path[4096];
    (void)snprintf(path, sizeof(path), "%s/api_rows.tsv", getenv("TEST_DATA"));
    rows_path = getenv("API_ROWS") ? getenv("API_ROWS") : path;
    const struct CMUnitTest tests[] = {TEST_CASE(every_row_is_written_back),
                                       TEST_CASE(definitions_are_written_back),
                                       TEST_CASE(schemas_that_json_cannot_say_are_refused),
                                       TEST_CASE(schemas_nest_only_so_deep),
                                       TEST_CASE(defaults_and_conversions_are_upstreams)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// JSON: what parses must be written to text that parses to an equal value, in every layout, and
// every error must have a place inside the text. The first byte picks the options.
#include <assert.h>

#include "codec/json_strict.h"
#include "codec/json_writer.h"
#include "fuzz.h"

#include "base/banned.h"

// Compares value by value, in text order. A whole double is written without a point and so read as
// an integer, whose digits past the 17th the double did not have: numbers are compared as doubles.
static void assert_same(const struct json_doc *doc, const struct json_doc *back)
{
    assert(doc->count == back->count);
    for (size_t i = 0; i < doc->count; i++) {
        const yyjson_val *a = doc->root + i, *b = back->root + i;
        double x, y;
        assert(strcmp(json_type_name(a), json_type_name(b)) == 0);
        assert(json_len(a) == json_len(b) || json_type(a) == JSON_DOUBLE);
        if (json_is_string(a))
            assert(str_eq(json_str(a), json_str(b)));
        else if (json_to_double(a, &x, NULL) == 0)
            assert(json_to_double(b, &y, NULL) == 0 && x == y);
    }
}

static void write_and_compare(const struct json_doc *doc, bool html, unsigned indent)
{
    cleanup_sbuf struct sbuf text = {0};
    struct json_writer w = {.out = &text, .html = html, .indent = indent};
    json_write_value(&w, doc->root);
    cleanup_json_doc struct json_doc back = {0};
    struct json_options options = {.max_bytes = SIZE_MAX};
    int r = json_parse(sbuf_str(&text), &options, &back, NULL);
    assert(r == 0);
    assert_same(doc, &back);
    // What is written is canonical: writing it again changes nothing. (Twice, for -0.0 becomes -0,
    // which is an integer, and that 0.)
    cleanup_sbuf struct sbuf second = {0};
    struct json_writer w2 = {.out = &second, .html = html, .indent = indent};
    json_write_value(&w2, back.root);
    cleanup_json_doc struct json_doc forth = {0};
    r = json_parse(sbuf_str(&second), &options, &forth, NULL);
    assert(r == 0);
    cleanup_sbuf struct sbuf third = {0};
    struct json_writer w3 = {.out = &third, .html = html, .indent = indent};
    json_write_value(&w3, forth.root);
    assert(str_eq(sbuf_str(&second), sbuf_str(&third)));
}

static void locate_all(const struct json_doc *doc, struct str text)
{
    struct json_pos before = {0}, at;
    for (size_t i = 0; i < doc->count && i < 64; i++) {
        bool found = json_locate(doc, doc->root + i, &at);
        assert(found);
        // Values stand in text order, unless repeated keys have been dropped.
        assert(doc->positions || at.line > before.line ||
               (at.line == before.line && at.column > before.column));
        assert(at.line <= text.n && at.column <= text.n);
        before = at;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = str_make((const char *)data + 1, size - 1);
    struct json_options options = {.duplicates = (enum json_duplicates)(data[0] % 3)};
    cleanup_json_doc struct json_doc doc = {0};
    struct err err = {0};
    int r = json_parse(text, &options, &doc, &err);
    if (r < 0) {
        assert(err.code == -r && err.msg[0] && err.line > 0 && err.line <= size);
        return 0;
    }
    locate_all(&doc, text);
    cleanup_json_strict struct json_strict strict = {0};
    json_strict_walk(&strict, doc.root);
    assert(strict.reports.n == 0 || options.duplicates == JSON_DUPLICATES_KEEP);
    if (strict.reports.n == 0) {
        assert(json_equal(doc.root, doc.root));
        write_and_compare(&doc, data[0] & 4u, data[0] >> 4 & 3u);
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// YAML: every document that is read must be written to YAML that reads as an equal value, and every
// error must have a place. The manifest reader runs over the same text and must end.
#include <assert.h>

#include "codec/docs.h"
#include "codec/yaml.h"
#include "fuzz.h"

#include "base/banned.h"

// Numbers past 64 bits come back as doubles.
static bool has_big(const struct json_doc *doc)
{
    for (size_t i = 0; i < doc->count; i++)
        if (json_type(doc->root + i) == JSON_BIG)
            return true;
    return false;
}

static void check_document(const struct json_doc *doc, bool sorted)
{
    cleanup_sbuf struct sbuf text = {0};
    yaml_write(doc->root, sorted, &text);
    cleanup_json_doc struct json_doc back = {0};
    struct json_options options = {.max_bytes = SIZE_MAX};
    int r = yaml_parse(sbuf_str(&text), &options, &back, NULL);
    assert(r == 0);
    assert(has_big(doc) || json_equal(doc->root, back.root));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = str_make((const char *)data + 1, size - 1);
    struct json_options options = {.duplicates = (enum json_duplicates)(data[0] % 3)};
    struct err err = {0};
    int r;
    struct yaml_reader *reader = yaml_reader_new(text, (struct json_pos){1, 1}, &options);
    for (;;) {
        cleanup_json_doc struct json_doc doc = {0};
        r = yaml_reader_next(reader, &doc, &err);
        if (r <= 0)
            break;
        assert(doc.positions && doc.positions[0].line > 0);
        check_document(&doc, data[0] & 4u);
    }
    yaml_reader_free(reader);
    assert(r == 0 || (err.code == -r && err.msg[0] && err.line > 0));

    cleanup_docs_reader struct docs_reader docs;
    docs_reader_init(&docs, text, &options);
    do {
        cleanup_json_doc struct json_doc doc = {0};
        r = docs_next(&docs, &doc, &err);
    } while (r > 0);
    return 0;
}

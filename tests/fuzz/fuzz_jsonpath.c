// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a JSONPath template, run on a document that has some of everything. Reading it again gives the same, and what
// comes out is bounded.
#include <assert.h>

#include "fuzz.h"
#include "view/jsonpath.h"

#include "base/banned.h"

static const char document[] =
    "{\"items\":[{\"metadata\":{\"name\":\"a\",\"labels\":{\"a.b/c\":\"d\"}},\"n\":3,\"f\":1.5,"
    "\"t\":true,\"none\":null,\"list\":[1,2,[3,{\"x\":\"y\"}]]},{\"metadata\":{\"name\":\"b\"},"
    "\"n\":-7,\"list\":[]}],\"kind\":\"List\"}";

static int run(struct str text, const yyjson_val *root, struct sbuf *out)
{
    cleanup_arena struct arena arena = {0};
    const struct jsonpath *path = NULL;
    struct err err = {0};
    int code = jsonpath_parse(text, &arena, &path, &err);
    if (code == 0)
        code = jsonpath_write(path, root, out, &err);
    assert(code == 0 || err.msg[0]);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf first = {0}, second = {0};
    const struct jsonpath *relaxed = NULL;
    struct jsonpath_values found = {0};
    if (size > 4096)
        return 0;
    int code = json_parse(str_z(document), NULL, &doc, NULL);
    assert(code == 0);
    code = run(text, doc.root, &first);
    assert(run(text, doc.root, &second) == code);
    assert(str_eq(sbuf_str(&first), sbuf_str(&second)));
    if (jsonpath_parse_relaxed(text, &arena, &relaxed, NULL) == 0)
        (void)!jsonpath_find(relaxed, doc.root, &arena, &found, NULL);
    return 0;
}

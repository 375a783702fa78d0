// SPDX-License-Identifier: Apache-2.0
#include "codec/docs.h"

#include <assert.h>

#include "codec/json/json_int.h"
#include "codec/yaml.h"

#include "base/banned.h"

static void start_yaml(struct docs_reader *r)
{
    r->yaml = yaml_reader_new(str_from(r->text, r->offset), r->at, &r->options);
}

void docs_reader_init(struct docs_reader *r, struct str text, const struct json_options *options)
{
    *r = (struct docs_reader){.text = text, .at = {1, 1}};
    if (options)
        r->options = *options;
    if (!r->options.max_bytes)
        r->options.max_bytes = DRAY_REQUEST_BYTES_MAX;
    size_t first = json_skip_space(text, 0);
    if (first == text.n || text.p[first] != '{')
        start_yaml(r);
}

void docs_reader_done(struct docs_reader *r)
{
    yaml_reader_free(r->yaml);
    *r = (struct docs_reader){.ended = true};
}

// A document that is not JSON may be YAML, as long as the text has not shown to be a stream of
// JSON. What is JSON but refused (too deep, a key twice) would be refused as YAML as well.
static int next_json(struct docs_reader *r, struct json_doc *ret, struct err *err)
{
    int code = json_parse_next(r->text, &r->offset, &r->at, &r->options, ret, err);
    if (code > 0)
        r->count++;
    if (code != -ERR_BAD_REQUEST || r->count > 1)
        return code;
    start_yaml(r);
    int yaml_code = yaml_reader_next(r->yaml, ret, NULL);
    return yaml_code < 0 ? code : yaml_code;
}

static int docs_read_next(struct docs_reader *r, struct json_doc *ret, struct err *err)
{
    if (r->text.n > r->options.max_bytes)
        return err_set(err, ERR_TOO_LARGE, "the text has %zu bytes, more than the %zu allowed",
                       r->text.n, r->options.max_bytes);
    return r->yaml ? yaml_reader_next(r->yaml, ret, err) : next_json(r, ret, err);
}

int docs_next(struct docs_reader *r, struct json_doc *ret, struct err *err)
{
    while (!r->ended) {
        struct json_doc doc = {0};
        int code = docs_read_next(r, &doc, err);
        if (code <= 0) {
            r->ended = true;
            return code;
        }
        assert(doc.root);
        if (!json_is_null(doc.root)) {
            *ret = doc;
            return 1;
        }
        json_doc_done(&doc);
    }
    return 0;
}

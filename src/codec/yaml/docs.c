// SPDX-License-Identifier: Apache-2.0
//
// Manifests: JSON or YAML, one document or many, read one after the other.
#include "codec/docs.h"

#include <assert.h>

#include "codec/json/json_int.h"
#include "codec/yaml.h"

#include "base/banned.h"

static void start_yaml(struct docs_reader *d)
{
    d->yaml = yaml_reader_new(str_from(d->text, d->offset), d->at, &d->options);
}

void docs_reader_init(struct docs_reader *d, struct str text, const struct json_options *options)
{
    *d = (struct docs_reader){.text = text, .at = {1, 1}};
    if (options)
        d->options = *options;
    if (!d->options.max_bytes)
        d->options.max_bytes = DRAY_REQUEST_BYTES_MAX;
    size_t first = json_skip_space(text, 0);
    if (first == text.n || text.p[first] != '{')
        start_yaml(d);
}

void docs_reader_done(struct docs_reader *d)
{
    yaml_reader_free(d->yaml);
    *d = (struct docs_reader){.ended = true};
}

// A document that is not JSON may be YAML, as long as the text has not shown to be a stream of
// JSON. What is JSON but refused (too deep, a key twice) would be refused as YAML as well.
static int next_json(struct docs_reader *d, struct json_doc *ret, struct err *err)
{
    int r = json_parse_next(d->text, &d->offset, &d->at, &d->options, ret, err);
    if (r > 0)
        d->count++;
    if (r != -ERR_BAD_REQUEST || d->count > 1)
        return r;
    start_yaml(d);
    int yaml_code = yaml_reader_next(d->yaml, ret, NULL);
    return yaml_code < 0 ? r : yaml_code;
}

static int docs_read_next(struct docs_reader *d, struct json_doc *ret, struct err *err)
{
    if (d->text.n > d->options.max_bytes)
        return err_set(err, ERR_TOO_LARGE, "the text has %zu bytes, more than the %zu allowed",
                       d->text.n, d->options.max_bytes);
    return d->yaml ? yaml_reader_next(d->yaml, ret, err) : next_json(d, ret, err);
}

int docs_next(struct docs_reader *d, struct json_doc *ret, struct err *err)
{
    while (!d->ended) {
        struct json_doc doc = {0};
        int r = docs_read_next(d, &doc, err);
        if (r <= 0) {
            d->ended = true;
            return r;
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

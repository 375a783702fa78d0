// SPDX-License-Identifier: Apache-2.0
//
// What clients get who ask for something else than the objects themselves: Tables (rows and columns
// for people, which `kubectl get` prints) and PartialObjectMetadata. Columns and cells are those of
// kube-apiserver 1.37's printers; the columns' descriptions are our own.
//
// Both are written object by object, so that a long list needs no more memory than its text:
//
//     struct api_table_view t = {.kind = kind, .now = now, .include = API_INCLUDE_METADATA};
//     for each object: api_table_look(&t, value);
//     api_table_begin(&t, &list_meta, &w);
//     for each object: api_table_row(&t, value, json, &w, err);
//     api_table_end(&w);
//
// In a watch each event carries a Table of one row; only the first one has headers.
#ifndef API_TABLES_H
#define API_TABLES_H

#include <stdbool.h>

#include "api/api.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/json_writer.h"
#include "codec/rfc3339.h"

// includeObject: what stands in a row besides its cells.
enum api_include {
    API_INCLUDE_METADATA,
    API_INCLUDE_NONE,
    API_INCLUDE_OBJECT,
};

struct api_table_view {
    const struct api_kind *kind; // of the objects, not of their list
    struct moment now;           // what ages are counted from
    enum api_include include;
    bool no_headers;
    const struct api_storage_class *default_class; // set by api_table_look
};

// api_include_parse reads the query parameter; empty stands for Metadata. Returns 0, or
// -ERR_BAD_REQUEST.
int api_include_parse(struct str text, enum api_include *ret, struct err *err) MUST_USE;

// api_table_look takes note of an object that will have a row, for what depends on all of them:
// which storage class is the default. value must live until the rows are written.
void api_table_look(struct api_table_view *t, const void *value);

// api_table_begin writes the Table up to its first row. meta may be NULL.
void api_table_begin(const struct api_table_view *t, const struct api_list_meta *meta,
                     struct json_writer *w);

// api_table_row writes the row of one object, a struct of the kind's type. json, if not empty, is
// its text for API_INCLUDE_OBJECT; otherwise the object is written again. Returns 0 or as
// api_json_write.
int api_table_row(const struct api_table_view *t, const void *value, struct str json,
                  struct json_writer *w, struct err *err) MUST_USE;

void api_table_end(struct json_writer *w);

// sbuf_add_age adds a duration as kubectl shows it: 5s, 3m20s, 2d4h. "<unknown>" for a time that is
// not set.
void sbuf_add_age(struct sbuf *out, const struct api_time *since, struct moment now);

#endif

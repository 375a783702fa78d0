// SPDX-License-Identifier: Apache-2.0
//
// Documents out of a manifest as kubectl -f takes it: one or many, JSON or YAML. A text whose first
// character is '{' is read as JSON values that follow each other; where the first or second of them
// is not JSON (flow YAML such as {a: 1}, or a `---`), reading goes on as YAML from there, and if
// that fails too, the error is JSON's. Everything else is YAML. Empty and null documents are
// skipped.
#ifndef CODEC_DOCS_H
#define CODEC_DOCS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "codec/json.h"

struct yaml_reader;

struct docs_reader {
    struct str text; // borrowed
    struct json_options options;
    size_t offset; // what JSON has read
    struct json_pos at;
    size_t count;             // documents read as JSON
    struct yaml_reader *yaml; // set once reading as YAML
    bool ended;
};

// docs_reader_init starts; text must outlive the reader. options may be NULL; its max_bytes bounds
// the whole text.
void docs_reader_init(struct docs_reader *d, struct str text, const struct json_options *options);

// docs_next reads the next document; its first line is ret->start.line. Returns 1, 0 at the end, or
// -ERR_BAD_REQUEST or -ERR_TOO_LARGE with a position, after which the reader is at its end.
int docs_next(struct docs_reader *d, struct json_doc *ret, struct err *err) MUST_USE;

void docs_reader_done(struct docs_reader *d);
#define cleanup_docs_reader cleanup_with(docs_reader_done)

#endif

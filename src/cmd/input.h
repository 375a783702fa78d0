// SPDX-License-Identifier: Apache-2.0
//
// Files that verbs read: manifests in JSON, YAML or protobuf, from a path or from standard input.
#ifndef CMD_INPUT_H
#define CMD_INPUT_H

#include <stdbool.h>

#include "api/api.h"
#include "base/err.h"
#include "base/str.h"
#include "codec/docs.h"
#include "codec/json.h"

// struct input is the bytes of one file. Zeroed, it is empty.
struct input {
    const char *name; // borrowed; "-" reads standard input and is shown as <stdin>
    struct sbuf bytes;
    struct docs_reader docs;
    bool started;
};

// input_open reads a whole file, at most DRAY_FILE_BYTES_MAX. Returns 0, -ERR_TOO_LARGE or -errno.
int input_open(struct input *in, const char *path, struct err *err) MUST_USE;

// input_is_proto returns whether the file is one Kubernetes object in protobuf.
bool input_is_proto(const struct input *in);

// input_next reads the next JSON or YAML document. Returns as docs_next; the position of an error
// is in err.
int input_next(struct input *in, struct json_doc *ret, struct err *err) MUST_USE;

// input_error prints `dray VERB: FILE:LINE:COLUMN: PATH: MESSAGE` to standard error.
void input_error(const struct input *in, const char *verb, const struct err *err);

void input_done(struct input *in);
#define cleanup_input cleanup_with(input_done)

#endif

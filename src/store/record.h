// SPDX-License-Identifier: Apache-2.0
//
// An object as a row's blob: a checksum over the whole row, what indexes and selectors ask for,
// then the JSON. So loading needs no rules and no parsing of JSON.
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include <stdbool.h>

#include "base/str.h"
#include "store/object.h"

// The columns of a row besides its blob; part of the checksum.
struct record_row {
    uint64_t revision;
    struct str kind; // apiVersion/Kind
    struct str namespace;
    struct str name;
    bool deleted;
};

// record_write adds the blob of o.
void record_write(const struct record_row *row, const struct object *o, struct sbuf *out);

// record_read makes the object; one reference, the caller's. Returns 0, or -ERR_INVALID when blob
// and row are not what was written.
int record_read(const struct record_row *row, const struct api_kind *kind, struct str blob,
                struct object **ret, struct err *err) MUST_USE;

// record_is_intact: blob and row are what was written, of whatever kind.
bool record_is_intact(const struct record_row *row, struct str blob, struct err *err);

#endif

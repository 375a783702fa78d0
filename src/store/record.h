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

// record_check is record_read without an object, of whatever kind.
int record_check(const struct record_row *row, struct str blob, struct err *err) MUST_USE;

// record_sum is the checksum in a blob, over the row and the rest of the blob.
uint64_t record_sum(const struct record_row *row, struct str payload);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The mark of a database, private to the store: a small file beside it, DATABASE.mark, which states
// that a database existed, which one, and up to which revision it was on disk. A database that has
// less than its mark states has lost data, and is refused instead of being served.
#ifndef STORE_MARK_H
#define STORE_MARK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define MARK_ID_BYTES 33 // 32 hexadecimal digits

struct mark {
    char id[MARK_ID_BYTES]; // of the database, which stores it too
    uint64_t revision;      // committed at least up to here
    bool open;              // was not closed in order: the log holds a part
};

// mark_read reads the mark of a database. Returns 0, -ENOENT without a message, -ERR_INVALID or
// another code.
int mark_read(const char *database, struct mark *ret, struct err *err) MUST_USE;

// mark_write replaces it durably.
int mark_write(const char *database, const struct mark *mark, struct err *err) MUST_USE;

int mark_remove(const char *database, struct err *err) MUST_USE;

#endif

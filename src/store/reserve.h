// SPDX-License-Identifier: Apache-2.0
//
// Disk space that is kept for the end, private to the store: a file beside the database that is
// removed when the disk is full, so that deletions still find room in the log.
#ifndef STORE_RESERVE_H
#define STORE_RESERVE_H

#include <stdbool.h>
#include <stddef.h>

// Enough for the log of one transaction with the largest object.
#define RESERVE_BYTES ((size_t)20 * 1024 * 1024)

// reserve_make allocates the file, if it is not there. Returns whether it is there, with all its
// blocks, and some space is left beside it.
bool reserve_make(const char *database);

// reserve_make_some is for the end of use: on a full disk it allocates what it can, so that the
// next start finds room for a log.
void reserve_make_some(const char *database);

// reserve_release removes it. Returns false when there is none.
bool reserve_release(const char *database);

// reserve_has_space: the disk has some space left beside the reserve.
bool reserve_has_space(const char *database);

#endif

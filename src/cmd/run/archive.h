// SPDX-License-Identifier: Apache-2.0
//
// Backups: one file with the database, the keys and the tokens of a data directory.
//
//     dray-backup 1\n
//     file NAME SIZE\n and SIZE bytes, for each file
//     sha256 HEX\n       of everything before
#ifndef CMD_RUN_ARCHIVE_H
#define CMD_RUN_ARCHIVE_H

#include "base/err.h"

// archive_write makes a backup of database, a copy of the database of dir, and of what else dir
// holds. path must not exist; it is for its owner alone.
int archive_write(const char *path, const char *database, const char *dir,
                  struct err *err) MUST_USE;

// archive_restore puts a backup into dir, which must not exist or be empty, all of it or nothing. A
// plain database, as older versions made, is restored as one.
int archive_restore(const char *path, const char *dir, struct err *err) MUST_USE;

#endif

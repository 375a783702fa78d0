// SPDX-License-Identifier: Apache-2.0
//
// What the files of the database share.
#ifndef STORE_DB_INT_H
#define STORE_DB_INT_H

#include <sqlite3.h>

#include "base/str.h"
#include "store/db.h"
#include "store/mark.h"

#define DB_REMEDY \
    "restore a backup with 'dray restore', or start with --salvage to keep what can be read"

enum {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_INSERT,
    SQL_REMOVE,
    SQL_META,
    SQL_CLEAN,
    SQL_LEN,
};

struct db {
    sqlite3 *sql;
    char *path;
    sqlite3_stmt *statements[SQL_LEN];
    struct sbuf row;  // blob of the row being written
    struct sbuf kind; // its kind
    int log_pages;
    int log_pages_max;
    struct mark mark;  // as it is on disk; an empty id: there is none
    uint64_t revision; // newest commit
    int64_t marked_ns;
    bool reserves; // has a reserve of disk space, or wants one
    bool low;      // of disk space
};

// db_fail reports the meaning of a result of SQLite and the remedy, db_fail_damaged what is wrong
// with the content. Both return a negative code.
int db_fail(const struct db *db, int result, struct err *err);
int db_fail_damaged(const struct db *db, const char *what, struct err *err);

// db_step_statement runs a prepared statement without a result. Returns a code of SQLite.
int db_step_statement(struct db *db, int which);

#endif

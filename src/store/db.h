// SPDX-License-Identifier: Apache-2.0
//
// The database, private to the store: one SQLite connection, WAL, synchronous=FULL, locked for us
// alone. One thread at a time.
#ifndef STORE_DB_H
#define STORE_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/commit.h"
#include "store/object.h"

struct db;

// What the database knows beside its rows.
struct db_state {
    uint64_t revision; // the highest that was ever committed
    uint64_t oldest;   // the history begins behind it
};

#define DB_APPLICATION_ID 0x64726179 // "dray"
#define DB_FORMAT         1
#define DB_ROW_BYTES_MAX  (64 << 20) // SQLite must not believe a damaged length

// db_open opens or makes a database and checks it: its marks always, its structure when it was not
// closed in order. Returns 0, or with what to do -ERR_INVALID (also when it has less than it had),
// -EBUSY or an errno.
int db_open(const struct store_options *options, struct db **ret, struct db_state *ret_state,
            struct err *err) MUST_USE;

// db_close notes that all is in order and closes; takes NULL.
void db_close(struct db *db);

// db_abandon closes a database in which something is wrong.
void db_abandon(struct db *db);

// db_load gives every row in order of revisions; o is fn's. Returns 0, -ERR_INVALID (damaged,
// an unknown kind) or an errno.
typedef void (*db_row_fn)(void *arg, struct object *o, bool deleted);
int db_load(struct db *db, const struct db_state *state, struct custom_kinds *customs, db_row_fn fn,
            void *arg, struct err *err) MUST_USE;

// db_commit writes n writes from first on, deletes doomed rows, all in one transaction, and returns
// when it is on disk; or with nothing changed -ENOSPC, -EIO and the like. On a full disk, urgent
// writes use the reserve (reserve.h).
int db_commit(struct db *db, const struct write *first, size_t n, const struct revisions *doomed,
              uint64_t oldest, struct err *err) MUST_USE;

// db_is_low: there is little disk space, and only urgent writes are to be accepted.
// db_look_for_space looks again.
bool db_is_low(const struct db *db);
void db_look_for_space(struct db *db);

// db_note_progress writes the mark, see mark.h, if it is much older than the last commit. A commit
// does not wait for it. db_is_marked: there is nothing to write.
void db_note_progress(struct db *db);
bool db_is_marked(const struct db *db);

// db_checkpoint moves the log into the database when it is long enough; when idle, sooner. What
// goes wrong here is tried again later: the log holds everything.
void db_checkpoint(struct db *db, bool idle);

// A backup in steps. db_backup_start makes the file; db_backup_step returns 1 while there is more
// to do, 0 when it is complete, or a negative code. Either failure leaves no file.
struct db_backup;
int db_backup_start(struct db *db, const char *path, struct db_backup **ret,
                    struct err *err) MUST_USE;
int db_backup_step(struct db_backup *b, struct err *err) MUST_USE;

// db_backup_free ends one; a file that is not complete is removed.
void db_backup_free(struct db_backup *b);

#endif

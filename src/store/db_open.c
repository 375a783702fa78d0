// SPDX-License-Identifier: Apache-2.0
//
// Opening a database with checks, its schema, its mark, and closing it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/db_int.h"
#include "store/reserve.h"

#include "base/banned.h"

// Pages of 4 KiB in the log before they move into the database; an eighth of it when nothing waits.
#define DB_LOG_PAGES_MAX 8192

// How far the mark may be behind: what is lost of the log within this time may go unnoticed.
#define DB_MARK_NS (5 * CLOCK_NS_PER_SEC)

static const char *const sql_texts[SQL_LEN] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_INSERT] = "INSERT INTO object VALUES(?1,?2,?3,?4,?5,?6)",
    [SQL_REMOVE] = "DELETE FROM object WHERE revision=?1",
    [SQL_META] = "UPDATE meta SET revision=max(revision,?1), oldest=?2 WHERE id=1",
    [SQL_CLEAN] = "UPDATE meta SET clean=?1 WHERE id=1",
};

// --- Opening -------------------------------------------------------------------------------------

static int db_run_sql(struct db *db, const char *sql, struct err *err)
{
    int r = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);
    return r == SQLITE_OK ? 0 : db_fail(db, r, err);
}

// ask_number reads the first column of the first row; 0 when there is none.
static int ask_number(struct db *db, const char *sql, int64_t *ret, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int r = sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(st);
    *ret = r == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
    int result = r == SQLITE_ROW || r == SQLITE_DONE ? 0 : db_fail(db, r, err);
    (void)sqlite3_finalize(st);
    return result;
}

static int use_log(struct db *db, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int r = sqlite3_prepare_v2(db->sql, "PRAGMA journal_mode=WAL", -1, &st, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(st);
    bool wal = r == SQLITE_ROW && str_eqz(STR("wal"), (const char *)sqlite3_column_text(st, 0));
    int result = r != SQLITE_ROW ? db_fail(db, r, err)
                 : wal           ? 0
                       : err_set(err, EIO, "%s: no write-ahead log on this file system", db->path);
    (void)sqlite3_finalize(st);
    return result;
}

// check_marks distinguishes an empty database, one of dray and one of another program.
static int check_marks(struct db *db, bool *ret_empty, struct err *err)
{
    int64_t application = 0, format = 0, tables = 0;
    int r = ask_number(db, "PRAGMA application_id", &application, err);
    if (r == 0)
        r = ask_number(db, "PRAGMA user_version", &format, err);
    if (r == 0)
        r = ask_number(db, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (r < 0)
        return r;
    *ret_empty = application == 0 && tables == 0;
    if (*ret_empty)
        return 0;
    if (application != DB_APPLICATION_ID)
        return err_set(err, ERR_INVALID,
                       "%s is a database of another program: choose another data directory",
                       db->path);
    if (format > DB_FORMAT)
        return err_set(
            err, ERR_INVALID,
            "%s was written by a newer dray (format %lld, this one knows %d): use that one",
            db->path, (long long)format, DB_FORMAT);
    return 0;
}

static int make_tables(struct db *db, struct err *err)
{
    return db_run_sql(
        db,
        "BEGIN IMMEDIATE;"
        "CREATE TABLE object(revision INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
        " namespace TEXT NOT NULL, name TEXT NOT NULL, state INTEGER NOT NULL,"
        " data BLOB NOT NULL);"
        "CREATE TABLE meta(id INTEGER PRIMARY KEY CHECK(id=1), revision INTEGER NOT NULL,"
        " oldest INTEGER NOT NULL, clean INTEGER NOT NULL);"
        "INSERT INTO meta VALUES(1,0,0,1);"
        "PRAGMA application_id=1685217657;"
        "PRAGMA user_version=1;"
        "COMMIT",
        err);
}

// db_check_structure looks through the whole file; only needed when the last end was not in order.
static int db_check_structure(struct db *db, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int r = sqlite3_prepare_v2(db->sql, "PRAGMA quick_check(1)", -1, &st, NULL);
    if (r == SQLITE_OK)
        r = sqlite3_step(st);
    int result = 0;
    if (r != SQLITE_ROW)
        result = db_fail(db, r, err);
    else if (!str_eqz(STR("ok"), (const char *)sqlite3_column_text(st, 0)))
        result = db_fail_damaged(db, (const char *)sqlite3_column_text(st, 0), err);
    (void)sqlite3_finalize(st);
    return result;
}

static int db_read_state(struct db *db, struct db_state *ret, bool *ret_clean, struct err *err)
{
    int64_t revision = 0, oldest = 0, clean = 0, rows = 0;
    int r = ask_number(db, "SELECT revision FROM meta", &revision, err);
    if (r == 0)
        r = ask_number(db, "SELECT oldest FROM meta", &oldest, err);
    if (r == 0)
        r = ask_number(db, "SELECT clean FROM meta", &clean, err);
    if (r == 0)
        r = ask_number(db, "SELECT count(*) FROM meta", &rows, err);
    if (r < 0)
        return r;
    if (rows != 1 || revision < 0 || oldest < 0 || oldest > revision)
        return db_fail_damaged(db, "corrupt metadata row", err);
    *ret = (struct db_state){.revision = (uint64_t)revision, .oldest = (uint64_t)oldest};
    *ret_clean = clean != 0;
    return clean ? 0 : db_check_structure(db, err);
}

// --- The mark ------------------------------------------------------------------------------------

// db_read_identity reads the database's own name, which databases of version 0.1 get here.
static int db_read_identity(struct db *db, char ret[MARK_ID_BYTES], struct err *err)
{
    int64_t named = 0;
    int r = ask_number(db, "SELECT count(*) FROM sqlite_schema WHERE name='identity'", &named, err);
    if (r == 0 && !named)
        r = db_run_sql(db,
                       "BEGIN IMMEDIATE; CREATE TABLE identity(id TEXT NOT NULL);"
                       "INSERT INTO identity VALUES(lower(hex(randomblob(16)))); COMMIT",
                       err);
    if (r < 0)
        return r;
    sqlite3_stmt *st = NULL;
    int result = sqlite3_prepare_v2(db->sql, "SELECT id FROM identity", -1, &st, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_step(st);
    const char *id = result == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
    if (result != SQLITE_ROW && result != SQLITE_DONE)
        r = db_fail(db, result, err);
    else if (!id || strlen(id) != MARK_ID_BYTES - 1)
        r = db_fail_damaged(db, "corrupt identity", err);
    else
        memcpy(ret, id, MARK_ID_BYTES);
    (void)sqlite3_finalize(st);
    return r;
}

// db_check_mark compares the database with what its mark states. has_log: there was a log file when
// it was opened.
static int db_check_mark(struct db *db, const struct mark *mark, uint64_t revision, bool clean,
                         bool has_log, struct err *err)
{
    if (strcmp(db->mark.id, mark->id) != 0)
        return err_set(err, ERR_INVALID,
                       "%s is not the database that was here: its data is missing; " DB_REMEDY,
                       db->path);
    if (revision < mark->revision)
        return err_set(
            err, ERR_INVALID,
            "%s has lost data: it ends at revision %llu, but had revision %llu; " DB_REMEDY,
            db->path, (unsigned long long)revision, (unsigned long long)mark->revision);
    if (mark->open && !clean && !has_log)
        return err_set(err, ERR_INVALID, "%s has lost data: its log %s-wal is missing; " DB_REMEDY,
                       db->path, db->path);
    return 0;
}

static bool db_has_log(const char *path)
{
    cleanup_sbuf struct sbuf log = {0};
    struct stat st;
    sbuf_addf(&log, "%s-wal", path);
    return stat(log.p, &st) == 0 && st.st_size > 0;
}

// db_write_mark: a mark that cannot be written stays as it is, which is still true.
static void db_write_mark(struct db *db, bool open)
{
    struct mark mark = db->mark;
    mark.revision = db->revision;
    mark.open = open;
    db->marked_ns = clock_mono_ns(clock_system());
    if (mark.id[0] && mark_write(db->path, &mark, NULL) == 0)
        db->mark = mark;
}

bool db_is_marked(const struct db *db)
{
    return !db || !db->mark.id[0] || db->mark.revision == db->revision;
}

void db_note_progress(struct db *db)
{
    if (!db_is_marked(db) && clock_mono_ns(clock_system()) - db->marked_ns >= DB_MARK_NS)
        db_write_mark(db, true);
}

// --- Setting up ----------------------------------------------------------------------------------

static int note_log_pages(void *arg, sqlite3 *sql, const char *name, int pages)
{
    (void)sql;
    (void)name;
    ((struct db *)arg)->log_pages = pages;
    return SQLITE_OK;
}

// db_set_up: mark is what the mark states, NULL if there is none or none is wanted.
static int db_set_up(struct db *db, const struct mark *mark, bool has_log,
                     struct db_state *ret_state, struct err *err)
{
    bool empty = false, clean = false;
    (void)sqlite3_limit(db->sql, SQLITE_LIMIT_LENGTH, DB_ROW_BYTES_MAX);
    int r = db_run_sql(db, "PRAGMA locking_mode=EXCLUSIVE", err);
    if (r == 0)
        r = check_marks(db, &empty, err);
    if (r == 0 && empty && mark)
        r = err_set(err, ERR_INVALID, "%s is empty, but had revision %llu; " DB_REMEDY, db->path,
                    (unsigned long long)mark->revision);
    if (r == 0)
        r = use_log(db, err);
    if (r == 0)
        r = db_run_sql(
            db,
            "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-4096;"
            "PRAGMA journal_size_limit=33554432; PRAGMA temp_store=MEMORY;"
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON",
            err);
    if (r == 0 && empty)
        r = make_tables(db, err);
    if (r == 0)
        r = db_read_state(db, ret_state, &clean, err);
    if (r == 0)
        r = db_read_identity(db, db->mark.id, err);
    if (r == 0 && mark)
        r = db_check_mark(db, mark, ret_state->revision, clean, has_log, err);
    if (r < 0)
        return r;
    db->revision = ret_state->revision;
    (void)sqlite3_wal_hook(db->sql, note_log_pages, db);
    for (size_t i = 0; i < SQL_LEN; i++) {
        int result = sqlite3_prepare_v3(db->sql, sql_texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                        &db->statements[i], NULL);
        if (result != SQLITE_OK)
            return db_fail(db, result, err);
    }
    return 0;
}

// The file is made here, for its owner alone: objects hold secrets. SQLite gives its log the same
// rights.
static int db_make_file(const char *path, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, errno, "cannot open %s (%m): check the directory and its permissions",
                       path);
    (void)close(fd);
    return 0;
}

static int set_clean(struct db *db, bool clean)
{
    (void)sqlite3_bind_int(db->statements[SQL_CLEAN], 1, clean);
    return db_step_statement(db, SQL_CLEAN);
}

static void db_close_connection(struct db *db)
{
    for (size_t i = 0; i < SQL_LEN; i++)
        (void)sqlite3_finalize(take_ptr(db->statements[i]));
    (void)sqlite3_close(take_ptr(db->sql));
}

static void db_free(struct db *db)
{
    db_close_connection(db);
    sbuf_done(&db->row);
    sbuf_done(&db->kind);
    free(db->path);
    free(db);
}

// db_begin_use states in the database itself, not only in its log, that it is in use; then in its
// mark. So a log that is missing later is noticed.
static int db_begin_use(struct db *db, struct err *err)
{
    int result = set_clean(db, false);
    if (result != SQLITE_OK)
        return db_fail(db, result, err);
    if (sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) ==
        SQLITE_OK)
        db_write_mark(db, true);
    return 0;
}

// db_find_mark reads the mark and refuses a database that is not there any more.
static int db_find_mark(const char *path, struct mark *ret, bool *ret_found, struct err *err)
{
    int r = mark_read(path, ret, err);
    *ret_found = r == 0;
    if (r == 0 && access(path, F_OK) < 0 && errno == ENOENT)
        return err_set(err, ERR_INVALID, "%s is missing, but had revision %llu; " DB_REMEDY, path,
                       (unsigned long long)ret->revision);
    return r == -ENOENT ? 0 : r;
}

static int db_open_once(const struct store_options *options, struct db **ret,
                        struct db_state *ret_state, struct err *err)
{
    const char *path = options->path, *vfs = options->vfs;
    struct mark mark = {0};
    bool marked = false;
    int r = vfs ? 0 : db_find_mark(path, &mark, &marked, err);
    bool has_log = !vfs && db_has_log(path);
    if (r == 0 && !vfs)
        r = db_make_file(path, err);
    if (r < 0)
        return r;
    struct db *db = xcalloc(1, sizeof(*db));
    db->path = xstrndup(path, strlen(path));
    db->log_pages_max = options->log_pages ? (int)options->log_pages : DB_LOG_PAGES_MAX;
    int result = sqlite3_open_v2(path, &db->sql,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                     SQLITE_OPEN_EXRESCODE,
                                 vfs);
    r = result == SQLITE_OK ? db_set_up(db, marked ? &mark : NULL, has_log, ret_state, err)
                            : db_fail(db, result, err);
    if (vfs)
        db->mark.id[0] = '\0';
    if (r == 0)
        r = db_begin_use(db, err);
    if (r < 0) {
        db_free(db);
        return r;
    }
    db->reserves = !vfs && options->reserve;
    db->low = db->reserves && !reserve_make(path);
    *ret = db;
    return 0;
}

int db_open(const struct store_options *options, struct db **ret, struct db_state *ret_state,
            struct err *err)
{
    int r = db_open_once(options, ret, ret_state, err);
    if (r == -ENOSPC && options->reserve && reserve_release(options->path))
        r = db_open_once(options, ret, ret_state, err);
    return r;
}

// db_end_use closes; a log that stays holds a part of the data.
static void db_end_use(struct db *db)
{
    db_close_connection(db);
    db_write_mark(db, db_has_log(db->path));
    if (db->low)
        reserve_make_some(db->path);
    db_free(db);
}

void db_close(struct db *db)
{
    if (!db)
        return;
    (void)set_clean(db, true); // if this fails, the next start looks more closely
    db_end_use(db);
}

void db_abandon(struct db *db)
{
    db_end_use(db);
}

// SPDX-License-Identifier: Apache-2.0
//
// SQLite: opening with checks, the schema, groups of writes in one transaction, backups. All errors
// name the file and the remedy.
#include "store/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/custom.h"
#include "base/mem.h"
#include "store/record.h"
#include "store/seal.h"

#include "base/banned.h"

#define DB_APPLICATION_ID 0x64726179 // "dray"
#define DB_FORMAT         1

// Pages of 4 KiB in the log before they move into the database; an eighth of it when nothing waits.
#define DB_LOG_PAGES_MAX 8192

#define DB_BACKUP_STEP_PAGES 256

enum {
    SQL_BEGIN,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_INSERT,
    SQL_RESEAL,
    SQL_REMOVE,
    SQL_META,
    SQL_CLEAN,
    SQL_LEN,
};

static const char *const sql_texts[SQL_LEN] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_INSERT] = "INSERT INTO object VALUES(?1,?2,?3,?4,?5,?6)",
    [SQL_RESEAL] = "UPDATE object SET data=?2 WHERE revision=?1",
    [SQL_REMOVE] = "DELETE FROM object WHERE revision=?1",
    [SQL_META] = "UPDATE meta SET revision=max(revision,?1), oldest=?2 WHERE id=1",
    [SQL_CLEAN] = "UPDATE meta SET clean=?1 WHERE id=1",
};

struct db {
    sqlite3 *sql;
    char *path;
    sqlite3_stmt *statements[SQL_LEN];
    struct sbuf row;                   // blob of the row being written
    struct sbuf kind;                  // its kind
    struct sbuf scratch;               // its other form, sealed or plain
    const struct store_sealer *sealer; // NULL: rows are plain
    struct err seal_err;               // of the row that could not be sealed
    int log_pages;
    int log_pages_max;
};

// --- Errors --------------------------------------------------------------------------------------

// db_fail reports the meaning of a result of SQLite and the remedy.
static int db_fail(const struct db *db, int result, struct err *err)
{
    const char *reason = db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(result);
    switch (result & 0xff) {
    case SQLITE_FULL:
        return err_set(err, ENOSPC, "no space left for %s: free some space; nothing stored is lost",
                       db->path);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(err, EBUSY,
                       "%s is in use by another process: stop it, or choose another data directory",
                       db->path);
    case SQLITE_CORRUPT:
        return err_set(
            err, ERR_INVALID,
            "%s is damaged (%s): restore it from a backup, or move it away to start empty",
            db->path, reason);
    case SQLITE_NOTADB:
        return err_set(err, ERR_INVALID,
                       "%s is not a database of dray, or is damaged: restore it from a backup, or "
                       "move it away to start empty",
                       db->path);
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return err_set(err, EACCES, "cannot open %s (%s): check the directory and its permissions",
                       db->path, reason);
    case SQLITE_READONLY:
        return err_set(err, EROFS, "%s cannot be written (%s): check its permissions", db->path,
                       reason);
    default:
        return err_set(err, EIO, "cannot write %s (%s): check the disk; nothing stored is lost",
                       db->path, reason);
    }
}

static int db_fail_damaged(const struct db *db, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s is damaged (%s): restore it from a backup, or move it away to start empty",
                   db->path, what);
}

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

static int db_read_state(struct db *db, struct db_state *ret, struct err *err)
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
    return clean ? 0 : db_check_structure(db, err);
}

static int note_log_pages(void *arg, sqlite3 *sql, const char *name, int pages)
{
    (void)sql;
    (void)name;
    ((struct db *)arg)->log_pages = pages;
    return SQLITE_OK;
}

static int db_set_up(struct db *db, struct db_state *ret_state, struct err *err)
{
    bool empty = false;
    int r = db_run_sql(db, "PRAGMA locking_mode=EXCLUSIVE", err);
    if (r == 0)
        r = check_marks(db, &empty, err);
    if (r == 0)
        r = use_log(db, err);
    if (r == 0)
        r = db_run_sql(
            db,
            "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-4096;"
            "PRAGMA journal_size_limit=33554432; PRAGMA temp_store=MEMORY;"
            "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON",
            err);
    // Bytes of rows that are encrypted from now on must not stay in free pages.
    if (r == 0 && db->sealer)
        r = db_run_sql(db, "PRAGMA secure_delete=ON", err);
    if (r == 0 && empty)
        r = make_tables(db, err);
    if (r == 0)
        r = db_read_state(db, ret_state, err);
    if (r < 0)
        return r;
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

static int db_step_statement(struct db *db, int which)
{
    sqlite3_stmt *st = db->statements[which];
    int r = sqlite3_step(st);
    (void)sqlite3_reset(st);
    return r == SQLITE_DONE ? SQLITE_OK : r;
}

static int set_clean(struct db *db, bool clean)
{
    (void)sqlite3_bind_int(db->statements[SQL_CLEAN], 1, clean);
    return db_step_statement(db, SQL_CLEAN);
}

static void db_free(struct db *db)
{
    for (size_t i = 0; i < SQL_LEN; i++)
        (void)sqlite3_finalize(db->statements[i]);
    (void)sqlite3_close(db->sql);
    sbuf_done(&db->row);
    sbuf_done(&db->kind);
    sbuf_done(&db->scratch);
    free(db->path);
    free(db);
}

int db_open(const struct store_options *options, struct db **ret, struct db_state *ret_state,
            struct err *err)
{
    const char *path = options->path, *vfs = options->vfs;
    int r = vfs ? 0 : db_make_file(path, err);
    if (r < 0)
        return r;
    struct db *db = xcalloc(1, sizeof(*db));
    db->path = xstrndup(path, strlen(path));
    db->sealer = options->sealer;
    db->log_pages_max = options->log_pages ? (int)options->log_pages : DB_LOG_PAGES_MAX;
    int result = sqlite3_open_v2(path, &db->sql,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX |
                                     SQLITE_OPEN_EXRESCODE,
                                 vfs);
    r = result == SQLITE_OK ? db_set_up(db, ret_state, err) : db_fail(db, result, err);
    if (r == 0) {
        result = set_clean(db, false);
        r = result == SQLITE_OK ? 0 : db_fail(db, result, err);
    }
    if (r < 0) {
        db_free(db);
        return r;
    }
    *ret = db;
    return 0;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    (void)set_clean(db, true); // if not, the next start looks more closely
    db_free(db);
}

void db_abandon(struct db *db)
{
    db_free(db);
}

// --- Loading -------------------------------------------------------------------------------------

static struct str column_str(sqlite3_stmt *st, int i)
{
    const char *p = sqlite3_column_blob(st, i);
    return str_make(p, (size_t)sqlite3_column_bytes(st, i));
}

static const struct api_kind *kind_by_text(struct custom_kinds *customs, struct str text)
{
    ptrdiff_t slash = str_rfind_char(text, '/');
    const struct api_kind *custom = custom_hub_of_text(customs, text);
    if (slash < 0 || custom)
        return custom;
    return api_kind_find(str_upto(text, (size_t)slash), str_from(text, (size_t)slash + 1));
}

struct loading {
    struct custom_kinds *customs;
    struct sbuf kind_text; // of the last row; a group and a kind of any length
    const struct api_kind *kind;
    uint64_t last;
    size_t rows, closed, stale; // closed: the sealer does not open them; stale: to be sealed again
    struct sbuf first_closed;   // which one, and why
};

static int db_find_kind(const struct db *db, struct loading *l, struct str text, struct err *err)
{
    if (l->kind && str_eq(text, sbuf_str(&l->kind_text)))
        return 0;
    l->kind = kind_by_text(l->customs, text);
    if (!l->kind)
        return err_set(err, ERR_INVALID,
                       "%s holds objects of kind %.*s, which this dray does not know: use the one "
                       "that wrote it",
                       db->path, STR_ARG(text));
    sbuf_clear(&l->kind_text);
    sbuf_add(&l->kind_text, text);
    return 0;
}

// db_reseal_row seals a row of the transaction in which rows are loaded with the current key.
static int db_reseal_row(struct db *db, const struct record_row *row, const struct api_kind *kind,
                         struct str plain, struct err *err)
{
    sbuf_clear(&db->row);
    sbuf_add(&db->row, plain);
    int r = store_seal_row(db->sealer, row, kind, &db->row, &db->scratch, err);
    if (r < 0)
        return r;
    sqlite3_stmt *st = db->statements[SQL_RESEAL];
    (void)sqlite3_bind_int64(st, 1, (sqlite3_int64)row->revision);
    (void)sqlite3_bind_blob(st, 2, db->row.p, (int)db->row.n, SQLITE_STATIC);
    int result = db_step_statement(db, SQL_RESEAL);
    (void)sqlite3_clear_bindings(st);
    return result == SQLITE_OK ? 0 : db_fail(db, result, err);
}

// db_open_row finds a row's plain bytes. One that does not open is counted, so that the error can
// state how many there are. Returns 0, 1 (counted) or a negative code.
static int db_open_row(struct db *db, struct loading *l, const struct record_row *row,
                       struct str blob, struct str *ret, struct err *err)
{
    bool stale = false;
    struct err why = {0};
    l->rows++;
    if (store_open_row(db->sealer, row, l->kind, blob, &db->scratch, ret, &stale, &why) < 0) {
        if (l->closed++ == 0)
            sbuf_addf(&l->first_closed, "%.*s %.*s/%.*s: %s", STR_ARG(row->kind),
                      STR_ARG(row->namespace), STR_ARG(row->name), why.msg);
        return 1;
    }
    if (!stale || l->closed)
        return 0;
    l->stale++;
    // Resealing overwrites the scratch buffer that *ret may point into.
    struct sbuf plain = db->scratch;
    bool moved = ret->p == plain.p;
    if (moved)
        db->scratch = (struct sbuf){0};
    int r = db_reseal_row(db, row, l->kind, *ret, err);
    if (moved) {
        sbuf_done(&db->scratch);
        db->scratch = plain;
    }
    return r;
}

static int db_fail_closed(const struct db *db, const struct loading *l, struct err *err)
{
    return err_set(err, ENOKEY,
                   "%s: %zu of %zu rows cannot be decrypted (%.300s): start with the "
                   "--encryption-provider-config that has their keys; nothing is changed",
                   db->path, l->closed, l->rows, l->first_closed.p);
}

// Returns 0, 1 for a row that stays closed, or a negative code.
static int db_load_row(struct db *db, sqlite3_stmt *st, struct loading *l,
                       const struct db_state *state, struct object **ret, bool *ret_deleted,
                       struct err *err)
{
    int64_t revision = sqlite3_column_int64(st, 0), mark = sqlite3_column_int64(st, 4);
    struct record_row row = {
        .revision = (uint64_t)revision,
        .kind = column_str(st, 1),
        .namespace = column_str(st, 2),
        .name = column_str(st, 3),
        .deleted = mark != 0,
    };
    if (revision <= 0 || row.revision > state->revision || mark < 0 || mark > 1)
        return db_fail_damaged(db, "corrupt object row", err);
    int r = db_find_kind(db, l, row.kind, err);
    if (r < 0)
        return r;
    struct str plain;
    r = db_open_row(db, l, &row, column_str(st, 5), &plain, err);
    if (r != 0)
        return r;
    r = record_read(&row, l->kind, plain, ret, err);
    if (r < 0) {
        char what[256];
        (void)snprintf(what, sizeof(what), "%.*s %.*s/%.*s at revision %lld: %.80s",
                       STR_ARG(row.kind), STR_ARG(row.namespace), STR_ARG(row.name),
                       (long long)revision, err ? err->msg : "");
        return db_fail_damaged(db, what, err);
    }
    *ret_deleted = row.deleted;
    return 0;
}

static int db_load_rows(struct db *db, const struct db_state *state, struct loading *l,
                        db_row_fn fn, void *arg, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int result = sqlite3_prepare_v2(
        db->sql, "SELECT revision,kind,namespace,name,state,data FROM object ORDER BY revision", -1,
        &st, NULL);
    if (result != SQLITE_OK)
        return db_fail(db, result, err);
    int r = 0;
    while (r == 0 && (result = sqlite3_step(st)) == SQLITE_ROW) {
        struct object *o = NULL;
        bool deleted = false;
        r = db_load_row(db, st, l, state, &o, &deleted, err);
        if (r == 0 && !l->closed)
            fn(arg, o, deleted);
        else
            object_unref(o);
        r = r > 0 ? 0 : r;
    }
    if (r == 0 && result != SQLITE_DONE)
        r = db_fail(db, result, err);
    (void)sqlite3_finalize(st);
    return l->closed ? db_fail_closed(db, l, err) : r;
}

// Rows that another key sealed, or none, are sealed with the first key in the same transaction: all
// of them, or none when something is wrong. Then the log is emptied: it has their old bytes.
int db_load(struct db *db, const struct db_state *state, struct custom_kinds *customs, db_row_fn fn,
            void *arg, struct err *err)
{
    struct loading l = {.customs = customs};
    int r = db->sealer ? db_run_sql(db, "BEGIN IMMEDIATE", err) : 0;
    if (r == 0)
        r = db_load_rows(db, state, &l, fn, arg, err);
    if (r == 0 && db->sealer)
        r = db_run_sql(db, "COMMIT", err);
    if (r == 0 && l.stale)
        r = db_run_sql(db, "PRAGMA wal_checkpoint(TRUNCATE)", err);
    if (r < 0 && !sqlite3_get_autocommit(db->sql))
        (void)db_step_statement(db, SQL_ROLLBACK);
    sbuf_done(&l.kind_text);
    sbuf_done(&l.first_closed);
    return r;
}

// --- Committing ----------------------------------------------------------------------------------

static int db_insert_object(struct db *db, const struct write *w)
{
    const struct object *o = w->object;
    sqlite3_stmt *st = db->statements[SQL_INSERT];
    sbuf_clear(&db->kind);
    // Kinds that users added are stored without regard to versions, which come and go.
    if (o->kind->custom)
        sbuf_addf(&db->kind, "%.*s/*", STR_ARG(o->kind->group));
    else
        sbuf_add(&db->kind, o->kind->api_version);
    sbuf_addc(&db->kind, '/');
    sbuf_add(&db->kind, o->kind->kind);
    struct record_row row = {o->revision, sbuf_str(&db->kind), o->namespace, o->name, w->deleted};
    sbuf_clear(&db->row);
    record_write(&row, o, &db->row);
    if (store_seal_row(db->sealer, &row, o->kind, &db->row, &db->scratch, &db->seal_err) < 0)
        return SQLITE_AUTH;
    (void)sqlite3_bind_int64(st, 1, (sqlite3_int64)o->revision);
    (void)sqlite3_bind_text(st, 2, db->kind.p, (int)db->kind.n, SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 3, o->namespace.n ? o->namespace.p : "", (int)o->namespace.n,
                            SQLITE_STATIC);
    (void)sqlite3_bind_text(st, 4, o->name.n ? o->name.p : "", (int)o->name.n, SQLITE_STATIC);
    (void)sqlite3_bind_int(st, 5, w->deleted);
    (void)sqlite3_bind_blob(st, 6, db->row.p, (int)db->row.n, SQLITE_STATIC);
    int r = db_step_statement(db, SQL_INSERT);
    (void)sqlite3_clear_bindings(st);
    return r;
}

static int db_write_group(struct db *db, const struct write *first, size_t n,
                          const struct revisions *doomed, uint64_t oldest)
{
    int r = db_step_statement(db, SQL_BEGIN);
    uint64_t newest = 0;
    for (const struct write *w = first; n > 0 && r == SQLITE_OK; n--, w = w->queue_next) {
        newest = w->object->revision;
        r = db_insert_object(db, w);
    }
    for (size_t i = 0; i < doomed->n && r == SQLITE_OK; i++) {
        (void)sqlite3_bind_int64(db->statements[SQL_REMOVE], 1, (sqlite3_int64)doomed->p[i]);
        r = db_step_statement(db, SQL_REMOVE);
    }
    if (r == SQLITE_OK) {
        (void)sqlite3_bind_int64(db->statements[SQL_META], 1, (sqlite3_int64)newest);
        (void)sqlite3_bind_int64(db->statements[SQL_META], 2, (sqlite3_int64)oldest);
        r = db_step_statement(db, SQL_META);
    }
    return r == SQLITE_OK ? db_step_statement(db, SQL_COMMIT) : r;
}

int db_commit(struct db *db, const struct write *first, size_t n, const struct revisions *doomed,
              uint64_t oldest, struct err *err)
{
    int result = db_write_group(db, first, n, doomed, oldest);
    if (result == SQLITE_OK)
        return 0;
    int r = db->seal_err.code ? err_set(err, db->seal_err.code, "%s", db->seal_err.msg)
                              : db_fail(db, result, err);
    db->seal_err = (struct err){0};
    if (!sqlite3_get_autocommit(db->sql))
        (void)db_step_statement(db, SQL_ROLLBACK);
    return r;
}

void db_checkpoint(struct db *db, bool idle)
{
    if (db->log_pages < (idle ? db->log_pages_max / 8 : db->log_pages_max) || db->log_pages == 0)
        return;
    int all = 0, moved = 0;
    int r = sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &all, &moved);
    // Also after a failure wait for more pages before trying again: the log only costs space.
    db->log_pages = r == SQLITE_OK ? all - moved : 0;
}

// --- Backup --------------------------------------------------------------------------------------

struct db_backup {
    struct db to;
    sqlite3_backup *backup;
    bool complete;
};

int db_backup_start(struct db *db, const char *path, struct db_backup **ret, struct err *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, errno, "cannot make %s: %m", path);
    (void)close(fd);
    struct db_backup *b = xcalloc(1, sizeof(*b));
    b->to.path = xstrndup(path, strlen(path));
    int r =
        sqlite3_open_v2(path, &b->to.sql,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (r == SQLITE_OK) {
        b->backup = sqlite3_backup_init(b->to.sql, "main", db->sql, "main");
        r = b->backup ? SQLITE_OK : sqlite3_errcode(b->to.sql);
    }
    if (r != SQLITE_OK) {
        int result = db_fail(&b->to, r, err);
        db_backup_free(b);
        return result;
    }
    *ret = b;
    return 0;
}

int db_backup_step(struct db_backup *b, struct err *err)
{
    int r = sqlite3_backup_step(b->backup, DB_BACKUP_STEP_PAGES);
    if (r == SQLITE_OK)
        return 1;
    if (r == SQLITE_DONE) {
        r = sqlite3_backup_finish(take_ptr(b->backup));
        b->complete = r == SQLITE_OK;
    }
    return b->complete ? 0 : db_fail(&b->to, r, err);
}

void db_backup_free(struct db_backup *b)
{
    if (!b)
        return;
    if (b->backup)
        (void)sqlite3_backup_finish(b->backup);
    (void)sqlite3_close(b->to.sql);
    if (!b->complete)
        (void)unlink(b->to.path);
    free(b->to.path);
    free(b);
}

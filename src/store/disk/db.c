// SPDX-License-Identifier: Apache-2.0
//
// SQLite: rows, groups of writes in one transaction, the log, backups. All errors name the file and
// the remedy. Opening: db_open.c.
#include "store/disk/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/custom.h"
#include "base/mem.h"
#include "store/disk/db_int.h"
#include "store/disk/reserve.h"
#include "store/record.h"
#include "store/seal.h"

#include "base/banned.h"

#define DB_BACKUP_STEP_PAGES 256

// --- Errors --------------------------------------------------------------------------------------

int db_fail(const struct db *db, int result, struct err *err)
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
        return err_set(err, ERR_INVALID, "%s is damaged (%s): " DB_REMEDY, db->path, reason);
    case SQLITE_NOTADB:
        return err_set(err, ERR_INVALID, "%s is not a database of dray, or is damaged: " DB_REMEDY,
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

int db_fail_damaged(const struct db *db, const char *what, struct err *err)
{
    return err_set(err, ERR_INVALID, "%s is damaged (%s): " DB_REMEDY, db->path, what);
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
    int r = store_open_row(db->sealer, row, l->kind, &blob, &db->scratch, &stale, &why);
    *ret = blob;
    if (r == -ERR_INVALID)
        return err_set(err, ERR_INVALID, "%s", why.msg);
    if (r < 0) {
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
    r = db_reseal_row(db, row, l->kind, *ret, err);
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
    if (r > 0)
        return r;
    if (r == 0)
        r = record_read(&row, l->kind, plain, ret, err);
    if (r == -ERR_INVALID) {
        char what[256];
        (void)snprintf(what, sizeof(what), "%.*s %.*s/%.*s at revision %lld: %.80s",
                       STR_ARG(row.kind), STR_ARG(row.namespace), STR_ARG(row.name),
                       (long long)revision, err ? err->msg : "");
        return db_fail_damaged(db, what, err);
    }
    *ret_deleted = row.deleted;
    return r;
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

int db_step_statement(struct db *db, int which)
{
    sqlite3_stmt *st = db->statements[which];
    int r = sqlite3_step(st);
    (void)sqlite3_reset(st);
    return r == SQLITE_DONE ? SQLITE_OK : r;
}

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
    // Old rows go first: new ones take their pages.
    for (size_t i = 0; i < doomed->n && r == SQLITE_OK; i++) {
        (void)sqlite3_bind_int64(db->statements[SQL_REMOVE], 1, (sqlite3_int64)doomed->p[i]);
        r = db_step_statement(db, SQL_REMOVE);
    }
    for (const struct write *w = first; n > 0 && r == SQLITE_OK; n--, w = w->queue_next) {
        newest = w->object->revision;
        r = db_insert_object(db, w);
    }
    if (r == SQLITE_OK) {
        (void)sqlite3_bind_int64(db->statements[SQL_META], 1, (sqlite3_int64)newest);
        (void)sqlite3_bind_int64(db->statements[SQL_META], 2, (sqlite3_int64)oldest);
        r = db_step_statement(db, SQL_META);
    }
    return r == SQLITE_OK ? db_step_statement(db, SQL_COMMIT) : r;
}

static void db_roll_back(struct db *db)
{
    if (!sqlite3_get_autocommit(db->sql))
        (void)db_step_statement(db, SQL_ROLLBACK);
}

static bool db_is_urgent(const struct write *w, size_t n)
{
    while (n > 0 && w->urgent) {
        w = w->queue_next;
        n--;
    }
    return n == 0;
}

static void db_move_log(struct db *db)
{
    int all = 0, moved = 0;
    int r = sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &all, &moved);
    // Also after a failure wait for more pages before trying again: the log only costs space.
    db->log_pages = r == SQLITE_OK ? all - moved : 0;
}

bool db_is_low(const struct db *db)
{
    return db && db->low;
}

void db_look_for_space(struct db *db)
{
    if (db && db->reserves)
        db->low = db->low ? !reserve_make(db->path) : !reserve_has_space(db->path);
}

// db_release_reserve makes space for a group that found none: of the reserve, and of the log, which
// starts again when all of it is in the database.
static void db_release_reserve(struct db *db)
{
    if (db->reserves)
        (void)reserve_release(db->path);
    db_move_log(db);
}

int db_commit(struct db *db, const struct write *first, size_t n, const struct revisions *doomed,
              uint64_t oldest, struct err *err)
{
    int result = db_write_group(db, first, n, doomed, oldest);
    if ((result & 0xff) == SQLITE_FULL) {
        db->low = db->reserves;
        if (db_is_urgent(first, n)) {
            db_roll_back(db);
            db_release_reserve(db);
            result = db_write_group(db, first, n, doomed, oldest);
        }
    }
    if (result != SQLITE_OK) {
        int r = db->seal_err.code ? err_set(err, db->seal_err.code, "%s", db->seal_err.msg)
                                  : db_fail(db, result, err);
        db->seal_err = (struct err){0};
        db_roll_back(db);
        return r;
    }
    while (n-- > 1)
        first = first->queue_next;
    db->revision = first->object->revision;
    if (db->low)
        db_move_log(db);
    db_look_for_space(db);
    return 0;
}

void db_checkpoint(struct db *db, bool idle)
{
    if (db->log_pages < (idle ? db->log_pages_max / 8 : db->log_pages_max) || db->log_pages == 0)
        return;
    db_move_log(db);
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

// SPDX-License-Identifier: Apache-2.0
//
// Rows are read one by one in order of revisions. Where a page cannot be read, the next readable
// row is searched by ever larger steps. A row is kept as it is, if its checksum is right: kinds do
// not matter here. The new database is complete under another name before it takes the place of the
// old one, so an interrupted salvage is simply repeated.
#include "store/salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "store/disk/db.h"
#include "store/disk/mark.h"
#include "store/record.h"
#include "store/seal.h"

#include "base/banned.h"

// Revisions that are left out: those of lost writes, which clients may have seen.
#define SALVAGE_GAP ((int64_t)1 << 20)

// Copies of damaged databases that are kept; each may be as large as the database.
#define SALVAGE_ASIDE_MAX 10

// No server ever comes this far.
#define SALVAGE_REVISION_MAX (INT64_MAX / 2)

static const char salvage_select[] = "SELECT revision,kind,namespace,name,state,data FROM object"
                                     " WHERE revision>?1 ORDER BY revision";

struct salvage {
    const struct store_options *options;
    struct sbuf old_log, new_path, new_log, new_mark, aside, aside_log; // paths
    sqlite3 *old, *new;
    sqlite3_stmt *insert;
    int64_t newest; // revision
    size_t kept, lost;
};

static void salvage_report(struct salvage *s, const char *fmt, ...) ERR_PRINTF(2, 3);

static void salvage_report(struct salvage *s, const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    s->options->salvage(s->options->salvage_arg, line);
}

// --- Files ---------------------------------------------------------------------------------------

static void salvage_name_files(struct salvage *s)
{
    const char *path = s->options->path;
    sbuf_addf(&s->old_log, "%s-wal", path);
    sbuf_addf(&s->new_path, "%s.salvaged", path);
    sbuf_addf(&s->new_log, "%s.salvaged-wal", path);
    sbuf_addf(&s->new_mark, "%s.salvaged.mark", path);
}

// salvage_name_aside chooses names that no earlier salvage has taken: what it set aside may be all
// that is left of some rows.
static int salvage_name_aside(struct salvage *s, struct err *err)
{
    for (int i = 0; i < SALVAGE_ASIDE_MAX; i++) {
        sbuf_clear(&s->aside);
        sbuf_clear(&s->aside_log);
        sbuf_addf(&s->aside, "%s.damaged", s->options->path);
        if (i > 0)
            sbuf_addf(&s->aside, ".%d", i);
        sbuf_addf(&s->aside_log, "%s-wal", s->aside.p);
        if (access(s->aside.p, F_OK) < 0 && access(s->aside_log.p, F_OK) < 0)
            return 0;
    }
    return err_set(err, EEXIST,
                   "cannot set %s aside: %d earlier copies (%s.damaged*) are there; move them away",
                   s->options->path, SALVAGE_ASIDE_MAX, s->options->path);
}

static int salvage_remove_new(struct salvage *s, struct err *err)
{
    const char *const paths[] = {s->new_path.p, s->new_log.p, s->new_mark.p};
    int r = 0;
    for (size_t i = 0; i < array_len(paths) && r == 0; i++)
        r = file_remove(paths[i], err);
    return r;
}

// salvage_set_aside copies a file of the old database; a missing one is nothing.
static int salvage_set_aside(const char *from, const char *to, struct err *err)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_set(err, errno, "cannot read %s: %m", from);
    int r = file_copy_durable(fd, AT_FDCWD, to, 0600, err);
    (void)close(fd);
    return r;
}

// salvage_exchange: the old log goes before the new database comes, which must never be read with
// it. If this is interrupted, the mark refuses what is found.
static int salvage_exchange(struct salvage *s, struct err *err)
{
    const char *path = s->options->path;
    int r = file_remove(s->new_mark.p, err);
    if (r == 0)
        r = file_remove(s->old_log.p, err);
    if (r == 0 && rename(s->new_path.p, path) < 0)
        r = err_set(err, errno, "cannot replace %s: %m", path);
    return r < 0 ? r : mark_remove(path, err);
}

// --- Rows ----------------------------------------------------------------------------------------

static int salvage_fail(const struct salvage *s, const char *path, sqlite3 *sql, struct err *err)
{
    (void)s;
    return err_set(err, EIO, "cannot salvage %s: %s", path, sqlite3_errmsg(sql));
}

static struct str salvage_column(sqlite3_stmt *st, int i)
{
    const char *p = sqlite3_column_blob(st, i);
    return str_make(p, (size_t)sqlite3_column_bytes(st, i));
}

static void salvage_lose_row(struct salvage *s, const struct record_row *row, const char *why)
{
    s->lost++;
    salvage_report(s, "lost %.*s %.*s/%.*s at revision %lld: %s", STR_ARG(row->kind),
                   STR_ARG(row->namespace), STR_ARG(row->name), (long long)row->revision, why);
}

// salvage_keep_row copies the current row if it is intact.
static int salvage_keep_row(struct salvage *s, sqlite3_stmt *st, struct err *err)
{
    int64_t state = sqlite3_column_int64(st, 4);
    const struct record_row row = {.revision = (uint64_t)sqlite3_column_int64(st, 0),
                                   .kind = salvage_column(st, 1),
                                   .namespace = salvage_column(st, 2),
                                   .name = salvage_column(st, 3),
                                   .deleted = state != 0};
    struct str blob = salvage_column(st, 5);
    struct err why = {0};
    if (state < 0 || state > 1 || row.revision > SALVAGE_REVISION_MAX ||
        store_check_row(&row, blob, &why) < 0) {
        salvage_lose_row(s, &row, why.msg[0] ? why.msg : "its state or revision is impossible");
        return 0;
    }
    for (int i = 0; i < 6; i++)
        (void)sqlite3_bind_value(s->insert, i + 1, sqlite3_column_value(st, i));
    int result = sqlite3_step(s->insert);
    (void)sqlite3_reset(s->insert);
    (void)sqlite3_clear_bindings(s->insert);
    if (result != SQLITE_DONE)
        return salvage_fail(s, s->new_path.p, s->new, err);
    s->kept++;
    if ((int64_t)row.revision > s->newest)
        s->newest = (int64_t)row.revision;
    return 0;
}

// salvage_copy copies rows behind a revision, which it moves on. Returns 1 where reading fails, 0
// at the end, or a negative code.
static int salvage_copy(struct salvage *s, int64_t *after, struct err *err)
{
    sqlite3_stmt *st = NULL;
    int result = sqlite3_prepare_v2(s->old, salvage_select, -1, &st, NULL), r = 0;
    (void)sqlite3_bind_int64(st, 1, *after);
    while (result == SQLITE_OK && r == 0) {
        int step = sqlite3_step(st);
        int64_t revision = step == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
        if (step != SQLITE_ROW || revision <= *after) {
            result = step == SQLITE_DONE ? SQLITE_DONE : SQLITE_CORRUPT;
            break;
        }
        r = salvage_keep_row(s, st, err);
        *after = revision;
    }
    (void)sqlite3_finalize(st);
    return r < 0 ? r : result == SQLITE_DONE ? 0 : 1;
}

// salvage_can_read: the row behind a revision can be read, or there is none.
static bool salvage_can_read(struct salvage *s, int64_t after)
{
    sqlite3_stmt *st = NULL;
    int result = sqlite3_prepare_v2(s->old, salvage_select, -1, &st, NULL);
    (void)sqlite3_bind_int64(st, 1, after);
    if (result == SQLITE_OK)
        result = sqlite3_step(st);
    bool good =
        result == SQLITE_DONE || (result == SQLITE_ROW && sqlite3_column_int64(st, 0) > after);
    (void)sqlite3_finalize(st);
    return good;
}

// salvage_skip finds where reading succeeds again: steps that double, then halves.
static int64_t salvage_skip(struct salvage *s, int64_t after)
{
    int64_t bad = after, step = 1;
    while (step <= INT64_MAX - after && !salvage_can_read(s, after + step)) {
        bad = after + step;
        if (step > INT64_MAX / 2)
            return INT64_MAX;
        step *= 2;
    }
    if (step > INT64_MAX - after)
        return INT64_MAX;
    int64_t good = after + step;
    while (good - bad > 1) {
        int64_t middle = bad + (good - bad) / 2;
        if (salvage_can_read(s, middle))
            good = middle;
        else
            bad = middle;
    }
    return good;
}

static int salvage_copy_all(struct salvage *s, struct err *err)
{
    int64_t after = 0;
    for (;;) {
        int r = salvage_copy(s, &after, err);
        // Clients may have seen the revision of a row that is lost, unless that is impossible.
        if (after > s->newest && after <= SALVAGE_REVISION_MAX)
            s->newest = after;
        if (r <= 0)
            return r;
        int64_t next = salvage_skip(s, after);
        salvage_report(s, "cannot read rows behind revision %lld%s: %s", (long long)after,
                       next == INT64_MAX ? "" : "; continuing further on", sqlite3_errmsg(s->old));
        s->lost++;
        if (next == INT64_MAX)
            return 0;
        after = next;
    }
}

// --- The whole -----------------------------------------------------------------------------------

static int64_t salvage_number(sqlite3 *sql, const char *text)
{
    sqlite3_stmt *st = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(sql, text, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        value = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return value;
}

// salvage_open_old opens what is there. A file that SQLite cannot read at all has no rows.
static int salvage_open_old(struct salvage *s, struct err *err)
{
    const char *path = s->options->path;
    if (access(path, F_OK) < 0)
        return 0;
    if (sqlite3_open_v2(path, &s->old,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
                        NULL) != SQLITE_OK)
        return salvage_fail(s, path, s->old, err);
    (void)sqlite3_limit(s->old, SQLITE_LIMIT_LENGTH, DB_ROW_BYTES_MAX);
    int result = sqlite3_exec(s->old,
                              "PRAGMA locking_mode=EXCLUSIVE; PRAGMA trusted_schema=OFF;"
                              "PRAGMA cell_size_check=ON; SELECT count(*) FROM sqlite_schema",
                              NULL, NULL, NULL);
    if ((result & 0xff) == SQLITE_BUSY)
        return err_set(err, EBUSY, "%s is in use by another process: stop it", path);
    int64_t application = salvage_number(s->old, "PRAGMA application_id");
    int64_t format = salvage_number(s->old, "PRAGMA user_version");
    if (result == SQLITE_OK && application != 0 && application != DB_APPLICATION_ID)
        return err_set(err, ERR_INVALID,
                       "%s is a database of another program: choose another data directory", path);
    if (result == SQLITE_OK && format > DB_FORMAT)
        return err_set(err, ERR_INVALID,
                       "%s was written by a newer dray (format %lld, this one knows %d): use "
                       "that one",
                       path, (long long)format, DB_FORMAT);
    return 0;
}

static int salvage_open_new(struct salvage *s, struct err *err)
{
    struct db *db = NULL;
    struct db_state state;
    const struct store_options options = {.path = s->new_path.p};
    int r = db_open(&options, &db, &state, err);
    if (r < 0)
        return r;
    db_close(db);
    int result =
        sqlite3_open_v2(s->new_path.p, &s->new,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_exec(s->new, "PRAGMA synchronous=FULL; BEGIN", NULL, NULL, NULL);
    if (result == SQLITE_OK)
        result = sqlite3_prepare_v2(s->new, "INSERT INTO object VALUES(?1,?2,?3,?4,?5,?6)", -1,
                                    &s->insert, NULL);
    return result == SQLITE_OK ? 0 : salvage_fail(s, s->new_path.p, s->new, err);
}

// salvage_end_new completes the copy. No history: changes may be missing, so watches start over.
static int salvage_end_new(struct salvage *s, struct err *err)
{
    char text[128];
    long long next = s->newest + SALVAGE_GAP;
    (void)snprintf(text, sizeof(text), "UPDATE meta SET revision=%lld, oldest=%lld; COMMIT", next,
                   next);
    if (sqlite3_exec(s->new, text, NULL, NULL, NULL) != SQLITE_OK)
        return salvage_fail(s, s->new_path.p, s->new, err);
    (void)sqlite3_finalize(take_ptr(s->insert));
    if (sqlite3_close(take_ptr(s->new)) != SQLITE_OK || access(s->new_log.p, F_OK) == 0)
        return err_set(err, EIO, "cannot complete %s: check the disk", s->new_path.p);
    return 0;
}

static int salvage_run(struct salvage *s, struct err *err)
{
    struct mark mark = {0};
    int r = mark_read(s->options->path, &mark, err);
    if (r < 0 && r != -ENOENT && r != -ERR_INVALID)
        return r;
    r = salvage_remove_new(s, err);
    if (r == 0)
        r = salvage_name_aside(s, err);
    if (r == 0)
        r = salvage_set_aside(s->options->path, s->aside.p, err);
    if (r == 0)
        r = salvage_set_aside(s->old_log.p, s->aside_log.p, err);
    if (r == 0)
        r = salvage_open_old(s, err);
    if (r == 0)
        r = salvage_open_new(s, err);
    if (r < 0)
        return r;
    int64_t stated = s->old ? salvage_number(s->old, "SELECT revision FROM meta") : -1;
    int64_t marked = mark.revision <= SALVAGE_REVISION_MAX ? (int64_t)mark.revision : 0;
    s->newest = stated > marked && stated <= SALVAGE_REVISION_MAX ? stated : marked;
    if (s->old)
        r = salvage_copy_all(s, err);
    if (r == 0)
        r = salvage_end_new(s, err);
    (void)sqlite3_close(take_ptr(s->old));
    return r == 0 ? salvage_exchange(s, err) : r;
}

int salvage_database(const struct store_options *options, struct err *err)
{
    struct salvage s = {.options = options};
    salvage_name_files(&s);
    int r = salvage_run(&s, err);
    (void)sqlite3_finalize(s.insert);
    (void)sqlite3_close(s.new);
    (void)sqlite3_close(s.old);
    if (r == 0)
        salvage_report(&s,
                       "salvaged %zu rows of %s, lost %zu rows or ranges; the old database is %s",
                       s.kept, options->path, s.lost, s.aside.p);
    sbuf_done(&s.old_log);
    sbuf_done(&s.new_path);
    sbuf_done(&s.new_log);
    sbuf_done(&s.new_mark);
    sbuf_done(&s.aside);
    sbuf_done(&s.aside_log);
    return r;
}

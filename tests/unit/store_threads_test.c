// SPDX-License-Identifier: Apache-2.0
//
// The store on real files with its commit thread: order, restarts, failures, backups under load, and
// files that are not what they should be.
#include <sqlite3.h>
#include <unistd.h>

#include <sys/stat.h>

#include "api/custom.h"
#include "store_util.h"
#include "thread_exec.h"

#include "base/banned.h"

struct world {
    struct thread_exec exec;
    char folder[64];
    char path[128];
    struct store *store;
    size_t good, bad;
    _Atomic int fail_in; // commits until one fails; 0: none does
};

static bool fail_when_told(void *arg, struct err *err)
{
    struct world *w = arg;
    int in = atomic_load(&w->fail_in);
    if (in == 0)
        return false;
    atomic_store(&w->fail_in, in - 1);
    if (in == 1)
        (void)err_set(err, EIO, "told to fail");
    return in == 1;
}

static int try_open(struct world *w, const char *path, struct err *err)
{
    return store_open(&(struct store_options){.exec = &w->exec.exec,
                                              .path = path,
                                              .history_events = 500,
                                              .log_pages = 64,
                                              .fail_commit = fail_when_told,
                                              .fail_commit_arg = w},
                      &w->store, err);
}

static void open_here(struct world *w, const char *path)
{
    struct err err;
    if (try_open(w, path, &err) < 0)
        fail_msg("%s", err.msg);
}

static void begin(struct world *w)
{
    *w = (struct world){.folder = "/tmp/dray-store-XXXXXX"};
    thread_exec_init(&w->exec);
    assert_non_null(mkdtemp(w->folder));
    (void)snprintf(w->path, sizeof(w->path), "%s/db", w->folder);
}

static void end(struct world *w)
{
    static const char *const names[] = {"db",        "db-wal", "db.mark",   "copy",
                                        "copy.mark", "other",  "db.damaged"};
    char path[128];
    for (size_t i = 0; i < array_len(names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", w->folder, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(w->folder), 0); // nothing else was left behind
    thread_exec_done(&w->exec);
}

static void tally(void *arg, int code, const struct err *err)
{
    struct world *w = arg;
    (void)err;
    w->good += code == 0;
    w->bad += code != 0;
}

static void write_numbered(struct world *w, size_t i)
{
    char name[32], text[32];
    (void)snprintf(name, sizeof(name), "claim-%04zu", i % 300);
    (void)snprintf(text, sizeof(text), "%zu", i);
    struct store_key key = {claims(), STR("ns"), str_z(name)};
    const struct object *head = store_head(w->store, &key);
    struct object *o = made(claims(), "ns", name, store_next_revision(w->store), text);
    struct err err;
    assert_int_equal(store_put(w->store, o, head ? head->revision : 0, tally, w, &err), 0);
    object_unref(o);
}

static void commits_come_in_order_and_survive(void **state)
{
    (void)state;
    enum { WRITES = 3000 };
    struct world w;
    begin(&w);
    open_here(&w, w.path);
    for (size_t i = 0; i < WRITES; i++) {
        write_numbered(&w, i);
        if (i % 97 == 0)
            thread_exec_step(&w.exec);
    }
    while (w.good + w.bad < WRITES)
        thread_exec_step(&w.exec);
    assert_int_equal(w.bad, 0);
    uint64_t revision = store_revision(w.store), oldest = store_oldest(w.store);
    assert_int_equal(revision, WRITES);
    assert_int_equal(oldest, WRITES - 500);
    write_numbered(&w, WRITES); // closing commits it
    store_close(w.store);
    assert_int_equal(w.good, WRITES + 1);
    struct stat st;
    assert_int_equal(stat(w.path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    open_here(&w, w.path);
    assert_int_equal(store_revision(w.store), WRITES + 1);
    assert_int_equal(store_next_revision(w.store), WRITES + 2);
    assert_int_equal(store_count(w.store, claims(), STR("ns")), 300);
    struct store_key key = {claims(), STR("ns"), STR("claim-0000")};
    const struct object *o = store_get(w.store, &key);
    assert_str(text_of(o), "3000");
    assert_str(o->uid, "uid-of-it");
    struct str name;
    assert_true(object_field(o, STR("metadata.name"), &name));
    assert_str(name, "claim-0000");
    // The history is there too.
    struct store_walk walk = {.kind = claims(), .revision = WRITES - 100};
    struct err err;
    assert_int_equal(store_walk_start(w.store, &walk, &err), 0);
    assert_str(text_of(store_walk_next(w.store, &walk)), "2700");
    store_walk_done(&walk);
    store_close(w.store);
    while (w.exec.posts.n)
        thread_exec_step(&w.exec);
    end(&w);
}

static void a_failed_commit_takes_what_was_behind_it(void **state)
{
    (void)state;
    struct world w;
    begin(&w);
    open_here(&w, w.path);
    size_t sent = 0;
    for (int round = 0; round < 20; round++) {
        atomic_store(&w.fail_in, 1 + round % 3);
        for (int i = 0; i < 50; i++)
            write_numbered(&w, sent++);
        while (w.good + w.bad < sent)
            thread_exec_step(&w.exec);
        atomic_store(&w.fail_in, 0);
        struct store_walk walk = {.kind = claims()};
        struct err err;
        assert_int_equal(store_walk_start(w.store, &walk, &err), 0);
        for (const struct object *o; (o = store_walk_next(w.store, &walk));) {
            struct store_key key = {claims(), o->namespace, o->name};
            assert_ptr_equal(store_head(w.store, &key), o);
        }
        store_walk_done(&walk);
    }
    assert_true(w.bad > 0);
    uint64_t revision = store_revision(w.store);
    size_t count = store_count(w.store, claims(), STR(""));
    store_close(w.store);
    open_here(&w, w.path);
    assert_int_equal(store_revision(w.store), revision);
    assert_int_equal(store_count(w.store, claims(), STR("")), count);
    store_close(w.store);
    while (w.exec.posts.n)
        thread_exec_step(&w.exec);
    end(&w);
}

static void a_backup_is_whole_while_writes_go_on(void **state)
{
    (void)state;
    struct world w;
    struct outcome copied = {0}, again = {0};
    char copy[128];
    begin(&w);
    (void)snprintf(copy, sizeof(copy), "%s/copy", w.folder);
    open_here(&w, w.path);
    size_t sent = 0;
    while (sent < 2000)
        write_numbered(&w, sent++);
    while (w.good < sent)
        thread_exec_step(&w.exec);
    uint64_t before = store_revision(w.store);
    store_backup(w.store, copy, note_outcome, &copied);
    while (copied.calls == 0) {
        write_numbered(&w, sent++);
        thread_exec_step(&w.exec);
    }
    assert_string_equal(copied.text, "");
    store_backup(w.store, copy, note_outcome, &again); // never over a file that exists
    while (again.calls == 0)
        thread_exec_step(&w.exec);
    assert_int_equal(again.code, -EEXIST);
    uint64_t after = store_next_revision(w.store);
    store_close(w.store);
    open_here(&w, copy);
    assert_true(store_revision(w.store) >= before && store_revision(w.store) < after);
    assert_int_equal(store_count(w.store, claims(), STR("")), 300);
    store_close(w.store);
    while (w.exec.posts.n)
        thread_exec_step(&w.exec);
    end(&w);
}

static void other_files_are_refused_with_advice(void **state)
{
    (void)state;
    struct world w;
    struct err err;
    begin(&w);
    open_here(&w, w.path);
    struct store *first = w.store;
    assert_int_equal(try_open(&w, w.path, &err), -EBUSY);
    assert_non_null(strstr(err.msg, "in use"));
    store_close(first);

    char other[128];
    (void)snprintf(other, sizeof(other), "%s/other", w.folder);
    FILE *f = fopen(other, "w");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        (void)fputs("not a database ", f);
    (void)fclose(f);
    assert_int_equal(try_open(&w, other, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "backup"));
    assert_int_equal(unlink(other), 0);

    sqlite3 *sql;
    assert_int_equal(sqlite3_open(other, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "CREATE TABLE t(x)", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(sql);
    assert_int_equal(try_open(&w, other, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "another program"));

    assert_int_equal(sqlite3_open(w.path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "PRAGMA user_version=2", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(sql);
    assert_int_equal(try_open(&w, w.path, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "newer"));

    assert_int_equal(try_open(&w, "/nowhere/at/all", &err), -ENOENT);
    end(&w);
}

static void damaged_rows_are_named(void **state)
{
    (void)state;
    struct world w;
    struct err err;
    sqlite3 *sql;
    begin(&w);
    open_here(&w, w.path);
    for (size_t i = 0; i < 10; i++)
        write_numbered(&w, i);
    store_close(w.store);
    assert_int_equal(sqlite3_open(w.path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "UPDATE object SET name='claim-9999' WHERE revision=4", NULL,
                                  NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(sql);
    assert_int_equal(try_open(&w, w.path, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "revision 4"));
    assert_non_null(strstr(err.msg, "checksum"));
    assert_non_null(strstr(err.msg, "restore"));
    assert_int_equal(sqlite3_open(w.path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "UPDATE object SET kind='v9/Thing'", NULL, NULL, NULL),
                     SQLITE_OK);
    (void)sqlite3_close(sql);
    assert_int_equal(try_open(&w, w.path, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "v9/Thing"));
    while (w.exec.posts.n)
        thread_exec_step(&w.exec);
    end(&w);
}

// A group may have 253 bytes, and a kind 63.
static void objects_of_kinds_with_long_names_are_found_again(void **state)
{
    (void)state;
    struct world w;
    struct sbuf group = {0}, kind = {0};
    while (group.n < 250)
        sbuf_addz(&group, group.n % 10 == 9 ? "." : "g");
    while (kind.n < 63)
        sbuf_addz(&kind, "K");
    begin(&w);
    open_here(&w, w.path);
    struct object *o = made(custom_hub(store_customs(w.store), sbuf_str(&group), sbuf_str(&kind)),
                            "ns", "one", store_next_revision(w.store), "long");
    struct err err;
    assert_int_equal(store_put(w.store, o, 0, tally, &w, &err), 0);
    object_unref(o);
    store_close(w.store);
    open_here(&w, w.path);
    const struct api_kind *hub =
        custom_hub(store_customs(w.store), sbuf_str(&group), sbuf_str(&kind));
    const struct object *found =
        store_get(w.store, &(struct store_key){hub, STR("ns"), STR("one")});
    assert_non_null(found);
    assert_str(text_of(found), "long");
    store_close(w.store);
    while (w.exec.posts.n)
        thread_exec_step(&w.exec);
    end(&w);
    sbuf_done(&group);
    sbuf_done(&kind);
}

RUN_TESTS(TEST_CASE(commits_come_in_order_and_survive),
          TEST_CASE(a_failed_commit_takes_what_was_behind_it),
          TEST_CASE(a_backup_is_whole_while_writes_go_on),
          TEST_CASE(other_files_are_refused_with_advice), TEST_CASE(damaged_rows_are_named),
          TEST_CASE(objects_of_kinds_with_long_names_are_found_again))

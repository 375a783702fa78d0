// SPDX-License-Identifier: Apache-2.0
//
// A database that was damaged, emptied, exchanged or lost its log is refused with a remedy, and
// salvaged on request.
#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "os/file.h"
#include "store_util.h"

#include "base/banned.h"

struct damage {
    char folder[64], path[96];
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct store *store;
    struct sbuf findings;
    bool salvage;
};

static void damage_note(void *arg, const char *finding)
{
    sbuf_addf(arg, "%s\n", finding);
}

static int damage_try_open(struct damage *d, struct err *err)
{
    const struct store_options options = {.exec = exec_sim_exec(d->sim),
                                          .path = d->path,
                                          .commit_on_exec = true,
                                          .salvage = d->salvage ? damage_note : NULL,
                                          .salvage_arg = &d->findings};
    *err = (struct err){0};
    sbuf_clear(&d->findings);
    return store_open(&options, &d->store, err);
}

static void damage_open(struct damage *d)
{
    struct err err;
    if (damage_try_open(d, &err) < 0)
        fail_msg("cannot open: %s", err.msg);
}

static void damage_write(struct damage *d, int from, int to)
{
    char name[32];
    for (int i = from; i < to; i++) {
        (void)snprintf(name, sizeof(name), "claim-%04d", i);
        assert_int_equal(put(d->store, claims(), "default", name, "text", NULL), 0);
        while (exec_sim_step(d->sim)) {}
    }
}

static void damage_begin(struct damage *d, int objects)
{
    *d = (struct damage){.folder = "/tmp/dray-salvage-XXXXXX"};
    assert_non_null(mkdtemp(d->folder));
    (void)snprintf(d->path, sizeof(d->path), "%s/db", d->folder);
    clock_fake_init(&d->clock, 0);
    rng_seeded_init(&d->rng, 1);
    d->sim = exec_sim_new(&d->clock, &d->rng.rng);
    damage_open(d);
    damage_write(d, 0, objects);
    store_close(d->store);
}

static void damage_end(struct damage *d)
{
    exec_sim_free(d->sim);
    sbuf_done(&d->findings);
    assert_int_equal(file_remove_tree(d->folder, NULL), 0);
}

// damage_expect: refused with these words and a remedy; then salvaged with this finding, so that it
// opens without; some objects are there, and writes go on.
static void damage_expect(struct damage *d, const char *refusal, const char *finding, size_t least,
                          size_t most)
{
    struct err err;
    assert_int_equal(damage_try_open(d, &err), -ERR_INVALID);
    if (!strstr(err.msg, refusal) || !strstr(err.msg, "--salvage"))
        fail_msg("refused with: %s", err.msg);
    d->salvage = true;
    damage_open(d);
    d->salvage = false;
    if (!strstr(d->findings.p, finding))
        fail_msg("found: %s", d->findings.p);
    size_t n = store_count(d->store, claims(), STR(""));
    assert_in_range(n, least, most);
    assert_true(store_revision(d->store) > 1000000); // none that a client may have seen
    damage_write(d, 9000, 9001);
    store_close(d->store);
    damage_open(d);
    assert_int_equal(store_count(d->store, claims(), STR("")), n + 1);
    store_close(d->store);
    char aside[128];
    (void)snprintf(aside, sizeof(aside), "%s.damaged", d->path);
    struct stat st;
    assert_int_equal(stat(aside, &st), 0);
}

static void a_damaged_row_is_set_aside(void **state)
{
    (void)state;
    struct damage d;
    sqlite3 *sql;
    damage_begin(&d, 20);
    assert_int_equal(sqlite3_open(d.path, &sql), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(sql,
                     "UPDATE object SET data=CAST(replace(CAST(data AS TEXT),'text\"}',"
                     "'tent\"}') AS BLOB) WHERE revision=4; "
                     "UPDATE object SET data=x'00' WHERE revision=7",
                     NULL, NULL, NULL),
        SQLITE_OK);
    (void)sqlite3_close(sql);
    damage_expect(&d, "revision 4", "default/claim-0006 at revision 7", 18, 18);
    damage_end(&d);
}

// A second salvage does not take away what the first one set aside.
static void every_damaged_database_is_kept(void **state)
{
    (void)state;
    struct damage d;
    struct stat first, again;
    char aside[128], next[128];
    damage_begin(&d, 3);
    (void)snprintf(aside, sizeof(aside), "%s.damaged", d.path);
    (void)snprintf(next, sizeof(next), "%s.damaged.1", d.path);
    for (int i = 0; i < 2; i++) {
        sqlite3 *sql;
        assert_int_equal(sqlite3_open(d.path, &sql), SQLITE_OK);
        assert_int_equal(
            sqlite3_exec(
                sql, "UPDATE object SET data=x'00' WHERE name='claim-0001' OR name='claim-9000'",
                NULL, NULL, NULL),
            SQLITE_OK);
        assert_int_equal(sqlite3_close(sql), SQLITE_OK);
        damage_expect(&d, "damaged", "lost", 2, 3);
        assert_int_equal(stat(aside, i ? &again : &first), 0);
    }
    assert_true(first.st_ino == again.st_ino && first.st_mtim.tv_nsec == again.st_mtim.tv_nsec);
    assert_int_equal(stat(next, &again), 0);
    damage_end(&d);
}

static void other_pages_survive_a_damaged_one(void **state)
{
    (void)state;
    struct damage d;
    damage_begin(&d, 2000);
    struct stat st;
    assert_int_equal(stat(d.path, &st), 0);
    int fd = open(d.path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    char garbage[4096];
    memset(garbage, 0xa5, sizeof(garbage));
    for (off_t page = 40; page < 44; page += 3)
        assert_int_equal(pwrite(fd, garbage, sizeof(garbage), page * 4096), 4096);
    (void)close(fd);
    damage_expect(&d, "damaged", "cannot read rows behind", 1900, 1999);
    damage_end(&d);
}

static void an_emptied_database_is_noticed(void **state)
{
    (void)state;
    struct damage d;
    damage_begin(&d, 5);
    assert_int_equal(truncate(d.path, 0), 0);
    damage_expect(&d, "is empty, but had revision 5", "is empty", 0, 0);
    damage_end(&d);
    damage_begin(&d, 5);
    assert_int_equal(unlink(d.path), 0);
    struct err err;
    assert_int_equal(damage_try_open(&d, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "is missing, but had revision 5"));
    damage_end(&d);
}

static void an_older_or_another_database_is_noticed(void **state)
{
    (void)state;
    struct damage d, other;
    damage_begin(&d, 5);
    damage_begin(&other, 9);
    char copy[128];
    (void)snprintf(copy, sizeof(copy), "%s/copy", d.folder);
    int fd = open(d.path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_copy_durable(fd, AT_FDCWD, copy, 0600, NULL), 0);
    (void)close(fd);
    damage_open(&d);
    damage_write(&d, 5, 8);
    store_close(d.store);
    assert_int_equal(rename(copy, d.path), 0);
    damage_expect(&d, "ends at revision 5, but had revision 8", "lost data", 5, 5);
    assert_int_equal(rename(other.path, d.path), 0);
    damage_expect(&d, "not the database that was here", "not the database", 9, 9);
    damage_end(&d);
    damage_end(&other);
}

static void a_lost_log_is_noticed(void **state)
{
    (void)state;
    struct damage d;
    damage_begin(&d, 5);
    pid_t child = fork();
    if (child == 0) { // killed, as it were, with writes in the log
        damage_open(&d);
        damage_write(&d, 5, 8);
        _exit(store_count(d.store, claims(), STR("")) == 8 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    char log[128];
    (void)snprintf(log, sizeof(log), "%s-wal", d.path);
    assert_int_equal(unlink(log), 0);
    damage_expect(&d, "-wal is missing", "is missing", 5, 5);
    damage_end(&d);
}

static void other_programs_and_formats_are_not_salvaged(void **state)
{
    (void)state;
    struct damage d;
    struct err err;
    sqlite3 *sql;
    damage_begin(&d, 5);
    assert_int_equal(sqlite3_open(d.path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "PRAGMA user_version=9", NULL, NULL, NULL), SQLITE_OK);
    d.salvage = true;
    (void)sqlite3_close(sql);
    assert_int_equal(damage_try_open(&d, &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "format 9, this one knows 1"));
    assert_int_equal(sqlite3_open(d.path, &sql), SQLITE_OK);
    assert_int_equal(sqlite3_exec(sql, "PRAGMA user_version=1", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(sql);
    damage_open(&d); // nothing was changed
    assert_int_equal(store_revision(d.store), 5);
    store_close(d.store);
    damage_end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_row_is_set_aside),
        cmocka_unit_test(every_damaged_database_is_kept),
        cmocka_unit_test(other_pages_survive_a_damaged_one),
        cmocka_unit_test(an_emptied_database_is_noticed),
        cmocka_unit_test(an_older_or_another_database_is_noticed),
        cmocka_unit_test(a_lost_log_is_noticed),
        cmocka_unit_test(other_programs_and_formats_are_not_salvaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// The audit log's file: lines stay whole whatever the disk does, what does not fit the queue is
// dropped and counted, rotated files go by number and age.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/stat.h>

#include "server/audit/audit_log.h"
#include "unit.h"

#include "base/banned.h"

static char folder[] = "/tmp/audit-log-XXXXXX";

static char *audit_log_test_path(const char *name)
{
    struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    return sbuf_take(&path);
}

static struct audit_log *audit_log_test_open(const char *path, uint64_t max_bytes, int64_t backups,
                                             int64_t days)
{
    struct audit_log *log = NULL;
    struct err err = {0};
    const struct audit_log_options o = {
        .path = path, .max_bytes = max_bytes, .max_backups = backups, .max_age_days = days};
    assert_int_equal(audit_log_open(&o, &log, &err), 0);
    return log;
}

static void audit_log_test_put(struct audit_log *log, char fill, size_t n)
{
    struct sbuf line = {0};
    for (size_t i = 1; i < n; i++)
        sbuf_addc(&line, fill);
    sbuf_addc(&line, '\n');
    audit_log_put(log, &line);
}

static void audit_log_test_await(struct audit_log *log, uint64_t written, uint64_t failed)
{
    for (int i = 0; i < 10000; i++) {
        struct audit_log_stats now = audit_log_get_stats(log);
        if (now.written == written && now.failed == failed)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    fail_msg("never: %llu written, %llu failed", (unsigned long long)written,
             (unsigned long long)failed);
}

// The file has these lines, given by their bytes, and nothing else.
static void audit_log_test_expect(const char *path, const char *fills, size_t n)
{
    cleanup_sbuf struct sbuf text = {0};
    struct str rest, line;
    read_file(path, &text);
    rest = sbuf_str(&text);
    for (; *fills; fills++) {
        assert_true(str_cut(rest, '\n', &line, &rest));
        assert_int_equal(line.n, n - 1);
        for (size_t i = 0; i < line.n; i++)
            assert_int_equal(line.p[i], *fills);
    }
    assert_int_equal(rest.n, 0);
}

// A file that may not grow stands for a full disk: a write fails within a line.
static void test_full_disk(void **state)
{
    (void)state;
    char *path = audit_log_test_path("full.log");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 1000;
    struct audit_log *log = audit_log_test_open(path, 1 << 20, 0, 0);
    audit_log_test_put(log, 'a', 600);
    audit_log_test_await(log, 1, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    audit_log_test_put(log, 'b', 600);
    audit_log_test_await(log, 1, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    audit_log_test_put(log, 'c', 600);
    audit_log_test_await(log, 2, 1);
    audit_log_close(log);
    audit_log_test_expect(path, "ac", 600);
    free(path);
}

// A file that ends within a line, as a crash leaves it: what follows begins a line.
static void test_torn_file(void **state)
{
    (void)state;
    char *path = audit_log_test_path("torn.log");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, "ttt", 3), 3);
    assert_int_equal(close(fd), 0);
    struct audit_log *log = audit_log_test_open(path, 1 << 20, 0, 0);
    audit_log_test_put(log, 'u', 4);
    audit_log_close(log);
    audit_log_test_expect(path, "tu", 4);
    free(path);
}

// audit_log_test_block puts a line that is longer than the pipe and waits until its writer waits.
static void audit_log_test_block(struct audit_log *log, int end)
{
    struct pollfd p = {.fd = end, .events = POLLIN};
    audit_log_test_put(log, 'x', 1 << 20);
    assert_int_equal(poll(&p, 1, 10000), 1);
}

static void *audit_log_test_drain(void *arg)
{
    static char piece[65536];
    while (read(*(int *)arg, piece, sizeof(piece)) > 0) {}
    return NULL;
}

// A pipe that is not read stands for a slow disk.
static void test_full_queue(void **state)
{
    (void)state;
    char *path = audit_log_test_path("pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    int end = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct audit_log *log = audit_log_test_open(path, UINT64_MAX, 0, 0);
    const size_t more = 200, line = 1000;
    audit_log_test_block(log, end);
    while (audit_log_get_stats(log).dropped == 0)
        audit_log_test_put(log, 'x', line);
    assert_false(audit_log_is_filling(log)); // there are too many, but they are short
    for (size_t i = 1; i < more; i++)
        audit_log_test_put(log, 'x', line);
    assert_int_equal(audit_log_get_stats(log).dropped, more);
    assert_int_equal(audit_log_get_stats(log).failed, 0);
    assert_int_equal(fcntl(end, F_SETFL, 0), 0);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, audit_log_test_drain, &end), 0);
    for (uint64_t was = 0; was != audit_log_get_stats(log).written || was == 0;) {
        was = audit_log_get_stats(log).written;
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    assert_true(audit_log_get_stats(log).written >= AUDIT_QUEUE_EVENTS);
    audit_log_close(log);
    assert_int_equal(pthread_join(reader, NULL), 0);
    assert_int_equal(close(end), 0);
    free(path);
}

static void test_full_bytes(void **state)
{
    (void)state;
    char *path = audit_log_test_path("pipe2");
    assert_int_equal(mkfifo(path, 0600), 0);
    int end = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct audit_log *log = audit_log_test_open(path, UINT64_MAX, 0, 0);
    size_t lines = 0;
    audit_log_test_block(log, end);
    for (; !audit_log_is_filling(log) && lines < 1000; lines++)
        audit_log_test_put(log, 'y', 1 << 20);
    assert_int_equal(audit_log_get_stats(log).dropped, 0);
    for (; audit_log_get_stats(log).dropped == 0 && lines < 1000; lines++)
        audit_log_test_put(log, 'y', 1 << 20);
    assert_int_equal(audit_log_get_stats(log).dropped, 1);
    assert_int_equal(close(end), 0); // what waits fails, and holds nothing up
    audit_log_close(log);
    free(path);
}

static void audit_log_test_make(const char *name, int64_t days)
{
    char *path = audit_log_test_path(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const struct timespec when = {.tv_sec = time(NULL) - days * 86400 - 60};
    const struct timespec times[2] = {when, when};
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(close(fd), 0);
    free(path);
}

static bool audit_log_test_exists(const char *name)
{
    char *path = audit_log_test_path(name);
    bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

// Old files go at the start already: a quiet server may never rotate.
static void test_age(void **state)
{
    (void)state;
    char *path = audit_log_test_path("old.log");
    audit_log_test_make("old-2026-01-01T00-00-00.000.log", 3);
    audit_log_test_make("old-2026-01-03T00-00-00.000.log", 1);
    audit_log_test_make("older-2026-01-01T00-00-00.000.log", 3); // of another log
    audit_log_test_make("old-notes.log", 3);
    struct audit_log *log = audit_log_test_open(path, 1 << 20, 0, 2);
    audit_log_close(log);
    assert_false(audit_log_test_exists("old-2026-01-01T00-00-00.000.log"));
    assert_true(audit_log_test_exists("old-2026-01-03T00-00-00.000.log"));
    assert_true(audit_log_test_exists("older-2026-01-01T00-00-00.000.log"));
    assert_true(audit_log_test_exists("old-notes.log"));
    free(path);
}

static int audit_log_test_begin(void **state)
{
    (void)state;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    return mkdtemp(folder) ? 0 : -1;
}

static int audit_log_test_end(void **state)
{
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) // NOLINT(concurrency-mt-unsafe): d is ours alone
        (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_disk),  cmocka_unit_test(test_torn_file),
        cmocka_unit_test(test_full_queue), cmocka_unit_test(test_full_bytes),
        cmocka_unit_test(test_age),
    };
    return cmocka_run_group_tests(tests, audit_log_test_begin, audit_log_test_end);
}

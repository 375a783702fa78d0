// SPDX-License-Identifier: Apache-2.0
//
// The writer of the audit log. One mutex guards the queue and the counters; files are touched by
// the writer's thread alone. Rotated files are NAME-TIME.EXT beside the file, as kube-apiserver
// names them.
#include "server/audit/audit_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("audit");

#define SECONDS_A_DAY 86400
#define WARN_SECONDS  10

struct audit_lines VEC(struct sbuf);

struct audit_log {
    struct audit_log_options options;
    char *path;
    int fd;
    uint64_t size;
    pthread_t thread;
    bool threaded;
    bool torn; // the file ends within a line
    pthread_mutex_t lock;
    pthread_cond_t work;
    // Under the lock.
    struct audit_lines queue;
    size_t queued_bytes;
    bool stop;
    struct audit_log_stats stats;
    int64_t warned_s; // of dropped events
};

// --- Files ---------------------------------------------------------------------------------------

// log_ends_within_line: as a machine that lost its power leaves the file.
static bool log_ends_within_line(const struct audit_log *log)
{
    char last = '\n';
    int fd = log->size ? open(log->path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return false;
    bool within = pread(fd, &last, 1, (off_t)(log->size - 1)) == 1 && last != '\n';
    (void)close(fd);
    return within;
}

static int log_open_file(struct audit_log *log)
{
    struct stat st = {0};
    log->fd = open(log->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (log->fd < 0)
        return -errno;
    log->size = fstat(log->fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
    log->torn = log_ends_within_line(log);
    return 0;
}

// log_split_path divides the path into directory, name and extension.
static void log_split_path(const struct audit_log *log, struct str *dir, struct str *name,
                           struct str *ext)
{
    struct str path = str_z(log->path);
    ptrdiff_t slash = str_rfind_char(path, '/');
    *dir = slash < 0 ? STR(".") : slash == 0 ? STR("/") : str_upto(path, (size_t)slash);
    *name = str_from(path, (size_t)(slash + 1));
    ptrdiff_t dot = str_rfind_char(*name, '.');
    *ext = dot < 0 ? STR("") : str_from(*name, (size_t)dot);
    *name = str_upto(*name, name->n - ext->n);
}

struct log_backups VEC(char *);

static int log_compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)b, *(char *const *)a); // newest first: names sort by time
}

// The time in a name: 2026-11-18T11-27-05.123.
#define STAMP_LEN 23

static bool log_is_backup(struct str file, struct str name, struct str ext)
{
    if (file.n != name.n + 1 + STAMP_LEN + ext.n || !str_starts(file, name) ||
        !str_ends(file, ext) || file.p[name.n] != '-')
        return false;
    static const char shape[] = "dddd-dd-ddTdd-dd-dd.ddd";
    for (size_t i = 0; i < STAMP_LEN; i++) {
        char c = file.p[name.n + 1 + i];
        if (shape[i] == 'd' ? c < '0' || c > '9' : c != shape[i])
            return false;
    }
    return true;
}

static bool log_is_old(const struct audit_log *log, const char *path)
{
    struct stat st = {0};
    return log->options.max_age_days > 0 && stat(path, &st) == 0 &&
           (time(NULL) - st.st_mtime) / SECONDS_A_DAY >= log->options.max_age_days;
}

static void log_remove_backups(const struct audit_log *log)
{
    struct str dir, name, ext;
    struct log_backups found = {0};
    log_split_path(log, &dir, &name, &ext);
    cleanup_sbuf struct sbuf path = {0};
    sbuf_add(&path, dir);
    DIR *d = opendir(path.p);
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) // NOLINT(concurrency-mt-unsafe): d is ours alone
        if (log_is_backup(str_z(e->d_name), name, ext))
            vec_push(&found, xstrndup(e->d_name, strlen(e->d_name)));
    (void)closedir(d);
    if (found.n > 1)
        qsort(found.p, found.n, sizeof(*found.p), log_compare_names);
    for (size_t i = 0; i < found.n; i++) {
        sbuf_clear(&path);
        sbuf_addf(&path, "%.*s/%s", STR_ARG(dir), found.p[i]);
        bool beyond = log->options.max_backups > 0 && i >= (size_t)log->options.max_backups;
        if ((beyond || log_is_old(log, path.p)) && unlink(path.p) < 0)
            LOG_WARN(&log_mod, "cannot remove a rotated audit log", log_z("path", path.p),
                     log_z("error", strerrordesc_np(errno)));
        free(found.p[i]);
    }
    vec_done(&found);
}

static void log_rotate(struct audit_log *log)
{
    struct str dir, name, ext;
    struct timespec now;
    struct tm utc;
    char stamp[32];
    log_split_path(log, &dir, &name, &ext);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &utc);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H-%M-%S", &utc);
    cleanup_sbuf struct sbuf to = {0};
    sbuf_addf(&to, "%.*s/%.*s-%s.%03ld%.*s", STR_ARG(dir), STR_ARG(name), stamp,
              now.tv_nsec / 1000000, STR_ARG(ext));
    // Two rotations within a millisecond: the file grows until the next line.
    if (access(to.p, F_OK) == 0)
        return;
    if (rename(log->path, to.p) < 0) {
        LOG_WARN(&log_mod, "cannot rotate the audit log", log_z("path", log->path),
                 log_z("error", strerrordesc_np(errno)));
        return;
    }
    (void)close(log->fd);
    if (log_open_file(log) < 0)
        LOG_ERROR(&log_mod, "cannot reopen the audit log; events are lost",
                  log_z("path", log->path), log_z("error", strerrordesc_np(errno)));
    log_remove_backups(log);
}

static bool log_write_all(int fd, struct str text)
{
    while (text.n) {
        ssize_t n = write(fd, text.p, text.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text = str_from(text, (size_t)n);
    }
    return true;
}

// log_write_line writes a line whole or not at all: behind a piece of one, as a full disk leaves
// it, the next line would be lost as well.
static bool log_write_line(struct audit_log *log, struct str line)
{
    bool file = log->path != NULL;
    if (file && log->size > 0 && log->size + line.n > log->options.max_bytes)
        log_rotate(log);
    if (file && log->fd < 0 && log_open_file(log) < 0)
        return false;
    if (log->torn && !log_write_all(log->fd, STR("\n")))
        return false;
    log->size += log->torn;
    log->torn = false;
    if (!log_write_all(log->fd, line)) {
        int why = errno;
        log->torn = !file || ftruncate(log->fd, (off_t)log->size) < 0;
        errno = why;
        return false;
    }
    log->size += line.n;
    return true;
}

// --- The thread ----------------------------------------------------------------------------------

static void log_write_batch(struct audit_log *log, struct audit_lines *batch)
{
    uint64_t written = 0, failed = 0;
    int why = 0;
    vec_foreach(batch, line) {
        if (log_write_line(log, sbuf_str(line))) {
            written++;
        } else {
            why = errno;
            failed++;
        }
        sbuf_done(line);
    }
    if (failed)
        LOG_ERROR(&log_mod, "cannot write audit events", log_u64("events", failed),
                  log_z("error", strerrordesc_np(why)));
    vec_done(batch);
    must_succeed(pthread_mutex_lock(&log->lock));
    log->stats.written += written;
    log->stats.failed += failed;
    must_succeed(pthread_mutex_unlock(&log->lock));
}

static void *log_thread_main(void *arg)
{
    struct audit_log *log = arg;
    if (log->path)
        log_remove_backups(log);
    for (;;) {
        must_succeed(pthread_mutex_lock(&log->lock));
        while (log->queue.n == 0 && !log->stop)
            must_succeed(pthread_cond_wait(&log->work, &log->lock));
        struct audit_lines batch = log->queue;
        bool last = log->stop && batch.n == 0;
        log->queue = (struct audit_lines){0};
        log->queued_bytes = 0;
        must_succeed(pthread_mutex_unlock(&log->lock));
        if (last)
            return NULL;
        log_write_batch(log, &batch);
    }
}

bool audit_log_is_filling(struct audit_log *log)
{
    must_succeed(pthread_mutex_lock(&log->lock));
    bool filling = log->queued_bytes > AUDIT_QUEUE_BYTES / 2;
    must_succeed(pthread_mutex_unlock(&log->lock));
    return filling;
}

// log_is_time_to_warn: not for every event. Under the lock.
static bool log_is_time_to_warn(struct audit_log *log)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    if (log->warned_s && now.tv_sec - log->warned_s < WARN_SECONDS)
        return false;
    log->warned_s = now.tv_sec;
    return true;
}

void audit_log_put(struct audit_log *log, struct sbuf *line)
{
    bool warn = false;
    must_succeed(pthread_mutex_lock(&log->lock));
    bool room =
        log->queue.n < AUDIT_QUEUE_EVENTS && log->queued_bytes + line->n <= AUDIT_QUEUE_BYTES;
    if (room) {
        log->queued_bytes += line->n;
        vec_push(&log->queue, *line);
        *line = (struct sbuf){0};
        must_succeed(pthread_cond_signal(&log->work));
    } else {
        log->stats.dropped++;
        warn = log_is_time_to_warn(log);
    }
    uint64_t dropped = log->stats.dropped;
    must_succeed(pthread_mutex_unlock(&log->lock));
    if (warn)
        LOG_ERROR(&log_mod, "audit events are dropped: too many wait for the disk",
                  log_z("path", log->path ? log->path : "-"), log_u64("events", dropped));
    sbuf_done(line);
}

struct audit_log_stats audit_log_get_stats(struct audit_log *log)
{
    must_succeed(pthread_mutex_lock(&log->lock));
    struct audit_log_stats stats = log->stats;
    must_succeed(pthread_mutex_unlock(&log->lock));
    return stats;
}

// --- Start and stop ------------------------------------------------------------------------------

static int log_start_thread(struct audit_log *log)
{
    // Signals belong to the program's own threads.
    sigset_t all, before;
    must_succeed(sigfillset(&all));
    must_succeed(pthread_sigmask(SIG_SETMASK, &all, &before));
    int r = pthread_create(&log->thread, NULL, log_thread_main, log);
    must_succeed(pthread_sigmask(SIG_SETMASK, &before, NULL));
    log->threaded = r == 0;
    return -r;
}

int audit_log_open(const struct audit_log_options *options, struct audit_log **ret, struct err *err)
{
    struct audit_log *log = xcalloc(1, sizeof(*log));
    log->options = *options;
    must_succeed(pthread_mutex_init(&log->lock, NULL));
    must_succeed(pthread_cond_init(&log->work, NULL));
    int r = 0;
    log->fd = STDOUT_FILENO;
    if (!str_eqz(str_z(options->path), "-")) {
        log->path = xstrndup(options->path, strlen(options->path));
        r = log_open_file(log);
    }
    if (r == 0)
        r = log_start_thread(log);
    if (r < 0) {
        r = err_set(err, -r, "cannot open the audit log %s: %s", options->path,
                    strerrordesc_np(-r));
        audit_log_close(log);
        return r;
    }
    *ret = log;
    return 0;
}

void audit_log_close(struct audit_log *log)
{
    if (!log)
        return;
    if (log->threaded) {
        must_succeed(pthread_mutex_lock(&log->lock));
        log->stop = true;
        must_succeed(pthread_cond_signal(&log->work));
        must_succeed(pthread_mutex_unlock(&log->lock));
        must_succeed(pthread_join(log->thread, NULL));
    }
    if (log->path && log->fd >= 0)
        (void)close(log->fd);
    must_succeed(pthread_mutex_destroy(&log->lock));
    must_succeed(pthread_cond_destroy(&log->work));
    free(log->path);
    free(log);
}

// SPDX-License-Identifier: Apache-2.0
//
// Rotates the logs of containers: a file that is too large is renamed and a new one begun (its
// monitor notices), the oldest are removed, and so are the logs of runs that are not kept. Sizes
// and names are kubelet's.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/civil.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

#define LOOK_NS       (10 * CLOCK_NS_PER_SEC)
#define LOG_BYTES_MAX (10 * 1024 * 1024)

enum { MOVED_MAX = 4 }; // beside the one that is written

// --- The files of a run --------------------------------------------------------------------------

static DIR *pod_logs_open_directory(const struct pod_container *c)
{
    cleanup_sbuf struct sbuf path = {0};
    pod_log_directory(c->pod, &path);
    sbuf_addf(&path, "/%s", c->name);
    int fd = open(path.p, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !d)
        (void)close(fd);
    return d;
}

// pod_logs_is_rotated: a log of a run that was moved away, ATTEMPT.log.TIME.
static bool pod_logs_is_rotated(const char *name, const char *log)
{
    size_t n = strlen(log);
    return strncmp(name, log, n) == 0 && name[n] == '.';
}

// Removes the oldest one, by its name, if there are more than most.
static bool pod_logs_remove_oldest(DIR *d, const char *log, size_t most)
{
    char oldest[NAME_MAX + 1] = "";
    size_t n = 0;
    const struct dirent *e;
    rewinddir(d);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while ((e = readdir(d))) {
        if (!pod_logs_is_rotated(e->d_name, log))
            continue;
        if (n++ == 0 || strcmp(e->d_name, oldest) < 0)
            (void)snprintf(oldest, sizeof(oldest), "%s", e->d_name);
    }
    return n > most && unlinkat(dirfd(d), oldest, 0) == 0;
}

static void pod_logs_is_log_name(uint32_t attempt, char *out, size_t cap)
{
    (void)snprintf(out, cap, "%u.log", attempt);
}

void pod_logs_drop(const struct pod_container *c, uint32_t attempt)
{
    char log[32];
    DIR *d = pod_logs_open_directory(c);
    if (!d)
        return;
    pod_logs_is_log_name(attempt, log, sizeof(log));
    (void)unlinkat(dirfd(d), log, 0);
    while (pod_logs_remove_oldest(d, log, 0)) {}
    (void)closedir(d);
}

// --- Rotation ------------------------------------------------------------------------------------

static void pod_logs_rotate(DIR *d, const char *log, int64_t now_s)
{
    char moved[64];
    struct civil_date date = civil_from_days(now_s / 86400);
    (void)snprintf(moved, sizeof(moved), "%s.%04d%02d%02d-%02d%02d%02d", log, (int)date.year,
                   date.month, date.day, (int)(now_s / 3600 % 24), (int)(now_s / 60 % 60),
                   (int)(now_s % 60));
    if (renameat(dirfd(d), log, dirfd(d), moved) != 0)
        return;
    // A reader finds an empty log, not none, before the container writes more.
    int fd = openat(dirfd(d), log, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0640);
    if (fd >= 0)
        (void)close(fd);
    while (pod_logs_remove_oldest(d, log, MOVED_MAX)) {}
}

static void pod_logs_check_container(const struct pod_container *c)
{
    char log[32];
    struct stat st;
    DIR *d = pod_logs_open_directory(c);
    if (!d)
        return;
    pod_logs_is_log_name(c->now.attempt, log, sizeof(log));
    if (fstatat(dirfd(d), log, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        st.st_size >= LOG_BYTES_MAX)
        pod_logs_rotate(d, log, exec_wall_ns(c->pod->owner->exec) / CLOCK_NS_PER_SEC);
    (void)closedir(d);
}

static void pod_logs_check_all(void *arg)
{
    struct pods *p = arg;
    exec_timer_start(p->exec, &p->logs, LOOK_NS);
    list_foreach(&p->all, n) {
        const struct pod *pod = list_entry(n, struct pod, node);
        for (size_t i = 0; i < pod->containers_len; i++)
            if (pod_container_is_alive(pod->containers[i]))
                pod_logs_check_container(pod->containers[i]);
    }
}

void pod_logs_start(struct pods *p)
{
    p->logs = (struct exec_timer){.fn = pod_logs_check_all, .arg = p};
    exec_timer_start(p->exec, &p->logs, LOOK_NS);
}

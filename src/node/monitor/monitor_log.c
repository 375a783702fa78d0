// SPDX-License-Identifier: Apache-2.0
//
// A container's output in the CRI's log format: time, stream, P or F (a part of a line, or its
// end), text.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/uio.h>

#include "base/civil.h"
#include "base/clock.h"
#include "node/monitor/monitor_int.h"

#include "base/banned.h"

static bool monitor_log_is_current(const struct monitor_log *l)
{
    struct stat st;
    return l->fd >= 0 && stat(l->path, &st) == 0 && st.st_dev == l->device && st.st_ino == l->inode;
}

void monitor_log_reopen(struct monitor_log *l)
{
    struct stat st;
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
    if (!l->path)
        return;
    l->fd =
        open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0640);
    if (l->fd < 0 || fstat(l->fd, &st) != 0)
        return;
    l->device = st.st_dev;
    l->inode = st.st_ino;
}

static size_t monitor_log_timestamp(char *out, size_t cap)
{
    int64_t now_ns = monitor_now_ns();
    int64_t sec = now_ns / CLOCK_NS_PER_SEC;
    struct civil_date date = civil_from_days(sec / 86400);
    int n = snprintf(out, cap, "%04d-%02d-%02dT%02d:%02d:%02d.%09lldZ", (int)date.year, date.month,
                     date.day, (int)(sec / 3600 % 24), (int)(sec / 60 % 60), (int)(sec % 60),
                     (long long)(now_ns % CLOCK_NS_PER_SEC));
    return n > 0 && (size_t)n < cap ? (size_t)n : 0;
}

// A full disk loses output, never the container.
static void monitor_log_write_line(const struct monitor_log *l, const char *stream, struct str text,
                                   bool whole)
{
    char head[64];
    size_t n = monitor_log_timestamp(head, sizeof(head) - 16);
    int more = snprintf(head + n, sizeof(head) - n, " %s %c ", stream, whole ? 'F' : 'P');
    struct iovec parts[3] = {
        {.iov_base = head, .iov_len = n + (size_t)(more > 0 ? more : 0)},
        {.iov_base = (void *)(uintptr_t)text.p, .iov_len = text.n}, // writev only reads it
        {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1},
    };
    if (l->fd >= 0)
        (void)!writev(l->fd, parts, 3);
}

static void monitor_log_write_lines(struct monitor_log *l, struct monitor_stream *s)
{
    if (l->path && !monitor_log_is_current(l))
        monitor_log_reopen(l);
    struct str rest = str_make(s->line, s->used), line;
    while (str_find_char(rest, '\n') >= 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        monitor_log_write_line(l, s->name, line, true);
    }
    if (rest.n == sizeof(s->line)) {
        monitor_log_write_line(l, s->name, rest, false);
        rest.n = 0;
    }
    memmove(s->line, rest.p, rest.n);
    s->used = rest.n;
}

bool monitor_log_pump(struct monitor_log *l, struct monitor_stream *s)
{
    ssize_t n = read(s->fd, s->line + s->used, sizeof(s->line) - s->used);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0) { // reading a closed terminal is an error
        monitor_log_flush(l, s);
        return false;
    }
    if (l->copy)
        l->copy(l->arg, s, str_make(s->line + s->used, (size_t)n));
    s->used += (size_t)n;
    monitor_log_write_lines(l, s);
    return true;
}

void monitor_log_flush(struct monitor_log *l, struct monitor_stream *s)
{
    if (s->used == 0)
        return;
    if (l->path && !monitor_log_is_current(l))
        monitor_log_reopen(l);
    monitor_log_write_line(l, s->name, str_make(s->line, s->used), false);
    s->used = 0;
}

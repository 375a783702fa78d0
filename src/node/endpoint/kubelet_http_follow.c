// SPDX-License-Identifier: Apache-2.0
//
// A log file that grows and is rotated: read to its end, then looked at again until the container
// has ended. Rotation renames the file and makes a new one: what is left of the old one is read
// first.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>

#include "node/endpoint/kubelet_http_int.h"

#include "base/banned.h"

#define LOOK_NS     (100 * CLOCK_NS_PER_MS)
#define BLOCK_BYTES ((size_t)32 * 1024)
#define BLOCKS_TURN 16 // before others have theirs

struct log_follower {
    struct log_follower_options o;
    char *path;
    char *id;
    int fd;
    struct exec_timer timer;
    bool waiting;  // data returned LOG_WAIT
    bool last;     // the container has ended: read once more
    bool finished; // done was called
};

// Where the last n lines begin. A last line without an end counts.
static off_t log_follower_find_tail(int fd, int64_t lines)
{
    char block[BLOCK_BYTES];
    struct stat st;
    if (fstat(fd, &st) < 0 || lines < 0)
        return 0;
    off_t end = st.st_size;
    if (lines == 0 || end == 0)
        return end;
    int64_t seen = 0;
    for (off_t at = end; at > 0;) {
        size_t n = at < (off_t)sizeof(block) ? (size_t)at : sizeof(block);
        at -= (off_t)n;
        if (pread(fd, block, n, at) != (ssize_t)n)
            return 0;
        for (size_t i = n; i-- > 0;) {
            if (block[i] != '\n' || at + (off_t)i == end - 1)
                continue; // the end of the last line begins nothing
            if (++seen == lines)
                return at + (off_t)i + 1;
        }
    }
    return 0;
}

// The path has another file now, or none for a moment.
static bool log_follower_is_rotated(const struct log_follower *f, bool *ret_there)
{
    struct stat now, ours;
    *ret_there = stat(f->path, &now) == 0;
    return !*ret_there ||
           (fstat(f->fd, &ours) == 0 && (now.st_ino != ours.st_ino || now.st_dev != ours.st_dev));
}

static bool log_follower_is_running(const struct log_follower *f)
{
    struct runtime_container_status st;
    struct runtime *r = f->o.runtime;
    return r->ops->container_status(r, str_z(f->id), &st) && st.state == RUNTIME_RUNNING;
}

static void log_follower_finish(struct log_follower *f)
{
    exec_timer_stop(f->o.exec, &f->timer);
    f->finished = true;
    f->o.done(f->o.arg);
}

// A pod that can write to the log directory must not redirect the read: no links.
static int log_follower_open(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
}

// Everything there is has been given.
static void log_follower_at_end(struct log_follower *f)
{
    bool there = false;
    if (f->o.follow && log_follower_is_rotated(f, &there) && there) {
        int fd = log_follower_open(f->path);
        if (fd >= 0) {
            (void)close(f->fd);
            f->fd = fd;
            exec_timer_start(f->o.exec, &f->timer, 0);
            return;
        }
    }
    if (!f->o.follow || f->last) {
        log_follower_finish(f);
        return;
    }
    // Its last words may still be on their way into the file.
    f->last = !log_follower_is_running(f);
    exec_timer_start(f->o.exec, &f->timer, LOOK_NS);
}

static void log_follower_poll(void *arg)
{
    struct log_follower *f = arg;
    char block[BLOCK_BYTES];
    for (int turn = 0; turn < BLOCKS_TURN; turn++) {
        ssize_t n = read(f->fd, block, sizeof(block));
        if (n <= 0) {
            log_follower_at_end(f);
            return;
        }
        enum log_take take = f->o.data(f->o.arg, str_make(block, (size_t)n));
        f->waiting = take == LOG_WAIT;
        if (take == LOG_STOP)
            log_follower_finish(f);
        if (take != LOG_MORE)
            return;
    }
    exec_timer_start(f->o.exec, &f->timer, 0);
}

void log_follower_go(struct log_follower *f)
{
    if (!f->waiting || f->finished)
        return;
    f->waiting = false;
    exec_timer_start(f->o.exec, &f->timer, 0);
}

int log_follower_new(const struct log_follower_options *options, struct log_follower **ret,
                     struct err *err)
{
    int fd = log_follower_open(options->path);
    if (fd < 0)
        return err_set(err, errno, "failed to open log file \"%s\": %m", options->path);
    struct log_follower *f = xcalloc(1, sizeof(*f));
    f->o = *options;
    f->path = xstrndup(options->path, strlen(options->path));
    f->id = xstrndup(options->container_id.p, options->container_id.n);
    f->fd = fd;
    f->timer.fn = log_follower_poll;
    f->timer.arg = f;
    int64_t lines = options->tail_lines;
    (void)lseek(fd, log_follower_find_tail(fd, lines), SEEK_SET);
    exec_timer_start(f->o.exec, &f->timer, 0);
    *ret = f;
    return 0;
}

void log_follower_free(struct log_follower *f)
{
    if (!f)
        return;
    exec_timer_stop(f->o.exec, &f->timer);
    (void)close(f->fd);
    free(f->path);
    free(f->id);
    free(f);
}

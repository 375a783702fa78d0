// SPDX-License-Identifier: Apache-2.0
//
// Programs are started with posix_spawn: it does not copy the address space of a large parent, and
// is safe beside threads.
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "os/file.h"

#include "base/banned.h"

#define POLL_MS_MAX 3600000

bool process_find(const char *name, struct sbuf *out)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nothing here changes the environment
    struct str rest = str_z(getenv("PATH")), folder;
    size_t start = out->n;
    if (rest.n == 0)
        rest = STR("/usr/sbin:/usr/bin:/sbin:/bin");
    while (rest.n > 0) {
        (void)str_cut(rest, ':', &folder, &rest);
        if (folder.n == 0)
            continue;
        struct stat st;
        sbuf_truncate(out, start);
        sbuf_addf(out, "%.*s/%s", STR_ARG(folder), name);
        if (stat(out->p + start, &st) == 0 && S_ISREG(st.st_mode) &&
            access(out->p + start, X_OK) == 0)
            return true;
    }
    sbuf_truncate(out, start);
    return false;
}

static void process_add_stdio(posix_spawn_file_actions_t *files, const struct process *p)
{
    const int from[] = {p->in, p->out, p->err};
    for (int i = 0; i < 3; i++) {
        if (from[i] == PROCESS_NULL)
            (void)posix_spawn_file_actions_addopen(files, i, "/dev/null", O_RDWR, 0);
        else if (from[i] == PROCESS_OUTPUT)
            (void)posix_spawn_file_actions_adddup2(files, 1, i);
        else if (from[i] > 0)
            (void)posix_spawn_file_actions_adddup2(files, from[i], i);
    }
    if (p->pass_fd > 0)
        (void)posix_spawn_file_actions_adddup2(files, p->pass_fd, 3);
}

int process_start(const struct process *p, pid_t *ret, struct err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&attributes);
    process_add_stdio(&files, p);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    int flags = (p->keep_signals ? 0 : POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK) |
                (p->new_session ? POSIX_SPAWN_SETSID : 0);
    (void)posix_spawnattr_setflags(&attributes, (short)flags);
    // posix_spawn changes neither; its prototype is older than const.
    char *const *argv = (char *const *)(uintptr_t)p->argv;
    char *const *env = p->env ? (char *const *)(uintptr_t)p->env : environ;
    const char *path = p->path ? p->path : p->argv[0];
    int r = posix_spawnp(ret, path, &files, &attributes, argv, env);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    return r == 0 ? 0 : err_set(err, r, "cannot run %s: %s", path, strerrordesc_np(r));
}

// Reads until all that hold the output have closed it. Returns 0, -ERR_TIMEOUT or -ERR_TOO_LARGE.
static int process_read_output(const struct process *p, int fd, struct sbuf *out)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = p->timeout_ns > 0 ? clock_mono_ns(clock) + p->timeout_ns : INT64_MAX;
    size_t max = p->output_max ? p->output_max : PROCESS_OUTPUT_MAX, got = 0;
    char buf[4096];
    while (true) {
        int64_t left_ns = end_ns - clock_mono_ns(clock);
        if (left_ns <= 0)
            return -ERR_TIMEOUT;
        int64_t wait_ms = left_ns / CLOCK_NS_PER_MS + 1;
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        if (poll(&pfd, 1, wait_ms > POLL_MS_MAX ? POLL_MS_MAX : (int)wait_ms) <= 0)
            continue; // interrupted, or the time is over
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        if (n < 0)
            continue;
        size_t room = got < max ? max - got : 0;
        got += (size_t)n;
        if (out)
            sbuf_add(out, str_upto(str_make(buf, (size_t)n), room));
        if (p->output_whole && got > max)
            return -ERR_TOO_LARGE;
    }
}

int process_run(const struct process *p, struct sbuf *out, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, errno, "cannot make a pipe: %s", strerrordesc_np(errno));
    struct process piped = *p;
    piped.out = ends[1];
    pid_t pid;
    int r = process_start(&piped, &pid, err);
    (void)close(ends[1]);
    if (r == 0)
        r = process_read_output(p, ends[0], out);
    else
        pid = -1;
    (void)close(ends[0]);
    if (pid < 0)
        return r;
    if (r < 0)
        (void)kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (r == -ERR_TIMEOUT)
        return err_set(err, ERR_TIMEOUT, "%s took longer than %lld ms", p->argv[0],
                       (long long)(p->timeout_ns / CLOCK_NS_PER_MS));
    if (r < 0)
        return err_set(err, -r, "the output of %s is larger than %zu bytes", p->argv[0],
                       p->output_max ? p->output_max : PROCESS_OUTPUT_MAX);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

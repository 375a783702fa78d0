// SPDX-License-Identifier: Apache-2.0
#include "agent/process.h"

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

#include "base/banned.h"

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

static int start(const struct process *p, int output, pid_t *ret, struct err *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_adddup2(&files, output, 1);
    (void)posix_spawn_file_actions_adddup2(&files, output, 2);
    if (p->pass_fd > 0)
        (void)posix_spawn_file_actions_adddup2(&files, p->pass_fd, 3);
    // Signals that we ignore or hold back are not the program's business.
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    // posix_spawn changes neither; its prototype is older than const.
    char *const *argv = (char *const *)(uintptr_t)p->argv;
    char *const *env = p->env ? (char *const *)(uintptr_t)p->env : environ;
    int r = posix_spawnp(ret, p->argv[0], &files, &attributes, argv, env);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    if (r != 0)
        return err_set(err, r, "cannot run %s: %s", p->argv[0], strerrordesc_np(r));
    return 0;
}

// Reads until the program and all that hold its output have closed it. Returns 0 or -ERR_TIMEOUT.
static int read_output(int fd, int64_t end_ns, struct sbuf *out)
{
    const struct clock *clock = clock_system();
    char buf[4096];
    while (true) {
        int64_t left_ns = end_ns - clock_mono_ns(clock);
        if (left_ns <= 0)
            return -ERR_TIMEOUT;
        int64_t wait_ms = left_ns / CLOCK_NS_PER_MS + 1;
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int r = poll(&pfd, 1, wait_ms > 3600000 ? 3600000 : (int)wait_ms);
        if (r <= 0)
            continue; // interrupted, or the time is over
        ssize_t n = read(fd, buf, sizeof(buf));
        if (n == 0 || (n < 0 && errno != EINTR))
            return 0;
        if (n > 0 && out && out->n < PROCESS_OUTPUT_MAX)
            sbuf_add(out, str_make(buf, (size_t)n));
    }
}

int process_run(const struct process *p, struct sbuf *out, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(err, errno, "cannot make a pipe: %s", strerrordesc_np(errno));
    pid_t pid;
    int rc = start(p, ends[1], &pid, err);
    (void)close(ends[1]);
    if (rc < 0) {
        (void)close(ends[0]);
        return rc;
    }
    int64_t end_ns = p->timeout_ns > 0 ? clock_mono_ns(clock_system()) + p->timeout_ns : INT64_MAX;
    rc = read_output(ends[0], end_ns, out);
    (void)close(ends[0]);
    if (rc < 0)
        (void)kill(pid, SIGKILL);
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (rc < 0)
        return err_set(err, ERR_TIMEOUT, "%s took longer than %lld ms", p->argv[0],
                       (long long)(p->timeout_ns / CLOCK_NS_PER_MS));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

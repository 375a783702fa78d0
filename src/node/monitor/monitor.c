// SPDX-License-Identifier: Apache-2.0
//
// dray-monitor: the process that stays with a container. It makes the container's mounts, lets crun
// make the container, logs its output, records its exit and reports its state. It links against
// src/base and src/os alone and stays small. Not for people to call:
//     dray-monitor run DIR         one container (monitor_plan.h); returns when it is made
//     dray-monitor exec ...        one command in a container, for as long as the caller lives
//     dray-monitor attach DIR      input and output of a container, for as long as both live
//     dray-monitor call MOUNT ...  a program that must not see a mount
//     dray-monitor users DIR BASE LENGTH NAMES   namespaces of a pod within a user namespace
//     dray-monitor probe DIR       whether that works here
//     dray-monitor pause           process 1 of a pod that shares its process ids
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/monitor/monitor_int.h"
#include "os/file.h"

#include "base/banned.h"

#define PLAN_BYTES_MAX ((size_t)4 << 20)

// --- Plan ----------------------------------------------------------------------------------------

// A key's place for its one value, or NULL.
static const char **monitor_plan_place(struct monitor_plan *p, const char *key)
{
    const struct {
        const char *key;
        const char **value;
    } rows[] = {
        {"id", &p->id},     {"runtime", &p->runtime}, {"state", &p->state}, {"cgroup", &p->cgroup},
        {"hide", &p->hide}, {"lower", &p->lower},     {"log", &p->log},     {"users", &p->users},
    };
    for (size_t i = 0; i < array_len(rows); i++)
        if (strcmp(rows[i].key, key) == 0)
            return rows[i].value;
    return NULL;
}

static bool *monitor_plan_flag(struct monitor_plan *p, const char *key)
{
    return strcmp(key, "copy") == 0     ? &p->copy
           : strcmp(key, "shared") == 0 ? &p->shared
           : strcmp(key, "tty") == 0    ? &p->tty
           : strcmp(key, "stdin") == 0  ? &p->wants_stdin
           : strcmp(key, "once") == 0   ? &p->stdin_once
                                        : NULL;
}

static const char *monitor_plan_next_word(const struct sbuf *text, size_t *at)
{
    const char *word = *at < text->n ? text->p + *at : "";
    *at += strlen(word) + 1;
    return word;
}

int monitor_plan_read(struct monitor_plan *p, struct err *err)
{
    int r = file_read_at(AT_FDCWD, "plan", PLAN_BYTES_MAX, &p->text);
    if (r < 0)
        return err_set(err, -r, "cannot read the plan: %s",
                       r == -ERR_TOO_LARGE ? "it is too large" : strerrordesc_np(-r));
    for (size_t at = 0; at < p->text.n;) {
        const char *key = monitor_plan_next_word(&p->text, &at);
        const char *value = monitor_plan_next_word(&p->text, &at);
        const char **to = monitor_plan_place(p, key);
        bool *yes = monitor_plan_flag(p, key);
        if (to)
            *to = value[0] ? value : NULL;
        else if (yes)
            *yes = true;
        else if (strcmp(key, "bind") == 0 && p->binds_len < MONITOR_BINDS_MAX)
            p->binds[p->binds_len++] =
                (struct monitor_bind){value, monitor_plan_next_word(&p->text, &at)};
        else
            return err_set(err, ERR_INVALID, "the plan has an unknown word '%s'", key);
    }
    if (!p->id || !p->runtime || !p->state)
        return err_set(err, ERR_INVALID, "the plan names no container");
    return 0;
}

// --- Time ----------------------------------------------------------------------------------------

int64_t monitor_now_ns(void)
{
    return clock_wall_ns(clock_system());
}

// --- Children ------------------------------------------------------------------------------------

static _Noreturn void monitor_exec_child(const char *const *argv, const int stdio[3])
{
    sigset_t none;
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    int null = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++)
        if (dup2(stdio[i] >= 0 ? stdio[i] : null, i) < 0)
            _exit(126);
    static const char *const env[] = {
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
    // execve changes neither; its prototype is older than const.
    (void)execve(argv[0], (char *const *)(uintptr_t)argv, (char *const *)(uintptr_t)env);
    _exit(127);
}

pid_t monitor_spawn(const char *const *argv, const int stdio[3])
{
    pid_t pid = fork();
    if (pid == 0)
        monitor_exec_child(argv, stdio);
    return pid < 0 ? -errno : pid;
}

int monitor_exit_status(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

pid_t monitor_read_pid(void)
{
    cleanup_sbuf struct sbuf text = {0};
    int64_t pid;
    if (file_read_at(AT_FDCWD, "pid", 24, &text) < 0 ||
        str_to_i64(str_trim(sbuf_str(&text)), &pid) != 0 || pid < 2)
        return 0;
    return (pid_t)pid;
}

void monitor_set_nonblocking(int fd)
{
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

int monitor_wait(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return 127;
    return monitor_exit_status(status);
}

int monitor_console(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
    (void)unlink(name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 1) != 0) {
        int code = errno;
        (void)close(fd);
        return -code;
    }
    return fd;
}

int monitor_console_take(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return -errno;
    char text[256];
    int terminal = -1;
    (void)monitor_take_fd(fd, text, sizeof(text), &terminal);
    (void)close(fd);
    return terminal < 0 ? -EPROTO : terminal;
}

ssize_t monitor_take_fd(int from, char *buf, size_t cap, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = buf, .iov_len = cap};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *ret_fd = -1;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(c), sizeof(*ret_fd));
    return n < 0 ? -errno : n;
}

// --- Caller's requests ---------------------------------------------------------------------------

bool monitor_lines_read(struct monitor_lines *l, void (*each)(void *arg, struct str line),
                        void *arg)
{
    ssize_t n = read(MONITOR_CONTROL, l->text + l->n, sizeof(l->text) - l->n);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN);
    l->n += (size_t)n;
    struct str rest = str_make(l->text, l->n), line;
    while (str_find_char(rest, '\n') >= 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        each(arg, line);
    }
    if (rest.n == sizeof(l->text))
        rest.n = 0;
    memmove(l->text, rest.p, rest.n);
    l->n = rest.n;
    return true;
}

void monitor_answer(const char *text)
{
    (void)!write(MONITOR_CONTROL, text, strlen(text));
}

void monitor_fail(const char *text)
{
    monitor_answer("error ");
    monitor_answer(text);
    _exit(1);
}

// --- Pause ---------------------------------------------------------------------------------------

static void monitor_pause_end(int number)
{
    (void)number;
    _exit(0);
}

int monitor_pause(void)
{
    char known;
    // The parent writes our pid down, then a byte. Without that byte nothing would ever end us.
    if (read(0, &known, 1) != 1)
        return 1;
    (void)signal(SIGTERM, monitor_pause_end);
    (void)signal(SIGINT, monitor_pause_end);
    while (true)
        if (waitpid(-1, NULL, 0) < 0 && errno == ECHILD)
            (void)usleep(200000);
}

// A call of the runtime, with a mount hidden from it.
static int monitor_call(char **argv)
{
    struct err err = {0};
    if (monitor_hide(argv[0][0] ? argv[0] : NULL, &err) < 0) {
        (void)fprintf(stderr, "%s", err.msg);
        return 126;
    }
    (void)execv(argv[1], argv + 1);
    return 127;
}

int main(int argc, char **argv)
{
    // The runtime makes mount points and devices in root file systems; the agent's own umask keeps
    // secrets.
    (void)umask(022);
    if (argc == 3 && strcmp(argv[1], "run") == 0)
        return monitor_run(argv[2]);
    if (argc > 2 && strcmp(argv[1], "exec") == 0)
        return monitor_exec(argc - 2, argv + 2);
    if (argc == 3 && strcmp(argv[1], "attach") == 0)
        return monitor_attach(argv[2]);
    if (argc > 3 && strcmp(argv[1], "call") == 0)
        return monitor_call(argv + 2);
    if (argc == 6 && strcmp(argv[1], "users") == 0)
        return monitor_users(argv + 2);
    if (argc == 3 && strcmp(argv[1], "probe") == 0)
        return monitor_users_probe(argv[2]);
    if (argc == 2 && strcmp(argv[1], "pause") == 0)
        return monitor_pause();
    (void)fprintf(stderr,
                  "dray-monitor: internal program of dray's agent; do not run it directly\n");
    return 2;
}

// SPDX-License-Identifier: Apache-2.0
//
// One container from its making to its end. The caller's child only waits until the container is
// made; the process that stays is its child, with a session and a mount namespace of its own.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/monitor/monitor_int.h"
#include "os/file.h"

#include "base/banned.h"

#define CLIENTS_MAX 16
#define DRAIN_NS    (CLOCK_NS_PER_SEC) // for output of processes that outlive the first one

struct monitor {
    struct monitor_plan plan;
    struct cgroup_layout cgroups;
    pid_t init;
    int signals, listener;
    int terminal;      // the master, -1: none
    int input;         // keeps the container's input open, -1: none
    int containers[3]; // the container's ends, until it is made
    struct monitor_stream out, err;
    struct monitor_log log;
    struct client {
        int fd;
        bool watches, attached;
        bool behind; // has not taken `copy` yet
    } clients[CLIENTS_MAX];
    size_t clients_len;
    char copy[1 + MONITOR_LINE_MAX]; // the last output, for attached clients
    size_t copy_len;
    int64_t slow_since_ns; // since when a client is behind; 0: none is
    int64_t started_ns, finished_ns;
    int code, signal;
    bool ended, oom;
};

// --- Attached clients ----------------------------------------------------------------------------

static void monitor_run_end_input(struct monitor *m)
{
    if (m->input >= 0)
        (void)close(m->input);
    m->input = -1;
}

static void monitor_run_copy_to_client(const struct monitor *m, struct client *c)
{
    ssize_t n = send(c->fd, m->copy, m->copy_len, MSG_NOSIGNAL | MSG_DONTWAIT);
    // A closed connection is detected when it is read.
    c->behind = n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS);
}

// Sends the last output to clients that lack it. True: all have it. A client that is slow for long
// is dropped.
static bool monitor_run_flush_clients(struct monitor *m)
{
    bool behind = false;
    for (size_t i = 0; i < m->clients_len; i++) {
        struct client *c = &m->clients[i];
        if (c->behind)
            monitor_run_copy_to_client(m, c);
        behind = behind || c->behind;
    }
    int64_t now_ns = clock_mono_ns(clock_system());
    if (!behind)
        m->slow_since_ns = 0;
    else if (!m->slow_since_ns)
        m->slow_since_ns = now_ns;
    return !behind;
}

static void monitor_run_drop_slow_clients(struct monitor *m)
{
    for (size_t i = 0; i < m->clients_len; i++)
        if (m->clients[i].behind) {
            m->clients[i].behind = m->clients[i].attached = false;
            (void)shutdown(m->clients[i].fd, SHUT_RDWR);
        }
    m->slow_since_ns = 0;
}

static bool monitor_run_clients_too_slow(const struct monitor *m)
{
    return m->slow_since_ns && clock_mono_ns(clock_system()) - m->slow_since_ns > MONITOR_SLOW_NS;
}

static void monitor_run_on_output(void *arg, const struct monitor_stream *s, struct str bytes)
{
    struct monitor *m = arg;
    bool any = false;
    for (size_t i = 0; i < m->clients_len; i++) {
        m->clients[i].behind = m->clients[i].attached;
        any = any || m->clients[i].attached;
    }
    if (!any)
        return;
    m->copy[0] = s == &m->err ? 2 : 1;
    memcpy(m->copy + 1, bytes.p, bytes.n); // never more than a line's room
    m->copy_len = 1 + bytes.n;
    (void)monitor_run_flush_clients(m);
}

// The container's input goes along as a descriptor: input does not pass through here.
static void monitor_run_attach_client(const struct monitor *m, struct client *c)
{
    int input = m->plan.tty ? (m->plan.wants_stdin ? m->terminal : -1) : m->input;
    const char *text = input >= 0 ? "input" : "no input";
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec part = {.iov_base = (void *)(uintptr_t)text, .iov_len = strlen(text)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (input >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &input, sizeof(input));
    }
    c->attached = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
}

// --- Creation ------------------------------------------------------------------------------------

static int monitor_run_fail(struct err *err, const char *doing)
{
    return err_set(err, errno, "cannot %s: %s", doing, strerrordesc_np(errno));
}

static int monitor_run_listen(struct monitor *m, struct err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    (void)unlink("sock");
    m->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (m->listener < 0 || bind(m->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(m->listener, CLIENTS_MAX) != 0)
        return monitor_run_fail(err, "listen");
    return 0;
}

static int open_streams(struct monitor *m, struct err *err)
{
    int out[2], errors[2], in[2];
    m->terminal = m->input = m->out.fd = m->err.fd = -1;
    for (size_t i = 0; i < 3; i++)
        m->containers[i] = -1;
    if (m->plan.tty)
        return 0;
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0)
        return monitor_run_fail(err, "make pipes");
    m->out.fd = out[0];
    m->err.fd = errors[0];
    m->containers[1] = out[1];
    m->containers[2] = errors[1];
    if (m->plan.wants_stdin) {
        if (pipe2(in, O_CLOEXEC) != 0)
            return monitor_run_fail(err, "make pipes");
        m->containers[0] = in[0];
        m->input = in[1];
    }
    return 0;
}

static void close_ends(struct monitor *m)
{
    for (size_t i = 0; i < 3; i++)
        if (m->containers[i] >= 0)
            (void)close(m->containers[i]);
}

// crun's own arguments, then the verb's.
static int run_runtime(struct monitor *m, const char *const *verb, const int stdio[3])
{
    const char *argv[24];
    size_t n = 0;
    argv[n++] = m->plan.runtime;
    argv[n++] = "--root";
    argv[n++] = m->plan.state;
    argv[n++] = "--log";
    argv[n++] = "runtime.log";
    argv[n++] = "--log-format";
    argv[n++] = "json";
    if (!m->plan.cgroup && strstr(m->plan.runtime, "crun"))
        argv[n++] = "--cgroup-manager=disabled";
    while (*verb)
        argv[n++] = *verb++;
    argv[n] = NULL;
    pid_t pid = monitor_spawn(argv, stdio);
    return pid < 0 ? 127 : monitor_wait(pid);
}

static const int nothing[3] = {-1, -1, -1};

// Adds the end of crun's log to the error.
static int runtime_failed(const char *verb, int status, struct err *err)
{
    char text[DRAY_ERR_MSG_MAX - 64];
    int fd = open("runtime.log", O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    if (fd >= 0) {
        off_t size = lseek(fd, 0, SEEK_END);
        off_t from = size > (off_t)sizeof(text) - 1 ? size - ((off_t)sizeof(text) - 1) : 0;
        n = pread(fd, text, sizeof(text) - 1, from);
        (void)close(fd);
    }
    return err_set(err, ERR_INTERNAL, "%s ended with %d: %.*s", verb, status, (int)(n > 0 ? n : 0),
                   text);
}

static int monitor_run_create(struct monitor *m, struct err *err)
{
    const char *verb[12] = {"create", "--bundle", m->plan.folder, "--pid-file", "pid"};
    size_t n = 5;
    int console = -1;
    if (m->plan.tty) {
        console = monitor_console("console");
        if (console < 0)
            return err_set(err, -console, "cannot listen for a terminal");
        verb[n++] = "--console-socket";
        verb[n++] = "console";
    }
    verb[n] = m->plan.id;
    int status = run_runtime(m, verb, m->containers);
    close_ends(m);
    if (status != 0)
        return runtime_failed("create", status, err);
    if (console >= 0) {
        m->terminal = monitor_console_take(console);
        (void)close(console);
        (void)unlink("console");
        if (m->terminal < 0)
            return err_set(err, -m->terminal, "the runtime sent no terminal");
        m->out.fd = m->terminal;
    }
    m->init = monitor_read_pid();
    if (m->init == 0)
        return err_set(err, ERR_INTERNAL, "the runtime named no process");
    return 0;
}

static int monitor_run_set_up(struct monitor *m, struct err *err)
{
    sigset_t mask;
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGHUP, SIG_IGN);
    m->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (m->signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        return monitor_run_fail(err, "wait for children");
    int r = monitor_plan_read(&m->plan, err);
    if (r == 0)
        r = monitor_run_listen(m, err);
    if (r == 0)
        r = monitor_mounts(&m->plan, err);
    if (r == 0)
        r = open_streams(m, err);
    if (r == 0)
        r = monitor_run_create(m, err);
    if (r < 0)
        return r;
    cgroup_layout_read(&m->cgroups);
    m->log = (struct monitor_log){
        .path = m->plan.log, .fd = -1, .copy = monitor_run_on_output, .arg = m};
    monitor_log_reopen(&m->log);
    monitor_set_nonblocking(m->out.fd);
    monitor_set_nonblocking(m->err.fd);
    if (file_replace_atomic(AT_FDCWD, "created", STR("\n"), 0600, NULL) < 0)
        return monitor_run_fail(err, "write to the container's directory");
    return 0;
}

// --- Requests to the monitor ---------------------------------------------------------------------

static void monitor_run_send(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void monitor_run_send_state(const struct monitor *m, int fd)
{
    char text[128];
    if (m->ended)
        (void)snprintf(text, sizeof(text), "exited %d %d %d %lld", m->code, m->signal, m->oom,
                       (long long)m->finished_ns);
    else if (m->started_ns)
        (void)snprintf(text, sizeof(text), "running %lld", (long long)m->started_ns);
    else
        (void)snprintf(text, sizeof(text), "created");
    monitor_run_send(fd, text);
}

static void monitor_run_notify_watchers(const struct monitor *m)
{
    for (size_t i = 0; i < m->clients_len; i++)
        if (m->clients[i].watches)
            monitor_run_send_state(m, m->clients[i].fd);
}

static void monitor_run_start(struct monitor *m, int fd)
{
    const char *const verb[] = {"start", m->plan.id, NULL};
    char text[32];
    struct err err = {0};
    if (m->started_ns || m->ended) {
        monitor_run_send(fd, "ok");
        return;
    }
    (void)unlink("runtime.log");
    int64_t now_ns = monitor_now_ns();
    int status = run_runtime(m, verb, nothing);
    if (status != 0) {
        char answer[MONITOR_PACKET_MAX];
        (void)runtime_failed("start", status, &err);
        (void)snprintf(answer, sizeof(answer), "error %.1000s", err.msg);
        monitor_run_send(fd, answer);
        return;
    }
    m->started_ns = now_ns;
    (void)snprintf(text, sizeof(text), "%lld\n", (long long)now_ns);
    (void)!file_replace_atomic(AT_FDCWD, "started", str_z(text), 0600, NULL);
    monitor_run_send(fd, "ok");
    monitor_run_notify_watchers(m);
}

static void monitor_run_send_signal(struct monitor *m, int number)
{
    if (m->ended)
        return;
    // A container that was not started would keep the signal pending.
    if (number == SIGKILL || !m->started_ns) {
        (void)kill(m->init, SIGKILL);
    } else {
        (void)kill(m->init, number);
    }
}

static bool monitor_run_parse_size(struct str s, int64_t *a, int64_t *b)
{
    struct str first, second;
    (void)str_cut(s, ' ', &first, &second);
    return str_to_i64(first, a) == 0 && str_to_i64(second, b) == 0;
}

static void monitor_run_handle_request(struct monitor *m, struct client *c, struct str said)
{
    int64_t a, b;
    struct str word, rest;
    (void)str_cut(said, ' ', &word, &rest);
    if (str_eq(said, STR("watch"))) {
        c->watches = true;
        monitor_run_send_state(m, c->fd);
    } else if (str_eq(said, STR("start"))) {
        monitor_run_start(m, c->fd);
    } else if (str_eq(said, STR("attach"))) {
        monitor_run_attach_client(m, c);
    } else if (str_eq(said, STR("close"))) {
        if (c->attached && m->plan.stdin_once)
            monitor_run_end_input(m);
    } else if (str_eq(said, STR("reopen"))) {
        monitor_log_reopen(&m->log);
        monitor_run_send(c->fd, "ok");
    } else if (str_eq(word, STR("kill")) && str_to_i64(rest, &a) == 0 && a > 0 && a < 65) {
        monitor_run_send_signal(m, (int)a);
        monitor_run_send(c->fd, "ok");
    } else if (str_eq(word, STR("resize")) && monitor_run_parse_size(rest, &a, &b)) {
        struct winsize size = {.ws_col = (uint16_t)a, .ws_row = (uint16_t)b};
        if (m->terminal >= 0)
            (void)ioctl(m->terminal, TIOCSWINSZ, &size);
        monitor_run_send(c->fd, "ok");
    } else {
        monitor_run_send(c->fd, "error not understood");
    }
}

static void accept_clients(struct monitor *m)
{
    while (true) {
        int fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0)
            return;
        if (m->clients_len == CLIENTS_MAX) {
            (void)close(fd);
            continue;
        }
        m->clients[m->clients_len++] = (struct client){.fd = fd};
    }
}

// False: the client is gone.
static bool monitor_run_serve_client(struct monitor *m, struct client *c)
{
    char packet[MONITOR_PACKET_MAX];
    ssize_t n = recv(c->fd, packet, sizeof(packet), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    monitor_run_handle_request(m, c, str_make(packet, (size_t)n));
    return true;
}

// --- End -----------------------------------------------------------------------------------------

static void monitor_run_reap(struct monitor *m)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;
    while (read(m->signals, &info, sizeof(info)) > 0)
        ;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid != m->init)
            continue;
        m->ended = true;
        m->finished_ns = monitor_now_ns();
        m->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        m->code = WIFSIGNALED(status) ? 128 + m->signal : WEXITSTATUS(status);
    }
}

static void monitor_run_drain_output(struct monitor *m)
{
    int64_t end_ns = clock_mono_ns(clock_system()) + DRAIN_NS;
    while ((m->out.fd >= 0 || m->err.fd >= 0) && clock_mono_ns(clock_system()) < end_ns) {
        if (!monitor_run_flush_clients(m)) { // slow clients get the same time; the log is complete
            (void)poll(NULL, 0, 10);
            if (clock_mono_ns(clock_system()) >= end_ns) {
                monitor_run_drop_slow_clients(m);
                end_ns += DRAIN_NS;
            }
            continue;
        }
        struct pollfd fds[2] = {{.fd = m->out.fd, .events = POLLIN},
                                {.fd = m->err.fd, .events = POLLIN}};
        if (poll(fds, 2, 50) <= 0)
            continue;
        if (fds[0].revents && !monitor_log_pump(&m->log, &m->out))
            m->out.fd = -1;
        if (fds[1].revents && !monitor_log_pump(&m->log, &m->err))
            m->err.fd = -1;
    }
    monitor_log_flush(&m->log, &m->out);
    monitor_log_flush(&m->log, &m->err);
}

static void monitor_run_finish(struct monitor *m)
{
    const char *const verb[] = {"delete", "--force", m->plan.id, NULL};
    char text[96];
    m->oom = cgroup_oom_killed(&m->cgroups, m->plan.cgroup);
    (void)cgroup_kill(&m->cgroups, m->plan.cgroup, 10 * CLOCK_NS_PER_SEC);
    monitor_run_drain_output(m);
    (void)snprintf(text, sizeof(text), "%d %d %d %lld\n", m->code, m->signal, m->oom,
                   (long long)m->finished_ns);
    (void)!file_replace_atomic(AT_FDCWD, "exit", str_z(text), 0600, NULL);
    accept_clients(m);
    for (size_t i = 0; i < m->clients_len; i++)
        (void)monitor_run_serve_client(m, &m->clients[i]);
    monitor_run_notify_watchers(m);
    (void)run_runtime(m, verb, nothing);
}

static void monitor_run_drop_client(struct monitor *m, const struct client *c)
{
    if (c->attached && m->plan.stdin_once)
        monitor_run_end_input(m);
    (void)close(c->fd);
}

static void monitor_run_watch(struct monitor *m)
{
    while (!m->ended) {
        bool wait = !monitor_run_flush_clients(m);
        struct pollfd fds[4 + CLIENTS_MAX] = {
            {.fd = m->signals, .events = POLLIN},
            {.fd = m->listener, .events = POLLIN},
            {.fd = wait ? -1 : m->out.fd, .events = POLLIN},
            {.fd = wait ? -1 : m->err.fd, .events = POLLIN},
        };
        size_t n = m->clients_len;
        for (size_t i = 0; i < n; i++)
            fds[4 + i] =
                (struct pollfd){.fd = m->clients[i].fd,
                                .events = (short)(POLLIN | (m->clients[i].behind ? POLLOUT : 0))};
        if (poll(fds, 4 + n, wait ? 1000 : -1) < 0)
            continue;
        if (monitor_run_clients_too_slow(m))
            monitor_run_drop_slow_clients(m);
        if (fds[2].revents && !monitor_log_pump(&m->log, &m->out))
            m->out.fd = -1;
        if (fds[3].revents && !monitor_log_pump(&m->log, &m->err))
            m->err.fd = -1;
        size_t kept = 0;
        for (size_t i = 0; i < n; i++) {
            if (!(fds[4 + i].revents & ~POLLOUT) || monitor_run_serve_client(m, &m->clients[i]))
                m->clients[kept++] = m->clients[i];
            else
                monitor_run_drop_client(m, &m->clients[i]);
        }
        m->clients_len = kept;
        if (fds[1].revents)
            accept_clients(m);
        if (fds[0].revents)
            monitor_run_reap(m);
    }
}

// --- Daemon --------------------------------------------------------------------------------------

static _Noreturn void monitor_run_daemon(const char *folder, int report)
{
    static struct monitor m = {.out = {.name = "stdout", .fd = -1},
                               .err = {.name = "stderr", .fd = -1}};
    struct err err = {0};
    m.plan.folder = folder;
    (void)setsid();
    (void)fcntl(MONITOR_LOCK_FD, F_SETFD, FD_CLOEXEC);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    if (monitor_run_set_up(&m, &err) < 0) {
        const char *const verb[] = {"delete", "--force", m.plan.id, NULL};
        if (m.plan.id && m.plan.runtime && m.plan.state)
            (void)run_runtime(&m, verb, nothing);
        (void)!write(report, err.msg, strlen(err.msg));
        _exit(1);
    }
    (void)!write(report, "", 1); // one NUL: made
    (void)close(report);
    monitor_run_watch(&m);
    monitor_run_finish(&m);
    _exit(0);
}

int monitor_run(const char *folder)
{
    int ends[2];
    char text[DRAY_ERR_MSG_MAX];
    if (chdir(folder) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
        perror(folder);
        return 1;
    }
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        monitor_run_daemon(folder, ends[1]);
    }
    (void)close(ends[1]);
    size_t n = 0;
    for (ssize_t r = 1; r > 0 && n < sizeof(text);) {
        r = read(ends[0], text + n, sizeof(text) - n);
        n += r > 0 ? (size_t)r : 0;
        if (n > 0 && text[0] == '\0')
            return 0;
    }
    if (n == 0)
        (void)fprintf(stderr, "the container's monitor was killed");
    else
        (void)fprintf(stderr, "%.*s", (int)n, text);
    return 1;
}

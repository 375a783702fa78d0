// SPDX-License-Identifier: Apache-2.0
//
// One command in a running container, for as long as the caller wants it. Arguments: a directory of
// its own (which has process.json), the runtime, its state directory, the container, the mount to
// hide or "", 1 for a terminal, the mark that the command's environment carries, the container's
// control group or "". Standard descriptors are the command's; descriptor 3 is a socket on which
// the caller sends "resize COLUMNS ROWS" and "kill", a line each, and receives "exit CODE" or
// "error TEXT". The end of the caller is a "kill".
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "node/monitor/monitor_int.h"

#include "base/banned.h"

struct command {
    const char *runtime, *state, *id, *hide, *mark, *cgroup;
    bool tty;
    pid_t runtime_pid; // of crun, until it has started the command; then 0
    pid_t command_pid; // of the command, from then on
    int signals, console, terminal;
    bool ended, input_ended, failed; // failed: the runtime could not start it
    int status;
    struct winsize size; // of the terminal; zero: not set
    struct monitor_lines lines;
    char keys[4096]; // typed, not taken by the terminal yet
    size_t keys_at, keys_len;
};

static int monitor_exec_start(struct command *c)
{
    const char *argv[20] = {c->runtime,    "--root",       c->state, "--log",
                            "runtime.log", "--log-format", "json"};
    size_t n = 7;
    int stdio[3] = {0, 1, 2};
    if (!c->cgroup[0] && strstr(c->runtime, "crun"))
        argv[n++] = "--cgroup-manager=disabled";
    argv[n++] = "exec";
    argv[n++] = "--process";
    argv[n++] = "process.json";
    argv[n++] = "--detach"; // it becomes our child, and its output is not copied
    argv[n++] = "--pid-file";
    argv[n++] = "pid";
    c->console = c->terminal = -1;
    if (c->tty) {
        c->console = monitor_console("console");
        if (c->console < 0)
            return c->console;
        argv[n++] = "--tty";
        argv[n++] = "--console-socket";
        argv[n++] = "console";
        stdio[0] = stdio[1] = stdio[2] = -1;
    }
    argv[n] = c->id;
    c->runtime_pid = monitor_spawn(argv, stdio);
    return c->runtime_pid < 0 ? (int)c->runtime_pid : 0;
}

// Closes our copies of the command's descriptors.
static void monitor_exec_release_stdio(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < 3; i++)
        (void)dup2(null, i);
    (void)close(null);
}

static void monitor_exec_kill_all(struct command *c)
{
    struct cgroup_layout layout;
    if (c->ended)
        return;
    // The runtime first: a command that is not started yet ends with it.
    if (c->runtime_pid > 0) {
        (void)kill(c->runtime_pid, SIGKILL);
        (void)monitor_wait(c->runtime_pid);
    }
    if (c->command_pid > 0)
        (void)kill(c->command_pid, SIGKILL);
    cgroup_layout_read(&layout);
    cgroup_kill_marked(&layout, c->cgroup, c->mark, 10 * CLOCK_NS_PER_SEC);
    cgroup_layout_done(&layout);
    c->ended = true;
    c->status = 128 + SIGKILL;
}

static void monitor_exec_on_line(void *arg, struct str line)
{
    struct command *c = arg;
    struct str word, columns, rows;
    uint64_t x, y;
    (void)str_cut(line, ' ', &word, &rows);
    (void)str_cut(rows, ' ', &columns, &rows);
    if (str_eq(word, STR("kill")))
        monitor_exec_kill_all(c);
    if (str_eq(word, STR("resize")) && str_to_u64(columns, &x) == 0 && str_to_u64(rows, &y) == 0) {
        c->size = (struct winsize){.ws_col = (uint16_t)x, .ws_row = (uint16_t)y};
        if (c->terminal >= 0)
            (void)ioctl(c->terminal, TIOCSWINSZ, &c->size);
    }
}

static void monitor_exec_read_caller(struct command *c)
{
    if (!monitor_lines_read(&c->lines, monitor_exec_on_line, c))
        monitor_exec_kill_all(c);
}

// --- Terminal ------------------------------------------------------------------------------------

static void monitor_exec_take_terminal(struct command *c)
{
    c->terminal = monitor_console_take(c->console);
    (void)close(c->console);
    c->console = -1;
    if (c->terminal >= 0)
        (void)fcntl(c->terminal, F_SETFL, O_RDWR | O_NONBLOCK);
    if (c->terminal >= 0 && c->size.ws_col) // the client may be faster than the runtime
        (void)ioctl(c->terminal, TIOCSWINSZ, &c->size);
}

static void monitor_exec_forward_input(struct command *c)
{
    if (c->keys_at == c->keys_len) {
        ssize_t n = read(0, c->keys, sizeof(c->keys));
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
            // End of input is a key on a terminal.
            c->input_ended = true;
            c->keys[0] = 4;
            n = 1;
        }
        c->keys_at = 0;
        c->keys_len = n > 0 ? (size_t)n : 0;
    }
    ssize_t n = write(c->terminal, c->keys + c->keys_at, c->keys_len - c->keys_at);
    if (n > 0)
        c->keys_at += (size_t)n;
}

// False: the terminal is closed on the other side.
static bool monitor_exec_forward_output(struct command *c)
{
    char text[4096];
    ssize_t n = read(c->terminal, text, sizeof(text));
    if (n <= 0)
        return n < 0 && (errno == EAGAIN || errno == EINTR);
    for (ssize_t at = 0; at < n;) {
        ssize_t w = write(1, text + at, (size_t)(n - at));
        if (w < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = 1, .events = POLLOUT}, 1, 1000);
        else if (w < 0 && errno != EINTR)
            return false;
        at += w > 0 ? w : 0;
    }
    return true;
}

// --- Wait ----------------------------------------------------------------------------------------

// The runtime exits first; we, as subreaper, become the command's parent.
static void monitor_exec_reap(struct command *c)
{
    struct signalfd_siginfo info;
    int status;
    while (read(c->signals, &info, sizeof(info)) > 0)
        ;
    if (c->runtime_pid > 0 && waitpid(c->runtime_pid, &status, WNOHANG) == c->runtime_pid) {
        c->runtime_pid = 0;
        c->status = monitor_exit_status(status);
        c->command_pid = c->status == 0 ? monitor_read_pid() : 0;
        c->failed = c->ended = c->command_pid == 0;
    }
    if (c->command_pid > 0 && !c->ended) {
        pid_t got = waitpid(c->command_pid, &status, WNOHANG);
        c->ended = got == c->command_pid || (got < 0 && errno == ECHILD);
        c->status = got == c->command_pid ? monitor_exit_status(status) : c->ended ? 255 : 0;
    }
}

static void monitor_exec_wait(struct command *c)
{
    while (!c->ended) {
        bool keys_wait = c->keys_at < c->keys_len;
        struct pollfd fds[5] = {
            {.fd = c->signals, .events = POLLIN},
            {.fd = MONITOR_CONTROL, .events = POLLIN},
            {.fd = c->console, .events = POLLIN},
            {.fd = c->terminal, .events = (short)(POLLIN | (keys_wait ? POLLOUT : 0))},
            {.fd = c->terminal >= 0 && !keys_wait && !c->input_ended ? 0 : -1, .events = POLLIN},
        };
        if (poll(fds, 5, -1) < 0)
            continue;
        if (fds[2].revents)
            monitor_exec_take_terminal(c);
        if (fds[4].revents || (fds[3].revents & POLLOUT))
            monitor_exec_forward_input(c);
        if ((fds[3].revents & (POLLIN | POLLHUP | POLLERR)) && !monitor_exec_forward_output(c)) {
            (void)close(c->terminal);
            c->terminal = -1;
        }
        if (fds[1].revents)
            monitor_exec_read_caller(c);
        if (fds[0].revents)
            monitor_exec_reap(c);
    }
    while (c->terminal >= 0 && monitor_exec_forward_output(c) &&
           poll(&(struct pollfd){.fd = c->terminal, .events = POLLIN}, 1, 0) > 0)
        ;
}

static void monitor_exec_report_end(const struct command *c)
{
    char text[DRAY_ERR_MSG_MAX];
    int fd = open("runtime.log", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof(text) - 1, 0) : 0;
    text[n > 0 ? n : 0] = '\0';
    if (c->failed) {
        monitor_answer("error ");
        monitor_answer(text);
        return;
    }
    (void)snprintf(text, sizeof(text), "exit %d\n", c->status);
    monitor_answer(text);
}

int monitor_exec(int argc, char **argv)
{
    struct err err = {0};
    sigset_t mask;
    if (argc != 8 || chdir(argv[0]) != 0)
        monitor_fail("the monitor was called in a wrong way");
    static struct command c;
    c = (struct command){.runtime = argv[1],
                         .state = argv[2],
                         .id = argv[3],
                         .hide = argv[4][0] ? argv[4] : NULL,
                         .tty = strcmp(argv[5], "1") == 0,
                         .mark = argv[6],
                         .cgroup = argv[7]};
    (void)fcntl(MONITOR_CONTROL, F_SETFD, FD_CLOEXEC);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &mask, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    c.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (monitor_hide(c.hide, &err) < 0)
        monitor_fail(err.msg);
    if (monitor_exec_start(&c) < 0)
        monitor_fail("the runtime cannot be started");
    if (!c.tty)
        monitor_exec_release_stdio();
    monitor_exec_wait(&c);
    monitor_exec_report_end(&c);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Relays between a container's monitor and an attached client: standard descriptors are the
// client's, descriptor 3 is a socket on which the caller sends "resize COLUMNS ROWS" and "kill", a
// line each, and receives "exit 0" or "error TEXT". Nothing here blocks but the wait: a container
// that does not read does not hold up its output.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "node/monitor/monitor_int.h"

#include "base/banned.h"

struct attached {
    int monitor;
    int input;              // of the container; -1: it has none
    bool input_ended, over; // over: one side is gone
    char keys[4096];        // typed, not taken by the container yet
    size_t keys_at, keys_len;
    char out[1 + MONITOR_LINE_MAX]; // the stream's number and its bytes
    size_t out_at, out_len;
    struct monitor_lines lines;
};

static bool monitor_attach_would_block(void)
{
    return errno == EAGAIN || errno == EINTR;
}

static void monitor_attach_end_input(struct attached *a)
{
    a->input_ended = true;
    if (a->input >= 0)
        (void)close(a->input);
    a->input = -1;
    (void)send(a->monitor, "close", 5, MSG_NOSIGNAL);
}

static void monitor_attach_forward_input(struct attached *a)
{
    if (a->keys_at == a->keys_len) {
        ssize_t n = read(0, a->keys, sizeof(a->keys));
        if (n == 0 || (n < 0 && !monitor_attach_would_block())) {
            monitor_attach_end_input(a);
            return;
        }
        a->keys_at = 0;
        a->keys_len = n > 0 ? (size_t)n : 0;
    }
    ssize_t n = a->input < 0 ? (ssize_t)(a->keys_len - a->keys_at) // there is no reader
                             : write(a->input, a->keys + a->keys_at, a->keys_len - a->keys_at);
    if (n > 0) {
        a->keys_at += (size_t)n;
    } else if (n < 0 && !monitor_attach_would_block()) {
        a->keys_at = a->keys_len;
        monitor_attach_end_input(a);
    }
}

static void monitor_attach_forward_output(struct attached *a)
{
    if (a->out_at == a->out_len) {
        ssize_t n = recv(a->monitor, a->out, sizeof(a->out), 0);
        a->over = n == 0 || (n < 0 && !monitor_attach_would_block());
        bool output = n > 1 && (a->out[0] == 1 || a->out[0] == 2); // else an answer
        a->out_at = 1;
        a->out_len = output ? (size_t)n : 1;
    }
    if (a->out_at == a->out_len)
        return;
    ssize_t n = write(a->out[0], a->out + a->out_at, a->out_len - a->out_at);
    if (n > 0)
        a->out_at += (size_t)n;
    else if (n < 0 && !monitor_attach_would_block())
        a->over = true;
}

static void monitor_attach_on_line(void *arg, struct str line)
{
    struct attached *a = arg;
    if (str_eq(line, STR("kill")))
        a->over = true;
    else if (str_starts(line, STR("resize ")))
        (void)send(a->monitor, line.p, line.n, MSG_NOSIGNAL);
}

static void monitor_attach_relay(struct attached *a)
{
    while (!a->over) {
        bool keys_wait = a->keys_at < a->keys_len, out_waits = a->out_at < a->out_len;
        struct pollfd fds[5] = {
            {.fd = MONITOR_CONTROL, .events = POLLIN},
            {.fd = keys_wait || a->input_ended ? -1 : 0, .events = POLLIN},
            {.fd = keys_wait ? a->input : -1, .events = POLLOUT},
            {.fd = out_waits ? -1 : a->monitor, .events = POLLIN},
            {.fd = out_waits ? a->out[0] : -1, .events = POLLOUT},
        };
        if (poll(fds, 5, -1) < 0)
            continue;
        if (fds[0].revents && !monitor_lines_read(&a->lines, monitor_attach_on_line, a))
            a->over = true;
        if (fds[1].revents || fds[2].revents)
            monitor_attach_forward_input(a);
        if (!a->over && (fds[3].revents || fds[4].revents))
            monitor_attach_forward_output(a);
    }
}

// "input" with its descriptor, or "no input".
static void monitor_attach_connect(struct attached *a)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    char text[64];
    a->monitor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (a->monitor < 0 || connect(a->monitor, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        send(a->monitor, "attach", 6, MSG_NOSIGNAL) < 0)
        monitor_fail("the container has ended");
    if (monitor_take_fd(a->monitor, text, sizeof(text), &a->input) <= 0)
        monitor_fail("the container has ended, or too many are attached to it");
}

int monitor_attach(const char *folder)
{
    static struct attached a = {.input = -1};
    (void)fcntl(MONITOR_CONTROL, F_SETFD, FD_CLOEXEC);
    (void)signal(SIGPIPE, SIG_IGN);
    if (chdir(folder) != 0)
        monitor_fail("the container is gone");
    monitor_attach_connect(&a);
    for (int i = 0; i < 3; i++)
        monitor_set_nonblocking(i);
    monitor_set_nonblocking(MONITOR_CONTROL);
    monitor_set_nonblocking(a.monitor);
    monitor_set_nonblocking(a.input);
    monitor_attach_relay(&a);
    monitor_answer("exit 0\n");
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Reads a descriptor of any type (file, pipe, terminal) on the loop: libuv polls what can be
// polled, the rest is read in turns.
#include "net/fdread.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include "base/banned.h"

#define READ_BYTES ((size_t)32 * 1024)

struct fdread {
    struct loop *loop;
    int fd;
    void (*input)(void *arg, struct str bytes);
    void *arg;
    uv_poll_t poll;
    bool polls; // else a plain file, which is always ready
    bool hold, ended;
    struct exec_timer turn; // of a plain file
};

static void read_some(struct fdread *r)
{
    char bytes[READ_BYTES];
    ssize_t n = read(r->fd, bytes, sizeof(bytes));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    r->ended = n <= 0;
    if (r->ended && r->polls)
        (void)uv_poll_stop(&r->poll);
    r->input(r->arg, str_make(bytes, n > 0 ? (size_t)n : 0));
}

static void fdread_on_ready(uv_poll_t *poll, int status, int events)
{
    struct fdread *r = container_of(poll, struct fdread, poll);
    (void)status;
    (void)events;
    if (!r->hold && !r->ended)
        read_some(r);
}

// fdread_on_turn goes on by the loop's turns; input may free or hold, so what comes next is
// arranged before.
static void fdread_on_turn(void *arg)
{
    struct fdread *r = arg;
    if (r->hold || r->ended)
        return;
    exec_timer_start(loop_exec(r->loop), &r->turn, 0);
    read_some(r);
}

int fdread_new(struct loop *loop, int fd, void (*input)(void *arg, struct str bytes), void *arg,
               struct fdread **ret, struct err *err)
{
    struct fdread *r = xcalloc(1, sizeof(*r));
    *r = (struct fdread){.loop = loop, .fd = fd, .input = input, .arg = arg};
    r->turn = (struct exec_timer){.fn = fdread_on_turn, .arg = r};
    int code = uv_poll_init(loop_uv(loop), &r->poll, fd);
    r->polls = code == 0;
    if (code < 0 && code != UV_EPERM) {
        free(r);
        return err_set(err, -code, "cannot wait for input: %s", uv_strerror(code));
    }
    *ret = r;
    fdread_hold(r, false);
    return 0;
}

void fdread_hold(struct fdread *r, bool hold)
{
    r->hold = hold;
    if (r->ended)
        return;
    if (!r->polls && !hold)
        exec_timer_start(loop_exec(r->loop), &r->turn, 0);
    else if (r->polls && hold)
        (void)uv_poll_stop(&r->poll);
    else if (r->polls)
        (void)uv_poll_start(&r->poll, UV_READABLE | UV_DISCONNECT, fdread_on_ready);
}

static void fdread_on_closed(uv_handle_t *handle)
{
    free(container_of((uv_poll_t *)(void *)handle, struct fdread, poll));
}

void fdread_free(struct fdread *r)
{
    if (!r)
        return;
    r->ended = true;
    exec_timer_stop(loop_exec(r->loop), &r->turn);
    if (r->polls)
        uv_close((uv_handle_t *)(void *)&r->poll, fdread_on_closed);
    else
        free(r);
}

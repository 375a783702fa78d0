// SPDX-License-Identifier: Apache-2.0
//
// One socket and its requests to libuv. A connection attempt that failed is replaced by a new
// socket, so a dial may try several addresses.
#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/client/dial_int.h"

#include "base/banned.h"

// A peer that is gone without a word: probed after so many seconds of silence, then so often, so
// many times; data that is not acknowledged counts for as long. Otherwise a watch would wait for
// minutes on a network that was cut.
#define KEEPALIVE_IDLE_S     15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_COUNT      3
#define UNACKNOWLEDGED_MS    30000U

struct dial_sock {
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } uv;
    const struct dial_sock_ops *ops;
    void *arg;
    uv_connect_t connect;
    uv_write_t write;
    struct sbuf flight;
    bool closed;
    char buffer[DIAL_READ_BYTES];
};

static void dial_sock_on_closed(uv_handle_t *handle)
{
    struct dial_sock *k = container_of(handle, struct dial_sock, uv.handle);
    sbuf_done(&k->flight);
    free(k);
}

void dial_sock_close(struct dial_sock *k)
{
    assert(!k->closed);
    k->closed = true;
    uv_close(&k->uv.handle, dial_sock_on_closed);
}

static void dial_sock_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct dial_sock *k = container_of(handle, struct dial_sock, uv.handle);
    *ret = uv_buf_init(k->buffer, DIAL_READ_BYTES);
}

static void dial_sock_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct dial_sock *k = container_of(stream, struct dial_sock, uv.stream);
    if (n == 0 || k->closed)
        return;
    if (n < 0)
        k->ops->gone(k->arg, (int)n);
    else
        k->ops->input(k->arg, str_make(buf->base, (size_t)n));
}

void dial_sock_read(struct dial_sock *k, bool on)
{
    if (on)
        (void)uv_read_start(&k->uv.stream, dial_sock_on_alloc, dial_sock_on_read);
    else
        (void)uv_read_stop(&k->uv.stream);
}

static void dial_sock_on_written(uv_write_t *req, int status)
{
    struct dial_sock *k = container_of(req, struct dial_sock, write);
    sbuf_done(&k->flight);
    if (!k->closed)
        k->ops->written(k->arg, status);
}

int dial_sock_write(struct dial_sock *k, struct sbuf *b)
{
    assert(k->flight.n == 0);
    k->flight = *b;
    *b = (struct sbuf){0};
    uv_buf_t buf = uv_buf_init(k->flight.p, (unsigned)k->flight.n);
    return uv_write(&k->write, &k->uv.stream, &buf, 1, dial_sock_on_written);
}

// --- Connecting ----------------------------------------------------------------------------------

static void dial_sock_tune(struct dial_sock *k)
{
    const int interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;
    const unsigned unacknowledged = UNACKNOWLEDGED_MS;
    uv_os_fd_t fd;
    if (k->uv.handle.type != UV_TCP || uv_fileno(&k->uv.handle, &fd) < 0)
        return;
    (void)uv_tcp_nodelay(&k->uv.tcp, 1);
    (void)uv_tcp_keepalive(&k->uv.tcp, 1, KEEPALIVE_IDLE_S);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof(unacknowledged));
}

static void dial_sock_on_connected(uv_connect_t *req, int status)
{
    struct dial_sock *k = container_of(req, struct dial_sock, connect);
    if (k->closed)
        return;
    if (status == 0)
        dial_sock_tune(k);
    k->ops->connected(k->arg, status);
}

// A socket belongs for ever to the namespace it was made in, so this thread only has to look in. It
// cannot go on when it does not find back.
static int dial_socket_in(const char *netns, int family)
{
    int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    int other = open(netns, O_RDONLY | O_CLOEXEC);
    int fd = -1;
    int saved = 0;
    if (own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0) {
        fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        saved = errno;
        int back = setns(own, CLONE_NEWNET);
        assert(back == 0);
        (void)back;
    } else {
        saved = errno;
    }
    if (own >= 0)
        (void)close(own);
    if (other >= 0)
        (void)close(other);
    return fd >= 0 ? fd : -saved;
}

static struct dial_sock *dial_sock_new(const struct dial_sock_ops *ops, void *arg)
{
    struct dial_sock *k = xmalloc(sizeof(*k));
    memset(k, 0, offsetof(struct dial_sock, buffer));
    k->ops = ops;
    k->arg = arg;
    return k;
}

static int dial_sock_begin(struct dial_sock *k, const struct sockaddr *to, const char *netns)
{
    if (netns) {
        int fd = dial_socket_in(netns, to->sa_family);
        int r = fd < 0 ? fd : uv_tcp_open(&k->uv.tcp, fd);
        if (r < 0)
            return r;
    }
    return uv_tcp_connect(&k->connect, &k->uv.tcp, to, dial_sock_on_connected);
}

int dial_sock_connect(uv_loop_t *uv, const struct sockaddr *to, const char *netns,
                      const struct dial_sock_ops *ops, void *arg, struct dial_sock **ret)
{
    struct dial_sock *k = dial_sock_new(ops, arg);
    (void)uv_tcp_init(uv, &k->uv.tcp);
    int r = dial_sock_begin(k, to, netns);
    if (r < 0) {
        dial_sock_close(k);
        return r;
    }
    *ret = k;
    return 0;
}

int dial_sock_connect_path(uv_loop_t *uv, const char *path, const struct dial_sock_ops *ops,
                           void *arg, struct dial_sock **ret)
{
    if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return UV_ENAMETOOLONG;
    struct dial_sock *k = dial_sock_new(ops, arg);
    (void)uv_pipe_init(uv, &k->uv.pipe, 0);
    uv_pipe_connect(&k->connect, &k->uv.pipe, path, dial_sock_on_connected);
    *ret = k;
    return 0;
}

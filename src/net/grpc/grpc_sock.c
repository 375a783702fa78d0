// SPDX-License-Identifier: Apache-2.0
//
// The unix socket under a gRPC connection.
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include <sys/un.h>

#include "net/grpc/grpc_int.h"

#include "base/banned.h"

#define READ_BYTES   ((size_t)64 * 1024)
#define WRITE_PIECES ((size_t)16)

struct grpc_sock {
    struct grpc_conn conn; // first, so that a pointer to it is a pointer to this
    uv_pipe_t pipe;
    uv_write_t write;
    uv_connect_t connect;
    bool writing, conn_made;
    size_t write_bytes;
    exec_fn gone;
    void *arg;
    void (*connected)(void *arg, int r);
    char *buffer; // while a read is handled
};

static struct grpc_sock *grpc_sock_of_conn(struct grpc_conn *c)
{
    return container_of(c, struct grpc_sock, conn);
}

struct grpc_conn *grpc_sock_conn(struct grpc_sock *k)
{
    return &k->conn;
}

struct uv_pipe_s *grpc_sock_pipe(struct grpc_sock *k)
{
    return &k->pipe;
}

// --- Writing -------------------------------------------------------------------------------------

static void grpc_sock_flush(struct grpc_conn *c);

static void grpc_sock_on_written(uv_write_t *w, int status)
{
    struct grpc_sock *k = container_of(w, struct grpc_sock, write);
    k->writing = false;
    if (k->conn.ended)
        return;
    if (status < 0) {
        grpc_conn_lose(&k->conn, uv_strerror(status));
        return;
    }
    outq_drop(&k->conn.out, k->write_bytes);
    grpc_conn_run(&k->conn);
}

static void grpc_sock_flush(struct grpc_conn *c)
{
    struct grpc_sock *k = grpc_sock_of_conn(c);
    while (!k->writing && c->out.bytes && !c->lost) {
        struct iovec iov[WRITE_PIECES];
        uv_buf_t bufs[WRITE_PIECES];
        size_t bytes;
        size_t n = outq_peek(&c->out, iov, WRITE_PIECES, &bytes);
        for (size_t i = 0; i < n; i++)
            bufs[i] = uv_buf_init(iov[i].iov_base, (unsigned)iov[i].iov_len);
        int r = uv_try_write((uv_stream_t *)&k->pipe, bufs, (unsigned)n);
        if (r > 0) {
            outq_drop(&c->out, (size_t)r);
            continue;
        }
        if (r == UV_EAGAIN) {
            k->write_bytes = bytes;
            r = uv_write(&k->write, (uv_stream_t *)&k->pipe, bufs, (unsigned)n,
                         grpc_sock_on_written);
            k->writing = r == 0;
        }
        if (r < 0)
            grpc_conn_lose(c, uv_strerror(r));
    }
}

// --- Reading -------------------------------------------------------------------------------------

static void grpc_sock_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct grpc_sock *k = container_of((uv_pipe_t *)handle, struct grpc_sock, pipe);
    if (!k->buffer)
        k->buffer = xmalloc(READ_BYTES);
    *buf = uv_buf_init(k->buffer, READ_BYTES);
}

static void grpc_sock_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct grpc_sock *k = container_of((uv_pipe_t *)stream, struct grpc_sock, pipe);
    if (k->conn.ended)
        return;
    if (n > 0) {
        grpc_conn_input(&k->conn, str_make(buf->base, (size_t)n));
    } else if (n < 0) {
        grpc_conn_lose(&k->conn,
                       n == UV_EOF ? "the peer closed the connection" : uv_strerror((int)n));
        grpc_conn_run(&k->conn);
    }
}

// --- Life ----------------------------------------------------------------------------------------

static void grpc_sock_on_closed(uv_handle_t *handle)
{
    struct grpc_sock *k = container_of((uv_pipe_t *)handle, struct grpc_sock, pipe);
    exec_fn gone = k->gone;
    void *arg = k->arg;
    if (k->conn_made)
        grpc_conn_done(&k->conn);
    free(k->buffer);
    free(k);
    gone(arg);
}

static void grpc_sock_close_conn(struct grpc_conn *c)
{
    uv_close((uv_handle_t *)&grpc_sock_of_conn(c)->pipe, grpc_sock_on_closed);
}

static const struct grpc_conn_io sock_io = {.flush = grpc_sock_flush,
                                            .close = grpc_sock_close_conn};

struct grpc_sock *grpc_sock_new(struct uv_loop_s *uv, exec_fn gone, void *arg)
{
    struct grpc_sock *k = xcalloc(1, sizeof(*k));
    (void)uv_pipe_init(uv, &k->pipe, 0);
    k->conn.io = &sock_io;
    k->gone = gone;
    k->arg = arg;
    return k;
}

void grpc_sock_start(struct grpc_sock *k)
{
    k->conn_made = true;
    grpc_conn_init(&k->conn);
    (void)uv_read_start((uv_stream_t *)&k->pipe, grpc_sock_on_alloc, grpc_sock_on_read);
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct grpc_sock *k = container_of(connect, struct grpc_sock, connect);
    if (status != UV_ECANCELED)
        k->connected(k->arg, status);
}

void grpc_sock_connect(struct grpc_sock *k, const char *path, void (*connected)(void *arg, int r))
{
    k->connected = connected;
    uv_pipe_connect(&k->connect, &k->pipe, path, on_connect);
}

void grpc_sock_drop(struct grpc_sock *k)
{
    uv_close((uv_handle_t *)&k->pipe, grpc_sock_on_closed);
}

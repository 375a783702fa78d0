// SPDX-License-Identifier: Apache-2.0
//
// Connections over sockets: reading through TLS, writing with as few system calls as can be.
#include <assert.h>
#include <stdlib.h>

#include "net/http/server_int.h"

#include "base/banned.h"

// One writev takes this many pieces; with TLS, one round encrypts this much.
#define WRITE_PIECES  64
#define ENCRYPT_BYTES ((size_t)128 * 1024)

// Unsolicited ciphertext (alerts, key updates) behind a write that does not end.
#define WAITING_MAX ((size_t)64 * 1024)

// What handshakes may take of one turn of the loop. Each costs a signature. The bytes of those that
// wait stay in the kernel until the next poll, so that open connections are served between.
#define HANDSHAKE_TURN_NS (UINT64_C(10) * 1000 * 1000)

static struct sock *sock_of_conn(struct conn *c)
{
    return container_of(c, struct sock, conn);
}

static struct server_uv *uv_of(const struct sock *k)
{
    return k->conn.server->uv;
}

// --- Writing -------------------------------------------------------------------------------------

static void sock_on_written(uv_write_t *req, int status);

static void start_write(struct sock *k, const uv_buf_t *bufs, size_t n)
{
    int r = uv_write(&k->write, &k->uv.stream, bufs, (unsigned)n, sock_on_written);
    if (r < 0)
        k->conn.doomed = true;
    else
        k->conn.blocked = true;
}

static void write_waiting(struct sock *k)
{
    k->flight = k->waiting;
    k->waiting = (struct sbuf){0};
    uv_buf_t buf = uv_buf_init(k->flight.p, (unsigned)k->flight.n);
    start_write(k, &buf, 1);
}

// keep_spare takes the memory of what was written for the next ciphertext.
static void keep_spare(struct sock *k)
{
    struct sbuf *spare = &uv_of(k)->spare;
    if (!spare->p && k->flight.cap >= ENCRYPT_BYTES) {
        *spare = k->flight;
        sbuf_clear(spare);
        k->flight = (struct sbuf){0};
    }
    sbuf_done(&k->flight);
}

static void sock_on_written(uv_write_t *req, int status)
{
    struct sock *k = container_of(req, struct sock, write);
    struct conn *c = &k->conn;
    if (c->closed)
        return;
    conn_enter(c);
    c->blocked = false;
    c->progress += k->in_flight + k->flight.n;
    c->server->stats.bytes_out += k->in_flight;
    outq_drop(&c->out, k->in_flight);
    k->in_flight = 0;
    keep_spare(k);
    if (status < 0)
        c->doomed = true;
    else if (k->waiting.n)
        write_waiting(k);
    conn_sent(c);
    if (!c->doomed)
        conn_flush(c);
    (void)conn_leave(c);
}

static void flush_plain(struct sock *k)
{
    struct iovec iov[WRITE_PIECES];
    static_assert(sizeof(struct iovec) == sizeof(uv_buf_t), "uv_buf_t is an iovec");
    static_assert(offsetof(struct iovec, iov_len) == offsetof(uv_buf_t, len), "in the same order");
    size_t bytes;
    size_t n = outq_peek(&k->conn.out, iov, WRITE_PIECES, &bytes);
    int r = uv_try_write(&k->uv.stream, (const uv_buf_t *)iov, (unsigned)n);
    if (r < 0 && r != UV_EAGAIN) {
        k->conn.doomed = true;
        return;
    }
    if (r > 0)
        outq_drop(&k->conn.out, (size_t)r);
    if (r > 0 && (size_t)r == bytes)
        return;
    n = outq_peek(&k->conn.out, iov, WRITE_PIECES, &k->in_flight);
    start_write(k, (const uv_buf_t *)iov, n);
}

// lend_cipher gives the shared buffer to a connection whose socket did not take most of it, rather
// than a copy.
static void lend_cipher(struct sock *k, size_t done)
{
    struct server_uv *u = uv_of(k);
    k->flight = u->cipher;
    u->cipher = u->spare;
    u->spare = (struct sbuf){0};
    uv_buf_t buf = uv_buf_init(k->flight.p + done, (unsigned)(k->flight.n - done));
    start_write(k, &buf, 1);
}

// Sends the ciphertext in the shared buffer; what the socket does not take moves to the connection.
static void push_cipher(struct sock *k)
{
    struct sbuf *cipher = &uv_of(k)->cipher;
    if (cipher->n == 0)
        return;
    size_t done = 0;
    if (!k->conn.blocked) {
        uv_buf_t buf = uv_buf_init(cipher->p, (unsigned)cipher->n);
        int r = uv_try_write(&k->uv.stream, &buf, 1);
        if (r < 0 && r != UV_EAGAIN)
            k->conn.doomed = true;
        done = r > 0 ? (size_t)r : 0;
    }
    if (!k->conn.blocked && !k->conn.doomed && cipher->n - done >= cipher->cap / 2) {
        lend_cipher(k, done);
    } else if (done < cipher->n && !k->conn.doomed) {
        sbuf_add(&k->waiting, str_from(sbuf_str(cipher), done));
        if (!k->conn.blocked)
            write_waiting(k);
        else if (k->waiting.n > WAITING_MAX)
            k->conn.doomed = true;
    }
    sbuf_clear(cipher);
}

static void flush_tls(struct sock *k)
{
    struct server_uv *u = uv_of(k);
    struct outq *out = &k->conn.out;
    assert(u->cipher.n == 0);
    for (size_t left = ENCRYPT_BYTES; left && out->bytes;) {
        struct iovec first;
        size_t n;
        (void)outq_peek(out, &first, 1, &n);
        struct str plain = {first.iov_base, n < TLS_RECORD_MAX ? n : TLS_RECORD_MAX};
        if (plain.n < TLS_RECORD_MAX && n < out->bytes)
            plain = str_make(u->plain, outq_gather(out, u->plain, sizeof(u->plain)));
        if (tls_conn_write(k->tls, plain, &u->cipher) < 0) {
            k->conn.doomed = true;
            break;
        }
        outq_drop(out, plain.n);
        left = plain.n < left ? left - plain.n : 0;
    }
    push_cipher(k);
}

static void sock_flush_conn(struct conn *c)
{
    struct sock *k = sock_of_conn(c);
    if (k->tls)
        flush_tls(k);
    else
        flush_plain(k);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
    (void)status;
    struct conn *c = &container_of(req, struct sock, shutdown)->conn;
    if (!c->closed && c->eof)
        conn_close(c);
}

static void sock_shutdown(struct conn *c)
{
    struct sock *k = sock_of_conn(c);
    if (k->tls) {
        tls_conn_shutdown(k->tls, &uv_of(k)->cipher);
        push_cipher(k);
    }
    if (uv_shutdown(&k->shutdown, &k->uv.stream, on_shutdown) < 0)
        c->doomed = true;
}

// --- Reading -------------------------------------------------------------------------------------

static void sock_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct sock *k = container_of(handle, struct sock, uv.handle);
    struct server_uv *u = uv_of(k);
    // No memory: libuv reads nothing, and the poll reports the socket again.
    bool waits = k->tls && !k->conn.proto && u->handshake_ns >= HANDSHAKE_TURN_NS;
    *ret = uv_buf_init(u->read, waits ? 0 : READ_BYTES);
}

static void handshake_done(struct sock *k)
{
    k->conn.certificate = k->certificate = tls_conn_peer(k->tls);
    conn_choose(&k->conn, tls_conn_h2(k->tls) ? &h2_ops : &h1_ops);
}

// read_tls takes plain text; the time that a handshake takes of this turn is counted.
static int read_tls(struct sock *k)
{
    struct server_uv *u = uv_of(k);
    bool shakes = !tls_conn_ready(k->tls);
    uint64_t began = shakes ? uv_hrtime() : 0;
    int n = tls_conn_read(k->tls, u->plain, sizeof(u->plain));
    if (shakes)
        u->handshake_ns += uv_hrtime() - began;
    return n;
}

static void input_tls(struct sock *k, struct str cipher)
{
    struct server_uv *u = uv_of(k);
    struct conn *c = &k->conn;
    assert(u->cipher.n == 0);
    tls_conn_input(k->tls, cipher, &u->cipher);
    int n;
    do {
        n = read_tls(k);
        if (!c->proto && tls_conn_ready(k->tls))
            handshake_done(k);
        if (n > 0)
            conn_input(c, str_make(u->plain, (size_t)n));
    } while (n > 0 && !c->doomed);
    push_cipher(k); // handshake, alerts, tickets
    if (n == -ENOTCONN) {
        conn_eof(c);
    } else if (n < 0) {
        c->server->stats.refused++;
        c->doomed = true;
    }
}

static void sock_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct sock *k = container_of(stream, struct sock, uv.stream);
    struct conn *c = &k->conn;
    if (n == 0 || n == UV_ENOBUFS || c->closed)
        return;
    conn_enter(c);
    if (n == UV_EOF)
        conn_eof(c);
    else if (n < 0)
        c->doomed = true;
    else if (k->tls)
        input_tls(k, str_make(buf->base, (size_t)n));
    else
        conn_input(c, str_make(buf->base, (size_t)n));
    if (!c->doomed)
        conn_flush(c);
    (void)conn_leave(c);
}

static void sock_read(struct conn *c, bool on)
{
    struct sock *k = sock_of_conn(c);
    if (on)
        (void)uv_read_start(&k->uv.stream, sock_on_alloc, sock_on_read);
    else
        (void)uv_read_stop(&k->uv.stream);
}

// --- Life ----------------------------------------------------------------------------------------

static void sock_on_closed(uv_handle_t *handle)
{
    struct sock *k = container_of(handle, struct sock, uv.handle);
    struct server_uv *u = uv_of(k);
    tls_conn_free(k->tls);
    sbuf_done(&k->flight);
    sbuf_done(&k->waiting);
    free(k->certificate);
    free(k);
    server_handle_closed(u);
}

static void sock_close_conn(struct conn *c)
{
    uv_close(&sock_of_conn(c)->uv.handle, sock_on_closed);
}

static const struct conn_io sock_io = {
    .flush = sock_flush_conn,
    .read = sock_read,
    .shutdown = sock_shutdown,
    .close = sock_close_conn,
};

static void name_peer(struct sock *k, bool tcp)
{
    struct sockaddr_storage a;
    int n = sizeof(a);
    k->conn.peer = STR("unix");
    if (!tcp || uv_tcp_getpeername(&k->uv.tcp, (struct sockaddr *)&a, &n) < 0)
        return;
    char host[48] = "";
    if (a.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)&a;
        (void)uv_ip4_name(in, host, sizeof(host));
        (void)snprintf(k->peer, sizeof(k->peer), "%s:%u", host, (unsigned)ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)&a;
        (void)uv_ip6_name(in, host, sizeof(host));
        (void)snprintf(k->peer, sizeof(k->peer), "[%s]:%u", host, (unsigned)ntohs(in->sin6_port));
    }
    k->conn.peer = str_z(k->peer);
}

void sock_accept(struct listener *l)
{
    struct http_server *s = l->server;
    struct sock *k = xcalloc(1, sizeof(*k));
    bool tcp = l->uv.handle.type == UV_TCP;
    bool tls = s->tls && tcp;
    int r = tcp ? uv_tcp_init(s->uv->loop, &k->uv.tcp) : uv_pipe_init(s->uv->loop, &k->uv.pipe, 0);
    if (r < 0) {
        free(k);
        return;
    }
    s->uv->handles++;
    k->conn.server = s;
    r = uv_accept(&l->uv.stream, &k->uv.stream);
    if (r < 0) {
        uv_close(&k->uv.handle, sock_on_closed);
        return;
    }
    name_peer(k, tcp);
    if (tls)
        k->tls = tls_conn_new(s->tls);
    conn_init(&k->conn, s, &sock_io, tls);
    sock_read(&k->conn, true);
    conn_flush(&k->conn); // sets the first deadline
}

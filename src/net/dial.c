// SPDX-License-Identifier: Apache-2.0
#include "net/dial.h"

#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#include <sys/socket.h>

#include "net/tls_int.h"

#include "base/banned.h"

#define CONNECT_NS (10 * CLOCK_NS_PER_SEC)
#define LAST_NS    (5 * CLOCK_NS_PER_SEC) // to send the rest
#define READ_SIZE  ((size_t)32 * 1024)

struct dial {
    struct dial_options o;
    struct exec *exec;
    char *host, *server_name, *netns;
    uv_tcp_t tcp;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    uv_write_t write;
    struct exec_timer timer;
    struct tls_conn *tls;
    struct sbuf early;  // written before the connection was ready, not encrypted
    struct sbuf out;    // what goes to the socket
    struct sbuf flight; // given to uv_write
    bool resolving;
    int unable; // why it could not even begin
    bool ready; // bytes may be sent
    bool writing;
    bool held;
    bool over;   // dial_write said no
    bool ending; // close when all is sent
    bool closed; // nobody is told anything any more
    int busy;    // inside a callback: memory stays
    char buffer[READ_SIZE];
};

static void fail(struct dial *d, const struct err *err);

// --- Life ----------------------------------------------------------------------------------------

static void destroy(struct dial *d)
{
    tls_conn_free(d->tls);
    sbuf_done(&d->early);
    sbuf_done(&d->out);
    sbuf_done(&d->flight);
    free(d->host);
    free(d->server_name);
    free(d->netns);
    free(d);
}

static void on_closed(uv_handle_t *handle)
{
    destroy(container_of((uv_tcp_t *)handle, struct dial, tcp));
}

static void release(struct dial *d)
{
    if (d->busy == 0 && !d->resolving && !uv_is_closing((uv_handle_t *)&d->tcp))
        uv_close((uv_handle_t *)&d->tcp, on_closed);
}

void dial_close(struct dial *d)
{
    d->closed = true;
    exec_timer_stop(d->exec, &d->timer);
    if (d->resolving)
        (void)uv_cancel((uv_req_t *)&d->resolve);
    release(d);
}

static void leave(struct dial *d)
{
    if (--d->busy == 0 && d->closed)
        release(d);
}

// Tells the owner and closes.
static void fail(struct dial *d, const struct err *err)
{
    if (!d->closed && !d->ending) {
        d->closed = true;
        d->o.closed(d->o.arg, err);
    }
    dial_close(d);
}

static void fail_with(struct dial *d, const char *why)
{
    struct err err = {0};
    err_record(&err, ERR_UNAVAILABLE, "cannot reach %s:%u: %s", d->host, (unsigned)d->o.port, why);
    fail(d, &err);
}

static void on_timeout(void *arg)
{
    struct dial *d = arg;
    d->busy++;
    if (d->ending)
        dial_close(d);
    else
        fail_with(d, d->unable ? uv_strerror(d->unable) : "no connection in time");
    leave(d);
}

// --- Writing -------------------------------------------------------------------------------------

static void flush(struct dial *d);

static void on_written(uv_write_t *req, int status)
{
    struct dial *d = container_of(req, struct dial, write);
    d->busy++;
    d->writing = false;
    sbuf_done(&d->flight);
    if (!d->closed && status < 0)
        fail_with(d, uv_strerror(status));
    else if (!d->closed)
        flush(d);
    if (!d->closed && !d->ending && d->over && d->out.n <= DIAL_QUEUED_MAX / 2) {
        d->over = false;
        if (d->o.drained)
            d->o.drained(d->o.arg);
    }
    leave(d);
}

static void flush(struct dial *d)
{
    if (d->writing || d->closed)
        return;
    if (d->out.n == 0) {
        if (d->ending)
            dial_close(d);
        return;
    }
    d->flight = d->out;
    d->out = (struct sbuf){0};
    uv_buf_t buf = uv_buf_init(d->flight.p, (unsigned)d->flight.n);
    int r = uv_write(&d->write, (uv_stream_t *)&d->tcp, &buf, 1, on_written);
    if (r < 0)
        fail_with(d, uv_strerror(r));
    else
        d->writing = true;
}

static void queue(struct dial *d, struct str bytes)
{
    if (!d->tls)
        sbuf_add(&d->out, bytes);
    else if (tls_conn_write(d->tls, bytes, &d->out) < 0)
        fail_with(d, "the TLS connection is broken");
}

bool dial_write(struct dial *d, struct str bytes)
{
    assert(!d->closed && !d->ending);
    d->busy++;
    if (!d->ready) {
        sbuf_add(&d->early, bytes);
    } else {
        queue(d, bytes);
        flush(d);
    }
    d->over = d->early.n + d->out.n > DIAL_QUEUED_MAX;
    // A connection that broke just now has told its owner, who may be gone and must not be asked to wait.
    bool room = !d->over || d->closed;
    leave(d);
    return room;
}

void dial_end(struct dial *d)
{
    d->busy++;
    d->ending = true;
    if (!d->ready) {
        dial_close(d);
    } else {
        if (d->tls)
            tls_conn_shutdown(d->tls, &d->out);
        exec_timer_start(d->exec, &d->timer, LAST_NS);
        flush(d);
    }
    leave(d);
}

// --- Reading -------------------------------------------------------------------------------------

static void became_ready(struct dial *d)
{
    d->ready = true;
    exec_timer_stop(d->exec, &d->timer);
    queue(d, sbuf_str(&d->early));
    sbuf_done(&d->early);
    if (d->held)
        (void)uv_read_stop((uv_stream_t *)&d->tcp);
    if (!d->closed)
        d->o.connected(d->o.arg);
}

static void give(struct dial *d, struct str bytes)
{
    if (!d->closed && !d->ending)
        d->o.input(d->o.arg, bytes);
}

static void input_tls(struct dial *d, struct str cipher)
{
    char plain[TLS_RECORD_MAX];
    tls_conn_input(d->tls, cipher, &d->out);
    int n;
    do {
        n = tls_conn_read(d->tls, plain, sizeof(plain));
        if (!d->ready && tls_conn_ready(d->tls))
            became_ready(d);
        if (n > 0)
            give(d, str_make(plain, (size_t)n));
    } while (n > 0 && !d->closed);
    if (d->closed)
        return;
    struct err err = {0};
    flush(d);
    if (n == -ENOTCONN) {
        fail(d, NULL);
    } else if (n < 0) {
        (void)tls_conn_problem(d->tls, &err);
        (void)err_wrap(&err, "cannot speak with %s:%u", d->host, (unsigned)d->o.port);
        fail(d, &err);
    }
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct dial *d = container_of((uv_tcp_t *)handle, struct dial, tcp);
    *ret = uv_buf_init(d->buffer, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct dial *d = container_of((uv_tcp_t *)stream, struct dial, tcp);
    if (n == 0 || d->closed)
        return;
    d->busy++;
    if (n == UV_EOF && d->ready)
        fail(d, NULL);
    else if (n < 0)
        fail_with(d, n == UV_EOF ? "it closed the connection" : uv_strerror((int)n));
    else if (d->tls)
        input_tls(d, str_make(buf->base, (size_t)n));
    else
        give(d, str_make(buf->base, (size_t)n));
    leave(d);
}

void dial_hold(struct dial *d, bool hold)
{
    if (d->held == hold || d->closed)
        return;
    d->held = hold;
    if (!d->ready)
        return;
    if (hold)
        (void)uv_read_stop((uv_stream_t *)&d->tcp);
    else
        (void)uv_read_start((uv_stream_t *)&d->tcp, on_alloc, on_read);
}

// --- Connecting ----------------------------------------------------------------------------------

static void on_connected(uv_connect_t *req, int status)
{
    struct dial *d = container_of(req, struct dial, connect);
    d->busy++;
    if (d->closed) {
        leave(d);
        return;
    }
    if (status < 0) {
        fail_with(d, uv_strerror(status));
        leave(d);
        return;
    }
    (void)uv_tcp_nodelay(&d->tcp, 1);
    (void)uv_tcp_keepalive(&d->tcp, 1, 60);
    (void)uv_read_start((uv_stream_t *)&d->tcp, on_alloc, on_read);
    if (d->o.tls) {
        d->tls = tls_conn_new_client(d->o.tls, d->server_name);
        input_tls(d, (struct str){0}); // says hello
    } else {
        became_ready(d);
        flush(d);
    }
    leave(d);
}

// A socket belongs for ever to the namespace it was made in, so this thread only has to look in. It cannot go on
// when it does not find back.
static int socket_in(const char *netns, int family)
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

static int begin_connect(struct dial *d, const struct sockaddr *to)
{
    if (d->netns) {
        int fd = socket_in(d->netns, to->sa_family);
        int r = fd < 0 ? fd : uv_tcp_open(&d->tcp, fd);
        if (r < 0)
            return r;
    }
    return uv_tcp_connect(&d->connect, &d->tcp, to, on_connected);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct dial *d = container_of(req, struct dial, resolve);
    d->busy++;
    d->resolving = false;
    if (!d->closed && status < 0) {
        fail_with(d, uv_strerror(status));
    } else if (!d->closed) {
        int r = begin_connect(d, found->ai_addr);
        if (r < 0)
            fail_with(d, uv_strerror(r));
    }
    uv_freeaddrinfo(found);
    leave(d);
}

// An address needs nobody to look it up: names that nobody answers for, and other work, keep the threads busy that do.
static bool is_address(const char *host, uint16_t port, struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){0};
    return uv_ip4_addr(host, port, (struct sockaddr_in *)ret) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret) == 0;
}

static void find_peer(struct dial *d)
{
    char port[8];
    struct sockaddr_storage to;
    if (is_address(d->host, d->o.port, &to)) {
        d->unable = begin_connect(d, (const struct sockaddr *)&to);
    } else {
        (void)snprintf(port, sizeof(port), "%u", (unsigned)d->o.port);
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        d->unable =
            uv_getaddrinfo(loop_uv(d->o.loop), &d->resolve, on_resolved, d->host, port, &hints);
        d->resolving = d->unable == 0;
    }
    if (d->unable < 0)
        exec_timer_start(d->exec, &d->timer, 0); // which tells
}

struct dial *dial_new(const struct dial_options *options)
{
    struct dial *d = xcalloc(1, sizeof(*d));
    d->o = *options;
    d->exec = loop_exec(options->loop);
    d->host = xstrndup(options->host.p, options->host.n);
    d->server_name = options->server_name.n
                         ? xstrndup(options->server_name.p, options->server_name.n)
                         : xstrndup(options->host.p, options->host.n);
    d->netns = options->netns ? xstrndup(options->netns, strlen(options->netns)) : NULL;
    (void)uv_tcp_init(loop_uv(options->loop), &d->tcp);
    d->timer.fn = on_timeout;
    d->timer.arg = d;
    exec_timer_start(d->exec, &d->timer,
                     options->timeout_ns > 0 ? options->timeout_ns : CONNECT_NS);
    find_peer(d);
    return d;
}

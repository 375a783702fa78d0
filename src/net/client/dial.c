// SPDX-License-Identifier: Apache-2.0
//
// From a name to a stream of bytes: resolve (on a thread of libuv's pool), connect to one address
// after the other, talk to the proxy, shake hands. TLS to an https proxy is below TLS to the
// server: `outer` holds the first, `tls` the second.
#include "net/dial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/client/dial_int.h"
#include "net/client/proxy.h"
#include "net/tls/tls_int.h"

#include "base/banned.h"

#define DIAL_CONNECT_NS (10 * CLOCK_NS_PER_SEC)
#define DIAL_LAST_NS    (5 * CLOCK_NS_PER_SEC) // to send the rest
#define DIAL_ATTEMPT_NS (2 * CLOCK_NS_PER_SEC) // at least, before the next address is tried
#define DIAL_ADDRESSES  ((size_t)8)

enum dial_phase {
    DIAL_CONNECTING, // or resolving
    DIAL_OUTER_TLS,  // shaking hands with an https proxy
    DIAL_PROXY,      // talking to the proxy
    DIAL_TLS,        // shaking hands with the server
    DIAL_READY,
};

struct dial {
    struct dial_options o; // the borrowed texts are not used after dial_new
    struct exec *exec;
    struct { // the peer
        char *host, *server_name, *name, *netns, *unix_path;
        uint16_t port; // where to connect to: the server's or the proxy's
    };
    struct { // addresses
        uv_getaddrinfo_t resolve;
        struct sockaddr_storage addresses[DIAL_ADDRESSES];
        size_t addresses_len, tried;
        int last_error; // of an attempt
    };
    int64_t deadline_ns;
    struct exec_timer timer, attempt;
    struct dial_sock *sock;
    struct proxy_talk talk;
    bool proxied;
    enum dial_phase phase;
    struct tls_conn *outer, *tls;
    struct {                // buffers
        struct sbuf early;  // written before the connection was ready, not encrypted
        struct sbuf middle; // between the two layers of TLS
        struct sbuf out;    // what goes to the socket
    };
    struct err unable; // why it could not even begin
    struct {           // state
        bool resolving;
        bool writing;
        bool held;
        bool over;   // dial_write was full
        bool ending; // close when all is sent
        bool closed; // no callback runs any more
        int busy;    // inside a callback: memory stays
    };
};

// --- Life ----------------------------------------------------------------------------------------

static void dial_destroy(struct dial *d)
{
    tls_conn_free(d->tls);
    tls_conn_free(d->outer);
    proxy_talk_done(&d->talk);
    sbuf_done(&d->early);
    sbuf_done(&d->middle);
    sbuf_done(&d->out);
    free(d->host);
    free(d->server_name);
    free(d->name);
    free(d->netns);
    free(d->unix_path);
    free(d);
}

static void dial_release(struct dial *d)
{
    if (d->busy == 0 && !d->resolving)
        dial_destroy(d);
}

static void dial_stop(struct dial *d)
{
    d->closed = true;
    exec_timer_stop(d->exec, &d->timer);
    exec_timer_stop(d->exec, &d->attempt);
    if (d->resolving)
        (void)uv_cancel((uv_req_t *)&d->resolve);
    if (d->sock)
        dial_sock_close(take_ptr(d->sock));
}

void dial_close(struct dial *d)
{
    dial_stop(d);
    dial_release(d);
}

static void dial_leave(struct dial *d)
{
    if (--d->busy == 0 && d->closed)
        dial_release(d);
}

// dial_fail notifies the owner and closes. The caller has entered d.
static void dial_fail(struct dial *d, const struct err *err)
{
    assert(d->busy > 0);
    bool notify = !d->closed && !d->ending;
    dial_stop(d);
    if (notify)
        d->o.closed(d->o.arg, err);
}

static void dial_fail_with(struct dial *d, int code, const char *why)
{
    struct err err = {0};
    err_record(&err, code,
               d->phase == DIAL_READY ? "the connection to %s failed: %s" : "cannot reach %s: %s",
               d->name, why);
    dial_fail(d, &err);
}

static void dial_on_timeout(void *arg)
{
    struct dial *d = arg;
    d->busy++;
    if (d->ending)
        dial_stop(d);
    else if (d->unable.code)
        dial_fail_with(d, d->unable.code, d->unable.msg);
    else
        dial_fail_with(d, ERR_TIMEOUT, "no connection in time");
    dial_leave(d);
}

// dial_fail_soon is for what fails within dial_new.
static void dial_fail_soon(struct dial *d, int code, const char *why)
{
    err_record(&d->unable, code, "%s", why);
    exec_timer_start(d->exec, &d->timer, 0);
}

static void dial_fail_tls(struct dial *d, const struct tls_conn *tls)
{
    struct err err = {0};
    (void)tls_conn_problem(tls, &err);
    bool was_ready = d->phase == DIAL_READY;
    if (!was_ready && err.code != ERR_FORBIDDEN && err.code != TLS_WRONG_NAME)
        err.code = ERR_BAD_REQUEST;
    (void)err_wrap(&err, was_ready ? "the connection to %s failed" : "cannot speak with %s",
                   d->name);
    dial_fail(d, &err);
}

// --- Writing -------------------------------------------------------------------------------------

static void dial_flush(struct dial *d)
{
    if (d->writing || d->closed || !d->sock)
        return;
    if (d->out.n == 0) {
        if (d->ending)
            dial_stop(d);
        return;
    }
    int r = dial_sock_write(d->sock, &d->out);
    if (r < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, uv_strerror(r));
    else
        d->writing = true;
}

static void dial_on_written(void *arg, int status)
{
    struct dial *d = arg;
    d->busy++;
    d->writing = false;
    if (status < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, uv_strerror(status));
    else
        dial_flush(d);
    if (!d->closed && !d->ending && d->over && d->out.n <= DIAL_QUEUED_MAX / 2) {
        d->over = false;
        if (d->o.drained)
            d->o.drained(d->o.arg);
    }
    dial_leave(d);
}

// dial_push_middle encrypts for the proxy what the inner layer has made.
static void dial_push_middle(struct dial *d)
{
    if (d->middle.n == 0 || d->closed)
        return;
    if (tls_conn_write(d->outer, sbuf_str(&d->middle), &d->out) < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, "the TLS connection to the proxy is broken");
    sbuf_clear(&d->middle);
}

// dial_layer is where what is sent by the inner layer goes.
static struct sbuf *dial_layer(struct dial *d)
{
    return d->outer ? &d->middle : &d->out;
}

static void dial_queue(struct dial *d, struct str bytes)
{
    if (!d->tls)
        sbuf_add(dial_layer(d), bytes);
    else if (tls_conn_write(d->tls, bytes, dial_layer(d)) < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, "the TLS connection is broken");
    dial_push_middle(d);
}

bool dial_write(struct dial *d, struct str bytes)
{
    assert(!d->closed && !d->ending);
    d->busy++;
    if (d->phase != DIAL_READY) {
        sbuf_add(&d->early, bytes);
    } else {
        dial_queue(d, bytes);
        dial_flush(d);
    }
    d->over = d->early.n + d->out.n > DIAL_QUEUED_MAX;
    // A connection that broke just now has notified its owner, who may be gone and must not be made
    // to wait.
    bool room = !d->over || d->closed;
    dial_leave(d);
    return room;
}

void dial_end(struct dial *d)
{
    d->busy++;
    d->ending = true;
    if (d->phase != DIAL_READY) {
        dial_stop(d);
    } else {
        if (d->tls)
            tls_conn_shutdown(d->tls, dial_layer(d));
        dial_push_middle(d);
        if (d->outer && !d->closed)
            tls_conn_shutdown(d->outer, &d->out);
        exec_timer_start(d->exec, &d->timer, DIAL_LAST_NS);
        dial_flush(d);
    }
    dial_leave(d);
}

// --- Reading -------------------------------------------------------------------------------------

static void dial_become_ready(struct dial *d)
{
    d->phase = DIAL_READY;
    exec_timer_stop(d->exec, &d->timer);
    dial_queue(d, sbuf_str(&d->early));
    sbuf_done(&d->early);
    if (d->held && d->sock)
        dial_sock_read(d->sock, false);
    if (!d->closed)
        d->o.connected(d->o.arg);
}

static void dial_give(struct dial *d, struct str bytes)
{
    if (!d->closed && !d->ending && bytes.n)
        d->o.input(d->o.arg, bytes);
}

static void dial_input_tls(struct dial *d, struct str cipher)
{
    char plain[TLS_RECORD_MAX];
    tls_conn_input(d->tls, cipher, dial_layer(d));
    int n;
    do {
        n = tls_conn_read(d->tls, plain, sizeof(plain));
        if (d->phase == DIAL_TLS && tls_conn_ready(d->tls))
            dial_become_ready(d);
        if (n > 0)
            dial_give(d, str_make(plain, (size_t)n));
    } while (n > 0 && !d->closed);
    dial_push_middle(d);
    dial_flush(d);
    if (d->closed)
        return;
    if (n == -ENOTCONN)
        dial_fail(d, NULL);
    else if (n < 0)
        dial_fail_tls(d, d->tls);
}

// dial_begin_server: the connection reaches the server.
static void dial_begin_server(struct dial *d)
{
    if (d->tls) {
        d->phase = DIAL_TLS;
        dial_input_tls(d, (struct str){0}); // sends the client hello
    } else {
        dial_become_ready(d);
    }
}

static void dial_input_proxy(struct dial *d, struct str *bytes)
{
    struct err err = {0};
    cleanup_sbuf struct sbuf reply = {0};
    int r = proxy_talk_input(&d->talk, bytes, &reply, &err);
    sbuf_add(dial_layer(d), sbuf_str(&reply));
    dial_push_middle(d);
    if (r < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, err.msg);
    else if (r > 0)
        dial_begin_server(d);
}

// dial_input_inner gets what is not the outer layer's.
static void dial_input_inner(struct dial *d, struct str bytes)
{
    if (d->phase == DIAL_PROXY)
        dial_input_proxy(d, &bytes);
    if (d->closed || bytes.n == 0 || d->phase == DIAL_PROXY)
        return;
    if (d->tls)
        dial_input_tls(d, bytes);
    else
        dial_give(d, bytes);
}

static void dial_begin_proxy(struct dial *d)
{
    d->phase = DIAL_PROXY;
    sbuf_add(dial_layer(d), proxy_talk_begin(&d->talk));
    dial_push_middle(d);
}

static void dial_input_outer(struct dial *d, struct str cipher)
{
    char plain[TLS_RECORD_MAX];
    tls_conn_input(d->outer, cipher, &d->out);
    int n;
    do {
        n = tls_conn_read(d->outer, plain, sizeof(plain));
        if (d->phase == DIAL_OUTER_TLS && tls_conn_ready(d->outer))
            dial_begin_proxy(d);
        if (n > 0)
            dial_input_inner(d, str_make(plain, (size_t)n));
    } while (n > 0 && !d->closed);
    if (d->closed)
        return;
    if (n < 0 && n != -ENOTCONN)
        dial_fail_tls(d, d->outer);
    else if (n < 0 && d->phase == DIAL_READY)
        dial_fail(d, NULL);
    else if (n < 0)
        dial_fail_with(d, ERR_UNAVAILABLE, "the proxy closed the connection");
}

static void dial_on_input(void *arg, struct str bytes)
{
    struct dial *d = arg;
    d->busy++;
    if (d->outer)
        dial_input_outer(d, bytes);
    else
        dial_input_inner(d, bytes);
    dial_flush(d);
    dial_leave(d);
}

static void dial_on_gone(void *arg, int r)
{
    struct dial *d = arg;
    d->busy++;
    if (r == UV_EOF && d->phase == DIAL_READY)
        dial_fail(d, NULL);
    else
        dial_fail_with(d, ERR_UNAVAILABLE,
                       r == UV_EOF ? "it closed the connection" : uv_strerror(r));
    dial_leave(d);
}

void dial_hold(struct dial *d, bool hold)
{
    if (d->held == hold || d->closed)
        return;
    d->held = hold;
    if (d->phase == DIAL_READY)
        dial_sock_read(d->sock, !hold);
}

bool dial_is_h2(const struct dial *d)
{
    return d->tls && tls_conn_h2(d->tls);
}

// --- Connecting ----------------------------------------------------------------------------------

static void dial_on_connected(void *arg, int status);

static const struct dial_sock_ops dial_ops = {
    .connected = dial_on_connected,
    .input = dial_on_input,
    .written = dial_on_written,
    .gone = dial_on_gone,
};

// dial_try_next begins to connect to the next address. Each gets its share of the time, as in Go.
// False: there is none left.
static bool dial_try_next(struct dial *d)
{
    exec_timer_stop(d->exec, &d->attempt);
    if (d->sock)
        dial_sock_close(take_ptr(d->sock));
    while (d->tried < d->addresses_len) {
        size_t left = d->addresses_len - d->tried;
        int r = dial_sock_connect(loop_uv(d->o.loop),
                                  (const struct sockaddr *)&d->addresses[d->tried++], d->netns,
                                  &dial_ops, d, &d->sock);
        if (r < 0) {
            d->last_error = r;
            continue;
        }
        int64_t share_ns = (d->deadline_ns - exec_now_ns(d->exec)) / (int64_t)left;
        if (left > 1)
            exec_timer_start(d->exec, &d->attempt,
                             share_ns > DIAL_ATTEMPT_NS ? share_ns : DIAL_ATTEMPT_NS);
        return true;
    }
    return false;
}

static void dial_on_attempt_over(void *arg)
{
    struct dial *d = arg;
    d->busy++;
    d->last_error = UV_ETIMEDOUT;
    if (!dial_try_next(d))
        dial_fail_with(d, ERR_UNAVAILABLE, uv_strerror(d->last_error));
    dial_leave(d);
}

static void dial_on_connected(void *arg, int status)
{
    struct dial *d = arg;
    d->busy++;
    if (status < 0) {
        d->last_error = status;
        if (!dial_try_next(d))
            dial_fail_with(d, ERR_UNAVAILABLE, uv_strerror(status));
        dial_leave(d);
        return;
    }
    exec_timer_stop(d->exec, &d->attempt);
    dial_sock_read(d->sock, true);
    if (d->outer) {
        d->phase = DIAL_OUTER_TLS;
        dial_input_outer(d, (struct str){0}); // sends the client hello
    } else if (d->proxied) {
        dial_begin_proxy(d);
    } else {
        dial_begin_server(d);
    }
    dial_flush(d);
    dial_leave(d);
}

static void dial_add_address(struct dial *d, const struct sockaddr *a, size_t n)
{
    if (d->addresses_len < DIAL_ADDRESSES && n <= sizeof(d->addresses[0]))
        memcpy(&d->addresses[d->addresses_len++], a, n);
}

static void dial_on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct dial *d = container_of(req, struct dial, resolve);
    char why[512];
    d->busy++;
    d->resolving = false;
    for (const struct addrinfo *a = found; a && !d->closed; a = a->ai_next)
        dial_add_address(d, a->ai_addr, a->ai_addrlen);
    uv_freeaddrinfo(found);
    if (!d->closed && status < 0) {
        (void)snprintf(why, sizeof(why), "cannot resolve the name %s: %s", d->host,
                       uv_strerror(status));
        dial_fail_with(d, ERR_NOT_FOUND, why);
    } else if (!d->closed && !dial_try_next(d)) {
        dial_fail_with(d, ERR_UNAVAILABLE,
                       d->last_error ? uv_strerror(d->last_error) : "no address");
    }
    dial_leave(d);
}

// An address needs no lookup: names whose servers do not answer, and other work, keep the
// threads busy that do.
static bool dial_is_address(struct dial *d)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } to = {0};
    if (uv_ip4_addr(d->host, d->port, &to.four) == 0)
        dial_add_address(d, &to.any, sizeof(to.four));
    else if (uv_ip6_addr(d->host, d->port, &to.six) == 0)
        dial_add_address(d, &to.any, sizeof(to.six));
    return d->addresses_len > 0;
}

static void dial_find_peer(struct dial *d)
{
    char port[8];
    int r = 0;
    if (d->unix_path) {
        r = dial_sock_connect_path(loop_uv(d->o.loop), d->unix_path, &dial_ops, d, &d->sock);
    } else if (dial_is_address(d)) {
        r = dial_try_next(d) ? 0 : d->last_error;
    } else {
        (void)snprintf(port, sizeof(port), "%u", (unsigned)d->port);
        const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
        r = uv_getaddrinfo(loop_uv(d->o.loop), &d->resolve, dial_on_resolved, d->host, port,
                           &hints);
        d->resolving = r == 0;
    }
    if (r < 0)
        dial_fail_soon(d, ERR_UNAVAILABLE, uv_strerror(r));
}

static char *dial_copy(struct str s)
{
    return s.n ? xstrndup(s.p, s.n) : NULL;
}

static void dial_name_peer(struct dial *d, const struct dial_options *o)
{
    cleanup_sbuf struct sbuf name = {0};
    if (o->name.n)
        sbuf_add(&name, o->name);
    else if (o->unix_path.n)
        sbuf_add(&name, o->unix_path);
    else
        sbuf_addf(&name, "%.*s:%u", STR_ARG(o->host), (unsigned)o->port);
    if (o->proxy)
        sbuf_addf(&name, " (through the proxy %s)", o->proxy->authority);
    d->name = sbuf_take(&name);
}

// dial_set_way decides where to connect to, and through which layers.
static int dial_set_way(struct dial *d, const struct dial_options *o, struct err *err)
{
    d->host = o->proxy ? dial_copy(str_z(o->proxy->host)) : dial_copy(o->host);
    d->port = o->proxy ? o->proxy->port : o->port;
    if (!d->host)
        d->host = xstrndup("", 0);
    if (o->tls)
        d->tls = tls_conn_new_client(o->tls, d->server_name);
    if (!o->proxy)
        return 0;
    d->proxied = true;
    if (o->proxy->scheme == NET_HTTPS)
        d->outer = tls_conn_new_client(o->proxy_tls, d->host);
    return proxy_talk_init(&d->talk, o->proxy, o->host, o->port, err);
}

struct dial *dial_new(const struct dial_options *options)
{
    struct dial *d = xcalloc(1, sizeof(*d));
    struct err err = {0};
    d->o = *options;
    d->exec = loop_exec(options->loop);
    d->server_name = dial_copy(options->server_name.n ? options->server_name : options->host);
    d->unix_path = dial_copy(options->unix_path);
    d->netns = options->netns ? xstrndup(options->netns, strlen(options->netns)) : NULL;
    d->timer = (struct exec_timer){.fn = dial_on_timeout, .arg = d};
    d->attempt = (struct exec_timer){.fn = dial_on_attempt_over, .arg = d};
    dial_name_peer(d, options);
    int64_t timeout_ns = options->timeout_ns > 0 ? options->timeout_ns : DIAL_CONNECT_NS;
    d->deadline_ns = exec_now_ns(d->exec) + timeout_ns;
    exec_timer_start(d->exec, &d->timer, timeout_ns);
    if (dial_set_way(d, options, &err) < 0)
        dial_fail_soon(d, err.code, err.msg);
    else
        dial_find_peer(d);
    return d;
}

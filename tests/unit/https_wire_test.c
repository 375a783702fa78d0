// SPDX-License-Identifier: Apache-2.0
//
// The HTTP client with a peer that answers byte by byte as a test says: HTTP/1.1, servers that misbehave, proxies, names
// that do not resolve, cancelling at any time.
#include <openssl/ssl.h>
#include <unistd.h>
#include <uv.h>

#include "net/dial.h"
#include "net/http.h"
#include "net/https.h"
#include "net/tls/tls_int.h"
#include "os/file.h"
#include "pki/certificate.h"
#include "unit.h"

#include "base/banned.h"

#define DAY         (24 * 3600)
#define PATIENCE_NS (20 * CLOCK_NS_PER_SEC)

// --- A peer --------------------------------------------------------------------------------------

struct peer_conn;

struct peer {
    struct loop *loop;
    uv_tcp_t listener;
    uint16_t port;
    SSL_CTX *tls; // NULL: plain text; knows no ALPN, so HTTP/1.1 it is
    void (*head)(struct peer_conn *c, struct str head); // a head was read, with its empty line
    bool socks;
    int accepted, heads;
    char last[1024]; // the last head
};

struct peer_conn {
    struct peer *peer;
    uv_tcp_t tcp;
    struct tls_conn *tls;
    struct sbuf in;
    int heads;
    struct dial *onward; // a proxy's way to the server
    bool raw;            // bytes are passed on
    bool socks;
    bool closed;
    char buffer[65536];
};

struct peer_write {
    uv_write_t req;
    struct sbuf bytes;
};

static void peer_on_written(uv_write_t *req, int status)
{
    (void)status;
    struct peer_write *w = container_of(req, struct peer_write, req);
    sbuf_done(&w->bytes);
    free(w);
}

static void peer_write_out(struct peer_conn *c, struct sbuf *bytes)
{
    if (bytes->n == 0 || c->closed)
        return;
    struct peer_write *w = xcalloc(1, sizeof(*w));
    w->bytes = *bytes;
    *bytes = (struct sbuf){0};
    uv_buf_t buf = uv_buf_init(w->bytes.p, (unsigned)w->bytes.n);
    if (uv_write(&w->req, (uv_stream_t *)&c->tcp, &buf, 1, peer_on_written) < 0)
        peer_on_written(&w->req, -1);
}

static void peer_send(struct peer_conn *c, struct str bytes)
{
    struct sbuf out = {0};
    if (bytes.n == 0)
        return;
    if (c->tls)
        assert_int_equal(tls_conn_write(c->tls, bytes, &out), 0);
    else
        sbuf_add(&out, bytes);
    peer_write_out(c, &out);
}

static void peer_on_closed(uv_handle_t *handle)
{
    struct peer_conn *c = container_of((uv_tcp_t *)handle, struct peer_conn, tcp);
    tls_conn_free(c->tls);
    sbuf_done(&c->in);
    free(c);
}

static void peer_hang_up(struct peer_conn *c)
{
    if (c->closed)
        return;
    c->closed = true;
    if (c->onward)
        dial_close(take_ptr(c->onward));
    uv_close((uv_handle_t *)&c->tcp, peer_on_closed);
}

static void peer_socks(struct peer_conn *c);

static void peer_take(struct peer_conn *c, struct str bytes)
{
    if (c->raw) {
        if (c->onward)
            (void)dial_write(c->onward, bytes);
        return;
    }
    sbuf_add(&c->in, bytes);
    if (c->socks) {
        peer_socks(c);
        return;
    }
    ptrdiff_t end = str_find(sbuf_str(&c->in), STR("\r\n\r\n"));
    if (end < 0)
        return;
    struct peer *p = c->peer;
    p->heads++;
    c->heads++;
    (void)snprintf(p->last, sizeof(p->last), "%.*s", (int)end + 4, c->in.p);
    sbuf_clear(&c->in); // tests send no bodies behind which something follows
    p->head(c, str_z(p->last));
}

static void peer_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    struct peer_conn *c = container_of((uv_tcp_t *)handle, struct peer_conn, tcp);
    *ret = uv_buf_init(c->buffer, sizeof(c->buffer));
}

static void peer_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct peer_conn *c = container_of((uv_tcp_t *)stream, struct peer_conn, tcp);
    if (n < 0) {
        peer_hang_up(c);
        return;
    }
    if (!c->tls) {
        peer_take(c, str_make(buf->base, (size_t)n));
        return;
    }
    char plain[TLS_RECORD_MAX];
    struct sbuf out = {0};
    tls_conn_input(c->tls, str_make(buf->base, (size_t)n), &out);
    int got;
    do {
        got = tls_conn_read(c->tls, plain, sizeof(plain));
        peer_write_out(c, &out);
        if (got > 0)
            peer_take(c, str_make(plain, (size_t)got));
    } while (got > 0 && !c->closed);
    if (got < 0)
        peer_hang_up(c);
}

static void peer_on_accept(uv_stream_t *listener, int status)
{
    struct peer *p = container_of((uv_tcp_t *)listener, struct peer, listener);
    struct peer_conn *c = xcalloc(1, sizeof(*c));
    assert_int_equal(status, 0);
    c->peer = p;
    c->socks = p->socks;
    p->accepted++;
    (void)uv_tcp_init(loop_uv(p->loop), &c->tcp);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&c->tcp), 0);
    if (p->tls) {
        SSL *ssl = SSL_new(p->tls);
        assert_non_null(ssl);
        SSL_set_accept_state(ssl);
        c->tls = tls_conn_wrap(ssl);
    }
    (void)uv_read_start((uv_stream_t *)&c->tcp, peer_on_alloc, peer_on_read);
}

static void peer_listen(struct peer *p, struct loop *loop,
                        void (*head)(struct peer_conn *c, struct str head))
{
    struct sockaddr_in a;
    int n = sizeof(a);
    p->loop = loop;
    p->head = head;
    (void)uv_ip4_addr("127.0.0.1", 0, &a);
    (void)uv_tcp_init(loop_uv(loop), &p->listener);
    assert_int_equal(uv_tcp_bind(&p->listener, (const struct sockaddr *)&a, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&p->listener, 16, peer_on_accept), 0);
    assert_int_equal(uv_tcp_getsockname(&p->listener, (struct sockaddr *)&a, &n), 0);
    p->port = ntohs(a.sin_port);
}

// --- The world -----------------------------------------------------------------------------------

struct world {
    struct loop *loop;
    struct peer peer, proxy;
    struct https *https;
    struct exec_timer limit, step;
    int left;
    bool once; // the step is done
};

struct call {
    struct world *world;
    int code, status, ends;
    bool unsent;
    char why[512];
    struct sbuf body;
    struct https_call *call;
};

static void on_limit(void *arg)
{
    (void)arg;
    fail_msg("nothing happened for %lld seconds", (long long)(PATIENCE_NS / CLOCK_NS_PER_SEC));
}

static void run(struct world *w)
{
    exec_timer_start(loop_exec(w->loop), &w->limit, PATIENCE_NS);
    loop_run(w->loop);
    exec_timer_stop(loop_exec(w->loop), &w->limit);
}

static void on_done(void *arg, const struct https_answer *a)
{
    struct call *c = arg;
    c->code = a->code;
    c->status = a->status;
    c->unsent = a->unsent;
    (void)snprintf(c->why, sizeof(c->why), "%.511s", a->err ? a->err->msg : "");
    if (a->body.n)
        sbuf_add(&c->body, a->body);
    c->ends++;
    if (--c->world->left == 0)
        loop_stop(c->world->loop);
}

static void start(struct world *w, struct call *c, const char *method, const char *target)
{
    c->world = w;
    const struct https_request q = {
        .method = method, .target = str_z(target), .timeout_ms = 8000, .done = on_done, .arg = c};
    c->call = https_start(w->https, &q);
    w->left++;
}

static void ask(struct world *w, struct call *c, const char *target)
{
    start(w, c, "GET", target);
    run(w);
    assert_int_equal(c->ends, 1);
}

// The reply to a path.
static const struct {
    const char *path, *reply;
    bool hang_up;
} replies[] = {
    {"/length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false},
    {"/close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", true},
    {"/eof", "HTTP/1.0 200 OK\r\n\r\nhello", true},
    {"/empty", "HTTP/1.1 204 No\r\n\r\n", false},
    {"/chunks",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
     false},
    {"/interim", "HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
     false},
    {"/later",
     "HTTP/1.1 429 x\r\nRetry-After: 7\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: "
     "0\r\n\r\n",
     false},
    {"/cut-length", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", true},
    {"/cut-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", true},
    {"/cut-head", "HTTP/1.1 200 OK\r\nContent-", true},
    {"/nothing", "", true},
    {"/bad-chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello", false},
    {"/injected", "HTTP/1.1 200 OK\r\nA: b\rContent-Length: 1\r\n\r\nx", false},
    {"/two-lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy", false},
    {"/ssh", "SSH-2.0-OpenSSH\r\n", false},
    {"/switch", "HTTP/1.1 101 x\r\nUpgrade: y\r\n\r\nz", false},
    {"/half", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", false},
    {"/silent", "", false},
};

static void reply_to_path(struct peer_conn *c, struct str head)
{
    struct str method, rest, path;
    (void)str_cut(head, ' ', &method, &rest);
    (void)str_cut(rest, ' ', &path, &rest);
    if (str_eqz(path, "/huge-head")) {
        cleanup_sbuf struct sbuf huge = {0};
        sbuf_addz(&huge, "HTTP/1.1 200 OK\r\nA: ");
        sbuf_add_repeat(&huge, 'a', 100000);
        peer_send(c, sbuf_str(&huge));
        return;
    }
    // A kept connection that the server closes as soon as it is used again.
    if (str_starts(path, STR("/stale")) && c->heads > 1) {
        peer_hang_up(c);
        return;
    }
    if (str_starts(path, STR("/stale")))
        path = STR("/length");
    for (size_t i = 0; i < array_len(replies); i++) {
        if (!str_eqz(path, replies[i].path))
            continue;
        peer_send(c, str_z(replies[i].reply));
        if (replies[i].hang_up)
            peer_hang_up(c);
        return;
    }
    fail_msg("no reply for %.*s", STR_ARG(path));
}

static void world_open(struct world *w, const char *format, uint16_t port, const char *proxy,
                       size_t connections)
{
    char url[128];
    struct err err = {0};
    (void)snprintf(url, sizeof(url), "%s:%u", format, (unsigned)port);
    const struct https_options o = {.url = str_z(url),
                                    .proxy = str_z(proxy),
                                    .no_proxy = !proxy,
                                    .insecure = true,
                                    .connections = connections,
                                    .connect_timeout_ms = 3000};
    assert_int_equal(https_new(w->loop, &o, &w->https, &err), 0);
}

static void world_start(struct world *w)
{
    struct err err = {0};
    *w = (struct world){.limit = {.fn = on_limit}};
    assert_int_equal(loop_new(&w->loop, &err), 0);
    peer_listen(&w->peer, w->loop, reply_to_path);
    world_open(w, "http://127.0.0.1", w->peer.port, NULL, 0);
}

static void on_settled(void *arg)
{
    loop_stop(arg);
}

static void world_end(struct world *w)
{
    https_free(w->https);
    uv_close((uv_handle_t *)&w->peer.listener, NULL);
    if (w->proxy.loop)
        uv_close((uv_handle_t *)&w->proxy.listener, NULL);
    // The peers see the ends.
    w->step = (struct exec_timer){.fn = on_settled, .arg = w->loop};
    exec_timer_start(loop_exec(w->loop), &w->step, 50 * CLOCK_NS_PER_MS);
    run(w);
    loop_free(w->loop);
}

static void assert_hello(struct call *c)
{
    if (c->code != 0)
        fail_msg("failed: %s", c->why);
    assert_int_equal(c->status, 200);
    assert_str(sbuf_str(&c->body), "hello");
    sbuf_done(&c->body);
}

// --- HTTP/1.1 ------------------------------------------------------------------------------------

static void connections_are_kept(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    static const char *const paths[] = {"/length", "/chunks", "/interim", "/length"};
    for (size_t i = 0; i < array_len(paths); i++) {
        struct call c = {0};
        ask(&w, &c, paths[i]);
        assert_hello(&c);
    }
    struct call empty = {0};
    ask(&w, &empty, "/empty");
    assert_int_equal(empty.status, 204);
    assert_int_equal(w.peer.accepted, 1);
    for (int i = 0; i < 2; i++) {
        struct call c = {0};
        ask(&w, &c, i ? "/close" : "/eof");
        assert_hello(&c);
    }
    assert_int_equal(w.peer.accepted, 2); // the first of them took the kept one
    world_end(&w);
}

static void on_later(void *arg, const struct https_answer *a)
{
    struct world *w = arg;
    assert_int_equal(a->status, 429);
    assert_int_equal(a->retry_after_seconds, 7);
    assert_int_equal(a->date_seconds, 784111777);
    loop_stop(w->loop);
}

static void headers_are_read(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    const struct https_request q = {.method = "PUT",
                                    .target = STR("/later"),
                                    .content_type = STR("text/x"),
                                    .accept = STR("text/y"),
                                    .authorization = STR("Bearer z"),
                                    .done = on_later,
                                    .arg = &w};
    (void)https_start(w.https, &q);
    run(&w);
    char want[512];
    (void)snprintf(want, sizeof(want),
                   "PUT /later HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAccept: text/y\r\n"
                   "Authorization: Bearer z\r\nContent-Type: text/x\r\nContent-Length: 0\r\n\r\n",
                   (unsigned)w.peer.port);
    assert_string_equal(w.peer.last, want);
    world_end(&w);
}

static void broken_answers_are_errors(void **state)
{
    (void)state;
    static const struct {
        const char *path, *why;
    } rows[] = {
        {"/cut-length", "within the response"}, {"/cut-chunk", "within the response"},
        {"/cut-head", "without an answer"},     {"/nothing", "the server closed it"},
        {"/bad-chunk", "hexadecimal"},          {"/injected", "characters"},
        {"/two-lengths", "two different"},      {"/huge-head", "too large"},
        {"/ssh", "does not speak HTTP/1.1"},    {"/switch", "switched protocols"},
    };
    struct world w;
    world_start(&w);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct call c = {0};
        ask(&w, &c, rows[i].path);
        assert_int_equal(c.code, -ERR_UNAVAILABLE);
        if (!strstr(c.why, rows[i].why))
            fail_msg("%s: %s", rows[i].path, c.why);
        assert_false(c.unsent);
        sbuf_done(&c.body);
        struct call next = {0}; // the connection is not used again
        ask(&w, &next, "/length");
        assert_hello(&next);
    }
    world_end(&w);
}

static void a_stale_connection_costs_no_read(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    for (int i = 0; i < 3; i++) {
        struct call c = {0};
        ask(&w, &c, "/stale");
        assert_hello(&c);
    }
    assert_int_equal(w.peer.accepted, 3);
    struct call post = {0}; // might have been done
    start(&w, &post, "POST", "/stale");
    run(&w);
    assert_int_equal(post.code, -ERR_UNAVAILABLE);
    assert_false(post.unsent);
    world_end(&w);
}

static void calls_share_few_connections(void **state)
{
    (void)state;
    struct world w;
    struct call calls[20] = {0};
    world_start(&w);
    https_free(w.https);
    world_open(&w, "http://127.0.0.1", w.peer.port, NULL, 3);
    for (size_t i = 0; i < array_len(calls); i++)
        start(&w, &calls[i], "GET", "/length");
    run(&w);
    for (size_t i = 0; i < array_len(calls); i++)
        assert_hello(&calls[i]);
    assert_int_equal(w.peer.accepted, 3);
    world_end(&w);
}

static void a_request_is_exactly_one(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    struct call c = {.world = &w};
    struct https_request q = {.method = "GET",
                              .target = STR("/length"),
                              .authorization = STR("Bearer abc\nX-Evil: 1"),
                              .done = on_done,
                              .arg = &c};
    w.left = 1;
    (void)https_start(w.https, &q);
    run(&w);
    assert_int_equal(c.code, -ERR_INVALID);
    assert_true(c.unsent);
    q.authorization = (struct str){0};
    q.target = STR("/a b HTTP/1.1\r\nX: y");
    w.left = 1;
    (void)https_start(w.https, &q);
    run(&w);
    assert_int_equal(c.code, -ERR_INVALID);
    assert_int_equal(w.peer.accepted, 0);
    world_end(&w);
}

// --- Ways ----------------------------------------------------------------------------------------

static void names_are_resolved(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    https_free(w.https);
    world_open(&w, "http://localhost", w.peer.port, NULL,
               0); // may also be ::1, where nobody listens
    struct call c = {0}, none = {0}, refused = {0};
    ask(&w, &c, "/length");
    assert_hello(&c);
    https_free(w.https);
    world_open(&w, "https://no-such-host.invalid", 443, NULL, 0);
    ask(&w, &none, "/");
    assert_int_equal(none.code, -ERR_UNAVAILABLE);
    assert_true(none.unsent);
    assert_non_null(
        strstr(none.why, "cannot reach https://no-such-host.invalid:443: cannot resolve the name"));
    https_free(w.https);
    world_open(&w, "http://127.0.0.1", 1, NULL, 0);
    ask(&w, &refused, "/");
    assert_string_equal(
        refused.why, "cannot reach http://127.0.0.1:1: connection refused; is the server running?");
    world_end(&w);
}

static void onward_connected(void *arg)
{
    (void)arg;
}

static void onward_input(void *arg, struct str bytes)
{
    peer_send(arg, bytes);
}

static void onward_closed(void *arg, const struct err *err)
{
    struct peer_conn *c = arg;
    (void)err;
    c->onward = NULL;
    peer_hang_up(c);
}

static void peer_pass_on(struct peer_conn *c, const char *host, uint16_t port)
{
    const struct dial_options o = {.loop = c->peer->loop,
                                   .host = str_z(host),
                                   .port = port,
                                   .connected = onward_connected,
                                   .input = onward_input,
                                   .closed = onward_closed,
                                   .arg = c};
    c->raw = true;
    c->onward = dial_new(&o);
}

static void proxy_head(struct peer_conn *c, struct str head)
{
    unsigned port = 0;
    if (!str_contains(head, STR("\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n"))) {
        peer_send(c, STR("HTTP/1.1 407 Who\r\nContent-Length: 0\r\n\r\n"));
        return;
    }
    if (str_starts(head, STR("GET http://"))) { // absolute form
        peer_send(c, STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"));
        return;
    }
    // The name is the proxy's to resolve: nobody else knows it.
    assert_int_equal(sscanf(head.p, "CONNECT server.proxied:%u HTTP/1.1\r\n", &port), 1);
    peer_send(c, STR("HTTP/1.1 200 Connected\r\n\r\n"));
    peer_pass_on(c, "127.0.0.1", (uint16_t)port);
}

static void peer_socks(struct peer_conn *c)
{
    if (c->heads == 0 && c->in.n == 4) {
        peer_send(c, STR("\5\2"));
    } else if (c->heads == 1 && c->in.n == 11) {
        assert_memory_equal(c->in.p, "\1\4user\4pass", 11);
        peer_send(c, STR("\1\0"));
    } else if (c->heads == 2 && c->in.n == 5 + 14 + 2) {
        const unsigned char *u = (const unsigned char *)c->in.p;
        assert_memory_equal(c->in.p + 5, "server.proxied", 14);
        peer_send(c, STR("\5\0\0\1\0\0\0\0\0\0"));
        peer_pass_on(c, "127.0.0.1", (uint16_t)(u[19] << 8 | u[20]));
    } else {
        return;
    }
    c->heads++;
    sbuf_clear(&c->in);
}

static SSL_CTX *make_tls(void)
{
    static const char *const names[] = {"127.0.0.1", NULL};
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    const struct pki_subject subject = {
        .common_name = "x", .names = names, .not_before = now - DAY, .not_after = now + DAY};
    struct pki_key_pair pair = {0};
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    char folder[64], crt[96], key[96];
    assert_int_equal(pki_make_ca(&subject, &pair, NULL), 0);
    (void)snprintf(folder, sizeof(folder), "/tmp/dray_https_wire.XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(crt, sizeof(crt), "%s/crt", folder);
    (void)snprintf(key, sizeof(key), "%s/key", folder);
    assert_int_equal(file_replace_durable(AT_FDCWD, crt, str_z(pair.certificate_pem), 0600, NULL),
                     0);
    assert_int_equal(file_replace_durable(AT_FDCWD, key, str_z(pair.key_pem), 0600, NULL), 0);
    assert_int_equal(SSL_CTX_use_certificate_file(tls, crt, SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM), 1);
    pki_key_pair_done(&pair);
    (void)unlink(crt);
    (void)unlink(key);
    (void)rmdir(folder);
    return tls;
}

static void ask_through(const char *scheme, bool server_tls, SSL_CTX *tls, const char *user,
                        const char *want_why)
{
    struct world w;
    struct call c = {0};
    char proxy[128];
    world_start(&w);
    https_free(w.https);
    peer_listen(&w.proxy, w.loop, proxy_head);
    w.proxy.tls = strcmp(scheme, "https") == 0 ? tls : NULL;
    w.peer.tls = server_tls ? tls : NULL;
    (void)snprintf(proxy, sizeof(proxy), "%s://%s127.0.0.1:%u", scheme, user,
                   (unsigned)w.proxy.port);
    world_open(&w, server_tls ? "https://server.proxied" : "http://server.proxied", w.peer.port,
               proxy, 0);
    start(&w, &c, "GET", "/length");
    run(&w);
    if (want_why) {
        assert_int_equal(c.code, -ERR_UNAVAILABLE);
        assert_true(c.unsent);
        if (!strstr(c.why, want_why))
            fail_msg("%s", c.why);
        assert_null(strstr(c.why, "pass"));
    } else {
        assert_hello(&c);
        assert_int_equal(w.proxy.accepted, 1);
    }
    sbuf_done(&c.body);
    world_end(&w);
}

static void proxies_lead_to_servers(void **state)
{
    (void)state;
    SSL_CTX *tls = make_tls();
    ask_through("http", true, tls, "user:pass@", NULL);
    ask_through("https", true, tls, "user:pass@", NULL);
    ask_through("http", false, tls, "user:pass@", NULL); // by the absolute form
    ask_through("https", false, tls, "user:pass@", NULL);
    ask_through("http", true, tls, "user:wrong@", "the proxy wants credentials");
    ask_through("https", true, tls, "", "the proxy wants credentials");
    SSL_CTX_free(tls);
}

static void socks5_leads_to_servers(void **state)
{
    (void)state;
    struct world w;
    struct call c = {0};
    char proxy[128];
    world_start(&w);
    https_free(w.https);
    peer_listen(&w.proxy, w.loop, NULL);
    w.proxy.socks = true;
    (void)snprintf(proxy, sizeof(proxy), "socks5://user:pass@127.0.0.1:%u", (unsigned)w.proxy.port);
    world_open(&w, "http://server.proxied", w.peer.port, proxy, 0);
    ask(&w, &c, "/length");
    assert_hello(&c);
    world_end(&w);
}

// --- Cancelling ----------------------------------------------------------------------------------

static void cancel_now(void *arg)
{
    struct call *c = arg;
    if (c->ends == 0)
        https_cancel(c->call);
    loop_stop(c->world->loop);
}

static void cancel_after(struct world *w, const char *target, int64_t delay_ns)
{
    struct call c = {0};
    start(w, &c, "GET", target);
    w->step = (struct exec_timer){.fn = cancel_now, .arg = &c};
    if (delay_ns < 0)
        https_cancel(c.call);
    else
        exec_timer_start(loop_exec(w->loop), &w->step, delay_ns);
    if (delay_ns >= 0)
        run(w);
    exec_timer_stop(loop_exec(w->loop), &w->step); // the call may have failed before
    w->left = 0;
    sbuf_done(&c.body);
}

static void calls_may_be_cancelled_at_any_time(void **state)
{
    (void)state;
    SSL_CTX *tls = make_tls();
    static const char *const urls[] = {"https://127.0.0.1", "http://127.0.0.1", "https://localhost",
                                       "https://no-such-host.invalid"};
    for (size_t i = 0; i < array_len(urls); i++) {
        for (int64_t us = -1; us < 6000; us = us < 0 ? 0 : us * 2 + 50) {
            struct world w;
            world_start(&w);
            https_free(w.https);
            w.peer.tls = i == 1 ? NULL : tls;
            world_open(&w, urls[i], w.peer.port, NULL, 1);
            int64_t ns = us < 0 ? -1 : us * 1000;
            cancel_after(&w, "/silent", ns);
            cancel_after(&w, "/half", ns);
            struct call queued = {0}, first = {0};
            start(&w, &first, "GET", "/silent"); // has the only connection
            start(&w, &queued, "GET", "/silent");
            https_cancel(queued.call);
            w.step = (struct exec_timer){.fn = cancel_now, .arg = &first};
            exec_timer_start(loop_exec(w.loop), &w.step, ns < 0 ? 0 : ns);
            run(&w);
            exec_timer_stop(loop_exec(w.loop), &w.step);
            world_end(&w); // with whatever is under way
        }
    }
    SSL_CTX_free(tls);
}

static void free_in_done(void *arg, const struct https_answer *a)
{
    struct world *w = arg;
    (void)a;
    https_free(take_ptr(w->https));
    loop_stop(w->loop);
}

static void a_callback_may_free_the_client(void **state)
{
    (void)state;
    static const char *const paths[] = {"/length", "/nothing", "/bad-chunk"};
    for (size_t i = 0; i < array_len(paths); i++) {
        struct world w;
        world_start(&w);
        const struct https_request q = {
            .method = "GET", .target = str_z(paths[i]), .done = free_in_done, .arg = &w};
        (void)https_start(w.https, &q);
        (void)https_start(w.https, &q);
        run(&w);
        assert_null(w.https);
        world_end(&w);
    }
}

RUN_TESTS(TEST_CASE(connections_are_kept), TEST_CASE(headers_are_read),
          TEST_CASE(broken_answers_are_errors), TEST_CASE(a_stale_connection_costs_no_read),
          TEST_CASE(calls_share_few_connections), TEST_CASE(a_request_is_exactly_one),
          TEST_CASE(names_are_resolved), TEST_CASE(proxies_lead_to_servers),
          TEST_CASE(socks5_leads_to_servers), TEST_CASE(calls_may_be_cancelled_at_any_time),
          TEST_CASE(a_callback_may_free_the_client))

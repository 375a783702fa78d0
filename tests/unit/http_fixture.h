// SPDX-License-Identifier: Apache-2.0
//
// A server on a thread of its own, with a handler that does what the path says, and clients over
// real sockets for the tests of src/net.
#ifndef UNIT_HTTP_FIXTURE_H
#define UNIT_HTTP_FIXTURE_H

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "net/http.h"
#include "unit.h"

#define FIXTURE_WAIT_MS 20000

struct fixture {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    pthread_t thread;
    bool joined;
    // What the handler saw; read by the test.
    atomic_int handled, closed, drained, stopped, released;
    // The last request of /hold, on the loop's thread.
    struct http_request *held;
    size_t fill_left; // of /fill, on the loop's thread
};

// /hold answers when fixture_release is called.
static inline void fixture_closed(void *arg)
{
    struct fixture *f = arg;
    f->held = NULL;
    atomic_fetch_add(&f->closed, 1);
}

static inline void fixture_fill(struct fixture *f)
{
    char block[10000];
    memset(block, 'f', sizeof(block));
    bool more = true;
    while (f->fill_left && more) {
        size_t n = f->fill_left < sizeof(block) ? f->fill_left : sizeof(block);
        f->fill_left -= n;
        more = http_write(f->held, net_buf_copy(str_make(block, n)));
    }
    if (f->fill_left == 0) {
        struct http_request *q = f->held;
        f->held = NULL;
        http_end(q);
    }
}

static inline void fixture_drained(void *arg)
{
    struct fixture *f = arg;
    atomic_fetch_add(&f->drained, 1);
    fixture_fill(f);
}

static inline void fixture_released(struct net_buf *b)
{
    (void)b; // it lives in the request's arena
}

static inline void fixture_reply_arena(struct http_request *q)
{
    // A body that lives in the request's arena: it must be there until it is sent.
    struct net_buf *b = arena_one(q->arena, struct net_buf);
    char *text = arena_alloc(q->arena, 100000, 1);
    memset(text, 'r', 100000);
    atomic_init(&b->refs, 1);
    b->bytes = str_make(text, 100000);
    b->release = fixture_released;
    http_reply(q, 200, STR("text/plain"), NULL, 0, b);
}

static inline void fixture_handle(void *arg, struct http_request *q)
{
    struct fixture *f = arg;
    uint64_t n = 0;
    atomic_fetch_add(&f->handled, 1);
    (void)!str_to_u64(q->query, &n);
    if (str_eqz(q->path, "/hello")) {
        const struct http_header extra = {STR("X-Extra"), STR("a\r\nInjected: b")};
        http_reply(q, 200, STR("text/plain"), &extra, 1, net_buf_copy(STR("hello")));
    } else if (str_eqz(q->path, "/echo")) {
        http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_copy(q->body));
    } else if (str_eqz(q->path, "/none")) {
        http_reply(q, 204, (struct str){0}, NULL, 0, NULL);
    } else if (str_eqz(q->path, "/arena")) {
        fixture_reply_arena(q);
    } else if (str_eqz(q->path, "/two")) {
        http_start(q, 200, STR("text/plain"), NULL, 0);
        (void)http_write(q, net_buf_copy(STR("one")));
        (void)http_write(q, net_buf_copy(STR("")));
        (void)http_write(q, net_buf_copy(STR("two")));
        http_end(q);
    } else if (str_eqz(q->path, "/abort")) {
        http_start(q, 200, STR("text/plain"), NULL, 0);
        (void)http_write(q, net_buf_copy(STR("part")));
        q->closed = fixture_closed; // not called: the handler has given up itself
        q->arg = f;
        http_abort(q);
    } else if (str_eqz(q->path, "/hold") || str_eqz(q->path, "/watch")) {
        f->held = q;
        q->closed = fixture_closed;
        q->arg = f;
        if (str_eqz(q->path, "/watch"))
            http_start(q, 200, STR("text/plain"), NULL, 0);
    } else if (str_eqz(q->path, "/fill")) {
        f->held = q;
        f->fill_left = (size_t)n;
        q->closed = fixture_closed;
        q->drained = fixture_drained;
        q->arg = f;
        http_start(q, 200, STR("text/plain"), NULL, 0);
        fixture_fill(f);
    } else {
        http_reply(q, 404, STR("text/plain"), NULL, 0, net_buf_copy(STR("no")));
    }
}

static inline void *fixture_run(void *arg)
{
    struct fixture *f = arg;
    loop_run(f->loop);
    return NULL;
}

static inline void fixture_start(struct fixture *f, struct tls_server *tls,
                                 const struct http_limits *limits)
{
    struct err err = {0};
    *f = (struct fixture){0};
    assert_int_equal(loop_new(&f->loop, &err), 0);
    struct http_server_options options = {
        .loop = f->loop, .tls = tls, .handle = fixture_handle, .arg = f};
    if (limits)
        options.limits = *limits;
    f->server = http_server_new(&options);
    assert_int_equal(http_server_listen_tcp(f->server, STR("127.0.0.1:0"), &f->port, &err), 0);
    assert_int_equal(pthread_create(&f->thread, NULL, fixture_run, f), 0);
}

static inline void fixture_join(struct fixture *f)
{
    if (!f->joined)
        assert_int_equal(pthread_join(f->thread, NULL), 0);
    f->joined = true;
}

static inline void fixture_end(struct fixture *f)
{
    if (!f->joined)
        loop_stop(f->loop);
    fixture_join(f);
    http_server_free(f->server);
    loop_free(f->loop);
}

// fixture_wait waits until a counter has come to want or past it.
static inline void fixture_wait(atomic_int *counter, int want)
{
    for (int ms = 0; ms < FIXTURE_WAIT_MS && atomic_load(counter) < want; ms++)
        (void)usleep(1000);
    assert_true(atomic_load(counter) >= want);
}

static inline void fixture_do_release(void *arg)
{
    struct fixture *f = arg;
    if (f->held) {
        struct http_request *q = f->held;
        f->held = NULL;
        http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_copy(STR("released")));
    }
    atomic_fetch_add(&f->released, 1);
}

static inline void fixture_release(struct fixture *f)
{
    exec_post(loop_exec(f->loop), fixture_do_release, f);
}

static inline void fixture_on_stopped(void *arg)
{
    struct fixture *f = arg;
    atomic_fetch_add(&f->stopped, 1);
    loop_stop(f->loop);
}

static inline void fixture_do_stop(void *arg)
{
    struct fixture *f = arg;
    http_server_stop(f->server, 500 * CLOCK_NS_PER_MS, fixture_on_stopped, f);
}

static inline void fixture_stop(struct fixture *f)
{
    exec_post(loop_exec(f->loop), fixture_do_stop, f);
}

// --- Plain clients -------------------------------------------------------------------------------

static inline int client_open(const struct fixture *f)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(f->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static inline void client_send(int fd, struct str s)
{
    while (s.n) {
        ssize_t n = send(fd, s.p, s.n, MSG_NOSIGNAL);
        if (n <= 0)
            return; // the server has had enough; what it says is what counts
        s = str_from(s, (size_t)n);
    }
}

static inline void client_sendz(int fd, const char *z)
{
    client_send(fd, str_z(z));
}

// client_read reads until the text holds `until`, or to the end when it is NULL. The end is also
// where waiting takes too long, which fails the test.
static inline void client_read(int fd, struct sbuf *text, const char *until)
{
    while (!until || !text->n || !strstr(text->p, until)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, FIXTURE_WAIT_MS) != 1)
            fail_msg("no answer in time; so far: %s", text->n ? text->p : "");
        ssize_t n = recv(fd, sbuf_space(text, 65536), 65536, 0);
        if (n <= 0) {
            if (until)
                fail_msg("closed before \"%s\"; so far: %s", until, text->n ? text->p : "");
            return;
        }
        sbuf_commit(text, (size_t)n);
    }
}

// client_ask sends a request on a new connection and returns all that comes until the end.
static inline void client_ask(const struct fixture *f, struct str request, struct sbuf *answer)
{
    int fd = client_open(f);
    client_send(fd, request);
    client_read(fd, answer, NULL);
    (void)close(fd);
}

static inline bool sbuf_has(const struct sbuf *b, const char *z)
{
    return b->n && strstr(b->p, z);
}

static inline size_t sbuf_count(const struct sbuf *b, const char *z)
{
    size_t n = 0;
    for (const char *p = b->n ? b->p : ""; (p = strstr(p, z)); p++)
        n++;
    return n;
}

#endif

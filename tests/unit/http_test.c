// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "../fuzz/http_memory.h"
#include "http_fixture.h"

#include "base/banned.h"

#define GET(path)  "GET " path " HTTP/1.1\r\nHost: a\r\n\r\n"
#define LAST(path) "GET " path " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

#define assert_has(b, z)                                                  \
    do {                                                                  \
        if (!sbuf_has((b), (z)))                                          \
            fail_msg("\"%s\" is not in:\n%s", (z), (b)->n ? (b)->p : ""); \
    } while (0)

static void answers_and_keeps_the_connection(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    int fd = client_open(&f);
    cleanup_sbuf struct sbuf b = {0};
    client_sendz(fd, GET("/hello"));
    client_read(fd, &b, "hello");
    assert_has(&b, "HTTP/1.1 200 OK\r\n");
    assert_has(&b, "Content-Type: text/plain\r\n");
    assert_has(&b, "Content-Length: 5\r\n");
    assert_has(&b, "\r\nDate: ");
    assert_has(&b, "X-Extra: a  Injected: b\r\n"); // a value cannot become a header
    assert_false(sbuf_has(&b, "Connection:"));
    sbuf_clear(&b);
    client_sendz(fd, "HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n" GET("/none"));
    client_read(fd, &b, "204 No Content");
    assert_has(&b, "Content-Length: 5\r\n");
    assert_int_equal(sbuf_count(&b, "Content-Length"), 1); // 204 has none
    sbuf_clear(&b);
    client_sendz(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n");
    client_sendz(fd, "bo");
    client_sendz(fd, "dy" GET("/missing"));
    client_read(fd, &b, "404 Not Found");
    assert_has(&b, "\r\n\r\nbody");
    sbuf_clear(&b);
    client_sendz(fd, LAST("/two"));
    client_read(fd, &b, NULL);
    assert_has(&b, "Connection: close\r\n");
    assert_has(&b, "Transfer-Encoding: chunked\r\n");
    assert_has(&b, "\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
    (void)close(fd);
    fixture_end(&f);
}

static void answers_http_1_0(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    cleanup_sbuf struct sbuf b = {0};
    client_ask(&f, STR("GET /two HTTP/1.0\r\n\r\n"), &b);
    assert_has(&b, "\r\n\r\nonetwo");
    assert_false(sbuf_has(&b, "chunked"));
    sbuf_clear(&b);
    client_ask(&f,
               STR("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                   "GET /hello HTTP/1.0\r\n\r\n"),
               &b);
    assert_int_equal(sbuf_count(&b, "HTTP/1.1 200 OK"), 2);
    assert_has(&b, "Connection: keep-alive\r\n");
    fixture_end(&f);
}

static void answers_pipelined_requests_in_order(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    int fd = client_open(&f);
    cleanup_sbuf struct sbuf b = {0}, many = {0};
    client_sendz(fd, GET("/hold") GET("/two") GET("/hello"));
    fixture_wait(&f.handled, 1);
    fixture_release(&f);
    client_read(fd, &b, "hello");
    const char *first = strstr(b.p, "released"), *second = strstr(b.p, "3\r\ntwo");
    assert_non_null(first);
    assert_non_null(second);
    assert_true(first < second && second < strstr(b.p, "hello"));
    // Hundreds at once, with bodies, in odd pieces.
    sbuf_clear(&b);
    for (int i = 0; i < 300; i++)
        sbuf_addf(&many, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n<%03d>", i);
    sbuf_addz(&many, LAST("/echo"));
    for (size_t at = 0; at < many.n; at += 777)
        client_send(fd, str_upto(str_from(sbuf_str(&many), at), 777));
    client_read(fd, &b, NULL);
    const char *p = b.p;
    for (int i = 0; i < 300; i++) {
        char want[16];
        (void)snprintf(want, sizeof(want), "\r\n\r\n<%03d>", i);
        p = strstr(p, want);
        assert_non_null(p);
    }
    (void)close(fd);
    fixture_end(&f);
}

static void reads_bodies_in_chunks(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    int fd = client_open(&f);
    cleanup_sbuf struct sbuf b = {0};
    client_sendz(fd, "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n");
    client_read(fd, &b, "HTTP/1.1 100 Continue\r\n\r\n");
    client_sendz(fd, "5\r\nhello\r\n7;x");
    client_sendz(fd, "\r\n, world\r\n0\r\nT: x\r\n\r\n");
    client_read(fd, &b, "hello, world");
    assert_has(&b, "Content-Length: 12\r\n");
    (void)close(fd);
    fixture_end(&f);
}

static void refuses_what_is_wrong_or_too_large(void **state)
{
    (void)state;
    static const struct http_limits limits = {.header_bytes = 2000, .body_bytes = 1000};
    static const struct {
        const char *request, *answer;
    } rows[] = {
        {"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n", "HTTP/1.1 413 "},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n",
         "HTTP/1.1 413 "},
        {"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx", "HTTP/1.1 400 "},
        {"GET / HTTP/3.0\r\nHost: a\r\n\r\n", "HTTP/1.1 505 "},
        {"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "HTTP/1.1 505 "},
        {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501 "},
        {"\x16\x03\x01\x02", "is it TLS?"},
    };
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_sbuf struct sbuf b = {0};
        client_ask(&f, str_z(rows[i].request), &b);
        assert_has(&b, rows[i].answer);
        assert_has(&b, "Connection: close\r\n");
    }
    cleanup_sbuf struct sbuf b = {0}, big = {0};
    sbuf_addz(&big, "GET /");
    sbuf_add_repeat(&big, 'a', 3000);
    client_ask(&f, sbuf_str(&big), &b);
    assert_has(&b, "HTTP/1.1 414 ");
    sbuf_clear(&b);
    sbuf_clear(&big);
    sbuf_addz(&big, "GET / HTTP/1.1\r\nA: ");
    sbuf_add_repeat(&big, 'a', 3000);
    client_ask(&f, sbuf_str(&big), &b);
    assert_has(&b, "HTTP/1.1 431 ");
    // A client that goes on talking still gets the answer.
    sbuf_clear(&b);
    sbuf_clear(&big);
    sbuf_addz(&big, "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9000000\r\n\r\n");
    sbuf_add_repeat(&big, 'b', 9000000);
    client_ask(&f, sbuf_str(&big), &b);
    assert_has(&b, "HTTP/1.1 413 ");
    assert_has(&b, "limit is 1000");
    assert_int_equal(atomic_load(&f.handled), 0);
    fixture_end(&f);
}

static void ends_slow_and_idle_connections(void **state)
{
    (void)state;
    static const struct http_limits limits = {.header_timeout_ns = 100 * CLOCK_NS_PER_MS,
                                              .body_timeout_ns = 100 * CLOCK_NS_PER_MS,
                                              .idle_timeout_ns = 150 * CLOCK_NS_PER_MS};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    cleanup_sbuf struct sbuf b = {0};
    client_ask(&f, STR("GET /hello HT"), &b); // never finishes
    assert_has(&b, "HTTP/1.1 408 ");
    sbuf_clear(&b);
    client_ask(&f, STR("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc"), &b);
    assert_has(&b, "HTTP/1.1 408 ");
    sbuf_clear(&b);
    client_ask(&f, STR(GET("/hello")), &b); // idle afterwards
    assert_has(&b, "HTTP/1.1 200 ");
    assert_false(sbuf_has(&b, "408"));
    sbuf_clear(&b);
    client_ask(&f, (struct str){0}, &b); // says nothing at all
    assert_int_equal(b.n, 0);
    // A trickle does not extend the time for the head.
    sbuf_clear(&b);
    int fd = client_open(&f);
    for (int i = 0; i < 100 && b.n == 0; i++) {
        client_sendz(fd, i ? "x" : "GET /");
        (void)usleep(10000);
        ssize_t n = recv(fd, sbuf_space(&b, 4096), 4096, MSG_DONTWAIT);
        if (n > 0)
            sbuf_commit(&b, (size_t)n);
    }
    assert_has(&b, "HTTP/1.1 408 ");
    (void)close(fd);
    // One that is being answered is left in peace.
    fd = client_open(&f);
    int before = atomic_load(&f.handled);
    client_sendz(fd, GET("/hold"));
    fixture_wait(&f.handled, before + 1);
    (void)usleep(400000);
    fixture_release(&f);
    sbuf_clear(&b);
    client_read(fd, &b, "released");
    (void)close(fd);
    fixture_end(&f);
}

static void tells_the_handler_when_the_client_is_gone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    cleanup_sbuf struct sbuf b = {0};
    int fd = client_open(&f);
    client_sendz(fd, GET("/watch"));
    client_read(fd, &b, "\r\n\r\n");
    (void)close(fd);
    fixture_wait(&f.closed, 1);
    // A request that was aborted or answered is not closed again.
    fd = client_open(&f);
    client_sendz(fd, GET("/abort"));
    sbuf_clear(&b);
    client_read(fd, &b, NULL);
    assert_has(&b, "4\r\npart\r\n");
    assert_false(sbuf_has(&b, "0\r\n\r\n"));
    (void)close(fd);
    client_ask(&f, STR(LAST("/hello")), &b);
    // A half-closed client gets its short answer.
    int handled = atomic_load(&f.handled);
    fd = client_open(&f);
    client_sendz(fd, GET("/hold"));
    (void)shutdown(fd, SHUT_WR);
    fixture_wait(&f.handled, handled + 1);
    (void)usleep(20000);
    fixture_release(&f);
    sbuf_clear(&b);
    client_read(fd, &b, NULL);
    assert_has(&b, "released");
    (void)close(fd);
    assert_int_equal(atomic_load(&f.closed), 1);
    fixture_end(&f);
}

static void do_write_twice(void *arg)
{
    struct fixture *f = arg;
    // The first is answered with a reset by the peer's kernel, the second meets a broken pipe.
    for (int i = 0; i < 2 && f->held; i++)
        (void)http_write(f->held, net_buf_copy(STR("to nobody")));
    atomic_fetch_add(&f->released, 1);
}

static void survives_peers_that_are_gone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    for (int i = 0; i < 20; i++) {
        cleanup_sbuf struct sbuf b = {0};
        int fd = client_open(&f);
        client_sendz(fd, GET("/watch"));
        client_read(fd, &b, "\r\n\r\n");
        // Reset instead of closing, while the server writes.
        struct linger reset = {.l_onoff = 1};
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        exec_post(loop_exec(f.loop), do_write_twice, &f);
        (void)close(fd);
        exec_post(loop_exec(f.loop), do_write_twice, &f);
        fixture_wait(&f.closed, i + 1);
    }
    assert_int_equal(atomic_load(&f.closed), 20);
    fixture_end(&f);
}

static void slows_down_for_a_slow_reader(void **state)
{
    (void)state;
    static const struct http_limits limits = {.queued_bytes = 100000};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    int fd = client_open(&f);
    client_sendz(fd, "GET /fill?30000000 HTTP/1.0\r\n\r\n");
    fixture_wait(&f.handled, 1);
    (void)usleep(50000); // the kernel's buffers fill, the rest waits
    cleanup_sbuf struct sbuf b = {0};
    client_read(fd, &b, NULL);
    const char *body = strstr(b.p, "\r\n\r\n");
    assert_non_null(body);
    assert_int_equal(b.n - (size_t)(body + 4 - b.p), 30000000);
    assert_true(atomic_load(&f.drained) > 5);
    (void)close(fd);
    // And one that never reads is not filled: closed is called when it leaves.
    fd = client_open(&f);
    client_sendz(fd, GET("/fill?100000000"));
    fixture_wait(&f.handled, 2);
    (void)usleep(20000);
    (void)close(fd);
    fixture_wait(&f.closed, 1);
    fixture_end(&f);
}

static void gives_up_on_a_peer_that_never_reads(void **state)
{
    (void)state;
    static const struct http_limits limits = {.body_timeout_ns = 100 * CLOCK_NS_PER_MS};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    int fd = client_open(&f);
    client_sendz(fd, GET("/fill?100000000"));
    fixture_wait(&f.closed, 1);
    (void)close(fd);
    fixture_end(&f);
}

static void keeps_a_request_until_its_answer_left(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    cleanup_sbuf struct sbuf b = {0}, ask = {0};
    for (int i = 0; i < 200; i++)
        sbuf_addz(&ask, GET("/arena"));
    sbuf_addz(&ask, LAST("/arena"));
    int fd = client_open(&f);
    client_send(fd, sbuf_str(&ask));
    fixture_wait(&f.handled, 3);
    (void)usleep(20000);
    client_read(fd, &b, NULL);
    assert_int_equal(sbuf_count(&b, "HTTP/1.1 200 OK"), 201);
    assert_true(b.n > 201 * 100000);
    (void)close(fd);
    fixture_end(&f);
}

static void take_little(struct conn *c)
{
    struct memory *m = memory_of(c);
    char some[1000];
    size_t n = outq_gather(&c->out, some, sizeof(some));
    sbuf_add(&m->out, str_make(some, n));
    outq_drop(&c->out, n);
}

// One flush does not send it all, and the loop comes back late. The wait for the peer's last words begins behind the answer.
static void sends_the_whole_last_answer_however_late(void **state)
{
    (void)state;
    static const struct conn_io slow = {.flush = take_little,
                                        .read = memory_io_read,
                                        .shutdown = memory_io_shutdown,
                                        .close = memory_io_close};
    static const struct http_limits limits = {.body_bytes = 100000};
    struct memory *m = memory_new(&limits, &h1_ops);
    m->conn->conn.io = &slow;
    cleanup_sbuf struct sbuf ask = {0};
    sbuf_addz(&ask, "POST /b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                    "Content-Length: 50000\r\n\r\n");
    sbuf_add_repeat(&ask, 'x', 50000);
    memory_feed(m, sbuf_str(&ask));
    for (int i = 0; i < 10 && m->conn && !m->shut; i++) {
        assert_true(m->out.n < 50000);
        exec_sim_run(m->sim, m->clock.mono + 100 * CLOCK_NS_PER_SEC);
    }
    assert_true(m->out.n > 50000);
    assert_true(m->shut);
    exec_sim_run(m->sim, m->clock.mono + LINGER_NS);
    assert_null(m->conn);
    memory_free(m);
}

static void take_and_block(struct conn *c)
{
    memory_io_flush(c);
    c->blocked = true; // as with TLS: it is encrypted, the socket has not taken it
}

static void keeps_what_the_socket_has_not_taken_when_the_peer_ends(void **state)
{
    (void)state;
    static const struct conn_io full = {.flush = take_and_block,
                                        .read = memory_io_read,
                                        .shutdown = memory_io_shutdown,
                                        .close = memory_io_close};
    static const char *const asks[] = {GET("/b"), LAST("/b")};
    static const struct http_limits limits = {0};
    for (size_t i = 0; i < array_len(asks); i++) {
        struct memory *m = memory_new(&limits, &h1_ops);
        struct conn *c = &m->conn->conn;
        c->io = &full;
        memory_feed(m, str_z(asks[i]));
        assert_true(c->blocked);
        conn_enter(c);
        conn_eof(c);
        conn_flush(c);
        (void)conn_leave(c);
        assert_non_null(m->conn); // ends with the shutdown, which is behind the answer
        assert_true(m->shut);
        memory_free(m);
    }
}

static void stops_gracefully(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    cleanup_sbuf struct sbuf b = {0}, idle_text = {0};
    int idle = client_open(&f), busy = client_open(&f), stuck = client_open(&f);
    client_sendz(idle, GET("/hello"));
    client_read(idle, &idle_text, "hello");
    client_sendz(stuck, GET("/watch"));
    client_read(stuck, &b, "\r\n\r\n");
    client_sendz(busy, GET("/hold"));
    fixture_wait(&f.handled, 3);
    fixture_stop(&f);
    client_read(idle, &idle_text, NULL); // ended at once
    fixture_release(&f);
    sbuf_clear(&b);
    client_read(busy, &b, NULL);
    assert_has(&b, "released");
    assert_has(&b, "Connection: close\r\n");
    client_read(stuck, &b, NULL); // after the grace
    fixture_join(&f);
    assert_int_equal(atomic_load(&f.stopped), 1);
    struct http_server_stats stats;
    http_server_get_stats(f.server, &stats);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.streams, 0);
    assert_int_equal(stats.requests, 3);
    (void)close(idle);
    (void)close(busy);
    (void)close(stuck);
    fixture_end(&f);
}

static void waits_when_there_are_too_many_connections(void **state)
{
    (void)state;
    static const struct http_limits limits = {.connections = 2,
                                              .give_way_ns = 600 * CLOCK_NS_PER_SEC};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    int fds[6];
    for (int i = 0; i < 6; i++) {
        fds[i] = client_open(&f); // the kernel's queue takes them all
        client_sendz(fds[i], GET("/hello"));
    }
    for (int i = 0; i < 6; i++) {
        cleanup_sbuf struct sbuf b = {0};
        client_read(fds[i], &b, "hello");
        assert_true(atomic_load(&f.handled) <= i + 2);
        (void)close(fds[i]);
    }
    fixture_end(&f);
}

// Whoever holds connections and asks nothing, or never to the end, keeps nobody out; whose answer is on its way stays.
static void those_that_do_nothing_give_way(void **state)
{
    (void)state;
    static const struct http_limits limits = {.connections = 3,
                                              .give_way_ns = 100 * CLOCK_NS_PER_MS};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    int busy = client_open(&f), idle = client_open(&f), half = client_open(&f);
    client_sendz(busy, GET("/hold"));
    client_sendz(half, "POST /hello HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nx");
    int fds[4];
    for (int i = 0; i < 4; i++) { // they stay open, so that each pushes another one out
        cleanup_sbuf struct sbuf b = {0};
        fds[i] = client_open(&f);
        client_sendz(fds[i], GET("/hello"));
        client_read(fds[i], &b, "hello");
    }
    char byte;
    assert_int_equal(recv(idle, &byte, 1, 0), 0);
    assert_true(recv(half, &byte, 1, 0) <= 0);
    assert_int_not_equal(recv(busy, &byte, 1, MSG_DONTWAIT | MSG_PEEK), 0);
    for (int i = 0; i < 4; i++)
        (void)close(fds[i]);
    (void)close(idle);
    (void)close(half);
    (void)close(busy);
    fixture_end(&f);
}

// Nobody is sent away any more once whoever waited is in.
static void those_that_do_nothing_stay_while_nobody_waits(void **state)
{
    (void)state;
    static const struct http_limits limits = {.connections = 2,
                                              .give_way_ns = 200 * CLOCK_NS_PER_MS};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    cleanup_sbuf struct sbuf first = {0}, second = {0}, third = {0};
    int leaves = client_open(&f), idle = client_open(&f);
    client_sendz(leaves, GET("/hello"));
    client_read(leaves, &first, "hello");
    client_sendz(idle, GET("/hello"));
    client_read(idle, &second, "hello");
    int next = client_open(&f);
    client_sendz(next, GET("/hello"));
    (void)usleep(50 * 1000); // it is seen, and waits
    (void)close(leaves);
    client_read(next, &third, "hello");
    (void)usleep(700 * 1000);
    char byte;
    assert_int_equal(recv(idle, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(recv(next, &byte, 1, MSG_DONTWAIT), -1);
    (void)close(idle);
    (void)close(next);
    fixture_end(&f);
}

// There is one queue an address: room is made for each of them.
static void those_that_do_nothing_give_way_on_every_address(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct err err;
    assert_int_equal(loop_new(&f.loop, &err), 0);
    const struct http_server_options options = {.loop = f.loop,
                                                .handle = fixture_handle,
                                                .arg = &f,
                                                .limits = {.connections = 1,
                                                           .give_way_ns = 100 * CLOCK_NS_PER_MS}};
    f.server = http_server_new(&options);
    uint16_t ports[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(http_server_listen_tcp(f.server, STR("127.0.0.1:0"), &ports[i], &err), 0);
    assert_int_equal(pthread_create(&f.thread, NULL, fixture_run, &f), 0);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        f.port = ports[i % 2];
        fds[i] = client_open(&f);
        client_sendz(fds[i], GET("/hello"));
    }
    for (int i = 0; i < 3; i++) { // in whichever order they come in
        cleanup_sbuf struct sbuf b = {0};
        client_read(fds[i], &b, "hello");
    }
    for (int i = 0; i < 3; i++)
        (void)close(fds[i]);
    fixture_end(&f);
}

static void listens_on_unix_sockets(void **state)
{
    (void)state;
    struct fixture f = {0};
    struct err err;
    char path[] = "/tmp/dray_http_test.XXXXXX";
    assert_non_null(mkdtemp(path));
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/sock", path);
    assert_int_equal(loop_new(&f.loop, &err), 0);
    struct http_server_options options = {.loop = f.loop, .handle = fixture_handle, .arg = &f};
    f.server = http_server_new(&options);
    // A dead socket is replaced, a live one and a file are not.
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (const struct sockaddr *)&a, sizeof(a)), 0);
    (void)close(dead);
    assert_int_equal(http_server_listen_unix(f.server, a.sun_path, &err), 0);
    struct stat st;
    assert_int_equal(stat(a.sun_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(http_server_listen_unix(f.server, a.sun_path, &err), -EADDRINUSE);
    assert_non_null(strstr(err.msg, "another server runs there"));
    assert_int_equal(http_server_listen_unix(f.server, "/etc/passwd", &err), -EEXIST);
    char lengthy[200];
    memset(lengthy, 'a', sizeof(lengthy) - 1);
    lengthy[sizeof(lengthy) - 1] = '\0';
    assert_int_equal(http_server_listen_unix(f.server, lengthy, &err), -ENAMETOOLONG);
    assert_int_equal(pthread_create(&f.thread, NULL, fixture_run, &f), 0);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    cleanup_sbuf struct sbuf b = {0};
    client_sendz(fd, LAST("/hello"));
    client_read(fd, &b, NULL);
    assert_has(&b, "hello");
    (void)close(fd);
    fixture_end(&f);
    assert_int_equal(access(a.sun_path, F_OK), -1); // removed
    assert_int_equal(rmdir(path), 0);
}

static void says_why_it_cannot_listen(void **state)
{
    (void)state;
    struct fixture f;
    struct err err;
    fixture_start(&f, NULL, NULL);
    loop_stop(f.loop);
    fixture_join(&f);
    char address[32];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)f.port);
    assert_int_equal(http_server_listen_tcp(f.server, str_z(address), NULL, &err), -EADDRINUSE);
    assert_non_null(strstr(err.msg, address));
    assert_non_null(strstr(err.msg, "another server runs there"));
    assert_int_equal(http_server_listen_tcp(f.server, STR("203.0.113.1:0"), NULL, &err),
                     -EADDRNOTAVAIL);
    static const char *const bad[] = {
        "", "localhost", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536", "::1:80", "[::1]"};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_int_equal(http_server_listen_tcp(f.server, str_z(bad[i]), NULL, &err), -EINVAL);
    uint16_t port = 0;
    assert_int_equal(http_server_listen_tcp(f.server, STR("localhost:0"), &port, &err), 0);
    assert_int_not_equal(port, 0);
    fixture_end(&f);
}

static void shares_buffers(void **state)
{
    (void)state;
    struct sbuf text = {0};
    sbuf_addz(&text, "shared");
    struct net_buf *b = net_buf_new(&text);
    assert_null(text.p);
    assert_ptr_equal(net_buf_ref(b), b);
    net_buf_unref(b);
    assert_str(b->bytes, "shared");
    net_buf_unref(b);
    net_buf_unref(NULL);
}

RUN_TESTS(TEST_CASE(answers_and_keeps_the_connection), TEST_CASE(answers_http_1_0),
          TEST_CASE(answers_pipelined_requests_in_order), TEST_CASE(reads_bodies_in_chunks),
          TEST_CASE(refuses_what_is_wrong_or_too_large), TEST_CASE(ends_slow_and_idle_connections),
          TEST_CASE(tells_the_handler_when_the_client_is_gone),
          TEST_CASE(survives_peers_that_are_gone), TEST_CASE(slows_down_for_a_slow_reader),
          TEST_CASE(gives_up_on_a_peer_that_never_reads),
          TEST_CASE(keeps_a_request_until_its_answer_left),
          TEST_CASE(sends_the_whole_last_answer_however_late),
          TEST_CASE(keeps_what_the_socket_has_not_taken_when_the_peer_ends),
          TEST_CASE(stops_gracefully), TEST_CASE(waits_when_there_are_too_many_connections),
          TEST_CASE(those_that_do_nothing_give_way),
          TEST_CASE(those_that_do_nothing_stay_while_nobody_waits),
          TEST_CASE(those_that_do_nothing_give_way_on_every_address),
          TEST_CASE(listens_on_unix_sockets), TEST_CASE(says_why_it_cannot_listen),
          TEST_CASE(shares_buffers))

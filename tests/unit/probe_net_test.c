// SPDX-License-Identifier: Apache-2.0
//
// What is read from servers that are checked over the network.
#include <pthread.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include "node/pods/probe_net.h"
#include "unit.h"

#include "base/banned.h"

// Paths and headers are a tenant's: what the node sends is one request, and a GET.
static void a_check_is_one_request(void **state)
{
    (void)state;
    struct api_http_header headers[] = {{.name = STR("X-A"), .value = STR("1\r\nX-B: 2")},
                                        {.name = STR("X-C"), .value = STR("3")}};
    const struct probe_net_request q = {
        .kind = PROBE_NET_HTTP,
        .host = STR("127.0.0.1"),
        .port = 80,
        .path = STR("/a b HTTP/1.1\r\nHost: a\r\n\r\nPUT /latest?x=%20\x7f\xc3\xa9"),
        .host_header = STR("b\r\n\r\nPUT /latest HTTP/1.1"),
        .headers = headers,
        .headers_len = array_len(headers)};
    cleanup_sbuf struct sbuf b = {0};
    probe_http_request(&b, &q);
    assert_string_equal(
        b.p, "GET /a%20b%20HTTP/1.1%0D%0AHost:%20a%0D%0A%0D%0APUT%20/latest?x=%20%7F%C3%A9 "
             "HTTP/1.1\r\nHost: 127.0.0.1:80\r\nUser-Agent: kube-probe/1.37\r\nAccept: */*\r\n"
             "X-C: 3\r\nConnection: close\r\n\r\n");
}

// --- One slow check and another ------------------------------------------------------------------

#define THREADS 4 // of libuv's pool

struct world {
    struct loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool let_go, told, ok;
    int working;
    struct exec_timer watchdog;
};

static void block(void *arg)
{
    struct world *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    while (!w->let_go)
        (void)pthread_cond_wait(&w->wake, &w->lock);
    (void)pthread_mutex_unlock(&w->lock);
}

static void unblocked(void *arg)
{
    struct world *w = arg;
    if (--w->working == 0)
        loop_stop(w->loop);
}

static void let_go(void *arg)
{
    struct world *w = arg;
    (void)pthread_mutex_lock(&w->lock);
    w->let_go = true;
    (void)pthread_cond_broadcast(&w->wake);
    (void)pthread_mutex_unlock(&w->lock);
}

static void checked(void *arg, bool ok, struct str text)
{
    struct world *w = arg;
    (void)text;
    w->told = true;
    w->ok = ok && !w->let_go;
    let_go(w);
}

static int listen_somewhere(uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

// Jobs of the runtime, and names that nobody answers for, may keep all threads of the pool busy. A check of another pod
// that failed for that would have its container killed.
static void an_address_is_checked_while_threads_are_busy(void **state)
{
    (void)state;
    struct world w = {.working = THREADS};
    struct err err = {0};
    struct probe_net *net = NULL;
    struct probe_net_request q = {.kind = PROBE_NET_TCP, .timeout_ns = 20 * CLOCK_NS_PER_SEC};
    (void)pthread_mutex_init(&w.lock, NULL);
    (void)pthread_cond_init(&w.wake, NULL);
    assert_int_equal(loop_new(&w.loop, &err), 0);
    assert_int_equal(probe_net_new(w.loop, &net, &err), 0);
    int fd = listen_somewhere(&q.port);
    for (int i = 0; i < THREADS; i++)
        loop_work(w.loop, block, unblocked, &w);
    w.watchdog = (struct exec_timer){.fn = let_go, .arg = &w};
    exec_timer_start(loop_exec(w.loop), &w.watchdog, 10 * CLOCK_NS_PER_SEC);
    q.host = STR("127.0.0.1");
    (void)net->check(net, &q, checked, &w);
    loop_run(w.loop);
    assert_true(w.told);
    assert_true(w.ok);
    exec_timer_stop(loop_exec(w.loop), &w.watchdog);
    probe_net_free(net);
    loop_free(w.loop);
    (void)close(fd);
    (void)pthread_cond_destroy(&w.wake);
    (void)pthread_mutex_destroy(&w.lock);
}

#define FRAME(n, type, flags) "\0\0" n type flags "\0\0\0\1"

static void health_answers(void **state)
{
    (void)state;
    struct str settings = STR("\0\0\0\4\0\0\0\0\0");
    struct str headers = STR(FRAME("\1", "\1", "\4") "x");
    struct str serving = STR(FRAME("\7", "\0", "\0") "\0\0\0\0\2\x08\1");
    struct str not_serving = STR(FRAME("\7", "\0", "\0") "\0\0\0\0\2\x08\2");
    struct str trailers = STR(FRAME("\1", "\1", "\5") "x");
    struct sbuf b = {0};
    sbuf_add(&b, settings);
    sbuf_add(&b, headers);
    assert_int_equal(probe_grpc_status(sbuf_str(&b)), 0);
    size_t before = b.n;
    sbuf_add(&b, serving);
    for (size_t n = before; n < b.n; n++)
        assert_int_equal(probe_grpc_status(str_upto(sbuf_str(&b), n)), 0);
    assert_int_equal(probe_grpc_status(sbuf_str(&b)), 1);
    assert_int_equal(probe_grpc_status(not_serving), -1);
    assert_int_equal(probe_grpc_status(trailers), -1);
    assert_int_equal(probe_grpc_status(STR("")), 0);
    sbuf_done(&b);
}

static void a_health_request_is_http2(void **state)
{
    (void)state;
    struct sbuf b = {0};
    probe_grpc_request(&b, STR("127.0.0.1:80"), STR("svc"));
    assert_true(str_starts(sbuf_str(&b), STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")));
    assert_true(str_contains(sbuf_str(&b), STR("/grpc.health.v1.Health/Check")));
    assert_true(str_contains(sbuf_str(&b), STR("\0\0\0\0\5\x0a\3svc")));
    sbuf_done(&b);
}

RUN_TESTS(TEST_CASE(a_check_is_one_request),
          TEST_CASE(an_address_is_checked_while_threads_are_busy), TEST_CASE(health_answers),
          TEST_CASE(a_health_request_is_http2))

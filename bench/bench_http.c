// SPDX-License-Identifier: Apache-2.0
//
// Requests over loopback with keep-alive: HTTP/1.1 and HTTP/2, plain and with TLS. `…/server_cpu` is
// the processor time of the server's thread a request; `…/wall` the time between answers, client
// included. Each round asks once on each of CONNECTIONS (HTTP/2: streams) and waits for all.
#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "bench.h"
#include "net/http.h"
#include "os/file.h"
#include "pki/certificate.h"

#include "base/banned.h"

enum { CONNECTIONS = 32, ROUNDS = 1500, BODY = 1000 };

struct running {
    struct loop *loop;
    struct http_server *server;
    struct tls_server *tls;
    uint16_t port;
    pthread_t thread;
    char body[BODY];
};

static void handle(void *arg, struct http_request *q)
{
    struct running *r = arg;
    http_reply(q, 200, STR("application/json"), NULL, 0, net_buf_copy(str_make(r->body, BODY)));
}

static void *run(void *arg)
{
    struct running *r = arg;
    loop_run(r->loop);
    return NULL;
}

static void make_tls(struct running *r)
{
    struct pki_key_pair ca, pair;
    struct pki_subject subject = {.common_name = "bench", .server = true};
    subject.not_before = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC - 60;
    subject.not_after = subject.not_before + 3600;
    char crt[] = "/tmp/bench_http_crt.XXXXXX", key[] = "/tmp/bench_http_key.XXXXXX";
    int fd = mkstemp(crt), fd2 = mkstemp(key);
    struct tls_server_options options = {.certificate_file = crt, .key_file = key};
    if (fd < 0 || fd2 < 0 || pki_make_ca(&subject, &ca, NULL) < 0 ||
        pki_make_certificate(&ca, &subject, &pair, NULL) < 0 ||
        file_replace_durable(AT_FDCWD, crt, str_z(pair.certificate_pem), 0600, NULL) < 0 ||
        file_replace_durable(AT_FDCWD, key, str_z(pair.key_pem), 0600, NULL) < 0 ||
        tls_server_new(&options, &r->tls, NULL) < 0)
        abort();
    (void)close(fd);
    (void)close(fd2);
    (void)unlink(crt);
    (void)unlink(key);
    pki_key_pair_done(&ca);
    pki_key_pair_done(&pair);
}

static void start(struct running *r, bool tls)
{
    *r = (struct running){0};
    memset(r->body, 'x', BODY);
    if (tls)
        make_tls(r);
    if (loop_new(&r->loop, NULL) < 0)
        abort();
    struct http_server_options options = {
        .loop = r->loop, .tls = r->tls, .handle = handle, .arg = r};
    r->server = http_server_new(&options);
    if (http_server_listen_tcp(r->server, STR("127.0.0.1:0"), &r->port, NULL) < 0 ||
        pthread_create(&r->thread, NULL, run, r) != 0)
        abort();
}

static void finish(struct running *r)
{
    loop_stop(r->loop);
    (void)pthread_join(r->thread, NULL);
    http_server_free(r->server);
    loop_free(r->loop);
    tls_server_free(r->tls);
}

// --- Client --------------------------------------------------------------------------------------

struct peer {
    int fd;
    SSL *ssl;
};

static SSL_CTX *client_context;

static void peer_open(struct peer *p, const struct running *r, bool h2)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(r->port)};
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    p->ssl = NULL;
    if (p->fd < 0 || connect(p->fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
        abort();
    (void)setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (!r->tls)
        return;
    p->ssl = SSL_new(client_context);
    const unsigned char *alpn = (const unsigned char *)(h2 ? "\x02h2" : "\x08http/1.1");
    (void)SSL_set_alpn_protos(p->ssl, alpn, h2 ? 3 : 9);
    (void)SSL_set_fd(p->ssl, p->fd);
    if (SSL_connect(p->ssl) != 1)
        abort();
}

static void peer_close(struct peer *p)
{
    SSL_free(p->ssl);
    (void)close(p->fd);
}

static size_t peer_read(struct peer *p, char *to, size_t cap)
{
    ssize_t n = p->ssl ? SSL_read(p->ssl, to, (int)cap) : read(p->fd, to, cap);
    if (n <= 0)
        abort();
    return (size_t)n;
}

static void peer_write(struct peer *p, const char *from, size_t n)
{
    ssize_t w = p->ssl ? SSL_write(p->ssl, from, (int)n) : write(p->fd, from, n);
    if (w != (ssize_t)n)
        abort();
}

// --- Measuring -----------------------------------------------------------------------------------

static int64_t cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec ts;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &ts) != 0)
        abort();
    return (int64_t)ts.tv_sec * CLOCK_NS_PER_SEC + ts.tv_nsec;
}

static void report(const char *name, int64_t cpu, int64_t wall)
{
    char text[64];
    double n = (double)CONNECTIONS * ROUNDS;
    (void)snprintf(text, sizeof(text), "http/%s/server_cpu", name);
    bench_print(text, (double)cpu / n, 0, NULL);
    (void)snprintf(text, sizeof(text), "http/%s/wall", name);
    bench_print(text, (double)wall / n, 0, NULL);
}

static const char request[] = "GET /api/v1/namespaces/default/pods/web-1 HTTP/1.1\r\n"
                              "Host: localhost:6443\r\n"
                              "User-Agent: bench/1.0 (linux/amd64)\r\n"
                              "Accept: application/json, */*\r\n"
                              "Authorization: Bearer 0123456789abcdef0123456789abcdef\r\n"
                              "Accept-Encoding: gzip\r\n\r\n";

// Reads one answer: its length is the same every time.
static void read_answer(struct peer *p, size_t *length)
{
    char buf[8192];
    size_t n = 0;
    do {
        n += peer_read(p, buf + n, sizeof(buf) - n);
        const char *end = memmem(buf, n, "\r\n\r\n", 4);
        if (!*length && end)
            *length = (size_t)(end - buf) + 4 + BODY;
    } while (!*length || n < *length);
}

static void bench_h1(const char *name, bool tls)
{
    static struct running r;
    static struct peer peers[CONNECTIONS];
    start(&r, tls);
    size_t length = 0;
    int64_t cpu = 0, wall = 0;
    for (size_t i = 0; i < CONNECTIONS; i++)
        peer_open(&peers[i], &r, false);
    for (int round = -10; round < ROUNDS; round++) {
        if (round == 0) {
            cpu = cpu_ns(r.thread);
            wall = clock_mono_ns(clock_system());
        }
        for (size_t i = 0; i < CONNECTIONS; i++)
            peer_write(&peers[i], request, sizeof(request) - 1);
        for (size_t i = 0; i < CONNECTIONS; i++)
            read_answer(&peers[i], &length);
    }
    report(name, cpu_ns(r.thread) - cpu, clock_mono_ns(clock_system()) - wall);
    for (size_t i = 0; i < CONNECTIONS; i++)
        peer_close(&peers[i]);
    finish(&r);
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)session, (void)id;
    assert(code == 0);
    ++*(int *)arg;
    return 0;
}

static void flush_session(nghttp2_session *session, struct peer *p)
{
    char buf[65536];
    size_t n = 0;
    const uint8_t *bytes;
    for (ssize_t got; (got = nghttp2_session_mem_send(session, &bytes)) > 0; n += (size_t)got) {
        assert(n + (size_t)got <= sizeof(buf));
        memcpy(buf + n, bytes, (size_t)got);
    }
    if (n)
        peer_write(p, buf, n);
}

#define FIELD(name, value)                                                             \
    {                                                                                  \
        (uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, \
            sizeof(value) - 1, 0                                                       \
    }

static void bench_h2(const char *name, bool tls)
{
    static struct running r;
    struct peer p;
    start(&r, tls);
    peer_open(&p, &r, true);
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    int closed = 0;
    if (nghttp2_session_callbacks_new(&callbacks) != 0)
        abort();
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    if (nghttp2_session_client_new(&session, callbacks, &closed) != 0)
        abort();
    (void)nghttp2_submit_settings(session, 0, NULL, 0);
    static const nghttp2_nv fields[] = {
        FIELD(":method", "GET"),
        FIELD(":scheme", "https"),
        FIELD(":authority", "localhost:6443"),
        FIELD(":path", "/api/v1/namespaces/default/pods/web-1"),
        FIELD("user-agent", "bench/1.0 (linux/amd64)"),
        FIELD("accept", "application/json, */*"),
        FIELD("authorization", "Bearer 0123456789abcdef0123456789abcdef"),
        FIELD("accept-encoding", "gzip"),
    };
    int64_t cpu = 0, wall = 0;
    for (int round = -10; round < ROUNDS; round++) {
        if (round == 0) {
            cpu = cpu_ns(r.thread);
            wall = clock_mono_ns(clock_system());
        }
        closed = 0;
        for (size_t i = 0; i < CONNECTIONS; i++)
            (void)nghttp2_submit_request(session, NULL, fields, array_len(fields), NULL, NULL);
        while (closed < CONNECTIONS) {
            flush_session(session, &p);
            char buf[65536];
            size_t n = peer_read(&p, buf, sizeof(buf));
            if (nghttp2_session_mem_recv(session, (const uint8_t *)buf, n) < 0)
                abort();
        }
    }
    report(name, cpu_ns(r.thread) - cpu, clock_mono_ns(clock_system()) - wall);
    nghttp2_session_del(session);
    nghttp2_session_callbacks_del(callbacks);
    peer_close(&p);
    finish(&r);
}

int main(void)
{
    client_context = SSL_CTX_new(TLS_client_method());
    if (!client_context)
        abort();
    bench_h1("h1", false);
    bench_h1("h1_tls", true);
    bench_h2("h2", false);
    bench_h2("h2_tls", true);
    SSL_CTX_free(client_context);
    return 0;
}

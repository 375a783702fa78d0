// SPDX-License-Identifier: Apache-2.0
//
// A small server over src/net for tests with foreign clients.
//
// usage: http_server [--tls FOLDER] [--unix PATH] [--short]
//
// Prints "port N" when it listens; with --tls it makes a CA, a server's and a client's certificate in
// FOLDER. SIGTERM stops it gracefully, then it prints its statistics. --short sets short time-outs.
//   /hello      hello      /echo       the body    /headers  method, target, headers
//   /stream?N   N lines    /big?N      N bytes     /who      the client certificate
//   /never      no answer  /abort      a broken stream
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/http.h"
#include "os/file.h"
#include "pki/certificate.h"

#include "base/banned.h"

static struct loop *loop;
static struct http_server *server;

static void reply_text(struct http_request *q, struct sbuf *text)
{
    http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_new(text));
}

static void reply_headers(struct http_request *q)
{
    struct sbuf b = {0};
    sbuf_addf(&b, "%.*s %.*s path=%.*s query=%.*s version=%d tls=%d\n", STR_ARG(q->method),
              STR_ARG(q->target), STR_ARG(q->path), STR_ARG(q->query), q->version, q->tls);
    for (size_t i = 0; i < q->headers_len; i++)
        sbuf_addf(&b, "%.*s: %.*s\n", STR_ARG(q->headers[i].name), STR_ARG(q->headers[i].value));
    reply_text(q, &b);
}

static void reply_who(struct http_request *q)
{
    struct sbuf b = {0};
    if (!q->certificate)
        sbuf_addz(&b, "nobody");
    else
        sbuf_add(&b, q->certificate->common_name);
    for (size_t i = 0; q->certificate && i < q->certificate->organizations_len; i++)
        sbuf_addf(&b, " %.*s", STR_ARG(q->certificate->organizations[i]));
    reply_text(q, &b);
}

static void reply_stream(struct http_request *q, uint64_t lines)
{
    http_start(q, 200, STR("text/plain"), NULL, 0);
    for (uint64_t i = 0; i < lines; i++) {
        struct sbuf line = {0};
        sbuf_addf(&line, "line %" PRIu64 "\n", i);
        (void)http_write(q, net_buf_new(&line));
    }
    http_end(q);
}

static void handle(void *arg, struct http_request *q)
{
    (void)arg;
    uint64_t n = 0;
    if (str_to_u64(q->query, &n) < 0 || n > 64 * 1024 * 1024)
        n = 0;
    struct sbuf b = {0};
    if (str_eqz(q->path, "/hello")) {
        sbuf_addz(&b, "hello\n");
        reply_text(q, &b);
    } else if (str_eqz(q->path, "/echo")) {
        http_reply(q, 200, STR("application/octet-stream"), NULL, 0, net_buf_copy(q->body));
    } else if (str_eqz(q->path, "/headers")) {
        reply_headers(q);
    } else if (str_eqz(q->path, "/who")) {
        reply_who(q);
    } else if (str_eqz(q->path, "/stream")) {
        reply_stream(q, n);
    } else if (str_eqz(q->path, "/big")) {
        sbuf_add_repeat(&b, 'x', n);
        reply_text(q, &b);
    } else if (str_eqz(q->path, "/abort")) {
        http_start(q, 200, STR("text/plain"), NULL, 0);
        (void)http_write(q, net_buf_copy(STR("part")));
        http_abort(q);
    } else if (!str_eqz(q->path, "/never")) {
        http_reply(q, 404, STR("text/plain"), NULL, 0, net_buf_copy(STR("not found\n")));
    }
}

static void die(const struct err *err)
{
    (void)fprintf(stderr, "http_server: %s\n", err->msg);
    exit(1);
}

static void on_stopped(void *arg)
{
    (void)arg;
    struct http_server_stats s;
    http_server_get_stats(server, &s);
    printf("requests %" PRIu64 " refused %" PRIu64 " connections %zu streams %zu\n", s.requests,
           s.refused, s.connections, s.streams);
    (void)fflush(stdout);
    loop_stop(loop);
}

static void on_term(void *arg)
{
    (void)arg;
    http_server_stop(server, 2 * CLOCK_NS_PER_SEC, on_stopped, NULL);
}

static void save(const char *folder, const char *name, const char *text)
{
    struct err err;
    struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    if (file_replace_durable(AT_FDCWD, path.p, str_z(text), 0600, &err) < 0)
        die(&err);
    sbuf_done(&path);
}

static struct tls_server *make_tls(const char *folder)
{
    struct err err;
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    struct pki_subject subject = {.common_name = "test-ca", .not_before = now - 60};
    subject.not_after = now + 3600;
    struct pki_key_pair ca, pair;
    struct tls_server *tls = NULL;
    if (pki_make_ca(&subject, &ca, &err) < 0)
        die(&err);
    save(folder, "ca.crt", ca.certificate_pem);
    static const char *const names[] = {"localhost", "127.0.0.1", "::1", NULL};
    static const char *const groups[] = {"system:masters", "others", NULL};
    subject.common_name = "server";
    subject.server = true;
    subject.names = names;
    if (pki_make_certificate(&ca, &subject, &pair, &err) < 0)
        die(&err);
    save(folder, "server.crt", pair.certificate_pem);
    save(folder, "server.key", pair.key_pem);
    pki_key_pair_done(&pair);
    subject = (struct pki_subject){.common_name = "admin", .organizations = groups};
    subject.not_before = now - 60;
    subject.not_after = now + 3600;
    if (pki_make_certificate(&ca, &subject, &pair, &err) < 0)
        die(&err);
    save(folder, "client.crt", pair.certificate_pem);
    save(folder, "client.key", pair.key_pem);
    pki_key_pair_done(&pair);
    pki_key_pair_done(&ca);
    struct sbuf crt = {0}, key = {0}, root = {0};
    sbuf_addf(&crt, "%s/server.crt", folder);
    sbuf_addf(&key, "%s/server.key", folder);
    sbuf_addf(&root, "%s/ca.crt", folder);
    struct tls_server_options options = {crt.p, key.p, root.p};
    if (tls_server_new(&options, &tls, &err) < 0)
        die(&err);
    sbuf_done(&crt);
    sbuf_done(&key);
    sbuf_done(&root);
    return tls;
}

int main(int argc, char **argv)
{
    static const struct option longs[] = {{"tls", required_argument, NULL, 't'},
                                          {"unix", required_argument, NULL, 'u'},
                                          {"short", no_argument, NULL, 's'},
                                          {0}};
    struct err err;
    struct http_server_options options = {.handle = handle};
    const char *path = NULL;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there is one thread
    for (int o; (o = getopt_long(argc, argv, "", longs, NULL)) >= 0;) {
        if (o == 't')
            options.tls = make_tls(optarg);
        else if (o == 'u')
            path = optarg;
        else if (o == 's')
            options.limits.header_timeout_ns = options.limits.body_timeout_ns =
                options.limits.idle_timeout_ns = 500 * CLOCK_NS_PER_MS;
        else
            return 2;
    }
    if (loop_new(&loop, &err) < 0)
        die(&err);
    options.loop = loop;
    server = http_server_new(&options);
    uint16_t port = 0;
    if (http_server_listen_tcp(server, STR("127.0.0.1:0"), &port, &err) < 0 ||
        (path && http_server_listen_unix(server, path, &err) < 0) ||
        loop_on_signal(loop, SIGTERM, on_term, NULL, &err) < 0)
        die(&err);
    printf("port %u\n", (unsigned)port);
    (void)fflush(stdout);
    loop_run(loop);
    http_server_free(server);
    loop_free(loop);
    tls_server_free(options.tls);
    return 0;
}

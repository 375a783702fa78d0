// SPDX-License-Identifier: Apache-2.0
//
// Both ends of an upgrade on one loop, over TLS and without: what goes in comes out, in order, whoever is
// slow holds the other up, and every end is told once.
#include <unistd.h>

#include "net/tunnel.h"
#include "os/file.h"
#include "pki/certificate.h"
#include "unit.h"

#include "base/banned.h"

#define DAY      INT64_C(86400)
#define BIG_SIZE ((size_t)6 * 1024 * 1024)

struct world {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    struct tls_server *tls_server;
    struct tls_client *tls_client;
    char folder[64];
    // The server's end: gives back what it gets.
    struct http_request *q;
    bool server_closed, server_end, slow;
    size_t peak;
    struct exec_timer release;
    // The client's end.
    struct tunnel *t;
    bool opened;
    int status;
    struct sbuf body;
    struct str want_type;
    bool closed, closed_clean;
    char why[512];
    struct sbuf got;
    size_t sent;
    size_t want; // stop when this much has come
    bool held;
    struct exec_timer watchdog;
};

static void give_up(void *arg)
{
    struct world *w = arg;
    (void)arg;
    loop_stop(w->loop);
}

// --- The server ----------------------------------------------------------------------------------

static void server_closed(void *arg)
{
    struct world *w = arg;
    w->q = NULL;
    w->server_closed = true;
    if (w->closed)
        loop_stop(w->loop);
}

static void server_drained(void *arg)
{
    struct world *w = arg;
    http_hold(w->q, false);
}

static void server_input(void *arg, struct str bytes)
{
    struct world *w = arg;
    if (!http_write(w->q, net_buf_copy(bytes)))
        http_hold(w->q, true);
    size_t queued = http_queued(w->q);
    w->peak = queued > w->peak ? queued : w->peak;
    if (str_ends(bytes, STR("quit"))) {
        struct http_request *q = w->q;
        w->q = NULL;
        http_end(q);
    }
}

static void server_input_end(void *arg)
{
    struct world *w = arg;
    w->server_end = true;
    struct http_request *q = w->q;
    w->q = NULL;
    http_end(q);
}

static void handle(void *arg, struct http_request *q)
{
    struct world *w = arg;
    if (!str_eqz(q->path, "/echo")) {
        http_reply(q, 403, STR("text/plain"), NULL, 0, net_buf_copy(STR("not here")));
        return;
    }
    assert_str(http_find_header(q, STR("upgrade")), "echo");
    w->q = q;
    q->arg = w;
    q->closed = server_closed;
    q->drained = server_drained;
    q->input = server_input;
    q->input_end = server_input_end;
    const struct http_header extra = {STR("X-Protocol"), STR("echo.1")};
    http_upgrade(q, STR("echo"), &extra, 1);
}

// --- The client ----------------------------------------------------------------------------------

static void opened(void *arg, const struct http_header *headers, size_t n)
{
    struct world *w = arg;
    w->opened = true;
    bool found = false;
    for (size_t i = 0; i < n; i++)
        found |= str_eqz(headers[i].name, "x-protocol") && str_eqz(headers[i].value, "echo.1");
    assert_true(found);
}

static void refused(void *arg, int status, struct str type, struct str body)
{
    struct world *w = arg;
    w->status = status;
    w->t = NULL;
    assert_str(type, "text/plain");
    sbuf_add(&w->body, body);
    loop_stop(w->loop);
}

static void pump(struct world *w)
{
    char block[30000];
    while (w->t && w->sent < w->want) {
        size_t n = w->want - w->sent < sizeof(block) ? w->want - w->sent : sizeof(block);
        for (size_t i = 0; i < n; i++)
            block[i] = (char)((w->sent + i) % 251);
        w->sent += n;
        if (!tunnel_write(w->t, str_make(block, n)))
            return;
    }
}

static void input(void *arg, struct str bytes)
{
    struct world *w = arg;
    sbuf_add(&w->got, bytes);
    if (w->slow && !w->held && w->got.n > 10000) {
        w->held = true;
        tunnel_hold(w->t, true);
        exec_timer_start(loop_exec(w->loop), &w->release, 300 * CLOCK_NS_PER_MS);
    }
    if (w->want && w->got.n >= w->want)
        loop_stop(w->loop);
}

static void release(void *arg)
{
    struct world *w = arg;
    w->slow = false;
    if (w->t)
        tunnel_hold(w->t, false);
}

static void drained(void *arg)
{
    pump(arg);
}

static void closed(void *arg, const struct err *err)
{
    struct world *w = arg;
    w->t = NULL;
    w->closed = true;
    w->closed_clean = err == NULL;
    if (err)
        (void)snprintf(w->why, sizeof(w->why), "%.511s", err->msg);
    loop_stop(w->loop);
}

// --- Life ----------------------------------------------------------------------------------------

static const char *path(const struct world *w, const char *name)
{
    static char paths[4][128];
    static int next;
    char *to = paths[next++ % 4];
    (void)snprintf(to, sizeof(paths[0]), "%s/%s", w->folder, name);
    return to;
}

static void make_tls(struct world *w, bool trusted)
{
    static const char *const names[] = {"127.0.0.1", NULL};
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    struct pki_subject ca_subject = {
        .common_name = "ca", .not_before = now - DAY, .not_after = now + DAY};
    struct pki_subject subject = {.common_name = "server",
                                  .names = names,
                                  .server = true,
                                  .not_before = now - DAY,
                                  .not_after = now + DAY};
    struct pki_key_pair ca = {0}, other = {0}, server = {0}, client = {0};
    struct err err = {0};
    assert_int_equal(pki_make_ca(&ca_subject, &ca, &err), 0);
    assert_int_equal(pki_make_ca(&ca_subject, &other, &err), 0);
    assert_int_equal(pki_make_certificate(&ca, &subject, &server, &err), 0);
    subject.server = false;
    assert_int_equal(pki_make_certificate(&ca, &subject, &client, &err), 0);
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/dray_tunnel_test.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(
        file_replace_durable(AT_FDCWD, path(w, "ca"), str_z(ca.certificate_pem), 0600, NULL), 0);
    assert_int_equal(file_replace_durable(AT_FDCWD, path(w, "crt"), str_z(server.certificate_pem),
                                          0600, NULL),
                     0);
    assert_int_equal(
        file_replace_durable(AT_FDCWD, path(w, "key"), str_z(server.key_pem), 0600, NULL), 0);
    const struct tls_server_options so = {path(w, "crt"), path(w, "key"), path(w, "ca")};
    assert_int_equal(tls_server_new(&so, &w->tls_server, &err), 0);
    const struct tls_client_options co = {.ca_pem = str_z(trusted ? ca.certificate_pem
                                                                  : other.certificate_pem),
                                          .certificate_pem = str_z(client.certificate_pem),
                                          .key_pem = str_z(client.key_pem)};
    assert_int_equal(tls_client_new(&co, &w->tls_client, &err), 0);
    pki_key_pair_done(&ca);
    pki_key_pair_done(&other);
    pki_key_pair_done(&server);
    pki_key_pair_done(&client);
}

static void world_start(struct world *w, bool tls, bool trusted)
{
    struct err err = {0};
    *w =
        (struct world){.watchdog = {.fn = give_up, .arg = w}, .release = {.fn = release, .arg = w}};
    assert_int_equal(loop_new(&w->loop, &err), 0);
    if (tls)
        make_tls(w, trusted);
    const struct http_server_options o = {
        .loop = w->loop, .tls = w->tls_server, .handle = handle, .arg = w};
    w->server = http_server_new(&o);
    assert_int_equal(http_server_listen_tcp(w->server, STR("127.0.0.1:0"), &w->port, &err), 0);
}

static void world_open(struct world *w, const char *target)
{
    const struct http_header upgrade = {STR("Upgrade"), STR("echo")};
    const struct tunnel_options o = {.loop = w->loop,
                                     .host = STR("127.0.0.1"),
                                     .port = w->port,
                                     .tls = w->tls_client,
                                     .method = STR("GET"),
                                     .target = str_z(target),
                                     .headers = &upgrade,
                                     .headers_len = 1,
                                     .opened = opened,
                                     .refused = refused,
                                     .input = input,
                                     .drained = drained,
                                     .closed = closed,
                                     .arg = w};
    w->t = tunnel_new(&o);
}

static void world_run(struct world *w)
{
    exec_timer_start(loop_exec(w->loop), &w->watchdog, 60 * CLOCK_NS_PER_SEC);
    loop_run(w->loop);
    if (!exec_timer_armed(&w->watchdog))
        fail_msg("nothing happened for a minute; %zu of %zu bytes came", w->got.n, w->want);
    exec_timer_stop(loop_exec(w->loop), &w->watchdog);
}

static void world_end(struct world *w)
{
    if (w->t)
        tunnel_close(w->t);
    exec_timer_stop(loop_exec(w->loop), &w->release);
    http_server_free(w->server);
    loop_free(w->loop);
    tls_server_free(w->tls_server);
    tls_client_free(w->tls_client);
    if (w->folder[0]) {
        (void)unlink(path(w, "ca"));
        (void)unlink(path(w, "crt"));
        (void)unlink(path(w, "key"));
        (void)rmdir(w->folder);
    }
    sbuf_done(&w->got);
    sbuf_done(&w->body);
}

static void carry(bool tls, bool slow)
{
    struct world w;
    world_start(&w, tls, true);
    w.want = BIG_SIZE;
    w.slow = slow;
    world_open(&w, "/echo");
    pump(&w); // before it is open: it waits
    world_run(&w);
    assert_true(w.opened);
    assert_int_equal(w.got.n, BIG_SIZE);
    for (size_t i = 0; i < BIG_SIZE; i++)
        if ((unsigned char)w.got.p[i] != i % 251)
            fail_msg("byte %zu is wrong", i);
    // A reader that was slow has held up the writer, not filled the memory.
    assert_true(w.peak < (size_t)2 * 1024 * 1024);
    world_end(&w);
}

static void carries_bytes(void **state)
{
    (void)state;
    carry(false, false);
    carry(true, false);
}

static void holds_the_writer_up(void **state)
{
    (void)state;
    carry(false, true);
    carry(true, true);
}

static void ends_when_either_end_does(void **state)
{
    (void)state;
    for (int tls = 0; tls < 2; tls++) {
        struct world w;
        world_start(&w, tls, true);
        world_open(&w, "/echo");
        (void)tunnel_write(w.t, STR("so long, quit"));
        world_run(&w);
        assert_true(w.closed && w.closed_clean);
        assert_str(sbuf_str(&w.got), "so long, quit");
        world_end(&w);

        world_start(&w, tls, true);
        w.want = 5;
        world_open(&w, "/echo");
        (void)tunnel_write(w.t, STR("hello"));
        world_run(&w);
        tunnel_end(take_ptr(w.t));
        for (int i = 0; i < 1000 && !w.server_end && !w.server_closed; i++) {
            exec_timer_start(loop_exec(w.loop), &w.watchdog, CLOCK_NS_PER_MS);
            loop_run(w.loop);
        }
        assert_true(w.server_end);
        world_end(&w);
    }
}

static void tells_what_was_refused(void **state)
{
    (void)state;
    struct world w;
    world_start(&w, true, true);
    world_open(&w, "/elsewhere");
    world_run(&w);
    assert_int_equal(w.status, 403);
    assert_str(sbuf_str(&w.body), "not here");
    world_end(&w);
}

static void trusts_only_whom_it_should(void **state)
{
    (void)state;
    struct world w;
    world_start(&w, true, false);
    world_open(&w, "/echo");
    world_run(&w);
    assert_true(w.closed && !w.closed_clean);
    assert_non_null(strstr(w.why, "certificate is not trusted"));
    world_end(&w);
}

static void tells_when_nobody_listens(void **state)
{
    (void)state;
    struct world w;
    world_start(&w, false, false);
    w.port = 1;
    world_open(&w, "/echo");
    world_run(&w);
    assert_true(w.closed && !w.closed_clean);
    assert_non_null(strstr(w.why, "cannot reach 127.0.0.1:1"));
    world_end(&w);
}

RUN_TESTS(TEST_CASE(carries_bytes), TEST_CASE(holds_the_writer_up),
          TEST_CASE(ends_when_either_end_does), TEST_CASE(tells_what_was_refused),
          TEST_CASE(trusts_only_whom_it_should), TEST_CASE(tells_when_nobody_listens))

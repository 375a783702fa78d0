// SPDX-License-Identifier: Apache-2.0
//
// The HTTPS client on one loop with a server that does what the path says: many streams on one HTTP/2
// connection, most of them silent, as controllers have them.
#include <stdlib.h>
#include <unistd.h>

#include "net/http.h"
#include "net/https.h"
#include "net/tls.h"
#include "os/file.h"
#include "pki/certificate.h"
#include "unit.h"

#include "base/banned.h"

#define DAY         (24 * 3600)
#define PATIENCE_NS (30 * CLOCK_NS_PER_SEC)
#define TIMEOUT_MS  20000 // of what must end at once, on a machine that is busy
#define FRAME_BYTES 16384
#define WATCHES     8 // all but certainly one of them is the first to read what comes for others

struct world {
    struct loop *loop;
    struct http_server *server;
    struct tls_server *tls;
    struct https *https;
    struct exec_timer limit, step;
    char folder[64];
    struct sbuf ca;
    int asked; // OPTIONS *
    int began; // watches
    int left;  // calls that the loop runs for
    int events;
    struct http_request *late, *watch, *open;
    struct https_call *held;
    struct pki_key_pair ca_pair;
    uint16_t port;
    size_t most_streams, connections;
};

// --- The server ----------------------------------------------------------------------------------

// Streamed, so that nothing but END_STREAM tells the end.
static void answer(struct http_request *q, size_t n)
{
    char *bytes = xcalloc(1, n + 1);
    memset(bytes, 'b', n);
    http_start(q, 200, STR("text/plain"), NULL, 0);
    (void)http_write(q, net_buf_copy(str_make(bytes, n)));
    http_end(q);
    free(bytes);
}

// /body?N answers with N bytes; /late?N does so when /now is asked for, just before that is answered.
static void handle(void *arg, struct http_request *q)
{
    struct world *w = arg;
    uint64_t n = 0;
    (void)!str_to_u64(q->query, &n);
    assert_int_equal(q->version, 2);
    if (str_eqz(q->method, "OPTIONS") && str_eqz(q->path, "*")) {
        w->asked++;
        http_reply(q, 204, (struct str){0}, NULL, 0, NULL);
    } else if (str_eqz(q->path, "/watch")) {
        http_start(q, 200, STR("text/plain"), NULL, 0);
        (void)http_write(q, net_buf_copy(STR("w")));
        w->watch = q;
    } else if (str_eqz(q->path, "/late")) {
        w->late = q;
    } else if (str_eqz(q->path, "/open")) {
        http_start(q, 200, STR("text/plain"), NULL, 0);
        (void)http_write(q, net_buf_copy(STR("some")));
        w->open = q;
    } else if (str_eqz(q->path, "/who")) {
        struct str name = q->certificate ? q->certificate->common_name : STR("nobody");
        http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_copy(name));
    } else {
        if (str_eqz(q->path, "/now"))
            answer(take_ptr(w->late), 20000);
        answer(q, (size_t)n);
    }
}

// --- The client ----------------------------------------------------------------------------------

struct call {
    struct world *world;
    size_t want, got;
    int code, status, ends;
    bool hold; // at the first bytes, for a while
    bool unsent;
    char text[64]; // how the body begins
    struct https_call *call;
};

static void on_done(void *arg, const struct https_answer *a)
{
    struct call *c = arg;
    c->code = a->code;
    c->status = a->status;
    c->got += a->body.n;
    c->unsent = a->unsent;
    (void)snprintf(c->text, sizeof(c->text), "%.*s", STR_ARG(str_upto(a->body, 60)));
    c->ends++;
    if (--c->world->left == 0)
        loop_stop(c->world->loop);
}

static void on_watch_data(void *arg, struct str bytes)
{
    struct world *w = arg;
    w->events++;
    if (bytes.n && w->began < WATCHES && ++w->began == WATCHES)
        loop_stop(w->loop);
}

static void on_watch_done(void *arg, const struct https_answer *a)
{
    (void)arg, (void)a;
    fail_msg("a watch has ended");
}

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

static void start(struct world *w, struct call *c, const char *path, size_t n,
                  void (*data)(void *, struct str))
{
    char target[64];
    (void)snprintf(target, sizeof(target), "%s?%zu", path, n);
    c->world = w;
    c->want = n;
    const struct https_request q = {.method = "GET",
                                    .target = str_z(target),
                                    .timeout_ms = TIMEOUT_MS,
                                    .data = data,
                                    .done = on_done,
                                    .arg = c};
    c->call = https_start(w->https, &q);
    w->left++;
}

static void assert_whole(const struct call *c)
{
    assert_int_equal(c->code, 0);
    assert_int_equal(c->status, 200);
    assert_int_equal(c->got, c->want);
    assert_int_equal(c->ends, 1);
}

// --- Life ----------------------------------------------------------------------------------------

static const char *path(const struct world *w, const char *name)
{
    static char paths[3][128];
    static int next;
    char *to = paths[next++ % 3];
    (void)snprintf(to, sizeof(paths[0]), "%s/%s", w->folder, name);
    return to;
}

static void make_tls(struct world *w)
{
    static const char *const names[] = {"127.0.0.1", NULL};
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    const struct pki_subject ca_subject = {
        .common_name = "ca", .not_before = now - DAY, .not_after = now + DAY};
    const struct pki_subject subject = {.common_name = "server",
                                        .names = names,
                                        .server = true,
                                        .not_before = now - DAY,
                                        .not_after = now + DAY};
    struct pki_key_pair ca = {0}, server = {0};
    struct err err = {0};
    assert_int_equal(pki_make_ca(&ca_subject, &ca, &err), 0);
    assert_int_equal(pki_make_certificate(&ca, &subject, &server, &err), 0);
    (void)snprintf(w->folder, sizeof(w->folder), "/tmp/dray_https_test.XXXXXX");
    assert_non_null(mkdtemp(w->folder));
    assert_int_equal(
        file_replace_durable(AT_FDCWD, path(w, "ca"), str_z(ca.certificate_pem), 0600, NULL), 0);
    assert_int_equal(file_replace_durable(AT_FDCWD, path(w, "crt"), str_z(server.certificate_pem),
                                          0600, NULL),
                     0);
    assert_int_equal(
        file_replace_durable(AT_FDCWD, path(w, "key"), str_z(server.key_pem), 0600, NULL), 0);
    const struct tls_server_options o = {path(w, "crt"), path(w, "key"), path(w, "ca")};
    assert_int_equal(tls_server_new(&o, &w->tls, &err), 0);
    sbuf_addz(&w->ca, ca.certificate_pem);
    w->ca_pair = ca;
    pki_key_pair_done(&server);
}

static void serve(struct world *w, uint16_t port)
{
    char address[64];
    struct err err = {0};
    const struct http_server_options so = {.loop = w->loop,
                                           .tls = w->tls,
                                           .limits = {.streams = w->most_streams},
                                           .handle = handle,
                                           .arg = w};
    w->server = http_server_new(&so);
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)port);
    if (http_server_listen_tcp(w->server, str_z(address), &w->port, &err) < 0)
        fail_msg("%s", err.msg);
}

static void world_prepare(struct world *w)
{
    struct err err = {0};
    char url[64];
    w->limit = (struct exec_timer){.fn = on_limit};
    assert_int_equal(loop_new(&w->loop, &err), 0);
    make_tls(w);
    serve(w, 0);
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%u", (unsigned)w->port);
    const struct https_options o = {.url = str_z(url),
                                    .ca_pem = sbuf_str(&w->ca),
                                    .no_proxy = true,
                                    .connections = w->connections};
    assert_int_equal(https_new(w->loop, &o, &w->https, &err), 0);
}

// world_start also opens the watches, one after the other's first bytes.
static void world_start(struct world *w)
{
    *w = (struct world){0};
    world_prepare(w);
    const struct https_request watch = {.method = "GET",
                                        .target = STR("/watch"),
                                        .data = on_watch_data,
                                        .done = on_watch_done,
                                        .arg = w};
    for (int i = 0; i < WATCHES; i++)
        (void)https_start(w->https, &watch);
    run(w);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void world_end(struct world *w)
{
    https_free(w->https);
    http_server_stop(w->server, 0, stop_loop, w->loop);
    run(w);
    http_server_free(w->server);
    loop_free(w->loop);
    tls_server_free(w->tls);
    (void)unlink(path(w, "ca"));
    (void)unlink(path(w, "crt"));
    (void)unlink(path(w, "key"));
    assert_int_equal(rmdir(w->folder), 0);
    sbuf_done(&w->ca);
    pki_key_pair_done(&w->ca_pair);
}

// --- Tests ---------------------------------------------------------------------------------------

// A frame that fills what is read at once and ends the stream, while all others are silent.
static void an_end_is_noticed_beside_silent_streams(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    for (size_t i = 0; i < 12; i++) {
        struct call c = {0};
        start(&w, &c, "/body", FRAME_BYTES - i * 3, NULL);
        run(&w);
        assert_whole(&c);
    }
    world_end(&w);
}

static void many_large_answers_at_once_all_end(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    for (size_t round = 0; round < 3; round++) {
        struct call calls[20] = {0};
        for (size_t i = 0; i < 20; i++)
            start(&w, &calls[i], "/body", 100000 + (round * 20 + i) * 7919, NULL);
        run(&w);
        for (size_t i = 0; i < 20; i++)
            assert_whole(&calls[i]);
    }
    world_end(&w);
}

static void go_on(void *arg)
{
    struct call *c = arg;
    https_hold(c->call, false);
}

static void on_held_data(void *arg, struct str bytes)
{
    struct call *c = arg;
    assert_false(exec_timer_armed(&c->world->step));
    c->got += bytes.n;
    if (!c->hold)
        return;
    c->hold = false;
    https_hold(c->call, true);
    exec_timer_start(loop_exec(c->world->loop), &c->world->step, 300 * CLOCK_NS_PER_MS);
}

static void take_with_a_rest(struct world *w, size_t n)
{
    struct call c = {.hold = true};
    w->step = (struct exec_timer){.fn = go_on, .arg = &c};
    start(w, &c, "/body", n, on_held_data);
    run(w);
    exec_timer_stop(loop_exec(w->loop), &w->step); // it may have been over before
    assert_whole(&c);
}

static void the_end_of_a_held_stream_is_noticed(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    for (size_t i = 0; i < 4; i++)
        take_with_a_rest(&w, 20000 + i * 9000);
    world_end(&w);
}

static void cancel_held(void *arg)
{
    struct world *w = arg;
    https_cancel(take_ptr(w->held));
    if (--w->left == 0)
        loop_stop(w->loop);
}

static void on_any_data(void *arg, struct str bytes)
{
    struct call *c = arg;
    c->got += bytes.n;
}

// The bytes that wait for a held call come to nobody else when that one is cancelled.
static void a_cancelled_call_holds_up_nobody(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    for (int i = 0; i < 4; i++) {
        struct call late = {0}, now = {0};
        start(&w, &late, "/late", 20000, on_any_data);
        w.held = late.call;
        https_hold(late.call, true);
        start(&w, &now, "/now", 100, NULL);
        w.step = (struct exec_timer){.fn = cancel_held, .arg = &w};
        exec_timer_start(loop_exec(w.loop), &w.step, 200 * CLOCK_NS_PER_MS);
        run(&w);
        assert_whole(&now);
        assert_int_equal(late.ends, 0);
        assert_int_equal(late.got, 0);
        take_with_a_rest(&w, 30000);
    }
    world_end(&w);
}

static void send_event(void *arg)
{
    struct world *w = arg;
    char event[2000];
    memset(event, 'e', sizeof(event));
    (void)http_write(w->watch, net_buf_copy(str_make(event, sizeof(event))));
    if (w->events < WATCHES + 10)
        exec_timer_start(loop_exec(w->loop), &w->step, 150 * CLOCK_NS_PER_MS);
    else
        loop_stop(w->loop);
}

static void small_events_cost_no_requests(void **state)
{
    (void)state;
    struct world w;
    world_start(&w);
    w.step = (struct exec_timer){.fn = send_event, .arg = &w};
    exec_timer_start(loop_exec(w.loop), &w.step, 1);
    run(&w);
    assert_int_equal(w.asked, 0);
    world_end(&w);
}

// --- Flow ----------------------------------------------------------------------------------------

#define HELD 8 // streams of a window each: more than the connection's window

static void on_never_data(void *arg, struct str bytes)
{
    struct call *c = arg;
    c->got += bytes.n;
}

static void streams_that_are_not_read_hold_up_nobody(void **state)
{
    (void)state;
    struct world w;
    struct call held[HELD] = {0}, busy[20] = {0};
    world_start(&w);
    for (size_t i = 0; i < HELD; i++) {
        start(&w, &held[i], "/body", 3000000, on_never_data);
        https_hold(held[i].call, true);
    }
    w.left = 0;
    for (size_t i = 0; i < array_len(busy); i++)
        start(&w, &busy[i], "/body", 1000000, NULL);
    run(&w);
    for (size_t i = 0; i < array_len(busy); i++)
        assert_whole(&busy[i]);
    for (size_t i = 0; i < HELD; i++) {
        assert_int_equal(held[i].got + (size_t)held[i].ends, 0);
        https_hold(held[i].call, false);
    }
    w.left = HELD;
    run(&w);
    for (size_t i = 0; i < HELD; i++)
        assert_whole(&held[i]);
    world_end(&w);
}

static void end_open(void *arg)
{
    struct world *w = arg;
    http_end(take_ptr(w->open));
}

static void on_some_data(void *arg, struct str bytes)
{
    struct call *c = arg;
    c->got += bytes.n;
    assert_int_equal(c->ends, 0);
    exec_timer_start(loop_exec(c->world->loop), &c->world->step, 100 * CLOCK_NS_PER_MS);
}

static void an_end_without_data_is_noticed(void **state)
{
    (void)state;
    struct world w;
    struct call c = {0};
    world_start(&w);
    w.step = (struct exec_timer){.fn = end_open, .arg = &w};
    start(&w, &c, "/open", 0, on_some_data);
    run(&w);
    assert_int_equal(c.got, 4);
    assert_int_equal(c.code, 0);
    assert_int_equal(c.ends, 1);
    world_end(&w);
}

// --- Connections ---------------------------------------------------------------------------------

static void on_first_data(void *arg, struct str bytes)
{
    struct call *c = arg;
    c->got += bytes.n;
    if (--c->world->left == 0)
        loop_stop(c->world->loop);
}

static void the_servers_limit_of_streams_holds(void **state)
{
    (void)state;
    struct world w = {.most_streams = 4, .connections = 3};
    struct http_server_stats stats;
    struct call calls[12] = {0}, more = {0};
    world_prepare(&w);
    for (size_t i = 0; i < array_len(calls); i++)
        start(&w, &calls[i], "/watch", 0, on_first_data);
    run(&w);
    http_server_get_stats(w.server, &stats);
    assert_int_equal(stats.connections, 3);
    assert_int_equal(stats.streams, 12);
    // One call more waits until there is room.
    start(&w, &more, "/body", 100, NULL);
    w.held = calls[5].call;
    w.step = (struct exec_timer){.fn = cancel_held, .arg = &w};
    w.left++; // for the one that is cancelled
    exec_timer_start(loop_exec(w.loop), &w.step, 100 * CLOCK_NS_PER_MS);
    run(&w);
    assert_whole(&more);
    world_end(&w);
}

// The server goes away, and another one takes its place, while requests are on their way.
static void calls_that_a_server_leaves_unseen_go_to_the_next(void **state)
{
    (void)state;
    struct world w = {0};
    struct call watch = {0}, calls[5] = {0};
    world_prepare(&w);
    start(&w, &watch, "/open", 0, on_first_data); // keeps the first one's connection
    run(&w);
    struct http_server *old = w.server;
    http_server_stop(old, 5 * CLOCK_NS_PER_SEC, stop_loop, w.loop);
    serve(&w, w.port);
    w.left = array_len(calls);
    for (size_t i = 0; i < array_len(calls); i++) {
        start(&w, &calls[i], "/body", 1000, NULL);
        w.left--;
    }
    run(&w);
    for (size_t i = 0; i < array_len(calls); i++)
        assert_whole(&calls[i]);
    assert_int_equal(watch.ends, 0); // goes on
    w.left = 1;
    http_end(take_ptr(w.open));
    run(&w);
    assert_int_equal(watch.code, 0);
    assert_int_equal(watch.ends, 1);
    run(&w); // until the first one has stopped
    http_server_free(old);
    world_end(&w);
}

static void set_identity(struct world *w, const char *name)
{
    int64_t now = clock_wall_ns(clock_system()) / CLOCK_NS_PER_SEC;
    const struct pki_subject subject = {
        .common_name = name, .not_before = now - DAY, .not_after = now + DAY};
    struct pki_key_pair pair = {0};
    assert_int_equal(pki_make_certificate(&w->ca_pair, &subject, &pair, NULL), 0);
    https_set_identity(w->https, str_z(pair.certificate_pem), str_z(pair.key_pem));
    pki_key_pair_done(&pair);
}

static void certificates_may_change(void **state)
{
    (void)state;
    struct world w = {0};
    struct http_server_stats stats;
    static const char *const names[] = {"nobody", "ann", "ben"};
    struct call watch = {0};
    world_prepare(&w);
    for (size_t i = 0; i < array_len(names); i++) {
        struct call c = {0};
        if (i > 0)
            set_identity(&w, names[i]);
        start(&w, &c, "/who", 0, NULL);
        run(&w);
        assert_int_equal(c.code, 0);
        assert_string_equal(c.text, names[i]);
        if (i == 1) {
            start(&w, &watch, "/open", 0, on_first_data); // outlives the certificate
            run(&w);
        }
    }
    assert_int_equal(watch.ends, 0);
    http_server_get_stats(w.server, &stats);
    assert_int_equal(stats.connections, 2); // that of the watch, and the last one
    https_set_identity(w.https, STR("no certificate"), STR("no key"));
    struct call bad = {0};
    start(&w, &bad, "/who", 0, NULL);
    run(&w);
    assert_int_equal(bad.code, -ERR_INVALID);
    assert_true(bad.unsent);
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_end_is_noticed_beside_silent_streams),
        cmocka_unit_test(many_large_answers_at_once_all_end),
        cmocka_unit_test(the_end_of_a_held_stream_is_noticed),
        cmocka_unit_test(a_cancelled_call_holds_up_nobody),
        cmocka_unit_test(small_events_cost_no_requests),
        cmocka_unit_test(streams_that_are_not_read_hold_up_nobody),
        cmocka_unit_test(an_end_without_data_is_noticed),
        cmocka_unit_test(the_servers_limit_of_streams_holds),
        cmocka_unit_test(calls_that_a_server_leaves_unseen_go_to_the_next),
        cmocka_unit_test(certificates_may_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

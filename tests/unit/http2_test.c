// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 over plain text (prior knowledge), with nghttp2 as the client.
#include <nghttp2/nghttp2.h>

#include "http_fixture.h"

#include "base/banned.h"

enum { STREAMS = 600 };

struct client {
    int fd;
    nghttp2_session *session;
    // By stream.
    struct sbuf bodies[STREAMS];
    int statuses[STREAMS];
    uint32_t codes[STREAMS];
    bool closed[STREAMS];
    int closed_count;
    int goaway; // the error code, -1 for none
    bool eof;
    struct str to_send; // the body of the next requests
    int acks;
};

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)session, (void)flags;
    struct client *c = arg;
    int64_t status = 0;
    if (str_eqz(str_make((const char *)name, name_len), ":status")) {
        assert_int_equal(str_to_i64(str_make((const char *)value, value_len), &status), 0);
        c->statuses[frame->hd.stream_id / 2] = (int)status;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    (void)session, (void)flags;
    struct client *c = arg;
    sbuf_add(&c->bodies[id / 2], str_make((const char *)bytes, n));
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)session;
    struct client *c = arg;
    c->closed[id / 2] = true;
    c->codes[id / 2] = code;
    c->closed_count++;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    (void)session;
    struct client *c = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        c->goaway = (int)frame->goaway.error_code;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        c->acks++;
    return 0;
}

static struct client *client_new(const struct fixture *f, bool auto_window)
{
    struct client *c = xcalloc(1, sizeof(*c));
    nghttp2_session_callbacks *cb;
    nghttp2_option *option;
    c->fd = client_open(f);
    c->goaway = -1;
    assert_int_equal(nghttp2_session_callbacks_new(&cb), 0);
    assert_int_equal(nghttp2_option_new(&option), 0);
    nghttp2_option_set_no_auto_window_update(option, !auto_window);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    assert_int_equal(nghttp2_session_client_new2(&c->session, cb, c, option), 0);
    nghttp2_session_callbacks_del(cb);
    nghttp2_option_del(option);
    assert_int_equal(nghttp2_submit_settings(c->session, 0, NULL, 0), 0);
    return c;
}

static void client_free(struct client *c)
{
    nghttp2_session_del(c->session);
    (void)close(c->fd);
    for (size_t i = 0; i < STREAMS; i++)
        sbuf_done(&c->bodies[i]);
    free(c);
}

static void client_flush(struct client *c)
{
    const uint8_t *bytes;
    for (ssize_t n; (n = nghttp2_session_mem_send(c->session, &bytes)) > 0;)
        client_send(c->fd, str_make((const char *)bytes, (size_t)n));
}

// Sends and reads once; false when nothing came within ms or the connection is at its end.
static bool client_turn(struct client *c, int ms)
{
    client_flush(c);
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    if (c->eof || poll(&p, 1, ms) != 1)
        return false;
    uint8_t buf[65536];
    ssize_t n = recv(c->fd, buf, sizeof(buf), 0);
    c->eof = n <= 0;
    if (n > 0)
        assert_true(nghttp2_session_mem_recv(c->session, buf, (size_t)n) == n);
    client_flush(c);
    return !c->eof;
}

static void client_wait_closed(struct client *c, int count)
{
    while (c->closed_count < count)
        if (!client_turn(c, FIXTURE_WAIT_MS))
            fail_msg("only %d of %d streams ended", c->closed_count, count);
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)session, (void)id, (void)arg;
    struct str *left = source->ptr;
    size_t n = left->n < cap ? left->n : cap;
    if (n)
        memcpy(buf, left->p, n);
    *left = str_from(*left, n);
    if (left->n == 0)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static nghttp2_nv field(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), 0};
}

static int32_t client_request(struct client *c, const char *method, const char *path,
                              struct str *body, const nghttp2_nv *extra)
{
    const nghttp2_nv fields[] = {field(":method", method), field(":scheme", "http"),
                                 field(":authority", "a"), field(":path", path),
                                 extra ? *extra : field("x", "y")};
    nghttp2_data_provider provider = {.source.ptr = body, .read_callback = read_body};
    return nghttp2_submit_request(c->session, NULL, fields, array_len(fields),
                                  body ? &provider : NULL, NULL);
}

static void answers_many_streams(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct client *c = client_new(&f, true);
    for (int i = 0; i < 200; i++)
        (void)client_request(c, "GET", i % 2 ? "/hello" : "/two", NULL, NULL);
    client_wait_closed(c, 200);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(c->statuses[i], 200);
        assert_str(sbuf_str(&c->bodies[i]), i % 2 ? "hello" : "onetwo");
    }
    cleanup_sbuf struct sbuf big = {0};
    sbuf_add_repeat(&big, 'q', 2000000);
    struct str body = sbuf_str(&big);
    int32_t id = client_request(c, "POST", "/echo", &body, NULL);
    (void)client_request(c, "HEAD", "/hello", NULL, NULL);
    (void)client_request(c, "GET", "/none", NULL, NULL);
    (void)client_request(c, "GET", "/arena", NULL, NULL);
    (void)client_request(c, "GET", "/missing", NULL, NULL);
    client_wait_closed(c, 205);
    assert_int_equal(c->bodies[id / 2].n, 2000000);
    assert_memory_equal(c->bodies[id / 2].p, big.p, big.n);
    assert_int_equal(c->statuses[id / 2 + 1], 200);
    assert_int_equal(c->bodies[id / 2 + 1].n, 0);
    assert_int_equal(c->statuses[id / 2 + 2], 204);
    assert_int_equal(c->bodies[id / 2 + 3].n, 100000);
    assert_int_equal(c->statuses[id / 2 + 4], 404);
    client_free(c);
    fixture_end(&f);
}

static void refuses_in_its_stream(void **state)
{
    (void)state;
    static const struct http_limits limits = {.header_bytes = 2000, .body_bytes = 1000};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    struct client *c = client_new(&f, true);
    cleanup_sbuf struct sbuf big = {0}, value = {0};
    sbuf_add_repeat(&big, 'q', 5000000);
    struct str body = sbuf_str(&big);
    (void)client_request(c, "POST", "/echo", &body, NULL);
    client_wait_closed(c, 1);
    assert_int_equal(c->statuses[0], 413);
    assert_true(sbuf_has(&c->bodies[0], "limit is 1000"));
    sbuf_add_repeat(&value, 'v', 3000);
    nghttp2_nv large = field("large", value.p);
    (void)client_request(c, "GET", "/hello", NULL, &large);
    (void)client_request(c, "GET", "/%zz", NULL, NULL);
    (void)client_request(c, "GET", "/hello", NULL, NULL);
    client_wait_closed(c, 4);
    assert_int_equal(c->statuses[1], 431);
    assert_int_equal(c->statuses[2], 400);
    assert_int_equal(c->statuses[3], 200);
    assert_int_equal(atomic_load(&f.handled), 1);
    client_free(c);
    fixture_end(&f);
}

static void tells_the_handler_when_a_stream_is_gone(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct client *c = client_new(&f, true);
    int32_t id = client_request(c, "GET", "/watch", NULL, NULL);
    while (!c->statuses[id / 2])
        assert_true(client_turn(c, FIXTURE_WAIT_MS));
    assert_int_equal(nghttp2_submit_rst_stream(c->session, 0, id, NGHTTP2_CANCEL), 0);
    client_flush(c);
    fixture_wait(&f.closed, 1);
    // The connection lives on; an abort is a reset without the callback.
    id = client_request(c, "GET", "/abort", NULL, NULL);
    client_wait_closed(c, 2);
    assert_int_equal(c->codes[id / 2], NGHTTP2_INTERNAL_ERROR);
    (void)client_request(c, "GET", "/watch", NULL, NULL);
    client_flush(c);
    fixture_wait(&f.handled, 3);
    client_free(c); // the whole connection
    fixture_wait(&f.closed, 2);
    assert_int_equal(atomic_load(&f.closed), 2);
    fixture_end(&f);
}

static void respects_windows(void **state)
{
    (void)state;
    static const struct http_limits limits = {.queued_bytes = 100000};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    struct client *c = client_new(&f, false);
    int32_t id = client_request(c, "GET", "/fill?1000000", NULL, NULL);
    while (client_turn(c, 200))
        ;
    // As much as the window allows, and the handler was told to wait.
    assert_int_equal(c->bodies[id / 2].n, 65535);
    assert_true(atomic_load(&f.drained) <= 1);
    // Others go on meanwhile once the connection's window is open.
    assert_int_equal(nghttp2_session_consume_connection(c->session, 65535), 0);
    int32_t other = client_request(c, "GET", "/hello", NULL, NULL);
    client_wait_closed(c, 1);
    assert_true(c->closed[other / 2]);
    assert_int_equal(nghttp2_session_set_local_window_size(c->session, 0, 0, 2000000), 0);
    assert_int_equal(nghttp2_session_set_local_window_size(c->session, 0, id, 2000000), 0);
    client_wait_closed(c, 2);
    assert_int_equal(c->bodies[id / 2].n, 1000000);
    assert_true(atomic_load(&f.drained) > 0);
    client_free(c);
    fixture_end(&f);
}

static void ends_streams_that_stand_still(void **state)
{
    (void)state;
    static const struct http_limits limits = {.body_timeout_ns = 100 * CLOCK_NS_PER_MS,
                                              .idle_timeout_ns = 300 * CLOCK_NS_PER_MS};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    struct client *c = client_new(&f, false);
    // An answer nobody makes room for.
    int32_t id = client_request(c, "GET", "/fill?10000000", NULL, NULL);
    client_wait_closed(c, 1);
    assert_int_equal(c->codes[id / 2], NGHTTP2_CANCEL);
    fixture_wait(&f.closed, 1);
    // Then the idle connection.
    while (client_turn(c, FIXTURE_WAIT_MS))
        ;
    assert_true(c->eof);
    assert_int_equal(c->goaway, NGHTTP2_NO_ERROR);
    client_free(c);
    fixture_end(&f);
}

static void calms_rapid_resets(void **state)
{
    (void)state;
    static const struct http_limits limits = {.streams = 50};
    struct fixture f;
    fixture_start(&f, NULL, &limits);
    struct client *c = client_new(&f, true);
    (void)client_turn(c, FIXTURE_WAIT_MS); // settings
    for (int i = 0; i < STREAMS - 1 && c->goaway < 0; i++) {
        int32_t id = client_request(c, "GET", "/hold", NULL, NULL);
        client_flush(c);
        (void)nghttp2_submit_rst_stream(c->session, 0, id, NGHTTP2_CANCEL);
        client_flush(c);
        if (i % 20 == 0)
            (void)client_turn(c, 10);
    }
    while (c->goaway < 0 && client_turn(c, FIXTURE_WAIT_MS))
        ;
    assert_int_equal(c->goaway, NGHTTP2_ENHANCE_YOUR_CALM);
    // Every request that reached the handler was closed.
    while (client_turn(c, FIXTURE_WAIT_MS))
        ;
    assert_true(c->eof);
    fixture_wait(&f.closed, atomic_load(&f.handled));
    assert_true(atomic_load(&f.handled) <= 102);
    client_free(c);
    fixture_end(&f);
}

static void calms_floods_of_frames(void **state)
{
    (void)state;
    static const char settings[] = "\0\0\0\4\0\0\0\0\0", empty[] = "\0\0\0\0\0\0\0\0\1",
                      ping[] = "\0\0\x8\6\0\0\0\0\0"
                               "12345678",
                      priority[] = "\0\0\5\2\0\0\0\0\5\0\0\0\0\1";
    static const struct {
        const char *frame;
        size_t n;
        bool in_stream;
    } floods[] = {
        {settings, sizeof(settings) - 1, false},
        {ping, sizeof(ping) - 1, false},
        {priority, sizeof(priority) - 1, false},
        {empty, sizeof(empty) - 1, true},
    };
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    for (size_t i = 0; i < array_len(floods); i++) {
        struct client *c = client_new(&f, true);
        cleanup_sbuf struct sbuf flood = {0};
        static const char headers[] = "\0\0\xb\1\4\0\0\0\1\x83\x86\x44\x5/echo\x41\1a";
        (void)client_turn(c, FIXTURE_WAIT_MS);
        if (floods[i].in_stream)
            sbuf_add(&flood, str_make(headers, 9 + 11));
        for (int k = 0; k < 10000; k++)
            sbuf_add(&flood, str_make(floods[i].frame, floods[i].n));
        client_send(c->fd, sbuf_str(&flood));
        while (client_turn(c, FIXTURE_WAIT_MS))
            ;
        assert_true(c->eof);
        client_free(c);
    }
    struct client *c = client_new(&f, true); // others are served
    (void)client_request(c, "GET", "/hello", NULL, NULL);
    client_wait_closed(c, 1);
    assert_int_equal(c->statuses[0], 200);
    client_free(c);
    fixture_end(&f);
}

static void stops_gracefully(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    struct client *c = client_new(&f, true);
    (void)client_request(c, "GET", "/hold", NULL, NULL);
    client_flush(c);
    fixture_wait(&f.handled, 1);
    fixture_stop(&f);
    while (c->goaway < 0)
        assert_true(client_turn(c, FIXTURE_WAIT_MS));
    assert_int_equal(c->goaway, NGHTTP2_NO_ERROR);
    fixture_release(&f);
    client_wait_closed(c, 1);
    assert_str(sbuf_str(&c->bodies[0]), "released");
    while (client_turn(c, FIXTURE_WAIT_MS))
        ;
    assert_true(c->eof);
    fixture_join(&f);
    assert_int_equal(atomic_load(&f.closed), 0);
    client_free(c);
    fixture_end(&f);
}

static void ends_sessions_that_are_not_http2(void **state)
{
    (void)state;
    struct fixture f;
    fixture_start(&f, NULL, NULL);
    cleanup_sbuf struct sbuf b = {0};
    client_ask(&f, STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nthis is no frame at all, it is text"), &b);
    assert_true(b.n > 0); // settings and GOAWAY
    fixture_end(&f);
}

RUN_TESTS(TEST_CASE(answers_many_streams), TEST_CASE(refuses_in_its_stream),
          TEST_CASE(tells_the_handler_when_a_stream_is_gone), TEST_CASE(respects_windows),
          TEST_CASE(ends_streams_that_stand_still), TEST_CASE(calms_rapid_resets),
          TEST_CASE(calms_floods_of_frames), TEST_CASE(stops_gracefully),
          TEST_CASE(ends_sessions_that_are_not_http2))

// SPDX-License-Identifier: Apache-2.0
//
// Messages larger than what a connection keeps ready, to a peer with large windows, over a socket that
// takes nothing for a while and then everything at once: nothing calls again, so the connection has to
// go on by itself.
#include <nghttp2/nghttp2.h>

#include "net/grpc/grpc_int.h"
#include "unit.h"

#include "base/banned.h"

#define ANSWER_BYTES ((size_t)1 << 20)

struct memory {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct grpc_conn conn;
    size_t sent;
    bool full; // the socket takes nothing
    bool closed;
};

static void io_flush(struct grpc_conn *c)
{
    struct memory *m = container_of(c, struct memory, conn);
    if (m->full)
        return;
    m->sent += c->out.bytes;
    outq_drop(&c->out, c->out.bytes);
}

static void io_close(struct grpc_conn *c)
{
    container_of(c, struct memory, conn)->closed = true;
}

static void handle(void *arg, struct grpc_call *call)
{
    (void)arg;
    struct sbuf big = {0};
    sbuf_add_repeat(&big, 'b', ANSWER_BYTES);
    grpc_reply(call, sbuf_str(&big));
    sbuf_done(&big);
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *buf, size_t length,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)session;
    (void)stream;
    (void)source;
    (void)arg;
    assert_true(length >= 5);
    memset(buf, 0, 5); // an empty message
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return 5;
}

static nghttp2_nv pair(const char *name, const char *value)
{
    return (nghttp2_nv){.name = (uint8_t *)(uintptr_t)name,
                        .value = (uint8_t *)(uintptr_t)value,
                        .namelen = strlen(name),
                        .valuelen = strlen(value)};
}

// A client with large windows; only what it sends is wanted.
static nghttp2_session *client_new(void)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session *session;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    assert_int_equal(nghttp2_session_client_new(&session, callbacks, NULL), 0);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX}};
    assert_int_equal(nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings, 1), 0);
    assert_int_equal(
        nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0, INT32_MAX), 0);
    return session;
}

static void call(nghttp2_session *session, struct memory *m)
{
    const nghttp2_nv headers[] = {pair(":method", "POST"),
                                  pair(":scheme", "http"),
                                  pair(":path", "/test.Peer/Large"),
                                  pair(":authority", "localhost"),
                                  pair("content-type", "application/grpc"),
                                  pair("te", "trailers")};
    const nghttp2_data_provider body = {.read_callback = read_body};
    cleanup_sbuf struct sbuf request = {0};
    const uint8_t *bytes;
    assert_true(nghttp2_submit_request(session, NULL, headers, array_len(headers), &body, NULL) >
                0);
    for (ssize_t n; (n = nghttp2_session_mem_send(session, &bytes)) > 0;)
        sbuf_add(&request, str_make((const char *)bytes, (size_t)n));
    grpc_conn_input(&m->conn, sbuf_str(&request));
    exec_sim_run(m->sim, m->clock.mono); // what is due now, and nothing later
}

static void large_answers_leave_without_being_asked_again(void **state)
{
    (void)state;
    static const struct grpc_conn_io io = {.flush = io_flush, .close = io_close};
    struct memory m = {.conn.io = &io};
    clock_fake_init(&m.clock, CLOCK_NS_PER_SEC);
    rng_seeded_init(&m.rng, 1);
    m.sim = exec_sim_new(&m.clock, &m.rng.rng);
    struct grpc_server *server = grpc_server_new_on(exec_sim_exec(m.sim), NULL);
    grpc_server_handle(server, STR("/test.Peer/Large"), handle, NULL);
    grpc_server_adopt(server, &m.conn);
    nghttp2_session *client = client_new();
    m.full = true;
    call(client, &m);
    assert_int_equal(m.sent, 0);
    m.full = false;
    call(client, &m);
    assert_true(m.sent > 2 * ANSWER_BYTES);
    nghttp2_session_del(client);
    grpc_server_free(server);
    assert_true(m.closed);
    grpc_conn_done(&m.conn);
    exec_sim_free(m.sim);
}

RUN_TESTS(TEST_CASE(large_answers_leave_without_being_asked_again))

// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 on a connection: nghttp2 without I/O.
#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/http_int.h"

#include "base/banned.h"

// How much a client may send before it hears from us: of one stream, of a connection.
#define STREAM_WINDOW     (256 * 1024)
#define CONNECTION_WINDOW (4 * 1024 * 1024)

// What a connection may do in one window of time before it is told to calm down. A client that
// gives up all its streams at once is well behaved; one that does it over and over is not. (Rapid
// reset: CVE-2023-44487; floods of control frames: CVE-2019-9512 and its kin.)
#define FLOOD_WINDOW_NS (10 * CLOCK_NS_PER_SEC)
#define FLOOD_FRAMES    ((uint32_t)2000)
#define FLOOD_RESETS(c) (2 * (uint32_t)(c)->server->limits.streams)

// What nghttp2 may hold of answers to PING and SETTINGS.
#define OUTBOUND_ACKS 100
#define SETTINGS_MAX  32

// How much of a refused body is still read.
#define DISCARD_BYTES ((size_t)16 * 1024 * 1024)

#define FIELDS_MAX ((size_t)128)

static struct stream *stream_at(const struct conn *c, int32_t id)
{
    return nghttp2_session_get_stream_user_data(c->h2, id);
}

// --- Floods --------------------------------------------------------------------------------------

static void calm_down(struct conn *c)
{
    if (c->calm)
        return;
    c->calm = true;
    c->server->stats.refused++;
    (void)nghttp2_session_terminate_session(c->h2, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void count_flood(struct conn *c, bool reset)
{
    int64_t now_ns = exec_now_ns(c->server->exec);
    if (now_ns - c->flood_window_ns > FLOOD_WINDOW_NS) {
        c->flood_window_ns = now_ns;
        c->flood_resets = c->flood_frames = 0;
    }
    c->flood_frames++;
    c->flood_resets += reset;
    if (c->flood_frames > FLOOD_FRAMES || c->flood_resets > FLOOD_RESETS(c))
        calm_down(c);
}

// --- Answers -------------------------------------------------------------------------------------

static ssize_t on_read_data(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)session, (void)id, (void)buf, (void)arg;
    struct stream *s = source->ptr;
    size_t n = s->data.bytes < cap ? s->data.bytes : cap;
    if (n == 0 && !s->ended) {
        s->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (s->ended && n == s->data.bytes)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t n, nghttp2_data_source *source, void *arg)
{
    (void)session;
    struct conn *c = arg;
    struct stream *s = source->ptr;
    assert(frame->data.padlen == 0);
    outq_add(&c->out, str_make((const char *)head, 9));
    outq_move(&c->out, &s->data, n);
    s->progress += n;
    return 0;
}

static nghttp2_nv make_field(struct arena *a, struct str name, struct str value)
{
    // nghttp2 copies both. Names are in lower case here.
    char *p = arena_dup(a, name.p, name.n, 1);
    for (size_t i = 0; i < name.n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + ('a' - 'A'));
    char *v = arena_dup(a, value.p, value.n, 1);
    for (size_t i = 0; i < value.n; i++)
        if (v[i] == '\r' || v[i] == '\n' || v[i] == '\0')
            v[i] = ' ';
    return (nghttp2_nv){(uint8_t *)p, (uint8_t *)v, name.n, value.n, NGHTTP2_NV_FLAG_NONE};
}

static void submit(struct stream *s, const nghttp2_nv *fields, size_t n, bool body)
{
    nghttp2_data_provider provider = {.source.ptr = s, .read_callback = on_read_data};
    // Fails only when memory does, or the stream is gone, which on_stream_close tells.
    (void)nghttp2_submit_response(s->conn->h2, s->id, fields, n, body ? &provider : NULL);
    conn_mark(s->conn);
}

static void h2_start(struct stream *s, int status, struct str type, const struct http_header *extra,
                     size_t extra_len, int64_t length)
{
    struct arena *a = &s->arena;
    struct conn *c = s->conn;
    nghttp2_nv *fields = arena_array(a, nghttp2_nv, extra_len + 4);
    size_t n = 0;
    bool no_body = status == 204 || status == 304;
    fields[n++] = make_field(a, STR(":status"), arena_strf(a, "%03d", status));
    fields[n++] = make_field(a, STR("date"), server_date(c->server));
    if (type.n)
        fields[n++] = make_field(a, STR("content-type"), type);
    if (length >= 0 && !no_body)
        fields[n++] =
            make_field(a, STR("content-length"), arena_strf(a, "%lld", (long long)length));
    for (size_t i = 0; i < extra_len; i++)
        fields[n++] = make_field(a, extra[i].name, extra[i].value);
    s->head_only |= no_body;
    bool body = !s->head_only && length != 0;
    if (!body && length < 0)
        body = !no_body && !s->head_only;
    s->ended = !body;
    submit(s, fields, n, body);
}

static void wake_data(struct stream *s)
{
    if (s->deferred) {
        s->deferred = false;
        (void)nghttp2_session_resume_data(s->conn->h2, s->id);
    }
    conn_mark(s->conn);
}

static void h2_write(struct stream *s, struct net_buf *b)
{
    if (s->head_only) {
        net_buf_unref(b);
        return;
    }
    outq_add_buf(&s->data, b, b->bytes.p, b->bytes.n);
    wake_data(s);
}

static void h2_end(struct stream *s)
{
    s->ended = true;
    wake_data(s);
}

static void h2_abort(struct stream *s)
{
    (void)nghttp2_submit_rst_stream(s->conn->h2, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_INTERNAL_ERROR);
    conn_mark(s->conn);
}

static size_t h2_queued(const struct stream *s)
{
    return s->data.bytes;
}

// Answers a request that never reaches the handler.
static void refuse(struct stream *s, int status, const char *why)
{
    s->discard = true;
    s->state = STREAM_HANDLING;
    stream_drop_body(s);
    cleanup_sbuf struct sbuf body = {0};
    struct str type = http_refusal(s->conn->server, status, why, &body);
    s->head_only = str_eqz(s->q.method, "HEAD");
    const struct http_header retry = {STR("retry-after"), STR("1")};
    http_reply(&s->q, status, type, &retry, status == 503, net_buf_new(&body));
}

// --- Requests ------------------------------------------------------------------------------------

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct conn *c = arg;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct stream *s = stream_new(c);
    s->id = frame->hd.stream_id;
    s->q.version = 2;
    c->epoch++;
    return nghttp2_session_set_stream_user_data(session, s->id, s);
}

static bool take_pseudo(struct stream *s, struct str name, struct str value)
{
    if (name.n == 0 || name.p[0] != ':')
        return false;
    struct str copy = arena_str(&s->arena, value);
    if (str_eqz(name, ":method"))
        s->q.method = copy;
    else if (str_eqz(name, ":path"))
        s->q.target = copy;
    else if (str_eqz(name, ":authority"))
        vec_push_arena(&s->arena, &s->headers, ((struct http_header){STR("host"), copy}));
    return true;
}

// NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)flags;
    struct conn *c = arg;
    struct stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0; // trailers are of no interest
    struct str n = {(const char *)name, name_len}, v = {(const char *)value, value_len};
    s->header_bytes += name_len + value_len + 32; // as SETTINGS_MAX_HEADER_LIST_SIZE counts
    s->progress += name_len + value_len;
    if (s->header_bytes > c->server->limits.header_bytes || s->headers.n >= FIELDS_MAX)
        return 0; // refused when they are all here; kept are no more
    if (take_pseudo(s, n, v))
        return 0;
    if (str_eqz(n, "host") && s->headers.n && str_eqz(s->headers.p[0].name, "host"))
        return 0; // says the same as :authority, or should
    vec_push_arena(&s->arena, &s->headers,
                   ((struct http_header){arena_str(&s->arena, n), arena_str(&s->arena, v)}));
    return 0;
}

static void begin_request(struct stream *s)
{
    const char *why = "";
    s->whole_head = true;
    s->q.headers = s->headers.p;
    s->q.headers_len = s->headers.n;
    if (s->header_bytes > s->conn->server->limits.header_bytes || s->headers.n >= FIELDS_MAX) {
        refuse(s, 431, "the header fields are too large");
        return;
    }
    int r = s->q.target.n > H1_TARGET_MAX ? -414 : 0;
    if (r == 0)
        r = h1_split_target(s->q.method, s->q.target, &s->arena, &s->q.path, &s->q.query, &why);
    if (r < 0)
        refuse(s, -r, r == -414 ? "the request target is too long" : why);
}

// The rest of a refused request. Many clients do not look at the answer before they have sent
// everything, so a reset would hide it from them; but there is an end to patience.
static void discard(struct stream *s, size_t n)
{
    s->discarded += n;
    if (s->discarded > DISCARD_BYTES)
        (void)nghttp2_submit_rst_stream(s->conn->h2, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    (void)session, (void)flags;
    struct conn *c = arg;
    struct stream *s = stream_at(c, id);
    if (!s)
        return 0;
    s->progress += n;
    if (s->discard) {
        discard(s, n);
        return 0;
    }
    if (s->state != STREAM_READING)
        return 0;
    if (s->body.n + n > c->server->limits.body_bytes) {
        char why[80];
        (void)snprintf(why, sizeof(why), "Request entity too large: limit is %zu",
                       c->server->limits.body_bytes);
        refuse(s, 413, why);
    } else if (!stream_grow_body(s, n)) {
        refuse(s, 503, "too many requests with large bodies at once");
    } else {
        sbuf_add(&s->body, str_make((const char *)bytes, n));
    }
    return 0;
}

static void request_part(struct conn *c, const nghttp2_frame *frame)
{
    struct stream *s = stream_at(c, frame->hd.stream_id);
    bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !end)
        count_flood(c, false);
    if (!s || s->state != STREAM_READING)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        begin_request(s);
    if (end && s->state == STREAM_READING) {
        s->q.body = sbuf_str(&s->body);
        stream_dispatch(s);
    }
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    (void)session;
    struct conn *c = arg;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        request_part(c, frame);
        break;
    case NGHTTP2_RST_STREAM: {
        const struct stream *s = stream_at(c, frame->hd.stream_id);
        count_flood(c, s && s->state != STREAM_COMPLETE);
        break;
    }
    case NGHTTP2_WINDOW_UPDATE:
        break; // as many as there is data
    default:
        count_flood(c, false);
        break;
    }
    return c->calm && c->flood_frames > 2 * FLOOD_FRAMES ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *arg)
{
    (void)session, (void)frame, (void)code;
    struct conn *c = arg;
    c->server->stats.refused++;
    count_flood(c, frame->hd.type == NGHTTP2_HEADERS);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)code;
    struct conn *c = arg;
    struct stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (!s)
        return 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    stream_gone(s);
    outq_done(&s->data);
    stream_complete(s);
    c->epoch++;
    return 0;
}

// --- Session -------------------------------------------------------------------------------------

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *cb;
    if (nghttp2_session_callbacks_new(&cb) != 0)
        abort(); // out of memory
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    return cb;
}

static void open_session(struct conn *c)
{
    const struct http_limits *l = &c->server->limits;
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        abort(); // out of memory
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    if (nghttp2_session_server_new2(&c->h2, callbacks, c, option) != 0)
        abort(); // out of memory
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)l->streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)l->header_bytes},
    };
    (void)nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings, array_len(settings));
    (void)nghttp2_session_set_local_window_size(c->h2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
}

static void h2_input(struct conn *c, struct str bytes)
{
    if (!c->h2)
        open_session(c);
    ssize_t n = nghttp2_session_mem_recv(c->h2, (const uint8_t *)bytes.p, bytes.n);
    if (n < 0) {
        c->server->stats.refused++;
        // A client that does not speak HTTP/2 gets no word; others hear what went wrong.
        (void)nghttp2_session_terminate_session(
            c->h2, n == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
        c->close_after = true;
    }
    bool on = c->out.bytes < CONN_OUT_HIGH;
    if (on != c->reading) {
        c->reading = on;
        c->resume = !on;
        c->io->read(c, on);
    }
    conn_mark(c);
}

static void h2_resume(struct conn *c)
{
    if (!c->reading) {
        c->reading = true;
        c->io->read(c, true);
    }
}

static void h2_pull(struct conn *c)
{
    if (!c->h2)
        return;
    while (c->out.bytes < CONN_OUT_HIGH) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(c->h2, &bytes);
        if (n < 0)
            c->doomed = true;
        if (n <= 0)
            break;
        outq_add(&c->out, str_make((const char *)bytes, (size_t)n));
    }
    if (!nghttp2_session_want_read(c->h2) && !nghttp2_session_want_write(c->h2))
        c->close_after = true;
}

static enum conn_phase h2_phase(const struct conn *c)
{
    if (c->close_after)
        return PHASE_LINGER;
    enum conn_phase phase = PHASE_IDLE;
    list_foreach(&c->live, node) {
        const struct stream *s = list_entry(node, const struct stream, node);
        if (s->state == STREAM_READING || s->discard || (s->data.bytes > 0 && !s->patient))
            return PHASE_BODY;
        phase = PHASE_NONE;
    }
    return phase;
}

// Ends a stream that has not moved between two looks: a request that does not come, an answer that is
// not taken.
static void tick_stream(struct stream *s)
{
    struct conn *c = s->conn;
    bool first = !s->ticked;
    size_t moved = s->progress;
    s->ticked = true;
    s->progress = 0;
    if (first)
        return;
    if (s->state == STREAM_READING && moved < BODY_PROGRESS_BYTES) {
        if (s->whole_head) {
            refuse(s, 408, "the request did not arrive in time");
            return;
        }
        c->server->stats.refused++;
        (void)nghttp2_session_terminate_session(c->h2, NGHTTP2_PROTOCOL_ERROR);
    } else if (s->state != STREAM_READING && !s->patient && (s->discard || s->data.bytes > 0) &&
               moved == 0) {
        c->server->stats.refused++;
        (void)nghttp2_submit_rst_stream(c->h2, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
    }
}

// Nothing came for a whole body timeout, or the connection was idle for too long.
static void h2_tick(struct conn *c)
{
    if (c->phase == PHASE_IDLE) {
        (void)nghttp2_session_terminate_session(c->h2, NGHTTP2_NO_ERROR);
        conn_mark(c);
        return;
    }
    list_foreach(&c->live, node)
        tick_stream(list_entry(node, struct stream, node));
}

static void h2_eof(struct conn *c)
{
    c->doomed = true;
}

static void h2_stopping(struct conn *c)
{
    if (!c->h2)
        return;
    // Streams up to the last one we have seen are served; there will be no more.
    int32_t last = nghttp2_session_get_last_proc_stream_id(c->h2);
    (void)nghttp2_submit_goaway(c->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
    conn_mark(c);
}

static void h2_done(struct conn *c)
{
    nghttp2_session_del(c->h2);
    c->h2 = NULL;
}

const struct proto_ops h2_ops = {
    .input = h2_input,
    .resume = h2_resume,
    .pull = h2_pull,
    .phase = h2_phase,
    .tick = h2_tick,
    .eof = h2_eof,
    .stopping = h2_stopping,
    .start = h2_start,
    .write = h2_write,
    .end = h2_end,
    .abort = h2_abort,
    .queued = h2_queued,
    .refuse = refuse,
    .done = h2_done,
};

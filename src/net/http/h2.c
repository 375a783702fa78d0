// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 on a connection of the server, over a session without I/O (h2_session.c).
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/http/http_int.h"

#include "base/banned.h"

#define H2_STREAM_WINDOW  (256 * 1024)
#define H2_CONTROL_FRAMES ((uint32_t)2000)
#define H2_OUTBOUND_ACKS  100

// How much of a refused body is still read.
#define DISCARD_BYTES ((size_t)16 * 1024 * 1024)

static struct stream *h2_stream_of(struct h2_stream *t)
{
    return container_of(t, struct stream, h2);
}

// --- Answers -------------------------------------------------------------------------------------

static void h2_on_moved(struct h2_stream *t, size_t n)
{
    h2_stream_of(t)->progress += n;
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

static void h2_submit_response(struct stream *s, const nghttp2_nv *fields, size_t n, bool body)
{
    h2_stream_respond(&s->h2, fields, n, body);
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
    fields[n++] = make_field(a, STR("date"), http_server_date(c->server));
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
    s->h2.out_end = !body;
    h2_submit_response(s, fields, n, body);
}

static void wake_data(struct stream *s)
{
    h2_stream_wake(&s->h2);
    conn_mark(s->conn);
}

static void h2_write(struct stream *s, struct net_buf *b)
{
    if (s->head_only) {
        net_buf_unref(b);
        return;
    }
    outq_add_buf(&s->h2.out, b, b->bytes.p, b->bytes.n);
    wake_data(s);
}

static void h2_end(struct stream *s)
{
    s->h2.out_end = true;
    wake_data(s);
}

static void h2_abort(struct stream *s)
{
    h2_stream_reset(&s->h2, NGHTTP2_INTERNAL_ERROR);
    conn_mark(s->conn);
}

static size_t h2_queued(const struct stream *s)
{
    return s->h2.out.bytes;
}

// Answers a request that never reaches the handler.
static void h2_refuse_request(struct stream *s, int status, const char *why)
{
    s->discard = true;
    s->state = STREAM_HANDLING;
    http_stream_drop_body(s);
    cleanup_sbuf struct sbuf body = {0};
    struct str type = http_refusal(s->conn->server, status, why, &body);
    s->head_only = str_eqz(s->q.method, "HEAD");
    const struct http_header retry = {STR("retry-after"), STR("1")};
    http_reply(&s->q, status, type, &retry, status == 503, net_buf_new(&body));
}

// --- Requests ------------------------------------------------------------------------------------

static struct h2_stream *h2_on_open(struct h2_session *session)
{
    struct conn *c = container_of(session, struct conn, h2);
    struct stream *s = http_stream_new(c);
    s->q.version = 2;
    c->epoch++;
    return &s->h2;
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

static void h2_on_field(struct h2_stream *t, struct str name, struct str value)
{
    struct stream *s = h2_stream_of(t);
    s->progress += name.n + value.n;
    if (t->head_done || take_pseudo(s, name, value))
        return; // trailers are of no interest
    if (str_eqz(name, "host") && s->headers.n && str_eqz(s->headers.p[0].name, "host"))
        return; // :authority holds the same
    vec_push_arena(&s->arena, &s->headers,
                   ((struct http_header){arena_str(&s->arena, name), arena_str(&s->arena, value)}));
}

static void h2_begin_request(struct stream *s)
{
    const char *why = "";
    s->whole_head = true;
    s->q.headers = s->headers.p;
    s->q.headers_len = s->headers.n;
    if (s->h2.overflow) {
        h2_refuse_request(s, 431, "the header fields are too large");
        return;
    }
    int r = s->q.target.n > H1_TARGET_MAX ? -414 : 0;
    if (r == 0)
        r = h1_split_target(s->q.method, s->q.target, &s->arena, &s->q.path, &s->q.query, &why);
    if (r < 0)
        h2_refuse_request(s, -r, r == -414 ? "the request target is too long" : why);
}

// The rest of a refused request. Many clients do not look at the answer before they have sent
// everything, so a reset would hide it from them; but there is an end to patience.
static void h2_discard_input(struct stream *s, size_t n)
{
    s->discarded += n;
    if (s->discarded > DISCARD_BYTES)
        h2_stream_reset(&s->h2, NGHTTP2_CANCEL);
}

static void h2_on_body(struct h2_stream *t, struct str bytes)
{
    struct stream *s = h2_stream_of(t);
    const struct http_limits *l = &s->conn->server->limits;
    s->progress += bytes.n;
    h2_stream_consume(t, bytes.n);
    if (s->discard) {
        h2_discard_input(s, bytes.n);
        return;
    }
    if (s->state != STREAM_READING)
        return;
    if (s->body.n + bytes.n > l->body_bytes) {
        char why[80];
        (void)snprintf(why, sizeof(why), "Request entity too large: limit is %zu", l->body_bytes);
        h2_refuse_request(s, 413, why);
    } else if (!http_stream_grow_body(s, bytes.n)) {
        h2_refuse_request(s, 503, "too many requests with large bodies at once");
    } else {
        sbuf_add(&s->body, bytes);
    }
}

static void h2_on_head(struct h2_stream *t)
{
    struct stream *s = h2_stream_of(t);
    if (!t->head_done && s->state == STREAM_READING)
        h2_begin_request(s);
}

static void h2_on_end(struct h2_stream *t)
{
    struct stream *s = h2_stream_of(t);
    if (s->state != STREAM_READING)
        return;
    s->q.body = sbuf_str(&s->body);
    http_stream_dispatch(s);
}

static void h2_on_closed(struct h2_stream *t, uint32_t code)
{
    (void)code;
    struct stream *s = h2_stream_of(t);
    struct conn *c = s->conn;
    http_stream_gone(s);
    outq_done(&t->out);
    http_stream_complete(s);
    c->epoch++;
}

static bool h2_is_unanswered(const struct h2_stream *t)
{
    return container_of(t, const struct stream, h2)->state != STREAM_COMPLETE;
}

static void h2_on_violation(struct h2_session *session)
{
    container_of(session, struct conn, h2)->server->stats.refused++;
}

// --- Session -------------------------------------------------------------------------------------

static const struct h2_ops h2_server_ops = {
    .open = h2_on_open,
    .field = h2_on_field,
    .head = h2_on_head,
    .data = h2_on_body,
    .end = h2_on_end,
    .closed = h2_on_closed,
    .sent = h2_on_moved,
    .unanswered = h2_is_unanswered,
    .violation = h2_on_violation,
};

// A client that gives up all its streams at once is well behaved; one that does it over and over is
// not.
static void h2_open_session(struct conn *c)
{
    const struct http_limits *l = &c->server->limits;
    c->h2 = (struct h2_session){.ops = &h2_server_ops,
                                .exec = c->server->exec,
                                .server = true,
                                .out = &c->out,
                                .limits = {.header_bytes = l->header_bytes,
                                           .streams = (uint32_t)l->streams,
                                           .stream_window = H2_STREAM_WINDOW,
                                           .control_frames = H2_CONTROL_FRAMES,
                                           .resets = 2 * (uint32_t)l->streams,
                                           .acks = H2_OUTBOUND_ACKS}};
    h2_session_open(&c->h2);
}

static void h2_input(struct conn *c, struct str bytes)
{
    if (!c->h2.ng)
        h2_open_session(c);
    int r = h2_session_input(&c->h2, bytes);
    if (r < 0) {
        c->server->stats.refused++;
        // A client that does not speak HTTP/2 gets no word; others hear what went wrong.
        h2_session_terminate(&c->h2, r == NGHTTP2_ERR_FLOODED ? NGHTTP2_ENHANCE_YOUR_CALM
                                                              : NGHTTP2_PROTOCOL_ERROR);
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
    if (!c->h2.ng)
        return;
    if (h2_session_pull(&c->h2, CONN_OUT_HIGH) < 0)
        c->doomed = true;
    if (h2_session_over(&c->h2))
        c->close_after = true;
}

static enum conn_phase h2_phase(const struct conn *c)
{
    if (c->close_after)
        return PHASE_LINGER;
    enum conn_phase phase = PHASE_IDLE;
    list_foreach(&c->live, node) {
        const struct stream *s = list_entry(node, const struct stream, node);
        if (s->state == STREAM_READING || s->discard || (s->h2.out.bytes > 0 && !s->patient))
            return PHASE_BODY;
        phase = PHASE_NONE;
    }
    return phase;
}

// Ends a stream that has not moved between two looks: a request that does not come, an answer that
// is not taken.
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
            h2_refuse_request(s, 408, "the request did not arrive in time");
            return;
        }
        c->server->stats.refused++;
        h2_session_terminate(&c->h2, NGHTTP2_PROTOCOL_ERROR);
    } else if (s->state != STREAM_READING && !s->patient && (s->discard || s->h2.out.bytes > 0) &&
               moved == 0) {
        c->server->stats.refused++;
        h2_stream_reset(&s->h2, NGHTTP2_CANCEL);
    }
}

// Nothing came for a whole body timeout, or the connection was idle for too long.
static void h2_tick(struct conn *c)
{
    if (c->phase == PHASE_IDLE) {
        h2_session_terminate(&c->h2, NGHTTP2_NO_ERROR);
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
    if (!c->h2.ng)
        return;
    h2_session_leave(&c->h2);
    conn_mark(c);
}

static void h2_done(struct conn *c)
{
    h2_session_close(&c->h2);
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
    .refuse = h2_refuse_request,
    .done = h2_done,
};

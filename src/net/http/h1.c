// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 on a connection: one request at a time, in order; what comes meanwhile waits.
#include <assert.h>
#include <stdio.h>

#include "net/http/http_int.h"

#include "base/banned.h"

// --- Writing -------------------------------------------------------------------------------------

static void h1_queue_text(struct conn *c, struct str s)
{
    outq_add(&c->out, s);
}

// A value with a line break in it would be two lines, which is for the peer to fall for: it becomes
// a blank.
static void h1_queue_value(struct conn *c, struct str s)
{
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '\r' && s.p[i] != '\n' && s.p[i] != '\0')
            continue;
        h1_queue_text(c, str_make(s.p + from, i - from));
        h1_queue_text(c, STR(" "));
        from = i + 1;
    }
    h1_queue_text(c, str_from(s, from));
}

static void h1_queue_field(struct conn *c, struct str name, struct str value)
{
    h1_queue_text(c, name);
    h1_queue_text(c, STR(": "));
    h1_queue_value(c, value);
    h1_queue_text(c, STR("\r\n"));
}

static void h1_queue_status(struct conn *c, int status)
{
    if (status == 200) {
        h1_queue_text(c, STR("HTTP/1.1 200 OK\r\n"));
        return;
    }
    char line[80];
    int n = snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\n", status, http_reason(status));
    h1_queue_text(c, str_make(line, (size_t)n));
}

static void add_length(struct conn *c, uint64_t length)
{
    char line[48];
    int n = snprintf(line, sizeof(line), "Content-Length: %llu\r\n", (unsigned long long)length);
    h1_queue_text(c, str_make(line, (size_t)n));
}

static void h1_start(struct stream *s, int status, struct str type, const struct http_header *extra,
                     size_t extra_len, int64_t length)
{
    struct conn *c = s->conn;
    bool no_body = status == 204 || status == 304 || status < 200;
    if (c->server->stopping || c->eof)
        c->keep_alive = false;
    c->chunked_answer = false;
    h1_queue_status(c, status);
    h1_queue_field(c, STR("Date"), http_server_date(c->server));
    if (type.n)
        h1_queue_field(c, STR("Content-Type"), type);
    for (size_t i = 0; i < extra_len; i++)
        h1_queue_field(c, extra[i].name, extra[i].value);
    if (no_body) {
        s->head_only = true;
    } else if (length >= 0) {
        add_length(c, (uint64_t)length);
    } else if (c->minor > 0) {
        c->chunked_answer = true;
        h1_queue_text(c, STR("Transfer-Encoding: chunked\r\n"));
    } else {
        c->keep_alive = false; // the end of the connection is the end of the body
    }
    if (!c->keep_alive)
        h1_queue_text(c, STR("Connection: close\r\n"));
    else if (c->minor == 0)
        h1_queue_text(c, STR("Connection: keep-alive\r\n"));
    h1_queue_text(c, STR("\r\n"));
    conn_mark(c);
}

static void h1_write(struct stream *s, struct net_buf *b)
{
    struct conn *c = s->conn;
    struct str bytes = b->bytes;
    if (s->head_only) {
        net_buf_unref(b);
        return;
    }
    if (c->chunked_answer) {
        char line[24];
        int n = snprintf(line, sizeof(line), "%zx\r\n", bytes.n);
        h1_queue_text(c, str_make(line, (size_t)n));
    }
    outq_add_buf(&c->out, b, bytes.p, bytes.n);
    if (c->chunked_answer)
        h1_queue_text(c, STR("\r\n"));
    conn_mark(c);
}

static void h1_upgrade(struct stream *s, struct str protocol, const struct http_header *extra,
                       size_t extra_len)
{
    struct conn *c = s->conn;
    assert(s == c->current && c->h1 == H1_HANDLING);
    h1_queue_status(c, 101);
    h1_queue_field(c, STR("Upgrade"), protocol);
    h1_queue_text(c, STR("Connection: Upgrade\r\n"));
    for (size_t i = 0; i < extra_len; i++)
        h1_queue_field(c, extra[i].name, extra[i].value);
    h1_queue_text(c, STR("\r\n"));
    c->h1 = H1_TUNNEL;
    c->keep_alive = false;
    c->chunked_answer = false;
    c->end_due = c->eof;
    c->epoch++;
    c->resume = true; // what came behind the request
    conn_mark(c);
}

static void h1_hold(struct stream *s, bool hold)
{
    if (hold)
        return; // reading stops with the next bytes, which wait
    s->conn->resume = true;
    conn_mark(s->conn);
}

static void finish_current(struct conn *c)
{
    struct stream *s = c->current;
    c->current = NULL;
    c->h1 = H1_HEAD;
    c->epoch++;
    if (!c->keep_alive || c->eof || c->server->stopping) {
        c->h1 = H1_DRAIN;
        c->close_after = true;
    }
    http_stream_complete(s);
    c->resume = true;
    conn_mark(c);
}

static void h1_end(struct stream *s)
{
    struct conn *c = s->conn;
    assert(s == c->current);
    if (c->chunked_answer && !s->head_only)
        h1_queue_text(c, STR("0\r\n\r\n"));
    finish_current(c);
}

static void h1_abort(struct stream *s)
{
    struct conn *c = s->conn;
    assert(s == c->current);
    // What was written goes out. A head alone, or a body without its end, is broken for everyone
    // but HTTP/1.0, which knows no other end than the connection's: there it is cut.
    c->keep_alive = false;
    c->aborted = c->minor == 0;
    finish_current(c);
}

static size_t h1_queued(const struct stream *s)
{
    return s->conn->out.bytes;
}

// Refuses a request and ends the connection.
static void h1_refuse_request(struct conn *c, int status, const char *why)
{
    if (c->current) {
        http_stream_free(c->current);
        c->current = NULL;
    }
    cleanup_sbuf struct sbuf body = {0};
    struct str type = http_refusal(c->server, status, why, &body);
    h1_queue_status(c, status);
    h1_queue_field(c, STR("Date"), http_server_date(c->server));
    h1_queue_field(c, STR("Content-Type"), type);
    h1_queue_text(c, STR("Connection: close\r\n"));
    if (status == 503)
        h1_queue_text(c, STR("Retry-After: 1\r\n"));
    add_length(c, body.n);
    h1_queue_text(c, STR("\r\n"));
    h1_queue_text(c, sbuf_str(&body));
    c->h1 = H1_DRAIN;
    c->close_after = true;
    conn_mark(c);
}

static void h1_refuse(struct stream *s, int status, const char *why)
{
    assert(s == s->conn->current);
    h1_refuse_request(s->conn, status, why);
}

// --- Reading -------------------------------------------------------------------------------------

static void refuse_large(struct conn *c)
{
    char why[80];
    (void)snprintf(why, sizeof(why), "Request entity too large: limit is %zu",
                   c->server->limits.body_bytes);
    h1_refuse_request(c, 413, why);
}

static void h1_dispatch_request(struct conn *c, struct str body)
{
    struct stream *s = c->current;
    s->q.body = body;
    c->h1 = H1_HANDLING;
    c->epoch++;
    http_stream_dispatch(s);
}

// The head is whole: takes it apart and prepares for the body.
static void h1_begin_request(struct conn *c, struct str bytes)
{
    struct stream *s = c->current;
    struct h1_head h;
    const char *why = "";
    char *head = arena_dup(&s->arena, bytes.p, bytes.n, 1);
    int r = h1_parse_head(head, bytes.n, &s->arena, &h, &why);
    if (r == 0)
        r = h1_split_target(h.method, h.target, &s->arena, &s->q.path, &s->q.query, &why);
    if (r < 0) {
        h1_refuse_request(c, -r, why);
        return;
    }
    s->q.method = h.method;
    s->q.target = h.target;
    s->q.headers = h.headers;
    s->q.headers_len = h.headers_len;
    s->q.version = 1;
    c->minor = h.minor;
    c->keep_alive = h.keep_alive;
    c->framing = h.framing;
    c->body_left = h.length;
    c->chunks = (struct h1_chunks){0};
    c->epoch++;
    if (h.framing == H1_LENGTH && h.length > c->server->limits.body_bytes) {
        refuse_large(c);
        return;
    }
    if (h.expect_continue) {
        h1_queue_text(c, STR("HTTP/1.1 100 Continue\r\n\r\n"));
        conn_mark(c);
    }
    c->h1 = H1_BODY;
}

// A body of known length. One that is here whole goes into the arena, else it grows as it comes.
static void read_length(struct conn *c, struct str *in)
{
    struct stream *s = c->current;
    size_t n = in->n < c->body_left ? in->n : (size_t)c->body_left;
    struct str part = str_upto(*in, n);
    if (!http_stream_grow_body(s, n)) {
        h1_refuse_request(c, 503, "too many requests with large bodies at once");
        return;
    }
    *in = str_from(*in, n);
    c->body_left -= n;
    if (c->body_left == 0 && s->body.n == 0) {
        h1_dispatch_request(c, arena_str(&s->arena, part));
        return;
    }
    sbuf_add(&s->body, part);
    if (c->body_left == 0)
        h1_dispatch_request(c, sbuf_str(&s->body));
}

static void read_chunked(struct conn *c, struct str *in)
{
    struct stream *s = c->current;
    const char *why = "";
    size_t before = s->body.n;
    int r = h1_read_chunks(&c->chunks, in, &s->body, c->server->limits.body_bytes, &why);
    if (r >= 0 && !http_stream_grow_body(s, s->body.n - before))
        h1_refuse_request(c, 503, "too many requests with large bodies at once");
    else if (r == -413)
        refuse_large(c);
    else if (r < 0)
        h1_refuse_request(c, -r, why);
    else if (r > 0)
        h1_dispatch_request(c, sbuf_str(&s->body));
}

static void h1_read_head(struct conn *c, struct str *in)
{
    const char *why = "";
    if (!c->current)
        c->current = http_stream_new(c);
    int r = h1_find_head(*in, c->server->limits.header_bytes, &c->scan, &why);
    if (r == 0)
        return;
    struct str head = str_upto(*in, r > 0 ? (size_t)r : 0);
    *in = str_from(*in, head.n);
    c->scan = (struct h1_scan){0};
    if (r > 0)
        h1_begin_request(c, head);
    else
        h1_refuse_request(c, -r, why);
}

static void h1_read_body(struct conn *c, struct str *in)
{
    if (c->framing == H1_CHUNKED)
        read_chunked(c, in);
    else if (c->framing == H1_LENGTH)
        read_length(c, in);
    else
        h1_dispatch_request(c, (struct str){0});
}

static void h1_drain_input(struct conn *c, struct str *in)
{
    c->drained_bytes += in->n;
    *in = (struct str){0};
    if (c->drained_bytes > LINGER_BYTES)
        c->doomed = true;
}

// After an upgrade bytes are the handler's, unless it wants none for now.
static bool h1_tunnel_input(struct conn *c, struct str *in)
{
    struct stream *s = c->current;
    if (s->held || in->n == 0)
        return false;
    struct str bytes = *in;
    *in = (struct str){0};
    s->q.input(s->q.arg, bytes);
    return true;
}

// Understands as much of in as it can; what is left waits for more bytes or for the answer.
static struct str h1_consume_input(struct conn *c, struct str in)
{
    for (;;) {
        size_t before = in.n;
        enum h1_state state = c->h1;
        if (c->doomed)
            return (struct str){0};
        switch (state) {
        case H1_HEAD:
            if (in.n == 0)
                return in;
            if (c->out.bytes > CONN_OUT_HIGH) {
                c->resume = true; // the peer asks faster than it takes the answers
                return in;
            }
            h1_read_head(c, &in);
            break;
        case H1_BODY:
            if (in.n == 0 && c->framing != H1_NO_BODY)
                return in;
            h1_read_body(c, &in);
            break;
        case H1_HANDLING:
            return in;
        case H1_TUNNEL:
            if (!h1_tunnel_input(c, &in))
                return in;
            break;
        case H1_DRAIN:
            h1_drain_input(c, &in);
            return in;
        }
        if (in.n == before && c->h1 == state)
            return in;
    }
}

static void read_on(struct conn *c)
{
    bool on = c->in.n < CONN_IN_HIGH || c->h1 == H1_BODY;
    // A head may be longer than what may wait behind an answer.
    on |= c->h1 == H1_HEAD && !c->resume;
    if (c->h1 == H1_TUNNEL)
        on = !c->current->held;
    if (on != c->reading && !c->eof) {
        c->reading = on;
        c->io->read(c, on);
    }
}

static void h1_keep_input(struct conn *c, struct str rest)
{
    size_t used = c->in.n - rest.n;
    if (rest.n == 0) {
        sbuf_done(&c->in);
    } else if (used > 0) {
        memmove(c->in.p, c->in.p + used, rest.n);
        sbuf_truncate(&c->in, rest.n);
    }
}

static void h1_input(struct conn *c, struct str bytes)
{
    if (c->in.n) {
        sbuf_add(&c->in, bytes);
        h1_keep_input(c, h1_consume_input(c, sbuf_str(&c->in)));
    } else {
        struct str rest = h1_consume_input(c, bytes);
        if (rest.n)
            sbuf_add(&c->in, rest);
    }
    read_on(c);
}

// The connection is left to itself: no request is being read or answered.
static bool h1_is_idle(const struct conn *c)
{
    return c->h1 == H1_HEAD && c->in.n == 0;
}

static void h1_tunnel_end(struct conn *c)
{
    struct http_request *q = &c->current->q;
    c->end_due = false;
    if (q->input_end)
        q->input_end(q->arg);
    else
        c->doomed = true;
}

static void h1_resume(struct conn *c)
{
    if (c->aborted) {
        c->doomed = true;
        return;
    }
    if (c->in.n || c->h1 == H1_TUNNEL)
        h1_input(c, (struct str){0});
    if (c->h1 == H1_TUNNEL && c->end_due && c->in.n == 0)
        h1_tunnel_end(c);
    if (c->h1 == H1_HEAD && !c->resume && (c->eof || (c->server->stopping && h1_is_idle(c)))) {
        c->h1 = H1_DRAIN;
        c->close_after = true;
    }
}

static void h1_pull(struct conn *c)
{
    (void)c; // answers are in c->out already
}

static enum conn_phase h1_phase(const struct conn *c)
{
    switch (c->h1) {
    case H1_HEAD:
        return c->current || c->in.n ? PHASE_HEADER : PHASE_IDLE;
    case H1_BODY:
        return PHASE_BODY;
    case H1_DRAIN:
        return PHASE_LINGER;
    case H1_HANDLING:
    case H1_TUNNEL:
        break;
    }
    return PHASE_NONE;
}

static void h1_tick(struct conn *c)
{
    if (h1_is_idle(c) && !c->current)
        c->doomed = true;
    else
        h1_refuse_request(c, 408, "the request did not arrive in time");
}

// A peer that has closed its sending side may still wait for what it asked, but a stream has no end
// it could wait for.
static void h1_eof(struct conn *c)
{
    switch (c->h1) {
    case H1_HANDLING:
        c->doomed |= c->current->state != STREAM_HANDLING;
        break;
    case H1_TUNNEL:
        c->end_due = true;
        if (c->in.n == 0)
            h1_tunnel_end(c);
        break;
    case H1_HEAD:
        if (c->resume && c->in.n)
            break; // pipelined requests
        // With TLS, what has left out.bytes may still be on its way into the socket.
        if (c->out.bytes == 0 && !c->blocked)
            c->doomed = true;
        c->close_after = true;
        break;
    case H1_DRAIN:
        c->doomed |= c->shut && !c->blocked;
        break;
    case H1_BODY:
        c->doomed = true;
        break;
    }
}

static void h1_stopping(struct conn *c)
{
    if (h1_is_idle(c) && !c->current && c->out.bytes == 0)
        conn_close(c);
}

static void h1_done(struct conn *c)
{
    c->current = NULL; // freed with the live streams
}

const struct proto_ops h1_ops = {
    .input = h1_input,
    .resume = h1_resume,
    .pull = h1_pull,
    .phase = h1_phase,
    .tick = h1_tick,
    .eof = h1_eof,
    .stopping = h1_stopping,
    .start = h1_start,
    .upgrade = h1_upgrade,
    .hold = h1_hold,
    .write = h1_write,
    .end = h1_end,
    .abort = h1_abort,
    .queued = h1_queued,
    .refuse = h1_refuse,
    .done = h1_done,
};

// SPDX-License-Identifier: Apache-2.0
//
// Calls as streams of an HTTP/2 connection. A stream's window is opened when its owner has taken
// the bytes, the connection's as they come: a call that is held never stalls the others.
#include <stdio.h>

#include "net/client/https_int.h"

#include "base/banned.h"

#define HTTPS_H2_HEADER_BYTES   ((size_t)64 * 1024)
#define HTTPS_H2_CONTROL_FRAMES ((uint32_t)20000)
#define HTTPS_H2_OUTBOUND_ACKS  1000
#define HTTPS_H2_OUT_HIGH       ((size_t)256 * 1024)

// Concurrent streams on a connection: until the server's settings arrive, as in Go, and at
// the most.
#define HTTPS_H2_STREAMS_FIRST 100
#define HTTPS_H2_STREAMS_MAX   1000

static struct https_call *https_h2_call_of(struct h2_stream *t)
{
    return container_of(t, struct https_call, h2);
}

static void https_h2_on_field(struct h2_stream *t, struct str name, struct str value)
{
    if (!t->head_done && t->status >= 200)
        https_call_header(https_h2_call_of(t), name, value);
}

static void https_h2_on_head(struct h2_stream *t)
{
    struct https_call *call = https_h2_call_of(t);
    if (t->overflow)
        https_call_failf(call, false, ERR_UNAVAILABLE,
                         "the answer of %s has too many or too large headers", call->https->shown);
    else if (!t->head_done)
        https_call_head(call, t->status);
}

static void https_h2_on_data(struct h2_stream *t, struct str bytes)
{
    struct https_call *call = https_h2_call_of(t);
    https_call_body(call, bytes);
    if (call->conn && !call->streaming)
        h2_stream_consume(t, bytes.n);
}

static void https_h2_on_end(struct h2_stream *t)
{
    // A response may come before the request was sent; the server does not want the rest. Otherwise
    // the stream closes next.
    if (t->out.bytes > 0)
        https_call_succeed(https_h2_call_of(t));
}

static void https_h2_on_closed(struct h2_stream *t, uint32_t code)
{
    struct https_call *call = https_h2_call_of(t);
    if (t->remote_end)
        https_call_succeed(call);
    else if (code == NGHTTP2_REFUSED_STREAM && !t->head_done)
        https_call_refused(call, "the server does not take the request");
    else
        https_call_failf(call, false, ERR_UNAVAILABLE,
                         "the connection to %s failed: the server reset the stream (%s)",
                         call->https->shown, nghttp2_http2_strerror(code));
}

static void https_h2_on_settings(struct h2_session *s)
{
    struct https_conn *c = container_of(s, struct https_conn, session);
    uint32_t most =
        nghttp2_session_get_remote_settings(s->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    c->streams_max = most < HTTPS_H2_STREAMS_MAX ? most : HTTPS_H2_STREAMS_MAX;
}

static void https_h2_on_goaway(struct h2_session *s)
{
    container_of(s, struct https_conn, session)->leaving = true;
}

static const struct h2_ops https_h2_ops = {
    .field = https_h2_on_field,
    .head = https_h2_on_head,
    .data = https_h2_on_data,
    .end = https_h2_on_end,
    .closed = https_h2_on_closed,
    .settings = https_h2_on_settings,
    .goaway = https_h2_on_goaway,
};

void https_h2_open(struct https_conn *c)
{
    c->streams_max = HTTPS_H2_STREAMS_FIRST;
    c->session = (struct h2_session){.ops = &https_h2_ops,
                                     .exec = c->https->exec,
                                     .out = &c->out,
                                     .limits = {.header_bytes = HTTPS_H2_HEADER_BYTES,
                                                .stream_window = (int32_t)HTTPS_STREAM_WINDOW,
                                                .control_frames = HTTPS_H2_CONTROL_FRAMES,
                                                .resets = UINT32_MAX,
                                                .acks = HTTPS_H2_OUTBOUND_ACKS}};
    h2_session_open(&c->session);
}

void https_h2_send(struct https_conn *c, struct https_call *call)
{
    const struct https *h = c->https;
    nghttp2_nv fields[9];
    size_t n = 0;
    char length[24];
    fields[n++] = h2_field(STR(":method"), call->method);
    fields[n++] = h2_field(STR(":scheme"), h->tls ? STR("https") : STR("http"));
    fields[n++] = h2_field(STR(":authority"), str_z(h->url.authority));
    fields[n++] = h2_field(STR(":path"), call->target);
    if (h->user_agent)
        fields[n++] = h2_field(STR("user-agent"), str_z(h->user_agent));
    if (call->accept.n)
        fields[n++] = h2_field(STR("accept"), call->accept);
    if (call->authorization.n) {
        fields[n] = h2_field(STR("authorization"), call->authorization);
        fields[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX; // a secret stays out of the header table
    }
    if (call->content_type.n)
        fields[n++] = h2_field(STR("content-type"), call->content_type);
    if (call->body) {
        (void)snprintf(length, sizeof(length), "%zu", call->body->bytes.n);
        fields[n++] = h2_field(STR("content-length"), str_z(length));
        outq_add_buf(&call->h2.out, net_buf_ref(call->body), call->body->bytes.p,
                     call->body->bytes.n);
    }
    call->h2.out_end = true;
    if (!h2_stream_request(&call->h2, &c->session, fields, n, call->body)) {
        c->leaving = true; // the numbers of streams are used up
        https_call_refused(call, "its streams are used up");
    }
}

void https_h2_input(struct https_conn *c, struct str bytes)
{
    struct err err = {0};
    int r = h2_session_input(&c->session, bytes);
    if (r < 0 || c->session.calm) {
        err_record(&err, ERR_UNAVAILABLE, "the connection to %s failed: HTTP/2: %s",
                   c->https->shown, r < 0 ? nghttp2_strerror(r) : "too many control frames");
        https_conn_lose(c, &err);
    }
}

void https_h2_flush(struct https_conn *c)
{
    char block[16 * 1024];
    struct err err = {0};
    int more = 1;
    while (c->dial && !c->blocked && (more > 0 || c->out.bytes)) {
        more = h2_session_pull(&c->session, HTTPS_H2_OUT_HIGH);
        if (more < 0) {
            err_record(&err, ERR_UNAVAILABLE, "the connection to %s failed: HTTP/2: %s",
                       c->https->shown, nghttp2_strerror(more));
            https_conn_lose(c, &err);
            return;
        }
        while (c->dial && !c->blocked && c->out.bytes) {
            size_t n = outq_gather(&c->out, block, sizeof(block));
            outq_drop(&c->out, n);
            c->blocked = !dial_write(c->dial, str_make(block, n));
        }
    }
    if (c->dial && c->out.bytes == 0 && h2_session_over(&c->session))
        https_conn_lose(c, NULL);
}

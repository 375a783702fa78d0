// SPDX-License-Identifier: Apache-2.0
//
// A gRPC connection without I/O, for both ends, over an HTTP/2 session (h2_session.c).
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/grpc/grpc_int.h"

#include "base/banned.h"

#define STREAM_WINDOW (256 * 1024)

// nghttp2 produces no more while this much waits to be written.
#define OUT_HIGH ((size_t)256 * 1024)

// What all streams of an owner may hold of messages that are not whole.
#define IN_BYTES_MAX ((size_t)256 * 1024 * 1024)

// Frames other than data that a peer may send in 10 s. grpc-go pings to measure while data flows,
// so this is generous.
#define CONTROL_FRAMES ((uint32_t)20000)
#define OUTBOUND_ACKS  1000

void grpc_limits_fill(struct grpc_limits *l)
{
    if (l->message_bytes == 0)
        l->message_bytes = (size_t)16 * 1024 * 1024;
    if (l->header_bytes == 0)
        l->header_bytes = (size_t)64 * 1024;
    if (l->queued_bytes == 0)
        l->queued_bytes = (size_t)1024 * 1024;
    if (l->streams == 0)
        l->streams = 250;
    if (l->connections == 0)
        l->connections = 1000;
    if (l->keepalive_timeout_ns == 0)
        l->keepalive_timeout_ns = 20 * CLOCK_NS_PER_SEC;
    if (l->connect_timeout_ns == 0)
        l->connect_timeout_ns = 10 * CLOCK_NS_PER_SEC;
}

// --- Streams -------------------------------------------------------------------------------------

struct str grpc_meta_find(const struct grpc_meta_list *l, struct str name)
{
    for (size_t i = 0; i < l->n; i++)
        if (str_eq(l->p[i].name, name))
            return l->p[i].value;
    return (struct str){0};
}

static struct grpc_stream *grpc_stream_of(struct h2_stream *t)
{
    return container_of(t, struct grpc_stream, h2);
}

static void grpc_conn_note_stream(struct grpc_stream *s)
{
    if (s->conn && !list_linked(&s->ready))
        list_push_back(&s->conn->ready, &s->ready);
}

static void grpc_conn_mark(struct grpc_conn *c);

void grpc_stream_touch(struct grpc_stream *s)
{
    grpc_conn_note_stream(s);
    if (s->conn)
        grpc_conn_mark(s->conn);
}

static void grpc_conn_attach_stream(struct grpc_stream *s, struct grpc_conn *c)
{
    s->conn = c;
    s->ops = c->ops;
    s->in_total = c->in_bytes;
    list_push_back(&c->streams, &s->node);
}

void grpc_stream_release(struct grpc_stream *s)
{
    *s->in_total -= s->in.n;
    sbuf_done(&s->in);
    outq_done(&s->h2.out);
    arena_done(&s->arena);
    s->ops->release(s);
}

void grpc_stream_free(struct grpc_stream *s, uint32_t reset_code)
{
    struct grpc_conn *c = s->conn;
    if (c && !c->ended && !s->closed)
        h2_stream_forget(&s->h2, reset_code);
    if (c && !c->ended)
        grpc_conn_mark(c);
    list_remove(&s->node);
    list_remove(&s->ready);
    s->conn = NULL;
    if (s->entered)
        s->orphan = true;
    else
        grpc_stream_release(s);
}

void grpc_stream_wake(struct grpc_stream *s)
{
    if (!s->conn)
        return;
    h2_stream_wake(&s->h2);
    grpc_conn_mark(s->conn);
}

void grpc_stream_message(struct grpc_stream *s, struct str message)
{
    char prefix[GRPC_PREFIX_BYTES];
    grpc_prefix(prefix, message.n);
    outq_add(&s->h2.out, str_make(prefix, sizeof(prefix)));
    if (message.n <= OUTQ_COPY_BYTES) {
        outq_add(&s->h2.out, message);
    } else {
        struct net_buf *b = net_buf_copy(message);
        outq_add_buf(&s->h2.out, b, b->bytes.p, b->bytes.n);
    }
}

void grpc_stream_take(struct grpc_stream *s, size_t n)
{
    s->in_used += n;
    if (s->in_used == s->in.n) {
        *s->in_total -= s->in.n;
        s->in_used = 0;
        sbuf_clear(&s->in);
    } else if (s->in_used > s->in.n / 2) {
        size_t left = s->in.n - s->in_used;
        memmove(s->in.p, s->in.p + s->in_used, left);
        *s->in_total -= s->in_used;
        s->in_used = 0;
        sbuf_truncate(&s->in, left);
    }
}

// Lets the peer send more: all that came was read, or is part of a message that is not whole.
static void open_window(struct grpc_stream *s)
{
    if (s->paused || !s->conn || s->conn->ended)
        return;
    h2_stream_consume(&s->h2, s->h2.unconsumed);
}

// False: s is gone.
static bool grpc_conn_notify_owner(struct grpc_stream *s)
{
    bool before = s->entered;
    s->entered = true;
    s->ops->event(s);
    s->entered = before;
    if (!s->orphan)
        open_window(s);
    if (s->orphan && !before) {
        grpc_stream_release(s);
        return false;
    }
    return true;
}

// --- What we send --------------------------------------------------------------------------------

static void grpc_on_trailers(struct h2_stream *t)
{
    struct grpc_stream *s = grpc_stream_of(t);
    nghttp2_nv *fields = arena_array(&s->arena, nghttp2_nv, s->end_fields.n + 1);
    for (size_t i = 0; i < s->end_fields.n; i++)
        fields[i] = h2_field(s->end_fields.p[i].name, s->end_fields.p[i].value);
    h2_stream_trailers(t, fields, s->end_fields.n);
}

static void grpc_on_moved(struct h2_stream *t, size_t n)
{
    (void)n;
    struct grpc_stream *s = grpc_stream_of(t);
    if (s->was_full && t->out.bytes < s->conn->limits->queued_bytes / 2)
        grpc_conn_note_stream(s);
}

bool grpc_stream_request(struct grpc_stream *s, struct grpc_conn *c, const nghttp2_nv *fields,
                         size_t n)
{
    if (!h2_stream_request(&s->h2, &c->h2, fields, n, true))
        return false;
    grpc_conn_attach_stream(s, c);
    grpc_conn_mark(c);
    return true;
}

void grpc_stream_respond(struct grpc_stream *s, const nghttp2_nv *fields, size_t n, bool more)
{
    if (!s->conn || s->closed)
        return;
    h2_stream_respond(&s->h2, fields, n, more);
    grpc_conn_mark(s->conn);
}

// --- What comes ----------------------------------------------------------------------------------

static struct h2_stream *grpc_on_open(struct h2_session *session)
{
    struct grpc_conn *c = container_of(session, struct grpc_conn, h2);
    struct grpc_stream *s = c->ops->open(c);
    if (!s)
        return NULL;
    grpc_conn_attach_stream(s, c);
    return &s->h2;
}

static void grpc_on_field(struct h2_stream *t, struct str name, struct str value)
{
    struct grpc_stream *s = grpc_stream_of(t);
    struct grpc_meta_list *l = t->head_done ? &s->trailers : &s->headers;
    if (str_eqz(name, ":path"))
        s->path = arena_str(&s->arena, value);
    else if (str_eqz(name, ":method"))
        s->method = arena_str(&s->arena, value);
    else if (name.n && name.p[0] != ':')
        vec_push_arena(
            &s->arena, l,
            ((struct grpc_meta){arena_str(&s->arena, name), arena_str(&s->arena, value)}));
}

static void grpc_on_head(struct h2_stream *t)
{
    struct grpc_stream *s = grpc_stream_of(t);
    s->headers_done = true;
    s->overflow |= t->overflow;
    grpc_conn_note_stream(s);
}

static void grpc_on_data(struct h2_stream *t, struct str bytes)
{
    struct grpc_stream *s = grpc_stream_of(t);
    if (*s->in_total + bytes.n > IN_BYTES_MAX) {
        s->overflow = true;
    } else {
        sbuf_add(&s->in, bytes);
        *s->in_total += bytes.n;
    }
    grpc_conn_note_stream(s);
}

static void grpc_on_end(struct h2_stream *t)
{
    struct grpc_stream *s = grpc_stream_of(t);
    s->remote_end = true;
    grpc_conn_note_stream(s);
}

static void grpc_on_closed(struct h2_stream *t, uint32_t code)
{
    struct grpc_stream *s = grpc_stream_of(t);
    s->closed = true;
    s->close_code = code;
    grpc_conn_note_stream(s);
}

static void grpc_on_settings(struct h2_session *session)
{
    struct grpc_conn *c = container_of(session, struct grpc_conn, h2);
    if (!c->introduced)
        c->introduced = c->tell_ready = true;
}

static void grpc_on_goaway(struct h2_session *session)
{
    struct grpc_conn *c = container_of(session, struct grpc_conn, h2);
    if (!c->peer_leaves)
        c->peer_leaves = c->tell_leaving = true;
}

// --- Session -------------------------------------------------------------------------------------

static const struct h2_ops grpc_h2_ops = {
    .open = grpc_on_open,
    .field = grpc_on_field,
    .head = grpc_on_head,
    .data = grpc_on_data,
    .end = grpc_on_end,
    .closed = grpc_on_closed,
    .sent = grpc_on_moved,
    .trailers = grpc_on_trailers,
    .settings = grpc_on_settings,
    .goaway = grpc_on_goaway,
};

static void grpc_conn_open_session(struct grpc_conn *c)
{
    c->h2 = (struct h2_session){.ops = &grpc_h2_ops,
                                .exec = c->exec,
                                .server = c->server,
                                .cut_requests = c->server,
                                .out = &c->out,
                                .limits = {.header_bytes = c->limits->header_bytes,
                                           .streams = (uint32_t)c->limits->streams,
                                           .stream_window = STREAM_WINDOW,
                                           .control_frames = CONTROL_FRAMES,
                                           .resets = UINT32_MAX,
                                           .acks = OUTBOUND_ACKS}};
    h2_session_open(&c->h2);
}

static void grpc_conn_on_wake(void *arg)
{
    grpc_conn_run(arg);
}

static void on_keepalive(void *arg)
{
    struct grpc_conn *c = arg;
    int64_t wait_ns = c->limits->keepalive_ns;
    int64_t silent_ns = exec_now_ns(c->exec) - c->heard_ns;
    if (c->pinged) {
        grpc_conn_lose(c, "the peer does not answer a ping");
        return;
    }
    if (silent_ns < wait_ns) {
        wait_ns -= silent_ns;
    } else if (c->server || !list_empty(&c->streams)) {
        h2_session_ping(&c->h2);
        c->pinged = true;
        wait_ns = c->limits->keepalive_timeout_ns;
        grpc_conn_mark(c);
    }
    exec_timer_start(c->exec, &c->keepalive, wait_ns);
}

void grpc_conn_init(struct grpc_conn *c)
{
    list_init(&c->streams);
    list_init(&c->ready);
    c->wake.fn = grpc_conn_on_wake;
    c->keepalive.fn = on_keepalive;
    c->wake.arg = c->keepalive.arg = c;
    c->heard_ns = exec_now_ns(c->exec);
    grpc_conn_open_session(c);
    if (c->limits->keepalive_ns > 0)
        exec_timer_start(c->exec, &c->keepalive, c->limits->keepalive_ns);
    grpc_conn_mark(c);
}

void grpc_conn_done(struct grpc_conn *c)
{
    assert(c->ended);
    h2_session_close(&c->h2);
    outq_done(&c->out);
}

static void grpc_conn_mark(struct grpc_conn *c)
{
    if (!c->running && !c->ended && !exec_timer_armed(&c->wake))
        exec_timer_start(c->exec, &c->wake, 0);
}

void grpc_conn_lose(struct grpc_conn *c, const char *why)
{
    if (c->lost || c->ended)
        return;
    c->lost = true;
    (void)snprintf(c->why, sizeof(c->why), "%s", why);
    grpc_conn_mark(c);
}

void grpc_conn_end(struct grpc_conn *c, const char *why)
{
    if (c->ended)
        return;
    if (!c->lost)
        (void)snprintf(c->why, sizeof(c->why), "%s", why);
    c->ended = c->lost = true;
    exec_timer_stop(c->exec, &c->wake);
    exec_timer_stop(c->exec, &c->keepalive);
    struct list_node *node;
    while ((node = list_pop_front(&c->streams))) {
        struct grpc_stream *s = list_entry(node, struct grpc_stream, node);
        list_remove(&s->ready);
        s->lost = !s->closed;
        s->closed = true;
        s->h2.session = NULL;
        if (grpc_conn_notify_owner(s) && s->conn == c)
            s->conn = NULL; // a paused one stays with its owner
    }
    c->ops->gone(c);
    c->io->close(c);
}

void grpc_conn_leave(struct grpc_conn *c)
{
    if (c->leaving || c->ended)
        return;
    c->leaving = true;
    h2_session_leave(&c->h2);
    grpc_conn_mark(c);
}

void grpc_conn_input(struct grpc_conn *c, struct str bytes)
{
    if (c->ended || c->lost)
        return;
    c->heard_ns = exec_now_ns(c->exec);
    if (c->pinged) {
        c->pinged = false;
        exec_timer_start(c->exec, &c->keepalive, c->limits->keepalive_ns);
    }
    if (h2_session_input(&c->h2, bytes) < 0)
        grpc_conn_lose(c, "the peer does not speak HTTP/2 as it should");
    grpc_conn_run(c);
}

// True: there may be more to send, but enough waits.
static bool grpc_conn_fill_output(struct grpc_conn *c)
{
    int r = h2_session_pull(&c->h2, OUT_HIGH);
    if (r < 0)
        grpc_conn_lose(c, "HTTP/2 cannot go on");
    return r > 0;
}

static void tell_all(struct grpc_conn *c)
{
    if (c->tell_ready) {
        c->tell_ready = false;
        c->ops->ready(c);
    }
    if (c->tell_leaving && !c->ended) {
        c->tell_leaving = false;
        c->ops->leaving(c);
    }
    struct list_node *node;
    while (!c->ended && (node = list_pop_front(&c->ready)))
        (void)grpc_conn_notify_owner(list_entry(node, struct grpc_stream, ready));
}

void grpc_conn_run(struct grpc_conn *c)
{
    if (c->running || c->ended)
        return;
    exec_timer_stop(c->exec, &c->wake);
    c->running = true;
    bool more;
    do {
        tell_all(c);
        if (c->ended || c->lost)
            break;
        more = grpc_conn_fill_output(c);
        c->io->flush(c);
        // What the socket took at once makes room; otherwise it calls when it has written.
    } while (!list_empty(&c->ready) || (more && c->out.bytes < OUT_HIGH && !c->lost));
    c->running = false;
    if (c->ended)
        return;
    bool over = (c->leaving || c->peer_leaves) && list_empty(&c->streams) && c->out.bytes == 0 &&
                !nghttp2_session_want_write(c->h2.ng);
    over |= h2_session_over(&c->h2) && c->out.bytes == 0;
    if (c->lost)
        grpc_conn_end(c, "lost");
    else if (over)
        grpc_conn_end(c, "the connection is closed");
}

// SPDX-License-Identifier: Apache-2.0
//
// A gRPC connection: nghttp2 without I/O, for both ends.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/grpc_int.h"

#include "base/banned.h"

// How much the peer may send before it hears from us: of one stream, of a connection.
#define STREAM_WINDOW     (256 * 1024)
#define CONNECTION_WINDOW (4 * 1024 * 1024)

// nghttp2 is not asked for more while this much waits to be written.
#define OUT_HIGH ((size_t)256 * 1024)

// What all streams of an owner may hold of messages that are not whole.
#define IN_BYTES_MAX ((size_t)256 * 1024 * 1024)

// Frames other than data that a peer may send in a window of time. grpc-go pings to measure while data
// flows, so this is generous.
#define CONTROL_WINDOW_NS (10 * CLOCK_NS_PER_SEC)
#define CONTROL_FRAMES    ((uint32_t)20000)

#define OUTBOUND_ACKS 1000
#define SETTINGS_MAX  32
#define FIELDS_MAX    ((size_t)128)

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

nghttp2_nv grpc_field(struct str name, struct str value)
{
    // nghttp2 does not write to either; its type has no const.
    union {
        const char *in;
        uint8_t *out;
    } n = {name.p}, v = {value.p ? value.p : ""};
    return (nghttp2_nv){n.out, v.out, name.n, value.n, NGHTTP2_NV_FLAG_NONE};
}

static void note(struct grpc_stream *s)
{
    if (s->conn && !list_linked(&s->ready))
        list_push_back(&s->conn->ready, &s->ready);
}

void grpc_stream_touch(struct grpc_stream *s)
{
    note(s);
    if (s->conn)
        grpc_conn_mark(s->conn);
}

static void attach(struct grpc_stream *s, struct grpc_conn *c)
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
    outq_done(&s->out);
    arena_done(&s->arena);
    s->ops->release(s);
}

void grpc_stream_free(struct grpc_stream *s, uint32_t reset_code)
{
    struct grpc_conn *c = s->conn;
    if (c && !c->ended && !s->closed) {
        (void)nghttp2_session_set_stream_user_data(c->session, s->id, NULL);
        (void)nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id, reset_code);
        if (s->unconsumed)
            (void)nghttp2_session_consume_stream(c->session, s->id, s->unconsumed);
    }
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
    if (s->deferred) {
        s->deferred = false;
        (void)nghttp2_session_resume_data(s->conn->session, s->id);
    }
    grpc_conn_mark(s->conn);
}

void grpc_stream_message(struct grpc_stream *s, struct str message)
{
    char prefix[GRPC_PREFIX_BYTES];
    grpc_prefix(prefix, message.n);
    outq_add(&s->out, str_make(prefix, sizeof(prefix)));
    if (message.n <= OUTQ_COPY_BYTES) {
        outq_add(&s->out, message);
    } else {
        struct net_buf *b = net_buf_copy(message);
        outq_add_buf(&s->out, b, b->bytes.p, b->bytes.n);
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
    if (s->unconsumed == 0 || s->paused || !s->conn || s->conn->ended)
        return;
    if (!s->closed)
        (void)nghttp2_session_consume_stream(s->conn->session, s->id, s->unconsumed);
    s->unconsumed = 0;
}

// False: s is gone.
static bool tell(struct grpc_stream *s)
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

static void send_trailers(nghttp2_session *session, struct grpc_stream *s)
{
    nghttp2_nv *fields = arena_array(&s->arena, nghttp2_nv, s->end_fields.n + 1);
    for (size_t i = 0; i < s->end_fields.n; i++)
        fields[i] = grpc_field(s->end_fields.p[i].name, s->end_fields.p[i].value);
    (void)nghttp2_submit_trailer(session, s->id, fields, s->end_fields.n);
}

static ssize_t on_read_data(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)buf, (void)source, (void)arg;
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // given up
    size_t n = s->out.bytes < cap ? s->out.bytes : cap;
    if (n == 0 && !s->out_end) {
        s->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (s->out_end && n == s->out.bytes) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (s->end_trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            send_trailers(session, s);
        }
    }
    return (ssize_t)n;
}

static int on_send_data(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head,
                        size_t n, nghttp2_data_source *source, void *arg)
{
    (void)source;
    struct grpc_conn *c = arg;
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    outq_add(&c->out, str_make((const char *)head, 9));
    outq_move(&c->out, &s->out, n);
    if (s->was_full && s->out.bytes < c->limits->queued_bytes / 2)
        note(s);
    return 0;
}

bool grpc_stream_request(struct grpc_stream *s, struct grpc_conn *c, const nghttp2_nv *fields,
                         size_t n)
{
    nghttp2_data_provider provider = {.read_callback = on_read_data};
    int32_t id = nghttp2_submit_request(c->session, NULL, fields, n, &provider, s);
    if (id < 0)
        return false; // the numbers are used up
    s->id = id;
    attach(s, c);
    grpc_conn_mark(c);
    return true;
}

void grpc_stream_respond(struct grpc_stream *s, const nghttp2_nv *fields, size_t n, bool more)
{
    if (!s->conn || s->closed)
        return;
    nghttp2_data_provider provider = {.read_callback = on_read_data};
    // Fails only when memory does, or the stream is gone, which on_stream_close tells.
    (void)nghttp2_submit_response(s->conn->session, s->id, fields, n, more ? &provider : NULL);
    grpc_conn_mark(s->conn);
}

// --- What comes ----------------------------------------------------------------------------------

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    if (!c->server || frame->hd.type != NGHTTP2_HEADERS ||
        frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct grpc_stream *s = c->ops->open(c);
    if (!s) {
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    s->id = frame->hd.stream_id;
    attach(s, c);
    return nghttp2_session_set_stream_user_data(session, s->id, s);
}

static void take_pseudo(struct grpc_stream *s, struct str name, struct str value)
{
    uint64_t status = 0;
    if (str_eqz(name, ":path"))
        s->path = arena_str(&s->arena, value);
    else if (str_eqz(name, ":method"))
        s->method = arena_str(&s->arena, value);
    else if (str_eqz(name, ":status") && str_to_u64(value, &status) == 0 && status < 1000)
        s->http_status = (int)status;
}

// NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    (void)flags;
    struct grpc_conn *c = arg;
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s)
        return 0;
    struct str n = {(const char *)name, name_len}, v = {(const char *)value, value_len};
    s->header_bytes += name_len + value_len + 32;
    struct grpc_meta_list *l = s->headers_done ? &s->trailers : &s->headers;
    if (s->header_bytes > c->limits->header_bytes || l->n >= FIELDS_MAX) {
        s->overflow = true;
        return 0;
    }
    if (n.n && n.p[0] == ':')
        take_pseudo(s, n, v);
    else
        vec_push_arena(&s->arena, l,
                       ((struct grpc_meta){arena_str(&s->arena, n), arena_str(&s->arena, v)}));
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    (void)flags, (void)arg;
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)nghttp2_session_consume_connection(session, n);
    if (!s) {
        (void)nghttp2_session_consume_stream(session, id, n);
        return 0;
    }
    if (*s->in_total + n > IN_BYTES_MAX) {
        s->overflow = true;
    } else {
        sbuf_add(&s->in, str_make((const char *)bytes, n));
        *s->in_total += n;
    }
    s->unconsumed += n;
    note(s);
    return 0;
}

static void count_control(struct grpc_conn *c)
{
    int64_t now_ns = exec_now_ns(c->exec);
    if (now_ns - c->control_window_ns > CONTROL_WINDOW_NS) {
        c->control_window_ns = now_ns;
        c->control_frames = 0;
    }
    if (++c->control_frames == CONTROL_FRAMES)
        (void)nghttp2_session_terminate_session(c->session, NGHTTP2_ENHANCE_YOUR_CALM);
}

static void stream_frame(nghttp2_session *session, const nghttp2_frame *frame)
{
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!s)
        return;
    // A final answer follows informational ones.
    bool interim =
        frame->hd.type == NGHTTP2_HEADERS && s->http_status >= 100 && s->http_status < 200;
    if (frame->hd.type == NGHTTP2_HEADERS && !interim)
        s->headers_done = true;
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        s->remote_end = true;
    note(s);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (frame->headers.cat != NGHTTP2_HCAT_REQUEST)
            count_control(c);
        stream_frame(session, frame);
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0)
            count_control(c);
        stream_frame(session, frame);
        break;
    case NGHTTP2_SETTINGS:
        count_control(c);
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK) && !c->introduced)
            c->introduced = c->tell_ready = true;
        break;
    case NGHTTP2_GOAWAY:
        if (!c->peer_leaves)
            c->peer_leaves = c->tell_leaving = true;
        break;
    case NGHTTP2_WINDOW_UPDATE:
        break; // as many as there is data
    default:
        count_control(c);
        break;
    }
    return c->control_frames > 2 * CONTROL_FRAMES ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int code,
                            void *arg)
{
    (void)session, (void)frame, (void)code;
    count_control(arg);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
    (void)arg;
    struct grpc_stream *s = nghttp2_session_get_stream_user_data(session, id);
    if (!s)
        return 0;
    (void)nghttp2_session_set_stream_user_data(session, id, NULL);
    s->closed = true;
    s->close_code = code;
    note(s);
    return 0;
}

// A request that could not be sent: the peer takes no more streams.
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int code, void *arg)
{
    (void)session, (void)code;
    struct grpc_conn *c = arg;
    if (c->server || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    list_foreach(&c->streams, node) {
        struct grpc_stream *s = list_entry(node, struct grpc_stream, node);
        if (s->id == frame->hd.stream_id && !s->closed) {
            s->closed = true;
            s->close_code = NGHTTP2_REFUSED_STREAM;
            note(s);
        }
    }
    return 0;
}

// An answer that is complete before its request: the client need not send the rest.
static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    const struct grpc_conn *c = arg;
    if (!c->server || frame->hd.type != NGHTTP2_HEADERS ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    const struct grpc_stream *s =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (s && !s->remote_end)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
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
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_not_sent);
    return cb;
}

static void open_session(struct grpc_conn *c)
{
    nghttp2_session_callbacks *callbacks = make_callbacks();
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        abort(); // out of memory
    nghttp2_option_set_max_outbound_ack(option, OUTBOUND_ACKS);
    nghttp2_option_set_max_settings(option, SETTINGS_MAX);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    int r = c->server ? nghttp2_session_server_new2(&c->session, callbacks, c, option)
                      : nghttp2_session_client_new2(&c->session, callbacks, c, option);
    if (r != 0)
        abort(); // out of memory
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)c->limits->header_bytes},
        {c->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
         c->server ? (uint32_t)c->limits->streams : 0},
    };
    (void)nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, array_len(settings));
    (void)nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0,
                                                CONNECTION_WINDOW);
}

static void on_wake(void *arg)
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
        (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL);
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
    c->wake.fn = on_wake;
    c->keepalive.fn = on_keepalive;
    c->wake.arg = c->keepalive.arg = c;
    c->heard_ns = exec_now_ns(c->exec);
    open_session(c);
    if (c->limits->keepalive_ns > 0)
        exec_timer_start(c->exec, &c->keepalive, c->limits->keepalive_ns);
    grpc_conn_mark(c);
}

void grpc_conn_done(struct grpc_conn *c)
{
    assert(c->ended);
    nghttp2_session_del(c->session);
    c->session = NULL;
    outq_done(&c->out);
}

void grpc_conn_mark(struct grpc_conn *c)
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
        if (tell(s) && s->conn == c)
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
    int32_t last = c->server ? nghttp2_session_get_last_proc_stream_id(c->session) : 0;
    (void)nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
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
    ssize_t n = nghttp2_session_mem_recv(c->session, (const uint8_t *)bytes.p, bytes.n);
    if (n < 0)
        grpc_conn_lose(c, "the peer does not speak HTTP/2 as it should");
    grpc_conn_run(c);
}

// True: nghttp2 may have more, but enough waits.
static bool pull(struct grpc_conn *c)
{
    while (c->out.bytes < OUT_HIGH) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(c->session, &bytes);
        if (n < 0)
            grpc_conn_lose(c, "HTTP/2 cannot go on");
        if (n <= 0)
            return false;
        outq_add(&c->out, str_make((const char *)bytes, (size_t)n));
    }
    return true;
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
        (void)tell(list_entry(node, struct grpc_stream, ready));
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
        more = pull(c);
        c->io->flush(c);
        // What the socket took at once makes room; otherwise it calls when it has written.
    } while (!list_empty(&c->ready) || (more && c->out.bytes < OUT_HIGH && !c->lost));
    c->running = false;
    if (c->ended)
        return;
    bool over = (c->leaving || c->peer_leaves) && list_empty(&c->streams) && c->out.bytes == 0 &&
                !nghttp2_session_want_write(c->session);
    over |= !nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session) &&
            c->out.bytes == 0;
    if (c->lost)
        grpc_conn_end(c, "lost");
    else if (over)
        grpc_conn_end(c, "the connection is closed");
}

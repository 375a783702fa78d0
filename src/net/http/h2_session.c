// SPDX-License-Identifier: Apache-2.0
//
// The callbacks of nghttp2 turn frames into operations on streams. The connection's window is
// opened as bytes come and a stream's only when its owner consumes, so a stream that is not read
// never stalls its neighbours.
#include "net/http/h2_session.h"

#include <assert.h>
#include <stdlib.h>

#include "base/banned.h"

// What a peer may send on all streams before it hears from us.
#define H2_CONNECTION_WINDOW (4 * 1024 * 1024)

#define H2_FLOOD_WINDOW_NS (10 * CLOCK_NS_PER_SEC)
#define H2_SETTINGS_MAX    32
#define H2_FIELDS_MAX      ((size_t)128)
#define H2_FRAME_HEAD      9

static struct h2_stream *h2_stream_at(nghttp2_session *ng, int32_t id)
{
    return nghttp2_session_get_stream_user_data(ng, id);
}

nghttp2_nv h2_field(struct str name, struct str value)
{
    // nghttp2 does not write to either; its type has no const.
    union {
        const char *in;
        uint8_t *out;
    } n = {name.p}, v = {value.p ? value.p : ""};
    return (nghttp2_nv){n.out, v.out, name.n, value.n, NGHTTP2_NV_FLAG_NONE};
}

// --- Floods --------------------------------------------------------------------------------------

// Rapid reset: CVE-2023-44487; floods of control frames: CVE-2019-9512 and its kin.
static void h2_session_count(struct h2_session *s, bool reset)
{
    int64_t now_ns = exec_now_ns(s->exec);
    if (now_ns - s->flood_window_ns > H2_FLOOD_WINDOW_NS) {
        s->flood_window_ns = now_ns;
        s->flood_resets = s->flood_frames = 0;
    }
    s->flood_frames++;
    s->flood_resets += reset;
    if (s->calm ||
        (s->flood_frames <= s->limits.control_frames && s->flood_resets <= s->limits.resets))
        return;
    s->calm = true;
    if (s->ops->violation)
        s->ops->violation(s);
    h2_session_terminate(s, NGHTTP2_ENHANCE_YOUR_CALM);
}

// --- Output --------------------------------------------------------------------------------------

static ssize_t h2_on_read_data(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t cap,
                               uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)buf, (void)source, (void)arg;
    struct h2_stream *t = h2_stream_at(ng, id);
    if (!t)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; // forgotten
    size_t n = t->out.bytes < cap ? t->out.bytes : cap;
    if (n == 0 && !t->out_end) {
        t->deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    if (t->out_end && n == t->out.bytes) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (t->out_trailers) {
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            t->session->ops->trailers(t);
        }
    }
    return (ssize_t)n;
}

static int h2_on_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *head, size_t n,
                           nghttp2_data_source *source, void *arg)
{
    (void)source;
    struct h2_session *s = arg;
    struct h2_stream *t = h2_stream_at(ng, frame->hd.stream_id);
    if (!t)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    assert(frame->data.padlen == 0);
    outq_add(s->out, str_make((const char *)head, H2_FRAME_HEAD));
    outq_move(s->out, &t->out, n);
    if (s->ops->sent)
        s->ops->sent(t, n);
    return 0;
}

bool h2_stream_request(struct h2_stream *t, struct h2_session *s, const nghttp2_nv *fields,
                       size_t n, bool body)
{
    nghttp2_data_provider provider = {.read_callback = h2_on_read_data};
    int32_t id = nghttp2_submit_request(s->ng, NULL, fields, n, body ? &provider : NULL, t);
    if (id < 0)
        return false;
    t->id = id;
    t->session = s;
    return true;
}

void h2_stream_respond(struct h2_stream *t, const nghttp2_nv *fields, size_t n, bool body)
{
    nghttp2_data_provider provider = {.read_callback = h2_on_read_data};
    // Fails only when memory does, or the stream is gone, which closed reports.
    if (t->session)
        (void)nghttp2_submit_response(t->session->ng, t->id, fields, n, body ? &provider : NULL);
}

void h2_stream_trailers(struct h2_stream *t, const nghttp2_nv *fields, size_t n)
{
    (void)nghttp2_submit_trailer(t->session->ng, t->id, fields, n);
}

void h2_stream_wake(struct h2_stream *t)
{
    if (!t->session || !t->deferred)
        return;
    t->deferred = false;
    (void)nghttp2_session_resume_data(t->session->ng, t->id);
}

void h2_stream_reset(struct h2_stream *t, uint32_t code)
{
    if (t->session)
        (void)nghttp2_submit_rst_stream(t->session->ng, NGHTTP2_FLAG_NONE, t->id, code);
}

void h2_stream_consume(struct h2_stream *t, size_t n)
{
    assert(n <= t->unconsumed);
    t->unconsumed -= n;
    if (t->session && n)
        (void)nghttp2_session_consume_stream(t->session->ng, t->id, n);
}

void h2_stream_forget(struct h2_stream *t, uint32_t code)
{
    if (!t->session)
        return;
    (void)nghttp2_session_set_stream_user_data(t->session->ng, t->id, NULL);
    h2_stream_reset(t, code);
    h2_stream_consume(t, t->unconsumed);
    t->session = NULL;
}

// --- Input ---------------------------------------------------------------------------------------

static int h2_on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *s = arg;
    if (!s->server || frame->hd.type != NGHTTP2_HEADERS ||
        frame->headers.cat != NGHTTP2_HCAT_REQUEST)
        return 0;
    struct h2_stream *t = s->ops->open(s);
    if (!t) {
        (void)nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                        NGHTTP2_REFUSED_STREAM);
        return 0;
    }
    t->id = frame->hd.stream_id;
    t->session = s;
    return nghttp2_session_set_stream_user_data(ng, t->id, t);
}

static void h2_stream_note_status(struct h2_stream *t, struct str name, struct str value)
{
    uint64_t status = 0;
    if (!t->head_done && str_eqz(name, ":status") && str_to_u64(value, &status) == 0 &&
        status < 1000)
        t->status = (int)status;
}

// NOLINTNEXTLINE(readability-function-size): the parameters are nghttp2's
static int h2_on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                        void *arg)
{
    (void)flags;
    struct h2_session *s = arg;
    struct h2_stream *t = h2_stream_at(ng, frame->hd.stream_id);
    if (!t)
        return 0;
    struct str n = {(const char *)name, name_len}, v = {(const char *)value, value_len};
    t->header_bytes += name_len + value_len + 32;
    if (t->header_bytes > s->limits.header_bytes || ++t->fields > H2_FIELDS_MAX) {
        t->overflow = true;
        return 0;
    }
    if (!s->server)
        h2_stream_note_status(t, n, v);
    s->ops->field(t, n, v);
    return 0;
}

static int h2_on_data(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *bytes,
                      size_t n, void *arg)
{
    (void)flags;
    struct h2_session *s = arg;
    struct h2_stream *t = h2_stream_at(ng, id);
    (void)nghttp2_session_consume_connection(ng, n);
    if (!t) {
        (void)nghttp2_session_consume_stream(ng, id, n);
        return 0;
    }
    t->unconsumed += n;
    s->ops->data(t, str_make((const char *)bytes, n));
    return 0;
}

// h2_session_part: HEADERS or DATA of a stream are here, whole.
static void h2_session_part(struct h2_session *s, const nghttp2_frame *frame)
{
    struct h2_stream *t = h2_stream_at(s->ng, frame->hd.stream_id);
    bool end = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (frame->hd.type == NGHTTP2_DATA && frame->hd.length == 0 && !end)
        h2_session_count(s, false);
    if (!t)
        return;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        if (!s->server && !t->head_done && t->status < 200) {
            h2_session_count(s, false); // an interim response; another one follows
            return;
        }
        s->ops->head(t);
        t->head_done = true;
    }
    if (end && t->session && !t->remote_end) {
        t->remote_end = true;
        s->ops->end(t);
    }
}

static int h2_on_frame(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    struct h2_session *s = arg;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
        h2_session_part(s, frame);
        break;
    case NGHTTP2_RST_STREAM: {
        const struct h2_stream *t = h2_stream_at(ng, frame->hd.stream_id);
        h2_session_count(s, t && s->ops->unanswered && s->ops->unanswered(t));
        break;
    }
    case NGHTTP2_SETTINGS:
        h2_session_count(s, false);
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            s->introduced = true;
            if (s->ops->settings)
                s->ops->settings(s);
        }
        break;
    case NGHTTP2_GOAWAY:
        h2_session_count(s, false);
        s->peer_leaves = true;
        if (s->ops->goaway)
            s->ops->goaway(s);
        break;
    case NGHTTP2_WINDOW_UPDATE:
        break; // as many as there is data
    default:
        h2_session_count(s, false);
        break;
    }
    bool deaf = s->calm && s->flood_frames / 2 > s->limits.control_frames;
    return deaf ? NGHTTP2_ERR_CALLBACK_FAILURE : 0;
}

static int h2_on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int code, void *arg)
{
    (void)ng, (void)code;
    struct h2_session *s = arg;
    if (s->ops->violation)
        s->ops->violation(s);
    h2_session_count(s, frame->hd.type == NGHTTP2_HEADERS);
    return 0;
}

static void h2_session_drop(struct h2_session *s, struct h2_stream *t, uint32_t code)
{
    if (!t)
        return;
    t->session = NULL;
    s->ops->closed(t, code);
}

static int h2_on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
    struct h2_stream *t = h2_stream_at(ng, id);
    if (t)
        (void)nghttp2_session_set_stream_user_data(ng, id, NULL);
    h2_session_drop(arg, t, code);
    return 0;
}

// A request that could not be sent, as the peer takes no more streams. nghttp2 would close the
// stream with INTERNAL_ERROR next, which does not tell that the peer has not seen it.
static int h2_on_not_sent(nghttp2_session *ng, const nghttp2_frame *frame, int code, void *arg)
{
    (void)code;
    const struct h2_session *s = arg;
    if (s->server || frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    return h2_on_stream_close(ng, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM, arg);
}

// A response that is complete before its request: the client need not send the rest.
static int h2_on_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    const struct h2_session *s = arg;
    if (!s->cut_requests || frame->hd.type != NGHTTP2_HEADERS ||
        !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    const struct h2_stream *t = h2_stream_at(ng, frame->hd.stream_id);
    if (t && !t->remote_end)
        (void)nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, t->id, NGHTTP2_NO_ERROR);
    return 0;
}

// --- Session -------------------------------------------------------------------------------------

static nghttp2_session_callbacks *h2_make_callbacks(void)
{
    nghttp2_session_callbacks *cb;
    if (nghttp2_session_callbacks_new(&cb) != 0)
        abort(); // out of memory
    nghttp2_session_callbacks_set_send_data_callback(cb, h2_on_send_data);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, h2_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, h2_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, h2_on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, h2_on_invalid_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, h2_on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, h2_on_sent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, h2_on_not_sent);
    return cb;
}

void h2_session_open(struct h2_session *s)
{
    nghttp2_session_callbacks *callbacks = h2_make_callbacks();
    nghttp2_option *option;
    if (nghttp2_option_new(&option) != 0)
        abort(); // out of memory
    nghttp2_option_set_max_outbound_ack(option, s->limits.acks);
    nghttp2_option_set_max_settings(option, H2_SETTINGS_MAX);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    nghttp2_option_set_no_auto_window_update(option, 1);
    int r = s->server ? nghttp2_session_server_new2(&s->ng, callbacks, s, option)
                      : nghttp2_session_client_new2(&s->ng, callbacks, s, option);
    if (r != 0)
        abort(); // out of memory
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {
        {s->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
         s->server ? s->limits.streams : 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)s->limits.stream_window},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)s->limits.header_bytes},
    };
    (void)nghttp2_submit_settings(s->ng, NGHTTP2_FLAG_NONE, settings, array_len(settings));
    (void)nghttp2_session_set_local_window_size(s->ng, NGHTTP2_FLAG_NONE, 0, H2_CONNECTION_WINDOW);
}

void h2_session_close(struct h2_session *s)
{
    nghttp2_session_del(s->ng);
    s->ng = NULL;
}

int h2_session_input(struct h2_session *s, struct str bytes)
{
    ssize_t n = nghttp2_session_mem_recv(s->ng, (const uint8_t *)bytes.p, bytes.n);
    return n < 0 ? (int)n : 0;
}

int h2_session_pull(struct h2_session *s, size_t high)
{
    while (s->out->bytes < high) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(s->ng, &bytes);
        if (n <= 0)
            return (int)n;
        outq_add(s->out, str_make((const char *)bytes, (size_t)n));
    }
    return 1;
}

bool h2_session_over(const struct h2_session *s)
{
    return !nghttp2_session_want_read(s->ng) && !nghttp2_session_want_write(s->ng);
}

void h2_session_leave(struct h2_session *s)
{
    int32_t last = s->server ? nghttp2_session_get_last_proc_stream_id(s->ng) : 0;
    (void)nghttp2_submit_goaway(s->ng, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0);
}

void h2_session_terminate(struct h2_session *s, uint32_t code)
{
    (void)nghttp2_session_terminate_session(s->ng, code);
}

void h2_session_ping(struct h2_session *s)
{
    (void)nghttp2_submit_ping(s->ng, NGHTTP2_FLAG_NONE, NULL);
}

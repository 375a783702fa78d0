// SPDX-License-Identifier: Apache-2.0
//
// libcurl tells which sockets to watch and when to wake it; the loop does both. What libcurl hands
// out inside its own calls is only noted there; callbacks run afterwards, in drain.
#include "net/https.h"

#include <assert.h>
#include <stdlib.h>
#include <uv.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/vec.h"
#include "net/libcurl.h"

#include "base/banned.h"

#define CONNECTIONS_DEFAULT     8
#define BODY_BYTES_DEFAULT      ((size_t)256 * 1024 * 1024)
#define CONNECT_TIMEOUT_DEFAULT 10000
#define STREAM_BYTES_HIGH       ((size_t)1024 * 1024) // waiting for data's taker
#define STREAMS_MAX             1000L // on a connection; the server's limit is mostly lower
#define UPLOAD_BUFFER \
    16384L // the least there is: many requests are on their way at once, most are small
// A peer that is gone without a word: asked after so many seconds of silence, then so often, so many times; what was sent and
// is not acknowledged counts for as long. Without this a watch would wait for minutes behind a network that was cut.
#define KEEPALIVE_IDLE_SECONDS     15L
#define KEEPALIVE_INTERVAL_SECONDS 5L
#define KEEPALIVE_COUNT            3
#define UNACKNOWLEDGED_MS          30000U
#define QUIET_MS                   10
#define SILENCE_MS                 100
#define PROD_TIMEOUT_MS            5000
#define READ_BUFFER                ((size_t)CURL_MAX_WRITE_SIZE) // what libcurl gives each call
#define SPARE_HANDLES              64
// Of libcurl, see on_silence: from, and mended in.
#define MISSES_ENDS_SINCE 0x075800U // 7.88.0
#define MISSES_ENDS_UNTIL 0x080100U // 8.1.0

struct spare_handles VEC(CURL *);

struct https {
    struct loop *loop;
    CURLM *multi;
    uv_timer_t timer;
    uv_timer_t quiet; // fires when sockets have been silent for a while
    struct list sockets;
    size_t open; // libuv handles that are not closed yet
    char *url, *unix_socket, *server_name, *proxy, *user_agent;
    bool no_proxy;
    struct curl_slist *connect_to, *host_header;
    struct sbuf ca, certificate, key;
    bool insecure, freed, draining, unsettled;
    bool moved; // something has come since this was unset
    bool tls;
    bool misses_ends; // this libcurl does, see on_silence
    bool doubtful;    // some call has been since this was unset
    bool prodding;    // prod's request is under way
    size_t body_bytes;
    long connect_timeout_ms;
    struct list calls, ready;
    struct spare_handles spare;
};

// A socket of libcurl's.
struct watched {
    struct https *https;
    uv_poll_t poll;
    curl_socket_t fd;
    struct list_node node;
};

struct https_call {
    struct https *https;
    CURL *easy;
    struct curl_slist *headers;
    char *body;
    struct sbuf in;
    void (*data)(void *arg, struct str bytes);
    void (*done)(void *arg, const struct https_answer *answer);
    void *arg;
    struct list_node node;  // among all calls
    struct list_node ready; // something is to be told
    bool streaming;         // the status is 2xx and data wants the body
    bool began;             // the first byte of the body is here
    bool may_miss_end;      // HTTP/2 by a libcurl that misses ends
    bool full;              // libcurl was told to wait
    bool filled;            // the last bytes may have filled libcurl's buffer
    bool doubtful;          // those before the last may have: see on_silence
    bool held;
    bool too_large;
    bool finished;
    bool entered, cancelled;
    CURLcode result;
    char why[CURL_ERROR_SIZE];
};

static void must(CURLMcode code)
{
    assert(code == CURLM_OK);
    (void)code;
}

// --- The loop for libcurl ------------------------------------------------------------------------

static void drain(struct https *h);

static void on_closed(uv_handle_t *handle)
{
    struct https *h = handle->data;
    if (--h->open == 0 && h->freed)
        free(h);
}

static void on_watched_closed(uv_handle_t *handle)
{
    struct watched *w = container_of(handle, struct watched, poll);
    on_closed(handle);
    free(w);
}

static void on_quiet(uv_timer_t *timer);

// listen_for_quiet comes before drain, which may free h.
static void listen_for_quiet(struct https *h)
{
    if (!list_empty(&h->calls))
        (void)uv_timer_start(&h->quiet, on_quiet, QUIET_MS, 0);
}

static void prod(struct https *h);

// libcurl 7.88 and 8.0 can miss the end of an HTTP/2 stream. While one call reads from the connection, the
// bytes of another go into that one's buffer. When it is full, libcurl pauses nghttp2 inside the DATA
// frame, hands out what is in the buffer, then the rest of the frame, and goes on with the bytes behind
// it. If there are none, because the frame ended what was read, it does not call nghttp2 again, which
// therefore has not got to the frame's END_STREAM. No waking of libcurl helps then: only more bytes on
// the connection do, and if all its other streams are silent watches, there are none. So if a call
// that is not over may be in that state, as its last bytes came behind a full buffer, and nothing
// more comes, the server is asked for something to say.
static void on_silence(uv_timer_t *timer)
{
    struct https *h = container_of(timer, struct https, quiet);
    bool doubtful = false;
    if (h->prodding)
        return; // there will be bytes, and quiet after them
    h->doubtful = false;
    list_foreach(&h->calls, n) {
        struct https_call *call = container_of(n, struct https_call, node);
        doubtful = doubtful || call->doubtful;
        call->doubtful = false; // once is enough
    }
    if (doubtful)
        prod(h);
}

// libcurl 7.88 also leaves bytes lying in the connection's buffer: having handed out the rest of the
// frame at which it had paused nghttp2, it marks the call to be run again but sets no timer, and waits
// for the socket, which may have nothing more to say. Told that it has, libcurl runs all calls on it.
// Once after each time that something came is enough.
static void on_quiet(uv_timer_t *timer)
{
    struct https *h = container_of(timer, struct https, quiet);
    struct VEC(curl_socket_t) fds = {0};
    int running;
    list_foreach(&h->sockets, n)
        vec_push(&fds, container_of(n, struct watched, node)->fd);
    h->moved = false;
    for (size_t i = 0; i < fds.n; i++) // those that are gone by then are ignored
        must(libcurl.multi_socket_action(h->multi, fds.p[i], CURL_CSELECT_IN, &running));
    vec_done(&fds);
    if (h->moved)
        listen_for_quiet(h);
    else if (h->doubtful)
        (void)uv_timer_start(&h->quiet, on_silence, SILENCE_MS, 0);
    drain(h);
}

static void on_readiness(uv_poll_t *poll, int status, int events)
{
    struct watched *w = container_of(poll, struct watched, poll);
    struct https *h = w->https;
    int flags = status < 0 ? CURL_CSELECT_ERR : 0;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    int running;
    must(libcurl.multi_socket_action(h->multi, w->fd, flags, &running)); // w may be gone
    listen_for_quiet(h);
    drain(h);
}

static void on_timer(uv_timer_t *timer)
{
    struct https *h = container_of(timer, struct https, timer);
    int running;
    h->moved = false;
    must(libcurl.multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running));
    if (h->moved)
        listen_for_quiet(h);
    drain(h);
}

static int want_timer(CURLM *multi, long timeout_ms, void *arg)
{
    (void)multi;
    struct https *h = arg;
    if (h->freed)
        return 0;
    if (timeout_ms < 0) {
        (void)uv_timer_stop(&h->timer);
        return 0;
    }
    uv_update_time(loop_uv(h->loop));
    (void)uv_timer_start(&h->timer, on_timer, (uint64_t)timeout_ms, 0);
    return 0;
}

static void unwatch(struct watched *w)
{
    (void)uv_poll_stop(&w->poll);
    list_remove(&w->node);
    uv_close((uv_handle_t *)&w->poll, on_watched_closed);
}

static struct watched *watch_socket(struct https *h, curl_socket_t fd)
{
    struct watched *w = xcalloc(1, sizeof(*w));
    w->https = h;
    w->fd = fd;
    if (uv_poll_init_socket(loop_uv(h->loop), &w->poll, fd) < 0) {
        free(w);
        return NULL;
    }
    w->poll.data = h;
    list_push_back(&h->sockets, &w->node);
    h->open++;
    must(libcurl.multi_assign(h->multi, fd, w));
    return w;
}

static int want_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *assigned)
{
    (void)easy;
    struct https *h = arg;
    struct watched *w = assigned;
    if (what == CURL_POLL_REMOVE) {
        if (w)
            unwatch(w);
        return 0;
    }
    if (!w && !(w = watch_socket(h, fd)))
        return -1;
    int events = 0;
    if (what & CURL_POLL_IN)
        events |= UV_READABLE;
    if (what & CURL_POLL_OUT)
        events |= UV_WRITABLE;
    return uv_poll_start(&w->poll, events, on_readiness) < 0 ? -1 : 0;
}

// --- Inside libcurl ------------------------------------------------------------------------------

static void make_ready(struct https_call *call)
{
    if (!list_linked(&call->ready))
        list_push_back(&call->https->ready, &call->ready);
}

// The first bytes of a body share libcurl's buffer with the headers, hence the half.
static void note_size(struct https_call *call, size_t n)
{
    call->doubtful = call->filled && call->may_miss_end;
    call->filled = n >= READ_BUFFER / 2;
    if (call->doubtful)
        call->https->doubtful = true;
}

static size_t take_body(char *p, size_t size, size_t count, void *arg)
{
    struct https_call *call = arg;
    size_t n = size * count;
    if (call->cancelled)
        return n;
    call->https->moved = true;
    if (!call->began) {
        long status = 0, version = 0;
        (void)libcurl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        (void)libcurl.easy_getinfo(call->easy, CURLINFO_HTTP_VERSION, &version);
        call->began = true;
        call->may_miss_end = call->https->misses_ends && version == CURL_HTTP_VERSION_2;
        call->streaming = call->data && status >= 200 && status < 300;
    }
    if (call->streaming) {
        if (call->held || call->in.n >= STREAM_BYTES_HIGH) {
            call->full = true;
            return CURL_WRITEFUNC_PAUSE;
        }
        make_ready(call);
    } else if (call->in.n + n > call->https->body_bytes) {
        call->too_large = true;
        return 0;
    }
    sbuf_add(&call->in, str_make(p, n));
    note_size(call, n);
    return n;
}

// --- After libcurl -------------------------------------------------------------------------------

// detach takes a call from libcurl and returns its handle. What libcurl 7.88 keeps for a call that was told
// to wait, it neither frees nor forgets when others use the connection: the handle's next call would get it.
// So it is taken off it, while that can be done.
static CURL *detach(struct https_call *call)
{
    call->cancelled = true; // from now on take_body drops what comes
    if (call->full && !call->finished)
        (void)libcurl.easy_pause(call->easy, CURLPAUSE_CONT);
    must(libcurl.multi_remove_handle(call->https->multi, call->easy));
    return take_ptr(call->easy);
}

static void call_free(struct https_call *call)
{
    struct https *h = call->https;
    list_remove(&call->node);
    list_remove(&call->ready);
    if (call->easy) {
        CURL *easy = detach(call);
        bool clean = !(call->full && call->finished); // see detach
        if (clean && h->spare.n < SPARE_HANDLES) {
            libcurl.easy_reset(easy);
            vec_push(&h->spare, easy);
        } else {
            libcurl.easy_cleanup(easy);
        }
    }
    libcurl.slist_free_all(call->headers);
    free(call->body);
    sbuf_done(&call->in);
    free(call);
}

// unsent: libcurl failed before there was a connection to send anything on.
static bool unsent(CURLcode code)
{
    switch ((int)code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return true;
    default:
        return false;
    }
}

static int failure(const struct https_call *call, struct err *err)
{
    const char *why = call->why[0] ? call->why : libcurl.easy_strerror(call->result);
    const char *url = call->https->url;
    switch ((int)call->result) {
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(err, ERR_TIMEOUT, "no answer from %s in time: %s", url, why);
    case CURLE_PEER_FAILED_VERIFICATION:
        return err_set(err, ERR_UNAVAILABLE,
                       "the certificate of %s is not to be trusted: %s; give its CA "
                       "(certificate-authority)",
                       url, why);
    case CURLE_SSL_CERTPROBLEM:
        return err_set(err, ERR_UNAVAILABLE, "the client certificate for %s is of no use: %s", url,
                       why);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return err_set(err, ERR_UNAVAILABLE, "cannot reach %s: %s; is the server running?", url,
                       why);
    default:
        return err_set(err, ERR_UNAVAILABLE, "the connection to %s failed: %s", url, why);
    }
}

// The server's clock, by its Date header; 0 when there is none.
static int64_t date_of(CURL *easy)
{
    struct curl_header *h = NULL;
    if (libcurl.easy_header(easy, "Date", 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return 0;
    time_t t = libcurl.getdate(h->value, NULL);
    return t > 0 ? (int64_t)t : 0;
}

static void tell_done(struct https_call *call)
{
    struct err err = {0};
    struct https_answer answer = {.body = sbuf_str(&call->in)};
    if (call->too_large) {
        answer.code = err_set(&err, ERR_TOO_LARGE, "the answer has more than %zu bytes",
                              call->https->body_bytes);
    } else if (call->result != CURLE_OK) {
        answer.code = failure(call, &err);
        answer.unsent = unsent(call->result);
    } else {
        long status = 0;
        curl_off_t retry_after = 0;
        (void)libcurl.easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        (void)libcurl.easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &retry_after);
        answer.status = (int)status;
        answer.retry_after_seconds = (int64_t)retry_after;
        answer.date_seconds = date_of(call->easy);
    }
    answer.err = answer.code ? &err : NULL;
    call->done(call->arg, &answer);
}

static void tell_data(struct https_call *call)
{
    struct sbuf bytes = call->in;
    call->in = (struct sbuf){0};
    call->data(call->arg, sbuf_str(&bytes));
    if (call->in.p) { // cannot be: bytes only come from libcurl
        sbuf_done(&bytes);
        return;
    }
    sbuf_clear(&bytes);
    call->in = bytes;
    if (call->in.cap > STREAM_BYTES_HIGH)
        sbuf_done(&call->in);
}

static void settle(struct https_call *call)
{
    call->entered = true;
    if (call->streaming && call->in.n > 0 && !call->held)
        tell_data(call);
    if (call->finished && !call->cancelled && !(call->streaming && call->in.n > 0)) {
        tell_done(call);
        call->cancelled = true; // over
    }
    call->entered = false;
    if (call->cancelled) {
        call_free(call);
    } else if (call->full && !call->held) {
        call->full = false;
        // May hand out what libcurl kept for it, at once.
        (void)libcurl.easy_pause(call->easy, CURLPAUSE_CONT);
        call->https->unsettled = true;
    }
}

static void note_finished(struct https *h)
{
    int left;
    for (const CURLMsg *m; (m = libcurl.multi_info_read(h->multi, &left));) {
        struct https_call *call = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        (void)libcurl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        call->finished = true;
        h->moved = true;
        call->result = m->data.result;
        make_ready(call);
    }
}

// drain tells everybody what has come. Callbacks may start and cancel calls and free the client.
static void drain(struct https *h)
{
    if (h->draining)
        return;
    h->draining = true;
    h->open++; // keeps h, whatever the callbacks do
    do {
        h->unsettled = false;
        note_finished(h);
        for (struct list_node *n; !h->freed && (n = list_pop_front(&h->ready));)
            settle(container_of(n, struct https_call, ready));
    } while (h->unsettled && !h->freed);
    h->draining = false;
    if (--h->open == 0 && h->freed)
        free(h);
}

// --- Calls ---------------------------------------------------------------------------------------

#define set(easy, option, value)                                   \
    do {                                                           \
        CURLcode set_r = libcurl.easy_setopt(easy, option, value); \
        assert(set_r == CURLE_OK);                                 \
        (void)set_r;                                               \
    } while (0)

static void add_header(struct https_call *call, const char *name, struct str value)
{
    struct sbuf line = {0};
    sbuf_addf(&line, "%s: %.*s", name, STR_ARG(value));
    call->headers = libcurl.slist_append(call->headers, line.p);
    sbuf_done(&line);
}

// The CA stays as long as the client; an identity may change while a call is under way.
static void set_blob(CURL *easy, CURLoption option, const struct sbuf *pem)
{
    if (pem->n == 0)
        return;
    struct curl_blob blob = {
        .data = pem->p,
        .len = pem->n,
        .flags = option == CURLOPT_CAINFO_BLOB ? CURL_BLOB_NOCOPY : CURL_BLOB_COPY,
    };
    set(easy, option, &blob);
}

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg, (void)purpose;
    const int count = KEEPALIVE_COUNT;
    const unsigned unacknowledged = UNACKNOWLEDGED_MS;
    // Of a Unix socket neither means anything.
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged, sizeof(unacknowledged));
    return CURL_SOCKOPT_OK;
}

static void set_server(struct https_call *call)
{
    struct https *h = call->https;
    CURL *easy = call->easy;
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
    set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, h->connect_timeout_ms);
    set(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    set(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS);
    set(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS);
    set(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    if (h->user_agent)
        set(easy, CURLOPT_USERAGENT, h->user_agent);
    if (h->unix_socket)
        set(easy, CURLOPT_UNIX_SOCKET_PATH, h->unix_socket);
    if (h->proxy)
        set(easy, CURLOPT_PROXY, h->proxy);
    if (h->no_proxy)
        set(easy, CURLOPT_NOPROXY, "*");
    if (h->connect_to)
        set(easy, CURLOPT_CONNECT_TO, h->connect_to);
    if (!h->tls)
        return;
    // One connection for all: whoever comes while it is being made waits to see whether it takes
    // more than one request at a time.
    set(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    set(easy, CURLOPT_PIPEWAIT, 1L);
    set(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    set(easy, CURLOPT_SSL_VERIFYPEER, h->insecure ? 0L : 1L);
    set(easy, CURLOPT_SSL_VERIFYHOST, h->insecure ? 0L : 2L);
    set_blob(easy, CURLOPT_CAINFO_BLOB, &h->ca);
    set_blob(easy, CURLOPT_SSLCERT_BLOB, &h->certificate);
    set_blob(easy, CURLOPT_SSLKEY_BLOB, &h->key);
}

static void set_request(struct https_call *call, const struct https_request *q)
{
    CURL *easy = call->easy;
    struct sbuf url = {0};
    sbuf_addf(&url, "%s%.*s", call->https->url, STR_ARG(q->target));
    set(easy, CURLOPT_URL, url.p);
    sbuf_done(&url);
    if (q->content_type.n)
        add_header(call, "Content-Type", q->content_type);
    if (q->accept.n)
        add_header(call, "Accept", q->accept);
    if (q->authorization.n)
        add_header(call, "Authorization", q->authorization);
    if (call->https->server_name)
        add_header(call, "Host", str_z(call->https->host_header->data));
    if (q->body.n) {
        call->headers = libcurl.slist_append(call->headers, "Expect:");
        call->body = xstrndup(q->body.p, q->body.n);
        set(easy, CURLOPT_POSTFIELDS, call->body);
        set(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->body.n);
    }
    if (q->body.n || strcmp(q->method, "GET") != 0)
        set(easy, CURLOPT_CUSTOMREQUEST, q->method);
    if (call->headers)
        set(easy, CURLOPT_HTTPHEADER, call->headers);
    if (q->timeout_ms > 0)
        set(easy, CURLOPT_TIMEOUT_MS, (long)q->timeout_ms);
}

static struct https_call *call_new(struct https *h, const struct https_request *q)
{
    struct https_call *call = xcalloc(1, sizeof(*call));
    call->https = h;
    call->data = q->data;
    call->done = q->done;
    call->arg = q->arg;
    call->easy = h->spare.n ? vec_pop(&h->spare) : libcurl.easy_init();
    assert(call->easy);
    set(call->easy, CURLOPT_PRIVATE, call);
    set(call->easy, CURLOPT_ERRORBUFFER, call->why);
    set(call->easy, CURLOPT_WRITEFUNCTION, take_body);
    set(call->easy, CURLOPT_WRITEDATA, call);
    set_server(call);
    set_request(call, q);
    return call;
}

static void call_send(struct https_call *call)
{
    list_push_back(&call->https->calls, &call->node);
    must(libcurl.multi_add_handle(call->https->multi, call->easy));
}

struct https_call *https_start(struct https *h, const struct https_request *q)
{
    assert(!h->freed && q->done);
    struct https_call *call = call_new(h, q);
    call_send(call);
    return call;
}

static void on_prodded(void *arg, const struct https_answer *answer)
{
    struct https *h = arg;
    (void)answer; // that it came is what counts
    h->prodding = false;
    listen_for_quiet(h);
}

// prod makes the server say something on the connection that new calls go to, which is the only one
// unless there are more calls than the server takes streams on one. "OPTIONS *" is what HTTP has
// for that: it asks for nothing (RFC 9110, 9.3.7). libcurl cannot send a PING for a multi handle.
static void prod(struct https *h)
{
    const struct https_request q = {
        .method = "OPTIONS", .timeout_ms = PROD_TIMEOUT_MS, .done = on_prodded, .arg = h};
    struct https_call *call = call_new(h, &q);
    set(call->easy, CURLOPT_REQUEST_TARGET, "*");
    h->prodding = true;
    call_send(call);
}

void https_cancel(struct https_call *call)
{
    assert(!call->cancelled);
    call->cancelled = true;
    if (!call->entered)
        call_free(call);
}

void https_hold(struct https_call *call, bool hold)
{
    call->held = hold;
    if (hold || call->entered)
        return;
    if (call->in.n > 0 || call->full)
        make_ready(call);
    // Not from here: whoever calls does not expect data before this has returned.
    if (list_linked(&call->ready))
        (void)uv_timer_start(&call->https->timer, on_timer, 0, 0);
}

// --- Life ----------------------------------------------------------------------------------------

static char *copy(struct str s)
{
    return s.n ? xstrndup(s.p, s.n) : NULL;
}

static int get_part(CURLU *url, CURLUPart part, unsigned flags, struct sbuf *out)
{
    char *text = NULL;
    if (libcurl.url_get(url, part, &text, flags) != CURLUE_OK)
        return -ERR_INVALID;
    sbuf_addz(out, text);
    libcurl.free(text);
    return 0;
}

// name_server lets libcurl ask for, and check, another name than that of the host it connects to; the
// Host header keeps the URL's.
static int name_server(struct https *h, CURLU *url)
{
    cleanup_sbuf struct sbuf host = {0}, port = {0}, line = {0};
    if (get_part(url, CURLUPART_HOST, 0, &host) < 0 ||
        get_part(url, CURLUPART_PORT, CURLU_DEFAULT_PORT, &port) < 0 ||
        libcurl.url_set(url, CURLUPART_HOST, h->server_name, 0) != CURLUE_OK)
        return -ERR_INVALID;
    sbuf_addf(&line, "%s:%s", host.p, port.p);
    h->host_header = libcurl.slist_append(NULL, line.p);
    sbuf_clear(&line);
    sbuf_addf(&line, "%s:%s:%s:%s", h->server_name, port.p, host.p, port.p);
    h->connect_to = libcurl.slist_append(NULL, line.p);
    return 0;
}

// read_url normalises the URL: scheme, host, port and the prefix without its slash.
static int read_url(struct https *h, struct str text, struct err *err)
{
    CURLU *url = libcurl.url();
    assert(url);
    cleanup_sbuf struct sbuf whole = {0}, scheme = {0};
    char *z = xstrndup(text.p, text.n);
    int r = libcurl.url_set(url, CURLUPART_URL, z, 0) == CURLUE_OK ? 0 : -ERR_INVALID;
    free(z);
    if (r == 0)
        r = get_part(url, CURLUPART_SCHEME, 0, &scheme);
    if (r == 0 && strcmp(scheme.p, "https") != 0 && strcmp(scheme.p, "http") != 0)
        r = -ERR_INVALID;
    h->tls = r == 0 && strcmp(scheme.p, "https") == 0;
    if (r == 0 && h->server_name)
        r = name_server(h, url);
    if (r == 0)
        r = get_part(url, CURLUPART_URL, 0, &whole);
    libcurl.url_cleanup(url);
    if (r < 0)
        return err_set(err, ERR_INVALID, "'%.*s' is not the URL of a server: https://HOST[:PORT]",
                       STR_ARG(text));
    while (whole.n > 0 && whole.p[whole.n - 1] == '/')
        sbuf_truncate(&whole, whole.n - 1);
    h->url = sbuf_take(&whole);
    return 0;
}

static bool misses_ends(void)
{
    unsigned version = libcurl.version_info(CURLVERSION_NOW)->version_num;
    return version >= MISSES_ENDS_SINCE && version < MISSES_ENDS_UNTIL;
}

static void set_multi(struct https *h, size_t connections)
{
    h->multi = libcurl.multi_init();
    assert(h->multi);
    must(libcurl.multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, want_socket));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, want_timer));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_TIMERDATA, h));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, STREAMS_MAX));
    must(libcurl.multi_setopt(h->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
                              (long)(connections ? connections : CONNECTIONS_DEFAULT)));
}

static void release(struct https *h)
{
    if (h->multi)
        must(libcurl.multi_cleanup(h->multi)); // closes the connections, unwatches their sockets
    h->multi = NULL;
    libcurl.slist_free_all(h->connect_to);
    libcurl.slist_free_all(h->host_header);
    free(h->url);
    free(h->unix_socket);
    free(h->server_name);
    free(h->proxy);
    free(h->user_agent);
    sbuf_done(&h->ca);
    sbuf_done(&h->certificate);
    sbuf_done(&h->key);
    vec_done(&h->spare);
}

int https_new(struct loop *loop, const struct https_options *options, struct https **ret,
              struct err *err)
{
    int r = libcurl_load(err);
    if (r < 0)
        return r;
    struct https *h = xcalloc(1, sizeof(*h));
    h->loop = loop;
    list_init(&h->calls);
    list_init(&h->ready);
    list_init(&h->sockets);
    h->unix_socket = copy(options->unix_socket);
    h->server_name = copy(options->server_name);
    h->proxy = copy(options->proxy);
    h->no_proxy = options->no_proxy;
    h->user_agent = copy(options->user_agent);
    h->insecure = options->insecure;
    h->body_bytes = options->body_bytes ? options->body_bytes : BODY_BYTES_DEFAULT;
    h->connect_timeout_ms =
        options->connect_timeout_ms ? (long)options->connect_timeout_ms : CONNECT_TIMEOUT_DEFAULT;
    sbuf_add(&h->ca, options->ca_pem);
    r = read_url(h, options->url, err);
    if (r < 0) {
        release(h);
        free(h);
        return r;
    }
    h->misses_ends = misses_ends();
    set_multi(h, options->connections);
    (void)uv_timer_init(loop_uv(loop), &h->timer);
    (void)uv_timer_init(loop_uv(loop), &h->quiet);
    h->timer.data = h->quiet.data = h;
    h->open = 2;
    *ret = h;
    return 0;
}

void https_free(struct https *h)
{
    if (!h)
        return;
    assert(!h->freed);
    list_foreach(&h->calls, n) {
        struct https_call *call = container_of(n, struct https_call, node);
        if (!call->entered) {
            call_free(call);
            continue;
        }
        // Its own callback frees the client; settle frees the call.
        libcurl.easy_cleanup(detach(call));
    }
    h->freed = true;
    vec_foreach(&h->spare, easy)
        libcurl.easy_cleanup(*easy);
    vec_clear(&h->spare);
    release(h);
    (void)uv_timer_stop(&h->timer);
    uv_close((uv_handle_t *)&h->timer, on_closed);
    uv_close((uv_handle_t *)&h->quiet, on_closed);
}

void https_set_identity(struct https *h, struct str certificate_pem, struct str key_pem)
{
    sbuf_clear(&h->certificate);
    sbuf_clear(&h->key);
    sbuf_add(&h->certificate, certificate_pem);
    sbuf_add(&h->key, key_pem);
}

// SPDX-License-Identifier: Apache-2.0
//
// The gRPC client: one connection, made again when it is lost, and its calls.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include <sys/un.h>

#include "base/backoff.h"
#include "codec/percent.h"
#include "net/grpc/grpc_int.h"

#include "base/banned.h"

#define BACKOFF_MIN_NS CLOCK_NS_PER_SEC
#define BACKOFF_MAX_NS (120 * CLOCK_NS_PER_SEC)

// Calls completed in one turn of the loop: a failed one may be retried by its owner.
#define LATE_BATCH 64

enum link_state {
    LINK_CONNECTING,
    LINK_READY,
    LINK_FAILED, // waits before the next attempt
};

struct grpc_client {
    struct exec *exec;
    struct uv_loop_s *uv; // NULL without sockets
    struct grpc_limits limits;
    char *path;
    int64_t backoff_min_ns, backoff_max_ns, backoff_ns;
    void (*state)(void *arg, bool connected);
    void *arg;
    enum link_state link;
    int64_t ready_ns;
    struct grpc_sock *connecting; // has no connection yet
    struct grpc_conn *conn;       // takes calls, or will
    struct list leaving;          // struct leaver: have calls, take no more
    struct list calls;            // all
    struct list late;             // calls with something to tell from the timer
    struct exec_timer retry;      // also bounds an attempt
    struct exec_timer soon;
    size_t handles;
    size_t in_bytes;
    bool freed;
    char why[192]; // the last failure
};

struct leaver {
    struct list_node node;
    struct grpc_conn *conn;
};

struct grpc_client_call {
    struct grpc_stream stream;
    struct grpc_client *client;
    struct list_node node;
    struct list_node late;
    struct exec_timer deadline;
    int64_t deadline_ns;
    struct str path, message;
    struct grpc_meta_list meta;
    bool wait_for_ready, sent, has_response, retried;
    bool over;      // status and why are set
    bool delivered; // done was called
    enum grpc_status status;
    struct str why;
    struct str response;
    void (*received)(void *arg, struct str message);
    void (*done)(void *arg, const struct grpc_result *result);
    void *arg;
};

static struct grpc_client_call *grpc_client_call_of_stream(struct grpc_stream *s)
{
    return container_of(s, struct grpc_client_call, stream);
}

static void connect_now(struct grpc_client *c);
static void grpc_client_on_sock_gone(void *arg);

// --- The end of calls ----------------------------------------------------------------------------

static bool own_trailer(const struct grpc_meta *m)
{
    return str_eqz(m->name, "grpc-status") || str_eqz(m->name, "grpc-message") ||
           str_eqz(m->name, "content-type");
}

static void only_metadata(struct grpc_meta_list *l)
{
    size_t n = 0;
    vec_foreach(l, m)
        if (!own_trailer(m))
            l->p[n++] = *m;
    l->n = n;
}

// Calls done and frees the call.
static void grpc_client_deliver_messages(struct grpc_client_call *k)
{
    assert(k->over);
    struct grpc_stream *s = &k->stream;
    exec_timer_stop(k->client->exec, &k->deadline);
    list_remove(&k->node);
    list_remove(&k->late);
    only_metadata(&s->headers);
    only_metadata(&s->trailers);
    const struct grpc_result result = {
        .status = k->status,
        .message = k->why,
        .response = k->status == GRPC_OK ? k->response : (struct str){0},
        .headers = s->headers.p,
        .headers_len = s->headers.n,
        .trailers = s->trailers.p,
        .trailers_len = s->trailers.n,
    };
    struct grpc_client *c = k->client;
    bool before = s->entered;
    s->entered = k->delivered = true;
    c->handles++; // done may free the client
    k->done(k->arg, &result);
    s->entered = before;
    grpc_stream_free(s, k->status == GRPC_OK ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
    grpc_client_on_sock_gone(c);
}

static void grpc_client_set_end(struct grpc_client_call *k, enum grpc_status status, struct str why)
{
    if (k->over)
        return;
    k->over = true;
    k->status = status;
    k->why = arena_str(&k->stream.arena, why);
}

static void deliver_one(struct grpc_client_call *k)
{
    struct grpc_stream *s = &k->stream;
    if (k->over) {
        grpc_client_deliver_messages(k);
        return;
    }
    s->entered = true;
    s->ops->event(s);
    s->entered = false;
    if (s->orphan)
        grpc_stream_release(s);
}

static void deliver_late(void *arg)
{
    struct grpc_client *c = arg;
    struct list_node *node;
    c->handles++; // a call may free the client
    for (int i = 0; i < LATE_BATCH && !c->freed && (node = list_pop_front(&c->late)); i++)
        deliver_one(list_entry(node, struct grpc_client_call, late));
    if (!c->freed && !list_empty(&c->late) && !exec_timer_armed(&c->soon))
        exec_timer_start(c->exec, &c->soon, 0);
    grpc_client_on_sock_gone(c);
}

static void tell_late(struct grpc_client_call *k)
{
    struct grpc_client *c = k->client;
    if (list_linked(&k->late))
        return;
    list_push_back(&c->late, &k->late);
    if (!exec_timer_armed(&c->soon))
        exec_timer_start(c->exec, &c->soon, 0);
}

static void grpc_client_on_deadline(void *arg)
{
    struct grpc_client_call *k = arg;
    grpc_client_set_end(k, GRPC_DEADLINE_EXCEEDED, STR("the deadline has passed"));
    grpc_client_deliver_messages(k);
}

void grpc_client_cancel(struct grpc_client_call *call)
{
    grpc_client_set_end(call, GRPC_CANCELLED, STR("the call was cancelled"));
    tell_late(call);
}

void grpc_client_pause(struct grpc_client_call *call, bool paused)
{
    call->stream.paused = paused;
    if (paused || call->stream.entered)
        return;
    if (call->stream.conn)
        grpc_stream_touch(&call->stream);
    else if (call->stream.closed)
        tell_late(call);
}

// --- Answers -------------------------------------------------------------------------------------

static void grpc_client_take_message(struct grpc_client_call *k, struct str message)
{
    if (k->received) {
        k->received(k->arg, message);
    } else if (k->has_response) {
        grpc_client_set_end(k, GRPC_INTERNAL, STR("the server sent more than one message"));
    } else {
        k->has_response = true;
        k->response = arena_str(&k->stream.arena, message);
    }
}

static void take_messages(struct grpc_client_call *k)
{
    struct grpc_stream *s = &k->stream;
    while (!k->over && !s->paused && !s->orphan) {
        struct str message;
        size_t used;
        enum grpc_status status =
            grpc_frame_next(grpc_stream_in(s), k->client->limits.message_bytes, &message, &used);
        if (status == GRPC_UNIMPLEMENTED)
            grpc_client_set_end(k, status, STR("the server sent a compressed message"));
        else if (status == GRPC_INTERNAL)
            grpc_client_set_end(k, status, STR("the server sent a message with an unknown flag"));
        else if (status != GRPC_OK)
            grpc_client_set_end(k, status, STR("the server sent a message larger than the limit"));
        if (used == 0)
            return;
        grpc_client_take_message(k, message);
        if (!s->orphan)
            grpc_stream_take(s, used);
    }
}

// The status of an answer that ended by itself.
static void end_of_trailers(struct grpc_client_call *k)
{
    struct grpc_stream *s = &k->stream;
    const struct grpc_meta_list *l = &s->trailers;
    struct str status = grpc_meta_find(l, STR("grpc-status"));
    if (!status.n) {
        l = &s->headers; // an answer of nothing but trailers
        status = grpc_meta_find(l, STR("grpc-status"));
    }
    if (status.n) {
        enum grpc_status code = grpc_status_read(status);
        struct str why = grpc_meta_find(l, STR("grpc-message"));
        if (code == GRPC_OK && grpc_stream_in(s).n)
            grpc_client_set_end(k, GRPC_INTERNAL, STR("the server's last message is not whole"));
        else if (code == GRPC_OK && !k->received && !k->has_response)
            grpc_client_set_end(k, GRPC_INTERNAL, STR("the server sent no message"));
        else
            grpc_client_set_end(k, code, percent_decode_lenient(why, &s->arena));
        return;
    }
    cleanup_sbuf struct sbuf why = {0};
    sbuf_addf(&why, "the server answered with HTTP status %d and no grpc-status", s->h2.status);
    grpc_client_set_end(k, s->h2.status == 200 ? GRPC_INTERNAL : grpc_status_of_http(s->h2.status),
                        sbuf_str(&why));
}

static void end_of_stream(struct grpc_client_call *k)
{
    struct grpc_stream *s = &k->stream;
    cleanup_sbuf struct sbuf why = {0};
    if (s->overflow) {
        grpc_client_set_end(k, GRPC_RESOURCE_EXHAUSTED, STR("the server's answer is too large"));
    } else if (s->remote_end && s->headers_done) {
        end_of_trailers(k);
    } else if (s->lost) {
        sbuf_addf(&why, "%s: %s", k->client->path, s->conn ? s->conn->why : "connection lost");
        grpc_client_set_end(k, GRPC_UNAVAILABLE, sbuf_str(&why));
    } else {
        sbuf_addf(&why, "the server reset the call (HTTP/2 code %u)", (unsigned)s->close_code);
        grpc_client_set_end(k, grpc_status_of_reset(s->close_code), sbuf_str(&why));
    }
}

static bool send_call(struct grpc_client_call *k);

// A call that the server refused unprocessed goes out once more.
static bool try_again(struct grpc_client_call *k)
{
    struct grpc_stream *s = &k->stream;
    if (k->retried || s->lost || s->headers_done || s->close_code != NGHTTP2_REFUSED_STREAM)
        return false;
    k->retried = true;
    k->sent = false;
    list_remove(&s->node);
    list_remove(&s->ready);
    s->conn = NULL;
    s->closed = false;
    s->close_code = 0;
    outq_done(&s->h2.out);
    s->h2 = (struct h2_stream){0};
    if (k->client->link == LINK_READY && !k->client->conn->peer_leaves)
        (void)send_call(k);
    return true;
}

static void client_event(struct grpc_stream *s)
{
    struct grpc_client_call *k = grpc_client_call_of_stream(s);
    if (k->over)
        return; // the timer completes it
    if (s->closed && try_again(k))
        return;
    take_messages(k);
    if (s->orphan || s->paused)
        return;
    if (!k->over && (s->closed || s->remote_end || s->overflow))
        end_of_stream(k);
    if (k->over && !s->orphan)
        grpc_client_deliver_messages(k);
}

static void client_release(struct grpc_stream *s)
{
    free(grpc_client_call_of_stream(s));
}

static struct grpc_stream *client_open(struct grpc_conn *c)
{
    (void)c;
    return NULL; // servers open no streams
}

// --- Calls ---------------------------------------------------------------------------------------

static void copy_meta(struct grpc_client_call *k, const struct grpc_request *q)
{
    struct arena *a = &k->stream.arena;
    for (size_t i = 0; i < q->meta_len; i++)
        if (!grpc_meta_reserved(q->meta[i].name))
            vec_push_arena(a, &k->meta,
                           ((struct grpc_meta){arena_str(a, q->meta[i].name),
                                               arena_str(a, q->meta[i].value)}));
}

// False: the connection takes no more; the call is over.
static bool send_call(struct grpc_client_call *k)
{
    struct grpc_client *c = k->client;
    struct grpc_stream *s = &k->stream;
    nghttp2_nv *fields = arena_array(&s->arena, nghttp2_nv, 8 + k->meta.n);
    cleanup_sbuf struct sbuf timeout = {0};
    size_t n = 0;
    fields[n++] = h2_field(STR(":method"), STR("POST"));
    fields[n++] = h2_field(STR(":scheme"), STR("http"));
    fields[n++] = h2_field(STR(":path"), k->path);
    fields[n++] = h2_field(STR(":authority"), STR("localhost"));
    fields[n++] = h2_field(STR("te"), STR("trailers"));
    fields[n++] = h2_field(STR("content-type"), STR("application/grpc"));
    fields[n++] = h2_field(STR("user-agent"), STR("dray-grpc"));
    if (k->deadline_ns != INT64_MAX) {
        grpc_timeout_write(k->deadline_ns - exec_now_ns(c->exec), &timeout);
        fields[n++] = h2_field(STR("grpc-timeout"), sbuf_str(&timeout));
    }
    vec_foreach(&k->meta, m)
        fields[n++] = h2_field(m->name, m->value);
    grpc_stream_message(s, k->message);
    s->h2.out_end = true;
    k->sent = true;
    if (grpc_stream_request(s, c->conn, fields, n))
        return true;
    grpc_client_set_end(k, GRPC_UNAVAILABLE, STR("the connection takes no more calls"));
    tell_late(k);
    grpc_conn_lose(c->conn, "the numbers of streams are used up");
    return false;
}

static const struct grpc_conn_ops client_ops;

static void fail_unsent(struct grpc_client_call *k)
{
    grpc_client_set_end(k, GRPC_UNAVAILABLE, str_z(k->client->why));
    tell_late(k);
}

struct grpc_client_call *grpc_client_call(struct grpc_client *c, const struct grpc_request *q)
{
    assert(q->done && !c->freed);
    struct grpc_client_call *k = xcalloc(1, sizeof(*k));
    struct arena *a = &k->stream.arena;
    k->client = c;
    k->stream.ops = &client_ops;
    k->stream.in_total = &c->in_bytes;
    k->path = arena_str(a, q->method);
    k->message = arena_str(a, q->message);
    copy_meta(k, q);
    k->wait_for_ready = q->wait_for_ready;
    k->received = q->received;
    k->done = q->done;
    k->arg = q->arg;
    k->deadline.fn = grpc_client_on_deadline;
    k->deadline.arg = k;
    k->deadline_ns = INT64_MAX;
    list_push_back(&c->calls, &k->node);
    if (q->timeout_ns > 0) {
        k->deadline_ns = exec_now_ns(c->exec) + q->timeout_ns;
        exec_timer_start(c->exec, &k->deadline, q->timeout_ns);
    }
    if (q->message.n > UINT32_MAX) {
        grpc_client_set_end(k, GRPC_RESOURCE_EXHAUSTED, STR("the message is too large for gRPC"));
        tell_late(k);
    } else if (c->link == LINK_READY) {
        (void)send_call(k);
    } else if (c->link == LINK_FAILED && !k->wait_for_ready) {
        fail_unsent(k);
    }
    return k;
}

// --- Connection ----------------------------------------------------------------------------------

static void grpc_client_maybe_free(struct grpc_client *c)
{
    if (!c->freed || c->handles > 0)
        return;
    free(c->path);
    free(c);
}

static void grpc_client_on_sock_gone(void *arg)
{
    struct grpc_client *c = arg;
    c->handles--;
    grpc_client_maybe_free(c);
}

// Between four and six fifths of the time that it is now; the next one is longer.
static int64_t next_backoff(struct grpc_client *c)
{
    const struct backoff_policy p = {.first_ns = c->backoff_min_ns,
                                     .max_ns = c->backoff_max_ns,
                                     .growth_percent = 160,
                                     .sooner_percent = 20,
                                     .later_percent = 20};
    int64_t now_ns = c->backoff_ns;
    c->backoff_ns = backoff_grow_ns(&p, now_ns);
    return backoff_spread_ns(&p, now_ns, c->exec->rng);
}

static void attempt_failed(struct grpc_client *c, const char *why)
{
    c->link = LINK_FAILED;
    (void)snprintf(c->why, sizeof(c->why), "cannot connect to %.100s: %.60s", c->path, why);
    exec_timer_start(c->exec, &c->retry, next_backoff(c));
    list_foreach(&c->calls, node) {
        struct grpc_client_call *k = list_entry(node, struct grpc_client_call, node);
        if (!k->sent && !k->over && !k->wait_for_ready)
            fail_unsent(k);
    }
}

static void grpc_client_on_retry(void *arg)
{
    struct grpc_client *c = arg;
    if (c->link == LINK_FAILED) {
        connect_now(c);
    } else if (c->link == LINK_CONNECTING && c->conn) {
        grpc_conn_lose(c->conn, "the server does not introduce itself");
    }
}

static void grpc_client_on_connected(void *arg, int r)
{
    struct grpc_client *c = arg;
    struct grpc_sock *k = take_ptr(c->connecting);
    if (!k)
        return;
    if (r < 0 || c->freed) {
        grpc_sock_drop(k);
        if (!c->freed)
            attempt_failed(c, uv_strerror(r));
        return;
    }
    struct grpc_conn *conn = grpc_sock_conn(k);
    conn->ops = &client_ops;
    conn->exec = c->exec;
    conn->limits = &c->limits;
    conn->in_bytes = &c->in_bytes;
    conn->owner = c;
    c->conn = conn;
    grpc_sock_start(k);
}

static void connect_now(struct grpc_client *c)
{
    c->link = LINK_CONNECTING;
    exec_timer_start(c->exec, &c->retry, c->limits.connect_timeout_ns);
    if (!c->uv)
        return;
    if (strlen(c->path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        attempt_failed(c, "the path is too long for a socket");
        return;
    }
    c->connecting = grpc_sock_new(c->uv, grpc_client_on_sock_gone, c);
    c->handles++;
    grpc_sock_connect(c->connecting, c->path, grpc_client_on_connected);
}

// After a connection that lasted, at once; else as after a failure, so that a server that dies of
// each connection is left alone for a while.
static void grpc_client_schedule_reconnect(struct grpc_client *c, const char *why)
{
    bool lasted = c->link == LINK_READY && exec_now_ns(c->exec) - c->ready_ns >= c->backoff_min_ns;
    if (!lasted) {
        attempt_failed(c, why);
        return;
    }
    c->backoff_ns = c->backoff_min_ns;
    connect_now(c);
}

static void client_ready(struct grpc_conn *conn)
{
    struct grpc_client *c = conn->owner;
    if (c->conn != conn)
        return;
    c->link = LINK_READY;
    c->ready_ns = exec_now_ns(c->exec);
    exec_timer_stop(c->exec, &c->retry);
    list_foreach(&c->calls, node) {
        struct grpc_client_call *k = list_entry(node, struct grpc_client_call, node);
        if (!k->sent && !k->over && !send_call(k))
            break;
    }
    if (c->state)
        c->state(c->arg, true);
}

static void client_leaving(struct grpc_conn *conn)
{
    struct grpc_client *c = conn->owner;
    if (c->conn != conn)
        return;
    // What it has goes on; the next calls want another connection.
    bool was_ready = c->link == LINK_READY;
    struct leaver *l = xcalloc(1, sizeof(*l));
    l->conn = conn;
    list_push_back(&c->leaving, &l->node);
    c->conn = NULL;
    grpc_client_schedule_reconnect(c, "the server stops");
    if (was_ready && c->state)
        c->state(c->arg, false);
}

static void client_gone(struct grpc_conn *conn)
{
    struct grpc_client *c = conn->owner;
    list_foreach(&c->leaving, node) {
        struct leaver *l = list_entry(node, struct leaver, node);
        if (l->conn == conn) {
            list_remove(&l->node);
            free(l);
        }
    }
    if (c->conn != conn)
        return;
    bool was_ready = c->link == LINK_READY;
    c->conn = NULL;
    if (c->freed)
        return;
    grpc_client_schedule_reconnect(c, conn->why);
    if (was_ready && c->state)
        c->state(c->arg, false);
}

static const struct grpc_conn_ops client_ops = {
    .open = client_open,
    .event = client_event,
    .release = client_release,
    .ready = client_ready,
    .leaving = client_leaving,
    .gone = client_gone,
};

// --- Life ----------------------------------------------------------------------------------------

struct grpc_client *grpc_client_new_on(struct exec *e, const struct grpc_client_options *o)
{
    struct grpc_client *c = xcalloc(1, sizeof(*c));
    c->exec = e;
    c->limits = o->limits;
    grpc_limits_fill(&c->limits);
    c->path = xstrndup(o->path, strlen(o->path));
    c->backoff_min_ns = o->backoff_min_ns > 0 ? o->backoff_min_ns : BACKOFF_MIN_NS;
    c->backoff_max_ns = o->backoff_max_ns > 0 ? o->backoff_max_ns : BACKOFF_MAX_NS;
    c->backoff_ns = c->backoff_min_ns;
    c->state = o->state;
    c->arg = o->arg;
    list_init(&c->leaving);
    list_init(&c->calls);
    list_init(&c->late);
    c->retry.fn = grpc_client_on_retry;
    c->soon.fn = deliver_late;
    c->retry.arg = c->soon.arg = c;
    return c;
}

struct grpc_client *grpc_client_new(const struct grpc_client_options *o)
{
    struct grpc_client *c = grpc_client_new_on(loop_exec(o->loop), o);
    c->uv = loop_uv(o->loop);
    connect_now(c);
    return c;
}

void grpc_client_adopt(struct grpc_client *c, struct grpc_conn *conn)
{
    conn->ops = &client_ops;
    conn->exec = c->exec;
    conn->limits = &c->limits;
    conn->in_bytes = &c->in_bytes;
    conn->owner = c;
    c->conn = conn;
    grpc_conn_init(conn);
}

void grpc_client_free(struct grpc_client *c)
{
    if (!c)
        return;
    assert(!c->freed);
    c->freed = true;
    c->handles++; // until the end of this function
    c->state = NULL;
    exec_timer_stop(c->exec, &c->retry);
    while (!list_empty(&c->calls)) {
        struct grpc_client_call *k = list_entry(c->calls.head.next, struct grpc_client_call, node);
        grpc_client_set_end(k, GRPC_CANCELLED, STR("the client is closed"));
        grpc_client_deliver_messages(k);
    }
    exec_timer_stop(c->exec, &c->soon);
    if (c->connecting)
        grpc_sock_drop(take_ptr(c->connecting));
    list_foreach(&c->leaving, node)
        grpc_conn_end(list_entry(node, struct leaver, node)->conn, "closed");
    if (c->conn)
        grpc_conn_end(c->conn, "closed");
    grpc_client_on_sock_gone(c);
}

bool grpc_client_connected(const struct grpc_client *c)
{
    return c->link == LINK_READY;
}

// SPDX-License-Identifier: Apache-2.0
//
// The gRPC server: calls, listening, stopping.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include <sys/stat.h>

#include "base/map.h"
#include "net/grpc/grpc_int.h"
#include "net/http/server_int.h"

#include "base/banned.h"

#define BACKLOG 128

// A longer grpc-message is cut: peers bound what they take of headers.
#define MESSAGE_BYTES_MAX ((size_t)4096)

struct method {
    char *name;
    grpc_handler handler;
    void *arg;
};

struct method_map MAP(struct method);

struct grpc_listener {
    uv_pipe_t pipe;
    struct list_node node;
    struct grpc_server *server;
    bool waiting; // a connection could not be taken yet
};

struct server_conn {
    struct list_node node;
    struct grpc_conn *conn;
    struct grpc_server *server;
};

struct grpc_server {
    struct exec *exec;
    struct uv_loop_s *uv; // NULL without sockets
    struct grpc_limits limits;
    struct method_map methods;
    struct list listeners;
    struct list conns;
    size_t conns_len;
    size_t handles; // sockets whose memory is still there
    size_t in_bytes;
    bool stopping, freed;
    struct exec_timer grace;
    exec_fn stopped;
    void *stopped_arg;
};

struct server_call {
    struct grpc_call call; // first, so that a pointer to it is a pointer to this
    struct grpc_stream stream;
    struct grpc_server *server;
    struct exec_timer deadline;
    struct grpc_meta_list headers; // of the answer
    struct grpc_meta_list trailers;
    bool begun;    // headers were looked at
    bool handed;   // the handler has it
    bool started;  // headers were sent
    bool finished; // the status was queued
};

static struct server_call *grpc_server_call_of_stream(struct grpc_stream *s)
{
    return container_of(s, struct server_call, stream);
}

// --- Answers -------------------------------------------------------------------------------------

static struct server_call *grpc_server_call_of_public(struct grpc_call *call)
{
    return container_of(call, struct server_call, call);
}

static void grpc_server_add_meta(struct server_call *k, struct grpc_meta_list *l, struct str name,
                                 struct str value)
{
    struct arena *a = &k->stream.arena;
    vec_push_arena(a, l, ((struct grpc_meta){arena_str(a, name), arena_str(a, value)}));
}

void grpc_add_header(struct grpc_call *call, struct str name, struct str value)
{
    if (!grpc_meta_reserved(name))
        grpc_server_add_meta(grpc_server_call_of_public(call),
                             &grpc_server_call_of_public(call)->headers, name, value);
}

void grpc_add_trailer(struct grpc_call *call, struct str name, struct str value)
{
    if (!grpc_meta_reserved(name))
        grpc_server_add_meta(grpc_server_call_of_public(call),
                             &grpc_server_call_of_public(call)->trailers, name, value);
}

// Sends the first headers; with `last`, they are all there is.
static void send_head(struct server_call *k, const struct grpc_meta_list *last)
{
    struct grpc_stream *s = &k->stream;
    size_t n = 0;
    nghttp2_nv *fields =
        arena_array(&s->arena, nghttp2_nv, 3 + k->headers.n + (last ? last->n : 0));
    fields[n++] = h2_field(STR(":status"), STR("200"));
    fields[n++] = h2_field(STR("content-type"), STR("application/grpc"));
    fields[n++] = h2_field(STR("grpc-accept-encoding"), STR("identity"));
    vec_foreach(&k->headers, m)
        fields[n++] = h2_field(m->name, m->value);
    if (last)
        vec_foreach(last, m)
            fields[n++] = h2_field(m->name, m->value);
    k->started = true;
    grpc_stream_respond(s, fields, n, !last);
}

bool grpc_send(struct grpc_call *call, struct str message)
{
    struct server_call *k = grpc_server_call_of_public(call);
    assert(!k->finished);
    if (!k->started)
        send_head(k, NULL);
    grpc_stream_message(&k->stream, message);
    grpc_stream_wake(&k->stream);
    bool full = k->stream.h2.out.bytes > k->server->limits.queued_bytes;
    k->stream.was_full |= full;
    return !full;
}

void grpc_finish(struct grpc_call *call, enum grpc_status status, struct str message)
{
    struct server_call *k = grpc_server_call_of_public(call);
    struct grpc_stream *s = &k->stream;
    assert(!k->finished);
    k->finished = true;
    exec_timer_stop(k->server->exec, &k->deadline);
    cleanup_sbuf struct sbuf text = {0};
    sbuf_add_u64(&text, (uint64_t)status);
    grpc_server_add_meta(k, &s->end_fields, STR("grpc-status"), sbuf_str(&text));
    if (status != GRPC_OK && message.n) {
        sbuf_clear(&text);
        grpc_percent_encode(str_upto(message, MESSAGE_BYTES_MAX), &text);
        grpc_server_add_meta(k, &s->end_fields, STR("grpc-message"), sbuf_str(&text));
    }
    vec_foreach(&k->trailers, m)
        vec_push_arena(&s->arena, &s->end_fields, *m);
    if (!k->started) {
        send_head(k, &s->end_fields);
    } else {
        s->h2.out_end = s->h2.out_trailers = true;
        grpc_stream_wake(s);
    }
}

void grpc_reply(struct grpc_call *call, struct str message)
{
    (void)grpc_send(call, message);
    grpc_finish(call, GRPC_OK, (struct str){0});
}

// --- Calls ---------------------------------------------------------------------------------------

// Notifies the handler, if it holds the call, that the call is gone.
static void grpc_server_release_call(struct server_call *k)
{
    if (k->handed && !k->finished && k->call.closed)
        k->call.closed(k->call.arg);
}

static void grpc_server_on_deadline(void *arg)
{
    struct server_call *k = arg;
    k->stream.entered = true;
    grpc_server_release_call(k);
    k->stream.entered = false;
    if (k->stream.orphan) { // the server was freed meanwhile
        grpc_stream_release(&k->stream);
        return;
    }
    if (!k->finished)
        grpc_finish(&k->call, GRPC_DEADLINE_EXCEEDED, STR("the deadline has passed"));
}

static void grpc_server_refuse_call(struct server_call *k, enum grpc_status status, const char *why)
{
    grpc_finish(&k->call, status, str_z(why));
}

static void refuse_http(struct server_call *k, const char *status)
{
    const nghttp2_nv fields[] = {h2_field(STR(":status"), str_z(status))};
    k->finished = k->started = true;
    grpc_stream_respond(&k->stream, fields, 1, false);
}

// Looks at the headers of a new call.
static void grpc_server_begin_call(struct server_call *k)
{
    struct grpc_stream *s = &k->stream;
    k->begun = true;
    k->call.method = s->path;
    k->call.meta = s->headers.p;
    k->call.meta_len = s->headers.n;
    k->call.arena = &s->arena;
    k->call.deadline_ns = INT64_MAX;
    struct str encoding = grpc_meta_find(&s->headers, STR("grpc-encoding"));
    struct str timeout = grpc_meta_find(&s->headers, STR("grpc-timeout"));
    int64_t wait_ns = 0;
    if (!str_eqz(s->method, "POST"))
        refuse_http(k, "405");
    else if (!str_starts(grpc_meta_find(&s->headers, STR("content-type")), STR("application/grpc")))
        refuse_http(k, "415");
    else if (s->overflow)
        grpc_server_refuse_call(k, GRPC_RESOURCE_EXHAUSTED, "the metadata is too large");
    else if (timeout.n && grpc_timeout_read(timeout, &wait_ns) < 0)
        grpc_server_refuse_call(k, GRPC_INTERNAL, "grpc-timeout is not one");
    else if (encoding.n && !str_eqz(encoding, "identity"))
        grpc_server_refuse_call(k, GRPC_UNIMPLEMENTED, "compression is not supported");
    else if (!map_has(&k->server->methods, s->path)) {
        cleanup_sbuf struct sbuf why = {0};
        sbuf_addf(&why, "unknown method %.*s", STR_ARG(s->path));
        grpc_finish(&k->call, GRPC_UNIMPLEMENTED, sbuf_str(&why));
    } else if (timeout.n) {
        k->call.deadline_ns = exec_now_ns(k->server->exec) + wait_ns;
        exec_timer_start(k->server->exec, &k->deadline, wait_ns);
    }
}

// Looks at what has come of the request; hands it over when it is whole.
static void grpc_server_gather_message(struct server_call *k)
{
    struct grpc_stream *s = &k->stream;
    struct str message = {0};
    struct str in = grpc_stream_in(s);
    size_t used = 0;
    if (s->overflow) {
        grpc_server_refuse_call(k, GRPC_RESOURCE_EXHAUSTED,
                                "too many requests with large messages at once");
        return;
    }
    enum grpc_status status = grpc_frame_next(in, k->server->limits.message_bytes, &message, &used);
    if (status != GRPC_OK) {
        grpc_server_refuse_call(k, status,
                                status == GRPC_UNIMPLEMENTED ? "compression is not supported"
                                : status == GRPC_INTERNAL    ? "the message has an unknown flag"
                                                          : "the message is larger than the limit");
    } else if (used && used < in.n) {
        grpc_server_refuse_call(k, GRPC_UNIMPLEMENTED, "the method takes one message, not several");
    } else if (s->remote_end && !used) {
        grpc_server_refuse_call(k, in.n ? GRPC_INTERNAL : GRPC_UNIMPLEMENTED,
                                in.n ? "the message is not whole" : "the method takes one message");
    } else if (s->remote_end) {
        const struct method *m = map_get(&k->server->methods, s->path);
        assert(m); // begin has looked, and methods are not taken away
        k->call.request = message;
        k->handed = true;
        m->handler(m->arg, &k->call);
    }
}

static void server_event(struct grpc_stream *s)
{
    struct server_call *k = grpc_server_call_of_stream(s);
    if (s->closed) {
        exec_timer_stop(k->server->exec, &k->deadline);
        grpc_server_release_call(k);
        if (!s->orphan)
            grpc_stream_free(s, NGHTTP2_NO_ERROR);
        return;
    }
    if (s->headers_done && !k->begun)
        grpc_server_begin_call(k);
    if (k->begun && !k->handed && !k->finished)
        grpc_server_gather_message(k);
    if (s->orphan)
        return;
    if (k->finished && !k->handed)
        grpc_stream_take(s, s->in.n - s->in_used); // refused: the rest is of no interest
    if (s->was_full && s->h2.out.bytes < k->server->limits.queued_bytes / 2) {
        s->was_full = false;
        if (k->handed && !k->finished && k->call.drained)
            k->call.drained(k->call.arg);
    }
}

static struct grpc_server *grpc_server_of_conn(struct grpc_conn *c)
{
    return c->owner;
}

static struct grpc_stream *server_open(struct grpc_conn *c)
{
    struct server_call *k = xcalloc(1, sizeof(*k));
    k->server = grpc_server_of_conn(c);
    k->deadline.fn = grpc_server_on_deadline;
    k->deadline.arg = k;
    return &k->stream;
}

static void server_release(struct grpc_stream *s)
{
    struct server_call *k = grpc_server_call_of_stream(s);
    exec_timer_stop(k->server->exec, &k->deadline);
    free(k);
}

static void server_ready(struct grpc_conn *c)
{
    (void)c;
}

// --- Connections ---------------------------------------------------------------------------------

static void accept_one(struct grpc_listener *l);

static void grpc_server_check_stopped(struct grpc_server *s)
{
    if (!s->stopping || s->conns_len > 0 || !s->stopped)
        return;
    exec_timer_stop(s->exec, &s->grace);
    exec_post(s->exec, s->stopped, s->stopped_arg);
    s->stopped = NULL;
}

static void server_gone(struct grpc_conn *c)
{
    struct grpc_server *s = grpc_server_of_conn(c);
    list_foreach(&s->conns, node) {
        struct server_conn *sc = list_entry(node, struct server_conn, node);
        if (sc->conn == c) {
            list_remove(&sc->node);
            free(sc);
        }
    }
    s->conns_len--;
    if (s->stopping) {
        grpc_server_check_stopped(s);
        return;
    }
    list_foreach(&s->listeners, node) {
        struct grpc_listener *l = list_entry(node, struct grpc_listener, node);
        if (l->waiting && s->conns_len < s->limits.connections) {
            l->waiting = false;
            accept_one(l);
        }
    }
}

static const struct grpc_conn_ops server_ops = {
    .open = server_open,
    .event = server_event,
    .release = server_release,
    .ready = server_ready,
    .leaving = server_ready,
    .gone = server_gone,
};

static void grpc_server_maybe_free(struct grpc_server *s)
{
    if (!s->freed || s->handles > 0)
        return;
    map_foreach(&s->methods, i)
        free(map_value(&s->methods, i)->name);
    map_done(&s->methods);
    free(s);
}

static void grpc_server_on_sock_gone(void *arg)
{
    struct grpc_server *s = arg;
    s->handles--;
    grpc_server_maybe_free(s);
}

static void prepare_conn(struct grpc_server *s, struct grpc_conn *c)
{
    c->ops = &server_ops;
    c->exec = s->exec;
    c->limits = &s->limits;
    c->server = true;
    c->in_bytes = &s->in_bytes;
    c->owner = s;
    struct server_conn *sc = xcalloc(1, sizeof(*sc));
    sc->conn = c;
    sc->server = s;
    list_push_back(&s->conns, &sc->node);
    s->conns_len++;
}

void grpc_server_adopt(struct grpc_server *s, struct grpc_conn *c)
{
    prepare_conn(s, c);
    grpc_conn_init(c);
}

static void accept_one(struct grpc_listener *l)
{
    struct grpc_server *s = l->server;
    struct grpc_sock *k = grpc_sock_new(s->uv, grpc_server_on_sock_gone, s);
    s->handles++;
    if (uv_accept((uv_stream_t *)&l->pipe, (uv_stream_t *)grpc_sock_pipe(k)) < 0) {
        grpc_sock_drop(k);
        return;
    }
    prepare_conn(s, grpc_sock_conn(k));
    grpc_sock_start(k);
}

static void grpc_server_on_connection(uv_stream_t *stream, int status)
{
    struct grpc_listener *l = container_of((uv_pipe_t *)stream, struct grpc_listener, pipe);
    if (status < 0)
        return; // out of file descriptors: libuv has turned the peer away
    if (l->server->conns_len < l->server->limits.connections)
        accept_one(l);
    else
        l->waiting = true;
}

// --- Life ----------------------------------------------------------------------------------------

struct grpc_server *grpc_server_new_on(struct exec *e, const struct grpc_limits *limits)
{
    struct grpc_server *s = xcalloc(1, sizeof(*s));
    s->exec = e;
    if (limits)
        s->limits = *limits;
    grpc_limits_fill(&s->limits);
    list_init(&s->listeners);
    list_init(&s->conns);
    return s;
}

struct grpc_server *grpc_server_new(struct loop *loop, const struct grpc_limits *limits)
{
    struct grpc_server *s = grpc_server_new_on(loop_exec(loop), limits);
    s->uv = loop_uv(loop);
    return s;
}

void grpc_server_handle(struct grpc_server *s, struct str method, grpc_handler handler, void *arg)
{
    struct method *m = map_get(&s->methods, method);
    if (!m) {
        char *name = xstrndup(method.p, method.n);
        m = map_put(&s->methods, str_make(name, method.n));
        m->name = name;
    }
    m->handler = handler;
    m->arg = arg;
}

static void grpc_server_on_listener_closed(uv_handle_t *handle)
{
    struct grpc_listener *l = container_of((uv_pipe_t *)handle, struct grpc_listener, pipe);
    struct grpc_server *s = l->server;
    free(l);
    grpc_server_on_sock_gone(s);
}

static void close_listeners(struct grpc_server *s)
{
    struct list_node *node;
    while ((node = list_pop_front(&s->listeners))) {
        struct grpc_listener *l = list_entry(node, struct grpc_listener, node);
        uv_close((uv_handle_t *)&l->pipe, grpc_server_on_listener_closed);
    }
}

int grpc_server_listen(struct grpc_server *s, const char *path, struct err *err)
{
    int r = net_clear_path(path, err);
    if (r < 0)
        return r;
    struct grpc_listener *l = xcalloc(1, sizeof(*l));
    l->server = s;
    s->handles++;
    (void)uv_pipe_init(s->uv, &l->pipe, 0);
    r = uv_pipe_bind(&l->pipe, path);
    // No client can connect before uv_listen, so there is no moment with a wider mode.
    if (r == 0 && chmod(path, 0600) < 0)
        r = -errno;
    if (r == 0)
        r = uv_listen((uv_stream_t *)&l->pipe, BACKLOG, grpc_server_on_connection);
    if (r < 0) {
        uv_close((uv_handle_t *)&l->pipe, grpc_server_on_listener_closed);
        return err_set(err, -r, "cannot listen on %s: %s", path, uv_strerror(r));
    }
    list_push_back(&s->listeners, &l->node);
    return 0;
}

// Those that are ending already, around us, go on by themselves.
static struct grpc_conn *first_alive(const struct grpc_server *s)
{
    list_foreach(&s->conns, node) {
        struct grpc_conn *c = list_entry(node, struct server_conn, node)->conn;
        if (!c->ended)
            return c;
    }
    return NULL;
}

static void end_connections(struct grpc_server *s, const char *why)
{
    struct grpc_conn *c;
    while ((c = first_alive(s)))
        grpc_conn_end(c, why);
}

static void grpc_server_on_grace_over(void *arg)
{
    end_connections(arg, "the server stops");
}

void grpc_server_stop(struct grpc_server *s, int64_t grace_ns, exec_fn done, void *arg)
{
    s->stopped = done;
    s->stopped_arg = arg;
    if (!s->stopping) {
        s->stopping = true;
        close_listeners(s);
        list_foreach(&s->conns, node)
            grpc_conn_leave(list_entry(node, struct server_conn, node)->conn);
        s->grace.fn = grpc_server_on_grace_over;
        s->grace.arg = s;
        exec_timer_start(s->exec, &s->grace, grace_ns);
    }
    grpc_server_check_stopped(s);
}

void grpc_server_free(struct grpc_server *s)
{
    if (!s)
        return;
    assert(!s->freed);
    s->stopping = true;
    s->stopped = NULL;
    exec_timer_stop(s->exec, &s->grace);
    close_listeners(s);
    end_connections(s, "the server stops");
    s->freed = true;
    grpc_server_maybe_free(s);
}

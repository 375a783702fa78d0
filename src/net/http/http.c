// SPDX-License-Identifier: Apache-2.0
//
// The server and its streams, as far as no protocol and no socket is concerned.
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/civil.h"
#include "net/http/relief.h"

#include "base/banned.h"

// Streams kept for reuse, and how much of an arena is kept with them.
#define POOL_MAX       ((size_t)64)
#define POOL_ARENA_MAX ((size_t)8 * 1024)

#define OR_DEFAULT(value, fallback) ((value) ? (value) : (fallback))

// --- Server --------------------------------------------------------------------------------------

void http_server_init(struct http_server *s, struct exec *exec,
                      const struct http_server_options *options)
{
    const struct http_limits *l = &options->limits;
    *s = (struct http_server){
        .exec = exec,
        .handle = options->handle,
        .refusal = options->refusal,
        .arg = options->arg,
        .tls = options->tls,
        .date_sec = -1,
        .limits =
            {
                .header_bytes = OR_DEFAULT(l->header_bytes, (size_t)64 * 1024),
                .body_bytes = OR_DEFAULT(l->body_bytes, DRAY_REQUEST_BYTES_MAX),
                .connections = OR_DEFAULT(l->connections, 10000),
                .streams = OR_DEFAULT(l->streams, 250),
                .queued_bytes = OR_DEFAULT(l->queued_bytes, (size_t)1024 * 1024),
                .answers_bytes = OR_DEFAULT(l->answers_bytes, (size_t)512 * 1024 * 1024),
                .header_timeout_ns = OR_DEFAULT(l->header_timeout_ns, 10 * CLOCK_NS_PER_SEC),
                .body_timeout_ns = OR_DEFAULT(l->body_timeout_ns, 30 * CLOCK_NS_PER_SEC),
                .idle_timeout_ns = OR_DEFAULT(l->idle_timeout_ns, 90 * CLOCK_NS_PER_SEC),
                .give_way_ns = OR_DEFAULT(l->give_way_ns, CLOCK_NS_PER_SEC),
            },
    };
    list_init(&s->conns);
    list_init(&s->dirty);
    list_init(&s->pool);
}

static void stream_destroy(struct stream *s)
{
    sbuf_done(&s->body);
    outq_done(&s->h2.out);
    arena_done(&s->arena);
    free(s);
}

void http_server_done(struct http_server *s)
{
    assert(list_empty(&s->conns));
    list_foreach(&s->pool, node)
        stream_destroy(list_entry(node, struct stream, node));
}

void http_server_flush(struct http_server *s)
{
    // Those that are marked again while they are flushed wait for the next turn.
    struct list now;
    list_init(&now);
    while (!list_empty(&s->dirty))
        list_push_back(&now, list_pop_front(&s->dirty));
    while (!list_empty(&now))
        conn_flush(list_entry(list_pop_front(&now), struct conn, dirty));
}

struct str http_server_date(struct http_server *s)
{
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    int64_t now = exec_wall_ns(s->exec) / CLOCK_NS_PER_SEC;
    if (now < 0)
        now = 0;
    if (now != s->date_sec) {
        struct civil_date d = civil_from_days(now / 86400);
        int sec = (int)(now % 86400);
        (void)snprintf(s->date, sizeof(s->date), "%s, %02d %s %04d %02d:%02d:%02d GMT",
                       days[(now / 86400 + 4) % 7], // 1970 began on a Thursday
                       d.day, months[d.month - 1], (int)(d.year % 10000), sec / 3600, sec / 60 % 60,
                       sec % 60);
        s->date_sec = now;
    }
    return str_z(s->date);
}

struct str http_refusal(struct http_server *s, int status, const char *why, struct sbuf *body)
{
    s->stats.refused++;
    if (s->refusal)
        return s->refusal(s->arg, status, why, body);
    sbuf_addf(body, "%d %s: %s\n", status, http_reason(status), why);
    return STR("text/plain; charset=utf-8");
}

void http_server_get_stats(const struct http_server *s, struct http_server_stats *ret)
{
    *ret = s->stats;
}

// --- Streams -------------------------------------------------------------------------------------

struct stream *http_stream_new(struct conn *c)
{
    struct http_server *server = c->server;
    struct stream *s;
    struct list_node *node = list_pop_front(&server->pool);
    if (node) {
        s = list_entry(node, struct stream, node);
        struct arena kept = s->arena;
        *s = (struct stream){.arena = kept};
        server->pooled--;
    } else {
        s = xcalloc(1, sizeof(*s));
    }
    s->conn = c;
    s->queue_max = server->limits.queued_bytes;
    s->began_ns = exec_now_ns(server->exec);
    s->q.arena = &s->arena;
    s->q.tls = c->tls;
    s->q.peer = c->peer;
    s->q.certificate = c->certificate;
    list_push_back(&c->live, &s->node);
    c->streams++;
    server->stats.streams++;
    return s;
}

void http_stream_free(struct stream *s)
{
    struct http_server *server = s->conn->server;
    list_remove(&s->node);
    s->conn->streams--;
    s->conn->served_ns = exec_now_ns(server->exec);
    s->conn->patient -= s->patient;
    server->stats.streams--;
    http_stream_drop_body(s);
    if (server->pooled >= POOL_MAX) {
        stream_destroy(s);
        return;
    }
    outq_done(&s->h2.out);
    if (s->arena.used_bytes > POOL_ARENA_MAX)
        arena_done(&s->arena);
    else
        arena_reset(&s->arena);
    list_push_front(&server->pool, &s->node);
    server->pooled++;
}

bool http_stream_grow_body(struct stream *s, size_t n)
{
    struct http_server *server = s->conn->server;
    if (server->body_bytes + n > SERVER_BODIES_MAX)
        relief_bodies(server, s);
    if (server->body_bytes + n > SERVER_BODIES_MAX)
        return false;
    server->body_bytes += n;
    s->body_counted += n;
    return true;
}

void http_stream_drop_body(struct stream *s)
{
    s->conn->server->body_bytes -= s->body_counted;
    s->body_counted = 0;
    sbuf_done(&s->body);
}

void http_stream_dispatch(struct stream *s)
{
    struct http_server *server = s->conn->server;
    assert(s->state == STREAM_READING);
    s->state = STREAM_HANDLING;
    s->head_only = str_eqz(s->q.method, "HEAD");
    server->stats.requests++;
    server->handle(server->arg, &s->q);
}

void http_stream_complete(struct stream *s)
{
    struct conn *c = s->conn;
    s->state = STREAM_COMPLETE;
    s->finish_at = c->out.pushed;
    list_remove(&s->node);
    list_push_back(&c->finishing, &s->node);
}

void http_stream_gone(struct stream *s)
{
    enum stream_state was = s->state;
    s->state = STREAM_COMPLETE;
    if ((was == STREAM_HANDLING || was == STREAM_STREAMING) && s->q.closed)
        s->q.closed(s->q.arg);
}

// --- Answers -------------------------------------------------------------------------------------

static struct stream *stream_of(struct http_request *q)
{
    return container_of(q, struct stream, q);
}

void http_reply(struct http_request *q, int status, struct str content_type,
                const struct http_header *extra, size_t extra_len, struct net_buf *body)
{
    struct stream *s = stream_of(q);
    const struct proto_ops *proto = s->conn->proto;
    struct http_server *server = s->conn->server;
    assert(s->state == STREAM_HANDLING);
    int64_t length = body ? (int64_t)body->bytes.n : 0;
    s->state = STREAM_STREAMING;
    proto->start(s, status, content_type, extra, extra_len, length);
    if (body && body->bytes.n && !s->head_only)
        proto->write(s, body);
    else
        net_buf_unref(body);
    s->state = STREAM_COMPLETE;
    proto->end(s);
    relief_count(server, (size_t)length);
}

void http_start(struct http_request *q, int status, struct str content_type,
                const struct http_header *extra, size_t extra_len)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_HANDLING);
    s->state = STREAM_STREAMING;
    s->conn->proto->start(s, status, content_type, extra, extra_len, -1);
}

void http_upgrade(struct http_request *q, struct str protocol, const struct http_header *extra,
                  size_t extra_len)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_HANDLING && s->conn->proto->upgrade && q->input);
    s->state = STREAM_STREAMING;
    s->head_only = false;
    s->conn->proto->upgrade(s, protocol, extra, extra_len);
    http_set_patient(q);
}

void http_hold(struct http_request *q, bool hold)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_STREAMING);
    if (s->held == hold)
        return;
    s->held = hold;
    s->conn->proto->hold(s, hold);
}

void http_set_patient(struct http_request *q)
{
    struct stream *s = stream_of(q);
    s->conn->patient += !s->patient;
    s->patient = true;
}

bool http_write(struct http_request *q, struct net_buf *b)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_STREAMING);
    size_t bytes = b->bytes.n;
    if (bytes && !s->head_only)
        s->conn->proto->write(s, b);
    else
        net_buf_unref(b);
    relief_count(s->conn->server, bytes);
    if (http_queued(q) <= s->queue_max)
        return true;
    s->over = s->conn->any_over = true;
    return false;
}

void http_set_queue(struct http_request *q, size_t bytes)
{
    stream_of(q)->queue_max = bytes;
}

void http_end(struct http_request *q)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_STREAMING);
    s->state = STREAM_COMPLETE;
    s->conn->proto->end(s);
}

void http_abort(struct http_request *q)
{
    struct stream *s = stream_of(q);
    assert(s->state == STREAM_STREAMING || s->state == STREAM_HANDLING);
    s->state = STREAM_COMPLETE;
    s->conn->proto->abort(s);
}

size_t http_queued(const struct http_request *q)
{
    const struct stream *s = container_of(q, const struct stream, q);
    return s->conn->proto->queued(s);
}

struct str http_find_header(const struct http_request *q, struct str name)
{
    for (size_t i = 0; i < q->headers_len; i++)
        if (str_eq(q->headers[i].name, name))
            return q->headers[i].value;
    return (struct str){0};
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {100, "Continue"},
        {101, "Switching Protocols"},
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {206, "Partial Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {410, "Gone"},
        {412, "Precondition Failed"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < array_len(reasons); i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

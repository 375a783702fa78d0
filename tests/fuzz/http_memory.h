// SPDX-License-Identifier: Apache-2.0
//
// A connection of the HTTP server without sockets: bytes are given to it, what it writes is kept, the
// clock is fake. Its handler answers at once, later, whole or streamed, as the path says.
#ifndef FUZZ_HTTP_MEMORY_H
#define FUZZ_HTTP_MEMORY_H

#include <assert.h>
#include <stdlib.h>

#include "net/http/http_int.h"

struct memory_conn {
    struct conn conn; // first, so that a pointer to it is a pointer to this
    struct memory *memory;
};

struct held_list VEC(struct http_request *);

struct memory {
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct http_server server;
    struct memory_conn *conn; // NULL when it is closed
    struct sbuf out;
    struct sbuf log;       // what the handler saw
    struct held_list held; // requests without an answer yet
    size_t handled, answered, closed;
    bool shut;
};

struct held_arg {
    struct memory *memory;
    struct http_request *q;
};

// A request that is not held was answered, or closed before.
static inline void memory_forget(struct memory *m, const struct http_request *q)
{
    size_t i = 0;
    while (i < m->held.n && m->held.p[i] != q)
        i++;
    assert(i < m->held.n);
    m->held.p[i] = m->held.p[--m->held.n];
}

static inline void memory_on_closed(void *arg)
{
    struct held_arg *h = arg;
    h->memory->closed++;
    memory_forget(h->memory, h->q);
}

// The handler: the second byte of the path tells how to answer.
static inline void memory_handle(void *arg, struct http_request *q)
{
    struct memory *m = arg;
    m->handled++;
    sbuf_addf(&m->log, "%.*s %.*s|%.*s %zu:%.*s\n", STR_ARG(q->method), STR_ARG(q->path),
              STR_ARG(q->query), q->headers_len, STR_ARG(q->body));
    struct held_arg *h = arena_one(q->arena, struct held_arg);
    *h = (struct held_arg){m, q};
    q->closed = memory_on_closed;
    q->arg = h;
    char how = q->path.n > 1 ? q->path.p[1] : ' ';
    if (how == 'h' || how == 's') { // hold, stream
        if (how == 's')
            http_start(q, 200, STR("text/plain"), NULL, 0);
        vec_push(&m->held, q);
        return;
    }
    m->answered++;
    if (how == 'a')
        http_abort(q);
    else if (how == 'b')
        http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_copy(q->body));
    else
        http_reply(q, how == 'n' ? 204 : 404, STR("text/plain"), NULL, 0,
                   net_buf_copy(STR("text")));
}

// memory_release answers all requests that are held.
static inline void memory_release(struct memory *m)
{
    while (m->held.n) {
        struct http_request *q = m->held.p[--m->held.n];
        m->answered++;
        if (q->path.n > 1 && q->path.p[1] == 's') {
            struct sbuf big = {0};
            sbuf_add_repeat(&big, 'x', 3000);
            (void)http_write(q, net_buf_copy(STR("one")));
            (void)http_write(q, net_buf_new(&big));
            http_end(q);
        } else {
            http_reply(q, 200, STR("text/plain"), NULL, 0, net_buf_copy(q->target));
        }
    }
}

static inline struct memory *memory_of(struct conn *c)
{
    return container_of(c, struct memory_conn, conn)->memory;
}

static inline void memory_io_flush(struct conn *c)
{
    struct memory *m = memory_of(c);
    size_t n = c->out.bytes;
    (void)outq_gather(&c->out, sbuf_space(&m->out, n), n);
    sbuf_commit(&m->out, n);
    outq_drop(&c->out, n);
}

static inline void memory_io_read(struct conn *c, bool on)
{
    (void)c, (void)on;
}

static inline void memory_io_shutdown(struct conn *c)
{
    memory_of(c)->shut = true;
}

static inline void memory_io_close(struct conn *c)
{
    memory_of(c)->conn = NULL;
    free(container_of(c, struct memory_conn, conn));
}

static const struct conn_io memory_io = {
    .flush = memory_io_flush,
    .read = memory_io_read,
    .shutdown = memory_io_shutdown,
    .close = memory_io_close,
};

static inline struct memory *memory_new(const struct http_limits *limits,
                                        const struct proto_ops *proto)
{
    struct memory *m = xcalloc(1, sizeof(*m));
    clock_fake_init(&m->clock, 1000000000 * CLOCK_NS_PER_SEC);
    m->clock.mono = CLOCK_NS_PER_SEC;
    rng_seeded_init(&m->rng, 1);
    m->sim = exec_sim_new(&m->clock, &m->rng.rng);
    struct http_server_options options = {.limits = *limits, .handle = memory_handle, .arg = m};
    http_server_init(&m->server, exec_sim_exec(m->sim), &options);
    m->conn = xcalloc(1, sizeof(*m->conn));
    m->conn->memory = m;
    conn_init(&m->conn->conn, &m->server, &memory_io, false);
    if (proto)
        conn_choose(&m->conn->conn, proto);
    conn_flush(&m->conn->conn);
    return m;
}

// memory_feed gives bytes as one read does.
static inline void memory_feed(struct memory *m, struct str bytes)
{
    if (!m->conn)
        return;
    struct conn *c = &m->conn->conn;
    conn_enter(c);
    conn_input(c, bytes);
    if (!c->doomed)
        conn_flush(c);
    if (conn_leave(c))
        http_server_flush(&m->server);
}

// memory_settle answers what is held and flushes until nothing happens any more.
static inline void memory_settle(struct memory *m)
{
    do {
        memory_release(m);
        http_server_flush(&m->server);
    } while (m->held.n || !list_empty(&m->server.dirty));
}

// memory_free ends the connection and checks that every request has had its end.
static inline void memory_free(struct memory *m)
{
    if (m->conn)
        conn_close(&m->conn->conn);
    assert(m->held.n == 0);
    assert(m->handled == m->answered + m->closed);
    assert(m->server.stats.connections == 0 && m->server.stats.streams == 0);
    assert(m->server.body_bytes == 0);
    http_server_done(&m->server);
    exec_sim_free(m->sim);
    vec_done(&m->held);
    sbuf_done(&m->out);
    sbuf_done(&m->log);
    free(m);
}

#endif

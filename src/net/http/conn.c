// SPDX-License-Identifier: Apache-2.0
//
// A connection as far as no protocol and no socket is concerned: when it is flushed, how long it
// waits, how it ends.
#include <assert.h>

#include "net/http/http_int.h"

#include "base/banned.h"

// How often one flush goes around before others have their turn.
#define FLUSH_ROUNDS 8

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static void conn_on_timer(void *arg);

void conn_init(struct conn *c, struct http_server *s, const struct conn_io *io, bool tls)
{
    c->server = s;
    c->io = io;
    c->tls = tls;
    c->reading = true;
    c->served_ns = exec_now_ns(s->exec);
    c->timer.fn = conn_on_timer;
    c->timer.arg = c;
    list_init(&c->live);
    list_init(&c->finishing);
    list_push_back(&s->conns, &c->node);
    s->stats.connections++;
}

void conn_enter(struct conn *c)
{
    c->entered++;
}

bool conn_leave(struct conn *c)
{
    assert(c->entered > 0);
    if (--c->entered > 0 || !c->doomed)
        return true;
    conn_close(c);
    return false;
}

void conn_close(struct conn *c)
{
    if (c->closed)
        return;
    if (c->entered) {
        c->doomed = true;
        return;
    }
    c->closed = true;
    while (!list_empty(&c->live)) {
        struct stream *s = list_entry(c->live.head.next, struct stream, node);
        http_stream_gone(s);
        http_stream_free(s);
    }
    while (!list_empty(&c->finishing))
        http_stream_free(list_entry(c->finishing.head.next, struct stream, node));
    struct http_server *server = c->server;
    exec_timer_stop(server->exec, &c->timer);
    if (c->proto)
        c->proto->done(c);
    outq_done(&c->out);
    sbuf_done(&c->in);
    list_remove(&c->dirty);
    list_remove(&c->node);
    server->stats.connections--;
    c->io->close(c);
    if (server->conn_gone)
        server->conn_gone(server);
}

void conn_mark(struct conn *c)
{
    if (!c->closed && !list_linked(&c->dirty))
        list_push_back(&c->server->dirty, &c->dirty);
}

// --- Deadlines -----------------------------------------------------------------------------------

static int64_t phase_limit_ns(const struct conn *c)
{
    const struct http_limits *l = &c->server->limits;
    switch (c->phase) {
    case PHASE_HEADER:
        return l->header_timeout_ns;
    case PHASE_BODY:
    case PHASE_WRITE:
        return l->body_timeout_ns;
    case PHASE_IDLE:
        return l->idle_timeout_ns;
    case PHASE_LINGER:
        return LINGER_NS;
    case PHASE_NONE:
        break;
    }
    return INT64_MAX;
}

static void start_deadline(struct conn *c)
{
    int64_t limit_ns = phase_limit_ns(c);
    if (limit_ns == INT64_MAX)
        return; // a timer that is armed fires once for nothing
    c->deadline_ns = exec_now_ns(c->server->exec) + limit_ns;
    c->progress = 0;
    if (!exec_timer_armed(&c->timer) || c->timer.due_ns > c->deadline_ns)
        exec_timer_start(c->server->exec, &c->timer, limit_ns);
}

static void update_phase(struct conn *c)
{
    enum conn_phase phase = c->tls ? PHASE_HEADER : PHASE_IDLE; // the handshake, the first byte
    if (c->blocked)
        phase = c->patient ? PHASE_NONE : PHASE_WRITE;
    else if (c->proto)
        phase = c->proto->phase(c);
    else if (c->in.n)
        phase = PHASE_HEADER;
    if (phase == PHASE_LINGER && c->out.bytes)
        phase = PHASE_WRITE; // the peer's last words are waited for behind ours
    // The streams of HTTP/2 share a deadline that new ones do not push off.
    bool same = c->epoch == c->phase_epoch || (c->h2.ng && phase == PHASE_BODY);
    if (phase == c->phase && same && c->deadline_ns)
        return;
    c->phase = phase;
    c->phase_epoch = c->epoch;
    start_deadline(c);
}

static void conn_on_timer(void *arg)
{
    struct conn *c = arg;
    if (c->phase == PHASE_NONE)
        return;
    int64_t left_ns = c->deadline_ns - exec_now_ns(c->server->exec);
    if (left_ns > 0) {
        exec_timer_start(c->server->exec, &c->timer, left_ns);
        return;
    }
    bool moved = c->progress >= (c->phase == PHASE_BODY ? BODY_PROGRESS_BYTES : 1);
    if (c->phase == PHASE_WRITE && !c->blocked)
        moved = true; // it is our turn, not the peer's
    conn_enter(c);
    if (c->phase == PHASE_LINGER || !c->proto) {
        c->doomed = true;
    } else if (c->phase == PHASE_WRITE && !moved) {
        c->server->stats.refused++;
        c->doomed = true;
    } else if (c->phase == PHASE_WRITE || (c->phase == PHASE_BODY && moved && !c->h2.ng)) {
        start_deadline(c);
    } else {
        c->proto->tick(c);
        c->deadline_ns = 0; // starts again
    }
    conn_flush(c);
    (void)conn_leave(c);
}

// --- Bytes in ------------------------------------------------------------------------------------

void conn_choose(struct conn *c, const struct proto_ops *proto)
{
    assert(!c->proto);
    c->proto = proto;
}

// Without ALPN the first bytes tell: HTTP/2 begins with a preface no request of HTTP/1 begins with.
static bool choose_by_preface(struct conn *c, struct str bytes)
{
    size_t n = bytes.n < sizeof(preface) - 1 ? bytes.n : sizeof(preface) - 1;
    if (memcmp(bytes.p, preface, n) != 0)
        conn_choose(c, &h1_ops);
    else if (n == sizeof(preface) - 1)
        conn_choose(c, &h2_ops);
    return c->proto != NULL;
}

void conn_input(struct conn *c, struct str bytes)
{
    c->progress += bytes.n;
    c->server->stats.bytes_in += bytes.n;
    if (c->proto) {
        c->proto->input(c, bytes);
        return;
    }
    if (c->in.n == 0 && choose_by_preface(c, bytes)) {
        c->proto->input(c, bytes);
        return;
    }
    sbuf_add(&c->in, bytes);
    if (choose_by_preface(c, sbuf_str(&c->in))) {
        struct sbuf all = c->in;
        c->in = (struct sbuf){0};
        c->proto->input(c, sbuf_str(&all));
        sbuf_done(&all);
    }
}

void conn_eof(struct conn *c)
{
    c->eof = true;
    if (c->proto)
        c->proto->eof(c);
    else
        c->doomed = true;
}

// --- Bytes out -----------------------------------------------------------------------------------

// One stream that was over its limit and is below half of it now.
static struct stream *find_drained(struct conn *c)
{
    bool others = false;
    list_foreach(&c->live, node) {
        struct stream *s = list_entry(node, struct stream, node);
        if (!s->over || s->state != STREAM_STREAMING)
            continue;
        if (c->proto->queued(s) <= s->queue_max / 2)
            return s;
        others = true;
    }
    c->any_over = others;
    return NULL;
}

void conn_sent(struct conn *c)
{
    while (!list_empty(&c->finishing)) {
        struct stream *s = list_entry(c->finishing.head.next, struct stream, node);
        if (s->finish_at > c->out.sent)
            break;
        http_stream_free(s);
    }
    // Each is notified once a flush; a stream that fills up again is over again.
    size_t most = c->streams;
    for (struct stream *s; c->any_over && most-- > 0 && (s = find_drained(c));) {
        s->over = false;
        if (s->q.drained)
            s->q.drained(s->q.arg);
    }
}

// One round: take what the protocol has, write it. False when a further round is of no use.
static bool flush_round(struct conn *c)
{
    if (c->resume && c->out.bytes < CONN_OUT_HIGH) {
        assert(c->proto);
        c->resume = false;
        c->proto->resume(c);
    }
    if (c->proto)
        c->proto->pull(c);
    if (c->doomed || c->out.bytes == 0 || c->blocked)
        return false;
    uint64_t before = c->out.sent;
    c->io->flush(c);
    c->server->stats.bytes_out += c->out.sent - before;
    conn_sent(c);
    return c->out.sent != before && !c->doomed;
}

void conn_flush(struct conn *c)
{
    if (c->closed)
        return;
    conn_enter(c);
    int rounds = 0;
    do {
        list_remove(&c->dirty);
    } while (flush_round(c) && ++rounds < FLUSH_ROUNDS);
    conn_sent(c);
    if (rounds == FLUSH_ROUNDS || (c->resume && c->out.bytes < CONN_OUT_HIGH))
        conn_mark(c);
    if (c->close_after && c->out.bytes == 0 && !c->shut && !c->doomed) {
        c->shut = true;
        c->io->shutdown(c);
    }
    if (!c->doomed)
        update_phase(c);
    (void)conn_leave(c);
}

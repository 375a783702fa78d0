// SPDX-License-Identifier: Apache-2.0
//
// Many peers that each let a little wait are much together. One stream has its bound
// (queued_bytes); this is the bound of all. What several share (an event that many watch) weighs
// once: each counts its part.
#include "net/http/relief.h"

#include "base/banned.h"

// A look walks over all that waits, so there is one for this many bytes.
#define LOOK_BYTES ((size_t)16 * 1024 * 1024)

// A body that comes for longer than this gives way when there is no room. There is one look in
// LOOK_NS.
#define BODY_PATIENCE_NS CLOCK_NS_PER_SEC
#define LOOK_NS          (100 * CLOCK_NS_PER_MS)

static size_t relief_weigh_queue(const struct outq *q)
{
    size_t n = 0;
    for (size_t i = q->head; i < q->end; i++) {
        uint32_t refs = q->pieces[i].buf ? q->pieces[i].buf->refs : 1;
        n += q->pieces[i].n / (refs ? refs : 1);
    }
    return n;
}

static size_t weigh_streams(const struct list *streams)
{
    size_t n = 0;
    list_foreach(streams, node)
        n += relief_weigh_queue(&list_entry(node, struct stream, node)->h2.out);
    return n;
}

static struct conn *relief_find_heaviest(const struct http_server *s)
{
    struct conn *most = NULL;
    list_foreach(&s->conns, node) {
        struct conn *c = list_entry(node, struct conn, node);
        if (!most || c->waiting > most->waiting)
            most = c;
    }
    return most;
}

static void relief_cut_heaviest(struct http_server *s)
{
    size_t all = 0;
    list_foreach(&s->conns, node) {
        struct conn *c = list_entry(node, struct conn, node);
        c->waiting = c->doomed || c->closed
                         ? 0
                         : relief_weigh_queue(&c->out) + weigh_streams(&c->live) +
                               weigh_streams(&c->finishing);
        all += c->waiting;
    }
    for (struct conn *c;
         all > s->limits.answers_bytes && (c = relief_find_heaviest(s)) && c->waiting;) {
        all -= c->waiting;
        c->waiting = 0;
        c->doomed = true;
        s->stats.refused++;
        conn_mark(c);
    }
}

void relief_count(struct http_server *s, size_t bytes)
{
    size_t look =
        s->limits.answers_bytes / 4 < LOOK_BYTES ? s->limits.answers_bytes / 4 : LOOK_BYTES;
    s->unweighed += bytes;
    if (s->unweighed <= look)
        return;
    s->unweighed = 0;
    relief_cut_heaviest(s);
}

// --- Bodies --------------------------------------------------------------------------------------

void relief_bodies(struct http_server *s, const struct stream *but)
{
    int64_t now_ns = exec_now_ns(s->exec);
    if (s->bodies_looked_ns && now_ns - s->bodies_looked_ns < LOOK_NS)
        return;
    s->bodies_looked_ns = now_ns;
    list_foreach(&s->conns, node) {
        struct conn *c = list_entry(node, struct conn, node);
        list_foreach(&c->live, at) {
            struct stream *one = list_entry(at, struct stream, node);
            if (one != but && one->state == STREAM_READING && one->body_counted && !c->doomed &&
                now_ns - one->began_ns > BODY_PATIENCE_NS)
                c->proto->refuse(one, 503, "too many requests with large bodies at once");
        }
    }
}

// --- Connections ---------------------------------------------------------------------------------

// Nothing of what it asked is being answered: it is idle, or its request has not come to its end.
static bool does_nothing(const struct conn *c)
{
    list_foreach(&c->live, node)
        if (list_entry(node, const struct stream, node)->state != STREAM_READING)
            return false;
    return list_empty(&c->finishing) && !c->doomed;
}

struct conn *relief_idlest(const struct http_server *s)
{
    struct conn *idlest = NULL;
    int64_t latest_ns = exec_now_ns(s->exec) - s->limits.give_way_ns;
    list_foreach(&s->conns, node) {
        struct conn *c = list_entry(node, struct conn, node);
        if (c->served_ns <= latest_ns && does_nothing(c)) {
            idlest = c;
            latest_ns = c->served_ns - 1;
        }
    }
    return idlest;
}

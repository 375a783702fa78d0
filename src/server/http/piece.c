// SPDX-License-Identifier: Apache-2.0
//
// The pool is counted: by the server, and by each piece that waits to be sent.
#include "server/http/piece.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/banned.h"

#define PIECES_KEPT 16 // about a megabyte, once there were that many lists at a time

struct piece_pool {
    size_t refs;
    size_t n;
    struct sbuf spare[PIECES_KEPT];
};

struct piece {
    struct net_buf buf;
    struct sbuf bytes;
    struct piece_pool *pool;
};

struct piece_pool *piece_pool_new(void)
{
    struct piece_pool *p = xcalloc(1, sizeof(*p));
    p->refs = 1;
    return p;
}

static void piece_pool_unref(struct piece_pool *p)
{
    if (--p->refs > 0)
        return;
    for (size_t i = 0; i < p->n; i++)
        sbuf_done(&p->spare[i]);
    free(p);
}

void piece_pool_free(struct piece_pool *p)
{
    if (p)
        piece_pool_unref(p);
}

struct sbuf piece_take(struct piece_pool *p)
{
    struct sbuf b = {0};
    if (p->n > 0)
        b = p->spare[--p->n];
    else
        sbuf_reserve(&b, PIECE_BYTES);
    return b;
}

static void piece_release(struct net_buf *buf)
{
    struct piece *piece = container_of(buf, struct piece, buf);
    struct piece_pool *p = piece->pool;
    // One that grew for a large object is not kept.
    if (p->n < PIECES_KEPT && piece->bytes.cap <= 2 * PIECE_BYTES) {
        sbuf_clear(&piece->bytes);
        p->spare[p->n++] = piece->bytes;
    } else {
        sbuf_done(&piece->bytes);
    }
    free(piece);
    piece_pool_unref(p);
}

struct net_buf *piece_buf(struct piece_pool *p, struct sbuf *b)
{
    struct piece *piece = xmalloc(sizeof(*piece));
    *piece = (struct piece){.bytes = *b, .pool = p};
    atomic_init(&piece->buf.refs, 1);
    piece->buf.bytes = sbuf_str(b);
    piece->buf.release = piece_release;
    p->refs++;
    *b = (struct sbuf){0};
    return &piece->buf;
}

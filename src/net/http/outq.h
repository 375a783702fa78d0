// SPDX-License-Identifier: Apache-2.0
//
// What waits to be written to a peer, in order: pieces of counted buffers. Small things (headers,
// frame heads, short bodies) are copied behind each other into blocks, so that they become one
// piece; the rest is borrowed by reference. Positions in the stream of bytes (`pushed`, `sent`) let
// the owner of something see when it has left.
#ifndef NET_HTTP_OUTQ_H
#define NET_HTTP_OUTQ_H

#include <sys/uio.h>

#include "net/http.h"

// Up to this much is copied rather than referenced.
#define OUTQ_COPY_BYTES ((size_t)512)

struct out_piece {
    struct net_buf *buf;
    const char *p;
    size_t n;
};

struct out_block;

// Zeroed: empty and ready.
struct outq {
    struct out_piece *pieces; // [head, end)
    size_t head, end, cap;
    size_t bytes;
    uint64_t pushed, sent;
    struct out_block *tail; // the block being filled
};

// outq_add copies. outq_add_buf takes over a reference on b and sends n bytes of it from p.
void outq_add(struct outq *q, struct str bytes);
void outq_add_buf(struct outq *q, struct net_buf *b, const char *p, size_t n);

// outq_move gives the first n bytes of from to the end of to.
void outq_move(struct outq *to, struct outq *from, size_t n);

// outq_peek fills iov with up to max pieces from the front; returns how many, *ret_bytes how long.
size_t outq_peek(const struct outq *q, struct iovec *iov, size_t max, size_t *ret_bytes);

// outq_gather copies up to cap bytes from the front; returns how many.
size_t outq_gather(const struct outq *q, char *to, size_t cap);

// outq_drop forgets the first n bytes: they are sent.
void outq_drop(struct outq *q, size_t n);

// outq_done drops everything.
void outq_done(struct outq *q);

#endif

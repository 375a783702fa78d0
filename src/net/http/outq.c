// SPDX-License-Identifier: Apache-2.0
//
// The output queue of a connection: small pieces are copied behind each other, large ones are
// referenced, so that one writev sends what a turn of the loop produced.
#include "net/http/outq.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/banned.h"

// With its header a block stays within what malloc serves fastest.
#define BLOCK_BYTES ((size_t)960)

// More than this is given back when the queue runs empty.
#define KEEP_PIECES ((size_t)16)

struct out_block {
    struct net_buf buf; // first, so that a pointer to it is a pointer to this
    size_t used;
    char data[BLOCK_BYTES];
};

static void block_release(struct net_buf *b)
{
    free(b);
}

static struct out_piece *add_piece(struct outq *q)
{
    if (q->pieces && q->end == q->cap && q->head > 0) {
        memmove(q->pieces, q->pieces + q->head, (q->end - q->head) * sizeof(*q->pieces));
        q->end -= q->head;
        q->head = 0;
    }
    if (q->end == q->cap) {
        q->cap = q->cap ? mem_grow_cap(q->cap, q->end + 1, sizeof(*q->pieces)) : 4;
        q->pieces = xreallocarray(q->pieces, q->cap, sizeof(*q->pieces));
    }
    return &q->pieces[q->end++];
}

static void outq_count_bytes(struct outq *q, size_t n)
{
    q->bytes += n;
    q->pushed += n;
}

// The block with room to write into: the tail, or a new one in its place.
static struct out_block *open_block(struct outq *q)
{
    if (q->tail && q->tail->used < BLOCK_BYTES)
        return q->tail;
    if (q->tail)
        net_buf_unref(&q->tail->buf);
    struct out_block *b = xmalloc(sizeof(*b));
    atomic_init(&b->buf.refs, 1);
    b->buf.bytes = str_make(b->data, BLOCK_BYTES);
    b->buf.release = block_release;
    b->used = 0;
    q->tail = b;
    return b;
}

void outq_add(struct outq *q, struct str bytes)
{
    while (bytes.n) {
        struct out_block *b = open_block(q);
        size_t n = BLOCK_BYTES - b->used;
        if (n > bytes.n)
            n = bytes.n;
        char *p = b->data + b->used;
        memcpy(p, bytes.p, n);
        b->used += n;
        struct out_piece *last = q->end > q->head ? &q->pieces[q->end - 1] : NULL;
        if (last && last->buf == &b->buf && last->p + last->n == p)
            last->n += n;
        else
            *add_piece(q) = (struct out_piece){net_buf_ref(&b->buf), p, n};
        outq_count_bytes(q, n);
        bytes = str_from(bytes, n);
    }
}

void outq_add_buf(struct outq *q, struct net_buf *b, const char *p, size_t n)
{
    if (n <= OUTQ_COPY_BYTES) {
        outq_add(q, str_make(p, n));
        net_buf_unref(b);
        return;
    }
    *add_piece(q) = (struct out_piece){b, p, n};
    outq_count_bytes(q, n);
}

void outq_move(struct outq *to, struct outq *from, size_t n)
{
    assert(n <= from->bytes);
    for (size_t left = n; left;) {
        const struct out_piece *first = &from->pieces[from->head];
        size_t take = first->n < left ? first->n : left;
        outq_add_buf(to, net_buf_ref(first->buf), first->p, take);
        outq_drop(from, take);
        left -= take;
    }
}

size_t outq_peek(const struct outq *q, struct iovec *iov, size_t max, size_t *ret_bytes)
{
    size_t n = 0, bytes = 0;
    for (size_t i = q->head; i < q->end && n < max; i++, n++) {
        union {
            const char *in;
            char *out;
        } base = {q->pieces[i].p};
        iov[n] = (struct iovec){base.out, q->pieces[i].n};
        bytes += q->pieces[i].n;
    }
    *ret_bytes = bytes;
    return n;
}

size_t outq_gather(const struct outq *q, char *to, size_t cap)
{
    size_t n = 0;
    for (size_t i = q->head; i < q->end && n < cap; i++) {
        size_t take = q->pieces[i].n < cap - n ? q->pieces[i].n : cap - n;
        memcpy(to + n, q->pieces[i].p, take);
        n += take;
    }
    return n;
}

static void clear_empty(struct outq *q)
{
    q->head = q->end = 0;
    if (q->tail) {
        net_buf_unref(&q->tail->buf);
        q->tail = NULL;
    }
    if (q->cap > KEEP_PIECES) {
        free(q->pieces);
        q->pieces = NULL;
        q->cap = 0;
    }
}

void outq_drop(struct outq *q, size_t n)
{
    assert(n <= q->bytes);
    q->bytes -= n;
    q->sent += n;
    while (n) {
        struct out_piece *first = &q->pieces[q->head];
        size_t take = first->n < n ? first->n : n;
        first->p += take;
        first->n -= take;
        n -= take;
        if (first->n == 0) {
            net_buf_unref(first->buf);
            q->head++;
        }
    }
    if (q->bytes == 0)
        clear_empty(q);
}

void outq_done(struct outq *q)
{
    outq_drop(q, q->bytes);
    clear_empty(q);
    free(q->pieces);
    q->pieces = NULL;
    q->cap = 0;
}

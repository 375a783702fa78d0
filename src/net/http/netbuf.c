// SPDX-License-Identifier: Apache-2.0
//
// Counted buffers: one encoded event or answer is shared by every connection that sends it.
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "net/http.h"

#include "base/banned.h"

static void release_taken(struct net_buf *b)
{
    union {
        const char *in;
        char *out;
    } text = {b->bytes.p};
    free(text.out);
    free(b);
}

static void release_plain(struct net_buf *b)
{
    free(b);
}

struct net_buf *net_buf_new(struct sbuf *b)
{
    struct net_buf *n = xmalloc(sizeof(*n));
    atomic_init(&n->refs, 1);
    n->bytes.n = b->n;
    n->bytes.p = sbuf_take(b);
    n->release = release_taken;
    return n;
}

struct net_buf *net_buf_copy(struct str bytes)
{
    struct net_buf *n = xmalloc(sizeof(*n) + bytes.n);
    atomic_init(&n->refs, 1);
    char *p = (char *)(n + 1);
    if (bytes.n)
        memcpy(p, bytes.p, bytes.n);
    n->bytes = str_make(p, bytes.n);
    n->release = release_plain;
    return n;
}

struct net_buf *net_buf_ref(struct net_buf *b)
{
    uint32_t before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    return b;
}

void net_buf_unref(struct net_buf *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        b->release(b);
}

// SPDX-License-Identifier: Apache-2.0
//
// Memory for the pieces of streamed lists, kept for the next one: fresh pages cost the kernel more
// than filling them costs the server. Used on the server's loop alone.
#ifndef SERVER_HTTP_PIECE_H
#define SERVER_HTTP_PIECE_H

#include "net/http.h"

struct piece_pool;

struct piece_pool *piece_pool_new(void);
// piece_pool_free lets go of it; memory stays until the last piece is sent.
void piece_pool_free(struct piece_pool *p);

// piece_take gives an empty buffer of at least PIECE_BYTES. piece_buf makes a piece of it that
// returns its memory to the pool.
#define PIECE_BYTES ((size_t)68 * 1024)
struct sbuf piece_take(struct piece_pool *p);
struct net_buf *piece_buf(struct piece_pool *p, struct sbuf *b);

#endif

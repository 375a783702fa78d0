// SPDX-License-Identifier: Apache-2.0
//
// The socket under a dial: one attempt to connect, then bytes. It outlives the dial until libuv has
// closed it.
#ifndef NET_CLIENT_DIAL_INT_H
#define NET_CLIENT_DIAL_INT_H

#include <uv.h>

#include "base/str.h"

#define DIAL_READ_BYTES ((size_t)32 * 1024)

struct dial_sock;

struct dial_sock_ops {
    void (*connected)(void *arg, int r); // 0 or an error of libuv's
    void (*input)(void *arg, struct str bytes);
    void (*written)(void *arg, int r);
    void (*gone)(void *arg, int r); // UV_EOF or an error
};

// dial_sock_connect makes a socket and begins to connect it: to an address, in a network namespace
// or ours, or to a path. No callback before it returns. Returns 0 or an error of libuv's.
int dial_sock_connect(uv_loop_t *uv, const struct sockaddr *to, const char *netns,
                      const struct dial_sock_ops *ops, void *arg, struct dial_sock **ret);
int dial_sock_connect_path(uv_loop_t *uv, const char *path, const struct dial_sock_ops *ops,
                           void *arg, struct dial_sock **ret);

void dial_sock_read(struct dial_sock *k, bool on);

// dial_sock_write takes over the text of b; one at a time.
int dial_sock_write(struct dial_sock *k, struct sbuf *b);

// dial_sock_close ends it: no callback afterwards.
void dial_sock_close(struct dial_sock *k);

#endif

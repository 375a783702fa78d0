// SPDX-License-Identifier: Apache-2.0
//
// The parts of the HTTP server that touch sockets: listeners (server.c) and connections (sock.c).
#ifndef NET_HTTP_SERVER_INT_H
#define NET_HTTP_SERVER_INT_H

#include <uv.h>

#include "net/http/http_int.h"
#include "net/tls/tls_int.h"

#define READ_BYTES ((size_t)64 * 1024)

// A TCP or unix socket of a listener or a connection.
union uv_any {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct listener {
    union uv_any uv;
    struct http_server *server;
    struct list_node node;
    bool waiting; // a connection is at the door, not let in
};

// Buffers are shared by all connections: each is used within one callback only.
struct server_uv {
    struct http_server *server;
    uv_loop_t *loop;
    uv_prepare_t prepare; // flushes before the loop sleeps
    uv_idle_t idle;       // keeps it from sleeping while something is to be flushed
    struct list listeners;
    size_t handles;        // not yet closed, listeners and sockets included
    struct sbuf cipher;    // made by TLS, to be written
    struct sbuf spare;     // memory for the next one while a connection has that of cipher
    uint64_t handshake_ns; // spent on handshakes in this turn of the loop
    char plain[TLS_RECORD_MAX];
    char read[READ_BYTES];
};

struct sock {
    struct conn conn; // first, so that a pointer to it is a pointer to this
    union uv_any uv;
    uv_write_t write;
    uv_shutdown_t shutdown;
    size_t in_flight; // bytes of conn.out given to uv_write
    struct tls_conn *tls;
    struct sbuf flight, waiting; // ciphertext: given to uv_write, and behind it
    struct tls_peer *certificate;
    char peer[64];
};

// sock_accept takes the connection waiting at a listener.
void sock_accept(struct listener *l);

// server_handle_closed is called for each handle that has closed; frees the server after the last.
void server_handle_closed(struct server_uv *u);

#endif

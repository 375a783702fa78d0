// SPDX-License-Identifier: Apache-2.0
//
// What the gRPC server and client share: a connection without I/O over nghttp2, and its streams.
//
// Nothing of the owners runs inside nghttp2: its callbacks only note what happened and put the
// stream into `ready`; grpc_conn_run then notifies the owner (event), lets nghttp2 write and
// flushes. Requests from outside take the same way, by a timer without delay.
#ifndef NET_GRPC_GRPC_INT_H
#define NET_GRPC_GRPC_INT_H

#include "base/list.h"
#include "base/vec.h"
#include "net/grpc.h"
#include "net/grpc/grpc_wire.h"
#include "net/http/h2_session.h"

struct grpc_conn;
struct grpc_stream;

struct grpc_conn_io {
    void (*flush)(struct grpc_conn *c); // writes what it can of c->out, the rest by itself later
    void (*close)(struct grpc_conn *c); // grpc_conn_done follows, from the loop
};

struct grpc_conn_ops {
    struct grpc_stream *(*open)(struct grpc_conn *c); // the peer begins a stream; NULL: refuse it
    void (*event)(struct grpc_stream *s);             // something about s changed
    void (*release)(struct grpc_stream *s);           // frees what s is embedded in
    void (*ready)(struct grpc_conn *c);               // the peer introduced itself
    void (*leaving)(struct grpc_conn *c);             // the peer takes no more streams
    void (*gone)(struct grpc_conn *c);                // the connection ended; all streams know
};

struct grpc_meta_list VEC(struct grpc_meta);

struct grpc_stream {
    struct grpc_conn *conn; // NULL: not on a connection
    const struct grpc_conn_ops *ops;
    size_t *in_total;      // what all streams of the owner hold
    struct list_node node; // in conn->streams
    struct list_node ready;
    struct h2_stream h2;
    struct arena arena;
    struct grpc_meta_list headers, trailers; // as received, without pseudo headers; in the arena
    struct str path, method;                 // server
    struct sbuf in;
    size_t in_used;                   // bytes of in that are consumed
    struct grpc_meta_list end_fields; // trailers to send
    uint32_t close_code;
    bool headers_done : 1, remote_end : 1, closed : 1, lost : 1, overflow : 1;
    bool paused : 1, was_full : 1;
    bool entered : 1, orphan : 1;
};

struct grpc_conn {
    const struct grpc_conn_ops *ops;
    const struct grpc_conn_io *io;
    struct exec *exec;
    const struct grpc_limits *limits; // all set
    struct h2_session h2;
    bool server;
    struct list streams;
    struct list ready;
    struct outq out;
    struct exec_timer wake;
    struct exec_timer keepalive;
    int64_t heard_ns;
    bool pinged;
    bool introduced; // ready was called, or is about to be
    bool tell_ready, tell_leaving;
    bool peer_leaves; // it sent GOAWAY
    bool leaving;     // we do: ends when there are no streams
    bool lost, ended, running;
    size_t *in_bytes; // what all streams of the owner hold
    void *owner;
    char why[128];
};

// grpc_limits_fill replaces zeroes by the defaults.
void grpc_limits_fill(struct grpc_limits *l);

// grpc_conn_init makes a zeroed connection ready; ops, io, exec, limits, server, in_bytes are set.
// grpc_conn_done frees what it holds, after close.
void grpc_conn_init(struct grpc_conn *c);
void grpc_conn_done(struct grpc_conn *c);

// grpc_conn_input takes bytes; grpc_conn_lose ends it, by grpc_conn_run.
void grpc_conn_input(struct grpc_conn *c, struct str bytes);
void grpc_conn_lose(struct grpc_conn *c, const char *why);
void grpc_conn_run(struct grpc_conn *c);

// grpc_conn_end ends it now: streams are notified, then gone, then close. Not from nghttp2's
// callbacks.
void grpc_conn_end(struct grpc_conn *c, const char *why);

// grpc_conn_leave sends GOAWAY; the connection ends when its streams have.
void grpc_conn_leave(struct grpc_conn *c);

// grpc_stream_free resets what is not over and
// releases s, later when it is entered.
void grpc_stream_free(struct grpc_stream *s, uint32_t reset_code);

// grpc_stream_request opens a stream by a client; false: the connection takes no more.
bool grpc_stream_request(struct grpc_stream *s, struct grpc_conn *c, const nghttp2_nv *fields,
                         size_t n);
// grpc_stream_respond sends headers; `more`: messages and trailers follow.
void grpc_stream_respond(struct grpc_stream *s, const nghttp2_nv *fields, size_t n, bool more);
// grpc_stream_release frees s: for those who entered it.
void grpc_stream_release(struct grpc_stream *s);
void grpc_stream_touch(struct grpc_stream *s); // schedules a notification
void grpc_stream_wake(struct grpc_stream *s);  // there is something in out
void grpc_stream_message(struct grpc_stream *s, struct str message);
// grpc_stream_take forgets n bytes of in and opens the window for them.
void grpc_stream_take(struct grpc_stream *s, size_t n);

static inline struct str grpc_stream_in(const struct grpc_stream *s)
{
    return str_from(sbuf_str(&s->in), s->in_used);
}

struct str grpc_meta_find(const struct grpc_meta_list *l, struct str name);

// --- Sockets (grpc_sock.c) -----------------------------------------------------------------------

struct uv_pipe_s;
struct grpc_sock;

// grpc_sock_new makes a socket with a connection in it; gone(arg) is called when its memory goes.
// grpc_sock_connect connects; connected(arg) with a negative code or 0.
struct grpc_sock *grpc_sock_new(struct uv_loop_s *uv, exec_fn gone, void *arg);
struct grpc_conn *grpc_sock_conn(struct grpc_sock *k);
struct uv_pipe_s *grpc_sock_pipe(struct grpc_sock *k);
void grpc_sock_start(struct grpc_sock *k);
void grpc_sock_connect(struct grpc_sock *k, const char *path, void (*connected)(void *arg, int r));
// grpc_sock_drop closes one that was never started.
void grpc_sock_drop(struct grpc_sock *k);

// --- For the fuzzers -----------------------------------------------------------------------------

// grpc_server_new_on and grpc_server_adopt: a server without sockets and one connection of it.
struct grpc_server *grpc_server_new_on(struct exec *e, const struct grpc_limits *limits);
void grpc_server_adopt(struct grpc_server *s, struct grpc_conn *c);
// grpc_client_new_on makes a client without a socket; grpc_client_adopt gives it a connection.
struct grpc_client *grpc_client_new_on(struct exec *e, const struct grpc_client_options *o);
void grpc_client_adopt(struct grpc_client *c, struct grpc_conn *conn);

#endif

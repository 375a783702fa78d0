// SPDX-License-Identifier: Apache-2.0
//
// Inside the HTTP server. A server has connections, a connection has streams (one at a time for
// HTTP/1.1), a stream is a request and its answer. Three seams:
//
//   proto_ops   what HTTP/1.1 (h1.c) and HTTP/2 (h2.c) do differently
//   conn_io     how bytes leave and connections end: sockets (sock.c), memory (fuzzers)
//   exec        timers and clock
// The rules that hold between them are in the README of the room.
#ifndef NET_HTTP_HTTP_INT_H
#define NET_HTTP_HTTP_INT_H

#include "base/list.h"
#include "base/vec.h"
#include "net/http.h"
#include "net/http/h1_parse.h"
#include "net/http/h2_session.h"
#include "net/http/outq.h"

struct conn;
struct server_uv;

// A connection stops taking answers from its streams and requests from its peer while more than
// this waits to be written.
#define CONN_OUT_HIGH ((size_t)256 * 1024)

// Pipelined requests wait in memory up to here, then in the kernel.
#define CONN_IN_HIGH ((size_t)64 * 1024)

// A body must grow by this much in every body_timeout, or be complete.
#define BODY_PROGRESS_BYTES ((size_t)1024)

// Bodies of all requests together. Beyond, requests are refused with 503: first those whose bodies
// do not come to their end.
#define SERVER_BODIES_MAX ((size_t)256 * 1024 * 1024)

// After a refusal the peer may finish its sentence for this long, else it would not see the answer.
#define LINGER_NS    (2 * CLOCK_NS_PER_SEC)
#define LINGER_BYTES ((size_t)64 * 1024 * 1024)

enum stream_state {
    STREAM_READING,   // the request is not whole
    STREAM_HANDLING,  // handed over, no answer yet
    STREAM_STREAMING, // http_start was called
    STREAM_COMPLETE,  // the answer is whole, or given up; the handler has forgotten the request
};

struct header_list VEC(struct http_header);

struct stream {
    struct http_request q; // first, so that a pointer to it is a pointer to this
    struct conn *conn;
    struct list_node node; // of the connection's live or finishing streams, or the server's pool
    struct arena arena;
    enum stream_state state;
    bool head_only;   // HEAD: the answer has no body
    bool over;        // http_write was full; drained is due
    size_t queue_max; // beyond, http_write is full
    bool patient;     // its reader may be slow
    bool held;        // after an upgrade: the handler takes no bytes for now
    int64_t began_ns; // when its first byte came
    struct sbuf body;
    size_t body_counted; // in the server's body_bytes
    uint64_t finish_at;  // freed when the connection has sent this much
    // HTTP/2 alone.
    struct h2_stream h2; // its out waits for the peer's windows
    bool discard;        // what more comes of the body
    size_t discarded;
    bool whole_head;            // all headers are here
    bool ticked;                // the timer has looked at it before
    size_t progress;            // bytes since then, in or out
    struct header_list headers; // in the arena
};

// What a connection waits for, which has a deadline.
enum conn_phase { PHASE_NONE, PHASE_HEADER, PHASE_BODY, PHASE_IDLE, PHASE_LINGER, PHASE_WRITE };

struct proto_ops {
    // input takes bytes as they come. resume goes on after an answer or when room was made.
    void (*input)(struct conn *c, struct str bytes);
    void (*resume)(struct conn *c);
    // pull moves what can be sent into c->out.
    void (*pull)(struct conn *c);
    // phase is what the connection waits for; tick is called when it has waited too long for a
    // request. eof: the peer sends no more. stopping: the server wants to end.
    enum conn_phase (*phase)(const struct conn *c);
    void (*eof)(struct conn *c);
    void (*stopping)(struct conn *c);
    void (*tick)(struct conn *c);
    void (*start)(struct stream *s, int status, struct str type, const struct http_header *extra,
                  size_t extra_len, int64_t length); // length -1: streamed
    // upgrade leaves the protocol; hold is for what comes afterwards. NULL: cannot be done.
    void (*upgrade)(struct stream *s, struct str protocol, const struct http_header *extra,
                    size_t extra_len);
    void (*hold)(struct stream *s, bool hold);
    void (*write)(struct stream *s, struct net_buf *b);
    void (*end)(struct stream *s);
    void (*abort)(struct stream *s);
    size_t (*queued)(const struct stream *s);
    // refuse answers a request of which not all has come, and lets go of what has.
    void (*refuse)(struct stream *s, int status, const char *why);
    void (*done)(struct conn *c);
};

extern const struct proto_ops h1_ops, h2_ops;

struct conn_io {
    void (*flush)(struct conn *c); // writes c->out as far as it goes, drops what was written
    void (*read)(struct conn *c, bool on);
    void (*shutdown)(struct conn *c); // no more will be written
    void (*close)(struct conn *c);    // frees the connection's memory, now or later
};

enum h1_state { H1_HEAD, H1_BODY, H1_HANDLING, H1_TUNNEL, H1_DRAIN };

struct conn {
    struct http_server *server;
    const struct conn_io *io;
    const struct proto_ops *proto; // NULL until the first bytes or the handshake tell
    struct list_node node;         // server->conns
    struct list_node dirty;        // server->dirty: to be flushed
    struct list live;              // streams without a complete answer
    struct list finishing;         // streams whose answer is not all sent, in order
    struct outq out;
    struct sbuf in; // bytes not yet understood
    struct {        // deadlines and backlog
        struct exec_timer timer;
        enum conn_phase phase;
        int64_t deadline_ns;         // the timer may fire earlier and looks again
        uint64_t progress;           // bytes read or written since the last look
        uint32_t epoch, phase_epoch; // grows with every request: a deadline starts again
        bool blocked;                // the socket takes no more; flush is called when it does
        bool any_over;               // a stream waits for drained
        size_t waiting;              // bytes of its answers, as relief_weigh found them
        size_t patient;              // streams whose readers may be slow
        int64_t served_ns;           // when it began, or a request of it was over last
    };
    struct {              // state
        int entered;      // > 0: inside a callback of this connection
        bool doomed;      // close when it is left
        bool closed;      // conn_close has run
        bool close_after; // when everything is written
        bool shut;        // the writing side is closed
        bool resume;      // call proto->resume at the next flush
        bool reading, eof, tls;
    };
    struct str peer;
    const struct tls_peer *certificate;
    struct { // HTTP/1.1
        // HTTP/1.1
        enum h1_state h1;
        struct stream *current; // the request being read or handled
        struct h1_scan scan;
        struct h1_chunks chunks;
        uint64_t body_left;
        enum h1_framing framing;
        int minor;
        bool keep_alive, chunked_answer;
        bool aborted; // an answer was given up: close at the next flush
        bool end_due; // the peer of a tunnel sends no more; its handler is not notified yet
        size_t drained_bytes;
    };
    struct { // HTTP/2
        // HTTP/2
        struct h2_session h2; // no ng: not open
        size_t streams;
    };
};

struct http_server {
    struct exec *exec;
    struct http_limits limits;
    void (*handle)(void *arg, struct http_request *q);
    struct str (*refusal)(void *arg, int status, const char *why, struct sbuf *body);
    void *arg;
    struct tls_server *tls;
    struct server_uv *uv; // NULL in fuzzers
    struct list conns;
    struct list dirty;
    void (*conn_gone)(struct http_server *s); // a connection has ended
    struct list pool;                         // free streams with their arenas
    size_t pooled;
    size_t body_bytes;
    int64_t bodies_looked_ns; // when relief_bodies did
    size_t unweighed;         // bytes of answers since relief_weigh looked
    struct http_server_stats stats;
    bool stopping;
    bool freed;
    struct exec_timer grace;
    struct exec_timer crowded; // looks for one that gives way while others wait to be let in
    exec_fn stopped;
    void *stopped_arg;
    // The Date header of this second.
    int64_t date_sec;
    char date[40];
};

// --- http.c: server and streams, without I/O -----------------------------------------------------

void http_server_init(struct http_server *s, struct exec *exec,
                      const struct http_server_options *options);
void http_server_done(struct http_server *s);

// http_server_flush flushes every connection with something to say.
void http_server_flush(struct http_server *s);

// http_server_date is the time now as the Date header wants it.
struct str http_server_date(struct http_server *s);

// http_refusal writes the body of an answer that never reaches the handler and returns its type.
struct str http_refusal(struct http_server *s, int status, const char *why, struct sbuf *body);

struct stream *http_stream_new(struct conn *c);
void http_stream_free(struct stream *s);

// http_stream_grow_body counts n more bytes of body; false when the server holds too many.
// http_stream_drop_body lets go of them.
bool http_stream_grow_body(struct stream *s, size_t n);
void http_stream_drop_body(struct stream *s);

// http_stream_dispatch hands a whole request to the handler. Its target is checked by then.
void http_stream_dispatch(struct stream *s);

// http_stream_complete is for protocols: the answer is whole; frees it when sent.
void http_stream_complete(struct stream *s);

// http_stream_gone is for protocols: the stream ended before its answer; calls closed.
void http_stream_gone(struct stream *s);

// http_reason is the reason phrase of a status.
const char *http_reason(int status);

// --- conn.c --------------------------------------------------------------------------------------

void conn_init(struct conn *c, struct http_server *s, const struct conn_io *io, bool tls);

// conn_choose sets the protocol; conn_input gives it bytes (and chooses by the first ones).
void conn_choose(struct conn *c, const struct proto_ops *proto);
void conn_input(struct conn *c, struct str bytes);
void conn_eof(struct conn *c);

void conn_mark(struct conn *c);  // to be flushed before the loop sleeps
void conn_flush(struct conn *c); // may close and free the connection
void conn_sent(struct conn *c);  // something was written: frees streams, calls drained
void conn_close(struct conn *c); // calls closed of the streams left; at once or when left
void conn_enter(struct conn *c);
bool conn_leave(struct conn *c); // false: the connection is gone

#endif

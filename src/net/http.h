// SPDX-License-Identifier: Apache-2.0
//
// The HTTP server: HTTP/1.1 and HTTP/2, with TLS or without, on TCP and unix sockets, one loop. It
// hands over whole requests and takes answers, whole or streamed; which protocol carries them is
// not seen from outside.
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"
#include "net/tls.h"

// Bytes that several answers share: a watch event goes to many clients without a copy each.
struct net_buf {
    _Atomic uint32_t refs;
    struct str bytes;
    void (*release)(struct net_buf *b); // called with the last reference
};

// net_buf_new takes over the text of b; net_buf_copy copies.
struct net_buf *net_buf_new(struct sbuf *b);
struct net_buf *net_buf_copy(struct str bytes);
struct net_buf *net_buf_ref(struct net_buf *b);
void net_buf_unref(struct net_buf *b);

struct http_header {
    struct str name; // lower case in requests
    struct str value;
};

// A request, whole. It lives from the handler's call until its answer is complete and the peer has
// it, or until closed was called; its arena goes with it.
struct http_request {
    struct str method;
    struct str target; // as sent: path and query
    struct str path;   // decoded; no empty, "." or ".." segments resolved: as sent
    struct str query;  // not decoded, without the question mark
    struct str body;
    const struct http_header *headers;
    size_t headers_len;
    int version; // 1 or 2
    bool tls;
    struct str peer;                    // address, for logs
    const struct tls_peer *certificate; // verified client certificate, NULL when there is none
    struct arena *arena;
    // The handler may set these: closed runs once when the stream ends before its answer was
    // complete (client gone, server stopping); drained when a streamed answer that was over its
    // limit has fallen below half of it.
    void (*closed)(void *arg);
    void (*drained)(void *arg);
    // After http_upgrade: input gets what the peer sends, input_end: it sends no more
    // (NULL: that ends the stream).
    void (*input)(void *arg, struct str bytes);
    void (*input_end)(void *arg);
    void *arg;
};

// http_find_header finds a header by its lower-case name; the empty slice when there is none.
struct str http_find_header(const struct http_request *q, struct str name);

struct http_limits {
    size_t header_bytes;       // of one request, all headers together; 0: 64 KiB
    size_t body_bytes;         // 0: 3 MiB, as kube-apiserver
    size_t connections;        // 0: 10,000. Beyond it new ones wait; an idle one is closed for them
    size_t streams;            // concurrent ones of an HTTP/2 connection; 0: 250
    size_t queued_bytes;       // of one stream before http_write is full; 0: 1 MiB
    size_t answers_bytes;      // queued in all; beyond it the largest queue is cut off. 0: 512 MiB
    int64_t header_timeout_ns; // a request's headers must be there in time; 0: 10 s
    int64_t body_timeout_ns;   // 0: 30 s without progress
    int64_t idle_timeout_ns;   // between requests; 0: 90 s
    int64_t give_way_ns; // others wait while a connection has nothing answered for so long; 0: 1 s
};

struct http_server_options {
    struct loop *loop;
    struct tls_server *tls; // NULL: plain text
    struct http_limits limits;
    // handle is called for each request and answers now or later.
    void (*handle)(void *arg, struct http_request *q);
    void *arg;
    // refusal writes the body of an answer that the server makes itself, because the request is no
    // HTTP, too large or too slow, and returns its content type, a static text. NULL: a line of
    // plain text.
    struct str (*refusal)(void *arg, int status, const char *why, struct sbuf *body);
};

struct http_server;

struct http_server *http_server_new(const struct http_server_options *options);

// http_server_listen_tcp binds host:port ("127.0.0.1:0", "[::]:6443"); ret_port, if not NULL, gets
// the port. http_server_listen_unix binds a path with mode 0600. Errors say what to do.
int http_server_listen_tcp(struct http_server *s, struct str address, uint16_t *ret_port,
                           struct err *err) MUST_USE;
int http_server_listen_unix(struct http_server *s, const char *path, struct err *err) MUST_USE;

// http_server_stop takes no more connections, ends idle ones, sends GOAWAY to HTTP/2 clients, lets
// answers in flight finish for grace_ns, then closes what is left; done runs when all is closed.
void http_server_stop(struct http_server *s, int64_t grace_ns, exec_fn done, void *arg);
void http_server_free(struct http_server *s);

struct http_server_stats {
    size_t connections;
    size_t streams;
    uint64_t requests;
    uint64_t bytes_in, bytes_out;
    uint64_t refused; // protocol errors, floods, timeouts
};

void http_server_get_stats(const struct http_server *s, struct http_server_stats *ret);

// --- Answers -------------------------------------------------------------------------------------

// http_reply answers whole. Headers beyond content-type and content-length, which it writes itself;
// extra may be NULL. Takes over the caller's reference on body, which may be NULL.
void http_reply(struct http_request *q, int status, struct str content_type,
                const struct http_header *extra, size_t extra_len, struct net_buf *body);

// http_start begins a streamed answer: chunked or HTTP/2 data, flushed as it comes.
void http_start(struct http_request *q, int status, struct str content_type,
                const struct http_header *extra, size_t extra_len);

// http_write adds to a streamed answer; takes over the caller's reference. False when more than
// queued_bytes now wait for the peer: stop writing until drained, or end it.
bool http_write(struct http_request *q, struct net_buf *b);

// http_end completes a streamed answer. http_abort drops it: the peer sees a broken stream.
void http_end(struct http_request *q);
void http_abort(struct http_request *q);

// http_upgrade answers 101 and leaves HTTP: from here on http_write sends bytes as they are, the
// request's input gets what comes, http_end closes the connection when all is sent. HTTP/1.1 only
// (q->version), once protocol (websocket, SPDY/3.1) was requested. The handler sets closed and
// input before.
void http_upgrade(struct http_request *q, struct str protocol, const struct http_header *extra,
                  size_t extra_len);

// http_hold stops taking bytes from the peer (true) or goes on (false), after http_upgrade.
void http_hold(struct http_request *q, bool hold);

// http_set_patient lets a streamed answer wait for its reader for as long as it likes: someone
// pages through a log, a terminal is stopped. What waits stays bounded, a peer that is gone is
// noticed.
void http_set_patient(struct http_request *q);

// http_set_queue lets http_write of this answer say no beyond so many bytes instead of the server's
// queued_bytes.
void http_set_queue(struct http_request *q, size_t bytes);

// http_queued is how many bytes wait for the peer.
size_t http_queued(const struct http_request *q);

#endif

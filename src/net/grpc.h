// SPDX-License-Identifier: Apache-2.0
//
// gRPC over unix sockets: a server and a client, unary calls and streams of answers. Messages are
// bytes; which services exist is not known here. One message goes up, one or many come down;
// streams of requests and compression are refused.
//
// Everything is called, and calls back, on the loop's own thread. Every call has exactly one end:
// on the server grpc_finish or `closed`, on the client `done`.
#ifndef NET_GRPC_H
#define NET_GRPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"

enum grpc_status {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16,
};

// grpc_status_name is the name as the specification writes it: "OK", "NOT_FOUND".
const char *grpc_status_name(enum grpc_status s);

// A pair of metadata. Names are in lower case; the value of a name that ends in "-bin" is base64,
// as on the wire. Names that gRPC or HTTP/2 use themselves are dropped when sent.
struct grpc_meta {
    struct str name;
    struct str value;
};

struct grpc_limits {
    size_t message_bytes; // a message that is received; 0: 16 MiB, as kubelet's
    size_t header_bytes;  // metadata of a call; 0: 64 KiB
    size_t queued_bytes;  // waiting in a stream before grpc_send returns false; 0: 1 MiB
    size_t streams;       // calls at the same time on a connection (server); 0: 250
    size_t connections;   // server; 0: 1,000
    // A peer that was silent for keepalive_ns is pinged, and given up when it does not answer in
    // keepalive_timeout_ns (0: 20 s). 0: no pings. grpc-go's servers want at least 5 minutes. A
    // client pings only while it has calls.
    int64_t keepalive_ns;
    int64_t keepalive_timeout_ns;
    int64_t connect_timeout_ns; // client: until the server has introduced itself; 0: 10 s
};

// --- Server --------------------------------------------------------------------------------------

// A call that reached a handler. It lives until grpc_finish, or until closed has returned.
struct grpc_call {
    struct str method;  // "/package.Service/Method"
    struct str request; // the message
    const struct grpc_meta *meta;
    size_t meta_len;
    int64_t deadline_ns; // on the loop's clock; INT64_MAX when the client waits for ever
    struct arena *arena;
    // The handler may set these. closed: the client gave up, is gone, or its deadline passed,
    // before grpc_finish. drained: a stream that was over queued_bytes fell below half of it.
    void (*closed)(void *arg);
    void (*drained)(void *arg);
    void *arg;
};

typedef void (*grpc_handler)(void *arg, struct grpc_call *call);

// grpc_add_header and grpc_add_trailer add metadata to the answer; both copy. Headers count before
// the first grpc_send.
void grpc_add_header(struct grpc_call *call, struct str name, struct str value);
void grpc_add_trailer(struct grpc_call *call, struct str name, struct str value);

// grpc_send sends a message (copied). False: enough is waiting; it was taken nevertheless, but the
// caller should wait for drained.
bool grpc_send(struct grpc_call *call, struct str message);

// grpc_finish ends a call. message is the reason when status is not OK; it may be cut.
void grpc_finish(struct grpc_call *call, enum grpc_status status, struct str message);

// grpc_reply sends the only message and ends the call well.
void grpc_reply(struct grpc_call *call, struct str message);

struct grpc_server;

struct grpc_server *grpc_server_new(struct loop *loop, const struct grpc_limits *limits);

// grpc_server_handle adds a handler for a full method name ("/package.Service/Method"); unknown
// methods are answered with UNIMPLEMENTED. A later handler of the same name replaces the earlier
// one.
void grpc_server_handle(struct grpc_server *s, struct str method, grpc_handler handler, void *arg);

// grpc_server_listen binds a path with mode 0600. A socket without a listener is replaced. The
// path is removed when the server stops.
int grpc_server_listen(struct grpc_server *s, const char *path, struct err *err) MUST_USE;

// grpc_server_stop takes no more calls; done(arg) runs when all have ended, or were ended after
// grace_ns. grpc_server_free ends what is left (closed is called for it) at once; the memory goes
// on the loop's next turns.
void grpc_server_stop(struct grpc_server *s, int64_t grace_ns, exec_fn done, void *arg);
void grpc_server_free(struct grpc_server *s);

// --- Client --------------------------------------------------------------------------------------

struct grpc_client_options {
    struct loop *loop;
    const char *path; // copied
    struct grpc_limits limits;
    // Between attempts to connect: 0: from 1 s, by 1.6, to 120 s, each a fifth more or less.
    int64_t backoff_min_ns;
    int64_t backoff_max_ns;
    // state, if set, is called when a connection begins (true) and when it ends (false).
    void (*state)(void *arg, bool connected);
    void *arg;
};

// A client keeps one connection and makes it again when it is lost.
struct grpc_client;

struct grpc_client *grpc_client_new(const struct grpc_client_options *options);

// grpc_client_free ends all calls with CANCELLED before it returns (done is called) and closes the
// connection. state is not called any more.
void grpc_client_free(struct grpc_client *c);

bool grpc_client_connected(const struct grpc_client *c);

// How a call ended. Everything lives until done returns.
struct grpc_result {
    enum grpc_status status;
    struct str message;  // why, when status is not OK
    struct str response; // of a unary call that went well
    const struct grpc_meta *headers;
    size_t headers_len;
    const struct grpc_meta *trailers;
    size_t trailers_len;
};

struct grpc_request {
    struct str method; // all copied
    struct str message;
    const struct grpc_meta *meta;
    size_t meta_len;
    int64_t timeout_ns;  // 0: for ever
    bool wait_for_ready; // wait for a connection instead of failing while there is none
    // received is called for each message of a stream; NULL: the call is unary, and the message
    // comes with done. done is called once, never before grpc_client_call has returned.
    void (*received)(void *arg, struct str message);
    void (*done)(void *arg, const struct grpc_result *result);
    void *arg;
};

struct grpc_client_call;

// grpc_client_call starts a call. The pointer is good until done.
struct grpc_client_call *grpc_client_call(struct grpc_client *c, const struct grpc_request *q);

// grpc_client_cancel ends a call with CANCELLED; done is called soon, not at once.
void grpc_client_cancel(struct grpc_client_call *call);

// grpc_client_pause stops (and starts) the messages of a stream; the server feels it when the
// windows are full.
void grpc_client_pause(struct grpc_client_call *call, bool paused);

#endif

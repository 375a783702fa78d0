// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 without I/O, for both ends: an nghttp2 session with bounded headers, flow control by hand
// and a limit on control frames. The HTTP server (h2.c), gRPC (grpc_conn.c) and the API client
// (https_h2.c) are built on it.
//
// All operations of struct h2_ops run inside nghttp2: they may submit, but must not feed or pull
// the session.
#ifndef NET_HTTP_H2_SESSION_H
#define NET_HTTP_H2_SESSION_H

#include <nghttp2/nghttp2.h>

#include "base/exec.h"
#include "net/http/outq.h"

struct h2_session;

// Embedded in a stream of the owner. Zeroed before use.
struct h2_stream {
    struct h2_session *session; // NULL: not open, or closed
    int32_t id;
    int status;          // client: the response's
    size_t header_bytes; // as SETTINGS_MAX_HEADER_LIST_SIZE counts
    size_t fields;
    size_t unconsumed; // received, and the window not opened for it again
    struct outq out;   // body to send; wake the stream after adding to it
    bool out_end;      // out is all there is
    bool out_trailers; // trailers follow out: operation trailers submits them
    bool overflow;     // headers were over the limits; what came beyond was dropped
    bool head_done;    // what more comes of headers are trailers
    bool remote_end;
    bool deferred; // private: nghttp2 waits for out
};

struct h2_ops {
    struct h2_stream *(*open)(struct h2_session *s); // server: the peer begins; NULL: refuse it
    void (*field)(struct h2_stream *t, struct str name, struct str value);
    void (*head)(struct h2_stream *t); // headers are whole, or trailers (head_done was set before)
    void (*data)(struct h2_stream *t, struct str bytes); // the owner calls h2_stream_consume
    void (*end)(struct h2_stream *t);                    // the peer sends no more
    void (*closed)(struct h2_stream *t, uint32_t code);  // the session has forgotten it
    void (*sent)(struct h2_stream *t, size_t n); // moved from t->out to the session's output
    void (*trailers)(struct h2_stream *t);       // calls h2_stream_trailers
    // Each of these may be NULL.
    bool (*unanswered)(const struct h2_stream *t); // a reset by the peer now counts as abuse
    void (*settings)(struct h2_session *s);
    void (*goaway)(struct h2_session *s);
    void (*violation)(struct h2_session *s); // a frame was invalid, or there were too many
};

struct h2_limits {
    size_t header_bytes;     // of one stream
    uint32_t streams;        // server: concurrent ones of the peer
    int32_t stream_window;   // what a peer may send before the owner consumes
    uint32_t control_frames; // in 10 s; beyond, GOAWAY ENHANCE_YOUR_CALM
    uint32_t resets;         // likewise, of streams without an answer
    size_t acks;             // of PING and SETTINGS that wait to be sent
};

struct h2_session {
    nghttp2_session *ng;
    const struct h2_ops *ops;
    struct exec *exec;
    struct h2_limits limits;
    bool server;
    bool cut_requests; // server: a complete response ends a request that is not
    struct outq *out;  // where frames go
    bool introduced;   // the peer's SETTINGS came
    bool peer_leaves;  // it sent GOAWAY
    bool calm;         // that GOAWAY was sent
    int64_t flood_window_ns;
    uint32_t flood_frames, flood_resets;
};

// h2_session_open sets up a zeroed session whose ops, exec, limits, server and out are set.
// h2_session_close frees what it holds; streams are not notified.
void h2_session_open(struct h2_session *s);
void h2_session_close(struct h2_session *s);

// h2_session_input takes bytes. Returns 0 or an error of nghttp2's, after which the session cannot
// go on.
int h2_session_input(struct h2_session *s, struct str bytes) MUST_USE;

// h2_session_pull moves frames to the output until that holds `high` bytes. Returns 1 if there may
// be more, 0, or an error of nghttp2's.
int h2_session_pull(struct h2_session *s, size_t high) MUST_USE;

// h2_session_over: neither side has anything to say any more.
bool h2_session_over(const struct h2_session *s);

// h2_session_leave sends GOAWAY: streams that the peer began so far are served.
// h2_session_terminate ends the session with a code.
void h2_session_leave(struct h2_session *s);
void h2_session_terminate(struct h2_session *s, uint32_t code);
void h2_session_ping(struct h2_session *s);

// h2_stream_request opens a stream as a client; `body`: data follows from out. False: the numbers
// of streams are used up.
bool h2_stream_request(struct h2_stream *t, struct h2_session *s, const nghttp2_nv *fields,
                       size_t n, bool body);
// h2_stream_respond sends the headers of a response.
void h2_stream_respond(struct h2_stream *t, const nghttp2_nv *fields, size_t n, bool body);
void h2_stream_trailers(struct h2_stream *t, const nghttp2_nv *fields, size_t n);
void h2_stream_wake(struct h2_stream *t); // there is something in out, or out_end is set
void h2_stream_consume(struct h2_stream *t, size_t n); // opens the window
void h2_stream_reset(struct h2_stream *t, uint32_t code);
// h2_stream_forget resets a stream and detaches it: no operation is called for it any more.
void h2_stream_forget(struct h2_stream *t, uint32_t code);

// h2_field makes a header field; nghttp2 copies it when it is submitted. Names are in lower case.
nghttp2_nv h2_field(struct str name, struct str value);

#endif

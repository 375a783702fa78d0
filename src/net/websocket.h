// SPDX-License-Identifier: Apache-2.0
//
// WebSocket (RFC 6455) without I/O: the opening handshake of a server, and the frames of either
// end. Bytes go in as they come, whole messages come out; pings and closes are answered on the way.
// What two readers could understand in two ways is refused, with the close code the standard has
// for it. Extensions are neither offered nor accepted.
#ifndef NET_WEBSOCKET_H
#define NET_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rand.h"
#include "base/str.h"
#include "net/http.h"

enum ws_op {
    WS_CONTINUATION = 0,
    WS_TEXT = 1,
    WS_BINARY = 2,
    WS_CLOSE = 8,
    WS_PING = 9,
    WS_PONG = 10,
};

enum ws_close {
    WS_NORMAL = 1000,
    WS_GOING_AWAY = 1001,
    WS_PROTOCOL_ERROR = 1002,
    WS_NO_CODE = 1005, // of a close without a code; never sent
    WS_NOT_UTF8 = 1007,
    WS_TOO_BIG = 1009,
    WS_INTERNAL = 1011,
};

// The first byte of a message of Kubernetes' streams (v5.channel.k8s.io): what the rest of it
// belongs to.
enum channel {
    CHANNEL_STDIN = 0,
    CHANNEL_STDOUT = 1,
    CHANNEL_STDERR = 2,
    CHANNEL_STATUS = 3, // how it ended
    CHANNEL_RESIZE = 4,
    CHANNEL_CLOSE = 255,
};

// The longest message, when an end does not say.
#define WS_MESSAGE_BYTES_MAX ((size_t)1024 * 1024)

// One end of a connection. Zeroed: a server's. A client sets rng, from which it draws its masks.
struct ws {
    struct rng *rng;    // not NULL: a client's end
    size_t message_max; // 0: WS_MESSAGE_BYTES_MAX
    bool closed_in;     // the peer closed, or violated the protocol: nothing more is read
    bool closed_out;    // a close was written: nothing more is

    // Reading; private.
    unsigned char head[14];
    size_t head_len;
    bool in_payload;
    bool fin;
    enum ws_op op;
    uint64_t left;
    unsigned char mask[4];
    size_t mask_at;
    enum ws_op message_op; // of the message being put together; WS_CONTINUATION: none
    bool message_taken;    // it was handed out
    struct sbuf message, control;
};

void ws_done(struct ws *w);

struct ws_message {
    enum ws_op op;    // WS_TEXT, WS_BINARY, or WS_CLOSE, which is the last
    struct str bytes; // good until the next call; of a close: its reason
    int close_code;
};

// ws_read takes from *in what the next message needs. Returns 1 with a message; 0 when more bytes
// are needed; -ERR_BAD_REQUEST or -ERR_TOO_LARGE when the peer breaks the rules, after which
// nothing is read any more. Answers (pongs, closes) are added to out.
int ws_read(struct ws *w, struct str *in, struct ws_message *ret, struct sbuf *out,
            struct err *err) MUST_USE;

// ws_write adds one message of two parts (a channel's number and its bytes; either may be empty) as
// one frame. Nothing is added once a close was.
void ws_write(struct ws *w, enum ws_op op, struct str first, struct str rest, struct sbuf *out);

// ws_write_close adds a close, once. The reason is cut to what fits.
void ws_write_close(struct ws *w, int code, struct str reason, struct sbuf *out);

// --- The handshake -------------------------------------------------------------------------------

// What a request to become a WebSocket asks for.
struct ws_hello {
    struct str protocol;      // the first one the client offers that we speak; empty: none
    bool offered;             // it has offered some
    struct http_header reply; // sec-websocket-accept
};

// ws_wanted: whether a request asks for a WebSocket at all.
bool ws_wanted(const struct http_request *q);

// ws_hello reads such a request; spoken are the protocols we know. Returns 0, or -ERR_BAD_REQUEST
// with what is wrong with it. Texts live in the request.
int ws_hello(const struct http_request *q, const struct str *spoken, size_t spoken_len,
             struct ws_hello *ret, struct err *err) MUST_USE;

// ws_accept answers a key as the standard wants it. ret has room for 29 bytes.
void ws_accept(struct str key, char ret[29]);

// http_has_token: whether a header that is a list (connection, upgrade) has a word, in any
// case.
bool http_has_token(const struct http_request *q, struct str name, struct str token);

#endif

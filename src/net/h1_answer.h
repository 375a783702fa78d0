// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 from the client's side as bytes: writing requests, reading responses. No I/O. The only
// reader of responses in the project: the API client, tunnels, proxies and probes use it.
#ifndef NET_H1_ANSWER_H
#define NET_H1_ANSWER_H

#include "net/http/h1_parse.h"

// All heads of one response together, interim ones (1xx) included.
#define H1_ANSWER_HEAD_MAX ((size_t)64 * 1024)

enum h1_answer_event {
    H1_ANSWER_MORE,     // all input was taken; more is needed
    H1_ANSWER_HEAD,     // status and headers are known
    H1_ANSWER_DATA,     // a piece of the body
    H1_ANSWER_END,      // the response is complete; input that follows is not part of it
    H1_ANSWER_SWITCHED, // the connection has left HTTP; all further input is the new protocol's
};

enum h1_answer_state {
    H1_ANSWER_IN_HEAD,
    H1_ANSWER_IN_LENGTH,
    H1_ANSWER_IN_CHUNKS,
    H1_ANSWER_UNTIL_EOF,
    H1_ANSWER_OVER,
    H1_ANSWER_LEFT_HTTP,
};

// Zeroed at the start of a response, but for the first two.
struct h1_answer {
    bool head_request; // the request was HEAD: there is no body
    bool connect;      // the request was CONNECT: 2xx leaves HTTP
    // Known from H1_ANSWER_HEAD on; names in lower case.
    int status;
    int minor; // of HTTP/1
    struct http_header *headers;
    size_t headers_len;
    bool keep_alive; // another request may follow on the connection
    // Private.
    enum h1_answer_state state;
    struct sbuf head, piece;
    size_t line, heads;
    uint64_t left;
    struct h1_chunks chunks;
    struct arena arena;
};

// h1_answer_read takes bytes from *in, moving it on, up to the next event. *ret is the piece of
// H1_ANSWER_DATA, valid until the next call. Returns an event or -ERR_BAD_REQUEST.
int h1_answer_read(struct h1_answer *a, struct str *in, struct str *ret, struct err *err) MUST_USE;

// h1_answer_eof: the peer has closed. Returns 0 if the response is complete with that, else
// -ERR_UNAVAILABLE.
int h1_answer_eof(const struct h1_answer *a, struct err *err) MUST_USE;

// h1_answer_find is the value of the first header of that name; empty if there is none.
struct str h1_answer_find(const struct h1_answer *a, struct str name);

void h1_answer_done(struct h1_answer *a);

// h1_add_request_line adds "METHOD TARGET HTTP/1.1" and the Host field. False, with nothing added:
// one of them has characters that it must not have.
bool h1_add_request_line(struct sbuf *out, struct str method, struct str target,
                         struct str authority);

// h1_add_field adds a header. False, with nothing added, if it would not be exactly one.
bool h1_add_field(struct sbuf *out, struct str name, struct str value);

// h1_add_authority adds HOST:PORT, with brackets around an IPv6 address.
void h1_add_authority(struct sbuf *out, struct str host, uint16_t port);

#endif

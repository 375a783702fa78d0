// SPDX-License-Identifier: Apache-2.0
//
// HTTP requests to one server, on a loop: HTTP/2 where the server offers it, else HTTP/1.1; with
// TLS or without, directly or through a proxy. Connections are kept and shared. Why it is ours:
// docs/design/http-client.md. Everything runs on the loop's thread. No callback runs before
// https_start has returned; whatever this header offers may be called from each of them.
#ifndef NET_HTTPS_H
#define NET_HTTPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"
#include "net/tunnel.h"

struct https;
struct https_call;

// Where the server is and how to know it. Texts are copied; empty ones mean the default.
// What servers warn of (Warning: 299), with quotes and escapes removed. NULL: not wanted.
typedef void (*https_warning_fn)(void *arg, struct str text);

struct https_options {
    struct str url;         // https://HOST[:PORT][/PREFIX], or http://
    struct str unix_socket; // path: connect here instead of to the URL's host
    struct str ca_pem;      // who vouches for the server; default: the system's
    struct str server_name; // its certificate's name; default: the URL's host
    struct str
        proxy; // URL: http, https or socks5; default: HTTPS_PROXY, NO_PROXY … of the environment
    struct str user_agent;
    bool insecure;              // take any certificate
    bool no_proxy;              // ignore proxies of the environment
    size_t connections;         // at most; 0: 8
    size_t body_bytes;          // of an answer that is taken whole; 0: 256 MiB
    int64_t connect_timeout_ms; // 0: 10 s
    https_warning_fn warning;
    void *warning_arg;
};

// https_new makes a client; nothing is connected yet. Returns 0 or -ERR_INVALID (a URL that makes
// no sense).
int https_new(struct loop *loop, const struct https_options *options, struct https **ret,
              struct err *err) MUST_USE;

// https_free cancels what is under way and closes all connections; memory goes with the loop's next
// turns (loop_free runs them).
void https_free(struct https *h);

// https_set_identity sets the client certificate (PEM) of requests started from now on.
void https_set_identity(struct https *h, struct str certificate_pem, struct str key_pem);

// https_set_trust sets who vouches for the server (PEM) of connections made from now on.
void https_set_trust(struct https *h, struct str ca_pem);

struct https_answer {
    // 0: the server answered, with any status. Else -ERR_TIMEOUT, -ERR_UNAVAILABLE, -ERR_TOO_LARGE
    // (the body) with the reason in err.
    int code;
    const struct err *err;
    bool unsent;                 // of failures: the server has certainly not seen the request
    int status;                  // 200 …
    struct str body;             // whole; of streams only when the status is not 2xx
    int64_t retry_after_seconds; // the header's; 0: there was none
    int64_t date_seconds; // the server's clock when it answered, since 1970; 0: it did not say
};

struct https_request {
    const char *method;
    struct str target;                              // path and query behind the URL's prefix
    struct str content_type, accept, authorization; // headers; empty ones are not sent
    struct str body;
    int64_t timeout_ms; // for the whole; 0: none
    // data (may be NULL) gets a 2xx body as it comes instead of having it collected. What is not
    // taken yet holds up the server once a megabyte waits.
    void (*data)(void *arg, struct str bytes);
    // done runs exactly once, last, unless the call is cancelled. The answer is good until it
    // returns.
    void (*done)(void *arg, const struct https_answer *answer);
    void *arg;
};

// https_start sends a request, which is copied. The call is good until done has run.
struct https_call *https_start(struct https *h, const struct https_request *q);

// https_cancel ends a call without another callback.
void https_cancel(struct https_call *call);

// https_hold stops handing out data (true) or goes on (false): the server is held up meanwhile.
void https_hold(struct https_call *call, bool hold);

// https_tunnel opens a connection of its own to the same server, by the same way, that switches
// protocols. Of the options, loop, server and TLS are filled in; the target is behind the URL's
// prefix. Returns 0 or a negative code.
int https_tunnel(struct https *h, const struct tunnel_options *options, struct tunnel **ret,
                 struct err *err) MUST_USE;

#endif

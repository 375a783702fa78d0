// SPDX-License-Identifier: Apache-2.0
//
// A connection to somebody else's server as a stream of bytes both ways, on a loop: over TCP or a
// Unix socket, with TLS or without, directly or through a proxy. No callback runs before dial_new
// has returned; closed is the last one, once, unless the caller is first with dial_end or
// dial_close, after which none runs.
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "net/io/url.h"
#include "net/loop.h"
#include "net/tls.h"

struct dial;

// dial_write is full when more than this waits to be sent.
#define DIAL_QUEUED_MAX ((size_t)1024 * 1024)

// Texts are copied.
struct dial_options {
    struct loop *loop;
    struct str host; // a name or an address, without brackets
    uint16_t port;
    struct str unix_path; // not empty: connect here instead
    const char *netns;    // the network namespace the socket is made in (needs root); NULL: ours
    const struct net_url *proxy; // NULL: none
    struct tls_client
        *proxy_tls;         // borrowed until dial_new returns; for proxies whose scheme is https
    struct tls_client *tls; // likewise; NULL: plain text
    struct str server_name; // as the certificate has it; empty: host
    struct str name;        // of the peer, in errors; empty: HOST:PORT
    int64_t timeout_ns;     // to connect and shake hands; 0: 10 s
    void (*connected)(void *arg);
    void (*input)(void *arg, struct str bytes);
    void (*drained)(void *arg); // after a no: half of it is gone
    // closed: err is NULL when the peer has closed. Its code is ERR_TIMEOUT when there was no
    // connection in time, ERR_NOT_FOUND when there is no such name, ERR_FORBIDDEN when the peer's
    // certificate is not trusted, TLS_WRONG_NAME when it is for other names, ERR_BAD_REQUEST when
    // the handshake failed, else ERR_UNAVAILABLE.
    void (*closed)(void *arg, const struct err *err);
    void *arg;
};

struct dial *dial_new(const struct dial_options *options);

// dial_is_h2: ALPN chose HTTP/2. Good from connected on.
bool dial_is_h2(const struct dial *d);

// dial_write queues a copy. False: more than DIAL_QUEUED_MAX waits; stop until drained.
bool dial_write(struct dial *d, struct str bytes);

// dial_hold stops reading (true) or goes on (false).
void dial_hold(struct dial *d, bool hold);

// dial_end sends what is queued, for a few seconds at most, and closes. dial_close closes at once.
void dial_end(struct dial *d);
void dial_close(struct dial *d);

#endif

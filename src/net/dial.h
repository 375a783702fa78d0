// SPDX-License-Identifier: Apache-2.0
//
// A connection to somebody else's server as a stream of bytes both ways, with TLS or without, on a loop.
// No callback runs before dial_new has returned; closed is the last one, once, unless the caller is first
// with dial_end or dial_close, after which none runs.
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "net/loop.h"
#include "net/tls.h"

struct dial;

// dial_write says no when more than this waits to be sent.
#define DIAL_QUEUED_MAX ((size_t)1024 * 1024)

struct dial_options {
    struct loop *loop;
    struct str host; // a name or an address, without brackets
    uint16_t port;
    const char *netns;      // the network namespace the socket is made in (needs root); NULL: ours
    struct tls_client *tls; // borrowed; NULL: plain text
    struct str server_name; // as the certificate has it; empty: host
    int64_t timeout_ns;     // to connect and shake hands; 0: 10 s
    void (*connected)(void *arg);
    void (*input)(void *arg, struct str bytes);
    void (*drained)(void *arg);                       // after a no: half of it is gone
    void (*closed)(void *arg, const struct err *err); // NULL: the peer has closed
    void *arg;
};

struct dial *dial_new(const struct dial_options *options);

// dial_write queues a copy. False: more than DIAL_QUEUED_MAX waits; stop until drained.
bool dial_write(struct dial *d, struct str bytes);

// dial_hold stops reading (true) or goes on (false).
void dial_hold(struct dial *d, bool hold);

// dial_end sends what is queued, for a few seconds at most, and closes. dial_close closes at once.
void dial_end(struct dial *d);
void dial_close(struct dial *d);

#endif

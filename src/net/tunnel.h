// SPDX-License-Identifier: Apache-2.0
//
// The client's end of an HTTP/1.1 upgrade: a request that asks a server to switch protocols, and
// then bytes both ways. What the protocol is, the caller knows. No callback runs before tunnel_new
// has returned; refused and closed are the last ones.
#ifndef NET_TUNNEL_H
#define NET_TUNNEL_H

#include "net/dial.h"
#include "net/http.h"

struct tunnel;

// Of an answer that is not 101 this much is kept, as kube-apiserver does.
#define TUNNEL_REFUSAL_BYTES ((size_t)50000)

struct tunnel_options {
    struct loop *loop;
    struct str host;
    uint16_t port;
    struct str unix_path; // as in struct dial_options, and the next three
    const struct net_url *proxy;
    struct tls_client *proxy_tls;
    struct tls_client *tls;
    struct str server_name;
    int64_t timeout_ns; // to connect, and again to be answered; 0: 10 s, and 30 s
    struct str method;
    struct str target;
    // All headers but host, connection and content-length; the upgrade among them.
    const struct http_header *headers;
    size_t headers_len;
    // opened: the server has switched; its headers are good until it returns.
    void (*opened)(void *arg, const struct http_header *headers, size_t headers_len);
    // refused: it has answered something else.
    void (*refused)(void *arg, int status, struct str content_type, struct str body);
    void (*input)(void *arg, struct str bytes);
    void (*drained)(void *arg);
    void (*closed)(void *arg, const struct err *err); // NULL: the server has closed
    void *arg;
};

// tunnel_new copies what it needs.
struct tunnel *tunnel_new(const struct tunnel_options *options);

// As their namesakes in net/dial.h. After the last two no callback runs.
bool tunnel_write(struct tunnel *t, struct str bytes);
void tunnel_hold(struct tunnel *t, bool hold);
void tunnel_end(struct tunnel *t);
void tunnel_close(struct tunnel *t);

#endif

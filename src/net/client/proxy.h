// SPDX-License-Identifier: Apache-2.0
//
// Proxies on the way to a server: which one the environment names, and the handshake with it before
// the connection is the server's. No I/O.
#ifndef NET_CLIENT_PROXY_H
#define NET_CLIENT_PROXY_H

#include "net/h1_answer.h"
#include "net/io/url.h"

// As the environment has them; empty for none.
struct proxy_env {
    struct str http, https, all, none;
};

// proxy_env_read reads HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, or the same in lower case.
// The texts are the environment's.
void proxy_env_read(struct proxy_env *ret);

// proxy_env_choose is the proxy for a server by the rules of client-go: none for loopback addresses
// and for what NO_PROXY names. Empty: none.
struct str proxy_env_choose(const struct proxy_env *e, bool tls, struct str host, uint16_t port);

// proxy_parse reads a proxy's URL; without a scheme it is http. Returns 0 or -ERR_INVALID.
int proxy_parse(struct str text, struct net_url *ret, struct err *err) MUST_USE;

// The handshake with a proxy: CONNECT over HTTP/1.1, or SOCKS5 with the name resolved by the proxy.
struct proxy_talk {
    bool socks;
    int step;
    bool has_user;
    struct sbuf hello, login, request;
    struct sbuf in; // SOCKS5: bytes that are not understood yet
    struct h1_answer answer;
};

// proxy_talk_init copies what it needs. Returns 0 or -ERR_INVALID (a name or password that SOCKS5
// cannot carry).
int proxy_talk_init(struct proxy_talk *t, const struct net_url *proxy, struct str host,
                    uint16_t port, struct err *err) MUST_USE;
void proxy_talk_done(struct proxy_talk *t);

// proxy_talk_begin is the first thing to send. proxy_talk_input takes bytes from *in, moving it on,
// and adds to out what is to be sent. Returns 1 when the connection is the server's, 0, or a
// negative code.
struct str proxy_talk_begin(const struct proxy_talk *t);
int proxy_talk_input(struct proxy_talk *t, struct str *in, struct sbuf *out,
                     struct err *err) MUST_USE;

#endif

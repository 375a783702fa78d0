// SPDX-License-Identifier: Apache-2.0
//
// URLs of servers and proxies: SCHEME://[USER[:PASSWORD]@]HOST[:PORT][/PREFIX]. No query, no
// fragment.
#ifndef NET_IO_URL_H
#define NET_IO_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum net_scheme { NET_HTTP, NET_HTTPS, NET_SOCKS5 };

struct net_url {
    enum net_scheme scheme;
    char *host; // without brackets
    uint16_t port;
    char *authority; // HOST[:PORT] as written
    char *prefix;    // the path without slashes at its end; "" for none
    char *user;      // decoded; NULL: none was given
    char *password;  // "" if only the user was given
};

// net_url_parse reads a URL. Returns 0 or -ERR_INVALID.
int net_url_parse(struct str text, struct net_url *ret, struct err *err) MUST_USE;
void net_url_done(struct net_url *u);

// net_url_basic adds "Basic …" for the URL's user and password; nothing if there is none.
void net_url_basic(const struct net_url *u, struct sbuf *out);

#endif

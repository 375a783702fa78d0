// SPDX-License-Identifier: Apache-2.0
//
// A connection of its own to the same server that becomes something else than HTTP.
#include <assert.h>

#include "client/remote/remote_int.h"
#include "net/tunnel.h"

#include "base/banned.h"

#define HEADERS_MAX 16

int client_remote_tunnel(struct client *c, const struct tunnel_options *options,
                         struct tunnel **ret, struct err *err)
{
    struct remote *r = remote_of(c);
    struct http_header headers[HEADERS_MAX + 1];
    struct tunnel_options o = *options;
    size_t n = options->headers_len;
    assert(n <= HEADERS_MAX);
    memcpy(headers, options->headers, n * sizeof(*headers));
    if (r->auth.authorization.n)
        headers[n++] = (struct http_header){STR("Authorization"), sbuf_str(&r->auth.authorization)};
    o.headers = headers;
    o.headers_len = n;
    return https_tunnel(r->https, &o, ret, err);
}

// SPDX-License-Identifier: Apache-2.0
//
// A connection of its own to the same server that becomes something else than HTTP.
#include <assert.h>

#include "client/remote_int.h"
#include "net/tls.h"
#include "net/tunnel.h"

#include "base/banned.h"

#define HEADERS_MAX 16

// Where the server is: https://HOST[:PORT][/PREFIX].
struct address {
    bool tls;
    struct str host;
    uint16_t port;
    struct str prefix;
};

static int parse_address(struct str url, struct address *ret, struct err *err)
{
    struct str rest = url, port = {0};
    uint64_t number = 0;
    ret->tls = str_starts(url, STR("https://"));
    rest = str_from(rest, ret->tls ? 8 : 7);
    ptrdiff_t slash = str_find_char(rest, '/');
    struct str at = slash < 0 ? rest : str_upto(rest, (size_t)slash);
    ret->prefix = slash < 0 ? (struct str){0} : str_from(rest, (size_t)slash);
    while (str_ends(ret->prefix, STR("/")))
        ret->prefix.n--;
    if (str_starts(at, STR("["))) {
        str_cut(str_from(at, 1), ']', &ret->host, &port);
        port = str_from(port, 1);
    } else {
        str_cut(at, ':', &ret->host, &port);
    }
    ret->port = ret->tls ? 443 : 80;
    if (port.n && (str_to_u64(port, &number) < 0 || number == 0 || number > 65535))
        return err_set(err, ERR_INVALID, "the server's URL %.*s has no good port", STR_ARG(url));
    if (port.n)
        ret->port = (uint16_t)number;
    return 0;
}

static int make_tls(struct remote *r, struct err *err)
{
    const struct kubeconfig_target *t = &r->auth.target;
    const struct tls_client_options o = {.ca_pem = t->ca_pem,
                                         .certificate_pem = t->certificate_pem,
                                         .key_pem = t->key_pem,
                                         .insecure = t->insecure};
    return r->tls ? 0 : tls_client_new(&o, &r->tls, err);
}

int client_remote_tunnel(struct client *c, const struct tunnel_options *options,
                         struct tunnel **ret, struct err *err)
{
    struct remote *r = remote_of(c);
    struct address at = {0};
    struct http_header headers[HEADERS_MAX + 1];
    size_t n = options->headers_len;
    cleanup_sbuf struct sbuf target = {0};
    if (r->auth.target.proxy.n)
        return err_set(err, ERR_UNSUPPORTED,
                       "connections that switch protocols cannot go through a proxy yet");
    assert(n <= HEADERS_MAX);
    int code = parse_address(r->auth.target.server, &at, err);
    if (code == 0 && at.tls)
        code = make_tls(r, err);
    if (code < 0)
        return code;
    memcpy(headers, options->headers, n * sizeof(*headers));
    if (r->auth.authorization.n)
        headers[n++] = (struct http_header){STR("Authorization"), sbuf_str(&r->auth.authorization)};
    sbuf_add(&target, at.prefix);
    sbuf_add(&target, options->target);
    struct tunnel_options o = *options;
    o.loop = r->loop;
    o.host = at.host;
    o.port = at.port;
    o.tls = at.tls ? r->tls : NULL;
    o.server_name = r->auth.target.server_name;
    o.target = sbuf_str(&target);
    o.headers = headers;
    o.headers_len = n;
    *ret = tunnel_new(&o);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Only what names a server is accepted; parsing is strict, as the parts end up in request lines and
// in headers.
#include "net/io/url.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "codec/base64.h"
#include "codec/percent.h"
#include "net/http/h1_parse.h"

#include "base/banned.h"

#define NET_URL_BYTES_MAX ((size_t)4096)

static const struct {
    struct str name;
    enum net_scheme scheme;
    uint16_t port;
} net_url_schemes[] = {
    {STR_INIT("https"), NET_HTTPS, 443},
    {STR_INIT("http"), NET_HTTP, 80},
    {STR_INIT("socks5"), NET_SOCKS5, 1080},
    {STR_INIT("socks5h"), NET_SOCKS5, 1080},
};

static bool net_url_read_scheme(struct str *text, struct net_url *ret)
{
    ptrdiff_t at = str_find(*text, STR("://"));
    if (at < 0)
        return false;
    for (size_t i = 0; i < array_len(net_url_schemes); i++) {
        if (!h1_same_ignoring_case(str_upto(*text, (size_t)at), net_url_schemes[i].name))
            continue;
        ret->scheme = net_url_schemes[i].scheme;
        ret->port = net_url_schemes[i].port;
        *text = str_from(*text, (size_t)at + 3);
        return true;
    }
    return false;
}

// net_url_decode resolves percent-encoding. NULL: malformed, or a NUL.
static char *net_url_decode(struct str s)
{
    cleanup_arena struct arena arena = {0};
    struct str plain;
    if (!percent_decode(s, false, &arena, &plain) || str_find_char(plain, '\0') >= 0)
        return NULL;
    return xstrndup(plain.p, plain.n);
}

static bool net_url_read_user(struct str *authority, struct net_url *ret)
{
    struct str user, password;
    ptrdiff_t at = str_rfind_char(*authority, '@');
    if (at < 0)
        return true;
    (void)str_cut(str_upto(*authority, (size_t)at), ':', &user, &password);
    *authority = str_from(*authority, (size_t)at + 1);
    ret->user = net_url_decode(user);
    ret->password = net_url_decode(password);
    return ret->user && ret->password;
}

static bool net_url_is_host(struct str host)
{
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        bool ok = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  c == '-' || c == '.' || c == '_' || c == ':' || c >= 0x80;
        if (!ok)
            return false;
    }
    return host.n > 0 && host.n <= 255;
}

static bool net_url_read_host(struct str authority, struct net_url *ret)
{
    struct str host, port;
    uint64_t number = 0;
    bool has_port;
    if (str_starts(authority, STR("["))) {
        if (!str_cut(str_from(authority, 1), ']', &host, &port) || (port.n && port.p[0] != ':'))
            return false;
        has_port = port.n > 1;
        port = str_from(port, 1);
    } else {
        has_port = str_cut(authority, ':', &host, &port) && port.n > 0;
        if (str_find_char(port, ':') >= 0)
            return false;
    }
    if (!net_url_is_host(host))
        return false;
    if (has_port && (str_to_u64(port, &number) < 0 || number == 0 || number > UINT16_MAX))
        return false;
    if (has_port)
        ret->port = (uint16_t)number;
    ret->host = xstrndup(host.p, host.n);
    ret->authority = xstrndup(authority.p, authority.n);
    return true;
}

static bool net_url_read_prefix(struct str prefix, struct net_url *ret)
{
    while (str_ends(prefix, STR("/")))
        prefix.n--;
    if (prefix.n && (!h1_is_target(prefix) || str_find_char(prefix, '?') >= 0))
        return false;
    ret->prefix = xstrndup(prefix.n ? prefix.p : "", prefix.n);
    return true;
}

int net_url_parse(struct str text, struct net_url *ret, struct err *err)
{
    struct net_url u = {0};
    struct str rest = text;
    bool ok = text.n <= NET_URL_BYTES_MAX && net_url_read_scheme(&rest, &u);
    ptrdiff_t slash = str_find_char(rest, '/');
    struct str authority = slash < 0 ? rest : str_upto(rest, (size_t)slash);
    ok = ok && net_url_read_user(&authority, &u) && net_url_read_host(authority, &u) &&
         net_url_read_prefix(slash < 0 ? (struct str){0} : str_from(rest, (size_t)slash), &u);
    if (!ok) {
        net_url_done(&u);
        return err_set(err, ERR_INVALID, "'%.*s' is not a URL of the form https://HOST[:PORT]",
                       STR_ARG(str_upto(text, 200)));
    }
    *ret = u;
    return 0;
}

void net_url_done(struct net_url *u)
{
    free(u->host);
    free(u->authority);
    free(u->prefix);
    free(u->user);
    free(u->password);
    *u = (struct net_url){0};
}

void net_url_basic(const struct net_url *u, struct sbuf *out)
{
    cleanup_sbuf struct sbuf pair = {0};
    if (!u->user)
        return;
    sbuf_addz(&pair, u->user);
    sbuf_addc(&pair, ':');
    sbuf_addz(&pair, u->password);
    sbuf_addz(out, "Basic ");
    base64_encode(sbuf_str(&pair), BASE64_STD, out);
}

// SPDX-License-Identifier: Apache-2.0
//
// URLs as Go's net/url parses and prints them, and the functions of the URL library.
#include "cel/url.h"

#include <ctype.h>

#include "base/ip.h"
#include "base/str.h"
#include "cel/lib/lib.h"

#include "base/banned.h"

static bool url_is_unreserved(char c)
{
    return isalnum((unsigned char)c) || (c && strchr("-_.~", c));
}

enum mode { MODE_PATH, MODE_HOST, MODE_QUERY, MODE_USER, MODE_FRAGMENT, MODE_ZONE };

// Go's shouldEscape.
static bool should_escape(char c, enum mode mode)
{
    if (url_is_unreserved(c))
        return false;
    if ((mode == MODE_HOST || mode == MODE_ZONE) && c && strchr("!$&'()*+,;=:[]<>\"", c))
        return false;
    if (c && strchr("$&+,/:;=?@", c)) {
        switch ((int)mode) {
        case MODE_PATH:
            return c == '?';
        case MODE_USER:
            return strchr("@/?:", c) != NULL;
        case MODE_QUERY:
            return true;
        default:
            return false;
        }
    }
    return !(mode == MODE_FRAGMENT && c && strchr("!()*", c));
}

static bool url_set_error(struct err *err, const char *what, struct str part)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, part);
    (void)err_set(err, ERR_INVALID, "%s %.*s", what, STR_ARG(sbuf_str(&b)));
    return false;
}

// Percent-decoding with Go's rules for each part.
static bool url_decode_part(struct arena *a, struct str s, enum mode mode, struct str *ret,
                            struct err *err)
{
    bool changed = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            if (i + 2 >= s.n || str_hex_digit(s.p[i + 1]) < 0 || str_hex_digit(s.p[i + 2]) < 0)
                return url_set_error(err, "invalid URL escape", str_upto(str_from(s, i), 3));
            // In a host only non-ASCII bytes may be encoded, and '%' for zones.
            if (mode == MODE_HOST && str_hex_digit(s.p[i + 1]) < 8 &&
                !str_eqz(str_upto(str_from(s, i), 3), "%25"))
                return url_set_error(err, "invalid URL escape", str_upto(str_from(s, i), 3));
            changed = true;
            i += 2;
        } else if (c == '+' && mode == MODE_QUERY) {
            changed = true;
        } else if (mode == MODE_HOST && (unsigned char)c < 0x80 && should_escape(c, mode)) {
            cleanup_sbuf struct sbuf b = {0};
            sbuf_add_quoted(&b, str_upto(str_from(s, i), 1));
            (void)err_set(err, ERR_INVALID, "invalid character %.*s in host name",
                          STR_ARG(sbuf_str(&b)));
            return false;
        }
    }
    if (!changed) {
        *ret = s;
        return true;
    }
    char *out = arena_alloc(a, s.n + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '%') {
            unsigned high = (unsigned)str_hex_digit(s.p[i + 1]); // checked above
            out[n++] = (char)(high << 4 | (unsigned)str_hex_digit(s.p[i + 2]));
            i += 2;
        } else {
            out[n++] = s.p[i] == '+' && mode == MODE_QUERY ? ' ' : s.p[i];
        }
    }
    *ret = str_make(out, n);
    return true;
}

static void url_encode_part(struct str s, enum mode mode, struct sbuf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        if (should_escape(s.p[i], mode))
            sbuf_addf(out, "%%%02X", (unsigned)(unsigned char)s.p[i]);
        else
            sbuf_addc(out, s.p[i]);
    }
}

static bool port_ok(struct str s)
{
    if (s.n == 0)
        return true;
    if (s.p[0] != ':')
        return false;
    for (size_t i = 1; i < s.n; i++)
        if (!isdigit((unsigned char)s.p[i]))
            return false;
    return true;
}

static bool refuse_port(struct str port, struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, port);
    (void)err_set(err, ERR_INVALID, "invalid port %.*s after host", STR_ARG(sbuf_str(&b)));
    return false;
}

// An IPv6 address, with or without a zone.
static bool url_is_ipv6(struct str s)
{
    struct str host, zone;
    return !(str_cut(s, '%', &host, &zone) && zone.n == 0) && ip_is(host, AF_INET6);
}

// parse_literal reads "[ADDRESS]" and a port.
static bool parse_literal(struct arena *a, struct str host, struct str *ret, struct err *err)
{
    ptrdiff_t close = str_rfind_char(host, ']');
    if (close < 0) {
        (void)err_set(err, ERR_INVALID, "missing ']' in host");
        return false;
    }
    struct str port = str_from(host, (size_t)close + 1);
    if (!port_ok(port))
        return refuse_port(port, err);
    // A zone behind %25 may hold other encoded characters.
    struct str name = str_from(str_upto(host, (size_t)close), 1), address = {0}, zone = {0};
    ptrdiff_t at = str_find(name, STR("%25"));
    if (!url_decode_part(a, at < 0 ? name : str_upto(name, (size_t)at), MODE_HOST, &address, err) ||
        (at >= 0 && !url_decode_part(a, str_from(name, (size_t)at), MODE_ZONE, &zone, err)))
        return false;
    struct str whole = arena_strf(a, "%.*s%.*s", STR_ARG(address), STR_ARG(zone));
    if (!url_is_ipv6(whole)) {
        (void)err_set(err, ERR_INVALID, "invalid host: %.*s is no IPv6 address", STR_ARG(whole));
        return false;
    }
    *ret = arena_strf(a, "[%.*s]%.*s", STR_ARG(whole), STR_ARG(port));
    return true;
}

// Colons in a host are taken for old times' sake, but not in URLs of the web.
static bool parse_host(struct arena *a, struct str scheme, struct str host, struct str *ret,
                       struct err *err)
{
    bool web = str_eqz(scheme, "http") || str_eqz(scheme, "https");
    ptrdiff_t open = str_rfind_char(host, '[');
    if (open > 0) {
        (void)err_set(err, ERR_INVALID, "invalid IP-literal");
        return false;
    }
    if (open == 0)
        return parse_literal(a, host, ret, err);
    ptrdiff_t colon = web ? str_find_char(host, ':') : str_rfind_char(host, ':');
    if (colon >= 0 && !port_ok(str_from(host, (size_t)colon)))
        return refuse_port(str_from(host, (size_t)colon), err);
    return url_decode_part(a, host, MODE_HOST, ret, err);
}

static bool valid_userinfo(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!isalnum((unsigned char)s.p[i]) && !strchr("-._:~!$&'()*+,;=%@", s.p[i]))
            return false;
    return true;
}

static bool parse_authority(struct arena *a, struct str s, struct cel_url *u, struct err *err)
{
    ptrdiff_t at = str_rfind_char(s, '@');
    if (!parse_host(a, u->scheme, at < 0 ? s : str_from(s, (size_t)at + 1), &u->host, err))
        return false;
    if (at < 0)
        return true;
    u->user = str_upto(s, (size_t)at);
    u->has_user = true;
    struct str ignored;
    if (!valid_userinfo(u->user)) {
        (void)err_set(err, ERR_INVALID, "net/url: invalid userinfo");
        return false;
    }
    return url_decode_part(a, u->user, MODE_USER, &ignored, err);
}

static struct str url_lower_case(struct arena *a, struct str s)
{
    char *lower = arena_alloc(a, s.n + 1, 1);
    for (size_t i = 0; i < s.n; i++)
        lower[i] = (char)tolower((unsigned char)s.p[i]);
    return str_make(lower, s.n);
}

// "scheme:" at the start; *ret_rest is what follows.
static bool cut_scheme(struct arena *a, struct str s, struct str *ret_scheme, struct str *ret_rest,
                       struct err *err)
{
    *ret_scheme = (struct str){0};
    *ret_rest = s;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (isalpha((unsigned char)c))
            continue;
        if (isdigit((unsigned char)c) || c == '+' || c == '-' || c == '.') {
            if (i == 0)
                return true;
            continue;
        }
        if (c == ':') {
            if (i == 0) {
                (void)err_set(err, ERR_INVALID, "missing protocol scheme");
                return false;
            }
            *ret_scheme = url_lower_case(a, str_upto(s, i));
            *ret_rest = str_from(s, i + 1);
            return true;
        }
        return true;
    }
    return true;
}

// With via_request (ParseRequestURI) only absolute URIs and absolute paths are good, and no
// fragment is cut off.
static bool url_parse_text(struct arena *a, struct str s, bool via_request, struct cel_url *u,
                           struct err *err)
{
    *u = (struct cel_url){0};
    for (size_t i = 0; i < s.n; i++) {
        if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f) {
            (void)err_set(err, ERR_INVALID, "net/url: invalid control character in URL");
            return false;
        }
    }
    if (s.n == 0 && via_request) {
        (void)err_set(err, ERR_INVALID, "empty url");
        return false;
    }
    if (str_eqz(s, "*")) {
        u->path = s;
        return true;
    }
    struct str rest;
    if (!cut_scheme(a, s, &u->scheme, &rest, err))
        return false;
    ptrdiff_t question = str_find_char(rest, '?');
    if (question >= 0 && question == (ptrdiff_t)rest.n - 1) {
        u->force_query = true;
        rest = str_upto(rest, rest.n - 1);
    } else if (question >= 0) {
        u->query = str_from(rest, (size_t)question + 1);
        rest = str_upto(rest, (size_t)question);
    }
    if (!(rest.n && rest.p[0] == '/')) {
        if (u->scheme.n) {
            u->opaque = rest;
            return true;
        }
        if (via_request) {
            (void)err_set(err, ERR_INVALID, "invalid URI for request");
            return false;
        }
        struct str segment;
        struct str ignored;
        (void)str_cut(rest, '/', &segment, &ignored);
        if (str_find_char(segment, ':') >= 0) {
            (void)err_set(err, ERR_INVALID, "first path segment in URL cannot contain colon");
            return false;
        }
    }
    bool two = str_starts(rest, STR("//"));
    bool three = str_starts(rest, STR("///"));
    if ((u->scheme.n || (!via_request && !three)) && two) {
        struct str authority = str_from(rest, 2);
        ptrdiff_t slash = str_find_char(authority, '/');
        rest = slash < 0 ? (struct str){0} : str_from(authority, (size_t)slash);
        if (slash >= 0)
            authority = str_upto(authority, (size_t)slash);
        if (!parse_authority(a, authority, u, err))
            return false;
    } else if (u->scheme.n && rest.n && rest.p[0] == '/') {
        u->omit_host = true;
    }
    if (!url_decode_part(a, rest, MODE_PATH, &u->path, err))
        return false;
    cleanup_sbuf struct sbuf standard = {0};
    url_encode_part(u->path, MODE_PATH, &standard);
    if (!str_eq(sbuf_str(&standard), rest))
        u->raw_path = rest;
    return true;
}

static void wrap_error(struct str text, struct err *err)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_add_quoted(&b, text);
    (void)err_wrap(err, "parse %.*s", STR_ARG(sbuf_str(&b)));
}

// cel_url_parse reads text; false with a reason in err. Slices point into text or the arena.
static bool cel_url_parse(struct arena *a, struct str text, struct cel_url *ret, struct err *err)
{
    if (!url_parse_text(a, text, true, ret, err)) {
        wrap_error(text, err);
        return false;
    }
    struct str main_part;
    struct str fragment;
    bool has_fragment = str_cut(text, '#', &main_part, &fragment);
    struct str ignored;
    if (!url_parse_text(a, main_part, false, ret, err) ||
        (has_fragment && !url_decode_part(a, fragment, MODE_FRAGMENT, &ignored, err))) {
        wrap_error(text, err);
        return false;
    }
    if (has_fragment && fragment.n)
        ret->fragment = fragment;
    return true;
}

// Whether a path as written may be shown as written: nothing in it would have to be escaped.
static bool valid_encoded(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!strchr("!$&'()*+,;=:@[]%", s.p[i]) && should_escape(s.p[i], MODE_PATH))
            return false;
    return true;
}

// cel_url_escaped_path adds Go's EscapedPath.
static void cel_url_escaped_path(const struct cel_url *u, struct sbuf *out)
{
    if (u->raw_path.n && valid_encoded(u->raw_path)) {
        sbuf_add(out, u->raw_path);
        return;
    }
    if (str_eqz(u->path, "*")) {
        sbuf_addc(out, '*');
        return;
    }
    url_encode_part(u->path, MODE_PATH, out);
}

void cel_url_write(const struct cel_url *u, struct sbuf *out)
{
    if (u->scheme.n) {
        sbuf_add(out, u->scheme);
        sbuf_addc(out, ':');
    }
    if (u->opaque.n) {
        sbuf_add(out, u->opaque);
    } else {
        if (u->scheme.n || u->host.n || u->has_user) {
            if (!(u->omit_host && !u->host.n && !u->has_user)) {
                if (u->host.n || u->path.n || u->has_user)
                    sbuf_addz(out, "//");
                if (u->has_user) {
                    sbuf_add(out, u->user);
                    sbuf_addc(out, '@');
                }
                url_encode_part(u->host, MODE_HOST, out);
            }
        }
        if (u->path.n && u->path.p[0] != '/' && u->host.n)
            sbuf_addc(out, '/');
        cel_url_escaped_path(u, out);
    }
    if (u->force_query || u->query.n) {
        sbuf_addc(out, '?');
        sbuf_add(out, u->query);
    }
    if (u->fragment.n) {
        sbuf_addc(out, '#');
        sbuf_add(out, u->fragment);
    }
}

bool cel_url_equal(const struct cel_url *a, const struct cel_url *b)
{
    cleanup_sbuf struct sbuf x = {0};
    cleanup_sbuf struct sbuf y = {0};
    cel_url_write(a, &x);
    cel_url_write(b, &y);
    return str_eq(sbuf_str(&x), sbuf_str(&y));
}

struct cel_val cel_url_copy(struct cel_val v, struct arena *a)
{
    struct cel_url *u = arena_one(a, struct cel_url);
    *u = *v.url;
    struct str *parts[] = {&u->scheme, &u->opaque,   &u->user,  &u->host,
                           &u->path,   &u->raw_path, &u->query, &u->fragment};
    for (size_t i = 0; i < array_len(parts); i++)
        *parts[i] = arena_str(a, *parts[i]);
    v.url = u;
    return v;
}

static void split_port(const struct cel_url *u, struct str *host, struct str *port)
{
    struct str h = u->host;
    *port = (struct str){0};
    ptrdiff_t colon = str_rfind_char(h, ':');
    if (colon >= 0 && port_ok(str_from(h, (size_t)colon))) {
        *port = str_from(h, (size_t)colon + 1);
        h = str_upto(h, (size_t)colon);
    }
    if (h.n >= 2 && h.p[0] == '[' && h.p[h.n - 1] == ']')
        h = str_make(h.p + 1, h.n - 2);
    *host = h;
}

static struct str cel_url_hostname(const struct cel_url *u)
{
    struct str host;
    struct str port;
    split_port(u, &host, &port);
    return host;
}

// cel_url_hostname and cel_url_port split the host as Go's Hostname and Port do.
static struct str cel_url_port(const struct cel_url *u)
{
    struct str host;
    struct str port;
    split_port(u, &host, &port);
    return port;
}

// cel_url_query makes the map(string, list(string)) of the query; bad pairs are left out as in Go.
static struct cel_map *cel_url_query(struct arena *a, const struct cel_url *u)
{
    struct cel_map *m = cel_map_new(a, 0);
    struct str rest = u->query;
    while (rest.n) {
        struct str pair;
        (void)str_cut(rest, '&', &pair, &rest);
        if (pair.n == 0 || str_find_char(pair, ';') >= 0)
            continue;
        struct str k;
        struct str v;
        struct err ignored = {0};
        (void)str_cut(pair, '=', &k, &v);
        if (!url_decode_part(a, k, MODE_QUERY, &k, &ignored) ||
            !url_decode_part(a, v, MODE_QUERY, &v, &ignored))
            continue;
        const struct cel_val *old = cel_map_get_str(m, k);
        struct cel_list *l = old ? old->list : cel_list_new(a, 2);
        cel_list_push(a, l, cel_string(v));
        if (!old)
            (void)cel_map_set(a, m, cel_string(k), cel_list_value(l));
    }
    return m;
}

static struct cel_val fn_url(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "url", args, n);
    struct cel_url *u = arena_one(&run->arena, struct cel_url);
    struct err err = {0};
    if (!cel_url_parse(&run->arena, cel_str(args[0]), u, &err))
        return cel_errorf(&run->arena, "URL parse error during conversion from string: %s",
                          err.msg);
    return (struct cel_val){.kind = CEL_URL, .url = u};
}

static struct cel_val fn_is_url(struct cel_run *run, const struct cel_val *args, unsigned n)
{
    if (n != 1 || args[0].kind != CEL_STRING)
        return cel_run_mismatch(run, "isURL", args, n);
    struct cel_url u;
    struct err err = {0};
    return cel_bool(url_parse_text(&run->arena, cel_str(args[0]), true, &u, &err));
}

#define URL_PART(fn, name, value)                                                         \
    static struct cel_val fn(struct cel_run *run, const struct cel_val *args, unsigned n) \
    {                                                                                     \
        if (n != 1 || args[0].kind != CEL_URL)                                            \
            return cel_run_mismatch(run, name, args, n);                                  \
        const struct cel_url *u = args[0].url;                                            \
        return value;                                                                     \
    }

static struct cel_val escaped_path(struct cel_run *run, const struct cel_url *u)
{
    sbuf_clear(&run->text);
    cel_url_escaped_path(u, &run->text);
    return cel_run_take(run);
}

URL_PART(fn_scheme, "getScheme", cel_string(u->scheme))
URL_PART(fn_host, "getHost", cel_string(u->host))
URL_PART(fn_hostname, "getHostname", cel_string(cel_url_hostname(u)))
URL_PART(fn_port, "getPort", cel_string(cel_url_port(u)))
URL_PART(fn_path, "getEscapedPath", escaped_path(run, u))
URL_PART(fn_query, "getQuery", cel_map_value(cel_url_query(&run->arena, u)))

bool cel_url_valid(struct arena *a, struct str text, struct err *err)
{
    struct cel_url u;
    if (url_parse_text(a, text, true, &u, err))
        return true;
    wrap_error(text, err);
    return false;
}

static const struct cel_impl table[] = {
    {"url", fn_url},
    {"isURL", fn_is_url},
    {"getScheme", fn_scheme},
    {"getHost", fn_host},
    {"getHostname", fn_hostname},
    {"getPort", fn_port},
    {"getEscapedPath", fn_path},
    {"getQuery", fn_query},
};

CEL_IMPLS(url, table);

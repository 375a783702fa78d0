// SPDX-License-Identifier: Apache-2.0
//
// The rules of NO_PROXY are those of Go's net/http, so that a program beside kubectl takes the same
// way.
#include "net/client/proxy.h"

#include <stdlib.h>

#include <arpa/inet.h>

#include "net/address.h"

#include "base/banned.h"

// --- The environment -----------------------------------------------------------------------------

static struct str proxy_env_get(const char *upper, const char *lower)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the environment does not change
    const char *value = getenv(upper);
    if (!value || !value[0])
        value = getenv(lower); // NOLINT(concurrency-mt-unsafe)
    return str_z(value);
}

void proxy_env_read(struct proxy_env *ret)
{
    *ret = (struct proxy_env){.http = proxy_env_get("HTTP_PROXY", "http_proxy"),
                              .https = proxy_env_get("HTTPS_PROXY", "https_proxy"),
                              .all = proxy_env_get("ALL_PROXY", "all_proxy"),
                              .none = proxy_env_get("NO_PROXY", "no_proxy")};
}

// An IPv4 address is kept as IPv6 has it (::ffff:a.b.c.d), so that one comparison does.
struct proxy_ip {
    unsigned char bytes[16];
    bool four;
};

static bool proxy_ip_parse(struct str text, struct proxy_ip *ret)
{
    char z[INET6_ADDRSTRLEN];
    if (text.n >= sizeof(z) || text.n == 0)
        return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    *ret = (struct proxy_ip){.bytes = {[10] = 0xff, [11] = 0xff}, .four = true};
    if (inet_pton(AF_INET, z, ret->bytes + 12) == 1)
        return true;
    ret->four = false;
    return inet_pton(AF_INET6, z, ret->bytes) == 1;
}

static bool proxy_ip_in_network(const struct proxy_ip *ip, struct str network)
{
    struct str base, bits;
    struct proxy_ip at;
    uint64_t n = 0;
    if (!str_cut(network, '/', &base, &bits) || !proxy_ip_parse(base, &at) ||
        str_to_u64(bits, &n) < 0 || n > (at.four ? 32 : 128) || at.four != ip->four)
        return false;
    n += at.four ? 96 : 0;
    for (size_t i = 0; i < 16 && n > 0; i++, n = n > 8 ? n - 8 : 0) {
        int shift = n >= 8 ? 0 : (int)(8 - n);
        if ((ip->bytes[i] ^ at.bytes[i]) >> shift)
            return false;
    }
    return true;
}

// proxy_cut_port takes :PORT off an entry of NO_PROXY. False: it is for another port.
static bool proxy_cut_port(struct str *entry, uint16_t port)
{
    struct str host, text;
    uint64_t number = 0;
    struct proxy_ip ip;
    if (proxy_ip_parse(*entry, &ip)) // IPv6 without brackets has colons too
        return true;
    if (!address_split(*entry, &host, &text) || str_to_u64(text, &number) < 0) {
        if (str_starts(*entry, STR("[")) && str_ends(*entry, STR("]")))
            *entry = str_make(entry->p + 1, entry->n - 2);
        return true;
    }
    *entry = host;
    return number == port;
}

static bool proxy_entry_names(struct str entry, struct str host)
{
    if (str_starts(entry, STR("*.")))
        entry = str_from(entry, 1);
    bool only_below = str_starts(entry, STR("."));
    struct str domain = only_below ? str_from(entry, 1) : entry;
    if (domain.n == 0 || host.n < domain.n)
        return false;
    struct str tail = str_from(host, host.n - domain.n);
    for (size_t i = 0; i < domain.n; i++) {
        char a = domain.p[i], b = tail.p[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a + 32) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b + 32) : b;
        if (a != b)
            return false;
    }
    return host.n == domain.n ? !only_below : host.p[host.n - domain.n - 1] == '.';
}

static bool proxy_entry_excludes(struct str entry, struct str host, const struct proxy_ip *ip,
                                 uint16_t port)
{
    struct proxy_ip other;
    if (str_eqz(entry, "*"))
        return true;
    if (ip && proxy_ip_in_network(ip, entry))
        return true;
    if (entry.n == 0 || !proxy_cut_port(&entry, port))
        return false;
    if (proxy_ip_parse(entry, &other))
        return ip && memcmp(ip->bytes, other.bytes, sizeof(other.bytes)) == 0;
    return !ip && proxy_entry_names(entry, host);
}

struct str proxy_env_choose(const struct proxy_env *e, bool tls, struct str host, uint16_t port)
{
    struct str chosen = tls ? e->https : e->http;
    struct proxy_ip ip;
    bool is_ip = proxy_ip_parse(host, &ip);
    if (chosen.n == 0)
        chosen = e->all;
    if (chosen.n == 0 || address_is_loopback(host))
        return (struct str){0};
    for (struct str entry, rest = e->none; rest.n;) {
        (void)str_cut(rest, ',', &entry, &rest);
        if (proxy_entry_excludes(str_trim(entry), host, is_ip ? &ip : NULL, port))
            return (struct str){0};
    }
    return chosen;
}

int proxy_parse(struct str text, struct net_url *ret, struct err *err)
{
    cleanup_sbuf struct sbuf whole = {0};
    if (!str_contains(text, STR("://")))
        sbuf_addz(&whole, "http://");
    sbuf_add(&whole, text);
    int r = net_url_parse(sbuf_str(&whole), ret, NULL);
    // The URL may have a password: errors do not repeat it.
    return r == 0
               ? 0
               : err_set(err, ERR_INVALID,
                         "the proxy's URL is not of the form http://[USER:PASSWORD@]HOST[:PORT]; "
                         "https and socks5 are supported too");
}

// --- The conversation ----------------------------------------------------------------------------

#define SOCKS_VERSION   5
#define SOCKS_NO_AUTH   0
#define SOCKS_PASSWORD  2
#define SOCKS_FIELD_MAX ((size_t)255)
#define SOCKS_REPLY_MAX ((size_t)(4 + 1 + 255 + 2))

enum { PROXY_HELLO, PROXY_LOGIN, PROXY_REQUEST };

static void proxy_talk_init_http(struct proxy_talk *t, const struct net_url *proxy, struct str host,
                                 uint16_t port)
{
    cleanup_sbuf struct sbuf authority = {0}, basic = {0};
    t->answer.connect = true;
    h1_add_authority(&authority, host, port);
    // A host that has passed net_url_parse has no characters that could be refused here.
    (void)h1_add_request_line(&t->hello, STR("CONNECT"), sbuf_str(&authority),
                              sbuf_str(&authority));
    net_url_basic(proxy, &basic);
    if (basic.n)
        (void)h1_add_field(&t->hello, STR("Proxy-Authorization"), sbuf_str(&basic));
    (void)h1_add_field(&t->hello, STR("User-Agent"), STR("dray"));
    sbuf_addz(&t->hello, "\r\n");
}

static void proxy_add_counted(struct sbuf *out, struct str s)
{
    sbuf_addc(out, (char)s.n);
    sbuf_add(out, s);
}

static void proxy_add_target(struct sbuf *out, struct str host, uint16_t port)
{
    struct proxy_ip ip;
    const char head[] = {SOCKS_VERSION, 1, 0};
    sbuf_add(out, str_make(head, sizeof(head)));
    if (!proxy_ip_parse(host, &ip)) {
        sbuf_addc(out, 3);
        proxy_add_counted(out, host);
    } else if (ip.four) {
        sbuf_addc(out, 1);
        sbuf_add(out, str_make((const char *)ip.bytes + 12, 4));
    } else {
        sbuf_addc(out, 4);
        sbuf_add(out, str_make((const char *)ip.bytes, 16));
    }
    sbuf_addc(out, (char)(port >> 8));
    sbuf_addc(out, (char)port);
}

int proxy_talk_init(struct proxy_talk *t, const struct net_url *proxy, struct str host,
                    uint16_t port, struct err *err)
{
    *t = (struct proxy_talk){.socks = proxy->scheme == NET_SOCKS5, .has_user = proxy->user};
    if (!t->socks) {
        proxy_talk_init_http(t, proxy, host, port);
        return 0;
    }
    struct str user = str_z(proxy->user), password = str_z(proxy->password);
    if (host.n > SOCKS_FIELD_MAX || user.n > SOCKS_FIELD_MAX || password.n > SOCKS_FIELD_MAX)
        return err_set(err, ERR_INVALID,
                       "SOCKS5 cannot carry names and passwords over 255 bytes; shorten them");
    const char hello[] = {SOCKS_VERSION, t->has_user ? 2 : 1, SOCKS_NO_AUTH, SOCKS_PASSWORD};
    sbuf_add(&t->hello, str_make(hello, t->has_user ? 4 : 3));
    sbuf_addc(&t->login, 1);
    proxy_add_counted(&t->login, user);
    proxy_add_counted(&t->login, password);
    proxy_add_target(&t->request, host, port);
    return 0;
}

void proxy_talk_done(struct proxy_talk *t)
{
    sbuf_done(&t->hello);
    sbuf_done(&t->login);
    sbuf_done(&t->request);
    sbuf_done(&t->in);
    h1_answer_done(&t->answer);
}

struct str proxy_talk_begin(const struct proxy_talk *t)
{
    return sbuf_str(&t->hello);
}

static int proxy_input_http(struct proxy_talk *t, struct str *in, struct err *err)
{
    struct str piece;
    int r = h1_answer_read(&t->answer, in, &piece, err);
    if (r == H1_ANSWER_MORE)
        return 0;
    if (r < 0)
        return err_wrap(err, "the proxy's answer");
    if (t->answer.status == 407)
        return err_set(err, ERR_UNAVAILABLE,
                       "the proxy wants credentials (407); put USER:PASSWORD@ into its URL");
    if (t->answer.status / 100 != 2)
        return err_set(err, ERR_UNAVAILABLE, "the proxy refused the connection (HTTP status %d)",
                       t->answer.status);
    return 1;
}

static const char *proxy_socks_reason(unsigned char code)
{
    static const char *const reasons[] = {
        "",
        "general failure",
        "not allowed by its rules",
        "network unreachable",
        "host unreachable",
        "connection refused",
        "TTL expired",
        "command not supported",
        "address type not supported",
    };
    return code < array_len(reasons) ? reasons[code] : "unknown reason";
}

// proxy_reply_length is how long the reply is that t->in begins with; 0: not known yet.
static size_t proxy_reply_length(const struct proxy_talk *t)
{
    const unsigned char *u = (const unsigned char *)t->in.p;
    if (t->step != PROXY_REQUEST)
        return 2;
    if (t->in.n < 5)
        return 0;
    size_t address = u[3] == 1 ? 4 : u[3] == 4 ? 16 : (size_t)u[4] + 1;
    return 4 + address + 2;
}

static int proxy_socks_reply(struct proxy_talk *t, struct sbuf *out, struct err *err)
{
    const unsigned char *u = (const unsigned char *)t->in.p;
    if (t->step != PROXY_LOGIN && u[0] != SOCKS_VERSION)
        return err_set(err, ERR_UNAVAILABLE, "the proxy does not speak SOCKS5");
    if (t->step == PROXY_LOGIN && u[1] != 0)
        return err_set(err, ERR_UNAVAILABLE, "the proxy rejected the user or the password");
    if (t->step == PROXY_REQUEST)
        return u[1] == 0 ? 1
                         : err_set(err, ERR_UNAVAILABLE, "the proxy refused the connection: %s",
                                   proxy_socks_reason(u[1]));
    bool login = t->step == PROXY_HELLO && u[1] == SOCKS_PASSWORD && t->has_user;
    if (t->step == PROXY_HELLO && u[1] != SOCKS_NO_AUTH && !login)
        return err_set(err, ERR_UNAVAILABLE,
                       "the proxy wants credentials; put USER:PASSWORD@ into its URL");
    t->step = login ? PROXY_LOGIN : PROXY_REQUEST;
    sbuf_add(out, sbuf_str(login ? &t->login : &t->request));
    return 0;
}

static int proxy_input_socks(struct proxy_talk *t, struct str *in, struct sbuf *out,
                             struct err *err)
{
    while (in->n) {
        // Byte by byte: what follows the last reply is not the proxy's.
        sbuf_addc(&t->in, in->p[0]);
        *in = str_from(*in, 1);
        if (t->in.n > SOCKS_REPLY_MAX)
            return err_set(err, ERR_UNAVAILABLE, "the proxy does not speak SOCKS5");
        if (t->in.n != proxy_reply_length(t))
            continue;
        int r = proxy_socks_reply(t, out, err);
        sbuf_clear(&t->in);
        if (r != 0)
            return r;
    }
    return 0;
}

int proxy_talk_input(struct proxy_talk *t, struct str *in, struct sbuf *out, struct err *err)
{
    return t->socks ? proxy_input_socks(t, in, out, err) : proxy_input_http(t, in, err);
}

// SPDX-License-Identifier: Apache-2.0
//
// Which proxy is used for which server, and what is said to it.
#include "net/client/proxy.h"
#include "unit.h"

#include "base/banned.h"

// As golang.org/x/net/http/httpproxy decides.
static void no_proxy_names_servers(void **state)
{
    (void)state;
    static const struct {
        const char *none, *host;
        uint16_t port;
        bool direct;
    } rows[] = {
        {"", "example.com", 443, false},
        {"", "localhost", 443, true},
        {"", "127.0.0.1", 443, true},
        {"", "127.8.8.8", 443, true},
        {"", "::1", 443, true},
        {"*", "example.com", 443, true},
        {"example.com", "example.com", 443, true},
        {"EXAMPLE.com", "example.COM", 443, true},
        {"example.com", "a.example.com", 443, true},
        {"example.com", "notexample.com", 443, false},
        {".example.com", "example.com", 443, false},
        {".example.com", "a.example.com", 443, true},
        {"*.example.com", "a.b.example.com", 443, true},
        {"*.example.com", "example.com", 443, false},
        {"a, example.com ,b", "example.com", 443, true},
        {"example.com:443", "example.com", 443, true},
        {"example.com:8443", "example.com", 443, false},
        {"10.0.0.1", "10.0.0.1", 443, true},
        {"10.0.0.1", "10.0.0.2", 443, false},
        {"10.0.0.1:443", "10.0.0.1", 443, true},
        {"10.0.0.1:80", "10.0.0.1", 443, false},
        {"10.0.0.0/8", "10.1.2.3", 443, true},
        {"10.0.0.0/8", "11.1.2.3", 443, false},
        {"10.0.0.0/9", "10.127.0.1", 443, true},
        {"10.0.0.0/9", "10.128.0.1", 443, false},
        {"0.0.0.0/0", "8.8.8.8", 443, true},
        {"10.0.0.0/33", "10.1.2.3", 443, false},
        {"fd00::/8", "fd00::1", 443, true},
        {"fd00::/8", "fe00::1", 443, false},
        {"::ffff:0:0/96", "8.8.8.8", 443, false},
        {"fd00::1", "fd00::1", 443, true},
        {"[fd00::1]", "fd00::1", 443, true},
        {"[fd00::1]:443", "fd00::1", 443, true},
        {"10", "10.0.0.1", 443, false},
        {"com", "example.com", 443, true},
        {".", "example.com", 443, false},
        {",,", "example.com", 443, false},
    };
    for (size_t i = 0; i < array_len(rows); i++) {
        const struct proxy_env e = {.https = STR("http://p:1"), .none = str_z(rows[i].none)};
        struct str got = proxy_env_choose(&e, true, str_z(rows[i].host), rows[i].port);
        if ((got.n == 0) != rows[i].direct)
            fail_msg("'%s' and %s: %s", rows[i].none, rows[i].host, got.n ? "proxy" : "direct");
    }
}

static void schemes_have_proxies_of_their_own(void **state)
{
    (void)state;
    const struct proxy_env e = {.http = STR("h"), .https = STR("s"), .all = STR("a")};
    const struct proxy_env all = {.all = STR("a")};
    assert_str(proxy_env_choose(&e, true, STR("x"), 1), "s");
    assert_str(proxy_env_choose(&e, false, STR("x"), 1), "h");
    assert_str(proxy_env_choose(&all, true, STR("x"), 1), "a");
}

static void assert_url(const char *text, enum net_scheme scheme, const char *host, uint16_t port,
                       const char *user, const char *password, const char *prefix)
{
    struct net_url u = {0};
    assert_int_equal(net_url_parse(str_z(text), &u, NULL), 0);
    assert_int_equal(u.scheme, scheme);
    assert_string_equal(u.host, host);
    assert_int_equal(u.port, port);
    assert_string_equal(u.user ? u.user : "-", user);
    assert_string_equal(u.password ? u.password : "-", password);
    assert_string_equal(u.prefix, prefix);
    net_url_done(&u);
}

static void urls_name_servers(void **state)
{
    (void)state;
    assert_url("https://a", NET_HTTPS, "a", 443, "-", "-", "");
    assert_url("HTTP://a:8080/", NET_HTTP, "a", 8080, "-", "-", "");
    assert_url("https://[::1]:6443/k8s/c//", NET_HTTPS, "::1", 6443, "-", "-", "/k8s/c");
    assert_url("https://[fd00::1]", NET_HTTPS, "fd00::1", 443, "-", "-", "");
    assert_url("socks5://u:p@a", NET_SOCKS5, "a", 1080, "u", "p", "");
    assert_url("http://u%40v:p%3aq@a:1", NET_HTTP, "a", 1, "u@v", "p:q", "");
    assert_url("http://u@a", NET_HTTP, "a", 80, "u", "", "");
    static const char *const bad[] = {"",
                                      "a",
                                      "ftp://a",
                                      "https://",
                                      "https://:1",
                                      "https://a:",
                                      "https://a:0",
                                      "https://a:x",
                                      "https://a:65536",
                                      "https://a b",
                                      "https://a/b c",
                                      "https://a/?b",
                                      "https://a:1:2",
                                      "https://[::1",
                                      "https://[::1]x",
                                      "https://a\r\nb",
                                      "http://u%0@a",
                                      "http://u%00@a",
                                      "https://a#b"};
    for (size_t i = 0; i < array_len(bad); i++) {
        struct net_url u = {0};
        if (strcmp(bad[i], "https://a:") == 0)
            continue; // an empty port is the default one (RFC 3986)
        if (net_url_parse(str_z(bad[i]), &u, NULL) != -ERR_INVALID)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void a_bad_proxy_url_is_not_repeated(void **state)
{
    (void)state;
    struct net_url u = {0};
    struct err err = {0};
    assert_int_equal(proxy_parse(STR("http://user:secret@"), &u, &err), -ERR_INVALID);
    assert_null(strstr(err.msg, "secret"));
    assert_int_equal(proxy_parse(STR("proxy.example:3128"), &u, &err), 0);
    assert_int_equal(u.scheme, NET_HTTP);
    assert_int_equal(u.port, 3128);
    net_url_done(&u);
}

// Says `replies` to the client, a byte at a time. Returns the verdict; out is all that the client has sent.
static int converse(const char *proxy, const char *host, struct str replies, struct sbuf *out,
                    struct err *err)
{
    struct net_url u = {0};
    struct proxy_talk t;
    int r = proxy_parse(str_z(proxy), &u, err);
    assert_int_equal(r, 0);
    assert_int_equal(proxy_talk_init(&t, &u, str_z(host), 443, err), 0);
    sbuf_add(out, proxy_talk_begin(&t));
    while (r == 0 && replies.n) {
        struct str one = str_upto(replies, 1);
        replies = str_from(replies, 1);
        r = proxy_talk_input(&t, &one, out, err);
    }
    if (r > 0 && replies.n)
        sbuf_addz(out, "|rest");
    proxy_talk_done(&t);
    net_url_done(&u);
    return r;
}

static void connect_is_asked_for(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    assert_int_equal(converse("http://user:pass@p", "::1", STR("HTTP/1.1 200 OK\r\nA: b\r\n\r\nX"),
                              &out, &err),
                     1);
    assert_string_equal(out.p,
                        "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: "
                        "Basic dXNlcjpwYXNz\r\nUser-Agent: dray\r\n\r\n|rest");
    assert_true(converse("http://p", "a", STR("HTTP/1.1 407 No\r\n\r\n"), &out, &err) < 0);
    assert_non_null(strstr(err.msg, "credentials"));
    assert_true(converse("http://p", "a", STR("HTTP/1.1 502 x\r\n\r\n"), &out, &err) < 0);
    assert_non_null(strstr(err.msg, "502"));
    assert_true(converse("http://p", "a", STR("SSH-2.0\r\n"), &out, &err) < 0);
}

static void socks5_is_spoken(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    assert_int_equal(converse("socks5://p", "abc", STR("\5\0\5\0\0\1\1\2\3\4\0\0"), &out, &err), 1);
    assert_memory_equal(out.p, "\5\1\0\5\1\0\3\3abc\1\xbb", out.n);
    sbuf_clear(&out);
    assert_int_equal(
        converse("socks5h://u:pw@p", "1.2.3.4", STR("\5\2\1\0\5\0\0\3\2xy\0\0"), &out, &err), 1);
    assert_memory_equal(out.p, "\5\2\0\2\1\1u\2pw\5\1\0\1\1\2\3\4\1\xbb", out.n);
    assert_true(converse("socks5://p", "a", STR("\5\2"), &out, &err) < 0);
    assert_true(converse("socks5://p", "a", STR("\5\xff"), &out, &err) < 0);
    assert_true(converse("socks5://p", "a", STR("\4\0"), &out, &err) < 0);
    assert_true(converse("socks5://u:p@p", "a", STR("\5\2\1\1"), &out, &err) < 0);
    assert_true(converse("socks5://p", "a", STR("\5\0\5\5\0\1\0\0\0\0\0\0"), &out, &err) < 0);
    assert_non_null(strstr(err.msg, "connection refused"));
}

RUN_TESTS(TEST_CASE(no_proxy_names_servers), TEST_CASE(schemes_have_proxies_of_their_own),
          TEST_CASE(urls_name_servers), TEST_CASE(a_bad_proxy_url_is_not_repeated),
          TEST_CASE(connect_is_asked_for), TEST_CASE(socks5_is_spoken))

// SPDX-License-Identifier: Apache-2.0
#include "net/http/h1_parse.h"
#include "unit.h"

#include "base/banned.h"

#define LIMIT ((size_t)8192)

// Finds and parses one head that is given whole. The result as h1_parse_head gives it.
static int parse(struct str text, struct arena *a, struct h1_head *head, const char **why)
{
    struct h1_scan scan = {0};
    int n = h1_find_head(text, LIMIT, &scan, why);
    if (n <= 0)
        return n == 0 ? 1 : n;
    char *copy = arena_dup(a, text.p, (size_t)n, 1);
    int r = h1_parse_head(copy, (size_t)n, a, head, why);
    struct str path, query;
    return r < 0 ? r : h1_split_target(head->method, head->target, a, &path, &query, why);
}

struct row {
    const char *text;
    int want; // 0, or the negative status; 1: incomplete
};

#define H "Host: a\r\n"

static const struct row rows[] = {
    {"GET / HTTP/1.1\r\n" H "\r\n", 0},
    {"GET / HTTP/1.0\r\n\r\n", 0},
    {"\r\nGET / HTTP/1.1\r\n" H "\r\n", 0},
    {"GET /a?b=c&d HTTP/1.1\r\n" H "X:\r\nY: \t \r\nZ:a b\r\n\r\n", 0},
    {"GET http://host/a HTTP/1.1\r\n" H "\r\n", 0},
    {"OPTIONS * HTTP/1.1\r\n" H "\r\n", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n\r\n", 0},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nExpect: 100-Continue\r\n\r\n", 0},
    {"GET / HTTP/1.1\r\n" H "X: \xc3\xa4\r\n\r\n", 0},
    {"WEIRD-M_ethod /%41%2f HTTP/1.9\r\n" H "\r\n", 0},
    // Not there yet.
    {"", 1},
    {"GET / HTTP/1.1\r\n" H, 1},
    {"GET / HTTP/1.1\r\n" H "\r", 1},
    // Lines.
    {"\r\n\r\nGET / HTTP/1.1\r\n" H "\r\n", -400},
    {"\r\r\nGET / HTTP/1.1\r\n" H "\r\n", -400},
    {"GET / HTTP/1.1\n" H "\r\n", -400},
    {"GET / HTTP/1.1\r\nHost: a\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\r\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n", -400},
    {"\x16\x03\x01", -400},
    {" GET / HTTP/1.1\r\n" H "\r\n", -400},
    // The request line.
    {"GET /\r\n\r\n", -400},
    {"GET  / HTTP/1.1\r\n" H "\r\n", -400},
    {"GET / HTTP/1.1 \r\n" H "\r\n", -400},
    {"GET / x HTTP/1.1\r\n" H "\r\n", -400},
    {"GET\t/ HTTP/1.1\r\n" H "\r\n", -400},
    {"G(T / HTTP/1.1\r\n" H "\r\n", -400},
    {"GET / http/1.1\r\n" H "\r\n", -400},
    {"GET / HTTP/1.10\r\n" H "\r\n", -400},
    {"GET / HTTP/x.1\r\n" H "\r\n", -400},
    {"GET / HTTP/2.0\r\n" H "\r\n", -505},
    {"GET / HTTP/0.9\r\n" H "\r\n", -505},
    {"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA / HTTP/1.1\r\n" H "\r\n", -501},
    // The target.
    {"GET a HTTP/1.1\r\n" H "\r\n", -400},
    {"GET * HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /a#b HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /\xc3\xa4 HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /a\"b HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /%4 HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /%zz HTTP/1.1\r\n" H "\r\n", -400},
    {"GET /%00 HTTP/1.1\r\n" H "\r\n", -400},
    {"GET http:// HTTP/1.1\r\n" H "\r\n", -400},
    {"CONNECT a:1 HTTP/1.1\r\n" H "\r\n", -501},
    // Fields.
    {"GET / HTTP/1.1\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H H "\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X : a\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H ": a\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "nothing\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X(: a\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X\xc3: a\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\x01\r\n\r\n", -400},
    {"GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n", -400},
    // Framing.
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: -5\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n", -501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n", -501},
    {"POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
     -400},
    {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", -400},
    {"POST / HTTP/1.1\r\n" H "Expect: more\r\n\r\n", -417},
};

static void judges_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        cleanup_arena struct arena a = {0};
        struct h1_head head;
        const char *why = "";
        int got = parse(str_z(rows[i].text), &a, &head, &why);
        if (got != rows[i].want)
            fail_msg("row %zu: want %d, got %d (%s):\n%s", i, rows[i].want, got, why, rows[i].text);
        if (got < 0)
            assert_true(strlen(why) > 5);
    }
}

static void says_what_a_head_says(void **state)
{
    (void)state;
    cleanup_arena struct arena a = {0};
    struct h1_head h;
    const char *why = "";
    struct str text = STR("PUT /a%20b?x=%20 HTTP/1.1\r\nHOST: h\r\nX-Y: \t some value \r\n"
                          "Connection: foo, Close\r\nContent-Length: 12\r\n"
                          "Expect: 100-continue\r\n\r\nbody");
    assert_int_equal(parse(text, &a, &h, &why), 0);
    assert_str(h.method, "PUT");
    assert_str(h.target, "/a%20b?x=%20");
    assert_int_equal(h.minor, 1);
    assert_int_equal(h.headers_len, 5);
    assert_str(h.headers[0].name, "host");
    assert_str(h.headers[1].name, "x-y");
    assert_str(h.headers[1].value, "some value");
    assert_int_equal(h.framing, H1_LENGTH);
    assert_int_equal(h.length, 12);
    assert_false(h.keep_alive);
    assert_true(h.expect_continue);
    struct str path, query;
    assert_int_equal(h1_split_target(h.method, h.target, &a, &path, &query, &why), 0);
    assert_str(path, "/a b");
    assert_str(query, "x=%20");
    assert_int_equal(h1_split_target(STR("GET"), STR("https://h?q"), &a, &path, &query, &why), 0);
    assert_str(path, "/");
    assert_str(query, "q");
}

static void keeps_connections_as_versions_say(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool keep;
    } cases[] = {
        {"GET / HTTP/1.1\r\n" H "\r\n", true},
        {"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", false},
        {"GET / HTTP/1.1\r\n" H "Connection: keep-alive, close\r\n\r\n", false},
        {"GET / HTTP/1.0\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_arena struct arena a = {0};
        struct h1_head h;
        const char *why = "";
        assert_int_equal(parse(str_z(cases[i].text), &a, &h, &why), 0);
        assert_int_equal(h.keep_alive, cases[i].keep);
    }
}

// The same bytes in any cut give the same result.
static void finds_the_end_whatever_the_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str text = str_z(rows[i].text);
        struct h1_scan whole = {0};
        const char *why = "";
        int want = h1_find_head(text, LIMIT, &whole, &why);
        struct h1_scan scan = {0};
        int got = 0;
        for (size_t n = 1; n <= text.n && got == 0; n++)
            got = h1_find_head(str_upto(text, n), LIMIT, &scan, &why);
        assert_int_equal(got, want);
    }
}

static void bounds_heads(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf b = {0};
    const char *why = "";
    sbuf_addz(&b, "GET /");
    sbuf_add_repeat(&b, 'a', LIMIT);
    struct h1_scan scan = {0};
    assert_int_equal(h1_find_head(sbuf_str(&b), LIMIT, &scan, &why), -414);
    sbuf_clear(&b);
    sbuf_addz(&b, "GET / HTTP/1.1\r\nX: ");
    sbuf_add_repeat(&b, 'a', LIMIT);
    scan = (struct h1_scan){0};
    assert_int_equal(h1_find_head(sbuf_str(&b), LIMIT, &scan, &why), -431);
    sbuf_clear(&b);
    sbuf_addz(&b, "GET / HTTP/1.1\r\n" H);
    for (size_t i = 0; i < H1_FIELDS_MAX; i++)
        sbuf_addz(&b, "a: b\r\n");
    sbuf_addz(&b, "\r\n");
    cleanup_arena struct arena a = {0};
    struct h1_head h;
    assert_int_equal(parse(sbuf_str(&b), &a, &h, &why), -431);
}

struct chunk_row {
    const char *text;
    int want;
    const char *body;
};

static const struct chunk_row chunk_rows[] = {
    {"0\r\n\r\n", 1, ""},
    {"5\r\nhello\r\n0\r\n\r\n", 1, "hello"},
    {"5\r\nhello\r\n00A\r\n, world...\r\n000\r\n\r\n", 1, "hello, world..."},
    {"5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n", 1, "hello"},
    {"0\r\nTrailer: x\r\nOther:\r\n\r\n", 1, ""},
    {"5\r\nhel", 0, "hel"},
    {"5\r\nhello\r\n0\r\n", 0, "hello"},
    {"\r\n", -400, NULL},
    {";\r\n", -400, NULL},
    {"g\r\n", -400, NULL},
    {"-1\r\n", -400, NULL},
    {"5 \r\nhello\r\n0\r\n\r\n", -400, NULL},
    {"5\nhello\r\n0\r\n\r\n", -400, NULL},
    {"5\r\nhelloX0\r\n\r\n", -400, NULL},
    {"5\r\nhello\n0\r\n\r\n", -400, NULL},
    {"5;\x01\r\n", -400, NULL},
    {"0\r\n bad: x\r\n\r\n", -400, NULL},
    {"0\r\nbad\r\n\r\n", -400, NULL},
    {"0\r\nbad : x\r\n\r\n", -400, NULL},
    {"0\r\na: b\n\r\n", -400, NULL},
    {"11111111111111111\r\n", -400, NULL},
    {"65\r\n", -413, NULL}, // 101 > 100
    {"64\r\n", 0, ""},
    {"ffffffffffffff\r\n", -413, NULL},
};

static void reads_chunks_whatever_the_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(chunk_rows); i++) {
        const struct chunk_row *row = &chunk_rows[i];
        for (size_t step = 1; step <= 64; step *= 4) {
            cleanup_sbuf struct sbuf body = {0};
            struct h1_chunks c = {0};
            const char *why = "";
            struct str text = str_z(row->text);
            int got = 0;
            while (text.n && got == 0) {
                struct str in = str_upto(text, step);
                size_t given = in.n;
                got = h1_read_chunks(&c, &in, &body, 100, &why);
                text = str_from(text, given - in.n);
            }
            if (got != row->want)
                fail_msg("row %zu: want %d, got %d (%s): %s", i, row->want, got, why, row->text);
            if (row->body)
                assert_str(sbuf_str(&body), row->body);
            assert_int_equal(text.n, got < 0 ? text.n : 0);
        }
    }
}

static void bounds_chunk_overhead(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf text = {0}, body = {0};
    struct h1_chunks c = {0};
    const char *why = "";
    sbuf_addz(&text, "1;");
    sbuf_add_repeat(&text, 'a', H1_CHUNK_LINE_MAX);
    struct str in = sbuf_str(&text);
    assert_int_equal(h1_read_chunks(&c, &in, &body, 1000, &why), -400);
    sbuf_clear(&text);
    for (int i = 0; i < 1000; i++)
        sbuf_addz(&text, "1;aaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n");
    c = (struct h1_chunks){0};
    in = sbuf_str(&text);
    assert_int_equal(h1_read_chunks(&c, &in, &body, 1000000, &why), -400);
}

RUN_TESTS(TEST_CASE(judges_heads), TEST_CASE(says_what_a_head_says),
          TEST_CASE(keeps_connections_as_versions_say), TEST_CASE(finds_the_end_whatever_the_cut),
          TEST_CASE(bounds_heads), TEST_CASE(reads_chunks_whatever_the_cut),
          TEST_CASE(bounds_chunk_overhead))

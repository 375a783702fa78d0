// SPDX-License-Identifier: Apache-2.0
//
// Responses of HTTP/1.1: what is read, what is rejected, and that it depends on the bytes alone, not on how they were
// cut.
#include "net/h1_answer.h"
#include "unit.h"

#include "base/banned.h"

// Reads all of it in pieces. The outcome: "STATUS BODY", then "+REST" if it is complete or switched, "…" if not, or "!".
static void read_in_pieces(struct str in, size_t piece, bool head, bool connect, struct sbuf *out)
{
    struct h1_answer a = {.head_request = head, .connect = connect};
    struct err err = {0};
    struct str got;
    int r = H1_ANSWER_MORE;
    while (in.n && r >= 0 && r != H1_ANSWER_END && r != H1_ANSWER_SWITCHED) {
        struct str part = str_upto(in, piece);
        in = str_from(in, part.n);
        do {
            r = h1_answer_read(&a, &part, &got, &err);
            if (r == H1_ANSWER_HEAD)
                sbuf_addf(out, "%d%s ", a.status, a.keep_alive ? "k" : "");
            else if (r == H1_ANSWER_DATA)
                sbuf_add(out, got);
        } while (r == H1_ANSWER_HEAD || r == H1_ANSWER_DATA);
        if (r == H1_ANSWER_END || r == H1_ANSWER_SWITCHED) {
            sbuf_addc(out, '+');
            sbuf_add(out, part);
            sbuf_add(out, in);
        }
    }
    if (r < 0) {
        assert_int_equal(r, -ERR_BAD_REQUEST);
        assert_true(str_starts(str_z(err.msg), STR("malformed HTTP response: ")));
        sbuf_clear(out);
        sbuf_addc(out, '!');
    } else if (r == H1_ANSWER_MORE) {
        sbuf_addz(out, h1_answer_eof(&a, &err) == 0 ? "eof" : "...");
    }
    h1_answer_done(&a);
}

struct row {
    const char *text, *want;
    bool head, connect;
};

static const struct row rows[] = {
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", "200k abc+", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "200k abc+def", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "200k ab...", false, false},
    {"HTTP/1.0 404\r\nContent-Length: 0\r\n\r\n", "404 +", false, false},
    {"HTTP/1.0 200 x\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\na", "200k a+", false,
     false},
    {"HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 1\r\n\r\na", "200 a+", false,
     false},
    {"HTTP/1.1 503 x\n\nbody", "503 bodyeof", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: "
     "u\r\n\r\nZ",
     "200k abcde+Z", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "200k abc...", false,
     false},
    {"HTTP/1.1 204 x\r\n\r\nrest", "204k +rest", false, false},
    {"HTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n", "304k +", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "200k +", true, false},
    {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 x\r\nA: b\r\n\r\nHTTP/1.1 200 y\r\nContent-Length: "
     "1\r\n\r\nz",
     "200k z+", false, false},
    {"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nbytes", "101k +bytes", false, false},
    {"HTTP/1.1 200 Connected\r\n\r\nbytes", "200k +bytes", false, true},
    {"HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno", "407k no+", false, true},
    {"HTTP/1.1 200 \xc3\xa4\r\nA:  b \r\nContent-Length: 0\r\n\r\n", "200k +", false, false},
    {"HTTP/1.1 2", "...", false, false},
    {"HTTP/1.1 200 OK\r\nA: b\r\n", "...", false, false},
    // What is no response.
    {"HTTP/2 200\r\n\r\n", "!", false, false},
    {"SSH-2.0-x\r\n", "!", false, false},
    {"\r\nHTTP/1.1 200 OK\r\n\r\n", "!", false, false},
    {"HTTP/1.1 20 OK\r\n\r\n", "!", false, false},
    {"HTTP/1.1 abc\r\n\r\n", "!", false, false},
    {"HTTP/1.1 099 x\r\n\r\n", "!", false, false},
    {"HTTP/1.1 2000 x\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 O\x01K\r\n\r\n", "!", false, false},
    {"HTTP/1.x 200 OK\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nA : c\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nA: b\rX: y\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false,
     false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "!",
     false, false},
    {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n", "!", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX", "!", false, false},
    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", "!", false,
     false},
};

static void responses_do_not_depend_on_cuts(void **state)
{
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str text = str_z(rows[i].text);
        for (size_t piece = 1; piece <= text.n; piece++) {
            cleanup_sbuf struct sbuf got = {0};
            read_in_pieces(text, piece, rows[i].head, rows[i].connect, &got);
            if (!str_eqz(sbuf_str(&got), rows[i].want))
                fail_msg("row %zu in pieces of %zu: %s, not %s", i, piece, got.p, rows[i].want);
        }
    }
}

static void heads_are_bounded(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf large = {0}, many = {0}, interim = {0}, got = {0};
    sbuf_addz(&large, "HTTP/1.1 200 OK\r\nA: ");
    sbuf_add_repeat(&large, 'a', H1_ANSWER_HEAD_MAX);
    read_in_pieces(sbuf_str(&large), 1000, false, false, &got);
    assert_string_equal(got.p, "!");
    sbuf_clear(&got);
    sbuf_addz(&many, "HTTP/1.1 200 OK\r\n");
    for (size_t i = 0; i <= H1_FIELDS_MAX; i++)
        sbuf_addz(&many, "A: b\r\n");
    sbuf_addz(&many, "\r\n");
    read_in_pieces(sbuf_str(&many), 1000, false, false, &got);
    assert_string_equal(got.p, "!");
    sbuf_clear(&got);
    for (size_t i = 0; i < 5000; i++) // any number of interim ones before the response
        sbuf_addz(&interim, "HTTP/1.1 100 Continue\r\n\r\n");
    read_in_pieces(sbuf_str(&interim), 1000, false, false, &got);
    assert_string_equal(got.p, "!");
}

static void requests_are_exactly_one(void **state)
{
    (void)state;
    cleanup_sbuf struct sbuf b = {0};
    assert_false(h1_add_request_line(&b, STR("GET"), STR("/a b"), STR("h")));
    assert_false(h1_add_request_line(&b, STR("GET"), STR("/\r\nX: y"), STR("h")));
    assert_false(h1_add_request_line(&b, STR("G ET"), STR("/"), STR("h")));
    assert_false(h1_add_request_line(&b, STR("GET"), STR("/"), STR("h\r\nX: y")));
    assert_false(h1_add_field(&b, STR("A"), STR("b\nX: y")));
    assert_false(h1_add_field(&b, STR("A:"), STR("b")));
    assert_int_equal(b.n, 0);
    assert_true(h1_add_request_line(&b, STR("GET"), STR("/a?b=c"), STR("h:1")));
    assert_true(h1_add_field(&b, STR("A"), STR("b")));
    assert_string_equal(b.p, "GET /a?b=c HTTP/1.1\r\nHost: h:1\r\nA: b\r\n");
    sbuf_clear(&b);
    h1_add_authority(&b, STR("::1"), 80);
    assert_string_equal(b.p, "[::1]:80");
}

RUN_TESTS(TEST_CASE(responses_do_not_depend_on_cuts), TEST_CASE(heads_are_bounded),
          TEST_CASE(requests_are_exactly_one))

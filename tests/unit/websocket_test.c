// SPDX-License-Identifier: Apache-2.0
#include "net/websocket.h"
#include "unit.h"

#include "base/banned.h"

#define BYTES(lit) STR(lit)

static struct rng_seeded seeded;

static struct rng *masks(void)
{
    rng_seeded_init(&seeded, 7);
    return &seeded.rng;
}

// What one end makes of bytes given n at a time: "op:bytes|" for messages, "!code" for a violation.
static void digest(struct ws *w, struct str in, size_t n, struct sbuf *text, struct sbuf *out)
{
    while (in.n) {
        struct str part = str_upto(in, n);
        in = str_from(in, n);
        for (;;) {
            struct ws_message m;
            struct err err = {0};
            int r = ws_read(w, &part, &m, out, &err);
            if (r < 0)
                sbuf_addf(text, "!%d", -r);
            if (r <= 0)
                break;
            sbuf_addf(text, "%d:%.*s", (int)m.op, STR_ARG(m.bytes));
            if (m.op == WS_CLOSE)
                sbuf_addf(text, "(%d)", m.close_code);
            sbuf_addc(text, '|');
        }
    }
}

static void expect(bool client, struct str in, const char *want, const char *want_out,
                   size_t want_out_len)
{
    for (size_t cut = 1; cut < in.n + 2; cut = cut < 4 ? cut + 1 : in.n + cut) {
        struct ws w = {.rng = client ? masks() : NULL, .message_max = 70000};
        cleanup_sbuf struct sbuf text = {0}, out = {0};
        digest(&w, in, cut, &text, &out);
        assert_str(sbuf_str(&text), want);
        if (want_out) {
            assert_int_equal(out.n, want_out_len);
            assert_memory_equal(out.n ? out.p : "", want_out, want_out_len);
        }
        ws_done(&w);
    }
}

#define EXPECT_CLIENT(in, want)          expect(true, BYTES(in), want, NULL, 0)
#define EXPECT_SERVER(in, want)          expect(false, BYTES(in), want, NULL, 0)
#define EXPECT_SERVER_OUT(in, want, out) expect(false, BYTES(in), want, out, sizeof(out) - 1)

static void reads_the_examples_of_the_standard(void **state)
{
    (void)state;
    EXPECT_CLIENT("\x81\x05Hello", "1:Hello|");
    EXPECT_SERVER("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "1:Hello|");
    EXPECT_CLIENT("\x01\x03Hel\x80\x02lo", "1:Hello|");
    // A ping between the fragments of a message is answered, and the message goes on.
    EXPECT_CLIENT("\x01\x03Hel\x89\x02hi\x80\x02lo", "1:Hello|");
    EXPECT_SERVER_OUT("\x89\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "", "\x8a\x05Hello");
    EXPECT_CLIENT("\x82\x00\x82\x01z", "2:|2:z|");
    EXPECT_CLIENT("\x8a\x01x\x81\x01y", "1:y|"); // a pong nobody asked for
}

static void answers_a_close_once_and_reads_no_more(void **state)
{
    (void)state;
    EXPECT_CLIENT("\x88\x05\x03\xe8"
                  "bye\x81\x01x",
                  "8:bye(1000)|");
    EXPECT_CLIENT("\x88\x00", "8:(1005)|");
    EXPECT_SERVER_OUT("\x88\x82\0\0\0\0\x03\xe9", "8:(1001)|", "\x88\x02\x03\xe9");
    struct ws w = {0};
    cleanup_sbuf struct sbuf out = {0};
    ws_write_close(&w, WS_NORMAL, STR(""), &out);
    size_t n = out.n;
    ws_write_close(&w, WS_NORMAL, STR(""), &out);
    ws_write(&w, WS_BINARY, STR("late"), STR(""), &out);
    assert_int_equal(out.n, n);
    ws_done(&w);
}

static void refuses_what_the_standard_forbids(void **state)
{
    (void)state;
    char code[16];
    (void)snprintf(code, sizeof(code), "!%d", ERR_BAD_REQUEST);
    EXPECT_SERVER("\x81\x05Hello", code);                                // not masked
    EXPECT_CLIENT("\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", code); // masked by a server
    EXPECT_CLIENT("\xc1\x05Hello", code);                                // reserved bit
    EXPECT_CLIENT("\x83\x00", code);                                     // unknown opcodes
    EXPECT_CLIENT("\x8b\x00", code);
    EXPECT_CLIENT("\x80\x00", code); // nothing to continue
    EXPECT_CLIENT("\x01\x01"
                  "a\x81\x01"
                  "b",
                  code);                     // a message in a message
    EXPECT_CLIENT("\x09\x00", code);         // a ping in pieces
    EXPECT_CLIENT("\x89\x7e\x00\x7e", code); // a long ping
    EXPECT_CLIENT("\x82\x7e\x00\x7d", code); // a length longer than needed
    EXPECT_CLIENT("\x82\x7f\0\0\0\0\0\0\xff\xff", code);
    EXPECT_CLIENT("\x82\x7f\x80\0\0\0\0\0\0\0", code); // negative
    EXPECT_CLIENT("\x88\x01\x03", code);               // half a code
    EXPECT_CLIENT("\x88\x02\x03\xed", code);           // 1005 is never sent
    EXPECT_CLIENT("\x88\x02\x03\xe7", code);           // 999
    EXPECT_CLIENT("\x81\x02\xc3\x28", code);           // not UTF-8
    EXPECT_CLIENT("\x88\x03\x03\xe8\xff", code);
    // And it says so.
    struct ws w = {.rng = masks()};
    cleanup_sbuf struct sbuf text = {0}, out = {0};
    digest(&w, BYTES("\x81\x02\xc3\x28"), 1, &text, &out);
    assert_true(w.closed_in && w.closed_out);
    assert_true(out.n > 6);
    assert_int_equal((unsigned char)out.p[0], 0x88);
    ws_done(&w);
}

static void bounds_messages(void **state)
{
    (void)state;
    char code[16];
    (void)snprintf(code, sizeof(code), "!%d", ERR_TOO_LARGE);
    EXPECT_CLIENT("\x82\x7f\0\0\0\0\0\x01\x11\x71", code); // 70001 bytes, refused before they come
    EXPECT_CLIENT("\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", code);
    struct ws w = {.rng = masks(), .message_max = 10};
    cleanup_sbuf struct sbuf text = {0}, out = {0};
    digest(&w,
           BYTES("\x02\x06"
                 "abcdef\x80\x05ghijk"),
           3, &text, &out);
    assert_str(sbuf_str(&text), code);
    ws_done(&w);
}

static void what_one_end_writes_the_other_reads(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 124, 125, 126, 65534, 65535, 65536, 69000};
    for (int client = 0; client < 2; client++) {
        struct ws a = {.rng = client ? masks() : NULL};
        struct ws b = {.rng = client ? NULL : masks()};
        cleanup_sbuf struct sbuf wire = {0}, want = {0}, got = {0}, out = {0};
        for (size_t i = 0; i < array_len(sizes); i++) {
            cleanup_sbuf struct sbuf bytes = {0};
            sbuf_add_repeat(&bytes, (char)('a' + (char)i), sizes[i]);
            ws_write(&a, WS_BINARY, STR("\x01"), sbuf_str(&bytes), &wire);
            sbuf_addf(&want, "2:\x01%.*s|", STR_ARG(sbuf_str(&bytes)));
        }
        ws_write_close(&a, WS_NORMAL, STR("done"), &wire);
        sbuf_addz(&want, "8:done(1000)|");
        digest(&b, sbuf_str(&wire), 1000, &got, &out);
        assert_true(str_eq(sbuf_str(&got), sbuf_str(&want)));
        // b's echo closes a.
        cleanup_sbuf struct sbuf end = {0}, none = {0};
        digest(&a, sbuf_str(&out), 1, &end, &none);
        assert_str(sbuf_str(&end), "8:(1000)|");
        assert_int_equal(none.n, 0);
        ws_done(&a);
        ws_done(&b);
    }
}

static void shakes_hands(void **state)
{
    (void)state;
    char accept[29];
    ws_accept(STR("dGhlIHNhbXBsZSBub25jZQ=="), accept);
    assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    cleanup_arena struct arena a = {0};
    struct http_header headers[] = {
        {STR("connection"), STR("keep-alive, Upgrade")},
        {STR("upgrade"), STR("WebSocket")},
        {STR("sec-websocket-version"), STR("13")},
        {STR("sec-websocket-key"), STR("dGhlIHNhbXBsZSBub25jZQ==")},
        {STR("sec-websocket-protocol"), STR("v9.channel.k8s.io, v5.channel.k8s.io")},
        {STR("sec-websocket-protocol"), STR("v4.channel.k8s.io")},
    };
    static const struct str spoken[] = {STR_INIT("v4.channel.k8s.io"),
                                        STR_INIT("v5.channel.k8s.io")};
    struct http_request q = {
        .method = STR("GET"), .version = 1, .headers = headers, .headers_len = 6, .arena = &a};
    struct ws_hello hello;
    struct err err = {0};
    assert_true(ws_wanted(&q));
    assert_int_equal(ws_hello(&q, spoken, 2, &hello, &err), 0);
    assert_str(hello.protocol, "v5.channel.k8s.io");
    assert_str(hello.reply.value, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    headers[2].value = STR("8");
    assert_int_equal(ws_hello(&q, spoken, 2, &hello, &err), -ERR_BAD_REQUEST);
    headers[2].value = STR("13");
    headers[3].value = STR("c2hvcnQ=");
    assert_int_equal(ws_hello(&q, spoken, 2, &hello, &err), -ERR_BAD_REQUEST);
    headers[3].value = STR("dGhlIHNhbXBsZSBub25jZQ==");
    q.version = 2;
    assert_int_equal(ws_hello(&q, spoken, 2, &hello, &err), -ERR_BAD_REQUEST);
    q.version = 1;
    headers[0].value = STR("keep-alive");
    assert_false(ws_wanted(&q));
}

RUN_TESTS(TEST_CASE(reads_the_examples_of_the_standard),
          TEST_CASE(answers_a_close_once_and_reads_no_more),
          TEST_CASE(refuses_what_the_standard_forbids), TEST_CASE(bounds_messages),
          TEST_CASE(what_one_end_writes_the_other_reads), TEST_CASE(shakes_hands))

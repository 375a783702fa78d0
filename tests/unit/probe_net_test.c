// SPDX-License-Identifier: Apache-2.0
//
// What is read from servers that are checked over the network.
#include "agent/probe_net.h"
#include "unit.h"

#include "base/banned.h"

static void status_lines(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int want;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\n", 200},
        {"HTTP/1.0 404\r\n", 404},
        {"HTTP/1.1 503 x\n", 503},
        {"HTTP/1.1 2", 0},
        {"", 0},
        {"SSH-2.0-x\r\n", -1},
        {"HTTP/1.1 20 OK\r\n", -1},
        {"HTTP/1.1 abc\r\n", -1},
        {"HTTP/2 200\r\n", -1},
        {"\r\n", -1},
        {"HTTP/1.1 099 x\r\n", -1},
    };
    for (size_t i = 0; i < array_len(rows); i++)
        if (probe_http_status(str_z(rows[i].text)) != rows[i].want)
            fail_msg("'%s': %d", rows[i].text, probe_http_status(str_z(rows[i].text)));
}

#define FRAME(n, type, flags) "\0\0" n type flags "\0\0\0\1"

static void health_answers(void **state)
{
    (void)state;
    struct str settings = STR("\0\0\0\4\0\0\0\0\0");
    struct str headers = STR(FRAME("\1", "\1", "\4") "x");
    struct str serving = STR(FRAME("\7", "\0", "\0") "\0\0\0\0\2\x08\1");
    struct str not_serving = STR(FRAME("\7", "\0", "\0") "\0\0\0\0\2\x08\2");
    struct str trailers = STR(FRAME("\1", "\1", "\5") "x");
    struct sbuf b = {0};
    sbuf_add(&b, settings);
    sbuf_add(&b, headers);
    assert_int_equal(probe_grpc_status(sbuf_str(&b)), 0);
    size_t before = b.n;
    sbuf_add(&b, serving);
    for (size_t n = before; n < b.n; n++)
        assert_int_equal(probe_grpc_status(str_upto(sbuf_str(&b), n)), 0);
    assert_int_equal(probe_grpc_status(sbuf_str(&b)), 1);
    assert_int_equal(probe_grpc_status(not_serving), -1);
    assert_int_equal(probe_grpc_status(trailers), -1);
    assert_int_equal(probe_grpc_status(STR("")), 0);
    sbuf_done(&b);
}

static void a_health_request_is_http2(void **state)
{
    (void)state;
    struct sbuf b = {0};
    probe_grpc_request(&b, STR("127.0.0.1:80"), STR("svc"));
    assert_true(str_starts(sbuf_str(&b), STR("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")));
    assert_true(str_contains(sbuf_str(&b), STR("/grpc.health.v1.Health/Check")));
    assert_true(str_contains(sbuf_str(&b), STR("\0\0\0\0\5\x0a\3svc")));
    sbuf_done(&b);
}

RUN_TESTS(TEST_CASE(status_lines), TEST_CASE(health_answers), TEST_CASE(a_health_request_is_http2))

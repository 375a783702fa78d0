// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 responses and SOCKS5 replies from a hostile peer: in whatever pieces they come, the same events come out; what
// is kept stays bounded. The first byte chooses what was asked, the second the pieces.
#include <assert.h>

#include "fuzz.h"
#include "net/client/proxy.h"

#include "base/banned.h"

static void read_answer(struct str in, unsigned how, size_t cut, struct sbuf *log)
{
    struct h1_answer a = {.head_request = how & 1, .connect = how & 2};
    struct str got;
    int r = H1_ANSWER_MORE;
    while (in.n && r >= 0 && r != H1_ANSWER_END && r != H1_ANSWER_SWITCHED) {
        struct str part = str_upto(in, cut);
        in = str_from(in, part.n);
        do {
            r = h1_answer_read(&a, &part, &got, NULL);
            if (r == H1_ANSWER_HEAD)
                sbuf_addf(log, "%d %zu %d:", a.status, a.headers_len, a.keep_alive);
            else if (r == H1_ANSWER_DATA)
                sbuf_add(log, got);
        } while (r == H1_ANSWER_HEAD || r == H1_ANSWER_DATA);
        assert(a.head.n <= H1_ANSWER_HEAD_MAX && a.headers_len <= H1_FIELDS_MAX);
        if (r == H1_ANSWER_END || r == H1_ANSWER_SWITCHED)
            sbuf_addf(log, "+%zu", part.n + in.n);
    }
    if (r < 0)
        sbuf_addc(log, '!');
    (void)!h1_answer_eof(&a, NULL);
    h1_answer_done(&a);
}

static void talk_to_proxy(struct str in, size_t cut, struct sbuf *log)
{
    struct net_url u = {0};
    struct proxy_talk t;
    int r = proxy_parse(STR("socks5://u:p@proxy"), &u, NULL);
    assert(r == 0);
    r = proxy_talk_init(&t, &u, STR("server"), 443, NULL);
    while (r == 0 && in.n) {
        struct str part = str_upto(in, cut);
        in = str_from(in, part.n);
        r = proxy_talk_input(&t, &part, log, NULL);
        if (r != 0)
            sbuf_addf(log, " %d %zu", r, r > 0 ? part.n + in.n : 0);
    }
    proxy_talk_done(&t);
    net_url_done(&u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct str in = {(const char *)data + 2, size - 2};
    cleanup_sbuf struct sbuf whole = {0}, cut = {0};
    size_t piece = (size_t)data[1] % 64 + 1;
    if (data[0] & 4) {
        talk_to_proxy(in, in.n + 1, &whole);
        talk_to_proxy(in, piece, &cut);
    } else {
        read_answer(in, data[0], in.n + 1, &whole);
        read_answer(in, data[0], piece, &cut);
    }
    // A response that is malformed at its end may have given some of its body before.
    bool broken = whole.n && whole.p[whole.n - 1] == '!';
    assert(broken || str_eq(sbuf_str(&whole), sbuf_str(&cut)));
    return 0;
}

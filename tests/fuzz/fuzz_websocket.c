// SPDX-License-Identifier: Apache-2.0
//
// WebSocket frames from a hostile peer: in whatever pieces they come, the same messages and the same answers
// come out; what is kept stays bounded. The first byte chooses the end, the second the pieces.
#include <assert.h>

#include "fuzz.h"
#include "net/websocket.h"

#include "base/banned.h"

static void run(struct str in, bool client, size_t cut, struct sbuf *log, struct sbuf *out)
{
    struct rng_seeded seeded;
    rng_seeded_init(&seeded, 1);
    struct ws w = {.rng = client ? &seeded.rng : NULL, .message_max = 1000};
    while (in.n) {
        struct str part = str_upto(in, cut);
        in = str_from(in, cut);
        for (int r = 1; r > 0;) {
            struct ws_message m = {0};
            r = ws_read(&w, &part, &m, out, NULL);
            if (r > 0) {
                sbuf_addf(log, "%d %d %zu:", (int)m.op, m.close_code, m.bytes.n);
                sbuf_add(log, m.bytes);
            } else if (r < 0) {
                sbuf_addf(log, "!%d", r);
                assert(w.closed_in && w.closed_out);
            }
        }
        assert(w.message.n <= 1000 && w.control.n <= 125);
    }
    ws_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    bool client = data[0] & 1;
    struct str in = {(const char *)data + 2, size - 2};
    cleanup_sbuf struct sbuf log = {0}, out = {0}, cut_log = {0}, cut_out = {0};
    run(in, client, in.n ? in.n : 1, &log, &out);
    run(in, client, 1 + data[1] % 37, &cut_log, &cut_out);
    assert(str_eq(sbuf_str(&log), sbuf_str(&cut_log)));
    assert(str_eq(sbuf_str(&out), sbuf_str(&cut_out)));
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// HTTP/1.1 bytes into a connection: in whatever pieces they come, the handler sees the same requests
// and the peer gets the same answers. The first two bytes choose the pieces.
#include "fuzz.h"
#include "http_memory.h"

#include "base/banned.h"

static const struct http_limits limits = {.header_bytes = 1000, .body_bytes = 500};

static struct memory *run(struct str bytes, uint64_t seed)
{
    struct memory *m = memory_new(&limits, &h1_ops);
    struct rng_seeded rng;
    rng_seeded_init(&rng, seed);
    while (bytes.n) {
        size_t n = seed ? 1 + (size_t)rng_below(&rng.rng, 1 + seed % 97) : bytes.n;
        memory_feed(m, str_upto(bytes, n));
        memory_settle(m);
        bytes = str_from(bytes, n);
    }
    memory_settle(m);
    return m;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    uint64_t seed = 1 + data[0] + 256 * (uint64_t)data[1];
    struct str bytes = {(const char *)data + 2, size - 2};
    struct memory *whole = run(bytes, 0), *cut = run(bytes, seed);
    assert(str_eq(sbuf_str(&whole->log), sbuf_str(&cut->log)));
    assert(str_eq(sbuf_str(&whole->out), sbuf_str(&cut->out)));
    assert(whole->shut == cut->shut);
    // Whatever was left behind ends with its time-out; the other one with the peer's leaving.
    exec_sim_run(whole->sim, INT64_MAX);
    http_server_flush(&whole->server);
    assert(!whole->conn || !exec_timer_armed(&whole->conn->conn.timer));
    if (cut->conn) {
        struct conn *c = &cut->conn->conn;
        conn_enter(c);
        conn_eof(c);
        conn_flush(c);
        (void)conn_leave(c);
    }
    memory_free(whole);
    memory_free(cut);
    return 0;
}

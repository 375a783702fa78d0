// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 frames into a connection: nothing leaks, every request has one end, what waits is bounded.
// The first byte chooses the pieces, and whether requests are answered between them.
#include "fuzz.h"
#include "http_memory.h"

#include "base/banned.h"

static const struct http_limits limits = {
    .header_bytes = 2000, .body_bytes = 2000, .streams = 8, .queued_bytes = 1000};

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t piece = 1 + (size_t)(data[0] & 0x1f) * 8;
    bool answer = data[0] & 0x20, whole = data[0] & 0x40, wait = data[0] & 0x80;
    struct str bytes = {(const char *)data + 1, size - 1};
    struct memory *m = memory_new(&limits, NULL);
    memory_feed(m, str_make(preface, sizeof(preface) - 1));
    while (bytes.n) {
        size_t n = whole ? bytes.n : piece;
        memory_feed(m, str_upto(bytes, n));
        bytes = str_from(bytes, n);
        if (answer)
            memory_settle(m);
        if (wait)
            exec_sim_run(m->sim, m->clock.mono + 40 * CLOCK_NS_PER_SEC);
        assert(m->server.stats.streams <= 2 * limits.streams + size);
        assert(m->server.body_bytes <= limits.streams * limits.body_bytes * 2);
    }
    memory_settle(m);
    // Left alone, a connection ends by itself.
    exec_sim_run(m->sim, INT64_MAX);
    http_server_flush(&m->server);
    memory_free(m);
    return 0;
}

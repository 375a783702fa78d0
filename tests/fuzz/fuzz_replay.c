// SPDX-License-Identifier: Apache-2.0
//
// Traces: bytes are nodes, pods, arrivals and order, with a line of dashes between them. Whatever they
// say, they are read or refused with a message, and small ones are replayed with every policy under
// the eyes of the allocator's checker.
#include <assert.h>

#include "fuzz.h"
#include "plan/replay.h"

#include "base/banned.h"

#define BYTES_MAX 4000

static bool read_parts(struct replay_trace *t, struct str rest)
{
    static const enum replay_file files[] = {REPLAY_NODES, REPLAY_PODS, REPLAY_ARRIVALS,
                                             REPLAY_ORDER};
    for (size_t i = 0; i < array_len(files); i++) {
        struct err err = {0};
        ptrdiff_t at = str_find(rest, STR("---\n"));
        struct str part = at < 0 ? rest : str_upto(rest, (size_t)at);
        rest = at < 0 ? (struct str){0} : str_from(rest, (size_t)at + 4);
        if (replay_read(t, files[i], part, &err) < 0) {
            assert(err.msg[0]);
            return false;
        }
    }
    return replay_ready(t, NULL) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > BYTES_MAX)
        return 0;
    struct replay_trace *t = replay_new();
    bool good = read_parts(t, str_make((const char *)data, size));
    for (int p = REPLAY_PACK; good && p <= REPLAY_FGD; p++) {
        struct replay_options o = {.policy = (enum replay_policy)p,
                                   .knowledge = size % 2 ? REPLAY_KNOW_PODS : REPLAY_KNOW_NOTHING,
                                   .clock = clock_system(),
                                   .check = true};
        struct replay_result r;
        struct err err = {0};
        int code = replay_run(t, &o, 0, &r, &err);
        assert(code == 0 || code == -ERR_INVALID || code == -ERR_TOO_LARGE);
    }
    replay_free(t);
    return 0;
}

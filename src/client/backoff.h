// SPDX-License-Identifier: Apache-2.0
//
// Waiting before another try of a list or a watch: at once, then doubling with jitter, as
// client-go's reflector does, so that those who were cut off together do not come back together. A
// server that is not reached at all costs nothing to ask, so what waits for it never waits long: it
// is there again within seconds of its start.
#ifndef CLIENT_BACKOFF_H
#define CLIENT_BACKOFF_H

#include <stdbool.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/err.h"

#define BACKOFF_FIRST_NS       (800 * CLOCK_NS_PER_MS)
#define BACKOFF_MAX_NS         (30 * CLOCK_NS_PER_SEC)
#define BACKOFF_UNREACHABLE_NS (1 * CLOCK_NS_PER_SEC)

// Zeroed: nothing has failed.
struct backoff {
    int64_t ns;
    unsigned tries;
};

// backoff_passing: the failure is one that goes by itself.
static inline bool backoff_passing(int code)
{
    return code == -ERR_UNAVAILABLE || code == -ERR_TIMEOUT || code == -ERR_TOO_MANY ||
           code == -ERR_INTERNAL;
}

// backoff_next is how long to wait after another failure.
static inline int64_t backoff_next(struct backoff *b, int code, struct rng *rng)
{
    const struct backoff_policy p = {
        .first_ns = BACKOFF_FIRST_NS, .max_ns = BACKOFF_MAX_NS, .later_percent = 100};
    int64_t most = code == -ERR_UNAVAILABLE ? BACKOFF_UNREACHABLE_NS : BACKOFF_MAX_NS;
    int64_t wait = b->ns < most ? b->ns : most;
    b->ns = backoff_grow_ns(&p, b->ns);
    b->tries++;
    return backoff_spread_ns(&p, wait, rng);
}

// backoff_worth_telling: the failure that backoff_next was just called for should be reported. What
// goes by itself is given some time to do so, and each failure is reported once.
static inline bool backoff_worth_telling(const struct backoff *b, int code)
{
    return b->tries == (backoff_passing(code) ? 3 : 1);
}

#endif

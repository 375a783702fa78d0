// SPDX-License-Identifier: Apache-2.0
//
// Waiting before another try: the one formula. A policy states how long the first wait is, by how
// much each failure lengthens it, how long it may become and how far chance spreads it, so that
// callers that failed together do not come back together. Who keeps count, and what resets it, is
// the caller's.
#ifndef BASE_BACKOFF_H
#define BASE_BACKOFF_H

#include <stdint.h>

#include "base/rand.h"

struct backoff_policy {
    int64_t first_ns;
    int64_t max_ns;
    unsigned growth_percent; // of the last wait; 0: 200, twice as long
    unsigned sooner_percent; // backoff_spread_ns: how much shorter, or longer, chance makes a wait
    unsigned later_percent;
};

// backoff_grow_ns is the wait after one of wait_ns; after 0, which is no failure yet, the first.
int64_t backoff_grow_ns(const struct backoff_policy *p, int64_t wait_ns);

// backoff_wait_ns is the wait after so many failures before this one.
int64_t backoff_wait_ns(const struct backoff_policy *p, uint64_t failures);

// backoff_spread_ns is a wait with chance in it. It draws once, whatever the wait.
int64_t backoff_spread_ns(const struct backoff_policy *p, int64_t wait_ns, struct rng *rng);

#endif

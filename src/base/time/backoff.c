// SPDX-License-Identifier: Apache-2.0
//
// Waits are computed without overflow for any policy: the longest is compared before it is
// multiplied.
#include "base/backoff.h"

#include "base/banned.h"

// Percent of a wait, without overflow for waits of any length.
static int64_t backoff_part_ns(int64_t wait_ns, unsigned percent)
{
    return wait_ns / 100 * percent + wait_ns % 100 * percent / 100;
}

int64_t backoff_grow_ns(const struct backoff_policy *p, int64_t wait_ns)
{
    unsigned growth = p->growth_percent ? p->growth_percent : 200;
    if (wait_ns <= 0)
        return p->first_ns < p->max_ns ? p->first_ns : p->max_ns;
    if (wait_ns > INT64_MAX / growth * 100 || wait_ns >= p->max_ns)
        return p->max_ns;
    int64_t next_ns = backoff_part_ns(wait_ns, growth);
    return next_ns < p->max_ns ? next_ns : p->max_ns;
}

int64_t backoff_wait_ns(const struct backoff_policy *p, uint64_t failures)
{
    int64_t wait_ns = backoff_grow_ns(p, 0), last_ns = 0;
    for (uint64_t i = 0; i < failures && wait_ns < p->max_ns && wait_ns > last_ns; i++) {
        last_ns = wait_ns;
        wait_ns = backoff_grow_ns(p, wait_ns);
    }
    return wait_ns;
}

int64_t backoff_spread_ns(const struct backoff_policy *p, int64_t wait_ns, struct rng *rng)
{
    int64_t sooner_ns = backoff_part_ns(wait_ns, p->sooner_percent);
    int64_t width_ns = sooner_ns + backoff_part_ns(wait_ns, p->later_percent);
    return wait_ns - sooner_ns + (int64_t)rng_below(rng, (uint64_t)width_ns + 1);
}

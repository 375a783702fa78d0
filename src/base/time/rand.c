// SPDX-License-Identifier: Apache-2.0
//
// Randomness: getrandom for the system, xoshiro256** from a seed for simulation.
#include "base/rand.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#include "base/banned.h"

static void system_fill(struct rng *r, void *buf, size_t n)
{
    (void)r;
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)buf + done, n - done, 0);
        if (got > 0) {
            done += (size_t)got;
        } else if (errno != EINTR) {
            // Without randomness there are no unguessable names; going on would be a lie.
            (void)fprintf(stderr, "dray: the kernel gives no random bytes (getrandom: errno %d)\n",
                          errno);
            abort();
        }
    }
}

struct rng *rng_system(void)
{
    static struct rng system_rng = {system_fill};
    return &system_rng;
}

static uint64_t rand_rotate_left(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static uint64_t seeded_next(uint64_t s[4])
{
    uint64_t result = rand_rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rand_rotate_left(s[3], 45);
    return result;
}

static void seeded_fill(struct rng *r, void *buf, size_t n)
{
    struct rng_seeded *s = (struct rng_seeded *)(void *)r;
    for (size_t done = 0; done < n;) {
        uint64_t word = seeded_next(s->state);
        size_t part = n - done < sizeof(word) ? n - done : sizeof(word);
        memcpy((char *)buf + done, &word, part);
        done += part;
    }
}

void rng_seeded_init(struct rng_seeded *r, uint64_t seed)
{
    r->rng.fill = seeded_fill;
    // splitmix64 spreads a small seed over the whole state.
    for (size_t i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        r->state[i] = z ^ z >> 31;
    }
}

uint64_t rng_u64(struct rng *r)
{
    uint64_t v;
    rng_fill(r, &v, sizeof(v));
    return v;
}

uint64_t rng_below(struct rng *r, uint64_t bound)
{
    assert(bound > 0);
    // Draws from the incomplete last stretch of the range are thrown away.
    uint64_t reject_below = (0 - bound) % bound;
    uint64_t v;
    do {
        v = rng_u64(r);
    } while (v < reject_below);
    return v % bound;
}

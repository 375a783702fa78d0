// SPDX-License-Identifier: Apache-2.0
//
// Randomness behind an interface. The system's is for secrets and identifiers; the seeded one
// repeats itself exactly and is for simulations and tests.
#ifndef BASE_RAND_H
#define BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

struct rng {
    void (*fill)(struct rng *r, void *buf, size_t n);
};

// rng_system draws from the kernel. Static; safe from any thread.
struct rng *rng_system(void);

// A seeded generator (xoshiro256**). It belongs to one thread. Not for secrets.
struct rng_seeded {
    struct rng rng; // first, so that a pointer to it is a pointer to this
    uint64_t state[4];
};

void rng_seeded_init(struct rng_seeded *r, uint64_t seed);

static inline void rng_fill(struct rng *r, void *buf, size_t n)
{
    r->fill(r, buf, n);
}

uint64_t rng_u64(struct rng *r);

// rng_below returns an unbiased number in [0, bound); bound must not be 0.
uint64_t rng_below(struct rng *r, uint64_t bound);

#endif

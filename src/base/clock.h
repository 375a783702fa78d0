// SPDX-License-Identifier: Apache-2.0
//
// Time behind an interface: nothing above reads the system's clock itself, so a simulation can
// run hours in milliseconds and a test can be exact.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_SEC INT64_C(1000000000)
#define CLOCK_NS_PER_MS  INT64_C(1000000)
#define CLOCK_NS_PER_US  INT64_C(1000)

struct clock {
    // Nanoseconds that never go back; only differences mean something.
    int64_t (*mono_ns)(const struct clock *c);
    // Nanoseconds since 1970-01-01T00:00:00Z.
    int64_t (*wall_ns)(const struct clock *c);
};

// clock_system is the machine's clock. Static; safe from any thread.
const struct clock *clock_system(void);

static inline int64_t clock_mono_ns(const struct clock *c)
{
    return c->mono_ns(c);
}

static inline int64_t clock_wall_ns(const struct clock *c)
{
    return c->wall_ns(c);
}

// A clock that moves only when it is advanced. It belongs to one thread.
struct clock_fake {
    struct clock clock; // first, so that a pointer to it is a pointer to this
    int64_t mono;
    int64_t wall;
};

void clock_fake_init(struct clock_fake *f, int64_t wall_ns);
void clock_fake_advance(struct clock_fake *f, int64_t ns);

#endif

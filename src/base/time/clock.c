// SPDX-License-Identifier: Apache-2.0
//
// The system clock and a fake one that tests and simulations advance.
#include "base/clock.h"

#include <assert.h>
#include <time.h>

#include "base/mem.h"

#include "base/banned.h"

static int64_t read_system(clockid_t id)
{
    struct timespec ts;
    int r = clock_gettime(id, &ts);
    assert(r == 0);
    return (int64_t)ts.tv_sec * CLOCK_NS_PER_SEC + ts.tv_nsec;
}

static int64_t system_mono(const struct clock *c)
{
    (void)c;
    return read_system(CLOCK_MONOTONIC);
}

static int64_t system_wall(const struct clock *c)
{
    (void)c;
    return read_system(CLOCK_REALTIME);
}

const struct clock *clock_system(void)
{
    static const struct clock system_clock = {system_mono, system_wall};
    return &system_clock;
}

static const struct clock_fake *fake_of(const struct clock *c)
{
    return (const struct clock_fake *)(const void *)c;
}

static int64_t fake_mono(const struct clock *c)
{
    return fake_of(c)->mono;
}

static int64_t fake_wall(const struct clock *c)
{
    return fake_of(c)->wall;
}

void clock_fake_init(struct clock_fake *f, int64_t wall_ns)
{
    *f = (struct clock_fake){{fake_mono, fake_wall}, 0, wall_ns};
}

void clock_fake_advance(struct clock_fake *f, int64_t ns)
{
    assert(ns >= 0);
    f->mono += ns;
    f->wall += ns;
}

// SPDX-License-Identifier: Apache-2.0
//
// Ages, durations and amounts of bytes, formatted as kubectl formats them.
#include "view/human.h"

#include "api/tables.h"
#include "base/clock.h"

#include "base/banned.h"

void view_add_age(struct sbuf *out, struct str since, struct moment now)
{
    struct api_time t = {0};
    t.set = since.n > 0 && rfc3339_parse(since, &t.at, NULL) == 0;
    sbuf_add_age(out, &t, now);
}

void view_add_duration(struct sbuf *out, int64_t seconds)
{
    const struct api_time start = {.set = true};
    sbuf_add_age(out, &start, (struct moment){.sec = seconds});
}

void view_add_bytes(struct sbuf *out, uint64_t bytes)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
    size_t u = 0;
    uint64_t unit = 1;
    while (u + 1 < array_len(units) && bytes / unit >= 1024) {
        unit *= 1024;
        u++;
    }
    uint64_t tenths = bytes % unit * 10 / unit; // unit is at most 2^60: this fits
    sbuf_add_u64(out, bytes / unit);
    if (tenths && bytes / unit < 100)
        sbuf_addf(out, ".%llu", (unsigned long long)tenths);
    sbuf_addz(out, units[u]);
}

struct moment view_now(void)
{
    return moment_from_ns(clock_wall_ns(clock_system()));
}

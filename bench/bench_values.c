// SPDX-License-Identifier: Apache-2.0
//
// Quantities and versions, the same texts as bench/peers/values.
#include "base/arena.h"
#include "bench.h"
#include "codec/quantity.h"
#include "codec/semver.h"

#include "base/banned.h"

static const struct {
    const char *name;
    struct str text;
} quantities[] = {
    {"quantity parse 80Gi", STR_INIT("80Gi")},   {"quantity parse 100m", STR_INIT("100m")},
    {"quantity parse 4", STR_INIT("4")},         {"quantity parse 1.5", STR_INIT("1.5")},
    {"quantity parse 12e6", STR_INIT("12e6")},   {"quantity parse 81920Mi", STR_INIT("81920Mi")},
    {"quantity parse 1.5Gi", STR_INIT("1.5Gi")}, {"quantity parse 2Pi", STR_INIT("2Pi")},
};

static void parse(struct str text, struct arena *arena)
{
    struct quantity q;
    int r = quantity_parse(text, arena, &q, NULL);
    bench_keep(r);
    bench_keep(&q);
    if (arena->used_bytes)
        arena_reset(arena);
}

static void compare(const struct quantity *a, const struct quantity *b)
{
    bench_keep(a);
    int c = quantity_cmp(a, b);
    bench_keep(c);
}

static void parse_version(struct str text)
{
    struct semver v = {0};
    int r = semver_parse(text, &v, NULL);
    bench_keep(r);
    bench_keep(v.major);
}

int main(void)
{
    cleanup_arena struct arena arena = {0};
    for (size_t i = 0; i < array_len(quantities); i++)
        BENCH(quantities[i].name, parse(quantities[i].text, &arena));
    struct quantity a, b;
    if (quantity_parse(STR("80Gi"), &arena, &a, NULL) < 0 ||
        quantity_parse(STR("81920Mi"), &arena, &b, NULL) < 0)
        return 1;
    BENCH("quantity cmp", compare(&a, &b));
    cleanup_sbuf struct sbuf out = {0};
    BENCH("quantity write 1536Mi", sbuf_clear(&out); quantity_write_canonical(&b, &out));
    BENCH("semver parse 12.4.1-rc.1", parse_version(STR("12.4.1-rc.1")));
    return 0;
}

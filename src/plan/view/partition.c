// SPDX-License-Identifier: Apache-2.0
//
// Which devices are parts of others: devices of a pool that draw on the same counter set are one
// piece of hardware, and the one that takes the most of the counters is the whole.
#include "plan/inventory.h"
#include "plan/sim/plan_int.h"

#include "base/banned.h"

struct whole {
    uint32_t device;
    double takes;
};

static double partition_takes(const struct api_device_counter_consumption *c)
{
    double sum = 0;
    for (size_t i = 0; i < c->counters.n; i++)
        sum += quantity_as_double(&c->counters.p[i].value.value);
    return sum;
}

const uint32_t *inventory_wholes(const struct inventory *inv, struct arena *arena)
{
    struct wholes MAP(struct whole) wholes = {0};
    uint32_t *ret = arena_array(arena, uint32_t, inv->devices_len + 1);
    struct str *keys = arena_array(arena, struct str, inv->devices_len + 1);
    for (uint32_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        ret[i] = i;
        if (!d->device->consumes_counters.n)
            continue;
        const struct api_device_counter_consumption *c = &d->device->consumes_counters.p[0];
        keys[i] = arena_strf(arena, "%u/%.*s", d->pool, STR_ARG(c->counter_set));
        bool is_new = false;
        struct whole *w = map_put_new(&wholes, keys[i], &is_new);
        double takes = partition_takes(c);
        if (is_new || takes > w->takes)
            *w = (struct whole){i, takes};
    }
    for (uint32_t i = 0; i < inv->devices_len; i++) {
        const struct whole *w = keys[i].n ? map_get(&wholes, keys[i]) : NULL;
        if (w)
            ret[i] = w->device;
    }
    map_done(&wholes);
    return ret;
}

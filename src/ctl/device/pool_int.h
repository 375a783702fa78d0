// SPDX-License-Identifier: Apache-2.0
//
// What is known of a pool when its status is worked out: pool.c gathers, pool_views.c counts
// partitions and shared capacity, pool_meter.c counts answers. Private to src/ctl.
#ifndef CTL_DEVICE_POOL_INT_H
#define CTL_DEVICE_POOL_INT_H

#include "api/types.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "codec/prom.h"

// A device, and the attribute that names its partition type (empty: none).
struct pool_device {
    const struct api_device *device;
    struct str type_attribute;
    bool in_use;
};

struct pool_devices VEC(struct pool_device);
struct pool_counter_sets VEC(const struct api_counter_set *);
struct pool_uses MAP(bool);               // device names
struct pool_amounts MAP(struct quantity); // by qualified name

struct pool {
    struct str driver;
    struct str name;
    struct str node;
    bool mixed_nodes;
    int64_t generation;
    int64_t expected; // slices
    int64_t slices;
    int32_t unavailable;
    struct pool_devices devices;
    struct pool_counter_sets counters;
    struct pool_uses uses;
    struct pool_amounts consumed;
};

#define POOL_LIST_MAX 32

// pool_views fills the partition and sharing parts of *ret, or its validation error. Texts and
// lists live in arena.
void pool_views(struct pool *p, const struct api_resource_pool_status_request_spec *request,
                struct arena *arena, struct api_pool_status *ret);

// --- pool_meter.c --------------------------------------------------------------------------------

struct pool_meter_row {
    char *driver; // owns the key
    uint64_t processed, errors;
    struct prom_times took;
};

struct pool_meter {
    struct pool_meter_rows MAP(struct pool_meter_row) rows; // by driver
};

// pool_meter_answered counts an answer that was written, or was to be.
void pool_meter_answered(struct pool_meter *m, struct str driver, bool well, int64_t took_ns);
void pool_meter_write(const struct pool_meter *m, struct sbuf *out);
void pool_meter_done(struct pool_meter *m);

#endif

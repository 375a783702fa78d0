// SPDX-License-Identifier: Apache-2.0
//
// A cluster: slices, classes and use, read once and shared by the views of all nodes.
#ifndef ALLOC_MODEL_CLUSTER_INT_H
#define ALLOC_MODEL_CLUSTER_INT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "alloc/model/amount.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "cel/cel.h"

// An attribute's value for constraints: the numbers of its values in the cluster's table, where
// type and value together make the number. A scalar is a set of one.
struct attr_value {
    const uint32_t *ids;
    uint16_t n;
    uint8_t state; // enum attr_state
};

enum attr_state {
    ATTR_UNKNOWN,  // not looked up yet
    ATTR_MISSING,  // no such attribute, or no value where one is needed: never fits
    ATTR_VALUE,    // n >= 1
    ATTR_NO_VALUE, // lists are off and the attribute has no scalar: fits as the first only
    ATTR_ERROR,    // a derived attribute that cannot be computed
};

enum match_state {
    MATCH_UNKNOWN,
    MATCH_NO,
    MATCH_YES,
    MATCH_ERROR,
};

struct cl_device {
    const struct api_device *api;
    const struct api_resource_slice *slice;
    struct cel_device **cel;        // made when first needed, for all clusters of these slices
    const struct attr_value *attrs; // parallel to api->attributes
    const struct attr_value *pcie, *numa; // of these, where it sits; NULL: not published
    const struct alloc_use *owner;        // the exclusive use, if any
    struct api_device_taint_array taints; // with those of the rules
    amount *used;                         // parallel to api->capacity: consumed by shares
    uint64_t kind;                        // equal for devices that a fleet cannot tell apart
    uint64_t sign;                        // distinguishes partitions of a counter set
    uint32_t kind_number;                 // what expressions can tell apart; 0: not known
    bool exclusive_use;
    bool shared_use;  // a share, or recorded consumption
    bool shared;      // may be allocated several times (and the feature is on)
    uint8_t name_bit; // in cluster.use_bits
};

struct cl_slice {
    const struct api_resource_slice *api;
    uint32_t first_device; // in cluster.devices
    bool uses_groups;
};

struct u32_vec VEC(uint32_t);

struct cl_class {
    const struct api_device_class *api;
    struct cel_program **programs; // parallel to selectors; NULL where it does not compile
    uint8_t *match;                // enum match_state for each device of the cluster
    size_t *judged;                // so many of match are known; the others are MATCH_UNKNOWN
};

struct cl_use {
    bool exclusive;
    bool share;
    bool has_capacity;
    const struct alloc_use *owner;
    struct u32_vec capacities; // indexes of uses that carry capacity
};

// A kind of device, as far as expressions and packing can tell (answer.c). kind and sign are those
// of all its devices.
struct device_kind {
    uint64_t hash;
    uint64_t kind, sign;
    uint32_t number; // from 1
    bool seen;       // kind and sign are known
};

// Which kinds the devices of a cluster are of, slice by slice; NULL: not known.
struct cl_kinds {
    struct device_kind *const *of;
    uint32_t generation;
    uint32_t
        reads; // so many of the attributes that expressions read make a difference; UINT32_MAX: all
};

struct alloc_kit {
    struct cel_env *env;
    struct cel_env *derived_env;
    struct cel_shapes *shapes;
    struct cel_cache *cache;
    struct answers *answers; // NULL: kinds are not known
};

// What is odd about pools.
struct cl_pools {
    bool counters; // some slices have shared counters
    bool mixed;    // some pools have slices of several generations or slice counts
    struct pool_uses MAP(int64_t) lost; // by pool: devices in use that it does not publish
};

struct alloc_cluster {
    struct arena arena;
    struct alloc_features features;
    bool experimental; // a feature that only upstream's experimental allocator knows is on
    struct cl_slice *slices;
    size_t slices_len;
    struct cl_device *devices;
    size_t devices_len;
    struct cl_class *classes;
    size_t classes_len;
    struct class_names MAP(uint32_t) class_names;
    struct slices_by MAP(struct u32_vec) by_node; // slices with a node name
    struct slices_by by_pool;                     // by "driver\0pool"
    struct u32_vec elsewhere;                     // slices without a node name
    struct cl_uses MAP(struct cl_use) uses;       // by "driver\0pool\0device"
    uint64_t use_bits[4];                         // of names in uses: most devices are in none
    struct cl_pools pools;
    struct alloc_use *use_list;
    size_t use_list_len;
    const struct api_device_taint_rule **taint_rules; // for smaller clusters made of this one
    size_t taint_rules_len;
    struct value_ids MAP(uint32_t) values; // attribute values by type and bytes
    struct alloc_kit kit;
    struct cl_kinds kinds;     // without the numbers
    struct alloc_kit *own_kit; // where the kit is from, unless it is shared
    bool borrowed;             // all but devices, use and arena belong to another cluster
};

// attr_value_of reads an attribute by the rules in force; ids for new values come from intern.
struct attr_value attr_value_of(const struct api_device_attribute *a, bool lists,
                                uint32_t (*intern)(void *arg, char type, struct str bytes),
                                void *arg, struct arena *arena);

// fleet_device_kind hashes what a device has in common with others of its kind.
uint64_t fleet_device_kind(const struct api_device *d, const struct api_resource_slice_spec *slice);

// cluster_slice_uses_groups reports whether devices of a slice have compatibility groups.
bool cluster_slice_uses_groups(const struct api_resource_slice *s);

// fleet_device_sign hashes what distinguishes a partition from others of its counter set: 0 for
// other devices.
uint64_t fleet_device_sign(const struct api_device *d);

// cluster_pool_key and cluster_device_key write the key of a pool or device.
struct str cluster_pool_key(struct arena *a, struct str driver, struct str pool);

#endif

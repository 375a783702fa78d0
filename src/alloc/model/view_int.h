// SPDX-License-Identifier: Apache-2.0
//
// A view: the devices, counters and capacities that one node can use, in search order.
#ifndef ALLOC_MODEL_VIEW_INT_H
#define ALLOC_MODEL_VIEW_INT_H

#include "alloc/model/cluster_int.h"

struct counter_use {
    uint32_t counter; // in view.available
    amount value;
};

struct group_use {
    uint32_t set; // in view.groups
    uint64_t mask;
};

// Static answers of a device, each for itself.
enum node_match {
    NODE_NO,
    NODE_YES,
    NODE_ERROR,
};

enum need_state {
    NEED_UNKNOWN,
    NEED_OK,    // amounts are known; whether they fit depends on what is consumed
    NEED_SKIP,  // an unknown capacity or a policy violated
    NEED_ERROR, // fatal
};

struct vw_device {
    const struct cl_device *cl;
    uint32_t cl_index;
    uint32_t pool;
    uint32_t first_cap; // in the arrays of capacities
    uint32_t first_counter;
    uint32_t first_group;
    uint16_t caps_len;
    uint16_t counters_len;
    uint16_t groups_len;
    uint8_t node;         // enum node_match
    uint8_t default_need; // enum need_state without a capacity request
    bool default_fits;    // the default need fits beside what is in use
    bool refused;         // never selected: needs a feature that is off
    bool unsupported;     // skips operations, which the node does not declare
    bool shared;
    bool exclusive_use;
    bool shared_use;
    bool hard_taints; // has a taint that needs toleration
};

struct group_state {
    uint64_t mask;
    bool members;
    bool all_empty;
};

// How a capacity's policy rounds, where 64-bit numbers of its unit can say it.
enum cap_rounding {
    CAP_SLOW,  // by quantities
    CAP_PLAIN, // no policy: as asked
    CAP_RANGE,
};

struct vw_cap {
    const struct api_device_capacity_entry *api;
    int64_t min, max, step; // in units; max and step are 0 when there is none
    uint8_t rounding;       // enum cap_rounding
    bool milli;             // the unit is a thousandth

    amount value;
    amount used;         // by shares in use
    amount default_need; // what an unspecific request takes
};

struct vw_pool {
    struct str driver;
    struct str name;
    bool incomplete;
    bool invalid;
    bool binding;
    uint32_t first_device;
    uint32_t devices_len;
    uint32_t first_set;
    uint32_t sets_len;
    uint32_t overdrawn;     // counters below zero before anything is allocated
    uint32_t begun_free;    // devices not in use on PCIe roots with some that are
    uint32_t largest_place; // devices of the largest PCIe root of which nothing is in use
    struct str invalid_reason;
};

// Partitions of a counter set that are looked ahead at.
#define VIEW_SET_MEMBERS 64

// A device as the policies see it.
struct vw_rank {
    uint64_t excludes; // members of its set that do not fit beside it
    uint32_t pcie;     // number of the place, from 1; 0: none
    uint32_t numa;     // likewise
    uint32_t set;      // likewise, the first counter set it draws on
    uint16_t size;
    uint8_t local; // which member of its set
    uint8_t weight;
};

struct vw_set {
    uint32_t *members; // devices
    uint32_t n;
    uint32_t counters;
};

// What is left of a counter set.
struct set_now {
    uint64_t fits; // members that could be had
    bool begun;    // something of it is in use
};

// A device in its place of the order, with what a preference is made of.
struct vw_seat {
    uint64_t key;      // binding conditions, size and position, as in order.c
    uint64_t pack_one; // the preference of pack when one device is wanted and nothing is picked
    uint32_t device;
    uint32_t cl_index;
    uint32_t pcie, numa, set; // as in its rank
    bool refused;
    bool exclusive_use;
    bool shared;
    bool shared_use;
};

// By counter.
struct vw_counters {
    amount *available;
    amount *totals; // with nothing in use
    uint32_t *pool;
    uint32_t *set;
    struct str *names; // "set/counter", for explanations
    uint32_t *kind;    // counters of one name in one pool are of one kind
    size_t n;
    uint32_t kinds;
};

// By place.
struct vw_places {
    uint32_t *free; // devices not in use
    bool *begun;    // some device is in use
    size_t n;       // with number 0, no place
};

struct alloc_view {
    struct arena arena;
    const struct alloc_cluster *cluster;
    const struct api_node *node;
    struct vw_pool *pools; // in search order, unusable ones too
    size_t pools_len;
    struct vw_device *devices; // of usable pools, in search order
    size_t devices_len;
    struct vw_cap *caps;
    size_t caps_len;
    struct counter_use *counter_uses;
    struct group_use *group_uses;
    struct vw_counters counters;
    struct group_state *groups; // by counter set: the baseline
    size_t sets_len;
    struct vw_rank *ranks; // parallel to devices
    struct vw_set *sets;   // by counter set
    struct set_now *sets_now;
    struct vw_seat *seats; // devices in an order that has neighbours side by side
    struct vw_places places;
    bool declares_optional_operations;
    bool any_invalid;
    bool any_shared;
    bool any_set_begun;
    bool elsewhere; // devices that the node does not see draw on its counters
};

// view_update_join_group lets a device in use with these groups into the state of a counter set.
void view_update_join_group(struct group_state *g, uint64_t mask);

// view_update_lost is 1 if a device in use is missing from the pool: its share of the counters is
// unknown, and the pool counts as overdrawn.
uint32_t view_update_lost(const struct alloc_cluster *c, struct str driver, struct str pool);

#endif

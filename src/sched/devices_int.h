// SPDX-License-Identifier: Apache-2.0
//
// Data of devices.c and candidates.c.
#ifndef SCHED_DEVICES_INT_H
#define SCHED_DEVICES_INT_H

#include "sched/cluster.h"
#include "sched/devices.h"

struct object_list VEC(const struct client_object *);

// A pool: the slices that publish it, the allocations that hold devices of it.
struct dev_pool {
    struct str key; // "driver\0name"; owned
    struct str driver, name;
    struct str node; // whose it is; a key of devices.local; empty: shared, or no slices
    struct object_list slices;
    struct dev_users VEC(struct dev_user *) users;
    size_t devices;
    bool shared;
    bool shareable; // a device of it may be allocated several times
};

struct pool_vec VEC(struct dev_pool *);

// base has no use recorded and is dear; state is base with use, and cheap.
struct snapshot {
    struct alloc_cluster *base;
    struct alloc_cluster *state;
    struct object_list held; // what base borrows from
};

struct dev_node {
    struct str name; // owned
    uint32_t index;
    const struct client_object *object;
    struct snapshot own; // unused while it has no pools of its own
    struct alloc_view *view;
    bool sees_shared; // known once a snapshot was made
    bool failed;      // no view can be made
    int bucket;       // -1: in none
};

// Nodes by free devices: 0 … 15, and those where free devices do not tell (shared ones).
#define BUCKETS        17
#define BUCKET_UNKNOWN 16

// Shapes that are remembered.
#define SHAPES_MAX 128

struct dev_shape {
    uint64_t hash;
    uint64_t used;   // when, for replacement
    uint64_t *maybe; // a bit a node: ask it
};

struct devices {
    struct alloc_features features;
    enum alloc_policy policy;
    struct alloc_kit *kit;
    struct pools_map MAP(struct dev_pool *) pools;
    struct local_map MAP(struct pool_vec) local; // by node name; keys owned
    struct dev_node_vec VEC(struct dev_node *) nodes;
    struct dev_node_map MAP(struct dev_node *) by_name;
    struct snapshot common; // of shared pools, for nodes without pools of their own
    size_t shared_pools;
    struct object_list classes;
    struct object_list rules;
    struct class_index MAP(const struct api_device_class *) class_index;
    size_t warm; // nodes before this one have been warmed

    struct index_vec touched; // nodes, since somebody looked; more than there are nodes: any

    uint64_t *buckets[BUCKETS]; // a bit a node
    size_t words;               // of each set
    struct dev_shape shapes[SHAPES_MAX];
    size_t shapes_len;
    uint64_t clock;
};

// candidates_touch: something about the node's devices changed; candidates_settle: its view was made;
// candidates_gone: the node is no more.
void candidates_touch(struct devices *d, struct dev_node *n);
void candidates_settle(struct devices *d, struct dev_node *n);
void candidates_gone(struct devices *d, uint32_t index);
void candidates_done(struct devices *d);

#endif

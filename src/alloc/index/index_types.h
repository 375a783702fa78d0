// SPDX-License-Identifier: Apache-2.0
//
// Data of the index: pools, slices and users; nodes, and the sets, cells and groups they are in.
#ifndef ALLOC_INDEX_INDEX_TYPES_H
#define ALLOC_INDEX_INDEX_TYPES_H

#include "alloc/index.h"
#include "base/map.h"
#include "cel/cel.h"

// A device as the index knows it. kind is what questions can see of it, a hash: the sum of what is
// published but attributes (rest), of the attributes that some expression reads, and of the taints
// of rules. What is in use of a shared one is a sum, too.
struct index_device {
    uint64_t rest;
    uint64_t kind;
    uint64_t consumed;
    uint16_t exclusive; // allocations that have it so
    uint16_t shares;
};

struct index_slice {
    struct index_object object;
    const struct api_resource_slice *api;
    uint64_t head;  // a hash of all but names and devices
    uint32_t reads; // of index.reads, so many were known when its devices were looked at
    bool read_all;  // index.reads_all likewise
    bool qualified; // some attributes have a domain that is not the driver's
    struct index_device devices[];
};

struct index_set_list VEC(struct index_set *);
struct index_slices VEC(struct index_slice *);
struct index_users VEC(struct index_user *);

// A pool: the slices that publish it, sorted by name, and the allocations that hold devices of it.
struct index_pool {
    struct str key; // "driver\0name"; owned
    struct str driver, name;
    struct index_node *node; // whose it is; NULL: shared, or no slices
    struct index_slices slices;
    struct index_users users;
    struct index_set_list sets; // that have it
    uint64_t state;             // a hash of devices and use
    uint32_t devices;
    uint32_t taken;
    int64_t uses;  // of its devices, published or not, by its users
    uint32_t idle; // of these, so many can be had at the most
    bool shared;
    uint32_t in_shared; // if so, its place in index.shared
    bool shareable;     // a device of it may be allocated several times
    bool grouped;       // some have compatibility groups: which slices count depends on features
    bool twice;         // two devices have one name
};

// Objects that a snapshot borrows from.
struct index_held VEC(const void *);

// base has no use recorded and is dear; state is base with use, and cheap.
struct index_base {
    struct alloc_cluster *base;
    struct alloc_cluster *state;
    struct index_held held;
    bool unknown; // the kinds of some devices are not known yet
};

// What nodes see of a shared pool: which slices and devices, as a hash, and how many.
struct index_seen {
    uint64_t hash;
    uint32_t devices;
};

// Shared pools that some nodes see, sorted by key. Nodes with the same labels, as far as shared
// pools ask for them, have one set.
struct index_set {
    struct str labels; // those values; owned, the key of index.sets
    struct index_pools pools;
    struct VEC(struct index_seen) seen; // beside them
    uint64_t state;
    uint32_t idle;                     // devices that these nodes can have, at the most
    bool loose;                        // some can be shared
    uint32_t slices_stamp, uses_stamp; // when pools, or their use, changed
    size_t nodes;                      // that see it
    bool dirty;                        // its state is out of date, and it is in index.dirty
    struct index_cells VEC(struct index_cell *) cells;
    struct index_base common;            // of nodes without pools of their own
    uint32_t common_slices, common_uses; // the stamps it is of
};

// Nodes with equal devices of their own in equal use, that see one set.
struct index_cell {
    uint64_t own; // state of their own devices
    struct index_set *set;
    struct index_group *group;
    struct crowd nodes;
    uint32_t number; // in index.cells
    uint32_t in_set; // place in set->cells
    uint32_t in_group;
    uint32_t idle; // devices of their own that can be had, at the most
    bool loose;    // some can be shared
};

// Cells in the same state.
struct index_group {
    uint64_t state;
    uint32_t number; // in index.groups
    uint32_t born;   // distinguishes groups that had the same number
    uint32_t idle;   // devices that one of the nodes can have, at the most
    bool loose;      // some can be shared, so that idle is no bound
    uint32_t in_bucket;
    struct index_cells cells;
};

// What is kept of a node for its view.
struct index_snapshot {
    struct index_base own; // unused while it has no pools of its own
    struct alloc_view *view;
    struct index_node *node;
    uint32_t slices_stamp, uses_stamp; // of its set
    bool pinned;
    size_t devices;                       // that its view has, and some more
    struct index_snapshot *newer, *older; // in the order of the requests
};

struct index_node {
    struct str name; // owned
    uint32_t number; // UINT32_MAX: only slices name it
    struct index_object object;
    struct index_pools pools; // its own
    struct index_cell *cell;
    struct index_snapshot *snapshot; // NULL: none is kept
    struct index_set *set;
};

// What is known about a question on a group.
struct index_fact {
    uint32_t born;
    uint8_t known;   // enum index_known
    uint32_t more;   // so many fit, one after the other; UINT32_MAX: not known
    uint32_t shared; // of these, so many take devices that other nodes reach, too
};

enum index_known { KNOWN_NOTHING, KNOWN_NO, KNOWN_YES };

struct index_question {
    uint64_t hash;
    uint64_t used;     // when, to find the oldest
    uint32_t epoch;    // of the facts
    uint32_t rekey;    // before that many, its facts would be about nodes that it can tell apart
    uint32_t refusals; // until then
    struct index_fact *facts;
    size_t facts_len;
};

// Groups by idle devices; the last bucket has those with more, too.
#define BUCKETS 1024

// Nodes that a change of a shared pool's use is reported for (index_touched). Where more see the
// pool, who follows the nodes' states learns of it when it looks at a node for another reason.
#define TOUCHED_MOST 2048

#define QUESTIONS_MAX 256

// Pools looked at again with each question after something new was read, and nodes that may refuse
// one before all are.
#define CATCH_UP     64
#define REFUSALS_MAX 16
#define DEVICES_KEPT ((size_t)16384)
#define VIEWS_LEAST  64 // are kept, however large they are

struct index_groups VEC(struct index_group *);

struct index_bucket {
    struct index_groups firm, loose;
};

// An attribute that some expression or constraint reads; name empty: all of the domain. A user who
// makes claims can name as many as they like: after READS_MAX all attributes count. Few are looked
// through, more are found by name.
struct index_read {
    struct str domain, name;
};

#define READS_MAX 4096
#define READS_FEW 16

struct index {
    struct index_options options;
    struct alloc_kit *kit;
    struct arena arena; // of names that are never forgotten: labels, attributes
    struct index_pool_map MAP(struct index_pool *) pools;
    struct index_node_map MAP(struct index_node *) by_name;
    struct index_node_list VEC(struct index_node *) nodes; // by number
    struct index_places VEC(uint32_t) places;              // by number: in the crowd of its cell
    struct index_set_map MAP(struct index_set *) sets;
    struct index_set_list dirty;
    struct {
        struct index_cell_list VEC(struct index_cell *) all; // by number, NULL: free
        struct index_numbers free;
        struct index_cell_map MAP(struct index_cell *) by_own; // by own state and set
    } cell;
    struct {
        struct index_groups all; // by number
        struct index_numbers free;
        struct index_group_map MAP(struct index_group *) by_state;
        struct index_bucket buckets[BUCKETS];
        uint32_t births;
    } group;
    struct {
        struct index_pools pools;                     // that are not of one node alone
        struct index_label_keys MAP(bool) label_keys; // that these pools select nodes by
        struct index_label_keys node_names;           // likewise
    } shared;
    struct index_objects VEC(struct index_object) classes;
    struct index_objects rules;
    struct index_class_map MAP(const struct api_device_class *) class_index;
    struct {
        struct index_reads VEC(struct index_read) list;
        struct index_read_names MAP(bool) names; // "domain\0name" of each
        bool all;                                // some expression may read any attribute
        uint32_t rekeys;                         // times that something new was read
        uint32_t rekeyed;                        // of these, so many have been applied to all pools
        size_t stale; // entries of pools, from the first on, to which they have not
    } read;
    struct {
        struct index_snapshot *newest, *oldest;
        size_t n;
        size_t devices;
    } kept;
    struct index_numbers touched;
    struct index_question questions[QUESTIONS_MAX];
    size_t questions_len;
    uint32_t epoch; // facts of older ones do not hold
    uint64_t clock;
    struct {
        struct index_question *q;
        size_t need;
        size_t left; // buckets to come
        struct crowd_walk at;
    } walk;
};

#endif

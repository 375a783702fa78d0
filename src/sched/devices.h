// SPDX-License-Identifier: Apache-2.0
//
// The devices of all nodes as the allocator wants to see them: for each node a snapshot, made when it
// is asked for and kept until something in it changed. Everything that changes them comes in here;
// what comes out is a view, and an order in which nodes are worth asking. Private to src/sched.
//
// A pool whose slices all name one node belongs to that node. Any other pool is shared: nodes that
// have pools of their own get a copy of it in their snapshot, the others look at one common snapshot.
#ifndef SCHED_DEVICES_H
#define SCHED_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/vec.h"
#include "client/client.h"
#include "dray/alloc.h"

struct devices;
struct index_vec;
struct dev_pool;

// An allocation that holds devices. The owner embeds it, zeroed. allocation is borrowed as long as it
// is set; whoever replaces it calls devices_use.
struct dev_user {
    const struct api_allocation_result *allocation;
    struct str owner;  // namespace/name of the claim; borrowed
    uint64_t revision; // at which the allocation was stored, at the latest; UINT64_MAX: not yet
    uint64_t
        not_before; // and at the earliest: the same, unless a list has shown it; UINT64_MAX: not yet
    bool foreign;   // another scheduler's
    struct dev_pools VEC(struct dev_pool *) pools;
};

struct devices *devices_new(const struct alloc_features *features, enum alloc_policy policy);
void devices_free(struct devices *d);

// What changes. Objects are referenced as long as they are needed; NULL: gone.
void devices_slice(struct devices *d, const struct client_object *before,
                   const struct client_object *after);
void devices_class(struct devices *d, const struct client_object *before,
                   const struct client_object *after);
void devices_rule(struct devices *d, const struct client_object *before,
                  const struct client_object *after);
void devices_node(struct devices *d, uint32_t index, struct str name,
                  const struct client_object *object);

// devices_use replaces what a user holds. Devices count as in use from here on; NULL: none.
void devices_use(struct devices *d, struct dev_user *u,
                 const struct api_allocation_result *allocation);

// devices_view is what a node sees, now. Borrowed until the next change. NULL: err says why.
const struct alloc_view *devices_view(struct devices *d, uint32_t node, struct err *err);

const struct api_device_class *devices_find_class(const struct devices *d, struct str name);

// devices_find finds the device of an allocation's result; NULL when no slice has it.
const struct api_device *devices_find(const struct devices *d,
                                      const struct api_device_request_allocation_result *r);

// devices_stands says whether a user's allocation is right on this node beside all allocations that
// may have been stored before it. Only allocations of other schedulers can make it wrong;
// devices_contested says whether there are any in its pools.
bool devices_contested(const struct dev_user *u);
bool devices_stands(struct devices *d, uint32_t node, const struct dev_user *u,
                    const struct api_resource_claim *claim, struct sbuf *problems);

// devices_touched are the nodes whose devices or use of them changed since the list was emptied, which
// whoever wants to know does; more than there are nodes: any may have.
struct index_vec *devices_touched(struct devices *d);

// --- Which nodes to ask --------------------------------------------------------------------------

// A shape is a question: what the claims of a pod ask for, whoever asks. For each it is known which
// nodes need not be asked again until something on them changes. Shapes are few and come and go.
struct dev_shape;

struct dev_shape *devices_shape(struct devices *d, uint64_t hash);

// devices_rule_out remembers that a node has no answer for a shape.
void devices_rule_out(struct dev_shape *shape, uint32_t node);

// A walk over the nodes that may have an answer, best first by the policy: pack takes those with the
// fewest free devices that suffice.
struct dev_walk {
    struct dev_shape *shape;
    size_t need; // distinct devices at least, as far as none can be shared
    int bucket;
    size_t word;
    uint64_t bits;
};

void devices_walk_start(struct devices *d, struct dev_walk *w, struct dev_shape *shape,
                        size_t need);
bool devices_walk_next(struct devices *d, struct dev_walk *w, uint32_t *ret_node);

// devices_free_count counts devices of the node's own pools that nobody holds, and all of them.
void devices_count(const struct devices *d, uint32_t node, size_t *ret_free, size_t *ret_all);

// devices_warm makes up to max snapshots that are missing. False: none is.
bool devices_warm(struct devices *d, size_t max);

// devices_check compares the pools' users with those given by the caller one by one.
bool devices_holds(const struct devices *d, const struct dev_user *u);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The parts of `dray bench fleet`: a cluster's objects, and a scheduler's core on them.
#ifndef LAB_BENCH_FLEET_H
#define LAB_BENCH_FLEET_H

#include "alloc/fleet.h"
#include "alloc/index.h"
#include "lab/bench.h"

#define FLEET_RACK 100 // nodes that reach one network pool
#define FLEET_ASKS 6   // kinds of claims

// Objects as a watch delivers them, each in memory of its own.
struct fleet_objects {
    size_t nodes, devices, pools;
    struct arena *arenas; // of nodes, then slices of nodes, then network pools
    struct api_node **node;
    struct api_resource_slice **slice; // of nodes, then network pools
    struct arena shared;
    struct api_device_class *classes[2];
    struct api_resource_claim *asks[FLEET_ASKS];
    uint64_t hashes[FLEET_ASKS];
};

void bench_fleet_objects_make(struct fleet_objects *o);
void bench_fleet_objects_free(struct fleet_objects *o);

// bench_fleet_objects_renew publishes a node's slice again, as a driver does: a new object, one
// more generation. The old one is freed by fleet_objects_drop.
struct fleet_old {
    struct api_resource_slice *slice;
    struct arena arena;
};
void bench_fleet_objects_renew(struct fleet_objects *o, size_t node, int64_t generation,
                               struct fleet_old *ret);

// A claim that holds devices.
struct fleet_claim {
    struct index_user user;
    struct alloc_use *uses;
    uint32_t node;
    uint8_t ask;
    bool held;
};

// The core of a scheduler: index, fleet and solver.
struct fleet_core {
    const struct fleet_objects *objects;
    struct index *index;
    struct fleet *fleet;
    struct alloc_solver *solver;
    int64_t *cpu;     // by node: left
    uint64_t *closed; // a bit a node: no pod may go there
    uint64_t asked, solved;
};

void bench_fleet_core_begin(struct fleet_core *c, const struct fleet_objects *o);
void bench_fleet_core_end(struct fleet_core *c);

// bench_fleet_core_place finds the best node for a claim and takes its devices. False: there is
// none.
bool bench_fleet_core_place(struct fleet_core *c, struct fleet_claim *k);
void bench_fleet_core_take(struct fleet_core *c, struct fleet_claim *k);
void bench_fleet_core_release(struct fleet_core *c, struct fleet_claim *k);

// bench_fleet_core_refresh updates the fleet from the changes in the index, of so many nodes at the
// most.
void bench_fleet_core_refresh(struct fleet_core *c, size_t most);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The devices of a cluster as a person asks for them: what exists, who holds it and since when,
// what is left, what keeps a device from being had. Made of a world (plan.h) in one go and
// immutable; what counters and shares leave comes from the allocator. The world must outlive it.
#ifndef PLAN_INVENTORY_H
#define PLAN_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "base/arena.h"
#include "base/err.h"
#include "plan/plan.h"

enum inventory_state {
    INVENTORY_FREE,    // not held
    INVENTORY_PART,    // some have shares of it, and something is left
    INVENTORY_HELD,    // a claim has it, or all its shares are taken
    INVENTORY_BLOCKED, // not held, but other claims have what it is made of (counters)
    INVENTORY_TAINTED, // not held, and only claims that tolerate its taints can
    INVENTORY_LOST,    // published, but of a pool that does not count or a node that is not there
    INVENTORY_BROKEN,  // in use, and tainted or reported unhealthy by its driver
    INVENTORY_STATES,
};

// inventory_state_name: free, part, held, blocked, tainted, lost, broken. Static storage.
const char *inventory_state_name(enum inventory_state s);

// Since when a claim has its devices.
enum inventory_since {
    INVENTORY_SINCE_UNKNOWN,
    INVENTORY_SINCE_ALLOCATION, // the scheduler wrote it down
    INVENTORY_SINCE_FIELDS,     // by the last write of the allocation's owner: then or earlier
    INVENTORY_SINCE_CREATION,   // the claim's creation: then or later
};

// A claim that holds something.
struct inventory_claim {
    const struct api_resource_claim *claim;
    struct str name; // namespace/name
    struct api_time since;
    enum inventory_since since_how;
    struct str pods; // names of those it is reserved for, with commas; empty: none
    struct str node; // where those run; empty: not known
};

// A claim's part in a device.
struct inventory_hold {
    uint32_t claim;  // in inventory.claims
    uint32_t device; // in inventory.devices; UINT32_MAX: it is gone
    const struct api_device_request_allocation_result *result;
    const struct api_allocated_device_status *status; // the driver's status of it; may be NULL
};

struct inventory_pool {
    struct str driver, name;
    struct str node; // empty: of several nodes
    int64_t generation;
    size_t slices, slices_wanted; // of that generation
    size_t stale;                 // slices of older ones
    size_t devices;
    struct str problem; // why it does not count; empty: it does
};

struct inventory_device {
    struct alloc_device_id id;
    struct str node; // empty: several nodes have access
    const struct api_device *device;
    const struct api_resource_slice *slice;
    struct api_device_taint_array taints; // with those of the rules
    const struct str *left;               // parallel to device->capacity; NULL: all of it
    uint32_t pool;                        // in inventory.pools
    uint32_t first_hold, holds_len;       // in inventory.holds
    size_t number;                        // in the allocator's snapshot
    enum inventory_state state;
    bool simulated; // its node exists only in the API
    bool shared;    // may be allocated several times
    bool unhealthy; // a driver reports a problem
    struct str why; // for all states but free, part and held
};

// A pod that waits, with its condition.
struct inventory_pending {
    struct str pod; // namespace/name
    struct api_time since;
    struct str reason; // may be empty
    bool claims;       // it asks for devices
};

struct inventory_node {
    struct str name;
    const struct api_node *node;
    struct alloc_view *view; // NULL: it cannot be looked at
    uint32_t first, devices; // in inventory.by_node
};

struct inventory {
    struct arena arena;
    struct plan_world *world; // borrowed
    struct alloc_cluster *cluster;
    struct inventory_device
        *devices; // of the newest generation of every pool, by driver, pool, slice
    size_t devices_len;
    struct inventory_pool *pools;
    size_t pools_len;
    struct inventory_node *nodes;
    size_t nodes_len;
    uint32_t *by_node; // devices that one node has, node by node
    struct inventory_claim *claims;
    size_t claims_len;
    struct inventory_hold *holds; // by device; those of devices that are gone come last
    size_t holds_len;
    struct inventory_pending *pending; // pods without a node, those with claims first
    size_t pending_len;
};

struct inventory_options {
    struct alloc_features features;
    const struct api_device_class *extra; // one more class; may be NULL
    bool no_views; // leave out what only the allocator knows: quicker, for names alone
    // Nodes that are not in the world do not exist; else, without any, slices name the nodes.
    bool nodes_known;
};

// inventory_new makes the inventory of a world. Returns 0 or -ERR_INVALID when a device cannot be
// read.
int inventory_new(struct plan_world *w, const struct inventory_options *options,
                  struct inventory **ret, struct err *err) MUST_USE;
void inventory_free(struct inventory *inv);

// inventory_find calls fn for each device of a name: DRIVER/POOL/DEVICE, POOL/DEVICE, DEVICE, or
// NODE/DEVICE. Returns how many there are.
size_t inventory_find(const struct inventory *inv, struct str name,
                      void (*fn)(void *arg, uint32_t device), void *arg);

// inventory_name adds driver/pool/device.
void inventory_name(const struct alloc_device_id *id, struct sbuf *out);

// inventory_simulated reports whether a node exists only in the API. INVENTORY_SIMULATED follows
// the names of such nodes in tables.
#define INVENTORY_SIMULATED " (simulated)"
bool inventory_simulated(const struct inventory *inv, struct str node);

// inventory_wholes gives for each device the one that it is a part of, in arena; itself for one
// that is no part. Parts draw on the same counters.
const uint32_t *inventory_wholes(const struct inventory *inv, struct arena *arena);

// inventory_attribute finds an attribute of a device by its qualified name, or NULL. Names without
// a domain are the driver's.
const struct api_device_attribute *inventory_attribute(const struct inventory_device *d,
                                                       struct str name);

// inventory_value adds an attribute's value as text; lists with commas.
void inventory_value(const struct api_device_attribute *a, struct sbuf *out);

// inventory_check_cel compiles an expression about devices. Returns 0 or -ERR_INVALID.
int inventory_check_cel(struct str text, const struct alloc_features *f, struct err *err) MUST_USE;

// --- What is free --------------------------------------------------------------------------------

struct free_question {
    struct str class_name; // empty: any device
    struct str cel;        // one more selector; may be empty
    struct str node;       // empty: all
    const struct clock *clock;
};

// Devices of a class at one place.
struct free_row {
    struct str node; // empty: devices that several nodes have access to
    size_t devices;
    size_t states[INVENTORY_STATES];
    size_t failed;        // devices on which a selector fails
    size_t fits;          // so many more claims for one such device would the scheduler serve
    size_t fits_tolerant; // … of pods that tolerate the taints administrators set on nodes
    bool more;            // at least as many: the bound on claims or time was reached
};

struct free_answer {
    struct free_row *rows; // places with devices of the class, in the order of nodes; in an arena
    size_t rows_len;
    struct free_row total;
    uint32_t *devices; // those that are free or have something left
    size_t devices_len;
};

// free_find answers on a world. The answer lives in arena. Returns 0, -ERR_NOT_FOUND (no such class
// or node), or -ERR_INVALID (the expression does not compile, a device cannot be read).
int free_find(struct plan_world *w, const struct free_question *q, const struct features *features,
              struct arena *arena, struct inventory **ret_inventory, struct free_answer *ret,
              struct err *err) MUST_USE;

#endif

// SPDX-License-Identifier: Apache-2.0
//
// What a node is worth to the requests that are likely to come, and so what placing one there
// costs. Pure numbers: units (devices, or GPUs that are cut into partitions) of types the model
// cannot tell apart, each with so many thousandths left; processors and memory; requests seen
// lately, older ones counting less. docs/measurements/utilization.md has the idea. What makes
// numbers of nodes and claims is fleet.h.
//
// The worth of a node is the sum of four terms:
//   parts     what can still be cut from its units at the prices of worth_price.h, more where units
//             are wanted most (press),
//   company   for each kind of request, what its processors let be used of that,
//   scarcity  places for requests of several units, by how few there are for those that will come,
//   slots     the same for partitions of units that have fixed places: which of them are open.
//
// Bounded: types, groups, requests and families beyond the limits share the last one or push out
// what is wanted least. Deterministic: no clock, no randomness.
#ifndef ALLOC_FLEET_WORTH_H
#define ALLOC_FLEET_WORTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/fleet/worth_price.h"

#define WORTH_TYPES    64
#define WORTH_FAMILIES 4 // of types; each has prices of its own
#define WORTH_GROUPS   256
#define WORTH_REQUESTS 512
#define WORTH_UNITS    128 // of a node that are looked at
#define WORTH_SLOTS    64  // partitions of a unit that are distinguished

// Requests for the same number of units of the same parts, by pods of the same size.
struct worth_request {
    int64_t cpu;    // thousandths; of the pod, 0 for all but its first request
    int64_t memory; // bytes, likewise
    uint32_t num;
    uint16_t part[WORTH_TYPES]; // thousandths of a unit of each type; 0: it will not do
    // Slots that will do of each type that has a geometry.
    uint64_t slots[WORTH_TYPES];
};

// The partitions of a unit that has fixed places for them: a slot is one partition in one place.
struct worth_geometry {
    uint32_t n;
    uint64_t sign[WORTH_SLOTS];     // what distinguishes a slot from others
    uint64_t excludes[WORTH_SLOTS]; // slots that cannot be had beside it, itself too
};

struct worth_unit {
    uint8_t type;
    bool loose; // how much is left is an estimate
    uint16_t group;
    uint16_t left;
    uint16_t spare; // 0, so that units can be compared as bytes
    uint64_t fits;  // slots that are open; 0 without a geometry
    uint64_t taken; // slots in use
};

struct worth_state {
    int64_t cpu; // left
    int64_t memory;
    const struct worth_unit *units; // at most WORTH_UNITS
    uint32_t n;
};

struct worth;

struct worth *worth_new(void);
void worth_free(struct worth *w);

// worth_type numbers a kind of unit, by hashes of what is known about it and of its family.
uint8_t worth_type(struct worth *w, uint64_t kind, uint64_t family);
size_t worth_types(const struct worth *w);

// worth_geometry_of is that of a type, NULL when it has none; worth_set_geometry copies one.
const struct worth_geometry *worth_geometry_of(const struct worth *w, uint8_t type);
void worth_set_geometry(struct worth *w, uint8_t type, const struct worth_geometry *g);

// worth_slotted reports whether slots are requested.
bool worth_slotted(const struct worth *w);

// worth_group numbers units of a type that stand n on a node. worth_supply counts units of a group
// that come or go.
uint16_t worth_group(struct worth *w, uint8_t type, uint32_t n);
void worth_supply(struct worth *w, uint16_t group, int64_t units);

// worth_seen counts a request, known by a hash, so many times. Requests without units count, too:
// they take processors.
void worth_seen(struct worth *w, uint64_t hash, const struct worth_request *r, double times);

// worth_settle makes prices of what was seen, if enough has changed; true: they did. always: even
// if little has.
bool worth_settle(struct worth *w, bool always);

// worth_scarce is how scarce places for requests of several units are, given the places there are
// now: begin, worth_places for each state and the nodes that are in it, end. True: something
// changed that matters.
void worth_places_begin(struct worth *w);
void worth_places(struct worth *w, const struct worth_state *s, double nodes);
bool worth_places_end(struct worth *w);

// worth_of is the worth of a node in a state.
double worth_of(const struct worth *w, const struct worth_state *s);

// worth_price_of is what the units of a request cost at the least.
double worth_price_of(const struct worth *w, const struct worth_request *r);

// worth_press is how much units of a group are wanted, beside the least wanted.
double worth_press(const struct worth *w, uint16_t group);

// worth_fits reports whether a request finds its units, as far as the model can see; worth_refuses
// that it certainly does not.
bool worth_fits(const struct worth_state *s, const struct worth_request *r);
bool worth_refuses(const struct worth_state *s, const struct worth_request *r);

// worth_steps is how good a placement is, in whole steps; 0 is about what the units cost.
double worth_steps(double gain, double price);

// worth_loss ranks units by what one share of the request there would cost, from 0 on: equal ranks,
// as good as equal cost. UINT16_MAX: it does not fit.
void worth_loss(const struct worth *w, const struct worth_state *s, const struct worth_request *r,
                uint16_t rank[WORTH_UNITS]);

// worth_slot_loss is what taking a slot of a unit costs, the lower the better.
uint16_t worth_slot_loss(const struct worth *w, const struct worth_unit *u, uint32_t slot);

// worth_after is the worth of the node with all requests of a pod placed there, each share where it
// costs the least. False: the model sees no room for them.
bool worth_after(const struct worth *w, const struct worth_state *s,
                 const struct worth_request *requests, size_t n, double *ret);

#endif

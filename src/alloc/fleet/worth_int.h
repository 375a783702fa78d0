// SPDX-License-Identifier: Apache-2.0
//
// Data of worth*.c.
#ifndef ALLOC_FLEET_WORTH_INT_H
#define ALLOC_FLEET_WORTH_INT_H

#include "alloc/fleet/worth.h"

#define WORTH_SCARCE 64
#define WORTH_KINDS  64 // of slots that requests want

struct unit_type {
    uint64_t kind;
    uint8_t family;
};

struct unit_group {
    uint8_t type;
    uint32_t n;    // of the type on a node
    int64_t units; // on all nodes
    double press;
};

struct demand {
    uint64_t hash;
    struct worth_request request;
    double count;                   // in w->one
    double units;                   // that one of them takes
    uint16_t usual[WORTH_FAMILIES]; // part that it takes of most units there; 0: none
};

// Requests by how many processors a unit's worth needs.
struct company {
    double rate;
    double weight;
    double weights; // sums up to here
    double rates;
};

struct family {
    uint64_t hash;
    struct worth_prices prices;
    struct company company[WORTH_REQUESTS];
    size_t company_len;
    double unbounded; // weight of those that need no processors
    double total;
};

// A request of several units. What it asks for stands here again, close together: worth_of reads
// all.
struct scarce {
    uint32_t demand;
    uint32_t num;
    int64_t cpu;
    int64_t memory;
    uint64_t any;   // types that will do, one bit each
    uint64_t whole; // those of which it takes whole units
    double places;
    double value; // of a place
};

_Static_assert(WORTH_TYPES <= 64, "types are bits of scarce.any");

// Requests that want the same slots.
struct slot_kind {
    uint64_t slots[WORTH_TYPES];
    double count;
    double units; // that one takes
    double places;
    double value; // of a place
    double next;  // value being made
};

// What a unit with these slots in use will be worth, found out before. An entry is as good as its
// stamp; one that falls on the same place pushes it out.
#define SLOT_MEMO 4096
struct slot_memo {
    uint64_t taken;
    uint64_t shut;
    uint32_t stamp;
    uint32_t type;
    double worth;
};

// Partitions with fixed places (worth_slots.c).
struct worth_slots {
    struct worth_geometry *geometry[WORTH_TYPES]; // NULL: none
    struct slot_kind kinds[WORTH_KINDS];
    size_t kinds_len;
    double wanted; // units that all of them want
    struct slot_memo *memo;
    uint32_t stamp; // of the values
};

struct worth {
    struct unit_type types[WORTH_TYPES];
    size_t types_len;
    struct unit_group groups[WORTH_GROUPS];
    size_t groups_len;
    struct family families[WORTH_FAMILIES];
    size_t families_len;
    struct demand demands[WORTH_REQUESTS];
    size_t demands_len;
    struct scarce scarce[WORTH_SCARCE];
    size_t scarce_len;
    struct scarce counted[WORTH_SCARCE]; // being made
    size_t counted_len;
    struct worth_slots slots;
    double free_slotted; // units with a geometry, what is left of them
    double free_units;
    double free_cpu;  // thousandths, of all nodes
    double company;   // how much what processors allow counts
    double one;       // what a request counts that is seen now
    double seen;      // all in all
    double unsettled; // since the prices were made
    double scale;     // times counts: as if demand were what there is
    double wanted;    // by that scale
    bool supply_changed;
};

// A node's units in sum.
struct unit_sums {
    double value[WORTH_FAMILIES];
    double parts;
    double slots;
    uint32_t whole; // units of which nothing is used
    bool mixed;     // they are of several types
};

// worth_sums adds up the units of a node.
void worth_sums(const struct worth *w, const struct worth_state *s, struct unit_sums *ret);

// worth_slots counts how often a scarce request fits on a node, by units, processors and memory.
int64_t worth_slots(const struct worth *w, const struct worth_state *s, const struct unit_sums *m,
                    const struct scarce *r);

// --- worth_slots.c -------------------------------------------------------------------------------

// worth_slots_wanted reports whether a request is for slots. worth_slots_settle makes kinds of what
// is wanted. worth_slots_begin, worth_slots_count for each node and worth_slots_end find out how
// scarce places are; true: that changed.
bool worth_slots_wanted(const struct worth_request *r);
void worth_slots_settle(struct worth *w);
void worth_slots_begin(struct worth *w);
void worth_slots_count(struct worth *w, const struct worth_state *s, double nodes);
bool worth_slots_end(struct worth *w, bool always);

// worth_slots_worth is what the slots of a unit are worth. worth_slots_take takes for a request the
// slot that costs the least; some slot it wants must be open.
double worth_slots_worth(const struct worth *w, const struct worth_unit *u);
void worth_slots_take(const struct worth *w, struct worth_unit *u, const struct worth_request *r);

#endif

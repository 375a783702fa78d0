// SPDX-License-Identifier: Apache-2.0
//
// Data of fleet.c and fleet_view.c.
#ifndef ALLOC_FLEET_FLEET_INT_H
#define ALLOC_FLEET_FLEET_INT_H

#include "alloc/fleet.h"
#include "cel/cel.h"

// The units of nodes whose devices are in the same state, by the hash of that state.
struct fleet_units {
    uint64_t state;
    size_t nodes; // that have them
    uint32_t n;
    uint32_t devices;
    uint8_t *unit_of; // by device of the view; FLEET_NO_UNIT: none
    uint8_t *slot_of; // likewise: slot of its unit; FLEET_NO_SLOT: none
    bool partial;     // not everything is among the units
    bool told;        // the caller has set the state: nodes in it cannot be distinguished
    struct worth_unit units[WORTH_UNITS];
};

#define FLEET_NO_UNIT UINT8_MAX
#define FLEET_NO_SLOT UINT8_MAX

// fleet_units_read makes units of a view; NULL: there are none.
struct fleet_units *fleet_units_read(struct fleet *f, const struct alloc_view *view);
void fleet_units_free(struct fleet_units *u);

// fleet_units_supply counts units of nodes that come (1) or go (-1).
void fleet_units_supply(struct fleet *f, const struct fleet_units *u, int64_t sign);

// fleet_units_part finds what share of one device of this type a request takes, by a view that has
// one of that type; 0: it will not do. *ret_slots: slots of the unit that will do, if it has such.
// *loose: that is an estimate.
uint16_t fleet_units_part(struct fleet *f, const struct alloc_view *view, uint8_t type,
                          const struct api_device_request *r, uint64_t *ret_slots, bool *loose);

struct worth *fleet_model(struct fleet *f);
struct cel_run *fleet_run(struct fleet *f);
struct alloc_meter *fleet_meter(struct fleet *f);

#endif

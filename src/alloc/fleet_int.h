// SPDX-License-Identifier: Apache-2.0
//
// Data of fleet.c and fleet_view.c.
#ifndef ALLOC_FLEET_INT_H
#define ALLOC_FLEET_INT_H

#include "alloc/fleet.h"
#include "dray/cel.h"

struct node_entry {
    struct fleet_node pub;
    double worth;         // at worth_stamp
    uint32_t worth_stamp; // 0: not known
    uint32_t devices;
    uint8_t *unit_of; // by device of the view; FLEET_NO_UNIT: none
    uint8_t *slot_of; // likewise: slot of its unit; FLEET_NO_SLOT: none
    uint8_t look;     // by its state
    bool known;
    bool partial; // not everything on it is among the units
    struct worth_unit units[WORTH_UNITS];
};

#define FLEET_NO_UNIT UINT8_MAX
#define FLEET_NO_SLOT UINT8_MAX

// units_read fills in the units of a node from its view. False: nothing changed but amounts.
void units_read(struct fleet *f, struct node_entry *n, const struct alloc_view *view);

// units_part says what share of one device of this type a request takes, by a view that has one of
// that type; 0: it will not do. *ret_slots: slots of the unit that will do, if it has such. *loose:
// that is an estimate.
uint16_t units_part(struct fleet *f, const struct alloc_view *view, uint8_t type,
                    const struct api_device_request *r, uint64_t *ret_slots, bool *loose);

struct worth *fleet_model(struct fleet *f);
struct cel_run *fleet_run(struct fleet *f);

#endif

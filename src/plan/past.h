// SPDX-License-Identifier: Apache-2.0
//
// What happened to a device or a claim, from what a cluster still knows: times in the objects
// themselves, who wrote which fields last, conditions, taints, events.
#ifndef PLAN_PAST_H
#define PLAN_PAST_H

#include "base/vec.h"
#include "plan/inventory.h"

struct past_entry {
    struct moment at;
    int rank; // among those of the same second: most times are of whole seconds
    struct str what;
    struct str source; // where it is known from
};

// One that had a device, by the records of the device-history-controller.
struct past_holder {
    struct str device; // driver/pool/device
    struct str claim;  // namespace/name
    struct str pods;   // may be empty
    struct moment from, until;
    struct str end; // how it ended
};

// Zeroed, it is empty.
struct past {
    struct arena arena;
    struct str subject;                     // "claim default/a", "device gpu.example.com/n1/gpu-0"
    struct VEC(struct past_entry) entries;  // oldest first
    struct VEC(struct past_holder) holders; // that gave it up, oldest first
    struct VEC(struct str) unknown;         // what cannot be known, and why
};

void past_done(struct past *h);

// past_find gathers for NAMESPACE/NAME of a claim (with the prefix claim/), or for a device
// as inventory_find knows it. Names without a namespace are of the namespace given. Returns 0, or
// -ERR_NOT_FOUND, or -ERR_INVALID when several devices have the name.
int past_find(const struct inventory *inv, struct str name, struct str namespace, struct past *ret,
              struct err *err) MUST_USE;

#endif

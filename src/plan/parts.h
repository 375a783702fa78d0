// SPDX-License-Identifier: Apache-2.0
//
// An inventory that is kept from event to event. What a device's state depends on is its own pool:
// the slices, the claims that hold devices of it, the nodes that reach it. So each pool is a part
// with an inventory of its own; a change rebuilds only the parts that it affects, and the whole
// is put together of them. Classes do not matter to states and are not needed.
#ifndef PLAN_PARTS_H
#define PLAN_PARTS_H

#include "plan/inventory.h"

struct inventory_parts;

struct inventory_parts *inventory_parts_new(const struct alloc_features *features);
void inventory_parts_free(struct inventory_parts *p);

// inventory_parts_change takes a change of a Node, Pod, ResourceSlice, ResourceClaim or
// DeviceTaintRule in; others are left alone. before is NULL for an addition, after for a deletion.
// Objects are borrowed: after until it is `before` of a later change, and then until the next
// inventory_parts_update.
void inventory_parts_change(struct inventory_parts *p, const struct api_object *before,
                            const struct api_object *after);

// inventory_parts_update gives the inventory of all objects as they are now, which is p's and good
// until the next look. Returns 0 or as inventory_new.
int inventory_parts_update(struct inventory_parts *p, const struct inventory **ret,
                           struct err *err) MUST_USE;

#endif

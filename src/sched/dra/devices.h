// SPDX-License-Identifier: Apache-2.0
//
// The cluster's devices (alloc/index.h), fed with objects of the API. Private to src/sched.
#ifndef SCHED_DRA_DEVICES_H
#define SCHED_DRA_DEVICES_H

#include "alloc/index.h"
#include "client/client.h"

// devices_new makes an index that holds the objects it is given as long as it needs them.
struct index *devices_new(const struct alloc_features *features, enum alloc_policy policy);

// devices_object is an object as the index wants it; NULL: none.
static inline struct index_object devices_object(const struct typed_object *o)
{
    return o ? (struct index_object){o->object.value, o} : (struct index_object){0};
}

#endif

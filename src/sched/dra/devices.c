// SPDX-License-Identifier: Apache-2.0
//
// Binds the index of all devices (alloc/index.h) to the reference counts of typed objects.
#include "sched/dra/devices.h"

#include "base/banned.h"

static void devices_hold_object(const void *object)
{
    (void)typed_object_ref(object);
}

static void devices_release_object(const void *object)
{
    typed_object_unref(object);
}

struct index *devices_new(const struct alloc_features *features, enum alloc_policy policy)
{
    return index_new(&(struct index_options){.features = *features,
                                             .policy = policy,
                                             .keep = devices_hold_object,
                                             .drop = devices_release_object});
}

// SPDX-License-Identifier: Apache-2.0
#include "sched/dra/devices.h"

#include "base/banned.h"

static void keep(const void *object)
{
    (void)typed_object_ref(object);
}

static void drop(const void *object)
{
    typed_object_unref(object);
}

struct index *devices_new(const struct alloc_features *features, enum alloc_policy policy)
{
    return index_new(&(
        struct index_options){.features = *features, .policy = policy, .keep = keep, .drop = drop});
}

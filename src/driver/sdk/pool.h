// SPDX-License-Identifier: Apache-2.0
//
// A driver's pool as slices: from what drivers put together to typed specs, with taints put in and
// cut to the sizes the API allows.
#ifndef DRIVER_SDK_POOL_H
#define DRIVER_SDK_POOL_H

#include "api/api.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "dray/driver.h"

struct pool_specs VEC(struct api_resource_slice_spec); // in an arena

// pool_name is the pool's name, NULL for the node's own. pool_is_shared: its devices belong to no
// node.
const char *pool_name(const struct dray_pool *p);
bool pool_is_shared(const struct dray_pool *p);

// pool_make turns what a driver put together into specs without driver, pool and node. Returns 0,
// or -ERR_BAD_REQUEST or -ERR_INVALID with the field's path.
int pool_make(const struct dray_pool *p, struct arena *arena, struct pool_specs *ret,
              struct err *err) MUST_USE;

// pool_from_specs makes a pool of specs that exist; they are copied.
struct dray_pool *pool_from_specs(const char *name,
                                  const struct api_resource_slice_spec *const *specs, size_t n);

struct pool_taint {
    struct str device, key, value, effect;
};
struct pool_taints VEC(struct pool_taint);

// pool_taint_all adds taints to the devices that have them; one that is there is replaced by key.
void pool_taint_all(struct pool_specs *specs, const struct pool_taints *taints,
                    struct arena *arena);

// pool_split cuts slices with more devices or counter sets than the API allows.
void pool_split(struct pool_specs *specs, struct arena *arena);

// pool_combine puts counter sets into the slices of the devices that use them: Kubernetes 1.34 does
// not look for them in other slices.
void pool_combine(struct pool_specs *specs, struct arena *arena);

#endif

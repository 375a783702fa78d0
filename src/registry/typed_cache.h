// SPDX-License-Identifier: Apache-2.0
//
// Typed forms of the newest objects, by revision. A write leaves the form it was made from, so that
// a watcher in the same process and the next update of the object need not parse the stored text
// again. The cache outlives its registry as long as it is referenced. Any thread, unless stated
// otherwise.
#ifndef REGISTRY_TYPED_CACHE_H
#define REGISTRY_TYPED_CACHE_H

#include "api/typed_object.h"
#include "base/err.h"
#include "store/object.h"

struct typed_cache;

struct typed_cache *typed_cache_new(void);
struct typed_cache *typed_cache_ref(struct typed_cache *c);
void typed_cache_unref(struct typed_cache *c);

// typed_cache_get finds the typed form of o in the version as, or decodes it; one reference, the
// caller's. remember keeps a decoded form for others. NULL when the stored bytes are damaged.
struct typed_object *typed_cache_get(struct typed_cache *c, const struct object *o,
                                     const struct api_kind *as, bool remember, struct err *err);

// typed_cache_find is typed_cache_get without decoding: NULL when there is no typed form.
struct typed_object *typed_cache_find(struct typed_cache *c, const struct object *o,
                                      const struct api_kind *as);

// typed_cache_want counts the watches on a stored kind, and typed_cache_keep remembers what a
// stored object of a wanted kind was encoded from. Both on the registry's exec only.
void typed_cache_want(struct typed_cache *c, const struct api_kind *stored, bool more);
void typed_cache_keep(struct typed_cache *c, const struct object *o,
                      const struct api_object *object);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// A typed object in an arena of its own: immutable, shared by reference count, any thread. Clients
// receive these, caches keep them.
#ifndef API_TYPED_OBJECT_H
#define API_TYPED_OBJECT_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/api.h"
#include "base/arena.h"

struct typed_object {
    _Atomic uint32_t refs;
    uint64_t revision;
    struct api_object object;     // value lives in arena
    struct api_object_meta *meta; // of the object
    struct arena arena;
};

// typed_object_new makes an object with one reference around an empty arena: decode into it and set
// the rest.
struct typed_object *typed_object_new(void);

// typed_object_copy makes a copy of a typed value that takes no more memory than it needs. One
// reference, the caller's. bytes is what the value takes, for custom kinds alone.
struct typed_object *typed_object_copy(const struct api_object *from, size_t bytes,
                                       uint64_t revision);

// typed_object_ref and typed_object_unref take NULL. The last reference frees it, on any thread.
struct typed_object *typed_object_ref(const struct typed_object *o);
void typed_object_unref(const struct typed_object *o);

#endif

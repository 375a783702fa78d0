// SPDX-License-Identifier: Apache-2.0
//
// Shared typed objects: creation in an arena of exactly the right size, and reference counts.
// Informers keep these objects by the hundred thousand, so their arenas have no slack.
#include "api/typed_object.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

#include "base/banned.h"

struct typed_object *typed_object_new(void)
{
    struct typed_object *o = xcalloc(1, sizeof(*o));
    o->refs = 1;
    return o;
}

struct typed_object *typed_object_copy(const struct api_object *from, size_t bytes,
                                       uint64_t revision)
{
    const struct api_type *type = from->kind->type;
    struct typed_object *o = typed_object_new();
    arena_reserve(&o->arena, type->custom ? bytes + bytes / 8 + 64 : // a tree; its size is a guess
                                 api_copy_bytes(type, from->value));
    o->object.kind = from->kind;
    o->object.value = arena_alloc(&o->arena, type->size, _Alignof(max_align_t));
    api_copy(type, from->value, o->object.value, &o->arena);
    o->revision = revision;
    o->meta = api_object_meta(&o->object);
    return o;
}

struct typed_object *typed_object_ref(const struct typed_object *o)
{
    if (!o)
        return NULL;
    // Counting is the one thing that changes in a shared object.
    struct typed_object *shared = (struct typed_object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_add_explicit(&shared->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    return shared;
}

void typed_object_unref(const struct typed_object *o)
{
    if (!o)
        return;
    struct typed_object *shared = (struct typed_object *)(uintptr_t)o;
    uint32_t before = atomic_fetch_sub_explicit(&shared->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1)
        return;
    arena_done(&shared->arena);
    free(shared);
}

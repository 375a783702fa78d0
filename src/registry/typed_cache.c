// SPDX-License-Identifier: Apache-2.0
//
// A direct-mapped cache of typed objects by revision. A slot holds a reference to the stored object
// too, so that its address cannot be reused for another object while the slot refers to it.
#include "registry/typed_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/partial.h"
#include "base/mem.h"
#include "base/vec.h"
#include "registry/registry.h"

#include "base/banned.h"

#define TYPED_CACHE_SLOTS 256

struct typed_slot {
    const struct object *object;
    const struct api_kind *as;
    const struct typed_object *typed;
};

// How many watches follow a kind.
struct typed_demand {
    const struct api_kind *stored;
    size_t watches;
};

struct typed_cache {
    _Atomic uint32_t refs;
    struct VEC(struct typed_demand) demands; // the registry's exec only
    pthread_mutex_t lock;
    struct typed_slot slots[TYPED_CACHE_SLOTS]; // under the lock
};

static void typed_cache_lock(struct typed_cache *c)
{
    int r = pthread_mutex_lock(&c->lock);
    assert(r == 0);
}

static void typed_cache_unlock(struct typed_cache *c)
{
    int r = pthread_mutex_unlock(&c->lock);
    assert(r == 0);
}

struct typed_cache *typed_cache_new(void)
{
    struct typed_cache *c = xcalloc(1, sizeof(*c));
    int r = pthread_mutex_init(&c->lock, NULL);
    assert(r == 0);
    c->refs = 1;
    return c;
}

struct typed_cache *typed_cache_ref(struct typed_cache *c)
{
    uint32_t before = atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    return c;
}

static void typed_slot_done(struct typed_slot *slot)
{
    object_unref(slot->object);
    typed_object_unref(slot->typed);
}

void typed_cache_unref(struct typed_cache *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < TYPED_CACHE_SLOTS; i++)
        typed_slot_done(&c->slots[i]);
    int r = pthread_mutex_destroy(&c->lock);
    assert(r == 0);
    vec_done(&c->demands);
    free(c);
}

static struct typed_slot *typed_slot_of(struct typed_cache *c, const struct object *o)
{
    return &c->slots[o->revision % TYPED_CACHE_SLOTS];
}

static void typed_cache_put(struct typed_cache *c, const struct object *o,
                            const struct api_kind *as, const struct typed_object *typed)
{
    struct typed_slot *slot = typed_slot_of(c, o);
    struct typed_slot fresh = {object_ref(o), as, typed_object_ref(typed)};
    typed_cache_lock(c);
    struct typed_slot old = *slot;
    *slot = fresh;
    typed_cache_unlock(c);
    typed_slot_done(&old);
}

struct typed_object *typed_cache_find(struct typed_cache *c, const struct object *o,
                                      const struct api_kind *as)
{
    const struct typed_slot *slot = typed_slot_of(c, o);
    typed_cache_lock(c);
    struct typed_object *found =
        slot->object == o && slot->as == as ? typed_object_ref(slot->typed) : NULL;
    typed_cache_unlock(c);
    return found;
}

static struct typed_object *typed_cache_decode(const struct object *o, const struct api_kind *as,
                                               struct err *err)
{
    struct arena cleanup_arena scratch = {0};
    struct api_object read;
    if (registry_decode(o, as, &scratch, &read, err) < 0)
        return NULL;
    return typed_object_copy(&read, scratch.used_bytes, o->revision);
}

struct typed_object *typed_cache_get(struct typed_cache *c, const struct object *o,
                                     const struct api_kind *as, bool remember, struct err *err)
{
    if (api_kind_is_partial(as)) // lives as long as its watch and is not shared
        return typed_cache_decode(o, as, err);
    struct typed_object *typed = typed_cache_find(c, o, as);
    if (typed)
        return typed;
    typed = typed_cache_decode(o, as, err);
    if (typed && remember)
        typed_cache_put(c, o, as, typed);
    return typed;
}

// --- Writes --------------------------------------------------------------------------------------

static struct typed_demand *typed_cache_demand(struct typed_cache *c, const struct api_kind *stored)
{
    vec_foreach(&c->demands, d)
        if (d->stored == stored)
            return d;
    return NULL;
}

void typed_cache_want(struct typed_cache *c, const struct api_kind *stored, bool more)
{
    struct typed_demand *d = typed_cache_demand(c, stored);
    if (stored->custom) // typed_cache_keep leaves these out, and the kind may go away
        return;
    if (d) {
        assert(more || d->watches > 0);
        d->watches += more ? 1 : (size_t)-1;
    } else if (more) {
        vec_push(&c->demands, ((struct typed_demand){stored, 1}));
    }
}

// Sanitized builds check each typed form against the stored text: what a watcher receives must not
// depend on whether the object is still in the cache.
static bool typed_cache_agrees(const struct object *o, const struct typed_object *typed)
{
#ifdef DRAY_ASAN // set by the build
    struct arena cleanup_arena scratch = {0};
    struct api_object read;
    struct err err;
    return registry_decode(o, o->kind, &scratch, &read, &err) == 0 &&
           api_equal(o->kind->type, read.value, typed->object.value);
#else
    (void)o, (void)typed;
    return true;
#endif
}

void typed_cache_keep(struct typed_cache *c, const struct object *o,
                      const struct api_object *object)
{
    const struct typed_demand *d = typed_cache_demand(c, o->kind);
    // A custom object's content depends on the schema by which it is read.
    if (!d || d->watches == 0 || object->kind != o->kind || o->kind->custom)
        return;
    struct typed_object *typed = typed_object_copy(object, 0, o->revision);
    // Reading sets defaults from what was prepared after the first ones: labels of Jobs, for
    // example.
    api_default(o->kind->type, typed->object.value, &(struct api_default_options){0},
                &typed->arena);
    assert(typed_cache_agrees(o, typed));
    typed_cache_put(c, o, o->kind, typed);
    typed_object_unref(typed);
}

// SPDX-License-Identifier: Apache-2.0
//
// A direct-mapped cache by revision. A slot holds the stored object, too, so that its address cannot
// be taken for another's.
#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/partial.h"
#include "base/err.h"
#include "base/list.h"
#include "base/mem.h"
#include "client/local_int.h"

#include "base/banned.h"

#define HUB_SLOTS 256

struct hub_slot {
    const struct object *object;
    const struct api_kind *as;
    const struct client_object *decoded;
};

struct local_hub {
    struct list_node node;
    const struct registry *registry;
    size_t users; // under hubs_lock
    pthread_mutex_t lock;
    struct hub_slot slots[HUB_SLOTS];
};

// The hubs of the process, one for each registry that has local clients.
static pthread_mutex_t hubs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list hubs = {{&hubs.head, &hubs.head}};

static struct local_hub *find(const struct registry *registry)
{
    list_foreach(&hubs, n) {
        struct local_hub *h = list_entry(n, struct local_hub, node);
        if (h->registry == registry)
            return h;
    }
    return NULL;
}

struct local_hub *local_hub_get(const struct registry *registry)
{
    must_succeed(pthread_mutex_lock(&hubs_lock));
    struct local_hub *h = find(registry);
    if (!h) {
        h = xcalloc(1, sizeof(*h));
        h->registry = registry;
        must_succeed(pthread_mutex_init(&h->lock, NULL));
        list_push_back(&hubs, &h->node);
    }
    h->users++;
    must_succeed(pthread_mutex_unlock(&hubs_lock));
    return h;
}

static void hub_free(struct local_hub *h)
{
    for (size_t i = 0; i < HUB_SLOTS; i++) {
        object_unref(h->slots[i].object);
        client_object_unref(h->slots[i].decoded);
    }
    must_succeed(pthread_mutex_destroy(&h->lock));
    free(h);
}

void local_hub_put(struct local_hub *h)
{
    must_succeed(pthread_mutex_lock(&hubs_lock));
    bool last = --h->users == 0;
    if (last)
        list_remove(&h->node);
    must_succeed(pthread_mutex_unlock(&hubs_lock));
    if (last)
        hub_free(h);
}

// decode copies what it decoded into an arena of just the right size: informers keep these objects by
// the hundred thousand.
static struct client_object *decode(const struct object *o, const struct api_kind *as,
                                    struct err *err)
{
    struct arena cleanup_arena scratch = {0};
    struct api_object read;
    if (registry_decode(o, as, &scratch, &read, err) < 0)
        return NULL;
    struct client_object *decoded = client_object_new();
    arena_reserve(&decoded->arena, scratch.used_bytes + scratch.used_bytes / 8 + 64);
    decoded->object.kind = read.kind;
    decoded->object.value =
        arena_alloc(&decoded->arena, read.kind->type->size, _Alignof(max_align_t));
    api_copy(read.kind->type, read.value, decoded->object.value, &decoded->arena);
    decoded->revision = o->revision;
    decoded->meta = api_object_meta(&decoded->object);
    return decoded;
}

struct client_object *local_hub_decode(struct local_hub *h, const struct object *o,
                                       const struct api_kind *as, bool remember, struct err *err)
{
    struct hub_slot *slot = &h->slots[o->revision % HUB_SLOTS];
    if (api_kind_is_partial(as)) // which has an end, and nobody shares it
        return decode(o, as, err);
    must_succeed(pthread_mutex_lock(&h->lock));
    struct client_object *found =
        slot->object == o && slot->as == as ? client_object_ref(slot->decoded) : NULL;
    must_succeed(pthread_mutex_unlock(&h->lock));
    if (found)
        return found;
    found = decode(o, as, err);
    if (!found || !remember)
        return found;
    struct hub_slot fresh = {object_ref(o), as, client_object_ref(found)};
    must_succeed(pthread_mutex_lock(&h->lock));
    struct hub_slot old = *slot;
    *slot = fresh;
    must_succeed(pthread_mutex_unlock(&h->lock));
    object_unref(old.object);
    client_object_unref(old.decoded);
    return found;
}

// SPDX-License-Identifier: Apache-2.0
//
// The default StorageClass of `dray up`, created once.
#include "cmd/up/up_storage.h"

#include <stdio.h>

#include "api/storage.h"

#include "base/banned.h"

static bool has_default(struct registry *r, const struct api_kind *kind)
{
    struct store_walk walk = {.kind = registry_stored_kind(kind)};
    const struct api_storage_class *best = NULL;
    cleanup_arena struct arena arena = {0};
    if (store_walk_start(registry_store(r), &walk, NULL) < 0)
        return false;
    for (const struct object *o; (o = store_walk_next(registry_store(r), &walk));) {
        struct api_object class = {0};
        if (registry_decode(o, kind, &arena, &class, NULL) == 0)
            best = storage_default(best, class.value);
    }
    store_walk_done(&walk);
    return best != NULL;
}

static void up_storage_on_created(void *arg, const struct client_answer *a)
{
    (void)arg;
    if (a->code != 0 && a->code != -ERR_ALREADY_EXISTS && a->code != -ECANCELED)
        (void)fprintf(stderr, "dray up: StorageClass local: %s\n", a->err->msg);
}

void up_storage_start(struct registry *registry, struct client *client)
{
    const struct api_kind *kind = api_kind_find(STR("storage.k8s.io/v1"), STR("StorageClass"));
    if (has_default(registry, kind))
        return;
    struct api_str_entry is_default = {STR(STORAGE_DEFAULT_CLASS), STR("true")};
    struct api_storage_class class = {.metadata = {.name = STR("local"),
                                                   .annotations = {&is_default, 1}},
                                      .provisioner = STR(STORAGE_LOCAL),
                                      .reclaim_policy = STR("Delete"),
                                      .has_reclaim_policy = true,
                                      .volume_binding_mode = STR("WaitForFirstConsumer"),
                                      .has_volume_binding_mode = true};
    const struct api_object object = {kind, &class};
    api_set_type_meta(&object);
    client_create(client, &object, NULL, up_storage_on_created, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// Storage classes of claims and volumes, bindings between them, and the default class: shared by
// scheduler, controllers, admission and node.
#include "api/storage.h"

#include "api/api.h"
#include "api/match/claim.h"

#include "base/banned.h"

#define CLASS_BEFORE   "volume.beta.kubernetes.io/storage-class" // older than the field
#define DEFAULT_BEFORE "storageclass.beta.kubernetes.io/is-default-class"

// The older annotation counts before the field, also when it names no class.
static struct str storage_class_name(const struct api_object_meta *meta, struct str field)
{
    const struct str *before = api_map_find(&meta->annotations, STR(CLASS_BEFORE));
    return before ? *before : field;
}

struct str volume_class(const struct api_persistent_volume *volume)
{
    return storage_class_name(&volume->metadata, volume->spec.storage_class_name);
}

struct str volume_claim_class(const struct api_persistent_volume_claim *claim)
{
    return storage_class_name(&claim->metadata, claim->spec.storage_class_name);
}

bool volume_claim_names_class(const struct api_persistent_volume_claim *claim)
{
    return claim->spec.has_storage_class_name ||
           (api_map_find(&claim->metadata.annotations, STR(CLASS_BEFORE)) != NULL);
}

bool volume_is_bound(const struct api_persistent_volume_claim *claim)
{
    return claim->spec.volume_name.n &&
           (api_map_find(&claim->metadata.annotations, STR(STORAGE_BIND_COMPLETED)) != NULL);
}

bool volume_is_for(const struct api_persistent_volume *volume,
                   const struct api_persistent_volume_claim *claim)
{
    const struct api_object_reference *r = volume->spec.claim_ref;
    return r && str_eq(r->name, claim->metadata.name) &&
           str_eq(r->namespace, claim->metadata.namespace) &&
           (!r->uid.n || str_eq(r->uid, claim->metadata.uid));
}

const struct api_storage_class *storage_default(const struct api_storage_class *best,
                                                const struct api_storage_class *class)
{
    if (!str_eqz(meta_annotation(&class->metadata, STR(STORAGE_DEFAULT_CLASS)), "true") &&
        !str_eqz(meta_annotation(&class->metadata, STR(DEFAULT_BEFORE)), "true"))
        return best;
    int order = best ? moment_cmp(class->metadata.creation_timestamp.at,
                                  best->metadata.creation_timestamp.at)
                     : 1;
    bool wins = order > 0 || (order == 0 && str_cmp(class->metadata.name, best->metadata.name) < 0);
    return wins ? class : best;
}

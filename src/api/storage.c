// SPDX-License-Identifier: Apache-2.0
#include "api/storage.h"

#include "api/pod_claims.h"

#include "base/banned.h"

#define CLASS_BEFORE   "volume.beta.kubernetes.io/storage-class" // older than the field
#define DEFAULT_BEFORE "storageclass.beta.kubernetes.io/is-default-class"

static bool has_annotation(const struct api_object_meta *meta, struct str key)
{
    for (size_t i = 0; i < meta->annotations.n; i++)
        if (str_eq(meta->annotations.p[i].key, key))
            return true;
    return false;
}

// The older annotation counts before the field, also when it says that there is no class.
static struct str class_of(const struct api_object_meta *meta, struct str field)
{
    return has_annotation(meta, STR(CLASS_BEFORE)) ? meta_annotation(meta, STR(CLASS_BEFORE))
                                                   : field;
}

struct str volume_class(const struct api_persistent_volume *volume)
{
    return class_of(&volume->metadata, volume->spec.storage_class_name);
}

struct str volume_claim_class(const struct api_persistent_volume_claim *claim)
{
    return class_of(&claim->metadata, claim->spec.storage_class_name);
}

bool volume_claim_names_class(const struct api_persistent_volume_claim *claim)
{
    return claim->spec.has_storage_class_name ||
           has_annotation(&claim->metadata, STR(CLASS_BEFORE));
}

bool volume_is_bound(const struct api_persistent_volume_claim *claim)
{
    return claim->spec.volume_name.n &&
           has_annotation(&claim->metadata, STR(STORAGE_BIND_COMPLETED));
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

// SPDX-License-Identifier: Apache-2.0
//
// Binding of PersistentVolumeClaims and PersistentVolumes. Private to volume*.c.
#ifndef CTL_VOLUME_VOLUME_INT_H
#define CTL_VOLUME_VOLUME_INT_H

#include "api/meta.h"
#include "api/storage.h"
#include "ctl/core/ctl_int.h"
#include "ctl/gc/gone.h"

struct volume_ctl {
    struct ctl *ctl;
    struct work *work; // keys: c/NAMESPACE/NAME of claims, v/NAME of volumes
    struct event_recorder *events;
    struct list calls;
    struct gone gone;  // claims
    size_t claims_by;  // index: class/NAME unbound ones, volume/NAME those that name a volume
    size_t volumes_by; // index: class/NAME, claim/NAMESPACE/NAME by their claimRef
};

CTL_VIEW(storage_claim, api_persistent_volume_claim)
CTL_VIEW(volume, api_persistent_volume)
CTL_VIEW(storage_class, api_storage_class)

// A step ends with one of these, or with work_done.

void volume_claim_step(struct volume_ctl *c, struct str key, const struct typed_object *o);
void volume_step(struct volume_ctl *c, struct str key, const struct typed_object *o);

// volume_provision sees to it that a volume is made for a claim that none fits.
void volume_provision(struct volume_ctl *c, struct str key, const struct typed_object *claim);

// volume_write writes an object as it is in value, a copy of a cached one; volume_write_status its
// status.
void volume_write(struct volume_ctl *c, struct str key, enum ctl_cache which, void *value);
void volume_write_status(struct volume_ctl *c, struct str key, enum ctl_cache which, void *value);

// volume_set_phase writes another phase of a volume.
void volume_set_phase(struct volume_ctl *c, struct str key, const struct typed_object *volume,
                      struct str phase, struct str message);

// volume_tell records an event about a claim or a volume.
void volume_tell(struct volume_ctl *c, const struct typed_object *about, struct str type,
                 const char *reason, const char *text);

// volume_match is the volume that an unbound claim should have: one that is reserved for it, else,
// unless a pod decides (delayed), the smallest that fits. NULL: there is none.
const struct typed_object *volume_match(struct volume_ctl *c,
                                        const struct api_persistent_volume_claim *claim,
                                        bool delayed);

// volume_misfit explains why a claim cannot have the volume that it names; NULL: it can.
const char *volume_misfit(const struct api_persistent_volume *volume,
                          const struct api_persistent_volume_claim *claim);

#endif

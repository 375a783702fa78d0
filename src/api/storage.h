// SPDX-License-Identifier: Apache-2.0
//
// PersistentVolumeClaims and PersistentVolumes: what scheduler, controllers, admission and agent
// must read the same way.
#ifndef API_STORAGE_H
#define API_STORAGE_H

#include <stdbool.h>

#include "api/types.h"

// Annotations, and the provisioner that there is none.
#define STORAGE_SELECTED_NODE       "volume.kubernetes.io/selected-node"
#define STORAGE_BIND_COMPLETED      "pv.kubernetes.io/bind-completed"
#define STORAGE_BOUND_BY_CONTROLLER "pv.kubernetes.io/bound-by-controller"
#define STORAGE_PROVISIONED_BY      "pv.kubernetes.io/provisioned-by"
#define STORAGE_DEFAULT_CLASS       "storageclass.kubernetes.io/is-default-class"
#define STORAGE_NO_PROVISIONER      "kubernetes.io/no-provisioner"

// dray's own provisioner: folders on the node where the first pod of a claim runs. A class may say
// where in its parameter.
#define STORAGE_LOCAL        "dray.dev/local"
#define STORAGE_LOCAL_PATH   "path"
#define STORAGE_LOCAL_FOLDER "/var/lib/dray/volumes"

// volume_class is the name of a volume's StorageClass, volume_claim_class that of a claim's; empty:
// none.
struct str volume_class(const struct api_persistent_volume *volume);
struct str volume_claim_class(const struct api_persistent_volume_claim *claim);

// volume_claim_names_class: the claim names a class, possibly none ("").
bool volume_claim_names_class(const struct api_persistent_volume_claim *claim);

// volume_is_bound: the claim has its volume for good.
bool volume_is_bound(const struct api_persistent_volume_claim *claim);

// volume_is_for: the volume is the claim's, by its claimRef.
bool volume_is_for(const struct api_persistent_volume *volume,
                   const struct api_persistent_volume_claim *claim);

// storage_default is which of two classes claims get that name none; best may be NULL, and stays
// unless class asks for it. The newest counts, among those of one moment the first by name.
const struct api_storage_class *storage_default(const struct api_storage_class *best,
                                                const struct api_storage_class *class);

#endif

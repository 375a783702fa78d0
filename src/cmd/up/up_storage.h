// SPDX-License-Identifier: Apache-2.0
//
// Storage of 'dray up': a default StorageClass, so that claims that name none get a volume.
#ifndef CMD_UP_UP_STORAGE_H
#define CMD_UP_UP_STORAGE_H

#include "client/client.h"
#include "registry/registry.h"

// up_storage_start makes the StorageClass local of dray's own provisioner, unless the cluster has a
// default one.
void up_storage_start(struct registry *registry, struct client *client);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// What pods need, by node: the secrets, config maps, claims, volumes and accounts that the pods of
// a node name. The node authorizer asks it. Counted, not stored: an edge is a text "what
// namespace/name node" and how many pods make it; what a pod made is worked out again from its last
// version when it changes or goes.
#ifndef SERVER_AUTH_KINSHIP_H
#define SERVER_AUTH_KINSHIP_H

#include <stdbool.h>

#include "api/api.h"
#include "api/pod_kin.h"
#include "store/store.h"

struct kinship;

// kinship_new follows the pods and volumes of a store, from its exec.
struct kinship *kinship_new(struct store *store);
void kinship_free(struct kinship *k);

// kinship_has: a pod on node needs this object, itself or by way of its volume.
bool kinship_has(const struct kinship *k, enum kin kin, struct str namespace, struct str name,
                 struct str node);

// kinship_has_volume: the volume is bound to a claim that a pod on node needs.
bool kinship_has_volume(const struct kinship *k, const struct api_persistent_volume *volume,
                        struct str node);

#endif

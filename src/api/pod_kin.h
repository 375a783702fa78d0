// SPDX-License-Identifier: Apache-2.0
//
// What a pod names: secrets, config maps, claims, accounts, as upstream's visitors find them. Who
// may read them, and which pods must not name any, depends on it.
#ifndef API_POD_KIN_H
#define API_POD_KIN_H

#include <stdbool.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/str.h"

enum kin {
    KIN_SECRET,
    KIN_CONFIG_MAP,
    KIN_VOLUME_CLAIM,
    KIN_RESOURCE_CLAIM,
    KIN_ACCOUNT,
};

// kin_of_pod calls fn for everything that a pod names, in its own namespace; some things several
// times.
typedef void (*kin_fn)(void *arg, enum kin kin, struct str name);
void kin_of_pod(const struct api_pod *pod, struct arena *arena, kin_fn fn, void *arg);

// pod_is_mirror: it mirrors a static pod of its node.
bool pod_is_mirror(const struct api_pod *pod);

// pod_asks_api: the pod cannot run without the API; *ret is upstream's word for what it names.
bool pod_asks_api(const struct api_pod *pod, struct str *ret);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The claims a node has to do with: which pods use each, which drivers have a part in it, and what they
// answered. Data alone; who changes it when is the manager's business.
#ifndef AGENT_CLAIMS_H
#define AGENT_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>

#include "api/types.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "driver/plugin_api.h"

#define CLAIM_SKIP_ALL       "*"
#define CLAIM_SKIP_PREPARE   "NodePrepareResources"
#define CLAIM_SKIP_UNPREPARE "NodeUnprepareResources"

struct claim_devices VEC(struct plugin_device);
struct claim_texts VEC(struct str);
struct claim_pods VEC(char *); // UIDs, sorted

// A driver's part in a claim.
struct claim_driver {
    struct str name;
    struct claim_devices devices; // as the driver answered; in arena, as their texts
    struct claim_texts skips;     // node operations that it does not need, sorted
    struct arena arena;           // of devices
};

struct claim_drivers VEC(struct claim_driver); // sorted by name

struct claim {
    struct str key; // namespace/name
    struct str namespace, name, uid;
    struct claim_pods pods;
    struct claim_drivers drivers;
    bool prepared;    // by this process, by all its drivers
    bool unpreparing; // takes no more pods
    bool stale;       // what the checkpoint said of devices is not believed
    struct arena arena;
};

struct claims_map MAP(struct claim *);

struct claims {
    struct claims_map by_key;
};

void claims_done(struct claims *c);

// claims_find is a claim by namespace and name, or NULL.
struct claim *claims_find(const struct claims *c, struct str namespace, struct str name);

// claims_add takes a claim over; there must be none of its key.
void claims_add(struct claims *c, struct claim *claim);
// claims_take takes one out; the caller owns it.
struct claim *claims_take(struct claims *c, struct claim *claim);
void claim_free(struct claim *claim);

// claim_new makes a claim without pods and drivers. Texts are copied.
struct claim *claim_new(struct str namespace, struct str name, struct str uid);

// claim_from_api makes one from an allocated ResourceClaim: every driver with a result has a part in
// it; what all results of a driver skip, the driver skips. Returns 0 or -ERR_INVALID (not allocated, or
// something is skipped and skips_allowed is false).
int claim_from_api(const struct api_resource_claim *from, bool skips_allowed, struct claim **ret,
                   struct err *err) MUST_USE;

// claim_driver_add finds a driver's part or adds an empty one. claim_driver_remove takes one away.
struct claim_driver *claim_driver_add(struct claim *claim, struct str name);
struct claim_driver *claim_driver_find(const struct claim *claim, struct str name);
bool claim_driver_remove(struct claim *claim, struct str name);
bool claim_driver_skips(const struct claim_driver *d, const char *operation);

// claim_driver_set replaces the devices of a driver; copies.
void claim_driver_set(struct claim_driver *d, const struct plugin_device *devices, size_t n);

// claim_pod_add says whether the pod is new; claim_pod_remove whether it was there.
bool claim_pod_add(struct claim *claim, struct str uid);
bool claim_pod_remove(struct claim *claim, struct str uid);
bool claim_pod_has(const struct claim *claim, struct str uid);

// claims_use says whether any claim is used by the pod.
bool claims_use(const struct claims *c, struct str pod_uid);

#endif

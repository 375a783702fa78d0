// SPDX-License-Identifier: Apache-2.0
//
// The claims a node has to do with: which pods use each, which drivers have a part in it, and what
// they answered. Data alone; who changes it when is the manager's business.
#ifndef NODE_DRA_CLAIMS_H
#define NODE_DRA_CLAIMS_H

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

struct node_claim_devices VEC(struct plugin_device);
struct node_claim_texts VEC(struct str);
struct node_claim_pods VEC(char *); // UIDs, sorted

// A driver's part in a claim.
struct node_claim_driver {
    struct str name;
    struct node_claim_devices devices; // as the driver answered; in arena, as their texts
    struct node_claim_texts skips;     // node operations that it does not need, sorted
    struct arena arena;                // of devices
};

struct node_claim_drivers VEC(struct node_claim_driver); // sorted by name

struct node_claim {
    struct str key; // namespace/name
    struct str namespace, name, uid;
    struct node_claim_pods pods;
    struct node_claim_drivers drivers;
    bool prepared;    // by this process, by all its drivers
    bool unpreparing; // takes no more pods
    bool stale;       // the devices in the checkpoint are not trusted
    struct arena arena;
};

struct node_claims_map MAP(struct node_claim *);

struct node_claims {
    struct node_claims_map by_key;
};

void node_claims_done(struct node_claims *c);

// node_claims_find is a claim by namespace and name, or NULL.
struct node_claim *node_claims_find(const struct node_claims *c, struct str namespace,
                                    struct str name);

// node_claims_add takes a claim over; there must be none of its key.
void node_claims_add(struct node_claims *c, struct node_claim *claim);
// node_claims_take takes one out; the caller owns it.
struct node_claim *node_claims_take(struct node_claims *c, struct node_claim *claim);
void node_claim_free(struct node_claim *claim);

// node_claim_new makes a claim without pods and drivers. Texts are copied.
struct node_claim *node_claim_new(struct str namespace, struct str name, struct str uid);

// node_claim_from_api makes one from an allocated ResourceClaim: every driver with a result has a
// part in it; what all results of a driver skip, the driver skips. Returns 0 or -ERR_INVALID (not
// allocated, or something is skipped and skips_allowed is false).
int node_claim_from_api(const struct api_resource_claim *from, bool skips_allowed,
                        struct node_claim **ret, struct err *err) MUST_USE;

// node_claim_driver_add finds a driver's part or adds an empty one. node_claim_driver_remove takes
// one away.
struct node_claim_driver *node_claim_driver_add(struct node_claim *claim, struct str name);
struct node_claim_driver *node_claim_driver_find(const struct node_claim *claim, struct str name);
bool node_claim_driver_remove(struct node_claim *claim, struct str name);
bool node_claim_driver_skips(const struct node_claim_driver *d, const char *operation);

// node_claim_driver_set replaces the devices of a driver; copies.
void node_claim_driver_set(struct node_claim_driver *d, const struct plugin_device *devices,
                           size_t n);

// node_claim_pod_add returns whether the pod is new; node_claim_pod_remove whether it was known.
bool node_claim_pod_add(struct node_claim *claim, struct str uid);
bool node_claim_pod_remove(struct node_claim *claim, struct str uid);
bool node_claim_pod_has(const struct node_claim *claim, struct str uid);

// node_claims_use: the pod uses a claim.
bool node_claims_use(const struct node_claims *c, struct str pod_uid);

#endif

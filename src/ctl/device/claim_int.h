// SPDX-License-Identifier: Apache-2.0
//
// The claim controller's parts: claim.c decides what to look at, claim_pod.c makes claims for pods
// and groups, claim_sync.c releases and removes claims. Private to src/ctl.
//
// Keys: p/NAMESPACE/NAME a pod, g/… a PodGroup, c/… a claim.
#ifndef CTL_DEVICE_CLAIM_INT_H
#define CTL_DEVICE_CLAIM_INT_H

#include "api/match/claim.h"
#include "base/map.h"
#include "ctl/core/ctl_int.h"
#include "ctl/gc/gone.h"

struct key_set MAP(char *); // values own the keys

struct claim_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    bool groups;               // the gate of claims for PodGroups
    size_t pods_by_claim;      // index: NAMESPACE/CLAIM
    size_t pods_by_template;   // NAMESPACE/TEMPLATE
    size_t pods_by_group;      // NAMESPACE/GROUP
    size_t groups_by_template; // NAMESPACE/TEMPLATE
    size_t claims_by_owner;    // UID of the controller
    struct key_set freed;      // claims deallocated here that still have the finalizer
    struct key_set left;       // claims that a consumer has just given up
    struct gone gone;          // pods and groups
    uint64_t created, create_failures;
};

// The consumer that claims are made for.
struct consumer {
    bool group; // else a pod
    const struct typed_object *object;
    const struct api_object_meta *meta;
};

void claim_step_pod(struct claim_ctl *c, struct str key, struct str namespace, struct str name);
void claim_step_group(struct claim_ctl *c, struct str key, struct str namespace, struct str name);
void claim_step_claim(struct claim_ctl *c, struct str key, struct str namespace, struct str name);

// claim_forget_all frees what claim_step_claim keeps.
void claim_forget_all(struct claim_ctl *c);

// claim_find_pod_group is the pod's PodGroup, NULL when it has none or the cache lacks it.
const struct api_pod_group *claim_find_pod_group(const struct claim_ctl *c,
                                                 const struct api_pod *pod);

// claim_forget drops what is remembered of a claim (a key).
void claim_forget(struct claim_ctl *c, struct str key);

// claim_remember_left notes that a consumer of a claim (a key) is over or was taken out of
// reservedFor.
void claim_remember_left(struct claim_ctl *c, struct str key);

// claim_is_wanted reports whether a pod that is not over names the claim, or owns it.
bool claim_is_wanted(const struct claim_ctl *c, const struct api_resource_claim *claim);

#endif

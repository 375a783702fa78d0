// SPDX-License-Identifier: Apache-2.0
//
// Which claim does an entry of a pod mean, and whose is it? What the scheduler and the controllers
// must agree on.
#ifndef API_POD_CLAIMS_H
#define API_POD_CLAIMS_H

#include <stdbool.h>

#include "api/meta.h"
#include "api/types.h"
#include "base/str.h"

#define CLAIM_FINALIZER      "resource.kubernetes.io/delete-protection"
#define CLAIM_POD_ANNOTATION "resource.kubernetes.io/pod-claim-name"
#define CLAIM_EXTENDED       "resource.kubernetes.io/extended-resource-claim"

// Of a claim that is reserved for a PodGroup: the version on which a scheduler built that found it so.
#define CLAIM_RELIED_ON "dray.dev/relied-on"

// Of a PodGroup: it stays as long as pods that are not over name it.
#define GROUP_FINALIZER "scheduling.k8s.io/podgroup-protection"

enum claim_name {
    CLAIM_NAMED,       // *ret is its name
    CLAIM_NOT_CREATED, // from a template, not made yet
    CLAIM_NOT_NEEDED,  // the status says that there is none
    CLAIM_UNSUPPORTED, // neither name nor template
};

// claim_name_of finds the claim of an entry of pod->spec.resourceClaims; *ret_check says whether its
// owner must be checked.
enum claim_name claim_name_of(const struct api_pod *pod, const struct api_pod_resource_claim *entry,
                              struct str *ret, bool *ret_check);

// claim_is_for says whether a claim that was made from a template belongs to the pod, or (groups) to
// its PodGroup.
bool claim_is_for(const struct api_resource_claim *claim, const struct api_pod *pod, bool groups);

// claim_is_extended: a scheduler made it for a pod's extended resources.
bool claim_is_extended(const struct api_object_meta *meta);

// pod_resource_is_claimed: a container's extended resource is given by a claim, not by the node.
bool pod_resource_is_claimed(const struct api_pod *pod, struct str container, struct str resource);

// pod_is_terminal: it ran and is over. pod_is_done: it uses no claim any more, or never will.
bool pod_is_terminal(const struct api_pod *pod);
bool pod_is_done(const struct api_pod *pod);

// claim_is_reserved_for looks for a consumer by UID.
bool claim_is_reserved_for(const struct api_resource_claim *claim, struct str uid);

// pod_group_name is the name of the PodGroup that a pod belongs to, empty when it has none.
struct str pod_group_name(const struct api_pod *pod);

// pod_entry_is_of_group: the group has the same entry, so its claim is the group's. group may be NULL.
bool pod_entry_is_of_group(const struct api_pod_group *group,
                           const struct api_pod_resource_claim *entry);

// group_is_controller: an owner reference to a PodGroup of any version.
bool group_is_controller(const struct api_owner_reference *owner);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' rules about pods and their claims: which claim an entry of a pod means, whose it is,
// for whom it is reserved, and when a pod needs it no more. The one place of these rules: the
// scheduler, the controllers, the agent and the server must agree on them.
#ifndef API_MATCH_CLAIM_H
#define API_MATCH_CLAIM_H

#include <stdbool.h>

#include "api/meta.h"
#include "api/types.h"
#include "base/str.h"

#define CLAIM_FINALIZER      "resource.kubernetes.io/delete-protection"
#define CLAIM_POD_ANNOTATION "resource.kubernetes.io/pod-claim-name"
#define CLAIM_EXTENDED       "resource.kubernetes.io/extended-resource-claim"

// Of a claim that is reserved for a PodGroup: the version on which a scheduler built that found it
// so.
#define CLAIM_RELIED_ON "dray.dev/relied-on"

// Of a PodGroup: it stays as long as pods that are not over name it.
#define GROUP_FINALIZER "scheduling.k8s.io/podgroup-protection"

enum claim_name {
    CLAIM_NAMED,       // *ret is its name
    CLAIM_NOT_CREATED, // from a template, not made yet
    CLAIM_NOT_NEEDED,  // the status records that there is none
    CLAIM_UNSUPPORTED, // neither name nor template
};

// claim_name_of finds the claim of an entry of pod->spec.resourceClaims; *ret_check reports whether
// its owner must be checked.
enum claim_name claim_name_of(const struct api_pod *pod, const struct api_pod_resource_claim *entry,
                              struct str *ret, bool *ret_check);

// claim_is_for reports whether a claim that was made from a template belongs to the pod, or
// (groups) to its PodGroup. One of another namespace never does.
bool claim_is_for(const struct api_resource_claim *claim, const struct api_pod *pod, bool groups);

// claim_is_extended: a scheduler made it for a pod's extended resources.
bool claim_is_extended(const struct api_object_meta *meta);

// pod_resource_is_claimed: a container's extended resource is given by a claim, not by the node.
bool pod_resource_is_claimed(const struct api_pod *pod, struct str container, struct str resource);

// pod_is_terminal: it ran and is over, Succeeded or Failed; pod_phase_is_final is the same of a
// phase. pod_is_done: it uses no claim any more, or never will.
bool pod_phase_is_final(struct str phase);
bool pod_is_terminal(const struct api_pod *pod);
bool pod_is_done(const struct api_pod *pod);

// claim_is_reserved_for looks for a consumer by UID. claim_is_reserved_for_pod: the consumer is the
// pod or (groups) its PodGroup, of which a pod knows the name alone.
bool claim_is_reserved_for(const struct api_resource_claim *claim, struct str uid);
bool claim_is_reserved_for_pod(const struct api_resource_claim *claim, const struct api_pod *pod,
                               bool groups);

// claim_device_condition is what a driver has reported of an allocated device; NULL: nothing yet.
const struct api_condition *claim_device_condition(
    const struct api_resource_claim *claim, const struct api_device_request_allocation_result *r,
    struct str type);

// consumer_is_pod and consumer_is_group: what a reference in status.reservedFor is to. There may be
// others, which count as in use for ever.
bool consumer_is_pod(const struct api_resource_claim_consumer_reference *r);
bool consumer_is_group(const struct api_resource_claim_consumer_reference *r);

// consumer_reference_to is a reference to a pod, or (group) to a PodGroup.
struct api_resource_claim_consumer_reference consumer_reference_to(
    const struct api_object_meta *meta, bool group);

// claim_is_surplus: a claim for extended resources whose pod was bound with another one, or with
// none. pod is the claim's controller; it may be NULL.
bool claim_is_surplus(const struct api_resource_claim *claim, const struct api_pod *pod);

// pod_group_name is the name of the PodGroup that a pod belongs to, empty when it has none.
struct str pod_group_name(const struct api_pod *pod);

// pod_entry_is_of_group: the group has the same entry, so its claim is the group's. group may be
// NULL.
bool pod_entry_is_of_group(const struct api_pod_group *group,
                           const struct api_pod_resource_claim *entry);

// group_is_controller: an owner reference to a PodGroup of any version.
bool group_is_controller(const struct api_owner_reference *owner);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The store's content, typed, for those who judge it.
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "alloc/alloc.h"
#include "sim.h"

struct objects VEC(const void *);

enum loaded {
    LOADED_PODS,
    LOADED_NODES,
    LOADED_CLAIMS,
    LOADED_TEMPLATES,
    LOADED_CLASSES,
    LOADED_SLICES,
    LOADED_RULES,
    LOADED_GROUPS,
    LOADED,
};

struct content {
    struct sim *s;
    struct arena arena;
    struct objects lists[LOADED];
    bool at_rest; // faults are over and everything has had its time
    bool all;     // allocations count whether a pod runs with them or not
};

void content_load(struct content *c, struct sim *s);
void content_done(struct content *c);

const struct api_resource_claim *content_claim(const struct content *c, struct str namespace,
                                               struct str name);
const struct api_pod *content_pod_of(const struct content *c, struct str uid);

const struct api_pod_group *content_group(const struct content *c, struct str namespace,
                                          struct str name);

// content_user is a pod on a node that a consumer of a claim means: the pod itself, or one of the
// group that names the claim. NULL: none.
const struct api_pod *content_user(const struct content *c, const struct api_resource_claim *claim,
                                   const struct api_resource_claim_consumer_reference *r);

// is_reserved: for the pod, or for its group.
bool is_reserved(const struct api_resource_claim *claim, const struct api_pod *pod);

// content_names: the pod names the claim.
bool content_names(const struct api_pod *pod, struct str claim);

// --- groups.c --------------------------------------------------------------------------------------

// gang_min is how many pods must run at once; 1 for other groups.
size_t gang_min(const struct api_pod_group *group);

// groups_note remembers what gangs have become; groups_check_end looks at it at the end.
void groups_note(struct content *c);
void groups_check_end(struct content *c);

// groups_must_wait: the pod is one of a gang that does not run, and whose pods are judged together.
bool groups_must_wait(const struct content *c, const struct api_pod *pod);

// losses_check_end: no gang keeps devices without running.
void losses_check_end(struct content *c);

// --- rest.c ----------------------------------------------------------------------------------------

// Whether the pod, were others placed as they are, could be on a node; with the node's place in the
// list.
struct claims VEC(const struct api_resource_claim *);
bool content_gather(struct content *c, const struct api_pod *pod, struct claims *open,
                    struct claims *held);
bool content_has_room(const struct content *c, const struct api_pod *pod,
                      const struct api_node *node);
struct alloc_input content_input(const struct content *c);

// claim_readiness looks at the binding conditions of a claim that has devices.
enum readiness { CLAIM_READY, CLAIM_WAITS, CLAIM_FAILED };
enum readiness claim_readiness(const struct api_resource_claim *claim);

// is_known: the UID was noted when calm came.
bool is_known(const struct sim *s, struct str uid);

// uses_extended: the pod runs with a claim that was made for its extended resources.
bool uses_extended(const struct api_pod *pod, const struct api_resource_claim *claim);

// content_check looks at what must hold at any time.
void content_check(struct content *c);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The store's content, typed, for those who judge it.
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

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

// SPDX-License-Identifier: Apache-2.0
//
// Pods that look around: what is visible in a container is printed by it and read from its log.
#ifndef LAB_CONFORM_PODS_H
#define LAB_CONFORM_PODS_H

#include "base/vec.h"
#include "lab/conform/session.h"

struct lines VEC(struct str);

// What a pod is to be.
struct wish {
    const char *name;
    const char *template_name; // of the claim; NULL: none
    const char *claim_name;    // instead: a claim that exists
    bool second;               // a second container, that does not name the claim
    bool stays;                // goes on after it has looked around
    const char *node;          // NULL: any
    const char *group;         // PodGroup; NULL: none
    const char *selector;      // JSON of a nodeSelector; NULL: none
};

enum pod_end {
    POD_DONE,    // it ended well, or runs and stays
    POD_FAILED,  // it ended badly, or cannot be started
    POD_WAITING, // it was not placed, or did not get ready in time
    POD_STOPPED, // interrupted
};

// pod_make creates a pod. Returns 0 or -1: said.
int pod_make(struct session *s, const struct wish *w);

// pod_await waits until it has come where it should, timeout_s at most. The last state is evidence;
// *ret_why says what is in the way. *ret (may be NULL) is the pod.
enum pod_end pod_await(struct session *s, const struct wish *w, int64_t timeout_s,
                       const char **ret_why, struct answer *ret);
void pod_remove(struct session *s, const char *name);

// pod_look is what a container printed: the lines that tell of its surroundings. Returns 0 or -1: said.
int pod_look(struct session *s, const char *pod, const char *container, struct lines *ret);

// pod_run makes a pod, waits for it and reads its first container. Returns 0 or -1: said.
int pod_run(struct session *s, const struct wish *w, struct lines *ret);

// lines_without is what is in a and not in b; lines_show is for people.
struct lines lines_without(struct session *s, const struct lines *a, const struct lines *b);
const char *lines_show(struct session *s, const struct lines *l);

// pods_baseline is what a container without any claim sees; made once.
int pods_baseline(struct session *s, struct lines *ret);

// claim_spec is the spec of claims for accelerators: of the options, or of a class that is found.
// Returns NULL after it has said why not.
const char *claim_spec(struct session *s);

// template_make creates a ResourceClaimTemplate, claim_make a ResourceClaim, unless it is there.
int template_make(struct session *s, const char *name, const char *spec);
int claim_make(struct session *s, const char *name, const char *spec);

// claim_of_pod is the ResourceClaim that a pod has; its allocation is evidence. Returns 0 or -1: said.
int claim_of_pod(struct session *s, const struct answer *pod, struct answer *ret);

#endif

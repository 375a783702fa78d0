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

// pods_create creates a pod. Returns 0, or -1 after reporting the reason.
int pods_create(struct session *s, const struct wish *w);

// pods_await_end waits until it has come where it should, timeout_s at most. The last state is
// evidence; *ret_why is the reason why not. *ret (may be NULL) is the pod.
enum pod_end pods_await_end(struct session *s, const struct wish *w, int64_t timeout_s,
                            const char **ret_why, struct answer *ret);
void pods_remove(struct session *s, const char *name);

// pods_list_devices is what a container printed: the lines about its surroundings. Returns 0, or -1
// after reporting the reason.
int pods_list_devices(struct session *s, const char *pod, const char *container, struct lines *ret);

// pods_run_once makes a pod, waits for it and reads its first container. Returns 0, or -1 after
// reporting the reason.
int pods_run_once(struct session *s, const struct wish *w, struct lines *ret);

// pods_subtract_lines is what is in a and not in b; pods_join_lines is for people.
struct lines pods_subtract_lines(struct session *s, const struct lines *a, const struct lines *b);
const char *pods_join_lines(struct session *s, const struct lines *l);

// pods_baseline is what a container without any claim sees; made once.
int pods_baseline(struct session *s, struct lines *ret);

// pods_claim_spec is the spec of claims for accelerators: of the options, or of a class that is
// found. Returns NULL after reporting the reason.
const char *pods_claim_spec(struct session *s);

// pods_create_template creates a ResourceClaimTemplate, pods_create_claim a ResourceClaim, unless
// it is there.
int pods_create_template(struct session *s, const char *name, const char *spec);
int pods_create_claim(struct session *s, const char *name, const char *spec);

// pods_find_claim is the ResourceClaim that a pod has; its allocation is evidence. Returns 0, or -1
// after reporting the reason.
int pods_find_claim(struct session *s, const struct answer *pod, struct answer *ret);

#endif

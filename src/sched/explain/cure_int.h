// SPDX-License-Identifier: Apache-2.0
//
// The search for remedies: trials on copies of a pod and a node.
#ifndef SCHED_EXPLAIN_CURE_INT_H
#define SCHED_EXPLAIN_CURE_INT_H

#include "sched/explain/cure.h"

// What a change asks of people. A wish that nothing in the cluster could ever grant is a mistake,
// and correcting it comes first. Then the owner asks for less, then others make room, then
// administrators open nodes, and last the owner gives up what the cluster does have.
enum cure_weight {
    CURE_WEIGHT_TYPO = 20,
    CURE_WEIGHT_MISTAKE = 150, // ask for what there is
    CURE_WEIGHT_CAPACITY = 200,
    CURE_WEIGHT_LESS = 300,
    CURE_WEIGHT_RULE = 380, // spread, affinity
    CURE_WEIGHT_SELECTOR = 400,
    CURE_WEIGHT_CONSTRAINT = 500,
    CURE_WEIGHT_HOLDER = 600,
    CURE_WEIGHT_TOLERATION = 640,
    CURE_WEIGHT_UNCORDON = 650,
    CURE_WEIGHT_UNTAINT = 655,
    CURE_WEIGHT_WISH = 660,   // give up what other nodes have
    CURE_WEIGHT_LABEL = 670,  // of a node
    CURE_WEIGHT_OTHERS = 700, // a holder in another namespace
    CURE_WEIGHT_REPAIR = 900, // a node, a driver
    CURE_WEIGHT_NODE = 10000,
};

// A trial: copies of the pod and the node that changes are made to. The node's stands in for the
// real one while filters are asked.
struct trial {
    struct sched *s;
    struct cures *out;
    struct arena arena; // of the copies and an attempt's
    const struct sched_pod *original;
    struct sched_pod pod;
    struct api_pod *api; // pod.api
    struct sched_node *node;
    const struct api_node *real;
    struct api_node *fake;
    struct VEC(struct sched_pod *) lifted; // from the node; in arena
    struct cure cure;
    bool devices; // would do, by the survey
    bool others;  // changes that others make are preferred to those of the pod
};

// cure_add remembers a change; text is its fmt. NULL: there are too many already.
struct cure_change *cure_add(struct trial *t, const char *kind, size_t weight, const char *fmt, ...)
    ERR_PRINTF(4, 5);

// cure_offer keeps the trial's changes, unless there are better ones.
void cure_offer(struct trial *t);

// cure_step makes the change that removes the first obstacle w. False: there is none.
bool cure_step(struct trial *t, struct attempt *a, enum why w, const struct refusals *why);

// cure_devices offers changes with which the node has the devices; the node takes the pod
// otherwise.
void cure_devices(struct trial *t, struct attempt *a);

// cure_find_words adds words of the claims that may have been meant; in arena.
void cure_find_words(struct sched *s, const struct api_resource_claim *const *claims, size_t n,
                     struct arena *arena, struct cure_rewrites *ret);

// cure_point makes a change one of an object of the API. Names are copied.
void cure_point(struct trial *t, struct cure_change *c, enum cure_action action, const char *object,
                struct str namespace, struct str name);

// cure_refresh reads needs and ports of the trial's pod again.
void cure_refresh(struct trial *t);

// cure_add_path adds a member of a JSON pointer.
void cure_add_path(struct sbuf *out, struct str member);

#endif

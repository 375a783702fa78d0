// SPDX-License-Identifier: Apache-2.0
//
// PodGroups: their pods are placed together, or give back what they hold.
#ifndef SCHED_GANG_GANG_H
#define SCHED_GANG_GANG_H

#include "sched/core/sched_int.h"

// --- gang.c, gang_ways.c, gang_bind.c, gang_take.c -----------------------------------------------

// gang_run tries the pods of first's group together; gang_holds reports whether the pod has devices
// though its gang does not run.
void gang_run(struct sched *s, struct sched_pod *first);
bool gang_holds(struct sched *s, const struct sched_pod *p);

// gang_preview places the pods of a group in memory, shows each with the node it would get (NULL:
// none, and the attempt knows why), and takes it all back. Returns whether as many fit as the group
// needs; what is wrong with all of them is added.
typedef void (*gang_seen_fn)(void *arg, struct attempt *a, enum dra_begin begun,
                             const struct sched_node *n);
bool gang_preview(struct sched *s, struct sched_group *g, gang_seen_fn seen, void *arg,
                  struct sbuf *wrong);

// gang_start sends prepared bindings (of one group; their list is copied) on their way. need: so
// many must get as far as the Binding before any goes on.
void gang_start(struct sched *s, struct binding *const *all, size_t n, size_t need);

// A claim to be given back: cleared, or only without the group's reservation.
struct take_want {
    struct sched_claim *entry;
    bool clear;
};

// gang_take_start takes claims from a group none of whose pods runs, once no Binding of them can
// come any more. False: not now. gang_take_pods_advanced: the watch of pods has come to a revision.
bool gang_take_start(struct sched *s, struct sched_group *g, const struct take_want *wants,
                     size_t n);
void gang_take_pods_advanced(struct sched *s);

enum take_rule {
    TAKE_LOST, // what collides with an earlier allocation
    TAKE_ALL,  // a gang holds all or nothing
    TAKE_SOME, // what keeps a basic group from other nodes, else its reservations
};

// gang_give_back starts to take from a group what it holds by the rule. False: there is nothing.
bool gang_give_back(struct sched *s, struct sched_group *g, enum take_rule rule);
void gang_take_drop_all(struct sched *s);

#endif

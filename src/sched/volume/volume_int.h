// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files about volumes: volumes.c (what is watched), volume_rules.c (the rules),
// volume_match.c (what an unbound claim may get), volume_pins.c (which of them a node is asked
// about), volume_limits.c (how many a node may have), bind_volume.c (the writes).
#ifndef SCHED_VOLUME_VOLUME_INT_H
#define SCHED_VOLUME_VOLUME_INT_H

#include "sched/core/sched_int.h"

// Volumes that a claim could have, by a label that a node must have to reach them: a node is not
// shown all of them, of which nearly all may be other nodes' own.
struct volume_pin {
    struct str key, value; // empty: no single label decides
    const struct typed_object *volume;
    size_t rank; // the smallest volume's is 0
};

struct object_vec VEC(const struct typed_object *);

struct volume_pins {
    struct volume_pin *p; // by key, value, rank
    size_t n;
};

// volume_pins_make sorts volumes, the smallest first, so. volume_pins_best is the first of them
// that can be had from the node and is free; NULL: none.
typedef bool (*volume_free_fn)(const void *arg, const struct typed_object *volume);
void volume_pins_make(struct arena *arena, const struct typed_object *const *volumes, size_t n,
                      struct volume_pins *ret);
const struct typed_object *volume_pins_best(const struct volume_pins *all,
                                            const struct api_node *node, volume_free_fn is_free,
                                            const void *arg);

// A claim of the pod under way. All is borrowed: nothing changes during an attempt.
struct pod_volume {
    struct volume_ref ref; // how the pod names it
    const struct typed_object *object;
    const struct api_persistent_volume_claim *claim;
    const struct api_storage_class *class;      // NULL: none
    const struct api_persistent_volume *volume; // NULL: none yet, or it is gone
    struct str driver;                          // of CSI; empty: none
    bool bound;
    const struct sched_pod
        *sole_user; // another pod that has a claim which only one may have; NULL: none
    // Of an unbound claim.
    struct str selected;     // the node that a provisioner was given; empty: none
    struct volume_pins pins; // volumes that would do
    struct object_vec rooms; // where its driver has room for one, once that was asked
    bool rooms_known;
    const struct typed_object *chosen; // for the node asked last; NULL: one has to be made
};

// volume_match_begin looks for volumes that unbound claims can have; volume_match_node chooses of
// them for a node. False: there are not enough, and the reason is added to why unless that is NULL.
void volume_match_begin(struct attempt *a);
bool volume_match_node(struct attempt *a, const struct sched_node *n, struct refusals *why);

// volume_match_request_of is what a claim requests; NULL: nothing. volume_match_room is the room
// that the driver of an unbound claim publishes where the node is, if it is enough; NULL: it is
// not, or it publishes none.
const struct quantity *volume_match_request_of(const struct pod_volume *v);
const struct quantity *volume_match_room(struct attempt *a, struct pod_volume *v,
                                         const struct api_node *node);

// volume_limits_begin looks whose volumes they are; volume_limits_ok: the node can have the pod's
// volumes beside those it has.
void volume_limits_begin(struct attempt *a);
bool volume_limits_ok(struct attempt *a, const struct sched_node *n, struct refusals *why);

// volume_rules_begin looks at the pod's claims for storage. DRA_OK, or with a text DRA_WAIT (what
// there is of volumes is not known yet) or DRA_REFUSED. volume_rules_filter: can they be had from
// the node? It chooses volumes for claims that have none.
enum dra_begin volume_rules_begin(struct attempt *a);
enum why volume_rules_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);

// volume_rules_update: a pod has come to a node or left it, in a dry run.
void volume_rules_update(struct attempt *a, const struct sched_pod *p);

#endif

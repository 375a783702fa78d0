// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files about volumes: volumes.c (what is watched), volume_rules.c (the rules), volume_match.c (what an
// unbound claim may get), volume_limits.c (how many a node may have), bind_volume.c (the writes).
#ifndef SCHED_VOLUME_INT_H
#define SCHED_VOLUME_INT_H

#include "sched/sched_int.h"

#define SELECTED_NODE  "volume.kubernetes.io/selected-node"
#define NO_PROVISIONER "kubernetes.io/no-provisioner"

// A claim of the pod under way. All is borrowed: nothing changes during an attempt.
struct pod_volume {
    struct volume_ref ref; // how the pod names it
    const struct client_object *object;
    const struct api_persistent_volume_claim *claim;
    const struct api_storage_class *class;      // NULL: none
    const struct api_persistent_volume *volume; // NULL: none yet, or it is gone
    struct str driver;                          // of CSI; empty: none
    bool bound;
    // Of an unbound claim.
    struct str selected;                     // the node that a provisioner was told of; empty: none
    const struct client_object **candidates; // volumes that would do, the smallest first
    size_t candidates_len;
    const struct client_object *chosen; // for the node asked last; NULL: one has to be made
};

// volume_match_begin looks for volumes that unbound claims can have; volume_match_node chooses of them for a node. False:
// there are not enough, and why says so unless it is NULL.
void volume_match_begin(struct attempt *a);
bool volume_match_node(struct attempt *a, const struct sched_node *n, struct sbuf *why);

// volume_limits_begin looks whose volumes they are; volume_limits_ok: the node can have the pod's volumes beside those it has.
void volume_limits_begin(struct attempt *a);
bool volume_limits_ok(const struct attempt *a, const struct sched_node *n, struct sbuf *why);

#endif

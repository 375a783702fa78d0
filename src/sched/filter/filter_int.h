// SPDX-License-Identifier: Apache-2.0
//
// The rules of kube-scheduler other than devices and volumes, and the choice among nodes that pass.
#ifndef SCHED_FILTER_FILTER_INT_H
#define SCHED_FILTER_FILTER_INT_H

#include "sched/core/sched_int.h"

// --- filter.c ------------------------------------------------------------------------------------

// filter_node applies everything but devices, with the pods that are nominated to the node and do
// not give way to this one, and without them. With why, the reasons are added.
enum why filter_node(struct attempt *a, struct sched_node *n, struct refusals *why);

// filter_node_all is the bits of all that refuses, not only of the first.
uint32_t filter_node_all(struct attempt *a, struct sched_node *n, struct refusals *why);

// filter_fits checks amounts, those of needs instead of the pod's own, beside nominated pods.
bool filter_fits(struct attempt *a, struct sched_node *n, const struct pod_need *needs,
                 size_t needs_len, struct refusals *why);

// filter_selected: node selector and required node affinity; filter_tolerated: hard taints.
bool filter_selected(const struct api_pod *pod, const struct api_node *node);
bool filter_tolerated(const struct api_pod *pod, const struct api_node *node);

// --- affinity.c, spread.c ------------------------------------------------------------------------

void affinity_begin(struct attempt *a);
enum why affinity_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);
int64_t affinity_score(const struct attempt *a, const struct sched_node *n);
bool affinity_scores(const struct attempt *a);
void affinity_end(struct attempt *a);
void affinity_update(struct attempt *a, const struct sched_pod *p, const struct sched_node *n,
                     int by);

void spread_begin(struct attempt *a);
void spread_end(struct attempt *a);
void spread_update(struct attempt *a, const struct sched_pod *p, const struct sched_node *n,
                   int by);
enum why spread_filter(struct attempt *a, const struct sched_node *n, struct refusals *why);
bool spread_is_soft(const struct attempt *a); // a constraint is a preference
void spread_score(const struct attempt *a, struct sched_node *const *nodes, size_t n,
                  int64_t *ret); // normalized

// --- overlay.c -----------------------------------------------------------------------------------

// overlay_add and overlay_remove: the filters of this attempt see a pod on the node that is not
// there, or do not see one that is. The caller takes it back before the attempt ends.
void overlay_add(struct attempt *a, struct sched_pod *p, struct sched_node *n);
void overlay_remove(struct attempt *a, struct sched_pod *p);

// overlay_add_nominated adds the pods that are nominated to the node and do not give way to the
// attempt's; the last node->pods are theirs. Returns how many; overlay_remove_last takes them off.
size_t overlay_add_nominated(struct attempt *a, struct sched_node *n);
void overlay_remove_last(struct attempt *a, struct sched_node *n, size_t pods);

// --- score.c -------------------------------------------------------------------------------------

// score_best chooses among nodes that will do; ranks are those of dra_rank, one a node; worths are
// steps of worth, the first node's being the best, or NULL.
size_t score_best(struct attempt *a, struct sched_node *const *nodes, const int64_t *ranks,
                  const int64_t *worths, size_t n);

// score_settled: a node cannot be beaten by one that is worth no more: nothing else than
// worth counts.
bool score_settled(const struct attempt *a, const struct sched_node *n);

#endif

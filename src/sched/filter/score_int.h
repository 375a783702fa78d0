// SPDX-License-Identifier: Apache-2.0
//
// The plugins that score nodes, each as Kubernetes has it.
#ifndef SCHED_FILTER_SCORE_INT_H
#define SCHED_FILTER_SCORE_INT_H

#include "sched/core/sched_int.h"

#define SCORE_TOP 100

enum score_plugin_id {
    SCORE_TAINTS,
    SCORE_NODE_AFFINITY,
    SCORE_RESOURCES,
    SCORE_VOLUMES,
    SCORE_SPREAD,
    SCORE_POD_AFFINITY,
    SCORE_ALTERNATIVES,
    SCORE_BALANCE,
    SCORE_IMAGES,
    SCORE_PLUGINS,
};

// Nodes that will do for the pod of an attempt; ranks are those of dra_rank, one a node.
struct score_question {
    struct attempt *a;
    struct sched_node *const *nodes;
    const int64_t *ranks;
    size_t n;
};

struct score_plugin {
    const char *name;
    int64_t weight;
    bool (*applies)(const struct attempt *a);                    // NULL: always
    void (*score)(const struct score_question *q, int64_t *ret); // normalized to 0 … 100
};

extern const struct score_plugin score_plugins[SCORE_PLUGINS];

// score_by_plugin gives the scores of a plugin times its weight. False: it has nothing to say.
bool score_by_plugin(const struct score_question *q, enum score_plugin_id id, int64_t *v);

// score_soft_taints counts taints that the pod would rather avoid; score_prefers_nodes: it has
// preferred node affinity.
int64_t score_soft_taints(const struct attempt *a, const struct api_node *node);
bool score_prefers_nodes(const struct attempt *a);

// score_knows_images: a node reports one of the pod's images.
bool score_knows_images(const struct attempt *a);

#endif

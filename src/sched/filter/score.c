// SPDX-License-Identifier: Apache-2.0
//
// The best of the nodes that will do. Scores and weights are Kubernetes' own, but for pods with
// devices to allocate: with policy pack (or spread) how full a node's devices get takes the place
// of how empty its cpus stay.
#include "sched/filter/filter_int.h"
#include "sched/filter/score_int.h"

#include "base/banned.h"

#define WEIGHT_DEVICES 2

// How much of the node's devices is in use: what pack likes and spread does not.
static int64_t score_fullness(const struct attempt *a, const struct sched_node *n)
{
    size_t have = 0;
    size_t all = 0;
    index_count_devices(a->s->devices, n->index, &have, &all);
    int64_t full = all ? (int64_t)(SCORE_TOP * (all - have) / all) : 0;
    return a->s->config.policy == ALLOC_SPREAD ? SCORE_TOP - full : full;
}

// Steps that a node may be worth less than the best and still count a little.
#define WORTH_STEPS 20

// Nodes that were named by worth: how far each is behind the best takes the place of amounts, which
// are a part of it.
static void score_worths(const int64_t *worths, size_t n, int64_t *sum)
{
    for (size_t i = 0; i < n; i++) {
        int64_t behind = worths[i] == INT64_MIN ? WORTH_STEPS : worths[0] - worths[i];
        behind = behind > WORTH_STEPS || worths[0] == INT64_MIN ? WORTH_STEPS : behind;
        sum[i] += WEIGHT_DEVICES * (SCORE_TOP - SCORE_TOP * behind / WORTH_STEPS);
    }
}

bool score_settled(const struct attempt *a, const struct sched_node *n)
{
    if (spread_is_soft(a) || affinity_scores(a) || score_soft_taints(a, n->api) ||
        score_prefers_nodes(a) || a->volume.open || score_knows_images(a))
        return false;
    for (size_t i = 0; i < a->open_len; i++)
        for (size_t k = 0; k < a->open[i]->spec.devices.requests.n; k++)
            if (!a->open[i]->spec.devices.requests.p[k].exactly)
                return false; // alternatives differ from node to node
    return true;
}

// With devices to allocate, how full a node's devices get takes the place of free amounts.
static bool score_is_replaced(const struct attempt *a, const int64_t *worths,
                              enum score_plugin_id id)
{
    bool packs = (a->open_len || a->special.want) && a->s->config.policy != ALLOC_FIRST;
    return (id == SCORE_RESOURCES && (packs || worths)) || (id == SCORE_BALANCE && worths);
}

size_t score_best(struct attempt *a, struct sched_node *const *nodes, const int64_t *ranks,
                  const int64_t *worths, size_t n)
{
    assert(n);
    if (n == 1)
        return 0;
    int64_t *sum = arena_array(a->arena, int64_t, n);
    int64_t *v = arena_array(a->arena, int64_t, n);
    const struct score_question q = {.a = a, .nodes = nodes, .ranks = ranks, .n = n};
    if (worths)
        score_worths(worths, n, sum);
    for (enum score_plugin_id id = 0; id < SCORE_PLUGINS; id++) {
        if (score_is_replaced(a, worths, id)) {
            for (size_t i = 0; !worths && i < n; i++)
                sum[i] += WEIGHT_DEVICES * score_fullness(a, nodes[i]);
        } else if (score_by_plugin(&q, id, v)) {
            for (size_t i = 0; i < n; i++)
                sum[i] += v[i];
        }
    }
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (sum[i] > sum[best])
            best = i;
    return best;
}

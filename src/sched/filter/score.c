// SPDX-License-Identifier: Apache-2.0
//
// The best of the nodes that will do. Scores and weights are Kubernetes' own, but for pods with
// devices to allocate: with policy pack (or spread) how full a node's devices get takes the place
// of how empty its cpus stay.
#include <math.h>

#include "api/match/node.h"
#include "api/match/taint.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

#define TOP 100

enum weight {
    WEIGHT_RESOURCES = 1,
    WEIGHT_BALANCE = 1,
    WEIGHT_TAINTS = 3,
    WEIGHT_NODE_AFFINITY = 2,
    WEIGHT_POD_AFFINITY = 2,
    WEIGHT_SPREAD = 2,
    WEIGHT_RANK = 2,
    WEIGHT_DEVICES = 2,
};

// The part of cpu and memory in use with the pod there, each 0 … 1.
static void score_use_fractions(const struct attempt *a, const struct sched_node *n, double ret[2])
{
    static const uint32_t res[2] = {RES_CPU, RES_MEMORY};
    for (size_t i = 0; i < 2; i++) {
        int64_t all = amount_at(&n->allocatable, res[i]);
        int64_t used = amount_add(n->nonzero[i], a->pod->nonzero[i]);
        ret[i] = all > 0 ? (double)used / (double)all : 1;
        if (ret[i] > 1)
            ret[i] = 1;
    }
}

static int64_t least_allocated(const double f[2])
{
    return (int64_t)(TOP * ((1 - f[0]) + (1 - f[1])) / 2);
}

static int64_t score_balanced(const double f[2])
{
    return (int64_t)((1 - fabs(f[0] - f[1]) / 2) * TOP);
}

static int64_t soft_taints(const struct attempt *a, const struct api_node *node)
{
    int64_t n = 0;
    for (size_t i = 0; i < node->spec.taints.n; i++)
        n += taint_is_soft(node->spec.taints.p[i].effect) &&
             !taint_is_tolerated(&a->api->spec.tolerations, &node->spec.taints.p[i]);
    return n;
}

static int64_t score_preferred(const struct attempt *a, const struct api_node *node)
{
    const struct api_node_affinity *f =
        a->api->spec.affinity ? a->api->spec.affinity->node_affinity : NULL;
    int64_t sum = 0;
    for (size_t i = 0; f && i < f->preferred_during_scheduling_ignored_during_execution.n; i++) {
        const struct api_preferred_scheduling_term *t =
            &f->preferred_during_scheduling_ignored_during_execution.p[i];
        if (node_term_match(&t->preference, node) > 0)
            sum += t->weight;
    }
    return sum;
}

// Scales to 0 … 100 by the largest; reversed: the largest gets 0.
static void score_normalize(int64_t *v, size_t n, bool reverse)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    for (size_t i = 0; i < n; i++) {
        int64_t x = most ? v[i] * TOP / most : 0;
        v[i] = reverse ? TOP - x : x;
    }
}

static void spread_out(int64_t *v, size_t n)
{
    int64_t least = INT64_MAX;
    int64_t most = INT64_MIN;
    for (size_t i = 0; i < n; i++) {
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    for (size_t i = 0; i < n; i++)
        v[i] = most > least ? TOP * (v[i] - least) / (most - least) : 0;
}

// How much of the node's devices is in use: what pack likes and spread does not.
static int64_t score_fullness(const struct attempt *a, const struct sched_node *n)
{
    size_t have = 0;
    size_t all = 0;
    index_count_devices(a->s->devices, n->index, &have, &all);
    int64_t full = all ? (int64_t)(TOP * (all - have) / all) : 0;
    return a->s->config.policy == ALLOC_SPREAD ? TOP - full : full;
}

static void score_add_weighted(int64_t *sum, const int64_t *v, size_t n, int64_t weight)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += weight * v[i];
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
        sum[i] += WEIGHT_DEVICES * (TOP - TOP * behind / WORTH_STEPS);
    }
}

bool score_settled(const struct attempt *a, const struct sched_node *n)
{
    const struct api_affinity *f = a->api->spec.affinity;
    if (a->spreads_len || affinity_scores(a) || soft_taints(a, n->api))
        return false;
    if (f && f->node_affinity &&
        f->node_affinity->preferred_during_scheduling_ignored_during_execution.n)
        return false;
    for (size_t i = 0; i < a->open_len; i++)
        for (size_t k = 0; k < a->open[i]->spec.devices.requests.n; k++)
            if (!a->open[i]->spec.devices.requests.p[k].exactly)
                return false; // alternatives differ from node to node
    return true;
}

static void score_amounts(const struct attempt *a, struct sched_node *const *nodes, size_t n,
                          int64_t *sum)
{
    bool packs = (a->open_len || a->special.want) && a->s->config.policy != ALLOC_FIRST;
    for (size_t i = 0; i < n; i++) {
        double f[2];
        score_use_fractions(a, nodes[i], f);
        sum[i] += WEIGHT_BALANCE * score_balanced(f);
        sum[i] += packs ? WEIGHT_DEVICES * score_fullness(a, nodes[i])
                        : WEIGHT_RESOURCES * least_allocated(f);
    }
}

size_t score_best(const struct attempt *a, struct sched_node *const *nodes, const int64_t *ranks,
                  const int64_t *worths, size_t n)
{
    assert(n);
    if (n == 1)
        return 0;
    int64_t *sum = arena_array(a->arena, int64_t, n);
    int64_t *v = arena_array(a->arena, int64_t, n);
    if (worths)
        score_worths(worths, n, sum);
    else
        score_amounts(a, nodes, n, sum);
    for (size_t i = 0; i < n; i++)
        v[i] = soft_taints(a, nodes[i]->api);
    score_normalize(v, n, true);
    score_add_weighted(sum, v, n, WEIGHT_TAINTS);
    for (size_t i = 0; i < n; i++)
        v[i] = score_preferred(a, nodes[i]->api);
    score_normalize(v, n, false);
    score_add_weighted(sum, v, n, WEIGHT_NODE_AFFINITY);
    if (affinity_scores(a)) {
        for (size_t i = 0; i < n; i++)
            v[i] = affinity_score(a, nodes[i]);
        spread_out(v, n);
        score_add_weighted(sum, v, n, WEIGHT_POD_AFFINITY);
    }
    if (a->spreads_len) {
        spread_score(a, nodes, n, v);
        score_add_weighted(sum, v, n, WEIGHT_SPREAD);
    }
    memcpy(v, ranks, n * sizeof(*v));
    score_normalize(v, n, false);
    score_add_weighted(sum, v, n, WEIGHT_RANK);
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (sum[i] > sum[best])
            best = i;
    return best;
}

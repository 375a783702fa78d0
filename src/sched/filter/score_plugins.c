// SPDX-License-Identifier: Apache-2.0
//
// Kubernetes' scores: what each default plugin thinks of nodes that will do, from 0 to 100 after
// its own normalization, and the weight it has.
#include <math.h>

#include "api/match/node.h"
#include "api/match/taint.h"
#include "sched/filter/filter_int.h"
#include "sched/filter/score_int.h"
#include "sched/volume/volume_score.h"

#include "base/banned.h"

static int64_t score_request(const struct sched_pod *p, uint32_t res)
{
    for (size_t i = 0; i < p->needs_len; i++)
        if (p->needs[i].res == res)
            return p->needs[i].amount;
    return 0;
}

// --- Amounts -------------------------------------------------------------------------------------

static const uint32_t score_resources[] = {RES_CPU, RES_MEMORY};

// The mean of what cpu and memory leave free; containers that request none count a little.
static void score_least_allocated(const struct score_question *q, int64_t *v)
{
    const struct attempt *a = q->a;
    for (size_t i = 0; i < q->n; i++) {
        int64_t sum = 0, parts = 0;
        for (size_t r = 0; r < array_len(score_resources); r++) {
            int64_t all = amount_at(&q->nodes[i]->allocatable, score_resources[r]);
            int64_t used = amount_add(q->nodes[i]->nonzero[r], a->pod->nonzero_own[r]);
            if (all == 0)
                continue;
            sum += used > all ? 0 : (int64_t)((__int128)(all - used) * SCORE_TOP / all);
            parts++;
        }
        v[i] = parts ? sum / parts : 0;
    }
}

// score_balance: 100 where cpu and memory are used alike, 50 where one is full and one empty.
static int64_t score_balance(const int64_t used[2], const int64_t all[2])
{
    double f[2];
    for (size_t r = 0; r < 2; r++) {
        if (all[r] == 0)
            return SCORE_TOP; // one amount alone is balanced
        f[r] = (double)used[r] / (double)all[r];
        f[r] = f[r] > 1 ? 1 : f[r];
    }
    return (int64_t)((1 - fabs((f[0] - f[1]) / 2)) * SCORE_TOP);
}

// The improvement of the balance counts: 75 where the pod changes nothing.
static void score_balanced(const struct score_question *q, int64_t *v)
{
    for (size_t i = 0; i < q->n; i++) {
        int64_t all[2], before[2], with[2];
        for (size_t r = 0; r < array_len(score_resources); r++) {
            all[r] = amount_at(&q->nodes[i]->allocatable, score_resources[r]);
            before[r] = amount_at(&q->nodes[i]->requested, score_resources[r]);
            with[r] = amount_add(before[r], score_request(q->a->pod, score_resources[r]));
        }
        int64_t gain = score_balance(with, all) - score_balance(before, all);
        v[i] = SCORE_TOP / 2 + (SCORE_TOP / 2 + gain) / 2;
    }
}

// Pods that request nothing would all go to the same node.
static bool score_requests_any(const struct attempt *a)
{
    return score_request(a->pod, RES_CPU) || score_request(a->pod, RES_MEMORY);
}

// --- Taints and affinity -------------------------------------------------------------------------

int64_t score_soft_taints(const struct attempt *a, const struct api_node *node)
{
    int64_t n = 0;
    for (size_t i = 0; i < node->spec.taints.n; i++)
        n += taint_is_soft(node->spec.taints.p[i].effect) &&
             !taint_is_tolerated(&a->api->spec.tolerations, &node->spec.taints.p[i]);
    return n;
}

// Scales to 0 … 100 by the largest; reversed: the largest gets 0.
static void score_normalize(int64_t *v, size_t n, bool reverse)
{
    int64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    for (size_t i = 0; i < n; i++) {
        int64_t x = most ? v[i] * SCORE_TOP / most : 0;
        v[i] = reverse ? SCORE_TOP - x : x;
    }
}

static void score_taints(const struct score_question *q, int64_t *v)
{
    for (size_t i = 0; i < q->n; i++)
        v[i] = score_soft_taints(q->a, q->nodes[i]->api);
    score_normalize(v, q->n, true);
}

static const struct api_preferred_scheduling_term_array *score_preferred_terms(
    const struct attempt *a)
{
    const struct api_node_affinity *f =
        a->api->spec.affinity ? a->api->spec.affinity->node_affinity : NULL;
    return f && f->preferred_during_scheduling_ignored_during_execution.n
               ? &f->preferred_during_scheduling_ignored_during_execution
               : NULL;
}

bool score_prefers_nodes(const struct attempt *a)
{
    return score_preferred_terms(a) != NULL;
}

static void score_node_affinity(const struct score_question *q, int64_t *v)
{
    const struct api_preferred_scheduling_term_array *all = score_preferred_terms(q->a);
    for (size_t i = 0; i < q->n; i++) {
        v[i] = 0;
        for (size_t t = 0; t < all->n; t++)
            if (node_term_match(&all->p[t].preference, q->nodes[i]->api) > 0)
                v[i] += all->p[t].weight;
    }
    score_normalize(v, q->n, false);
}

static void score_pod_affinity(const struct score_question *q, int64_t *v)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (size_t i = 0; i < q->n; i++) {
        v[i] = affinity_score(q->a, q->nodes[i]);
        least = v[i] < least ? v[i] : least;
        most = v[i] > most ? v[i] : most;
    }
    for (size_t i = 0; i < q->n; i++)
        v[i] = most > least
                   ? (int64_t)(SCORE_TOP * ((double)(v[i] - least) / (double)(most - least)))
                   : 0;
}

static void score_spread(const struct score_question *q, int64_t *v)
{
    spread_score(q->a, q->nodes, q->n, v);
}

// --- Devices, volumes, images --------------------------------------------------------------------

static void score_alternatives(const struct score_question *q, int64_t *v)
{
    for (size_t i = 0; i < q->n; i++)
        v[i] = q->ranks[i];
    score_normalize(v, q->n, false);
}

static void score_volumes(const struct score_question *q, int64_t *v)
{
    for (size_t i = 0; i < q->n; i++)
        v[i] = volume_score(q->a, q->nodes[i]);
}

#define IMAGE_LEAST (INT64_C(23) * 1024 * 1024)
#define IMAGE_MOST  (INT64_C(1000) * 1024 * 1024) // of one container

// The pod's images: of init containers and containers, with the tag that is understood.
struct score_image_names {
    struct str *p;
    size_t n;
};

static struct str score_image_name(struct arena *arena, struct str image)
{
    ptrdiff_t colon = str_rfind_char(image, ':'), slash = str_rfind_char(image, '/');
    return colon > slash ? image : arena_strf(arena, "%.*s:latest", STR_ARG(image));
}

static struct score_image_names score_list_images(const struct attempt *a)
{
    const struct api_pod_spec *spec = &a->api->spec;
    struct score_image_names all = {0};
    all.p = arena_array(a->arena, struct str, spec->init_containers.n + spec->containers.n + 1);
    for (size_t k = 0; k < spec->init_containers.n; k++)
        all.p[all.n++] = score_image_name(a->arena, spec->init_containers.p[k].image);
    for (size_t k = 0; k < spec->containers.n; k++)
        all.p[all.n++] = score_image_name(a->arena, spec->containers.p[k].image);
    return all;
}

bool score_knows_images(const struct attempt *a)
{
    if (map_len(&a->s->cluster.images) == 0)
        return false;
    struct score_image_names all = score_list_images(a);
    for (size_t i = 0; i < all.n; i++)
        if (cluster_image(&a->s->cluster, all.p[i]))
            return true;
    return false;
}

// score_image: the size of an image that the node has, scaled by how many nodes have it.
static int64_t score_image(const struct attempt *a, const struct sched_node *n, struct str image)
{
    const struct cluster *c = &a->s->cluster;
    const struct image_use *use = cluster_image(c, image);
    if (!use || !cluster_node_has_image(n, image))
        return 0;
    double spread = (double)use->nodes / (double)c->nodes_known;
    return (int64_t)((double)use->bytes * (spread < 1 ? spread : 1));
}

static void score_images(const struct score_question *q, int64_t *v)
{
    struct score_image_names all = {0};
    if (score_knows_images(q->a))
        all = score_list_images(q->a);
    for (size_t i = 0; i < q->n; i++) {
        int64_t sum = 0, most = IMAGE_MOST * (int64_t)all.n;
        for (size_t k = 0; k < all.n; k++)
            sum = amount_add(sum, score_image(q->a, q->nodes[i], all.p[k]));
        sum = sum > most ? most : sum;
        v[i] = sum > IMAGE_LEAST ? SCORE_TOP * (sum - IMAGE_LEAST) / (most - IMAGE_LEAST) : 0;
    }
}

// --- The plugins ---------------------------------------------------------------------------------

static bool score_spreads(const struct attempt *a)
{
    return spread_is_soft(a);
}

const struct score_plugin score_plugins[SCORE_PLUGINS] = {
    [SCORE_TAINTS] = {"TaintToleration", 3, NULL, score_taints},
    [SCORE_NODE_AFFINITY] = {"NodeAffinity", 2, score_prefers_nodes, score_node_affinity},
    [SCORE_RESOURCES] = {"NodeResourcesFit", 1, NULL, score_least_allocated},
    [SCORE_VOLUMES] = {"VolumeBinding", 1, NULL, score_volumes},
    [SCORE_SPREAD] = {"PodTopologySpread", 2, score_spreads, score_spread},
    [SCORE_POD_AFFINITY] = {"InterPodAffinity", 2, affinity_scores, score_pod_affinity},
    [SCORE_ALTERNATIVES] = {"DynamicResources", 2, NULL, score_alternatives},
    [SCORE_BALANCE] = {"NodeResourcesBalancedAllocation", 1, score_requests_any, score_balanced},
    [SCORE_IMAGES] = {"ImageLocality", 1, NULL, score_images},
};

bool score_by_plugin(const struct score_question *q, enum score_plugin_id id, int64_t *v)
{
    const struct score_plugin *p = &score_plugins[id];
    if (p->applies && !p->applies(q->a))
        return false;
    p->score(q, v);
    for (size_t i = 0; i < q->n; i++)
        v[i] *= p->weight;
    return true;
}

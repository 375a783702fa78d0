// SPDX-License-Identifier: Apache-2.0
//
// Rules that dray's is held against, as published: best fit and fragmentation gradient descent
// (Weng et al., "Beware of Fragmentation", USENIX ATC 2023), with their constants and their
// rounding, and kube-scheduler's default scores. None of them is used outside of replays.
#include <math.h>
#include <stdlib.h>

#include "plan/replay/replay_int.h"

#include "base/banned.h"

// Best fit measures nodes against the largest of the published cluster.
#define BESTFIT_CPU  128000.0
#define BESTFIT_GPUS 8000.0

#define TYPICAL_SHARE 0.95

// A shape of pods, and how often it comes.
struct typical {
    int64_t cpu;
    uint32_t num;
    uint32_t milli;
    uint64_t models;
    struct str spec;
    double count;
};

struct rules {
    const struct replay_world *world;
    enum replay_policy policy;
    struct fleet_rule rule;
    struct VEC(struct typical) typicals;
};

// --- Typical pods --------------------------------------------------------------------------------

static int by_count(const void *x, const void *y)
{
    const struct typical *a = x;
    const struct typical *b = y;
    if (a->count != b->count)
        return a->count < b->count ? 1 : -1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? 1 : -1;
    if (a->milli != b->milli)
        return a->milli < b->milli ? 1 : -1;
    if (a->num != b->num)
        return a->num < b->num ? 1 : -1;
    return str_cmp(b->spec, a->spec);
}

struct typical_key {
    int64_t cpu;
    uint32_t num, milli;
    uint64_t spec;
};

// The most frequent shapes, until they make up 95 % of the pods.
static void find_typical(struct rules *r, const struct replay_trace *t)
{
    const struct trace_pods *pods = replay_known_pods(t);
    struct shape_map MAP(uint32_t) seen = {0};
    cleanup_arena struct arena keys = {0};
    vec_foreach(pods, p) {
        const struct typical_key key = {p->cpu, p->num, p->milli, p->spec};
        bool is_new = false;
        const char *own = arena_dup(&keys, &key, sizeof(key), 8);
        uint32_t *at = map_put_new(&seen, str_make(own, sizeof(key)), &is_new);
        if (is_new) {
            const struct trace_spec *s = &t->specs.p[p->spec];
            *at = (uint32_t)r->typicals.n;
            vec_push(&r->typicals,
                     (struct typical){p->cpu, p->num, p->milli, s->models, s->text, 0});
        }
        r->typicals.p[*at].count++;
    }
    map_done(&seen);
    if (!r->typicals.n)
        return;
    qsort(r->typicals.p, r->typicals.n, sizeof(*r->typicals.p), by_count);
    double all = (double)pods->n;
    double sum = 0;
    size_t n = 0;
    while (n < r->typicals.n && sum < TYPICAL_SHARE * all)
        sum += r->typicals.p[n++].count;
    r->typicals.n = n;
    // In two divisions, as published: the last digit decides between equal scores.
    for (size_t i = 0; i < n; i++)
        r->typicals.p[i].count = r->typicals.p[i].count / all / (sum / all);
}

// --- Fragmentation -------------------------------------------------------------------------------

// Why a shape cannot use what is left. The sums are kept apart and added in this order, as
// published.
enum why_unused {
    UNUSED_BOTH,
    UNUSED_SMALL,
    UNUSED_CPU,
    UNUSED_NONE,
    UNUSED_NONE_CPU,
    UNUSED_MODEL
};
#define WHYS_UNUSED 6

static void add_unused(const struct typical *t, int64_t cpu, const uint16_t *left, uint32_t n,
                       int64_t total, uint64_t model, double sum[WHYS_UNUSED])
{
    if (t->milli == 0) {
        sum[cpu >= t->cpu ? UNUSED_NONE : UNUSED_NONE_CPU] += t->count * (double)total;
        return;
    }
    if (!(t->models & model)) {
        sum[UNUSED_MODEL] += t->count * (double)total;
        return;
    }
    uint32_t fit = 0;
    int64_t small = 0;
    for (uint32_t i = 0; i < n; i++) {
        fit += left[i] >= t->milli;
        small += left[i] >= t->milli ? 0 : left[i];
    }
    if (fit < t->num)
        sum[cpu >= t->cpu ? UNUSED_SMALL : UNUSED_BOTH] += t->count * (double)total;
    else if (cpu >= t->cpu)
        sum[UNUSED_SMALL] += t->count * (double)small;
    else
        sum[UNUSED_CPU] += t->count * (double)total;
}

static double replay_rules_fragments(const struct rules *r, uint32_t node, int64_t cpu,
                                     const uint16_t *left, uint32_t n)
{
    double sum[WHYS_UNUSED] = {0};
    int64_t total = 0;
    uint64_t model = UINT64_C(1) << r->world->nodes.p[node].model;
    for (uint32_t i = 0; i < n; i++)
        total += left[i];
    for (size_t i = 0; total && i < r->typicals.n; i++)
        add_unused(&r->typicals.p[i], cpu, left, n, total, model, sum);
    double all = 0;
    for (size_t i = 0; i < WHYS_UNUSED; i++)
        all += sum[i];
    return all;
}

static void copy_left(const struct fleet_node *n, uint16_t left[WORTH_UNITS])
{
    for (uint32_t i = 0; i < n->state.n; i++)
        left[i] = n->state.units[i].left;
}

double rules_fragments(const struct rules *r, uint32_t node, const struct fleet_node *n)
{
    uint16_t left[WORTH_UNITS] = {0};
    copy_left(n, left);
    return replay_rules_fragments(r, node, n->state.cpu, left, n->state.n);
}

static uint16_t part_here(const struct fleet_node *n, const struct fleet_question *q)
{
    return n->state.n ? q->wants[0].part[n->state.units[0].type] : 0;
}

static bool replay_rules_is_part(const struct fleet_question *q, uint16_t part)
{
    return q->wants[0].num == 1 && part < WORTH_WHOLE;
}

static int64_t replay_rules_descent(double before, double after)
{
    return (int64_t)(100 / (1 + exp(-(before - after) / 1000)));
}

// The score of a part on one unit.
static int64_t fgd_unit(const struct rules *r, uint32_t node, const struct fleet_node *n,
                        const struct fleet_question *q, double before, uint32_t unit)
{
    uint16_t left[WORTH_UNITS] = {0};
    copy_left(n, left);
    left[unit] = (uint16_t)(left[unit] - part_here(n, q));
    return replay_rules_descent(before, replay_rules_fragments(r, node, n->state.cpu - q->cpu, left,
                                                               n->state.n));
}

// Takes the shares off the fullest units that fit.
static void take_fullest(uint16_t *left, uint32_t n, uint32_t num, uint16_t part)
{
    bool used[WORTH_UNITS] = {false};
    for (; num; num--) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++)
            if (!used[i] && left[i] >= part && (best == n || left[i] < left[best]))
                best = i;
        if (best == n)
            return;
        used[best] = true;
        left[best] = (uint16_t)(left[best] - part);
    }
}

static int64_t fgd_score(void *arg, uint32_t node, const struct fleet_node *n,
                         const struct fleet_question *q)
{
    const struct rules *r = arg;
    uint16_t part = part_here(n, q);
    double before = rules_fragments(r, node, n);
    if (!replay_rules_is_part(q, part)) {
        uint16_t left[WORTH_UNITS] = {0};
        copy_left(n, left);
        take_fullest(left, n->state.n, q->wants[0].num, part);
        return replay_rules_descent(before, replay_rules_fragments(r, node, n->state.cpu - q->cpu,
                                                                   left, n->state.n));
    }
    int64_t best = 0;
    for (uint32_t i = 0; i < n->state.n; i++) {
        if (n->state.units[i].left < part)
            continue;
        int64_t s = fgd_unit(r, node, n, q, before, i);
        best = s > best ? s : best;
    }
    return best;
}

// Ranks units by a number, the lower first, then by position.
static void rank_by(const int64_t *number, const bool *fits, uint32_t n, uint16_t *rank)
{
    for (uint32_t i = 0; i < n; i++) {
        rank[i] = fits[i] ? 0 : UINT16_MAX;
        for (uint32_t k = 0; fits[i] && k < n; k++)
            rank[i] = (uint16_t)(rank[i] + (fits[k] && (number[k] < number[i] ||
                                                        (number[k] == number[i] && k < i))));
    }
}

static void replay_rules_rank_parts(void *arg, uint32_t node, const struct fleet_node *n,
                                    const struct fleet_question *q, uint16_t rank[WORTH_UNITS])
{
    const struct rules *r = arg;
    uint16_t part = part_here(n, q);
    int64_t number[WORTH_UNITS] = {0};
    bool fits[WORTH_UNITS] = {false};
    double before = r->policy == REPLAY_FGD ? rules_fragments(r, node, n) : 0;
    for (uint32_t i = 0; i < n->state.n; i++) {
        fits[i] = n->state.units[i].left >= part;
        if (!fits[i] || part == WORTH_WHOLE)
            continue; // whole ones in their order
        number[i] = r->policy == REPLAY_FGD && q->wants[0].num == 1
                        ? -fgd_unit(r, node, n, q, before, i)
                        : n->state.units[i].left;
    }
    rank_by(number, fits, n->state.n, rank);
}

// --- Best fit, and kube-scheduler ----------------------------------------------------------------

static int64_t bestfit_score(void *arg, uint32_t node, const struct fleet_node *n,
                             const struct fleet_question *q)
{
    (void)arg;
    (void)node;
    int64_t left = 0;
    for (uint32_t i = 0; i < n->state.n; i++)
        left += n->state.units[i].left;
    double score = (double)(n->state.cpu - q->cpu) / BESTFIT_CPU * 0.5;
    score += (double)(left - (int64_t)part_here(n, q) * q->wants[0].num) / BESTFIT_GPUS * 0.5;
    return (int64_t)((1 - score) * 100);
}

// LeastAllocated and BalancedAllocation of processors and memory, with kube-scheduler's weights.
static int64_t kube_score(void *arg, uint32_t node, const struct fleet_node *n,
                          const struct fleet_question *q)
{
    (void)arg;
    (void)node;
    double cpu = (double)(n->state.cpu - q->cpu) / (double)(n->cpu_all > 0 ? n->cpu_all : 1);
    double memory =
        (double)(n->state.memory - q->memory) / (double)(n->memory_all > 0 ? n->memory_all : 1);
    int64_t least = ((int64_t)(100 * cpu) + (int64_t)(100 * memory)) / 2;
    return least + (int64_t)((1 - fabs(cpu - memory) / 2) * 100);
}

struct rules *replay_rules_new(const struct replay_trace *t, const struct replay_world *w,
                               enum replay_policy policy)
{
    struct rules *r = xcalloc(1, sizeof(*r));
    r->world = w;
    r->policy = policy;
    find_typical(r, t);
    r->rule.arg = r;
    r->rule.score = policy == REPLAY_FGD       ? fgd_score
                    : policy == REPLAY_BESTFIT ? bestfit_score
                                               : kube_score;
    r->rule.by_state = policy == REPLAY_FGD || policy == REPLAY_BESTFIT; // types tell models
    r->rule.ranks =
        policy == REPLAY_FGD || policy == REPLAY_BESTFIT ? replay_rules_rank_parts : NULL;
    return r;
}

void replay_rules_free(struct rules *r)
{
    if (!r)
        return;
    vec_done(&r->typicals);
    free(r);
}

const struct fleet_rule *replay_rules_fleet(const struct rules *r)
{
    return r->policy == REPLAY_PACK ? NULL : &r->rule;
}

// SPDX-License-Identifier: Apache-2.0
//
// Topology spread: matching pods are counted by domain once per attempt.
#include <math.h>

#include "api/match/label.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

#define SPREAD_ANYWAY "ScheduleAnyway"

struct spread {
    const struct api_topology_spread_constraint *api;
    struct domain_counts MAP(int64_t) counts; // by value of the topology key, eligible nodes only
    int64_t least;                            // of all domains; 0 when there are too few of them
    struct {
        struct str value;
        int64_t n;
    } low[2]; // the two domains with the fewest pods, before any dry run
    bool hard;
    bool counted; // preferences are counted when nodes are scored
    bool self;    // the pod itself matches
    bool system;  // not the pod's own: nodes without the key count, too
};

static bool spread_matches_pod(const struct attempt *a,
                               const struct api_topology_spread_constraint *c,
                               const struct api_pod *pod)
{
    if (labels_match(c->label_selector, &pod->metadata.labels) <= 0)
        return false;
    for (size_t i = 0; i < c->match_label_keys.n; i++) {
        const struct str *mine = api_map_find(&a->api->metadata.labels, c->match_label_keys.p[i]);
        const struct str *its = api_map_find(&pod->metadata.labels, c->match_label_keys.p[i]);
        if (mine && !(its && str_eq(*mine, *its)))
            return false;
    }
    return true;
}

// A selector that asks for nothing selects no pod that is there, though it selects the pod itself.
static bool counts_none(const struct attempt *a, const struct api_topology_spread_constraint *c)
{
    const struct api_label_selector *s = c->label_selector;
    if (!s || s->match_labels.n || s->match_expressions.n)
        return false;
    for (size_t i = 0; i < c->match_label_keys.n; i++)
        if (api_map_find(&a->api->metadata.labels, c->match_label_keys.p[i]))
            return false;
    return true;
}

static bool spread_is_eligible(const struct attempt *a, const struct spread *s,
                               const struct sched_node *n)
{
    const struct api_topology_spread_constraint *c = s->api;
    if (!n || !n->api)
        return false;
    // A node counts only if it has the keys of all constraints of the kind.
    for (size_t i = 0; !s->system && i < a->spreads_len; i++)
        if (a->spreads[i].hard == s->hard &&
            !api_map_find(&n->api->metadata.labels, a->spreads[i].api->topology_key))
            return false;
    bool affinity = !c->has_node_affinity_policy || !str_eqz(c->node_affinity_policy, "Ignore");
    bool taints = c->has_node_taints_policy && str_eqz(c->node_taints_policy, "Honor");
    return (!affinity || filter_selected(a->api, n->api)) &&
           (!taints || filter_tolerated(a->api, n->api));
}

// spread_domain is the node's value of a key; empty: it has none.
static struct str spread_domain(const struct sched_node *n, struct str key)
{
    const struct str *value = api_map_find(&n->api->metadata.labels, key);
    return value ? *value : STR("");
}

static bool spread_has_few_domains(const struct spread *s)
{
    return s->api->has_min_domains && map_len(&s->counts) < (size_t)s->api->min_domains;
}

static void spread_find_least(struct spread *s)
{
    s->low[0].n = s->low[1].n = INT64_MAX;
    map_foreach(&s->counts, i) {
        int64_t n = *map_value(&s->counts, i);
        size_t at = n < s->low[0].n ? 0 : 1;
        if (n >= s->low[1].n)
            continue;
        if (at == 0)
            s->low[1] = s->low[0];
        s->low[at].value = map_key(&s->counts, i);
        s->low[at].n = n;
    }
    s->least = map_len(&s->counts) && !spread_has_few_domains(s) ? s->low[0].n : 0;
}

static void spread_count_pods(const struct attempt *a, struct spread *s)
{
    s->counted = true;
    const struct cluster *c = &a->s->cluster;
    struct str key = s->api->topology_key;
    for (size_t i = 0; i < c->order.n; i++)
        if (spread_is_eligible(a, s, c->order.p[i]))
            (void)map_put(&s->counts, spread_domain(c->order.p[i], key));
    struct sched_namespace **ns = map_get(&c->namespaces, a->api->metadata.namespace);
    const struct list *pods = ns && !counts_none(a, s->api) ? &(*ns)->pods : NULL;
    for (struct list_node *node = pods ? pods->head.next : NULL; node && node != &pods->head;
         node = node->next) {
        const struct sched_pod *p = list_entry(node, const struct sched_pod, on.by_namespace);
        if (p == a->pod || p->api->metadata.deletion_timestamp.set ||
            !spread_matches_pod(a, s->api, p->api) || !spread_is_eligible(a, s, p->node))
            continue;
        ++*map_put(&s->counts, spread_domain(p->node, key));
    }
    spread_find_least(s);
}

// Only pods of one node come and go in a dry run, so only one domain of a constraint changes: the
// least of the others is that of the two lowest which is not this one. As in Kubernetes, pods that
// are being deleted are not counted at first, but are taken off.
void spread_update(struct attempt *a, const struct sched_pod *p, const struct sched_node *n, int by)
{
    for (size_t i = 0; i < a->spreads_len; i++) {
        struct spread *s = &a->spreads[i];
        if (!s->hard || !str_eq(p->api->metadata.namespace, a->api->metadata.namespace) ||
            !spread_matches_pod(a, s->api, p->api) || !spread_is_eligible(a, s, n))
            continue;
        struct str value = *api_map_find(&n->api->metadata.labels, s->api->topology_key);
        int64_t *count = map_get(&s->counts, value);
        if (!count)
            continue;
        *count += by;
        int64_t others = str_eq(value, s->low[0].value) ? s->low[1].n : s->low[0].n;
        if (!spread_has_few_domains(s))
            s->least = *count < others ? *count : others;
    }
}

// Pods of Services and controllers that say nothing are spread over hosts and zones, if possible.
static struct api_topology_spread_constraint_array spread_default(const struct attempt *a)
{
    static const struct {
        const char *key;
        int32_t max_skew;
    } rules[] = {{"kubernetes.io/hostname", 3}, {"topology.kubernetes.io/zone", 5}};
    const struct api_label_selector *selector = owners_selector(a->s, a->api, a->arena);
    if (!selector)
        return (struct api_topology_spread_constraint_array){0};
    struct api_topology_spread_constraint *all =
        arena_array(a->arena, struct api_topology_spread_constraint, array_len(rules));
    for (size_t i = 0; i < array_len(rules); i++)
        all[i] =
            (struct api_topology_spread_constraint){.topology_key = str_z(rules[i].key),
                                                    .max_skew = rules[i].max_skew,
                                                    .when_unsatisfiable = STR(SPREAD_ANYWAY),
                                                    .label_selector = (void *)(uintptr_t)selector};
    return (struct api_topology_spread_constraint_array){all, array_len(rules)};
}

void spread_begin(struct attempt *a)
{
    struct api_topology_spread_constraint_array all = a->api->spec.topology_spread_constraints;
    bool system = all.n == 0;
    if (system)
        all = spread_default(a);
    if (!all.n)
        return;
    a->spreads = arena_array(a->arena, struct spread, all.n);
    a->spreads_len = all.n;
    for (size_t i = 0; i < all.n; i++) {
        struct spread *s = &a->spreads[i];
        s->api = &all.p[i];
        s->hard = !str_eqz(all.p[i].when_unsatisfiable, SPREAD_ANYWAY);
        s->self = spread_matches_pod(a, s->api, a->api);
        s->system = system;
    }
    for (size_t i = 0; i < all.n; i++)
        if (a->spreads[i].hard)
            spread_count_pods(a, &a->spreads[i]);
}

void spread_end(struct attempt *a)
{
    for (size_t i = 0; i < a->spreads_len; i++)
        map_done(&a->spreads[i].counts);
}

enum why spread_filter(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    for (size_t i = 0; i < a->spreads_len; i++) {
        const struct spread *s = &a->spreads[i];
        if (!s->hard)
            continue;
        const struct str *value = api_map_find(&n->api->metadata.labels, s->api->topology_key);
        if (!value) {
            refusal_add(a, why, (struct refusal){.code = REFUSED_SPREAD_LABEL, .spread = s->api});
            return WHY_SPREAD;
        }
        const int64_t *have = map_get(&s->counts, *value);
        if ((have ? *have : 0) + s->self - s->least <= s->api->max_skew)
            continue;
        refusal_add(a, why, (struct refusal){.code = REFUSED_SPREAD, .spread = s->api});
        return WHY_SPREAD;
    }
    return WHY_NONE;
}

// --- Scores --------------------------------------------------------------------------------------

bool spread_is_soft(const struct attempt *a)
{
    for (size_t i = 0; i < a->spreads_len; i++)
        if (!a->spreads[i].hard)
            return true;
    return false;
}

// spread_is_ignored: the node lacks the key of a constraint that is a preference.
static bool spread_is_ignored(const struct attempt *a, const struct sched_node *n)
{
    for (size_t i = 0; i < a->spreads_len; i++)
        if (!a->spreads[i].hard && !a->spreads[i].system &&
            !api_map_find(&n->api->metadata.labels, a->spreads[i].api->topology_key))
            return true;
    return false;
}

static bool spread_is_by_host(const struct spread *s)
{
    return str_eqz(s->api->topology_key, "kubernetes.io/hostname");
}

// spread_size: how many domains the nodes that are scored are in.
static size_t spread_size(const struct attempt *a, const struct spread *s,
                          struct sched_node *const *nodes, size_t n)
{
    struct domain_set MAP(bool) seen = {0};
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        if (spread_is_ignored(a, nodes[i]))
            continue;
        if (spread_is_by_host(s))
            size++;
        else
            *map_put(&seen, spread_domain(nodes[i], s->api->topology_key)) = true;
    }
    size += map_len(&seen);
    map_done(&seen);
    return size;
}

// spread_count_on counts matching pods on one node, whether or not it is in the counts.
static int64_t spread_count_on(const struct attempt *a, const struct spread *s,
                               const struct sched_node *n)
{
    int64_t count = 0;
    for (size_t i = 0; !counts_none(a, s->api) && i < n->pods.n; i++) {
        const struct api_pod *pod = n->pods.p[i]->api;
        count += n->pods.p[i] != a->pod && !pod->metadata.deletion_timestamp.set &&
                 str_eq(pod->metadata.namespace, a->api->metadata.namespace) &&
                 spread_matches_pod(a, s->api, pod);
    }
    return count;
}

static double spread_raw_score(const struct attempt *a, const struct sched_node *n,
                               const size_t *sizes)
{
    double sum = 0;
    for (size_t i = 0; i < a->spreads_len; i++) {
        const struct spread *s = &a->spreads[i];
        if (s->hard)
            continue;
        const struct str *value = api_map_find(&n->api->metadata.labels, s->api->topology_key);
        if (!value)
            continue;
        const int64_t *have = map_get(&s->counts, *value);
        int64_t count = spread_is_by_host(s) ? spread_count_on(a, s, n) : have ? *have : 0;
        sum += (double)count * log((double)sizes[i] + 2) + (double)(s->api->max_skew - 1);
    }
    return sum;
}

void spread_score(const struct attempt *a, struct sched_node *const *nodes, size_t n, int64_t *ret)
{
    int64_t least = INT64_MAX, most = 0;
    size_t *sizes = arena_array(a->arena, size_t, a->spreads_len);
    for (size_t i = 0; i < a->spreads_len; i++)
        if (!a->spreads[i].counted)
            spread_count_pods(a, &a->spreads[i]);
    for (size_t i = 0; i < a->spreads_len; i++)
        sizes[i] = a->spreads[i].hard ? 0 : spread_size(a, &a->spreads[i], nodes, n);
    for (size_t i = 0; i < n; i++) {
        ret[i] =
            spread_is_ignored(a, nodes[i]) ? -1 : llround(spread_raw_score(a, nodes[i], sizes));
        if (ret[i] < 0)
            continue;
        least = ret[i] < least ? ret[i] : least;
        most = ret[i] > most ? ret[i] : most;
    }
    for (size_t i = 0; i < n; i++) {
        if (ret[i] < 0)
            ret[i] = 0;
        else
            ret[i] = most ? 100 * (most + least - ret[i]) / most : 100;
    }
}

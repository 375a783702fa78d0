// SPDX-License-Identifier: Apache-2.0
//
// Pods that want to be near others, or far from them. Required terms count matching pods by domain
// (a label key of nodes and its value) once per attempt; preferred ones make a sum by domain.
#include "api/match/label.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

// Existing pods with a required affinity to the new one attract it by this much.
#define HARD_AFFINITY_WEIGHT 1

struct domains MAP(int64_t); // by "key\0value"

struct affinity {
    struct domains near;      // pods that all required affinity terms want
    struct domains far;       // pods that a required anti-affinity term does not want
    struct domains forbidden; // pods that do not want the new one
    struct domains liked;     // weights
    size_t near_len;          // domains of near with a pod
    bool self;                // the pod matches its own required affinity
    bool active;              // some rule may refuse a node
    const struct api_pod_affinity_term_array *required, *anti; // NULL: none
};

static struct str pair_key(struct arena *arena, struct str key, struct str value)
{
    char *p = arena_alloc(arena, key.n + value.n + 2, 1);
    memcpy(p, key.p ? key.p : "", key.n);
    memcpy(p + key.n + 1, value.p ? value.p : "", value.n);
    return str_make(p, key.n + 1 + value.n);
}

static void affinity_add_at(const struct attempt *a, struct domains *d, const struct sched_node *n,
                            struct str key, int64_t by)
{
    const struct str *value = n->api ? api_map_find(&n->api->metadata.labels, key) : NULL;
    if (value)
        *map_put(d, pair_key(a->arena, key, *value)) += by;
}

static void affinity_add_near(const struct attempt *a, struct affinity *f,
                              const struct sched_node *n, struct str key, int64_t by)
{
    const struct str *value = n->api ? api_map_find(&n->api->metadata.labels, key) : NULL;
    if (!value)
        return;
    int64_t *count = map_put(&f->near, pair_key(a->arena, key, *value));
    f->near_len += *count == 0;
    *count += by;
    f->near_len -= *count == 0;
}

static int64_t affinity_count_at(const struct attempt *a, struct domains *d,
                                 const struct sched_node *n, struct str key, bool *ret_has)
{
    const struct str *value = api_map_find(&n->api->metadata.labels, key);
    if (ret_has)
        *ret_has = value != NULL;
    if (!value || !map_len(d))
        return 0;
    struct arena_mark mark = arena_mark(a->arena);
    const int64_t *v = map_get(d, pair_key(a->arena, key, *value));
    int64_t result = v ? *v : 0;
    arena_rewind(a->arena, mark);
    return result;
}

// --- Terms ---------------------------------------------------------------------------------------

static bool in_namespaces(const struct attempt *a, const struct api_pod_affinity_term *t,
                          const struct api_pod *owner, struct str namespace)
{
    if (!t->namespaces.n && !t->namespace_selector)
        return str_eq(owner->metadata.namespace, namespace);
    for (size_t i = 0; i < t->namespaces.n; i++)
        if (str_eq(t->namespaces.p[i], namespace))
            return true;
    if (!t->namespace_selector)
        return false;
    if (!t->namespace_selector->match_labels.n && !t->namespace_selector->match_expressions.n)
        return true;
    struct sched_namespace **ns = map_get(&a->s->cluster.namespaces, namespace);
    return ns && (*ns)->object &&
           labels_match(t->namespace_selector, &(*ns)->object->meta->labels) > 0;
}

static bool keys_agree(const struct api_pod_affinity_term *t, const struct api_pod *owner,
                       const struct api_pod *other)
{
    for (size_t i = 0; i < t->match_label_keys.n; i++) {
        const struct str *mine = api_map_find(&owner->metadata.labels, t->match_label_keys.p[i]);
        const struct str *its = api_map_find(&other->metadata.labels, t->match_label_keys.p[i]);
        if (mine && !(its && str_eq(*mine, *its)))
            return false;
    }
    for (size_t i = 0; i < t->mismatch_label_keys.n; i++) {
        const struct str *mine = api_map_find(&owner->metadata.labels, t->mismatch_label_keys.p[i]);
        const struct str *its = api_map_find(&other->metadata.labels, t->mismatch_label_keys.p[i]);
        if (mine && its && str_eq(*mine, *its))
            return false;
    }
    return true;
}

// Does the term of owner speak of other?
static bool term_matches(const struct attempt *a, const struct api_pod_affinity_term *t,
                         const struct api_pod *owner, const struct api_pod *other)
{
    return in_namespaces(a, t, owner, other->metadata.namespace) &&
           labels_match(t->label_selector, &other->metadata.labels) > 0 &&
           keys_agree(t, owner, other);
}

static bool all_match(const struct attempt *a, const struct api_pod_affinity_term_array *ts,
                      const struct api_pod *owner, const struct api_pod *other)
{
    for (size_t i = 0; i < ts->n; i++)
        if (!term_matches(a, &ts->p[i], owner, other))
            return false;
    return true;
}

static const struct api_pod_affinity *near_of(const struct api_pod *p)
{
    return p->spec.affinity ? p->spec.affinity->pod_affinity : NULL;
}

static const struct api_pod_anti_affinity *far_of(const struct api_pod *p)
{
    return p->spec.affinity ? p->spec.affinity->pod_anti_affinity : NULL;
}

static void affinity_add_preferred(const struct attempt *a, struct domains *d,
                                   const struct api_weighted_pod_affinity_term_array *ts,
                                   const struct api_pod *owner, const struct sched_pod *existing,
                                   int64_t sign)
{
    const struct api_pod *other = owner == a->api ? existing->api : a->api;
    for (size_t i = 0; i < ts->n; i++)
        if (term_matches(a, &ts->p[i].pod_affinity_term, owner, other))
            affinity_add_at(a, d, existing->node, ts->p[i].pod_affinity_term.topology_key,
                            sign * ts->p[i].weight);
}

// --- Counting ------------------------------------------------------------------------------------

// What the terms of an existing pod say about the new one.
static void count_existing(struct attempt *a, struct affinity *f, const struct sched_pod *e)
{
    const struct api_pod_affinity *near = near_of(e->api);
    const struct api_pod_anti_affinity *far = far_of(e->api);
    if (near) {
        const struct api_pod_affinity_term_array *ts =
            &near->required_during_scheduling_ignored_during_execution;
        for (size_t i = 0; i < ts->n; i++)
            if (term_matches(a, &ts->p[i], e->api, a->api))
                affinity_add_at(a, &f->liked, e->node, ts->p[i].topology_key, HARD_AFFINITY_WEIGHT);
        affinity_add_preferred(a, &f->liked,
                               &near->preferred_during_scheduling_ignored_during_execution, e->api,
                               e, 1);
    }
    if (far) {
        const struct api_pod_affinity_term_array *ts =
            &far->required_during_scheduling_ignored_during_execution;
        for (size_t i = 0; i < ts->n; i++)
            if (term_matches(a, &ts->p[i], e->api, a->api))
                affinity_add_at(a, &f->forbidden, e->node, ts->p[i].topology_key, 1);
        affinity_add_preferred(a, &f->liked,
                               &far->preferred_during_scheduling_ignored_during_execution, e->api,
                               e, -1);
    }
}

// What the terms of the new pod say about an existing one.
static void count_own(struct attempt *a, struct affinity *f, const struct sched_pod *e)
{
    const struct api_pod_affinity *near = near_of(a->api);
    const struct api_pod_anti_affinity *far = far_of(a->api);
    if (near) {
        const struct api_pod_affinity_term_array *ts =
            &near->required_during_scheduling_ignored_during_execution;
        if (ts->n && all_match(a, ts, a->api, e->api))
            for (size_t i = 0; i < ts->n; i++)
                affinity_add_near(a, f, e->node, ts->p[i].topology_key, 1);
        affinity_add_preferred(a, &f->liked,
                               &near->preferred_during_scheduling_ignored_during_execution, a->api,
                               e, 1);
    }
    if (far) {
        const struct api_pod_affinity_term_array *ts =
            &far->required_during_scheduling_ignored_during_execution;
        for (size_t i = 0; i < ts->n; i++)
            if (term_matches(a, &ts->p[i], a->api, e->api))
                affinity_add_at(a, &f->far, e->node, ts->p[i].topology_key, 1);
        affinity_add_preferred(a, &f->liked,
                               &far->preferred_during_scheduling_ignored_during_execution, a->api,
                               e, -1);
    }
}

static bool affinity_names_pod(const struct attempt *a, struct str namespace)
{
    const struct api_pod_affinity *near = near_of(a->api);
    const struct api_pod_anti_affinity *far = far_of(a->api);
    const struct api_pod_affinity_term_array *required[] = {
        near ? &near->required_during_scheduling_ignored_during_execution : NULL,
        far ? &far->required_during_scheduling_ignored_during_execution : NULL};
    const struct api_weighted_pod_affinity_term_array *preferred[] = {
        near ? &near->preferred_during_scheduling_ignored_during_execution : NULL,
        far ? &far->preferred_during_scheduling_ignored_during_execution : NULL};
    for (size_t l = 0; l < 2; l++) {
        for (size_t i = 0; required[l] && i < required[l]->n; i++)
            if (in_namespaces(a, &required[l]->p[i], a->api, namespace))
                return true;
        for (size_t i = 0; preferred[l] && i < preferred[l]->n; i++)
            if (in_namespaces(a, &preferred[l]->p[i].pod_affinity_term, a->api, namespace))
                return true;
    }
    return false;
}

void affinity_begin(struct attempt *a)
{
    const struct cluster *c = &a->s->cluster;
    const struct api_pod_affinity *near = near_of(a->api);
    const struct api_pod_anti_affinity *far = far_of(a->api);
    if (!near && !far && list_empty(&c->affine))
        return;
    struct affinity *f = arena_one(a->arena, struct affinity);
    a->affinity = f;
    if (near && near->required_during_scheduling_ignored_during_execution.n)
        f->required = &near->required_during_scheduling_ignored_during_execution;
    if (far && far->required_during_scheduling_ignored_during_execution.n)
        f->anti = &far->required_during_scheduling_ignored_during_execution;
    f->self = f->required && all_match(a, f->required, a->api, a->api);
    for (struct list_node *node = c->affine.head.next; node != &c->affine.head; node = node->next) {
        const struct sched_pod *e = list_entry(node, const struct sched_pod, on.by_affinity);
        if (e != a->pod)
            count_existing(a, f, e);
    }
    map_foreach(&c->namespaces, i) {
        const struct sched_namespace *ns = *map_value(&c->namespaces, i);
        if ((!near && !far) || !affinity_names_pod(a, ns->name))
            continue;
        for (struct list_node *node = ns->pods.head.next; node != &ns->pods.head;
             node = node->next) {
            const struct sched_pod *e = list_entry(node, const struct sched_pod, on.by_namespace);
            if (e != a->pod)
                count_own(a, f, e);
        }
    }
    f->active = f->required || f->anti || map_len(&f->forbidden);
}

// As in Kubernetes, the anti-affinity of a pod that comes in a dry run is overlooked when no rule
// was in force before.
void affinity_update(struct attempt *a, const struct sched_pod *p, const struct sched_node *n,
                     int by)
{
    struct affinity *f = a->affinity;
    const struct api_pod_anti_affinity *far = far_of(p->api);
    const struct api_pod_affinity_term_array *ts =
        far ? &far->required_during_scheduling_ignored_during_execution : NULL;
    if (!f || !f->active || p == a->pod)
        return;
    for (size_t i = 0; ts && i < ts->n; i++)
        if (term_matches(a, &ts->p[i], p->api, a->api))
            affinity_add_at(a, &f->forbidden, n, ts->p[i].topology_key, by);
    if (f->required && all_match(a, f->required, a->api, p->api))
        for (size_t i = 0; i < f->required->n; i++)
            affinity_add_near(a, f, n, f->required->p[i].topology_key, by);
    for (size_t i = 0; f->anti && i < f->anti->n; i++)
        if (term_matches(a, &f->anti->p[i], a->api, p->api))
            affinity_add_at(a, &f->far, n, f->anti->p[i].topology_key, by);
}

void affinity_end(struct attempt *a)
{
    if (!a->affinity)
        return;
    map_done(&a->affinity->near);
    map_done(&a->affinity->far);
    map_done(&a->affinity->forbidden);
    map_done(&a->affinity->liked);
}

// --- One node ------------------------------------------------------------------------------------

static bool near_enough(const struct attempt *a, const struct sched_node *n)
{
    struct affinity *f = a->affinity;
    const struct api_pod_affinity_term_array *ts = f->required;
    bool all = true;
    for (size_t i = 0; i < ts->n; i++) {
        bool has;
        all &= affinity_count_at(a, &f->near, n, ts->p[i].topology_key, &has) > 0;
        if (!has)
            return false;
    }
    // The first of a group that wants to be together has no pod to be near.
    return all || (f->near_len == 0 && f->self);
}

static bool far_enough(const struct attempt *a, const struct sched_node *n)
{
    const struct api_pod_affinity_term_array *ts = a->affinity->anti;
    for (size_t i = 0; i < ts->n; i++)
        if (affinity_count_at(a, &a->affinity->far, n, ts->p[i].topology_key, NULL) > 0)
            return false;
    return true;
}

// The sum of all domains that the node is in. There may be one for each node, so they are not gone
// through if the node has fewer labels.
static int64_t sum_at(const struct attempt *a, struct domains *d, const struct sched_node *n)
{
    const struct api_str_map *labels = &n->api->metadata.labels;
    int64_t sum = 0;
    if (map_len(d) > labels->n) {
        for (size_t i = 0; i < labels->n; i++)
            sum += affinity_count_at(a, d, n, labels->p[i].key, NULL);
        return sum;
    }
    map_foreach(d, i) {
        struct str key;
        struct str value;
        (void)str_cut(map_key(d, i), '\0', &key, &value);
        const struct str *have = api_map_find(labels, key);
        if (have && str_eq(*have, value))
            sum += *map_value(d, i);
    }
    return sum;
}

enum why affinity_filter(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    const struct affinity *f = a->affinity;
    struct refusal r = {0};
    if (!f)
        return WHY_NONE;
    if (f->required && !near_enough(a, n))
        r.code = REFUSED_AFFINITY;
    else if (f->anti && !far_enough(a, n))
        r.code = REFUSED_ANTI_AFFINITY;
    else if (map_len(&f->forbidden) && sum_at(a, &a->affinity->forbidden, n) > 0)
        r.code = REFUSED_OTHERS_ANTI_AFFINITY;
    else
        return WHY_NONE;
    refusal_add(a, why, r);
    return WHY_POD_AFFINITY;
}

bool affinity_scores(const struct attempt *a)
{
    return a->affinity && map_len(&a->affinity->liked);
}

int64_t affinity_score(const struct attempt *a, const struct sched_node *n)
{
    return sum_at(a, &a->affinity->liked, n);
}

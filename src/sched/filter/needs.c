// SPDX-License-Identifier: Apache-2.0
//
// What a pod asks of a node.
#include "sched/core/cluster.h"

#include "base/banned.h"

// For scoring, containers that ask for nothing count as if they requested this.
#define NONZERO_MILLI_CPU INT64_C(100)
#define NONZERO_MEMORY    (INT64_C(200) * 1024 * 1024)

static int64_t amount_of_entry(uint32_t res, const struct quantity *q)
{
    int64_t v = res == RES_CPU ? quantity_milli(q) : quantity_value(q);
    return v < 0 ? 0 : v;
}

static int64_t *needs_slot(struct amount_vec *v, uint32_t res)
{
    while (v->n <= res)
        vec_push(v, 0);
    return &v->p[res];
}

static void needs_add_list(struct cluster *c, struct amount_vec *to,
                           const struct api_quantity_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        uint32_t res = cluster_resource_asked(c, m->p[i].key);
        int64_t *s = needs_slot(to, res);
        *s = amount_add(*s, amount_of_entry(res, &m->p[i].value));
    }
}

static void needs_add_all(struct amount_vec *to, const struct amount_vec *v)
{
    for (uint32_t r = 0; r < v->n; r++)
        *needs_slot(to, r) = amount_add(amount_at(to, r), v->p[r]);
}

static void take_most(struct amount_vec *to, const struct amount_vec *v)
{
    for (uint32_t r = 0; r < v->n; r++)
        if (v->p[r] > amount_at(to, r))
            *needs_slot(to, r) = v->p[r];
}

static bool needs_has_key(const struct api_quantity_map *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eqz(m->p[i].key, key))
            return true;
    return false;
}

static bool needs_same_map(const struct api_quantity_map *a, const struct api_quantity_map *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!str_eq(a->p[i].key, b->p[i].key) || quantity_cmp(&a->p[i].value, &b->p[i].value))
            return false;
    return true;
}

// What the node reports of a container that runs; NULL: nothing, or what it asks for. They mostly
// are in one order.
static const struct api_container_status *needs_resized_status(
    const struct api_container_status_array *all, size_t at, const struct api_container *k)
{
    const struct api_container_status *s =
        at < all->n && str_eq(all->p[at].name, k->name) ? &all->p[at] : NULL;
    for (size_t i = 0; i < all->n && !s; i++)
        if (str_eq(all->p[i].name, k->name))
            s = &all->p[i];
    if (!s || !s->resources)
        return NULL;
    const struct api_quantity_map *asked = &k->resources.requests;
    return needs_same_map(asked, &s->resources->requests) &&
                   needs_same_map(asked, &s->allocated_resources)
               ? NULL
               : s;
}

static bool resize_infeasible(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodResizePending"))
            return str_eqz(pod->status.conditions.p[i].reason, "Infeasible");
    return false;
}

// A container that is being resized counts with the most of what it is to have, was promised and
// has. What its node will never give it does not count.
static void add_resized(struct cluster *c, struct amount_vec *to, const struct api_pod *pod,
                        const struct api_container *k, const struct api_container_status *s)
{
    struct amount_vec most = {0};
    struct amount_vec one = {0};
    needs_add_list(c, &most, &s->resources->requests);
    needs_add_list(c, &one, &s->allocated_resources);
    take_most(&most, &one);
    vec_clear(&one);
    if (!resize_infeasible(pod))
        needs_add_list(c, &one, &k->resources.requests);
    take_most(&most, &one);
    needs_add_all(to, &most);
    vec_done(&most);
    vec_done(&one);
}

static void needs_add_container(struct cluster *c, struct amount_vec *to, const struct api_pod *pod,
                                const struct api_container *k, const struct api_container_status *s,
                                bool nonzero)
{
    if (s)
        add_resized(c, to, pod, k, s);
    else
        needs_add_list(c, to, &k->resources.requests);
    if (!nonzero)
        return;
    if (!needs_has_key(&k->resources.requests, "cpu"))
        *needs_slot(to, RES_CPU) = amount_add(amount_at(to, RES_CPU), NONZERO_MILLI_CPU);
    if (!needs_has_key(&k->resources.requests, "memory"))
        *needs_slot(to, RES_MEMORY) = amount_add(amount_at(to, RES_MEMORY), NONZERO_MEMORY);
}

// Init containers run one by one, beside the sidecars started before them.
static void needs_add_containers(struct cluster *c, const struct api_pod *pod,
                                 struct amount_vec *sum, bool nonzero)
{
    const struct api_pod_spec *spec = &pod->spec;
    const struct api_pod_status *status = &pod->status;
    struct amount_vec sidecars = {0};
    struct amount_vec most = {0};
    for (size_t i = 0; i < spec->containers.n; i++)
        needs_add_container(
            c, sum, pod, &spec->containers.p[i],
            needs_resized_status(&status->container_statuses, i, &spec->containers.p[i]), nonzero);
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        const struct api_container *k = &spec->init_containers.p[i];
        bool lasts = k->has_restart_policy && str_eqz(k->restart_policy, "Always");
        struct amount_vec own = {0};
        needs_add_container(
            c, &own, pod, k,
            lasts ? needs_resized_status(&status->init_container_statuses, i, k) : NULL, nonzero);
        if (lasts) {
            needs_add_all(sum, &own);
            needs_add_all(&sidecars, &own);
            take_most(&most, &sidecars);
        } else {
            needs_add_all(&own, &sidecars);
            take_most(&most, &own);
        }
        vec_done(&own);
    }
    take_most(sum, &most);
    vec_done(&sidecars);
    vec_done(&most);
}

static bool needs_pod_level(struct str name)
{
    return str_eqz(name, "cpu") || str_eqz(name, "memory") || str_starts(name, STR("hugepages-"));
}

static void add_pod_level(struct cluster *c, const struct api_pod_spec *spec,
                          struct amount_vec *sum)
{
    const struct api_quantity_map *m = spec->resources ? &spec->resources->requests : NULL;
    for (size_t i = 0; m && i < m->n; i++)
        if (needs_pod_level(m->p[i].key)) {
            uint32_t res = cluster_resource_asked(c, m->p[i].key);
            *needs_slot(sum, res) = amount_of_entry(res, &m->p[i].value);
        }
}

// What devices take of the node's own resources, as recorded when the pod was placed.
static void add_node_allocatable(struct cluster *c,
                                 const struct api_node_allocatable_resource_claim_status_array *all,
                                 struct amount_vec *sum)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct api_node_allocatable_resource_claim_status *s = &all->p[i];
        for (size_t k = 0; k < s->mapping.n; k++)
            if (s->mapping.p[k].quantity) {
                uint32_t res = cluster_resource_asked(c, s->mapping.p[k].name);
                *needs_slot(sum, res) =
                    amount_add(amount_at(sum, res), amount_of_entry(res, s->mapping.p[k].quantity));
            }
        for (size_t k = 0; k < s->overhead.n; k++) {
            const struct api_node_allocatable_overhead_resources *o = &s->overhead.p[k];
            uint32_t res = cluster_resource_asked(c, o->name);
            if (o->per_pod)
                *needs_slot(sum, res) =
                    amount_add(amount_at(sum, res), amount_of_entry(res, o->per_pod));
            for (size_t n = 0; o->per_container && n < s->containers.n; n++)
                *needs_slot(sum, res) =
                    amount_add(amount_at(sum, res), amount_of_entry(res, o->per_container));
        }
    }
}

enum needs_what { NEEDS_REAL, NEEDS_NONZERO, NEEDS_NONZERO_OWN };

static void needs_sum_up(struct cluster *c, const struct api_pod *pod,
                         const struct api_node_allocatable_resource_claim_status_array *devices,
                         struct amount_vec *sum, enum needs_what what)
{
    needs_add_containers(c, pod, sum, what != NEEDS_REAL);
    if (what != NEEDS_NONZERO_OWN)
        add_pod_level(c, &pod->spec, sum);
    add_node_allocatable(c, devices, sum);
    needs_add_list(c, sum, &pod->spec.overhead);
}

void needs_of_pod(struct cluster *c, struct sched_pod *p,
                  const struct api_node_allocatable_resource_claim_status_array *devices)
{
    struct amount_vec sum = {0};
    struct amount_vec score = {0};
    struct need_vec VEC(struct pod_need) needs = {0};
    if (!devices)
        devices = &p->api->status.node_allocatable_resource_claim_statuses;
    needs_sum_up(c, p->api, devices, &sum, NEEDS_REAL);
    needs_sum_up(c, p->api, devices, &score, NEEDS_NONZERO);
    *needs_slot(&sum, RES_PODS) = 1;
    for (uint32_t r = 0; r < sum.n; r++)
        if (sum.p[r])
            vec_push(&needs, (struct pod_need){r, sum.p[r]});
    p->nonzero[0] = amount_at(&score, RES_CPU);
    p->nonzero[1] = amount_at(&score, RES_MEMORY);
    if (p->api->spec.resources) {
        vec_clear(&score);
        needs_sum_up(c, p->api, devices, &score, NEEDS_NONZERO_OWN);
    }
    p->nonzero_own[0] = amount_at(&score, RES_CPU);
    p->nonzero_own[1] = amount_at(&score, RES_MEMORY);
    free(p->needs);
    p->needs = needs.p;
    p->needs_len = needs.n;
    p->strange = amount_at(&sum, RES_STRANGE) > 0;
    vec_done(&sum);
    vec_done(&score);
}

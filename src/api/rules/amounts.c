// SPDX-License-Identifier: Apache-2.0
//
// A pod may name tens of thousands of resources, in as many containers: whatever is done to all of
// them takes time and memory that grow with their number, not with its square.
#include "api/amounts.h"

#include <stdlib.h>

#include "base/banned.h"

static size_t amounts_lower_bound(const struct api_quantity_map *m, struct str key)
{
    size_t from = 0, to = m->n;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (str_cmp(m->p[middle].key, key) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

const struct quantity *amounts_get(const struct api_quantity_map *m, struct str key)
{
    size_t at = amounts_lower_bound(m, key);
    return at < m->n && str_eq(m->p[at].key, key) ? &m->p[at].value : NULL;
}

void amounts_set(struct api_quantity_map *m, struct str key, const struct quantity *q,
                 struct arena *arena)
{
    const struct api_quantity_map one = {&(struct api_quantity_entry){key, *q}, 1};
    amounts_put(m, &one, arena);
}

static int amounts_compare_keys(const void *a, const void *b)
{
    const struct api_quantity_entry *x = a, *y = b;
    return str_cmp(x->key, y->key);
}

struct api_quantity_map amounts_sorted(const struct amounts *all)
{
    if (all->n)
        qsort(all->p, all->n, sizeof(all->p[0]), amounts_compare_keys);
    return (struct api_quantity_map){all->p, all->n};
}

// --- Two maps ------------------------------------------------------------------------------------

// join makes one map of two; of a name that both have, combine makes the value.
typedef struct quantity combine_fn(const struct quantity *a, const struct quantity *b,
                                   struct arena *arena);

static void amounts_merge(struct api_quantity_map *a, const struct api_quantity_map *b,
                          combine_fn *combine, struct arena *arena)
{
    if (b->n == 0)
        return;
    // The entries may be somebody else's.
    struct api_quantity_entry *all = arena_array(arena, struct api_quantity_entry, a->n + b->n);
    size_t n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n) {
        int order = i == a->n ? 1 : k == b->n ? -1 : str_cmp(a->p[i].key, b->p[k].key);
        struct api_quantity_entry e = order <= 0 ? a->p[i++] : b->p[k++];
        if (order == 0)
            e.value = combine(&e.value, &b->p[k++].value, arena);
        all[n++] = e;
    }
    *a = (struct api_quantity_map){all, n};
}

static struct quantity amounts_pick_second(const struct quantity *a, const struct quantity *b,
                                           struct arena *arena)
{
    (void)a;
    (void)arena;
    return *b;
}

static struct quantity amounts_pick_sum(const struct quantity *a, const struct quantity *b,
                                        struct arena *arena)
{
    struct quantity both = *b;
    quantity_add(&both, a, b, arena);
    return both;
}

static struct quantity amounts_pick_larger(const struct quantity *a, const struct quantity *b,
                                           struct arena *arena)
{
    (void)arena;
    return quantity_cmp(a, b) < 0 ? *b : *a;
}

void amounts_put(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena)
{
    amounts_merge(a, b, amounts_pick_second, arena);
}

void amounts_add(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena)
{
    amounts_merge(a, b, amounts_pick_sum, arena);
}

void amounts_most(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena)
{
    amounts_merge(a, b, amounts_pick_larger, arena);
}

bool amounts_same(const struct api_quantity_map *a, const struct api_quantity_map *b)
{
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same =
            str_eq(a->p[i].key, b->p[i].key) && quantity_cmp(&a->p[i].value, &b->p[i].value) == 0;
    return same;
}

void amounts_write(const struct api_quantity_map *m, struct sbuf *out)
{
    for (size_t i = 0; i < m->n; i++) {
        sbuf_addf(out, "%s%.*s=", i ? "," : "", STR_ARG(m->p[i].key));
        quantity_write(&m->p[i].value, out);
    }
}

// --- Pods ----------------------------------------------------------------------------------------

// What one container needs of one resource.
struct share {
    struct str key;
    const struct quantity *amount;
    size_t order;                      // of those with the same key
    enum { RUNS, STARTS, STAYS } when; // with all others, before them, from its start on
};
struct shares VEC(struct share);

// What is known of one resource: needed by all containers together, by init containers that stay,
// and at the most while init containers start one after another.
struct need {
    struct quantity all, staying, start;
    bool has_all, has_staying, has_start;
};

static const struct api_quantity_map *amounts_requirements_part(
    const struct api_resource_requirements *r, bool limits)
{
    return limits ? &r->limits : &r->requests;
}

static void add_shares(struct shares *all, const struct api_container_array *list, bool init,
                       bool limits, struct arena *arena)
{
    for (size_t i = 0; i < list->n; i++) {
        const struct api_container *c = &list->p[i];
        const struct api_quantity_map *m = amounts_requirements_part(&c->resources, limits);
        bool stays = c->has_restart_policy && str_eqz(c->restart_policy, "Always");
        for (size_t k = 0; k < m->n; k++) {
            const struct share s = {.key = m->p[k].key,
                                    .amount = &m->p[k].value,
                                    .order = all->n,
                                    .when = !init   ? RUNS
                                            : stays ? STAYS
                                                    : STARTS};
            vec_push_arena(arena, all, s);
        }
    }
}

static int by_key_and_order(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    int c = str_cmp(x->key, y->key);
    return c ? c : (x->order > y->order) - (x->order < y->order);
}

static void amounts_add_quantity(struct quantity *to, bool *has, const struct quantity *q,
                                 struct arena *arena)
{
    *to = *has ? amounts_pick_sum(to, q, arena) : *q;
    *has = true;
}

static void raise_to(struct quantity *to, bool *has, const struct quantity *q)
{
    *to = *has ? amounts_pick_larger(to, q, NULL) : *q;
    *has = true;
}

static void amounts_add_share(struct need *n, const struct share *s, struct arena *arena)
{
    struct quantity now = *s->amount;
    if (s->when != STARTS)
        amounts_add_quantity(&n->all, &n->has_all, s->amount, arena);
    if (s->when == STAYS) {
        amounts_add_quantity(&n->staying, &n->has_staying, s->amount, arena);
        now = n->staying;
    } else if (n->has_staying) {
        now = amounts_pick_sum(s->amount, &n->staying, arena);
    }
    if (s->when != RUNS)
        raise_to(&n->start, &n->has_start, &now);
}

// What stays needs no less while a container without a share starts, so only those with one are
// looked at.
struct api_quantity_map container_amounts(const struct api_pod_spec *spec, bool limits,
                                          struct arena *arena)
{
    struct shares shares = {0};
    struct amounts all = {0};
    add_shares(&shares, &spec->containers, false, limits, arena);
    add_shares(&shares, &spec->init_containers, true, limits, arena);
    if (shares.n)
        qsort(shares.p, shares.n, sizeof(shares.p[0]), by_key_and_order);
    for (size_t i = 0; i < shares.n;) {
        struct need n = {0};
        struct str key = shares.p[i].key;
        for (; i < shares.n && str_eq(shares.p[i].key, key); i++)
            amounts_add_share(&n, &shares.p[i], arena);
        if (n.has_start)
            raise_to(&n.all, &n.has_all, &n.start);
        vec_push_arena(arena, &all, ((struct api_quantity_entry){key, n.all}));
    }
    return (struct api_quantity_map){all.p, all.n};
}

// Amounts of the pod as a whole take precedence over those of its containers.
static void amounts_override(struct api_quantity_map *all,
                             const struct api_resource_requirements *own, bool limits,
                             struct arena *arena)
{
    const struct api_quantity_map *m = own ? amounts_requirements_part(own, limits) : NULL;
    struct amounts named = {0};
    for (size_t i = 0; m && i < m->n; i++) {
        struct str key = m->p[i].key;
        if (str_eqz(key, "cpu") || str_eqz(key, "memory") || str_starts(key, STR("hugepages-")))
            vec_push_arena(arena, &named, m->p[i]);
    }
    amounts_put(all, &(struct api_quantity_map){named.p, named.n}, arena);
}

struct api_quantity_map pod_amounts(const struct api_pod *pod, bool limits, struct arena *arena)
{
    struct api_quantity_map all = container_amounts(&pod->spec, limits, arena);
    amounts_override(&all, pod->spec.resources, limits, arena);
    return all;
}

struct api_quantity_map pod_with_overhead(const struct api_pod *pod, bool limits,
                                          struct arena *arena)
{
    struct api_quantity_map all = pod_amounts(pod, limits, arena);
    const struct api_quantity_map *overhead = &pod->spec.overhead;
    struct amounts over = {0};
    // What has no limit gets none.
    for (size_t i = 0; i < overhead->n; i++)
        if (!limits || amounts_get(&all, overhead->p[i].key))
            vec_push_arena(arena, &over, overhead->p[i]);
    amounts_add(&all, &(struct api_quantity_map){over.p, over.n}, arena);
    return all;
}

// SPDX-License-Identifier: Apache-2.0
#include "api/amounts.h"

#include "base/banned.h"

static size_t place(const struct api_quantity_map *m, struct str key)
{
    size_t at = 0;
    while (at < m->n && str_cmp(m->p[at].key, key) < 0)
        at++;
    return at;
}

const struct quantity *amounts_get(const struct api_quantity_map *m, struct str key)
{
    size_t at = place(m, key);
    return at < m->n && str_eq(m->p[at].key, key) ? &m->p[at].value : NULL;
}

void amounts_set(struct api_quantity_map *m, struct str key, const struct quantity *q,
                 struct arena *arena)
{
    size_t at = place(m, key);
    bool there = at < m->n && str_eq(m->p[at].key, key);
    // The entries may be somebody else's.
    struct api_quantity_entry *all = arena_array(arena, struct api_quantity_entry, m->n + 1);
    for (size_t i = 0; i < m->n; i++)
        all[i < at || there ? i : i + 1] = m->p[i];
    all[at] = (struct api_quantity_entry){key, *q};
    *m = (struct api_quantity_map){all, m->n + (there ? 0 : 1)};
}

void amounts_add(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct quantity *have = amounts_get(a, b->p[i].key);
        struct quantity sum = b->p[i].value;
        if (have)
            quantity_add(&sum, have, &b->p[i].value, arena);
        amounts_set(a, b->p[i].key, &sum, arena);
    }
}

void amounts_most(struct api_quantity_map *a, const struct api_quantity_map *b, struct arena *arena)
{
    for (size_t i = 0; i < b->n; i++) {
        const struct quantity *have = amounts_get(a, b->p[i].key);
        if (!have || quantity_cmp(have, &b->p[i].value) < 0)
            amounts_set(a, b->p[i].key, &b->p[i].value, arena);
    }
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

static const struct api_quantity_map *part(const struct api_resource_requirements *r, bool limits)
{
    return limits ? &r->limits : &r->requests;
}

static struct api_quantity_map containers(const struct api_pod_spec *spec, bool limits,
                                          struct arena *arena)
{
    struct api_quantity_map all = {0}, start = {0}, staying = {0};
    for (size_t i = 0; i < spec->containers.n; i++)
        amounts_add(&all, part(&spec->containers.p[i].resources, limits), arena);
    for (size_t i = 0; i < spec->init_containers.n; i++) {
        const struct api_container *c = &spec->init_containers.p[i];
        struct api_quantity_map now = {0};
        if (c->has_restart_policy && str_eqz(c->restart_policy, "Always")) {
            amounts_add(&all, part(&c->resources, limits), arena);
            amounts_add(&staying, part(&c->resources, limits), arena);
            now = staying;
        } else {
            amounts_add(&now, part(&c->resources, limits), arena);
            amounts_add(&now, &staying, arena);
        }
        amounts_most(&start, &now, arena);
    }
    amounts_most(&all, &start, arena);
    return all;
}

static void override(struct api_quantity_map *all, const struct api_resource_requirements *own,
                     bool limits, struct arena *arena)
{
    const struct api_quantity_map *m = own ? part(own, limits) : NULL;
    for (size_t i = 0; m && i < m->n; i++) {
        struct str key = m->p[i].key;
        if (str_eqz(key, "cpu") || str_eqz(key, "memory") || str_starts(key, STR("hugepages-")))
            amounts_set(all, key, &m->p[i].value, arena);
    }
}

struct api_quantity_map pod_amounts(const struct api_pod *pod, bool limits, struct arena *arena)
{
    struct api_quantity_map all = containers(&pod->spec, limits, arena);
    override(&all, pod->spec.resources, limits, arena);
    return all;
}

struct api_quantity_map pod_with_overhead(const struct api_pod *pod, bool limits,
                                          struct arena *arena)
{
    struct api_quantity_map all = pod_amounts(pod, limits, arena), over = {0};
    // What has no limit gets none.
    for (size_t i = 0; i < pod->spec.overhead.n; i++)
        if (!limits || amounts_get(&all, pod->spec.overhead.p[i].key))
            amounts_set(&over, pod->spec.overhead.p[i].key, &pod->spec.overhead.p[i].value, arena);
    amounts_add(&all, &over, arena);
    return all;
}

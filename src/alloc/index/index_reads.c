// SPDX-License-Identifier: Apache-2.0
//
// What expressions read of devices, and looking at all devices again when that is more than before.
#include "alloc/index/index_int.h"
#include "alloc/model/answer.h"

#include "base/banned.h"

// --- What expressions read -----------------------------------------------------------------------

// Names of attributes fit; an expression may have others.
#define NAMES_MAX 128

bool index_reads_has(const struct index *x, struct str domain, struct str name)
{
    char names[NAMES_MAX];
    if (x->read.list.n > READS_FEW && domain.n + name.n < sizeof(names)) {
        memcpy(names, domain.p ? domain.p : "", domain.n);
        names[domain.n] = '\0';
        memcpy(names + domain.n + 1, name.p ? name.p : "", name.n);
        return map_has(&x->read.names, str_make(names, domain.n + 1 + name.n));
    }
    for (size_t i = 0; i < x->read.list.n; i++)
        if (str_eq(x->read.list.p[i].domain, domain) && str_eq(x->read.list.p[i].name, name))
            return true;
    return false;
}

static void index_reads_on_attribute(void *arg, struct str domain, struct str name)
{
    struct index *x = arg;
    if (x->read.all || index_reads_has(x, domain, name))
        return;
    if (x->read.list.n == READS_MAX) {
        x->read.all = true;
        return;
    }
    char *p = arena_alloc(&x->arena, domain.n + 1 + name.n, 1);
    memcpy(p, domain.p ? domain.p : "", domain.n);
    memcpy(p + domain.n + 1, name.p ? name.p : "", name.n);
    struct str both = str_make(p, domain.n + 1 + name.n);
    *map_put(&x->read.names, both) = true;
    vec_push(&x->read.list,
             (struct index_read){str_upto(both, domain.n), str_from(both, domain.n + 1)});
}

// An expression that does not compile fails on every device.
static void read_expression(struct index *x, const struct cel_env *env, struct str text)
{
    struct cel_program *p = NULL;
    if (cel_cache_get(x->kit->cache, env, text, &p, NULL, NULL) < 0)
        return;
    bool told = cel_program_reads(p, index_reads_on_attribute, x);
    x->read.all |= !told;
    if (env == x->kit->env) // values of derived attributes are not kept
        answer_learn(x->kit->answers, text, x->read.all ? UINT32_MAX : (uint32_t)x->read.list.n);
    cel_program_free(p);
}

static void index_reads_add_selectors(struct index *x, const struct api_device_selector_array *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->p[i].cel)
            read_expression(x, x->kit->env, s->p[i].cel->expression);
}

static void read_derived(struct index *x, const struct api_device_derived_attribute_array *d)
{
    for (size_t i = 0; i < d->n; i++)
        read_expression(x, x->kit->derived_env, d->p[i].expression);
}

static void index_reads_add_name(struct index *x, struct str attribute)
{
    struct str domain;
    struct str name;
    if (attribute.n && str_cut(attribute, '/', &domain, &name))
        index_reads_on_attribute(x, domain, name);
    else if (attribute.n)
        x->read.all = true; // its domain is each driver's own
}

static void index_reads_add_claim(struct index *x, const struct api_device_claim *c)
{
    for (size_t i = 0; i < c->requests.n; i++) {
        const struct api_device_request *r = &c->requests.p[i];
        if (r->exactly) {
            index_reads_add_selectors(x, &r->exactly->selectors);
            read_derived(x, &r->exactly->derived_attributes);
        }
        for (size_t k = 0; k < r->first_available.n; k++) {
            index_reads_add_selectors(x, &r->first_available.p[k].selectors);
            read_derived(x, &r->first_available.p[k].derived_attributes);
        }
    }
    for (size_t i = 0; i < c->constraints.n; i++) {
        index_reads_add_name(x, c->constraints.p[i].match_attribute);
        index_reads_add_name(x, c->constraints.p[i].distinct_attribute);
    }
}

bool index_reads_class(struct index *x, const struct api_device_class *c)
{
    size_t reads = x->read.list.n;
    bool all = x->read.all;
    index_reads_add_selectors(x, &c->spec.selectors);
    return x->read.list.n != reads || x->read.all != all;
}

bool index_reads_claims(struct index *x, const struct api_resource_claim *const *claims, size_t n)
{
    size_t reads = x->read.list.n;
    bool all = x->read.all;
    for (size_t i = 0; i < n; i++)
        index_reads_add_claim(x, &claims[i]->spec.devices);
    return x->read.list.n != reads || x->read.all != all;
}

// --- Looking again -------------------------------------------------------------------------------

void index_stale(struct index *x)
{
    x->read.rekeys++;
    x->read.stale = x->pools.index.used;
}

bool index_reads_grow(const struct index *x, const struct index_slice *s)
{
    if (x->read.all)
        return !s->read_all;
    for (size_t i = s->reads; i < x->read.list.n; i++)
        if (s->qualified || str_eq(x->read.list.p[i].domain, s->api->spec.driver))
            return true;
    return false;
}

static void index_reads_rehash_pool(struct index *x, struct index_pool *p)
{
    bool changed = false;
    for (size_t i = 0; i < p->slices.n; i++) {
        struct index_slice *s = p->slices.p[i];
        if (!index_reads_grow(x, s))
            continue;
        changed = true;
        index_key_devices(x, s);
    }
    if (!changed)
        return;
    index_key_pool(p);
    if (p->node)
        index_place_own(x, p->node);
    else if (p->shared)
        index_place_shared(x, p);
}

void index_expect(struct index *x, const struct api_resource_claim *claim)
{
    if (index_reads_claims(x, &claim, 1))
        index_stale(x);
}

// From the end to the beginning: what moves when pools go, goes towards the beginning, and what
// comes comes at the end and has been looked at.
bool index_catch_up(struct index *x, size_t most)
{
    for (; x->read.stale && most; most--) {
        size_t i = --x->read.stale;
        if (i < x->pools.index.used && x->pools.index.entries[i].live)
            index_reads_rehash_pool(x, *map_value(&x->pools, i));
    }
    if (!x->read.stale)
        x->read.rekeyed = x->read.rekeys;
    return x->read.stale > 0;
}

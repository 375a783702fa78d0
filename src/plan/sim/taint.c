// SPDX-License-Identifier: Apache-2.0
//
// DeviceTaintRules from words, and what they would do: the eviction controller decides, on a copy
// of the world in memory.
#include "plan/taint.h"

#include "api/match/device_taint.h"
#include "api/match/taint.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

int taint_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
                struct err *err)
{
    return taint_rule_parse(text, arena, ret, err);
}

// --- What rules do -------------------------------------------------------------------------------

// Pods that the controller evicts, by NAMESPACE/NAME, with the seconds until then.
struct taint_evicted MAP(int64_t);

// taint_simulate lets the controller of device taints loose on a copy of the world with the rules.
static void taint_simulate(const struct inventory *inv, const struct taint_rules *rules,
                           const struct clock *clock, struct arena *arena,
                           struct taint_evicted *ret)
{
    struct sim s;
    struct plan p = {.world = inv->world};
    size_t notes = p.world->notes.n; // what is noted about files is not for this answer
    sim_start(&s, NULL, clock ? clock_wall_ns(clock) : SIM_FIXED_WALL_NS);
    sim_load_world(&p, &s, NULL, NULL);
    p.world->notes.n = notes;
    for (size_t i = 0; i < rules->n; i++) {
        struct api_device_taint_rule rule = *rules->p[i];
        rule.metadata.name = arena_strf(arena, "rule %zu", i);
        sim_load_rule(&s, &rule);
    }
    sim_evict(&s);
    vec_foreach(&s.evictions, e) {
        struct str name = world_full_name(arena, e->pod->meta->namespace, e->pod->meta->name);
        *map_put(ret, name) = e->after_s;
    }
    sim_end(&s);
    vec_done(&p.nodes);
    arena_done(&p.arena);
}

// taint_hit_of is what happens to the pods of a claim: those that go first count.
static struct taint_hit taint_hit_of(const struct inventory *inv, uint32_t hold,
                                     const struct taint_evicted *evicted, struct arena *arena)
{
    const struct api_resource_claim *c = inv->claims[inv->holds[hold].claim].claim;
    struct taint_hit hit = {.hold = hold, .tolerates = true};
    for (size_t i = 0; i < c->status.reserved_for.n; i++) {
        const int64_t *after = map_get(evicted, world_full_name(arena, c->metadata.namespace,
                                                                c->status.reserved_for.p[i].name));
        if (!after || (!hit.tolerates && *after > 0))
            continue;
        if (*after == 0)
            hit = (struct taint_hit){.hold = hold};
        else if (!hit.for_a_while || *after < hit.seconds)
            hit = (struct taint_hit){
                .hold = hold, .tolerates = true, .for_a_while = true, .seconds = *after};
    }
    return hit;
}

static void taint_find_one(const struct inventory *inv, const struct api_device_taint_rule *rule,
                           const struct taint_evicted *evicted, struct arena *arena,
                           struct taint_effect *ret)
{
    const struct api_device_taint_selector *s = rule->spec.device_selector;
    struct VEC(uint32_t) devices = {0};
    struct VEC(struct taint_hit) hits = {0};
    bool *told = arena_array(arena, bool, inv->claims_len + 1);
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        if (!device_taint_selects(s, d->id.driver, d->id.pool, &d->id.device))
            continue;
        vec_push_arena(arena, &devices, (uint32_t)i);
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
            uint32_t claim = inv->holds[k].claim;
            if (!told[claim])
                vec_push_arena(arena, &hits, taint_hit_of(inv, k, evicted, arena));
            told[claim] = true;
        }
    }
    *ret = (struct taint_effect){.rule = rule,
                                 .devices = devices.p,
                                 .devices_len = devices.n,
                                 .hits = hits.p,
                                 .hits_len = hits.n,
                                 .evicts = taint_is_evicting(rule->spec.taint.effect)};
}

void taint_find(const struct inventory *inv, const struct taint_rules *rules,
                const struct clock *clock, struct arena *arena, struct taint_effect *ret)
{
    struct taint_evicted evicted = {0};
    bool evicts = false;
    for (size_t i = 0; i < rules->n; i++)
        evicts |= taint_is_evicting(rules->p[i]->spec.taint.effect);
    if (evicts)
        taint_simulate(inv, rules, clock, arena, &evicted);
    for (size_t i = 0; i < rules->n; i++)
        taint_find_one(inv, rules->p[i], &evicted, arena, &ret[i]);
    map_done(&evicted);
}

// --- Rules for a class ---------------------------------------------------------------------------

struct of_driver {
    size_t all, picked;
};

struct drivers_of MAP(struct of_driver);

static struct api_device_taint_rule *rule_for(struct arena *arena,
                                              const struct api_device_taint *taint,
                                              const struct alloc_device_id *id)
{
    struct api_device_taint_rule *rule = arena_one(arena, struct api_device_taint_rule);
    struct api_device_taint_selector *s = arena_one(arena, struct api_device_taint_selector);
    *s = (struct api_device_taint_selector){.driver = id->driver,
                                            .pool = id->pool,
                                            .device = id->device,
                                            .has_driver = true,
                                            .has_pool = id->pool.n > 0,
                                            .has_device = id->device.n > 0};
    rule->spec.device_selector = s;
    rule->spec.taint = *taint;
    return rule;
}

static bool taint_is_of_class(const struct inventory *inv, size_t device, struct str class_name)
{
    return alloc_cluster_selects(inv->cluster, class_name, inv->devices[device].number) ==
           ALLOC_SELECTS_YES;
}

int taint_of_class(const struct inventory *inv, struct str class_name,
                   const struct api_device_taint *taint, struct arena *arena,
                   struct taint_rules *ret, struct err *err)
{
    struct drivers_of drivers = {0};
    struct VEC(struct api_device_taint_rule *) rules = {0};
    for (size_t i = 0; i < inv->devices_len; i++) {
        struct of_driver *d = map_put(&drivers, inv->devices[i].id.driver);
        d->all++;
        d->picked += taint_is_of_class(inv, i, class_name);
    }
    map_foreach(&drivers, i) {
        assert(drivers.values);
        const struct of_driver *d = map_value(&drivers, i);
        const struct alloc_device_id whole = {.driver = map_key(&drivers, i)};
        if (d->picked && d->picked == d->all)
            vec_push_arena(arena, &rules, rule_for(arena, taint, &whole));
    }
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct of_driver *d = map_get(&drivers, inv->devices[i].id.driver);
        if (d && d->picked < d->all && taint_is_of_class(inv, i, class_name))
            vec_push_arena(arena, &rules, rule_for(arena, taint, &inv->devices[i].id));
    }
    map_done(&drivers);
    *ret = (struct taint_rules){rules.p, rules.n};
    return rules.n ? 0
                   : err_set(err, ERR_NOT_FOUND, "no device is of class %.*s", STR_ARG(class_name));
}

// --- Rules and selectors by words ----------------------------------------------------------------

static struct str taint_selector_text(const struct api_device_taint_selector *s,
                                      struct arena *arena)
{
    return arena_strf(arena, "%.*s%s%.*s%s%.*s", STR_ARG(s->driver), s->has_pool ? "/" : "",
                      STR_ARG(s->pool), s->has_device ? "/" : "", STR_ARG(s->device));
}

// A part of a taint that is not named agrees with any.
static bool taint_agrees(const struct api_device_taint *wanted, const struct api_device_taint *t)
{
    return (!wanted->key.n || str_eq(wanted->key, t->key)) &&
           (!wanted->value.n || str_eq(wanted->value, t->value)) &&
           (!wanted->effect.n || str_eq(wanted->effect, t->effect));
}

void taint_rules_about(const struct inventory *inv, struct str word,
                       const struct api_device_taint *taint, struct arena *arena,
                       struct taint_names *ret)
{
    struct VEC(struct str) names = {0};
    struct str selector = word;
    (void)!taint_selector(inv, word, arena, &selector, NULL);
    world_foreach(inv->world, PLAN_RULE, o)
    {
        const struct api_device_taint_rule *r = o->value;
        const struct api_device_taint_selector *s = r->spec.device_selector;
        bool about =
            str_eq(o->name, word) || (s && str_eq(taint_selector_text(s, arena), selector));
        if (about && taint_agrees(taint, &r->spec.taint))
            vec_push_arena(arena, &names, o->name);
    }
    *ret = (struct taint_names){names.p, names.n};
}

void taint_rules_like(const struct inventory *inv, const struct taint_rules *like,
                      const struct api_device_taint *taint, struct arena *arena,
                      struct taint_names *ret)
{
    struct VEC(struct str) names = {0};
    for (size_t i = 0; i < like->n; i++) {
        struct taint_names some = {0};
        struct str selector = taint_selector_text(like->p[i]->spec.device_selector, arena);
        taint_rules_about(inv, selector, taint, arena, &some);
        for (size_t n = 0; n < some.n; n++)
            vec_push_arena(arena, &names, some.p[n]);
    }
    *ret = (struct taint_names){names.p, names.n};
}

static void keep_only(void *arg, uint32_t device)
{
    uint32_t *only = arg;
    *only = *only == UINT32_MAX ? device : UINT32_MAX - 1;
}

int taint_selector(const struct inventory *inv, struct str word, struct arena *arena,
                   struct str *ret, struct err *err)
{
    uint32_t only = UINT32_MAX;
    for (size_t i = 0; i < inv->pools_len; i++) {
        const struct inventory_pool *p = &inv->pools[i];
        struct str pool = arena_strf(arena, "%.*s/%.*s", STR_ARG(p->driver), STR_ARG(p->name));
        if (str_eq(word, p->driver) || str_eq(word, pool)) {
            *ret = word;
            return 0;
        }
    }
    size_t n = inventory_find(inv, word, keep_only, &only);
    if (n == 0)
        return err_set(err, ERR_NOT_FOUND, "no driver, pool or device is called %.*s",
                       STR_ARG(word));
    if (n > 1)
        return err_set(err, ERR_INVALID,
                       "%zu devices are called %.*s: give DRIVER/POOL/DEVICE ('dray who %.*s' "
                       "lists them)",
                       n, STR_ARG(word), STR_ARG(word));
    *ret = arena_strf(arena, "%.*s/%.*s/%.*s", STR_ARG(inv->devices[only].id.driver),
                      STR_ARG(inv->devices[only].id.pool), STR_ARG(inv->devices[only].id.device));
    return 0;
}

// --- Names ---------------------------------------------------------------------------------------

// Letters, digits and dashes only, at most so many.
static void taint_add_plain(struct sbuf *out, struct str s, size_t most)
{
    for (size_t i = 0; i < s.n && i < most; i++) {
        char c = s.p[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        sbuf_addc(out, plain ? c : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : '-');
    }
}

// The same number for the same text in every process (FNV-1a).
static uint32_t mark_of(struct str s)
{
    uint32_t h = UINT32_C(2166136261);
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * UINT32_C(16777619);
    return h;
}

void taint_rule_name(const struct api_device_taint_rule *rule, struct sbuf *out)
{
    const struct api_device_taint_selector *s = rule->spec.device_selector;
    const struct str parts[] = {s ? s->driver : (struct str){0}, s ? s->pool : (struct str){0},
                                s ? s->device : (struct str){0}, rule->spec.taint.key};
    cleanup_sbuf struct sbuf all = {0};
    sbuf_addz(out, "dray-");
    for (size_t i = 0; i < array_len(parts); i++) {
        sbuf_add(&all, parts[i]);
        sbuf_addc(&all, '\n');
        taint_add_plain(out, parts[i], 40);
        if (parts[i].n)
            sbuf_addc(out, '-');
    }
    sbuf_addf(out, "%08x", mark_of(sbuf_str(&all)));
}

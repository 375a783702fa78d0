// SPDX-License-Identifier: Apache-2.0
#include "plan/taint.h"

#include "api/match/device_taint.h"
#include "plan/plan_int.h"

#include "base/banned.h"

int taint_parse(struct str text, struct arena *arena, struct api_device_taint_rule **ret,
                struct err *err)
{
    return rule_parse(text, arena, ret, err);
}

static struct taint_hit hit_of(uint32_t hold, const struct inventory_hold *h,
                               const struct api_device_taint *taint)
{
    struct taint_hit hit = {.hold = hold};
    int64_t wait_s = 0;
    bool is_evicted = device_taint_evicts(&h->result->tolerations, taint, &wait_s);
    hit.tolerates = !is_evicted || wait_s > 0;
    hit.for_a_while = is_evicted && wait_s > 0;
    hit.seconds = wait_s;
    return hit;
}

static bool hit_is_sooner(const struct taint_hit *a, const struct taint_hit *b)
{
    if (a->tolerates != b->tolerates)
        return !a->tolerates;
    if (a->for_a_while != b->for_a_while)
        return a->for_a_while;
    return a->seconds < b->seconds;
}

struct taint_hits VEC(struct taint_hit);

// One hit a claim: of its devices, the one that its pods must leave first counts.
static void add_hit(struct taint_hits *hits, size_t *place, struct taint_hit hit,
                    struct arena *arena)
{
    if (*place == 0) {
        vec_push_arena(arena, hits, hit);
        *place = hits->n;
    } else if (hit_is_sooner(&hit, &hits->p[*place - 1])) {
        hits->p[*place - 1] = hit;
    }
}

void taint_find(const struct inventory *inv, const struct api_device_taint_rule *rule,
                struct arena *arena, struct taint_effect *ret)
{
    const struct api_device_taint_selector *s = rule->spec.device_selector;
    struct VEC(uint32_t) devices = {0};
    struct taint_hits hits = {0};
    size_t *places = arena_array(arena, size_t, inv->claims_len + 1); // by claim, from 1 on
    memset(places, 0, (inv->claims_len + 1) * sizeof(*places));
    for (size_t i = 0; i < inv->devices_len; i++) {
        const struct inventory_device *d = &inv->devices[i];
        if (!device_taint_selects(s, d->id.driver, d->id.pool, &d->id.device))
            continue;
        vec_push_arena(arena, &devices, (uint32_t)i);
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++)
            add_hit(&hits, &places[inv->holds[k].claim],
                    hit_of(k, &inv->holds[k], &rule->spec.taint), arena);
    }
    *ret = (struct taint_effect){.rule = rule,
                                 .devices = devices.p,
                                 .devices_len = devices.n,
                                 .hits = hits.p,
                                 .hits_len = hits.n,
                                 .evicts = str_eqz(rule->spec.taint.effect, "NoExecute")};
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

static bool is_of(const struct inventory *inv, size_t device, struct str class_name)
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
        d->picked += is_of(inv, i, class_name);
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
        if (d && d->picked < d->all && is_of(inv, i, class_name))
            vec_push_arena(arena, &rules, rule_for(arena, taint, &inv->devices[i].id));
    }
    map_done(&drivers);
    *ret = (struct taint_rules){rules.p, rules.n};
    return rules.n ? 0
                   : err_set(err, ERR_NOT_FOUND, "no device is of class %.*s", STR_ARG(class_name));
}

// --- Rules and selectors by words ----------------------------------------------------------------

static struct str selector_text(const struct api_device_taint_selector *s, struct arena *arena)
{
    return arena_strf(arena, "%.*s%s%.*s%s%.*s", STR_ARG(s->driver), s->has_pool ? "/" : "",
                      STR_ARG(s->pool), s->has_device ? "/" : "", STR_ARG(s->device));
}

void taint_rules_about(const struct inventory *inv, struct str word, struct str key,
                       struct arena *arena, struct taint_names *ret)
{
    struct VEC(struct str) names = {0};
    struct str selector = word;
    (void)!taint_selector(inv, word, arena, &selector, NULL);
    world_foreach(inv->world, PLAN_RULE, o)
    {
        const struct api_device_taint_rule *r = o->value;
        const struct api_device_taint_selector *s = r->spec.device_selector;
        bool about = str_eq(o->name, word) || (s && str_eq(selector_text(s, arena), selector));
        if (about && (!key.n || str_eq(r->spec.taint.key, key)))
            vec_push_arena(arena, &names, o->name);
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
                       "tells their names)",
                       n, STR_ARG(word), STR_ARG(word));
    *ret = arena_strf(arena, "%.*s/%.*s/%.*s", STR_ARG(inv->devices[only].id.driver),
                      STR_ARG(inv->devices[only].id.pool), STR_ARG(inv->devices[only].id.device));
    return 0;
}

// --- Names ---------------------------------------------------------------------------------------

// Letters, digits and dashes only, at most so many.
static void add_plain(struct sbuf *out, struct str s, size_t most)
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
        add_plain(out, parts[i], 40);
        if (parts[i].n)
            sbuf_addc(out, '-');
    }
    sbuf_addf(out, "%08x", mark_of(sbuf_str(&all)));
}

// SPDX-License-Identifier: Apache-2.0
//
// Aggregated ClusterRoles: one with an aggregationRule has the rules of all roles that its
// selectors choose, by name, each rule once. Rules written into such a role by hand are
// replaced.
#include <stdlib.h>

#include "api/match/label_selector.h"
#include "base/vec.h"
#include "ctl/core/ctl_int.h"

#include "base/banned.h"

struct role_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
};

struct gathering {
    struct arena arena;
    const struct label_selector *selectors;
    size_t selectors_len;
    struct str own; // name of the role that gathers
    struct VEC(struct api_policy_rule) rules;
};

static bool same_rule(const struct api_policy_rule *a, const struct api_policy_rule *b)
{
    cleanup_sbuf struct sbuf x = {0}, y = {0};
    api_proto_write(&api_policy_rule_type, a, &x);
    api_proto_write(&api_policy_rule_type, b, &y);
    return str_eq(sbuf_str(&x), sbuf_str(&y));
}

static void role_add_rule(struct gathering *g, const struct api_policy_rule *rule)
{
    for (size_t i = 0; i < g->rules.n; i++)
        if (same_rule(&g->rules.p[i], rule))
            return;
    vec_push_arena(&g->arena, &g->rules, *rule);
}

static void role_gather_rules(void *arg, const struct typed_object *o)
{
    struct gathering *g = arg;
    bool chosen = false;
    if (str_eq(o->meta->name, g->own))
        return;
    for (size_t i = 0; i < g->selectors_len; i++)
        chosen |= label_selector_matches(&g->selectors[i], &o->meta->labels);
    for (size_t i = 0; chosen && i < as_role(o)->rules.n; i++)
        role_add_rule(g, &as_role(o)->rules.p[i]);
}

static bool role_read_selectors(struct gathering *g, const struct api_aggregation_rule *rule)
{
    size_t n = rule->cluster_role_selectors.n;
    struct label_selector *list = arena_array(&g->arena, struct label_selector, n + 1);
    for (size_t i = 0; i < n; i++)
        if (label_selector_of(&rule->cluster_role_selectors.p[i], &g->arena, &list[i], NULL) < 0)
            return false;
    g->selectors = list;
    g->selectors_len = n;
    return true;
}

static bool same_rules(const struct gathering *g, const struct api_policy_rule_array *have)
{
    if (g->rules.n != have->n)
        return false;
    for (size_t i = 0; i < have->n; i++)
        if (!same_rule(&g->rules.p[i], &have->p[i]))
            return false;
    return true;
}

static void role_step_key(void *arg, struct str key)
{
    struct role_ctl *c = arg;
    struct informer *roles = c->ctl->caches[CACHE_ROLES];
    const struct typed_object *o = informer_get(roles, STR(""), key);
    struct gathering g = {.own = key};
    if (!informer_synced(roles)) {
        work_retry(c->work, key);
        return;
    }
    if (!o || !as_role(o)->aggregation_rule ||
        !role_read_selectors(&g, as_role(o)->aggregation_rule)) {
        arena_done(&g.arena);
        work_done(c->work, key);
        return;
    }
    informer_foreach(roles, role_gather_rules, &g);
    if (same_rules(&g, &as_role(o)->rules)) {
        work_done(c->work, key);
    } else {
        struct api_cluster_role changed = *as_role(o);
        changed.rules = (struct api_policy_rule_array){g.rules.p, g.rules.n};
        const struct api_object object = {o->object.kind, &changed};
        client_update(c->ctl->client, &object, NULL, ctl_call_done,
                      ctl_call_new(&c->calls, c->work, key, CACHE_ROLES));
    }
    arena_done(&g.arena);
}

static void role_visit_dependent(void *arg, const struct typed_object *o)
{
    struct role_ctl *c = arg;
    if (as_role(o)->aggregation_rule)
        work_add(c->work, o->meta->name);
}

// Any role may have come into or gone out of any selection.
static void role_on_role_changed(void *arg, const struct typed_object *before,
                                 const struct typed_object *after)
{
    struct role_ctl *c = arg;
    (void)before, (void)after;
    informer_foreach(c->ctl->caches[CACHE_ROLES], role_visit_dependent, c);
}

struct role_ctl *role_ctl_new(struct ctl *ctl)
{
    struct role_ctl *c = xcalloc(1, sizeof(*c));
    c->ctl = ctl;
    list_init(&c->calls);
    c->work = ctl_work(ctl, "ClusterRoleAggregator", role_step_key, c);
    ctl_watch(ctl, CACHE_ROLES, role_on_role_changed, c, c->work);
    return c;
}

void role_ctl_free(struct role_ctl *c)
{
    if (!c)
        return;
    ctl_calls_drop(&c->calls);
    work_free(c->work);
    free(c);
}

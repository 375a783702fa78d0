// SPDX-License-Identifier: Apache-2.0
//
// Role-based access: rules by subject, compiled from roles and bindings as a client of the registry
// delivers them, and compiled again when one of them changes.
#include "server/auth/rbac.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/vec.h"
#include "client/informer.h"

#include "base/banned.h"

// A binding as its subject sees it. Everything is borrowed from the informers until the next
// change.
struct grant {
    struct str namespace; // empty: everywhere
    struct str binding;
    const struct api_role_ref *ref;
    const struct api_subject *subject;
    const struct api_policy_rule_array *rules; // NULL: the role does not exist
};

struct grants VEC(struct grant);

enum { ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS, WATCHES };

struct rbac {
    struct informer *informers[WATCHES];
    struct MAP(struct grants) by_subject; // "u" user or "g" group
    struct arena keys;
    bool stale;
};

// --- Rules ---------------------------------------------------------------------------------------

static bool has_or_all(const struct api_str_array *list, struct str s)
{
    return api_str_listed(list, STR("*")) || api_str_listed(list, s);
}

// "pods/log" is matched by itself, by "*/log" and by "*"; never by "pods".
static bool names_resource(const struct api_str_array *list, struct str resource, struct str sub)
{
    for (size_t i = 0; i < list->n; i++) {
        struct str s = list->p[i], head, tail;
        if (str_eq(s, STR("*")))
            return true;
        if (!sub.n && str_eq(s, resource))
            return true;
        if (!sub.n || !str_cut(s, '/', &head, &tail))
            continue;
        if (str_eq(tail, sub) && (str_eq(head, resource) || str_eq(head, STR("*"))))
            return true;
    }
    return false;
}

static bool names_path(const struct api_str_array *list, struct str path)
{
    for (size_t i = 0; i < list->n; i++) {
        struct str s = list->p[i];
        if (str_eq(s, STR("*")) || str_eq(s, path))
            return true;
        if (s.n && s.p[s.n - 1] == '*' && str_starts(path, str_make(s.p, s.n - 1)))
            return true;
    }
    return false;
}

bool rbac_rule_allows(const struct api_policy_rule *rule, const struct access *q)
{
    if (!has_or_all(&rule->verbs, q->verb))
        return false;
    if (q->path.n)
        return names_path(&rule->non_resource_urls, q->path);
    return has_or_all(&rule->api_groups, q->group) &&
           names_resource(&rule->resources, q->resource, q->subresource) &&
           (rule->resource_names.n == 0 || api_str_listed(&rule->resource_names, q->name));
}

// --- Index ---------------------------------------------------------------------------------------

const struct api_policy_rule_array *rbac_role(const struct rbac *r, struct str namespace,
                                              const struct api_role_ref *ref)
{
    bool cluster = str_eqz(ref->kind, "ClusterRole");
    if (!cluster && (!namespace.n || !str_eqz(ref->kind, "Role")))
        return NULL;
    const struct typed_object *o = informer_get(r->informers[cluster ? CLUSTER_ROLES : ROLES],
                                                cluster ? STR("") : namespace, ref->name);
    if (!o)
        return NULL;
    return cluster ? &((const struct api_cluster_role *)o->object.value)->rules
                   : &((const struct api_role *)o->object.value)->rules;
}

static void add_subject(struct rbac *r, const struct api_subject *s, const struct grant *g)
{
    cleanup_sbuf struct sbuf key = {0};
    if (str_eqz(s->kind, "User"))
        sbuf_addf(&key, "u%.*s", STR_ARG(s->name));
    else if (str_eqz(s->kind, "Group"))
        sbuf_addf(&key, "g%.*s", STR_ARG(s->name));
    else if (str_eqz(s->kind, "ServiceAccount")) {
        struct str namespace = s->namespace.n ? s->namespace : g->namespace;
        if (!namespace.n)
            return;
        sbuf_addf(&key, "usystem:serviceaccount:%.*s:%.*s", STR_ARG(namespace), STR_ARG(s->name));
    } else
        return;
    struct grants *list = map_get(&r->by_subject, sbuf_str(&key));
    if (!list)
        list = map_put(&r->by_subject, arena_str(&r->keys, sbuf_str(&key)));
    struct grant one = *g;
    one.subject = s;
    vec_push(list, one);
}

static void add_binding(void *arg, const struct typed_object *o)
{
    struct rbac *r = arg;
    bool cluster = o->object.kind->type == &api_cluster_role_binding_type;
    const struct api_cluster_role_binding *c = o->object.value;
    const struct api_role_binding *b = o->object.value;
    const struct api_subject_array *subjects = cluster ? &c->subjects : &b->subjects;
    struct grant g = {.namespace = cluster ? STR("") : o->meta->namespace,
                      .binding = o->meta->name,
                      .ref = cluster ? &c->role_ref : &b->role_ref};
    g.rules = rbac_role(r, g.namespace, g.ref);
    for (size_t i = 0; i < subjects->n; i++)
        add_subject(r, &subjects->p[i], &g);
}

static void rbac_drop_grants(struct rbac *r)
{
    map_foreach(&r->by_subject, i)
        vec_done(map_value(&r->by_subject, i));
    map_done(&r->by_subject);
    r->by_subject.index = (struct map_index){0};
    arena_reset(&r->keys);
}

static void make_index(struct rbac *r)
{
    if (!r->stale)
        return;
    rbac_drop_grants(r);
    informer_foreach(r->informers[CLUSTER_ROLE_BINDINGS], add_binding, r);
    informer_foreach(r->informers[ROLE_BINDINGS], add_binding, r);
    r->stale = false;
}

static void rbac_on_change(void *arg, const struct typed_object *before,
                           const struct typed_object *after)
{
    struct rbac *r = arg;
    (void)before, (void)after;
    // What the index borrows may go with this call.
    r->stale = true;
}

struct rbac *rbac_new(struct client *client)
{
    static const char *const kinds[WATCHES] = {"Role", "ClusterRole", "RoleBinding",
                                               "ClusterRoleBinding"};
    struct rbac *r = xcalloc(1, sizeof(*r));
    r->stale = true;
    for (size_t i = 0; i < WATCHES; i++) {
        const struct informer_options o = {
            .client = client,
            .kind = api_kind_find(STR("rbac.authorization.k8s.io/v1"), str_z(kinds[i]))};
        r->informers[i] = informer_new(&o);
        const struct informer_handler h = {.changed = rbac_on_change, .arg = r};
        informer_add_handler(r->informers[i], &h);
        informer_start(r->informers[i]);
    }
    return r;
}

void rbac_free(struct rbac *r)
{
    if (!r)
        return;
    rbac_drop_grants(r);
    arena_done(&r->keys);
    for (size_t i = 0; i < WATCHES; i++)
        informer_free(r->informers[i]);
    free(r);
}

// --- Questions -----------------------------------------------------------------------------------

// Calls fn for each grant of a user that holds in a namespace (empty: those of the whole cluster),
// until it returns true.
static bool rbac_each_grant(struct rbac *r, const struct registry_user *user, struct str namespace,
                            bool (*fn)(void *arg, const struct grant *g), void *arg)
{
    cleanup_sbuf struct sbuf key = {0};
    make_index(r);
    // Whole-cluster grants are asked first: they are what most users have.
    for (int in_namespace = 0; in_namespace <= (namespace.n > 0); in_namespace++) {
        for (size_t i = 0; i <= user->groups_len; i++) {
            sbuf_clear(&key);
            sbuf_addc(&key, i ? 'g' : 'u');
            sbuf_add(&key, i ? user->groups[i - 1] : user->name);
            const struct grants *list = map_get(&r->by_subject, sbuf_str(&key));
            for (size_t k = 0; list && k < list->n; k++) {
                const struct grant *g = &list->p[k];
                if (in_namespace ? str_eq(g->namespace, namespace) : g->namespace.n == 0)
                    if (fn(arg, g))
                        return true;
            }
        }
    }
    return false;
}

struct question {
    const struct access *q;
    struct sbuf *why;
    struct sbuf missing; // roles that do not exist
    size_t missing_len;
};

static void rbac_describe_grant(const struct grant *g, struct sbuf *why)
{
    if (g->namespace.n)
        sbuf_addf(why, "RBAC: allowed by RoleBinding \"%.*s/%.*s\"", STR_ARG(g->binding),
                  STR_ARG(g->namespace));
    else
        sbuf_addf(why, "RBAC: allowed by ClusterRoleBinding \"%.*s\"", STR_ARG(g->binding));
    sbuf_addf(why, " of %.*s \"%.*s\" to %.*s \"%.*s", STR_ARG(g->ref->kind), STR_ARG(g->ref->name),
              STR_ARG(g->subject->kind), STR_ARG(g->subject->name));
    if (str_eqz(g->subject->kind, "ServiceAccount"))
        sbuf_addf(why, "/%.*s",
                  STR_ARG(g->subject->namespace.n ? g->subject->namespace : g->namespace));
    sbuf_addc(why, '"');
}

static bool rbac_match_grant(void *arg, const struct grant *g)
{
    struct question *w = arg;
    if (!g->rules) {
        bool cluster = str_eqz(g->ref->kind, "ClusterRole");
        w->missing_len++;
        sbuf_addf(&w->missing, "%s%srole.rbac.authorization.k8s.io \"%.*s\" not found",
                  w->missing.n ? ", " : "", cluster ? "cluster" : "", STR_ARG(g->ref->name));
        return false;
    }
    for (size_t i = 0; i < g->rules->n; i++) {
        if (!rbac_rule_allows(&g->rules->p[i], w->q))
            continue;
        if (w->why)
            rbac_describe_grant(g, w->why);
        return true;
    }
    return false;
}

bool rbac_allows(struct rbac *r, const struct access *q, struct sbuf *why)
{
    struct question w = {.q = q, .why = why};
    bool yes =
        rbac_each_grant(r, q->user, q->path.n ? STR("") : q->namespace, rbac_match_grant, &w);
    if (!yes && why && w.missing_len)
        sbuf_addf(why, w.missing_len > 1 ? "rbac: RBAC: [%.*s]" : "rbac: RBAC: %.*s",
                  STR_ARG(sbuf_str(&w.missing)));
    sbuf_done(&w.missing);
    return yes;
}

struct collecting {
    void (*fn)(void *arg, const struct api_policy_rule *rule);
    void *arg;
};

static bool rbac_collect_rules(void *arg, const struct grant *g)
{
    const struct collecting *c = arg;
    for (size_t i = 0; g->rules && i < g->rules->n; i++)
        c->fn(c->arg, &g->rules->p[i]);
    return false;
}

void rbac_rules(struct rbac *r, const struct registry_user *user, struct str namespace,
                void (*fn)(void *arg, const struct api_policy_rule *rule), void *arg)
{
    struct collecting c = {fn, arg};
    (void)rbac_each_grant(r, user, namespace, rbac_collect_rules, &c);
}

// --- Escalation ----------------------------------------------------------------------------------

// The names that a question is compared with, at the most.
static uint64_t names_in(const struct api_policy_rule *r)
{
    return r->verbs.n + r->api_groups.n + r->resources.n + r->resource_names.n +
           r->non_resource_urls.n;
}

static bool covers_one(const struct api_policy_rule *const *have, size_t have_len,
                       const struct access *q, uint64_t *left)
{
    for (size_t i = 0; i < have_len; i++) {
        uint64_t cost = 1 + names_in(have[i]);
        if (*left < cost)
            *left = 0;
        if (*left == 0)
            return false;
        *left -= cost;
        if (rbac_rule_allows(have[i], q))
            return true;
    }
    return false;
}

// What a rule gives is broken into single questions: a "*" in it is only covered by a "*".
static bool covers_rule(const struct api_policy_rule *const *have, size_t have_len,
                        const struct api_policy_rule *w, uint64_t *left)
{
    static struct str nameless[1];
    const struct api_str_array all_names = {nameless, 1};
    const struct api_str_array *names = w->resource_names.n ? &w->resource_names : &all_names;
    for (size_t v = 0; v < w->verbs.n; v++) {
        for (size_t u = 0; u < w->non_resource_urls.n; u++) {
            struct access q = {.verb = w->verbs.p[v], .path = w->non_resource_urls.p[u]};
            if (!covers_one(have, have_len, &q, left))
                return false;
        }
        for (size_t g = 0; g < w->api_groups.n; g++)
            for (size_t x = 0; x < w->resources.n * names->n; x++) {
                struct access q = {.verb = w->verbs.p[v],
                                   .group = w->api_groups.p[g],
                                   .name = names->p[x % names->n]};
                (void)str_cut(w->resources.p[x / names->n], '/', &q.resource, &q.subresource);
                if (!covers_one(have, have_len, &q, left))
                    return false;
            }
    }
    return true;
}

bool rbac_covers(const struct api_policy_rule *const *have, size_t have_len,
                 const struct api_policy_rule *wanted, size_t wanted_len, uint64_t *left,
                 const struct api_policy_rule **ret_missing)
{
    for (size_t i = 0; i < wanted_len; i++) {
        if (covers_rule(have, have_len, &wanted[i], left))
            continue;
        if (ret_missing)
            *ret_missing = &wanted[i];
        return false;
    }
    return true;
}

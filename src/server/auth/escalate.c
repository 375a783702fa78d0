// SPDX-License-Identifier: Apache-2.0
//
// No user grants rights they do not have: the writer of a role must hold its rules already or may
// `escalate` it, who writes a binding must hold the rules of its role or may `bind` it.
#include "base/vec.h"
#include "server/auth/access.h"

#include "base/banned.h"

#define GROUP "rbac.authorization.k8s.io"
// Names compared for one request: a tenth of a second or two. The largest of Kubernetes' own roles
// takes a hundredth of it.
#define COMPARED_MAX 50000000U

struct held VEC(const struct api_policy_rule *);

static void escalate_hold_rule(void *arg, const struct api_policy_rule *rule)
{
    struct held *h = arg;
    vec_push(h, rule);
}

// --- Texts ---------------------------------------------------------------------------------------

static void escalate_add_list(struct sbuf *out, const char *name, const struct api_str_array *list)
{
    if (!list->n)
        return;
    if (out->p[out->n - 1] != '{')
        sbuf_addz(out, ", ");
    sbuf_addf(out, "%s:[", name);
    for (size_t i = 0; i < list->n; i++)
        sbuf_addf(out, "%s\"%.*s\"", i ? " " : "", STR_ARG(list->p[i]));
    sbuf_addc(out, ']');
}

static void escalate_add_rule(struct sbuf *out, const struct api_policy_rule *r)
{
    sbuf_addz(out, "\n{");
    escalate_add_list(out, "APIGroups", &r->api_groups);
    escalate_add_list(out, "Resources", &r->resources);
    escalate_add_list(out, "ResourceNames", &r->resource_names);
    escalate_add_list(out, "NonResourceURLs", &r->non_resource_urls);
    escalate_add_list(out, "Verbs", &r->verbs);
    sbuf_addc(out, '}');
}

static void add_who(struct sbuf *out, const struct registry_user *u)
{
    sbuf_addf(out, "user \"%.*s\" (groups=[", STR_ARG(u->name));
    for (size_t i = 0; i < u->groups_len; i++)
        sbuf_addf(out, "%s\"%.*s\"", i ? " " : "", STR_ARG(u->groups[i]));
    sbuf_addz(out, "]) is attempting to grant RBAC permissions not currently held:");
}

// --- Rules ---------------------------------------------------------------------------------------

static int escalate_compare_rules(struct server *s, const struct registry_user *user,
                                  struct str namespace, const struct api_policy_rule_array *wanted,
                                  struct sbuf *why)
{
    struct held h = {0};
    uint64_t left = COMPARED_MAX;
    int r = 0;
    rbac_rules(s->access.rbac, user, namespace, escalate_hold_rule, &h);
    for (size_t i = 0; i < wanted->n; i++) {
        if (rbac_covers(h.p, h.n, &wanted->p[i], 1, &left, NULL))
            continue;
        if (left == 0) {
            sbuf_clear(why);
            sbuf_addf(
                why,
                "whether user \"%.*s\" has the rights in rules[%zu] takes too long to find out: "
                "name fewer verbs, groups, resources and names in one rule",
                STR_ARG(user->name), i);
            r = -ERR_FORBIDDEN;
            break;
        }
        if (r == 0)
            add_who(why, user);
        escalate_add_rule(why, &wanted->p[i]);
        r = -ERR_FORBIDDEN;
    }
    vec_done(&h);
    return r;
}

// only_for_deletion: all that changes is what lets an object be deleted in the end, for which no
// one needs to hold its rules. Anything else counts: a label can have a role's rules gathered into
// another one.
static bool only_for_deletion(const struct api_object *object, const struct api_object *old)
{
    cleanup_arena struct arena arena = {0};
    const struct api_object_meta *was = api_object_meta(old);
    struct api_object copy = {object->kind, arena_alloc(&arena, object->kind->type->size, 16)};
    api_copy(object->kind->type, object->value, copy.value, &arena);
    struct api_object_meta *meta = api_object_meta(&copy);
    meta->owner_references = was->owner_references;
    meta->finalizers = was->finalizers;
    meta->managed_fields = was->managed_fields;
    meta->self_link = was->self_link;
    meta->resource_version = was->resource_version;
    return api_equal(object->kind->type, copy.value, old->value);
}

static bool escalate_is_aggregated(const struct api_object *role)
{
    const struct api_cluster_role *c = role ? role->value : NULL;
    return c && role->kind->type == &api_cluster_role_type && c->aggregation_rule &&
           c->aggregation_rule->cluster_role_selectors.n;
}

// A role that aggregates others could gather any rule, and keeps them from being narrowed.
static int check_gathering(struct server *s, const struct registry_request *q, struct sbuf *why)
{
    static struct str star[] = {STR_INIT("*")};
    static const struct api_str_array all = {star, 1};
    struct api_policy_rule every[] = {{.verbs = all, .api_groups = all, .resources = all},
                                      {.verbs = all, .non_resource_urls = all}};
    struct api_policy_rule_array everything = {every, 2};
    if (escalate_compare_rules(s, q->user, q->namespace, &everything, why) == 0)
        return 0;
    sbuf_clear(why);
    sbuf_addz(why, "must have cluster-admin privileges to use the aggregationRule");
    return -ERR_FORBIDDEN;
}

static int check_role(struct server *s, const struct registry_request *q,
                      const struct api_object *object, const struct api_object *old,
                      struct sbuf *why)
{
    bool cluster = object->kind->type == &api_cluster_role_type;
    const struct api_policy_rule_array *rules =
        cluster ? &((const struct api_cluster_role *)object->value)->rules
                : &((const struct api_role *)object->value)->rules;
    struct access escalate = {.user = q->user,
                              .verb = STR("escalate"),
                              .namespace = q->namespace,
                              .group = STR(GROUP),
                              .resource = cluster ? STR("clusterroles") : STR("roles"),
                              .name = api_object_meta(object)->name};
    if (authz_allows(s, &escalate, NULL))
        return 0;
    int r = escalate_compare_rules(s, q->user, q->namespace, rules, why);
    return r == 0 && (escalate_is_aggregated(object) || escalate_is_aggregated(old))
               ? check_gathering(s, q, why)
               : r;
}

static int escalate_check_binding(struct server *s, const struct registry_request *q,
                                  const struct api_object *object, struct sbuf *why)
{
    bool cluster = object->kind->type == &api_cluster_role_binding_type;
    const struct api_role_ref *ref =
        cluster ? &((const struct api_cluster_role_binding *)object->value)->role_ref
                : &((const struct api_role_binding *)object->value)->role_ref;
    bool of_cluster = str_eqz(ref->kind, "ClusterRole");
    struct access bind = {.user = q->user,
                          .verb = STR("bind"),
                          .namespace = q->namespace,
                          .group = STR(GROUP),
                          .resource = of_cluster ? STR("clusterroles") : STR("roles"),
                          .name = ref->name};
    if (authz_allows(s, &bind, NULL))
        return 0;
    const struct api_policy_rule_array *rules = rbac_role(s->access.rbac, q->namespace, ref);
    if (rules)
        return escalate_compare_rules(s, q->user, q->namespace, rules, why);
    // A role that is not there could be made to say anything later.
    sbuf_addf(why, "%srole.rbac.authorization.k8s.io \"%.*s\" not found",
              of_cluster ? "cluster" : "", STR_ARG(ref->name));
    return -ERR_FORBIDDEN;
}

int escalate_guard(void *server, const struct registry_request *request,
                   const struct api_object *object, const struct api_object *old, struct sbuf *why)
{
    struct server *s = server;
    if (!object || request->subresource.n)
        return 0;
    const struct api_type *t = object->kind->type;
    bool role = t == &api_role_type || t == &api_cluster_role_type;
    bool binding = t == &api_role_binding_type || t == &api_cluster_role_binding_type;
    if ((!role && !binding) || authz_is_master(request->user))
        return 0;
    if (!s->access.rbac) {
        sbuf_addz(why, "the server stops");
        return -ERR_FORBIDDEN;
    }
    if (old && only_for_deletion(object, old))
        return 0;
    return role ? check_role(s, request, object, old, why)
                : escalate_check_binding(s, request, object, why);
}

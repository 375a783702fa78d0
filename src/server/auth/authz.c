// SPDX-License-Identifier: Apache-2.0
//
// Authorization. Members of system:masters may do everything; nodes what they need; the others, and
// they as well, what roles give them.
#include "api/match/field_selector.h"
#include "base/log.h"
#include "server/audit/trail.h"
#include "server/auth/access.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("server");

bool authz_is_master(const struct registry_user *u)
{
    for (size_t i = 0; i < u->groups_len; i++)
        if (str_eqz(u->groups[i], "system:masters"))
            return true;
    return false;
}

bool authz_allows(struct server *s, const struct access *q, struct sbuf *why)
{
    if (!s->access.has_roles)
        return s->access.anonymous || ((q->user->name.n || q->user->groups_len) &&
                                       !str_eq(q->user->name, auth_anonymous.name));
    if (authz_is_master(q->user))
        return true;
    if (!s->access.rbac)
        return false;
    cleanup_sbuf struct sbuf of_node = {0}, of_roles = {0};
    bool yes = s->access.nodeauth && nodeauth_allows(s->access.nodeauth, q, &of_node);
    if (yes)
        return true;
    yes = rbac_allows(s->access.rbac, q, &of_roles);
    // Upstream's union of authorizers: why not, by each; why, by the one that allowed it.
    if (why && !yes && of_node.n)
        sbuf_addf(why, "node: %.*s%s", STR_ARG(sbuf_str(&of_node)), of_roles.n ? "\n" : "");
    if (why)
        sbuf_add(why, sbuf_str(&of_roles));
    return yes;
}

struct str authz_selected(struct str fields, struct str field, const struct api_kind *kind,
                          struct arena *arena)
{
    struct field_selector s;
    struct str value = {0};
    const struct api_kind *stored = registry_stored_kind(kind);
    if (!fields.n || field_selector_parse(fields, kind, stored->type, arena, &s, NULL) < 0 ||
        !field_selector_exact(&s, field, &value))
        return STR("");
    return value;
}

// --- Requests ------------------------------------------------------------------------------------

static struct str authz_lower_case(struct arena *arena, struct str s)
{
    char *p = arena_alloc(arena, s.n, 1);
    for (size_t i = 0; i < s.n; i++)
        p[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] | 0x20) : s.p[i];
    return str_make(p, s.n);
}

static struct str verb_name(struct exchange *ex)
{
    if (ex->verb == VERB_LIST && query_bool(&ex->query, STR("watch")))
        return STR("watch");
    for (unsigned bit = 0; bit < VERB_BITS; bit++)
        if (ex->verb == 1U << bit)
            return str_z(catalog_verb_name(bit));
    return authz_lower_case(&ex->arena,
                            ex->q->method); // refused later, as not allowed
}

struct access authz_describe(struct exchange *ex)
{
    const struct route *r = &ex->route;
    if (r->type != ROUTE_RESOURCE)
        return (struct access){.user = &ex->user,
                               .verb = authz_lower_case(&ex->arena, ex->q->method),
                               .path = arena_str(&ex->arena, ex->q->path)};
    struct access q = {.user = &ex->user,
                       .verb = verb_name(ex),
                       .namespace = r->namespace,
                       .group = r->resource->kind->group,
                       .resource = r->resource->kind->plural,
                       .subresource = r->sub ? r->sub->name : STR(""),
                       .name = r->name};
    if (ex->verb & (VERB_LIST | VERB_WATCH | VERB_DELETE_COLLECTION)) {
        struct str fields = query_str(&ex->query, STR("fieldSelector"));
        q.selected_node =
            authz_selected(fields, STR("spec.nodeName"), r->resource->kind, &ex->arena);
        // A list of one is a question about that one.
        if (!q.name.n)
            q.name = authz_selected(fields, STR("metadata.name"), r->resource->kind, &ex->arena);
    }
    return q;
}

void authz_refuse(struct exchange *ex, const struct access *q, struct str why)
{
    cleanup_sbuf struct sbuf text = {0};
    struct api_status_details *d = arena_one(&ex->arena, struct api_status_details);
    if (q->path.n) {
        sbuf_addf(&text, "forbidden: User \"%.*s\" cannot %.*s path \"%.*s\"",
                  STR_ARG(q->user->name), STR_ARG(q->verb), STR_ARG(q->path));
    } else {
        *d = (struct api_status_details){.name = q->name, .group = q->group, .kind = q->resource};
        sbuf_add(&text, q->resource);
        if (q->group.n)
            sbuf_addf(&text, ".%.*s", STR_ARG(q->group));
        if (q->name.n)
            sbuf_addf(&text, " \"%.*s\"", STR_ARG(q->name));
        sbuf_addf(&text, " is forbidden: User \"%.*s\" cannot %.*s resource \"%.*s%s%.*s\"",
                  STR_ARG(q->user->name), STR_ARG(q->verb), STR_ARG(q->resource),
                  q->subresource.n ? "/" : "", STR_ARG(q->subresource));
        sbuf_addf(&text, " in API group \"%.*s\"", STR_ARG(q->group));
        if (q->namespace.n)
            sbuf_addf(&text, " in the namespace \"%.*s\"", STR_ARG(q->namespace));
        else
            sbuf_addz(&text, " at the cluster scope");
    }
    if (why.n)
        sbuf_addf(&text, ": %.*s", STR_ARG(why));
    answer_fail(ex, 403, "Forbidden", arena_str(&ex->arena, sbuf_str(&text)), d);
}

static void authz_note(struct exchange *ex, bool allowed, struct str why)
{
    audit_note(ex, STR("authorization.k8s.io/decision"), allowed ? STR("allow") : STR("forbid"));
    audit_note(ex, STR("authorization.k8s.io/reason"), why);
}

bool authz_request(struct exchange *ex)
{
    cleanup_sbuf struct sbuf why = {0};
    if (!ex->s->access.has_roles) {
        authz_note(ex, true, STR("")); // every authenticated user may do everything
        return true;
    }
    struct access q = authz_describe(ex);
    bool yes = authz_allows(ex->s, &q, &why);
    // A connection that leaves HTTP begins with a GET, whatever it is for.
    if (yes && ex->route.sub && ex->route.sub->connect && !str_eqz(q.subresource, "log") &&
        str_eqz(q.verb, "get")) {
        q.verb = STR("create");
        sbuf_clear(&why);
        yes = authz_allows(ex->s, &q, &why);
    }
    authz_note(ex, yes, sbuf_str(&why));
    if (!yes)
        authz_refuse(ex, &q, sbuf_str(&why));
    return yes;
}

bool authz_create(struct exchange *ex)
{
    const struct store_key key = {.kind = registry_stored_kind(ex->route.resource->kind),
                                  .namespace = ex->route.namespace,
                                  .name = ex->route.name};
    cleanup_sbuf struct sbuf why = {0};
    if (!ex->s->access.has_roles || ex->route.sub || store_head(ex->s->store, &key))
        return true;
    struct access q = authz_describe(ex);
    q.verb = STR("create");
    bool yes = authz_allows(ex->s, &q, &why);
    if (!yes)
        authz_refuse(ex, &q, sbuf_str(&why));
    return yes;
}

// --- Start ---------------------------------------------------------------------------------------

static void made_roles(void *arg, int code, const struct err *err)
{
    (void)arg;
    if (code < 0 && code != -ECANCELED)
        LOG_WARN(&log_mod, "the roles of every cluster could not all be made",
                 log_str("error", str_z(err->msg)));
}

// authz_guard is all that is asked of a write beyond the right to it; for registry_set_guard.
static int authz_guard(void *server, const struct registry_request *request,
                       const struct api_object *object, const struct api_object *old,
                       struct sbuf *why)
{
    struct server *s = server;
    int r = s->access.nodeauth ? noderestrict_check(s->store, request, object, old, why) : 0;
    if (r == 0)
        r = certguard_check(s, request, object, old, why);
    return r < 0 ? r : escalate_guard(s, request, object, old, why);
}

// Who may change which part of a claim's status: see api/validate.h.
static bool authorize_part(void *server, const struct registry_user *user,
                           const struct api_authz_question *question, struct arena *arena,
                           struct str *ret_reason)
{
    cleanup_sbuf struct sbuf why = {0};
    const struct access q = {.user = user,
                             .verb = question->verb,
                             .namespace = question->namespace,
                             .group = STR("resource.k8s.io"),
                             .resource = STR("resourceclaims"),
                             .subresource = question->subresource,
                             .name = question->name};
    bool yes = authz_allows(server, &q, &why);
    *ret_reason = arena_str(arena, sbuf_str(&why));
    return yes;
}

void authz_start(struct server *s, bool nodes)
{
    s->access.has_roles = true;
    if (nodes)
        s->access.nodeauth = nodeauth_new(s->store);
    s->access.client = local_client_new(s->registry, s->exec, &auth_admin);
    s->access.rbac = rbac_new(s->access.client);
    roles_ensure(s->access.client, made_roles, NULL);
    registry_set_guard(s->registry, authz_guard, s);
    registry_set_authorizer(s->registry, authorize_part, s);
}

void authz_stop(struct server *s)
{
    nodeauth_free(s->access.nodeauth);
    s->access.nodeauth = NULL;
    rbac_free(s->access.rbac);
    s->access.rbac = NULL;
    if (s->access.client)
        client_free(s->access.client);
    s->access.client = NULL;
}

bool server_may(struct server *s, const struct registry_user *user, struct str group,
                struct str resource, struct str subresource, struct str verb)
{
    const struct access q = {.user = user,
                             .verb = verb,
                             .group = group,
                             .resource = resource,
                             .subresource = subresource};
    return authz_allows(s, &q, NULL);
}

bool server_has_roles(const struct server *s)
{
    return s->access.has_roles;
}

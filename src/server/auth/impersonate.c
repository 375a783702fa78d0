// SPDX-License-Identifier: Apache-2.0
//
// Acting as somebody else: a user whom roles let `impersonate` users, groups, service accounts,
// uids and extra fields names them in headers. Nothing of the true user is left afterwards but
// their right to do it.
#include "base/vec.h"
#include "codec/percent.h"
#include "server/audit/trail.h"
#include "server/auth/access.h"

#include "base/banned.h"

static const struct str prefix_extra = STR_INIT("impersonate-extra-");
static const struct str prefix_account = STR_INIT("system:serviceaccount:");

struct wish {
    struct str user;
    struct str uid;
    struct VEC(struct str) groups;
    struct VEC(struct registry_extra) extra;
    bool any;
};

// Keys come with percent signs for what a header's name cannot have; the same key again is one more
// value.
static void impersonate_add_extra(struct exchange *ex, struct wish *w, struct str name,
                                  struct str value)
{
    struct str key = arena_str(&ex->arena, percent_decode_lenient(name, &ex->arena));
    struct registry_extra *e = NULL;
    for (size_t i = 0; i < w->extra.n; i++)
        if (str_eq(w->extra.p[i].key, key))
            e = &w->extra.p[i];
    if (!e) {
        vec_push_arena(&ex->arena, &w->extra, ((struct registry_extra){.key = key}));
        e = &w->extra.p[w->extra.n - 1];
    }
    struct str *all = arena_array(&ex->arena, struct str, e->values_len + 1);
    for (size_t i = 0; i < e->values_len; i++)
        all[i] = e->values[i];
    all[e->values_len++] = value;
    e->values = all;
}

static void read_headers(struct exchange *ex, struct wish *w)
{
    for (size_t i = 0; i < ex->q->headers_len; i++) {
        const struct http_header *h = &ex->q->headers[i];
        if (!str_starts(h->name, STR("impersonate-")))
            continue;
        struct str value = arena_str(&ex->arena, h->value);
        w->any = true;
        if (str_eqz(h->name, "impersonate-user"))
            w->user = value;
        else if (str_eqz(h->name, "impersonate-uid"))
            w->uid = value;
        else if (str_eqz(h->name, "impersonate-group"))
            vec_push_arena(&ex->arena, &w->groups, value);
        else if (str_starts(h->name, prefix_extra))
            impersonate_add_extra(ex, w, str_from(h->name, prefix_extra.n), value);
    }
}

static bool impersonate_is_allowed(struct exchange *ex, struct access *q)
{
    cleanup_sbuf struct sbuf why = {0};
    q->user = &ex->user;
    q->verb = STR("impersonate");
    if (authz_allows(ex->s, q, &why))
        return true;
    authz_refuse(ex, q, sbuf_str(&why));
    return false;
}

static bool may_be_user(struct exchange *ex, struct str user)
{
    struct access q = {.resource = STR("users"), .name = user};
    struct str namespace, name;
    if (str_starts(user, prefix_account) &&
        str_cut(str_from(user, prefix_account.n), ':', &namespace, &name)) {
        q.resource = STR("serviceaccounts");
        q.namespace = namespace;
        q.name = name;
    }
    return impersonate_is_allowed(ex, &q);
}

static bool may_all(struct exchange *ex, const struct wish *w)
{
    if (!may_be_user(ex, w->user))
        return false;
    for (size_t i = 0; i < w->groups.n; i++) {
        struct access q = {.resource = STR("groups"), .name = w->groups.p[i]};
        if (!impersonate_is_allowed(ex, &q))
            return false;
    }
    if (w->uid.n) {
        struct access q = {
            .group = STR("authentication.k8s.io"), .resource = STR("uids"), .name = w->uid};
        if (!impersonate_is_allowed(ex, &q))
            return false;
    }
    for (size_t i = 0; i < w->extra.n; i++)
        for (size_t k = 0; k < w->extra.p[i].values_len; k++) {
            struct access q = {.group = STR("authentication.k8s.io"),
                               .resource = STR("userextras"),
                               .subresource = w->extra.p[i].key,
                               .name = w->extra.p[i].values[k]};
            if (!impersonate_is_allowed(ex, &q))
                return false;
        }
    return true;
}

// Every user but the anonymous one is authenticated; service accounts are in their groups.
static void impersonate_add_groups(struct exchange *ex, struct wish *w)
{
    struct str namespace, name;
    bool account = str_starts(w->user, prefix_account) &&
                   str_cut(str_from(w->user, prefix_account.n), ':', &namespace, &name);
    if (account && !w->groups.n) {
        vec_push_arena(&ex->arena, &w->groups, STR("system:serviceaccounts"));
        vec_push_arena(&ex->arena, &w->groups,
                       arena_strf(&ex->arena, "system:serviceaccounts:%.*s", STR_ARG(namespace)));
    }
    bool anonymous = str_eq(w->user, auth_anonymous.name);
    struct str all = anonymous ? STR("system:unauthenticated") : STR("system:authenticated");
    for (size_t i = 0; i < w->groups.n; i++)
        if (str_eq(w->groups.p[i], all))
            return;
    vec_push_arena(&ex->arena, &w->groups, all);
}

bool impersonate_apply(struct exchange *ex)
{
    struct wish w = {0};
    read_headers(ex, &w);
    if (!w.any)
        return true;
    if (!w.user.n) {
        answer_fail(ex, 400, "BadRequest",
                    STR("requested impersonation of groups, a uid or extra fields without "
                        "impersonating a user"),
                    NULL);
        return false;
    }
    if (!may_all(ex, &w))
        return false;
    impersonate_add_groups(ex, &w);
    ex->user = (struct registry_user){.name = w.user,
                                      .uid = w.uid,
                                      .groups = w.groups.p,
                                      .groups_len = w.groups.n,
                                      .extra = w.extra.p,
                                      .extra_len = w.extra.n,
                                      .until = ex->user.until};
    audit_impersonate(ex);
    return true;
}

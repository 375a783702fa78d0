// SPDX-License-Identifier: Apache-2.0
//
// Reviews: questions in the form of objects that are never stored.
#include "codec/json_writer.h"
#include "server/auth/access.h"
#include "server/auth/denial.h"
#include "server/oidc/oidc.h"

#include "base/banned.h"

static struct str any[] = {STR_INIT("*")};
static const struct str everybody = STR_INIT("everyone who is authenticated may do everything");

// The node to which a field selector in an access review confines the question.
static struct str selected_node(const struct api_field_selector_attributes *s)
{
    for (size_t i = 0; s && i < s->requirements.n; i++) {
        const struct api_field_selector_requirement *r = &s->requirements.p[i];
        if (str_eqz(r->key, "spec.nodeName") && str_eqz(r->operator, "In") && r->values.n == 1)
            return r->values.p[0];
    }
    // As text only equality matters, and values have no comma.
    struct str rest = s ? s->raw_selector : STR(""), one, key, value;
    while (rest.n) {
        str_cut(rest, ',', &one, &rest);
        if (str_cut(one, '=', &key, &value) && str_eqz(str_trim(key), "spec.nodeName"))
            return str_trim(str_starts(value, STR("=")) ? str_from(value, 1) : value);
    }
    return STR("");
}

static void review_decide_access(const struct exchange *ex, const struct registry_user *user,
                                 const struct api_resource_attributes *r,
                                 const struct api_non_resource_attributes *path,
                                 struct arena *arena, struct api_subject_access_review_status *ret)
{
    struct access q = {.user = user};
    cleanup_sbuf struct sbuf why = {0};
    if (r) {
        q.verb = r->verb;
        q.namespace = r->namespace;
        q.group = r->group;
        q.resource = r->resource;
        q.subresource = r->subresource;
        q.name = r->name;
        q.selected_node = selected_node(r->field_selector);
    } else if (path) {
        q.verb = path->verb;
        q.path = path->path;
    }
    *ret = (struct api_subject_access_review_status){.allowed = authz_allows(ex->s, &q, &why)};
    if (why.n)
        ret->reason = arena_str(arena, sbuf_str(&why));
    else if (ret->allowed && !ex->s->access.has_roles)
        ret->reason = everybody;
}

static void judge_other(const struct exchange *ex,
                        const struct api_subject_access_review_spec *spec, struct arena *arena,
                        struct api_subject_access_review_status *ret)
{
    struct registry_user user = {.name = spec->user,
                                 .uid = spec->uid,
                                 .groups = spec->groups.p,
                                 .groups_len = spec->groups.n};
    review_decide_access(ex, &user, spec->resource_attributes, spec->non_resource_attributes, arena,
                         ret);
}

// Who may ask about a namespace may ask about that one alone. False: it has been answered.
static bool stays_local(struct exchange *ex, const struct api_local_subject_access_review *review)
{
    const struct api_resource_attributes *r = review->spec.resource_attributes;
    if (r && !review->spec.non_resource_attributes && str_eq(r->namespace, ex->route.namespace))
        return true;
    struct causes causes = {.arena = &ex->arena};
    struct path at = path_root(r ? STR("spec.resourceAttributes.namespace") : STR("spec"));
    cause_invalid(&causes, &at, r ? r->namespace : STR(""),
                  STR("must match metadata.namespace, and be of a resource"));
    answer_invalid(ex, STR("LocalSubjectAccessReview"), &causes);
    return false;
}

// --- Rules ---------------------------------------------------------------------------------------

struct rule_lists {
    struct arena *arena;
    struct VEC(struct api_resource_rule) resources;
    struct VEC(struct api_non_resource_rule) paths;
};

static void review_add_rule(void *arg, const struct api_policy_rule *rule)
{
    struct rule_lists *l = arg;
    // The rules live as long as the answer is written.
    if (rule->non_resource_urls.n)
        vec_push_arena(l->arena, &l->paths,
                       ((struct api_non_resource_rule){
                           .verbs = rule->verbs, .non_resource_urls = rule->non_resource_urls}));
    if (rule->resources.n)
        vec_push_arena(l->arena, &l->resources,
                       ((struct api_resource_rule){.verbs = rule->verbs,
                                                   .api_groups = rule->api_groups,
                                                   .resources = rule->resources,
                                                   .resource_names = rule->resource_names}));
}

static void list_rules(const struct exchange *ex, struct str namespace, struct arena *arena,
                       struct api_subject_rules_review_status *ret)
{
    struct rule_lists l = {.arena = arena};
    struct api_str_array all = {any, 1};
    const struct api_policy_rule everything = {.verbs = all, .api_groups = all, .resources = all};
    const struct api_policy_rule every_path = {.verbs = all, .non_resource_urls = all};
    if (ex->s->access.has_roles && !ex->s->access.rbac) {
        // The server stops.
    } else if (ex->s->access.rbac) {
        rbac_rules(ex->s->access.rbac, &ex->user, namespace, review_add_rule, &l);
    } else {
        review_add_rule(&l, &everything);
        review_add_rule(&l, &every_path);
    }
    *ret =
        (struct api_subject_rules_review_status){.resource_rules = {l.resources.p, l.resources.n},
                                                 .non_resource_rules = {l.paths.p, l.paths.n}};
}

static void describe_user(const struct registry_user *user, struct arena *arena,
                          struct api_user_info *ret)
{
    ret->username = user->name;
    ret->uid = user->uid;
    ret->groups.p =
        arena_dup(arena, user->groups, user->groups_len * sizeof(struct str), _Alignof(struct str));
    ret->groups.n = user->groups_len;
    ret->extra.p = arena_array(arena, struct api_strlist_entry, user->extra_len + 1);
    ret->extra.n = user->extra_len; // sorted: they are made in that order
    for (size_t i = 0; i < user->extra_len; i++) {
        const struct registry_extra *e = &user->extra[i];
        ret->extra.p[i].key = e->key;
        ret->extra.p[i].value.p =
            arena_dup(arena, e->values, e->values_len * sizeof(struct str), _Alignof(struct str));
        ret->extra.p[i].value.n = e->values_len;
    }
}

// review_identify_token also narrows the requested audiences down to those the token is for. A
// token of the file is for the API alone.
static bool review_identify_token(const struct exchange *ex, const struct api_token_review *review,
                                  struct api_str_array *audiences, struct arena *arena,
                                  struct registry_user *ret, struct err *err)
{
    const struct registry_user *user = map_get(&ex->s->auth.tokens, review->spec.token);
    if (!user) {
        bool for_server = audiences->n == 0; // bootstrap tokens are for this server alone
        return account_of_token(ex->s, review->spec.token, audiences, arena, ret, err) == 0 ||
               (for_server &&
                bootstrap_of_token(ex->s, review->spec.token, arena, ret, NULL) == 0) ||
               (oidc_of_token(ex->s->access.oidc, review->spec.token, arena, ret, NULL) == 0 &&
                account_for_server(audiences, arena));
    }
    *ret = *user;
    if (account_for_server(audiences, arena))
        return true;
    err_record(err, ERR_INVALID, "the token is for somebody else");
    return false;
}

static void review_check_token(const struct exchange *ex, struct arena *arena,
                               struct api_token_review *review)
{
    struct registry_user user;
    struct err err = {0};
    struct api_str_array audiences = review->spec.audiences;
    review->status = (struct api_token_review_status){0};
    bool known = review_identify_token(ex, review, &audiences, arena, &user, &err);
    if (known && denial_of_token(ex->s, review->spec.token, &user)) {
        known = false;
        err_record(&err, ERR_INVALID, "the token is denied");
    }
    if (!known) {
        review->status.error = arena_str(arena, str_z(err.msg));
        return;
    }
    review->status.authenticated = true;
    review->status.audiences = audiences;
    describe_user(&user, arena, &review->status.user);
}

bool review_is(const struct api_kind *kind)
{
    return str_eq(kind->group, STR("authorization.k8s.io")) ||
           str_eq(kind->group, STR("authentication.k8s.io"));
}

void review_answer(struct exchange *ex, const struct api_object *body)
{
    const struct api_type *t = body->kind->type;
    if (t == &api_self_subject_access_review_type) {
        struct api_self_subject_access_review *r = body->value;
        review_decide_access(ex, &ex->user, r->spec.resource_attributes,
                             r->spec.non_resource_attributes, &ex->arena, &r->status);
    } else if (t == &api_subject_access_review_type) {
        struct api_subject_access_review *r = body->value;
        judge_other(ex, &r->spec, &ex->arena, &r->status);
    } else if (t == &api_local_subject_access_review_type) {
        struct api_local_subject_access_review *r = body->value;
        if (!stays_local(ex, r))
            return;
        judge_other(ex, &r->spec, &ex->arena, &r->status);
    } else if (t == &api_self_subject_rules_review_type) {
        struct api_self_subject_rules_review *r = body->value;
        list_rules(ex, r->spec.namespace, &ex->arena, &r->status);
    } else if (t == &api_self_subject_review_type) {
        struct api_self_subject_review *r = body->value;
        describe_user(&ex->user, &ex->arena, &r->status.user_info);
    } else if (t == &api_token_review_type) {
        review_check_token(ex, &ex->arena, body->value);
    }
    struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    struct err err = {0};
    if (api_json_write(t, body->value, &w, &err) < 0) {
        sbuf_done(&json);
        answer_error(ex, &err);
        return;
    }
    answer_json(ex, 201, &json);
}

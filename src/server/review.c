// SPDX-License-Identifier: Apache-2.0
//
// Reviews: questions in the form of objects that are never stored. Until there are roles, whoever is
// known may do everything, and that is what they say.
#include "codec/json_writer.h"
#include "server/server_int.h"

#include "base/banned.h"

static struct str any[] = {STR_INIT("*")};
static const struct str everybody = STR_INIT("everyone who is authenticated may do everything");

static void judge(const struct exchange *ex, struct str user,
                  struct api_subject_access_review_status *ret)
{
    bool known = user.n > 0 && !str_eq(user, auth_anonymous.name);
    *ret = (struct api_subject_access_review_status){.allowed = known || ex->s->anonymous};
    if (ret->allowed)
        ret->reason = everybody;
}

static void list_rules(struct arena *arena, struct api_subject_rules_review_status *ret)
{
    struct api_str_array all = {any, 1};
    struct api_resource_rule *rule = arena_one(arena, struct api_resource_rule);
    struct api_non_resource_rule *other = arena_one(arena, struct api_non_resource_rule);
    *rule = (struct api_resource_rule){.verbs = all, .api_groups = all, .resources = all};
    *other = (struct api_non_resource_rule){.verbs = all, .non_resource_urls = all};
    *ret = (struct api_subject_rules_review_status){.resource_rules = {rule, 1},
                                                    .non_resource_rules = {other, 1}};
}

static void check_token(const struct exchange *ex, struct arena *arena,
                        struct api_token_review *review)
{
    const struct registry_user *user = map_get(&ex->s->auth.tokens, review->spec.token);
    review->status = (struct api_token_review_status){0};
    if (!user) {
        review->status.error = STR("the token is not known");
        return;
    }
    review->status.authenticated = true;
    review->status.user.username = user->name;
    review->status.user.uid = user->uid;
    review->status.user.groups.p =
        arena_dup(arena, user->groups, user->groups_len * sizeof(struct str), _Alignof(struct str));
    review->status.user.groups.n = user->groups_len;
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
        judge(ex, ex->user.name, &r->status);
    } else if (t == &api_subject_access_review_type) {
        struct api_subject_access_review *r = body->value;
        judge(ex,
              r->spec.user.n     ? r->spec.user
              : r->spec.groups.n ? STR("*")
                                 : STR(""),
              &r->status);
    } else if (t == &api_local_subject_access_review_type) {
        struct api_local_subject_access_review *r = body->value;
        judge(ex,
              r->spec.user.n     ? r->spec.user
              : r->spec.groups.n ? STR("*")
                                 : STR(""),
              &r->status);
    } else if (t == &api_self_subject_rules_review_type) {
        struct api_self_subject_rules_review *r = body->value;
        list_rules(&ex->arena, &r->status);
    } else if (t == &api_token_review_type) {
        check_token(ex, &ex->arena, body->value);
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

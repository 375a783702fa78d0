// SPDX-License-Identifier: Apache-2.0
//
// Who a token belongs to and what a user may do, asked of the API server: TokenReview and
// SubjectAccessReview, as kubelet does with --authentication-token-webhook and
// --authorization-mode=Webhook.
#include <stdlib.h>

#include "base/list.h"
#include "node/endpoint/kubelet_http.h"

#include "base/banned.h"

struct kubelet_reviews {
    struct client *client;
    char *node;
    struct list questions;
};

struct question {
    struct list_node node;
    void (*known)(void *ctx, const struct kubelet_user *u);
    void (*judged)(void *ctx, bool allowed);
    void *ctx;
};

struct kubelet_reviews *kubelet_reviews_new(struct client *client, struct str node)
{
    struct kubelet_reviews *r = xcalloc(1, sizeof(*r));
    r->client = client;
    r->node = xstrndup(node.p, node.n);
    list_init(&r->questions);
    return r;
}

// The client answers every call, also when it is freed first; a question does not need r any more.
void kubelet_reviews_free(struct kubelet_reviews *r)
{
    if (!r)
        return;
    while (!list_empty(&r->questions))
        (void)list_pop_front(&r->questions);
    free(r->node);
    free(r);
}

static struct question *kubelet_access_question_new(struct kubelet_reviews *r)
{
    struct question *q = xcalloc(1, sizeof(*q));
    list_push_back(&r->questions, &q->node);
    return q;
}

static void kubelet_access_on_token(void *arg, const struct client_answer *a)
{
    struct question *q = arg;
    list_remove(&q->node);
    const struct api_token_review *t = a->code == 0 && a->object ? a->object->object.value : NULL;
    if (t && t->status.authenticated) {
        const struct kubelet_user u = {t->status.user.username, t->status.user.groups.p,
                                       t->status.user.groups.n};
        q->known(q->ctx, &u);
    } else {
        q->known(q->ctx, NULL);
    }
    free(q);
}

static void kubelet_access_authenticate(void *arg, struct str token,
                                        void (*done)(void *ctx, const struct kubelet_user *u),
                                        void *ctx)
{
    struct kubelet_reviews *r = arg;
    struct question *q = kubelet_access_question_new(r);
    q->known = done;
    q->ctx = ctx;
    struct api_token_review review = {.spec.token = token};
    const struct api_object o = {api_kind_find(STR("authentication.k8s.io/v1"), STR("TokenReview")),
                                 &review};
    client_create(r->client, &o, NULL, kubelet_access_on_token, q);
}

static void kubelet_access_on_access(void *arg, const struct client_answer *a)
{
    struct question *q = arg;
    list_remove(&q->node);
    const struct api_subject_access_review *s =
        a->code == 0 && a->object ? a->object->object.value : NULL;
    q->judged(q->ctx, s && s->status.allowed && !s->status.denied);
    free(q);
}

static void kubelet_access_authorize(void *arg, const struct kubelet_user *u, struct str verb,
                                     struct str part, void (*done)(void *ctx, bool allowed),
                                     void *ctx)
{
    struct kubelet_reviews *r = arg;
    struct question *q = kubelet_access_question_new(r);
    q->judged = done;
    q->ctx = ctx;
    cleanup_arena struct arena arena = {0};
    struct api_resource_attributes what = {.verb = verb,
                                           .version = STR("v1"),
                                           .resource = STR("nodes"),
                                           .subresource = part,
                                           .name = str_z(r->node)};
    struct api_subject_access_review review = {
        .spec = {.resource_attributes = &what,
                 .user = u->name,
                 .groups = {arena_dup(&arena, u->groups, u->groups_len * sizeof(struct str),
                                      _Alignof(struct str)),
                            u->groups_len}}};
    const struct api_object o = {
        api_kind_find(STR("authorization.k8s.io/v1"), STR("SubjectAccessReview")), &review};
    client_create(r->client, &o, NULL, kubelet_access_on_access, q);
}

struct kubelet_access kubelet_reviews_access(struct kubelet_reviews *r)
{
    return (struct kubelet_access){
        .who = kubelet_access_authenticate, .may = kubelet_access_authorize, .arg = r};
}

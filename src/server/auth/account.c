// SPDX-License-Identifier: Apache-2.0
//
// Service accounts: tokens are given out (serviceaccounts/token) and believed, as long as the
// account and the pod, secret or node they are bound to are there.
#include "api/status.h"
#include "base/uuid.h"
#include "codec/json_writer.h"
#include "pki/jwt.h"
#include "server/auth/access.h"

#include "base/banned.h"

#define SECONDS_DEFAULT 3600
#define SECONDS_MIN     600
#define SECONDS_MAX     (INT64_C(1) << 32)

static int64_t now_seconds(const struct server *s)
{
    return exec_wall_ns(s->exec) / CLOCK_NS_PER_SEC;
}

// --- Objects -------------------------------------------------------------------------------------

// account_find_object decodes a stored object; false when it is not there (any more).
static bool account_find_object(const struct server *s, const char *kind, struct str namespace,
                                struct str name, struct arena *arena, struct api_object *ret)
{
    const struct store_key key = {api_kind_find(STR("v1"), str_z(kind)), namespace, name};
    const struct object *o = name.n ? store_get(s->store, &key) : NULL;
    return o && registry_decode(o, key.kind, arena, ret, NULL) == 0;
}

// account_is_current: an object of this name with this UID, and not on its way out.
static bool account_is_current(const struct server *s, const char *kind, struct str namespace,
                               const struct jwt_object *wanted, struct arena *arena)
{
    struct api_object o;
    if (!wanted->name.n)
        return true; // not bound to one
    if (!account_find_object(s, kind, namespace, wanted->name, arena, &o))
        return false;
    const struct api_object_meta *m = api_object_meta(&o);
    if (!str_eq(m->uid, wanted->uid))
        return false;
    // A pod that is being stopped may still speak, for as long as it has to stop and a minute more.
    if (!m->deletion_timestamp.set)
        return true;
    return now_seconds(s) < m->deletion_timestamp.at.sec + 60;
}

// --- Who shows a token ---------------------------------------------------------------------------

static void account_add_extra(struct registry_extra *list, size_t *n, struct arena *arena,
                              const char *key, struct str value)
{
    if (!value.n)
        return;
    struct str *one = arena_one(arena, struct str);
    *one = value;
    list[(*n)++] = (struct registry_extra){.key = str_z(key), .values = one, .values_len = 1};
}

static void make_user(const struct jwt *t, struct arena *arena, struct registry_user *ret)
{
    struct str *groups = arena_array(arena, struct str, 3);
    struct registry_extra *extra = arena_array(arena, struct registry_extra, 5);
    size_t n = 0;
    groups[0] = STR("system:serviceaccounts");
    groups[1] = arena_strf(arena, "system:serviceaccounts:%.*s", STR_ARG(t->namespace));
    groups[2] = STR("system:authenticated");
    if (t->id.n)
        account_add_extra(extra, &n, arena, "authentication.kubernetes.io/credential-id",
                          arena_strf(arena, "JTI=%.*s", STR_ARG(t->id)));
    account_add_extra(extra, &n, arena, "authentication.kubernetes.io/node-name", t->node.name);
    account_add_extra(extra, &n, arena, "authentication.kubernetes.io/node-uid", t->node.uid);
    account_add_extra(extra, &n, arena, "authentication.kubernetes.io/pod-name", t->pod.name);
    account_add_extra(extra, &n, arena, "authentication.kubernetes.io/pod-uid", t->pod.uid);
    *ret =
        (struct registry_user){.name = arena_strf(arena, "system:serviceaccount:%.*s:%.*s",
                                                  STR_ARG(t->namespace), STR_ARG(t->account.name)),
                               .uid = t->account.uid,
                               .groups = groups,
                               .groups_len = 3,
                               .extra = extra,
                               .extra_len = n,
                               .until = t->expires};
}

static struct str own_audience[] = {STR_INIT(JWT_ISSUER)};

// account_narrow_audiences keeps of the audiences that are wanted those there are; none wanted:
// this server. False: it is for none of them.
static bool account_narrow_audiences(struct api_str_array *wanted, const struct str *there,
                                     size_t n, struct arena *arena)
{
    if (!wanted->n)
        return str_listed(there, n, own_audience[0]);
    struct str *both = arena_array(arena, struct str, wanted->n);
    size_t both_len = 0;
    for (size_t i = 0; i < wanted->n; i++)
        if (str_listed(there, n, wanted->p[i]))
            both[both_len++] = wanted->p[i];
    *wanted = (struct api_str_array){both, both_len};
    return both_len > 0;
}

bool account_for_server(struct api_str_array *audiences, struct arena *arena)
{
    return account_narrow_audiences(audiences, own_audience, 1, arena);
}

int account_of_token(const struct server *s, struct str token, struct api_str_array *audiences,
                     struct arena *arena, struct registry_user *ret, struct err *err)
{
    struct jwt t;
    if (!s->access.accounts)
        return err_set(err, ERR_INVALID, "the token is not known");
    int r = jwt_read(token, s->access.accounts, now_seconds(s), arena, &t, err);
    if (r < 0)
        return r;
    if (!account_narrow_audiences(audiences, t.audiences, t.audiences_len, arena))
        return err_set(err, ERR_INVALID, "the token is for somebody else");
    if (!account_is_current(s, "ServiceAccount", t.namespace, &t.account, arena))
        return err_set(err, ERR_INVALID, "the service account of the token is gone");
    // The node of a pod is recorded, not checked: it may be gone before its pods.
    if (!account_is_current(s, "Pod", t.namespace, &t.pod, arena) ||
        !account_is_current(s, "Secret", t.namespace, &t.secret, arena) ||
        (!t.pod.name.n && !account_is_current(s, "Node", STR(""), &t.node, arena)))
        return err_set(err, ERR_INVALID, "the object that the token is bound to is gone");
    make_user(&t, arena, ret);
    return 0;
}

// --- Giving one out ------------------------------------------------------------------------------

struct wish {
    struct exchange *ex;
    struct api_token_request *request;
    struct jwt token;
    struct causes causes;
};

static void account_check_spec(struct wish *w)
{
    const struct api_token_request_spec *spec = &w->request->spec;
    int64_t seconds = spec->has_expiration_seconds ? spec->expiration_seconds : SECONDS_DEFAULT;
    struct path root = path_root(STR("spec")), at = path_field(&root, STR("expirationSeconds"));
    if (seconds < SECONDS_MIN)
        cause_invalid_i64(&w->causes, &at, seconds,
                          STR("may not specify a duration less than 10 minutes"));
    if (seconds > SECONDS_MAX)
        cause_invalid_i64(&w->causes, &at, seconds,
                          STR("may not specify a duration larger than 2^32 seconds"));
    w->token.issued = w->token.not_before = now_seconds(w->ex->s);
    w->token.expires = w->token.issued + (seconds < SECONDS_MAX ? seconds : SECONDS_MAX);
}

static bool account_refuse_request(struct wish *w, int code, const char *reason, struct str message)
{
    answer_fail(w->ex, code, reason, arena_str(&w->ex->arena, message), NULL);
    return false;
}

// account_bind_object finds the object that the token shall end with. False: it has been answered.
static bool account_bind_object(struct wish *w, const struct api_service_account *account)
{
    struct exchange *ex = w->ex;
    const struct api_bound_object_reference *ref = w->request->spec.bound_object_ref;
    struct api_object o;
    if (!ref)
        return true;
    bool node = str_eqz(ref->kind, "Node");
    bool known = node || str_eqz(ref->kind, "Pod") || str_eqz(ref->kind, "Secret");
    if (!known || !str_eqz(ref->api_version, "v1"))
        return account_refuse_request(
            w, 400, "BadRequest",
            arena_strf(&ex->arena, "cannot bind token to object of type %.*s, Kind=%.*s",
                       STR_ARG(ref->api_version), STR_ARG(ref->kind)));
    const char *kind = node ? "Node" : str_eqz(ref->kind, "Pod") ? "Pod" : "Secret";
    if (!account_find_object(ex->s, kind, node ? STR("") : ex->route.namespace, ref->name,
                             &ex->arena, &o))
        return account_refuse_request(w, 404, "NotFound",
                                      arena_strf(&ex->arena, "%s \"%.*s\" not found",
                                                 node                        ? "nodes"
                                                 : str_eqz(ref->kind, "Pod") ? "pods"
                                                                             : "secrets",
                                                 STR_ARG(ref->name)));
    const struct api_object_meta *m = api_object_meta(&o);
    if (ref->uid.n && !str_eq(ref->uid, m->uid))
        return account_refuse_request(
            w, 409, "Conflict",
            arena_strf(&ex->arena,
                       "the UID in the bound object reference (%.*s) does not match the "
                       "UID in record. The object might have been deleted and then "
                       "recreated",
                       STR_ARG(ref->uid)));
    struct jwt_object bound = {m->name, m->uid};
    if (node) {
        w->token.node = bound;
    } else if (str_eqz(ref->kind, "Secret")) {
        w->token.secret = bound;
    } else {
        const struct api_pod *pod = o.value;
        struct api_object n;
        if (!str_eq(pod->spec.service_account_name, account->metadata.name))
            return account_refuse_request(
                w, 400, "BadRequest",
                arena_strf(&ex->arena,
                           "cannot bind token for serviceaccount \"%.*s\" to pod running "
                           "with different serviceaccount name.",
                           STR_ARG(account->metadata.name)));
        w->token.pod = bound;
        w->token.node.name = pod->spec.node_name;
        if (account_find_object(ex->s, "Node", STR(""), pod->spec.node_name, &ex->arena, &n))
            w->token.node.uid = api_object_meta(&n)->uid;
    }
    return true;
}

static void answer_token(struct wish *w)
{
    struct exchange *ex = w->ex;
    struct api_token_request *request = w->request;
    struct sbuf json = {0}, token = {0};
    struct json_writer writer = {.out = &json};
    struct err err = {0};
    int r = jwt_write(&w->token, ex->s->access.accounts, &token, &err);
    request->status.token = arena_str(&ex->arena, sbuf_str(&token));
    sbuf_done(&token);
    request->status.expiration_timestamp =
        (struct api_time){.at = {.sec = w->token.expires}, .set = true};
    struct api_object o = {api_kind_find(STR("authentication.k8s.io/v1"), STR("TokenRequest")),
                           request};
    api_set_type_meta(&o);
    if (r == 0)
        r = api_json_write(o.kind->type, request, &writer, &err);
    if (r == 0) {
        answer_json(ex, 201, &json);
        return;
    }
    sbuf_done(&json);
    answer_error(ex, &err);
}

static bool ask_server(void *server, const struct access *q)
{
    return authz_allows(server, q, NULL);
}

// A node gets tokens for its own pods only. False: it has been answered.
static bool node_may(struct exchange *ex, const struct api_token_request *request)
{
    cleanup_sbuf struct sbuf why = {0};
    if (!ex->s->access.nodeauth)
        return true;
    int r = noderestrict_token(ex->s->store, &ex->request, request, ask_server, ex->s, &why);
    if (r == 0)
        return true;
    struct status_subject about = {STR(""), STR("serviceaccounts"), ex->route.name};
    if (r == -ERR_NOT_FOUND)
        answer_fail(ex, 404, "NotFound", arena_str(&ex->arena, sbuf_str(&why)), NULL);
    else
        answer_status(ex, api_status_forbidden(&ex->arena, &about, sbuf_str(&why)));
    return false;
}

void account_token(struct exchange *ex, const struct api_object *body)
{
    struct wish w = {.ex = ex, .request = body->value, .causes = {.arena = &ex->arena}};
    struct api_object o;
    char id[UUID_TEXT_LEN + 1];
    if (!ex->s->access.accounts) {
        answer_fail(ex, 501, "NotImplemented",
                    STR("this server has no key for tokens: plain HTTP has no secrets"), NULL);
        return;
    }
    if (!account_find_object(ex->s, "ServiceAccount", ex->route.namespace, ex->route.name,
                             &ex->arena, &o)) {
        answer_not_found(ex);
        return;
    }
    if (!node_may(ex, w.request))
        return;
    const struct api_service_account *account = o.value;
    struct uuid u = uuid_random(ex->s->exec->rng);
    uuid_write(&u, id);
    w.token.issuer = STR(JWT_ISSUER);
    w.token.namespace = ex->route.namespace;
    w.token.account = (struct jwt_object){account->metadata.name, account->metadata.uid};
    w.token.id = arena_str(&ex->arena, str_z(id));
    struct api_str_array *audiences = &w.request->spec.audiences;
    if (!audiences->n)
        *audiences = (struct api_str_array){own_audience, 1};
    w.token.audiences = audiences->p;
    w.token.audiences_len = audiences->n;
    account_check_spec(&w);
    if (w.causes.n) {
        struct status_subject about = {STR("authentication.k8s.io"), STR("TokenRequest"), STR("")};
        answer_status(ex, api_status_invalid(&ex->arena, &about, &w.causes));
        return;
    }
    w.request->spec.expiration_seconds = w.token.expires - w.token.issued;
    w.request->spec.has_expiration_seconds = true;
    w.request->metadata.name = ex->route.name;
    w.request->metadata.namespace = ex->route.namespace;
    if (account_bind_object(&w, account))
        answer_token(&w);
}

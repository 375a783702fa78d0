// SPDX-License-Identifier: Apache-2.0
//
// The deny list at work: it is looked at with every request, and when it changes, watches and
// streams of denied credentials end. POST /dray/deny adds an entry at once.
#include "server/auth/denial.h"

#include "base/log.h"
#include "pki/sign.h"
#include "server/http/server_int.h"

#include "base/banned.h"

#define DENIAL_LOOK_NS CLOCK_NS_PER_SEC

static struct log_module log_mod = LOG_MODULE("deny");

static void denial_stop_denied(struct server *s)
{
    watch_stop_denied(s);
    stream_stop_denied(s);
}

static void denial_look(void *arg)
{
    struct server *s = arg;
    struct err err = {0};
    int r = deny_follow(s->access.deny, &err);
    if (r < 0)
        LOG_ERROR(&log_mod, "the deny list changed and cannot be read; the old one stays",
                  log_z("why", err.msg));
    if (r > 0) {
        LOG_INFO(&log_mod, "reloaded the deny list");
        denial_stop_denied(s);
    }
    exec_timer_start(s->exec, &s->access.deny_timer, DENIAL_LOOK_NS);
}

int denial_start(struct server *s, const char *path, struct err *err)
{
    int r = deny_new(path, &s->access.deny, err);
    if (r < 0)
        return r;
    s->access.deny_timer = (struct exec_timer){.fn = denial_look, .arg = s};
    exec_timer_start(s->exec, &s->access.deny_timer, DENIAL_LOOK_NS);
    return 0;
}

void denial_stop(struct server *s)
{
    if (s->access.deny)
        exec_timer_stop(s->exec, &s->access.deny_timer);
}

static struct str denial_token_id(const struct registry_user *u)
{
    for (size_t i = 0; i < u->extra_len; i++)
        if (str_eqz(u->extra[i].key, "authentication.kubernetes.io/credential-id") &&
            u->extra[i].values_len && str_starts(u->extra[i].values[0], STR("JTI=")))
            return str_from(u->extra[i].values[0], 4);
    return (struct str){0};
}

bool denial_of_token(const struct server *s, struct str token, const struct registry_user *user)
{
    char sum[SIGN_SHA256_BYTES];
    sign_sha256(token, sum);
    const struct deny_subject subject = {
        .user = user->name, .token_id = denial_token_id(user), .token_sha256 = str_z(sum)};
    return deny_has(s->access.deny, &subject);
}

void denial_describe(struct exchange *ex, struct str token)
{
    const struct tls_peer *peer = ex->q->certificate;
    ex->subject = (struct deny_subject){.user = ex->user.name};
    if (token.n) {
        char *sum = arena_alloc(&ex->arena, SIGN_SHA256_BYTES, 1);
        sign_sha256(token, sum);
        ex->subject.token_sha256 = str_z(sum);
        ex->subject.token_id = denial_token_id(&ex->user);
    } else if (peer) {
        ex->subject.certificate_serial = str_z(peer->serial);
        ex->subject.certificate_sha256 = str_z(peer->sha256);
    }
}

// Without q the connection is gone, and the certificate with it.
bool denial_is(const struct exchange *ex)
{
    return ex->q && deny_has(ex->s->access.deny, &ex->subject);
}

void denial_serve(struct exchange *ex)
{
    struct err err = {0};
    if (!document_is_master(&ex->user)) {
        answer_fail(ex, 403, "Forbidden", STR("only members of system:masters may deny"), NULL);
        return;
    }
    if (!ex->s->access.deny) {
        answer_fail(ex, 501, "NotImplemented", STR("this server has no deny list"), NULL);
        return;
    }
    int r = deny_add(ex->s->access.deny, query_str(&ex->query, STR("kind")),
                     query_str(&ex->query, STR("value")), &err);
    if (r < 0) {
        answer_error(ex, &err);
        return;
    }
    struct server *s = ex->s;
    struct api_status done = {.status = STR("Success"), .code = 200};
    answer_status(ex, &done);
    denial_stop_denied(s);
}

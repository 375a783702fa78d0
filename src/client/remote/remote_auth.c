// SPDX-License-Identifier: Apache-2.0
//
// Credentials: fixed ones, a token or a certificate in files that change, as the CA may, a plugin
// that is asked again when what it gave expires. Requests wait while a plugin runs.
#include <stdlib.h>

#include "client/remote/remote_int.h"
#include "pki/certificate.h"
#include "pki/csr.h"

#include "base/banned.h"

#define FILES_NS     (10 * CLOCK_NS_PER_SEC) // read again after
#define EXPIRY_SLACK 10                      // seconds before a credential ends

// One run of a plugin, on a thread of its own.
struct refresh {
    struct remote *remote;
    struct arena arena;
    struct kubeconfig_credential credential;
    int code;
    struct err err;
};

static void set_token(struct remote_auth *a, struct str token)
{
    sbuf_clear(&a->authorization);
    if (token.n)
        sbuf_addf(&a->authorization, "Bearer %.*s", STR_ARG(token));
    a->known = true;
}

static void on_run(void *arg)
{
    struct refresh *f = arg;
    f->code = kubeconfig_exec_run(&f->remote->auth.target, &f->arena, &f->credential, &f->err);
}

static void set_identity(struct remote *r, struct str certificate_pem, struct str key_pem)
{
    struct kubeconfig_target *t = &r->auth.target;
    https_set_identity(r->https, certificate_pem, key_pem);
    t->certificate_pem = arena_str(&r->arena, certificate_pem);
    t->key_pem = arena_str(&r->arena, key_pem);
}

static void take_credential(struct remote *r, const struct kubeconfig_credential *c)
{
    struct remote_auth *a = &r->auth;
    set_token(a, c->token);
    if (c->certificate_pem.n)
        set_identity(r, c->certificate_pem, c->key_pem);
    a->good_until_ns = INT64_MAX;
    if (c->expires_s) {
        int64_t left_s = c->expires_s - exec_wall_ns(r->client.exec) / CLOCK_NS_PER_SEC;
        left_s = left_s > EXPIRY_SLACK ? left_s - EXPIRY_SLACK : 1;
        if (left_s < INT64_MAX / CLOCK_NS_PER_SEC / 2)
            a->good_until_ns = exec_now_ns(r->client.exec) + left_s * CLOCK_NS_PER_SEC;
    }
}

static void on_ran(void *arg)
{
    struct refresh *f = arg;
    struct remote *r = f->remote;
    r->auth.refreshing = false;
    if (!r->freed) {
        if (f->code == 0)
            take_credential(r, &f->credential);
        struct list waiting;
        list_init(&waiting);
        for (struct list_node *n; (n = list_pop_front(&r->auth.waiting));)
            list_push_back(&waiting, n);
        for (struct list_node *n; (n = list_pop_front(&waiting));) {
            struct sending *s = container_of(n, struct sending, waiting);
            if (f->code == 0)
                remote_sending_start(s);
            else
                remote_sending_fail(s, &f->err);
        }
    }
    arena_done(&f->arena);
    free(f);
    remote_release(r);
}

static void ask_plugin(struct remote *r)
{
    r->auth.refreshing = true;
    r->busy++;
    struct refresh *f = xcalloc(1, sizeof(*f));
    f->remote = r;
    loop_work(r->loop, on_run, on_ran, f);
}

// What cannot be read now keeps the last one alive; the server judges. Of a pair that is just being
// written the other half comes with the next look.
static void read_certificate_files(struct remote *r)
{
    const struct kubeconfig_target *t = &r->auth.target;
    cleanup_sbuf struct sbuf certificate = {0}, key = {0};
    if (!t->certificate_file.n || !t->key_file.n ||
        kubeconfig_read_file(t->certificate_file.p, &certificate, NULL) < 0 ||
        kubeconfig_read_file(t->key_file.p, &key, NULL) < 0)
        return;
    bool same =
        str_eq(sbuf_str(&certificate), t->certificate_pem) && str_eq(sbuf_str(&key), t->key_pem);
    if (!same && pki_pair_matches(certificate.p, key.p))
        set_identity(r, sbuf_str(&certificate), sbuf_str(&key));
}

// A CA that is rotated is first trusted beside the old one, so a look now and then is enough.
static void remote_auth_read_ca(struct remote *r)
{
    struct kubeconfig_target *t = &r->auth.target;
    cleanup_sbuf struct sbuf pem = {0};
    if (!t->ca_file.n || kubeconfig_read_file(t->ca_file.p, &pem, NULL) < 0 ||
        str_eq(sbuf_str(&pem), t->ca_pem) || csr_check_chain(sbuf_str(&pem), NULL) < 0)
        return;
    https_set_trust(r->https, sbuf_str(&pem));
    t->ca_pem = arena_str(&r->arena, sbuf_str(&pem));
}

static void read_files(struct remote *r)
{
    struct remote_auth *a = &r->auth;
    cleanup_sbuf struct sbuf text = {0};
    if (a->target.token_file.n && kubeconfig_read_file(a->target.token_file.p, &text, NULL) == 0)
        set_token(a, str_trim(sbuf_str(&text)));
    else if (!a->known)
        set_token(a, a->target.token);
    read_certificate_files(r);
    remote_auth_read_ca(r);
    a->good_until_ns = exec_now_ns(r->client.exec) + FILES_NS;
}

static bool has_files(const struct remote_auth *a)
{
    return a->target.token_file.n || a->target.certificate_file.n;
}

bool remote_auth_ready(struct remote *r, struct sending *s)
{
    struct remote_auth *a = &r->auth;
    if (a->known && exec_now_ns(r->client.exec) < a->good_until_ns && !a->refreshing)
        return true;
    if (a->target.exec.command.n) {
        list_push_back(&a->waiting, &s->waiting);
        if (!a->refreshing)
            ask_plugin(r);
        return false;
    }
    if (has_files(a) || a->target.ca_file.n) {
        read_files(r);
        return true;
    }
    set_token(a, a->target.token);
    a->good_until_ns = INT64_MAX;
    return true;
}

bool remote_auth_refused(struct remote *r)
{
    struct remote_auth *a = &r->auth;
    if (a->target.exec.command.n == 0 && !has_files(a))
        return false;
    a->good_until_ns = 0;
    return true;
}

static void remote_auth_copy_text(struct arena *a, struct str *s)
{
    *s = arena_str(a, *s);
}

void remote_auth_init(struct remote *r, const struct kubeconfig_target *target)
{
    struct arena *a = &r->arena;
    struct kubeconfig_target *t = &r->auth.target;
    *t = *target;
    struct str *texts[] = {&t->server,
                           &t->server_name,
                           &t->proxy,
                           &t->ca_pem,
                           &t->ca_file,
                           &t->namespace,
                           &t->token,
                           &t->token_file,
                           &t->certificate_pem,
                           &t->key_pem,
                           &t->certificate_file,
                           &t->key_file,
                           &t->user,
                           &t->exec.command,
                           &t->exec.api_version,
                           &t->exec.install_hint};
    for (size_t i = 0; i < array_len(texts); i++)
        remote_auth_copy_text(a, texts[i]);
    struct str *args = arena_array(a, struct str, t->exec.args_len);
    for (size_t i = 0; i < t->exec.args_len; i++)
        args[i] = arena_str(a, target->exec.args[i]);
    struct kubeconfig_env *env = arena_array(a, struct kubeconfig_env, t->exec.env_len);
    for (size_t i = 0; i < t->exec.env_len; i++)
        env[i] = (struct kubeconfig_env){arena_str(a, target->exec.env[i].name),
                                         arena_str(a, target->exec.env[i].value)};
    t->exec.args = args;
    t->exec.env = env;
    list_init(&r->auth.waiting);
}

void remote_auth_done(struct remote *r)
{
    sbuf_done(&r->auth.authorization);
}

// SPDX-License-Identifier: Apache-2.0
//
// One CertificateSigningRequest, from the key to the certificate.
#include <assert.h>
#include <stdlib.h>

#include "api/api.h"
#include "api/certificate.h"
#include "base/backoff.h"
#include "base/rand.h"
#include "node/identity.h"
#include "pki/csr.h"

#include "base/banned.h"

#define POLL_FIRST_NS (200 * CLOCK_NS_PER_MS)
#define POLL_MOST_NS  (5 * CLOCK_NS_PER_SEC)

struct identity_ask {
    struct identity_wish wish;
    struct sbuf request, key, name;
    struct exec_timer timer;
    int64_t give_up_ns, pause_ns;
    bool calling, cancelled;
    bool made; // the server has the request
};

static void ask_free(struct identity_ask *a)
{
    exec_timer_stop(a->wish.client->exec, &a->timer);
    sbuf_done(&a->request);
    if (a->key.p)
        explicit_bzero(a->key.p, a->key.n);
    sbuf_done(&a->key);
    sbuf_done(&a->name);
    free(a);
}

static void finish(struct identity_ask *a, int code, const struct err *err, struct str certificate)
{
    cleanup_sbuf struct sbuf pem = {0};
    if (code == 0) {
        sbuf_add(&pem, certificate);
        if (!str_ends(certificate, STR("\n")))
            sbuf_addc(&pem, '\n');
        sbuf_add(&pem, sbuf_str(&a->key));
    }
    a->wish.done(a->wish.arg, code, err, sbuf_str(&pem));
    if (pem.p)
        explicit_bzero(pem.p, pem.n);
    ask_free(a);
}

// look decides by an answer: over, or to be looked at again.
static bool look(struct identity_ask *a, const struct api_certificate_signing_request *r)
{
    const struct api_certificate_signing_request_condition *denied =
        certificate_condition(r, "Denied");
    const struct api_certificate_signing_request_condition *failed =
        certificate_condition(r, "Failed");
    struct err err = {0};
    if (denied || failed) {
        const struct api_certificate_signing_request_condition *c = denied ? denied : failed;
        int code = err_set(&err, denied ? ERR_FORBIDDEN : ERR_INVALID,
                           "the request for a certificate was %s: %.*s",
                           denied ? "denied" : "not signed", STR_ARG(c->message));
        finish(a, code, &err, (struct str){0});
        return true;
    }
    if (!r->status.certificate.n)
        return false;
    if (csr_check_chain(r->status.certificate, &err) < 0)
        finish(a, err_wrap(&err, "the cluster's answer"), &err, (struct str){0});
    else
        finish(a, 0, NULL, r->status.certificate);
    return true;
}

static void on_looked(void *arg, const struct client_answer *answer)
{
    struct identity_ask *a = arg;
    struct exec *exec = a->wish.client->exec;
    struct err err = {0};
    // Nobody else has that name: an answer was lost, and the request was made.
    bool there = !a->made && answer->code == -ERR_ALREADY_EXISTS;
    a->calling = false;
    a->made = a->made || there || answer->code == 0;
    if (a->cancelled) {
        ask_free(a);
        return;
    }
    if (answer->code == 0 && look(a, answer->object->object.value))
        return;
    if (answer->code < 0 && !there && answer->code != -ERR_UNAVAILABLE &&
        answer->code != -ERR_TIMEOUT) {
        finish(a, answer->code, answer->err, (struct str){0});
        return;
    }
    if (exec_now_ns(exec) >= a->give_up_ns) {
        int code = err_set(&err, ERR_TIMEOUT,
                           "nobody has decided on the request %s yet: 'kubectl certificate approve "
                           "%s' does, if the token may not",
                           a->name.p, a->name.p);
        finish(a, code, &err, (struct str){0});
        return;
    }
    exec_timer_start(exec, &a->timer, a->pause_ns);
    static const struct backoff_policy p = {.first_ns = POLL_FIRST_NS, .max_ns = POLL_MOST_NS};
    a->pause_ns = backoff_grow_ns(&p, a->pause_ns);
}

static const struct api_kind *csr_kind(void)
{
    return api_kind_find(STR("certificates.k8s.io/v1"), STR("CertificateSigningRequest"));
}

static void send_request(struct identity_ask *a)
{
    struct str usages[] = {STR("digital signature"),
                           a->wish.names ? STR("server auth") : STR("client auth")};
    struct api_certificate_signing_request r = {
        .metadata = {.name = sbuf_str(&a->name)},
        .spec = {.request = sbuf_str(&a->request),
                 .usages = {usages, array_len(usages)},
                 .signer_name = a->wish.names ? STR("kubernetes.io/kubelet-serving")
                                              : STR("kubernetes.io/kube-apiserver-client-kubelet"),
                 .has_expiration_seconds = a->wish.lifetime_s > 0,
                 .expiration_seconds = (int32_t)a->wish.lifetime_s}};
    const struct api_object object = {csr_kind(), &r};
    api_set_type_meta(&object);
    a->calling = true;
    client_create(a->wish.client, &object, NULL, on_looked, a);
}

static void on_time(void *arg)
{
    struct identity_ask *a = arg;
    const struct client_key key = {.kind = csr_kind(), .name = sbuf_str(&a->name)};
    if (!a->made) {
        send_request(a);
        return;
    }
    a->calling = true;
    client_get(a->wish.client, &key, on_looked, a);
}

struct identity_ask *identity_ask(const struct identity_wish *wish)
{
    static const char *const nodes[] = {"system:nodes", NULL};
    cleanup_sbuf struct sbuf subject = {0};
    struct identity_ask *a = xcalloc(1, sizeof(*a));
    struct err err = {0};
    a->wish = *wish;
    a->timer = (struct exec_timer){.fn = on_time, .arg = a};
    a->pause_ns = POLL_FIRST_NS;
    a->give_up_ns = exec_now_ns(wish->client->exec) + wish->timeout_ns;
    sbuf_addf(&subject, "system:node:%s", wish->node);
    sbuf_addf(&a->name, "node-csr-%016llx", (unsigned long long)rng_u64(rng_system()));
    const struct pki_subject what = {
        .common_name = subject.p, .organizations = nodes, .names = wish->names};
    int code = csr_make(&what, &a->request, &a->key, &err);
    if (code < 0) {
        finish(a, code, &err, (struct str){0});
        return NULL;
    }
    send_request(a);
    return a;
}

void identity_ask_cancel(struct identity_ask *a)
{
    if (!a)
        return;
    a->cancelled = true;
    if (!a->calling)
        ask_free(a);
}

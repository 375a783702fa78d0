// SPDX-License-Identifier: Apache-2.0
//
// One CertificateSigningRequest: create it, then poll until it is signed, denied or too late. Each
// answer decides what identity_request_advance does next.
#include <errno.h>
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

enum identity_request_step { REQUEST_CREATE, REQUEST_POLL };

struct identity_request {
    struct identity_request_options options;
    enum identity_request_step step;
    struct sbuf request, key, name;
    struct exec_timer timer;
    int64_t give_up_ns, pause_ns;
    bool calling, cancelled;
};

static void identity_request_free(struct identity_request *q)
{
    exec_timer_stop(q->options.client->exec, &q->timer);
    sbuf_done(&q->request);
    if (q->key.p)
        explicit_bzero(q->key.p, q->key.n);
    sbuf_done(&q->key);
    sbuf_done(&q->name);
    free(q);
}

static void identity_request_finish(struct identity_request *q, int r, const struct err *err,
                                    struct str certificate)
{
    cleanup_sbuf struct sbuf pem = {0};
    if (r == 0) {
        sbuf_add(&pem, certificate);
        if (!str_ends(certificate, STR("\n")))
            sbuf_addc(&pem, '\n');
        sbuf_add(&pem, sbuf_str(&q->key));
    }
    q->options.done(q->options.arg, r, err, sbuf_str(&pem));
    if (pem.p)
        explicit_bzero(pem.p, pem.n);
    identity_request_free(q);
}

// identity_request_read reads the certificate in an answer. Returns 0, -EAGAIN (not decided yet, or
// the server cannot be reached), or a failure.
static int identity_request_read(const struct client_answer *answer, struct str *ret,
                                 struct err *err)
{
    if (answer->code == -ERR_UNAVAILABLE || answer->code == -ERR_TIMEOUT)
        return -EAGAIN;
    if (answer->code < 0) {
        *err = *answer->err;
        return answer->code;
    }
    const struct api_certificate_signing_request *r = answer->object->object.value;
    const struct api_certificate_signing_request_condition *denied =
        certificate_condition(r, "Denied");
    const struct api_certificate_signing_request_condition *failed =
        certificate_condition(r, "Failed");
    if (denied || failed)
        return err_set(err, denied ? ERR_FORBIDDEN : ERR_INVALID,
                       "the request for a certificate was %s: %.*s",
                       denied ? "denied" : "not signed",
                       STR_ARG(denied ? denied->message : failed->message));
    if (!r->status.certificate.n)
        return -EAGAIN;
    *ret = r->status.certificate;
    return csr_check_chain(*ret, err) < 0 ? err_wrap(err, "the cluster's answer") : 0;
}

static void identity_request_on_answer(void *arg, const struct client_answer *answer)
{
    static const struct backoff_policy p = {.first_ns = POLL_FIRST_NS, .max_ns = POLL_MOST_NS};
    struct identity_request *q = arg;
    struct exec *exec = q->options.client->exec;
    struct str certificate = {0};
    struct err err = {0};
    // The name is random: an answer to an earlier create was lost.
    bool exists = q->step == REQUEST_CREATE && answer->code == -ERR_ALREADY_EXISTS;
    q->calling = false;
    if (q->cancelled) {
        identity_request_free(q);
        return;
    }
    if (exists || answer->code == 0)
        q->step = REQUEST_POLL;
    int r = exists ? -EAGAIN : identity_request_read(answer, &certificate, &err);
    if (r == -EAGAIN && exec_now_ns(exec) >= q->give_up_ns)
        r = err_set(&err, ERR_TIMEOUT,
                    "the request %s is not decided yet; approve it with 'kubectl certificate "
                    "approve %s'",
                    q->name.p, q->name.p);
    if (r != -EAGAIN) {
        identity_request_finish(q, r, &err, certificate);
        return;
    }
    exec_timer_start(exec, &q->timer, q->pause_ns);
    q->pause_ns = backoff_grow_ns(&p, q->pause_ns);
}

static const struct api_kind *identity_request_csr_kind(void)
{
    return api_kind_find(STR("certificates.k8s.io/v1"), STR("CertificateSigningRequest"));
}

static void identity_request_create(struct identity_request *q)
{
    struct str usages[] = {STR("digital signature"),
                           q->options.names ? STR("server auth") : STR("client auth")};
    struct api_certificate_signing_request r = {
        .metadata = {.name = sbuf_str(&q->name)},
        .spec = {.request = sbuf_str(&q->request),
                 .usages = {usages, array_len(usages)},
                 .signer_name = q->options.names
                                    ? STR("kubernetes.io/kubelet-serving")
                                    : STR("kubernetes.io/kube-apiserver-client-kubelet"),
                 .has_expiration_seconds = q->options.lifetime_s > 0,
                 .expiration_seconds = (int32_t)q->options.lifetime_s}};
    const struct api_object object = {identity_request_csr_kind(), &r};
    api_set_type_meta(&object);
    client_create(q->options.client, &object, NULL, identity_request_on_answer, q);
}

static void identity_request_advance(void *arg)
{
    struct identity_request *q = arg;
    const struct client_key key = {.kind = identity_request_csr_kind(), .name = sbuf_str(&q->name)};
    q->calling = true;
    switch (q->step) {
    case REQUEST_CREATE:
        identity_request_create(q);
        break;
    case REQUEST_POLL:
        client_get(q->options.client, &key, identity_request_on_answer, q);
        break;
    }
}

struct identity_request *identity_request_new(const struct identity_request_options *options)
{
    static const char *const nodes[] = {"system:nodes", NULL};
    cleanup_sbuf struct sbuf subject = {0};
    struct identity_request *q = xcalloc(1, sizeof(*q));
    struct err err = {0};
    q->options = *options;
    q->timer = (struct exec_timer){.fn = identity_request_advance, .arg = q};
    q->pause_ns = POLL_FIRST_NS;
    q->give_up_ns = exec_now_ns(options->client->exec) + options->timeout_ns;
    sbuf_addf(&subject, "system:node:%s", options->node);
    sbuf_addf(&q->name, "node-csr-%016llx", (unsigned long long)rng_u64(rng_system()));
    const struct pki_subject what = {
        .common_name = subject.p, .organizations = nodes, .names = options->names};
    int r = csr_make(&what, &q->request, &q->key, &err);
    if (r < 0) {
        identity_request_finish(q, r, &err, (struct str){0});
        return NULL;
    }
    identity_request_advance(q);
    return q;
}

void identity_request_cancel(struct identity_request *q)
{
    if (!q)
        return;
    q->cancelled = true;
    if (!q->calling)
        identity_request_free(q);
}

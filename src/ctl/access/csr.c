// SPDX-License-Identifier: Apache-2.0
//
// Requests for certificates: decided (csr_policy.h), signed with the cluster's CA, and removed when
// they are old.
#include <stdlib.h>

#include "api/certificate.h"
#include "ctl/access/csr_policy.h"
#include "ctl/core/ctl_int.h"
#include "net/address.h"
#include "pki/certificate.h"

#include "base/banned.h"

#define DECIDED_STAYS_S INT64_C(3600)
#define PENDING_STAYS_S INT64_C(86400)
#define YEAR_S          (INT64_C(365) * 86400)
#define BACKDATED_S     300 // clocks differ
#define LOOK_AGAIN_NS   (5 * CLOCK_NS_PER_SEC)

struct csr_ctl {
    struct ctl *ctl;
    struct work *work;
    struct list calls;
    struct ctl_certificates with; // texts below
    struct pki_key_pair ca;       // NULL: nothing is signed
    struct sbuf server_certificate;
    bool approve, sign, clean;
};

// --- Cleaning ------------------------------------------------------------------------------------

static int64_t min_of(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

// goes_at is when a request is removed, in seconds since 1970.
static int64_t goes_at(const struct api_certificate_signing_request *r)
{
    static const char *const types[] = {"Denied", "Failed", "Approved"};
    int64_t at = r->metadata.creation_timestamp.at.sec + PENDING_STAYS_S, from = 0, until = 0;
    for (size_t i = 0; i < array_len(types); i++) {
        const struct api_certificate_signing_request_condition *c =
            certificate_condition(r, types[i]);
        if (!c || !c->last_update_time.set)
            continue;
        bool waits = i == 2 && !r->status.certificate.n;
        at = c->last_update_time.at.sec + (waits ? PENDING_STAYS_S : DECIDED_STAYS_S);
        break;
    }
    if (r->status.certificate.n &&
        csr_certificate_times(r->status.certificate, &from, &until, NULL) == 0)
        at = min_of(at, until);
    return at;
}

static void csr_remove_request(struct csr_ctl *c, const struct typed_object *o)
{
    struct api_preconditions same = {.uid = o->meta->uid, .has_uid = true};
    const struct api_delete_options options = {.preconditions = &same};
    const struct client_key key = {.kind = ctl_kind(CACHE_REQUESTS), .name = o->meta->name};
    client_delete(c->ctl->client, &key, &options, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, o->meta->name, CACHE_REQUESTS));
}

// csr_schedule_removal leaves a request alone until it is to be removed.
static void csr_schedule_removal(struct csr_ctl *c, struct str key,
                                 const struct api_certificate_signing_request *r)
{
    int64_t left = goes_at(r) - ctl_now(c->ctl).at.sec;
    if (c->clean)
        work_again(c->work, key, (left > 0 ? left : 1) * CLOCK_NS_PER_SEC);
    else
        work_done(c->work, key);
}

// --- Deciding ------------------------------------------------------------------------------------

struct search {
    struct str node, name;
    bool found;
};

static void look_at_node(void *arg, const struct typed_object *o)
{
    struct search *s = arg;
    const struct api_node *node = o->object.value;
    if (str_eq(o->meta->name, s->node))
        return;
    s->found |= address_same(o->meta->name, s->name);
    for (size_t i = 0; i < node->status.addresses.n; i++)
        s->found |= address_same(node->status.addresses.p[i].address, s->name);
}

static bool csr_name_is_taken(void *arg, struct str node, struct str name)
{
    const struct csr_ctl *c = arg;
    struct search s = {.node = node, .name = name};
    informer_foreach(c->ctl->caches[CACHE_NODES], look_at_node, &s);
    return s.found;
}

static bool csr_is_permitted(const struct csr_ctl *c,
                             const struct api_certificate_signing_request *r,
                             const char *subresource)
{
    return c->with.may && c->with.may(c->with.arg, r, subresource);
}

// csr_write_condition adds a condition to a copy of the request, and a certificate if there is one.
static void csr_write_condition(struct csr_ctl *c, const struct typed_object *o, const char *part,
                                const struct api_certificate_signing_request_condition *condition,
                                struct str certificate)
{
    cleanup_arena struct arena arena = {0};
    struct api_certificate_signing_request now =
        *(const struct api_certificate_signing_request *)o->object.value;
    size_t n = now.status.conditions.n;
    struct api_certificate_signing_request_condition *list =
        arena_array(&arena, struct api_certificate_signing_request_condition, n + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = now.status.conditions.p[i];
    if (condition) {
        list[n] = *condition;
        list[n].status = STR("True");
        list[n].last_update_time = list[n].last_transition_time = ctl_now(c->ctl);
        n++;
    }
    now.status.conditions = (struct api_certificate_signing_request_condition_array){list, n};
    if (certificate.n)
        now.status.certificate = certificate;
    const struct api_object object = {ctl_kind(CACHE_REQUESTS), &now};
    const struct client_write how = {.subresource = str_z(part)};
    client_update(c->ctl->client, &object, &how, ctl_call_done,
                  ctl_call_new(&c->calls, c->work, o->meta->name, CACHE_REQUESTS));
}

static void csr_decide_approval(struct csr_ctl *c, const struct typed_object *o)
{
    const struct api_certificate_signing_request *r = o->object.value;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf why = {0};
    struct csr_request request = {0};
    struct err err = {0};
    static const struct str prefix = STR_INIT("system:node:");
    if (csr_parse(r->spec.request, &arena, &request, &err) < 0) {
        csr_schedule_removal(c, o->meta->name, r);
        return;
    }
    struct str name =
        str_starts(request.common_name, prefix) ? str_from(request.common_name, prefix.n) : STR("");
    const struct typed_object *node = ctl_find(c->ctl, CACHE_NODES, STR(""), name);
    const struct csr_question q = {.object = r,
                                   .request = &request,
                                   .may_bootstrap = csr_is_permitted(c, r, "nodeclient"),
                                   .may_renew = csr_is_permitted(c, r, "selfnodeclient"),
                                   .node = node ? node->object.value : NULL,
                                   .server_certificate = sbuf_str(&c->server_certificate),
                                   .taken = csr_name_is_taken,
                                   .arg = c};
    enum csr_verdict verdict = csr_judge(&q, &why);
    if (verdict == CSR_LEAVE) {
        // A Node may come, a binding may be made.
        work_again(c->work, o->meta->name, LOOK_AGAIN_NS);
        return;
    }
    bool yes = verdict == CSR_APPROVE;
    const struct api_certificate_signing_request_condition condition = {
        .type = yes ? STR("Approved") : STR("Denied"),
        .reason = yes ? STR("AutoApproved") : STR("AutoDenied"),
        .message = sbuf_str(&why)};
    csr_write_condition(c, o, "approval", &condition, (struct str){0});
}

// --- Signing -------------------------------------------------------------------------------------

static void csr_sign_request(struct csr_ctl *c, const struct typed_object *o)
{
    const struct api_certificate_signing_request *r = o->object.value;
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf why = {0}, certificate = {0};
    struct csr_request request = {0};
    struct err err = {0};
    int64_t now = ctl_now(c->ctl).at.sec;
    int64_t seconds = r->spec.has_expiration_seconds ? r->spec.expiration_seconds : YEAR_S;
    struct csr_terms terms = {.not_before = now - BACKDATED_S,
                              .not_after = now + min_of(seconds, YEAR_S)};
    int code = csr_parse(r->spec.request, &arena, &request, &err);
    if (code == 0 && !csr_signable(r, &request, &terms.server, &why))
        code = err_set(&err, ERR_INVALID, "%.*s", STR_ARG(sbuf_str(&why)));
    if (code == 0)
        code = csr_sign(&c->ca, r->spec.request, &terms, &certificate, &err);
    const struct api_certificate_signing_request_condition failed = {
        .type = STR("Failed"), .reason = STR("SignerValidationFailure"), .message = str_z(err.msg)};
    csr_write_condition(c, o, "status", code < 0 ? &failed : NULL, sbuf_str(&certificate));
}

static void csr_step_key(void *arg, struct str key)
{
    struct csr_ctl *c = arg;
    if (!ctl_synced(c->ctl)) {
        work_retry(c->work, key);
        return;
    }
    const struct typed_object *o = ctl_find(c->ctl, CACHE_REQUESTS, STR(""), key);
    if (!o || o->meta->deletion_timestamp.set) {
        work_done(c->work, key);
        return;
    }
    const struct api_certificate_signing_request *r = o->object.value;
    bool decided = certificate_condition(r, "Approved") || certificate_condition(r, "Denied");
    bool over = r->status.certificate.n || certificate_condition(r, "Failed");
    if (c->clean && goes_at(r) <= ctl_now(c->ctl).at.sec)
        csr_remove_request(c, o);
    else if (!decided && !over && c->approve)
        csr_decide_approval(c, o);
    else if (certificate_condition(r, "Approved") && !certificate_condition(r, "Denied") && !over &&
             c->sign && c->ca.key_pem && csr_is_ours(r->spec.signer_name))
        csr_sign_request(c, o);
    else
        csr_schedule_removal(c, key, r);
}

static void csr_request_changed(void *arg, const struct typed_object *before,
                                const struct typed_object *after)
{
    struct csr_ctl *c = arg;
    work_add(c->work, (after ? after : before)->meta->name);
}

void csr_ctl_set_ca(struct csr_ctl *c, struct str certificate, struct str key)
{
    pki_key_pair_done(&c->ca);
    if (certificate.n && key.n)
        c->ca =
            (struct pki_key_pair){xstrndup(certificate.p, certificate.n), xstrndup(key.p, key.n)};
}

struct csr_ctl *csr_ctl_new(struct ctl *ctl, const struct ctl_certificates *with)
{
    struct csr_ctl *c = xcalloc(1, sizeof(*c));
    c->ctl = ctl;
    c->with = *with;
    c->approve = !ctl->off[CTL_CSR_APPROVING];
    c->sign = !ctl->off[CTL_CSR_SIGNING];
    c->clean = !ctl->off[CTL_CSR_CLEANER];
    csr_ctl_set_ca(c, with->ca_certificate, with->ca_key);
    sbuf_add(&c->server_certificate, with->server_certificate);
    c->work = ctl_work(ctl, "certificate", csr_step_key, c);
    list_init(&c->calls);
    ctl_watch(ctl, CACHE_REQUESTS, csr_request_changed, c, c->work);
    return c;
}

void csr_ctl_free(struct csr_ctl *c)
{
    if (!c)
        return;
    ctl_calls_drop(&c->calls);
    work_free(c->work);
    pki_key_pair_done(&c->ca);
    sbuf_done(&c->server_certificate);
    free(c);
}

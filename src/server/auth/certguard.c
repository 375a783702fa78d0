// SPDX-License-Identifier: Apache-2.0
//
// What a write to a request for a certificate needs beyond the right to it: Kubernetes' admission
// plugins CertificateApproval, CertificateSigning and CertificateSubjectRestriction.
#include "pki/csr.h"
#include "server/auth/access.h"

#include "base/banned.h"

static bool may_use_signer(struct server *s, const struct registry_user *user, const char *verb,
                           struct str signer)
{
    struct access q = {.user = user,
                       .verb = str_z(verb),
                       .group = STR("certificates.k8s.io"),
                       .resource = STR("signers"),
                       .name = signer};
    cleanup_sbuf struct sbuf domain = {0};
    struct str head, tail;
    if (authz_allows(s, &q, NULL))
        return true;
    str_cut(signer, '/', &head, &tail);
    sbuf_addf(&domain, "%.*s/*", STR_ARG(head));
    q.name = sbuf_str(&domain);
    return authz_allows(s, &q, NULL);
}

static int check_signer(struct server *s, const struct registry_request *q, const char *verb,
                        struct str signer, struct sbuf *why)
{
    if (authz_is_master(q->user) || may_use_signer(s, q->user, verb, signer))
        return 0;
    sbuf_addf(why, "user not permitted to %s requests with signerName \"%.*s\"", verb,
              STR_ARG(signer));
    return -ERR_FORBIDDEN;
}

// A request for a certificate must not make its author an administrator.
static int certguard_check_subject(const struct api_certificate_signing_request *now,
                                   struct sbuf *why)
{
    cleanup_arena struct arena arena = {0};
    struct csr_request request = {0};
    if (!str_eqz(now->spec.signer_name, "kubernetes.io/kube-apiserver-client") ||
        csr_parse(now->spec.request, &arena, &request, NULL) < 0)
        return 0; // what cannot be read is refused as invalid
    for (size_t i = 0; i < request.organizations_len; i++)
        if (str_eqz(request.organizations[i], "system:masters")) {
            sbuf_addz(why, "use of kubernetes.io/kube-apiserver-client signer with system:masters "
                           "group is not allowed");
            return -ERR_FORBIDDEN;
        }
    return 0;
}

int certguard_check(struct server *s, const struct registry_request *request,
                    const struct api_object *object, const struct api_object *old, struct sbuf *why)
{
    if (!object || object->kind->type != &api_certificate_signing_request_type)
        return 0;
    const struct api_certificate_signing_request *now = object->value;
    if (!old)
        return certguard_check_subject(now, why);
    const struct api_certificate_signing_request *before = old->value;
    if (str_eqz(request->subresource, "approval"))
        return check_signer(s, request, "approve", before->spec.signer_name, why);
    bool same =
        str_eq(now->status.certificate, before->status.certificate) &&
        api_equal(&api_certificate_signing_request_status_type, &now->status, &before->status);
    if (str_eqz(request->subresource, "status") && !same)
        return check_signer(s, request, "sign", before->spec.signer_name, why);
    return 0;
}

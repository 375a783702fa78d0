// SPDX-License-Identifier: Apache-2.0
//
// The rules of requests for certificates, but for the two texts in PEM, which the registry reads.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define DOMAIN_BYTES_MAX 253
#define SIGNER_BYTES_MAX (253 + 253 + 63 + 1 + 1)

static const struct str usages[] = {
    STR_INIT("any"),
    STR_INIT("cert sign"),
    STR_INIT("client auth"),
    STR_INIT("code signing"),
    STR_INIT("content commitment"),
    STR_INIT("crl sign"),
    STR_INIT("data encipherment"),
    STR_INIT("decipher only"),
    STR_INIT("digital signature"),
    STR_INIT("email protection"),
    STR_INIT("encipher only"),
    STR_INIT("ipsec end system"),
    STR_INIT("ipsec tunnel"),
    STR_INIT("ipsec user"),
    STR_INIT("key agreement"),
    STR_INIT("key encipherment"),
    STR_INIT("microsoft sgc"),
    STR_INIT("netscape sgc"),
    STR_INIT("ocsp signing"),
    STR_INIT("s/mime"),
    STR_INIT("server auth"),
    STR_INIT("signing"),
    STR_INIT("timestamping"),
};

// check_parts looks at the parts of a domain or path between dots; one bad part is enough.
static size_t check_parts(struct validator *v, const struct path *at, struct str text,
                          name_check check)
{
    struct str rest = text, part;
    size_t n = 0;
    for (bool more = true; more; n++) {
        struct name_msgs msgs = {.arena = scratch(v)};
        more = str_cut(rest, '.', &part, &rest);
        check(part, &msgs);
        cleanup_sbuf struct sbuf quoted = {0};
        sbuf_add_quoted(&quoted, part);
        for (size_t i = 0; i < msgs.n; i++)
            cause_invalid(v->causes, at, text,
                          arena_strf(scratch(v), "validating label %.*s: %.*s",
                                     STR_ARG(sbuf_str(&quoted)), STR_ARG(msgs.p[i])));
        if (msgs.n)
            return 2;
    }
    return n;
}

static void check_signer_name(struct validator *v, const struct path *at, struct str name)
{
    struct str domain, rest;
    if (!name.n) {
        cause_required(v->causes, at, STR(""));
        return;
    }
    if (!str_cut(name, '/', &domain, &rest) || str_find_char(rest, '/') >= 0) {
        cause_invalid(v->causes, at, name,
                      STR("must be a fully qualified domain and path of the form "
                          "'example.com/signer-name'"));
        return;
    }
    if (domain.n > DOMAIN_BYTES_MAX)
        cause_too_long(v->causes, at, DOMAIN_BYTES_MAX);
    if (check_parts(v, at, domain, name_dns_label) < 2)
        cause_invalid(v->causes, at, domain,
                      STR("should be a domain with at least two segments separated by dots"));
    (void)check_parts(v, at, rest, name_dns_subdomain);
    if (name.n > SIGNER_BYTES_MAX)
        cause_too_long(v->causes, at, SIGNER_BYTES_MAX);
}

static void validate_certificate_usages(struct validator *v, const struct path *at,
                                        const struct api_str_array *wanted)
{
    if (wanted->n == 0)
        cause_required(v->causes, at, STR(""));
    for (size_t i = 0; i < wanted->n && !causes_full(v->causes); i++)
        if (!validate_is_choice(CHOICES(usages), wanted->p[i]))
            cause_not_supported(v->causes, AT_ITEM(at, i), wanted->p[i], usages, array_len(usages));
    for (size_t i = 0; i < wanted->n && !causes_full(v->causes); i++)
        for (size_t k = 0; k < i; k++)
            if (str_eq(wanted->p[i], wanted->p[k])) {
                cause_duplicate(v->causes, AT_ITEM(at, i), wanted->p[i]);
                break;
            }
}

static bool is_final(struct str type)
{
    return str_eqz(type, "Approved") || str_eqz(type, "Denied") || str_eqz(type, "Failed");
}

static void validate_certificate_condition(
    struct validator *v, const struct path *at,
    const struct api_certificate_signing_request_condition *c)
{
    static const struct str all[] = {STR_INIT("False"), STR_INIT("True"), STR_INIT("Unknown")};
    const struct choices choices = is_final(c->type) ? (struct choices){all + 1, 1} : CHOICES(all);
    validate_required(v, AT(at, "type"), c->type);
    if (!c->status.n)
        cause_required(v->causes, AT(at, "status"), STR(""));
    else
        validate_choice(v, AT(at, "status"), c->status, choices);
}

static size_t certificate_count_conditions(const struct api_certificate_signing_request *r,
                                           const char *type)
{
    size_t n = 0;
    for (size_t i = 0; i < r->status.conditions.n; i++)
        n += str_eqz(r->status.conditions.p[i].type, type);
    return n;
}

static void check_verdicts(struct validator *v, const struct path *at,
                           const struct api_certificate_signing_request *now,
                           const struct api_certificate_signing_request *old)
{
    static const char *const finals[] = {"Approved", "Denied", "Failed"};
    for (size_t i = 0; i < now->status.conditions.n && !causes_full(v->causes); i++) {
        const struct api_certificate_signing_request_condition *c = &now->status.conditions.p[i];
        validate_certificate_condition(v, AT_ITEM(at, i), c);
        for (size_t k = 0; k < i; k++)
            if (str_eq(c->type, now->status.conditions.p[k].type))
                cause_duplicate(v->causes, AT(AT_ITEM(at, i), "type"), c->type);
    }
    if (certificate_count_conditions(now, "Approved") &&
        certificate_count_conditions(now, "Denied"))
        cause_invalid(v->causes, at, STR("Denied"),
                      STR("Approved and Denied conditions are mutually exclusive"));
    for (size_t i = 0; old && i < array_len(finals); i++)
        if (certificate_count_conditions(now, finals[i]) <
            certificate_count_conditions(old, finals[i]))
            cause_forbidden(v->causes, at,
                            arena_strf(scratch(v),
                                       "updates may not remove a condition of type \"%s\"",
                                       finals[i]));
}

void validate_certificate_request(struct validator *v,
                                  const struct api_certificate_signing_request *now,
                                  const struct api_certificate_signing_request *old)
{
    const struct path *spec = AT(NULL, "spec");
    validate_certificate_usages(v, AT(spec, "usages"), &now->spec.usages);
    if (str_eqz(now->spec.signer_name, "kubernetes.io/legacy-unknown") &&
        !(old && str_eq(old->spec.signer_name, now->spec.signer_name)))
        cause_invalid(v->causes, AT(spec, "signerName"), now->spec.signer_name,
                      STR("the legacy signerName is not allowed via this API version"));
    else
        check_signer_name(v, AT(spec, "signerName"), now->spec.signer_name);
    if (now->spec.has_expiration_seconds && now->spec.expiration_seconds < 600)
        cause_invalid_i64(v->causes, AT(spec, "expirationSeconds"), now->spec.expiration_seconds,
                          STR("may not specify a duration less than 600 seconds (10 minutes)"));
    check_verdicts(v, AT(AT(NULL, "status"), "conditions"), now, old);
    if (old && old->status.certificate.n &&
        !str_eq(old->status.certificate, now->status.certificate))
        cause_forbidden(v->causes, AT(AT(NULL, "status"), "certificate"),
                        STR("updates may not modify existing certificate content"));
}

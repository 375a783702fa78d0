// SPDX-License-Identifier: Apache-2.0
//
// Making requests for certificates, and certificates of requests: what a node and its controller do
// when the node joins.
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "net/openssl.h"
#include "pki/csr.h"
#include "pki/pki_int.h"

#include "base/banned.h"

// --- Making a request ----------------------------------------------------------------------------

static bool csr_sign_add_names(X509_REQ *q, const char *const *names)
{
    if (!names || !*names)
        return true;
    GENERAL_NAMES *all = certificate_make_names(names);
    STACK_OF(X509_EXTENSION) *extensions = NULL;
    bool ok = all && X509V3_add1_i2d(&extensions, NID_subject_alt_name, all, 0, 0) == 1 &&
              X509_REQ_add_extensions(q, extensions) == 1;
    sk_GENERAL_NAME_pop_free(all, GENERAL_NAME_free);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    return ok;
}

int csr_make(const struct pki_subject *subject, struct sbuf *ret_request, struct sbuf *ret_key,
             struct err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509_REQ *q = X509_REQ_new();
    BIO *request = BIO_new(BIO_s_mem()), *secret = BIO_new(BIO_s_secmem());
    bool ok = key && q && request && secret && X509_REQ_set_version(q, X509_REQ_VERSION_1) &&
              certificate_add_subject(X509_REQ_get_subject_name(q), subject) &&
              X509_REQ_set_pubkey(q, key) && csr_sign_add_names(q, subject->names) &&
              X509_REQ_sign(q, key, EVP_sha256()) > 0 && PEM_write_bio_X509_REQ(request, q) &&
              PEM_write_bio_PrivateKey(secret, key, NULL, NULL, 0, NULL, NULL);
    int r = 0;
    if (ok) {
        pem_add_text(ret_request, request);
        pem_add_text(ret_key, secret);
    } else {
        r = tls_fail(err, ERR_INVALID, "cannot make a request for a certificate");
    }
    BIO_free(request);
    BIO_free(secret);
    X509_REQ_free(q);
    EVP_PKEY_free(key);
    return r;
}

// --- Signing one ---------------------------------------------------------------------------------

// The parts of a request that a certificate takes over, as C texts in arena.
static void csr_sign_subject_of(const struct csr_request *q, struct arena *arena,
                                struct pki_subject *ret)
{
    const char **organizations = arena_array(arena, const char *, q->organizations_len + 1);
    const char **names = arena_array(arena, const char *, q->names_len + 1);
    size_t n = 0;
    for (size_t i = 0; i < q->organizations_len; i++)
        organizations[i] = q->organizations[i].p;
    organizations[q->organizations_len] = NULL;
    for (size_t i = 0; i < q->names_len; i++)
        if (q->names[i].type == CSR_NAME_DNS || q->names[i].type == CSR_NAME_IP)
            names[n++] = q->names[i].text.p;
    names[n] = NULL;
    ret->common_name = q->common_name.p;
    ret->organizations = organizations;
    ret->names = names;
}

static int end_of_ca(const struct pki_key_pair *ca, int64_t *until, struct err *err)
{
    int64_t from = 0, ca_until = 0;
    int r = csr_certificate_times(str_z(ca->certificate_pem), &from, &ca_until, err);
    if (r == 0 && ca_until < *until)
        *until = ca_until;
    return r < 0 ? err_wrap(err, "the CA") : 0;
}

int csr_sign(const struct pki_key_pair *ca, struct str pem, const struct csr_terms *terms,
             struct sbuf *ret, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct csr_request request;
    struct pki_subject subject = {
        .server = terms->server, .not_before = terms->not_before, .not_after = terms->not_after};
    int r = csr_parse(pem, &arena, &request, err);
    if (r == 0 && !request.common_name.n)
        r = err_set(err, ERR_INVALID, "the request has no common name");
    if (r == 0)
        r = end_of_ca(ca, &subject.not_after, err);
    if (r < 0)
        return r;
    csr_sign_subject_of(&request, &arena, &subject);
    X509_REQ *q = csr_read(pem, err);
    EVP_PKEY *key = q ? X509_REQ_get0_pubkey(q) : NULL;
    r = key ? certificate_sign_key(ca, &subject, key, ret, err)
            : err_set(err, ERR_INVALID, "the request shows no key");
    X509_REQ_free(q);
    return r == -EINVAL ? err_set(err, ERR_INVALID, "the CA cannot sign this request") : r;
}

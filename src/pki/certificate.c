// SPDX-License-Identifier: Apache-2.0
//
// Making certificates (EC P-256 keys, X.509 v3, signed with SHA-256), and the helpers on PEM texts
// and names that requests for certificates need, too.
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

#include <arpa/inet.h>

#include "base/mem.h"
#include "net/openssl.h"
#include "pki/pki_int.h"
#include "pki/sign.h"

#include "base/banned.h"

// What a certificate is made from and into; all of it is freed together.
struct making {
    EVP_PKEY *key;
    X509 *x;
    EVP_PKEY *ca_key;
    X509 *ca;
};

static void making_done(struct making *m)
{
    EVP_PKEY_free(m->key);
    X509_free(m->x);
    EVP_PKEY_free(m->ca_key);
    X509_free(m->ca);
}

void pki_key_pair_done(struct pki_key_pair *p)
{
    free(p->certificate_pem);
    if (p->key_pem)
        OPENSSL_cleanse(p->key_pem, strlen(p->key_pem));
    free(p->key_pem);
    *p = (struct pki_key_pair){0};
}

BIO *pem_open(struct str pem)
{
    return pem.n && pem.n <= PEM_BYTES_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
}

void pem_add_text(struct sbuf *to, BIO *bio)
{
    char *p = NULL;
    long n = BIO_get_mem_data(bio, &p);
    sbuf_add(to, str_make(p, n > 0 ? (size_t)n : 0));
}

X509 *certificate_read(struct str pem)
{
    BIO *bio = pem_open(pem);
    X509 *x = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    ERR_clear_error();
    return x;
}

static EVP_PKEY *certificate_read_key(const char *pem)
{
    BIO *bio = pem_open(str_z(pem));
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    BIO_free(bio);
    return key;
}

bool certificate_add_subject(X509_NAME *name, const struct pki_subject *subject)
{
    for (const char *const *o = subject->organizations; o && *o; o++)
        if (!X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_UTF8,
                                        (const unsigned char *)*o, -1, -1, 0))
            return false;
    return X509_NAME_add_entry_by_NID(name, NID_commonName, MBSTRING_UTF8,
                                      (const unsigned char *)subject->common_name, -1, -1, 0) == 1;
}

static bool add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

// Built from parts, not from a text, in which a name with a comma could say more than it should.
static GENERAL_NAME *make_name(const char *text)
{
    unsigned char ip[16];
    size_t ip_len = inet_pton(AF_INET, text, ip) == 1 ? 4 : 0;
    if (!ip_len && inet_pton(AF_INET6, text, ip) == 1)
        ip_len = 16;
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = ip_len ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    const void *bytes = ip_len ? (const void *)ip : (const void *)text;
    if (!name || !value || !ASN1_STRING_set(value, bytes, (int)(ip_len ? ip_len : strlen(text)))) {
        GENERAL_NAME_free(name);
        ASN1_STRING_free(value);
        return NULL;
    }
    GENERAL_NAME_set0_value(name, ip_len ? GEN_IPADD : GEN_DNS, value);
    return name;
}

GENERAL_NAMES *certificate_make_names(const char *const *names)
{
    GENERAL_NAMES *all = sk_GENERAL_NAME_new_null();
    bool ok = all != NULL;
    for (; ok && *names; names++) {
        GENERAL_NAME *name = make_name(*names);
        ok = name && sk_GENERAL_NAME_push(all, name) > 0;
    }
    if (ok)
        return all;
    sk_GENERAL_NAME_pop_free(all, GENERAL_NAME_free);
    return NULL;
}

static bool certificate_add_names(X509 *x, const char *const *names)
{
    if (!names || !*names)
        return true;
    GENERAL_NAMES *all = certificate_make_names(names);
    bool ok = all && X509_add1_ext_i2d(x, NID_subject_alt_name, all, 0, 0) == 1;
    sk_GENERAL_NAME_pop_free(all, GENERAL_NAME_free);
    return ok;
}

static bool set_serial(X509 *x)
{
    unsigned char bytes[16];
    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] &= 0x7f; // positive
    bytes[0] |= 0x40; // and always as long
    BIGNUM *n = BN_bin2bn(bytes, sizeof(bytes), NULL);
    bool ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x));
    BN_free(n);
    return ok;
}

static bool set_times(X509 *x, const struct pki_subject *subject)
{
    time_t from = (time_t)subject->not_before, to = (time_t)subject->not_after;
    return X509_time_adj_ex(X509_getm_notBefore(x), 0, 0, &from) &&
           X509_time_adj_ex(X509_getm_notAfter(x), 0, 0, &to);
}

static bool add_extensions(struct making *m, const struct pki_subject *subject)
{
    X509 *issuer = m->ca ? m->ca : m->x;
    if (!m->ca)
        return add_extension(m->x, issuer, NID_basic_constraints, "critical,CA:TRUE") &&
               add_extension(m->x, issuer, NID_key_usage,
                             "critical,digitalSignature,keyCertSign,cRLSign") &&
               add_extension(m->x, issuer, NID_subject_key_identifier, "hash");
    const char *use = subject->server ? "serverAuth" : "clientAuth";
    return add_extension(m->x, issuer, NID_basic_constraints, "critical,CA:FALSE") &&
           add_extension(m->x, issuer, NID_key_usage, "critical,digitalSignature") &&
           add_extension(m->x, issuer, NID_ext_key_usage, use) &&
           add_extension(m->x, issuer, NID_authority_key_identifier, "keyid") &&
           certificate_add_names(m->x, subject->names);
}

static bool certificate_build_x509(struct making *m, const struct pki_subject *subject)
{
    if (!m->key)
        m->key = EVP_EC_gen("P-256");
    m->x = X509_new();
    if (!m->key || !m->x)
        return false;
    X509_NAME *name = X509_get_subject_name(m->x);
    const X509_NAME *issuer = m->ca ? X509_get_subject_name(m->ca) : name;
    return X509_set_version(m->x, X509_VERSION_3) && set_serial(m->x) && set_times(m->x, subject) &&
           certificate_add_subject(name, subject) && X509_set_issuer_name(m->x, issuer) &&
           X509_set_pubkey(m->x, m->key) && add_extensions(m, subject) &&
           X509_sign(m->x, m->ca ? m->ca_key : m->key, EVP_sha256()) > 0;
}

static char *certificate_take_text(BIO *bio)
{
    struct sbuf text = {0};
    pem_add_text(&text, bio);
    return sbuf_take(&text);
}

static bool write_pem(const struct making *m, struct pki_key_pair *ret)
{
    BIO *certificate = BIO_new(BIO_s_mem()), *key = BIO_new(BIO_s_secmem());
    bool ok = certificate && key && PEM_write_bio_X509(certificate, m->x) &&
              PEM_write_bio_PrivateKey(key, m->key, NULL, NULL, 0, NULL, NULL);
    if (ok)
        *ret =
            (struct pki_key_pair){certificate_take_text(certificate), certificate_take_text(key)};
    BIO_free(certificate);
    BIO_free(key);
    return ok;
}

static int certificate_make_pair(struct making *m, const struct pki_subject *subject,
                                 struct pki_key_pair *ret, struct err *err)
{
    if (!certificate_build_x509(m, subject) || !write_pem(m, ret)) {
        (void)tls_fail(err, EINVAL, "cannot make a certificate");
        return err_wrap(err, "%s", subject->common_name);
    }
    return 0;
}

int pki_make_ca(const struct pki_subject *subject, struct pki_key_pair *ret, struct err *err)
{
    cleanup_with(making_done) struct making m = {0};
    return certificate_make_pair(&m, subject, ret, err);
}

static int read_ca(struct making *m, const struct pki_key_pair *ca, struct err *err)
{
    m->ca = certificate_read(str_z(ca->certificate_pem));
    m->ca_key = certificate_read_key(ca->key_pem);
    if (!m->ca || !m->ca_key)
        return tls_fail(err, EINVAL, "the CA is not a PEM certificate with its key");
    if (X509_check_private_key(m->ca, m->ca_key) != 1)
        return tls_fail(err, EINVAL, "the CA's certificate and key do not belong together");
    return 0;
}

int pki_make_certificate(const struct pki_key_pair *ca, const struct pki_subject *subject,
                         struct pki_key_pair *ret, struct err *err)
{
    cleanup_with(making_done) struct making m = {0};
    int r = read_ca(&m, ca, err);
    return r < 0 ? r : certificate_make_pair(&m, subject, ret, err);
}

int certificate_sign_key(const struct pki_key_pair *ca, const struct pki_subject *subject,
                         EVP_PKEY *public_key, struct sbuf *ret, struct err *err)
{
    cleanup_with(making_done) struct making m = {0};
    int r = read_ca(&m, ca, err);
    if (r < 0)
        return r;
    m.key = EVP_PKEY_up_ref(public_key) ? public_key : NULL;
    BIO *out = BIO_new(BIO_s_mem());
    if (!m.key || !out || !certificate_build_x509(&m, subject) || !PEM_write_bio_X509(out, m.x)) {
        r = tls_fail(err, EINVAL, "cannot make a certificate");
    } else {
        pem_add_text(ret, out);
    }
    BIO_free(out);
    return r;
}

int pki_certificate_expiry(const char *certificate_pem, int64_t *ret, struct err *err)
{
    X509 *x = certificate_read(str_z(certificate_pem));
    if (!x)
        return err_set(err, EINVAL, "not a PEM certificate");
    bool ok = tls_read_time(X509_get0_notAfter(x), ret);
    X509_free(x);
    return ok ? 0 : tls_fail(err, EINVAL, "the certificate's end is not a time");
}

bool pki_certificate_names(const char *certificate_pem, const struct pki_subject *subject)
{
    X509 *x = certificate_read(str_z(certificate_pem));
    X509_NAME *wanted = X509_NAME_new();
    bool same = x && wanted && certificate_add_subject(wanted, subject) &&
                X509_NAME_cmp(X509_get_subject_name(x), wanted) == 0;
    X509_free(x);
    X509_NAME_free(wanted);
    ERR_clear_error();
    return same;
}

int pki_certificate_fingerprint(struct str pem, char ret[PKI_FINGERPRINT_BYTES], struct err *err)
{
    X509 *x = certificate_read(pem);
    unsigned char *der = NULL;
    int n = x ? i2d_X509(x, &der) : -1;
    X509_free(x);
    if (n <= 0)
        return err_set(err, ERR_INVALID, "there is no certificate in PEM form in it");
    sign_sha256(str_make((const char *)der, (size_t)n), ret);
    OPENSSL_free(der);
    return 0;
}

bool pki_pair_matches(const char *certificate_pem, const char *key_pem)
{
    X509 *x = certificate_read(str_z(certificate_pem));
    EVP_PKEY *key = certificate_read_key(key_pem);
    bool matches = x && key && X509_check_private_key(x, key) == 1;
    X509_free(x);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return matches;
}

bool pki_key_fits(const struct pki_key_pair *pair)
{
    X509 *x = certificate_read(str_z(pair->certificate_pem));
    EVP_PKEY *key = certificate_read_key(pair->key_pem);
    bool fits = x && key && X509_check_private_key(x, key) == 1;
    X509_free(x);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return fits;
}

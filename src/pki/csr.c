// SPDX-License-Identifier: Apache-2.0
//
// Reading requests for certificates, and what others want to know of certificates that came from
// outside: times, names, who signed them, the hash of their public key. Trusts no byte of either.
#include "pki/csr.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>

#include "base/vec.h"
#include "net/openssl.h"
#include "pki/pki_int.h"

#include "base/banned.h"

#define SUBJECT_PARTS_MAX 64

// --- Reading a request ---------------------------------------------------------------------------

X509_REQ *csr_read(struct str pem, struct err *err)
{
    BIO *bio = pem_open(pem);
    char *name = NULL, *header = NULL;
    unsigned char *bytes = NULL;
    long n = 0;
    X509_REQ *q = NULL;
    if (!bio || PEM_read_bio(bio, &name, &header, &bytes, &n) != 1 ||
        strcmp(name, PEM_STRING_X509_REQ) != 0) {
        (void)err_set(err, ERR_INVALID, "PEM block type must be CERTIFICATE REQUEST");
    } else {
        const unsigned char *at = bytes;
        q = d2i_X509_REQ(NULL, &at, n);
        if (!q || at != bytes + n) {
            (void)err_set(err, ERR_INVALID, "the block does not hold a PKCS#10 request");
            X509_REQ_free(q);
            q = NULL;
        }
    }
    OPENSSL_free(name);
    OPENSSL_free(header);
    OPENSSL_free(bytes);
    BIO_free(bio);
    ERR_clear_error();
    return q;
}

// copy_text makes UTF-8 of an ASN.1 string. False: it cannot be, or it has a NUL, behind which
// another name could hide.
static bool copy_text(const ASN1_STRING *s, struct arena *arena, struct str *ret)
{
    unsigned char *utf8 = NULL;
    int n = ASN1_STRING_to_UTF8(&utf8, s);
    bool ok = n >= 0 && (n == 0 || !memchr(utf8, 0, (size_t)n));
    if (ok)
        *ret = arena_str(arena, str_make((const char *)utf8, (size_t)n));
    OPENSSL_free(utf8);
    return ok;
}

static int read_subject(const X509_NAME *subject, struct arena *arena, struct csr_request *ret,
                        struct err *err)
{
    int n = X509_NAME_entry_count(subject);
    if (n > SUBJECT_PARTS_MAX)
        return err_set(err, ERR_INVALID, "the subject has more than %d parts", SUBJECT_PARTS_MAX);
    struct str *organizations = arena_array(arena, struct str, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        const X509_NAME_ENTRY *entry = X509_NAME_get_entry(subject, i);
        int nid = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
        struct str text;
        if (!copy_text(X509_NAME_ENTRY_get_data(entry), arena, &text))
            return err_set(err, ERR_INVALID, "the subject holds what is not text");
        if (nid == NID_organizationName)
            organizations[ret->organizations_len++] = text;
        else if (nid == NID_commonName && !ret->common_name.n)
            ret->common_name = text;
        else
            ret->others_len++;
    }
    ret->organizations = organizations;
    return 0;
}

static bool read_address(const ASN1_OCTET_STRING *s, struct arena *arena, struct str *ret)
{
    char text[INET6_ADDRSTRLEN];
    int n = ASN1_STRING_length(s);
    if ((n != 4 && n != 16) ||
        !inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(s), text, sizeof(text)))
        return false;
    *ret = arena_str(arena, str_z(text));
    return true;
}

static bool csr_read_name(const GENERAL_NAME *n, struct arena *arena, struct csr_name *ret)
{
    int type;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(n, &type);
    switch (type) {
    case GEN_IPADD:
        ret->type = CSR_NAME_IP;
        return read_address(value, arena, &ret->text);
    case GEN_DNS:
        ret->type = CSR_NAME_DNS;
        return copy_text(value, arena, &ret->text);
    case GEN_EMAIL:
        ret->type = CSR_NAME_EMAIL;
        return copy_text(value, arena, &ret->text);
    case GEN_URI:
        ret->type = CSR_NAME_URI;
        return copy_text(value, arena, &ret->text);
    default:
        ret->type = CSR_NAME_OTHER;
        return true;
    }
}

static int csr_read_names(X509_REQ *q, struct arena *arena, struct csr_request *ret,
                          struct err *err)
{
    STACK_OF(X509_EXTENSION) *extensions = X509_REQ_get_extensions(q);
    GENERAL_NAMES *all = X509V3_get_d2i(extensions, NID_subject_alt_name, NULL, NULL);
    bool has = X509v3_get_ext_by_NID(extensions, NID_subject_alt_name, -1) >= 0;
    int n = all ? sk_GENERAL_NAME_num(all) : 0;
    int r = 0;
    if (has && !all)
        r = err_set(err, ERR_INVALID, "the subject alternative names cannot be read");
    if (n > CSR_NAMES_MAX)
        r = err_set(err, ERR_INVALID, "more than %d subject alternative names", CSR_NAMES_MAX);
    struct csr_name *names = arena_array(arena, struct csr_name, (size_t)(r == 0 ? n : 0) + 1);
    for (int i = 0; r == 0 && i < n; i++) {
        names[i] = (struct csr_name){0};
        if (!csr_read_name(sk_GENERAL_NAME_value(all, i), arena, &names[i]))
            r = err_set(err, ERR_INVALID, "a subject alternative name cannot be read");
    }
    GENERAL_NAMES_free(all);
    sk_X509_EXTENSION_pop_free(extensions, X509_EXTENSION_free);
    ret->names = names;
    ret->names_len = (size_t)n;
    return r;
}

int csr_parse(struct str pem, struct arena *arena, struct csr_request *ret, struct err *err)
{
    struct csr_request request = {0};
    X509_REQ *q = csr_read(pem, err);
    if (!q)
        return -ERR_INVALID;
    EVP_PKEY *key = X509_REQ_get0_pubkey(q);
    int r = 0;
    if (!key || X509_REQ_verify(q, key) != 1)
        r = err_set(err, ERR_INVALID, "the signature is not by the key that the request shows");
    if (r == 0)
        r = read_subject(X509_REQ_get_subject_name(q), arena, &request, err);
    if (r == 0)
        r = csr_read_names(q, arena, &request, err);
    X509_REQ_free(q);
    ERR_clear_error();
    if (r == 0)
        *ret = request;
    return r;
}

// --- Certificates --------------------------------------------------------------------------------

static int no_certificate(struct err *err)
{
    return err_set(err, ERR_INVALID, "not a PEM certificate");
}

int csr_check_chain(struct str pem, struct err *err)
{
    BIO *bio = pem_open(pem);
    char *name = NULL, *header = NULL;
    unsigned char *bytes = NULL;
    long n = 0;
    int r = 0;
    size_t found = 0;
    while (r == 0 && bio && PEM_read_bio(bio, &name, &header, &bytes, &n) == 1) {
        const unsigned char *at = bytes;
        X509 *x = NULL;
        if (strcmp(name, PEM_STRING_X509) != 0)
            r = err_set(err, ERR_INVALID,
                        "only CERTIFICATE PEM blocks are allowed, found \"%.64s\"", name);
        else if (header[0])
            r = err_set(err, ERR_INVALID, "no PEM block headers are permitted");
        else if (!(x = d2i_X509(NULL, &at, n)))
            r = no_certificate(err);
        found++;
        X509_free(x);
        OPENSSL_free(name);
        OPENSSL_free(header);
        OPENSSL_free(bytes);
    }
    BIO_free(bio);
    ERR_clear_error();
    if (r == 0 && found == 0)
        r = err_set(err, ERR_INVALID, "must contain at least one CERTIFICATE PEM block");
    return r;
}

bool csr_certificate_is_for(struct str certificate_pem, struct str name)
{
    char text[256];
    unsigned char ip[16];
    X509 *x = certificate_read(certificate_pem);
    bool fits = x && name.n > 0 && name.n < sizeof(text);
    if (fits) {
        memcpy(text, name.p, name.n);
        text[name.n] = '\0';
        size_t ip_len = inet_pton(AF_INET, text, ip) == 1    ? 4
                        : inet_pton(AF_INET6, text, ip) == 1 ? 16
                                                             : 0;
        fits = ip_len ? X509_check_ip(x, ip, ip_len, 0) == 1
                      : X509_check_host(x, text, name.n, 0, NULL) == 1;
    }
    X509_free(x);
    return fits;
}

int csr_certificate_times(struct str certificate_pem, int64_t *ret_from, int64_t *ret_until,
                          struct err *err)
{
    X509 *x = certificate_read(certificate_pem);
    bool ok = x && tls_read_time(X509_get0_notBefore(x), ret_from) &&
              tls_read_time(X509_get0_notAfter(x), ret_until);
    X509_free(x);
    return ok ? 0 : no_certificate(err);
}

bool csr_signed_by(struct str certificate_pem, struct str ca_pem)
{
    X509 *x = certificate_read(certificate_pem), *ca = certificate_read(ca_pem);
    EVP_PKEY *key = ca ? X509_get0_pubkey(ca) : NULL;
    bool yes = x && key && X509_verify(x, key) == 1;
    X509_free(x);
    X509_free(ca);
    ERR_clear_error();
    return yes;
}

int csr_common_name(struct str certificate_pem, struct sbuf *ret, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct csr_request subject = {0};
    X509 *x = certificate_read(certificate_pem);
    int r = x ? read_subject(X509_get_subject_name(x), &arena, &subject, err) : no_certificate(err);
    X509_free(x);
    if (r == 0)
        sbuf_add(ret, subject.common_name);
    return r;
}

// --- Pins ----------------------------------------------------------------------------------------

static bool pin_of(const X509 *x, char ret[CSR_PIN_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char hash[SHA256_DIGEST_LENGTH], *der = NULL;
    int n = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(x), &der);
    if (n <= 0)
        return false;
    (void)SHA256(der, (size_t)n, hash);
    OPENSSL_free(der);
    for (size_t i = 0; i < sizeof(hash); i++) {
        ret[2 * i] = digits[hash[i] >> 4];
        ret[2 * i + 1] = digits[hash[i] & 15];
    }
    ret[CSR_PIN_BYTES - 1] = '\0';
    return true;
}

int csr_pin(struct str certificate_pem, char ret[CSR_PIN_BYTES], struct err *err)
{
    X509 *x = certificate_read(certificate_pem);
    bool ok = x && pin_of(x, ret);
    X509_free(x);
    return ok ? 0 : no_certificate(err);
}

static char *write_certificate(X509 *x)
{
    BIO *bio = BIO_new(BIO_s_mem());
    struct sbuf text = {0};
    bool ok = bio && PEM_write_bio_X509(bio, x);
    if (ok)
        pem_add_text(&text, bio);
    BIO_free(bio);
    return ok ? sbuf_take(&text) : NULL;
}

int csr_find_pin(struct str bundle_pem, struct str pin, char **ret, struct err *err)
{
    BIO *bio = pem_open(bundle_pem);
    size_t seen = 0;
    char *found = NULL;
    for (X509 *x; !found && bio && (x = PEM_read_bio_X509(bio, NULL, NULL, NULL)); seen++) {
        char own[CSR_PIN_BYTES];
        if (pin_of(x, own) && str_eqz(pin, own))
            found = write_certificate(x);
        X509_free(x);
    }
    BIO_free(bio);
    ERR_clear_error();
    if (!found && seen == 0)
        return no_certificate(err);
    if (!found)
        return err_set(err, ERR_NOT_FOUND, "none of %zu certificates has a public key of that hash",
                       seen);
    *ret = found;
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// ES256 signatures and HS256 codes as JOSE wants them, over OpenSSL's keys.
#include "pki/sign.h"

#include <assert.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "pki/pki_int.h"

#include "base/banned.h"

struct sign_key {
    EVP_PKEY *key;
    unsigned char x[SIGN_COORD_BYTES], y[SIGN_COORD_BYTES];
    struct sign_key *older; // owned
};

int sign_key_make(struct sbuf *ret_pem, struct err *err)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    BIO *out = BIO_new(BIO_s_mem());
    int r = 0;
    if (!key || !out || PEM_write_bio_PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) != 1)
        r = err_set(err, ERR_INTERNAL, "cannot make a key");
    if (r == 0)
        pem_add_text(ret_pem, out);
    BIO_free(out);
    EVP_PKEY_free(key);
    return r;
}

static bool sign_read_coordinate(const EVP_PKEY *key, const char *name,
                                 unsigned char ret[SIGN_COORD_BYTES])
{
    BIGNUM *n = NULL;
    bool ok = EVP_PKEY_get_bn_param(key, name, &n) == 1 &&
              BN_bn2binpad(n, ret, SIGN_COORD_BYTES) == SIGN_COORD_BYTES;
    BN_free(n);
    return ok;
}

// sign_key_take makes a key of one that was read, which it takes over. NULL: it is of another type.
static struct sign_key *sign_key_take(EVP_PKEY *key)
{
    char group[32] = "";
    struct sign_key *k = xcalloc(1, sizeof(*k));
    k->key = key;
    if (key && EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
        str_eqz(str_z(group), "prime256v1") &&
        sign_read_coordinate(key, OSSL_PKEY_PARAM_EC_PUB_X, k->x) &&
        sign_read_coordinate(key, OSSL_PKEY_PARAM_EC_PUB_Y, k->y))
        return k;
    sign_key_free(k);
    return NULL;
}

// sign_key_read_older reads the private keys that are left in a text. False: one is of another
// type, or there are too many.
static bool sign_key_read_older(BIO *in, struct sign_key *newest)
{
    struct sign_key *last = newest;
    EVP_PKEY *next;
    for (int n = 0; (next = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL)); n++) {
        if (n == SIGN_OLDER_MAX) {
            EVP_PKEY_free(next);
            return false;
        }
        last->older = sign_key_take(next);
        last = last->older;
        if (!last)
            return false;
    }
    return true;
}

int sign_key_load(struct str pem, struct sign_key **ret, struct err *err)
{
    BIO *in = pem_open(pem);
    EVP_PKEY *first = in ? PEM_read_bio_PrivateKey(in, NULL, NULL, NULL) : NULL;
    struct sign_key *k = NULL;
    bool good = false;
    if (first) {
        k = sign_key_take(first);
        good = k && sign_key_read_older(in, k);
    } else {
        BIO_free(in);
        in = pem_open(pem);
        k = sign_key_take(in ? PEM_read_bio_PUBKEY(in, NULL, NULL, NULL) : NULL);
        good = k != NULL;
    }
    BIO_free(in);
    ERR_clear_error(); // the end of the text is one
    if (good) {
        *ret = k;
        return 0;
    }
    sign_key_free(k);
    return err_set(err, ERR_INVALID,
                   "this is no elliptic-curve key (P-256) in PEM form, with at most %d older ones",
                   SIGN_OLDER_MAX);
}

void sign_key_free(struct sign_key *k)
{
    while (k) {
        struct sign_key *older = k->older;
        EVP_PKEY_free(k->key);
        free(k);
        k = older;
    }
}

const struct sign_key *sign_key_older(const struct sign_key *k)
{
    return k->older;
}

void sign_key_point(const struct sign_key *k, unsigned char x[SIGN_COORD_BYTES],
                    unsigned char y[SIGN_COORD_BYTES])
{
    memcpy(x, k->x, SIGN_COORD_BYTES);
    memcpy(y, k->y, SIGN_COORD_BYTES);
}

void sign_sha256(struct str bytes, char ret[SIGN_SHA256_BYTES])
{
    unsigned char sum[32];
    size_t n = sizeof(sum);
    if (EVP_Q_digest(NULL, "SHA256", NULL, bytes.n ? bytes.p : "", bytes.n, sum, &n) != 1)
        memset(sum, 0, sizeof(sum));
    for (size_t i = 0; i < sizeof(sum); i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}

void sign_key_id(const struct sign_key *k, char ret[SIGN_ID_BYTES])
{
    unsigned char point[2 * SIGN_COORD_BYTES];
    sign_key_point(k, point, point + SIGN_COORD_BYTES);
    sign_sha256(str_make((const char *)point, sizeof(point)), ret);
}

// --- Signatures: JOSE wants two numbers of equal length, OpenSSL speaks DER ----------------------

static bool from_der(const unsigned char *der, size_t n, unsigned char ret[SIGN_BYTES])
{
    ECDSA_SIG *s = d2i_ECDSA_SIG(NULL, &der, (long)n);
    bool ok = s && BN_bn2binpad(ECDSA_SIG_get0_r(s), ret, SIGN_COORD_BYTES) == SIGN_COORD_BYTES &&
              BN_bn2binpad(ECDSA_SIG_get0_s(s), ret + SIGN_COORD_BYTES, SIGN_COORD_BYTES) ==
                  SIGN_COORD_BYTES;
    ECDSA_SIG_free(s);
    return ok;
}

int sign_make(const struct sign_key *k, struct str bytes, unsigned char ret[SIGN_BYTES],
              struct err *err)
{
    unsigned char der[128];
    size_t n = sizeof(der);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool ok = c && EVP_DigestSignInit(c, NULL, EVP_sha256(), NULL, k->key) == 1 &&
              EVP_DigestSign(c, der, &n, (const unsigned char *)bytes.p, bytes.n) == 1 &&
              from_der(der, n, ret);
    EVP_MD_CTX_free(c);
    return ok ? 0 : err_set(err, ERR_INTERNAL, "cannot sign: is it a private key?");
}

bool sign_verify_curve(EVP_PKEY *key, const EVP_MD *digest, size_t half, struct str bytes,
                       struct str signature)
{
    if (signature.n != 2 * half)
        return false;
    const unsigned char *p = (const unsigned char *)signature.p;
    unsigned char *der = NULL;
    ECDSA_SIG *s = ECDSA_SIG_new();
    BIGNUM *a = BN_bin2bn(p, (int)half, NULL);
    BIGNUM *b = BN_bin2bn(p + half, (int)half, NULL);
    int n = 0;
    if (s && a && b && ECDSA_SIG_set0(s, a, b) == 1)
        n = i2d_ECDSA_SIG(s, &der);
    EVP_MD_CTX *c = n > 0 ? EVP_MD_CTX_new() : NULL;
    bool ok = c && EVP_DigestVerifyInit(c, NULL, digest, NULL, key) == 1 &&
              EVP_DigestVerify(c, der, (size_t)n, (const unsigned char *)bytes.p, bytes.n) == 1;
    EVP_MD_CTX_free(c);
    OPENSSL_free(der);
    ECDSA_SIG_free(s);
    return ok;
}

bool sign_verify(const struct sign_key *k, struct str bytes, struct str signature)
{
    for (; k; k = k->older)
        if (sign_verify_curve(k->key, EVP_sha256(), SIGN_COORD_BYTES, bytes, signature))
            return true;
    return false;
}

void sign_hmac(struct str key, struct str bytes, unsigned char ret[SIGN_HMAC_BYTES])
{
    unsigned int n = 0;
    const unsigned char *done = HMAC(EVP_sha256(), key.p ? key.p : "", (int)key.n,
                                     (const unsigned char *)bytes.p, bytes.n, ret, &n);
    assert(done && n == SIGN_HMAC_BYTES);
    (void)done;
}

bool sign_same(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || CRYPTO_memcmp(a.p, b.p, a.n) == 0);
}

// SPDX-License-Identifier: Apache-2.0
//
// Key sets of issuers. An algorithm fits only keys of its type and curve: the token's header never
// chooses how a key is used.
#include "pki/jwk.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/vec.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "pki/pki_int.h"

#include "base/banned.h"

#define JWK_RSA_BITS_MIN 2048
#define JWK_RSA_BITS_MAX 8192

struct jwk_curve {
    const char *name, *group;
    size_t half; // bytes of a coordinate
};

static const struct jwk_curve curves[] = {
    {"P-256", "prime256v1", 32}, {"P-384", "secp384r1", 48}, {"P-521", "secp521r1", 66}};

struct jwk_alg {
    const char *name;
    const EVP_MD *(*digest)(void);
    const struct jwk_curve *curve; // NULL: RSA
    bool pss;
};

static const struct jwk_alg algs[] = {
    {"RS256", EVP_sha256, NULL, false},       {"RS384", EVP_sha384, NULL, false},
    {"RS512", EVP_sha512, NULL, false},       {"PS256", EVP_sha256, NULL, true},
    {"PS384", EVP_sha384, NULL, true},        {"PS512", EVP_sha512, NULL, true},
    {"ES256", EVP_sha256, &curves[0], false}, {"ES384", EVP_sha384, &curves[1], false},
    {"ES512", EVP_sha512, &curves[2], false}};

struct jwk {
    EVP_PKEY *key;
    const struct jwk_curve *curve; // NULL: RSA
    struct str id, alg;            // may be empty
};

struct jwk_set {
    struct VEC(struct jwk) keys;
    struct arena arena; // texts
};

static const struct jwk_alg *jwk_find_alg(struct str name)
{
    for (size_t i = 0; i < array_len(algs); i++)
        if (str_eqz(name, algs[i].name))
            return &algs[i];
    return NULL;
}

bool jwk_alg_known(struct str alg)
{
    return jwk_find_alg(alg) != NULL;
}

// --- Reading -------------------------------------------------------------------------------------

// jwk_make_key takes over the builder.
static EVP_PKEY *jwk_make_key(const char *type, OSSL_PARAM_BLD *b)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(b);
    EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;
    if (!params || !c || EVP_PKEY_fromdata_init(c) != 1 ||
        EVP_PKEY_fromdata(c, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(c);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(b);
    return key;
}

static bool jwk_decode(const yyjson_val *v, const char *member, size_t max, struct sbuf *out)
{
    struct str text = json_get_str(v, member);
    return text.n && text.n <= 2 * max && base64_decode(text, BASE64_URL, out, NULL) == 0 &&
           out->n > 0 && out->n <= max;
}

static EVP_PKEY *jwk_read_rsa(const yyjson_val *v)
{
    cleanup_sbuf struct sbuf n = {0}, e = {0};
    if (!jwk_decode(v, "n", JWK_RSA_BITS_MAX / 8 + 1, &n) || !jwk_decode(v, "e", 8, &e))
        return NULL;
    BIGNUM *modulus = BN_bin2bn((const unsigned char *)n.p, (int)n.n, NULL);
    BIGNUM *exponent = BN_bin2bn((const unsigned char *)e.p, (int)e.n, NULL);
    OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    if (modulus && exponent && b && BN_num_bits(modulus) >= JWK_RSA_BITS_MIN &&
        BN_num_bits(modulus) <= JWK_RSA_BITS_MAX && BN_is_odd(modulus) && BN_is_odd(exponent) &&
        BN_num_bits(exponent) > 1 &&
        OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(b, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
        key = jwk_make_key("RSA", b);
    else
        OSSL_PARAM_BLD_free(b);
    BN_free(modulus);
    BN_free(exponent);
    return key;
}

// A point that is not on the curve is refused by OpenSSL.
static EVP_PKEY *jwk_read_curve(const yyjson_val *v, const struct jwk_curve **ret)
{
    cleanup_sbuf struct sbuf x = {0}, y = {0};
    struct str name = json_get_str(v, "crv");
    const struct jwk_curve *c = NULL;
    for (size_t i = 0; i < array_len(curves); i++)
        if (str_eqz(name, curves[i].name))
            c = &curves[i];
    if (!c || !jwk_decode(v, "x", c->half, &x) || !jwk_decode(v, "y", c->half, &y) ||
        x.n != c->half || y.n != c->half)
        return NULL;
    unsigned char point[1 + 2 * 66] = {4}; // not compressed
    memcpy(point + 1, x.p, c->half);
    memcpy(point + 1 + c->half, y.p, c->half);
    OSSL_PARAM_BLD *b = OSSL_PARAM_BLD_new();
    *ret = c;
    if (b && OSSL_PARAM_BLD_push_utf8_string(b, OSSL_PKEY_PARAM_GROUP_NAME, c->group, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(b, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * c->half) == 1)
        return jwk_make_key("EC", b);
    OSSL_PARAM_BLD_free(b);
    return NULL;
}

static void jwk_read_key(const yyjson_val *v, struct jwk_set *s)
{
    struct str type = json_get_str(v, "kty"), use = json_get_str(v, "use");
    struct jwk k = {0};
    if (use.n && !str_eqz(use, "sig"))
        return;
    if (str_eqz(type, "RSA"))
        k.key = jwk_read_rsa(v);
    else if (str_eqz(type, "EC"))
        k.key = jwk_read_curve(v, &k.curve);
    if (!k.key)
        return;
    k.id = arena_str(&s->arena, json_get_str(v, "kid"));
    k.alg = arena_str(&s->arena, json_get_str(v, "alg"));
    vec_push(&s->keys, k);
}

static int jwk_read_keys(const yyjson_val *root, struct jwk_set *s, struct err *err)
{
    const yyjson_val *keys = json_is_object(root) ? json_get(root, STR("keys")) : NULL;
    if (!keys || !json_is_array(keys))
        return err_set(err, ERR_INVALID, "not a JSON Web Key Set: it has no list of keys");
    if (json_len(keys) > JWK_KEYS_MAX)
        return err_set(err, ERR_INVALID, "the key set has %zu keys; at most %d are read",
                       json_len(keys), JWK_KEYS_MAX);
    json_arr_foreach(keys, item) {
        if (json_is_object(item))
            jwk_read_key(item, s);
    }
    return s->keys.n ? 0
                     : err_set(err, ERR_INVALID,
                               "the key set has no RSA or elliptic-curve key for signatures");
}

int jwk_set_parse(struct str text, struct jwk_set **ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = JWK_SET_BYTES_MAX,
                                         .duplicates = JSON_DUPLICATES_REFUSE};
    int r = json_parse(text, &options, &doc, err);
    if (r < 0)
        return r;
    struct jwk_set *s = xcalloc(1, sizeof(*s));
    r = jwk_read_keys(doc.root, s, err);
    if (r < 0) {
        jwk_set_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void jwk_set_free(struct jwk_set *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->keys.n; i++)
        EVP_PKEY_free(s->keys.p[i].key);
    vec_done(&s->keys);
    arena_done(&s->arena);
    free(s);
}

// --- Verifying -----------------------------------------------------------------------------------

static bool jwk_verify_rsa(EVP_PKEY *key, const struct jwk_alg *alg, struct str bytes,
                           struct str signature)
{
    EVP_PKEY_CTX *p = NULL; // belongs to c
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    bool ok = c && EVP_DigestVerifyInit(c, &p, alg->digest(), NULL, key) == 1;
    if (ok && alg->pss)
        ok = EVP_PKEY_CTX_set_rsa_padding(p, RSA_PKCS1_PSS_PADDING) == 1 &&
             EVP_PKEY_CTX_set_rsa_pss_saltlen(p, RSA_PSS_SALTLEN_DIGEST) == 1;
    ok = ok && EVP_DigestVerify(c, (const unsigned char *)signature.p, signature.n,
                                (const unsigned char *)bytes.p, bytes.n) == 1;
    EVP_MD_CTX_free(c);
    return ok;
}

enum jwk_answer jwk_set_verify(const struct jwk_set *s, struct str alg, struct str id,
                               struct str bytes, struct str signature)
{
    const struct jwk_alg *a = jwk_find_alg(alg);
    enum jwk_answer answer = JWK_NO_KEY;
    for (size_t i = 0; a && i < s->keys.n; i++) {
        const struct jwk *k = &s->keys.p[i];
        if ((id.n && !str_eq(id, k->id)) || (k->alg.n && !str_eq(k->alg, alg)) ||
            k->curve != a->curve)
            continue;
        if (k->curve ? sign_verify_curve(k->key, a->digest(), k->curve->half, bytes, signature)
                     : jwk_verify_rsa(k->key, a, bytes, signature))
            return JWK_GOOD;
        answer = JWK_BAD;
    }
    return answer;
}

// SPDX-License-Identifier: Apache-2.0
//
// Tokens: whatever the bytes are, only what our key signed is believed. The input stands for a whole token, and for the
// claims of one that is signed well: those must be read without harm, too.
#include <stdlib.h>

#include "codec/base64.h"
#include "fuzz.h"
#include "pki/jwt.h"
#include "server/oidc/oidc_token.h"

#include "base/banned.h"

static struct sign_key *make_key(void)
{
    cleanup_sbuf struct sbuf pem = {0};
    struct sign_key *key = NULL;
    if (sign_key_make(&pem, NULL) < 0 || sign_key_load(sbuf_str(&pem), &key, NULL) < 0)
        abort();
    return key;
}

// The same key as that of another issuer, with every rule set.
static void read_as_issued(struct str token, const struct sign_key *key)
{
    static struct jwk_set *keys;
    static const struct oidc_claim required = {STR_INIT("hd"), STR_INIT("x")};
    static const struct str alg = STR_INIT("ES256");
    const struct oidc_rules rules = {.issuer = STR("https://issuer.example"),
                                     .client_id = STR("dray"),
                                     .username_claim = STR("email"),
                                     .username_prefix = STR("o:"),
                                     .groups_claim = STR("groups"),
                                     .groups_prefix = STR("g:"),
                                     .required = &required,
                                     .required_len = 1,
                                     .algs = &alg,
                                     .algs_len = 1};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf set = {0};
    struct registry_user user;
    struct err err = {0};
    if (!keys) {
        jwt_key_set(key, &set);
        if (jwk_set_parse(sbuf_str(&set), &keys, &err) < 0)
            abort();
    }
    if (oidc_token_read(token, &rules, keys, 1800000000, &arena, &user, &err) < 0)
        return;
    if (!oidc_token_is_of(token, rules.issuer) || user.name.n < 3 || user.until <= 1800000000 ||
        !user.groups_len)
        abort();
    for (size_t i = 0; i + 1 < user.groups_len; i++)
        if (!str_starts(user.groups[i], STR("g:")))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sign_key *key;
    struct err err = {0};
    cleanup_arena struct arena arena = {0};
    cleanup_sbuf struct sbuf text = {0};
    unsigned char signature[SIGN_BYTES];
    struct str input = str_make((const char *)data, size);
    struct jwt t;
    if (!key)
        key = make_key();
    if (jwt_read(input, key, 1800000000, &arena, &t, &err) == 0)
        abort(); // nobody has the key
    base64_encode(STR("{\"alg\":\"ES256\"}"), BASE64_URL, &text);
    sbuf_addc(&text, '.');
    base64_encode(input, BASE64_URL, &text);
    if (sign_make(key, sbuf_str(&text), signature, &err) < 0)
        abort();
    sbuf_addc(&text, '.');
    base64_encode(str_make((const char *)signature, SIGN_BYTES), BASE64_URL, &text);
    read_as_issued(input, key);
    read_as_issued(sbuf_str(&text), key);
    if (jwt_read(sbuf_str(&text), key, 1800000000, &arena, &t, &err) == 0 &&
        (!t.namespace.n || !t.account.name.n || t.expires <= 1800000000))
        abort();
    return 0;
}

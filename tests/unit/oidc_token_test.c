// SPDX-License-Identifier: Apache-2.0
//
// Rules of an issuer, its discovery document, its key set. Tokens of every algorithm:
// tests/security/oidc.py.
#include "pki/jwt.h"
#include "server/oidc/oidc_token.h"
#include "unit.h"

#include "base/banned.h"

#define ISSUER "https://issuer.example/realm"

static void test_rules(void **state)
{
    (void)state;
    static const char *const odd[] = {"=x"}, *const pair[] = {"a=b=c"};
    static const struct {
        struct oidc_options options;
        const char *message, *prefix; // message NULL: accepted
    } cases[] = {
        {{.issuer = STR_INIT(ISSUER), .client_id = STR_INIT("c")}, NULL, ISSUER "#"},
        {{.issuer = STR_INIT(ISSUER),
          .client_id = STR_INIT("c"),
          .username_claim = STR_INIT("email")},
         NULL,
         ""},
        {{.issuer = STR_INIT(ISSUER),
          .client_id = STR_INIT("c"),
          .username_claim = STR_INIT("email"),
          .username_prefix = "p:"},
         NULL,
         "p:"},
        {{.issuer = STR_INIT(ISSUER), .client_id = STR_INIT("c"), .username_prefix = "-"},
         NULL,
         ""},
        {{.issuer = STR_INIT(ISSUER),
          .client_id = STR_INIT("c"),
          .required = pair,
          .required_len = 1,
          .algs = STR_INIT("ES512, PS256")},
         NULL,
         ISSUER "#"},
        {{.issuer = STR_INIT(ISSUER)}, "needs --oidc-client-id", NULL},
        {{.issuer = STR_INIT("http://x"), .client_id = STR_INIT("c")}, "--oidc-issuer-url", NULL},
        {{.issuer = STR_INIT("https://"), .client_id = STR_INIT("c")}, "--oidc-issuer-url", NULL},
        {{.issuer = STR_INIT("https://u@h"), .client_id = STR_INIT("c")},
         "--oidc-issuer-url",
         NULL},
        {{.issuer = STR_INIT("https://h/?q"), .client_id = STR_INIT("c")},
         "--oidc-issuer-url",
         NULL},
        {{.issuer = STR_INIT("https://h/#f"), .client_id = STR_INIT("c")},
         "--oidc-issuer-url",
         NULL},
        {{.issuer = STR_INIT(JWT_ISSUER), .client_id = STR_INIT("c")}, "service account", NULL},
        {{.issuer = STR_INIT(ISSUER), .client_id = STR_INIT("c"), .algs = STR_INIT("RS256,none")},
         "\"none\" is not",
         NULL},
        {{.issuer = STR_INIT(ISSUER),
          .client_id = STR_INIT("c"),
          .required = odd,
          .required_len = 1},
         "CLAIM=VALUE",
         NULL},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_arena struct arena arena = {0};
        struct oidc_rules rules;
        struct err err = {0};
        int r = oidc_rules_make(&cases[i].options, &arena, &rules, &err);
        assert_int_equal(r, cases[i].message ? -ERR_INVALID : 0);
        if (cases[i].message)
            assert_non_null(strstr(err.msg, cases[i].message));
        else
            assert_true(str_eqz(rules.username_prefix, cases[i].prefix));
    }
}

static void test_discovery(void **state)
{
    (void)state;
    static const struct {
        const char *text, *origin, *target; // origin NULL: refused
    } cases[] = {
        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"https://k:8443/a?b=c\"}", "https://k:8443",
         "/a?b=c"},
        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"https://k\"}", "https://k", "/"},
        {"{\"issuer\":\"" ISSUER "/\",\"jwks_uri\":\"https://k\"}", NULL, NULL},
        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"http://k\"}", NULL, NULL},
        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"https://a@k\"}", NULL, NULL},
        {"{\"issuer\":\"" ISSUER "\",\"jwks_uri\":\"https://k/a b\"}", NULL, NULL},
        {"{\"issuer\":\"" ISSUER "\"}", NULL, NULL},
        {"[]", NULL, NULL},
        {"", NULL, NULL},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_arena struct arena arena = {0};
        struct str origin, target;
        struct err err = {0};
        int r =
            oidc_read_discovery(str_z(cases[i].text), STR(ISSUER), &arena, &origin, &target, &err);
        assert_int_equal(r == 0, cases[i].origin != NULL);
        if (r == 0) {
            assert_true(str_eqz(origin, cases[i].origin));
            assert_true(str_eqz(target, cases[i].target));
        }
    }
}

static void test_key_sets(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[1]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}", // 24 bits
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AA\",\"y\":\"AA\"}]}",
    };
    struct jwk_set *set = NULL;
    struct err err = {0};
    for (size_t i = 0; i < array_len(bad); i++)
        assert_true(jwk_set_parse(str_z(bad[i]), &set, &err) < 0);
    cleanup_sbuf struct sbuf many = {0}, pem = {0}, text = {0};
    sbuf_addz(&many, "{\"keys\":[1");
    for (int i = 0; i < JWK_KEYS_MAX; i++)
        sbuf_addz(&many, ",1");
    sbuf_addz(&many, "]}");
    assert_true(jwk_set_parse(sbuf_str(&many), &set, &err) < 0);
    assert_non_null(strstr(err.msg, "65 keys"));
    // Our own set is one, and a key is used for its own algorithm alone.
    struct sign_key *key = NULL;
    unsigned char signature[SIGN_BYTES];
    char id[SIGN_ID_BYTES];
    assert_int_equal(sign_key_make(&pem, &err), 0);
    assert_int_equal(sign_key_load(sbuf_str(&pem), &key, &err), 0);
    jwt_key_set(key, &text);
    assert_int_equal(jwk_set_parse(sbuf_str(&text), &set, &err), 0);
    assert_int_equal(sign_make(key, STR("text"), signature, &err), 0);
    sign_key_id(key, id);
    const struct str made = str_make((const char *)signature, SIGN_BYTES);
    assert_int_equal(jwk_set_verify(set, STR("ES256"), str_z(id), STR("text"), made), JWK_GOOD);
    assert_int_equal(jwk_set_verify(set, STR("ES256"), STR(""), STR("text"), made), JWK_GOOD);
    assert_int_equal(jwk_set_verify(set, STR("ES256"), STR("x"), STR("text"), made), JWK_NO_KEY);
    assert_int_equal(jwk_set_verify(set, STR("RS256"), STR(""), STR("text"), made), JWK_NO_KEY);
    assert_int_equal(jwk_set_verify(set, STR("none"), STR(""), STR("text"), made), JWK_NO_KEY);
    assert_int_equal(jwk_set_verify(set, STR("ES256"), STR(""), STR("other"), made), JWK_BAD);
    assert_int_equal(jwk_set_verify(set, STR("ES256"), STR(""), STR("text"), STR("")), JWK_BAD);
    jwk_set_free(set);
    sign_key_free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_discovery),
        cmocka_unit_test(test_key_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

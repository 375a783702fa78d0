// SPDX-License-Identifier: Apache-2.0
//
// Rules, discovery document and claims. The order is upstream's: signature, issuer, audience,
// times,
// then user name, groups and required claims.
#include "server/oidc/oidc_token.h"

#include "base/vec.h"
#include "codec/base64.h"
#include "pki/jws.h"
#include "pki/jwt.h"

#include "base/banned.h"

#define OIDC_GROUPS_MAX  1024
#define OIDC_NBF_SKEW    300 // seconds, as go-oidc allows
#define OIDC_SECONDS_MAX 253402300799.0

// --- Rules ---------------------------------------------------------------------------------------

// oidc_split_url cuts an https URL behind its host. False: it is another URL.
static bool oidc_split_url(struct str url, struct str *ret_origin, struct str *ret_target)
{
    const struct str scheme = STR("https://");
    if (!str_starts(url, scheme) || url.n > 2048)
        return false;
    for (size_t i = 0; i < url.n; i++)
        if ((unsigned char)url.p[i] <= ' ' || (unsigned char)url.p[i] >= 0x7f || url.p[i] == '#')
            return false;
    struct str rest = str_from(url, scheme.n);
    ptrdiff_t slash = str_find_char(rest, '/');
    size_t host = slash < 0 ? rest.n : (size_t)slash;
    struct str authority = str_upto(rest, host);
    if (host == 0 || str_find_char(authority, '@') >= 0 || str_find_char(authority, '?') >= 0)
        return false;
    *ret_origin = str_upto(url, scheme.n + host);
    *ret_target = slash < 0 ? STR("/") : str_from(rest, host);
    return true;
}

static int oidc_rules_check_issuer(struct str issuer, struct err *err)
{
    struct str origin, target;
    if (!oidc_split_url(issuer, &origin, &target) || str_find_char(target, '?') >= 0)
        return err_set(err, ERR_INVALID,
                       "--oidc-issuer-url is https://HOST[:PORT][/PATH] without query and user, "
                       "not \"%.*s\"",
                       STR_ARG(str_upto(issuer, 200)));
    if (str_eqz(issuer, JWT_ISSUER))
        return err_set(err, ERR_INVALID,
                       "--oidc-issuer-url is the issuer of service account tokens; use another");
    return 0;
}

static int oidc_rules_read_algs(struct str list, struct arena *arena, struct oidc_rules *ret,
                                struct err *err)
{
    struct VEC(struct str) algs = {0};
    if (!list.n)
        list = STR("RS256");
    while (list.n) {
        struct str alg;
        str_cut(list, ',', &alg, &list);
        alg = str_trim(alg);
        if (!jwk_alg_known(alg))
            return err_set(err, ERR_INVALID,
                           "--oidc-signing-algs: \"%.*s\" is not RS256, RS384, RS512, ES256, "
                           "ES384, ES512, PS256, PS384 or PS512",
                           STR_ARG(str_upto(alg, 40)));
        vec_push_arena(arena, &algs, arena_str(arena, alg));
    }
    ret->algs = algs.p;
    ret->algs_len = algs.n;
    return 0;
}

static int oidc_rules_read_required(const struct oidc_options *o, struct arena *arena,
                                    struct oidc_rules *ret, struct err *err)
{
    struct VEC(struct oidc_claim) list = {0};
    for (size_t i = 0; i < o->required_len; i++) {
        struct oidc_claim c;
        if (!str_cut(str_z(o->required[i]), '=', &c.name, &c.value) || !c.name.n)
            return err_set(err, ERR_INVALID, "--oidc-required-claim is CLAIM=VALUE, not \"%.100s\"",
                           o->required[i]);
        c = (struct oidc_claim){arena_str(arena, c.name), arena_str(arena, c.value)};
        vec_push_arena(arena, &list, c);
    }
    ret->required = list.p;
    ret->required_len = list.n;
    return 0;
}

int oidc_rules_make(const struct oidc_options *o, struct arena *arena, struct oidc_rules *ret,
                    struct err *err)
{
    *ret = (struct oidc_rules){
        .issuer = arena_str(arena, o->issuer),
        .client_id = arena_str(arena, o->client_id),
        .username_claim = o->username_claim.n ? arena_str(arena, o->username_claim) : STR("sub"),
        .groups_claim = arena_str(arena, o->groups_claim),
        .groups_prefix = arena_str(arena, o->groups_prefix),
    };
    if (!o->client_id.n)
        return err_set(err, ERR_INVALID, "--oidc-issuer-url needs --oidc-client-id");
    // A name without a prefix could be that of another kind of user.
    if (o->username_prefix)
        ret->username_prefix = str_eqz(str_z(o->username_prefix), "-")
                                   ? STR("")
                                   : arena_str(arena, str_z(o->username_prefix));
    else if (!str_eqz(ret->username_claim, "email"))
        ret->username_prefix = arena_strf(arena, "%.*s#", STR_ARG(o->issuer));
    int r = oidc_rules_check_issuer(o->issuer, err);
    if (r == 0)
        r = oidc_rules_read_algs(o->algs, arena, ret, err);
    return r < 0 ? r : oidc_rules_read_required(o, arena, ret, err);
}

// --- Discovery -----------------------------------------------------------------------------------

int oidc_read_discovery(struct str text, struct str issuer, struct arena *arena,
                        struct str *ret_origin, struct str *ret_target, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    const struct json_options options = {.max_bytes = OIDC_DISCOVERY_BYTES_MAX};
    int r = json_parse(text, &options, &doc, err);
    if (r < 0)
        return r;
    const yyjson_val *root = json_is_object(doc.root) ? doc.root : NULL;
    struct str stated = json_get_str(root, "issuer"), url = json_get_str(root, "jwks_uri");
    if (!str_eq(stated, issuer))
        return err_set(err, ERR_INVALID,
                       "the discovery document is of issuer \"%.*s\"; --oidc-issuer-url must be "
                       "the same text",
                       STR_ARG(str_upto(stated, 200)));
    if (!oidc_split_url(url, ret_origin, ret_target))
        return err_set(err, ERR_INVALID, "jwks_uri \"%.*s\" of the discovery document is not https",
                       STR_ARG(str_upto(url, 200)));
    *ret_origin = arena_str(arena, *ret_origin);
    *ret_target = arena_str(arena, *ret_target);
    return 0;
}

// --- Claims --------------------------------------------------------------------------------------

// Times may have fractions. False: there is no such time.
static bool oidc_read_time(const yyjson_val *claims, const char *name, int64_t *ret)
{
    const yyjson_val *v = json_get(claims, str_z(name));
    double seconds = 0;
    if (!v || json_to_double(v, &seconds, NULL) < 0 ||
        !(seconds >= 0 && seconds <= OIDC_SECONDS_MAX))
        return false;
    *ret = (int64_t)seconds;
    return true;
}

static bool oidc_has_audience(const yyjson_val *claims, struct str wanted)
{
    const yyjson_val *v = json_get(claims, STR("aud"));
    if (!v || !json_is_array(v))
        return v && json_is_string(v) && str_eq(json_str(v), wanted);
    bool found = false;
    json_arr_foreach(v, item) {
        if (!json_is_string(item))
            return false;
        found |= str_eq(json_str(item), wanted);
    }
    return found;
}

static int oidc_check_claims(const yyjson_val *claims, const struct oidc_rules *rules, int64_t now,
                             int64_t *ret_expires, struct err *err)
{
    int64_t begins = 0;
    const yyjson_val *nbf = json_get(claims, STR("nbf"));
    if (!str_eq(json_get_str(claims, "iss"), rules->issuer))
        return jws_fail(err, "another issuer");
    if (!oidc_has_audience(claims, rules->client_id))
        return jws_fail(err, "not for this audience");
    if (!oidc_read_time(claims, "exp", ret_expires) || now >= *ret_expires)
        return jws_fail(err, "expired (exp)");
    if (nbf && (!oidc_read_time(claims, "nbf", &begins) || now + OIDC_NBF_SKEW < begins))
        return jws_fail(err, "not valid yet (nbf)");
    if (json_get(claims, STR("iat")) && !oidc_read_time(claims, "iat", &begins))
        return jws_fail(err, "malformed claims");
    for (size_t i = 0; i < rules->required_len; i++) {
        const yyjson_val *v = json_get(claims, rules->required[i].name);
        if (!v || !json_is_string(v) || !str_eq(json_str(v), rules->required[i].value))
            return jws_fail(err, "a required claim is missing or has another value");
    }
    return 0;
}

// An address that the issuer did not verify may be that of somebody else.
static int oidc_read_name(const yyjson_val *claims, const struct oidc_rules *rules,
                          struct arena *arena, struct str *ret, struct err *err)
{
    const yyjson_val *v = json_get(claims, rules->username_claim),
                     *verified = json_get(claims, STR("email_verified"));
    bool is_verified = true;
    if (!v || !json_is_string(v) || !json_len(v))
        return jws_fail(err, "no user name in it");
    if (str_eqz(rules->username_claim, "email") && verified &&
        (json_to_bool(verified, &is_verified, NULL) < 0 || !is_verified))
        return jws_fail(err, "email not verified");
    *ret = arena_strf(arena, "%.*s%.*s", STR_ARG(rules->username_prefix), STR_ARG(json_str(v)));
    return 0;
}

struct oidc_groups VEC(struct str);

static bool oidc_add_group(const yyjson_val *v, const struct oidc_rules *rules, struct arena *arena,
                           struct oidc_groups *out)
{
    if (!json_is_string(v) || out->n == OIDC_GROUPS_MAX)
        return false;
    struct str name =
        arena_strf(arena, "%.*s%.*s", STR_ARG(rules->groups_prefix), STR_ARG(json_str(v)));
    vec_push_arena(arena, out, name);
    return true;
}

static int oidc_read_groups(const yyjson_val *claims, const struct oidc_rules *rules,
                            struct arena *arena, struct registry_user *ret, struct err *err)
{
    const yyjson_val *v = rules->groups_claim.n ? json_get(claims, rules->groups_claim) : NULL;
    struct oidc_groups groups = {0};
    bool good = true;
    if (v && json_is_array(v))
        json_arr_foreach(v, item) {
            good = good && oidc_add_group(item, rules, arena, &groups);
        }
    else if (v && !json_is_null(v))
        good = oidc_add_group(v, rules, arena, &groups);
    if (!good)
        return jws_fail(err, "its groups are not a list of names");
    vec_push_arena(arena, &groups, STR("system:authenticated"));
    ret->groups = groups.p;
    ret->groups_len = groups.n;
    return 0;
}

static void oidc_add_id(const yyjson_val *claims, struct arena *arena, struct registry_user *ret)
{
    struct str id = json_get_str(claims, "jti");
    if (!id.n)
        return;
    struct registry_extra *extra = arena_one(arena, struct registry_extra);
    struct str *value = arena_one(arena, struct str);
    *value = arena_strf(arena, "JTI=%.*s", STR_ARG(id));
    *extra = (struct registry_extra){
        .key = STR("authentication.kubernetes.io/credential-id"), .values = value, .values_len = 1};
    ret->extra = extra;
    ret->extra_len = 1;
}

// --- Tokens --------------------------------------------------------------------------------------

bool oidc_token_is_of(struct str token, struct str issuer)
{
    cleanup_json_doc struct json_doc claims = {0};
    struct jws t;
    return jws_split(token, &t) && jws_parse_part(t.claims, &claims, NULL) == 0 &&
           str_eq(json_get_str(claims.root, "iss"), issuer);
}

static int oidc_verify(const struct jws *t, const struct oidc_rules *rules,
                       const struct jwk_set *keys, struct err *err)
{
    cleanup_json_doc struct json_doc header = {0};
    cleanup_sbuf struct sbuf signature = {0};
    int r = jws_parse_part(t->header, &header, err);
    if (r < 0)
        return r;
    struct str alg = json_get_str(header.root, "alg"), id = json_get_str(header.root, "kid");
    if (!str_listed(rules->algs, rules->algs_len, alg) || json_get(header.root, STR("crit")) ||
        base64_decode(t->signature, BASE64_URL, &signature, NULL) < 0)
        return jws_fail(err, "not signed by an accepted algorithm");
    enum jwk_answer answer =
        keys ? jwk_set_verify(keys, alg, id, t->signed_text, sbuf_str(&signature)) : JWK_NO_KEY;
    if (answer == JWK_NO_KEY)
        return err_set(err, ERR_NOT_FOUND, "the issuer's key of the token is not known");
    return answer == JWK_GOOD ? 0 : jws_fail(err, "not signed by its issuer");
}

int oidc_token_read(struct str token, const struct oidc_rules *rules, const struct jwk_set *keys,
                    int64_t now, struct arena *arena, struct registry_user *ret, struct err *err)
{
    cleanup_json_doc struct json_doc claims = {0};
    struct jws t;
    if (!jws_split(token, &t))
        return jws_fail(err, "not three parts separated by dots");
    int r = oidc_verify(&t, rules, keys, err);
    if (r == 0)
        r = jws_parse_part(t.claims, &claims, err);
    if (r < 0)
        return r;
    *ret = (struct registry_user){0};
    r = oidc_check_claims(claims.root, rules, now, &ret->until, err);
    if (r == 0)
        r = oidc_read_name(claims.root, rules, arena, &ret->name, err);
    if (r == 0)
        r = oidc_read_groups(claims.root, rules, arena, ret, err);
    if (r == 0)
        oidc_add_id(claims.root, arena, ret);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// Tokens of service accounts: written with Kubernetes' claims, read only after the signature has
// been verified. Errors never depend on the key.
#include "pki/jwt.h"

#include "base/vec.h"
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "pki/jws.h"

#include "base/banned.h"

#define AUDIENCES_MAX 64
#define CLOCK_SKEW_LIMIT \
    10 // seconds by which clocks may differ; a token is never good after its end

// --- Writing -------------------------------------------------------------------------------------

static void number_member(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, str_z(key));
    json_write_i64(w, value);
}

static void object_member(struct json_writer *w, const char *key, const struct jwt_object *o)
{
    if (!o->name.n)
        return;
    json_write_key(w, str_z(key));
    json_write_object_begin(w);
    json_write_text(w, "name", o->name);
    if (o->uid.n)
        json_write_text(w, "uid", o->uid);
    json_write_object_end(w);
}

static void jwt_write_header(const struct sign_key *key, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    char id[SIGN_ID_BYTES];
    sign_key_id(key, id);
    json_write_object_begin(&w);
    json_write_text(&w, "alg", STR("ES256"));
    json_write_text(&w, "kid", str_z(id));
    json_write_object_end(&w);
}

static void jwt_write_claims(const struct jwt *t, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    cleanup_sbuf struct sbuf subject = {0};
    sbuf_addf(&subject, "system:serviceaccount:%.*s:%.*s", STR_ARG(t->namespace),
              STR_ARG(t->account.name));
    json_write_object_begin(&w);
    json_write_key(&w, STR("aud"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < t->audiences_len; i++)
        json_write_str(&w, t->audiences[i]);
    json_write_array_end(&w);
    number_member(&w, "exp", t->expires);
    number_member(&w, "iat", t->issued);
    json_write_text(&w, "iss", t->issuer);
    json_write_text(&w, "jti", t->id);
    json_write_key(&w, STR("kubernetes.io"));
    json_write_object_begin(&w);
    json_write_text(&w, "namespace", t->namespace);
    object_member(&w, "node", &t->node);
    object_member(&w, "pod", &t->pod);
    object_member(&w, "secret", &t->secret);
    object_member(&w, "serviceaccount", &t->account);
    json_write_object_end(&w);
    number_member(&w, "nbf", t->not_before);
    json_write_text(&w, "sub", sbuf_str(&subject));
    json_write_object_end(&w);
}

int jwt_write(const struct jwt *t, const struct sign_key *key, struct sbuf *out, struct err *err)
{
    cleanup_sbuf struct sbuf header = {0}, claims = {0}, text = {0};
    unsigned char signature[SIGN_BYTES];
    jwt_write_header(key, &header);
    jwt_write_claims(t, &claims);
    base64_encode(sbuf_str(&header), BASE64_URL, &text);
    sbuf_addc(&text, '.');
    base64_encode(sbuf_str(&claims), BASE64_URL, &text);
    int r = sign_make(key, sbuf_str(&text), signature, err);
    if (r < 0)
        return r;
    sbuf_add(out, sbuf_str(&text));
    sbuf_addc(out, '.');
    base64_encode(str_make((const char *)signature, SIGN_BYTES), BASE64_URL, out);
    return 0;
}

static void jwt_write_key(const struct sign_key *key, struct json_writer *w)
{
    unsigned char x[SIGN_COORD_BYTES], y[SIGN_COORD_BYTES];
    char id[SIGN_ID_BYTES];
    cleanup_sbuf struct sbuf x_text = {0}, y_text = {0};
    sign_key_point(key, x, y);
    sign_key_id(key, id);
    base64_encode(str_make((const char *)x, sizeof(x)), BASE64_URL, &x_text);
    base64_encode(str_make((const char *)y, sizeof(y)), BASE64_URL, &y_text);
    json_write_object_begin(w);
    json_write_text(w, "use", STR("sig"));
    json_write_text(w, "kty", STR("EC"));
    json_write_text(w, "kid", str_z(id));
    json_write_text(w, "crv", STR("P-256"));
    json_write_text(w, "alg", STR("ES256"));
    json_write_text(w, "x", sbuf_str(&x_text));
    json_write_text(w, "y", sbuf_str(&y_text));
    json_write_object_end(w);
}

void jwt_key_set(const struct sign_key *key, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    json_write_object_begin(&w);
    json_write_key(&w, STR("keys"));
    json_write_array_begin(&w);
    for (; key; key = sign_key_older(key))
        jwt_write_key(key, &w);
    json_write_array_end(&w);
    json_write_object_end(&w);
}

// --- Reading -------------------------------------------------------------------------------------

static struct str jwt_text_of(const yyjson_val *object, const char *key, struct arena *arena)
{
    const yyjson_val *v = object ? json_get(object, str_z(key)) : NULL;
    return v && json_is_string(v) ? arena_str(arena, json_str(v)) : (struct str){0};
}

static struct jwt_object jwt_object_of(const yyjson_val *parent, const char *key,
                                       struct arena *arena)
{
    const yyjson_val *v = parent ? json_get(parent, str_z(key)) : NULL;
    return (struct jwt_object){jwt_text_of(v, "name", arena), jwt_text_of(v, "uid", arena)};
}

static int jwt_check_signature(const struct jws *p, const struct sign_key *key, struct err *err)
{
    struct json_doc header;
    cleanup_sbuf struct sbuf signature = {0};
    cleanup_arena struct arena arena = {0};
    int r = jws_parse_part(p->header, &header, err);
    if (r < 0)
        return r;
    bool right = str_eqz(jwt_text_of(header.root, "alg", &arena), "ES256") &&
                 !json_get(header.root, STR("crit"));
    json_doc_done(&header);
    if (!right || base64_decode(p->signature, BASE64_URL, &signature, NULL) < 0 ||
        !sign_verify(key, p->signed_text, sbuf_str(&signature)))
        return jws_fail(err, "not signed by this server");
    return 0;
}

static int read_audiences(const yyjson_val *claims, struct arena *arena, struct jwt *ret)
{
    struct VEC(struct str) list = {0};
    const yyjson_val *v = json_get(claims, STR("aud"));
    if (v && json_is_string(v))
        vec_push_arena(arena, &list, arena_str(arena, json_str(v)));
    else if (v && json_is_array(v))
        json_arr_foreach(v, item) {
            if (!json_is_string(item) || list.n == AUDIENCES_MAX)
                return -1;
            vec_push_arena(arena, &list, arena_str(arena, json_str(item)));
        }
    ret->audiences = list.p;
    ret->audiences_len = list.n;
    return 0;
}

static bool jwt_read_time(const yyjson_val *claims, const char *key, int64_t *ret)
{
    const yyjson_val *v = json_get(claims, str_z(key));
    return v && json_to_i64(v, ret, NULL) == 0;
}

static int jwt_read_claims(const yyjson_val *claims, int64_t now, struct arena *arena,
                           struct jwt *ret, struct err *err)
{
    const yyjson_val *own = json_get(claims, STR("kubernetes.io"));
    *ret = (struct jwt){.issuer = jwt_text_of(claims, "iss", arena),
                        .namespace = jwt_text_of(own, "namespace", arena),
                        .account = jwt_object_of(own, "serviceaccount", arena),
                        .pod = jwt_object_of(own, "pod", arena),
                        .node = jwt_object_of(own, "node", arena),
                        .secret = jwt_object_of(own, "secret", arena),
                        .id = jwt_text_of(claims, "jti", arena)};
    if (read_audiences(claims, arena, ret) < 0 || !jwt_read_time(claims, "exp", &ret->expires) ||
        !jwt_read_time(claims, "nbf", &ret->not_before) ||
        !jwt_read_time(claims, "iat", &ret->issued))
        return jws_fail(err, "malformed claims");
    struct str subject = jwt_text_of(claims, "sub", arena);
    struct str wanted = arena_strf(arena, "system:serviceaccount:%.*s:%.*s",
                                   STR_ARG(ret->namespace), STR_ARG(ret->account.name));
    if (!ret->namespace.n || !ret->account.name.n || !str_eq(subject, wanted))
        return jws_fail(err, "not a service account's");
    if (!str_eqz(ret->issuer, JWT_ISSUER))
        return jws_fail(err, "unknown issuer");
    if (now >= ret->expires)
        return jws_fail(err, "expired (exp)");
    if (now + CLOCK_SKEW_LIMIT < ret->not_before)
        return jws_fail(err, "not valid yet (nbf)");
    return 0;
}

int jwt_read(struct str text, const struct sign_key *key, int64_t now, struct arena *arena,
             struct jwt *ret, struct err *err)
{
    struct jws p;
    struct json_doc claims = {0};
    if (!jws_split(text, &p))
        return jws_fail(err, "not three parts separated by dots");
    // No claim is read before the signature is verified.
    int r = jwt_check_signature(&p, key, err);
    if (r == 0)
        r = jws_parse_part(p.claims, &claims, err);
    if (r < 0)
        return r;
    r = jwt_read_claims(claims.root, now, arena, ret, err);
    json_doc_done(&claims);
    return r;
}

// SPDX-License-Identifier: Apache-2.0
//
// Reads the public ConfigMap cluster-info, which a joining node gets without credentials, and
// checks its signature against the bootstrap token.
#include "client/cluster_info.h"

#include <stdlib.h>

#include "codec/base64.h"
#include "codec/json_writer.h"
#include "codec/yaml.h"
#include "pki/csr.h"
#include "pki/sign.h"

#include "base/banned.h"

#define BODY_BYTES_MAX ((size_t)1024 * 1024)

// --- Writing -------------------------------------------------------------------------------------

void cluster_info_write(struct str url, struct str ca_pem, struct sbuf *out)
{
    sbuf_addz(out, "apiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: ");
    base64_encode(ca_pem, BASE64_STD, out);
    sbuf_addf(out, "\n    server: %.*s\n  name: \"\"\n", STR_ARG(url));
    sbuf_addz(out, "contexts: null\ncurrent-context: \"\"\nkind: Config\npreferences: {}\n"
                   "users: null\n");
}

// The header as kubeadm's library writes it; what is signed begins with it.
static void cluster_info_write_header(const struct bootstrap_token *token, struct sbuf *out)
{
    cleanup_sbuf struct sbuf json = {0};
    struct json_writer w = {.out = &json};
    json_write_object_begin(&w);
    json_write_key(&w, STR("alg"));
    json_write_str(&w, STR("HS256"));
    json_write_key(&w, STR("kid"));
    json_write_str(&w, token->id);
    json_write_object_end(&w);
    base64_encode(sbuf_str(&json), BASE64_URL, out);
}

static void write_hmac(struct str header, struct str text, const struct bootstrap_token *token,
                       struct sbuf *out)
{
    cleanup_sbuf struct sbuf whole = {0};
    unsigned char hmac[SIGN_HMAC_BYTES];
    sbuf_add(&whole, header);
    sbuf_addc(&whole, '.');
    base64_encode(text, BASE64_URL, &whole);
    sign_hmac(token->secret, sbuf_str(&whole), hmac);
    base64_encode(str_make((const char *)hmac, sizeof(hmac)), BASE64_URL, out);
}

void cluster_info_sign(struct str text, const struct bootstrap_token *token, struct sbuf *out)
{
    cleanup_sbuf struct sbuf header = {0};
    cluster_info_write_header(token, &header);
    sbuf_add(out, sbuf_str(&header));
    sbuf_addz(out, "..");
    write_hmac(sbuf_str(&header), text, token, out);
}

// --- Reading -------------------------------------------------------------------------------------

// Only a header with HS256 is accepted: one that named another way could be no signature at
// all.
static bool header_ok(struct str header)
{
    cleanup_sbuf struct sbuf json = {0};
    cleanup_json_doc struct json_doc doc = {0};
    if (base64_decode(header, BASE64_URL, &json, NULL) < 0 ||
        json_parse(sbuf_str(&json), NULL, &doc, NULL) < 0 || !json_is_object(doc.root))
        return false;
    const yyjson_val *alg = json_get(doc.root, STR("alg"));
    return alg && json_is_string(alg) && str_eqz(json_str(alg), "HS256");
}

// cluster_info_verify: the signature is of this text and by this token. In constant time.
static bool cluster_info_verify(struct str text, const struct bootstrap_token *token,
                                struct str signature)
{
    struct str header, rest, payload, given;
    cleanup_sbuf struct sbuf wanted = {0};
    if (!str_cut(signature, '.', &header, &rest) || !str_cut(rest, '.', &payload, &given) ||
        payload.n || !header_ok(header))
        return false;
    write_hmac(header, text, token, &wanted);
    return sign_same(sbuf_str(&wanted), given);
}

static struct str cluster_info_field_text(const yyjson_val *object, const char *key)
{
    const yyjson_val *v = object && json_is_object(object) ? json_get(object, str_z(key)) : NULL;
    return v && json_is_string(v) ? json_str(v) : (struct str){0};
}

int cluster_info_parse(struct str kubeconfig, struct arena *arena, struct cluster_info *ret,
                       struct err *err)
{
    // Not kubeconfig_add: the one cluster has no name here, as kubeadm writes it, and no files are
    // to be read.
    cleanup_json_doc struct json_doc doc = {0};
    cleanup_sbuf struct sbuf ca = {0};
    if (yaml_parse(kubeconfig, NULL, &doc, NULL) < 0 || !doc.root || !json_is_object(doc.root))
        return err_set(err, ERR_BAD_REQUEST, "the kubeconfig in cluster-info cannot be read");
    const yyjson_val *clusters = json_get(doc.root, STR("clusters"));
    if (!clusters || !json_is_array(clusters) || json_len(clusters) != 1)
        return err_set(err, ERR_BAD_REQUEST, "cluster-info must name one cluster");
    const yyjson_val *entry = json_at(clusters, 0);
    const yyjson_val *cluster = json_is_object(entry) ? json_get(entry, STR("cluster")) : NULL;
    struct str server = cluster_info_field_text(cluster, "server");
    struct str data = cluster_info_field_text(cluster, "certificate-authority-data");
    if (!str_starts(server, STR("https://")) || memchr(server.p, 0, server.n))
        return err_set(err, ERR_BAD_REQUEST, "cluster-info gives no address such as https://…");
    if (!data.n || base64_decode(data, BASE64_STD, &ca, NULL) < 0)
        return err_set(err, ERR_BAD_REQUEST, "cluster-info gives no CA");
    *ret = (struct cluster_info){arena_str(arena, server), arena_str(arena, sbuf_str(&ca))};
    return 0;
}

static int check_pin(struct cluster_info *info, struct str pin, struct arena *arena,
                     struct err *err)
{
    char *ca = NULL;
    int r = csr_find_pin(info->ca_pem, pin, &ca, err);
    if (r == -ERR_NOT_FOUND)
        return err_set(err, ERR_CONFLICT,
                       "the server shows another CA than the one that the hash names: somebody may "
                       "stand between, or the hash is of another cluster");
    if (r < 0)
        return err_set(err, ERR_BAD_REQUEST, "cluster-info gives no CA");
    info->ca_pem = arena_str(arena, str_z(ca));
    free(ca);
    return 0;
}

static int cluster_info_check_signature(const yyjson_val *data, struct str text,
                                        const struct bootstrap_token *token, struct err *err)
{
    char key[sizeof(CLUSTER_INFO_SIGNATURE) + BOOTSTRAP_ID_LEN] = CLUSTER_INFO_SIGNATURE;
    memcpy(key + sizeof(CLUSTER_INFO_SIGNATURE) - 1, token->id.p, BOOTSTRAP_ID_LEN);
    struct str signature = cluster_info_field_text(data, key);
    if (!signature.n)
        return err_set(err, ERR_NOT_FOUND,
                       "the cluster does not know the token %.*s: it has expired or was deleted",
                       STR_ARG(token->id));
    if (!cluster_info_verify(text, token, signature))
        return err_set(err, ERR_UNAUTHORIZED, "the secret of the token %.*s is wrong",
                       STR_ARG(token->id));
    return 0;
}

int cluster_info_check(struct str body, const struct bootstrap_token *token, struct str pin,
                       struct arena *arena, struct cluster_info *ret, struct err *err)
{
    cleanup_json_doc struct json_doc doc = {0};
    struct cluster_info info = {0};
    if (body.n > BODY_BYTES_MAX || json_parse(body, NULL, &doc, NULL) < 0 ||
        !json_is_object(doc.root))
        return err_set(err, ERR_BAD_REQUEST, "what answers there is not a Kubernetes API server");
    const yyjson_val *data = json_get(doc.root, STR("data"));
    struct str text = cluster_info_field_text(data, CLUSTER_INFO_TEXT);
    if (!text.n)
        return err_set(err, ERR_BAD_REQUEST,
                       "the ConfigMap cluster-info holds no kubeconfig: has it been changed?");
    int r = cluster_info_parse(text, arena, &info, err);
    if (r == 0)
        r = check_pin(&info, pin, arena, err);
    if (r == 0)
        r = cluster_info_check_signature(data, text, token, err);
    if (r == 0)
        *ret = info;
    return r;
}

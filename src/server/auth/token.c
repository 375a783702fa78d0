// SPDX-License-Identifier: Apache-2.0
//
// Continue tokens of lists: where the next page begins, at which revision. Kubernetes' shape, with
// the number of objects that are left.
#include "server/auth/token.h"

#include "codec/base64.h"
#include "codec/json.h"
#include "codec/json_writer.h"

#include "base/banned.h"

// A token is two names and two numbers; a longer one is invalid.
#define TOKEN_BYTES_MAX 2048

// The start key, below the kind: namespace/name or name, and the first byte behind it.
void token_write(const struct token *t, bool namespaced, struct sbuf *out)
{
    cleanup_sbuf struct sbuf json = {0}, key = {0};
    if (namespaced) {
        sbuf_add(&key, t->namespace);
        sbuf_addc(&key, '/');
    }
    sbuf_add(&key, t->name);
    sbuf_addc(&key, '\0');
    struct json_writer w = {.out = &json, .html = true};
    json_write_object_begin(&w);
    json_write_key(&w, STR("v"));
    json_write_str(&w, STR("meta.k8s.io/v1"));
    json_write_key(&w, STR("rv"));
    json_write_i64(&w, t->revision);
    json_write_key(&w, STR("start"));
    json_write_str(&w, sbuf_str(&key));
    if (t->left >= 0) {
        json_write_key(&w, STR("left"));
        json_write_i64(&w, t->left);
    }
    json_write_object_end(&w);
    base64_encode(sbuf_str(&json), BASE64_URL, out);
}

static int not_valid(struct err *err)
{
    return err_set(err, ERR_BAD_REQUEST, "continue key is not valid");
}

// split_key takes a start key apart.
static int split_key(struct str key, bool namespaced, struct str in, struct token *t,
                     struct err *err)
{
    if (key.n && key.p[0] == '/')
        key = str_from(key, 1);
    if (key.n && key.p[key.n - 1] == '\0')
        key.n--;
    if (namespaced && !str_cut(key, '/', &t->namespace, &t->name))
        return not_valid(err);
    if (!namespaced)
        t->name = key;
    if (str_find_char(t->name, '/') >= 0 || (in.n && !str_eq(in, t->namespace)))
        return not_valid(err);
    return 0;
}

static int read_members(const yyjson_val *root, bool namespaced, struct str in, struct arena *arena,
                        struct token *t, struct err *err)
{
    struct str v = {0}, key = {0};
    const yyjson_val *version = json_get(root, STR("v")), *rv = json_get(root, STR("rv")),
                     *start = json_get(root, STR("start")), *left = json_get(root, STR("left"));
    if (version && json_to_str(version, &v, NULL) < 0)
        return not_valid(err);
    if (!str_eq(v, STR("meta.k8s.io/v1")))
        return err_set(err, ERR_BAD_REQUEST,
                       "continue key is not valid: server does not recognize this encoded version "
                       "%.*s",
                       STR_ARG(str_upto(v, 100)));
    if ((rv && json_to_i64(rv, &t->revision, NULL) < 0) ||
        (start && json_to_str(start, &key, NULL) < 0))
        return not_valid(err);
    if (t->revision == 0 || t->revision < -1)
        return err_set(err, ERR_BAD_REQUEST,
                       "continue key is not valid: incorrect encoded start resourceVersion "
                       "(version meta.k8s.io/v1)");
    if (key.n == 0)
        return err_set(
            err, ERR_BAD_REQUEST,
            "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)");
    t->left = -1;
    if (left && (json_to_i64(left, &t->left, NULL) < 0 || t->left < 0))
        t->left = -1;
    return split_key(arena_str(arena, key), namespaced, in, t, err);
}

int token_read(struct str text, bool namespaced, struct str in, struct arena *arena,
               struct token *ret, struct err *err)
{
    cleanup_sbuf struct sbuf json = {0};
    cleanup_json_doc struct json_doc doc = {0};
    if (text.n > TOKEN_BYTES_MAX || base64_decode(text, BASE64_URL, &json, NULL) < 0 ||
        json_parse(sbuf_str(&json), NULL, &doc, NULL) < 0 || !json_is_object(doc.root))
        return not_valid(err);
    struct token t = {0};
    int r = read_members(doc.root, namespaced, in, arena, &t, err);
    if (r == 0)
        *ret = t;
    return r;
}

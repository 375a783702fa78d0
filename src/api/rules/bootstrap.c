// SPDX-License-Identifier: Apache-2.0
//
// Reads bootstrap tokens and their Secrets: the shape of a token, its expiry, usages and groups.
#include "api/bootstrap.h"

#include "base/vec.h"
#include "codec/rfc3339.h"

#include "base/banned.h"

#define GROUP_REST_MAX 256

static bool is_plain(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!((s.p[i] >= 'a' && s.p[i] <= 'z') || (s.p[i] >= '0' && s.p[i] <= '9')))
            return false;
    return true;
}

bool bootstrap_token_parse(struct str text, struct bootstrap_token *ret)
{
    struct bootstrap_token t;
    if (!str_cut(text, '.', &t.id, &t.secret) || t.id.n != BOOTSTRAP_ID_LEN ||
        t.secret.n != BOOTSTRAP_SECRET_LEN || !is_plain(t.id) || !is_plain(t.secret))
        return false;
    *ret = t;
    return true;
}

bool bootstrap_group_ok(struct str group)
{
    static const struct str prefix = STR_INIT(BOOTSTRAP_GROUP ":");
    struct str rest = str_from(group, prefix.n);
    if (!str_starts(group, prefix) || rest.n == 0 || rest.n > GROUP_REST_MAX)
        return false;
    for (size_t i = 0; i < rest.n; i++) {
        bool mark = rest.p[i] == ':' || rest.p[i] == '-';
        if (!is_plain(str_make(rest.p + i, 1)) && (!mark || i + 1 == rest.n))
            return false;
    }
    return true;
}

static struct str bootstrap_read_key(const struct api_secret *secret, const char *key)
{
    for (size_t i = 0; i < secret->data.n; i++)
        if (str_eqz(secret->data.p[i].key, key))
            return secret->data.p[i].value;
    return (struct str){0};
}

static bool bootstrap_key_is_true(const struct api_secret *secret, const char *key)
{
    return str_eqz(bootstrap_read_key(secret, key), "true");
}

static int read_groups(const struct api_secret *secret, struct arena *arena,
                       struct bootstrap_secret *ret, struct err *err)
{
    struct str list = bootstrap_read_key(secret, "auth-extra-groups");
    struct VEC(struct str) groups = {0};
    while (list.n) {
        struct str one;
        str_cut(list, ',', &one, &list);
        if (!bootstrap_group_ok(one))
            return err_set(err, ERR_INVALID,
                           "auth-extra-groups holds what is not a group below " BOOTSTRAP_GROUP
                           ":");
        vec_push_arena(arena, &groups, one);
    }
    ret->extra = groups.p;
    ret->extra_len = groups.n;
    return 0;
}

int bootstrap_secret_read(const struct api_secret *secret, struct arena *arena,
                          struct bootstrap_secret *ret, struct err *err)
{
    static const struct str prefix = STR_INIT(BOOTSTRAP_PREFIX);
    struct bootstrap_secret s = {
        .token = {bootstrap_read_key(secret, "token-id"),
                  bootstrap_read_key(secret, "token-secret")},
        .description = bootstrap_read_key(secret, "description"),
        .authenticates = bootstrap_key_is_true(secret, "usage-bootstrap-authentication"),
        .signs = bootstrap_key_is_true(secret, "usage-bootstrap-signing")};
    struct str name = secret->metadata.name, until = bootstrap_read_key(secret, "expiration");
    struct moment end = {0};
    if (!str_eqz(secret->type, BOOTSTRAP_TYPE))
        return err_set(err, ERR_INVALID, "the secret is not of type " BOOTSTRAP_TYPE);
    if (!str_starts(name, prefix) || !str_eq(str_from(name, prefix.n), s.token.id))
        return err_set(err, ERR_INVALID,
                       "the secret's name is not " BOOTSTRAP_PREFIX " and its token-id");
    if (s.token.id.n != BOOTSTRAP_ID_LEN || !is_plain(s.token.id))
        return err_set(err, ERR_INVALID, "token-id is six of a-z and 0-9");
    if (s.token.secret.n != BOOTSTRAP_SECRET_LEN || !is_plain(s.token.secret))
        return err_set(err, ERR_INVALID, "token-secret is sixteen of a-z and 0-9");
    if (until.n && rfc3339_parse(until, &end, NULL) < 0)
        return err_set(err, ERR_INVALID, "expiration is not a time such as 2026-11-16T21:00:00Z");
    s.expires = until.n ? end.sec : 0;
    if (until.n && s.expires <= 0)
        s.expires = 1;
    int r = read_groups(secret, arena, &s, err);
    if (r == 0)
        *ret = s;
    return r;
}

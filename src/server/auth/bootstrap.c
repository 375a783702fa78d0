// SPDX-License-Identifier: Apache-2.0
//
// The bearer of a bootstrap token is system:bootstrap:ID, until the Secret's expiration.
#include "api/bootstrap.h"

#include "base/vec.h"
#include "pki/sign.h"
#include "server/auth/access.h"

#include "base/banned.h"

static bool find_secret(const struct server *s, struct str id, struct arena *arena,
                        struct api_object *ret)
{
    const struct store_key key = {api_kind_find(STR("v1"), STR("Secret")), STR(BOOTSTRAP_NAMESPACE),
                                  arena_strf(arena, BOOTSTRAP_PREFIX "%.*s", STR_ARG(id))};
    const struct object *o = store_get(s->store, &key);
    return o && registry_decode(o, key.kind, arena, ret, NULL) == 0;
}

int bootstrap_of_token(const struct server *s, struct str token, struct arena *arena,
                       struct registry_user *ret, struct err *err)
{
    struct bootstrap_token shown;
    struct bootstrap_secret known;
    struct api_object o;
    struct VEC(struct str) groups = {0};
    if (!bootstrap_token_parse(token, &shown) || !find_secret(s, shown.id, arena, &o))
        return err_set(err, ERR_INVALID, "the token is not known");
    const struct api_secret *secret = o.value;
    if (secret->metadata.deletion_timestamp.set ||
        bootstrap_secret_read(secret, arena, &known, NULL) < 0 ||
        !sign_same(known.token.secret, shown.secret) || !known.authenticates)
        return err_set(err, ERR_INVALID, "the token is not known");
    if (bootstrap_expired(&known, exec_wall_ns(s->exec) / CLOCK_NS_PER_SEC))
        return err_set(err, ERR_INVALID, "the token has expired");
    vec_push_arena(arena, &groups, STR(BOOTSTRAP_GROUP));
    for (size_t i = 0; i < known.extra_len; i++)
        vec_push_arena(arena, &groups, known.extra[i]);
    vec_push_arena(arena, &groups, STR("system:authenticated"));
    *ret = (struct registry_user){.name = arena_strf(arena, "system:bootstrap:%.*s",
                                                     STR_ARG(known.token.id)),
                                  .groups = groups.p,
                                  .groups_len = groups.n,
                                  .until = known.expires};
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Tokens of service accounts: what is written can be read, and nothing else can.
#include "base/arena.h"
#include "codec/base64.h"
#include "pki/jwt.h"
#include "unit.h"

#include "base/banned.h"

#define NOW INT64_C(1800000000)

struct world {
    struct sign_key *key, *other;
    struct arena arena;
    struct str audience[1];
    struct jwt token;
};

static struct sign_key *make_key(void)
{
    cleanup_sbuf struct sbuf pem = {0};
    struct sign_key *k = NULL;
    struct err err = {0};
    assert_int_equal(sign_key_make(&pem, &err), 0);
    assert_int_equal(sign_key_load(sbuf_str(&pem), &k, &err), 0);
    return k;
}

static int set_up(void **state)
{
    struct world *w = xcalloc(1, sizeof(*w));
    w->key = make_key();
    w->other = make_key();
    w->audience[0] = STR("api");
    w->token = (struct jwt){.issuer = STR(JWT_ISSUER),
                            .namespace = STR("ns"),
                            .account = {STR("builder"), STR("uid-1")},
                            .pod = {STR("p"), STR("uid-2")},
                            .node = {STR("n"), STR("uid-3")},
                            .audiences = w->audience,
                            .audiences_len = 1,
                            .id = STR("id"),
                            .issued = NOW,
                            .not_before = NOW,
                            .expires = NOW + 600};
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    sign_key_free(w->key);
    sign_key_free(w->other);
    arena_done(&w->arena);
    free(w);
    return 0;
}

static struct str written(struct world *w)
{
    cleanup_sbuf struct sbuf out = {0};
    struct err err = {0};
    assert_int_equal(jwt_write(&w->token, w->key, &out, &err), 0);
    return arena_str(&w->arena, sbuf_str(&out));
}

static bool good(struct world *w, struct str text, int64_t now)
{
    struct jwt t;
    struct err err = {0};
    int r = jwt_read(text, w->key, now, &w->arena, &t, &err);
    assert_true(r == 0 || err.msg[0]);
    return r == 0;
}

static void what_was_written_is_read(void **state)
{
    struct world *w = *state;
    struct jwt t;
    struct err err = {0};
    assert_int_equal(jwt_read(written(w), w->key, NOW, &w->arena, &t, &err), 0);
    assert_str(t.namespace, "ns");
    assert_str(t.account.name, "builder");
    assert_str(t.account.uid, "uid-1");
    assert_str(t.pod.uid, "uid-2");
    assert_str(t.node.name, "n");
    assert_int_equal(t.audiences_len, 1);
    assert_str(t.audiences[0], "api");
    assert_int_equal(t.expires, NOW + 600);
}

static void a_token_ends(void **state)
{
    struct world *w = *state;
    struct str t = written(w);
    assert_true(good(w, t, NOW + 599));
    assert_false(good(w, t, NOW + 600));
    assert_true(good(w, t, NOW - 10)); // another clock
    assert_false(good(w, t, NOW - 11));
}

static void another_key_signs_nothing(void **state)
{
    struct world *w = *state;
    struct str t = written(w);
    struct jwt ret;
    struct err err = {0};
    assert_int_equal(jwt_read(t, w->other, NOW, &w->arena, &ret, &err), -ERR_INVALID);
}

static void every_changed_byte_is_noticed(void **state)
{
    struct world *w = *state;
    struct str t = written(w);
    char *copy = arena_alloc(&w->arena, t.n, 1);
    for (size_t i = 0; i < t.n; i++) {
        memcpy(copy, t.p, t.n);
        copy[i] = copy[i] == 'A' ? 'B' : 'A';
        // The last letter of the signature carries bits that mean nothing.
        if (i != t.n - 1)
            assert_false(good(w, str_make(copy, t.n), NOW));
    }
    for (size_t n = 0; n < t.n; n += 7)
        assert_false(good(w, str_make(t.p, n), NOW));
}

static struct str forged(struct world *w, const char *header, struct str claims)
{
    cleanup_sbuf struct sbuf out = {0};
    base64_encode(str_z(header), BASE64_URL, &out);
    sbuf_addf(&out, ".%.*s.", STR_ARG(claims));
    return arena_str(&w->arena, sbuf_str(&out));
}

static void the_algorithm_is_ours(void **state)
{
    struct world *w = *state;
    struct str t = written(w), header, claims, rest;
    str_cut(t, '.', &header, &rest);
    str_cut(rest, '.', &claims, &rest);
    assert_false(good(w, forged(w, "{\"alg\":\"none\"}", claims), NOW));
    assert_false(good(w, forged(w, "{\"alg\":\"HS256\"}", claims), NOW));
    assert_false(good(w, forged(w, "{\"alg\":\"ES256\"}", claims), NOW));
    assert_false(good(w, forged(w, "[]", claims), NOW));
}

static void other_issuers_and_users_are_not_believed(void **state)
{
    struct world *w = *state;
    w->token.issuer = STR("https://elsewhere");
    assert_false(good(w, written(w), NOW));
    w->token.issuer = STR(JWT_ISSUER);
    w->token.account.name = STR("");
    assert_false(good(w, written(w), NOW));
}

static void a_token_has_three_parts(void **state)
{
    struct world *w = *state;
    assert_true(good(w, written(w), NOW));
    assert_false(good(w, STR("abc"), NOW));
    assert_false(good(w, STR("a.b"), NOW));
    assert_false(good(w, STR("a.b.c.d"), NOW));
    assert_false(good(w, STR(".."), NOW));
}

static void keys_are_public_by_half(void **state)
{
    struct world *w = *state;
    cleanup_sbuf struct sbuf set = {0};
    struct sign_key *k = NULL;
    struct err err = {0};
    char id[SIGN_ID_BYTES];
    jwt_key_set(w->key, &set);
    sign_key_id(w->key, id);
    assert_true(str_contains(sbuf_str(&set), str_z(id)));
    assert_true(str_contains(sbuf_str(&set), STR("\"crv\":\"P-256\"")));
    assert_int_equal(sign_key_load(STR("no key"), &k, &err), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_written_is_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_token_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_key_signs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_changed_byte_is_noticed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_algorithm_is_ours, set_up, tear_down),
        cmocka_unit_test_setup_teardown(other_issuers_and_users_are_not_believed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_token_has_three_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_public_by_half, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// The bound of the database: a namespace fills its share, others go on; a full database rejects
// growth and accepts everything that ends an object.
#define WORLD_MAX_BYTES ((size_t)256 * 1024)

#include "registry_world.h"
#include "store/room.h"

#include "base/banned.h"

#define CONFIG_IN(ns, name) ((struct target){"v1", "ConfigMap", "", ns, name})

static size_t room_test_bytes(struct world *w)
{
    struct store_stats stats;
    store_get_stats(w->store, &stats);
    return stats.object_bytes;
}

static struct reply *room_test_create(struct world *w, const char *ns, int i, size_t size)
{
    struct sbuf b = {0};
    char name[32];
    (void)snprintf(name, sizeof(name), "c%d", i);
    sbuf_addf(&b,
              "{\"metadata\":{\"name\":\"%s\",\"finalizers\":[\"example.com/hold\"]},"
              "\"data\":{\"x\":\"",
              name);
    sbuf_add_repeat(&b, 'x', size);
    sbuf_addz(&b, "\"}}");
    char *json = sbuf_take(&b);
    struct reply *r = do_create(w, CONFIG_IN(ns, ""), json);
    free(json);
    return r;
}

// room_test_fill creates objects of a size until one is refused. Returns how many there are.
static int room_test_fill(struct world *w, const char *ns, size_t size)
{
    int n = 0;
    while (room_test_create(w, ns, n, size)->code == 0)
        assert_true(++n < 1000);
    return n;
}

static void room_test_user(struct world *w)
{
    w->user.name = STR("tenant");
}

TEST_IN_WORLD(test_share_of_a_namespace)
{
    room_test_user(w);
    assert_ok(do_create(w, NS(""), "{\"metadata\":{\"name\":\"other\"}}"));
    int n = room_test_fill(w, "default", 8000);
    assert_int_equal(w->reply.http, 403);
    assert_string_equal(w->reply.reason, "Forbidden");
    assert_non_null(strstr(w->reply.message, "share of the database"));
    assert_non_null(strstr(w->reply.message, "--max-database-bytes"));
    assert_in_range(n, 12, 16); // half of 256 KiB
    struct store_namespace_bytes largest[1];
    assert_int_equal(store_largest_namespaces(w->store, largest, 1), 1);
    assert_true(str_eq(largest[0].namespace, STR("default")));
    assert_in_range(largest[0].bytes, 96 * 1024, 128 * 1024);
    // The neighbour gets half of what is left, and what it takes is not the first one's.
    assert_in_range(room_test_fill(w, "other", 8000), 6, 8);
    assert_int_equal(w->reply.http, 403);
    assert_int_equal(room_test_create(w, "default", n, 8000)->http, 403);
    // Cluster-scoped objects, such as another namespace, have no share.
    assert_ok(do_create(w, NS(""), "{\"metadata\":{\"name\":\"third\"}}"));
    assert_ok(room_test_create(w, "third", 0, 8000));
}

// room_test_fill_all lets namespaces fill the database to the last few bytes.
static void room_test_fill_all(struct world *w)
{
    char name[16], json[64];
    for (int i = 0; room_test_bytes(w) + 2000 < WORLD_MAX_BYTES; i++) {
        assert_true(i < 100);
        (void)snprintf(name, sizeof(name), "n%d", i);
        (void)snprintf(json, sizeof(json), "{\"metadata\":{\"name\":\"%s\"}}", name);
        if (do_create(w, NS(""), json)->code < 0)
            break;
        (void)room_test_fill(w, name, 900);
    }
    while (do_create(w, NS(""), "{\"metadata\":{\"generateName\":\"rest-\"}}")->code == 0) {}
}

TEST_IN_WORLD(test_full_database)
{
    room_test_user(w);
    assert_ok(room_test_create(w, "default", 0, 100));
    room_test_fill_all(w);
    assert_int_equal(w->reply.http, 500);
    assert_non_null(strstr(w->reply.message, "database space exceeded"));
    assert_non_null(strstr(w->reply.message, "--max-database-bytes"));
    assert_true(room_test_bytes(w) <= WORLD_MAX_BYTES);
    // A deletion marks, which grows; an update without finalizers ends it.
    assert_ok(do_delete(w, CONFIG_IN("n0", "c0"), NULL));
    assert_ok(do_patch(w, CONFIG_IN("n0", "c0"), REGISTRY_PATCH_MERGE,
                       "{\"metadata\":{\"finalizers\":null}}"));
    assert_int_equal(do_get(w, CONFIG_IN("n0", "c0"))->revision, 0);
    // Small changes use the reserve, large ones do not.
    struct sbuf big = {0};
    sbuf_addz(&big, "{\"data\":{\"y\":\"");
    sbuf_add_repeat(&big, 'y', 6000);
    sbuf_addz(&big, "\"}}");
    assert_ok(do_patch(w, CONFIG("c0"), REGISTRY_PATCH_MERGE, "{\"data\":{\"y\":\"12\"}}"));
    assert_int_equal(do_patch(w, CONFIG("c0"), REGISTRY_PATCH_MERGE, big.p)->http, 500);
    sbuf_done(&big);
    assert_ok(do_patch(w, CONFIG("c0"), REGISTRY_PATCH_MERGE, "{\"data\":null}"));
}

TEST_IN_WORLD(test_lost_writes_are_not_counted)
{
    room_test_user(w);
    size_t before = room_test_bytes(w);
    w->fail_commits = true;
    for (int i = 0; i < 100; i++)
        assert_string_equal(room_test_create(w, "default", i, 8000)->reason, "InternalError");
    w->fail_commits = false;
    assert_int_equal(room_test_bytes(w), before);
    assert_in_range(room_test_fill(w, "default", 8000), 12, 16);
}

TEST_IN_WORLD(test_a_refused_object_is_not_charged)
{
    room_test_user(w);
    const struct target quota = {"v1", "ResourceQuota", "", "default", "q"};
    const struct target status = {"v1", "ResourceQuota", "status", "default", "q"};
    assert_ok(do_create(w, quota,
                        "{\"metadata\":{\"name\":\"q\"},\"spec\":{\"hard\":"
                        "{\"count/configmaps\":\"100\"}}}"));
    assert_ok(do_patch(w, status, REGISTRY_PATCH_MERGE,
                       "{\"status\":{\"hard\":{\"count/configmaps\":\"100\"},"
                       "\"used\":{\"count/configmaps\":\"0\"}}}"));
    char count[16];
    (void)snprintf(count, sizeof(count), "%d", room_test_fill(w, "default", 8000));
    (void)do_get(w, quota);
    assert_non_null(strstr(w->reply.json, "\"used\":{\"count/configmaps\":\""));
    assert_true(str_starts(str_z(strstr(w->reply.json, "\"used\":") + 28), str_z(count)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_share_of_a_namespace),
        cmocka_unit_test(test_full_database),
        cmocka_unit_test(test_lost_writes_are_not_counted),
        cmocka_unit_test(test_a_refused_object_is_not_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

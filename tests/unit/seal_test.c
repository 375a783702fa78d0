// SPDX-License-Identifier: Apache-2.0
//
// Encryption at rest: what a configuration may say, and what the rows of a database show.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "os/file.h"
#include "server/seal.h"
#include "store_util.h"

#include "base/banned.h"

#define HEAD  "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
#define KEY_A "{name: a, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}"
#define KEY_B "{name: b, secret: QUJDREVGR0hJSktMTU5PUEFCQ0RFRkdISUpLTE1OT1A=}"
// Another key of the name a.
#define KEY_C "{name: a, secret: QUJDREVGR0hJSktMTU5PUEFCQ0RFRkdISUpLTE1OT1A=}"
#define CLAIMS(providers) \
    HEAD "resources: [{resources: [resourceclaims.resource.k8s.io], providers: [" providers "]}]"
#define GCM(keys) "{aesgcm: {keys: [" keys "]}}"

static void test_config_errors(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *message;
    } cases[] = {
        {"", "", "not an encryption configuration"},
        {"{kind: EncryptionConfiguration, apiVersion: v1}", "", "not an encryption configuration"},
        {HEAD, "resources", "is required"},
        {HEAD "resources: []", "resources", "must have an item"},
        {HEAD "resources: {}", "resources", "is of type object, not array"},
        {HEAD "resource: []", "resource", "unknown field"},
        {HEAD "resources: [x]", "resources[0]", "is of type string, not object"},
        {HEAD "resources: [{resources: [secrets]}]", "resources[0].providers", "is required"},
        {HEAD "resources: [{resources: [secret], providers: [{identity: {}}]}]",
         "resources[0].resources[0]", "not a built-in resource"},
        {HEAD "resources: [{resources: ['*'], providers: [{identity: {}}]}]",
         "resources[0].resources[0]", "is not a resource"},
        {CLAIMS("{aescbc: {}}"), "resources[0].providers[0].aescbc", "use aesgcm"},
        {CLAIMS("{secretbox: {}}"), "resources[0].providers[0].secretbox", "use aesgcm"},
        {CLAIMS("{kms: {}}"), "resources[0].providers[0].kms", "use aesgcm"},
        {CLAIMS("{rot13: {}}"), "resources[0].providers[0].rot13", "unknown provider"},
        {CLAIMS("{aesgcm: {}, identity: {}}"), "resources[0].providers[0]", "one provider"},
        {CLAIMS("{aesgcm: {keys: []}}"), "resources[0].providers[0].aesgcm.keys", "an item"},
        {CLAIMS("{aesgcm: {keys: [{name: a}]}}"), "resources[0].providers[0].aesgcm.keys[0].secret",
         "is required"},
        {CLAIMS("{aesgcm: {keys: [{name: a, secret: '!'}]}}"),
         "resources[0].providers[0].aesgcm.keys[0].secret", "not base64"},
        {CLAIMS("{aesgcm: {keys: [{name: a, secret: AAAA}]}}"),
         "resources[0].providers[0].aesgcm.keys[0].secret", "has 3 bytes"},
        {CLAIMS("{aesgcm: {keys: [{name: 'a:b', secret: AAAA}]}}"),
         "resources[0].providers[0].aesgcm.keys[0].name", "no colon"},
    };
    for (size_t i = 0; i < array_len(cases); i++) {
        struct seal_config *c = NULL;
        struct err err = {0};
        assert_true(seal_config_parse(str_z(cases[i].text), &c, &err) < 0);
        assert_string_equal(err.path, cases[i].path);
        assert_non_null(strstr(err.msg, cases[i].message));
    }
}

static void test_file_mode(void **state)
{
    (void)state;
    char path[] = "/tmp/dray-seal-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    struct seal_config *c = NULL;
    struct err err = {0};
    assert_int_equal(file_replace_atomic(AT_FDCWD, path, STR(CLAIMS(GCM(KEY_A))), 0640, &err), 0);
    assert_int_equal(seal_config_load(path, &c, &err), -EPERM);
    assert_non_null(strstr(err.msg, "chmod 600"));
    assert_int_equal(file_replace_atomic(AT_FDCWD, path, STR(HEAD "x: 1"), 0600, &err), 0);
    assert_true(seal_config_load(path, &c, &err) < 0);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(file_replace_atomic(AT_FDCWD, path, STR(CLAIMS(GCM(KEY_A))), 0600, &err), 0);
    assert_int_equal(seal_config_load(path, &c, &err), 0);
    seal_config_free(c);
    (void)unlink(path);
}

// --- Rows ----------------------------------------------------------------------------------------

struct world {
    char dir[32], path[64], log[72];
    struct clock_fake clock;
    struct rng_seeded rng;
    struct exec_sim *sim;
    struct seal_config *config;
    struct store *store;
    struct err err;
};

static void world_begin(struct world *w)
{
    *w = (struct world){.dir = "/tmp/dray-seal-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->path, sizeof(w->path), "%s/db", w->dir);
    (void)snprintf(w->log, sizeof(w->log), "%s-wal", w->path);
    clock_fake_init(&w->clock, 0);
    rng_seeded_init(&w->rng, 1);
    w->sim = exec_sim_new(&w->clock, &w->rng.rng);
}

// world_open opens the database with a configuration, NULL: none. Returns store_open's code.
static int world_open(struct world *w, const char *config)
{
    if (config)
        assert_int_equal(seal_config_parse(str_z(config), &w->config, &w->err), 0);
    return store_open(&(struct store_options){.exec = exec_sim_exec(w->sim),
                                              .path = w->path,
                                              .sealer =
                                                  config ? seal_config_sealer(w->config) : NULL,
                                              .commit_on_exec = true},
                      &w->store, &w->err);
}

static void world_close(struct world *w)
{
    store_close(w->store);
    seal_config_free(w->config);
    w->store = NULL;
    w->config = NULL;
}

static void world_end(struct world *w)
{
    world_close(w);
    exec_sim_free(w->sim);
    (void)file_remove_tree(w->dir, NULL);
}

static void write_text(struct world *w, const char *name, const char *text)
{
    struct outcome done = {0};
    assert_int_equal(put(w->store, claims(), "ns", name, text, &done), 0);
    exec_sim_run(w->sim, w->clock.mono);
    assert_int_equal(done.calls, 1);
    assert_int_equal(done.code, 0);
}

// on_disk: whether a text stands in the database or its log.
static bool on_disk(const struct world *w, const char *text)
{
    cleanup_sbuf struct sbuf bytes = {0};
    assert_int_equal(file_read(w->path, 64 << 20, &bytes, NULL), 0);
    int r = file_read(w->log, 64 << 20, &bytes, NULL);
    assert_true(r == 0 || r == -ENOENT);
    return memmem(bytes.p, bytes.n, text, strlen(text)) != NULL;
}

static bool has_text(const struct world *w, const char *name, const char *text)
{
    const struct store_key key = {claims(), STR("ns"), str_z(name)};
    const struct object *o = store_get(w->store, &key);
    return o && str_eqz(text_of(o), text);
}

static void test_rows(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    // Plain first: then a configuration with identity behind the key encrypts what is there, the
    // replaced version and the deletion included.
    assert_int_equal(world_open(&w, NULL), 0);
    write_text(&w, "one", "old-secret");
    write_text(&w, "one", "plain-secret");
    write_text(&w, "two", "gone-secret");
    write_text(&w, "two", NULL);
    assert_true(on_disk(&w, "plain-secret") && on_disk(&w, "gone-secret"));
    world_close(&w);
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_A))), -ENOKEY);
    assert_non_null(strstr(w.err.msg, "4 of 4 rows"));
    assert_non_null(strstr(w.err.msg, "no provider identity"));
    world_close(&w);
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_A) ", {identity: {}}")), 0);
    assert_false(on_disk(&w, "plain-secret"));
    assert_false(on_disk(&w, "old-secret"));
    assert_false(on_disk(&w, "gone-secret"));
    assert_true(has_text(&w, "one", "plain-secret"));
    write_text(&w, "three", "third-secret");
    assert_false(on_disk(&w, "third-secret"));
    // The history is there, too.
    struct store_key key = {claims(), STR("ns"), STR("one")};
    assert_int_equal(store_oldest(w.store), 0);
    assert_non_null(store_get(w.store, &key));
    world_close(&w);
    // No configuration, another key, another key of this name: no start, and nothing is lost.
    assert_int_equal(world_open(&w, NULL), -ENOKEY);
    assert_non_null(strstr(w.err.msg, "5 of 5 rows cannot be decrypted"));
    assert_non_null(strstr(w.err.msg, "--encryption-provider-config"));
    world_close(&w);
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_B) ", {identity: {}}")), -ENOKEY);
    assert_non_null(strstr(w.err.msg, "key \"a\" is not configured"));
    world_close(&w);
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_C))), -ENOKEY);
    assert_non_null(strstr(w.err.msg, "key \"a\" does not open it"));
    world_close(&w);
    // Rotation: the new key first, and after one start the old one is not needed any more.
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_B "," KEY_A))), 0);
    assert_true(has_text(&w, "one", "plain-secret") && has_text(&w, "three", "third-secret"));
    world_close(&w);
    assert_int_equal(world_open(&w, CLAIMS(GCM(KEY_B))), 0);
    assert_true(has_text(&w, "three", "third-secret"));
    world_close(&w);
    // And back: identity first.
    assert_int_equal(world_open(&w, CLAIMS("{identity: {}}, " GCM(KEY_B))), 0);
    world_close(&w);
    assert_int_equal(world_open(&w, NULL), 0);
    assert_true(has_text(&w, "one", "plain-secret") && has_text(&w, "three", "third-secret"));
    world_end(&w);
}

// check_closed: the row is damaged; and if its checksum is made right, it does not open.
static void check_closed(const struct store_sealer *sealer, const struct record_row *row,
                         struct str blob, bool sum_only)
{
    cleanup_sbuf struct sbuf copy = {0}, scratch = {0};
    struct str plain = blob;
    bool stale;
    assert_int_equal(store_check_row(row, blob, NULL), -ERR_INVALID);
    assert_int_equal(store_open_row(sealer, row, claims(), &plain, &scratch, &stale, NULL),
                     -ERR_INVALID);
    sbuf_add(&copy, blob);
    if (copy.n < 9)
        return;
    uint64_t sum = record_sum(row, str_from(blob, 9));
    for (int i = 0; i < 8; i++, sum >>= 8)
        copy.p[1 + i] = (char)(unsigned char)sum;
    plain = sbuf_str(&copy);
    int r = store_open_row(sealer, row, claims(), &plain, &scratch, &stale, NULL);
    assert_int_equal(r, sum_only ? 0 : -ENOKEY);
}

// A row opens only where it was written: each column of it is authenticated.
static void test_swapped(void **state)
{
    (void)state;
    struct seal_config *c = NULL;
    assert_int_equal(seal_config_parse(STR(CLAIMS(GCM(KEY_A))), &c, NULL), 0);
    const struct store_sealer *sealer = seal_config_sealer(c);
    const struct record_row row = {7, STR("k"), STR("ns"), STR("name"), false};
    const struct record_row others[] = {{8, STR("k"), STR("ns"), STR("name"), false},
                                        {7, STR("kn"), STR("s"), STR("name"), false},
                                        {7, STR("k"), STR("nsn"), STR("ame"), false},
                                        {7, STR("k"), STR("ns"), STR("other"), false},
                                        {7, STR("k"), STR("ns"), STR("name"), true}};
    cleanup_sbuf struct sbuf blob = {0}, scratch = {0};
    struct str plain;
    bool stale = true;
    sbuf_add(&blob, STR("content"));
    assert_int_equal(store_seal_row(sealer, &row, claims(), &blob, &scratch, NULL), 0);
    plain = sbuf_str(&blob);
    assert_int_equal(store_open_row(sealer, &row, claims(), &plain, &scratch, &stale, NULL), 0);
    assert_true(str_eqz(plain, "content") && !stale);
    for (size_t i = 0; i < array_len(others); i++)
        check_closed(sealer, &others[i], sbuf_str(&blob), false);
    for (size_t i = 1; i < blob.n; i++) { // any bit, any length
        blob.p[i] ^= 1;
        check_closed(sealer, &row, sbuf_str(&blob), i < 9);
        blob.p[i] ^= 1;
        check_closed(sealer, &row, str_upto(sbuf_str(&blob), i), false);
    }
    // Kinds that are not named stay plain.
    sbuf_clear(&blob);
    sbuf_add(&blob, STR("content"));
    assert_int_equal(store_seal_row(sealer, &row, classes(), &blob, &scratch, NULL), 0);
    assert_true(str_eqz(sbuf_str(&blob), "content"));
    seal_config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_errors),
        cmocka_unit_test(test_file_mode),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_swapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// Files of volumes: sets that switch at once, and the tricks that are played on those who write and remove them.
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include <sys/stat.h>

#include "node/volume/volume.h"
#include "unit.h"

#include "base/banned.h"

struct room {
    char dir[64];
    char volume[96], outside[96];
};

static int rm(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

static int enter(void **state)
{
    static struct room r;
    struct err err = {0};
    r = (struct room){.dir = "/tmp/dray-volume-XXXXXX"};
    if (!mkdtemp(r.dir))
        return -1;
    (void)snprintf(r.volume, sizeof(r.volume), "%s/pod/volume", r.dir);
    (void)snprintf(r.outside, sizeof(r.outside), "%s/outside", r.dir);
    *state = &r;
    return volume_make_directory(r.volume, 0777, &err) +
           volume_make_directory(r.outside, 0755, &err);
}

static int leave(void **state)
{
    const struct room *r = *state;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    return nftw(r->dir, rm, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *at(const struct room *r, const char *path)
{
    static char text[256];
    (void)snprintf(text, sizeof(text), "%s/%s", r->volume, path);
    return text;
}

static void touch(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
}

static void assert_file(const char *path, const char *want)
{
    struct sbuf b = {0};
    read_file(path, &b);
    assert_string_equal(b.n ? b.p : "", want);
    sbuf_done(&b);
}

static int put(const struct room *r, const struct volume_file *files, size_t n, struct err *err)
{
    struct volume_file copy[4];
    memcpy(copy, files, n * sizeof(*files));
    const struct volume_files all = {copy, n, n};
    return volume_files_write(r->volume, &all, -1, err);
}

static void sets_switch_at_once(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    const struct volume_file one[] = {{STR("a"), STR("1"), 0644}, {STR("d/b"), STR("2"), 0400}};
    const struct volume_file two[] = {{STR("a"), STR("new"), 0644}};
    struct stat st;
    assert_int_equal(put(r, one, 2, &err), 0);
    assert_file(at(r, "a"), "1");
    assert_file(at(r, "d/b"), "2");
    assert_int_equal(stat(at(r, "d/b"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0400);
    assert_int_equal(put(r, one, 2, &err), 1); // nothing to do
    assert_int_equal(put(r, two, 1, &err), 0);
    assert_file(at(r, "a"), "new");
    assert_int_not_equal(access(at(r, "d"), F_OK), 0);
    assert_int_equal(lstat(at(r, "..data"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

// The volume of a claim: made when it is the provisioner's own, else it must be there, here, and of a type that can be mounted.
static void volumes_of_claims(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    struct arena arena = {0};
    struct stat st;
    struct api_str_entry own = {STR("pv.kubernetes.io/provisioned-by"), STR("dray.dev/local")};
    struct api_host_path_volume_source host = {.path = str_z(at(r, "base/pvc-1/data")),
                                               .type = STR("DirectoryOrCreate")};
    host.path = arena_str(&arena, host.path);
    assert_int_equal(mkdir(at(r, "base"), 0755), 0);
    assert_int_equal(chmod(at(r, "base"), 0755), 0); // open to all, as /srv is
    struct api_persistent_volume v = {.metadata = {.name = STR("pv"), .annotations = {&own, 1}}};
    v.spec.persistent_volume_source.host_path = &host;
    assert_int_equal(volume_claim_set_up(&v, NULL, &arena, &err), 0);
    assert_int_equal(stat(at(r, "base/pvc-1/data"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0777);
    assert_int_equal(stat(at(r, "base/pvc-1"), &st), 0);
    assert_int_equal(st.st_mode & 0007, 0);
    assert_true(str_eq(volume_claim_path(&v), host.path));
    touch(at(r, "base/pvc-1/data/word"), "kept");
    assert_int_equal(volume_claim_set_up(&v, NULL, &arena, &err), 0); // the next pod
    assert_file(at(r, "base/pvc-1/data/word"), "kept");

    struct api_host_path_volume_source up = host;
    up.path = arena_str(&arena, str_z(at(r, "base/../up/data")));
    v.spec.persistent_volume_source.host_path = &up;
    assert_int_equal(volume_claim_set_up(&v, NULL, &arena, &err), -ERR_INVALID);
    assert_int_not_equal(access(at(r, "up"), F_OK), 0);
    v.spec.persistent_volume_source.host_path = &host;

    struct str nodes[] = {STR("elsewhere")};
    struct api_node_selector_requirement one = {
        .key = STR("kubernetes.io/hostname"), .operator= STR("In"), .values = {nodes, 1}};
    struct api_node_selector_term term = {.match_expressions = {&one, 1}};
    struct api_node_selector required = {.node_selector_terms = {&term, 1}};
    struct api_volume_node_affinity affinity = {.required = &required};
    struct api_str_entry label = {STR("kubernetes.io/hostname"), STR("here")};
    const struct api_node node = {.metadata = {.labels = {&label, 1}}};
    v.spec.node_affinity = &affinity;
    assert_int_equal(volume_claim_set_up(&v, &node, &arena, &err), -ERR_INVALID);
    assert_int_equal(volume_claim_set_up(&v, NULL, &arena, &err), -ERR_UNAVAILABLE);
    nodes[0] = STR("here");
    assert_int_equal(volume_claim_set_up(&v, &node, &arena, &err), 0);

    struct api_local_volume_source local = {.path = arena_str(&arena, str_z(at(r, "absent")))};
    v.spec.persistent_volume_source = (struct api_persistent_volume_source){.local = &local};
    assert_int_equal(volume_claim_set_up(&v, &node, &arena, &err), -ERR_INVALID);
    assert_int_not_equal(access(at(r, "absent"), F_OK), 0);
    struct api_nfs_volume_source nfs = {.path = STR("/")};
    v.spec.persistent_volume_source = (struct api_persistent_volume_source){.nfs = &nfs};
    assert_int_equal(volume_claim_set_up(&v, &node, &arena, &err), -ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "is of type nfs"));
    assert_int_equal(volume_claim_path(&v).n, 0);
    arena_done(&arena);
}

static void a_crash_between_two_steps_is_made_good(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    const struct volume_file one[] = {{STR("a"), STR("1"), 0644}};
    assert_int_equal(put(r, one, 1, &err), 0);
    assert_int_equal(unlink(at(r, "a")), 0); // the set is there, its name is not
    assert_int_equal(mkdir(at(r, "..set_half"), 0755), 0);
    assert_int_equal(put(r, one, 1, &err), 1);
    assert_file(at(r, "a"), "1");
    assert_int_not_equal(access(at(r, "..set_half"), F_OK), 0);
}

static void paths_do_not_leave_their_volume(void **state)
{
    const struct room *r = *state;
    static const char *const bad[] = {"../x", "/x", "a/../../x", "..", "..data", "", "a//b", "./a"};
    for (size_t i = 0; i < array_len(bad); i++) {
        struct err err = {0};
        const struct volume_file f[] = {{str_z(bad[i]), STR("x"), 0644}};
        if (put(r, f, 1, &err) != -ERR_INVALID)
            fail_msg("'%s' was taken", bad[i]);
    }
}

static void removal_follows_nothing(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    char keep[128], pod[96];
    (void)snprintf(keep, sizeof(keep), "%s/keep", r->outside);
    (void)snprintf(pod, sizeof(pod), "%s/pod", r->dir);
    touch(keep, "mine");
    assert_int_equal(symlink(r->outside, at(r, "link")), 0);
    assert_int_equal(symlink("/", at(r, "root")), 0);
    assert_int_equal(mkdir(at(r, "dir"), 0755), 0);
    assert_int_equal(symlink("../../../outside/keep", at(r, "dir/up")), 0);
    assert_int_equal(mkfifo(at(r, "fifo"), 0600), 0);
    assert_int_equal(volume_remove_tree(pod, &err), 0);
    assert_int_not_equal(access(pod, F_OK), 0);
    assert_file(keep, "mine");
    // A volume that was swapped for a link is not a folder.
    assert_int_equal(symlink(r->outside, pod), 0);
    assert_true(volume_remove_tree(pod, &err) < 0);
    assert_file(keep, "mine");
}

static void removal_knows_no_depth(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    char pod[96];
    enum { DEPTH = 3000 };
    (void)snprintf(pod, sizeof(pod), "%s/pod", r->dir);
    int at = open(r->volume, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < DEPTH; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(below >= 0);
        (void)close(at);
        at = below;
    }
    (void)close(at);
    assert_int_equal(volume_remove_tree(pod, &err), 0);
    assert_int_not_equal(access(pod, F_OK), 0);
}

static void a_volume_that_became_a_link_is_not_written_through(void **state)
{
    const struct room *r = *state;
    struct err err = {0};
    const struct volume_file f[] = {{STR("a"), STR("1"), 0644}};
    assert_int_equal(rmdir(r->volume), 0);
    assert_int_equal(symlink(r->outside, r->volume), 0);
    assert_true(put(r, f, 1, &err) < 0);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/a", r->outside);
    assert_int_not_equal(access(path, F_OK), 0);
}

#define ROOM_TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

RUN_TESTS(ROOM_TEST(sets_switch_at_once), ROOM_TEST(a_crash_between_two_steps_is_made_good),
          ROOM_TEST(volumes_of_claims), ROOM_TEST(paths_do_not_leave_their_volume),
          ROOM_TEST(removal_follows_nothing), ROOM_TEST(removal_knows_no_depth),
          ROOM_TEST(a_volume_that_became_a_link_is_not_written_through))

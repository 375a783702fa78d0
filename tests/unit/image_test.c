// SPDX-License-Identifier: Apache-2.0
//
// Images: tar archives, documents, layers over layers, the store. Every known way out of a layer has a case.
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "image_kit.h"
#include "node/image/image.h"
#include "node/image/image_blob.h"
#include "node/image/image_source.h"
#include "node/image/image_unpack.h"
#include "node/image/tar.h"
#include "os/file.h"
#include "unit.h"

#include "base/banned.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/dray-image-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    kit_remove(dir);
    return 0;
}

// --- Tar -----------------------------------------------------------------------------------------

struct memory {
    struct str rest;
    size_t at_once; // bytes given by one read
};

static ssize_t read_memory(void *arg, void *buf, size_t n, struct err *err)
{
    struct memory *m = arg;
    (void)err;
    n = n < m->rest.n ? n : m->rest.n;
    n = n < m->at_once ? n : m->at_once;
    memcpy(buf, m->rest.p, n);
    m->rest = str_from(m->rest, n);
    return (ssize_t)n;
}

static void archives_are_read(void **state)
{
    struct kit_tar t = {0};
    char name[300];
    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    name[200] = '/';
    kit_tar_add(&t, '5', "folder/", 0755, STR(""), NULL);
    kit_tar_add(&t, '0', "folder/file", 04711, STR("some text"), NULL);
    kit_tar_add(&t, '0', name, 0600, STR(""), NULL);
    kit_tar_add(&t, '2', "link", 0777, STR(""), "folder/file");
    kit_tar_end(&t);
    for (size_t at_once = 1; at_once < 2000; at_once += 333) {
        struct memory m = {sbuf_str(&t.bytes), at_once};
        struct tar_reader r;
        struct tar_entry e;
        char data[32];
        tar_reader_init(&r, read_memory, &m);
        assert_int_equal(tar_next(&r, &e, NULL), 1);
        assert_int_equal(e.type, TAR_FOLDER);
        assert_str(e.name, "folder/");
        assert_int_equal(tar_next(&r, &e, NULL), 1);
        assert_int_equal(e.type, TAR_FILE);
        assert_int_equal(e.mode, 04711);
        assert_int_equal(e.mtime_sec, 1000000000);
        assert_int_equal(tar_data(&r, data, sizeof(data), NULL), 9);
        assert_memory_equal(data, "some text", 9);
        assert_int_equal(tar_data(&r, data, sizeof(data), NULL), 0);
        assert_int_equal(tar_next(&r, &e, NULL), 1);
        assert_str(e.name, name);
        assert_int_equal(tar_next(&r, &e, NULL), 1);
        assert_int_equal(e.type, TAR_SYMBOLIC_LINK);
        assert_str(e.link, "folder/file");
        assert_int_equal(tar_next(&r, &e, NULL), 0);
        assert_int_equal(tar_next(&r, &e, NULL), 0);
        tar_reader_done(&r);
    }
    sbuf_done(&t.bytes);
}

// Reads all of it. Returns the last answer.
static int read_through(struct str bytes, struct err *err)
{
    struct memory m = {bytes, SIZE_MAX};
    struct tar_reader r;
    struct tar_entry e;
    int rc;
    tar_reader_init(&r, read_memory, &m);
    while ((rc = tar_next(&r, &e, err)) > 0)
        ;
    tar_reader_done(&r);
    return rc;
}

static void damaged_archives_are_refused(void **state)
{
    struct kit_tar t = {0};
    struct err err;
    (void)state;
    kit_tar_add(&t, '0', "file", 0644, STR("text"), NULL);
    assert_int_equal(read_through(str_upto(sbuf_str(&t.bytes), 600), &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "ends in the middle"));
    assert_int_equal(read_through(str_upto(sbuf_str(&t.bytes), 100), &err), -ERR_INVALID);
    t.bytes.p[3] ^= 1;
    assert_int_equal(read_through(sbuf_str(&t.bytes), &err), -ERR_INVALID);
    assert_non_null(strstr(err.msg, "checksum"));
    assert_int_equal(read_through(STR("not a tar archive"), &err), -ERR_INVALID);
    sbuf_clear(&t.bytes);
    kit_tar_add(&t, 'x', "pax", 0644, STR("9 path=a\n7 no-equals\n"), NULL);
    assert_int_equal(read_through(sbuf_str(&t.bytes), &err), -ERR_INVALID);
    sbuf_clear(&t.bytes);
    kit_tar_add(&t, 'x', "pax", 0644, STR("22 GNU.sparse.major=1\n"), NULL);
    kit_tar_add(&t, '0', "sparse", 0644, STR(""), NULL);
    assert_int_equal(read_through(sbuf_str(&t.bytes), &err), -ERR_UNSUPPORTED);
    sbuf_clear(&t.bytes);
    kit_tar_add(&t, 'S', "sparse", 0644, STR(""), NULL);
    assert_int_equal(read_through(sbuf_str(&t.bytes), &err), -ERR_UNSUPPORTED);
    sbuf_done(&t.bytes);
}

// --- Layers --------------------------------------------------------------------------------------

struct root {
    char path[96];
    int fd;
    struct unpack u;
    struct err err;
};

static void open_root(struct root *r, const char *name)
{
    (void)snprintf(r->path, sizeof(r->path), "%s/%s", dir, name);
    assert_int_equal(mkdir(r->path, 0755), 0);
    r->fd = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(r->fd >= 0);
    image_unpack_init(&r->u, r->fd);
}

static int lay(struct root *r, struct kit_tar *t)
{
    struct memory m = {sbuf_str(&t->bytes), SIZE_MAX};
    struct tar_reader reader;
    tar_reader_init(&reader, read_memory, &m);
    int rc = image_unpack_layer(&r->u, &reader, &r->err);
    tar_reader_done(&reader);
    sbuf_done(&t->bytes);
    return rc;
}

static bool there(const struct root *r, const char *name)
{
    struct stat st;
    return fstatat(r->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void has_text(const struct root *r, const char *name, const char *text)
{
    cleanup_sbuf struct sbuf got = {0};
    if (file_read_at(r->fd, name, 4096, &got) < 0)
        fail_msg("there is no %s", name);
    assert_str(sbuf_str(&got), text);
}

static void add(struct kit_tar *t, char type, const char *name, const char *text, const char *link)
{
    kit_tar_add(t, type, name, type == '5' ? 0755 : 0644, str_z(text), link);
}

static void layers_lie_over_each_other(void **state)
{
    struct root r;
    struct kit_tar a = {0}, b = {0};
    struct stat st;
    (void)state;
    open_root(&r, "over");
    add(&a, '5', "./", "", NULL);
    add(&a, '5', "usr/", "", NULL);
    add(&a, '5', "usr/lib/", "", NULL);
    add(&a, '2', "lib", "", "/usr/lib"); // absolute: of the root
    add(&a, '0', "usr/lib/one", "1", NULL);
    add(&a, '0', "keep", "old", NULL);
    add(&a, '0', "gone", "old", NULL);
    add(&a, '0', "file-then-folder", "old", NULL);
    kit_tar_add(&a, '0', "su", 04755, STR("s"), NULL);
    add(&a, '1', "hard", "", "keep");
    assert_int_equal(lay(&r, &a), 0);
    has_text(&r, "hard", "old");
    add(&b, '0', "lib/two", "2", NULL); // through the link
    add(&b, '0', "keep", "new", NULL);
    add(&b, '0', ".wh.gone", "", NULL);
    add(&b, '5', "file-then-folder/", "", NULL);
    add(&b, '0', "made/above/file", "3", NULL);
    assert_int_equal(lay(&r, &b), 0);
    has_text(&r, "usr/lib/two", "2");
    has_text(&r, "keep", "new");
    has_text(&r, "hard", "old"); // the file was replaced, not written into
    assert_false(there(&r, "gone"));
    assert_false(there(&r, ".wh.gone"));
    has_text(&r, "made/above/file", "3");
    assert_int_equal(fstatat(r.fd, "su", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 04755);
    assert_int_equal(fstatat(r.fd, "file-then-folder", &st, 0), 0);
    assert_true(S_ISDIR(st.st_mode));
    (void)close(r.fd);
}

static unsigned mode_of(const struct root *r, const char *name)
{
    struct stat st;
    assert_int_equal(fstatat(r->fd, name, &st, 0), 0);
    return st.st_mode & 07777;
}

// Containers see these directories and files, whatever umask the agent runs with.
static void modes_do_not_depend_on_the_umask(void **state)
{
    struct root r;
    struct kit_tar t = {0};
    (void)state;
    open_root(&r, "umask");
    mode_t before = umask(077);
    add(&t, '0', "made/above/file", "3", NULL);
    assert_int_equal(lay(&r, &t), 0);
    assert_int_equal(file_replace_atomic(r.fd, "hosts", STR("x"), 0644, NULL), 0);
    assert_int_equal(file_make_dir_at(r.fd, "open", 0777), 0);
    assert_int_equal(file_make_dir_at(r.fd, "open", 0700), -EEXIST);
    (void)umask(before);
    assert_int_equal(mode_of(&r, "made"), 0755);
    assert_int_equal(mode_of(&r, "made/above"), 0755);
    assert_int_equal(mode_of(&r, "made/above/file"), 0644);
    assert_int_equal(mode_of(&r, "hosts"), 0644);
    assert_int_equal(mode_of(&r, "open"), 0777);
    (void)close(r.fd);
}

static void an_opaque_folder_hides_what_is_below_it(void **state)
{
    struct root r;
    struct kit_tar a = {0}, b = {0};
    (void)state;
    open_root(&r, "opaque");
    add(&a, '0', "d/old", "1", NULL);
    add(&a, '0', "d/sub/old", "1", NULL);
    add(&a, '0', "d/both/old", "1", NULL);
    assert_int_equal(lay(&r, &a), 0);
    add(&b, '5', "d/", "", NULL);
    add(&b, '0', "d/new", "2", NULL); // before the mark, and kept all the same
    add(&b, '5', "d/both/", "", NULL);
    add(&b, '0', "d/both/new", "2", NULL);
    add(&b, '0', "d/.wh..wh..opq", "", NULL);
    add(&b, '0', "d/after", "2", NULL);
    assert_int_equal(lay(&r, &b), 0);
    assert_false(there(&r, "d/old"));
    assert_false(there(&r, "d/sub"));
    assert_false(there(&r, "d/both/old"));
    has_text(&r, "d/new", "2");
    has_text(&r, "d/both/new", "2");
    has_text(&r, "d/after", "2");
    assert_false(there(&r, "d/.wh..wh..opq"));
    (void)close(r.fd);
}

// A file beside the root, which no layer may touch.
static void put_canary(void)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/canary", dir);
    kit_write(path.p, STR("alive"));
}

static void check_canary(void)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    struct stat st;
    sbuf_addf(&path, "%s/canary", dir);
    read_file(path.p, &text);
    assert_str(sbuf_str(&text), "alive");
    assert_int_equal(stat(path.p, &st), 0);
    assert_int_equal(st.st_nlink, 1);
    sbuf_clear(&path);
    sbuf_addf(&path, "%s/escaped", dir);
    assert_int_not_equal(access(path.p, F_OK), 0);
}

static void names_cannot_leave_the_root(void **state)
{
    static const char *const names[] = {"../escaped", "a/../../escaped", "/../escaped",
                                        "./../escaped", "a/b/../../../escaped"};
    (void)state;
    put_canary();
    for (size_t i = 0; i < array_len(names); i++) {
        struct root r;
        struct kit_tar t = {0};
        char name[16];
        (void)snprintf(name, sizeof(name), "dots%zu", i);
        open_root(&r, name);
        add(&t, '0', names[i], "out", NULL);
        assert_int_equal(lay(&r, &t), -ERR_INVALID);
        assert_non_null(strstr(r.err.msg, "leaves its root"));
        (void)close(r.fd);
    }
    check_canary();
}

static void links_cannot_lead_out(void **state)
{
    // A link, and a file through it: relative, absolute, in steps, to a folder that is there.
    static const struct {
        const char *link, *target, *through;
    } rows[] = {
        {"out", "..", "out/escaped"},
        {"out", "../..", "out/escaped"},
        {"out", "/", "out/escaped"},
        {"out", "/tmp", "out/escaped"},
        {"d/out", "../../..", "d/out/escaped"},
        {"out", "/proc/self/root", "out/escaped"},
        {"out", "/proc/self/cwd", "out/escaped"},
    };
    (void)state;
    put_canary();
    for (size_t i = 0; i < array_len(rows); i++) {
        struct root r;
        struct kit_tar t = {0};
        char name[16];
        (void)snprintf(name, sizeof(name), "links%zu", i);
        open_root(&r, name);
        add(&t, '2', rows[i].link, "", rows[i].target);
        add(&t, '0', rows[i].through, "out", NULL);
        (void)!lay(&r, &t); // inside the root it may well succeed
        (void)close(r.fd);
        check_canary();
        assert_int_not_equal(access("/escaped", F_OK), 0);
        assert_int_not_equal(access("/tmp/escaped", F_OK), 0);
    }
}

static void what_is_written_through_a_link_stays_inside(void **state)
{
    struct root r;
    struct kit_tar t = {0};
    (void)state;
    put_canary();
    open_root(&r, "through");
    // A link in the place of the file itself is replaced, not followed.
    add(&t, '2', "file", "", "../canary");
    add(&t, '0', "file", "overwritten", NULL);
    // The same for a folder and for a link's own link.
    add(&t, '2', "folder", "", "..");
    add(&t, '5', "folder/", "", NULL);
    add(&t, '0', "folder/escaped", "out", NULL);
    assert_int_equal(lay(&r, &t), 0);
    has_text(&r, "file", "overwritten");
    has_text(&r, "folder/escaped", "out");
    check_canary();
    (void)close(r.fd);
}

static void hard_links_cannot_lead_out(void **state)
{
    static const char *const targets[] = {"../canary", "out/canary", "/etc/passwd", "out"};
    (void)state;
    put_canary();
    for (size_t i = 0; i < array_len(targets); i++) {
        struct root r;
        struct kit_tar t = {0};
        char name[16];
        struct stat st;
        (void)snprintf(name, sizeof(name), "hard%zu", i);
        open_root(&r, name);
        add(&t, '2', "out", "", "..");
        add(&t, '1', "mine", "", targets[i]);
        int rc = lay(&r, &t);
        if (i == 3) { // a hard link to the link itself, not to where it leads
            assert_int_equal(rc, 0);
            assert_int_equal(fstatat(r.fd, "mine", &st, AT_SYMLINK_NOFOLLOW), 0);
            assert_true(S_ISLNK(st.st_mode));
        } else {
            assert_true(rc < 0);
            assert_false(there(&r, "mine"));
        }
        (void)close(r.fd);
    }
    check_canary();
}

static void whiteouts_remove_nothing_outside(void **state)
{
    struct root r;
    struct kit_tar a = {0}, b = {0}, c = {0}, d = {0};
    (void)state;
    put_canary();
    open_root(&r, "white");
    add(&a, '2', "out", "", "..");
    add(&a, '0', "out/.wh.canary", "", NULL);
    assert_int_equal(lay(&r, &a), 0);
    check_canary();
    add(&b, '0', ".wh...", "", NULL); // hides ".."
    assert_int_equal(lay(&r, &b), -ERR_INVALID);
    add(&c, '0', ".wh.", "", NULL);
    assert_int_equal(lay(&r, &c), -ERR_INVALID);
    add(&d, '2', "up", "", "../..");
    add(&d, '0', "up/.wh..wh..opq", "", NULL);
    assert_int_equal(lay(&r, &d), 0); // empties the root itself, at most
    check_canary();
    (void)close(r.fd);
}

static void device_nodes_are_not_made(void **state)
{
    struct root r;
    struct kit_tar t = {0};
    (void)state;
    open_root(&r, "devices");
    add(&t, '3', "dev/mem", "", NULL);
    add(&t, '4', "dev/vda", "", NULL);
    add(&t, '6', "fifo", "", NULL);
    assert_int_equal(lay(&r, &t), 0);
    assert_false(there(&r, "dev/mem"));
    assert_false(there(&r, "dev/vda"));
    assert_true(there(&r, "fifo"));
    assert_int_equal(r.u.devices, 2);
    (void)close(r.fd);
}

static void an_image_is_bounded(void **state)
{
    struct root r;
    struct kit_tar t = {0}, many = {0}, deep = {0};
    cleanup_sbuf struct sbuf name = {0};
    (void)state;
    open_root(&r, "bounds");
    r.u.bytes_left = 10;
    add(&t, '0', "small", "12345", NULL);
    add(&t, '0', "large", "123456", NULL);
    assert_int_equal(lay(&r, &t), -ERR_TOO_LARGE);
    r.u.entries_left = 2;
    for (int i = 0; i < 3; i++)
        add(&many, '5', "d/", "", NULL);
    assert_int_equal(lay(&r, &many), -ERR_TOO_LARGE);
    for (int i = 0; i < UNPACK_DEPTH_MAX + 1; i++)
        sbuf_addz(&name, "d/");
    image_unpack_init(&r.u, r.fd);
    add(&deep, '5', name.p, "", NULL);
    assert_int_equal(lay(&r, &deep), -ERR_INVALID);
    (void)close(r.fd);
}

// Folders deeper than any path can name, made through links to themselves, go again.
static void no_tree_is_too_deep_to_remove(void **state)
{
    cleanup_sbuf struct sbuf path = {0};
    (void)state;
    sbuf_addf(&path, "%s/deep", dir);
    assert_int_equal(mkdir(path.p, 0755), 0);
    int at = open(path.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 3000; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    assert_int_equal(file_remove_tree(path.p, NULL), 0);
    assert_int_not_equal(access(path.p, F_OK), 0);
}

// --- Documents -----------------------------------------------------------------------------------

static void references_are_completed(void **state)
{
    static const struct {
        const char *said, *full;
    } rows[] = {
        {"busybox", "docker.io/library/busybox:latest"},
        {"busybox:1.36", "docker.io/library/busybox:1.36"},
        {"team/app", "docker.io/team/app:latest"},
        {"localhost/app:v1", "localhost/app:v1"},
        {"host:5000/a/b", "host:5000/a/b:latest"},
        {"example.com/a:T_1", "example.com/a:T_1"},
        {"a@sha256:0123456789012345678901234567890123456789012345678901234567890123",
         "docker.io/library/"
         "a@sha256:0123456789012345678901234567890123456789012345678901234567890123"},
        {"", NULL},
        {"Busybox", NULL},
        {"a b", NULL},
        {"a:", NULL},
        {"a:.x", NULL},
        {"a@sha256:12", NULL},
        {"../etc", NULL},
        {"/a", NULL},
        {"a//b", NULL},
        {"a/", NULL},
    };
    cleanup_arena struct arena a = {0};
    (void)state;
    for (size_t i = 0; i < array_len(rows); i++) {
        struct str full;
        int rc = image_reference_full(str_z(rows[i].said), &a, &full, NULL);
        if (!rows[i].full) {
            if (rc != -ERR_BAD_REQUEST)
                fail_msg("'%s' was taken for a name", rows[i].said);
            continue;
        }
        assert_int_equal(rc, 0);
        assert_str(full, rows[i].full);
    }
}

#define HEX64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void documents_are_read_and_checked(void **state)
{
    cleanup_arena struct arena a = {0};
    const struct image_platform here = {"linux", "amd64", ""};
    struct image_choices all = {0};
    struct image_manifest m;
    struct image_config c;
    struct err err;
    (void)state;
    assert_int_equal(
        image_index_read(STR("{\"manifests\":["
                             "{\"digest\":\"sha256:" HEX64 "\",\"size\":3,\"platform\":{\"os\":"
                             "\"linux\",\"architecture\":\"arm64\"}},"
                             "{\"digest\":\"sha256:" HEX64 "\",\"size\":3,\"platform\":{\"os\":"
                             "\"linux\",\"architecture\":\"amd64\"}},"
                             "{\"mediaType\":\"application/vnd.in-toto\",\"digest\":\"sha256:" HEX64
                             "\",\"size\":3}]}"),
                         &here, &a, &all, &err),
        0);
    assert_int_equal(all.n, 2);
    assert_false(all.p[0].platform_fits);
    assert_true(all.p[1].platform_fits);
    assert_int_equal(image_index_read(STR("{\"manifests\":[{\"digest\":\"sha256:../../etc\","
                                          "\"size\":3}]}"),
                                      &here, &a, &all, &err),
                     -ERR_INVALID);
    assert_string_equal(err.path, "manifests[0]");
    assert_int_equal(image_manifest_read(STR("{\"config\":{\"digest\":\"sha256:" HEX64
                                             "\",\"size\":1},\"layers\":[{\"mediaType\":"
                                             "\"application/x-strange\",\"digest\":"
                                             "\"sha256:" HEX64 "\",\"size\":1}]}"),
                                         &a, &m, &err),
                     -ERR_UNSUPPORTED);
    assert_int_equal(image_manifest_read(STR("{\"config\":{\"digest\":\"sha256:" HEX64
                                             "\",\"size\":-1},\"layers\":[]}"),
                                         &a, &m, &err),
                     -ERR_INVALID);
    assert_int_equal(
        image_config_read(STR("{\"config\":{\"Entrypoint\":[\"/a\",\"b\"],\"Env\":[\"X=1\"],"
                              "\"User\":\"alice\",\"StopSignal\":\"SIGINT\"},\"rootfs\":{"
                              "\"diff_ids\":[\"sha256:" HEX64 "\"]}}"),
                          &a, &c, &err),
        0);
    assert_int_equal(c.entrypoint.n, 2);
    assert_str(c.user, "alice");
    assert_str(c.stop_signal, "SIGINT");
    assert_int_equal(image_config_read(STR("{\"config\":{\"Cmd\":\"not a list\"}}"), &a, &c, &err),
                     -ERR_BAD_REQUEST);
    assert_int_equal(image_config_read(STR("{\"config\":{\"Cmd\":[\"a\\u0000b\"]}}"), &a, &c, &err),
                     -ERR_INVALID);
    assert_int_equal(image_config_read(STR("[]"), &a, &c, &err), -ERR_INVALID);
}

// --- The store -----------------------------------------------------------------------------------

static struct image_store *open_store(const char *name)
{
    cleanup_sbuf struct sbuf folder = {0}, local = {0};
    struct image_store *s;
    struct err err = {0};
    sbuf_addf(&folder, "%s/%s", dir, name);
    sbuf_addf(&local, "%s/local", dir);
    const struct image_store_options o = {.folder = folder.p, .local = local.p};
    if (image_store_new(&o, &s, &err) < 0)
        fail_msg("%s", err.msg);
    return s;
}

static int get(struct image_store *s, const char *reference, enum runtime_pull pull,
               struct arena *a, struct image_info *ret, struct err *err)
{
    const struct runtime_image image = {.reference = str_z(reference), .pull = pull};
    return image_get(s, &image, a, ret, err);
}

// Two images that share a lower layer, in a layout of the given name under the local folder.
static void make_layout(const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    struct kit_tar a = {0}, b = {0};
    add(&a, '0', "etc/one", "1", NULL);
    kit_tar_end(&a);
    add(&b, '0', "etc/two", "2", NULL);
    add(&b, '0', "etc/.wh.one", "", NULL);
    kit_tar_end(&b);
    const struct str layers[] = {sbuf_str(&a.bytes), sbuf_str(&b.bytes)};
    const struct kit_image first = {.layers = layers,
                                    .layers_len = 1,
                                    .gzip = true,
                                    .config = "{\"Cmd\":[\"x\"]}",
                                    .name = "v1"};
    const struct kit_image second = {
        .layers = layers, .layers_len = 2, .config = "{\"Cmd\":[\"y\"]}", .name = "v2"};
    sbuf_addf(&path, "%s/local", dir);
    (void)mkdir(path.p, 0755);
    sbuf_addf(&path, "/%s", name);
    kit_layout(path.p, &first);
    kit_layout(path.p, &second);
    sbuf_done(&a.bytes);
    sbuf_done(&b.bytes);
}

static bool is_used(void *arg, struct str id, struct str name)
{
    return arg && (str_eqz(id, arg) || str_eqz(name, arg));
}

// Removes all but those with an id or name.
static size_t remove_all_but(struct image_store *s, const char *used)
{
    const struct image_gc how = {
        .rules = {.all = true}, .used = is_used, .arg = (void *)(uintptr_t)used};
    struct image_freed freed;
    struct err err = {0};
    if (image_gc(s, &how, &freed, &err) < 0)
        fail_msg("%s", err.msg);
    return freed.removed;
}

static void count_image(void *arg, const struct image_info *info)
{
    (void)info;
    (*(size_t *)arg)++;
}

static void images_are_found_unpacked_and_removed(void **state)
{
    cleanup_arena struct arena a = {0};
    struct image_info one, two, again;
    struct err err = {0};
    size_t n = 0;
    (void)state;
    make_layout("app");
    struct image_store *s = open_store("store");
    assert_int_equal(image_find(s, STR("app:v1"), &a, &one, &err), -ERR_NOT_FOUND);
    assert_int_equal(get(s, "app:v1", RUNTIME_PULL_NEVER, &a, &one, &err), 0);
    assert_int_equal(get(s, "docker.io/library/app:v2", RUNTIME_PULL_NEVER, &a, &two, &err), 0);
    assert_int_equal(one.config.command.n, 1);
    assert_str(one.config.command.p[0], "x");
    assert_true(str_starts(one.name, STR("docker.io/library/app@sha256:")));
    int fd = open(two.rootfs.p, O_RDONLY | O_DIRECTORY);
    const struct root r = {.fd = fd};
    has_text(&r, "etc/two", "2");
    assert_false(there(&r, "etc/one"));
    (void)close(fd);
    assert_int_equal(get(s, "app:v3", RUNTIME_PULL_NEVER, &a, &again, &err), -ERR_NOT_FOUND);
    assert_int_equal(get(s, "App", RUNTIME_PULL_NEVER, &a, &again, &err), -ERR_BAD_REQUEST);
    kit_each_image(s, count_image, &n);
    assert_int_equal(n, 2);
    image_store_free(s);
    s = open_store("store"); // as it was
    assert_int_equal(image_find(s, STR("app:v1"), &a, &again, &err), 0);
    assert_true(str_eq(again.id, one.id));
    assert_int_equal(remove_all_but(s, one.id.p), 1);
    assert_int_equal(image_find(s, STR("app:v1"), &a, &again, &err), 0);
    assert_int_equal(image_find(s, STR("app:v2"), &a, &again, &err), -ERR_NOT_FOUND);
    assert_int_equal(remove_all_but(s, NULL), 1);
    assert_int_equal(image_find(s, STR("app:v1"), &a, &again, &err), -ERR_NOT_FOUND);
    image_store_free(s);
}

static void images_come_from_paths(void **state)
{
    cleanup_arena struct arena a = {0};
    struct image_info info, same;
    struct err err = {0};
    char reference[200];
    (void)state;
    make_layout("paths");
    struct image_store *s = open_store("store2");
    (void)snprintf(reference, sizeof(reference), "oci:%s/local/paths:v2", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_IF_NOT_PRESENT, &a, &info, &err), 0);
    // The same in an archive, as `tar` makes it.
    cleanup_sbuf struct sbuf command = {0};
    sbuf_addf(&command, "tar -C %s/local/paths -cf %s/local/archive.tar .", dir, dir);
    assert_int_equal(system(command.p), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
    (void)snprintf(reference, sizeof(reference), "oci-archive:%s/local/archive.tar:v2", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_IF_NOT_PRESENT, &a, &same, &err), 0);
    assert_true(str_eq(info.id, same.id));
    (void)snprintf(reference, sizeof(reference), "dir:%s/local/paths", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_IF_NOT_PRESENT, &a, &info, &err), 0);
    assert_true(str_ends(info.rootfs, STR("/local/paths")));
    (void)snprintf(reference, sizeof(reference), "dir:%s/local/none", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_ALWAYS, &a, &info, &err), -ERR_NOT_FOUND);
    (void)snprintf(reference, sizeof(reference), "oci:%s/local/none:v1", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_ALWAYS, &a, &info, &err), -ERR_NOT_FOUND);
    image_store_free(s);
}

static void write_below(const char *path, const char *text)
{
    cleanup_sbuf struct sbuf whole = {0};
    sbuf_addf(&whole, "%s/%s", dir, path);
    assert_int_equal(file_replace_atomic(AT_FDCWD, whole.p, str_z(text), 0644, NULL), 0);
}

// The code for a wrong name is for names alone: another makes a pod report InvalidImageName.
static void a_damaged_document_is_no_wrong_name(void **state)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf path = {0};
    struct image_info info;
    struct err err = {0};
    char reference[200];
    (void)state;
    make_layout("hurt");
    struct image_store *s = open_store("store-hurt");
    (void)snprintf(reference, sizeof(reference), "oci:%s/local/hurt:v1", dir);
    assert_int_equal(get(s, reference, RUNTIME_PULL_NEVER, &a, &info, &err), 0);
    sbuf_addf(&path, "store-hurt/unpacked/%.*s/config", STR_ARG(str_from(info.id, 7)));
    write_below(path.p, "no JSON");
    assert_int_equal(image_find(s, str_z(reference), &a, &info, &err), -ERR_INVALID);
    assert_int_equal(err.code, ERR_INVALID);
    write_below("local/hurt/index.json", "no JSON");
    assert_int_equal(get(s, reference, RUNTIME_PULL_ALWAYS, &a, &info, &err), -ERR_INVALID);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(get(s, "none:1", RUNTIME_PULL_NEVER, &a, &info, &err), -ERR_INVALID);
    image_store_free(s);
    sbuf_clear(&path);
    sbuf_addf(&path, "%s/local/hurt", dir);
    assert_int_equal(file_remove_tree(path.p, NULL), 0);
}

static void make_below(const char *path)
{
    cleanup_sbuf struct sbuf whole = {0};
    sbuf_addf(&whole, "%s/%s", dir, path);
    assert_int_equal(file_make_dirs(whole.p, 0755, NULL), 0);
}

// The folder of local images is the only one: not the machine, not beside it, not by dots or links.
static void paths_lead_to_local_images_alone(void **state)
{
    static const struct {
        const char *kind, *path; // below the test's folder, unless it begins with a slash
    } elsewhere[] = {
        {"dir", "/"},
        {"dir", "/etc"},
        {"dir", "/no/such/folder"},
        {"oci", "/no/such/layout"},
        {"oci-archive", "/etc/passwd"},
        {"docker-archive", "/etc/passwd"},
        {"dir", ""},
        {"dir", "local"},
        {"dir", "local/"},
        {"dir", "local2"},
        {"dir", "local/../outside"},
        {"dir", "local/.."},
        {"oci", "local/..:v1"},
        {"dir", "local/leads-out"},
        {"dir", "local/leads-out/inside"},
        {"oci", "local/leads-out:v1"},
    };
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf link = {0};
    struct image_info info;
    (void)state;
    make_layout("alone");
    make_below("outside/inside");
    make_below("local2");
    sbuf_addf(&link, "%s/local/leads-out", dir);
    assert_int_equal(symlink("../outside", link.p), 0);
    struct image_store *s = open_store("store-alone");
    for (size_t i = 0; i < array_len(elsewhere); i++) {
        struct err err = {0};
        bool whole = elsewhere[i].path[0] == '/';
        cleanup_sbuf struct sbuf reference = {0};
        sbuf_addf(&reference, "%s:%s%s%s", elsewhere[i].kind, whole ? "" : dir, whole ? "" : "/",
                  elsewhere[i].path);
        if (get(s, reference.p, RUNTIME_PULL_ALWAYS, &a, &info, &err) != -ERR_INVALID)
            fail_msg("%s is not refused: %s", reference.p, err.msg);
        assert_non_null(strstr(err.msg, "directory of local images"));
        // Nor by what an earlier program may have kept.
        assert_int_equal(image_find(s, sbuf_str(&reference), &a, &info, &err), -ERR_INVALID);
    }
    image_store_free(s);
    assert_int_equal(unlink(link.p), 0);
}

// What was a folder of local images when it was taken must still be one when it is used.
static void a_folder_that_is_no_local_image_any_more_is_not_used(void **state)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf path = {0}, reference = {0};
    struct image_info info;
    struct err err = {0};
    (void)state;
    make_below("local/turns");
    struct image_store *s = open_store("store-turns");
    sbuf_addf(&path, "%s/local/turns", dir);
    sbuf_addf(&reference, "dir:%s", path.p);
    assert_int_equal(get(s, reference.p, RUNTIME_PULL_NEVER, &a, &info, &err), 0);
    assert_int_equal(image_load(s, info.id, &a, &info, &err), 0);
    assert_int_equal(rmdir(path.p), 0);
    assert_int_equal(symlink("/", path.p), 0);
    assert_int_equal(image_load(s, info.id, &a, &info, &err), -ERR_NOT_FOUND);
    assert_int_equal(get(s, reference.p, RUNTIME_PULL_NEVER, &a, &info, &err), -ERR_INVALID);
    image_store_free(s);
    assert_int_equal(unlink(path.p), 0);
}

// docker save's form: names of files instead of digests, checked by the configuration's sums.
static void docker_archives_are_read(void **state)
{
    cleanup_arena struct arena a = {0};
    cleanup_sbuf struct sbuf config = {0}, path = {0};
    struct kit_tar layer = {0}, t = {0};
    struct image_info info;
    struct err err = {0};
    char digest[80], reference[200];
    (void)state;
    add(&layer, '0', "file", "docker", NULL);
    kit_tar_end(&layer);
    kit_digest(sbuf_str(&layer.bytes), digest);
    sbuf_addf(&config, "{\"config\":{\"Cmd\":[\"z\"]},\"rootfs\":{\"diff_ids\":[\"%s\"]}}", digest);
    kit_tar_add(&t, '0', "config.json", 0644, sbuf_str(&config), NULL);
    kit_tar_add(&t, '0', "abc/layer.tar", 0644, sbuf_str(&layer.bytes), NULL);
    kit_tar_add(&t, '2', "def/layer.tar", 0777, STR(""), "../abc/layer.tar");
    add(&t, '0', "manifest.json",
        "[{\"Config\":\"config.json\",\"RepoTags\":[\"saved:1\"],\"Layers\":[\"def/layer.tar\"]}]",
        NULL);
    kit_tar_end(&t);
    make_below("local");
    sbuf_addf(&path, "%s/local/saved.tar", dir);
    kit_write(path.p, sbuf_str(&t.bytes));
    struct image_store *s = open_store("store3");
    (void)snprintf(reference, sizeof(reference), "docker-archive:%s", path.p);
    if (get(s, reference, RUNTIME_PULL_IF_NOT_PRESENT, &a, &info, &err) < 0)
        fail_msg("%s", err.msg);
    cleanup_fd int fd = open(info.rootfs.p, O_RDONLY | O_DIRECTORY);
    const struct root r = {.fd = fd};
    has_text(&r, "file", "docker");
    image_store_free(s);
    sbuf_done(&layer.bytes);
    sbuf_done(&t.bytes);
}

// Changes one byte of every blob in turn: no image comes of it, and nothing is left.
static void every_sum_is_checked(void **state)
{
    cleanup_sbuf struct sbuf command = {0}, blobs = {0};
    char reference[200];
    (void)state;
    make_layout("sums");
    sbuf_addf(&blobs, "%s/local/sums/blobs/sha256", dir);
    int folder = open(blobs.p, O_RDONLY | O_DIRECTORY);
    cleanup_sbuf struct sbuf listing = {0}, list_path = {0};
    sbuf_addf(&list_path, "%s/list", dir);
    sbuf_addf(&command, "ls %s > %s", blobs.p, list_path.p);
    assert_int_equal(system(command.p), 0); // NOLINT(concurrency-mt-unsafe,cert-env33-c): a test
    read_file(list_path.p, &listing);
    struct str rest = sbuf_str(&listing), name;
    size_t tried = 0, refused = 0;
    (void)snprintf(reference, sizeof(reference), "oci:%s/local/sums:v2", dir);
    while (rest.n > 0) {
        cleanup_arena struct arena a = {0};
        struct image_info info;
        struct err err = {0};
        char z[80], byte, changed;
        (void)str_cut(rest, '\n', &name, &rest);
        (void)snprintf(z, sizeof(z), "%.*s", STR_ARG(name));
        int fd = openat(folder, z, O_RDWR);
        assert_int_equal(pread(fd, &byte, 1, 20), 1);
        changed = (char)(byte ^ 1);
        assert_int_equal(pwrite(fd, &changed, 1, 20), 1);
        struct image_store *s = open_store("store4");
        int rc = get(s, reference, RUNTIME_PULL_ALWAYS, &a, &info, &err);
        size_t n = 0;
        kit_each_image(s, count_image, &n);
        if (rc < 0) {
            assert_int_equal(n, 0);
            refused++;
        } else {
            (void)remove_all_but(s, NULL);
        }
        image_store_free(s);
        assert_int_equal(pwrite(fd, &byte, 1, 20), 1);
        (void)close(fd);
        tried++;
    }
    (void)close(folder);
    // v2 has a manifest, a configuration and two layers; v1's own three blobs do not matter to it.
    assert_int_equal(tried, 7);
    assert_int_equal(refused, 4);
}

static void a_gzip_bomb_is_bounded(void **state)
{
    cleanup_sbuf struct sbuf zeros = {0}, packed = {0}, path = {0};
    struct image_blob *b;
    struct err err = {0};
    char buf[4096];
    (void)state;
    sbuf_add_repeat(&zeros, '\0', (size_t)8 << 20);
    kit_gzip(sbuf_str(&zeros), &packed);
    assert_true(packed.n < (size_t)64 << 10);
    sbuf_addf(&path, "%s/bomb", dir);
    kit_write(path.p, sbuf_str(&packed));
    int fd = open(path.p, O_RDONLY);
    const struct image_blob_options o = {
        .place = {fd, 0, packed.n}, .compression = IMAGE_GZIP, .max_bytes = (uint64_t)1 << 20};
    assert_int_equal(image_blob_new(&o, &b, &err), 0);
    ssize_t n;
    do
        n = image_blob_read(b, buf, sizeof(buf), &err);
    while (n > 0);
    assert_int_equal(n, -ERR_TOO_LARGE);
    image_blob_free(b);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_CASE(archives_are_read),
        TEST_CASE(damaged_archives_are_refused),
        TEST_CASE(layers_lie_over_each_other),
        TEST_CASE(modes_do_not_depend_on_the_umask),
        TEST_CASE(an_opaque_folder_hides_what_is_below_it),
        TEST_CASE(names_cannot_leave_the_root),
        TEST_CASE(links_cannot_lead_out),
        TEST_CASE(what_is_written_through_a_link_stays_inside),
        TEST_CASE(hard_links_cannot_lead_out),
        TEST_CASE(whiteouts_remove_nothing_outside),
        TEST_CASE(device_nodes_are_not_made),
        TEST_CASE(an_image_is_bounded),
        TEST_CASE(no_tree_is_too_deep_to_remove),
        TEST_CASE(references_are_completed),
        TEST_CASE(documents_are_read_and_checked),
        TEST_CASE(images_are_found_unpacked_and_removed),
        TEST_CASE(images_come_from_paths),
        TEST_CASE(a_damaged_document_is_no_wrong_name),
        TEST_CASE(paths_lead_to_local_images_alone),
        TEST_CASE(a_folder_that_is_no_local_image_any_more_is_not_used),
        TEST_CASE(docker_archives_are_read),
        TEST_CASE(every_sum_is_checked),
        TEST_CASE(a_gzip_bomb_is_bounded),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}

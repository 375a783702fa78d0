// SPDX-License-Identifier: Apache-2.0
//
// Layers of images, unpacked for real over a small lower layer, in memory. The first byte says: compressed with gzip
// or not, and how many bytes a read gives. Laws: nothing outside the root is touched, whatever the layer says; it
// comes to an end within its bounds; what was made can be removed again.
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include "fuzz.h"
#include "node/image/image_blob.h"
#include "node/image/image_unpack.h"
#include "os/file.h"

#include "base/banned.h"

static int top = -1;
static char path[64];

static void remove_top(void)
{
    (void)file_remove_tree(path, NULL);
}

// A folder with the root in it and a file beside it, which must stay as it is.
static void make_top(void)
{
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(path, sizeof(path), "%s/fuzz-layer-XXXXXX", where);
    const char *made = mkdtemp(path);
    assert(made);
    top = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(top >= 0);
    int rc = file_replace_atomic(top, "canary", STR("alive"), 0644, NULL);
    assert(rc == 0);
    (void)atexit(remove_top);
}

static void check_top(void)
{
    cleanup_sbuf struct sbuf text = {0};
    struct stat st;
    size_t n = 0;
    int rc = file_read_at(top, "canary", 100, &text);
    assert(rc == 0 && str_eq(sbuf_str(&text), STR("alive")));
    rc = fstatat(top, "canary", &st, AT_SYMLINK_NOFOLLOW);
    assert(rc == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0644);
    DIR *d = fdopendir(openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    assert(d);
    while (readdir(d)) // NOLINT(concurrency-mt-unsafe): one thread
        n++;
    (void)closedir(d);
    assert(n == 4); // . .. canary root
}

static void make_lower(int root)
{
    (void)mkdirat(root, "usr", 0755);
    (void)mkdirat(root, "usr/lib", 0755);
    if (symlinkat("/usr/lib", root, "lib") < 0 || symlinkat("../..", root, "out") < 0 ||
        symlinkat("loop", root, "loop") < 0)
        abort();
    (void)!file_replace_atomic(root, "file", STR("lower"), 0644, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_blob *b;
    struct tar_reader r;
    struct unpack u;
    struct err err = {0};
    if (size == 0)
        return 0;
    if (top < 0)
        make_top();
    int fd = memfd_create("layer", MFD_CLOEXEC);
    ssize_t n = write(fd, data + 1, size - 1);
    assert(fd >= 0 && n == (ssize_t)size - 1);
    int rc = mkdirat(top, "root", 0755);
    int root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert(rc == 0 && root >= 0);
    make_lower(root);
    const struct image_blob_options o = {.place = {fd, 0, size - 1},
                                         .compression = data[0] & 1 ? IMAGE_GZIP : IMAGE_PLAIN,
                                         .max_bytes = (uint64_t)4 << 20};
    rc = image_blob_new(&o, &b, &err);
    assert(rc == 0);
    tar_reader_init(&r, image_blob_read, b);
    image_unpack_init(&u, root);
    u.bytes_left = (uint64_t)1 << 20;
    u.entries_left = 256;
    u.keep_owners = false;
    rc = image_unpack_layer(&u, &r, &err);
    assert(rc == 0 || err.msg[0]);
    tar_reader_done(&r);
    image_blob_free(b);
    (void)close(root);
    (void)close(fd);
    check_top();
    rc = file_remove_tree_at(top, "root");
    assert(rc == 0);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// Sets of files that change all at once, and the removal of trees that others have written to.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/map.h"
#include "base/rand.h"
#include "node/volume/volume.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

#define DATA     "..data"
#define DATA_TMP "..data_tmp"

// Nesting of folders that are counted; sets of files have no deeper ones.
#define TREE_DEPTH_MAX 512

// --- Directories ---------------------------------------------------------------------------------

int volume_make_directory(const char *path, uint32_t mode, struct err *err)
{
    cleanup_sbuf struct sbuf part = {0};
    struct str rest = str_z(path);
    while (rest.n > 0) {
        struct str name;
        (void)str_cut(rest, '/', &name, &rest);
        sbuf_add(&part, name);
        int r = name.n > 0 ? file_make_dir_at(AT_FDCWD, part.p, rest.n ? 0750 : mode) : 0;
        if (r < 0 && r != -EEXIST)
            return err_set(err, -r, "mkdir %s: %s", part.p, strerrordesc_np(-r));
        sbuf_addc(&part, '/');
    }
    return 0;
}

int volume_remove_tree(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return errno == ENOENT ? 0 : err_set(err, errno, "%s: %s", path, strerrordesc_np(errno));
    int r = S_ISDIR(st.st_mode) ? file_remove_tree(path, NULL) : -ENOTDIR;
    if (r == -EXDEV)
        return err_set(err, EXDEV, "%s: something is still mounted below", path);
    return r < 0 ? err_set(err, -r, "removing %s: %s", path, strerrordesc_np(-r)) : 0;
}

// --- Sets of files -------------------------------------------------------------------------------

static bool volume_files_path_is_safe(struct str path)
{
    struct str rest = path;
    if (path.n == 0 || path.p[0] == '/' || str_starts(path, STR("..")))
        return false;
    while (rest.n > 0) {
        struct str part;
        (void)str_cut(rest, '/', &part, &rest);
        if (part.n == 0 || str_eqz(part, ".") || str_eqz(part, "..") ||
            memchr(part.p, '\0', part.n))
            return false;
    }
    return true;
}

static bool volume_files_same_file(int dir, const struct volume_file *f, const char *path)
{
    struct stat st;
    int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool same = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                (size_t)st.st_size == f->bytes.n && (st.st_mode & 07777) == f->mode;
    char block[4096];
    for (size_t at = 0; same && at < f->bytes.n;) {
        ssize_t n = read(fd, block, sizeof(block));
        same =
            n > 0 && at + (size_t)n <= f->bytes.n && memcmp(block, f->bytes.p + at, (size_t)n) == 0;
        at += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return same;
}

// How many files there are below an open folder.
static size_t volume_files_count_files(int dir, unsigned depth)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 || depth > TREE_DEPTH_MAX ? NULL : fdopendir(copy);
    size_t n = 0;
    if (!d) {
        if (copy >= 0)
            (void)close(copy);
        return SIZE_MAX / 2;
    }
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while ((e = readdir(d))) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        int sub = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        n += sub >= 0 ? volume_files_count_files(sub, depth + 1) : 1;
        if (sub >= 0)
            (void)close(sub);
    }
    (void)closedir(d);
    return n;
}

static bool volume_files_is_current(int dir, const struct volume_files *files)
{
    int data = openat(dir, DATA, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data < 0)
        return false;
    bool same = volume_files_count_files(data, 0) == files->n;
    for (size_t i = 0; same && i < files->n; i++) {
        char *path = xstrndup(files->p[i].path.p, files->p[i].path.n);
        same = volume_files_same_file(data, &files->p[i], path);
        free(path);
    }
    (void)close(data);
    return same;
}

static int volume_files_write_one(int dir, const struct volume_file *f, int64_t group)
{
    cleanup_sbuf struct sbuf path = {0};
    struct str rest = f->path, part;
    while (str_cut(rest, '/', &part, &rest)) { // folders on the way
        sbuf_add(&path, part);
        int made = file_make_dir_at(dir, path.p, 0755);
        if (made < 0 && made != -EEXIST)
            return made;
        sbuf_addc(&path, '/');
    }
    sbuf_add(&path, part);
    int fd = openat(dir, path.p, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno == EEXIST ? 0 : -errno; // the same path twice: the first counts
    int r = 0;
    for (size_t at = 0; r == 0 && at < f->bytes.n;) {
        ssize_t n = write(fd, f->bytes.p + at, f->bytes.n - at);
        if (n < 0 && errno != EINTR)
            r = -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    if (r == 0 && group >= 0 && fchown(fd, (uid_t)-1, (gid_t)group) != 0 && errno != EPERM)
        r = -errno;
    if (r == 0 && fchmod(fd, f->mode) != 0)
        r = -errno;
    (void)close(fd);
    return r;
}

static int volume_files_write_set(int dir, const char *name, const struct volume_files *files,
                                  int64_t group)
{
    int r = file_make_dir_at(dir, name, 0755);
    if (r < 0)
        return r;
    int set = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = set < 0 ? -errno : 0;
    for (size_t i = 0; r == 0 && i < files->n; i++)
        r = volume_files_write_one(set, &files->p[i], group);
    if (set >= 0)
        (void)close(set);
    return r;
}

// Names in the folder that lead into the set, and nothing else.
static int volume_files_link_names(int dir, const struct volume_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        struct str head, tail;
        (void)str_cut(files->p[i].path, '/', &head, &tail);
        cleanup_sbuf struct sbuf to = {0}, name = {0};
        sbuf_addf(&to, DATA "/%.*s", STR_ARG(head));
        sbuf_add(&name, head);
        if (symlinkat(to.p, dir, name.p) != 0 && errno != EEXIST)
            return -errno;
    }
    return 0;
}

struct heads MAP(bool);

static void volume_files_collect_heads(const struct volume_files *files, struct heads *out)
{
    for (size_t i = 0; i < files->n; i++) {
        struct str head, tail;
        (void)str_cut(files->p[i].path, '/', &head, &tail);
        *map_put(out, head) = true;
    }
}

static int volume_files_remove_others(int dir, const struct volume_files *files, const char *set)
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d)
        return -errno;
    struct heads heads = {0};
    int r = 0;
    volume_files_collect_heads(files, &heads);
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while (r == 0 && (e = readdir(d))) {
        const char *n = e->d_name;
        if (strcmp(n, ".") != 0 && strcmp(n, "..") != 0 && strcmp(n, DATA) != 0 &&
            strcmp(n, set) != 0 && !map_has(&heads, str_z(n)))
            r = file_remove_tree_at(dir, n);
    }
    (void)closedir(d);
    map_done(&heads);
    return r;
}

static int volume_files_replace_set(int dir, const struct volume_files *files, int64_t group)
{
    char set[32];
    (void)snprintf(set, sizeof(set), "..set_%016llx", (unsigned long long)rng_u64(rng_system()));
    fault_point("volume files");
    int r = volume_files_write_set(dir, set, files, group);
    if (r == 0 && unlinkat(dir, DATA_TMP, 0) != 0 && errno != ENOENT)
        r = -errno;
    if (r == 0 && symlinkat(set, dir, DATA_TMP) != 0)
        r = -errno;
    fault_point("volume data link");
    if (r == 0 && renameat(dir, DATA_TMP, dir, DATA) != 0)
        r = -errno;
    fault_point("volume links");
    if (r == 0)
        r = volume_files_link_names(dir, files);
    return r == 0 ? volume_files_remove_others(dir, files, set) : r;
}

// volume_files_finish_links finishes what a crash may have left undone behind files that are right.
static int volume_files_finish_links(int dir, const struct volume_files *files)
{
    char set[64];
    ssize_t n = readlinkat(dir, DATA, set, sizeof(set) - 1);
    if (n < 0)
        return -errno;
    set[n] = '\0';
    int r = volume_files_link_names(dir, files);
    return r == 0 ? volume_files_remove_others(dir, files, set) : r;
}

int volume_files_write(const char *folder, const struct volume_files *files, int64_t group,
                       struct err *err)
{
    for (size_t i = 0; i < files->n; i++)
        if (!volume_files_path_is_safe(files->p[i].path))
            return err_set(err, ERR_INVALID, "the path %.*s leaves the volume",
                           STR_ARG(files->p[i].path));
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_set(err, errno, "%s: %s", folder, strerrordesc_np(errno));
    bool current = volume_files_is_current(dir, files);
    int r = current ? volume_files_finish_links(dir, files)
                    : volume_files_replace_set(dir, files, group);
    (void)close(dir);
    return r < 0 ? err_set(err, -r, "%s: %s", folder, strerrordesc_np(-r)) : current;
}

// SPDX-License-Identifier: Apache-2.0
//
// A file is replaced by way of a temporary file in the same directory, made under a name that no
// other writer has, filled, and renamed. The fault points are the moments at which a crash or a
// failing disk makes a difference: before the temporary file exists, in the middle of its content,
// before each sync and before the rename.
#include "os/file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/mem.h"
#include "base/rand.h"
#include "os/fault.h"

#include "base/banned.h"

enum {
    CHUNK_BYTES = 65536,
    STEM_BYTES_MAX = 200, // of the target's name in the temporary one, which must fit NAME_MAX
    NAME_TRIES = 100,
};

#define TEMPORARY_END ".tmp"

void fd_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

static int file_failed(const char *doing, const char *path, int code, struct err *err)
{
    return err_set(err, -code, "cannot %s %s: %s", doing, path, strerrordesc_np(-code));
}

// --- Reading -------------------------------------------------------------------------------------

int file_read_fd(int fd, size_t max, struct sbuf *out)
{
    size_t start = out->n;
    while (true) {
        ssize_t n = read(fd, sbuf_space(out, CHUNK_BYTES), CHUNK_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        sbuf_commit(out, (size_t)n);
        if (out->n - start > max)
            return -ERR_TOO_LARGE;
    }
}

int file_read_at(int dir, const char *name, size_t max, struct sbuf *out)
{
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : file_read_fd(fd, max, out);
}

int file_read(const char *path, size_t max, struct sbuf *out, struct err *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int r = fd < 0 ? -errno : file_read_fd(fd, max, out);
    if (r == -ERR_TOO_LARGE)
        return err_set(err, ERR_TOO_LARGE, "%s is larger than %zu bytes", path, max);
    return r < 0 ? file_failed("read", path, r, err) : 0;
}

// --- Writing -------------------------------------------------------------------------------------

// file_write_fd writes all of bytes to an open file. Returns 0 or -errno.
static int file_write_fd(int fd, struct str bytes)
{
    while (bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        bytes = str_from(bytes, (size_t)n);
    }
    return 0;
}

__attribute__((noinline)) static int file_copy_buffered(int from, int to)
{
    char buf[CHUNK_BYTES];
    while (true) {
        ssize_t n = read(from, buf, sizeof(buf));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        int r = file_write_fd(to, str_make(buf, (size_t)n));
        if (r < 0)
            return r;
    }
}

int file_copy_fd(int from, int to)
{
    while (true) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);
        if (n == 0)
            return 0;
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP || errno == ENOSYS))
            return file_copy_buffered(from, to);
        if (n < 0 && errno != EINTR)
            return -errno;
    }
}

// Under a hook, the point lies in the middle of the content.
static int file_fill(int fd, struct str bytes)
{
    size_t first = fault_armed() ? bytes.n / 2 : 0;
    int r = file_write_fd(fd, str_upto(bytes, first));
    if (r == 0)
        r = fault_point("file: write");
    return r == 0 ? file_write_fd(fd, str_from(bytes, first)) : r;
}

// Where the last part of a path begins.
static size_t file_name_start(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash + 1 - path) : 0;
}

static int file_sync_directory(int dir, const char *name)
{
    size_t n = file_name_start(name);
    cleanup_free char *above = n ? xstrndup(name, n) : xstrndup(".", 1);
    int r = fault_point("file: sync directory");
    if (r < 0)
        return r;
    cleanup_fd int fd = openat(dir, above, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    return fsync(fd) == 0 || errno == EINVAL ? 0 : -errno; // EINVAL: nothing to sync on this one
}

// Makes the temporary file, ".NAME.xxxxxxxx.tmp". Returns its descriptor or -errno. The random part
// keeps writers apart; O_EXCL keeps off a file that another user put there.
static int file_open_temporary(int dir, const char *name, struct sbuf *ret)
{
    size_t n = file_name_start(name);
    int fd = fault_point("file: create");
    if (fd < 0)
        return fd;
    for (int i = 0; i < NAME_TRIES; i++) {
        sbuf_clear(ret);
        sbuf_addf(ret, "%.*s.%.*s.%08x" TEMPORARY_END, (int)n, name, STEM_BYTES_MAX, name + n,
                  (unsigned)(rng_u64(rng_system()) & UINT32_MAX));
        fd = openat(dir, ret->p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    return fd < 0 ? -errno : fd;
}

// What a file is replaced by: bytes, or the rest of an open file.
struct file_source {
    struct str bytes;
    int fd; // -1: bytes
    mode_t mode;
    bool durable;
};

static int file_fill_temporary(int fd, const struct file_source *s)
{
    int r = s->fd >= 0 ? file_copy_fd(s->fd, fd) : file_fill(fd, s->bytes);
    if (r == 0 && s->mode != 0600 && fchmod(fd, s->mode) != 0)
        r = -errno;
    if (r == 0 && s->durable)
        r = fault_point("file: sync");
    if (r == 0 && s->durable && fsync(fd) != 0)
        r = -errno;
    if (close(fd) != 0 && r == 0)
        r = -errno;
    return r;
}

static int file_replace(int dir, const char *name, const struct file_source *s, struct err *err)
{
    cleanup_sbuf struct sbuf temporary = {0};
    int fd = file_open_temporary(dir, name, &temporary);
    if (fd < 0)
        return file_failed("write", name, fd, err);
    int r = file_fill_temporary(fd, s);
    if (r == 0)
        r = fault_point("file: rename");
    if (r == 0 && renameat(dir, temporary.p, dir, name) != 0)
        r = -errno;
    if (r < 0)
        (void)unlinkat(dir, temporary.p, 0);
    else if (s->durable)
        r = file_sync_directory(dir, name);
    return r < 0 ? file_failed("write", name, r, err) : 0;
}

int file_replace_durable(int dir, const char *name, struct str bytes, mode_t mode, struct err *err)
{
    const struct file_source s = {.bytes = bytes, .fd = -1, .mode = mode, .durable = true};
    return file_replace(dir, name, &s, err);
}

int file_replace_atomic(int dir, const char *name, struct str bytes, mode_t mode, struct err *err)
{
    const struct file_source s = {.bytes = bytes, .fd = -1, .mode = mode};
    return file_replace(dir, name, &s, err);
}

int file_copy_durable(int from, int dir, const char *name, mode_t mode, struct err *err)
{
    const struct file_source s = {.fd = from, .mode = mode, .durable = true};
    return file_replace(dir, name, &s, err);
}

int file_ensure_atomic(int dir, const char *name, struct str bytes, mode_t mode, struct err *err)
{
    cleanup_sbuf struct sbuf now = {0};
    if (file_read_at(dir, name, bytes.n, &now) == 0 && str_eq(sbuf_str(&now), bytes))
        return 0;
    return file_replace_atomic(dir, name, bytes, mode, err);
}

static int file_append_bytes(const char *path, struct str bytes, bool durable, struct err *err)
{
    int r = fault_point("file: open for appending");
    int fd = r < 0 ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return file_failed("open", path, r < 0 ? r : -errno, err);
    r = file_fill(fd, bytes);
    if (r == 0 && durable)
        r = fault_point("file: sync");
    if (r == 0 && durable && fdatasync(fd) != 0)
        r = -errno;
    if (close(fd) != 0 && r == 0)
        r = -errno;
    if (r == 0 && durable)
        r = file_sync_directory(AT_FDCWD, path);
    return r < 0 ? file_failed("write", path, r, err) : 0;
}

int file_append(const char *path, struct str bytes, struct err *err)
{
    return file_append_bytes(path, bytes, false, err);
}

int file_append_durable(const char *path, struct str bytes, struct err *err)
{
    return file_append_bytes(path, bytes, true, err);
}

// --- Removing, directories -----------------------------------------------------------------------

int file_remove(const char *path, struct err *err)
{
    int r = fault_point("file: remove");
    if (r == 0 && unlink(path) != 0 && errno != ENOENT)
        r = -errno;
    return r < 0 ? file_failed("remove", path, r, err) : 0;
}

// ".PREFIX….xxxxxxxx.tmp"
static bool file_is_temporary(struct str name, struct str prefix)
{
    size_t end = strlen(".01234567" TEMPORARY_END);
    return name.n > end && name.p[0] == '.' && name.p[name.n - end] == '.' &&
           str_starts(str_from(name, 1), prefix) && str_ends(name, STR(TEMPORARY_END));
}

void file_remove_temporaries(const char *dir, struct str prefix)
{
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = file_next_entry(d));)
        if (file_is_temporary(str_z(e->d_name), prefix))
            (void)unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        (void)closedir(d);
}

int file_make_dir_at(int dir, const char *name, mode_t mode)
{
    if (mkdirat(dir, name, mode) != 0)
        return -errno;
    cleanup_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fchmod(fd, mode) != 0 ? -errno : 0;
}

int file_make_dirs(const char *path, mode_t mode, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    int r = fault_point("directory: create");
    if (r < 0)
        return file_failed("make the directory", path, r, err);
    cleanup_free char *part = xstrndup(path, strlen(path));
    for (char *at = part + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)file_make_dir_at(AT_FDCWD, part, mode); // making the last one fails if this did
        *at = '/';
    }
    r = file_make_dir_at(AT_FDCWD, part, mode);
    if (r == -EEXIST && stat(path, &st) == 0)
        r = S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
    return r < 0 ? file_failed("make the directory", path, r, err) : 0;
}

const struct dirent *file_next_entry(DIR *dir)
{
    while (true) {
        const struct dirent *e = readdir(dir); // NOLINT(concurrency-mt-unsafe): the caller's stream
        if (!e || (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0))
            return e;
    }
}

struct file_stamp file_take_stamp(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return (struct file_stamp){0};
    return (struct file_stamp){.device = st.st_dev,
                               .inode = st.st_ino,
                               .size = st.st_size,
                               .changed_ns =
                                   (int64_t)st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec};
}

bool file_stamp_same(const struct file_stamp *a, const struct file_stamp *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}

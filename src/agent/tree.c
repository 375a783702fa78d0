// SPDX-License-Identifier: Apache-2.0
#include "agent/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "base/vec.h"

#include "base/banned.h"

#define DEPTH_MAX 64 // of recursion; what lies deeper is moved up first

void tree_close(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

int tree_open_in(int root, const char *path, int flags)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    int tries = 0;
    long fd;
    while (*path == '/')
        path++;
    do // EAGAIN: something was renamed meanwhile, and the kernel cannot tell whether we left
        fd = syscall(SYS_openat2, root, *path ? path : ".", &how, sizeof(how));
    while (fd < 0 && errno == EAGAIN && ++tries < 100);
    return fd < 0 ? -errno : (int)fd;
}

// --- Removing ------------------------------------------------------------------------------------

struct removal {
    int top; // where deep folders are moved to
    dev_t device;
    unsigned long next; // number of the next one
    int failed;
};

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static void remove_at(struct removal *r, int folder, const char *name, int depth);

static void remove_content(struct removal *r, int folder, int depth)
{
    DIR *d = fdopendir(folder); // takes it
    struct dirent *e;
    if (!d) {
        r->failed = errno;
        (void)close(folder);
        return;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while ((e = readdir(d)))
        if (!is_dots(e->d_name))
            remove_at(r, dirfd(d), e->d_name, depth);
    (void)closedir(d);
}

static void remove_at(struct removal *r, int folder, const char *name, int depth)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return;
    if (errno != EISDIR && errno != EPERM) {
        r->failed = errno;
        return;
    }
    if (depth >= DEPTH_MAX) {
        char moved[48];
        (void)snprintf(moved, sizeof(moved), ".deep-%d-%lu", (int)getpid(), r->next++);
        if (renameat(folder, name, r->top, moved) == 0)
            return; // found there later
    }
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_dev != r->device) {
        r->failed = fd < 0 ? errno : EXDEV;
        tree_close(&fd);
        return;
    }
    remove_content(r, fd, depth + 1);
    if (unlinkat(folder, name, AT_REMOVEDIR) != 0 && errno != ENOENT)
        r->failed = errno;
}

int tree_remove_at(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    struct stat st;
    bool below = folder != AT_FDCWD && fstat(folder, &st) == 0;
    dev_t device = below ? st.st_dev : 0;
    unsigned long moved = 0;
    while (true) {
        struct removal r = {.next = moved};
        r.top = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (r.top < 0)
            return errno == ENOENT ? 0 : -errno;
        if (fstat(r.top, &st) != 0 || (below && st.st_dev != device)) {
            (void)close(r.top);
            return -EXDEV;
        }
        r.device = st.st_dev;
        int content = openat(r.top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (content >= 0)
            remove_content(&r, content, 0);
        else
            r.failed = errno;
        (void)close(r.top);
        if (unlinkat(folder, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return 0;
        if (r.failed || r.next == moved) // nothing was moved up, so nothing will change
            return r.failed ? -r.failed : -errno;
        moved = r.next;
    }
}

int tree_remove_path(const char *path)
{
    return tree_remove_at(AT_FDCWD, path);
}

// --- Copying -------------------------------------------------------------------------------------

__attribute__((noinline)) static int copy_data(int from, int to)
{
    while (true) {
        ssize_t n = copy_file_range(from, NULL, to, NULL, (size_t)1 << 30, 0);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
            return -errno;
        if (n < 0)
            break;
    }
    char buf[65536];
    while (true) {
        ssize_t n = read(from, buf, sizeof(buf));
        if (n == 0)
            return 0;
        if (n < 0)
            return -errno;
        for (ssize_t at = 0; at < n;) {
            ssize_t w = write(to, buf + at, (size_t)(n - at));
            if (w < 0)
                return -errno;
            at += w;
        }
    }
}

__attribute__((noinline)) static void copy_attributes(int from, int to)
{
    char names[4096], value[65536];
    ssize_t n = flistxattr(from, names, sizeof(names));
    for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
        struct str name = str_z(names + at);
        if (!str_starts(name, STR("user.")) && !str_eq(name, STR("security.capability")))
            continue;
        ssize_t size = fgetxattr(from, name.p, value, sizeof(value));
        if (size >= 0)
            (void)fsetxattr(to, name.p, value, (size_t)size, 0);
    }
}

static int copy_node(int from, int to, const char *name, const struct stat *st);

static int copy_content(int from, int to)
{
    DIR *d = fdopendir(dup(from));
    struct dirent *e;
    struct stat st;
    int rc = 0;
    if (!d)
        return -errno;
    rewinddir(d);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (rc == 0 && (e = readdir(d))) {
        if (is_dots(e->d_name))
            continue;
        rc = fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0
                 ? copy_node(from, to, e->d_name, &st)
                 : -errno;
    }
    (void)closedir(d);
    return rc;
}

static int copy_opened(int from, int to, const struct stat *st)
{
    int rc = S_ISDIR(st->st_mode) ? copy_content(from, to) : copy_data(from, to);
    if (rc == 0 &&
        (fchown(to, st->st_uid, st->st_gid) != 0 || fchmod(to, st->st_mode & 07777) != 0))
        rc = -errno;
    copy_attributes(from, to);
    (void)futimens(to, (const struct timespec[2]){st->st_atim, st->st_mtim});
    return rc;
}

static int copy_link(int from, int to, const char *name, const struct stat *st)
{
    char target[4097];
    ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);
    if (n < 0)
        return -errno;
    target[n] = '\0';
    if (symlinkat(target, to, name) != 0)
        return -errno;
    (void)!fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW);
    return 0;
}

static int copy_node(int from, int to, const char *name, const struct stat *st)
{
    if (S_ISLNK(st->st_mode))
        return copy_link(from, to, name, st);
    if (!S_ISDIR(st->st_mode) && !S_ISREG(st->st_mode))
        return 0;
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (S_ISDIR(st->st_mode) ? O_DIRECTORY : 0);
    cleanup_fd int in = openat(from, name, flags);
    if (in < 0)
        return -errno;
    if (S_ISDIR(st->st_mode) && mkdirat(to, name, 0700) != 0)
        return -errno;
    cleanup_fd int out = S_ISDIR(st->st_mode)
                             ? openat(to, name, flags)
                             : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return out < 0 ? -errno : copy_opened(in, out, st);
}

int tree_copy_all(int from, int to, struct err *err)
{
    struct stat st;
    int rc = fstat(from, &st) == 0 ? copy_opened(from, to, &st) : -errno;
    return rc < 0 ? err_set(err, -rc, "cannot copy a root file system: %s", strerrordesc_np(-rc))
                  : 0;
}

// --- Small things --------------------------------------------------------------------------------

int tree_mkdir_at(int folder, const char *name, unsigned mode)
{
    if (mkdirat(folder, name, mode) != 0)
        return -errno;
    cleanup_fd int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 || fchmod(fd, mode) != 0 ? -errno : 0;
}

int tree_make(const char *path, unsigned mode)
{
    cleanup_free char *copy = xstrndup(path, strlen(path));
    for (char *at = copy + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)tree_mkdir_at(AT_FDCWD, copy, mode); // the last one tells whether it worked
        *at = '/';
    }
    int rc = tree_mkdir_at(AT_FDCWD, copy, mode);
    return rc == -EEXIST ? 0 : rc;
}

static int read_all(int fd, size_t max, struct sbuf *out)
{
    size_t start = out->n;
    while (true) {
        ssize_t n = read(fd, sbuf_space(out, 65536), 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : 0;
        sbuf_commit(out, (size_t)n);
        if (out->n - start > max)
            return -ERR_TOO_LARGE;
    }
}

int tree_read(int folder, const char *name, size_t max, struct sbuf *out)
{
    cleanup_fd int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? -errno : read_all(fd, max, out);
}

int tree_write_file(int folder, const char *name, struct str bytes)
{
    cleanup_sbuf struct sbuf temporary = {0};
    sbuf_addf(&temporary, ".%s.tmp", name);
    int fd =
        openat(folder, temporary.p, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    int rc = fd < 0 || fchmod(fd, 0644) != 0 ? -errno : 0;
    while (rc == 0 && bytes.n > 0) {
        ssize_t n = write(fd, bytes.p, bytes.n);
        if (n < 0 && errno != EINTR)
            rc = -errno;
        bytes = str_from(bytes, n > 0 ? (size_t)n : 0);
    }
    if (fd >= 0)
        (void)close(fd);
    if (rc == 0 && renameat(folder, temporary.p, folder, name) != 0)
        rc = -errno;
    if (rc < 0 && fd >= 0)
        (void)unlinkat(folder, temporary.p, 0);
    return rc;
}

// mountinfo writes blanks and the like as \ooo.
static void add_unescaped(struct sbuf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        bool escape = s.p[i] == '\\' && i + 3 < s.n + 0 && s.p[i + 1] >= '0' && s.p[i + 1] <= '3';
        if (!escape) {
            sbuf_addc(out, s.p[i]);
            continue;
        }
        sbuf_addc(out,
                  (char)((s.p[i + 1] - '0') << 6 | (s.p[i + 2] - '0') << 3 | (s.p[i + 3] - '0')));
        i += 3;
    }
}

void tree_unmount(const char *path)
{
    cleanup_sbuf struct sbuf text = {0};
    struct paths VEC(char *) found = {0};
    struct str top = str_z(path);
    int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)read_all(fd, (size_t)64 << 20, &text);
    (void)close(fd);
    struct str rest = sbuf_str(&text), line, field;
    while (rest.n > 0) {
        struct sbuf at = {0};
        (void)str_cut(rest, '\n', &line, &rest);
        for (int i = 0; i < 5; i++)
            (void)str_cut(line, ' ', &field, &line);
        add_unescaped(&at, field);
        struct str where = sbuf_str(&at);
        if (str_starts(where, top) && (where.n == top.n || where.p[top.n] == '/'))
            vec_push(&found, sbuf_take(&at));
        sbuf_done(&at);
    }
    while (found.n > 0) {
        char *one = vec_pop(&found);
        (void)umount2(one, MNT_DETACH | UMOUNT_NOFOLLOW);
        free(one);
    }
    vec_done(&found);
}

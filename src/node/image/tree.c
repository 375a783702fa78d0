// SPDX-License-Identifier: Apache-2.0
//
// Root file systems of containers: opened as their processes see them, copied, unmounted.
#include "node/image/tree.h"

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
#include "os/file.h"

#include "base/banned.h"

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

// --- Copying -------------------------------------------------------------------------------------

__attribute__((noinline)) static void tree_copy_attributes(int from, int to)
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
    struct stat st;
    int r = 0;
    if (!d)
        return -errno;
    rewinddir(d);
    for (const struct dirent *e; r == 0 && (e = file_next_entry(d));)
        r = fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0
                ? copy_node(from, to, e->d_name, &st)
                : -errno;
    (void)closedir(d);
    return r;
}

static int copy_opened(int from, int to, const struct stat *st)
{
    int r = S_ISDIR(st->st_mode) ? copy_content(from, to) : file_copy_fd(from, to);
    if (r == 0 && (fchown(to, st->st_uid, st->st_gid) != 0 || fchmod(to, st->st_mode & 07777) != 0))
        r = -errno;
    tree_copy_attributes(from, to);
    (void)futimens(to, (const struct timespec[2]){st->st_atim, st->st_mtim});
    return r;
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
    int r = fstat(from, &st) == 0 ? copy_opened(from, to, &st) : -errno;
    return r < 0 ? err_set(err, -r, "cannot copy a root file system: %s", strerrordesc_np(-r)) : 0;
}

// --- Mounts --------------------------------------------------------------------------------------

// mountinfo writes blanks and the like as \ooo.
static void tree_add_unescaped(struct sbuf *out, struct str s)
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
    (void)!file_read("/proc/self/mountinfo", (size_t)64 << 20, &text, NULL);
    struct str rest = sbuf_str(&text), line, field;
    while (rest.n > 0) {
        struct sbuf at = {0};
        (void)str_cut(rest, '\n', &line, &rest);
        for (int i = 0; i < 5; i++)
            (void)str_cut(line, ' ', &field, &line);
        tree_add_unescaped(&at, field);
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

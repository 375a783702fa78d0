// SPDX-License-Identifier: Apache-2.0
//
// The mounts of one container, in a mount namespace that only its monitor and crun are in: nothing
// has to be unmounted, whatever is killed.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "node/monitor/monitor_int.h"
#include "os/file.h"

#include "base/banned.h"

static int monitor_mounts_fail(struct err *err, const char *doing, const char *what)
{
    int code = errno ? errno : EIO;
    return err_set(err, code, "cannot %s %s: %s", doing, what, strerrordesc_np(code));
}

// --- Mount namespace -----------------------------------------------------------------------------

static int monitor_mounts_hide(const char *path, struct err *err)
{
    cleanup_sbuf struct sbuf above = {0};
    ptrdiff_t slash = str_rfind_char(str_z(path), '/');
    sbuf_add(&above, slash > 0 ? str_upto(str_z(path), (size_t)slash) : STR("/"));
    // The mount above it must not tell the host. It is private already when it is no mount itself.
    if (mount(NULL, above.p, NULL, MS_PRIVATE, NULL) != 0 && errno != EINVAL)
        return monitor_mounts_fail(err, "make private", above.p);
    if (umount2(path, MNT_DETACH) != 0 && errno != EINVAL && errno != ENOENT)
        return monitor_mounts_fail(err, "hide", path);
    return 0;
}

int monitor_hide(const char *path, struct err *err)
{
    if (!path)
        return 0;
    if (unshare(CLONE_NEWNS) != 0)
        return monitor_mounts_fail(err, "make", "a mount namespace");
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) != 0)
        return monitor_mounts_fail(err, "detach", "the mount namespace");
    return monitor_mounts_hide(path, err);
}

static int monitor_mounts_unshare(const struct monitor_plan *p, struct err *err)
{
    if (unshare(CLONE_NEWNS) != 0)
        return monitor_mounts_fail(err, "make", "a mount namespace");
    if (!p->shared) {
        // The host's mounts still propagate in; ours do not propagate out.
        if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) != 0)
            return monitor_mounts_fail(err, "detach", "the mount namespace");
    } else if (mount(p->folder, p->folder, NULL, MS_BIND, NULL) != 0 ||
               mount(NULL, p->folder, NULL, MS_PRIVATE, NULL) != 0) {
        return monitor_mounts_fail(err, "make private", p->folder);
    }
    if (chdir(p->folder) != 0) // through the new mount
        return monitor_mounts_fail(err, "enter", p->folder);
    return p->hide ? monitor_mounts_hide(p->hide, err) : 0;
}

// --- Root file system ----------------------------------------------------------------------------

static int monitor_mounts_open_dir(const char *path)
{
    return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

// The image with the pod's ids. The writable layer has them already: overlayfs writes to it as root
// of the host, whom a mapped mount would not know.
static int monitor_mounts_map_image(const struct monitor_plan *p, int users, struct err *err)
{
    int lower = monitor_mounts_open_dir(p->lower);
    if (lower < 0)
        return monitor_mounts_fail(err, "open", p->lower);
    int r = monitor_users_mount(lower, users, MONITOR_USERS_FOLDER "/lower", err);
    (void)close(lower);
    return r;
}

// A place that users of the namespace can get to, for root and sources.
static int monitor_mounts_make_place(const struct monitor_plan *p, int users, struct err *err)
{
    static const char *const parts[] = {"/lower", "/rootfs", "/mounts"};
    if (mkdir(MONITOR_USERS_FOLDER, 0755) != 0 && errno != EEXIST)
        return monitor_mounts_fail(err, "make", MONITOR_USERS_FOLDER);
    if (mount("dray", MONITOR_USERS_FOLDER, "tmpfs", MS_NOSUID | MS_NODEV,
              "mode=0755,size=1024k") != 0)
        return monitor_mounts_fail(err, "mount", MONITOR_USERS_FOLDER);
    for (size_t i = 0; i < array_len(parts); i++) {
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, MONITOR_USERS_FOLDER "%s", parts[i]);
        if (mkdir(path.p, 0755) != 0)
            return monitor_mounts_fail(err, "make", path.p);
    }
    return monitor_mounts_map_image(p, users, err);
}

// Descriptors instead of names: mount options know no quoting.
static int mount_root(const struct monitor_plan *p, struct err *err)
{
    if (p->copy)
        return 0;
    char options[160];
    int lower = monitor_mounts_open_dir(p->users ? MONITOR_USERS_FOLDER "/lower" : p->lower);
    int upper = monitor_mounts_open_dir("upper"), work = monitor_mounts_open_dir("work");
    const char *to = p->users ? MONITOR_USERS_FOLDER "/rootfs" : "rootfs";
    int r = 0;
    if (lower < 0 || upper < 0 || work < 0)
        r = monitor_mounts_fail(err, "open the layers of", p->lower);
    (void)snprintf(options, sizeof(options),
                   "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d",
                   lower, upper, work);
    if (r == 0 && mount("overlay", to, "overlay", 0, options) != 0)
        r = monitor_mounts_fail(err, "lay a writable layer over", p->lower);
    (void)close(lower);
    (void)close(upper);
    (void)close(work);
    return r;
}

// --- Sources -------------------------------------------------------------------------------------

static int open_beneath(int base, const char *path, uint64_t flags)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC | flags,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    int tries = 0;
    long fd;
    do // EAGAIN: something was renamed meanwhile, and the kernel cannot tell whether we left
        fd = syscall(SYS_openat2, base, path, &how, sizeof(how));
    while (fd < 0 && errno == EAGAIN && ++tries < 100);
    return (int)fd;
}

// Makes missing directories of sub one by one, without leaving base.
static int make_beneath(int base, const char *sub)
{
    struct str all = str_z(sub), rest = all, part;
    cleanup_sbuf struct sbuf path = {0};
    int above = dup(base), fd = -1;
    while (rest.n > 0 && above >= 0) {
        (void)str_cut(rest, '/', &part, &rest);
        if (part.n == 0)
            continue;
        if (path.n)
            sbuf_addc(&path, '/');
        size_t start = path.n;
        sbuf_add(&path, part);
        fd = open_beneath(base, path.p, 0);
        if (fd < 0 && errno == ENOENT && mkdirat(above, path.p + start, 0755) == 0)
            fd = open_beneath(base, path.p, 0);
        (void)close(above);
        above = fd;
    }
    return above;
}

static bool monitor_mounts_has_dots(const char *sub)
{
    struct str rest = str_z(sub), part;
    while (rest.n > 0) {
        (void)str_cut(rest, '/', &part, &rest);
        if (str_eq(part, STR("..")))
            return true;
    }
    return false;
}

static int open_source(const struct monitor_bind *b, struct err *err)
{
    if (monitor_mounts_has_dots(b->sub) || b->sub[0] == '/')
        return err_set(err, ERR_INVALID, "subPath '%s' must be relative and may not have '..'",
                       b->sub);
    int base = open(b->host, O_PATH | O_CLOEXEC);
    if (base < 0)
        return monitor_mounts_fail(err, "open", b->host);
    if (!b->sub[0])
        return base;
    int fd = open_beneath(base, b->sub, 0);
    if (fd < 0 && errno == ENOENT)
        fd = make_beneath(base, b->sub);
    int code = errno;
    (void)close(base);
    if (fd < 0 && (code == EXDEV || code == ELOOP))
        return err_set(err, ERR_INVALID, "subPath '%s' leads out of the volume %s", b->sub,
                       b->host);
    errno = code;
    return fd < 0 ? monitor_mounts_fail(err, "open subPath", b->sub) : fd;
}

static int mount_source(const struct monitor_bind *b, size_t number, int users, struct err *err)
{
    char name[64], from[48];
    struct stat st;
    int fd = open_source(b, err);
    if (fd < 0)
        return fd;
    (void)snprintf(name, sizeof(name), "%smounts/%zu", users >= 0 ? MONITOR_USERS_FOLDER "/" : "",
                   number);
    (void)snprintf(from, sizeof(from), "/proc/self/fd/%d", fd);
    int r = 0;
    if (fstat(fd, &st) != 0)
        r = monitor_mounts_fail(err, "look at", b->sub);
    else if (S_ISDIR(st.st_mode)) {
        if (mkdir(name, 0755) != 0 && errno != EEXIST)
            r = monitor_mounts_fail(err, "make", name);
    } else {
        int made = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (made < 0)
            r = monitor_mounts_fail(err, "make", name);
        else
            (void)close(made);
    }
    if (r == 0 && users >= 0)
        r = monitor_users_mount(fd, users, name, err);
    else if (r == 0 && mount(from, name, NULL, MS_BIND | MS_REC, NULL) != 0)
        r = monitor_mounts_fail(err, "mount subPath", b->sub);
    (void)close(fd);
    return r;
}

int monitor_mounts(const struct monitor_plan *p, struct err *err)
{
    cleanup_fd int users = p->users ? open(p->users, O_RDONLY | O_CLOEXEC) : -1;
    if (p->users && users < 0)
        return monitor_mounts_fail(err, "open", p->users);
    if (p->users && (p->copy || p->shared))
        return err_set(err, ERR_UNSUPPORTED,
                       "a user namespace needs overlayfs and no mounts that reach the host");
    int r = monitor_mounts_unshare(p, err);
    if (r == 0 && p->users)
        r = monitor_mounts_make_place(p, users, err);
    if (r == 0)
        r = mount_root(p, err);
    if (r == 0 && !p->users && p->binds_len > 0 && mkdir("mounts", 0700) != 0 && errno != EEXIST)
        r = monitor_mounts_fail(err, "make", "mounts");
    for (size_t i = 0; r == 0 && i < p->binds_len; i++)
        r = mount_source(&p->binds[i], i, users, err);
    return r;
}

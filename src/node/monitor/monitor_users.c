// SPDX-License-Identifier: Apache-2.0
//
// User namespaces of pods. Only a process with one thread can enter one, so the agent leaves it to
// this program to make a pod's namespaces within a user namespace of its own. Mounts are given the
// pod's ids by the kernel (id-mapped mounts): on disk, files keep the ids that containers see.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linux/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "node/monitor/monitor_int.h"
#include "os/file.h"

#include "base/banned.h"

// <sys/mount.h> of the C library and <linux/mount.h> of the kernel cannot be included together.
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
#define PROBE_BASE     65536
#define USERS_MS_BIND  4096UL
#define USERS_MS_REC   16384UL
#define USERS_MS_SLAVE (1UL << 19)

static int monitor_users_fail(struct err *err, const char *doing, const char *what)
{
    int code = errno ? errno : EIO;
    return err_set(err, code, "cannot %s %s: %s", doing, what, strerrordesc_np(code));
}

// --- Id-mapped mounts ----------------------------------------------------------------------------

int monitor_users_mount(int from, int users, const char *to, struct err *err)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)users};
    int tree = (int)syscall(SYS_open_tree, from, "",
                            AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (tree < 0)
        return monitor_users_fail(err, "copy the mount of", to);
    int r = 0;
    if (users >= 0 && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                              sizeof(attr)) != 0)
        r = monitor_users_fail(err, "map the ids of files for", to);
    if (r == 0 && syscall(SYS_move_mount, tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) != 0)
        r = monitor_users_fail(err, "mount", to);
    (void)close(tree);
    return r;
}

// --- Namespaces of a pod -------------------------------------------------------------------------

struct users_child {
    pid_t pid, pause;
    int hears, says; // our ends
    int wakes_pause; // the end of pause's input; -1: there is none
};

static int monitor_users_flags(const char *names)
{
    static const struct {
        const char *name;
        int flag;
    } rows[] = {
        {"net", CLONE_NEWNET}, {"ipc", CLONE_NEWIPC}, {"uts", CLONE_NEWUTS}, {"pid", CLONE_NEWPID}};
    struct str rest = str_z(names), one;
    int flags = 0;
    while (rest.n > 0) {
        (void)str_cut(rest, ',', &one, &rest);
        for (size_t i = 0; i < array_len(rows); i++)
            if (str_eqz(one, rows[i].name))
                flags |= rows[i].flag;
    }
    return flags;
}

// The first process within a shared process id namespace.
static _Noreturn void monitor_users_pause(int input)
{
    (void)setsid();
    (void)!chdir("/");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (dup2(input, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 || close_range(3, ~0U, 0) != 0)
        _exit(1);
    _exit(monitor_pause());
}

// Enters a user namespace, waits for its ids, makes the rest within it, and waits to be seen.
static _Noreturn void monitor_users_child(int flags, int hears, int says, int pause_input)
{
    char byte = 0;
    pid_t pause = 0;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWUSER) != 0 || write(says, &byte, 1) != 1 || read(hears, &byte, 1) != 1)
        _exit(1);
    if (setgroups(0, NULL) != 0 || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0 ||
        unshare(flags) != 0)
        _exit(2);
    if (flags & CLONE_NEWPID) {
        pause = fork();
        if (pause == 0)
            monitor_users_pause(pause_input);
    }
    if (pause < 0 || write(says, &pause, sizeof(pause)) != sizeof(pause))
        _exit(3);
    (void)!read(hears, &byte, 1);
    _exit(0);
}

static int monitor_users_fork(int flags, struct users_child *c, struct err *err)
{
    int down[2], up[2], sleep[2];
    if (pipe2(down, O_CLOEXEC) != 0 || pipe2(up, O_CLOEXEC) != 0 || pipe2(sleep, O_CLOEXEC) != 0)
        return monitor_users_fail(err, "make", "a pipe");
    c->pid = fork();
    if (c->pid < 0)
        return monitor_users_fail(err, "make", "a process");
    if (c->pid == 0) {
        // Only the parent may hold the end whose closing ends the pause.
        (void)close(sleep[1]);
        (void)close(down[1]);
        monitor_users_child(flags, down[0], up[1], sleep[0]);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    (void)close(sleep[0]);
    c->says = down[1];
    c->hears = up[0];
    c->wakes_pause = sleep[1];
    return 0;
}

static int monitor_users_write_map(pid_t pid, const char *name, const char *base,
                                   const char *length, struct err *err)
{
    char path[64], text[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    int n = snprintf(text, sizeof(text), "0 %s %s", base, length);
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, (size_t)n) == n ? 0
                                                      : monitor_users_fail(err, "write to", path);
}

// Waits for the child's namespaces.
static int monitor_users_map(struct users_child *c, const char *base, const char *length,
                             struct err *err)
{
    char byte;
    errno = 0;
    if (read(c->hears, &byte, 1) != 1)
        return monitor_users_fail(err, "make", "a user namespace");
    int r = monitor_users_write_map(c->pid, "uid_map", base, length, err);
    if (r == 0)
        r = monitor_users_write_map(c->pid, "gid_map", base, length, err);
    errno = 0;
    if (r == 0 && (write(c->says, "", 1) != 1 ||
                   read(c->hears, &c->pause, sizeof(c->pause)) != sizeof(c->pause)))
        r = monitor_users_fail(err, "make namespaces within", "a user namespace");
    return r;
}

static int monitor_users_keep(const char *folder, pid_t pid, const char *name, struct err *err)
{
    char from[64];
    cleanup_sbuf struct sbuf to = {0};
    (void)snprintf(from, sizeof(from), "/proc/%d/ns/%s", (int)pid, name);
    sbuf_addf(&to, "%s/ns/%s", folder, name);
    int fd = open(to.p, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0 && mount(from, to.p, NULL, USERS_MS_BIND, NULL) == 0
               ? 0
               : monitor_users_fail(err, "keep the namespace", to.p);
}

// Records the pause before it learns that it may stay.
static int monitor_users_keep_pause(const char *folder, const struct users_child *c,
                                    struct err *err)
{
    char text[24];
    cleanup_fd int at = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    (void)snprintf(text, sizeof(text), "%d\n", (int)c->pause);
    int r = file_replace_atomic(at, "pause", str_z(text), 0644, NULL);
    if (r < 0)
        return err_set(err, -r, "cannot write to %s: %s", folder, strerrordesc_np(-r));
    r = monitor_users_keep(folder, c->pause, "pid", err);
    if (r == 0 && write(c->wakes_pause, "", 1) != 1)
        r = monitor_users_fail(err, "keep", "the pod's first process");
    return r;
}

static int monitor_users_make(const char *folder, const char *base, const char *length,
                              const char *names, struct err *err)
{
    static const char *const kinds[] = {"net", "ipc", "uts"};
    static const int bits[] = {CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS};
    struct users_child c = {0};
    int flags = monitor_users_flags(names);
    int r = monitor_users_fork(flags, &c, err);
    if (r < 0)
        return r;
    r = monitor_users_map(&c, base, length, err);
    if (r == 0)
        r = monitor_users_keep(folder, c.pid, "user", err);
    for (size_t i = 0; r == 0 && i < array_len(kinds); i++)
        if (flags & bits[i])
            r = monitor_users_keep(folder, c.pid, kinds[i], err);
    if (r == 0 && c.pause > 0)
        r = monitor_users_keep_pause(folder, &c, err);
    (void)close(c.wakes_pause);
    (void)close(c.says);
    (void)close(c.hears);
    (void)kill(c.pid, SIGKILL);
    (void)waitpid(c.pid, NULL, 0);
    return r;
}

int monitor_users(char **argv)
{
    struct err err = {0};
    int r = monitor_users_make(argv[0], argv[1], argv[2], argv[3], &err);
    if (r < 0)
        (void)fprintf(stderr, "%s", err.msg);
    return r < 0;
}

// --- Probe ---------------------------------------------------------------------------------------

// Within the namespaces: what a container's start would do that a kernel or a machine may refuse.
static _Noreturn void monitor_users_try(int users, int net)
{
    struct stat st;
    if (setns(users, CLONE_NEWUSER) != 0 || setresgid(0, 0, 0) != 0 || setresuid(0, 0, 0) != 0 ||
        setns(net, CLONE_NEWNET) != 0)
        _exit(10);
    if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
        _exit(11);
    // A process id namespace is the next child's.
    pid_t pid = fork();
    if (pid > 0) {
        int status = 0;
        (void)waitpid(pid, &status, 0);
        _exit(monitor_exit_status(status));
    }
    if (stat("rootfs/file", &st) != 0 || st.st_uid != 0 || st.st_gid != 0)
        _exit(12);
    int fd = open("rootfs/new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        _exit(13);
    if (mount("proc", "rootfs/proc", "proc", 0, NULL) != 0)
        _exit(14);
    if (mount("sysfs", "rootfs/sys", "sysfs", 0, NULL) != 0)
        _exit(15);
    _exit(0);
}

static const char *monitor_users_explain(int code)
{
    static const char *const rows[] = {
        "its namespaces cannot be entered",
        "no mounts can be made within it",
        "the owners of an image's files are not mapped (overlayfs over id-mapped mounts)",
        "a writable layer cannot be written to (overlayfs over id-mapped mounts)",
        "proc cannot be mounted within it",
        "sysfs cannot be mounted within it",
    };
    return code >= 10 && code < 10 + (int)array_len(rows) ? rows[code - 10] : "it was killed";
}

// folder has lower/file, lower/proc, lower/sys, upper, work, rootfs, ns.
static int monitor_users_check(const char *folder, struct err *err)
{
    struct stat st;
    int r = chown("upper", PROBE_BASE, PROBE_BASE) == 0
                ? monitor_users_make(folder, "65536", "65536", "net,ipc,uts", err)
                : monitor_users_fail(err, "prepare", folder);
    cleanup_fd int users = r == 0 ? open("ns/user", O_RDONLY | O_CLOEXEC) : -1;
    cleanup_fd int net = r == 0 ? open("ns/net", O_RDONLY | O_CLOEXEC) : -1;
    const struct monitor_plan p = {.folder = folder, .lower = "lower", .users = "ns/user"};
    if (r == 0)
        r = monitor_mounts(&p, err);
    if (r < 0)
        return r;
    pid_t pid = fork();
    if (pid == 0) {
        if (chdir(MONITOR_USERS_FOLDER) != 0)
            _exit(11);
        monitor_users_try(users, net);
    }
    int code = pid > 0 ? monitor_wait(pid) : 127;
    if (code != 0)
        return err_set(err, ERR_UNSUPPORTED, "%s", monitor_users_explain(code));
    // What root of the namespace wrote is not root's outside.
    if (stat("upper/new", &st) != 0 || st.st_uid != PROBE_BASE)
        return err_set(err, ERR_UNSUPPORTED, "files do not get the owner that they should have");
    return 0;
}

int monitor_users_probe(const char *folder)
{
    struct err err = {0};
    int r = chdir(folder) == 0 ? monitor_users_check(folder, &err)
                               : monitor_users_fail(&err, "enter", folder);
    if (r < 0)
        (void)fprintf(stderr, "%s", err.msg);
    return r < 0;
}

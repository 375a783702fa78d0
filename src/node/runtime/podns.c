// SPDX-License-Identifier: Apache-2.0
//
// Makes a pod's namespaces on a thread that ends afterwards and keeps them alive by bind mounts. A
// shared pid namespace has a pause process.
#include "node/runtime/podns.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/mem.h"
#include "node/image/tree.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

struct making {
    const struct podns_options *o;
    struct err *err;
    int r;
};

static int podns_fail(struct making *m, const char *doing)
{
    return err_set(m->err, errno, "cannot %s: %s", doing, strerrordesc_np(errno));
}

// --- Namespace setup -----------------------------------------------------------------------------

static int raise_loopback(struct making *m)
{
    struct ifreq request = {.ifr_name = "lo"};
    cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        return podns_fail(m, "find the pod's loopback");
    request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0 ? 0 : podns_fail(m, "raise the pod's loopback");
}

// Only what belongs to a namespace that the pod has for itself: all else is the host's.
static bool is_namespaced(const struct podns_options *o, struct str name)
{
    if (o->net && str_starts(name, STR("net.")))
        return true;
    static const char *const ipc[] = {"kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."};
    for (size_t i = 0; o->ipc && i < array_len(ipc); i++)
        if (str_starts(name, str_z(ipc[i])))
            return true;
    return false;
}

static int set_sysctl(struct making *m, const struct runtime_pair *s)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addz(&path, "/proc/sys/");
    for (size_t i = 0; i < s->name.n; i++)
        sbuf_addc(&path, s->name.p[i] == '.' ? '/' : s->name.p[i] == '/' ? '.' : s->name.p[i]);
    if (!is_namespaced(m->o, s->name) || str_contains(sbuf_str(&path), STR("/..")) ||
        memchr(path.p, '\0', path.n))
        return err_set(m->err, ERR_INVALID, "sysctl \"%.*s\" is not the pod's own to set",
                       STR_ARG(str_upto(s->name, 100)));
    cleanup_fd int fd = open(path.p, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || write(fd, s->value.p, s->value.n) != (ssize_t)s->value.n)
        return err_set(m->err, ERR_INVALID, "cannot set sysctl \"%.*s\": %s",
                       STR_ARG(str_upto(s->name, 100)), strerrordesc_np(errno));
    return 0;
}

static int podns_keep_namespace(struct making *m, const char *from, const char *name)
{
    cleanup_sbuf struct sbuf to = {0};
    sbuf_addf(&to, "%s/ns/%s", m->o->folder, name);
    int fd = open(to.p, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return podns_fail(m, "make a file for a namespace");
    (void)close(fd);
    return mount(from, to.p, NULL, MS_BIND, NULL) == 0 ? 0 : podns_fail(m, "keep a namespace");
}

// --- Pause ---------------------------------------------------------------------------------------

// Starts process 1 of the pod, which exits unless it receives a byte that its pid is recorded: a
// crash leaves no process behind. Returns its id, or -1.
static pid_t spawn_pause(struct making *m, int hears)
{
    const char *argv[] = {m->o->monitor, "pause", NULL};
    const struct process p = {.argv = argv, .in = hears, .new_session = true};
    pid_t pid;
    return process_start(&p, &pid, m->err) == 0 ? pid : -1;
}

static int start_pause(struct making *m)
{
    cleanup_sbuf struct sbuf text = {0}, from = {0};
    int ends[2];
    if (unshare(CLONE_NEWPID) != 0)
        return podns_fail(m, "make a process id namespace");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return podns_fail(m, "make a pipe");
    pid_t pid = spawn_pause(m, ends[0]);
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return -m->err->code;
    }
    sbuf_addf(&text, "%d\n", (int)pid);
    sbuf_addf(&from, "/proc/%d/ns/pid", (int)pid);
    cleanup_fd int folder = open(m->o->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = file_replace_atomic(folder, "pause", sbuf_str(&text), 0644, NULL);
    if (r < 0)
        r = err_set(m->err, -r, "cannot write to %s: %s", m->o->folder, strerrordesc_np(-r));
    else
        r = podns_keep_namespace(m, from.p, "pid");
    if (r == 0 && write(ends[1], "", 1) != 1)
        r = podns_fail(m, "keep the pod's first process");
    (void)close(ends[1]);
    if (r < 0)
        (void)waitpid(pid, NULL, 0);
    return r;
}

// Only a process with one thread can enter a user namespace: dray-monitor makes that and the others
// within it, and keeps them; we only enter those others.
static int podns_make_users(struct making *m)
{
    const struct podns_options *o = m->o;
    char base[16], length[16], names[24];
    (void)snprintf(base, sizeof(base), "%u", o->users.base);
    (void)snprintf(length, sizeof(length), "%u", o->users.length);
    (void)snprintf(names, sizeof(names), "%s%s%s%s", o->net ? "net," : "", o->ipc ? "ipc," : "",
                   o->uts ? "uts," : "", o->pid ? "pid" : "");
    const char *argv[] = {o->monitor, "users", o->folder, base, length, names, NULL};
    cleanup_sbuf struct sbuf said = {0};
    const struct process p = {
        .argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = 30 * CLOCK_NS_PER_SEC};
    int r = process_run(&p, &said, m->err);
    if (r > 0)
        r = err_set(m->err, ERR_UNSUPPORTED, "the pod's user namespace: %s",
                    said.n ? said.p : "it cannot be made");
    return r;
}

static int podns_enter(struct making *m, const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/ns/%s", m->o->folder, name);
    cleanup_fd int fd = open(path.p, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && setns(fd, 0) == 0 ? 0 : podns_fail(m, "enter a namespace of the pod");
}

static int podns_set_up(struct making *m)
{
    const struct podns_options *o = m->o;
    int r = 0;
    if (o->net)
        r = raise_loopback(m);
    if (r == 0 && o->uts && o->hostname.n && sethostname(o->hostname.p, o->hostname.n) != 0)
        r = podns_fail(m, "set the host name");
    for (size_t i = 0; r == 0 && i < o->sysctls_len; i++)
        r = set_sysctl(m, &o->sysctls[i]);
    return r;
}

static void *podns_make_users_thread(void *arg)
{
    struct making *m = arg;
    const struct podns_options *o = m->o;
    int r = podns_make_users(m);
    if (r == 0 && o->net)
        r = podns_enter(m, "net");
    if (r == 0 && o->ipc)
        r = podns_enter(m, "ipc");
    if (r == 0 && o->uts)
        r = podns_enter(m, "uts");
    if (r == 0)
        r = podns_set_up(m);
    m->r = r;
    return NULL;
}

static void *podns_make_thread(void *arg)
{
    struct making *m = arg;
    const struct podns_options *o = m->o;
    int flags =
        (o->net ? CLONE_NEWNET : 0) | (o->ipc ? CLONE_NEWIPC : 0) | (o->uts ? CLONE_NEWUTS : 0);
    int r = unshare(flags) == 0 ? 0 : podns_fail(m, "make namespaces");
    if (r == 0)
        r = podns_set_up(m);
    if (r == 0 && o->ipc)
        r = podns_keep_namespace(m, "/proc/thread-self/ns/ipc", "ipc");
    if (r == 0 && o->uts)
        r = podns_keep_namespace(m, "/proc/thread-self/ns/uts", "uts");
    if (r == 0 && o->net)
        r = podns_keep_namespace(m, "/proc/thread-self/ns/net", "net");
    if (r == 0 && o->pid)
        r = start_pause(m);
    m->r = r;
    return NULL;
}

int podns_make(const struct podns_options *o, struct err *err)
{
    struct making m = {.o = o, .err = err};
    pthread_t thread;
    cleanup_sbuf struct sbuf folder = {0};
    sbuf_addf(&folder, "%s/ns", o->folder);
    if (mkdir(folder.p, 0700) != 0 && errno != EEXIST)
        return podns_fail(&m, "make a directory for namespaces");
    // A thread that ends afterwards: no other code runs in the namespaces.
    int r = pthread_create(&thread, NULL,
                           o->users.length ? podns_make_users_thread : podns_make_thread, &m);
    if (r != 0)
        return err_set(err, r, "cannot make a thread: %s", strerrordesc_np(r));
    (void)pthread_join(thread, NULL);
    return m.r;
}

// The process is ours to kill only as long as the number still stands for one of the pod's
// namespace. Without that namespace's file it has gone by itself.
static void kill_pause(const char *folder)
{
    cleanup_sbuf struct sbuf file = {0}, text = {0}, of_process = {0}, of_pod = {0};
    struct stat a, b;
    int64_t pid;
    sbuf_addf(&file, "%s/pause", folder);
    if (file_read_at(AT_FDCWD, file.p, 64, &text) < 0 ||
        str_to_i64(str_trim(sbuf_str(&text)), &pid) != 0 || pid < 2)
        return;
    sbuf_addf(&of_process, "/proc/%lld/ns/pid", (long long)pid);
    sbuf_addf(&of_pod, "%s/ns/pid", folder);
    if (stat(of_process.p, &a) != 0 || stat(of_pod.p, &b) != 0 || a.st_ino != b.st_ino ||
        a.st_dev != b.st_dev)
        return;
    (void)kill((pid_t)pid, SIGKILL);
    (void)waitpid((pid_t)pid, NULL, 0); // when it is our child
    (void)unlink(file.p);
}

void podns_remove(const char *folder)
{
    kill_pause(folder);
    tree_unmount(folder);
    cleanup_sbuf struct sbuf ns = {0};
    sbuf_addf(&ns, "%s/ns", folder);
    (void)file_remove_tree(ns.p, NULL);
}

// SPDX-License-Identifier: Apache-2.0
//
// A container's bundle: image, configuration, plan for its monitor, and the monitor that lets crun
// make it.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "node/image/tree.h"
#include "node/monitor/monitor_plan.h"
#include "node/oci/oci.h"
#include "node/runtime/crun_int.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

#define MOUNTS_MAX 512

struct create {
    struct list_node making; // of the runtime, until it is made
    struct runtime_container *container;
    struct crun_pod_meta pod;
    struct crun_container_meta meta;
    const char *folder, *pod_folder;
    struct image_info image;
    const struct crun_program *by;
    struct oci_binds binds;
    const char *userns; // NULL: the host's
    int watch;          // a connection to its monitor
    int target;         // a process id namespace to share; -1: none
    char said[MONITOR_PACKET_MAX];
    char filter[CRUN_ID_LEN + 1]; // to be kept when crun has compiled it
};

static int crun_create_fail(const char *doing, const char *what, struct err *err)
{
    return err_set(err, errno, "cannot %s %s: %s", doing, what, strerrordesc_np(errno));
}

// --- Files ---------------------------------------------------------------------------------------

static void crun_create_add_word(struct sbuf *out, const char *word)
{
    sbuf_add(out, str_make(word, strlen(word) + 1));
}

static void crun_create_add_row(struct sbuf *out, const char *key, const char *value)
{
    crun_create_add_word(out, key);
    crun_create_add_word(out, value);
}

static void make_plan(const struct crun *c, const char *id, const struct create *k,
                      struct sbuf *out)
{
    const struct runtime_container *container = k->container;
    bool shared = false;
    crun_create_add_row(out, "id", id);
    crun_create_add_row(out, "runtime", k->by->path);
    crun_create_add_row(out, "state", k->by->state);
    crun_create_add_row(out, "cgroup", c->machine.no_cgroups ? "" : k->meta.cgroup.p);
    crun_create_add_row(out, "hide", crun_hidden_mount(c, k->by));
    crun_create_add_row(out, "lower", k->image.rootfs.p);
    crun_create_add_row(out, "log", k->meta.log.n ? k->meta.log.p : "");
    if (c->machine.no_overlay)
        crun_create_add_row(out, "copy", "1");
    if (container->tty)
        crun_create_add_row(out, "tty", "1");
    if (container->stdin)
        crun_create_add_row(out, "stdin", "1");
    if (container->stdin_once)
        crun_create_add_row(out, "once", "1");
    if (k->userns)
        crun_create_add_row(out, "users", k->userns);
    for (size_t i = 0; i < container->mounts_len; i++)
        shared = shared || container->mounts[i].propagation == RUNTIME_BIDIRECTIONAL;
    vec_foreach(&k->binds, b) {
        crun_create_add_row(out, "bind", b->host);
        crun_create_add_word(out, b->sub);
    }
    if (shared)
        crun_create_add_row(out, "shared", "1");
}

// The writable layer's own directory becomes the container's /: it looks like the image's.
static int make_layer(const struct crun *c, const struct create *k, int folder, struct err *err)
{
    static const char *const parts[] = {"rootfs", "upper", "work"};
    struct stat st;
    if (stat(k->image.rootfs.p, &st) != 0)
        return crun_create_fail("use the image's directory", k->image.rootfs.p, err);
    for (size_t i = 0; i < array_len(parts); i++) {
        int r = file_make_dir_at(folder, parts[i], 0755);
        errno = -r;
        if (r < 0 && r != -EEXIST)
            return crun_create_fail("make a directory in", k->folder, err);
    }
    uint32_t base = k->pod.users.base; // 0 without a user namespace
    if (fchownat(folder, "upper", st.st_uid + base, st.st_gid + base, 0) != 0 ||
        fchmodat(folder, "upper", st.st_mode & 07777, 0) != 0)
        return crun_create_fail("prepare a directory in", k->folder, err);
    if (!c->machine.no_overlay)
        return 0;
    cleanup_fd int from = open(k->image.rootfs.p, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int to = openat(folder, "rootfs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return from < 0 || to < 0 ? crun_create_fail("copy", k->image.rootfs.p, err)
                              : tree_copy_all(from, to, err);
}

static int crun_create_find_edits(const struct crun *cc, const struct create *k,
                                  struct arena *arena, struct cdi_edits *ret, struct err *err)
{
    // The cache is the one thing that threads share, under its lock. Texts in it are void after the
    // next refresh: the configuration is written before the lock is released.
    return cdi_cache_edits(cc->cdi, k->container->cdi_devices, k->container->cdi_devices_len, arena,
                           ret, err);
}

static const char *pod_file(const struct create *k, const char *name, struct arena *arena)
{
    return arena_strf(arena, "%s/%s", k->pod_folder, name).p;
}

// Pods that an older version made have the files of /etc in their directory itself.
static const char *pod_etc_file(const struct create *k, const char *name, struct arena *arena)
{
    const char *path = arena_strf(arena, "%s/etc/%s", k->pod_folder, name).p;
    return access(path, F_OK) == 0 ? path : pod_file(k, name, arena);
}

// The process id namespace of another container of this machine, held open: its path is good as
// long as we are.
static int target_pidns(const struct crun *c, struct create *k, struct arena *arena,
                        struct err *err)
{
    struct str id = k->container->target;
    cleanup_sbuf struct sbuf text = {0};
    int64_t pid;
    k->target = -1;
    if (id.n == 0 || k->pod.share_pid || k->pod.host_pid)
        return 0;
    if (!crun_id_ok(id))
        return err_set(err, ERR_INVALID, "there is no such target container");
    struct str folder = crun_container_dir(c, id.p, arena);
    int r = file_read_at(AT_FDCWD, arena_strf(arena, "%s/pid", folder.p).p, 64, &text);
    if (r == 0 && str_to_i64(str_trim(sbuf_str(&text)), &pid) == 0 && pid > 1)
        k->target =
            open(arena_strf(arena, "/proc/%lld/ns/pid", (long long)pid).p, O_RDONLY | O_CLOEXEC);
    // The pid may have been reused: then the container's file `exit` exists.
    if (k->target < 0 || access(arena_strf(arena, "%s/exit", folder.p).p, F_OK) == 0)
        return err_set(err, ERR_NOT_FOUND, "the target container does not run");
    return 0;
}

static struct oci_pod crun_create_pod(const struct create *k, struct arena *arena)
{
    bool own_pid = k->pod.share_pid && !k->pod.host_pid;
    const char *pidns =
        k->target >= 0 ? arena_strf(arena, "/proc/%d/fd/%d", (int)getpid(), k->target).p : NULL;
    return (struct oci_pod){
        .netns = k->pod.host_network ? NULL : pod_file(k, "ns/net", arena),
        .ipcns = k->pod.host_ipc ? NULL : pod_file(k, "ns/ipc", arena),
        .utsns = k->pod.host_network ? NULL : pod_file(k, "ns/uts", arena),
        .pidns = own_pid ? pod_file(k, "ns/pid", arena) : pidns,
        .host_pid = k->pod.host_pid,
        .hostname = k->pod.hostname,
        .resolv_conf = pod_etc_file(k, "resolv.conf", arena),
        .hosts = pod_etc_file(k, "hosts", arena),
        .hostname_file = pod_etc_file(k, "hostname", arena),
        .shm = k->pod.host_ipc ? "/dev/shm" : pod_file(k, "shm", arena),
        .userns = k->userns,
        .users = k->pod.users,
    };
}

// Links that devices bring along go to the pod's namespace; the runtime's own way is younger than
// most runtimes.
static int move_links(const struct create *k, struct cdi_edits *edits, struct arena *arena,
                      struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < edits->net_devices.n; i++) {
        const struct cdi_net_device *d = &edits->net_devices.p[i];
        if (k->pod.host_network)
            break;
        r = podnet_move(arena_str(arena, d->host_interface_name).p, pod_file(k, "ns/net", arena),
                        arena_str(arena, d->name).p, err);
    }
    edits->net_devices.n = 0;
    return r;
}

static int write_config(struct crun *c, struct create *k, struct arena *arena, struct sbuf *out,
                        struct err *err)
{
    k->userns = k->pod.users.length ? pod_file(k, "ns/user", arena) : NULL;
    const struct oci_pod pod = crun_create_pod(k, arena);
    struct cdi_edits edits = {0};
    const struct oci_options o = {
        .container = k->container,
        .image = &k->image,
        .pod = &pod,
        .folder = k->userns ? MONITOR_USERS_FOLDER : k->folder,
        .binds = &k->binds,
        .cgroup = c->machine.no_cgroups ? NULL : k->meta.cgroup.p,
        .unified_cgroups = c->cgroups.unified,
        .no_seccomp = k->by->no_seccomp,
        .edits = &edits,
        // Filters of one program may not suit another.
        .filters = k->by->is_crun && k->by == c->programs.p ? c->paths.filters : NULL,
        .ret_filter = k->filter,
    };
    if (k->container->cdi_devices_len == 0) {
        int r = oci_device_edits(k->container, arena, &edits, err);
        return r < 0 ? r : oci_config_write(&o, arena, out, err);
    }
    (void)pthread_mutex_lock(&c->cdi_lock);
    (void)cdi_cache_refresh(c->cdi);
    int r = crun_create_find_edits(c, k, arena, &edits, err);
    if (r == 0)
        r = oci_device_edits(k->container, arena, &edits, err);
    if (r == 0)
        r = move_links(k, &edits, arena, err);
    if (r == 0)
        r = oci_config_write(&o, arena, out, err);
    (void)pthread_mutex_unlock(&c->cdi_lock);
    return r;
}

static int write_bundle(struct crun *c, const char *id, struct create *k, int folder,
                        struct arena *arena, struct err *err)
{
    cleanup_sbuf struct sbuf config = {0}, plan = {0};
    int r = make_layer(c, k, folder, err);
    if (r == 0)
        r = write_config(c, k, arena, &config, err);
    if (r < 0)
        return r;
    make_plan(c, id, k, &plan);
    fault_point("write the container's configuration");
    r = file_replace_atomic(folder, "config.json", sbuf_str(&config), 0644, NULL);
    if (r == 0)
        r = file_replace_atomic(folder, "plan", sbuf_str(&plan), 0644, NULL);
    if (r < 0)
        return err_set(err, -r, "cannot write to %s: %s", k->folder, strerrordesc_np(-r));
    return crun_container_write(c, id, &k->meta, err);
}

// --- Monitor -------------------------------------------------------------------------------------

static int start_monitor(const struct crun *c, const struct create *k, int lock, struct err *err)
{
    cleanup_sbuf struct sbuf said = {0}, why = {0};
    const char *argv[] = {c->paths.monitor, "run", k->folder, NULL};
    const struct process p = {
        .argv = argv, .err = PROCESS_OUTPUT, .pass_fd = lock, .timeout_ns = CRUN_CALL_NS};
    int r = process_run(&p, &said, err);
    if (r <= 0)
        return r;
    crun_runtime_error(sbuf_str(&said), &why);
    return err_set(err, ERR_INTERNAL, "%s", why.p);
}

static int crun_create_watch_monitor(struct create *k, struct err *err)
{
    k->watch = crun_monitor_send(k->folder, "watch");
    ssize_t n = k->watch < 0
                    ? k->watch
                    : crun_monitor_receive(k->watch, k->said, sizeof(k->said) - 1, CRUN_CALL_NS);
    if (n > 0) {
        k->said[n] = '\0';
        return 0;
    }
    if (k->watch >= 0)
        (void)close(k->watch);
    k->watch = -1;
    return err_set(err, ERR_GONE, "the container's monitor went away");
}

// Keeps the seccomp filter that crun compiled, for the next container with the same rules.
static void keep_filter(const struct crun *c, const char *id, const struct create *k)
{
    cleanup_sbuf struct sbuf from = {0}, filter = {0};
    if (!k->filter[0])
        return;
    sbuf_addf(&from, "%s/%s/seccomp.bpf", k->by->state, id);
    cleanup_fd int folder = open(c->paths.filters, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0 && file_read_at(AT_FDCWD, from.p, (size_t)1 << 20, &filter) == 0 &&
        filter.n > 0)
        (void)!file_replace_atomic(folder, k->filter, sbuf_str(&filter), 0644, NULL);
}

static int make_bundle(struct crun *c, const char *id, struct create *k, struct arena *arena,
                       struct err *err)
{
    int r = file_make_dir_at(AT_FDCWD, k->folder, 0711);
    errno = -r;
    if (r < 0)
        return crun_create_fail("make", k->folder, err);
    cleanup_fd int folder = open(k->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_fd int lock = openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (folder < 0 || lock < 0 || flock(lock, LOCK_EX | LOCK_NB) != 0)
        return crun_create_fail("lock", k->folder, err);
    r = write_bundle(c, id, k, folder, arena, err);
    if (r == 0) {
        fault_point("start the container's monitor");
        r = start_monitor(c, k, lock, err);
        fault_point("the container is made");
    }
    if (r == 0)
        keep_filter(c, id, k);
    return r < 0 ? r : crun_create_watch_monitor(k, err);
}

static void work_create(struct crun_job *j)
{
    struct create *k = j->more;
    struct crun *c = j->crun;
    k->watch = k->target = -1;
    k->by = crun_program_named(c, k->pod.handler);
    if (!k->by) {
        j->code = err_set(&j->err, ERR_UNSUPPORTED, "no runtime for handler \"%.*s\"",
                          STR_ARG(k->pod.handler));
        return;
    }
    k->folder = crun_container_dir(c, j->id, &j->arena).p;
    k->pod_folder = crun_pod_dir(c, k->meta.pod.p, &j->arena).p;
    j->code = image_load(c->images, k->container->image, &j->arena, &k->image, &j->err);
    if (j->code < 0)
        return;
    k->meta.image_id = k->image.name.n ? k->image.name : k->image.id;
    int number = oci_signal(k->image.config.stop_signal);
    k->meta.stop_signal = number ? number : SIGTERM;
    fault_point("make the container's directory");
    // Remove what an interrupted attempt left.
    j->code = crun_container_destroy(c, j->id, k->meta.cgroup, &j->err);
    if (j->code == 0 && k->meta.log.n) {
        cleanup_sbuf struct sbuf above = {0};
        sbuf_add(&above, str_upto(k->meta.log, (size_t)str_rfind_char(k->meta.log, '/')));
        (void)file_make_dirs(above.p, 0755, NULL);
    }
    if (j->code == 0)
        j->code = target_pidns(c, k, &j->arena, &j->err);
    if (j->code == 0)
        j->code = make_bundle(c, j->id, k, &j->arena, &j->err);
    if (k->target >= 0)
        (void)close(k->target);
    if (j->code < 0)
        (void)!crun_container_destroy(c, j->id, k->meta.cgroup, NULL);
}

static void after_create(struct crun_job *j)
{
    struct create *k = j->more;
    list_remove(&k->making);
    if (j->code < 0)
        return;
    struct crun_container *ct = crun_container_add(j->crun, j->id, &k->meta);
    crun_container_update(ct, str_z(k->said));
    crun_watch_start(ct, k->watch);
}

static void before_create(struct crun_job *j)
{
    struct create *k = j->more;
    struct crun_container *there = crun_container_find(j->crun, str_z(j->id));
    const struct crun_pod_meta *m = &j->pod->meta;
    if (there || !j->pod->known || m->stopped) {
        j->work = NULL;
        j->after = NULL;
        list_remove(&k->making);
        if (!there)
            j->code = err_set(&j->err, ERR_NOT_FOUND, "the pod is not there any more");
        return;
    }
    k->pod = *m;
    k->pod.hostname = arena_str(&j->arena, m->hostname);
    k->pod.handler = arena_str(&j->arena, m->handler);
    k->meta.pod_uid = arena_str(&j->arena, m->uid);
    if (m->log_dir.n)
        k->meta.log = arena_strf(&j->arena, "%.*s/%.*s/%u.log", STR_ARG(m->log_dir),
                                 STR_ARG(k->meta.name), k->meta.attempt);
    k->meta.cgroup = arena_strf(&j->arena, "%.*s/%s", STR_ARG(m->cgroup), j->id);
}

struct str crun_image_of_making(const struct list_node *n)
{
    return container_of(n, const struct create, making)->container->image;
}

bool crun_name_ok(struct str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] == '/' || s.p[i] == '\0')
            return false;
    return s.n > 0 && s.n < 250 && !str_eq(s, STR(".")) && !str_eq(s, STR(".."));
}

static void crun_create_refuse(struct crun *c, int code, const char *why, runtime_id_fn done,
                               void *arg)
{
    struct crun_job *j = crun_job_new(c, NULL);
    j->id_done = done;
    j->arg = arg;
    j->code = code;
    (void)err_set(&j->err, -code, "%s", why);
    crun_job_submit(j);
}

void crun_container_create(struct runtime *r, struct str pod_id,
                           const struct runtime_container *container, runtime_id_fn done, void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_pod *p = crun_pod_find(c, pod_id);
    if (!p || !crun_name_ok(container->name) || container->mounts_len > MOUNTS_MAX) {
        crun_create_refuse(
            c, p ? -ERR_INVALID : -ERR_NOT_FOUND,
            p ? "a container needs a name that can be a file's, and at most 512 mounts"
              : "there is no such pod",
            done, arg);
        return;
    }
    struct crun_job *j = crun_job_new(c, p);
    struct create *k = arena_one(&j->arena, struct create);
    crun_container_id(c, pod_id, container->name, container->attempt, j->id);
    k->container = crun_container_copy(container, &j->arena);
    struct str *reference = map_get(&c->references, k->container->image);
    k->meta = (struct crun_container_meta){
        .pod = arena_str(&j->arena, pod_id),
        .name = k->container->name,
        .image = reference ? arena_str(&j->arena, *reference) : k->container->image,
        .log = STR(""),
        .attempt = container->attempt,
        .created_ns = exec_wall_ns(c->exec),
        .boot_id = c->boot_id,
    };
    j->more = k;
    j->id_done = done;
    j->arg = arg;
    j->before = before_create;
    j->work = work_create;
    j->after = after_create;
    list_push_back(&c->making, &k->making);
    crun_job_submit(j);
}

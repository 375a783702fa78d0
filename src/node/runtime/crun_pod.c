// SPDX-License-Identifier: Apache-2.0
//
// Pods: a directory, namespaces, a network, the files that containers find in /etc.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "node/limits/usage.h"
#include "node/runtime/crun_int.h"
#include "node/runtime/podns.h"
#include "os/fault.h"
#include "os/file.h"

#include "base/banned.h"

#define SHM_OPTIONS "mode=1777,size=65536k"
// For the files of /etc, which containers may write to: in memory, so that they cannot fill a disk.
#define ETC_OPTIONS "mode=0755,size=4096k,nr_inodes=64"

struct crun_pod *crun_pod_find(struct crun *c, struct str id)
{
    struct crun_pod **p = map_get(&c->pods, id);
    return p ? *p : NULL;
}

struct crun_pod *crun_pod_add(struct crun *c, const char *id)
{
    struct crun_pod *p = xcalloc(1, sizeof(*p));
    p->crun = c;
    memcpy(p->id, id, sizeof(p->id));
    list_init(&p->jobs);
    *map_put(&c->pods, str_z(p->id)) = p;
    return p;
}

void crun_pod_drop(struct crun_pod *p)
{
    p->gone = true;
    if (p->busy)
        return;
    (void)map_del(&p->crun->pods, str_z(p->id));
    arena_done(&p->arena);
    free(p);
}

// --- Run -----------------------------------------------------------------------------------------

struct run {
    struct runtime_pod pod;
    struct crun_pod_meta meta;
};

struct runtime_pair *crun_pairs_copy(const struct runtime_pair *from, size_t n, struct arena *a)
{
    struct runtime_pair *to = arena_array(a, struct runtime_pair, n + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = (struct runtime_pair){arena_str(a, from[i].name), arena_str(a, from[i].value)};
    return to;
}

static void crun_pod_copy(const struct runtime_pod *from, struct arena *a, struct runtime_pod *to)
{
    *to = *from;
    to->namespace = arena_str(a, from->namespace);
    to->name = arena_str(a, from->name);
    to->uid = arena_str(a, from->uid);
    to->hostname = arena_str(a, from->hostname);
    to->log_dir = arena_str(a, str_z(from->log_dir)).p;
    to->resolv_conf = arena_str(a, from->resolv_conf);
    to->hosts = arena_str(a, from->hosts);
    to->cgroup_parent = arena_str(a, from->cgroup_parent);
    to->handler = arena_str(a, from->handler);
    to->sysctls = crun_pairs_copy(from->sysctls, from->sysctls_len, a);
}

static void crun_pod_copy_meta(const struct crun_pod_meta *from, struct arena *a,
                               struct crun_pod_meta *to)
{
    *to = *from;
    to->namespace = arena_str(a, from->namespace);
    to->name = arena_str(a, from->name);
    to->uid = arena_str(a, from->uid);
    to->hostname = arena_str(a, from->hostname);
    to->log_dir = arena_str(a, from->log_dir);
    to->address = arena_str(a, from->address);
    to->cgroup = arena_str(a, from->cgroup);
    to->boot_id = arena_str(a, from->boot_id);
    to->handler = arena_str(a, from->handler);
}

static int crun_pod_write_files(const char *folder, const struct run *run, struct err *err)
{
    cleanup_sbuf struct sbuf hosts = {0}, hostname = {0}, resolv = {0};
    const struct runtime_pod *p = &run->pod;
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (p->hosts.n)
        sbuf_add(&hosts, p->hosts);
    else if (p->host_network)
        (void)!file_read_at(AT_FDCWD, "/etc/hosts", CRUN_META_BYTES, &hosts);
    if (!hosts.n) {
        sbuf_addz(&hosts, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
                          "fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\n"
                          "fe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n");
        if (run->meta.address.n && p->hostname.n)
            sbuf_addf(&hosts, "%.*s\t%.*s\n", STR_ARG(run->meta.address), STR_ARG(p->hostname));
    }
    if (p->resolv_conf.n)
        sbuf_add(&resolv, p->resolv_conf);
    else // often a link, which is the host's to make
        (void)!file_read("/etc/resolv.conf", 65536, &resolv, NULL);
    sbuf_addf(&hostname, "%.*s\n", STR_ARG(p->hostname));
    fault_point("write the pod's files");
    int r = fd < 0 ? -errno : file_replace_atomic(fd, "hosts", sbuf_str(&hosts), 0644, NULL);
    if (r == 0)
        r = file_replace_atomic(fd, "resolv.conf", sbuf_str(&resolv), 0644, NULL);
    if (r == 0)
        r = file_replace_atomic(fd, "hostname", sbuf_str(&hostname), 0644, NULL);
    return r < 0 ? err_set(err, -r, "cannot write to %s: %s", folder, strerrordesc_np(-r)) : 0;
}

static int crun_pod_mount_memory(const char *folder, const char *name, const char *options,
                                 struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    fault_point("mount the pod's shared memory");
    if (mkdir(path.p, 0755) != 0 && errno != EEXIST)
        return err_set(err, errno, "cannot make %s: %s", path.p, strerrordesc_np(errno));
    if (mount(name, path.p, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) != 0)
        return err_set(err, errno, "cannot mount %s: %s", path.p, strerrordesc_np(errno));
    return 0;
}

static int crun_pod_make_files(const char *folder, const struct run *run, struct err *err)
{
    cleanup_sbuf struct sbuf etc = {0};
    sbuf_addf(&etc, "%s/etc", folder);
    int r = crun_pod_mount_memory(folder, "etc", ETC_OPTIONS, err);
    if (r == 0)
        r = crun_pod_write_files(etc.p, run, err);
    if (r == 0 && !run->pod.host_ipc)
        r = crun_pod_mount_memory(folder, "shm", SHM_OPTIONS, err);
    return r;
}

static int crun_pod_add_network(const struct crun *c, const char *id, const char *folder,
                                struct run *run, struct arena *arena, struct err *err)
{
    cleanup_sbuf struct sbuf netns = {0}, address = {0};
    if (run->pod.host_network || !c->net)
        return 0;
    sbuf_addf(&netns, "%s/ns/net", folder);
    int r = podnet_add(c->net, id, netns.p, &address, err);
    if (r == 0)
        run->meta.address = arena_str(arena, sbuf_str(&address));
    return r;
}

static int crun_pod_make(const struct crun *c, const char *id, struct run *run, struct arena *arena,
                         struct err *err)
{
    struct str folder = crun_pod_dir(c, id, arena);
    const struct podns_options ns = {
        .folder = folder.p,
        .monitor = c->paths.monitor,
        .net = !run->pod.host_network,
        .ipc = !run->pod.host_ipc,
        .uts = !run->pod.host_network,
        .pid = run->pod.share_pid && !run->pod.host_pid,
        .hostname = run->pod.hostname,
        .sysctls = run->pod.sysctls,
        .sysctls_len = run->pod.sysctls_len,
        .users = run->pod.users,
    };
    fault_point("make the pod's directory");
    int r = file_make_dir_at(AT_FDCWD, folder.p, 0711);
    if (r < 0)
        return err_set(err, -r, "cannot make %s: %s", folder.p, strerrordesc_np(-r));
    fault_point("make the pod's namespaces");
    r = podns_make(&ns, err);
    if (r == 0)
        r = crun_pod_add_network(c, id, folder.p, run, arena, err);
    if (r == 0)
        r = crun_pod_make_files(folder.p, run, err);
    if (r == 0 && !c->machine.no_cgroups)
        r = cgroup_make(&c->cgroups, run->meta.cgroup.p, &run->pod.limits, err);
    fault_point("describe the pod");
    // The description comes last: a pod without one was never made.
    return r < 0 ? r : crun_pod_write(c, id, &run->meta, err);
}

void crun_pod_dismantle(const struct crun *c, const char *id, const struct crun_pod_meta *m)
{
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_pod_dir(c, id, &arena);
    fault_point("take the pod's network away");
    if (c->net)
        podnet_remove(c->net, id);
    fault_point("take the pod's namespaces apart");
    podns_remove(folder.p);
    if (m && m->cgroup.n && !c->machine.no_cgroups)
        cgroup_remove(&c->cgroups, m->cgroup.p);
}

static void crun_pod_work_run(struct crun_job *j)
{
    struct run *run = j->more;
    const struct crun *c = j->crun;
    struct str folder = crun_pod_dir(c, j->id, &j->arena);
    // Remove what an interrupted attempt left.
    crun_pod_dismantle(c, j->id, NULL);
    (void)file_remove_tree(folder.p, NULL);
    j->code = crun_pod_make(c, j->id, run, &j->arena, &j->err);
    if (j->code < 0) {
        crun_pod_dismantle(c, j->id, &run->meta);
        (void)file_remove_tree(folder.p, NULL);
    }
}

static void crun_pod_after_run(struct crun_job *j)
{
    const struct run *run = j->more;
    if (j->code < 0) {
        j->pod->gone = true;
        return;
    }
    crun_pod_copy_meta(&run->meta, &j->pod->arena, &j->pod->meta);
    j->pod->known = true;
    j->pod->gone = false;
}

// Reuse an existing, ready sandbox; make a stopped one again.
static void crun_pod_before_run(struct crun_job *j)
{
    if (j->pod->known && !j->pod->meta.stopped) {
        j->work = NULL;
        j->after = NULL;
    }
}

static struct str crun_pod_cgroup(const struct crun *c, struct str parent, struct str uid,
                                  struct arena *arena)
{
    return arena_strf(arena, "/%s/%.*s%spod%.*s", c->cgroup_top, STR_ARG(parent),
                      parent.n ? "/" : "", STR_ARG(uid));
}

static bool crun_pod_add_deleted(void *arg, int64_t pid)
{
    struct usage_deleted *d = arg;
    usage_add_deleted(d, pid);
    return d->left > 0;
}

// crun_pod_measure_disk: the writable layer, and deleted files that processes hold of it and of
// emptyDirs.
static struct usage crun_pod_measure_disk(const struct crun *c, const char *id, const char *group,
                                          struct usage_deleted *deleted, struct arena *arena)
{
    struct usage sum = {0}, before = deleted->usage;
    usage_add_tree(crun_container_dir(c, id, arena).p, &sum);
    if (!c->machine.no_cgroups)
        cgroup_each_pid(&c->cgroups, group, crun_pod_add_deleted, deleted);
    sum.bytes += deleted->usage.bytes - before.bytes;
    sum.files += deleted->usage.files - before.files;
    return sum;
}

void crun_measure(const struct runtime *r, const struct runtime_measure *what,
                  struct runtime_usage *ret)
{
    const struct crun *c = container_of(r, const struct crun, runtime);
    cleanup_arena struct arena arena = {0};
    struct str pod = crun_pod_cgroup(c, what->cgroup_parent, what->uid, &arena);
    ret->memory_bytes = cgroup_memory(&c->cgroups, pod.p);
    ret->processes = cgroup_processes(&c->cgroups, pod.p);
    struct usage_deleted deleted = {.left = USAGE_OPEN_MAX};
    for (size_t i = 0; i < what->containers_len; i++) {
        struct usage layer = {0};
        struct str id = what->containers[i];
        if (!crun_id_ok(id))
            continue;
        struct str group = arena_strf(&arena, "%s/%.*s", pod.p, STR_ARG(id));
        ret->containers[i].memory_bytes = cgroup_memory(&c->cgroups, group.p);
        if (what->disk)
            layer = crun_pod_measure_disk(c, arena_str(&arena, id).p, group.p, &deleted, &arena);
        ret->containers[i].disk_bytes = layer.bytes;
        ret->containers[i].files = layer.files;
    }
    usage_deleted_done(&deleted);
}

void crun_pod_run(struct runtime *rt, const struct runtime_pod *pod, runtime_id_fn done, void *arg)
{
    struct crun *c = crun_of(rt);
    char id[CRUN_ID_LEN + 1];
    crun_pod_id(c, pod->uid, pod->attempt, id);
    struct crun_pod *p = crun_pod_find(c, str_z(id));
    if (!p)
        p = crun_pod_add(c, id);
    struct crun_job *j = crun_job_new(c, p);
    struct run *run = arena_one(&j->arena, struct run);
    memcpy(j->id, id, sizeof(j->id));
    crun_pod_copy(pod, &j->arena, &run->pod);
    run->meta = (struct crun_pod_meta){
        .namespace = run->pod.namespace,
        .name = run->pod.name,
        .uid = run->pod.uid,
        .hostname = run->pod.hostname,
        .log_dir = str_z(run->pod.log_dir),
        .address = STR(""),
        .cgroup = crun_pod_cgroup(c, run->pod.cgroup_parent, run->pod.uid, &j->arena),
        .attempt = pod->attempt,
        .host_network = pod->host_network,
        .host_pid = pod->host_pid,
        .host_ipc = pod->host_ipc,
        .share_pid = pod->share_pid,
        .users = pod->users,
        .handler = run->pod.handler,
        .created_ns = exec_wall_ns(c->exec),
        .boot_id = c->boot_id,
    };
    j->more = run;
    j->id_done = done;
    j->arg = arg;
    j->before = crun_pod_before_run;
    j->work = crun_pod_work_run;
    j->after = crun_pod_after_run;
    bool known = pod->handler.n == 0 || crun_program_named(c, pod->handler);
    if (!crun_name_ok(pod->uid) || !known) {
        j->code = known
                      ? err_set(&j->err, ERR_INVALID, "a pod needs a uid that can be a file's name")
                      : err_set(&j->err, ERR_UNSUPPORTED, "no runtime for handler \"%.*s\"",
                                STR_ARG(pod->handler));
        j->before = NULL;
        j->work = NULL;
        j->after = NULL;
        p->gone = !p->known;
    }
    crun_job_submit(j);
}

// --- Stop, remove --------------------------------------------------------------------------------

struct ending {
    const char **ids; // of its containers
    const struct str *cgroups;
    size_t n;
    struct crun_pod_meta meta;
    bool remove;
};

static int crun_pod_end_containers(struct crun_job *j, const struct ending *e)
{
    int worst = 0;
    for (size_t i = 0; i < e->n; i++) {
        int r = e->remove ? crun_container_destroy(j->crun, e->ids[i], e->cgroups[i], &j->err)
                          : crun_container_kill(j->crun, e->ids[i], e->cgroups[i], &j->err);
        if (r < 0)
            worst = r;
    }
    return worst;
}

// A full disk must not keep a pod alive that perhaps fills it: to remove a description takes no
// room, and a pod without one counts as never made.
static int crun_pod_forget(struct crun_job *j)
{
    struct str folder = crun_pod_dir(j->crun, j->id, &j->arena);
    if (unlink(arena_strf(&j->arena, "%s/meta", folder.p).p) != 0 && errno != ENOENT)
        return j->code;
    j->err = (struct err){0};
    return 0;
}

static void crun_pod_work_end(struct crun_job *j)
{
    struct ending *e = j->more;
    j->code = crun_pod_end_containers(j, e);
    if (j->code < 0)
        return;
    // Recorded first: a pod that is half dismantled is not ready.
    e->meta.stopped = true;
    e->meta.address = STR("");
    fault_point("say that the pod is stopped");
    j->code = crun_pod_write(j->crun, j->id, &e->meta, &j->err);
    if (j->code < 0)
        j->code = crun_pod_forget(j);
    if (j->code < 0)
        return;
    crun_pod_dismantle(j->crun, j->id, &e->meta);
    if (!e->remove)
        return;
    fault_point("remove the pod's directory");
    int r = file_remove_tree(crun_pod_dir(j->crun, j->id, &j->arena).p, NULL);
    if (r < 0)
        j->code = err_set(&j->err, -r, "cannot remove a pod's directory: %s", strerrordesc_np(-r));
}

static void crun_pod_after_end(struct crun_job *j)
{
    const struct ending *e = j->more;
    if (j->code < 0)
        return;
    if (j->pod->known) {
        j->pod->meta.stopped = true;
        j->pod->meta.address = STR("");
    }
    if (!e->remove)
        return;
    for (size_t i = 0; i < e->n; i++) {
        struct crun_container *ct = crun_container_find(j->crun, str_z(e->ids[i]));
        if (ct) {
            (void)map_del(&j->crun->containers, str_z(ct->id));
            crun_container_free(ct);
        }
    }
    j->pod->known = false;
    j->pod->gone = true;
}

// The containers are counted when the work begins, so that one under way is not missed.
static void crun_pod_before_end(struct crun_job *j)
{
    struct crun *c = j->crun;
    struct ending *e = j->more;
    crun_pod_copy_meta(&j->pod->meta, &j->arena, &e->meta);
    const char **ids = arena_array(&j->arena, const char *, map_len(&c->containers) + 1);
    struct str *cgroups = arena_array(&j->arena, struct str, map_len(&c->containers) + 1);
    map_foreach(&c->containers, i) {
        struct crun_container *ct = *map_value(&c->containers, i);
        if (!str_eqz(ct->meta.pod, j->id))
            continue;
        ids[e->n] = arena_str(&j->arena, str_z(ct->id)).p;
        cgroups[e->n++] = arena_str(&j->arena, ct->meta.cgroup);
    }
    e->ids = ids;
    e->cgroups = cgroups;
    if (!j->pod->known) // its making failed, or it was removed before
        j->work = NULL;
}

static void crun_pod_end(struct runtime *rt, struct str id, bool remove, runtime_done_fn done,
                         void *arg)
{
    struct crun *c = crun_of(rt);
    struct crun_pod *p = crun_pod_find(c, id);
    if (!p) {
        crun_answer_later(c, 0, NULL, done, arg);
        return;
    }
    struct crun_job *j = crun_job_new(c, p);
    struct ending *e = arena_one(&j->arena, struct ending);
    memcpy(j->id, p->id, sizeof(j->id));
    e->remove = remove;
    j->more = e;
    j->done = done;
    j->arg = arg;
    j->before = crun_pod_before_end;
    j->work = crun_pod_work_end;
    j->after = crun_pod_after_end;
    crun_job_submit(j);
}

void crun_pod_stop(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    crun_pod_end(r, id, false, done, arg);
}

void crun_pod_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    crun_pod_end(r, id, true, done, arg);
}

const char *crun_pod_netns(struct runtime *r, struct str id)
{
    struct crun_pod *p = crun_pod_find(crun_of(r), id);
    if (!p || !p->known || p->meta.host_network)
        return NULL;
    if (!p->netns)
        p->netns = arena_strf(&p->arena, "%s/pods/%s/ns/net", p->crun->paths.root, p->id).p;
    return p->netns;
}

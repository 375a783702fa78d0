// SPDX-License-Identifier: Apache-2.0
//
// Mounts, namespaces, limits and devices of a container.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "node/oci/oci_int.h"
#include "os/file.h"

#include "base/banned.h"

#define SECCOMP_BYTES_MAX ((size_t)4 << 20)
#define DEVICES_MAX       4096
#define DEVICE_DEPTH_MAX  4

static void oci_write_texts(struct json_writer *w, const char *key, const char *const *texts,
                            size_t n)
{
    json_write_array_in(w, key);
    for (size_t i = 0; i < n; i++)
        json_write_str(w, str_z(texts[i]));
    json_write_array_end(w);
}

int oci_path_check(struct str path, const char *what, struct err *err)
{
    struct str rest = path, part;
    if (path.n == 0 || path.p[0] != '/')
        return err_set(err, ERR_INVALID, "%s '%.*s' must be an absolute path", what,
                       STR_ARG(str_upto(path, 200)));
    while (rest.n > 0) {
        (void)str_cut(rest, '/', &part, &rest);
        if (str_eq(part, STR("..")))
            return err_set(err, ERR_INVALID, "%s '%.*s' may not have '..'", what,
                           STR_ARG(str_upto(path, 200)));
    }
    return 0;
}

// --- Mounts --------------------------------------------------------------------------------------

struct mount {
    const char *destination, *type, *source;
    const char *options[6]; // up to a NULL
};

static void write_mount(struct json_writer *w, const struct mount *m)
{
    size_t n = 0;
    while (n < array_len(m->options) && m->options[n])
        n++;
    json_write_object_begin(w);
    json_write_text(w, "destination", str_z(m->destination));
    json_write_text(w, "type", str_z(m->type));
    json_write_text(w, "source", str_z(m->source));
    oci_write_texts(w, "options", m->options, n);
    json_write_object_end(w);
}

static bool is_same_path(const char *a, const char *b)
{
    size_t n = strlen(a);
    while (n > 1 && a[n - 1] == '/')
        n--;
    return strlen(b) == n && memcmp(a, b, n) == 0;
}

static bool has_mount(const struct runtime_container *c, const char *path)
{
    for (size_t i = 0; i < c->mounts_len; i++)
        if (is_same_path(c->mounts[i].container_path, path))
            return true;
    return false;
}

static void write_kernel_mounts(struct json_writer *w, const struct oci_options *o)
{
    bool privileged = o->container->security.privileged;
    const char *access = privileged ? "rw" : "ro";
    const struct mount rows[] = {
        {"/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}},
        {"/dev", "tmpfs", "tmpfs", {"nosuid", "strictatime", "mode=755", "size=65536k"}},
        {"/dev/pts",
         "devpts",
         "devpts",
         {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
        {"/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}},
        {"/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", access}},
        {"/sys/fs/cgroup", "cgroup", "cgroup", {"nosuid", "noexec", "nodev", "relatime", access}},
    };
    for (size_t i = 0; i < array_len(rows); i++)
        if (!has_mount(o->container, rows[i].destination))
            write_mount(w, &rows[i]);
}

// The source of a bind mount. What has a sub-path, or a user namespace's ids, stands at mounts/N.
static const char *oci_linux_source(const struct oci_options *o, const char *host, const char *sub,
                                    struct arena *arena)
{
    if (!o->pod->userns && !sub[0])
        return host;
    vec_push_arena(arena, o->binds, ((struct oci_bind){host, sub}));
    return arena_strf(arena, "%s/mounts/%zu", o->folder, o->binds->n - 1).p;
}

static void write_pod_mounts(struct json_writer *w, const struct oci_options *o,
                             struct arena *arena)
{
    const char *access = o->container->security.read_only_root ? "ro" : "rw";
    const struct mount shm = {
        "/dev/shm", "tmpfs", "shm", {"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}};
    const struct mount rows[] = {
        {"/dev/shm", "bind", o->pod->shm, {"rbind", "rprivate", "rw"}},
        {"/etc/resolv.conf", "bind", o->pod->resolv_conf, {"rbind", "rprivate", access}},
        {"/etc/hosts", "bind", o->pod->hosts, {"rbind", "rprivate", access}},
        {"/etc/hostname", "bind", o->pod->hostname_file, {"rbind", "rprivate", access}},
    };
    if (!o->pod->shm && !has_mount(o->container, "/dev/shm"))
        write_mount(w, &shm);
    for (size_t i = 0; i < array_len(rows); i++) {
        struct mount m = rows[i];
        if (!m.source || has_mount(o->container, m.destination))
            continue;
        m.source = oci_linux_source(o, m.source, "", arena);
        write_mount(w, &m);
    }
}

struct placed {
    const struct runtime_mount *mount;
    const char *source;
    size_t depth, place;
};

static int oci_linux_by_depth(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static size_t oci_linux_path_depth(const char *path)
{
    size_t n = 0;
    for (; *path; path++)
        n += path[0] == '/' && path[1] != '/' && path[1] != '\0';
    return n;
}

static int write_own_mounts(struct json_writer *w, const struct oci_options *o, struct arena *arena,
                            struct err *err)
{
    static const char *const propagations[] = {"rprivate", "rslave", "rshared"};
    const struct runtime_container *c = o->container;
    struct placed *all = arena_array(arena, struct placed, c->mounts_len + 1);
    for (size_t i = 0; i < c->mounts_len; i++) {
        const struct runtime_mount *m = &c->mounts[i];
        int r = oci_path_check(str_z(m->container_path), "mountPath", err);
        if (r < 0)
            return r;
        const char *source =
            oci_linux_source(o, m->host_path, m->sub_path ? m->sub_path : "", arena);
        all[i] = (struct placed){m, source, oci_linux_path_depth(m->container_path), i};
    }
    // A nested mount follows the mount that contains it.
    qsort(all, c->mounts_len, sizeof(*all), oci_linux_by_depth);
    for (size_t i = 0; i < c->mounts_len; i++) {
        const struct runtime_mount *m = all[i].mount;
        write_mount(w, &(struct mount){m->container_path,
                                       "bind",
                                       all[i].source,
                                       {"rbind", propagations[m->propagation],
                                        !m->read_only  ? "rw"
                                        : m->recursive ? "rro"
                                                       : "ro"}});
    }
    return 0;
}

int oci_write_mounts(struct json_writer *w, const struct oci_options *o, struct arena *arena,
                     struct err *err)
{
    json_write_array_in(w, "mounts");
    write_kernel_mounts(w, o);
    write_pod_mounts(w, o, arena);
    int r = write_own_mounts(w, o, arena, err);
    json_write_array_end(w);
    return r;
}

// --- Namespaces ----------------------------------------------------------------------------------

static void oci_linux_write_namespace(struct json_writer *w, const char *type, const char *path)
{
    json_write_object_begin(w);
    json_write_text(w, "type", str_z(type));
    if (path)
        json_write_text(w, "path", str_z(path));
    json_write_object_end(w);
}

static void oci_linux_write_namespaces(struct json_writer *w, const struct oci_options *o)
{
    const struct oci_pod *p = o->pod;
    json_write_array_in(w, "namespaces");
    oci_linux_write_namespace(w, "mount", NULL);
    if (p->userns)
        oci_linux_write_namespace(w, "user", p->userns);
    if (p->pidns || !p->host_pid)
        oci_linux_write_namespace(w, "pid", p->pidns);
    if (p->netns)
        oci_linux_write_namespace(w, "network", p->netns);
    if (p->ipcns)
        oci_linux_write_namespace(w, "ipc", p->ipcns);
    if (p->utsns)
        oci_linux_write_namespace(w, "uts", p->utsns);
    if (o->unified_cgroups && !o->container->security.privileged)
        oci_linux_write_namespace(w, "cgroup", NULL);
    json_write_array_end(w);
}

static void oci_linux_write_ids(struct json_writer *w, const char *key,
                                const struct runtime_users *users)
{
    json_write_array_in(w, key);
    json_write_object_begin(w);
    json_write_number(w, "containerID", 0);
    json_write_number(w, "hostID", users->base);
    json_write_number(w, "size", users->length);
    json_write_object_end(w);
    json_write_array_end(w);
}

// --- Limits and devices --------------------------------------------------------------------------

static void oci_linux_write_number(struct json_writer *w, const char *key, int64_t v)
{
    if (v)
        json_write_number(w, key, v);
}

static void write_device_rule(struct json_writer *w, bool allow, const char *type, int64_t major,
                              int64_t minor, const char *access)
{
    json_write_object_begin(w);
    json_write_flag(w, "allow", allow);
    if (type)
        json_write_text(w, "type", str_z(type));
    if (major >= 0) {
        json_write_number(w, "major", major);
    }
    if (minor >= 0)
        json_write_number(w, "minor", minor);
    json_write_text(w, "access", str_z(access));
    json_write_object_end(w);
}

static void write_device_rules(struct json_writer *w, bool privileged)
{
    static const struct {
        int64_t major, minor;
    } usual[] = {{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}, {136, -1}};
    json_write_array_in(w, "devices");
    write_device_rule(w, privileged, NULL, -1, -1, "rwm");
    if (!privileged) {
        // Any node may be made; only these may be opened.
        write_device_rule(w, true, "c", -1, -1, "m");
        write_device_rule(w, true, "b", -1, -1, "m");
        for (size_t i = 0; i < array_len(usual); i++)
            write_device_rule(w, true, "c", usual[i].major, usual[i].minor, "rwm");
    }
    json_write_array_end(w);
}

static void write_resources(struct json_writer *w, const struct oci_options *o)
{
    const struct runtime_limits *l = &o->container->limits;
    json_write_object_in(w, "resources");
    write_device_rules(w, o->container->security.privileged);
    if (o->cgroup && l->memory_bytes) {
        json_write_object_in(w, "memory");
        oci_linux_write_number(w, "limit", l->memory_bytes);
        json_write_object_end(w);
    }
    if (o->cgroup && (l->cpu_shares || l->cpu_quota_us || l->cpu_period_us)) {
        json_write_object_in(w, "cpu");
        oci_linux_write_number(w, "shares", l->cpu_shares);
        oci_linux_write_number(w, "quota", l->cpu_quota_us);
        oci_linux_write_number(w, "period", l->cpu_period_us);
        json_write_object_end(w);
    }
    if (o->cgroup && l->pids) {
        json_write_object_in(w, "pids");
        oci_linux_write_number(w, "limit", l->pids);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void oci_linux_write_device(struct json_writer *w, const char *path, const struct stat *st)
{
    json_write_object_begin(w);
    json_write_text(w, "path", str_z(path));
    json_write_text(w, "type", S_ISBLK(st->st_mode) ? STR("b") : STR("c"));
    json_write_number(w, "major", major(st->st_rdev));
    json_write_number(w, "minor", minor(st->st_rdev));
    json_write_number(w, "fileMode", st->st_mode & 0777);
    json_write_number(w, "uid", st->st_uid);
    json_write_number(w, "gid", st->st_gid);
    json_write_object_end(w);
}

// Nodes that every container has, and directories that are mounts.
static bool is_left_out(const char *path)
{
    static const char *const rows[] = {"/dev/null",    "/dev/zero", "/dev/full", "/dev/random",
                                       "/dev/urandom", "/dev/tty",  "/dev/ptmx", "/dev/console",
                                       "/dev/pts",     "/dev/shm",  "/dev/fd",   "/dev/mqueue"};
    for (size_t i = 0; i < array_len(rows); i++)
        if (strcmp(path, rows[i]) == 0)
            return true;
    return false;
}

static void write_host_devices(struct json_writer *w, const char *folder, int depth, size_t *count)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && (e = readdir(d)) && *count < DEVICES_MAX) {
        cleanup_sbuf struct sbuf path = {0};
        struct stat st;
        sbuf_addf(&path, "%s/%s", folder, e->d_name);
        if (e->d_name[0] == '.' || is_left_out(path.p) || lstat(path.p, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) && depth < DEVICE_DEPTH_MAX) {
            write_host_devices(w, path.p, depth + 1, count);
        } else if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
            oci_linux_write_device(w, path.p, &st);
            (*count)++;
        }
    }
    if (d)
        (void)closedir(d);
}

// --- Restrictions --------------------------------------------------------------------------------

static const char *const masked[] = {
    "/proc/acpi",        "/proc/asound",        "/proc/interrupts", "/proc/kcore",
    "/proc/keys",        "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
    "/proc/sched_debug", "/proc/scsi",          "/sys/firmware",    "/sys/devices/virtual/powercap",
};
static const char *const read_only[] = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys",
                                        "/proc/sysrq-trigger"};

int oci_make_seccomp(const struct oci_options *o, const struct oci_caps *caps, struct sbuf *out,
                     struct err *err)
{
    const struct runtime_security *s = &o->container->security;
    struct json_writer w = {.out = out};
    if (s->privileged || o->no_seccomp || s->seccomp == RUNTIME_SECCOMP_UNCONFINED)
        return 0;
    if (s->seccomp == RUNTIME_SECCOMP_DEFAULT) {
        oci_write_seccomp(&w, caps);
        return 0;
    }
    cleanup_sbuf struct sbuf text = {0};
    cleanup_json_doc struct json_doc doc = {0};
    int r = s->seccomp_file ? file_read_at(AT_FDCWD, s->seccomp_file, SECCOMP_BYTES_MAX, &text)
                            : -ENOENT;
    if (r < 0)
        return err_set(err, ERR_INVALID, "cannot load seccomp profile %s: %s",
                       s->seccomp_file ? s->seccomp_file : "", strerrordesc_np(-r));
    r = json_parse(sbuf_str(&text), NULL, &doc, err);
    if (r < 0)
        return err_wrap(err, "seccomp profile %s", s->seccomp_file);
    if (!json_is_object(doc.root))
        return err_set(err, ERR_INVALID, "seccomp profile %s is not an object", s->seccomp_file);
    json_write_value(&w, doc.root);
    return 0;
}

static const char *root_propagation(const struct runtime_container *c)
{
    const char *said = NULL;
    for (size_t i = 0; i < c->mounts_len; i++) {
        if (c->mounts[i].propagation == RUNTIME_BIDIRECTIONAL)
            return "rshared";
        if (c->mounts[i].propagation == RUNTIME_HOST_TO_CONTAINER)
            said = "rslave";
    }
    return said;
}

void oci_write_linux(struct json_writer *w, const struct oci_options *o, struct str seccomp)
{
    const struct runtime_security *s = &o->container->security;
    const char *propagation = root_propagation(o->container);
    size_t devices = 0;
    json_write_object_in(w, "linux");
    oci_linux_write_namespaces(w, o);
    if (o->pod->userns) {
        oci_linux_write_ids(w, "uidMappings", &o->pod->users);
        oci_linux_write_ids(w, "gidMappings", &o->pod->users);
    }
    write_resources(w, o);
    if (o->cgroup)
        json_write_text(w, "cgroupsPath", str_z(o->cgroup));
    if (propagation)
        json_write_text(w, "rootfsPropagation", str_z(propagation));
    if (s->mount_label.n)
        json_write_text(w, "mountLabel", s->mount_label);
    if (s->privileged) {
        json_write_array_in(w, "devices");
        write_host_devices(w, "/dev", 0, &devices);
        json_write_array_end(w);
    } else if (!s->unmasked_proc) {
        oci_write_texts(w, "maskedPaths", masked, array_len(masked));
        oci_write_texts(w, "readonlyPaths", read_only, array_len(read_only));
    }
    if (seccomp.n) {
        json_write_key(w, STR("seccomp"));
        json_write_raw(w, seccomp);
    }
    json_write_object_end(w);
}

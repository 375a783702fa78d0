// SPDX-License-Identifier: Apache-2.0
//
// Finds the cgroup mounts of the machine, kills and removes groups on all of them, and finds the
// processes of an exec by a mark in their environment.
#include "node/runtime/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/clock.h"
#include "base/mem.h"

#include "base/banned.h"

#define DEPTH_MAX 8 // of groups below a container's

// --- Mounts --------------------------------------------------------------------------------------

// One line of mountinfo: ID PARENT DEV ROOT PATH OPTIONS... - TYPE SOURCE SUPER
static void cgroup_add_mount(struct cgroup_layout *l, struct str line)
{
    struct str head = line, field[5], type, rest;
    ptrdiff_t dash = str_find(line, STR(" - "));
    if (dash < 0 || l->n == CGROUP_MOUNTS_MAX)
        return;
    (void)str_cut(str_from(line, (size_t)dash + 3), ' ', &type, &rest);
    bool v2 = str_eq(type, STR("cgroup2"));
    if (!v2 && !str_eq(type, STR("cgroup")))
        return;
    for (size_t i = 0; i < array_len(field); i++)
        (void)str_cut(head, ' ', &field[i], &head);
    ptrdiff_t space = str_rfind_char(rest, ' ');
    struct str options = str_from(rest, (size_t)(space + 1));
    for (size_t i = 0; i < l->n; i++)
        if (str_eqz(field[4], l->mounts[i].path))
            return;
    l->mounts[l->n++] = (struct cgroup_mount){
        .path = xstrndup(field[4].p, field[4].n),
        .controllers = v2 ? NULL : xstrndup(options.p, options.n),
    };
}

static void cgroup_read_file(const char *path, struct sbuf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    while (out->n < (size_t)16 << 20) {
        ssize_t n = read(fd, sbuf_space(out, 8192), 8192);
        if (n <= 0)
            break;
        sbuf_commit(out, (size_t)n);
    }
    (void)close(fd);
}

void cgroup_layout_read(struct cgroup_layout *ret)
{
    cleanup_sbuf struct sbuf text = {0};
    size_t v1 = 0, v2 = 0;
    *ret = (struct cgroup_layout){0};
    cgroup_read_file("/proc/self/mountinfo", &text);
    struct str rest = sbuf_str(&text), line;
    while (rest.n > 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        cgroup_add_mount(ret, line);
    }
    for (size_t i = 0; i < ret->n; i++)
        *(ret->mounts[i].controllers ? &v1 : &v2) += 1;
    ret->unified = v2 > 0 && v1 == 0;
    ret->hybrid = v2 > 0 && v1 > 0;
}

void cgroup_layout_done(struct cgroup_layout *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->mounts[i].path);
        free(l->mounts[i].controllers);
    }
    *l = (struct cgroup_layout){0};
}

static bool cgroup_has_word(struct str text, char separator, const char *word)
{
    struct str one;
    while (text.n > 0) {
        (void)str_cut(text, separator, &one, &text);
        if (str_eqz(str_trim(one), word))
            return true;
    }
    return false;
}

bool cgroup_has(const struct cgroup_layout *l, const char *controller)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct cgroup_mount *m = &l->mounts[i];
        if (m->controllers && cgroup_has_word(str_z(m->controllers), ',', controller))
            return access(m->path, W_OK) == 0;
        if (m->controllers || !l->unified)
            continue;
        if (strcmp(controller, "devices") == 0) // a BPF program there
            return access(m->path, W_OK) == 0;
        cleanup_sbuf struct sbuf path = {0}, text = {0};
        sbuf_addf(&path, "%s/cgroup.controllers", m->path);
        cgroup_read_file(path.p, &text);
        return cgroup_has_word(str_trim(sbuf_str(&text)), ' ', controller) &&
               access(m->path, W_OK) == 0;
    }
    return false;
}

const char *cgroup_hybrid_mount(const struct cgroup_layout *l)
{
    for (size_t i = 0; l->hybrid && i < l->n; i++)
        if (!l->mounts[i].controllers)
            return l->mounts[i].path;
    return NULL;
}

// The directory of a group where a controller is; false: it is nowhere.
static bool cgroup_folder(const struct cgroup_layout *l, const char *path, const char *controller,
                          struct sbuf *out)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct cgroup_mount *m = &l->mounts[i];
        if (m->controllers ? !cgroup_has_word(str_z(m->controllers), ',', controller) : !l->unified)
            continue;
        sbuf_addf(out, "%s/%s", m->path, path[0] == '/' ? path + 1 : path);
        return true;
    }
    return false;
}

// --- Limits --------------------------------------------------------------------------------------

static int cgroup_write(const char *folder, const char *file, const char *value)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, file);
    int fd = open(path.p, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    size_t n = strlen(value);
    int r = write(fd, value, n) == (ssize_t)n ? 0 : -errno;
    (void)close(fd);
    return r;
}

// Makes a directory and those above it, down from a mount; version 2 passes controllers on level by
// level.
static int cgroup_make_folders(const struct cgroup_layout *l, const char *folder)
{
    static const char *const passed[] = {"+cpu", "+memory", "+pids"};
    cleanup_sbuf struct sbuf path = {0};
    for (const char *at = folder + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        sbuf_clear(&path);
        sbuf_add(&path, str_make(folder, (size_t)(at - folder)));
        bool made = mkdir(path.p, 0755) == 0;
        if (!made && errno != EEXIST)
            return -errno;
        if (made && chmod(path.p, 0755) != 0) // users of a pod's namespace read their own group
            return -errno;
        if (*at == '\0')
            return 0;
        for (size_t i = 0; l->unified && i < array_len(passed); i++)
            (void)cgroup_write(path.p, "cgroup.subtree_control", passed[i]); // what there is
    }
}

// A limit as a file of one version or the other.
struct cgroup_row {
    const char *controller, *v1, *v2;
    int64_t value;
};

static int cgroup_set_limit(const struct cgroup_layout *l, const char *path,
                            const struct cgroup_row *row, struct err *err)
{
    cleanup_sbuf struct sbuf folder = {0}, text = {0};
    const char *file = l->unified ? row->v2 : row->v1;
    if (row->value == 0 || !file || !cgroup_folder(l, path, row->controller, &folder))
        return 0;
    int r = cgroup_make_folders(l, folder.p);
    sbuf_addf(&text, "%lld", (long long)row->value);
    if (r == 0)
        r = cgroup_write(folder.p, file, text.p);
    return r < 0 ? err_set(err, -r, "cannot set %s of %s: %s", file, folder.p, strerrordesc_np(-r))
                 : 0;
}

// Version 2 has both numbers of a quota in one file.
static int cgroup_set_quota(const struct cgroup_layout *l, const char *path,
                            const struct runtime_limits *limits)
{
    cleanup_sbuf struct sbuf folder = {0}, text = {0};
    if (!l->unified || !limits->cpu_quota_us || !cgroup_folder(l, path, "cpu", &folder))
        return 0;
    sbuf_addf(&text, "%lld %lld", (long long)limits->cpu_quota_us,
              (long long)limits->cpu_period_us);
    return cgroup_write(folder.p, "cpu.max", text.p);
}

int cgroup_make(const struct cgroup_layout *l, const char *path,
                const struct runtime_limits *limits, struct err *err)
{
    int64_t shares = limits->cpu_shares;
    // The weights of version 2 are 1 to 10000, shares 2 to 262144.
    int64_t v2_weight = shares ? 1 + (shares - 2) * 9999 / 262142 : 0;
    const struct cgroup_row rows[] = {
        {"pids", "pids.max", "pids.max", limits->pids},
        {"memory", "memory.limit_in_bytes", "memory.max", limits->memory_bytes},
        {"cpu", "cpu.shares", "cpu.weight", l->unified ? v2_weight : shares},
        {"cpu", "cpu.cfs_period_us", NULL, limits->cpu_period_us},
        {"cpu", "cpu.cfs_quota_us", NULL, limits->cpu_quota_us},
    };
    int r = 0;
    for (size_t i = 0; r == 0 && i < array_len(rows); i++)
        r = cgroup_set_limit(l, path, &rows[i], err);
    if (r < 0)
        return r;
    r = cgroup_set_quota(l, path, limits);
    return r < 0 ? err_set(err, -r, "cannot set cpu.max of %s: %s", path, strerrordesc_np(-r)) : 0;
}

// --- Usage ---------------------------------------------------------------------------------------

static int64_t cgroup_read_number(const char *folder, const char *file)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    int64_t n;
    sbuf_addf(&path, "%s/%s", folder, file);
    cgroup_read_file(path.p, &text);
    return str_to_i64(str_trim(sbuf_str(&text)), &n) == 0 && n > 0 ? n : 0;
}

// A line "KEY NUMBER" of a file; 0: there is none.
static int64_t cgroup_read_row(const char *folder, const char *file, const char *key)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    sbuf_addf(&path, "%s/%s", folder, file);
    cgroup_read_file(path.p, &text);
    struct str rest = sbuf_str(&text), line, name, value;
    int64_t n;
    while (rest.n > 0) {
        (void)str_cut(rest, '\n', &line, &rest);
        if (str_cut(line, ' ', &name, &value) && str_eqz(name, key))
            return str_to_i64(value, &n) == 0 ? n : 0;
    }
    return 0;
}

int64_t cgroup_memory(const struct cgroup_layout *l, const char *path)
{
    cleanup_sbuf struct sbuf folder = {0};
    if (!cgroup_folder(l, path, "memory", &folder))
        return 0;
    int64_t used =
        cgroup_read_number(folder.p, l->unified ? "memory.current" : "memory.usage_in_bytes");
    int64_t idle = cgroup_read_row(folder.p, "memory.stat",
                                   l->unified ? "inactive_file" : "total_inactive_file");
    return used > idle ? used - idle : 0;
}

int64_t cgroup_processes(const struct cgroup_layout *l, const char *path)
{
    cleanup_sbuf struct sbuf folder = {0};
    return cgroup_folder(l, path, "pids", &folder) ? cgroup_read_number(folder.p, "pids.current")
                                                   : 0;
}

// --- Processes -----------------------------------------------------------------------------------

struct walk {
    bool (*pid)(void *arg, int64_t pid);
    void *arg;
    bool remove;
    bool stopped;
};

static void each_pid_of(const char *folder, struct walk *w)
{
    cleanup_sbuf struct sbuf path = {0}, text = {0};
    sbuf_addf(&path, "%s/cgroup.procs", folder);
    cgroup_read_file(path.p, &text);
    struct str rest = sbuf_str(&text), line;
    while (rest.n > 0 && !w->stopped) {
        int64_t pid;
        (void)str_cut(rest, '\n', &line, &rest);
        if (str_to_i64(line, &pid) == 0 && pid > 1 && !w->pid(w->arg, pid))
            w->stopped = true;
    }
}

// Children first.
static void walk_group(const char *folder, struct walk *w, int depth)
{
    DIR *d = depth < DEPTH_MAX ? opendir(folder) : NULL;
    struct dirent *e;
    if (!d)
        return;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (!w->stopped && (e = readdir(d))) {
        if (e->d_type != DT_DIR || e->d_name[0] == '.')
            continue;
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s/%s", folder, e->d_name);
        walk_group(path.p, w, depth + 1);
    }
    (void)closedir(d);
    if (w->pid)
        each_pid_of(folder, w);
    if (w->remove)
        (void)rmdir(folder);
}

static void walk_all(const struct cgroup_layout *l, const char *path, struct walk *w)
{
    if (!path || !path[0])
        return;
    for (size_t i = 0; i < l->n && !w->stopped; i++) {
        cleanup_sbuf struct sbuf folder = {0};
        sbuf_addf(&folder, "%s/%s", l->mounts[i].path, path[0] == '/' ? path + 1 : path);
        walk_group(folder.p, w, 0);
    }
}

void cgroup_each_pid(const struct cgroup_layout *l, const char *path,
                     bool (*fn)(void *arg, int64_t pid), void *arg)
{
    struct walk w = {.pid = fn, .arg = arg};
    walk_all(l, path, &w);
}

static bool cgroup_kill_process(void *arg, int64_t pid)
{
    size_t *found = arg;
    (*found)++;
    (void)kill((pid_t)pid, SIGKILL);
    return true;
}

bool cgroup_kill(const struct cgroup_layout *l, const char *path, int64_t wait_ns)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = clock_mono_ns(clock) + wait_ns;
    int64_t pause_ns = CLOCK_NS_PER_MS / 4;
    while (true) {
        size_t found = 0;
        struct walk w = {.pid = cgroup_kill_process, .arg = &found};
        walk_all(l, path, &w);
        if (found == 0)
            return true;
        if (clock_mono_ns(clock) >= end_ns)
            return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (pause_ns < 16 * CLOCK_NS_PER_MS)
            pause_ns *= 2;
    }
}

void cgroup_remove(const struct cgroup_layout *l, const char *path)
{
    struct walk w = {.remove = true};
    walk_all(l, path, &w);
}

static bool counts_kill(const char *folder, const char *file)
{
    return cgroup_read_row(folder, file, "oom_kill") > 0;
}

bool cgroup_oom_killed(const struct cgroup_layout *l, const char *path)
{
    if (!path || !path[0])
        return false;
    for (size_t i = 0; i < l->n; i++) {
        const struct cgroup_mount *m = &l->mounts[i];
        cleanup_sbuf struct sbuf folder = {0};
        sbuf_addf(&folder, "%s/%s", m->path, path[0] == '/' ? path + 1 : path);
        if (m->controllers ? cgroup_has_word(str_z(m->controllers), ',', "memory") &&
                                 counts_kill(folder.p, "memory.oom_control")
                           : counts_kill(folder.p, "memory.events"))
            return true;
    }
    return false;
}

// --- Commands in a container ---------------------------------------------------------------------

struct marked {
    struct str mark;
    size_t found;
};

static bool kill_if_marked(void *arg, int64_t pid)
{
    struct marked *m = arg;
    char path[48];
    cleanup_sbuf struct sbuf env = {0};
    (void)snprintf(path, sizeof(path), "/proc/%lld/environ", (long long)pid);
    cgroup_read_file(path, &env);
    if (str_contains(sbuf_str(&env), m->mark)) {
        m->found++;
        (void)kill((pid_t)pid, SIGKILL);
    }
    return true;
}

static void cgroup_each_process(bool (*fn)(void *arg, int64_t pid), void *arg)
{
    DIR *d = opendir("/proc");
    struct dirent *e;
    int64_t pid;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && (e = readdir(d)))
        if (str_to_i64(str_z(e->d_name), &pid) == 0 && pid > 1)
            (void)fn(arg, pid);
    if (d)
        (void)closedir(d);
}

void cgroup_kill_marked(const struct cgroup_layout *l, const char *path, const char *mark,
                        int64_t wait_ns)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = clock_mono_ns(clock) + wait_ns;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, CGROUP_MARK "%s", mark);
    // Two passes without a match: a process that forked during the first is found by the second.
    for (int quiet = 0; quiet < 2 && clock_mono_ns(clock) < end_ns;) {
        struct marked m = {.mark = sbuf_str(&text)};
        if (path && path[0])
            cgroup_each_pid(l, path, kill_if_marked, &m);
        else
            cgroup_each_process(kill_if_marked, &m);
        quiet = m.found ? 0 : quiet + 1;
        if (m.found)
            (void)nanosleep(&(struct timespec){.tv_nsec = CLOCK_NS_PER_MS}, NULL);
    }
}

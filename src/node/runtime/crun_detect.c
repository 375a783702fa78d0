// SPDX-License-Identifier: Apache-2.0
//
// Detects the machine's OCI runtime, control groups and overlay support. Each missing feature is
// reported in a line each.
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/mount.h>
#include <sys/stat.h>

#include "node/runtime/crun_int.h"
#include "node/runtime/podns.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

static void crun_detect_add_missing(struct crun *c, const char *what)
{
    vec_push_arena(&c->arena, &c->not_enforced, arena_str(&c->arena, str_z(what)));
}

// --- Programs ------------------------------------------------------------------------------------

static int crun_detect_monitor(struct crun *c, const char *said, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    char self[4096];
    if (said) {
        sbuf_addz(&path, said);
    } else {
        ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
        struct str exe = str_make(self, n > 0 ? (size_t)n : 0);
        sbuf_add(&path, str_upto(exe, (size_t)(str_rfind_char(exe, '/') + 1)));
        sbuf_addz(&path, "dray-monitor");
    }
    cleanup_free char *real = realpath(path.p, NULL);
    if (!real || access(real, X_OK) != 0)
        return err_set(err, ERR_UNSUPPORTED, "there is no %s; install dray-monitor beside dray",
                       path.p);
    c->paths.monitor = arena_str(&c->arena, str_z(real)).p;
    return 0;
}

// A bare name is looked for on PATH; monitors get the whole path.
static int crun_detect_path(struct crun *c, const char *said, const char **ret, struct err *err)
{
    cleanup_sbuf struct sbuf path = {0};
    if (said && strchr(said, '/'))
        sbuf_addz(&path, said);
    else if (said && !process_find(said, &path))
        return err_set(err, ERR_UNSUPPORTED,
                       "the runtime '%s' is not on PATH; install it, or name its path", said);
    else if (!said && !process_find("crun", &path) && !process_find("runc", &path))
        return err_set(err, ERR_UNSUPPORTED,
                       "there is neither crun nor runc; install one (apt-get install crun)");
    cleanup_free char *real = realpath(path.p, NULL);
    struct stat st;
    if (!real || stat(real, &st) != 0 || !S_ISREG(st.st_mode) || access(real, X_OK) != 0)
        return err_set(err, ERR_UNSUPPORTED, "the runtime '%s' is not a program", path.p);
    *ret = arena_str(&c->arena, str_z(real)).p;
    return 0;
}

// "crun version 1.8.1\n...+SECCOMP...", "runc version 1.1.5\n...libseccomp: 2.5.4". Another program
// is taken as the type that it is said to have.
static int crun_detect_version(struct crun *c, struct str type, struct crun_program *p,
                               struct err *err)
{
    cleanup_sbuf struct sbuf said = {0};
    const char *argv[] = {p->path, "--version", NULL};
    const struct process run = {.argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = CRUN_CALL_NS};
    int r = process_run(&run, &said, err);
    if (r < 0)
        return r;
    if (r > 0)
        return err_set(err, ERR_UNSUPPORTED, "%s --version ended with %d", p->path, r);
    struct str text = sbuf_str(&said), first, rest, name, version;
    (void)str_cut(text, '\n', &first, &rest);
    (void)str_cut(first, ' ', &name, &version);
    if (type.n == 0 && !str_eqz(name, "crun") && !str_eqz(name, "runc"))
        return err_set(err, ERR_UNSUPPORTED, "%s is neither crun nor runc", p->path);
    if (str_starts(version, STR("version ")))
        version = str_from(version, 8);
    p->is_crun = str_eqz(type.n ? type : name, "crun");
    p->version = arena_strf(&c->arena, "%.*s %.*s", STR_ARG(name), STR_ARG(str_trim(version)));
    p->no_seccomp = !str_contains(text, p->is_crun ? STR("+SECCOMP") : STR("libseccomp"));
    if (p->name.n == 0)
        p->name = arena_str(&c->arena, name);
    return 0;
}

// The default keeps its state in crun/, others in state-NAME/: formats differ.
static int crun_detect_add_program(struct crun *c, struct str name, const char *said,
                                   struct str type, struct err *err)
{
    struct crun_program p = {.name = arena_str(&c->arena, name)};
    int r = crun_detect_path(c, said, &p.path, err);
    if (r == 0)
        r = crun_detect_version(c, type, &p, err);
    if (r < 0)
        return r;
    p.state = c->programs.n == 0
                  ? arena_strf(&c->arena, "%s/crun", c->paths.root).p
                  : arena_strf(&c->arena, "%s/state-%.*s", c->paths.root, STR_ARG(p.name)).p;
    r = file_make_dirs(p.state, 0700, NULL);
    if (r < 0 || chmod(p.state, 0700) != 0)
        return err_set(err, r < 0 ? -r : errno, "cannot make %s: %s", p.state,
                       strerrordesc_np(r < 0 ? -r : errno));
    vec_push_arena(&c->arena, &c->programs, p);
    return 0;
}

static bool crun_detect_is_label(struct str name)
{
    for (size_t i = 0; i < name.n; i++)
        if (!(name.p[i] >= 'a' && name.p[i] <= 'z') && !(name.p[i] >= '0' && name.p[i] <= '9') &&
            name.p[i] != '-')
            return false;
    return name.n > 0 && name.n < 64;
}

// "NAME=PATH[,type=crun|runc]"
static int crun_detect_handler(struct crun *c, const char *text, struct err *err)
{
    struct str name, rest, path, type;
    if (!str_cut(str_z(text), '=', &name, &rest) || !crun_detect_is_label(name))
        return err_set(err, ERR_INVALID, "--runtime-handler '%s': write NAME=PATH[,type=crun|runc]",
                       text);
    (void)str_cut(rest, ',', &path, &type);
    if (type.n && !str_eqz(type, "type=crun") && !str_eqz(type, "type=runc"))
        return err_set(err, ERR_INVALID, "--runtime-handler '%s': the type is crun or runc", text);
    if (crun_program_named(c, name))
        return err_set(err, ERR_INVALID, "--runtime-handler '%s': there is such a handler already",
                       text);
    int r = crun_detect_add_program(c, name, arena_str(&c->arena, path).p,
                                    type.n ? str_from(type, 5) : STR(""), err);
    return r < 0 ? err_wrap(err, "--runtime-handler '%s'", text) : 0;
}

static int crun_detect_programs(struct crun *c, const struct runtime_crun_options *o,
                                struct err *err)
{
    static const char *const usual[] = {"crun", "runc"};
    int r = crun_detect_add_program(c, STR(""), o->runtime, STR(""), err);
    for (size_t i = 0; r == 0 && i < o->handlers_len; i++)
        r = crun_detect_handler(c, o->handlers[i], err);
    for (size_t i = 0; r == 0 && i < array_len(usual); i++) // one that does not work is not there
        if (!crun_program_named(c, str_z(usual[i])))
            (void)!crun_detect_add_program(c, str_z(usual[i]), usual[i], STR(""), NULL);
    return r;
}

const struct crun_program *crun_program_named(const struct crun *c, struct str name)
{
    if (name.n == 0)
        return c->programs.p;
    vec_foreach(&c->programs, p)
        if (str_eq(p->name, name))
            return p;
    return NULL;
}

const struct crun_program *crun_program_of(const struct crun *c, const char *id)
{
    vec_foreach(&c->programs, p)
        if (crun_has_file(p->state, id))
            return p;
    return c->programs.p;
}

// --- Kernel features -----------------------------------------------------------------------------

static void crun_detect_cgroups(struct crun *c)
{
    static const struct {
        const char *controller, *line;
    } rows[] = {
        {"memory", "memory limits are not enforced: no memory controller can be used here"},
        {"cpu", "CPU limits and shares are not enforced: no cpu controller can be used here"},
        {"pids", "limits on processes are not enforced: no pids controller can be used here"},
        {"devices",
         "device access is not restricted by control groups: no devices controller here"},
    };
    cgroup_layout_read(&c->cgroups);
    size_t usable = 0;
    for (size_t i = 0; i < array_len(rows); i++)
        usable += cgroup_has(&c->cgroups, rows[i].controller);
    c->machine.no_cgroups = usable == 0;
    for (size_t i = 0; i < array_len(rows); i++)
        if (!cgroup_has(&c->cgroups, rows[i].controller))
            crun_detect_add_missing(c, rows[i].line);
    if (cgroup_hybrid_mount(&c->cgroups)) // crun refuses a machine with both
        c->paths.hide = cgroup_hybrid_mount(&c->cgroups);
}

// Tries an overlay of empty directories, in a mount namespace that goes with the thread.
static void *crun_detect_try_overlay(void *arg)
{
    const char *folder = arg;
    cleanup_sbuf struct sbuf options = {0};
    sbuf_addf(&options, "lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", folder, folder,
              folder);
    cleanup_sbuf struct sbuf to = {0};
    sbuf_addf(&to, "%s/merged", folder);
    bool works = unshare(CLONE_FS | CLONE_NEWNS) == 0 &&
                 mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL) == 0 &&
                 mount("overlay", to.p, "overlay", 0, options.p) == 0;
    return works ? arg : NULL;
}

static void crun_detect_overlay(struct crun *c)
{
    static const char *const parts[] = {"lower", "upper", "work", "merged"};
    cleanup_sbuf struct sbuf folder = {0};
    pthread_t thread;
    void *works = NULL;
    sbuf_addf(&folder, "%s/probe", c->paths.root);
    for (size_t i = 0; i < array_len(parts); i++) {
        cleanup_sbuf struct sbuf part = {0};
        sbuf_addf(&part, "%s/%s", folder.p, parts[i]);
        (void)file_make_dirs(part.p, 0700, NULL);
    }
    // Names with a comma or a colon would be options; the monitor does without names.
    if (strpbrk(c->paths.root, ",:\\"))
        works = folder.p;
    else if (pthread_create(&thread, NULL, crun_detect_try_overlay, folder.p) == 0)
        (void)pthread_join(thread, &works);
    (void)file_remove_tree(folder.p, NULL);
    c->machine.no_overlay = !works;
    if (c->machine.no_overlay)
        crun_detect_add_missing(
            c, "root file systems are copied for each container: overlayfs does not work here");
}

// Tries all that a pod with a user namespace needs, in a process that then ends.
static void crun_detect_users(struct crun *c)
{
    static const char *const parts[] = {"lower/proc", "lower/sys", "upper", "work", "rootfs", "ns"};
    cleanup_sbuf struct sbuf folder = {0}, said = {0}, file = {0};
    sbuf_addf(&folder, "%s/probe", c->paths.root);
    for (size_t i = 0; i < array_len(parts); i++) {
        cleanup_sbuf struct sbuf part = {0};
        sbuf_addf(&part, "%s/%s", folder.p, parts[i]);
        (void)file_make_dirs(part.p, 0755, NULL);
    }
    sbuf_addf(&file, "%s/lower/file", folder.p);
    (void)!file_replace_atomic(AT_FDCWD, file.p, STR("x"), 0644, NULL);
    const char *argv[] = {c->paths.monitor, "probe", folder.p, NULL};
    const struct process p = {
        .argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = 30 * CLOCK_NS_PER_SEC};
    int r = c->machine.no_overlay || c->machine.no_cgroups ? -1 : process_run(&p, &said, NULL);
    podns_remove(folder.p);
    (void)file_remove_tree(folder.p, NULL);
    if (r == 0)
        return;
    c->features.no_users = said.n ? arena_str(&c->arena, sbuf_str(&said)).p
                                  : "it has no overlayfs or no control groups";
    crun_detect_add_missing(
        c, arena_strf(&c->arena, "pods cannot have user namespaces: %s", c->features.no_users).p);
}

// Makes a mount read-only with all below it, in a mount namespace that goes with the thread.
static void *crun_detect_try_read_only(void *arg)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};
    bool works = unshare(CLONE_FS | CLONE_NEWNS) == 0 &&
                 mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0 &&
                 mount("/proc", "/proc", NULL, MS_BIND | MS_REC, NULL) == 0 &&
                 mount_setattr(AT_FDCWD, "/proc", AT_RECURSIVE, &attr, sizeof(attr)) == 0;
    return works ? arg : NULL;
}

// runc before 1.2 cannot run commands in a user namespace that it did not make itself.
static bool crun_detect_joins_users(const struct crun_program *p)
{
    struct str name, version, major, minor, rest;
    int64_t a = 0, b = 0;
    if (p->is_crun)
        return true;
    return str_cut(p->version, ' ', &name, &version) && str_cut(version, '.', &major, &rest) &&
           str_cut(rest, '.', &minor, &rest) && str_to_i64(major, &a) == 0 &&
           str_to_i64(minor, &b) == 0 && (a > 1 || (a == 1 && b >= 2));
}

static void crun_detect_features(struct crun *c)
{
    cleanup_sbuf struct sbuf apparmor = {0};
    pthread_t thread;
    void *works = NULL;
    if (pthread_create(&thread, NULL, crun_detect_try_read_only, c) == 0)
        (void)pthread_join(thread, &works);
    c->features.recursive_read_only = works;
    (void)!file_read_at(AT_FDCWD, "/sys/module/apparmor/parameters/enabled", 16, &apparmor);
    c->features.apparmor = apparmor.n && apparmor.p[0] == 'Y' &&
                           access("/sys/kernel/security/apparmor/profiles", R_OK) == 0;
    c->features.selinux = access("/sys/fs/selinux/enforce", F_OK) == 0;
    struct runtime_handler *all = arena_array(&c->arena, struct runtime_handler, c->programs.n);
    for (size_t i = 0; i < c->programs.n; i++)
        all[i] = (struct runtime_handler){c->programs.p[i].name,
                                          crun_detect_joins_users(&c->programs.p[i])};
    c->features.handlers = all;
    c->features.handlers_len = c->programs.n;
}

int crun_detect(struct crun *c, const struct runtime_crun_options *o, struct err *err)
{
    cleanup_sbuf struct sbuf boot = {0};
    int r = crun_detect_monitor(c, o->monitor, err);
    if (r == 0)
        r = crun_detect_programs(c, o, err);
    if (r < 0)
        return r;
    c->version = c->programs.p[0].version;
    if (o->boot_id)
        sbuf_addz(&boot, o->boot_id);
    else
        (void)!file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &boot);
    c->boot_id = arena_str(&c->arena, str_trim(sbuf_str(&boot)));
    // Filters of one version of crun may not suit another.
    c->paths.filters =
        arena_strf(&c->arena, "%s/filters/%.*s", c->paths.root, STR_ARG(c->version)).p;
    (void)file_make_dirs(c->paths.filters, 0700, NULL);
    crun_detect_cgroups(c);
    crun_detect_overlay(c);
    crun_detect_features(c);
    crun_detect_users(c);
    if (c->programs.p[0].no_seccomp)
        crun_detect_add_missing(
            c, "system calls are not restricted: the runtime was built without seccomp");
    crun_detect_add_missing(
        c, "pods reach the node and each other, not other networks: there is no address "
           "translation");
    return 0;
}

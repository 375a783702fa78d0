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
static int crun_detect_program(struct crun *c, const char *said, struct err *err)
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
    c->paths.program = arena_str(&c->arena, str_z(real)).p;
    return 0;
}

// "crun version 1.8.1\n...+SECCOMP...", "runc version 1.1.5\n...libseccomp: 2.5.4".
static int crun_detect_version(struct crun *c, struct err *err)
{
    cleanup_sbuf struct sbuf said = {0};
    const char *argv[] = {c->paths.program, "--version", NULL};
    const struct process p = {.argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = CRUN_CALL_NS};
    int r = process_run(&p, &said, err);
    if (r < 0)
        return r;
    if (r > 0)
        return err_set(err, ERR_UNSUPPORTED, "%s --version ended with %d", c->paths.program, r);
    if (!str_starts(sbuf_str(&said), STR("crun ")) && !str_starts(sbuf_str(&said), STR("runc ")))
        return err_set(err, ERR_UNSUPPORTED, "%s is neither crun nor runc", c->paths.program);
    struct str text = sbuf_str(&said), first, rest, name, version;
    (void)str_cut(text, '\n', &first, &rest);
    (void)str_cut(first, ' ', &name, &version);
    if (str_starts(version, STR("version ")))
        version = str_from(version, 8);
    c->machine.is_crun = str_eq(name, STR("crun"));
    c->version = arena_strf(&c->arena, "%.*s %.*s", STR_ARG(name), STR_ARG(str_trim(version)));
    c->machine.no_seccomp = c->machine.is_crun ? !str_contains(text, STR("+SECCOMP"))
                                               : !str_contains(text, STR("libseccomp"));
    return 0;
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
    if (c->machine.is_crun && cgroup_hybrid_mount(&c->cgroups))
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

int crun_detect(struct crun *c, const struct runtime_crun_options *o, struct err *err)
{
    cleanup_sbuf struct sbuf boot = {0};
    int r = crun_detect_monitor(c, o->monitor, err);
    if (r == 0)
        r = crun_detect_program(c, o->runtime, err);
    if (r == 0)
        r = crun_detect_version(c, err);
    if (r < 0)
        return r;
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
    if (c->machine.no_seccomp)
        crun_detect_add_missing(
            c, "system calls are not restricted: the runtime was built without seccomp");
    if (access("/sys/kernel/security/apparmor", F_OK) == 0)
        crun_detect_add_missing(c, "AppArmor profiles are not applied");
    crun_detect_add_missing(
        c, "pods reach the node and each other, not other networks: there is no address "
           "translation");
    return 0;
}

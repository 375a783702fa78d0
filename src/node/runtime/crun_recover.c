// SPDX-License-Identifier: Apache-2.0
//
// Recovery at the start: adopts pods and containers of the directory, removes incomplete ones.
//
// A pod without a description was never made. A container whose monitor lives is taken over,
// whatever it is about to do; one without a monitor and without an end had its monitor killed, or
// the machine went down; one that was not made to its end is removed. Nothing here believes that a
// process id is still the same process.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "node/monitor/monitor_plan.h"
#include "node/runtime/crun_int.h"
#include "os/file.h"

#include "base/banned.h"

static bool crun_recover_monitor_lives(const char *folder)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/lock", folder);
    cleanup_fd int fd = open(path.p, O_RDWR | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

// --- Pods ----------------------------------------------------------------------------------------

static void crun_recover_pod(struct crun *c, const char *id)
{
    struct arena arena = {0};
    struct crun_pod_meta meta;
    struct str folder = crun_pod_dir(c, id, &arena);
    if (!crun_id_ok(str_z(id)) || crun_pod_read(folder.p, &arena, &meta) < 0) {
        crun_pod_dismantle(c, id, NULL);
        (void)file_remove_tree(folder.p, NULL);
        arena_done(&arena);
        return;
    }
    struct crun_pod *p = crun_pod_add(c, id);
    p->arena = arena;
    p->meta = meta;
    p->known = true;
    if (!str_eq(meta.boot_id, c->boot_id) && !meta.stopped) {
        // Its namespaces ended with the last boot.
        p->meta.stopped = true;
        p->meta.address = STR("");
        crun_pod_dismantle(c, id, &p->meta);
        (void)!crun_pod_write(c, id, &p->meta, NULL);
    }
}

// --- Containers ----------------------------------------------------------------------------------

// A monitor that has just been started may still make its container; it answers when it has.
static bool crun_recover_adopt(struct crun *c, const char *id,
                               const struct crun_container_meta *meta, const char *folder)
{
    char said[MONITOR_PACKET_MAX];
    int fd = crun_monitor_send(folder, "watch");
    if (fd < 0)
        return false;
    ssize_t n = crun_monitor_receive(fd, said, sizeof(said), CRUN_CALL_NS);
    if (n <= 0) {
        (void)close(fd);
        return false;
    }
    struct crun_container *ct = crun_container_add(c, id, meta);
    crun_container_update(ct, str_make(said, (size_t)n));
    if (ct->status.state == RUNTIME_EXITED)
        (void)close(fd);
    else
        crun_watch_start(ct, fd);
    return true;
}

// Ends commands whose caller is gone.
static void crun_recover_end_commands(const struct crun *c, const char *folder, struct str cgroup)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "exec-", 5) != 0)
            continue;
        cgroup_kill_marked(&c->cgroups, c->machine.no_cgroups ? "" : cgroup.p, e->d_name,
                           10 * CLOCK_NS_PER_SEC);
        (void)file_remove_tree_at(dirfd(d), e->d_name);
    }
    if (d)
        (void)closedir(d);
}

static void crun_recover_ended(struct crun *c, const char *id,
                               const struct crun_container_meta *meta, const char *folder)
{
    bool same_boot = str_eq(meta->boot_id, c->boot_id);
    bool had_end = crun_has_file(folder, "exit");
    struct err err = {0};
    (void)!crun_container_kill(c, id, same_boot ? meta->cgroup : STR(""), &err);
    struct crun_container *ct = crun_container_add(c, id, meta);
    ct->status.started_ns = crun_container_read_time(folder, "started");
    if (!crun_container_read_end(folder, &ct->status)) {
        ct->status.state = RUNTIME_UNKNOWN;
        ct->status.message = arena_str(&ct->arena, str_z(err.msg));
    } else if (!had_end) {
        ct->status.message =
            same_boot ? STR("the container's monitor was killed, and the container with it")
                      : STR("the machine was restarted");
    }
}

static void crun_recover_container(struct crun *c, const char *id)
{
    cleanup_arena struct arena arena = {0};
    struct crun_container_meta meta = {.cgroup = STR("")};
    struct str folder = crun_container_dir(c, id, &arena);
    bool readable = crun_id_ok(str_z(id)) && crun_container_read(folder.p, &arena, &meta) == 0;
    bool pod_known = readable && crun_pod_find(c, meta.pod);
    if (pod_known) {
        crun_recover_end_commands(c, folder.p, meta.cgroup);
        for (int tries = 0; tries < 3 && crun_recover_monitor_lives(folder.p); tries++)
            if (crun_recover_adopt(c, id, &meta, folder.p))
                return;
        if (crun_has_file(folder.p, "created") || crun_has_file(folder.p, "exit")) {
            crun_recover_ended(c, id, &meta, folder.p);
            return;
        }
    }
    (void)!crun_container_destroy(c, id, meta.cgroup, NULL);
}

static int crun_recover_each(const char *folder, struct crun *c,
                             void (*fn)(struct crun *c, const char *id), struct err *err)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort);
    if (n < 0)
        return err_set(err, errno, "cannot read %s: %s", folder, strerrordesc_np(errno));
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            fn(c, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return 0;
}

int crun_recover(struct crun *c, struct err *err)
{
    cleanup_sbuf struct sbuf pods = {0}, containers = {0};
    sbuf_addf(&pods, "%s/pods", c->paths.root);
    sbuf_addf(&containers, "%s/containers", c->paths.root);
    int r = crun_recover_each(pods.p, c, crun_recover_pod, err);
    return r < 0 ? r : crun_recover_each(containers.p, c, crun_recover_container, err);
}

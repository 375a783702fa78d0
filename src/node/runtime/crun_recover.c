// SPDX-License-Identifier: Apache-2.0
//
// After a start: what the folder has is taken over, what was left half done goes.
//
// A pod without a description was never made. A container whose monitor lives is taken over, whatever it is about
// to do; one without a monitor and without an end had its monitor killed, or the machine went down; one that was not
// made to its end is removed. Nothing here believes that a process id is still the same process.
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

static bool monitor_lives(const char *folder)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/lock", folder);
    cleanup_fd int fd = open(path.p, O_RDWR | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0;
}

static bool has(const char *folder, const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    return access(path.p, F_OK) == 0;
}

// --- Pods ----------------------------------------------------------------------------------------

static void recover_pod(struct crun *c, const char *id)
{
    struct arena arena = {0};
    struct crun_pod_meta meta;
    struct str folder = crun_pod_folder(c, id, &arena);
    if (!crun_id_ok(str_z(id)) || crun_read_pod(folder.p, &arena, &meta) < 0) {
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
        // Its namespaces went with the machine.
        p->meta.stopped = true;
        p->meta.address = STR("");
        crun_pod_dismantle(c, id, &p->meta);
        (void)!crun_write_pod(c, id, &p->meta, NULL);
    }
}

// --- Containers ----------------------------------------------------------------------------------

// A monitor that has just been started may still make its container; it answers when it has.
static bool adopt(struct crun *c, const char *id, const struct crun_box_meta *meta,
                  const char *folder)
{
    char said[MONITOR_PACKET_MAX];
    int fd = crun_monitor_say(folder, "watch");
    if (fd < 0)
        return false;
    ssize_t n = crun_monitor_hear(fd, said, sizeof(said), CRUN_CALL_NS);
    if (n <= 0) {
        (void)close(fd);
        return false;
    }
    struct crun_box *b = crun_box_add(c, id, meta);
    crun_heard(b, str_make(said, (size_t)n));
    if (b->status.state == RUNTIME_EXITED)
        (void)close(fd);
    else
        crun_watch_start(b, fd);
    return true;
}

// Commands that nobody waits for any more.
static void end_commands(const struct crun *c, const char *folder, struct str cgroup)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each thread has a stream of its own
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "exec-", 5) != 0)
            continue;
        cgroup_kill_marked(&c->cgroups, c->no_cgroups ? "" : cgroup.p, e->d_name,
                           10 * CLOCK_NS_PER_SEC);
        (void)file_remove_tree_at(dirfd(d), e->d_name);
    }
    if (d)
        (void)closedir(d);
}

static void recover_ended(struct crun *c, const char *id, const struct crun_box_meta *meta,
                          const char *folder)
{
    bool same_boot = str_eq(meta->boot_id, c->boot_id);
    bool had_end = has(folder, "exit");
    struct err err = {0};
    (void)!crun_box_kill(c, id, same_boot ? meta->cgroup : STR(""), &err);
    struct crun_box *b = crun_box_add(c, id, meta);
    b->status.started_ns = crun_read_time(folder, "started");
    if (!crun_read_end(folder, &b->status)) {
        b->status.state = RUNTIME_UNKNOWN;
        b->status.message = arena_str(&b->arena, str_z(err.msg));
    } else if (!had_end) {
        b->status.message =
            same_boot ? STR("the container's monitor was killed, and the container with it")
                      : STR("the machine was started anew");
    }
}

static void recover_box(struct crun *c, const char *id)
{
    cleanup_arena struct arena arena = {0};
    struct crun_box_meta meta = {.cgroup = STR("")};
    struct str folder = crun_box_folder(c, id, &arena);
    bool readable = crun_id_ok(str_z(id)) && crun_read_box(folder.p, &arena, &meta) == 0;
    bool pod_known = readable && crun_pod_find(c, meta.pod);
    if (pod_known) {
        end_commands(c, folder.p, meta.cgroup);
        for (int tries = 0; tries < 3 && monitor_lives(folder.p); tries++)
            if (adopt(c, id, &meta, folder.p))
                return;
        if (has(folder.p, "created") || has(folder.p, "exit")) {
            recover_ended(c, id, &meta, folder.p);
            return;
        }
    }
    (void)!crun_box_destroy(c, id, meta.cgroup, NULL);
}

static int each(const char *folder, struct crun *c, void (*fn)(struct crun *c, const char *id),
                struct err *err)
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
    cleanup_sbuf struct sbuf pods = {0}, boxes = {0};
    sbuf_addf(&pods, "%s/pods", c->root);
    sbuf_addf(&boxes, "%s/containers", c->root);
    int rc = each(pods.p, c, recover_pod, err);
    return rc < 0 ? rc : each(boxes.p, c, recover_box, err);
}

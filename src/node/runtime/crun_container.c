// SPDX-License-Identifier: Apache-2.0
//
// Containers: bundles made, started, stopped, removed.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <sys/file.h>
#include <sys/stat.h>

#include "node/oci/oci.h"
#include "node/runtime/crun_int.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

#define KILL_NS (30 * CLOCK_NS_PER_SEC) // for processes to die, and a monitor to end

// --- Containers in memory ------------------------------------------------------------------------

struct crun_container *crun_container_find(struct crun *c, struct str id)
{
    struct crun_container **ct = map_get(&c->containers, id);
    return ct ? *ct : NULL;
}

static void crun_container_on_kill_timer(void *arg);

struct crun_container *crun_container_add(struct crun *c, const char *id,
                                          const struct crun_container_meta *meta)
{
    struct crun_container *ct = xcalloc(1, sizeof(*ct));
    ct->crun = c;
    memcpy(ct->id, id, sizeof(ct->id));
    list_init(&ct->waiters);
    ct->kill_timer = (struct exec_timer){.fn = crun_container_on_kill_timer, .arg = ct};
    ct->meta = *meta;
    ct->meta.pod = arena_str(&ct->arena, meta->pod);
    ct->meta.pod_uid = arena_str(&ct->arena, meta->pod_uid);
    ct->meta.name = arena_str(&ct->arena, meta->name);
    ct->meta.image = arena_str(&ct->arena, meta->image);
    ct->meta.image_id = arena_str(&ct->arena, meta->image_id);
    ct->meta.log = arena_str(&ct->arena, meta->log);
    ct->meta.cgroup = arena_str(&ct->arena, meta->cgroup);
    ct->meta.boot_id = arena_str(&ct->arena, meta->boot_id);
    ct->status = (struct runtime_container_status){
        .id = str_z(ct->id),
        .pod_uid = ct->meta.pod_uid,
        .pod_id = ct->meta.pod,
        .name = ct->meta.name,
        .attempt = meta->attempt,
        .state = RUNTIME_CREATED,
        .image = ct->meta.image,
        .image_id = ct->meta.image_id,
        .created_ns = meta->created_ns,
    };
    *map_put(&c->containers, str_z(ct->id)) = ct;
    return ct;
}

void crun_container_detach(struct crun_container *ct)
{
    crun_watch_stop(ct);
    exec_timer_stop(ct->crun->exec, &ct->kill_timer);
    for (struct list_node *n; (n = list_pop_front(&ct->waiters));) {
        struct crun_waiter *w = list_entry(n, struct crun_waiter, node);
        crun_answer_later(ct->crun, 0, NULL, w->done, w->arg);
        free(w);
    }
}

void crun_container_free(struct crun_container *ct)
{
    crun_container_detach(ct);
    arena_done(&ct->arena);
    free(ct);
}

static void crun_container_notify(struct crun_container *ct)
{
    struct crun *c = ct->crun;
    if (!ct->end_untold)
        return;
    ct->end_untold = false;
    struct list waiters;
    list_init(&waiters);
    while (!list_empty(&ct->waiters))
        list_push_back(&waiters, list_pop_front(&ct->waiters));
    struct runtime_container_status status = ct->status;
    if (c->runtime.listener.exited)
        c->runtime.listener.exited(c->runtime.listener.arg, &status);
    list_foreach(&waiters, n) {
        struct crun_waiter *w = list_entry(n, struct crun_waiter, node);
        w->done(w->arg, 0, NULL);
        free(w);
    }
}

void crun_container_ended(struct crun_container *ct)
{
    exec_timer_stop(ct->crun->exec, &ct->kill_timer);
    ct->end_untold = true;
    if (!ct->starting)
        crun_container_notify(ct);
}

// --- Requests ------------------------------------------------------------------------------------

static const struct str *crun_container_copy_texts(const struct str *from, size_t n,
                                                   struct arena *a)
{
    struct str *to = arena_array(a, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = arena_str(a, from[i]);
    return to;
}

static const char *crun_container_copy_z(const char *z, struct arena *a)
{
    return z ? arena_str(a, str_z(z)).p : NULL;
}

static void crun_container_copy_security(struct runtime_security *s, struct arena *a)
{
    s->apparmor = arena_str(a, s->apparmor);
    s->selinux_label = arena_str(a, s->selinux_label);
    s->mount_label = arena_str(a, s->mount_label);
    int64_t *groups = arena_array(a, int64_t, s->groups_len + 1);
    for (size_t i = 0; i < s->groups_len; i++)
        groups[i] = s->groups[i];
    s->groups = groups;
    s->user_name = arena_str(a, s->user_name);
    s->add_caps = crun_container_copy_texts(s->add_caps, s->add_caps_len, a);
    s->drop_caps = crun_container_copy_texts(s->drop_caps, s->drop_caps_len, a);
    s->seccomp_file = crun_container_copy_z(s->seccomp_file, a);
}

static const struct runtime_device *crun_container_copy_devices(const struct runtime_device *from,
                                                                size_t n, struct arena *a)
{
    struct runtime_device *to = arena_array(a, struct runtime_device, n + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = (struct runtime_device){arena_str(a, from[i].host_path),
                                        arena_str(a, from[i].container_path),
                                        arena_str(a, from[i].permissions)};
    return to;
}

struct runtime_container *crun_container_copy(const struct runtime_container *from, struct arena *a)
{
    struct runtime_container *to = arena_one(a, struct runtime_container);
    *to = *from;
    to->name = arena_str(a, from->name);
    to->image = arena_str(a, from->image);
    to->working_dir = arena_str(a, from->working_dir);
    to->target = arena_str(a, from->target);
    to->command = crun_container_copy_texts(from->command, from->command_len, a);
    to->args = crun_container_copy_texts(from->args, from->args_len, a);
    to->cdi_devices = crun_container_copy_texts(from->cdi_devices, from->cdi_devices_len, a);
    to->devices = crun_container_copy_devices(from->devices, from->devices_len, a);
    to->env = crun_pairs_copy(from->env, from->env_len, a);
    to->annotations = crun_pairs_copy(from->annotations, from->annotations_len, a);
    struct runtime_mount *mounts = arena_array(a, struct runtime_mount, from->mounts_len + 1);
    for (size_t i = 0; i < from->mounts_len; i++) {
        mounts[i] = from->mounts[i];
        mounts[i].host_path = crun_container_copy_z(from->mounts[i].host_path, a);
        mounts[i].container_path = crun_container_copy_z(from->mounts[i].container_path, a);
        mounts[i].sub_path = crun_container_copy_z(from->mounts[i].sub_path, a);
    }
    to->mounts = mounts;
    crun_container_copy_security(&to->security, a);
    return to;
}

// --- Start, stop ---------------------------------------------------------------------------------

static void crun_container_work_start(struct crun_job *j)
{
    struct str folder = crun_container_dir(j->crun, j->id, &j->arena);
    fault_point("start the container");
    j->code = crun_monitor_call(folder.p, "start", &j->err);
    fault_point("the container is started");
}

static void crun_container_after_start(struct crun_job *j)
{
    struct crun_container *ct = crun_container_find(j->crun, str_z(j->id));
    if (!ct)
        return;
    if (j->code < 0)
        ct->status.message = arena_str(&ct->arena, str_z(j->err.msg));
    else if (ct->status.state == RUNTIME_CREATED) {
        ct->status.state = RUNTIME_RUNNING;
        ct->status.started_ns = exec_wall_ns(j->crun->exec);
    }
}

// The end of a container that ended at once is reported after its start.
struct started {
    struct crun *crun;
    char id[CRUN_ID_LEN + 1];
    runtime_done_fn done;
    void *arg;
};

static void crun_container_on_started(void *arg, int code, const struct err *err)
{
    struct started *s = arg;
    s->done(s->arg, code, err);
    struct crun_container *ct = crun_container_find(s->crun, str_z(s->id));
    if (ct) {
        ct->starting = false;
        crun_container_notify(ct);
    }
    free(s);
}

void crun_container_start(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_container *ct = crun_container_find(c, id);
    if (!ct) {
        crun_answer_later(c, -ERR_NOT_FOUND, "there is no such container", done, arg);
        return;
    }
    if (ct->status.state != RUNTIME_CREATED) {
        crun_answer_later(c, 0, NULL, done, arg);
        return;
    }
    struct started *s = xcalloc(1, sizeof(*s));
    *s = (struct started){.crun = c, .done = done, .arg = arg};
    memcpy(s->id, ct->id, sizeof(s->id));
    struct crun_job *j = crun_job_new(c, crun_pod_find(c, ct->meta.pod));
    memcpy(j->id, ct->id, sizeof(j->id));
    j->done = crun_container_on_started;
    j->arg = s;
    j->work = crun_container_work_start;
    j->after = crun_container_after_start;
    ct->starting = true;
    crun_job_submit(j);
}

static void crun_container_work_signal(struct crun_job *j)
{
    struct str folder = crun_container_dir(j->crun, j->id, &j->arena);
    fault_point("send the container a signal");
    j->code = crun_monitor_call(folder.p, j->answer.p, &j->err);
}

// A signal does not wait for its turn. A monitor that does not answer is gone, which its watch
// detects.
static void crun_container_send_signal(struct crun_container *ct, int number)
{
    struct crun_job *j = crun_job_new(ct->crun, NULL);
    memcpy(j->id, ct->id, sizeof(j->id));
    j->answer = arena_strf(&j->arena, "kill %d", number);
    j->work = crun_container_work_signal;
    crun_job_submit(j);
}

static void crun_container_on_kill_timer(void *arg)
{
    crun_container_send_signal(arg, SIGKILL);
}

void crun_container_stop(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                         void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_container *ct = crun_container_find(c, id);
    if (!ct || ct->status.state == RUNTIME_EXITED || ct->status.state == RUNTIME_UNKNOWN) {
        crun_answer_later(c, 0, NULL, done, arg);
        return;
    }
    struct crun_waiter *w = xcalloc(1, sizeof(*w));
    w->done = done;
    w->arg = arg;
    list_push_back(&ct->waiters, &w->node);
    if (grace_ns <= 0 || ct->status.state == RUNTIME_CREATED) {
        crun_container_send_signal(ct, SIGKILL);
        return;
    }
    crun_container_send_signal(ct, ct->meta.stop_signal);
    bool armed = exec_timer_armed(&ct->kill_timer);
    // A second stop may shorten the time, not lengthen it.
    if (!armed || ct->kill_timer.due_ns > exec_now_ns(c->exec) + grace_ns)
        exec_timer_start(c->exec, &ct->kill_timer, grace_ns);
}

// --- Kill, remove --------------------------------------------------------------------------------

static void pause_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// Waits until no monitor has the lock. Returns its descriptor, locked; or -1.
static int crun_container_wait_for_lock(const char *folder, int64_t wait_ns)
{
    const struct clock *clock = clock_system();
    int64_t end_ns = clock_mono_ns(clock) + wait_ns;
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/lock", folder);
    int fd = open(path.p, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    for (int64_t ms = 1; fd >= 0; ms = ms < 20 ? ms + 1 : ms) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return fd;
        if (clock_mono_ns(clock) >= end_ns)
            break;
        pause_ms(ms);
    }
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

static void crun_container_delete(const struct crun *c, const struct crun_program *by,
                                  const char *id)
{
    const char *argv[16] = {c->paths.monitor, "call",   crun_hidden_mount(c, by),
                            by->path,         "--root", by->state};
    size_t n = 6;
    if (c->machine.no_cgroups && by->is_crun)
        argv[n++] = "--cgroup-manager=disabled";
    argv[n++] = "delete";
    argv[n++] = "--force";
    argv[n] = id;
    const struct process p = {.argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = CRUN_CALL_NS};
    (void)!process_run(&p, NULL, NULL); // an unknown container is fine
}

static int crun_container_write_end(const char *folder, int code, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    sbuf_addf(&text, "%d 0 0 %lld\n", code, (long long)clock_wall_ns(clock_system()));
    int r = fd < 0 ? -errno : file_replace_atomic(fd, "exit", sbuf_str(&text), 0644, NULL);
    return r < 0 ? err_set(err, -r, "cannot write to %s: %s", folder, strerrordesc_np(-r)) : 0;
}

int crun_container_kill(const struct crun *c, const char *id, struct str cgroup, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_container_dir(c, id, &arena);
    if (access(folder.p, F_OK) != 0)
        return 0;
    fault_point("kill the container");
    // A live monitor does it best: it knows the process and writes how it ended.
    (void)!crun_monitor_call(folder.p, "kill 9", NULL);
    int lock = crun_container_wait_for_lock(folder.p, KILL_NS);
    if (lock < 0)
        return err_set(err, ERR_TIMEOUT, "the monitor of container %s does not end", id);
    fault_point("clean up behind the monitor");
    const struct crun_program *by = crun_program_of(c, id);
    if (crun_has_file(by->state, id))
        crun_container_delete(c, by, id);
    bool dead = c->machine.no_cgroups || cgroup_kill(&c->cgroups, cgroup.p, KILL_NS);
    if (dead && !c->machine.no_cgroups)
        cgroup_remove(&c->cgroups, cgroup.p);
    int r = 0;
    if (!dead)
        r = err_set(err, ERR_TIMEOUT, "processes of container %s do not end", id);
    else if (!crun_has_file(folder.p, "exit"))
        r = crun_container_write_end(folder.p, 255, err);
    if (r == -ENOSPC || r == -EDQUOT)
        r = 0; // it has ended all the same; its exit status is reported as unknown
    (void)close(lock);
    return r;
}

int crun_container_destroy(const struct crun *c, const char *id, struct str cgroup, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_container_dir(c, id, &arena);
    int r = crun_container_kill(c, id, cgroup, err);
    if (r < 0)
        return r;
    fault_point("remove the container's directory");
    r = file_remove_tree(folder.p, NULL);
    return r < 0 ? err_set(err, -r, "cannot remove %s: %s", folder.p, strerrordesc_np(-r)) : 0;
}

static void crun_container_work_remove(struct crun_job *j)
{
    const struct str *cgroup = j->more;
    j->code = crun_container_destroy(j->crun, j->id, *cgroup, &j->err);
}

static void crun_container_after_remove(struct crun_job *j)
{
    struct crun_container *ct = crun_container_find(j->crun, str_z(j->id));
    if (!ct || j->code < 0)
        return;
    (void)map_del(&j->crun->containers, str_z(ct->id));
    crun_container_free(ct);
}

void crun_container_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_container *ct = crun_container_find(c, id);
    if (!ct) {
        crun_answer_later(c, 0, NULL, done, arg);
        return;
    }
    struct crun_job *j = crun_job_new(c, crun_pod_find(c, ct->meta.pod));
    struct str *cgroup = arena_one(&j->arena, struct str);
    *cgroup = arena_str(&j->arena, ct->meta.cgroup);
    memcpy(j->id, ct->id, sizeof(j->id));
    j->more = cgroup;
    j->done = done;
    j->arg = arg;
    j->work = crun_container_work_remove;
    j->after = crun_container_after_remove;
    crun_job_submit(j);
}

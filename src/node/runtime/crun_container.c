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

#include "node/runtime/crun_int.h"
#include "node/runtime/oci.h"
#include "os/fault.h"
#include "os/file.h"
#include "os/process.h"

#include "base/banned.h"

#define KILL_NS (30 * CLOCK_NS_PER_SEC) // for processes to die, and a monitor to end

// --- In memory -----------------------------------------------------------------------------------

struct crun_box *crun_box_find(struct crun *c, struct str id)
{
    struct crun_box **b = map_get(&c->boxes, id);
    return b ? *b : NULL;
}

static void on_kill_timer(void *arg);

struct crun_box *crun_box_add(struct crun *c, const char *id, const struct crun_box_meta *meta)
{
    struct crun_box *b = xcalloc(1, sizeof(*b));
    b->crun = c;
    memcpy(b->id, id, sizeof(b->id));
    list_init(&b->waiters);
    b->kill_timer = (struct exec_timer){.fn = on_kill_timer, .arg = b};
    b->meta = *meta;
    b->meta.pod = arena_str(&b->arena, meta->pod);
    b->meta.pod_uid = arena_str(&b->arena, meta->pod_uid);
    b->meta.name = arena_str(&b->arena, meta->name);
    b->meta.image = arena_str(&b->arena, meta->image);
    b->meta.image_id = arena_str(&b->arena, meta->image_id);
    b->meta.log = arena_str(&b->arena, meta->log);
    b->meta.cgroup = arena_str(&b->arena, meta->cgroup);
    b->meta.boot_id = arena_str(&b->arena, meta->boot_id);
    b->status = (struct runtime_container_status){
        .id = str_z(b->id),
        .pod_uid = b->meta.pod_uid,
        .pod_id = b->meta.pod,
        .name = b->meta.name,
        .attempt = meta->attempt,
        .state = RUNTIME_CREATED,
        .image = b->meta.image,
        .image_id = b->meta.image_id,
        .created_ns = meta->created_ns,
    };
    *map_put(&c->boxes, str_z(b->id)) = b;
    return b;
}

void crun_box_leave(struct crun_box *b)
{
    crun_watch_stop(b);
    exec_timer_stop(b->crun->exec, &b->kill_timer);
    for (struct list_node *n; (n = list_pop_front(&b->waiters));) {
        struct crun_waiter *w = list_entry(n, struct crun_waiter, node);
        crun_answer(b->crun, 0, NULL, w->done, w->arg);
        free(w);
    }
}

void crun_box_free(struct crun_box *b)
{
    crun_box_leave(b);
    arena_done(&b->arena);
    free(b);
}

static void crun_box_tell(struct crun_box *b)
{
    struct crun *c = b->crun;
    if (!b->end_untold)
        return;
    b->end_untold = false;
    struct list waiters;
    list_init(&waiters);
    while (!list_empty(&b->waiters))
        list_push_back(&waiters, list_pop_front(&b->waiters));
    struct runtime_container_status status = b->status;
    if (c->runtime.listener.exited)
        c->runtime.listener.exited(c->runtime.listener.arg, &status);
    list_foreach(&waiters, n) {
        struct crun_waiter *w = list_entry(n, struct crun_waiter, node);
        w->done(w->arg, 0, NULL);
        free(w);
    }
}

void crun_box_ended(struct crun_box *b)
{
    exec_timer_stop(b->crun->exec, &b->kill_timer);
    b->end_untold = true;
    if (!b->starting)
        crun_box_tell(b);
}

// --- Requests ------------------------------------------------------------------------------------

static const struct str *copy_texts(const struct str *from, size_t n, struct arena *a)
{
    struct str *to = arena_array(a, struct str, n + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = arena_str(a, from[i]);
    return to;
}

static const char *copy_z(const char *z, struct arena *a)
{
    return z ? arena_str(a, str_z(z)).p : NULL;
}

static void copy_security(struct runtime_security *s, struct arena *a)
{
    int64_t *groups = arena_array(a, int64_t, s->groups_len + 1);
    for (size_t i = 0; i < s->groups_len; i++)
        groups[i] = s->groups[i];
    s->groups = groups;
    s->user_name = arena_str(a, s->user_name);
    s->add_caps = copy_texts(s->add_caps, s->add_caps_len, a);
    s->drop_caps = copy_texts(s->drop_caps, s->drop_caps_len, a);
    s->seccomp_file = copy_z(s->seccomp_file, a);
}

static const struct runtime_device *copy_devices(const struct runtime_device *from, size_t n,
                                                 struct arena *a)
{
    struct runtime_device *to = arena_array(a, struct runtime_device, n + 1);
    for (size_t i = 0; i < n; i++)
        to[i] = (struct runtime_device){arena_str(a, from[i].host_path),
                                        arena_str(a, from[i].container_path),
                                        arena_str(a, from[i].permissions)};
    return to;
}

struct runtime_container *crun_copy_container(const struct runtime_container *from, struct arena *a)
{
    struct runtime_container *to = arena_one(a, struct runtime_container);
    *to = *from;
    to->name = arena_str(a, from->name);
    to->image = arena_str(a, from->image);
    to->working_dir = arena_str(a, from->working_dir);
    to->target = arena_str(a, from->target);
    to->command = copy_texts(from->command, from->command_len, a);
    to->args = copy_texts(from->args, from->args_len, a);
    to->cdi_devices = copy_texts(from->cdi_devices, from->cdi_devices_len, a);
    to->devices = copy_devices(from->devices, from->devices_len, a);
    to->env = crun_copy_pairs(from->env, from->env_len, a);
    to->annotations = crun_copy_pairs(from->annotations, from->annotations_len, a);
    struct runtime_mount *mounts = arena_array(a, struct runtime_mount, from->mounts_len + 1);
    for (size_t i = 0; i < from->mounts_len; i++) {
        mounts[i] = from->mounts[i];
        mounts[i].host_path = copy_z(from->mounts[i].host_path, a);
        mounts[i].container_path = copy_z(from->mounts[i].container_path, a);
        mounts[i].sub_path = copy_z(from->mounts[i].sub_path, a);
    }
    to->mounts = mounts;
    copy_security(&to->security, a);
    return to;
}

// --- Start, stop ---------------------------------------------------------------------------------

static void work_start(struct crun_job *j)
{
    struct str folder = crun_box_folder(j->crun, j->id, &j->arena);
    fault_point("start the container");
    j->code = crun_monitor_ask(folder.p, "start", &j->err);
    fault_point("the container is started");
}

static void after_start(struct crun_job *j)
{
    struct crun_box *b = crun_box_find(j->crun, str_z(j->id));
    if (!b)
        return;
    if (j->code < 0)
        b->status.message = arena_str(&b->arena, str_z(j->err.msg));
    else if (b->status.state == RUNTIME_CREATED) {
        b->status.state = RUNTIME_RUNNING;
        b->status.started_ns = exec_wall_ns(j->crun->exec);
    }
}

// The end of a container that ended at once is told after its start.
struct started {
    struct crun *crun;
    char id[CRUN_ID_LEN + 1];
    runtime_done_fn done;
    void *arg;
};

static void on_started(void *arg, int code, const struct err *err)
{
    struct started *s = arg;
    s->done(s->arg, code, err);
    struct crun_box *b = crun_box_find(s->crun, str_z(s->id));
    if (b) {
        b->starting = false;
        crun_box_tell(b);
    }
    free(s);
}

void crun_box_start(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_box *b = crun_box_find(c, id);
    if (!b) {
        crun_answer(c, -ERR_NOT_FOUND, "there is no such container", done, arg);
        return;
    }
    if (b->status.state != RUNTIME_CREATED) {
        crun_answer(c, 0, NULL, done, arg);
        return;
    }
    struct started *s = xcalloc(1, sizeof(*s));
    *s = (struct started){.crun = c, .done = done, .arg = arg};
    memcpy(s->id, b->id, sizeof(s->id));
    struct crun_job *j = crun_job_new(c, crun_pod_find(c, b->meta.pod));
    memcpy(j->id, b->id, sizeof(j->id));
    j->done = on_started;
    j->arg = s;
    j->work = work_start;
    j->after = after_start;
    b->starting = true;
    crun_job_submit(j);
}

static void work_signal(struct crun_job *j)
{
    struct str folder = crun_box_folder(j->crun, j->id, &j->arena);
    fault_point("send the container a signal");
    j->code = crun_monitor_ask(folder.p, j->answer.p, &j->err);
}

// A signal does not wait for its turn. A monitor that does not answer is gone, which its watch tells.
static void send_signal(struct crun_box *b, int number)
{
    struct crun_job *j = crun_job_new(b->crun, NULL);
    memcpy(j->id, b->id, sizeof(j->id));
    j->answer = arena_strf(&j->arena, "kill %d", number);
    j->work = work_signal;
    crun_job_submit(j);
}

static void on_kill_timer(void *arg)
{
    send_signal(arg, SIGKILL);
}

void crun_box_stop(struct runtime *r, struct str id, int64_t grace_ns, runtime_done_fn done,
                   void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_box *b = crun_box_find(c, id);
    if (!b || b->status.state == RUNTIME_EXITED || b->status.state == RUNTIME_UNKNOWN) {
        crun_answer(c, 0, NULL, done, arg);
        return;
    }
    struct crun_waiter *w = xcalloc(1, sizeof(*w));
    w->done = done;
    w->arg = arg;
    list_push_back(&b->waiters, &w->node);
    if (grace_ns <= 0 || b->status.state == RUNTIME_CREATED) {
        send_signal(b, SIGKILL);
        return;
    }
    send_signal(b, b->meta.stop_signal);
    bool armed = exec_timer_armed(&b->kill_timer);
    // A second stop may shorten the time, not lengthen it.
    if (!armed || b->kill_timer.due_ns > exec_now_ns(c->exec) + grace_ns)
        exec_timer_start(c->exec, &b->kill_timer, grace_ns);
}

// --- Kill, remove --------------------------------------------------------------------------------

static void pause_ms(int64_t ms)
{
    (void)nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

// Waits until no monitor has the lock. Returns its descriptor, locked; or -1.
static int wait_for_lock(const char *folder, int64_t wait_ns)
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

static void delete_in_runtime(const struct crun *c, const char *id)
{
    const char *argv[16] = {c->monitor, "call",   c->hide ? c->hide : "",
                            c->program, "--root", c->state};
    size_t n = 6;
    if (c->no_cgroups && c->is_crun)
        argv[n++] = "--cgroup-manager=disabled";
    argv[n++] = "delete";
    argv[n++] = "--force";
    argv[n] = id;
    const struct process p = {.argv = argv, .err = PROCESS_OUTPUT, .timeout_ns = CRUN_CALL_NS};
    (void)!process_run(&p, NULL, NULL); // one that it does not know is fine
}

static bool is_there(const char *folder, const char *name)
{
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/%s", folder, name);
    return access(path.p, F_OK) == 0;
}

static bool known_to_runtime(const struct crun *c, const char *id)
{
    return is_there(c->state, id);
}

static int write_end(const char *folder, int code, struct err *err)
{
    cleanup_sbuf struct sbuf text = {0};
    cleanup_fd int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    sbuf_addf(&text, "%d 0 0 %lld\n", code, (long long)clock_wall_ns(clock_system()));
    int rc = fd < 0 ? -errno : file_replace_atomic(fd, "exit", sbuf_str(&text), 0644, NULL);
    return rc < 0 ? err_set(err, -rc, "cannot write to %s: %s", folder, strerrordesc_np(-rc)) : 0;
}

int crun_box_kill(const struct crun *c, const char *id, struct str cgroup, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_box_folder(c, id, &arena);
    if (access(folder.p, F_OK) != 0)
        return 0;
    fault_point("kill the container");
    // A live monitor does it best: it knows the process and writes how it ended.
    (void)!crun_monitor_ask(folder.p, "kill 9", NULL);
    int lock = wait_for_lock(folder.p, KILL_NS);
    if (lock < 0)
        return err_set(err, ERR_TIMEOUT, "the monitor of container %s does not end", id);
    fault_point("clean up behind the monitor");
    if (known_to_runtime(c, id))
        delete_in_runtime(c, id);
    bool dead = c->no_cgroups || cgroup_kill(&c->cgroups, cgroup.p, KILL_NS);
    if (dead && !c->no_cgroups)
        cgroup_remove(&c->cgroups, cgroup.p);
    int rc = 0;
    if (!dead)
        rc = err_set(err, ERR_TIMEOUT, "processes of container %s do not end", id);
    else if (!is_there(folder.p, "exit"))
        rc = write_end(folder.p, 255, err);
    if (rc == -ENOSPC || rc == -EDQUOT)
        rc = 0; // it has ended all the same; that nobody knows how is said
    (void)close(lock);
    return rc;
}

int crun_box_destroy(const struct crun *c, const char *id, struct str cgroup, struct err *err)
{
    cleanup_arena struct arena arena = {0};
    struct str folder = crun_box_folder(c, id, &arena);
    int rc = crun_box_kill(c, id, cgroup, err);
    if (rc < 0)
        return rc;
    fault_point("remove the container's folder");
    rc = file_remove_tree(folder.p, NULL);
    return rc < 0 ? err_set(err, -rc, "cannot remove %s: %s", folder.p, strerrordesc_np(-rc)) : 0;
}

static void work_remove(struct crun_job *j)
{
    const struct str *cgroup = j->more;
    j->code = crun_box_destroy(j->crun, j->id, *cgroup, &j->err);
}

static void after_remove(struct crun_job *j)
{
    struct crun_box *b = crun_box_find(j->crun, str_z(j->id));
    if (!b || j->code < 0)
        return;
    (void)map_del(&j->crun->boxes, str_z(b->id));
    crun_box_free(b);
}

void crun_box_remove(struct runtime *r, struct str id, runtime_done_fn done, void *arg)
{
    struct crun *c = crun_of(r);
    struct crun_box *b = crun_box_find(c, id);
    if (!b) {
        crun_answer(c, 0, NULL, done, arg);
        return;
    }
    struct crun_job *j = crun_job_new(c, crun_pod_find(c, b->meta.pod));
    struct str *cgroup = arena_one(&j->arena, struct str);
    *cgroup = arena_str(&j->arena, b->meta.cgroup);
    memcpy(j->id, b->id, sizeof(j->id));
    j->more = cgroup;
    j->done = done;
    j->arg = arg;
    j->work = work_remove;
    j->after = after_remove;
    crun_job_submit(j);
}

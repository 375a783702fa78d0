// SPDX-License-Identifier: Apache-2.0
//
// Stops or removes everything of a pod that the runtime lists, and its files; also for orphans,
// whose pods the API does not have any more.
#include "node/pods/pod_sweep.h"

#include <dirent.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "node/runtime/runtime_job.h"
#include "node/volume/volume.h"

#include "base/banned.h"

static struct log_module log_mod = LOG_MODULE("pods");

#define ORPHAN_GRACE_NS (2 * CLOCK_NS_PER_SEC)

struct sweep {
    struct list_node node; // in the pods' calls
    struct pods *owner;
    char *uid;
    enum sweep_what what;
    int64_t grace_ns;
    struct runtime_jobs todo;
    size_t next;
    struct err first;
    runtime_done_fn done;
    void *arg;
};

static void pod_sweep_free(struct sweep *s)
{
    runtime_jobs_done(&s->todo);
    free(s->uid);
    free(s);
}

static void pod_sweep_next(struct sweep *s);

// The pods are freed: end the operation; the next start does the rest.
static void pod_sweep_cancel(struct sweep *s)
{
    struct err err = {0};
    s->done(s->arg, err_set(&err, ECANCELED, "the agent stops"), &err);
    pod_sweep_free(s);
}

static void pod_sweep_on_done(void *arg, int code, const struct err *err)
{
    struct sweep *s = arg;
    if (!list_linked(&s->node)) {
        pod_sweep_cancel(s);
        return;
    }
    if (code < 0 && code != -ERR_NOT_FOUND && s->first.code == 0)
        s->first = *err;
    s->next++;
    pod_sweep_next(s);
}

static void pod_sweep_next(struct sweep *s)
{
    struct runtime *r = s->owner->options.runtime;
    if (s->next == s->todo.n) {
        struct sweep over = *s;
        list_remove(&s->node);
        over.done(over.arg, -over.first.code, &over.first);
        pod_sweep_free(s);
        return;
    }
    runtime_job_run(r, &s->todo.p[s->next], s->grace_ns, pod_sweep_on_done, s);
}

static void pod_sweep_on_list(void *arg, const struct runtime_list *all)
{
    struct sweep *s = arg;
    if (!list_linked(&s->node)) {
        pod_sweep_cancel(s);
        return;
    }
    runtime_jobs_collect(&s->todo, all, str_z(s->uid), s->what == SWEEP_REMOVE);
    pod_sweep_next(s);
}

void pod_sweep(struct pods *p, struct str uid, enum sweep_what what, int64_t grace_ns,
               runtime_done_fn done, void *arg)
{
    struct sweep *s = xcalloc(1, sizeof(*s));
    *s = (struct sweep){.owner = p,
                        .uid = xstrndup(uid.p, uid.n),
                        .what = what,
                        .grace_ns = grace_ns,
                        .done = done,
                        .arg = arg};
    list_push_back(&p->calls, &s->node);
    p->options.runtime->ops->list(p->options.runtime, pod_sweep_on_list, s);
}

// --- Files ---------------------------------------------------------------------------------------

struct files {
    char *folder, *log_dir, *uid; // copies: the pods may be gone meanwhile
    bool all;
    int code;
    struct err err;
    runtime_done_fn done;
    void *arg;
};

// The UID of "NAMESPACE_NAME_UID", a folder of logs; empty: it is something else.
static struct str pod_sweep_log_uid(const struct dirent *e)
{
    struct str name = str_z(e->d_name);
    ptrdiff_t last = str_rfind_char(name, '_');
    return e->d_type == DT_DIR && last > 0 ? str_from(name, (size_t)last + 1) : STR("");
}

static int pod_sweep_remove_logs(const char *log_dir, struct str uid, struct err *err)
{
    DIR *d = opendir(log_dir);
    const struct dirent *e;
    int r = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while (d && r == 0 && (e = readdir(d))) {
        if (!str_eq(pod_sweep_log_uid(e), uid))
            continue;
        cleanup_sbuf struct sbuf path = {0};
        sbuf_addf(&path, "%s/%s", log_dir, e->d_name);
        r = volume_remove_tree(path.p, err);
    }
    if (d)
        (void)closedir(d);
    return r;
}

static void pod_sweep_remove_files_work(void *arg)
{
    struct files *f = arg;
    f->code =
        f->all ? volumes_remove_pod(f->folder, &f->err) : volumes_tear_down(f->folder, &f->err);
    if (f->code == 0 && f->all)
        f->code = pod_sweep_remove_logs(f->log_dir, str_z(f->uid), &f->err);
}

static void pod_sweep_on_files_removed(void *arg)
{
    struct files *f = arg;
    f->done(f->arg, f->code, &f->err);
    free(f->folder);
    free(f->log_dir);
    free(f->uid);
    free(f);
}

void pods_remove_files(struct pods *p, struct str uid, bool all, runtime_done_fn done, void *arg)
{
    const char *log_dir = p->options.log_dir;
    cleanup_sbuf struct sbuf folder = {0};
    struct files *f = xcalloc(1, sizeof(*f));
    sbuf_addf(&folder, "%s/pods/%.*s", p->options.data_dir, STR_ARG(uid));
    *f = (struct files){.folder = sbuf_take(&folder),
                        .log_dir = xstrndup(log_dir, strlen(log_dir)),
                        .uid = xstrndup(uid.p, uid.n),
                        .all = all,
                        .done = done,
                        .arg = arg};
    if (p->options.work) {
        p->options.work(p->options.arg, pod_sweep_remove_files_work, pod_sweep_on_files_removed, f);
        return;
    }
    pod_sweep_remove_files_work(f);
    pod_sweep_on_files_removed(f);
}

// --- Orphans -------------------------------------------------------------------------------------

struct orphan {
    struct list_node node; // in the pods' orphans
    struct pods *owner;
    char *uid;
    struct exec_timer again;
    int64_t wait_ns;
    bool busy; // a sweep is under way
};

static void pod_sweep_orphan_free(struct orphan *o)
{
    exec_timer_stop(o->owner->exec, &o->again);
    list_remove(&o->node);
    free(o->uid);
    free(o);
}

static void pod_sweep_retry_orphan(struct orphan *o)
{
    const struct pods_times *t = &o->owner->options.times;
    o->wait_ns = o->wait_ns == 0                    ? t->retry_first_ns
                 : o->wait_ns > t->retry_max_ns / 2 ? t->retry_max_ns
                                                    : 2 * o->wait_ns;
    exec_timer_start(o->owner->exec, &o->again, o->wait_ns);
}

static void pod_sweep_on_orphan_removed(void *arg, int code, const struct err *err)
{
    struct orphan *o = arg;
    struct pods *p = o->owner; // NULL: the pods are gone
    o->busy = false;
    if (!p) {
        free(o->uid);
        free(o);
        return;
    }
    if (code < 0) {
        LOG_WARN(&log_mod, "what is left of a pod cannot be removed yet", log_z("uid", o->uid),
                 log_z("why", err->msg));
        pod_sweep_retry_orphan(o);
        return;
    }
    pod_sweep_orphan_free(o);
    if (list_empty(&p->orphans) && p->dra)
        dra_reconcile(p->dra);
}

// Claims go by the manager's own look at who is active; volumes when nothing runs any more.
static void pod_sweep_on_orphan_swept(void *arg, int code, const struct err *err)
{
    struct orphan *o = arg;
    if (code < 0 || !o->owner)
        pod_sweep_on_orphan_removed(o, code, err);
    else
        pods_remove_files(o->owner, str_z(o->uid), true, pod_sweep_on_orphan_removed, o);
}

static void pod_sweep_remove_orphan(void *arg)
{
    struct orphan *o = arg;
    o->busy = true;
    pod_sweep(o->owner, str_z(o->uid), SWEEP_REMOVE, ORPHAN_GRACE_NS, pod_sweep_on_orphan_swept, o);
}

static void pod_sweep_add_orphan(struct pods *p, struct str uid)
{
    if (uid.n == 0 || map_has(&p->by_uid, uid))
        return;
    list_foreach(&p->orphans, n)
        if (str_eqz(uid, list_entry(n, struct orphan, node)->uid))
            return;
    struct orphan *o = xcalloc(1, sizeof(*o));
    o->owner = p;
    o->uid = xstrndup(uid.p, uid.n);
    o->again = (struct exec_timer){.fn = pod_sweep_remove_orphan, .arg = o};
    list_push_back(&p->orphans, &o->node);
    exec_timer_start(p->exec, &o->again, 0);
}

static bool pod_sweep_is_uid_name(struct str name)
{
    return name.n > 0 && name.p[0] != '.' && str_find_char(name, '/') < 0;
}

static void pod_sweep_add_orphans(struct pods *p, const char *folder, bool logs)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the stream is ours
    while (d && (e = readdir(d)))
        if (pod_sweep_is_uid_name(str_z(e->d_name)))
            pod_sweep_add_orphan(p, logs ? pod_sweep_log_uid(e) : str_z(e->d_name));
    if (d)
        (void)closedir(d);
}

void pods_sweep(struct pods *p, const struct runtime_list *all)
{
    for (size_t i = 0; i < all->containers_len; i++)
        pod_sweep_add_orphan(p, all->containers[i].pod_uid);
    for (size_t i = 0; i < all->pods_len; i++)
        pod_sweep_add_orphan(p, all->pods[i].uid);
    cleanup_sbuf struct sbuf path = {0};
    sbuf_addf(&path, "%s/pods", p->options.data_dir);
    pod_sweep_add_orphans(p, path.p, false);
    pod_sweep_add_orphans(p, p->options.log_dir, true);
}

void pods_free_orphans(struct pods *p)
{
    list_foreach(&p->orphans, n) {
        struct orphan *o = list_entry(n, struct orphan, node);
        if (!o->busy) {
            pod_sweep_orphan_free(o);
            continue;
        }
        list_remove(&o->node);
        o->owner = NULL;
    }
}

// SPDX-License-Identifier: Apache-2.0
//
// Stops and removes all pods of a data directory through the runtime, one step after the other on a
// loop of its own, then their volumes and the control groups.
#include "node/teardown.h"

#include <dirent.h>

#include "node/runtime/cgroup.h"
#include "node/runtime/runtime_crun.h"
#include "node/runtime/runtime_job.h"
#include "node/volume/volume.h"

#include "base/banned.h"

struct teardown {
    struct loop *loop;
    struct runtime *runtime;
    struct runtime_jobs jobs;
    size_t next;
    int64_t grace_ns;
    struct node_teardown found;
    struct err first;
};

static void teardown_next(struct teardown *t);

static void teardown_on_done(void *arg, int code, const struct err *err)
{
    struct teardown *t = arg;
    if (code < 0 && code != -ERR_NOT_FOUND && t->first.code == 0)
        t->first = *err;
    t->next++;
    teardown_next(t);
}

static void teardown_next(struct teardown *t)
{
    if (t->next == t->jobs.n)
        loop_stop(t->loop);
    else
        runtime_job_run(t->runtime, &t->jobs.p[t->next], t->grace_ns, teardown_on_done, t);
}

static void teardown_on_list(void *arg, const struct runtime_list *all)
{
    struct teardown *t = arg;
    t->found = (struct node_teardown){.containers = all->containers_len, .pods = all->pods_len};
    runtime_jobs_collect(&t->jobs, all, STR(""), true);
    teardown_next(t);
}

// Volumes in memory are mounts; they and the files of the pods go.
static int teardown_remove_volumes(const char *data_dir, struct err *err)
{
    cleanup_sbuf struct sbuf pods = {0};
    sbuf_addf(&pods, "%s/pods", data_dir);
    DIR *d = opendir(pods.p);
    const struct dirent *e;
    int r = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream has one thread
    while (d && (e = readdir(d))) {
        cleanup_sbuf struct sbuf path = {0};
        struct err why = {0};
        if (e->d_name[0] == '.')
            continue;
        sbuf_addf(&path, "%s/%s", pods.p, e->d_name);
        if (volumes_remove_pod(path.p, &why) < 0 && r == 0) {
            r = -why.code;
            *err = why;
        }
    }
    if (d)
        (void)closedir(d);
    return r;
}

static void teardown_remove_cgroups(const char *top)
{
    struct cgroup_layout layout;
    cgroup_layout_read(&layout);
    cgroup_remove(&layout, top ? top : "dray");
    cgroup_layout_done(&layout);
}

static int teardown_open_runtime(struct teardown *t, const struct agent_options *o, struct err *err)
{
    cleanup_sbuf struct sbuf root = {0};
    sbuf_addf(&root, "%s/runtime", o->data_dir);
    const struct runtime_crun_options r = {.loop = t->loop,
                                           .root = root.p,
                                           .monitor = o->monitor,
                                           .runtime = o->runtime,
                                           .handlers = o->handlers,
                                           .handlers_len = o->handlers_len,
                                           .cgroup_top = o->cgroup_top,
                                           .bridge = o->bridge,
                                           .subnet = o->subnet};
    return runtime_crun_new(&r, &t->runtime, err);
}

int node_teardown(const struct agent_options *options, int64_t grace_ns, struct node_teardown *ret,
                  struct err *err)
{
    struct teardown t = {.grace_ns = grace_ns};
    int r = loop_new(&t.loop, err);
    if (r < 0)
        return r;
    r = teardown_open_runtime(&t, options, err);
    if (r == 0) {
        t.runtime->ops->list(t.runtime, teardown_on_list, &t);
        loop_run(t.loop);
        t.runtime->ops->free(t.runtime);
        runtime_jobs_done(&t.jobs);
        *ret = t.found;
        r = teardown_remove_volumes(options->data_dir, err);
        teardown_remove_cgroups(options->cgroup_top);
    }
    if (t.first.code && r == 0) {
        *err = t.first;
        r = -t.first.code;
    }
    loop_free(t.loop);
    return r;
}

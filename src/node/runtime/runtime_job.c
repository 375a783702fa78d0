// SPDX-License-Identifier: Apache-2.0
//
// Steps that stop and remove pods. Containers precede the namespaces they run in.
#include "node/runtime/runtime_job.h"

#include <stdlib.h>

#include "base/mem.h"
#include "os/fault.h"

#include "base/banned.h"

static void runtime_jobs_add(struct runtime_jobs *jobs, enum runtime_job_step step, struct str id)
{
    vec_push(jobs, ((struct runtime_job){step, xstrndup(id.p, id.n)}));
}

void runtime_jobs_collect(struct runtime_jobs *jobs, const struct runtime_list *all, struct str uid,
                          bool remove)
{
    for (size_t i = 0; remove && i < all->containers_len; i++) {
        const struct runtime_container_status *c = &all->containers[i];
        if (uid.n && !str_eq(c->pod_uid, uid))
            continue;
        if (c->state != RUNTIME_EXITED)
            runtime_jobs_add(jobs, RUNTIME_JOB_CONTAINER_STOP, c->id);
        runtime_jobs_add(jobs, RUNTIME_JOB_CONTAINER_REMOVE, c->id);
    }
    for (size_t i = 0; i < all->pods_len; i++) {
        const struct runtime_pod_status *p = &all->pods[i];
        if (uid.n && !str_eq(p->uid, uid))
            continue;
        runtime_jobs_add(jobs, RUNTIME_JOB_POD_STOP, p->id);
        if (remove)
            runtime_jobs_add(jobs, RUNTIME_JOB_POD_REMOVE, p->id);
    }
}

void runtime_jobs_done(struct runtime_jobs *jobs)
{
    vec_foreach(jobs, job)
        free(job->id);
    vec_done(jobs);
}

void runtime_job_run(struct runtime *r, const struct runtime_job *job, int64_t grace_ns,
                     runtime_done_fn done, void *arg)
{
    static const char *const names[] = {"container_stop", "container_remove", "pod_stop",
                                        "pod_remove"};
    struct str id = str_z(job->id);
    fault_point(names[job->step]);
    switch (job->step) {
    case RUNTIME_JOB_CONTAINER_STOP:
        r->ops->container_stop(r, id, grace_ns, done, arg);
        break;
    case RUNTIME_JOB_CONTAINER_REMOVE:
        r->ops->container_remove(r, id, done, arg);
        break;
    case RUNTIME_JOB_POD_STOP:
        r->ops->pod_stop(r, id, done, arg);
        break;
    case RUNTIME_JOB_POD_REMOVE:
        r->ops->pod_remove(r, id, done, arg);
        break;
    }
}

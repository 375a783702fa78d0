// SPDX-License-Identifier: Apache-2.0
//
// The steps that stop and remove pods: collected from a runtime's list, then run one by one.
#ifndef NODE_RUNTIME_RUNTIME_JOB_H
#define NODE_RUNTIME_RUNTIME_JOB_H

#include "base/vec.h"
#include "node/runtime/runtime.h"

enum runtime_job_step {
    RUNTIME_JOB_CONTAINER_STOP,
    RUNTIME_JOB_CONTAINER_REMOVE,
    RUNTIME_JOB_POD_STOP,
    RUNTIME_JOB_POD_REMOVE,
};

struct runtime_job {
    enum runtime_job_step step;
    char *id;
};

struct runtime_jobs VEC(struct runtime_job);

// runtime_jobs_collect adds the steps for the pod with this UID; empty: for all pods. Without
// remove, its namespaces are taken apart and the rest stays.
void runtime_jobs_collect(struct runtime_jobs *jobs, const struct runtime_list *all, struct str uid,
                          bool remove);
void runtime_jobs_done(struct runtime_jobs *jobs);

// runtime_job_run begins a step; grace_ns is that of containers that run.
void runtime_job_run(struct runtime *r, const struct runtime_job *job, int64_t grace_ns,
                     runtime_done_fn done, void *arg);

#endif

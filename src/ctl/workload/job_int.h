// SPDX-License-Identifier: Apache-2.0
//
// A Job in a step. Private to job*.c.
#ifndef CTL_WORKLOAD_JOB_INT_H
#define CTL_WORKLOAD_JOB_INT_H

#include "ctl/workload/job_set.h"
#include "ctl/workload/load.h"

#define JOB_FINALIZER     "batch.kubernetes.io/job-tracking"
#define JOB_INDEX         "batch.kubernetes.io/job-completion-index"
#define JOB_INDEX_FAILURE "batch.kubernetes.io/job-index-failure-count"

// What a failed pod means.
enum job_failure { JOB_COUNT, JOB_IGNORE, JOB_FAIL_INDEX, JOB_FAIL_JOB };

// A pod that failed, and that counts, with its index.
struct job_failed_pod {
    size_t index;
    const struct typed_object *pod;
};
struct job_failed_pods VEC(struct job_failed_pod);

struct job {
    struct load *l;
    struct str key;
    const struct typed_object *o;
    const struct api_job *was;
    struct api_job now; // with the status to be
    struct arena *arena;
    struct load_objects pods;
    struct load_objects counted; // pods whose finalizer may go
    struct load_objects active;  // pods that run or will
    struct job_failed_pods failures;
    struct job_set done, broken, busy; // indexes that succeeded, failed for good, have a pod
    struct job_set told;               // indexes that have succeeded by the status
    size_t indexes;                    // 0: not indexed
    bool replace_late;                 // only when a pod has failed, not while it ends
    bool behind;                       // the cache of pods is older than the job: look again
    int64_t failed, succeeded;         // counted or not yet
    const char *reason;                // not NULL: it is over
    bool success;
    struct str message;
};

// job_count finds out what the pods of a job mean for its status.
void job_count(struct job *j);

// job_decide reports whether it is over. *wait_s as for load_finish.
void job_decide(struct job *j, int64_t *wait_s);

// job_index_of is a pod's index, SIZE_MAX when it has none that counts.
size_t job_index_of(const struct job *j, const struct typed_object *pod);

// job_index_failures is how often the index of a pod had failed before it.
int64_t job_index_failures(const struct typed_object *pod);

// job_new_pod makes the pod for an index (SIZE_MAX: none).
struct api_pod job_new_pod(const struct job *j, size_t index);

// job_success_policy_met: one of its rules holds.
bool job_success_policy_met(const struct job *j);

const struct api_job_condition *job_condition(const struct api_job *job, const char *type);

// job_pod_finished is when a pod ended, as well as can be known.
int64_t job_pod_finished(const struct api_pod *pod);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Jobs: pods until enough have succeeded or too many have failed, each counted once (README.md).
#include <stdlib.h>

#include "api/match/claim.h"
#include "base/backoff.h"
#include "ctl/workload/job_int.h"

#include "base/banned.h"

// Pauses after failures in a row: these, doubled.
enum { BACKOFF_FIRST_S = 10, BACKOFF_MAX_S = 600 };

const struct api_job_condition *job_condition(const struct api_job *job, const char *type)
{
    for (size_t i = 0; i < job->status.conditions.n; i++)
        if (str_eqz(job->status.conditions.p[i].type, type) &&
            str_eqz(job->status.conditions.p[i].status, "True"))
            return &job->status.conditions.p[i];
    return NULL;
}

static void job_put_condition(struct job *j, const char *type, const char *status,
                              const char *reason, struct str message)
{
    const struct api_job_condition_array old = j->now.status.conditions;
    struct api_job_condition *all = arena_array(j->arena, struct api_job_condition, old.n + 1);
    struct api_time now = ctl_now(j->l->ctl);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++)
        if (!str_eqz(old.p[i].type, type))
            all[n++] = old.p[i];
    all[n++] = (struct api_job_condition){.type = str_z(type),
                                          .status = str_z(status),
                                          .last_probe_time = now,
                                          .last_transition_time = now,
                                          .reason = str_z(reason),
                                          .message = message};
    j->now.status.conditions = (struct api_job_condition_array){all, n};
}

// --- Letting pods go -----------------------------------------------------------------------------

static void job_remove_finalizer(struct load *l, struct str key, const struct typed_object *o,
                                 const struct typed_object *pod)
{
    cleanup_arena struct arena arena = {0};
    struct api_pod changed = *as_pod(pod);
    meta_list_drop(&changed.metadata.finalizers, STR(JOB_FINALIZER), &arena);
    load_update(l, key, o, CACHE_PODS, &changed, NULL);
}

// job_release_pod is the first half of ending a pod that is not wanted any more: it is not counted,
// nor its number, as failed then. The second half, in the next step, is to delete it.
static bool job_release_pod(struct job *j, const struct typed_object *pod)
{
    if (!pod)
        return false;
    struct api_pod changed = *as_pod(pod);
    meta_list_drop(&changed.metadata.finalizers, STR(JOB_FINALIZER), j->arena);
    meta_map_drop(&changed.metadata.annotations, STR(JOB_INDEX), j->arena);
    load_update(j->l, j->key, j->o, CACHE_PODS, &changed, NULL);
    return true;
}

static const struct typed_object *was_let_go(const struct job *j)
{
    vec_foreach(&j->active, pod)
        if (!meta_has_finalizer((*pod)->meta, STR(JOB_FINALIZER)))
            return *pod;
    return NULL;
}

bool job_gone(struct load *l, struct str key)
{
    const struct typed_object *pod = load_tracked_pod(l, key);
    if (pod)
        job_remove_finalizer(l, key, NULL, pod);
    return pod != NULL;
}

// --- After the end -------------------------------------------------------------------------------

static int64_t finished_at(const struct api_job *job)
{
    const struct api_job_condition *c = job_condition(job, "Complete");
    if (!c)
        c = job_condition(job, "Failed");
    return c ? c->last_transition_time.at.sec : 0;
}

static void step_finished(struct job *j)
{
    int64_t wait_s = INT64_MAX;
    const struct typed_object *pod = load_tracked_pod(j->l, j->key);
    if (pod) {
        job_remove_finalizer(j->l, j->key, j->o, pod);
        return;
    }
    if (j->was->spec.has_ttl_seconds_after_finished && !j->o->meta->deletion_timestamp.set) {
        wait_s = finished_at(j->was) + j->was->spec.ttl_seconds_after_finished -
                 ctl_now(j->l->ctl).at.sec;
        if (wait_s <= 0) {
            load_delete(j->l, j->key, j->o, CACHE_JOBS, j->o, NULL);
            return;
        }
    }
    load_finish(j->l, j->key, wait_s);
}

// --- Pods ----------------------------------------------------------------------------------------

static bool job_delete_pod(struct job *j, const struct typed_object *pod)
{
    if (!pod)
        return false;
    load_delete(j->l, j->key, j->o, CACHE_PODS, pod, &load_pod_deleted);
    return true;
}

// The pod that goes first; NULL when there is none.
static const struct typed_object *first_to_go(struct job *j)
{
    load_rank(&j->active);
    return j->active.n > 0 ? j->active.p[0] : NULL;
}

static int64_t wanted_pods(const struct job *j)
{
    const struct api_job_spec *spec = &j->was->spec;
    int64_t active = (int64_t)j->active.n;
    int64_t parallelism = load_not_negative(spec->parallelism);
    if (!spec->has_completions)
        return j->succeeded > 0 ? (active < parallelism ? active : parallelism) : parallelism;
    int64_t left = spec->completions - j->succeeded;
    if (j->indexes)
        left -= (int64_t)job_set_count(&j->broken);
    left = left < 0 ? 0 : left;
    return left < parallelism ? left : parallelism;
}

// Seconds until a pod may be made after failures.
static int64_t backoff_left(const struct job *j)
{
    int64_t last_success = 0, last_failure = 0;
    int failures = 0;
    vec_foreach(&j->pods, o)
        if (str_eqz(as_pod(*o)->status.phase, "Succeeded") &&
            job_pod_finished(as_pod(*o)) > last_success)
            last_success = job_pod_finished(as_pod(*o));
    vec_foreach(&j->pods, o) {
        int64_t at = job_pod_finished(as_pod(*o));
        if (!str_eqz(as_pod(*o)->status.phase, "Failed") || at <= last_success)
            continue;
        failures++;
        last_failure = at > last_failure ? at : last_failure;
    }
    if (failures == 0)
        return 0;
    static const struct backoff_policy p = {.first_ns = BACKOFF_FIRST_S * CLOCK_NS_PER_SEC,
                                            .max_ns = BACKOFF_MAX_S * CLOCK_NS_PER_SEC};
    int64_t pause = backoff_wait_ns(&p, (uint64_t)failures - 1) / CLOCK_NS_PER_SEC;
    return last_failure + pause - ctl_now(j->l->ctl).at.sec;
}

// An active pod by its number and its place in the list.
struct job_place {
    size_t index, at;
};

static int job_compare_places(const void *x, const void *y)
{
    const struct job_place *a = x, *b = y;
    return a->index != b->index ? (a->index > b->index) - (a->index < b->index)
                                : (a->at > b->at) - (a->at < b->at);
}

// Of two pods with one number, the one that goes; NULL when there are none.
static const struct typed_object *job_find_duplicate(const struct job *j)
{
    size_t n = j->indexes ? j->active.n : 0, first = n;
    struct job_place *places = arena_array(j->arena, struct job_place, n + 1);
    for (size_t i = 0; i < n; i++)
        places[i] = (struct job_place){job_index_of(j, j->active.p[i]), i};
    qsort(places, n, sizeof(*places), job_compare_places);
    for (size_t i = 0; i < n; i++)
        if (places[i].at < first &&
            (places[i].index == SIZE_MAX || (i > 0 && places[i - 1].index == places[i].index) ||
             job_set_has(&j->done, places[i].index)))
            first = places[i].at;
    return first < n ? j->active.p[first] : NULL;
}

// job_free_index is the lowest index that needs a pod; SIZE_MAX when none does.
static size_t job_free_index(const struct job *j)
{
    struct job_set taken = {0};
    job_set_add_all(&taken, &j->done, j->arena);
    job_set_add_all(&taken, &j->broken, j->arena);
    job_set_add_all(&taken, &j->busy, j->arena);
    job_set_tidy(&taken);
    uint64_t gap = job_set_gap(&taken);
    return gap < j->indexes ? (size_t)gap : SIZE_MAX;
}

static bool job_create_one(struct job *j, int64_t *wait_s)
{
    int64_t pause = backoff_left(j);
    size_t index = SIZE_MAX;
    if (pause > 0) {
        *wait_s = pause < *wait_s ? pause : *wait_s;
        return false;
    }
    if (j->indexes)
        index = job_free_index(j);
    if (j->indexes && index == SIZE_MAX)
        return false;
    struct api_pod pod = job_new_pod(j, index);
    load_create(j->l, j->key, j->o, CACHE_PODS, &pod, &load_pod_created);
    return true;
}

static bool job_manage_pods(struct job *j, int64_t *wait_s)
{
    int64_t active = (int64_t)j->active.n, wanted = wanted_pods(j);
    const struct typed_object *twice = job_find_duplicate(j);
    if (twice)
        return job_release_pod(j, twice);
    if (active > wanted)
        return job_release_pod(j, first_to_go(j));
    int64_t ending = j->replace_late ? j->now.status.terminating : 0;
    return active + ending < wanted && job_create_one(j, wait_s);
}

// Pods of a Job that is over are deleted and count as failed, as upstream's do.
static bool change_pods(struct job *j, int64_t *wait_s)
{
    if (job_delete_pod(j, was_let_go(j)))
        return true;
    if (!j->reason && !j->was->spec.suspend)
        return job_manage_pods(j, wait_s);
    return j->reason ? job_delete_pod(j, first_to_go(j)) : job_release_pod(j, first_to_go(j));
}

// --- Status --------------------------------------------------------------------------------------

static void job_record_event(struct job *j, const char *type, const char *reason, struct str text)
{
    load_tell(j->l, j->o, str_z(type), reason, text);
}

static void set_suspension(struct job *j)
{
    bool told = job_condition(j->was, "Suspended");
    bool suspend = j->was->spec.suspend;
    if (suspend && !told) {
        job_put_condition(j, "Suspended", "True", "JobSuspended", STR("Job suspended"));
        job_record_event(j, "Normal", "Suspended", STR("Job suspended"));
    } else if (!suspend && told) {
        job_put_condition(j, "Suspended", "False", "JobResumed", STR("Job resumed"));
        j->now.status.start_time = ctl_now(j->l->ctl);
        job_record_event(j, "Normal", "Resumed", STR("Job resumed"));
    }
    if (suspend)
        j->now.status.start_time = (struct api_time){0};
    else if (!j->now.status.start_time.set)
        j->now.status.start_time = ctl_now(j->l->ctl);
}

// The end has two parts: what it will be, and, when no pod is left to be counted, that it is.
static void job_set_end_condition(struct job *j)
{
    const struct api_uncounted_terminated_pods *u = j->now.status.uncounted_terminated_pods;
    bool told =
        job_condition(j->was, "FailureTarget") || job_condition(j->was, "SuccessCriteriaMet");
    bool left = j->active.n > 0 || j->now.status.terminating > 0 || u->succeeded.n || u->failed.n ||
                j->counted.n > 0;
    if (!told) {
        job_put_condition(j, j->success ? "SuccessCriteriaMet" : "FailureTarget", "True", j->reason,
                          j->message);
        return;
    }
    if (left)
        return;
    job_put_condition(j, j->success ? "Complete" : "Failed", "True", j->reason, j->message);
    if (j->success)
        j->now.status.completion_time = ctl_now(j->l->ctl);
    job_record_event(j, j->success ? "Normal" : "Warning", j->success ? "Completed" : j->reason,
                     j->success ? STR("Job completed") : j->message);
}

// Counts and conditions are written before anything is done on their ground.
static bool job_status_differs(const struct api_job_status *a, const struct api_job_status *b)
{
    static const struct api_uncounted_terminated_pods none;
    const struct api_uncounted_terminated_pods *u = a->uncounted_terminated_pods;
    const struct api_uncounted_terminated_pods *v = b->uncounted_terminated_pods;
    return a->succeeded != b->succeeded || a->failed != b->failed ||
           a->conditions.n != b->conditions.n || a->start_time.set != b->start_time.set ||
           !str_eq(a->completed_indexes, b->completed_indexes) ||
           !str_eq(a->failed_indexes, b->failed_indexes) ||
           !api_equal(&api_uncounted_terminated_pods_type, u ? u : &none, v ? v : &none);
}

static void job_sync_job(struct job *j)
{
    int64_t wait_s = INT64_MAX;
    bool deleting = j->o->meta->deletion_timestamp.set;
    job_count(j);
    job_decide(j, &wait_s);
    if (j->reason)
        job_set_end_condition(j);
    else
        set_suspension(j);
    bool differs = !api_equal(&api_job_status_type, &j->now.status, &j->was->status);
    if (differs && job_status_differs(&j->now.status, &j->was->status)) {
        load_update_status(j->l, j->key, &j->now);
        return;
    }
    if (j->counted.n > 0) {
        job_remove_finalizer(j->l, j->key, j->o, j->counted.p[0]);
        return;
    }
    if (!deleting && change_pods(j, &wait_s))
        return;
    if (differs)
        load_update_status(j->l, j->key, &j->now);
    else
        load_finish(j->l, j->key, j->behind ? 1 : wait_s);
}

static bool is_controlled_by(const struct typed_object *pod, const struct typed_object *o)
{
    const struct api_owner_reference *owner = meta_controller(pod->meta);
    return owner && str_eq(owner->uid, o->meta->uid);
}

void job_step(struct load *l, struct str key, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    const struct api_job *job = as_job(o);
    struct job j = {.l = l, .key = key, .o = o, .was = job, .now = *job, .arena = &arena};
    if (job->spec.has_managed_by &&
        !str_eqz(job->spec.managed_by, "kubernetes.io/job-controller")) {
        work_done(l->work, key);
        return;
    }
    if (finished_at(job)) {
        step_finished(&j);
        return;
    }
    const struct typed_object *other = load_tracked_pod(l, key);
    if (other && !is_controlled_by(other, o)) { // of an earlier Job of this name
        job_remove_finalizer(l, key, o, other);
        return;
    }
    if (load_claim(l, key, o, CACHE_PODS, job->spec.selector))
        return;
    j.replace_late =
        job->spec.has_pod_replacement_policy && str_eqz(job->spec.pod_replacement_policy, "Failed");
    j.pods = load_owned(l, CACHE_PODS, o, &arena);
    job_sync_job(&j);
}

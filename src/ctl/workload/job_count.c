// SPDX-License-Identifier: Apache-2.0
//
// What the pods of a Job mean: which are counted and how, and whether the Job is over.
#include "api/match/claim.h"
#include "ctl/workload/job_int.h"

#include "base/banned.h"

// --- The failure policy --------------------------------------------------------------------------

static bool codes_match(const struct api_pod_failure_policy_on_exit_codes_requirement *wanted,
                        int32_t code)
{
    bool in = false;
    for (size_t i = 0; i < wanted->values.n; i++)
        in |= wanted->values.p[i] == code;
    return code != 0 && in == str_eqz(wanted->operator, "In");
}

static const struct api_container_status *failed_container(
    const struct api_pod_failure_policy_on_exit_codes_requirement *wanted,
    const struct api_container_status_array *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct api_container_status *s = &all->p[i];
        bool named = !wanted->has_container_name || str_eq(wanted->container_name, s->name);
        if (named && s->state.terminated && codes_match(wanted, s->state.terminated->exit_code))
            return s;
    }
    return NULL;
}

static bool condition_matches(const struct api_pod_failure_policy_rule *rule,
                              const struct api_pod *pod, struct str *ret_type)
{
    for (size_t i = 0; i < rule->on_pod_conditions.n; i++)
        for (size_t k = 0; k < pod->status.conditions.n; k++) {
            const struct api_pod_condition *c = &pod->status.conditions.p[k];
            *ret_type = c->type;
            if (str_eq(c->type, rule->on_pod_conditions.p[i].type) &&
                str_eq(c->status, rule->on_pod_conditions.p[i].status))
                return true;
        }
    return false;
}

static bool job_count_rule_matches(const struct job *j,
                                   const struct api_pod_failure_policy_rule *rule,
                                   const struct api_pod *pod, size_t number,
                                   struct str *ret_message)
{
    struct str type;
    if (rule->on_exit_codes) {
        const struct api_container_status *s =
            failed_container(rule->on_exit_codes, &pod->status.container_statuses);
        if (!s)
            s = failed_container(rule->on_exit_codes, &pod->status.init_container_statuses);
        if (s)
            *ret_message = arena_strf(
                j->arena,
                "Container %.*s for pod %.*s/%.*s failed with exit code %d matching %.*s rule at "
                "index %zu",
                STR_ARG(s->name), STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                s->state.terminated->exit_code, STR_ARG(rule->action), number);
        return s != NULL;
    }
    if (!condition_matches(rule, pod, &type))
        return false;
    *ret_message =
        arena_strf(j->arena, "Pod %.*s/%.*s has condition %.*s matching %.*s rule at index %zu",
                   STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name), STR_ARG(type),
                   STR_ARG(rule->action), number);
    return true;
}

// job_failure_of asks the failure policy; *ret_message is set when the job is to fail.
static enum job_failure job_failure_of(const struct job *j, const struct api_pod *pod,
                                       struct str *ret_message)
{
    const struct api_pod_failure_policy *policy = j->was->spec.pod_failure_policy;
    for (size_t i = 0; policy && i < policy->rules.n; i++) {
        const struct api_pod_failure_policy_rule *rule = &policy->rules.p[i];
        if (!job_count_rule_matches(j, rule, pod, i, ret_message))
            continue;
        if (str_eqz(rule->action, "Ignore"))
            return JOB_IGNORE;
        if (str_eqz(rule->action, "FailIndex") && j->was->spec.has_backoff_limit_per_index)
            return JOB_FAIL_INDEX;
        return str_eqz(rule->action, "FailJob") ? JOB_FAIL_JOB : JOB_COUNT;
    }
    return JOB_COUNT;
}

// --- Counting ------------------------------------------------------------------------------------

static bool is_tracked(const struct typed_object *pod)
{
    return meta_has_finalizer(pod->meta, STR(JOB_FINALIZER));
}

static const struct typed_object *find_uid(const struct load_objects *pods, struct str uid)
{
    vec_foreach(pods, pod)
        if (str_eq((*pod)->meta->uid, uid))
            return *pod;
    return NULL;
}

// job_count_settle_uncounted moves pods that have lost their finalizer from a list of uncounted
// ones to a counter.
static void job_count_settle_uncounted(struct job *j, struct api_str_array *list, int32_t *counter)
{
    struct str *kept = arena_array(j->arena, struct str, list->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const struct typed_object *pod = find_uid(&j->pods, list->p[i]);
        // A pod that is not there may be one that the cache has not seen yet.
        bool unknown = !pod && informer_revision(j->l->ctl->caches[CACHE_PODS]) < j->o->revision;
        j->behind |= unknown;
        if (unknown || (pod && is_tracked(pod)))
            kept[n++] = list->p[i];
        else
            *counter = load_not_negative((int64_t)*counter + 1);
    }
    *list = (struct api_str_array){n > 0 ? kept : NULL, n};
}

static bool was_uncounted(const struct job *j, struct str uid, bool success)
{
    const struct api_uncounted_terminated_pods *u = j->was->status.uncounted_terminated_pods;
    return u && api_str_listed(success ? &u->succeeded : &u->failed, uid);
}

static void count_success(struct job *j, const struct typed_object *pod)
{
    size_t index = job_index_of(j, pod);
    if (j->indexes) {
        // The number is enough to count it once.
        if (index == SIZE_MAX || job_set_has(&j->told, index))
            vec_push_arena(j->arena, &j->counted, pod);
        return;
    }
    if (was_uncounted(j, pod->meta->uid, true))
        vec_push_arena(j->arena, &j->counted, pod);
    else
        meta_list_add(&j->now.status.uncounted_terminated_pods->succeeded, pod->meta->uid,
                      j->arena);
}

static void break_index(struct job *j, const struct typed_object *pod, enum job_failure what)
{
    size_t index = job_index_of(j, pod);
    if (index == SIZE_MAX || !j->was->spec.has_backoff_limit_per_index)
        return;
    if (!job_set_has(&j->done, index) &&
        (what == JOB_FAIL_INDEX || job_index_failures(pod) >= j->was->spec.backoff_limit_per_index))
        job_set_add(&j->broken, index, j->arena);
}

static void count_failure(struct job *j, const struct typed_object *pod)
{
    struct str message = STR("");
    enum job_failure what = job_failure_of(j, as_pod(pod), &message);
    if (what == JOB_FAIL_JOB && !j->reason) {
        j->reason = "PodFailurePolicy";
        j->message = message;
    }
    size_t index = job_index_of(j, pod);
    if (index != SIZE_MAX && what != JOB_IGNORE)
        vec_push_arena(j->arena, &j->failures, (struct job_failed_pod){index, pod});
    break_index(j, pod, what);
    if (!is_tracked(pod))
        return;
    if (what == JOB_IGNORE || was_uncounted(j, pod->meta->uid, false))
        vec_push_arena(j->arena, &j->counted, pod);
    else
        meta_list_add(&j->now.status.uncounted_terminated_pods->failed, pod->meta->uid, j->arena);
}

static bool job_pod_succeeded(const struct typed_object *pod)
{
    return str_eqz(as_pod(pod)->status.phase, "Succeeded") && is_tracked(pod);
}

static void job_count_add_pod(struct job *j, const struct typed_object *o)
{
    const struct api_pod *pod = as_pod(o);
    struct api_job_status *s = &j->now.status;
    size_t index = job_index_of(j, o);
    bool ending = pod->metadata.deletion_timestamp.set && !pod_is_terminal(pod);
    if (load_is_active(pod)) {
        vec_push_arena(j->arena, &j->active, o);
        s->ready += load_is_ready(pod);
    }
    s->terminating += ending;
    if (index != SIZE_MAX && (load_is_active(pod) || (ending && j->replace_late)))
        job_set_add(&j->busy, index, j->arena);
    if (job_pod_succeeded(o))
        count_success(j, o);
    else if (str_eqz(pod->status.phase, "Failed") || (ending && !j->replace_late))
        count_failure(j, o);
}

// count_indexes finds the indexes that have succeeded before any failure is judged by them.
static void count_indexes(struct job *j)
{
    if (!j->was->spec.has_completion_mode || !str_eqz(j->was->spec.completion_mode, "Indexed") ||
        j->was->spec.completions <= 0)
        return;
    j->indexes = (size_t)j->was->spec.completions;
    j->told = job_set_read(j->was->status.completed_indexes, j->indexes, j->arena);
    j->broken = job_set_read(j->was->status.failed_indexes, j->indexes, j->arena);
    job_set_add_all(&j->done, &j->told, j->arena);
    vec_foreach(&j->pods, pod) {
        size_t index = job_index_of(j, *pod);
        if (index != SIZE_MAX && job_pod_succeeded(*pod))
            job_set_add(&j->done, index, j->arena);
    }
    job_set_tidy(&j->done);
}

void job_count(struct job *j)
{
    struct api_job_status *s = &j->now.status;
    const struct api_uncounted_terminated_pods *had = s->uncounted_terminated_pods;
    s->uncounted_terminated_pods = arena_one(j->arena, struct api_uncounted_terminated_pods);
    if (had)
        *s->uncounted_terminated_pods = *had;
    s->ready = s->terminating = 0;
    s->has_ready = s->has_terminating = true;
    count_indexes(j);
    job_count_settle_uncounted(j, &s->uncounted_terminated_pods->succeeded, &s->succeeded);
    job_count_settle_uncounted(j, &s->uncounted_terminated_pods->failed, &s->failed);
    vec_foreach(&j->pods, pod)
        job_count_add_pod(j, *pod);
    s->active = (int32_t)j->active.n;
    if (j->indexes) {
        job_set_tidy(&j->broken);
        job_set_tidy(&j->busy);
        s->completed_indexes = job_set_write(&j->done, j->arena);
        s->succeeded = load_not_negative((int64_t)job_set_count(&j->done));
        if (j->was->spec.has_backoff_limit_per_index) {
            s->failed_indexes = job_set_write(&j->broken, j->arena);
            s->has_failed_indexes = true;
        }
    }
    j->succeeded = s->succeeded + (int64_t)s->uncounted_terminated_pods->succeeded.n;
    j->failed = s->failed + (int64_t)s->uncounted_terminated_pods->failed.n;
}

// --- Deciding ------------------------------------------------------------------------------------

static void job_count_fail_job(struct job *j, const char *reason, struct str message)
{
    if (j->reason)
        return;
    j->reason = reason;
    j->message = message;
}

static void job_count_succeed_job(struct job *j, const char *reason, struct str message)
{
    if (j->reason)
        return;
    j->success = true;
    j->reason = reason;
    j->message = message;
}

// With restartPolicy OnFailure containers are started again in their pods: those count as well.
static bool too_many_restarts(const struct job *j)
{
    int64_t sum = 0;
    if (!str_eqz(j->was->spec.template.spec.restart_policy, "OnFailure"))
        return false;
    vec_foreach(&j->active, o) {
        const struct api_pod_status *s = &as_pod(*o)->status;
        for (size_t i = 0; i < s->container_statuses.n; i++)
            sum += s->container_statuses.p[i].restart_count;
        for (size_t i = 0; i < s->init_container_statuses.n; i++)
            sum += s->init_container_statuses.p[i].restart_count;
    }
    return j->was->spec.backoff_limit == 0 ? sum > 0 : sum >= j->was->spec.backoff_limit;
}

static void decide_indexes(struct job *j)
{
    const struct api_job_spec *spec = &j->was->spec;
    uint64_t broken = job_set_count(&j->broken), done = job_set_count(&j->done);
    if (spec->has_max_failed_indexes &&
        broken > (uint64_t)load_not_negative(spec->max_failed_indexes))
        job_count_fail_job(j, "MaxFailedIndexesExceeded",
                           STR("Job has exceeded the specified maximal number of failed indexes"));
    else if (broken > 0 && broken + done >= j->indexes)
        job_count_fail_job(j, "FailedIndexes", STR("Job has failed indexes"));
}

static void decide_deadline(struct job *j, int64_t *wait_s)
{
    const struct api_job_spec *spec = &j->was->spec;
    if (!spec->has_active_deadline_seconds || !j->was->status.start_time.set || spec->suspend)
        return;
    int64_t allowed = spec->active_deadline_seconds > 0 ? spec->active_deadline_seconds : 0;
    int64_t left;
    if (__builtin_add_overflow(allowed,
                               j->was->status.start_time.at.sec - ctl_now(j->l->ctl).at.sec, &left))
        return;
    if (left <= 0)
        job_count_fail_job(j, "DeadlineExceeded",
                           STR("Job was active longer than specified deadline"));
    else if (left < *wait_s)
        *wait_s = left;
}

void job_decide(struct job *j, int64_t *wait_s)
{
    const struct api_job_spec *spec = &j->was->spec;
    const struct api_job_condition *target = job_condition(j->was, "FailureTarget");
    const struct api_job_condition *met = job_condition(j->was, "SuccessCriteriaMet");
    if (target || met) { // decided before: it stays so
        const struct api_job_condition *c = target ? target : met;
        j->reason = arena_str(j->arena, c->reason).p;
        j->message = c->message;
        j->success = !target;
        return;
    }
    if (job_success_policy_met(j))
        job_count_succeed_job(j, "SuccessPolicy", STR("Matched rules of the success policy"));
    if (j->failed > spec->backoff_limit || too_many_restarts(j))
        job_count_fail_job(j, "BackoffLimitExceeded",
                           STR("Job has reached the specified backoff limit"));
    decide_deadline(j, wait_s);
    if (j->indexes && spec->has_backoff_limit_per_index)
        decide_indexes(j);
    bool enough = spec->has_completions ? j->succeeded >= spec->completions
                                        : j->succeeded > 0 && j->active.n == 0;
    if (enough)
        job_count_succeed_job(j, "CompletionsReached",
                              STR("Reached expected number of succeeded pods"));
}

int64_t job_pod_finished(const struct api_pod *pod)
{
    int64_t last = 0;
    for (size_t i = 0; i < pod->status.container_statuses.n; i++) {
        const struct api_container_state_terminated *t =
            pod->status.container_statuses.p[i].state.terminated;
        if (t && t->finished_at.set && t->finished_at.at.sec > last)
            last = t->finished_at.at.sec;
    }
    for (size_t i = 0; last == 0 && i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "Ready"))
            last = pod->status.conditions.p[i].last_transition_time.at.sec;
    if (last == 0 && pod->metadata.deletion_timestamp.set)
        last = pod->metadata.deletion_timestamp.at.sec;
    return last ? last : pod->metadata.creation_timestamp.at.sec;
}

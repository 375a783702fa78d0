// SPDX-License-Identifier: Apache-2.0
//
// Jobs and CronJobs: numbers, sets of indexes, failure and success policies. A Job's controller
// relies on these bounds; Kubernetes' are the same, word for word.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define JOB_CRON_NAME_MAX         52
#define JOB_PARALLELISM_MAX       100000
#define JOB_FAILED_INDEXES_MAX    100000
#define JOB_COMPLETIONS_MANY      100000
#define JOB_MANY_MAX              10000 // parallel pods, failed indexes with many completions
#define JOB_FAILURE_RULES_MAX     20
#define JOB_EXIT_CODES_MAX        255
#define JOB_CONDITIONS_MAX        20
#define JOB_SUCCESS_RULES_MAX     20
#define JOB_SUCCESS_INDEXES_BYTES ((size_t)64 * 1024)

static bool job_is_indexed(const struct api_job_spec *s)
{
    return s->has_completion_mode && str_eqz(s->completion_mode, "Indexed");
}

// --- Sets of indexes -----------------------------------------------------------------------------

// job_index_number reads one index below completions. Otherwise it returns what is wrong.
static struct str job_index_number(struct arena *arena, struct str text, int64_t completions,
                                   int64_t *ret)
{
    if (str_to_i64(str_starts(text, STR("+")) ? str_from(text, 1) : text, ret) < 0 ||
        str_starts(text, STR("+-")))
        return arena_strf(arena, "cannot convert string to integer for index: \"%.*s\"",
                          STR_ARG(text));
    if (*ret >= completions)
        return arena_strf(arena, "too large index: \"%.*s\"", STR_ARG(text));
    return STR("");
}

static struct str job_index_interval(struct arena *arena, struct str text, int64_t completions,
                                     int64_t *ret_first, int64_t *ret_last)
{
    struct str first, last, rest;
    bool range = str_cut(text, '-', &first, &last);
    if (range && str_cut(last, '-', &rest, &rest))
        return arena_strf(arena,
                          "the fragment \"%.*s\" violates the requirement that an index interval "
                          "can have at most two parts separated by '-'",
                          STR_ARG(text));
    struct str wrong = job_index_number(arena, first, completions, ret_first);
    *ret_last = *ret_first;
    if (wrong.n > 0 || !range)
        return wrong;
    wrong = job_index_number(arena, last, completions, ret_last);
    if (wrong.n == 0 && *ret_first >= *ret_last)
        return arena_strf(arena, "non-increasing order, previous: %lld, current: %lld",
                          (long long)*ret_first, (long long)*ret_last);
    return wrong;
}

// job_indexes_total counts the indexes of a text such as 1,3-5; *ret_wrong receives the error, if
// any.
static int64_t job_indexes_total(struct arena *arena, struct str text, int64_t completions,
                                 struct str *ret_wrong)
{
    int64_t total = 0, previous = -1;
    bool more = text.n > 0;
    *ret_wrong = STR("");
    while (more) {
        struct str one;
        int64_t first = 0, last = 0;
        more = str_cut(text, ',', &one, &text);
        *ret_wrong = job_index_interval(arena, one, completions, &first, &last);
        if (ret_wrong->n == 0 && previous >= first)
            *ret_wrong = arena_strf(arena, "non-increasing order, previous: %lld, current: %lld",
                                    (long long)previous, (long long)first);
        if (ret_wrong->n > 0)
            return 0;
        total += last - first + 1;
        previous = last;
    }
    return total;
}

// --- Failure policy ------------------------------------------------------------------------------

static bool job_has_container(const struct api_pod_spec *pod, struct str name)
{
    const struct api_container_array *lists[] = {&pod->containers, &pod->init_containers};
    for (size_t i = 0; i < array_len(lists); i++)
        for (size_t k = 0; k < lists[i]->n; k++)
            if (str_eq(lists[i]->p[k].name, name))
                return true;
    return false;
}

static struct str job_json_of_codes(const struct api_i32_array *codes, struct arena *arena)
{
    cleanup_sbuf struct sbuf text = {0};
    if (!codes->p)
        return STR("null");
    sbuf_addz(&text, "[");
    for (size_t i = 0; i < codes->n; i++)
        sbuf_addf(&text, "%s%d", i ? "," : "", codes->p[i]);
    sbuf_addz(&text, "]");
    return arena_str(arena, sbuf_str(&text));
}

// Repetitions are looked for by a list of at most JOB_EXIT_CODES_MAX; a longer one is refused
// anyway.
static bool job_code_repeats(const struct api_i32_array *codes, size_t i)
{
    for (size_t k = 0; k < i && k <= JOB_EXIT_CODES_MAX; k++)
        if (codes->p[k] == codes->p[i])
            return true;
    return false;
}

static void job_check_codes(struct validator *v, const struct path *at,
                            const struct api_pod_failure_policy_on_exit_codes_requirement *r)
{
    const struct api_i32_array *codes = &r->values;
    bool ordered = true;
    if (codes->n == 0)
        cause_invalid_json(v->causes, at, job_json_of_codes(codes, scratch(v)),
                           STR("at least one value is required"));
    else if (codes->n > JOB_EXIT_CODES_MAX)
        cause_too_many(v->causes, at, codes->n, JOB_EXIT_CODES_MAX);
    for (size_t i = 0; i < codes->n && !causes_full(v->causes); i++) {
        if (str_eqz(r->operator, "In") && codes->p[i] == 0)
            cause_invalid_i64(v->causes, AT_ITEM(at, i), 0,
                              STR("must not be 0 for the In operator"));
        if (job_code_repeats(codes, i))
            cause_duplicate_json(v->causes, AT_ITEM(at, i),
                                 arena_strf(scratch(v), "%d", codes->p[i]));
        ordered &= i == 0 || codes->p[i - 1] <= codes->p[i];
    }
    if (!ordered)
        cause_invalid_json(v->causes, at, job_json_of_codes(codes, scratch(v)),
                           STR("must be ordered"));
}

// A missing choice is answered with all of them, quoted.
static void job_check_choice(struct validator *v, const struct path *at, struct str value,
                             struct choices c, struct str all)
{
    if (value.n == 0)
        cause_required(v->causes, at, arena_strf(scratch(v), "valid values: %.*s", STR_ARG(all)));
    else
        validate_choice(v, at, value, c);
}

static void job_check_exit_codes(struct validator *v, const struct path *at,
                                 const struct api_job_spec *s,
                                 const struct api_pod_failure_policy_on_exit_codes_requirement *r)
{
    static const struct str operators[] = {STR_INIT("In"), STR_INIT("NotIn")};
    job_check_choice(v, AT(at, "operator"), r->operator, CHOICES(operators),
                     STR("[\"In\" \"NotIn\"]"));
    if (r->has_container_name && !job_has_container(&s->template.spec, r->container_name))
        cause_invalid(v->causes, AT(at, "containerName"), r->container_name,
                      STR("must be one of the container or initContainer names in the pod "
                          "template"));
    job_check_codes(v, AT(at, "values"), r);
}

static void job_check_conditions(
    struct validator *v, const struct path *at,
    const struct api_pod_failure_policy_on_pod_conditions_pattern_array *list)
{
    static const struct str states[] = {STR_INIT("False"), STR_INIT("True"), STR_INIT("Unknown")};
    if (list->n > JOB_CONDITIONS_MAX)
        cause_too_many(v->causes, at, list->n, JOB_CONDITIONS_MAX);
    for (size_t i = 0; i < list->n && !causes_full(v->causes); i++) {
        validate_named(v, AT(AT_ITEM(at, i), "type"), list->p[i].type, name_label_key);
        job_check_choice(v, AT(AT_ITEM(at, i), "status"), list->p[i].status, CHOICES(states),
                         STR("[\"False\" \"True\" \"Unknown\"]"));
    }
}

static void job_check_failure_rule(struct validator *v, const struct path *at,
                                   const struct api_job_spec *s,
                                   const struct api_pod_failure_policy_rule *rule)
{
    static const struct str actions[] = {STR_INIT("Count"), STR_INIT("FailIndex"),
                                         STR_INIT("FailJob"), STR_INIT("Ignore")};
    bool conditions = rule->on_pod_conditions.n > 0;
    if (str_eqz(rule->action, "FailIndex") && !s->has_backoff_limit_per_index)
        cause_invalid(v->causes, AT(at, "action"), rule->action,
                      STR("requires the backoffLimitPerIndex to be set"));
    else
        job_check_choice(v, AT(at, "action"), rule->action, CHOICES(actions),
                         STR("[\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]"));
    if (rule->on_exit_codes)
        job_check_exit_codes(v, AT(at, "onExitCodes"), s, rule->on_exit_codes);
    if (conditions)
        job_check_conditions(v, AT(at, "onPodConditions"), &rule->on_pod_conditions);
    if (rule->on_exit_codes && conditions)
        cause_invalid_plain(
            v->causes, at, STR("specifying both OnExitCodes and OnPodConditions is not supported"));
    if (!rule->on_exit_codes && !conditions)
        cause_invalid_plain(v->causes, at,
                            STR("specifying one of OnExitCodes and OnPodConditions is required"));
}

static void job_check_failure_policy(struct validator *v, const struct path *at,
                                     const struct api_job_spec *s)
{
    const struct api_pod_failure_policy_rule_array *rules = &s->pod_failure_policy->rules;
    if (rules->n > JOB_FAILURE_RULES_MAX)
        cause_too_many(v->causes, AT(at, "rules"), rules->n, JOB_FAILURE_RULES_MAX);
    for (size_t i = 0; i < rules->n && !causes_full(v->causes); i++)
        job_check_failure_rule(v, AT_ITEM(AT(at, "rules"), i), s, &rules->p[i]);
}

// --- Success policy ------------------------------------------------------------------------------

static void job_check_success_count(struct validator *v, const struct path *at, int64_t count,
                                    int64_t completions, bool has_indexes, int64_t total)
{
    validate_not_negative(v, at, count);
    if (count > completions)
        cause_invalid_i64(v->causes, at, count,
                          arena_strf(scratch(v),
                                     "must be less than or equal to %lld (the number of specified "
                                     "completions)",
                                     (long long)completions));
    if (has_indexes && count > total)
        cause_invalid_i64(v->causes, at, count,
                          arena_strf(scratch(v),
                                     "must be less than or equal to %lld (the number of indexes "
                                     "in the specified succeededIndexes field)",
                                     (long long)total));
}

static void job_check_success_rule(struct validator *v, const struct path *at, int64_t completions,
                                   const struct api_success_policy_rule *rule)
{
    const struct path *indexes = AT(at, "succeededIndexes");
    struct str wrong;
    int64_t total = 0;
    if (!rule->has_succeeded_count && !rule->has_succeeded_indexes)
        cause_required(v->causes, at,
                       STR("at least one of succeededCount or succeededIndexes must be specified"));
    if (rule->has_succeeded_indexes) {
        if (rule->succeeded_indexes.n > JOB_SUCCESS_INDEXES_BYTES)
            cause_too_long(v->causes, indexes, JOB_SUCCESS_INDEXES_BYTES);
        total = job_indexes_total(scratch(v), rule->succeeded_indexes, completions, &wrong);
        if (wrong.n > 0)
            cause_invalid(v->causes, indexes, rule->succeeded_indexes,
                          arena_strf(scratch(v), "error parsing succeededIndexes: %.*s",
                                     STR_ARG(wrong)));
    }
    if (rule->has_succeeded_count)
        job_check_success_count(v, AT(at, "succeededCount"), rule->succeeded_count, completions,
                                rule->has_succeeded_indexes, total);
}

static void job_check_success_policy(struct validator *v, const struct path *at,
                                     const struct api_job_spec *s)
{
    const struct api_success_policy_rule_array *rules = &s->success_policy->rules;
    if (rules->n == 0)
        cause_required(v->causes, AT(at, "rules"),
                       STR("at least one rules must be specified when the successPolicy is "
                           "specified"));
    if (rules->n > JOB_SUCCESS_RULES_MAX)
        cause_too_many(v->causes, AT(at, "rules"), rules->n, JOB_SUCCESS_RULES_MAX);
    for (size_t i = 0; i < rules->n && !causes_full(v->causes); i++)
        job_check_success_rule(v, AT_ITEM(AT(at, "rules"), i), s->completions, &rules->p[i]);
}

// --- Numbers -------------------------------------------------------------------------------------

static void job_check_signs(struct validator *v, const struct path *at,
                            const struct api_job_spec *s)
{
    const struct {
        struct str name;
        bool has;
        int64_t value;
    } numbers[] = {
        {STR_INIT("parallelism"), s->has_parallelism, s->parallelism},
        {STR_INIT("completions"), s->has_completions, s->completions},
        {STR_INIT("activeDeadlineSeconds"), s->has_active_deadline_seconds,
         s->active_deadline_seconds},
        {STR_INIT("backoffLimit"), s->has_backoff_limit, s->backoff_limit},
        {STR_INIT("ttlSecondsAfterFinished"), s->has_ttl_seconds_after_finished,
         s->ttl_seconds_after_finished},
        {STR_INIT("backoffLimitPerIndex"), s->has_backoff_limit_per_index,
         s->backoff_limit_per_index},
        {STR_INIT("maxFailedIndexes"), s->has_max_failed_indexes, s->max_failed_indexes},
    };
    for (size_t i = 0; i < array_len(numbers); i++)
        if (numbers[i].has)
            validate_not_negative(v, AT_NAME(at, numbers[i].name), numbers[i].value);
}

// Counters of single indexes are kept in the status: with many completions fewer may fail.
static void job_check_many(struct validator *v, const struct path *at, const struct api_job_spec *s)
{
    static const struct str too_many =
        STR_INIT("must be less than or equal to 10000 when completions are above 100000 and used "
                 "with backoff limit per index");
    if (!s->has_completions || s->completions <= JOB_COMPLETIONS_MANY ||
        !s->has_backoff_limit_per_index)
        return;
    if (!s->has_max_failed_indexes)
        cause_required(v->causes, AT(at, "maxFailedIndexes"),
                       STR("must be specified when completions is above 100000"));
    if (s->has_parallelism && s->parallelism > JOB_MANY_MAX)
        cause_invalid_i64(v->causes, AT(at, "parallelism"), s->parallelism, too_many);
    if (s->has_max_failed_indexes && s->max_failed_indexes > JOB_MANY_MAX)
        cause_invalid_i64(v->causes, AT(at, "maxFailedIndexes"), s->max_failed_indexes, too_many);
}

static void job_check_indexed(struct validator *v, const struct path *at,
                              const struct api_job_spec *s)
{
    const struct path *failed = AT(at, "maxFailedIndexes");
    if (!s->has_completions)
        cause_required(v->causes, AT(at, "completions"), STR("when completion mode is Indexed"));
    if (s->has_parallelism && s->parallelism > JOB_PARALLELISM_MAX)
        cause_invalid_i64(v->causes, AT(at, "parallelism"), s->parallelism,
                          STR("must be less than or equal to 100000 when completion mode is "
                              "Indexed"));
    if (s->has_completions && s->has_max_failed_indexes && s->max_failed_indexes > s->completions)
        cause_invalid_i64(v->causes, failed, s->max_failed_indexes,
                          STR("must be less than or equal to completions"));
    if (s->has_max_failed_indexes && s->max_failed_indexes > JOB_FAILED_INDEXES_MAX)
        cause_invalid_i64(v->causes, failed, s->max_failed_indexes,
                          STR("must be less than or equal to 100000"));
    job_check_many(v, at, s);
}

static void job_check_mode(struct validator *v, const struct path *at, const struct api_job_spec *s)
{
    static const struct str modes[] = {STR_INIT("NonIndexed"), STR_INIT("Indexed")};
    static const struct str indexed = STR_INIT("requires indexed completion mode");
    if (s->has_completion_mode)
        validate_choice(v, AT(at, "completionMode"), s->completion_mode, CHOICES(modes));
    if (job_is_indexed(s))
        job_check_indexed(v, at, s);
    if (s->has_completion_mode && !str_eqz(s->completion_mode, "NonIndexed"))
        return;
    if (s->has_backoff_limit_per_index)
        cause_invalid_i64(v->causes, AT(at, "backoffLimitPerIndex"), s->backoff_limit_per_index,
                          indexed);
    if (s->has_max_failed_indexes)
        cause_invalid_i64(v->causes, AT(at, "maxFailedIndexes"), s->max_failed_indexes, indexed);
}

static void job_check_spec(struct validator *v, const struct path *at, const struct api_job_spec *s)
{
    job_check_signs(v, at, s);
    if (s->has_max_failed_indexes && !s->has_backoff_limit_per_index)
        cause_required(v->causes, AT(at, "backoffLimitPerIndex"),
                       STR("when maxFailedIndexes is specified"));
    job_check_mode(v, at, s);
    if (s->pod_failure_policy)
        job_check_failure_policy(v, AT(at, "podFailurePolicy"), s);
    if (!s->success_policy)
        return;
    if (job_is_indexed(s) && s->has_completions)
        job_check_success_policy(v, AT(at, "successPolicy"), s);
    else if (!job_is_indexed(s))
        cause_invalid_json(v->causes, AT(at, "successPolicy"),
                           validate_show_internal_json(&api_success_policy_type, s->success_policy,
                                                       scratch(v)),
                           STR("requires indexed completion mode"));
}

// job_check_name: an Indexed Job's pods have its name and their index as host name.
static void job_check_name(struct validator *v, const struct api_job *job)
{
    struct name_msgs wrong = {.arena = scratch(v)};
    if (!job_is_indexed(&job->spec) || job->spec.completions <= 0)
        return;
    struct str longest =
        arena_strf(scratch(v), "%.*s-%d", STR_ARG(job->metadata.name), job->spec.completions - 1);
    name_dns_label(longest, &wrong);
    if (wrong.n == 0)
        return;
    cause_invalid(v->causes, AT(AT(NULL, "metadata"), "name"), job->metadata.name,
                  arena_strf(scratch(v), "will not able to create pod with invalid DNS label: %.*s",
                             STR_ARG(longest)));
}

// --- Updates -------------------------------------------------------------------------------------

static void job_check_same_number(struct validator *v, const struct path *at, bool has, int64_t now,
                                  bool had, int64_t old)
{
    if (has == had && (!has || now == old))
        return;
    struct str shown = has ? arena_strf(scratch(v), "%lld", (long long)now) : STR("null");
    cause_invalid_json(v->causes, at, shown, STR("field is immutable"));
}

// job_check_same: a pointer to a struct that must not change.
static void job_check_same(struct validator *v, const struct path *at, const struct api_type *t,
                           const void *now, const void *old)
{
    bool same = now && old ? api_equal(t, now, old) : now == old;
    if (!same)
        validate_report_immutable(v, at, t, now);
}

static void job_check_completions(struct validator *v, const struct path *at,
                                  const struct api_job_spec *s, const struct api_job_spec *old)
{
    if (!job_is_indexed(s))
        job_check_same_number(v, at, s->has_completions, s->completions, old->has_completions,
                              old->completions);
    else if (s->has_completions && (!old->has_completions || s->completions != old->completions) &&
             s->completions != s->parallelism)
        cause_invalid_i64(v->causes, at, s->completions,
                          STR("can only be modified in tandem with spec.parallelism"));
}

static void job_check_update(struct validator *v, const struct path *at,
                             const struct api_job_spec *s, const struct api_job_spec *old)
{
    job_check_completions(v, AT(at, "completions"), s, old);
    job_check_same(v, AT(at, "podFailurePolicy"), &api_pod_failure_policy_type,
                   s->pod_failure_policy, old->pod_failure_policy);
    job_check_same_number(v, AT(at, "backoffLimitPerIndex"), s->has_backoff_limit_per_index,
                          s->backoff_limit_per_index, old->has_backoff_limit_per_index,
                          old->backoff_limit_per_index);
    job_check_same(v, AT(at, "successPolicy"), &api_success_policy_type, s->success_policy,
                   old->success_policy);
    if (s->has_completion_mode != old->has_completion_mode ||
        !str_eq(s->completion_mode, old->completion_mode))
        cause_invalid(v->causes, AT(at, "completionMode"), s->completion_mode,
                      STR("field is immutable"));
}

void validate_job(struct validator *v, const void *value, const void *old)
{
    const struct api_job *job = value;
    job_check_spec(v, AT(NULL, "spec"), &job->spec);
    job_check_name(v, job);
    if (old)
        job_check_update(v, AT(NULL, "spec"), &job->spec, &((const struct api_job *)old)->spec);
}

// A CronJob's jobs get 11 characters behind its name.
static void job_check_cron_name(struct validator *v, struct str name)
{
    if (name.n > JOB_CRON_NAME_MAX)
        cause_invalid(v->causes, AT(AT(NULL, "metadata"), "name"), name,
                      STR("must be no more than 52 characters"));
}

void validate_cron_job(struct validator *v, const void *value, const void *old)
{
    static const struct str policies[] = {STR_INIT("Allow"), STR_INIT("Forbid"),
                                          STR_INIT("Replace")};
    const struct api_cron_job *job = value;
    const struct api_cron_job_spec *s = &job->spec;
    const struct path *at = AT(NULL, "spec");
    if (!old)
        job_check_cron_name(v, job->metadata.name);
    if (!s->schedule.n)
        cause_required(v->causes, AT(at, "schedule"), STR(""));
    validate_choice_required(v, AT(at, "concurrencyPolicy"), s->concurrency_policy,
                             CHOICES(policies));
    if (s->has_starting_deadline_seconds)
        validate_not_negative(v, AT(at, "startingDeadlineSeconds"), s->starting_deadline_seconds);
    job_check_spec(v, AT(AT(at, "jobTemplate"), "spec"), &s->job_template.spec);
    validate_not_negative(v, AT(at, "successfulJobsHistoryLimit"),
                          s->successful_jobs_history_limit);
    validate_not_negative(v, AT(at, "failedJobsHistoryLimit"), s->failed_jobs_history_limit);
}

// --- Status --------------------------------------------------------------------------------------

static void job_check_indexes(struct validator *v, const struct path *at, const char *field,
                              struct str text, int64_t completions)
{
    struct str wrong;
    (void)job_indexes_total(scratch(v), text, completions, &wrong);
    if (wrong.n > 0)
        cause_invalid(v->causes, at, text,
                      arena_strf(scratch(v), "error parsing %s: %.*s", field, STR_ARG(wrong)));
}

static void job_check_counters(struct validator *v, const struct path *at,
                               const struct api_job *job, const struct api_job_status *old)
{
    const struct api_job_status *s = &job->status;
    bool elastic = job_is_indexed(&job->spec) && job->spec.has_completions &&
                   job->spec.has_parallelism && job->spec.completions == job->spec.parallelism;
    if (s->failed < old->failed)
        cause_invalid_i64(v->causes, AT(at, "failed"), s->failed,
                          STR("cannot decrease the failed counter"));
    if (s->succeeded < old->succeeded && !elastic)
        cause_invalid_i64(v->causes, AT(at, "succeeded"), s->succeeded,
                          STR("cannot decrease the succeeded counter"));
    bool changed =
        s->has_ready != old->has_ready || s->ready != old->ready || s->active != old->active;
    if (changed && s->has_ready && s->ready > s->active)
        cause_invalid_i64(v->causes, AT(at, "ready"), s->ready,
                          STR("cannot set more ready pods than active"));
}

void validate_job_status(struct validator *v, const void *value, const void *old)
{
    const struct api_job *job = value, *was = old;
    const struct api_job_status *s = &job->status;
    const struct path *at = AT(NULL, "status");
    validate_not_negative(v, AT(at, "active"), s->active);
    validate_not_negative(v, AT(at, "succeeded"), s->succeeded);
    validate_not_negative(v, AT(at, "failed"), s->failed);
    validate_not_negative(v, AT(at, "ready"), s->ready);
    validate_not_negative(v, AT(at, "terminating"), s->terminating);
    if (job->spec.has_completions && !str_eq(s->completed_indexes, was->status.completed_indexes))
        job_check_indexes(v, AT(at, "completedIndexes"), "completedIndexes", s->completed_indexes,
                          job->spec.completions);
    if (job->spec.has_completions && job->spec.has_backoff_limit_per_index &&
        s->has_failed_indexes && !str_eq(s->failed_indexes, was->status.failed_indexes))
        job_check_indexes(v, AT(at, "failedIndexes"), "failedIndexes", s->failed_indexes,
                          job->spec.completions);
    job_check_counters(v, at, job, &was->status);
}

// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the kinds of apps: replicas, times, history limits, and how many pods may be missing
// or in excess during an update. A negative one must never reach a controller. Jobs have their own
// file.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define PERCENT_MESSAGE                                                                          \
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or " \
    "'93%', regex used for validation is '[0-9]+%')"

// --- Integers or percentages ---------------------------------------------------------------------

// work_percent_of is the number before a percent sign. The value of one with too many digits is the
// largest number, as with upstream's parser.
static bool work_percent_of(const struct api_int_or_string *share, int64_t *ret)
{
    if (!share->is_text || share->text.n < 2 || !str_ends(share->text, STR("%")))
        return false;
    *ret = 0;
    for (size_t i = 0; i + 1 < share->text.n; i++) {
        char c = share->text.p[i];
        if (c < '0' || c > '9')
            return false;
        if (__builtin_mul_overflow(*ret, INT64_C(10), ret) ||
            __builtin_add_overflow(*ret, (int64_t)(c - '0'), ret))
            *ret = INT64_MAX / 10;
    }
    return true;
}

// work_share_value: zero for a text that is neither a number nor a percentage.
static int64_t work_share_value(const struct api_int_or_string *share)
{
    int64_t value = 0;
    if (!share)
        return 0;
    if (!share->is_text)
        return share->number;
    if (work_percent_of(share, &value))
        return value;
    return str_to_i64(share->text, &value) < 0 ? 0 : value;
}

static void work_cause_share(struct validator *v, const struct path *at,
                             const struct api_int_or_string *share, struct str detail)
{
    if (share && share->is_text)
        cause_invalid(v->causes, at, share->text, detail);
    else
        cause_invalid_i64(v->causes, at, share ? share->number : 0, detail);
}

static void work_check_share(struct validator *v, const struct path *at,
                             const struct api_int_or_string *share)
{
    int64_t percent;
    if (!share)
        return;
    if (!share->is_text)
        validate_not_negative(v, at, share->number);
    else if (!work_percent_of(share, &percent))
        cause_invalid(v->causes, at, share->text, STR(PERCENT_MESSAGE));
}

static void work_check_whole(struct validator *v, const struct path *at,
                             const struct api_int_or_string *share)
{
    int64_t percent;
    if (share && work_percent_of(share, &percent) && percent > 100)
        work_cause_share(v, at, share, STR("must not be greater than 100%"));
}

void validate_share(struct validator *v, const struct path *at,
                    const struct api_int_or_string *share)
{
    work_check_share(v, at, share);
    work_check_whole(v, at, share);
}

// --- Specs ---------------------------------------------------------------------------------------

static void work_check_deployment_strategy(struct validator *v, const struct path *at,
                                           const struct api_deployment_strategy *s)
{
    const struct api_rolling_update_deployment *r = s->rolling_update;
    if (!r)
        return;
    if (str_eqz(s->type, "Recreate")) {
        cause_forbidden(v->causes, AT(at, "rollingUpdate"),
                        STR("may not be specified when strategy `type` is 'Recreate'"));
        return;
    }
    if (!str_eqz(s->type, "RollingUpdate"))
        return;
    const struct path *rolling = AT(at, "rollingUpdate"), *missing = AT(rolling, "maxUnavailable");
    work_check_share(v, missing, r->max_unavailable);
    work_check_share(v, AT(rolling, "maxSurge"), r->max_surge);
    if (work_share_value(r->max_unavailable) == 0 && work_share_value(r->max_surge) == 0)
        work_cause_share(v, missing, r->max_unavailable, STR("may not be 0 when `maxSurge` is 0"));
    work_check_whole(v, missing, r->max_unavailable);
}

static void work_check_deployment(struct validator *v, const void *value, const void *old)
{
    (void)old;
    const struct api_deployment_spec *s = &((const struct api_deployment *)value)->spec;
    const struct path *at = AT(NULL, "spec");
    const struct path *deadline = AT(at, "progressDeadlineSeconds");
    validate_not_negative(v, AT(at, "replicas"), s->replicas);
    work_check_deployment_strategy(v, AT(at, "strategy"), &s->strategy);
    validate_not_negative(v, AT(at, "minReadySeconds"), s->min_ready_seconds);
    validate_not_negative(v, AT(at, "revisionHistoryLimit"), s->revision_history_limit);
    validate_not_negative(v, deadline, s->progress_deadline_seconds);
    if (s->progress_deadline_seconds <= s->min_ready_seconds)
        cause_invalid_i64(v->causes, deadline, s->progress_deadline_seconds,
                          STR("must be greater than minReadySeconds"));
}

static void work_check_replica_set(struct validator *v, const void *value, const void *old)
{
    (void)old;
    const struct api_replica_set_spec *s = &((const struct api_replica_set *)value)->spec;
    const struct path *at = AT(NULL, "spec");
    validate_not_negative(v, AT(at, "replicas"), s->replicas);
    validate_not_negative(v, AT(at, "minReadySeconds"), s->min_ready_seconds);
}

static void work_check_daemon_strategy(struct validator *v, const struct path *at,
                                       const struct api_daemon_set_update_strategy *s)
{
    const struct api_rolling_update_daemon_set *r = s->rolling_update;
    if (!r || !str_eqz(s->type, "RollingUpdate"))
        return;
    const struct path *rolling = AT(at, "rollingUpdate");
    const struct path *missing = AT(rolling, "maxUnavailable"), *surge = AT(rolling, "maxSurge");
    work_check_share(v, missing, r->max_unavailable);
    work_check_share(v, surge, r->max_surge);
    work_check_whole(v, missing, r->max_unavailable);
    work_check_whole(v, surge, r->max_surge);
    bool has_missing = work_share_value(r->max_unavailable) != 0;
    bool has_surge = work_share_value(r->max_surge) != 0;
    if (has_missing && has_surge)
        work_cause_share(v, surge, r->max_surge,
                         STR("may not be set when maxUnavailable is non-zero"));
    else if (!has_missing && !has_surge)
        cause_required(v->causes, missing, STR("cannot be 0 when maxSurge is 0"));
}

static void work_check_daemon_set(struct validator *v, const void *value, const void *old)
{
    (void)old;
    const struct api_daemon_set_spec *s = &((const struct api_daemon_set *)value)->spec;
    const struct path *at = AT(NULL, "spec");
    validate_not_negative(v, AT(at, "minReadySeconds"), s->min_ready_seconds);
    work_check_daemon_strategy(v, AT(at, "updateStrategy"), &s->update_strategy);
    validate_not_negative(v, AT(at, "revisionHistoryLimit"), s->revision_history_limit);
}

static void work_check_stateful_strategy(struct validator *v, const struct path *at,
                                         const struct api_stateful_set_update_strategy *s)
{
    const struct api_rolling_update_stateful_set_strategy *r = s->rolling_update;
    if (!r || !str_eqz(s->type, "RollingUpdate"))
        return;
    const struct path *rolling = AT(at, "rollingUpdate"), *missing = AT(rolling, "maxUnavailable");
    validate_not_negative(v, AT(rolling, "partition"), r->partition);
    if (!r->max_unavailable)
        return;
    work_check_share(v, missing, r->max_unavailable);
    if (work_share_value(r->max_unavailable) == 0)
        work_cause_share(v, missing, r->max_unavailable, STR("cannot be 0"));
    work_check_whole(v, missing, r->max_unavailable);
}

// Upstream takes any revisionHistoryLimit of a StatefulSet; so does this.
static void work_check_stateful_set(struct validator *v, const void *value, const void *old)
{
    (void)old;
    const struct api_stateful_set_spec *s = &((const struct api_stateful_set *)value)->spec;
    const struct path *at = AT(NULL, "spec");
    work_check_stateful_strategy(v, AT(at, "updateStrategy"), &s->update_strategy);
    validate_not_negative(v, AT(at, "replicas"), s->replicas);
    validate_not_negative(v, AT(at, "minReadySeconds"), s->min_ready_seconds);
    if (s->ordinals)
        validate_not_negative(v, AT(at, "ordinals.start"), s->ordinals->start);
}

static void work_check_revision(struct validator *v, const void *value, const void *old)
{
    (void)old;
    validate_not_negative(v, AT(NULL, "revision"),
                          ((const struct api_controller_revision *)value)->revision);
}

// --- Statuses ------------------------------------------------------------------------------------

// A count in a status, and whether it may exceed the number of replicas.
struct work_count {
    struct str name;
    int64_t value;
    bool within_replicas;
};

static void work_check_counts(struct validator *v, const struct work_count *counts, size_t n,
                              int64_t replicas)
{
    for (size_t i = 0; i < n; i++)
        validate_not_negative(v, AT_NAME(AT(NULL, "status"), counts[i].name), counts[i].value);
    for (size_t i = 0; i < n; i++)
        if (counts[i].within_replicas && counts[i].value > replicas)
            cause_invalid_i64(v->causes, AT_NAME(AT(NULL, "status"), counts[i].name),
                              counts[i].value, STR("cannot be greater than status.replicas"));
}

static void work_check_available(struct validator *v, int64_t available, int64_t ready,
                                 struct str detail)
{
    if (available > ready)
        cause_invalid_i64(v->causes, AT(AT(NULL, "status"), "availableReplicas"), available,
                          detail);
}

static void work_check_collisions(struct validator *v, int64_t now, bool has, int64_t old, bool had)
{
    const struct path *at = AT(AT(NULL, "status"), "collisionCount");
    if (has)
        validate_not_negative(v, at, now);
    if (had && (!has || now < old))
        cause_invalid_i64(v->causes, at, has ? now : 0, STR("cannot be decremented"));
}

static void work_check_deployment_status(struct validator *v, const void *value, const void *old)
{
    const struct api_deployment_status *s = &((const struct api_deployment *)value)->status;
    const struct api_deployment_status *was = &((const struct api_deployment *)old)->status;
    const struct work_count counts[] = {
        {STR_INIT("observedGeneration"), s->observed_generation, false},
        {STR_INIT("replicas"), s->replicas, false},
        {STR_INIT("updatedReplicas"), s->updated_replicas, true},
        {STR_INIT("readyReplicas"), s->ready_replicas, true},
        {STR_INIT("availableReplicas"), s->available_replicas, true},
        {STR_INIT("unavailableReplicas"), s->unavailable_replicas, false},
        {STR_INIT("terminatingReplicas"), s->terminating_replicas, false},
    };
    work_check_counts(v, counts, array_len(counts), s->replicas);
    work_check_available(v, s->available_replicas, s->ready_replicas,
                         STR("cannot be greater than readyReplicas"));
    work_check_collisions(v, s->collision_count, s->has_collision_count, was->collision_count,
                          was->has_collision_count);
}

static void work_check_replica_set_status(struct validator *v, const void *value, const void *old)
{
    const struct api_replica_set_status *s = &((const struct api_replica_set *)value)->status;
    (void)old;
    const struct work_count counts[] = {
        {STR_INIT("replicas"), s->replicas, false},
        {STR_INIT("fullyLabeledReplicas"), s->fully_labeled_replicas, true},
        {STR_INIT("readyReplicas"), s->ready_replicas, true},
        {STR_INIT("availableReplicas"), s->available_replicas, true},
        {STR_INIT("observedGeneration"), s->observed_generation, false},
        {STR_INIT("terminatingReplicas"), s->terminating_replicas, false},
    };
    work_check_counts(v, counts, array_len(counts), s->replicas);
    work_check_available(v, s->available_replicas, s->ready_replicas,
                         STR("cannot be greater than readyReplicas"));
}

static void work_check_daemon_set_status(struct validator *v, const void *value, const void *old)
{
    const struct api_daemon_set_status *s = &((const struct api_daemon_set *)value)->status;
    const struct api_daemon_set_status *was = &((const struct api_daemon_set *)old)->status;
    const struct work_count counts[] = {
        {STR_INIT("currentNumberScheduled"), s->current_number_scheduled, false},
        {STR_INIT("numberMisscheduled"), s->number_misscheduled, false},
        {STR_INIT("desiredNumberScheduled"), s->desired_number_scheduled, false},
        {STR_INIT("numberReady"), s->number_ready, false},
        {STR_INIT("observedGeneration"), s->observed_generation, false},
        {STR_INIT("updatedNumberScheduled"), s->updated_number_scheduled, false},
        {STR_INIT("numberAvailable"), s->number_available, false},
        {STR_INIT("numberUnavailable"), s->number_unavailable, false},
    };
    work_check_counts(v, counts, array_len(counts), 0);
    work_check_collisions(v, s->collision_count, s->has_collision_count, was->collision_count,
                          was->has_collision_count);
}

static void work_check_stateful_set_status(struct validator *v, const void *value, const void *old)
{
    const struct api_stateful_set_status *s = &((const struct api_stateful_set *)value)->status;
    const struct api_stateful_set_status *was = &((const struct api_stateful_set *)old)->status;
    const struct work_count counts[] = {
        {STR_INIT("replicas"), s->replicas, false},
        {STR_INIT("readyReplicas"), s->ready_replicas, true},
        {STR_INIT("currentReplicas"), s->current_replicas, true},
        {STR_INIT("updatedReplicas"), s->updated_replicas, true},
        {STR_INIT("availableReplicas"), s->available_replicas, true},
        {STR_INIT("observedGeneration"), s->observed_generation, false},
    };
    work_check_counts(v, counts, array_len(counts), s->replicas);
    work_check_available(v, s->available_replicas, s->ready_replicas,
                         STR("cannot be greater than status.readyReplicas"));
    work_check_collisions(v, s->collision_count, s->has_collision_count, was->collision_count,
                          was->has_collision_count);
}

// --- Dispatch ------------------------------------------------------------------------------------

static const struct {
    const struct api_type *type;
    void (*spec)(struct validator *v, const void *value, const void *old); // old may be NULL
    void (*status)(struct validator *v, const void *value, const void *old);
} work_rules[] = {
    {&api_deployment_type, work_check_deployment, work_check_deployment_status},
    {&api_replica_set_type, work_check_replica_set, work_check_replica_set_status},
    {&api_daemon_set_type, work_check_daemon_set, work_check_daemon_set_status},
    {&api_stateful_set_type, work_check_stateful_set, work_check_stateful_set_status},
    {&api_controller_revision_type, work_check_revision, NULL},
    {&api_job_type, validate_job, validate_job_status},
    {&api_cron_job_type, validate_cron_job, NULL},
    {&api_horizontal_pod_autoscaler_type, validate_autoscaler, validate_autoscaler_status},
};

void validate_work_numbers(struct validator *v, const struct api_type *t, const void *value,
                           const void *old)
{
    bool status = v->op == API_STATUS_UPDATE;
    for (size_t i = 0; i < array_len(work_rules); i++) {
        if (work_rules[i].type != t)
            continue;
        if (!status)
            work_rules[i].spec(v, value, old);
        else if (work_rules[i].status && old)
            work_rules[i].status(v, value, old);
    }
}

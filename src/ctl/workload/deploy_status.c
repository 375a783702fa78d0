// SPDX-License-Identifier: Apache-2.0
//
// The status of a Deployment: numbers, and the conditions Available, Progressing,
// ReplicaFailure.
#include "ctl/workload/deploy_int.h"

#include "base/banned.h"

bool deploy_has_deadline(const struct api_deployment *d)
{
    return d->spec.progress_deadline_seconds > 0 && d->spec.progress_deadline_seconds < INT32_MAX;
}

const struct api_deployment_condition *deploy_condition(const struct api_deployment *d,
                                                        const char *type)
{
    for (size_t i = 0; i < d->status.conditions.n; i++)
        if (str_eqz(d->status.conditions.p[i].type, type))
            return &d->status.conditions.p[i];
    return NULL;
}

static void drop_condition(struct api_deployment *d, const char *type, struct arena *arena)
{
    const struct api_deployment_condition_array old = d->status.conditions;
    struct api_deployment_condition *all =
        arena_array(arena, struct api_deployment_condition, old.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++)
        if (!str_eqz(old.p[i].type, type))
            all[n++] = old.p[i];
    d->status.conditions = (struct api_deployment_condition_array){all, n};
}

// put_condition leaves one of the same status and reason alone, unless force.
static void put_condition(const struct deploy *d, struct api_deployment *out,
                          struct api_deployment_condition c, bool force)
{
    const struct api_deployment_condition *had = deploy_condition(out, c.type.p);
    bool same = had && str_eq(had->status, c.status);
    if (same && str_eq(had->reason, c.reason) && !force)
        return;
    c.last_update_time = ctl_now(d->l->ctl);
    c.last_transition_time = same ? had->last_transition_time : c.last_update_time;
    drop_condition(out, c.type.p, d->arena);
    out->status.conditions.p[out->status.conditions.n++] = c;
}

static struct api_deployment_condition deploy_status_progressing_condition(const char *status,
                                                                           const char *reason,
                                                                           struct str message)
{
    return (struct api_deployment_condition){.type = STR("Progressing"),
                                             .status = str_z(status),
                                             .reason = str_z(reason),
                                             .message = message};
}

bool deploy_set_progressing(const struct deploy *d, const char *status, const char *reason,
                            struct str message, struct str revision)
{
    struct api_deployment changed = *d->d;
    if (reason)
        put_condition(d, &changed, deploy_status_progressing_condition(status, reason, message),
                      true);
    if (revision.n)
        meta_map_put(&changed.metadata.annotations, STR(DEPLOY_REVISION), revision, d->arena);
    load_update_status(d->l, d->key, &changed);
    return true;
}

bool deploy_pause_status(const struct deploy *d)
{
    const struct api_deployment_condition *c = deploy_condition(d->d, "Progressing");
    if (!deploy_has_deadline(d->d) || (c && str_eqz(c->reason, "ProgressDeadlineExceeded")))
        return false;
    bool told = c && str_eqz(c->reason, "DeploymentPaused");
    if (d->d->spec.paused == told)
        return false;
    return deploy_set_progressing(d, "Unknown", told ? "DeploymentResumed" : "DeploymentPaused",
                                  told ? STR("Deployment is resumed") : STR("Deployment is paused"),
                                  STR(""));
}

// --- Progress ------------------------------------------------------------------------------------

static bool deploy_status_is_complete(const struct api_deployment *d)
{
    const struct api_deployment_status *s = &d->status;
    return s->updated_replicas == d->spec.replicas && s->replicas == d->spec.replicas &&
           s->available_replicas == d->spec.replicas &&
           s->observed_generation >= d->metadata.generation;
}

static bool has_progressed(const struct api_deployment_status *now,
                           const struct api_deployment_status *was)
{
    return now->updated_replicas > was->updated_replicas ||
           (int64_t)now->replicas - now->updated_replicas <
               (int64_t)was->replicas - was->updated_replicas ||
           now->ready_replicas > was->ready_replicas ||
           now->available_replicas > was->available_replicas;
}

// Seconds until a rollout without progress has failed; INT64_MAX where that cannot be.
static int64_t deadline_left(const struct deploy *d, const struct api_deployment *now)
{
    const struct api_deployment_condition *c = deploy_condition(now, "Progressing");
    if (!deploy_has_deadline(now) || !c || str_eqz(c->reason, "NewReplicaSetAvailable") ||
        str_eqz(c->reason, "ProgressDeadlineExceeded") || str_eqz(c->reason, "DeploymentPaused"))
        return INT64_MAX;
    return c->last_update_time.at.sec + now->spec.progress_deadline_seconds + 1 -
           ctl_now(d->l->ctl).at.sec;
}

static struct str about_rollout(const struct deploy *d, const char *what)
{
    return d->newest
               ? arena_strf(d->arena, "ReplicaSet \"%.*s\" %s", STR_ARG(d->newest->meta->name),
                            what)
               : arena_strf(d->arena, "Deployment \"%.*s\" %s", STR_ARG(d->o->meta->name), what);
}

static void set_progress(const struct deploy *d, struct api_deployment *now)
{
    const struct api_deployment_condition *c = deploy_condition(now, "Progressing");
    if (!deploy_has_deadline(now)) {
        drop_condition(now, "Progressing", d->arena);
        return;
    }
    if (c && str_eqz(c->reason, "NewReplicaSetAvailable") &&
        now->status.replicas == now->status.updated_replicas)
        return;
    if (deploy_status_is_complete(now))
        put_condition(
            d, now,
            deploy_status_progressing_condition("True", "NewReplicaSetAvailable",
                                                about_rollout(d, "has successfully progressed.")),
            false);
    else if (has_progressed(&now->status, &d->d->status))
        put_condition(d, now,
                      deploy_status_progressing_condition("True", "ReplicaSetUpdated",
                                                          about_rollout(d, "is progressing.")),
                      true);
    else if (deadline_left(d, now) <= 0)
        put_condition(
            d, now,
            deploy_status_progressing_condition("False", "ProgressDeadlineExceeded",
                                                about_rollout(d, "has timed out progressing.")),
            false);
}

static void set_failures(const struct deploy *d, struct api_deployment *now)
{
    const struct api_replica_set_condition *found = NULL;
    for (size_t i = 0; i <= d->sets.n && !found; i++) {
        const struct typed_object *set = i == 0 ? d->newest : d->sets.p[i - 1];
        const struct api_replica_set *s = maybe_replica_set(set);
        for (size_t k = 0; s && k < s->status.conditions.n; k++)
            if (str_eqz(s->status.conditions.p[k].type, "ReplicaFailure"))
                found = &s->status.conditions.p[k];
    }
    if (!found) {
        drop_condition(now, "ReplicaFailure", d->arena);
        return;
    }
    put_condition(d, now,
                  (struct api_deployment_condition){.type = STR("ReplicaFailure"),
                                                    .status = found->status,
                                                    .reason = found->reason,
                                                    .message = found->message},
                  false);
}

// --- Numbers -------------------------------------------------------------------------------------

static void set_numbers(const struct deploy *d, struct api_deployment *now)
{
    struct api_deployment_status *s = &now->status;
    int64_t missing = deploy_count(&d->sets) - deploy_available(&d->sets);
    int64_t replicas = 0, ready = 0, terminating = 0;
    s->observed_generation = now->metadata.generation;
    s->has_terminating_replicas = true;
    vec_foreach(&d->sets, set) {
        const struct api_replica_set_status *one = &as_replica_set(*set)->status;
        replicas += load_not_negative(one->replicas);
        ready += load_not_negative(one->ready_replicas);
        terminating += load_not_negative(one->terminating_replicas);
    }
    s->replicas = load_not_negative(replicas);
    s->ready_replicas = load_not_negative(ready);
    s->terminating_replicas = load_not_negative(terminating);
    s->updated_replicas = d->newest ? as_replica_set(d->newest)->status.replicas : 0;
    s->available_replicas = load_not_negative(deploy_available(&d->sets));
    s->unavailable_replicas = load_not_negative(missing);
    bool enough = s->available_replicas >= d->wanted - d->unavailable;
    put_condition(d, now,
                  (struct api_deployment_condition){
                      .type = STR("Available"),
                      .status = enough ? STR("True") : STR("False"),
                      .reason = enough ? STR("MinimumReplicasAvailable")
                                       : STR("MinimumReplicasUnavailable"),
                      .message = enough ? STR("Deployment has minimum availability.")
                                        : STR("Deployment does not have minimum availability.")},
                  false);
}

bool deploy_status(const struct deploy *d, bool rollout, int64_t *wait_s)
{
    struct api_deployment now = *d->d;
    set_numbers(d, &now);
    if (rollout) {
        set_progress(d, &now);
        set_failures(d, &now);
    }
    *wait_s = rollout && !deploy_status_is_complete(&now) ? deadline_left(d, &now) : INT64_MAX;
    if (api_equal(&api_deployment_status_type, &now.status, &d->d->status))
        return false;
    load_update_status(d->l, d->key, &now);
    return true;
}

// SPDX-License-Identifier: Apache-2.0
//
// ReplicaSets: as many pods as are wanted, and their status.
#include "api/match/claim.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

static struct load_objects active_of(const struct load_objects *all, struct arena *arena)
{
    struct load_objects active = {0};
    vec_foreach(all, o)
        if (load_is_active(as_pod(*o)))
            vec_push_arena(arena, &active, *o);
    return active;
}

// one_pod_step makes or deletes a pod when there are too few or too many; true when it did.
static bool one_pod_step(struct load *l, struct str key, const struct typed_object *o,
                         struct load_objects *active, struct arena *arena)
{
    const struct api_replica_set *set = as_replica_set(o);
    size_t wanted = set->spec.replicas > 0 ? (size_t)set->spec.replicas : 0;
    if (set->metadata.deletion_timestamp.set || active->n == wanted)
        return false;
    if (active->n > wanted) {
        load_rank(active);
        load_delete(l, key, o, CACHE_PODS, active->p[0], &load_pod_deleted);
        return true;
    }
    struct api_pod pod = load_pod_of(&set->spec.template, l, o, arena);
    pod.metadata.generate_name = load_generate_name(set->metadata.name, arena);
    load_create(l, key, o, CACHE_PODS, &pod, &load_pod_created);
    return true;
}

// --- Status --------------------------------------------------------------------------------------

static bool has_all_labels(const struct api_str_map *wanted, const struct api_str_map *have)
{
    for (size_t i = 0; i < wanted->n; i++) {
        const struct str *value = api_map_find(have, wanted->p[i].key);
        if (!value || !str_eq(*value, wanted->p[i].value))
            return false;
    }
    return true;
}

// The one condition: the last write failed while the number of pods was wrong. One of the same
// reason stays as it is: messages may name a pod that is another at each attempt.
static void set_failure(const struct load *l, struct str key, struct api_replica_set *set,
                        bool wrong, struct arena *arena)
{
    const struct load_failure *f = wrong ? load_failure(l, key) : NULL;
    const struct api_replica_set_condition_array old = set->status.conditions;
    struct api_replica_set_condition *all =
        arena_array(arena, struct api_replica_set_condition, old.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < old.n; i++) {
        bool same = f && str_eqz(old.p[i].reason, f->reason);
        if (!str_eqz(old.p[i].type, "ReplicaFailure") || same)
            all[n++] = old.p[i];
        if (str_eqz(old.p[i].type, "ReplicaFailure") && same)
            f = NULL;
    }
    if (f)
        all[n++] = (struct api_replica_set_condition){.type = STR("ReplicaFailure"),
                                                      .status = STR("True"),
                                                      .last_transition_time = ctl_now(l->ctl),
                                                      .reason = str_z(f->reason),
                                                      .message = str_z(f->message)};
    set->status.conditions = (struct api_replica_set_condition_array){n > 0 ? all : NULL, n};
}

static struct api_replica_set status_now(const struct load *l, struct str key,
                                         const struct typed_object *o,
                                         const struct load_objects *pods,
                                         const struct load_objects *active, struct arena *arena,
                                         int64_t *wait_s)
{
    struct api_replica_set set = *as_replica_set(o);
    struct api_replica_set_status *s = &set.status;
    int64_t now = ctl_now(l->ctl).at.sec;
    s->replicas = (int32_t)active->n;
    s->fully_labeled_replicas = s->ready_replicas = s->available_replicas = 0;
    vec_foreach(active, at) {
        const struct api_pod *pod = as_pod(*at);
        s->fully_labeled_replicas +=
            has_all_labels(&set.spec.template.metadata.labels, &pod->metadata.labels);
        s->ready_replicas += load_is_ready(pod);
        s->available_replicas += load_is_available(pod, set.spec.min_ready_seconds, now, wait_s);
    }
    s->terminating_replicas = 0;
    s->has_terminating_replicas = true;
    vec_foreach(pods, at)
        s->terminating_replicas +=
            as_pod(*at)->metadata.deletion_timestamp.set && !pod_is_terminal(as_pod(*at));
    s->observed_generation = set.metadata.generation;
    set_failure(l, key, &set, s->replicas != set.spec.replicas, arena);
    return set;
}

void replicaset_step_key(struct load *l, struct str key, const struct typed_object *o)
{
    const struct api_replica_set *set = as_replica_set(o);
    if (load_claim(l, key, o, CACHE_PODS, set->spec.selector))
        return;
    cleanup_arena struct arena arena = {0};
    int64_t wait_s = INT64_MAX;
    struct load_objects pods = load_owned(l, CACHE_PODS, o, &arena);
    struct load_objects active = active_of(&pods, &arena);
    struct api_replica_set now = status_now(l, key, o, &pods, &active, &arena, &wait_s);
    bool differs = !api_equal(&api_replica_set_status_type, &now.status, &set->status);
    // A failure is written into the status before the next attempt; otherwise the pods come first.
    bool status_first = load_failure(l, key) && differs;
    if (!status_first && one_pod_step(l, key, o, &active, &arena))
        return;
    if (differs)
        load_update_status(l, key, &now);
    else
        load_finish(l, key, wait_s);
}

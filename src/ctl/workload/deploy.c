// SPDX-License-Identifier: Apache-2.0
//
// Deployments: one ReplicaSet for each template they had, the newest grows while the others shrink.
#include <stdlib.h>

#include "api/match/claim.h"
#include "ctl/workload/deploy_int.h"

#include "base/banned.h"

// --- Which sets are whose ------------------------------------------------------------------------

static int deploy_compare_age(const void *x, const void *y)
{
    const struct typed_object *a = *(const struct typed_object *const *)x;
    const struct typed_object *b = *(const struct typed_object *const *)y;
    int64_t s = a->meta->creation_timestamp.at.sec, t = b->meta->creation_timestamp.at.sec;
    return s != t ? (s > t) - (s < t) : str_cmp(a->meta->name, b->meta->name);
}

static bool has_template(const struct typed_object *set, const struct api_pod_template_spec *t,
                         struct arena *arena)
{
    struct api_pod_template_spec theirs = as_replica_set(set)->spec.template;
    struct api_pod_template_spec ours = *t;
    meta_map_drop(&theirs.metadata.labels, STR(DEPLOY_HASH), arena);
    meta_map_drop(&ours.metadata.labels, STR(DEPLOY_HASH), arena);
    return api_equal(&api_pod_template_spec_type, &theirs, &ours);
}

static void deploy_find_sets(struct deploy *d)
{
    d->sets = load_owned(d->l, CACHE_REPLICA_SETS, d->o, d->arena);
    if (d->sets.n > 0)
        qsort(d->sets.p, d->sets.n, sizeof(*d->sets.p), deploy_compare_age);
    vec_foreach(&d->sets, set) {
        if (!d->newest && has_template(*set, &d->d->spec.template, d->arena))
            d->newest = *set;
        else
            vec_push_arena(d->arena, &d->old, *set);
    }
}

static void find_bounds(struct deploy *d)
{
    const struct api_deployment_spec *spec = &d->d->spec;
    const struct api_rolling_update_deployment *rolling = spec->strategy.rolling_update;
    d->wanted = load_not_negative(spec->replicas);
    if (str_eqz(spec->strategy.type, "Recreate") || !rolling)
        return;
    d->surge = load_scaled(rolling->max_surge, (int32_t)d->wanted, true);
    d->unavailable = load_scaled(rolling->max_unavailable, (int32_t)d->wanted, false);
    if (d->surge == 0 && d->unavailable == 0)
        d->unavailable = 1;
    if (d->unavailable > d->wanted)
        d->unavailable = d->wanted;
}

// --- The newest set ------------------------------------------------------------------------------

static int64_t deploy_set_revision(const struct typed_object *set)
{
    int64_t revision = 0;
    return meta_map_int(&set->meta->annotations, STR(DEPLOY_REVISION), &revision) ? revision : 0;
}

static bool stays_with_deployment(struct str annotation)
{
    static const char *const own[] = {"kubectl.kubernetes.io/last-applied-configuration",
                                      DEPLOY_REVISION,
                                      DEPLOY_HISTORY,
                                      DEPLOY_DESIRED,
                                      DEPLOY_MAX,
                                      DEPLOY_ROLLBACK};
    for (size_t i = 0; i < array_len(own); i++)
        if (str_eqz(annotation, own[i]))
            return true;
    return false;
}

static void deploy_put_number(struct api_str_map *map, const char *key, int64_t value,
                              struct arena *arena)
{
    meta_map_put(map, str_z(key), arena_strf(arena, "%lld", (long long)value), arena);
}

static void annotate_new(const struct deploy *d, struct api_str_map *map, bool is_new)
{
    int64_t last = 0;
    vec_foreach(&d->old, set)
        last = deploy_set_revision(*set) > last ? deploy_set_revision(*set) : last;
    for (size_t i = 0; i < d->o->meta->annotations.n; i++) {
        const struct api_str_entry *e = &d->o->meta->annotations.p[i];
        if (!stays_with_deployment(e->key))
            meta_map_put(map, e->key, e->value, d->arena);
    }
    int64_t had = 0;
    bool has = meta_map_int(map, STR(DEPLOY_REVISION), &had);
    int64_t next = load_next(last);
    if (!has || had < next)
        deploy_put_number(map, DEPLOY_REVISION, next, d->arena);
    if (has && had < next) {
        const struct str *history = api_map_find(map, STR(DEPLOY_HISTORY));
        meta_map_put(map, STR(DEPLOY_HISTORY),
                     history && history->n
                         ? arena_strf(d->arena, "%.*s,%lld", STR_ARG(*history), (long long)had)
                         : arena_strf(d->arena, "%lld", (long long)had),
                     d->arena);
    }
    if (is_new) {
        deploy_put_number(map, DEPLOY_DESIRED, d->wanted, d->arena);
        deploy_put_number(map, DEPLOY_MAX, d->wanted + d->surge, d->arena);
    }
}

static bool deploy_same_annotations(const struct api_str_map *a, const struct api_str_map *b)
{
    const struct api_object_meta x = {.annotations = *a}, y = {.annotations = *b};
    return api_equal(&api_object_meta_type, &x, &y);
}

// tell_new writes into the status which set the rollout is about now.
static bool tell_new(const struct deploy *d)
{
    const struct str *revision = api_map_find(&d->newest->meta->annotations, STR(DEPLOY_REVISION));
    const struct str *told = api_map_find(&d->o->meta->annotations, STR(DEPLOY_REVISION));
    const struct api_deployment_condition *c = deploy_condition(d->d, "Progressing");
    struct str quoted = arena_strf(d->arena, "\"%.*s\"", STR_ARG(d->newest->meta->name));
    int64_t since = c ? c->last_update_time.at.sec : d->o->meta->creation_timestamp.at.sec;
    bool made = d->newest->meta->creation_timestamp.at.sec >= since;
    bool news = deploy_has_deadline(d->d) && (!c || (made && !str_contains(c->message, quoted)));
    if (news)
        return deploy_set_progressing(d, "True",
                                      made ? "NewReplicaSetCreated" : "FoundNewReplicaSet",
                                      arena_strf(d->arena, "%s new replica set %.*s",
                                                 made ? "Created" : "Found", STR_ARG(quoted)),
                                      revision ? *revision : STR(""));
    if (revision && !(told && str_eq(*told, *revision)))
        return deploy_set_progressing(d, NULL, NULL, STR(""), *revision);
    return false;
}

// deploy_sync_new makes the newest set's annotations and the Deployment's own revision right.
static bool deploy_sync_new(const struct deploy *d)
{
    struct api_replica_set set = *as_replica_set(d->newest);
    annotate_new(d, &set.metadata.annotations, false);
    bool differs =
        !deploy_same_annotations(&set.metadata.annotations, &d->newest->meta->annotations) ||
        set.spec.min_ready_seconds != d->d->spec.min_ready_seconds;
    set.spec.min_ready_seconds = d->d->spec.min_ready_seconds;
    if (!differs)
        return tell_new(d);
    load_update(d->l, d->key, d->o, CACHE_REPLICA_SETS, &set, NULL);
    return true;
}

static struct api_replica_set new_set(const struct deploy *d, struct str hash)
{
    const struct api_deployment_spec *spec = &d->d->spec;
    struct api_replica_set set = {
        .metadata = {.namespace = d->o->meta->namespace, .labels = spec->template.metadata.labels},
        .spec = {.min_ready_seconds = spec->min_ready_seconds, .template = spec->template},
    };
    meta_own(&set.metadata, ctl_kind(CACHE_DEPLOYMENTS), d->o->meta, true, d->arena);
    meta_map_put(&set.metadata.labels, STR(DEPLOY_HASH), hash, d->arena);
    set.spec.template.metadata.labels = set.metadata.labels;
    set.spec.selector = arena_one(d->arena, struct api_label_selector);
    *set.spec.selector = *spec->selector;
    meta_map_put(&set.spec.selector->match_labels, STR(DEPLOY_HASH), hash, d->arena);
    annotate_new(d, &set.metadata.annotations, true);
    return set;
}

static bool deploy_create_new(const struct deploy *d)
{
    const struct api_deployment *now = d->d;
    struct str hash = load_template_hash(&now->spec.template, now->status.has_collision_count,
                                         now->status.collision_count, d->arena);
    struct api_replica_set set = new_set(d, hash);
    enum { NAME_MAX_LEN = 253 };
    set.metadata.name =
        arena_strf(d->arena, "%.*s-%.*s",
                   STR_ARG(str_upto(d->o->meta->name, NAME_MAX_LEN - 1 - hash.n)), STR_ARG(hash));
    if (ctl_find(d->l->ctl, CACHE_REPLICA_SETS, d->o->meta->namespace, set.metadata.name)) {
        struct api_deployment changed = *now; // somebody else's: the next hash is another
        changed.status.collision_count =
            load_not_negative((int64_t)changed.status.collision_count + 1);
        changed.status.has_collision_count = true;
        load_update_status(d->l, d->key, &changed);
        return true;
    }
    int64_t size = d->wanted;
    if (!str_eqz(now->spec.strategy.type, "Recreate")) {
        int64_t room = d->wanted + d->surge - deploy_count(&d->sets);
        size = room < size ? room : size;
    }
    set.spec.replicas = load_not_negative(size);
    set.spec.has_replicas = true;
    struct str text = arena_strf(d->arena, "Scaled up replica set %.*s from 0 to %d",
                                 STR_ARG(set.metadata.name), set.spec.replicas);
    struct str failed = arena_strf(
        d->arena, "Failed to create new replica set \"%.*s\": ", STR_ARG(set.metadata.name));
    const struct load_event event = {set.spec.replicas > 0 ? "ScalingReplicaSet" : NULL, text.p,
                                     "ReplicaSetCreateError", failed.p};
    load_create(d->l, d->key, d->o, CACHE_REPLICA_SETS, &set, &event);
    return true;
}

// --- Rollback ------------------------------------------------------------------------------------

// deploy_roll_back answers the old annotation that asks for a revision; 0 is the one before.
static bool deploy_roll_back(const struct deploy *d)
{
    int64_t wanted = 0;
    if (!api_map_find(&d->o->meta->annotations, STR(DEPLOY_ROLLBACK)))
        return false;
    (void)meta_map_int(&d->o->meta->annotations, STR(DEPLOY_ROLLBACK), &wanted);
    struct api_deployment changed = *d->d;
    meta_map_drop(&changed.metadata.annotations, STR(DEPLOY_ROLLBACK), d->arena);
    const struct typed_object *found = NULL;
    vec_foreach(&d->old, set)
        if (wanted ? deploy_set_revision(*set) == wanted
                   : !found || deploy_set_revision(*set) > deploy_set_revision(found))
            found = *set;
    if (found) {
        changed.spec.template = as_replica_set(found)->spec.template;
        meta_map_drop(&changed.spec.template.metadata.labels, STR(DEPLOY_HASH), d->arena);
    }
    struct str text =
        arena_strf(d->arena, "Rolled back deployment \"%.*s\" to revision %lld",
                   STR_ARG(d->o->meta->name), found ? (long long)deploy_set_revision(found) : 0LL);
    if (!found)
        load_tell(d->l, d->o, EVENT_WARNING, "DeploymentRollbackRevisionNotFound",
                  STR("Unable to find the revision to rollback to."));
    const struct load_event done = {"DeploymentRollback", text.p, NULL, NULL};
    load_update(d->l, d->key, d->o, CACHE_DEPLOYMENTS, &changed, found ? &done : NULL);
    return true;
}

// --- Steps ---------------------------------------------------------------------------------------

static bool is_scaling(const struct deploy *d)
{
    vec_foreach(&d->sets, set) {
        int64_t desired = 0;
        if (as_replica_set(*set)->spec.replicas > 0 &&
            meta_map_int(&(*set)->meta->annotations, STR(DEPLOY_DESIRED), &desired) &&
            desired != d->wanted)
            return true;
    }
    return false;
}

static bool old_pods_run(const struct deploy *d)
{
    vec_foreach(&d->old, set) {
        struct load_objects pods = load_owned(d->l, CACHE_PODS, *set, d->arena);
        vec_foreach(&pods, pod)
            if (!pod_is_terminal(as_pod(*pod)))
                return true;
    }
    return false;
}

static bool deploy_recreate_pods(const struct deploy *d)
{
    vec_foreach(&d->old, set)
        if (deploy_scale_one(d, *set, 0, false))
            return true;
    if (old_pods_run(d))
        return false;
    if (!d->newest)
        return deploy_create_new(d);
    return deploy_scale_one(d, d->newest, d->wanted, false);
}

static bool roll_out(const struct deploy *d)
{
    if (d->newest && deploy_sync_new(d))
        return true;
    if (str_eqz(d->d->spec.strategy.type, "Recreate"))
        return deploy_recreate_pods(d);
    return d->newest ? deploy_roll(d) : deploy_create_new(d);
}

static bool selects_all(const struct api_label_selector *s)
{
    return !s || (s->match_labels.n == 0 && s->match_expressions.n == 0);
}

static bool deploy_is_complete(const struct api_deployment *d)
{
    const struct api_deployment_status *s = &d->status;
    return s->updated_replicas == d->spec.replicas && s->replicas == d->spec.replicas &&
           s->available_replicas == d->spec.replicas &&
           s->observed_generation >= d->metadata.generation;
}

static void deploy_sync_deployment(const struct deploy *d)
{
    bool hold = d->d->spec.paused;
    int64_t wait_s = INT64_MAX;
    bool deleting = d->o->meta->deletion_timestamp.set;
    if (!deleting) {
        if (deploy_pause_status(d))
            return;
        if (!hold && deploy_roll_back(d))
            return;
        if (hold || is_scaling(d)) {
            if ((d->newest && deploy_sync_new(d)) || deploy_scale(d))
                return;
            hold = true;
        } else if (roll_out(d)) {
            return;
        }
    }
    if (deploy_status(d, !hold && !deleting, &wait_s))
        return;
    if (!deleting && deploy_is_complete(d->d) && deploy_trim(d))
        return;
    load_finish(d->l, d->key, wait_s);
}

void deploy_step_key(struct load *l, struct str key, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    struct deploy d = {.l = l, .key = key, .o = o, .d = as_deployment(o), .arena = &arena};
    if (selects_all(d.d->spec.selector)) {
        load_tell(l, o, EVENT_WARNING, "SelectingAll",
                  STR("This deployment is selecting all pods. A non-empty selector is required."));
        work_done(l->work, key);
        return;
    }
    if (load_claim(l, key, o, CACHE_REPLICA_SETS, d.d->spec.selector))
        return;
    deploy_find_sets(&d);
    find_bounds(&d);
    deploy_sync_deployment(&d);
}

// SPDX-License-Identifier: Apache-2.0
//
// StatefulSets: pods with lasting names, made and ended in order, or all at once (Parallel).
#include <stdlib.h>

#include "api/match/claim.h"
#include "ctl/template.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

#define POD_NAME_LABEL  "statefulset.kubernetes.io/pod-name"
#define POD_INDEX_LABEL "apps.kubernetes.io/pod-index"

// A pod with its number. The number of replicas is the user's, so only pods that exist are listed.
struct stateful_pod {
    int64_t ordinal;
    const struct typed_object *pod;
};
struct stateful_pods VEC(struct stateful_pod);

struct stateful {
    struct load *l;
    struct str key;
    const struct typed_object *o;
    const struct api_stateful_set *set;
    struct arena *arena;
    struct load_objects pods;
    struct load_revisions revisions;
    struct stateful_pods inside; // pods with a wanted ordinal, in order, one for each
    struct stateful_pods extra;  // pods outside, highest ordinal last
    int64_t start, replicas;     // ordinals from start on; never negative
    int64_t now_s, wait_s;
    struct str update, current; // names of revisions
    bool in_order;
};

static int64_t ordinal_of(const struct stateful *s, const struct typed_object *pod)
{
    int64_t ordinal = 0;
    struct str name = pod->meta->name;
    size_t prefix = s->o->meta->name.n + 1;
    if (name.n <= prefix || !str_starts(name, s->o->meta->name) || name.p[prefix - 1] != '-' ||
        str_to_i64(str_from(name, prefix), &ordinal) < 0)
        return -1;
    return ordinal;
}

static int stateful_compare(const void *x, const void *y)
{
    const struct stateful_pod *a = x, *b = y;
    return a->ordinal != b->ordinal ? (a->ordinal > b->ordinal) - (a->ordinal < b->ordinal)
                                    : str_cmp(a->pod->meta->name, b->pod->meta->name);
}

static void stateful_sort(struct stateful_pods *list)
{
    if (list->n > 0)
        qsort(list->p, list->n, sizeof(*list->p), stateful_compare);
}

// stateful_gather sorts pods into those with a wanted ordinal and the others. Of two with the same
// number (web-1, web-01) one counts.
static void stateful_gather(struct stateful *s)
{
    struct stateful_pods found = {0};
    vec_foreach(&s->pods, pod) {
        struct stateful_pod p = {ordinal_of(s, *pod), *pod};
        bool wanted = p.ordinal >= s->start && p.ordinal - s->start < s->replicas;
        if (wanted)
            vec_push_arena(s->arena, &found, p);
        else if (p.ordinal >= 0)
            vec_push_arena(s->arena, &s->extra, p);
    }
    stateful_sort(&found);
    stateful_sort(&s->extra);
    vec_foreach(&found, p)
        if (s->inside.n == 0 || vec_last(&s->inside)->ordinal != p->ordinal)
            vec_push_arena(s->arena, &s->inside, *p);
}

static bool stateful_is_healthy(struct stateful *s, const struct typed_object *pod)
{
    return str_eqz(as_pod(pod)->status.phase, "Running") && !pod->meta->deletion_timestamp.set &&
           load_is_available(as_pod(pod), s->set->spec.min_ready_seconds, s->now_s, &s->wait_s);
}

// --- Pods ----------------------------------------------------------------------------------------

static int32_t partition_of(const struct stateful *s)
{
    const struct api_rolling_update_stateful_set_strategy *r =
        s->set->spec.update_strategy.rolling_update;
    return r && r->has_partition ? load_not_negative(r->partition) : 0;
}

// Which revision a pod of an ordinal is made of: those below the partition keep the current one.
static const struct typed_object *revision_for(const struct stateful *s, int64_t slot)
{
    if (str_eq(s->current, s->update) || slot >= partition_of(s))
        return s->revisions.current;
    vec_foreach(&s->revisions.all, revision)
        if (str_eq((*revision)->meta->name, s->current))
            return *revision;
    return s->revisions.current;
}

static struct str hash_of(const struct typed_object *revision)
{
    // Upstream labels pods of StatefulSets with the revision's whole name.
    return revision ? revision->meta->name : STR("");
}

static bool create_storage(const struct stateful *s, struct str pod)
{
    for (size_t i = 0; i < s->set->spec.volume_claim_templates.n; i++) {
        struct api_persistent_volume_claim claim = template_storage_claim(s->set, i, pod, s->arena);
        if (ctl_find(s->l->ctl, CACHE_VOLUME_CLAIMS, claim.metadata.namespace, claim.metadata.name))
            continue;
        struct str good =
            arena_strf(s->arena, "create Claim %.*s Pod %.*s in StatefulSet %.*s success",
                       STR_ARG(claim.metadata.name), STR_ARG(pod), STR_ARG(s->o->meta->name));
        struct str bad =
            arena_strf(s->arena,
                       "create Claim %.*s for Pod %.*s in StatefulSet %.*s failed error: ",
                       STR_ARG(claim.metadata.name), STR_ARG(pod), STR_ARG(s->o->meta->name));
        const struct load_event event = {"SuccessfulCreate", good.p, "FailedCreate", bad.p};
        load_create(s->l, s->key, s->o, CACHE_VOLUME_CLAIMS, &claim, &event);
        return true;
    }
    return false;
}

static struct load_event event_of(const struct stateful *s, const char *verb, struct str pod)
{
    bool create = verb[0] == 'c';
    struct str good = arena_strf(s->arena, "%s Pod %.*s in StatefulSet %.*s successful", verb,
                                 STR_ARG(pod), STR_ARG(s->o->meta->name));
    struct str bad = arena_strf(s->arena, "%s Pod %.*s in StatefulSet %.*s failed error: ", verb,
                                STR_ARG(pod), STR_ARG(s->o->meta->name));
    return (struct load_event){create ? "SuccessfulCreate" : "SuccessfulDelete", good.p,
                               create ? "FailedCreate" : "FailedDelete", bad.p};
}

static bool create_slot(struct stateful *s, int64_t slot)
{
    const struct typed_object *revision = revision_for(s, slot);
    struct api_pod_template_spec template = s->set->spec.template;
    if (revision != s->revisions.current && !load_revision_template(revision, s->arena, &template))
        revision = s->revisions.current;
    long long ordinal = s->start + slot;
    struct str number = arena_strf(s->arena, "%lld", ordinal);
    struct api_pod pod = load_pod_of(&template, s->l, s->o, s->arena);
    pod.metadata.name =
        arena_strf(s->arena, "%.*s-%.*s", STR_ARG(s->o->meta->name), STR_ARG(number));
    if (create_storage(s, pod.metadata.name))
        return true;
    meta_map_put(&pod.metadata.labels, STR(POD_NAME_LABEL), pod.metadata.name, s->arena);
    meta_map_put(&pod.metadata.labels, STR(POD_INDEX_LABEL), number, s->arena);
    meta_map_put(&pod.metadata.labels, STR(LOAD_REVISION_LABEL), hash_of(revision), s->arena);
    pod.spec.hostname = pod.metadata.name;
    pod.spec.subdomain = s->set->spec.service_name;
    template_add_storage(s->set, &pod, s->arena);
    const struct load_event event = event_of(s, "create", pod.metadata.name);
    load_create(s->l, s->key, s->o, CACHE_PODS, &pod, &event);
    return true;
}

static bool stateful_delete_pod(struct stateful *s, const struct typed_object *pod)
{
    const struct load_event event = event_of(s, "delete", pod->meta->name);
    load_delete(s->l, s->key, s->o, CACHE_PODS, pod, &event);
    return true;
}

// --- Order ---------------------------------------------------------------------------------------

enum progress { GO_ON, WAIT, WROTE };

// stateful_create_missing makes the pods that are missing. In order, a pod must be well before the
// next one is made.
static enum progress stateful_create_missing(struct stateful *s)
{
    int64_t next = 0; // the lowest number that no pod had so far
    vec_foreach(&s->inside, p) {
        const struct typed_object *pod = p->pod;
        if (p->ordinal - s->start > next)
            break;
        next++;
        if (!pod->meta->deletion_timestamp.set && pod_is_terminal(as_pod(pod)))
            return stateful_delete_pod(s, pod) ? WROTE : WAIT;
        if (s->in_order && !stateful_is_healthy(s, pod))
            return WAIT;
    }
    if (next < s->replicas)
        return create_slot(s, next) ? WROTE : WAIT;
    return GO_ON;
}

// stateful_delete_surplus ends the pods that are too many, the highest first; in order one after
// the other.
static enum progress stateful_delete_surplus(struct stateful *s)
{
    for (size_t i = s->extra.n; i > 0; i--) {
        const struct typed_object *pod = s->extra.p[i - 1].pod;
        if (!pod->meta->deletion_timestamp.set)
            return stateful_delete_pod(s, pod) ? WROTE : WAIT;
        if (s->in_order)
            return WAIT;
    }
    return GO_ON;
}

// stateful_roll_pods replaces pods of other revisions from the highest down to the partition, each
// when those above are well. All pods exist: fill has seen to it.
static enum progress stateful_roll_pods(struct stateful *s)
{
    if (!str_eqz(s->set->spec.update_strategy.type, "RollingUpdate"))
        return GO_ON;
    for (size_t i = s->inside.n; i > 0; i--) {
        const struct typed_object *pod = s->inside.p[i - 1].pod;
        if (s->inside.p[i - 1].ordinal - s->start < partition_of(s))
            break;
        if (!pod->meta->deletion_timestamp.set &&
            !str_eq(load_pod_revision(as_pod(pod)), s->update))
            return stateful_delete_pod(s, pod) ? WROTE : WAIT;
        if (!stateful_is_healthy(s, pod))
            return WAIT;
    }
    return GO_ON;
}

// --- Status --------------------------------------------------------------------------------------

static void stateful_count_pod(struct stateful *s, const struct typed_object *o,
                               struct api_stateful_set_status *status)
{
    const struct api_pod *pod = as_pod(o);
    status->replicas++;
    status->ready_replicas += str_eqz(pod->status.phase, "Running") && load_is_ready(pod);
    status->available_replicas += stateful_is_healthy(s, o);
    if (pod->metadata.deletion_timestamp.set)
        return;
    status->current_replicas += str_eq(load_pod_revision(pod), s->current);
    status->updated_replicas += str_eq(load_pod_revision(pod), s->update);
}

static bool stateful_write_status(struct stateful *s)
{
    struct api_stateful_set now = *s->set;
    struct api_stateful_set_status *status = &now.status;
    *status = (struct api_stateful_set_status){.observed_generation = now.metadata.generation,
                                               .current_revision = s->current,
                                               .update_revision = s->update,
                                               .collision_count = s->set->status.collision_count,
                                               .has_collision_count = true,
                                               .conditions = s->set->status.conditions};
    vec_foreach(&s->pods, pod)
        if (ordinal_of(s, *pod) >= 0)
            stateful_count_pod(s, *pod, status);
    if (str_eqz(now.spec.update_strategy.type, "RollingUpdate") &&
        status->updated_replicas == status->replicas &&
        status->ready_replicas == status->replicas && partition_of(s) == 0 &&
        status->replicas == s->replicas) {
        status->current_revision = s->update;
        status->current_replicas = status->updated_replicas;
    }
    if (api_equal(&api_stateful_set_status_type, status, &s->set->status))
        return false;
    load_update_status(s->l, s->key, &now);
    return true;
}

static void stateful_sync_set(struct stateful *s)
{
    enum progress at = GO_ON;
    bool deleting = s->o->meta->deletion_timestamp.set;
    if (!deleting) {
        at = stateful_create_missing(s);
        if (at == GO_ON)
            at = stateful_delete_surplus(s);
        if (at == GO_ON)
            at = stateful_roll_pods(s);
    }
    if (at == WROTE || stateful_write_status(s))
        return;
    if (!deleting && load_revision_trim(s->l, s->key, s->o, &s->revisions, &s->pods, s->current,
                                        s->set->spec.revision_history_limit))
        return;
    load_finish(s->l, s->key, s->wait_s);
}

void stateful_set_step(struct load *l, struct str key, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    const struct api_stateful_set *set = as_stateful_set(o);
    struct stateful s = {.l = l, .key = key, .o = o, .set = set, .arena = &arena};
    if (load_claim(l, key, o, CACHE_PODS, set->spec.selector) ||
        load_revision_sync(l, key, o, &set->spec.template, set->spec.selector, &arena,
                           &s.revisions))
        return;
    s.now_s = ctl_now(l->ctl).at.sec;
    s.wait_s = INT64_MAX;
    s.start = set->spec.ordinals ? load_not_negative(set->spec.ordinals->start) : 0;
    s.replicas = load_not_negative(set->spec.replicas);
    s.in_order = !str_eqz(set->spec.pod_management_policy, "Parallel");
    s.update = hash_of(s.revisions.current);
    s.current = set->status.current_revision.n ? set->status.current_revision : s.update;
    s.pods = load_owned(l, CACHE_PODS, o, &arena);
    stateful_gather(&s);
    stateful_sync_set(&s);
}

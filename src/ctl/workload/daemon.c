// SPDX-License-Identifier: Apache-2.0
//
// DaemonSets: a pod on every node that wants it. The scheduler places them; each pod's node
// affinity names its node.
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "ctl/workload/load.h"

#include "base/banned.h"

// Pauses between failures on one node; the first pod that fails is replaced at once.
#define PAUSE_FIRST_NS (1 * CLOCK_NS_PER_SEC)
#define PAUSE_MAX_NS   (900 * CLOCK_NS_PER_SEC)

// A node with what runs there.
struct daemon_node {
    const struct api_node *node;      // NULL: gone
    struct load_objects fresh, stale; // pods of the newest revision, of others; not being deleted
    size_t ending;
    bool failed; // a pod of it has ended and is still there
    bool wanted; // a pod should run here
    bool stays;  // one that runs here may go on
};
struct daemon_nodes MAP(struct daemon_node);

struct daemon {
    struct load *l;
    struct str key;
    const struct typed_object *o;
    const struct api_daemon_set *set;
    struct arena *arena;
    struct load_objects pods;
    struct load_revisions revisions;
    struct str hash;
    struct daemon_nodes nodes;
    struct api_toleration_array tolerations;
    const struct typed_object *failed; // a pod that has ended: it is deleted, and made again
    int64_t now_s, wait_s;
};

// --- Where it runs -------------------------------------------------------------------------------

static struct api_toleration_array tolerations_of(const struct api_pod_spec *spec,
                                                  struct arena *arena)
{
    static const struct {
        struct str key, effect;
    } always[] = {
        {STR_INIT("node.kubernetes.io/not-ready"), STR_INIT(TAINT_NO_EXECUTE)},
        {STR_INIT("node.kubernetes.io/unreachable"), STR_INIT(TAINT_NO_EXECUTE)},
        {STR_INIT("node.kubernetes.io/disk-pressure"), STR_INIT(TAINT_NO_SCHEDULE)},
        {STR_INIT("node.kubernetes.io/memory-pressure"), STR_INIT(TAINT_NO_SCHEDULE)},
        {STR_INIT("node.kubernetes.io/pid-pressure"), STR_INIT(TAINT_NO_SCHEDULE)},
        {STR_INIT("node.kubernetes.io/unschedulable"), STR_INIT(TAINT_NO_SCHEDULE)},
        {STR_INIT("node.kubernetes.io/network-unavailable"), STR_INIT(TAINT_NO_SCHEDULE)}, // last
    };
    size_t n = 0;
    struct api_toleration *all =
        arena_array(arena, struct api_toleration, spec->tolerations.n + array_len(always));
    for (size_t i = 0; i < spec->tolerations.n; i++)
        all[n++] = spec->tolerations.p[i];
    for (size_t i = 0; i < array_len(always) - (spec->host_network ? 0 : 1); i++)
        all[n++] = (struct api_toleration){
            .key = always[i].key, .operator= STR(TOLERATION_EXISTS), .effect = always[i].effect};
    return (struct api_toleration_array){all, n};
}

static bool selects_node(const struct api_pod_spec *spec, const struct api_node *node)
{
    if (spec->node_name.n && !str_eq(spec->node_name, node->metadata.name))
        return false;
    return node_takes_pod(spec, node);
}

static void daemon_add_node(void *arg, const struct typed_object *o)
{
    struct daemon *d = arg;
    const struct api_node *node = as_node(o);
    struct daemon_node *at = map_put(&d->nodes, node->metadata.name);
    const struct api_taint_array *taints = &node->spec.taints;
    bool selected = selects_node(&d->set->spec.template.spec, node);
    at->node = node;
    at->stays = selected && !taint_untolerated(taints, &d->tolerations, taint_is_evicting);
    at->wanted = at->stays && !taint_untolerated(taints, &d->tolerations, taint_is_hard);
}

static struct str daemon_pod_node(const struct api_pod *pod)
{
    if (pod->spec.node_name.n)
        return pod->spec.node_name;
    return node_only_name(node_required(&pod->spec));
}

// pause_of is the pause between failures of this revision on the node of a pod.
static struct load_pause *pause_of(const struct daemon *d, const struct api_pod *pod)
{
    struct str node = daemon_pod_node(pod);
    return load_pause(d->l, d->key,
                      arena_strf(d->arena, "%.*s/%.*s", STR_ARG(node), STR_ARG(d->hash)));
}

// may_replace: the pause after the failure before is over.
static bool may_replace(struct daemon *d, const struct api_pod *pod)
{
    const struct load_pause *p = pause_of(d, pod);
    int64_t left_ns = p->since_ns + p->ns - exec_now_ns(d->l->ctl->exec);
    if (p->ns == 0 || left_ns <= 0)
        return true;
    int64_t left_s = left_ns / CLOCK_NS_PER_SEC + 1;
    d->wait_s = left_s < d->wait_s ? left_s : d->wait_s;
    return false;
}

static void begin_pause(const struct daemon *d, const struct api_pod *pod)
{
    struct load_pause *p = pause_of(d, pod);
    int64_t now = exec_now_ns(d->l->ctl->exec);
    bool first = p->ns == 0 || now - p->since_ns > 2 * PAUSE_MAX_NS;
    p->ns = first ? PAUSE_FIRST_NS : p->ns < PAUSE_MAX_NS / 2 ? 2 * p->ns : PAUSE_MAX_NS;
    p->since_ns = now;
}

static void add_pods(struct daemon *d)
{
    vec_foreach(&d->pods, o) {
        const struct api_pod *pod = as_pod(*o);
        struct daemon_node *at = map_put(&d->nodes, daemon_pod_node(pod));
        bool failed = pod_is_terminal(pod) && !pod->metadata.deletion_timestamp.set;
        at->failed |= failed;
        if (pod->metadata.deletion_timestamp.set)
            at->ending++;
        else if (failed)
            d->failed = may_replace(d, pod) ? *o : d->failed;
        else if (str_eq(load_pod_revision(pod), d->hash))
            vec_push_arena(d->arena, &at->fresh, *o);
        else
            vec_push_arena(d->arena, &at->stale, *o);
    }
}

static bool daemon_pod_is_available(struct daemon *d, const struct typed_object *pod)
{
    return load_is_available(as_pod(pod), d->set->spec.min_ready_seconds, d->now_s, &d->wait_s);
}

static bool any_available(struct daemon *d, const struct load_objects *pods)
{
    bool any = false;
    vec_foreach(pods, pod)
        any |= daemon_pod_is_available(d, *pod);
    return any;
}

// --- Pods ----------------------------------------------------------------------------------------

// daemon_pin_affinity names the one node a pod is for, in every term of its required affinity.
static struct api_affinity *daemon_pin_affinity(const struct api_affinity *in, struct str node,
                                                struct arena *arena)
{
    struct api_affinity *out = arena_one(arena, struct api_affinity);
    if (in)
        *out = *in;
    struct api_node_affinity *nodes = arena_one(arena, struct api_node_affinity);
    if (out->node_affinity)
        *nodes = *out->node_affinity;
    const struct api_node_selector *had =
        nodes->required_during_scheduling_ignored_during_execution;
    size_t n = had && had->node_selector_terms.n ? had->node_selector_terms.n : 1;
    struct api_node_selector_term *terms = arena_array(arena, struct api_node_selector_term, n);
    for (size_t i = 0; i < n; i++) {
        if (had && i < had->node_selector_terms.n)
            terms[i] = had->node_selector_terms.p[i];
        struct api_node_selector_requirement *field =
            arena_one(arena, struct api_node_selector_requirement);
        struct str *value = arena_one(arena, struct str);
        *value = node;
        *field = (struct api_node_selector_requirement){
            .key = STR("metadata.name"), .operator= STR("In"), .values = {value, 1}};
        terms[i].match_fields = (struct api_node_selector_requirement_array){field, 1};
    }
    struct api_node_selector *required = arena_one(arena, struct api_node_selector);
    required->node_selector_terms = (struct api_node_selector_term_array){terms, n};
    nodes->required_during_scheduling_ignored_during_execution = required;
    out->node_affinity = nodes;
    return out;
}

static bool create_on(struct daemon *d, struct str node)
{
    struct api_pod pod = load_pod_of(&d->set->spec.template, d->l, d->o, d->arena);
    pod.metadata.generate_name = load_generate_name(d->o->meta->name, d->arena);
    meta_map_put(&pod.metadata.labels, STR(LOAD_REVISION_LABEL), d->hash, d->arena);
    pod.spec.affinity = daemon_pin_affinity(pod.spec.affinity, node, d->arena);
    pod.spec.tolerations = d->tolerations;
    load_create(d->l, d->key, d->o, CACHE_PODS, &pod, &load_pod_created);
    return true;
}

static bool daemon_delete_pod(struct daemon *d, const struct typed_object *pod)
{
    load_delete(d->l, d->key, d->o, CACHE_PODS, pod, &load_pod_deleted);
    return true;
}

// fix_node makes the pod that is missing, deletes those that are too many.
static bool fix_node(struct daemon *d, struct str name, struct daemon_node *at)
{
    size_t pods = at->fresh.n + at->stale.n;
    if (!at->stays && pods > 0)
        return daemon_delete_pod(d, at->fresh.n ? at->fresh.p[0] : at->stale.p[0]);
    if (at->wanted && pods == 0 && at->ending == 0 && !at->failed)
        return create_on(d, name);
    struct load_objects *twice = at->fresh.n > 1 ? &at->fresh : &at->stale;
    if (twice->n < 2)
        return false;
    load_rank(twice);
    return daemon_delete_pod(d, twice->p[0]);
}

static bool fix_pods(struct daemon *d)
{
    if (d->failed) {
        cleanup_sbuf struct sbuf text = {0};
        sbuf_addf(&text, "Found failed daemon pod %.*s/%.*s on node %.*s, will try to kill it",
                  STR_ARG(d->failed->meta->namespace), STR_ARG(d->failed->meta->name),
                  STR_ARG(daemon_pod_node(as_pod(d->failed))));
        load_tell(d->l, d->o, EVENT_WARNING, "FailedDaemonPod", sbuf_str(&text));
        begin_pause(d, as_pod(d->failed));
        return daemon_delete_pod(d, d->failed);
    }
    map_foreach(&d->nodes, i)
        if (map_value(&d->nodes, i)->node &&
            fix_node(d, map_key(&d->nodes, i), map_value(&d->nodes, i)))
            return true;
    return false;
}

// --- Updates -------------------------------------------------------------------------------------

static int32_t daemon_count_wanted(const struct daemon *d)
{
    int32_t n = 0;
    map_foreach(&d->nodes, i)
        n += map_value(&d->nodes, i)->wanted;
    return n;
}

// Old pods go while enough nodes have one that is available; those that are not go at once.
static bool replace_within(struct daemon *d, int32_t budget)
{
    const struct typed_object *next = NULL;
    map_foreach(&d->nodes, i) {
        struct daemon_node *at = map_value(&d->nodes, i);
        if (!at->wanted)
            continue;
        if (at->stale.n > 0 && !any_available(d, &at->stale))
            return daemon_delete_pod(d, at->stale.p[0]);
        if (at->stale.n > 0 && !next)
            next = at->stale.p[0];
        if (!any_available(d, &at->stale) && !any_available(d, &at->fresh))
            budget--;
    }
    return next && budget > 0 && daemon_delete_pod(d, next);
}

// A new pod beside the old one, which goes when the new one is available.
static bool replace_with_surge(struct daemon *d, int32_t surge)
{
    struct str next = {0};
    map_foreach(&d->nodes, i) {
        struct daemon_node *at = map_value(&d->nodes, i);
        if (!at->wanted || at->stale.n == 0)
            continue;
        if (at->failed) { // the new one; it is made again after its pause
            surge--;
            continue;
        }
        if (at->fresh.n > 0 && any_available(d, &at->fresh))
            return daemon_delete_pod(d, at->stale.p[0]);
        if (at->fresh.n == 0 && !any_available(d, &at->stale))
            return create_on(d, map_key(&d->nodes, i));
        surge -= at->fresh.n > 0;
        if (at->fresh.n == 0 && next.n == 0)
            next = map_key(&d->nodes, i);
    }
    return next.n && surge > 0 && create_on(d, next);
}

static bool daemon_roll_pods(struct daemon *d)
{
    const struct api_daemon_set_update_strategy *strategy = &d->set->spec.update_strategy;
    if (str_eqz(strategy->type, "OnDelete"))
        return false;
    int32_t wanted = daemon_count_wanted(d);
    const struct api_rolling_update_daemon_set *rolling = strategy->rolling_update;
    int32_t surge = rolling ? load_scaled(rolling->max_surge, wanted, true) : 0;
    if (surge > 0)
        return replace_with_surge(d, surge);
    int32_t budget = rolling ? load_scaled(rolling->max_unavailable, wanted, true) : 1;
    return replace_within(d, budget > 0 ? budget : 1);
}

// --- Status --------------------------------------------------------------------------------------

static void daemon_count_node(struct daemon *d, struct daemon_node *at,
                              struct api_daemon_set_status *s)
{
    size_t pods = at->fresh.n + at->stale.n;
    if (!at->wanted) {
        s->number_misscheduled += pods > 0;
        return;
    }
    s->desired_number_scheduled++;
    s->current_number_scheduled += pods > 0;
    s->updated_number_scheduled += at->fresh.n > 0;
    const struct load_objects *lists[] = {&at->fresh, &at->stale};
    bool ready = false, ok = false;
    for (size_t i = 0; i < array_len(lists); i++)
        vec_foreach(lists[i], pod) {
            ready |= load_is_ready(as_pod(*pod));
            ok |= daemon_pod_is_available(d, *pod);
        }
    s->number_ready += ready;
    s->number_available += ok;
}

static bool daemon_write_status(struct daemon *d)
{
    struct api_daemon_set now = *d->set;
    struct api_daemon_set_status *s = &now.status;
    *s = (struct api_daemon_set_status){.observed_generation = now.metadata.generation,
                                        .collision_count = d->set->status.collision_count,
                                        .has_collision_count = d->set->status.has_collision_count,
                                        .conditions = d->set->status.conditions};
    map_foreach(&d->nodes, i)
        if (map_value(&d->nodes, i)->node)
            daemon_count_node(d, map_value(&d->nodes, i), s);
    s->number_unavailable = s->desired_number_scheduled - s->number_available;
    if (api_equal(&api_daemon_set_status_type, s, &d->set->status))
        return false;
    load_update_status(d->l, d->key, &now);
    return true;
}

static bool daemon_sync_set(struct daemon *d)
{
    bool deleting = d->o->meta->deletion_timestamp.set;
    if (!deleting && (fix_pods(d) || daemon_roll_pods(d)))
        return true;
    return daemon_write_status(d) ||
           (!deleting && load_revision_trim(d->l, d->key, d->o, &d->revisions, &d->pods, STR(""),
                                            d->set->spec.revision_history_limit));
}

void daemon_set_step(struct load *l, struct str key, const struct typed_object *o)
{
    cleanup_arena struct arena arena = {0};
    const struct api_daemon_set *set = as_daemon_set(o);
    struct daemon d = {.l = l, .key = key, .o = o, .set = set, .arena = &arena};
    d.now_s = ctl_now(l->ctl).at.sec;
    d.wait_s = INT64_MAX;
    if (load_claim(l, key, o, CACHE_PODS, set->spec.selector) ||
        load_revision_sync(l, key, o, &set->spec.template, set->spec.selector, &arena,
                           &d.revisions))
        return;
    const struct str *hash = d.revisions.current ? api_map_find(&d.revisions.current->meta->labels,
                                                                STR(LOAD_REVISION_LABEL))
                                                 : NULL;
    d.hash = hash ? *hash : STR("");
    d.tolerations = tolerations_of(&set->spec.template.spec, &arena);
    d.pods = load_owned(l, CACHE_PODS, o, &arena);
    informer_foreach(l->ctl->caches[CACHE_NODES], daemon_add_node, &d);
    add_pods(&d);
    if (!daemon_sync_set(&d))
        load_finish(l, key, d.wait_s);
    map_done(&d.nodes);
}

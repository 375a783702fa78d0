// SPDX-License-Identifier: Apache-2.0
//
// What must hold once faults are over and everything has come to rest: nothing is left behind,
// every pod that can run does, every other one is told why not.
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/node.h"
#include "check.h"

#include "base/banned.h"

// --- Nothing is left behind ----------------------------------------------------------------------

static void check_users(struct content *c, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        if (str_eqz(r->resource, "podgroups")) {
            const struct api_pod_group *g = content_group(c, claim->metadata.namespace, r->name);
            if (!g || !str_eq(g->metadata.uid, r->uid))
                sim_break(c->s, "claim %.*s/%.*s is reserved for group %.*s, which is gone",
                          STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name),
                          STR_ARG(r->name));
            continue;
        }
        const struct api_pod *pod = content_pod_of(c, r->uid);
        if (!pod || pod_is_done(pod) || !pod->spec.node_name.n)
            sim_break(c->s, "claim %.*s/%.*s is reserved for %.*s, which %s",
                      STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name),
                      STR_ARG(r->name),
                      !pod               ? "is gone"
                      : pod_is_done(pod) ? "is over"
                                         : "waits");
    }
}

// wanted: a pod that waits names it; its next attempt may well use what it has.
static bool wanted(const struct content *c, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        for (size_t e = 0; e < pod->spec.resource_claims.n; e++) {
            struct str name = {0};
            bool check;
            if (str_eq(pod->metadata.namespace, claim->metadata.namespace) && !pod_is_done(pod) &&
                claim_name_of(pod, &pod->spec.resource_claims.p[e], &name, &check) == CLAIM_NAMED &&
                str_eq(name, claim->metadata.name))
                return true;
        }
    }
    return false;
}

static void check_left(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        const struct api_owner_reference *owner = meta_controller(&claim->metadata);
        const struct api_pod *pod = owner ? content_pod_of(c, owner->uid) : NULL;
        const char *what = NULL;
        if (owner && str_eqz(owner->kind, "PodGroup")) {
            const struct api_pod_group *g =
                content_group(c, claim->metadata.namespace, owner->name);
            if (!g || !str_eq(g->metadata.uid, owner->uid))
                what = "is left of a group that is gone";
        } else if (owner && !pod)
            what = "is left of a pod that is gone";
        else if (owner && pod_is_done(pod))
            what = "is left of a pod that is over";
        else if (owner && claim_is_extended(&claim->metadata) && !uses_extended(pod, claim))
            what = "was made for a pod that does not use it";
        else if (claim->metadata.deletion_timestamp.set && !claim->status.reserved_for.n)
            what = "does not go";
        else if (claim->status.allocation && !claim->status.reserved_for.n && !wanted(c, claim) &&
                 !c->s->ctl_crashed) // which loses sight of what was left in between
            what = "has devices and no users";
        if (what)
            sim_break(c->s, "claim %.*s/%.*s %s", STR_ARG(claim->metadata.namespace),
                      STR_ARG(claim->metadata.name), what);
        check_users(c, claim);
    }
}

// --- Who can run does ----------------------------------------------------------------------------

static int64_t cpus(const struct api_pod *pod)
{
    int64_t sum = 0;
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        const struct api_quantity_map *r = &pod->spec.containers.p[i].resources.requests;
        for (size_t k = 0; k < r->n; k++)
            if (str_eqz(r->p[k].key, "cpu"))
                sum += quantity_milli(&r->p[k].value);
    }
    return sum;
}

static int64_t cards(const struct api_pod *pod)
{
    int64_t sum = 0;
    for (size_t i = 0; i < pod->spec.containers.n; i++) {
        const struct api_quantity_map *r = &pod->spec.containers.p[i].resources.requests;
        for (size_t k = 0; k < r->n; k++)
            if (str_eqz(r->p[k].key, "gpu.d/card"))
                sum += quantity_value(&r->p[k].value);
    }
    return sum;
}

// content_has_room: the pod could be on the node, were it not for devices.
bool content_has_room(const struct content *c, const struct api_pod *pod,
                      const struct api_node *node)
{
    int64_t used = 0;
    size_t pods = 0;
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *other = c->lists[LOADED_PODS].p[i];
        if (str_eq(other->spec.node_name, node->metadata.name) && !pod_is_terminal(other)) {
            used += cpus(other);
            pods++;
        }
    }
    for (size_t i = 0; i < pod->spec.node_selector.n; i++) {
        bool found = false;
        for (size_t k = 0; k < node->metadata.labels.n; k++)
            found |= str_eq(node->metadata.labels.p[k].key, pod->spec.node_selector.p[i].key) &&
                     str_eq(node->metadata.labels.p[k].value, pod->spec.node_selector.p[i].value);
        if (!found)
            return false;
    }
    return !node->spec.unschedulable && used + cpus(pod) <= 8000 && pods < 8;
}

static const struct api_resource_claim *cards_claim(struct content *c, const struct api_pod *pod)
{
    struct api_resource_claim *claim = arena_one(&c->arena, struct api_resource_claim);
    struct api_device_request *r = arena_one(&c->arena, struct api_device_request);
    r->name = STR("cards");
    r->exactly = arena_one(&c->arena, struct api_exact_device_request);
    r->exactly->device_class_name = STR("gpu.d");
    r->exactly->allocation_mode = STR("ExactCount");
    r->exactly->count = cards(pod);
    claim->metadata.name = STR("cards");
    claim->metadata.namespace = pod->metadata.namespace;
    claim->metadata.uid = STR("cards");
    claim->spec.devices.requests = (struct api_device_request_array){r, 1};
    return claim;
}

// content_gather finds the claims of a pod. False: one is missing or not to be had, which the pod
// is told.
bool content_gather(struct content *c, const struct api_pod *pod, struct claims *open,
                    struct claims *held)
{
    for (size_t e = 0; e < pod->spec.resource_claims.n; e++) {
        struct str name = {0};
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[e], &name, &check) != CLAIM_NAMED)
            return false;
        const struct api_resource_claim *claim = content_claim(c, pod->metadata.namespace, name);
        if (!claim || claim->metadata.deletion_timestamp.set)
            return false;
        if (claim->status.allocation)
            vec_push(held, claim);
        else
            vec_push(open, claim);
    }
    if (cards(pod))
        vec_push(open, cards_claim(c, pod));
    return true;
}

static bool node_suits(const struct content *c, const struct alloc_cluster *cluster,
                       const struct api_node *node, const struct claims *open,
                       const struct claims *held)
{
    struct err err;
    for (size_t i = 0; i < held->n; i++) {
        const struct api_node_selector *where = held->p[i]->status.allocation->node_selector;
        if (claim_readiness(held->p[i]) == CLAIM_FAILED)
            return false;
        if (where && node_matches(node, STR(""), false, where, &err) != 1)
            return false;
    }
    if (open->n == 0)
        return true;
    struct alloc_view *view = NULL;
    if (alloc_view_new(cluster, node, &view, &err) < 0)
        return false;
    struct alloc_solver *solver = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_FIRST});
    struct alloc_answer answer;
    alloc_solve(solver, view, open->p, open->n, &answer);
    bool fits = answer.verdict == ALLOC_ALLOCATED;
    alloc_solver_free(solver);
    alloc_view_free(view);
    (void)c;
    return fits;
}

static const struct api_pod_condition *scheduled(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodScheduled"))
            return &pod->status.conditions.p[i];
    return NULL;
}

static const char *explanation(struct content *c, const struct api_pod *pod)
{
    cleanup_sbuf struct sbuf text = {0};
    for (size_t i = 0; i < PARTS; i++) {
        struct err err;
        if (c->s->parts[i].sched &&
            sched_explain(c->s->parts[i].sched, STR("pod"), pod->metadata.namespace,
                          pod->metadata.name, &text, &err) == 0)
            sbuf_addz(&text, " ");
    }
    return arena_str(&c->arena, sbuf_str(&text)).p;
}

static void check_told(struct content *c, const struct api_pod *pod)
{
    const struct api_pod_condition *told = scheduled(pod);
    if (!told || !str_eqz(told->status, "False") || !told->message.n || !told->reason.n)
        sim_break(c->s, "pod %.*s/%.*s waits and is not told why: %s",
                  STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                  explanation(c, pod));
}

static void check_pending(struct content *c, const struct alloc_cluster *cluster,
                          const struct api_pod *pod)
{
    struct claims open = {0};
    struct claims held = {0};
    if (pod->status.nominated_node_name.n)
        sim_break(c->s, "pod %.*s/%.*s is nominated to %.*s and no pod is ending there",
                  STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                  STR_ARG(pod->status.nominated_node_name));
    if (pod->spec.scheduling_gates.n == 0) {
        check_told(c, pod);
        bool all = !groups_must_wait(c, pod) && content_gather(c, pod, &open, &held);
        for (size_t i = 0; all && i < c->lists[LOADED_NODES].n; i++) {
            const struct api_node *node = c->lists[LOADED_NODES].p[i];
            if (content_has_room(c, pod, node) && node_suits(c, cluster, node, &open, &held)) {
                const struct api_pod_condition *told = scheduled(pod);
                sim_break(c->s, "pod %.*s/%.*s could be on node %.*s, but waits: %.*s",
                          STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                          STR_ARG(node->metadata.name), STR_ARG(told ? told->message : STR("")));
                break;
            }
        }
    }
    vec_done(&open);
    vec_done(&held);
}

static struct alloc_features allocator_features(const struct sim *s)
{
    struct alloc_features f = {0};
    for (size_t i = 0; i < FEATURES; i++)
        if (features_on(&s->features, (enum feature)i))
            (void)alloc_features_add(&f, feature_name((enum feature)i));
    return f;
}

struct alloc_input content_input(const struct content *c)
{
    const struct objects *l = c->lists;
    return (struct alloc_input){
        .features = allocator_features(c->s),
        .slices = (const struct api_resource_slice *const *)(const void *)l[LOADED_SLICES].p,
        .slices_len = l[LOADED_SLICES].n,
        .classes = (const struct api_device_class *const *)(const void *)l[LOADED_CLASSES].p,
        .classes_len = l[LOADED_CLASSES].n,
        .taint_rules = (const struct api_device_taint_rule *const *)(const void *)l[LOADED_RULES].p,
        .taint_rules_len = l[LOADED_RULES].n,
        .claims = (const struct api_resource_claim *const *)(const void *)l[LOADED_CLAIMS].p,
        .claims_len = l[LOADED_CLAIMS].n,
    };
}

// --- Allocations are valid -----------------------------------------------------------------------

void sim_note(struct sim *s)
{
    struct content c;
    content_load(&c, s);
    for (size_t i = 0; i < c.lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c.lists[LOADED_CLAIMS].p[i];
        if (claim->status.allocation)
            vec_push(&s->known, xstrndup(claim->metadata.uid.p, claim->metadata.uid.n));
    }
    for (size_t i = 0; i < c.lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c.lists[LOADED_PODS].p[i];
        if (pod->spec.node_name.n)
            vec_push(&s->known, xstrndup(pod->metadata.uid.p, pod->metadata.uid.n));
    }
    content_done(&c);
}

bool is_known(const struct sim *s, struct str uid)
{
    for (size_t i = 0; i < s->known.n; i++)
        if (str_eqz(uid, s->known.p[i]))
            return true;
    return false;
}

static const struct api_node *node_of(const struct content *c,
                                      const struct api_resource_claim *claim)
{
    const struct api_pod *pod = content_user(c, claim, &claim->status.reserved_for.p[0]);
    for (size_t i = 0; pod && i < c->lists[LOADED_NODES].n; i++) {
        const struct api_node *node = c->lists[LOADED_NODES].p[i];
        if (str_eq(node->metadata.name, pod->spec.node_name))
            return node;
    }
    return NULL;
}

// Admin access takes nothing, so what it was given may be taken by others later: such a claim is
// judged as if it were alone. Who else has its devices is looked at elsewhere.
static bool has_admin(const struct api_resource_claim *claim)
{
    const struct api_device_request_allocation_result_array *r =
        &claim->status.allocation->devices.results;
    for (size_t i = 0; i < r->n; i++)
        if (r->p[i].has_admin_access && r->p[i].admin_access)
            return true;
    return false;
}

// judge asks the allocator's independent checker about one allocation, all others being in place.
static void judge(struct content *c, struct alloc_input input, size_t which)
{
    struct claims others = {0};
    const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[which];
    const struct api_node *node = node_of(c, claim);
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++)
        if (i != which && !has_admin(claim))
            vec_push(&others, c->lists[LOADED_CLAIMS].p[i]);
    input.claims = others.p;
    input.claims_len = others.n;
    struct api_resource_claim asked = *claim;
    asked.status.allocation = NULL;
    const struct api_resource_claim *question = &asked;
    struct err err;
    struct alloc_cluster *cluster = NULL;
    struct alloc_view *view = NULL;
    cleanup_sbuf struct sbuf problems = {0};
    if (node && (alloc_cluster_new(&input, &cluster, &err) < 0 ||
                 alloc_view_new(cluster, node, &view, &err) < 0))
        sim_break(c->s, "the allocator refuses the cluster: %s", err.msg);
    else if (node && !alloc_check(view, &question, 1, claim->status.allocation, 1, &problems))
        sim_break(c->s, "what claim %.*s/%.*s was given is not valid: %.*s",
                  STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name),
                  STR_ARG(sbuf_str(&problems)));
    alloc_view_free(view);
    alloc_cluster_free(cluster);
    vec_done(&others);
}

static void check_valid(struct content *c)
{
    const struct alloc_input input = content_input(c);
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        if (claim->status.allocation && claim->status.reserved_for.n &&
            !is_known(c->s, claim->metadata.uid))
            judge(c, input, i);
    }
}

static void check_running(struct content *c)
{
    struct err err;
    struct alloc_cluster *cluster = NULL;
    const struct alloc_input input = content_input(c);
    if (alloc_cluster_new(&input, &cluster, &err) < 0) {
        sim_break(c->s, "the allocator refuses the cluster: %s", err.msg);
        return;
    }
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (!pod->spec.node_name.n && !pod->metadata.deletion_timestamp.set &&
            !pod_is_terminal(pod))
            check_pending(c, cluster, pod);
        else if (pod->metadata.deletion_timestamp.set)
            sim_break(c->s, "pod %.*s/%.*s does not go", STR_ARG(pod->metadata.namespace),
                      STR_ARG(pod->metadata.name));
    }
    alloc_cluster_free(cluster);
}

// --- Nodes are not too full ----------------------------------------------------------------------

// A Binding that came late may have put too much on a node; who came later found room there.
static void check_nodes(struct content *c)
{
    for (size_t n = 0; n < c->lists[LOADED_NODES].n; n++) {
        const struct api_node *node = c->lists[LOADED_NODES].p[n];
        int64_t used = 0;
        size_t pods = 0;
        const struct api_pod *young = NULL;
        for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
            const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
            if (!str_eq(pod->spec.node_name, node->metadata.name) || pod_is_terminal(pod))
                continue;
            used += cpus(pod);
            pods++;
            if (!is_known(c->s, pod->metadata.uid))
                young = pod;
        }
        if (young && !c->s->two_schedulers && (used > 8000 || pods > 8))
            sim_break(c->s, "node %.*s has %zu pods with %lld m, among them %.*s",
                      STR_ARG(node->metadata.name), pods, (long long)used,
                      STR_ARG(young->metadata.name));
    }
}

// --- Everyone is at rest -------------------------------------------------------------------------

static void check_parts(struct sim *s)
{
    for (size_t i = 0; i < PARTS; i++) {
        const struct part *p = &s->parts[i];
        cleanup_sbuf struct sbuf problems = {0};
        if (p->sched && !sched_idle(p->sched))
            sim_break(s, "%s is not idle", p->name);
        if (p->sched && !sched_check(p->sched, &problems))
            sim_break(s, "%s: %.*s", p->name, STR_ARG(sbuf_str(&problems)));
        if (p->ctl && !ctl_idle(p->ctl))
            sim_break(s, "%s is not idle", p->name);
        if (p->ctl && !ctl_check(p->ctl, &problems))
            sim_break(s, "%s: %.*s", p->name, STR_ARG(sbuf_str(&problems)));
    }
}

void sim_check_end(struct sim *s)
{
    struct content c;
    content_load(&c, s);
    c.at_rest = true;
    content_check(&c);
    check_left(&c);
    check_valid(&c);
    check_running(&c);
    groups_check_end(&c);
    losses_check_end(&c);
    check_nodes(&c);
    check_parts(s);
    content_done(&c);
}

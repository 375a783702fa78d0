// SPDX-License-Identifier: Apache-2.0
//
// PodGroups: what happens to them, and what must hold of them. A gang runs whole or not at all,
// every gang that fits runs in the end, nothing is kept for groups that are gone.
#include <stdio.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/node.h"
#include "check.h"
#include "ops.h"

#include "base/banned.h"

enum { GROUPS = 4 };

// --- What happens --------------------------------------------------------------------------------

// A pod of a group: the group's claim in some, one of its own in some.
static void make_member(struct sim *s, const char *space, const char *group, const char *scheduler,
                        const char *claim, uint64_t own)
{
    char name[16];
    cleanup_sbuf struct sbuf b = {0};
    if (store_count(s->store, op_kind("Pod"), STR("")) >= PODS_MAX)
        return;
    (void)snprintf(name, sizeof(name), "m-%u", (unsigned)s->next_pod++ % 60);
    sbuf_addz(&b, "{");
    op_metadata(&b, space, name);
    sbuf_addf(&b,
              ",'spec':{'schedulerName':'%s','terminationGracePeriodSeconds':1,'schedulingGroup':{"
              "'podGroupName':'%s'}",
              scheduler, group);
    if (sim_draw(s, 16) == 0)
        sbuf_addz(&b, ",'schedulingGates':[{'name':'wait'}]");
    sbuf_addf(&b, ",'containers':[{'name':'c','image':'i','resources':{'requests':{'cpu':'%u'}}}]",
              1 + (unsigned)sim_draw(s, 3));
    if (*claim || own < TEMPLATES) {
        sbuf_addz(&b, ",'resourceClaims':[");
        sbuf_addz(&b, claim);
        if (own < TEMPLATES)
            sbuf_addf(&b, "%s{'name':'own','resourceClaimTemplateName':'t%u'}", *claim ? "," : "",
                      (unsigned)own);
        sbuf_addz(&b, "]");
    }
    sbuf_addz(&b, "}}");
    op_create(s, "Pod", space, name, &b);
}

static void group_claim(struct sim *s, struct sbuf *out)
{
    uint64_t how = sim_draw(s, 4);
    if (how == 0)
        sbuf_addf(out, "{'name':'net','resourceClaimName':'c%u'}", (unsigned)sim_draw(s, CLAIMS));
    else if (how < 3)
        sbuf_addf(out, "{'name':'net','resourceClaimTemplateName':'t%u'}",
                  (unsigned)sim_draw(s, TEMPLATES));
}

static void make_group_object(struct sim *s, const char *space, const char *name, unsigned min,
                              const char *claim)
{
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "{");
    op_metadata(&b, space, name);
    sbuf_addz(&b, ",'spec':{'schedulingPolicy':");
    if (min)
        sbuf_addf(&b, "{'gang':{'minCount':%u}}", min);
    else
        sbuf_addz(&b, "{'basic':{}}");
    if (*claim)
        sbuf_addf(&b, ",'resourceClaims':[%s]", claim);
    sbuf_addz(&b, "}}");
    op_create(s, "PodGroup", space, name, &b);
}

// A group and its pods, in one order or the other; sometimes one pod is missing or too many.
static void make_group(struct sim *s, const char *space)
{
    char name[8];
    cleanup_sbuf struct sbuf claim = {0};
    (void)snprintf(name, sizeof(name), "g%u", (unsigned)sim_draw(s, GROUPS));
    const char *scheduler = sim_draw(s, 2) ? "dray" : "other";
    unsigned min = sim_draw(s, 4) ? 2 + (unsigned)sim_draw(s, 2) : 0;
    uint64_t pods = (min ? min : 2) + sim_draw(s, 2);
    bool object_first = sim_draw(s, 3) > 0;
    uint64_t own = sim_draw(s, (uint64_t)TEMPLATES * 2);
    sbuf_addz(&claim, "");
    group_claim(s, &claim);
    if (object_first)
        make_group_object(s, space, name, min, claim.p ? claim.p : "");
    pods -= sim_draw(s, 6) == 0;
    for (uint64_t i = 0; i < pods; i++)
        make_member(s, space, name, scheduler, claim.p ? claim.p : "", own);
    if (!object_first)
        make_group_object(s, space, name, min, claim.p ? claim.p : "");
}

// Two gangs that want devices of one template each for all their pods, at the same moment.
void sim_contend(struct sim *s)
{
    if (!s->store)
        return;
    const char *scheduler = sim_draw(s, 2) ? "dray" : "other";
    uint64_t own = sim_draw(s, TEMPLATES);
    for (unsigned i = 0; i < 2; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "g%u", i);
        unsigned min = 2 + (unsigned)sim_draw(s, 2);
        make_group_object(s, "default", name, min, "");
        for (unsigned k = 0; k < min; k++)
            make_member(s, "default", name, scheduler, "", own);
    }
    sim_strike(s);
}

static struct api_object load(struct sim *s, const char *kind, const char *namespace,
                              const char *name, struct arena *arena)
{
    const struct store_key key = {op_kind(kind), str_z(namespace), str_z(name)};
    struct api_object object = {0};
    struct err err;
    const struct object *o = store_get(s->store, &key);
    if (!o || registry_decode(o, key.kind, arena, &object, &err) < 0)
        object.value = NULL;
    return object;
}

// A pod more, with the scheduler of the others if there are any, and the group's claim.
static void add_member(struct sim *s, const char *namespace, const char *name)
{
    struct arena cleanup_arena arena = {0};
    const struct api_pod_group *g = load(s, "PodGroup", namespace, name, &arena).value;
    cleanup_sbuf struct sbuf claim = {0};
    if (!g)
        return;
    if (g->spec.resource_claims.n) {
        const struct api_pod_group_resource_claim *e = &g->spec.resource_claims.p[0];
        sbuf_addf(&claim, "{'name':'net','%s':'%.*s'}",
                  e->has_resource_claim_name ? "resourceClaimName" : "resourceClaimTemplateName",
                  STR_ARG(e->has_resource_claim_name ? e->resource_claim_name
                                                     : e->resource_claim_template_name));
    }
    make_member(s, namespace, name, sim_draw(s, 8) ? "dray" : "other", claim.p ? claim.p : "",
                sim_draw(s, (uint64_t)TEMPLATES * 2));
}

static void change_min(struct sim *s, const char *namespace, const char *name)
{
    struct arena cleanup_arena arena = {0};
    const struct api_pod_group *g = load(s, "PodGroup", namespace, name, &arena).value;
    char text[96];
    (void)snprintf(text, sizeof(text), "{'spec':{'schedulingPolicy':{'gang':{'minCount':%u}}}}",
                   1 + (unsigned)sim_draw(s, 3));
    if (g && g->spec.scheduling_policy.gang)
        op_patch(s, "PodGroup", namespace, name, "", text);
}

static void delete_group(struct sim *s, const char *namespace, const char *name)
{
    op_delete(s, "PodGroup", namespace, name, NULL);
}

void sim_operate_group(struct sim *s, const char *space)
{
    uint64_t what = sim_draw(s, 10);
    if (what < 5)
        make_group(s, space);
    else if (what < 7)
        op_with_some(s, "PodGroup", add_member);
    else if (what < 8)
        op_with_some(s, "PodGroup", change_min);
    else
        op_with_some(s, "PodGroup", delete_group);
}

// --- What became of gangs ------------------------------------------------------------------------

size_t gang_min(const struct api_pod_group *group)
{
    const struct api_gang_scheduling_policy *gang = group->spec.scheduling_policy.gang;
    return gang && gang->min_count > 1 ? (size_t)gang->min_count : 1;
}

static bool note(struct uid_list *list, struct str uid)
{
    for (size_t i = 0; i < list->n; i++)
        if (str_eqz(uid, list->p[i]))
            return false;
    vec_push(list, xstrndup(uid.p, uid.n));
    return true;
}

static struct seen_gang *seen(struct sim *s, const struct api_pod_group *g)
{
    for (size_t i = 0; i < s->gangs.n; i++)
        if (str_eqz(g->metadata.uid, s->gangs.p[i].uid))
            return &s->gangs.p[i];
    vec_push(&s->gangs, (struct seen_gang){.uid = xstrndup(g->metadata.uid.p, g->metadata.uid.n),
                                           .min = SIZE_MAX,
                                           .in_calm = s->calm});
    return vec_last(&s->gangs);
}

static bool is_of(const struct api_pod *pod, const struct api_pod_group *g)
{
    return str_eq(pod->metadata.namespace, g->metadata.namespace) &&
           str_eq(pod_group_name(pod), g->metadata.name);
}

void groups_note(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_GROUPS].n; i++) {
        const struct api_pod_group *g = c->lists[LOADED_GROUPS].p[i];
        size_t known = c->s->gangs.n;
        struct seen_gang *gang = seen(c->s, g);
        // Pods of an earlier group of this name are no part of it.
        bool fresh = c->s->gangs.n > known;
        gang->min = gang_min(g) < gang->min ? gang_min(g) : gang->min;
        for (size_t k = 0; k < c->lists[LOADED_PODS].n; k++) {
            const struct api_pod *pod = c->lists[LOADED_PODS].p[k];
            if (!is_of(pod, g))
                continue;
            (void)note(&gang->pods, pod->metadata.uid);
            if (fresh && pod->spec.node_name.n)
                gang->in_calm = false;
            if (pod->spec.node_name.n)
                (void)note(&gang->bound, pod->metadata.uid);
        }
    }
}

// Of a gang that came when all was well as many pods were bound as it needed, unless some were
// deleted on the way, or none.
static void check_whole(struct content *c, const struct api_pod_group *g)
{
    const struct seen_gang *gang = seen(c->s, g);
    size_t there = 0;
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++)
        there += is_of(c->lists[LOADED_PODS].p[i], g);
    size_t gone = gang->pods.n > there ? gang->pods.n - there : 0;
    if (gang->in_calm && gang->bound.n && gang->bound.n + gone < gang->min)
        sim_break(c->s, "of gang %.*s/%.*s %zu pods were bound, and %zu had to be at once",
                  STR_ARG(g->metadata.namespace), STR_ARG(g->metadata.name), gang->bound.n,
                  gang->min);
}

// --- Who can run does ----------------------------------------------------------------------------

static size_t running(const struct content *c, const struct api_pod_group *g)
{
    size_t n = 0;
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        n += is_of(pod, g) && pod->spec.node_name.n && !pod_is_terminal(pod);
    }
    return n;
}

bool groups_must_wait(const struct content *c, const struct api_pod *pod)
{
    struct str name = pod_group_name(pod);
    const struct api_pod_group *g = content_group(c, pod->metadata.namespace, name);
    if (!name.n)
        return false;
    for (size_t i = 0; g && i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *other = c->lists[LOADED_PODS].p[i];
        if (is_of(other, g) && !pod_is_done(other) &&
            !str_eq(other->spec.scheduler_name, pod->spec.scheduler_name))
            return true; // which is an error, and it is told
    }
    return !g || g->metadata.deletion_timestamp.set || running(c, g) < gang_min(g);
}

struct members VEC(size_t); // places in the list of pods

struct placing {
    struct content *c;
    struct members pods;
    size_t min;
};

static bool fit_from(struct placing *p, size_t i, size_t have);

static size_t place_of(const struct content *c, const struct api_resource_claim *claim)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++)
        if (c->lists[LOADED_CLAIMS].p[i] == claim)
            return i;
    abort();
}

// As if the pod were on the node with what it was given; then as it was.
static bool fit_on(struct placing *p, size_t i, size_t have, const struct api_node *node,
                   const struct claims *open, const struct api_allocation_result *given)
{
    struct content *c = p->c;
    size_t at = p->pods.p[i];
    const struct api_pod *was = c->lists[LOADED_PODS].p[at];
    struct api_pod *now = arena_one(&c->arena, struct api_pod);
    *now = *was;
    now->spec.node_name = node->metadata.name;
    c->lists[LOADED_PODS].p[at] = now;
    size_t *places = arena_array(&c->arena, size_t, open->n + 1);
    for (size_t k = 0; k < open->n; k++) {
        struct api_resource_claim *claim = arena_one(&c->arena, struct api_resource_claim);
        *claim = *open->p[k];
        claim->status.allocation = arena_one(&c->arena, struct api_allocation_result);
        api_copy(&api_allocation_result_type, &given[k], claim->status.allocation, &c->arena);
        places[k] = place_of(c, open->p[k]);
        c->lists[LOADED_CLAIMS].p[places[k]] = claim;
    }
    bool fits = fit_from(p, i + 1, have + 1);
    c->lists[LOADED_PODS].p[at] = was;
    for (size_t k = 0; k < open->n; k++)
        c->lists[LOADED_CLAIMS].p[places[k]] = open->p[k];
    return fits;
}

static bool reaches(const struct api_node *node, const struct claims *held)
{
    struct err err;
    for (size_t i = 0; i < held->n; i++) {
        const struct api_node_selector *where = held->p[i]->status.allocation->node_selector;
        if (claim_readiness(held->p[i]) == CLAIM_FAILED ||
            (where && node_matches(node, STR(""), false, where, &err) != 1))
            return false;
    }
    return true;
}

static bool try_node(struct placing *p, size_t i, size_t have, const struct api_node *node,
                     const struct claims *open, const struct claims *held)
{
    struct content *c = p->c;
    const struct api_pod *pod = c->lists[LOADED_PODS].p[p->pods.p[i]];
    if (!content_has_room(c, pod, node) || !reaches(node, held))
        return false;
    if (!open->n)
        return fit_on(p, i, have, node, open, NULL);
    const struct alloc_input input = content_input(c);
    struct alloc_cluster *cluster = NULL;
    struct alloc_view *view = NULL;
    struct err err;
    struct alloc_answer answer = {.verdict = ALLOC_ERROR};
    struct alloc_solver *solver = alloc_solver_new(&(struct alloc_options){.policy = ALLOC_FIRST});
    if (alloc_cluster_new(&input, &cluster, &err) == 0 &&
        alloc_view_new(cluster, node, &view, &err) == 0)
        alloc_solve(solver, view, open->p, open->n, &answer);
    bool fits = answer.verdict == ALLOC_ALLOCATED && fit_on(p, i, have, node, open, answer.results);
    alloc_view_free(view);
    alloc_cluster_free(cluster);
    alloc_solver_free(solver);
    return fits;
}

// Tries all nodes for each pod, in all combinations.
static bool fit_from(struct placing *p, size_t i, size_t have)
{
    struct content *c = p->c;
    if (have >= p->min)
        return true;
    if (have + p->pods.n - i < p->min)
        return false;
    struct claims open = {0};
    struct claims held = {0};
    bool fits = false;
    if (content_gather(c, c->lists[LOADED_PODS].p[p->pods.p[i]], &open, &held))
        for (size_t n = 0; n < c->lists[LOADED_NODES].n && !fits; n++)
            fits = try_node(p, i, have, c->lists[LOADED_NODES].p[n], &open, &held);
    vec_done(&open);
    vec_done(&held);
    return fits || fit_from(p, i + 1, have);
}

static struct str told(const struct api_pod_group *g)
{
    for (size_t i = 0; i < g->status.conditions.n; i++)
        if (str_eqz(g->status.conditions.p[i].type, "PodGroupInitiallyScheduled"))
            return g->status.conditions.p[i].message;
    return STR("");
}

// An error on one node ends the attempt, as in Kubernetes; people are told.
static bool has_error(const struct api_pod_group *g)
{
    for (size_t i = 0; i < g->status.conditions.n; i++)
        if (str_eqz(g->status.conditions.p[i].reason, "SchedulerError"))
            return true;
    return false;
}

static void check_fits(struct content *c, const struct api_pod_group *g)
{
    struct placing p = {.c = c, .min = gang_min(g)};
    size_t have = running(c, g);
    if (have >= p.min || p.min == 1 || g->metadata.deletion_timestamp.set || has_error(g))
        return;
    const struct api_pod *first = NULL;
    bool same = true; // pods of two schedulers are an error
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (!is_of(pod, g) || pod_is_done(pod))
            continue;
        first = first ? first : pod;
        same &= str_eq(first->spec.scheduler_name, pod->spec.scheduler_name);
        if (!pod->spec.node_name.n && !pod->spec.scheduling_gates.n)
            vec_push(&p.pods, i);
    }
    if (same && p.pods.n && fit_from(&p, 0, have))
        sim_break(c->s, "gang %.*s/%.*s could run, but waits: %.*s", STR_ARG(g->metadata.namespace),
                  STR_ARG(g->metadata.name), STR_ARG(told(g)));
    vec_done(&p.pods);
}

static bool is_needed(const struct content *c, const struct api_pod_group *g)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (is_of(pod, g) && !pod_is_terminal(pod))
            return true;
    }
    return false;
}

void groups_check_end(struct content *c)
{
    groups_note(c);
    for (size_t i = 0; i < c->lists[LOADED_GROUPS].n; i++) {
        const struct api_pod_group *g = c->lists[LOADED_GROUPS].p[i];
        if (g->metadata.deletion_timestamp.set && !is_needed(c, g))
            sim_break(c->s, "group %.*s/%.*s does not go", STR_ARG(g->metadata.namespace),
                      STR_ARG(g->metadata.name));
        check_whole(c, g);
        check_fits(c, g);
    }
}

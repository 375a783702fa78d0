// SPDX-License-Identifier: Apache-2.0
//
// What hits gangs at the worst moment: a node is lost, or a scheduler crashes, while some pods of a
// gang have what they need and others do not; two gangs that want the same devices. Whatever
// happens, in the end a gang runs or keeps nothing.
#include <stdio.h>

#include "api/match/claim.h"
#include "check.h"
#include "ops.h"

#include "base/banned.h"

// How often it is looked for a gang that is half bound, and how long between.
enum { LOOKS = 60, LOOK_MS = 3 };

// --- Striking ------------------------------------------------------------------------------------

static bool is_of(const struct api_pod *pod, const struct api_pod_group *g)
{
    return str_eq(pod->metadata.namespace, g->metadata.namespace) &&
           str_eq(pod_group_name(pod), g->metadata.name);
}

// holds: a pod that is not bound has a claim reserved.
static bool holds(const struct content *c, const struct api_pod *pod)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        if (str_eq(claim->metadata.namespace, pod->metadata.namespace) &&
            content_names(pod, claim->metadata.name) && claim->status.allocation &&
            is_reserved(claim, pod))
            return true;
    }
    return false;
}

// half_bound finds a gang of which some pods are bound or have devices, and some are not bound.
// *node gets the node of one that is, if there is one.
static bool half_bound(const struct content *c, char node[16])
{
    for (size_t i = 0; i < c->lists[LOADED_GROUPS].n; i++) {
        const struct api_pod_group *g = c->lists[LOADED_GROUPS].p[i];
        bool begun = false, waits = false;
        for (size_t k = 0; k < c->lists[LOADED_PODS].n; k++) {
            const struct api_pod *pod = c->lists[LOADED_PODS].p[k];
            if (!is_of(pod, g) || pod_is_done(pod))
                continue;
            if (pod->spec.node_name.n)
                (void)snprintf(node, 16, "%.*s", STR_ARG(pod->spec.node_name));
            begun |= pod->spec.node_name.n || holds(c, pod);
            waits |= !pod->spec.node_name.n;
        }
        if (gang_min(g) > 1 && begun && waits)
            return true;
    }
    return false;
}

static bool look(struct sim *s, char node[16])
{
    struct content c;
    content_load(&c, s);
    bool found = half_bound(&c, node);
    content_done(&c);
    return found;
}

static void crash_scheduler(struct sim *s)
{
    for (size_t i = 0; i < PARTS; i++) {
        struct part *p = &s->parts[i];
        if (p->kind != PART_SCHED || !p->client)
            continue;
        part_crash(s, p);
        p->back_ns = s->clock.mono + (int64_t)sim_draw(s, 3000) * CLOCK_NS_PER_MS;
    }
}

static void strike(struct sim *s, const char *node)
{
    uint64_t how = sim_draw(s, 4);
    sim_log(s, "a gang is half bound");
    if (how == 0 || !*node)
        crash_scheduler(s);
    else if (how == 1)
        op_delete(s, "Node", "", node, NULL);
    else if (how == 2)
        op_patch(s, "Node", "", node, "status",
                 "{'status':{'conditions':[{'type':'Ready','status':'False'}]}}");
    else
        op_remove_node(s, node);
}

void sim_strike(struct sim *s)
{
    for (int i = 0; s->store && i < LOOKS; i++) {
        char node[16] = "";
        if (look(s, node)) {
            strike(s, node);
            return;
        }
        (void)sim_run(s, LOOK_MS * CLOCK_NS_PER_MS, 20000);
    }
}

static void make_ready(struct sim *s, const char *namespace, const char *name)
{
    op_patch(s, "Node", namespace, name, "status",
             "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
}

void sim_heal(struct sim *s)
{
    struct content c;
    content_load(&c, s);
    for (size_t i = 0; i < c.lists[LOADED_NODES].n; i++) {
        const struct api_node *node = c.lists[LOADED_NODES].p[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "%.*s", STR_ARG(node->metadata.name));
        make_ready(s, "", name);
    }
    content_done(&c);
}

// --- What must hold at the end -------------------------------------------------------------------

static bool is_mine(const struct api_resource_claim *claim, struct str uid)
{
    for (size_t i = 0; i < claim->metadata.owner_references.n; i++)
        if (str_eq(claim->metadata.owner_references.p[i].uid, uid))
            return true;
    return false;
}

// keeps finds a claim made for the group or one of its pods that has devices.
static const struct api_resource_claim *keeps(const struct content *c,
                                              const struct api_pod_group *g)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        bool mine = is_mine(claim, g->metadata.uid);
        for (size_t k = 0; k < c->lists[LOADED_PODS].n; k++) {
            const struct api_pod *pod = c->lists[LOADED_PODS].p[k];
            mine |= is_of(pod, g) && is_mine(claim, pod->metadata.uid);
        }
        if (mine && claim->status.allocation)
            return claim;
    }
    return NULL;
}

static void tell(struct content *c, const struct api_pod_group *g)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        struct str why = pod->status.conditions.n ? pod->status.conditions.p[0].message : STR("");
        if (is_of(pod, g))
            sim_break(c->s, "  pod %.*s of %.*s: %.*s", STR_ARG(pod->metadata.name),
                      STR_ARG(pod->spec.scheduler_name), STR_ARG(why));
    }
}

// Of a gang none of whose pods runs nothing is kept: others could use it. Pods of two schedulers in
// one group are an error, and neither may take what the other may rely on.
static void check_empty(struct content *c, const struct api_pod_group *g)
{
    const struct api_pod *first = NULL;
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (!is_of(pod, g) || pod_is_terminal(pod))
            continue;
        first = first ? first : pod;
        if (pod->spec.node_name.n || !str_eq(pod->spec.scheduler_name, first->spec.scheduler_name))
            return;
    }
    // A group without pods keeps its claim until it goes, as in Kubernetes.
    const struct api_resource_claim *claim = first && gang_min(g) > 1 ? keeps(c, g) : NULL;
    if (!claim)
        return;
    sim_break(c->s, "gang %.*s/%.*s (at least %zu) does not run, and its claim %.*s keeps devices",
              STR_ARG(g->metadata.namespace), STR_ARG(g->metadata.name), gang_min(g),
              STR_ARG(claim->metadata.name));
    tell(c, g);
}

static bool has_node(const struct content *c, struct str name)
{
    for (size_t i = 0; i < c->lists[LOADED_NODES].n; i++)
        if (str_eq(((const struct api_node *)c->lists[LOADED_NODES].p[i])->metadata.name, name))
            return true;
    return false;
}

void losses_check_end(struct content *c)
{
    if (!c->s->losses)
        return;
    for (size_t i = 0; i < c->lists[LOADED_GROUPS].n; i++)
        check_empty(c, c->lists[LOADED_GROUPS].p[i]);
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (pod->spec.node_name.n && !has_node(c, pod->spec.node_name))
            sim_break(c->s, "pod %.*s/%.*s stays on node %.*s, which is gone",
                      STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                      STR_ARG(pod->spec.node_name));
    }
}

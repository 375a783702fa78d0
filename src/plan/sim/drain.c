// SPDX-License-Identifier: Apache-2.0
//
// --drain: cordons a node and evicts its pods through the registry's eviction rules. A pod whose
// disruption budget allows no eviction stays, with the budget's message; pods of DaemonSets and of
// the node itself stay too, as with kubectl drain --ignore-daemonsets.
#include "api/match/claim.h"
#include "api/match/label_selector.h"
#include "ctl/template.h"
#include "plan/sim/admission.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

// --- Budgets -------------------------------------------------------------------------------------

static bool drain_is_healthy(const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "Ready"))
            return str_eqz(pod->status.conditions.p[i].status, "True");
    return false;
}

// drain_set_status computes the status of a budget that no controller has seen yet, one from a
// manifest, as the disruption controller does.
static void drain_set_status(const struct plan_world *w, struct api_pod_disruption_budget *b)
{
    struct arena arena = {0};
    struct label_selector selector = {0};
    int32_t expected = 0, healthy = 0;
    bool readable = label_selector_of(b->spec.selector, &arena, &selector, NULL) == 0;
    world_foreach(w, PLAN_POD, o)
    {
        const struct api_pod *pod = o->value;
        if (!readable || !str_eq(pod->metadata.namespace, b->metadata.namespace) ||
            pod_is_terminal(pod) || !label_selector_matches(&selector, &pod->metadata.labels))
            continue;
        expected++;
        healthy += drain_is_healthy(pod);
    }
    int32_t desired = b->spec.max_unavailable
                          ? expected - load_scaled(b->spec.max_unavailable, expected, true)
                          : load_scaled(b->spec.min_available, expected, true);
    b->status = (struct api_pod_disruption_budget_status){
        .observed_generation = b->metadata.generation,
        .expected_pods = expected,
        .current_healthy = healthy,
        .desired_healthy = desired > 0 ? desired : 0,
        .disruptions_allowed = healthy > desired ? healthy - (desired > 0 ? desired : 0) : 0};
    arena_done(&arena);
}

static struct admission *drain_open_admission(const struct plan_world *w)
{
    struct admission *a = admission_new(NULL, SIM_FIXED_WALL_NS);
    world_foreach(w, PLAN_OTHER, o)
    {
        if (o->type != &api_pod_disruption_budget_type)
            continue;
        struct api_pod_disruption_budget b = *(const struct api_pod_disruption_budget *)o->value;
        if (!b.metadata.uid.n && !b.status.observed_generation)
            drain_set_status(w, &b);
        admission_put(a, &(struct api_object){world_kind(o->type), &b});
    }
    return a;
}

// --- Pods and claims -----------------------------------------------------------------------------

static bool drain_leaves_pod(const struct api_pod *pod)
{
    const struct api_owner_reference *owner = meta_controller(&pod->metadata);
    return owner && (str_eqz(owner->kind, "DaemonSet") || str_eqz(owner->kind, "Node"));
}

static void drain_evict_pods(struct plan_world *w, struct str node)
{
    struct admission *a = drain_open_admission(w);
    world_foreach(w, PLAN_POD, o)
    {
        const struct api_pod *pod = o->value;
        cleanup_sbuf struct sbuf why = {0};
        if (!str_eq(pod->spec.node_name, node) || pod_is_terminal(pod) || drain_leaves_pod(pod))
            continue;
        if (admission_evict_pod(a, pod, &why) == 0)
            whatif_move_pod(w, o);
        else
            o->staying = arena_str(&w->arena, sbuf_str(&why));
    }
    admission_free(a);
}

static bool drain_is_on_node(const struct plan_world *w, const struct api_resource_claim *c,
                             struct str node)
{
    const struct api_allocation_result *a = c->status.allocation;
    world_foreach(w, PLAN_SLICE, s)
    {
        const struct api_resource_slice_spec *spec =
            &((const struct api_resource_slice *)s->value)->spec;
        for (size_t i = 0; a && str_eq(spec->node_name, node) && i < a->devices.results.n; i++)
            if (str_eq(spec->pool.name, a->devices.results.p[i].pool) &&
                str_eq(spec->driver, a->devices.results.p[i].driver))
                return true;
    }
    return false;
}

// drain_is_in_use: a pod that stays on the node needs the claim.
static bool drain_is_in_use(const struct plan_world *w, const struct api_resource_claim *c,
                            struct str node)
{
    world_foreach(w, PLAN_POD, o)
    {
        const struct api_pod *pod = o->value;
        if (str_eq(pod->spec.node_name, node) && claim_is_reserved_for(c, pod->metadata.uid))
            return true;
    }
    return false;
}

int plan_drain(struct plan_world *w, struct str node, struct err *err)
{
    struct plan_object *o = whatif_find_node(w, node);
    if (!o)
        return whatif_no_such_object(w, PLAN_NODE, node, err);
    ((struct api_node *)whatif_copy_object(w, o))->spec.unschedulable = true;
    drain_evict_pods(w, node);
    world_foreach(w, PLAN_CLAIM, c)
    {
        if (drain_is_on_node(w, c->value, node) && !drain_is_in_use(w, c->value, node))
            whatif_release_claim(w, c);
    }
    return 0;
}

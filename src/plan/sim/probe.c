// SPDX-License-Identifier: Apache-2.0
//
// Probes for `dray free`. Counting free devices is not enough: nodes have room for so many pods,
// partitions exclude each other, shares run out. So the scheduler itself places pods that want
// nothing but one device, batch by batch, until one of them does not fit. All probes are alike, so
// the first one left over is the proof that no further one fits.
#include "plan/sim/probe.h"

#include "api/match/taint.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

#define PROBE_MAX       100000 // claims in one answer
#define PROBE_SHARES    1024   // claims beyond one for each device: shares may not run out
#define PROBE_BATCH_MAX 4096
#define PROBE_TIME_NS   (10 * CLOCK_NS_PER_SEC)
#define PROBE_SETTLE_S  600 // on the clock of the copy

struct probe {
    const struct probe_question *q;
    struct sim sim;
    struct plan plan; // nodes that the copy has
    struct VEC(struct api_toleration) tolerations;
    struct str namespace;
    struct api_pod pod; // without its claim
    size_t n;           // probes created
};

// probe_choose_namespace finds a namespace that no object of the cluster is in: no limit or quota
// of a tenant applies to the probes, and no pod or claim has their names.
static void probe_choose_namespace(struct probe *p)
{
    struct probe_namespaces MAP(bool) used = {0};
    struct arena *arena = &p->plan.arena;
    const struct plan_objects *all = &p->q->world->objects;
    for (size_t i = 0; i < all->n; i++) {
        const struct api_object o = {world_kind(all->p[i].type), all->p[i].value};
        *map_put(&used, api_object_meta(&o)->namespace) = true;
    }
    p->namespace = STR("dray-free");
    for (size_t i = 1; map_has(&used, p->namespace); i++)
        p->namespace = arena_strf(arena, "dray-free-%zu", i);
    map_done(&used);
}

// Taints of cordoned and failing nodes are the cluster's own; preferences keep no pod away.
static bool probe_is_administrators(const struct api_taint *t)
{
    return !str_starts(t->key, STR("node.kubernetes.io/")) &&
           !str_eqz(t->effect, TAINT_PREFER_NO_SCHEDULE);
}

bool probe_has_taints(const struct plan_world *w)
{
    world_foreach(w, PLAN_NODE, o)
    {
        const struct api_node *node = o->value;
        for (size_t i = 0; i < node->spec.taints.n; i++)
            if (probe_is_administrators(&node->spec.taints.p[i]))
                return true;
    }
    return false;
}

// probe_tolerate collects the taints that administrators set.
static void probe_tolerate(struct probe *p, const struct api_node *node)
{
    for (size_t i = 0; i < node->spec.taints.n; i++) {
        struct str key = node->spec.taints.p[i].key;
        bool known = !probe_is_administrators(&node->spec.taints.p[i]);
        vec_foreach(&p->tolerations, t)
            known |= str_eq(t->key, key);
        if (!known)
            vec_push(&p->tolerations,
                     ((struct api_toleration){.key = key, .operator= STR(TOLERATION_EXISTS)}));
    }
}

// probe_make_pod makes the pod that all probes are copies of, as the API server would admit it.
static void probe_make_pod(struct probe *p)
{
    struct arena *arena = &p->plan.arena;
    struct api_pod *pod = &p->pod;
    struct api_container *container = arena_one(arena, struct api_container);
    cleanup_sbuf struct sbuf why = {0};
    for (size_t i = 0; p->q->tolerant && i < p->plan.nodes.n; i++)
        probe_tolerate(p, p->plan.nodes.p[i]);
    *container = (struct api_container){.name = STR("none"), .image = STR("none")};
    *pod = (struct api_pod){.metadata = {.namespace = p->namespace, .name = STR("probe")},
                            .spec = {.containers = {.p = container, .n = 1},
                                     .tolerations = {p->tolerations.p, p->tolerations.n},
                                     .scheduler_name = STR(SIM_SCHEDULER)}};
    // A pod that is refused, by a policy of the cluster, is probed as it is.
    (void)!sim_apply_admission(&p->sim, pod, arena, &why);
}

static void probe_put(struct probe *p, size_t number)
{
    struct arena arena = {0};
    struct str name = arena_strf(&arena, "probe-%zu", number);
    struct api_exact_device_request exactly = {.device_class_name = p->q->class->metadata.name,
                                               .allocation_mode = STR("ExactCount"),
                                               .count = 1};
    struct api_device_request request = {.name = STR("device"), .exactly = &exactly};
    struct api_resource_claim claim = {.metadata = {.namespace = p->namespace, .name = name},
                                       .spec.devices.requests = {&request, 1}};
    struct api_pod_resource_claim entry = {
        .name = STR("claim"), .resource_claim_name = name, .has_resource_claim_name = true};
    struct api_pod pod = p->pod;
    pod.metadata.name = name;
    pod.spec.resource_claims = (struct api_pod_resource_claim_array){&entry, 1};
    sim_put(&p->sim, &api_resource_claim_type, &claim);
    sim_put(&p->sim, &api_pod_type, &pod);
    arena_done(&arena);
}

static const struct api_allocation_result *probe_allocation(const struct probe *p, size_t number)
{
    cleanup_sbuf struct sbuf name = {0};
    sbuf_addf(&name, "probe-%zu", number);
    const struct typed_object *o = sim_claim(&p->sim, p->namespace, sbuf_str(&name));
    return o ? ((const struct api_resource_claim *)o->object.value)->status.allocation : NULL;
}

// probe_batch has the scheduler place n more probes. Returns whether all of them were served.
static bool probe_batch(struct probe *p, size_t n,
                        void (*fn)(void *arg, const struct api_allocation_result *a), void *arg)
{
    size_t first = p->n, served = 0;
    for (; p->n < first + n; p->n++)
        probe_put(p, p->n);
    sim_settle(&p->sim, PROBE_SETTLE_S);
    for (size_t i = first; i < p->n; i++) {
        const struct api_allocation_result *a = probe_allocation(p, i);
        served += a != NULL;
        if (a)
            fn(arg, a);
    }
    return served == n;
}

static bool probe_may_go_on(const struct probe *p)
{
    return p->n < PROBE_MAX && p->n < p->q->guess + PROBE_SHARES && !sim_is_late(&p->sim);
}

bool probe_count(const struct probe_question *q,
                 void (*fn)(void *arg, const struct api_allocation_result *a), void *arg)
{
    struct probe p = {.q = q, .plan = {.world = q->world, .options = {.node = q->node}}};
    size_t notes = q->world->notes.n; // about files, not for this answer
    size_t batch = q->guess < PROBE_BATCH_MAX ? q->guess + 1 : PROBE_BATCH_MAX;
    struct api_device_class class = *q->class;
    bool all = true;
    sim_start(&p.sim, q->features, q->clock ? clock_wall_ns(q->clock) : SIM_FIXED_WALL_NS);
    p.sim.limit.clock = q->clock; // for the pods that wait too: tenants choose what those cost
    p.sim.limit.end_ns = q->clock ? clock_mono_ns(q->clock) + PROBE_TIME_NS : 0;
    sim_load_world(&p.plan, &p.sim, NULL, NULL);
    q->world->notes.n = notes;
    probe_choose_namespace(&p);
    probe_make_pod(&p);
    sim_put(&p.sim, &api_device_class_type, &class);
    sim_control(&p.sim);
    sim_settle(&p.sim, PROBE_SETTLE_S);
    sim_schedule(&p.sim, ALLOC_PACK); // pods that wait come first, as in the cluster
    sim_settle(&p.sim, PROBE_SETTLE_S);
    while (all && probe_may_go_on(&p))
        all = probe_batch(&p, batch, fn, arg);
    all |= sim_is_late(&p.sim); // what is left over may only not have had its turn
    sim_end(&p.sim);
    vec_done(&p.tolerations);
    vec_done(&p.plan.nodes);
    arena_done(&p.plan.arena);
    return !all;
}

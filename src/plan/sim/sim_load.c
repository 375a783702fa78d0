// SPDX-License-Identifier: Apache-2.0
//
// From a world to a cluster in memory: objects as they are, nodes that files leave out, what files
// do not say of nodes.
#include "api/match/claim.h"
#include "plan/sim/sim.h"

#include "base/banned.h"

// --- Nodes ---------------------------------------------------------------------------------------

// A node that does not say what it offers takes any pod. Real nodes always say it.
static const struct {
    const char *resource, *amount;
} sim_load_unlimited[] = {
    {"cpu", "1000000"}, {"ephemeral-storage", "1Ei"}, {"memory", "1Ei"}, {"pods", "1000000"}};

static void sim_load_give_room(struct api_node *node, struct arena *arena)
{
    size_t n = array_len(sim_load_unlimited);
    struct api_quantity_entry *all = arena_array(arena, struct api_quantity_entry, n);
    for (size_t i = 0; i < n; i++) {
        all[i].key = str_z(sim_load_unlimited[i].resource);
        (void)!quantity_parse(str_z(sim_load_unlimited[i].amount), arena, &all[i].value, NULL);
    }
    node->status.allocatable = (struct api_quantity_map){all, n};
}

static void sim_load_node(struct plan *p, struct sim *s, const struct api_node *node, bool *roomy)
{
    if (p->options.node.n && !str_eq(p->options.node, node->metadata.name))
        return;
    struct api_node *own = arena_one(&p->arena, struct api_node);
    *own = *node;
    if (!own->status.allocatable.n) {
        sim_load_give_room(own, &p->arena);
        *roomy = true;
    }
    vec_push(&p->nodes, own);
    sim_put(s, &api_node_type, own);
}

static void sim_load_node_named(struct plan *p, struct sim *s, struct str name)
{
    bool roomy = false;
    struct api_node node = {.metadata = {.name = name}};
    sim_load_node(p, s, &node, &roomy);
}

// sim_load_infer_nodes makes nodes of the names in slices.
static void sim_load_infer_nodes(struct plan *p, struct sim *s)
{
    struct names_seen MAP(bool) seen = {0};
    world_foreach(p->world, PLAN_SLICE, o)
    {
        struct str name = ((const struct api_resource_slice *)o->value)->spec.node_name;
        bool is_new = false;
        if (name.n)
            (void)map_put_new(&seen, name, &is_new);
        if (is_new)
            sim_load_node_named(p, s, name);
    }
    // Devices that every node can use do not name one.
    if (map_len(&seen) == 0 && !p->options.node.n)
        sim_load_node_named(p, s, STR("any-node"));
    map_done(&seen);
}

static void sim_load_nodes(struct plan *p, struct sim *s)
{
    size_t nodes = 0, strangers = 0;
    bool roomy = false;
    world_foreach(p->world, PLAN_NODE, o)
    {
        nodes++;
        sim_load_node(p, s, o->value, &roomy);
    }
    if (nodes == 0) {
        sim_load_infer_nodes(p, s);
        return;
    }
    world_foreach(p->world, PLAN_SLICE, o)
    {
        struct str name = ((const struct api_resource_slice *)o->value)->spec.node_name;
        strangers += name.n && !world_find(p->world, PLAN_NODE, name);
    }
    if (strangers)
        world_note(p->world,
                   "%zu slices are of nodes that are not in the files; they do not count. "
                   "Add the nodes, or leave all nodes out.",
                   strangers);
    if (roomy)
        world_note(p->world, "nodes without status.allocatable are taken to have room for any pod");
}

// --- Claims --------------------------------------------------------------------------------------

// A pod that the world does not have is taken for alive, not for gone: files may hold claims alone.
static bool sim_load_holder_known(const struct plan_world *w,
                                  const struct api_resource_claim *claim,
                                  const struct api_resource_claim_consumer_reference *r)
{
    struct arena tmp = {0};
    const struct plan_object *o =
        str_eqz(r->resource, "pods")
            ? world_find(w, PLAN_POD, world_full_name(&tmp, claim->metadata.namespace, r->name))
            : NULL;
    bool same = o && str_eq(((const struct api_pod *)o->value)->metadata.uid, r->uid);
    arena_done(&tmp);
    return same || str_eqz(r->resource, "podgroups");
}

static void sim_load_claim(const struct plan_world *w, struct sim *s,
                           const struct api_resource_claim *claim)
{
    struct arena arena = {0};
    struct api_resource_claim own = *claim;
    const struct api_resource_claim_consumer_reference_array *all = &claim->status.reserved_for;
    struct api_resource_claim_consumer_reference *kept =
        arena_array(&arena, struct api_resource_claim_consumer_reference, all->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++)
        if (sim_load_holder_known(w, claim, &all->p[i]))
            kept[n++] = all->p[i];
    own.status.reserved_for.p = kept;
    own.status.reserved_for.n = n;
    sim_put(s, &api_resource_claim_type, &own);
    arena_done(&arena);
}

// sim_load_rule puts a taint rule in; one that does not say since when is of now, as on a server.
void sim_load_rule(struct sim *s, const struct api_device_taint_rule *rule)
{
    struct api_device_taint_rule own = *rule;
    if (!own.spec.taint.time_added.set) {
        own.spec.taint.time_added.at = moment_from_ns(clock_wall_ns(&s->clock.clock));
        own.spec.taint.time_added.at.nsec = 0;
        own.spec.taint.time_added.set = true;
    }
    sim_put(s, &api_device_taint_rule_type, &own);
}

// sim_load_daemons puts a DaemonSet in. Its pods are of revisions that plans do not read: none of
// them is replaced.
static void sim_load_daemons(struct sim *s, const struct api_daemon_set *set)
{
    struct api_daemon_set own = *set;
    own.spec.update_strategy = (struct api_daemon_set_update_strategy){.type = STR("OnDelete")};
    sim_put(s, &api_daemon_set_type, &own);
}

// --- Everything ----------------------------------------------------------------------------------

// Pods that wait in the cluster come in the order of their creation, as in the scheduler's queue;
// lists are in the order of names.
struct load_waiting {
    struct api_pod *pod;
    size_t at; // in the world
};

static int sim_load_waiting_cmp(const void *x, const void *y)
{
    const struct load_waiting *a = x;
    const struct load_waiting *b = y;
    int r =
        moment_cmp(a->pod->metadata.creation_timestamp.at, b->pod->metadata.creation_timestamp.at);
    return r ? r : a->at < b->at ? -1 : a->at > b->at;
}

static void sim_load_object(struct plan *p, struct sim *s, const struct plan_object *o)
{
    if (o->kind == PLAN_CLAIM)
        sim_load_claim(p->world, s, o->value);
    else if (o->kind == PLAN_RULE)
        sim_load_rule(s, o->value);
    else if (o->type == &api_daemon_set_type)
        sim_load_daemons(s, o->value);
    else
        sim_put(s, o->type, o->value);
}

void sim_load_world(struct plan *p, struct sim *s, bool (*leave_out)(void *arg, struct str pod),
                    void *arg)
{
    struct VEC(struct load_waiting) waiting = {0};
    sim_load_nodes(p, s);
    for (size_t i = 0; i < p->world->objects.n; i++) {
        const struct plan_object *o = &p->world->objects.p[i];
        bool skipped = o->gone || o->kind == PLAN_NODE || o->kind == PLAN_WORKLOAD ||
                       o->kind == PLAN_EVENT || o->kind == PLAN_RECORD ||
                       (o->kind == PLAN_POD &&
                        (units_is_fresh(o) || (leave_out && leave_out(arg, o->name)))) ||
                       (o->kind == PLAN_CLAIM && leave_out && units_is_new_claim(o));
        if (skipped)
            continue;
        if (o->kind == PLAN_POD && !((struct api_pod *)o->value)->spec.node_name.n)
            vec_push(&waiting, ((struct load_waiting){o->value, i}));
        else
            sim_load_object(p, s, o);
    }
    if (waiting.n)
        qsort(waiting.p, waiting.n, sizeof(*waiting.p), sim_load_waiting_cmp);
    for (size_t i = 0; i < waiting.n; i++)
        sim_put(s, &api_pod_type, waiting.p[i].pod);
    vec_done(&waiting);
}

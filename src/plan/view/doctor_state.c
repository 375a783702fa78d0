// SPDX-License-Identifier: Apache-2.0
//
// The checks of `dray doctor` on what runs: nodes, devices in use, pods.
#include "plan/sim/plan_int.h"
#include "plan/view/doctor_int.h"

#include "base/banned.h"

#define START_SECONDS (5 * 60) // that a bound pod may take to run
#define AHEAD_SECONDS 30       // that the heartbeat of a node may lie in the future

// --- Nodes ---------------------------------------------------------------------------------------

static const struct doctor_condition {
    const char *type, *bad; // the status that means trouble; NULL: any but True
    const char *what, *remedy;
    bool warn;
} doctor_conditions[] = {
    {"Ready", NULL, "is not ready",
     "pods cannot start there, and are evicted after five minutes: look at the node's kubelet or "
     "agent, and its connection to the server",
     false},
    {"DRAUnprepareBlocked", "True", "cannot release devices",
     "pods that end there do not go, and their claims stay allocated: start the driver again, or "
     "look at its log",
     false},
    {"DiskPressure", "True", "has a disk that is nearly full",
     "its pods are evicted, and new ones do not start there: free some space", false},
    {"MemoryPressure", "True", "is short of memory",
     "its pods are evicted: use fewer or smaller ones", true},
    {"PIDPressure", "True", "is short of process IDs", "its pods are evicted: end some processes",
     true},
    {"NetworkUnavailable", "True", "has no pod network", "look at the network plugin of the node",
     false},
};

static void doctor_check_condition(struct doctor_look *l, const struct inventory_node *n,
                                   const struct api_node_condition *c)
{
    for (size_t i = 0; i < array_len(doctor_conditions); i++) {
        const struct doctor_condition *k = &doctor_conditions[i];
        bool bad = str_eqz(c->type, k->type) &&
                   (k->bad ? str_eqz(c->status, k->bad) : !str_eqz(c->status, "True"));
        if (!bad || !doctor_has_room(l))
            continue;
        doctor_add_finding(l->d, k->warn ? DOCTOR_WARN : DOCTOR_BAD, l->check, k->remedy,
                           "node %.*s with %u devices %s: %.*s is %.*s%s%.*s%s%.*s",
                           STR_ARG(n->name), n->devices, k->what, STR_ARG(c->type),
                           STR_ARG(c->status), c->reason.n ? ", " : "", STR_ARG(c->reason),
                           c->message.n ? ": " : "", STR_ARG(c->message));
    }
}

// Heartbeats carry the time of the node.
static void doctor_check_heartbeats(struct doctor_look *l, const struct inventory_node *n)
{
    int64_t ahead = 0;
    for (size_t i = 0; i < n->node->status.conditions.n; i++) {
        const struct api_time *t = &n->node->status.conditions.p[i].last_heartbeat_time;
        if (t->set && t->at.sec - l->now.sec > ahead)
            ahead = t->at.sec - l->now.sec;
    }
    if (ahead > AHEAD_SECONDS && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_BAD, l->check,
                           "set the clocks by NTP: leases, certificates and tolerations for a time "
                           "depend on them",
                           "the clock of node %.*s is %lld s ahead", STR_ARG(n->name),
                           (long long)ahead);
}

void doctor_check_nodes(struct doctor_look *l)
{
    doctor_begin_check(l, "nodes");
    for (size_t i = 0; i < l->inv->nodes_len; i++) {
        const struct inventory_node *n = &l->inv->nodes[i];
        for (size_t k = 0; k < n->node->status.conditions.n; k++)
            doctor_check_condition(l, n, &n->node->status.conditions.p[k]);
        doctor_check_heartbeats(l, n);
    }
    doctor_end_check(l, "all nodes are ready");
}

// --- Devices -------------------------------------------------------------------------------------

static void doctor_report_broken(struct doctor_look *l, const struct inventory_device *d)
{
    cleanup_sbuf struct sbuf users = {0};
    for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
        const struct inventory_claim *c = &l->inv->claims[l->inv->holds[k].claim];
        struct str namespace = c->claim->metadata.namespace;
        if (c->pods.n)
            sbuf_addf(&users, "%spod %.*s/%.*s", users.n ? ", " : "", STR_ARG(namespace),
                      STR_ARG(c->pods));
        else
            sbuf_addf(&users, "%sclaim %.*s", users.n ? ", " : "", STR_ARG(c->name));
    }
    struct str remedy = arena_strf(
        &l->d->arena,
        "delete the pods that use it, and their claims: they get another device; dray history "
        "%.*s/%.*s/%.*s shows what happened",
        STR_ARG(d->id.driver), STR_ARG(d->id.pool), STR_ARG(d->id.device));
    doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p,
                       "device %.*s/%.*s/%.*s is in use by %s, and broken: %.*s",
                       STR_ARG(d->id.driver), STR_ARG(d->id.pool), STR_ARG(d->id.device),
                       users.n ? users.p : "a claim", STR_ARG(d->why));
}

void doctor_check_devices(struct doctor_look *l)
{
    size_t tainted = 0;
    doctor_begin_check(l, "devices");
    for (size_t i = 0; i < l->inv->devices_len; i++) {
        const struct inventory_device *d = &l->inv->devices[i];
        tainted += d->state == INVENTORY_TAINTED;
        if (d->state == INVENTORY_BROKEN && doctor_has_room(l))
            doctor_report_broken(l, d);
    }
    if (tainted && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_WARN, l->check,
                           "dray who --all shows which and why; dray untaint removes a taint of a "
                           "rule, a driver its own",
                           "%zu devices are free but tainted", tainted);
    doctor_end_check(l, l->inv->devices_len ? "no device is broken or kept away by a taint"
                                            : "there are no devices at all");
}

// --- Pods ----------------------------------------------------------------------------------------

// Reasons of containers that wait for something that does not come by itself.
static bool doctor_is_trouble(struct str reason)
{
    return reason.n && !str_eqz(reason, "ContainerCreating") && !str_eqz(reason, "PodInitializing");
}

static const struct api_container_state_waiting *doctor_find_waiting(
    const struct api_container_status_array *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->p[i].state.waiting && doctor_is_trouble(all->p[i].state.waiting->reason))
            return all->p[i].state.waiting;
    return NULL;
}

// doctor_find_sick finds a device that a node reports unhealthy in the status of a pod.
static struct str doctor_find_sick(const struct api_container_status_array *all)
{
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->p[i].allocated_resources_status.n; k++) {
            const struct api_resource_status *r = &all->p[i].allocated_resources_status.p[k];
            for (size_t j = 0; j < r->resources.n; j++)
                if (str_eqz(r->resources.p[j].health, "Unhealthy"))
                    return r->resources.p[j].resource_id;
        }
    return (struct str){0};
}

static void doctor_check_bound(struct doctor_look *l, struct str name, const struct api_pod *p)
{
    struct str remedy = arena_strf(&l->d->arena, "dray why pod/%.*s explains it", STR_ARG(name));
    const struct api_container_state_waiting *w =
        doctor_find_waiting(&p->status.init_container_statuses);
    w = w ? w : doctor_find_waiting(&p->status.container_statuses);
    struct str sick = doctor_find_sick(&p->status.container_statuses);
    struct api_time start =
        p->status.start_time.set ? p->status.start_time : p->metadata.creation_timestamp;
    if (sick.n && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p,
                           "pod %.*s runs with device %.*s, which is unhealthy", STR_ARG(name),
                           STR_ARG(sick));
    if (w && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p,
                           "pod %.*s on node %.*s does not run: %.*s%s%.*s", STR_ARG(name),
                           STR_ARG(p->spec.node_name), STR_ARG(w->reason), w->message.n ? ": " : "",
                           STR_ARG(w->message));
    else if (str_eqz(p->status.phase, "Failed") && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_WARN, l->check, remedy.p,
                           "pod %.*s on node %.*s failed%s%.*s%s%.*s", STR_ARG(name),
                           STR_ARG(p->spec.node_name), p->status.reason.n ? ": " : "",
                           STR_ARG(p->status.reason), p->status.message.n ? ": " : "",
                           STR_ARG(p->status.message));
    else if (!w && str_eqz(p->status.phase, "Pending") && start.set &&
             l->now.sec - start.at.sec > START_SECONDS && doctor_has_room(l))
        doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p,
                           "pod %.*s is bound to node %.*s and does not start", STR_ARG(name),
                           STR_ARG(p->spec.node_name));
}

void doctor_check_pods(struct doctor_look *l)
{
    doctor_begin_check(l, "pods");
    world_foreach(l->inv->world, PLAN_POD, o)
    {
        const struct api_pod *p = o->value;
        struct str remedy =
            arena_strf(&l->d->arena, "dray why pod/%.*s explains it", STR_ARG(o->name));
        if (p->spec.node_name.n)
            doctor_check_bound(l, o->name, p);
        else if (p->spec.resource_claims.n && str_eqz(p->status.phase, "Pending") &&
                 doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_WARN, l->check, remedy.p, "pod %.*s waits for devices",
                               STR_ARG(o->name));
    }
    doctor_end_check(l, "no pod waits for devices or fails");
}

// SPDX-License-Identifier: Apache-2.0
//
// The checks of `dray doctor` that need objects alone: slices, nodes, claims, taints, waiting pods.
// Each finding comes with a remedy.
#include <stdio.h>

#include "api/match/device_taint.h"
#include "plan/sim/plan_int.h"
#include "plan/view/doctor_int.h"

#include "base/banned.h"

#define TOLD_MAX      20        // findings of one check that are shown one by one
#define STUCK_SECONDS (5 * 60)  // that a claim may take to go
#define IDLE_SECONDS  (10 * 60) // that a claim may hold devices without a pod

void doctor_done(struct doctor *d)
{
    vec_done(&d->findings);
    arena_done(&d->arena);
}

void doctor_add_finding(struct doctor *d, enum doctor_level level, const char *check,
                        const char *remedy, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vec_push(&d->findings, (struct doctor_finding){.level = level,
                                                   .check = check,
                                                   .what = arena_str(&d->arena, str_z(text)),
                                                   .remedy = arena_str(&d->arena, str_z(remedy))});
}

enum doctor_level doctor_worst(const struct doctor *d)
{
    enum doctor_level worst = DOCTOR_GOOD;
    for (size_t i = 0; i < d->findings.n; i++)
        if (d->findings.p[i].level > worst)
            worst = d->findings.p[i].level;
    return worst;
}

// Returns whether one more finding of a check is shown.
bool doctor_has_room(struct doctor_look *l)
{
    return l->told++ < TOLD_MAX;
}

void doctor_end_check(struct doctor_look *l, const char *good)
{
    if (l->told == 0)
        doctor_add_finding(l->d, DOCTOR_GOOD, l->check, NULL, "%s", good);
    else if (l->told > TOLD_MAX)
        doctor_add_finding(l->d, DOCTOR_WARN, l->check, NULL, "and %zu more of the kind",
                           l->told - TOLD_MAX);
}

void doctor_begin_check(struct doctor_look *l, const char *check)
{
    l->check = check;
    l->told = 0;
}

// --- Pools and slices ----------------------------------------------------------------------------

static bool node_known(const struct inventory *inv, struct str name)
{
    return world_find(inv->world, PLAN_NODE, name) != NULL;
}

static void check_pools(struct doctor_look *l)
{
    doctor_begin_check(l, "pools");
    for (size_t i = 0; i < l->inv->pools_len; i++) {
        const struct inventory_pool *p = &l->inv->pools[i];
        if (!p->problem.n || !doctor_has_room(l))
            continue;
        struct str remedy = arena_strf(
            &l->d->arena,
            "its devices cannot be allocated until the driver publishes all slices: look at the "
            "driver's log%s%.*s, restart it if it does not",
            p->node.n ? " on node " : "", STR_ARG(p->node));
        doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p, "pool %.*s of %.*s: %.*s",
                           STR_ARG(p->name), STR_ARG(p->driver), STR_ARG(p->problem));
    }
    doctor_end_check(l, "all pools are complete");
}

static void doctor_check_slices(struct doctor_look *l)
{
    bool nodes = false;
    doctor_begin_check(l, "slices");
    world_foreach(l->inv->world, PLAN_NODE, o) nodes |= o->kind == PLAN_NODE;
    world_foreach(l->inv->world, PLAN_SLICE, o)
    {
        const struct api_resource_slice *s = o->value;
        struct str remedy =
            arena_strf(&l->d->arena, "dray delete resourceslice %.*s", STR_ARG(s->metadata.name));
        if (nodes && s->spec.node_name.n && !node_known(l->inv, s->spec.node_name) &&
            doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_BAD, l->check, remedy.p,
                               "slice %.*s is of node %.*s, which is not there",
                               STR_ARG(s->metadata.name), STR_ARG(s->spec.node_name));
    }
    for (size_t i = 0; i < l->inv->pools_len; i++) {
        const struct inventory_pool *p = &l->inv->pools[i];
        if (p->stale && doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_WARN, l->check,
                               "the driver removes them as a rule; if they stay, delete them",
                               "pool %.*s of %.*s has %zu slices older than generation %lld",
                               STR_ARG(p->name), STR_ARG(p->driver), p->stale,
                               (long long)p->generation);
    }
    doctor_end_check(l, "no slice is stale");
}

// --- Drivers and nodes ---------------------------------------------------------------------------

// Taints by which controllers mark devices whose driver does not answer.
static bool is_stale_taint(const struct api_device_taint *t)
{
    return str_contains(t->key, STR("stale")) || str_contains(t->key, STR("unreachable"));
}

static void doctor_check_drivers(struct doctor_look *l)
{
    doctor_begin_check(l, "drivers");
    for (size_t i = 0; i < l->inv->pools_len; i++) {
        const struct inventory_pool *p = &l->inv->pools[i];
        bool stale = false;
        for (size_t k = 0; k < l->inv->devices_len && !stale; k++)
            for (size_t t = 0; l->inv->devices[k].pool == i && t < l->inv->devices[k].taints.n; t++)
                stale |= is_stale_taint(&l->inv->devices[k].taints.p[t]);
        if (stale && doctor_has_room(l))
            doctor_add_finding(
                l->d, DOCTOR_BAD, l->check,
                "start the driver again; the taint goes when it publishes",
                "the driver %.*s of pool %.*s does not answer: its devices are tainted",
                STR_ARG(p->driver), STR_ARG(p->name));
    }
    doctor_end_check(l, "the drivers of all pools answer");
}

// --- Classes and rules ---------------------------------------------------------------------------

static void check_classes(struct doctor_look *l)
{
    doctor_begin_check(l, "classes");
    world_foreach(l->inv->world, PLAN_CLASS, o)
    {
        size_t yes = 0;
        size_t failed = 0;
        for (size_t i = 0; i < l->inv->devices_len; i++) {
            enum alloc_selects s =
                alloc_cluster_selects(l->inv->cluster, o->name, l->inv->devices[i].number);
            yes += s == ALLOC_SELECTS_YES;
            failed += s == ALLOC_SELECTS_ERROR;
        }
        if (failed && doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_BAD, l->check,
                               "claims of the class fail when they meet such a device: guard the "
                               "expression with device.driver == … &&",
                               "the selector of class %.*s fails on %zu devices", STR_ARG(o->name),
                               failed);
        else if (!yes && doctor_has_room(l))
            doctor_add_finding(
                l->d, DOCTOR_WARN, l->check,
                "is its driver running? is a name in the selector wrong? dray free --class "
                "lists the devices",
                "class %.*s matches no device", STR_ARG(o->name));
    }
    doctor_end_check(l, "every class matches devices");
}

static void doctor_check_rules(struct doctor_look *l)
{
    doctor_begin_check(l, "taint rules");
    world_foreach(l->inv->world, PLAN_RULE, o)
    {
        const struct api_device_taint_rule *r = o->value;
        bool any = false;
        for (size_t i = 0; i < l->inv->devices_len && !any && r->spec.device_selector; i++) {
            const struct alloc_device_id *id = &l->inv->devices[i].id;
            any = device_taint_selects(r->spec.device_selector, id->driver, id->pool, &id->device);
        }
        if (!any && doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_WARN, l->check, "dray untaint removes it",
                               "rule %.*s is about no device that there is", STR_ARG(o->name));
    }
    doctor_end_check(l, "every taint rule is about devices that are there");
}

// --- Claims --------------------------------------------------------------------------------------

static void check_gone(struct doctor_look *l)
{
    for (size_t i = l->inv->holds_len; i > 0 && l->inv->holds[i - 1].device == UINT32_MAX; i--) {
        const struct inventory_hold *h = &l->inv->holds[i - 1];
        const struct inventory_claim *c = &l->inv->claims[h->claim];
        struct str remedy =
            arena_strf(&l->d->arena,
                       c->pods.n ? "delete the pods that use it (%.*s): they get another device"
                                 : "delete the claim%.*s",
                       STR_ARG(c->pods));
        if (doctor_has_room(l))
            doctor_add_finding(
                l->d, DOCTOR_BAD, l->check, remedy.p,
                "claim %.*s has device %.*s/%.*s/%.*s, which is not published any more",
                STR_ARG(c->name), STR_ARG(h->result->driver), STR_ARG(h->result->pool),
                STR_ARG(h->result->device));
    }
}

// Two claims with the same device, of which one at least has it for itself.
static void check_twice(struct doctor_look *l)
{
    for (size_t i = 0; i < l->inv->devices_len; i++) {
        const struct inventory_device *d = &l->inv->devices[i];
        const struct inventory_hold *first = NULL;
        size_t owners = 0, sharers = 0;
        for (uint32_t k = d->first_hold; k < d->first_hold + d->holds_len; k++) {
            const struct inventory_hold *h = &l->inv->holds[k];
            if (h->result->has_admin_access && h->result->admin_access)
                continue;
            owners += !h->result->has_share_id;
            sharers += h->result->has_share_id;
            first = first ? first : h;
        }
        if (owners + sharers < 2 || !owners || !doctor_has_room(l))
            continue;
        doctor_add_finding(
            l->d, DOCTOR_BAD, l->check,
            "more than one scheduler allocates these devices: let one do it, and delete all "
            "but one of the pods",
            "device %.*s/%.*s/%.*s is allocated %zu times, to claim %.*s among others",
            STR_ARG(d->id.driver), STR_ARG(d->id.pool), STR_ARG(d->id.device), owners + sharers,
            STR_ARG(l->inv->claims[first->claim].name));
    }
}

static bool doctor_is_older(const struct doctor_look *l, struct api_time t, int64_t seconds)
{
    return t.set && l->now.sec - t.at.sec > seconds;
}

// Whether the pods a claim is reserved for are there.
static size_t missing_pods(const struct doctor_look *l, const struct api_resource_claim *c,
                           struct str *ret_first)
{
    size_t n = 0;
    struct arena tmp = {0};
    for (size_t i = 0; i < c->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &c->status.reserved_for.p[i];
        if (!str_eqz(r->resource, "pods") ||
            world_find(l->inv->world, PLAN_POD,
                       world_full_name(&tmp, c->metadata.namespace, r->name)))
            continue;
        if (n++ == 0)
            *ret_first = r->name;
    }
    arena_done(&tmp);
    return n;
}

static void check_claims(struct doctor_look *l)
{
    doctor_begin_check(l, "claims");
    check_gone(l);
    check_twice(l);
    world_foreach(l->inv->world, PLAN_CLAIM, o)
    {
        const struct api_resource_claim *c = o->value;
        struct str pod = {0};
        if (doctor_is_older(l, c->metadata.deletion_timestamp, STUCK_SECONDS) && doctor_has_room(l))
            doctor_add_finding(
                l->d, DOCTOR_WARN, l->check,
                "its finalizer waits for a driver to release the device: is the driver "
                "running on that node?",
                "claim %.*s is being deleted for a long time", STR_ARG(o->name));
        if (missing_pods(l, c, &pod) && doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_BAD, l->check,
                               "the resource claim controller takes such a reservation back: is it "
                               "running?",
                               "claim %.*s is reserved for pod %.*s, which is not there",
                               STR_ARG(o->name), STR_ARG(pod));
        if (c->status.allocation && c->status.reserved_for.n == 0 &&
            doctor_is_older(l, c->metadata.creation_timestamp, IDLE_SECONDS) && doctor_has_room(l))
            doctor_add_finding(l->d, DOCTOR_WARN, l->check, "delete the claim if no pod needs it",
                               "claim %.*s holds %zu devices, and no pod uses it", STR_ARG(o->name),
                               c->status.allocation->devices.results.n);
    }
    doctor_end_check(l, "every allocated claim has its devices to itself, and pods that use it");
}

void doctor_inspect(struct doctor *d, const struct inventory *inv, struct moment now)
{
    struct doctor_look l = {.d = d, .inv = inv, .now = now};
    if (inv->pools_len == 0)
        doctor_add_finding(d, DOCTOR_BAD, "slices",
                           "install a DRA driver, or 'dray up --sim' for simulated hardware",
                           "no driver has published a ResourceSlice");
    check_pools(&l);
    doctor_check_slices(&l);
    doctor_check_nodes(&l);
    doctor_check_drivers(&l);
    doctor_check_devices(&l);
    check_classes(&l);
    doctor_check_rules(&l);
    check_claims(&l);
    doctor_check_pods(&l);
}

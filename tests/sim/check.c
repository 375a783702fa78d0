// SPDX-License-Identifier: Apache-2.0
//
// What must hold at any time, from the store's content alone.
#include "check.h"

#include <stdlib.h>

#include "api/match/claim.h"
#include "api/match/node.h"
#include "base/hash.h"

#include "base/banned.h"

// --- Reading -------------------------------------------------------------------------------------

static const struct {
    const char *version, *kind;
} loaded_kinds[LOADED] = {
    [LOADED_PODS] = {"v1", "Pod"},
    [LOADED_NODES] = {"v1", "Node"},
    [LOADED_CLAIMS] = {"resource.k8s.io/v1", "ResourceClaim"},
    [LOADED_TEMPLATES] = {"resource.k8s.io/v1", "ResourceClaimTemplate"},
    [LOADED_CLASSES] = {"resource.k8s.io/v1", "DeviceClass"},
    [LOADED_SLICES] = {"resource.k8s.io/v1", "ResourceSlice"},
    [LOADED_RULES] = {"resource.k8s.io/v1", "DeviceTaintRule"},
    [LOADED_GROUPS] = {"scheduling.k8s.io/v1beta1", "PodGroup"},
};

void content_load(struct content *c, struct sim *s)
{
    *c = (struct content){.s = s};
    for (size_t k = 0; k < LOADED; k++) {
        const struct api_kind *kind =
            api_kind_find(str_z(loaded_kinds[k].version), str_z(loaded_kinds[k].kind));
        struct err err;
        struct store_walk walk = {.kind = registry_stored_kind(kind)};
        if (store_walk_start(s->store, &walk, &err) < 0)
            abort();
        for (const struct object *o; (o = store_walk_next(s->store, &walk));) {
            struct api_object object;
            if (registry_decode(o, kind, &c->arena, &object, &err) < 0)
                abort();
            vec_push(&c->lists[k], object.value);
        }
        store_walk_done(&walk);
    }
}

void content_done(struct content *c)
{
    for (size_t k = 0; k < LOADED; k++)
        vec_done(&c->lists[k]);
    arena_done(&c->arena);
}

const struct api_resource_claim *content_claim(const struct content *c, struct str namespace,
                                               struct str name)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        if (str_eq(claim->metadata.name, name) && str_eq(claim->metadata.namespace, namespace))
            return claim;
    }
    return NULL;
}

const struct api_pod *content_pod_of(const struct content *c, struct str uid)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (str_eq(pod->metadata.uid, uid))
            return pod;
    }
    return NULL;
}

const struct api_pod_group *content_group(const struct content *c, struct str namespace,
                                          struct str name)
{
    for (size_t i = 0; i < c->lists[LOADED_GROUPS].n; i++) {
        const struct api_pod_group *g = c->lists[LOADED_GROUPS].p[i];
        if (str_eq(g->metadata.name, name) && str_eq(g->metadata.namespace, namespace))
            return g;
    }
    return NULL;
}

bool content_names(const struct api_pod *pod, struct str claim)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name = {0};
        bool check;
        if (claim_name_of(pod, &pod->spec.resource_claims.p[i], &name, &check) == CLAIM_NAMED &&
            str_eq(name, claim))
            return true;
    }
    return false;
}

static bool is_group(const struct api_resource_claim_consumer_reference *r)
{
    return str_eqz(r->resource, "podgroups");
}

bool is_reserved(const struct api_resource_claim *claim, const struct api_pod *pod)
{
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_resource_claim_consumer_reference *r = &claim->status.reserved_for.p[i];
        if (is_group(r) ? str_eq(r->name, pod_group_name(pod)) : str_eq(r->uid, pod->metadata.uid))
            return true;
    }
    return false;
}

const struct api_pod *content_user(const struct content *c, const struct api_resource_claim *claim,
                                   const struct api_resource_claim_consumer_reference *r)
{
    if (!is_group(r))
        return content_pod_of(c, r->uid);
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (pod->spec.node_name.n && !pod_is_done(pod) &&
            str_eq(pod->metadata.namespace, claim->metadata.namespace) &&
            str_eq(pod_group_name(pod), r->name) && content_names(pod, claim->metadata.name))
            return pod;
    }
    return NULL;
}

// --- Devices -------------------------------------------------------------------------------------

bool uses_extended(const struct api_pod *pod, const struct api_resource_claim *claim)
{
    const struct api_pod_extended_resource_claim_status *s =
        pod->status.extended_resource_claim_status;
    return pod->spec.node_name.n && s && str_eq(s->resource_claim_name, claim->metadata.name);
}

// A claim counts where two schedulers are at work when a pod runs with it: before that an
// allocation may still give way to an earlier one.
static bool counts(const struct content *c, const struct api_resource_claim *claim)
{
    if (!claim->status.allocation)
        return false;
    for (size_t i = 0; i < claim->status.reserved_for.n; i++) {
        const struct api_pod *pod = content_user(c, claim, &claim->status.reserved_for.p[i]);
        if (pod && pod->spec.node_name.n &&
            (!claim_is_extended(&claim->metadata) || uses_extended(pod, claim)))
            return true;
    }
    return c->at_rest || c->all;
}

static bool same_device(const struct api_device_request_allocation_result *a,
                        const struct api_device_request_allocation_result *b)
{
    return str_eq(a->device, b->device) && str_eq(a->pool, b->pool) && str_eq(a->driver, b->driver);
}

// Admin access takes nothing.
static bool holds(const struct api_device_request_allocation_result *r)
{
    return !(r->has_admin_access && r->admin_access);
}

static void check_pair(struct content *c, const struct api_resource_claim *a,
                       const struct api_resource_claim *b)
{
    const struct api_device_request_allocation_result_array *x =
        &a->status.allocation->devices.results;
    const struct api_device_request_allocation_result_array *y =
        &b->status.allocation->devices.results;
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = 0; j < y->n; j++)
            if ((a != b || i < j) && holds(&x->p[i]) && holds(&y->p[j]) &&
                same_device(&x->p[i], &y->p[j]) && !(x->p[i].has_share_id && y->p[j].has_share_id))
                sim_break(c->s, "device %.*s/%.*s/%.*s is given to %.*s/%.*s and %.*s/%.*s",
                          STR_ARG(x->p[i].driver), STR_ARG(x->p[i].pool), STR_ARG(x->p[i].device),
                          STR_ARG(a->metadata.namespace), STR_ARG(a->metadata.name),
                          STR_ARG(b->metadata.namespace), STR_ARG(b->metadata.name));
}

static void check_exclusive(struct content *c)
{
    const struct objects *claims = &c->lists[LOADED_CLAIMS];
    for (size_t i = 0; i < claims->n; i++)
        for (size_t j = i; counts(c, claims->p[i]) && j < claims->n; j++)
            if (counts(c, claims->p[j]))
                check_pair(c, claims->p[i], claims->p[j]);
}

// taken sums what counting claims take of one thing: for_each gives the amount of a result.
static int64_t taken(const struct content *c, const struct api_resource_slice *slice,
                     const struct api_device *device, struct str capacity)
{
    int64_t sum = 0;
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        if (!counts(c, claim))
            continue;
        for (size_t j = 0; j < claim->status.allocation->devices.results.n; j++) {
            const struct api_device_request_allocation_result *r =
                &claim->status.allocation->devices.results.p[j];
            if (!str_eq(r->device, device->name) || !str_eq(r->driver, slice->spec.driver) ||
                !str_eq(r->pool, slice->spec.pool.name) || !holds(r))
                continue;
            if (!capacity.n)
                sum++;
            for (size_t k = 0; k < r->consumed_capacity.n; k++)
                if (str_eq(r->consumed_capacity.p[k].key, capacity))
                    sum += quantity_value(&r->consumed_capacity.p[k].value);
        }
    }
    return sum;
}

static void check_capacity(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_SLICES].n; i++) {
        const struct api_resource_slice *slice = c->lists[LOADED_SLICES].p[i];
        for (size_t d = 0; d < slice->spec.devices.n; d++) {
            const struct api_device *device = &slice->spec.devices.p[d];
            for (size_t k = 0; device->allow_multiple_allocations && k < device->capacity.n; k++) {
                int64_t sum = taken(c, slice, device, device->capacity.p[k].key);
                if (sum > quantity_value(&device->capacity.p[k].value.value))
                    sim_break(c->s, "device %.*s/%.*s gives %lld of its %.*s",
                              STR_ARG(slice->spec.pool.name), STR_ARG(device->name), (long long)sum,
                              STR_ARG(device->capacity.p[k].key));
            }
        }
    }
}

// drawn is what the devices of a pool that are in use draw from one counter.
static int64_t drawn(const struct content *c, const struct api_resource_slice *of, struct str set,
                     struct str counter)
{
    int64_t sum = 0;
    for (size_t i = 0; i < c->lists[LOADED_SLICES].n; i++) {
        const struct api_resource_slice *slice = c->lists[LOADED_SLICES].p[i];
        if (!str_eq(slice->spec.driver, of->spec.driver) ||
            !str_eq(slice->spec.pool.name, of->spec.pool.name))
            continue;
        for (size_t d = 0; d < slice->spec.devices.n; d++) {
            const struct api_device *device = &slice->spec.devices.p[d];
            int64_t times = taken(c, slice, device, STR("")) > 0;
            for (size_t u = 0; times && u < device->consumes_counters.n; u++) {
                const struct api_device_counter_consumption *use = &device->consumes_counters.p[u];
                for (size_t k = 0; str_eq(use->counter_set, set) && k < use->counters.n; k++)
                    if (str_eq(use->counters.p[k].key, counter))
                        sum += quantity_value(&use->counters.p[k].value.value);
            }
        }
    }
    return sum;
}

static void check_counters(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_SLICES].n; i++) {
        const struct api_resource_slice *slice = c->lists[LOADED_SLICES].p[i];
        for (size_t n = 0; n < slice->spec.shared_counters.n; n++) {
            const struct api_counter_set *set = &slice->spec.shared_counters.p[n];
            for (size_t k = 0; k < set->counters.n; k++) {
                int64_t sum = drawn(c, slice, set->name, set->counters.p[k].key);
                if (sum > quantity_value(&set->counters.p[k].value.value))
                    sim_break(c->s, "counter %.*s of pool %.*s is drawn %lld times",
                              STR_ARG(set->counters.p[k].key), STR_ARG(slice->spec.pool.name),
                              (long long)sum);
            }
        }
    }
}

// --- Claims and pods -----------------------------------------------------------------------------

static void check_reservations(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_CLAIMS].n; i++) {
        const struct api_resource_claim *claim = c->lists[LOADED_CLAIMS].p[i];
        size_t n = claim->status.reserved_for.n;
        if (n > 256 || (n && !claim->status.allocation))
            sim_break(c->s, "claim %.*s/%.*s has %zu users and %s",
                      STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name), n,
                      claim->status.allocation ? "devices" : "no devices");
        if (claim->status.allocation && !str_eqz(claim->metadata.namespace, "blue"))
            for (size_t k = 0; k < claim->status.allocation->devices.results.n; k++)
                if (!holds(&claim->status.allocation->devices.results.p[k]))
                    sim_break(c->s, "claim %.*s/%.*s has admin access in a namespace without it",
                              STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name));
        if (claim->status.allocation && !meta_has_finalizer(&claim->metadata, STR(CLAIM_FINALIZER)))
            sim_break(c->s, "claim %.*s/%.*s has devices and no finalizer",
                      STR_ARG(claim->metadata.namespace), STR_ARG(claim->metadata.name));
    }
}

// reaches: the allocation can be used on the node, as far as that is still known.
static bool reaches(const struct content *c, const struct api_resource_claim *claim,
                    struct str name)
{
    const struct api_node_selector *where = claim->status.allocation->node_selector;
    for (size_t i = 0; where && i < c->lists[LOADED_NODES].n; i++) {
        const struct api_node *node = c->lists[LOADED_NODES].p[i];
        struct err err;
        if (str_eq(node->metadata.name, name))
            return node_matches(node, STR(""), false, where, &err) == 1;
    }
    return true;
}

static void check_told_true(struct content *c, const struct api_pod *pod)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++)
        if (str_eqz(pod->status.conditions.p[i].type, "PodScheduled") &&
            !str_eqz(pod->status.conditions.p[i].status, "True"))
            sim_break(c->s, "pod %.*s/%.*s is on node %.*s, yet says that it is not: %.*s",
                      STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                      STR_ARG(pod->spec.node_name), STR_ARG(pod->status.conditions.p[i].message));
}

static void check_claim_of(struct content *c, const struct api_pod *pod, struct str name)
{
    const struct api_resource_claim *claim = content_claim(c, pod->metadata.namespace, name);
    const char *lacks = !claim                                  ? "is not there"
                        : !claim->status.allocation             ? "has no devices"
                        : !is_reserved(claim, pod)              ? "is not reserved for it"
                        : claim_readiness(claim) != CLAIM_READY ? "is not ready"
                        : !reaches(c, claim, pod->spec.node_name)
                            ? "has devices that the node does not reach"
                            : NULL;
    if (lacks)
        sim_break(c->s, "pod %.*s/%.*s is on node %.*s, yet its claim %.*s %s",
                  STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name),
                  STR_ARG(pod->spec.node_name), STR_ARG(name), lacks);
}

static void check_bound(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        if (!pod->spec.node_name.n || pod_is_done(pod))
            continue;
        check_told_true(c, pod);
        for (size_t e = 0; e < pod->spec.resource_claims.n; e++) {
            struct str name = {0};
            bool check;
            if (claim_name_of(pod, &pod->spec.resource_claims.p[e], &name, &check) == CLAIM_NAMED)
                check_claim_of(c, pod, name);
            else
                sim_break(c->s, "pod %.*s/%.*s is bound without the name of a claim",
                          STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name));
        }
        if (pod->status.extended_resource_claim_status)
            check_claim_of(c, pod, pod->status.extended_resource_claim_status->resource_claim_name);
    }
}

static bool made_for_same(const struct api_resource_claim *a, const struct api_resource_claim *b)
{
    const struct api_owner_reference *x = meta_controller(&a->metadata);
    const struct api_owner_reference *y = meta_controller(&b->metadata);
    struct str entry = meta_annotation(&a->metadata, STR(CLAIM_POD_ANNOTATION));
    return x && y && str_eq(x->uid, y->uid) && entry.n && !a->metadata.deletion_timestamp.set &&
           !b->metadata.deletion_timestamp.set &&
           str_eq(entry, meta_annotation(&b->metadata, STR(CLAIM_POD_ANNOTATION)));
}

// No pod can have a higher priority than this one.
static void check_preempted(struct content *c)
{
    for (size_t i = 0; i < c->lists[LOADED_PODS].n; i++) {
        const struct api_pod *pod = c->lists[LOADED_PODS].p[i];
        for (size_t k = 0; k < pod->status.conditions.n; k++)
            if (str_eqz(pod->status.conditions.p[k].reason, "PreemptionByScheduler") &&
                str_eqz(pod->spec.priority_class_name, SIM_HIGHEST))
                sim_break(c->s, "pod %.*s/%.*s of the highest priority is preempted",
                          STR_ARG(pod->metadata.namespace), STR_ARG(pod->metadata.name));
    }
}

static void check_generated(struct content *c)
{
    const struct objects *claims = &c->lists[LOADED_CLAIMS];
    for (size_t i = 0; i < claims->n; i++)
        for (size_t j = i + 1; j < claims->n; j++) {
            const struct api_resource_claim *a = claims->p[i];
            const struct api_resource_claim *b = claims->p[j];
            if (made_for_same(a, b))
                sim_break(c->s, "claims %.*s/%.*s and %.*s were made for one entry of a pod",
                          STR_ARG(a->metadata.namespace), STR_ARG(a->metadata.name),
                          STR_ARG(b->metadata.name));
        }
}

void content_check(struct content *c)
{
    check_exclusive(c);
    check_capacity(c);
    check_counters(c);
    check_reservations(c);
    check_bound(c);
    check_generated(c);
    check_preempted(c);
}

void sim_check(struct sim *s)
{
    struct content c;
    uint64_t now = store_revision(s->store) * 2 + s->calm;
    if (s->checked == now)
        return;
    s->checked = now;
    content_load(&c, s);
    c.all = s->calm && !s->two_schedulers; // who works alone and is well makes no mistakes
    content_check(&c);
    groups_note(&c);
    content_done(&c);
}

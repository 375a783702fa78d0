// SPDX-License-Identifier: Apache-2.0
//
// Usage of resources by objects, and the quotas that count it: scopes, counted resources, and
// whether a change fits the hard limits.
#include "api/quota.h"

#include <stdlib.h>

#include "api/amounts.h"
#include "api/match/claim.h"
#include "base/vec.h"

#include "base/banned.h"

// As upstream: a claim for all devices may get this many.
#define DEVICES_MAX 32

static const struct str per_class = STR_INIT(".deviceclass.resource.k8s.io/devices");
static const struct str implicit = STR_INIT("requests.deviceclass.resource.kubernetes.io/");
static const struct str requests = STR_INIT("requests.");
static const struct str hugepages = STR_INIT("hugepages-");
static const struct str per_storage_class = STR_INIT(".storageclass.storage.k8s.io/");

struct texts VEC(struct str);

static void quota_put_count(struct api_quantity_map *m, struct str key, int64_t n,
                            struct arena *arena)
{
    const struct quantity q = quantity_from_i64(n, QUANTITY_DECIMAL_SI);
    const struct api_quantity_map one = {&(struct api_quantity_entry){key, q}, 1};
    amounts_add(m, &one, arena);
}

static struct str count_name(const struct api_kind *kind, struct arena *arena)
{
    return kind->group.n
               ? arena_strf(arena, "count/%.*s.%.*s", STR_ARG(kind->plural), STR_ARG(kind->group))
               : arena_strf(arena, "count/%.*s", STR_ARG(kind->plural));
}

// requests.vendor/name, and the names that stand for a device class.
static bool quota_is_extended(struct str resource)
{
    return str_starts(resource, requests) &&
           (str_starts(resource, implicit) ||
            (str_find_char(resource, '/') >= 0 && str_find(resource, STR("kubernetes.io/")) < 0));
}

// --- Pods ----------------------------------------------------------------------------------------

static bool quota_pod_is_over(const struct api_pod *pod, const struct api_time *now)
{
    const struct api_object_meta *m = &pod->metadata;
    if (pod_is_terminal(pod))
        return true;
    // One that its node does not end must not keep others from being made.
    return m->deletion_timestamp.set && m->has_deletion_grace_period_seconds &&
           now->at.sec > m->deletion_timestamp.at.sec + m->deletion_grace_period_seconds;
}

static void add_as(struct amounts *all, const char *prefix, const struct api_quantity_entry *e,
                   struct arena *arena)
{
    struct str name = arena_strf(arena, "%s%.*s", prefix, STR_ARG(e->key));
    vec_push_arena(arena, all, ((struct api_quantity_entry){name, e->value}));
}

static void add_compute(struct api_quantity_map *all, const struct api_quantity_map *requested,
                        const struct api_quantity_map *limits, struct arena *arena)
{
    static const char *const compute[] = {"cpu", "memory", "ephemeral-storage"};
    struct amounts found = {0};
    for (size_t i = 0; i < requested->n; i++) {
        struct str name = requested->p[i].key;
        bool plain =
            str_is_one_of(name, compute, array_len(compute)) || str_starts(name, hugepages);
        if (plain)
            add_as(&found, "", &requested->p[i], arena);
        if (plain || str_starts(name, STR("deviceclass.resource.kubernetes.io/")) ||
            (str_find_char(name, '/') >= 0 && str_find(name, STR("kubernetes.io/")) < 0))
            add_as(&found, "requests.", &requested->p[i], arena);
    }
    for (size_t i = 0; i < limits->n; i++)
        if (str_is_one_of(limits->p[i].key, compute, array_len(compute)))
            add_as(&found, "limits.", &limits->p[i], arena);
    struct api_quantity_map sorted = amounts_sorted(&found);
    amounts_put(all, &sorted, arena);
}

static void pod_usage(const struct api_pod *pod, const struct quota_world *w,
                      struct api_quantity_map *all, struct arena *arena)
{
    if (quota_pod_is_over(pod, &w->now))
        return;
    struct api_quantity_map requested = pod_with_overhead(pod, false, arena);
    struct api_quantity_map limits = pod_with_overhead(pod, true, arena);
    quota_put_count(all, STR("pods"), 1, arena);
    add_compute(all, &requested, &limits, arena);
}

static bool counts_pods(struct str resource)
{
    static const char *const names[] = {"pods",
                                        "cpu",
                                        "memory",
                                        "ephemeral-storage",
                                        "requests.cpu",
                                        "requests.memory",
                                        "requests.ephemeral-storage",
                                        "limits.cpu",
                                        "limits.memory",
                                        "limits.ephemeral-storage"};
    return str_is_one_of(resource, names, array_len(names)) || str_starts(resource, hugepages) ||
           str_starts(resource, STR("requests.hugepages-")) || quota_is_extended(resource);
}

static void add_lacking(struct str resource, const struct api_container_array *list,
                        struct texts *out, struct arena *arena)
{
    for (size_t i = 0; i < list->n; i++) {
        struct api_quantity_map have = {0};
        add_compute(&have, &list->p[i].resources.requests, &list->p[i].resources.limits, arena);
        if (!amounts_get(&have, resource))
            vec_push_arena(arena, out, list->p[i].name);
    }
}

void quota_lacks(const struct api_pod *pod, const struct api_str_array *resources, struct sbuf *out)
{
    // In order of their names.
    static const char *const asked[] = {"cpu",    "limits.cpu",   "limits.memory",
                                        "memory", "requests.cpu", "requests.memory"};
    cleanup_arena struct arena arena = {0};
    if (pod->spec.resources)
        return;
    for (size_t i = 0; i < array_len(asked); i++) {
        struct texts names = {0};
        bool wanted = false;
        for (size_t k = 0; k < resources->n; k++)
            wanted |= str_eqz(resources->p[k], asked[i]);
        if (wanted) {
            add_lacking(str_z(asked[i]), &pod->spec.containers, &names, &arena);
            add_lacking(str_z(asked[i]), &pod->spec.init_containers, &names, &arena);
        }
        if (!names.n)
            continue;
        qsort(names.p, names.n, sizeof(names.p[0]), str_cmp_elements);
        sbuf_addf(out, "%s%s for: ", out->n ? "; " : "", asked[i]);
        for (size_t k = 0; k < names.n; k++)
            sbuf_addf(out, "%s%.*s", k ? "," : "", STR_ARG(names.p[k]));
    }
}

// --- Claims --------------------------------------------------------------------------------------

static int64_t quota_count_devices(struct str mode, int64_t count)
{
    if (str_eqz(mode, "ExactCount"))
        return count;
    return str_eqz(mode, "All") ? DEVICES_MAX : 0;
}

// Of alternatives the worst counts, by class.
static void add_alternatives(struct api_quantity_map *all,
                             const struct api_device_sub_request_array *list, struct arena *arena)
{
    struct api_quantity_map most = {0};
    for (size_t i = 0; i < list->n; i++) {
        struct api_quantity_map one = {0};
        quota_put_count(&one,
                        arena_strf(arena, "%.*s%.*s", STR_ARG(list->p[i].device_class_name),
                                   STR_ARG(per_class)),
                        quota_count_devices(list->p[i].allocation_mode, list->p[i].count), arena);
        amounts_most(&most, &one, arena);
    }
    amounts_add(all, &most, arena);
}

// What the pod of a claim for extended resources has been counted for already.
static struct api_quantity_map counted_with_pod(const struct api_resource_claim *claim,
                                                const struct quota_world *w, struct arena *arena)
{
    struct api_quantity_map none = {0};
    const struct api_owner_reference *owner = meta_controller(&claim->metadata);
    if (!claim_is_extended(&claim->metadata) || !owner || !str_eqz(owner->kind, "Pod") ||
        !str_eqz(owner->api_version, "v1"))
        return none;
    const struct api_pod *pod = w->pod_of(w->ctx, claim->metadata.namespace, owner->name, arena);
    if (!pod || !str_eq(pod->metadata.uid, owner->uid))
        return none;
    const struct api_pod_extended_resource_claim_status *s =
        pod->status.extended_resource_claim_status;
    if (s && !str_eq(s->resource_claim_name, claim->metadata.name))
        return none;
    struct api_quantity_map usage = {0};
    pod_usage(pod, w, &usage, arena);
    return usage;
}

static void add_remainder(struct api_quantity_map *all, struct str name, const struct quantity *q,
                          const struct api_quantity_map *counted, struct arena *arena)
{
    const struct quantity *have = amounts_get(counted, name);
    struct quantity rest = *q;
    if (have)
        quantity_sub(&rest, q, have, arena);
    if (quantity_sign(&rest) > 0)
        amounts_set(all, name, &rest, arena);
}

static void quota_add_extended(struct api_quantity_map *all, const struct api_resource_claim *claim,
                               const struct quota_world *w, struct arena *arena)
{
    const struct api_quantity_map by_class = *all;
    struct api_quantity_map counted = counted_with_pod(claim, w, arena);
    for (size_t i = 0; i < by_class.n; i++) {
        struct str name = by_class.p[i].key;
        if (!str_ends(name, per_class) || name.n == per_class.n)
            continue;
        struct str class_name = str_upto(name, name.n - per_class.n);
        add_remainder(all, arena_strf(arena, "%.*s%.*s", STR_ARG(implicit), STR_ARG(class_name)),
                      &by_class.p[i].value, &counted, arena);
        struct str extended = w->extended_of(w->ctx, class_name, arena);
        if (extended.n)
            add_remainder(all, arena_strf(arena, "requests.%.*s", STR_ARG(extended)),
                          &by_class.p[i].value, &counted, arena);
    }
}

static void claim_usage(const struct api_resource_claim *claim, const struct quota_world *w,
                        struct api_quantity_map *all, struct arena *arena)
{
    const struct api_device_request_array *list = &claim->spec.devices.requests;
    for (size_t i = 0; i < list->n; i++) {
        const struct api_exact_device_request *e = list->p[i].exactly;
        if (list->p[i].first_available.n)
            add_alternatives(all, &list->p[i].first_available, arena);
        else if (e)
            quota_put_count(all,
                            arena_strf(arena, "%.*s%.*s", STR_ARG(e->device_class_name),
                                       STR_ARG(per_class)),
                            quota_count_devices(e->allocation_mode, e->count), arena);
    }
    if (features_on(w->features, FEATURE_DRA_EXTENDED_RESOURCE))
        quota_add_extended(all, claim, w, arena);
}

static bool counts_claims(struct str resource, const struct quota_world *w)
{
    cleanup_arena struct arena arena = {0};
    if (str_ends(resource, per_class))
        return true;
    if (!features_on(w->features, FEATURE_DRA_EXTENDED_RESOURCE) || !quota_is_extended(resource))
        return false;
    if (str_starts(resource, implicit) &&
        w->extended_of(w->ctx, str_from(resource, implicit.n), &arena).n)
        return true;
    return w->has_class(w->ctx, str_from(resource, requests.n));
}

// --- Volumes and services ------------------------------------------------------------------------

static void volume_usage(const struct api_persistent_volume_claim *c, struct api_quantity_map *all,
                         struct arena *arena)
{
    struct str class_name = c->spec.storage_class_name;
    const struct quantity *size = amounts_get(&c->spec.resources.requests, STR("storage"));
    const struct quantity *given = amounts_get(&c->status.allocated_resources, STR("storage"));
    quota_put_count(all, STR("persistentvolumeclaims"), 1, arena);
    if (class_name.n)
        quota_put_count(all,
                        arena_strf(arena, "%.*s%.*spersistentvolumeclaims", STR_ARG(class_name),
                                   STR_ARG(per_storage_class)),
                        1, arena);
    if (size && given && quantity_cmp(size, given) < 0)
        size = given;
    if (!size)
        return;
    amounts_set(all, STR("requests.storage"), size, arena);
    if (class_name.n)
        amounts_set(all,
                    arena_strf(arena, "%.*s%.*srequests.storage", STR_ARG(class_name),
                               STR_ARG(per_storage_class)),
                    size, arena);
}

static void service_usage(const struct api_service *s, struct api_quantity_map *all,
                          struct arena *arena)
{
    bool balanced = str_eqz(s->spec.type, "LoadBalancer");
    int64_t ports = 0;
    if (str_eqz(s->spec.type, "NodePort"))
        ports = (int64_t)s->spec.ports.n;
    for (size_t i = 0; balanced && i < s->spec.ports.n; i++)
        ports += s->spec.ports.p[i].node_port != 0 ||
                 !s->spec.has_allocate_load_balancer_node_ports ||
                 s->spec.allocate_load_balancer_node_ports;
    quota_put_count(all, STR("services"), 1, arena);
    quota_put_count(all, STR("services.nodeports"), ports, arena);
    quota_put_count(all, STR("services.loadbalancers"), balanced, arena);
}

// --- All kinds -----------------------------------------------------------------------------------

// Kinds that were counted before everything could be.
static bool has_old_name(const struct api_kind *kind)
{
    static const char *const names[] = {"configmaps", "resourcequotas", "replicationcontrollers",
                                        "secrets"};
    return !kind->group.n && str_is_one_of(kind->plural, names, array_len(names));
}

struct api_quantity_map quota_usage(const struct api_object *o, const struct quota_world *w,
                                    struct arena *arena)
{
    const struct api_type *t = o->kind->type;
    struct api_quantity_map all = {0};
    quota_put_count(&all, count_name(o->kind, arena), 1, arena);
    if (has_old_name(o->kind))
        quota_put_count(&all, o->kind->plural, 1, arena);
    if (t == &api_pod_type)
        pod_usage(o->value, w, &all, arena);
    else if (t == &api_resource_claim_type)
        claim_usage(o->value, w, &all, arena);
    else if (t == &api_persistent_volume_claim_type)
        volume_usage(o->value, &all, arena);
    else if (t == &api_service_type)
        service_usage(o->value, &all, arena);
    return all;
}

bool quota_counts(struct str resource, const struct api_kind *kind, const struct quota_world *w)
{
    static const char *const services[] = {"services", "services.nodeports",
                                           "services.loadbalancers"};
    static const char *const volumes[] = {"persistentvolumeclaims", "requests.storage"};
    cleanup_arena struct arena arena = {0};
    if (str_starts(resource, STR("count/")))
        return str_eq(resource, count_name(kind, &arena));
    if (has_old_name(kind))
        return str_eq(resource, kind->plural);
    if (kind->type == &api_pod_type)
        return counts_pods(resource);
    if (kind->type == &api_resource_claim_type)
        return counts_claims(resource, w);
    if (kind->type == &api_service_type)
        return str_is_one_of(resource, services, array_len(services));
    return kind->type == &api_persistent_volume_claim_type &&
           (str_is_one_of(resource, volumes, array_len(volumes)) ||
            str_find(resource, per_storage_class) >= 0);
}

// --- Scopes --------------------------------------------------------------------------------------

static bool quota_crosses_namespaces(const struct api_pod_affinity_term *t)
{
    return t->namespaces.n || t->namespace_selector;
}

static bool any_crosses(const struct api_pod_affinity_term_array *hard,
                        const struct api_weighted_pod_affinity_term_array *soft)
{
    for (size_t i = 0; i < hard->n; i++)
        if (quota_crosses_namespaces(&hard->p[i]))
            return true;
    for (size_t i = 0; i < soft->n; i++)
        if (quota_crosses_namespaces(&soft->p[i].pod_affinity_term))
            return true;
    return false;
}

static bool crosses_namespaces(const struct api_affinity *a)
{
    return a &&
           ((a->pod_affinity &&
             any_crosses(&a->pod_affinity->required_during_scheduling_ignored_during_execution,
                         &a->pod_affinity->preferred_during_scheduling_ignored_during_execution)) ||
            (a->pod_anti_affinity &&
             any_crosses(
                 &a->pod_anti_affinity->required_during_scheduling_ignored_during_execution,
                 &a->pod_anti_affinity->preferred_during_scheduling_ignored_during_execution)));
}

static bool has_priority(const struct api_pod *pod,
                         const struct api_scoped_resource_selector_requirement *r)
{
    struct str name = pod->spec.priority_class_name;
    bool listed = false;
    for (size_t i = 0; i < r->values.n; i++)
        listed |= str_eq(r->values.p[i], name);
    if (str_eqz(r->operator, "In"))
        return name.n && listed;
    if (str_eqz(r->operator, "NotIn"))
        return !name.n || !listed;
    return str_eqz(r->operator, "Exists") == (name.n > 0);
}

static bool pod_in_scope(const struct api_pod *pod,
                         const struct api_scoped_resource_selector_requirement *r)
{
    bool ends = pod->spec.has_active_deadline_seconds && pod->spec.active_deadline_seconds >= 0;
    bool best_effort = str_eqz(pod->status.qos_class, "BestEffort");
    if (str_eqz(r->scope_name, "Terminating"))
        return ends;
    if (str_eqz(r->scope_name, "NotTerminating"))
        return !ends;
    if (str_eqz(r->scope_name, "BestEffort"))
        return best_effort;
    if (str_eqz(r->scope_name, "NotBestEffort"))
        return !best_effort;
    if (str_eqz(r->scope_name, "PriorityClass"))
        return has_priority(pod, r);
    return str_eqz(r->scope_name, "CrossNamespacePodAffinity") &&
           crosses_namespaces(pod->spec.affinity);
}

bool quota_in_scope(const struct api_resource_quota *q, const struct api_object *o)
{
    const struct api_scope_selector *s = q->spec.scope_selector;
    bool pod = o->kind->type == &api_pod_type;
    // Nothing but pods is in any scope.
    if (!pod)
        return q->spec.scopes.n == 0 && (!s || s->match_expressions.n == 0);
    for (size_t i = 0; i < q->spec.scopes.n; i++) {
        const struct api_scoped_resource_selector_requirement r = {
            .scope_name = q->spec.scopes.p[i], .operator= STR("Exists")};
        if (!pod_in_scope(o->value, &r))
            return false;
    }
    for (size_t i = 0; s && i < s->match_expressions.n; i++)
        if (!pod_in_scope(o->value, &s->match_expressions.p[i]))
            return false;
    return true;
}

// --- Admission -----------------------------------------------------------------------------------

struct quota_change quota_change_of(const struct api_object *object, const struct api_object *old,
                                    const struct quota_world *world, struct arena *arena)
{
    struct quota_change c = {
        .object = object, .old = old, .world = world, .usage = quota_usage(object, world, arena)};
    if (!old)
        return c;
    struct api_quantity_map before = quota_usage(old, world, arena);
    struct amounts grown = {0}; // in the order of usage, which is sorted
    for (size_t i = 0; i < c.usage.n; i++) {
        const struct quantity *had = amounts_get(&before, c.usage.p[i].key);
        struct quantity more = c.usage.p[i].value;
        if (had)
            quantity_sub(&more, &c.usage.p[i].value, had, arena);
        if (quantity_sign(&more) > 0)
            vec_push_arena(arena, &grown, ((struct api_quantity_entry){c.usage.p[i].key, more}));
    }
    c.more = (struct api_quantity_map){grown.p, grown.n};
    return c;
}

// quota_names is what the quota counts of the changed object.
static struct api_str_array quota_names(const struct quota_change *c,
                                        const struct api_quantity_map *hard, struct arena *arena)
{
    struct VEC(struct str) list = {0};
    for (size_t i = 0; i < hard->n; i++)
        if (quota_counts(hard->p[i].key, c->object->kind, c->world))
            vec_push_arena(arena, &list, hard->p[i].key);
    return (struct api_str_array){list.p, list.n};
}

static int quota_check_ready(const struct quota_change *c, const struct api_resource_quota *q,
                             const struct api_str_array *names, struct sbuf *why)
{
    cleanup_sbuf struct sbuf text = {0};
    if (c->object->kind->type == &api_pod_type)
        quota_lacks(c->object->value, names, &text);
    if (text.n) {
        sbuf_addf(why, "failed quota: %.*s: must specify %.*s", STR_ARG(q->metadata.name),
                  STR_ARG(sbuf_str(&text)));
        return -ERR_FORBIDDEN;
    }
    bool known = true;
    for (size_t i = 0; i < names->n; i++) {
        known &= amounts_get(&q->status.used, names->p[i]) != NULL;
        sbuf_addf(&text, "%s%.*s", i ? "," : "", STR_ARG(names->p[i]));
    }
    if (known)
        return 0;
    sbuf_addf(why, "status unknown for quota: %.*s, resources: %.*s", STR_ARG(q->metadata.name),
              STR_ARG(sbuf_str(&text)));
    return -ERR_FORBIDDEN;
}

static int quota_exceeded(const struct api_resource_quota *q, const struct api_quantity_map *wanted,
                          const struct api_quantity_map *exceeded, struct arena *arena,
                          struct sbuf *why)
{
    struct api_quantity_map used = {0}, hard = {0}, asked = {0};
    cleanup_sbuf struct sbuf a = {0}, b = {0}, d = {0};
    for (size_t i = 0; i < exceeded->n; i++) {
        struct str name = exceeded->p[i].key;
        const struct quantity *have = amounts_get(&q->status.used, name);
        amounts_set(&asked, name, amounts_get(wanted, name), arena);
        amounts_set(&hard, name, amounts_get(&q->status.hard, name), arena);
        if (have)
            amounts_set(&used, name, have, arena);
    }
    amounts_write(&asked, &a);
    amounts_write(&used, &b);
    amounts_write(&hard, &d);
    sbuf_addf(why, "exceeded quota: %.*s, requested: %.*s, used: %.*s, limited: %.*s",
              STR_ARG(q->metadata.name), STR_ARG(sbuf_str(&a)), STR_ARG(sbuf_str(&b)),
              STR_ARG(sbuf_str(&d)));
    return -ERR_FORBIDDEN;
}

int quota_admit(struct api_resource_quota *q, const struct quota_change *c, struct arena *arena,
                bool *ret_counted, struct sbuf *why)
{
    struct api_str_array names = quota_names(c, &q->status.hard, arena);
    *ret_counted = false;
    if (!names.n || !quota_in_scope(q, c->object))
        return 0;
    int r = quota_check_ready(c, q, &names, why);
    if (r < 0)
        return r;
    const struct api_quantity_map *more =
        c->old && quota_in_scope(q, c->old) ? &c->more : &c->usage;
    struct api_quantity_map wanted = {0}, exceeded = {0}, used = q->status.used;
    for (size_t i = 0; i < q->status.hard.n; i++) {
        struct str name = q->status.hard.p[i].key;
        const struct quantity *need = amounts_get(more, name), *have = amounts_get(&used, name);
        if (!need || quantity_sign(need) <= 0)
            continue;
        struct quantity sum = *need;
        if (have)
            quantity_add(&sum, have, need, arena);
        amounts_set(&wanted, name, need, arena);
        amounts_set(&used, name, &sum, arena);
        if (quantity_cmp(&sum, &q->status.hard.p[i].value) > 0)
            amounts_set(&exceeded, name, &sum, arena);
    }
    if (exceeded.n)
        return quota_exceeded(q, &wanted, &exceeded, arena, why);
    q->status.used = used;
    *ret_counted = wanted.n > 0;
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
//
// A pod's status: its claims and the health of its devices.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define HEALTH_MESSAGE_BYTES_MAX 1024

// --- resourceClaimStatuses -----------------------------------------------------------------------

static void check_claim_statuses(struct validator *v, const struct path *list,
                                 const struct api_pod *pod)
{
    const struct api_pod_resource_claim_status_array *statuses =
        &pod->status.resource_claim_statuses;
    cleanup_seen struct seen names = {0}, claims = {0};
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++)
        (void)seen_add(&claims, pod->spec.resource_claims.p[i].name);
    for (size_t i = 0; i < statuses->n; i++) {
        const struct api_pod_resource_claim_status *s = &statuses->p[i];
        const struct path *at = AT_ITEM(list, i);
        if (!map_has(&claims, s->name))
            cause_invalid(v->causes, AT(at, "name"), s->name,
                          STR("must match the name of an entry in `spec.resourceClaims`"));
        if (seen_add(&names, s->name))
            cause_duplicate(v->causes, AT(at, "name"), s->name);
        if (s->has_resource_claim_name)
            validate_named(v, AT(at, "resourceClaimName"), s->resource_claim_name,
                           name_dns_subdomain);
    }
}

// --- extendedResourceClaimStatus -----------------------------------------------------------------

static const struct api_container *find_container(const struct api_container_array *list,
                                                  struct str name)
{
    // Of containers with the same name the last counts, as in a map.
    for (size_t i = list->n; i > 0; i--)
        if (str_eq(list->p[i - 1].name, name))
            return &list->p[i - 1];
    return NULL;
}

static const struct quantity *pod_status_find_request(const struct api_container *c,
                                                      struct str resource)
{
    for (size_t i = 0; i < c->resources.requests.n; i++)
        if (str_eq(c->resources.requests.p[i].key, resource))
            return &c->resources.requests.p[i].value;
    return NULL;
}

static void check_request_mapping(struct validator *v, const struct path *at,
                                  const struct api_container_extended_resource_request *m,
                                  const struct api_pod_spec *spec)
{
    const struct api_container *c = find_container(&spec->containers, m->container_name);
    if (!c)
        c = find_container(&spec->init_containers, m->container_name);
    if (!c)
        cause_invalid(v->causes, AT(at, "containerName"), m->container_name,
                      STR("must match the name of an entry in spec.initContainers.name or "
                          "spec.containers.name"));
    else if (!pod_status_find_request(c, m->resource_name))
        cause_invalid(v->causes, AT(at, "resourceName"), m->resource_name,
                      STR("must match the extended resource name of an entry in "
                          "spec.initContainers.resources.requests or "
                          "spec.containers.resources.requests"));
}

static void check_repeated_mapping(struct validator *v, const struct path *at,
                                   const struct api_container_extended_resource_request *m,
                                   struct seen *keys)
{
    if (!seen_add(keys,
                  validate_show_json(&api_container_extended_resource_request_type, m, scratch(v))))
        return;
    cause_duplicate(v->causes, AT(at, "containerName"), m->container_name);
    cause_duplicate(v->causes, AT(at, "resourceName"), m->resource_name);
    cause_duplicate(v->causes, AT(at, "requestName"), m->request_name);
}

static void check_extended_status(struct validator *v, const struct path *at,
                                  const struct api_pod *pod)
{
    const struct api_pod_extended_resource_claim_status *s =
        pod->status.extended_resource_claim_status;
    const struct path *mappings = AT(at, "requestMappings");
    cleanup_seen struct seen keys = {0};
    if (s->request_mappings.n == 0)
        cause_required(v->causes, mappings, STR("at least one request mapping is required"));
    for (size_t i = 0; i < s->request_mappings.n; i++) {
        check_request_mapping(v, AT_ITEM(mappings, i), &s->request_mappings.p[i], &pod->spec);
        // Upstream's path for this one lacks the mapping.
        validate_named(v, AT(at, "requestName"), s->request_mappings.p[i].request_name,
                       name_dns_label);
        check_repeated_mapping(v, AT_ITEM(mappings, i), &s->request_mappings.p[i], &keys);
    }
    if (s->resource_claim_name.n == 0)
        cause_required(v->causes, AT(at, "resourceClaimName"), STR(""));
    else
        validate_named(v, AT(at, "resourceClaimName"), s->resource_claim_name, name_dns_subdomain);
}

// --- nodeAllocatableResourceClaimStatuses --------------------------------------------------------

static void check_status_resource(struct validator *v, const struct path *item, struct str name)
{
    if (!str_eqz(name, "cpu") && !str_eqz(name, "memory") && !str_starts(name, STR("hugepages-")))
        cause_invalid(v->causes, AT(item, "name"), name,
                      STR("must be a node allocatable resource name"));
}

static void check_status_amount(struct validator *v, const struct path *item, struct str field,
                                const struct quantity *q)
{
    if (q && quantity_sign(q) < 0)
        cause_invalid(v->causes, AT_NAME(item, field), validate_quantity_text(q, scratch(v)),
                      STR("must be non-negative"));
}

static bool knows_claim(const struct api_pod *pod, struct str name)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *c = &pod->spec.resource_claims.p[i];
        if (c->has_resource_claim_name && str_eq(c->resource_claim_name, name))
            return true;
    }
    for (size_t i = 0; i < pod->status.resource_claim_statuses.n; i++) {
        const struct api_pod_resource_claim_status *s = &pod->status.resource_claim_statuses.p[i];
        if (s->has_resource_claim_name && str_eq(s->resource_claim_name, name))
            return true;
    }
    return false;
}

static void check_allocatable_status(struct validator *v, const struct path *at,
                                     const struct api_node_allocatable_resource_claim_status *s,
                                     const struct api_pod *pod)
{
    if (s->resource_claim_name.n == 0)
        return;
    if (!knows_claim(pod, s->resource_claim_name))
        cause_invalid(v->causes, AT(at, "resourceClaimName"), s->resource_claim_name,
                      STR("no mapping found in pod reference"));
    for (size_t i = 0; i < s->mapping.n; i++) {
        check_status_resource(v, AT_ITEM(AT(at, "mapping"), i), s->mapping.p[i].name);
        check_status_amount(v, AT_ITEM(AT(at, "mapping"), i), STR("quantity"),
                            s->mapping.p[i].quantity);
    }
    for (size_t i = 0; i < s->overhead.n; i++) {
        const struct path *item = AT_ITEM(AT(at, "overhead"), i);
        check_status_resource(v, item, s->overhead.p[i].name);
        if (!s->overhead.p[i].per_pod && !s->overhead.p[i].per_container)
            cause_invalid(v->causes, item, STR(""),
                          STR("at least one of perPod or perContainer must be set"));
        check_status_amount(v, item, STR("perPod"), s->overhead.p[i].per_pod);
        check_status_amount(v, item, STR("perContainer"), s->overhead.p[i].per_container);
    }
}

// --- containerStatuses[].allocatedResourcesStatus ------------------------------------------------

static bool claims_resource(const struct api_container *c, struct str name, struct arena *arena)
{
    for (size_t i = 0; i < c->resources.claims.n; i++) {
        const struct api_container_resource_claim *claim = &c->resources.claims.p[i];
        struct str own = claim->request.n
                             ? arena_strf(arena, "claim:%.*s/%.*s", STR_ARG(claim->name),
                                          STR_ARG(claim->request))
                             : arena_strf(arena, "claim:%.*s", STR_ARG(claim->name));
        if (str_eq(own, name))
            return true;
    }
    return false;
}

// claim:<name>/<request> of the claim that was made for extended resources.
static bool is_extended_claim(const struct api_container *c, struct str name,
                              const struct api_pod_extended_resource_claim_status *s)
{
    struct str claim, request;
    if (!s || !str_cut(str_from(name, sizeof("claim:") - 1), '/', &claim, &request) ||
        request.n == 0 || claim.n == 0 || !str_eq(claim, s->resource_claim_name))
        return false;
    for (size_t i = 0; i < s->request_mappings.n; i++) {
        const struct api_container_extended_resource_request *m = &s->request_mappings.p[i];
        if (!str_eq(m->container_name, c->name) || !str_eq(m->request_name, request))
            continue;
        const struct quantity *q = pod_status_find_request(c, m->resource_name);
        if (q && quantity_sign(q) != 0)
            return true;
    }
    return false;
}

static void check_resource_status_name(struct validator *v, const struct path *at, struct str name,
                                       const struct api_container *c, const struct api_pod *pod)
{
    if (!str_starts(name, STR("claim:"))) {
        if (!pod_status_find_request(c, name))
            cause_invalid(v->causes, at, name,
                          STR("must match one of the container's resource requests"));
    } else if (!claims_resource(c, name, scratch(v)) &&
               !is_extended_claim(c, name, pod->status.extended_resource_claim_status)) {
        cause_invalid(v->causes, at, name,
                      STR("must match one of the container's resource claims as "
                          "'claim:<claimName>/<requestName>' when "
                          "container.resources.claims[*].request is set or 'claim:<claimName>' "
                          "when it is empty"));
    }
}

static void check_health(struct validator *v, const struct path *list,
                         const struct api_resource_health_array *resources)
{
    static const struct str values[] = {STR_INIT("Healthy"), STR_INIT("Unhealthy"),
                                        STR_INIT("Unknown")};
    cleanup_seen struct seen ids = {0};
    for (size_t i = 0; i < resources->n; i++) {
        const struct api_resource_health *r = &resources->p[i];
        const struct path *at = AT_ITEM(list, i);
        bool known = false;
        for (size_t j = 0; j < array_len(values); j++)
            known = known || str_eq(r->health, values[j]);
        if (!known)
            cause_not_supported(v->causes, AT(at, "health"), r->health, values, array_len(values));
        if (r->has_message && r->message.n == 0)
            cause_required(v->causes, AT(at, "message"), STR("must be non-empty if specified"));
        if (r->message.n > HEALTH_MESSAGE_BYTES_MAX)
            cause_too_long(v->causes, AT(at, "message"), HEALTH_MESSAGE_BYTES_MAX);
        if (seen_add(&ids, r->resource_id))
            cause_duplicate(v->causes, AT(at, "resourceID"), r->resource_id);
    }
}

static const struct api_container *first_container(const struct api_container_array *list,
                                                   struct str name)
{
    for (size_t i = 0; i < list->n; i++)
        if (str_eq(list->p[i].name, name))
            return &list->p[i];
    return NULL;
}

static void check_container_statuses(struct validator *v, const struct path *list,
                                     const struct api_container_status_array *statuses,
                                     const struct api_container_array *containers,
                                     const struct api_pod *pod)
{
    for (size_t i = 0; i < statuses->n; i++) {
        const struct api_container *c = first_container(containers, statuses->p[i].name);
        for (size_t j = 0; j < statuses->p[i].allocated_resources_status.n; j++) {
            const struct api_resource_status *r = &statuses->p[i].allocated_resources_status.p[j];
            // A status of a container that is gone is let be.
            if (c)
                check_resource_status_name(
                    v, AT(AT_ITEM(AT(AT_ITEM(list, i), "allocatedResourcesStatus"), j), "name"),
                    r->name, c, pod);
            check_health(
                v, AT(AT_ITEM(AT(AT_ITEM(list, i), "allocatedResourcesStatus"), j), "resources"),
                &r->resources);
        }
    }
}

static void check_ephemeral_statuses(struct validator *v, const struct path *list,
                                     const struct api_container_status_array *statuses)
{
    for (size_t i = 0; i < statuses->n; i++) {
        if (statuses->p[i].allocated_resources_status.n)
            cause_forbidden(v->causes, AT(AT_ITEM(list, i), "allocatedResourcesStatus"),
                            STR("must not be specified in container status"));
    }
}

void validate_pod_status(struct validator *v, const struct api_pod *pod)
{
    const struct path *at = AT(NULL, "status");
    const struct api_pod_status *s = &pod->status;
    check_claim_statuses(v, AT(at, "resourceClaimStatuses"), pod);
    if (s->extended_resource_claim_status)
        check_extended_status(v, AT(at, "extendedResourceClaimStatus"), pod);
    for (size_t i = 0; i < s->node_allocatable_resource_claim_statuses.n; i++)
        check_allocatable_status(v, AT_ITEM(AT(at, "nodeAllocatableResourceClaimStatuses"), i),
                                 &s->node_allocatable_resource_claim_statuses.p[i], pod);
    check_container_statuses(v, AT(at, "containerStatuses"), &s->container_statuses,
                             &pod->spec.containers, pod);
    check_container_statuses(v, AT(at, "initContainerStatuses"), &s->init_container_statuses,
                             &pod->spec.init_containers, pod);
    check_ephemeral_statuses(v, AT(at, "ephemeralContainerStatuses"),
                             &s->ephemeral_container_statuses);
}

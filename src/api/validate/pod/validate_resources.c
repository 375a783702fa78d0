// SPDX-License-Identifier: Apache-2.0
//
// Names and amounts of resources: what containers, pods, quotas and limit ranges may ask for.
#include "api/validate/validate_core.h"

#include "base/banned.h"

static const struct str standard[] = {
    STR_INIT("cpu"),          STR_INIT("memory"),           STR_INIT("ephemeral-storage"),
    STR_INIT("requests.cpu"), STR_INIT("requests.memory"),  STR_INIT("requests.ephemeral-storage"),
    STR_INIT("limits.cpu"),   STR_INIT("limits.memory"),    STR_INIT("limits.ephemeral-storage"),
    STR_INIT("storage"),      STR_INIT("requests.storage"),
};

// What is counted in whole objects.
static const struct str counted[] = {
    STR_INIT("pods"),
    STR_INIT("resourcequotas"),
    STR_INIT("services"),
    STR_INIT("replicationcontrollers"),
    STR_INIT("secrets"),
    STR_INIT("configmaps"),
    STR_INIT("persistentvolumeclaims"),
    STR_INIT("services.nodeports"),
    STR_INIT("services.loadbalancers"),
};

bool resources_is_huge_page(struct str resource)
{
    return str_starts(resource, STR("hugepages-"));
}

static bool resources_is_native(struct str resource)
{
    return str_find_char(resource, '/') < 0 || str_contains(resource, STR("kubernetes.io/"));
}

static bool resources_is_extended(struct str resource)
{
    if (resources_is_native(resource) || str_starts(resource, STR("requests.")))
        return false;
    // It must also do as a name in a quota, which puts "requests." before it.
    struct str domain, name;
    str_cut(resource, '/', &domain, &name);
    if (domain.n + sizeof("requests.") - 1 > 253)
        return false;
    return name_is_label_key(resource);
}

bool resources_can_overcommit(struct str resource)
{
    return resources_is_native(resource) && !resources_is_huge_page(resource);
}

void validate_resource_name(struct validator *v, const struct path *at, struct str name)
{
    size_t before = v->causes->n;
    validate_format(v, at, name, name_label_key, NULL);
    bool known = validate_is_choice(CHOICES(standard), name) ||
                 validate_is_choice(CHOICES(counted), name) || resources_is_huge_page(name) ||
                 str_starts(name, STR("requests.hugepages-"));
    if (v->causes->n == before && str_find_char(name, '/') < 0 && !known)
        cause_invalid(v->causes, at, name,
                      STR("must be a standard resource type or fully qualified"));
}

bool resources_is_quota(struct str name)
{
    return resources_is_huge_page(name) || str_starts(name, STR("requests.hugepages-")) ||
           (!str_eqz(name, "storage") && (validate_is_choice(CHOICES(standard), name) ||
                                          validate_is_choice(CHOICES(counted), name)));
}

void validate_container_resource_name(struct validator *v, const struct path *at, struct str name)
{
    static const struct str own[] = {STR_INIT("cpu"), STR_INIT("memory"),
                                     STR_INIT("ephemeral-storage")};
    validate_resource_name(v, at, name);
    if (str_find_char(name, '/') < 0) {
        if (!validate_is_choice(CHOICES(own), name) && !resources_is_huge_page(name))
            cause_invalid(v->causes, at, name, STR("must be a standard resource for containers"));
    } else if (!resources_is_native(name) && !resources_is_extended(name)) {
        cause_invalid(v->causes, at, name, STR("doesn't follow extended resource name standard"));
    }
}

static bool resources_is_pod_level(struct str name)
{
    return str_eqz(name, "cpu") || str_eqz(name, "memory") || resources_is_huge_page(name);
}

static void check_pod_resource_name(struct validator *v, const struct path *at, struct str name)
{
    static const struct str supported[] = {STR_INIT("cpu"), STR_INIT("hugepages-"),
                                           STR_INIT("memory")};
    size_t before = v->causes->n;
    validate_resource_name(v, at, name);
    if (v->causes->n == before && !resources_is_pod_level(name))
        cause_not_supported(v->causes, at, name, supported, array_len(supported));
}

void validate_amount(struct validator *v, const struct path *at, struct str resource,
                     const struct quantity *amount)
{
    struct str text = validate_quantity_text(amount, scratch(v));
    if (quantity_sign(amount) < 0)
        cause_invalid(v->causes, at, text, STR("must be greater than or equal to 0"));
    bool whole = validate_is_choice(CHOICES(counted), resource) || resources_is_extended(resource);
    if (whole && quantity_milli(amount) % 1000 != 0)
        cause_invalid(v->causes, at, text, STR("must be an integer"));
}

static void check_huge_page(struct validator *v, const struct path *at, struct str name,
                            const struct quantity *amount)
{
    struct quantity page;
    struct str size = str_from(name, sizeof("hugepages-") - 1);
    bool good = quantity_parse(size, scratch(v), &page, NULL) == 0 && quantity_sign(&page) > 0 &&
                quantity_milli(&page) % 1000 == 0 &&
                quantity_value(amount) % quantity_value(&page) == 0;
    struct str text = validate_quantity_text(amount, scratch(v));
    if (!good)
        cause_invalid(v->causes, at, text,
                      arena_strf(scratch(v), "%.*s is not positive integer multiple of %.*s",
                                 STR_ARG(text), STR_ARG(name)));
}

struct requirements_seen {
    bool huge, compute;
};

static void check_one_amount(struct validator *v, const struct path *at,
                             const struct api_quantity_entry *e, bool of_pod,
                             struct requirements_seen *seen)
{
    if (of_pod)
        check_pod_resource_name(v, at, e->key);
    else
        validate_container_resource_name(v, at, e->key);
    validate_amount(v, at, e->key, &e->value);
    seen->compute = seen->compute || str_eqz(e->key, "cpu") || str_eqz(e->key, "memory");
    seen->huge = seen->huge || resources_is_huge_page(e->key);
}

static void check_against_limit(struct validator *v, const struct path *at,
                                const struct api_quantity_entry *e,
                                const struct api_quantity_map *limits)
{
    const struct quantity *limit = amounts_get(limits, e->key);
    const struct path *requests = AT(at, "requests");
    if (!limit) {
        if (!resources_can_overcommit(e->key))
            cause_required(v->causes, AT(at, "limits"),
                           STR("Limit must be set for non overcommitable resources"));
        return;
    }
    int order = quantity_cmp(&e->value, limit);
    bool equal = order != 0 && !resources_can_overcommit(e->key);
    struct str text = validate_quantity_text(&e->value, scratch(v));
    if (equal || order > 0)
        cause_invalid(v->causes, requests, text,
                      arena_strf(scratch(v), "must be %s %.*s limit of %.*s",
                                 equal ? "equal to" : "less than or equal to", STR_ARG(e->key),
                                 STR_ARG(validate_quantity_text(limit, scratch(v)))));
}

void validate_requirements(struct validator *v, const struct path *at,
                           const struct api_quantity_map *limits,
                           const struct api_quantity_map *requests, bool of_pod)
{
    struct requirements_seen seen = {0};
    for (size_t i = 0; i < limits->n; i++) {
        const struct path *here = AT_KEY(AT(at, "limits"), limits->p[i].key);
        check_one_amount(v, here, &limits->p[i], of_pod, &seen);
        if (resources_is_huge_page(limits->p[i].key))
            check_huge_page(v, here, limits->p[i].key, &limits->p[i].value);
    }
    for (size_t i = 0; i < requests->n; i++) {
        const struct path *here = AT_KEY(AT(at, "requests"), requests->p[i].key);
        check_one_amount(v, here, &requests->p[i], of_pod, &seen);
        check_against_limit(v, at, &requests->p[i], limits);
        if (resources_is_huge_page(requests->p[i].key))
            check_huge_page(v, here, requests->p[i].key, &requests->p[i].value);
    }
    if (seen.huge && !seen.compute)
        cause_forbidden(v->causes, at, STR("HugePages require cpu or memory"));
}

// --- A pod's own resources -----------------------------------------------------------------------

static void check_covers(struct validator *v, const struct path *at,
                         const struct api_quantity_map *containers,
                         const struct api_quantity_entry *e, bool limits)
{
    const struct quantity *found = amounts_get(containers, e->key);
    struct quantity sum = found ? *found : (struct quantity){0};
    sum.original = (struct str){0}; // a sum has no original text
    if (found && quantity_cmp(&sum, &e->value) > 0)
        cause_invalid(v->causes, at, validate_quantity_text(&e->value, scratch(v)),
                      arena_strf(scratch(v),
                                 "must be greater than or equal to aggregate container %s of %.*s",
                                 limits ? "limits" : "requests",
                                 STR_ARG(validate_quantity_text(&sum, scratch(v)))));
}

void validate_pod_resources(struct validator *v, const struct path *at,
                            const struct api_pod_spec *spec)
{
    const struct api_resource_requirements *r = spec->resources;
    const struct api_quantity_map requests = container_amounts(spec, false, scratch(v)),
                                  limits = container_amounts(spec, true, scratch(v));
    for (size_t i = 0; i < r->requests.n; i++)
        check_covers(v, AT_KEY(AT(at, "requests"), r->requests.p[i].key), &requests,
                     &r->requests.p[i], false);
    for (size_t i = 0; i < r->limits.n; i++)
        if (resources_is_huge_page(r->limits.p[i].key))
            check_covers(v, AT_KEY(AT(at, "limits"), r->limits.p[i].key), &limits, &r->limits.p[i],
                         true);
    for (size_t i = 0; i < spec->containers.n; i++) {
        const struct api_quantity_map *own = &spec->containers.p[i].resources.limits;
        for (size_t j = 0; j < own->n; j++) {
            const struct quantity *most = amounts_get(&r->limits, own->p[j].key);
            const struct path *item = AT_ITEM(AT(at, "containers"), i);
            if (most && quantity_cmp(&own->p[j].value, most) > 0)
                cause_invalid(v->causes, AT(AT_KEY(item, own->p[j].key), "limits"),
                              validate_quantity_text(&own->p[j].value, scratch(v)),
                              arena_strf(scratch(v),
                                         "must be less than or equal to pod limits of %.*s",
                                         STR_ARG(validate_quantity_text(most, scratch(v)))));
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//
// Who may ask for admin access to devices, and who may change which part of a claim's status.
#include "api/validate/validate_int.h"
#include "base/vec.h"

#include "base/banned.h"

static const char admin_rule[] =
    "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the "
    "containing namespace";

void validate_admin_access(struct validator *v, const struct api_device_request_array *requests)
{
    if (v->rules->admin_namespace)
        return;
    for (size_t i = 0; i < requests->n; i++) {
        const struct api_exact_device_request *r = requests->p[i].exactly;
        if (!r || !r->has_admin_access || !r->admin_access)
            continue;
        // The path is upstream's: without `exactly`, and the same for templates.
        cause_forbidden(v->causes,
                        AT(AT_ITEM(AT(AT(AT(NULL, "spec"), "devices"), "requests"), i),
                           "adminAccess"),
                        str_z(admin_rule));
        return;
    }
}

// The index of the first result with admin access, or -1.
static ptrdiff_t admin_result(const struct api_resource_claim_status *status)
{
    if (!status->allocation)
        return -1;
    const struct api_device_request_allocation_result_array *results =
        &status->allocation->devices.results;
    for (size_t i = 0; i < results->n; i++)
        if (results->p[i].has_admin_access && results->p[i].admin_access)
            return (ptrdiff_t)i;
    return -1;
}

void validate_admin_access_status(struct validator *v,
                                  const struct api_resource_claim_status *status,
                                  const struct api_resource_claim_status *old)
{
    ptrdiff_t i = admin_result(status);
    if (v->rules->admin_namespace || admin_result(old) >= 0 || i < 0)
        return;
    cause_forbidden(
        v->causes,
        AT(AT_ITEM(AT(AT(AT(AT(NULL, "status"), "allocation"), "devices"), "results"), (size_t)i),
           "adminAccess"),
        str_z(admin_rule));
}

// --- Parts of the status -------------------------------------------------------------------------

// Asks the authorizer; *ret_why gets the words of a refusal.
static bool validate_access_authorize(struct validator *v, const struct api_authz_question *q,
                                      struct str *ret_why)
{
    struct str reason = STR("");
    const struct api_authorizer *a = v->rules->authorizer;
    if (a->allows(a->ctx, q, scratch(v), &reason))
        return true;
    cleanup_sbuf struct sbuf b = {0};
    sbuf_addz(&b, "resourceclaims.resource.k8s.io ");
    if (q->name.n) {
        sbuf_add_quoted(&b, q->name);
        sbuf_addc(&b, ' ');
    }
    sbuf_addz(&b, "is forbidden: User ");
    sbuf_add_quoted(&b, v->rules->requester.user);
    sbuf_addf(&b, " cannot %.*s resource \"resourceclaims/%.*s\" in API group \"resource.k8s.io\" ",
              STR_ARG(q->verb), STR_ARG(q->subresource));
    if (q->namespace.n)
        sbuf_addf(&b, "in the namespace \"%.*s\"", STR_ARG(q->namespace));
    else
        sbuf_addz(&b, "at the cluster scope");
    if (reason.n)
        sbuf_addf(&b, ": %.*s", STR_ARG(reason));
    *ret_why = arena_str(scratch(v), sbuf_str(&b));
    return false;
}

static const struct api_field *status_field(struct str name)
{
    return api_type_field(&api_resource_claim_status_type, name);
}

static void check_binding_access(struct validator *v, const struct api_resource_claim *claim,
                                 const struct api_resource_claim *old)
{
    if (api_field_equal(status_field(STR("allocation")), &claim->status, &old->status) &&
        api_field_equal(status_field(STR("reservedFor")), &claim->status, &old->status))
        return;
    struct api_authz_question q = {.verb = v->rules->requester.verb, .subresource = STR("binding")};
    struct str why;
    if (!validate_access_authorize(v, &q, &why))
        cause_forbidden(v->causes, AT(AT(NULL, "status"), "allocation"),
                        arena_strf(scratch(v),
                                   "changing status.allocation or status.reservedFor requires "
                                   "resource=\"resourceclaims/binding\", verb=\"%.*s\" "
                                   "permission: %.*s",
                                   STR_ARG(q.verb), STR_ARG(why)));
}

// The one node an allocation is bound to, empty when there is none.
static struct str allocated_node(const struct api_allocation_result *allocation)
{
    const struct api_node_selector *s = allocation->node_selector;
    if (!s || s->node_selector_terms.n != 1)
        return STR("");
    const struct api_node_selector_term *term = &s->node_selector_terms.p[0];
    if (term->match_expressions.n != 0 || term->match_fields.n != 1)
        return STR("");
    const struct api_node_selector_requirement *r = &term->match_fields.p[0];
    if (!str_eqz(r->key, "metadata.name") || !str_eqz(r->operator, "In") || r->values.n != 1)
        return STR("");
    return r->values.p[0];
}

// A service account that runs on the node of the allocation.
static bool on_allocated_node(const struct api_requester *r, struct str node)
{
    struct str rest, ns, name;
    if (node.n == 0 || !str_starts(r->user, STR("system:serviceaccount:")))
        return false;
    rest = str_from(r->user, sizeof("system:serviceaccount:") - 1);
    if (!str_cut(rest, ':', &ns, &name) || !name_is_dns_label(ns) || !name_is_dns_subdomain(name))
        return false;
    return name_is_dns_subdomain(r->node) && str_eq(r->node, node);
}

static const struct api_allocated_device_status *validate_access_find_device(
    const struct api_resource_claim_status *status, const struct api_allocated_device_status *d)
{
    const struct api_allocated_device_status *found = NULL;
    struct str share = d->has_share_id ? d->share_id : STR("");
    for (size_t i = 0; i < status->devices.n; i++) {
        const struct api_allocated_device_status *o = &status->devices.p[i];
        if (str_eq(o->driver, d->driver) && str_eq(o->pool, d->pool) &&
            str_eq(o->device, d->device) && str_eq(o->has_share_id ? o->share_id : STR(""), share))
            found = o;
    }
    return found;
}

struct drivers {
    struct str *p;
    size_t n, cap;
};

// Inserts in order, once.
static void validate_access_add_driver(struct drivers *d, struct str name, struct arena *arena)
{
    size_t i = 0;
    while (i < d->n && str_cmp(d->p[i], name) < 0)
        i++;
    if (i < d->n && str_eq(d->p[i], name))
        return;
    vec_push_arena(arena, d, name);
    for (size_t j = d->n - 1; j > i; j--)
        d->p[j] = d->p[j - 1];
    d->p[i] = name;
}

static struct drivers changed_drivers(const struct api_resource_claim_status *now,
                                      const struct api_resource_claim_status *old,
                                      struct arena *arena)
{
    struct drivers drivers = {0};
    for (size_t i = 0; i < now->devices.n; i++) {
        const struct api_allocated_device_status *before =
            validate_access_find_device(old, &now->devices.p[i]);
        if (!before || !api_equal(&api_allocated_device_status_type, before, &now->devices.p[i]))
            validate_access_add_driver(&drivers, now->devices.p[i].driver, arena);
    }
    for (size_t i = 0; i < old->devices.n; i++)
        if (!validate_access_find_device(now, &old->devices.p[i]))
            validate_access_add_driver(&drivers, old->devices.p[i].driver, arena);
    return drivers;
}

static void check_device_access(struct validator *v, const struct api_resource_claim *claim,
                                const struct api_resource_claim *old)
{
    struct drivers drivers = changed_drivers(&claim->status, &old->status, scratch(v));
    struct str verb = v->rules->requester.verb;
    struct str arbitrary = arena_strf(scratch(v), "arbitrary-node:%.*s", STR_ARG(verb));
    struct str associated = arena_strf(scratch(v), "associated-node:%.*s", STR_ARG(verb));
    bool near = on_allocated_node(&v->rules->requester, allocated_node(claim->status.allocation));
    struct str shown =
        near ? arena_strf(scratch(v), "[%.*s %.*s]", STR_ARG(associated), STR_ARG(arbitrary))
             : arena_strf(scratch(v), "[%.*s]", STR_ARG(arbitrary));
    for (size_t i = 0; i < drivers.n; i++) {
        struct api_authz_question q = {.verb = near ? associated : arbitrary,
                                       .subresource = STR("driver"),
                                       .namespace = claim->metadata.namespace,
                                       .name = drivers.p[i]};
        struct str why, second;
        bool allowed = validate_access_authorize(v, &q, &why);
        if (!allowed && near) {
            q.verb = arbitrary;
            allowed = validate_access_authorize(v, &q, &second);
        }
        if (!allowed)
            cause_forbidden(v->causes, AT(AT(NULL, "status"), "devices"),
                            arena_strf(scratch(v),
                                       "changing status.devices requires "
                                       "resource=\"resourceclaims/driver\", verb=\"%.*s\" "
                                       "permission: %.*s",
                                       STR_ARG(shown), STR_ARG(why)));
    }
}

void validate_status_access(struct validator *v, const struct api_resource_claim *claim,
                            const struct api_resource_claim *old)
{
    if (!v->rules->authorizer || !gate(v, FEATURE_DRA_RESOURCE_CLAIM_GRANULAR_STATUS_AUTHORIZATION))
        return;
    check_binding_access(v, claim, old);
    // Without an allocation the device status is dropped anyway.
    if (gate(v, FEATURE_DRA_RESOURCE_CLAIM_DEVICE_STATUS) && claim->status.allocation)
        check_device_access(v, claim, old);
}

// SPDX-License-Identifier: Apache-2.0
//
// Views of the claims: CDI devices of a container, PodResources, and the health in its status.
#include "node/dra/dra_int.h"

#include "base/banned.h"

static const struct api_pod_extended_resource_claim_status *dra_pod_extended_claim(
    const struct dra *d, const struct api_pod *pod)
{
    return features_on(d->options.features, FEATURE_DRA_EXTENDED_RESOURCE)
               ? pod->status.extended_resource_claim_status
               : NULL;
}

static bool dra_pod_requests_resource(const struct api_container *c, struct str resource)
{
    for (size_t i = 0; i < c->resources.requests.n; i++)
        if (str_eq(c->resources.requests.p[i].key, resource))
            return quantity_sign(&c->resources.requests.p[i].value) != 0;
    return false;
}

// --- Devices -------------------------------------------------------------------------------------

static bool dra_pod_device_is_for(const struct plugin_device *device, struct str request)
{
    if (request.n == 0 || device->request_names.n == 0)
        return true;
    vec_foreach(&device->request_names, name)
        if (str_eq(*name, request))
            return true;
    return false;
}

static int dra_pod_add_devices(const struct dra *d, struct str namespace, struct str name,
                               struct str request, struct arena *arena, struct dra_texts *out,
                               struct err *err)
{
    const struct node_claim *claim = node_claims_find(&d->claims, namespace, name);
    if (!claim)
        return err_set(err, ERR_NOT_FOUND,
                       "internal error: unable to get claim info for ResourceClaim %.*s in "
                       "namespace %.*s",
                       STR_ARG(name), STR_ARG(namespace));
    if (claim->stale)
        return err_set(err, ERR_CONFLICT,
                       "ResourceClaim %.*s was prepared in another boot and has to be prepared "
                       "again",
                       STR_ARG(name));
    vec_foreach(&claim->drivers, part)
        vec_foreach(&part->devices, device) {
            if (!dra_pod_device_is_for(device, request))
                continue;
            vec_foreach(&device->cdi_device_ids, id)
                vec_push_arena(arena, out, arena_str(arena, *id));
        }
    return 0;
}

static int dra_pod_add_entry(const struct dra *d, const struct api_pod *pod,
                             const struct api_pod_resource_claim *entry,
                             const struct api_container *container, struct arena *arena,
                             struct dra_texts *out, struct err *err)
{
    for (size_t i = 0; i < container->resources.claims.n; i++) {
        const struct api_container_resource_claim *use = &container->resources.claims.p[i];
        struct str name;
        bool check;
        if (!str_eq(use->name, entry->name))
            continue;
        int r = dra_pod_claim_name(pod, entry, &name, &check, err);
        if (r > 0)
            r = dra_pod_add_devices(d, pod->metadata.namespace, name, use->request, arena, out,
                                    err);
        if (r < 0)
            return r;
    }
    return 0;
}

int dra_container_devices(const struct dra *d, const struct api_pod *pod,
                          const struct api_container *container, struct arena *arena,
                          struct dra_texts *out, struct err *err)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < pod->spec.resource_claims.n; i++)
        r = dra_pod_add_entry(d, pod, &pod->spec.resource_claims.p[i], container, arena, out, err);
    const struct api_pod_extended_resource_claim_status *extended = dra_pod_extended_claim(d, pod);
    for (size_t i = 0; r == 0 && extended && i < extended->request_mappings.n; i++) {
        const struct api_container_extended_resource_request *m = &extended->request_mappings.p[i];
        if (str_eq(m->container_name, container->name) &&
            dra_pod_requests_resource(container, m->resource_name))
            r = dra_pod_add_devices(d, pod->metadata.namespace, extended->resource_claim_name,
                                    m->request_name, arena, out, err);
    }
    return r;
}

// --- Claims --------------------------------------------------------------------------------------

static bool dra_pod_uses_entry(const struct api_container *container, struct str entry)
{
    for (size_t i = 0; i < container->resources.claims.n; i++)
        if (str_eq(container->resources.claims.p[i].name, entry))
            return true;
    return false;
}

static int dra_pod_report_claim(const struct dra *d, struct str namespace, struct str name,
                                void (*fn)(void *arg, const struct node_claim *claim), void *arg,
                                struct err *err)
{
    const struct node_claim *claim = node_claims_find(&d->claims, namespace, name);
    if (!claim)
        return err_set(err, ERR_NOT_FOUND, "unable to get information for ResourceClaim %.*s",
                       STR_ARG(name));
    fn(arg, claim);
    return 0;
}

static bool dra_pod_maps_container(const struct api_pod_extended_resource_claim_status *extended,
                                   const struct api_container *container)
{
    for (size_t i = 0; i < extended->request_mappings.n; i++)
        if (str_eq(extended->request_mappings.p[i].container_name, container->name))
            return true;
    return false;
}

int dra_container_claims(const struct dra *d, const struct api_pod *pod,
                         const struct api_container *container,
                         void (*fn)(void *arg, const struct node_claim *claim), void *arg,
                         struct err *err)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *entry = &pod->spec.resource_claims.p[i];
        struct str name;
        bool check;
        if (!dra_pod_uses_entry(container, entry->name))
            continue;
        r = dra_pod_claim_name(pod, entry, &name, &check, err);
        if (r > 0)
            r = dra_pod_report_claim(d, pod->metadata.namespace, name, fn, arg, err);
    }
    const struct api_pod_extended_resource_claim_status *extended = dra_pod_extended_claim(d, pod);
    if (r >= 0 && extended && dra_pod_maps_container(extended, container))
        r = dra_pod_report_claim(d, pod->metadata.namespace, extended->resource_claim_name, fn, arg,
                                 err);
    return r < 0 ? r : 0;
}

// --- Health --------------------------------------------------------------------------------------

struct resource_list VEC(struct api_resource_health);
struct status_list VEC(struct api_resource_status);

static bool dra_pod_has_resource(const struct resource_list *l, struct str id)
{
    vec_foreach(l, r)
        if (str_eq(r->resource_id, id))
            return true;
    return false;
}

static void dra_pod_add_health(const struct dra *d, const struct node_claim_driver *part,
                               const struct plugin_device *device, struct arena *arena,
                               struct resource_list *out)
{
    struct str id = device->cdi_device_ids.n > 0
                        ? arena_str(arena, device->cdi_device_ids.p[0])
                        : arena_strf(arena, "%.*s/%.*s/%.*s", STR_ARG(part->name),
                                     STR_ARG(device->pool_name), STR_ARG(device->device_name));
    if (dra_pod_has_resource(out, id))
        return;
    struct health_state h =
        health_of(d->health, part->name, device->pool_name, device->device_name);
    bool tell =
        h.message.n > 0 && features_on(d->options.features, FEATURE_RESOURCE_HEALTH_STATUS_MESSAGE);
    const struct api_resource_health r = {
        .resource_id = id,
        .health = health_name(h.health),
        .message = tell ? arena_str(arena, h.message) : (struct str){0},
        .has_message = tell,
    };
    vec_push_arena(arena, out, r);
}

// The name of the claim that an entry of the container means; empty when there is none.
static struct str dra_pod_entry_claim_name(const struct api_pod *pod, struct str entry)
{
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        struct str name = {0};
        bool check;
        if (str_eq(pod->spec.resource_claims.p[i].name, entry) &&
            dra_pod_claim_name(pod, &pod->spec.resource_claims.p[i], &name, &check, NULL) > 0)
            return name;
    }
    return (struct str){0};
}

// A request without its subrequest: drivers answer with that.
static struct str dra_pod_base_request(struct str request)
{
    struct str head, tail;
    (void)str_cut(request, '/', &head, &tail);
    return head;
}

static void dra_pod_add_status(const struct dra *d, const struct api_pod *pod,
                               const struct api_container_resource_claim *use, struct arena *arena,
                               struct status_list *out)
{
    const struct node_claim *claim = node_claims_find(&d->claims, pod->metadata.namespace,
                                                      dra_pod_entry_claim_name(pod, use->name));
    struct resource_list all = {0};
    if (!claim)
        return;
    vec_foreach(&claim->drivers, part)
        vec_foreach(&part->devices, device)
            if (dra_pod_device_is_for(device, dra_pod_base_request(use->request)))
                dra_pod_add_health(d, part, device, arena, &all);
    if (all.n == 0)
        return;
    const struct api_resource_status s = {
        .name = use->request.n ? arena_strf(arena, "claim:%.*s/%.*s", STR_ARG(use->name),
                                            STR_ARG(use->request))
                               : arena_strf(arena, "claim:%.*s", STR_ARG(use->name)),
        .resources = {all.p, all.n},
    };
    vec_push_arena(arena, out, s);
}

void dra_container_health(const struct dra *d, const struct api_pod *pod,
                          const struct api_container *container, struct arena *arena,
                          struct api_resource_status_array *ret)
{
    struct status_list all = {0};
    for (size_t i = 0; i < container->resources.claims.n; i++)
        dra_pod_add_status(d, pod, &container->resources.claims.p[i], arena, &all);
    *ret = (struct api_resource_status_array){all.p, all.n};
}

struct str dra_device_health(const struct dra *d, struct str driver, struct str pool,
                             struct str device, struct str *ret_message)
{
    struct health_state h = health_of(d->health, driver, pool, device);
    if (ret_message)
        *ret_message = h.message;
    return health_name(h.health);
}

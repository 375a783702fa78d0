// SPDX-License-Identifier: Apache-2.0
//
// A ResourceClaim as a driver's callbacks see it.
#include "api/api.h"
#include "driver/sdk/sdk.h"

#include "base/banned.h"

static const char *claim_copy_text(struct arena *a, struct str s)
{
    return arena_str(a, s).p;
}

static struct str claim_base_request(struct str request)
{
    struct str head;
    struct str tail;
    str_cut(request, '/', &head, &tail);
    return head;
}

// A configuration counts for a request by its full name or by the name before the slash; one
// without requests counts for all.
static bool counts_for(const struct api_device_allocation_configuration *c, struct str driver,
                       struct str request)
{
    if (!c->device_configuration.opaque || !str_eq(c->device_configuration.opaque->driver, driver))
        return false;
    for (size_t i = 0; i < c->requests.n; i++)
        if (str_eq(c->requests.p[i], request) ||
            str_eq(c->requests.p[i], claim_base_request(request)))
            return true;
    return c->requests.n == 0;
}

static void claim_add_configs(const struct api_device_allocation_result *devices, struct str driver,
                              struct str request, struct arena *a, struct dray_allocated *to)
{
    struct dray_config *all = arena_array(a, struct dray_config, devices->config.n);
    size_t n = 0;
    // The class's parameters first, so that the claim's own words come later and win.
    for (int from_class = 1; from_class >= 0; from_class--) {
        for (size_t i = 0; i < devices->config.n; i++) {
            const struct api_device_allocation_configuration *c = &devices->config.p[i];
            bool of_class = str_eq(c->source, STR("FromClass"));
            if (of_class != (from_class == 1) || !counts_for(c, driver, request))
                continue;
            all[n++] = (struct dray_config){
                of_class, claim_copy_text(a, c->device_configuration.opaque->parameters)};
        }
    }
    to->configs = all;
    to->configs_len = n;
}

static void add_consumed(const struct api_device_request_allocation_result *r, struct arena *a,
                         struct dray_allocated *to)
{
    struct dray_amount *all = arena_array(a, struct dray_amount, r->consumed_capacity.n);
    for (size_t i = 0; i < r->consumed_capacity.n; i++) {
        cleanup_sbuf struct sbuf amount = {0};
        quantity_write(&r->consumed_capacity.p[i].value, &amount);
        all[i] = (struct dray_amount){claim_copy_text(a, r->consumed_capacity.p[i].key),
                                      claim_copy_text(a, sbuf_str(&amount))};
    }
    to->consumed = all;
    to->consumed_len = r->consumed_capacity.n;
}

int sdk_claim(const struct api_resource_claim *object, struct str driver, struct arena *arena,
              struct dray_claim *ret, struct err *err)
{
    *ret = (struct dray_claim){.namespace_ = claim_copy_text(arena, object->metadata.namespace),
                               .name = claim_copy_text(arena, object->metadata.name),
                               .uid = claim_copy_text(arena, object->metadata.uid)};
    const struct str *pod_claim =
        api_map_find(&object->metadata.annotations, STR("resource.kubernetes.io/pod-claim-name"));
    if (pod_claim)
        ret->pod_claim_name = claim_copy_text(arena, *pod_claim);
    if (!object->status.allocation)
        return err_set(err, ERR_INVALID, "claim %s/%s is not allocated", ret->namespace_,
                       ret->name);
    const struct api_device_allocation_result *devices = &object->status.allocation->devices;
    struct dray_allocated *all = arena_array(arena, struct dray_allocated, devices->results.n);
    size_t n = 0;
    for (size_t i = 0; i < devices->results.n; i++) {
        const struct api_device_request_allocation_result *r = &devices->results.p[i];
        if (!str_eq(r->driver, driver))
            continue;
        struct dray_allocated *to = &all[n++];
        to->request_ref = claim_copy_text(arena, r->request);
        to->request = claim_copy_text(arena, claim_base_request(r->request));
        to->pool = claim_copy_text(arena, r->pool);
        to->device = claim_copy_text(arena, r->device);
        to->share_id = r->has_share_id ? claim_copy_text(arena, r->share_id) : NULL;
        to->admin_access = r->admin_access;
        claim_add_configs(devices, driver, r->request, arena, to);
        add_consumed(r, arena, to);
    }
    ret->devices = all;
    ret->devices_len = n;
    return 0;
}

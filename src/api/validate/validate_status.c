// SPDX-License-Identifier: Apache-2.0
//
// ResourceClaim's status.
#include "api/validate/validate_int.h"

#include "base/banned.h"

#define RESERVED_FOR_MAX      256
#define RESULTS_MAX           32
#define ALLOCATED_CONFIGS_MAX 64 // of class and claim
#define DEVICE_CONDITIONS_MAX 8
#define DEVICE_DATA_BYTES_MAX (10 * 1024)
#define INTERFACE_NAME_MAX    256
#define HARDWARE_ADDRESS_MAX  128
#define IPS_MAX               16

// The identity of one share of a device.
struct device_id {
    struct str driver, pool, device, share;
};

static struct device_id status_id(const struct api_allocated_device_status *d)
{
    return (struct device_id){d->driver, d->pool, d->device,
                              d->has_share_id ? d->share_id : STR("")};
}

static struct device_id result_id(const struct api_device_request_allocation_result *r)
{
    return (struct device_id){r->driver, r->pool, r->device,
                              r->has_share_id ? r->share_id : STR("")};
}

static bool same_id(const struct device_id *a, const struct device_id *b)
{
    return str_eq(a->driver, b->driver) && str_eq(a->pool, b->pool) &&
           str_eq(a->device, b->device) && str_eq(a->share, b->share);
}

static bool is_allocated(const struct api_allocation_result *allocation, const struct device_id *id)
{
    for (size_t i = 0; allocation && i < allocation->devices.results.n; i++) {
        struct device_id result = result_id(&allocation->devices.results.p[i]);
        if (same_id(&result, id))
            return true;
    }
    return false;
}

// As upstream prints its own struct for this.
static struct str show_id(const struct device_id *id, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b, .html = true};
    json_write_object_begin(&w);
    json_write_key(&w, STR("Driver"));
    json_write_str(&w, id->driver);
    json_write_key(&w, STR("Pool"));
    json_write_str(&w, id->pool);
    json_write_key(&w, STR("Device"));
    json_write_str(&w, id->device);
    json_write_key(&w, STR("ShareID"));
    json_write_str(&w, id->share);
    json_write_object_end(&w);
    return arena_str(arena, sbuf_str(&b));
}

// --- reservedFor ---------------------------------------------------------------------------------

static void check_consumer(struct validator *v, const struct path *at,
                           const struct api_resource_claim_consumer_reference *ref)
{
    if (ref->resource.n == 0)
        cause_required(v->causes, AT(at, "resource"), STR(""));
    if (ref->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR(""));
    if (ref->uid.n == 0)
        cause_required(v->causes, AT(at, "uid"), STR(""));
}

static void check_reserved_for(struct validator *v, const struct path *at,
                               const struct api_resource_claim_consumer_reference_array *list)
{
    if (!validate_max_items(v, at, list->n, RESERVED_FOR_MAX, COVERED))
        return;
    for (size_t i = 0; i < list->n; i++)
        check_consumer(v, AT_ITEM(at, i), &list->p[i]);
    validate_unique(v, at, TEXTS(list, uid), COVERED);
}

static bool adds_consumer(const struct api_resource_claim_consumer_reference_array *now,
                          const struct api_resource_claim_consumer_reference_array *old)
{
    for (size_t i = 0; i < now->n; i++) {
        bool found = false;
        for (size_t j = 0; j < old->n && !found; j++)
            found = api_equal(&api_resource_claim_consumer_reference_type, &now->p[i], &old->p[j]);
        if (!found)
            return true;
    }
    return false;
}

static void check_reservation(struct validator *v, const struct path *at,
                              const struct api_resource_claim *claim,
                              const struct api_resource_claim *old)
{
    if (claim->status.reserved_for.n == 0)
        return;
    if (!claim->status.allocation)
        cause_forbidden(v->causes, at, STR("may not be specified when `allocated` is not set"));
    else if (claim->metadata.deletion_timestamp.set &&
             adds_consumer(&claim->status.reserved_for, &old->status.reserved_for))
        cause_forbidden(v->causes, at,
                        STR("new entries may not be added while `deallocationRequested` or "
                            "`deletionTimestamp` are set"));
}

// --- devices -------------------------------------------------------------------------------------

static void validate_status_ip(struct validator *v, const struct path *at, struct str ip)
{
    cleanup_sbuf struct sbuf canonical = {0}, detail = {0};
    if (!name_canonical_interface_address(ip, &canonical)) {
        cause_invalid(v->causes, at, ip,
                      STR("must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or "
                          "2001:db8::1/64)"));
    } else if (!str_eq(sbuf_str(&canonical), ip)) {
        sbuf_addz(&detail, "must be in canonical form (");
        sbuf_add_quoted(&detail, sbuf_str(&canonical));
        sbuf_addc(&detail, ')');
        cause_invalid(v->causes, at, ip, sbuf_str(&detail));
    }
}

static void check_network_data(struct validator *v, const struct path *at,
                               const struct api_network_device_data *data)
{
    const struct path *ips = AT(at, "ips");
    if (data->interface_name.n > INTERFACE_NAME_MAX)
        causes_mark(v->causes,
                    cause_too_long(v->causes, AT(at, "interfaceName"), INTERFACE_NAME_MAX),
                    "maxBytes", COVERED);
    if (data->hardware_address.n > HARDWARE_ADDRESS_MAX)
        causes_mark(v->causes,
                    cause_too_long(v->causes, AT(at, "hardwareAddress"), HARDWARE_ADDRESS_MAX),
                    "maxBytes", COVERED);
    if (!validate_max_items(v, ips, data->ips.n, IPS_MAX, COVERED))
        return;
    for (size_t i = 0; i < data->ips.n; i++)
        validate_status_ip(v, AT_ITEM(ips, i), data->ips.p[i]);
    validate_unique(v, ips, STRINGS(&data->ips), COVERED);
}

static void check_device_status(struct validator *v, const struct path *at,
                                const struct api_allocated_device_status *d,
                                const struct api_allocation_result *allocation)
{
    validate_driver_name(v, AT(at, "driver"), d->driver, OWN);
    validate_pool_name(v, AT(at, "pool"), d->pool);
    validate_dns_label(v, AT(at, "device"), d->device);
    if (d->has_share_id)
        validate_share_id(v, AT(at, "shareID"), d->share_id);
    struct device_id id = status_id(d);
    if (!is_allocated(allocation, &id))
        cause_invalid_json(v->causes, at, show_id(&id, scratch(v)),
                           STR("must be an allocated device in the claim"));
    if (d->conditions.n > DEVICE_CONDITIONS_MAX)
        cause_too_many(v->causes, AT(at, "conditions"), d->conditions.n, DEVICE_CONDITIONS_MAX);
    validate_conditions(v, AT(at, "conditions"), &d->conditions);
    if (d->data.n)
        validate_raw_object(v, AT(at, "data"), d->data, false, DEVICE_DATA_BYTES_MAX);
    if (d->network_data)
        check_network_data(v, AT(at, "networkData"), d->network_data);
}

static void validate_status_devices(struct validator *v, const struct path *at,
                                    const struct api_resource_claim_status *status)
{
    for (size_t i = 0; i < status->devices.n; i++)
        check_device_status(v, AT_ITEM(at, i), &status->devices.p[i], status->allocation);
    cleanup_seen struct seen ids = {0};
    for (size_t i = 0; i < status->devices.n; i++) {
        struct device_id id = status_id(&status->devices.p[i]);
        struct str shown = show_id(&id, scratch(v));
        if (seen_add(&ids, shown))
            validate_covered(v, cause_duplicate_json(v->causes, AT_ITEM(at, i), shown));
    }
}

// --- allocation ----------------------------------------------------------------------------------

static void validate_status_result(struct validator *v, const struct path *at,
                                   const struct api_device_request_allocation_result *r,
                                   const struct api_device_claim *claim)
{
    validate_request_ref(v, AT(at, "request"), r->request, claim);
    validate_driver_name(v, AT(at, "driver"), r->driver, COVERED);
    size_t from = v->causes->n;
    validate_pool_name(v, AT(at, "pool"), r->pool);
    causes_mark(v->causes, from, NULL, COVERED);
    validate_dns_label(v, AT(at, "device"), r->device);
    validate_binding_conditions(v, at, &r->binding_conditions, &r->binding_failure_conditions);
    for (size_t i = 0; i < r->tolerations.n; i++)
        validate_toleration(v, AT_ITEM(AT(at, "tolerations"), i), &r->tolerations.p[i]);
    if (r->has_share_id)
        validate_share_id(v, AT(at, "shareID"), r->share_id);
    validate_skip_node_operations(v, AT(at, "skipNodeOperations"), &r->skip_node_operations);
}

static void check_source(struct validator *v, const struct path *at, struct str source)
{
    static const struct str sources[] = {STR_INIT("FromClaim"), STR_INIT("FromClass")};
    if (source.n == 0)
        validate_covered(v, cause_required(v->causes, at, STR("")));
    else if (!str_eq(source, sources[0]) && !str_eq(source, sources[1]))
        validate_covered(v, cause_not_supported(v->causes, at, source, sources, 2));
}

static void check_allocation(struct validator *v, const struct path *at,
                             const struct api_allocation_result *allocation,
                             const struct api_device_claim *claim)
{
    const struct api_device_allocation_result *d = &allocation->devices;
    const struct path *devices = AT(at, "devices");
    if (validate_max_items(v, AT(devices, "results"), d->results.n, RESULTS_MAX, COVERED))
        for (size_t i = 0; i < d->results.n; i++)
            validate_status_result(v, AT_ITEM(AT(devices, "results"), i), &d->results.p[i], claim);
    if (validate_max_items(v, AT(devices, "config"), d->config.n, ALLOCATED_CONFIGS_MAX, COVERED))
        for (size_t i = 0; i < d->config.n; i++) {
            const struct path *item = AT_ITEM(AT(devices, "config"), i);
            check_source(v, AT(item, "source"), d->config.p[i].source);
            validate_request_refs(v, AT(item, "requests"), &d->config.p[i].requests, claim);
            validate_configuration(v, item, &d->config.p[i].device_configuration, false);
        }
    if (allocation->node_selector)
        validate_node_selector(v, AT(at, "nodeSelector"), allocation->node_selector);
}

void validate_claim_status(struct validator *v, const struct api_resource_claim *claim,
                           const struct api_resource_claim *old)
{
    const struct path *status = AT(NULL, "status");
    validate_admin_access_status(v, &claim->status, &old->status);
    validate_status_access(v, claim, old);
    validate_object_meta_update(v, &claim->metadata, &old->metadata);
    validate_kube_finalizers(v, &claim->metadata);
    check_reserved_for(v, AT(status, "reservedFor"), &claim->status.reserved_for);
    validate_status_devices(v, AT(status, "devices"), &claim->status);
    check_reservation(v, AT(status, "reservedFor"), claim, old);
    // What was allocated before may break today's rules; it may not change either.
    if (!claim->status.allocation)
        return;
    if (!old->status.allocation)
        check_allocation(v, AT(status, "allocation"), claim->status.allocation,
                         &claim->spec.devices);
    else if (!api_equal(&api_allocation_result_type, claim->status.allocation,
                        old->status.allocation))
        causes_mark(v->causes,
                    validate_report_immutable(v, AT(status, "allocation"),
                                              &api_allocation_result_type,
                                              claim->status.allocation),
                    "update", COVERED);
}

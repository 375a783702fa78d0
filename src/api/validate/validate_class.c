// SPDX-License-Identifier: Apache-2.0
//
// DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest.
#include "api/validate/validate_int.h"

#include "base/banned.h"

#define CONFIGS_MAX         32
#define RULE_CONDITIONS_MAX 8

// --- DeviceClass ---------------------------------------------------------------------------------

static bool class_field_equal(struct str name, const struct api_device_class_spec *a,
                              const struct api_device_class_spec *b)
{
    return api_field_equal(api_type_field(&api_device_class_spec_type, name), a, b);
}

static void check_class_spec(struct validator *v, const struct api_device_class_spec *spec,
                             const struct api_device_class_spec *old)
{
    const struct path *at = AT(NULL, "spec");
    validate_selectors(v, AT(at, "selectors"), &spec->selectors,
                       old && class_field_equal(STR("selectors"), spec, old));
    bool stored = old && class_field_equal(STR("config"), spec, old);
    if (validate_max_items(v, AT(at, "config"), spec->config.n, CONFIGS_MAX, COVERED))
        for (size_t i = 0; i < spec->config.n; i++)
            validate_configuration(v, AT_ITEM(AT(at, "config"), i),
                                   &spec->config.p[i].device_configuration, stored);
    struct name_msgs msgs = {.arena = scratch(v)};
    if (spec->has_extended_resource_name)
        name_extended_resource(spec->extended_resource_name, &msgs);
    if (msgs.n)
        causes_mark(v->causes,
                    cause_invalid(v->causes, AT(at, "extendedResourceName"),
                                  spec->extended_resource_name,
                                  STR("must be a valid extended resource name")),
                    "format=k8s-extended-resource-name", COVERED);
}

void validate_class(struct validator *v, const struct api_device_class *class_,
                    const struct api_device_class *old)
{
    static const struct name_rule own = {.check = name_dns_subdomain, .own_way = true};
    validate_object_meta(v, &class_->metadata, false, &own);
    validate_kube_finalizers(v, &class_->metadata);
    if (old) {
        validate_object_meta_update(v, &class_->metadata, &old->metadata);
        validate_kube_finalizers(v, &class_->metadata);
    }
    check_class_spec(v, &class_->spec, old ? &old->spec : NULL);
}

// --- DeviceTaintRule -----------------------------------------------------------------------------

static void check_taint_selector(struct validator *v, const struct path *at,
                                 const struct api_device_taint_selector *s)
{
    if (s->has_driver)
        validate_driver_name(v, AT(at, "driver"), s->driver, OWN);
    if (s->has_pool)
        validate_pool_name(v, AT(at, "pool"), s->pool);
    if (s->has_device)
        validate_dns_label(v, AT(at, "device"), s->device);
}

static void check_rule_status(struct validator *v, const struct api_device_taint_rule *rule)
{
    validate_conditions(v, AT(AT(NULL, "status"), "conditions"), &rule->status.conditions);
    if (rule->status.conditions.n > RULE_CONDITIONS_MAX)
        cause_too_many(v->causes, AT(AT(NULL, "status"), "conditions"), rule->status.conditions.n,
                       RULE_CONDITIONS_MAX);
}

void validate_taint_rule(struct validator *v, const struct api_device_taint_rule *rule,
                         const struct api_device_taint_rule *old)
{
    validate_cluster_meta(v, &rule->metadata, old ? &old->metadata : NULL);
    if (v->op == API_STATUS_UPDATE) {
        check_rule_status(v, rule);
        return;
    }
    if (rule->spec.device_selector)
        check_taint_selector(v, AT(AT(NULL, "spec"), "deviceSelector"), rule->spec.device_selector);
    validate_taint(v, AT(AT(NULL, "spec"), "taint"), &rule->spec.taint,
                   old ? &old->spec.taint : NULL);
}

// --- ResourcePoolStatusRequest -------------------------------------------------------------------

static void check_pool_status(struct validator *v,
                              const struct api_resource_pool_status_request_status *status,
                              const struct api_resource_pool_status_request_status *old)
{
    const struct api_type *t = &api_resource_pool_status_request_status_type;
    // Once there is a status, the request is done with.
    if (old) {
        if (!status || !api_equal(t, status, old))
            validate_report_immutable(v, AT(NULL, "status"), t, status);
    } else if (status) {
        validate_conditions(v, AT(AT(NULL, "status"), "conditions"), &status->conditions);
    }
}

void validate_pool_status_request(struct validator *v,
                                  const struct api_resource_pool_status_request *request,
                                  const struct api_resource_pool_status_request *old)
{
    validate_cluster_meta(v, &request->metadata, old ? &old->metadata : NULL);
    if (v->op == API_STATUS_UPDATE && old)
        check_pool_status(v, request->status, old->status);
}

// SPDX-License-Identifier: Apache-2.0
//
// HorizontalPodAutoscaler: bounds, the object to scale, metrics and how fast scaling may go. A
// metric has one source, that of its type.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define AUTOSCALER_PERIOD_MAX 1800
#define AUTOSCALER_WINDOW_MAX 3600

// --- References ----------------------------------------------------------------------------------

// How the apiVersion of a reference is judged.
enum autoscaler_version {
    AUTOSCALER_NEEDS_GROUP,
    AUTOSCALER_ANY_GROUP,
    AUTOSCALER_ANY_VERSION, // not looked at: it was stored before
};

// autoscaler_version_fault is NULL for a version that is in order.
static const char *autoscaler_version_fault(struct validator *v, struct str version,
                                            enum autoscaler_version how)
{
    ptrdiff_t slash = str_find_char(version, '/');
    if (how == AUTOSCALER_ANY_VERSION)
        return NULL;
    if (slash >= 0 && version.n > 1 &&
        str_find_char(str_from(version, (size_t)slash + 1), '/') >= 0)
        return arena_strf(scratch(v), "unexpected GroupVersion string: %.*s", STR_ARG(version)).p;
    if (how == AUTOSCALER_NEEDS_GROUP && slash <= 0)
        return "apiVersion must specify API group";
    return NULL;
}

static void autoscaler_check_segment(struct validator *v, const struct path *at, struct str name,
                                     struct str missing)
{
    if (name.n == 0)
        cause_required(v->causes, at, missing);
    else
        validate_format(v, at, name, name_path_segment, NULL);
}

static void autoscaler_check_reference(struct validator *v, const struct path *at,
                                       const struct api_cross_version_object_reference *ref,
                                       enum autoscaler_version how)
{
    autoscaler_check_segment(v, AT(at, "kind"), ref->kind, STR(""));
    autoscaler_check_segment(v, AT(at, "name"), ref->name, STR(""));
    const char *fault = autoscaler_version_fault(v, ref->api_version, how);
    if (fault)
        cause_invalid(v->causes, AT(at, "apiVersion"), ref->api_version, str_z(fault));
}

// --- Metrics -------------------------------------------------------------------------------------

static void autoscaler_check_amount(struct validator *v, const struct path *at,
                                    const struct quantity *amount)
{
    if (amount && quantity_sign(amount) <= 0)
        cause_invalid(v->causes, at, validate_quantity_text(amount, scratch(v)),
                      STR("must be positive"));
}

static void autoscaler_check_target(struct validator *v, const struct path *at,
                                    const struct api_metric_target *target)
{
    static const struct str types[] = {STR_INIT("Utilization"), STR_INIT("Value"),
                                       STR_INIT("AverageValue")};
    const struct path *type = AT(at, "type");
    if (target->type.n == 0)
        cause_required(v->causes, type, STR("must specify a metric target type"));
    if (!validate_is_choice(CHOICES(types), target->type))
        cause_invalid(v->causes, type, target->type,
                      STR("must be either Utilization, Value, or AverageValue"));
    autoscaler_check_amount(v, AT(at, "value"), target->value);
    autoscaler_check_amount(v, AT(at, "averageValue"), target->average_value);
    if (target->has_average_utilization && target->average_utilization < 1)
        cause_invalid_i64(v->causes, AT(at, "averageUtilization"), target->average_utilization,
                          STR("must be greater than 0"));
}

static void autoscaler_check_metric_name(struct validator *v, const struct path *at,
                                         const struct api_metric_identifier *metric)
{
    autoscaler_check_segment(v, AT(AT(at, "metric"), "name"), metric->name,
                             STR("must specify a metric name"));
}

static void autoscaler_check_object(struct validator *v, const struct path *at,
                                    const struct api_object_metric_source *source,
                                    enum autoscaler_version how)
{
    const struct path *target = AT(at, "target");
    autoscaler_check_reference(v, AT(at, "describedObject"), &source->described_object, how);
    autoscaler_check_metric_name(v, at, &source->metric);
    autoscaler_check_target(v, target, &source->target);
    if (!source->target.value && !source->target.average_value)
        cause_required(v->causes, AT(target, "averageValue"),
                       STR("must set either a target value or averageValue"));
}

static void autoscaler_check_external(struct validator *v, const struct path *at,
                                      const struct api_external_metric_source *source)
{
    const struct path *target = AT(at, "target");
    autoscaler_check_metric_name(v, at, &source->metric);
    autoscaler_check_target(v, target, &source->target);
    if (!source->target.value && !source->target.average_value)
        cause_required(v->causes, AT(target, "averageValue"),
                       STR("must set either a target value for metric or a per-pod target"));
    if (source->target.value && source->target.average_value)
        cause_forbidden(v->causes, AT(target, "value"),
                        STR("may not set both a target value for metric and a per-pod target"));
}

static void autoscaler_check_pods(struct validator *v, const struct path *at,
                                  const struct api_pods_metric_source *source)
{
    const struct path *target = AT(at, "target");
    autoscaler_check_metric_name(v, at, &source->metric);
    autoscaler_check_target(v, target, &source->target);
    if (!source->target.average_value)
        cause_required(v->causes, AT(target, "averageValue"),
                       STR("must specify a positive target averageValue"));
}

// autoscaler_check_usage: the target of a resource metric is an amount or a share of the requests.
static void autoscaler_check_usage(struct validator *v, const struct path *at,
                                   const struct api_metric_target *target)
{
    autoscaler_check_target(v, at, target);
    if (!target->has_average_utilization && !target->average_value)
        cause_required(v->causes, AT(at, "averageUtilization"),
                       STR("must set either a target raw value or a target utilization"));
    if (target->has_average_utilization && target->average_value)
        cause_forbidden(v->causes, AT(at, "averageValue"),
                        STR("may not set both a target raw value and a target utilization"));
}

static void autoscaler_check_resource(struct validator *v, const struct path *at,
                                      const struct api_resource_metric_source *source)
{
    if (source->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR("must specify a resource name"));
    autoscaler_check_usage(v, AT(at, "target"), &source->target);
}

static void autoscaler_check_container(struct validator *v, const struct path *at,
                                       const struct api_container_resource_metric_source *source)
{
    if (source->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR("must specify a resource name"));
    else
        validate_container_resource_name(v, AT(at, "name"), source->name);
    if (source->container.n == 0)
        cause_required(v->causes, AT(at, "container"), STR("must specify a container"));
    else
        validate_named(v, AT(at, "container"), source->container, name_dns_label);
    autoscaler_check_usage(v, AT(at, "target"), &source->target);
}

static void autoscaler_check_metric_type(struct validator *v, const struct path *at,
                                         struct str type)
{
    static const struct str types[] = {STR_INIT("ContainerResource"), STR_INIT("External"),
                                       STR_INIT("Object"), STR_INIT("Pods"), STR_INIT("Resource")};
    if (type.n == 0)
        cause_required(v->causes, at, STR("must specify a metric source type"));
    validate_choice(v, at, type, CHOICES(types));
}

// Only the first source is looked at; the others must not be there.
static void autoscaler_check_metric(struct validator *v, const struct path *at,
                                    const struct api_metric_spec *m, enum autoscaler_version how)
{
    const struct {
        struct str type, field;
        bool is_set;
    } sources[] = {
        {STR_INIT("Object"), STR_INIT("object"), m->object != NULL},
        {STR_INIT("External"), STR_INIT("external"), m->external != NULL},
        {STR_INIT("Pods"), STR_INIT("pods"), m->pods != NULL},
        {STR_INIT("Resource"), STR_INIT("resource"), m->resource != NULL},
        {STR_INIT("ContainerResource"), STR_INIT("containerResource"), m->container_resource},
    };
    size_t n_set = 0;
    autoscaler_check_metric_type(v, AT(at, "type"), m->type);
    if (m->object)
        autoscaler_check_object(v, AT(at, "object"), m->object, how);
    else if (m->external)
        autoscaler_check_external(v, AT(at, "external"), m->external);
    else if (m->pods)
        autoscaler_check_pods(v, AT(at, "pods"), m->pods);
    else if (m->resource)
        autoscaler_check_resource(v, AT(at, "resource"), m->resource);
    else if (m->container_resource)
        autoscaler_check_container(v, AT(at, "containerResource"), m->container_resource);
    for (size_t i = 0; i < array_len(sources); i++) {
        n_set += sources[i].is_set;
        if (str_eq(m->type, sources[i].type) && !sources[i].is_set)
            cause_required(v->causes, AT_NAME(at, sources[i].field),
                           STR("must populate information for the given metric source"));
    }
    for (size_t i = 0; n_set != 1 && i < array_len(sources); i++)
        if (sources[i].is_set && !str_eq(m->type, sources[i].type))
            cause_forbidden(v->causes, AT_NAME(at, sources[i].field),
                            STR("must populate the given metric source only"));
}

static void autoscaler_check_metrics(struct validator *v, const struct path *at,
                                     const struct api_horizontal_pod_autoscaler_spec *spec,
                                     enum autoscaler_version how)
{
    bool counts_outside = false;
    for (size_t i = 0; i < spec->metrics.n && !causes_full(v->causes); i++) {
        const struct api_metric_spec *m = &spec->metrics.p[i];
        autoscaler_check_metric(v, AT_ITEM(at, i), m, how);
        counts_outside =
            counts_outside || str_eqz(m->type, "Object") || str_eqz(m->type, "External");
    }
    if (spec->has_min_replicas && spec->min_replicas == 0 && !counts_outside)
        cause_forbidden(v->causes, at,
                        STR("must specify at least one Object or External metric to support "
                            "scaling to zero replicas"));
}

// --- Behaviour -----------------------------------------------------------------------------------

static void autoscaler_check_policy(struct validator *v, const struct path *at,
                                    const struct api_hpa_scaling_policy *policy)
{
    static const struct str types[] = {STR_INIT("Percent"), STR_INIT("Pods")};
    const struct path *period = AT(at, "periodSeconds");
    validate_choice(v, AT(at, "type"), policy->type, CHOICES(types));
    validate_positive(v, AT(at, "value"), policy->value);
    validate_positive(v, period, policy->period_seconds);
    if (policy->period_seconds > AUTOSCALER_PERIOD_MAX)
        cause_invalid_i64(v->causes, period, policy->period_seconds,
                          STR("must be less than or equal to 1800"));
}

static void autoscaler_check_rules(struct validator *v, const struct path *at,
                                   const struct api_hpa_scaling_rules *rules)
{
    static const struct str choices[] = {STR_INIT("Disabled"), STR_INIT("Max"), STR_INIT("Min")};
    const struct path *window = AT(at, "stabilizationWindowSeconds"), *list = AT(at, "policies");
    if (!rules)
        return;
    if (rules->has_stabilization_window_seconds && rules->stabilization_window_seconds < 0)
        cause_invalid_i64(v->causes, window, rules->stabilization_window_seconds,
                          STR("must be greater than or equal to zero"));
    if (rules->has_stabilization_window_seconds &&
        rules->stabilization_window_seconds > AUTOSCALER_WINDOW_MAX)
        cause_invalid_i64(v->causes, window, rules->stabilization_window_seconds,
                          STR("must be less than or equal to 3600"));
    if (rules->has_select_policy)
        validate_choice(v, AT(at, "selectPolicy"), rules->select_policy, CHOICES(choices));
    if (rules->policies.n == 0)
        cause_required(v->causes, list, STR("must specify at least one Policy"));
    for (size_t i = 0; i < rules->policies.n && !causes_full(v->causes); i++)
        autoscaler_check_policy(v, AT_ITEM(list, i), &rules->policies.p[i]);
    if (rules->tolerance && quantity_sign(rules->tolerance) < 0)
        cause_invalid(v->causes, AT(at, "tolerance"),
                      validate_quantity_text(rules->tolerance, scratch(v)),
                      STR("must be greater than or equal to 0"));
}

// --- The kind ------------------------------------------------------------------------------------

// What an update leaves as it was is not refused for a rule that came later.
static enum autoscaler_version autoscaler_target_rule(
    const struct api_cross_version_object_reference *now,
    const struct api_cross_version_object_reference *old)
{
    if (old && str_eq(now->api_version, old->api_version) && str_eq(now->kind, old->kind))
        return AUTOSCALER_ANY_VERSION;
    return str_eqz(now->kind, "ReplicationController") ? AUTOSCALER_ANY_GROUP
                                                       : AUTOSCALER_NEEDS_GROUP;
}

static enum autoscaler_version autoscaler_metric_rule(
    struct validator *v, const struct api_horizontal_pod_autoscaler_spec *old)
{
    for (size_t i = 0; old && i < old->metrics.n; i++) {
        const struct api_metric_spec *m = &old->metrics.p[i];
        if (str_eqz(m->type, "Object") && m->object &&
            autoscaler_version_fault(v, m->object->described_object.api_version,
                                     AUTOSCALER_ANY_GROUP))
            return AUTOSCALER_ANY_VERSION;
    }
    return AUTOSCALER_ANY_GROUP;
}

static void autoscaler_check_bounds(struct validator *v, const struct path *at,
                                    const struct api_horizontal_pod_autoscaler_spec *s,
                                    const struct api_horizontal_pod_autoscaler_spec *old)
{
    const struct path *most = AT(at, "maxReplicas");
    bool stored = old && old->max_replicas == 0; // declarative rules do not look at it again
    if (s->has_min_replicas)
        validate_not_negative(v, AT(at, "minReplicas"), s->min_replicas);
    if (s->max_replicas == 0)
        cause_required(v->causes, most, stored ? STR("must be set and greater than 0") : STR(""));
    else if (s->max_replicas < 0)
        cause_invalid_i64(v->causes, most, s->max_replicas,
                          STR("must be greater than or equal to 1"));
    if (s->has_min_replicas && s->max_replicas < s->min_replicas)
        cause_invalid_i64(v->causes, most, s->max_replicas,
                          STR("must be greater than or equal to `minReplicas`"));
}

void validate_autoscaler(struct validator *v, const void *value, const void *old)
{
    const struct api_horizontal_pod_autoscaler_spec *s =
        &((const struct api_horizontal_pod_autoscaler *)value)->spec;
    const struct api_horizontal_pod_autoscaler_spec *was =
        old ? &((const struct api_horizontal_pod_autoscaler *)old)->spec : NULL;
    const struct path *at = AT(NULL, "spec");
    autoscaler_check_bounds(v, at, s, was);
    autoscaler_check_reference(v, AT(at, "scaleTargetRef"), &s->scale_target_ref,
                               autoscaler_target_rule(&s->scale_target_ref,
                                                      was ? &was->scale_target_ref : NULL));
    autoscaler_check_metrics(v, AT(at, "metrics"), s, autoscaler_metric_rule(v, was));
    if (s->behavior) {
        autoscaler_check_rules(v, AT(AT(at, "behavior"), "scaleUp"), s->behavior->scale_up);
        autoscaler_check_rules(v, AT(AT(at, "behavior"), "scaleDown"), s->behavior->scale_down);
    }
}

void validate_autoscaler_status(struct validator *v, const void *value, const void *old)
{
    const struct api_horizontal_pod_autoscaler_status *s =
        &((const struct api_horizontal_pod_autoscaler *)value)->status;
    const struct path *at = AT(NULL, "status"), *list = AT(at, "conditions");
    (void)old;
    for (size_t i = 0; i < s->conditions.n && !causes_full(v->causes); i++)
        if (s->conditions.p[i].has_observed_generation)
            validate_not_negative(v, AT(AT_ITEM(list, i), "observedGeneration"),
                                  s->conditions.p[i].observed_generation);
    validate_not_negative(v, AT(at, "currentReplicas"), s->current_replicas);
    validate_not_negative(v, AT(at, "desiredReplicas"), s->desired_replicas);
}

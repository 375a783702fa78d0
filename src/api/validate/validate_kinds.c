// SPDX-License-Identifier: Apache-2.0
//
// The smaller kinds: configuration, accounts, namespaces, events, leases, priorities, budgets; and
// the shapes of the names of all others.
#include "api/storage.h"
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define DATA_BYTES_MAX       ((size_t)1024 * 1024)
#define EVENT_TEXT_MAX       128
#define EVENT_NOTE_MAX       1024
#define USER_PRIORITY_MAX    1000000000
#define SYSTEM_CRITICAL      2000000000
#define SYSTEM_NODE_CRITICAL (SYSTEM_CRITICAL + 1000)

// --- ConfigMap, Secret ---------------------------------------------------------------------------

static bool kinds_map_has(const struct api_str_map *map, struct str key)
{
    return api_map_find(map, key) != NULL;
}

static size_t check_data(struct validator *v, const struct path *at, const struct api_str_map *data)
{
    size_t bytes = 0;
    for (size_t i = 0; i < data->n; i++) {
        if (!causes_full(v->causes))
            validate_named(v, AT_KEY(at, data->p[i].key), data->p[i].key, name_config_key);
        bytes += data->p[i].value.n;
    }
    return bytes;
}

static void check_frozen(struct validator *v, const char *field, bool same)
{
    if (!same)
        cause_forbidden(v->causes, AT_NAME(NULL, str_z(field)),
                        STR("field is immutable when `immutable` is set"));
}

static void check_config_map(struct validator *v, const struct api_config_map *map,
                             const struct api_config_map *old)
{
    const struct api_type *t = &api_config_map_type;
    if (old && old->has_immutable && old->immutable) {
        check_frozen(v, "immutable", map->has_immutable && map->immutable);
        check_frozen(v, "data", api_field_equal(api_type_field(t, STR("data")), map, old));
        check_frozen(v, "binaryData",
                     api_field_equal(api_type_field(t, STR("binaryData")), map, old));
    }
    size_t bytes = check_data(v, AT(NULL, "data"), &map->data);
    for (size_t i = 0; i < map->data.n && !causes_full(v->causes); i++)
        if (kinds_map_has(&map->binary_data, map->data.p[i].key))
            cause_invalid(v->causes, AT_KEY(AT(NULL, "data"), map->data.p[i].key),
                          map->data.p[i].key, STR("duplicate of key present in binaryData"));
    bytes += check_data(v, AT(NULL, "binaryData"), &map->binary_data);
    if (bytes > DATA_BYTES_MAX)
        cause_too_long(v->causes, AT(NULL, ""), DATA_BYTES_MAX);
}

static void must_have_key(struct validator *v, const struct api_str_map *data, const char *key)
{
    if (!kinds_map_has(data, str_z(key)))
        cause_required(v->causes, AT_KEY(AT(NULL, "data"), str_z(key)), STR(""));
}

static void check_docker_config(struct validator *v, const struct api_secret *secret,
                                const char *key)
{
    must_have_key(v, &secret->data, key);
    for (size_t i = 0; i < secret->data.n; i++) {
        cleanup_json_doc struct json_doc doc = {0};
        struct json_options options = {.duplicates = JSON_DUPLICATES_KEEP};
        struct err err = {0};
        if (!str_eqz(secret->data.p[i].key, key))
            continue;
        if (json_parse(secret->data.p[i].value, &options, &doc, &err) < 0)
            cause_invalid(v->causes, AT_KEY(AT(NULL, "data"), str_z(key)),
                          STR("<secret contents redacted>"), str_z(err.msg));
    }
}

// What secrets of the known types must hold.
static void check_secret_type(struct validator *v, const struct api_secret *secret)
{
    static const char account[] = "kubernetes.io/service-account.name";
    const struct api_str_map *data = &secret->data;
    if (str_eqz(secret->type, "kubernetes.io/service-account-token")) {
        bool named = false;
        for (size_t i = 0; i < secret->metadata.annotations.n; i++)
            named = named || (str_eqz(secret->metadata.annotations.p[i].key, account) &&
                              secret->metadata.annotations.p[i].value.n);
        if (!named)
            cause_required(v->causes,
                           AT_KEY(AT(AT(NULL, "metadata"), "annotations"), str_z(account)),
                           STR(""));
    } else if (str_eqz(secret->type, "kubernetes.io/dockercfg")) {
        check_docker_config(v, secret, ".dockercfg");
    } else if (str_eqz(secret->type, "kubernetes.io/dockerconfigjson")) {
        check_docker_config(v, secret, ".dockerconfigjson");
    } else if (str_eqz(secret->type, "kubernetes.io/basic-auth")) {
        if (!kinds_map_has(data, STR("username")) && !kinds_map_has(data, STR("password"))) {
            must_have_key(v, data, "username");
            must_have_key(v, data, "password");
        }
    } else if (str_eqz(secret->type, "kubernetes.io/ssh-auth")) {
        must_have_key(v, data, "ssh-privatekey");
    } else if (str_eqz(secret->type, "kubernetes.io/tls")) {
        must_have_key(v, data, "tls.crt");
        must_have_key(v, data, "tls.key");
    }
}

static void check_secret(struct validator *v, const struct api_secret *secret,
                         const struct api_secret *old)
{
    if (old)
        validate_unchanged(v, AT(NULL, "type"), secret->type, old->type);
    if (old && old->has_immutable && old->immutable) {
        check_frozen(v, "immutable", secret->has_immutable && secret->immutable);
        check_frozen(v, "data",
                     api_field_equal(api_type_field(&api_secret_type, STR("data")), secret, old));
    }
    if (check_data(v, AT(NULL, "data"), &secret->data) > DATA_BYTES_MAX)
        cause_too_long(v->causes, AT(NULL, "data"), DATA_BYTES_MAX);
    check_secret_type(v, secret);
}

// --- Namespace, Event, Lease ---------------------------------------------------------------------

static void check_namespace_kind(struct validator *v, const struct api_namespace *ns,
                                 const struct api_namespace *old)
{
    const struct path *at = AT(AT(NULL, "spec"), "finalizers");
    for (size_t i = 0; !old && i < ns->spec.finalizers.n && !causes_full(v->causes); i++) {
        struct str name = ns->spec.finalizers.p[i];
        validate_named(v, at, name, name_label_key);
        if (str_find_char(name, '/') < 0 && !str_eqz(name, "kubernetes") &&
            !str_eqz(name, "orphan") && !str_eqz(name, "foregroundDeletion"))
            cause_invalid(
                v->causes, at, name,
                STR("name is neither a standard finalizer name nor is it fully qualified"));
    }
}

static void check_namespace_status(struct validator *v, const struct api_namespace *ns)
{
    const struct path *at = AT(AT(NULL, "status"), "Phase");
    bool ending = ns->metadata.deletion_timestamp.set;
    if (!str_eqz(ns->status.phase, ending ? "Terminating" : "Active"))
        cause_invalid(v->causes, at, ns->status.phase,
                      ending ? STR("may only be 'Terminating' if `deletionTimestamp` is not empty")
                             : STR("may only be 'Active' if `deletionTimestamp` is empty"));
}

static void check_event_text(struct validator *v, const char *field, struct str text, size_t most,
                             bool required)
{
    const struct path *at = AT_NAME(NULL, str_z(field));
    if (required)
        validate_required(v, at, text);
    if (text.n > most)
        cause_invalid(v->causes, at, STR(""),
                      arena_strf(scratch(v), "can have at most %zu characters", most));
}

static void check_event(struct validator *v, const struct api_event *e)
{
    const struct path involved = path_root(STR("involvedObject")), *at = AT(&involved, "namespace");
    bool newer = str_eqz(v->version->group, "events.k8s.io");
    const struct path controller =
        path_root(str_z(newer ? "reportingController" : "reportingComponent"));
    struct str own = e->metadata.namespace, theirs = e->involved_object.namespace;
    bool is_default = str_eqz(own, "default");
    bool fits = theirs.n ? str_eq(own, theirs) : own.n == 0 || is_default;
    if (e->event_time.set)
        fits = theirs.n > 0 || is_default || str_eqz(own, "kube-system");
    if (!fits)
        cause_invalid(v->causes, at, theirs, STR("does not match event.namespace"));
    if (!e->event_time.set)
        return;
    validate_required(v, &controller, e->reporting_component);
    validate_named(v, &controller, e->reporting_component, name_label_key);
    check_event_text(v, "reportingInstance", e->reporting_instance, EVENT_TEXT_MAX, true);
    check_event_text(v, "action", e->action, EVENT_TEXT_MAX, true);
    check_event_text(v, "reason", e->reason, EVENT_TEXT_MAX, true);
    check_event_text(v, "message", e->message, EVENT_NOTE_MAX, false);
}

// The newer API wants every event to say when it was, and takes nothing of the older one's fields.
static void check_new_event(struct validator *v, const struct api_event *e)
{
    const struct {
        const char *field;
        bool set;
    } older[] = {
        {"firstTimestamp", e->first_timestamp.set},
        {"lastTimestamp", e->last_timestamp.set},
        {"count", e->count != 0},
        {"source", e->source.component.n || e->source.host.n},
    };
    if (e->series && e->series->count < 2)
        cause_invalid(v->causes, AT(NULL, "series.count"), STR(""), STR("should be at least 2"));
    if (e->series && !e->series->last_observed_time.set)
        cause_required(v->causes, AT(NULL, "series.lastObservedTime"), STR(""));
    if (!e->event_time.set)
        cause_required(v->causes, AT(NULL, "eventTime"), STR(""));
    if (!str_eqz(e->type, "Normal") && !str_eqz(e->type, "Warning"))
        cause_invalid(v->causes, AT(NULL, "type"), STR(""),
                      arena_strf(scratch(v), "has invalid value: %.*s", STR_ARG(e->type)));
    for (size_t i = 0; i < array_len(older); i++) {
        if (older[i].set)
            cause_invalid(v->causes, AT_NAME(NULL, str_z(older[i].field)), STR(""),
                          STR("needs to be unset"));
    }
}

static void check_lease(struct validator *v, const struct api_lease *lease)
{
    static const struct str strategies[] = {STR_INIT("OldestEmulationVersion")};
    const struct path *spec = AT(NULL, "spec");
    const struct path *strategy = AT(AT(spec, "strategy"), "strategy");
    const struct api_lease_spec *s = &lease->spec;
    if (s->has_lease_duration_seconds && s->lease_duration_seconds <= 0)
        cause_invalid_i64(v->causes, AT(spec, "leaseDurationSeconds"), s->lease_duration_seconds,
                          STR("must be greater than 0"));
    if (s->has_lease_transitions)
        validate_not_negative(v, AT(spec, "leaseTransitions"), s->lease_transitions);
    if (s->has_strategy && str_find_char(s->strategy, '/') < 0)
        validate_choice(v, strategy, s->strategy, CHOICES(strategies));
    else if (s->has_strategy)
        validate_named(v, strategy, s->strategy, name_label_key);
    if (s->preferred_holder.n && s->strategy.n == 0)
        cause_forbidden(v->causes, AT(spec, "preferredHolder"),
                        STR("may only be specified if `strategy` is defined"));
}

// --- Priorities, budgets -------------------------------------------------------------------------

static const char *system_class_fault(const struct api_priority_class *pc, struct arena *arena)
{
    bool node = str_eqz(pc->metadata.name, "system-node-critical");
    int32_t value = node ? SYSTEM_NODE_CRITICAL : SYSTEM_CRITICAL;
    if (!node && !str_eqz(pc->metadata.name, "system-cluster-critical"))
        return arena_strf(arena, "%.*s is not a known system priority class",
                          STR_ARG(pc->metadata.name))
            .p;
    if (pc->value != value)
        return arena_strf(arena, "value of %.*s PriorityClass must be %d",
                          STR_ARG(pc->metadata.name), value)
            .p;
    if (pc->global_default)
        return arena_strf(arena, "globalDefault of %.*s PriorityClass must be false",
                          STR_ARG(pc->metadata.name))
            .p;
    return NULL;
}

static void check_priority_class(struct validator *v, const struct api_priority_class *pc,
                                 const struct api_priority_class *old)
{
    static const struct str policies[] = {STR_INIT("PreemptLowerPriority"), STR_INIT("Never")};
    if (old) {
        if (pc->value != old->value)
            cause_forbidden(v->causes, AT(NULL, "value"), STR("may not be changed in an update."));
        validate_unchanged(v, AT(NULL, "preemptionPolicy"), pc->preemption_policy,
                           old->preemption_policy);
        return;
    }
    if (str_starts(pc->metadata.name, STR("system-"))) {
        const char *fault = system_class_fault(pc, scratch(v));
        if (fault)
            cause_forbidden(v->causes, AT(AT(NULL, "metadata"), "name"),
                            arena_strf(scratch(v),
                                       "priority class names with 'system-' prefix are reserved "
                                       "for system use only. error: %s",
                                       fault));
    } else if (pc->value > USER_PRIORITY_MAX) {
        cause_forbidden(v->causes, AT(NULL, "value"),
                        STR("maximum allowed value of a user defined priority is 1000000000"));
    }
    if (pc->has_preemption_policy)
        validate_choice_required(v, AT(NULL, "preemptionPolicy"), pc->preemption_policy,
                                 CHOICES(policies));
}

static void validate_disruption_budget(struct validator *v,
                                       const struct api_pod_disruption_budget *budget)
{
    static const struct str policies[] = {STR_INIT("AlwaysAllow"), STR_INIT("IfHealthyBudget")};
    const struct path *spec = AT(NULL, "spec");
    const struct api_pod_disruption_budget_spec *s = &budget->spec;
    if (s->min_available && s->max_unavailable)
        cause_invalid_json(v->causes, spec,
                           validate_show_internal_json(&api_pod_disruption_budget_spec_type, s,
                                                       scratch(v)),
                           STR("minAvailable and maxUnavailable cannot be both set"));
    validate_share(v, AT(spec, "minAvailable"), s->min_available);
    validate_share(v, AT(spec, "maxUnavailable"), s->max_unavailable);
    validate_label_selector(v, AT(spec, "selector"), s->selector);
    if (s->has_unhealthy_pod_eviction_policy)
        validate_choice(v, AT(spec, "unhealthyPodEvictionPolicy"), s->unhealthy_pod_eviction_policy,
                        CHOICES(policies));
}

static void check_budget_status(struct validator *v, const struct api_pod_disruption_budget *budget)
{
    const struct api_pod_disruption_budget_status *s = &budget->status;
    const struct path *at = AT(NULL, "status");
    validate_conditions(v, AT(at, "conditions"), &s->conditions);
    validate_not_negative(v, AT(at, "disruptionsAllowed"), s->disruptions_allowed);
    validate_not_negative(v, AT(at, "currentHealthy"), s->current_healthy);
    validate_not_negative(v, AT(at, "desiredHealthy"), s->desired_healthy);
    validate_not_negative(v, AT(at, "expectedPods"), s->expected_pods);
}

// --- Names ---------------------------------------------------------------------------------------

// Kinds whose names must be subdomains, or labels: more than a segment of a path.
static const struct api_type *const named_kinds[] = {
    &api_config_map_type,
    &api_secret_type,
    &api_service_account_type,
    &api_node_type,
    &api_namespace_type,
    &api_service_type,
    &api_limit_range_type,
    &api_resource_quota_type,
    &api_persistent_volume_claim_type,
    &api_persistent_volume_type,
    &api_endpoints_type,
    &api_replication_controller_type,
    &api_pod_template_type,
    &api_lease_type,
    &api_priority_class_type,
    &api_storage_class_type,
    &api_csi_driver_type,
    &api_csi_node_type,
    &api_csi_storage_capacity_type,
    &api_volume_attachment_type,
    &api_deployment_type,
    &api_replica_set_type,
    &api_daemon_set_type,
    &api_stateful_set_type,
    &api_controller_revision_type,
    &api_job_type,
    &api_cron_job_type,
    &api_pod_group_type,
    &api_runtime_class_type,
    &api_workload_type,
    &api_volume_attributes_class_type,
    &api_pod_certificate_request_type,
    &api_network_policy_type,
    &api_ingress_type,
    &api_ingress_class_type,
    &api_service_cidr_type,
    &api_endpoint_slice_type,
    &api_storage_version_migration_type,
    &api_flow_schema_type,
    &api_priority_level_configuration_type,
    &api_horizontal_pod_autoscaler_type,
};

static void check_kind_name(struct validator *v, const struct api_kind *kind,
                            const struct api_object_meta *meta)
{
    const struct api_type *t = kind->type;
    bool label = t == &api_namespace_type || t == &api_service_type;
    const struct name_rule rule = {.check = label ? name_dns_label : name_dns_subdomain,
                                   .characters = true};
    for (size_t i = 0; i < array_len(named_kinds); i++)
        if (named_kinds[i] == t)
            validate_object_meta(v, meta, kind->namespaced, &rule);
}

// --- Claims to volumes ---------------------------------------------------------------------------

static void check_claim_changes(struct validator *v, const struct path *spec,
                                const struct api_persistent_volume_claim *now,
                                const struct api_persistent_volume_claim *old)
{
    static const struct quantity nothing = {0};
    struct api_persistent_volume_claim_spec masked = now->spec;
    if (old->spec.volume_name.n == 0)
        masked.volume_name = old->spec.volume_name;
    // A claim without a class may get one, and the field the value of an older annotation.
    if (!volume_claim_names_class(old) ||
        (!old->spec.has_storage_class_name &&
         str_eq(volume_claim_class(old), now->spec.storage_class_name))) {
        masked.has_storage_class_name = false;
        masked.storage_class_name = (struct str){0};
    }
    if (str_eqz(now->status.phase, "Bound")) {
        masked.resources.requests = old->spec.resources.requests;
        masked.volume_attributes_class_name = old->spec.volume_attributes_class_name;
        masked.has_volume_attributes_class_name = old->spec.has_volume_attributes_class_name;
    }
    if (!api_equal(&api_persistent_volume_claim_spec_type, &masked, &old->spec))
        cause_forbidden(v->causes, spec,
                        STR("spec is immutable after creation except resources.requests and "
                            "volumeAttributesClassName for bound claims"));
    const struct quantity *size = amounts_get(&now->spec.resources.requests, STR("storage"));
    const struct quantity *was = amounts_get(&old->spec.resources.requests, STR("storage"));
    const struct quantity *have = amounts_get(&old->status.capacity, STR("storage"));
    if (quantity_cmp(size ? size : &nothing, was ? was : &nothing) < 0 &&
        quantity_cmp(size ? size : &nothing, have ? have : &nothing) <= 0)
        cause_forbidden(v->causes, AT(AT(AT(spec, "resources"), "requests"), "storage"),
                        STR("field can not be less than status.capacity"));
    if (now->spec.has_volume_mode != old->spec.has_volume_mode ||
        !str_eq(now->spec.volume_mode, old->spec.volume_mode))
        cause_invalid(v->causes, AT(NULL, "volumeMode"), now->spec.volume_mode,
                      STR("field is immutable"));
}

static void check_volume_claim(struct validator *v, const struct api_persistent_volume_claim *claim,
                               const struct api_persistent_volume_claim *old)
{
    validate_volume_claim_spec(v, AT(NULL, "spec"), &claim->spec);
    if (old)
        check_claim_changes(v, AT(NULL, "spec"), claim, old);
}

// --- RuntimeClass --------------------------------------------------------------------------------

static void check_runtime_class(struct validator *v, const struct api_runtime_class *class,
                                const struct api_runtime_class *old)
{
    const struct path *handler = AT(NULL, "handler");
    if (old) {
        validate_unchanged(v, handler, class->handler, old->handler);
        return;
    }
    if (!class->handler.n)
        cause_required(v->causes, handler, STR(""));
    else
        validate_named(v, handler, class->handler, name_dns_label);
    if (class->scheduling)
        validate_tolerations(v, AT(AT(NULL, "scheduling"), "tolerations"),
                             &class->scheduling->tolerations);
}

// --- Which kind ----------------------------------------------------------------------------------

static void check_small_kind(struct validator *v, const struct api_type *t, const void *value,
                             const void *old)
{
    if (t == &api_config_map_type)
        check_config_map(v, value, old);
    else if (t == &api_secret_type)
        check_secret(v, value, old);
    else if (t == &api_namespace_type)
        check_namespace_kind(v, value, old);
    else if (t == &api_event_type) {
        check_event(v, value);
        if (!old && str_eqz(v->version->group, "events.k8s.io"))
            check_new_event(v, value);
    } else if (t == &api_lease_type)
        check_lease(v, value);
    else if (t == &api_priority_class_type)
        check_priority_class(v, value, old);
    else if (t == &api_pod_disruption_budget_type)
        validate_disruption_budget(v, value);
    else if (t == &api_limit_range_type)
        validate_limit_range(v, value);
    else if (t == &api_resource_quota_type)
        validate_quota(v, value, old);
    else if (t == &api_service_type)
        validate_service(v, value, old);
    else if (t == &api_persistent_volume_claim_type)
        check_volume_claim(v, value, old);
    else if (t == &api_runtime_class_type)
        check_runtime_class(v, value, old);
    else if (t == &api_pod_group_type)
        validate_pod_group(v, value, !old);
    else if (t == &api_workload_type)
        validate_workload(v, value);
}

void validate_core_kind(struct validator *v, const struct api_object *object,
                        const struct api_object *old)
{
    const struct api_type *t = object->kind->type;
    bool status = v->op == API_STATUS_UPDATE;
    if (!old)
        check_kind_name(v, object->kind, api_object_meta(object));
    if (t == &api_node_type)
        validate_node(v, object->value, old ? old->value : NULL);
    else if (t == &api_certificate_signing_request_type)
        validate_certificate_request(v, object->value, old ? old->value : NULL);
    else if (t == &api_namespace_type && status)
        check_namespace_status(v, object->value);
    else if (t == &api_pod_disruption_budget_type && status)
        check_budget_status(v, object->value);
    else if (t == &api_pod_group_type && status)
        validate_pod_group_status(v, object->value);
    else if (!status)
        check_small_kind(v, t, object->value, old ? old->value : NULL);
}

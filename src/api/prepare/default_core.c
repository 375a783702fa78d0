// SPDX-License-Identifier: Apache-2.0
//
// Defaults of core, apps, batch, rbac and storage that depend on other fields. Left out: requests
// of whole pods (PodLevelResources), which only a feature gate brings.
#include <string.h>

#include "api/prepare/default.h"

#include "base/banned.h"

// fill_from adds to *map the entries of from whose keys it lacks.
static void fill_from(struct defaulter *d, struct api_quantity_map *map,
                      const struct api_quantity_map *from)
{
    struct api_quantity_entry *all =
        arena_array(d->arena, struct api_quantity_entry, map->n + from->n);
    size_t n = 0, i = 0, had = map->p ? map->n : 0;
    for (size_t j = 0; j < from->n; j++) {
        while (i < had && str_cmp(map->p[i].key, from->p[j].key) < 0)
            all[n++] = map->p[i++];
        if (i == had || !str_eq(map->p[i].key, from->p[j].key))
            all[n++] = from->p[j];
    }
    while (i < had)
        all[n++] = map->p[i++];
    map->p = all;
    map->n = n;
}

// Resources are kept to thousandths, rounded up.
static void round_resources(struct defaulter *d, struct api_quantity_map *map)
{
    for (size_t i = 0; i < map->n; i++)
        if (!quantity_is_whole_in(&map->p[i].value, -3))
            (void)quantity_round_up(&map->p[i].value, &map->p[i].value, -3, d->arena);
}

static void default_resources(struct defaulter *d, void *value)
{
    struct api_resource_requirements *resources = value;
    round_resources(d, &resources->limits);
    round_resources(d, &resources->requests);
}

static void default_volume_resources(struct defaulter *d, void *value)
{
    struct api_volume_resource_requirements *resources = value;
    round_resources(d, &resources->limits);
    round_resources(d, &resources->requests);
}

static void default_quota_spec(struct defaulter *d, void *value)
{
    round_resources(d, &((struct api_resource_quota_spec *)value)->hard);
}

static void default_quota_status(struct defaulter *d, void *value)
{
    struct api_resource_quota_status *status = value;
    round_resources(d, &status->hard);
    round_resources(d, &status->used);
}

static bool is_lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// is_path_part: small letters and digits, with single dots, one or two underscores or any number of
// dashes between them.
static bool is_path_part(struct str s)
{
    if (s.n == 0 || !is_lower_or_digit(s.p[0]) || !is_lower_or_digit(s.p[s.n - 1]))
        return false;
    for (size_t i = 1; i < s.n; i++) {
        char c = s.p[i], before = s.p[i - 1];
        if (is_lower_or_digit(c) || (c == '-' && (is_lower_or_digit(before) || before == '-')))
            continue;
        bool pair = c == '_' && before == '_' && is_lower_or_digit(s.p[i - 2]);
        if (!pair && ((c != '_' && c != '.') || !is_lower_or_digit(before)))
            return false;
    }
    return true;
}

// is_image_path reports whether a name without tag and digest can name an image. A first part with
// a dot, a colon or capitals is a registry's host, which is not looked at.
static bool is_image_path(struct str name)
{
    struct str part, rest = name;
    bool first = true;
    do {
        bool more = str_cut(rest, '/', &part, &rest);
        bool host = first && more &&
                    (str_find_char(part, '.') >= 0 || str_find_char(part, ':') >= 0 ||
                     str_eqz(part, "localhost"));
        if (!host && !is_path_part(part))
            return false;
        first = false;
        if (!more)
            return true;
    } while (true);
}

// pull_policy: an image with the tag latest, or with neither tag nor digest, is pulled always. So
// is an image with an invalid name, which validation rejects.
static struct str pull_policy(struct str image)
{
    struct str name, digest, tag = STR("latest");
    bool pinned = str_cut(image, '@', &name, &digest);
    ptrdiff_t slash = str_rfind_char(name, '/');
    ptrdiff_t colon = str_rfind_char(name, ':');
    if (colon > slash) {
        tag = str_from(name, (size_t)colon + 1);
        name = str_upto(name, (size_t)colon);
    } else if (pinned) {
        tag = STR("");
    }
    return str_eqz(tag, "latest") && is_image_path(name) ? STR("Always") : STR("IfNotPresent");
}

static void default_container(struct defaulter *d, void *value)
{
    (void)d;
    struct api_container *container = value;
    if (container->image_pull_policy.n == 0)
        container->image_pull_policy = pull_policy(container->image);
}

static void default_ephemeral_container(struct defaulter *d, void *value)
{
    (void)d;
    struct api_ephemeral_container_common *container = value;
    if (container->image_pull_policy.n == 0)
        container->image_pull_policy = pull_policy(container->image);
}

static void default_volume(struct defaulter *d, void *value)
{
    struct api_volume *volume = value;
    const struct api_type *t = &api_volume_source_type;
    bool any = false;
    for (size_t i = 0; i < t->fields_len && !any; i++)
        any = api_field_present(&t->fields[i], &volume->volume_source);
    if (!any)
        volume->volume_source.empty_dir = arena_one(d->arena, struct api_empty_dir_volume_source);
    struct api_image_volume_source *image = volume->volume_source.image;
    if (image && image->pull_policy.n == 0)
        image->pull_policy = pull_policy(image->reference);
}

static void default_containers(struct defaulter *d, struct api_container_array *containers,
                               bool host_network)
{
    for (size_t i = 0; i < containers->n; i++) {
        struct api_container *c = &containers->p[i];
        if (c->resources.limits.p)
            fill_from(d, &c->resources.requests, &c->resources.limits);
        for (size_t j = 0; host_network && j < c->ports.n; j++)
            if (c->ports.p[j].host_port == 0)
                c->ports.p[j].host_port = c->ports.p[j].container_port;
    }
}

static void default_pod(struct defaulter *d, void *value)
{
    struct api_pod *pod = value;
    struct api_pod_spec *spec = &pod->spec;
    if (spec->has_termination_grace_period_seconds && spec->termination_grace_period_seconds < 0)
        spec->termination_grace_period_seconds = 1;
    default_containers(d, &spec->containers, spec->host_network);
    default_containers(d, &spec->init_containers, spec->host_network);
    if (!spec->has_enable_service_links) {
        spec->has_enable_service_links = true;
        spec->enable_service_links = true;
    }
}

static void default_pod_spec(struct defaulter *d, void *value)
{
    struct api_pod_spec *spec = value;
    // The old name of the field follows the new one.
    if (spec->service_account_name.n == 0)
        spec->service_account_name = spec->service_account;
    spec->service_account = spec->service_account_name;
    round_resources(d, &spec->overhead);
}

static void default_pod_status(struct defaulter *d, void *value)
{
    struct api_pod_status *status = value;
    bool one = status->pod_ip.n > 0, many = status->pod_ips.n > 0;
    if (!one && many) {
        status->pod_ip = status->pod_ips.p[0].ip;
    } else if (one && (!many || !str_eq(status->pod_ips.p[0].ip, status->pod_ip))) {
        status->pod_ips.p = arena_one(d->arena, struct api_pod_ip);
        status->pod_ips.p->ip = status->pod_ip;
        status->pod_ips.n = 1;
    }
}

static void default_service_ports(struct api_service_port_array *ports)
{
    for (size_t i = 0; i < ports->n; i++) {
        struct api_service_port *port = &ports->p[i];
        struct api_int_or_string *target = &port->target_port;
        if (target->is_text ? target->text.n == 0 : target->number == 0)
            *target = (struct api_int_or_string){.number = port->port};
    }
}

// 3 hours, upstream's DefaultClientIPServiceAffinitySeconds.
#define CLIENT_IP_AFFINITY_SECONDS 10800

static void default_affinity(struct defaulter *d, struct api_service_spec *spec)
{
    if (spec->session_affinity.n == 0 || str_eqz(spec->session_affinity, "None")) {
        spec->session_affinity_config = NULL;
        return;
    }
    struct api_session_affinity_config *config = spec->session_affinity_config;
    if (!str_eqz(spec->session_affinity, "ClientIP") ||
        (config && config->client_ip && config->client_ip->has_timeout_seconds))
        return;
    config = arena_one(d->arena, struct api_session_affinity_config);
    config->client_ip = arena_one(d->arena, struct api_client_ip_config);
    config->client_ip->has_timeout_seconds = true;
    config->client_ip->timeout_seconds = CLIENT_IP_AFFINITY_SECONDS;
    spec->session_affinity_config = config;
}

static void default_service_spec(struct defaulter *d, void *value)
{
    struct api_service_spec *spec = value;
    bool cluster = spec->type.n == 0 || str_eqz(spec->type, "ClusterIP");
    bool balanced = str_eqz(spec->type, "LoadBalancer"), node = str_eqz(spec->type, "NodePort");
    default_affinity(d, spec);
    default_service_ports(&spec->ports);
    bool external = balanced || node || (cluster && spec->external_ips.n > 0);
    if (external && spec->external_traffic_policy.n == 0)
        spec->external_traffic_policy = STR("Cluster");
    if (!spec->has_internal_traffic_policy && (cluster || balanced || node)) {
        spec->has_internal_traffic_policy = true;
        spec->internal_traffic_policy = STR("Cluster");
    }
    if (balanced && !spec->has_allocate_load_balancer_node_ports) {
        spec->has_allocate_load_balancer_node_ports = true;
        spec->allocate_load_balancer_node_ports = true;
    }
}

static void default_service(struct defaulter *d, void *value)
{
    (void)d;
    struct api_service *service = value;
    struct api_load_balancer_ingress_array *ingress = &service->status.load_balancer.ingress;
    for (size_t i = 0; str_eqz(service->spec.type, "LoadBalancer") && i < ingress->n; i++) {
        if (ingress->p[i].ip.n && !ingress->p[i].has_ip_mode) {
            ingress->p[i].has_ip_mode = true;
            ingress->p[i].ip_mode = STR("VIP");
        }
    }
}

// put_label sets a label, keeping the map sorted.
static void put_label(struct defaulter *d, struct api_str_map *labels, struct str key,
                      struct str value)
{
    size_t at = 0;
    while (at < labels->n && str_cmp(labels->p[at].key, key) < 0)
        at++;
    if (at < labels->n && str_eq(labels->p[at].key, key)) {
        labels->p[at].value = value;
        return;
    }
    struct api_str_entry *wider = arena_array(d->arena, struct api_str_entry, labels->n + 1);
    if (at)
        memcpy(wider, labels->p, at * sizeof(*wider));
    wider[at] = (struct api_str_entry){key, value};
    if (at < labels->n)
        memcpy(wider + at + 1, labels->p + at, (labels->n - at) * sizeof(*wider));
    labels->p = wider;
    labels->n++;
}

static void default_namespace(struct defaulter *d, void *value)
{
    struct api_namespace *namespace = value;
    if (namespace->metadata.name.n)
        put_label(d, &namespace->metadata.labels, STR("kubernetes.io/metadata.name"),
                  namespace->metadata.name);
}

static void default_node_status(struct defaulter *d, void *value)
{
    struct api_node_status *status = value;
    round_resources(d, &status->capacity);
    if (!status->allocatable.p && status->capacity.p)
        fill_from(d, &status->allocatable, &status->capacity);
    round_resources(d, &status->allocatable);
}

static void default_limit_range_item(struct defaulter *d, void *value)
{
    struct api_limit_range_item *item = value;
    if (str_eqz(item->type, "Container")) {
        fill_from(d, &item->default_value, &item->max);
        fill_from(d, &item->default_request, &item->default_value);
        fill_from(d, &item->default_request, &item->min);
    }
    struct api_quantity_map *maps[] = {&item->max, &item->min, &item->default_value,
                                       &item->default_request, &item->max_limit_request_ratio};
    for (size_t i = 0; i < array_len(maps); i++)
        round_resources(d, maps[i]);
}

static void default_config_map(struct defaulter *d, void *value)
{
    struct api_config_map *map = value;
    if (!map->data.p)
        map->data.p = arena_array(d->arena, struct api_str_entry, 0);
}

static void default_replication_controller(struct defaulter *d, void *value)
{
    (void)d;
    struct api_replication_controller *rc = value;
    if (!rc->spec.template || !rc->spec.template->metadata.labels.p)
        return;
    if (rc->spec.selector.n == 0)
        rc->spec.selector = rc->spec.template->metadata.labels;
    if (rc->metadata.labels.n == 0)
        rc->metadata.labels = rc->spec.template->metadata.labels;
}

static bool is_rolling(struct str type)
{
    return type.n == 0 || str_eqz(type, "RollingUpdate");
}

// default_core_set_int_or_string gives *member a value if it has none.
static void default_core_set_int_or_string(struct defaulter *d, struct api_int_or_string **member,
                                           struct api_int_or_string value)
{
    if (*member)
        return;
    *member = arena_one(d->arena, struct api_int_or_string);
    **member = value;
}

static void default_deployment_strategy(struct defaulter *d, void *value)
{
    static const struct api_int_or_string quarter = {.text = STR_INIT("25%"), .is_text = true};
    struct api_deployment_strategy *strategy = value;
    if (!is_rolling(strategy->type))
        return;
    if (!strategy->rolling_update)
        strategy->rolling_update = arena_one(d->arena, struct api_rolling_update_deployment);
    default_core_set_int_or_string(d, &strategy->rolling_update->max_unavailable, quarter);
    default_core_set_int_or_string(d, &strategy->rolling_update->max_surge, quarter);
}

static void default_daemon_set_strategy(struct defaulter *d, void *value)
{
    struct api_daemon_set_update_strategy *strategy = value;
    if (!is_rolling(strategy->type))
        return;
    if (!strategy->rolling_update)
        strategy->rolling_update = arena_one(d->arena, struct api_rolling_update_daemon_set);
    default_core_set_int_or_string(d, &strategy->rolling_update->max_unavailable,
                                   (struct api_int_or_string){.number = 1});
    default_core_set_int_or_string(d, &strategy->rolling_update->max_surge,
                                   (struct api_int_or_string){0});
}

static void default_stateful_set_strategy(struct defaulter *d, void *value)
{
    struct api_stateful_set_update_strategy *strategy = value;
    if (strategy->type.n == 0 && !strategy->rolling_update)
        strategy->rolling_update =
            arena_one(d->arena, struct api_rolling_update_stateful_set_strategy);
    if (!is_rolling(strategy->type) || !strategy->rolling_update)
        return;
    strategy->type = STR("RollingUpdate");
    strategy->rolling_update->has_partition = true;
    default_core_set_int_or_string(d, &strategy->rolling_update->max_unavailable,
                                   (struct api_int_or_string){.number = 1});
}

// default_job: these are a Job's alone; the template of a CronJob stays as it is.
static void default_job(struct defaulter *d, void *value)
{
    (void)d;
    struct api_job *job = value;
    struct api_job_spec *spec = &job->spec;
    if (!spec->has_completions && !spec->has_parallelism) {
        spec->has_completions = true;
        spec->completions = 1;
    }
    if (!spec->has_parallelism)
        spec->parallelism = 1;
    if (!spec->has_backoff_limit)
        spec->backoff_limit = spec->has_backoff_limit_per_index ? INT32_MAX : 6;
    if (job->metadata.labels.n == 0 && spec->template.metadata.labels.p)
        job->metadata.labels = spec->template.metadata.labels;
    if (!spec->has_completion_mode)
        spec->completion_mode = STR("NonIndexed");
    if (!spec->has_pod_replacement_policy)
        spec->pod_replacement_policy =
            spec->pod_failure_policy ? STR("Failed") : STR("TerminatingOrFailed");
    spec->has_parallelism = spec->has_backoff_limit = spec->has_completion_mode = true;
    spec->has_pod_replacement_policy = spec->has_suspend = spec->has_manual_selector = true;
}

static void default_subject(struct defaulter *d, void *value)
{
    (void)d;
    struct api_subject *subject = value;
    if (subject->api_group.n == 0 &&
        (str_eqz(subject->kind, "User") || str_eqz(subject->kind, "Group")))
        subject->api_group = STR("rbac.authorization.k8s.io");
}

static void default_csi_driver(struct defaulter *d, void *value)
{
    struct api_csi_driver_spec *spec = value;
    if (spec->volume_lifecycle_modes.n > 0)
        return;
    spec->volume_lifecycle_modes.p = arena_one(d->arena, struct str);
    spec->volume_lifecycle_modes.p[0] = STR("Persistent");
    spec->volume_lifecycle_modes.n = 1;
}

static void default_network_policy(struct defaulter *d, void *value)
{
    struct api_network_policy_spec *spec = value;
    if (spec->policy_types.n > 0)
        return;
    spec->policy_types.p = arena_array(d->arena, struct str, 2);
    spec->policy_types.p[0] = STR("Ingress");
    spec->policy_types.p[1] = STR("Egress");
    spec->policy_types.n = spec->egress.n ? 2 : 1;
}

static void default_discovery_port(struct defaulter *d, void *value)
{
    (void)d;
    ((struct api_discovery_port *)value)->has_name = true;
}

// default_scaling_rules adds what one direction of an autoscaler's behaviour leaves out.
static void default_scaling_rules(struct defaulter *d, struct api_hpa_scaling_rules **rules,
                                  const struct api_hpa_scaling_policy *policies, size_t n)
{
    if (!*rules)
        *rules = arena_one(d->arena, struct api_hpa_scaling_rules);
    if (!(*rules)->has_select_policy)
        (*rules)->select_policy = STR("Max");
    (*rules)->has_select_policy = true;
    // An empty list that was sent stays empty and is refused.
    if ((*rules)->policies.p)
        return;
    (*rules)->policies.p = arena_array(d->arena, struct api_hpa_scaling_policy, n);
    (*rules)->policies.n = n;
    memcpy((*rules)->policies.p, policies, n * sizeof(*policies));
}

static void default_autoscaler_behavior(struct defaulter *d,
                                        struct api_horizontal_pod_autoscaler_behavior *behavior)
{
    static const struct api_hpa_scaling_policy up[] = {{STR_INIT("Pods"), 4, 15},
                                                       {STR_INIT("Percent"), 100, 15}};
    static const struct api_hpa_scaling_policy down[] = {{STR_INIT("Percent"), 100, 15}};
    default_scaling_rules(d, &behavior->scale_up, up, array_len(up));
    behavior->scale_up->has_stabilization_window_seconds = true;
    default_scaling_rules(d, &behavior->scale_down, down, array_len(down));
}

// An autoscaler without metrics scales by CPU utilization.
static void default_autoscaler(struct defaulter *d, void *value)
{
    struct api_horizontal_pod_autoscaler_spec *spec = value;
    if (spec->behavior)
        default_autoscaler_behavior(d, spec->behavior);
    if (spec->metrics.n > 0)
        return;
    struct api_metric_spec *metric = arena_one(d->arena, struct api_metric_spec);
    metric->type = STR("Resource");
    metric->resource = arena_one(d->arena, struct api_resource_metric_source);
    *metric->resource =
        (struct api_resource_metric_source){.name = STR("cpu"),
                                            .target = {.type = STR("Utilization"),
                                                       .has_average_utilization = true,
                                                       .average_utilization = 80}};
    spec->metrics = (struct api_metric_spec_array){metric, 1};
}

default_hook *default_core_hook(const struct api_type *t)
{
    static const struct {
        const struct api_type *type;
        default_hook *hook;
    } hooks[] = {
        {&api_resource_requirements_type, default_resources},
        {&api_volume_resource_requirements_type, default_volume_resources},
        {&api_resource_quota_spec_type, default_quota_spec},
        {&api_resource_quota_status_type, default_quota_status},
        {&api_container_type, default_container},
        {&api_ephemeral_container_common_type, default_ephemeral_container},
        {&api_volume_type, default_volume},
        {&api_pod_type, default_pod},
        {&api_pod_spec_type, default_pod_spec},
        {&api_pod_status_type, default_pod_status},
        {&api_service_spec_type, default_service_spec},
        {&api_service_type, default_service},
        {&api_namespace_type, default_namespace},
        {&api_node_status_type, default_node_status},
        {&api_limit_range_item_type, default_limit_range_item},
        {&api_config_map_type, default_config_map},
        {&api_replication_controller_type, default_replication_controller},
        {&api_deployment_strategy_type, default_deployment_strategy},
        {&api_daemon_set_update_strategy_type, default_daemon_set_strategy},
        {&api_stateful_set_update_strategy_type, default_stateful_set_strategy},
        {&api_job_type, default_job},
        {&api_subject_type, default_subject},
        {&api_csi_driver_spec_type, default_csi_driver},
        {&api_network_policy_spec_type, default_network_policy},
        {&api_discovery_port_type, default_discovery_port},
        {&api_horizontal_pod_autoscaler_spec_type, default_autoscaler},
    };
    for (size_t i = 0; i < array_len(hooks); i++)
        if (hooks[i].type == t)
            return hooks[i].hook;
    return NULL;
}

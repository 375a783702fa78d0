// SPDX-License-Identifier: Apache-2.0
//
// Services: types, ports, addresses. Fields that a load balancer or an allocator of addresses would
// fill in are not required.
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define AFFINITY_SECONDS_MAX 86400

static bool is_headless(const struct api_service_spec *s)
{
    return s->cluster_ips.n == 1 && str_eqz(s->cluster_ips.p[0], "None");
}

static bool is_type(const struct api_service_spec *s, const char *type)
{
    return str_eqz(s->type, type);
}

// --- Ports ---------------------------------------------------------------------------------------

static void check_service_port(struct validator *v, const struct path *at,
                               const struct api_service_port *port, bool named)
{
    static const struct str protocols[] = {STR_INIT("SCTP"), STR_INIT("TCP"), STR_INIT("UDP")};
    if (named && port->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR(""));
    else if (port->name.n)
        validate_named(v, AT(at, "name"), port->name, name_dns_label);
    validate_port(v, AT(at, "port"), port->port);
    validate_choice_required(v, AT(at, "protocol"), port->protocol, CHOICES(protocols));
    validate_port_or_name(v, AT(at, "targetPort"), &port->target_port);
    if (port->has_app_protocol)
        validate_named(v, AT(at, "appProtocol"), port->app_protocol, name_label_key);
}

static void check_service_ports(struct validator *v, const struct path *list,
                                const struct api_service_spec *s)
{
    cleanup_seen struct seen names = {0}, numbers = {0}, nodes = {0};
    for (size_t i = 0; i < s->ports.n && !causes_full(v->causes); i++) {
        const struct api_service_port *port = &s->ports.p[i];
        const struct path *at = AT_ITEM(list, i);
        check_service_port(v, at, port, s->ports.n > 1);
        if (port->name.n && seen_add(&names, port->name))
            cause_duplicate(v->causes, AT(at, "name"), port->name);
        if (port->node_port && is_type(s, "ClusterIP"))
            cause_forbidden(v->causes, AT(at, "nodePort"),
                            STR("may not be used when `type` is 'ClusterIP'"));
        struct str node =
            arena_strf(scratch(v), "%.*s %d", STR_ARG(port->protocol), port->node_port);
        if (port->node_port && seen_add(&nodes, node))
            cause_duplicate_json(v->causes, AT(at, "nodePort"),
                                 arena_strf(scratch(v), "%d", port->node_port));
        struct str number = arena_strf(scratch(v), "%.*s %d", STR_ARG(port->protocol), port->port);
        const struct api_service_port key = {.protocol = port->protocol, .port = port->port};
        if (seen_add(&numbers, number))
            cause_duplicate_json(v->causes, at,
                                 validate_show_internal_json(&api_service_port_type, &key,
                                                             scratch(v)));
    }
}

// --- Addresses -----------------------------------------------------------------------------------

static void check_external_name(struct validator *v, const struct path *spec,
                                const struct api_service_spec *s)
{
    static const struct str why = STR_INIT("may not be set for ExternalName services");
    struct str name = s->external_name;
    if (s->cluster_ips.n)
        cause_forbidden(v->causes, AT(spec, "clusterIPs"), why);
    if (s->ip_families.n)
        cause_forbidden(v->causes, AT(spec, "ipFamilies"), why);
    if (s->has_ip_family_policy)
        cause_forbidden(v->causes, AT(spec, "ipFamilyPolicy"), why);
    if (str_ends(name, STR(".")))
        name.n--;
    validate_required(v, AT(spec, "externalName"), name);
    if (name.n)
        validate_named(v, AT(spec, "externalName"), name, name_dns_subdomain);
}

static void check_families(struct validator *v, const struct path *spec,
                           const struct api_service_spec *s)
{
    static const struct str families[] = {STR_INIT("IPv4"), STR_INIT("IPv6")};
    static const struct str policies[] = {STR_INIT("PreferDualStack"), STR_INIT("RequireDualStack"),
                                          STR_INIT("SingleStack")};
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < s->ip_families.n && !causes_full(v->causes); i++) {
        const struct path *at = AT_ITEM(AT(spec, "ipFamilies"), i);
        validate_choice(v, at, s->ip_families.p[i], CHOICES(families));
        if (seen_add(&seen, s->ip_families.p[i]))
            cause_duplicate(v->causes, at, s->ip_families.p[i]);
    }
    if (s->has_ip_family_policy)
        validate_choice(v, AT(spec, "ipFamilyPolicy"), s->ip_family_policy, CHOICES(policies));
}

// False when an address is none, so that more would say the same.
static bool check_cluster_addresses(struct validator *v, const struct path *at,
                                    const struct api_service_spec *s)
{
    struct str shown = validate_show_strings(s->cluster_ips.p, s->cluster_ips.n, scratch(v));
    size_t before = v->causes->n;
    for (size_t i = 0; i < s->cluster_ips.n && !causes_full(v->causes); i++) {
        if (i > 0 || !str_eqz(s->cluster_ips.p[i], "None"))
            validate_ip(v, AT_ITEM(at, i), s->cluster_ips.p[i]);
        else if (s->cluster_ips.n > 1)
            cause_invalid_json(v->causes, at, shown,
                               STR("'None' must be the first and only value"));
    }
    bool good = v->causes->n == before;
    if (s->cluster_ips.n > 2)
        cause_invalid_json(v->causes, at, shown, STR("may only hold up to 2 values"));
    return good;
}

static void check_stacks(struct validator *v, const struct path *at,
                         const struct api_service_spec *s)
{
    const struct api_str_array *ips = &s->cluster_ips;
    size_t six = 0;
    for (size_t i = 0; i < ips->n; i++)
        six += name_is_ipv6(ips->p[i]);
    if (ips->n > 1 && (six == 0 || six == ips->n))
        cause_invalid_json(v->causes, at, validate_show_strings(ips->p, ips->n, scratch(v)),
                           STR("may specify no more than one IP for each IP family"));
    for (size_t i = 0; !is_headless(s) && i < ips->n && i < s->ip_families.n; i++) {
        struct str family = s->ip_families.p[i];
        bool wants_six = str_eqz(family, "IPv6");
        if ((wants_six || str_eqz(family, "IPv4")) && wants_six != name_is_ipv6(ips->p[i]))
            cause_invalid(v->causes, AT_ITEM(at, i), ips->p[i],
                          arena_strf(scratch(v),
                                     "expected an %.*s value as indicated by `ipFamilies[%zu]`",
                                     STR_ARG(family), i));
    }
}

static void check_cluster_ips(struct validator *v, const struct path *spec,
                              const struct api_service_spec *s)
{
    const struct path *at = AT(spec, "clusterIPs");
    struct str shown = validate_show_strings(s->cluster_ips.p, s->cluster_ips.n, scratch(v));
    if (is_type(s, "ExternalName"))
        return;
    if (s->cluster_ip.n && s->cluster_ips.n == 0)
        cause_required(v->causes, at, STR(""));
    else if (s->cluster_ip.n && !str_eq(s->cluster_ips.p[0], s->cluster_ip))
        cause_invalid_json(v->causes, at, shown, STR("first value must match `clusterIP`"));
    else if (s->cluster_ip.n == 0 && s->cluster_ips.n)
        cause_invalid_json(v->causes, at, shown,
                           STR("must be empty when `clusterIP` is not specified"));
    check_families(v, spec, s);
    if (check_cluster_addresses(v, at, s))
        check_stacks(v, at, s);
}

// --- Ways of traffic -----------------------------------------------------------------------------

static void check_affinity_config(struct validator *v, const struct path *spec,
                                  const struct api_service_spec *s)
{
    static const struct str kinds[] = {STR_INIT("ClientIP"), STR_INIT("None")};
    static const struct str why = STR_INIT("when session affinity type is ClientIP");
    const struct path *at = AT(spec, "sessionAffinityConfig"), *client = AT(at, "clientIP");
    const struct api_session_affinity_config *c = s->session_affinity_config;
    validate_choice_required(v, AT(spec, "sessionAffinity"), s->session_affinity, CHOICES(kinds));
    if (str_eqz(s->session_affinity, "None") && c)
        cause_forbidden(v->causes, at, STR("must not be set when session affinity is None"));
    if (!str_eqz(s->session_affinity, "ClientIP"))
        return;
    if (!c)
        cause_required(v->causes, at, why);
    else if (!c->client_ip)
        cause_required(v->causes, client, why);
    else if (!c->client_ip->has_timeout_seconds)
        cause_required(v->causes, AT(client, "timeoutSeconds"), why);
    else if (c->client_ip->timeout_seconds <= 0 ||
             c->client_ip->timeout_seconds > AFFINITY_SECONDS_MAX)
        cause_invalid_i64(v->causes, AT(client, "timeoutSeconds"), c->client_ip->timeout_seconds,
                          STR("must be greater than 0 and less than 86400"));
}

static void check_load_balancer(struct validator *v, const struct path *spec,
                                const struct api_service_spec *s)
{
    static const struct str why = STR_INIT("may only be used when `type` is 'LoadBalancer'");
    bool balanced = is_type(s, "LoadBalancer");
    if (s->load_balancer_source_ranges.n && !balanced)
        cause_forbidden(v->causes, AT(spec, "LoadBalancerSourceRanges"), why);
    for (size_t i = 0; i < s->load_balancer_source_ranges.n && !causes_full(v->causes); i++) {
        cleanup_sbuf struct sbuf b = {0};
        struct str range = str_trim(s->load_balancer_source_ranges.p[i]);
        if (!name_canonical_interface_address(range, &b))
            cause_invalid(v->causes, AT_ITEM(AT(spec, "LoadBalancerSourceRanges"), i), range,
                          STR("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
    }
    if (s->has_allocate_load_balancer_node_ports && !balanced)
        cause_forbidden(v->causes, AT(spec, "allocateLoadBalancerNodePorts"), why);
    if (s->has_load_balancer_class && !balanced)
        cause_forbidden(v->causes, AT(spec, "loadBalancerClass"), why);
    else if (s->has_load_balancer_class)
        validate_named(v, AT(spec, "loadBalancerClass"), s->load_balancer_class, name_label_key);
}

static void check_traffic(struct validator *v, const struct path *spec,
                          const struct api_service_spec *s)
{
    static const struct str scopes[] = {STR_INIT("Cluster"), STR_INIT("Local")};
    static const struct str ways[] = {STR_INIT("PreferClose"), STR_INIT("PreferSameZone"),
                                      STR_INIT("PreferSameNode")};
    const struct path *external = AT(spec, "externalTrafficPolicy");
    bool reachable = is_type(s, "LoadBalancer") || is_type(s, "NodePort") ||
                     (is_type(s, "ClusterIP") && s->external_ips.n);
    if (reachable)
        validate_choice_required(v, external, s->external_traffic_policy, CHOICES(scopes));
    else if (s->external_traffic_policy.n)
        cause_invalid(v->causes, external, s->external_traffic_policy,
                      STR("may only be set for externally-accessible services"));
    bool checked = is_type(s, "LoadBalancer") && str_eqz(s->external_traffic_policy, "Local");
    if (!checked && s->health_check_node_port)
        cause_invalid_i64(v->causes, AT(spec, "healthCheckNodePort"), s->health_check_node_port,
                          STR("may only be set when `type` is 'LoadBalancer' and "
                              "`externalTrafficPolicy` is 'Local'"));
    else if (s->health_check_node_port)
        validate_port(v, AT(spec, "healthCheckNodePort"), s->health_check_node_port);
    if (s->has_internal_traffic_policy)
        validate_choice(v, AT(spec, "internalTrafficPolicy"), s->internal_traffic_policy,
                        CHOICES(scopes));
    if (s->has_traffic_distribution)
        validate_choice(v, AT(spec, "trafficDistribution"), s->traffic_distribution, CHOICES(ways));
}

// --- The whole -----------------------------------------------------------------------------------

static void check_service_type(struct validator *v, const struct path *spec,
                               const struct api_service_spec *s)
{
    static const struct str types[] = {STR_INIT("ClusterIP"), STR_INIT("ExternalName"),
                                       STR_INIT("LoadBalancer"), STR_INIT("NodePort")};
    bool ported = is_type(s, "LoadBalancer") || is_type(s, "NodePort");
    if (s->ports.n == 0 && !is_headless(s) && !is_type(s, "ExternalName"))
        cause_required(v->causes, AT(spec, "ports"), STR(""));
    if (ported && is_headless(s))
        cause_invalid(v->causes, AT_ITEM(AT(spec, "clusterIPs"), 0), s->cluster_ips.p[0],
                      arena_strf(scratch(v), "may not be set to 'None' for %.*s services",
                                 STR_ARG(s->type)));
    if (is_type(s, "ExternalName"))
        check_external_name(v, spec, s);
    validate_choice_required(v, AT(spec, "type"), s->type, CHOICES(types));
}

static void check_service_changes(struct validator *v, const struct path *spec,
                                  const struct api_service_spec *now,
                                  const struct api_service_spec *old)
{
    bool addressed = !is_type(now, "ExternalName") && !is_type(old, "ExternalName");
    if (addressed && old->cluster_ips.n && now->cluster_ips.n &&
        !str_eq(now->cluster_ips.p[0], old->cluster_ips.p[0]))
        cause_invalid_json(v->causes, AT_ITEM(AT(spec, "clusterIPs"), 0),
                           validate_show_strings(now->cluster_ips.p, now->cluster_ips.n,
                                                 scratch(v)),
                           STR("may not change once set"));
    bool counted = addressed && !is_headless(now) && !is_headless(old) &&
                   now->ip_families.n == old->ip_families.n;
    for (size_t i = 0; counted && i < now->ip_families.n; i++)
        if (!str_eq(now->ip_families.p[i], old->ip_families.p[i]))
            cause_invalid_json(v->causes, AT_ITEM(AT(spec, "ipFamilies"), 0),
                               validate_show_strings(now->ip_families.p, now->ip_families.n,
                                                     scratch(v)),
                               STR("may not change once set"));
    bool balanced = is_type(now, "LoadBalancer") && is_type(old, "LoadBalancer");
    if (balanced && !str_eq(now->load_balancer_class, old->load_balancer_class))
        cause_invalid(v->causes, AT(spec, "loadBalancerClass"), now->load_balancer_class,
                      STR("may not change once set"));
}

void validate_service(struct validator *v, const struct api_service *service,
                      const struct api_service *old)
{
    const struct path *spec = AT(NULL, "spec");
    const struct api_service_spec *s = &service->spec;
    if (old)
        check_service_changes(v, spec, s, &old->spec);
    check_service_type(v, spec, s);
    check_service_ports(v, AT(spec, "ports"), s);
    validate_labels(v, AT(spec, "selector"), &s->selector);
    check_affinity_config(v, spec, s);
    check_cluster_ips(v, spec, s);
    for (size_t i = 0; i < s->external_ips.n && !causes_full(v->causes); i++)
        validate_ip(v, AT_ITEM(AT(spec, "externalIPs"), i), s->external_ips.p[i]);
    check_load_balancer(v, spec, s);
    check_traffic(v, spec, s);
}

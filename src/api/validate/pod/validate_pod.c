// SPDX-License-Identifier: Apache-2.0
//
// Pods and pod templates: the spec as a whole, what claims it names, and what may change later.
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/validate/validate_core.h"

#include "base/banned.h"

#define NAMESERVERS_MAX    3
#define SEARCHES_MAX       32
#define SEARCH_BYTES_MAX   2048
#define HOSTNAME_BYTES_MAX 64

static const char mirror_annotation[] = "kubernetes.io/config.mirror";

static bool has_annotation(const struct api_object_meta *meta, const char *key)
{
    return api_map_find(&meta->annotations, str_z(key)) != NULL;
}

// --- spec.resourceClaims -------------------------------------------------------------------------

static void check_claim_source(struct validator *v, const struct path *at,
                               const struct api_pod_resource_claim *c)
{
    struct str shown = validate_show_internal_json(&api_pod_resource_claim_type, c, scratch(v));
    if (c->has_resource_claim_name && c->has_resource_claim_template_name)
        cause_invalid_json(v->causes, at, shown,
                           STR("at most one of `resourceClaimName` or `resourceClaimTemplateName` "
                               "may be specified"));
    if (!c->has_resource_claim_name && !c->has_resource_claim_template_name)
        cause_invalid_json(v->causes, at, shown,
                           STR("must specify one of: `resourceClaimName`, "
                               "`resourceClaimTemplateName`"));
    if (c->has_resource_claim_name)
        validate_named(v, AT(at, "resourceClaimName"), c->resource_claim_name, name_dns_subdomain);
    if (c->has_resource_claim_template_name)
        validate_named(v, AT(at, "resourceClaimTemplateName"), c->resource_claim_template_name,
                       name_dns_subdomain);
}

static void check_pod_claims(struct validator *v, const struct path *at,
                             const struct api_object_meta *meta,
                             const struct api_pod_resource_claim_array *claims)
{
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < claims->n; i++) {
        const struct api_pod_resource_claim *c = &claims->p[i];
        const struct path *name = AT(AT_ITEM(at, i), "name");
        if (meta && has_annotation(meta, mirror_annotation)) {
            cause_forbidden(v->causes, AT(NULL, ""),
                            STR("static pods do not support resource claims"));
            continue;
        }
        if (c->name.n == 0)
            cause_required(v->causes, name, STR(""));
        else if (seen_add(&names, c->name))
            cause_duplicate(v->causes, name, c->name);
        else
            validate_named(v, name, c->name, name_dns_label);
        check_claim_source(v, AT_ITEM(at, i), c);
    }
}

// --- resources.claims ----------------------------------------------------------------------------

static struct str missing_claim(struct pod_rules *c)
{
    cleanup_sbuf struct sbuf b = {0};
    cleanup_seen struct seen names = {0};
    struct arena *arena = scratch(c->v);
    size_t n = 0;
    const struct api_pod_resource_claim_array *claims = &c->spec->resource_claims;
    if (c->missing_claim.n)
        return c->missing_claim;
    struct str *sorted = arena_array(arena, struct str, claims->n + 1);
    for (size_t i = 0; i < claims->n; i++)
        if (claims->p[i].name.n && !seen_add(&names, claims->p[i].name))
            sorted[n++] = claims->p[i].name;
    qsort(sorted, n, sizeof(*sorted), str_cmp_elements);
    sbuf_addz(&b, "must be one of the names in pod.spec.resourceClaims");
    sbuf_addz(&b, n ? ": " : " which is empty");
    for (size_t i = 0; i < n; i++)
        sbuf_addf(&b, "%s%.*s", i ? ", " : "", STR_ARG(sorted[i]));
    c->missing_claim = arena_str(arena, sbuf_str(&b));
    return c->missing_claim;
}

// The claims that a container has named so far.
struct named {
    struct seen whole; // names of claims
    struct seen keys;  // name, or name/request
    struct seen parts; // names of claims of which single requests were named
};

static void check_reference(struct pod_rules *p, const struct path *item,
                            const struct api_container_resource_claim *c, struct named *named)
{
    struct validator *v = p->v;
    if (map_has(&named->whole, c->name)) {
        cause_duplicate(v->causes, item, c->name);
        return;
    }
    struct str key = c->name;
    if (c->request.n) {
        validate_named(v, AT(item, "request"), c->request, name_dns_label);
        key = arena_strf(scratch(v), "%.*s/%.*s", STR_ARG(c->name), STR_ARG(c->request));
        (void)seen_add(&named->parts, c->name);
    } else if (map_has(&named->parts, c->name)) {
        // The claim as a whole and one of its requests.
        cause_duplicate(v->causes, item, c->name);
    }
    if (seen_add(&named->keys, key))
        cause_duplicate(v->causes, item, key);
    if (c->request.n == 0)
        (void)seen_add(&named->whole, c->name);
}

void validate_claim_names(struct pod_rules *p, const struct path *at,
                          const struct api_container_resource_claim_array *claims)
{
    struct named named = {0};
    for (size_t i = 0; i < claims->n && !causes_full(p->v->causes); i++) {
        const struct api_container_resource_claim *c = &claims->p[i];
        const struct path *item = AT_ITEM(at, i);
        if (c->name.n == 0) {
            cause_required(p->v->causes, item, STR(""));
            continue;
        }
        check_reference(p, item, c, &named);
        if (!map_has(&p->claims, c->name))
            cause_not_found_because(p->v->causes, item, c->name, missing_claim(p));
    }
    seen_done(&named.whole);
    seen_done(&named.keys);
    seen_done(&named.parts);
}

// --- Networks and names --------------------------------------------------------------------------

static void check_searches(struct validator *v, const struct path *at,
                           const struct api_str_array *searches)
{
    size_t bytes = searches->n ? searches->n - 1 : 0;
    for (size_t i = 0; i < searches->n; i++)
        bytes += searches->p[i].n;
    if (searches->n > SEARCHES_MAX)
        cause_invalid_json(v->causes, at,
                           validate_show_strings(searches->p, searches->n, scratch(v)),
                           STR("must not have more than 32 search paths"));
    if (bytes > SEARCH_BYTES_MAX)
        cause_invalid_json(
            v->causes, at, validate_show_strings(searches->p, searches->n, scratch(v)),
            STR("must not have more than 2048 characters (including spaces) in the search list"));
    for (size_t i = 0; i < searches->n && !causes_full(v->causes); i++) {
        struct str s = searches->p[i];
        if (str_eqz(s, "."))
            continue;
        if (str_ends(s, STR(".")))
            s.n--;
        validate_named(v, AT_ITEM(at, i), s, name_dns_search);
    }
}

static void check_dns(struct validator *v, const struct path *spec, const struct api_pod_spec *s)
{
    const struct path *at = AT(spec, "dnsConfig"), *servers = AT(at, "nameservers");
    const struct api_pod_dns_config *c = s->dns_config;
    if (str_eqz(s->dns_policy, "None") && !c) {
        cause_required(v->causes, at, STR("must provide `dnsConfig` when `dnsPolicy` is None"));
        return;
    }
    if (str_eqz(s->dns_policy, "None") && c->nameservers.n == 0) {
        cause_required(v->causes, servers,
                       STR("must provide at least one DNS nameserver when `dnsPolicy` is None"));
        return;
    }
    if (!c)
        return;
    if (c->nameservers.n > NAMESERVERS_MAX)
        cause_invalid_json(v->causes, servers,
                           validate_show_strings(c->nameservers.p, c->nameservers.n, scratch(v)),
                           STR("must not have more than 3 nameservers"));
    for (size_t i = 0; i < c->nameservers.n && !causes_full(v->causes); i++)
        validate_ip(v, AT_ITEM(servers, i), c->nameservers.p[i]);
    check_searches(v, AT(at, "searches"), &c->searches);
    for (size_t i = 0; i < c->options.n; i++)
        if (c->options.p[i].name.n == 0)
            cause_required(v->causes, AT_ITEM(AT(at, "options"), i), STR("must not be empty"));
}

// Ports of a pod in the host's network are the host's.
static void check_host_network(struct pod_rules *p, const struct path *spec)
{
    const struct api_container_array *all = &p->spec->containers;
    for (size_t i = 0; p->spec->host_network && i < all->n; i++) {
        const struct path *ports = AT(AT_ITEM(AT(spec, "containers"), i), "ports");
        for (size_t j = 0; j < all->p[i].ports.n; j++) {
            const struct api_container_port *port = &all->p[i].ports.p[j];
            if ((p->meta || port->host_port) && port->host_port != port->container_port)
                cause_invalid_i64(p->v->causes, AT(AT_ITEM(ports, j), "hostPort"), port->host_port,
                                  STR("must match `containerPort` when `hostNetwork` is true"));
        }
    }
}

static void check_no_devices(struct pod_rules *p, const struct path *at,
                             const struct api_container *c)
{
    if (c->volume_devices.n)
        cause_forbidden(p->v->causes, AT(at, "volumeDevices"), STR("when `hostUsers` is false"));
}

// A user namespace of its own goes with few of the host's other namespaces.
static void check_host_users(struct pod_rules *p, const struct path *spec)
{
    static const struct str why = STR_INIT("when `hostUsers` is false");
    if (p->host_users)
        return;
    if (p->spec->host_network)
        cause_forbidden(p->v->causes, AT(spec, "hostNetwork"), why);
    if (p->spec->host_pid)
        cause_forbidden(p->v->causes, AT(spec, "HostPID"), why);
    if (p->spec->host_ipc)
        cause_forbidden(p->v->causes, AT(spec, "HostIPC"), why);
    validate_each_container(p, spec, check_no_devices);
}

static void check_host_names(struct validator *v, const struct path *spec,
                             const struct api_pod_spec *s)
{
    const struct path *override = AT(spec, "hostnameOverride");
    if (s->hostname.n)
        validate_named(v, AT(spec, "hostname"), s->hostname, name_dns_label);
    if (s->subdomain.n)
        validate_named(v, AT(spec, "subdomain"), s->subdomain, name_dns_label);
    for (size_t i = 0; i < s->host_aliases.n && !causes_full(v->causes); i++) {
        const struct path *at = AT_ITEM(AT(spec, "hostAliases"), i);
        validate_ip(v, AT(at, "ip"), s->host_aliases.p[i].ip);
        const struct api_str_array *names = &s->host_aliases.p[i].hostnames;
        for (size_t j = 0; j < names->n; j++)
            validate_named(v, AT_ITEM(AT(at, "hostnames"), j), names->p[j], name_dns_subdomain);
    }
    if (!s->has_hostname_override)
        return;
    if (s->has_set_hostname_as_fqdn && s->set_hostname_as_fqdn)
        cause_forbidden(v->causes, override,
                        STR("may not be specified when setHostnameAsFQDN is true"));
    if (s->host_network)
        cause_forbidden(v->causes, override, STR("may not be specified when hostNetwork is true"));
    if (s->hostname_override.n > HOSTNAME_BYTES_MAX)
        cause_too_long(v->causes, override, HOSTNAME_BYTES_MAX);
    validate_named(v, override, s->hostname_override, name_dns_subdomain);
}

// --- Names of other objects ----------------------------------------------------------------------

static void check_references(struct validator *v, const struct path *spec,
                             const struct api_pod_spec *s)
{
    if (s->service_account_name.n)
        validate_named(v, AT(spec, "serviceAccountName"), s->service_account_name,
                       name_dns_subdomain);
    if (s->node_name.n)
        validate_named(v, AT(spec, "nodeName"), s->node_name, name_dns_subdomain);
    if (s->priority_class_name.n)
        validate_named(v, AT(spec, "priorityClassName"), s->priority_class_name,
                       name_dns_subdomain);
    if (s->has_runtime_class_name)
        validate_named(v, AT(spec, "runtimeClassName"), s->runtime_class_name, name_dns_subdomain);
    const struct path *group = AT(AT(spec, "schedulingGroup"), "podGroupName");
    if (s->scheduling_group && !s->scheduling_group->has_pod_group_name)
        cause_invalid_json(v->causes, group, STR("null"),
                           STR("must specify one of: `podGroupName`"));
    else if (s->scheduling_group)
        validate_named(v, group, s->scheduling_group->pod_group_name, name_dns_subdomain);
}

static void check_policies(struct validator *v, const struct path *spec,
                           const struct api_pod_spec *s)
{
    static const struct str restarts[] = {STR_INIT("Always"), STR_INIT("OnFailure"),
                                          STR_INIT("Never")};
    static const struct str dns[] = {STR_INIT("ClusterFirstWithHostNet"), STR_INIT("ClusterFirst"),
                                     STR_INIT("Default"), STR_INIT("None")};
    static const struct str preemption[] = {STR_INIT("PreemptLowerPriority"), STR_INIT("Never")};
    validate_choice_required(v, AT(spec, "restartPolicy"), s->restart_policy, CHOICES(restarts));
    validate_choice_required(v, AT(spec, "dnsPolicy"), s->dns_policy, CHOICES(dns));
    if (s->has_preemption_policy)
        validate_choice_required(v, AT(spec, "preemptionPolicy"), s->preemption_policy,
                                 CHOICES(preemption));
    if (s->has_active_deadline_seconds)
        validate_between(v, AT(spec, "activeDeadlineSeconds"), s->active_deadline_seconds, 1,
                         INT32_MAX);
}

static void check_gates(struct validator *v, const struct path *spec, const struct api_pod_spec *s)
{
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < s->readiness_gates.n && !causes_full(v->causes); i++)
        validate_named(v, AT(AT_ITEM(AT(spec, "readinessGates"), i), "conditionType"),
                       s->readiness_gates.p[i].condition_type, name_label_key);
    for (size_t i = 0; i < s->scheduling_gates.n && !causes_full(v->causes); i++) {
        const struct path *at = AT_ITEM(AT(spec, "schedulingGates"), i);
        validate_named(v, at, s->scheduling_gates.p[i].name, name_label_key);
        if (seen_add(&seen, s->scheduling_gates.p[i].name))
            cause_duplicate(v->causes, at, s->scheduling_gates.p[i].name);
    }
}

// --- Operating systems ---------------------------------------------------------------------------

static void check_linux_container(struct pod_rules *p, const struct path *at,
                                  const struct api_container *c)
{
    if (c->security_context && c->security_context->windows_options)
        cause_forbidden(p->v->causes, AT(AT(at, "securityContext"), "windowsOptions"),
                        STR("windows options cannot be set for a linux pod"));
}

// What a Windows pod cannot have, by the names of the fields.
static void refuse_fields(struct validator *v, const struct path *at, const struct api_type *t,
                          const void *value, struct choices names)
{
    for (size_t i = 0; value && i < names.n; i++)
        if (api_field_present(api_type_field(t, names.p[i]), value))
            cause_forbidden(v->causes, AT_NAME(at, names.p[i]),
                            STR("cannot be set for a windows pod"));
}

static void check_windows_container(struct pod_rules *p, const struct path *at,
                                    const struct api_container *c)
{
    static const struct str names[] = {
        STR_INIT("appArmorProfile"),
        STR_INIT("seLinuxOptions"),
        STR_INIT("seccompProfile"),
        STR_INIT("capabilities"),
        STR_INIT("readOnlyRootFilesystem"),
        STR_INIT("privileged"),
        STR_INIT("allowPrivilegeEscalation"),
        STR_INIT("procMount"),
        STR_INIT("runAsUser"),
        STR_INIT("runAsGroup"),
    };
    refuse_fields(p->v, AT(at, "securityContext"), &api_security_context_type, c->security_context,
                  CHOICES(names));
}

static void check_windows_pod(struct pod_rules *p, const struct path *spec)
{
    static const struct str own[] = {STR_INIT("hostUsers"), STR_INIT("hostPID"),
                                     STR_INIT("hostIPC"), STR_INIT("shareProcessNamespace")};
    static const struct str security[] = {
        STR_INIT("appArmorProfile"),     STR_INIT("seLinuxOptions"),
        STR_INIT("seccompProfile"),      STR_INIT("fsGroup"),
        STR_INIT("fsGroupChangePolicy"), STR_INIT("sysctls"),
        STR_INIT("runAsUser"),           STR_INIT("runAsGroup"),
        STR_INIT("supplementalGroups"),  STR_INIT("supplementalGroupsPolicy"),
        STR_INIT("seLinuxChangePolicy"),
    };
    refuse_fields(p->v, AT(spec, "securityContext"), &api_pod_security_context_type,
                  p->spec->security_context, CHOICES(security));
    refuse_fields(p->v, spec, &api_pod_spec_type, p->spec, CHOICES(own));
    validate_each_container(p, spec, check_windows_container);
}

static void check_os(struct pod_rules *p, const struct path *spec)
{
    static const struct str known[] = {STR_INIT("linux"), STR_INIT("windows")};
    const struct api_pod_os *os = p->spec->os;
    const struct api_pod_security_context *sc = p->spec->security_context;
    if (!os)
        return;
    if (os->name.n == 0)
        cause_required(p->v->causes, AT(AT(spec, "os"), "name"), STR(""));
    else
        validate_choice(p->v, AT(spec, "os"), os->name, CHOICES(known));
    if (str_eqz(os->name, "windows"))
        check_windows_pod(p, spec);
    if (!str_eqz(os->name, "linux"))
        return;
    if (sc && sc->windows_options)
        cause_forbidden(p->v->causes, AT(AT(spec, "securityContext"), "windowsOptions"),
                        STR("windows options cannot be set for a linux pod"));
    validate_each_container(p, spec, check_linux_container);
}

static const bool *host_process(const struct api_windows_security_context_options *w)
{
    return w && w->has_host_process ? &w->host_process : NULL;
}

// Containers that run as processes of a Windows host: all of a pod's or none.
static void check_host_process(struct pod_rules *p, const struct path *spec)
{
    const struct api_pod_security_context *sc = p->spec->security_context;
    const bool *pod = host_process(sc ? sc->windows_options : NULL);
    const struct api_container_array *lists[] = {&p->spec->init_containers, &p->spec->containers};
    const struct path *places[] = {AT(spec, "initContainers"), AT(spec, "containers")};
    size_t all = 0, found = 0;
    for (size_t l = 0; l < array_len(lists); l++) {
        for (size_t i = 0; i < lists[l]->n; i++, all++) {
            const struct api_security_context *own = lists[l]->p[i].security_context;
            const bool *mine = host_process(own ? own->windows_options : NULL);
            const struct path *at = AT(AT_ITEM(places[l], i), "securityContext");
            if (pod && mine && *pod != *mine)
                cause_invalid_bool(
                    p->v->causes, AT(AT(at, "windowsOptions"), "hostProcess"), *mine,
                    arena_strf(scratch(p->v),
                               "pod hostProcess value must be identical if both are specified, "
                               "was %s",
                               *pod ? "true" : "false"));
            found += mine ? *mine : pod && *pod;
        }
    }
    all += p->spec->ephemeral_containers.n;
    found += pod && *pod ? p->spec->ephemeral_containers.n : 0;
    if (found && found != all)
        cause_invalid(p->v->causes, spec, STR(""),
                      STR("If pod contains any hostProcess containers then all containers must be "
                          "HostProcess containers"));
    if (found && !p->spec->host_network)
        cause_invalid_bool(
            p->v->causes, AT(spec, "hostNetwork"), false,
            STR("hostNetwork must be true if pod contains any hostProcess containers"));
}

// --- The whole spec ------------------------------------------------------------------------------

// Of several volumes with one name the last one counts.
static void check_file_refs(struct pod_rules *p, const struct path *at,
                            const struct api_container *c)
{
    struct volume_map all = {0};
    for (size_t i = 0; i < c->env.n && !causes_full(p->v->causes); i++) {
        const struct api_env_var_source *from = c->env.p[i].value_from;
        if (!from || !from->file_key_ref)
            continue;
        struct str name = from->file_key_ref->volume_name;
        const struct path *here = AT(AT_ITEM(AT(at, "env"), i), "valueFrom");
        here = AT(AT(here, "fileKeyRef"), "volumeName");
        for (size_t j = map_len(&all) ? p->spec->volumes.n : 0; j < p->spec->volumes.n; j++)
            *map_put(&all, p->spec->volumes.p[j].name) = &p->spec->volumes.p[j].volume_source;
        const struct api_volume_source *const *found = map_get(&all, name);
        if (!found)
            cause_not_found(p->v->causes, here, name);
        else if (!(*found)->empty_dir)
            cause_invalid(p->v->causes, here, name,
                          STR("referenced volume must be of type emptyDir"));
    }
    map_done(&all);
}

static void check_whole_pod_resources(struct pod_rules *p, const struct path *spec)
{
    const struct api_resource_requirements *r = p->spec->resources;
    const struct path *at = AT(spec, "resources");
    if (!r)
        return;
    if (p->spec->os && str_eqz(p->spec->os->name, "windows")) {
        cause_forbidden(p->v->causes, at, STR("may not be set for a windows pod"));
        return;
    }
    if (r->claims.p)
        cause_forbidden(p->v->causes, AT(at, "claims"),
                        STR("claims may not be set for Resources at pod-level"));
    validate_requirements(p->v, at, &r->limits, &r->requests, true);
    if (r->claims.p)
        validate_claim_names(p, AT(at, "claims"), &r->claims);
    validate_pod_resources(p->v, at, p->spec);
}

static void check_placement(struct pod_rules *p, const struct path *spec)
{
    const struct api_pod_spec *s = p->spec;
    struct validator *v = p->v;
    static const struct api_quantity_map nothing = {0};
    validate_labels(v, AT(spec, "nodeSelector"), &s->node_selector);
    validate_affinity(v, AT(spec, "affinity"), s->affinity);
    validate_spread(v, AT(spec, "topologySpreadConstraints"), &s->topology_spread_constraints);
    validate_tolerations(v, AT(spec, "tolerations"), &s->tolerations);
    validate_requirements(v, AT(spec, "overhead"), &s->overhead, &nothing, false);
    if (s->has_share_process_namespace && s->share_process_namespace && s->host_pid)
        cause_invalid_bool(v->causes, AT(spec, "shareProcessNamespace"), true,
                           STR("ShareProcessNamespace and HostPID cannot both be enabled"));
}

static void check_pod_spec(struct pod_rules *p, const struct path *spec)
{
    const struct api_pod_spec *s = p->spec;
    struct validator *v = p->v;
    p->host_users = !s->has_host_users || s->host_users;
    validate_volumes(v, AT(spec, "volumes"), &s->volumes, p->meta, &p->volumes);
    check_pod_claims(v, AT(spec, "resourceClaims"), p->meta, &s->resource_claims);
    for (size_t i = 0; i < s->resource_claims.n; i++)
        if (s->resource_claims.p[i].name.n)
            (void)seen_add(&p->claims, s->resource_claims.p[i].name);
    validate_containers(p, spec);
    check_whole_pod_resources(p, spec);
    check_host_network(p, spec);
    check_policies(v, spec, s);
    validate_pod_security(p, spec);
    check_placement(p, spec);
    check_dns(v, spec, s);
    check_gates(v, spec, s);
    check_host_process(p, spec);
    check_host_users(p, spec);
    check_host_names(v, spec, s);
    check_references(v, spec, s);
    check_os(p, spec);
    validate_each_container(p, spec, check_file_refs);
    map_done(&p->volumes);
    seen_done(&p->claims);
}

// --- Pods alone ----------------------------------------------------------------------------------

static void check_pod_annotations(struct pod_rules *p)
{
    static const char cost_key[] = "controller.kubernetes.io/pod-deletion-cost";
    const struct path *at = AT(&(const struct path){.name = STR_INIT("metadata")}, "annotations");
    struct str cost = meta_annotation(p->meta, str_z(cost_key));
    int64_t number = 0;
    if (has_annotation(p->meta, mirror_annotation) && p->spec->node_name.n == 0)
        cause_invalid(p->v->causes, AT_KEY(at, str_z(mirror_annotation)),
                      meta_annotation(p->meta, str_z(mirror_annotation)),
                      STR("must set spec.nodeName if mirror pod annotation is set"));
    bool plus = cost.n && cost.p[0] == '+';
    bool padded = cost.n > 1 && (cost.p[0] == '0' || (cost.p[0] == '-' && cost.p[1] == '0'));
    if (has_annotation(p->meta, cost_key) && (plus || padded || str_to_i64(cost, &number) < 0 ||
                                              number < INT32_MIN || number > INT32_MAX))
        cause_invalid(p->v->causes, AT_KEY(at, str_z(cost_key)), cost,
                      STR("must be a 32bit integer"));
    validate_security_annotations(p, at);
}

static void check_token_volumes(struct pod_rules *p, const struct path *spec)
{
    const struct api_volume_array *volumes = &p->spec->volumes;
    for (size_t i = 0; p->spec->service_account_name.n == 0 && i < volumes->n; i++) {
        const struct api_projected_volume_source *s = volumes->p[i].volume_source.projected;
        const struct path *at = AT(AT_ITEM(AT(spec, "volumes"), i), "projected");
        for (size_t j = 0; s && j < s->sources.n; j++)
            if (s->sources.p[j].service_account_token)
                cause_forbidden(p->v->causes,
                                AT(AT_ITEM(AT(at, "sources"), j), "serviceAccountToken"),
                                STR("must not be specified when serviceAccountName is not set"));
    }
}

static void check_pod_itself(struct validator *v, const struct api_pod *pod)
{
    static const struct name_rule subdomain = {.check = name_dns_subdomain, .characters = true};
    const struct path *spec = AT(NULL, "spec");
    struct pod_rules p = {.v = v, .spec = &pod->spec, .meta = &pod->metadata};
    validate_object_meta(v, &pod->metadata, true, &subdomain);
    validate_kube_finalizers(v, &pod->metadata);
    check_pod_annotations(&p);
    check_pod_spec(&p, spec);
    check_token_volumes(&p, spec);
    if (pod->spec.has_termination_grace_period_seconds)
        validate_not_negative(v, AT(spec, "terminationGracePeriodSeconds"),
                              pod->spec.termination_grace_period_seconds);
    validate_images(v, AT(spec, "containers"), &pod->spec.containers);
    validate_images(v, AT(spec, "initContainers"), &pod->spec.init_containers);
}

static void check_pod_create(struct validator *v, const struct api_pod *pod)
{
    const struct path *spec = AT(NULL, "spec");
    const struct api_pod_spec *s = &pod->spec;
    struct pod_rules p = {.v = v, .spec = s, .meta = &pod->metadata};
    if (s->ephemeral_containers.n)
        cause_forbidden(v->causes, AT(spec, "ephemeralContainers"), STR("cannot be set on create"));
    if (s->node_name.n && s->scheduling_gates.n)
        cause_forbidden(v->causes, AT(spec, "nodeName"),
                        STR("cannot be set until all schedulingGates have been cleared"));
    validate_profiles_match(&p, spec);
}

void validate_pod(struct validator *v, const struct api_pod *pod, const struct api_pod *old)
{
    if (v->op == API_STATUS_UPDATE) {
        validate_pod_state(v, pod, old);
        validate_pod_status(v, pod);
        return;
    }
    check_pod_itself(v, pod);
    if (old)
        validate_pod_update(v, pod, old);
    else
        check_pod_create(v, pod);
}

// --- Templates -----------------------------------------------------------------------------------

// A StatefulSet's pods get names from their controller, and a volume for each of its claims: mounts
// may name these.
static const struct api_pod_template_spec *stateful_template(const struct api_stateful_set *set,
                                                             struct arena *arena)
{
    const struct api_persistent_volume_claim_array *claims = &set->spec.volume_claim_templates;
    struct api_pod_template_spec *made = arena_one(arena, struct api_pod_template_spec);
    *made = set->spec.template;
    made->spec.subdomain = made->spec.hostname = STR("");
    const struct api_volume_array own = made->spec.volumes;
    if (claims->n == 0)
        return made;
    struct api_volume *all = arena_array(arena, struct api_volume, claims->n + own.n);
    cleanup_seen struct seen templates = {0};
    size_t n = 0;
    for (size_t i = 0; i < claims->n; i++) {
        struct api_persistent_volume_claim_volume_source *source =
            arena_one(arena, struct api_persistent_volume_claim_volume_source);
        source->claim_name = claims->p[i].metadata.name;
        (void)seen_add(&templates, source->claim_name);
        all[n].name = source->claim_name;
        all[n++].volume_source.persistent_volume_claim = source;
    }
    for (size_t i = 0; i < own.n; i++)
        if (!map_has(&templates, own.p[i].name))
            all[n++] = own.p[i];
    made->spec.volumes = (struct api_volume_array){all, n};
    return made;
}

void validate_pod_template(struct validator *v, const struct api_type *t, const void *value)
{
    const struct path *bare = AT(NULL, "template"), *at = AT(AT(NULL, "spec"), "template");
    const struct api_pod_template_spec *found = NULL;
    if (t == &api_deployment_type)
        found = &((const struct api_deployment *)value)->spec.template;
    else if (t == &api_replica_set_type)
        found = &((const struct api_replica_set *)value)->spec.template;
    else if (t == &api_daemon_set_type)
        found = &((const struct api_daemon_set *)value)->spec.template;
    else if (t == &api_stateful_set_type)
        found = stateful_template(value, scratch(v));
    else if (t == &api_job_type)
        found = &((const struct api_job *)value)->spec.template;
    else if (t == &api_pod_template_type)
        found = &((const struct api_pod_template *)value)->template;
    if (!found)
        return;
    if (t == &api_pod_template_type)
        at = bare;
    struct pod_rules p = {.v = v, .spec = &found->spec};
    validate_labels(v, AT(at, "labels"), &found->metadata.labels);
    validate_annotations(v, AT(at, "annotations"), &found->metadata.annotations);
    check_pod_spec(&p, AT(at, "spec"));
    if (found->spec.ephemeral_containers.n)
        cause_forbidden(v->causes, AT(AT(at, "spec"), "ephemeralContainers"),
                        STR("ephemeral containers not allowed in pod template"));
}

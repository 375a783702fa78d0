// SPDX-License-Identifier: Apache-2.0
//
// Containers: those of the pod, those before it, and those added later.
#include <stdlib.h>

#include "api/validate/validate_core.h"

#include "base/banned.h"

#define RESTART_RULES_MAX 20
#define EXIT_CODES_MAX    255

// --- Ports ---------------------------------------------------------------------------------------

static void check_ports(struct validator *v, const struct path *list,
                        const struct api_container_port_array *ports)
{
    static const struct str protocols[] = {STR_INIT("SCTP"), STR_INIT("TCP"), STR_INIT("UDP")};
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < ports->n; i++) {
        const struct api_container_port *port = &ports->p[i];
        const struct path *at = AT_ITEM(list, i);
        size_t before = v->causes->n;
        if (port->name.n)
            validate_named(v, AT(at, "name"), port->name, name_port);
        if (port->name.n && v->causes->n == before && seen_add(&names, port->name))
            cause_duplicate(v->causes, AT(at, "name"), port->name);
        if (port->container_port == 0)
            cause_required(v->causes, AT(at, "containerPort"), STR(""));
        else
            validate_port(v, AT(at, "containerPort"), port->container_port);
        if (port->host_port != 0)
            validate_port(v, AT(at, "hostPort"), port->host_port);
        validate_choice_required(v, AT(at, "protocol"), port->protocol, CHOICES(protocols));
    }
}

// A port of the host can be taken once; init containers run alone.
static void check_host_ports(struct validator *v, const struct path *list,
                             const struct api_container *containers, size_t n)
{
    cleanup_seen struct seen taken = {0};
    for (size_t i = 0; i < n; i++) {
        const struct path *ports = AT(AT_ITEM(list, i), "ports");
        for (size_t j = 0; j < containers[i].ports.n; j++) {
            const struct api_container_port *p = &containers[i].ports.p[j];
            if (p->host_port == 0)
                continue;
            struct str key = arena_strf(scratch(v), "%.*s/%.*s/%d", STR_ARG(p->protocol),
                                        STR_ARG(p->host_ip), p->host_port);
            if (seen_add(&taken, key))
                cause_duplicate(v->causes, AT(AT_ITEM(ports, j), "hostPort"), key);
        }
    }
}

// --- Restarts ------------------------------------------------------------------------------------

static void check_restart_rules(struct validator *v, const struct path *list,
                                const struct api_container_restart_rule_array *rules)
{
    static const struct str actions[] = {STR_INIT("Restart"), STR_INIT("RestartAllContainers")};
    static const struct str operators[] = {STR_INIT("In"), STR_INIT("NotIn")};
    if (rules->n > RESTART_RULES_MAX)
        cause_too_many(v->causes, list, rules->n, RESTART_RULES_MAX);
    for (size_t i = 0; i < rules->n && !causes_full(v->causes); i++) {
        const struct path *at = AT_ITEM(list, i), *codes = AT(at, "exitCodes");
        const struct api_container_restart_rule *r = &rules->p[i];
        validate_choice(v, AT(at, "action"), r->action, CHOICES(actions));
        if (!r->exit_codes) {
            cause_required(v->causes, codes, STR("must be specified"));
            continue;
        }
        validate_choice(v, AT(codes, "operator"), r->exit_codes->operator, CHOICES(operators));
        if (r->exit_codes->values.n > EXIT_CODES_MAX)
            cause_too_many(v->causes, AT(codes, "values"), r->exit_codes->values.n, EXIT_CODES_MAX);
    }
}

static void check_restart(struct validator *v, const struct path *at, const struct api_container *c,
                          bool init)
{
    static const struct str policies[] = {STR_INIT("Always"), STR_INIT("Never"),
                                          STR_INIT("OnFailure")};
    const struct path *policy = AT(at, "restartPolicy");
    if (c->has_restart_policy)
        validate_choice(v, policy, c->restart_policy, CHOICES(policies));
    else if (c->restart_policy_rules.n)
        cause_required(v->causes, policy,
                       STR("must specify restartPolicy when restart rules are used"));
    if (c->has_restart_policy || !init)
        check_restart_rules(v, AT(at, "restartPolicyRules"), &c->restart_policy_rules);
}

static void check_resize(struct pod_rules *p, const struct path *at,
                         const struct api_container_resize_policy_array *list)
{
    static const struct str resources[] = {STR_INIT("cpu"), STR_INIT("memory")};
    static const struct str policies[] = {STR_INIT("NotRequired"), STR_INIT("RestartContainer")};
    struct validator *v = p->v;
    cleanup_seen struct seen seen = {0};
    for (size_t i = 0; i < list->n && !causes_full(v->causes); i++) {
        const struct api_container_resize_policy *r = &list->p[i];
        if (seen_add(&seen, r->resource_name))
            cause_duplicate(v->causes, AT_ITEM(at, i), r->resource_name);
        validate_choice_required(v, at, r->resource_name, CHOICES(resources));
        validate_choice_required(v, at, r->restart_policy, CHOICES(policies));
        if (str_eqz(p->spec->restart_policy, "Never") && !str_eqz(r->restart_policy, "NotRequired"))
            cause_invalid(v->causes, at, r->restart_policy,
                          STR("must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
    }
}

// --- One container -------------------------------------------------------------------------------

void validate_pull_policy(struct validator *v, const struct path *at, struct str policy)
{
    static const struct str policies[] = {STR_INIT("Always"), STR_INIT("IfNotPresent"),
                                          STR_INIT("Never")};
    validate_choice_required(v, at, policy, CHOICES(policies));
}

static void check_common(struct pod_rules *p, const struct path *at, const struct api_container *c)
{
    static const struct str messages[] = {STR_INIT("File"), STR_INIT("FallbackToLogsOnError")};
    struct validator *v = p->v;
    if (c->name.n == 0)
        cause_required(v->causes, AT(at, "name"), STR(""));
    else
        validate_named(v, AT(at, "name"), c->name, name_dns_label);
    validate_required(v, AT(at, "image"), c->image);
    validate_choice_required(v, AT(at, "terminationMessagePolicy"), c->termination_message_policy,
                             CHOICES(messages));
    check_ports(v, AT(at, "ports"), &c->ports);
    validate_env(p, at, c);
    validate_mounts(p, at, c);
    validate_pull_policy(v, AT(at, "imagePullPolicy"), c->image_pull_policy);
    const struct path *resources = AT(at, "resources");
    validate_requirements(v, resources, &c->resources.limits, &c->resources.requests, false);
    validate_claim_names(p, AT(resources, "claims"), &c->resources.claims);
    check_resize(p, AT(at, "resizePolicy"), &c->resize_policy);
    validate_security_context(p, AT(at, "securityContext"), c->security_context);
}

static void check_image_spaces(struct validator *v, const struct path *at, struct str image)
{
    if (str_trim(image).n != image.n)
        cause_invalid(v->causes, AT(at, "image"), image,
                      STR("must not have leading or trailing whitespace"));
}

// --- The three lists -----------------------------------------------------------------------------

static void check_regular(struct pod_rules *p, const struct path *list)
{
    const struct api_container_array *containers = &p->spec->containers;
    cleanup_seen struct seen names = {0};
    if (containers->n == 0)
        cause_required(p->v->causes, list, STR(""));
    for (size_t i = 0; i < containers->n && !causes_full(p->v->causes); i++) {
        const struct api_container *c = &containers->p[i];
        const struct path *at = AT_ITEM(list, i);
        check_common(p, at, c);
        if (seen_add(&names, c->name))
            cause_duplicate(p->v->causes, AT(at, "name"), c->name);
        validate_probes(p, at, c);
        check_restart(p->v, at, c, false);
    }
    check_host_ports(p->v, list, containers->p, containers->n);
}

// Probes and hooks are for init containers that go on running.
static void check_init_probes(struct pod_rules *p, const struct path *at,
                              const struct api_container *c)
{
    static const struct str why =
        STR_INIT("may not be set for init containers without restartPolicy=Always");
    struct causes *causes = p->v->causes;
    if (c->has_restart_policy && str_eqz(c->restart_policy, "Always")) {
        validate_probes(p, at, c);
        return;
    }
    if (c->lifecycle)
        cause_forbidden(causes, AT(at, "lifecycle"), why);
    if (c->liveness_probe)
        cause_forbidden(causes, AT(at, "livenessProbe"), why);
    if (c->readiness_probe)
        cause_forbidden(causes, AT(at, "readinessProbe"), why);
    if (c->startup_probe)
        cause_forbidden(causes, AT(at, "startupProbe"), why);
    for (size_t i = 0; i < c->resize_policy.n; i++)
        if (str_eqz(c->resize_policy.p[i].restart_policy, "RestartContainer"))
            cause_invalid(
                causes, AT(AT_ITEM(AT(at, "resizePolicy"), i), "restartPolicy"),
                c->resize_policy.p[i].restart_policy,
                STR("must not be set to 'RestartContainer' for non-sidecar initContainers"));
}

static void check_init(struct pod_rules *p, const struct path *list)
{
    const struct api_container_array *containers = &p->spec->init_containers;
    cleanup_seen struct seen names = {0};
    for (size_t i = 0; i < p->spec->containers.n; i++)
        (void)seen_add(&names, p->spec->containers.p[i].name);
    for (size_t i = 0; i < containers->n && !causes_full(p->v->causes); i++) {
        const struct api_container *c = &containers->p[i];
        const struct path *at = AT_ITEM(list, i);
        check_common(p, at, c);
        check_restart(p->v, at, c, true);
        if (map_has(&names, c->name))
            cause_duplicate(p->v->causes, AT(at, "name"), c->name);
        else if (c->name.n)
            (void)seen_add(&names, c->name);
        check_host_ports(p->v, list, c, 1);
        check_init_probes(p, at, c);
    }
}

static_assert(sizeof(struct api_container) == sizeof(struct api_ephemeral_container_common),
              "an ephemeral container is looked at as a container");

static const struct api_container *as_container(const struct api_ephemeral_container *e)
{
    return (const struct api_container *)(const void *)&e->ephemeral_container_common;
}

static void check_ephemeral_fields(struct validator *v, const struct path *at,
                                   const struct api_container *c)
{
    static const struct str why = STR_INIT("cannot be set for an Ephemeral Container");
    static const struct str refused[] = {
        STR_INIT("ports"),         STR_INIT("resizePolicy"),
        STR_INIT("restartPolicy"), STR_INIT("restartPolicyRules"),
        STR_INIT("livenessProbe"), STR_INIT("readinessProbe"),
        STR_INIT("startupProbe"),  STR_INIT("lifecycle"),
    };
    for (size_t i = 0; i < array_len(refused); i++) {
        const struct api_field *f = api_type_field(&api_container_type, refused[i]);
        if (api_field_present(f, c))
            cause_forbidden(v->causes, AT_NAME(at, refused[i]), why);
    }
    if (c->resources.limits.n || c->resources.requests.n || c->resources.claims.n)
        cause_forbidden(v->causes, AT(at, "resources"), why);
    const struct path *mounts = AT(at, "volumeMounts");
    for (size_t i = 0; i < c->volume_mounts.n; i++) {
        if (c->volume_mounts.p[i].sub_path.n)
            cause_forbidden(v->causes, AT(AT_ITEM(mounts, i), "subPath"), why);
        if (c->volume_mounts.p[i].sub_path_expr.n)
            cause_forbidden(v->causes, AT(AT_ITEM(mounts, i), "subPathExpr"), why);
    }
}

static void validate_ephemeral_containers(struct pod_rules *p, const struct path *list)
{
    const struct api_ephemeral_container_array *containers = &p->spec->ephemeral_containers;
    cleanup_seen struct seen names = {0}, others = {0};
    for (size_t i = 0; i < p->spec->containers.n; i++)
        (void)seen_add(&others, p->spec->containers.p[i].name);
    for (size_t i = 0; i < p->spec->init_containers.n; i++)
        (void)seen_add(&others, p->spec->init_containers.p[i].name);
    for (size_t i = 0; i < containers->n && !causes_full(p->v->causes); i++) {
        const struct api_container *c = as_container(&containers->p[i]);
        const struct path *at = AT_ITEM(list, i);
        struct str target = containers->p[i].target_container_name;
        check_common(p, at, c);
        check_image_spaces(p->v, at, c->image);
        if (map_has(&others, c->name) || seen_add(&names, c->name))
            cause_duplicate(p->v->causes, AT(at, "name"), c->name);
        if (target.n && !map_has(&others, target))
            cause_not_found(p->v->causes, AT(at, "targetContainerName"), target);
        check_ephemeral_fields(p->v, at, c);
    }
}

void validate_containers(struct pod_rules *p, const struct path *spec)
{
    check_regular(p, AT(spec, "containers"));
    check_init(p, AT(spec, "initContainers"));
    validate_ephemeral_containers(p, AT(spec, "ephemeralContainers"));
}

void validate_images(struct validator *v, const struct path *list,
                     const struct api_container_array *containers)
{
    for (size_t i = 0; i < containers->n; i++)
        check_image_spaces(v, AT_ITEM(list, i), containers->p[i].image);
}

void validate_each_container(struct pod_rules *p, const struct path *spec, container_fn fn)
{
    const struct api_pod_spec *s = p->spec;
    for (size_t i = 0; i < s->init_containers.n; i++)
        fn(p, AT_ITEM(AT(spec, "initContainers"), i), &s->init_containers.p[i]);
    for (size_t i = 0; i < s->containers.n; i++)
        fn(p, AT_ITEM(AT(spec, "containers"), i), &s->containers.p[i]);
    for (size_t i = 0; i < s->ephemeral_containers.n; i++)
        fn(p, AT_ITEM(AT(spec, "ephemeralContainers"), i),
           as_container(&s->ephemeral_containers.p[i]));
}

// SPDX-License-Identifier: Apache-2.0
//
// The status of a pod apart from its claims: conditions, addresses, and that what has ended stays
// ended unless it may be started again.
#include "api/validate/validate_core.h"

#include "base/banned.h"

// --- Containers that have ended ------------------------------------------------------------------

static const struct api_container_restart_rule *matching_rule(const struct api_container *c,
                                                              int32_t exit_code)
{
    for (size_t i = 0; i < c->restart_policy_rules.n; i++) {
        const struct api_container_restart_rule *r = &c->restart_policy_rules.p[i];
        bool listed = false;
        for (size_t j = 0; r->exit_codes && j < r->exit_codes->values.n; j++)
            listed = listed || r->exit_codes->values.p[j] == exit_code;
        if (r->exit_codes && listed == str_eqz(r->exit_codes->operator, "In"))
            return r;
    }
    return NULL;
}

static bool policy_restarts(struct str policy, int32_t exit_code)
{
    if (str_eqz(policy, "OnFailure"))
        return exit_code != 0;
    return !str_eqz(policy, "Never");
}

static bool may_restart(const struct api_pod_spec *spec, const struct api_container *c,
                        int32_t exit_code)
{
    if (!c->has_restart_policy)
        return policy_restarts(spec->restart_policy, exit_code);
    return matching_rule(c, exit_code) || policy_restarts(c->restart_policy, exit_code);
}

// A rule that restarts the whole pod may bring back every container.
static bool any_restarts_all(const struct api_container_array *containers)
{
    for (size_t i = 0; i < containers->n; i++)
        for (size_t j = 0; j < containers->p[i].restart_policy_rules.n; j++)
            if (str_eqz(containers->p[i].restart_policy_rules.p[j].action, "RestartAllContainers"))
                return true;
    return false;
}

static bool is_allowed(const struct api_pod_spec *spec,
                       const struct api_container_array *containers, struct str name,
                       int32_t exit_code)
{
    for (size_t i = 0; containers && i < containers->n; i++)
        if (str_eq(containers->p[i].name, name))
            return may_restart(spec, &containers->p[i], exit_code);
    return false;
}

// containers is NULL for those that never start again.
static void check_states(struct validator *v, const struct path *list,
                         const struct api_container_status_array *now,
                         const struct api_container_status_array *old,
                         const struct api_pod_spec *spec,
                         const struct api_container_array *containers)
{
    for (size_t i = 0; i < old->n && !causes_full(v->causes); i++) {
        const struct api_container_state_terminated *ended = old->p[i].state.terminated;
        for (size_t j = 0; ended && j < now->n; j++) {
            if (!str_eq(now->p[j].name, old->p[i].name) || now->p[j].state.terminated)
                continue;
            if (!is_allowed(spec, containers, old->p[i].name, ended->exit_code))
                cause_forbidden(v->causes, AT(AT_ITEM(list, i), "state"),
                                STR("may not be transitioned to non-terminated state"));
            break;
        }
    }
}

// --- Addresses -----------------------------------------------------------------------------------

static void check_address_list(struct validator *v, const struct path *at, const struct str *ips,
                               size_t n, struct str shown)
{
    size_t six = 0;
    bool readable = true;
    for (size_t i = 0; i < n && !causes_full(v->causes); i++) {
        struct name_msgs msgs = {.arena = scratch(v)};
        validate_ip(v, AT_ITEM(at, i), ips[i]);
        name_ip(ips[i], &msgs);
        readable = readable && !(msgs.n && str_starts(msgs.p[0], STR("must be a valid IP")));
        six += name_is_ipv6(ips[i]);
    }
    if (readable && n > 1 && (n > 2 || six != 1))
        cause_invalid_json(v->causes, at, shown,
                           STR("may specify no more than one IP for each IP family"));
}

// {"IP":"…"} for each, as upstream shows them.
static struct str show_ips(const struct str *ips, size_t n, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    struct json_writer w = {.out = &b, .html = true};
    json_write_array_begin(&w);
    for (size_t i = 0; i < n; i++) {
        json_write_object_begin(&w);
        json_write_key(&w, STR("IP"));
        json_write_str(&w, ips[i]);
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    return arena_str(arena, sbuf_str(&b));
}

static void check_pod_ips(struct validator *v, const struct path *status,
                          const struct api_pod_status *s)
{
    const struct path *at = AT(status, "podIPs");
    struct str *ips = arena_array(scratch(v), struct str, s->pod_ips.n + 1);
    for (size_t i = 0; i < s->pod_ips.n; i++)
        ips[i] = s->pod_ips.p[i].ip;
    struct str shown = s->pod_ips.p ? show_ips(ips, s->pod_ips.n, scratch(v)) : STR("null");
    check_address_list(v, at, ips, s->pod_ips.n, shown);
    if ((s->pod_ip.n > 0) != (s->pod_ips.n > 0))
        cause_invalid_json(v->causes, at, shown,
                           STR("podIP and podIPs must either both be set or both be unset"));
    else if (s->pod_ips.n && !str_eq(s->pod_ip, ips[0]))
        cause_invalid(v->causes, AT(AT_ITEM(at, 0), "ip"), ips[0], STR("must be equal to `podIP`"));
}

static void check_host_ips(struct validator *v, const struct path *status,
                           const struct api_pod_status *s)
{
    const struct path *at = AT(status, "hostIPs");
    struct str *ips = arena_array(scratch(v), struct str, s->host_ips.n + 1);
    for (size_t i = 0; i < s->host_ips.n; i++)
        ips[i] = s->host_ips.p[i].ip;
    if (s->host_ips.n && !str_eq(s->host_ip, ips[0]))
        cause_invalid(v->causes, AT(AT_ITEM(at, 0), "ip"), ips[0],
                      STR("must be equal to `hostIP`"));
    check_address_list(v, at, ips, s->host_ips.n, show_ips(ips, s->host_ips.n, scratch(v)));
}

// --- The whole -----------------------------------------------------------------------------------

static void check_pod_conditions(struct validator *v, const struct path *list,
                                 const struct api_pod_condition_array *conditions)
{
    static const struct str own[] = {STR_INIT("PodScheduled"), STR_INIT("Ready"),
                                     STR_INIT("Initialized")};
    for (size_t i = 0; i < conditions->n && !causes_full(v->causes); i++) {
        const struct api_pod_condition *c = &conditions->p[i];
        const struct path *at = AT_ITEM(list, i);
        if (c->observed_generation < 0)
            cause_invalid_i64(v->causes, AT(at, "observedGeneration"), c->observed_generation,
                              STR("must be a non-negative integer"));
        if (!validate_is_choice(CHOICES(own), c->type))
            validate_named(v, AT(at, "Type"), c->type, name_label_key);
    }
}

void validate_pod_state(struct validator *v, const struct api_pod *pod, const struct api_pod *old)
{
    const struct path *status = AT(NULL, "status");
    const struct api_pod_status *now = &pod->status, *was = &old->status;
    const struct api_pod_spec *spec = &old->spec;
    check_pod_conditions(v, AT(status, "conditions"), &now->conditions);
    bool nominated =
        now->nominated_node_name.n && !str_eq(now->nominated_node_name, was->nominated_node_name);
    if (nominated)
        validate_named(v, AT(status, "nominatedNodeName"), now->nominated_node_name,
                       name_dns_subdomain);
    if (nominated && spec->node_name.n)
        cause_forbidden(v->causes, AT(status, "nominatedNodeName"),
                        STR("may not be set on pods that are already bound to a node"));
    if (now->observed_generation < 0)
        cause_invalid_i64(v->causes, AT(status, "observedGeneration"), now->observed_generation,
                          STR("must be a non-negative integer"));
    if (!any_restarts_all(&spec->containers) && !any_restarts_all(&spec->init_containers)) {
        check_states(v, AT(status, "containerStatuses"), &now->container_statuses,
                     &was->container_statuses, spec, &spec->containers);
        check_states(v, AT(status, "initContainerStatuses"), &now->init_container_statuses,
                     &was->init_container_statuses, spec, &spec->init_containers);
    }
    check_states(v, AT(status, "ephemeralContainerStatuses"), &now->ephemeral_container_statuses,
                 &was->ephemeral_container_statuses, spec, NULL);
    check_pod_ips(v, status, now);
    check_host_ips(v, status, now);
}

// SPDX-License-Identifier: Apache-2.0
//
// Baseline checks on what reaches the host: its namespaces, paths, ports, addresses, kernel
// parameters, and Windows host processes.
#include "api/podsec/podsec_int.h"

#include "base/banned.h"

bool podsec_host_namespaces(struct podsec_case *c)
{
    const struct {
        bool set;
        const char *text;
    } all[] = {{c->spec->host_network, "hostNetwork=true"},
               {c->spec->host_pid, "hostPID=true"},
               {c->spec->host_ipc, "hostIPC=true"}};
    for (size_t i = 0; i < array_len(all); i++)
        if (all[i].set)
            sbuf_addf(c->detail, "%s%s", c->detail->n ? ", " : "", all[i].text);
    c->reason = STR("host namespaces");
    return c->detail->n == 0;
}

bool podsec_host_path(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    for (size_t i = 0; i < c->spec->volumes.n; i++)
        if (c->spec->volumes.p[i].volume_source.host_path)
            podsec_add_name(c, &bad, c->spec->volumes.p[i].name);
    if (bad.n == 0)
        return true;
    c->reason = STR("hostPath volumes");
    podsec_add_counted(c, "volume", "volumes", &bad);
    return false;
}

bool podsec_host_ports(struct podsec_case *c)
{
    struct podsec_names bad = {0}, ports = {0};
    vec_foreach(&c->containers, it) {
        const struct api_container_port_array *list = &it->all->ports;
        bool valid = true;
        for (size_t i = 0; i < list->n; i++) {
            if (list->p[i].host_port == 0)
                continue;
            valid = false;
            podsec_add_name(c, &ports, arena_strf(c->arena, "%d", (int)list->p[i].host_port));
        }
        if (!valid)
            podsec_add_name(c, &bad, it->name);
    }
    if (bad.n == 0)
        return true;
    podsec_sort_names(&ports);
    c->reason = STR("hostPort");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addf(c->detail, " %s %s ", podsec_plural("uses", "use", bad.n),
              podsec_plural("hostPort", "hostPorts", ports.n));
    for (size_t i = 0; i < ports.n; i++)
        sbuf_addf(c->detail, "%s%.*s", i ? ", " : "", STR_ARG(ports.p[i]));
    return false;
}

// --- Addresses of probes and handlers ------------------------------------------------------------

static void host_add_targets(struct podsec_case *c, const struct api_http_get_action *http,
                             const struct api_tcp_socket_action *tcp, struct podsec_names *hosts)
{
    if (http && http->host.n)
        podsec_add_name(c, hosts, http->host);
    if (tcp && tcp->host.n)
        podsec_add_name(c, hosts, tcp->host);
}

static void host_add_container_targets(struct podsec_case *c, const struct api_container *container,
                                       struct podsec_names *hosts)
{
    const struct api_probe *probes[] = {container->liveness_probe, container->readiness_probe,
                                        container->startup_probe};
    const struct api_lifecycle *life = container->lifecycle;
    const struct api_lifecycle_handler *handlers[] = {life ? life->post_start : NULL,
                                                      life ? life->pre_stop : NULL};
    for (size_t i = 0; i < array_len(probes); i++)
        if (probes[i])
            host_add_targets(c, probes[i]->probe_handler.http_get,
                             probes[i]->probe_handler.tcp_socket, hosts);
    for (size_t i = 0; i < array_len(handlers); i++)
        if (handlers[i])
            host_add_targets(c, handlers[i]->http_get, handlers[i]->tcp_socket, hosts);
}

bool podsec_probe_hosts(struct podsec_case *c)
{
    struct podsec_names bad = {0}, hosts = {0};
    vec_foreach(&c->containers, it) {
        size_t before = hosts.n;
        host_add_container_targets(c, it->all, &hosts);
        if (hosts.n > before)
            podsec_add_name(c, &bad, it->name);
    }
    if (bad.n == 0)
        return true;
    podsec_sort_names(&bad);
    podsec_sort_names(&hosts);
    c->reason = STR("probe or lifecycle host");
    podsec_add_counted(c, "container", "containers", &bad);
    sbuf_addf(c->detail, " %s ", podsec_plural("uses", "use", bad.n));
    podsec_add_counted(c, "probe or lifecycle host", "probe or lifecycle hosts", &hosts);
    return false;
}

// --- Windows and kernel parameters ---------------------------------------------------------------

static bool host_is_process(const struct api_windows_security_context_options *o)
{
    return o && o->has_host_process && o->host_process;
}

bool podsec_host_process(struct podsec_case *c)
{
    struct podsec_names bad = {0};
    bool pod = host_is_process(c->security->windows_options);
    vec_foreach(&c->containers, it)
        if (host_is_process(it->security->windows_options))
            podsec_add_name(c, &bad, it->name);
    if (!pod && bad.n == 0)
        return true;
    c->reason = STR("hostProcess");
    podsec_add_setters(c, pod, &bad);
    sbuf_addz(c->detail, " must not set securityContext.windowsOptions.hostProcess=true");
    return false;
}

// Kernel parameters that a pod may set, and the minor version that allowed each.
static const struct {
    const char *name;
    int64_t since;
} safe_sysctls[] = {
    {"kernel.shm_rmid_forced", 0},
    {"net.ipv4.ip_local_port_range", 0},
    {"net.ipv4.tcp_syncookies", 0},
    {"net.ipv4.ping_group_range", 0},
    {"net.ipv4.ip_unprivileged_port_start", 0},
    {"net.ipv4.ip_local_reserved_ports", 27},
    {"net.ipv4.tcp_keepalive_time", 29},
    {"net.ipv4.tcp_fin_timeout", 29},
    {"net.ipv4.tcp_keepalive_intvl", 29},
    {"net.ipv4.tcp_keepalive_probes", 29},
    {"net.ipv4.tcp_rmem", 32},
    {"net.ipv4.tcp_wmem", 32},
    {"net.ipv4.tcp_slow_start_after_idle", 37},
    {"net.ipv4.tcp_notsent_lowat", 37},
};

static bool host_sysctl_is_safe(struct str name, int64_t minor)
{
    for (size_t i = 0; i < array_len(safe_sysctls); i++)
        if (safe_sysctls[i].since <= minor && str_eqz(name, safe_sysctls[i].name))
            return true;
    return false;
}

static bool host_check_sysctls(struct podsec_case *c, int64_t minor)
{
    const struct api_sysctl_array *list = &c->security->sysctls;
    bool safe = true;
    c->reason = STR("forbidden sysctls");
    for (size_t i = 0; i < list->n; i++) {
        if (host_sysctl_is_safe(list->p[i].name, minor))
            continue;
        sbuf_addf(c->detail, "%s%.*s", safe ? "" : ", ", STR_ARG(list->p[i].name));
        safe = false;
    }
    return safe;
}

bool podsec_sysctls_0(struct podsec_case *c)
{
    return host_check_sysctls(c, 0);
}

bool podsec_sysctls_27(struct podsec_case *c)
{
    return host_check_sysctls(c, 27);
}

bool podsec_sysctls_29(struct podsec_case *c)
{
    return host_check_sysctls(c, 29);
}

bool podsec_sysctls_32(struct podsec_case *c)
{
    return host_check_sysctls(c, 32);
}

bool podsec_sysctls_37(struct podsec_case *c)
{
    return host_check_sysctls(c, 37);
}

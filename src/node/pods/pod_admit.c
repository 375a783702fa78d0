// SPDX-License-Identifier: Apache-2.0
//
// Admission of a pod that is bound to this node: kubelet checks again what a scheduler should have
// checked, with its reasons and texts.
#include "api/match/claim.h"
#include "api/match/label.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "node/pods/pods_int.h"

#include "base/banned.h"

static const struct quantity *pod_admit_find_quantity(const struct api_quantity_map *m,
                                                      struct str key)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->p[i].key, key))
            return &m->p[i].value;
    return NULL;
}

static int64_t pod_admit_quantity_value(const struct quantity *q, bool cpu)
{
    int64_t v = !q ? 0 : cpu ? quantity_milli(q) : quantity_value(q);
    return v < 0 ? 0 : v;
}

static int64_t pod_admit_container_request(const struct api_pod *pod, const struct api_container *c,
                                           struct str resource, bool cpu)
{
    if (pod_resource_is_claimed(pod, c->name, resource))
        return 0;
    return pod_admit_quantity_value(pod_admit_find_quantity(&c->resources.requests, resource), cpu);
}

// What a pod needs of a resource: its containers and sidecars together, or the most that
// initialisation needs at one time; the pod's own resources take precedence.
static int64_t pod_admit_pod_request(const struct api_pod *pod, struct str resource)
{
    bool cpu = str_eqz(resource, "cpu");
    int64_t sidecars = 0, most = 0, together = 0;
    for (size_t i = 0; i < pod->spec.init_containers.n; i++) {
        const struct api_container *c = &pod->spec.init_containers.p[i];
        int64_t one = pod_admit_container_request(pod, c, resource, cpu);
        bool sidecar = c->has_restart_policy && str_eqz(c->restart_policy, "Always");
        if (sidecar)
            sidecars += one;
        int64_t now = sidecar ? sidecars : sidecars + one;
        most = now > most ? now : most;
    }
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        together += pod_admit_container_request(pod, &pod->spec.containers.p[i], resource, cpu);
    together += sidecars;
    int64_t need = together > most ? together : most;
    const struct quantity *whole =
        pod->spec.resources ? pod_admit_find_quantity(&pod->spec.resources->requests, resource)
                            : NULL;
    if (whole)
        need = pod_admit_quantity_value(whole, cpu);
    return need +
           pod_admit_quantity_value(pod_admit_find_quantity(&pod->spec.overhead, resource), cpu);
}

// What the pods that were admitted before have of it.
static int64_t pod_admit_sum_requests(const struct pods *p, const struct pod *but,
                                      struct str resource)
{
    int64_t used = 0;
    list_foreach(&p->all, n) {
        const struct pod *other = list_entry(n, struct pod, node);
        bool counts = other->admitted || other->admitting;
        if (other == but || !counts || other->rejected || other->stage == POD_STOPPED)
            continue;
        used += str_eqz(resource, "pods") ? 1 : pod_admit_pod_request(pod_spec_of(other), resource);
    }
    return used;
}

static bool pod_admit_check_resources(const struct pods *p, const struct pod *pod,
                                      const struct api_node *node, struct sbuf *reason,
                                      struct sbuf *message)
{
    for (size_t i = 0; i < node->status.allocatable.n; i++) {
        struct str name = node->status.allocatable.p[i].key;
        bool pods = str_eqz(name, "pods");
        int64_t need = pods ? 1 : pod_admit_pod_request(pod_spec_of(pod), name);
        if (need == 0)
            continue;
        int64_t used = pod_admit_sum_requests(p, pod, name);
        int64_t have =
            pod_admit_quantity_value(&node->status.allocatable.p[i].value, str_eqz(name, "cpu"));
        int64_t held = p->devices ? devplug_held(p->devices, str_z(pod->uid_text), name) : 0;
        have = held > have ? held : have;
        if (need <= have - used)
            continue;
        sbuf_addf(reason, "OutOf%.*s", STR_ARG(name));
        sbuf_addf(message,
                  "Node didn't have enough resource: %.*s, requested: %lld, used: %lld, "
                  "capacity: %lld",
                  STR_ARG(name), (long long)need, (long long)used, (long long)have);
        return false;
    }
    return true;
}

static bool pod_admit_uses_host_port(const struct api_pod *pod,
                                     const struct api_container_port *port)
{
    for (size_t i = 0; i < pod->spec.containers.n; i++)
        for (size_t k = 0; k < pod->spec.containers.p[i].ports.n; k++) {
            const struct api_container_port *q = &pod->spec.containers.p[i].ports.p[k];
            bool same_address =
                q->host_ip.n == 0 || port->host_ip.n == 0 || str_eqz(q->host_ip, "0.0.0.0") ||
                str_eqz(port->host_ip, "0.0.0.0") || str_eq(q->host_ip, port->host_ip);
            if (q->host_port == port->host_port && str_eq(q->protocol, port->protocol) &&
                same_address)
                return true;
        }
    return false;
}

static bool pod_admit_check_host_ports(const struct pods *p, const struct pod *pod)
{
    const struct api_container_array *cs = &pod_spec_of(pod)->spec.containers;
    for (size_t i = 0; i < cs->n; i++)
        for (size_t k = 0; k < cs->p[i].ports.n; k++) {
            if (cs->p[i].ports.p[k].host_port == 0)
                continue;
            list_foreach(&p->all, n) {
                const struct pod *other = list_entry(n, struct pod, node);
                if (other != pod && (other->admitted || other->admitting) &&
                    other->stage != POD_STOPPED &&
                    pod_admit_uses_host_port(pod_spec_of(other), &cs->p[i].ports.p[k]))
                    return false;
            }
        }
    return true;
}

static bool pod_admit_reject(struct sbuf *reason, struct sbuf *message, const char *why,
                             const char *text)
{
    sbuf_addz(reason, why);
    sbuf_addz(message, text);
    return false;
}

bool pod_admit(struct pods *p, struct pod *pod, struct sbuf *reason, struct sbuf *message)
{
    const struct api_pod *a = pod_spec_of(pod);
    const struct api_node *node = p->options.node_object(p->options.arg)->object.value;
    const struct str *os = api_map_find(&a->metadata.labels, STR("kubernetes.io/os"));
    if (os && !str_eqz(*os, "linux"))
        return pod_admit_reject(
            reason, message, "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label");
    if (a->spec.os && !str_eqz(a->spec.os->name, "linux"))
        return pod_admit_reject(reason, message, "PodOSNotSupported",
                                "Failed to admit pod as the OS field doesn't match node OS");
    if (!pod_isolation_is_possible(pod, NULL, reason, message))
        return false;
    if (!pod_evict_admits(pod, message))
        return pod_admit_reject(reason, message, "Evicted", "");
    if (!pod_admit_check_resources(p, pod, node, reason, message))
        return false;
    if (!node_takes_pod(&a->spec, node))
        return pod_admit_reject(reason, message, "NodeAffinity",
                                "Predicate NodeAffinity failed: node(s) didn't match Pod's node "
                                "affinity/selector");
    if (!pod_admit_check_host_ports(p, pod))
        return pod_admit_reject(
            reason, message, "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested "
            "pod ports");
    if (taint_untolerated(&node->spec.taints, &a->spec.tolerations, taint_is_evicting))
        return pod_admit_reject(
            reason, message, "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't "
            "tolerate");
    return true;
}

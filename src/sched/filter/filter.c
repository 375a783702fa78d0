// SPDX-License-Identifier: Apache-2.0
//
// Which nodes a pod may run on, devices aside.
#include "api/match/node.h"
#include "api/match/taint.h"
#include "sched/dra/dra_int.h"
#include "sched/filter/filter_int.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

static bool filter_is_unschedulable(const struct attempt *a, const struct api_node *node)
{
    static const struct api_taint taint = {.key = STR_INIT("node.kubernetes.io/unschedulable"),
                                           .effect = STR_INIT(TAINT_NO_SCHEDULE)};
    return node->spec.unschedulable && !taint_is_tolerated(&a->api->spec.tolerations, &taint);
}

static const struct api_taint *filter_untolerated_taint(const struct attempt *a,
                                                        const struct api_node *node)
{
    return taint_untolerated(&node->spec.taints, &a->api->spec.tolerations, taint_is_hard);
}

bool filter_selected(const struct api_pod *pod, const struct api_node *node)
{
    return node_takes_pod(&pod->spec, node);
}

bool filter_tolerated(const struct api_pod *pod, const struct api_node *node)
{
    const struct attempt a = {.api = pod};
    return !filter_untolerated_taint(&a, node);
}

// --- Ports ---------------------------------------------------------------------------------------

static bool ports_clash(const struct pod_port *a, const struct pod_port *b)
{
    return a->port == b->port && str_eq(a->protocol, b->protocol) &&
           (cluster_port_is_any(a) || cluster_port_is_any(b) || str_eq(a->ip, b->ip));
}

// The first of the pod's ports that is not before this one; its last, if there is none.
static const struct pod_port *port_from(const struct sched_pod *p, const struct pod_port *from)
{
    size_t low = 0;
    size_t high = p->ports_len - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cluster_port_cmp(&p->ports[middle], from) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return &p->ports[low];
}

// One of the pod's ports that another has: the first of the number and protocol, which is that of
// any address if one is, or that of the same address.
static const struct pod_port *port_like(const struct sched_pod *p, const struct pod_port *other)
{
    const struct pod_port any = {STR("0.0.0.0"), other->protocol, other->port};
    const struct pod_port *first = port_from(p, &any);
    const struct pod_port *same = port_from(p, other);
    return ports_clash(first, other) ? first : ports_clash(same, other) ? same : NULL;
}

static bool filter_has_port(const struct sched_pod *p, const struct pod_port *port)
{
    for (size_t i = 0; i < p->ports_len; i++)
        if (cluster_port_cmp(&p->ports[i], port) == 0)
            return true;
    return false;
}

// As in Kubernetes, a port that two pods of a node have is free when one of them goes.
static bool filter_port_goes(const struct attempt *a, const struct sched_pod *other,
                             const struct pod_port *port)
{
    const struct pod_vec *going = a->nodes.going;
    if (!going || other->queue.priority < a->pod->queue.priority)
        return false;
    for (size_t i = 0; i < going->n; i++)
        if (filter_has_port(going->p[i], port))
            return true;
    return false;
}

static const struct pod_port *filter_port_of_pod(const struct attempt *a,
                                                 const struct sched_pod *other)
{
    const struct pod_port *taken = NULL;
    for (size_t k = 0; k < other->ports_len && !taken && other != a->pod; k++)
        if (!filter_port_goes(a, other, &other->ports[k]))
            taken = port_like(a->pod, &other->ports[k]);
    return taken;
}

static const struct pod_port *taken_port(const struct attempt *a, const struct sched_node *n)
{
    const struct sched_pod *p = a->pod;
    const struct pod_port *taken = NULL;
    if (!p->ports_len)
        return NULL;
    for (size_t i = 0; n->ports && i < n->pods.n && !taken; i++)
        taken = filter_port_of_pod(a, n->pods.p[i]);
    return taken;
}

// --- Amounts -------------------------------------------------------------------------------------

static bool by_devices(const struct attempt *a, const struct sched_node *n, uint32_t res)
{
    return res >= RES_FIXED && map_len(&a->s->extended) && amount_at(&n->allocatable, res) == 0 &&
           extended_class(a->s, a->s->cluster.res_names.p[res]);
}

static bool filter_amounts_fit(struct attempt *a, const struct sched_node *n,
                               const struct pod_need *needs, size_t needs_len, struct refusals *why)
{
    bool fits = true;
    for (size_t i = 0; i < needs_len; i++) {
        uint32_t res = needs[i].res;
        int64_t all = amount_at(&n->allocatable, res);
        int64_t room = all - amount_at(&n->requested, res);
        if (needs[i].amount <= room || by_devices(a, n, res))
            continue;
        if (!why)
            return false;
        fits = false;
        if (res == RES_PODS)
            refusal_add(a, why, (struct refusal){.code = REFUSED_PODS});
        else
            refusal_add(a, why,
                        (struct refusal){.code = REFUSED_RESOURCE,
                                         .name = a->s->cluster.res_names.p[res],
                                         .hopeless = needs[i].amount > all});
    }
    return fits;
}

bool filter_fits(struct attempt *a, struct sched_node *n, const struct pod_need *needs,
                 size_t needs_len, struct refusals *why)
{
    size_t nominated = list_empty(&n->nominated) ? 0 : overlay_add_nominated(a, n);
    bool fits = filter_amounts_fit(a, n, needs, needs_len, why);
    overlay_remove_last(a, n, nominated);
    return fits;
}

static enum why filter_refuse(struct attempt *a, struct refusals *why, enum why w, struct refusal r)
{
    refusal_add(a, why, r);
    return w;
}

// In kube-scheduler's order: the first that refuses is the one that is reported.
static enum why filter_rules(struct attempt *a, const struct sched_node *n, struct refusals *why)
{
    if (filter_is_unschedulable(a, n->api))
        return filter_refuse(a, why, WHY_UNSCHEDULABLE, (struct refusal){.code = REFUSED_CORDONED});
    const struct api_taint *taint = filter_untolerated_taint(a, n->api);
    if (taint)
        return filter_refuse(a, why, WHY_TAINT,
                             (struct refusal){.code = REFUSED_TAINT, .taint = taint});
    if (!filter_selected(a->api, n->api))
        return filter_refuse(a, why, WHY_NODE_AFFINITY, (struct refusal){.code = REFUSED_SELECTOR});
    const struct pod_port *port = taken_port(a, n);
    if (port)
        return filter_refuse(a, why, WHY_PORTS,
                             (struct refusal){.code = REFUSED_PORT, .number = port->port});
    if (!filter_amounts_fit(a, n, a->pod->needs, a->pod->needs_len, why))
        return WHY_RESOURCES;
    if (a->volume.n && volume_rules_filter(a, n, why) != WHY_NONE)
        return WHY_VOLUMES;
    enum why r = spread_filter(a, n, why);
    return r != WHY_NONE ? r : affinity_filter(a, n, why);
}

uint32_t filter_node_all(struct attempt *a, struct sched_node *n, struct refusals *why)
{
    uint32_t all = 0;
    if (filter_is_unschedulable(a, n->api))
        all |= WHY_BIT(WHY_UNSCHEDULABLE);
    if (filter_untolerated_taint(a, n->api))
        all |= WHY_BIT(WHY_TAINT);
    if (!filter_selected(a->api, n->api))
        all |= WHY_BIT(WHY_NODE_AFFINITY);
    if (taken_port(a, n))
        all |= WHY_BIT(WHY_PORTS);
    if (!filter_fits(a, n, a->pod->needs, a->pod->needs_len, why))
        all |= WHY_BIT(WHY_RESOURCES);
    if (a->volume.n && volume_rules_filter(a, n, why) != WHY_NONE)
        all |= WHY_BIT(WHY_VOLUMES);
    if (spread_filter(a, n, why) != WHY_NONE)
        all |= WHY_BIT(WHY_SPREAD);
    if (affinity_filter(a, n, why) != WHY_NONE)
        all |= WHY_BIT(WHY_POD_AFFINITY);
    return all;
}

enum why filter_node(struct attempt *a, struct sched_node *n, struct refusals *why)
{
    size_t nominated = list_empty(&n->nominated) ? 0 : overlay_add_nominated(a, n);
    if (nominated) {
        enum why r = filter_rules(a, n, why);
        overlay_remove_last(a, n, nominated);
        if (r != WHY_NONE)
            return r;
    }
    return filter_rules(a, n, why); // a pod that is nominated may never come
}

// SPDX-License-Identifier: Apache-2.0
//
// Which nodes a pod may run on, devices aside.
#include "sched/sched_int.h"
#include "sched/select.h"

#include "base/banned.h"

static bool unschedulable(const struct attempt *a, const struct api_node *node)
{
    static const struct api_taint taint = {.key = STR_INIT("node.kubernetes.io/unschedulable"),
                                           .effect = STR_INIT("NoSchedule")};
    return node->spec.unschedulable && !select_tolerates(&a->api->spec.tolerations, &taint);
}

static const struct api_taint *untolerated(const struct attempt *a, const struct api_node *node)
{
    for (size_t i = 0; i < node->spec.taints.n; i++) {
        const struct api_taint *t = &node->spec.taints.p[i];
        if ((str_eqz(t->effect, "NoSchedule") || str_eqz(t->effect, "NoExecute")) &&
            !select_tolerates(&a->api->spec.tolerations, t))
            return t;
    }
    return NULL;
}

bool filter_selected(const struct api_pod *pod, const struct api_node *node)
{
    for (size_t i = 0; i < pod->spec.node_selector.n; i++) {
        const struct str *have =
            select_label(&node->metadata.labels, pod->spec.node_selector.p[i].key);
        if (!have || !str_eq(*have, pod->spec.node_selector.p[i].value))
            return false;
    }
    const struct api_node_affinity *f =
        pod->spec.affinity ? pod->spec.affinity->node_affinity : NULL;
    const struct api_node_selector *required =
        f ? f->required_during_scheduling_ignored_during_execution : NULL;
    return !required || select_node(required, node) > 0;
}

static void tell_requirement(const struct api_node_selector_requirement *q, struct sbuf *why)
{
    sbuf_addf(why, "%.*s %.*s", STR_ARG(q->key), STR_ARG(q->operator));
    for (size_t i = 0; i < q->values.n; i++)
        sbuf_addf(why, "%s%.*s", i ? ", " : " ", STR_ARG(q->values.p[i]));
}

// The first requirement of a term that the node does not meet.
static void tell_term(const struct api_node_selector_term *t, const struct api_node *node,
                      struct sbuf *why)
{
    for (size_t i = 0; i < t->match_expressions.n + t->match_fields.n; i++) {
        size_t at = i - t->match_expressions.n;
        bool field = i >= t->match_expressions.n;
        struct api_node_selector_term one = {0};
        if (field)
            one.match_fields =
                (struct api_node_selector_requirement_array){t->match_fields.p + at, 1};
        else
            one.match_expressions =
                (struct api_node_selector_requirement_array){t->match_expressions.p + i, 1};
        if (select_node_term(&one, node) > 0)
            continue;
        sbuf_addz(why, ": ");
        tell_requirement(field ? one.match_fields.p : one.match_expressions.p, why);
        return;
    }
}

// Which label or requirement the node does not have, where one can be named.
static void tell_unselected(const struct api_pod *pod, const struct api_node *node,
                            struct sbuf *why)
{
    sbuf_addz(why, "do not match the pod's node selector or affinity");
    for (size_t i = 0; i < pod->spec.node_selector.n; i++) {
        const struct api_str_entry *want = &pod->spec.node_selector.p[i];
        const struct str *have = select_label(&node->metadata.labels, want->key);
        if (have && str_eq(*have, want->value))
            continue;
        sbuf_addf(why, ": %.*s=%.*s", STR_ARG(want->key), STR_ARG(want->value));
        return;
    }
    const struct api_node_selector *required =
        pod->spec.affinity->node_affinity->required_during_scheduling_ignored_during_execution;
    if (required->node_selector_terms.n == 1)
        tell_term(&required->node_selector_terms.p[0], node, why);
    else
        sbuf_addf(why, ": none of %zu terms", required->node_selector_terms.n);
}

bool filter_tolerated(const struct api_pod *pod, const struct api_node *node)
{
    const struct attempt a = {.api = pod};
    return !untolerated(&a, node);
}

// --- Ports ---------------------------------------------------------------------------------------

static bool ports_clash(const struct pod_port *a, const struct pod_port *b)
{
    return a->port == b->port && str_eq(a->protocol, b->protocol) &&
           (pod_port_any(a) || pod_port_any(b) || str_eq(a->ip, b->ip));
}

// The first of the pod's ports that is not before this one; its last, if there is none.
static const struct pod_port *port_from(const struct sched_pod *p, const struct pod_port *from)
{
    size_t low = 0;
    size_t high = p->ports_len - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pod_port_cmp(&p->ports[middle], from) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return &p->ports[low];
}

// One of the pod's ports that another has: the first of the number and protocol, which is that of any address if one is,
// or that of the same address.
static const struct pod_port *port_like(const struct sched_pod *p, const struct pod_port *other)
{
    const struct pod_port any = {STR("0.0.0.0"), other->protocol, other->port};
    const struct pod_port *first = port_from(p, &any);
    const struct pod_port *same = port_from(p, other);
    return ports_clash(first, other) ? first : ports_clash(same, other) ? same : NULL;
}

static const struct pod_port *taken_port(const struct sched_pod *p, const struct sched_node *n)
{
    const struct pod_port *taken = NULL;
    if (!p->ports_len || !n->ports)
        return NULL;
    for (size_t i = 0; i < n->pods.n && !taken; i++)
        for (size_t k = 0; k < n->pods.p[i]->ports_len && !taken && n->pods.p[i] != p; k++)
            taken = port_like(p, &n->pods.p[i]->ports[k]);
    return taken;
}

// --- Amounts -------------------------------------------------------------------------------------

static bool by_devices(const struct attempt *a, const struct sched_node *n, uint32_t res)
{
    return res >= RES_FIXED && map_len(&a->s->extended) && amount_at(&n->allocatable, res) == 0 &&
           extended_class(a->s, a->s->cluster.res_names.p[res]);
}

bool filter_fits(const struct attempt *a, const struct sched_node *n, const struct pod_need *needs,
                 size_t needs_len, struct sbuf *why)
{
    bool fits = true;
    for (size_t i = 0; i < needs_len; i++) {
        uint32_t res = needs[i].res;
        int64_t room = amount_at(&n->allocatable, res) - amount_at(&n->requested, res);
        if (needs[i].amount <= room || by_devices(a, n, res))
            continue;
        if (!why)
            return false;
        if (res == RES_PODS)
            sbuf_addz(why, fits ? "have too many pods" : ", too many pods");
        else
            sbuf_addf(why, "%sinsufficient %.*s", fits ? "have " : ", ",
                      STR_ARG(a->s->cluster.res_names.p[res]));
        fits = false;
    }
    return fits;
}

enum why filter_node(struct attempt *a, const struct sched_node *n, struct sbuf *why)
{
    if (unschedulable(a, n->api)) {
        if (why)
            sbuf_addz(why, "are cordoned (unschedulable)");
        return WHY_UNSCHEDULABLE;
    }
    if (!filter_selected(a->api, n->api)) {
        if (why)
            tell_unselected(a->api, n->api, why);
        return WHY_NODE_AFFINITY;
    }
    const struct api_taint *taint = untolerated(a, n->api);
    if (taint) {
        if (why)
            sbuf_addf(why, "carry taint %.*s%s%.*s:%.*s", STR_ARG(taint->key),
                      taint->value.n ? "=" : "", STR_ARG(taint->value), STR_ARG(taint->effect));
        return WHY_TAINT;
    }
    const struct pod_port *port = taken_port(a->pod, n);
    if (port) {
        if (why)
            sbuf_addf(why, "have host port %d in use", port->port);
        return WHY_PORTS;
    }
    if (!filter_fits(a, n, a->pod->needs, a->pod->needs_len, why))
        return WHY_RESOURCES;
    if (a->volumes_len && volumes_filter(a, n, why) != WHY_NONE)
        return WHY_VOLUMES;
    enum why r = spread_filter(a, n, why);
    return r != WHY_NONE ? r : affinity_filter(a, n, why);
}

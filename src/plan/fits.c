// SPDX-License-Identifier: Apache-2.0
//
// May a pod run on a node, as far as anything but devices is concerned? Cordon, taints, nodeSelector,
// required node affinity, a node it is bound to. Not considered: see README.md.
#include "alloc/node.h"
#include "plan/plan_int.h"

#include "base/banned.h"

#define CORDON "node.kubernetes.io/unschedulable"

static bool tolerates(const struct api_toleration *t, struct str key, struct str value,
                      struct str effect)
{
    if (t->effect.n && !str_eq(t->effect, effect))
        return false;
    if (t->key.n && !str_eq(t->key, key))
        return false;
    if (str_eqz(t->operator, "Exists"))
        return true;
    return t->key.n && (t->operator.n == 0 || str_eqz(t->operator, "Equal")) &&
           str_eq(t->value, value);
}

static bool tolerated(const struct api_pod *pod, struct str key, struct str value,
                      struct str effect)
{
    for (size_t i = 0; pod && i < pod->spec.tolerations.n; i++)
        if (tolerates(&pod->spec.tolerations.p[i], key, value, effect))
            return true;
    return false;
}

static const struct api_taint *bad_taint(const struct api_pod *pod, const struct api_node *node)
{
    for (size_t i = 0; pod && i < node->spec.taints.n; i++) {
        const struct api_taint *t = &node->spec.taints.p[i];
        bool hard = str_eqz(t->effect, "NoSchedule") || str_eqz(t->effect, "NoExecute");
        if (hard && !str_eqz(t->key, CORDON) && !tolerated(pod, t->key, t->value, t->effect))
            return t;
    }
    return NULL;
}

static bool cordoned(const struct api_pod *pod, const struct api_node *node)
{
    bool closed = node->spec.unschedulable;
    for (size_t i = 0; i < node->spec.taints.n; i++)
        closed |= str_eqz(node->spec.taints.p[i].key, CORDON);
    return closed && !tolerated(pod, STR(CORDON), STR(""), STR("NoSchedule"));
}

static const struct api_str_entry *label_lacking(const struct api_pod *pod,
                                                 const struct api_node *node)
{
    for (size_t i = 0; i < pod->spec.node_selector.n; i++) {
        const struct api_str_entry *want = &pod->spec.node_selector.p[i];
        size_t k = 0;
        while (k < node->metadata.labels.n &&
               !(str_eq(node->metadata.labels.p[k].key, want->key) &&
                 str_eq(node->metadata.labels.p[k].value, want->value)))
            k++;
        if (k == node->metadata.labels.n)
            return want;
    }
    return NULL;
}

static const struct api_node_selector *required_affinity(const struct api_pod *pod)
{
    const struct api_node_affinity *a =
        pod->spec.affinity ? pod->spec.affinity->node_affinity : NULL;
    return a ? a->required_during_scheduling_ignored_during_execution : NULL;
}

bool fits_node(const struct api_pod *pod, const struct api_node *node, struct arena *arena,
               struct str *ret_reason)
{
    if (pod && pod->spec.node_name.n)
        return str_eq(pod->spec.node_name, node->metadata.name) ||
               (*ret_reason = arena_strf(arena, "the pod is bound to node %.*s",
                                         STR_ARG(pod->spec.node_name)),
                false);
    if (cordoned(pod, node)) {
        *ret_reason = STR("cordoned");
        return false;
    }
    const struct api_taint *t = bad_taint(pod, node);
    if (t) {
        *ret_reason =
            arena_strf(arena, "node taint %.*s%s%.*s:%.*s is not tolerated", STR_ARG(t->key),
                       t->value.n ? "=" : "", STR_ARG(t->value), STR_ARG(t->effect));
        return false;
    }
    const struct api_str_entry *label = pod ? label_lacking(pod, node) : NULL;
    if (label) {
        *ret_reason = arena_strf(arena, "no label %.*s=%.*s, which the pod's nodeSelector wants",
                                 STR_ARG(label->key), STR_ARG(label->value));
        return false;
    }
    const struct api_node_selector *affinity = pod ? required_affinity(pod) : NULL;
    struct err err = {0};
    int r = affinity ? node_matches(node, (struct str){0}, false, affinity, &err) : 1;
    if (r <= 0)
        *ret_reason = r < 0 ? arena_str(arena, str_z(err.msg))
                            : STR("the pod's required node affinity does not match");
    return r > 0;
}

bool fits_allocation(const struct api_resource_claim *claim, const struct api_node *node)
{
    const struct api_allocation_result *a = claim->status.allocation;
    return !a || !a->node_selector ||
           node_matches(node, (struct str){0}, false, a->node_selector, NULL) > 0;
}

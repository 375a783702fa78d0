// SPDX-License-Identifier: Apache-2.0
//
// Words for refusals: a table of kube-scheduler's plugins and texts, and this scheduler's own,
// which name what is lacking.
#include "sched/explain/refusal.h"

#include "api/match/label.h"
#include "api/match/node.h"
#include "sched/volume/volume_int.h"

#include "base/banned.h"

#define SPREAD_TEXT "node(s) didn't match pod topology spread constraints"

// The words of kube-scheduler. A text of NULL is made of the refusal.
static const struct {
    const char *plugin, *text;
    bool hopeless;
} upstream[REFUSAL_CODES] = {
    [REFUSED_BY_NAME] = {"", "node(s) didn't satisfy plugin(s) [NodeAffinity]", true},
    [REFUSED_CORDONED] = {"NodeUnschedulable", "node(s) were unschedulable", true},
    [REFUSED_TAINT] = {"TaintToleration", "node(s) had untolerated taint(s)", true},
    [REFUSED_SELECTOR] = {"NodeAffinity", "node(s) didn't match Pod's node affinity/selector",
                          true},
    [REFUSED_PORT] = {"NodePorts", "node(s) didn't have free ports for the requested pod ports",
                      false},
    [REFUSED_PODS] = {"NodeResourcesFit", "Too many pods", false},
    [REFUSED_RESOURCE] = {"NodeResourcesFit", NULL, false},
    [REFUSED_VOLUME_SOLE_USER] = {"VolumeRestrictions",
                                  "node(s) unavailable due to PersistentVolumeClaim with "
                                  "ReadWriteOncePod access mode already in-use by another pod",
                                  false},
    [REFUSED_VOLUME_COUNT] = {"NodeVolumeLimits", "node(s) exceed max volume count", false},
    [REFUSED_VOLUME_GONE] = {"VolumeBinding",
                             "node(s) unavailable due to one or more pvc(s) bound to non-existent "
                             "pv(s)",
                             true},
    [REFUSED_VOLUME_AFFINITY] = {"VolumeBinding",
                                 "node(s) didn't match PersistentVolume's node affinity", true},
    [REFUSED_VOLUME_NONE] = {"VolumeBinding",
                             "node(s) didn't find available persistent volumes to bind", true},
    [REFUSED_VOLUME_SELECTED] = {"VolumeBinding",
                                 "node(s) didn't find available persistent volumes to bind", true},
    [REFUSED_VOLUME_ROOM] = {"VolumeBinding", "node(s) did not have enough free storage", true},
    [REFUSED_VOLUME_ZONE] = {"VolumeZone", "node(s) had no available volume zone", true},
    [REFUSED_SPREAD_LABEL] = {"PodTopologySpread", SPREAD_TEXT " (missing required label)", true},
    [REFUSED_SPREAD] = {"PodTopologySpread", SPREAD_TEXT, false},
    [REFUSED_AFFINITY] = {"InterPodAffinity", "node(s) didn't match pod affinity rules", true},
    [REFUSED_ANTI_AFFINITY] = {"InterPodAffinity", "node(s) didn't match pod anti-affinity rules",
                               false},
    [REFUSED_OTHERS_ANTI_AFFINITY] = {"InterPodAffinity",
                                      "node(s) didn't satisfy existing pods anti-affinity rules",
                                      false},
    [REFUSED_CLAIMS] = {"DynamicResources", "cannot allocate all claims", true},
    [REFUSED_CLAIM_ELSEWHERE] = {"DynamicResources", "resourceclaim not available on the node",
                                 true},
    [REFUSED_EXTENDED_CLAIM] = {"DynamicResources", "cannot schedule extended resource claim",
                                true},
    [REFUSED_EXTENDED] = {"DynamicResources", "cannot fit resource", true},
    [REFUSED_DEVICES] = {"DynamicResources", NULL, true},
};

void refusal_add(struct attempt *a, struct refusals *to, struct refusal r)
{
    if (!to)
        return;
    r.hopeless |= upstream[r.code].hopeless;
    vec_push_arena(a->arena, to, r);
}

const char *refusal_plugin(enum refusal_code code)
{
    return upstream[code].plugin;
}

void refusal_write_reason(const struct refusal *r, struct sbuf *out)
{
    if (upstream[r->code].text)
        sbuf_addz(out, upstream[r->code].text);
    else if (r->code == REFUSED_RESOURCE)
        sbuf_addf(out, "Insufficient %.*s", STR_ARG(r->name));
    else
        sbuf_add(out, r->detail);
}

bool refusal_hopeless(const struct refusals *r)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->p[i].hopeless)
            return true;
    return false;
}

// --- Our words -----------------------------------------------------------------------------------

static void write_requirement(const struct api_node_selector_requirement *q, struct sbuf *out)
{
    sbuf_addf(out, "%.*s %.*s", STR_ARG(q->key), STR_ARG(q->operator));
    for (size_t i = 0; i < q->values.n; i++)
        sbuf_addf(out, "%s%.*s", i ? ", " : " ", STR_ARG(q->values.p[i]));
}

// The first requirement of a term that the node does not meet.
static void write_term(const struct api_node_selector_term *t, const struct api_node *node,
                       struct sbuf *out)
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
        if (node_term_match(&one, node) > 0)
            continue;
        sbuf_addz(out, ": ");
        write_requirement(field ? one.match_fields.p : one.match_expressions.p, out);
        return;
    }
}

// Which label or requirement the node does not have, where one can be named.
static void write_unselected(const struct api_pod *pod, const struct api_node *node,
                             struct sbuf *out)
{
    sbuf_addz(out, "do not match the pod's node selector or affinity");
    for (size_t i = 0; i < pod->spec.node_selector.n; i++) {
        const struct api_str_entry *want = &pod->spec.node_selector.p[i];
        const struct str *have = api_map_find(&node->metadata.labels, want->key);
        if (have && str_eq(*have, want->value))
            continue;
        sbuf_addf(out, ": %.*s=%.*s", STR_ARG(want->key), STR_ARG(want->value));
        return;
    }
    const struct api_node_selector *required =
        pod->spec.affinity->node_affinity->required_during_scheduling_ignored_during_execution;
    if (required->node_selector_terms.n == 1)
        write_term(&required->node_selector_terms.p[0], node, out);
    else
        sbuf_addf(out, ": none of %zu terms", required->node_selector_terms.n);
}

static void write_volume(const struct refusal *r, struct sbuf *out)
{
    const struct api_persistent_volume_claim *claim = r->volume->claim;
    struct str name = claim->metadata.name;
    // kube-scheduler's text speaks of node(s), which are in front here.
    struct str text = str_from(str_z(upstream[r->code].text), sizeof("node(s) ") - 1);
    switch ((int)r->code) {
    case REFUSED_VOLUME_SOLE_USER:
        sbuf_addf(out, "are %.*s (%.*s is used by pod %.*s)", STR_ARG(text), STR_ARG(name),
                  STR_ARG(r->pod->key));
        return;
    case REFUSED_VOLUME_SELECTED:
        sbuf_addf(out, "%.*s (the volume of claim %.*s is being made for node %.*s)", STR_ARG(text),
                  STR_ARG(name), STR_ARG(r->volume->selected));
        return;
    case REFUSED_VOLUME_NONE:
    case REFUSED_VOLUME_ROOM:
        sbuf_addf(out, "%.*s (claim %.*s, class %.*s)", STR_ARG(text), STR_ARG(name),
                  STR_ARG(r->volume->class->metadata.name));
        return;
    default:
        sbuf_addf(out, "%s%.*s (claim %.*s has volume %.*s)",
                  r->code == REFUSED_VOLUME_GONE ? "are " : "", STR_ARG(text), STR_ARG(name),
                  STR_ARG(claim->spec.volume_name));
    }
}

static void refusal_write_devices(const struct refusal *r, struct sbuf *out)
{
    if (r->code != REFUSED_DEVICES)
        sbuf_addz(out, upstream[r->code].text);
    sbuf_add(out, r->detail);
}

// Amounts are reported in one clause, whichever comes first.
static void write_amount(const struct refusal *r, bool first, struct sbuf *out)
{
    sbuf_addz(out, first ? "have " : "");
    if (r->code == REFUSED_PODS)
        sbuf_addz(out, "too many pods");
    else
        sbuf_addf(out, "insufficient %.*s", STR_ARG(r->name));
}

static void write_spread(const struct refusal *r, struct sbuf *out)
{
    if (r->code == REFUSED_SPREAD_LABEL)
        sbuf_addf(out, "have no label %.*s for topology spread", STR_ARG(r->spread->topology_key));
    else
        sbuf_addf(out, "would exceed the topology spread over %.*s of %d",
                  STR_ARG(r->spread->topology_key), r->spread->max_skew);
}

static void refusal_write_one(const struct attempt *a, const struct sched_node *n,
                              const struct refusal *r, bool first, struct sbuf *out)
{
    switch (r->code) {
    case REFUSED_CORDONED:
        sbuf_addz(out, "are cordoned (unschedulable)");
        break;
    case REFUSED_TAINT:
        sbuf_addf(out, "carry taint %.*s%s%.*s:%.*s", STR_ARG(r->taint->key),
                  r->taint->value.n ? "=" : "", STR_ARG(r->taint->value),
                  STR_ARG(r->taint->effect));
        break;
    case REFUSED_BY_NAME:
    case REFUSED_SELECTOR:
        write_unselected(a->api, n->api, out);
        break;
    case REFUSED_PORT:
        sbuf_addf(out, "have host port %d in use", (int)r->number);
        break;
    case REFUSED_PODS:
    case REFUSED_RESOURCE:
        write_amount(r, first, out);
        break;
    case REFUSED_VOLUME_COUNT:
        sbuf_addf(out, "exceed max volume count (driver %.*s: %lld of %lld in use)",
                  STR_ARG(r->name), (long long)r->number, (long long)r->limit);
        break;
    case REFUSED_VOLUME_SOLE_USER:
    case REFUSED_VOLUME_GONE:
    case REFUSED_VOLUME_AFFINITY:
    case REFUSED_VOLUME_NONE:
    case REFUSED_VOLUME_SELECTED:
    case REFUSED_VOLUME_ROOM:
    case REFUSED_VOLUME_ZONE:
        write_volume(r, out);
        break;
    case REFUSED_SPREAD_LABEL:
    case REFUSED_SPREAD:
        write_spread(r, out);
        break;
    case REFUSED_AFFINITY:
        sbuf_addz(out, "do not satisfy the pod affinity");
        break;
    case REFUSED_ANTI_AFFINITY:
        sbuf_addz(out, "do not satisfy the pod anti-affinity");
        break;
    case REFUSED_OTHERS_ANTI_AFFINITY:
        sbuf_addz(out, "have a pod with anti-affinity to this one");
        break;
    case REFUSED_CLAIMS:
    case REFUSED_CLAIM_ELSEWHERE:
    case REFUSED_EXTENDED_CLAIM:
    case REFUSED_EXTENDED:
    case REFUSED_DEVICES:
    case REFUSAL_CODES:
        refusal_write_devices(r, out);
        break;
    }
}

void refusal_write(const struct attempt *a, const struct sched_node *n, const struct refusals *r,
                   struct sbuf *out)
{
    for (size_t i = 0; i < r->n; i++) {
        sbuf_addz(out, i ? ", " : "");
        refusal_write_one(a, n, &r->p[i], i == 0, out);
    }
}

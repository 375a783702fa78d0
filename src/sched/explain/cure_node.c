// SPDX-License-Identifier: Apache-2.0
//
// What takes an obstacle of a node away: the pod asks for less or for something else, or others
// open the node or leave it. Each change is made to the trial's copies.
#include <stdio.h>
#include <stdlib.h>

#include "api/match/label.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "base/nearest.h"
#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/cure_int.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

#define PORTS_TRIED   64
#define PODS_TRIED    64
#define SKEW_TRIED    16
#define UNSCHEDULABLE "node.kubernetes.io/unschedulable"

// --- Patches -------------------------------------------------------------------------------------

static void cure_set_patch(struct trial *t, struct cure_change *c, const struct sbuf *patch)
{
    c->patch = arena_str(&t->out->arena, sbuf_str(patch));
}

static void cure_patch_text(struct sbuf *out, const char *op, struct str path, struct str value)
{
    sbuf_addf(out, "[{\"op\":\"%s\",\"path\":", op);
    sbuf_add_json_str(out, path, false);
    sbuf_addz(out, ",\"value\":");
    sbuf_add_json_str(out, value, false);
    sbuf_addz(out, "}]");
}

// A change of the pod: one text at a path replaced, or the path removed when value is NULL.
static void cure_patch_pod(struct trial *t, struct cure_change *c, struct str path,
                           const struct str *value)
{
    cleanup_sbuf struct sbuf patch = {0};
    if (value) {
        cure_patch_text(&patch, "add", path, *value);
    } else {
        sbuf_addz(&patch, "[{\"op\":\"remove\",\"path\":");
        sbuf_add_json_str(&patch, path, false);
        sbuf_addz(&patch, "}]");
    }
    cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
    cure_set_patch(t, c, &patch);
}

static void cure_command(struct trial *t, struct cure_change *c, struct str command)
{
    c->command = arena_str(&t->out->arena, command);
}

// --- Cordons and taints --------------------------------------------------------------------------

static void drop_taint(struct api_taint_array *all, size_t at)
{
    memmove(&all->p[at], &all->p[at + 1], (all->n - at - 1) * sizeof(*all->p));
    all->n--;
}

static bool step_uncordon(struct trial *t)
{
    struct cure_change *c = cure_add(t, "uncordon", CURE_WEIGHT_UNCORDON,
                                     "let node %.*s take pods again: kubectl uncordon %.*s",
                                     STR_ARG(t->node->name), STR_ARG(t->node->name));
    if (!c)
        return false;
    c->admin = true;
    cure_point(t, c, CURE_PATCH, "Node", STR(""), t->node->name);
    c->patch = STR("[{\"op\":\"add\",\"path\":\"/spec/unschedulable\",\"value\":false}]");
    cure_command(t, c, arena_strf(&t->arena, "kubectl uncordon %.*s", STR_ARG(t->node->name)));
    t->fake->spec.unschedulable = false;
    for (size_t i = t->fake->spec.taints.n; i > 0; i--)
        if (str_eqz(t->fake->spec.taints.p[i - 1].key, UNSCHEDULABLE))
            drop_taint(&t->fake->spec.taints, i - 1); // goes with it
    return true;
}

// Taints that report what is wrong with a node: tolerating them does not make it work.
static bool taint_reports_fault(const struct api_taint *x)
{
    static const char *const faults[] = {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
        "node.kubernetes.io/memory-pressure",
        "node.kubernetes.io/disk-pressure",
        "node.kubernetes.io/pid-pressure",
        "node.kubernetes.io/network-unavailable",
        "node.kubernetes.io/out-of-service",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "node.cloudprovider.kubernetes.io/shutdown",
    };
    return str_is_one_of(x->key, faults, array_len(faults));
}

static struct str cure_taint_text(struct trial *t, const struct api_taint *x)
{
    return arena_strf(&t->arena, "%.*s%s%.*s:%.*s", STR_ARG(x->key), x->value.n ? "=" : "",
                      STR_ARG(x->value), STR_ARG(x->effect));
}

static bool step_repair(struct trial *t, const struct api_taint *x)
{
    bool silent = str_eqz(x->key, "node.kubernetes.io/not-ready") ||
                  str_eqz(x->key, "node.kubernetes.io/unreachable");
    struct cure_change *c =
        cure_add(t, "repairNode", CURE_WEIGHT_REPAIR, "repair node %.*s (taint %.*s): %s",
                 STR_ARG(t->node->name), STR_ARG(cure_taint_text(t, x)),
                 silent ? "its agent or kubelet does not report that it is ready"
                        : "see kubectl describe node");
    if (c)
        c->admin = true;
    return c != NULL;
}

static void cure_tolerate(struct trial *t, const struct api_taint *x)
{
    struct api_toleration_array *all = &t->api->spec.tolerations;
    struct api_toleration *p = arena_array(&t->arena, struct api_toleration, all->n + 1);
    if (all->n)
        memcpy(p, all->p, all->n * sizeof(*p));
    p[all->n] =
        (struct api_toleration){.key = x->key,
                                .operator= x->value.n ? STR("Equal") : STR(TOLERATION_EXISTS),
                                .value = x->value,
                                .effect = x->effect};
    *all = (struct api_toleration_array){p, all->n + 1};
}

static bool step_tolerate(struct trial *t, const struct api_taint *x)
{
    struct cure_change *c =
        cure_add(t, "toleration", CURE_WEIGHT_TOLERATION,
                 "give the pod a toleration for the taint %.*s", STR_ARG(cure_taint_text(t, x)));
    cleanup_sbuf struct sbuf patch = {0};
    if (!c)
        return false;
    sbuf_addz(&patch, "[{\"op\":\"add\",\"path\":\"/spec/tolerations/-\",\"value\":{\"key\":");
    sbuf_add_json_str(&patch, x->key, false);
    sbuf_addf(&patch, ",\"operator\":\"%s\"", x->value.n ? "Equal" : TOLERATION_EXISTS);
    if (x->value.n) {
        sbuf_addz(&patch, ",\"value\":");
        sbuf_add_json_str(&patch, x->value, false);
    }
    sbuf_addf(&patch, ",\"effect\":\"%.*s\"}}]", STR_ARG(x->effect));
    cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
    cure_set_patch(t, c, &patch);
    cure_tolerate(t, x);
    return true;
}

static bool step_untaint(struct trial *t, const struct api_taint *x, size_t at)
{
    struct cure_change *c = cure_add(t, "untaint", CURE_WEIGHT_UNTAINT,
                                     "take the taint away: kubectl taint node %.*s %.*s:%.*s-",
                                     STR_ARG(t->node->name), STR_ARG(x->key), STR_ARG(x->effect));
    cleanup_sbuf struct sbuf patch = {0};
    if (!c)
        return false;
    c->admin = true;
    cure_point(t, c, CURE_PATCH, "Node", STR(""), t->node->name);
    sbuf_addf(&patch, "[{\"op\":\"test\",\"path\":\"/spec/taints/%zu/key\",\"value\":", at);
    sbuf_add_json_str(&patch, x->key, false);
    sbuf_addf(&patch, "},{\"op\":\"remove\",\"path\":\"/spec/taints/%zu\"}]", at);
    cure_set_patch(t, c, &patch);
    cure_command(t, c,
                 arena_strf(&t->arena, "kubectl taint node %.*s %.*s:%.*s-", STR_ARG(t->node->name),
                            STR_ARG(x->key), STR_ARG(x->effect)));
    return true;
}

static bool step_taint(struct trial *t, const struct api_taint *refuses)
{
    struct api_taint_array *all = &t->fake->spec.taints;
    for (size_t i = 0; i < all->n; i++) {
        struct api_taint x = all->p[i];
        if (!str_eq(x.key, refuses->key) || !str_eq(x.effect, refuses->effect))
            continue;
        bool fault = taint_reports_fault(&x);
        if (!t->others && !fault)
            return step_tolerate(t, &x);
        bool ok = str_eqz(x.key, UNSCHEDULABLE) ? step_uncordon(t)
                  : fault                       ? step_repair(t, &x)
                                                : step_untaint(t, &x, i);
        if (ok && i < all->n && str_eq(all->p[i].key, x.key))
            drop_taint(all, i);
        return ok;
    }
    return false;
}

// --- Node selectors ------------------------------------------------------------------------------

// Does a node of the cluster match what the pod selects?
static bool cure_selects_any(const struct trial *t)
{
    const struct cluster *c = &t->s->cluster;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && c->order.p[i]->api &&
            filter_selected(t->original->api, c->order.p[i]->api))
            return true;
    return false;
}

// A wish that some node grants is given up only where nothing else helps.
static size_t cure_wish_weight(const struct trial *t, struct str from, struct str to)
{
    struct nearest near = {.word = from};
    if (cure_selects_any(t))
        return CURE_WEIGHT_WISH;
    nearest_try(&near, to);
    return to.n && near.best.n ? CURE_WEIGHT_TYPO : CURE_WEIGHT_MISTAKE;
}

static bool step_label(struct trial *t, struct str key, struct str value)
{
    struct cure_change *c =
        cure_add(t, "label", CURE_WEIGHT_LABEL,
                 "label the node: kubectl label --overwrite node %.*s %.*s=%.*s",
                 STR_ARG(t->node->name), STR_ARG(key), STR_ARG(value));
    cleanup_sbuf struct sbuf patch = {0}, path = {0};
    if (!c)
        return false;
    c->admin = true;
    cure_point(t, c, CURE_PATCH, "Node", STR(""), t->node->name);
    sbuf_addz(&path, "/metadata/labels");
    cure_add_path(&path, key);
    cure_patch_text(&patch, "add", sbuf_str(&path), value);
    cure_set_patch(t, c, &patch);
    cure_command(t, c,
                 arena_strf(&t->arena, "kubectl label --overwrite node %.*s %.*s=%.*s",
                            STR_ARG(t->node->name), STR_ARG(key), STR_ARG(value)));
    struct api_str_map *labels = &t->fake->metadata.labels;
    struct api_str_entry *p = arena_array(&t->arena, struct api_str_entry, labels->n + 1);
    size_t n = 0;
    while (n < labels->n && str_cmp(labels->p[n].key, key) < 0) {
        p[n] = labels->p[n];
        n++;
    }
    size_t rest = api_map_find(labels, key) ? n + 1 : n; // it takes the old one's place
    p[n] = (struct api_str_entry){.key = key, .value = value};
    for (size_t i = rest; i < labels->n; i++)
        p[n + 1 + i - rest] = labels->p[i];
    *labels = (struct api_str_map){p, n + 1 + labels->n - rest};
    return true;
}

// A key of the node's labels that may have been meant.
static struct str near_label(const struct trial *t, struct str key)
{
    struct nearest near = {.word = key};
    const struct api_str_map *labels = &t->fake->metadata.labels;
    for (size_t i = 0; i < labels->n; i++) {
        nearest_try(&near, labels->p[i].key);
        struct str domain, name;
        if (str_cut(labels->p[i].key, '/', &domain, &name) && str_eq(name, key))
            return labels->p[i].key;
    }
    return near.best;
}

static bool step_node_selector(struct trial *t, size_t at)
{
    struct api_str_map *all = &t->api->spec.node_selector;
    struct api_str_entry want = all->p[at];
    const struct str *have = api_map_find(&t->fake->metadata.labels, want.key);
    cleanup_sbuf struct sbuf path = {0};
    struct cure_change *c;
    if (t->others)
        return step_label(t, want.key, want.value);
    sbuf_addz(&path, "/spec/nodeSelector");
    cure_add_path(&path, want.key);
    if (have) {
        c = cure_add(t, "nodeSelector", cure_wish_weight(t, want.value, *have),
                     "select what a node has: %.*s=%.*s instead of %.*s", STR_ARG(want.key),
                     STR_ARG(*have), STR_ARG(want.value));
        all->p[at].value = *have;
    } else {
        struct str near = near_label(t, want.key);
        c = cure_add(t, "nodeSelector", cure_wish_weight(t, want.key, near),
                     "take %.*s=%.*s out of the pod's nodeSelector%s%.*s", STR_ARG(want.key),
                     STR_ARG(want.value), near.n ? "; nodes have the label " : "", STR_ARG(near));
        memmove(&all->p[at], &all->p[at + 1], (all->n - at - 1) * sizeof(*all->p));
        all->n--;
    }
    if (c)
        cure_patch_pod(t, c, sbuf_str(&path), have);
    return c != NULL;
}

// The pod's required node affinity: a term that asks for one thing that the node lacks gets it
// out; else the whole goes.
static bool step_node_affinity(struct trial *t)
{
    struct api_affinity *f = t->api->spec.affinity;
    if (!f || !f->node_affinity)
        return false;
    struct api_node_affinity *n = f->node_affinity;
    if (!n->required_during_scheduling_ignored_during_execution)
        return false;
    struct cure_change *c =
        cure_add(t, "nodeAffinity", cure_selects_any(t) ? CURE_WEIGHT_WISH : CURE_WEIGHT_MISTAKE,
                 "take the required node affinity out of the pod: node %.*s does not match it",
                 STR_ARG(t->node->name));
    if (!c)
        return false;
    cure_patch_pod(
        t, c, STR("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"),
        NULL);
    n->required_during_scheduling_ignored_during_execution = NULL;
    return true;
}

static bool step_selector(struct trial *t)
{
    for (size_t i = 0; i < t->api->spec.node_selector.n; i++) {
        const struct api_str_entry *want = &t->api->spec.node_selector.p[i];
        const struct str *have = api_map_find(&t->fake->metadata.labels, want->key);
        if (!have || !str_eq(*have, want->value))
            return step_node_selector(t, i);
    }
    return step_node_affinity(t);
}

// --- Pods that are in the way --------------------------------------------------------------------

// Ends a pod of the node, if the node then is no longer refused for w.
static bool step_end_pod(struct trial *t, enum why w, struct sched_pod *p)
{
    struct attempt a;
    cluster_lift(&t->s->cluster, p);
    struct arena kept = t->s->turn.arena;
    t->s->turn.arena = (struct arena){0};
    bool helps = cycle_begin(t->s, &t->pod, &a) == DRA_OK;
    if (helps) {
        enum why now = filter_node(&a, t->node, NULL);
        helps = now != w;
    }
    cycle_end(&a);
    arena_done(&t->s->turn.arena);
    t->s->turn.arena = kept;
    if (!helps) {
        cluster_place(&t->s->cluster, p, t->node);
        return false;
    }
    vec_push_arena(&t->arena, &t->lifted, p);
    struct str namespace = p->api->metadata.namespace, name = p->api->metadata.name;
    bool own = str_eq(namespace, t->api->metadata.namespace);
    struct cure_change *c = cure_add(t, "podGone", own ? CURE_WEIGHT_HOLDER : CURE_WEIGHT_OTHERS,
                                     "end pod %.*s, which is on node %.*s, or wait for its end",
                                     STR_ARG(p->key), STR_ARG(t->node->name));
    if (!c)
        return false;
    c->admin = !own;
    cure_point(t, c, CURE_DELETE, "Pod", namespace, name);
    cure_command(t, c,
                 arena_strf(&t->arena, "kubectl delete pod -n %.*s %.*s", STR_ARG(namespace),
                            STR_ARG(name)));
    return true;
}

static int cure_node_cmp_keys(const void *x, const void *y)
{
    const struct sched_pod *const *a = x, *const *b = y;
    return str_cmp((*a)->key, (*b)->key);
}

// The pod's own namespace first, by name: the node's list has the order in which pods came. Lifting
// changes that list, so it is copied.
static bool step_end_any(struct trial *t, enum why w)
{
    size_t n = 0, all = 0, most = t->node->pods.n;
    struct sched_pod **sorted = arena_array(&t->arena, struct sched_pod *, most + 1);
    struct sched_pod **pods = arena_array(&t->arena, struct sched_pod *, most + 1);
    for (size_t i = 0; i < most; i++)
        if (!t->node->pods.p[i]->assumed && !t->node->pods.p[i]->binding)
            sorted[all++] = t->node->pods.p[i];
    if (all)
        qsort(sorted, all, sizeof(*sorted), cure_node_cmp_keys);
    for (int own = 1; own >= 0; own--)
        for (size_t i = 0; i < all; i++)
            if (str_eq(sorted[i]->api->metadata.namespace, t->api->metadata.namespace) ==
                (own == 1))
                pods[n++] = sorted[i];
    for (size_t i = 0; i < n && i < PODS_TRIED; i++)
        if (step_end_pod(t, w, pods[i]))
            return true;
    return false;
}

// --- Ports and amounts ---------------------------------------------------------------------------

static bool step_port(struct trial *t, int32_t port)
{
    struct api_container_array *all = &t->api->spec.containers;
    if (t->others)
        return step_end_any(t, WHY_PORTS);
    for (size_t i = 0; i < all->n; i++)
        for (size_t k = 0; k < all->p[i].ports.n; k++) {
            struct api_container_port *x = &all->p[i].ports.p[k];
            if (x->host_port != port)
                continue;
            for (int32_t to = port + 1; to <= 65535 && to <= port + PORTS_TRIED; to++) {
                struct attempt a = {.s = t->s, .pod = &t->pod, .api = t->api, .arena = &t->arena};
                x->host_port = to;
                cure_refresh(t);
                if (filter_node_all(&a, t->node, NULL) & WHY_BIT(WHY_PORTS))
                    continue;
                struct cure_change *c =
                    cure_add(t, "hostPort", CURE_WEIGHT_LESS,
                             "take another host port: %d instead of %d", (int)to, (int)port);
                if (!c)
                    return false;
                cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace,
                           t->api->metadata.name);
                c->patch = arena_strf(&t->out->arena,
                                      "[{\"op\":\"add\",\"path\":\"/spec/containers/%zu/ports/%zu/"
                                      "hostPort\",\"value\":%d}]",
                                      i, k, (int)to);
                return true;
            }
        }
    return false;
}

static struct quantity *cure_amount(struct api_quantity_map *m, struct str name)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->p[i].key, name))
            return &m->p[i].value;
    return NULL;
}

// In the words of a manifest, rounded down so that it fits.
static struct str room_text(struct trial *t, uint32_t res, int64_t room)
{
    static const char *const units[] = {"", "Ki", "Mi", "Gi", "Ti"};
    size_t unit = 0;
    if (res == RES_CPU)
        return room % 1000 ? arena_strf(&t->arena, "%lldm", (long long)room)
                           : arena_strf(&t->arena, "%lld", (long long)(room / 1000));
    while ((res == RES_MEMORY || res == RES_STORAGE) && unit + 1 < array_len(units) && room > 0 &&
           room % 1024 == 0) {
        room /= 1024;
        unit++;
    }
    return arena_strf(&t->arena, "%lld%s", (long long)room, units[unit]);
}

// Could any node give so much, if no other pod were there?
static bool amount_is_possible(const struct trial *t, const struct pod_need *need)
{
    const struct cluster *c = &t->s->cluster;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && c->order.p[i]->api &&
            amount_at(&c->order.p[i]->allocatable, need->res) >= need->amount)
            return true;
    return false;
}

static bool set_amount(struct trial *t, struct api_quantity_map *m, struct str name, struct str to)
{
    struct quantity *q = cure_amount(m, name);
    return q && quantity_parse(to, &t->arena, q, NULL) == 0;
}

// The container with the largest request asks for what is left.
static bool step_ask_less(struct trial *t, const struct pod_need *need, struct str name,
                          int64_t room)
{
    struct api_container_array *all = &t->api->spec.containers;
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < all->n; i++) {
        const struct quantity *q = cure_amount(&all->p[i].resources.requests, name);
        if (q && (at == SIZE_MAX ||
                  quantity_cmp(q, cure_amount(&all->p[at].resources.requests, name)) > 0))
            at = i;
    }
    if (at == SIZE_MAX)
        return false;
    const struct quantity *have = cure_amount(&all->p[at].resources.requests, name);
    int64_t own = need->res == RES_CPU ? quantity_milli(have) : quantity_value(have);
    int64_t left = own - (need->amount - room);
    if (left <= 0)
        return false;
    cleanup_sbuf struct sbuf was = {0}, patch = {0}, path = {0};
    struct str to = room_text(t, need->res, left);
    quantity_write(have, &was);
    bool same_limit = need->res >= RES_FIXED;
    struct cure_change *c =
        cure_add(t, "request", amount_is_possible(t, need) ? CURE_WEIGHT_LESS : CURE_WEIGHT_MISTAKE,
                 "ask for at most %.*s %.*s instead of %.*s: so much is left on %.*s", STR_ARG(to),
                 STR_ARG(name), STR_ARG(sbuf_str(&was)), STR_ARG(t->node->name));
    if (!c)
        return false;
    sbuf_addf(&path, "/spec/containers/%zu/resources/requests", at);
    cure_add_path(&path, name);
    cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
    cure_patch_text(&patch, "add", sbuf_str(&path), to);
    if (same_limit) {
        sbuf_truncate(&patch, patch.n - 1);
        sbuf_clear(&path);
        sbuf_addf(&path, "/spec/containers/%zu/resources/limits", at);
        cure_add_path(&path, name);
        cleanup_sbuf struct sbuf more = {0};
        cure_patch_text(&more, "add", sbuf_str(&path), to);
        sbuf_addc(&patch, ',');
        sbuf_add(&patch, str_from(sbuf_str(&more), 1));
        (void)!set_amount(t, &all->p[at].resources.limits, name, to);
    }
    cure_set_patch(t, c, &patch);
    bool ok = set_amount(t, &all->p[at].resources.requests, name, to);
    cure_refresh(t);
    return ok;
}

// No node offers the resource: a name that one does offer may have been meant.
static struct str near_resource(const struct trial *t, struct str name)
{
    const struct cluster *c = &t->s->cluster;
    struct nearest near = {.word = name};
    for (uint32_t i = RES_FIXED; i < c->res_names.n; i++)
        for (size_t k = 0; k < c->order.n; k++)
            if (c->order.p[k] && amount_at(&c->order.p[k]->allocatable, i) > 0) {
                nearest_try(&near, c->res_names.p[i]);
                break;
            }
    map_foreach(&t->s->extended, i)
        nearest_try(&near, map_key(&t->s->extended, i));
    return near.best;
}

static bool rename_amount(struct api_quantity_map *m, struct str from, struct str to)
{
    for (size_t i = 0; i < m->n; i++)
        if (str_eq(m->p[i].key, from)) {
            m->p[i].key = to;
            return true;
        }
    return false;
}

static bool step_rename(struct trial *t, struct str name)
{
    struct str to = near_resource(t, name);
    struct api_container_array *all = &t->api->spec.containers;
    cleanup_sbuf struct sbuf patch = {0};
    if (!to.n || str_eq(to, name))
        return false;
    struct cure_change *c = cure_add(t, "resourceName", CURE_WEIGHT_TYPO,
                                     "no node and no DeviceClass offers %.*s: did you mean %.*s?",
                                     STR_ARG(name), STR_ARG(to));
    if (!c)
        return false;
    for (size_t i = 0; i < all->n; i++) {
        struct api_quantity_map *maps[] = {&all->p[i].resources.requests,
                                           &all->p[i].resources.limits};
        static const char *const members[] = {"requests", "limits"};
        for (size_t k = 0; k < 2; k++) {
            cleanup_sbuf struct sbuf from_path = {0}, to_path = {0};
            if (!rename_amount(maps[k], name, to))
                continue;
            sbuf_addf(&from_path, "/spec/containers/%zu/resources/%s", i, members[k]);
            sbuf_add(&to_path, sbuf_str(&from_path));
            cure_add_path(&from_path, name);
            cure_add_path(&to_path, to);
            sbuf_addf(&patch, "%s{\"op\":\"move\",\"from\":\"%s\",\"path\":\"%s\"}",
                      patch.n ? "," : "[", from_path.p, to_path.p);
        }
    }
    sbuf_addc(&patch, ']');
    cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
    cure_set_patch(t, c, &patch);
    cure_refresh(t);
    return true;
}

static bool is_offered(const struct trial *t, uint32_t res, struct str name)
{
    const struct cluster *c = &t->s->cluster;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && amount_at(&c->order.p[i]->allocatable, res) > 0)
            return true;
    return extended_class(t->s, name) != NULL;
}

static bool step_amount(struct trial *t)
{
    const struct cluster *c = &t->s->cluster;
    for (size_t i = 0; i < t->pod.needs_len; i++) {
        struct pod_need need = t->pod.needs[i];
        struct str name = c->res_names.p[need.res];
        int64_t room =
            amount_at(&t->node->allocatable, need.res) - amount_at(&t->node->requested, need.res);
        if (need.amount <= room || (need.res >= RES_FIXED && extended_class(t->s, name) &&
                                    amount_at(&t->node->allocatable, need.res) == 0))
            continue;
        if (need.res >= RES_FIXED && !is_offered(t, need.res, name))
            return step_rename(t, name);
        if (need.res != RES_PODS && !t->others && room > 0)
            return step_ask_less(t, &need, name, room);
        return step_end_any(t, WHY_RESOURCES);
    }
    return false;
}

// --- Spread and affinity to pods -----------------------------------------------------------------

static bool spread_raise_skew(struct trial *t, struct api_topology_spread_constraint *x, size_t at)
{
    int32_t was = x->max_skew;
    for (int32_t to = was + 1; to <= was + SKEW_TRIED; to++) {
        struct attempt a;
        struct arena kept = t->s->turn.arena;
        t->s->turn.arena = (struct arena){0};
        x->max_skew = to;
        bool helps = cycle_begin(t->s, &t->pod, &a) == DRA_OK &&
                     spread_filter(&a, t->node, NULL) == WHY_NONE;
        cycle_end(&a);
        arena_done(&t->s->turn.arena);
        t->s->turn.arena = kept;
        if (!helps)
            continue;
        struct cure_change *c = cure_add(t, "maxSkew", CURE_WEIGHT_RULE,
                                         "raise maxSkew of the topology spread over %.*s to %d",
                                         STR_ARG(x->topology_key), (int)to);
        if (!c)
            return false;
        cure_point(t, c, CURE_PATCH, "Pod", t->api->metadata.namespace, t->api->metadata.name);
        c->patch =
            arena_strf(&t->out->arena,
                       "[{\"op\":\"add\",\"path\":\"/spec/topologySpreadConstraints/%zu/maxSkew\","
                       "\"value\":%d}]",
                       at, (int)to);
        return true;
    }
    x->max_skew = was;
    return false;
}

// A node without the label is left out whatever maxSkew is.
static bool spread_make_soft(struct trial *t, struct api_topology_spread_constraint *x, size_t at,
                             bool missing)
{
    struct str near = missing ? near_label(t, x->topology_key) : (struct str){0};
    cleanup_sbuf struct sbuf path = {0};
    struct cure_change *c;
    if (near.n && !str_eq(near, x->topology_key)) {
        c = cure_add(t, "topologyKey", CURE_WEIGHT_TYPO,
                     "spread over %.*s: no node has a label %.*s", STR_ARG(near),
                     STR_ARG(x->topology_key));
        sbuf_addf(&path, "/spec/topologySpreadConstraints/%zu/topologyKey", at);
        x->topology_key = near;
        if (c)
            cure_patch_pod(t, c, sbuf_str(&path), &near);
        return c != NULL;
    }
    struct str soft = STR("ScheduleAnyway");
    c = cure_add(t, "spread", CURE_WEIGHT_RULE + 10,
                 "let the topology spread over %.*s be ScheduleAnyway%s", STR_ARG(x->topology_key),
                 missing ? ": the node has no such label" : "");
    sbuf_addf(&path, "/spec/topologySpreadConstraints/%zu/whenUnsatisfiable", at);
    x->when_unsatisfiable = soft;
    if (c)
        cure_patch_pod(t, c, sbuf_str(&path), &soft);
    return c != NULL;
}

static bool label_is_known(const struct trial *t, struct str key)
{
    const struct cluster *c = &t->s->cluster;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && c->order.p[i]->api &&
            api_map_find(&c->order.p[i]->api->metadata.labels, key))
            return true;
    return false;
}

static bool step_spread(struct trial *t, const struct refusal *why)
{
    struct api_topology_spread_constraint_array *all = &t->api->spec.topology_spread_constraints;
    bool missing = why->code == REFUSED_SPREAD_LABEL;
    for (size_t i = 0; i < all->n; i++) {
        struct api_topology_spread_constraint *x = &all->p[i];
        if (!str_eq(x->topology_key, why->spread->topology_key) ||
            !str_eqz(x->when_unsatisfiable, "DoNotSchedule"))
            continue;
        if (missing && t->others)
            return step_label(t, x->topology_key,
                              label_is_known(t, x->topology_key) ? STR("another") : t->node->name);
        if (missing)
            return spread_make_soft(t, x, i, !label_is_known(t, x->topology_key));
        return t->others ? spread_make_soft(t, x, i, false)
                         : spread_raise_skew(t, x, i) || spread_make_soft(t, x, i, false);
    }
    return false;
}

static bool step_pod_affinity(struct trial *t, const struct refusal *why)
{
    struct api_affinity *f = t->api->spec.affinity;
    bool anti = why->code == REFUSED_ANTI_AFFINITY;
    if (why->code == REFUSED_OTHERS_ANTI_AFFINITY || (anti && t->others))
        return step_end_any(t, WHY_POD_AFFINITY);
    if (!f || (anti ? !f->pod_anti_affinity : !f->pod_affinity))
        return false;
    struct cure_change *c = cure_add(t, "podAffinity", CURE_WEIGHT_RULE,
                                     "change the pod's affinity to other pods: take out the "
                                     "required pod %saffinity",
                                     anti ? "anti-" : "");
    if (!c)
        return false;
    cure_patch_pod(
        t, c,
        anti ? STR("/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution")
             : STR("/spec/affinity/podAffinity/requiredDuringSchedulingIgnoredDuringExecution"),
        NULL);
    if (anti)
        f->pod_anti_affinity->required_during_scheduling_ignored_during_execution.n = 0;
    else
        f->pod_affinity->required_during_scheduling_ignored_during_execution.n = 0;
    return true;
}

bool cure_step(struct trial *t, struct attempt *a, enum why w, const struct refusals *why)
{
    const struct refusal *r = why->n ? &why->p[0] : NULL;
    (void)a;
    if (!r)
        return false;
    switch (w) {
    case WHY_UNSCHEDULABLE:
        return step_uncordon(t);
    case WHY_TAINT:
        return step_taint(t, r->taint);
    case WHY_NODE_AFFINITY:
        return step_selector(t);
    case WHY_PORTS:
        return step_port(t, (int32_t)r->number);
    case WHY_RESOURCES:
        return step_amount(t);
    case WHY_SPREAD:
        return step_spread(t, r);
    case WHY_POD_AFFINITY:
        return step_pod_affinity(t, r);
    case WHY_VOLUMES:
    case WHY_DEVICES:
    case WHY_NODE_NAME:
    case WHY_NONE:
        break;
    }
    return false;
}

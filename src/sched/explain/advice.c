// SPDX-License-Identifier: Apache-2.0
//
// What would let a pod be placed, beside the remedies of the allocator: gates, missing objects,
// node selectors, taints and amounts. Each line is something that a user can do.
#include "sched/explain/advice.h"

#include <stdarg.h>
#include <stdio.h>

#include "api/match/claim.h"
#include "api/match/label.h"
#include "api/match/node.h"
#include "api/match/taint.h"
#include "base/nearest.h"
#include "sched/bind/bind_int.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/cure.h"

#include "base/banned.h"

#define LINE_MAX_BYTES 1024

void advice_done(struct advice *t)
{
    arena_done(&t->arena);
}

void advice_add(struct advice *t, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args); // a longer one is cut
    va_end(args);
    if (n < 0)
        return;
    for (size_t i = 0; i < t->lines.n; i++)
        if (str_eqz(t->lines.p[i], line))
            return;
    vec_push_arena(&t->arena, &t->lines, arena_str(&t->arena, str_z(line)));
}

void advice_first(struct advice *t, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args); // a longer one is cut
    va_end(args);
    if (n < 0 || str_listed(t->urgent.p, t->urgent.n, str_z(line)))
        return;
    vec_push_arena(&t->arena, &t->urgent, arena_str(&t->arena, str_z(line)));
}

void advice_note(struct advice *t, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, args); // a longer one is cut
    va_end(args);
    if (n > 0 && !t->note.n)
        t->note = arena_str(&t->arena, str_z(line));
}

void advice_write(const struct advice *t, struct json_writer *w)
{
    json_write_key(w, STR("advice"));
    json_write_array_begin(w);
    for (size_t i = 0; i < t->lines.n; i++)
        json_write_str(w, t->lines.p[i]);
    json_write_array_end(w);
    if (!t->urgent.n)
        return;
    json_write_array_in(w, "urgentAdvice");
    for (size_t i = 0; i < t->urgent.n; i++)
        json_write_str(w, t->urgent.p[i]);
    json_write_array_end(w);
}

// --- Names of objects ----------------------------------------------------------------------------

struct name_search {
    struct nearest nearest;
    struct str namespace;
    struct str others[4]; // the first of those there are
    size_t n;
};

static void show_name(void *arg, const struct typed_object *o)
{
    struct name_search *f = arg;
    if (!str_eq(o->meta->namespace, f->namespace))
        return;
    nearest_try(&f->nearest, o->meta->name);
    if (f->n < array_len(f->others))
        f->others[f->n] = o->meta->name;
    f->n++;
}

void advice_missing(struct advice *t, const struct informer *all, const char *kind,
                    struct str namespace, struct str name)
{
    struct name_search f = {.nearest = {.word = name}, .namespace = namespace};
    if (all)
        informer_foreach(all, show_name, &f);
    bool of_pod = strcmp(kind, "ResourceClaim") == 0 || strcmp(kind, "ResourceClaimTemplate") == 0;
    if (f.nearest.best.n && !of_pod) // those are remedies (cure_gate.c)
        advice_add(t, "did you mean %s %.*s?", kind, STR_ARG(f.nearest.best));
    advice_add(t, "create %s %.*s%s%.*s", kind, STR_ARG(name), namespace.n ? " in namespace " : "",
               STR_ARG(namespace));
    if (f.nearest.best.n || f.n == 0 || namespace.n)
        return;
    cleanup_sbuf struct sbuf names = {0};
    for (size_t i = 0; i < f.n && i < array_len(f.others); i++)
        sbuf_addf(&names, "%s%.*s", i ? ", " : "", STR_ARG(f.others[i]));
    advice_add(t, "or take one that exists: %.*s%s", STR_ARG(sbuf_str(&names)),
               f.n > array_len(f.others) ? ", …" : "");
}

// --- Gates ---------------------------------------------------------------------------------------

static void own_gates(const struct api_pod *pod, struct sbuf *cause)
{
    sbuf_addz(cause, "it has the scheduling gate");
    for (size_t i = 0; i < pod->spec.scheduling_gates.n; i++)
        sbuf_addf(cause, "%s%.*s", i ? ", " : " ", STR_ARG(pod->spec.scheduling_gates.p[i].name));
}

void advice_group(struct advice *t, const struct sched_group *g, struct sbuf *cause)
{
    size_t min = groups_min(g);
    if (!g->api) {
        sbuf_addz(cause, "it does not exist");
        advice_add(t, "create PodGroup %.*s, or take schedulingGroup out of its pods",
                   STR_ARG(g->key));
    } else if (g->pods.n < min) {
        sbuf_addf(cause, "it has %zu of the %zu pods that must start together", g->pods.n, min);
        advice_add(t, "create %zu more pod%s of the group", min - g->pods.n,
                   min - g->pods.n == 1 ? "" : "s");
        if (g->pods.n)
            advice_add(t, "or lower minCount of PodGroup %.*s to %zu", STR_ARG(g->key), g->pods.n);
    }
}

static void group_gates(struct advice *t, const struct sched_pod *p, struct sbuf *cause)
{
    cleanup_sbuf struct sbuf lack = {0};
    advice_group(t, p->group, &lack);
    struct str text = sbuf_str(&lack);
    if (str_starts(text, STR("it ")))
        sbuf_addf(cause, "its PodGroup %.*s %.*s", STR_ARG(p->group->key),
                  STR_ARG(str_from(text, strlen("it "))));
}

static void missing_claims(struct advice *t, struct sched *s, const struct api_pod *pod)
{
    struct str namespace = pod->metadata.namespace;
    for (size_t i = 0; i < pod->spec.resource_claims.n; i++) {
        const struct api_pod_resource_claim *c = &pod->spec.resource_claims.p[i];
        struct str template = c->resource_claim_template_name;
        if (template.n && s->watch.informers[WATCH_TEMPLATES] &&
            !informer_get(s->watch.informers[WATCH_TEMPLATES], namespace, template))
            advice_missing(t, s->watch.informers[WATCH_TEMPLATES], "ResourceClaimTemplate",
                           namespace, template);
        if (c->resource_claim_name.n &&
            !claims_api(claims_find(&s->claims, namespace, c->resource_claim_name)))
            advice_missing(t, s->watch.informers[WATCH_CLAIMS], "ResourceClaim", namespace,
                           c->resource_claim_name);
    }
}

void advice_gate(struct advice *t, struct sched *s, const struct sched_pod *p, struct sbuf *cause)
{
    if (p->api->spec.scheduling_gates.n) {
        own_gates(p->api, cause);
        return;
    }
    if (p->group && p->group_gated)
        group_gates(t, p, cause);
    if (cause->n == 0)
        (void)dra_gate(s, p->api, cause);
    missing_claims(t, s, p->api);
}

// --- Classes -------------------------------------------------------------------------------------

static void advice_add_class(struct advice *t, const struct attempt *a, struct str name)
{
    if (!index_find_class(a->s->devices, name))
        advice_missing(t, a->s->watch.informers[WATCH_CLASSES], "DeviceClass", STR(""), name);
}

void advice_pod(struct advice *t, const struct attempt *a)
{
    if (volumes_on(a->s))
        advice_volumes(t, a);
    for (size_t c = 0; c < a->wants_len; c++) {
        const struct api_resource_claim *claim = a->wants[c].claim;
        for (size_t i = 0; claim && i < claim->spec.devices.requests.n; i++) {
            const struct api_device_request *r = &claim->spec.devices.requests.p[i];
            if (r->exactly)
                advice_add_class(t, a, r->exactly->device_class_name);
            for (size_t k = 0; k < r->first_available.n; k++)
                advice_add_class(t, a, r->first_available.p[k].device_class_name);
        }
    }
}

// --- Nodes ---------------------------------------------------------------------------------------

static void claims_elsewhere(struct advice *t, const struct attempt *a)
{
    for (size_t i = 0; i < a->wants_len; i++) {
        const struct want *w = &a->wants[i];
        struct str at =
            w->allocation ? node_only_name(w->allocation->node_selector) : (struct str){0};
        if (!w->unavailable || !w->entry)
            continue;
        if (at.n)
            advice_add(
                t,
                "let the pod run on %.*s, where claim %.*s is allocated (nodeSelector, affinity, "
                "tolerations)",
                STR_ARG(at), STR_ARG(w->entry->key));
        advice_add(t, "or give the pod a claim of its own: resourceClaimTemplateName");
    }
}

bool advice_crowded(struct advice *t, const struct attempt *a, struct sbuf *cause)
{
    for (size_t i = 0; i < a->wants_len; i++) {
        const struct api_resource_claim *claim = a->wants[i].claim;
        if (!claim || a->wants[i].group || claim->status.reserved_for.n < RESERVED_MAX)
            continue;
        sbuf_addf(cause, "claim %.*s has %zu users, and a claim may have no more",
                  STR_ARG(a->wants[i].entry->key), claim->status.reserved_for.n);
        advice_add(t, "give the pod a claim of its own: resourceClaimTemplateName");
        advice_add(t, "or share the claim by a PodGroup, which counts as one user");
        advice_add(t, "or wait until a pod that uses it is over");
        return true;
    }
    return false;
}

void advice_node(struct advice *t, struct attempt *a, const struct sched_node *n, enum why w)
{
    t->fits += w == WHY_NONE;
    if (w == WHY_DEVICES)
        claims_elsewhere(t, a);
    if (w != WHY_VOLUMES || (t->told & WHY_BIT(w)))
        return;
    t->told |= WHY_BIT(w);
    advice_volume_node(t, a, n);
}

// --- Devices -------------------------------------------------------------------------------------

// class_of_request finds what a request, or an alternative of it, asks for; empty when it is not
// among the attempt's.
static struct str class_of_request(const struct attempt *a, const struct alloc_funnel *f)
{
    struct str name, sub;
    bool alternative = str_cut(f->request, '/', &name, &sub);
    for (size_t i = 0; i < a->open_len; i++) {
        const struct api_resource_claim *claim = a->open[i];
        if (!str_ends(f->claim, claim->metadata.name))
            continue;
        for (size_t k = 0; k < claim->spec.devices.requests.n; k++) {
            const struct api_device_request *r = &claim->spec.devices.requests.p[k];
            if (!str_eq(r->name, name))
                continue;
            if (!alternative)
                return r->exactly ? r->exactly->device_class_name : (struct str){0};
            for (size_t m = 0; m < r->first_available.n; m++)
                if (str_eq(r->first_available.p[m].name, sub))
                    return r->first_available.p[m].device_class_name;
        }
    }
    return (struct str){0};
}

static void advice_add_funnel(struct advice *t, const struct attempt *a,
                              const struct alloc_funnel *f)
{
    for (size_t i = 0; i < f->reasons_len; i++) {
        const struct alloc_reason *r = &f->reasons[i];
        if (r->row == ALLOC_ROW_SELECTOR_FAILED)
            advice_missing_key(t, a->s, class_of_request(a, f), r);
        if (r->row == ALLOC_ROW_SELECTOR && f->wanted > f->usable)
            advice_refusing_term(t, a->s, r);
    }
}

// A claim that stands for extended resources cannot be changed; the limits that it is made of can.
static void advice_add_extended(struct advice *t, const struct alloc_group *g)
{
    for (size_t k = 0; k < g->explanation.funnels_len; k++) {
        const struct alloc_funnel *f = &g->explanation.funnels[k];
        if (f->wanted > f->usable && f->usable > 0)
            advice_add(
                t,
                "lower the limit of the extended resource to %zu: %.*s has so many usable devices",
                f->usable, STR_ARG(g->names[0]));
        else if (f->wanted > f->usable)
            advice_add(
                t,
                "wait until a pod gives back what the extended resource stands for, or add a node");
    }
}

// Devices of all requests are published, but nowhere together.
static void advice_add_scattered(struct advice *t, const struct alloc_explanation *e)
{
    uint64_t all = e->funnels_len < CURE_CLASSES_MAX ? (UINT64_C(1) << e->funnels_len) - 1 : 0;
    if (t->fits || !t->cures || t->cures->cut || t->cures->class_seen || e->funnels_len < 2 ||
        !all || (t->cures->classes_seen & all) != all)
        return;
    advice_first(t, "no node has devices of all classes that the pod asks for: ask for them in "
                    "several pods, or add a node that has them");
}

void advice_report(struct advice *t, const struct attempt *a, struct alloc_report *r)
{
    size_t groups = 0;
    const struct alloc_group *g = alloc_report_finish(r, &groups);
    bool stale_seen = false; // once is enough
    for (size_t i = 0; i < groups; i++) {
        const struct alloc_explanation *e = &g[i].explanation;
        if (!g[i].view)
            continue;
        if (a->special.want && t->cures && !t->cures->list.n)
            advice_add_extended(t, &g[i]);
        advice_add_scattered(t, e);
        for (size_t k = 0; k < e->funnels_len; k++) {
            advice_add_funnel(t, a, &e->funnels[k]);
            struct str class_name = class_of_request(a, &e->funnels[k]);
            bool lacks = e->funnels[k].wanted > e->funnels[k].usable;
            if (lacks && e->pools.n)
                advice_pools(t, a->s, class_name, e->pools);
            if (lacks && !stale_seen)
                advice_stale_slices(t, a->s, class_name);
            stale_seen |= lacks && e->funnels_len == 1;
            if (!t->fits && t->cures && !t->cures->cut && k < CURE_CLASSES_MAX &&
                !(t->cures->classes_seen >> k & 1) && !e->pools.n)
                advice_add(t,
                           "no published device is of the class of request %.*s: is its driver "
                           "installed and running? (kubectl get resourceslices)",
                           STR_ARG(e->funnels[k].request));
        }
    }
}

// --- Binding -------------------------------------------------------------------------------------

void advice_given_up(struct advice *t, const struct sched_pod *p, struct sbuf *cause)
{
    if (!p->report.given_up)
        return;
    sbuf_addf(cause, " (the attempt before was given up: %s)", p->report.given_up);
    advice_add(
        t,
        "keep claims off a device that does not become ready, so that others are tried: dray "
        "taint %s broken:NoSchedule",
        p->report.given_up_device);
}

void advice_binding(struct advice *t, const struct sched_pod *p, struct sbuf *cause)
{
    const struct binding *b = p->binding;
    if (advice_volume_binding(t, p, cause))
        return;
    for (size_t i = 0; b && i < p->claims_len; i++) {
        struct sched_claim *const *k = map_get(&b->s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        const struct api_allocation_result *a = claim ? claim->status.allocation : NULL;
        if (!a || !dra_has_conditions(a) || dra_binding_state(b->s, claim, NULL) == BINDING_READY)
            continue;
        const struct api_device_request_allocation_result *r = dra_unready(claim);
        if (!r)
            continue;
        sbuf_addf(cause,
                  "%.*s is chosen, but device %.*s/%.*s/%.*s is not ready: it lacks the condition",
                  STR_ARG(b->node_name), STR_ARG(r->driver), STR_ARG(r->pool), STR_ARG(r->device));
        for (size_t n = 0; n < r->binding_conditions.n; n++)
            sbuf_addf(cause, "%s%.*s", n ? ", " : " ", STR_ARG(r->binding_conditions.p[n]));
        advice_add(
            t,
            "the driver %.*s sets the condition in status.devices of claim %.*s when the device is "
            "ready: look at its log",
            STR_ARG(r->driver), STR_ARG(p->claims[i]));
        advice_given_up(t, p, cause);
        return;
    }
}

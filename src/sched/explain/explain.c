// SPDX-License-Identifier: Apache-2.0
//
// The whole answer for one pod or claim, as JSON, made on request; and the check that the
// caches are what the watches have delivered.
#include "api/match/claim.h"
#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/explain_int.h"
#include "sched/explain/report.h"

#include "base/banned.h"

#define REMEDIES_TOLD 5 // in words; all of them are in the JSON

const char *explain_state(const struct sched_pod *p)
{
    switch (p->state) {
    case POD_GATED:
        return "gated";
    case POD_ACTIVE:
    case POD_POSTPONED:
        return "queued";
    case POD_BACKOFF:
        return "backingOff";
    case POD_WAITING:
        return "unschedulable";
    case POD_BINDING:
        return "binding";
    case POD_ELSEWHERE:
        break;
    }
    return p->node ? "bound" : "notOurs";
}

static const char *const why_names[WHYS] = {
    [WHY_NODE_NAME] = "NodeName",
    [WHY_UNSCHEDULABLE] = "NodeUnschedulable",
    [WHY_NODE_AFFINITY] = "NodeAffinity",
    [WHY_TAINT] = "TaintToleration",
    [WHY_PORTS] = "NodePorts",
    [WHY_RESOURCES] = "NodeResourcesFit",
    [WHY_SPREAD] = "PodTopologySpread",
    [WHY_POD_AFFINITY] = "InterPodAffinity",
    [WHY_DEVICES] = "DynamicResources",
    [WHY_VOLUMES] = "VolumeBinding",
};

void explain_field(struct json_writer *w, const char *key, struct str value)
{
    if (!value.n)
        return;
    json_write_key(w, str_z(key));
    json_write_str(w, value);
}

static void explain_write_claims(struct json_writer *w, struct sched *s, const struct sched_pod *p)
{
    json_write_key(w, STR("claims"));
    json_write_array_begin(w);
    for (size_t i = 0; i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        json_write_object_begin(w);
        explain_field(w, "name", p->claims[i]);
        explain_field(w, "state",
                      !claim                       ? STR("missing")
                      : claim->status.allocation   ? STR("allocated")
                      : *k && (*k)->flight != NULL ? STR("beingAllocated")
                                                   : STR("pending"));
        json_write_object_end(w);
    }
    json_write_array_end(w);
}

static void write_whys(struct json_writer *w, const struct sched_pod *p)
{
    json_write_key(w, STR("waitsFor"));
    json_write_array_begin(w);
    for (size_t i = 0; i < WHYS; i++)
        if (p->queue.whys & WHY_BIT(i))
            json_write_str(w, str_z(why_names[i]));
    json_write_array_end(w);
}

void explain_verdict_done(struct told *t)
{
    advice_done(&t->advice);
    cures_done(&t->cures);
    sbuf_done(&t->cause);
    sbuf_done(&t->now);
    sbuf_done(&t->text);
}

void explain_attempt(struct attempt *a, enum dra_begin begun, struct told *t)
{
    a->tips = &t->advice;
    t->advice.cures = &t->cures;
    if (begun == DRA_OK)
        report_write_whole(a, &t->now, &t->cause, &t->text);
    cures_text(&t->cures, REMEDIES_TOLD, &t->text);
    if (t->cures.core.n && !t->advice.fits && str_contains(sbuf_str(&t->cause), STR("together")))
        sbuf_addf(&t->cause, " (%.*s conflict: without one of them the rest fits)",
                  STR_ARG(t->cures.core));
    if (t->advice.note.n && !t->advice.fits)
        sbuf_addf(&t->cause, " (%.*s)", STR_ARG(t->advice.note));
    if (a->failed || begun != DRA_OK) { // no node is to blame
        sbuf_clear(&t->now);
        sbuf_clear(&t->text);
        sbuf_clear(&t->cause);
        sbuf_add(&t->cause, sbuf_str(&a->text));
        advice_pod(&t->advice, a);
    }
}

// A pod that would fit by itself waits for the others of its group, or for its turn.
static void would_fit(struct sched *s, const struct sched_pod *p, struct told *t)
{
    struct sched_group *g = p->group;
    size_t fits = t->advice.fits;
    sbuf_clear(&t->cause);
    if (g && groups_min(g) > 1 && groups_scheduled(g) < groups_min(g) &&
        !explain_group_fits(s, g, t))
        return;
    sbuf_clear(&t->cause);
    sbuf_addf(&t->cause, "it would fit now (on %zu node%s), and will be tried again soon", fits,
              fits == 1 ? "" : "s");
    if (p->report.given_up)
        advice_given_up(&t->advice, p, &t->cause);
    else if (p->report.reason && p->report.message &&
             strcmp(p->report.reason, "SchedulerError") == 0)
        sbuf_addf(&t->cause, "; the attempt before failed: %s", p->report.message);
}

// Asks all nodes, as if it were the pod's turn now.
static void explain_ask_nodes(struct sched *s, struct sched_pod *p, struct told *t)
{
    struct attempt a;
    cures_find(s, p, &t->cures);
    enum dra_begin r = cycle_begin(s, p, &a);
    if (r == DRA_OK && advice_crowded(&t->advice, &a, &t->cause)) {
        cycle_end(&a);
        return;
    }
    explain_attempt(&a, r, t);
    bool good = r == DRA_OK && !a.failed && t->advice.fits;
    cycle_end(&a);
    if (good)
        would_fit(s, p, t);
}

static void other_scheduler(const struct sched *s, const struct sched_pod *p, struct told *t)
{
    if (p->node || p->api->spec.node_name.n || pod_is_terminal(p->api))
        return;
    sbuf_addf(&t->cause, "it is for schedulerName %.*s, which is none of ours",
              STR_ARG(p->api->spec.scheduler_name));
    cures_of_scheduler(s, p, &t->cures);
}

static void explain_inspect_pod(struct sched *s, struct sched_pod *p, struct told *t)
{
    switch (p->state) {
    case POD_GATED:
        advice_gate(&t->advice, s, p, &t->cause);
        cures_of_gate(s, p, &t->cures);
        if (!t->cause.n)
            explain_ask_nodes(s, p, t);
        break;
    case POD_ACTIVE:
    case POD_POSTPONED:
    case POD_BACKOFF:
    case POD_WAITING:
        if (p->cost.costly)
            sbuf_addz(&t->cause, p->report.message); // looking again would cost as much
        else
            explain_ask_nodes(s, p, t);
        break;
    case POD_BINDING:
        advice_binding(&t->advice, p, &t->cause);
        break;
    case POD_ELSEWHERE:
        other_scheduler(s, p, t);
        break;
    }
}

void explain_pod(struct sched *s, struct sched_pod *p, struct sbuf *out, struct sbuf *text)
{
    struct json_writer w = {.out = out};
    struct told told = {0};
    explain_inspect_pod(s, p, &told);
    json_write_object_begin(&w);
    explain_field(&w, "kind", STR("Pod"));
    explain_field(&w, "name", p->key);
    explain_field(&w, "state", str_z(explain_state(p)));
    if (p->node)
        explain_field(&w, "node", p->node->name);
    explain_field(&w, "cause", sbuf_str(&told.cause));
    cures_write(&told.cures, &w);
    advice_write(&told.advice, &w);
    if (p->report.gate)
        explain_field(&w, "gate", str_z(p->report.gate));
    if (p->report.message)
        explain_field(&w, "message", str_z(p->report.message));
    if (p->group) {
        json_write_key(&w, STR("podGroup"));
        explain_group_begin(&w, p->group);
        json_write_object_end(&w);
    }
    json_write_key(&w, STR("attempts"));
    json_write_u64(&w, p->queue.attempts);
    explain_write_claims(&w, s, p);
    if (p->state == POD_WAITING || p->state == POD_BACKOFF || p->state == POD_ACTIVE)
        write_whys(&w, p);
    if (told.now.n) {
        json_write_key(&w, STR("now"));
        json_write_raw(&w, sbuf_str(&told.now));
    }
    json_write_object_end(&w);
    if (text)
        sbuf_add(text, sbuf_str(&told.text));
    explain_verdict_done(&told);
}

static int explain_object(struct sched *s, struct str kind, struct str namespace, struct str name,
                          struct sbuf *out, struct err *err)
{
    return sched_explain_text(s, kind, namespace, name, out, NULL, err);
}

int sched_explain_text(struct sched *s, struct str kind, struct str namespace, struct str name,
                       struct sbuf *out, struct sbuf *text, struct err *err)
{
    const struct api_kind *k = api_kind_by_name(kind);
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    if (k && str_eqz(k->kind, "Pod")) {
        struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
        if (!p)
            return err_set(err, ERR_NOT_FOUND, "pod %s not found", key.p);
        explain_pod(s, p, out, text);
        return 0;
    }
    if (k && str_eqz(k->kind, "ResourceClaim")) {
        struct sched_claim *c = claims_find(&s->claims, namespace, name);
        if (!claims_api(c))
            return err_set(err, ERR_NOT_FOUND, "claim %s not found", key.p);
        explain_claim(s, c, out, text);
        return 0;
    }
    if (k && str_eqz(k->kind, "PodGroup")) {
        struct sched_group *g = groups_find(s, namespace, name);
        if (!g)
            return err_set(err, ERR_NOT_FOUND, "pod group %s not found", key.p);
        explain_group(s, g, out);
        return 0;
    }
    return err_set(err, ERR_BAD_REQUEST,
                   "only pods, claims and pod groups can be explained, not \"%.*s\"",
                   STR_ARG(kind));
}

int sched_explain(struct sched *s, struct str kind, struct str namespace, struct str name,
                  struct sbuf *out, struct err *err)
{
    size_t before = out->n;
    cost_begin(s);
    int r = explain_object(s, kind, namespace, name, out, err);
    if (r < 0 || !s->cost.meter.refused)
        return r;
    (void)index_catch_up(s->devices, SIZE_MAX);
    sbuf_truncate(out, before);
    return err_set(err, ERR_UNAVAILABLE,
                   "selectors are still being evaluated on the cluster's devices; ask again");
}

// --- Check ---------------------------------------------------------------------------------------

struct checking {
    const struct sched *s;
    struct sbuf *problems;
    bool good;
};

static void explain_check_pod(void *arg, const struct typed_object *o)
{
    struct checking *c = arg;
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    const struct sched_pod *p = cluster_pod(&c->s->cluster, sbuf_str(&key));
    if (p && p->object == o)
        return;
    sbuf_addf(c->problems, "pod %s is not the one the watch has shown\n", key.p);
    c->good = false;
}

static void explain_check_node(void *arg, const struct typed_object *o)
{
    struct checking *c = arg;
    struct sched_node **n = map_get(&c->s->cluster.nodes, o->meta->name);
    if (n && (*n)->object == o)
        return;
    sbuf_addf(c->problems, "node %.*s is not the one the watch has shown\n",
              STR_ARG(o->meta->name));
    c->good = false;
}

static void explain_check_claim(void *arg, const struct typed_object *o)
{
    struct checking *c = arg;
    const struct sched_claim *k = claims_find(&c->s->claims, o->meta->namespace, o->meta->name);
    if (k && k->seen == o)
        return;
    sbuf_addf(c->problems, "claim %.*s/%.*s is not the one the watch has shown\n",
              STR_ARG(o->meta->namespace), STR_ARG(o->meta->name));
    c->good = false;
}

const struct api_kind *sched_watched(size_t i)
{
    return i < WATCHES ? sched_kind((enum watched)i) : NULL;
}

uint64_t sched_known(const struct sched *s, size_t i, struct str namespace, struct str name)
{
    const struct typed_object *o =
        s->watch.informers[i] ? informer_get(s->watch.informers[i], namespace, name) : NULL;
    return o ? o->revision : 0;
}

size_t sched_known_count(const struct sched *s, size_t i)
{
    return s->watch.informers[i] ? informer_len(s->watch.informers[i]) : 0;
}

bool sched_check(const struct sched *s, struct sbuf *problems)
{
    struct checking c = {s, problems, true};
    c.good &= cluster_check(&s->cluster, problems);
    c.good &= claims_check(&s->claims, problems);
    if (!s->started)
        return c.good;
    informer_foreach(s->watch.informers[WATCH_PODS], explain_check_pod, &c);
    informer_foreach(s->watch.informers[WATCH_NODES], explain_check_node, &c);
    informer_foreach(s->watch.informers[WATCH_CLAIMS], explain_check_claim, &c);
    if (informer_len(s->watch.informers[WATCH_PODS]) != map_len(&s->cluster.pods)) {
        sbuf_addz(problems, "the watch has shown another number of pods\n");
        c.good = false;
    }
    return c.good;
}

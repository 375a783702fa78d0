// SPDX-License-Identifier: Apache-2.0
//
// The whole answer for one pod or claim, as JSON, made when it is asked for; and the check that the
// caches are what the watches have delivered.
#include "alloc/fleet.h"
#include "codec/json_writer.h"
#include "sched/advice.h"
#include "sched/report.h"

#include "base/banned.h"

static const char *state_name(const struct sched_pod *p)
{
    switch (p->state) {
    case POD_GATED:
        return "gated";
    case POD_ACTIVE:
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
};

static void field(struct json_writer *w, const char *key, struct str value)
{
    if (!value.n)
        return;
    json_write_key(w, str_z(key));
    json_write_str(w, value);
}

static void write_claims(struct json_writer *w, struct sched *s, const struct sched_pod *p)
{
    json_write_key(w, STR("claims"));
    json_write_array_begin(w);
    for (size_t i = 0; i < p->claims_len; i++) {
        struct sched_claim **k = map_get(&s->claims.by_key, p->claims[i]);
        const struct api_resource_claim *claim = k ? claims_api(*k) : NULL;
        json_write_object_begin(w);
        field(w, "name", p->claims[i]);
        field(w, "state",
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
        if (p->whys & WHY_BIT(i))
            json_write_str(w, str_z(why_names[i]));
    json_write_array_end(w);
}

// What is said of a pod that has no node.
struct told {
    struct advice advice;
    struct sbuf cause;
    struct sbuf now; // the whole, as JSON; empty: there is none
};

static void told_done(struct told *t)
{
    advice_done(&t->advice);
    sbuf_done(&t->cause);
    sbuf_done(&t->now);
}

// Asks all nodes, as if it were the pod's turn now.
static void ask_nodes(struct sched *s, struct sched_pod *p, struct told *t)
{
    struct attempt a;
    enum dra_begin r = cycle_begin(s, p, &a);
    a.tips = &t->advice;
    if (r == DRA_OK)
        report_whole(&a, &t->now, &t->cause);
    if (t->advice.fits) {
        sbuf_clear(&t->cause);
        sbuf_addf(&t->cause, "it would fit now (on %zu node%s), and will be tried again soon",
                  t->advice.fits, t->advice.fits == 1 ? "" : "s");
    }
    if (a.failed || r != DRA_OK) { // no node is to blame
        sbuf_clear(&t->now);
        sbuf_clear(&t->cause);
        sbuf_add(&t->cause, sbuf_str(&a.text));
        advice_pod(&t->advice, &a);
    }
    cycle_end(&a);
}

static void other_scheduler(const struct sched *s, const struct sched_pod *p, struct told *t)
{
    if (p->node || p->api->spec.node_name.n || cluster_pod_finished(p->api))
        return;
    sbuf_addf(&t->cause, "it is for schedulerName %.*s, which is none of ours",
              STR_ARG(p->api->spec.scheduler_name));
    advice_add(&t->advice, "start that scheduler, or let spec.schedulerName be %.*s",
               STR_ARG(s->names.p[0]));
}

static void look_at(struct sched *s, struct sched_pod *p, struct told *t)
{
    switch (p->state) {
    case POD_GATED:
        advice_gate(&t->advice, s, p, &t->cause);
        if (!t->cause.n)
            ask_nodes(s, p, t);
        break;
    case POD_ACTIVE:
    case POD_BACKOFF:
    case POD_WAITING:
        ask_nodes(s, p, t);
        break;
    case POD_BINDING:
        advice_binding(&t->advice, p, &t->cause);
        break;
    case POD_ELSEWHERE:
        other_scheduler(s, p, t);
        break;
    }
}

static void write_group(struct json_writer *w, const struct sched_group *g)
{
    json_write_object_begin(w);
    field(w, "kind", STR("PodGroup"));
    field(w, "name", g->key);
    json_write_key(w, STR("minCount"));
    json_write_u64(w, group_min(g));
    json_write_key(w, STR("pods"));
    json_write_u64(w, g->pods.n);
    json_write_key(w, STR("scheduled"));
    json_write_u64(w, group_scheduled(g));
    if (!g->api)
        field(w, "state", STR("missing"));
    if (g->reason)
        field(w, "reason", str_z(g->reason));
    if (g->reason && g->message)
        field(w, "message", str_z(g->message));
}

static void explain_pod(struct sched *s, struct sched_pod *p, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    struct told told = {0};
    look_at(s, p, &told);
    json_write_object_begin(&w);
    field(&w, "kind", STR("Pod"));
    field(&w, "name", p->key);
    field(&w, "state", str_z(state_name(p)));
    if (p->node)
        field(&w, "node", p->node->name);
    field(&w, "cause", sbuf_str(&told.cause));
    advice_write(&told.advice, &w);
    if (p->gate)
        field(&w, "gate", str_z(p->gate));
    if (p->message)
        field(&w, "message", str_z(p->message));
    if (p->group) {
        json_write_key(&w, STR("podGroup"));
        write_group(&w, p->group);
        json_write_object_end(&w);
    }
    json_write_key(&w, STR("attempts"));
    json_write_u64(&w, p->attempts);
    write_claims(&w, s, p);
    if (p->state == POD_WAITING || p->state == POD_BACKOFF || p->state == POD_ACTIVE)
        write_whys(&w, p);
    if (told.now.n) {
        json_write_key(&w, STR("now"));
        json_write_raw(&w, sbuf_str(&told.now));
    }
    json_write_object_end(&w);
    told_done(&told);
}

// A claim without a pod: as if one came that wanted nothing but this claim.
static void explain_open_claim(struct sched *s, const struct api_resource_claim *claim,
                               struct json_writer *w)
{
    struct alloc_report *r = alloc_report_new();
    struct index_explaining e = {
        .solver = s->solver, .report = r, .claims = &claim, .claims_len = 1};
    struct index_answer count;
    cleanup_sbuf struct sbuf text = {0};
    size_t groups = 0;
    uint64_t hash = fleet_hash(&claim, 1);
    s->expire_calls = UINT64_MAX;
    index_count(s->devices, s->solver,
                &(struct index_ask){.hash = hash, .claims = &claim, .claims_len = 1}, &count);
    const struct index_question *q = index_question(s->devices, hash, &claim, 1);
    for (size_t i = 0; i < s->cluster.order.n; i++) {
        const struct sched_node *n = s->cluster.order.p[i];
        if (n && n->api && !index_serves(s->devices, q, n->index) &&
            !index_explain(s->devices, &e, n->index))
            alloc_report_refuse(r, n->name, STR("the claim cannot be judged there"));
    }
    map_done(&e.seen);
    (void)alloc_report_finish(r, &groups);
    json_write_key(w, STR("nodesThatFit"));
    json_write_u64(w, count.nodes);
    json_write_key(w, count.at_most ? STR("moreThatFitAtMost") : STR("moreThatFit"));
    json_write_u64(w, count.more);
    if (groups) {
        alloc_report_json(r, &text);
        json_write_key(w, STR("report"));
        json_write_raw(w, sbuf_str(&text));
    }
    alloc_report_free(r);
    index_unpin(s->devices);
}

static void explain_claim(struct sched *s, struct sched_claim *k, struct sbuf *out)
{
    const struct api_resource_claim *claim = claims_api(k);
    struct json_writer w = {.out = out};
    struct err err;
    json_write_object_begin(&w);
    field(&w, "kind", STR("ResourceClaim"));
    field(&w, "name", k->key);
    field(&w, "state",
          claim->status.allocation ? STR("allocated")
          : k->flight              ? STR("beingAllocated")
                                   : STR("pending"));
    if (claim->status.allocation) {
        json_write_key(&w, STR("allocation"));
        if (api_json_write(&api_allocation_result_type, claim->status.allocation, &w, &err) < 0)
            json_write_null(&w); // what came from the API can be written
    }
    json_write_key(&w, STR("pods"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < k->pods.n; i++) {
        cleanup_sbuf struct sbuf pod = {0};
        explain_pod(s, k->pods.p[i], &pod);
        json_write_raw(&w, sbuf_str(&pod));
    }
    json_write_array_end(&w);
    if (!claim->status.allocation && !k->flight && !k->pods.n)
        explain_open_claim(s, claim, &w);
    json_write_object_end(&w);
}

static void explain_group(struct sched *s, const struct sched_group *g, struct sbuf *out)
{
    struct json_writer w = {.out = out};
    (void)s;
    write_group(&w, g);
    json_write_key(&w, STR("members"));
    json_write_array_begin(&w);
    for (size_t i = 0; i < g->pods.n; i++) {
        const struct sched_pod *p = g->pods.p[i];
        json_write_object_begin(&w);
        field(&w, "name", p->key);
        field(&w, "state", str_z(state_name(p)));
        if (p->node)
            field(&w, "node", p->node->name);
        if (p->gate)
            field(&w, "gate", str_z(p->gate));
        if (p->message && !p->node)
            field(&w, "message", str_z(p->message));
        json_write_object_end(&w);
    }
    json_write_array_end(&w);
    json_write_object_end(&w);
}

int sched_explain(struct sched *s, struct str kind, struct str namespace, struct str name,
                  struct sbuf *out, struct err *err)
{
    const struct api_kind *k = api_kind_by_name(kind);
    cleanup_sbuf struct sbuf key = {0};
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    if (k && str_eqz(k->kind, "Pod")) {
        struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
        if (!p)
            return err_set(err, ERR_NOT_FOUND, "pod %s not found", key.p);
        explain_pod(s, p, out);
        return 0;
    }
    if (k && str_eqz(k->kind, "ResourceClaim")) {
        struct sched_claim *c = claims_find(&s->claims, namespace, name);
        if (!claims_api(c))
            return err_set(err, ERR_NOT_FOUND, "claim %s not found", key.p);
        explain_claim(s, c, out);
        return 0;
    }
    if (k && str_eqz(k->kind, "PodGroup")) {
        const struct sched_group *g = groups_find(s, namespace, name);
        if (!g)
            return err_set(err, ERR_NOT_FOUND, "pod group %s not found", key.p);
        explain_group(s, g, out);
        return 0;
    }
    return err_set(err, ERR_BAD_REQUEST,
                   "only pods, claims and pod groups can be explained, not \"%.*s\"",
                   STR_ARG(kind));
}

// --- Check ---------------------------------------------------------------------------------------

struct checking {
    const struct sched *s;
    struct sbuf *problems;
    bool good;
};

static void check_pod(void *arg, const struct client_object *o)
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

static void check_node(void *arg, const struct client_object *o)
{
    struct checking *c = arg;
    struct sched_node **n = map_get(&c->s->cluster.nodes, o->meta->name);
    if (n && (*n)->object == o)
        return;
    sbuf_addf(c->problems, "node %.*s is not the one the watch has shown\n",
              STR_ARG(o->meta->name));
    c->good = false;
}

static void check_claim(void *arg, const struct client_object *o)
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
    const struct client_object *o =
        s->informers[i] ? informer_get(s->informers[i], namespace, name) : NULL;
    return o ? o->revision : 0;
}

size_t sched_known_count(const struct sched *s, size_t i)
{
    return s->informers[i] ? informer_len(s->informers[i]) : 0;
}

bool sched_check(const struct sched *s, struct sbuf *problems)
{
    struct checking c = {s, problems, true};
    c.good &= cluster_check(&s->cluster, problems);
    c.good &= claims_check(&s->claims, problems);
    if (!s->started)
        return c.good;
    informer_foreach(s->informers[WATCH_PODS], check_pod, &c);
    informer_foreach(s->informers[WATCH_NODES], check_node, &c);
    informer_foreach(s->informers[WATCH_CLAIMS], check_claim, &c);
    if (informer_len(s->informers[WATCH_PODS]) != map_len(&s->cluster.pods)) {
        sbuf_addz(problems, "the watch has shown another number of pods\n");
        c.good = false;
    }
    return c.good;
}

// SPDX-License-Identifier: Apache-2.0
//
// The answer of every node to one pod, in kube-scheduler's words: plugins, reasons, codes. The
// rules are those by which pods are placed; only nothing is chosen, and all nodes are asked.
#include <stdlib.h>

#include "api/match/claim.h"
#include "codec/json_writer.h"
#include "sched/core/cycle.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/judge_int.h"
#include "sched/filter/filter_int.h"
#include "sched/filter/score_int.h"

#include "base/banned.h"

void judge_write_reasons(struct json_writer *w, const struct refusals *all)
{
    json_write_array_begin(w);
    for (size_t i = 0; i < all->n; i++) {
        cleanup_sbuf struct sbuf text = {0};
        refusal_write_reason(&all->p[i], &text);
        json_write_str(w, sbuf_str(&text));
    }
    json_write_array_end(w);
}

struct str judge_code(const struct refusals *all)
{
    return refusal_hopeless(all) ? STR("UnschedulableAndUnresolvable") : STR("Unschedulable");
}

// A plugin's refusal of the pod as a whole.
static void judge_write_stop(struct json_writer *w, const char *key, struct str plugin,
                             struct str reason)
{
    json_write_key(w, str_z(key));
    json_write_object_begin(w);
    json_write_key(w, STR("plugin"));
    json_write_str(w, plugin);
    json_write_key(w, STR("reasons"));
    json_write_array_begin(w);
    json_write_str(w, reason);
    json_write_array_end(w);
    json_write_key(w, STR("code"));
    json_write_str(w, STR("UnschedulableAndUnresolvable"));
    json_write_object_end(w);
}

// --- Before its turn -----------------------------------------------------------------------------

static bool judge_gates(struct sched *s, const struct sched_pod *p, struct json_writer *w)
{
    cleanup_sbuf struct sbuf why = {0};
    const struct api_pod_scheduling_gate_array *gates = &p->api->spec.scheduling_gates;
    if (gates->n) {
        sbuf_addz(&why, "waiting for scheduling gates: [");
        for (size_t i = 0; i < gates->n; i++)
            sbuf_addf(&why, "%s%.*s", i ? " " : "", STR_ARG(gates->p[i].name));
        sbuf_addc(&why, ']');
        judge_write_stop(w, "preEnqueue", STR("SchedulingGates"), sbuf_str(&why));
    } else if (!dra_gate(s, p->api, &why)) {
        judge_write_stop(w, "preEnqueue", STR("DynamicResources"), sbuf_str(&why));
    } else if (p->group && !groups_gate(p, &why)) {
        judge_write_stop(w, "preEnqueue", STR("GangScheduling"), sbuf_str(&why));
    }
    return why.n > 0;
}

// --- Nodes that are named ------------------------------------------------------------------------

// Does a term name nodes, and this one among them? A term that names none leaves all.
static bool judge_term_names(const struct api_node_selector_term *t, struct str node,
                             bool *ret_names_any)
{
    bool among = true;
    *ret_names_any = false;
    for (size_t i = 0; i < t->match_fields.n; i++) {
        const struct api_node_selector_requirement *r = &t->match_fields.p[i];
        bool found = false;
        if (!str_eqz(r->key, "metadata.name") || !str_eqz(r->operator, "In"))
            continue;
        *ret_names_any = true;
        for (size_t k = 0; k < r->values.n; k++)
            found = found || str_eq(r->values.p[k], node);
        among = among && found;
    }
    return among;
}

// Before any filter: the required terms all name nodes, and not this one.
static bool judge_left_out(const struct api_pod *pod, struct str node)
{
    const struct api_node_affinity *f =
        pod->spec.affinity ? pod->spec.affinity->node_affinity : NULL;
    const struct api_node_selector *required =
        f ? f->required_during_scheduling_ignored_during_execution : NULL;
    for (size_t i = 0; required && i < required->node_selector_terms.n; i++) {
        bool names_any;
        if (judge_term_names(&required->node_selector_terms.p[i], node, &names_any) || !names_any)
            return false;
    }
    return required && required->node_selector_terms.n > 0;
}

// Values that a term names are in conflict if no name is in all its lists.
static bool judge_names_conflict(const struct api_pod *pod)
{
    const struct api_node_affinity *f =
        pod->spec.affinity ? pod->spec.affinity->node_affinity : NULL;
    const struct api_node_selector *required =
        f ? f->required_during_scheduling_ignored_during_execution : NULL;
    for (size_t i = 0; required && i < required->node_selector_terms.n; i++) {
        const struct api_node_selector_term *t = &required->node_selector_terms.p[i];
        bool names_any;
        (void)judge_term_names(t, (struct str){0}, &names_any);
        if (!names_any)
            return false;
        for (size_t k = 0; k < t->match_fields.n; k++)
            for (size_t v = 0; v < t->match_fields.p[k].values.n; v++)
                if (str_eqz(t->match_fields.p[k].operator, "In") &&
                    judge_term_names(t, t->match_fields.p[k].values.p[v], &names_any))
                    return false;
    }
    return required && required->node_selector_terms.n > 0;
}

// --- Nodes ---------------------------------------------------------------------------------------

static int judge_by_name(const void *x, const void *y)
{
    const struct judged_node *a = x;
    const struct judged_node *b = y;
    return str_cmp(a->node->name, b->node->name);
}

static void judge_one_node(struct attempt *a, struct judged_node *j)
{
    if (judge_left_out(a->api, j->node->name))
        refusal_add(a, &j->refusals, (struct refusal){.code = REFUSED_BY_NAME});
    else if (filter_node(a, j->node, &j->refusals) == WHY_NONE)
        (void)dra_filter(a, j->node, &j->refusals);
    if (!j->refusals.n)
        j->rank = dra_rank(a);
}

static struct judged_node *judge_list_nodes(struct attempt *a, size_t *ret_len)
{
    const struct cluster *c = &a->s->cluster;
    struct judged_node *all = arena_array(a->arena, struct judged_node, c->order.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < c->order.n; i++)
        if (c->order.p[i] && c->order.p[i]->api)
            all[n++].node = c->order.p[i];
    if (n)
        qsort(all, n, sizeof(*all), judge_by_name);
    *ret_len = n;
    return all;
}

static void judge_write_nodes(struct json_writer *w, const struct judged_node *all, size_t n)
{
    json_write_key(w, STR("feasible"));
    json_write_array_begin(w);
    for (size_t i = 0; i < n; i++)
        if (!all[i].refusals.n)
            json_write_str(w, all[i].node->name);
    json_write_array_end(w);
    json_write_key(w, STR("filtered"));
    json_write_object_begin(w);
    for (size_t i = 0; i < n; i++) {
        const struct refusals *r = &all[i].refusals;
        if (!r->n)
            continue;
        json_write_key(w, all[i].node->name);
        json_write_array_begin(w);
        json_write_str(w, str_z(refusal_plugin(r->p[0].code)));
        judge_write_reasons(w, r);
        json_write_str(w, judge_code(r));
        json_write_array_end(w);
    }
    json_write_object_end(w);
}

// --- Scores --------------------------------------------------------------------------------------

// What each plugin gives each of the nodes that will do; a plugin that skips has no row.
struct judged_scores {
    struct sched_node **nodes;
    int64_t *ranks, *totals;
    int64_t *by_plugin[SCORE_PLUGINS]; // NULL: it skips
    size_t n;
};

static struct judged_scores judge_score_nodes(struct attempt *a, const struct judged_node *all,
                                              size_t n)
{
    struct judged_scores s = {.nodes = arena_array(a->arena, struct sched_node *, n),
                              .ranks = arena_array(a->arena, int64_t, n),
                              .totals = arena_array(a->arena, int64_t, n)};
    for (size_t i = 0; i < n; i++)
        if (!all[i].refusals.n) {
            s.nodes[s.n] = all[i].node;
            s.ranks[s.n++] = all[i].rank;
        }
    const struct score_question q = {.a = a, .nodes = s.nodes, .ranks = s.ranks, .n = s.n};
    for (enum score_plugin_id id = 0; id < SCORE_PLUGINS; id++) {
        int64_t *v = arena_array(a->arena, int64_t, s.n);
        if (!score_by_plugin(&q, id, v))
            continue;
        s.by_plugin[id] = v;
        for (size_t i = 0; i < s.n; i++)
            s.totals[i] += v[i];
    }
    return s;
}

static void judge_write_node_scores(struct json_writer *w, const struct judged_scores *s, size_t i)
{
    json_write_key(w, s->nodes[i]->name);
    json_write_object_begin(w);
    for (enum score_plugin_id id = 0; id < SCORE_PLUGINS; id++)
        if (s->by_plugin[id])
            json_write_number(w, score_plugins[id].name, s->by_plugin[id][i]);
    json_write_number(w, "total", s->totals[i]);
    json_write_object_end(w);
}

static void judge_write_top(struct json_writer *w, const struct judged_scores *s)
{
    int64_t most = INT64_MIN;
    size_t first = s->n;
    for (size_t i = 0; i < s->n; i++)
        most = s->totals[i] > most ? s->totals[i] : most;
    json_write_array_in(w, "top");
    for (size_t i = 0; i < s->n; i++)
        if (s->totals[i] == most) {
            first = first == s->n ? i : first;
            json_write_str(w, s->nodes[i]->name);
        }
    json_write_array_end(w);
    if (first < s->n)
        json_write_text(w, "chosen", s->nodes[first]->name);
}

static void judge_write_scores(struct attempt *a, struct json_writer *w,
                               const struct judged_node *all, size_t n)
{
    struct judged_scores s = judge_score_nodes(a, all, n);
    if (!s.n)
        return;
    json_write_object_in(w, "scores");
    for (size_t i = 0; i < s.n; i++)
        judge_write_node_scores(w, &s, i);
    json_write_object_end(w);
    judge_write_top(w, &s);
}

// Every node has the reason for which the pod is refused as a whole.
static void judge_refuse_all(struct attempt *a, struct json_writer *w, struct str plugin,
                             struct str reason)
{
    size_t n = 0;
    struct judged_node *all = judge_list_nodes(a, &n);
    judge_write_stop(w, "preFilter", plugin, reason);
    json_write_key(w, STR("feasible"));
    json_write_array_begin(w);
    json_write_array_end(w);
    json_write_key(w, STR("filtered"));
    json_write_object_begin(w);
    for (size_t i = 0; i < n; i++) {
        json_write_key(w, all[i].node->name);
        json_write_array_begin(w);
        json_write_str(w, plugin);
        json_write_array_begin(w);
        json_write_str(w, reason);
        json_write_array_end(w);
        json_write_str(w, STR("UnschedulableAndUnresolvable"));
        json_write_array_end(w);
    }
    json_write_object_end(w);
    judge_write_refused(a, w, plugin, reason);
}

static int judge_nodes(struct attempt *a, enum dra_begin begun, struct json_writer *w,
                       struct err *err)
{
    size_t n = 0;
    if (judge_names_conflict(a->api)) {
        judge_refuse_all(a, w, STR("NodeAffinity"), STR("pod affinity terms conflict"));
        return 0;
    }
    if (begun == DRA_REFUSED || begun == DRA_WAIT) {
        struct str plugin = a->refused_by ? str_z(a->refused_by) : STR("DynamicResources");
        judge_refuse_all(a, w, plugin, sbuf_str(&a->text));
        return 0;
    }
    struct judged_node *all = judge_list_nodes(a, &n);
    for (size_t i = 0; i < n && begun == DRA_OK && !a->failed; i++)
        judge_one_node(a, &all[i]);
    if (begun != DRA_OK || a->failed)
        return err_set(err, ERR_INTERNAL, "%.*s", STR_ARG(sbuf_str(&a->text)));
    judge_write_nodes(w, all, n);
    judge_write_scores(a, w, all, n);
    judge_preempt(a, all, n, w);
    return 0;
}

int sched_judge(struct sched *s, struct str namespace, struct str name, struct json_writer *w,
                struct err *err)
{
    cleanup_sbuf struct sbuf key = {0};
    struct attempt a;
    sbuf_addf(&key, "%.*s/%.*s", STR_ARG(namespace), STR_ARG(name));
    struct sched_pod *p = cluster_pod(&s->cluster, sbuf_str(&key));
    if (!p)
        return err_set(err, ERR_NOT_FOUND, "pod %s not found", key.p);
    if (judge_gates(s, p, w))
        return 0;
    cost_begin(s);
    s->cost.meter.left = UINT64_MAX; // the caller has no other requests to serve
    enum dra_begin begun = cycle_begin(s, p, &a);
    int r = judge_nodes(&a, begun, w, err);
    cycle_end(&a);
    return r;
}

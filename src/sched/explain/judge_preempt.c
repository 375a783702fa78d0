// SPDX-License-Identifier: Apache-2.0
//
// What kube-scheduler does and writes when no node fits: the dry run of preemption on all nodes,
// the choice, and the message of the pod's condition.
#include <stdlib.h>

#include "sched/core/cycle.h"
#include "sched/explain/judge_int.h"
#include "sched/preempt/preempt_int.h"

#include "base/banned.h"

// A potential node, and what came of its dry run.
struct judged_run {
    const struct judged_node *node;
    bool tried; // it was a potential node
    enum dryrun_result result;
    struct preempt_candidate candidate;
    struct refusals refusals;
};

struct judged_preemption {
    struct judged_run *runs; // one for each node
    size_t n;
    const struct judged_run *chosen; // NULL: none
};

// --- Messages ------------------------------------------------------------------------------------

// Reasons and on how many nodes they were given.
struct judged_histogram MAP(size_t);

static void judge_count(struct judged_histogram *h, struct str reason)
{
    ++*map_put(h, reason);
}

static void judge_count_refusals(struct attempt *a, struct judged_histogram *h,
                                 const struct refusals *all)
{
    for (size_t i = 0; i < all->n; i++) {
        cleanup_sbuf struct sbuf text = {0};
        refusal_write_reason(&all->p[i], &text);
        judge_count(h, arena_str(a->arena, sbuf_str(&text)));
    }
}

static int judge_by_text(const void *x, const void *y)
{
    return str_cmp(*(const struct str *)x, *(const struct str *)y);
}

// kube-scheduler sorts "COUNT REASON" as text.
static void judge_write_histogram(struct attempt *a, size_t nodes, struct judged_histogram *h,
                                  struct sbuf *out)
{
    struct str *lines = arena_array(a->arena, struct str, map_len(h) + 1);
    size_t n = 0;
    map_foreach(h, i)
        lines[n++] = arena_strf(a->arena, "%zu %.*s", *map_value(h, i), STR_ARG(map_key(h, i)));
    if (n > 1)
        qsort(lines, n, sizeof(*lines), judge_by_text);
    sbuf_addf(out, "0/%zu nodes are available:", nodes);
    for (size_t i = 0; i < n; i++)
        sbuf_addf(out, "%s %.*s", i ? "," : "", STR_ARG(lines[i]));
    if (n)
        sbuf_addc(out, '.');
}

static void judge_write_filter_message(struct attempt *a, const struct judged_node *all, size_t n,
                                       struct sbuf *out)
{
    struct judged_histogram h = {0};
    for (size_t i = 0; i < n; i++)
        judge_count_refusals(a, &h, &all[i].refusals);
    judge_write_histogram(a, n, &h, out);
    map_done(&h);
}

static void judge_write_no_candidate(struct attempt *a, const struct judged_preemption *j,
                                     struct sbuf *out)
{
    struct judged_histogram h = {0};
    for (size_t i = 0; i < j->n; i++) {
        if (!j->runs[i].tried)
            judge_count(&h, STR(PREEMPT_USELESS));
        else if (j->runs[i].result == DRYRUN_NO_VICTIMS)
            judge_count(&h, STR(PREEMPT_NO_VICTIMS));
        else
            judge_count_refusals(a, &h, &j->runs[i].refusals);
    }
    judge_write_histogram(a, j->n, &h, out);
    map_done(&h);
}

// --- The dry run ---------------------------------------------------------------------------------

static bool judge_is_eligible(struct attempt *a, const struct judged_node *all, size_t n,
                              struct sbuf *why)
{
    const struct api_pod_spec *spec = &a->api->spec;
    if (spec->has_preemption_policy && str_eqz(spec->preemption_policy, "Never")) {
        sbuf_addz(why, PREEMPT_NEVER);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (all[i].node == a->pod->on.nominated.node && !refusal_hopeless(&all[i].refusals) &&
            preempt_is_ending(a->pod)) {
            sbuf_addz(why, PREEMPT_TERMINATING);
            return false;
        }
    return true;
}

static void judge_run_all(struct attempt *a, struct judged_preemption *j)
{
    struct preempt_budgets budgets;
    budgets_read(a, &budgets);
    for (size_t i = 0; i < j->n; i++) {
        struct judged_run *r = &j->runs[i];
        r->tried = !refusal_hopeless(&r->node->refusals);
        if (!r->tried)
            continue;
        r->result = dryrun_node(a, r->node->node, &budgets, NULL, &r->candidate, &r->refusals);
        if (r->result == DRYRUN_FITS &&
            (!j->chosen || preempt_cost_cmp(&r->candidate.cost, &j->chosen->candidate.cost) < 0))
            j->chosen = r;
    }
}

// --- JSON ----------------------------------------------------------------------------------------

static void judge_write_victims(struct json_writer *w, const struct preempt_candidate *c)
{
    json_write_key(w, STR("victims"));
    json_write_array_begin(w);
    for (size_t i = 0; c && i < c->cost.pods; i++)
        json_write_str(w, c->victims[i]->key);
    json_write_array_end(w);
    json_write_key(w, STR("violations"));
    json_write_u64(w, c ? c->cost.violations : 0);
}

// Those that the rules do not tell apart.
static void judge_write_best(struct json_writer *w, const struct judged_preemption *j)
{
    size_t best = 0;
    json_write_key(w, STR("best"));
    json_write_array_begin(w);
    for (size_t i = 0; j->chosen && i < j->n; i++)
        if (j->runs[i].tried && j->runs[i].result == DRYRUN_FITS &&
            preempt_cost_cmp(&j->runs[i].candidate.cost, &j->chosen->candidate.cost) == 0) {
            json_write_str(w, j->runs[i].node->node->name);
            best++;
        }
    json_write_array_end(w);
    json_write_key(w, STR("tie"));
    json_write_bool(w, best > 1);
}

static void judge_write_candidates(struct json_writer *w, const struct judged_preemption *j)
{
    json_write_key(w, STR("candidates"));
    json_write_object_begin(w);
    for (size_t i = 0; i < j->n; i++) {
        if (!j->runs[i].tried || j->runs[i].result != DRYRUN_FITS)
            continue;
        json_write_key(w, j->runs[i].node->node->name);
        json_write_object_begin(w);
        judge_write_victims(w, &j->runs[i].candidate);
        json_write_object_end(w);
    }
    json_write_object_end(w);
}

static void judge_write_run_refused(struct json_writer *w, const struct judged_run *r)
{
    bool none = r->result == DRYRUN_NO_VICTIMS;
    json_write_key(w, r->node->node->name);
    json_write_object_begin(w);
    json_write_key(w, STR("plugin"));
    json_write_str(w,
                   none || !r->refusals.n ? STR("") : str_z(refusal_plugin(r->refusals.p[0].code)));
    json_write_key(w, STR("reasons"));
    if (none) {
        json_write_array_begin(w);
        json_write_str(w, STR(PREEMPT_NO_VICTIMS));
        json_write_array_end(w);
    } else {
        judge_write_reasons(w, &r->refusals);
    }
    json_write_key(w, STR("code"));
    json_write_str(w, none ? STR("UnschedulableAndUnresolvable") : judge_code(&r->refusals));
    json_write_object_end(w);
}

static void judge_write_preemption(struct json_writer *w, const struct judged_preemption *j,
                                   struct str message)
{
    json_write_key(w, STR("preemption"));
    json_write_object_begin(w);
    json_write_key(w, STR("node"));
    json_write_str(w, j->chosen ? j->chosen->node->node->name : STR(""));
    judge_write_victims(w, j->chosen ? &j->chosen->candidate : NULL);
    judge_write_best(w, j);
    judge_write_candidates(w, j);
    json_write_key(w, STR("refused"));
    json_write_object_begin(w);
    for (size_t i = 0; i < j->n; i++)
        if (j->runs[i].tried && j->runs[i].result != DRYRUN_FITS)
            judge_write_run_refused(w, &j->runs[i]);
    json_write_object_end(w);
    json_write_key(w, STR("message"));
    json_write_str(w, message);
    json_write_object_end(w);
}

// The condition's message: what filters say, then what PostFilter says.
static void judge_write_message(struct json_writer *w, struct str filters, struct str after)
{
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "%.*s %.*s", STR_ARG(filters), STR_ARG(after));
    json_write_key(w, STR("message"));
    json_write_str(w, sbuf_str(&text));
}

void judge_preempt(struct attempt *a, const struct judged_node *all, size_t n,
                   struct json_writer *w)
{
    cleanup_sbuf struct sbuf filters = {0};
    cleanup_sbuf struct sbuf after = {0};
    cleanup_sbuf struct sbuf note = {0};
    struct judged_preemption j = {0};
    for (size_t i = 0; i < n; i++)
        if (!all[i].refusals.n)
            return;
    judge_write_filter_message(a, all, n, &filters);
    if (judge_is_eligible(a, all, n, &note)) {
        j.runs = arena_array(a->arena, struct judged_run, n + 1);
        j.n = n;
        for (size_t i = 0; i < n; i++)
            j.runs[i].node = &all[i];
        judge_run_all(a, &j);
        if (j.chosen)
            sbuf_addf(&note,
                      "found a potential placement for pod on node %.*s, preempting %zu victims",
                      STR_ARG(j.chosen->node->node->name), j.chosen->candidate.cost.pods);
        else
            judge_write_no_candidate(a, &j, &note);
    }
    // DynamicResources comes first: it gives up an allocation that keeps the pod from other nodes.
    // A plugin that succeeds is alone in the message.
    sbuf_addf(&after, "%spreemption: %.*s",
              !j.chosen && cycle_give_up(a) ? "deallocation of ResourceClaim completed, " : "",
              STR_ARG(sbuf_str(&note)));
    judge_write_preemption(w, &j, sbuf_str(&after));
    judge_write_message(w, sbuf_str(&filters), sbuf_str(&after));
}

// A plugin that comes before DynamicResources leaves that without its state: PostFilter ends with
// this error.
void judge_write_refused(struct attempt *a, struct json_writer *w, struct str plugin,
                         struct str reason)
{
    cleanup_sbuf struct sbuf filters = {0};
    cleanup_sbuf struct sbuf after = {0};
    const struct judged_preemption none = {0};
    size_t n = a->s->cluster.nodes_known;
    sbuf_addf(&filters, "0/%zu nodes are available: %.*s.", n, STR_ARG(reason));
    if (!str_eqz(plugin, "DynamicResources"))
        sbuf_addz(&after, "not found");
    else
        sbuf_addf(&after, "preemption: 0/%zu nodes are available: %zu " PREEMPT_USELESS ".", n, n);
    judge_write_preemption(w, &none, sbuf_str(&after));
    judge_write_message(w, sbuf_str(&filters), sbuf_str(&after));
}

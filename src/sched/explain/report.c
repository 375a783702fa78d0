// SPDX-License-Identifier: Apache-2.0
//
// What users see: the pod's condition, events, and in full why no node fits.
#include "sched/explain/report.h"

#include "codec/json_writer.h"
#include "sched/bind/bind.h"
#include "sched/bind/bind_int.h"
#include "sched/bind/fence.h"
#include "sched/dra/dra_int.h"
#include "sched/explain/advice.h"
#include "sched/explain/cure.h"
#include "sched/filter/filter_int.h"

#include "base/banned.h"

// A condition whose reason is the same is not rewritten more often than this.
#define CONDITION_EVERY_NS (10 * CLOCK_NS_PER_SEC)
#define CONDITION_AGAIN_NS (CLOCK_NS_PER_SEC / 10) // when the pod had changed

// Events of bound pods: so many at once, then one each tenth of a second. Thousands of pods are not
// worth a write each.
#define BOUND_EVERY_NS   (CLOCK_NS_PER_SEC / 10)
#define BOUND_AT_ONCE_NS (20 * BOUND_EVERY_NS)

// Calls of the allocator's deadline that finding remedies may take: enough for a few, not for all.
#define REMEDY_CALLS_LINE UINT64_C(40)

// --- The pod's condition -------------------------------------------------------------------------

// The text is for a version of the pod that has changed, perhaps by getting a node: it is looked at
// again soon.
static void condition_written(struct sched *s, void *arg, const struct client_answer *answer)
{
    struct sched_pod *p =
        answer->code == -ERR_CONFLICT ? cluster_pod(&s->cluster, str_z(arg)) : NULL;
    if (!p || !p->report.message)
        return;
    list_remove(&p->report.pending);
    p->report.written_ns = exec_now_ns(s->exec) - CONDITION_EVERY_NS + CONDITION_AGAIN_NS;
    list_push_front(&s->report.pending, &p->report.pending);
    exec_timer_start(s->exec, &s->report.timer, CONDITION_AGAIN_NS);
}

static void report_write_condition(struct sched *s, const struct sched_pod *p)
{
    cleanup_sbuf struct sbuf body = {0};
    cleanup_sbuf struct sbuf now = {0};
    struct json_writer w = {.out = &body};
    const struct api_object_meta *m = &p->api->metadata;
    rfc3339_write_seconds(moment_from_ns(exec_wall_ns(s->exec)), &now);
    sbuf_addz(&body, "{");
    fence_write_identity(&w, m);
    sbuf_addz(&body,
              ",\"status\":{\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\"");
    if (m->generation)
        sbuf_addf(&body, ",\"observedGeneration\":%lld", (long long)m->generation);
    sbuf_addf(&body, ",\"lastTransitionTime\":\"%.*s\",\"reason\":\"%s\",\"message\":",
              STR_ARG(sbuf_str(&now)), p->report.reason);
    sbuf_add_json_str(&body, str_z(p->report.message), false);
    sbuf_addz(&body, "}]}}");
    struct client_key key = {sched_kind(WATCH_PODS), m->namespace, m->name};
    char *whose = xstrndup(p->key.p, p->key.n);
    struct call *call = calls_begin(s, condition_written, whose);
    call->owned = whose;
    client_patch(s->client, &key, CLIENT_PATCH_STRATEGIC, sbuf_str(&body),
                 &(struct client_write){.subresource = STR("status")}, calls_on_answer, call);
    s->stats.conditions++;
}

static bool report_has_text(const char *have, struct str text)
{
    return have && str_eqz(text, have);
}

// Does the pod's own condition say so already, from before a restart?
static bool report_stored_has_text(const struct api_pod *pod, const char *reason,
                                   struct str message)
{
    for (size_t i = 0; i < pod->status.conditions.n; i++) {
        const struct api_pod_condition *c = &pod->status.conditions.p[i];
        if (str_eqz(c->type, "PodScheduled"))
            return str_eqz(c->status, "False") && str_eqz(c->reason, reason) &&
                   str_eq(c->message, message);
    }
    return false;
}

static void hold_back(struct sched *s, struct sched_pod *p)
{
    if (list_linked(&p->report.pending))
        return;
    list_push_back(&s->report.pending, &p->report.pending);
    if (!exec_timer_armed(&s->report.timer))
        exec_timer_start(s->exec, &s->report.timer, CONDITION_EVERY_NS);
}

// The pod stays in the list until its condition has it: writes can fail.
static void report_publish(struct sched *s, struct sched_pod *p)
{
    list_remove(&p->report.pending);
    p->report.written_ns = exec_now_ns(s->exec);
    report_write_condition(s, p);
    report_event(s, p->object, "Warning", "FailedScheduling", str_z(p->report.message));
    hold_back(s, p);
}

// The condition of a gated pod has the gate, as it is now: the template may have come meanwhile.
static void take_gate(struct sched *s, struct sched_pod *p)
{
    cleanup_sbuf struct sbuf now = {0};
    if (!dra_gate(s, p->api, &now)) {
        free(p->report.gate);
        p->report.gate = xstrndup(now.p, now.n);
    }
    free(p->report.reason);
    free(p->report.message);
    p->report.reason = xstrndup("Unschedulable", strlen("Unschedulable"));
    p->report.message = xstrndup(p->report.gate, strlen(p->report.gate));
}

// Is there something to be written?
static bool report_is_due(struct sched *s, struct sched_pod *p)
{
    if (p->api->spec.node_name.n || p->state == POD_BINDING || p->state == POD_ELSEWHERE)
        return false;
    if (p->state == POD_GATED && p->api->spec.scheduling_gates.n)
        return false; // the server has written it
    if (p->state == POD_GATED && p->report.gate)
        take_gate(s, p);
    return p->report.message &&
           !report_stored_has_text(p->api, p->report.reason, str_z(p->report.message));
}

// Texts that were held back are written when their time has come, unless they are obsolete.
static void report_on_timer(void *arg)
{
    struct sched *s = arg;
    int64_t now = exec_now_ns(s->exec);
    list_foreach(&s->report.pending, node) {
        struct sched_pod *p = list_entry(node, struct sched_pod, report.pending);
        int64_t wait = p->report.written_ns + CONDITION_EVERY_NS - now;
        if (wait > 0) {
            exec_timer_start(s->exec, &s->report.timer, wait);
            return;
        }
        list_remove(&p->report.pending);
        if (report_is_due(s, p))
            report_publish(s, p);
    }
}

void report_init(struct sched *s)
{
    list_init(&s->report.pending);
    s->report.timer = (struct exec_timer){.fn = report_on_timer, .arg = s};
}

void report_gated(struct sched *s, struct sched_pod *p)
{
    if (!p->report.message && !list_linked(&p->report.pending))
        p->report.written_ns = exec_now_ns(s->exec);
    hold_back(s, p);
}

void report_set_message(struct sched *s, struct sched_pod *p, const char *reason,
                        struct str message)
{
    bool first = !p->report.message;
    bool same_reason = report_has_text(p->report.reason, str_z(reason));
    bool same = same_reason && report_has_text(p->report.message, message);
    bool stored = first && report_stored_has_text(p->api, reason, message);
    char *text = xstrndup(message.p ? message.p : "", message.n);
    char *why = xstrndup(reason, strlen(reason));
    free(p->report.reason);
    free(p->report.message);
    p->report.reason = why;
    p->report.message = text;
    if (same || stored)
        return;
    if (!first && same_reason && exec_now_ns(s->exec) - p->report.written_ns < CONDITION_EVERY_NS)
        hold_back(s, p);
    else
        report_publish(s, p);
}

void report_event(struct sched *s, const struct typed_object *about, const char *type,
                  const char *reason, struct str message)
{
    events_record(s->recorder, about, str_z(type), str_z(reason), message);
}

void report_bound(struct sched *s, const struct typed_object *pod, struct str node)
{
    int64_t now = exec_now_ns(s->exec);
    if (s->report.bound_ns < now)
        s->report.bound_ns = now;
    if (s->report.bound_ns > now + BOUND_AT_ONCE_NS)
        return;
    s->report.bound_ns += BOUND_EVERY_NS;
    cleanup_sbuf struct sbuf text = {0};
    sbuf_addf(&text, "Successfully assigned %.*s/%.*s to %.*s", STR_ARG(pod->meta->namespace),
              STR_ARG(pod->meta->name), STR_ARG(node));
    report_event(s, pod, "Normal", "Scheduled", sbuf_str(&text));
}

// --- Why no node fits ----------------------------------------------------------------------------

// Do devices alone decide, so that nodes in the same state get the same answer?
static bool by_state(const struct attempt *a)
{
    return a->open_len && a->open_len == a->wants_len;
}

// Explains the claims on a node whose devices do not do. A selector that fails is a mistake in the
// claim, which can be explained as well.
static bool explain_devices(struct attempt *a, const struct sched_node *n,
                            struct index_explaining *e)
{
    bool error = a->last.answer.verdict == ALLOC_ERROR;
    if (!error && a->last.answer.verdict != ALLOC_UNSATISFIABLE)
        return false;
    e->claims_len = a->open_len + a->special.used;
    if (!index_explain(a->s->devices, e, n->index))
        return false;
    a->failed &= !error;
    return true;
}

// Nodes that have too few devices were not asked before: one of each state is asked now.
static void report_remember_node(struct attempt *a, const struct sched_node *n, enum why w)
{
    struct index *x = a->s->devices;
    if (w == WHY_DEVICES && a->devices_hash && by_state(a) &&
        a->last.answer.verdict == ALLOC_UNSATISFIABLE)
        index_rule_out(x, index_question(x, a->devices_hash, a->open, a->open_len), n->index);
}

static void explain_node(struct attempt *a, struct sched_node *n, struct index_explaining *e,
                         struct refusals *refusals)
{
    cleanup_sbuf struct sbuf why = {0};
    struct alloc_report *r = e->report;
    struct index *x = a->s->devices;
    vec_clear(refusals);
    enum why w = filter_node(a, n, refusals);
    if (w == WHY_NONE && by_state(a) &&
        index_ruled_out(x, index_question(x, a->devices_hash, a->open, a->open_len), n->index) &&
        index_explain(x, e, n->index))
        return;
    if (w == WHY_NONE) {
        w = dra_filter(a, n, refusals);
        report_remember_node(a, n, w);
    }
    if (a->tips)
        advice_node(a->tips, a, n, w);
    if (w == WHY_NONE)
        sbuf_addz(&why, "would fit");
    else if (w == WHY_DEVICES && explain_devices(a, n, e))
        return;
    refusal_write(a, n, refusals, &why);
    if (!why.n)
        sbuf_addz(&why, "cannot allocate all claims"); // a question that cannot be explained
    alloc_report_refuse(r, n->name, sbuf_str(&why));
}

// report_make asks every node and groups the answers. The caller frees the report before anything
// changes.
static struct alloc_report *report_make(struct attempt *a)
{
    struct alloc_report *r = alloc_report_new();
    struct cluster *c = &a->s->cluster;
    struct refusals why = {0};
    struct index_explaining e = {
        .solver = a->s->solver, .report = r, .claims = a->open, .claims_len = a->open_len};
    struct str best = a->tips && a->tips->cures ? cures_node(a->tips->cures) : (struct str){0};
    for (size_t i = 0; i < c->order.n; i++) {
        struct sched_node *n = c->order.p[i];
        if (!n || !n->api || a->s->cost.meter.refused)
            continue;
        explain_node(a, n, &e, &why);
        if (best.n && str_eq(n->name, best))
            alloc_report_prefer_last(r);
    }
    map_done(&e.seen);
    size_t groups = 0;
    (void)alloc_report_finish(r, &groups);
    a->s->stats.explained++;
    return r;
}

// Was the claim's allocation made for this very group, earlier in the cycle? Without it there would
// be one pod less.
static bool of_this_gang(const struct attempt *a, const struct alloc_change *c)
{
    struct sched_claim **k =
        c->kind == ALLOC_CHANGE_HOLDER ? map_get(&a->s->claims.by_key, c->what) : NULL;
    return k && (*k)->flight && a->s->turn.gang_now && (*k)->flight->gang == a->s->turn.gang_now;
}

static void drop_own(struct attempt *a, struct alloc_remedies *r)
{
    struct alloc_remedy *kept = arena_array(a->arena, struct alloc_remedy, r->remedies_len + 1);
    size_t n = 0;
    for (size_t i = 0; i < r->remedies_len; i++) {
        bool own = false;
        for (size_t k = 0; k < r->remedies[i].changes_len; k++)
            own = own || of_this_gang(a, &r->remedies[i].changes[k]);
        if (!own)
            kept[n++] = r->remedies[i];
    }
    r->remedies = kept;
    r->remedies_len = n;
}

// Makes the report, and finds remedies for what the allocator can change.
static struct alloc_report *report_with(struct attempt *a, uint64_t calls,
                                        struct alloc_remedies *remedies)
{
    struct alloc_report *r = report_make(a);
    if (a->open_len && !a->special.want && !a->s->cost.meter.refused) {
        a->s->cost.expire_calls = calls;
        cost_find_remedies(a, r, remedies);
        if (a->s->turn.gang_now)
            drop_own(a, remedies);
    }
    return r;
}

#define NO_NODES "0/0 nodes: the cluster has no nodes"

void report_line(struct attempt *a, struct sbuf *out)
{
    struct alloc_remedies remedies = {0};
    if (!a->s->cluster.nodes_known) {
        sbuf_addz(out, NO_NODES);
        return;
    }
    struct alloc_report *r = report_with(a, REMEDY_CALLS_LINE, &remedies);
    alloc_report_summary(r, &remedies, out);
    alloc_report_free(r);
    index_unpin(a->s->devices);
}

void report_write_whole(struct attempt *a, struct sbuf *out, struct sbuf *cause, struct sbuf *text)
{
    cleanup_sbuf struct sbuf line = {0};
    if (!a->s->cluster.nodes_known) {
        sbuf_addz(cause, NO_NODES);
        return;
    }
    const struct cures *cures = a->tips->cures;
    struct alloc_report *r = report_make(a);
    advice_report(a->tips, a, r);
    alloc_report_summary(r, NULL, cause);
    sbuf_add(&line, sbuf_str(cause));
    cures_write_best(cures, &line);
    alloc_report_text(r, text);
    sbuf_addz(out, "{\"summary\":");
    sbuf_add_json_str(out, sbuf_str(&line), false);
    sbuf_addz(out, ",\"report\":");
    alloc_report_json(r, out);
    sbuf_addz(out, ",\"remedies\":");
    cures_write_found(cures, out);
    sbuf_addc(out, '}');
    alloc_report_free(r);
    index_unpin(a->s->devices);
}

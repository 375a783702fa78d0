// SPDX-License-Identifier: Apache-2.0
#include "sched/meter.h"

#include "sched/sched_int.h"

#include "base/banned.h"

#define ATTEMPT_FIRST   0.001
#define ATTEMPT_BUCKETS 15
#define SOLVE_FIRST     0.00001
#define SOLVE_BUCKETS   20
#define SLI_FIRST       0.01
#define SLI_BUCKETS     20
#define TRIES_FIRST     1.0
#define TRIES_BUCKETS   5
#define SLI_TRIES_MAX   15 // more attempts count as so many

static void observe(struct meter_times *t, double first, size_t buckets, double value)
{
    size_t i = 0;
    for (double edge = first; i < buckets && value > edge; edge *= 2)
        i++;
    t->counts[i < buckets ? i : METER_BUCKETS]++;
    t->n++;
    t->sum += value;
}

static double seconds_since(const struct sched *s, int64_t ns)
{
    return (double)(exec_now_ns(s->exec) - ns) / 1e9;
}

void meter_attempt(struct sched *s, const struct sched_pod *p, enum meter_result result)
{
    observe(&s->meter.attempts[result], ATTEMPT_FIRST, ATTEMPT_BUCKETS,
            seconds_since(s, p->tried_ns));
}

void meter_group(struct sched *s, enum meter_result result, int64_t began_ns)
{
    observe(&s->meter.groups[result], ATTEMPT_FIRST, ATTEMPT_BUCKETS, seconds_since(s, began_ns));
}

void meter_solve(struct sched *s, int64_t began_ns)
{
    observe(&s->meter.solves, SOLVE_FIRST, SOLVE_BUCKETS, seconds_since(s, began_ns));
}

void meter_bound(struct sched *s, const struct sched_pod *p)
{
    size_t tries = p->attempts < SLI_TRIES_MAX ? p->attempts : SLI_TRIES_MAX;
    meter_attempt(s, p, METER_SCHEDULED);
    observe(&s->meter.sli[tries], SLI_FIRST, SLI_BUCKETS, seconds_since(s, p->queued_ns));
    observe(&s->meter.tries, TRIES_FIRST, TRIES_BUCKETS, (double)p->attempts);
}

// --- Prometheus' text ----------------------------------------------------------------------------

static void head(struct sbuf *out, const char *name, const char *type, const char *help)
{
    sbuf_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

// labels: such as `a="b"`, without a comma at its end; may be empty.
static void write_times(struct sbuf *out, const char *name, const char *labels,
                        const struct meter_times *t, double first, size_t buckets)
{
    uint64_t sum = 0;
    double edge = first;
    const char *comma = *labels ? "," : "";
    if (!t->n)
        return;
    for (size_t i = 0; i < buckets; i++, edge *= 2) {
        sum += t->counts[i];
        sbuf_addf(out, "%s_bucket{%s%sle=\"%.12g\"} %llu\n", name, labels, comma, edge,
                  (unsigned long long)sum);
    }
    sbuf_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %llu\n", name, labels, comma,
              (unsigned long long)t->n);
    const char *open = *labels ? "{" : "";
    const char *close = *labels ? "}" : "";
    sbuf_addf(out, "%s_sum%s%s%s %.9g\n%s_count%s%s%s %llu\n", name, open, labels, close, t->sum,
              name, open, labels, close, (unsigned long long)t->n);
}

static const char *const results[METER_RESULTS] = {"scheduled", "unschedulable", "error"};

static void write_attempts(const struct sched *s, struct sbuf *out, const struct meter_times *all,
                           const char *counter, const char *timer, const char *what)
{
    struct str profile = s->names.p[0];
    cleanup_sbuf struct sbuf labels = {0};
    sbuf_addf(
        out,
        "# HELP %s Number of attempts to schedule %s, by the result. 'unschedulable' means it "
        "could not be scheduled, 'error' an internal scheduler problem.\n# TYPE %s counter\n",
        counter, what, counter);
    for (size_t i = 0; i < METER_RESULTS; i++)
        sbuf_addf(out, "%s{profile=\"%.*s\",result=\"%s\"} %llu\n", counter, STR_ARG(profile),
                  results[i], (unsigned long long)all[i].n);
    head(out, timer, "histogram", "Scheduling attempt latency in seconds, with the binding.");
    for (size_t i = 0; i < METER_RESULTS; i++) {
        sbuf_clear(&labels);
        sbuf_addf(&labels, "profile=\"%.*s\",result=\"%s\"", STR_ARG(profile), results[i]);
        write_times(out, timer, labels.p, &all[i], ATTEMPT_FIRST, ATTEMPT_BUCKETS);
    }
}

static void write_queue(const struct sched *s, struct sbuf *out)
{
    const struct queue *q = &s->queue;
    head(out, "scheduler_pending_pods", "gauge", "Number of pending pods, by the queue.");
    sbuf_addf(out,
              "scheduler_pending_pods{queue=\"active\"} %zu\n"
              "scheduler_pending_pods{queue=\"backoff\"} %zu\n"
              "scheduler_pending_pods{queue=\"unschedulable\"} %zu\n"
              "scheduler_pending_pods{queue=\"gated\"} %zu\n",
              q->active.n, q->backoff.n, q->waiting_len, q->gated_len);
    head(out, "scheduler_cache_size", "gauge",
         "Nodes, pods and assumed (bound) pods in the cache.");
    sbuf_addf(out,
              "scheduler_cache_size{type=\"nodes\"} %zu\n"
              "scheduler_cache_size{type=\"pods\"} %zu\n"
              "scheduler_cache_size{type=\"assumed_pods\"} %zu\n",
              s->cluster.nodes_known, map_len(&s->cluster.pods), q->binding_len);
}

void sched_metrics(const struct sched *s, struct sbuf *out)
{
    write_attempts(s, out, s->meter.attempts, "scheduler_schedule_attempts_total",
                   "scheduler_scheduling_attempt_duration_seconds", "pods");
    if (s->groups_on)
        write_attempts(s, out, s->meter.groups, "scheduler_podgroup_schedule_attempts_total",
                       "scheduler_podgroup_scheduling_attempt_duration_seconds", "pod groups");
    head(out, "scheduler_pod_scheduling_sli_duration_seconds", "histogram",
         "E2e latency for a pod being scheduled, from the time it enters the scheduling queue.");
    for (size_t i = 0; i <= SLI_TRIES_MAX; i++) {
        cleanup_sbuf struct sbuf labels = {0};
        sbuf_addf(&labels, "attempts=\"%zu%s\"", i, i == SLI_TRIES_MAX ? "+" : "");
        write_times(out, "scheduler_pod_scheduling_sli_duration_seconds", labels.p,
                    &s->meter.sli[i], SLI_FIRST, SLI_BUCKETS);
    }
    head(out, "scheduler_pod_scheduling_attempts", "histogram",
         "Number of attempts to successfully schedule a pod.");
    write_times(out, "scheduler_pod_scheduling_attempts", "", &s->meter.tries, TRIES_FIRST,
                TRIES_BUCKETS);
    write_queue(s, out);
    head(out, "dray_scheduler_solves_total", "counter", "Questions put to the allocator.");
    sbuf_addf(out, "dray_scheduler_solves_total %llu\n", (unsigned long long)s->stats.solves);
    head(out, "dray_scheduler_solve_duration_seconds", "histogram",
         "Time the allocator took for a question: one pod's claims on one node.");
    write_times(out, "dray_scheduler_solve_duration_seconds", "", &s->meter.solves, SOLVE_FIRST,
                SOLVE_BUCKETS);
    head(out, "dray_scheduler_gave_way_total", "counter",
         "Allocations taken back because another scheduler's came first.");
    sbuf_addf(out, "dray_scheduler_gave_way_total %llu\n", (unsigned long long)s->stats.gave_way);
}

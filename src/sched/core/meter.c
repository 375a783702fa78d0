// SPDX-License-Identifier: Apache-2.0
//
// Counts and durations of attempts, plugins and waits, and their text for /metrics. Names and
// labels are those of kube-scheduler where it has the same measure.
#include "sched/core/meter.h"

#include <stdlib.h>

#include "sched/core/sched_int.h"

#include "base/banned.h"

static const struct prom_buckets attempt_buckets = {.first = 0.001, .factor = 2, .n = 15};
static const struct prom_buckets solve_buckets = {.first = 0.00001, .factor = 2, .n = 20};
static const struct prom_buckets plugin_buckets = {.first = 0.00001, .factor = 1.5, .n = 20};
static const struct prom_buckets wait_buckets = {.first = 0.1, .factor = 2, .n = 14};
static const struct prom_buckets sli_buckets = {.first = 0.01, .factor = 2, .n = 20};
static const struct prom_buckets victims_buckets = {.first = 1, .factor = 2, .n = 7};
static const struct prom_buckets tries_buckets = {.first = 1, .factor = 2, .n = 5};

static double seconds_since(const struct sched *s, int64_t ns)
{
    return (double)(exec_now_ns(s->exec) - ns) / 1e9;
}

void meter_attempt(struct sched *s, const struct sched_pod *p, enum meter_result result)
{
    prom_observe(&s->meter.attempts[result], &attempt_buckets, seconds_since(s, p->queue.tried_ns));
}

void meter_group(struct sched *s, enum meter_result result, int64_t began_ns)
{
    prom_observe(&s->meter.groups[result], &attempt_buckets, seconds_since(s, began_ns));
}

static enum meter_status meter_status_of(enum alloc_verdict verdict)
{
    switch (verdict) {
    case ALLOC_ALLOCATED:
        return METER_SUCCESS;
    case ALLOC_UNSATISFIABLE:
    case ALLOC_NODE_ERROR:
        return METER_UNRESOLVABLE;
    case ALLOC_TIMEOUT:
    case ALLOC_POSTPONED:
    case ALLOC_ERROR:
        break;
    }
    return METER_FAILURE;
}

void meter_solve(struct sched *s, int64_t began_ns, enum alloc_verdict verdict)
{
    int64_t took_ns = exec_now_ns(s->exec) - began_ns;
    prom_observe_ns(&s->meter.solves, &solve_buckets, took_ns);
    meter_plugin(s, METER_FILTER, meter_status_of(verdict), took_ns);
}

void meter_plugin(struct sched *s, enum meter_point point, enum meter_status status,
                  int64_t took_ns)
{
    prom_observe_ns(&s->meter.plugins[point][status], &plugin_buckets, took_ns);
}

void meter_prefilter(struct sched *s, const struct sched_pod *p, enum meter_status status)
{
    if (s->meter.prefilters++ % METER_SAMPLE == 0)
        meter_plugin(s, METER_PREFILTER, status, exec_now_ns(s->exec) - p->queue.tried_ns);
}

void meter_waited(struct sched *s, struct str driver, enum meter_wait how, int64_t took_ns)
{
    struct meter_driver *d = map_get(&s->meter.drivers, driver);
    if (!d) {
        char *name = xstrndup(driver.p, driver.n);
        d = map_put(&s->meter.drivers, str_z(name));
        d->name = name;
    }
    if (d->round == s->meter.round)
        return;
    d->round = s->meter.round;
    prom_observe_ns(&d->waits[how], &wait_buckets, took_ns);
}

void meter_preempt(struct sched *s, int64_t began_ns, size_t victims, size_t violations)
{
    struct meter_preempt *m = &s->meter.preempt;
    m->attempts++;
    m->violations += violations;
    if (victims)
        prom_observe(&m->victims, &victims_buckets, (double)victims);
    prom_observe_ns(&m->evaluations[victims ? METER_SUCCESS : METER_UNRESOLVABLE], &attempt_buckets,
                    exec_now_ns(s->exec) - began_ns);
}

void meter_done(struct meter *m)
{
    map_foreach(&m->drivers, i)
        free(map_value(&m->drivers, i)->name);
    map_done(&m->drivers);
}

void meter_bound(struct sched *s, const struct sched_pod *p)
{
    size_t tries = p->queue.attempts < METER_TRIES_MAX ? p->queue.attempts : METER_TRIES_MAX;
    meter_attempt(s, p, METER_SCHEDULED);
    prom_observe(&s->meter.sli[tries], &sli_buckets, seconds_since(s, p->queue.queued_ns));
    prom_observe(&s->meter.tries, &tries_buckets, (double)p->queue.attempts);
}

// --- Prometheus' text ----------------------------------------------------------------------------

// What has not been seen yet has no lines.
static void meter_write_times(struct sbuf *out, const char *name, const char *labels,
                              const struct prom_times *t, const struct prom_buckets *b)
{
    if (t->n)
        prom_write_times(out, name, labels, t, b);
}

static const char *const results[METER_RESULTS] = {"scheduled", "unschedulable", "error"};

static void write_attempts(const struct sched *s, struct sbuf *out, const struct prom_times *all,
                           const char *counter, const char *timer, const char *what)
{
    struct str profile = s->config.names.p[0];
    cleanup_sbuf struct sbuf labels = {0};
    sbuf_addf(
        out,
        "# HELP %s Number of attempts to schedule %s, by the result. 'unschedulable' means it "
        "could not be scheduled, 'error' an internal scheduler problem.\n# TYPE %s counter\n",
        counter, what, counter);
    for (size_t i = 0; i < METER_RESULTS; i++)
        sbuf_addf(out, "%s{profile=\"%.*s\",result=\"%s\"} %llu\n", counter, STR_ARG(profile),
                  results[i], (unsigned long long)all[i].n);
    prom_head(out, timer, "histogram", "Scheduling attempt latency in seconds, with the binding.");
    for (size_t i = 0; i < METER_RESULTS; i++) {
        sbuf_clear(&labels);
        sbuf_addf(&labels, "profile=\"%.*s\",result=\"%s\"", STR_ARG(profile), results[i]);
        meter_write_times(out, timer, labels.p, &all[i], &attempt_buckets);
    }
}

static void write_queue(const struct sched *s, struct sbuf *out)
{
    const struct queue *q = &s->queue;
    prom_head(out, "scheduler_pending_pods", "gauge", "Number of pending pods, by the queue.");
    sbuf_addf(out,
              "scheduler_pending_pods{queue=\"active\"} %zu\n"
              "scheduler_pending_pods{queue=\"backoff\"} %zu\n"
              "scheduler_pending_pods{queue=\"unschedulable\"} %zu\n"
              "scheduler_pending_pods{queue=\"gated\"} %zu\n",
              queue_ready_len(q), q->backoff.n, q->waiting_len, q->gated_len);
    prom_head(out, "scheduler_cache_size", "gauge",
              "Nodes, pods and assumed (bound) pods in the cache.");
    sbuf_addf(out,
              "scheduler_cache_size{type=\"nodes\"} %zu\n"
              "scheduler_cache_size{type=\"pods\"} %zu\n"
              "scheduler_cache_size{type=\"assumed_pods\"} %zu\n",
              s->cluster.nodes_known, map_len(&s->cluster.pods), q->binding_len);
}

// --- Plugins -------------------------------------------------------------------------------------

_Static_assert(WHYS == 10, "plugin_of names every reason");

// meter_plugin_of is the plugin of kube-scheduler that would have kept the pod.
static const char *meter_plugin_of(size_t block)
{
    switch (block) {
    case WHY_NODE_NAME:
        return "NodeName";
    case WHY_UNSCHEDULABLE:
        return "NodeUnschedulable";
    case WHY_NODE_AFFINITY:
        return "NodeAffinity";
    case WHY_TAINT:
        return "TaintToleration";
    case WHY_PORTS:
        return "NodePorts";
    case WHY_RESOURCES:
        return "NodeResourcesFit";
    case WHY_SPREAD:
        return "PodTopologySpread";
    case WHY_POD_AFFINITY:
        return "InterPodAffinity";
    case WHY_DEVICES:
        return "DynamicResources";
    case WHY_VOLUMES: // VolumeRestrictions, VolumeZone and NodeVolumeLimits go by this one, too
        return "VolumeBinding";
    case BLOCK_GATES:
        return "SchedulingGates";
    case BLOCK_GANG:
        return "GangScheduling";
    default:
        return NULL;
    }
}

static void write_blocked(const struct sched *s, struct sbuf *out)
{
    static const char name[] = "scheduler_unschedulable_pods";
    prom_head(out, name, "gauge",
              "The number of unschedulable pods broken down by plugin name. A pod will increment "
              "the gauge for all plugins that caused it to not schedule and so this metric have "
              "meaning only when broken down by plugin.");
    for (size_t i = 0; i < QUEUE_BLOCKS; i++)
        if (meter_plugin_of(i))
            sbuf_addf(out, "%s{plugin=\"%s\",profile=\"%.*s\"} %zu\n", name, meter_plugin_of(i),
                      STR_ARG(s->config.names.p[0]), s->queue.blocked[i]);
}

static const struct {
    const char *plugin, *point;
} points[METER_POINTS] = {
    [METER_PREFILTER] = {"DynamicResources", "PreFilter"},
    [METER_FILTER] = {"DynamicResources", "Filter"},
    [METER_PREBIND] = {"DynamicResources", "PreBind"},
    [METER_BIND] = {"DefaultBinder", "Bind"},
};

static const char *const statuses[METER_STATUSES] = {
    [METER_SUCCESS] = "Success",
    [METER_SKIP] = "Skip",
    [METER_UNRESOLVABLE] = "UnschedulableAndUnresolvable",
    [METER_FAILURE] = "Error",
};

static void write_plugins(const struct sched *s, struct sbuf *out)
{
    static const char name[] = "scheduler_plugin_execution_duration_seconds";
    prom_head(out, name, "histogram",
              "Duration for running a plugin at a specific extension point.");
    for (size_t p = 0; p < METER_POINTS; p++)
        for (size_t i = 0; i < METER_STATUSES; i++) {
            cleanup_sbuf struct sbuf labels = {0};
            sbuf_addf(&labels, "extension_point=\"%s\",plugin=\"%s\",status=\"%s\"",
                      points[p].point, points[p].plugin, statuses[i]);
            meter_write_times(out, name, labels.p, &s->meter.plugins[p][i], &plugin_buckets);
        }
}

static void wait_labels(const struct sched *s, const struct meter_driver *d, size_t how,
                        struct sbuf *out)
{
    static const char *const ends[METER_WAITS] = {"success", "failure", "timeout", "error"};
    sbuf_clear(out);
    sbuf_addf(out, "driver=\"%s\",profile=\"%.*s\",status=\"%s\"", d->name,
              STR_ARG(s->config.names.p[0]), ends[how]);
}

static void write_waits(const struct sched *s, struct sbuf *out)
{
    static const char total[] = "scheduler_dra_bindingconditions_allocations_total";
    static const char took[] = "scheduler_dra_bindingconditions_wait_duration_seconds";
    const struct meter_drivers *all = &s->meter.drivers;
    cleanup_sbuf struct sbuf labels = {0};
    prom_head(out, total, "counter",
              "Number of allocations using devices with BindingConditions, counted per driver per "
              "scheduling attempt");
    map_foreach(all, i)
        for (size_t how = 0; how < METER_WAITS; how++) {
            const struct meter_driver *d = map_value(all, i);
            wait_labels(s, d, how, &labels);
            if (d->waits[how].n)
                sbuf_addf(out, "%s{%s} %llu\n", total, labels.p,
                          (unsigned long long)d->waits[how].n);
        }
    prom_head(out, took, "histogram",
              "Time in seconds spent waiting for BindingConditions to be satisfied during "
              "PreBind.");
    map_foreach(all, i)
        for (size_t how = 0; how < METER_WAITS; how++) {
            const struct meter_driver *d = map_value(all, i);
            wait_labels(s, d, how, &labels);
            meter_write_times(out, took, labels.p, &d->waits[how], &wait_buckets);
        }
}

static void write_preemption(const struct sched *s, struct sbuf *out)
{
    static const char took[] = "scheduler_preemption_evaluation_duration_seconds";
    static const char broken[] = "scheduler_preemption_pdb_violations_total";
    const struct meter_preempt *m = &s->meter.preempt;
    prom_head(out, "scheduler_preemption_attempts_total", "counter",
              "Total preemption attempts in the cluster till now");
    sbuf_addf(out, "scheduler_preemption_attempts_total %llu\n", (unsigned long long)m->attempts);
    prom_head(out, "scheduler_preemption_victims", "histogram",
              "Number of selected preemption victims");
    meter_write_times(out, "scheduler_preemption_victims", "", &m->victims, &victims_buckets);
    prom_head(out, took, "histogram", "Duration in seconds for evaluating preemption candidates.");
    for (size_t i = 0; i < METER_STATUSES; i++) {
        cleanup_sbuf struct sbuf labels = {0};
        sbuf_addf(&labels, "result=\"%s\",type=\"pod\"", statuses[i]);
        meter_write_times(out, took, labels.p, &m->evaluations[i], &attempt_buckets);
    }
    prom_head(out, broken, "counter", "Pods preempted against a PodDisruptionBudget.");
    sbuf_addf(out, "%s{type=\"pod\"} %llu\n", broken, (unsigned long long)m->violations);
}

void sched_metrics(const struct sched *s, struct sbuf *out)
{
    write_attempts(s, out, s->meter.attempts, "scheduler_schedule_attempts_total",
                   "scheduler_scheduling_attempt_duration_seconds", "pods");
    if (s->config.groups_on)
        write_attempts(s, out, s->meter.groups, "scheduler_podgroup_schedule_attempts_total",
                       "scheduler_podgroup_scheduling_attempt_duration_seconds", "pod groups");
    prom_head(
        out, "scheduler_pod_scheduling_sli_duration_seconds", "histogram",
        "E2e latency for a pod being scheduled, from the time it enters the scheduling queue.");
    for (size_t i = 0; i <= METER_TRIES_MAX; i++) {
        cleanup_sbuf struct sbuf labels = {0};
        sbuf_addf(&labels, "attempts=\"%zu%s\"", i, i == METER_TRIES_MAX ? "+" : "");
        meter_write_times(out, "scheduler_pod_scheduling_sli_duration_seconds", labels.p,
                          &s->meter.sli[i], &sli_buckets);
    }
    prom_head(out, "scheduler_pod_scheduling_attempts", "histogram",
              "Number of attempts to successfully schedule a pod.");
    meter_write_times(out, "scheduler_pod_scheduling_attempts", "", &s->meter.tries,
                      &tries_buckets);
    write_queue(s, out);
    write_blocked(s, out);
    write_plugins(s, out);
    write_waits(s, out);
    write_preemption(s, out);
    prom_head(out, "dray_scheduler_solves_total", "counter", "Questions put to the allocator.");
    sbuf_addf(out, "dray_scheduler_solves_total %llu\n", (unsigned long long)s->stats.solves);
    prom_head(out, "dray_scheduler_solve_duration_seconds", "histogram",
              "Time the allocator took for a question: one pod's claims on one node.");
    meter_write_times(out, "dray_scheduler_solve_duration_seconds", "", &s->meter.solves,
                      &solve_buckets);
    prom_head(out, "dray_scheduler_gave_way_total", "counter",
              "Allocations taken back because another scheduler's came first.");
    sbuf_addf(out, "dray_scheduler_gave_way_total %llu\n", (unsigned long long)s->stats.gave_way);
}

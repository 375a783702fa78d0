// SPDX-License-Identifier: Apache-2.0
//
// What is counted and timed, for people's dashboards; names and buckets are kube-scheduler's. Private to
// src/sched, but for sched_metrics (sched.h).
#ifndef SCHED_METER_H
#define SCHED_METER_H

#include <stddef.h>
#include <stdint.h>

struct sched;
struct sched_pod;

#define METER_BUCKETS 20

// Doubling buckets from a first one; the last counter is for what is larger.
struct meter_times {
    uint64_t counts[METER_BUCKETS + 1];
    uint64_t n;
    double sum;
};

enum meter_result { METER_SCHEDULED, METER_UNSCHEDULABLE, METER_ERROR, METER_RESULTS };

struct meter {
    struct meter_times attempts[METER_RESULTS];
    struct meter_times groups[METER_RESULTS];
    struct meter_times sli[METER_BUCKETS]; // by number of attempts
    struct meter_times tries;
    struct meter_times solves; // of the allocator
};

// meter_attempt counts an attempt for a pod that ends now; meter_bound one that is bound. meter_group
// counts the cycle of a PodGroup that began then.
void meter_attempt(struct sched *s, const struct sched_pod *p, enum meter_result result);
void meter_bound(struct sched *s, const struct sched_pod *p);
void meter_group(struct sched *s, enum meter_result result, int64_t began_ns);

// meter_solve counts a question to the allocator that began then.
void meter_solve(struct sched *s, int64_t began_ns);

#endif

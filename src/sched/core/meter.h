// SPDX-License-Identifier: Apache-2.0
//
// What is counted and timed, for people's dashboards; names and buckets are kube-scheduler's.
// Private to src/sched, but for sched_metrics (sched.h).
#ifndef SCHED_CORE_METER_H
#define SCHED_CORE_METER_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "base/map.h"
#include "codec/prom.h"

struct sched;
struct sched_pod;

#define METER_TRIES_MAX 15 // more attempts count as so many

enum meter_result { METER_SCHEDULED, METER_UNSCHEDULABLE, METER_ERROR, METER_RESULTS };

// Where kube-scheduler times its plugins and dray does the same work in one place.
enum meter_point { METER_PREFILTER, METER_FILTER, METER_PREBIND, METER_BIND, METER_POINTS };
enum meter_status {
    METER_SUCCESS,
    METER_SKIP,
    METER_UNRESOLVABLE,
    METER_FAILURE,
    METER_STATUSES,
};

// How a wait for binding conditions ended.
enum meter_wait {
    METER_WAIT_SUCCESS,
    METER_WAIT_FAILURE,
    METER_WAIT_TIMEOUT,
    METER_WAIT_ERROR,
    METER_WAITS,
};

struct meter_driver {
    char *name;     // owns the key
    uint64_t round; // when it was counted last
    struct prom_times waits[METER_WAITS];
};

struct meter_preempt {
    uint64_t attempts;
    uint64_t violations;
    struct prom_times victims;
    struct prom_times evaluations[METER_STATUSES]; // by what came of them
};

struct meter {
    struct meter_preempt preempt;
    struct prom_times attempts[METER_RESULTS];
    struct prom_times groups[METER_RESULTS];
    struct prom_times sli[METER_TRIES_MAX + 1]; // by number of attempts
    struct prom_times tries;
    struct prom_times solves; // of the allocator
    uint64_t prefilters;      // of which some are timed
    struct prom_times plugins[METER_POINTS][METER_STATUSES];
    struct meter_drivers MAP(struct meter_driver) drivers; // with binding conditions
    uint64_t round;                                        // one for each binding that is counted
};

// meter_attempt counts an attempt for a pod that ends now; meter_bound one that is bound.
// meter_group counts the cycle of a PodGroup that began then.
void meter_attempt(struct sched *s, const struct sched_pod *p, enum meter_result result);
void meter_bound(struct sched *s, const struct sched_pod *p);
void meter_group(struct sched *s, enum meter_result result, int64_t began_ns);

// meter_solve counts a question to the allocator that began then, and its answer.
void meter_solve(struct sched *s, int64_t began_ns, enum alloc_verdict verdict);

// meter_preempt counts a search for victims that began then, and how many it found.
void meter_preempt(struct sched *s, int64_t began_ns, size_t victims, size_t violations);

// meter_prefilter counts that a pod's claims were resolved, from its attempt's begin on; one of ten
// is timed.
enum { METER_SAMPLE = 10 };
void meter_prefilter(struct sched *s, const struct sched_pod *p, enum meter_status status);

void meter_plugin(struct sched *s, enum meter_point point, enum meter_status status,
                  int64_t took_ns);

// meter_waited counts a wait for conditions of a driver's devices, once in a round.
void meter_waited(struct sched *s, struct str driver, enum meter_wait how, int64_t took_ns);

void meter_done(struct meter *m);

#endif

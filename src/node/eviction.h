// SPDX-License-Identifier: Apache-2.0
//
// When a node evicts pods, and which one goes first: kubelet's signals, thresholds, conditions and
// order. Pure: who calls it measures, keeps the clock and does the evicting.
#ifndef NODE_EVICTION_H
#define NODE_EVICTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum eviction_signal {
    EVICTION_MEMORY,       // memory.available
    EVICTION_NODE_DISK,    // nodefs.available
    EVICTION_NODE_INODES,  // nodefs.inodesFree
    EVICTION_IMAGE_DISK,   // imagefs.available
    EVICTION_IMAGE_INODES, // imagefs.inodesFree
    EVICTION_PIDS,         // pid.available
    EVICTION_SIGNALS,
};

// A share of the capacity, or an amount.
struct eviction_amount {
    double share; // 0: none
    int64_t value;
};

struct eviction_threshold {
    enum eviction_signal signal;
    struct eviction_amount least;   // what must be available
    struct eviction_amount reclaim; // what must be available beyond that before it is over
    int64_t grace_ns;               // 0: a hard threshold
};

#define EVICTION_THRESHOLDS_MAX (2 * EVICTION_SIGNALS)
#define EVICTION_HARD_DEFAULT                                                                 \
    "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%," \
    "imagefs.inodesFree<5%,pid.available<1000"

struct eviction_config {
    struct eviction_threshold thresholds[EVICTION_THRESHOLDS_MAX];
    size_t thresholds_len;
    int64_t transition_ns;    // how long a condition stays after it was last seen
    int64_t pod_grace_ns_max; // of evictions by soft thresholds
};

// The options in kubelet's syntax; NULL: the default.
struct eviction_texts {
    const char *hard, *soft; // "memory.available<100Mi,nodefs.available<10%"
    const char *soft_grace;  // "memory.available=1m30s"
    const char *reclaim;     // "nodefs.available=500Mi"
    const char *transition;  // "5m"
    int64_t pod_grace_s_max;
};

// eviction_config_parse returns 0 or -ERR_INVALID with the option and what is wrong with it.
int eviction_config_parse(const struct eviction_texts *texts, struct eviction_config *ret,
                          struct err *err) MUST_USE;

// eviction_reserved is what the hard threshold of a signal keeps free.
int64_t eviction_reserved(const struct eviction_config *c, enum eviction_signal signal,
                          int64_t capacity);

// --- State ---------------------------------------------------------------------------------------

struct eviction_observation {
    bool known;
    int64_t available, capacity;
};

struct eviction_facts {
    struct eviction_observation of[EVICTION_SIGNALS];
};

// The directories whose disks count.
struct eviction_places {
    const char *node, *images;
};

struct eviction_conditions {
    bool memory, disk, pids;
};

enum { EVICTION_CONDITIONS = 3 };

struct eviction_state {
    int64_t first_ns[EVICTION_THRESHOLDS_MAX]; // when a threshold was first met; -1: it is not
    bool due[EVICTION_THRESHOLDS_MAX];         // and its grace is over
    int64_t seen_ns[EVICTION_CONDITIONS];      // when a condition was last seen; -1: never
    struct eviction_conditions conditions;
};

void eviction_state_init(struct eviction_state *s);

// eviction_state_update takes new facts and sets the conditions. Returns the threshold to evict for
// (memory before others), or NULL.
const struct eviction_threshold *eviction_state_update(struct eviction_state *s,
                                                       const struct eviction_config *c,
                                                       const struct eviction_facts *facts,
                                                       int64_t now_ns);

// eviction_is_relieved: no threshold is met, with the minimum that must be reclaimed.
bool eviction_is_relieved(const struct eviction_config *c, const struct eviction_facts *facts);

// eviction_resource is what a signal is about, as messages name it. eviction_is_disk: removing
// images may help. eviction_write_facts adds "Threshold quantity: …, available: …. ".
const char *eviction_resource(enum eviction_signal signal);
bool eviction_is_disk(enum eviction_signal signal);
void eviction_write_facts(const struct eviction_threshold *t, const struct eviction_facts *facts,
                          struct sbuf *out);

// --- Order of pods -------------------------------------------------------------------------------

struct eviction_candidate {
    const void *pod; // whatever stands for it
    int64_t priority;
    int64_t usage, request; // of the resource; request is 0 for process ids and inodes
};

// eviction_rank sorts candidates, the first to be evicted first: usage over requests, then the
// lower priority, then the larger usage over requests; for process ids priority and usage.
void eviction_rank(enum eviction_signal signal, struct eviction_candidate *all, size_t n);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Replays of a cluster's history: nodes with GPUs, pods that ask for parts of them, in the order in
// which they arrived; none leaves. Each node becomes a Node with a ResourceSlice, each pod a claim,
// and the allocator decides (docs/measurements/utilization.md). How full does the cluster get, when
// is the first pod turned away, how many GPUs would have to be bought?
//
//   trace = replay_new()
//   replay_read(trace, REPLAY_NODES, file, text, …)     and pods, arrivals, order
//   replay_run(trace, &options, run, &result, …)        run: which line of the arrivals
//
// No file is read here; time comes in through the options.
#ifndef PLAN_REPLAY_H
#define PLAN_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

struct replay_trace;

struct replay_trace *replay_new(void);
void replay_free(struct replay_trace *t);

enum replay_file {
    REPLAY_NODES,    // CSV: sn, cpu_milli, memory_mib, gpu, model
    REPLAY_PODS,     // CSV: name, cpu_milli, memory_mib, num_gpu, gpu_milli[, gpu_spec]
    REPLAY_HISTORY,  // CSV as pods: what the policy knows of, instead of the pods
    REPLAY_ARRIVALS, // lines: seed, count, rows of pods from 0
    REPLAY_ORDER,    // lines: seed, count, rows of nodes from 0
};

// replay_read adds a file; nodes and pods come before what counts their rows. Columns are found by
// the names in the first line, others are skipped. Returns 0, -ERR_INVALID or -ERR_TOO_LARGE with
// the line in err.
int replay_read(struct replay_trace *t, enum replay_file what, struct str text,
                struct err *err) MUST_USE;

enum replay_policy {
    REPLAY_PACK,    // dray's
    REPLAY_WHOLE,   // whole GPUs, as device plugins give them; nodes as kube-scheduler scores them
    REPLAY_FIRST,   // parts, the first device that fits; nodes as kube-scheduler scores them
    REPLAY_BESTFIT, // as published with FGD
    REPLAY_FGD,     // fragmentation gradient descent, as published
};

bool replay_policy_parse(struct str name, enum replay_policy *ret);
const char *replay_policy_name(enum replay_policy p);

enum replay_knowledge {
    REPLAY_KNOW_PODS,    // what the list of pods asks for, or the history that was read
    REPLAY_KNOW_NOTHING, // only what has arrived so far
};

struct replay_options {
    enum replay_policy policy;
    enum replay_knowledge knowledge;
    const struct clock *clock; // for the decisions a second
    bool check;                // let the independent checker see every allocation
    bool no_buying;            // gpus_to_buy is not wanted: 0
    bool curve;                // tell how much is allocated at every load
};

#define REPLAY_LOAD_MOST 150 // the last load of a curve

struct replay_result {
    int64_t seed;
    double curve[REPLAY_LOAD_MOST + 1]; // % allocated by load in %; below 0: not reached
    double allocated100;                // % of capacity when 100 % of it has been requested
    double allocated130;
    double first_rejection; // % of capacity requested, with the pod that was turned away
    double pods;            // placed
    double gpus_to_buy;     // of identical servers, until all pods of the list run
    double fragmentation;   // % of capacity that the next pod could not use, at 100
    double decisions_per_second;
};

// replay_runs counts the arrivals; replay_seed names one.
size_t replay_runs(const struct replay_trace *t);
int64_t replay_seed(const struct replay_trace *t, size_t run);

// replay_ready reports what is missing before anything can be run. Returns 0 or -ERR_INVALID.
int replay_ready(const struct replay_trace *t, struct err *err) MUST_USE;

// replay_run replays one line of the arrivals. Returns 0, or -ERR_INVALID when an object made of
// the trace is refused, or -ERR_INTERNAL when the checker refuses an allocation.
int replay_run(const struct replay_trace *t, const struct replay_options *options, size_t run,
               struct replay_result *ret, struct err *err) MUST_USE;

// replay_json and replay_text write results with their mean.
void replay_json(const struct replay_options *options, const struct replay_result *results,
                 size_t n, struct sbuf *out);
void replay_text(const struct replay_options *options, const struct replay_result *results,
                 size_t n, struct sbuf *out);

#endif

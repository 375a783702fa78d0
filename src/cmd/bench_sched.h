// SPDX-License-Identifier: Apache-2.0
//
// The parts of `dray bench sched`: what it is asked for, what it makes in the cluster.
#ifndef CMD_BENCH_SCHED_H
#define CMD_BENCH_SCHED_H

#include "cmd/bench.h"

struct bench_devices VEC(size_t);

struct sched_bench {
    struct bench bench;
    struct bench_args args;
    size_t nodes, gpus, pods;
    size_t prefill_per_node, prefill_full_nodes, prefill; // the last: anywhere
    size_t steady_s; // so long, a new pod for each that is bound, or at a rate; 0: every pod once
    size_t timeout_s, settle_ms;
    double rate;
    const char *variant, *namespace, *scheduler_name;
    bool no_cleanup, no_verify;

    struct arena arena;
    struct api_object pod;     // what all pods look like, but for their names
    struct bench_devices fill; // devices allocated before: node * gpus + device
};

// sched_bench_setup makes everything but the pods; sched_bench_wipe removes everything. Return 0 or a
// negative code with the reason in bench.err and what was being done in *ret_what.
int sched_bench_setup(struct sched_bench *s, const char **ret_what) MUST_USE;
int sched_bench_wipe(struct sched_bench *s) MUST_USE;

// sched_bench_pod makes pod i: good until the arena of names goes.
struct api_pod sched_bench_pod(const struct sched_bench *s, size_t i, char name[32]);

// sched_bench_verify adds "ok, N devices allocated" or what is wrong. on[i] is the node of pod i
// of n. True: it is right.
bool sched_bench_verify(struct sched_bench *s, const struct str *on, size_t n, struct sbuf *out);

#endif

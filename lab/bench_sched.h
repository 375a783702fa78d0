// SPDX-License-Identifier: Apache-2.0
//
// The parts of `dray bench sched`: its options, and what it makes in the cluster.
#ifndef LAB_BENCH_SCHED_H
#define LAB_BENCH_SCHED_H

#include "lab/bench.h"

#define BENCH_DRIVER "gpu.example.com"

struct bench_devices VEC(size_t);
struct bench_pods VEC(struct api_object);
struct sched_bench;

// How pods come to their devices.
enum bench_uses {
    USES_TEMPLATE,
    USES_NOTHING,
    USES_SHARED,         // five pods a claim
    USES_EXPLICIT,       // an extended resource, one of many classes
    USES_IMPLICIT,       // the same by the class's own name
    USES_SAME,           // all classes have one extended resource name
    USES_GROUP,          // a claim of its PodGroup, one of many
    USES_GROUP_TEMPLATE, // the same, made from a template
};

// What nodes offer and pods ask for.
struct bench_form {
    const char *name;
    size_t devices; // a node; 0: as many as --gpus gives
    size_t slices;  // a node
    size_t fill;    // devices of a claim that is allocated beforehand; 0: there are none
    bool several;   // claims share devices
    bool tainted;   // a rule taints all devices
    bool network;   // a device for each group, within reach of all nodes
    enum bench_uses uses;
    const char *claim; // its spec
    // write adds the part of a slice's spec that is behind driver, node and pool.
    void (*write)(struct sbuf *out, const struct sched_bench *s, size_t node, size_t slice);
};

// bench_form_find returns NULL when there is none of the name. bench_form_names adds what there is.
const struct bench_form *bench_form_find(const char *name);
void bench_form_names(struct sbuf *out);

// bench_workload_take sets counts and variant as Kubernetes' scheduler_perf has them. -ERR_INVALID
// with the reason when the name is not known.
int bench_workload_take(struct sched_bench *s, const char *name, struct err *err) MUST_USE;

struct sched_bench {
    struct bench bench;
    struct bench_args args;
    size_t nodes, gpus, pods;
    size_t plain_nodes;                                   // without devices
    size_t classes;                                       // for extended resources; PodGroups
    size_t init_pods;                                     // bound before it is measured
    size_t first;                                         // number of the first pod of this phase
    size_t prefill_per_node, prefill_full_nodes, prefill; // the last: anywhere
    size_t steady_s; // so long, a new pod for each that is bound, or at a rate; 0: every pod once
    size_t timeout_s, settle_ms;
    double rate;
    const char *variant, *namespace, *scheduler_name;
    const struct bench_form *form; // of the variant
    bool no_cleanup, no_verify;

    struct arena arena;
    struct bench_pods pods_of; // what pods look like, but for their names
    struct bench_devices fill; // units allocated before: node * units + unit
};

// bench_sched_setup makes everything but the pods; bench_sched_wipe removes everything. Return 0 or
// a negative code with the reason in bench.err and what was being done in *ret_what.
int bench_sched_setup(struct sched_bench *s, const char **ret_what) MUST_USE;
int bench_sched_wipe(struct sched_bench *s) MUST_USE;

// bench_sched_make_pod makes pod i of this phase, with its name in name.
struct api_pod bench_sched_make_pod(const struct sched_bench *s, size_t i, char name[32]);

// bench_sched_verify adds "ok, N devices allocated" or what is wrong. on[i] is the node of pod i
// of n. True: it is right.
bool bench_sched_verify(struct sched_bench *s, const struct str *on, size_t n, struct sbuf *out);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The allocator of Dynamic Resource Allocation: which devices on which node satisfy these claims?
// Results are valid for kube-scheduler's rules; a "no" is explained. Part of libdray.
//
//     dray_cluster_read(yaml, strlen(yaml), NULL, &cluster, &err);
//     dray_allocate(cluster, NULL, claims, strlen(claims), &answer, &err);
//     dray_answer_done(&answer);
//
// A cluster is a snapshot, for one thread at a time: an answer takes nothing from it. To count
// devices as in use, read a new one whose text has the claims with their status.allocation.
#ifndef DRAY_ALLOC_H
#define DRAY_ALLOC_H

#include <dray/error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dray_cluster;

enum dray_policy {
    DRAY_PACK,   // least fragmentation
    DRAY_SPREAD, // as far apart as possible
    DRAY_FIRST,  // the first solution in kube-scheduler's order
};

struct dray_cluster_options {
    const char *release;       // "1.34": features of this release; NULL: the newest known
    const char *feature_gates; // "A=true,B=false"; NULL: the defaults of the release
    enum dray_policy policy;
    uint32_t timeout_ms; // of a dray_allocate; 0: 10 s, as kube-scheduler
};

// dray_cluster_read makes a snapshot of the objects of a text, YAML or JSON, several documents and
// Lists too: Nodes, ResourceSlices, DeviceClasses, DeviceTaintRules, and ResourceClaims, whose
// allocations count as in use. Other kinds are skipped. options may be NULL. Objects are not
// validated (dray/validate.h does that). Free it with dray_cluster_free.
DRAY_API int dray_cluster_read(const char *text, size_t len,
                               const struct dray_cluster_options *options,
                               struct dray_cluster **ret, struct dray_error *err);
DRAY_API void dray_cluster_free(struct dray_cluster *c);

enum dray_verdict {
    DRAY_ALLOCATED,
    DRAY_UNSATISFIABLE, // on none of the nodes
    DRAY_FAILED,        // the claims cannot be decided on: a class is missing, a selector fails
    DRAY_TIMEOUT,
};

struct dray_answer {
    enum dray_verdict verdict;
    char *node; // on which they fit; empty unless allocated
    char *text; // allocated: a JSON array with an AllocationResult for each claim, in order;
                // unsatisfiable: why, for people; else the error
};

// dray_allocate allocates all ResourceClaims of a text together, on the node of that name, or with
// NULL on the first node where they fit. Returns 0 with an answer, to be ended with
// dray_answer_done, or -1 when the text cannot be read, has no claim, or the cluster has no such
// node.
DRAY_API int dray_allocate(struct dray_cluster *c, const char *node, const char *claims, size_t len,
                           struct dray_answer *ret, struct dray_error *err);
DRAY_API void dray_answer_done(struct dray_answer *a);

#ifdef __cplusplus
}
#endif
#endif

// SPDX-License-Identifier: Apache-2.0
//
// The allocator of Dynamic Resource Allocation: which devices satisfy these claims on this node?
//
//   cluster = alloc_cluster_new(&input, …)     slices, classes and what is in use; immutable
//   view    = alloc_view_new(cluster, node, …) what one node sees of it; immutable
//   solver  = alloc_solver_new(&options)       working memory of one thread
//   alloc_solve(solver, view, claims, n, &answer)
//
// Pure: no I/O, no globals; time and randomness come in through the options. A cluster and its
// views may be read by many threads at once, each with a solver of its own. The objects given to
// alloc_cluster_new, alloc_view_new and alloc_solve are borrowed and must outlive what is made of
// them.
#ifndef DRAY_ALLOC_H
#define DRAY_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "base/err.h"
#include "base/rand.h"
#include "base/str.h"

// Devices a claim can have (resource/v1 AllocationResultsMaxSize).
#define ALLOC_CLAIM_DEVICES_MAX 32

// Requests of all claims of one question; upstream has no bound and recurses.
#define ALLOC_REQUESTS_MAX 4096

struct alloc_features {
    bool admin_access;
    bool compatibility_groups;
    bool consumable_capacity;
    bool derived_attributes;
    bool binding_conditions; // upstream: DeviceBindingAndStatus
    bool device_taints;
    bool fractional_capacity_range;
    bool list_type_attributes;
    bool optional_node_operations;
    bool partitionable_devices;
    bool prioritized_list;
};

// alloc_features_add turns a feature on by upstream's name (AdminAccess) or its gate's
// (DRAAdminAccess); also "all" and "default-1.37". False: no such feature.
bool alloc_features_add(struct alloc_features *f, struct str name);

// alloc_features_default is what Kubernetes 1.37 has on by default.
struct alloc_features alloc_features_default(void);

struct alloc_device_id {
    struct str driver;
    struct str pool;
    struct str device;
};

// A device that is in use. With a share it is used in part, else exclusively; capacity is what the
// share takes.
struct alloc_use {
    struct alloc_device_id id;
    bool exclusive;
    bool share;
    bool has_capacity;
    struct api_quantity_map capacity;
    struct str owner; // "namespace/name" of the claim, for explanations; may be empty
};

struct alloc_kit;

struct alloc_input {
    struct alloc_features features;
    struct alloc_kit *kit; // shared with other clusters; NULL: the cluster makes its own
    const struct api_resource_slice *const *slices;
    size_t slices_len;
    const struct api_device_class *const *classes;
    size_t classes_len;
    const struct api_device_taint_rule *const *taint_rules;
    size_t taint_rules_len;
    const struct api_resource_claim *const *claims; // those with an allocation count as in use
    size_t claims_len;
    const struct alloc_use *uses; // more of the kind, such as allocations in flight
    size_t uses_len;
};

struct alloc_cluster;
struct alloc_view;
struct alloc_solver;

// alloc_kit_new makes what many small clusters can share instead of having one each: expression
// environments, compiled expressions, device shapes. Their features must be these. It must outlive
// them; a kit and its clusters are of one thread.
struct alloc_kit *alloc_kit_new(const struct alloc_features *features);
void alloc_kit_free(struct alloc_kit *k);

// alloc_cluster_new makes a snapshot. Returns 0, or -ERR_INVALID when a device cannot be read.
int alloc_cluster_new(const struct alloc_input *input, struct alloc_cluster **ret,
                      struct err *err) MUST_USE;
void alloc_cluster_free(struct alloc_cluster *c);

// alloc_cluster_in_use makes a snapshot of the same slices, classes and rules with other devices in
// use: claims and uses of input replace what base had, the rest of input is not looked at. It
// borrows from base, which must outlive it, and costs little.
struct alloc_cluster *alloc_cluster_in_use(const struct alloc_cluster *base,
                                           const struct alloc_input *input);

// alloc_view_new finds the pools that a node can use. Returns 0, or -ERR_INVALID with upstream's
// text when a node selector cannot be read.
int alloc_view_new(const struct alloc_cluster *c, const struct api_node *node,
                   struct alloc_view **ret, struct err *err) MUST_USE;
void alloc_view_free(struct alloc_view *v);

// alloc_view_devices counts the devices of usable pools.
size_t alloc_view_devices(const struct alloc_view *v);

enum alloc_policy {
    ALLOC_PACK,   // least fragmentation
    ALLOC_SPREAD, // as far apart as possible
    ALLOC_FIRST,  // the first solution in upstream's order
};

// alloc_policy_parse reads pack, spread or first.
bool alloc_policy_parse(struct str name, enum alloc_policy *ret);

struct alloc_options {
    enum alloc_policy policy;
    struct rng *rng; // for share IDs; NULL: all are aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa
    // expired, if not NULL, is asked now and then; true ends the search with ALLOC_TIMEOUT.
    bool (*expired)(void *arg);
    void *expired_arg;
    bool no_pruning; // search as upstream does; for tests
};

struct alloc_solver *alloc_solver_new(const struct alloc_options *options);
void alloc_solver_free(struct alloc_solver *s);

// alloc_solver_set_options replaces the options between solves.
void alloc_solver_set_options(struct alloc_solver *s, const struct alloc_options *options);

enum alloc_verdict {
    ALLOC_ALLOCATED,
    ALLOC_UNSATISFIABLE,
    ALLOC_ERROR,      // fatal for the pod
    ALLOC_NODE_ERROR, // this node only
    ALLOC_TIMEOUT,
};

// alloc_verdict_name: allocated, unsatisfiable, error, nodeError, timeout. Static storage.
const char *alloc_verdict_name(enum alloc_verdict v);

struct alloc_answer {
    enum alloc_verdict verdict;
    const struct api_allocation_result *results; // one a claim, in order; NULL unless allocated
    size_t results_len;
    struct str error; // upstream's text; empty unless error, nodeError or timeout
    uint64_t steps;   // devices tried, for statistics
};

// alloc_solve answers for claims on a node. What *ret points to lives in the solver until its next
// solve.
void alloc_solve(struct alloc_solver *s, const struct alloc_view *view,
                 const struct api_resource_claim *const *claims, size_t claims_len,
                 struct alloc_answer *ret);

// alloc_check says whether results are a valid answer for claims on this node, independently of
// the search. Returns true, or false with every problem found as a line in *problems.
bool alloc_check(const struct alloc_view *view, const struct api_resource_claim *const *claims,
                 size_t claims_len, const struct api_allocation_result *results, size_t results_len,
                 struct sbuf *problems);

// --- Explanation ---------------------------------------------------------------------------------

// Why a request cannot have more devices: each device of the node's usable pools counts in the
// first row that applies, so that the rows add up to published.
struct alloc_funnel {
    struct str claim;   // namespace/name
    struct str request; // request or request/alternative
    size_t wanted;      // devices asked for; 0 for mode All
    size_t published;
    size_t class_refused;
    size_t selector_refused;
    size_t selector_failed; // CEL runtime errors
    size_t node_refused;    // placed elsewhere by per-device node selection
    size_t in_use;
    size_t capacity_short;
    size_t not_supported; // counters or skipped operations that the node or the gates do not allow
    size_t tainted;
    size_t counters_short;
    size_t attribute_missing; // a constraint needs an attribute they lack
    size_t usable;            // what is left, each for itself
    struct str conflict;      // for people: why the usable ones do not suffice; may be empty
    struct str owners;        // claims that hold devices this request could use, comma separated
};

struct alloc_explanation {
    const struct alloc_funnel *funnels;
    size_t funnels_len;
    size_t
        nearest; // index of the funnel that is nearest to being satisfied among those that are not
    bool enough_each; // every request could be satisfied alone
};

// alloc_explain fills the funnels for claims on a node. What *ret points to lives in the solver
// until its next solve. Returns false when the question has an error, which alloc_solve tells.
bool alloc_explain(struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct alloc_explanation *ret);

// alloc_explain_text writes an explanation for people, alloc_explain_json as a JSON object.
void alloc_explain_text(const struct alloc_explanation *e, struct sbuf *out);
void alloc_explain_json(const struct alloc_explanation *e, struct sbuf *out);

#endif

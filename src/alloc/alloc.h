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
#ifndef ALLOC_ALLOC_H
#define ALLOC_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/types.h"
#include "base/arena.h"
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

// alloc_gates_add turns on the gates that such a name stands for; any other gate by its own name.
struct features;
bool alloc_gates_add(struct features *gates, struct str name);

// alloc_features_of is what gates say.
struct features;
struct alloc_features alloc_features_of(const struct features *f);

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
    struct alloc_kit *kit;        // shared with other clusters; NULL: the cluster makes its own
    const struct cl_kinds *kinds; // for the index: which devices expressions cannot tell apart
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

// alloc_view_update makes a view one of another snapshot of the same slices, as
// alloc_cluster_in_use makes them; the snapshot it was of must still be there. Costs much less than
// a new one. Nobody else may look at the view meanwhile. False: it cannot be done, the view is as
// it was.
bool alloc_view_update(struct alloc_view *v, const struct alloc_cluster *c) MUST_USE;

// alloc_view_devices counts the devices of usable pools.
size_t alloc_view_devices(const struct alloc_view *v);

enum alloc_policy {
    ALLOC_PACK,   // least fragmentation
    ALLOC_SPREAD, // as far apart as possible
    ALLOC_FIRST,  // the first solution in upstream's order
};

// alloc_policy_parse reads pack, spread or first.
bool alloc_policy_parse(struct str name, enum alloc_policy *ret);

// What evaluating selectors may cost, in units of CEL's cost. Once nothing is left, a question ends
// with ALLOC_POSTPONED. In a cluster of the index what was evaluated is kept: asked again, the
// question gets further.
struct alloc_meter {
    uint64_t left;
    uint64_t spent;       // in all
    uint64_t evaluations; // in all
    bool refused;         // an evaluation was not made
};

struct alloc_options {
    enum alloc_policy policy;
    struct rng *rng; // for share IDs; NULL: all are aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa
    // expired, if not NULL, is asked now and then; true ends the search with ALLOC_TIMEOUT.
    bool (*expired)(void *arg);
    void *expired_arg;
    // loss, if not NULL, says for a request what each device of the view would cost under pack: 0
    // is the best, UINT16_MAX the worst. It is asked once a request, in order over all claims;
    // false: no opinion. Partitions keep their own order.
    bool (*loss)(void *arg, const struct alloc_view *view, uint32_t request, uint16_t *ret);
    void *loss_arg;
    struct alloc_meter *meter; // NULL: selectors may cost whatever they cost
    bool no_pruning;           // search as upstream does; for tests
    bool eager_pruning;        // look for reasons to turn back from the first device on; for tests
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
    ALLOC_POSTPONED, // the meter has nothing left; nothing is known yet
};

// alloc_verdict_name: allocated, unsatisfiable, error, nodeError, timeout, postponed. Static
// storage.
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

// The rows of a funnel, in their order.
enum alloc_row {
    ALLOC_ROW_CLASS,
    ALLOC_ROW_SELECTOR,
    ALLOC_ROW_SELECTOR_FAILED,
    ALLOC_ROW_NODE,
    ALLOC_ROW_UNSUPPORTED,
    ALLOC_ROW_TAINTED,
    ALLOC_ROW_IN_USE,
    ALLOC_ROW_CAPACITY,
    ALLOC_ROW_COUNTERS,
    ALLOC_ROW_ATTRIBUTE,
};

// A part of a row: what takes how many devices away.
// Why a capacity does not suffice.
enum alloc_shortage {
    ALLOC_SHORT_LEFT,    // too little of it, or too little is left
    ALLOC_SHORT_POLICY,  // a share of this size is against the device's policy
    ALLOC_SHORT_UNKNOWN, // the device has no such capacity
};

struct alloc_reason {
    enum alloc_row row;
    enum alloc_shortage shortage;
    size_t devices;
    struct str what;  // class, selector term, taint, capacity, set/counter, attribute; in use: a
                      // claim, with the devices it holds that matter here
    struct str needs; // capacity and counters: what a device would take, in the least case,
    struct str has;   // and the most that one of them has left
    struct str whole; // capacity: the most that one has in all, when that is less than is needed;
                      // else empty
    struct str error; // of a selector that fails
    size_t term;      // of a selector's term: its place; devices it refuses passed those before it
};

// Why a request cannot have more devices: each device of the node's usable pools counts in the
// first row that applies, so that the rows add up to published.
struct alloc_funnel {
    struct str claim;   // namespace/name
    struct str request; // request or request/alternative
    size_t wanted;      // devices asked for; for mode All those that match
    size_t published;
    size_t class_refused;
    size_t selector_refused;
    size_t selector_failed; // CEL runtime errors
    size_t node_refused;    // placed elsewhere by per-device node selection
    size_t not_supported; // counters or skipped operations that the node or the gates do not allow
    size_t tainted;
    size_t in_use;
    size_t capacity_short;
    size_t counters_short;
    size_t attribute_missing; // a constraint needs an attribute they lack
    size_t usable;            // what is left, each for itself
    bool all;                 // mode All
    bool alternative;         // of firstAvailable: another one may do
    bool satisfied;           // usable devices suffice, as far as this request is concerned
    const struct alloc_reason *reasons; // by row, then by devices, most first
    size_t reasons_len;
};

enum alloc_conflict_kind {
    ALLOC_CONFLICT_MATCH,    // no value of an attribute has enough devices
    ALLOC_CONFLICT_DISTINCT, // an attribute has too few values
    ALLOC_CONFLICT_DEVICES,  // requests compete for the same devices
    ALLOC_CONFLICT_COUNTERS, // shared counters do not carry them all at once
    ALLOC_CONFLICT_TOGETHER, // none of these is proven, yet not all requests fit together
};

// A value and how many devices have it, request by request.
struct alloc_value {
    struct str value;
    struct str devices; // "gpu 2, nic 0"
    size_t count;       // as far as they are wanted
};

// Requests that could each be satisfied, but not at once.
struct alloc_conflict {
    enum alloc_conflict_kind kind;
    struct str claim;    // empty when it is between claims
    struct str requests; // comma separated
    struct str what;     // the attribute
    size_t needed;
    size_t best;                      // the most that can be had
    const struct alloc_value *values; // the best ones, at most ALLOC_VALUES_SHOWN
    size_t values_len;
    size_t values_all;
};

#define ALLOC_VALUES_SHOWN 4

struct alloc_explanation {
    const struct alloc_funnel *funnels;
    size_t funnels_len;
    size_t nearest;   // index of the funnel that is nearest to being satisfied among those that are
                      // not; SIZE_MAX when all are
    bool enough_each; // every request could be satisfied alone
    const struct alloc_conflict *conflicts;
    size_t conflicts_len;
    struct str pools; // for people: pools that do not count, and why; may be empty
    size_t pools_unusable;
};

// alloc_explain fills the funnels for claims on a node. What *ret points to lives in the solver
// until its next solve. Returns false when the question has an error, which alloc_solve tells, or
// the meter has nothing left.
bool alloc_explain(struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct alloc_explanation *ret);

// alloc_explain_text writes an explanation for people, alloc_explain_json as a JSON object.
void alloc_explain_text(const struct alloc_explanation *e, struct sbuf *out);
void alloc_explain_json(const struct alloc_explanation *e, struct sbuf *out);

// A report explains a question on many nodes. Nodes in the same state are one group: equal counts
// and reasons, whatever the names of devices and of the claims that hold them.
struct alloc_report;

#define ALLOC_NAMES_SHOWN 3

struct alloc_group {
    size_t nodes;
    struct str names[ALLOC_NAMES_SHOWN]; // of the first nodes
    size_t names_len;
    bool preferred;                // its cause comes first
    struct str refused;            // why the node was not looked at; else empty and
    const struct alloc_view *view; // of the first node; NULL when refused
    struct alloc_explanation explanation;
};

// alloc_report_new makes an empty report. Views and their cluster must outlive it, as must the
// claims.
struct alloc_report *alloc_report_new(void);
void alloc_report_free(struct alloc_report *r);

// alloc_report_set_quiet leaves out why selectors fail: each such text costs an evaluation.
void alloc_report_set_quiet(struct alloc_report *r);

// alloc_report_add explains claims on a node, which uses the solver. Returns false when the
// question has an error there, or the meter has nothing left; then nothing is added.
bool alloc_report_add(struct alloc_report *r, struct alloc_solver *s, const struct alloc_view *view,
                      const struct api_resource_claim *const *claims, size_t claims_len);

// alloc_report_last is the group of the node added last, until alloc_report_finish; *ret_first says
// that it is the first of it, so that its view must outlive the report. alloc_report_again counts
// another node in the same state into a group, without a look at who holds its devices.
size_t alloc_report_last(const struct alloc_report *r, bool *ret_first);
void alloc_report_again(struct alloc_report *r, size_t group, struct str node);

// alloc_report_refuse adds a node that was not looked at, with the reason: "taint a=b:NoSchedule".
void alloc_report_refuse(struct alloc_report *r, struct str node, struct str reason);

// alloc_report_finish sorts the groups, nearest first, refused nodes last. Call it after the last
// node and before anything below. The groups live in the report.
const struct alloc_group *alloc_report_finish(struct alloc_report *r, size_t *ret_len);

struct alloc_remedies;

// alloc_report_summary adds one line for conditions and events: "0/120 nodes: …". remedies may be
// NULL. alloc_report_text adds the whole for people, alloc_report_json a JSON object.
void alloc_report_summary(struct alloc_report *r, const struct alloc_remedies *remedies,
                          struct sbuf *out);
void alloc_report_text(struct alloc_report *r, struct sbuf *out);

// alloc_report_prefer_last puts the cause of the node added last first in the summary: that where
// the least has to change.
void alloc_report_prefer_last(struct alloc_report *r);
void alloc_report_json(struct alloc_report *r, struct sbuf *out);

// --- Remedies ------------------------------------------------------------------------------------

enum alloc_change_kind {
    ALLOC_CHANGE_TOLERATION, // what: the taint
    ALLOC_CHANGE_CAPACITY,   // what: the capacity; from, to
    ALLOC_CHANGE_COUNT,      // from, to
    ALLOC_CHANGE_SELECTOR,   // what: the term that goes
    ALLOC_CHANGE_CONSTRAINT, // what: the attribute
    ALLOC_CHANGE_HOLDER,     // what: the claim that would have to go
    ALLOC_CHANGE_NODE,       // what: the node that an empty one would have to resemble
    ALLOC_CHANGE_REWRITE,    // of struct alloc_rewrite; from, to
};

struct alloc_change {
    enum alloc_change_kind kind;
    struct str claim;
    struct str request;
    struct str what;
    struct str from, to;
    struct str text; // "claim a/b, request gpu: count 3 instead of 4"
    // Where it is, as indexes; sub is UINT32_MAX without alternatives. place: the selector or
    // constraint.
    struct {
        uint32_t claim, request, sub, place;
    } at;
    struct str expression; // the selector afterwards, or the class; empty: the selector goes
    const struct api_device_taint *taint; // of a toleration
    size_t weight;                        // smaller changes weigh less
};

// alloc_rewrite.selector of the name of the i-th capacity request is ALLOC_REWRITE_CAPACITY - i.
#define ALLOC_REWRITE_CAPACITY (UINT32_MAX - 1)
#define ALLOC_REWRITE_NAMES    (UINT32_MAX - 64) // a selector's number is smaller

// A change of words that the caller suggests: a selector or a class that may have been meant.
struct alloc_rewrite {
    uint32_t claim, request, sub; // sub: UINT32_MAX without alternatives
    uint32_t selector;            // UINT32_MAX: the class; see ALLOC_REWRITE_CAPACITY
    struct str expression;        // the selector or class afterwards
    struct str from, to;          // the part that differs, for people
    size_t weight;                // as those in explain/remedy_gather.c
};

#define ALLOC_CHANGES_MAX 2

struct alloc_remedy {
    struct alloc_change changes[ALLOC_CHANGES_MAX];
    size_t changes_len;
    struct str node; // on which it was proven to fit
};

// Changes that were proven by solving again: one at a time; when no single one helps, two.
struct alloc_remedies {
    const struct alloc_remedy *remedies; // smallest first
    size_t remedies_len;
    size_t tried; // of possible single changes and pairs
    size_t possible;
    bool cut; // the deadline ended the search
};

// alloc_remedies_find looks for the smallest changes with which the claims of the report would fit
// on a node like one of its groups. The solver's deadline (alloc_options.expired) bounds the
// search. The result lives in the report until the next call.
void alloc_remedies_find(struct alloc_report *r, struct alloc_solver *s,
                         struct alloc_remedies *ret);

// alloc_remedies_ask does the same on given views, with changes that the caller suggests. The
// result lives in arena.
struct alloc_remedy_ask {
    const struct alloc_view *const *views; // the first REMEDY_VIEWS_MAX count
    size_t views_len;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    const struct alloc_rewrite *rewrites;
    size_t rewrites_len;
    struct arena *arena;
};
void alloc_remedies_ask(struct alloc_solver *s, const struct alloc_remedy_ask *ask,
                        struct alloc_remedies *ret);

// alloc_conflict_core finds requests and constraints of the claims of which the node cannot satisfy
// all, though it could if any one of them were dropped. Adds them as text ("requests a, b and the
// constraint on x"). False: there are none, too many, or the deadline was over.
bool alloc_conflict_core(struct alloc_solver *s, const struct alloc_view *view,
                         const struct api_resource_claim *const *claims, size_t claims_len,
                         struct sbuf *out);

// alloc_view_renew makes a view like v in a snapshot of its own, in which these claims hold devices
// and nothing else does: much quicker than a new cluster when the claims concern this node only.
// Free both results. Objects of v's cluster are borrowed, v itself is not. Returns as
// alloc_cluster_new.
int alloc_view_renew(const struct alloc_view *v, const struct api_resource_claim *const *claims,
                     size_t claims_len, struct alloc_cluster **ret_cluster,
                     struct alloc_view **ret_view, struct err *err) MUST_USE;

// alloc_view_has_pool says whether a node can use a pool.
bool alloc_view_has_pool(const struct alloc_view *v, struct str driver, struct str pool);

// alloc_change_word is the kind of a change in JSON: "count". Static storage.
const char *alloc_change_word(enum alloc_change_kind kind);

// alloc_remedies_text adds a line for each remedy, at most max; alloc_remedies_json a JSON object.
void alloc_remedies_text(const struct alloc_remedies *r, size_t max, struct sbuf *out);
void alloc_remedies_json(const struct alloc_remedies *r, struct sbuf *out);

// --- A look at devices ---------------------------------------------------------------------------

// alloc_cel_device_new converts a published device for the CEL engine. Returns as cel_device_new.
struct cel_device;
struct cel_shapes;
int alloc_cel_device_new(struct cel_shapes *shapes, struct str driver, const struct api_device *api,
                         struct cel_device **ret, struct err *err) MUST_USE;

// A device of a snapshot; all slices that were given count, also those of older generations.
struct alloc_seen {
    const struct api_device *device;
    const struct api_resource_slice *slice;
    struct api_device_taint_array taints; // with those of the rules
    bool exclusive_use, shared_use;
    bool shared; // it may be allocated several times
};

size_t alloc_cluster_devices(const struct alloc_cluster *c);
struct alloc_seen alloc_cluster_device(const struct alloc_cluster *c, size_t device);

enum alloc_selects {
    ALLOC_SELECTS_NO,
    ALLOC_SELECTS_YES,
    ALLOC_SELECTS_ERROR, // the class's selector fails on it
};

// alloc_cluster_selects says whether a device is of a class; no for a class there is not.
enum alloc_selects alloc_cluster_selects(const struct alloc_cluster *c, struct str class_name,
                                         size_t device);

// A pool that a node sees: its newest generation.
struct alloc_pool_seen {
    struct str driver, name;
    bool incomplete; // slices are missing
    bool invalid;
    struct str reason; // why it is invalid
};

size_t alloc_view_pools(const struct alloc_view *v);
struct alloc_pool_seen alloc_view_pool(const struct alloc_view *v, size_t pool);

// What a node could have of a device of its usable pools; device < alloc_view_devices.
struct alloc_room {
    size_t device;    // in the cluster
    bool here;        // the node has access to it
    bool supported;   // the node can prepare it
    bool full;        // it is shared, and what an unspecific request takes is not left
    struct str lacks; // the shared counter that others used up, as set/counter, or what clashes;
                      // else empty
};

struct alloc_room alloc_view_room(const struct alloc_view *v, size_t device);

// alloc_view_left tells what is left of a device's capacity, by its place among the device's.
struct str alloc_view_left(const struct alloc_view *v, size_t device, size_t capacity,
                           struct arena *arena);

#endif

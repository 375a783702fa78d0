// SPDX-License-Identifier: Apache-2.0
//
// All devices of a cluster, kept up to date object by object, and the question which node can serve
// some claims. A change costs what the changed object costs; a question costs what is new since it
// was asked last. docs/design/scale.md describes how, README.md in this folder what the data are.
//
//   index_set_slice, index_set_class, index_set_rule, index_set_node, index_use     what changes
//   q = index_question(x, hash, claims, n)                          a question
//   index_walk_start, index_walk_next                               nodes that may do, best first
//   index_find                                                      the same in one call, with a
//                                                                   caller who asks each node
//   index_best, index_count                                         the answer in one call
//
// Nodes that no question can tell apart are a group: what one of them has answered holds for all.
// One thread; deterministic.
#ifndef ALLOC_INDEX_H
#define ALLOC_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "alloc/model/crowd.h"
#include "base/map.h"

struct fleet;
struct index;
struct index_pool;
struct index_question;

// An API object and who keeps it alive.
struct index_object {
    const void *value; // NULL: there is none
    const void *owner;
};

struct index_options {
    struct alloc_features features;
    enum alloc_policy policy;
    size_t devices_kept; // in views; 0: as many as usual, some 80 MB
    // keep and drop hold an object's owner; NULL: objects outlive the index.
    void (*keep)(const void *owner);
    void (*drop)(const void *owner);
};

struct index *index_new(const struct index_options *options);
void index_free(struct index *x);

// --- What changes --------------------------------------------------------------------------------

// before is the object as it was given last, after as it is now; a value of NULL: none.
void index_set_slice(struct index *x, struct index_object before, struct index_object after);
void index_set_class(struct index *x, struct index_object before, struct index_object after);
void index_set_rule(struct index *x, struct index_object before, struct index_object after);

// index_set_node sets the node with a number; numbers are small and may be used again. No value: it
// is gone.
void index_set_node(struct index *x, uint32_t number, struct str name, struct index_object object);

// An allocation that holds devices. Its owner embeds it, zeroed. allocation is borrowed as long as
// it is set; its owner calls index_use after replacing it.
struct index_user {
    const struct api_allocation_result *allocation;
    const struct alloc_use *uses; // instead, for questions that come without claims; likewise
    size_t uses_len;
    struct str owner;    // namespace/name of the claim; borrowed
    uint64_t revision;   // at which the allocation was stored, at the latest; UINT64_MAX: not yet
    uint64_t not_before; // at the earliest: the same, unless a list has shown it
    bool foreign;        // another scheduler's
    struct index_pools VEC(struct index_pool *) pools;
};

// index_use replaces what a user holds. Devices count as in use from here on; NULL: none.
void index_use(struct index *x, struct index_user *u,
               const struct api_allocation_result *allocation);

// index_use_list is the same for devices in use by no claim that is known.
void index_use_list(struct index *x, struct index_user *u, const struct alloc_use *uses,
                    size_t uses_len);

// --- Looking -------------------------------------------------------------------------------------

// index_view is what a node sees, now. Borrowed until the next change, or until as many other views
// as are kept have been requested, unless it is pinned. NULL: err has the reason. index_unpin lets
// all go.
const struct alloc_view *index_view(struct index *x, uint32_t node, struct err *err);
void index_pin(struct index *x, uint32_t node);
void index_unpin(struct index *x);

const struct api_device_class *index_find_class(const struct index *x, struct str name);

// index_find_device finds the device of an allocation's result; NULL when no slice has it.
const struct api_device *index_find_device(const struct index *x,
                                           const struct api_device_request_allocation_result *r);

// index_count_devices counts devices of the node's own pools that are free, and all of them.
void index_count_devices(const struct index *x, uint32_t node, size_t *ret_free, size_t *ret_all);

// index_contested reports whether other schedulers' allocations are in a user's pools; only those
// can make its allocation wrong. index_stands reports whether it is right on this node beside all
// that may have been stored before the given revision. index_holds reports whether the pools know
// the user.
bool index_contested(const struct index_user *u);
bool index_stands(struct index *x, uint32_t node, const struct index_user *u,
                  const struct api_resource_claim *claim, uint64_t before);
bool index_holds(const struct index_user *u);

// index_state is a hash of what a node's devices are and how they are in use: nodes with equal
// hashes have equal answers to all questions asked so far. 0: no such node. index_states counts
// distinct ones.
uint64_t index_state(struct index *x, uint32_t node);
size_t index_states(struct index *x);

// index_expect: such a claim is there, and others like it may be asked about. What it reads of
// devices is then known before the first of them waits for that.
void index_expect(struct index *x, const struct api_resource_claim *claim);

// index_catch_up looks at so many pools again after a question has read an attribute that none had
// read before; true: there are more. Questions do so by themselves; an idle caller may be ahead of
// them.
bool index_catch_up(struct index *x, size_t most);

// index_touched are the nodes whose devices or use of them changed since the list was emptied,
// which the caller does; more than there are nodes: any may have. What changes for
// thousands of nodes at once, the use of a pool that all see, is not reported.
struct index_numbers VEC(uint32_t);
struct index_numbers *index_touched(struct index *x);

// --- Questions -----------------------------------------------------------------------------------

// index_question finds or makes a question. hash is of what the claims request, for any pod. It
// lives until others push it out: use it at once. Claims may be empty when only class selectors
// matter.
struct index_question *index_question(struct index *x, uint64_t hash,
                                      const struct api_resource_claim *const *claims,
                                      size_t claims_len);

// index_ruled_out: a node is known to have no answer; index_rule_out remembers that, for
// all nodes in the same state; index_serves that one is known.
bool index_serves(struct index *x, const struct index_question *q, uint32_t node);
bool index_ruled_out(struct index *x, const struct index_question *q, uint32_t node);
void index_rule_out(struct index *x, struct index_question *q, uint32_t node);

// A walk over the nodes that may have an answer, best first by the policy: pack takes those with
// the fewest free devices that suffice, spread those with the most, first the lowest number.
// Nothing may change but what is ruled out. need: distinct devices at the least, as far as none can
// be shared. One walk at a time.
void index_walk_start(struct index *x, struct index_question *q, size_t need);
bool index_walk_next(struct index *x, uint32_t *ret_node);

// What a question amounts to in the whole cluster.
struct index_answer {
    enum alloc_verdict verdict;
    uint32_t node;            // the best one, when allocated; where the error is, if there is one
    struct alloc_answer best; // its answer; lives in the solver
    size_t nodes;             // index_count: that can serve the claims now
    size_t states;            // how many states these have
    uint64_t more;   // index_count: so many more of such claims would fit, one after the other
    bool at_most;    // more counts devices that several nodes reach for each of them
    uint64_t solves; // made for this answer
};

// What a node answers to a question.
enum index_reply {
    INDEX_NO,     // not with these devices: no other node in the same state will do either
    INDEX_SKIP,   // not this one, for reasons that others need not have
    INDEX_YES,    // it will do; others may be better
    INDEX_ENOUGH, // ask no more
};

// What is asked. hash as in index_question; 0: nothing is known before, nor remembered.
struct index_ask {
    uint64_t hash;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    // Of index_find:
    size_t need;         // as in index_walk_start
    struct fleet *fleet; // names nodes by worth, started with the same question; NULL: by policy
    enum index_reply (*ask)(void *arg, uint32_t node);
    void *arg;
};

// index_find is the question to the whole cluster: it asks nodes, best first, until one answers
// that it is enough, and asks none that is known to have no answer. The fleet gets what the answers
// were.
void index_find(struct index *x, const struct index_ask *ask);

// index_best finds the best node under the policy of the index. The solver's policy should be the
// same.
void index_best(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                struct index_answer *ret);

// index_count counts how many nodes can serve the claims, and how many more of them would fit.
void index_count(struct index *x, struct alloc_solver *s, const struct index_ask *ask,
                 struct index_answer *ret);

// index_explain adds a node to a report of these claims. INDEX_LOOKS nodes are looked at, so that
// it gets the holders of their devices; after that one of each state, and the others are counted.
// seen, zeroed at first and freed by the caller with map_done, remembers what was looked at.
// Returns as alloc_report_add, also false when there is no view. It pins views: call index_unpin
// after the report is freed.
#define INDEX_LOOKS 1024
struct index_look {
    size_t group;
    size_t looks;
};
struct index_looks MAP(struct index_look);

struct index_explaining {
    struct alloc_solver *solver;
    struct alloc_report *report;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    struct index_looks seen;
    size_t looks;
};
bool index_explain(struct index *x, struct index_explaining *e, uint32_t node);

#endif

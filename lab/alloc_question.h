// SPDX-License-Identifier: Apache-2.0
//
// An allocation problem as a JSON document: claims, classes, slices, nodes, what is in use. Used by
// `dray alloc`, by tests and by fuzzers.
#ifndef LAB_ALLOC_QUESTION_H
#define LAB_ALLOC_QUESTION_H

#include "alloc/alloc.h"
#include "api/api.h"
#include "base/vec.h"

struct slice_list VEC(const struct api_resource_slice *);
struct class_list VEC(const struct api_device_class *);
struct claim_list VEC(const struct api_resource_claim *);
struct rule_list VEC(const struct api_device_taint_rule *);
struct node_list VEC(const struct api_node *);
struct use_list VEC(struct alloc_use);

// One document. Everything lives in the arena.
struct question {
    struct arena arena;
    struct json_doc doc;
    struct alloc_features features;
    struct slice_list slices;
    struct class_list classes;
    struct claim_list claims;
    struct claim_list allocated;
    struct rule_list rules;
    struct node_list nodes;
    struct use_list uses;
    int64_t timeout_ms;
    bool sweep;
};

// alloc_question_read reads a document; zero *q first and end with alloc_question_done in any case.
// Returns 0, or -ERR_BAD_REQUEST or -ERR_INVALID.
int alloc_question_read(struct question *q, struct str text, struct err *err) MUST_USE;
void alloc_question_done(struct question *q);

struct prepared {
    struct alloc_cluster *cluster;
    struct alloc_view **views; // one a node
};

// alloc_question_prepare makes the snapshot and the views of all nodes; end with alloc_question_end
// in any case. Returns as alloc_cluster_new and alloc_view_new.
int alloc_question_prepare(const struct question *q, struct prepared *p, struct err *err) MUST_USE;
void alloc_question_end(const struct question *q, struct prepared *p);

#endif

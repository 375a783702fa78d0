// SPDX-License-Identifier: Apache-2.0
//
// What the search for remedies shares: changes that may help, and the way to try them.
#ifndef ALLOC_EXPLAIN_REMEDY_INT_H
#define ALLOC_EXPLAIN_REMEDY_INT_H

#include "alloc/explain/explain_int.h"

#define REMEDY_VIEWS_MAX   6  // groups of nodes that are considered, nearest first
#define REMEDY_SINGLES_MAX 96 // changes that are considered

// Where a node's groups, claims and requests are indexes into the report, the claims and their
// requests.
struct candidate {
    enum alloc_change_kind kind;
    uint32_t view; // holder and node: the view it is about; else UINT32_MAX: any
    uint32_t claim;
    uint32_t request;
    uint32_t sub;      // alternative; UINT32_MAX: exactly
    uint32_t selector; // or constraint
    uint32_t term;
    int64_t count;
    size_t weight; // smaller changes weigh less
    struct str what;
    struct str to;
    struct str from;
    struct str expression; // of a rewrite
    const struct api_device_taint *taint;
};

// What is needed to make a small cluster of one node: only what its pools are made of.
struct remedy_view {
    const struct alloc_view *view;
    struct VEC(const struct api_resource_slice *) slices;
    struct VEC(struct alloc_use) uses;
    struct VEC(const struct api_device_class *) classes;
};

struct remedy_search {
    struct alloc_solver *s;
    struct arena *arena;
    const struct api_resource_claim *const *claims;
    size_t claims_len;
    struct remedy_view views[REMEDY_VIEWS_MAX];
    size_t views_len;
    struct VEC(struct candidate) candidates;
    const struct alloc_rewrite *rewrites;
    size_t rewrites_len;
    size_t dropped; // candidates beyond the bound
};

// remedy_gather collects candidates from the explanations of all views; sorted by weight.
void remedy_gather(struct remedy_search *r);

// remedy_try solves again with one or two changes. Returns 1 with the node on which it fits, 0, or
// -1 when time ran out.
int remedy_try(struct remedy_search *r, const struct candidate *const *changes, size_t n,
               struct str *ret_node);

// remedy_drop_term is a selector without one of its terms, in the search's arena; empty: none is
// left.
struct str remedy_drop_term(struct remedy_search *r, struct str expression, uint32_t term);

// remedy_change describes a candidate for people and programs.
struct alloc_change remedy_change(struct remedy_search *r, const struct candidate *c);

#endif

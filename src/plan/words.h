// SPDX-License-Identifier: Apache-2.0
//
// Claims from words: "gpu, 40Gi of memory, two of them, with a nic behind the same PCIe root".
// Words are looked up in the classes, attributes and capacities that the cluster has; the choice is
// reported.
#ifndef PLAN_WORDS_H
#define PLAN_WORDS_H

#include "base/vec.h"
#include "plan/inventory.h"

// memory at least 40Gi; model equal to A100: an operator may stand before the value.
struct words_condition {
    struct str name;  // empty: value is a CEL expression
    struct str value; // [>=|<=|>|<|!=|=]VALUE
};

struct words_request {
    struct str word; // class, part of its name, extended resource, driver
    int64_t count;   // 0: 1
    bool all;
    struct VEC(struct words_condition) conditions;
};

enum words_kind { WORDS_CLAIM, WORDS_TEMPLATE, WORDS_POD };

struct words {
    struct VEC(struct words_request) requests;
    struct VEC(struct str) same, distinct; // attributes
    enum words_kind kind;
    struct str name;      // of the objects; empty: made of the words
    struct str namespace; // empty: none is written
    struct str node;      // the pod's; empty: any
    struct str image;     // of the pod; empty: busybox
};

void words_done(struct words *w);

// words_make adds YAML, one document or two, and a line for people on each choice. Returns 0,
// -ERR_NOT_FOUND for a word that nothing is called by, or -ERR_INVALID; the message lists the known
// ones.
int words_make(const struct inventory *inv, const struct words *w, struct sbuf *yaml,
               struct sbuf *notes, struct err *err) MUST_USE;

// words_name adds the name that the objects get.
void words_name(const struct words *w, struct sbuf *out);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// Remedies for a pod that no node takes: the smallest changes of the pod, its claims, a node or the
// pods in its way with which it would get a node. Each is proven by filtering and allocating again
// with it, on the node that it names. As data: an object and a patch, so that it can be carried
// out.
#ifndef SCHED_EXPLAIN_CURE_H
#define SCHED_EXPLAIN_CURE_H

#include "codec/json_writer.h"
#include "sched/core/sched_int.h"

#define CURE_CHANGES_MAX 5
#define CURES_MAX        12 // kept, best first
#define CURE_CLASSES_MAX 64 // requests whose class is looked for

enum cure_action {
    CURE_PATCH,   // the object, by a JSON patch
    CURE_DELETE,  // the object
    CURE_RELEASE, // the claim: the pods that use it end
    CURE_MANUAL,  // nothing that a request to the API could do
};

struct cure_change {
    const char *kind; // "toleration", "count", …
    enum cure_action action;
    const char *object; // kind of the object; its namespace and name
    struct str namespace, name;
    struct str patch;   // JSON patch of the object
    struct str command; // that does the same, where there is one
    struct str text;
    struct str claim, request, what, from, to; // as in struct alloc_change
    bool admin;                                // the pod's owner may not be able to
    size_t weight;                             // smaller changes weigh less
};

struct cure {
    struct cure_change changes[CURE_CHANGES_MAX];
    size_t n;
    struct str node; // on which it was proven
    size_t weight;
    bool unproven; // it lets the pod be tried
};

// Words of selectors and classes that may have been meant.
struct cure_rewrites VEC(struct alloc_rewrite);

struct cures {
    struct arena arena;
    struct VEC(struct cure) list; // in arena, best first
    struct str core;              // requests that conflict; empty: not known
    uint64_t classes_seen;        // by request: a device of its class is published somewhere
    bool fits;                    // a node takes the pod as it is
    bool class_seen;              // some node has a device of each class that is asked for,
    bool selectors_seen;          // … which the selectors match
    bool refused;                 // the pod as a whole cannot be placed
    bool cut;                     // not all was tried
    struct cure_rewrites words;   // in arena, once words_known
    bool words_known;
};

void cures_done(struct cures *c);

// cures_find looks for remedies of a pod. Nothing is changed. It uses the scheduler's solver and
// arena for attempts of its own; an attempt under way keeps what it has.
void cures_find(struct sched *s, struct sched_pod *p, struct cures *ret);

// cures_of_gate: the pod is not tried, by a gate of its own or for lack of a claim.
// cures_of_scheduler: it is for another scheduler.
void cures_of_gate(struct sched *s, const struct sched_pod *p, struct cures *out);
void cures_of_scheduler(const struct sched *s, const struct sched_pod *p, struct cures *out);

// cures_text adds a line for each, at most max.
void cures_text(const struct cures *c, size_t max, struct sbuf *out);

// cures_node is where the best one was proven; empty: nowhere.
struct str cures_node(const struct cures *c);

// cures_write_found adds them as an object as alloc_remedies_json does, cures_write_best the best
// one as the end of a summary.
void cures_write_found(const struct cures *c, struct sbuf *out);
void cures_write_best(const struct cures *c, struct sbuf *out);

// cures_write adds them as a list: remedies.
void cures_write(const struct cures *c, struct json_writer *w);

#endif

// SPDX-License-Identifier: Apache-2.0
//
// The scheduler: gives pods a node and their claims devices, or explains why it cannot. It lives on
// one exec, talks to the API through a client and to nothing else, and is deterministic given the
// exec's clock and randomness. How it works: docs/design/scheduler.md.
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/alloc.h"
#include "api/features.h"
#include "base/err.h"
#include "base/str.h"
#include "client/client.h"

struct sched;

// Which pods a pod that fits nowhere may displace.
enum sched_preemption {
    SCHED_PREEMPTION_KUBERNETES, // those that kube-scheduler chooses
    SCHED_PREEMPTION_OFF,        // none
};

struct sched_options {
    struct client *client;           // borrowed; its exec is the scheduler's
    const struct str *names;         // values of spec.schedulerName it serves; copied
    size_t names_len;                // 0: "dray" alone
    const struct features *features; // copied; NULL: defaults of the newest release
    enum alloc_policy policy;        // how devices are chosen, within and between nodes
    int64_t binding_timeout_ns;      // for binding conditions; 0: 600 s
    size_t feasible_max;             // nodes scored for a pod; 0: default
    uint64_t selector_budget;        // what an attempt's selectors may cost in all; 0: default
    int64_t settle_ns; // least wait before a Binding beside schedulers that do not look; 0: none
    enum sched_preemption preemption;
    bool standby; // know everything, do nothing before sched_lead
};

// sched_preemption_parse reads the name of a mode of preemption: kubernetes, off.
bool sched_preemption_parse(struct str text, enum sched_preemption *ret);

struct sched *sched_new(const struct sched_options *options);

// sched_start begins to watch; pods are scheduled once every kind has been listed.
void sched_start(struct sched *s);

// sched_lead ends standing by: from here on pods are scheduled. Caches are warm by then, so that a
// fail-over costs no list. There is no way back but sched_free.
void sched_lead(struct sched *s);

// sched_free stops watching. Calls of the client that are under way are forgotten: their answers
// find no receiver.
void sched_free(struct sched *s);

// sched_synced reports whether every kind has been listed once.
bool sched_synced(const struct sched *s);

// sched_is_forbidden: the server does not let us list a kind. It is requested again until it does,
// and nothing is scheduled before.
bool sched_is_forbidden(const struct sched *s);

// sched_idle reports whether nothing is waiting for its turn or being bound. Pods that cannot be
// placed and those that back off do not count.
bool sched_idle(const struct sched *s);

struct sched_stats {
    uint64_t attempts;           // scheduling cycles
    uint64_t postponed;          // turns that ended before all selectors were evaluated
    uint64_t selector_cost;      // of all evaluations
    uint64_t selector_turn_most; // of those of one turn of the loop
    uint64_t selector_evaluations;
    uint64_t bound;         // pods
    uint64_t unschedulable; // cycles that ended so
    uint64_t errors;        // cycles and bindings that failed otherwise
    uint64_t gave_way;      // allocations taken back because another scheduler's came first
    uint64_t solves;        // questions put to the allocator
    uint64_t explained;     // explanations made (the others were known)
    uint64_t conditions;    // pod conditions written
    uint64_t groups_placed; // cycles of PodGroups that placed as many pods as were needed
    uint64_t groups_refused;
    uint64_t given_back;  // claims that a PodGroup held and did not run with
    uint64_t dry_runs;    // of preemption, on one node each
    uint64_t preemptions; // begun
    size_t active, backing_off, waiting, gated, binding;
};

void sched_get_stats(const struct sched *s, struct sched_stats *ret);

// sched_metrics adds Prometheus' text: kube-scheduler's names where it has them.
void sched_metrics(const struct sched *s, struct sbuf *out);

// sched_explain adds a JSON object with all about a pod, or about a claim (kind
// "ResourceClaim" or any other name of it): its state and, where it is pending, every node's
// answer, as of now. Returns 0; -ERR_NOT_FOUND when there is no such object; -ERR_BAD_REQUEST for
// another kind; -ERR_UNAVAILABLE when selectors cost more than one turn of the loop allows: the
// next call gets further.
int sched_explain(struct sched *s, struct str kind, struct str namespace, struct str name,
                  struct sbuf *out, struct err *err) MUST_USE;

// sched_judge writes the answer of every node to a pending pod, in kube-scheduler's words, as
// members of a JSON object: preEnqueue; or preFilter, feasible and filtered, and if no node will do
// preemption and message (docs/design/scheduler.md, Verdicts). It may take long: for callers
// without other requests to serve. Returns 0, -ERR_NOT_FOUND, or -ERR_INTERNAL with the error of an
// attempt.
struct json_writer;
int sched_judge(struct sched *s, struct str namespace, struct str name, struct json_writer *w,
                struct err *err) MUST_USE;

// sched_explain_text does the same, and adds to text what nodes and devices say, in words, if it is
// not NULL. text stays empty where no node is to blame.
int sched_explain_text(struct sched *s, struct str kind, struct str namespace, struct str name,
                       struct sbuf *out, struct sbuf *text, struct err *err) MUST_USE;

// sched_closed_nodes gives the nodes that would take no pod more, not even one that asks for
// nothing and tolerates their taints: cordoned, or full of pods.
void sched_closed_nodes(struct sched *s, void (*fn)(void *arg, struct str node), void *arg);

// sched_check compares the caches with what the watches have delivered: every node's sums
// recomputed, every claim's allocation, every index. Returns true, or false with a line for each
// difference.
bool sched_check(const struct sched *s, struct sbuf *problems);

// sched_watched gives the kinds that a scheduler keeps, by number; NULL behind the last.
// sched_known is the revision of an object in its cache, 0 when it is not there; sched_known_count
// counts them. For those who want to compare it with the store.
const struct api_kind *sched_watched(size_t i);
uint64_t sched_known(const struct sched *s, size_t i, struct str namespace, struct str name);
size_t sched_known_count(const struct sched *s, size_t i);

#endif

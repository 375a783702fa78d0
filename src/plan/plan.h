// SPDX-License-Identifier: Apache-2.0
//
// Questions on a snapshot: where would these pods land, why does this one not, and what if?
//
//   world = plan_world_new()
//   plan_world_read(world, name, text, …)        manifests, one after the other
//   plan_drain, plan_taint, plan_without, plan_add_node    what if
//   plan = plan_make(world, &options, …)
//   plan_text(plan, …) or plan_json(plan, …)
//
// The scheduler and the controllers answer, on a copy of the world in memory (sim.h). Nothing is
// written to a cluster, no file but that of a profile is read. Time comes in through the options.
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/alloc.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/str.h"

struct features;
struct plan_world;

struct plan_world *plan_world_new(void);
void plan_world_free(struct plan_world *w);

// plan_world_read adds the objects of a manifest: JSON or YAML, one or many documents, lists too.
// file names it in messages. Kinds that a plan does not need are skipped. Returns 0, or
// -ERR_BAD_REQUEST, -ERR_TOO_LARGE or -ERR_INVALID with the line in err.
int plan_world_read(struct plan_world *w, struct str file, struct str text,
                    struct err *err) MUST_USE;

// plan_world_read_proto adds the one object of a body in Kubernetes' protobuf envelope.
int plan_world_read_proto(struct plan_world *w, struct str file, struct str body,
                          struct err *err) MUST_USE;

// plan_world_borrow adds an object that is typed already, in the version the plan knows; it must
// outlive the world and is not changed. False: a kind that a plan does not need.
struct api_object;
bool plan_world_borrow(struct plan_world *w, const struct api_object *o);

// plan_class_names gives the names of all DeviceClasses, in arena.
const struct str *plan_class_names(const struct plan_world *w, struct arena *arena,
                                   size_t *ret_len);

// --- What if -------------------------------------------------------------------------------------

// Each changes the world. They return 0, -ERR_NOT_FOUND for a name that no object has (the message
// lists the known ones), or -ERR_INVALID for text that cannot be read.

// plan_drain cordons a node and evicts its pods, which have to find another place. A pod whose
// disruption budget allows no eviction stays, and so do pods of DaemonSets.
int plan_drain(struct plan_world *w, struct str node, struct err *err) MUST_USE;

// plan_taint taints devices. text is DRIVER[/POOL[/DEVICE]]=KEY[=VALUE]:EFFECT, or as in a
// DeviceTaintRule, with any selectors left out:
// driver=D,pool=P,device=X,key=K,value=V,effect=E. NoExecute evicts who does not tolerate it.
int plan_taint(struct plan_world *w, struct str text, struct err *err) MUST_USE;

// plan_without removes a claim, NAMESPACE/NAME or NAME, with what it holds and the pods that need
// it.
int plan_without(struct plan_world *w, struct str claim, struct err *err) MUST_USE;

// plan_add_node adds empty nodes: like=NODE or profile=NAME, [,count=N][,name=PREFIX].
int plan_add_node(struct plan_world *w, struct str text, struct err *err) MUST_USE;

// --- Answers -------------------------------------------------------------------------------------

struct plan_options {
    enum alloc_policy policy;
    const struct features *features; // NULL: defaults of the newest release
    struct str node;                 // only this one; empty: all
    const struct clock *clock;       // the current time; NULL: a fixed one
    bool alone;                      // of plan_why: pods before it are not placed first
    bool show_running;               // in text: what is placed already, too
    bool only_verdict;               // whether everything fits; nothing is explained
};

enum plan_status {
    PLAN_PLACED,  // it would land here
    PLAN_RUNNING, // it is there already
    PLAN_NO,      // it fits nowhere, or a drain cannot evict it from node
    PLAN_ERROR,   // it cannot be planned, such as a pod whose template is missing
};

struct plan;

// plan_make places everything that is not placed yet, in order of priority, then of the files.
// Returns 0, or -ERR_NOT_FOUND when options->node does not exist.
int plan_make(struct plan_world *w, const struct plan_options *options, struct plan **ret,
              struct err *err) MUST_USE;

// plan_why answers for one pod or claim: [pod/|claim/][NAMESPACE/]NAME. Those before it in the
// files are placed first; those behind it are not there. Returns as plan_make, or -ERR_NOT_FOUND
// when there is none of that name.
int plan_why(struct plan_world *w, struct str name, const struct plan_options *options,
             struct plan **ret, struct err *err) MUST_USE;

// plan_needed finds the smallest number of nodes of some kinds (as of plan_add_node, without count)
// with which everything has its place, and makes the plan with them. It was tried that one node
// less of all kinds does not do, whichever. Of several ways to the same number the one with the
// most of the kinds that come first is taken. Returns 0; -ERR_INVALID or -ERR_NOT_FOUND for a kind
// that cannot be read, or when no number does; -ERR_TOO_LARGE when the kinds mix too badly.
int plan_needed(struct plan_world *w, const struct str *kinds, size_t kinds_len,
                const struct plan_options *options, struct plan **ret, struct err *err) MUST_USE;

void plan_free(struct plan *p);

// plan_complete returns whether everything has its place.
bool plan_complete(const struct plan *p);

// plan_steps counts pods and claims; plan_step_at gets one.
struct plan_step {
    struct str name; // "pod default/a" or "claim default/b"
    enum plan_status status;
    struct str node;
    struct str devices; // for people
    struct str summary; // why not, in a line
    struct str why;     // the scheduler's explanation of one that waits, as JSON; may be empty
};
size_t plan_steps(const struct plan *p);
struct plan_step plan_step_at(const struct plan *p, size_t i);

// plan_text writes a table and, for what does not fit, why and what would help. plan_json writes
// the same as an object.
void plan_text(const struct plan *p, struct sbuf *out);
void plan_json(const struct plan *p, struct sbuf *out);

// plan_notes are lines about the input that a person should see, such as objects given twice.
void plan_notes(const struct plan *p, struct sbuf *out);

#endif
